//! Reset: how long a DUT forwards nothing after a reset (RFC 6201, which replaces RFC 2544 §26.6).
//!
//! A load within the DUT's capacity, a reset in the middle of it, and two figures that differ if
//! the outage is interrupted: from the number of lost frames, and from the times of the last frame
//! before and the first after. The lab decides how to reset the DUT. Start with [`Reset`].

use fwdlab_model::outcome::Outcome;
use fwdlab_model::procedure::{Answer, Ending, Purpose, Question};

use super::Setup;
use super::suite::Plan;
use crate::procedure::{Procedure, Progress, check_load, spread, time};

/// Number of trials; the RFC requires one or more.
pub const REPETITIONS: u32 = 5;

/// Maximum wait for the DUT.
pub const LONGEST_NS: u64 = 900_000_000_000;

/// Duration of traffic before the reset.
const BEFORE_NS: u64 = 5_000_000_000;

/// The DUT is back if it has forwarded this share of the load...
const BACK_SHARE: f64 = 0.99;

/// ...for this time.
const BACK_NS: u64 = 5_000_000_000;

/// Interval of the counts.
const SAMPLE_NS: u64 = 100_000_000;

/// One in this number of frames may be in flight.
const ON_THEIR_WAY: u64 = 1000;

/// The state machine.
#[derive(Debug, Clone)]
pub struct Reset {
    setup: Setup,
    /// A load that the DUT forwards without loss.
    load_pps: f64,
    /// What is reset and how, as text: `OS reboot`, `forwarding process restarted`.
    what: String,
    /// Maximum wait for the DUT.
    longest_ns: u64,
    repetitions: u32,
    times_s: Vec<(f64, Option<f64>)>,
    resolution_ns: Option<u64>,
    /// Number of trials that lost frames before the reset.
    lossy_before: u32,
    progress: Progress,
}

impl Reset {
    /// Prepares the trials.
    ///
    /// # Errors
    /// No repetitions, an impossible load, no traffic before the reset.
    pub fn new(setup: Setup, load_pps: f64, plan: &Plan) -> Result<Reset, String> {
        let (longest_ns, repetitions) = (plan.reset_longest_ns, plan.reset_repetitions);
        setup.check()?;
        check_load("the load of the reset test", load_pps)?;
        if load_pps > setup.largest_pps() {
            return Err(format!(
                "a load of {load_pps} frames per second: the tester offers at most {}",
                setup.largest_pps()
            ));
        }
        if repetitions == 0 || longest_ns < BACK_NS {
            return Err(format!(
                "a reset test needs a repetition, and traffic for {} after the reset",
                time(BACK_NS)
            ));
        }
        Ok(Reset {
            progress: Progress::new(setup.frame_size),
            setup,
            load_pps,
            what: plan.reset.clone().unwrap_or_default(),
            longest_ns,
            repetitions,
            times_s: Vec::new(),
            resolution_ns: None,
            lossy_before: 0,
        })
    }
}

impl Procedure for Reset {
    fn next_trial(&mut self) -> Option<Question> {
        if self.progress.failure.is_some() || self.progress.trials >= self.repetitions {
            return None;
        }
        let reason = format!(
            "reset after {} ({}), {} of {}",
            time(BEFORE_NS),
            self.what,
            self.progress.trials + 1,
            self.repetitions
        );
        let duration = BEFORE_NS + self.longest_ns;
        Some(Question {
            sample_ns: Some(SAMPLE_NS),
            reset_at_ns: Some(BEFORE_NS),
            reset: Some(self.what.clone()),
            ending: Some(Ending::Recovered {
                share: BACK_SHARE,
                for_ns: BACK_NS,
            }),
            ..self
                .setup
                .question(self.load_pps, duration, Purpose::Measure, reason)
        })
    }

    fn record(&mut self, _: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        self.resolution_ns = self.resolution_ns.max(answer.resolution_ns);
        let before = answer
            .samples
            .iter()
            .filter(|s| s.at_ns + s.length_ns < BEFORE_NS);
        let (sent, received) = before.fold((0, 0), |(sent, received), s| {
            (sent + s.frames_sent, received + s.frames_received)
        });
        // frames are in flight when counters are read
        if sent - received.min(sent) > 1 + sent / ON_THEIR_WAY {
            self.lossy_before += 1;
        }
        // relative to the load that was really offered
        let offered_pps = answer.frames_sent as f64 / (answer.duration_ns as f64 / 1e9);
        let by_loss = answer.frames_lost() as f64 / offered_pps.max(f64::MIN_POSITIVE);
        let outage = answer.outage;
        let by_timestamp = outage
            .and_then(|outage| Some((outage.first_after_ns? - outage.last_before_ns) as f64 / 1e9));
        self.times_s.push((by_loss, by_timestamp));
        match by_timestamp {
            Some(seconds) => format!("{by_loss:.3} s by lost frames, {seconds:.3} s by timestamps"),
            None => format!("the DUT did not come back within {}", time(self.longest_ns)),
        }
    }

    fn abort(&mut self, reason: &str) {
        self.progress.failure = Some(reason.into());
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let is_done = self.progress.trials >= self.repetitions && self.progress.failure.is_none();
        let back: Vec<(f64, f64)> = self
            .times_s
            .iter()
            .filter_map(|(loss, stamp)| Some((*loss, (*stamp)?)))
            .collect();
        let gone = self.times_s.len() - back.len();
        let mut warnings = Vec::new();
        if self.lossy_before > 0 {
            warnings.push(format!(
                "{} trials lost frames before the reset: the load is more than the DUT forwards",
                self.lossy_before
            ));
        }
        let resolution_s = self.resolution_ns.map(|ns| ns as f64 / 1e9);
        let near_s = 0.01 + 2.0 * resolution_s.unwrap_or(0.0);
        let differ = back
            .iter()
            .any(|(loss, stamp)| (loss - stamp).abs() > 0.02 * stamp + near_s);
        if differ {
            warnings.push(
                "lost frames and timestamps give different times: the outage was interrupted, or other frames were lost as \
                 well".into(),
            );
        }
        let verdict = match () {
            () if !is_done => "not all repetitions were run".to_owned(),
            () if gone > 0 => format!(
                "after {gone} of {} resets the DUT did not come back within {}",
                self.times_s.len(),
                time(self.longest_ns)
            ),
            () => "measured".into(),
        };
        let of =
            |value: fn(&(f64, f64)) -> f64| spread(&back.iter().map(value).collect::<Vec<_>>());
        let answered = is_done && gone == 0;
        let compliance = self
            .setup
            .conditions
            .label("RFC 6201 reset", u64::MAX, Vec::new());
        let found = fwdlab_model::outcome::Reset {
            what: self.what.clone(),
            load_pps: self.load_pps,
            by_loss_s: of(|times| times.0),
            by_timestamp_s: of(|times| times.1),
            repetitions_s: self.times_s.clone(),
            resolution_s,
        };
        vec![Outcome {
            compliance,
            warnings,
            ..self.progress.outcome(verdict, answered, found)
        }]
    }
}
