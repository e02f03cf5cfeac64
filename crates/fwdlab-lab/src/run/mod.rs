//! Runs procedures on the embedded test bed or on a simulated DUT, for all measuring commands.
//!
//! A [`plan`] defines what is measured, for files and commands alike, and [`campaign`] carries it
//! out: [`conduct`] takes its turns, and one file of [`method`] measures each of them. They build
//! beds, ask `measure` for the next step, store every trial at once, and report everything as
//! events. Start with [`plan::Plan`] and [`campaign::start`].

pub mod bisect;
pub mod campaign;
mod conduct;
mod device;
mod estimate;
pub mod expect;
mod feasible;
pub mod flame;
mod hooks;
mod largest_load;
pub mod manage;
pub mod merge;
mod method;
mod modify;
pub mod plan;
mod procedure_run;
mod requests;
mod restarts;
pub mod resume;
pub mod so_far;
#[cfg(test)]
mod tests;
pub mod traffic;
mod trial;
pub mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use fwdlab_engine::Mode;
use fwdlab_engine::sim::Dut;
use fwdlab_model::event::{Event, EventKind, RebuildRecord};
use fwdlab_model::facts::Facts;
use fwdlab_model::hook::HookRecord;
use fwdlab_model::instructions::BootRecord;
use fwdlab_model::link::{Line, LinkLoad, LinkSpeed, MeanSize};
use fwdlab_model::loss::{Chain, Stage};
use fwdlab_model::result::{RunInfo, RunState, Summary, TrialRecord};
use fwdlab_model::stacks::Stacks;
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;
use fwdlab_model::version::{EVENT_FORMAT, RUN_FORMAT};
use fwdlab_store::{Requests, RunId, RunWriter};
use jiff::Timestamp;

pub use self::largest_load::needs;
pub use self::method::bursts::THROUGH;
use crate::bed::Bed;
use crate::control::Control;
use crate::dut::Configuration;
use crate::dut::daemons::describe_ended;
use crate::error::LabError;
use crate::host::registry;
use crate::placement::Placement;
use crate::preflight::Watch;
use crate::site::{self, Site};
use crate::telemetry::{Seen, Wanted};
use crate::tester::Rig;
use crate::tester::local::Chosen;

/// Parameters of every measurement, with all defaults resolved.
#[derive(Debug, Clone)]
pub struct Parameters {
    /// Offered streams, one per test case.
    pub streams: Vec<Stream>,
    /// Traffic that procedures and searches offer in addition to the streams.
    pub traffic: traffic::Traffic,
    /// Intended load; `None` chooses 1.6 times what the DUT forwards.
    pub load: Option<LinkLoad>,
    /// The line: the load is limited to its rate, and loads in percent refer to it.
    pub line: Option<Line>,
    /// Applied to the DUT before it is measured.
    pub configuration: Option<Configuration>,
    /// What is read from the DUT's host around trials; `None`: nothing.
    pub telemetry: Option<Wanted>,
    /// Configurations of the DUT run as processes of the host, on the host's files.
    pub unconfined: bool,
    /// Kind and properties of the DUT.
    pub dut: fwdlab_model::campaign::Dut,
    /// The DUT has a port for its management.
    pub is_managed: bool,
    /// Engine to use; `None` takes the fastest one that proves itself.
    pub engine: Option<Mode>,
    /// Where test beds are built.
    pub site: Site,
    /// CPUs of each role.
    pub placement: Placement,
    /// True for root of the host, false for root of a user namespace only.
    pub privileged: bool,
    /// Seed of every random choice.
    pub seed: u64,
    /// The command line, as typed.
    pub command_line: Vec<String>,
}

/// Returns the line of a measurement: the link of the simulated tester, or on the test bed an
/// emulated one of this speed.
pub fn line(dut: Option<&Dut>, link: Option<LinkSpeed>) -> Option<Line> {
    dut.map_or(link.map(Line::emulated), Dut::line)
}

