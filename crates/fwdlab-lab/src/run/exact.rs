//! Campaigns by instructions: every iteration of a test case is a boot of its image, in which bursts are sent until their median is known.
//!
//! Nothing is timed, so boots go side by side, one for each CPU of this host. The reference is booted once more in every iteration, as A/A
//! control. Start with [`Running::by_instructions`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fwdlab_measure::campaign::{Turn, failure_of};
use fwdlab_measure::exact::{Next, is_dead, middle, next, outcome};
use fwdlab_measure::maxfwd::control_of;
use fwdlab_model::campaign::{self, Campaign, Case, Procedure};
use fwdlab_model::event::EventKind;
use fwdlab_model::file::FileError;
use fwdlab_model::instructions::{BootRecord, BurstRecord, FunctionShare, Way};
use fwdlab_model::result::Validity;
use fwdlab_model::stacks::Stacks;
use fwdlab_model::test_case::{Failure, Iteration, TestCase};

use super::campaign::Running;
use super::plan::{Plan, agenda};
use super::{BootProfile, Measured, PAUSE, Run, timestamp, verify};
use crate::bed::Bed;
use crate::dut::{Configuration, Spread};
use crate::error::LabError;
use crate::host::{Host, Limit, Remote};
use crate::tester::bursts::Bursts;
use crate::vm::image::cache::Cache;
use crate::vm::image::{Image, ImageKind, inside};
use crate::vm::initramfs::{self, Recipe};
use crate::vm::machine::{ACCELERATOR, Boot, Machine};
use crate::vm::scratch::Scratch;
use crate::vm::{machine, plugin};

/// What a boot takes with its bursts, on a quiet host.
const BOOT: Duration = Duration::from_secs(8);

/// Memory of a guest: its file system takes a tenth of it, and large tables have room.
const MEMORY_MIB: u32 = 1024;

/// Of more CPUs than this, some are left for others.
const MOST_SIDE_BY_SIDE: usize = 4;

/// A processor that counts instructions is no farther from one tick per instruction: what is measured is a loop and a few more.
const TICKS: std::ops::RangeInclusive<f64> = 0.999..=1.01;

/// What every guest has beside the usual.
const PROGRAMS: [&str; 2] = ["nft", "ethtool"];

/// What a guest has if a configuration names it, from a package if this machine does not have it.
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

/// Names of files with what was counted by call path, through the DUT and past it.
pub const THROUGH: &str = "through.folded";
pub(crate) const PAST: &str = "past.folded";

/// Functions that take fewer instructions per frame are not named one by one.
const LEAST: f64 = 0.05;

/// By the guest's clock: multicast groups are reported, routes of IPv6 looked through, memory is given back. In the first seconds that was
/// up to 7 instructions per frame of some bursts.
const SETTLING: Duration = Duration::from_secs(15);

/// Who executes a burst for longer than this hangs.
const BURST: Duration = Duration::from_secs(600);

/// Says what has no image, or an image that nothing can be done with.
pub(super) fn check_images(campaign: &Campaign) -> Result<(), FileError> {
    let is_exact = matches!(campaign.procedure, Procedure::Exact(_));
    let with_image = campaign.cases.iter().find(|case| case.image.is_some());
    match with_image {
        Some(_) if !is_exact => {
            let why = "an emulated machine has no rates that mean anything: on an image, say exact";
            Err(campaign.error(&["procedure", "id"], why))
        }
        None if is_exact => {
            let why = "instructions are counted in a virtual machine: say which with image = [\"debian:PACKAGE\"] in the matrix, or \
                       with host = \"vm:IMAGE\" in [dut]";
            Err(campaign.error(&["matrix"], why))
        }
        _ => Ok(()),
    }
}

