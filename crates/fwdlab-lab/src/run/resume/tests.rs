//! Tests that a run which is interrupted at any event and resumed has the same result as an
//! uninterrupted run.
//!
//! A copy of the run's directory after an event is what a process leaves that is killed there.
//! Hosts are scripted, and DUTs simulated. See [`crate::site::scripted`].

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use fwdlab_model::campaign::Campaign;
use fwdlab_model::result::Summary;
use fwdlab_model::test_case::{CaseFigure, TestCase};
use fwdlab_store::{StoredRun, load};

use super::super::plan::Host;
use super::super::so_far::so_far;
use super::super::{Control, campaign, verify};
use super::*;
use crate::host::scripted::{Fails, Faults};
use crate::placement::Placement;
use crate::site::scripted::{Scene, capacity_pps, folder};

fn plan(scene: &Scene, text: &str) -> Plan {
    let host = Host {
        site: scene.site.clone(),
        placement: Placement::default(),
        privileged: false,
        kind: crate::run::plan::CAMPAIGN.into(),
        seed: 7,
        command_line: Vec::new(),
    };
    let campaign = Campaign::parse("c.toml", text).unwrap();
    let nothing = |_: &str, _, _| Err("no profiles here".to_owned());
    Plan::new(campaign, Path::new("."), host, &nothing).unwrap()
}

/// Copies a directory.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// Returns the only run in a root folder.
fn only_run(root: &Path) -> PathBuf {
    let mut runs = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    runs.find(|path| path.join("run.json").exists()).unwrap()
}

/// Carries a plan out to its end, and calls `seen` after every journalled event.
fn whole(plan: &Plan, runs: &Path, observed: impl Fn()) -> Measured {
    let mut listener = |event: &Event| {
        if !matches!(event.kind, EventKind::Progress { .. }) {
            observed();
        }
    };
    let control = Control::default();
    let (run, measured) = campaign::start(plan, runs, &control, &mut listener).unwrap();
    finish(run, &measured);
    measured
}

fn finish(run: Run<'_>, measured: &Measured) {
    let summary = measured.summary.as_ref().unwrap();
    run.finish(summary, RunState::Finished, |_| String::new())
        .unwrap();
}

/// Opens a run; waits if another test's child has inherited its files, until that has executed its
/// program.
fn opened(dir: &Path) -> Result<CutOff, LabError> {
    let started = Instant::now();
    loop {
        match reopen(dir) {
            Err(error)
                if error.to_string().contains("still running")
                    && started.elapsed() < Duration::from_secs(10) =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            opened => return opened,
        }
    }
}

fn go_on_with(plan: &Plan, dir: &Path) -> Result<Measured, LabError> {
    let cut = opened(dir)?;
    let mut listener = |_: &Event| {};
    let control = Control::default();
    let root = dir.parent().unwrap();
    let (run, measured) = campaign::go_on(plan, root, cut, &control, &mut listener)?;
    finish(run, &measured);
    Ok(measured)
}

/// Returns the result without the numbers of trials. Which windows were quiet depends on this
/// machine, so only whether there are any figures is compared for them.
fn found(measured: &Measured) -> Vec<TestCase> {
    let summary = measured.summary.as_ref().unwrap();
    let is_by_windows = summary.procedure == "maxfwd";
    let mut cases = summary.test_cases.clone();
    for case in &mut cases {
        case.iterations
            .iter_mut()
            .for_each(|one| one.trials.clear());
        if is_by_windows {
            let values = case.figures.iter().flat_map(|figure| &figure.values);
            for pps in values {
                assert!((pps / capacity_pps(0, 0) - 1.0).abs() < 0.01, "{pps}");
            }
            (case.outcomes, case.figures, case.doubt) = (Vec::new(), Vec::new(), None);
            for iteration in &mut case.iterations {
                iteration.outcomes.clear();
                let reason = iteration.failure.take();
                iteration.failure =
                    reason.filter(|reason| !reason.starts_with("too few quiet windows"));
            }
        }
    }
    cases
}

