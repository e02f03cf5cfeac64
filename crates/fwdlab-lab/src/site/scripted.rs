//! A site of values for tests of the whole lab: hosts scripted as routers, a rig whose frames are
//! arithmetic, and a clock that advances as fast as it is waited for.
//!
//! The hosts outlive their beds, like machines in a rack: changes that are not undone exist in the
//! next bed, slow down frames, and show in figures. The effects of configurations disappear with
//! every bed, as if the machines were reinstalled. Nothing here queries this machine, and every
//! host fails on demand. Start with [`Scene::new`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fwdlab_engine::analysis::{Analysis, AnalysisPlan};
use fwdlab_engine::tester::Proof;
use fwdlab_engine::{
    Choice, EngineError, Histogram, LoadPlan, PathSpec, PortSpec, Reading, ReceiveCounts, Schedule,
};
use fwdlab_model::facts::Facts;
use fwdlab_model::trial::Stream;

use super::{Builder, Site, Wanted};
use crate::bed::{Bed, Parts, TesterPorts, Testers};
use crate::dut::{Dut, Linux};
use crate::error::LabError;
use crate::host::reboot::reboot_and_wait;
use crate::host::registry::Registry;
use crate::host::scripted::{Faults, Scripted};
use crate::host::{Address, Host, Limit};
use crate::networks::Networks;
use crate::placement::Placement;
use crate::tester::local::Chosen;
use crate::tester::{Frames, Rig};

/// The host of the tester's ports.
pub(crate) const TESTER: &str = "tester1";

/// Limit of the rig, in frames per second.
pub(crate) const MOST_PPS: f64 = 5e6;

/// Time that a plain router needs per frame.
const FRAME_NS: f64 = 1000.0;

/// Additional time for every nftables rule, every route that is not of the bed, and every applied
/// configuration.
const RULE_NS: f64 = 10.0;
const ROUTE_NS: f64 = 5.0;
const CONFIGURATION_NS: f64 = 250.0;

/// Returns how many frames per second a router forwards.
pub(crate) fn capacity_pps(configurations: usize, rules: usize) -> f64 {
    1e9 / (FRAME_NS + RULE_NS * rules as f64 + CONFIGURATION_NS * configurations as f64)
}

/// Ports of the routers.
const PORTS: [&str; 2] = ["eth0", "eth1"];

/// A site, with access to its internals for tests.
pub(crate) struct Scene {
    pub site: Site,
    pub world: Arc<SharedState>,
    /// How calls fail, and the calls so far that may fail: of all hosts, or of the rig.
    pub faults: Arc<Faults>,
    pub registry: Registry,
    /// Folder of the records; removed when this is dropped.
    _folder: tempfile::TempDir,
}

/// State that the hosts and the rig share.
#[derive(Debug)]
pub(crate) struct SharedState {
    state: Mutex<State>,
    began: Instant,
}

#[derive(Debug)]
struct State {
    now: Duration,
    routers: Vec<Router>,
    flow: Option<Flow>,
    /// Counts of the rig since the trial was armed, on each path.
    sent: Vec<u64>,
    received: Vec<u64>,
    nonce: u16,
    /// Number of beds that were built, and of open rigs.
    beds: usize,
    rigs: usize,
    /// Commands that no router knows, and settings restored while a rig was open.
    unknown: Vec<String>,
    /// A port of the first router goes down this long after the beginning of this trial, counted
    /// from zero. It stays down until the next bed, or comes back.
    goes_down: Option<(usize, Duration, Outage)>,
    /// After this number of trials, routers are this many times as fast.
    speeds_up: Option<(usize, f64)>,
    /// Above this constant load, a hundredth of the frames is not sent.
    stutters_above_pps: f64,
    /// The sender stalls at the beginning of every period, for this long.
    stalls: Option<(Duration, Duration)>,
    /// Above this constant load, the routers lose a few frames.
    loses_above_pps: f64,
    /// Number of trials that were started.
    trials: usize,
    /// Commands of hooks that were run on any host, each with its environment.
    hooks: Vec<String>,
    /// Number of restarts of the first router that were requested, those among them without effect,
    /// and the number of its boots.
    restarts: usize,
    stays_away: std::ops::Range<usize>,
    boot: usize,
}

