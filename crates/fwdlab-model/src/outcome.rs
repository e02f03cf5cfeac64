//! Results of procedures: one [`Outcome`] per procedure, with a verdict as text and the conditions
//! of the measurement.
//!
//! `measure` computes the figures. The names of figures contain their unit; missing values are
//! absent. Start with [`Outcome`], whose [`Found`] differs for every procedure.

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

/// The standard that a procedure follows, and in which points it did not: the standard's name may be printed alone only
/// when every one of its conditions was met.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compliance {
    /// Such as `RFC 2544 §26.1 throughput`; empty for a procedure of no standard.
    pub standard: String,
    /// Conditions that were not met, in words.
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

/// What a procedure found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Size of the frames, FCS counted; of a profile their mean, rounded.
    pub frame_size_bytes: FrameSize,
    /// What differs from a plain series.
    #[serde(default, skip_serializing_if = "Variant::is_plain")]
    pub variant: Variant,
    /// What was found, by procedure.
    #[serde(flatten)]
    pub found: Found,
    /// The same in words.
    pub verdict: String,
    /// There is an answer: the procedure came to its end, and its conditions held.
    pub answered: bool,
    /// The question cannot be asked of this DUT: that there is no answer is no failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_applicable: bool,
    /// The standard behind it.
    pub compliance: Compliance,
    /// What makes a reader doubt it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Valid trials.
    pub trials: u32,
}

/// What was found, by procedure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "procedure", content = "found", rename_all = "kebab-case")]
pub enum Found {
    /// A rising load and what came out.
    Ramp(Ramp),
    /// The largest load without loss.
    Throughput(Throughput),
    /// Delays at some loads.
    Latency(Latency),
    /// Loss over load.
    FrameLoss(FrameLoss),
    /// The longest burst without loss.
    BackToBack(BackToBack),
    /// Time until losses end after overload.
    Recovery(Recovery),
    /// Time without forwarding after a reset.
    Reset(Reset),
    /// What an event under load costs.
    Churn(Churn),
    /// What the DUT takes of energy.
    Energy(Energy),
    /// What the management of a flooded DUT answers.
    Management(Management),
    /// How close bursts may follow each other.
    Bursts(BurstGaps),
    /// What comes out at the largest load.
    Mrr(Mrr),
    /// One load for long.
    Soak(Soak),
    /// Delays at shares of one load.
    LoadedLatency(LoadedLatency),
    /// The load whose average loss is a given share.
    Plr(CriticalLoad),
    /// The load at which what goes in is what comes out.
    Equilibrium(Equilibrium),
    /// A procedure over the values of a parameter.
    Sweep(Sweep),
    /// One trial and nothing more.
    Trial(SingleTrial),
    /// What comes out in overload.
    ForwardingRate(ForwardingRate),
    /// Loads that meet goals.
    Mlrsearch(SearchOutcome),
    /// What comes out in overload, by quiet windows.
    Maxfwd(Box<Maxfwd>),
    /// What configurations cost beside a reference DUT.
    Paired(Paired),
    /// What a frame costs in instructions.
    Exact(Box<Exact>),
}

/// The forwarding rate of quiet windows: of one trial, or of all iterations together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Maxfwd {
    /// Median forwarding rate of the quiet windows; absent when they were too few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_pps: Option<f64>,
    /// The same of all windows that were offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_ungated_pps: Option<f64>,
    /// Coefficient of variation of that over iterations, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation_ungated_percent: Option<f64>,
    /// What was offered in the windows that count: never below the forwarding rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_load_pps: Option<f64>,
    /// Offered less than 1.1 times what was forwarded: the DUT may forward more.
    #[serde(default)]
    pub not_saturated: bool,
    /// Lost over sent, whole trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_loss_ratio: Option<f64>,
    /// What became of every frame.
    #[serde(flatten)]
    pub ledger: Ledger,
    /// Quiet windows, which count.
    pub quiet: Stratum,
    /// Windows beside which the DUT's CPU was contended.
    pub contended: Stratum,
    /// Windows in another state of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<ApartStratum>,
    /// Windows in which the load was not offered.
    pub windows_not_offered: u32,
}

