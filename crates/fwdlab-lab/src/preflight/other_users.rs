//! Checks for other users of this machine: other labs, other programs, other machines on the same
//! hardware.
//!
//! Start with [`checks`]; [`labs`] and [`noise`] receive what they need from their caller.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_measure::gate::Gate;
use fwdlab_measure::trust::{OtherWork, STOLEN_PERCENT, stolen};
use fwdlab_model::probe::{MachineState, Reading};

use super::{Check, Status, text};

/// How long other processes are watched.
const WATCH: Duration = Duration::from_millis(300);
/// Reports that the kernel divides CPUs among sessions first (sched(7)): next to busy sessions the
/// sender then has only a share, whatever its niceness.
const AUTOGROUP: &str = "/proc/sys/kernel/sched_autogroup_enabled";
/// Command that changes it.
const BY_PRIORITY: &str = "sudo sysctl kernel.sched_autogroup_enabled=0, and afterwards =1";
/// Processes are listed from this share of one CPU.
const BUSY_PERCENT: f64 = 10.0;
/// Maximum number of busy processes to list.
const MOST_TOLD: usize = 5;
/// Flag of a thread of the kernel in `/proc/PID/stat`.
const PF_KTHREAD: u64 = 0x0020_0000;
/// Unit of the times in `/proc/PID/stat`: USER_HZ, 100 per second on every architecture we build
/// for.
const TICKS_PER_SECOND: f64 = 100.0;

/// A reading of the contention probe is at full speed from this share of the fast readings.
const FULL_SPEED: f64 = 0.95;
/// Shares of readings at full speed below which figures take longer, and below which they are
/// useless.
const NOISY_PERCENT: f64 = 80.0;
const TOO_NOISY_PERCENT: f64 = 30.0;

pub(super) fn checks() -> Vec<Check> {
    let watch = Watch::begin();
    thread::sleep(WATCH);
    let account = watch.account(&BTreeSet::new());
    let names = watch.before.processes.values();
    vec![
        irqbalance(names.map(|process| process.name.as_str())),
        other_work(&account, &text("/proc/loadavg").unwrap_or_default()),
    ]
}

/// Judges which labs exist on this host; `list` returns a short description of each.
pub fn labs(list: impl FnOnce() -> Result<Vec<String>, String>) -> Check {
    const NAME: &str = "labs";
    match list() {
        Ok(labs) if labs.is_empty() => Check::ok(NAME, "no other test bed on this host"),
        Ok(labs) => Check::warn(
            NAME,
            format!(
                "{} on this host: {}; two measurements at the same time disturb each other",
                labs.len(),
                labs.join(", ")
            ),
            "wait until they finish; remove unused ones with: fwdlab bed down",
        ),
        Err(error) => Check::skip(NAME, error),
    }
}

/// Measures for `duration` how steady a CPU is, and its distance from the others that frames cross
/// to. `reading` reads the probes (`probe::Probes`), on a thread that the caller has put on the CPU
/// in question.
pub fn noise(duration: Duration, mut reading: impl FnMut() -> Reading) -> Vec<Check> {
    let started = Instant::now();
    let mut readings = Vec::new();
    while started.elapsed() < duration {
        readings.push(reading());
        // a probe without pauses would itself be the noise
        thread::sleep(Duration::from_millis(2));
    }
    let mut speeds: Vec<f64> = readings.iter().map(|r| r.additions_per_ns).collect();
    vec![steadiness(&mut speeds), distance(&readings)]
}

/// Judges readings of the distance between CPUs.
fn distance(readings: &[Reading]) -> Check {
    const NAME: &str = "distance of CPUs";
    let mut states: Vec<MachineState> = Vec::new();
    for state in Gate::calibrate(readings).map_or_else(Vec::new, |gate| gate.states()) {
        let is_as_far = |other: &&mut MachineState| other.round_trip_ns == state.round_trip_ns;
        match states.iter_mut().find(is_as_far) {
            Some(known) => known.percent += state.percent,
            // the speed of the CPU has its own check
            None => states.push(MachineState {
                slowed: false,
                ..state
            }),
        }
    }
    let share = |state: &MachineState| format!("{state} ({:.0} %)", state.percent);
    let shares: Vec<String> = states.iter().map(share).collect();
    let is_read = |state: &MachineState| !state.round_trip_ns.is_empty();
    match &states[..] {
        _ if !states.iter().any(is_read) => Check::skip(
            NAME,
            "not read: it needs two CPUs and real-time priority (root)",
        ),
        [one] => Check::ok(
            NAME,
            format!("generator and DUT {one} (round trip of a cache line), constant"),
        ),
        _ => Check::warn(
            NAME,
            format!(
                "it changes: {}; the hypervisor moves the CPUs, and the forwarding rate changes with it. Results are for the \
                 most common state; the others are shown",
                shares.join(", ")
            ),
            "have the virtual CPUs pinned on the host (virsh vcpupin), or use a machine without a hypervisor",
        ),
    }
}

