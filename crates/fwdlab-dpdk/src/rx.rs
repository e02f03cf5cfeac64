//! The DPDK receiver: the receive queues of a port, for the thread that polls them.
//!
//! A card loses frames before this thread sees them if its queues are full; the port counts those.
//! Start with [`receiver`].

use std::sync::Arc;

use fwdlab_engine::analysis::Analysis;
use fwdlab_engine::polling::{Poll, PollingReceiver, Sink};
use fwdlab_engine::{Counting, EngineError, Expected, PortSpec, ReceiveCounts, Receiver};

use crate::port::{self, Port};
use crate::sys::{self, Burst};

/// Opens a receiver on this port, whose thread runs on these CPUs; empty: any.
pub(crate) fn receiver(spec: &PortSpec, cpus: &[usize]) -> Result<DpdkReceiver, EngineError> {
    let port = port::open(spec)?;
    port.begin_receiving()?;
    let queues = Queues {
        port: port.clone(),
        burst: Burst::new(),
        has_entered: false,
    };
    Ok(DpdkReceiver {
        thread: PollingReceiver::open(Counting::Dpdk, queues, cpus)?,
        port,
    })
}

/// The receiver of a port.
pub(crate) struct DpdkReceiver {
    thread: PollingReceiver,
    port: Arc<Port>,
}

/// The receive queues of a port, for its only receiver.
struct Queues {
    port: Arc<Port>,
    burst: Burst,
    /// True once the thread has its caches.
    has_entered: bool,
}

impl Poll for Queues {
    #[inline]
    fn poll(&mut self, sink: &Sink) -> bool {
        if !self.has_entered {
            sys::enter();
            self.has_entered = true;
        }
        let mut any = false;
        for queue in 0..self.port.receive_queues {
            let Some(received) = self.burst.receive(self.port.device, queue) else {
                continue;
            };
            any = true;
            let mut burst = sink.burst();
            let mut taken = 0;
            for frame in received.frames() {
                taken += 1;
                match frame {
                    Some(frame) => burst.frame(frame),
                    None => burst.malformed(1),
                }
            }
            self.port.took(taken);
        }
        any
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        if self.has_entered {
            sys::leave();
        }
        self.port.end_receiving();
    }
}

impl Receiver for DpdkReceiver {
    fn name(&self) -> &'static str {
        self.thread.name()
    }

    fn expect(&mut self, expected: &Expected) -> Result<(), EngineError> {
        self.port.expect()?;
        self.thread.expect(expected)
    }

    fn counts(&mut self) -> Result<ReceiveCounts, EngineError> {
        self.thread.counts()
    }

    fn analysis(&mut self) -> Result<Option<Analysis>, EngineError> {
        self.thread.analysis()
    }
}
