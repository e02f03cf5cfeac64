//! The events of a running measurement: one stream, in one order, for every listener.
//!
//! The same objects are journalled, printed by `--json-stream` and shown on the terminal. Start
//! with [`Event`].

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::facts::Facts;
use crate::hook::HookRecord;
use crate::instructions::BootRecord;
use crate::result::{RunInfo, Summary, TrialRecord};
use crate::test_case::Iteration;
use crate::trial::Stream;

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Event {
    /// Seconds since the run began.
    pub t: f64,
    /// Id of the run.
    pub run: String,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Event, D::Error> {
        struct Line;

        impl<'de> Visitor<'de> for Line {
            type Value = Event;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event: t, run and event, then what it tells")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event, A::Error> {
                let (mut t, mut run) = (None, None);
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "t" => t = Some(map.next_value()?),
                        "run" => run = Some(map.next_value()?),
                        "event" => {
                            let event: String = map.next_value()?;
                            return Ok(Event {
                                t: t.ok_or_else(|| de::Error::missing_field("t"))?,
                                run: run.ok_or_else(|| de::Error::missing_field("run"))?,
                                kind: EventKind::read(&event, map)?,
                            });
                        }
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Err(de::Error::missing_field("event"))
            }
        }

        deserializer.deserialize_map(Line)
    }
}

