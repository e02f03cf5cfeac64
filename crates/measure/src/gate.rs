//! The contention gate: which windows the machine was quiet in, and of those, which were measured in one state of it.
//!
//! Shared virtual CPUs change their speed by 40 % within seconds, and a hypervisor moves them: onto one core, onto one cache, onto
//! two. Probes read both beside every window: the speed of the CPUs, and the distance between them. A window is quiet when the
//! readings on both sides are near the machine's full speed and of its commonest distance. The choice looks at the probes alone
//! and never at the result, so it cannot flatter anybody. Start with [`Gate::calibrate`].

use model::probe::{ApartStratum, DistanceClass, Reading};
use model::result::{Stratum, TrialRecord};
use stats::{Cluster, Sample, Split, clusters, split};

/// A quiet reading is at least this share of the full speed. On the machines measured so far, quiet readings scatter by
/// 3 % and contended ones lie 15 to 55 % below.
const QUIET_SHARE: f64 = 0.93;

/// Fewest readings from which a threshold is drawn, and from which distances are told apart.
pub const MIN_READINGS: usize = 20;

/// What separates quiet from contended, and one distance of the CPUs from another.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// What it was found from.
    readings: Vec<Reading>,
    threshold: f64,
    words: String,
    /// Levels of distance, of each pair of CPUs.
    levels: Vec<Vec<Cluster>>,
    /// Combinations of them, the commonest first; empty where no distance was read.
    classes: Vec<Class>,
}

/// One state that the hypervisor puts the CPUs into.
#[derive(Debug, Clone, PartialEq)]
struct Class {
    /// Which level each pair is at.
    level: Vec<usize>,
    told: DistanceClass,
}

/// What the probes say of a window, or of a trial that counts as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Full speed, and the CPUs as far apart as most of the time, where that was read.
    Quiet,
    /// Slower than full speed, before or after.
    Contended,
    /// Full speed, and the CPUs in another class of distance all the time: its place in [`Gate::classes`].
    Apart(usize),
    /// Full speed, but the distance changed, or belongs to no class.
    Moved,
}

impl Gate {
    /// Finds speed and classes from readings of the probes, and from nothing else.
    ///
    /// If the speeds fall into two groups, full speed is the centre of the faster one; else it is their upper quartile. Distances
    /// fall into as many classes as there are groups of readings ([`clusters`]). `None` with fewer than [`MIN_READINGS`].
    pub fn calibrate(readings: &[Reading]) -> Option<Gate> {
        let speeds: Vec<f64> = readings.iter().map(|r| r.additions_per_ns).collect();
        let (threshold, words) = threshold(&speeds)?;
        let full: Vec<&Reading> = readings
            .iter()
            .filter(|r| r.additions_per_ns >= threshold)
            .collect();
        let pairs = full.iter().map(|r| r.distances_ns.len()).max().unwrap_or(0);
        let levels: Vec<Vec<Cluster>> = (0..pairs).map(|pair| levels(&full, pair)).collect();
        let mut classes: Vec<Class> = Vec::new();
        for reading in &full {
            let Some(level) = level(&levels, reading) else {
                continue;
            };
            match classes.iter_mut().find(|class| class.level == level) {
                Some(class) => class.told.readings += 1,
                None => classes.push(Class {
                    told: DistanceClass {
                        round_trip_ns: level
                            .iter()
                            .zip(&levels)
                            .map(|(&at, levels)| levels[at].centre.round())
                            .collect(),
                        readings: 1,
                        percent: 0.0,
                    },
                    level,
                }),
            }
        }
        for class in &mut classes {
            class.told.percent = 100.0 * f64::from(class.told.readings) / full.len() as f64;
        }
        // of two as common the nearer one: `level` counts from the nearest
        classes.sort_by(|a, b| {
            (b.told.readings.cmp(&a.told.readings)).then_with(|| a.level.cmp(&b.level))
        });
        Some(Gate {
            readings: readings.to_vec(),
            threshold,
            words,
            levels,
            classes,
        })
    }

    /// Judges all trials of a run anew, now that all readings are known, and returns the gate that did it.
    pub fn judge_run(&self, trials: &mut [TrialRecord]) -> Gate {
        let beside: Vec<Reading> = trials.iter().flat_map(|t| t.probes.clone()).collect();
        let gate = of_run(&self.readings, &beside).unwrap_or_else(|| self.clone());
        trials
            .iter_mut()
            .for_each(|trial| judge_trial(trial, Some(&gate)));
        gate
    }

