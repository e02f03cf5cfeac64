//! Shared by all measuring commands: catches signals, shows events, writes the page of the stored
//! run, prints the result in the requested format, and returns the exit code.
//!
//! A command defines what to measure and the text of its result. Start with [`carry_out`].

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Context;
use fwdlab_lab::LabError;
use fwdlab_lab::control::Control;
use fwdlab_lab::run::{Measured, Run};
use fwdlab_model::event::{Event, EventKind, RebuildRecord};
use fwdlab_model::import::ImportedRecord;
use fwdlab_model::instructions::BootRecord;
use fwdlab_model::result::{RunInfo, RunState, Summary, TrialRecord};
use fwdlab_model::stacks::Stacks;
use fwdlab_report::html::ShownFacts;
use fwdlab_report::run::{CaseProfile, Counted, Run as Shown};

use fwdlab_store::StoredRun;

use super::Global;
use crate::exit_code::{self, Code};
use crate::output::{self, Screen, Text};

/// The document of `--json`: the same at the end of a run as when it is shown later.
#[derive(serde::Serialize)]
pub(super) struct Document<'a> {
    info: &'a RunInfo,
    /// Missing or damaged parts of the stored run.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    problems: &'a [String],
    directory: &'a Path,
    #[serde(flatten)]
    summary: Option<&'a Summary>,
    trials: &'a [TrialRecord],
    rebuilds: &'a [RebuildRecord],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    boots: &'a [BootRecord],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    imported: &'a [ImportedRecord],
}

impl Document<'_> {
    pub fn new(run: &StoredRun) -> Document<'_> {
        Document {
            info: &run.info,
            problems: &run.problems,
            directory: &run.path,
            summary: run.summary.as_ref(),
            trials: &run.trials,
            rebuilds: &run.rebuilds,
            boots: &run.boots,
            imported: &run.imported,
        }
    }
}

/// Returns the text with the directory of a run and its page.
pub(super) fn kept_in(directory: &Path) -> String {
    format!(
        "saved     {}\nreport    {}",
        directory.display(),
        directory.join("report.html").display()
    )
}

