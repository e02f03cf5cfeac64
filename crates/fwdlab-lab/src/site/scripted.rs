//! A site of values, for tests of the whole lab: hosts that are scripted as routers, a rig whose frames are arithmetic, and a clock that
//! runs as fast as it is waited for.
//!
//! The hosts outlive their beds, as machines in a rack do: what is not taken back is there in the next bed, costs frames their time, and
//! shows in figures. What configurations did is gone with every bed, as if the machines were installed anew. Nothing here asks this
//! machine anything, and every host fails when it is told to. Start with [`Scene::new`].

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
use crate::bed::{Bed, Parts, Testers};
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

/// What the rig can send, in frames per second.
pub(crate) const MOST_PPS: f64 = 5e6;

/// A plain router needs so long for a frame.
const FRAME_NS: f64 = 1000.0;

/// And so much longer for every rule of nftables, every route that is not of the bed, and every configuration that it has.
const RULE_NS: f64 = 10.0;
const ROUTE_NS: f64 = 5.0;
const CONFIGURATION_NS: f64 = 250.0;

/// How many frames a router forwards per second.
pub(crate) fn capacity_pps(configurations: usize, rules: usize) -> f64 {
    1e9 / (FRAME_NS + RULE_NS * rules as f64 + CONFIGURATION_NS * configurations as f64)
}

/// Ports of the routers.
const PORTS: [&str; 2] = ["eth0", "eth1"];

/// A site, and what tests want to know and do behind its back.
pub(crate) struct Scene {
    pub site: Site,
    pub world: Arc<World>,
    /// How something fails, and what was asked so far of what may fail: of all hosts, or of the rig.
    pub faults: Arc<Faults>,
    pub registry: Registry,
    /// Where the records are; it goes with this.
    _folder: tempfile::TempDir,
}

/// What the hosts and the rig have in common.
#[derive(Debug)]
pub(crate) struct World {
    state: Mutex<State>,
    began: Instant,
}

#[derive(Debug)]
struct State {
    now: Duration,
    routers: Vec<Router>,
    flow: Option<Flow>,
    /// What the rig counted since the trial was armed, on each path.
    sent: Vec<u64>,
    received: Vec<u64>,
    nonce: u16,
    /// Beds that were built.
    beds: usize,
    /// Commands that no router knows.
    unknown: Vec<String>,
    /// A port of the first router goes down so long after the begin of this trial, counted from zero, and stays so until the next bed, or comes back.
    goes_down: Option<(usize, Duration, Away)>,
    /// After how many trials routers are how many times as fast.
    speeds_up: Option<(usize, f64)>,
    /// Of a constant load above this one a hundredth never leaves.
    stutters_above_pps: f64,
    /// The sender stalls at the beginning of every period, for this long.
    stalls: Option<(Duration, Duration)>,
    /// Of constant loads above this one the routers lose a few frames.
    loses_above_pps: f64,
    /// Trials that were begun.
    trials: usize,
    /// How often each command of a hook was run on any host, with what it was told.
    hooks: Vec<String>,
    /// Restarts of the first router that were asked for, those of them that bring nothing about, and how often it was restarted.
    restarts: usize,
    stays_away: std::ops::Range<usize>,
    boot: usize,
}

/// A router as its tables have it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Router {
    /// Those that are not as after its start: `net/ipv4/ip_forward`, `1`.
    settings: BTreeMap<String, String>,
    /// Addresses, neighbours and routes: `route 198.18.0.0/16 via 198.18.0.2 dev eth0`.
    lines: BTreeSet<String>,
    /// Tables of nftables: name, text.
    tables: BTreeMap<String, String>,
    /// What configurations did.
    applied: BTreeSet<String>,
    /// Tables of files that were loaded.
    loaded: BTreeSet<String>,
    is_down: bool,
    /// How often the link of its second port came or went.
    link_changes: u64,
    /// Frames that came in and that went out.
    counted: (u64, u64),
}

