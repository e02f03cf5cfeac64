//! The common interface of all procedures: they request a trial, take its answer, and finally
//! return outcomes.
//!
//! A [`Procedure`] is a state machine without traffic, clock or thread; a [`Session`] sits between
//! it and the caller that runs the trials, and filters invalid answers.

use fwdlab_model::latency::StalledFrames;
use fwdlab_model::outcome::{Compliance, FORWARDS_NOTHING, Found, NO_RESULT, Outcome, Spread};
use fwdlab_model::procedure::{Answer, Delays, Ending, Purpose, Question};
use fwdlab_model::result::Validity;
use fwdlab_model::units::FrameSize;
use fwdlab_model::variant::Variant;
use fwdlab_stats::Sample;

use crate::validity;

/// Maximum number of attempts at a trial that is invalid (docs/methodology.md, "Validity").
pub const MAX_INVALID: u32 = 3;

/// A state machine that requests trials and takes their answers.
pub trait Procedure {
    /// Returns the next trial, or `None` at the end. Call it once, then [`Procedure::record`].
    fn next_trial(&mut self) -> Option<Question>;

    /// Takes the answer to the last request, and returns a description of what follows from it.
    fn record(&mut self, question: &Question, answer: &Answer) -> String;

    /// Called if the last requested trial cannot be run: ends everything that depends on it.
    fn abort(&mut self, reason: &str);

    /// Called if the generator did not offer the last requested load in any of [`MAX_INVALID`]
    /// trials. `answer` is that of the trial in which it sent most: it shows what the tester can
    /// offer, and nothing about the DUT. A search continues below that load; for all others it has
    /// no value.
    fn load_not_reached(&mut self, _question: &Question, _answer: &Answer, reason: &str) {
        self.abort(reason);
    }

    /// Returns the results so far, one per procedure and frame size.
    fn outcomes(&self) -> Vec<Outcome>;
}

/// The progress of a procedure.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Frame size of its trials.
    pub frame_size: FrameSize,
    /// Number of valid trials.
    pub trials: u32,
    /// Why it ended early.
    pub failure: Option<String>,
}

impl Progress {
    /// Returns the progress at the beginning.
    pub(crate) fn new(frame_size: FrameSize) -> Progress {
        Progress {
            frame_size,
            trials: 0,
            failure: None,
        }
    }

    /// Returns the outcome with this verdict unless it failed, without a standard or warnings.
    pub(crate) fn outcome(
        &self,
        said: impl Into<String>,
        answered: bool,
        found: impl Into<Found>,
    ) -> Outcome {
        Outcome {
            frame_size_bytes: self.frame_size,
            variant: Variant::default(),
            found: found.into(),
            verdict: match &self.failure {
                Some(reason) => format!("{NO_RESULT}{reason}"),
                None => said.into(),
            },
            answered,
            not_applicable: false,
            compliance: Compliance::default(),
            warnings: Vec::new(),
            trials: self.trials,
        }
    }
}

/// How a session treated an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Whether it may be used.
    pub validity: Validity,
    /// The procedure's description; empty for an invalid answer.
    pub says: String,
}

/// Repeats invalid trials of a procedure, and hides invalid answers from it.
pub struct Session {
    procedure: Box<dyn Procedure>,
    pending: Option<Question>,
    attempts: u32,
    /// Of the attempts at the pending request that only fell short of its load: the one that sent
    /// most.
    short: Option<Answer>,
    invalid: u32,
    stalls: Stalls,
    history: Vec<Step>,
}

/// Distinguishes a generator at its limit from one that stalls: only the latter falls short of
/// loads far below what it has sent before.
#[derive(Debug, Clone, Default)]
struct Stalls {
    /// The largest rate it has sent so far.
    most_pps: f64,
    /// Number of consecutive loads at which it stalled in every attempt.
    loads: u32,
}

/// A generator that stalls at this many consecutive loads will stall at all of them.
const STALLED_LOADS: u32 = 3;

/// At loads below this share of its largest rate, a generator falls short only because it stalls.
const FAR_BELOW: f64 = 0.75;

impl Stalls {
    /// Records a load that was not offered. Returns whether the generator has stalled at enough
    /// loads to abort the search.
    fn add(&mut self, question: &Question, answer: &Answer) -> bool {
        if question.peak_pps() < FAR_BELOW * self.most_pps {
            self.loads += 1;
        }
        self.most_pps = self.most_pps.max(sent_pps(answer));
        self.loads >= STALLED_LOADS
    }
}

