//! Hooks: the user's commands before, during and after what is measured, on the DUT, on the
//! generator's host or on this machine.
//!
//! Hooks before and after surround an iteration, a trial or the campaign.
//!
//! - Before: run in order; the first one that fails ends them.
//! - After: all run, even if others failed or the campaign was stopped.
//! - During a trial: started when the first frames have left, by the sender's own count instead of
//!   a clock, and ended with the trial. They may end earlier, but not with an error.
//!
//! A hook that fails, or does not end in time, invalidates what it belongs to, with its reason.
//! Output and exit status of each are kept in `hooks.jsonl`. Hooks measure nothing. Start with
//! [`run_hooks`] and [`During`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fwdlab_engine::analysis::{Analysis, AnalysisPlan};
use fwdlab_engine::tester::Proof;
use fwdlab_engine::{Histogram, Reading, ReceiveCounts, Schedule};
use fwdlab_model::campaign::{Every, Hook, Hooks, On, When};
use fwdlab_model::hook::HookRecord;
use fwdlab_model::trial::Stream;

use super::trial::offered;
use super::{Control, Run, timestamp};
use crate::bed::Bed;
use crate::error::LabError;
use crate::host::{
    Command, Failure, Host, HostError, Limit, Local, ProcessEnd, ProcessEvent, quoted,
};
use crate::tester::{Frames, Rig};

/// Output of a hook beyond this is counted and not kept.
const MOST_OUTPUT: usize = 64 << 10;

/// Interval at which a hook during a trial checks whether the trial has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Time limit for the end of a hook that is ended with its trial.
const PATIENCE: Duration = Duration::from_secs(20);

/// Interval of checks for the first frames.
const FIRST_FRAMES: Duration = Duration::from_millis(1);

/// The context of a hook, which it receives in its environment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Place {
    /// The test case.
    pub test_case: Option<String>,
    /// Its iteration.
    pub iteration: Option<u32>,
    /// The trial.
    pub trial: Option<u32>,
    /// Its highest load in frames per second; `None`: flat out.
    pub load_pps: Option<f64>,
    /// Number of flows.
    pub flows: u32,
}

impl Place {
    /// Creates the context of an iteration of a test case.
    pub fn iteration(test_case: &str, iteration: u32) -> Place {
        Place {
            test_case: Some(test_case.to_owned()),
            iteration: Some(iteration),
            ..Place::default()
        }
    }

    /// Returns the context of a trial in it.
    pub fn trial(&self, trial: u32, load_pps: Option<f64>, flows: u32) -> Place {
        Place {
            trial: Some(trial),
            load_pps,
            flows,
            ..self.clone()
        }
    }

    /// Returns a hook's command with this context in its environment; its full output is reported
    /// in any case.
    fn command(&self, hook: &Hook, run: &str) -> Command {
        let mut names = vec![("FWDLAB_RUN", run.to_owned())];
        let number = |n: Option<u32>| n.map(|n| n.to_string());
        names.extend(self.test_case.clone().map(|id| ("FWDLAB_TEST_CASE", id)));
        names.extend(number(self.iteration).map(|n| ("FWDLAB_ITERATION", n)));
        if let Some(trial) = number(self.trial) {
            names.push(("FWDLAB_TRIAL", trial));
            let load = self.load_pps.map(|pps| format!("{pps:.0}"));
            names.push(("FWDLAB_LOAD", load.unwrap_or_else(|| "max".into())));
            names.push(("FWDLAB_FLOWS", self.flows.to_string()));
        }
        let export = |(name, value): &(&str, String)| format!("{name}={}", quoted(value));
        let exports: Vec<String> = names.iter().map(export).collect();
        let text = format!("export {}; exec 1>&2; {}", exports.join(" "), hook.command);
        Command::shell(&text).called(hook.command.trim())
    }

    /// Returns the record of a hook that has not been started.
    fn record(&self, when: When, hook: &Hook, host: &str) -> HookRecord {
        HookRecord {
            when,
            command: hook.command.trim().to_owned(),
            on: hook.on,
            host: host.to_owned(),
            test_case: self.test_case.clone(),
            iteration: self.iteration,
            trial: self.trial,
            started_at: None,
            duration_s: 0.0,
            status: "not started".into(),
            output: String::new(),
            output_left_out_bytes: 0,
            failure: None,
        }
    }
}

