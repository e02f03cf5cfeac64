//! The result of a threshold: what failed it, what passed, and what could not be judged.
//!
//! For thresholds of campaigns and limits of comparisons; `fwdlab_report` judges. Start with
//! [`Judged`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of a threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// The threshold, in words.
    pub limit: String,
    /// Test cases that fail it, with their figures.
    pub failed: Vec<String>,
    /// Test cases that could not be judged, and why.
    pub not_judged: Vec<String>,
    /// Test cases whose results are too imprecise: the limit is within their confidence interval,
    /// or a violation would not have been detected.
    #[serde(alias = "blind")]
    pub inconclusive: Vec<String>,
    /// Number of figures that pass it.
    pub kept: u32,
    /// It passed: no figure fails it, and all could be judged precisely enough, or inconclusive
    /// results are accepted.
    pub passed: bool,
}

impl Judged {
    /// Returns one without any result so far.
    pub fn new(limit: String) -> Judged {
        Judged {
            limit,
            failed: Vec::new(),
            not_judged: Vec::new(),
            inconclusive: Vec::new(),
            kept: 0,
            passed: false,
        }
    }

    /// Sets the verdict from all results. An inconclusive check fails, unless that is accepted; if
    /// nothing at all could be judged it always fails.
    pub fn concluded(self, accept_inconclusive: bool) -> Judged {
        let sees =
            accept_inconclusive || (self.inconclusive.is_empty() && self.not_judged.is_empty());
        Judged {
            passed: self.failed.is_empty() && self.kept > 0 && sees,
            ..self
        }
    }

    /// Returns true if there was nothing to judge.
    pub fn is_empty(&self) -> bool {
        self.kept == 0 && self.failed.is_empty()
    }

    /// Describes the result, in one line per subject. `advice`: what to do if not all could be
    /// judged.
    pub fn lines(&self, advice: &str) -> Vec<String> {
        let mut lines = vec![if !self.failed.is_empty() {
            format!("{}: FAILED by {}", self.limit, self.failed.join("; "))
        } else if self.is_empty() {
            format!("{}: could not be judged", self.limit)
        } else if !self.passed {
            format!(
                "{}: NOT PASSED: no comparison that could be judged exceeds it, but not all could be judged ({advice})",
                self.limit
            )
        } else {
            format!("{}: kept", self.limit)
        }];
        let more = [
            ("not judged", &self.not_judged),
            ("inconclusive", &self.inconclusive),
        ];
        for (what, names) in more.into_iter().filter(|(_, names)| !names.is_empty()) {
            lines.push(format!("{what}: {}", names.join("; ")));
        }
        lines
    }
}
