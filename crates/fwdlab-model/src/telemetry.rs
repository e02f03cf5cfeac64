//! Telemetry of a DUT: the counts of its host around a trial, as raw readings and as evaluated.
//!
//! A [`Record`] is a line of `telemetry.jsonl`: one reading, as the host returned it. A
//! [`Telemetry`] is the difference of the readings before and after a trial, exact in its counts; a
//! [`Finding`] is what it explains. `fwdlab_lab::telemetry` reads them, `fwdlab_measure::telemetry`
//! and `fwdlab_measure::findings` evaluate them. Start with [`Telemetry`].

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::system::System;

/// When a reading was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Before the load, while nothing moves.
    Before,
    /// While frames flow: by a sampler that was started before them.
    During,
    /// After the load, when nothing moves any more.
    After,
}

/// One reading: a line of `telemetry.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Name of the test case.
    pub test_case: String,
    /// Number of the trial in the run.
    pub trial: u32,
    /// When it was made.
    pub when: When,
    /// What was read.
    #[serde(flatten)]
    pub reading: Reading,
}

/// What a host counted so far, and how it stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    /// When, in seconds since the host started, by its own clock.
    pub uptime_s: f64,
    /// Where the time of its CPUs went.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CpuTime>,
    /// Software interrupts by kind: `NET_RX`, one count per CPU.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub softirqs: BTreeMap<String, Vec<u64>>,
    /// Of each CPU, what its backlog saw.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub softnet: Vec<Softnet>,
    /// Interrupts of devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<Interrupt>,
    /// Counters of ports, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ports: BTreeMap<String, PortCount>,
    /// Packets by queue, of the ports of the test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueCount>,
    /// Counters of drops that are no port's: `IpExt InNoRoutes`, `nft ip t f: ... drop`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drops: BTreeMap<String, u64>,
    /// Sizes of tables and of memory, with their limits where they have one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, Size>,
    /// Frequency in MHz, by CPU.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub frequency_mhz: BTreeMap<u32, f64>,
    /// Temperature in degrees Celsius, by sensor.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub temperature_celsius: BTreeMap<String, f64>,
    /// Meters of energy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub energy: BTreeMap<String, EnergyCount>,
    /// Meters of power, in watts at this moment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub power_watts: BTreeMap<String, f64>,
    /// CPUs by NUMA node, as the kernel lists them: `0-15,32-47`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<u32, String>,
    /// What could not be read, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
}

/// Where the time of a CPU went since the host started, in ticks of 10 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuTime {
    /// Which.
    pub cpu: u32,
    /// Programs, nice ones included.
    pub user_ticks: u64,
    /// The kernel on behalf of programs, and its threads.
    pub system_ticks: u64,
    /// Nothing to do, or waiting for a disk.
    pub idle_ticks: u64,
    /// Interrupts.
    pub irq_ticks: u64,
    /// Software interrupts: where a kernel forwards.
    pub softirq_ticks: u64,
    /// Taken by the hypervisor.
    pub steal_ticks: u64,
}

impl CpuTime {
    /// Returns the total time.
    pub fn total_ticks(&self) -> u64 {
        self.busy_ticks() + self.idle_ticks + self.steal_ticks
    }

    /// Returns the busy time.
    pub fn busy_ticks(&self) -> u64 {
        self.user_ticks + self.system_ticks + self.irq_ticks + self.softirq_ticks
    }
}

/// What the backlog of a CPU saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Softnet {
    /// Which CPU.
    pub cpu: u32,
    /// Frames.
    pub processed: u64,
    /// Frames dropped because its backlog was full.
    pub dropped: u64,
    /// How often its time for frames was over while there were more.
    pub squeezed: u64,
}

/// An interrupt of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// What it is for: `eth0-TxRx-3`.
    pub name: String,
    /// How often, by CPU.
    pub counts: Vec<u64>,
    /// CPUs that may have it, and those that have, as the kernel lists them: `0-3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// Those that have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<String>,
}

/// What a port counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortCount {
    /// Packets that came.
    pub rx_packets: u64,
    /// Their bytes, as this port counts them.
    pub rx_bytes: u64,
    /// Packets that went.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Counters of what was dropped, by their names there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drops: BTreeMap<String, u64>,
    /// Pause frames, by the names of their counters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pauses: BTreeMap<String, u64>,
    /// NUMA node; absent where it is on none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Its driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Receive queues that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_queues: Option<u32>,
    /// Is large receive offload on?
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lro: Option<bool>,
}

/// Which way frames go through a port.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// In.
    Rx,
    /// Out.
    Tx,
}

/// What a queue of a port counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueCount {
    /// The port.
    pub port: String,
    /// Which way.
    pub way: Way,
    /// Number of the queue.
    pub queue: u32,
    /// Packets.
    pub packets: u64,
}

/// How large something is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Size {
    /// Now: entries, or bytes where the name says so.
    pub value: u64,
    /// It can be no larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// A meter of energy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnergyCount {
    /// Microjoules so far.
    pub microjoules: u64,
    /// After this many it begins again at none.
    pub range_microjoules: u64,
}

