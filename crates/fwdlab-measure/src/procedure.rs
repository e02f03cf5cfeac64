//! What all procedures have in common: they ask for a trial, take its answer, and in the end say what they found.
//!
//! A [`Procedure`] is a machine without traffic, clock or thread; a [`Session`] stands between it and whoever makes the trials,
//! and keeps from it what is invalid.

use fwdlab_model::latency::HeldUp;
use fwdlab_model::outcome::{Outcome, Spread};
use fwdlab_model::procedure::{Answer, Delays, Ending, Purpose, Question};
use fwdlab_model::result::Validity;
use fwdlab_model::variant::Variant;
use fwdlab_stats::Sample;

use crate::mlr::outcome::loss_ratio as loss_of_counts;
use crate::validity;

/// An invalid trial is made so many times in all (methods.md §0.4).
pub const MAX_INVALID: u32 = 3;

/// A question-and-answer machine.
pub trait Procedure {
    /// The next trial, or `None` when it has ended. Ask once, then [`Procedure::record`].
    fn next_trial(&mut self) -> Option<Question>;

    /// Takes the answer to the question asked last, and says in words what it makes of it.
    fn record(&mut self, question: &Question, answer: &Answer) -> String;

    /// The trial asked for last cannot be made: ends what depends on it.
    fn give_up(&mut self, reason: &str);

    /// What was found so far, one per procedure and frame size.
    fn outcomes(&self) -> Vec<Outcome>;
}

/// How far a procedure has come.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Course {
    /// Valid trials.
    pub trials: u32,
    /// Why it ended before its time.
    pub failure: Option<String>,
}

impl Course {
    /// The verdict: why it failed, or what is said.
    pub fn verdict(&self, said: impl Into<String>) -> String {
        match &self.failure {
            Some(why) => format!("no result: {why}"),
            None => said.into(),
        }
    }
}

/// What a session made of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// May it be used?
    pub validity: Validity,
    /// What it says; empty when it may not.
    pub says: String,
}

/// A procedure on its way: repeats invalid trials, and gives up one that never is valid.
pub struct Session {
    procedure: Box<dyn Procedure>,
    pending: Option<Question>,
    attempts: u32,
    invalid: u32,
    /// At so many loads in a row, each far below the one before, the generator was held up every time; and what it sent at the last one.
    held_up: u32,
    held_up_pps: f64,
    /// What the procedure was told so far.
    told: Vec<Told>,
}

/// At so many loads in a row a generator is held up at each, every time: lower ones tell no more of the DUT.
const HELD_UP_LOADS: u32 = 4;

/// A generator is held up when it sends this share of any load, and at its limit when it sends less or, of a lower load, as much.
const HELD_UP_SHARE: f64 = 0.9;

/// This share of what it sent before is far below that: a search for what loses nothing halves its load.
const FAR_BELOW: f64 = 0.75;

/// What a procedure is told about the trial that it asked for.
#[derive(Debug, Clone)]
enum Told {
    Answer(Box<Answer>),
    GivenUp(String),
}

impl Session {
    /// At its begin.
    pub fn new(procedure: Box<dyn Procedure>) -> Session {
        Session {
            procedure,
            pending: None,
            attempts: 0,
            invalid: 0,
            held_up: 0,
            held_up_pps: f64::INFINITY,
            told: Vec::new(),
        }
    }

    /// The next trial and which attempt at it this is, from 1; `None` when all is done.
    pub fn next_trial(&mut self) -> Option<(Question, u32)> {
        if self.pending.is_none() {
            self.pending = self.procedure.next_trial();
            self.attempts = 0;
        }
        Some((self.pending.clone()?, self.attempts + 1))
    }

