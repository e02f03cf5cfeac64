//! The functions of `shim.c`, and safe types around them: a port, a pool of buffers, and the
//! buffers that a thread holds.
//!
//! A [`Device`] and its [`Pool`]s live as long as the [`Port`](crate::port::Port) that owns both,
//! and every [`Batch`] and [`Burst`] belongs to a value that keeps that port. Start with [`start`],
//! then [`Device`].
#![allow(unsafe_code, reason = "calls of a library in C")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Buffers that a thread holds at a time: a burst.
pub(crate) const BURST: usize = fwdlab_engine::sender::BATCH;

/// Counters that are read of a driver, at most.
const MOST_COUNTERS: usize = 1024;

enum RawPool {}
enum RawBuffer {}

/// What is known of a device before it is set up.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Info {
    driver: [c_char; 64],
    pub mac: [u8; 6],
    pub mtu: u16,
    pub max_receive_queues: u16,
    pub max_send_queues: u16,
    numa_node: i32,
}

impl Info {
    pub(crate) fn driver(&self) -> String {
        text(&self.driver)
    }

    pub(crate) fn numa_node(&self) -> Option<u32> {
        self.numa_node.try_into().ok()
    }
}

/// Frames since the device was started, or longer.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Stats {
    pub received: u64,
    pub sent: u64,
    /// Lost before they could be received.
    pub missed: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Counter {
    name: [c_char; 64],
    value: u64,
}

unsafe extern "C" {
    fn fwd_logged(to: *mut c_char, room: usize);
    fn fwd_version() -> *const c_char;
    fn fwd_start(count: c_int, arguments: *mut *mut c_char) -> c_int;
    fn fwd_enter() -> c_int;
    fn fwd_leave();
    fn fwd_probe(device: *const c_char, first: *mut u16) -> c_int;
    fn fwd_info(port: u16, to: *mut Info) -> c_int;
    fn fwd_configure(
        port: u16,
        pool_name: *const c_char,
        receive_queues: u16,
        send_queues: u16,
        receive_descriptors: *mut u16,
        send_descriptors: *mut u16,
        pool: *mut *mut RawPool,
    ) -> c_int;
    fn fwd_close(port: u16);
    fn fwd_link(port: u16) -> u32;
    fn fwd_stats(port: u16, to: *mut Stats) -> c_int;
    fn fwd_counters(port: u16, to: *mut Counter, room: u32) -> c_int;
    fn fwd_pool(name: *const c_char, buffers: u16, node: i32, to: *mut *mut RawPool) -> c_int;
    fn fwd_free_pool(pool: *mut RawPool);
    fn fwd_room() -> u16;
    fn fwd_take(
        pool: *mut RawPool,
        buffers: *mut *mut RawBuffer,
        data: *mut *mut u8,
        indices: *mut u32,
        count: u16,
        changed: *mut u64,
    ) -> u16;
    fn fwd_send(
        port: u16,
        queue: u16,
        buffers: *mut *mut RawBuffer,
        lengths: *const u16,
        count: u16,
    ) -> u16;
    fn fwd_receive(
        port: u16,
        queue: u16,
        buffers: *mut *mut RawBuffer,
        data: *mut *mut u8,
        lengths: *mut u16,
        room: u16,
    ) -> u16;
    fn fwd_release(buffers: *mut *mut RawBuffer, count: u16);
}

