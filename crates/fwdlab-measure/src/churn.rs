//! Churn: the cost of an event under load. Tables are rewritten, a session is cleared, rules are
//! reloaded while frames flow (terms of RFC 6412; events as in RFC 7747 and RFC 4098).
//!
//! The forwarding rate before the event is the reference for what follows: when the rate first
//! dropped, how far, when it was back for good, and how many frames were missing in total. That
//! deficit is meaningful in overload, too, where lost frames are not. Start with [`Churn`].

use fwdlab_model::campaign;
use fwdlab_model::outcome::{Dip, Outcome};
use fwdlab_model::procedure::{
    Answer, Ending, Interval, Purpose, Question, base_pps, due_frames, regained_at,
};
use fwdlab_model::units::FrameSize;

use crate::procedure::{Procedure, Progress, check_load, spread, time};

/// Shortest interval: counters are not read more often.
const SHORTEST_NS: u64 = 10_000_000;

/// Minimum number of intervals for the median rate before the event.
const FEWEST: u64 = 10;

/// If more than this share of frames is lost before the event, lost frames do not show its effect.
const LOSSY: f64 = 0.001;

/// Time shown in a graph before the event, and after the rate has recovered.
const AROUND_NS: u64 = 5_000_000_000;

/// The state machine.
#[derive(Debug, Clone)]
pub struct Churn {
    load_pps: f64,
    /// The change to the DUT: a script for `sh`.
    event: String,
    parameters: campaign::Churn,
    dips: Vec<Dip>,
    /// The first trial over time, around the event, and the time of the event.
    curve: Option<(Vec<Interval>, f64)>,
    /// Number of trials in which nothing came out before the event.
    mute: u32,
    progress: Progress,
}

impl Churn {
    /// Prepares the trials.
    ///
    /// # Errors
    /// No event; an impossible load, share or number of trials; times that are too short for a
    /// rate.
    pub fn new(
        frame_size: FrameSize,
        load_pps: f64,
        parameters: campaign::Churn,
    ) -> Result<Churn, String> {
        let p = &parameters;
        let Some(event) = p.event.clone().filter(|event| !event.trim().is_empty()) else {
            return Err(
                "churn needs an event: a command for sh on the DUT, such as 'birdc restart peer1'"
                    .into(),
            );
        };
        check_load("the load", load_pps)?;
        if !(p.share.0 > 0.0 && p.share.0 < 1.0) {
            return Err(format!(
                "share: a rate below {} of that before as a dip: it must be above 0 and below 1",
                p.share
            ));
        }
        if p.repetitions == 0 {
            return Err("repetitions: at least one".into());
        }
        if p.sample.ns() < SHORTEST_NS {
            return Err(format!("sample: at least {}", time(SHORTEST_NS)));
        }
        if p.before.ns() < FEWEST * p.sample.ns() {
            return Err(format!(
                "before: it must have at least {FEWEST} intervals: {}",
                time(FEWEST * p.sample.ns())
            ));
        }
        if p.after.ns() < 1_000_000_000 || p.timeout.ns() < p.after.ns() {
            return Err("after: it must be at least 1s and no longer than timeout".into());
        }
        Ok(Churn {
            load_pps,
            event,
            parameters,
            dips: Vec::new(),
            curve: None,
            mute: 0,
            progress: Progress::new(frame_size),
        })
    }

