//! `fwdlab runs export` and `import`: runs in a single file, to be opened by fwdlab on another
//! machine. Start with [`Export::run`] and [`Import::run`].

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use fwdlab_store::{Roots, StoreError};

use super::Global;
use super::runs::{Facts, resolve_all};
use crate::exit_code::{Code, Usage};
use crate::output;

/// The file name for standard input or output.
const STREAM: &str = "-";

/// Which runs go where.
#[derive(Debug, Args)]
pub struct Export {
    /// Runs: ids, tags, or @1 for the latest
    #[arg(required = true, value_name = "RUN")]
    names: Vec<String>,
    /// File to write; `-` is standard output [default: RUN.tar.gz; for several runs, runs.tar.gz]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Facts of the host to include: brief omits the kernel's command line, directories of the
    /// command, and the page
    #[arg(long, value_enum, default_value = "full")]
    facts: Facts,
}

/// What is taken in.
#[derive(Debug, Args)]
pub struct Import {
    /// Files written by `runs export`; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Export {
    /// Runs the command.
    pub fn run(&self, roots: &Roots, global: &Global) -> anyhow::Result<Code> {
        let runs = resolve_all(roots, &self.names)?;
        let name = match &runs[..] {
            [one] => format!("{}.tar.gz", one.file_name().unwrap_or_default().display()),
            _ => "runs.tar.gz".to_owned(),
        };
        let file = self.output.clone().unwrap_or_else(|| name.into());
        if file == Path::new(STREAM) {
            if global.json {
                let reason = "-o - is the archive itself: leave --json out, or name a file";
                return Err(Usage(reason.into()).into());
            }
            if std::io::stdout().is_terminal() {
                let reason = "an archive is not readable on a terminal; name a file with -o FILE, or pipe it to a program";
                return Err(Usage(reason.into()).into());
            }
            let made = fwdlab_store::export(
                &runs,
                BufWriter::new(output::Stdout),
                Path::new("standard output"),
                self.facts.shown(),
            );
            return match made {
                // the reader closed the pipe
                Err(StoreError::System { source, .. })
                    if source.kind() == ErrorKind::BrokenPipe =>
                {
                    Ok(Code::Done)
                }
                made => Ok(made.map(|()| Code::Done)?),
            };
        }
        if self.output.is_none() && file.exists() {
            let reason = format!(
                "{} exists already; name another file with -o FILE",
                file.display()
            );
            return Err(Usage(reason).into());
        }
        // write under a temporary name, so that an incomplete archive never looks complete
        let part = file.with_added_extension("part");
        let write = || -> anyhow::Result<()> {
            let to = File::create(&part).with_context(|| format!("create {}", part.display()))?;
            fwdlab_store::export(&runs, BufWriter::new(&to), &part, self.facts.shown())?;
            to.sync_all()
                .with_context(|| format!("write {}", part.display()))?;
            fs::rename(&part, &file).with_context(|| format!("write {}", file.display()))
        };
        if let Err(error) = write() {
            let _ = fs::remove_file(&part);
            return Err(error);
        }
        let document = serde_json::json!({ "exported": runs, "file": file });
        global.result(&document, &file.display().to_string())
    }
}

impl Import {
    /// Runs the command.
    pub fn run(&self, roots: &Roots, global: &Global) -> anyhow::Result<Code> {
        let mut taken = Vec::new();
        for file in &self.files {
            let runs = match file == Path::new(STREAM) {
                true => {
                    let from = std::io::stdin().lock();
                    fwdlab_store::import_runs(roots.first(), from, Path::new("standard input"))?
                }
                false => {
                    let from = File::open(file).with_context(|| {
                        format!("cannot open {}, an archive of runs", file.display())
                    })?;
                    fwdlab_store::import_runs(roots.first(), from, file)?
                }
            };
            if !global.json {
                for run in &runs {
                    output::note(&format!("imported  {}", run.display()));
                }
            }
            taken.extend(runs);
        }
        if global.json {
            output::json(&serde_json::json!({ "imported": taken }))?;
        }
        Ok(Code::Done)
    }
}