/// Damages a journal as a killed process may: not at all, a torn last line, or a lost event whose
/// trial is stored.
fn damage_journal(dir: &Path, how: usize) {
    let journal = dir.join(["events.jsonl", "trials.jsonl"][how % 2]);
    let text = fs::read(&journal).unwrap();
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let torn = match how % 3 {
        0 => text.clone(),
        1 => [&text[..], b"{\"torn\":"].concat(),
        // only the other journal contains what happened last
        _ if how.is_multiple_of(2) && lines.len() > 2 => lines[..lines.len() - 1].concat(),
        _ => text.clone(),
    };
    fs::write(&journal, torn).unwrap();
}

/// Interrupts a campaign after every event, resumes it, and compares the results. Returns how often
/// trials were interrupted.
fn cut_everywhere(scene: &Scene, text: &str) -> usize {
    let plan = plan(scene, text);
    let (runs, copies) = (folder(), folder());
    let count = RefCell::new(0);
    let measured = whole(&plan, runs.path(), || {
        let mut count = count.borrow_mut();
        let dir = only_run(runs.path());
        let root = copies.path().join(count.to_string());
        copy(&dir, &root.join(dir.file_name().unwrap()));
        *count += 1;
    });
    let right = found(&measured);
    let mut made = right.iter().flat_map(|case| &case.iterations);
    assert!(made.all(|one| one.failure.is_none()), "{right:#?}");
    let count = count.into_inner();
    assert!(count > 10, "{count}");
    let mut cut_off = 0;
    for at in 0..count {
        let dir = only_run(&copies.path().join(at.to_string()));
        damage_journal(&dir, at);
        // the last event is the end of the run, which only the head lacks
        let measured = go_on_with(&plan, &dir)
            .unwrap_or_else(|error| panic!("cut off after event {at}: {error}"));
        assert_eq!(found(&measured), right, "cut off after event {at}");
        let measured_summary = measured.summary.expect("a result");
        let warnings = &measured_summary.warnings;
        let reported = warnings.iter().any(|text| text.contains("resumed"));
        assert!(reported, "{warnings:?}");
        let stored = load(&dir).unwrap();
        assert_eq!(stored.problems, ["x"; 0], "{at}");
        assert_eq!(stored.changed_files(), ["x"; 0], "{at}");
        assert_eq!(stored.state, RunState::Finished);
        let [gap] = &stored.info.gaps[..] else {
            panic!("{:?}", stored.info.gaps);
        };
        cut_off += gap.discarded as usize;
        let marked = |reasons: &Vec<String>| reasons.iter().any(|reason| reason == CUT_OFF);
        let trials = stored.trials.iter().map(|trial| &trial.validity.reasons);
        let rebuilds = stored.rebuilds.iter().map(|one| &one.validity.reasons);
        let all = trials.chain(rebuilds).filter(|reasons| marked(reasons));
        assert_eq!(all.count(), gap.discarded as usize, "{at}");
        let again = verify::derive(&stored);
        assert_eq!(again.differences, ["x"; 0], "{at}");
        // from its journal and records alone, without its result
        assert_eq!(
            figures(&found_so_far(stored)),
            figures(&measured_summary),
            "{at}"
        );
        // nothing is left of a finished run
        let error = opened(&dir).err().unwrap().to_string();
        assert!(error.contains("is finished"), "{error}");
    }
    assert_eq!(scene.world.changes(), ["x"; 0]);
    cut_off
}

/// Interrupted again after it was resumed: every gap lists its own trials, and the result is the
/// same.
#[test]
fn a_campaign_interrupted_twice_is_resumed() {
    let scene = Scene::new(1, Faults::default());
    let plan = plan(&scene, SIMULATED);
    // each iteration has three trials
    let copy_at = |runs: &Path, copies: &Path, trials: usize| {
        let dir = only_run(runs);
        if fs::read_dir(copies).unwrap().next().is_none()
            && load(&dir).unwrap().trials.len() == trials
        {
            copy(&dir, &copies.join(dir.file_name().unwrap()));
        }
    };
    let (runs, first, second) = (folder(), folder(), folder());
    let right = found(&whole(&plan, runs.path(), || {
        copy_at(runs.path(), first.path(), 4);
    }));
    let cut = opened(&only_run(first.path())).unwrap();
    let mut listener = |event: &Event| {
        if !matches!(event.kind, EventKind::Progress { .. }) {
            copy_at(first.path(), second.path(), 6);
        }
    };
    let control = Control::default();
    let (run, measured) =
        campaign::go_on(&plan, first.path(), cut, &control, &mut listener).unwrap();
    finish(run, &measured);
    let measured = go_on_with(&plan, &only_run(second.path())).unwrap();
    assert_eq!(found(&measured), right);
    let stored = load(&only_run(second.path())).unwrap();
    let reported: Vec<(u32, u32)> = (stored.info.gaps.iter())
        .map(|gap| (gap.after, gap.discarded))
        .collect();
    assert_eq!(reported, [(4, 1), (6, 2)]);
    let marked = measured.trials.iter().filter(|t| t.validity.is_cut_off());
    assert_eq!(marked.count(), 3);
}

