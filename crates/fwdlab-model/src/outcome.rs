//! Results of procedures: one [`Outcome`] per procedure, with a verdict as text and the conditions
//! of the measurement.
//!
//! `measure` computes the figures. The names of figures contain their unit; missing values are
//! absent. Start with [`Outcome`], whose [`Found`] differs for every procedure.

use std::any::Any;
use std::borrow::Borrow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::comparison::Comparison;
use crate::instructions::Exact;
use crate::loss::Ledger;
use crate::management::{Management, Responsiveness};
use crate::probe::ApartStratum;
use crate::procedure::{Delays, Interval, Moment};
use crate::result::Stratum;
use crate::search::SearchOutcome;
use crate::units::FrameSize;
use crate::variant::{DirectionCounts, Variant};

/// The standard that a procedure follows, and the conditions that it did not meet. Reports print
/// the standard's name without qualification only if every condition was met.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compliance {
    /// Name of the standard, such as `RFC 2544 §26.1 throughput`; empty if the procedure follows no
    /// standard.
    pub standard: String,
    /// Unmet conditions, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortened: Vec<String>,
}

impl Compliance {
    /// Returns true if every condition was met.
    pub fn is_met(&self) -> bool {
        self.shortened.is_empty()
    }

    /// Returns the label for reports; empty for a procedure without a standard.
    pub fn label(&self) -> String {
        match (self.standard.as_str(), self.is_met()) {
            ("", _) => String::new(),
            (standard, true) => standard.to_owned(),
            (standard, false) => {
                format!(
                    "{standard} procedure, shortened: {}",
                    self.shortened.join("; ")
                )
            }
        }
    }
}

/// The result of a procedure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Frame size with FCS; for a profile the mean, rounded.
    pub frame_size_bytes: FrameSize,
    /// Differences from a plain series.
    #[serde(default, skip_serializing_if = "Variant::is_plain")]
    pub variant: Variant,
    /// The result, by procedure.
    #[serde(flatten)]
    pub found: Found,
    /// The result in words.
    pub verdict: String,
    /// The procedure finished under its conditions and has a result.
    pub answered: bool,
    /// The procedure does not apply to this DUT: a missing result is not a failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_applicable: bool,
    /// The standard it follows.
    pub compliance: Compliance,
    /// Reasons to doubt the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Number of valid trials.
    pub trials: u32,
}

/// The result, by procedure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "procedure", content = "found", rename_all = "kebab-case")]
pub enum Found {
    /// Forwarding rate under a rising load.
    Ramp(Ramp),
    /// The largest load without loss.
    Throughput(Throughput),
    /// Delays at several loads.
    Latency(Latency),
    /// Loss over load.
    FrameLoss(FrameLoss),
    /// The longest burst without loss.
    BackToBack(BackToBack),
    /// Time until losses stop after overload.
    Recovery(Recovery),
    /// Time without forwarding after a reset.
    Reset(Reset),
    /// The cost of an event under load.
    Churn(Churn),
    /// Energy used by the DUT.
    Energy(Energy),
    /// Management requests answered by a flooded DUT.
    Management(Management),
    /// The smallest gap between bursts.
    Bursts(BurstGaps),
    /// Receive rate at the largest load.
    Mrr(Mrr),
    /// One load for a long time.
    Soak(Soak),
    /// Delays at shares of one load.
    LoadedLatency(LoadedLatency),
    /// The load whose average loss is a given ratio.
    Plr(CriticalLoad),
    /// The load at which the DUT forwards all that is offered.
    Equilibrium(Equilibrium),
    /// A procedure repeated for each value of a parameter.
    Sweep(Sweep),
    /// A single trial.
    Trial(SingleTrial),
    /// Forwarding rate in overload.
    ForwardingRate(ForwardingRate),
    /// Loads that meet loss goals.
    Mlrsearch(SearchOutcome),
    /// Forwarding rate in overload, from quiet windows.
    Maxfwd(Box<Maxfwd>),
    /// The cost of configurations compared with a reference DUT.
    Paired(Paired),
    /// Instructions per frame.
    Exact(Box<Exact>),
}

/// The forwarding rate of quiet windows, over one trial or over all iterations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Maxfwd {
    /// Median forwarding rate of the quiet windows; absent when there are too few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_pps: Option<f64>,
    /// Median forwarding rate of all windows in which the load was offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_ungated_pps: Option<f64>,
    /// Coefficient of variation of the ungated rate over iterations, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation_ungated_percent: Option<f64>,
    /// Offered load in the windows that count; never below the forwarding rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_load_pps: Option<f64>,
    /// The offered load was less than 1.1 times the forwarding rate: the DUT may forward more.
    #[serde(default)]
    pub not_saturated: bool,
    /// Lost over sent frames, over whole trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_loss_ratio: Option<f64>,
    /// Where every frame ended up.
    #[serde(flatten)]
    pub ledger: Ledger,
    /// Quiet windows. Only these count.
    pub quiet: Stratum,
    /// Windows during which the DUT's CPU was contended.
    pub contended: Stratum,
    /// Windows in another state of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_states: Vec<ApartStratum>,
    /// Windows in which the generator did not offer the load.
    pub windows_not_offered: u32,
}