    /// Returns the effect of an event at this time, from the counts over time. `None` if nothing
    /// was forwarded before it.
    fn dip(&self, answer: &Answer, event_ns: u64) -> Option<Dip> {
        let p = &self.parameters;
        let samples: Vec<Interval> = answer
            .samples
            .iter()
            .copied()
            .filter(|sample| sample.length_ns > 0)
            .collect();
        let base = base_pps(&samples, event_ns)?;
        // frames that were not sent are not missing
        let due = |sample: &Interval| due_frames(base, sample.frames_sent, sample.length_ns);
        let is_low = |sample: &&Interval| {
            // one frame more or less depends on the time of the reading
            (sample.frames_received as f64) < p.share.0 * due(sample) - 1.0
        };
        let is_before = |sample: &&Interval| sample.at_ns + sample.length_ns <= event_ns;
        let before = || samples.iter().filter(is_before);
        // the last frames of a trial do not fill an interval
        let sends = |sample: &&Interval| sample.frames_sent > 0;
        let after: Vec<&Interval> = samples
            .iter()
            .filter(|sample| !is_before(sample))
            .filter(sends)
            .collect();
        let since = |ns: u64| ns.saturating_sub(event_ns) as f64 / 1e9;
        let seconds = |sample: &Interval| sample.length_ns as f64 / 1e9;
        let first = after.iter().copied().find(is_low);
        let regained = match first {
            None => Some(event_ns),
            Some(first) => {
                let over_ns = answer.reset_over_ns.unwrap_or(event_ns);
                regained_at(
                    &samples,
                    first.at_ns,
                    over_ns,
                    base,
                    p.share.0,
                    p.after.ns(),
                )
            }
        };
        let until = regained.unwrap_or(u64::MAX);
        let dipped = || {
            (after.iter().copied()).filter(move |sample| first.is_some() && sample.at_ns < until)
        };
        let missing = |sample: &Interval| match due(sample) {
            due if due < 1.0 => 0.0,
            due => (1.0 - sample.frames_received as f64 / due).max(0.0),
        };
        let (sent, received) = before().fold((0, 0), |(sent, received), sample| {
            (sent + sample.frames_sent, received + sample.frames_received)
        });
        // an empty sum of floats is -0
        let total = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, |sum, s| sum + s);
        let offered_before = before().map(Interval::offered_load_pps).collect::<Vec<_>>();
        let offered_before = spread(&offered_before).map_or(0.0, |load| load.median);
        let falls_short = |sample: &&Interval| {
            let due = p.share.0 * offered_before * seconds(sample) - 1.0;
            (sample.frames_sent as f64) < due
        };
        let lossy = sent.saturating_sub(received) as f64 > 1.0 + LOSSY * sent as f64;
        let offered_pps = answer.frames_sent as f64 / (answer.duration_ns.max(1) as f64 / 1e9);
        let deficit_frames = total(&mut dipped().map(|sample| missing(sample) * due(sample)));
        Some(Dip {
            base_pps: base,
            before_ratio: before().filter(is_low).count() as f64 / before().count().max(1) as f64,
            first_impact_s: first.map(|first| since(first.at_ns)),
            regained_s: regained.map(since),
            depth: dipped().map(missing).fold(0.0, f64::max),
            blackout_s: total(
                &mut dipped()
                    .filter(|sample| sample.frames_received == 0)
                    .map(seconds),
            ),
            deficit_s: deficit_frames / base,
            deficit_frames: Some(deficit_frames.round()),
            fell_short_ratio: after.iter().copied().filter(falls_short).count() as f64
                / after.len().max(1) as f64,
            by_loss_s: (!lossy && offered_pps > 0.0)
                .then(|| answer.frames_lost() as f64 / offered_pps),
            moments: answer.moments.clone(),
        })
    }
}

impl Procedure for Churn {
    fn next_trial(&mut self) -> Option<Question> {
        let p = &self.parameters;
        if self.progress.failure.is_some() || self.progress.trials >= p.repetitions {
            return None;
        }
        let reason = format!(
            "`{}` after {}, {} of {}",
            self.event,
            time(p.before.ns()),
            self.progress.trials + 1,
            p.repetitions
        );
        Some(Question {
            sample_ns: Some(p.sample.ns()),
            reset_at_ns: Some(p.before.ns()),
            reset: Some(format!("command: {}", self.event)),
            ending: Some(Ending::Regained {
                share: p.share.0,
                for_ns: p.after.ns(),
            }),
            // an overload without the full load is still an overload
            needs_load: false,
            ..Question::constant(
                self.progress.frame_size,
                self.load_pps,
                p.before.ns() + p.timeout.ns(),
                Purpose::Measure,
                reason,
            )
        })
    }

