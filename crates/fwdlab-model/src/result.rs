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

/// What becomes of frames that a generator missed because it was held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HoldUps {
    /// They are not sent: the load is never above the intended one.
    Forgive,
    /// They are sent afterwards: the mean is the intended load.
    MakeUp,
}

/// May the trial be used, and if not, why not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Validity {
    /// Empty for a valid trial.
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

/// Windows of one kind and what came out in them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stratum {
    /// How many windows.
    pub windows: u32,
    /// Median forwarding rate of these windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_pps: Option<f64>,
}

/// One trial: one stream, one load, some time. One line of `trials.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRecord {
    /// Name of the test case: [`Stream::id`], with `/control` for the A/A control.
    pub test_case: String,
    /// Id of the procedure (`maxfwd`, `mlrsearch`).
    pub procedure: String,
    /// Which repetition, from 1.
    pub iteration: u32,
    /// Number of the trial in the run, from 1, in order of execution.
    pub trial: u32,
    /// A second measurement of another test case, for the A/A control.
    pub control: bool,
    /// When it began (RFC 3339, UTC).
    pub started_at: String,
    /// What was sent.
    #[serde(flatten)]
    pub stream: Stream,
    /// What differs from a plain series.
    #[serde(default, skip_serializing_if = "Variant::is_plain")]
    pub variant: Variant,
    /// Of a trial in both directions: each on its own. Ledger and counters are of both together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<DirectionCounts>,
    /// The engine that sent.
    pub engine: String,
    /// What became of frames that it missed while it was held up; absent when flat out or simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_ups: Option<HoldUps>,
    /// What counted the frames.
    pub receiver: String,
    /// Seconds from the first to the last window.
    pub duration_s: f64,
    /// Intended load; absent when flat out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intended_load_pps: Option<f64>,
    /// What was really offered, in the windows that `forwarding_rate_pps` comes from (all windows when it is absent).
    pub offered_load_pps: f64,
    /// Offered less than 1.1 times of what was forwarded: the generator is the limit, the DUT may forward more.
    #[serde(default)]
    pub not_saturated: bool,
    /// The result: median forwarding rate of the quiet windows; absent when there were too few of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_pps: Option<f64>,
    /// The same without the gate: median of all windows that were offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarding_rate_ungated_pps: Option<f64>,
    /// Windows before and after which the machine was in the state that figures are of, the first of [`Noise::states`]: the DUT's CPU at
    /// full speed, or where that is rare as fast as most of the time, and the CPUs as far apart as most of the time.
    pub quiet: Stratum,
    /// Windows beside which the DUT's CPU was contended: slower than in any state.
    pub contended: Stratum,
    /// Windows in another state, or while it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<ApartStratum>,
    /// Of a trial that counts as a whole, not by its windows: what the probes read before and after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Reading>,
    /// Windows in which the generator did not offer the intended load: they count in neither stratum.
    pub windows_not_offered: u32,
    /// Lost frames over sent frames, whole trial.
    pub frame_loss_ratio: f64,
    /// What became of every frame.
    #[serde(flatten)]
    pub ledger: Ledger,
    /// The counters behind the ledger.
    pub counters: Counters,
    /// What forwarding took of the DUT, where it tells that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Box<Work>>,
    /// What the DUT's host counted meanwhile, where it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Box<Telemetry>>,
    /// Of a trial that a procedure asked for: the question, the answer, and what was made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Box<Asked>>,
    /// May it be used?
    pub validity: Validity,
}

/// How quiet the machine was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Noise {
    /// Speed of the DUT's CPU below which it has not its full speed, in additions per nanosecond.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_threshold: Option<f64>,
    /// How that was found, in words.
    pub calibration: String,
    /// States of the machine, as the run's own readings have them: results are of the first one. Empty where the CPU had its full speed
    /// and no distance could be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<MachineState>,
    /// Share of windows that passed, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet_percent: Option<f64>,
    /// The whole verdict in one sentence.
    pub verdict: String,
    /// The noise was not judged: there were too few trials, or nothing observed the machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_judged: bool,
    /// None of the figures can be relied on. Where only some cannot, their test cases say so ([`TestCase::doubt`]).
    pub too_noisy: bool,
    /// Why, each in a few words; empty when not too noisy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// What can be done about it, where figures are not to be relied on.
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

/// The derived result of a run: `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Version of this format ([`crate::version::RUN_FORMAT`]).
    pub format: u32,
    /// Id of the run.
    pub run: String,
    /// Id of the procedure: `maxfwd`, `paired` or `mlrsearch`; for imported runs the archive's.
    pub procedure: String,
    /// What was found, one per test case, in the order of the plan.
    #[serde(default)]
    pub test_cases: Vec<TestCase>,
    /// The A/A control: the first test case measured twice in every block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<Comparison>,
    /// Test cases of an archive; empty for measurements of our own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imported: Vec<ImportedCase>,
    /// The state of the machine.
    pub noise: Noise,
    /// What makes a reader doubt the whole run.
    pub warnings: Vec<String>,
    /// How what the campaign must reach came off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<Judged>,
    /// Estimated layer-2 bandwidth for a simple IMIX, in bit/s: an estimate from the smallest frames' rate.
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

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It runs, or its process died without a word.
    Running,
    /// It ended as planned.
    Finished,
    /// It was stopped by a signal; what was measured is kept.
    Interrupted,
    /// It could not go on.
    Failed,
}

/// A time in which nobody carried a run out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    /// The last that was heard before it (RFC 3339, UTC).
    pub from: String,
    /// When the run went on.
    pub to: String,
    /// Trials, rebuilds or boots kept before it.
    pub after: u32,
    /// Those of them that are of an iteration that was cut off: it was measured again, and they count for nothing.
    pub cut_off: u32,
}

/// The parameter of a run that lists its configurations with firewall rules.
pub const FIREWALLS: &str = "firewalls";

/// The head of a run: `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInfo {
    /// Version of this format ([`crate::version::RUN_FORMAT`]).
    pub format: u32,
    /// Id of the run, unique among all runs.
    pub id: String,
    /// What kind of run: `quick`, `throughput`, `campaign`, `import`.
    pub kind: String,
    /// Version of the program.
    pub tool_version: String,
    /// The command line, as typed.
    pub command_line: Vec<String>,
    /// Seed of every random choice.
    pub seed: u64,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// How it stands.
    pub state: RunState,
    /// Times in which nobody carried it out, between an end that was none and `fwdlab run --resume`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
    /// Why it failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What people noted about it afterwards: kept in `labels.json`, and read from there for reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The procedure's parameters, as resolved: every default written out.
    pub parameters: std::collections::BTreeMap<String, serde_json::Value>,
    /// The host and the test bed.
    pub facts: Facts,
}