fn text(from: &[c_char]) -> String {
    let bytes: Vec<u8> = from.iter().map(|c| c.cast_unsigned()).collect();
    let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

fn check(result: c_int) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

/// Returns the version of the DPDK that this process runs with.
pub(crate) fn version() -> String {
    // SAFETY: it returns a constant string.
    let version = unsafe { CStr::from_ptr(fwd_version()) };
    version.to_string_lossy().into_owned()
}

/// Returns what DPDK has logged since the last call.
pub(crate) fn logged() -> String {
    let mut bytes = [0; 2048];
    // SAFETY: it writes no more than this, and ends it with a 0.
    unsafe { fwd_logged(bytes.as_mut_ptr(), bytes.len()) };
    text(&bytes)
}

/// Starts DPDK with these arguments; only once in a process.
pub(crate) fn start(arguments: &[String]) -> io::Result<()> {
    let arguments = arguments.iter().map(|one| CString::new(one.as_str()));
    let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
    // DPDK keeps pointers to them
    let mut pointers: Vec<*mut c_char> = arguments.into_iter().map(CString::into_raw).collect();
    let count = pointers.len() as c_int;
    pointers.push(std::ptr::null_mut());
    let pointers = Box::leak(pointers.into_boxed_slice());
    // SAFETY: `count` strings that are never freed, with a null pointer after them.
    check(unsafe { fwd_start(count, pointers.as_mut_ptr()) }).map(drop)
}

/// Gives the calling thread caches of buffers; call [`leave`] at its end. Without them it is only
/// slower.
pub(crate) fn enter() {
    // SAFETY: it needs nothing but a started DPDK.
    let _ = unsafe { fwd_enter() };
}

/// Undoes [`enter`]; does nothing if the thread has not entered.
pub(crate) fn leave() {
    // SAFETY: as in `enter`; it returns cached buffers to pools, which know their own list.
    unsafe { fwd_leave() };
}

/// A port of DPDK, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Device(u16);

/// Returns a name that no pool has: one of a port that was closed may still be there.
fn pool_name() -> CString {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    CString::new(format!("fwdlab_{number}")).expect("no byte is 0")
}

/// What a device was set up with.
pub(crate) struct Setup {
    pub pool: Pool,
    pub send_descriptors: u16,
}

impl Device {
    /// Finds the port of a device; the first if there are several. `None` if it has none.
    pub(crate) fn probe(device: &str) -> io::Result<Option<Device>> {
        let device = CString::new(device)?;
        let mut first = 0;
        // SAFETY: both outlive the call.
        let found = check(unsafe { fwd_probe(device.as_ptr(), &mut first) })?;
        Ok((found > 0).then_some(Device(first)))
    }

    pub(crate) fn info(self) -> io::Result<Info> {
        let mut info = Info {
            driver: [0; 64],
            mac: [0; 6],
            mtu: 0,
            max_receive_queues: 0,
            max_send_queues: 0,
            numa_node: -1,
        };
        // SAFETY: the structure is the one of the shim.
        check(unsafe { fwd_info(self.0, &mut info) })?;
        Ok(info)
    }

    /// Sets it up and starts it, with these numbers of queues to receive and to send, and these
    /// numbers of descriptors if it can have them.
    pub(crate) fn configure(
        self,
        (receive_queues, send_queues): (u16, u16),
        (mut receive_descriptors, mut send_descriptors): (u16, u16),
    ) -> io::Result<Setup> {
        let name = pool_name();
        let mut pool = std::ptr::null_mut();
        // SAFETY: all pointers are to values that outlive the call.
        let result = check(unsafe {
            fwd_configure(
                self.0,
                name.as_ptr(),
                receive_queues,
                send_queues,
                &mut receive_descriptors,
                &mut send_descriptors,
                &mut pool,
            )
        });
        let pool = NonNull::new(pool).map(Pool);
        match (result, pool) {
            (Ok(_), Some(pool)) => Ok(Setup {
                pool,
                send_descriptors,
            }),
            (result, pool) => {
                // the device may hold buffers of the pool
                self.close();
                drop(pool);
                Err(result.map_or_else(|error| error, |_| io::ErrorKind::OutOfMemory.into()))
            }
        }
    }

    /// Stops it and gives it back.
    pub(crate) fn close(self) {
        // SAFETY: a port number that is not valid is refused.
        unsafe { fwd_close(self.0) };
    }

    /// Returns `None` without a link; otherwise its speed in Mbit/s, `u32::MAX` if that is unknown.
    pub(crate) fn link(self) -> Option<u32> {
        // SAFETY: as in `close`.
        Some(unsafe { fwd_link(self.0) }).filter(|speed| *speed > 0)
    }

    pub(crate) fn stats(self) -> io::Result<Stats> {
        let mut stats = Stats::default();
        // SAFETY: the structure is the one of the shim.
        check(unsafe { fwd_stats(self.0, &mut stats) })?;
        Ok(stats)
    }

    /// Returns the driver's own counters with their names.
    pub(crate) fn counters(self) -> io::Result<Vec<(String, u64)>> {
        let empty = Counter {
            name: [0; 64],
            value: 0,
        };
        let mut counters = vec![empty; MOST_COUNTERS];
        // SAFETY: there are as many of the shim's structures as it may write.
        let found = unsafe { fwd_counters(self.0, counters.as_mut_ptr(), MOST_COUNTERS as u32) };
        counters.truncate(check(found)? as usize);
        Ok(counters.iter().map(|c| (text(&c.name), c.value)).collect())
    }
}

/// A pool of buffers. Drop it after its device is closed.
#[derive(Debug)]
pub(crate) struct Pool(NonNull<RawPool>);

// SAFETY: DPDK's pools are made for several threads.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// Creates a pool for one queue to send from, with this many buffers.
    pub(crate) fn new(buffers: u16, node: Option<u32>) -> io::Result<Pool> {
        let name = pool_name();
        let node = node.map_or(-1, u32::cast_signed);
        let mut pool = std::ptr::null_mut();
        // SAFETY: name and pointer outlive the call.
        check(unsafe { fwd_pool(name.as_ptr(), buffers, node, &mut pool) })?;
        NonNull::new(pool)
            .map(Pool)
            .ok_or(io::ErrorKind::OutOfMemory.into())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: its device, which could return buffers to it, is closed.
        unsafe { fwd_free_pool(self.0.as_ptr()) };
    }
}

