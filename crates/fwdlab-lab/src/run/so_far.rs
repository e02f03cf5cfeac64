//! The result of a run in progress, from what it has measured so far: a page shows it until the run
//! has one.
//!
//! Its noise is not judged, because that takes the readings of the whole run. Start with
//! [`so_far`].

use fwdlab_measure::campaign::summarise;
use fwdlab_measure::trust;
use fwdlab_model::campaign::{Campaign, Case, Order};
use fwdlab_model::event::{Event, EventKind};
use fwdlab_model::result::{Noise, Summary};
use fwdlab_model::test_case::{Iteration, TestCase};
use fwdlab_model::version::RUN_FORMAT;
use fwdlab_store::StoredRun;
use serde_json::Value;

use super::verify::{derive_cases, divided, found_again};

/// The campaign among the inputs of a run.
const FILE: &str = "campaign.toml";

/// Returns the result of a run without one; `None` if nothing follows from its records yet.
pub fn so_far(run: &StoredRun) -> Option<Summary> {
    let text = std::fs::read_to_string(run.path.join("inputs").join(FILE)).ok()?;
    let campaign = Campaign::parse(FILE, &text).ok()?;
    let names = run
        .info
        .parameters
        .get("test_cases")
        .and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    let cases = names.filter_map(|name| {
        let case = campaign.cases.iter().find(|case| is_named(case, name))?;
        Some((name.to_owned(), case.clone()))
    });
    let cases: Vec<(String, Case)> = cases.collect();
    let procedure = campaign.procedure.id();
    let test_cases = match campaign.order {
        Order::Together => {
            let mut begun = divided(run, cases, found_again(run, &[])?.ok()?);
            begun.retain(|case| case.iterations.iter().any(|one| !one.trials.is_empty()));
            begun
        }
        _ => {
            let events = run.ended_iterations();
            let begun = cases.into_iter().map(|(name, case)| TestCase {
                iterations: ended(&events, &name),
                ..summarise(name, &case, Vec::new())
            });
            let begun: Vec<TestCase> = begun.filter(|one| !one.iterations.is_empty()).collect();
            derive_cases(run, &events, procedure, &begun)
        }
    };
    if test_cases.is_empty() {
        return None;
    }
    let mut summary = Summary {
        format: RUN_FORMAT,
        run: run.info.id.clone(),
        procedure: procedure.into(),
        test_cases,
        control: None,
        imported: Vec::new(),
        noise: Noise::default(),
        warnings: Vec::new(),
        thresholds: Vec::new(),
        imix_estimate_l2_bps: None,
    };
    trust::not_judged(&mut summary, "the run is in progress");
    Some(summary)
}

/// Returns true if this is the name of the test case in a run; on a virtual machine it ends with
/// the image.
fn is_named(case: &Case, name: &str) -> bool {
    let without_image = name.rsplit_once('@').map_or(name, |(before, _)| before);
    let id = case.id();
    id == name || case.series() == name || case.image.is_none() && id == without_image
}

/// Returns the iterations of a test case that have ended.
pub(super) fn ended(events: &[Event], name: &str) -> Vec<Iteration> {
    let mut known: Vec<Iteration> = Vec::new();
    for event in events {
        if let EventKind::IterationFinished {
            test_case,
            iteration,
        } = &event.kind
            && test_case == name
        {
            // an interrupted iteration was measured again
            known.retain(|one| one.iteration != iteration.iteration);
            known.push((**iteration).clone());
        }
    }
    known
}
