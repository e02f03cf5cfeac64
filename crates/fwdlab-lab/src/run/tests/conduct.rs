//! Tests how campaigns are conducted: when they stop measuring, what they restart, and the user
//! commands that they run.
//!
//! All on scripted hosts, like the other whole runs here. Start with the texts of the campaigns.

use fwdlab_measure::campaign::Turn;
use fwdlab_model::campaign::{On, When};
use fwdlab_model::event::Request;
use fwdlab_model::test_case::{Enough, Iteration, NoResult};

use super::super::campaign::Running;
use super::super::conduct as conductor;
use super::*;

impl Made {
    fn notes(&self) -> Vec<&str> {
        let notes = self.events.iter().filter_map(|event| match &event.kind {
            EventKind::Note { text } => Some(text.as_str()),
            _ => None,
        });
        notes.collect()
    }

    /// Returns for each test case its number of iterations, why it ended, and the number of values.
    fn ends(&self) -> Vec<(u32, Enough, usize)> {
        let ends = self.cases().iter().map(|case| {
            let stopped = case.stopped.as_ref().expect("an interval decided");
            assert_eq!(stopped.iterations as usize, case.iterations.len());
            let values = case.figures.first().map_or(0, |figure| figure.values.len());
            (stopped.iterations, stopped.why, values)
        });
        ends.collect()
    }
}

fn with(first: &str, procedure: &str) -> String {
    format!(
        "campaign = 'c'\n{first}\n[configuration]\nnat = 'nft add table ip nat'\n[matrix]\nconfiguration = ['plain', 'nat']\nflows = 10\n\
         [procedure]\n{procedure}\n"
    )
}

const MRR: &str = "id = 'mrr'\ntrials = 1\nfor = '100ms'";

/// Scripted routers do not vary: the minimum number of iterations is enough for every kind of
/// procedure, and the control is measured as often as its test case.
#[test]
fn measuring_ends_when_the_interval_is_narrow() {
    let until = "iterations = { until = '±1%', min = 5, max = 8 }";
    let enough = (5, Enough::NarrowEnough, 5);
    for order in ["interleaved", "grouped"] {
        let first = format!("{until}\norder = '{order}'");
        let scene = Scene::new(1, Faults::default());
        let made = campaign(&scene, &with(&first, MRR));
        assert_eq!(made.ends(), [enough, enough], "{order}");
        assert_eq!(scene.world.beds(), 10);

        let scene = Scene::new(1, Faults::default());
        let made = campaign(&scene, &with(&first, "id = 'maxfwd'\nfor = '100ms'"));
        // whether windows were quiet, and so the number of iterations, depends on this machine
        let [of_first, of_second] = made.ends()[..] else {
            panic!("two test cases")
        };
        for (iterations, reason, values) in [of_first, of_second] {
            let is_right = match reason {
                Enough::NarrowEnough => values >= 5,
                Enough::JudgedAgain => (5..8).contains(&iterations),
                Enough::Maximum => iterations == 8,
                Enough::Stopped => false,
            };
            assert!(is_right, "{order}: {iterations} {reason:?} {values}");
        }
        let trials = &made.result.as_ref().unwrap().trials;
        let controls = trials.iter().filter(|trial| trial.control).count();
        assert_eq!(controls as u32, of_first.0, "{order}");

        let scene = Scene::new(4, Faults::default());
        let made = campaign(&scene, &with(&first, "id = 'paired'\nfor = '600ms'"));
        assert_eq!(made.ends(), [enough, enough], "{order}");
    }
}

/// A simulated DUT that varies: a test case that varies little ends before one that varies much,
/// which ends at the maximum.
#[test]
fn noisy_test_cases_get_more_iterations_up_to_the_limit() {
    let noisy = |noise: f64, max: u32| {
        let scene = Scene::new(1, Faults::default());
        let text = format!(
            "campaign = 'c'\nseed = 3\niterations = {{ until = '±1%', min = 5, max = {max} }}\n[bed]\nengine = 'sim'\n\
             dut = 'capacity=1e6,noise={noise},generator=4Mpps'\n[procedure]\n{MRR}\n"
        );
        campaign(&scene, &text)
    };
    let [(quiet, reason, _)] = noisy(0.002, 40).ends()[..] else {
        panic!("one test case")
    };
    assert_eq!((quiet, reason), (5, Enough::NarrowEnough));
    let [(some, reason, values)] = noisy(0.02, 60).ends()[..] else {
        panic!("one test case")
    };
    assert!(
        reason == Enough::NarrowEnough && (9..40).contains(&some),
        "{some} {reason:?}"
    );
    assert_eq!(values, some as usize);
    let most = noisy(0.02, 6);
    assert_eq!(most.ends(), [(6, Enough::Maximum, 6)]);
    let stopped = most.cases()[0].stopped.clone().unwrap();
    assert!(stopped.half_width_percent.unwrap() > 1.0 && stopped.requested_percent == 1.0);
    assert_eq!(stopped.figure, "receive rate");
}

