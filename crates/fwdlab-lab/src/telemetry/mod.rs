//! Telemetry of a DUT: the counters of its host around a trial, read by one command over any
//! [`Host`].
//!
//! A saturated DUT does not answer queries. So counters are read before the load and after it,
//! while nothing moves, and their differences are exact; readings while frames flow come from a
//! sampler that was started before them. Each subject has a file with pure functions of the host's
//! texts, tested on recorded ones; `fwdlab_measure::telemetry` draws conclusions from the readings.
//! Nothing here makes a trial fail: what could not be read is recorded as missing, with its reason.
//! Start with [`Wanted`] and [`read`].

mod cpu;
mod drops;
pub mod freebsd;
pub(crate) mod interrupts;
mod ports;
pub mod queues;
mod sampler;
mod sensors;
mod sizes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fwdlab_measure::energy::power_of;
use fwdlab_measure::telemetry::{ReadingContext, between};
use fwdlab_model::campaign::{Subject, Telemetry as Asked};
pub use fwdlab_model::system::System;
use fwdlab_model::telemetry::{Reading, Record, Telemetry, When};

use self::drops::Ruleset;
use self::sampler::Sampler;
use crate::facts::pci_device;
use crate::host::{Command, Failure, Host, HostError, Limit, quoted};

/// Time limit of a reading, which takes 30 ms, or seconds on a remote host or one that swaps.
const PATIENCE: Duration = Duration::from_secs(20);

/// Precedes the answer to each part of the command.
const MARK: &str = "@@ ";

/// Replaces the answer to a part that the host could not read.
const FAILS: &str = "@@ fails ";

/// The last part: without it the answer is incomplete.
const END: &str = "end";

/// Entries of connection tracking, their maximum, and the number of hash buckets.
const CONNTRACK: [&str; 3] = [
    "/proc/sys/net/netfilter/nf_conntrack_count",
    "/proc/sys/net/netfilter/nf_conntrack_max",
    "/proc/sys/net/netfilter/nf_conntrack_buckets",
];

