//! The log of a bisection, as it is kept: one line of JSON for its beginning, one per candidate, one for the comparison at its end.
//!
//! Nothing is searched here: that is in `fwdlab_measure::bisect`. Start with [`Line`].

use serde::{Deserialize, Serialize};

use crate::instructions::Exact;
use crate::trial::Stream;

/// Version of the log.
pub const FORMAT: u32 = 1;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The first: what is searched.
    Began(Box<Began>),
    /// A candidate.
    Tested(Box<Tested>),
    /// The last: the candidates on both sides of the change, once more and by function.
    Compared(Box<Compared>),
}

/// What is searched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Began {
    /// Version of the log.
    pub format: u32,
    /// When (RFC 3339, UTC).
    pub started_at: String,
    /// From the one that is good to the one that is bad.
    pub candidates: Vec<Candidate>,
    /// How a candidate becomes an image, where it is none itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// Applied to every DUT, as typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// What is sent.
    pub stream: Stream,
    /// Frames of a burst.
    pub frames: u32,
    /// A change of fewer percent is none.
    pub threshold_percent: f64,
}

/// One of those that are searched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// An image, or the id of a commit.
    pub name: String,
    /// The title of the commit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
}

/// Images are built from commits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The repository.
    pub repository: String,
    /// What builds, by `sh -c`.
    pub command: String,
}

/// What came of a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tested {
    /// Its place among the candidates, from 0.
    pub at: usize,
    /// Its name.
    pub candidate: String,
    /// What it is.
    pub verdict: Verdict,
    /// What was measured; absent where it was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<Figure>,
    /// How many instructions more the same thing took in another boot: of the good end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<f64>,
    /// What qualifies the verdict: why it was skipped, or that it is near the middle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The image that was booted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The run that it is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// A figure with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Instructions that the DUT executes for a frame.
    pub instructions_per_frame: f64,
    /// Its uncertainty: lower and upper end.
    pub interval: [f64; 2],
}

/// What a candidate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As before the change.
    Good,
    /// As after it.
    Bad,
    /// It cannot be built, booted or measured.
    Skipped,
}

/// Both sides of the change, measured in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The last that is as before.
    pub last_good: Exact,
    /// The first that is not, with its difference from that.
    pub first_bad: Exact,
    /// The run.
    pub run: String,
}

impl Figure {
    /// Half of what lies between the ends.
    pub fn half(&self) -> f64 {
        (self.interval[1] - self.interval[0]) / 2.0
    }
}

impl From<&Exact> for Figure {
    fn from(found: &Exact) -> Figure {
        Figure {
            instructions_per_frame: found.instructions_per_frame,
            interval: found.interval,
        }
    }
}

impl Candidate {
    /// Its name, or that of a commit as git shortens it, with its title.
    pub fn words(&self) -> String {
        match self.title.as_str() {
            "" => self.name.clone(),
            title => format!("{} {title}", &self.name[..self.name.len().min(12)]),
        }
    }
}