/// Declares the kinds of events, and reads them. The name of the kind comes before its fields in a
/// line, so that the fields can be read directly. serde's `flatten` would store them as generic
/// values first, and would compile every type in an event a second time.
macro_rules! kinds {
    ($($(#[$about:meta])* $kind:ident = $name:literal { $($(#[$field_about:meta])* $field:ident: $type:ty,)+ })+) => {
        /// What happened.
        #[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
        #[serde(tag = "event")]
        pub enum EventKind {
            $($(#[$about])* #[serde(rename = $name)] $kind { $($(#[$field_about])* $field: $type,)+ },)+
        }

        impl EventKind {
            fn read<'de, A: MapAccess<'de>>(event: &str, rest: A) -> Result<EventKind, A::Error> {
                match event {
                    $($name => {
                        #[derive(Deserialize)]
                        struct Fields { $($(#[$field_about])* $field: $type,)+ }
                        let read = Fields::deserialize(MapAccessDeserializer::new(rest))?;
                        Ok(EventKind::$kind { $($field: read.$field,)+ })
                    })+
                    other => Err(de::Error::unknown_variant(other, &[$($name),+])),
                }
            }
        }
    };
}

kinds! {
    /// The first event of every run.
    RunStarted = "run_started" {
        /// Version of the event format ([`crate::version::EVENT_FORMAT`]).
        format: u32,
        /// The header of the run.
        info: Box<RunInfo>,
        /// Estimated duration, in seconds.
        estimate_s: f64,
        /// The estimate is a guess, because it depends on a DUT that has not been measured yet. A
        /// later note corrects it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        guessed: bool,
        /// Number of planned trials or rebuilds.
        steps: u32,
    }
    /// An interrupted run was resumed.
    RunResumed = "run_resumed" {
        /// The header of the run, with its gaps.
        info: Box<RunInfo>,
        /// Estimated time remaining, in seconds.
        estimate_s: f64,
        /// The estimate is a guess, because it depends on a DUT that has not been measured yet. A
        /// later note corrects it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        guessed: bool,
        /// Number of remaining trials or rebuilds.
        steps: u32,
    }
    /// The search found the load that a stream uses in all iterations.
    LoadFound = "load_found" {
        /// What the load is for: a stream and the kind of its DUT, or a test case.
        of: String,
        /// The load in frames per second; absent when frames are sent as fast as possible.
        #[serde(skip_serializing_if = "Option::is_none")]
        load_pps: Option<f64>,
        /// Where the load comes from, in words.
        source: String,
        /// The DUT dropped frames internally during the search.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        loses_inside: bool,
    }
    /// The test bed is ready and the engine is chosen.
    BedReady = "bed_ready" {
        /// Facts about the host and the test bed, with the settings that were applied.
        facts: Box<Facts>,
    }
    /// Progress of the run; several per second.
    Progress = "progress" {
        /// The current activity, in words: `64B-2000flows-ipv4, iteration 2 of 5`.
        activity: String,
        /// Finished steps.
        done: u32,
        /// Planned steps.
        steps: u32,
        /// Estimated time remaining, in seconds.
        left_s: f64,
        /// Offered load of the last window.
        #[serde(skip_serializing_if = "Option::is_none")]
        offered_load_pps: Option<f64>,
        /// Forwarding rate of the last window.
        #[serde(skip_serializing_if = "Option::is_none")]
        forwarding_rate_pps: Option<f64>,
        /// Current estimate of the result, in words: `-2.1 % ± 0.8`.
        #[serde(skip_serializing_if = "Option::is_none")]
        estimate: Option<String>,
    }
    /// A trial finished.
    TrialFinished = "trial_finished" {
        /// The record of the trial.
        record: Box<TrialRecord>,
    }
    /// A rebuild of a paired comparison finished.
    RebuildFinished = "rebuild_finished" {
        /// The record of the rebuild.
        record: Box<RebuildRecord>,
    }
    /// A boot of a virtual machine finished.
    BootFinished = "boot_finished" {
        /// The record of the boot.
        record: Box<BootRecord>,
    }
    /// An iteration of a test case finished. A later event of the same test case and iteration
    /// replaces this one: it was measured again, or the probes of the whole run changed the result.
    IterationFinished = "iteration_finished" {
        /// Name of the test case.
        test_case: String,
        /// The result, or the reason why there is none.
        iteration: Box<Iteration>,
    }
    /// A user command that runs before, during or after a measurement finished.
    HookFinished = "hook_finished" {
        /// The record of the hook.
        record: Box<HookRecord>,
    }
    /// Something was done on the DUT, such as running the commands of a modifier.
    Note = "note" {
        /// The message.
        text: String,
    }
    /// A warning that affects how to read the results.
    Warning = "warning" {
        /// The message.
        text: String,
    }
    /// A request to the running measurement, such as to pause.
    Steered = "steered" {
        /// The request.
        request: Request,
        /// The request had an effect. Absent when there was nothing to do, such as nothing to skip.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        heeded: bool,
    }
    /// The last event of a run.
    RunFinished = "run_finished" {
        /// The results.
        summary: Box<Summary>,
    }
    /// The last event of a run that failed or was stopped.
    RunEnded = "run_ended" {
        /// The reason.
        reason: String,
    }
}

/// Requests that a running measurement accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Start no more trials until resumed.
    Pause,
    /// Continue after a pause.
    Resume,
    /// Skip the current test case, in this iteration and all later ones.
    Skip,
    /// Stop cleanly: undo all changes and keep the measurements.
    Stop,
}

/// One rebuild of the test bed in a paired comparison: a line of `trials.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RebuildRecord {
    /// Number of the rebuild, from 1.
    pub rebuild: u32,
    /// Start time (RFC 3339, UTC).
    pub started_at: String,
    /// The compared DUTs, the reference first. Empty in runs of `quick`, where the run's parameters
    /// list them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<Compared>,
    /// The configuration in each place, place 0 first. Index 0 is the plain DUT.
    pub places: Vec<u32>,
    /// Blocks of slices that count.
    pub blocks: u32,
    /// Blocks that do not count, because the generator stalled in one of their slices.
    pub blocks_not_offered: u32,
    /// Duration of a slice, in seconds. Absent in older runs, which used 20 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_s: Option<f64>,
    /// Median forwarding rate of the slices of each configuration, the plain DUT first.
    pub forwarding_rate_pps: Vec<f64>,
    /// Difference from the plain DUT in percent for each configuration, the plain DUT (0) first.
    pub difference_percent: Vec<f64>,
    /// Frames sent, over all configurations.
    pub frames_sent: u64,
    /// Frames received, over all configurations.
    pub frames_received: u64,
    /// Ledger of each configuration's DUT, the plain DUT first.
    pub ledgers: Vec<crate::loss::Ledger>,
    /// Whether the rebuild may be used.
    pub validity: crate::result::Validity,
}

/// A DUT of a paired comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// Name of the test case. The reference and the control have the name that their own test case
    /// would have.
    pub test_case: String,
    /// Its configuration.
    pub configuration: String,
    /// True for the A/A control: the reference a second time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// The test traffic.
    pub stream: Stream,
    /// The swept parameter and its value; absent without a sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<(String, u64)>,
}
