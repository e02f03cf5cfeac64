//! What telemetry explains: causes, each with its numbers and the setting to check.
//!
//! A finding is a function of a trial and of the counters of its DUT's host. Every threshold is in
//! [`limits`] with its reason; nothing below it is reported, because ten findings at once are
//! ignored. Start with [`trial_findings`].

use std::collections::BTreeMap;

use fwdlab_model::loss::{Counters, Place, Stage};
use fwdlab_model::result::TrialRecord;
use fwdlab_model::system::System;
use fwdlab_model::telemetry::{
    Cause, CpuShare, Evidence, Finding, PortCount, QueueShare, Telemetry, Way,
};

use crate::telemetry::is_room;

/// Thresholds for reporting.
pub mod limits {
    /// A queue is hot if it has at least this share of the port's packets, and [`HOT_FAIR`] times
    /// its fair share. Hashed flows are uneven: of 2000 flows on four queues the fullest has 27 %,
    /// of 20 flows 45 %.
    pub const HOT_SHARE: f64 = 0.5;
    /// With two queues: three quarters. Below that the other one still takes a third of the load
    /// off it.
    pub const HOT_FAIR: f64 = 1.5;
    /// Minimum number of packets for shares: a few are the DUT's own.
    pub const PACKETS: u64 = 1000;
    /// A CPU is at its limit if it was busy for this share of the load's time. The rest covers its
    /// ticks of 10 ms and the start of a trial.
    pub const CPU_LIMIT: f64 = 0.9;
    /// A CPU is idle if it was busy for at most this share: another one like it would not be needed
    /// either.
    pub const CPU_IDLE: f64 = 0.25;
    /// A CPU takes part in forwarding if at least this share is software interrupts: less is
    /// timers.
    pub const CPU_FORWARDS: f64 = 0.1;
    /// A counter of drops is reported if it has at least this share of the lost frames: smaller
    /// causes should not be checked first.
    pub const DROPS: f64 = 0.1;
    /// How often per second of load a CPU ran out of time for frames while frames were lost; the
    /// kernel's own unit is 2 ms of work.
    pub const SQUEEZED_PER_S: f64 = 10.0;
    /// Programs did not run for this many times the interval of two samples. A busy host delays one
    /// sample, not two more.
    pub const GAP: f64 = 3.0;
    /// A table or memory is at its limit if this share is in use: hash tables of the kernel evict
    /// before they are full.
    pub const FULL: f64 = 0.95;
    /// The sender is the limit if it omitted at least this share of the due frames: less is a short
    /// stall.
    pub const NOT_SENT: f64 = 0.01;
    /// Tolerance for a ratio of two counters to match a known factor.
    pub const RATIO: f64 = 1e-4;
    /// Number of trials that must have the same ratio: random loss never repeats the same share.
    pub const RATIO_TRIALS: usize = 3;
}

/// Factors by which counters are wrong, and their causes.
const FACTORS: [(f64, &str); 6] = [
    (1.024, "a thousand that is 1024"),
    (1.0 / 1.024, "a thousand that is 1024"),
    (1.048_576, "a million that is 1024 times 1024"),
    (1.0 / 1.048_576, "a million that is 1024 times 1024"),
    (2.0, "every frame counted twice"),
    (0.5, "every second frame counted"),
];

/// Differences of bytes per frame, and their causes.
const BYTES: [(f64, &str); 3] = [
    (4.0, "the FCS, which one of them counts"),
    (20.0, "preamble and gap, which one of them counts"),
    (24.0, "FCS, preamble and gap, which one of them counts"),
];

/// Words in names of counters of full rings.
const RINGS: [&str; 10] = [
    "missed",
    "fifo",
    "over_errors",
    "no_buf",
    "nobuf",
    "out_of_buffer",
    "no_dma",
    "rx_discard",
    "overrun",
    "noskb_drops",
];

/// Other causes of drops, by words in the counter's name: the end of a sentence, and what to check.
const REASONS: [(&str, &str, &str); 19] = [
    (
        "nft ",
        "a rule of nftables dropped them",
        "this rule: nft list ruleset",
    ),
    (
        "IPReversePathFilter",
        "the reverse-path filter dropped them",
        "net.ipv4.conf.*.rp_filter: 0 where routes back are elsewhere",
    ),
    (
        "InNoRoutes",
        "no route was known for them",
        "ip route, ip -6 route",
    ),
    (
        "OutNoRoutes",
        "no route was known for them",
        "ip route, ip -6 route",
    ),
    (
        "InAddrErrors",
        "their addresses may not be forwarded",
        "net.ipv4.ip_forward, and addresses of the ports",
    ),
    (
        "InHdrErrors",
        "their headers are wrong",
        "the profile: TTL, checksums, options",
    ),
    (
        "InCsumErrors",
        "their checksums are wrong",
        "the profile, and checksum offloads: ethtool -k",
    ),
    (
        "InTooBigErrors",
        "they are larger than the MTU of the output",
        "MTU of the ports: ip link",
    ),
    (
        "FragFails",
        "they could not be cut into fragments",
        "MTU of the ports: ip link",
    ),
    (
        "conntrack",
        "connection tracking dropped them",
        "net.netfilter.nf_conntrack_max and nf_conntrack_buckets",
    ),
    (
        "InDiscards",
        "the IP layer discarded them",
        "memory, and rules of firewalls",
    ),
    (
        "OutDiscards",
        "the IP layer discarded them",
        "neighbours: ip neigh; memory",
    ),
    ("no route", "no route was known for them", "netstat -rn"),
    (
        "bad header checksum",
        "their checksums are wrong",
        "the profile, and checksum offloads: ifconfig",
    ),
    (
        "fragments dropped",
        "there was no room for their fragments",
        "net.inet.ip.maxfrags, and MTU of the ports: ifconfig",
    ),
    (
        "can't be fragmented",
        "they could not be cut into fragments",
        "MTU of the ports: ifconfig",
    ),
    (
        "not forwardable",
        "they may not be forwarded",
        "net.inet.ip.forwarding, and routes",
    ),
    ("pf ", "pf dropped them", "pfctl -si, pfctl -sm: its limits"),
    (
        "no bufs",
        "there was no memory or queue for them",
        "kern.ipc.nmbclusters; the queue of the port",
    ),
];

/// Procedures that fill the DUT's rings on purpose: full rings are expected.
const OVERLOADS: [&str; 2] = ["maxfwd", "forwarding-rate"];