/// How long a link is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Away {
    ForGood,
    /// It is there again before anybody looks.
    ForAMoment,
}

/// Frames on their way.
#[derive(Debug)]
struct Flow {
    schedule: Schedule,
    began: Duration,
    path: usize,
    /// Frames that were due so far, and those of them that left.
    due: u64,
    left: u64,
    /// Time that the router of the path has left for frames.
    credit: f64,
    ended: bool,
}

impl Router {
    /// What fwdlab has changed on it, or nothing.
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

    /// A setting becomes this; all are 0 after the start.
    fn set(&mut self, name: &str, value: &str) {
        match value.trim() {
            "0" => self.settings.remove(name),
            value => self.settings.insert(name.to_owned(), value.to_owned()),
        };
    }

    /// A line of `ip -batch`.
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

    /// Rules for `nft -f`.
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

    /// A command with its input, as a Linux machine would answer it; `None`: it knows none of this name.
    fn answer(&mut self, command: &str, input: &str) -> Option<String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let file = |path: &str| path.strip_prefix("/proc/sys/").map(str::to_owned);
        let said = match &words[..] {
            ["read", "/proc/thread-self/net/dev"] => {
                let (came, went) = self.counted;
                net_dev(&[(PORTS[0].into(), came, 0), (PORTS[1].into(), 0, went)])
            }
            ["read", path] => {
                let value = self.settings.get(&file(path)?);
                format!("{}\n", value.map_or("0", String::as_str))
            }
            ["write", path] => {
                self.set(&file(path)?, input);
                String::new()
            }
            ["put", "settings", "back"] => {
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
                // a file of this machine's stands where it was put
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
        Some(said)
    }
}

/// `/proc/net/dev` with these ports: packets in, packets out.
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

/// Frames that are due so long after the begin of a schedule, if the sender could send so many.
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
    // what is due at the very end is not lost by rounding
    let frames = (frames + 1e-6) as u64;
    schedule.frames.map_or(frames, |most| frames.min(most))
}

impl State {
    /// Lets time pass, and frames with it.
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
            Some((.., Away::ForGood)) => self.routers[0].is_down = true,
            Some((.., Away::ForAMoment)) => self.routers[0].link_changes += 2,
            None => {}
        }
        flow.due = due(&flow.schedule, after, f64::MAX);
        let mut left = due(&flow.schedule, after, MOST_PPS);
        if matches!(flow.schedule.load, LoadPlan::Constant(pps) if pps > self.stutters_above_pps) {
            left -= left / 100;
        }
        let mut new = left - flow.left;
        if long > 0 {
            // what was due meanwhile is forgiven
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
        // a frame or two wait in its queue, no more
        flow.credit = (most - forwarded as f64).clamp(0.0, 2.0);
        router.counted.0 += new;
        router.counted.1 += forwarded;
        self.sent[flow.path] += new;
        self.received[flow.path] += forwarded;
    }
}

impl World {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has passed on its clock.
    pub fn elapsed(&self) -> Duration {
        self.state().now
    }

    /// Trials of the rig so far, looks for a load among them.
    pub fn trials(&self) -> usize {
        self.state().trials
    }

    /// Beds that were built so far.
    pub fn beds(&self) -> usize {
        self.state().beds
    }

    /// What is changed on the routers: each with its number.
    pub fn changes(&self) -> Vec<String> {
        let state = self.state();
        let routers = state.routers.iter().enumerate();
        let changes = routers.flat_map(|(k, router)| {
            let changes = router.changes().into_iter();
            changes.map(move |change| format!("{}: {change}", name(k)))
        });
        changes.collect()
    }

    /// The routers lose a few frames of constant loads above this one, overloaded or not.
    pub fn loses_above(&self, pps: f64) {
        self.state().loses_above_pps = pps;
    }

    /// The sender is held up again and again at constant loads above this one.
    pub fn stutters_above(&self, pps: f64) {
        self.state().stutters_above_pps = pps;
    }

