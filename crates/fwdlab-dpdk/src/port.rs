//! Ports by name: a sender and a receiver on one name share one device, which is set up when the
//! first of them opens it and given back with the last.
//!
//! A port knows its queues, who uses them, and how many frames its driver accepted and sent.
//! Nothing here sends or examines frames. Start with [`open`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use std::{io, thread};

use fwdlab_engine::port::within;
use fwdlab_engine::sender::{Counters, Room, Slot};
use fwdlab_engine::{EngineError, PortSpec};
use fwdlab_model::dpdk::{MOST_QUEUES, device, is_virtual, queues};

use crate::environment::{logged, start};
use crate::sys::{self, BURST, Batch, Burst, Device, Info, Pool, Stats};

/// Descriptors to receive, of all queues together, and of each at least: a receiver that has to
/// wait for its CPU loses no frame for that long. The driver may allow fewer.
const RECEIVE_DESCRIPTORS: u16 = 4096;
const LEAST_DESCRIPTORS: u16 = 512;

/// Descriptors of each queue to send into, if the driver allows that many: few enough for their
/// frames to stay in the caches of the CPU.
const SEND_DESCRIPTORS: u16 = 1024;

/// Buffers of a queue to send from: those in the ring of the driver, in the caches of the threads
/// that return them, and in bursts.
const SEND_BUFFERS: u16 = MOST_BUFFERS as u16 - 1;
const MOST_BUFFERS: usize = 4096;

/// How long the start of a trial waits for a link: a card negotiates for some seconds.
const LINK_PATIENCE: Duration = Duration::from_secs(10);

/// How long the end of a trial waits for the counter of the next frames that leave: cards whose
/// firmware counts update it once a second.
const DRAIN_QUIET: Duration = Duration::from_millis(1200);
const DRAIN_PAUSE: Duration = Duration::from_micros(100);

/// The remedy if DPDK has no memory for buffers.
const MORE_MEMORY: &str = "free or add huge pages: echo 512 > /proc/sys/vm/nr_hugepages";

/// The ports that are open in this process, by their device arguments.
static OPEN: Mutex<Option<HashMap<String, Weak<Port>>>> = Mutex::new(None);

/// A port that is set up.
pub(crate) struct Port {
    name: String,
    pub is_virtual: bool,
    pub device: Device,
    pub info: Info,
    pub receive_queues: u16,
    send_descriptors: u16,
    send_queues: Vec<QueueState>,
    has_receiver: AtomicBool,
    /// Frames that its receiver took from the driver.
    taken: AtomicU64,
    /// The device's counters, and `taken`, when the receiver's trial began.
    trial: Mutex<(Stats, u64)>,
    /// Frames that the driver accepted and that count as not sent.
    written_off: Mutex<u64>,
    /// Frames that the device had sent and received before it was set up.
    before: Stats,
    /// The pool of the receive queues, which the device uses.
    _pool: Pool,
}

#[derive(Default)]
#[repr(align(128))]
struct QueueState {
    /// Frames that the driver accepted; only the queue's user writes it.
    accepted: AtomicU64,
    is_used: AtomicBool,
    /// Its pool, once it was used.
    pool: Mutex<Option<Pool>>,
}

/// A queue to send into, for its only user; given back when dropped.
pub(crate) struct SendQueue {
    pub port: Arc<Port>,
    pub number: u16,
    pub batch: Batch,
    /// The contents of each buffer of the pool.
    slots: Box<[Slot; MOST_BUFFERS]>,
    accepted: u64,
}

/// Opens the port with this name, or returns the open one.
///
/// # Errors
/// If it is not the name of a DPDK port, there is no such device, or it cannot be set up.
pub(crate) fn open(spec: &PortSpec) -> Result<Arc<Port>, EngineError> {
    let failed = |reason| failed(&spec.interface, reason);
    let name = device(&spec.interface).map_err(failed)?;
    let mut all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    if let Some(port) = all.get(name).and_then(Weak::upgrade) {
        return Ok(port);
    }
    start(name).map_err(failed)?;
    logged();
    // virtual devices on network interfaces look for them where they are created
    let port = within(&spec.netns, || set_up(spec, name).map_err(failed))?;
    let port = Arc::new(port);
    all.insert(name.into(), Arc::downgrade(&port));
    Ok(port)
}

