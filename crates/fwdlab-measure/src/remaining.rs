//! Estimates how long a procedure will take: runs it against an ideal DUT with the capacity seen so
//! far.
//!
//! Does not include invalid trials; the caller knows by how much real trials exceed their plan.
//! Start with [`ahead`] and [`Capacities`].

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use fwdlab_model::procedure::{Answer, Delays, Ending, Interval, Outage, Question};
use fwdlab_model::units::FrameSize;

use crate::procedure::Procedure;

/// The remaining work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemainingWork {
    /// Number of trials.
    pub trials: u32,
    /// Their duration, without the overhead of starting and ending one.
    pub ns: u64,
}

/// Number of trials or short looks, and how many of them were valid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of trials.
    pub made: u32,
    /// Number of valid ones.
    pub valid: u32,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.made += other.made;
        self.valid += other.valid;
    }
}

impl Tally {
    /// Returns the expected number of attempts per valid trial. The prior is eight valid of ten,
    /// until more is known (of a virtual machine's trials 70 to 93 % are valid).
    pub fn per_trial(self) -> f64 {
        self.per_trial_with_load(0.0)
    }

    /// The same if other programs use this share of the CPUs: if they use all, the prior is four
    /// valid of ten (without this, estimates were 1.3 to 2.1 times too low on such a machine).
    pub fn per_trial_with_load(self, others: f64) -> f64 {
        f64::from(self.made + 10) / (f64::from(self.valid + 8) - 4.0 * others)
    }
}

/// The capacity of a DUT.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// The largest load without loss.
    pub lossless_pps: f64,
    /// The forwarding rate at any load above this one.
    pub overload_pps: f64,
}

impl From<f64> for Capacity {
    /// An ideal DUT, which loses nothing until it is overloaded.
    fn from(pps: f64) -> Capacity {
        Capacity {
            lossless_pps: pps,
            overload_pps: pps,
        }
    }
}

/// The capacities of DUTs, as far as they have been seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacities {
    guess: Capacity,
    seen: BTreeMap<FrameSize, SizeObservations>,
}

/// Observations with one frame size.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SizeObservations {
    /// The largest load without loss.
    lossless_pps: f64,
    /// The smallest load with loss.
    lossy_pps: f64,
    /// The highest forwarding rate at a load with loss.
    overload_pps: f64,
}

impl Capacities {
    /// Returns an initial guess without observations.
    pub fn guess(capacity: impl Into<Capacity>) -> Capacities {
        Capacities {
            guess: capacity.into(),
            seen: BTreeMap::new(),
        }
    }

    /// Records a trial at one load.
    pub fn record_trial(&mut self, question: &Question, answer: &Answer) {
        if !question.is_constant() || question.bursts.is_some() || answer.frames_sent == 0 {
            return;
        }
        let share = answer.frames_received as f64 / answer.frames_sent as f64;
        self.record_share(question.frame_size_bytes, question.peak_pps(), share);
    }

    /// Records the share of a load of such frames that came out, in a trial or otherwise.
    pub fn record_share(&mut self, size: FrameSize, load_pps: f64, share: f64) {
        let nothing = SizeObservations {
            lossless_pps: 0.0,
            lossy_pps: f64::INFINITY,
            overload_pps: 0.0,
        };
        let observed = self.seen.entry(size).or_insert(nothing);
        if share < 1.0 {
            observed.lossy_pps = observed.lossy_pps.min(load_pps);
            observed.overload_pps = observed.overload_pps.max(load_pps * share);
        } else {
            observed.lossless_pps = observed.lossless_pps.max(load_pps);
        }
    }

