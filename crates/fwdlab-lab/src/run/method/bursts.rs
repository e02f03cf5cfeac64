//! Campaigns by instructions: every iteration of a test case is a guest with its image, in which
//! bursts are sent until their median is known.
//!
//! The test cases of an image boot once in every iteration, and each continues from the saved state
//! of that boot. The reference is booted once more, as A/A control. Nothing is timed, so several
//! guests run at a time. Start with [`Bursts`].

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fwdlab_measure::campaign::Turn;
use fwdlab_measure::exact::{
    Next, compare, controls, iteration, lost_all_frames, middle, mixture, next, objections, shares,
};
use fwdlab_model::campaign::{self, Campaign, Case, Counting, Generator, Procedure};
use fwdlab_model::event::EventKind;
use fwdlab_model::facts::{EMULATOR, IMAGE};
use fwdlab_model::file::FileError;
use fwdlab_model::instructions::{BootRecord, BurstRecord, Way};
use fwdlab_model::result::{Noise, RunInfo, Validity};
use fwdlab_model::stacks::Stacks;
use fwdlab_model::test_case::{Failure, Iteration, TestCase};

use super::CountingMethod;
use crate::bed::Bed;
use crate::bed::veth::DUT_PORTS;
use crate::dut::data_plane::{self, CommandLine, Ground, MOST_FRAMES};
use crate::dut::{Configuration, Spread};
use crate::error::LabError;
use crate::host::{Host, Limit, Remote};
use crate::run::campaign::Running;
use crate::run::conduct::{Made, Method, Work};
use crate::run::plan::{Agenda, Plan, agenda};
use crate::run::{BootProfile, Control, Measured, Run, resume, timestamp};
use crate::tester::bursts;
use crate::vm::image::cache::Cache;
use crate::vm::image::error::ImageError;
use crate::vm::image::{Image, ImageKind, inside};
use crate::vm::initramfs::{self, Recipe};
use crate::vm::machine::{ACCELERATOR, Boot, Machine, SavedState, Start};
use crate::vm::scratch::Scratch;
use crate::vm::{self, machine, qemu};

/// Interval at which guests are checked for their end.
const LOOK: Duration = Duration::from_millis(20);

/// Duration of a boot with its bursts, on a quiet host.
const BOOT: Duration = Duration::from_secs(8);

/// Duration of a guest that continues from a shared boot, with its bursts.
const CONTINUED: Duration = Duration::from_secs(4);

/// Memory of a guest: a tenth for its file system, and room for large tables.
const MEMORY_MIB: u32 = 1024;

/// Programs that every guest has in addition to the usual ones.
const PROGRAMS: [&str; 2] = ["nft", "ethtool"];

/// Programs that a guest has if a configuration names them, from a package if this machine lacks
/// them.
const PROGRAMS_NAMED: &[&str] = &[
    "iptables",
    "ip6tables",
    "ebtables",
    "ipset",
    "wg",
    "conntrack",
    "ipvsadm",
    "brctl",
    "ping",
];

/// Names of files with counts by call path, of bursts through the DUT and past it.
pub const THROUGH: &str = "through.folded";
pub(in crate::run) const PAST: &str = "past.folded";
pub(in crate::run) const CONSOLE: &str = "console.log";

/// By the guest's clock: multicast groups are reported, IPv6 routes scanned, memory freed. In the
/// first seconds these added up to 7 instructions per frame to some bursts.
const SETTLING: Duration = Duration::from_secs(15);

/// A burst that executes for longer than this hangs.
const BURST: Duration = Duration::from_secs(600);

/// Rejects test cases without an image, and images with a procedure that cannot use them.
pub(in crate::run) fn check_images(campaign: &Campaign) -> Result<(), FileError> {
    let is_exact = campaign.procedure.counting() == Counting::Instructions;
    let with_image = campaign.cases.iter().find(|case| case.image.is_some());
    match with_image {
        Some(_) if !is_exact => {
            let reason = "rates of an emulated machine mean nothing: use exact for an image";
            Err(campaign.error(&["procedure", "id"], reason))
        }
        None if is_exact => {
            let reason = "instructions are counted in a virtual machine: set image = [\"debian:PACKAGE\"] in [matrix], or host = \"vm:IMAGE\" in [dut]";
            Err(campaign.error(&["matrix"], reason))
        }
        _ => Ok(()),
    }
}