/// A router, represented by its tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Router {
    /// Settings that differ from those after a boot: `net/ipv4/ip_forward`, `1`.
    settings: BTreeMap<String, String>,
    /// Addresses, neighbours and routes: `route 198.18.0.0/16 via 198.18.0.2 dev eth0`.
    lines: BTreeSet<String>,
    /// Tables of nftables: name, text.
    tables: BTreeMap<String, String>,
    /// Effects of configurations.
    applied: BTreeSet<String>,
    /// Tables of files that were loaded.
    loaded: BTreeSet<String>,
    is_down: bool,
    /// Number of link changes of its second port.
    link_changes: u64,
    /// Frames received and sent.
    counted: (u64, u64),
}

/// How long a link is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outage {
    ForGood,
    /// It is up again before anyone checks.
    ForAMoment,
}

/// Frames in flight.
#[derive(Debug)]
struct Flow {
    schedule: Schedule,
    began: Duration,
    path: usize,
    /// Frames that were due so far, and those among them that were sent.
    due: u64,
    left: u64,
    /// Time of the path's router that is available for frames.
    credit: f64,
    ended: bool,
}

impl Router {
    /// Returns what fwdlab has changed on it; empty if nothing.
    pub fn changes(&self) -> Vec<String> {
        let settings = self
            .settings
            .iter()
            .map(|(name, to)| format!("{name} {to}"));
        let tables = self.tables.keys().map(|name| format!("table {name}"));
        settings
            .chain(self.lines.iter().cloned())
            .chain(tables)
            .collect()
    }

    fn frame_ns(&self) -> f64 {
        let rules = self.tables.values().flat_map(|text| text.lines());
        let rules = rules.filter(|line| line.trim().ends_with("drop")).count();
        let routes = self
            .lines
            .iter()
            .filter(|line| line.contains(" proto "))
            .count();
        FRAME_NS
            + RULE_NS * rules as f64
            + ROUTE_NS * routes as f64
            + CONFIGURATION_NS * self.applied.len() as f64
    }

    fn forwards(&self) -> bool {
        let has = |kind: &str, port: &str| {
            let mut of_port = self
                .lines
                .iter()
                .filter(|l| l.contains(&format!(" dev {port}")));
            of_port.any(|line| line.starts_with(kind) && line.contains('.'))
        };
        let is_router = self
            .settings
            .get("net/ipv4/ip_forward")
            .is_some_and(|is| is == "1");
        let is_whole = |port| {
            ["addr", "neigh", "route"]
                .iter()
                .all(|kind| has(kind, port))
        };
        is_router && PORTS.into_iter().all(is_whole) && !self.is_down
    }

    /// Changes a setting; all are 0 after a boot.
    fn set(&mut self, name: &str, value: &str) {
        match value.trim() {
            "0" => self.settings.remove(name),
            value => self.settings.insert(name.to_owned(), value.to_owned()),
        };
    }