/// Returns the length of the longest frame that fits a buffer, without FCS.
pub(crate) fn room() -> usize {
    // SAFETY: it returns a constant.
    usize::from(unsafe { fwd_room() })
}

/// Buffers to send, in this order: those whose frames wait, then those without a frame.
pub(crate) struct Batch {
    pool: NonNull<RawPool>,
    buffers: [*mut RawBuffer; BURST],
    data: [*mut u8; BURST],
    indices: [u32; BURST],
    lengths: [u16; BURST],
    room: usize,
    /// The first buffer that waits, the first without a frame, and the end.
    first: usize,
    written: usize,
    end: usize,
}

// SAFETY: it is the only owner of its buffers, and pools are made for several threads.
unsafe impl Send for Batch {}

impl Batch {
    /// Without buffers, which are to come from this pool.
    pub(crate) fn new(pool: &Pool) -> Batch {
        Batch {
            pool: pool.0,
            buffers: [std::ptr::null_mut(); BURST],
            data: [std::ptr::null_mut(); BURST],
            indices: [0; BURST],
            lengths: [0; BURST],
            room: room(),
            first: 0,
            written: 0,
            end: 0,
        }
    }

    /// Takes buffers from the pool if it has none, and passes the index of each that a driver has
    /// changed to `changed`.
    #[inline]
    pub(crate) fn refill(&mut self, changed: impl FnMut(usize)) {
        if self.first == self.end {
            self.take(changed);
        }
    }

    #[inline]
    fn take(&mut self, mut changed: impl FnMut(usize)) {
        let mut bits = 0_u64;
        // SAFETY: the pool lives as long as the port of this batch, and all arrays have room for a
        // burst.
        let taken = unsafe {
            fwd_take(
                self.pool.as_ptr(),
                self.buffers.as_mut_ptr(),
                self.data.as_mut_ptr(),
                self.indices.as_mut_ptr(),
                BURST as u16,
                &mut bits,
            )
        };
        (self.first, self.written, self.end) = (0, 0, usize::from(taken));
        while bits != 0 {
            changed(self.indices[bits.trailing_zeros() as usize] as usize);
            bits &= bits - 1;
        }
    }

