//! Questions to an agent that has a rig: the calls of [`crate::tester::Rig`] one by one, and the
//! engine's values in serialised form.
//!
//! Start with [`Question`].

use std::collections::BTreeMap;
use std::time::Duration;

use fwdlab_engine::analysis::{Analysis, AnalysisPlan};
use fwdlab_engine::tester::Proof;
use fwdlab_engine::{Addresses, Choice, Histogram, Reading, ReceiveCounts, Schedule, Traffic};
use fwdlab_model::trial::Stream;
use serde::{Deserialize, Serialize};

use super::Path;
use fwdlab_engine::part::within_limit;

/// A question to a rig, as in [`crate::tester::Rig`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Question {
    /// Open a rig; later questions are for it.
    Open {
        paths: Vec<Path>,
        addresses: Addresses,
        choice: Choice,
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
    Start(Schedule),
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
    Analysis(Option<Analysis>),
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