    /// Additions per nanosecond from which on a reading is quiet.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// How threshold and classes were found, for people.
    pub fn words(&self) -> String {
        let Some((first, rest)) = self.classes.split_first() else {
            return self.words.clone();
        };
        let share = |class: &Class| format!("{} ({:.0} %)", class.told, class.told.percent);
        let others: Vec<String> = rest.iter().map(share).collect();
        let others = match others.is_empty() {
            true => String::new(),
            false => format!(", also {}", others.join(", ")),
        };
        format!("{}; CPUs {}{others}", self.words, share(first))
    }

    /// The classes of distance, the commonest first: a quiet window is of that one. Empty where no distance could be read.
    pub fn classes(&self) -> Vec<DistanceClass> {
        self.classes
            .iter()
            .map(|class| class.told.clone())
            .collect()
    }

    /// What the readings on both sides of a window say of it.
    pub fn condition(&self, before: &Reading, after: &Reading) -> Condition {
        if before.additions_per_ns.min(after.additions_per_ns) < self.threshold {
            return Condition::Contended;
        }
        if self.classes.is_empty() {
            return Condition::Quiet;
        }
        match (self.class(before), self.class(after)) {
            (Some(0), Some(0)) => Condition::Quiet,
            (Some(class), Some(same)) if class == same => Condition::Apart(class),
            _ => Condition::Moved,
        }
    }

    fn class(&self, reading: &Reading) -> Option<usize> {
        let level = level(&self.levels, reading)?;
        self.classes.iter().position(|class| class.level == level)
    }
}

/// The gate of a run: from the readings beside its trials, where they are enough to find two speeds, else with those that were taken
/// before the first one. A moment before the run must not decide which class of distance was the commonest in it.
pub fn of_run(before: &[Reading], beside: &[Reading]) -> Option<Gate> {
    match beside.len() {
        n if n >= stats::MIN_READINGS => Gate::calibrate(beside),
        _ => Gate::calibrate(&[before, beside].concat()),
    }
}

/// Sorts a trial that counts as a whole into one stratum, as the one window that it is, by its probes.
pub fn judge_trial(record: &mut TrialRecord, gate: Option<&Gate>) {
    let condition = match (gate, &record.probes[..]) {
        (Some(gate), [before, .., after]) => Some(gate.condition(before, after)),
        _ => None,
    };
    let one = |wanted| Stratum {
        windows: u32::from(condition == Some(wanted)),
        forwarding_rate_pps: None,
    };
    record.quiet = one(Condition::Quiet);
    record.contended = one(Condition::Contended);
    let round_trip_ns = match (gate, condition) {
        (Some(gate), Some(Condition::Apart(k))) => gate.classes[k].told.round_trip_ns.clone(),
        (Some(_), Some(Condition::Moved)) => Vec::new(),
        _ => {
            record.apart.clear();
            return;
        }
    };
    record.apart = vec![ApartStratum {
        round_trip_ns,
        stratum: Stratum {
            windows: 1,
            forwarding_rate_pps: None,
        },
    }];
}

/// The levels of one pair of CPUs.
fn levels(readings: &[&Reading], pair: usize) -> Vec<Cluster> {
    let distances: Vec<f64> = readings
        .iter()
        .filter_map(|r| r.distances_ns.get(pair).copied())
        .collect();
    Sample::new(distances).map_or_else(|_| Vec::new(), |sample| clusters(&sample))
}

/// Which level each pair is at; `None` where one was not read, or is at none.
fn level(levels: &[Vec<Cluster>], reading: &Reading) -> Option<Vec<usize>> {
    if levels.is_empty() || reading.distances_ns.len() != levels.len() {
        return None;
    }
    let distances = reading.distances_ns.iter().zip(levels);
    distances
        .map(|(ns, levels)| levels.iter().position(|level| level.contains(*ns)))
        .collect()
}

/// The speed that separates quiet from contended, and how it was found.
fn threshold(speeds: &[f64]) -> Option<(f64, String)> {
    if speeds.len() < MIN_READINGS {
        return None;
    }
    let sample = Sample::new(speeds).ok().filter(|s| s.min() > 0.0)?;
    Some(match split(&sample) {
        Split::Two {
            threshold,
            low_centre,
            high_centre,
            share_high,
        } => (
            threshold.max(QUIET_SHARE * high_centre),
            format!(
                "two speeds, {low_centre:.2} and {high_centre:.2} additions/ns; the CPU had the higher one in {:.0} % of {} readings",
                100.0 * share_high,
                sample.n()
            ),
        ),
        Split::Uniform => (
            QUIET_SHARE * sample.quantile(0.75),
            format!(
                "one speed, {:.2} additions/ns (upper quartile of {} readings)",
                sample.quantile(0.75),
                sample.n()
            ),
        ),
    })
}