/// Hosts on which hooks run: those of a bed, or only this machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Hosts {
    dut: Option<Arc<dyn Host>>,
    generator: Option<Arc<dyn Host>>,
}

impl Hosts {
    /// Returns the hosts of an existing bed.
    pub fn from_bed(bed: &Bed) -> Hosts {
        Hosts {
            dut: bed.dut(0).place(),
            generator: Some(bed.tester().clone()),
        }
    }

    fn find(&self, on: On) -> Result<Arc<dyn Host>, String> {
        match on {
            On::Controller => Ok(Arc::new(Local)),
            On::Dut => (self.dut.clone()).ok_or("this DUT takes no commands for a shell".into()),
            On::Generator => (self.generator.clone()).ok_or("there is no such host here".into()),
        }
    }
}

/// Runs the hooks before or after something, and stores their records. Returns the reason if one
/// failed.
pub(super) fn run_hooks(
    hooks: &Hooks,
    (when, every): (When, Every),
    place: &Place,
    hosts: &Hosts,
    control: &Control,
    run: &mut Run<'_>,
) -> Result<Vec<String>, LabError> {
    let of = hooks
        .all()
        .filter(|(of, hook)| (*of, hook.every) == (when, every));
    let mut failures = Vec::new();
    for (_, hook) in of {
        if when == When::Before && control.is_stopped() {
            return Err(LabError::Interrupted);
        }
        // a hook that cleans up also runs if the rest was stopped
        let is_stopped = || when == When::Before && control.is_stopped();
        let record = run_to_end(when, hook, place, hosts, &run.info.id, &is_stopped);
        let failure = record.failure.clone();
        run.keep_hook(record)?;
        if when == When::Before && control.is_stopped() {
            return Err(LabError::Interrupted);
        }
        let is_over = failure.is_some() && when == When::Before;
        failures.extend(failure);
        if is_over {
            break;
        }
    }
    Ok(failures)
}

/// The same, with a failure as an error.
pub(super) fn run_hooks_or_fail(
    hooks: &Hooks,
    when: (When, Every),
    place: &Place,
    hosts: &Hosts,
    control: &Control,
    run: &mut Run<'_>,
) -> Result<(), LabError> {
    let failures = run_hooks(hooks, when, place, hosts, control, run)?;
    match failures.is_empty() {
        true => Ok(()),
        false => Err(LabError::Hook(failures.join("; "))),
    }
}

