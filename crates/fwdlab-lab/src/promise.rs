//! Promises of the tester: loads that it held in self-tests of this machine, and the number of
//! senders and the engine that follow from them.
//!
//! A promise depends on everything in [`Machine`] and [`Setup`], and is not used if any of it
//! differs. It says nothing about a DUT, and replaces no check of a trial: a load that is not
//! reached is always reported. It measures nothing. Start with [`Promises::read`] and [`choose`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fwdlab_engine::{Mode, PortSpec};
use fwdlab_model::test_bed::{MOST_SENDERS, PortKind, TestBed};
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;
use serde::{Deserialize, Serialize};

use crate::facts::{collect_facts, driver_of};
use crate::host::Local;
use crate::placement::{Placement, available_cpus};
use crate::ports::interface_facts::within;
use crate::site::existing;

/// The ports of a pair that the self-test makes, and of the embedded test bed.
pub const OWN_VETH: &str = "veth of a bed of its own";

/// Trials that are shorter promise nothing: they miss the stalls of a machine.
pub const SHORTEST: Duration = Duration::from_secs(1);

/// Name of the file in the folder of what the program keeps.
const FILE: &str = "promises.json";

/// Version of the file. Other versions are ignored.
const FORMAT: u32 = 1;

/// What all promises of a machine depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Version of this program.
    pub fwdlab: String,
    /// Name of the host.
    pub host: String,
    /// Maker, model and firmware.
    pub machine: Option<String>,
    /// Kernel release.
    pub kernel: String,
    /// Kernel command line: it isolates CPUs and selects mitigations.
    pub kernel_command_line: Option<String>,
    /// CPU model name.
    pub cpu_model: String,
    /// Frequency governor.
    pub cpu_governor: Option<String>,
    /// CPUs that this process may use.
    pub cpus: Vec<usize>,
    /// True for root of the host, who may use all engines and real-time priority.
    pub privileged: bool,
}

impl Machine {
    /// Returns this machine. `privileged`: this process is root of the host.
    pub fn here(privileged: bool) -> Machine {
        let facts = collect_facts(&Local, &Placement::default(), privileged);
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Machine {
            fwdlab: env!("CARGO_PKG_VERSION").into(),
            host: host.trim().to_owned(),
            machine: facts.machine,
            kernel: facts.kernel,
            kernel_command_line: facts.kernel_command_line,
            cpu_model: facts.cpu_model,
            cpu_governor: facts.cpu_governor,
            cpus: available_cpus().unwrap_or_default(),
            privileged,
        }
    }
}

/// What a promise of a machine depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Name of the engine.
    pub engine: String,
    /// Number of sending threads.
    pub senders: u32,
    /// CPUs of the sending threads; empty: any.
    pub sender_cpus: Vec<usize>,
    /// Driver and place of the sending port.
    pub port: String,
    /// Network layer of the frames.
    pub ip_version: IpVersion,
    /// Frame size.
    pub frame_size_bytes: FrameSize,
    /// Number of flows.
    pub flows: u32,
}

/// What a self-test found about one setup.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The setup.
    #[serde(flatten)]
    pub setup: Setup,
    /// When it was measured.
    pub measured_at: String,
    /// Number of trials at full speed.
    pub trials: u32,
    /// Duration of a trial.
    pub trial_s: f64,
    /// Sent at full speed: the median of the trials.
    pub sent_pps: f64,
    /// The lowest of these rates.
    pub sent_min_pps: f64,
    /// The highest.
    pub sent_max_pps: f64,
    /// Counted at the other port at full speed: the median.
    pub received_pps: f64,
    /// Time of one sender for a frame at full speed.
    pub ns_per_frame: f64,
    /// Frames of all trials at full speed that were not counted at the other port.
    pub frames_lost: i64,
    /// How often there was no room at full speed.
    pub ring_full: u64,
    /// The load that was sent and counted in every trial.
    pub promised_pps: Option<f64>,
    /// Why no load can be promised.
    pub cannot_tell: Option<String>,
    /// False if the engine cannot send into this port.
    pub works: bool,
}

