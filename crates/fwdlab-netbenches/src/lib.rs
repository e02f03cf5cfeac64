//! The netbenches archive: logs of netmap's pkt-gen from a FreeBSD forwarding lab, 2015 to today.
//!
//! Every file of this folder handles one format or one idea; [`import`] makes runs from result
//! sets, [`audit`](audit()) checks whether what the archive publishes follows from its logs. Start
//! with [`import`], then [`reading::Reader::run`].

#![forbid(unsafe_code)]

pub mod audit;
pub mod command;
pub mod config;
pub mod equilibrium;
mod importing;
pub mod info;
pub mod lines;
pub mod log;
pub mod names;
mod parallel;
pub mod published;
pub mod reading;
pub mod readme;
pub mod rule;
mod scan;
pub mod set;
pub mod walk;

pub use audit::{Audit, BlockFinding, FileFinding, audit};
pub use importing::{Imported, Options, Progress, SetOutcome, SetResult, import};
pub use names::Kind;
pub use reading::Tally;
