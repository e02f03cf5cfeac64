//! A Linux machine, or a part of one, as a DUT: its kernel forwards; `ip`, `nft` and `/proc` read
//! and change its state.
//!
//! Works over any [`Host`]. Settings are read back; the command that undoes a change is recorded
//! before the change is made, and a partial change that fails is undone at once. Every subject has
//! a file: [`apply`] for configurations, [`families`] for generated ones (routing daemons: [`bgp`],
//! gateways: [`gateway`], many connections: [`conntrack`]), [`tables`] for rules and routes,
//! [`reset`]. Start with [`Linux::new`].

mod apply;
mod bgp;
mod cards;
mod conntrack;
mod families;
mod gateway;
mod hashing;
mod paths;
mod reset;
#[cfg(test)]
mod set_tests;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fwdlab_model::efficiency::Work;
use fwdlab_model::procedure::Moment;
use fwdlab_model::reset::Reset;
use fwdlab_model::trial::IpVersion;

use super::daemons::{Daemons, EndedDaemon};
use super::unix::{LIMIT, Unix};
use super::{
    Account, Agent, Change, Configuration, Dut, PlannedReset, PortPair, Route, Sides, Spread,
    SweptParameter, Updates, run_reset, timed,
};
use crate::control::Control;
use crate::error::LabError;
use crate::host::undo::Undo;
use crate::host::{Command, Failure, Host, HostError, Limit, Process, not_understood};
use crate::interfaces::{Counted, counters_of, link_changes, port_problems, read_counters};
use crate::networks::{End, Networks, mac};
use crate::telemetry::{Observed, System};
use conntrack::Machine;
pub use hashing::Hashing;
use tables::RuleOwner;

/// What is set, and why. Everything else keeps the kernel's value.
const SYSCTLS: &[(&str, &str)] = &[
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv6/conf/all/forwarding", "1"),
    // Test traffic is one-way: reverse-path filters would judge a route that nothing uses.
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    // No frames of the DUT's own.
    ("net/ipv4/conf/all/send_redirects", "0"),
    ("net/ipv4/conf/default/send_redirects", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/default/dad_transmits", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv6/conf/default/router_solicitations", "0"),
    (
        "net/ipv6/conf/default/mldv2_unsolicited_report_interval",
        "0",
    ),
    ("net/ipv6/conf/default/addr_gen_mode", "1"),
];

/// Recorded but not changed, because they affect what a router does.
const RECORDED_SYSCTLS: &[&str] = &[
    "net/ipv4/ip_early_demux",
    "net/ipv4/ip_forward_use_pmtu",
    "net/ipv4/fib_multipath_hash_policy",
];

/// Offloads that are recorded.
const RECORDED_OFFLOADS: &[&str] = &[
    "generic-receive-offload",
    "generic-segmentation-offload",
    "tcp-segmentation-offload",
    "tx-checksumming",
    "rx-checksumming",
    "rx-gro-list",
    "rx-udp-gro-forwarding",
];

/// A directory that cannot be created.
const NOWHERE: &str = "/proc/none";

/// Directories of administrators' programs, which are not in every user's PATH.
const SBIN: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// A DUT that runs Linux.
#[derive(Debug)]
pub struct Linux {
    host: Arc<dyn Host>,
    /// Where users' commands run; on a separate machine that is the host itself.
    place: Arc<dyn Host>,
    sides: Sides,
    /// The CPUs on which it forwards, if known.
    cpus: Vec<usize>,
    /// The kernel thread that forwards, if a single thread does and it is known.
    thread: Option<u32>,
    /// Time limit of users' commands.
    patience: Duration,
    undo: Arc<Undo>,
    daemons: Daemons,
    /// Number of tunnels to the router behind it: tun0, tun1, ...
    tunnels: AtomicU64,
    /// The machine it is a part of, in the embedded test bed.
    machine: Machine,
}

impl Linux {
    /// Creates a DUT on this host with these ports (input and output) between these networks.
    pub fn new(
        host: Arc<dyn Host>,
        place: Arc<dyn Host>,
        ports: [&str; 2],
        networks: Networks,
        undo: Arc<Undo>,
    ) -> Linux {
        Linux {
            daemons: Daemons::for_run(host.name(), "/run"),
            host,
            place,
            sides: Sides::new(ports, networks),
            cpus: Vec::new(),
            thread: None,
            patience: LIMIT,
            undo,
            tunnels: AtomicU64::new(0),
            machine: Machine::default(),
        }
    }