/// Judges readings of one CPU's speed.
fn steadiness(readings: &mut [f64]) -> Check {
    const NAME: &str = "noise";
    readings.sort_by(f64::total_cmp);
    // not the fastest: a single reading may be off
    let Some(&full) = readings
        .get(readings.len() * 9 / 10)
        .filter(|full| **full > 0.0)
    else {
        return Check::skip(NAME, "no readings");
    };
    let at_full_speed = readings
        .iter()
        .filter(|reading| **reading >= full * FULL_SPEED)
        .count();
    let percent = 100.0 * at_full_speed as f64 / readings.len() as f64;
    let finding = format!(
        "the DUT's CPU ran at full speed in {percent:.0} % of {} readings, down to {:.0} % in the slowest",
        readings.len(),
        100.0 * readings[0] / full
    );
    let status = match percent {
        p if p < TOO_NOISY_PERCENT => Status::Fail,
        p if p < NOISY_PERCENT => Status::Warn,
        _ => return Check::ok(NAME, finding),
    };
    Check {
        name: NAME,
        status,
        finding,
        fix: Some("stop other processes (top -d1), or use a machine without neighbours".into()),
    }
}

fn irqbalance<'a>(mut names: impl Iterator<Item = &'a str>) -> Check {
    const NAME: &str = "irqbalance";
    if names.any(|name| name == "irqbalance") {
        Check::warn(
            NAME,
            "running: it moves interrupts between CPUs during measurements",
            "sudo systemctl stop irqbalance",
        )
    } else {
        Check::ok(NAME, "not running")
    }
}

/// Judges what used the CPUs, and `/proc/loadavg`.
fn other_work(account: &Account, loadavg: &str) -> Check {
    const NAME: &str = "other work";
    let load = loadavg.split_whitespace().next().unwrap_or("unknown");
    let mut found: Vec<String> = account.description().into_iter().collect();
    let what_to_do = match found.is_empty() {
        true => "use a machine without neighbours".to_owned(),
        false => account.advice(),
    };
    if account.stolen_percent >= STOLEN_PERCENT {
        found.push(stolen(account.stolen_percent));
    }
    if found.is_empty() {
        return Check::ok(
            NAME,
            format!("no busy process (load average of the last minute: {load})"),
        );
    }
    Check::warn(NAME, found.join("; "), what_to_do)
}

/// Accounts for the CPU time of this machine since it was created.
pub struct Watch {
    before: CpuMoment,
    began: Instant,
}

impl Watch {
    /// Starts now.
    pub fn begin() -> Watch {
        Watch {
            before: CpuMoment::now(),
            began: Instant::now(),
        }
    }

    /// Returns what else used the CPUs since then, in words for the advice of a run: not these
    /// processes, which are the DUT.
    pub fn other_work(&self, of_dut: &BTreeSet<u32>) -> OtherWork {
        let account = self.account(of_dut);
        let processes = account.description().map(|users| {
            let what_to_do = account.advice();
            let (first, rest) = what_to_do.split_at(1);
            format!("{users}. {}{rest}", first.to_uppercase())
        });
        OtherWork {
            processes,
            interrupts_percent: account.interrupts_percent,
            stolen_percent: account.stolen_percent,
        }
    }

    fn account(&self, of_dut: &BTreeSet<u32>) -> Account {
        let elapsed = self.began.elapsed();
        Account {
            is_by_session: text(AUTOGROUP).is_some_and(|is| is.trim() == "1"),
            ..account(
                &self.before,
                &CpuMoment::now(),
                elapsed,
                std::process::id(),
                of_dut,
            )
        }
    }
}

