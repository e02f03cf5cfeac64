//! The course of one procedure on one device: asks the procedure's machine for the next trial, has
//! the device make it, and stores and reports everything.
//!
//! Used by runs of one procedure, and for every test case of a campaign. It does not know how a
//! trial is made. Start with [`ProcedureRun::follow`].

use std::time::{Duration, Instant, SystemTime};

use fwdlab_measure::conservation::{balance, objections};
use fwdlab_measure::gate::{Gate, judge_trial};
use fwdlab_measure::machine::{Asked, Limit, make};
use fwdlab_measure::procedure::Session;
use fwdlab_measure::remaining::{Capacities, RemainingWork, Tally, ahead};
use fwdlab_measure::validity;
use fwdlab_model::campaign::{Every, Hooks, When};
use fwdlab_model::event::EventKind;
use fwdlab_model::outcome::Outcome;
use fwdlab_model::procedure::{Asked as Made, Ending, Question, Stretch, Waits};
use fwdlab_model::result::{StallPolicy, TrialRecord, Validity};
use fwdlab_model::trial::Stream;
use fwdlab_model::units::counted;
use fwdlab_model::variant::Variant;

use super::conduct::Work;
use super::device::{self, Device};
use super::hooks::{self, During, Place, run_hooks_or_fail};
use super::traffic::Traffic;
use super::trial::record;
use super::{Control, Measured, Run, timestamp};
use crate::dut::daemons::describe_ended;
use crate::error::LabError;

/// A procedure in progress on a device.
pub(super) struct ProcedureRun<'a> {
    /// One per frame size.
    pub streams: &'a [Stream],
    /// The series.
    pub traffic: &'a Traffic,
    /// Name of the procedure in records.
    pub procedure: &'a str,
    pub asked: &'a Asked,
    pub limits: Vec<Limit>,
    /// Test case and iteration, in a campaign.
    pub case: Option<(&'a str, u32)>,
    /// What is known about the DUT's capacity before the first trial.
    pub capacities: Capacities,
    /// How often the sender reached the largest loads before the first trial.
    pub held: Tally,
    /// The turn that this course is part of.
    pub work: &'a Work,
    /// Planned trials of this course, and of the whole run.
    pub trials: (u32, u32),
    pub gate: Option<&'a Gate>,
    /// User commands before, during and after trials.
    pub hooks: &'a Hooks,
}

/// Progress of a course.
struct Pace {
    capacities: Capacities,
    /// Number of trials so far.
    made: u32,
    /// These trials, and the looks before them.
    attempts: Tally,
    /// Total duration of all trials.
    spent: Duration,
    /// Total overhead of the trials, beyond their planned durations.
    beyond: Duration,
    /// True after a correction of the planned time has been reported.
    corrected: bool,
    /// The last estimate of the remaining work.
    left: Option<RemainingEstimate>,
}

/// Estimate of the remaining work, when it was made, and how long it took to compute: some
/// procedures fit a model to every answer.
#[derive(Clone, Copy)]
struct RemainingEstimate {
    trials: u32,
    time: Duration,
    found: Instant,
    cost: Duration,
}

/// An estimate is renewed after this multiple of its own cost, so that it does not keep the DUT
/// waiting.
const SELDOM: u32 = 100;

/// Shares of the DUT's capacity at which losses are checked in advance, the duration of each check,
/// and the shortest search that is worth them.
const LOOKED_AHEAD_AT: [f64; 3] = [0.5, 0.25, 0.125];
const LOOKED_AHEAD_NS: u64 = 250_000_000;
const LOOKED_AHEAD_FROM: Duration = Duration::from_secs(15);

/// Result of a course.
pub(super) struct Followed {
    /// The failure, if any.
    pub result: Result<(), LabError>,
    /// Outcomes found before it.
    pub outcomes: Vec<Outcome>,
}

/// Returns an outcome with its series, and with the reasons why that deviates from a standard.
pub(super) fn with_series(mut outcome: Outcome, variant: &Variant) -> Outcome {
    if !outcome.compliance.standard.is_empty() {
        outcome.compliance.shortened.extend(variant.deviations());
    }
    outcome.variant = variant.clone();
    outcome
}

/// Returns a message about invalid trials.
pub(super) fn invalid(trials: &[TrialRecord]) -> Option<String> {
    let all = trials.len();
    let bad = trials.iter().map(|trial| &trial.validity);
    let bad = bad.filter(|validity| !validity.is_valid() && !validity.is_cut_off());
    let invalid = bad.count();
    (invalid > 0)
        .then(|| format!("{invalid} of {all} trials were invalid: repeated, kept, not used"))
}