/// Returns the findings in trials of one test case: for every cause the strongest one, and in how
/// many trials it was seen.
pub fn of_trials(trials: &[&TrialRecord]) -> Vec<Finding> {
    let read: Vec<&&TrialRecord> = (trials.iter())
        .filter(|trial| trial.validity.is_valid() && trial.telemetry.is_some())
        .collect();
    let mut found: BTreeMap<(Cause, String), Finding> = BTreeMap::new();
    for trial in &read {
        for one in trial_findings(trial) {
            let trials = one.trials;
            let key = (one.cause, one.setting.clone());
            let strength = |finding: &Finding| finding.evidence.first().map_or(0.0, |e| e.value);
            match found.get_mut(&key) {
                Some(known) => {
                    let observed = known.trials + trials;
                    if strength(&one) > strength(known) {
                        *known = one;
                    }
                    known.trials = observed;
                }
                None => drop(found.insert(key, one)),
            }
        }
    }
    let mut found: Vec<Finding> = found.into_values().collect();
    for one in &mut found {
        one.of_trials = read.len() as u32;
    }
    found.extend(factors(trials));
    found
}

/// Returns the findings in one trial; none without telemetry.
pub fn trial_findings(trial: &TrialRecord) -> Vec<Finding> {
    let Some(readings) = trial.telemetry.as_deref() else {
        return Vec::new();
    };
    let cpus = Cpus::from_telemetry(readings, trial.duration_s);
    let mut found = Vec::new();
    found.extend(generator_limited(trial));
    found.extend(hot_queues(readings, trial.stream.flows));
    found.extend(few_queues(readings, &cpus));
    found.extend(idle_cores(readings, &cpus));
    found.extend(far_nodes(readings));
    found.extend(flow_control(readings));
    found.extend(breaking_offloads(readings));
    found.extend(moving_interrupts(readings));
    found.extend(different_bytes(readings));
    found.extend(starved(readings));
    found.extend(at_limit(readings));
    let lost = u64::try_from(trial.ledger.frames_lost).unwrap_or(0);
    found.extend(drops(
        readings,
        lost,
        OVERLOADS.contains(&trial.procedure.as_str()),
    ));
    found.extend(squeezed(readings, lost, trial.duration_s));
    found
}

fn finding(
    cause: Cause,
    sentence: String,
    evidence: &[(&str, f64, &str)],
    setting: impl Into<String>,
) -> Finding {
    let evidence = evidence.iter().map(|(what, value, unit)| Evidence {
        what: (*what).to_owned(),
        value: *value,
        unit: (*unit).to_owned(),
    });
    Finding {
        cause,
        sentence,
        evidence: evidence.collect(),
        setting: setting.into(),
        remedy: Vec::new(),
        trials: 1,
        of_trials: 1,
    }
}

/// Adds the commands that fix it on the DUT.
fn remedied(found: Finding, commands: impl IntoIterator<Item = String>) -> Finding {
    Finding {
        remedy: commands.into_iter().collect(),
        ..found
    }
}

/// Chooses the text for the DUT's system: FreeBSD has other tools.
fn for_system(
    telemetry: &Telemetry,
    linux: impl Into<String>,
    freebsd: impl Into<String>,
) -> String {
    match telemetry.system {
        System::Linux => linux.into(),
        System::FreeBsd => freebsd.into(),
    }
}

/// Returns the name of a FreeBSD port in the tree of its driver's settings: `dev.ix.0`.
fn tree(port: &str) -> String {
    let driver = port.trim_end_matches(|c: char| c.is_ascii_digit());
    format!("dev.{driver}.{}", &port[driver.len()..])
}

/// Formats CPUs as in files of the kernel, 32 in a group: `1,00000003`.
fn mask(cpus: impl Iterator<Item = u32>) -> String {
    let mut groups: Vec<u32> = vec![0];
    for cpu in cpus {
        let group = (cpu / 32) as usize;
        groups.resize(groups.len().max(group + 1), 0);
        groups[group] |= 1 << (cpu % 32);
    }
    let mut text = String::new();
    for (place, group) in groups.iter().rev().enumerate() {
        text += &match place {
            0 => format!("{group:x}"),
            _ => format!(",{group:08x}"),
        };
    }
    text
}

fn percent(ratio: f64) -> String {
    format!("{:.1} %", 100.0 * ratio)
}

/// `1,234,567`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The busy share of CPUs during the load.
struct Cpus<'a> {
    /// Those that may forward, each with its share.
    own: Vec<(&'a CpuShare, f64)>,
}

impl Cpus<'_> {
    fn from_telemetry(telemetry: &Telemetry, load_s: f64) -> Cpus<'_> {
        let own = telemetry.cpus.iter().filter(|cpu| cpu.forwards);
        let worked = |cpu: &CpuShare| {
            let ticks = cpu.busy_ratio() * cpu.ticks as f64;
            // the load is shorter than the time between the readings, and a tick of 10 ms may or
            // may not belong to it
            (ticks / 100.0 / load_s.max(0.01)).min(1.0)
        };
        Cpus {
            own: own.map(|cpu| (cpu, worked(cpu))).collect(),
        }
    }

    fn busiest(&self) -> Option<(&CpuShare, f64)> {
        let most = self.own.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        most.map(|(cpu, worked)| (*cpu, *worked))
    }
}

fn generator_limited(trial: &TrialRecord) -> Option<Finding> {
    let ledger = &trial.ledger;
    let due = ledger.frames_sent + ledger.frames_not_sent;
    let left_out = ledger.frames_not_sent as f64 / due.max(1) as f64;
    if ledger.frames_lost > 0 || ledger.frames_sent == 0 || left_out < limits::NOT_SENT {
        return None;
    }
    let sentence = format!(
        "the sender did not send {} of the frames that were due, and the DUT lost none: it may forward more than was offered",
        percent(left_out)
    );
    let evidence = [
        ("frames not sent", ledger.frames_not_sent as f64, "frames"),
        ("frames due", due as f64, "frames"),
    ];
    let setting = "the engine (bed.engine), more sending CPUs or ports, larger frames";
    Some(finding(
        Cause::GeneratorLimited,
        sentence,
        &evidence,
        setting,
    ))
}

/// Returns receive queues by port.
fn by_port(telemetry: &Telemetry) -> BTreeMap<&str, Vec<&QueueShare>> {
    let mut ports: BTreeMap<&str, Vec<&QueueShare>> = BTreeMap::new();
    for queue in telemetry.queues.iter().filter(|queue| queue.way == Way::Rx) {
        ports.entry(&queue.port).or_default().push(queue);
    }
    ports
}

fn hot_queues(telemetry: &Telemetry, flows: u32) -> Vec<Finding> {
    let mut found = Vec::new();
    for (port, queues) in by_port(telemetry) {
        let all: u64 = queues.iter().map(|queue| queue.packets).sum();
        let Some(hot) = queues.iter().max_by_key(|queue| queue.packets) else {
            continue;
        };
        let from = limits::HOT_SHARE.max(limits::HOT_FAIR / queues.len() as f64);
        if queues.len() < 2 || all < limits::PACKETS || hot.ratio < from {
            continue;
        }
        let sentence = format!(
            "queue {} of {port} carries {} of its packets, of {} queues ({flows} flow{} sent)",
            hot.queue,
            percent(hot.ratio),
            queues.len(),
            if flows == 1 { " was" } else { "s were" },
        );
        let evidence = [
            ("share of the queue", hot.ratio, "ratio"),
            ("packets of the queue", hot.packets as f64, "packets"),
            ("packets of all queues", all as f64, "packets"),
        ];
        let setting = for_system(
            telemetry,
            format!(
                "more flows; what is hashed (ethtool -n {port} rx-flow-hash udp4) and to where (ethtool -x {port})"
            ),
            format!(
                "more flows; packets by queue (sysctl {}) and their interrupts (vmstat -i); what the kernel hashes (sysctl net.inet.rss)",
                tree(port)
            ),
        );
        found.push(finding(Cause::HotQueue, sentence, &evidence, setting));
    }
    found
}

