//! Virtual machines: DUTs that are machines of their own, on any host, without privileges.
//!
//! A machine is QEMU as a child of this process, with fwdlab as the first process of its guest, which answers as an agent
//! ([`crate::agent`]). It ends with us, whatever ends us. What is measured on it is not decided here. Start with
//! [`machine::Machine::boot`].

pub mod machine;