fn failed(port: &str, reason: String) -> EngineError {
    EngineError::Dpdk {
        port: port.into(),
        reason,
    }
}

fn set_up(spec: &PortSpec, name: &str) -> Result<Port, String> {
    let answer = |action: &str, error: io::Error| format!("cannot {action}: {error}{}", logged());
    let (name, queues) = queues(name)?;
    let name = &*name;
    let device = Device::probe(name).map_err(|error| {
        let remedy = match is_virtual(name) {
            true => "check its name and options, and that the package of its driver (librte-net-...) is installed",
            false => "check its address, and bind it to vfio-pci: dpdk-devbind.py --bind=vfio-pci ADDRESS",
        };
        format!("{}; {remedy}", answer("open the device", error))
    })?;
    let device = device.ok_or("the device has no port")?;
    let info = device
        .info()
        .map_err(|e| answer("read what the device is", e))?;
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let most = match (queues, is_virtual(name)) {
        (Some(queues), _) => queues,
        // the other end of a virtual device may have no more
        (None, true) => 1,
        (None, false) => MOST_QUEUES.min(cpus as u16),
    };
    let (most_receive, send) = (info.max_receive_queues, most.min(info.max_send_queues));
    let receive = match is_virtual(name) {
        // the queues of some virtual devices are pairs
        true => most.min(most_receive).min(send),
        // without RSS all frames are in the first queue, in their order
        false => most_receive.min(1),
    };
    let descriptors = (RECEIVE_DESCRIPTORS / receive.max(1)).max(LEAST_DESCRIPTORS);
    let setup = device
        .configure((receive, send), (descriptors, SEND_DESCRIPTORS))
        .map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::OutOfMemory => format!("; {MORE_MEMORY}"),
                _ => String::new(),
            };
            let action = format!("set up {receive} receive and {send} send queues");
            answer(&action, error) + &remedy
        })?;
    let before = device.stats().unwrap_or_default();
    Ok(Port {
        name: spec.interface.clone(),
        is_virtual: is_virtual(name),
        device,
        info,
        receive_queues: receive,
        send_descriptors: setup.send_descriptors,
        send_queues: (0..send).map(|_| QueueState::default()).collect(),
        has_receiver: AtomicBool::new(false),
        taken: AtomicU64::new(0),
        trial: Mutex::new((before, 0)),
        written_off: Mutex::new(0),
        before,
        _pool: setup.pool,
    })
}

impl Drop for Port {
    fn drop(&mut self) {
        // the device must not be opened while it is given back
        let mut all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        self.empty();
        self.device.close();
        if let Some(all) = all.as_mut() {
            all.retain(|_, port| port.strong_count() > 0);
        }
    }
}

impl Port {
    /// Releases what was received and not read. Rings of DPDK outlive their device, and would
    /// return buffers of pools that are gone.
    fn empty(&self) {
        let mut burst = Burst::new();
        for queue in 0..self.receive_queues {
            let bursts = usize::from(RECEIVE_DESCRIPTORS) / BURST;
            let more = |_: &usize| burst.receive(self.device, queue).is_some();
            let _ = (0..=bursts).take_while(more).count();
        }
    }

    pub(crate) fn error(&self, reason: impl Into<String>) -> EngineError {
        failed(&self.name, reason.into())
    }

    /// Returns the number of its queues to send into.
    pub(crate) fn send_queues(&self) -> u16 {
        self.send_queues.len() as u16
    }

    /// Returns the length of the longest frame that it can send, without FCS.
    pub(crate) fn longest_frame(&self) -> usize {
        /// Ethernet's header and two VLAN tags.
        const HEADERS: usize = 14 + 2 * 4;
        sys::room().min(usize::from(self.info.mtu) + HEADERS)
    }

    /// Takes a queue to send into.
    ///
    /// # Errors
    /// If it is in use, or there is no memory for its buffers.
    pub(crate) fn take_queue(self: &Arc<Port>, number: u16) -> Result<SendQueue, EngineError> {
        let state = &self.send_queues[usize::from(number)];
        let mut pool = state.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.is_none() {
            let new = Pool::new(SEND_BUFFERS, self.info.numa_node());
            let new = new.map_err(|error| {
                self.error(format!(
                    "no memory for {SEND_BUFFERS} buffers of send queue {number}: {error}{}; {MORE_MEMORY}",
                    logged()
                ))
            })?;
            *pool = Some(new);
        }
        let pool = pool.as_ref().expect("it was just set");
        if state.is_used.swap(true, Ordering::AcqRel) {
            return Err(self.error("it has a sender already; end that first"));
        }
        Ok(SendQueue {
            batch: Batch::new(pool),
            port: self.clone(),
            number,
            slots: Box::new([Slot::EMPTY; MOST_BUFFERS]),
            accepted: state.accepted.load(Ordering::Relaxed),
        })
    }