/// Frequencies, temperatures, power and energy.
const SENSORS: &str = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq /sys/class/thermal/thermal_zone*/type \
    /sys/class/thermal/thermal_zone*/temp /sys/class/hwmon/hwmon*/name /sys/class/hwmon/hwmon*/temp*_input \
    /sys/class/hwmon/hwmon*/power*_average /sys/class/powercap/*/name /sys/class/powercap/*/energy_uj \
    /sys/class/powercap/*/max_energy_range_uj";

/// The meters of power and energy among them, which are also read while frames flow.
const METERS: &str = "/sys/class/hwmon/hwmon*/name /sys/class/hwmon/hwmon*/power*_average /sys/class/powercap/*/name \
    /sys/class/powercap/*/energy_uj /sys/class/powercap/*/max_energy_range_uj";

/// Longer rule sets are truncated: a hundred thousand rules print ten megabytes.
const LARGEST_RULESET: usize = 4 << 20;

/// What is read around trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The subjects.
    pub collect: BTreeSet<Subject>,
    /// Interval of samples while frames flow; `None`: no samples.
    pub every: Option<Duration>,
    /// A command on the host that prints its power in watts.
    pub power: Option<String>,
}

impl Default for Wanted {
    /// Readings before and after, and no samples: this costs a trial 30 ms outside its load and
    /// nothing within it.
    fn default() -> Wanted {
        Wanted {
            collect: Subject::ALL.into(),
            every: None,
            power: None,
        }
    }
}

impl Wanted {
    /// Returns what a campaign requests; `None`: nothing is read.
    pub fn asked(request: &Asked) -> Option<Wanted> {
        let requested = Wanted {
            collect: (request.collect.as_deref())
                .map_or(Subject::ALL.into(), |all| all.iter().copied().collect()),
            every: request.every.map(|every| every.0),
            power: request.power.clone(),
        };
        let is_something =
            !requested.collect.is_empty() || requested.every.is_some() || requested.power.is_some();
        is_something.then_some(requested)
    }
}

/// The host on which a DUT is read.
#[derive(Debug, Clone)]
pub struct Observed {
    /// Its system.
    pub system: System,
    /// The host.
    pub host: Arc<dyn Host>,
    /// Ports of the test.
    pub ports: Vec<String>,
    /// CPUs on which it forwards; empty: any.
    pub cpus: Vec<usize>,
}

/// Returns the `sh` script that reads everything requested, each part after a line with its name.
/// It works with BusyBox, and missing files print nothing. A program takes a millisecond to start,
/// and much longer on a busy host, so one program reads all files. What no load changes is read
/// only the first time.
fn script(ports: &[String], requested: &Wanted, is_first: bool) -> String {
    let mut text = String::from("exec 2>/dev/null\n");
    let mut part = |name: &str, command: &str| {
        text.push_str(&format!("echo '{MARK}{name}'\n{command}\n"));
    };
    let has = |subject| requested.collect.contains(&subject);
    let mut files = vec!["/proc/uptime".to_owned()];
    let mut read = |all: &[&str]| files.extend(all.iter().map(|file| (*file).to_owned()));
    if has(Subject::Cpu) {
        read(&["/proc/stat", "/proc/softirqs", "/proc/net/softnet_stat"]);
        if is_first {
            read(&["/sys/devices/system/node/node*/cpulist"]);
        }
    }
    if has(Subject::Interrupts) {
        let affinity = ["smp_affinity_list", "effective_affinity_list"];
        read(&["/proc/interrupts"]);
        read(
            &affinity
                .map(|file| format!("/proc/irq/*/{file}"))
                .each_ref()
                .map(String::as_str),
        );
    }
    if has(Subject::Drops) {
        read(&["/proc/net/snmp", "/proc/net/netstat", "/proc/net/snmp6"]);
        read(&["/proc/net/stat/nf_conntrack"]);
    }
    if has(Subject::Sizes) {
        read(&CONNTRACK);
        read(&[
            "/proc/net/fib_triestat",
            "/proc/net/rt6_stats",
            "/proc/meminfo",
        ]);
    }
    for port in ports.iter().filter(|_| has(Subject::Ethtool) && is_first) {
        let pci = pci_device(port);
        read(&[
            &format!("{pci}/numa_node"),
            &format!("{pci}/msi_irqs/*"),
            &quoted(&format!("/sys/class/net/{port}/device/uevent")),
        ]);
    }
    part("files", &format!("grep -sH '' {}", files.join(" ")));
    if has(Subject::Sizes) {
        part("slabs", "grep '^nf_conntrack ' /proc/slabinfo");
    }
    if has(Subject::Sensors) {
        part("sensors", &format!("grep -sH '' {SENSORS}"));
    }
    if has(Subject::Drops) {
        part("links", &failing("links", "ip -s -s -j link show"));
        let rules = failing("nft", "nft -t list ruleset");
        part("nft", &format!("{rules} | head -c {LARGEST_RULESET}"));
    }
    for port in ports.iter().filter(|_| has(Subject::Ethtool)) {
        let (name, port) = (format!("statistics {port}"), quoted(port));
        part(&name, &failing(&name, &format!("ethtool -S {port}")));
        if is_first {
            let queues = quoted(&format!("/sys/class/net/{port}/queues")).into_owned();
            let count = format!("set -- {queues}/rx-*\necho \"queues:$#\"\nethtool -k {port}");
            part(&format!("port {port}"), &count);
        }
    }
    if let Some(power) = &requested.power {
        part("power", power);
    }
    part(END, "exit 0");
    text
}

/// Returns a command that prints a mark when it fails.
fn failing(name: &str, command: &str) -> String {
    format!("{{ {command} || echo '{FAILS}{name}'; }}")
}