impl CountingMethod for campaign::Exact {
    fn check(&self, plan: &Plan) -> Result<(), LabError> {
        let campaign = plan.campaign();
        let wrong = |at: &[&str], reason: &str| Err(campaign.error(at, reason).into());
        if let Err((key, reason)) = campaign.procedure.check_counts() {
            return wrong(&["procedure", key], &reason);
        }
        if campaign.is_simulated() {
            let reason = "a simulated DUT executes no instructions; omit engine";
            return wrong(&["bed", "engine"], reason);
        }
        if campaign.sweep.is_some() {
            let reason = "exact has no sweep: list configurations in the matrix";
            return wrong(&["procedure", "sweep"], reason);
        }
        if campaign.cases.iter().any(|case| !case.variant.is_plain()) {
            let reason = "bursts are test frames in one direction: omit profiles, destinations, directions and modifiers";
            return wrong(&["matrix"], reason);
        }
        for case in &campaign.cases {
            let Some(line) = data_plane(plan, case)? else {
                continue;
            };
            line.needs()?;
            let kind = case.dut;
            if self.generator == Generator::Pktgen {
                let reason = format!("{kind} is counted with live frames only: omit generator");
                return wrong(&["procedure", "generator"], &reason);
            }
            if self.frames > MOST_FRAMES {
                let reason = format!(
                    "the frames of a burst wait for {kind} in its ring, which has room for {MOST_FRAMES}"
                );
                return wrong(&["procedure", "frames"], &reason);
            }
        }
        let mut cases = campaign.cases.iter();
        if !cases.any(|case| case.is_reference(&self.reference)) {
            let reason = format!(
                "the reference `{}` is not among the configurations and images of the matrix",
                self.reference
            );
            return wrong(&["procedure", "reference"], &reason);
        }
        Ok(())
    }

    fn controlled(&self, cases: &[Case]) -> Option<usize> {
        let mut cases = cases.iter();
        let reference = cases.position(|case| case.is_reference(&self.reference));
        self.control.then_some(reference.unwrap_or(0))
    }

    /// Returns one boot, and its share of the time if boots run in parallel.
    fn estimate(&self, plan: &Plan, measured: &[usize]) -> Result<(u32, Duration), LabError> {
        let most = plan.jobs.unwrap_or(usize::MAX);
        let all = &plan.campaign().cases;
        let image = measured.first().map(|&case| &all[case].image);
        let guest = match all.iter().filter(|case| Some(&case.image) == image).count() {
            // a control, or alone with its image
            0 | 1 => BOOT,
            sharing => CONTINUED + BOOT / sharing as u32,
        };
        Ok((1, guest / side_by_side().min(most) as u32))
    }

    fn method<'a>(&'a self, plan: &'a Plan, _: &'a Agenda) -> Box<dyn Method + 'a> {
        Box::new(Bursts::new(self, plan.jobs))
    }

    /// Counts have no noise.
    fn judge(&self, _: &Running<'_>, cases: &mut [TestCase], measured: &Measured) -> Noise {
        compare(cases, &self.reference, &controls(&measured.boots));
        Noise::none()
    }
}

/// Restores the counts by call path from before the run was interrupted; most boots have no
/// profile.
fn profiles_before(run: &Run<'_>, measured: &mut Measured) {
    let stacks = |boot: &BootRecord, name: &str| -> Option<Stacks> {
        let kept = run.writer.kept_raw(&boot.test_case, boot.boot, name).ok()?;
        String::from_utf8(kept).ok()?.parse().ok()
    };
    let profiles = measured.boots.iter().filter_map(|boot| {
        Some(BootProfile {
            boot: boot.boot,
            through: stacks(boot, THROUGH)?,
            past: stacks(boot, PAST)?,
        })
    });
    measured.profiles = profiles.collect();
}

/// Returns how many machines run in the time of one.
pub(in crate::run) fn side_by_side() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns how many machines run at a time if memory permits: twice the number of CPUs, so that no
/// CPU idles during the last boot of three, and that the machines get a larger share of the CPUs
/// next to other programs. Their clocks are their instructions, so that they do not disturb each
/// other.
fn at_a_time() -> usize {
    let machines = available_mib().unwrap_or(0) / u64::from(MEMORY_MIB);
    (2 * side_by_side()).min(machines.max(1) as usize)
}

/// Fails if the memory for this number of machines is not available.
pub(in crate::run) fn check_memory(machines: usize) -> Result<(), String> {
    let needed = (machines as u64).saturating_mul(MEMORY_MIB.into());
    match available_mib() {
        Some(available) if available < needed => Err(format!(
            "that many guests need {needed} MiB of memory, and {available} MiB are available. Use at most --jobs {}",
            (available / u64::from(MEMORY_MIB)).max(1)
        )),
        _ => Ok(()),
    }
}

/// Returns the memory that is available on this machine, and to this process by the limits of its
/// cgroups.
fn available_mib() -> Option<u64> {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = cgroup_available(Path::new("/sys/fs/cgroup"), &own).map(|bytes| bytes >> 20);
    let machine = number_after(&memory, "MemAvailable:").map(|kib| kib / 1024);
    machine.into_iter().chain(limit).min()
}

