//! `fwdlab man`: pages for man(1), from the same declarations as the help.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use super::help;
use crate::exit_code::Code;
use crate::output;

/// Print the manual page of this program, or write one for each command
#[derive(Debug, Args)]
pub struct Man {
    /// Write the pages of all commands into this directory: fwdlab.1, fwdlab-quick.1, ...
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    /// Runs it.
    pub fn run(&self) -> anyhow::Result<Code> {
        let program = help::program();
        match &self.dir {
            Some(dir) => {
                fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
                clap_mangen::generate_to(program, dir)
                    .with_context(|| format!("write manual pages into {}", dir.display()))?;
            }
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(program)
                    .render(&mut page)
                    .context("write the manual page")?;
                output::result(String::from_utf8_lossy(&page).trim_end());
            }
        }
        Ok(Code::Done)
    }
}
