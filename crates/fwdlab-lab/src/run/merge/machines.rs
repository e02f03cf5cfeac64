//! What is kept apart when shards of measured DUTs are joined: each was measured on a machine of
//! its own, or at another time, so that their rates are not samples of one quantity.
//!
//! Every test case and record is marked with its shard: its references and its A/A control are
//! those of the same shard. Start with [`Label`].

use std::collections::{BTreeMap, BTreeSet};

use fwdlab_measure::exact;
use fwdlab_measure::maxfwd::control_of;
use fwdlab_measure::shard::Shard;
use fwdlab_model::event::RebuildRecord;
use fwdlab_model::outcome::{Found, Outcome};
use fwdlab_model::result::TrialRecord;
use fwdlab_model::telemetry::Record;
use fwdlab_model::test_case::{Iteration, TestCase};
use fwdlab_store::StoredRun;
use serde_json::Value;

use super::wrong;
use crate::error::LabError;

/// Returns true if its results depend on the machine that measured it.
pub(super) fn is_measured(run: &StoredRun) -> bool {
    let summary = run.summary.as_ref();
    summary.is_none_or(|summary| summary.procedure != exact::ID) && !run.info.facts.is_simulated()
}

/// Checks that shards of measured DUTs can be joined.
pub(super) fn check(shards: &[(Shard, StoredRun)]) -> Result<(), LabError> {
    match shards.iter().find(|(_, run)| !run.boots.is_empty()) {
        None => Ok(()),
        Some((_, run)) => wrong(format!(
            "{} has counts of instructions beside its rates: counts are joined if they are a campaign of their own",
            run.info.id
        )),
    }
}

/// Returns a warning that names the facts that differ between shards: a run has one set of them.
pub(super) fn differing_facts(shards: &[(Shard, StoredRun)]) -> Option<String> {
    let facts = shards
        .iter()
        .map(|(_, run)| serde_json::to_value(&run.info.facts));
    let facts: Vec<Value> = facts.filter_map(Result::ok).collect();
    let (first, others) = facts.split_first()?;
    let all = facts.iter().filter_map(Value::as_object);
    let names: BTreeSet<&String> = all.flat_map(|facts| facts.keys()).collect();
    let differs = |name: &&String| others.iter().any(|one| one.get(*name) != first.get(*name));
    let names: Vec<&str> = names
        .into_iter()
        .filter(differs)
        .map(|name| &name[..])
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "the facts of this run are those of shard {}; of other shards, these differ: {}",
            shards[0].0.number(),
            names.join(", ")
        )
    })
}

/// Marks the measurements of a shard with its number. Does nothing if shards are pooled.
pub(super) struct Label<'a> {
    shard: Option<u32>,
    /// The names of its test cases in the joined run.
    names: BTreeMap<&'a str, String>,
}

impl<'a> Label<'a> {
    /// Returns the label of this run; without a number, it changes nothing.
    pub(super) fn new(run: &'a StoredRun, shard: Option<u32>) -> Label<'a> {
        let summary = run.summary.iter().filter(|_| shard.is_some());
        let cases = summary.flat_map(|summary| &summary.test_cases);
        let named = cases.map(|case| {
            let mut marked = case.case.clone();
            marked.variant.shard = shard;
            let name = match case.test_case == case.case.id() {
                true => marked.id(),
                false => format!("{}/shard-{}", case.test_case, shard.unwrap_or_default()),
            };
            (&case.test_case[..], name)
        });
        Label {
            shard,
            names: named.collect(),
        }
    }

    fn rename(&self, name: &mut String) {
        let own = self
            .names
            .iter()
            .find_map(|(known, new)| match name == known {
                true => Some(new.clone()),
                false => (*name == control_of(known)).then(|| control_of(new)),
            });
        if let Some(new) = own {
            *name = new;
        }
    }

    pub(super) fn trial(&self, trial: &mut TrialRecord) {
        self.rename(&mut trial.test_case);
        trial.variant.shard = self.shard;
    }

    pub(super) fn rebuild(&self, record: &mut RebuildRecord) {
        for dut in &mut record.compared {
            self.rename(&mut dut.test_case);
        }
    }

    pub(super) fn telemetry(&self, record: &mut Record) {
        self.rename(&mut record.test_case);
    }

    pub(super) fn iteration(&self, test_case: &mut String, iteration: &mut Iteration) {
        self.rename(test_case);
        iteration
            .outcomes
            .iter_mut()
            .for_each(|one| self.outcome(one));
    }

    pub(super) fn case(&self, case: &mut TestCase) {
        self.rename(&mut case.test_case);
        case.case.variant.shard = self.shard;
        let of_iterations = case.iterations.iter_mut().flat_map(|one| &mut one.outcomes);
        let all = case.outcomes.iter_mut().chain(of_iterations);
        all.for_each(|outcome| self.outcome(outcome));
    }

    fn outcome(&self, outcome: &mut Outcome) {
        // slices are compared within a rebuild, whose outcome is that of the plain series
        if !matches!(outcome.found, Found::Paired(_)) {
            outcome.variant.shard = self.shard;
        }
    }
}