/// Returns the number of bytes that the cgroups of a process (`/proc/self/cgroup`), below this
/// directory, permit in addition (cgroup-v2.rst, "Memory Interface Files"); `None`: no limit.
fn cgroup_available(root: &Path, own: &str) -> Option<u64> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let of = |group: &Path| {
        let read = |name| std::fs::read_to_string(root.join(group).join(name)).ok();
        let number = |name| read(name)?.trim().parse::<u64>().ok();
        let limit = number("memory.max")?;
        // the kernel drops cached files first
        let cached = number_after(&read("memory.stat")?, "inactive_file")?;
        Some((limit + cached).saturating_sub(number("memory.current")?))
    };
    Path::new(own).ancestors().filter_map(of).min()
}

/// Returns the number in a line such as `MemAvailable:   21310464 kB`.
fn number_after(text: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.strip_prefix(key))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Files of an image.
#[derive(Debug, Clone)]
struct Files {
    kernel: PathBuf,
    initramfs: PathBuf,
    mitigations: bool,
}

/// What one boot measures.
struct BootRequest {
    turn: Turn,
    test_case: String,
    control: bool,
    case: Case,
    image: String,
    files: Files,
    configurations: Vec<Configuration>,
    /// The data plane that forwards instead of the kernel.
    data_plane: Option<CommandLine>,
    /// Counts by call path.
    plugin: Option<PathBuf>,
    /// The boot that it shares with the other test cases of its image and iteration, if any.
    shared: Option<Arc<SharedBoot>>,
}

/// A boot from whose state the test cases of an image continue, each in a guest of its own: made by
/// the first of them. The reason if its state could not be saved, so that they boot themselves.
type SharedBoot = OnceLock<Result<Arc<SavedState>, String>>;

/// A guest that has been started: it ends with its results.
type StartedGuest = JoinHandle<Result<Booted, LabError>>;

/// The guests of a run.
struct Bursts {
    p: campaign::Exact,
    /// Folder of kernels and file systems while they are needed.
    scratch: Option<Scratch>,
    images: BTreeMap<String, Files>,
    plugin: Option<PathBuf>,
    guests: Vec<(BootRequest, StartedGuest)>,
    /// By image and iteration, with the number of test cases that will continue from it.
    shared: BTreeMap<(String, u32), (usize, Arc<SharedBoot>)>,
    most: usize,
    /// Tells running guests to end: no one waits for them any more.
    is_over: Arc<AtomicBool>,
}

impl Bursts {
    /// Creates the method for a new run.
    fn new(p: &campaign::Exact, jobs: Option<usize>) -> Bursts {
        Bursts {
            p: p.clone(),
            scratch: None,
            images: BTreeMap::new(),
            plugin: None,
            guests: Vec::new(),
            shared: BTreeMap::new(),
            most: jobs.unwrap_or_else(at_a_time),
            is_over: Arc::default(),
        }
    }
}

impl Drop for Bursts {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        for (_, guest) in self.guests.drain(..) {
            let _ = guest.join();
        }
    }
}

impl Method for Bursts {
    fn before(
        &self,
        turn: Turn,
        running: &Running<'_>,
        measured: &Measured,
    ) -> Option<BTreeMap<usize, Iteration>> {
        let agenda = running.agenda;
        let name = &agenda.names[turn.case];
        let mut boots = measured.boots.iter();
        let made = boots.find(|boot| boot.test_case == *name && boot.iteration == turn.iteration);
        let made = iteration(made?);
        let cases = agenda.measures[turn.case].cases().iter();
        Some(cases.map(|&case| (case, made.clone())).collect())
    }