#[cfg(test)]
mod tests {
    use model::loss::{Counters, Ledger};
    use model::result::Validity;
    use model::trial::{IpVersion, Stream};
    use model::units::FrameSize;
    use model::variant::Variant;

    use super::*;

    /// Readings of a speed, and of distances where there are any.
    fn reading(speed: f64, distances: &[f64]) -> Reading {
        Reading {
            additions_per_ns: speed,
            distances_ns: distances.to_vec(),
        }
    }

    /// About so much: within 2 %, differently for each.
    fn about(centre: f64, i: usize) -> f64 {
        centre * (1.0 + 0.02 * ((i * 7 % 11) as f64 / 5.0 - 1.0))
    }

    fn readings(slow: usize, fast: usize) -> Vec<Reading> {
        (0..slow)
            .map(|i| reading(about(9.0, i), &[]))
            .chain((0..fast).map(|i| reading(about(17.5, i), &[])))
            .collect()
    }

    /// Readings at full speed, so many at each of these distances.
    fn apart(levels: &[(&[f64], usize)]) -> Vec<Reading> {
        levels
            .iter()
            .flat_map(|&(ns, count)| (0..count).map(move |i| (ns, i)))
            .map(|(ns, i)| {
                let ns: Vec<f64> = ns.iter().map(|ns| about(*ns, i)).collect();
                reading(about(17.5, i), &ns)
            })
            .collect()
    }

    #[test]
    fn two_speeds_are_told_apart() {
        let gate = Gate::calibrate(&readings(40, 60)).unwrap();
        assert!(
            gate.threshold() > 15.0 && gate.threshold() < 17.0,
            "{gate:?}"
        );
        let of = |before, after| gate.condition(&reading(before, &[]), &reading(after, &[]));
        assert_eq!(of(17.5, 17.2), Condition::Quiet);
        assert_eq!(of(17.5, 9.1), Condition::Contended);
        assert_eq!(of(9.0, 17.5), Condition::Contended);
    }

    #[test]
    fn one_speed_passes_itself() {
        let all = readings(0, 100);
        let gate = Gate::calibrate(&all).unwrap();
        assert!(
            all.iter().all(|r| gate.condition(r, r) == Condition::Quiet),
            "{gate:?}"
        );
        let slow = reading(14.0, &[]);
        assert_eq!(gate.condition(&slow, &all[0]), Condition::Contended);
        assert!(gate.classes().is_empty());
    }

    #[test]
    fn too_few_or_senseless_readings_give_no_gate() {
        let all_of = |speed| Gate::calibrate(&vec![reading(speed, &[118.0]); 50]);
        assert_eq!(Gate::calibrate(&readings(0, 19)), None);
        assert_eq!(all_of(0.0), None);
        assert_eq!(all_of(f64::NAN), None);
    }

    /// The levels of an EPYC host, whose hypervisor moves the CPUs between one core, one cache and two.
    #[test]
    fn classes_are_the_commonest_first_and_a_window_is_of_one() {
        let all = apart(&[(&[45.0], 20), (&[118.0], 150), (&[475.0], 60)]);
        let gate = Gate::calibrate(&all).unwrap();
        let classes = gate.classes();
        let trips: Vec<f64> = classes.iter().map(|c| c.round_trip_ns[0]).collect();
        assert_eq!(trips, [118.0, 475.0, 45.0]);
        assert_eq!(classes.iter().map(|c| c.readings).sum::<u32>(), 230);
        assert!(
            gate.words()
                .ends_with("CPUs 118 ns apart (65 %), also 475 ns apart (26 %), 45 ns apart (9 %)"),
            "{}",
            gate.words()
        );
        let of =
            |before, after| gate.condition(&reading(17.5, &[before]), &reading(17.5, &[after]));
        assert_eq!(of(118.0, 117.0), Condition::Quiet);
        assert_eq!(of(470.0, 480.0), Condition::Apart(1));
        assert_eq!(of(45.0, 45.0), Condition::Apart(2));
        assert_eq!(of(118.0, 475.0), Condition::Moved);
        assert_eq!(of(250.0, 250.0), Condition::Moved);
        // slow is slow, wherever the CPUs are
        let slow = reading(9.0, &[118.0]);
        assert_eq!(gate.condition(&slow, &slow), Condition::Contended);
        // a distance that was not read is not known
        assert_eq!(
            gate.condition(&reading(17.5, &[]), &reading(17.5, &[118.0])),
            Condition::Moved
        );
    }