const SIMULATED: &str = r#"
campaign = "c"
iterations = 2
seed = 11
[bed]
engine = "sim"
dut = "capacity=1Mpps,noise=0.02"
max = "2Mpps"
[matrix]
size = [64, 512]
[procedure]
id = "mrr"
trials = 3
"#;

#[test]
fn a_simulated_campaign_resumes_from_any_interruption() {
    let scene = Scene::new(1, Faults::default());
    assert!(cut_everywhere(&scene, SIMULATED) > 5);
    // test cases that are precise enough remain so
    let until = "iterations = { until = \"±1.5%\", min = 5, max = 7 }";
    let text = SIMULATED.replace("iterations = 2", until);
    assert!(cut_everywhere(&scene, &text) > 5);
}

#[test]
fn searches_on_hosts_resume_from_any_interruption() {
    let scene = Scene::new(1, Faults::default());
    let text = r#"
campaign = "c"
iterations = 2
[matrix]
size = 64
flows = 10
[procedure]
id = "throughput"
"#;
    assert!(cut_everywhere(&scene, text) > 5);
}

#[test]
fn rebuilds_resume_from_any_interruption() {
    let scene = Scene::new(4, Faults::default());
    let text = r#"
campaign = "c"
iterations = 3
[configuration]
nat = "nft add table ip nat"
other = "nft add table ip nat"
[matrix]
configuration = ["nat", "other"]
size = 64
flows = 10
[procedure]
id = "paired"
for = "1s"
"#;
    assert!(cut_everywhere(&scene, text) > 0);
}

#[test]
fn windows_resume_from_any_interruption() {
    let scene = Scene::new(1, Faults::default());
    let text = r#"
campaign = "c"
iterations = 2
[matrix]
size = 64
flows = [1, 10]
[procedure]
id = "maxfwd"
for = "1s"
"#;
    assert_eq!(cut_everywhere(&scene, text), 0);
}

/// The trial of the iteration is valid, but a hook after it failed.
#[test]
fn an_iteration_that_a_hook_invalidated_remains_invalid() {
    let text = r#"
campaign = "c"
iterations = 2
[hooks]
after = ["hook last"]
[matrix]
size = 64
flows = 10
[procedure]
id = "maxfwd"
for = "100ms"
"#;
    let scene = Scene::new(1, Faults::default());
    whole(&plan(&scene, text), folder().path(), || {});
    let mut commands = scene.faults.commands().into_iter();
    let at = commands.position(|(_, action)| action == "hook last");
    let scene = Scene::new(1, Faults::at(at.unwrap(), Fails::Exit));
    let plan = plan(&scene, text);
    let (runs, copies) = (folder(), folder());
    let copied = RefCell::new(false);
    let failures = |measured: &Measured| -> Vec<(u32, String)> {
        let failures = measured.summary.as_ref().unwrap().test_cases[0].failures();
        let failures = failures.filter(|(_, why)| why.contains("hook last"));
        failures.map(|(n, why)| (n, why.to_owned())).collect()
    };
    let right = failures(&whole(&plan, runs.path(), || {
        let dir = only_run(runs.path());
        let is_failed = |event: &Event| match &event.kind {
            EventKind::IterationFinished { iteration, .. } => iteration.no_result == NoResult::Hook,
            _ => false,
        };
        if load(&dir).unwrap().events().iter().any(is_failed) && !copied.replace(true) {
            copy(&dir, &copies.path().join(dir.file_name().unwrap()));
        }
    }));
    assert_eq!(right.len(), 1, "{right:?}");
    let dir = only_run(copies.path());
    assert_eq!(failures(&go_on_with(&plan, &dir).unwrap()), right);
    assert_eq!(verify::derive(&load(&dir).unwrap()).differences, ["x"; 0]);
}