    fn begin(
        &mut self,
        running: &mut Running<'_>,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        if let Ok(version) = qemu::version() {
            let RunInfo { id, facts, .. } = &mut run.info;
            set_fact(id, &mut facts.placement, EMULATOR.into(), version)?;
        }
        let scratch = self.scratch.insert(Scratch::new()?);
        let found = images(running, scratch, run)?;
        // a resumed run compares them, after a kill, too
        run.writer.head(&run.info)?;
        for (case, of) in running.plan.campaign().cases.iter().enumerate() {
            if let Some(Err(reason)) = found.get(of.image.as_deref().unwrap_or_default()) {
                running.dropped.insert(case, Failure::from(reason.as_str()));
            }
        }
        let found = found.into_iter();
        self.images = found
            .filter_map(|(name, files)| Some((name, files.ok()?)))
            .collect();
        if self.p.profile {
            self.plugin = plugin(run)?;
        }
        profiles_before(run, measured);
        Ok(())
    }

    fn has_room(&self, under_way: usize) -> bool {
        under_way < self.most
    }

    /// Starts a guest.
    fn measure(
        &mut self,
        work: &Work,
        running: &mut Running<'_>,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<Option<Made>, LabError> {
        let (plan, turn) = (running.plan, work.turn);
        let (at, control) = running.agenda.measures[turn.case].subject();
        let case = &plan.campaign().cases[at];
        let image = case.image.clone().unwrap_or_default();
        // the control boots itself, so that it shows how far two boots are apart
        let shared = (!control).then(|| self.shared_boot(turn, &image, running, measured));
        let (Some(files), Some(scratch)) = (self.images.get(&image), &self.scratch) else {
            let reason = running.dropped.get(&at).map(|failure| failure.why.clone());
            let reason = LabError::Preflight(reason.unwrap_or_default());
            return Ok(Some(Made::failed(reason)));
        };
        let data_plane = match data_plane(plan, case) {
            Ok(data_plane) => data_plane,
            Err(error) => return Ok(Some(Made::failed(error))),
        };
        let configuration = match &data_plane {
            Some(line) => line.after.clone(),
            None => plan.configuration(&case.configuration).cloned(),
        };
        let requested = || BootRequest {
            turn,
            test_case: running.agenda.names[turn.case].clone(),
            control,
            case: case.clone(),
            image: image.clone(),
            files: files.clone(),
            configurations: configuration.iter().cloned().collect(),
            data_plane: data_plane.clone(),
            // boots of a test case are alike, and the control shows that a profile changes nothing
            plugin: (self.plugin.clone()).filter(|_| turn.iteration == 1 && !control),
            shared: shared.clone().flatten(),
        };
        let number = running.agenda.number(turn);
        let folder = scratch.folder(number);
        let (p, control, is_over) = (self.p.clone(), work.control.clone(), self.is_over.clone());
        let own = requested();
        let guest = std::thread::spawn(move || {
            let is_stopped = || control.is_stopped() || is_over.load(Ordering::Acquire);
            boot(&own, number, folder, &p, &control, &is_stopped)
        });
        self.guests.push((requested(), guest));
        run.record_event(EventKind::Progress {
            activity: format!("boot {} of {}", work.steps.0 + 1, work.steps.1),
            done: work.steps.0,
            steps: work.steps.1,
            left_s: work.left().as_secs_f64(),
            offered_load_pps: None,
            forwarding_rate_pps: None,
            estimate: None,
        })?;
        Ok(None)
    }

    fn wait(
        &mut self,
        running: &mut Running<'_>,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Option<(Turn, Result<Made, LabError>)> {
        let ended = loop {
            if self.guests.is_empty() {
                return None;
            }
            let mut process = self.guests.iter();
            if let Some(ended) = process.position(|(_, guest)| guest.is_finished()) {
                break ended;
            }
            // this reads requests
            running.control.is_stopped();
            std::thread::sleep(LOOK);
        };
        let (requested, guest) = self.guests.remove(ended);
        let booted = guest
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // hundreds of boots must not fill the disk
        if let Some(scratch) = &self.scratch {
            let folder = scratch.folder(running.agenda.number(requested.turn));
            let _ = std::fs::remove_dir_all(folder);
        }
        let made = match booted {
            Ok(booted) => self.keep(&requested, booted, run, measured),
            Err(error) => Ok(Made::failed(error)),
        };
        Some((requested.turn, made))
    }

    fn end(
        &mut self,
        _: &mut Running<'_>,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        measured.boots.sort_by_key(|record| record.boot);
        // in addition to rates: the run's engine is that of the rates
        if run.info.facts.engine.is_empty() {
            run.info.facts.engine = engine(&measured.boots);
        }
        Ok(())
    }
}

impl Bursts {
    /// Returns the boot from which a turn and others of its image and iteration continue; `None`:
    /// there are no others.
    fn shared_boot(
        &mut self,
        turn: Turn,
        image: &str,
        running: &Running<'_>,
        measured: &Measured,
    ) -> Option<Arc<SharedBoot>> {
        let key = (image.to_owned(), turn.iteration);
        let (left, boot) = self.shared.remove(&key).or_else(|| {
            let (agenda, cases) = (running.agenda, &running.plan.campaign().cases);
            let is_of_it = |other: &&Turn| {
                let (case, is_control) = agenda.measures[other.case].subject();
                let of = cases[case].image.as_deref().unwrap_or_default();
                (other.iteration, of, is_control) == (turn.iteration, image, false)
                    && self.before(**other, running, measured).is_none()
            };
            let left = agenda.turns.iter().filter(is_of_it).count();
            (left > 1).then(|| (left, Arc::default()))
        })?;
        if left > 1 {
            self.shared.insert(key, (left - 1, boot.clone()));
        }
        Some(boot)
    }