/// Reads everything requested by one command. On FreeBSD, reads everything known.
///
/// # Errors
/// Fails if the host does not run the command. Parts that could not be read are missing in the
/// reading.
fn read(observed: &Observed, requested: &Wanted, is_first: bool) -> Result<Reading, HostError> {
    let (host, ports) = (&observed.host, &observed.ports[..]);
    let text = match observed.system {
        System::Linux => script(ports, requested, is_first),
        System::FreeBsd => freebsd::script(ports, MARK),
    };
    let command = Command::shell(&text).called("read telemetry");
    let limit = Limit {
        time: PATIENCE,
        is_stopped: &|| false,
    };
    let output = host.run(&command, limit)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let reading = match observed.system {
        System::Linux => understood(&text, ports, requested),
        System::FreeBsd => {
            let parts = parts(&text);
            let part = |name: &str| parts.get(name).cloned().unwrap_or_default();
            (parts.get(END)).and_then(|_| freebsd::understood(&part, ports))
        }
    };
    reading.ok_or_else(|| {
        let output: String = text.chars().take(80).collect();
        let reason = format!("its answer is incomplete: \"{}\"", output.escape_debug());
        HostError::new(host.name(), &command, Failure::File(reason))
    })
}

/// Splits an answer into its parts by name.
fn parts(text: &str) -> BTreeMap<&str, String> {
    let mut parts: BTreeMap<&str, String> = BTreeMap::new();
    let mut at = "";
    for line in text.lines() {
        if line.starts_with(FAILS) {
            parts.entry(line).or_default();
        } else if let Some(name) = line.strip_prefix(MARK) {
            at = name;
            parts.entry(at).or_default();
        } else if let Some(part) = parts.get_mut(at) {
            part.push_str(line);
            part.push('\n');
        }
    }
    parts
}

/// Returns the content of files by their names, from lines of `NAME:LINE`.
fn files(text: &str) -> BTreeMap<&str, String> {
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    for (name, line) in text.lines().filter_map(|line| line.split_once(':')) {
        let file = files.entry(name).or_default();
        file.push_str(line);
        file.push('\n');
    }
    files
}

/// Parses an answer; `None` if it is incomplete.
fn understood(text: &str, ports: &[String], requested: &Wanted) -> Option<Reading> {
    let parts = parts(text);
    parts.get(END)?;
    let part = |name: &str| parts.get(name).map_or("", String::as_str);
    let files = files(part("files"));
    let file = |name: &str| files.get(name).map_or("", String::as_str);
    let text_of = |names: &[&str]| names.iter().map(|name| file(name)).collect::<String>();
    // folders with many files: keep the lines unchanged
    let below = |folder: &str| -> String {
        let own = part("files")
            .lines()
            .filter(|line| line.starts_with(folder));
        own.flat_map(|line| [line, "\n"]).collect()
    };
    let tables = [
        "/proc/net/fib_triestat",
        "/proc/net/rt6_stats",
        "/proc/meminfo",
    ];
    let entries = CONNTRACK.map(|name| format!("{name}:{}\n", file(name).trim_end()));
    let mut reading = Reading {
        uptime_s: sampler::uptime(file("/proc/uptime"))?,
        cpus: cpu::times(file("/proc/stat")),
        softirqs: cpu::softirqs(file("/proc/softirqs")),
        softnet: cpu::softnet(file("/proc/net/softnet_stat")),
        nodes: cpu::nodes(&below("/sys/devices/system/node/")),
        interrupts: interrupts::interrupts(file("/proc/interrupts"), &below("/proc/irq/")),
        sizes: sizes::sizes(&[&entries.concat(), part("slabs"), &text_of(&tables)].concat()),
        ..Reading::default()
    };
    let mut missing =
        |action: &str, reason: String| drop(reading.missing.insert(action.to_owned(), reason));
    for failed in parts.keys().filter_map(|name| name.strip_prefix(FAILS)) {
        missing(failed, "the host could not read it".into());
    }
    let has = |subject| requested.collect.contains(&subject);
    if has(Subject::Cpu) && reading.cpus.is_empty() {
        missing("cpu", "/proc/stat says nothing of CPUs".into());
    }
    if has(Subject::Drops) {
        match ports::links(part("links")) {
            Ok(links) => reading.ports = links,
            Err(reason) => missing("links", reason),
        }
        let ip = ["/proc/net/snmp", "/proc/net/netstat", "/proc/net/snmp6"];
        reading.drops = drops::ip(&text_of(&ip));
        let conntrack = file("/proc/net/stat/nf_conntrack");
        reading.drops.extend(drops::conntrack(conntrack));
        let rules = Ruleset::parse(part("nft"));
        if part("nft").len() >= LARGEST_RULESET {
            let reason = format!("only the first {LARGEST_RULESET} bytes of the rules were read");
            missing("nft", reason);
        }
        if rules.rules > 0 {
            let size = |value| fwdlab_model::telemetry::Size { value, limit: None };
            reading.sizes.insert("nft rules".into(), size(rules.rules));
            reading
                .sizes
                .insert("nft sets and maps".into(), size(rules.sets));
        }
        reading.drops.extend(rules.drops);
    }
    if has(Subject::Ethtool) {
        for port in ports {
            let (queues, of_driver) = ports::statistics(port, part(&format!("statistics {port}")));
            if queues.is_empty() {
                let reason = "its driver reports no packets per queue (ethtool -S)";
                missing(&format!("queues of {port}"), reason.into());
            }
            reading.queues.extend(queues);
            let count = reading.ports.entry(port.clone()).or_default();
            count.drops.extend(of_driver.drops);
            count.pauses.extend(of_driver.pauses);
            count.driver = of_driver.driver;
            ports::describe(count, &below(&format!("/sys/class/net/{port}/device/")));
            ports::describe(count, part(&format!("port {port}")));
        }
    }
    if requested.power.is_some() {
        match sensors::watts(part("power")) {
            Ok(watts) => drop(reading.power_watts.insert(sensors::COMMAND.into(), watts)),
            Err(reason) => drop(reading.missing.insert("power".into(), reason)),
        }
    }
    sensors::read(part("sensors"), &mut reading);
    // counters that are zero carry no information, and there are hundreds
    reading.drops.retain(|_, count| *count > 0);
    reading
        .softirqs
        .retain(|_, counts| counts.iter().any(|count| *count > 0));
    Some(reading)
}

