//! Virtual machines: DUTs that are separate machines, on any host, without privileges.
//!
//! Two kinds use a QEMU process ([`qemu`]), which ends with this process in any case. A [`machine`]
//! counts instructions: an image becomes files ([`image`]), programs of this machine become the
//! guest's initial file system ([`initramfs`]), and fwdlab is its first process and answers as an
//! agent ([`crate::agent`]). A [`computer`] boots a user's complete system, and is controlled from
//! outside like a physical machine. What is measured on them is not decided here. Start with
//! [`machine::Machine::boot`] or [`computer::Computer::start`].

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
pub(crate) mod user_symbols;
