//! Management under load: how a DUT answers at rest, at loads within its capacity and in a flood,
//! and how soon after the flood it is back to normal (docs/methodology.md, "Livelock and
//! management").
//!
//! A first trial measures what the DUT forwards in the flood, which is 100 % for the loads between;
//! then all loads follow each other in one trial, and the same requests continue throughout. The
//! caller sends them over a port of its choice. Start with [`Responsive`].

use fwdlab_model::campaign;
use fwdlab_model::management::{
    Asked, AtLoad, Fate, LoadStep, Management, Request, Requests, Responsiveness, Sent,
};
use fwdlab_model::outcome::Outcome;
use fwdlab_model::procedure::{Answer, Purpose, Question, Stretch};
use fwdlab_model::units::FrameSize;

use crate::procedure::{Procedure, Progress, check_load, percent, spread, time};
use crate::validity::is_lower_bound;

/// Duration of the flood that measures the DUT's forwarding rate in it.
const FIRST_NS: u64 = 2_000_000_000;

/// Length of the intervals in which frames are counted.
const SAMPLE_NS: u64 = 100_000_000;

/// Frames this close to a change of the load are excluded from its rates, because the time of the
/// change relative to the readings is not known more precisely.
const GUARD_NS: u64 = 200_000_000;

/// A step with fewer requests of a kind has no result.
const FEWEST: u64 = 10;

/// The DUT is back to normal after this many consecutive good answers (fewer if the time ends
/// before), none slower than this multiple of the slowest at rest.
const IN_A_ROW: usize = 5;
const LEAST_IN_A_ROW: usize = 2;
const SLOWER: u64 = 2;

/// Lateness of a request, as a share of the time between two, from which on it is reported.
const LATE: f64 = 0.5;

/// Maximum length of a request's name.
const LETTERS: usize = 40;

/// The state machine.
#[derive(Debug, Clone)]
pub struct Responsive {
    flood_pps: f64,
    parameters: campaign::Management,
    carries_pps: Option<f64>,
    answer: Option<Answer>,
    progress: Progress,
}

impl Responsive {
    /// Prepares the trials.
    ///
    /// # Errors
    /// No requests, or unknown ones; an impossible load; times too short to count requests.
    pub fn new(
        frame_size: FrameSize,
        flood_pps: f64,
        parameters: campaign::Management,
    ) -> Result<Responsive, String> {
        let p = &parameters;
        check_load("the flood", flood_pps)?;
        if p.requests.is_empty() {
            return Err("requests: the list is empty; give at least one, such as echo".into());
        }
        for (n, typed) in p.requests.iter().enumerate() {
            Request::parse(typed).map_err(|reason| format!("requests: {reason}"))?;
            if p.requests[..n].contains(typed) {
                return Err(format!("requests: `{typed}` is listed twice"));
            }
        }
        if let Some(address) = &p.address
            && address.parse::<std::net::Ipv4Addr>().is_err()
        {
            return Err(format!(
                "address: `{address}` is not an IPv4 address, such as 192.0.2.1"
            ));
        }
        let least = FEWEST * p.every.ns();
        let least = least.max(2 * GUARD_NS + 2 * SAMPLE_NS);
        if p.every.ns() == 0 || p.duration.ns() < least || p.after.ns() < least {
            return Err(format!(
                "for, after: each must have time for at least {FEWEST} requests of a kind: {}",
                time(least)
            ));
        }
        if p.timeout.ns() == 0 || p.timeout.ns() > p.duration.ns() {
            return Err("timeout: it must be above 0 and no longer than `for`".into());
        }
        Ok(Responsive {
            flood_pps,
            parameters,
            carries_pps: None,
            answer: None,
            progress: Progress::new(frame_size),
        })
    }

    /// Returns the loads in chronological order, with their names, without the rest after the
    /// flood.
    fn loads(&self) -> Vec<(String, f64)> {
        let p = &self.parameters;
        let carries = self.carries_pps.unwrap_or(0.0);
        let between = p.at.iter().map(|at| at.0 / 100.0);
        let between = between.map(|share| (format!("{} %", percent(share)), share * carries));
        let rest = ("0 %".to_owned(), 0.0);
        let flood = ("flood".to_owned(), self.flood_pps);
        std::iter::once(rest)
            .chain(between)
            .chain([flood])
            .collect()
    }

