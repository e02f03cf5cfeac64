//! The earlier runs that show how much the figures of a campaign vary: the newest ones of the same
//! procedure on the same test bed.
//!
//! `fwdlab_measure::expect` draws conclusions from them. Nothing is measured here. Start with
//! [`earlier`].

use std::path::Path;

use fwdlab_model::campaign::Campaign;
use fwdlab_model::facts::TEST_BED;
use fwdlab_model::result::{RunInfo, RunState, Summary};
use fwdlab_store::Roots;

/// Number of newest runs to use.
const RUNS: usize = 10;

/// Returns the summaries of the newest runs under `runs` of the same procedure on the same test
/// bed; empty if there are none.
pub fn earlier(campaign: &Campaign, runs: &Roots) -> Vec<Summary> {
    let entries = fwdlab_store::list(runs).unwrap_or_default().into_iter();
    let alike = entries.filter(|entry| {
        let info = entry.info.as_ref();
        info.is_some_and(|info| is_comparable(info, campaign))
    });
    alike.filter_map(|entry| entry.summary).take(RUNS).collect()
}

/// Returns true if it is a finished run of the same procedure on the same test bed.
fn is_comparable(info: &RunInfo, campaign: &Campaign) -> bool {
    let bed = info.facts.placement.get(TEST_BED).map(String::as_str);
    let same_bed = match (&campaign.bed.file, bed) {
        (None, None) => true,
        (Some(file), Some(words)) => {
            // the description of a bed begins with its name, and its file has the same name
            let stem = Path::new(file).file_stem().unwrap_or_default();
            let name = words.split(':').next().unwrap_or_default();
            stem.to_string_lossy() == name
        }
        _ => false,
    };
    let procedure = info.parameters.get("procedure").and_then(|id| id.as_str());
    let same_procedure = procedure.unwrap_or(&info.kind) == campaign.procedure.id();
    info.state == RunState::Finished && !info.facts.is_simulated() && same_bed && same_procedure
}
