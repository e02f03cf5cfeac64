//! The lab from outside: procedures on simulated DUTs, sessions on ports, runs of before.
//!
//! One program for all of them: it is linked once.

mod format_1;
mod procedures;
mod session;
mod vpp;
mod vpp_build;
