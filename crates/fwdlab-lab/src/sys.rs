//! System calls of the lab: the life of child processes and their namespaces, priorities, and the
//! probe's burst.
//!
//! It decides nothing. Start with [`die_with_parent`].
#![allow(unsafe_code, reason = "system calls and one assembly loop")]

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::sync::Arc;

/// Makes a child start a process group of its own, and die with the thread that started it. A child
/// whose parent died before this took effect does not start at all.
pub(crate) fn die_with_parent(command: &mut Command) {
    command.process_group(0);
    let parent = std::process::id();
    // SAFETY: prctl and getppid are async-signal-safe and touch only the child.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            match libc::getppid() as u32 == parent {
                true => Ok(()),
                false => Err(std::io::Error::from_raw_os_error(libc::ESRCH)),
            }
        });
    }
}

/// Makes a child start in this network namespace, with its own mounts, which are read-only except
/// for that of `writable`.
pub(crate) fn start_read_only(command: &mut Command, network: File, writable: &'static CStr) {
    let mounts = |path: &'static CStr, flags: libc::c_int, attributes: libc::mount_attr| {
        // SAFETY: the path and the attributes outlive the call, whose size says what they are.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                libc::AT_FDCWD,
                path.as_ptr(),
                flags,
                &raw const attributes,
                size_of::<libc::mount_attr>(),
            )
        };
        done(result as libc::c_int)
    };
    let nothing = libc::mount_attr {
        attr_set: 0,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let mount = |from: *const libc::c_char, to: &'static CStr, flags| {
        // SAFETY: both paths are there, or null where the kernel asks for none.
        done(unsafe { libc::mount(from, to.as_ptr(), ptr::null(), flags, ptr::null()) })
    };
    let prepare = move || {
        // SAFETY: only namespaces of the child change.
        done(unsafe { libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) })?;
        // SAFETY: as before.
        done(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
        mount(ptr::null(), c"/", libc::MS_REC | libc::MS_SLAVE)?;
        mount(writable.as_ptr(), writable, libc::MS_BIND | libc::MS_REC)?;
        mounts(
            c"/",
            libc::AT_RECURSIVE,
            libc::mount_attr {
                attr_set: libc::MOUNT_ATTR_RDONLY,
                ..nothing
            },
        )?;
        mounts(
            writable,
            0,
            libc::mount_attr {
                attr_clr: libc::MOUNT_ATTR_RDONLY,
                ..nothing
            },
        )
    };
    // SAFETY: these are system calls, and no memory is allocated for them.
    unsafe {
        command.pre_exec(prepare);
    }
}

fn done(result: libc::c_int) -> std::io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Makes a child keep these files open, under the same numbers.
pub(crate) fn keep_open(command: &mut Command, files: Vec<Arc<OwnedFd>>) {
    let keep = move || {
        for file in &files {
            // SAFETY: the descriptor is open as long as the command is there, and only the child's
            // flag changes.
            if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) } == -1 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: a system call for every file, and no memory is allocated.
    unsafe {
        command.pre_exec(keep);
    }
}

/// Makes a TAP device of this name in the network namespace of the calling thread, which lives as
/// long as the file is open. One with several queues is opened once for each of them.
pub(crate) fn tap(name: &str, has_queues: bool) -> std::io::Result<OwnedFd> {
    let too_long = || std::io::Error::from_raw_os_error(libc::ENAMETOOLONG);
    // SAFETY: all bytes zero are a request without a name.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(too_long());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let queues = if has_queues { libc::IFF_MULTI_QUEUE } else { 0 };
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | queues) as libc::c_short;
    let file = File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")?;
    // SAFETY: the request is what this call takes, and outlives it.
    let made = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw const request) };
    done(made)?;
    Ok(file.into())
}

/// Kills a process group.
pub(crate) fn kill_group(leader: u32) {
    // SAFETY: no memory is involved; a group that is gone is not an error.
    unsafe {
        libc::kill(-(leader as libc::pid_t), libc::SIGKILL);
    }
}

/// Sets the niceness of a thread or process; 0 is the calling thread.
pub(crate) fn set_nice(id: u32, nice: i32) -> std::io::Result<()> {
    // SAFETY: no memory is involved.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, id, nice) };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Additions in one [`burst`].
pub(crate) const BURST_ADDITIONS: u64 = 24 * 5000;

/// Executes six independent chains of additions: as many instructions per cycle as a CPU can do, so
/// that it notices when a sibling takes its share. The loop is written in assembly so that it takes
/// as long in a program that is not optimised.
#[inline(never)]
pub(crate) fn burst() {
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    compile_error!("write the burst of additions for this architecture");
    let [a, b, c, d, e, f] = [1u64, 2, 3, 4, 5, 6];
    // SAFETY: additions in registers.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 4",
            "add {a}, 1",
            "add {b}, 1",
            "add {c}, 1",
            "add {d}, 1",
            "add {e}, 1",
            "add {f}, 1",
            ".endr",
            "dec {left}",
            "jnz 2b",
            left = inout(reg) BURST_ADDITIONS / 24 => _,
            a = inout(reg) a => _,
            b = inout(reg) b => _,
            c = inout(reg) c => _,
            d = inout(reg) d => _,
            e = inout(reg) e => _,
            f = inout(reg) f => _,
            options(nomem, nostack)
        );
    }
    // SAFETY: additions in registers.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 4",
            "add {a}, {a}, 1",
            "add {b}, {b}, 1",
            "add {c}, {c}, 1",
            "add {d}, {d}, 1",
            "add {e}, {e}, 1",
            "add {f}, {f}, 1",
            ".endr",
            "subs {left}, {left}, 1",
            "b.ne 2b",
            left = inout(reg) BURST_ADDITIONS / 24 => _,
            a = inout(reg) a => _,
            b = inout(reg) b => _,
            c = inout(reg) c => _,
            d = inout(reg) d => _,
            e = inout(reg) e => _,
            f = inout(reg) f => _,
            options(nomem, nostack)
        );
    }
}

/// Creates new user, mount and network namespaces for this process.
pub(crate) fn unshare_user_mount_and_network() -> std::io::Result<()> {
    // SAFETY: only namespaces change; no memory or file descriptor is shared differently.
    let result =
        unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWNET) };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Returns bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child that loses its parent after it was forked, and before it asked to die with it.
    #[test]
    fn a_child_of_a_dead_parent_does_not_start() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("begun");
        let begin = |orphan: bool| {
            let mut command = Command::new("touch");
            command.arg(&file);
            if orphan {
                // SAFETY: fork, getppid and _exit are async-signal-safe; the child goes on as a
                // child of another process.
                unsafe {
                    command.pre_exec(|| {
                        let parent = libc::getpid();
                        match libc::fork() {
                            -1 => return Err(std::io::Error::last_os_error()),
                            0 => {}
                            _ => libc::_exit(0),
                        }
                        while libc::getppid() == parent {
                            libc::sched_yield();
                        }
                        Ok(())
                    });
                }
            }
            die_with_parent(&mut command);
            command.spawn().and_then(|mut child| child.wait())
        };
        assert!(begin(true).is_err());
        assert!(!file.exists());
        assert!(begin(false).unwrap().success());
        assert!(file.exists());
    }
}