    /// Becomes the port of a receiver, until [`end_receiving`](Self::end_receiving).
    ///
    /// # Errors
    /// If it has one.
    pub(crate) fn begin_receiving(&self) -> Result<(), EngineError> {
        match self.has_receiver.swap(true, Ordering::AcqRel) {
            true => Err(self.error("it has a receiver already; end that first")),
            false => Ok(()),
        }
    }

    pub(crate) fn end_receiving(&self) {
        self.has_receiver.store(false, Ordering::Release);
    }

    /// Counts the frames that are lost before the receiver from now on.
    pub(crate) fn expect(&self) -> Result<(), EngineError> {
        let begin = (self.stats()?, self.taken.load(Ordering::Relaxed));
        *self.trial.lock().unwrap_or_else(PoisonError::into_inner) = begin;
        Ok(())
    }

    /// Returns the frames that the tester lost since the receiver's trial began.
    pub(crate) fn missed(&self) -> Result<u64, EngineError> {
        let (before, taken_before) = *self.trial.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = self.taken.load(Ordering::Relaxed) - taken_before;
        Ok(lost(before, self.stats()?, taken))
    }

    /// Counts frames that its receiver took.
    #[inline]
    pub(crate) fn took(&self, frames: u64) {
        // only one thread writes
        let taken = self.taken.load(Ordering::Relaxed);
        self.taken.store(taken + frames, Ordering::Relaxed);
    }

    /// Reads the counters of the device.
    pub(crate) fn stats(&self) -> Result<Stats, EngineError> {
        let stats = self.device.stats();
        stats.map_err(|error| self.error(format!("cannot read its counters: {error}")))
    }

