//! The DPDK sender: frames written into buffers that the driver sends.
//!
//! Every thread has a queue of its own on each port, and a pool of buffers for each queue, which is
//! used for nothing else: a buffer keeps its frame, so only the bytes that change are written. More
//! than half of the cost of a frame is the buffer itself. Frames that the driver does not take wait
//! for the next call, in their order. At the end of a trial the sender waits until the device has
//! counted the frames that the driver took; the others are not sent. Start with [`sender`].

use fwdlab_engine::sender::{Cached, Counters, Outline, Room, SocketSender, Source, Transmit};
use fwdlab_engine::{
    Capabilities, Copies, EngineError, Mode, PortSpec, Schedule, Sender, Timestamps,
};

use crate::port::{self, SendQueue};
use crate::sys;

/// Opens a sender into these ports, one for each path, with this number of threads.
pub(crate) fn sender(
    ports: &[PortSpec],
    cpus: &[usize],
    senders: u32,
) -> Result<impl Sender + use<>, EngineError> {
    let opened = ports.iter().map(port::open);
    let opened = opened.collect::<Result<Vec<_>, _>>()?;
    for port in &opened {
        let queues = port.send_queues();
        if senders == 0 || senders > queues.into() {
            return Err(port.error(format!(
                "{senders} senders, and it has {queues} queues to send into: every sender needs one; use 1 to \
                 {queues} senders"
            )));
        }
    }
    let transmits = (0..senders as u16).map(|queue| {
        let paths = opened.iter().map(|port| {
            let queue = port.take_queue(queue)?;
            Ok(PathQueue {
                before: queue.accepted(),
                queue,
            })
        });
        Ok(DpdkTransmit {
            paths: paths.collect::<Result<_, EngineError>>()?,
            cycle: None,
            at: 0,
            counts_streams: false,
        })
    });
    let transmits = transmits.collect::<Result<_, EngineError>>()?;
    Ok(SocketSender::with_threads(ports.len(), cpus, transmits))
}

struct DpdkTransmit {
    paths: Vec<PathQueue>,
    /// Frames that repeat, and the next of them.
    cycle: Option<Vec<Cached>>,
    at: usize,
    counts_streams: bool,
}

/// The queue of a path, and the frames that its driver accepted before this trial.
struct PathQueue {
    queue: SendQueue,
    before: u64,
}

impl PathQueue {
    #[inline]
    fn holds(&self) -> bool {
        self.queue.batch.waiting() > 0
    }

    /// Passes waiting frames to the driver. Returns true if it took them all.
    #[inline]
    fn push(&mut self, path: usize, counts_streams: bool, counters: &Counters) -> bool {
        if self.holds() {
            self.queue.send(counts_streams.then_some(counters));
            counters.set_sent(path, self.queue.accepted() - self.before);
        }
        let is_full = self.holds();
        if is_full {
            counters.ring_was_full();
        }
        !is_full
    }
}

impl Transmit for DpdkTransmit {
    fn capabilities(&self) -> Capabilities {
        let is_virtual = self.paths.iter().any(|path| path.queue.port.is_virtual);
        Capabilities {
            copies: match is_virtual {
                true => Copies::ByPeer,
                false => Copies::ZeroCopy,
            },
            profiles: true,
            hot_load: true,
            counts_at_driver: false,
            timestamps: Timestamps::Software,
            ..Capabilities::plain(
                Mode::Dpdk,
                "dpdk: a driver of DPDK, one thread with a queue of its own",
            )
        }
    }

    fn arm(&mut self, outline: &Outline) -> Result<(), EngineError> {
        for PathQueue { queue, .. } in &mut self.paths {
            let longest = queue.port.longest_frame();
            if outline.buffer_len > longest {
                return Err(queue.port.error(format!(
                    "frames of {} bytes without FCS are too long for it: it sends up to {longest}; use shorter \
                     frames",
                    outline.buffer_len
                )));
            }
            queue.forget();
        }
        self.counts_streams = outline.streams > 0;
        self.cycle = outline.numbered();
        Ok(())
    }

    fn begin(&mut self, _: &Schedule) -> Result<(), EngineError> {
        sys::enter();
        self.at = 0;
        for PathQueue { queue, before } in &mut self.paths {
            *before = queue.accepted();
            queue.port.begin();
            queue.port.wait_for_link()?;
        }
        Ok(())
    }

    #[inline]
    fn send<S: Source>(
        &mut self,
        path: usize,
        frames: &mut S,
        counters: &Counters,
    ) -> Result<(), EngineError> {
        // also those of another path, which was selected before
        for (number, other) in self.paths.iter_mut().enumerate() {
            if other.holds() && !other.push(number, self.counts_streams, counters) && number == path
            {
                return Ok(());
            }
        }
        let PathQueue { queue, .. } = &mut self.paths[path];
        queue.refill();
        match &self.cycle {
            None => frames.fill(queue),
            Some(cycle) => {
                while frames.has_next()
                    && let Some((buffer, slot)) = queue.next()
                {
                    let cached = &cycle[self.at];
                    frames.skip();
                    self.at = (self.at + 1) % cycle.len();
                    if slot.kind != cached.slot.kind {
                        buffer[..cached.bytes.len()].copy_from_slice(&cached.bytes);
                    }
                    queue.filled(cached.slot);
                }
            }
        }
        self.paths[path].push(path, self.counts_streams, counters);
        Ok(())
    }

    fn holds(&self) -> bool {
        self.paths.iter().any(PathQueue::holds)
    }

    fn end(&mut self, counters: &Counters) -> Result<(), EngineError> {
        for (path, PathQueue { queue, before }) in self.paths.iter_mut().enumerate() {
            let refused = queue.batch.give_up() as u64;
            let accepted = queue.accepted() - *before;
            let left = queue.port.drain(accepted);
            counters.set_sent(path, accepted - left);
            counters.set_refused(path, refused + left);
        }
        sys::leave();
        Ok(())
    }
}