fn few_queues(telemetry: &Telemetry, cpus: &Cpus<'_>) -> Vec<Finding> {
    let Some((busiest, worked)) = cpus.busiest() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (port, count) in &telemetry.ports {
        let Some(queues) = count.rx_queues else {
            continue;
        };
        let is_input = count.rx_packets >= limits::PACKETS;
        let own = cpus.own.len();
        if !is_input || queues as usize >= own || worked < limits::CPU_LIMIT {
            continue;
        }
        let sentence = format!(
            "{port} has {queues} receive queue{} for {own} CPUs that may forward, and CPU {} is at its limit",
            if queues == 1 { "" } else { "s" },
            busiest.cpu
        );
        let evidence = [
            ("CPUs that may forward", own as f64, "CPUs"),
            ("receive queues", f64::from(queues), "queues"),
            ("work of the busiest CPU", worked, "ratio"),
        ];
        let setting = for_system(
            telemetry,
            format!(
                "ethtool -l {port}; packet steering: /sys/class/net/{port}/queues/rx-*/rps_cpus"
            ),
            format!(
                "{}.iflib.override_nrxqs in loader.conf (of cxl: hw.cxgbe.nrxq), vmstat -i; netisr threads: netstat -Q, net.isr.maxthreads",
                tree(port)
            ),
        );
        let one = finding(Cause::FewQueues, sentence, &evidence, setting);
        // a veth pair cannot get more queues than it was created with; a card reports its own
        // maximum; FreeBSD needs a reboot for it
        let command = match (telemetry.system, count.driver.as_deref()) {
            (System::Linux, Some("veth")) => {
                let cpus = mask(cpus.own.iter().map(|(cpu, _)| cpu.cpu));
                (0..queues)
                    .map(|n| format!("echo {cpus} > /sys/class/net/{port}/queues/rx-{n}/rps_cpus"))
                    .collect()
            }
            (System::Linux, Some(_)) => vec![format!("ethtool -L {port} combined {own}")],
            // or the driver is unknown
            _ => Vec::new(),
        };
        found.push(remedied(one, command));
    }
    found
}

fn idle_cores(telemetry: &Telemetry, cpus: &Cpus<'_>) -> Option<Finding> {
    let (busiest, worked) = cpus.busiest()?;
    let idle = (cpus.own.iter()).filter(|(_, worked)| *worked <= limits::CPU_IDLE);
    let idle: Vec<u32> = idle.map(|(cpu, _)| cpu.cpu).collect();
    if worked < limits::CPU_LIMIT || idle.is_empty() {
        return None;
    }
    let names: Vec<String> = idle.iter().take(8).map(u32::to_string).collect();
    let more = match idle.len() {
        0..=8 => String::new(),
        all => format!(" and {} more", all - 8),
    };
    let sentence = format!(
        "CPU {} worked {} of the time and {} CPU{} ({}{more}) at most {}",
        busiest.cpu,
        percent(worked),
        idle.len(),
        if idle.len() == 1 { "" } else { "s" },
        names.join(", "),
        percent(limits::CPU_IDLE)
    );
    let evidence = [
        ("idle CPUs", idle.len() as f64, "CPUs"),
        ("work of the busiest CPU", worked, "ratio"),
        ("CPUs that may forward", cpus.own.len() as f64, "CPUs"),
    ];
    let setting = for_system(
        telemetry,
        "queues and their interrupts (/proc/irq/*/smp_affinity_list), packet steering (rps_cpus), the number of flows",
        "queues and their interrupts (vmstat -i; cpuset -l CPU -x IRQ), which threads run where (top -HSP), netisr (netstat -Q, \
         net.isr.maxthreads, net.isr.bindthreads), the number of flows",
    );
    Some(finding(Cause::IdleCores, sentence, &evidence, setting))
}

fn far_nodes(telemetry: &Telemetry) -> Vec<Finding> {
    let works = |cpu: &&CpuShare| {
        cpu.forwards && cpu.softirq_ratio + cpu.system_ratio >= limits::CPU_FORWARDS
    };
    let at_work: Vec<&CpuShare> = telemetry.cpus.iter().filter(works).collect();
    let mut found = Vec::new();
    for (port, count) in &telemetry.ports {
        let Some(node) = count.node else { continue };
        let far = at_work
            .iter()
            .filter(|cpu| cpu.node.is_some_and(|own| own != node));
        let far: Vec<u32> = far.map(|cpu| cpu.cpu).collect();
        if far.is_empty() {
            continue;
        }
        let names: Vec<String> = far.iter().map(u32::to_string).collect();
        let sentence = format!(
            "{port} is on NUMA node {node}, and CPU{} {} of {} at work on another",
            if far.len() == 1 { "" } else { "s" },
            names.join(", "),
            at_work.len()
        );
        let evidence = [
            ("CPUs at work on another node", far.len() as f64, "CPUs"),
            ("CPUs at work", at_work.len() as f64, "CPUs"),
        ];
        let how = for_system(
            telemetry,
            "/proc/irq/*/smp_affinity_list",
            "cpuset -l CPU -x IRQ (vmstat -i)",
        );
        let setting = format!(
            "interrupts of {port} on CPUs of node {node}: {how}, or the card in another slot"
        );
        found.push(finding(Cause::FarNode, sentence, &evidence, setting));
    }
    found
}

fn flow_control(telemetry: &Telemetry) -> Vec<Finding> {
    let mut found = Vec::new();
    for (port, count) in &telemetry.ports {
        for (name, frames) in &count.pauses {
            let sent = name.contains("tx");
            let sentence = format!(
                "{port} {} {} pause frames ({name}): {}",
                if sent { "sent" } else { "received" },
                thousands(*frames),
                match sent {
                    true => "the DUT slows its sender down instead of losing frames",
                    false => "the device after the DUT slows it down",
                }
            );
            let evidence = [("pause frames", *frames as f64, "frames")];
            let how = for_system(
                telemetry,
                format!("ethtool -A {port} rx off tx off"),
                format!("sysctl {0}.fc=0 (of cxl: {0}.pause_settings=0)", tree(port)),
            );
            let setting = format!("{how}, and the same on the other end");
            let one = finding(Cause::FlowControl, sentence, &evidence, setting);
            let command = format!("ethtool -A {port} autoneg off rx off tx off");
            let is_linux = telemetry.system == System::Linux && count.driver.is_some();
            found.push(remedied(one, is_linux.then_some(command)));
        }
    }
    found
}

