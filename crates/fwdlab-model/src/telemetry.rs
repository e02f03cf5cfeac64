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

/// When a reading was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Before the load, while no frames flow.
    Before,
    /// While frames flow, by a sampler that was started before.
    During,
    /// After the load, when no frames flow any more.
    After,
}

/// One reading: a line of `telemetry.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Name of the test case.
    pub test_case: String,
    /// Number of the trial in the run.
    pub trial: u32,
    /// When it was taken.
    pub when: When,
    /// The reading.
    #[serde(flatten)]
    pub reading: Reading,
}

/// Counters of a host since its start, and its current state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    /// Time of the reading, in seconds since the host started, by its own clock.
    pub uptime_s: f64,
    /// How each CPU spent its time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CpuTime>,
    /// Software interrupts by kind: `NET_RX`, one count per CPU.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub softirqs: BTreeMap<String, Vec<u64>>,
    /// Backlog counters of each CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub softnet: Vec<Softnet>,
    /// Interrupts of devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<Interrupt>,
    /// Counters of ports, by port name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ports: BTreeMap<String, PortCount>,
    /// Packets per queue, for the ports of the test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueCount>,
    /// Drop counters that do not belong to a port: `IpExt InNoRoutes`, `nft ip t f: ... drop`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drops: BTreeMap<String, u64>,
    /// Sizes of tables and memory, with their limits if any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, Size>,
    /// Frequency in MHz, by CPU.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub frequency_mhz: BTreeMap<u32, f64>,
    /// Temperature in degrees Celsius, by sensor.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub temperature_celsius: BTreeMap<String, f64>,
    /// Energy meters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub energy: BTreeMap<String, EnergyCount>,
    /// Power meters: current power in watts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub power_watts: BTreeMap<String, f64>,
    /// CPUs of each NUMA node, as the kernel lists them: `0-15,32-47`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<u32, String>,
    /// What could not be read, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
}

/// How a CPU spent its time since the host started, in ticks of 10 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuTime {
    /// Number of the CPU.
    pub cpu: u32,
    /// Running programs, including niced ones.
    pub user_ticks: u64,
    /// The kernel on behalf of programs, and kernel threads.
    pub system_ticks: u64,
    /// Idle, or waiting for a disk.
    pub idle_ticks: u64,
    /// Hardware interrupts.
    pub irq_ticks: u64,
    /// Software interrupts: forwarding in the kernel happens here.
    pub softirq_ticks: u64,
    /// Stolen by the hypervisor.
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

/// Backlog counters of a CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Softnet {
    /// Number of the CPU.
    pub cpu: u32,
    /// Processed frames.
    pub processed: u64,
    /// Frames dropped because its backlog was full.
    pub dropped: u64,
    /// How often its budget was used up while more frames were waiting.
    pub squeezed: u64,
}

/// An interrupt of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interrupt {
    /// Interrupt number.
    pub number: u32,
    /// Its name: `eth0-TxRx-3`.
    pub name: String,
    /// Number of interrupts, by CPU.
    pub counts: Vec<u64>,
    /// CPUs allowed to handle it, as the kernel lists them: `0-3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// CPUs that actually handle it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<String>,
}

/// Counters of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortCount {
    /// Received packets.
    pub rx_packets: u64,
    /// Received bytes, as this port counts them.
    pub rx_bytes: u64,
    /// Sent packets.
    pub tx_packets: u64,
    /// Sent bytes.
    pub tx_bytes: u64,
    /// Drop counters, by their names on the host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drops: BTreeMap<String, u64>,
    /// Pause frames, by counter name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pauses: BTreeMap<String, u64>,
    /// NUMA node; absent when it belongs to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Numbers of its interrupts, as far as its PCI device lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<u32>,
    /// Its driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Number of receive queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_queues: Option<u32>,
    /// Large receive offload is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lro: Option<bool>,
}

/// The direction of frames through a port.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Received.
    Rx,
    /// Sent.
    Tx,
}

/// Packets of one queue of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueCount {
    /// The port.
    pub port: String,
    /// The direction.
    pub way: Way,
    /// Number of the queue.
    pub queue: u32,
    /// Packets.
    pub packets: u64,
}

/// A size, and its limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Size {
    /// Current size: entries, or bytes if the name says so.
    pub value: u64,
    /// The largest possible size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// An energy meter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnergyCount {
    /// Energy so far, in microjoules.
    pub microjoules: u64,
    /// The meter wraps around to zero after this number of microjoules.
    pub range_microjoules: u64,
}

