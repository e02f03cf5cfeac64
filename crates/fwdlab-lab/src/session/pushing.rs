//! Sends some frames out of a port by hand, at once or one after another with a gap, without
//! blocking the caller.
//!
//! They leave through the kernel's queues, so that captures see them leave. Start with
//! [`Pusher::open`].

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_engine::PortSpec;
use fwdlab_engine::af_packet::SinglePort;

use crate::error::LabError;

/// Maximum number of waiting orders.
const WAITING: usize = 16;

/// A port that sends the frames it is given.
pub struct Pusher {
    orders: SyncSender<Order>,
}

struct Order {
    frames: Vec<Vec<u8>>,
    gap: Duration,
}

impl Pusher {
    /// Opens the port.
    ///
    /// # Errors
    /// Fails if there is no such port, or without CAP_NET_RAW.
    pub fn open(spec: &PortSpec) -> Result<Pusher, LabError> {
        let port = SinglePort::open_to_send(spec)?;
        let (orders, work) = sync_channel::<Order>(WAITING);
        let thread = thread::Builder::new().name("push".into());
        let work = move || {
            for order in work {
                let mut due: Option<Instant> = None;
                for frame in &order.frames {
                    if let Some(due) = due {
                        thread::sleep(due.saturating_duration_since(Instant::now()));
                    }
                    // a link that is down accepts none, which its counters show
                    let _ = port.send(frame);
                    // counted from the time at which the first has left: on a busy host it leaves
                    // late
                    due = Some(due.unwrap_or_else(Instant::now) + order.gap);
                }
            }
        };
        thread.spawn(work).map_err(|source| LabError::System {
            what: format!("start a thread for {}", spec.interface),
            source,
        })?;
        Ok(Pusher { orders })
    }

    /// Sends these frames after those that were handed over before. `false`: too many orders are
    /// waiting.
    pub fn push(&self, frames: Vec<Vec<u8>>, gap: Duration) -> bool {
        !matches!(
            self.orders.try_send(Order { frames, gap }),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_))
        )
    }
}