    /// After this many trials of the rig the routers are this many times as fast.
    pub fn speeds_up_after(&self, trials: usize, times: f64) {
        self.state().speeds_up = Some((trials, times));
    }

    /// The sender stalls at the beginning of every period, for this long.
    pub fn stalls(&self, every: Duration, long: Duration) {
        self.state().stalls = Some((every, long));
    }

    /// A port of the first router goes down in this trial of the rig, so long after its begin.
    pub fn goes_down_in(&self, trial: usize, after: Duration, away: Away) {
        self.state().goes_down = Some((trial, after, away));
    }

    /// Commands that no router knew.
    pub fn unknown(&self) -> Vec<String> {
        self.state().unknown.clone()
    }

    /// Commands of hooks that were run, each with its environment.
    pub fn hooks(&self) -> Vec<String> {
        self.state().hooks.clone()
    }

    /// How often the first router was restarted.
    pub fn restarts(&self) -> usize {
        self.state().boot - 1
    }

    /// The first router does not come back from these restarts, counted from zero.
    pub fn stays_away(&self, restarts: std::ops::Range<usize>) {
        self.state().stays_away = restarts;
    }

    /// A command of a hook, which begins with `hook`.
    fn of_hook(&self, host: &str, command: &str, text: &str) -> Option<String> {
        if !command.starts_with("hook") {
            return None;
        }
        let mut state = self.state();
        let exports = text.lines().next().unwrap_or_default();
        let sent: u64 = state.sent.iter().sum();
        let told = exports.trim_start_matches("export ");
        let line = format!("{host}: {command} [{told}] after {sent} frames");
        state.hooks.push(line);
        Some(format!("{command} was here\n"))
    }

