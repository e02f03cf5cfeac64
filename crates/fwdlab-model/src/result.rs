//! What is kept of a run: one [`TrialRecord`] per trial, one [`Summary`] per run, and the header of
//! both, [`RunInfo`].
//!
//! Field names are the terms of the field with their unit. A number that does not exist is absent,
//! never 0. Everything in a [`Summary`] can be recomputed from the trials.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::comparison::Comparison;
use crate::efficiency::Work;
use crate::facts::Facts;
use crate::import::ImportedCase;
use crate::loss::{Counters, Ledger};
use crate::outcome::Outcome;
use crate::probe::{ApartStratum, MachineState, Reading};
use crate::procedure::Asked;
use crate::telemetry::Telemetry;
use crate::test_case::TestCase;
use crate::threshold::Judged;
use crate::trial::Stream;
use crate::variant::{DirectionCounts, Variant};

/// How a generator treats frames that it missed while it was stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StallPolicy {
    /// It skips them: the load never exceeds the intended load.
    #[serde(alias = "forgive")]
    Skip,
    /// It sends them later: the mean load is the intended load.
    #[serde(alias = "make-up")]
    CatchUp,
}

/// Whether the trial may be used, and why not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Validity {
    /// Reasons against using it; empty for a valid trial.
    pub reasons: Vec<String>,
}

impl Validity {
    /// Returns true if the trial may be used.
    pub fn is_valid(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Returns true if its iteration was measured again; then it is no evidence of what disturbs
    /// trials.
    pub fn is_cut_off(&self) -> bool {
        self.reasons.iter().any(|reason| reason == CUT_OFF)
    }
}

/// The remark on a trial whose iteration was cut off, by the end of the run's process or of a host,
/// and measured again.
pub const CUT_OFF: &str = "its iteration was cut off, and measured again";

/// Windows of one kind, and their forwarding rate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stratum {
    /// Number of windows.
    pub windows: u32,
    /// Median forwarding rate of these windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_pps: Option<f64>,
}

/// One trial: one stream at one load for some time. A line of `trials.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRecord {
    /// Name of the test case: [`Stream::id`], with `/control` for the A/A control.
    pub test_case: String,
    /// Id of the procedure (`maxfwd`, `mlrsearch`).
    pub procedure: String,
    /// Number of the iteration, from 1.
    pub iteration: u32,
    /// Number of the trial in the run, from 1, in order of execution.
    pub trial: u32,
    /// True for the A/A control: a second measurement of another test case.
    pub control: bool,
    /// Start time (RFC 3339, UTC).
    pub started_at: String,
    /// The test traffic.
    #[serde(flatten)]
    pub stream: Stream,
    /// Differences from a plain series.
    #[serde(default, skip_serializing_if = "Variant::is_plain")]
    pub variant: Variant,
    /// For a trial in both directions, the counts of each. Ledger and counters cover both together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<DirectionCounts>,
    /// The sending engine.
    pub engine: String,
    /// How the engine treats frames that it missed while it was stalled; absent when it sends as
    /// fast as possible, or is simulated.
    #[serde(default, alias = "hold_ups", skip_serializing_if = "Option::is_none")]
    pub stall_policy: Option<StallPolicy>,
    /// What counted the frames.
    pub receiver: String,
    /// Seconds from the first to the last window.
    pub duration_s: f64,
    /// Intended load; absent when frames are sent as fast as possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intended_load_pps: Option<f64>,
    /// Offered load in the windows that `forwarding_rate_pps` comes from, or in all windows if that
    /// is absent.
    pub offered_load_pps: f64,
    /// The offered load was less than 1.1 times the forwarding rate: the generator is the limit,
    /// and the DUT may forward more.
    #[serde(default)]
    pub not_saturated: bool,
    /// The result: median forwarding rate of the quiet windows. Absent when there are too few of
    /// them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_pps: Option<f64>,
    /// Median forwarding rate of all windows in which the load was offered: the result without the
    /// noise gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_ungated_pps: Option<f64>,
    /// Windows before and after which the machine was in the first state of [`Noise::states`]: the
    /// DUT's CPU at full speed, or if that is rare, at its most frequent speed, and the CPUs at
    /// their most frequent distance.
    pub quiet: Stratum,
    /// Windows during which the DUT's CPU was contended: slower than in any state.
    pub contended: Stratum,
    /// Windows in another state, or during a change of state.
    #[serde(default, alias = "apart", skip_serializing_if = "Vec::is_empty")]
    pub other_states: Vec<ApartStratum>,
    /// The probe readings before and after a trial that counts as a whole, not by windows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Reading>,
    /// Windows in which the generator did not offer the intended load. They do not count as quiet
    /// or as contended.
    pub windows_not_offered: u32,
    /// Lost over sent frames, over the whole trial.
    pub frame_loss_ratio: f64,
    /// Where every frame ended up.
    #[serde(flatten)]
    pub ledger: Ledger,
    /// The counters behind the ledger.
    pub counters: Counters,
    /// The resources that the DUT used for forwarding; absent when it does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Box<Work>>,
    /// Counters of the DUT's host during the trial; absent when they were not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Box<Telemetry>>,
    /// For a trial that a procedure requested: the request, the answer, and the procedure's
    /// evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Box<Asked>>,
    /// Whether the trial may be used.
    pub validity: Validity,
}