    #[test]
    fn one_class_chooses_as_no_class_does() {
        let all = apart(&[(&[118.0], 100)]);
        let with = Gate::calibrate(&all).unwrap();
        let without: Vec<Reading> = all
            .iter()
            .map(|r| reading(r.additions_per_ns, &[]))
            .collect();
        let gate = Gate::calibrate(&without).unwrap();
        assert_eq!((with.classes().len(), gate.classes().len()), (1, 0));
        assert_eq!(with.threshold(), gate.threshold());
        for (read, plain) in all.iter().zip(&without) {
            assert_eq!(with.condition(read, read), gate.condition(plain, plain));
        }
    }

    /// A generator and a DUT with two CPUs: two pairs that frames cross.
    #[test]
    fn every_pair_of_cpus_has_a_distance() {
        let all = apart(&[(&[118.0, 45.0], 60), (&[118.0, 475.0], 40)]);
        let gate = Gate::calibrate(&all).unwrap();
        assert_eq!(gate.classes().len(), 2);
        assert_eq!(gate.classes()[0].to_string(), "118/45 ns apart");
        let far = reading(17.5, &[118.0, 475.0]);
        assert_eq!(gate.condition(&all[0], &all[1]), Condition::Quiet);
        assert_eq!(gate.condition(&far, &far), Condition::Apart(1));
        assert_eq!(gate.condition(&all[0], &far), Condition::Moved);
    }

    /// A trial that counts as a whole, with what the probes read before and after it.
    fn trial(before: Reading, after: Reading) -> TrialRecord {
        TrialRecord {
            test_case: "64B".into(),
            procedure: "mlrsearch".into(),
            iteration: 1,
            trial: 1,
            control: false,
            started_at: String::new(),
            stream: Stream::new(IpVersion::Ipv4, FrameSize::MIN, 1).unwrap(),
            variant: Variant::default(),
            directions: Vec::new(),
            engine: String::new(),
            hold_ups: None,
            receiver: String::new(),
            duration_s: 1.0,
            intended_load_pps: None,
            offered_load_pps: 1e6,
            not_saturated: false,
            forwarding_rate_pps: None,
            forwarding_rate_ungated_pps: None,
            quiet: Stratum::default(),
            contended: Stratum::default(),
            apart: Vec::new(),
            probes: vec![before, after],
            windows_not_offered: 0,
            frame_loss_ratio: 0.0,
            ledger: Ledger::default(),
            counters: Counters::default(),
            search: None,
            asked: None,
            validity: Validity::default(),
        }
    }

    /// Windows of a trial: quiet, contended, apart.
    fn strata(trial: &TrialRecord) -> (u32, u32, Vec<(Vec<f64>, u32)>) {
        let apart = trial.apart.iter();
        (
            trial.quiet.windows,
            trial.contended.windows,
            apart
                .map(|s| (s.round_trip_ns.clone(), s.stratum.windows))
                .collect(),
        )
    }

    /// At the start of the run the CPUs were 475 ns apart, in nearly all of its trials 118 ns: that is its class.
    #[test]
    fn trials_are_judged_by_the_readings_of_the_whole_run() {
        let start = Gate::calibrate(&apart(&[(&[475.0], 120)])).unwrap();
        let at = |ns: f64| reading(17.5, &[ns]);
        let mut trials: Vec<TrialRecord> = (0..32).map(|_| trial(at(118.0), at(118.0))).collect();
        trials.extend((0..4).map(|_| trial(at(475.0), at(475.0))));
        trials.push(trial(at(118.0), at(475.0)));
        trials.push(trial(reading(9.0, &[118.0]), at(118.0)));
        trials
            .iter_mut()
            .for_each(|trial| judge_trial(trial, Some(&start)));
        assert_eq!(strata(&trials[33]), (1, 0, vec![]));
        let gate = start.judge_run(&mut trials);
        assert_eq!(gate.classes()[0].round_trip_ns, [118.0]);
        assert_eq!(strata(&trials[0]), (1, 0, vec![]));
        assert_eq!(strata(&trials[33]), (0, 0, vec![(vec![475.0], 1)]));
        assert_eq!(strata(&trials[36]), (0, 0, vec![(vec![], 1)]));
        assert_eq!(strata(&trials[37]), (0, 1, vec![]));
        // few readings beside few trials are judged with those from before
        let mut few = vec![trial(at(118.0), at(118.0))];
        assert_eq!(
            start.judge_run(&mut few).classes()[0].round_trip_ns,
            [475.0]
        );
        // without probes, as when the DUT is simulated, nothing is judged
        let mut plain = trial(at(118.0), at(118.0));
        plain.probes.clear();
        judge_trial(&mut plain, Some(&start));
        assert_eq!(strata(&plain), (0, 0, vec![]));
    }
}
