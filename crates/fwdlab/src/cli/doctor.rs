//! `fwdlab doctor`: is this host fit, and what would make it fit.

use super::Global;
use crate::exit_code::Code;

/// Runs it.
pub fn run(_global: &Global) -> anyhow::Result<Code> {
    Ok(Code::Done)
}