impl Maxfwd {
    /// Returns the number of windows in all strata.
    pub fn windows(&self) -> u32 {
        let apart = ApartStratum::windows(&self.other_states);
        self.quiet.windows + self.contended.windows + apart + self.windows_not_offered
    }
}

/// The cost of a configuration compared with a reference DUT, measured in alternating slices of
/// traffic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Paired {
    /// The configuration of the reference DUT.
    pub reference: String,
    /// The swept parameter; absent without a sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// One point per swept value; a single one without a sweep.
    pub points: Vec<PairedPoint>,
    /// Cost per unit of the parameter; absent without a sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slope: Option<Slope>,
}

/// A configuration at one swept value, compared with the reference DUT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairedPoint {
    /// The swept value; absent without a sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// The difference from the reference DUT, for one iteration or for all of them.
    pub comparison: Comparison,
    /// Additional time per frame compared with the reference DUT, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_ns: Option<f64>,
    /// Its 95 % confidence interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_interval_ns: Option<[f64; 2]>,
}

/// A line fitted through the points: time per frame over the swept value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slope {
    /// Time per frame of the reference DUT, in nanoseconds. Relative costs are multiplied by it.
    pub frame_ns: f64,
    /// Cost per unit, in nanoseconds.
    pub unit_ns: f64,
    /// Its 95 % confidence interval over iterations; absent with fewer than three.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_ns_interval: Option<[f64; 2]>,
    /// Fixed cost, in nanoseconds: the line at zero units.
    pub fixed_ns: f64,
    /// The slope of each iteration, in percent of the reference DUT's time per frame.
    pub iterations_percent: Vec<f64>,
}

/// The load at which loss starts or ends, by a loss threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Edge {
    /// Largest offered load within the threshold, in frames per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturation_pps: Option<f64>,
    /// Change of the load between two samples.
    pub resolution_pps: f64,
    /// Lower bound of what the DUT forwards: the highest forwarding rate of a sample within the
    /// threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_pps: Option<f64>,
    /// Upper bound of what the DUT forwards: the largest load of the first sample with lasting
    /// loss. Absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_pps: Option<f64>,
    /// Start of the first sample with lasting loss, in seconds since the trial began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_s: Option<f64>,
    /// Earliest time at which the load crossed what the DUT forwards, in seconds since the trial
    /// began. On the way up, loss starts then, or once the buffer is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_s: Option<f64>,
    /// Latest time at which it crossed it, in seconds since the trial began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_s: Option<f64>,
    /// Why the threshold is crossed here, in words.
    pub reason: String,
}

impl Edge {
    /// Returns the load of the first sample with loss, if it is too far above the largest load
    /// without loss to determine the onset of loss: more than three steps of the load and more than
    /// 2 %.
    pub fn gap(&self, resolution_pps: f64) -> Option<f64> {
        let below = self.saturation_pps?;
        let between = self.resolution_pps;
        let is_gap = between > 3.0 * resolution_pps && between > below / 50.0;
        is_gap.then_some(below + between)
    }
}

/// The result of a ramp.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ramp {
    /// Load at the end of the ramp.
    pub target_pps: f64,
    /// A second counts as lossy from this loss ratio on.
    pub loss_threshold: f64,
    /// Where loss started on the way up.
    pub up: Edge,
    /// Where loss stopped on the way down; absent without a way down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Edge>,
    /// The largest forwarding rate without lasting loss, by the rule of the public viewer of TRex
    /// load tests.
    pub max_ok_pps: f64,
    /// The largest forwarding rate of any second.
    pub max_forwarding_rate_pps: f64,
    /// The largest share of the line rate that came back in any second, in percent, at most 100;
    /// absent when the link has no speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_line_percent: Option<f64>,
    /// Median forwarding rate at the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_forwarding_rate_pps: Option<f64>,
    /// Median forwarding rate at the target over the largest one: below 0.9 the DUT forwards less
    /// in overload (livelock).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collapse_ratio: Option<f64>,
    /// Loss starts close to the largest offered load or not at all: the DUT may forward more.
    #[serde(default)]
    pub tester_bound: bool,
    /// Every second; with two directions, of the one that lost more.
    pub samples: Vec<Interval>,
    /// With two directions, the counts of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<DirectionCounts>,
}

/// RFC 2544 throughput of one frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// Frames per second of a full link; absent when the link has no speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_rate_pps: Option<f64>,
    /// The largest load that was tried.
    pub max_load_pps: f64,
    /// Highest load without a lost frame, confirmed; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_pps: Option<f64>,
    /// The throughput in percent of the line rate, or of the largest load if the link has no speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
    /// The throughput in bit/s of frames with FCS (layer 2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_bps: Option<f64>,
    /// Smallest load with a lost frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lossy_pps: Option<f64>,
    /// The search ended when these two loads differed by no more than this.
    pub resolution_pps: f64,
    /// Number of failed confirmations.
    pub confirmations_failed: u32,
    /// The tester's limit was reached first.
    pub tester_bound: bool,
}

/// How delays are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LatencyMode {
    /// One tagged frame per trial, mean of the trials (RFC 2544 §26.2).
    #[serde(rename = "rfc2544")]
    Rfc2544,
    /// 500 tagged frames or more per trial, typical and worst case (RFC 8219 §7.2).
    #[serde(rename = "rfc8219")]
    Rfc8219,
}