    /// Returns the DUT with the CPUs and the thread that forward.
    pub fn on(self, cpus: &[usize], thread: Option<u32>) -> Linux {
        Linux {
            cpus: cpus.to_vec(),
            thread,
            ..self
        }
    }

    /// Returns the DUT with another time limit of users' commands.
    pub fn with_patience(self, patience: Duration) -> Linux {
        Linux { patience, ..self }
    }

    /// Returns all settings: those of future ports are also set for the test ports, which may have
    /// their own values.
    fn settings(&self) -> Vec<(String, &'static str)> {
        let of_host = SYSCTLS
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        let of_ports = self.sides.ports.iter().flat_map(|port| {
            let of_default = SYSCTLS
                .iter()
                .filter(|(name, _)| name.contains("/default/"));
            let of_port = format!("/{port}/");
            of_default.map(move |(name, value)| (name.replace("/default/", &of_port), *value))
        });
        of_host.chain(of_ports).collect()
    }

    /// Sets them; returns the values that were set, and the settings that this kernel does not
    /// have.
    fn set_sysctls(&self) -> Result<(BTreeMap<String, String>, BTreeSet<String>), LabError> {
        let file = |name: &str| format!("/proc/sys/{name}");
        let mut set = BTreeMap::new();
        let mut missing = BTreeSet::new();
        let mut undo_commands = String::new();
        let settings = self.settings();
        let names: Vec<&str> = settings.iter().map(|(name, _)| name.as_str()).collect();
        let found = read_settings(self.host.as_ref(), &names)?;
        for ((name, value), before) in settings.iter().zip(found) {
            match before {
                // the last that was set is restored first, because some change others
                Ok(before) if before != *value => {
                    undo_commands = format!("echo '{before}' > {}\n{undo_commands}", file(name));
                }
                Ok(_) => {}
                // a kernel without IPv6 has nothing to set; and what cannot be read cannot be
                // restored
                Err(error) if name.contains("ipv6") => {
                    set.insert(name.clone(), not_set(&error));
                    missing.insert(name.clone());
                }
                Err(error) => return Err(error.into()),
            }
        }
        let write = || {
            let there = settings.iter().filter(|(name, _)| !set.contains_key(name));
            let there: Vec<&(String, &str)> = there.collect();
            let files: Vec<String> = there.iter().map(|(name, _)| file(name)).collect();
            let texts = files.iter().map(String::as_str);
            let texts: Vec<(&str, &str)> =
                texts.zip(there.iter().map(|(_, value)| *value)).collect();
            for ((name, value), written) in there.into_iter().zip(self.host.write_each(&texts)?) {
                match written {
                    Ok(()) => set.insert(name.clone(), (*value).to_owned()),
                    Err(error) => match error.failure {
                        Failure::File(_) if name.contains("ipv6") => {
                            missing.insert(name.clone());
                            set.insert(name.clone(), not_set(&error))
                        }
                        _ => return Err(error.into()),
                    },
                };
            }
            Ok(())
        };
        let undo_commands =
            Command::shell(&format!("set -e\n{undo_commands}")).called("restore settings");
        self.undo
            .changing(&self.host, "settings of a router", undo_commands, write)?;
        let recorded = read_settings(self.host.as_ref(), RECORDED_SYSCTLS)?;
        for (name, value) in RECORDED_SYSCTLS.iter().zip(recorded) {
            if let Ok(value) = value {
                set.insert((*name).to_owned(), value);
            }
        }
        Ok((set, missing))
    }