    /// Returns the capacity for frames of this size. Observations with another size are closer to
    /// the truth than a guess, because frames cost more than bytes.
    pub fn for_size(&self, size: FrameSize) -> Capacity {
        let distance = |of: &FrameSize| of.bytes().abs_diff(size.bytes());
        let nearest = self.seen.iter().min_by_key(|(of, _)| distance(of));
        let Some((_, &observed)) = nearest else {
            return self.guess;
        };
        let share = self.guess.lossless_pps / self.guess.overload_pps;
        let overload_pps = match observed.overload_pps {
            0.0 => self.guess.overload_pps.max(observed.lossless_pps),
            pps => pps.max(observed.lossless_pps),
        };
        // below the capacity by the guessed share, and at most in the middle if smaller loads lost
        // frames, too
        let guessed = share * overload_pps;
        let below = match observed.lossy_pps < overload_pps {
            true => guessed.min((observed.lossless_pps + observed.lossy_pps) / 2.0),
            false => guessed,
        };
        Capacity {
            lossless_pps: below.max(observed.lossless_pps),
            overload_pps,
        }
    }

    /// Returns true if any DUT has been seen to lose frames.
    pub fn is_known(&self) -> bool {
        self.seen
            .values()
            .any(|observed| observed.lossy_pps.is_finite())
    }
}

/// Returns the trials that a procedure still requests if an ideal DUT answers.
pub fn ahead(procedure: &mut dyn Procedure, capacities: &Capacities) -> RemainingWork {
    let mut lookahead = RemainingWork::default();
    while let Some(question) = procedure.next_trial() {
        let answer = ideal(&question, capacities.for_size(question.frame_size_bytes));
        lookahead.trials += 1;
        lookahead.ns += answer.took_ns;
        procedure.record(&question, &answer);
    }
    lookahead
}

/// The planned and the real duration of finished turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Turns {
    /// Their planned duration.
    pub planned: Duration,
    /// Their real duration with all overhead: beds, load searches, waits, and repeated trials.
    pub took: Duration,
}

impl Turns {
    /// Scales the planned duration of the remaining turns by the ratio of finished ones. `one` is
    /// the planned duration of one turn, which is used as prior: before the first turn has ended,
    /// and shortly after it, the plan dominates.
    pub fn left(self, planned: Duration, one: Duration) -> Duration {
        let known = (self.planned + one).as_secs_f64();
        match known > 0.0 {
            true => planned.mul_f64((self.took + one).as_secs_f64() / known),
            false => planned,
        }
    }

    /// Adds a finished turn.
    pub fn made(&mut self, planned: Duration, elapsed: Duration) {
        self.planned += planned;
        self.took += elapsed;
    }
}

/// How often a tester changes a load, and checks for lost frames.
pub const TICK: Duration = Duration::from_millis(20);

/// Number of frames that may be in flight at such a check, in rings of veth and of an engine, in
/// addition to those of one tick: they are not lost yet.
pub const ON_THEIR_WAY: u64 = 4096;

/// Time of the first check.
const FIRST_NS: f64 = 30e6;

/// Share that is lost at a load between the largest one without loss and the capacity: occasional
/// disturbances, not an overload.
const DISTURBED: f64 = 0.002;

/// Returns when a tester notices that more than `frames` frames of such a load are lost; `None`:
/// never, because they could be in flight.
fn noticed_ns(load_pps: f64, overload_pps: f64, frames: u64) -> Option<u64> {
    let tick = TICK.as_secs_f64();
    let missing = (frames + ON_THEIR_WAY) as f64 + load_pps * tick;
    let lost_pps = load_pps - overload_pps;
    let ticks = (missing / lost_pps / tick).ceil();
    (lost_pps > 0.0).then_some((FIRST_NS + ticks * tick * 1e9) as u64)
}

