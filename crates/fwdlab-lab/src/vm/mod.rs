//! Virtual machines: DUTs that are machines of their own, on any host, without privileges.
//!
//! An image becomes files ([`image`]), programs of this machine become the guest's first file system ([`initramfs`]), and QEMU as a child of
//! this process boots both ([`machine`]), with fwdlab as the first process of the guest, which answers as an agent ([`crate::agent`]). The
//! machine ends with us, whatever ends us. What is measured on it is not decided here. Start with [`machine::Machine::boot`].

pub mod computer;
pub mod image;
pub mod initramfs;
pub mod kvm;
pub mod machine;
mod monitor;
pub mod plugin;
pub mod qemu;
pub(crate) mod scratch;
#[cfg(test)]
mod tests;