    /// Sets addresses, next hops and routes of one IP version.
    fn address(&self, version: IpVersion) -> Result<(), LabError> {
        let family = family(version);
        let (mut batch, mut undo_commands) = (String::new(), String::new());
        for (side, port) in self.sides.each() {
            let lladdr = mac(side.tester_mac);
            let next_hop = side.next_hop(version);
            let behind = side.prefix(version);
            let own = match version {
                IpVersion::Ipv4 => format!("{}/{}", side.ipv4.dut, side.ipv4.length),
                IpVersion::Ipv6 => format!("{}/{} nodad", side.ipv6.dut, side.ipv6.length),
            };
            let (address, _) = own.split_once('/').unwrap_or((&own, ""));
            let _ = writeln!(
                batch,
                "addr replace {} dev {port}{}\nneigh replace {next_hop} lladdr {lladdr} nud permanent dev {port}\n\
                 route replace {behind} via {next_hop} dev {port}",
                own.trim_end_matches(" nodad"),
                if own.ends_with("nodad") { " nodad" } else { "" }
            );
            // what is flushed may be gone already
            let _ = writeln!(
                undo_commands,
                "route flush exact {behind} dev {port}\nneigh flush to {next_hop} dev {port} nud permanent\n\
                 addr flush dev {port} to {address}"
            );
        }
        let undo_commands = Command::new("ip", &[family, "-batch", "-"]).with_input(undo_commands);
        self.undo.changing(
            &self.host,
            "addresses and routes of the bed",
            undo_commands,
            || Ok(self.host.feed("ip", &[family, "-batch", "-"], &batch)?),
        )?;
        Ok(())
    }

    /// Returns the CPU time used for forwarding so far, in nanoseconds, and what it was measured
    /// on: the forwarding thread if there is exactly one, otherwise the CPUs.
    fn cpu_time(&self) -> Option<(u64, String)> {
        let read = |file: &str| String::from_utf8(self.host.read(file).ok()?).ok();
        if let (Some(thread), [_] | []) = (self.thread, &self.cpus[..]) {
            let text = read(&format!("/proc/{thread}/schedstat"))?;
            let ns = text.split_whitespace().next()?.parse().ok()?;
            return Some((ns, "the kernel's thread that forwards".into()));
        }
        if self.cpus.is_empty() {
            return None;
        }
        let text = read("/proc/stat")?;
        let times: Option<Vec<u64>> = self.cpus.iter().map(|cpu| busy_ns(&text, *cpu)).collect();
        let ns = times?.iter().sum();
        let cpus: Vec<String> = self.cpus.iter().map(ToString::to_string).collect();
        Some((ns, format!("CPU {}", cpus.join(", "))))
    }

    /// Returns the clock rate of the first CPU, as the kernel reports it.
    fn clock_hz(&self) -> Option<f64> {
        let text = String::from_utf8(self.host.read("/proc/cpuinfo").ok()?).ok()?;
        let requested = self.cpus.first()?.to_string();
        let mut is_meant = false;
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            match name.trim() {
                "processor" => is_meant = value.trim() == requested,
                "cpu MHz" if is_meant => return Some(value.trim().parse::<f64>().ok()? * 1e6),
                _ => {}
            }
        }
        None
    }

    /// Returns the path of a program, if it is installed.
    fn find(&self, program: &str) -> Result<Option<String>, LabError> {
        let look = format!("PATH=$PATH:{SBIN}; command -v {program} || true");
        let found = self.host.query("sh", &["-c", &look])?;
        Ok((!found.trim().is_empty()).then(|| found.trim().to_owned()))
    }
}

impl Dut for Linux {
    fn name(&self) -> &str {
        self.host.name()
    }

