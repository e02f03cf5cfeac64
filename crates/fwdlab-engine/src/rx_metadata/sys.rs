//! The bpf() system call for one map, one device-bound program, and its attachment.
#![allow(unsafe_code, reason = "system calls")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::program::Instruction;

const MAP_CREATE: libc::c_int = 0;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const MAP_TYPE_ARRAY: u32 = 2;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// `BPF_F_XDP_DEV_BOUND_ONLY`: for this device only, whose driver then implements its calls.
const DEVICE_BOUND: u32 = 1 << 6;

/// Creates a map of counters.
pub(super) fn counters(entries: u32) -> io::Result<OwnedFd> {
    /// Of `union bpf_attr`.
    #[repr(C)]
    #[derive(Default)]
    struct MapCreate {
        map_type: u32,
        key_bytes: u32,
        value_bytes: u32,
        entries: u32,
        flags: u32,
    }
    let attributes = MapCreate {
        map_type: MAP_TYPE_ARRAY,
        key_bytes: 4,
        value_bytes: 8,
        entries,
        flags: 0,
    };
    // SAFETY: plain numbers.
    unsafe { bpf(MAP_CREATE, &attributes) }
}

/// Loads an XDP program for an interface of the calling thread's namespace.
pub(super) fn load(program: &[Instruction], interface: u32) -> io::Result<OwnedFd> {
    /// Of `union bpf_attr`.
    #[repr(C)]
    #[derive(Default)]
    struct ProgLoad {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_bytes: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
        interface: u32,
        attach_type: u32,
    }
    let license = c"GPL";
    let attributes = ProgLoad {
        kind: PROG_TYPE_XDP,
        count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
        flags: DEVICE_BOUND,
        name: *b"fwdlab_rx_time\0\0",
        interface,
        attach_type: ATTACH_XDP,
        ..ProgLoad::default()
    };
    // SAFETY: the instructions and the license outlive the call, and their number is that of the
    // slice.
    unsafe { bpf(PROG_LOAD, &attributes) }
}

/// Attaches it to that interface; detached when the link is closed.
pub(super) fn attach(program: &OwnedFd, interface: u32) -> io::Result<OwnedFd> {
    /// Of `union bpf_attr`.
    #[repr(C)]
    struct LinkCreate {
        program: u32,
        interface: u32,
        attach_type: u32,
        flags: u32,
    }
    let attributes = LinkCreate {
        program: program.as_raw_fd() as u32,
        interface,
        attach_type: ATTACH_XDP,
        flags: 0,
    };
    // SAFETY: plain numbers.
    unsafe { bpf(LINK_CREATE, &attributes) }
}

/// # Safety
/// The attributes are those of the command, and what they point to is there.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the attributes outlive the call and have the length given; the rest is the caller's
    // promise.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<T>(),
        )
    };
    match i32::try_from(fd) {
        // SAFETY: a new file descriptor that nobody else has.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
