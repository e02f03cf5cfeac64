//! Tests of the lab's public interface: procedures on simulated DUTs, sessions on ports, runs of
//! earlier programs, whole machines, features of kernels.
//!
//! One program for all of them, so that it is linked once. Start with the modules below.

mod computers;
mod features;
mod format_1;
mod procedures;
mod session;
mod test_disk;
mod vpp;
mod vpp_build;