/// Records and result of a run.
#[derive(Debug, Default)]
pub struct Measured {
    /// Every trial, in order.
    pub trials: Vec<TrialRecord>,
    /// Every rebuild, in order.
    pub rebuilds: Vec<RebuildRecord>,
    /// Every boot of a virtual machine, in order.
    pub boots: Vec<BootRecord>,
    /// Counts by call path of some of these boots.
    pub profiles: Vec<BootProfile>,
    /// Samples of the DUT's CPUs by test case, if requested.
    pub samples: Vec<(String, Stacks)>,
    /// The result.
    pub summary: Option<Summary>,
}

/// Instructions by call path, of the middle bursts of a boot.
#[derive(Debug, Clone)]
pub struct BootProfile {
    /// Number of the boot.
    pub boot: u32,
    /// Counts through the DUT, including generator and receiver.
    pub through: Stacks,
    /// Counts past the DUT.
    pub past: Stacks,
}

/// A run with its journal: every event is stored before it is reported.
pub struct Run<'a> {
    /// The head of the run.
    pub info: RunInfo,
    writer: RunWriter,
    /// Notes by file name.
    notes: BTreeMap<String, String>,
    /// A bed has been reported.
    has_bed: bool,
    /// The kinds of DUT whose beds have been reported.
    kinds: BTreeSet<fwdlab_model::campaign::Kind>,
    /// This machine is both generator and DUT.
    is_here: bool,
    /// Processes of this machine that are the DUT.
    processes_of_dut: BTreeSet<u32>,
    began: Instant,
    /// Time since the beginning of the run, before this process resumed it.
    before: Duration,
    control: Control,
    listener: &'a mut dyn FnMut(&Event),
}

/// Interval at which a paused run checks whether to continue.
const PAUSE: Duration = Duration::from_millis(50);

/// The first advice if a measurement without root is unreliable.
const WITHOUT_ROOT: &str = "run it with sudo: without root, other processes take the CPUs of generator and DUT at any time, \
    and the distance of the CPUs cannot be read";

/// Does the work of a run, and closes the run if it fails.
fn carry_out<'a>(
    mut run: Run<'a>,
    mut measured: Measured,
    work: impl FnOnce(&mut Run<'a>, &mut Measured) -> Result<(), LabError>,
) -> Result<(Run<'a>, Measured), LabError> {
    let others = run.is_here.then(Watch::begin);
    let worked = work(&mut run, &mut measured).and_then(|()| {
        // the noise of a simulated DUT is its own
        let is_real = !run.info.facts.is_simulated();
        if let Some(summary) = measured.summary.as_mut().filter(|_| is_real) {
            let of_dut = &run.processes_of_dut;
            let other = others.as_ref().map(|watch| watch.other_work(of_dut));
            let mut to_do = fwdlab_measure::trust::advice(summary, other.as_ref());
            if !to_do.is_empty() && !run.info.facts.privileged {
                to_do.insert(0, WITHOUT_ROOT.into());
            }
            summary.noise.to_do = to_do;
        }
        // trials that count as a whole are also judged by the readings of the whole run
        if measured.trials.iter().any(|trial| !trial.probes.is_empty()) {
            run.writer.judged_again(&measured.trials)?;
        }
        Ok(())
    });
    // all beds have been removed
    for left in registry::left_behind() {
        let _ = run.warn(left.to_string());
    }
    match worked {
        Ok(()) => Ok((run, measured)),
        Err(error) => {
            let state = match error {
                LabError::Interrupted => RunState::Interrupted,
                _ => RunState::Failed,
            };
            // report the first error; closing the run may fail for the same reason
            let _ = run.close(state, &error.to_string());
            Err(error)
        }
    }
}

