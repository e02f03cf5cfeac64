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

/// Declares the kinds of events, and reads them. The name of the kind comes before its fields in a line, so that the fields can be read
/// directly. serde's `flatten` would store them as generic values first, and every type in an event would be compiled a second time.
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
        /// [`crate::version::EVENT_FORMAT`].
        format: u32,
        /// The head of the run.
        info: Box<RunInfo>,
        /// How long it will take, in seconds: an estimate.
        estimate_s: f64,
        /// It depends on a DUT that was not seen yet: a guess. A note corrects it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        guessed: bool,
        /// Trials or rebuilds planned.
        steps: u32,
    }
    /// A run that was cut off goes on.
    RunResumed = "run_resumed" {
        /// The head of the run, with its gaps.
        info: Box<RunInfo>,
        /// How long the rest will take, in seconds: an estimate.
        estimate_s: f64,
        /// It depends on a DUT that was not seen yet: a guess.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        guessed: bool,
        /// Trials or rebuilds that are left.
        steps: u32,
    }
    /// The load was found that a stream has in all iterations.
    LoadFound = "load_found" {
        /// Of what: a stream and the kind of its DUT, or a test case.
        of: String,
        /// Frames per second; absent when it is flat out.
        #[serde(skip_serializing_if = "Option::is_none")]
        load_pps: Option<f64>,
        /// Where it comes from, in words.
        source: String,
        /// The DUT lost frames inside while it was looked for.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        loses_inside: bool,
    }
    /// The test bed stands, the engine is chosen.
    BedReady = "bed_ready" {
        /// Facts with what was set.
        facts: Box<Facts>,
    }
    /// Where the run stands; several a second.
    Progress = "progress" {
        /// What is going on, in words: `64B-2000flows-ipv4, iteration 2 of 5`.
        activity: String,
        /// Steps done.
        done: u32,
        /// Steps planned.
        steps: u32,
        /// Estimate of the time left, in seconds.
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
    /// A trial ended.
    TrialFinished = "trial_finished" {
        /// Its record.
        record: Box<TrialRecord>,
    }
    /// A rebuild of a paired comparison ended.
    RebuildFinished = "rebuild_finished" {
        /// Its record.
        record: Box<RebuildRecord>,
    }
    /// A boot of a virtual machine ended.
    BootFinished = "boot_finished" {
        /// Its record.
        record: Box<BootRecord>,
    }
    /// An iteration of a test case ended. A later event of the same test case and iteration replaces it: it was measured again, or all
    /// probes of the run changed the result.
    IterationFinished = "iteration_finished" {
        /// Name of the test case.
        test_case: String,
        /// What was found, or why nothing.
        iteration: Box<Iteration>,
    }
    /// A command of the user's ended that ran before, during or after what is measured.
    HookFinished = "hook_finished" {
        /// Its record.
        record: Box<HookRecord>,
    }
    /// What was done on the DUT, such as the commands of a modifier.
    Note = "note" {
        /// In words.
        text: String,
    }
    /// Something a reader must know.
    Warning = "warning" {
        /// What.
        text: String,
    }
    /// Something that was asked of the run from outside.
    Steered = "steered" {
        /// What.
        request: Request,
        /// It was done; absent: there was nothing to do, such as nothing to skip.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        heeded: bool,
    }
    /// The last event of a run.
    RunFinished = "run_finished" {
        /// The result.
        summary: Box<Summary>,
    }
    /// The last event of a run that could not go on or was stopped.
    RunEnded = "run_ended" {
        /// Why.
        reason: String,
    }
}

/// What can be asked of a run while it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Begin no other trial until it is resumed.
    Pause,
    /// Go on after a pause.
    Resume,
    /// Leave the test case out that is being measured, in this iteration and all that follow.
    Skip,
    /// End in order: everything is undone, what was measured is kept.
    Stop,
}

/// One rebuild of the arrangement in a paired comparison: a line of `trials.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RebuildRecord {
    /// Which rebuild, from 1.
    pub rebuild: u32,
    /// When it began (RFC 3339, UTC).
    pub started_at: String,
    /// What was compared, the reference first; empty in a run of `quick`, whose parameters say it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<Compared>,
    /// Which configuration stood in which place (place 0 first). Index 0 is the plain DUT.
    pub places: Vec<u32>,
    /// Blocks of slices that were used.
    pub blocks: u32,
    /// Blocks that were not, because the generator was held up in one of their slices.
    pub blocks_not_offered: u32,
    /// Length of its slices; absent in runs of before it was kept, in which it was 20 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_s: Option<f64>,
    /// Per configuration, plain first: median forwarding rate of its slices.
    pub forwarding_rate_pps: Vec<f64>,
    /// Per configuration, plain first: difference from the plain DUT in percent (0 for the plain DUT).
    pub difference_percent: Vec<f64>,
    /// Frames sent, all configurations.
    pub frames_sent: u64,
    /// Frames that came back.
    pub frames_received: u64,
    /// Ledger of each configuration's DUT, plain first.
    pub ledgers: Vec<crate::loss::Ledger>,
    /// May it be used?
    pub validity: crate::result::Validity,
}

/// A DUT of a paired comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// Name of the test case; of the reference and of the control what theirs would be.
    pub test_case: String,
    /// Its configuration.
    pub configuration: String,
    /// It is the reference once more, for the A/A control.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// What was sent.
    pub stream: Stream,
    /// What was swept, and the value that was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<(String, u64)>,
}
