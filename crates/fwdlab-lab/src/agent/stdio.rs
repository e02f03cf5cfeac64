//! The agent on standard input and output, on a machine that is somebody's: it ends with the stream, whatever it is busy with.
//!
//! Who started it ends what it leaves behind when it dies: it cannot do that itself then. Start with [`run`].

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

/// When the stream has ended, whatever is being done may take so long.
const GRACE: Duration = Duration::from_millis(500);

/// How often it is looked whether somebody was heard.
const LOOK: Duration = Duration::from_millis(50);

/// Answers questions from standard input until that ends. Files are put into this folder.
///
/// # Errors
/// The stream failed.
pub fn run(folder: &Path) -> Result<(), String> {
    let owned = |fd: io::Result<std::os::fd::OwnedFd>| fd.map(File::from).map_err(said);
    let input = owned(io::stdin().as_fd().try_clone_to_owned())?;
    let output = owned(io::stdout().as_fd().try_clone_to_owned())?;
    let (chunk, chunks) = channel();
    let sends = Arc::new(AtomicBool::new(false));
    let heard = Arc::new(Mutex::new(Instant::now()));
    watch(sends.clone(), heard.clone());
    std::thread::spawn(move || {
        pass_on(input, &chunk, &heard);
        // who waits for the next question ends now; who is busy has a moment
        drop(chunk);
        std::thread::sleep(GRACE);
        std::process::exit(0);
    });
    let mut stream = Stream {
        chunks,
        rest: Vec::new(),
        output,
    };
    serve_within(folder, &mut stream, &sends).map_err(said)
}

/// Ends this process, and its frames with it, when frames flow and nobody is heard: a connection over which nothing comes any more may be
/// taken for one that is there for a long time.
fn watch(sends: Arc<AtomicBool>, heard: Arc<Mutex<Instant>>) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(LOOK);
            let silent = heard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .elapsed();
            if silent > DEAF_FOR && sends.load(Ordering::Acquire) {
                std::process::exit(1);
            }
        }
    });
}

fn said(error: io::Error) -> String {
    format!("the stream failed: {error}")
}

/// Reads to the end: that it has come must be noticed while a question is answered, too.
fn pass_on(mut input: impl Read, chunk: &Sender<Vec<u8>>, heard: &Mutex<Instant>) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                *heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
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
    /// What was received and not read, backwards.
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