/// Returns the answer of a DUT that forwards its capacity, loses a few frames at smaller loads, and
/// needs ten seconds after a reset.
pub(crate) fn ideal(question: &Question, capacity: impl Into<Capacity>) -> Answer {
    const DOWN_NS: u64 = 10_000_000_000;
    let capacity = capacity.into();
    let forwarded_pps = |load_pps: f64| {
        if load_pps > capacity.overload_pps {
            capacity.overload_pps
        } else if load_pps > capacity.lossless_pps {
            load_pps * (1.0 - DISTURBED)
        } else {
            load_pps
        }
    };
    let mut duration_ns = question.duration_ns();
    let mut received = 0.0;
    for stretch in &question.stretches {
        let mean = (stretch.from_pps + stretch.to_pps) / 2.0;
        received += forwarded_pps(mean) * (stretch.duration_ns as f64 / 1e9);
    }
    let sent = question.frames();
    let received = (received.round() as u64).min(sent);
    let mut ended_early = false;
    match question.ending {
        Some(Ending::Lost { frames }) => {
            let noticed = noticed_ns(question.peak_pps(), capacity.overload_pps, frames);
            if let Some(noticed_ns) = noticed.filter(|&at_ns| at_ns < duration_ns) {
                duration_ns = noticed_ns;
                ended_early = true;
            }
        }
        Some(Ending::Recovered { for_ns, .. } | Ending::Regained { for_ns, .. }) => {
            let end = question.reset_at_ns.unwrap_or(0) + DOWN_NS + for_ns;
            ended_early = end < duration_ns;
            duration_ns = duration_ns.min(end);
        }
        _ => {}
    }
    let share = duration_ns as f64 / question.duration_ns().max(1) as f64;
    let whole = |frames: u64| (frames as f64 * share).round() as u64;
    let (sent, lost) = (whole(sent).max(1), whole(sent - received));
    let lost = match question.reset_at_ns {
        Some(_) => (question.peak_pps() * (DOWN_NS as f64 / 1e9)) as u64,
        None => lost.max(u64::from(ended_early)),
    };
    let samples = question.sample_ns.map_or(Vec::new(), |length_ns| {
        (0..duration_ns / length_ns)
            .map(|k| {
                let at_ns = k * length_ns;
                let pps = question.load_at(at_ns + length_ns / 2);
                let frames = |pps: f64| (pps * (length_ns as f64 / 1e9)).round() as u64;
                Interval {
                    at_ns,
                    length_ns,
                    intended_load_pps: pps,
                    frames_sent: frames(pps),
                    frames_received: frames(forwarded_pps(pps)),
                }
            })
            .collect()
    });
    Answer {
        frames_intended: sent,
        frames_sent: sent,
        frames_received: sent.saturating_sub(lost),
        duration_ns,
        took_ns: duration_ns + question.waits.total_ns(),
        ended_early,
        samples,
        delays: question.tagging.map(|tagging| Delays {
            frames: u64::from(tagging.frames),
            ..Delays::default()
        }),
        outage: question.reset_at_ns.map(|at_ns| Outage {
            last_before_ns: at_ns,
            first_after_ns: Some(at_ns + DOWN_NS),
        }),
        ..Answer::default()
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::procedure::Purpose;

    use super::*;
    use crate::procedure::{Session, Single};

    fn size(bytes: u16) -> FrameSize {
        FrameSize::new(bytes).unwrap()
    }

    fn trial(bytes: u16, load_pps: f64) -> Question {
        Question::constant(size(bytes), load_pps, 1_000_000_000, Purpose::Search, "")
    }

    /// Uses a guess until something was seen; then the rate under an excessive load, and at least
    /// what was forwarded without loss.
    #[test]
    fn capacities_are_learned_from_trials() {
        let mut capacities = Capacities::guess(5e6);
        let mut see = |bytes, load, capacity: f64| {
            let question = trial(bytes, load);
            capacities.record_trial(&question, &ideal(&question, capacity));
            [64, 512, 1518]
                .map(|bytes| (capacities.for_size(size(bytes)).lossless_pps / 1e3).round())
        };
        // no loss shows that it is at least this much
        assert_eq!(see(64, 6e6, 7e6), [6000.0; 3]);
        assert_eq!(see(64, 9e6, 7e6), [7000.0; 3]);
        // noise: a load that passed before lost frames
        assert_eq!(see(64, 5e6, 4.9e6), [6000.0; 3]);
        // from another size, and the nearest one counts
        assert_eq!(see(1518, 2e6, 1e6), [6000.0, 6000.0, 1000.0]);
        assert!(capacities.is_known());
    }

    /// A DUT that loses frames far below its capacity: first guessed, then between the loads with
    /// and without loss; its trials there are not cut short.
    #[test]
    fn a_dut_may_lose_frames_below_its_capacity() {
        let dut = Capacity {
            lossless_pps: 3e5,
            overload_pps: 1e6,
        };
        let mut capacities = Capacities::guess(Capacity {
            lossless_pps: 1e6,
            overload_pps: 4e6,
        });
        let mut see = |load| {
            let question = Question {
                ending: Some(Ending::Lost { frames: 0 }),
                ..trial(64, load)
            };
            let answer = ideal(&question, dut);
            capacities.record_trial(&question, &answer);
            let found = capacities.for_size(size(64));
            let figures = [found.lossless_pps, found.overload_pps].map(|pps| (pps / 1e3).round());
            (answer.duration_ns / 1_000_000, figures)
        };
        assert_eq!(see(6e6), (70, [250.0, 1000.0]));
        assert_eq!(see(1.25e6), (150, [250.0, 1000.0]));
        assert_eq!(see(8e5), (1000, [250.0, 1000.0]));
        assert_eq!(see(4e5), (1000, [200.0, 1000.0]));
        assert_eq!(see(2.9e5), (1000, [290.0, 1000.0]));
    }

    /// If turns take twice as long as planned, the rest of the run takes twice as long, once a few
    /// turns are finished.
    #[test]
    fn remaining_trials_are_estimated_from_finished_ones() {
        let seconds = Duration::from_secs;
        let mut progress = Turns::default();
        assert_eq!(progress.left(seconds(53), seconds(3)), seconds(53));
        for made in 1..=9u64 {
            progress.made(seconds(3), seconds(6));
            let left = progress.left(seconds(53 - 3 * made), seconds(3));
            let actual = 2.0 * (53 - 3 * made) as f64;
            let share = left.as_secs_f64() / actual;
            assert!((0.74..=1.0).contains(&share), "{made}: {share}");
            assert!(made < 4 || share > 0.89, "{made}: {share}");
        }
        // and if they are faster, less; nothing planned is nothing left
        let mut fast = Turns::default();
        fast.made(seconds(10), seconds(1));
        assert!(fast.left(seconds(10), seconds(1)) < seconds(2));
        assert_eq!(
            Turns::default().left(Duration::ZERO, Duration::ZERO),
            Duration::ZERO
        );
    }

    #[test]
    fn finished_trials_are_not_estimated_again() {
        let single = || Box::new(Single::new(trial(64, 1000.0)).unwrap());
        let mut session = Session::new(single());
        let left = |session: &Session| {
            let mut machine = single();
            session.replay(machine.as_mut());
            ahead(machine.as_mut(), &Capacities::guess(1e6))
        };
        let whole = RemainingWork {
            trials: 1,
            ns: 1_000_000_000,
        };
        assert_eq!(left(&session), whole);
        let (question, _) = session.next_trial().unwrap();
        assert_eq!(left(&session), whole);
        session.record(&ideal(&question, 1e6));
        assert_eq!(left(&session), RemainingWork::default());

        // aborted trials are recorded, too
        let mut session = Session::new(single());
        for _ in 0..crate::procedure::MAX_INVALID {
            let (question, _) = session.next_trial().unwrap();
            let objections = vec!["link down".into()];
            session.record(&Answer {
                objections,
                ..ideal(&question, 1e6)
            });
        }
        assert_eq!(left(&session), RemainingWork::default());
    }
}