/// Every shard of a measured campaign has the references of its test cases, and the first test case
/// with its A/A control, or whole rows, which have their own; each other test case is in one shard,
/// with all its iterations.
#[test]
fn shards_of_measured_campaigns_have_their_own_reference() {
    let windows = "id = 'maxfwd'\nfor = '100ms'";
    let slices = "id = 'paired'\nfor = '600ms'";
    for (procedure, shared) in [(MRR, 1), (windows, 1), (slices, 0)] {
        let scene = Scene::new(4, Faults::default());
        let text = with("iterations = 2", procedure).replace("flows = 10", "flows = [10, 20]");
        let shard = |words: &str| {
            let folder = folder();
            let mut plan = plan_on(scene.site.clone(), &text, folder.path());
            plan.set_shard(words.parse().unwrap())?;
            let control = Control::default();
            let made =
                carried_out(|runs, listener| campaign::start(&plan, runs, &control, listener));
            let cases = made.cases().iter();
            assert!(cases.clone().all(|case| case.iterations.len() == 2));
            let trials = &made.result.as_ref().unwrap().trials;
            let controls = trials.iter().filter(|trial| trial.control).count();
            assert_eq!(controls, if procedure == windows { 2 } else { 0 });
            Ok(cases.map(|case| case.test_case.clone()).collect::<Vec<_>>())
        };
        let [one, two]: [Vec<String>; 2] = ["1/2", "2/2"].map(|words| shard(words).unwrap());
        assert_eq!(one.len() + two.len(), 4 + shared, "{one:?} {two:?}");
        let in_both: Vec<_> = one.iter().filter(|case| two.contains(case)).collect();
        assert_eq!(in_both, one.iter().take(shared).collect::<Vec<_>>());
        for shard in [&one, &two] {
            for case in shard.iter().filter(|case| case.starts_with("nat/")) {
                assert!(shard.contains(&case.replace("nat/", "plain/")), "{shard:?}");
            }
        }
        let refused: Result<Vec<String>, String> = shard("1/3");
        let reason = refused.unwrap_err();
        assert!(reason.contains("has only 2 "), "{reason}");
    }
}

/// The reference of a shard does not wait for the precision of test cases that it does not have.
#[test]
fn the_reference_of_a_shard_is_measured_for_its_own_test_cases() {
    let scene = Scene::new(1, Faults::default());
    let until = "iterations = { until = '±1%', min = 5, max = 8 }";
    let text =
        with(until, "id = 'maxfwd'\nfor = '100ms'").replace("flows = 10", "flows = [10, 20]");
    let folder = folder();
    let mut plan = plan_on(scene.site.clone(), &text, folder.path());
    plan.set_shard("1/2".parse().unwrap()).unwrap();
    let control = Control::default();
    let made = carried_out(|runs, listener| campaign::start(&plan, runs, &control, listener));
    let [(reference, of_reference, _), (own, of_own, _)] = made.ends()[..] else {
        panic!("two test cases: {:?}", made.ends())
    };
    // whether windows were quiet, and so the number of iterations, depends on this machine
    if (of_reference, of_own) == (Enough::NarrowEnough, Enough::NarrowEnough) {
        assert!(reference < 8 || own == 8, "{reference} {own}");
    }
}

fn with_reboot(order: &str, reboot: &str) -> String {
    let first = format!("bed = 'rack'\niterations = 3\norder = '{order}'\nreboot = {reboot}");
    with(&first, MRR)
}