    /// Returns the index of the next buffer without a frame, which is below the number of buffers
    /// of the pool, and its bytes.
    #[inline]
    pub(crate) fn blank(&mut self) -> Option<(usize, &mut [u8])> {
        if self.written == self.end {
            return None;
        }
        // always below; the compiler does not know
        let at = self.written % BURST;
        let index = self.indices[at] as usize;
        // SAFETY: the buffer is ours until it is sent, and has this room.
        let data = unsafe { std::slice::from_raw_parts_mut(self.data[at], self.room) };
        Some((index, data))
    }

    /// Gives that buffer a frame of this length; returns its index.
    #[inline]
    pub(crate) fn write(&mut self, bytes: u32) -> usize {
        let at = self.written % BURST;
        self.lengths[at] = bytes as u16;
        self.written += 1;
        self.indices[at] as usize
    }

    /// Returns the number of frames that wait.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.written - self.first
    }

    /// Passes waiting frames to the driver. Returns the indices of those that it took.
    #[inline]
    pub(crate) fn send(&mut self, device: Device, queue: u16) -> &[u32] {
        let first = self.first;
        // SAFETY: these buffers are ours until the driver takes them; the queue belongs to the
        // owner of this batch alone.
        let taken = unsafe {
            fwd_send(
                device.0,
                queue,
                self.buffers[first..].as_mut_ptr(),
                self.lengths[first..].as_ptr(),
                self.waiting() as u16,
            )
        };
        self.first += usize::from(taken);
        &self.indices[first..self.first]
    }

    /// Returns its buffers to the pool.
    pub(crate) fn give_back(&mut self) {
        // SAFETY: these buffers are ours.
        unsafe {
            fwd_release(
                self.buffers[self.first..].as_mut_ptr(),
                (self.end - self.first) as u16,
            );
        }
        (self.first, self.written, self.end) = (0, 0, 0);
    }

    /// Drops the frames that wait; returns their number.
    pub(crate) fn give_up(&mut self) -> usize {
        let waiting = self.waiting();
        self.written = self.first;
        waiting
    }
}

/// Frames that were received.
pub(crate) struct Burst {
    buffers: [*mut RawBuffer; BURST],
    data: [*mut u8; BURST],
    lengths: [u16; BURST],
}

// SAFETY: it holds no buffers between two calls of `receive`.
unsafe impl Send for Burst {}

impl Burst {
    pub(crate) fn new() -> Burst {
        Burst {
            buffers: [std::ptr::null_mut(); BURST],
            data: [std::ptr::null_mut(); BURST],
            lengths: [0; BURST],
        }
    }

    /// Receives frames, if there are any.
    #[inline]
    pub(crate) fn receive(&mut self, device: Device, queue: u16) -> Option<Received<'_>> {
        // SAFETY: all arrays have room for a burst; the queue belongs to the owner of this alone.
        let count = unsafe {
            fwd_receive(
                device.0,
                queue,
                self.buffers.as_mut_ptr(),
                self.data.as_mut_ptr(),
                self.lengths.as_mut_ptr(),
                BURST as u16,
            )
        };
        (count > 0).then_some(Received { burst: self, count })
    }
}

/// The frames of a burst; their buffers are released when it is dropped.
pub(crate) struct Received<'a> {
    burst: &'a mut Burst,
    count: u16,
}

impl Received<'_> {
    /// Returns the frames without FCS; `None` for one that does not fit a buffer.
    #[inline]
    pub(crate) fn frames(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let all = self.burst.data.iter().zip(&self.burst.lengths);
        all.take(self.count.into()).map(|(data, length)| {
            // SAFETY: the buffer is ours until it is released, and holds this many bytes.
            let frame = unsafe { std::slice::from_raw_parts(*data, usize::from(*length)) };
            (!frame.is_empty()).then_some(frame)
        })
    }
}

impl Drop for Received<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: these buffers were received and not released.
        unsafe { fwd_release(self.burst.buffers.as_mut_ptr(), self.count) };
    }
}