/// The noise of the machine during the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Noise {
    /// The DUT's CPU is below full speed if it is slower than this, in additions per nanosecond.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_threshold: Option<f64>,
    /// How this threshold was found, in words.
    pub calibration: String,
    /// States of the machine, from the run's own readings; results come from the first one. Empty
    /// if the CPU ran at full speed and no distance between CPUs could be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<MachineState>,
    /// Share of windows that were quiet, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet_percent: Option<f64>,
    /// The verdict in one sentence.
    pub verdict: String,
    /// The noise was not judged: there were too few trials, or no probe observed the machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_judged: bool,
    /// None of the figures is reliable. If only some are unreliable, their test cases report it
    /// ([`TestCase::doubt`]).
    pub too_noisy: bool,
    /// Reasons, each in a few words; empty when not too noisy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// What to do about unreliable figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to_do: Vec<String>,
}

impl Noise {
    /// Returns the value for what is counted and not timed.
    pub fn none() -> Noise {
        Noise {
            verdict: "instructions are counted: other work on this machine changes nothing".into(),
            ..Noise::default()
        }
    }
}

/// The derived results of a run: `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Version of this format ([`crate::version::RUN_FORMAT`]).
    pub format: u32,
    /// Id of the run.
    pub run: String,
    /// Id of the procedure: `maxfwd`, `paired` or `mlrsearch`; for imported runs that of the
    /// archive.
    pub procedure: String,
    /// Results, one per test case, in the order of the plan.
    #[serde(default)]
    pub test_cases: Vec<TestCase>,
    /// The A/A control: the first test case measured twice in every block. In a run that joins
    /// shards of several machines, the one that differs from itself, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<Comparison>,
    /// Test cases of an imported archive; empty for our own measurements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imported: Vec<ImportedCase>,
    /// The noise of the machine during the run.
    pub noise: Noise,
    /// Reasons to doubt the whole run.
    pub warnings: Vec<String>,
    /// Results of the campaign's thresholds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<Judged>,
    /// Layer-2 bandwidth for a simple IMIX, in bit/s, estimated from the rate of the smallest
    /// frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imix_estimate_l2_bps: Option<f64>,
}

impl Summary {
    /// Returns true if every figure is reliable, as far as noise is concerned.
    pub fn is_quiet(&self) -> bool {
        !self.noise.too_noisy
            && self.test_cases.iter().all(|case| case.doubt.is_none())
            && self.comparisons().all(|c| c.doubt.is_none())
    }

    /// Iterates over the results of procedures, test case after test case.
    pub fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.test_cases.iter().flat_map(|case| &case.outcomes)
    }

    /// Iterates over the differences from the reference DUT that were measured by slices.
    pub fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        self.test_cases.iter().flat_map(TestCase::comparisons)
    }
}

/// State of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It is running, or its process died without recording an end.
    Running,
    /// It finished as planned.
    Finished,
    /// A signal stopped it; its measurements are kept.
    Interrupted,
    /// It failed.
    Failed,
}

/// A period in which a run was not executing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    /// Time of the last event before the gap (RFC 3339, UTC).
    pub from: String,
    /// Time at which the run was resumed.
    pub to: String,
    /// Trials, rebuilds or boots kept before the gap.
    pub after: u32,
    /// Those of them that belong to the interrupted iteration. It was measured again, and they do
    /// not count.
    #[serde(alias = "cut_off")]
    pub discarded: u32,
}

/// The parameter of a run that lists its configurations with firewall rules.
pub const FIREWALLS: &str = "firewalls";

/// The parameter of a joined run with its shards, each a [`ShardRun`].
pub const SHARDS: &str = "shards";

/// Where a shard of a joined run was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRun {
    /// Number of the shard, from 1.
    pub shard: u32,
    /// Id of its run.
    pub run: String,
    /// Kernel release of the DUT's host.
    pub kernel: String,
    /// CPU model name of the DUT's host.
    pub cpu_model: String,
    /// The test bed; absent for the embedded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_bed: Option<String>,
}

/// The header of a run: `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInfo {
    /// Version of this format ([`crate::version::RUN_FORMAT`]).
    pub format: u32,
    /// Id of the run, unique among all runs.
    pub id: String,
    /// The kind of run: `quick`, `throughput`, `campaign`, `import`.
    pub kind: String,
    /// Version of fwdlab.
    pub tool_version: String,
    /// The command line, as typed.
    pub command_line: Vec<String>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Start time (RFC 3339, UTC).
    pub started_at: String,
    /// End time (RFC 3339, UTC); absent while it is running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// State of the run.
    pub state: RunState,
    /// Periods in which the run was not executing, between an interruption and
    /// `fwdlab run --resume`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
    /// Why it failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The user's note, added later: stored in `labels.json`, from which reports read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The procedure's parameters, with all defaults resolved.
    pub parameters: std::collections::BTreeMap<String, serde_json::Value>,
    /// The host and the test bed.
    pub facts: Facts,
}