    /// Executes a line of `ip -batch`.
    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match &words[..] {
            [kind, "add" | "replace", rest @ ..] => {
                self.lines.insert(format!("{kind} {}", rest.join(" ")));
            }
            ["route", "flush", "exact", network, "dev", _] => {
                self.forget(&format!("route {network} "));
            }
            ["neigh", "flush", "to", address, ..] => self.forget(&format!("neigh {address} ")),
            ["addr", "flush", "dev", _, "to", address] => self.forget(&format!("addr {address}/")),
            ["route", "flush", "proto", protocol] => {
                let of = format!(" proto {protocol}");
                self.lines.retain(|line| !line.ends_with(&of));
            }
            _ => panic!("no line of ip: {line}"),
        }
    }

    fn forget(&mut self, begin: &str) {
        self.lines.retain(|line| !line.starts_with(begin));
    }

    /// Executes rules of `nft -f`.
    fn rules(&mut self, text: &str) {
        for line in text.lines() {
            if let Some(table) = line.strip_prefix("delete table inet ") {
                self.tables.remove(table);
            }
            if let Some(table) = line.strip_prefix("table inet ") {
                let name = table.trim_end_matches(" {").to_owned();
                self.tables.insert(name, text.to_owned());
            }
        }
    }

    /// Answers a command with its input as a Linux machine would; `None`: unknown command.
    fn answer(&mut self, command: &str, input: &str) -> Option<String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let file = |path: &str| path.strip_prefix("/proc/sys/").map(str::to_owned);
        let output = match &words[..] {
            ["read", "/proc/thread-self/net/dev"] => {
                let (returned, went) = self.counted;
                net_dev(&[(PORTS[0].into(), returned, 0), (PORTS[1].into(), 0, went)])
            }
            ["read", path] => {
                let value = self.settings.get(&file(path)?);
                format!("{}\n", value.map_or("0", String::as_str))
            }
            ["write", path] => {
                self.set(&file(path)?, input);
                String::new()
            }
            ["restore", "settings"] => {
                for line in input.lines().filter(|line| *line != "set -e") {
                    let (value, path) = line.strip_prefix("echo '")?.split_once("' > ")?;
                    self.set(&file(path)?, value);
                }
                String::new()
            }
            ["ip", .., "-batch", "-"] => {
                input.lines().for_each(|line| self.line(line));
                String::new()
            }
            ["ip", _, "route", "flush", ..] => {
                self.line(&words[2..].join(" "));
                String::new()
            }
            ["ip", _, "route", "show", "proto", protocol] => {
                let of = format!(" proto {protocol}");
                let lines = self.lines.iter().filter_map(|l| l.strip_suffix(&of));
                lines
                    .map(|line| format!("{}\n", &line["route ".len()..]))
                    .collect()
            }
            ["ip", "-o", "link", "show"] => {
                let state = if self.is_down { "" } else { ",LOWER_UP" };
                format!("2: eth0@if9: <UP,LOWER_UP> mtu 1500\n3: eth1@if8: <UP{state}> mtu 1500\n")
            }
            ["ip", "-json", "-s", "-s", "link", "show"] => format!(
                r#"[{{"ifname":"eth1","stats64":{{"rx":{{}},"tx":{{"carrier_changes":{}}}}}}}]"#,
                self.link_changes
            ),
            ["nft", "-f", "-"] => {
                self.rules(input);
                String::new()
            }
            ["nft", "list", "table", "inet", name] => self.tables.get(*name).cloned()?,
            ["put", _] => String::new(),
            ["nft", "add", ..] => {
                self.applied.insert(command.to_owned());
                String::new()
            }
            ["exec", "nft", "-f", path] => {
                // a file of this machine is available where it was uploaded
                let ours = path.strip_prefix("/tmp/fwdlab/")?;
                let text = std::fs::read_to_string(ours).ok()?;
                self.loaded.extend(
                    text.lines()
                        .filter_map(|line| line.strip_prefix("add table ").map(str::to_owned)),
                );
                self.applied.insert(command.to_owned());
                String::new()
            }
            ["nft", "list", "tables"] => {
                let all = self.loaded.iter().map(|table| format!("table {table}\n"));
                all.collect()
            }
            ["nft", "-s", "list", "ruleset"] => {
                let all = self
                    .loaded
                    .iter()
                    .map(|table| format!("table {table} {{\n}}\n"));
                all.collect()
            }
            ["ethtool", "-k", _] => "Features:\ngeneric-receive-offload: on\n".into(),
            _ => return None,
        };
        Some(output)
    }
}

/// Returns `/proc/net/dev` with these ports: packets received, packets sent.
fn net_dev(ports: &[(String, u64, u64)]) -> String {
    let line = |(name, rx, tx): &(String, u64, u64)| {
        format!(
            "{name:>6}: {} {rx} 0 0 0 0 0 0 {} {tx} 0 0 0 0 0 0\n",
            rx * 60,
            tx * 60
        )
    };
    let head = "Inter-|   Receive  |  Transmit\n face |bytes packets errs\n";
    head.to_owned() + &ports.iter().map(line).collect::<String>()
}

