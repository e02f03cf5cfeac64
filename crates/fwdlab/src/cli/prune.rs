//! `fwdlab runs prune`: removes old runs by rule. Keeps tagged runs and those that are running.
//! Start with [`Prune::run`].

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use fwdlab_model::result::RunState;
use fwdlab_report::number::{bytes, counted};
use fwdlab_store::{Roots, RunEntry};
use jiff::{Span, SpanRelativeTo, Timestamp};

use super::Global;
use crate::exit_code::Code;
use crate::output;

/// Which runs may go.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("rule").required(true).multiple(true).args(["keep", "older_than"])))]
pub struct Prune {
    /// Always keep the newest N runs
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Remove only runs that started longer ago than this: 30d, 12h, 8w
    #[arg(long, value_name = "TIME", value_parser = age)]
    older_than: Option<Span>,
    /// Only runs of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Also remove runs that have tags
    #[arg(long)]
    tagged: bool,
    /// Remove the runs; without this option, only list them
    #[arg(long)]
    yes: bool,
}

fn age(text: &str) -> Result<Span, String> {
    let span: Result<Span, _> = text.parse();
    span.ok()
        .filter(|span| span.is_positive())
        .ok_or_else(|| "give a time: 30d, 12h, 8w".into())
}

impl Prune {
    /// Runs the command.
    pub fn run(&self, roots: &Roots, global: &Global) -> anyhow::Result<Code> {
        let before = match self.older_than {
            Some(span) => Some(past(span).context("--older-than")?),
            None => None,
        };
        let all = fwdlab_store::list(roots.first())?;
        // newest first: the first N are kept, whatever the other options say
        let of_kind = all.into_iter().filter(|run| self.matches_kind(run));
        let older = of_kind.skip(self.keep.unwrap_or(0));
        let going: Vec<RunEntry> = older
            .filter(|run| self.may_be_removed(run, before))
            .collect();
        let mut gone: Vec<PathBuf> = Vec::new();
        let mut total = 0;
        for run in &going {
            let size = size(&run.path);
            total += size;
            if self.yes {
                fwdlab_store::remove(&run.path)?;
                gone.push(run.path.clone());
            }
            if !global.json {
                let what = if self.yes { "removed" } else { "would go" };
                output::lines(&format!("{what:<10}{}  {}", run.id, bytes(size)));
            }
        }
        if global.json {
            let paths: Vec<&PathBuf> = going.iter().map(|run| &run.path).collect();
            output::json(&serde_json::json!({
                "chosen": paths, "removed": gone, "size_bytes": total
            }))?;
            return Ok(Code::Done);
        }
        let count = counted(going.len() as u64, "run");
        output::note(&match (going.is_empty(), self.yes) {
            (true, _) => "no run is old enough to go".to_owned(),
            (false, true) => format!("{count}, {} free", bytes(total)),
            (false, false) => format!("{count}, {}; with --yes they are removed", bytes(total)),
        });
        Ok(Code::Done)
    }

    fn matches_kind(&self, run: &RunEntry) -> bool {
        let is = |kind: &String| run.info.as_ref().is_some_and(|info| info.kind == *kind);
        self.kind.as_ref().is_none_or(is)
    }

    /// Returns true if a run may be removed. Keeps runs without a date, because their age is
    /// unknown.
    fn may_be_removed(&self, run: &RunEntry, before: Option<Timestamp>) -> bool {
        let ended = run.state.is_some_and(|state| state != RunState::Running);
        let started = run.started_at;
        ended
            && (self.tagged || run.labels.tags.is_empty())
            && started.is_some_and(|started| before.is_none_or(|before| started < before))
    }
}

/// Returns the time this long ago. A day has 24 hours.
fn past(span: Span) -> Result<Timestamp, jiff::Error> {
    let time = span.to_duration(SpanRelativeTo::days_are_24_hours())?;
    Timestamp::now().checked_sub(time)
}

/// Returns the size of the files in a run; files that cannot be read count as 0.
fn size(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => size(&entry.path()),
        _ => entry.metadata().map_or(0, |file| file.len()),
    });
    sizes.sum()
}
