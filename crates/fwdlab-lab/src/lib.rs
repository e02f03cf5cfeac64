//! The lab: hosts, devices under test, test beds, placement, probes, and running procedures on
//! them.
//!
//! It prints nothing and speaks no HTTP: it changes hosts, undoes its changes, and reports
//! everything as one stream of events. Start with [`bed`], [`dut`] and [`host`] (what exists), then
//! [`run`] (what is measured on it); [`site`] connects them, and builds beds for runs.

pub mod agent;
pub mod bed;
pub mod control;
pub mod dut;
pub mod error;
pub mod facts;
pub mod failure;
pub mod host;
mod interfaces;
pub mod networks;
pub mod placement;
pub mod ports;
pub mod preflight;
mod programs;
pub mod promise;
pub mod run;
pub mod session;
pub mod site;
mod snmp;
pub mod switch_config;
mod sys;
pub mod telemetry;
pub mod tester;
pub mod user_namespace;
pub mod vm;
pub mod witness;

pub use error::LabError;
pub use tester::bursts;
