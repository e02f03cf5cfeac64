//! `fwdlab runs`: stored runs.

use std::path::Path;

use anyhow::Context;
use clap::Subcommand;
use report::table::shorten;

use super::Global;
use crate::exit_code::Code;
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
    },
    /// Remove runs
    Rm {
        /// Which runs
        // not `runs`: that is the id of the global --runs, and clap wants one type per id
        #[arg(required = true, value_name = "RUN")]
        names: Vec<String>,
    },
}

impl Runs {
    /// Runs it.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let root = global.runs_root()?;
        match self {
            Runs::Ls => list(&root, global),
            Runs::Show { run } => show(&root, &run, global),
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

fn show(root: &Path, name: &str, global: &Global) -> anyhow::Result<Code> {
    let directory = store::resolve(root, name)?;
    let run = store::load(&directory)?;
    for problem in &run.problems {
        output::note(&format!("warning   {problem}"));
    }
    if global.json {
        output::json(&serde_json::json!({
            "info": run.info, "directory": directory, "state": run.state,
            "summary": run.summary, "trials": run.trials, "rebuilds": run.rebuilds, "imported": run.imported,
        }))?;
        return Ok(Code::Done);
    }
    match &run.summary {
        Some(summary) => output::result(&report::text::quick(&run.info, summary)),
        None => {
            let why = run.info.error.as_deref().unwrap_or("it has no summary");
            output::result(&format!(
                "{}  {:?}: {why}\n{} trials and {} rebuilds are kept",
                run.info.id,
                run.state,
                run.trials.len(),
                run.rebuilds.len()
            ));
        }
    }
    output::result(&format!("saved     {}", directory.display()));
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
