//! `fwdlab runs`: stored runs.

use std::path::Path;

use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use report::table::shorten;

use super::Global;
use super::run::{Document, kept_in};
use crate::exit_code::{Code, Usage};
use crate::output;

/// What to do with stored runs. A run is named by its id, a unique prefix of it or of its last four characters, or `@1`
/// for the latest, `@2` for the one before.
#[derive(Debug, Subcommand)]
pub enum Runs {
    /// List runs, newest first
    Ls,
    /// Show the result of a run again
    Show {
        /// Which run
        run: String,
        /// How to print
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// Say in words why each trial was made and what it said
        #[arg(long)]
        explain: bool,
    },
    /// Remove runs
    Rm {
        /// Which runs
        // not `runs`: that is the id of the global --runs, and clap wants one type per id
        #[arg(required = true, value_name = "RUN")]
        names: Vec<String>,
    },
}

/// The formats of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// As at the end of the run
    #[default]
    Text,
    /// For an issue or a mail
    Markdown,
    /// Plain numbers in base units
    Csv,
    /// The page
    Html,
    /// Everything, with every trial
    Json,
}

impl Runs {
    /// Runs it.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let root = global.runs_root()?;
        match self {
            Runs::Ls => list(&root, global),
            Runs::Show {
                run,
                format,
                explain,
            } => show(&root, &run, format, explain, global),
            Runs::Rm { names } => remove(&root, &names),
        }
    }
}

fn list(root: &Path, global: &Global) -> anyhow::Result<Code> {
    let entries = store::list(root)?;
    if global.json {
        let infos: Vec<_> = entries.iter().filter_map(|e| e.info.as_ref()).collect();
        output::json(&infos)?;
        return Ok(Code::Done);
    }
    for entry in &entries {
        let state = entry
            .state
            .map_or("damaged".into(), |s| format!("{s:?}").to_lowercase());
        let result = match (&entry.result, entry.problems.first()) {
            (Some(result), _) => result.clone(),
            (None, Some(problem)) => problem.clone(),
            (None, None) => entry
                .info
                .as_ref()
                .and_then(|info| info.error.clone())
                .unwrap_or_default(),
        };
        output::result(&format!(
            "{:<26} {state:<12} {}",
            entry.id,
            shorten(&result, 100)
        ));
    }
    if entries.is_empty() {
        output::note(&format!(
            "no runs in {}; make one with: fwdlab quick",
            root.display()
        ));
    }
    Ok(Code::Done)
}

/// What was shown at the end of the run, in any format: everything is made from what is stored.
fn show(
    root: &Path,
    name: &str,
    asked: Format,
    explain: bool,
    global: &Global,
) -> anyhow::Result<Code> {
    let format = match (global.json, asked) {
        (false, format) => format,
        (true, Format::Text | Format::Json) => Format::Json,
        (true, _) => return Err(Usage("--json and --format name two formats".into()).into()),
    };
    let directory = store::resolve(root, name)?;
    let mut run = store::load(&directory)?;
    for problem in &run.problems {
        output::note(&format!("warning   {problem}"));
    }
    // of a run whose process died, what is true now
    run.info.state = run.state;
    if format == Format::Json {
        output::json(&Document {
            info: &run.info,
            directory: &directory,
            summary: run.summary.as_ref(),
            trials: &run.trials,
            rebuilds: &run.rebuilds,
            imported: &run.imported,
        })?;
        return Ok(Code::Done);
    }
    let Some(summary) = &run.summary else {
        let why = run.info.error.as_deref().unwrap_or("it has no summary");
        let state = format!("{:?}", run.state).to_lowercase();
        let left = format!(
            "{}  {state}: {why}\n{} trials and {} rebuilds are kept",
            run.info.id,
            run.trials.len(),
            run.rebuilds.len()
        );
        if format != Format::Text {
            anyhow::bail!("there is no result to print: {left}");
        }
        output::result(&format!("{left}\n{}", kept_in(&directory)));
        return Ok(Code::Done);
    };
    match format {
        Format::Text => {
            if explain {
                output::result(&format!("{}\n", report::text::explain(&run.trials)));
            }
            output::result(&report::text::quick(&run.info, summary));
            output::result(&kept_in(&directory));
        }
        Format::Markdown => output::result(&report::markdown::summary(&run.info, summary)),
        Format::Csv => output::result(&report::csv::summary(summary)),
        Format::Html => output::result(&report::html::page(
            &run.info,
            summary,
            &run.trials,
            &run.rebuilds,
        )),
        Format::Json => {}
    }
    Ok(Code::Done)
}

fn remove(root: &Path, names: &[String]) -> anyhow::Result<Code> {
    // all names first: @1 means something else once a run is gone
    let directories = names
        .iter()
        .map(|name| store::resolve(root, name))
        .collect::<Result<Vec<_>, _>>()?;
    for directory in directories {
        store::remove(&directory).with_context(|| format!("remove {}", directory.display()))?;
        output::note(&format!("removed   {}", directory.display()));
    }
    Ok(Code::Done)
}