/// A step of a procedure: what it got for a request.
#[derive(Debug, Clone)]
enum Step {
    Answer(Box<Answer>),
    OutOfReach(Box<Answer>, String),
    GivenUp(String),
}

impl Step {
    fn apply(&self, procedure: &mut dyn Procedure, question: &Question) -> String {
        match self {
            Step::Answer(answer) => return procedure.record(question, answer),
            Step::OutOfReach(answer, reason) => {
                procedure.load_not_reached(question, answer, reason)
            }
            Step::GivenUp(reason) => procedure.abort(reason),
        }
        String::new()
    }
}

impl Session {
    /// Starts a session.
    pub fn new(procedure: Box<dyn Procedure>) -> Session {
        Session {
            procedure,
            pending: None,
            attempts: 0,
            short: None,
            invalid: 0,
            stalls: Stalls::default(),
            history: Vec::new(),
        }
    }

    /// Returns the next trial and the number of the attempt, from 1; `None` at the end.
    pub fn next_trial(&mut self) -> Option<(Question, u32)> {
        if self.pending.is_none() {
            self.pending = self.procedure.next_trial();
            (self.attempts, self.short) = (0, None);
        }
        Some((self.pending.clone()?, self.attempts + 1))
    }

    /// Takes the answer to the last requested trial. An invalid trial is repeated, up to
    /// [`MAX_INVALID`] attempts; invalid answers are never used as values of the DUT.
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
        let fell_short = validity::load_shortfall(&question, answer);
        if reasons.is_empty() && fell_short.is_some() {
            let most = self.short.as_ref().map_or(0, |short| short.frames_sent);
            if answer.frames_sent >= most {
                self.short = Some(answer.clone());
            }
        }
        reasons.extend(fell_short);
        if reasons.is_empty() {
            self.stalls = Stalls {
                loads: 0,
                most_pps: self.stalls.most_pps.max(sent_pps(answer)),
            };
            let says = self.take(&question, Step::Answer(Box::new(answer.clone())));
            return Recorded {
                validity: Validity::default(),
                says,
            };
        }
        self.invalid += 1;
        if self.attempts >= MAX_INVALID {
            let reason = format!(
                "{} trials at up to {:.0} frames/s were invalid: {}",
                self.attempts,
                question.peak_pps(),
                reasons.join("; ")
            );
            let step = self.last_resort(&question, reason);
            self.take(&question, step);
        } else {
            let ending = question.ending.filter(|_| too_early.is_none());
            self.pending = Some(Question { ending, ..question });
        }
        Recorded {
            validity: Validity { reasons },
            says: String::new(),
        }
    }

    /// Handles a request whose trials were all invalid.
    fn last_resort(&mut self, question: &Question, reason: String) -> Step {
        let Some(short) = self.short.take() else {
            return Step::GivenUp(reason);
        };
        // procedures that measure loss or a rate at each load need a figure for each of them
        let is_search = matches!(question.purpose, Purpose::Search | Purpose::Confirm);
        if is_search && self.stalls.add(question, &short) {
            return Step::GivenUp(format!(
                "cannot tell: the sender stalls at every load, also far below what it has sent ({reason})"
            ));
        }
        Step::OutOfReach(Box::new(short), reason)
    }

    fn take(&mut self, question: &Question, step: Step) -> String {
        let says = step.apply(self.procedure.as_mut(), question);
        self.history.push(step);
        says
    }

    /// Replays the recorded steps on another procedure that was created in the same way.
    pub fn replay(&self, procedure: &mut dyn Procedure) {
        for step in &self.history {
            let Some(question) = procedure.next_trial() else {
                return;
            };
            step.apply(procedure, &question);
        }
    }

    /// Returns the number of invalid trials so far.
    pub fn invalid(&self) -> u32 {
        self.invalid
    }

    /// Returns the results so far.
    pub fn outcomes(&self) -> Vec<Outcome> {
        self.procedure.outcomes()
    }
}

/// Returns the frames per second that were sent.
pub(crate) fn sent_pps(answer: &Answer) -> f64 {
    answer.frames_sent as f64 / (answer.duration_ns.max(1) as f64 / 1e9)
}

/// Returns the loss ratio of a trial that offered its load: frames lost over frames sent (RFC 1242
/// §3.17: of all *offered* frames).
pub fn loss_ratio(answer: &Answer) -> f64 {
    answer.frames_lost().unsigned_abs() as f64 / answer.frames_sent.max(1) as f64
}

