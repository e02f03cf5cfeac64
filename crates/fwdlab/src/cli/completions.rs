//! `fwdlab completions`: what a shell completes, from the same declarations as the help.

use clap::Args;
use clap_complete::Shell;
use serde_json::json;

use super::{Global, help};
use crate::exit_code::Code;
use crate::output;

/// Print what makes a shell complete the commands and options of this program
#[derive(Debug, Args)]
pub struct Completions {
    /// Which shell
    shell: Shell,
}

impl Completions {
    /// Runs it.
    pub fn run(&self, global: &Global) -> anyhow::Result<Code> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut help::program(), "fwdlab", &mut script);
        let script = String::from_utf8_lossy(&script);
        match global.json {
            true => output::json(&json!({ "script": script }))?,
            false => output::result(script.trim_end()),
        }
        Ok(Code::Done)
    }
}
