//! Latency at the throughput and below (RFC 2544 §26.2, RFC 8219 §7.2; RFC 1242 §3.8).
//!
//! RFC 2544 tags one frame in a trial of two minutes and takes the mean of twenty trials. RFC 8219
//! tags 500 or more in the second minute and takes median and 99.9th percentile of each trial.
//! Percentiles of trials are never averaged: the report has their median and range. Start with
//! [`Latency`].

use fwdlab_model::outcome::{LatencyMode, LatencyPoint, Outcome};
use fwdlab_model::procedure::{Answer, Delays, Purpose, Question, Tagging};

use super::Setup;
use super::suite::Plan;
use crate::procedure::{
    Procedure, Progress, check_duration, check_load, describe_stalls, spread, time,
};

/// Number of repetitions in both RFCs.
pub const REPETITIONS: u32 = 20;

/// Number of tagged frames per trial in RFC 8219.
pub const TAGGED: u32 = 500;

/// Duration of a trial.
pub const TRIAL_NS: u64 = 120_000_000_000;

/// Time of the first tagged frame.
pub const TAG_FROM_NS: u64 = 60_000_000_000;

/// The state machine.
#[derive(Debug, Clone)]
pub struct Latency {
    setup: Setup,
    /// The throughput of this size; 0 if none was found.
    throughput_pps: f64,
    plan: Plan,
    /// Time of the first tagged frame.
    tag_from_ns: u64,
    points: Vec<LatencyPoint>,
    /// Points without a figure, because the generator did not reach their loads.
    unreached: Vec<usize>,
    progress: Progress,
}

impl Latency {
    /// Prepares the trials.
    ///
    /// # Errors
    /// There are no loads or repetitions, a load is impossible, or tagging begins after the end.
    pub fn new(setup: Setup, throughput_pps: f64, plan: &Plan) -> Result<Latency, String> {
        let tag_from_ns = TAG_FROM_NS.min(plan.latency_trial_ns / 2);
        setup.check()?;
        if plan.latency_percents.is_empty() || plan.latency_repetitions == 0 {
            return Err("latency needs at least one load and one repetition".into());
        }
        if tag_from_ns >= plan.latency_trial_ns
            || (plan.latency_mode == LatencyMode::Rfc8219 && plan.tagged == 0)
        {
            return Err(format!(
                "no frame is tagged: tagging starts at {} in a trial of {}",
                time(tag_from_ns),
                time(plan.latency_trial_ns)
            ));
        }
        for percent in &plan.latency_percents {
            if !(*percent > 0.0 && *percent <= 100.0) {
                return Err(format!(
                    "a load of {percent} % of the throughput: it must be above 0 and at most 100 %"
                ));
            }
            if throughput_pps > 0.0 {
                let load = throughput_pps * percent / 100.0;
                check_load("the throughput", throughput_pps)?;
                check_duration("a trial", plan.latency_trial_ns - tag_from_ns, load)?;
            }
        }
        let points = plan.latency_percents.iter().map(|&percent| LatencyPoint {
            percent,
            load_pps: throughput_pps * percent / 100.0,
            latency_ns: None,
            typical_ns: None,
            worst_case_ns: None,
            repetitions: Vec::new(),
            lossy: 0,
        });
        Ok(Latency {
            points: points.collect(),
            unreached: Vec::new(),
            progress: Progress::new(setup.frame_size),
            setup,
            throughput_pps,
            plan: plan.clone(),
            tag_from_ns,
        })
    }

    /// Returns the first load with missing repetitions.
    fn current(&self) -> Option<usize> {
        let requested = self.plan.latency_repetitions as usize;
        let ended = self.throughput_pps <= 0.0 || self.progress.failure.is_some();
        let mut points = self.points.iter().enumerate();
        points
            .position(|(n, point)| {
                point.repetitions.len() < requested && !self.unreached.contains(&n)
            })
            .filter(|_| !ended)
    }
}

impl Procedure for Latency {
    fn next_trial(&mut self) -> Option<Question> {
        let p = &self.plan;
        let point = &self.points[self.current()?];
        let reason = format!(
            "latency at {} % of the throughput, {} of {}",
            point.percent,
            point.repetitions.len() + 1,
            p.latency_repetitions
        );
        let tagging = match p.latency_mode {
            LatencyMode::Rfc2544 => Tagging {
                from_ns: self.tag_from_ns,
                until_ns: self.tag_from_ns,
                frames: 1,
            },
            LatencyMode::Rfc8219 => Tagging {
                from_ns: self.tag_from_ns,
                until_ns: p.latency_trial_ns,
                frames: p.tagged,
            },
        };
        Some(Question {
            tagging: Some(tagging),
            ..self
                .setup
                .question(point.load_pps, p.latency_trial_ns, Purpose::Measure, reason)
        })
    }

