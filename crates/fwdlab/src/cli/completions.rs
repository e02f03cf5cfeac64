//! `fwdlab completions`: prints completions for a shell, generated from the same declarations as
//! the help. Start with [`Completions::run`].

use clap::{Args, Command};
use clap_complete::Shell;
use serde_json::json;

use super::{Global, help};
use crate::exit_code::Code;

/// Print shell completions of commands and options
#[derive(Debug, Args)]
pub struct Completions {
    /// Shell
    shell: Shell,
}

impl Completions {
    /// Runs the command.
    pub fn run(&self, global: &Global) -> anyhow::Result<Code> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut shown(), "fwdlab", &mut script);
        let script = String::from_utf8_lossy(&script);
        global.result(&json!({ "script": script }), script.trim_end())
    }
}

/// Returns the program without its hidden commands: shells would offer older names, too.
fn shown() -> Command {
    let program = help::program();
    let commands = program.get_subcommands().filter(|one| !one.is_hide_set());
    Command::new("fwdlab")
        .version(env!("CARGO_PKG_VERSION"))
        .args(program.get_arguments().cloned())
        .subcommands(commands.cloned())
}