/// The CPU times of a machine, in ticks since it started.
#[derive(Debug, Default)]
struct CpuMoment {
    processes: BTreeMap<u32, Process>,
    times: Times,
}

impl CpuMoment {
    fn now() -> CpuMoment {
        let times = text("/proc/stat").and_then(|stat| times(&stat));
        CpuMoment {
            processes: processes(),
            times: times.unwrap_or_default(),
        }
    }
}

/// The first line of `/proc/stat`.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Times {
    /// User, nice and system: time of tasks, including the kernel's.
    tasks: u64,
    /// Hard and soft interrupts.
    interrupts: u64,
    /// Time taken by the hypervisor.
    stolen: u64,
}

/// A process at one time.
#[derive(Debug, Clone, PartialEq)]
struct Process {
    name: String,
    /// The process that started it; 0 for the first processes of the kernel.
    parent: u32,
    /// A thread of the kernel, which may work for others or for us.
    of_kernel: bool,
    /// CPU time so far, user and system.
    ticks: u64,
    /// The same for its children that have ended.
    of_ended: u64,
    /// Start time: another process with the same number has another one.
    started: u64,
}

/// A process that takes time from us.
#[derive(Debug, PartialEq)]
struct Busy {
    pid: u32,
    name: String,
    /// Including its children that have ended.
    percent: f64,
    /// These children used more than the process itself.
    by_ended: bool,
    /// Neither init nor an ancestor of ours, such as the terminal.
    can_be_paused: bool,
}

/// What other processes used of the CPUs between two moments, in percent of one CPU.
#[derive(Debug, Default, PartialEq)]
struct Account {
    /// Processes that still exist and used a tenth of a CPU or more, the busiest first.
    busy: Vec<Busy>,
    /// All other processes: short-lived ones, nearly idle ones, and those that `/proc` does not
    /// show.
    rest_percent: f64,
    interrupts_percent: f64,
    stolen_percent: f64,
    /// The kernel divides CPUs among sessions, and the niceness of the sender counts only within
    /// ours.
    is_by_session: bool,
}

impl Account {
    /// Describes the processes; `None` when they used less than a tenth of a CPU together.
    fn description(&self) -> Option<String> {
        let mut list: Vec<String> = self.busy.iter().map(Busy::words).collect();
        if self.rest_percent >= BUSY_PERCENT {
            let of = match list.is_empty() {
                true => "short-lived processes, and processes below",
                false => "others, short-lived or below",
            };
            list.push(format!(
                "{of} {BUSY_PERCENT:.0} % each, {:.0} % of a CPU together",
                self.rest_percent
            ));
        }
        (!list.is_empty()).then(|| list.join(", "))
    }

    fn advice(&self) -> String {
        let pausable = self.busy.iter().filter(|busy| busy.can_be_paused);
        let pids: Vec<String> = pausable.map(|busy| busy.pid.to_string()).collect();
        let pids = pids.join(" ");
        let what_to_do = match pids.is_empty() {
            true => "wait for it, or look for what starts the newest processes: ps -eo ppid,pid,args --sort=-start_time | head"
                .into(),
            false => format!(
                "wait for it, or pause it: kill -STOP {pids}, and afterwards kill -CONT {pids}"
            ),
        };
        match self.is_by_session {
            true => format!("{what_to_do}; or have the sender go first: {BY_PRIORITY}"),
            false => what_to_do,
        }
    }
}

impl Busy {
    fn words(&self) -> String {
        let with = match self.by_ended {
            true => ", with short-lived processes that it started",
            false => "",
        };
        let Busy {
            name, pid, percent, ..
        } = self;
        format!("{name} ({pid}) {percent:.0} % of a CPU{with}")
    }
}

fn processes() -> BTreeMap<u32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, process(&text(&format!("/proc/{pid}/stat"))?)?))
        })
        .collect()
}