/// Returns the number of frames due at this time after the beginning of a schedule, for a sender
/// with this limit.
fn due(schedule: &Schedule, after: Duration, most_pps: f64) -> u64 {
    let time = after.min(schedule.at_most);
    let frames = match &schedule.load {
        LoadPlan::FlatOut => MOST_PPS * time.as_secs_f64(),
        LoadPlan::Constant(pps) => pps.min(most_pps) * time.as_secs_f64(),
        load @ LoadPlan::Stretches(_) => {
            let steps = (time.as_micros() / 100) as u64;
            let at = |step: u64| {
                load.at(Duration::from_micros(100 * step))
                    .unwrap_or_default()
            };
            (0..steps).map(|step| at(step).min(most_pps) * 1e-4).sum()
        }
    };
    // prevents that rounding loses the last frame
    let frames = (frames + 1e-6) as u64;
    schedule.frames.map_or(frames, |most| frames.min(most))
}

impl State {
    /// Advances the time, and the frames with it.
    fn pass(&mut self, time: Duration) {
        let from = self.now;
        self.now += time;
        let (every, long) = self.stalls.unwrap_or((Duration::MAX, Duration::ZERO));
        let (every, long) = (every.as_nanos(), long.as_nanos());
        let stalled = |until: Duration| {
            let until = until.as_nanos();
            (until / every * long + (until % every).min(long)) as f64 / 1e9
        };
        let sends_s = time.as_secs_f64() - (stalled(self.now) - stalled(from));
        let Some(flow) = self.flow.as_mut().filter(|flow| !flow.ended) else {
            return;
        };
        let after = self.now - flow.began;
        let now = self
            .goes_down
            .take_if(|(trial, at, _)| self.trials == *trial + 1 && after >= *at);
        match now {
            Some((.., Outage::ForGood)) => self.routers[0].is_down = true,
            Some((.., Outage::ForAMoment)) => self.routers[0].link_changes += 2,
            None => {}
        }
        flow.due = due(&flow.schedule, after, f64::MAX);
        let mut left = due(&flow.schedule, after, MOST_PPS);
        if matches!(flow.schedule.load, LoadPlan::Constant(pps) if pps > self.stutters_above_pps) {
            left -= left / 100;
        }
        let mut new = left - flow.left;
        if long > 0 {
            // frames that were due during a stall are dropped from the schedule
            new = (new as f64 * sends_s / time.as_secs_f64().max(f64::MIN_POSITIVE)) as u64;
        }
        flow.left = left;
        let router = &mut self.routers[flow.path];
        let speed = match self.speeds_up {
            Some((trial, times)) if self.trials > trial => times,
            _ => 1.0,
        };
        let most = flow.credit + sends_s * 1e9 * speed / router.frame_ns();
        let mut forwarded = match router.forwards() {
            true => new.min(most as u64),
            false => 0,
        };
        if matches!(flow.schedule.load, LoadPlan::Constant(pps) if pps > self.loses_above_pps) {
            forwarded -= forwarded / 300;
        }
        // its queue holds one or two frames, no more
        flow.credit = (most - forwarded as f64).clamp(0.0, 2.0);
        router.counted.0 += new;
        router.counted.1 += forwarded;
        self.sent[flow.path] += new;
        self.received[flow.path] += forwarded;
    }
}

impl SharedState {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time on its clock.
    pub fn elapsed(&self) -> Duration {
        self.state().now
    }

    /// Returns the number of trials of the rig so far, including looks for a load.
    pub fn trials(&self) -> usize {
        self.state().trials
    }

    /// Returns the number of beds so far.
    pub fn beds(&self) -> usize {
        self.state().beds
    }