#[test]
fn a_group_has_one_restart_and_interleaved_every_bed_has() {
    for (order, restarts) in [("grouped", 2), ("interleaved", 6)] {
        let scene = Scene::new(1, Faults::default());
        let made = campaign(&scene, &with_reboot(order, "true"));
        assert_eq!(made.failures(), ["x"; 0], "{order}");
        assert_eq!(scene.world.restarts(), restarts, "{order}");
        let notes = made.notes();
        let reported = notes
            .iter()
            .filter(|text| text.contains("the DUT was restarted in"));
        assert_eq!(reported.count(), restarts, "{notes:?}");
        let (figures, wrong) = check_plain_and_nat(&made);
        assert_eq!((figures, wrong), (6, Vec::new()));
        assert_eq!(scene.world.changes(), ["x"; 0]);
    }
    let scene = Scene::new(1, Faults::default());
    let made = campaign(
        &scene,
        &with_reboot("grouped", "true").replace(MRR, "id = 'maxfwd'\nfor = '100ms'"),
    );
    assert_eq!(
        (made.failures(), scene.world.restarts()),
        (Vec::new(), 3),
        "a control is a group"
    );
}

pub(super) fn check_plain_and_nat(made: &Made) -> Checked {
    let checked = made.cases().iter().map(|case| {
        let right = capacity_pps(usize::from(case.case.configuration == "nat"), 0);
        let values = case.figures.iter().flat_map(|figure| &figure.values);
        let each = values.map(|rate| check(&case.test_case, Some(*rate), right, 0.01));
        let (figures, wrong): (Vec<_>, Vec<_>) = each.unzip();
        (figures.iter().sum::<usize>(), wrong.concat())
    });
    let (figures, wrong): (Vec<_>, Vec<_>) = checked.unzip();
    (figures.iter().sum(), wrong.concat())
}

/// The DUT is restarted as often as the campaign permits; then its group fails, and the next one
/// finds it back.
#[test]
fn a_restart_without_return_costs_its_group_and_not_the_campaign() {
    let scene = Scene::new(1, Faults::default());
    scene.world.never_returns(0..2);
    let made = campaign(
        &scene,
        &with_reboot("grouped", "{ within = '1s', retries = 1 }"),
    );
    let [plain, nat] = made.cases() else {
        panic!("{:?}", made.cases())
    };
    let failures: Vec<(u32, &str)> = plain.failures().collect();
    assert_eq!(failures.len(), 3, "{failures:?}");
    for (_, reason) in &failures {
        assert!(
            reason.contains("did not come back from its restart in 2 tries"),
            "{reason}"
        );
    }
    // the first iteration and those that only inherit the loss
    let kinds: Vec<NoResult> = plain.iterations.iter().map(|one| one.no_result).collect();
    assert_eq!(kinds, [NoResult::DidNotBoot; 3]);
    assert!(plain.figures.is_empty() && nat.failures().next().is_none());
    assert_eq!(nat.figures[0].values.len(), 3);
    let warnings = made.warnings();
    let tries = warnings
        .iter()
        .filter(|text| text.contains("restart of the DUT, try"));
    assert_eq!(tries.count(), 2, "{warnings:?}");
    // the lost group does not restart it again, and the other one does
    assert_eq!(scene.world.restarts(), 1);

    // the DUT came back at the second attempt
    let scene = Scene::new(1, Faults::default());
    scene.world.never_returns(0..1);
    let made = campaign(
        &scene,
        &with_reboot("grouped", "{ within = '1s', retries = 1 }"),
    );
    assert_eq!(made.failures(), ["x"; 0]);
    assert_eq!(scene.world.restarts(), 2);
}

pub(super) const HOOKS: &str = r#"
campaign = "hooked"
iterations = 1
[hooks]
before = ["hook first", { command = "hook trial", on = "generator", every = "trial" }]
during = { command = "hook beside", on = "dut" }
after = ["hook last", { command = "hook of the trial", every = "trial" }, { command = "true", on = "controller", every = "campaign" }]
[configuration]
nat = "nft add table ip nat"
[matrix]
configuration = ["plain", "nat"]
flows = 10
[procedure]
id = "mrr"
trials = 1
for = "100ms"
"#;

