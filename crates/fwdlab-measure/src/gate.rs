//! The contention gate: sorts windows by the state that the machine was in.
//!
//! Shared virtual CPUs change their speed by 40 % within seconds, and a hypervisor moves them: onto
//! one core, onto one cache, onto two. Probes measure both around every window: the speed of the
//! DUT's CPU, and the distance between the CPUs. Readings form states; figures refer to one of
//! them, and a window belongs to it if the readings on both of its sides do. The choice depends
//! only on the probes and never on the result, so it cannot favour any result. Start with
//! [`Gate::calibrate`].

use fwdlab_model::probe::{ApartStratum, MachineState, Reading};
use fwdlab_model::result::{Stratum, TrialRecord};
use fwdlab_stats::{Cluster, Sample, clusters};

/// Full speed is the speed that one reading in twenty reaches: neighbours may be idle that rarely,
/// and no reading is too fast.
const FULL_QUANTILE: f64 = 0.95;

/// A reading is at full speed if it is at least this share of it. On the machines measured so far,
/// undisturbed readings scatter by 3 % and disturbed ones are 10 to 55 % lower.
const FULL_SHARE: f64 = 0.93;

/// Figures refer to full speed if at least this share of the readings has it. If fewer do, most
/// trials would wait in vain for windows at full speed, and the most common state is more
/// informative.
const COMMON_SHARE: f64 = 1.0 / 3.0;

/// Fewest readings in which speeds and distances can be distinguished.
pub const MIN_READINGS: usize = 20;

/// This many readings around the trials of a run are enough on their own; fewer are combined with
/// those from before the run.
const ENOUGH_READINGS: usize = 60;

/// The criteria that distinguish the states of the machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// The readings it was derived from.
    readings: Vec<Reading>,
    threshold: f64,
    description: String,
    /// Speeds of a slowed CPU, if figures may refer to it.
    slow: Option<Cluster>,
    /// Levels of distance, for each pair of CPUs.
    levels: Vec<Vec<Cluster>>,
    /// The most common first; empty if figures refer to full speed and no distance was read.
    states: Vec<State>,
}

/// A state of the machine, caused by the hypervisor and by other work on the same cores.
#[derive(Debug, Clone, PartialEq)]
struct State {
    key: Key,
    machine: MachineState,
}

/// Whether the CPU is slowed, and the level of each pair.
type Key = (bool, Vec<usize>);

/// The condition of a window, or of a trial that counts as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// In the state that the figures refer to.
    Quiet,
    /// Slower than in any state, before or after.
    Contended,
    /// In another state all the time: its index in [`Gate::states`].
    Apart(usize),
    /// The state changed, or was not a common one.
    Moved,
}

impl Gate {
    /// Derives states from readings of the probes, and from nothing else.
    ///
    /// Distances have as many levels as there are groups of readings ([`clusters`]). If full speed
    /// is rare, the largest group of slower speeds is a level as well. `None` with fewer than
    /// [`MIN_READINGS`], or if a speed is implausible.
    pub fn calibrate(readings: &[Reading]) -> Option<Gate> {
        let speeds: Vec<f64> = readings.iter().map(|r| r.additions_per_ns).collect();
        let sample = Sample::new(speeds).ok()?;
        if sample.n() < MIN_READINGS || sample.min() <= 0.0 {
            return None;
        }
        let full_speed = sample.quantile(FULL_QUANTILE);
        let threshold = FULL_SHARE * full_speed;
        let slower = sample.sorted().partition_point(|speed| *speed < threshold);
        let share = 1.0 - slower as f64 / sample.n() as f64;
        let slow = match share < COMMON_SHARE {
            true => largest(&sample.sorted()[..slower]),
            false => None,
        };
        let mut words = format!(
            "full speed is {full_speed:.2} additions/ns, in {:.0} % of {} readings",
            100.0 * share,
            sample.n()
        );
        if let Some(slow) = &slow {
            words += &format!(
                "; when slowed, the CPU does {:.1} to {:.1}, half of the time below {:.1}",
                slow.low, slow.high, slow.centre
            );
        }
        let mut gate = Gate {
            readings: readings.to_vec(),
            threshold,
            description: words,
            slow,
            levels: Vec::new(),
            states: Vec::new(),
        };
        let counted: Vec<&Reading> = readings
            .iter()
            .filter(|r| gate.is_slowed(r).is_some())
            .collect();
        let pairs = counted.iter().map(|r| r.distances_ns.len()).max();
        gate.levels = (0..pairs.unwrap_or(0))
            .map(|pair| levels(&counted, pair))
            .collect();
        gate.states = gate.states_of(&counted);
        Some(gate)
    }

