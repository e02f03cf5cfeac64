//! Project chores in Rust, so that they work wherever the project builds:
//! `cargo run -p xtask -- check | schemas | api | test`.
//!
//! Nothing for users of fwdlab: that belongs in the program. Start with [`check`], which enforces
//! the layout described in ARCHITECTURE.md; [`mod@test`] is what `make test` runs.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program: its output is for people"
)]

mod api;
mod check;
mod schemas;
mod source;
mod test;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use test::Tier;

const USAGE: &str = "\
usage: cargo run -p xtask -- COMMAND

  check      directions between crates, places of unsafe code, purity, module heads, what packages hold, schemas, lists of public items
  schemas    write the JSON Schemas of everything we keep or print into crates/fwdlab/schemas/
  api        write the lists of public items, crates/*/api.txt
  test       check, format, clippy and tests, with the skipped ones counted
  test rest  the tests that need the machine alone, or minutes, and cargo deny";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> anyhow::Result<bool> {
    let root = root()?;
    match arguments {
        [command] if command == "check" => {
            let findings = check::all(&root)?;
            for finding in &findings {
                eprintln!("{finding}");
            }
            if findings.is_empty() {
                println!("check: the layout is as ARCHITECTURE.md says");
            } else {
                eprintln!("check: {} findings", findings.len());
            }
            Ok(findings.is_empty())
        }
        [command] if command == "schemas" => {
            for path in schemas::write(&root)? {
                println!("wrote {}", path.display());
            }
            Ok(true)
        }
        [command] if command == "api" => api::write(&root).map(|()| true),
        [command] if command == "test" => test::all(&root, Tier::First),
        [command, rest] if command == "test" && rest == "rest" => test::all(&root, Tier::Rest),
        _ => bail!("{USAGE}"),
    }
}

/// Returns the root of the workspace, from the folder of this crate.
fn root() -> anyhow::Result<PathBuf> {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .context("run it as `cargo run -p xtask -- COMMAND`")?;
    let root = Path::new(&here)
        .parent()
        .context("xtask is not a crate of a workspace")?;
    Ok(root.to_path_buf())
}