impl Pace {
    fn new(capacities: Capacities, held: Tally, corrected: bool) -> Pace {
        Pace {
            capacities,
            made: 0,
            attempts: held,
            spent: Duration::ZERO,
            beyond: Duration::ZERO,
            corrected,
            left: None,
        }
    }

    fn made(&mut self, question: &Question, made: &device::Made, is_valid: bool) {
        self.made += 1;
        self.spent += made.took;
        let own = Duration::from_nanos(made.answer.duration_ns + question.waits.total_ns());
        self.beyond += made.took.saturating_sub(own);
        self.attempts += Tally {
            made: 1,
            valid: u32::from(is_valid),
        };
        if is_valid {
            self.capacities.record_trial(question, &made.answer);
        }
    }

    /// Returns the time of the remaining work.
    fn time(&self, lookahead: RemainingWork) -> Duration {
        let beyond = (self.beyond + device::OVERHEAD) / (self.made + 1);
        (Duration::from_nanos(lookahead.ns) + beyond * lookahead.trials)
            .mul_f64(self.attempts.per_trial())
    }
}

impl ProcedureRun<'_> {
    /// Makes trial after trial, in one series after another. Outcomes are reported even if a trial
    /// failed.
    ///
    /// # Errors
    /// Fails if the procedure makes no sense with these limits; a failure in a trial is in the
    /// result.
    pub fn follow(
        &self,
        device: &mut dyn Device,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<Followed, LabError> {
        let mut followed = Followed {
            result: Ok(()),
            outcomes: Vec::new(),
        };
        followed.result = self.run_hooks(When::Before, device, &self.work.control, run);
        if followed.result.is_ok() {
            self.series(device, run, measured, &mut followed)?;
        }
        let after = self.run_hooks(When::After, device, &Control::default(), run);
        followed.result = followed.result.and(after);
        Ok(followed)
    }

    /// Runs the hooks around an iteration.
    fn run_hooks(
        &self,
        when: When,
        device: &dyn Device,
        control: &Control,
        run: &mut Run<'_>,
    ) -> Result<(), LabError> {
        if self.hooks.is_empty() {
            return Ok(());
        }
        let when = (when, Every::Iteration);
        let hosts = device.hosts();
        run_hooks_or_fail(self.hooks, when, &self.place(), &hosts, control, run)
    }

    /// Returns the context that hooks receive in their environment.
    fn place(&self) -> Place {
        self.case.map_or_else(Place::default, |(case, iteration)| {
            Place::iteration(case, iteration)
        })
    }

    fn series(
        &self,
        device: &mut dyn Device,
        run: &mut Run<'_>,
        measured: &mut Measured,
        followed: &mut Followed,
    ) -> Result<(), LabError> {
        let corrected = self.asked.simulated || self.case.is_some();
        let mut pace = Pace::new(self.capacities.clone(), self.held, corrected);
        for (at, variant) in self.traffic.variants.iter().enumerate() {
            let procedure = make(self.asked, &self.limits).map_err(LabError::Preflight)?;
            let mut session = Session::new(procedure);
            followed.result = device
                .begin(variant, run)
                .and_then(|()| self.probe_losses(device, run, &mut pace))
                .and_then(|()| self.trials(device, run, measured, &mut session, at, &mut pace));
            let outcomes = session.outcomes().into_iter();
            followed
                .outcomes
                .extend(outcomes.map(|outcome| with_series(outcome, variant)));
            if followed.result.is_err() || self.work.control.is_stopped() {
                break;
            }
        }
        Ok(())
    }

    /// Before the first estimate, checks where the DUT loses frames below its capacity, and whether
    /// the sender reaches such loads. Only for long searches whose trials end early after losses.
    /// The first and the last frame size are checked, which is close enough for the others.
    fn probe_losses(
        &self,
        device: &mut dyn Device,
        run: &mut Run<'_>,
        pace: &mut Pace,
    ) -> Result<(), LabError> {
        if pace.corrected || !pace.capacities.is_known() {
            return Ok(());
        }
        let mut machine = make(self.asked, &self.limits).map_err(LabError::Preflight)?;
        let Some(first) = machine.next_trial() else {
            return Ok(());
        };
        let all = ahead(machine.as_mut(), &pace.capacities);
        let is_search = matches!(first.ending, Some(Ending::Lost { .. })) && first.is_constant();
        if !is_search || first.setting.is_some() || pace.time(all) < LOOKED_AHEAD_FROM {
            return Ok(());
        }
        let mut ends = vec![&self.streams[0]];
        ends.extend(self.streams[1..].last());
        for stream in ends {
            let overload_pps = pace
                .capacities
                .for_size(stream.frame_size_bytes)
                .overload_pps;
            // use the last one, because most trials are near the load without loss
            let mut reached = Tally::default();
            for share in LOOKED_AHEAD_AT {
                let load_pps = (share * overload_pps).round().max(1.0);
                let duration_ns = first.duration_ns().min(LOOKED_AHEAD_NS);
                let question = Question {
                    frame_size_bytes: stream.frame_size_bytes,
                    stretches: vec![Stretch::constant(load_pps, duration_ns)],
                    waits: Waits::default(),
                    ..first.clone()
                };
                let made = device.trial(stream, &question)?;
                if made.is_broken {
                    return device.repair(run);
                }
                let answer = &made.answer;
                let is_valid = validity::objections(&question, answer).is_empty()
                    && validity::load_shortfall(&question, answer).is_none();
                reached = Tally {
                    made: 1,
                    valid: u32::from(is_valid),
                };
                pace.capacities.record_trial(&question, answer);
                if answer.frames_lost() == 0 {
                    break;
                }
            }
            pace.attempts += reached;
        }
        Ok(())
    }

    fn trials(
        &self,
        device: &mut dyn Device,
        run: &mut Run<'_>,
        measured: &mut Measured,
        session: &mut Session,
        at: usize,
        pace: &mut Pace,
    ) -> Result<(), LabError> {
        let simulated = self.asked.simulated;
        let control = &self.work.control;
        let variant = &self.traffic.variants[at];
        while let Some((question, attempt)) = session.next_trial() {
            run.wait_while_paused(control)?;
            if control.is_stopped() {
                return Err(LabError::Interrupted);
            }
            if !simulated {
                let done = measured.trials.len() as u32;
                let left = self.left(session, at, pace)?;
                if let Some(note) = self.correct(left, pace) {
                    run.record_event(note)?;
                }
                run.record_event(self.progress(&question, done, left, pace.made))?;
            }
            let stream = self.stream(&question);
            let (started_at, started) = (timestamp(), SystemTime::now());
            let trial = measured.trials.len() as u32 + 1;
            let place = self.place().trial(
                trial,
                Some(question.peak_pps()),
                self.traffic.flows(&stream, variant),
            );
            let mut made = self.hooked(device, &stream, &question, &place, run)?;
            if let (Some(from_ns), Some(observed)) = (question.power_from_ns, &made.telemetry) {
                made.answer.power_watts = observed.power_watts(Duration::from_nanos(from_ns));
            }
            let ledger = balance(&made.counters, Some(made.intended()));
            if !simulated {
                let observed = objections(&ledger, &made.counters);
                made.answer.objections.extend(observed);
            }
            let recorded = session.record(&made.answer);
            pace.made(&question, &made, recorded.validity.is_valid());
            let names = device.names();
            let when = (started, Duration::from_nanos(made.answer.duration_ns));
            let latency_log = run
                .writer
                .latencies(&stream.id(), trial, when, &made.latencies)?;
            let mut record = TrialRecord {
                trial,
                iteration: self.case.map_or(attempt, |(_, iteration)| iteration),
                started_at,
                asked: Some(Box::new(Made {
                    answer: made.answer.clone(),
                    question,
                    evaluation: recorded.says,
                    latency_log,
                })),
                ..self.record(&stream, variant, &made, names, recorded.validity)
            };
            judge_trial(&mut record, self.gate);
            run.keep_telemetry(&record, made.telemetry.as_deref())?;
            run.writer.trial(&record)?;
            run.record_event(EventKind::TrialFinished {
                record: Box::new(record.clone()),
            })?;
            measured.trials.push(record);
            if !made.ended.is_empty() {
                let when = format!("during trial {trial}");
                return Err(LabError::Daemons(describe_ended(&made.ended, &when)));
            }
            if made.is_broken {
                device.repair(run)?;
                // the effects of hooks on the old bed disappeared with it
                self.run_hooks(When::Before, device, &self.work.control, run)?;
            }
        }
        Ok(())
    }

    /// Makes a trial with the hooks before, during and after it. Hooks that fail make it invalid.
    fn hooked(
        &self,
        device: &mut dyn Device,
        stream: &Stream,
        question: &Question,
        place: &Place,
        run: &mut Run<'_>,
    ) -> Result<device::Made, LabError> {
        if self.hooks.is_empty() {
            return device.trial(stream, question);
        }
        let hosts = device.hosts();
        let (mut made, problem) = hooks::around_trial(
            self.hooks,
            place,
            (&hosts, &self.work.control),
            run,
            |run| {
                device.beside(During::new(self.hooks, place, &hosts, &run.info.id));
                device.trial(stream, question)
            },
            |made| &made.hooks,
        )?;
        made.answer.objections.extend(problem);
        Ok(made)
    }

    /// Returns the stream of this size; a sweep over flows sets their number.
    fn stream(&self, question: &Question) -> Stream {
        let of_size = self
            .streams
            .iter()
            .find(|s| s.frame_size_bytes == question.frame_size_bytes);
        let stream = of_size.unwrap_or(&self.streams[0]).clone();
        let sweep = self.asked.sweep.as_ref();
        let flows = sweep.filter(|sweep| sweep.parameter == "flows");
        match flows.and(question.setting) {
            Some(flows) => Stream {
                flows: u32::try_from(flows).unwrap_or(u32::MAX),
                ..stream
            },
            None => stream,
        }
    }

    /// Returns the number of remaining trials of this course, and their time.
    fn left(
        &self,
        session: &Session,
        at: usize,
        pace: &mut Pace,
    ) -> Result<(u32, Duration), LabError> {
        if let Some(last) = pace.left
            && last.found.elapsed() < SELDOM * last.cost
        {
            let time = last.time.saturating_sub(last.found.elapsed());
            return Ok((last.trials, time));
        }
        let found = Instant::now();
        let machine = || make(self.asked, &self.limits).map_err(LabError::Preflight);
        let mut this = machine()?;
        session.replay(this.as_mut());
        let mut all = ahead(this.as_mut(), &pace.capacities);
        let series = (self.traffic.variants.len() - at - 1) as u32;
        if series > 0 {
            let other = ahead(machine()?.as_mut(), &pace.capacities);
            all.trials += series * other.trials;
            all.ns += u64::from(series) * other.ns;
        }
        let (trials, time) = (all.trials, pace.time(all));
        pace.left = Some(RemainingEstimate {
            trials,
            time,
            found,
            cost: found.elapsed(),
        });
        Ok((trials, time))
    }

    /// Returns a corrected estimate once, as soon as the DUT's capacity is known and no longer a
    /// guess.
    fn correct(&self, (trials, time): (u32, Duration), pace: &mut Pace) -> Option<EventKind> {
        if pace.corrected || !pace.capacities.is_known() {
            return None;
        }
        pace.corrected = true;
        let text = format!(
            "now that the DUT was seen to lose frames: about {:.0} s more, {}",
            time.as_secs_f64(),
            counted(trials as usize, "trial")
        );
        Some(EventKind::Note { text })
    }

    fn progress(
        &self,
        question: &Question,
        done: u32,
        (trials, time): (u32, Duration),
        made: u32,
    ) -> EventKind {
        let (steps, of_run) = self.trials;
        let Work {
            own,
            later,
            mut pace,
            began: started,
            ..
        } = *self.work;
        // counts this turn with its expected duration
        pace.made(own, started.elapsed() + time);
        let case = self.case.map_or(String::new(), |(case, iteration)| {
            format!("{case}, iteration {iteration}: ")
        });
        EventKind::Progress {
            activity: format!(
                "{case}{} B, {:.0} frames/s for {} s: {}",
                question.frame_size_bytes,
                question.peak_pps(),
                question.duration_ns() as f64 / 1e9,
                question.reason
            ),
            done,
            steps: (of_run + made + trials).saturating_sub(steps).max(done + 1),
            left_s: (time + pace.left(later, Duration::ZERO)).as_secs_f64(),
            offered_load_pps: None,
            forwarding_rate_pps: None,
            estimate: None,
        }
    }

    fn record(
        &self,
        stream: &Stream,
        variant: &Variant,
        made: &device::Made,
        names: (&str, &str),
        validity: Validity,
    ) -> TrialRecord {
        let answer = &made.answer;
        let duration_s = answer.duration_ns as f64 / 1e9;
        let per_second = |frames: u64| frames as f64 / duration_s.max(f64::MIN_POSITIVE);
        TrialRecord {
            test_case: self
                .case
                .map_or_else(|| variant.id(stream), |(case, _)| case.to_owned()),
            procedure: self.procedure.into(),
            variant: variant.clone(),
            directions: answer.directions.clone(),
            stall_policy: (!self.asked.simulated).then_some(StallPolicy::Skip),
            duration_s,
            intended_load_pps: Some(per_second(
                answer.frames_intended + answer.frames_additional,
            )),
            offered_load_pps: per_second(answer.frames_sent + answer.frames_additional),
            forwarding_rate_ungated_pps: Some(per_second(answer.frames_received)),
            probes: made.probes.clone(),
            work: made.work.clone().map(Box::new),
            frame_loss_ratio: answer.frames_lost().max(0) as f64 / answer.frames_sent.max(1) as f64,
            telemetry: (made.telemetry.as_ref()).map(|observed| {
                let sent = answer.frames_sent + answer.frames_additional;
                Box::new(observed.to_telemetry(sent, answer.frames_received))
            }),
            validity,
            ..record(
                names,
                variant.stream(stream),
                &made.counters,
                Some(made.intended()),
            )
        }
    }
}