    /// Stores the results of a boot.
    fn keep(
        &mut self,
        requested: &BootRequest,
        booted: Booted,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<Made, LabError> {
        let Booted {
            record,
            console,
            profile,
            in_force,
            not_saved,
        } = booted;
        if let Some(reason) = not_saved {
            run.warn(format!(
                "every test case of {} boots by itself: {reason}",
                requested.image
            ))?;
        }
        for (name, says) in in_force {
            run.keep_in_force(&name, || Ok(says))?;
        }
        let profile = match profile.transpose() {
            Ok(profile) => profile,
            Err(reason) => {
                run.warn(format!("no profile of {}: {reason}", requested.test_case))?;
                None
            }
        };
        let mut files = vec![(CONSOLE, console)];
        if let Some([through, past]) = &profile {
            files.push((THROUGH, through.to_string()));
            files.push((PAST, past.to_string()));
        }
        for (name, text) in files {
            let (case, boot) = (&requested.test_case, record.boot);
            run.writer.raw(case, boot, name, text.as_bytes())?;
        }
        measured
            .profiles
            .extend(profile.map(|[through, past]| BootProfile {
                boot: record.boot,
                through,
                past,
            }));
        run.writer.trial(&record)?;
        let iteration = iteration(&record);
        run.record_event(EventKind::BootFinished {
            record: Box::new(record.clone()),
        })?;
        measured.boots.push(record);
        Ok(match requested.control {
            true => Made::default(),
            false => Made::one(requested.turn.case, iteration),
        })
    }
}

/// Describes what sent the bursts of these boots.
pub(in crate::run) fn engine<'a>(boots: impl IntoIterator<Item = &'a BootRecord>) -> String {
    let generators = boots.into_iter().filter_map(|boot| boot.generator);
    let names: BTreeSet<String> = generators.map(|one| one.to_string()).collect();
    let names: Vec<String> = names.into_iter().collect();
    match names.is_empty() {
        true => ACCELERATOR.to_string(),
        false => format!("{} in {ACCELERATOR}", names.join(" and ")),
    }
}

/// Returns the data plane in user space that a test case stands for, if it is one.
fn data_plane(plan: &Plan, case: &Case) -> Result<Option<CommandLine>, LabError> {
    let program = plan.campaign().dut.program.as_deref();
    CommandLine::of(case.dut, plan.configuration(&case.configuration), program)
}

/// Measures the cost of the same configurations in instructions, if that was requested in addition
/// to their rates. What cannot be counted causes only a warning.
///
/// # Errors
/// Fails if the run cannot be stored.
pub(in crate::run) fn count_instructions(
    plan: &Plan,
    control: &Control,
    run: &mut Run<'_>,
    measured: &mut Measured,
) -> Result<Vec<TestCase>, LabError> {
    let Procedure::Exact(p) = &plan.campaign().procedure else {
        return Ok(Vec::new());
    };
    let agenda = agenda(plan)?;
    let mut running = Running::new(plan, &agenda, control);
    match running.conduct(&mut Bursts::new(p, plan.jobs), run, measured) {
        Err(error @ LabError::Store(_)) => return Err(error),
        Err(error) => run.warn(format!("no instructions were counted: {error}"))?,
        Ok(()) => {}
    }
    let made = std::mem::take(&mut running.made).into_iter();
    let cases = plan.campaign().cases.iter().zip(made);
    let mut cases: Vec<TestCase> = cases
        .map(|(case, iterations)| plan.summarise(case, iterations))
        .collect();
    compare(&mut cases, &p.reference, &controls(&measured.boots));
    // they have one reference, and so one control
    if let Some(doubt) = cases.iter().find_map(|case| case.doubt.as_ref()) {
        run.warn(format!("of the instructions, {doubt}"))?;
    }
    for case in &cases {
        for (_, reason) in case.failures() {
            run.warn(format!(
                "no instructions of {}: {reason}",
                case.case.configuration
            ))?;
        }
    }
    Ok(cases)
}

/// Builds the plugin that counts by call path; if that fails, only the profiles are missing.
fn plugin(run: &mut Run<'_>) -> Result<Option<PathBuf>, LabError> {
    let built = Cache::for_user()
        .map_err(|e| e.to_string())
        .and_then(|cache| vm::plugin::build(cache.folder()).map_err(|e| e.to_string()))
        .and_then(|plugin| machine::takes_plugin(&plugin).map(|()| plugin));
    match built {
        Ok(plugin) => Ok(Some(plugin)),
        Err(reason) => {
            run.warn(format!("no profiles: {reason}"))?;
            Ok(None)
        }
    }
}

/// What the guests of a campaign need in addition to what all guests have.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::run) struct Contents {
    /// All words of the configurations: they name programs and modules.
    pub(in crate::run) words: BTreeSet<String>,
    /// Files of data planes.
    data_planes: BTreeSet<PathBuf>,
}

impl Contents {
    /// Returns the needs of all test cases, not only of those of a shard: counts of two shards are
    /// comparable only if their guests have the same initial file system.
    pub(in crate::run) fn of(plan: &Plan) -> Result<Contents, LabError> {
        let cases = &plan.campaign().cases;
        let applied = cases.iter().map(|case| &case.configuration);
        let applied = applied.filter_map(|name| plan.configuration(name));
        let mut contents = Contents {
            words: applied.flat_map(Configuration::words).collect(),
            data_planes: BTreeSet::new(),
        };
        for case in cases {
            if let Some(line) = data_plane(plan, case)? {
                let modules = line.of.modules.iter();
                contents
                    .words
                    .extend(modules.map(|module| (*module).to_owned()));
                contents.data_planes.extend(line.needs()?);
            }
        }
        Ok(contents)
    }
}