/// A limit, as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Kept {
    machine: Machine,
    #[serde(flatten)]
    limit: Limit,
}

/// The file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    version: u32,
    promises: Vec<Kept>,
}

/// What self-tests of this machine have found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Promises(Vec<Limit>);

impl Promises {
    /// Reads the promises of this machine from a folder. Without a readable file there are none.
    pub fn read(folder: &Path, machine: impl FnOnce() -> Machine) -> Promises {
        let all = read(&folder.join(FILE)).promises;
        if all.is_empty() {
            return Promises::default();
        }
        let machine = machine();
        let own = all.into_iter().filter(|kept| kept.machine == machine);
        Promises(own.map(|kept| kept.limit).collect())
    }

    /// Keeps what was found in a folder, instead of what it has about the same setups. Promises of
    /// other versions of this program are dropped: nothing would use them.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn keep(folder: &Path, machine: &Machine, found: &[Limit]) -> io::Result<PathBuf> {
        let path = folder.join(FILE);
        let is_replaced = |kept: &Kept| {
            kept.machine.fwdlab != machine.fwdlab
                || kept.machine == *machine && found.iter().any(|new| new.setup == kept.limit.setup)
        };
        let mut file = read(&path);
        file.version = FORMAT;
        file.promises.retain(|kept| !is_replaced(kept));
        file.promises.extend(found.iter().map(|limit| Kept {
            machine: machine.clone(),
            limit: limit.clone(),
        }));
        let draft = folder.join(format!("{FILE}.{}", std::process::id()));
        fs::write(&draft, serde_json::to_string_pretty(&file)? + "\n")?;
        fs::rename(&draft, &path)?;
        Ok(path)
    }

    /// Returns what is known about frames of this stream: of the same size and kind, and of no more
    /// flows than in the self-test.
    fn of(
        &self,
        engine: Mode,
        senders: u32,
        stream: &Stream,
        arrangement: &Arrangement,
    ) -> Option<&Limit> {
        let port = arrangement.port.as_ref().ok()?;
        let cpus = arrangement.cpus_of(senders);
        self.0.iter().find(|limit| {
            let Setup {
                engine: of,
                senders: by,
                sender_cpus,
                port: at,
                ip_version,
                frame_size_bytes,
                flows,
            } = &limit.setup;
            (&**of, *by, sender_cpus, at) == (engine.name(), senders, &cpus, port)
                && (*ip_version, *frame_size_bytes) == (stream.ip_version, stream.frame_size_bytes)
                && *flows >= stream.flows
        })
    }
}

fn read(path: &Path) -> File {
    let text = fs::read_to_string(path).unwrap_or_default();
    let file: File = serde_json::from_str(&text).unwrap_or_default();
    match file.version {
        FORMAT => file,
        _ => File::default(),
    }
}

/// Where a measurement sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrangement {
    /// The sending port as in [`Setup::port`], or why no self-test of this machine says anything
    /// about it.
    pub port: Result<String, String>,
    /// CPUs of its senders, the first ones first; empty: any.
    cpus: Vec<usize>,
    /// Each sender gets one of the CPUs, rather than all of them.
    is_one_each: bool,
    /// The largest number of senders that the CPUs allow.
    most: u32,
    /// How to run the self-test there.
    selftest: String,
}

impl Arrangement {
    /// Returns that of the embedded test bed, whose DUT has these CPUs. Each sender gets a CPU of
    /// its own; with more queues, the DUT has more threads, too. `privileged`: this process is root
    /// of the host.
    pub fn embedded(placement: &Placement, available: &[usize], privileged: bool) -> Arrangement {
        let free = available.iter().copied();
        let free = free.filter(|cpu| !placement.dut_cpus.contains(cpu));
        let cpus: Vec<usize> = match placement.is_separate() {
            true => free.collect(),
            false => placement.generator_cpus.clone(),
        };
        Arrangement {
            port: match (placement.is_separate(), privileged) {
                (true, true) => Ok(OWN_VETH.into()),
                (true, false) => Err("without root, the self-test has no ports of its own".into()),
                (false, _) => Err("generator and DUT share a CPU".into()),
            },
            most: (cpus.len() as u32).clamp(1, MOST_SENDERS),
            cpus,
            is_one_each: true,
            selftest: "fwdlab traffic selftest".into(),
        }
    }

