//! Commands that this build does not have: `make quick` leaves them out, so that its first answer
//! comes sooner.

use std::ffi::OsString;

use clap::Args;

use super::Global;
use crate::exit_code::{Code, Usage};

/// What to do about something that is not in this build.
pub const ADVICE: &str = "this program was built without it: make quick leaves out the dashboard, TRex and netbenches. Build one that has them with: make build";

/// Not in this build: make build has it
#[derive(Debug, Args)]
pub struct Absent {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

/// `fwdlab serve`.
#[cfg(not(feature = "serve"))]
pub type Serve = Absent;

/// `fwdlab import netbenches`.
#[cfg(not(feature = "import"))]
pub type Netbenches = Absent;

impl Absent {
    /// Fails.
    pub fn run(self, _: &Global) -> anyhow::Result<Code> {
        Err(Usage(ADVICE.into()).into())
    }
}
