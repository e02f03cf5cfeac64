//! A sentence of a report, and the figures that support it.
//!
//! The sentences themselves are written in `answer` and `executive`. Start with [`Sentence`].

use fwdlab_model::result::{RunInfo, Summary};
use fwdlab_model::test_case::TestCase;

use crate::number::plural;

/// Up to this number, test cases are listed by name; above it, only their number is given.
const NAMED: usize = 3;

/// A sentence with its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// The sentence, without a full stop.
    pub words: String,
    /// Its evidence.
    pub evidence: Evidence,
    /// What it finds.
    pub(crate) finding: Finding,
}

/// What a sentence finds: readers of many sentences want those with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// An answer.
    Answer,
    /// It compares, and no difference is proven.
    NoDifference,
    /// It only says that values are missing.
    TooFewValues,
}

/// What supports a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// Figures of test cases, by their indices in the summary.
    Cases(Vec<usize>),
    /// The verdicts on thresholds.
    Thresholds,
    /// The readings of the probes.
    Noise,
}

impl Sentence {
    /// A sentence with this evidence.
    pub(crate) fn new(words: impl Into<String>, evidence: Evidence) -> Sentence {
        Sentence {
            words: words.into(),
            evidence,
            finding: Finding::Answer,
        }
    }

    /// A sentence about test cases, by their indices in the summary.
    pub(crate) fn for_cases(words: String, cases: impl IntoIterator<Item = usize>) -> Sentence {
        Sentence::new(words, Evidence::Cases(cases.into_iter().collect()))
    }

    /// The sentence with the names of its evidence: `... (64B-2000flows-ipv4 of run 2026-...)`.
    pub fn with_evidence(&self, info: &RunInfo, summary: &Summary) -> String {
        let id = |case: &TestCase| case.test_case.clone();
        let names = self.evidence.names(&summary.test_cases, id);
        format!("{} ({} of run {})", self.words, names.join(", "), info.id)
    }
}

impl Evidence {
    /// The names of the evidence; `name` is that of a test case.
    pub fn names(&self, all: &[TestCase], name: impl Fn(&TestCase) -> String) -> Vec<String> {
        match self {
            Evidence::Cases(places) if places.len() > NAMED => {
                vec![plural(places.len(), "test case")]
            }
            Evidence::Cases(places) => {
                let named = places.iter().filter_map(|place| all.get(*place));
                named.map(name).collect()
            }
            Evidence::Thresholds => vec!["thresholds".into()],
            Evidence::Noise => vec!["noise".into()],
        }
    }
}
