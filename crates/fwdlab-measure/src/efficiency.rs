//! The DUT's cost of forwarding in a test case: selects the trials that show it, and combines them.
//!
//! A search makes trials of many loads, and the cost of a frame depends on the load: the busiest
//! trial of each iteration counts. [`fwdlab_model::efficiency`] defines what is counted in a trial.
//! Start with [`keep`].

use std::collections::BTreeMap;

use fwdlab_model::efficiency::Work;
use fwdlab_model::result::TrialRecord;
use fwdlab_model::test_case::TestCase;

/// Stores the combined cost of its trials with every test case.
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

/// Returns the frames per second that came back.
fn rate_pps(work: &Work) -> f64 {
    work.frames as f64 / work.duration_s.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use fwdlab_model::campaign::{Case, Kind};
    use fwdlab_model::result::Validity;
    use fwdlab_model::test_case::Iteration;
    use fwdlab_model::trial::{IpVersion, Stream};
    use fwdlab_model::units::FrameSize;
    use fwdlab_model::variant::Variant;

    use super::*;
    use crate::campaign::summarise;

    fn trial(number: u32, frames: u64, reasons: &[&str]) -> TrialRecord {
        TrialRecord {
            trial: number,
            validity: Validity {
                reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
            },
            work: Some(Box::new(Work {
                duration_s: 1.0,
                frames,
                cpu_ns: Some(frames * 100),
                ..Work::default()
            })),
            ..crate::maxfwd::tests::trial(1, &[])
        }
    }

    #[test]
    fn the_busiest_valid_trial_of_each_good_iteration_counts() {
        let case = Case {
            configuration: "plain".into(),
            stream: Stream::new(IpVersion::Ipv4, FrameSize::MIN, 1).unwrap(),
            variant: Variant::default(),
            image: None,
            dut: Kind::Linux,
        };
        let iteration = |iteration, trials: &[u32], failure: Option<&str>| Iteration {
            iteration,
            trials: trials.to_vec(),
            failure: failure.map(str::to_owned),
            ..Iteration::default()
        };
        let iterations = vec![
            iteration(1, &[1, 2, 3], None),
            iteration(2, &[4], None),
            iteration(3, &[5], Some("it went wrong")),
        ];
        let trials = [
            trial(1, 10, &[]),
            trial(2, 30, &[]),
            trial(3, 900, &["disturbed"]),
            trial(4, 5, &[]),
            trial(5, 7, &[]),
            // of another test case
            trial(6, 1000, &[]),
        ];
        let mut cases = [summarise("plain".into(), &case, iterations)];
        keep(&mut cases, &trials);
        let work = cases[0].work.as_ref().unwrap();
        assert_eq!((work.frames, work.cpu_ns), (35, Some(3500)));
        assert_eq!(work.duration_s, 2.0);
        // without counts there is no result
        let silent = trials.map(|trial| TrialRecord {
            work: None,
            ..trial
        });
        keep(&mut cases, &silent);
        assert_eq!(cases[0].work, None);
    }
}