    /// Returns that of a test bed of hosts.
    pub fn existing(bed: &TestBed) -> Arrangement {
        let spec = existing::spec(&bed.generator.host, &bed.generator.ports.a);
        let port = match spec {
            _ if bed.generator.kind != PortKind::Interface => {
                Err("the self-test has ports of its own, and not the peer of these ports".into())
            }
            _ if bed.second.is_some() => Err("two hosts send".into()),
            _ if bed.receiver.is_some() => Err("another host counts the frames".into()),
            None => Err(format!(
                "frames leave at {}, and only self-tests of this machine are known here",
                bed.generator.host
            )),
            Some(spec) => port_words(&spec)
                .ok_or_else(|| format!("the driver of {} could not be read", spec.interface)),
        };
        let cpus = bed.generator.cpus.clone();
        let of_machine = || available_cpus().map_or(1, |cpus| cpus.len());
        let most = match cpus.len() {
            0 => of_machine(),
            given => given,
        };
        let listed: Vec<String> = cpus.iter().map(usize::to_string).collect();
        Arrangement {
            port,
            most: (most as u32).clamp(1, MOST_SENDERS),
            selftest: format!(
                "fwdlab traffic selftest {} OTHER_END{}",
                bed.generator.ports.a,
                match cpus.is_empty() {
                    true => String::new(),
                    false => format!(" --cpus {}", listed.join(",")),
                }
            ),
            cpus,
            is_one_each: false,
        }
    }

    /// Returns that of a place of which nothing can be known.
    pub fn unknown(reason: &str) -> Arrangement {
        Arrangement {
            port: Err(reason.into()),
            cpus: Vec::new(),
            is_one_each: false,
            most: 1,
            selftest: String::new(),
        }
    }

    fn cpus_of(&self, senders: u32) -> Vec<usize> {
        match self.is_one_each {
            true => self.cpus.iter().take(senders as usize).copied().collect(),
            false => self.cpus.clone(),
        }
    }
}

/// Returns the driver and the place of a port; `None` if it is not known.
pub fn port_words(spec: &PortSpec) -> Option<String> {
    if !spec.is_interface() {
        return Some(if spec.is_memif() { "memif" } else { "dpdk" }.into());
    }
    let port = &spec.interface;
    let read = within(&spec.netns, || Ok(driver_of(&Local, port))).ok()?;
    let (driver, bus) = read?;
    Some(format!("{driver} {}", bus.as_ref().unwrap_or(port)))
}

/// Frames that a measurement sends, and at which load.
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    /// The frames.
    pub stream: Stream,
    /// The load; `None`: what the tester can offer.
    pub load_pps: Option<f64>,
    /// The load was given, and is not only the line rate that a search does not exceed.
    pub is_given: bool,
    /// Why the frames are not those of a self-test, if they are not.
    pub differs: Option<String>,
}

/// The number of senders and the engine to try first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Number of threads that send into the port.
    pub senders: u32,
    /// The engine to try first; `None`: the fastest that works.
    pub engine: Option<Mode>,
    /// Why, if it is not the choice without promises.
    pub reason: Option<String>,
}

impl Chosen {
    /// Returns the choice without promises: the given number of senders or one, and the fastest
    /// engine that works.
    pub fn without_promises(senders: Option<u32>) -> Chosen {
        Chosen {
            senders: senders.unwrap_or(1),
            engine: None,
            reason: None,
        }
    }