    fn steps(&self, answer: &Answer) -> Vec<LoadStep> {
        let each_ns = self.parameters.duration.ns();
        let steps = self.loads().into_iter().enumerate();
        steps
            .map(|(n, (name, pps))| {
                let from_ns = n as u64 * each_ns;
                let own = (answer.samples.iter()).filter(|s| {
                    s.at_ns >= from_ns + GUARD_NS
                        && s.at_ns + s.length_ns + GUARD_NS <= from_ns + each_ns
                });
                let (ns, sent, received) = own.fold((0, 0, 0), |(ns, sent, received), one| {
                    (
                        ns + one.length_ns,
                        sent + one.frames_sent,
                        received + one.frames_received,
                    )
                });
                let per_second = |frames: u64| frames as f64 / (ns.max(1) as f64 / 1e9);
                LoadStep {
                    name,
                    intended_load_pps: pps,
                    offered_load_pps: per_second(sent),
                    forwarding_rate_pps: per_second(received),
                }
            })
            .collect()
    }

    fn responsiveness(&self, requested: &Asked) -> Responsiveness {
        let each_ns = self.parameters.duration.ns();
        let loads = self.loads().len() as u64;
        let at = |n: u64| at_load(&requested.requests, n * each_ns, (n + 1) * each_ns);
        Responsiveness {
            request: short(&requested.request),
            at: (0..loads).map(at).collect(),
            recovery_s: recovery(&requested.requests, each_ns, loads * each_ns)
                .map(|ns| ns as f64 / 1e9),
            reason: requested.reason.clone(),
            late_s: requested.late_ns as f64 / 1e9,
        }
    }

    fn warnings(&self, steps: &[LoadStep], found: &[Responsiveness]) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(flood) = steps.last()
            && is_lower_bound(flood.offered_load_pps, flood.forwarding_rate_pps)
        {
            warnings.push(
                "this was not a flood: less than 1.1 times the output was offered, and the tester is at its limit".into(),
            );
        }
        let every_s = self.parameters.every.ns() as f64 / 1e9;
        let late = found.iter().map(|one| one.late_s).fold(0.0, f64::max);
        if late > LATE * every_s {
            warnings.push(format!(
                "the tester itself sent a request up to {} late: its CPUs were busy, and round trips have that, too",
                rounded(late)
            ));
        }
        for one in found {
            let fewest = one.at.iter().map(|at| at.asked).min().unwrap_or(0);
            if fewest < FEWEST {
                warnings.push(format!(
                    "`{}` was sent only {fewest} times at one of the loads, because each took long: make for and after longer",
                    one.request
                ));
            }
            let problem: u64 = one.at.iter().map(|at| at.wrong + at.lost).sum();
            if let Some(reason) = one.reason.as_ref().filter(|_| problem > 0) {
                warnings.push(format!("`{}` without a good answer: {reason}", one.request));
            }
        }
        warnings
    }
}

/// Summarises requests that were sent between two times.
fn at_load(requests: &[Sent], from_ns: u64, until_ns: u64) -> AtLoad {
    let own: Vec<&Sent> = requests
        .iter()
        .filter(|one| (from_ns..until_ns).contains(&one.at_ns))
        .collect();
    let count = |fate: Fate| own.iter().filter(|one| one.fate == fate).count() as u64;
    let good = || own.iter().filter(|one| one.fate == Fate::Answered);
    let times: Vec<f64> = good().map(|one| one.took_ns as f64 / 1e9).collect();
    // from answer to answer; requests sent before this load do not count
    let (mut last_ns, mut silent_ns) = (own.first().map_or(from_ns, |one| one.at_ns), 0);
    for one in good() {
        let came_ns = one.at_ns + one.took_ns;
        silent_ns = silent_ns.max(came_ns.saturating_sub(last_ns));
        last_ns = came_ns;
    }
    let ended_ns = own.last().map_or(until_ns, |one| one.at_ns + one.took_ns);
    silent_ns = silent_ns.max(ended_ns.saturating_sub(last_ns));
    AtLoad {
        asked: own.len() as u64,
        answered: count(Fate::Answered),
        wrong: count(Fate::Wrong),
        lost: count(Fate::Lost),
        round_trip_s: spread(&times),
        silent_s: silent_ns as f64 / 1e9,
    }
}

