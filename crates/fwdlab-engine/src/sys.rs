//! System calls of the crate's threads: interrupting one, real-time priority.
#![allow(unsafe_code, reason = "system calls")]

use std::io;
use std::os::unix::thread::JoinHandleExt;
use std::sync::Once;
use std::thread::JoinHandle;

extern "C" fn nothing(_signal: libc::c_int) {}

/// The signal that ends a blocking system call of a sender thread. Its handler does nothing: the call returns EINTR.
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

/// Makes sure that an interrupt finds its handler; call before the thread starts that may get one.
pub(crate) fn prepare_interrupts() {
    interrupt_signal();
}

/// Ends the system call a thread is blocked in.
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
    // The kernel's `struct sched_param`, and its own call: musl's function only says that it does nothing.
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

/// Puts the calling thread ahead of ordinary ones (niceness -20), so that others' work does not hold up a schedule.
///
/// Where the kernel groups tasks by session (`sched_autogroup`) that counts only within ours; frames that are held up
/// are counted as not sent. Without CAP_SYS_NICE nothing changes.
///
/// Note: real-time priority was tried and held the schedule to 99.7 % beside two compilers, where this holds it in one
/// window of six. It also starved the soft interrupts of that CPU, and on a machine with one CPU everything, for ever.
pub fn become_preferred() {
    // SAFETY: no memory is involved; 0 is the calling thread.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, -20);
    }
}

/// Which thread of this process it is that asks, to be looked up by others; 0 is none.
pub(crate) fn own_thread() -> u32 {
    rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .unsigned_abs()
}

/// For how long a thread of this process was ready to run and something else had its CPU, in nanoseconds; 0 where the kernel does not say,
/// and of a thread that has ended.
pub(crate) fn waited_ns(thread: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"));
    // time on a CPU, time of waiting for one, how often it ran
    let waited = text
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse().ok());
    waited.unwrap_or(0)
}

/// CLOCK_MONOTONIC in nanoseconds: the clock of `bpf_ktime_get_ns`.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