    /// Takes the answer to the trial asked for last.
    ///
    /// A trial whose only fault is that the generator fell short is used after all when it does so every time: that is the
    /// generator's limit, and what it did not send counts as lost. When that goes on from load to load although each was nearly
    /// reached, the search is given up.
    pub fn record(&mut self, answer: &Answer) -> Recorded {
        let Some(question) = self.pending.take() else {
            return Recorded {
                validity: Validity::default(),
                says: String::new(),
            };
        };
        self.attempts += 1;
        let mut reasons = validity::objections(&question, answer);
        let too_early = ended_too_early(&question, answer);
        reasons.extend(too_early.clone());
        let is_last = self.attempts >= MAX_INVALID;
        let fell_short = validity::fell_short(&question, answer);
        if let Some(words) = &fell_short
            && !is_last
        {
            reasons.push(words.clone());
        }
        let has_fallen_short = fell_short.is_some();
        if reasons.is_empty() && self.is_held_up(&question, answer, has_fallen_short) {
            reasons.push(format!(
                "held up at {HELD_UP_LOADS} loads in a row, each far below the last: {}",
                fell_short.unwrap_or_default()
            ));
            self.held_up = 0;
        }
        if reasons.is_empty() {
            let mut says = self.procedure.record(&question, answer);
            self.told.push(Told::Answer(Box::new(answer.clone())));
            if has_fallen_short {
                says.push_str(
                    "; more than the generator can offer: what it did not send counts as lost",
                );
            }
            return Recorded {
                validity: Validity::default(),
                says,
            };
        }
        self.invalid += 1;
        if is_last {
            let reason = format!(
                "{} trials at up to {:.0} frames/s were invalid: {}",
                self.attempts,
                question.peak_pps(),
                reasons.join("; ")
            );
            self.procedure.give_up(&reason);
            self.told.push(Told::GivenUp(reason));
        } else {
            let ending = question.ending.filter(|_| too_early.is_none());
            self.pending = Some(Question { ending, ..question });
        }
        Recorded {
            validity: Validity { reasons },
            says: String::new(),
        }
    }

    /// Counts loads at which the generator was held up every time; are they too many? Only of searches in which one lost frame decides:
    /// what measures loss or a rate at one load after another has a figure of each.
    fn is_held_up(&mut self, question: &Question, answer: &Answer, fell_short: bool) -> bool {
        let sent_pps = answer.frames_sent as f64 / answer.duration_ns.max(1) as f64 * 1e9;
        let decides = matches!(question.ending, Some(Ending::Lost { .. }));
        if !(fell_short && decides) {
            (self.held_up, self.held_up_pps) = (0, f64::INFINITY);
        } else if (answer.frames_sent as f64) < HELD_UP_SHARE * answer.frames_intended as f64 {
            // at its limit
        } else if sent_pps < FAR_BELOW * self.held_up_pps {
            (self.held_up, self.held_up_pps) = (self.held_up + 1, sent_pps);
        }
        self.held_up >= HELD_UP_LOADS
    }

    /// Brings another procedure, made as this one was, to where this one is.
    pub fn replay(&self, procedure: &mut dyn Procedure) {
        for told in &self.told {
            let Some(question) = procedure.next_trial() else {
                return;
            };
            match told {
                Told::Answer(answer) => drop(procedure.record(&question, answer)),
                Told::GivenUp(reason) => procedure.give_up(reason),
            }
        }
    }

    /// Invalid trials so far.
    pub fn invalid(&self) -> u32 {
        self.invalid
    }

    /// What was found so far.
    pub fn outcomes(&self) -> Vec<Outcome> {
        self.procedure.outcomes()
    }
}

/// The loss ratio that procedures judge by: frames lost and frames not sent over those intended or sent (methods.md §0.3).
pub fn loss_ratio(question: &Question, answer: &Answer) -> f64 {
    loss_of_counts(
        answer.frames_intended,
        answer.frames_sent,
        answer.frames_received,
        question.peak_pps(),
    )
}

/// Did every frame come back that was sent, of a load that was really offered? What the generator was held up by less than the
/// gate allows is no loss of the DUT (RFC 1242 §3.17: all *offered* frames).
pub fn is_lossless(question: &Question, answer: &Answer) -> bool {
    let offered = Question {
        needs_load: true,
        ..question.clone()
    };
    answer.frames_lost() == 0 && validity::fell_short(&offered, answer).is_none()
}

/// From this share of the tester's limit on a result says more of the tester than of the DUT (methods.md §0.4).
const TESTERS_SHARE: f64 = 0.98;

/// Words for a result that is the tester's.
pub(crate) const TESTER_BOUND: &str = "the tester is the limit, the DUT may forward more";

/// Is a rate that was found the limit of the tester, the largest load it could offer or was allowed to, rather than the DUT's?
pub fn is_tester_bound(found_pps: f64, limit_pps: f64) -> bool {
    found_pps > 0.0 && found_pps >= TESTERS_SHARE * limit_pps
}

