//! How long a procedure still takes: it is asked on, and an ideal DUT answers, whose capacity is the one that was seen so far.
//!
//! It says nothing of trials that will be invalid; who makes them knows how much longer they take than they should. Start with
//! [`ahead`] and [`Capacities`].

use std::collections::BTreeMap;

use fwdlab_model::procedure::{Answer, Delays, Ending, Interval, Outage, Question};
use fwdlab_model::units::FrameSize;

use crate::procedure::Procedure;

/// What is still to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Trials.
    pub trials: u32,
    /// What they take, without what it costs to begin and to end one.
    pub ns: u64,
}

/// Which load a DUT forwards without loss, as far as that has been seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacities {
    guess_pps: f64,
    seen: BTreeMap<FrameSize, Seen>,
}

/// Of one frame size.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    /// The largest load without loss.
    lossless_pps: f64,
    /// The least that came out of a trial with loss.
    lossy_pps: f64,
}

impl Capacities {
    /// Nothing was seen yet.
    pub fn guess(pps: f64) -> Capacities {
        Capacities {
            guess_pps: pps,
            seen: BTreeMap::new(),
        }
    }

    /// Sees a trial of one load.
    pub fn see(&mut self, question: &Question, answer: &Answer) {
        if !question.is_constant() || question.bursts.is_some() || answer.frames_sent == 0 {
            return;
        }
        let share = answer.frames_received as f64 / answer.frames_sent as f64;
        self.saw(question.frame_size_bytes, question.peak_pps(), share);
    }

    /// Sees what share of a load of such frames came out, in a trial or before any.
    pub fn saw(&mut self, size: FrameSize, load_pps: f64, share: f64) {
        let nothing = Seen {
            lossless_pps: 0.0,
            lossy_pps: f64::INFINITY,
        };
        let seen = self.seen.entry(size).or_insert(nothing);
        match share < 1.0 {
            true => seen.lossy_pps = seen.lossy_pps.min(load_pps * share),
            false => seen.lossless_pps = seen.lossless_pps.max(load_pps),
        }
    }

    /// The capacity for frames of this size. What is known of another size is nearer to the truth than a guess: frames cost more than
    /// bytes do.
    pub fn pps(&self, size: FrameSize) -> f64 {
        let distance = |of: &FrameSize| of.bytes().abs_diff(size.bytes());
        let nearest = self.seen.iter().min_by_key(|(of, _)| distance(of));
        nearest.map_or(self.guess_pps, |(_, seen)| match seen.lossy_pps {
            f64::INFINITY => self.guess_pps.max(seen.lossless_pps),
            pps => pps.max(seen.lossless_pps),
        })
    }

    /// Has any DUT been seen to lose frames?
    pub fn is_known(&self) -> bool {
        self.seen.values().any(|seen| seen.lossy_pps.is_finite())
    }

    /// What an ideal DUT with these capacities takes for a trial.
    pub fn takes_ns(&self, question: &Question) -> u64 {
        ideal(question, self.pps(question.frame_size_bytes)).took_ns
    }
}

/// What a procedure still asks for, when an ideal DUT answers.
pub fn ahead(procedure: &mut dyn Procedure, capacities: &Capacities) -> Ahead {
    let mut ahead = Ahead::default();
    while let Some(question) = procedure.next_trial() {
        let answer = ideal(&question, capacities.pps(question.frame_size_bytes));
        ahead.trials += 1;
        ahead.ns += answer.took_ns;
        procedure.record(&question, &answer);
    }
    ahead
}

/// A trial that loses frames and may end then ends so early: the tester looks at counters more than once.
const EARLY_NS: u64 = 70_000_000;

/// How an ideal DUT answers: it forwards its capacity, and needs ten seconds after a reset.
pub(crate) fn ideal(question: &Question, capacity_pps: f64) -> Answer {
    const DOWN_NS: u64 = 10_000_000_000;
    let mut duration_ns = question.duration_ns();
    let mut received = 0.0;
    for stretch in &question.stretches {
        let mean = (stretch.from_pps + stretch.to_pps) / 2.0;
        received += mean.min(capacity_pps) * (stretch.duration_ns as f64 / 1e9);
    }
    let sent = question.frames();
    let received = (received.round() as u64).min(sent);
    let mut ended_early = false;
    match question.ending {
        Some(Ending::Lost { frames }) if sent - received > frames => {
            duration_ns = duration_ns.min(EARLY_NS);
            ended_early = true;
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
                    frames_received: frames(pps.min(capacity_pps)),
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

    /// A guess until something was seen; then what came out under too large a load, and no less than was forwarded without loss.
    #[test]
    fn capacities_are_learned_from_trials() {
        let mut capacities = Capacities::guess(5e6);
        let mut see = |bytes, load, capacity: f64| {
            let question = trial(bytes, load);
            capacities.see(&question, &ideal(&question, capacity));
            [64, 512, 1518].map(|bytes| (capacities.pps(size(bytes)) / 1e3).round())
        };
        // no loss says that it is no less
        assert_eq!(see(64, 6e6, 7e6), [6000.0; 3]);
        assert_eq!(see(64, 9e6, 7e6), [7000.0; 3]);
        // noise: frames were lost of a load that passed before
        assert_eq!(see(64, 5e6, 4.9e6), [6000.0; 3]);
        // of another size, and what is nearer to that one
        assert_eq!(see(1518, 2e6, 1e6), [6000.0, 6000.0, 1000.0]);
        assert!(capacities.is_known());
    }

    #[test]
    fn what_was_told_is_not_ahead_any_more() {
        let single = || Box::new(Single::new(trial(64, 1000.0)).unwrap());
        let mut session = Session::new(single());
        let left = |session: &Session| {
            let mut machine = single();
            session.replay(machine.as_mut());
            ahead(machine.as_mut(), &Capacities::guess(1e6))
        };
        let whole = Ahead {
            trials: 1,
            ns: 1_000_000_000,
        };
        assert_eq!(left(&session), whole);
        let (question, _) = session.next_trial().unwrap();
        assert_eq!(left(&session), whole);
        session.record(&ideal(&question, 1e6));
        assert_eq!(left(&session), Ahead::default());

        // given up is told as well
        let mut session = Session::new(single());
        for _ in 0..crate::procedure::MAX_INVALID {
            let (question, _) = session.next_trial().unwrap();
            let objections = vec!["link down".into()];
            session.record(&Answer {
                objections,
                ..ideal(&question, 1e6)
            });
        }
        assert_eq!(left(&session), Ahead::default());
    }
}