    fn record(&mut self, _: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        let event_ns = answer.reset_at_ns.unwrap_or(self.parameters.before.ns());
        let Some(dip) = self.dip(answer, event_ns) else {
            self.mute += 1;
            return "nothing was forwarded before the event".into();
        };
        self.curve.get_or_insert_with(|| {
            let regained_ns = (dip.regained_s).map_or(u64::MAX, |s| event_ns + (1e9 * s) as u64);
            let shown = event_ns.saturating_sub(AROUND_NS)..regained_ns.saturating_add(AROUND_NS);
            let samples = answer.samples.iter().copied();
            let around = samples.filter(|sample| shown.contains(&sample.at_ns));
            (around.collect(), event_ns as f64 / 1e9)
        });
        let says = match (dip.first_impact_s, dip.regained_s) {
            (None, _) => "the rate did not dip".into(),
            (Some(first), Some(regained)) => format!(
                "dipped by {:.1} % after {first:.3} s, regained after {regained:.3} s, {:.3} s missing",
                100.0 * dip.depth,
                dip.deficit_s
            ),
            (Some(first), None) => format!(
                "dipped by {:.1} % after {first:.3} s and was not regained within {}",
                100.0 * dip.depth,
                time(self.parameters.timeout.ns())
            ),
        };
        self.dips.push(dip);
        says
    }