#[test]
fn hooks_run_before_during_and_after_their_scope() {
    for (text, trials) in [(HOOKS.to_owned(), 2), (by_windows(), 3)] {
        let scene = Scene::new(1, Faults::default());
        let made = campaign(&scene, &text);
        assert_eq!(made.failures(), ["x"; 0]);
        assert_eq!(scene.world.unknown(), ["x"; 0]);
        let run = made.events[0].run.clone();
        let ran = scene.world.hooks();
        let one: Vec<&str> = ran[..5].iter().map(String::as_str).collect();
        let reported = |line: &str, begin: &str, words: &[&str]| {
            assert!(line.starts_with(begin), "{ran:#?}");
            for word in words.iter().chain(&[format!("FWDLAB_RUN={run}").as_str()]) {
                assert!(line.contains(word), "{word} in {ran:#?}");
            }
        };
        let case = "FWDLAB_ITERATION=1";
        reported(one[0], "router1: hook first [", &[case]);
        reported(
            one[1],
            "tester1: hook trial [",
            &["FWDLAB_TRIAL=1 FWDLAB_LOAD="],
        );
        reported(
            one[2],
            "router1: hook beside [",
            &[
                "FWDLAB_TRIAL=1 FWDLAB_LOAD=",
                "FWDLAB_FLOWS=10",
                "/64B-10flows-ipv4",
            ],
        );
        reported(one[3], "router1: hook of the trial [", &["FWDLAB_TRIAL=1"]);
        reported(one[4], "router1: hook last [", &[case]);
        assert!(!one[0].contains("FWDLAB_TRIAL"), "{ran:#?}");
        assert_eq!(ran.len(), 5 * trials, "{ran:#?}");
        // not by a clock: the hook sees frames because the first ones have left by then
        for line in ran.iter().filter(|line| line.contains("hook beside")) {
            assert!(!line.ends_with(" after 0 frames"), "{line}");
        }
        let records = made.hooks();
        assert_eq!(records.len(), 5 * trials + 1);
        let during = records.iter().find(|one| one.when == When::During).unwrap();
        assert_eq!(
            (during.on, during.host.as_str(), during.trial),
            (On::Dut, "router1", Some(1))
        );
        assert_eq!(
            (during.output.as_str(), during.status.as_str()),
            ("hook beside was here\n", "exit status: 0")
        );
        assert!(
            records
                .iter()
                .all(|one| one.failure.is_none() && one.started_at.is_some())
        );
        let last = records.last().unwrap();
        assert_eq!(
            (last.command.as_str(), last.on, last.test_case.as_ref()),
            ("true", On::Controller, None)
        );
    }
}

pub(super) fn by_windows() -> String {
    HOOKS.replace("id = \"mrr\"\ntrials = 1", "id = \"maxfwd\"")
}

/// Makes the first command that begins like this hook fail in this way.
fn failing(text: &str, hook: &str, how: Fails) -> (Scene, Made) {
    let whole = Scene::new(1, Faults::default());
    campaign(&whole, text);
    let requested = whole.faults.commands();
    let at = requested
        .iter()
        .position(|(_, action)| action == hook)
        .unwrap();
    let scene = Scene::new(1, Faults::at(at, how));
    let made = campaign(&scene, text);
    assert_eq!(scene.faults.commands()[at].1, hook);
    (scene, made)
}

#[test]
fn a_failed_hook_invalidates_its_scope() {
    for text in [HOOKS.to_owned(), by_windows()] {
        // a trial is repeated, and the iteration is complete
        for hook in ["hook trial", "hook of the trial", "hook beside"] {
            let (_, made) = failing(&text, hook, Fails::Exit);
            assert_eq!(made.failures(), ["x"; 0], "{hook}");
            let trials = &made.result.as_ref().unwrap().trials;
            let invalid: Vec<_> = trials.iter().filter(|t| !t.validity.is_valid()).collect();
            let [one] = invalid[..] else {
                panic!("{hook}: {invalid:#?}")
            };
            let reasons = one.validity.reasons.join("; ");
            assert!(
                reasons.contains("hook ") && reasons.contains(hook),
                "{reasons}"
            );
            assert!(reasons.contains("exit status: 2"), "{reasons}");
            let records = made.hooks();
            let failed: Vec<_> = records.iter().filter(|one| one.failure.is_some()).collect();
            assert_eq!(failed.len(), 1, "{failed:#?}");
        }
        // an iteration fails with its reason, and the other test cases do not
        for (hook, when) in [("hook first", "hook before"), ("hook last", "hook after")] {
            for how in [Fails::Exit, Fails::TimedOut] {
                let (scene, made) = failing(&text, hook, how);
                let failures = made.failures();
                let [why] = &failures[..] else {
                    panic!("{hook}: {failures:?}")
                };
                assert!(
                    why.starts_with(when) && why.contains(how.words()[0]),
                    "{why}"
                );
                let is_lost = |case: &&TestCase| case.failures().any(|(_, of)| of == why);
                let lost = made.cases().iter().find(is_lost).expect("one is");
                assert!(lost.figures.is_empty(), "{hook}: its figures do not count");
                // hooks after run even if others failed
                let ran = scene.world.hooks().join("\n");
                assert!(ran.contains("hook last"), "{ran}");
            }
        }
    }
}