impl<'a> Run<'a> {
    /// Creates the head of a new run, with this name in its id.
    fn head(
        parameters: &Parameters,
        name: &str,
        kind: &str,
        values: BTreeMap<String, serde_json::Value>,
        runs: &Path,
    ) -> RunInfo {
        let now = Timestamp::now();
        let (placement, privileged) = (&parameters.placement, parameters.privileged);
        RunInfo {
            format: RUN_FORMAT,
            // independent of the seed: another measurement with the same seed is another run
            id: RunId::free(runs, now, name, entropy(now)).into(),
            kind: kind.into(),
            tool_version: env!("CARGO_PKG_VERSION").into(),
            command_line: parameters.command_line.clone(),
            seed: parameters.seed,
            started_at: now.to_string(),
            finished_at: None,
            state: RunState::Running,
            gaps: Vec::new(),
            error: None,
            note: None,
            parameters: values,
            facts: Facts {
                link: parameters.line.map(|line| line.to_string()),
                ..parameters.site.facts(placement, privileged)
            },
        }
    }

    /// Creates its directory.
    fn create(
        info: RunInfo,
        site: &Site,
        runs: &Path,
        control: &Control,
        listener: &'a mut dyn FnMut(&Event),
    ) -> Result<Run<'a>, LabError> {
        let writer = RunWriter::create(runs, &info)
            .map_err(|error| LabError::Preflight(error.to_string()))?;
        Ok(Run::new(info, writer, site, control, listener))
    }

    /// Creates a run without any event in this process.
    fn new(
        info: RunInfo,
        writer: RunWriter,
        site: &Site,
        control: &Control,
        listener: &'a mut dyn FnMut(&Event),
    ) -> Run<'a> {
        control.follow_requests(Requests::open(writer.path()));
        site.used_by(&info.id);
        Run {
            control: control.clone(),
            info,
            writer,
            notes: BTreeMap::new(),
            has_bed: false,
            processes_of_dut: BTreeSet::new(),
            kinds: BTreeSet::new(),
            is_here: site.is_local(),
            began: Instant::now(),
            before: Duration::ZERO,
            listener,
        }
    }

    /// Returns the directory of the run.
    pub fn path(&self) -> &Path {
        self.writer.path()
    }

    /// Closes the run with its result, and with the report that `render` makes of its final head.
    ///
    /// # Errors
    /// Fails if the files cannot be written.
    pub fn finish(
        mut self,
        summary: &Summary,
        state: RunState,
        render: impl FnOnce(&RunInfo) -> String,
    ) -> Result<RunInfo, LabError> {
        self.info.state = state;
        self.info.facts.states.clone_from(&summary.noise.states);
        self.info.finished_at = Some(Timestamp::now().to_string());
        let reported = self.record_event(match state {
            RunState::Finished => EventKind::RunFinished {
                summary: Box::new(summary.clone()),
            },
            _ => EventKind::RunEnded {
                reason: "interrupted".into(),
            },
        });
        if let Err(error) = reported {
            // report the first error
            let _ = self.close(RunState::Failed, &error.to_string());
            return Err(error);
        }
        let html = render(&self.info);
        self.writer.finish(&self.info, Some(summary), Some(&html))?;
        Ok(self.info)
    }

    fn close(mut self, state: RunState, reason: &str) -> Result<(), LabError> {
        self.info.state = state;
        self.info.finished_at = Some(Timestamp::now().to_string());
        self.info.error = Some(reason.to_owned());
        self.writer.make_room();
        // the head contains the reason, too, even if the journal cannot be written
        let _ = self.record_event(EventKind::RunEnded {
            reason: reason.to_owned(),
        });
        Ok(self.writer.finish(&self.info, None, None)?)
    }

    fn record_event(&mut self, kind: EventKind) -> Result<(), LabError> {
        for (request, handled) in self.control.handled_requests() {
            self.put(EventKind::Steered {
                request,
                heeded: handled,
            })?;
        }
        self.put(kind)
    }

    /// Waits while the run is paused and `control` is not stopped, and reports requests meanwhile.
    fn wait_while_paused(&mut self, control: &Control) -> Result<(), LabError> {
        while control.is_paused() {
            for (request, handled) in self.control.handled_requests() {
                self.put(EventKind::Steered {
                    request,
                    heeded: handled,
                })?;
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn put(&mut self, kind: EventKind) -> Result<(), LabError> {
        let event = Event {
            t: ((self.before + self.began.elapsed()).as_secs_f64() * 1e6).round() / 1e6,
            run: self.info.id.clone(),
            kind,
        };
        self.writer.event(&event)?;
        (self.listener)(&event);
        Ok(())
    }

    /// Stores the telemetry of the DUT's host around a trial.
    fn keep_telemetry(
        &mut self,
        of: &TrialRecord,
        observed: Option<&Seen>,
    ) -> Result<(), LabError> {
        for record in observed
            .iter()
            .flat_map(|observed| observed.records(&of.test_case, of.trial))
        {
            self.writer.telemetry(&record)?;
        }
        Ok(())
    }

    /// Stores and reports the record of a hook.
    fn keep_hook(&mut self, record: HookRecord) -> Result<(), LabError> {
        self.writer.hook(&record)?;
        self.record_event(EventKind::HookFinished {
            record: Box::new(record),
        })
    }

    fn warn(&mut self, text: impl Into<String>) -> Result<(), LabError> {
        self.record_event(EventKind::Warning { text: text.into() })
    }

    /// Reports what was done on the DUT, and stores it with the run as `name.txt`; only once if it
    /// is repeated.
    fn note(&mut self, name: &str, text: String) -> Result<(), LabError> {
        match self.keep(name, ".txt", &text)? {
            true => self.record_event(EventKind::Note { text }),
            false => Ok(()),
        }
    }

    /// Stores a text with the run under this name; only once if it is repeated. Returns true if it
    /// is new.
    fn keep(&mut self, name: &str, end: &str, text: &str) -> Result<bool, LabError> {
        let mut file = format!("{name}{end}");
        let mut others = 1;
        while let Some(known) = self.noted(&file)? {
            if known == text {
                return Ok(false);
            }
            others += 1;
            file = format!("{name}-{others}{end}");
        }
        self.writer.input(&file, text.as_bytes())?;
        self.notes.insert(file, text.to_owned());
        Ok(true)
    }

    /// Returns the note of this name, from now or from before the run was interrupted.
    fn noted(&mut self, file: &str) -> Result<Option<&String>, LabError> {
        if !self.notes.contains_key(file)
            && let Some(kept) = self.writer.kept_input(file)?
        {
            let kept = String::from_utf8_lossy(&kept).into_owned();
            self.notes.insert(file.to_owned(), kept);
        }
        Ok(self.notes.get(file))
    }

    /// Stores which parts of a configuration are in force, in the DUT's own words; only the first
    /// time that it is applied.
    fn keep_in_force(
        &mut self,
        name: &str,
        says: impl FnOnce() -> Result<BTreeMap<String, String>, LabError>,
    ) -> Result<(), LabError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let name: String = name
            .chars()
            .map(|c| if allowed(c) { c } else { '-' })
            .collect();
        // the end of a path identifies it better
        let name = &name[name.len().saturating_sub(60)..];
        let folder = format!("in-force/{}/", name.trim_matches('-'));
        if self.notes.keys().any(|file| file.starts_with(&folder)) {
            return Ok(());
        }
        for (name, text) in says()? {
            self.keep(&format!("{folder}{name}"), "", &text)?;
        }
        Ok(())
    }

    /// Reports that the run starts or resumes, with the probable number of steps and duration.
    fn started(
        &mut self,
        steps: u32,
        (estimate, guessed): (Duration, bool),
        is_resumed: bool,
    ) -> Result<(), LabError> {
        let (info, estimate_s) = (Box::new(self.info.clone()), estimate.as_secs_f64());
        self.record_event(match is_resumed {
            true => EventKind::RunResumed {
                info,
                estimate_s,
                guessed,
                steps,
            },
            false => EventKind::RunStarted {
                format: EVENT_FORMAT,
                info,
                estimate_s,
                guessed,
                steps,
            },
        })
    }

    /// Reports the first bed of every kind of DUT.
    fn report_beds(
        &mut self,
        bed: &Bed,
        engine: &Chosen,
        kind: fwdlab_model::campaign::Kind,
    ) -> Result<(), LabError> {
        match self.kinds.insert(kind) {
            true => self.bed_ready(bed, engine),
            false => Ok(()),
        }
    }

    fn bed_ready(&mut self, bed: &Bed, engine: &Chosen) -> Result<(), LabError> {
        self.has_bed = true;
        self.processes_of_dut.extend(bed.processes_of_dut());
        let facts = &mut self.info.facts;
        facts.placement.extend(bed.notes().clone());
        if !bed.namespaces().is_empty() {
            facts.placement.insert(
                "lab".into(),
                format!("namespaces {}*", bed.generator().trim_end_matches("gen")),
            );
        }
        facts.sysctls.extend(bed.sysctls().clone());
        facts.offloads.extend(bed.offloads());
        facts.engine.clone_from(&engine.words);
        facts.engines_rejected.clone_from(&engine.rejected);
        let facts = Box::new(facts.clone());
        self.record_event(EventKind::BedReady { facts })
    }
}

impl Parameters {
    /// Returns the mean size of the frames that are measured first: of the profile, or the size of
    /// the first stream.
    pub fn mean_size(&self) -> MeanSize {
        let of_stream = || self.streams[0].frame_size_bytes.into();
        self.traffic.mean().unwrap_or_else(of_stream)
    }

    /// Returns the requested load of a stream in frames per second; `None` is flat out.
    ///
    /// # Errors
    /// Fails if the load makes no sense here, or exceeds line rate.
    pub fn load_pps(&self, load: LinkLoad, stream: &Stream) -> Result<Option<f64>, String> {
        load.on_line("the load", stream.frame_size_bytes, self.line)
    }

    /// Limits a load that was not requested to line rate; `None` is flat out.
    fn within_line(&self, load_pps: Option<f64>, stream: &Stream) -> Option<f64> {
        let Some(line) = self.line else {
            return load_pps;
        };
        let most = line.rate_pps(stream.frame_size_bytes);
        Some(load_pps.map_or(most, |pps| pps.min(most)))
    }

    /// Builds a test bed with this number of DUTs side by side; a single DUT gets a way back and a
    /// management port, if the traffic needs them.
    fn bed(&self, duts: usize) -> Result<Bed, LabError> {
        self.site.build(&site::Wanted {
            duts,
            both_ways: duts == 1 && self.traffic.both_ways(),
            is_managed: self.is_managed || self.traffic.is_managed(),
            is_unconfined: self.unconfined,
            dut: &self.dut,
            placement: &self.placement,
        })
    }
}

/// Returns the sources of a configuration, as stored in this folder; a directory file by file.
fn inputs_of(
    configuration: &Configuration,
    folder: &str,
) -> Result<Vec<(String, Vec<u8>)>, LabError> {
    fn add(path: &Path, name: &str, inputs: &mut Vec<(String, Vec<u8>)>) -> Result<(), LabError> {
        let cannot = || format!("read {}", path.display());
        if path.is_dir() {
            let entries = std::fs::read_dir(path).map_err(|e| LabError::system(cannot(), e))?;
            for entry in entries.flatten() {
                let name = format!("{name}/{}", entry.file_name().to_string_lossy());
                add(&entry.path(), &name, inputs)?;
            }
            return Ok(());
        }
        let bytes = std::fs::read(path).map_err(|e| LabError::system(cannot(), e))?;
        inputs.push((name.to_owned(), bytes));
        Ok(())
    }
    let mut inputs = Vec::new();
    for path in configuration.inputs() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        add(path, &format!("{folder}{name}"), &mut inputs)?;
    }
    Ok(inputs)
}