impl Maxfwd {
    /// Returns the number of windows in all strata.
    pub fn windows(&self) -> u32 {
        let apart = ApartStratum::windows(&self.apart);
        self.quiet.windows + self.contended.windows + apart + self.windows_not_offered
    }
}

/// What a configuration costs beside a reference DUT, by slices of traffic in turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Paired {
    /// The configuration of the reference DUT.
    pub reference: String,
    /// What was swept; absent without a sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// One per value of what was swept; one without a sweep.
    pub points: Vec<PairedPoint>,
    /// What a unit of the parameter costs; absent without a sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slope: Option<Slope>,
}

/// A configuration, at one value of what was swept, beside the reference DUT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairedPoint {
    /// The value; absent without a sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// The difference from the reference DUT; of one iteration, or of all.
    pub comparison: Comparison,
    /// Time per frame more than the reference DUT takes, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_ns: Option<f64>,
    /// Its 95 % confidence interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_interval_ns: Option<[f64; 2]>,
}

/// A line through the points: time per frame over the value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slope {
    /// Time per frame of the reference DUT, in nanoseconds: the costs here are shares of it times this.
    pub frame_ns: f64,
    /// What one unit costs, in nanoseconds.
    pub unit_ns: f64,
    /// Its 95 % confidence interval over iterations; absent below three.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_ns_interval: Option<[f64; 2]>,
    /// What the line costs at no unit: what comes with the first.
    pub fixed_ns: f64,
    /// The slope of each iteration, in percent of the reference DUT's time per frame.
    pub iterations_percent: Vec<f64>,
}

/// Whose rate a loss threshold ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Edge {
    /// Largest load within the threshold, as offered, in frames per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturation_pps: Option<f64>,
    /// Change of the load between two samples.
    pub resolution_pps: f64,
    /// The DUT forwards so much at least: the most that came out in a sample within the threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_pps: Option<f64>,
    /// And less than this, the largest load of the first sample with lasting loss; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_pps: Option<f64>,
    /// Begin of the first sample with lasting loss, in seconds since the trial began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_s: Option<f64>,
    /// The load passed what the DUT forwards at this moment or later; frames are lost from there on, or once the buffer is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_s: Option<f64>,
    /// And at this moment or earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_s: Option<f64>,
    /// Why it ends there, in words.
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

/// A ramp.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ramp {
    /// Load at the end of the ramp.
    pub target_pps: f64,
    /// Loss ratio from which on a second counts as lossy.
    pub loss_threshold: f64,
    /// Where the loss began, on the way up.
    pub up: Edge,
    /// Where it ended, on the way down, when there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Edge>,
    /// The largest forwarding rate without lasting loss, by the rule of the public viewer of TRex load tests.
    pub max_ok_pps: f64,
    /// The largest forwarding rate of any second.
    pub max_forwarding_rate_pps: f64,
    /// The largest share of the line rate that came back in any second, in percent, at most 100; absent where there is no link speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_line_percent: Option<f64>,
    /// Median forwarding rate at the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_forwarding_rate_pps: Option<f64>,
    /// The last over the one before it: below 0.9 the DUT forwards less in overload (livelock).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collapse_ratio: Option<f64>,
    /// Loss begins so near to the largest load that was offered, or not at all, that the DUT may do more.
    #[serde(default)]
    pub tester_bound: bool,
    /// Every second; of both directions, of the one that lost more.
    pub samples: Vec<Interval>,
    /// Of both directions: each on its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<DirectionCounts>,
}

/// RFC 2544 throughput of one frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// Frames per second of a full link; absent where there is no link speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_rate_pps: Option<f64>,
    /// The largest load that was searched.
    pub max_load_pps: f64,
    /// Highest load without a lost frame, confirmed; absent when none was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_pps: Option<f64>,
    /// The same in percent of the line rate, or of the largest load where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
    /// The same in bit/s of frames with FCS (layer 2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_bps: Option<f64>,
    /// Smallest load with a lost frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lossy_pps: Option<f64>,
    /// The search ended when the two were no farther apart.
    pub resolution_pps: f64,
    /// How often the confirmation failed.
    pub confirmations_failed: u32,
    /// The tester's limit came first.
    pub tester_bound: bool,
}