/// A generator reaches a load if it sent at least this multiple of it in a trial with a higher one.
pub(crate) const REACHED_SHARE: f64 = 0.98;

/// From this share of the tester's limit on a result reflects the tester rather than the DUT
/// (docs/methodology.md, "Validity").
const TESTERS_SHARE: f64 = 0.98;

/// Returns true if a result is so close to the largest load that the tester could or was allowed to
/// offer that it is a lower bound.
pub(crate) fn is_tester_bound(found_pps: f64, limit_pps: f64) -> bool {
    found_pps > 0.0 && found_pps >= TESTERS_SHARE * limit_pps
}

/// Message for a result that is limited by the tester.
pub(crate) const TESTER_BOUND: &str = "the tester is the limit, the DUT may forward more";

/// Returns a message if a trial ended early although its verdict was not certain: frames that were
/// missing arrived later, from buffers that hold more than [`Ending::Lost`] assumes. The trial must
/// be repeated without an early end.
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

/// Returns median and range of some values; `None` if there are none.
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

/// Describes how stalls of the sender affect the delays of these trials, if there were any.
pub(crate) fn describe_stalls<'a>(trials: impl Iterator<Item = &'a Delays>) -> Option<String> {
    let stalled: Vec<StalledFrames> = (trials.map(Delays::stalled_frames))
        .filter(|stalled| stalled.frames > 0)
        .collect();
    let longest_ns = stalled.iter().map(|stalled| stalled.longest_ns).max()?;
    let sum = |of: fn(&StalledFrames) -> u64| stalled.iter().map(of).sum::<u64>();
    Some(format!(
        "the sender stalled, for up to {:.1} ms: {} frames were due during stalls, and {} of them never left, in {} of the \
         trials; latencies with * may describe the sender rather than the DUT",
        longest_ns as f64 / 1e6,
        sum(|of| of.frames),
        sum(|of| of.not_sent),
        stalled.len(),
    ))
}

/// Formats a time: `60 s`, `250 ms`, `1.5 s`.
pub(crate) fn time(ns: u64) -> String {
    match ns {
        ns if ns >= 1_000_000_000 => format!("{} s", ns as f64 / 1e9),
        ns if ns >= 1_000_000 => format!("{} ms", ns as f64 / 1e6),
        ns => format!("{} µs", ns as f64 / 1e3),
    }
}

/// Converts a share to percent without rounding noise: `0.5`, `29`, and not `28.999999999999996`.
pub(crate) fn percent(share: f64) -> f64 {
    // a double has 15 significant decimal digits
    format!("{:.14e}", 100.0 * share)
        .parse()
        .unwrap_or(100.0 * share)
}

/// Checks that a load can be offered.
pub(crate) fn check_load(what: &str, pps: f64) -> Result<(), String> {
    if pps.is_finite() && pps > 0.0 && pps <= 1e12 {
        Ok(())
    } else {
        Err(format!(
            "{what} must be above 0 and at most 1e12 frames per second; it is {pps}"
        ))
    }
}

/// Checks that a duration is long enough for a frame to be due.
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

/// A single trial and its counts: the smallest procedure.
#[derive(Debug, Clone)]
pub struct Single {
    question: Question,
    answer: Option<Answer>,
    /// True if the load was not offered.
    fell_short: bool,
    progress: Progress,
}

impl Single {
    /// Creates a procedure of one trial.
    ///
    /// # Errors
    /// If the load or the duration is invalid.
    pub fn new(question: Question) -> Result<Single, String> {
        check_load("the load", question.peak_pps())?;
        check_duration("a trial", question.duration_ns(), question.peak_pps())?;
        Ok(Single {
            progress: Progress::new(question.frame_size_bytes),
            question: Question {
                purpose: Purpose::Measure,
                ..question
            },
            answer: None,
            fell_short: false,
        })
    }
}

impl Procedure for Single {
    fn next_trial(&mut self) -> Option<Question> {
        let ended = self.answer.is_some() || self.progress.failure.is_some();
        (!ended).then(|| self.question.clone())
    }

    fn record(&mut self, _: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        self.answer = Some(answer.clone());
        format!(
            "{} of {} frames came back",
            answer.frames_received, answer.frames_sent
        )
    }

    fn abort(&mut self, reason: &str) {
        self.progress.failure = Some(reason.into());
    }