/// Opens the tester on a bed without configuration. Also returns why it uses this engine, in words.
fn open_tester(bed: &Bed, parameters: &Parameters) -> Result<(Box<dyn Rig>, Chosen), LabError> {
    let mut traffic = Vec::new();
    if let (Some(_), Some(stream)) = (&parameters.traffic.profile, parameters.streams.first()) {
        for variant in &parameters.traffic.variants {
            traffic.extend(parameters.traffic.frames(stream, variant)?);
        }
    }
    let choice = fwdlab_engine::Choice {
        traffic,
        mode: parameters.engine,
        first: parameters.placement.first_engine,
        cpus: parameters.placement.generator_cpus.clone(),
        senders: parameters.placement.senders,
        prove: match parameters.traffic.profile {
            // the stream that represents a profile may have no room for test frames
            Some(_) => Stream::new(IpVersion::Ipv4, FrameSize::MIN, 10).ok(),
            None => parameters.streams.first().cloned(),
        },
        way_back: (bed.path_count() > bed.duts()).then_some(bed.networks().reverse()),
    };
    parameters.site.open(bed, &choice)
}

/// Applies a configuration and checks that the DUT still forwards with it.
fn configure(
    bed: &Bed,
    dut: usize,
    tester: &mut dyn Rig,
    stream: &Stream,
    configuration: &Configuration,
    control: &Control,
    run: &mut Run<'_>,
) -> Result<(), LabError> {
    let output = bed.dut(dut).apply(configuration, control)?;
    if !output.trim().is_empty() {
        let text = format!(
            "configuration `{}` said: {}",
            configuration.name,
            output.trim()
        );
        run.warn(text)?;
    }
    run.keep_in_force(&configuration.name, || bed.dut(dut).in_force(configuration))?;
    let with = format!("configuration `{}`", configuration.name);
    let proof = does_forward(bed, dut, tester, stream, &with)
        .map_err(|error| with_last_output(bed, error, "before anything was measured"))?;
    if proof.received < proof.sent {
        let text = format!(
            "with {with}, only {} of {} test frames at a low rate came back",
            proof.received, proof.sent
        );
        run.warn(text)?;
    }
    Ok(())
}

