//! The netbenches archive: logs of netmap's pkt-gen from a FreeBSD forwarding lab, 2015 to today.
//!
//! Every file of this folder knows one format or one idea; [`import`] makes stored runs of result sets, [`audit`](audit())
//! says whether what the archive publishes follows from its logs. Start with [`import`], then [`reading::Reader::run`].

pub mod audit;
pub mod command;
pub mod config;
pub mod equilibrium;
mod importing;
pub mod info;
pub mod lines;
pub mod log;
pub mod names;
pub mod published;
pub mod reading;
pub mod readme;
pub mod rule;
mod scan;
pub mod set;
mod summary;
pub mod walk;

pub use audit::{Audit, BlockFinding, FileFinding, audit};
pub(crate) use importing::{ARCHIVE, KIND, MEASURED_AT, SET};
pub use importing::{Imported, Options, Progress, SetOutcome, SetResult, import};
pub use names::Kind;
pub use reading::{FORMAT, Tally};
pub use set::is_chosen;
pub use summary::cases;