/// Center and extremes of a figure over the repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub median: f64,
    /// The 1st percentile; the smallest value if there are fewer than 100.
    pub p1: f64,
    /// The 99th percentile; the largest value if there are fewer than 100.
    pub p99: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Standard deviation; absent for a single value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdev: Option<f64>,
    /// Number of repetitions.
    pub repetitions: u32,
}

/// Delays at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyPoint {
    /// The load in percent of the throughput.
    pub percent: f64,
    /// The load.
    pub load_pps: f64,
    /// RFC 2544: delay of the tagged frame, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<Spread>,
    /// RFC 8219: typical latency, the median of a trial, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical_ns: Option<Spread>,
    /// RFC 8219: worst-case latency, the 99.9th percentile of a trial, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_case_ns: Option<Spread>,
    /// Delays of each repetition.
    pub repetitions: Vec<Delays>,
    /// Repetitions that lost frames: their delays are those of a full buffer.
    pub lossy: u32,
}

/// Latency of one frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// How it was measured.
    pub mode: LatencyMode,
    /// The two events between which a delay is measured.
    pub definition: String,
    /// The load that is 100 %.
    pub throughput_pps: f64,
    /// One point per load.
    pub points: Vec<LatencyPoint>,
}

/// Delays at shares of one load, of one frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadedLatency {
    /// The load of 100 %.
    pub load_pps: f64,
    /// One per load, in the order in which they were measured.
    pub points: Vec<LoadedPoint>,
}

/// Delays and loss at one load, over all trials at it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadedPoint {
    /// The load in percent of the load of 100 %.
    pub percent: f64,
    /// Intended load.
    pub load_pps: f64,
    /// Offered load; 0 if the generator did not reach the intended load.
    pub offered_load_pps: f64,
    /// Forwarding rate.
    pub forwarding_rate_pps: f64,
    /// Frame loss ratio. With loss, the delays are those of a full buffer.
    pub frame_loss_ratio: f64,
    /// Typical latency (RFC 8219): the median of a trial, in nanoseconds. Absent if no timed frame
    /// came back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical_ns: Option<Spread>,
    /// Worst-case latency (RFC 8219): the 99.9th percentile of a trial, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_case_ns: Option<Spread>,
    /// Delays of each trial.
    pub repetitions: Vec<Delays>,
}

/// One point of the loss curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossPoint {
    /// The load in percent of the maximum rate.
    pub percent: f64,
    /// The load.
    pub load_pps: f64,
    /// Lost frames in percent of sent frames.
    pub loss_percent: f64,
    /// Forwarding rate in frames per second.
    pub forwarding_rate_pps: f64,
}

/// Frame loss rate of one frame size (RFC 2544 §26.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FrameLoss {
    /// The rate that is 100 %.
    pub max_load_pps: f64,
    /// From the highest load to the lowest.
    pub points: Vec<LossPoint>,
    /// The last two loads were without loss.
    pub ended_clean: bool,
    /// Forwarding rate at the highest load over the best at any load: below 0.9 the DUT forwards
    /// less in overload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collapse_ratio: Option<f64>,
}

/// Back-to-back frames of one frame size (RFC 9004).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackToBack {
    /// Rate within a burst: frames at minimum gap.
    pub line_rate_pps: f64,
    /// The throughput used in the calculation.
    pub throughput_pps: f64,
    /// The smallest load known to lose frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lossy_pps: Option<f64>,
    /// Longest burst without loss, in frames, over the repetitions; absent when the procedure does
    /// not apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_frames: Option<Spread>,
    /// Longest burst of each repetition.
    pub repetitions: Vec<u64>,
    /// The longest burst that was tried, in frames.
    pub limit_frames: u64,
    /// Duration of the mean burst, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub implied_time_s: Option<f64>,
    /// The duration without the frames that the DUT forwarded meanwhile: how long it can buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected_time_s: Option<f64>,
    /// Buffer size in frames, calculated with the measured throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_frames: Option<f64>,
    /// Lower bound of the buffer size, from the uncertainty of throughput and burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_min_frames: Option<f64>,
    /// Upper bound of the buffer size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_max_frames: Option<f64>,
}

/// System recovery of one frame size (RFC 2544 §26.5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recovery {
    /// Load during the overload.
    pub overload_pps: f64,
    /// Load after the overload.
    pub rest_pps: f64,
    /// Time from the end of the overload to the last lost frame, in seconds; absent when the
    /// procedure does not apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_s: Option<Spread>,
    /// The time of each repetition.
    pub repetitions_s: Vec<f64>,
    /// Time resolution, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_s: Option<f64>,
}

/// Reset (RFC 6201).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reset {
    /// What was reset, and how.
    pub what: String,
    /// The load during the reset.
    pub load_pps: f64,
    /// Reset time from lost frames, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_loss_s: Option<Spread>,
    /// Reset time from the arrival of the last frame before and the first frame after the reset, in
    /// seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_timestamp_s: Option<Spread>,
    /// Reset times of each repetition: from lost frames, and from arrival times if the DUT came
    /// back.
    pub repetitions_s: Vec<(f64, Option<f64>)>,
    /// Time resolution, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_s: Option<f64>,
}