/// Says so when a trial ended early although its verdict was not settled in the end: frames that were missing came after all, out of
/// buffers that hold more than [`Ending::Lost`] allows for. It must be made again to its end.
pub fn ended_too_early(question: &Question, answer: &Answer) -> Option<String> {
    match question.ending {
        Some(Ending::Lost { frames })
            if answer.ended_early && answer.frames_lost() <= frames as i64 =>
        {
            Some(format!(
                "it ended early, but no more than {} frames were lost: repeated to its end",
                answer.frames_lost().max(0)
            ))
        }
        _ => None,
    }
}

/// Middle and ends of some values; `None` when there are none.
pub fn spread(values: &[f64]) -> Option<Spread> {
    let sample = Sample::new(values).ok()?;
    Some(Spread {
        mean: sample.mean(),
        median: sample.median(),
        p1: sample.quantile(0.01),
        p99: sample.quantile(0.99),
        min: sample.min(),
        max: sample.max(),
        stdev: sample.stdev(),
        repetitions: sample.n() as u32,
    })
}

/// What the sender's hold-ups have to do with the delays of these trials, where there were any.
pub(crate) fn held_up<'a>(trials: impl Iterator<Item = &'a Delays>) -> Option<String> {
    let held_up: Vec<HeldUp> = (trials.map(Delays::held_up))
        .filter(|held_up| held_up.frames > 0)
        .collect();
    let longest_ns = held_up.iter().map(|held_up| held_up.longest_ns).max()?;
    let sum = |of: fn(&HeldUp) -> u64| held_up.iter().map(of).sum::<u64>();
    Some(format!(
        "the sender stalled, for up to {:.1} ms: {} frames were due during stalls, and {} of them never left, in {} of the \
         trials; latencies with * may describe the sender rather than the DUT",
        longest_ns as f64 / 1e6,
        sum(|of| of.frames),
        sum(|of| of.not_sent),
        held_up.len(),
    ))
}

/// A time for people: `60 s`, `250 ms`, `1.5 s`.
pub(crate) fn time(ns: u64) -> String {
    match ns {
        ns if ns >= 1_000_000_000 => format!("{} s", ns as f64 / 1e9),
        ns if ns >= 1_000_000 => format!("{} ms", ns as f64 / 1e6),
        ns => format!("{} µs", ns as f64 / 1e3),
    }
}

/// A share in percent for people: `0.5`, `29`, and not `28.999999999999996`.
pub(crate) fn percent(share: f64) -> f64 {
    // a double has 15 digits that are the number's own
    format!("{:.14e}", 100.0 * share)
        .parse()
        .unwrap_or(100.0 * share)
}

/// Is a load one that can be offered?
pub(crate) fn check_load(what: &str, pps: f64) -> Result<(), String> {
    if pps.is_finite() && pps > 0.0 && pps <= 1e12 {
        Ok(())
    } else {
        Err(format!(
            "{what} must be above 0 and at most 1e12 frames per second; it is {pps}"
        ))
    }
}

/// Is a duration long enough for a frame to be due?
pub(crate) fn check_duration(what: &str, ns: u64, pps: f64) -> Result<(), String> {
    let frames = pps * (ns as f64 / 1e9);
    if frames >= 1.0 {
        return Ok(());
    }
    Err(format!(
        "{what} of {} at {pps} frames per second is {frames:.2} frames: less than one frame is meaningless; make it longer or \
         raise the load",
        time(ns)
    ))
}

/// One trial and its counts: the smallest procedure.
#[derive(Debug, Clone)]
pub struct Single {
    question: Question,
    answer: Option<Answer>,
    course: Course,
}

impl Single {
    /// One trial.
    ///
    /// # Errors
    /// The load or the duration is none.
    pub fn new(question: Question) -> Result<Single, String> {
        check_load("the load", question.peak_pps())?;
        check_duration("a trial", question.duration_ns(), question.peak_pps())?;
        Ok(Single {
            question: Question {
                purpose: Purpose::Measure,
                ..question
            },
            answer: None,
            course: Course::default(),
        })
    }
}

impl Procedure for Single {
    fn next_trial(&mut self) -> Option<Question> {
        let ended = self.answer.is_some() || self.course.failure.is_some();
        (!ended).then(|| self.question.clone())
    }

    fn record(&mut self, _: &Question, answer: &Answer) -> String {
        self.course.trials += 1;
        self.answer = Some(answer.clone());
        format!(
            "{} of {} frames came back",
            answer.frames_received, answer.frames_sent
        )
    }

