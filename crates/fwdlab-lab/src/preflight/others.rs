//! Does anything else use this machine: other labs, other programs, other machines on the same hardware?
//!
//! Start with [`checks`]; [`labs`] and [`noise`] take what they need from their caller.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_measure::gate::Gate;
use fwdlab_model::probe::{MachineState, Reading};

use super::{Check, Status, text};

/// How long other processes are watched.
const WATCH: Duration = Duration::from_millis(300);
/// A process that takes this share of one CPU is worth a word.
const BUSY_PERCENT: f64 = 10.0;
/// So many busy processes are told in the advice of a run.
const MOST_TOLD: usize = 5;
/// Flag of a thread of the kernel in `/proc/PID/stat`.
const PF_KTHREAD: u64 = 0x0020_0000;
/// Unit of the times in `/proc/PID/stat`: USER_HZ, 100 per second on every architecture we build for.
const TICKS_PER_SECOND: f64 = 100.0;

/// A reading of the contention probe is at full speed when it is at least so much of the fast ones.
const FULL_SPEED: f64 = 0.95;
/// Share of readings at full speed below which figures take longer, and below which they are not worth having.
const NOISY_PERCENT: f64 = 80.0;
const TOO_NOISY_PERCENT: f64 = 30.0;

pub(super) fn checks() -> Vec<Check> {
    let before = processes();
    let began = Instant::now();
    thread::sleep(WATCH);
    let after = processes();
    let busy = busy(&before, &after, began.elapsed(), std::process::id());
    vec![
        irqbalance(after.values().map(|process| process.name.as_str())),
        other_work(&busy, &text("/proc/loadavg").unwrap_or_default()),
    ]
}

/// Judges which labs stand on this host; `list` finds them and names each in a few words.
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