/// The cost of an event under load: tables rewritten, a session cleared, rules reloaded (terms of
/// RFC 6412).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Churn {
    /// The event.
    pub event: String,
    /// The load during the event.
    pub load_pps: f64,
    /// A rate below this share of the rate before the event is a dip.
    pub share: f64,
    /// Length of an interval, and therefore the time resolution, in seconds.
    pub resolution_s: f64,
    /// The rate before the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_pps: Option<Spread>,
    /// Missing forwarding until the rate was regained, expressed as seconds of that rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deficit_s: Option<Spread>,
    /// One dip per repetition.
    pub dips: Vec<Dip>,
    /// The first repetition over time, around the event; `at_ns` counts from the start of its
    /// trial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Interval>,
    /// Time of the event in these samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_at_s: Option<f64>,
}

/// The effect of one event. Times are seconds after the start of the event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Dip {
    /// Median forwarding rate before the event.
    pub base_pps: f64,
    /// Share of the intervals before the event that were below the threshold: dips without a cause.
    pub before_ratio: f64,
    /// Share of the intervals after the event in which the tester sent less than before. Frames
    /// that it did not send do not count as missing.
    pub fell_short_ratio: f64,
    /// Time of the first interval below the threshold; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_impact_s: Option<f64>,
    /// Time from which the rate stayed at its previous level; absent when this was not observed,
    /// 0 when it never dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regained_s: Option<f64>,
    /// The largest missing share of the rate in any interval.
    pub depth: f64,
    /// Total time without any forwarding, in seconds.
    pub blackout_s: f64,
    /// Missing forwarding until the rate was regained, expressed as seconds of the rate before.
    pub deficit_s: f64,
    /// The deficit in frames; absent in runs of versions that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deficit_frames: Option<f64>,
    /// Lost frames over the offered load (loss-derived, RFC 6412); absent when frames were lost
    /// before the event, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_loss_s: Option<f64>,
    /// Moments reported by the event itself, such as by the DUT's log, to compare with the frames.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<Moment>,
}

/// Energy of the DUT's host, idle and under loads (docs/methodology.md, "Energy and cycles").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Energy {
    /// One entry per meter. A meter may include another.
    pub meters: Vec<Meter>,
    /// Every load, from the smallest to overload.
    pub points: Vec<EnergyPoint>,
}

/// The readings of one power meter of the DUT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Meter {
    /// Name of the meter.
    pub name: String,
    /// Power without load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_watts: Option<f64>,
    /// Power at the highest forwarding rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_watts: Option<f64>,
    /// Power at the highest forwarding rate, over that rate: includes idle power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joules_per_frame: Option<f64>,
    /// Power added by forwarding, over the forwarding rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marginal_joules_per_frame: Option<f64>,
    /// How closely power follows load: 1 if idling costs nothing, 0 if it costs as much as full
    /// load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proportionality: Option<f64>,
}

/// Power at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnergyPoint {
    /// The load as a share of the forwarding rate in overload; absent for overload itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Intended load.
    pub intended_load_pps: f64,
    /// Offered load.
    pub offered_load_pps: f64,
    /// Forwarding rate.
    pub forwarding_rate_pps: f64,
    /// Mean power in watts, by meter.
    pub watts: BTreeMap<String, f64>,
}

/// Maximum receive rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mrr {
    /// The largest load.
    pub load_pps: f64,
    /// Receive rates over the trials, in frames per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_rate_pps: Option<Spread>,
    /// Receive rate of each trial.
    pub trials_pps: Vec<f64>,
    /// Nearly all offered frames came back: the DUT may forward more.
    #[serde(default)]
    pub tester_bound: bool,
}

/// The result of one load for a long time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Soak {
    /// The load.
    pub load_pps: f64,
    /// Duration, in seconds.
    pub duration_s: f64,
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames lost.
    pub frames_lost: i64,
    /// Lost over sent frames.
    pub loss_ratio: f64,
    /// The highest loss ratio that passes.
    pub loss_ratio_goal: f64,
    /// Longest period without loss, in seconds.
    pub longest_lossless_s: f64,
    /// Number of periods with loss: consecutive lossy samples.
    pub loss_bursts: u32,
    /// The longest period with loss, in seconds.
    pub longest_burst_s: f64,
    /// Trend of the forwarding rate, in frames per second per hour (Theil-Sen).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trend_pps_per_hour: Option<f64>,
    /// Its 95 % confidence interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trend_interval_pps_per_hour: Option<(f64, f64)>,
    /// Loss met its goal, and no trend was proven.
    pub passed: bool,
    /// Counts over time.
    pub samples: Vec<Interval>,
}

/// The estimate of a critical load at one point of the search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// Total duration of the trials so far, in seconds.
    pub at_s: f64,
    /// Load of the last trial.
    pub load_pps: f64,
    /// Frames that it lost over frames that were due.
    pub loss_ratio: f64,
    /// The estimate with the stretch function.
    pub stretch_pps: f64,
    /// The estimate with the erf function.
    pub erf_pps: f64,
}