    /// Enters the choice in a placement, with what is to be known of it.
    pub fn place(&self, placement: &mut Placement, needs: &[Need]) {
        placement.senders = self.senders;
        placement.first_engine = self.engine;
        let notes = &mut placement.notes;
        if let Some(reason) = &self.reason {
            notes.insert("senders".into(), reason.clone());
        }
        let mut flows = needs.iter().map(|need| need.stream.flows);
        if let Some(flows) = flows.find(|flows| flows % self.senders != 0) {
            notes.insert(
                "order of frames".into(),
                format!(
                    "frames of one flow can overtake each other: {} share {flows} flows; a multiple of {} avoids this",
                    counted(self.senders),
                    self.senders
                ),
            );
        }
    }
}

/// Chooses the smallest number of senders that promises all loads, with the engine that is tried
/// first today, and another engine only if it is known that the load is too much for this one.
///
/// It stays with one sender, and the fastest engine that works, if anything that this needs is
/// unknown; also without a given load, because more senders change what earlier runs are compared
/// with. On a test bed of hosts, line rate is a load; on the embedded one, more senders also give
/// the DUT more queues. Frames of one flow never overtake each other by this choice:
/// only numbers that divide the numbers of flows are used.
pub fn choose(
    promises: &Promises,
    arrangement: &Arrangement,
    needs: &[Need],
    engines: &[Mode],
    given: Option<u32>,
) -> Chosen {
    let unchanged = Chosen::without_promises(given);
    let is_known = |need: &Need| {
        let is_load = need.is_given || !arrangement.is_one_each;
        need.load_pps.is_some() && is_load && need.differs.is_none()
    };
    if needs.is_empty() || !needs.iter().all(is_known) {
        return unchanged;
    }
    let divides = |by: &u32| needs.iter().all(|need| need.stream.flows % by == 0);
    let of_cpus: Vec<u32> = match given {
        Some(given) => vec![given],
        None => (1..=arrangement.most).filter(divides).collect(),
    };
    let mut most: Option<(f64, u32)> = None;
    for &senders in &of_cpus {
        let mut is_measured = false;
        for &engine in engines {
            let shares = needs.iter().map(|need| {
                let limit = promises.of(engine, senders, &need.stream, arrangement)?;
                match limit.works {
                    true => Some(limit.promised_pps? / need.load_pps?),
                    false => Some(0.0),
                }
            });
            let Some(share) = shares.reduce(|all, one| Some(all?.min(one?))).flatten() else {
                break;
            };
            is_measured |= share > 0.0;
            if share >= 1.0 {
                let first = engines.first() != Some(&engine);
                return Chosen {
                    senders,
                    engine: first.then_some(engine),
                    reason: (first || senders > 1 && given.is_none()).then(|| {
                        format!(
                            "{}, {}: the self-test promises the load, but not for fewer senders or a faster engine",
                            engine.name(),
                            counted(senders)
                        )
                    }),
                };
            }
            if most.is_none_or(|(known, _)| share > known) {
                most = Some((share, senders));
            }
        }
        // if nothing is known of one sender, it may be enough
        if !is_measured && senders == 1 {
            return unchanged;
        }
    }
    match most {
        Some((share, senders)) if share > 0.0 && senders > 1 && given.is_none() => Chosen {
            senders,
            engine: None,
            reason: Some(format!(
                "{}: the self-test promises the highest load for them, but not the load of this run",
                counted(senders)
            )),
        },
        _ => unchanged,
    }
}

/// What a promise says about a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The load is promised.
    Promised,
    /// The load is more than what is promised.
    TooMuch,
    /// There is a promise, and no load to compare it with.
    NoLoad,
    /// Nothing is promised.
    CannotTell,
}

/// What the tester promises for a load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outlook {
    /// The result.
    pub verdict: Verdict,
    /// Network layer of the frames.
    pub ip_version: IpVersion,
    /// Frame size.
    pub frame_size_bytes: FrameSize,
    /// The load; absent: what the tester can offer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_pps: Option<f64>,
    /// The engine that would send, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<&'static str>,
    /// Number of senders.
    pub senders: u32,
    /// The load that is promised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promised_pps: Option<f64>,
    /// When this was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<String>,
    /// Why nothing is promised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cannot_tell: Option<String>,
    /// What to do, if the load is not promised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// Returns what is promised for each of these loads, with this number of senders. `engines`: those