    /// Waits until it has a link.
    ///
    /// # Errors
    /// If it has none for some seconds.
    pub(crate) fn wait_for_link(&self) -> Result<(), EngineError> {
        let begin = Instant::now();
        while self.device.link().is_none() {
            if begin.elapsed() > LINK_PATIENCE {
                return Err(self.error(format!(
                    "no link after {} s; check the cable and that its other end is up",
                    LINK_PATIENCE.as_secs()
                )));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Returns the frames that its driver accepted, from all threads.
    fn accepted(&self) -> u64 {
        let accepted = self.send_queues.iter();
        accepted.map(|q| q.accepted.load(Ordering::Acquire)).sum()
    }

    /// Returns the frames that it sent since it was set up.
    fn sent(&self) -> u64 {
        // without counters, everything that was accepted counts as sent
        let sent = self.device.stats().map_or(u64::MAX, |stats| stats.sent);
        sent.saturating_sub(self.before.sent)
    }

    /// Begins a trial: what was accepted before and not sent, is not of this trial.
    pub(crate) fn begin(&self) {
        let mut written_off = self.lock_written_off();
        *written_off = self.accepted().saturating_sub(self.sent());
    }

    /// Waits until the frames that its driver accepted have left. Returns the number of those that
    /// have not, of the caller's `own`.
    pub(crate) fn drain(&self, own: u64) -> u64 {
        if own == 0 {
            return 0;
        }
        let mut written_off = self.lock_written_off();
        let accepted = self.accepted();
        let ring = u64::from(self.send_descriptors) * self.send_queues.len() as u64;
        let left = || left_in_rings(accepted, *written_off, self.sent(), ring);
        let left = wait_until_none(left, DRAIN_QUIET).min(own);
        *written_off += left;
        left
    }

    fn lock_written_off(&self) -> std::sync::MutexGuard<'_, u64> {
        self.written_off
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how many accepted frames are not sent, without those written off. A driver that accepted
/// more than its rings hold and has sent none, does not count: then all are sent.
fn left_in_rings(accepted: u64, written_off: u64, sent: u64, rings: u64) -> u64 {
    match sent == 0 && accepted > rings {
        true => 0,
        false => accepted.saturating_sub(written_off).saturating_sub(sent),
    }
}

/// Waits until no frame is left, or their number has not changed for this time; returns it.
fn wait_until_none(mut left: impl FnMut() -> u64, quiet: Duration) -> u64 {
    let mut progress = (left(), Instant::now());
    while progress.0 > 0 && progress.1.elapsed() < quiet {
        thread::sleep(DRAIN_PAUSE);
        let now = left();
        if now != progress.0 {
            progress = (now, Instant::now());
        }
    }
    progress.0
}

/// Returns the frames that were lost between two readings of a device's counters, of which this
/// number was taken: no descriptor or buffer was free, or they were damaged. Some drivers only
/// count frames without a free buffer as received. While frames arrive, the result includes those
/// that are still in the ring.
fn lost(before: Stats, now: Stats, taken: u64) -> u64 {
    let received = now.received.saturating_sub(before.received);
    now.missed.saturating_sub(before.missed) + received.saturating_sub(taken)
}

impl SendQueue {
    /// Returns the frames that its driver accepted since the port was set up.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Passes waiting frames to the driver, and counts the streams of those that it took.
    #[inline]
    pub(crate) fn send(&mut self, streams: Option<&Counters>) {
        let sent = self.batch.send(self.port.device, self.number);
        if let Some(counters) = streams {
            let mut streams = counters.tally();
            for index in sent {
                streams.add(self.slots[*index as usize].stream);
            }
        }
        self.accepted += sent.len() as u64;
        let state = &self.port.send_queues[usize::from(self.number)];
        state.accepted.store(self.accepted, Ordering::Release);
    }

    /// Forgets the contents of all buffers.
    pub(crate) fn forget(&mut self) {
        self.slots.fill(Slot::EMPTY);
    }

    /// Takes buffers, if it has none.
    #[inline]
    pub(crate) fn refill(&mut self) {
        let slots = &mut self.slots;
        (self.batch).refill(|index| slots[index] = Slot::EMPTY);
    }
}

/// Room for frames in the buffers that it has.
impl Room for SendQueue {
    #[inline]
    fn next(&mut self) -> Option<(&mut [u8], Slot)> {
        let (index, data) = self.batch.blank()?;
        Some((data, self.slots[index % MOST_BUFFERS]))
    }

    #[inline]
    fn filled(&mut self, slot: Slot) {
        // always below; the compiler does not know
        let index = self.batch.write(slot.bytes) % MOST_BUFFERS;
        self.slots[index] = slot;
    }
}

impl Drop for SendQueue {
    fn drop(&mut self) {
        self.batch.give_back();
        let state = &self.port.send_queues[usize::from(self.number)];
        state.is_used.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_left_in_rings_are_not_sent() {
        assert_eq!(left_in_rings(1000, 0, 990, 512), 10);
        assert_eq!(left_in_rings(1000, 10, 990, 512), 0);
        // they left after all
        assert_eq!(left_in_rings(1000, 10, 1000, 512), 0);
        // nothing was counted: a ring may hold them all, but no more than that
        assert_eq!(left_in_rings(512, 0, 0, 512), 512);
        assert_eq!(left_in_rings(513, 0, 0, 512), 0);
    }

    /// vmxnet3 counts a frame as received for which it found no buffer, and nowhere else.
    #[test]
    fn received_frames_that_were_not_taken_are_lost_by_the_tester() {
        let at = |received, missed| Stats {
            received,
            missed,
            ..Stats::default()
        };
        assert_eq!(lost(at(10, 1), at(110, 1), 100), 0);
        assert_eq!(lost(at(10, 1), at(110, 4), 90), 13);
        // some arrived before the trial
        assert_eq!(lost(at(10, 0), at(110, 0), 105), 0);
    }

    #[test]
    fn the_end_waits_as_long_as_frames_leave() {
        let mut numbers = (0..100_u64).rev().chain([0]);
        let left = || numbers.next().expect("it asks no more when none is left");
        assert_eq!(wait_until_none(left, Duration::from_secs(60)), 0);
        let mut numbers = [9, 8, 7].into_iter();
        let left = || numbers.next().unwrap_or(5);
        assert_eq!(wait_until_none(left, Duration::from_millis(5)), 5);
    }
}
