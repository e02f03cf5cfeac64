//! The program as its users see it: runs the built binary on this host's kernel, and judges it from
//! outside.
//!
//! The libraries test their own internals; these tests check exit codes, output and stored files,
//! the kernel's own counters, and what is left on the host. Tests run in parallel, except for those
//! that judge rates; no test asserts an absolute speed. Start with [`support`], then
//! `conservation`.

#![expect(
    clippy::unwrap_used,
    reason = "a panic is how a test fails, and helpers of tests are tests too"
)]

mod bisect;
mod by_hand;
mod campaign;
mod cards;
mod catalogue;
mod compare;
mod comparison;
mod computers;
mod configuration;
mod conservation;
mod console;
mod dashboard;
#[path = "../../../fwdlab-lab/tests/test_disk/mod.rs"]
mod disk;
mod doctor;
mod dpdk;
mod exact;
mod faults;
mod formats;
mod gate;
mod import;
mod interrupts;
mod line;
mod links;
mod living;
mod manual;
mod memif;
mod ministat;
mod ndr;
mod pacing;
mod pkt_gen;
mod ports;
mod print_campaign;
mod procedures;
mod profile;
mod rate;
mod report;
mod runs;
mod schedulers;
mod sets;
mod storm;
mod streams;
mod support;
mod sys;
mod telemetry;
mod terminal;
mod test_beds;
mod trex;
mod tty;
mod vpp;
mod wire;
mod words;
