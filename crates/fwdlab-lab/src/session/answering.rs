//! Answers ARP and neighbour discovery: a port that receives test frames is their sender's next
//! hop, whose MAC address the sender asks for.
//!
//! Answers only for addresses reserved for benchmarks and documentation, which `send`, `ping` and
//! the console use by default. The kernel keeps its tables, and a host that checks whether an
//! address is free gets no answer. Start with [`Answering::start`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fwdlab_engine::af_packet::SinglePort;
use fwdlab_engine::resolve::reply;

use crate::error::LabError;
use crate::ports::Port;
use crate::ports::destinations::is_for_tests;

/// Interval at which the thread checks whether it should stop.
const SLICE: Duration = Duration::from_millis(50);

/// A thread that answers ARP and neighbour solicitations on a port until this is dropped.
pub struct Answering {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Answering {
    /// Answers with the port's own MAC address. A port without one does not answer.
    ///
    /// # Errors
    /// Fails if the port cannot be opened.
    pub fn start(port: &Port) -> Result<Answering, LabError> {
        let stop = Arc::new(AtomicBool::new(false));
        let Some(ours) = port.facts.mac else {
            return Ok(Answering { stop, thread: None });
        };
        let single = SinglePort::open_for_questions(&port.spec)?;
        let until = stop.clone();
        let work = move || {
            let mut buffer = [0; 128];
            while !until.load(Ordering::Relaxed) {
                // the session detects that a port is gone
                let Ok(len) = single.receive(&mut buffer, SLICE) else {
                    return;
                };
                let question = len.and_then(|len| buffer.get(..len));

                if let Some(answer) = question.and_then(|frame| reply(frame, ours, is_for_tests)) {
                    let _ = single.send(&answer);
                }
            }
        };
        let thread = thread::Builder::new()
            .name("fwdlab-answer".into())
            .spawn(work)
            .map_err(|e| LabError::system("start the thread that answers ARP", e))?;
        Ok(Answering {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
