//! `fwdlab runs rebuild`: computes the results of a stored run again with this version of the
//! program. Start with [`Rebuild::run`].

use std::path::Path;

use anyhow::Context;
use clap::Args;
use fwdlab_report::html::ShownFacts;
use fwdlab_report::run::Run;
use fwdlab_store::Roots;
use serde::Serialize;

use super::Global;
use super::runs::{profiles, resolve_all};
use crate::exit_code::Code;
use crate::output;

/// Which runs.
#[derive(Debug, Args)]
pub struct Rebuild {
    /// Runs: ids, tags, or @1 for the latest
    #[arg(required = true, value_name = "RUN")]
    names: Vec<String>,
}

/// The outcome for a run.
#[derive(Debug, Serialize)]
struct Rebuilt {
    run: String,
    /// Parts of the result that have changed.
    renewed: Vec<String>,
    /// Differences from the stored result.
    differences: Vec<String>,
    /// Parts that cannot be derived, and why.
    not_derived: Vec<String>,
}

impl Rebuild {
    /// Runs the command.
    pub fn run(&self, roots: &Roots, global: &Global) -> anyhow::Result<Code> {
        let directories = resolve_all(roots, &self.names)?;
        let mut all = Vec::new();
        for directory in &directories {
            let rebuilt = rebuild(directory)
                .with_context(|| format!("cannot rebuild {}", directory.display()))?;
            if !global.json {
                output::lines(&rebuilt.text());
            }
            all.push(rebuilt);
        }
        if global.json {
            output::json(&all)?;
        }
        Ok(Code::Done)
    }
}

fn rebuild(directory: &Path) -> anyhow::Result<Rebuilt> {
    let run = fwdlab_store::load(directory)?;
    let reason = run.problems.first().map_or("it has no result", |p| p);
    let summary = run.summary.as_ref().with_context(|| reason.to_owned())?;
    let again = fwdlab_lab::run::verify::derive(&run);
    let (renewed, names) = again.renewed(summary)?;
    let shown = Run {
        trials: &run.trials,
        rebuilds: &run.rebuilds,
        profiles: &profiles(&run),
        ..Run::new(&run.info, &renewed)
    };
    let page = fwdlab_report::html::page(&shown, ShownFacts::Brief);
    fwdlab_store::rebuild(&run, &renewed, &page)?;
    Ok(Rebuilt {
        run: run.info.id.clone(),
        renewed: names.into_iter().map(str::to_owned).collect(),
        differences: again.differences,
        not_derived: again.not_derived,
    })
}

impl Rebuilt {
    fn text(&self) -> String {
        let result = match &self.renewed[..] {
            [] => "the result is the same".to_owned(),
            parts => format!("new in the result: {}", parts.join(", ")),
        };
        let mut text = format!("{}  {result}; report.html is new", self.run);
        for difference in &self.differences {
            text += &format!("\n  {difference}");
        }
        for reason in &self.not_derived {
            text += &format!("\n  as before: {reason}");
        }
        text
    }
}