/// Measures for `duration` how steady a CPU is, and how far from the others that frames cross to: `reading` reads the probes
/// (`probe::Probes`), on a thread that the caller has put on the CPU in question.
pub fn noise(duration: Duration, mut reading: impl FnMut() -> Reading) -> Vec<Check> {
    let began = Instant::now();
    let mut readings = Vec::new();
    while began.elapsed() < duration {
        readings.push(reading());
        // a probe that never pauses would be the noise
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
            // how fast the CPU is stands in a check of its own
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

/// Judges the busy processes and `/proc/loadavg`.
fn other_work(busy: &[Busy], loadavg: &str) -> Check {
    const NAME: &str = "other work";
    let load = loadavg.split_whitespace().next().unwrap_or("unknown");
    if busy.is_empty() {
        return Check::ok(
            NAME,
            format!("no busy process (load average of the last minute: {load})"),
        );
    }
    let (who, what_to_do) = told(busy);
    Check::warn(NAME, who, what_to_do)
}

/// Busy processes in words, and what to do about them.
fn told(busy: &[Busy]) -> (String, String) {
    let list: Vec<String> = busy
        .iter()
        .map(|b| format!("{} ({}) {:.0} % of a CPU", b.name, b.pid, b.percent))
        .collect();
    let pids: Vec<String> = busy.iter().map(|b| b.pid.to_string()).collect();
    let pids = pids.join(" ");
    let what_to_do =
        format!("wait for it, or pause it: kill -STOP {pids}, and afterwards kill -CONT {pids}");
    (list.join(", "), what_to_do)
}

/// Watches from its making on who else uses this machine's CPUs.
pub struct Watch {
    before: BTreeMap<u32, Process>,
    began: Instant,
}

impl Watch {
    /// Begins now.
    pub fn begin() -> Watch {
        Watch {
            before: processes(),
            began: Instant::now(),
        }
    }

    /// Who was busy since, and what to do about it; `None` when nobody was. Processes that began or ended meanwhile are not seen.
    pub fn told(&self) -> Option<String> {
        let elapsed = self.began.elapsed();
        let mut busy = busy(&self.before, &processes(), elapsed, std::process::id());
        busy.truncate(MOST_TOLD);
        let (who, what_to_do) = told(&busy);
        (!busy.is_empty()).then(|| {
            format!(
                "{who}. {}{}",
                what_to_do[..1].to_uppercase(),
                &what_to_do[1..]
            )
        })
    }
}

/// A process at one time.
#[derive(Debug, PartialEq)]
struct Process {
    name: String,
    /// The process that started it; 0 for what the kernel began with.
    parent: u32,
    /// A thread of the kernel: it works for others, or for us.
    of_kernel: bool,
    /// CPU time so far, user and system.
    ticks: u64,
}

/// A process that takes time from us.
#[derive(Debug, PartialEq)]
struct Busy {
    pid: u32,
    name: String,
    percent: f64,
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

/// Reads `/proc/PID/stat`: `1 (name) S ...`, where the name may hold spaces and parentheses.
fn process(stat: &str) -> Option<Process> {
    let (_, rest) = stat.split_once('(')?;
    let (name, fields) = rest.rsplit_once(')')?;
    // fields 4 (parent), 9 (flags), 14 and 15 (utime, stime) of the whole line; the state, field 3, comes first here
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let (user, system) = (number(14)?, number(15)?);
    Some(Process {
        name: name.into(),
        parent: u32::try_from(number(4)?).ok()?,
        of_kernel: number(9)? & PF_KTHREAD != 0,
        ticks: user + system,
    })
}

/// Is a process this one, or started by it, or by what it started?
fn descends(all: &BTreeMap<u32, Process>, mut pid: u32, from: u32) -> bool {
    // a parent is older than its child, but for pids that were given again: no longer than the list
    for _ in 0..all.len() {
        if pid == from {
            return true;
        }
        let Some(process) = all.get(&pid) else { break };
        pid = process.parent;
    }
    false
}

fn busy(
    before: &BTreeMap<u32, Process>,
    after: &BTreeMap<u32, Process>,
    elapsed: Duration,
    ourselves: u32,
) -> Vec<Busy> {
    let mut busy: Vec<Busy> = after
        .iter()
        .filter(|(pid, process)| !process.of_kernel && !descends(after, **pid, ourselves))
        .filter_map(|(&pid, process)| {
            let ticks = process.ticks.checked_sub(before.get(&pid)?.ticks)?;
            let percent = 100.0 * ticks as f64 / TICKS_PER_SECOND / elapsed.as_secs_f64();
            (percent >= BUSY_PERCENT).then(|| Busy {
                pid,
                name: process.name.clone(),
                percent,
            })
        })
        .collect();
    busy.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    busy
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "4242 (tmux: (server) x) S 1 4242 4242 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 1 0 1 2 3";
        assert_eq!(
            process(stat),
            Some(Process {
                name: "tmux: (server) x".into(),
                parent: 1,
                of_kernel: false,
                ticks: 300
            })
        );
        assert_eq!(process("gone"), None);
        assert_eq!(process("1 (a) S 1"), None);
    }

    #[test]
    fn busy_processes_are_named_the_busiest_first() {
        let at = |ticks: [u64; 4]| -> BTreeMap<u32, Process> {
            (1..)
                .zip(["init", "rustc", "ffmpeg", "fwdlab"])
                .zip(ticks)
                .map(|((pid, name), ticks)| {
                    (
                        pid,
                        Process {
                            name: name.into(),
                            parent: 0,
                            of_kernel: false,
                            ticks,
                        },
                    )
                })
                .collect()
        };
        let busy = busy(
            &at([5, 100, 200, 0]),
            &at([6, 120, 250, 50]),
            Duration::from_millis(500),
            4,
        );
        assert_eq!(
            busy,
            [
                Busy {
                    pid: 3,
                    name: "ffmpeg".into(),
                    percent: 100.0
                },
                Busy {
                    pid: 2,
                    name: "rustc".into(),
                    percent: 40.0
                },
            ]
        );
        let check = other_work(&busy, "2.73 2.87 2.55 3/113 29083");
        assert_eq!(check.status, Status::Warn);
        assert!(check.fix.is_some_and(|fix| fix.contains("kill -STOP 3 2")));
        let idle = other_work(&[], "0.05 0.10 0.07 1/99 4711");
        assert!(
            idle.status == Status::Ok && idle.finding.contains("0.05"),
            "{idle:?}"
        );
    }

    /// What we started, and what that started, is ours; a thread of the kernel may well work for us.
    #[test]
    fn neither_our_own_nor_the_kernels_are_others() {
        let at = |ticks: u64| -> BTreeMap<u32, Process> {
            [
                (10, 1, false),
                (11, 10, false),
                (12, 11, false),
                (2, 0, true),
                (13, 1, false),
            ]
            .map(|(pid, parent, of_kernel)| {
                let name = format!("p{pid}");
                (
                    pid,
                    Process {
                        name,
                        parent,
                        of_kernel,
                        ticks,
                    },
                )
            })
            .into()
        };
        let busy = busy(&at(0), &at(50), Duration::from_secs(1), 10);
        let pids: Vec<u32> = busy.iter().map(|b| b.pid).collect();
        assert_eq!(pids, [13]);
        let (who, what_to_do) = told(&busy);
        assert!(who.contains("p13 (13) 50 % of a CPU") && what_to_do.contains("kill -STOP 13"));
        // a ring of parents, as reused pids may make one, ends
        let mut ring = at(0);
        ring.get_mut(&13).unwrap().parent = 13;
        assert!(!descends(&ring, 13, 10));
    }

    #[test]
    fn we_find_ourselves() {
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
    fn distances_that_change_are_told_level_by_level() {
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
        // a CPU that is slowed most of the time is no farther away
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
        let began = Instant::now();
        let reading = || Reading {
            additions_per_ns: 4.0,
            distances_ns: Vec::new(),
        };
        let checks = noise(Duration::from_millis(30), reading);
        assert_eq!(checks[0].status, Status::Ok);
        assert!(began.elapsed() >= Duration::from_millis(30));
    }
}
