//! Procedures: which trial comes next, and what the trials say in the end.
//!
//! Everything here is a function of values: no traffic, no clock, no thread, and randomness only from a seed that is
//! recorded. The same code judges a simulated DUT, namespaces and real hardware. Start with [`maxfwd`] (the maximum
//! forwarding rate) or [`paired`] (comparing configurations); both rest on [`gate`] and [`conservation`].

#![forbid(unsafe_code)]

pub mod conservation;
pub mod gate;
pub mod maxfwd;
pub mod mlr;
pub mod order;
pub mod paired;