/// How delays were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LatencyMode {
    /// One tagged frame per trial, mean of the trials (RFC 2544 §26.2).
    #[serde(rename = "rfc2544")]
    Rfc2544,
    /// 500 tagged frames or more per trial, typical and worst case (RFC 8219 §7.2).
    #[serde(rename = "rfc8219")]
    Rfc8219,
}

/// Middle and ends of a figure over the repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub median: f64,
    /// The 1st percentile; of fewer than 100 values the smallest.
    pub p1: f64,
    /// The 99th percentile; of fewer than 100 values the largest.
    pub p99: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Standard deviation; absent for one value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdev: Option<f64>,
    /// How many.
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
    /// Repetitions that lost frames: their delays are those of a full buffer, not of the DUT.
    pub lossy: u32,
}

/// Latency of one frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// How it was measured.
    pub mode: LatencyMode,
    /// From what to what a delay counts.
    pub definition: String,
    /// The load of 100 %.
    pub throughput_pps: f64,
    /// One per load.
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
    /// Typical latency (RFC 8219): the median of a trial, in nanoseconds. Absent if no timed frame came back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical_ns: Option<Spread>,
    /// Worst-case latency (RFC 8219): the 99.9th percentile of a trial, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_case_ns: Option<Spread>,
    /// Delays of each trial.
    pub repetitions: Vec<Delays>,
}

/// A point of the loss curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossPoint {
    /// The load in percent of the maximum rate.
    pub percent: f64,
    /// The load.
    pub load_pps: f64,
    /// Lost frames in percent of those sent.
    pub loss_percent: f64,
    /// Frames per second that came back.
    pub forwarding_rate_pps: f64,
}

/// Frame loss rate of one frame size (RFC 2544 §26.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FrameLoss {
    /// The rate of 100 %.
    pub max_load_pps: f64,
    /// From the highest load down.
    pub points: Vec<LossPoint>,
    /// The last two loads lost nothing.
    pub ended_clean: bool,
    /// Forwarding rate at the highest load over the best of any load: below 0.9 the DUT forwards less in overload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collapse_ratio: Option<f64>,
}

/// Back-to-back frames of one frame size (RFC 9004).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackToBack {
    /// Rate within a burst: frames at minimum gap.
    pub line_rate_pps: f64,
    /// The throughput that it rests on.
    pub throughput_pps: f64,
    /// The smallest load known to lose frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lossy_pps: Option<f64>,
    /// Longest burst without loss, in frames, over the repetitions; absent when it does not apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_frames: Option<Spread>,
    /// Longest burst of each repetition.
    pub repetitions: Vec<u64>,
    /// Bursts of so many frames were tried at most.
    pub limit_frames: u64,
    /// Length of the mean burst in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub implied_time_s: Option<f64>,
    /// The same without what the DUT forwarded meanwhile: the time for which it can buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected_time_s: Option<f64>,
    /// Size of the buffer in frames, with the throughput as it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_frames: Option<f64>,
    /// The smallest that it can be, as far as the throughput and the burst are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_min_frames: Option<f64>,
    /// The largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_max_frames: Option<f64>,
}

/// System recovery of one frame size (RFC 2544 §26.5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recovery {
    /// Load of the overload.
    pub overload_pps: f64,
    /// Load after it.
    pub rest_pps: f64,
    /// Time from the end of the overload to the last lost frame, in seconds; absent when it does not apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_s: Option<Spread>,
    /// Of each repetition.
    pub repetitions_s: Vec<f64>,
    /// How exactly moments were known, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_s: Option<f64>,
}

/// Reset (RFC 6201).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reset {
    /// What was reset, and how.
    pub what: String,
    /// The load meanwhile.
    pub load_pps: f64,
    /// Reset time from lost frames, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_loss_s: Option<Spread>,
    /// Reset time from the moments of the last frame before and the first after it, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_timestamp_s: Option<Spread>,
    /// Each repetition: from lost frames, and from moments where the DUT came back.
    pub repetitions_s: Vec<(f64, Option<f64>)>,
    /// How exactly moments were known, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_s: Option<f64>,
}