/// The load whose average loss is a given ratio (PLRsearch).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CriticalLoad {
    /// The target loss ratio.
    pub loss_ratio: f64,
    /// Smallest load that was offered.
    pub min_load_pps: f64,
    /// Largest load that was offered.
    pub max_load_pps: f64,
    /// The critical load: the median of its estimated distribution. Absent until there was a trial
    /// with loss and one without, and when no model fits. If no frame was lost, it is the largest
    /// load that was offered for long enough, which is a lower bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical_load_pps: Option<f64>,
    /// Standard deviation of the natural logarithm of the critical load, over all models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// Lower bound: the critical load exceeds it with a probability of 97.5 %. Absent when such a
    /// load need not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_pps: Option<f64>,
    /// Upper bound: the critical load is below it with a probability of 97.5 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_pps: Option<f64>,
    /// Probability that the DUT's capacity varies between trials, and not only within them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between_trials: Option<f64>,
    /// The estimates over time.
    pub estimates: Vec<Estimate>,
}

/// One iteration of an equilibrium search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EquilibriumStep {
    /// Offered load.
    pub load_pps: f64,
    /// Step to the next load.
    pub step_pps: f64,
    /// Forwarding rate.
    pub forwarding_rate_pps: f64,
}

/// The load at which the DUT forwards all that is offered, as labs of the BSD Router Project
/// measure it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Equilibrium {
    /// Rate of the link, or the largest load.
    pub max_load_pps: f64,
    /// Relative differences up to this count as equal.
    pub tolerance: f64,
    /// The last measured rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equilibrium_pps: Option<f64>,
    /// The largest measured rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_seen_pps: Option<f64>,
    /// Every iteration.
    pub steps: Vec<EquilibriumStep>,
}

/// How the cost depends on the parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "shape")]
pub enum Cost {
    /// No measurable cost.
    Constant {
        /// Time per frame, in nanoseconds.
        frame_ns: f64,
    },
    /// Every unit of the parameter costs the same.
    Linear {
        /// Time per frame at zero units, in nanoseconds.
        frame_ns: f64,
        /// Time per unit, in nanoseconds.
        unit_ns: f64,
        /// Its 95 % confidence interval.
        unit_ns_interval: (f64, f64),
    },
    /// Every doubling costs the same.
    Logarithmic {
        /// Time per frame at one unit, in nanoseconds.
        frame_ns: f64,
        /// Time per doubling, in nanoseconds.
        doubling_ns: f64,
        /// Its 95 % confidence interval.
        doubling_ns_interval: (f64, f64),
    },
    /// No cost up to a value, and a high cost from the next value on.
    Cliff {
        /// Time per frame up to that value, in nanoseconds.
        frame_ns: f64,
        /// Time per frame beyond it, in nanoseconds.
        beyond_ns: f64,
        /// The last value without the cost.
        last_before: u64,
        /// The first value with the cost.
        first_after: u64,
    },
    /// None of these shapes fits the points: each range of values has its own slope.
    Stretches {
        /// Time per frame at the smallest value, in nanoseconds.
        frame_ns: f64,
        /// The ranges, ordered by value; each starts where the previous one ends.
        stretches: Vec<Stretch>,
    },
}

/// Cost per unit between two values of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stretch {
    /// The smaller value.
    pub from: u64,
    /// The larger value.
    pub to: u64,
    /// Time per unit, in nanoseconds.
    pub unit_ns: f64,
    /// Its 95 % confidence interval.
    pub unit_ns_interval: (f64, f64),
}

/// One value of the swept parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPoint {
    /// The value.
    pub value: u64,
    /// Frames per second, one per run.
    pub runs_pps: Vec<f64>,
    /// Median of the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_pps: Option<f64>,
    /// 95 % confidence interval of the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_pps: Option<(f64, f64)>,
    /// The median in percent of the reference's median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent_of_reference: Option<f64>,
}

/// A procedure repeated for each value of a parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sweep {
    /// The swept parameter: `rules`, `table entries`, `flows`.
    pub parameter: String,
    /// The procedure run at each value.
    pub inner: String,
    /// One point per value, the reference first.
    pub points: Vec<SweepPoint>,
    /// The reference over time, in frames per second: if it drifts, the machine drifts.
    pub reference_pps: Vec<f64>,
    /// The cost; absent with fewer than three values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// The parameter of sweeps in which more is meant to increase the rate: a cost per unit makes no
/// sense there.
const CORES: &str = "cores";

impl CriticalLoad {
    /// Returns true if it is only a lower bound, because no frame was lost.
    pub fn is_tester_bound(&self) -> bool {
        self.critical_load_pps.is_some() && self.upper_pps.is_none()
    }
}

impl Sweep {
    /// Returns true for a sweep over resources of the DUT, which is judged by its speed-up.
    pub fn is_resource_sweep(parameter: &str) -> bool {
        parameter == CORES
    }

    /// Returns the cost per unit, if the swept parameter has one.
    pub fn cost(&self) -> Option<&Cost> {
        let is_cost = !Sweep::is_resource_sweep(&self.parameter);
        self.cost.as_ref().filter(|_| is_cost)
    }

    /// Returns the speed-up over one core, and its efficiency in percent of a linear one. The speed
    /// of one core is derived from the reference. `None` for other sweeps.
    pub fn speed_up(&self, point: &SweepPoint) -> Option<(f64, f64)> {
        if !Sweep::is_resource_sweep(&self.parameter) {
            return None;
        }
        let reference = self.points.first()?;
        let one = reference.median_pps? / reference.value as f64;
        let speed_up = point.median_pps? / one;
        let efficiency = 100.0 * speed_up / point.value as f64;
        efficiency.is_finite().then_some((speed_up, efficiency))
    }
}