/// Reads `/proc/PID/stat`: `1 (name) S ...`, where the name may contain spaces and parentheses.
fn process(stat: &str) -> Option<Process> {
    let (_, rest) = stat.split_once('(')?;
    let (name, fields) = rest.rsplit_once(')')?;
    // fields of the whole line: 4 (parent), 9 (flags), 14 to 17 (utime, stime, cutime, cstime), 22
    // (starttime); the state, field 3, comes first here
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Process {
        name: name.into(),
        parent: u32::try_from(number(4)?).ok()?,
        of_kernel: number(9)? & PF_KTHREAD != 0,
        ticks: number(14)? + number(15)?,
        of_ended: number(16)? + number(17)?,
        started: number(22)?,
    })
}

/// Reads `/proc/stat`: `cpu user nice system idle iowait irq softirq steal ...`.
fn times(stat: &str) -> Option<Times> {
    let mut fields = stat.lines().next()?.split_whitespace();
    (fields.next()? == "cpu").then_some(())?;
    let fields: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    let at = |index: usize| fields.get(index).copied();
    Some(Times {
        tasks: at(0)? + at(1)? + at(2)?,
        interrupts: at(5)? + at(6)?,
        stolen: at(7)?,
    })
}

/// Returns true if process `pid` is `from`, or a descendant of it.
fn descends(all: &BTreeMap<u32, Process>, mut pid: u32, from: u32) -> bool {
    // a parent is older than its child, unless pids were reused: stop after the length of the list
    for _ in 0..all.len() {
        if pid == from {
            return true;
        }
        let Some(process) = all.get(&pid) else { break };
        pid = process.parent;
    }
    false
}

/// Returns the process that displays this measurement, if there is one (`fwdlab run` on a
/// terminal), else this one.
fn display_process(all: &BTreeMap<u32, Process>, ourselves: u32) -> u32 {
    let parent = all.get(&ourselves).map(|process| process.parent);
    let name = |pid: u32| all.get(&pid).map(|process| &process.name);
    parent
        .filter(|&parent| name(parent) == name(ourselves))
        .unwrap_or(ourselves)
}

