//! The vocabulary of all crates: units, streams, trials, results, events.
//!
//! It parses user input into values that are valid by construction, and converts values into
//! records that outlive the code. It does no I/O, reads no clock and knows nothing of engines,
//! hosts or screens. Start with [`trial`] (requests to an engine and its answers), then [`result`]
//! (what is kept), then [`event`] (progress reports).

#![forbid(unsafe_code)]

#[cfg(not(feature = "schemas"))]
extern crate fwdlab_no_schemas as schemars;

pub mod bisect;
pub mod campaign;
pub mod comparison;
pub mod dpdk;
pub mod efficiency;
pub mod energy;
pub mod event;
pub mod facts;
pub mod family;
pub mod file;
pub mod genome;
mod glob;
pub mod hook;
pub mod import;
pub mod instructions;
pub mod latency;
pub mod link;
pub mod loadtest;
pub mod loss;
pub mod management;
pub mod memif;
pub mod mix;
pub mod outcome;
pub mod probe;
pub mod procedure;
pub mod profile;
pub mod reset;
pub mod result;
pub mod search;
pub mod series;
pub mod set;
pub mod stacks;
pub mod system;
pub mod telemetry;
pub mod test_bed;
pub mod test_case;
pub mod threshold;
pub mod trial;
mod typed;
pub mod units;
pub mod variant;
pub mod version;