/// The result of a single trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SingleTrial {
    /// Intended load.
    pub intended_load_pps: f64,
    /// Offered load.
    pub offered_load_pps: f64,
    /// Forwarding rate in frames per second.
    pub forwarding_rate_pps: f64,
    /// Lost over sent frames.
    pub frame_loss_ratio: f64,
    /// With two directions, the counts of each. The rates above are of the direction that lost
    /// more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<DirectionCounts>,
    /// Duration, in seconds.
    pub duration_s: f64,
    /// Delays, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays: Option<Delays>,
    /// Counts over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Interval>,
}

/// The smallest gap between bursts without loss (RFC 2544 §21).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BurstGaps {
    /// Frames per second within a burst.
    pub rate_pps: f64,
    /// One entry per burst length.
    pub bursts: Vec<BurstGap>,
}

/// Bursts of one length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BurstGap {
    /// Frames per burst.
    pub frames: u32,
    /// Smallest gap without loss between the last frame of a burst and the first frame of the next,
    /// in seconds; absent when frames were lost at every gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_s: Option<f64>,
    /// Largest gap with loss, in seconds; absent when bursts need no gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lossy_gap_s: Option<f64>,
    /// The average load at the smallest gap without loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_pps: Option<f64>,
}

/// The forwarding rate in overload (RFC 2285 §3.6.2), from the samples of one long trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForwardingRate {
    /// Intended load.
    pub load_pps: f64,
    /// Median offered load of the used samples; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_load_pps: Option<f64>,
    /// Forwarding rate of the used samples; its median is the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_pps: Option<Spread>,
    /// Coefficient of variation of the used samples, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation_percent: Option<f64>,
    /// The offered load was less than 1.1 times the forwarding rate: the DUT may forward more.
    pub not_saturated: bool,
    /// A lower load, slightly above the forwarding rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_load_pps: Option<f64>,
    /// Forwarding rate at the lower load. If it exceeds that in overload, the DUT livelocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_forwarding_rate_pps: Option<f64>,
    /// All samples, including those at both ends.
    pub samples: Vec<Interval>,
}

/// A figure that represents a result, with its unit; compared over iterations.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its name: `throughput`, `ndr`, `cost of one of rules`.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// The direction in which it improves.
    pub better: Better,
    /// Its value.
    pub value: f64,
}

/// The figure of [`Maxfwd`], and of other results that contain the forwarding rate.
pub const FORWARDING_RATE: &str = "forwarding rate";

/// Name of the figure of instructions per frame.
pub const INSTRUCTIONS: &str = "instructions per frame";

/// The direction in which a figure improves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Higher is better: rates, and buffer sizes.
    #[default]
    Higher,
    /// Lower is better: delays, losses, costs.
    Lower,
}

/// Units of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Unit {
    /// Frames per second.
    #[serde(rename = "frames/s")]
    FramesPerSecond,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Nanoseconds per frame of additional cost, which may be zero or negative.
    #[serde(rename = "ns/frame")]
    Cost,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Frames.
    #[serde(rename = "frames")]
    Frames,
    /// Percent.
    #[serde(rename = "%")]
    Percent,
    /// Joules per frame.
    #[serde(rename = "J/frame")]
    Joules,
    /// Instructions per frame.
    #[serde(rename = "instructions/frame")]
    Instructions,
}

impl Unit {
    /// Returns the symbol behind values in comparisons.
    pub fn symbol(self) -> &'static str {
        match self {
            Unit::FramesPerSecond => "pps",
            Unit::Nanoseconds | Unit::Cost => "ns",
            Unit::Seconds => "s",
            Unit::Frames => "frames",
            Unit::Percent => "%",
            Unit::Joules => "J/frame",
            Unit::Instructions => "instructions/frame",
        }
    }

    /// Returns whether more or less of this unit is usually better. Percentages are usually shares
    /// of lost frames.
    pub fn better(self) -> Better {
        match self {
            Unit::FramesPerSecond | Unit::Frames => Better::Higher,
            Unit::Nanoseconds
            | Unit::Cost
            | Unit::Seconds
            | Unit::Joules
            | Unit::Instructions
            | Unit::Percent => Better::Lower,
        }
    }
}

/// The text for a DUT from which nothing comes back at an offered load, in verdicts, tables and
/// comparisons.
pub const FORWARDS_NOTHING: &str = "overloaded: forwards nothing at this load";

/// The beginning of a verdict that is only the reason why there is no result.
pub const NO_RESULT: &str = "no result: ";

impl Outcome {
    /// Returns true if it failed. An outcome without a result has not failed if the question does
    /// not apply.
    pub fn fails(&self) -> bool {
        !self.answered && !self.not_applicable
    }