/// By default, the campaign continues.
#[test]
fn a_failure_ends_the_run_if_the_campaign_says_so() {
    for text in [HOOKS.to_owned(), by_windows()] {
        let (_, made) = failing(&text, "hook first", Fails::Exit);
        assert!(made.result.is_ok() && made.failures().len() == 1);
        let text = format!("on-failure = 'end'\n{text}");
        let (_, made) = failing(&text, "hook first", Fails::Exit);
        let reason = made.result.expect_err("it ended").to_string();
        assert!(reason.contains("hook first"), "{reason}");
    }
}

/// Every method of counting that needs no guest, with the number of DUTs side by side. Guests:
/// `a_skip_is_for_the_turn_that_began_first`.
const COUNTINGS: [(usize, &str); 3] = [
    (1, MRR),
    (1, "id = 'maxfwd'\nfor = '100ms'"),
    (4, "id = 'paired'\nfor = '1s'"),
];

/// Carries a campaign out, and sends its run the requests that `when` returns for each event.
fn steered(text: &str, duts: usize, when: impl FnMut(&Event) -> &'static [Request]) -> Made {
    let scene = Scene::new(duts, Faults::default());
    let campaign = Campaign::parse("c.toml", text).unwrap();
    let nothing = |_: &str, _, _| Err("no profiles here".to_owned());
    let (folder, runs) = (folder(), folder());
    let plan = plan::Plan::new(campaign, folder.path(), host(&scene), &nothing).unwrap();
    let mut events = Vec::new();
    let mut listener = asking(runs.path(), when, &mut events);
    let control = Control::default();
    let started = campaign::start(&plan, runs.path(), &control, &mut listener);
    let result = started.map(|(_, measured)| measured);
    drop(listener);
    Made { result, events }
}

fn host(scene: &Scene) -> plan::Host {
    plan::Host {
        site: scene.site.clone(),
        placement: placement(),
        privileged: false,
        kind: plan::CAMPAIGN.into(),
        seed: 7,
        command_line: Vec::new(),
    }
}

/// Keeps events, and sends their run the requests that `when` returns.
fn asking<'a>(
    runs: &'a Path,
    mut when: impl FnMut(&Event) -> &'static [Request] + 'a,
    events: &'a mut Vec<Event>,
) -> impl FnMut(&Event) + 'a {
    use std::io::Write;
    move |event| {
        for requested in when(event) {
            let path = runs.join(&event.run).join("requests.jsonl");
            let mut file = (std::fs::OpenOptions::new().append(true).create(true))
                .open(path)
                .unwrap();
            writeln!(file, "{}", serde_json::json!({ "request": requested })).unwrap();
            // requests are read only a few times per second
            std::thread::sleep(Duration::from_millis(250));
        }
        events.push(event.clone());
    }
}

/// Returns the requests, and whether they were heeded.
fn handled_requests(made: &Made) -> Vec<(Request, bool)> {
    let reported = made.events.iter().filter_map(|event| match event.kind {
        EventKind::Steered {
            request,
            heeded: handled,
        } => Some((request, handled)),
        _ => None,
    });
    reported.collect()
}

/// Returns true for the end of a trial or rebuild that is not a control's.
fn ends(event: &Event) -> bool {
    match &event.kind {
        EventKind::TrialFinished { record } => !record.control,
        EventKind::RebuildFinished { .. } => true,
        _ => false,
    }
}