/// Prepares the files of every image; returns the reason for images that cannot be used.
fn images(
    running: &Running<'_>,
    scratch: &Scratch,
    run: &mut Run<'_>,
) -> Result<BTreeMap<String, Result<Files, String>>, LabError> {
    let cache = Cache::for_user().map_err(|e| LabError::Preflight(e.to_string()))?;
    let program =
        std::env::current_exe().map_err(|e| LabError::system("find the running program", e))?;
    let used: BTreeSet<usize> = running
        .agenda
        .measured()
        .map(|one| one.subject().0)
        .collect();
    let cases = used
        .into_iter()
        .map(|at| &running.plan.campaign().cases[at]);
    let mut requested = PROGRAMS.to_vec();
    let Contents { words, data_planes } = Contents::of(running.plan)?;
    let is_named = |program: &&&str| words.contains(**program);
    requested.extend(PROGRAMS_NAMED.iter().filter(is_named));
    let mut images = BTreeMap::new();
    for case in cases {
        let name = case.image.clone().unwrap_or_default();
        if images.contains_key(&name) {
            continue;
        }
        let mut notes = Vec::new();
        let mut report = |text: &str| notes.push(text.to_owned());
        let is_stopped = || running.control.is_stopped();
        let found = Image::find(&name, &cache, &mut report).and_then(|image| {
            let taken;
            let kernel = match &image.kind {
                ImageKind::Kernel(kernel) => kernel,
                ImageKind::Disk(disk) => {
                    taken = inside::kernel_of(disk, &cache, &mut report, &is_stopped)?;
                    &taken
                }
            };
            let recipe = Recipe {
                program: &program,
                kernel,
                wanted: &requested,
                words: &words,
                data_planes: &data_planes,
            };
            let initramfs = initramfs::build(&recipe, &cache, &mut report)?;
            // the console of a disk's own boot entry
            let entry = kernel.entry.as_ref();
            let console = entry.and_then(|entry| std::fs::read(entry.path(inside::CONSOLE)).ok());
            let words = image.words().into_iter();
            let mut words: Vec<String> =
                words.map(|(action, is)| format!("{action} {is}")).collect();
            if let ImageKind::Disk(_) = &image.kind {
                words.push(format!(
                    "its kernel {}, bzImage sha256 {}",
                    kernel.release, kernel.sha256
                ));
            }
            // with programs of this machine, such as nft, whose versions affect what is counted
            let content = std::fs::read(&initramfs)
                .map_err(|e| ImageError::system(format!("read {}", initramfs.display()), e))?;
            words.push(format!(
                "initial file system crc32 {:08x}",
                crc32fast::hash(&content)
            ));
            let files = Files {
                kernel: kernel.bzimage.clone(),
                initramfs,
                mitigations: image.mitigations,
            };
            Ok((files, words.join(", "), console))
        });
        if is_stopped() {
            return Err(LabError::Interrupted);
        }
        for text in notes {
            run.record_event(EventKind::Note { text })?;
        }
        let files = match found {
            Ok((files, words, console)) => {
                if let Some(console) = console {
                    let name = format!("images/{}/console", images.len() + 1);
                    run.keep(&name, ".log", &String::from_utf8_lossy(&console))?;
                }
                // keep it even if the cache removes it meanwhile
                let files = Files {
                    kernel: scratch.keep(&files.kernel)?,
                    initramfs: scratch.keep(&files.initramfs)?,
                    ..files
                };
                let RunInfo { id, facts, .. } = &mut run.info;
                set_fact(id, &mut facts.placement, format!("{IMAGE}{name}"), words)?;
                Ok(files)
            }
            Err(error) => Err(error.to_string()),
        };
        if let (Err(reason), true) = (&files, running.plan.is_one()) {
            return Err(LabError::Preflight(reason.clone()));
        }
        images.insert(name, files);
    }
    Ok(images)
}

/// Records a fact that affects what is counted. In a resumed run it must be the same as before.
fn set_fact(
    id: &str,
    facts: &mut BTreeMap<String, String>,
    name: String,
    words: String,
) -> Result<(), LabError> {
    match facts.get(&name).filter(|was| **was != words) {
        Some(was) => Err(resume::differs(id, &name, was, &words)),
        None => {
            facts.insert(name, words);
            Ok(())
        }
    }
}

/// Results of a boot.
struct Booted {
    record: BootRecord,
    console: String,
    /// Profiles of the middle bursts, through the DUT and past it, or the reason why there are
    /// none.
    profile: Option<Result<[Stacks; 2], String>>,
    /// Configurations by name, and which parts of them were in force.
    in_force: Vec<(String, BTreeMap<String, String>)>,
    /// The reason why a boot that test cases should share could not be saved.
    not_saved: Option<String>,
}

