//! The lab: test beds, configurations of DUTs, placement, probes, and running procedures on them.
//!
//! It prints nothing and speaks no HTTP: it changes hosts, undoes what it changed, and tells what happens as one stream
//! of events. Start with [`bed`] (the embedded test bed), then [`quick`] (what `fwdlab quick` runs).

pub mod bed;
pub mod configuration;
pub mod error;
pub mod facts;
pub mod host;
mod link_watch;
pub mod placement;
pub mod ports;
pub mod preflight;
pub mod probe;
pub mod registry;
mod reset;
pub mod run;
mod setting;
mod snmp;
mod sys;
pub mod user_namespace;

pub use error::LabError;