fn breaking_offloads(telemetry: &Telemetry) -> Vec<Finding> {
    let on = telemetry
        .ports
        .iter()
        .filter(|(_, count)| count.lro == Some(true));
    let of = |(port, _): (&String, &PortCount)| {
        let sentence = format!(
            "large receive offload is on at {port}: it joins segments into packets that cannot be forwarded as they came"
        );
        let evidence = [("large-receive-offload", 1.0, "ports")];
        let command = for_system(
            telemetry,
            format!("ethtool -K {port} lro off"),
            format!("ifconfig {port} -lro"),
        );
        let one = finding(Cause::BreakingOffload, sentence, &evidence, command.clone());
        remedied(one, [command])
    };
    on.map(of).collect()
}

fn moving_interrupts(telemetry: &Telemetry) -> Option<Finding> {
    let moved = telemetry
        .interrupts
        .iter()
        .filter_map(|one| Some((one, one.moved.as_ref()?)));
    let moved: Vec<_> = moved.collect();
    let (first, [from, to]) = moved.first()?;
    let sentence = format!(
        "{} interrupt{} of ports moved within a trial: {} from CPU {from} to CPU {to}",
        moved.len(),
        if moved.len() == 1 { "" } else { "s" },
        first.name
    );
    let evidence = [("interrupts that moved", moved.len() as f64, "interrupts")];
    let setting = for_system(
        telemetry,
        "systemctl stop irqbalance, and give every interrupt its CPU",
        "give every interrupt its CPU: cpuset -l CPU -x IRQ (vmstat -i)",
    );
    let one = finding(Cause::MovingInterrupts, sentence, &evidence, setting);
    let is_linux = telemetry.system == System::Linux;
    Some(remedied(
        one,
        is_linux.then(|| "systemctl stop irqbalance".to_owned()),
    ))
}

/// Compares bytes per packet if the same frames arrive and leave: a router does not make them
/// longer.
fn different_bytes(telemetry: &Telemetry) -> Option<Finding> {
    let each = |packets: u64, bytes: u64| {
        (packets >= limits::PACKETS).then(|| bytes as f64 / packets as f64)
    };
    let mut returned: Vec<(&str, f64)> = Vec::new();
    let mut went = Vec::new();
    for (port, count) in &telemetry.ports {
        returned.extend(each(count.rx_packets, count.rx_bytes).map(|bytes| (port.as_str(), bytes)));
        went.extend(each(count.tx_packets, count.tx_bytes).map(|bytes| (port.as_str(), bytes)));
    }
    // with traffic in both directions it is unknown which frames came back where
    let ([(input, rx)], [(output, tx)]) = (&returned[..], &went[..]) else {
        return None;
    };
    let differ = (rx - tx).abs();
    let (by, what) = BYTES
        .iter()
        .find(|(bytes, _)| (differ - bytes).abs() < 0.05)?;
    let sentence = format!(
        "{input} counts {rx:.1} bytes for each frame that comes and {output} {tx:.1} for each that goes: {by:.0} bytes are {what}"
    );
    let evidence = [
        ("difference", differ, "bytes per frame"),
        ("in", *rx, "bytes per frame"),
        ("out", *tx, "bytes per frame"),
    ];
    let setting =
        "rates in bit/s by the frame size and the count of frames, never by bytes of ports";
    Some(finding(
        Cause::CountersDisagree,
        sentence,
        &evidence,
        setting,
    ))
}

fn starved(telemetry: &Telemetry) -> Option<Finding> {
    let (gap, every) = (telemetry.gap_s?, telemetry.every_s?);
    if gap < limits::GAP * every {
        return None;
    }
    let sentence =
        format!("programs of the DUT did not run for {gap:.1} s: samples were due every {every} s");
    let evidence = [
        ("longest time between two samples", gap, "s"),
        ("time between samples", every, "s"),
    ];
    let setting = for_system(
        telemetry,
        "a CPU for programs: interrupts of ports on the others, net.core.netdev_budget_usecs, threaded NAPI",
        "a CPU for programs: interrupts of ports on the others (cpuset -l CPU -x IRQ); which threads take it: top -HSP",
    );
    Some(finding(Cause::Starved, sentence, &evidence, setting))
}

fn at_limit(telemetry: &Telemetry) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, size) in &telemetry.sizes {
        let Some(limit) = size.limit.filter(|limit| *limit > 0) else {
            continue;
        };
        let used = match is_room(name) {
            true => limit.saturating_sub(size.value),
            false => size.value,
        };
        let share = used as f64 / limit as f64;
        if share < limits::FULL {
            continue;
        }
        let (value, most) = (thousands(size.value), thousands(limit));
        let sentence = format!("{name}: {value} of {most}, {} in use", percent(share));
        let evidence = [
            ("in use", share, "ratio"),
            ("now", size.value as f64, "entries or bytes"),
            ("limit", limit as f64, "entries or bytes"),
        ];
        let setting = match name.as_str() {
            "conntrack entries" => {
                "net.netfilter.nf_conntrack_max and nf_conntrack_buckets, timeouts of connections"
            }
            "pf states" => "set limit states in pf.conf (pfctl -sm, pfctl -si), timeouts of states",
            name if name.starts_with("memory") => match telemetry.system {
                System::Linux => "memory of the DUT: tables, rings (ethtool -g), other programs",
                System::FreeBsd => {
                    "memory of the DUT: vmstat -z, netstat -m, other programs (top -o res)"
                }
            },
            _ => "the limit of this table",
        };
        let one = finding(Cause::AtLimit, sentence, &evidence, setting);
        found.push(match name.as_str() {
            "conntrack entries" => {
                let command = format!("sysctl -w net.netfilter.nf_conntrack_max={}", 2 * limit);
                remedied(one, [command])
            }
            _ => one,
        });
    }
    found
}

/// Returns true for a counter of full rings. On a veth pair, input drops are such a counter.
fn is_ring(telemetry: &Telemetry, counter: &str) -> bool {
    let Some((port, name)) = counter.split_once(' ') else {
        return false;
    };
    let Some(count) = telemetry.ports.get(port) else {
        return false;
    };
    let is_veth = count.driver.as_deref() == Some("veth");
    RINGS.iter().any(|word| name.contains(word))
        || is_veth && (name == "rx_dropped" || name.ends_with("_drops"))
}