/// Accounts for all CPU time between two moments: of processes that still exist, of those that
/// ended, and what only `/proc/stat` shows.
fn account(
    before: &CpuMoment,
    after: &CpuMoment,
    elapsed: Duration,
    ourselves: u32,
    of_dut: &BTreeSet<u32>,
) -> Account {
    let all = &after.processes;
    let known = |pid: u32, process: &Process| {
        let known = before.processes.get(&pid);
        known.filter(|known| known.started == process.started)
    };
    let is_there = |pid: u32| {
        (before.processes.get(&pid)).is_some_and(|known| {
            all.get(&pid)
                .is_some_and(|process| process.started == known.started)
        })
    };
    // a parent that waited for a process gets all of its CPU time: what it had used before is not
    // of this time
    let mut older_of: BTreeMap<u32, u64> = BTreeMap::new();
    for (&pid, process) in before.processes.iter().filter(|(pid, _)| !is_there(**pid)) {
        let parents =
            std::iter::successors(Some(pid), |pid| Some(before.processes.get(pid)?.parent));
        let heir = parents
            .take(before.processes.len() + 1)
            .find(|pid| is_there(*pid));
        *older_of.entry(heir.unwrap_or(0)).or_default() += process.ticks + process.of_ended;
    }
    let face = display_process(all, ourselves);
    let percent = |ticks: u64| 100.0 * ticks as f64 / TICKS_PER_SECOND / elapsed.as_secs_f64();
    let (mut busy, mut others, mut not_others) = (Vec::new(), 0, 0);
    for (&pid, process) in all {
        let (ticks, of_ended) = known(pid, process).map_or((0, 0), |p| (p.ticks, p.of_ended));
        let ticks = process.ticks.saturating_sub(ticks);
        let older = older_of.get(&pid).copied().unwrap_or(0);
        let of_ended = process.of_ended.saturating_sub(of_ended + older);
        if process.of_kernel || descends(all, pid, face) || of_dut.contains(&pid) {
            not_others += ticks + of_ended;
            continue;
        }
        others += ticks + of_ended;
        // what init waited for was started by another process
        let own = if pid == 1 { ticks } else { ticks + of_ended };
        if percent(own) >= BUSY_PERCENT {
            busy.push(Busy {
                pid,
                name: process.name.clone(),
                percent: percent(own),
                by_ended: own > 2 * ticks,
                can_be_paused: pid != 1 && !descends(all, ourselves, pid),
            });
        }
    }
    let since = |of: fn(&Times) -> u64| of(&after.times).saturating_sub(of(&before.times));
    // some were never waited for, and `/proc` may not show all
    let unseen = since(|times| times.tasks).saturating_sub(not_others);
    let others = others.max(unseen);
    busy.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    busy.truncate(MOST_TOLD);
    let reported: f64 = busy.iter().map(|busy| busy.percent).sum();
    Account {
        rest_percent: (percent(others) - reported).max(0.0),
        busy,
        interrupts_percent: percent(since(|times| times.interrupts)),
        stolen_percent: percent(since(|times| times.stolen)),
        is_by_session: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static NONE: BTreeSet<u32> = BTreeSet::new();

    #[test]
    fn irqbalance_is_found_among_processes() {
        assert_eq!(
            irqbalance(["systemd", "irqbalance", "sshd"].into_iter()).status,
            Status::Warn
        );
        assert_eq!(
            irqbalance(["systemd", "sshd"].into_iter()).status,
            Status::Ok
        );
    }

    #[test]
    fn processes_may_have_any_name() {
        let stat =
            "4242 (tmux: (server) x) S 1 4242 4242 0 -1 4194560 1 2 3 4 250 50 4 3 20 0 1 0 9 2 3";
        assert_eq!(
            process(stat),
            Some(Process {
                name: "tmux: (server) x".into(),
                parent: 1,
                of_kernel: false,
                ticks: 300,
                of_ended: 7,
                started: 9,
            })
        );
        assert_eq!(process("gone"), None);
        assert_eq!(process("1 (a) S 1"), None);
    }

    /// Returns a process of this name with this parent, and the time that it and its ended children
    /// used so far.
    fn task(name: &str, parent: u32, ticks: u64, of_ended: u64) -> Process {
        Process {
            name: name.into(),
            parent,
            of_kernel: false,
            ticks,
            of_ended,
            started: 1,
        }
    }

    /// Returns a moment with these processes; `/proc/stat` shows no more than they used.
    fn moment(processes: &[(u32, Process)]) -> CpuMoment {
        let used = processes.iter().map(|(_, p)| p.ticks + p.of_ended);
        CpuMoment {
            times: Times {
                tasks: used.sum(),
                ..Times::default()
            },
            processes: processes.iter().cloned().collect(),
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn busy_processes_are_named_the_busiest_first() {
        let at = |ticks: [u64; 4]| {
            let named = ["init", "rustc", "ffmpeg", "fwdlab"].into_iter().zip(ticks);
            let processes = (1..).zip(named.map(|(name, ticks)| task(name, 0, ticks, 0)));
            moment(&processes.collect::<Vec<_>>())
        };
        let (before, after) = (at([5, 100, 200, 0]), at([6, 120, 250, 50]));
        let found = account(&before, &after, Duration::from_millis(500), 4, &NONE);
        let named: Vec<(u32, f64)> = found.busy.iter().map(|b| (b.pid, b.percent)).collect();
        assert_eq!(named, [(3, 100.0), (2, 40.0)]);
        assert_eq!(found.rest_percent, 2.0);
        let check = other_work(&found, "2.73 2.87 2.55 3/113 29083");
        assert_eq!(check.status, Status::Warn);
        assert!(check.fix.is_some_and(|fix| fix.contains("kill -STOP 3 2")));
        let idle = other_work(&Account::default(), "0.05 0.10 0.07 1/99 4711");
        assert!(
            idle.status == Status::Ok && idle.finding.contains("0.05"),
            "{idle:?}"
        );
    }

    /// A compiler that started and ended within the measurement, and was waited for by a process
    /// that still exists, by init, or by one that `/proc` does not show.
    #[test]
    fn short_lived_processes_are_summed_up() {
        let make = |of_ended| (7, task("make", 1, 3, of_ended));
        let init = |of_ended| (1, task("init", 0, 10, of_ended));
        let us = (9, task("fwdlab", 1, 40, 0));
        let before = moment(&[init(100), make(50), us.clone()]);
        let found = |after: CpuMoment| account(&before, &after, SECOND, 9, &NONE);

        let by_make = found(moment(&[init(100), make(110), us.clone()]));
        let processes = by_make.description().unwrap();
        assert_eq!(
            processes,
            "make (7) 60 % of a CPU, with short-lived processes that it started"
        );
        assert!(by_make.advice().contains("kill -STOP 7"));
        assert!(!by_make.advice().contains("sysctl"));
        let by_session = Account {
            is_by_session: true,
            ..by_make
        };
        assert!(by_session.advice().contains("sched_autogroup_enabled=0"));

        // what init waited for does not count as init's, and init is never paused
        let orphans = found(moment(&[init(134), make(50), us.clone()]));
        let processes = orphans.description().unwrap();
        assert!(
            processes.contains("short-lived") && processes.contains("34 % of a CPU"),
            "{processes}"
        );
        assert!(!orphans.advice().contains("STOP"));

        let mut hidden = moment(&[init(100), make(50), us.clone()]);
        hidden.times.tasks += 45;
        let processes = found(hidden).description().unwrap();
        assert!(processes.contains("45 % of a CPU"), "{processes}");

        // many processes, each below the tenth of a CPU from which they are listed
        let small = |ticks| (20..26).map(move |pid| (pid, task("sh", 1, ticks, 0)));
        let before = moment(&small(0).chain([us.clone()]).collect::<Vec<_>>());
        let after = moment(&small(9).chain([us.clone()]).collect::<Vec<_>>());
        let processes = account(&before, &after, SECOND, 9, &NONE)
            .description()
            .unwrap();
        assert!(processes.contains("54 % of a CPU together"), "{processes}");

        // the earlier time of a process that ended is not counted again
        let old = (30, task("cc1", 7, 500, 0));
        let before = moment(&[init(100), make(50), us.clone(), old]);
        let after = |of_ended| moment(&[init(100), make(of_ended), us.clone()]);
        let rest = account(&before, &after(555), SECOND, 9, &NONE);
        assert_eq!((rest.busy.len(), rest.rest_percent), (0, 5.0));
        assert_eq!(rest.description(), None);
        let rest = account(&before, &after(580), SECOND, 9, &NONE);
        assert_eq!((rest.busy[0].percent, rest.rest_percent), (30.0, 0.0));
    }

    /// Time of the hypervisor and of interrupts belongs to no process.
    #[test]
    fn steal_and_interrupts_are_accounted_for() {
        let stat = "cpu  49199 10 8298 107976 573 5 85 44 7 0\ncpu0 1 2 3\n";
        let read = Times {
            tasks: 57507,
            interrupts: 90,
            stolen: 44,
        };
        assert_eq!(times(stat), Some(read));
        assert_eq!(times("intr 5"), None);
        assert_eq!(times("cpu 1 2"), None);
        let us = [(9, task("fwdlab", 1, 40, 0))];
        let (before, mut after) = (moment(&us), moment(&us));
        after.times.stolen += 12;
        after.times.interrupts += 30;
        let found = account(&before, &after, SECOND, 9, &NONE);
        assert_eq!(found.description(), None);
        assert_eq!(
            (found.stolen_percent, found.interrupts_percent),
            (12.0, 30.0)
        );
        let check = other_work(&found, "1.0");
        assert_eq!(check.status, Status::Warn);
        assert!(check.finding.contains("12 % of a CPU"), "{check:?}");
    }

    /// Our descendants and the screen count as ours; a thread of the kernel may work for us.
    #[test]
    fn own_and_kernel_processes_are_not_other_processes() {
        let at = |ticks: u64| -> CpuMoment {
            let processes = [
                (8, task("terminal", 1, ticks, 0)),
                (9, task("fwdlab", 8, ticks, 0)),
                (10, task("fwdlab", 9, ticks, 2 * ticks)),
                (11, task("sh", 10, ticks, 0)),
                (12, task("nft", 11, ticks, 0)),
                (
                    2,
                    Process {
                        of_kernel: true,
                        ..task("kthreadd", 0, ticks, 0)
                    },
                ),
                (13, task("p13", 1, ticks, 0)),
            ];
            moment(&processes)
        };
        let found = account(&at(0), &at(50), SECOND, 10, &NONE);
        let pids: Vec<u32> = found.busy.iter().map(|b| b.pid).collect();
        assert_eq!((pids, found.rest_percent), (vec![8, 13], 0.0));
        let users = found.description().unwrap();
        assert!(users.contains("p13 (13) 50 % of a CPU"), "{users}");
        // pausing the terminal would pause the measurement, too
        assert!(found.advice().contains("kill -STOP 13,"));
        // nor is the DUT another user
        let found = account(&at(0), &at(50), SECOND, 10, &BTreeSet::from([13]));
        assert_eq!((found.busy.len(), found.busy[0].pid), (1, 8));
        // another process with the number of one that ended started within the measurement
        let mut after = at(50);
        after.processes.get_mut(&13).unwrap().started = 2;
        after.processes.get_mut(&13).unwrap().ticks = 20;
        after.times.tasks -= 30;
        let found = account(&at(30), &after, SECOND, 10, &NONE);
        let named: Vec<(u32, f64)> = found.busy.iter().map(|b| (b.pid, b.percent)).collect();
        assert_eq!(named, [(8, 20.0), (13, 20.0)]);
        // a cycle of parents, which reused pids may form, terminates
        let mut ring = at(0).processes;
        ring.get_mut(&13).unwrap().parent = 13;
        assert!(!descends(&ring, 13, 10));
    }

    #[test]
    fn our_own_process_is_found() {
        assert!(processes().contains_key(&std::process::id()));
    }

    #[test]
    fn labs_come_from_the_caller() {
        assert_eq!(labs(|| Ok(vec![])).status, Status::Ok);
        let two = labs(|| Ok(vec!["7f3k (in use)".into(), "a2b4 (left behind)".into()]));
        assert!(
            two.status == Status::Warn && two.finding.contains("a2b4"),
            "{two:?}"
        );
        assert_eq!(labs(|| Err("no /run".into())).status, Status::Skip);
    }

    #[test]
    fn steadiness_is_a_share_of_readings() {
        let share = |slow: usize| {
            let mut readings: Vec<f64> =
                (0..100).map(|i| if i < slow { 2.0 } else { 4.0 }).collect();
            steadiness(&mut readings)
        };
        assert_eq!(share(0).status, Status::Ok);
        assert_eq!(share(10).status, Status::Ok);
        assert_eq!(share(50).status, Status::Warn);
        assert_eq!(share(80).status, Status::Fail);
        assert!(
            share(50)
                .finding
                .contains("50 % of 100 readings, down to 50 %"),
            "{:?}",
            share(50)
        );
        assert_eq!(steadiness(&mut []).status, Status::Skip);
    }

    #[test]
    fn changing_distances_are_reported_by_level() {
        let reading = |additions_per_ns, ns| Reading {
            additions_per_ns,
            distances_ns: vec![ns],
        };
        let of = |levels: &[(f64, usize)]| {
            let readings: Vec<Reading> = levels
                .iter()
                .flat_map(|&(ns, count)| vec![reading(4.0, ns); count])
                .collect();
            distance(&readings)
        };
        let steady = of(&[(118.0, 50)]);
        assert!(
            steady.status == Status::Ok && steady.finding.contains("118 ns apart"),
            "{steady:?}"
        );
        let slowed = Reading {
            additions_per_ns: 2.0,
            ..Reading::default()
        };
        assert_eq!(distance(&vec![slowed; 50]).status, Status::Skip);
        // a CPU that is slowed most of the time is not farther away
        let mut slowed: Vec<Reading> = vec![reading(2.0, 118.0); 80];
        slowed.extend(vec![reading(4.0, 118.0); 20]);
        let slowed = distance(&slowed);
        assert!(
            slowed.status == Status::Ok && slowed.finding.contains("118 ns apart ("),
            "{slowed:?}"
        );
        let moved = of(&[(118.0, 60), (475.0, 40)]);
        assert_eq!(moved.status, Status::Warn);
        assert!(
            moved
                .finding
                .contains("118 ns apart (60 %), 475 ns apart (40 %)"),
            "{moved:?}"
        );
        assert_eq!(of(&[]).status, Status::Skip);
    }

    #[test]
    fn noise_is_measured_for_as_long_as_asked() {
        let started = Instant::now();
        let reading = || Reading {
            additions_per_ns: 4.0,
            distances_ns: Vec::new(),
        };
        let checks = noise(Duration::from_millis(30), reading);
        assert_eq!(checks[0].status, Status::Ok);
        assert!(started.elapsed() >= Duration::from_millis(30));
    }
}