/// What an event under load costs: tables rewritten, a session cleared, rules loaded anew (terms of RFC 6412).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Churn {
    /// What was done to the DUT.
    pub event: String,
    /// The load meanwhile.
    pub load_pps: f64,
    /// A rate below this share of that before the event is a dip.
    pub share: f64,
    /// How long an interval is, and with it how well moments are known, in seconds.
    pub resolution_s: f64,
    /// The rate before the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_pps: Option<Spread>,
    /// How much of that rate was missing in all until it was regained, as seconds of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deficit_s: Option<Spread>,
    /// Every repetition.
    pub dips: Vec<Dip>,
    /// The first of them over time, around the event; `at_ns` is since the begin of its trial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Interval>,
    /// The moment of the event in that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_at_s: Option<f64>,
}

/// What the event did once. Moments are seconds after its begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Dip {
    /// Median forwarding rate before the event.
    pub base_pps: f64,
    /// Share of the intervals before the event that were below the threshold: dips which nothing was done for.
    pub before_ratio: f64,
    /// Share of the intervals after the event in which the tester itself sent less than before: what it did not send is not missing.
    pub fell_short_ratio: f64,
    /// When the first interval after it was below; absent when none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_impact_s: Option<f64>,
    /// From when on the rate was that of before for good; absent when it was not seen, 0 when it never was lower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regained_s: Option<f64>,
    /// The largest share of the rate that was missing in an interval.
    pub depth: f64,
    /// How long nothing at all came out.
    pub blackout_s: f64,
    /// What was missing until the rate was regained, as seconds of the rate before.
    pub deficit_s: f64,
    /// The same in frames; absent in runs of versions that did not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deficit_frames: Option<f64>,
    /// Lost frames over the offered load (loss-derived, RFC 6412); absent where frames were lost before the event, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_loss_s: Option<f64>,
    /// What the event itself told of its course: the DUT's own log beside what frames show.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<Moment>,
}

/// Energy of the DUT's host, idle and under loads (docs/methodology.md, "Energy and cycles").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Energy {
    /// What each meter says. One may be part of another.
    pub meters: Vec<Meter>,
    /// Every load, from the smallest to overload.
    pub points: Vec<EnergyPoint>,
}

/// What a meter says of the DUT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Meter {
    /// Its name.
    pub name: String,
    /// Power without a load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_watts: Option<f64>,
    /// Power where the DUT forwarded most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_watts: Option<f64>,
    /// That over the forwarding rate: idle power included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joules_per_frame: Option<f64>,
    /// What forwarding adds to idling, over the forwarding rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marginal_joules_per_frame: Option<f64>,
    /// How far power follows load: 1 where idling costs nothing, 0 where it costs as much as the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proportionality: Option<f64>,
}

/// Power at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnergyPoint {
    /// Share of what the DUT forwards in overload; absent for overload itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Intended load.
    pub intended_load_pps: f64,
    /// Offered load.
    pub offered_load_pps: f64,
    /// What came back.
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
    /// Of each trial.
    pub trials_pps: Vec<f64>,
    /// Nearly all that was offered came back: the DUT may do more.
    #[serde(default)]
    pub tester_bound: bool,
}

/// One load for long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Soak {
    /// The load.
    pub load_pps: f64,
    /// How long, in seconds.
    pub duration_s: f64,
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames lost.
    pub frames_lost: i64,
    /// Lost over sent.
    pub loss_ratio: f64,
    /// The loss ratio that passes.
    pub loss_ratio_goal: f64,
    /// Longest stretch without loss, in seconds.
    pub longest_lossless_s: f64,
    /// Stretches of consecutive samples with loss.
    pub loss_bursts: u32,
    /// The longest of them, in seconds.
    pub longest_burst_s: f64,
    /// Trend of the forwarding rate in frames per second and hour (Theil-Sen).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trend_pps_per_hour: Option<f64>,
    /// Its 95 % confidence interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trend_interval_pps_per_hour: Option<(f64, f64)>,
    /// Loss within its goal, and no trend proven.
    pub passed: bool,
    /// Counts over time.
    pub samples: Vec<Interval>,
}