    fn give_up(&mut self, reason: &str) {
        self.course.failure = Some(reason.into());
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let answer = self.answer.clone().unwrap_or_default();
        let seconds = (answer.duration_ns as f64 / 1e9).max(f64::MIN_POSITIVE);
        let lost = answer.frames_lost();
        let share = lost as f64 / answer.frames_sent.max(1) as f64;
        vec![Outcome {
            variant: Variant::default(),
            frame_size_bytes: self.question.frame_size_bytes,
            verdict: self.course.verdict(match lost {
                _ if self.answer.is_none() => "nothing was measured".to_owned(),
                0 => "no frame was lost".to_owned(),
                lost => format!("{lost} of {} frames were lost", answer.frames_sent),
            }),
            answered: self.answer.is_some(),
            compliance: fwdlab_model::outcome::Compliance::default(),
            warnings: held_up(answer.delays.iter()).into_iter().collect(),
            trials: self.course.trials,
            found: fwdlab_model::outcome::Found::Trial(fwdlab_model::outcome::SingleTrial {
                intended_load_pps: self.question.peak_pps(),
                offered_load_pps: (answer.frames_sent + answer.frames_beside) as f64 / seconds,
                forwarding_rate_pps: answer.frames_received as f64 / seconds,
                frame_loss_ratio: share,
                directions: answer.directions,
                duration_s: answer.duration_ns as f64 / 1e9,
                delays: answer.delays,
                samples: answer.samples,
            }),
        }]
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::units::FrameSize;

    use super::*;
    use crate::compliance::Conditions;
    use crate::rfc2544::{Setup, frame_loss, throughput};

    fn single(load: f64) -> Session {
        let question =
            Question::constant(FrameSize::MIN, load, 1_000_000_000, Purpose::Measure, "");
        Session::new(Box::new(Single::new(question).unwrap()))
    }

    #[test]
    fn shares_in_percent() {
        for (share, text) in [
            (0.29, "29"),
            (1e-9, "0.0000001"),
            (0.005, "0.5"),
            (1.0, "100"),
            (0.0, "0"),
        ] {
            assert_eq!(percent(share).to_string(), text);
        }
        assert_eq!(0.29 * 100.0, 28.999999999999996);
        assert_eq!(percent(f64::INFINITY), f64::INFINITY);
    }

    fn answer(sent: u64, received: u64) -> Answer {
        Answer {
            frames_intended: 1000,
            frames_sent: sent,
            frames_received: received,
            duration_ns: 1_000_000_000,
            ..Answer::default()
        }
    }

    #[test]
    fn without_a_trial_nothing_was_measured() {
        let session = single(1000.0);
        let outcome = &session.outcomes()[0];
        assert!(!outcome.answered);
        assert_eq!(outcome.verdict, "nothing was measured");
    }

    #[test]
    fn what_a_sender_was_too_late_for_is_told_with_the_delays() {
        let warnings = |held_up_frames| {
            let mut session = single(1000.0);
            session.next_trial();
            session.record(&Answer {
                delays: Some(Delays {
                    frames: 998,
                    held_up_frames,
                    not_sent_frames: 2,
                    held_up_max_ns: 2_200_000,
                    ..Delays::default()
                }),
                ..answer(998, 998)
            });
            session.outcomes()[0].warnings.clone()
        };
        assert!(warnings(0).is_empty());
        let told = warnings(3).concat();
        assert!(
            told.contains(
                "for up to 2.2 ms: 3 frames were due during stalls, and 2 of them never left"
            ),
            "{told}"
        );
    }

    #[test]
    fn an_invalid_trial_is_repeated_and_never_used() {
        let mut session = single(1000.0);
        let flap = Answer {
            objections: vec!["link down".into()],
            ..answer(1000, 0)
        };
        for attempt in 1..=2 {
            assert_eq!(session.next_trial().unwrap().1, attempt);
            let recorded = session.record(&flap);
            assert!(!recorded.validity.is_valid() && recorded.says.is_empty());
        }
        session.next_trial().unwrap();
        assert!(session.record(&answer(1000, 1000)).validity.is_valid());
        assert_eq!(session.next_trial(), None);
        assert_eq!(session.invalid(), 2);
        assert_eq!(session.outcomes()[0].verdict, "no frame was lost");

        let mut session = single(1000.0);
        for _ in 0..MAX_INVALID {
            session.next_trial().unwrap();
            session.record(&flap);
        }
        assert_eq!(session.next_trial(), None);
        let outcome = &session.outcomes()[0];
        assert!(!outcome.answered && outcome.trials == 0);
        assert!(outcome.verdict.contains("3 trials") && outcome.verdict.contains("link down"));
    }

    #[test]
    fn frames_that_come_late_settle_nothing() {
        let question = Question {
            ending: Some(Ending::Lost { frames: 0 }),
            ..Question::constant(FrameSize::MIN, 1000.0, 1_000_000_000, Purpose::Measure, "")
        };
        let mut session = Session::new(Box::new(Single::new(question).unwrap()));
        session.next_trial().unwrap();
        let early = Answer {
            ended_early: true,
            frames_intended: 100,
            ..answer(100, 100)
        };
        let recorded = session.record(&early);
        assert!(recorded.validity.reasons[0].contains("repeated to its end"));
        assert_eq!(session.next_trial().unwrap().0.ending, None);
        assert!(session.record(&answer(1000, 1000)).validity.is_valid());
    }

    #[test]
    fn a_generator_at_its_limit_is_believed_the_third_time() {
        let mut session = single(1000.0);
        for valid in [false, false, true] {
            session.next_trial().unwrap();
            let recorded = session.record(&answer(900, 900));
            assert_eq!(recorded.validity.is_valid(), valid, "{recorded:?}");
        }
        assert_eq!(session.next_trial(), None);
    }

    /// A sender without CPU tells nothing of the DUT at any load: the search ends in words, not at the bottom. One at its limit, however
    /// far below the largest load, finds what it can offer.
    #[test]
    fn a_search_with_a_sender_held_up_at_every_load_is_given_up() {
        let search = |sent: &dyn Fn(f64) -> f64| {
            let setup = Setup {
                frame_size: FrameSize::MIN,
                line_rate_pps: None,
                max_load_pps: 5e6,
                conditions: Conditions::met(),
            };
            let parameters = throughput::Parameters {
                search_ns: 1_000_000_000,
                final_ns: 1_000_000_000,
                ..throughput::Parameters::standard(setup)
            };
            let procedure = throughput::Throughput::new(parameters).unwrap();
            let mut session = Session::new(Box::new(procedure));
            let mut trials = 0;
            while let Some((question, _)) = session.next_trial() {
                let intended = question.frames();
                let sent = sent(intended as f64) as u64;
                session.record(&Answer {
                    frames_intended: intended,
                    ..answer(sent, sent)
                });
                trials += 1;
            }
            (trials, session.outcomes().remove(0))
        };
        let (trials, outcome) = search(&|intended| 0.95 * intended);
        assert_eq!(trials, HELD_UP_LOADS * MAX_INVALID);
        assert!(!outcome.answered, "{outcome:?}");
        let words = "held up at 4 loads in a row, each far below the last: the generator did not reach the load";
        assert!(outcome.verdict.contains(words), "{}", outcome.verdict);
        // loss is measured at every load all the same
        let setup = Setup {
            frame_size: FrameSize::MIN,
            line_rate_pps: None,
            max_load_pps: 5e6,
            conditions: Conditions::met(),
        };
        let losses = frame_loss::FrameLoss::new(frame_loss::Parameters::standard(setup)).unwrap();
        let mut session = Session::new(Box::new(losses));
        while let Some((question, _)) = session.next_trial() {
            let sent = question.frames() / 100 * 95;
            session.record(&Answer {
                frames_intended: question.frames(),
                frames_sent: sent,
                frames_received: sent,
                duration_ns: question.duration_ns(),
                ..Answer::default()
            });
        }
        let outcome = session.outcomes().remove(0);
        assert!(outcome.trials >= 10, "{outcome:?}");
        assert!(!outcome.verdict.contains("no result"), "{outcome:?}");

        for limit in [1e5, 4.99e6, 4.9e6] {
            let (_, outcome) = search(&|intended| intended.min(limit));
            assert!(outcome.answered, "{outcome:?}");
        }
        // held up at three loads, and not at the next
        let (_, outcome) = search(&|intended| match intended > 1e6 {
            true => 0.95 * intended,
            false => intended,
        });
        assert!(outcome.answered, "{outcome:?}");
    }

    #[test]
    fn nothing_is_asked_that_means_nothing() {
        let ask = |load, ns| {
            Single::new(Question::constant(
                FrameSize::MIN,
                load,
                ns,
                Purpose::Measure,
                "",
            ))
            .unwrap_err()
        };
        assert!(ask(0.0, 1).contains("above 0"));
        assert!(ask(f64::NAN, 1).contains("above 0"));
        assert!(ask(10.0, 1_000_000).contains("less than one frame"));
    }
}
