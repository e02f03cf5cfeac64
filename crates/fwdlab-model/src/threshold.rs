//! How a threshold came off: what broke it, what kept it, and what could not be seen.
//!
//! For thresholds of campaigns and limits of comparisons alike; who judges is `fwdlab_report`. Start with [`Judged`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a threshold came off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// The threshold, in words.
    pub limit: String,
    /// What breaks it, with its figures.
    pub failed: Vec<String>,
    /// What could not be judged, and why.
    pub not_judged: Vec<String>,
    /// What kept it, but could not have shown that it is broken.
    pub blind: Vec<String>,
    /// How many figures kept it.
    pub kept: u32,
    /// It is kept: nothing breaks it, and everything could be seen, or that it could not was accepted.
    pub passed: bool,
}

impl Judged {
    /// One of which nothing is known so far.
    pub fn new(limit: String) -> Judged {
        Judged {
            limit,
            failed: Vec::new(),
            not_judged: Vec::new(),
            blind: Vec::new(),
            kept: 0,
            passed: false,
        }
    }

    /// With everything that is to be known of it. A gate that cannot see does not pass, unless that is accepted; and where nothing at all
    /// could be judged it never does.
    pub fn concluded(self, accept_blind: bool) -> Judged {
        let sees = accept_blind || (self.blind.is_empty() && self.not_judged.is_empty());
        Judged {
            passed: self.failed.is_empty() && self.kept > 0 && sees,
            ..self
        }
    }

    /// Was nothing there to be judged?
    pub fn is_empty(&self) -> bool {
        self.kept == 0 && self.failed.is_empty()
    }

    /// What became of it, in one line per subject. `advice`: what to do where not all could be judged.
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
        let more = [("not judged", &self.not_judged), ("blind", &self.blind)];
        for (what, names) in more.into_iter().filter(|(_, names)| !names.is_empty()) {
            lines.push(format!("{what}: {}", names.join("; ")));
        }
        lines
    }
}