/// The difference between the readings before and after a trial, or the sum over several trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Telemetry {
    /// The host that was read.
    pub host: String,
    /// Its operating system; absent: Linux.
    #[serde(default, skip_serializing_if = "System::is_linux")]
    pub system: System,
    /// Number of trials.
    pub trials: u32,
    /// Time between the readings, in seconds, by the host's own clock. It is longer than the load,
    /// and shares of time refer to it.
    pub between_s: f64,
    /// Frames sent into the DUT between the readings, by the generator's count.
    pub frames_sent: u64,
    /// Frames among these that came back.
    #[serde(default)]
    pub frames_received: u64,
    /// How each CPU spent its time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CpuShare>,
    /// Backlog counters of each CPU between the readings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub softnet: Vec<Softnet>,
    /// Counters of the ports of the test between the readings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ports: BTreeMap<String, PortCount>,
    /// Packets per queue, and their share of all packets of the port in that direction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueShare>,
    /// Drop counters that increased, by name: `eth0 rx_missed_errors`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drops: BTreeMap<String, u64>,
    /// Interrupts of the ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<InterruptShare>,
    /// Sizes of tables and memory at the time when they were closest to their limits, or at the
    /// end.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, Size>,
    /// Lowest frequency of any forwarding CPU, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowest_mhz: Option<f64>,
    /// Highest frequency of any forwarding CPU, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_mhz: Option<f64>,
    /// Highest temperature of any sensor, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hottest_celsius: Option<f64>,
    /// Energy between the readings, in joules, by meter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub energy_joules: BTreeMap<String, f64>,
    /// Number of samples taken while frames flowed.
    #[serde(default, skip_serializing_if = "crate::telemetry::is_none")]
    pub samples: u32,
    /// Longest time between two samples, in seconds: programs on the DUT did not run for that long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_s: Option<f64>,
    /// Requested interval between samples, in seconds.
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

/// How a CPU spent its time between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuShare {
    /// Number of the CPU.
    pub cpu: u32,
    /// True if the CPU is known to forward. Other CPUs do other work on the same host.
    pub forwards: bool,
    /// NUMA node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Ticks of 10 ms between the readings; shares refer to these.
    pub ticks: u64,
    /// Running programs.
    pub user_ratio: f64,
    /// The kernel on behalf of programs, and kernel threads. Includes forwarding if a kernel thread
    /// does it.
    pub system_ratio: f64,
    /// Hardware interrupts.
    pub irq_ratio: f64,
    /// Software interrupts.
    pub softirq_ratio: f64,
    /// Idle.
    pub idle_ratio: f64,
    /// Stolen by the hypervisor.
    pub steal_ratio: f64,
}

impl CpuShare {
    /// Returns the busy share.
    pub fn busy_ratio(&self) -> f64 {
        self.user_ratio + self.system_ratio + self.irq_ratio + self.softirq_ratio
    }
}

/// Packets of one queue, and its share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueShare {
    /// The port.
    pub port: String,
    /// The direction.
    pub way: Way,
    /// Number of the queue.
    pub queue: u32,
    /// Packets.
    pub packets: u64,
    /// Share of all packets of the port's queues in this direction.
    pub ratio: f64,
}

/// How often each CPU handled an interrupt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptShare {
    /// Its name.
    pub name: String,
    /// Number of interrupts, by CPU; only CPUs with any.
    pub counts: BTreeMap<u32, u64>,
    /// CPUs that handle it, before and after, if they changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<[String; 2]>,
}

/// A finding from telemetry: a cause, the evidence, and the setting to check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// The observation, in one sentence.
    pub sentence: String,
    /// The evidence: numbers with names and units.
    pub evidence: Vec<Evidence>,
    /// What to check or change.
    pub setting: String,
    /// Commands for the DUT that fix it, if a remedy is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedy: Vec<String>,
    /// Number of trials in which it was observed.
    pub trials: u32,
    /// Number of trials that were checked.
    pub of_trials: u32,
}

/// A number that supports a finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Its name.
    pub what: String,
    /// Its value.
    pub value: f64,
    /// Its unit: `packets`, `ratio`, `s`.
    pub unit: String,
}

/// Causes that fwdlab looks for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The DUT lost nothing, and the sender could not offer more.
    GeneratorLimited,
    /// One receive queue carries most of the load.
    HotQueue,
    /// A port has fewer receive queues than the DUT has forwarding CPUs.
    FewQueues,
    /// Some CPUs that may forward are idle while another one is saturated.
    IdleCores,
    /// A port is on another NUMA node than the forwarding CPUs.
    FarNode,
    /// Pause frames were counted.
    FlowControl,
    /// An offload that breaks routing is on.
    BreakingOffload,
    /// Interrupts moved between CPUs.
    MovingInterrupts,
    /// Counters that should agree differ.
    CountersDisagree,
    /// Programs on the DUT were starved of CPU time.
    Starved,
    /// A table or memory is at its limit.
    AtLimit,
    /// Receive rings were full.
    RingFull,
    /// The processing budget or the backlog of a CPU was exhausted.
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
