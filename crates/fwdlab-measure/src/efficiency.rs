//! What forwarding took of the DUT in a test case: which of its trials say that, and what they say together.
//!
//! A search makes trials of many loads, and what a frame takes depends on the load: the busiest trial of each iteration counts. What is
//! counted in a trial is in [`fwdlab_model::efficiency`]. Start with [`keep`].

use std::collections::BTreeMap;

use fwdlab_model::efficiency::Work;
use fwdlab_model::result::TrialRecord;
use fwdlab_model::test_case::TestCase;

/// Keeps with every test case what its trials say.
pub fn keep(cases: &mut [TestCase], trials: &[TrialRecord]) {
    let trials: BTreeMap<u32, &TrialRecord> = trials.iter().map(|t| (t.trial, t)).collect();
    for case in cases {
        let good = case.iterations.iter().filter(|one| one.failure.is_none());
        let busiest = good.filter_map(|iteration| {
            let own = iteration.trials.iter().filter_map(|n| trials.get(n));
            let valid = own.filter(|trial| trial.validity.is_valid());
            let said = valid.filter_map(|trial| trial.work.as_deref());
            said.max_by(|a, b| rate_pps(a).total_cmp(&rate_pps(b)))
        });
        case.work = busiest.cloned().reduce(|mut all, one| {
            all.add(&one);
            all
        });
    }
}

/// Frames per second that came back.
fn rate_pps(work: &Work) -> f64 {
    work.frames as f64 / work.duration_s.max(f64::MIN_POSITIVE)
}