/// Makes the emulator count by call path.
struct Profiler {
    plugin: PathBuf,
    symbols: PathBuf,
    folder: PathBuf,
}

impl Profiler {
    fn new(plugin: &Path, folder: &Path) -> Profiler {
        Profiler {
            plugin: plugin.to_owned(),
            symbols: folder.join("symbols"),
            folder: folder.to_owned(),
        }
    }

    /// Returns the plugin argument in QEMU's syntax.
    fn argument(&self) -> OsString {
        vm::plugin::argument(&self.plugin, &self.folder, &self.symbols)
    }

    /// Writes the current symbol names of the guest's kernel, and of its data plane, to a file.
    fn name_functions(
        &self,
        host: &Remote,
        data_plane: Option<&data_plane::Running>,
    ) -> Result<(), LabError> {
        let mut symbols = vm::plugin::symbols(&host.read("/proc/kallsyms")?);
        if let Some(data_plane) = data_plane {
            symbols += &data_plane.symbols(host)?;
        }
        std::fs::write(&self.symbols, symbols)
            .map_err(|e| LabError::system(format!("write {}", self.symbols.display()), e))
    }

    /// Returns the counts of these bursts.
    fn read(&self, bursts: [usize; 2]) -> Result<[Stacks; 2], String> {
        let [through, past] = bursts.map(|burst| {
            let read =
                vm::plugin::section(&self.folder, burst as u32).map_err(|e| e.to_string())?;
            read.ok_or_else(|| format!("the emulator wrote nothing of burst {burst}"))
        });
        Ok([through?, past?])
    }
}