    /// Shows its counts: nothing else depends on them.
    fn load_not_reached(&mut self, _: &Question, answer: &Answer, _: &str) {
        self.answer = Some(answer.clone());
        self.fell_short = true;
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let answer = self.answer.clone().unwrap_or_default();
        let seconds = (answer.duration_ns as f64 / 1e9).max(f64::MIN_POSITIVE);
        let lost = answer.frames_lost();
        let share = lost as f64 / answer.frames_sent.max(1) as f64;
        let verdict = match lost {
            _ if self.answer.is_none() => "nothing was measured".to_owned(),
            _ if self.fell_short => format!(
                "the generator did not reach the load: {:.0} of {:.0} frames/s were offered",
                sent_pps(&answer),
                self.question.peak_pps()
            ),
            _ if answer.frames_received == 0 => FORWARDS_NOTHING.into(),
            0 => "no frame was lost".to_owned(),
            lost => format!("{lost} of {} frames were lost", answer.frames_sent),
        };
        let answered = self.answer.is_some() && !self.fell_short;
        let warnings = describe_stalls(answer.delays.iter()).into_iter().collect();
        let found = fwdlab_model::outcome::SingleTrial {
            intended_load_pps: self.question.peak_pps(),
            offered_load_pps: (answer.frames_sent + answer.frames_additional) as f64 / seconds,
            forwarding_rate_pps: answer.frames_received as f64 / seconds,
            frame_loss_ratio: share,
            directions: answer.directions,
            duration_s: answer.duration_ns as f64 / 1e9,
            delays: answer.delays,
            samples: answer.samples,
        };
        vec![Outcome {
            warnings,
            ..self.progress.outcome(verdict, answered, found)
        }]
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::units::FrameSize;

    use super::*;
    use crate::compliance::Conditions;
    use crate::rfc2544::suite::Plan;
    use crate::rfc2544::{Setup, throughput};

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
    fn frames_that_the_sender_missed_are_reported_with_the_delays() {
        let warnings = |stalled_frames| {
            let mut session = single(1000.0);
            session.next_trial();
            session.record(&Answer {
                delays: Some(Delays {
                    frames: 998,
                    stalled_frames,
                    not_sent_frames: 2,
                    longest_stall_ns: 2_200_000,
                    ..Delays::default()
                }),
                ..answer(998, 998)
            });
            session.outcomes()[0].warnings.clone()
        };
        assert!(warnings(0).is_empty());
        let reported = warnings(3).concat();
        assert!(
            reported.contains(
                "for up to 2.2 ms: 3 frames were due during stalls, and 2 of them never left"
            ),
            "{reported}"
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
    fn a_trial_that_fell_short_is_shown_and_never_valid() {
        let mut session = single(1000.0);
        for sent in [880, 900, 890] {
            session.next_trial().unwrap();
            assert!(!session.record(&answer(sent, sent)).validity.is_valid());
        }
        assert_eq!(session.next_trial(), None);
        let outcome = session.outcomes().remove(0);
        assert!(!outcome.answered && outcome.figures().is_empty());
        let words = "the generator did not reach the load: 900 of 1000 frames/s were offered";
        assert_eq!(outcome.verdict, words);
    }

    /// A search with a sender that stalls at every load is aborted, and does not continue down to
    /// the lowest load. With a sender at its limit, however far below the largest load, the search
    /// finds what it can offer.
    #[test]
    fn a_search_with_a_sender_that_stalls_at_every_load_is_aborted() {
        let search = |sent: &dyn Fn(f64) -> f64| {
            let setup = Setup {
                frame_size: FrameSize::MIN,
                line_rate_pps: None,
                max_load_pps: 5e6,
                conditions: Conditions::met(),
            };
            let plan = Plan {
                search_ns: 1_000_000_000,
                final_ns: 1_000_000_000,
                ..Plan::standard()
            };
            let procedure = throughput::Throughput::new(setup, &plan).unwrap();
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
        assert_eq!(trials, (STALLED_LOADS + 1) * MAX_INVALID);
        assert!(!outcome.answered, "{outcome:?}");
        let words = "cannot tell: the sender stalls at every load";
        assert!(outcome.verdict.contains(words), "{}", outcome.verdict);
        for limit in [1e5, 4.99e6, 4.9e6] {
            let (_, outcome) = search(&|intended| intended.min(limit));
            assert!(outcome.answered, "{outcome:?}");
        }
        // stalls only at the first loads
        let (_, outcome) = search(&|intended| match intended > 1e6 {
            true => 0.95 * intended,
            false => intended,
        });
        assert!(outcome.answered, "{outcome:?}");
    }

    #[test]
    fn meaningless_trials_are_not_requested() {
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