/// For every method of counting: iterations that ended before the skip keep their results, later
/// ones report that they were skipped, and other test cases are measured.
#[test]
fn a_skipped_test_case_is_marked_and_the_others_are_measured() {
    for (duts, procedure) in COUNTINGS {
        let mut text = with("iterations = 3\norder = 'grouped'", procedure);
        if procedure.contains("paired") {
            // test cases side by side are skipped together: two rows
            let row = "configuration = ['nat']\nsize = [64, 128]";
            text = text.replace("configuration = ['plain', 'nat']", row);
        }
        let duts = duts.min(3);
        let mut requested = false;
        let made = steered(&text, duts, |event| {
            let is_first = ends(event) && !requested;
            requested |= is_first;
            if is_first { &[Request::Skip] } else { &[] }
        });
        // too few windows may have been quiet: that is not a skip
        let skipped = |case: &TestCase| -> Vec<bool> {
            let failures = case.iterations.iter().map(|one| one.failure.as_deref());
            failures
                .map(|reason| reason == Some("skipped on request"))
                .collect()
        };
        let [first, second] = made.cases() else {
            panic!("two test cases")
        };
        assert_eq!(skipped(first), [false, true, true], "{procedure}");
        assert_eq!(skipped(second), [false; 3], "{procedure}");
        // the first test case is the reference of the A/A control
        let trials = &made.result.as_ref().unwrap().trials;
        assert!(trials.iter().all(|trial| !trial.control), "{procedure}");
        assert_eq!(
            handled_requests(&made),
            [(Request::Skip, true)],
            "{procedure}"
        );
    }
}

/// For every method of counting, an iteration is reported when it ends, before the next one is
/// measured.
#[test]
fn an_iteration_is_reported_when_it_ends() {
    for (duts, procedure) in COUNTINGS {
        let scene = Scene::new(duts, Faults::default());
        let made = campaign(&scene, &with("iterations = 2", procedure));
        let (mut reported, mut measured) = (BTreeMap::new(), 0);
        for event in &made.events {
            match &event.kind {
                EventKind::IterationFinished {
                    test_case,
                    iteration,
                } => {
                    // only the first report of each: the end of the run may repeat it
                    let key = (iteration.iteration, test_case.clone());
                    reported.entry(key).or_insert(measured);
                }
                EventKind::TrialFinished { .. } | EventKind::RebuildFinished { .. } => {
                    measured += 1;
                }
                _ => {}
            }
        }
        let when = |number: u32| {
            let of_it = reported.iter().filter(move |((one, _), _)| *one == number);
            of_it.map(|(_, measured)| *measured)
        };
        assert_eq!(reported.len(), 2 * made.cases().len(), "{procedure}");
        assert!(when(1).max() < when(2).min(), "{procedure}: {reported:?}");
    }
}

#[test]
fn a_paused_run_measures_nothing_until_it_is_resumed() {
    for (duts, procedure) in COUNTINGS {
        let text = with("iterations = 2\norder = 'grouped'", procedure);
        let mut requested = 0;
        let made = steered(&text, duts, |event| match &event.kind {
            // the run reports it while it waits
            EventKind::Steered {
                request: Request::Pause,
                heeded: true,
            } => &[Request::Resume],
            _ if ends(event) => {
                requested += 1;
                if requested == 1 {
                    &[Request::Pause]
                } else {
                    &[]
                }
            }
            _ => &[],
        });
        assert_eq!(
            handled_requests(&made),
            [(Request::Pause, true), (Request::Resume, true)],
            "{procedure}"
        );
        let mut trials = (made.events.iter().enumerate()).filter(|(_, event)| ends(event));
        let second = trials.nth(1).map(|(at, _)| at);
        let resumed = made.events.iter().position(|event| {
            matches!(
                event.kind,
                EventKind::Steered {
                    request: Request::Resume,
                    ..
                }
            )
        });
        assert!(resumed < second, "{procedure}: {:#?}", made.events);
        assert_eq!(made.failures(), ["x"; 0], "{procedure}");
    }
}

#[test]
fn a_stop_request_ends_a_run_in_order() {
    for (duts, procedure) in COUNTINGS {
        let text = with("iterations = 4", procedure);
        let mut requested = 0;
        let made = steered(&text, duts, |event| {
            requested += u32::from(ends(event));
            match ends(event) && requested == 2 {
                true => &[Request::Stop],
                false => &[],
            }
        });
        let measured = made.result.as_ref().unwrap();
        let trials = measured
            .trials
            .iter()
            .filter(|trial| !trial.control)
            .count();
        let ended = trials + measured.rebuilds.len();
        assert!((2..=3).contains(&ended), "{procedure}: {ended}");
        assert_eq!(
            handled_requests(&made),
            [(Request::Stop, true)],
            "{procedure}"
        );
    }
}