/// Boots a machine, configures it, and sends bursts until the median is known. Also returns its
/// console output.
fn boot(
    requested: &BootRequest,
    number: u32,
    folder: PathBuf,
    p: &campaign::Exact,
    control: &Control,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Booted, LabError> {
    let started_at = timestamp();
    let started = Instant::now();
    let profile = requested
        .plugin
        .as_ref()
        .map(|plugin| Profiler::new(plugin, &folder));
    let mut not_saved = None;
    let shared = requested.shared.as_ref().and_then(|shared| {
        let made = shared.get_or_init(|| {
            let made = save(
                &requested.boot(folder.with_extension("saved"), None, Start::ToSave),
                is_stopped,
            );
            made.map_err(|error| not_saved.insert(error.to_string()).clone())
        });
        made.clone().ok()
    });
    let plugin = profile.as_ref().map(Profiler::argument);
    let start = shared.map_or(Start::Cold, Start::Saved);
    let guest = requested.boot(folder, plugin, start);
    let machine = Arc::new(Machine::boot(&guest, is_stopped)?);
    let boot_s = started.elapsed().as_secs_f64();
    let bed = match guest.start {
        Start::Saved(_) => Bed::built_in_guest(&machine)?,
        Start::Cold | Start::ToSave => Bed::in_guest(&machine)?,
    };
    let data_plane = match (&requested.data_plane, bed.dut(0).place()) {
        (Some(line), Some(dut)) => {
            let ground = Ground {
                dut,
                ports: DUT_PORTS,
                frames: p.frames,
                networks: *bed.networks(),
                undo: bed.changes().clone(),
            };
            Some(data_plane::Running::start(line, &ground)?)
        }
        _ => None,
    };
    let own = data_plane.as_ref().and_then(data_plane::Running::dut);
    let dut = own.unwrap_or(&**bed.dut(0));
    let with_output = |error| match &data_plane {
        Some(data_plane) => data_plane.explain(error),
        None => error,
    };
    for configuration in &requested.configurations {
        let applied = dut.apply(configuration, control);
        applied.map_err(with_output)?;
    }
    let stream = &requested.case.stream;
    let host = machine.host();
    let addresses = bed.networks().forward();
    let poller = data_plane.as_ref().map(data_plane::Running::poller);
    let bursts = bursts::Bursts::open(&host, &addresses, stream, p.generator, poller)
        .map_err(with_output)?;
    bursts.rest(SETTLING)?;
    if let Some(profile) = &profile {
        profile.name_functions(&host, data_plane.as_ref())?;
    }
    let limit = Limit {
        time: BURST,
        is_stopped,
    };
    let spread = bed.spread()?;
    // the first burst is omitted from the result: it fills the caches of a data plane
    let mut slow_path = None;
    let read_slow_path = || match &data_plane {
        Some(data_plane) => data_plane.slow_path().map_err(with_output),
        None => Ok(None),
    };
    let mut made: Vec<BurstRecord> = Vec::new();
    while let Next::Burst(way) = next(&made, p, poller.is_some()) {
        let frames = match way {
            Way::Half => (p.frames / 2).next_multiple_of(campaign::Exact::BATCH),
            Way::Through | Way::Past => p.frames,
        };
        let burst = bursts.send(way, frames, limit).map_err(with_output)?;
        made.push(BurstRecord {
            way,
            sent: burst.sent,
            received: burst.received,
            instructions: burst.instructions,
        });
        if made.len() == 1 {
            slow_path = read_slow_path()?;
        }
    }
    let slow_path = slow_path.zip(read_slow_path()?);
    let ticks_per_instruction = machine.per_instruction();
    // read after all counting; only in the first boot, because all are alike
    let is_first = requested.turn.iteration == 1 && !requested.control && !lost_all_frames(&made);
    let configurations = requested.configurations.iter().filter(|_| is_first);
    let in_force = configurations
        .map(|one| Ok((one.name.clone(), dut.in_force(one)?)))
        .collect::<Result<Vec<_>, LabError>>()?;
    let mut reasons = objections(ticks_per_instruction, &made);
    reasons.extend(Spread::unused(&spread, &bed.spread()?));
    reasons.extend(slow_path.and_then(|(first, last)| mixture([first, last])));
    let profiled = match (&profile, middle(&made)) {
        (Some(profile), Some(middle)) if !lost_all_frames(&made) => Some(profile.read(middle)),
        _ => None,
    };
    let functions = match &profiled {
        Some(Ok([through, past])) => shares(through, past, p.frames),
        _ => Vec::new(),
    };
    let record = BootRecord {
        boot: number,
        started_at,
        test_case: requested.test_case.clone(),
        iteration: requested.turn.iteration,
        control: requested.control,
        shared: matches!(guest.start, Start::Saved(_)),
        image: requested.image.clone(),
        kernel: machine.kernel().to_owned(),
        generator: Some(bursts.generator()),
        ticks_per_instruction,
        boot_s,
        stream: stream.clone(),
        frames: p.frames,
        bursts: made,
        functions,
        validity: Validity { reasons },
    };
    Ok(Booted {
        record,
        console: machine.console(),
        profile: profiled,
        in_force,
        not_saved,
    })
}

impl BootRequest {
    fn boot(&self, folder: PathBuf, plugin: Option<OsString>, start: Start) -> Boot {
        Boot {
            name: self.image.clone(),
            kernel: self.files.kernel.clone(),
            initramfs: self.files.initramfs.clone(),
            mitigations: self.files.mitigations,
            cpus: 1,
            memory_mib: MEMORY_MIB,
            plugin,
            folder,
            start,
        }
    }
}

/// Boots a machine with a test bed, and saves its state. Nothing is left if that fails.
fn save(boot: &Boot, is_stopped: &dyn Fn() -> bool) -> Result<Arc<SavedState>, LabError> {
    let made = || {
        let machine = Arc::new(Machine::boot(boot, is_stopped)?);
        drop(Bed::in_guest(&machine)?);
        let machine = Arc::into_inner(machine).expect("its bed is gone");
        machine.save(is_stopped).map(Arc::new)
    };
    made().inspect_err(|_| {
        let _ = std::fs::remove_dir_all(&boot.folder);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another machine may resume a run if it has the same emulator and images.
    #[test]
    fn facts_of_a_resumed_run_are_those_of_its_beginning() {
        let mut facts = BTreeMap::new();
        let mut set = |words: &str| set_fact("run-1", &mut facts, EMULATOR.into(), words.into());
        set("7.2").unwrap();
        set("7.2").unwrap();
        let error = set("8.0").unwrap_err().to_string();
        assert!(
            error.contains("cannot resume run-1: emulator was 7.2 and is 8.0"),
            "{error}"
        );
    }

    #[test]
    fn memory_that_is_there() {
        let text = "MemTotal:       24000000 kB\nMemAvailable:   21310464 kB\n";
        assert_eq!(number_after(text, "MemAvailable:"), Some(21_310_464));
        assert_eq!(number_after("MemTotal: 1 kB\n", "MemAvailable:"), None);
        assert!(at_a_time() >= 1);
        let reason = check_memory(1 << 40).unwrap_err();
        assert!(reason.contains("Use at most --jobs "), "{reason}");
        check_memory(0).unwrap();
    }

    /// The smallest limit of all groups around the process counts, without cached files.
    #[test]
    fn cgroups_limit_memory() {
        let root = tempfile::tempdir().unwrap();
        let write = |group: &str, max: &str, current: u64| {
            let group = root.path().join(group);
            std::fs::create_dir_all(&group).unwrap();
            let files = [
                ("memory.max", max.to_owned()),
                ("memory.current", current.to_string()),
                ("memory.stat", "anon 9\ninactive_file 10\n".to_owned()),
            ];
            for (name, text) in files {
                std::fs::write(group.join(name), text).unwrap();
            }
        };
        let available = || cgroup_available(root.path(), "1:name=x:/z\n0::/job/step\n");
        assert_eq!(available(), None);
        write("job/step", "max\n", 500);
        assert_eq!(available(), None);
        write("job", "1000\n", 600);
        assert_eq!(available(), Some(410));
        write("job/step", "300\n", 500);
        assert_eq!(available(), Some(0));
    }
}