    /// Returns the states of the readings, the most common first.
    fn states_of(&self, readings: &[&Reading]) -> Vec<State> {
        let mut of: Vec<(Key, Vec<f64>)> = Vec::new();
        for reading in readings {
            let Some(key) = self.key(reading) else {
                continue;
            };
            let speed = reading.additions_per_ns;
            match of.iter_mut().find(|(known, _)| *known == key) {
                Some((_, speeds)) => speeds.push(speed),
                None => of.push((key, vec![speed])),
            }
        }
        let mut states: Vec<State> = of
            .into_iter()
            .filter_map(|(key, speeds)| {
                let reported = MachineState {
                    slowed: key.0,
                    readings: speeds.len() as u32,
                    percent: 100.0 * speeds.len() as f64 / readings.len() as f64,
                    additions_per_ns: Sample::new(speeds).ok()?.median(),
                    round_trip_ns: (key.1.iter().zip(&self.levels))
                        .map(|(&at, levels)| levels[at].centre.round())
                        .collect(),
                };
                Some(State {
                    key,
                    machine: reported,
                })
            })
            .collect();
        // of two equally common states the faster and nearer one first: levels count from the
        // nearest
        states.sort_by(|a, b| {
            (b.machine.readings.cmp(&a.machine.readings)).then_with(|| a.key.cmp(&b.key))
        });
        states
    }

    /// Judges all trials of a run again, now that all readings are available, and returns the gate
    /// that did it.
    pub fn judge_run(&self, trials: &mut [TrialRecord]) -> Gate {
        let beside: Vec<Reading> = trials.iter().flat_map(|t| t.probes.clone()).collect();
        let gate = of_run(&self.readings, &beside).unwrap_or_else(|| self.clone());
        trials
            .iter_mut()
            .for_each(|trial| judge_trial(trial, Some(&gate)));
        gate
    }

    /// Returns the additions per nanosecond from which on a reading is at full speed.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// Describes how threshold and states were derived.
    pub fn words(&self) -> String {
        let Some((first, rest)) = self.states.split_first() else {
            return self.description.clone();
        };
        let share = |state: &State| format!("{} ({:.0} %)", state.machine, state.machine.percent);
        let others: Vec<String> = rest.iter().map(share).collect();
        let others = match others.is_empty() {
            true => String::new(),
            false => format!(", also {}", others.join(", ")),
        };
        format!("{}; CPUs {}{others}", self.description, share(first))
    }

    /// Returns the states, first the one that the figures refer to. Empty if that is full speed,
    /// and no distance could be read.
    pub fn states(&self) -> Vec<MachineState> {
        self.states
            .iter()
            .map(|state| state.machine.clone())
            .collect()
    }

    /// Returns the condition of a window from the readings on both sides.
    pub fn condition(&self, before: &Reading, after: &Reading) -> Condition {
        if self.is_slowed(before).is_none() || self.is_slowed(after).is_none() {
            return Condition::Contended;
        }
        if self.states.is_empty() {
            return Condition::Quiet;
        }
        match (self.state(before), self.state(after)) {
            (Some(0), Some(0)) => Condition::Quiet,
            (Some(state), Some(same)) if state == same => Condition::Apart(state),
            _ => Condition::Moved,
        }
    }

    /// Returns whether the CPU is slowed or at full speed; `None` if it is slower than figures may
    /// be.
    fn is_slowed(&self, reading: &Reading) -> Option<bool> {
        let speed = reading.additions_per_ns;
        match &self.slow {
            _ if speed >= self.threshold => Some(false),
            Some(slow) if slow.contains(speed) => Some(true),
            _ => None,
        }
    }

