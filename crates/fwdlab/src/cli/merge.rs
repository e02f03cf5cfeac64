//! `fwdlab runs merge`: joins the shards of a campaign into one run. Start with [`Merge::run`].

use anyhow::Context;
use clap::Args;
use fwdlab_lab::LabError;
use fwdlab_lab::run::merge::{Shards, merge};
use fwdlab_model::campaign::Campaign;
use fwdlab_report::html::{ShownFacts, page};
use fwdlab_store::Roots;

use super::campaign::{judge, references};
use super::run::{Document, kept_in, shown};
use super::runs::{profiles, resolve_all};
use super::{Global, run_screen};
use crate::exit_code::{Code, Usage, for_measurement};
use crate::output;

/// Which runs.
#[derive(Debug, Args)]
pub struct Merge {
    /// All shards of a campaign: ids or tags
    #[arg(required = true, value_name = "RUN")]
    names: Vec<String>,
}

impl Merge {
    /// Runs the command.
    pub fn run(&self, roots: &Roots, global: &Global) -> anyhow::Result<Code> {
        let directories = resolve_all(roots, &self.names)?;
        let loaded = directories.iter().map(|path| fwdlab_store::load(path));
        let shards = match Shards::new(loaded.collect::<Result<_, _>>()?) {
            // the user named runs that do not belong together
            Err(LabError::Preflight(reason)) => return Err(Usage(reason).into()),
            shards => shards?,
        };
        let campaign = Campaign::parse("campaign.toml", &shards.campaign())?;
        let references = references(&campaign, global)?;
        let merged = merge(
            roots.first(),
            &shards,
            run_screen::command_line(),
            |run| judge(&campaign, &references, run),
            |run| {
                let profiles = profiles(run);
                let shown = shown(run, &profiles);
                shown.map_or_else(String::new, |run| page(&run, ShownFacts::Brief))
            },
        )?;
        let summary = merged.summary.as_ref().context("a run without a result")?;
        if global.json {
            output::json(&Document::new(&merged))?;
        } else {
            let level = fwdlab_report::trust::level(Some(merged.state), Some(summary));
            output::answer(level, fwdlab_report::text::quick(&merged.info, summary));
            output::lines(&kept_in(&merged.path));
        }
        Ok(for_measurement(summary))
    }
}