/// that are tried, in their order.
pub fn outlook(
    promises: &Promises,
    arrangement: &Arrangement,
    needs: &[Need],
    engines: &[Mode],
    senders: u32,
) -> Vec<Outlook> {
    let mut all: Vec<Outlook> = Vec::new();
    let mut unknown: Vec<&Stream> = Vec::new();
    for need in needs {
        let found = outlook_of(need, promises, arrangement, engines, senders);
        let is_testable = need.differs.is_none() && arrangement.port.is_ok();
        if found.verdict == Verdict::CannotTell && is_testable {
            unknown.push(&need.stream);
        }
        if !all.contains(&found) {
            all.push(found);
        }
    }
    // one command finds out about all of them
    let is_testable = |one: &&mut Outlook| {
        let mut streams = unknown.iter();
        one.verdict == Verdict::CannotTell
            && streams.any(|stream| {
                (stream.ip_version, stream.frame_size_bytes)
                    == (one.ip_version, one.frame_size_bytes)
            })
    };
    for one in all.iter_mut().filter(is_testable) {
        let of_kind = unknown
            .iter()
            .filter(|stream| stream.ip_version == one.ip_version);
        let streams: Vec<&Stream> = of_kind.copied().collect();
        one.advice = Some(command(arrangement, &streams, senders));
    }
    all
}

fn outlook_of(
    need: &Need,
    promises: &Promises,
    arrangement: &Arrangement,
    engines: &[Mode],
    senders: u32,
) -> Outlook {
    let stream = &need.stream;
    let mut outlook = Outlook {
        verdict: Verdict::CannotTell,
        ip_version: stream.ip_version,
        frame_size_bytes: stream.frame_size_bytes,
        load_pps: need.load_pps,
        engine: None,
        senders,
        promised_pps: None,
        measured_at: None,
        cannot_tell: None,
        advice: None,
    };
    if let Some(reason) = need.differs.as_ref().or(arrangement.port.as_ref().err()) {
        outlook.cannot_tell = Some(reason.clone());
        return outlook;
    }
    let find = |engine: Mode, senders| promises.of(engine, senders, stream, arrangement);
    // the first engine that works is used; behind one that is unknown, all are unknown
    let mut known = engines
        .iter()
        .map(|&engine| (engine, find(engine, senders)));
    let used = known.find(|(_, limit)| limit.is_none_or(|limit| limit.works));
    let Some((engine, Some(limit))) = used else {
        outlook.cannot_tell = Some("there is no self-test of this machine as it is now".into());
        return outlook;
    };
    outlook.engine = Some(engine.name());
    outlook.promised_pps = limit.promised_pps;
    outlook.measured_at = Some(limit.measured_at.clone());
    outlook.cannot_tell.clone_from(&limit.cannot_tell);
    outlook.verdict = match (need.load_pps, limit.promised_pps) {
        (_, None) => Verdict::CannotTell,
        (None, Some(_)) => Verdict::NoLoad,
        (Some(load_pps), Some(most_pps)) if load_pps <= most_pps => Verdict::Promised,
        (Some(load_pps), Some(_)) => {
            let is_enough = |senders: &u32| {
                let mut limits = engines.iter().filter_map(|&engine| find(engine, *senders));
                limits.any(|limit| limit.promised_pps >= Some(load_pps))
            };
            let more = (senders + 1..=arrangement.most).find(is_enough);
            outlook.advice = Some(match more {
                Some(more) => format!(
                    "use {more} senders (--senders, or senders in [bed]), or lower the load"
                ),
                None => "lower the load, or send larger frames".into(),
            });
            Verdict::TooMuch
        }
    };
    outlook
}

