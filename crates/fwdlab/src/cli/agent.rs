//! `fwdlab agent`: answers another fwdlab, which started it. Not for people.
//!
//! As the first process of a virtual machine it serves the machine's channel, and ends the machine with it.

use clap::Args;
use fwdlab_lab::agent::init;

use crate::exit_code::{Code, Usage};
use crate::output;

/// Answer the fwdlab that started this virtual machine; not for people
#[derive(Debug, Args)]
#[command(hide = true)]
pub struct Agent {}

impl Agent {
    /// Runs it.
    pub fn run(self) -> anyhow::Result<Code> {
        if !init::is_first() {
            let why =
                "agent: fwdlab starts it as the first process of a virtual machine of its own";
            return Err(Usage(why.into()).into());
        }
        if let Err(why) = init::run() {
            output::note(&format!("agent: {why}"));
        }
        init::power_off();
        Ok(Code::Done)
    }
}
