//! `fwdlab agent`: serves another fwdlab, which started it. Not meant for users.
//!
//! As the first process of a virtual machine, it serves the machine's channel, and powers the
//! machine off when the channel closes. Elsewhere it serves standard input and output, and exits
//! when they close.

use std::path::PathBuf;

use clap::Args;
use fwdlab_lab::agent::{init, stdio};

use crate::exit_code::{Code, Usage};
use crate::output;

/// Answer the fwdlab that started this program; not for people
#[derive(Debug, Args)]
#[command(hide = true)]
pub struct Agent {
    /// Serve standard input and output; put files here
    #[arg(long, value_name = "FOLDER")]
    stdio: Option<PathBuf>,
}

impl Agent {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<Code> {
        if let Some(folder) = &self.stdio {
            stdio::run(folder).map_err(|reason| anyhow::anyhow!("agent: {reason}"))?;
            return Ok(Code::Done);
        }
        if !init::is_first() {
            let reason =
                "agent: fwdlab starts it itself, in a virtual machine or on a host over SSH";
            return Err(Usage(reason.into()).into());
        }
        if let Err(reason) = init::run() {
            output::note(&format!("agent: {reason}"));
        }
        init::power_off();
        Ok(Code::Done)
    }
}
