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
        libc::pthread_kill(thread.as_pthread_t(), interrupt_signal());
    }
}

/// Gives the calling thread SCHED_FIFO at the lowest real-time priority.
///
/// # Errors
/// EPERM without CAP_SYS_NICE.
pub fn become_real_time() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is the calling thread; the parameter outlives the call.
    let result = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameter)
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Puts the calling thread ahead of ordinary ones, so that others' work does not hold up a schedule.
///
/// Real-time priority, because niceness counts only within a session where the kernel groups tasks by session
/// (`sched_autogroup`). The kernel leaves 5 % of the CPU to the others. Without CAP_SYS_NICE nothing changes; frames
/// that are held up are then counted as not sent.
pub fn become_preferred() {
    let _ = become_real_time();
}

/// CLOCK_MONOTONIC in nanoseconds: the clock of `bpf_ktime_get_ns`.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