/// A trial that is being read.
#[derive(Debug)]
pub(crate) struct TrialReading {
    observed: Observed,
    subjects: Wanted,
    before: Reading,
    sampler: Option<Sampler>,
    /// Why a requested sampler is missing.
    not_sampled: Option<String>,
}

/// Readings around a trial.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    host: String,
    system: System,
    ports: Vec<String>,
    cpus: Vec<usize>,
    every: Option<Duration>,
    before: Reading,
    during: Vec<Reading>,
    after: Reading,
}

impl TrialReading {
    /// Reads the host before the load, and starts the sampler. `Err`: this host cannot be read,
    /// which is recorded as missing.
    pub fn begin(observed: Observed, requested: &Wanted) -> Result<TrialReading, Box<Seen>> {
        let before = match read(&observed, requested, true) {
            Ok(before) => before,
            Err(error) => return Err(Box::new(Seen::unread(&observed, &error))),
        };
        let sampler = (requested.every).map(|every| Sampler::start(&observed, every, requested));
        let (sampler, not_sampled) = match sampler.transpose() {
            Ok(sampler) => (sampler, None),
            Err(error) => (None, Some(error.to_string())),
        };
        Ok(TrialReading {
            observed,
            subjects: requested.clone(),
            before,
            sampler,
            not_sampled,
        })
    }

    /// Ends the sampler, and reads again, now that nothing moves.
    pub fn end(self) -> Seen {
        let TrialReading {
            observed,
            subjects: requested,
            before,
            sampler,
            not_sampled,
        } = self;
        let (during, ended) = sampler.map_or((Vec::new(), None), Sampler::end);
        let after = read(&observed, &requested, false);
        let mut observations = match after {
            Ok(after) => Seen {
                before,
                during,
                after,
                every: requested.every,
                ..Seen::new(&observed)
            },
            Err(error) => Seen::unread(&observed, &error),
        };
        let reason = not_sampled.or(ended);
        observations
            .after
            .missing
            .extend(reason.map(|reason| ("samples".to_owned(), reason)));
        observations
    }
}