/// Adds to an error the daemons of the configuration that have died, because they may be the cause.
fn with_last_output(bed: &Bed, error: LabError, when: &str) -> LabError {
    let is_told = matches!(
        error,
        LabError::Daemons(_) | LabError::Interrupted | LabError::Store(_)
    );
    if is_told || error.is_lost() {
        return error;
    }
    match bed.daemons_ended() {
        Ok(ended) if !ended.is_empty() => {
            LabError::Daemons(format!("{}; {error}", describe_ended(&ended, when)))
        }
        _ => error,
    }
}

/// Sends some test frames through a DUT. If none comes back, the error reports how far they got.
fn does_forward(
    bed: &Bed,
    dut: usize,
    tester: &mut dyn Rig,
    stream: &Stream,
    with: &str,
) -> Result<fwdlab_engine::tester::Proof, LabError> {
    for _ in 0..device::PROOFS {
        let before = bed.counters(dut)?;
        let proof = tester.prove(dut, stream, trial::PROOF_FRAMES)?;
        if proof.received > 0 {
            return Ok(proof);
        }
        if proof.sent > 0 {
            trial::settle(bed, tester);
            let after = bed.counters(dut)?;
            return Err(LabError::DoesNotForward {
                configuration: with.to_owned(),
                sent: proof.sent,
                received: 0,
                reason: reached_stages(&trial::chain(&before, &after)),
            });
        }
        // a sender on a busy CPU may stall for the whole time, which is no fault of the DUT
    }
    Err(device::sent_nothing(trial::PROOF_FRAMES))
}

/// Describes how far frames got if none came back, as far as the meters were read.
fn reached_stages(chain: &Chain) -> String {
    match [Stage::DutInput, Stage::DutOutput].map(|stage| chain.passed(&stage)) {
        [Some(reached), Some(left)] => {
            format!("{reached} frames reached the DUT's input and {left} left at its output")
        }
        _ => "it is not known how far they came, because the DUT's ports cannot be read".into(),
    }
}

/// Returns a number that is unique to this run, from the time and the process id.
fn entropy(now: Timestamp) -> u64 {
    (now.as_nanosecond() as u64).rotate_left(20) ^ u64::from(std::process::id())
}

/// Returns the current time as it is stored in records.
fn timestamp() -> String {
    Timestamp::now().to_string()
}