/// Says what cannot be counted.
pub(super) fn check(plan: &Plan, p: &campaign::Exact) -> Result<(), FileError> {
    let campaign = plan.campaign();
    let counts = campaign.procedure.check_counts();
    counts.map_err(|(key, why)| campaign.error(&["procedure", key], why))?;
    if campaign.is_simulated() {
        let why = "a simulated DUT executes no instructions; omit engine";
        return Err(campaign.error(&["bed", "engine"], why));
    }
    if campaign.sweep.is_some() {
        let why = "exact has no sweep: list configurations in the matrix";
        return Err(campaign.error(&["procedure", "sweep"], why));
    }
    if campaign.cases.iter().any(|case| !case.variant.is_plain()) {
        let why = "bursts are of test frames one way: leave profiles, destinations, directions and modifiers out";
        return Err(campaign.error(&["matrix"], why));
    }
    let mut cases = campaign.cases.iter();
    match cases.any(|case| case.configuration == p.reference) {
        true => Ok(()),
        false => {
            let why = format!(
                "the reference `{}` is not among the configurations of the matrix",
                p.reference
            );
            Err(campaign.error(&["procedure", "reference"], why))
        }
    }
}

/// What is booted in an iteration: every test case, and the reference once more.
pub(super) fn names(plan: &Plan) -> Vec<String> {
    let campaign = plan.campaign();
    let mut names: Vec<String> = campaign.cases.iter().map(|case| plan.id(case)).collect();
    if plan.has_control() {
        names.push(control_of(&names[reference(plan)]));
    }
    names
}

/// The test case that is booted once more.
fn reference(plan: &Plan) -> usize {
    let campaign = plan.campaign();
    let Procedure::Exact(p) = &campaign.procedure else {
        return 0;
    };
    let mut cases = campaign.cases.iter();
    cases
        .position(|case| case.configuration == p.reference)
        .unwrap_or(0)
}

/// A boot, and the time that it takes beside others.
pub(super) fn estimate() -> (u32, Duration) {
    (1, BOOT / side_by_side() as u32)
}

/// What was counted by call path before the run was cut off; most boots have no profile.
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

/// What a boot of before the run was cut off found.
pub(super) fn made(test_case: &str, iteration: u32, boots: &[BootRecord]) -> Option<Iteration> {
    // the control has a name of its own
    let of_it = |boot: &&BootRecord| boot.test_case == test_case && boot.iteration == iteration;
    boots.iter().find(of_it).map(verify::of_boot)
}

/// So many machines take the time of one.
pub(super) fn side_by_side() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    cpus.min(MOST_SIDE_BY_SIDE)
}

/// So many machines run at a time, where they have the memory: twice as many as there are CPUs, so that none rests while the last one of
/// three boots, and that they have more of the CPUs beside other programs. Their clocks are their instructions: none is disturbed.
fn at_a_time() -> usize {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machines = available_kib(&memory).map_or(1, |kib| kib / 1024 / u64::from(MEMORY_MIB));
    (2 * side_by_side()).min(machines.max(1) as usize)
}

/// `MemAvailable:   21310464 kB`.
fn available_kib(meminfo: &str) -> Option<u64> {
    let mut lines = meminfo.lines();
    let rest = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
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
struct Wanted<'a> {
    turn: Turn,
    test_case: String,
    control: bool,
    case: &'a Case,
    image: &'a str,
    files: Files,
    configurations: Vec<&'a Configuration>,
    /// Counts by call path.
    plugin: Option<PathBuf>,
}