    fn of_router(&self, number: usize, command: &str, input: &str) -> String {
        if let Some(said) = self.of_hook(&name(number), command, input) {
            return said;
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
        let router = &mut state.routers[number];
        let said = router.answer(command, input);
        said.unwrap_or_else(|| {
            state.unknown.push(command.to_owned());
            String::new()
        })
    }

    fn of_tester(&self, command: &str, input: &str) -> String {
        if let Some(said) = self.of_hook(TESTER, command, input) {
            return said;
        }
        let mut state = self.state();
        let duts = state.routers.len();
        let counted = |k: usize| state.routers[k].counted;
        match command {
            "read /proc/thread-self/net/dev" => {
                let ports = (0..duts).flat_map(|k| {
                    let (came, went) = counted(k);
                    [(format!("tx{k}"), 0, came), (format!("rx{k}"), went, 0)]
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

/// What a router is called.
fn name(number: usize) -> String {
    format!("router{}", number + 1)
}

/// A folder in memory, where that can be: what is written through to a disk takes longer than all else.
pub(crate) fn folder() -> tempfile::TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory
        .or_else(|_| tempfile::tempdir())
        .expect("a folder")
}

impl Scene {
    /// A site with so many routers, on which hosts fail as these faults say.
    pub fn new(routers: usize, faults: Faults) -> Scene {
        Scene::with(routers, faults, Faults::default(), |hosts, _| hosts)
    }

    /// The same with a rig that fails as these faults say, as one behind an agent would.
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
        let world = Arc::new(World {
            began: Instant::now(),
            state: Mutex::new(State {
                now: Duration::ZERO,
                routers: vec![Router::default(); routers],
                flow: None,
                sent: vec![0; routers],
                received: vec![0; routers],
                nonce: 0,
                beds: 0,
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

    /// What the next start does when all hosts can be reached again: it takes back what is left. Returns what it could not.
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
    fn new(world: &Arc<World>, routers: usize, faults: &Arc<Faults>) -> Hosts {
        let router = |number| {
            let world = world.clone();
            let host = Scripted::new(move |command, input| world.of_router(number, command, input));
            Arc::new(host.called(&name(number)).with(faults))
        };
        let of_tester = world.clone();
        let tester = Scripted::new(move |command, input| of_tester.of_tester(command, input));
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
    world: Arc<World>,
    /// How its hosts and its rigs fail.
    faults: Arc<Faults>,
    rig: Arc<Faults>,
    registry: Registry,
}

impl Builder for Rack {
    fn build(&self, wanted: &Wanted<'_>) -> Result<Bed, LabError> {
        assert!(!wanted.both_ways && !wanted.is_managed, "not simulated");
        self.faults.next_bed();
        self.rig.next_bed();
        self.registry
            .sweep_by(false, &|address| self.hosts.reach(address))?;
        // on hosts that stay nothing can be measured that others change, nor where something is left of before
        if let Some(found) = self.registry.list()?.first() {
            let hosts = self.hosts.routers.iter().map(|host| host.name());
            let hosts = hosts.collect::<Vec<_>>().join(", ");
            let why = match found.in_use {
                true => format!("another lab has {hosts}"),
                false => format!(
                    "what lab {} changed on {hosts} is still there",
                    found.record.id
                ),
            };
            return Err(LabError::Preflight(why));
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
        for (number, host) in self.hosts.routers.iter().take(wanted.duts).enumerate() {
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
        Ok(Bed::of(Parts {
            paths: (0..duts.len()).map(path).collect(),
            duts,
            tester: Testers::one(self.hosts.tester.clone()),
            networks: Networks::EMBEDDED,
            both_ways: false,
            sysctls,
            registration,
            switch: None,
            claims: Vec::new(),
            blind: Vec::new(),
        }))
    }

    fn open(&self, bed: &Bed, choice: &Choice) -> Result<(Box<dyn Rig>, Chosen), LabError> {
        let mut rig = Arithmetic(self.world.clone(), self.rig.clone());
        for path in 0..bed.ways() {
            let Some(stream) = &choice.prove else { break };
            let Proof { sent, received } = rig.prove(path, stream, 10)?;
            if received < sent {
                let why = format!("path {path}: {received} of {sent} frames came back");
                return Err(EngineError::NoneWorks(why).into());
            }
        }
        let chosen = Chosen {
            words: "arithmetic".into(),
            rejected: BTreeMap::new(),
        };
        Ok((Box::new(rig), chosen))
    }

    fn is_here(&self) -> bool {
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
struct Arithmetic(Arc<World>, Arc<Faults>);

impl Arithmetic {
    /// It is asked for something, and may fail.
    fn ask(&self, what: &str) -> Result<(), LabError> {
        Ok(self.1.fail(TESTER, what)?)
    }
}

impl Rig for Arithmetic {
    fn names(&self) -> (&'static str, &'static str) {
        ("arithmetic", "arithmetic")
    }

    fn prove(&mut self, path: usize, _: &Stream, frames: u64) -> Result<Proof, LabError> {
        self.ask("prove a path")?;
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
        self.ask("arm a trial")?;
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
        self.ask("start a trial")?;
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
        self.ask("select a path")?;
        if let Some(flow) = &mut self.0.state().flow {
            flow.path = path;
        }
        Ok(())
    }

    fn renew(&mut self) -> Result<Duration, LabError> {
        self.ask("renew memory")?;
        Ok(Duration::ZERO)
    }

    fn is_done(&self) -> bool {
        let state = self.0.state();
        let over = |flow: &Flow| state.now - flow.began >= flow.schedule.at_most;
        state.flow.as_ref().is_none_or(over)
    }

    fn read(&mut self) -> Result<Reading, LabError> {
        self.ask("read counters")?;
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
            sender_waited_ns: 0,
            received: state.received.clone(),
        })
    }

    fn stop(&mut self) -> Result<Reading, LabError> {
        self.ask("stop a trial")?;
        if let Some(flow) = &mut self.0.state().flow {
            flow.ended = true;
        }
        self.read()
    }

    fn receive_counts(&mut self, path: usize) -> Result<ReceiveCounts, LabError> {
        self.ask("count received frames")?;
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