    fn kind(&self) -> &'static str {
        ", which is Linux"
    }

    fn prepare(&self) -> Result<BTreeMap<String, String>, LabError> {
        let (set, missing) = self.set_sysctls()?;
        self.address(IpVersion::Ipv4)?;
        // a kernel with no IPv6 settings has no IPv6
        let mut of_ipv6 = set.keys().filter(|name| name.starts_with("net/ipv6/"));
        if of_ipv6.any(|name| !missing.contains(name)) {
            self.address(IpVersion::Ipv6)?;
        }
        Ok(set)
    }

    fn apply(&self, configuration: &Configuration, control: &Control) -> Result<String, LabError> {
        configuration.check_for(System::Linux)?;
        self.apply_steps(configuration, control)
    }

    fn in_force(
        &self,
        configuration: &Configuration,
    ) -> Result<BTreeMap<String, String>, LabError> {
        self.snapshot(configuration)
    }

    fn route(&self, routes: &[Route]) -> Result<String, LabError> {
        self.add_routes(routes)
    }

    fn set(
        &self,
        swept: &SweptParameter,
        version: IpVersion,
        value: u64,
        control: &Control,
    ) -> Result<Option<Change>, LabError> {
        match swept {
            SweptParameter::Stream | SweptParameter::Units => Ok(None),
            SweptParameter::Cores => self.steer(value as usize).map(Some),
            SweptParameter::Rules => self.set_rules(RuleOwner::Swept, version, value).map(Some),
            SweptParameter::Routes => self.set_routes(RuleOwner::Swept, version, value).map(Some),
            SweptParameter::Command { apply, undo } => {
                self.set_with_command((apply, undo.as_deref()), value, control)
            }
        }
    }

    fn plan_reset(&self, reset: &Reset) -> Result<PlannedReset, LabError> {
        // the first command creates the place, which takes some 100 ms: do that now, not during the
        // reset
        self.shell(":", Limit::OURS)?;
        Ok(PlannedReset {
            reset: reset.clone(),
            description: self.reset_script(reset)?,
        })
    }

    fn reset(&self, planned: &PlannedReset, limit: Limit<'_>) -> Result<Vec<Moment>, LabError> {
        let command = self.users_command(&timed(&planned.description));
        run_reset(self.place.as_ref(), command, planned, limit)
    }

    fn filter(
        &self,
        permitted: &[(String, String)],
        rules: u32,
        report: &mut dyn FnMut(String) -> Result<(), LabError>,
    ) -> Result<Change, LabError> {
        self.set_filters(permitted, rules, report)
    }

    fn begin_updates(
        &self,
        version: IpVersion,
        report: &mut dyn FnMut(String) -> Result<(), LabError>,
    ) -> Result<Change, LabError> {
        self.set_updated(version, report)
    }

    fn update(&self, version: IpVersion, to: Updates) -> Result<(), LabError> {
        self.change_updated(version, to)
    }

    fn start_agent(&self, agent: &Agent<'_>) -> Result<(Box<dyn Process>, String), LabError> {
        let missing = || LabError::NoAgent {
            at: agent.at.0,
            reason: "nothing answers, and the program `snmpd` is not installed".into(),
        };
        let program = self.find("snmpd")?.ok_or_else(missing)?;
        let cpus: Vec<String> = agent.cpus.iter().map(ToString::to_string).collect();
        let mut words: Vec<String> = match cpus.is_empty() {
            true => Vec::new(),
            // the management plane of a DUT runs on its CPUs
            false => vec!["taskset".into(), "-c".into(), cpus.join(",")],
        };
        // read no MIB files, and keep nothing between two starts
        words.extend(["env", "MIBS="].map(str::to_owned));
        let folders = ["MIBDIRS", "SNMPCONFPATH", "SNMP_PERSISTENT_DIR"];
        words.extend(folders.map(|name| format!("{name}={NOWHERE}")));
        words.push(program);
        words.extend(["-f", "-Le", "-r", "-C"].map(str::to_owned));
        let Agent {
            community,
            from,
            at: (at, port),
            ..
        } = agent;
        words.extend([
            format!("--rocommunity={community} {from} .1.3.6.1.2.1.1.3"),
            "--dontLogTCPWrappersConnects=yes".into(),
            "-I".into(),
            "system_mib,vacm_conf".into(),
            format!("udp:{at}:{port}"),
        ]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let command = Command::new(words[0], &words[1..]);
        Ok((self.host.start(&command)?, command.to_string()))
    }

    fn counters(&self) -> Result<Option<PortPair<Counted>>, LabError> {
        let table = read_counters(self.host.as_ref())?;
        let of = |end| counters_of(&table, self.sides.port(end), self.host.as_ref());
        Ok(Some(PortPair {
            input: of(End::Input)?,
            output: of(End::Output)?,
        }))
    }

    fn port_problems(&self) -> Result<Vec<String>, LabError> {
        port_problems(self.host.as_ref(), &self.sides.ports)
    }

    fn link_changes(&self) -> Result<BTreeMap<String, u64>, LabError> {
        link_changes(self.host.as_ref(), &self.sides.ports)
    }

    fn spread(&self) -> Result<Option<Spread>, LabError> {
        self.carried()
    }

    fn daemons_ended(&self) -> Result<Vec<EndedDaemon>, LabError> {
        self.daemons.ended(self.place.as_ref())
    }

    fn find_new_daemons(&self) -> Result<(), LabError> {
        self.daemons.find_daemons(self.place.as_ref())
    }

    fn waited(&self) -> Option<Duration> {
        // run time, run delay, timeslices (Documentation/scheduler/sched-stats.rst)
        let file = format!("/proc/{}/schedstat", self.thread?);
        let text = String::from_utf8(self.host.read(&file).ok()?).ok()?;
        let delay = text.split_whitespace().nth(1)?.parse().ok()?;
        Some(Duration::from_nanos(delay))
    }

    fn account(&self) -> Result<Option<Account<'_>>, LabError> {
        let Some(before) = self.cpu_time() else {
            return Ok(None);
        };
        let started = Instant::now();
        Ok(Some(Box::new(move || {
            let after = self.cpu_time();
            Ok(Work {
                duration_s: started.elapsed().as_secs_f64(),
                cpu_ns: after.map(|(ns, _)| ns.saturating_sub(before.0)),
                cpu_of: before.1,
                clock_hz: self.clock_hz(),
                ..Work::default()
            })
        })))
    }

    fn offloads(&self) -> BTreeMap<String, String> {
        let mut offloads = BTreeMap::new();
        for port in &self.sides.ports {
            let Ok(text) = self.host.query("ethtool", &["-k", port]) else {
                continue;
            };
            for (name, state) in text.lines().filter_map(|line| line.split_once(": ")) {
                if RECORDED_OFFLOADS.contains(&name.trim()) {
                    let state = state.split_whitespace().next().unwrap_or_default();
                    offloads.insert(format!("{port}:{}", name.trim()), state.to_owned());
                }
            }
        }
        offloads
    }

    fn place(&self) -> Option<Arc<dyn Host>> {
        Some(self.place.clone())
    }

    fn observed(&self) -> Option<Observed> {
        Some(Observed {
            system: System::Linux,
            host: self.host.clone(),
            ports: self.sides.ports.to_vec(),
            cpus: self.cpus.clone(),
        })
    }

    fn undo_change(&self, change: Change, limit: Limit<'_>) -> Result<(), LabError> {
        Ok(self.undo.undo_change(change, limit)?)
    }

    fn undo(&self) -> Vec<String> {
        self.tunnels.store(0, Ordering::Relaxed);
        self.undo.undo_all(Limit::OURS)
    }
}