    /// Returns the changes on the routers, each with the number of the router.
    pub fn changes(&self) -> Vec<String> {
        let state = self.state();
        let routers = state.routers.iter().enumerate();
        let changes = routers.flat_map(|(k, router)| {
            let changes = router.changes().into_iter();
            changes.map(move |change| format!("{}: {change}", name(k)))
        });
        changes.collect()
    }

    /// Makes the routers lose a few frames above this constant load, overloaded or not.
    pub fn loses_above(&self, pps: f64) {
        self.state().loses_above_pps = pps;
    }

    /// Makes the sender stall repeatedly above this constant load.
    pub fn stutters_above(&self, pps: f64) {
        self.state().stutters_above_pps = pps;
    }

    /// Makes the routers this many times as fast after this number of trials of the rig.
    pub fn speeds_up_after(&self, trials: usize, times: f64) {
        self.state().speeds_up = Some((trials, times));
    }

    /// Makes the sender stall at the beginning of every period, for this long.
    pub fn stalls(&self, every: Duration, long: Duration) {
        self.state().stalls = Some((every, long));
    }

    /// Takes a port of the first router down in this trial of the rig, this long after its
    /// beginning.
    pub fn schedule_outage(&self, trial: usize, after: Duration, away: Outage) {
        self.state().goes_down = Some((trial, after, away));
    }

    /// Returns commands that no router knew.
    pub fn unknown(&self) -> Vec<String> {
        self.state().unknown.clone()
    }

    /// Returns the commands of hooks that were run, each with its environment.
    pub fn hooks(&self) -> Vec<String> {
        self.state().hooks.clone()
    }

    /// Returns how often the first router was restarted.
    pub fn restarts(&self) -> usize {
        self.state().boot - 1
    }

    /// Makes the first router stay away after these restarts, counted from zero.
    pub fn never_returns(&self, restarts: std::ops::Range<usize>) {
        self.state().stays_away = restarts;
    }

    /// Answers a command of a hook, which begins with `hook`.
    fn hook_answer(&self, host: &str, command: &str, text: &str) -> Option<String> {
        if !command.starts_with("hook") {
            return None;
        }
        let mut state = self.state();
        let exports = text.lines().next().unwrap_or_default();
        let sent: u64 = state.sent.iter().sum();
        let reported = exports.trim_start_matches("export ");
        let line = format!("{host}: {command} [{reported}] after {sent} frames");
        state.hooks.push(line);
        Some(format!("{command} was here\n"))
    }

    fn router_answer(&self, number: usize, command: &str, input: &str) -> String {
        if let Some(output) = self.hook_answer(&name(number), command, input) {
            return output;
        }
        let mut state = self.state();
        match command {
            "which boot is this?" => return format!("boot-{}\n", state.boot),
            "reboot" => {
                let restart = state.restarts;
                state.restarts += 1;
                if !state.stays_away.contains(&restart) {
                    state.boot += 1;
                    state.routers[number] = Router::default();
                }
                return String::new();
            }
            _ => {}
        }
        if command == "restore settings" && state.rigs > 0 {
            state.unknown.push(format!("{command} beside a rig"));
        }
        let router = &mut state.routers[number];
        let output = router.answer(command, input);
        output.unwrap_or_else(|| {
            state.unknown.push(command.to_owned());
            String::new()
        })
    }

    fn tester_answer(&self, command: &str, input: &str) -> String {
        if let Some(output) = self.hook_answer(TESTER, command, input) {
            return output;
        }
        let mut state = self.state();
        let duts = state.routers.len();
        let counted = |k: usize| state.routers[k].counted;
        match command {
            "read /proc/thread-self/net/dev" => {
                let ports = (0..duts).flat_map(|k| {
                    let (returned, went) = counted(k);
                    [(format!("tx{k}"), 0, returned), (format!("rx{k}"), went, 0)]
                });
                net_dev(&ports.collect::<Vec<_>>())
            }
            "ip -json -s -s link show" => "[]".to_owned(),
            "ip -o link show" => (0..duts)
                .map(|k| {
                    format!("2: tx{k}: <UP,LOWER_UP> mtu 1500\n3: rx{k}: <UP,LOWER_UP> mtu 1500\n")
                })
                .collect(),
            _ => {
                state.unknown.push(command.to_owned());
                String::new()
            }
        }
    }
}

