//! Exit codes: the documented list, in one place. Start with [`Code`] and [`for_error`].

use std::io::ErrorKind;
use std::process::{ExitCode, ExitStatus};

use fwdlab_engine::EngineError;
use fwdlab_lab::LabError;
use fwdlab_lab::vm::image::error::ImageError;
use fwdlab_model::outcome::Outcome;
use fwdlab_model::result::Summary;
use fwdlab_model::test_case::TestCase;
use fwdlab_store::StoreError;

/// The exit code of the program. The numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Done, all results valid.
    Done = 0,
    /// A result could not be written to standard output, or a bug of ours. From `ministat`, also a
    /// file that cannot be opened, as in its older versions.
    Internal = 1,
    /// Wrong usage or an invalid file.
    Usage = 2,
    /// The preflight failed: nothing was changed or measured.
    Preflight = 3,
    /// A host of the test bed or the DUT failed.
    TestBed = 4,
    /// Measured, but not valid; stored with the reasons.
    NotValid = 5,
    /// A limit of `--fail-if`, or a threshold of a campaign, was exceeded.
    LimitBroken = 6,
    /// Some test cases of a measurement failed, the others are valid.
    SomeFailed = 7,
    /// Interrupted; everything was undone.
    Interrupted = 130,
    /// Terminated; everything was undone.
    Terminated = 143,
    /// Wrong usage of `pkt-gen`, as in the original.
    PktGen = 255,
}

impl Code {
    /// Returns the kind of exit in a word, for programs.
    pub fn kind(self) -> &'static str {
        self.words().0
    }

    /// Returns the meaning of the code in a few words, for people.
    pub fn meaning(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Code::Done => ("done", "success, everything valid"),
            Code::Internal => (
                "internal",
                "standard output could not be written, or an internal error: a bug",
            ),
            Code::Usage => ("usage", "wrong usage or wrong file"),
            Code::Preflight => (
                "preflight",
                "the preflight check failed, nothing was measured",
            ),
            Code::TestBed => ("test_bed", "the test bed or the DUT failed"),
            Code::NotValid => (
                "not_valid",
                "measured, but not valid or too noisy; the output gives the reason",
            ),
            Code::LimitBroken => (
                "limit_broken",
                "a limit of --fail-if, or a threshold of a campaign, was exceeded",
            ),
            Code::SomeFailed => ("some_failed", "some test cases failed, the others are good"),
            Code::Interrupted => ("interrupted", "interrupted, all changes undone"),
            Code::Terminated => ("terminated", "terminated, all changes undone"),
            Code::PktGen => (
                "pkt_gen_usage",
                "wrong options of pkt-gen, as in the original",
            ),
        }
    }

    /// Returns the code of a child process; `None` if it did not exit by itself.
    pub fn for_status(status: ExitStatus) -> Option<Code> {
        let code = status.code()?;
        ALL.into_iter().find(|known| *known as i32 == code)
    }
}

/// All of them.
const ALL: [Code; 11] = [
    Code::Done,
    Code::Internal,
    Code::Usage,
    Code::Preflight,
    Code::TestBed,
    Code::NotValid,
    Code::LimitBroken,
    Code::SomeFailed,
    Code::Interrupted,
    Code::Terminated,
    Code::PktGen,
];

impl From<Code> for ExitCode {
    fn from(code: Code) -> ExitCode {
        ExitCode::from(code as u8)
    }
}

/// Returns the code of a result: it is not valid if it is missing, or if noise or the generator's
/// limit makes it doubtful.
fn for_result(summary: &Summary) -> Code {
    let mut outcomes = summary.outcomes();
    let is_limited = |case: &TestCase| case.windows().is_some_and(|found| found.not_saturated);
    let mut cases = summary.test_cases.iter();
    // a shard may have only boots of the A/A control
    let is_control = summary.test_cases.is_empty() && summary.procedure == "exact";
    let all_valid = (is_control || !summary.test_cases.is_empty())
        && cases.all(|case| !case.outcomes.is_empty() && !is_limited(case))
        && !outcomes.any(Outcome::fails);
    match all_valid && summary.is_quiet() {
        true => Code::Done,
        false => Code::NotValid,
    }
}