/// Returns how long a CPU was busy so far, from `/proc/stat` (proc_stat(5)): user, nice, system,
/// idle, iowait, irq, softirq, in hundredths of a second.
fn busy_ns(stat: &str, cpu: usize) -> Option<u64> {
    let name = format!("cpu{cpu} ");
    let line = stat.lines().find(|line| line.starts_with(&name))?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .map_while(|word| word.parse().ok())
        .collect();
    let of = |at: usize| ticks.get(at).copied();
    let busy = of(0)? + of(1)? + of(2)? + of(5)? + of(6)?;
    Some(busy * 10_000_000)
}

/// Returns the option of `ip` for an IP version.
fn family(version: IpVersion) -> &'static str {
    match version {
        IpVersion::Ipv4 => "-4",
        IpVersion::Ipv6 => "-6",
    }
}

/// Reads settings of the kernel, which are numbers; for each, the value or why it cannot be read.
fn read_settings(
    host: &dyn Host,
    names: &[&str],
) -> Result<Vec<Result<String, HostError>>, LabError> {
    let files: Vec<String> = names
        .iter()
        .map(|name| format!("/proc/sys/{name}"))
        .collect();
    let paths: Vec<&str> = files.iter().map(String::as_str).collect();
    let read = host.read_each(&paths)?;
    let all = files.iter().zip(read).map(|(file, read)| {
        let Ok(bytes) = read else {
            return Ok(read.map(|_| String::new()));
        };
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        // a shell will write it back later: accept numbers only
        match text.parse::<i64>() {
            Ok(_) => Ok(Ok(text)),
            Err(_) => Err(not_understood(host, &format!("read {file}"), &text)),
        }
    });
    all.collect()
}

/// Describes why a setting could not be set.
fn not_set(error: &HostError) -> String {
    match &error.failure {
        Failure::File(reason) => format!("not set: {reason}"),
        _ => format!("not set: {error}"),
    }
}