/// Runs the hooks around a trial, and stores the records of those that ran during it. Returns the
/// trial, and why hooks make it invalid.
pub(super) fn around_trial<T>(
    hooks: &Hooks,
    place: &Place,
    (hosts, control): (&Hosts, &Control),
    run: &mut Run<'_>,
    trial: impl FnOnce(&mut Run<'_>) -> Result<T, LabError>,
    during: impl Fn(&T) -> &[HookRecord],
) -> Result<(T, Vec<String>), LabError> {
    let (before, after) = ((When::Before, Every::Trial), (When::After, Every::Trial));
    let mut failures = run_hooks(hooks, before, place, hosts, control, run)?;
    let made = trial(run);
    for record in made.iter().flat_map(during) {
        run.keep_hook(record.clone())?;
    }
    let all = Control::default();
    failures.extend(run_hooks(hooks, after, place, hosts, &all, run)?);
    Ok((made?, failures))
}

/// Runs a hook to its end.
fn run_to_end(
    when: When,
    hook: &Hook,
    place: &Place,
    hosts: &Hosts,
    run: &str,
    is_stopped: &dyn Fn() -> bool,
) -> HookRecord {
    let host = match hosts.find(hook.on) {
        Ok(host) => host,
        Err(reason) => return missing(when, hook, place, &reason),
    };
    let command = place.command(hook, run);
    let started_at = timestamp();
    let started = Instant::now();
    let limit = Limit {
        time: hook.within.0,
        is_stopped,
    };
    let result = host.run(&command, limit);
    let mut record = HookRecord {
        started_at: Some(started_at),
        duration_s: started.elapsed().as_secs_f64(),
        ..place.record(when, hook, host.name())
    };
    let mut output = Output::default();
    match result {
        Ok(printed) => {
            record.status = ProcessEnd::success().status;
            output.text(&printed.text());
        }
        Err(error) => {
            output.text(command_output(&error));
            record.status = status(&error.failure);
            record.failure = Some(failed(when, &short(&error).to_string()));
        }
    }
    output.into_record(record)
}

/// Returns the record of a hook whose host is not available.
fn missing(when: When, hook: &Hook, place: &Place, reason: &str) -> HookRecord {
    HookRecord {
        failure: Some(failed(
            when,
            &format!("`{}`: {reason}", hook.command.trim()),
        )),
        ..place.record(when, hook, hook.on.name())
    }
}

fn failed(when: When, reason: &str) -> String {
    format!("hook {}: {reason}", when.name())
}

/// Returns the output of a failed command.
fn command_output(error: &HostError) -> &str {
    match &error.failure {
        Failure::Exit { said: output, .. } | Failure::TimedOut { said: output, .. } => output,
        _ => "",
    }
}

/// Shortens the error to the last line of output, which mostly contains the cause: the record has
/// all of it.
fn short(error: &HostError) -> HostError {
    let last = |output: &str| {
        let line = output.lines().rev().find(|line| !line.trim().is_empty());
        line.unwrap_or_default().chars().take(200).collect()
    };
    let failure = match &error.failure {
        Failure::Exit {
            status,
            said: output,
        } => Failure::Exit {
            status: status.clone(),
            said: last(output),
        },
        Failure::TimedOut {
            after,
            said: output,
        } => Failure::TimedOut {
            after: *after,
            said: last(output),
        },
        other => other.clone(),
    };
    HostError::new(&error.host, &error.what, failure)
}

fn status(failure: &Failure) -> String {
    match failure {
        Failure::Exit { status, .. } => status.clone(),
        Failure::TimedOut { after, .. } => {
            format!("ended after {:.0} s, its limit", after.as_secs_f64())
        }
        Failure::Stopped => "ended with the run".into(),
        Failure::Lost(_) | Failure::NotBack(_) => "its host was lost".into(),
        Failure::Refused(_)
        | Failure::Unreachable(_)
        | Failure::Missing { .. }
        | Failure::File(_) => "not started".into(),
    }
}

/// Output of a hook so far.
#[derive(Debug, Default)]
struct Output {
    kept: String,
    left_out: u64,
}

impl Output {
    fn text(&mut self, text: &str) {
        let room = MOST_OUTPUT.saturating_sub(self.kept.len());
        let mut end = text.len().min(room);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.kept.push_str(&text[..end]);
        self.left_out += (text.len() - end) as u64;
    }

    fn line(&mut self, line: &str) {
        self.text(line);
        self.text("\n");
    }

    fn into_record(self, record: HookRecord) -> HookRecord {
        HookRecord {
            output: self.kept,
            output_left_out_bytes: self.left_out,
            ..record
        }
    }
}

/// The hooks that run during a trial, before it has started.
#[derive(Debug, Clone, Default)]
pub(super) struct During {
    all: Vec<Prepared>,
}

/// One hook of a trial.
#[derive(Debug, Clone)]
struct Prepared {
    hook: Hook,
    place: Place,
    host: Result<Arc<dyn Host>, String>,
    command: Command,
}

impl During {
    /// Prepares the hooks of a trial with this context.
    pub fn new(hooks: &Hooks, place: &Place, hosts: &Hosts, run: &str) -> During {
        let prepared = |hook: &Hook| Prepared {
            hook: hook.clone(),
            place: place.clone(),
            host: hosts.find(hook.on),
            command: place.command(hook, run),
        };
        During {
            all: hooks.during.iter().map(prepared).collect(),
        }
    }

    /// Returns true if there are no hooks.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Starts a thread per hook, which waits for the first frames. Not on the thread that measures,
    /// whose CPU and priority they would inherit.
    pub fn wait_for_frames(&self) -> RunningHooks {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut begin = Vec::new();
        let ends = self.all.iter().map(|prepared| {
            let (start, started) = mpsc::channel();
            let (report, end) = mpsc::channel();
            begin.push(start);
            let (own, is_over) = (prepared.clone(), is_over.clone());
            std::thread::spawn(move || {
                // the receiver has timed out, and reported that
                let _ = report.send(own.run_hook(&started, &is_over));
            });
            (prepared.clone(), end)
        });
        let ends = ends.collect();
        RunningHooks {
            begin: StartSignal(Arc::new(Mutex::new(begin))),
            is_over,
            ends,
        }
    }
}

/// Signals the hooks of a trial once that frames flow.
#[derive(Debug, Clone)]
pub(super) struct StartSignal(Arc<Mutex<Vec<Sender<()>>>>);

impl StartSignal {
    fn senders(&self) -> std::sync::MutexGuard<'_, Vec<Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) {
        for start in self.senders().drain(..) {
            let _ = start.send(());
        }
    }

    fn is_due(&self) -> bool {
        !self.senders().is_empty()
    }
}

