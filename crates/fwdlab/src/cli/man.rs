//! `fwdlab man`: writes pages for man(1), generated from the same declarations as the help. Start
//! with [`Man::run`].

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::{Global, help};
use crate::exit_code::Code;
use crate::output;

/// Print the manual page of fwdlab, or write a page for each command
#[derive(Debug, Args)]
pub struct Man {
    /// Write a page for each command into this directory: fwdlab.1, fwdlab-quick.1, ...
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    /// Runs the command.
    pub fn run(&self, global: &Global) -> anyhow::Result<Code> {
        let program = help::program();
        match &self.dir {
            Some(dir) => {
                fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
                write(built(program), dir)
                    .with_context(|| format!("write manual pages into {}", dir.display()))?;
                if global.json {
                    output::json(&json!({ "written": dir }))?;
                }
            }
            None => {
                let mut page = Vec::new();
                page_of(built(program))
                    .render(&mut page)
                    .context("write the manual page")?;
                let page = String::from_utf8_lossy(&page);
                return global.result(&json!({ "page": page }), page.trim_end());
            }
        }
        Ok(Code::Done)
    }
}

/// Returns the program with the full names of its commands, which the pages show.
fn built(mut program: clap::Command) -> clap::Command {
    program = program.disable_help_subcommand(true);
    program.build();
    program
}

/// Writes the page of a command and those of its subcommands.
fn write(command: clap::Command, dir: &Path) -> std::io::Result<()> {
    for below in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        write(below.clone(), dir)?;
    }
    page_of(command).generate_to(dir)?;
    Ok(())
}

/// Returns a page with this program's name and version.
fn page_of(command: clap::Command) -> clap_mangen::Man {
    clap_mangen::Man::new(command)
        .source(concat!("fwdlab ", env!("CARGO_PKG_VERSION")))
        .manual("fwdlab")
}