    /// Returns the figures of this outcome; none if there is no result, or nothing came back.
    pub fn figures(&self) -> Vec<Figure> {
        use Unit::{Frames, FramesPerSecond, Nanoseconds, Percent, Seconds};
        if !self.answered || self.found.forwards_nothing() {
            return Vec::new();
        }
        let figure = |name: &str, unit: Unit, value: Option<f64>| {
            value.map(|value| Figure {
                name: name.to_owned(),
                unit,
                better: unit.better(),
                value,
            })
        };
        // in percent of a reference
        let gain = |name: &str, value| {
            figure(name, Percent, value).map(|figure| Figure {
                better: Better::Higher,
                ..figure
            })
        };
        let one = |name, unit, value| figure(name, unit, value).into_iter().collect();
        match &self.found {
            Found::Latency(found) => {
                let spread = |point: &LatencyPoint| match found.mode {
                    LatencyMode::Rfc2544 => point.latency_ns.map(|s| s.mean),
                    LatencyMode::Rfc8219 => point.typical_ns.map(|s| s.median),
                };
                let points = found.points.iter().filter_map(|point| {
                    let name = format!("latency at {} %", point.percent);
                    figure(&name, Nanoseconds, spread(point))
                });
                points.collect()
            }
            Found::FrameLoss(found) => {
                // losses at different loads are figures with different names
                let first = found.points.first().and_then(|point| {
                    let name = format!("frame loss at {} %", point.percent);
                    figure(&name, Percent, Some(point.loss_percent))
                });
                first.into_iter().collect()
            }
            Found::BackToBack(found) => one("burst", Frames, found.burst_frames.map(|s| s.mean)),
            Found::Recovery(found) => one("recovery", Seconds, found.recovery_s.map(|s| s.mean)),
            Found::Reset(found) => {
                let time = found.by_timestamp_s.or(found.by_loss_s);
                one("reset", Seconds, time.map(|s| s.mean))
            }
            Found::Churn(found) => one(
                "deficit of an event",
                Seconds,
                found.deficit_s.map(|s| s.median),
            ),
            Found::Energy(found) => {
                let meters = found.meters.iter().filter_map(|meter| {
                    let name = format!("energy by {}", meter.name);
                    figure(&name, Unit::Joules, meter.joules_per_frame)
                });
                meters.collect()
            }
            Found::Management(found) => {
                let of = |one: &Responsiveness| {
                    let flood = one.at.last()?;
                    let missing = format!("{} in the flood, without an answer", one.request);
                    let median = format!("{} in the flood, round trip", one.request);
                    Some([
                        figure(&missing, Percent, Some(100.0 * flood.missing_ratio())),
                        figure(&median, Seconds, flood.round_trip_s.map(|s| s.median)),
                    ])
                };
                found
                    .requests
                    .iter()
                    .filter_map(of)
                    .flatten()
                    .flatten()
                    .collect()
            }
            Found::Bursts(found) => {
                let bursts = found.bursts.iter().filter_map(|burst| {
                    let name = format!("gap between bursts of {}", burst.frames);
                    figure(&name, Seconds, burst.gap_s)
                });
                bursts.collect()
            }
            Found::Soak(found) => one("frame loss", Percent, Some(100.0 * found.loss_ratio)),
            Found::LoadedLatency(found) => {
                let points = found.points.iter().filter_map(|point| {
                    let name = format!("latency at {} % of the load", point.percent);
                    figure(&name, Nanoseconds, point.typical_ns.map(|s| s.median))
                });
                points.collect()
            }
            Found::Mlrsearch(found) => found.figures(),
            Found::Sweep(found) => {
                let reference = found.points.first().and_then(|point| point.median_pps);
                let at = found.points.first().map_or(0, |point| point.value);
                let rate = format!("{} at {at} {}", found.inner, found.parameter);
                let (name, cost) = match found.cost() {
                    Some(Cost::Linear { unit_ns, .. }) => ("cost of one", *unit_ns),
                    Some(Cost::Logarithmic { doubling_ns, .. }) => {
                        ("cost of a doubling", *doubling_ns)
                    }
                    Some(Cost::Cliff {
                        frame_ns,
                        beyond_ns,
                        ..
                    }) => ("cost of the cliff", beyond_ns - frame_ns),
                    Some(Cost::Constant { .. }) => ("cost of one", 0.0),
                    Some(Cost::Stretches { .. }) | None => ("", f64::NAN),
                };
                let name = format!("{}, {name}", found.parameter);
                let cost = Some(cost).filter(|cost| cost.is_finite());
                let most = found.points.iter().max_by_key(|point| point.value);
                let efficiency = most.and_then(|point| {
                    let name = format!("efficiency of {} {}", point.value, found.parameter);
                    gain(&name, Some(found.speed_up(point)?.1))
                });
                [
                    efficiency,
                    figure(&name, Unit::Cost, cost),
                    figure(&rate, FramesPerSecond, reference),
                ]
                .into_iter()
                .flatten()
                .collect()
            }
            Found::Paired(found) => {
                let differences = found.points.iter().filter_map(|point| {
                    let name = match (&found.parameter, point.value) {
                        (Some(parameter), Some(value)) => {
                            format!("difference at {parameter} {value}")
                        }
                        _ => "difference".into(),
                    };
                    gain(&name, point.comparison.difference_percent)
                });
                let slope = found.slope.as_ref().and_then(|slope| {
                    let parameter = found.parameter.as_deref().unwrap_or_default();
                    let name = format!("{parameter}, cost of one");
                    figure(&name, Unit::Cost, Some(slope.unit_ns))
                });
                slope.into_iter().chain(differences).collect()
            }
            Found::Exact(found) => one(
                INSTRUCTIONS,
                Unit::Instructions,
                Some(found.instructions_per_frame),
            ),
            found => {
                let name = match found {
                    Found::Ramp(_) => "loss begins",
                    Found::Plr(_) => "critical load",
                    Found::Mrr(_) => "receive rate",
                    Found::Trial(_) | Found::ForwardingRate(_) | Found::Maxfwd(_) => {
                        FORWARDING_RATE
                    }
                    other => other.procedure(),
                };
                one(name, FramesPerSecond, found.rate_pps())
            }
        }
    }
}