/// Hooks that wait for frames or are running.
#[derive(Debug)]
pub(super) struct RunningHooks {
    /// Signals the first frames.
    pub begin: StartSignal,
    is_over: Arc<AtomicBool>,
    ends: Vec<(Prepared, Receiver<HookRecord>)>,
}

impl RunningHooks {
    /// Ends the hooks that are still running: the trial is over.
    pub fn end(mut self) -> Vec<HookRecord> {
        self.is_over.store(true, Ordering::Release);
        // hooks that have not been started yet will not be
        self.begin.senders().clear();
        let until = Instant::now() + PATIENCE;
        let record = |(prepared, end): (Prepared, Receiver<HookRecord>)| {
            let left = until.saturating_duration_since(Instant::now());
            end.recv_timeout(left.max(LOOK)).unwrap_or_else(|_| {
                let reason = format!(
                    "`{}` did not end within {:.0} s of its trial. Check whether it is still running on its host",
                    prepared.command,
                    PATIENCE.as_secs_f64()
                );
                HookRecord {
                    status: "it may still run".into(),
                    failure: Some(failed(When::During, &reason)),
                    ..prepared.record()
                }
            })
        };
        std::mem::take(&mut self.ends)
            .into_iter()
            .map(record)
            .collect()
    }
}

impl Drop for RunningHooks {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
    }
}

impl Prepared {
    fn record(&self) -> HookRecord {
        let host = self.host.as_ref().map(|host| host.name());
        let host = host.unwrap_or(self.hook.on.name());
        self.place.record(When::During, &self.hook, host)
    }

    /// Runs from the first frames until the trial or the hook ends.
    fn run_hook(self, has_started: &Receiver<()>, is_over: &AtomicBool) -> HookRecord {
        let host = match &self.host {
            Ok(host) => host.clone(),
            Err(reason) => return missing(When::During, &self.hook, &self.place, reason),
        };
        if has_started.recv().is_err() {
            let reason = format!("`{}` was not started: no frame was sent", self.command);
            return HookRecord {
                failure: Some(failed(When::During, &reason)),
                ..self.record()
            };
        }
        let started_at = Some(timestamp());
        let started = Instant::now();
        let mut output = Output::default();
        let end = self.follow(host.as_ref(), is_over, &mut output);
        let (status, failure) = match end {
            Ok(End::WithTrial) => ("ended with the trial".to_owned(), None),
            Ok(End::ByItself(end)) if end.is_success => (end.status, None),
            Ok(End::ByItself(end)) => {
                let last = output.kept.lines().next_back().unwrap_or_default();
                let error = Failure::Exit {
                    status: end.status.clone(),
                    said: last.chars().take(200).collect(),
                };
                let error = HostError::new(host.name(), &self.command, error);
                (end.status, Some(error))
            }
            Err(error) => (status(&error.failure), Some(error)),
        };
        output.into_record(HookRecord {
            started_at,
            duration_s: started.elapsed().as_secs_f64(),
            status,
            failure: failure.map(|error| failed(When::During, &short(&error).to_string())),
            ..self.record()
        })
    }