    fn record(&mut self, _: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        let Some(current) = self.current() else {
            return String::new();
        };
        let Some(delays) = answer.delays else {
            self.progress.failure = Some("none of the tagged frames came back".into());
            return "none of the tagged frames came back".into();
        };
        let point = &mut self.points[current];
        point.repetitions.push(delays);
        let is_lossy = answer.frames_lost() != 0;
        point.lossy += u32::from(is_lossy);
        let of = |value: fn(&Delays) -> f64| {
            spread(&point.repetitions.iter().map(value).collect::<Vec<_>>())
        };
        match self.plan.latency_mode {
            LatencyMode::Rfc2544 => point.latency_ns = of(|d| d.mean_ns),
            LatencyMode::Rfc8219 => {
                (point.typical_ns, point.worst_case_ns) =
                    (of(|d| d.p50_ns as f64), of(|d| d.worst_case_ns as f64));
            }
        }
        let lost = if is_lossy {
            "; frames were lost, so this is overload"
        } else {
            ""
        };
        match self.plan.latency_mode {
            LatencyMode::Rfc2544 if delays.frames > 1 => format!(
                "the mean of all {} frames is {:.0} ns{lost}",
                delays.frames, delays.mean_ns
            ),
            LatencyMode::Rfc2544 => format!("the tagged frame took {:.0} ns{lost}", delays.mean_ns),
            LatencyMode::Rfc8219 => format!(
                "typical {} ns, worst case {} ns of {} frames{lost}",
                delays.p50_ns, delays.worst_case_ns, delays.frames
            ),
        }
    }

    fn abort(&mut self, reason: &str) {
        self.progress.failure = Some(reason.into());
    }

    /// This load has no latency; lower ones may have one.
    fn load_not_reached(&mut self, _: &Question, _: &Answer, _: &str) {
        if let Some(current) = self.current() {
            self.unreached.push(current);
            let point = &mut self.points[current];
            *point = LatencyPoint {
                latency_ns: None,
                typical_ns: None,
                worst_case_ns: None,
                repetitions: Vec::new(),
                lossy: 0,
                ..*point
            };
        }
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let p = &self.plan;
        let is_done = self.current().is_none() && self.progress.failure.is_none();
        let applies = self.throughput_pps > 0.0;
        let lossy: u32 = self.points.iter().map(|point| point.lossy).sum();
        let mut warnings = Vec::new();
        if lossy > 0 {
            warnings.push(format!(
                "{lossy} of the trials lost frames: their latencies are those of a full buffer, not of the DUT"
            ));
        }
        let timed = || self.points.iter().flat_map(|point| &point.repetitions);
        for &unreached in &self.unreached {
            warnings.push(format!(
                "no latency at {} % of the throughput: the generator did not reach the load",
                self.points[unreached].percent
            ));
        }
        warnings.extend(describe_stalls(timed()));
        let fewest = timed().min_by_key(|delays| delays.frames);
        if let (LatencyMode::Rfc8219, Some(delays)) = (p.latency_mode, fewest)
            && delays.supported_p999_ns().is_none()
        {
            warnings.push(format!(
                "the worst case of {} frames is nearly their maximum: 99.9 % needs 10000",
                delays.frames
            ));
        }
        let mut further = Vec::new();
        let requested = match p.latency_mode {
            LatencyMode::Rfc2544 => 1,
            LatencyMode::Rfc8219 => p.tagged,
        };
        let all_were_timed = timed().any(|delays| delays.frames > u64::from(requested));
        if all_were_timed {
            further.push(match p.latency_mode {
                LatencyMode::Rfc2544 => {
                    "the mean of all frames of a trial instead of one tagged frame".to_owned()
                }
                LatencyMode::Rfc8219 => format!(
                    "all frames of a trial timed, from its start, instead of at least {TAGGED} tagged ones from 60 s on"
                ),
            });
        }
        if p.latency_repetitions < REPETITIONS {
            further.push(format!(
                "{} repetitions instead of 20",
                p.latency_repetitions
            ));
        }
        if p.latency_trial_ns < TRIAL_NS {
            further.push(format!(
                "trials of {} instead of 120 s",
                time(p.latency_trial_ns)
            ));
        }
        if self.tag_from_ns < TAG_FROM_NS && !all_were_timed {
            further.push(format!(
                "tagged from {} instead of 60 s on",
                time(self.tag_from_ns)
            ));
        }
        let standard = match p.latency_mode {
            LatencyMode::Rfc2544 => "RFC 2544 §26.2 latency",
            LatencyMode::Rfc8219 => {
                let frames = fewest.map_or(u64::from(p.tagged), |delays| delays.frames);
                if frames < u64::from(TAGGED) {
                    further.push(format!("{frames} timed frames instead of 500"));
                }
                "RFC 8219 §7.2 latency"
            }
        };
        let verdict = match (applies, is_done) {
            (false, _) => "not applicable: no throughput was found at which to measure it",
            _ if self.unreached.len() == self.points.len() => {
                "the generator reached none of the loads"
            }
            (true, false) => "not all repetitions were run",
            (true, true) if all_were_timed => "measured, with the latencies of all frames",
            (true, true) => "measured",
        };
        let answered = applies && is_done && self.unreached.len() < self.points.len();
        let found = fwdlab_model::outcome::Latency {
            mode: p.latency_mode,
            definition: match self.setup.conditions.simulated {
                true => "from when a frame is sent to when it is received",
                false => "from when a frame was due to leave to when it arrived at the tester",
            }
            .into(),
            throughput_pps: self.throughput_pps,
            points: self.points.clone(),
        };
        vec![Outcome {
            not_applicable: !applies && self.progress.failure.is_none(),
            // durations are judged here: they differ from those of other procedures
            compliance: self.setup.conditions.label(standard, u64::MAX, further),
            warnings,
            ..self.progress.outcome(verdict, answered, found)
        }]
    }
}