/// Returns the name of a router.
fn name(number: usize) -> String {
    format!("router{}", number + 1)
}

/// Creates a folder in memory if possible: writing through to a disk takes longer than everything
/// else.
pub(crate) fn folder() -> tempfile::TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory
        .or_else(|_| tempfile::tempdir())
        .expect("a folder")
}

impl Scene {
    /// Creates a site with this number of routers, whose hosts fail as specified by these faults.
    pub fn new(routers: usize, faults: Faults) -> Scene {
        Scene::with(routers, faults, Faults::default(), |hosts, _| hosts)
    }

    /// The same with a rig that fails as specified by these faults, like one behind an agent.
    pub fn with_rig(routers: usize, faults: Faults) -> Scene {
        Scene::with(routers, Faults::default(), faults, |_, rig| rig)
    }

    fn with(
        routers: usize,
        hosts: Faults,
        rig: Faults,
        which: fn(Arc<Faults>, Arc<Faults>) -> Arc<Faults>,
    ) -> Scene {
        let folder = folder();
        let registry = Registry::at(folder.path().join("labs")).expect("a folder in it");
        let (faults, rig) = (Arc::new(hosts), Arc::new(rig));
        let world = Arc::new(SharedState {
            began: Instant::now(),
            state: Mutex::new(State {
                now: Duration::ZERO,
                routers: vec![Router::default(); routers],
                flow: None,
                sent: vec![0; routers],
                received: vec![0; routers],
                nonce: 0,
                beds: 0,
                rigs: 0,
                unknown: Vec::new(),
                goes_down: None,
                speeds_up: None,
                stutters_above_pps: f64::INFINITY,
                stalls: None,
                loses_above_pps: f64::INFINITY,
                trials: 0,
                hooks: Vec::new(),
                restarts: 0,
                stays_away: 0..0,
                boot: 1,
            }),
        });
        let builder = Rack {
            hosts: Hosts::new(&world, routers, &faults),
            world: world.clone(),
            faults: faults.clone(),
            rig: rig.clone(),
            registry: registry.clone(),
        };
        Scene {
            site: Site(Arc::new(builder)),
            world,
            faults: which(faults, rig),
            registry,
            _folder: folder,
        }
    }

    /// Does what the next start does when all hosts can be reached again: undoes what is left.
    /// Returns what could not be undone.
    pub fn start_again(&self) -> Vec<String> {
        let routers = self.world.state().routers.len();
        let hosts = Hosts::new(&self.world, routers, &Arc::default());
        let swept = self
            .registry
            .sweep_by(false, &|address| hosts.reach(address));
        swept.expect("the registry can be read");
        let left = self.registry.list().expect("the registry can be read");
        left.into_iter().map(|found| found.record.id).collect()
    }
}

/// The hosts of a site.
#[derive(Debug)]
struct Hosts {
    tester: Arc<Scripted>,
    routers: Vec<Arc<Scripted>>,
}

impl Hosts {
    fn new(world: &Arc<SharedState>, routers: usize, faults: &Arc<Faults>) -> Hosts {
        let router = |number| {
            let world = world.clone();
            let host =
                Scripted::new(move |command, input| world.router_answer(number, command, input));
            Arc::new(host.called(&name(number)).with(faults))
        };
        let of_tester = world.clone();
        let tester = Scripted::new(move |command, input| of_tester.tester_answer(command, input));
        Hosts {
            tester: Arc::new(tester.called(TESTER).with(faults)),
            routers: (0..routers).map(router).collect(),
        }
    }

    fn reach(&self, address: &Address) -> Arc<dyn Host> {
        let mut all = self.routers.iter().chain([&self.tester]);
        all.find(|host| host.address() == *address)
            .expect("one of these hosts")
            .clone()
    }
}

