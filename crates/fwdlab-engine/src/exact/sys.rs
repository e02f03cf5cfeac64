//! The counter of a processor that counts instructions, marks for a profiler, and a code sequence
//! of known length.
//!
//! Only on x86-64, where an emulator's time stamp counter advances by one for every instruction.
//! Nothing here knows frames.
#![allow(unsafe_code, reason = "instructions that Rust has no words for")]

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Hides the kernel's types from the calling thread, and from those that it starts.
pub(super) fn hide_types() -> rustix::io::Result<()> {
    // SAFETY: file descriptors stay shared; no other thread's view of the file system changes.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    mount(
        "none",
        "/sys/kernel/btf",
        "tmpfs",
        MountFlags::empty(),
        None,
    )
}

/// Returns the processor's count.
#[cfg(target_arch = "x86_64")]
pub(super) fn counter() -> u64 {
    // SAFETY: every x86-64 processor has it, and it reads no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Executes twice as many instructions as `times`, and a few more.
#[cfg(target_arch = "x86_64")]
pub(super) fn loops(times: u32) {
    // SAFETY: a register counts down to zero; no memory is touched.
    unsafe {
        core::arch::asm!(
            "2:",
            "dec {times:e}",
            "jnz 2b",
            times = inout(reg) times.max(1) => _,
            options(nomem, nostack)
        );
    }
}

/// Marks the start of a section, for a profiler below this machine: a long no-operation with a
/// unique displacement.
#[cfg(target_arch = "x86_64")]
pub(super) fn mark_begin() {
    // SAFETY: it does nothing.
    unsafe { core::arch::asm!("nop dword ptr [rax + 0x66776c01]", options(nostack)) }
}

/// Marks the end of a section.
#[cfg(target_arch = "x86_64")]
pub(super) fn mark_end() {
    // SAFETY: it does nothing.
    unsafe { core::arch::asm!("nop dword ptr [rax + 0x66776c02]", options(nostack)) }
}

/// Marks instructions that belong to no section, until [`mark_resume`].
#[cfg(target_arch = "x86_64")]
pub(super) fn mark_pause() {
    // SAFETY: it does nothing.
    unsafe { core::arch::asm!("nop dword ptr [rax + 0x66776c04]", options(nostack)) }
}

/// Marks that the section continues.
#[cfg(target_arch = "x86_64")]
pub(super) fn mark_resume() {
    // SAFETY: it does nothing.
    unsafe { core::arch::asm!("nop dword ptr [rax + 0x66776c05]", options(nostack)) }
}

/// Announces that sections will follow: until then such a profiler does not need to inspect every
/// instruction.
#[cfg(target_arch = "x86_64")]
pub(super) fn mark_ready() {
    // SAFETY: it does nothing.
    unsafe { core::arch::asm!("nop dword ptr [rax + 0x66776c03]", options(nostack)) }
}

#[cfg(not(target_arch = "x86_64"))]
mod elsewhere {
    pub(in super::super) fn counter() -> u64 {
        0
    }
    pub(in super::super) fn loops(_times: u32) {}
    pub(in super::super) fn mark_begin() {}
    pub(in super::super) fn mark_end() {}
    pub(in super::super) fn mark_pause() {}
    pub(in super::super) fn mark_resume() {}
    pub(in super::super) fn mark_ready() {}
}
#[cfg(not(target_arch = "x86_64"))]
pub(super) use elsewhere::{
    counter, loops, mark_begin, mark_end, mark_pause, mark_ready, mark_resume,
};