/// What the readings before and after a trial say of it; of several trials, together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Telemetry {
    /// The host that was read.
    pub host: String,
    /// What runs there; absent: Linux.
    #[serde(default, skip_serializing_if = "System::is_linux")]
    pub system: System,
    /// Trials.
    pub trials: u32,
    /// Seconds between the readings, by the host's own clock. It is longer than the load: shares of time are of this time.
    pub between_s: f64,
    /// Frames that were sent into the DUT meanwhile, by the generator's count.
    pub frames_sent: u64,
    /// Those of them that came back.
    #[serde(default)]
    pub frames_received: u64,
    /// Where the time of its CPUs went.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CpuShare>,
    /// Of each CPU, what its backlog saw meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub softnet: Vec<Softnet>,
    /// What the ports of the test counted meanwhile.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ports: BTreeMap<String, PortCount>,
    /// Packets by queue, and their shares of all packets of the port that went this way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueShare>,
    /// Counters of drops that rose, by their names: `eth0 rx_missed_errors`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drops: BTreeMap<String, u64>,
    /// Interrupts of the ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<InterruptShare>,
    /// Sizes of tables and memory, where they came nearest to their limits, or at the end.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, Size>,
    /// Lowest frequency of any CPU that forwards, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowest_mhz: Option<f64>,
    /// Highest frequency of any CPU that forwards, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_mhz: Option<f64>,
    /// Highest temperature of any sensor, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hottest_celsius: Option<f64>,
    /// Energy between the readings in joules, by meter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub energy_joules: BTreeMap<String, f64>,
    /// Samples that were made while frames flowed.
    #[serde(default, skip_serializing_if = "crate::telemetry::is_none")]
    pub samples: u32,
    /// Longest time between two samples: so long programs of the DUT did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_s: Option<f64>,
    /// How often samples were to be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_s: Option<f64>,
    /// What could not be read, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
}

fn is_none(number: &u32) -> bool {
    *number == 0
}

impl Telemetry {
    /// Returns the energy per forwarded frame in joules, by meter.
    pub fn joules_per_frame(&self) -> impl Iterator<Item = (&str, f64)> {
        let frames = self.frames_received as f64;
        let all = self.energy_joules.iter().filter(move |_| frames > 0.0);
        all.map(move |(meter, joules)| (meter.as_str(), joules / frames))
    }
}

/// Where the time of a CPU went between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuShare {
    /// Which.
    pub cpu: u32,
    /// It forwards, as far as is known; the others are of other work on the same host.
    pub forwards: bool,
    /// NUMA node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Ticks of 10 ms between the readings: shares are of these.
    pub ticks: u64,
    /// Programs.
    pub user_ratio: f64,
    /// The kernel for programs, and its threads; of a DUT whose frames a thread forwards, that, too.
    pub system_ratio: f64,
    /// Interrupts.
    pub irq_ratio: f64,
    /// Software interrupts.
    pub softirq_ratio: f64,
    /// Nothing to do.
    pub idle_ratio: f64,
    /// Taken by the hypervisor.
    pub steal_ratio: f64,
}

impl CpuShare {
    /// Returns the busy share.
    pub fn busy_ratio(&self) -> f64 {
        self.user_ratio + self.system_ratio + self.irq_ratio + self.softirq_ratio
    }
}

/// What a queue carried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueShare {
    /// The port.
    pub port: String,
    /// Which way.
    pub way: Way,
    /// Number of the queue.
    pub queue: u32,
    /// Packets.
    pub packets: u64,
    /// Of all packets of the port's queues that went this way.
    pub ratio: f64,
}

/// Where an interrupt went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptShare {
    /// What it is for.
    pub name: String,
    /// How often, by CPU; only those that had any.
    pub counts: BTreeMap<u32, u64>,
    /// CPUs that have it, where that changed: before and after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<[String; 2]>,
}

/// What is explained by telemetry: a cause, the numbers behind it, and the setting to look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Which cause.
    pub cause: Cause,
    /// What was seen, in one sentence.
    pub sentence: String,
    /// The numbers, each with its name and unit.
    pub evidence: Vec<Evidence>,
    /// What to look at, or to change.
    pub setting: String,
    /// Commands that change it, on the DUT, where a remedy is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedy: Vec<String>,
    /// Trials in which it was seen.
    pub trials: u32,
    /// Of so many that were looked at.
    pub of_trials: u32,
}

/// A number behind a finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// What it is.
    pub what: String,
    /// How much.
    pub value: f64,
    /// Its unit: `packets`, `ratio`, `s`.
    pub unit: String,
}

/// Causes that are looked for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The DUT lost nothing, and the sender had no more to offer.
    GeneratorLimited,
    /// One receive queue carries most of the load.
    HotQueue,
    /// A port has fewer receive queues than the DUT has CPUs to forward.
    FewQueues,
    /// CPUs that may forward are idle while another is at its limit.
    IdleCores,
    /// A port is on another NUMA node than the CPUs that forward.
    FarNode,
    /// Pause frames were seen.
    FlowControl,
    /// An offload is on that breaks routing.
    BreakingOffload,
    /// Interrupts moved between CPUs.
    MovingInterrupts,
    /// Counters that should agree do not.
    CountersDisagree,
    /// Programs of the DUT did not run.
    Starved,
    /// A table or memory is at its limit.
    AtLimit,
    /// Receive rings were full.
    RingFull,
    /// The time or the backlog of a CPU was used up.
    SoftnetFull,
    /// A rule, a route or a check dropped frames.
    Dropped,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::GeneratorLimited => "generator limited",
            Cause::HotQueue => "one queue carries the load",
            Cause::FewQueues => "fewer queues than CPUs",
            Cause::IdleCores => "CPUs idle",
            Cause::FarNode => "another NUMA node",
            Cause::FlowControl => "flow control",
            Cause::BreakingOffload => "offload breaks routing",
            Cause::MovingInterrupts => "interrupts move",
            Cause::CountersDisagree => "counters disagree",
            Cause::Starved => "programs starved",
            Cause::AtLimit => "at its limit",
            Cause::RingFull => "ring full",
            Cause::SoftnetFull => "CPU out of time for frames",
            Cause::Dropped => "dropped on purpose",
        })
    }
}