    fn key(&self, reading: &Reading) -> Option<Key> {
        let slowed = self.is_slowed(reading)?;
        if self.levels.is_empty() {
            // then figures refer to full speed, and nothing has to be distinguished
            return self.slow.is_some().then(|| (slowed, Vec::new()));
        }
        if reading.distances_ns.len() != self.levels.len() {
            return None;
        }
        let distances = reading.distances_ns.iter().zip(&self.levels);
        let levels: Option<Vec<usize>> = distances
            .map(|(ns, levels)| levels.iter().position(|level| level.contains(*ns)))
            .collect();
        Some((slowed, levels?))
    }

    fn state(&self, reading: &Reading) -> Option<usize> {
        let key = self.key(reading)?;
        self.states.iter().position(|state| state.key == key)
    }
}

/// Returns the gate of a run: from the readings around its trials, if there are enough, else
/// combined with those from before the first one. A moment before the run must not decide which
/// state was the most common in it.
pub fn of_run(before: &[Reading], beside: &[Reading]) -> Option<Gate> {
    match beside.len() {
        n if n >= ENOUGH_READINGS => Gate::calibrate(beside),
        _ => Gate::calibrate(&[before, beside].concat()),
    }
}

/// Sorts a trial that counts as a whole into one stratum, as a single window, by its probes.
pub fn judge_trial(record: &mut TrialRecord, gate: Option<&Gate>) {
    let condition = match (gate, &record.probes[..]) {
        (Some(gate), [before, .., after]) => Some(gate.condition(before, after)),
        _ => None,
    };
    let one = |is_it: bool| Stratum {
        windows: u32::from(is_it),
        forwarding_rate_pps: None,
    };
    record.quiet = one(condition == Some(Condition::Quiet));
    record.contended = one(condition == Some(Condition::Contended));
    record.other_states = match (gate, condition) {
        (Some(gate), Some(Condition::Apart(k))) => {
            vec![ApartStratum::new(&gate.states[k].machine, one(true))]
        }
        (_, Some(Condition::Moved)) => vec![ApartStratum::moved(one(true))],
        _ => Vec::new(),
    };
}

/// Returns the levels of one pair of CPUs.
fn levels(readings: &[&Reading], pair: usize) -> Vec<Cluster> {
    let distances: Vec<f64> = readings
        .iter()
        .filter_map(|r| r.distances_ns.get(pair).copied())
        .collect();
    Sample::new(distances).map_or_else(|_| Vec::new(), |sample| clusters(&sample))
}

/// Returns the group that contains most of these speeds.
fn largest(speeds: &[f64]) -> Option<Cluster> {
    let groups = clusters(&Sample::new(speeds.to_vec()).ok()?);
    groups
        .into_iter()
        .max_by(|a, b| a.share.total_cmp(&b.share))
}

#[cfg(test)]
mod tests {
    use fwdlab_model::loss::{Counters, Ledger};
    use fwdlab_model::procedure::{Answer, Asked, Purpose, Question};
    use fwdlab_model::result::Validity;
    use fwdlab_model::trial::{IpVersion, Stream};
    use fwdlab_model::units::FrameSize;
    use fwdlab_model::variant::Variant;

    use super::*;

    /// Readings with a speed, and optionally distances.
    fn reading(speed: f64, distances: &[f64]) -> Reading {
        Reading {
            additions_per_ns: speed,
            distances_ns: distances.to_vec(),
        }
    }

    /// A value within 2 % of `centre`, different for each `i`.
    fn about(centre: f64, i: usize) -> f64 {
        centre * (1.0 + 0.02 * ((i * 7 % 11) as f64 / 5.0 - 1.0))
    }

    fn readings(slow: usize, fast: usize) -> Vec<Reading> {
        (0..slow)
            .map(|i| reading(about(9.0, i), &[]))
            .chain((0..fast).map(|i| reading(about(17.5, i), &[])))
            .collect()
    }

    /// Readings at full speed, with a number of them at each of these distances.
    fn readings_at_distances(levels: &[(&[f64], usize)]) -> Vec<Reading> {
        levels
            .iter()
            .flat_map(|&(ns, count)| (0..count).map(move |i| (ns, i)))
            .map(|(ns, i)| {
                let ns: Vec<f64> = ns.iter().map(|ns| about(*ns, i)).collect();
                reading(about(17.5, i), &ns)
            })
            .collect()
    }

