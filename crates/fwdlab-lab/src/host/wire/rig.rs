//! Questions to an agent that has a rig: the calls of [`crate::tester::Rig`] one by one, and the
//! engine's values in serialised form.
//!
//! Start with [`Question`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fwdlab_engine::analysis::{Analysis, AnalysisPlan, StreamAnalysis};
use fwdlab_engine::stamps::{Clock, Kind, Origin, Origins};
use fwdlab_engine::tester::Proof;
use fwdlab_engine::{
    Choice, Histogram, LoadPlan, Mode, Reading, ReceiveCounts, Schedule, StallPolicy, Traffic,
};
use fwdlab_model::procedure::Stretch;
use fwdlab_model::trial::Stream;
use serde::{Deserialize, Serialize};

use super::part::within_limit;
use super::{AddressWords, Path};

/// A question to a rig, as in [`crate::tester::Rig`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Question {
    /// Open a rig; later questions are for it.
    Open {
        paths: Vec<Path>,
        addresses: AddressWords,
        choice: ChoiceWords,
    },
    Prove {
        path: usize,
        stream: Stream,
        frames: u64,
    },
    Arm {
        stream: Stream,
        analysis: Option<AnalysisPlan>,
    },
    /// Prepare the traffic that follows, or the same as before if nothing follows.
    ArmTraffic {
        analysis: Option<AnalysisPlan>,
    },
    Start(ScheduleWords),
    Select {
        path: usize,
    },
    Renew,
    IsDone,
    Read,
    Stop,
    ReceiveCounts {
        path: usize,
    },
    Analysis {
        path: usize,
    },
    Lateness,
    /// Close it.
    Close,
}

/// The answer of a rig.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Done,
    /// It is open: names of sender and receiver, why they were chosen, and why others were not.
    Opened {
        sender: String,
        receiver: String,
        words: String,
        rejected: BTreeMap<String, String>,
    },
    Proof(Proof),
    /// The mark of the trial that is armed.
    Armed {
        nonce: u16,
    },
    Paused(Duration),
    IsDone(bool),
    Reading(Reading),
    ReceiveCounts(ReceiveCounts),
    Analysis(Option<AnalysisWords>),
    Lateness(Option<Histogram>),
}

impl Question {
    /// Returns true if frames flow after this question without a near end.
    pub(crate) fn begins(&self) -> bool {
        matches!(self, Question::Start(_))
    }

    /// Returns true if no frames flow after this question.
    pub(crate) fn ends(&self) -> bool {
        matches!(
            self,
            Question::Stop | Question::Close | Question::Open { .. } | Question::Prove { .. }
        )
    }
}

/// Serialises the traffic that follows [`Question::ArmTraffic`].
///
/// # Errors
/// A message if it is too large.
pub(crate) fn packed(traffic: &Traffic) -> Result<Vec<u8>, String> {
    within_limit(serde_json::to_vec(traffic).map_err(|e| e.to_string())?)
}

/// [`Choice`] in serialised form.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ChoiceWords {
    mode: Option<String>,
    cpus: Vec<usize>,
    prove: Option<Stream>,
    way_back: Option<AddressWords>,
    traffic: Vec<Traffic>,
}

impl From<&Choice> for ChoiceWords {
    fn from(of: &Choice) -> ChoiceWords {
        ChoiceWords {
            mode: of.mode.map(|mode| mode.name().to_owned()),
            cpus: of.cpus.clone(),
            prove: of.prove.clone(),
            way_back: of.way_back.map(Into::into),
            traffic: of.traffic.iter().map(|one| one.as_ref().clone()).collect(),
        }
    }
}

/// Returns the engine of this name.
pub(crate) fn mode(name: &str) -> Result<Mode, String> {
    let memory = Some(Mode::Memory).filter(|mode| mode.name() == name);
    (Mode::named(name).or(memory)).ok_or_else(|| format!("there is no engine {name}"))
}

impl TryFrom<ChoiceWords> for Choice {
    type Error = String;

    fn try_from(of: ChoiceWords) -> Result<Choice, String> {
        let mode = of.mode.map(|name| mode(&name)).transpose()?;
        Ok(Choice {
            mode,
            cpus: of.cpus,
            prove: of.prove,
            way_back: of.way_back.map(Into::into),
            traffic: of.traffic.into_iter().map(Arc::new).collect(),
        })
    }
}

/// [`Schedule`] in serialised form.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ScheduleWords {
    load: LoadWords,
    frames: Option<u64>,
    at_most: Duration,
    stall_policy: StallPolicy,
    path: usize,
}

/// [`LoadPlan`] in serialised form.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LoadWords {
    FlatOut,
    Constant(f64),
    Stretches(Vec<Stretch>),
}

impl From<Schedule> for ScheduleWords {
    fn from(of: Schedule) -> ScheduleWords {
        ScheduleWords {
            load: match of.load {
                LoadPlan::FlatOut => LoadWords::FlatOut,
                LoadPlan::Constant(pps) => LoadWords::Constant(pps),
                LoadPlan::Stretches(stretches) => LoadWords::Stretches(stretches.to_vec()),
            },
            frames: of.frames,
            at_most: of.at_most,
            stall_policy: of.stall_policy,
            path: of.path,
        }
    }
}

impl From<ScheduleWords> for Schedule {
    fn from(of: ScheduleWords) -> Schedule {
        Schedule {
            load: match of.load {
                LoadWords::FlatOut => LoadPlan::FlatOut,
                LoadWords::Constant(pps) => LoadPlan::Constant(pps),
                LoadWords::Stretches(stretches) => LoadPlan::Stretches(Arc::from(stretches)),
            },
            frames: of.frames,
            at_most: of.at_most,
            stall_policy: of.stall_policy,
            path: of.path,
        }
    }
}

/// [`Analysis`] in serialised form.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AnalysisWords {
    streams: Vec<StreamAnalysis>,
    departures: OriginWords,
    arrivals: OriginWords,
    clock_step_ns: Option<i64>,
}

/// [`Origin`] in serialised form.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct OriginWords {
    kind: Kind,
    place: String,
    clock: Clock,
}

impl From<Analysis> for AnalysisWords {
    fn from(of: Analysis) -> AnalysisWords {
        AnalysisWords {
            streams: of.streams,
            departures: of.timestamps.departures.into(),
            arrivals: of.timestamps.arrivals.into(),
            clock_step_ns: of.clock_step_ns,
        }
    }
}

impl From<AnalysisWords> for Analysis {
    fn from(of: AnalysisWords) -> Analysis {
        Analysis {
            streams: of.streams,
            timestamps: Origins {
                departures: of.departures.into(),
                arrivals: of.arrivals.into(),
            },
            clock_step_ns: of.clock_step_ns,
        }
    }
}

impl From<Origin> for OriginWords {
    fn from(of: Origin) -> OriginWords {
        OriginWords {
            kind: of.kind,
            place: of.place.to_owned(),
            clock: of.clock,
        }
    }
}

impl From<OriginWords> for Origin {
    fn from(of: OriginWords) -> Origin {
        Origin {
            kind: of.kind,
            place: static_name(&of.place),
            clock: of.clock,
        }
    }
}

/// Returns a name with static lifetime. The engine has only a few, and each is stored once.
pub(crate) fn static_name(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let new: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(new);
    new
}