/// An estimate of a critical load, as of one moment of the search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// Seconds of trials so far.
    pub at_s: f64,
    /// Load of the trial.
    pub load_pps: f64,
    /// What it lost over what was due.
    pub loss_ratio: f64,
    /// The estimate, stretch function.
    pub stretch_pps: f64,
    /// The estimate, erf function.
    pub erf_pps: f64,
}

/// The load whose average loss is a given share (PLRsearch).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CriticalLoad {
    /// The loss ratio that is sought.
    pub loss_ratio: f64,
    /// Smallest load that was offered.
    pub min_load_pps: f64,
    /// Largest load that was offered.
    pub max_load_pps: f64,
    /// The load, the median of what is believed; absent before there was a trial with loss and one without, and where no model fits. If no
    /// frame was lost: the largest load that was offered for long enough; the critical load is at least this, and has no upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical_load_pps: Option<f64>,
    /// Standard deviation of its natural logarithm, what all models say taken together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// Lower end: it is above this with a probability of 97.5 %. Absent where there need be no such load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_pps: Option<f64>,
    /// Upper end: it is below this with a probability of 97.5 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_pps: Option<f64>,
    /// Probability that what the DUT forwards differs from trial to trial, and not only within trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between_trials: Option<f64>,
    /// The estimates in the course of time.
    pub estimates: Vec<Estimate>,
}

/// An iteration of an equilibrium search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EquilibriumStep {
    /// The load offered.
    pub load_pps: f64,
    /// The step to the next.
    pub step_pps: f64,
    /// What came out.
    pub forwarding_rate_pps: f64,
}

/// The load at which what goes in is what comes out, as labs of the BSD Router Project measure it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Equilibrium {
    /// Rate of the link, or the largest load.
    pub max_load_pps: f64,
    /// Relative difference that counts as none.
    pub tolerance: f64,
    /// The rate measured last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equilibrium_pps: Option<f64>,
    /// The largest rate measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_seen_pps: Option<f64>,
    /// Every iteration.
    pub steps: Vec<EquilibriumStep>,
}

/// The shape of a cost over a parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "shape")]
pub enum Cost {
    /// It costs nothing that could be seen.
    Constant {
        /// Time per frame, in nanoseconds.
        frame_ns: f64,
    },
    /// Every unit of the parameter costs the same.
    Linear {
        /// Time per frame without any, in nanoseconds.
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
    /// It costs nothing up to a value, and from the next on much.
    Cliff {
        /// Time per frame before, in nanoseconds.
        frame_ns: f64,
        /// Time per frame after, in nanoseconds.
        beyond_ns: f64,
        /// The last value before.
        last_before: u64,
        /// The first value after.
        first_after: u64,
    },
    /// None of these shapes goes through the points: each stretch of values has its own slope.
    Stretches {
        /// Time per frame at the smallest value, in nanoseconds.
        frame_ns: f64,
        /// The stretches, in the order of the values; each begins where the one before ends.
        stretches: Vec<Stretch>,
    },
}

/// What a unit costs between two values of a parameter.
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

/// A value of the parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPoint {
    /// The value.
    pub value: u64,
    /// Frames per second, one per run.
    pub runs_pps: Vec<f64>,
    /// Their median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_pps: Option<f64>,
    /// 95 % confidence interval of their mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_pps: Option<(f64, f64)>,
    /// The median in percent of the reference's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent_of_reference: Option<f64>,
}