/// Returns how long after `end_ns` the first of several consecutive answers came, all of which are
/// good and not much slower than those at rest, which were requested before `rest_ns`.
fn recovery(requests: &[Sent], rest_ns: u64, end_ns: u64) -> Option<u64> {
    let at_rest = requests
        .iter()
        .filter(|one| one.at_ns < rest_ns && one.fate == Fate::Answered);
    let slowest = at_rest.map(|one| one.took_ns).max()?;
    // requests without an answer at the end of the flood count for the time after it
    let after: Vec<&Sent> = requests
        .iter()
        .filter(|one| one.at_ns + one.took_ns > end_ns)
        .collect();
    let is_good = |one: &&Sent| one.fate == Fate::Answered && one.took_ns <= SLOWER * slowest;
    let first = (0..after.len()).position(|from| {
        let row = &after[from..after.len().min(from + IN_A_ROW)];
        row.len() >= LEAST_IN_A_ROW && row.iter().all(is_good)
    })?;
    match first {
        0 => Some(0),
        n => Some((after[n].at_ns + after[n].took_ns).saturating_sub(end_ns)),
    }
}

/// Shortens a request for a table: puts a script on one line, and cuts a long one.
fn short(typed: &str) -> String {
    let line = typed.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.chars().count() {
        ..=LETTERS => line,
        _ => line
            .chars()
            .take(LETTERS - 3)
            .chain("...".chars())
            .collect(),
    }
}

/// Formats a time: in microseconds below a millisecond, in milliseconds above.
fn rounded(s: f64) -> String {
    let unit = if s < 1e-3 { 1e3 } else { 1e6 };
    time(((1e9 * s / unit).round() * unit) as u64)
}

/// `12 of 100`.
fn missing(at: &AtLoad) -> String {
    format!("{} of {}", at.wrong + at.lost, at.asked)
}

/// Returns the verdict as a sentence.
fn verdict(found: &[Responsiveness], after_ns: u64) -> String {
    let flood = |one: &Responsiveness| one.at.last().cloned().unwrap_or_default();
    let silent: Vec<String> = found
        .iter()
        .filter(|one| flood(one).missing_ratio() > 0.0)
        .map(|one| format!("`{}` {}", one.request, missing(&flood(one))))
        .collect();
    let slowest = found
        .iter()
        .filter_map(|one| Some((flood(one).round_trip_s?.max, one)))
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    let slowest = slowest.map_or(String::new(), |(s, one)| {
        format!("the slowest answer took {} (`{}`)", rounded(s), one.request)
    });
    let answers = match &silent[..] {
        [] => "in the flood every request was answered".to_owned(),
        some => format!("in the flood, without an answer: {}", some.join(", ")),
    };
    let never: Vec<String> = found
        .iter()
        .filter(|one| one.recovery_s.is_none())
        .map(|one| format!("`{}`", one.request))
        .collect();
    let recovery = match &never[..] {
        [] => {
            let last = found
                .iter()
                .filter_map(|one| one.recovery_s)
                .fold(0.0, f64::max);
            match last > 0.0 {
                true => format!("recovered {} after it", rounded(last)),
                false => "recovered as soon as it ended".into(),
            }
        }
        some => format!(
            "{} not recovered within {} after it",
            some.join(", "),
            time(after_ns)
        ),
    };
    let parts = [answers, slowest, recovery];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("; ")
}

impl Procedure for Responsive {
    fn next_trial(&mut self) -> Option<Question> {
        let p = &self.parameters;
        if self.progress.failure.is_some() || self.answer.is_some() {
            return None;
        }
        if self.carries_pps.is_none() {
            let reason = "what the DUT forwards in the flood, which is 100 %";
            return Some(Question {
                // an overload without the full load is still an overload
                needs_load: false,
                ..Question::constant(
                    self.progress.frame_size,
                    self.flood_pps,
                    FIRST_NS,
                    Purpose::Search,
                    reason,
                )
            });
        }
        let loads = self.loads().into_iter();
        let steps = loads.map(|(_, pps)| Stretch::constant(pps, p.duration.ns()));
        let after = Stretch::constant(0.0, p.after.ns());
        let reason = format!(
            "{} at rest, under load, in the flood and after it",
            p.requests.join(", ")
        );
        Some(Question {
            stretches: steps.chain([after]).collect(),
            sample_ns: Some(SAMPLE_NS),
            requests: Some(Requests {
                requests: p.requests.clone(),
                address: p.address.clone(),
                every_ns: p.every.ns(),
                timeout_ns: p.timeout.ns(),
            }),
            needs_load: false,
            ..Question::constant(
                self.progress.frame_size,
                self.flood_pps,
                1,
                Purpose::Measure,
                reason,
            )
        })
    }

    fn record(&mut self, question: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        if question.requests.is_none() {
            let pps = answer.forwarding_rate_pps();
            if pps <= 0.0 {
                self.progress.failure = Some("nothing of the flood came back".into());
            }
            self.carries_pps = Some(pps);
            return format!("{pps:.0} frames/s of the flood came back");
        }
        self.answer = Some(answer.clone());
        let found: Vec<Responsiveness> = answer
            .requests
            .iter()
            .map(|requested| self.responsiveness(requested))
            .collect();
        verdict(&found, self.parameters.after.ns())
    }

