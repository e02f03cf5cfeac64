//! The agent on standard input and output, on a user's machine: ends with the stream, even if it is
//! busy.
//!
//! The process that started it cleans up after it, because a killed agent cannot. Start with
//! [`run`].

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::serve::serve_within;
use crate::host::wire::DEAF_FOR;

/// How long current work may take after the stream has ended.
const GRACE: Duration = Duration::from_millis(500);

/// How often to check when the other side was last heard.
const LOOK: Duration = Duration::from_millis(50);

/// Answers questions from standard input until it ends. Uploaded files go to this directory.
///
/// # Errors
/// The stream failed.
pub fn run(folder: &Path) -> Result<(), String> {
    let owned = |fd: io::Result<std::os::fd::OwnedFd>| fd.map(File::from).map_err(io_error_text);
    let input = owned(io::stdin().as_fd().try_clone_to_owned())?;
    let output = owned(io::stdout().as_fd().try_clone_to_owned())?;
    let (chunk, chunks) = channel();
    let sends = Arc::new(AtomicBool::new(false));
    let received = Arc::new(Mutex::new(Instant::now()));
    watch(sends.clone(), received.clone());
    std::thread::spawn(move || {
        forward_input(input, &chunk, &received);
        // an agent that waits for a question ends now; one that is busy gets a grace period
        drop(chunk);
        std::thread::sleep(GRACE);
        std::process::exit(0);
    });
    let mut stream = Stream {
        chunks,
        rest: Vec::new(),
        output,
    };
    serve_within(folder, &mut stream, &sends).map_err(io_error_text)
}

/// Ends this process, and its frames with it, if frames flow and the other side is silent: a dead
/// connection may look alive for a long time.
fn watch(sends: Arc<AtomicBool>, received: Arc<Mutex<Instant>>) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(LOOK);
            let silent = received
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .elapsed();
            if silent > DEAF_FOR && sends.load(Ordering::Acquire) {
                std::process::exit(1);
            }
        }
    });
}

fn io_error_text(error: io::Error) -> String {
    format!("the stream failed: {error}")
}

/// Reads until the end: it must be noticed while a question is being answered, too.
fn forward_input(mut input: impl Read, chunk: &Sender<Vec<u8>>, received: &Mutex<Instant>) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                *received.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                if chunk.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

struct Stream {
    chunks: Receiver<Vec<u8>>,
    /// Received but unread bytes, in reverse order.
    rest: Vec<u8>,
    output: File,
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            let Ok(next) = self.chunks.recv() else {
                return Ok(0);
            };
            self.rest = next;
            self.rest.reverse();
        }
        let length = buffer.len().min(self.rest.len());
        let from = self.rest.len() - length;
        for (to, byte) in buffer.iter_mut().zip(self.rest.drain(from..).rev()) {
            *to = byte;
        }
        Ok(length)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