/// A procedure over the values of a parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sweep {
    /// What is varied: `rules`, `table entries`, `flows`.
    pub parameter: String,
    /// The procedure at each value.
    pub inner: String,
    /// One per value, the reference first.
    pub points: Vec<SweepPoint>,
    /// The reference over time, in frames per second: a drift of it is a drift of the machine.
    pub reference_pps: Vec<f64>,
    /// What it costs; absent with fewer than three values.
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
    pub fn is_of_resources(parameter: &str) -> bool {
        parameter == CORES
    }

    /// Returns the cost per unit, if the swept parameter has one.
    pub fn cost(&self) -> Option<&Cost> {
        let is_cost = !Sweep::is_of_resources(&self.parameter);
        self.cost.as_ref().filter(|_| is_cost)
    }

    /// Returns the speed-up over one core, and its efficiency in percent of a linear one. The speed
    /// of one core is derived from the reference. `None` for other sweeps.
    pub fn speed_up(&self, point: &SweepPoint) -> Option<(f64, f64)> {
        if !Sweep::is_of_resources(&self.parameter) {
            return None;
        }
        let reference = self.points.first()?;
        let one = reference.median_pps? / reference.value as f64;
        let speed_up = point.median_pps? / one;
        let efficiency = 100.0 * speed_up / point.value as f64;
        efficiency.is_finite().then_some((speed_up, efficiency))
    }
}

/// One trial and nothing more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SingleTrial {
    /// Intended load.
    pub intended_load_pps: f64,
    /// Offered load.
    pub offered_load_pps: f64,
    /// Frames per second that came back.
    pub forwarding_rate_pps: f64,
    /// Lost over sent.
    pub frame_loss_ratio: f64,
    /// Of both directions: each on its own. The rates above are those of the one that lost more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<DirectionCounts>,
    /// How long, in seconds.
    pub duration_s: f64,
    /// Delays, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays: Option<Delays>,
    /// Counts over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Interval>,
}

/// How close bursts may follow each other without loss (RFC 2544 §21).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BurstGaps {
    /// Frames per second within a burst.
    pub rate_pps: f64,
    /// One per length.
    pub bursts: Vec<BurstGap>,
}

/// Bursts of one length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BurstGap {
    /// Frames in a burst.
    pub frames: u32,
    /// Smallest time without loss between the last frame of one and the first of the next, in seconds; absent when frames were lost
    /// at any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_s: Option<f64>,
    /// Largest such time with loss; absent when none is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lossy_gap_s: Option<f64>,
    /// The average load at that gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_pps: Option<f64>,
}

/// What comes out in overload (RFC 2285 §3.6.2): the samples of one long trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForwardingRate {
    /// Intended load.
    pub load_pps: f64,
    /// Median offered load of the samples used; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_load_pps: Option<f64>,
    /// Forwarding rate of the samples used; its median is the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_pps: Option<Spread>,
    /// Coefficient of variation of the samples used, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variation_percent: Option<f64>,
    /// Less than 1.1 times of what came out was offered: the DUT may forward more.
    pub not_saturated: bool,
    /// A lower load, a little above the forwarding rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_load_pps: Option<f64>,
    /// What came out at that: more than in overload is a livelock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_forwarding_rate_pps: Option<f64>,
    /// All samples, those at the ends too.
    pub samples: Vec<Interval>,
}

/// A figure that represents a result, with its unit: what is compared over iterations.
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

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better: rates, and what a DUT can buffer.
    Higher,
    /// Less is better: delays, losses, costs.
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
    /// Nanoseconds per frame that something costs; the cost may be zero or negative.
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

impl Found {
    /// Returns the id of the procedure in records.
    pub fn procedure(&self) -> &'static str {
        match self {
            Found::Ramp(_) => "ramp",
            Found::Throughput(_) => "throughput",
            Found::Latency(_) => "latency",
            Found::FrameLoss(_) => "frame-loss",
            Found::BackToBack(_) => "back-to-back",
            Found::Recovery(_) => "recovery",
            Found::Reset(_) => "reset",
            Found::Churn(_) => "churn",
            Found::Energy(_) => "energy",
            Found::Management(_) => "management",
            Found::Bursts(_) => "bursts",
            Found::Mrr(_) => "mrr",
            Found::Soak(_) => "soak",
            Found::LoadedLatency(_) => "loaded-latency",
            Found::Plr(_) => "plr",
            Found::Equilibrium(_) => "equilibrium",
            Found::Sweep(_) => "sweep",
            Found::Trial(_) => "trial",
            Found::ForwardingRate(_) => "forwarding-rate",
            Found::Mlrsearch(_) => "mlrsearch",
            Found::Maxfwd(_) => "maxfwd",
            Found::Paired(_) => "paired",
            Found::Exact(_) => "exact",
        }
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
