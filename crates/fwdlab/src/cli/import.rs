//! `fwdlab import`: reads other people's measurements into stored runs. Start with [`Import::run`].

use clap::Subcommand;

use super::Global;
use super::loadtest::Loadtest;
use super::netbenches::Netbenches;
use crate::exit_code::Code;

/// Import other people's measurements as stored runs.
#[derive(Debug, Subcommand)]
pub enum Import {
    Netbenches(Netbenches),
    Loadtest(Loadtest),
}

impl Import {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        match self {
            Import::Netbenches(netbenches) => netbenches.run(global),
            Import::Loadtest(loadtest) => loadtest.run(global),
        }
    }
}