fn drops(telemetry: &Telemetry, lost: u64, is_overload: bool) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    let mut rings: Option<(&String, &u64)> = None;
    for (counter, frames) in &telemetry.drops {
        let share = *frames as f64 / lost.max(1) as f64;
        if lost == 0 || share < limits::DROPS {
            continue;
        }
        let evidence = [
            ("frames dropped", *frames as f64, "frames"),
            ("frames lost", lost as f64, "frames"),
        ];
        let words = format!(
            "{counter}: {} frames, {} of those lost",
            thousands(*frames),
            percent(share.min(1.0))
        );
        if counter.starts_with("softnet") {
            let sentence = format!("{words}: the backlog of the CPU was full");
            let setting = "net.core.netdev_max_backlog; flows on more CPUs (rps_cpus)";
            found.push(finding(Cause::SoftnetFull, sentence, &evidence, setting));
        } else if is_ring(telemetry, counter) {
            // most cards count the same frames under several names: report the largest
            if rings.is_none_or(|(_, most)| frames > most) {
                rings = Some((counter, frames));
            }
        } else if let Some((_, reason, setting)) =
            REASONS.iter().find(|(word, ..)| counter.contains(word))
        {
            let sentence = format!("{words}: {reason}");
            let one = finding(Cause::Dropped, sentence, &evidence, *setting);
            // the stricter one of `all` and the port's own setting applies
            let ports = telemetry.ports.keys().map(String::as_str);
            let filters = std::iter::once("all").chain(ports);
            let filters = filters.map(|port| format!("sysctl -w net.ipv4.conf.{port}.rp_filter=0"));
            found.push(match counter.contains("IPReversePathFilter") {
                true => remedied(one, filters),
                false => one,
            });
        }
    }
    if let Some((counter, frames)) = rings.filter(|_| !is_overload) {
        let port = counter.split(' ').next().unwrap_or_default();
        let share = (*frames as f64 / lost as f64).min(1.0);
        let sentence = format!(
            "{counter}: {} frames, {} of those lost: the ring was full: the CPU did not keep up",
            thousands(*frames),
            percent(share)
        );
        let evidence = [
            ("frames dropped", *frames as f64, "frames"),
            ("frames lost", lost as f64, "frames"),
        ];
        let setting = for_system(
            telemetry,
            format!(
                "what the CPU does with a frame; then ethtool -g {port} and its queues, ethtool -l {port}"
            ),
            format!(
                "what the CPU does with a frame (top -HSP, pmcstat -TS); then its rings and queues: {0}.iflib.override_nrxds and \
                 override_nrxqs in loader.conf (sysctl {0}), vmstat -i",
                tree(port)
            ),
        );
        found.push(finding(Cause::RingFull, sentence, &evidence, setting));
    }
    found
}

fn squeezed(telemetry: &Telemetry, lost: u64, load_s: f64) -> Option<Finding> {
    let most = telemetry.softnet.iter().max_by_key(|cpu| cpu.squeezed)?;
    let per_s = most.squeezed as f64 / load_s.max(0.01);
    if lost == 0 || per_s < limits::SQUEEZED_PER_S {
        return None;
    }
    let sentence = format!(
        "CPU {} stopped taking frames {} times while there were more, {per_s:.0} times a second",
        most.cpu, most.squeezed
    );
    let evidence = [
        ("times", per_s, "1/s"),
        ("in all", most.squeezed as f64, "times"),
    ];
    let setting = "net.core.netdev_budget and netdev_budget_usecs; flows on more CPUs";
    Some(finding(Cause::SoftnetFull, sentence, &evidence, setting))
}

/// Returns the name of a ratio between two counters that should agree.
pub fn named(ratio: f64) -> Option<&'static str> {
    let near = |(factor, _): &&(f64, &str)| (ratio / factor - 1.0).abs() <= limits::RATIO;
    FACTORS.iter().find(near).map(|(_, name)| *name)
}