    fn abort(&mut self, reason: &str) {
        self.progress.failure = Some(reason.into());
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let p = &self.parameters;
        let requested = self
            .answer
            .as_ref()
            .map_or(&[][..], |answer| &answer.requests);
        let found: Vec<Responsiveness> = requested
            .iter()
            .map(|one| self.responsiveness(one))
            .collect();
        let steps = self
            .answer
            .as_ref()
            .map_or(Vec::new(), |answer| self.steps(answer));
        // a request without an answer even at rest is no evidence about a flood
        let mute: Vec<String> = found
            .iter()
            .filter(|one| one.at.first().is_some_and(|rest| rest.answered == 0))
            .map(|one| match &one.reason {
                Some(cause) => format!("`{}` ({cause})", one.request),
                None => format!("`{}`", one.request),
            })
            .collect();
        let is_done = self.answer.is_some() && self.progress.failure.is_none();
        let said = match () {
            () if !is_done => "not all loads were offered".to_owned(),
            () if found.is_empty() => "no request was made".into(),
            () if !mute.is_empty() => format!("no answer even at rest: {}", mute.join(", ")),
            () => verdict(&found, p.after.ns()),
        };
        let answered = is_done && mute.is_empty() && !found.is_empty();
        let warnings = self.warnings(&steps, &found);
        let found = Management {
            carries_pps: self.carries_pps,
            every_s: p.every.ns() as f64 / 1e9,
            timeout_s: p.timeout.ns() as f64 / 1e9,
            loads: steps,
            requests: found,
        };
        vec![Outcome {
            warnings,
            ..self.progress.outcome(said, answered, found)
        }]
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::outcome::Found;
    use std::time::Duration;

    use fwdlab_model::campaign::value::Period;
    use fwdlab_model::procedure::Interval;

    use super::*;

    const MS: u64 = 1_000_000;

    fn parameters() -> campaign::Management {
        campaign::Management {
            every: Period(Duration::from_millis(100)),
            timeout: Period::seconds(1),
            duration: Period::seconds(10),
            after: Period::seconds(10),
            ..campaign::Management::default()
        }
    }

    /// A DUT that forwards a million frames, and a request every 100 ms; `said` returns its result
    /// for a time in seconds.
    fn measured(said: impl Fn(f64) -> (u64, Fate)) -> Outcome {
        let mut machine = Responsive::new(FrameSize::MIN, 2e6, parameters()).unwrap();
        let first = machine.next_trial().unwrap();
        assert!(first.requests.is_none() && first.peak_pps() == 2e6);
        let flood = Answer {
            frames_received: 2_000_000,
            duration_ns: 2_000 * MS,
            ..Answer::default()
        };
        machine.record(&first, &flood);
        let question = machine.next_trial().unwrap();
        let loads: Vec<f64> = question.stretches.iter().map(|one| one.from_pps).collect();
        assert_eq!(loads, [0.0, 5e5, 1e6, 2e6, 0.0]);
        let samples = (0..500).map(|k| {
            let pps = question.load_at(k * 100 * MS);
            Interval {
                at_ns: k * 100 * MS,
                length_ns: 100 * MS,
                intended_load_pps: pps,
                frames_sent: (pps / 10.0) as u64,
                frames_received: (pps.min(1e6) / 10.0) as u64,
            }
        });
        let sent = (0..500).map(|k| {
            let (took_ns, fate) = said(k as f64 / 10.0);
            Sent {
                at_ns: k * 100 * MS,
                took_ns,
                fate,
            }
        });
        let answer = Answer {
            samples: samples.collect(),
            requests: vec![Asked {
                request: "echo".into(),
                requests: sent.collect(),
                reason: Some("no answer".into()),
                late_ns: 0,
            }],
            ..Answer::default()
        };
        machine.record(&question, &answer);
        assert!(machine.next_trial().is_none());
        machine.outcomes().pop().unwrap()
    }

    fn found(outcome: &Outcome) -> (&Management, &Responsiveness) {
        let Found::Management(found) = &outcome.found else {
            panic!()
        };
        (found, &found.requests[0])
    }

    #[test]
    fn no_difference_is_found_without_one() {
        let outcome = measured(|_| (MS, Fate::Answered));
        let (whole, echo) = found(&outcome);
        let names: Vec<&str> = whole.loads.iter().map(|load| load.name.as_str()).collect();
        assert_eq!(names, ["0 %", "50 %", "100 %", "flood"]);
        let rates: Vec<f64> = whole
            .loads
            .iter()
            .map(|load| load.forwarding_rate_pps)
            .collect();
        assert_eq!(rates, [0.0, 5e5, 1e6, 1e6]);
        for at in &echo.at {
            assert_eq!((at.asked, at.answered, at.wrong, at.lost), (100, 100, 0, 0));
            assert_eq!(at.silent_s, 0.1);
        }
        assert_eq!(echo.recovery_s, Some(0.0));
        assert_eq!(
            outcome.verdict,
            "in the flood every request was answered; the slowest answer took 1 ms (`echo`); recovered as soon as it ended"
        );
        assert!(
            outcome.answered && outcome.warnings.is_empty(),
            "{outcome:?}"
        );
    }

    #[test]
    fn planted_differences_are_found_with_their_size() {
        // in the flood every fourth is lost and the others take 30 ms; after 40 s this continues
        // for 2.05 s
        let outcome = measured(|s| match (s * 10.0).round() as u64 {
            k if (300..420).contains(&k) && k % 4 == 0 => (1000 * MS, Fate::Lost),
            k if (300..=420).contains(&k) => (30 * MS, Fate::Answered),
            _ => (MS, Fate::Answered),
        });
        let (_, echo) = found(&outcome);
        let flood = echo.at.last().unwrap();
        assert_eq!((flood.asked, flood.answered, flood.lost), (100, 75, 25));
        assert_eq!(flood.round_trip_s.unwrap().median, 0.03);
        assert!(echo.at[..3].iter().all(|at| at.missing_ratio() == 0.0));
        // the first fast one is sent 2.1 s after the end
        assert!((echo.recovery_s.unwrap() - 2.101).abs() < 1e-9, "{echo:?}");
        let figures: Vec<(String, f64)> = (outcome.figures().into_iter())
            .map(|figure| (figure.name, figure.value))
            .collect();
        assert_eq!(
            figures,
            [
                ("echo in the flood, without an answer".into(), 25.0),
                ("echo in the flood, round trip".into(), 0.03)
            ]
        );
        assert_eq!(
            outcome.verdict,
            "in the flood, without an answer: `echo` 25 of 100; the slowest answer took 30 ms (`echo`); recovered 2.101 s after it"
        );
        assert_eq!(
            outcome.warnings,
            ["`echo` without a good answer: no answer"]
        );
    }

    #[test]
    fn unanswered_requests_are_no_result_and_lost_ones_are_reported() {
        let outcome = measured(|_| (MS, Fate::Wrong));
        assert!(!outcome.answered);
        assert_eq!(
            outcome.verdict,
            "no answer even at rest: `echo` (no answer)"
        );
        let outcome = measured(|s| {
            (
                MS,
                if s < 30.0 {
                    Fate::Answered
                } else {
                    Fate::Wrong
                },
            )
        });
        assert!(outcome.answered);
        assert!(
            outcome
                .verdict
                .ends_with("`echo` not recovered within 10 s after it"),
            "{}",
            outcome.verdict
        );
        assert_eq!(found(&outcome).1.at.last().unwrap().silent_s, 9.901);
    }

    #[test]
    fn names_and_times_are_short() {
        assert_eq!(short(" command:\n  a=1\n b=2 "), "command: a=1 b=2");
        let long = short(&"x".repeat(100));
        assert!(long.len() == LETTERS && long.ends_with("x..."), "{long}");
        let times = [1.088_255_573, 0.030_4, 0.000_117_3].map(rounded);
        assert_eq!(times, ["1.088 s", "30 ms", "117 µs"]);
    }

    #[test]
    fn errors_are_reported() {
        let requests = |list: &[&str]| campaign::Management {
            requests: list.iter().map(|one| (*one).to_owned()).collect(),
            ..parameters()
        };
        let by_name = campaign::Management {
            address: Some("router".into()),
            ..parameters()
        };
        let short = campaign::Management {
            duration: Period(Duration::from_millis(900)),
            ..parameters()
        };
        for (bad, words) in [
            (requests(&[]), "the list is empty"),
            (
                requests(&["ping"]),
                "requests: `ping` is not a management request",
            ),
            (requests(&["echo", "echo"]), "twice"),
            (by_name, "is not an IPv4 address"),
            (short, "at least 10 requests of a kind: 1 s"),
        ] {
            let error = Responsive::new(FrameSize::MIN, 2e6, bad).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