/// Builds beds of the same hosts again and again.
#[derive(Debug)]
struct Rack {
    hosts: Hosts,
    world: Arc<SharedState>,
    /// Faults of its hosts and of its rigs.
    faults: Arc<Faults>,
    rig: Arc<Faults>,
    registry: Registry,
}

impl Builder for Rack {
    fn build(&self, requested: &Wanted<'_>) -> Result<Bed, LabError> {
        assert!(
            !requested.both_ways && !requested.is_managed,
            "not simulated"
        );
        self.faults.next_bed();
        self.rig.next_bed();
        self.registry
            .sweep_by(false, &|address| self.hosts.reach(address))?;
        // existing hosts cannot be measured while another lab has them, or while an old change is
        // left
        if let Some(found) = self.registry.list()?.first() {
            let hosts = self.hosts.routers.iter().map(|host| host.name());
            let hosts = hosts.collect::<Vec<_>>().join(", ");
            let reason = match found.in_use {
                true => format!("another lab has {hosts}"),
                false => format!(
                    "what lab {} changed on {hosts} is still there",
                    found.record.id
                ),
            };
            return Err(LabError::Preflight(reason));
        }
        let registration = self.registry.register_on_hosts()?;
        {
            let mut state = self.world.state();
            state.beds += 1;
            for router in &mut state.routers {
                router.applied.clear();
                router.loaded.clear();
                router.is_down = false;
            }
        }
        let mut sysctls = BTreeMap::new();
        let mut duts: Vec<Arc<dyn Dut>> = Vec::new();
        for (number, host) in self.hosts.routers.iter().take(requested.duts).enumerate() {
            let undo = registration.changes().clone();
            let dut = Linux::new(host.clone(), host.clone(), PORTS, Networks::EMBEDDED, undo);
            let set = dut.prepare()?;
            if number == 0 {
                sysctls = set;
            }
            duts.push(Arc::new(dut));
        }
        let port = |interface: String| PortSpec {
            netns: None,
            interface,
        };
        let path = |k| PathSpec {
            tx: port(format!("tx{k}")),
            rx: port(format!("rx{k}")),
        };
        Ok(Bed::from_parts(Parts {
            paths: (0..duts.len()).map(path).collect(),
            duts,
            tester: Testers::one(self.hosts.tester.clone()),
            networks: Networks::EMBEDDED,
            both_ways: false,
            sysctls,
            registration,
            switch: None,
            claims: Vec::new(),
            ports: TesterPorts::default(),
        }))
    }

    fn open(&self, bed: &Bed, choice: &Choice) -> Result<(Box<dyn Rig>, Chosen), LabError> {
        self.world.state().rigs += 1;
        let mut rig = Arithmetic(self.world.clone(), self.rig.clone());
        for path in 0..bed.path_count() {
            let Some(stream) = &choice.prove else { break };
            let Proof { sent, received } = rig.prove(path, stream, 10)?;
            if received < sent {
                let reason = format!("path {path}: {received} of {sent} frames came back");
                return Err(EngineError::NoneWorks(reason).into());
            }
        }
        let chosen = Chosen {
            words: "arithmetic".into(),
            rejected: BTreeMap::new(),
        };
        Ok((Box::new(rig), chosen))
    }

    fn is_local(&self) -> bool {
        false
    }

    fn patience(&self) -> &[Duration] {
        match self.faults.comes_back || self.rig.comes_back {
            true => &[Duration::ZERO; 2],
            false => &[],
        }
    }

    fn can_reboot(&self) -> Result<(), String> {
        Ok(())
    }

    fn reboot(&self, limit: Limit<'_>) -> Result<String, LabError> {
        Ok(reboot_and_wait(self.hosts.routers[0].as_ref(), limit)?)
    }

    fn facts(&self, placement: &Placement, privileged: bool) -> Facts {
        Facts {
            privileged,
            placement: placement.notes.clone(),
            ..Facts::default()
        }
    }
}