/// A method of counting whose turns overlap, as guests do: the last one that began ends first.
#[derive(Default)]
struct Overlapping {
    running: Vec<conductor::Work>,
    /// How many turns were in progress when each began.
    parallel: Vec<usize>,
    fails: bool,
    /// It measures only this shard, and doubles the iterations.
    shard: Option<&'static str>,
}

impl conductor::Method for Overlapping {
    fn has_room(&self, under_way: usize) -> bool {
        under_way < 3
    }

    fn measure(
        &mut self,
        work: &conductor::Work,
        _: &mut Running<'_>,
        run: &mut Run<'_>,
        _: &mut Measured,
    ) -> Result<Option<conductor::Made>, LabError> {
        self.parallel.push(self.running.len());
        self.running.push(work.clone());
        run.warn(format!("began {}", self.running.len()))?;
        Ok(None)
    }

    fn wait(
        &mut self,
        running: &mut Running<'_>,
        _: &mut Run<'_>,
        _: &mut Measured,
    ) -> Option<(Turn, Result<conductor::Made, LabError>)> {
        running.control.is_stopped();
        let stopped = self.running.iter().position(|one| one.control.is_stopped());
        let work = match stopped {
            Some(at) => self.running.remove(at),
            None => self.running.pop()?,
        };
        let made = match (stopped, self.fails) {
            (Some(_), _) => conductor::Made::failed(LabError::Interrupted),
            (None, true) => conductor::Made::failed(LabError::Preflight("no boot".into())),
            (None, false) => conductor::Made::one(
                work.turn.case,
                Iteration {
                    iteration: work.turn.iteration,
                    ..Iteration::default()
                },
            ),
        };
        Some((work.turn, Ok(made)))
    }

    fn wants_more(&mut self, _: &Running<'_>) -> bool {
        self.shard.is_some()
    }
}

/// Runs three test cases with two iterations each, three turns at a time. Returns the results and
/// the events.
fn overlapping(
    method: &mut Overlapping,
    when: impl FnMut(&Event) -> &'static [Request],
) -> (Vec<Vec<Option<String>>>, Vec<Event>) {
    let scene = Scene::new(1, Faults::default());
    let text = format!(
        "campaign = 'c'\niterations = 2\norder = 'grouped'\n[matrix]\nflows = [1, 2, 3]\n[procedure]\n{MRR}\n"
    );
    let campaign = Campaign::parse("c.toml", &text).unwrap();
    let nothing = |_: &str, _, _| Err("no profiles here".to_owned());
    let (folder, runs) = (folder(), folder());
    let mut plan = plan::Plan::new(campaign, folder.path(), host(&scene), &nothing).unwrap();
    if let Some(shard) = method.shard {
        plan.set_shard(shard.parse().unwrap()).unwrap();
    }
    let mut events = Vec::new();
    let mut listener = asking(runs.path(), when, &mut events);
    let control = Control::default();
    let (agenda, info) = campaign::prepared(&plan, runs.path(), &control).unwrap();
    let mut run = Run::create(info, &plan.host.site, runs.path(), &control, &mut listener).unwrap();
    let mut running = Running::new(&plan, &agenda, &control);
    let mut measured = Measured::default();
    running.conduct(method, &mut run, &mut measured).unwrap();
    let made = running.made.iter().map(|made| {
        let failures = made.iter().map(|one| one.failure.clone());
        failures.collect()
    });
    let made = made.collect();
    drop((running, run));
    drop(listener);
    (made, events)
}

#[test]
fn a_shard_doubles_its_own_iterations_only() {
    let mut method = Overlapping {
        shard: Some("2/2"),
        ..Overlapping::default()
    };
    let (made, _) = overlapping(&mut method, |_| &[]);
    assert_eq!(made.iter().map(Vec::len).collect::<Vec<_>>(), [4, 0, 4]);
}