    fn follow(
        &self,
        host: &dyn Host,
        is_over: &AtomicBool,
        output: &mut Output,
    ) -> Result<End, HostError> {
        let mut process = host.start(&self.command)?;
        loop {
            let was_over = is_over.load(Ordering::Acquire);
            match process.next(if was_over { Duration::ZERO } else { LOOK })? {
                ProcessEvent::Line(line) => output.line(&line),
                // read its earlier output first
                ProcessEvent::Silence if was_over => return Ok(End::WithTrial),
                ProcessEvent::Silence => {}
                ProcessEvent::End(end) => return Ok(End::ByItself(end)),
            }
            // a hook that prints without a pause never reaches the branch for silence
            if was_over && output.left_out > 0 {
                return Ok(End::WithTrial);
            }
        }
    }
}

/// How a hook ended that ran during a trial.
enum End {
    WithTrial,
    ByItself(ProcessEnd),
}

/// A rig that signals hooks when its first frames have left.
pub(super) struct SignallingRig<'a> {
    rig: &'a mut dyn Rig,
    begin: StartSignal,
}

impl<'a> SignallingRig<'a> {
    /// Wraps a rig, whose first frames start the hooks.
    pub fn new(rig: &'a mut dyn Rig, begin: StartSignal) -> SignallingRig<'a> {
        SignallingRig { rig, begin }
    }

    /// Waits this long, and checks for the first frames meanwhile.
    pub fn wait_for_frames(&mut self, time: Duration) -> Result<(), LabError> {
        let from = self.now();
        while self.begin.is_due() && self.since(from) < time {
            self.read()?;
            if self.begin.is_due() {
                self.wait(FIRST_FRAMES);
            }
        }
        self.wait(time.saturating_sub(self.since(from)));
        Ok(())
    }
}

impl Rig for SignallingRig<'_> {
    fn names(&self) -> (&'static str, &'static str) {
        self.rig.names()
    }

    fn prove(&mut self, path: usize, stream: &Stream, frames: u64) -> Result<Proof, LabError> {
        self.rig.prove(path, stream, frames)
    }

    fn arm(&mut self, frames: Frames<'_>, analysis: Option<AnalysisPlan>) -> Result<(), LabError> {
        self.rig.arm(frames, analysis)
    }

    fn nonce(&self) -> u16 {
        self.rig.nonce()
    }

    fn start(&mut self, schedule: Schedule) -> Result<(), LabError> {
        self.rig.start(schedule)
    }

    fn select(&mut self, path: usize) -> Result<(), LabError> {
        self.rig.select(path)
    }

    fn renew(&mut self) -> Result<Duration, LabError> {
        self.rig.renew()
    }

    fn is_done(&self) -> bool {
        self.rig.is_done()
    }

    fn read(&mut self) -> Result<Reading, LabError> {
        let reading = self.rig.read()?;
        if offered(&reading) > 0 {
            self.begin.now();
        }
        Ok(reading)
    }

    fn stop(&mut self) -> Result<Reading, LabError> {
        self.rig.stop()
    }

    fn receive_counts(&mut self, path: usize) -> Result<ReceiveCounts, LabError> {
        self.rig.receive_counts(path)
    }

    fn analysis(&mut self, path: usize) -> Result<Option<Analysis>, LabError> {
        self.rig.analysis(path)
    }

    fn lateness(&self) -> Result<Option<Histogram>, LabError> {
        self.rig.lateness()
    }

    fn now(&self) -> Instant {
        self.rig.now()
    }

    fn wait(&self, time: Duration) {
        self.rig.wait(time);
    }
}

/// Describes the hooks in words: what runs, and where.
pub(super) fn words(hooks: &Hooks) -> Vec<String> {
    let each = hooks.all().map(|(when, hook)| {
        let on = match hook.on {
            On::Dut => "the DUT",
            On::Generator => "the generator's host",
            On::Controller => "this machine",
        };
        let of = match hook.every {
            Every::Trial => "every trial",
            Every::Iteration => "every iteration",
            Every::Campaign => "the campaign",
        };
        let limit = match when {
            When::During => "from its first frames to its end".to_owned(),
            _ => format!("{} at most", hook.within),
        };
        let (when, command) = (when.name(), hook.command.trim());
        format!("{on}, hook {when} {of} ({limit}): {command}")
    });
    each.collect()
}