/// A rig whose frames are counted and never sent.
#[derive(Debug)]
struct Arithmetic(Arc<SharedState>, Arc<Faults>);

impl Arithmetic {
    /// Makes a call, which may fail.
    fn query(&self, action: &str) -> Result<(), LabError> {
        Ok(self.1.fail(TESTER, action)?)
    }
}

impl Drop for Arithmetic {
    fn drop(&mut self) {
        self.0.state().rigs -= 1;
    }
}

impl Rig for Arithmetic {
    fn names(&self) -> (&'static str, &'static str) {
        ("arithmetic", "arithmetic")
    }

    fn prove(&mut self, path: usize, _: &Stream, frames: u64) -> Result<Proof, LabError> {
        self.query("prove a path")?;
        let mut state = self.0.state();
        let router = &mut state.routers[path];
        let received = if router.forwards() { frames } else { 0 };
        router.counted.0 += frames;
        router.counted.1 += received;
        Ok(Proof {
            sent: frames,
            received,
        })
    }

    fn arm(&mut self, frames: Frames<'_>, plan: Option<AnalysisPlan>) -> Result<(), LabError> {
        assert!(
            matches!(frames, Frames::Stream(_)) && plan.is_none(),
            "not simulated"
        );
        self.query("arm a trial")?;
        let mut state = self.0.state();
        let routers = state.routers.len();
        (state.sent, state.received) = (vec![0; routers], vec![0; routers]);
        state.flow = None;
        state.nonce = state.nonce.wrapping_add(1);
        Ok(())
    }

    fn nonce(&self) -> u16 {
        self.0.state().nonce
    }

    fn start(&mut self, schedule: Schedule) -> Result<(), LabError> {
        self.query("start a trial")?;
        let mut state = self.0.state();
        state.trials += 1;
        state.flow = Some(Flow {
            path: schedule.path,
            schedule,
            began: state.now,
            due: 0,
            left: 0,
            credit: 2.0,
            ended: false,
        });
        Ok(())
    }

    fn select(&mut self, path: usize) -> Result<(), LabError> {
        self.query("select a path")?;
        if let Some(flow) = &mut self.0.state().flow {
            flow.path = path;
        }
        Ok(())
    }

    fn renew(&mut self) -> Result<Duration, LabError> {
        self.query("renew memory")?;
        Ok(Duration::ZERO)
    }

    fn is_done(&self) -> bool {
        let state = self.0.state();
        let over = |flow: &Flow| state.now - flow.began >= flow.schedule.at_most;
        state.flow.as_ref().is_none_or(over)
    }

    fn read(&mut self) -> Result<Reading, LabError> {
        self.query("read counters")?;
        let state = self.0.state();
        let at_ns = 1_000_000_000 + state.now.as_nanos() as u64;
        Ok(Reading {
            at_ns,
            received_at_ns: at_ns,
            sent: state.sent.clone(),
            beside: vec![0; state.sent.len()],
            not_sent: state.flow.as_ref().map_or(0, |flow| flow.due - flow.left),
            ring_full: 0,
            wakeups: 0,
            not_sent_by_sender: Vec::new(),
            sender_waited_ns: 0,
            received: state.received.clone(),
        })
    }

    fn stop(&mut self) -> Result<Reading, LabError> {
        self.query("stop a trial")?;
        if let Some(flow) = &mut self.0.state().flow {
            flow.ended = true;
        }
        self.read()
    }

    fn receive_counts(&mut self, path: usize) -> Result<ReceiveCounts, LabError> {
        self.query("count received frames")?;
        Ok(ReceiveCounts {
            received: self.0.state().received[path],
            ..ReceiveCounts::default()
        })
    }

    fn analysis(&mut self, _: usize) -> Result<Option<Analysis>, LabError> {
        Ok(None)
    }

    fn lateness(&self) -> Result<Option<Histogram>, LabError> {
        Ok(None)
    }

    fn now(&self) -> Instant {
        self.0.began + self.0.state().now
    }

    fn wait(&self, time: Duration) {
        self.0.state().pass(time);
    }
}