impl Running<'_> {
    /// Makes every boot; all is compared at the end, also when it was stopped.
    pub(super) fn by_instructions(
        &mut self,
        p: &campaign::Exact,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        let plan = self.plan;
        let campaign = plan.campaign();
        let scratch = Scratch::new()?;
        let images = self.images(&scratch, run)?;
        // beside rates, that of the rates is the run's
        let is_engine = run.info.facts.engine.is_empty();
        let mut generators: BTreeSet<String> = BTreeSet::new();
        let plugin = match p.profile {
            true => self.plugin(run)?,
            false => None,
        };
        let reference = reference(plan);
        let mut queue = VecDeque::new();
        for turn in &self.agenda.turns {
            let control = turn.case == campaign.cases.len();
            let name = &self.agenda.names[turn.case];
            if let Some(made) = made(name, turn.iteration, &measured.boots) {
                match control {
                    true => self.again.push(made),
                    false => self.made[turn.case].push(made),
                }
                continue;
            }
            let case = &campaign.cases[if control { reference } else { turn.case }];
            let image = case.image.as_deref().unwrap_or_default();
            let files = match &images[image] {
                Ok(files) => files.clone(),
                Err(why) => {
                    let why = why.clone();
                    self.keep_boot(
                        *turn,
                        control,
                        Iteration {
                            iteration: turn.iteration,
                            failure: Some(why),
                            ..Iteration::default()
                        },
                        run,
                    )?;
                    continue;
                }
            };
            queue.push_back(Wanted {
                turn: *turn,
                test_case: self.agenda.names[turn.case].clone(),
                control,
                case,
                image,
                files,
                configurations: plan.applied(case),
                // boots of a test case are alike, and the control shows that a profile changes nothing
                plugin: plugin.clone().filter(|_| turn.iteration == 1 && !control),
            });
        }
        let steps = queue.len();
        let began = Instant::now();
        let queue = Mutex::new(queue);
        let is_ended = AtomicBool::new(false);
        let control = self.control;
        let is_stopped = || control.is_stopped() || is_ended.load(Ordering::Acquire);
        profiles_before(run, measured);
        let before = measured.boots.iter().map(|boot| boot.boot).max();
        let boots = std::sync::atomic::AtomicU32::new(before.unwrap_or(0));
        std::thread::scope(|scope| {
            let (made, all) = channel();
            for _ in 0..at_a_time() {
                let made = made.clone();
                scope.spawn(|| {
                    let made = made;
                    loop {
                        while control.is_paused() {
                            std::thread::sleep(PAUSE);
                        }
                        let next = queue
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .pop_front();
                        let Some(wanted) = next.filter(|_| !is_stopped()) else {
                            return;
                        };
                        let number = boots.fetch_add(1, Ordering::Relaxed) + 1;
                        let folder = scratch.folder(number);
                        let record = boot(&wanted, number, folder, p, control, &is_stopped);
                        if made.send((wanted, record)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(made);
            let mut done = 0;
            let mut result = Ok(());
            for (wanted, record) in all {
                done += 1;
                if let Ok(booted) = &record {
                    generators.insert(booted.generator.clone());
                }
                let kept = self.kept(&wanted, record, run, measured);
                let left = began.elapsed() / done as u32 * (steps - done) as u32;
                let told = kept.and_then(|()| {
                    run.tell(EventKind::Progress {
                        activity: format!("boot {done} of {steps}"),
                        done: done as u32,
                        steps: steps as u32,
                        left_s: left.as_secs_f64(),
                        offered_load_pps: None,
                        forwarding_rate_pps: None,
                        estimate: None,
                    })
                });
                if let (Err(error), true) = (told, result.is_ok()) {
                    is_ended.store(true, Ordering::Release);
                    result = Err(error);
                }
            }
            measured.boots.sort_by_key(|record| record.boot);
            let names: Vec<String> = generators.into_iter().collect();
            if is_engine {
                run.info.facts.engine = match names.is_empty() {
                    true => ACCELERATOR.to_string(),
                    false => format!("{} in {ACCELERATOR}", names.join(" and ")),
                };
            }
            if names.len() > 1 && result.is_ok() {
                run.warn(format!(
                    "kernels were sent frames by {}, which differ by more than the kernels: say generator = \"pktgen\" for all of them",
                    names.join(" and ")
                ))?;
            }
            match result {
                Err(LabError::Interrupted) => Ok(()),
                result => result,
            }
        })
    }

    /// The plugin that counts by call path; what is missing costs the profiles and nothing else.
    fn plugin(&self, run: &mut Run<'_>) -> Result<Option<PathBuf>, LabError> {
        let built = Cache::of_user()
            .map_err(|e| e.to_string())
            .and_then(|cache| plugin::build(cache.folder()).map_err(|e| e.to_string()))
            .and_then(|plugin| machine::takes_plugin(&plugin).map(|()| plugin));
        match built {
            Ok(plugin) => Ok(Some(plugin)),
            Err(why) => {
                run.warn(format!("no profiles: {why}"))?;
                Ok(None)
            }
        }
    }

    /// What the same configurations cost in instructions, where that is wanted beside their rates. What cannot be counted is warned of,
    /// and costs nothing else.
    pub(super) fn beside(
        &self,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<Vec<TestCase>, LabError> {
        let (Some(plan), false) = (self.plan.beside()?, self.control.is_stopped()) else {
            return Ok(Vec::new());
        };
        let Procedure::Exact(p) = &plan.campaign().procedure else {
            return Ok(Vec::new());
        };
        let agenda = agenda(&plan)?;
        let mut running = Running::new(&plan, &agenda, self.control);
        match running.by_instructions(p, run, measured) {
            Err(error @ LabError::Store(_)) => return Err(error),
            Err(error) => run.warn(format!("no instructions were counted: {error}"))?,
            Ok(()) => {}
        }
        let made = std::mem::take(&mut running.made).into_iter();
        let cases = plan.campaign().cases.iter().zip(made);
        let mut cases: Vec<TestCase> = cases
            .map(|(case, iterations)| plan.summarise(case, iterations))
            .collect();
        fwdlab_measure::exact::compare(&mut cases, &p.reference, &running.again);
        // they have one reference, and so one control
        if let Some(doubt) = cases.iter().find_map(|case| case.doubt.as_ref()) {
            run.warn(format!("of the instructions, {doubt}"))?;
        }
        for case in &cases {
            for (_, why) in case.failures() {
                run.warn(format!(
                    "no instructions of {}: {why}",
                    case.case.configuration
                ))?;
            }
        }
        Ok(cases)
    }

    /// Files of every image; of an image that is none, why.
    fn images(
        &self,
        scratch: &Scratch,
        run: &mut Run<'_>,
    ) -> Result<BTreeMap<String, Result<Files, String>>, LabError> {
        let cache = Cache::of_user().map_err(|e| LabError::Preflight(e.to_string()))?;
        let program =
            std::env::current_exe().map_err(|e| LabError::system("find the running program", e))?;
        let cases = &self.plan.campaign().cases;
        let mut wanted = PROGRAMS.to_vec();
        let applied = cases.iter().flat_map(|case| self.plan.applied(case));
        let words: BTreeSet<String> = applied.flat_map(Configuration::words).collect();
        let is_named = |program: &&&str| words.contains(**program);
        wanted.extend(PROGRAMS_NAMED.iter().filter(is_named));
        let mut images = BTreeMap::new();
        for case in cases {
            let name = case.image.clone().unwrap_or_default();
            if images.contains_key(&name) {
                continue;
            }
            let mut notes = Vec::new();
            let mut tell = |text: &str| notes.push(text.to_owned());
            let is_stopped = || self.control.is_stopped();
            let found = Image::find(&name, &cache, &mut tell).and_then(|image| {
                let taken;
                let kernel = match &image.kind {
                    ImageKind::Kernel(kernel) => kernel,
                    ImageKind::Disk(disk) => {
                        taken = inside::kernel_of(disk, &cache, &mut tell, &is_stopped)?;
                        &taken
                    }
                };
                let recipe = Recipe {
                    program: &program,
                    kernel,
                    wanted: &wanted,
                    words: &words,
                };
                let initramfs = initramfs::build(&recipe, &cache, &mut tell)?;
                // of a disk's own boot
                let entry = kernel.entry.as_ref();
                let console =
                    entry.and_then(|entry| std::fs::read(entry.path(inside::CONSOLE)).ok());
                let words = image.words().into_iter();
                let mut words: Vec<String> =
                    words.map(|(what, is)| format!("{what} {is}")).collect();
                if let ImageKind::Disk(_) = &image.kind {
                    words.push(format!(
                        "its kernel {}, bzImage sha256 {}",
                        kernel.release, kernel.sha256
                    ));
                }
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
                run.tell(EventKind::Note { text })?;
            }
            let files = match found {
                Ok((files, words, console)) => {
                    if let Some(console) = console {
                        let name = format!("images/{}/console", images.len() + 1);
                        run.keep(&name, ".log", &String::from_utf8_lossy(&console))?;
                    }
                    // what the cache forgets meanwhile is still wanted
                    let files = Files {
                        kernel: scratch.keep(&files.kernel)?,
                        initramfs: scratch.keep(&files.initramfs)?,
                        ..files
                    };
                    let placement = &mut run.info.facts.placement;
                    placement.insert(format!("image {name}"), words);
                    Ok(files)
                }
                Err(error) => Err(error.to_string()),
            };
            if let (Err(why), true) = (&files, self.plan.is_one()) {
                return Err(LabError::Preflight(why.clone()));
            }
            images.insert(name, files);
        }
        Ok(images)
    }

    /// Keeps what came of a boot.
    fn kept(
        &mut self,
        wanted: &Wanted<'_>,
        made: Result<Booted, LabError>,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        let iteration = match made {
            Ok(Booted {
                record,
                console,
                profile,
                generator: _,
                in_force,
            }) => {
                for (name, says) in in_force {
                    run.keep_in_force(&name, || Ok(says))?;
                }
                let profile = match profile.transpose() {
                    Ok(profile) => profile,
                    Err(why) => {
                        run.warn(format!("no profile of {}: {why}", wanted.test_case))?;
                        None
                    }
                };
                let mut files = vec![("console.log", console)];
                if let Some([through, past]) = &profile {
                    files.push((THROUGH, through.to_string()));
                    files.push((PAST, past.to_string()));
                }
                for (name, text) in files {
                    let (case, boot) = (&wanted.test_case, record.boot);
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
                let outcomes = vec![outcome(&wanted.case.stream, &record)];
                let failure = failure_of(&outcomes);
                run.tell(EventKind::BootFinished {
                    record: Box::new(record.clone()),
                })?;
                let trials = vec![record.boot];
                measured.boots.push(record);
                Iteration {
                    iteration: wanted.turn.iteration,
                    failure,
                    outcomes,
                    trials,
                    ..Iteration::default()
                }
            }
            Err(error @ LabError::Interrupted) => return Err(error),
            Err(error) if self.plan.is_ended_by(&error) => return Err(error),
            Err(error) => Iteration {
                iteration: wanted.turn.iteration,
                ..Iteration::default()
            }
            .with(Some(Failure::from(&error))),
        };
        self.keep_boot(wanted.turn, wanted.control, iteration, run)
    }

    fn keep_boot(
        &mut self,
        turn: Turn,
        control: bool,
        iteration: Iteration,
        run: &mut Run<'_>,
    ) -> Result<(), LabError> {
        if control {
            self.again.push(iteration);
            return Ok(());
        }
        run.tell(EventKind::IterationFinished {
            test_case: self.agenda.names[turn.case].clone(),
            iteration: Box::new(iteration.clone()),
        })?;
        let made = &mut self.made[turn.case];
        made.push(iteration);
        made.sort_by_key(|one| one.iteration);
        Ok(())
    }
}

/// What came of a boot.
struct Booted {
    record: BootRecord,
    console: String,
    /// Of the bursts in the middle, through the DUT and past it; or why there is none.
    profile: Option<Result<[Stacks; 2], String>>,
    /// What sent the bursts, in words.
    generator: String,
    /// Configurations by name, and what of them was in force.
    in_force: Vec<(String, BTreeMap<String, String>)>,
}

/// Has the emulator count by call path.
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

    /// As QEMU takes it.
    fn argument(&self) -> OsString {
        plugin::argument(&self.plugin, &self.folder, &self.symbols)
    }

    /// Writes down what the functions of the guest's kernel are called now.
    fn name_functions(&self, host: &Remote) -> Result<(), LabError> {
        let symbols = host.read("/proc/kallsyms")?;
        std::fs::write(&self.symbols, symbols)
            .map_err(|e| LabError::system(format!("write {}", self.symbols.display()), e))
    }

    /// What was counted in these bursts.
    fn read(&self, bursts: [usize; 2]) -> Result<[Stacks; 2], String> {
        let [through, past] = bursts.map(|burst| {
            let read = plugin::section(&self.folder, burst as u32).map_err(|e| e.to_string())?;
            read.ok_or_else(|| format!("the emulator wrote nothing of burst {burst}"))
        });
        Ok([through?, past?])
    }
}

/// What each function of the DUT takes for a frame: what it takes on the whole way less what it takes past the DUT.
fn shares(through: &Stacks, past: &Stacks, frames: u32) -> Vec<FunctionShare> {
    let per = |stacks: &Stacks| stacks.per(frames.into());
    let rows = fwdlab_model::stacks::difference(&per(past), &per(through));
    let mut shares: Vec<FunctionShare> = (rows.into_iter())
        .filter(|row| row.difference().abs() >= LEAST)
        .map(|row| FunctionShare {
            per_frame: row.difference(),
            function: row.function,
        })
        .collect();
    shares.sort_by(|a, b| b.per_frame.total_cmp(&a.per_frame));
    shares
}

/// Boots a machine, makes it what is wanted, and sends bursts until enough is known; with what its console said.
fn boot(
    wanted: &Wanted<'_>,
    number: u32,
    folder: PathBuf,
    p: &campaign::Exact,
    control: &super::Control,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Booted, LabError> {
    let started_at = timestamp();
    let began = Instant::now();
    let profile = wanted
        .plugin
        .as_ref()
        .map(|plugin| Profiler::new(plugin, &folder));
    let machine = Arc::new(Machine::boot(
        &Boot {
            name: wanted.image.to_owned(),
            kernel: wanted.files.kernel.clone(),
            initramfs: wanted.files.initramfs.clone(),
            mitigations: wanted.files.mitigations,
            cpus: 1,
            memory_mib: MEMORY_MIB,
            plugin: profile.as_ref().map(Profiler::argument),
            folder,
        },
        is_stopped,
    )?);
    let boot_s = began.elapsed().as_secs_f64();
    let bed = Bed::in_guest(&machine)?;
    for configuration in &wanted.configurations {
        bed.dut(0).apply(configuration, control)?;
    }
    let stream = &wanted.case.stream;
    let host = machine.host();
    let addresses = bed.networks().forward();
    let bursts = Bursts::open(&host, &addresses, stream, p.generator)?;
    bursts.rest(SETTLING)?;
    if let Some(profile) = &profile {
        profile.name_functions(&host)?;
    }
    let limit = Limit {
        time: BURST,
        is_stopped,
    };
    let spread = bed.spread()?;
    let mut made: Vec<BurstRecord> = Vec::new();
    while let Next::Burst(way) = next(&made, p) {
        let burst = bursts.send(way, p.frames, limit)?;
        made.push(BurstRecord {
            way,
            sent: burst.sent,
            received: burst.received,
            instructions: burst.instructions,
        });
        if is_dead(&made) {
            break;
        }
    }
    let ticks_per_instruction = machine.per_instruction();
    // when nothing is counted any more; of the first boot, as all are alike
    let is_first = wanted.turn.iteration == 1 && !wanted.control && !is_dead(&made);
    let configurations = wanted.configurations.iter().filter(|_| is_first);
    let in_force = configurations
        .map(|one| Ok((one.name.clone(), bed.dut(0).in_force(one)?)))
        .collect::<Result<Vec<_>, LabError>>()?;
    let mut validity = Validity::default();
    if !TICKS.contains(&ticks_per_instruction) {
        validity.reasons.push(format!(
            "the machine's counter advances by {ticks_per_instruction:.3} per instruction and not by 1: it does not count them"
        ));
    }
    (validity.reasons).extend(Spread::unused(&spread, &bed.spread()?));
    let past = made.iter().filter(|burst| burst.way == Way::Past);
    if past.clone().any(|burst| burst.received < burst.sent) {
        let why = "frames were lost between generator and receiver, past the DUT";
        validity.reasons.push(why.into());
    }
    let profiled = match (&profile, middle(&made)) {
        (Some(profile), Some(middle)) if !is_dead(&made) => Some(profile.read(middle)),
        _ => None,
    };
    let functions = match &profiled {
        Some(Ok([through, past])) => shares(through, past, p.frames),
        _ => Vec::new(),
    };
    let record = BootRecord {
        boot: number,
        started_at,
        test_case: wanted.test_case.clone(),
        iteration: wanted.turn.iteration,
        control: wanted.control,
        image: wanted.image.to_owned(),
        kernel: machine.kernel().to_owned(),
        ticks_per_instruction,
        boot_s,
        stream: stream.clone(),
        frames: p.frames,
        bursts: made,
        functions,
        validity,
    };
    Ok(Booted {
        record,
        console: machine.console(),
        profile: profiled,
        generator: bursts.generator().to_owned(),
        in_force,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_there() {
        let text = "MemTotal:       24000000 kB\nMemAvailable:   21310464 kB\n";
        assert_eq!(available_kib(text), Some(21_310_464));
        assert_eq!(available_kib("MemTotal: 1 kB\n"), None);
        assert!(at_a_time() >= 1);
    }
}