    /// Figures refer to full speed as long as it is not rare.
    #[test]
    fn two_speeds_are_distinguished() {
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

    /// The host of the 22nd of November: 14.15 additions/ns in one reading of six, else anything
    /// between 7 and 12.5, and two distances. Figures then refer to the most common state; full
    /// speed is another state, and everything slower is contended.
    #[test]
    fn if_full_speed_is_rare_the_commonest_state_is_used() {
        let slow = |i: usize| 7.5 + 5.0 * (i * 7 % 100) as f64 / 100.0;
        let mut all: Vec<Reading> = (0..500)
            .map(|i| reading(slow(i), &[about(98.0, i)]))
            .collect();
        all.extend((0..200).map(|i| reading(slow(i), &[about(402.0, i)])));
        all.extend((0..140).map(|i| reading(14.15, &[about(98.0, i)])));
        let gate = Gate::calibrate(&all).unwrap();
        let states = gate.states();
        let reported: Vec<String> = states.iter().map(ToString::to_string).collect();
        assert_eq!(
            reported,
            [
                "98 ns apart and the DUT's slowed",
                "402 ns apart and the DUT's slowed",
                "98 ns apart"
            ]
        );
        assert!(states[0].slowed && (9.0..11.0).contains(&states[0].additions_per_ns));
        let at = |before: f64, after: f64| {
            gate.condition(&reading(before, &[98.0]), &reading(after, &[98.0]))
        };
        assert_eq!(at(8.0, 12.0), Condition::Quiet);
        assert_eq!(at(14.1, 14.1), Condition::Apart(2));
        assert_eq!(at(8.0, 14.1), Condition::Moved);
        assert_eq!(at(8.0, 2.0), Condition::Contended);
        // with full speed in every second reading figures refer to it, and slower readings no
        // longer count
        all.extend((0..700).map(|i| reading(14.15, &[about(98.0, i)])));
        let gate = Gate::calibrate(&all).unwrap();
        assert_eq!(gate.states().len(), 1);
        let slow = reading(9.0, &[98.0]);
        assert_eq!(gate.condition(&slow, &slow), Condition::Contended);
        // the same without a distance
        let plain: Vec<Reading> = (all[..840].iter())
            .map(|r| reading(r.additions_per_ns, &[]))
            .collect();
        let gate = Gate::calibrate(&plain).unwrap();
        let slowed: Vec<bool> = gate.states().iter().map(|s| s.slowed).collect();
        assert_eq!(slowed, [true, false]);
        let full = reading(14.0, &[]);
        assert_eq!(gate.condition(&full, &full), Condition::Apart(1));
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
        assert!(gate.states().is_empty());
    }

    #[test]
    fn too_few_or_senseless_readings_give_no_gate() {
        let all_of = |speed| Gate::calibrate(&vec![reading(speed, &[118.0]); 50]);
        assert_eq!(Gate::calibrate(&readings(0, 19)), None);
        assert_eq!(all_of(0.0), None);
        assert_eq!(all_of(f64::NAN), None);
    }

    /// The levels of an EPYC host, whose hypervisor moves the CPUs between one core, one cache and
    /// two.
    #[test]
    fn states_are_the_commonest_first_and_a_window_is_of_one() {
        let all = readings_at_distances(&[(&[45.0], 20), (&[118.0], 150), (&[475.0], 60)]);
        let gate = Gate::calibrate(&all).unwrap();
        let states = gate.states();
        let trips: Vec<f64> = states.iter().map(|s| s.round_trip_ns[0]).collect();
        assert_eq!(trips, [118.0, 475.0, 45.0]);
        assert_eq!(states.iter().map(|s| s.readings).sum::<u32>(), 230);
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
        // slow is slow at any distance
        let slow = reading(9.0, &[118.0]);
        assert_eq!(gate.condition(&slow, &slow), Condition::Contended);
        // a distance that was not read is unknown
        assert_eq!(
            gate.condition(&reading(17.5, &[]), &reading(17.5, &[118.0])),
            Condition::Moved
        );
    }

    #[test]
    fn one_distance_chooses_as_none_does() {
        let all = readings_at_distances(&[(&[118.0], 100)]);
        let with = Gate::calibrate(&all).unwrap();
        let without: Vec<Reading> = all
            .iter()
            .map(|r| reading(r.additions_per_ns, &[]))
            .collect();
        let gate = Gate::calibrate(&without).unwrap();
        assert_eq!((with.states().len(), gate.states().len()), (1, 0));
        assert_eq!(with.threshold(), gate.threshold());
        for (read, plain) in all.iter().zip(&without) {
            assert_eq!(with.condition(read, read), gate.condition(plain, plain));
        }
    }

    /// A generator and a DUT with two CPUs: frames cross two pairs.
    #[test]
    fn every_pair_of_cpus_has_a_distance() {
        let all = readings_at_distances(&[(&[118.0, 45.0], 60), (&[118.0, 475.0], 40)]);
        let gate = Gate::calibrate(&all).unwrap();
        assert_eq!(gate.states().len(), 2);
        assert_eq!(gate.states()[0].to_string(), "118/45 ns apart");
        let far = reading(17.5, &[118.0, 475.0]);
        assert_eq!(gate.condition(&all[0], &all[1]), Condition::Quiet);
        assert_eq!(gate.condition(&far, &far), Condition::Apart(1));
        assert_eq!(gate.condition(&all[0], &far), Condition::Moved);
    }

    /// A trial that counts as a whole, with the probes' readings before and after it.
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
            stall_policy: None,
            receiver: String::new(),
            duration_s: 1.0,
            intended_load_pps: None,
            offered_load_pps: 1e6,
            not_saturated: false,
            forwarding_rate_pps: None,
            forwarding_rate_ungated_pps: None,
            quiet: Stratum::default(),
            contended: Stratum::default(),
            other_states: Vec::new(),
            probes: vec![before, after],
            windows_not_offered: 0,
            frame_loss_ratio: 0.0,
            ledger: Ledger::default(),
            counters: Counters::default(),
            work: None,
            telemetry: None,
            asked: None,
            validity: Validity::default(),
        }
    }

    /// Windows of a trial: quiet, contended, apart.
    fn strata(trial: &TrialRecord) -> (u32, u32, Vec<(Vec<f64>, u32)>) {
        let apart = trial.other_states.iter();
        (
            trial.quiet.windows,
            trial.contended.windows,
            apart
                .map(|s| (s.round_trip_ns.clone(), s.stratum.windows))
                .collect(),
        )
    }

    /// At the start of the run the CPUs were 475 ns apart, in nearly all of its trials 118 ns: that
    /// is its class.
    #[test]
    fn trials_are_judged_by_the_readings_of_the_whole_run() {
        let start = Gate::calibrate(&readings_at_distances(&[(&[475.0], 120)])).unwrap();
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
        assert_eq!(gate.states()[0].round_trip_ns, [118.0]);
        assert_eq!(strata(&trials[0]), (1, 0, vec![]));
        assert_eq!(strata(&trials[33]), (0, 0, vec![(vec![475.0], 1)]));
        assert_eq!(strata(&trials[36]), (0, 0, vec![(vec![], 1)]));
        assert_eq!(strata(&trials[37]), (0, 1, vec![]));
        // few readings around few trials are combined with those from before
        let mut few = vec![trial(at(118.0), at(118.0))];
        assert_eq!(start.judge_run(&mut few).states()[0].round_trip_ns, [475.0]);
        // without probes, as with a simulated DUT, nothing is judged
        let mut plain = trial(at(118.0), at(118.0));
        plain.probes.clear();
        judge_trial(&mut plain, Some(&start));
        assert_eq!(strata(&plain), (0, 0, vec![]));
    }

    /// Only a search selects among its trials.
    #[test]
    fn only_searches_warn_about_lucky_trials() {
        let at = |purpose| {
            let still = reading(17.5, &[]);
            TrialRecord {
                asked: Some(Box::new(Asked {
                    question: Question::constant(FrameSize::MIN, 1e6, 1, purpose, ""),
                    answer: Answer::default(),
                    evaluation: String::new(),
                    latency_log: None,
                })),
                ..trial(still.clone(), still)
            }
        };
        let says = |trials: &[TrialRecord]| {
            let verdict = crate::trust::of_trials(None, trials, Vec::new()).verdict;
            assert!(verdict.contains("caused losses in the others"), "{verdict}");
            verdict.contains("a search for zero loss selects the luckiest trials")
        };
        assert!(!says(&[at(Purpose::Measure)]));
        assert!(says(&[at(Purpose::Measure), at(Purpose::Search)]));
    }
}
