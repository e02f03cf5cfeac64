//! The packet sender: batches of frames, patched in place, through one socket per path.
//!
//! What counts as sent is what the port's counters say: on Linux 6.18, veth,
//!
//! - a frame the kernel took is one `tx_packets` (once the peer's NAPI, if it runs one, has fetched the frame);
//! - a frame that found the peer's queue full is one `tx_dropped`, and the sender gets ENOBUFS;
//! - a frame that could not even be given to the driver (stopped queue, no memory) gets ENOBUFS as well, and counts nowhere.
//!
//! The second was offered to the DUT and lost there; only the third was not sent. `sendmmsg` itself cannot tell: it
//! stops at the refused frame and returns the number before it. So the sender asks for `tx_dropped` after refusals and
//! calls as many of them sent as the port has dropped. Then `sent = tx_packets + tx_dropped` exactly, as long as nobody
//! else sends into the port.

use std::os::fd::OwnedFd;

use rustix::net::sockopt::set_socket_send_buffer_size;

use super::link_stats::LinkStats;
use super::sender::{BATCH, Counters, FrameSource, SocketSender, Transmit, write_any};
use super::sys::{self, Batch};
use crate::error::EngineError;
use crate::generator::{Capabilities, Mode, Sender, TestFrames};
use crate::port::{PathSpec, interface_index, within};
use crate::sys::monotonic_ns;

const CAPABILITIES: Capabilities = Capabilities {
    mode: Mode::AfPacket,
    summary: "AF_PACKET: sendmmsg of up to 64 frames past the queueing discipline, one thread",
    needs_privileges: false,
    counts_at_driver: true,
};

/// Frames in the DUT's queue are charged to the socket. The kernel grants less where `net.core.wmem_max` says so.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// While frames are refused, ask the port for its drops no more often than this: a question costs about 3 µs.
const ASK_EVERY_NS: u64 = 1_000_000;

/// Opens the sender on the sending ports of all paths.
///
/// # Errors
/// An interface that does not exist, or no CAP_NET_RAW in its namespace.
pub fn sender(paths: &[PathSpec], cpus: &[usize]) -> Result<impl Sender + use<>, EngineError> {
    let Some(first) = paths.first() else {
        return Err(EngineError::Frames("a sender needs a path".into()));
    };
    let ports = within(&first.tx.netns, || {
        LinkStats::open().map_err(|e| EngineError::system("open a routing socket", e))
    })?;
    let sockets = paths.iter().map(Socket::open).collect::<Result<_, _>>()?;
    let transmit = PacketTransmit {
        sockets,
        batch: Batch::new(0, 1),
        link_stats: ports,
    };
    Ok(SocketSender::new(CAPABILITIES, paths.len(), cpus, transmit))
}

struct PacketTransmit {
    sockets: Vec<Socket>,
    batch: Batch,
    link_stats: LinkStats,
}

struct Socket {
    interface: String,
    index: u32,
    socket: OwnedFd,
    tally: Tally,
}

/// What became of one path's frames in this trial.
#[derive(Default)]
struct Tally {
    accepted: u64,
    refused: u64,
    /// Of the refused: dropped by the port, as far as we have asked.
    dropped: u64,
    /// The port's `tx_dropped` when the trial began.
    dropped_before: u64,
    asked_ns: u64,
}

impl Socket {
    fn open(path: &PathSpec) -> Result<Socket, EngineError> {
        let interface = path.tx.interface.clone();
        let what = || format!("open a packet socket on {interface}");
        let (index, socket) = within(&path.tx.netns, || {
            let index = interface_index(&path.tx.interface)?;
            let socket = sys::open().map_err(|e| EngineError::system(what(), e))?;
            Ok((index, socket))
        })?;
        sys::bind(&socket, index, 0)
            .and_then(|()| sys::bypass_qdisc(&socket))
            .map_err(|e| EngineError::system(what(), e))?;
        set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES)
            .map_err(|e| EngineError::system(what(), e))?;
        Ok(Socket {
            interface,
            index,
            socket,
            tally: Tally::default(),
        })
    }

    fn tx_dropped(&self, link_stats: &LinkStats) -> Result<u64, EngineError> {
        link_stats
            .tx_dropped(self.index)
            .map_err(|e| EngineError::system(format!("read the counters of {}", self.interface), e))
    }

    /// How many of the refused frames has the port dropped?
    fn ask(&mut self, link_stats: &LinkStats) -> Result<(), EngineError> {
        let dropped = self.tx_dropped(link_stats)?;
        self.tally.dropped = dropped
            .saturating_sub(self.tally.dropped_before)
            .min(self.tally.refused);
        Ok(())
    }

    fn publish(&self, path: usize, counters: &Counters) {
        let tally = &self.tally;
        counters.set_sent(path, tally.accepted + tally.dropped);
        counters.set_refused(path, tally.refused - tally.dropped);
    }
}

impl Transmit for PacketTransmit {
    fn arm(&mut self, frames: &TestFrames) -> Result<(), EngineError> {
        self.batch = Batch::new(BATCH, frames.template.buffer_len());
        for index in 0..BATCH {
            write_any(frames, self.batch.frame(index));
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), EngineError> {
        for socket in &mut self.sockets {
            socket.tally = Tally {
                dropped_before: socket.tx_dropped(&self.link_stats)?,
                ..Tally::default()
            };
        }
        Ok(())
    }

    fn send(
        &mut self,
        path: usize,
        count: usize,
        frames: &mut FrameSource,
        counters: &Counters,
    ) -> Result<usize, EngineError> {
        let first = frames.sequence();
        for index in 0..count {
            frames.write_next(self.batch.frame(index));
        }
        let socket = &mut self.sockets[path];
        let accepted = match self.batch.send(&socket.socket, count) {
            Ok(accepted) => accepted,
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOBUFS) => 0,
                // told to stop while waiting for room: nothing happened
                Some(libc::EINTR) => {
                    frames.rewind_to(first);
                    return Ok(0);
                }
                _ => {
                    let what = format!("send into {}", socket.interface);
                    return Err(EngineError::system(what, error));
                }
            },
        };
        socket.tally.accepted += accepted as u64;
        if accepted == count {
            socket.publish(path, counters);
            return Ok(count);
        }
        // the frame after the accepted ones was refused; those behind it have not been tried
        socket.tally.refused += 1;
        frames.rewind_to(first + accepted as u64 + 1);
        let now = monotonic_ns();
        if now - socket.tally.asked_ns >= ASK_EVERY_NS {
            socket.tally.asked_ns = now;
            socket.ask(&self.link_stats)?;
        }
        socket.publish(path, counters);
        Ok(accepted + 1)
    }

    fn end(&mut self, counters: &Counters) -> Result<(), EngineError> {
        for (path, socket) in self.sockets.iter_mut().enumerate() {
            if socket.tally.refused > 0 {
                socket.ask(&self.link_stats)?;
            }
            socket.publish(path, counters);
        }
        Ok(())
    }
}