    fn abort(&mut self, reason: &str) {
        self.progress.failure = Some(reason.into());
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let p = &self.parameters;
        let is_done = self.progress.trials >= p.repetitions && self.progress.failure.is_none();
        let gone = (self.dips.iter())
            .filter(|dip| dip.regained_s.is_none())
            .count();
        let of = |value: fn(&Dip) -> f64| spread(&self.dips.iter().map(value).collect::<Vec<_>>());
        let mut warnings = Vec::new();
        let before = of(|dip| dip.before_ratio).map_or(0.0, |ratio| ratio.mean);
        if before > 0.0 {
            warnings.push(format!(
                "{:.1} % of the intervals before the event were below {} % of the median as well: dips like these are not the event's",
                100.0 * before,
                100.0 * p.share.0
            ));
        }
        let short = of(|dip| dip.fell_short_ratio).map_or(0.0, |ratio| ratio.mean);
        if short > 0.0 {
            warnings.push(format!(
                "the tester itself sent less in {:.1} % of the intervals after the event: what it did not send is not counted as \
                 missing, but its CPU was busy with something, perhaps the event",
                100.0 * short
            ));
        }
        let verdict = match () {
            () if !is_done => "not all repetitions were run".to_owned(),
            () if self.mute > 0 => format!("nothing was forwarded before {} events", self.mute),
            () if gone > 0 => format!(
                "after {gone} of {} events the rate was not regained within {}",
                self.dips.len(),
                time(p.timeout.ns())
            ),
            () if self.dips.iter().all(|dip| dip.first_impact_s.is_none()) => {
                "the rate did not dip".into()
            }
            () => "measured".into(),
        };
        let answered = is_done && gone == 0 && self.mute == 0;
        let found = fwdlab_model::outcome::Churn {
            event: self.event.clone(),
            load_pps: self.load_pps,
            share: p.share.0,
            resolution_s: p.sample.ns() as f64 / 1e9,
            base_pps: of(|dip| dip.base_pps),
            deficit_s: of(|dip| dip.deficit_s),
            dips: self.dips.clone(),
            samples: self.curve.clone().unwrap_or_default().0,
            event_at_s: self.curve.as_ref().map(|curve| curve.1),
        };
        vec![Outcome {
            warnings,
            ..self.progress.outcome(verdict, answered, found)
        }]
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::outcome::Found;
    use std::time::Duration;

    use fwdlab_model::campaign::value::{Period, Share};

    use super::*;

    const MS: u64 = 1_000_000;

    fn parameters() -> campaign::Churn {
        campaign::Churn {
            event: Some("ip route flush table main".into()),
            before: Period::seconds(2),
            after: Period::seconds(3),
            timeout: Period::seconds(10),
            repetitions: 1,
            ..campaign::Churn::default()
        }
    }

    /// A trial whose rate is this share of the base in every interval of 100 ms; the event is at 2
    /// s.
    fn answer(offered_pps: f64, base_pps: f64, share: impl Fn(u64) -> f64) -> Answer {
        let frames = |pps: f64| (pps / 10.0).round() as u64;
        let samples: Vec<Interval> = (0..120)
            .map(|k| Interval {
                at_ns: k * 100 * MS,
                length_ns: 100 * MS,
                intended_load_pps: offered_pps,
                frames_sent: frames(offered_pps),
                frames_received: frames(base_pps * share(k * 100)),
            })
            .collect();
        Answer {
            frames_sent: samples.iter().map(|s| s.frames_sent).sum(),
            frames_received: samples.iter().map(|s| s.frames_received).sum(),
            duration_ns: 12_000 * MS,
            reset_at_ns: Some(2000 * MS),
            samples,
            ..Answer::default()
        }
    }

    fn found(answer: &Answer) -> (Outcome, Option<Dip>) {
        let mut churn = Churn::new(FrameSize::MIN, 1e6, parameters()).unwrap();
        let question = churn.next_trial().unwrap();
        // two seconds before the event, and at most ten after it
        assert_eq!(question.duration_ns(), 12_000 * MS);
        churn.record(&question, answer);
        assert_eq!(churn.next_trial(), None);
        let outcome = churn.outcomes().remove(0);
        let Found::Churn(found) = &outcome.found else {
            panic!("{outcome:?}");
        };
        let dip = found.dips.first().cloned();
        (outcome, dip)
    }

    fn nearly_equal(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-6
    }

    /// No frames for 1.5 s from 0.3 s after the event, then half of them for a second.
    fn planted(at_ms: u64) -> f64 {
        match at_ms {
            2300..3800 => 0.0,
            3800..4800 => 0.5,
            _ => 1.0,
        }
    }

    #[test]
    fn a_planted_dip_is_found_to_the_interval() {
        for (offered, base) in [(1e6, 1e6), (2e6, 1e6)] {
            let (outcome, dip) = found(&answer(offered, base, planted));
            let dip = dip.unwrap();
            assert!(outcome.answered, "{outcome:?}");
            assert!(nearly_equal(dip.base_pps, base) && nearly_equal(dip.before_ratio, 0.0));
            assert!(nearly_equal(dip.first_impact_s.unwrap(), 0.3), "{dip:?}");
            assert!(nearly_equal(dip.regained_s.unwrap(), 2.8), "{dip:?}");
            assert!(
                nearly_equal(dip.depth, 1.0) && nearly_equal(dip.blackout_s, 1.5),
                "{dip:?}"
            );
            assert!(nearly_equal(dip.deficit_s, 2.0), "{dip:?}");
            assert_eq!(dip.deficit_frames, Some(2.0 * base));
            // in overload, lost frames are not an effect of the event
            assert_eq!(
                dip.by_loss_s.map(|s| nearly_equal(s, 2.0)),
                (offered == base).then_some(true)
            );
        }
    }

    #[test]
    fn a_planted_nothing_is_not_found() {
        // 1 % down and up is within 2 %
        let (outcome, dip) = found(&answer(
            1e6,
            0.97e6,
            |at| {
                if at % 200 == 0 { 1.0 } else { 0.99 }
            },
        ));
        let dip = dip.unwrap();
        assert_eq!((dip.first_impact_s, dip.regained_s), (None, Some(0.0)));
        assert!(nearly_equal(dip.deficit_s, 0.0) && nearly_equal(dip.depth, 0.0));
        assert!(outcome.answered && outcome.verdict == "the rate did not dip");
    }

    #[test]
    fn frames_that_were_not_sent_are_not_missing() {
        // the event stalls the tester: half of the frames are sent for a second, and all of them
        // come out
        let mut answer = answer(1e6, 1e6, |_| 1.0);
        for sample in &mut answer.samples[23..33] {
            sample.frames_sent /= 2;
            sample.frames_received /= 2;
        }
        let (outcome, dip) = found(&answer);
        let dip = dip.unwrap();
        assert_eq!((dip.first_impact_s, dip.regained_s), (None, Some(0.0)));
        assert!(
            nearly_equal(dip.deficit_s, 0.0) && nearly_equal(dip.fell_short_ratio, 0.1),
            "{dip:?}"
        );
        assert!(outcome.warnings[0].starts_with("the tester itself sent less in 10.0 %"));
        // if half of the frames sent then do not come out, a quarter of a second is missing
        for sample in &mut answer.samples[28..33] {
            sample.frames_received = 0;
        }
        let dip = found(&answer).1.unwrap();
        assert!(
            nearly_equal(dip.first_impact_s.unwrap(), 0.8)
                && nearly_equal(dip.regained_s.unwrap(), 1.3)
        );
        assert!(
            nearly_equal(dip.deficit_s, 0.25) && nearly_equal(dip.blackout_s, 0.5),
            "{dip:?}"
        );
    }

    #[test]
    fn an_interrupted_recovery_counts_from_its_last_begin() {
        let (_, dip) = found(&answer(1e6, 1e6, |at| match at {
            2000..2500 | 4000..4500 => 0.0,
            _ => 1.0,
        }));
        let dip = dip.unwrap();
        assert!(
            nearly_equal(dip.first_impact_s.unwrap(), 0.0)
                && nearly_equal(dip.regained_s.unwrap(), 2.5)
        );
        assert!(
            nearly_equal(dip.deficit_s, 1.0) && nearly_equal(dip.blackout_s, 1.0),
            "{dip:?}"
        );
    }

    #[test]
    fn recovery_starts_after_the_event() {
        // it continues for 4.4 s, with a dip at its start and one at its end, farther apart than
        // the wait
        let mut answer = answer(1e6, 1e6, |at| match at {
            2000..2500 | 6000..6500 => 0.0,
            _ => 1.0,
        });
        for (over_ms, regained, deficit) in [(6400, 4.5, 1.0), (2100, 0.5, 0.5)] {
            answer.reset_over_ns = Some(over_ms * MS);
            let dip = found(&answer).1.unwrap();
            assert!(nearly_equal(dip.regained_s.unwrap(), regained), "{dip:?}");
            assert!(nearly_equal(dip.deficit_s, deficit), "{dip:?}");
        }
    }

    #[test]
    fn an_incomplete_recovery_has_no_time() {
        let (outcome, dip) = found(&answer(1e6, 1e6, |at| if at < 2500 { 1.0 } else { 0.9 }));
        assert_eq!(dip.unwrap().regained_s, None);
        assert!(!outcome.answered && outcome.verdict.contains("1 of 1 events"));
        let (outcome, dip) = found(&answer(1e6, 0.0, |_| 0.0));
        assert!(dip.is_none() && !outcome.answered);
        assert!(outcome.verdict.contains("nothing was forwarded before"));
    }

    #[test]
    fn noise_before_the_event_is_reported() {
        let (outcome, dip) = found(&answer(1e6, 1e6, |at| {
            if at < 2000 && at % 500 == 0 {
                0.9
            } else {
                planted(at)
            }
        }));
        assert!(nearly_equal(dip.unwrap().before_ratio, 0.2));
        assert!(
            outcome.warnings[0].starts_with("20.0 % of the intervals"),
            "{outcome:?}"
        );
    }

    #[test]
    fn impossible_parameters_are_reported() {
        fn ms(ms: u64) -> Period {
            Period(Duration::from_millis(ms))
        }
        for (change, says) in [
            (
                (|p| p.repetitions = 0) as fn(&mut campaign::Churn),
                "repetitions",
            ),
            (|p| p.event = Some(" ".into()), "churn needs an event"),
            (|p| p.share = Share(1.0), "share"),
            (|p| p.sample = ms(1), "sample: at least 10 ms"),
            (|p| p.before = ms(500), "before: "),
            (|p| p.timeout = Period::seconds(2), "after: "),
        ] {
            let mut wrong = parameters();
            change(&mut wrong);
            let error = Churn::new(FrameSize::MIN, 1e6, wrong).unwrap_err();
            assert!(error.starts_with(says), "{error}");
        }
        let error = Churn::new(FrameSize::MIN, 0.0, parameters()).unwrap_err();
        assert!(error.starts_with("the load"), "{error}");
    }
}