impl Seen {
    fn new(observed: &Observed) -> Seen {
        Seen {
            host: observed.host.name().to_owned(),
            system: observed.system,
            ports: observed.ports.clone(),
            cpus: observed.cpus.clone(),
            ..Seen::default()
        }
    }

    fn unread(observed: &Observed, error: &HostError) -> Seen {
        let mut observations = Seen::new(observed);
        observations
            .after
            .missing
            .insert("telemetry".into(), error.to_string());
        observations
    }

    /// Returns the telemetry of a trial in which this number of frames was sent and received.
    pub fn to_telemetry(&self, frames_sent: u64, frames_received: u64) -> Telemetry {
        let around = ReadingContext {
            host: &self.host,
            system: self.system,
            ports: &self.ports,
            cpus: &self.cpus,
            every_s: self.every.map(|every| every.as_secs_f64()),
            frames_sent,
            frames_received,
        };
        between(&self.before, &self.during, &self.after, &around)
    }

    /// Returns the mean power of each meter while frames flowed, starting at this time after the
    /// first one.
    pub fn power_watts(&self, from: Duration) -> BTreeMap<String, f64> {
        let from_s = self.before.uptime_s + from.as_secs_f64();
        let counts = |reading: &&Reading| reading.uptime_s >= from_s;
        let during: Vec<Reading> = self.during.iter().filter(counts).cloned().collect();
        power_of(&during)
    }