/// Returns the code of a measurement, by the same rule for commands and files: that of its result,
/// unless some of it failed and the rest is valid. Windows and slices lost to noise are no failure
/// if other iterations of the test case are valid.
pub fn for_measurement(summary: &Summary) -> Code {
    // by the rule of `compare --fail-if`
    if summary.thresholds.iter().any(|one| !one.failed.is_empty()) {
        return Code::LimitBroken;
    }
    let good = |case: &TestCase| case.iterations.iter().any(|one| one.failure.is_none());
    let whole = |case: &TestCase| match summary.procedure.as_str() {
        "maxfwd" | "paired" => good(case),
        _ => case.failures().next().is_none(),
    };
    let all_whole = summary.test_cases.iter().all(whole);
    // counts have no noise: a DUT without a result is at fault, even if what it would be compared
    // with is in another run
    let is_compared = summary.procedure == "exact" && !summary.thresholds.is_empty();
    match () {
        () if !all_whole && (is_compared || summary.test_cases.iter().any(good)) => {
            Code::SomeFailed
        }
        () if summary.thresholds.iter().any(|one| !one.passed) => Code::NotValid,
        () => for_result(summary),
    }
}

/// Returns the code for an error.
pub fn for_error(error: &anyhow::Error) -> Code {
    if let Some(error) = error.downcast_ref::<LabError>() {
        return for_lab(error);
    }
    if error.is::<fwdlab_model::units::UnitError>()
        || error.is::<fwdlab_model::file::FileError>()
        || error.is::<Usage>()
    {
        return Code::Usage;
    }
    if let Some(error) = error.downcast_ref::<EngineError>() {
        return for_engine(error);
    }
    if let Some(error) = error.downcast_ref::<StoreError>() {
        return for_store(error);
    }
    // image missing or damaged: nothing was measured
    if error.is::<ImageError>() {
        return Code::Preflight;
    }
    // a file that does not exist, or cannot be read or written
    let cause = error.root_cause().downcast_ref::<std::io::Error>();
    match cause.map(std::io::Error::kind) {
        Some(
            ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::AlreadyExists
            | ErrorKind::IsADirectory
            | ErrorKind::NotADirectory
            | ErrorKind::InvalidFilename,
        ) => Code::Usage,
        _ => Code::Internal,
    }
}

/// An argument that matches no run, several runs, or no file of runs is wrong usage. Data that is
/// unreadable or damaged is not.
fn for_store(error: &StoreError) -> Code {
    match error {
        StoreError::NoSuchRun { .. }
        | StoreError::Ambiguous { .. }
        | StoreError::NotARun { .. }
        | StoreError::BadLabel { .. }
        | StoreError::BadArchive { .. }
        | StoreError::StillRunning { .. }
        | StoreError::NotRunning { .. }
        | StoreError::NoRoot => Code::Usage,
        StoreError::NotBrief { .. }
        | StoreError::System { .. }
        | StoreError::Record { .. }
        | StoreError::IdTaken { .. }
        | StoreError::BadName { .. }
        | StoreError::Newer { .. }
        | StoreError::Damaged { .. } => Code::Preflight,
    }
}

