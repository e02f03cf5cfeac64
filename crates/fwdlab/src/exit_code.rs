//! Exit codes: the documented list, in one place.

use std::io::ErrorKind;
use std::process::{ExitCode, ExitStatus};

use fwdlab_engine::EngineError;
use fwdlab_lab::LabError;
use fwdlab_lab::vm::image::error::ImageError;
use fwdlab_model::outcome::Outcome;
use fwdlab_model::result::Summary;
use fwdlab_model::test_case::TestCase;
use fwdlab_store::StoreError;

/// How the program ended. The numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Done, everything valid.
    Done = 0,
    /// A result could not be written to standard output; or an error of ours, a bug. From `ministat` a file that cannot be opened, as its
    /// older generations have it.
    Internal = 1,
    /// Wrong use or wrong file.
    Usage = 2,
    /// The preflight failed: nothing was changed or measured.
    Preflight = 3,
    /// A host of the test bed or the DUT failed.
    TestBed = 4,
    /// Measured, but not valid; stored and explained.
    NotValid = 5,
    /// A limit of `--fail-if`, or a threshold of a campaign, was broken.
    LimitBroken = 6,
    /// Some test cases failed, the others are good.
    SomeFailed = 7,
    /// Interrupted; everything was undone.
    Interrupted = 130,
    /// Terminated; everything was undone.
    Terminated = 143,
    /// Wrong use of `pkt-gen`, as the original has it.
    PktGen = 255,
}

impl Code {
    /// What kind of end it is, in a word, for programs.
    pub fn kind(self) -> &'static str {
        match self {
            Code::Done => "done",
            Code::Internal => "internal",
            Code::Usage => "usage",
            Code::Preflight => "preflight",
            Code::TestBed => "test_bed",
            Code::NotValid => "not_valid",
            Code::LimitBroken => "limit_broken",
            Code::SomeFailed => "some_failed",
            Code::Interrupted => "interrupted",
            Code::Terminated => "terminated",
            Code::PktGen => "pkt_gen_usage",
        }
    }
}

impl Code {
    /// That of a process of ours that has ended; `None`: it did not end by itself.
    pub fn of_status(status: ExitStatus) -> Option<Code> {
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

/// The code of a measurement, by one rule for all commands: what has no result, or one that noise or the generator's limit makes
/// doubtful, is not valid.
pub fn of_result(summary: &Summary) -> Code {
    let mut outcomes = summary.outcomes();
    let is_limited = |case: &TestCase| case.windows().is_some_and(|found| found.not_saturated);
    let mut cases = summary.test_cases.iter();
    let all_valid = !summary.test_cases.is_empty()
        && cases.all(|case| !case.outcomes.is_empty() && !is_limited(case))
        && !outcomes.any(Outcome::fails);
    match all_valid && summary.is_quiet() {
        true => Code::Done,
        false => Code::NotValid,
    }
}

/// The code of a campaign: that of its result, unless some of it failed and the rest is good. What noise takes from windows and slices is
/// no failure while other iterations of the test case are good.
pub fn of_campaign(summary: &Summary) -> Code {
    // by the rule of `compare --fail-if`
    if summary.thresholds.iter().any(|one| !one.failed.is_empty()) {
        return Code::LimitBroken;
    }
    if summary.thresholds.iter().any(|one| !one.passed) {
        return Code::NotValid;
    }
    let good = |case: &TestCase| case.iterations.iter().any(|one| one.failure.is_none());
    let whole = |case: &TestCase| match summary.procedure.as_str() {
        "maxfwd" | "paired" => good(case),
        _ => case.failures().next().is_none(),
    };
    let all_whole = summary.test_cases.iter().all(whole);
    match !all_whole && summary.test_cases.iter().any(good) {
        true => Code::SomeFailed,
        false => of_result(summary),
    }
}

/// The code for an error.
pub fn of(error: &anyhow::Error) -> Code {
    if let Some(error) = error.downcast_ref::<LabError>() {
        return of_lab(error);
    }
    if error.is::<fwdlab_model::units::UnitError>()
        || error.is::<fwdlab_model::file::FileError>()
        || error.is::<Usage>()
    {
        return Code::Usage;
    }
    if let Some(error) = error.downcast_ref::<EngineError>() {
        return of_engine(error);
    }
    if let Some(error) = error.downcast_ref::<StoreError>() {
        return of_store(error);
    }
    // not to be had, damaged: nothing was measured
    if error.is::<ImageError>() {
        return Code::Preflight;
    }
    // what names a file that is not there, or not to be read or written
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

/// What was typed names no run, more than one, or no file of runs: wrong use. What cannot be read, or is damaged, is not.
fn of_store(error: &StoreError) -> Code {
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

fn of_lab(error: &LabError) -> Code {
    match error {
        LabError::Configuration { .. } | LabError::File(_) => Code::Usage,
        LabError::Preflight(_) | LabError::Impossible(_) => Code::Preflight,
        LabError::Host(_) if error.is_missing_program() => Code::Preflight,
        LabError::Interrupted => Code::Interrupted,
        LabError::OnPort { why, .. } => of_lab(why),
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
        // a run that is carried out, whose directory fails
        LabError::Store(error) => match of_store(error) {
            Code::Usage => Code::Usage,
            _ => Code::TestBed,
        },
        LabError::Engine(error) => of_engine(error),
    }
}

fn of_engine(error: &EngineError) -> Code {
    match error {
        // another engine could, and this one was asked for
        EngineError::Unsupported { .. } => Code::Usage,
        EngineError::NoStamps { .. } | EngineError::TooLong { .. } | EngineError::OnlyCounts(_) => {
            Code::Preflight
        }
        _ => Code::TestBed,
    }
}

/// Wrong use, in words.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}