/// Runs `work` until it finishes or a signal arrives, then stores and prints the outcome.
///
/// `judge` adds to the outcome before it is stored, `text` returns the result for people, and
/// `next` suggests the next step.
pub(super) fn carry_out(
    global: &Global,
    work: impl for<'a> FnOnce(
        &Path,
        &Control,
        &'a mut dyn FnMut(&Event),
    ) -> Result<(Run<'a>, Measured), LabError>,
    judge: impl FnOnce(&mut StoredRun),
    text: impl FnOnce(&Shown<'_>) -> Text,
    next: impl FnOnce(&Summary) -> Option<String>,
) -> anyhow::Result<Code> {
    let runs = global.runs_root()?;
    let control = Control::default();
    let signal = catch_signals(&control.flag())?;
    if !global.behind_a_screen {
        announce_stop()?;
    }
    let mut screen = Screen::new(global.verbosity());
    let as_stream = global.json_stream;
    let is_behind = global.behind_a_screen;
    let mut listener = |event: &Event| {
        if as_stream {
            output::stream(event);
        }
        if is_behind
            && let EventKind::RunStarted { .. } | EventKind::RunResumed { .. } = &event.kind
        {
            output::result(&event.run);
        }
        screen.show(event);
    };
    let (run, measured) = work(&runs, &control, &mut listener)?;
    let profiles = case_profiles(&measured);
    let mut summary = measured.summary.context("a run without a summary")?;
    let state = if control.is_stopped() {
        fwdlab_measure::trust::not_judged(&mut summary, "the run was interrupted");
        RunState::Interrupted
    } else {
        RunState::Finished
    };
    let mut made = StoredRun {
        path: run.path().to_owned(),
        info: run.info.clone(),
        state,
        summary: Some(summary),
        trials: measured.trials,
        rebuilds: measured.rebuilds,
        boots: measured.boots,
        imported: Vec::new(),
        problems: Vec::new(),
        cut_off: Vec::new(),
        is_protected: false,
    };
    judge(&mut made);
    let summary = made.summary.as_ref().context("a run without a summary")?;
    made.info = run.finish(summary, state, |info| {
        let shown = Shown {
            trials: &made.trials,
            rebuilds: &made.rebuilds,
            profiles: &profiles,
            ..Shown::new(info, summary)
        };
        fwdlab_report::html::page(&shown, ShownFacts::Brief)
    })?;

    if global.json {
        output::json(&Document::new(&made))?;
    } else if !global.json_stream && !is_behind {
        let shown = shown(&made, &profiles).context("a run without a summary")?;
        let level = fwdlab_report::trust::level(Some(state), Some(summary));
        output::answer(level, text(&shown));
        output::lines(&kept_in(&made.path));
        if global.verbosity() != output::Verbosity::Quiet
            && let Some(next) = next(summary)
        {
            output::note(&next);
        }
    }
    Ok(signalled(&signal).unwrap_or_else(|| exit_code::for_measurement(summary)))
}

/// Returns the exit code of a signal, if one arrived.
pub(super) fn signalled(signal: &AtomicUsize) -> Option<Code> {
    match signal.load(Ordering::Acquire) {
        0 => None,
        15 => Some(Code::Terminated),
        _ => Some(Code::Interrupted),
    }
}

/// Returns the page of a result without trials.
pub(super) fn page(info: &RunInfo, summary: &Summary) -> String {
    fwdlab_report::html::page(&Shown::new(info, summary), ShownFacts::Brief)
}

/// Returns a stored run as formats need it; `None` if it has no result.
pub(super) fn shown<'a>(run: &'a StoredRun, profiles: &'a [CaseProfile]) -> Option<Shown<'a>> {
    Some(Shown {
        trials: &run.trials,
        rebuilds: &run.rebuilds,
        profiles,
        ..Shown::new(&run.info, run.summary.as_ref()?)
    })
}

/// Returns the profiles by call path, one per test case.
pub(super) fn case_profiles(measured: &Measured) -> Vec<CaseProfile> {
    let all = measured.profiles.iter().filter_map(|made| {
        let mut boots = measured.boots.iter();
        let boot = boots.find(|boot| boot.boot == made.boot)?;
        Some(case_profile(boot, &made.through))
    });
    let samples = measured.samples.iter();
    let samples = samples.map(|(test_case, stacks)| CaseProfile {
        test_case: test_case.clone(),
        counted: Counted::Samples(stacks.clone()),
    });
    all.chain(samples).collect()
}

/// Returns the profile of a boot: instructions per frame by call path.
pub(super) fn case_profile(boot: &BootRecord, through: &Stacks) -> CaseProfile {
    CaseProfile {
        test_case: boot.test_case.clone(),
        counted: Counted::Instructions(through.per(boot.frames.into())),
    }
}

/// Catches Ctrl-C and similar signals. They stop the run, which then undoes its changes and keeps
/// its results. A hangup counts as well, unless the program was started to survive it (`nohup`).
pub(super) fn catch_signals(stop: &Arc<AtomicBool>) -> anyhow::Result<Arc<AtomicUsize>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let which = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal == SIGHUP && ignores(&status, signal) {
            continue;
        }
        signal_hook::flag::register(signal, stop.clone())?;
        signal_hook::flag::register_usize(signal, which.clone(), signal as usize)?;
    }
    Ok(which)
}

/// Prints at the first signal what the program still does, because hosts over SSH take seconds.
/// The thread sleeps until then, so that it disturbs no measurement.
fn announce_stop() -> anyhow::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            output::note("stopping  everything that was changed is being restored");
        }
    });
    Ok(())
}

/// Returns true if a process ignores this signal, according to its `/proc/PID/status`
/// (proc_pid_status(5)).
fn ignores(status: &str, signal: i32) -> bool {
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Returns a random seed, for runs without one.
pub(super) fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // 53 bits: JSON readers that store numbers as doubles get the same number
    std::hash::RandomState::new().build_hasher().finish() >> 11
}