/// Returns the command that measures frames of these streams, which have one network layer.
fn command(arrangement: &Arrangement, streams: &[&Stream], senders: u32) -> String {
    let mut sizes: Vec<FrameSize> = streams.iter().map(|of| of.frame_size_bytes).collect();
    sizes.sort();
    sizes.dedup();
    let sizes: Vec<String> = sizes.iter().map(FrameSize::to_string).collect();
    let mut command = format!("{} --size {}", arrangement.selftest, sizes.join(","));
    if senders > 1 {
        command += &format!(" --senders 1,{senders}");
    }
    if streams.iter().any(|of| of.ip_version == IpVersion::Ipv6) {
        command += " --ipv6";
    }
    let flows = streams.iter().map(|of| of.flows).max().unwrap_or_default();
    if flows > fwdlab_model::campaign::FLOWS {
        command += &format!(" --flows {flows}");
    }
    command
}

fn counted(senders: u32) -> String {
    fwdlab_model::units::counted(senders as usize, "sender")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            fwdlab: "1".into(),
            host: "h".into(),
            machine: None,
            kernel: "6.18".into(),
            kernel_command_line: None,
            cpu_model: "c".into(),
            cpu_governor: None,
            cpus: vec![0, 1, 2, 3, 4],
            privileged: true,
        }
    }

    /// The embedded test bed of a machine with five CPUs, one of which is the DUT's.
    fn embedded() -> Arrangement {
        let placement = Placement {
            generator_cpus: vec![0],
            dut_cpus: vec![4],
            ..Placement::default()
        };
        Arrangement::embedded(&placement, &[0, 1, 2, 3, 4], true)
    }

    fn limit(engine: Mode, senders: u32, promised_pps: Option<f64>) -> Limit {
        Limit {
            setup: Setup {
                engine: engine.name().into(),
                senders,
                sender_cpus: (0..senders as usize).collect(),
                port: OWN_VETH.into(),
                ip_version: IpVersion::Ipv4,
                frame_size_bytes: FrameSize::MIN,
                flows: 2000,
            },
            measured_at: "2026-01-02T03:04:05Z".into(),
            trials: 3,
            trial_s: 1.0,
            sent_pps: 2e6,
            sent_min_pps: 1.9e6,
            sent_max_pps: 2.1e6,
            received_pps: 2e6,
            ns_per_frame: 500.0,
            frames_lost: 0,
            ring_full: 0,
            promised_pps,
            cannot_tell: promised_pps.is_none().then(|| "it stalls".into()),
            works: true,
        }
    }

    fn refused(engine: Mode, senders: u32) -> Limit {
        Limit {
            works: false,
            ..limit(engine, senders, None)
        }
    }

    fn need(load_pps: Option<f64>) -> Need {
        Need {
            stream: Stream::new(IpVersion::Ipv4, FrameSize::MIN, 2000).unwrap(),
            load_pps,
            is_given: load_pps.is_some(),
            differs: None,
        }
    }

    const TWO: [Mode; 2] = [Mode::XdpLive, Mode::AfXdp];

    fn chosen(limits: &[Limit], need: Need, given: Option<u32>) -> (u32, Option<Mode>) {
        let promises = Promises(limits.to_vec());
        let found = choose(&promises, &embedded(), &[need], &TWO, given);
        (found.senders, found.engine)
    }

    #[test]
    fn the_fewest_senders_that_promise_the_load_are_chosen() {
        let live = |senders, pps| limit(Mode::XdpLive, senders, Some(pps));
        let socket = |senders, pps| limit(Mode::AfXdp, senders, Some(pps));
        let all = [
            live(1, 2e6),
            live(2, 3e6),
            live(4, 5e6),
            socket(1, 1e6),
            socket(2, 1.9e6),
            socket(4, 6e6),
        ];
        let load = |pps| chosen(&all, need(Some(pps)), None);
        assert_eq!(load(2e6), (1, None));
        assert_eq!(load(2.1e6), (2, None));
        assert_eq!(load(4e6), (4, None));
        // the fastest engine is passed over only if it is known to be too slow
        assert_eq!(load(5.5e6), (4, Some(Mode::AfXdp)));
        // nothing is enough: the most
        assert_eq!(load(7e6), (4, None));
        // without a load, and with a load that is only the line rate
        assert_eq!(chosen(&all, need(None), None), (1, None));
        let line = Need {
            is_given: false,
            ..need(Some(4e6))
        };
        assert_eq!(chosen(&all, line, None), (1, None));
        // what the user says counts
        assert_eq!(chosen(&all, need(Some(4e6)), Some(1)), (1, None));
        assert_eq!(chosen(&all, need(Some(1e6)), Some(3)), (3, None));
        assert_eq!(
            chosen(&all, need(Some(5.5e6)), Some(4)).1,
            Some(Mode::AfXdp)
        );
        // numbers that do not divide the flows are not used
        let odd = Need {
            stream: Stream::new(IpVersion::Ipv4, FrameSize::MIN, 6).unwrap(),
            ..need(Some(4e6))
        };
        assert_eq!(chosen(&all, odd, None), (2, None));
    }

    #[test]
    fn what_is_unknown_changes_nothing() {
        let live = |senders, pps| limit(Mode::XdpLive, senders, pps);
        let load = || need(Some(4e6));
        let unchanged = (1, None);
        assert_eq!(chosen(&[], load(), None), unchanged);
        // more senders were measured, one was not, or nothing can be told of it
        let two = live(2, Some(5e6));
        assert_eq!(chosen(std::slice::from_ref(&two), load(), None), unchanged);
        assert_eq!(
            chosen(&[live(1, None), two.clone()], load(), None),
            unchanged
        );
        // a slower engine does not stand in for one of which nothing can be told
        let socket = limit(Mode::AfXdp, 1, Some(5e6));
        assert_eq!(
            chosen(&[live(1, None), socket.clone()], load(), None),
            unchanged
        );
        // but for one that does not work, as without promises
        let one = [refused(Mode::XdpLive, 1), socket];
        assert_eq!(chosen(&one, load(), None), (1, Some(Mode::AfXdp)));
        // other frames
        let all = [live(1, Some(2e6)), two];
        assert_eq!(chosen(&all, load(), None), (2, None));
        let other = Need {
            differs: Some("both directions".into()),
            ..load()
        };
        assert_eq!(chosen(&all, other, None), unchanged);
    }

    #[test]
    fn two_cpus_leave_one_sender_on_the_embedded_bed() {
        let placement = Placement {
            generator_cpus: vec![0],
            dut_cpus: vec![1],
            ..Placement::default()
        };
        let all = Promises(vec![
            limit(Mode::XdpLive, 1, Some(2e6)),
            limit(Mode::XdpLive, 2, Some(4e6)),
        ]);
        let on_two = Arrangement::embedded(&placement, &[0, 1], true);
        let found = choose(&all, &on_two, &[need(Some(3e6))], &TWO, None);
        assert_eq!((found.senders, found.engine), (1, None));
        assert_eq!(
            choose(&all, &embedded(), &[need(Some(3e6))], &TWO, None).senders,
            2
        );
        // with one CPU, nothing is known
        let shared = Placement {
            dut_cpus: vec![0],
            ..placement
        };
        let on_one = Arrangement::embedded(&shared, &[0], true);
        let outlook = outlook(&all, &on_one, &[need(Some(1e6))], &TWO, 1);
        assert_eq!(outlook[0].verdict, Verdict::CannotTell);
    }

    #[test]
    fn a_promise_holds_only_for_what_it_was_measured_with() {
        let known = limit(Mode::XdpLive, 1, Some(2e6));
        let verdict = |setup: &dyn Fn(&mut Setup), need: &Need| {
            let mut other = known.clone();
            setup(&mut other.setup);
            let promises = Promises(vec![other]);
            outlook(&promises, &embedded(), std::slice::from_ref(need), &TWO, 1)[0].verdict
        };
        let usual = need(Some(1e6));
        assert_eq!(verdict(&|_| {}, &usual), Verdict::Promised);
        let changes: [&dyn Fn(&mut Setup); 7] = [
            &|setup| setup.engine = "af-packet".into(),
            &|setup| setup.senders = 2,
            &|setup| setup.sender_cpus = vec![1],
            &|setup| setup.port = "ixgbe 0000:01:00.0".into(),
            &|setup| setup.ip_version = IpVersion::Ipv6,
            &|setup| setup.frame_size_bytes = FrameSize::new(128).unwrap(),
            &|setup| setup.flows = 1999,
        ];
        for change in changes {
            assert_eq!(verdict(change, &usual), Verdict::CannotTell);
        }
        assert_eq!(
            verdict(&|setup| setup.flows = 2001, &usual),
            Verdict::Promised
        );
        assert_eq!(verdict(&|_| {}, &need(Some(2.1e6))), Verdict::TooMuch);
        assert_eq!(verdict(&|_| {}, &need(None)), Verdict::NoLoad);
    }

    #[test]
    fn a_plan_learns_what_to_do() {
        let all = Promises(vec![
            limit(Mode::XdpLive, 1, Some(2e6)),
            limit(Mode::XdpLive, 2, Some(4e6)),
        ]);
        let size = |bytes| Need {
            stream: Stream::new(IpVersion::Ipv4, FrameSize::new(bytes).unwrap(), 9000).unwrap(),
            ..need(Some(1e6))
        };
        let needs = [
            need(Some(3e6)),
            need(Some(5e6)),
            size(512),
            size(128),
            size(512),
        ];
        let found = outlook(&all, &embedded(), &needs, &TWO, 1);
        let advice: Vec<&str> = found
            .iter()
            .filter_map(|one| one.advice.as_deref())
            .collect();
        let command = "fwdlab traffic selftest --size 128,512 --flows 9000";
        assert_eq!(
            advice,
            [
                "use 2 senders (--senders, or senders in [bed]), or lower the load",
                "lower the load, or send larger frames",
                command,
                command
            ]
        );
        assert_eq!(found[0].engine, Some("xdp-live"));
        let remote = Arrangement::unknown("far away");
        let found = outlook(&all, &remote, &[need(Some(1e6))], &TWO, 1);
        assert_eq!(found[0].cannot_tell.as_deref(), Some("far away"));
        assert_eq!(found[0].advice, None);
    }

    #[test]
    fn promises_of_another_machine_are_kept_and_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let (path, one) = (folder.path(), limit(Mode::XdpLive, 1, Some(2e6)));
        let read = |machine: Machine| Promises::read(path, || machine).0;
        assert_eq!(read(machine()), []);
        Promises::keep(
            path,
            &machine(),
            &[one.clone(), limit(Mode::AfXdp, 1, None)],
        )
        .unwrap();
        let slower = limit(Mode::XdpLive, 1, Some(1e6));
        Promises::keep(path, &machine(), std::slice::from_ref(&slower)).unwrap();
        assert_eq!(read(machine()), [limit(Mode::AfXdp, 1, None), slower]);
        let changes: [&dyn Fn(&mut Machine); 7] = [
            &|machine| machine.host = "other".into(),
            &|machine| machine.kernel = "6.19".into(),
            &|machine| machine.kernel_command_line = Some("isolcpus=1".into()),
            &|machine| machine.cpu_model = "other".into(),
            &|machine| machine.cpu_governor = Some("powersave".into()),
            &|machine| machine.cpus = vec![0, 1],
            &|machine| machine.privileged = false,
        ];
        for change in changes {
            let mut other = machine();
            change(&mut other);
            assert_eq!(read(other.clone()), [], "{other:?}");
            Promises::keep(path, &other, std::slice::from_ref(&one)).unwrap();
            assert_eq!(read(other), std::slice::from_ref(&one));
        }
        assert_eq!(read(machine()).len(), 2);
        // another version of the program replaces all
        let next = Machine {
            fwdlab: "2".into(),
            ..machine()
        };
        assert_eq!(read(next.clone()), []);
        Promises::keep(path, &next, std::slice::from_ref(&one)).unwrap();
        assert_eq!(read(machine()), []);
        // a damaged file is no promise
        fs::write(path.join(FILE), "{").unwrap();
        assert_eq!(read(next), []);
    }
}