fn for_lab(error: &LabError) -> Code {
    match error {
        LabError::Configuration { .. } | LabError::File(_) => Code::Usage,
        LabError::Preflight(_) | LabError::Impossible(_) => Code::Preflight,
        LabError::Host(_) if error.is_missing_program() => Code::Preflight,
        LabError::Interrupted => Code::Interrupted,
        LabError::OnPort { reason: cause, .. } => for_lab(cause),
        LabError::Daemons(_)
        | LabError::NotApplied { .. }
        | LabError::NotSet { .. }
        | LabError::DoesNotForward { .. }
        | LabError::NoAgent { .. }
        | LabError::NotReset { .. }
        | LabError::HalfDone { .. }
        | LabError::NotAsked { .. }
        | LabError::Vpp { .. }
        | LabError::Hook(_)
        | LabError::Disturbed { .. }
        | LabError::NotBack { .. }
        | LabError::NotUp { .. }
        | LabError::Machine { .. }
        | LabError::System { .. }
        | LabError::Host(_) => Code::TestBed,
        // the directory of a running measurement fails
        LabError::Store(error) => match for_store(error) {
            Code::Usage => Code::Usage,
            _ => Code::TestBed,
        },
        LabError::Engine(error) => for_engine(error),
    }
}

fn for_engine(error: &EngineError) -> Code {
    match error {
        // another engine supports it, but the user chose this one
        EngineError::Unsupported { .. } => Code::Usage,
        EngineError::NoStamps { .. } | EngineError::TooLong { .. } | EngineError::OnlyCounts(_) => {
            Code::Preflight
        }
        _ => Code::TestBed,
    }
}

/// Wrong usage, with an explanation.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A result of a procedure with a test case for each of these failures, and a threshold that
    /// lists what failed and what was not judged.
    fn code(procedure: &str, failures: &[Option<&str>], threshold: Option<[&[&str]; 2]>) -> Code {
        let case = |failure: &Option<&str>| {
            let outcome = json!({
                "frame_size_bytes": 64, "procedure": "mrr", "verdict": "", "answered": true,
                "found": {"load_pps": 1.0, "trials_pps": [1.0]},
                "compliance": {"standard": "", "shortened": []}, "trials": 1
            });
            let outcomes = match failure {
                Some(_) => json!([]),
                None => json!([outcome]),
            };
            json!({
                "test_case": "x", "configuration": "x", "figures": [], "outcomes": outcomes,
                "ip_version": "ipv4", "frame_size_bytes": 64, "flows": 1,
                "iterations": [{"iteration": 1, "outcomes": [], "failure": failure, "trials": []}]
            })
        };
        let thresholds = threshold.into_iter().map(|[failed, not_judged]| {
            let passed = failed.is_empty() && not_judged.is_empty();
            json!({
                "limit": "l", "passed": passed, "kept": 1, "failed": failed, "inconclusive": [], "not_judged": not_judged
            })
        });
        let summary = json!({
            "format": 1, "run": "r", "procedure": procedure, "test_cases": failures.iter().map(case).collect::<Vec<Value>>(),
            "thresholds": thresholds.collect::<Vec<Value>>(), "warnings": [],
            "noise": {"calibration": "", "too_noisy": false, "verdict": ""}
        });
        for_measurement(&serde_json::from_value(summary).unwrap())
    }

    #[test]
    fn a_test_case_without_a_result_is_no_inconclusive_threshold() {
        let (good, bad) = (None, Some("it panicked"));
        let [kept, exceeded, not_judged]: [Option<[&[&str]; 2]>; 3] =
            [Some([&[], &[]]), Some([&["x"], &[]]), Some([&[], &["x"]])];
        for procedure in ["mrr", "exact"] {
            let code = |failures: &[Option<&str>], threshold| code(procedure, failures, threshold);
            assert_eq!(code(&[good, good], kept), Code::Done);
            assert_eq!(code(&[good, good], not_judged), Code::NotValid);
            assert_eq!(code(&[good, bad], None), Code::SomeFailed);
            assert_eq!(code(&[good, bad], not_judged), Code::SomeFailed);
            // what is proven stays proven
            assert_eq!(code(&[good, bad], exceeded), Code::LimitBroken);
            assert_eq!(code(&[bad, bad], None), Code::NotValid);
        }
        // the base is in another run, and all that this one has is the head
        assert_eq!(code("exact", &[bad], not_judged), Code::SomeFailed);
        assert_eq!(code("mrr", &[bad], not_judged), Code::NotValid);
    }
}