macro_rules! results {
    ($($id:literal: $variant:ident($result:ident),)*) => {
        impl Found {
            fn named(&self) -> (&'static str, &dyn Any) {
                match self {
                    $(Found::$variant(found) => ($id, Borrow::<$result>::borrow(found)),)*
                }
            }
        }

        $(impl From<$result> for Found {
            fn from(found: $result) -> Found {
                Found::$variant(found.into())
            }
        })*
    };
}

results! {
    "ramp": Ramp(Ramp),
    "throughput": Throughput(Throughput),
    "latency": Latency(Latency),
    "frame-loss": FrameLoss(FrameLoss),
    "back-to-back": BackToBack(BackToBack),
    "recovery": Recovery(Recovery),
    "reset": Reset(Reset),
    "churn": Churn(Churn),
    "energy": Energy(Energy),
    "management": Management(Management),
    "bursts": Bursts(BurstGaps),
    "mrr": Mrr(Mrr),
    "soak": Soak(Soak),
    "loaded-latency": LoadedLatency(LoadedLatency),
    "plr": Plr(CriticalLoad),
    "equilibrium": Equilibrium(Equilibrium),
    "sweep": Sweep(Sweep),
    "trial": Trial(SingleTrial),
    "forwarding-rate": ForwardingRate(ForwardingRate),
    "mlrsearch": Mlrsearch(SearchOutcome),
    "maxfwd": Maxfwd(Maxfwd),
    "paired": Paired(Paired),
    "exact": Exact(Exact),
}

impl Found {
    /// Returns the id of the procedure in records.
    pub fn procedure(&self) -> &'static str {
        self.named().0
    }

    /// Returns the result if it is of this type, that of one procedure.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.named().1.downcast_ref()
    }

    /// Returns true if the rate is a lower bound: the tester's limit rather than the DUT's.
    pub fn is_tester_bound(&self) -> bool {
        match self {
            Found::Ramp(found) => found.tester_bound,
            Found::Throughput(found) => found.tester_bound,
            Found::Mrr(found) => found.tester_bound,
            Found::Maxfwd(found) => found.not_saturated,
            Found::ForwardingRate(found) => found.not_saturated,
            Found::Mlrsearch(found) => found.goals.iter().any(|goal| goal.tester_bound),
            Found::Plr(found) => found.is_tester_bound(),
            Found::Equilibrium(found) => found
                .equilibrium_pps
                .is_some_and(|pps| pps >= (1.0 - found.tolerance) * found.max_load_pps),
            _ => false,
        }
    }

    /// Returns true if a load was offered, and nothing of it came back. Then there is no rate, and
    /// [`FORWARDS_NOTHING`] takes its place.
    pub fn forwards_nothing(&self) -> bool {
        let nothing_of = |samples: &[Interval]| {
            samples.iter().any(|one| one.frames_sent > 0)
                && samples.iter().all(|one| one.frames_received == 0)
        };
        match self {
            Found::Mrr(found) => found.receive_rate_pps.is_some_and(|rate| rate.max == 0.0),
            Found::ForwardingRate(found) => nothing_of(&found.samples),
            Found::Ramp(found) => nothing_of(&found.samples),
            Found::Trial(found) => found.offered_load_pps > 0.0 && found.forwarding_rate_pps == 0.0,
            Found::FrameLoss(found) => {
                let mut points = found.points.iter();
                !found.points.is_empty() && points.all(|one| one.forwarding_rate_pps == 0.0)
            }
            Found::Equilibrium(found) => found.max_seen_pps == Some(0.0),
            _ => false,
        }
    }

    /// Returns the one rate that represents the result, if there is one: what a sweep compares.
    pub fn rate_pps(&self) -> Option<f64> {
        match self {
            Found::Ramp(found) => found.up.saturation_pps,
            Found::Throughput(found) => found.throughput_pps,
            Found::Mrr(found) => found.receive_rate_pps.map(|rate| rate.mean),
            Found::Plr(found) => found.critical_load_pps,
            Found::Equilibrium(found) => found.equilibrium_pps,
            Found::Trial(found) => Some(found.forwarding_rate_pps),
            Found::ForwardingRate(found) => found.forwarding_rate_pps.map(|rate| rate.median),
            Found::Mlrsearch(found) => found.goals.first()?.relevant_lower_bound_pps,
            Found::Maxfwd(found) => found.forwarding_rate_pps,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ramp of small steps: gaps of up to 2 % of the load are acceptable.
    #[test]
    fn a_gap_hides_where_loss_begins() {
        let edge = |between: f64| Edge {
            saturation_pps: Some(1e6),
            resolution_pps: between,
            lower_pps: None,
            upper_pps: None,
            at_s: None,
            from_s: None,
            until_s: None,
            reason: String::new(),
        };
        assert_eq!(edge(19_000.0).gap(2_000.0), None);
        assert_eq!(edge(21_000.0).gap(2_000.0), Some(1_021_000.0));
        // steps that coarse were requested
        assert_eq!(edge(60_000.0).gap(20_000.0), None);
    }
}