/// Finds meters that differ from their neighbours by a known factor, in all trials that can show
/// it. Needs no telemetry, and includes trials that these meters made invalid.
fn factors(trials: &[&TrialRecord]) -> Vec<Finding> {
    let mut observed: BTreeMap<Stage, Vec<(u64, u64)>> = BTreeMap::new();
    for trial in trials {
        for (stage, reads, passed) in neighbour_readings(&trial.counters) {
            // with fewer frames, one frame is a larger share than the limit
            if passed as f64 * limits::RATIO >= 2.0 {
                observed.entry(stage).or_default().push((reads, passed));
            }
        }
    }
    let mut found = Vec::new();
    for (stage, pairs) in observed {
        let names = pairs
            .iter()
            .map(|(reads, expected)| named(*reads as f64 / *expected as f64));
        let names: Vec<Option<&str>> = names.collect();
        let Some(Some(name)) = names.first() else {
            continue;
        };
        if pairs.len() < limits::RATIO_TRIALS || names.iter().any(|other| *other != Some(name)) {
            continue;
        }
        let (reads, expected) = pairs
            .iter()
            .fold((0, 0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
        let ratio = reads as f64 / expected as f64;
        let sentence = format!(
            "{stage} reports {ratio:.4} frames for each one that passed it, in all of {} trials: {name}",
            pairs.len()
        );
        let evidence = [
            ("ratio", ratio, "ratio"),
            ("it reports", reads as f64, "frames"),
            ("passed", expected as f64, "frames"),
        ];
        let setting = "the driver that keeps this counter; no setting changes it, and it is not used to judge trials";
        found.push(Finding {
            trials: pairs.len() as u32,
            of_trials: pairs.len() as u32,
            ..finding(Cause::CountersDisagree, sentence, &evidence, setting)
        });
    }
    found
}

/// Returns each meter's reading, and the frames that passed it according to the nearest trusted
/// meter towards the end of the chain: the ends are trusted, and meters that agree with a trusted
/// one.
fn neighbour_readings(counters: &Counters) -> Vec<(Stage, u64, u64)> {
    let meters = &counters.chain.meters;
    let dut = meters
        .iter()
        .position(|meter| meter.across == Some(Place::Dut));
    let (before, behind) = meters.split_at(dut.unwrap_or(meters.len()));
    let mut all = Vec::new();
    let mut believed = counters.generator_sent + counters.generator_additional;
    for meter in before {
        let Some(passed) = meter.passed() else {
            continue;
        };
        let returned = passed + meter.frames_dropped();
        all.push((meter.stage.clone(), returned, believed));
        if returned == believed {
            believed = passed;
        }
    }
    let mut believed =
        counters.receiver_received + counters.receiver_foreign + counters.receiver_late;
    for meter in behind.iter().rev() {
        let Some(passed) = meter.passed() else {
            continue;
        };
        all.push((meter.stage.clone(), passed, believed));
        if passed == believed {
            believed = passed + meter.frames_dropped();
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use fwdlab_model::loss::VethCounts;
    use fwdlab_model::result::{Stratum, Validity};
    use fwdlab_model::telemetry::{InterruptShare, Size, Softnet};
    use fwdlab_model::trial::{IpVersion, Stream};
    use fwdlab_model::units::FrameSize;
    use fwdlab_model::variant::Variant;

    use super::*;
    use crate::conservation::balance;

    /// A trial of a second with these frames sent and received, all by exact meters.
    fn trial(sent: u64, received: u64, readings: Telemetry) -> TrialRecord {
        let counters = Counters {
            generator_sent: sent,
            receiver_received: received,
            chain: VethCounts {
                generator_port_tx_packets: sent,
                dut_in_rx_packets: sent,
                dut_out_tx_packets: received,
                receiver_port_rx_packets: received,
                ..VethCounts::default()
            }
            .chain(),
            ..Counters::default()
        };
        TrialRecord {
            test_case: String::new(),
            procedure: String::new(),
            iteration: 1,
            trial: 1,
            control: false,
            started_at: String::new(),
            stream: Stream::new(IpVersion::Ipv4, FrameSize::MIN, 2000).unwrap(),
            variant: Variant::default(),
            directions: Vec::new(),
            engine: String::new(),
            stall_policy: None,
            receiver: String::new(),
            duration_s: 1.0,
            intended_load_pps: None,
            offered_load_pps: 0.0,
            not_saturated: false,
            forwarding_rate_pps: None,
            forwarding_rate_ungated_pps: None,
            quiet: Stratum::default(),
            contended: Stratum::default(),
            other_states: Vec::new(),
            probes: Vec::new(),
            windows_not_offered: 0,
            frame_loss_ratio: 0.0,
            ledger: balance(&counters, None),
            counters,
            work: None,
            telemetry: Some(Box::new(readings)),
            asked: None,
            validity: Validity::default(),
        }
    }

    /// Findings with telemetry, in a trial that lost 20,000 of 100,000 frames.
    fn found(telemetry: Telemetry) -> Vec<Cause> {
        let found = trial_findings(&trial(100_000, 80_000, telemetry));
        for one in &found {
            assert!(
                !one.evidence.is_empty() && !one.setting.is_empty(),
                "{one:?}"
            );
        }
        found.iter().map(|one| one.cause).collect()
    }

    fn queues(packets: &[u64]) -> Telemetry {
        let all: u64 = packets.iter().sum();
        let of = |(queue, packets): (u32, &u64)| QueueShare {
            port: "eth0".into(),
            way: Way::Rx,
            queue,
            packets: *packets,
            ratio: *packets as f64 / all as f64,
        };
        Telemetry {
            queues: (0..).zip(packets).map(of).collect(),
            ..Telemetry::default()
        }
    }

    /// CPUs that were busy for these shares of 1.25 seconds; frames flowed for one second.
    fn cpus(worked: &[f64]) -> Telemetry {
        let of = |(cpu, worked): (u32, &f64)| CpuShare {
            cpu,
            forwards: true,
            ticks: 125,
            softirq_ratio: *worked,
            idle_ratio: 1.0 - worked,
            ..CpuShare::default()
        };
        Telemetry {
            cpus: (0..).zip(worked).map(of).collect(),
            ..Telemetry::default()
        }
    }

    fn port(count: PortCount) -> Telemetry {
        Telemetry {
            ports: [("eth0".into(), count)].into(),
            ..Telemetry::default()
        }
    }

    #[test]
    fn a_hot_queue_and_one_that_is_not() {
        assert_eq!(found(queues(&[0, 100_000, 0, 0])), [Cause::HotQueue]);
        assert_eq!(
            found(queues(&[50_000, 20_000, 20_000, 10_000])),
            [Cause::HotQueue]
        );
        assert_eq!(found(queues(&[49_900, 20_100, 20_000, 10_000])), []);
        assert_eq!(found(queues(&[74, 26].map(|n| n * 1000))), []);
        assert_eq!(
            found(queues(&[75, 25].map(|n| n * 1000))),
            [Cause::HotQueue]
        );
        // a single queue gets everything
        assert_eq!(found(queues(&[100_000])), []);
        // a few frames of the DUT's own
        assert_eq!(found(queues(&[999, 0])), []);
        assert_eq!(found(queues(&[1000, 0])), [Cause::HotQueue]);
    }

    #[test]
    fn idle_cores_next_to_a_saturated_one_are_found() {
        // 0.72 of 1.25 s are 0.9 of the second of load
        assert_eq!(found(cpus(&[0.72, 0.2])), [Cause::IdleCores]);
        assert_eq!(found(cpus(&[0.71, 0.2])), []);
        assert_eq!(found(cpus(&[1.0, 0.21])), []);
        assert_eq!(found(cpus(&[1.0])), []);
        let mut other = cpus(&[1.0, 0.0]);
        other.cpus[1].forwards = false;
        assert_eq!(found(other), [], "a CPU of other work is not the DUT's");
    }

    #[test]
    fn fewer_queues_than_cpus() {
        let with = |queues, packets, worked: &[f64]| Telemetry {
            cpus: cpus(worked).cpus,
            ..port(PortCount {
                rx_queues: Some(queues),
                rx_packets: packets,
                ..PortCount::default()
            })
        };
        assert_eq!(found(with(1, 1000, &[0.8, 0.5])), [Cause::FewQueues]);
        assert_eq!(found(with(2, 1000, &[0.8, 0.5])), []);
        assert_eq!(
            found(with(1, 999, &[0.8, 0.5])),
            [],
            "nothing comes in there"
        );
        assert_eq!(
            found(with(1, 1000, &[0.5, 0.5])),
            [],
            "no CPU is at its limit"
        );
    }

    #[test]
    fn a_port_on_another_node() {
        let on = |node, softirq| {
            let mut telemetry = cpus(&[softirq]);
            telemetry.cpus[0].node = Some(1);
            let count = PortCount {
                node: Some(node),
                ..PortCount::default()
            };
            Telemetry {
                ports: [("eth0".into(), count)].into(),
                ..telemetry
            }
        };
        assert_eq!(found(on(0, 0.1)), [Cause::FarNode]);
        assert_eq!(found(on(1, 0.1)), []);
        assert_eq!(found(on(0, 0.09)), [], "timers alone");
    }

    #[test]
    fn pauses_offloads_and_interrupts() {
        let pauses = |frames: &[(&str, u64)]| {
            port(PortCount {
                pauses: frames.iter().map(|(n, c)| ((*n).into(), *c)).collect(),
                ..PortCount::default()
            })
        };
        assert_eq!(found(pauses(&[("rx_pause", 1)])), [Cause::FlowControl]);
        assert_eq!(found(pauses(&[])), []);
        let lro = |on| {
            port(PortCount {
                lro: Some(on),
                ..PortCount::default()
            })
        };
        assert_eq!(found(lro(true)), [Cause::BreakingOffload]);
        assert_eq!(found(lro(false)), []);
        let moved = |moved: Option<[String; 2]>| Telemetry {
            interrupts: vec![InterruptShare {
                name: "eth0-TxRx-0".into(),
                moved,
                ..InterruptShare::default()
            }],
            ..Telemetry::default()
        };
        assert_eq!(
            found(moved(Some(["0".into(), "3".into()]))),
            [Cause::MovingInterrupts]
        );
        assert_eq!(found(moved(None)), []);
    }

    #[test]
    fn drops_are_reported_from_a_tenth_of_the_loss() {
        let dropped = |name: &str, frames| Telemetry {
            drops: [(name.to_owned(), frames)].into(),
            ..port(PortCount::default())
        };
        for (name, cause) in [
            ("nft ip t f: ip saddr 10.0.0.1 drop", Cause::Dropped),
            ("TcpExt IPReversePathFilter", Cause::Dropped),
            ("IpExt InNoRoutes", Cause::Dropped),
            ("softnet CPU 1 dropped", Cause::SoftnetFull),
            ("eth0 rx_missed_errors", Cause::RingFull),
        ] {
            assert_eq!(found(dropped(name, 2000)), [cause], "{name}");
            assert_eq!(found(dropped(name, 1999)), [], "{name}");
            let nothing_lost = trial_findings(&trial(10, 10, dropped(name, 2000)));
            assert_eq!(nothing_lost, [], "{name}");
        }
        // on a card the kernel counts frames that it does not need; on a veth it is the ring
        assert_eq!(found(dropped("eth0 rx_dropped", 20_000)), []);
        let mut veth = dropped("eth0 rx_dropped", 20_000);
        veth.ports.get_mut("eth0").unwrap().driver = Some("veth".into());
        assert_eq!(found(veth.clone()), [Cause::RingFull]);
        let mut overload = trial(100_000, 80_000, veth);
        overload.procedure = "maxfwd".into();
        assert_eq!(
            trial_findings(&overload),
            [],
            "it is what that procedure does"
        );
        let squeezed = |times| Telemetry {
            softnet: vec![Softnet {
                squeezed: times,
                ..Softnet::default()
            }],
            ..Telemetry::default()
        };
        assert_eq!(found(squeezed(10)), [Cause::SoftnetFull]);
        assert_eq!(found(squeezed(9)), []);
    }

    #[test]
    fn sizes_and_gaps() {
        let size = |name: &str, value, limit| Telemetry {
            sizes: [(name.to_owned(), Size { value, limit })].into(),
            ..Telemetry::default()
        };
        assert_eq!(
            found(size("conntrack entries", 95, Some(100))),
            [Cause::AtLimit]
        );
        assert_eq!(found(size("conntrack entries", 94, Some(100))), []);
        assert_eq!(found(size("nft rules", 1 << 40, None)), []);
        // for free memory, less is worse
        assert_eq!(
            found(size("memory bytes available", 5, Some(100))),
            [Cause::AtLimit]
        );
        assert_eq!(found(size("memory bytes available", 6, Some(100))), []);
        let gap = |gap_s| Telemetry {
            gap_s: Some(gap_s),
            every_s: Some(0.5),
            ..Telemetry::default()
        };
        assert_eq!(found(gap(1.5)), [Cause::Starved]);
        assert_eq!(found(gap(1.49)), []);
    }

    #[test]
    fn the_generator_is_the_limit_only_of_a_dut_that_loses_nothing() {
        let with = |lost: u64, not_sent: u64| {
            let mut one = trial(100_000, 100_000 - lost, Telemetry::default());
            one.ledger.frames_not_sent = not_sent;
            trial_findings(&one)
                .iter()
                .map(|f| f.cause)
                .collect::<Vec<_>>()
        };
        assert_eq!(with(0, 2000), [Cause::GeneratorLimited]);
        assert_eq!(with(0, 1000), [], "just below one percent");
        assert_eq!(with(1, 2000), []);
    }

    /// A meter that is wrong by a factor, in trials with different loads.
    fn wrong_meter(factor: f64, trials: u64) -> Vec<Finding> {
        let all: Vec<TrialRecord> = (1..=trials)
            .map(|n| {
                let mut one = trial(n * 100_000, n * 90_000, Telemetry::default());
                let reads = (n as f64 * 90_000.0 * factor).round() as u64;
                one.counters.chain = VethCounts {
                    generator_port_tx_packets: n * 100_000,
                    dut_in_rx_packets: n * 100_000,
                    dut_out_tx_packets: reads,
                    receiver_port_rx_packets: n * 90_000,
                    ..VethCounts::default()
                }
                .chain();
                one
            })
            .collect();
        factors(&all.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_ratio_is_named_for_what_it_is() {
        for (factor, words) in [
            (1.024, "a thousand that is 1024"),
            (1.0 / 1.024, "a thousand that is 1024"),
            (2.0, "counted twice"),
        ] {
            let found = wrong_meter(factor, 3);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].cause, Cause::CountersDisagree);
            let sentence = &found[0].sentence;
            assert!(
                sentence.contains(words) && sentence.contains("the DUT's output"),
                "{sentence}"
            );
        }
        assert_eq!(wrong_meter(1.024, 2), [], "chance may do it twice");
        assert_eq!(wrong_meter(1.0, 3), []);
        assert_eq!(wrong_meter(1.0242, 3), []);
        assert_eq!(
            wrong_meter(0.9, 3),
            [],
            "a factor without a name is not explained"
        );
    }

    /// Exactly half of the load is lost at the input in every trial: a ratio of one half that is
    /// not a meter's fault.
    #[test]
    fn a_dut_at_half_of_the_load_is_no_lying_meter() {
        let all: Vec<TrialRecord> = (1..=4)
            .map(|n| {
                let mut one = trial(n * 100_000, n * 50_000, Telemetry::default());
                one.counters.chain = VethCounts {
                    generator_port_tx_packets: n * 50_000,
                    generator_port_tx_dropped: n * 50_000,
                    dut_in_rx_packets: n * 50_000,
                    dut_in_rx_dropped: n * 50_000,
                    dut_out_tx_packets: n * 50_000,
                    receiver_port_rx_packets: n * 50_000,
                    ..VethCounts::default()
                }
                .chain();
                one
            })
            .collect();
        assert_eq!(factors(&all.iter().collect::<Vec<_>>()), []);
    }

    #[test]
    fn bytes_that_differ_by_what_is_on_the_wire() {
        let with = |returned: f64, went: f64| {
            let count = |rx: f64, tx: f64| PortCount {
                rx_packets: if rx > 0.0 { 1000 } else { 0 },
                rx_bytes: (rx * 1000.0) as u64,
                tx_packets: if tx > 0.0 { 1000 } else { 0 },
                tx_bytes: (tx * 1000.0) as u64,
                ..PortCount::default()
            };
            let ports = [
                ("eth0".to_owned(), count(returned, 0.0)),
                ("eth1".to_owned(), count(0.0, went)),
            ];
            trial_findings(&trial(
                1000,
                1000,
                Telemetry {
                    ports: ports.into(),
                    ..Telemetry::default()
                },
            ))
        };
        let words = |returned, went| with(returned, went)[0].sentence.clone();
        assert!(words(64.0, 60.0).contains("4 bytes are the FCS"));
        assert!(words(60.0, 84.0).contains("24 bytes are FCS, preamble and gap"));
        assert_eq!(with(60.0, 60.0), []);
        assert_eq!(with(60.0, 61.0), [], "a difference without a name");
    }

    #[test]
    fn remedies_are_commands_with_the_observed_names() {
        assert_eq!(mask([0, 1, 3].into_iter()), "b");
        assert_eq!(mask([0, 33].into_iter()), "2,00000001");
        let few = |driver: Option<&str>| Telemetry {
            cpus: cpus(&[0.8, 0.5]).cpus,
            ..port(PortCount {
                rx_queues: Some(1),
                rx_packets: 1000,
                driver: driver.map(Into::into),
                ..PortCount::default()
            })
        };
        let remedy = |telemetry| {
            trial_findings(&trial(100_000, 80_000, telemetry))
                .remove(0)
                .remedy
        };
        let steered = ["echo 3 > /sys/class/net/eth0/queues/rx-0/rps_cpus"];
        assert_eq!(remedy(few(Some("veth"))), steered);
        assert_eq!(remedy(few(Some("igb"))), ["ethtool -L eth0 combined 2"]);
        // as on FreeBSD, which has other commands
        assert!(remedy(few(None)).is_empty());
        let paused = |driver: Option<&str>| {
            port(PortCount {
                pauses: [("rx_pause".to_owned(), 1000)].into(),
                driver: driver.map(Into::into),
                ..PortCount::default()
            })
        };
        let off = ["ethtool -A eth0 autoneg off rx off tx off"];
        assert_eq!(remedy(paused(Some("igb"))), off);
        assert!(remedy(paused(None)).is_empty());
        let full = Telemetry {
            sizes: [(
                "conntrack entries".to_owned(),
                Size {
                    value: 100,
                    limit: Some(100),
                },
            )]
            .into(),
            ..Telemetry::default()
        };
        let larger = ["sysctl -w net.netfilter.nf_conntrack_max=200"];
        assert_eq!(remedy(full), larger);
        let filtered = Telemetry {
            drops: [("TcpExt IPReversePathFilter".to_owned(), 20_000)].into(),
            ..port(PortCount::default())
        };
        let off = [
            "sysctl -w net.ipv4.conf.all.rp_filter=0",
            "sysctl -w net.ipv4.conf.eth0.rp_filter=0",
        ];
        assert_eq!(remedy(filtered), off);
        // more flows are not a command
        assert!(remedy(queues(&[0, 100_000, 0, 0])).is_empty());
    }

    /// Every finding that is possible on FreeBSD: none mentions what only Linux has, and each that
    /// mentions a Linux tool has another text there.
    #[test]
    fn words_for_freebsd_name_its_own_tools() {
        let port = |count: PortCount| Telemetry {
            ports: [("ix0".to_owned(), count)].into(),
            ..Telemetry::default()
        };
        let queue = |mut telemetry: Telemetry| {
            telemetry.queues[0].port = "ix0".into();
            telemetry.queues[1].port = "ix0".into();
            telemetry
        };
        let few = Telemetry {
            cpus: cpus(&[0.8, 0.5]).cpus,
            ..port(PortCount {
                rx_queues: Some(1),
                rx_packets: 1000,
                driver: Some("ix".into()),
                ..PortCount::default()
            })
        };
        let far = Telemetry {
            cpus: vec![CpuShare {
                node: Some(1),
                ..cpus(&[0.5]).cpus[0]
            }],
            ..port(PortCount {
                node: Some(0),
                ..PortCount::default()
            })
        };
        let paused = port(PortCount {
            pauses: [("mac_stats.xoff_recvd".to_owned(), 1000)].into(),
            driver: Some("ix".into()),
            ..PortCount::default()
        });
        let joined = port(PortCount {
            lro: Some(true),
            ..PortCount::default()
        });
        let moved = Telemetry {
            interrupts: vec![InterruptShare {
                name: "irq264: ix0:rxq0".into(),
                moved: Some(["0".into(), "3".into()]),
                ..InterruptShare::default()
            }],
            ..Telemetry::default()
        };
        let late = Telemetry {
            gap_s: Some(3.0),
            every_s: Some(0.5),
            ..Telemetry::default()
        };
        let full = |name: &str, value| Telemetry {
            sizes: [(
                name.to_owned(),
                Size {
                    value,
                    limit: Some(100),
                },
            )]
            .into(),
            ..Telemetry::default()
        };
        let dropped = |name: &str| Telemetry {
            drops: [(name.to_owned(), 20_000)].into(),
            ..port(PortCount::default())
        };
        for (telemetry, own, remedy) in [
            (queue(queues(&[100_000, 0])), "sysctl dev.ix.0", None),
            (few, "dev.ix.0.iflib.override_nrxqs", None),
            (cpus(&[0.8, 0.1]), "cpuset -l CPU -x IRQ", None),
            (far, "vmstat -i", None),
            (paused, "sysctl dev.ix.0.fc=0", None),
            (joined, "ifconfig ix0 -lro", Some("ifconfig ix0 -lro")),
            (moved, "cpuset -l CPU -x IRQ", None),
            (late, "top -HSP", None),
            (full("pf states", 99), "pfctl -sm", None),
            (full("memory bytes available", 1), "vmstat -z", None),
            (dropped("ix0 mac_stats.rx_missed"), "pmcstat -TS", None),
            (
                dropped("ip packets discarded due to no route"),
                "netstat -rn",
                None,
            ),
            (dropped("ip bad header checksums"), "ifconfig", None),
            (
                dropped("ip output datagrams can't be fragmented"),
                "ifconfig",
                None,
            ),
        ] {
            let telemetry = Telemetry {
                system: System::FreeBsd,
                ..telemetry
            };
            let found = trial_findings(&trial(100_000, 80_000, telemetry));
            assert_eq!(found.len(), 1, "{own}: {found:?}");
            let setting = &found[0].setting;
            assert!(setting.contains(own), "{own} is not in: {setting}");
            for others in [
                "ethtool",
                "/proc/",
                "/sys/",
                "rps_cpus",
                "net.core",
                "NAPI",
                "irqbalance",
                "systemctl",
                "ip link",
            ] {
                assert!(!setting.contains(others), "{setting}");
            }
            assert_eq!(found[0].remedy, Vec::from_iter(remedy), "{own}");
        }
    }

    #[test]
    fn findings_of_several_trials_are_reported_once() {
        let trials = [
            trial(100_000, 80_000, queues(&[60_000, 40_000, 0])),
            trial(100_000, 80_000, queues(&[90_000, 10_000, 0])),
            trial(100_000, 80_000, queues(&[30_000, 30_000, 40_000])),
        ];
        let found = of_trials(&trials.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].trials, found[0].of_trials), (2, 3));
        assert!(
            found[0].sentence.contains("90.0 %"),
            "{}",
            found[0].sentence
        );
        let mut invalid = trials.clone();
        for one in &mut invalid {
            one.validity.reasons.push("a link went down".into());
        }
        assert_eq!(of_trials(&invalid.iter().collect::<Vec<_>>()), []);
    }
}