    /// Returns the readings as they are stored.
    pub fn records(&self, test_case: &str, trial: u32) -> Vec<Record> {
        let during = self.during.iter().map(|reading| (When::During, reading));
        let all = std::iter::once((When::Before, &self.before)).chain(during);
        let record = |(when, reading): (When, &Reading)| Record {
            test_case: test_case.to_owned(),
            trial,
            when,
            reading: reading.clone(),
        };
        all.chain([(When::After, &self.after)])
            .map(record)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scripted::{Fails, Scripted};

    fn ports() -> Vec<String> {
        vec!["eth0".to_owned()]
    }

    /// Output of a router with the driver igb, shortened.
    const ANSWER: &str = "@@ files\n/proc/uptime:100.25 180.00\n/proc/stat:cpu  2 0 0 8 0 0 0 0 0 0\n/proc/stat:cpu0 2 0 0 8 0 0 0 0 0 0\n\
        /proc/softirqs: CPU0\n/proc/softirqs: NET_RX: 5\n/proc/softirqs: HI: 0\n/proc/net/softnet_stat:0000000a 00000000 00000001\n\
        /sys/devices/system/node/node0/cpulist:0\n/proc/interrupts: CPU0\n/proc/interrupts: 24: 7 PCI-MSI 0-edge eth0-TxRx-0\n\
        /proc/irq/24/smp_affinity_list:0\n/proc/net/netstat:IpExt: InNoRoutes\n/proc/net/netstat:IpExt: 3\n\
        /proc/sys/net/netfilter/nf_conntrack_count:1\n/proc/sys/net/netfilter/nf_conntrack_max:9\n\
        /proc/meminfo:MemTotal: 100 kB\n/proc/meminfo:MemAvailable: 50 kB\n/sys/class/net/eth0/device/uevent:DRIVER=igb\n\
        /sys/class/net/eth0/device/uevent:PCI_SLOT_NAME=0000:01:00.0\n/sys/class/net/eth0/device/../numa_node:1\n\
        /sys/class/net/eth0/device/../msi_irqs/24:msix\n@@ sensors\n\
        @@ links\n[{\"ifname\":\"eth0\",\"stats64\":{\"rx\":{\"packets\":5,\"bytes\":300,\"dropped\":1},\
        \"tx\":{\"packets\":4,\"bytes\":240}}}]\n@@ nft\n@@ statistics eth0\nNIC statistics:\n rx_queue_0_packets: 5\n \
        rx_no_buffer_count: 2\n@@ port eth0\nqueues:1\nlarge-receive-offload: off [fixed]\n@@ end\n";

    #[test]
    fn an_answer_becomes_a_reading() {
        let requested = Wanted::default();
        let host = Arc::new(Scripted::new(|_, _| ANSWER.to_owned()));
        let observed = Observed {
            system: System::Linux,
            host: host.clone(),
            ports: ports(),
            cpus: Vec::new(),
        };
        let reading = read(&observed, &requested, true).unwrap();
        assert_eq!(host.commands().len(), 1, "one command");
        assert_eq!(reading.uptime_s, 100.25);
        assert_eq!(reading.cpus.len(), 1);
        assert_eq!(reading.softirqs.len(), 1, "those without any are left out");
        assert_eq!(reading.interrupts[0].name, "eth0-TxRx-0");
        assert_eq!(reading.queues[0].packets, 5);
        let port = &reading.ports["eth0"];
        assert_eq!(
            port.drops,
            [("rx_dropped".into(), 1), ("rx_no_buffer_count".into(), 2)].into()
        );
        assert_eq!(
            (port.driver.as_deref(), port.rx_queues, port.lro),
            (Some("igb"), Some(1), Some(false))
        );
        assert_eq!((port.node, &port.interrupts[..]), (Some(1), &[24][..]));
        let pci = pci_device("eth0");
        let text = script(&ports(), &requested, true);
        assert!(
            text.contains(&format!("{pci}/numa_node {pci}/msi_irqs/* ")),
            "{text}"
        );
        assert_eq!(reading.drops["IpExt InNoRoutes"], 3);
        assert_eq!(reading.sizes["conntrack entries"].limit, Some(9));
        assert_eq!(
            (
                reading.nodes.len(),
                reading.interrupts[0].affinity.as_deref()
            ),
            (1, Some("0"))
        );
        assert_eq!(reading.sizes["memory bytes available"].limit, Some(102_400));
        assert!(reading.missing.is_empty(), "{:?}", reading.missing);
    }

    #[test]
    fn only_requested_readings_are_taken() {
        let requested = Wanted {
            collect: [Subject::Cpu].into(),
            every: None,
            power: Some("power-meter --watts".into()),
        };
        let text = script(&ports(), &requested, true);
        for (words, is_there) in [
            ("/proc/stat", true),
            ("power-meter --watts", true),
            ("nft", false),
            ("ethtool", false),
            ("/proc/interrupts", false),
            ("powercap", false),
        ] {
            assert_eq!(text.contains(words), is_there, "{words}");
        }
        let answer = format!("{ANSWER}@@ power\nno meter\n");
        let reading = understood(&answer, &ports(), &requested).unwrap();
        assert_eq!((reading.queues.len(), reading.ports.len()), (0, 0));
        assert!(
            reading.missing["power"].contains("no meter"),
            "{:?}",
            reading.missing
        );
        let answer = format!("{ANSWER}@@ power\n84.5\n");
        let reading = understood(&answer, &ports(), &requested).unwrap();
        assert_eq!(reading.power_watts["command"], 84.5);
    }

    /// A host may fail in every way; the trial does not fail, and the reason is recorded.
    #[test]
    fn unreadable_counters_are_missing() {
        for how in Fails::ALL {
            for at in 0..2 {
                let host = Arc::new(Scripted::new(|_, _| ANSWER.to_owned()).failing(at, how));
                let observed = Observed {
                    system: System::Linux,
                    host,
                    ports: ports(),
                    cpus: Vec::new(),
                };
                let observations = match TrialReading::begin(observed, &Wanted::default()) {
                    Ok(beside) => beside.end(),
                    Err(observations) => *observations,
                };
                let reported = observations.to_telemetry(10, 9);
                assert!(
                    !reported.missing.is_empty(),
                    "{how:?} at {at}: {reported:?}"
                );
                assert!(
                    reported.drops.is_empty() && reported.queues.is_empty(),
                    "{how:?} at {at}: {reported:?}"
                );
            }
        }
    }

    #[test]
    fn a_campaign_without_telemetry_reads_nothing() {
        let requested = Asked {
            collect: Some(Vec::new()),
            ..Asked::default()
        };
        assert_eq!(Wanted::asked(&requested), None);
        assert_eq!(Wanted::asked(&Asked::default()), Some(Wanted::default()));
    }
}
