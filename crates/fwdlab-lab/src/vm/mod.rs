//! Virtual machines: DUTs that are machines of their own, on any host, without privileges.
//!
//! Two kinds share a process of QEMU's ([`qemu`]), which ends with us, whatever ends us. A [`machine`] counts instructions: an image becomes
//! files ([`image`]), programs of this machine become the guest's first file system ([`initramfs`]), and fwdlab is its first process and
//! answers as an agent ([`crate::agent`]). A [`computer`] starts a whole system of somebody else's, and is treated from outside as one of
//! metal. What is measured on them is not decided here. Start with [`machine::Machine::boot`] or [`computer::Computer::start`].

pub mod computer;
pub mod image;
pub mod initramfs;
pub mod kvm;
pub mod login;
pub mod machine;
mod monitor;
pub mod plugin;
pub mod qemu;
pub mod scratch;
#[cfg(test)]
mod tests;