#[test]
fn nothing_else_may_have_changed() {
    let scene = Scene::new(1, Faults::default());
    let (runs, copies) = (folder(), folder());
    let first = plan(&scene, SIMULATED);
    let copied = RefCell::new(false);
    whole(&first, runs.path(), || {
        let dir = only_run(runs.path());
        if load(&dir).unwrap().trials.len() == 4 && !copied.replace(true) {
            copy(&dir, &copies.path().join(dir.file_name().unwrap()));
        }
    });
    let dir = only_run(copies.path());
    let refused = |text: &str, says: &str| {
        let error = go_on_with(&plan(&scene, text), &dir).err().unwrap();
        let error = error.to_string();
        assert!(
            error.contains("cannot resume") && error.contains(says),
            "{error}"
        );
    };
    refused(&format!("{SIMULATED}# other\n"), "campaign.toml");
    refused(&SIMULATED.replace("trials = 3", "trials = 4"), "`trials`");
    refused(&SIMULATED.replace("seed = 11", "seed = 12"), "the seed");
    refused(
        &SIMULATED.replace("iterations = 2", "iterations = 3"),
        "`iterations`",
    );
    let head = fs::read_to_string(dir.join("run.json")).unwrap();
    // a run that is running
    let held = opened(&dir).unwrap();
    let error = reopen(&dir).err().unwrap().to_string();
    assert!(error.contains("still running"), "{error}");
    drop(held);
    // none of these attempts changed it
    assert_eq!(fs::read_to_string(dir.join("run.json")).unwrap(), head);
    let damaged = fs::read_to_string(dir.join("trials.jsonl")).unwrap();
    fs::write(dir.join("trials.jsonl"), damaged.replacen("64", "65", 1)).unwrap();
    let error = go_on_with(&first, &dir).err().unwrap().to_string();
    assert!(error.contains("is damaged"), "{error}");
    fs::write(dir.join("trials.jsonl"), damaged).unwrap();
    go_on_with(&first, &dir).unwrap();
}

/// No test case is finished before its only turn ends.
#[test]
fn a_run_of_one_turn_is_not_resumed() {
    let scene = Scene::new(1, Faults::default());
    let (runs, copies) = (folder(), folder());
    let text = SIMULATED.replace("iterations = 2", "iterations = 1\norder = 'together'");
    let text = text.replace("size = [64, 512]", "size = 64");
    let text = text.replace("\"mrr\"\ntrials = 3", "\"throughput\"");
    whole(&plan(&scene, &text), runs.path(), || {
        let dir = only_run(runs.path());
        let copied = copies.path().join(dir.file_name().unwrap());
        if load(&dir).unwrap().trials.len() == 5 && !copied.exists() {
            copy(&dir, &copied);
        }
    });
    let dir = only_run(copies.path());
    let error = reopen(&dir).err().unwrap().to_string();
    assert!(error.contains("in one turn"), "{error}");
    // but its page shows what it found so far, and at its end what it found
    let begun = found_so_far(load(&dir).unwrap());
    let [only] = &begun.test_cases[..] else {
        panic!("{begun:?}");
    };
    assert_eq!(
        (only.iterations[0].trials.len(), only.outcomes[0].answered),
        (5, false)
    );
    let whole = load(&only_run(runs.path())).unwrap();
    let found = whole.summary.clone().unwrap();
    assert_eq!(found_so_far(whole).test_cases, found.test_cases);
}

fn figures(summary: &Summary) -> Vec<(String, Vec<CaseFigure>)> {
    let cases = summary.test_cases.iter();
    cases
        .map(|case| (case.test_case.clone(), case.figures.clone()))
        .collect()
}

/// Returns what is shown while a run has no result.
fn found_so_far(run: StoredRun) -> Summary {
    let run = StoredRun {
        summary: None,
        ..run
    };
    so_far(&run).expect("something was measured")
}
