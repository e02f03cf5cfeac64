//! The publisher: wakes up its subscribers when there are events, which they then request by RPC.
//!
//! A subscriber that does not read is disconnected, and does not delay others: each has its own
//! writing thread and queue.

use std::net::TcpStream;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::limits;
use crate::zmtp::{Kind, Peer, Received};

/// What to write to a subscriber.
enum Published {
    Message(Vec<u8>),
    Pong(Vec<u8>),
}

/// All subscribers.
#[derive(Default)]
pub struct Publisher {
    subscribers: Mutex<Vec<SyncSender<Published>>>,
}

impl Publisher {
    /// Sends a message to all subscribers.
    pub fn publish(&self, message: &[u8]) {
        self.lock().retain(|subscriber| {
            subscriber
                .try_send(Published::Message(message.to_vec()))
                .is_ok()
        });
    }

    /// Serves one subscriber until it disconnects; calls `hears` whenever the subscriber has sent
    /// something.
    pub fn serve(&self, stream: TcpStream, hears: &dyn Fn()) -> std::io::Result<()> {
        let mut peer = Peer::shake_hands(stream, Kind::Pub)?;
        peer.extend_timeout()?;
        let mut other = peer.try_clone()?;
        let (queue, waiting) = sync_channel(limits::WAKE_UPS);
        self.lock().push(queue.clone());
        thread::Builder::new()
            .name("trex-publish".into())
            .spawn(move || write(&mut other, &waiting))?;
        // subscriptions are ignored: everyone gets everything, and subscribing sockets filter it
        // themselves
        let ended = loop {
            let received = peer.receive();
            hears();
            match received {
                Ok(Received::Ping(context)) => match queue.try_send(Published::Pong(context)) {
                    Ok(()) => {}
                    Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => break Ok(()),
                },
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        };
        peer.close();
        ended
    }

    fn lock(&self) -> MutexGuard<'_, Vec<SyncSender<Published>>> {
        self.subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes queued messages until there are no more senders or the other end is gone.
fn write(peer: &mut Peer, waiting: &Receiver<Published>) {
    for out in waiting {
        let written = match out {
            Published::Message(message) => peer.send(&[&message]),
            Published::Pong(context) => peer.pong(&context),
        };
        if written.is_err() {
            break;
        }
    }
    peer.close();
}