#[test]
fn a_skip_is_for_the_turn_that_began_first() {
    let mut requested = false;
    let mut method = Overlapping::default();
    let (made, _) = overlapping(&mut method, |event| match &event.kind {
        EventKind::Warning { text } if text == "began 3" && !requested => {
            requested = true;
            &[Request::Skip]
        }
        _ => &[],
    });
    // both turns of the first test case were in progress
    let skipped = Some("skipped on request".to_owned());
    assert_eq!(made[0], [skipped.clone(), skipped]);
    assert_eq!(made[1..], [vec![None, None], vec![None, None]]);
    assert_eq!(method.parallel.iter().max(), Some(&2));

    // all turns in progress end, and are reported
    let mut method = Overlapping {
        fails: true,
        ..Overlapping::default()
    };
    let (made, _) = overlapping(&mut method, |_| &[]);
    let failed = Some("no boot".to_owned());
    assert_eq!(made, vec![vec![failed.clone(), failed]; 3]);
}

#[test]
fn turns_that_are_under_way_end_while_a_run_is_paused() {
    let (mut started, mut ended) = (0, 0);
    let mut at_resume = None;
    let mut method = Overlapping::default();
    let (made, events) = overlapping(&mut method, |event| match &event.kind {
        EventKind::Warning { .. } => {
            started += 1;
            if started == 3 { &[Request::Pause] } else { &[] }
        }
        EventKind::IterationFinished { .. } => {
            ended += 1;
            if ended == 3 { &[Request::Resume] } else { &[] }
        }
        EventKind::Steered {
            request: Request::Resume,
            ..
        } => {
            at_resume = Some((started, ended));
            &[]
        }
        _ => &[],
    });
    assert_eq!(at_resume, Some((3, 3)), "{events:#?}");
    assert_eq!(made, vec![vec![None, None]; 3]);
}

/// The load was found while the DUT was slow. An iteration that it does not overload is a lower
/// bound, and the next one searches again.
#[test]
fn a_load_that_overloads_no_more_is_searched_again() {
    let text = |procedure: &str| {
        format!("campaign = 'c'\niterations = 3\n[matrix]\nflows = 10\n[procedure]\n{procedure}\n")
    };
    let loads = |made: &Made| -> Vec<f64> {
        let found = made.events.iter().filter_map(|event| match &event.kind {
            EventKind::LoadFound { load_pps, .. } => *load_pps,
            _ => None,
        });
        found.collect()
    };
    // two looks find the overload of a million frames
    let scene = Scene::new(1, Faults::default());
    scene.world.speeds_up_after(2, 2.5);
    let made = campaign(&scene, &text(MRR));
    assert_eq!(loads(&made), [1.6e6, 4e6]);
    let figure = &made.cases()[0].figures[0];
    assert_eq!(figure.generator_limited, 1, "{figure:?}");
    assert_eq!((figure.values[0] / 1e5).round(), 16.0, "{figure:?}");
    let others = figure.values[1..].iter();
    assert!(
        others.clone().all(|pps| (pps / 2.5e6 - 1.0).abs() < 0.01),
        "{figure:?}"
    );

    // windows repeat the trial at once
    let scene = Scene::new(1, Faults::default());
    scene.world.speeds_up_after(2, 2.5);
    let made = campaign(&scene, &text("id = 'maxfwd'\nfor = '100ms'"));
    assert_eq!(loads(&made), [1.6e6, 4e6]);
    let trials = &made.result.as_ref().unwrap().trials;
    let reasons = &trials[0].validity.reasons;
    assert!(
        reasons[0].contains("does not overload the DUT any more"),
        "{reasons:?}"
    );
    assert_eq!((trials[0].iteration, trials[1].iteration), (1, 1));
    assert!(trials[1].validity.is_valid() && !trials[1].not_saturated);
}

/// Slices compare overloaded DUTs only: a rebuild in which one forwards all of the load does not
/// count, and the load is raised.
#[test]
fn slices_raise_a_load_that_one_of_the_duts_forwards() {
    let scene = Scene::new(4, Faults::default());
    scene.world.speeds_up_after(2, 2.5);
    let text = with("iterations = 5", "id = 'paired'\nfor = '600ms'");
    let made = campaign(&scene, &text);
    let rebuilds = &made.result.as_ref().unwrap().rebuilds;
    let reasons: Vec<String> = rebuilds
        .iter()
        .map(|one| one.validity.reasons.join("; "))
        .collect();
    assert!(
        reasons[0].contains("so it was not overloaded"),
        "{reasons:?}"
    );
    // each time to what the fastest DUT was seen to forward
    let enough = &reasons[2..];
    assert!(
        !enough.is_empty() && enough.iter().all(String::is_empty),
        "{reasons:?}"
    );
}
