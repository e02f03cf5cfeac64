//! The memif receiver: the rings of a port, for the thread that polls them.
//!
//! Frames with broken descriptors count as foreign. Frames that arrived before a peer restarted are
//! read before those of its successor. Start with [`receiver`].

use super::port::{Half, Port};
use super::ring::Incoming;
use crate::error::EngineError;
use crate::generator::Counting;
use crate::polling::{Poll, PollingReceiver, Sink};
use crate::sender::thread::BATCH;

/// The incoming rings of the connection of the moment.
struct Rings {
    half: Half<Incoming>,
    /// Keeps the connection open.
    _port: Port,
}

/// Opens the receiver of a port.
pub(super) fn receiver(port: &Port, cpus: &[usize]) -> Result<PollingReceiver, EngineError> {
    let rings = Rings {
        half: Half::new(port),
        _port: port.clone(),
    };
    PollingReceiver::open(Counting::Memif, rings, cpus)
}

impl Poll for Rings {
    #[inline]
    fn poll(&mut self, sink: &Sink) -> bool {
        let half = &mut self.half;
        let mut any = false;
        for ring in 0..half.rings.len() {
            match half.rings[ring].poll() {
                Ok(0) => {}
                Ok(frames) => {
                    any = true;
                    // it may have filled up, and been read in part, since the last look
                    if usize::from(frames) + BATCH >= half.rings[ring].size() {
                        half.was_full();
                    }
                    take(&mut half.rings[ring], sink);
                }
                Err(fault) => {
                    finish(half.broken(fault), sink);
                    break;
                }
            }
        }
        if let Some(old) = half.renew() {
            finish(old, sink);
        }
        any
    }
}

/// Reads what is in the rings of a connection that has ended: no more than they hold.
#[cold]
fn finish(rings: Vec<Incoming>, sink: &Sink) {
    for mut ring in rings {
        // what was there before a fault has been counted in `available`
        let _ = ring.poll();
        while take(&mut ring, sink) > 0 {}
    }
}

/// Takes frames that the last look found.
#[inline]
fn take(ring: &mut Incoming, sink: &Sink) -> usize {
    let mut burst = sink.burst();
    let malformed = ring.malformed();
    let frames = ring.frames(|frame| burst.frame(frame));
    burst.malformed(ring.malformed() - malformed);
    frames
}
