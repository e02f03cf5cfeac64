//! System calls that several modules need: of their threads, and options of their sockets.
#![allow(unsafe_code, reason = "system calls")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::thread::JoinHandleExt;
use std::sync::Once;
use std::thread::JoinHandle;

extern "C" fn nothing(_signal: libc::c_int) {}

/// The signal that interrupts a blocking system call of a sender thread. Its handler does nothing:
/// the call returns EINTR.
fn interrupt_signal() -> libc::c_int {
    static INSTALL: Once = Once::new();
    let signal = libc::SIGRTMIN() + 3;
    INSTALL.call_once(|| {
        // SAFETY: the action is fully initialised, and its handler touches nothing.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    });
    signal
}

/// Sets an option of a socket.
pub(crate) fn set_option<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the value outlives the call and has the length given.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as u32,
        )
    })
}

/// Returns the error of a system call with this result.
pub(crate) fn check(result: libc::c_int) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Installs the handler of [`interrupt`]; call it before starting a thread that may be interrupted.
pub(crate) fn prepare_interrupts() {
    interrupt_signal();
}

/// Interrupts the system call that a thread is blocked in.
pub(crate) fn interrupt<T>(thread: &JoinHandle<T>) {
    // SAFETY: the handle is not joined yet, so the thread id is still valid.
    unsafe {
        libc::pthread_kill(thread.as_pthread_t() as libc::pthread_t, interrupt_signal());
    }
}

/// Gives the calling thread SCHED_FIFO at the lowest real-time priority.
///
/// # Errors
/// EPERM without CAP_SYS_NICE.
pub fn become_real_time() -> io::Result<()> {
    // The kernel's `struct sched_param` and the raw system call: musl's function only returns an
    // error.
    let priority: libc::c_int = 1;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread; the parameter outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &priority) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Gives the calling thread priority over ordinary ones (niceness -20), so that other work does not
/// delay a schedule.
///
/// If the kernel groups tasks by session (`sched_autogroup`) this only affects threads of our
/// session; frames that are delayed are counted as not sent. Without CAP_SYS_NICE nothing changes.
///
/// Note: with real-time priority, the schedule was kept to 99.7 % during two compilations, where
/// niceness keeps it in one window of six. But it also starved the soft interrupts of that CPU, and
/// on a machine with one CPU everything, for ever.
pub fn become_preferred() {
    // SAFETY: no memory is involved; 0 is the calling thread.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, -20);
    }
}

/// Returns the id of the calling thread, for lookups by other threads; 0 is none.
pub(crate) fn own_thread() -> u32 {
    rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .unsigned_abs()
}

/// Returns how long a thread of this process was runnable while its CPU was busy with other tasks,
/// in nanoseconds; 0 if the kernel does not report it or the thread has ended.
pub(crate) fn waited_ns(thread: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"));
    // time on a CPU, time waiting for a CPU, number of time slices
    let waited = text
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse().ok());
    waited.unwrap_or(0)
}

/// Returns the CPUs that this thread may use; empty if the kernel does not say.
pub(crate) fn available_cpus() -> Vec<usize> {
    let may = rustix::thread::sched_getaffinity(None);
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    may.map_or_else(
        |_| Vec::new(),
        |may| all.filter(|&cpu| may.is_set(cpu)).collect(),
    )
}

/// CLOCK_MONOTONIC in nanoseconds: the clock of `bpf_ktime_get_ns`.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
