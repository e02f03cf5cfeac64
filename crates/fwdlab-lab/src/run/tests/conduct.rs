//! How campaigns are conducted: until when they measure, what they restart, and the commands of users that they run.
//!
//! All on scripted hosts, as the other whole runs here. Start with the texts of the campaigns.

use fwdlab_model::campaign::{On, When};
use fwdlab_model::event::Request;
use fwdlab_model::test_case::Enough;

use super::*;

impl Made {
    fn notes(&self) -> Vec<&str> {
        let notes = self.events.iter().filter_map(|event| match &event.kind {
            EventKind::Note { text } => Some(text.as_str()),
            _ => None,
        });
        notes.collect()
    }

    /// How often each test case was measured, why no oftener, and how many values there are.
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

/// Routers of values do not vary: the fewest iterations are enough, by every kind of procedure, and the control is measured as often as
/// what it controls.
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
        // whether windows were quiet is this machine's doing, and how many iterations that takes
        let [of_first, of_second] = made.ends()[..] else {
            panic!("two test cases")
        };
        for (iterations, why, values) in [of_first, of_second] {
            let is_right = match why {
                Enough::NarrowEnough => values >= 5,
                Enough::JudgedAgain => (5..8).contains(&iterations),
                Enough::Maximum => iterations == 8,
                Enough::BrokenOff => false,
            };
            assert!(is_right, "{order}: {iterations} {why:?} {values}");
        }
        let trials = &made.result.as_ref().unwrap().trials;
        let controls = trials.iter().filter(|trial| trial.control).count();
        assert_eq!(controls as u32, of_first.0, "{order}");

        let scene = Scene::new(4, Faults::default());
        let made = campaign(&scene, &with(&first, "id = 'paired'\nfor = '600ms'"));
        assert_eq!(made.ends(), [enough, enough], "{order}");
    }
}

/// A simulated DUT that varies: what varies little ends before what varies much, and that at the maximum.
#[test]
fn what_varies_is_measured_oftener_and_no_oftener_than_it_may_be() {
    let noisy = |noise: f64, max: u32| {
        let scene = Scene::new(1, Faults::default());
        let text = format!(
            "campaign = 'c'\nseed = 3\niterations = {{ until = '±1%', min = 5, max = {max} }}\n[bed]\nengine = 'sim'\n\
             dut = 'capacity=1e6,noise={noise},generator=4Mpps'\n[procedure]\n{MRR}\n"
        );
        campaign(&scene, &text)
    };
    let [(quiet, why, _)] = noisy(0.002, 40).ends()[..] else {
        panic!("one test case")
    };
    assert_eq!((quiet, why), (5, Enough::NarrowEnough));
    let [(some, why, values)] = noisy(0.02, 60).ends()[..] else {
        panic!("one test case")
    };
    assert!(
        why == Enough::NarrowEnough && (9..40).contains(&some),
        "{some} {why:?}"
    );
    assert_eq!(values, some as usize);
    let most = noisy(0.02, 6);
    assert_eq!(most.ends(), [(6, Enough::Maximum, 6)]);
    let stopped = most.cases()[0].stopped.clone().unwrap();
    assert!(stopped.half_width_percent.unwrap() > 1.0 && stopped.wanted_percent == 1.0);
    assert_eq!(stopped.figure, "receive rate");
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
        let told = notes
            .iter()
            .filter(|text| text.contains("the DUT was restarted in"));
        assert_eq!(told.count(), restarts, "{notes:?}");
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

fn check_plain_and_nat(made: &Made) -> Checked {
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

/// It is told to restart as often as the campaign says, and costs its group; the next one finds it back.
#[test]
fn a_restart_without_return_costs_its_group_and_not_the_campaign() {
    let scene = Scene::new(1, Faults::default());
    scene.world.stays_away(0..2);
    let made = campaign(
        &scene,
        &with_reboot("grouped", "{ within = '1s', retries = 1 }"),
    );
    let [plain, nat] = made.cases() else {
        panic!("{:?}", made.cases())
    };
    let failures: Vec<(u32, &str)> = plain.failures().collect();
    assert_eq!(failures.len(), 3, "{failures:?}");
    for (_, why) in &failures {
        assert!(
            why.starts_with("the DUT did not come back from its restart in 2 tries"),
            "{why}"
        );
    }
    assert!(plain.figures.is_empty() && nat.failures().next().is_none());
    assert_eq!(nat.figures[0].values.len(), 3);
    let warnings = made.warnings();
    let tries = warnings
        .iter()
        .filter(|text| text.contains("restart of the DUT, try"));
    assert_eq!(tries.count(), 2, "{warnings:?}");
    // the group that is lost asks no more, and the other one is restarted
    assert_eq!(scene.world.restarts(), 1);

    // once it came back after all
    let scene = Scene::new(1, Faults::default());
    scene.world.stays_away(0..1);
    let made = campaign(
        &scene,
        &with_reboot("grouped", "{ within = '1s', retries = 1 }"),
    );
    assert_eq!(made.failures(), ["x"; 0]);
    assert_eq!(scene.world.restarts(), 2);
}

const HOOKS: &str = r#"
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
fn hooks_run_around_and_beside_what_they_belong_to() {
    for (text, trials) in [(HOOKS.to_owned(), 2), (by_windows(), 3)] {
        let scene = Scene::new(1, Faults::default());
        let made = campaign(&scene, &text);
        assert_eq!(made.failures(), ["x"; 0]);
        assert_eq!(scene.world.unknown(), ["x"; 0]);
        let run = made.events[0].run.clone();
        let ran = scene.world.hooks();
        let one: Vec<&str> = ran[..5].iter().map(String::as_str).collect();
        let told = |line: &str, begin: &str, words: &[&str]| {
            assert!(line.starts_with(begin), "{ran:#?}");
            for word in words.iter().chain(&[format!("FWDLAB_RUN={run}").as_str()]) {
                assert!(line.contains(word), "{word} in {ran:#?}");
            }
        };
        let case = "FWDLAB_ITERATION=1";
        told(one[0], "router1: hook first [", &[case]);
        told(
            one[1],
            "tester1: hook trial [",
            &["FWDLAB_TRIAL=1 FWDLAB_LOAD="],
        );
        told(
            one[2],
            "router1: hook beside [",
            &[
                "FWDLAB_TRIAL=1 FWDLAB_LOAD=",
                "FWDLAB_FLOWS=10",
                "/64B-10flows-ipv4",
            ],
        );
        told(one[3], "router1: hook of the trial [", &["FWDLAB_TRIAL=1"]);
        told(one[4], "router1: hook last [", &[case]);
        assert!(!one[0].contains("FWDLAB_TRIAL"), "{ran:#?}");
        assert_eq!(ran.len(), 5 * trials, "{ran:#?}");
        // not by a clock: its first frames have left by then
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

fn by_windows() -> String {
    HOOKS.replace("id = \"mrr\"\ntrials = 1", "id = \"maxfwd\"")
}

/// Wherever it is and whoever fails, a hook among them: told, with nothing left and no wrong figure.
#[test]
fn whatever_fails_wherever_beside_hooks_is_told_and_no_figure_is_wrong() {
    let check = |measured: &Measured| {
        let made = Made {
            result: Ok(Measured {
                summary: measured.summary.clone(),
                ..Measured::default()
            }),
            events: Vec::new(),
        };
        check_plain_and_nat(&made)
    };
    for text in [HOOKS.to_owned(), by_windows()] {
        let make = |scene: &Scene| campaign(scene, &text);
        let tried = fail_everywhere(|faults| Scene::new(1, faults), &SOME, make, check);
        assert!(tried.of.contains("hook"), "{:?}", tried.of);
    }
}

/// The first command of a hook that begins so fails in this way.
fn failing(text: &str, hook: &str, how: Fails) -> (Scene, Made) {
    let whole = Scene::new(1, Faults::default());
    campaign(&whole, text);
    let asked = whole.faults.asked();
    let at = asked.iter().position(|(_, what)| what == hook).unwrap();
    let scene = Scene::new(1, Faults::at(at, how));
    let made = campaign(&scene, text);
    assert_eq!(scene.faults.asked()[at].1, hook);
    (scene, made)
}

#[test]
fn a_hook_that_fails_makes_what_it_belongs_to_invalid() {
    for text in [HOOKS.to_owned(), by_windows()] {
        // a trial is made again, and the iteration is whole
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
        // an iteration is lost with its reason, and the other test cases are not
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
                // what comes after runs whatever came of the rest
                let ran = scene.world.hooks().join("\n");
                assert!(ran.contains("hook last"), "{ran}");
            }
        }
    }
}

/// Carries a campaign out while somebody asks this of its run after every event that `when` says.
fn steered(text: &str, mut when: impl FnMut(&Event) -> &'static [Request]) -> Made {
    use std::io::Write;

    // as many DUTs as stand beside each other
    let scene = Scene::new(
        if text.contains("'paired'") { 3 } else { 1 },
        Faults::default(),
    );
    let campaign = Campaign::parse("c.toml", text).unwrap();
    let host = plan::Host {
        site: scene.site.clone(),
        placement: placement(),
        privileged: false,
        unconfined: false,
        seed: 7,
        command_line: Vec::new(),
    };
    let nothing = |_: &str, _, _| Err("no profiles here".to_owned());
    let (folder, runs) = (folder(), folder());
    let plan = plan::Plan::new(campaign, folder.path(), host, &nothing).unwrap();
    let mut events = Vec::new();
    let mut listener = |event: &Event| {
        for asked in when(event) {
            let path = runs.path().join(&event.run).join("requests.jsonl");
            let mut file = (std::fs::OpenOptions::new().append(true).create(true))
                .open(path)
                .unwrap();
            writeln!(file, "{}", serde_json::json!({ "request": asked })).unwrap();
            // it is looked for a few times a second only
            std::thread::sleep(Duration::from_millis(250));
        }
        events.push(event.clone());
    };
    let control = Control::default();
    let started = campaign::start(&plan, runs.path(), &control, &mut listener);
    let result = started.map(|(_, measured)| measured);
    Made { result, events }
}

/// What was asked, and whether it was done.
fn told(made: &Made) -> Vec<(Request, bool)> {
    let told = made.events.iter().filter_map(|event| match event.kind {
        EventKind::Steered { request, heeded } => Some((request, heeded)),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_test_case_that_is_skipped_says_so_in_every_iteration_and_the_others_are_measured() {
    for procedure in [MRR, "id = 'maxfwd'\nfor = '100ms'"] {
        let text = with("iterations = 3\norder = 'grouped'", procedure);
        let mut asked = false;
        let made = steered(&text, |event| match &event.kind {
            EventKind::TrialFinished { record } if !asked && !record.control => {
                asked = true;
                &[Request::Skip]
            }
            _ => &[],
        });
        let cases = made.cases();
        let skipped = |case: &TestCase| {
            let failures = case.iterations.iter().map(|one| one.failure.as_deref());
            failures
                .filter(|why| *why == Some("skipped on request"))
                .count()
        };
        let of_first = skipped(&cases[0]);
        assert_eq!((of_first, cases[0].iterations.len()), (3, 3), "{procedure}");
        assert_eq!((skipped(&cases[1]), cases[1].iterations.len()), (0, 3));
        assert_eq!(told(&made), [(Request::Skip, true)], "{procedure}");
    }
}

/// A rebuild that had ended keeps its result; later ones of the row are skipped, and the next row is measured.
#[test]
fn test_cases_by_slices_are_skipped_together() {
    let text = "campaign = 'c'\niterations = 3\norder = 'grouped'\n[configuration]\nnat = 'nft add table ip nat'\n[matrix]\n\
                configuration = ['nat']\nsize = [64, 128]\nflows = 10\n[procedure]\nid = 'paired'\nfor = '1s'\n";
    let mut asked = false;
    let made = steered(text, |event| match &event.kind {
        EventKind::RebuildFinished { .. } if !asked => {
            asked = true;
            &[Request::Skip]
        }
        _ => &[],
    });
    let failures = |case: &TestCase| -> Vec<Option<String>> {
        (case.iterations.iter().map(|one| one.failure.clone())).collect()
    };
    let skipped = Some("skipped on request".to_owned());
    assert_eq!(failures(&made.cases()[0]), [None, skipped.clone(), skipped]);
    assert_eq!(failures(&made.cases()[1]), [None, None, None]);
    assert_eq!(told(&made), [(Request::Skip, true)]);
}

/// In every way of counting, an iteration is reported when it ends, before the next one is measured.
#[test]
fn an_iteration_is_reported_when_it_ends() {
    for (duts, procedure) in [
        (1, MRR),
        (1, "id = 'maxfwd'\nfor = '100ms'"),
        (4, "id = 'paired'\nfor = '1s'"),
    ] {
        let scene = Scene::new(duts, Faults::default());
        let made = campaign(&scene, &with("iterations = 2", procedure));
        let (mut reported, mut measured) = (BTreeMap::new(), 0);
        for event in &made.events {
            match &event.kind {
                EventKind::IterationFinished {
                    test_case,
                    iteration,
                } => {
                    // the first report of each: the end of the run may repeat it
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
fn a_paused_run_measures_nothing_until_it_goes_on() {
    let text = with("iterations = 2", MRR);
    let mut asked = Vec::new();
    let made = steered(&text, |event| match &event.kind {
        EventKind::TrialFinished { record } if record.trial == 1 => {
            asked.push(1);
            &[Request::Pause]
        }
        // it is told by the run while it waits
        EventKind::Steered {
            request: Request::Pause,
            heeded: true,
        } => &[Request::Resume],
        _ => &[],
    });
    assert_eq!(
        told(&made),
        [(Request::Pause, true), (Request::Resume, true)]
    );
    assert_eq!(asked, [1]);
    let before_second = made.events.iter().position(
        |event| matches!(&event.kind, EventKind::TrialFinished { record } if record.trial == 2),
    );
    let resumed = made.events.iter().position(|event| {
        matches!(
            event.kind,
            EventKind::Steered {
                request: Request::Resume,
                ..
            }
        )
    });
    assert!(resumed < before_second, "{:#?}", made.events);
    assert_eq!(made.failures(), ["x"; 0]);
}

#[test]
fn a_run_that_is_asked_to_stop_ends_in_order() {
    let text = with("iterations = 4", MRR);
    let made = steered(&text, |event| match &event.kind {
        EventKind::TrialFinished { record } if record.trial == 2 => &[Request::Stop],
        _ => &[],
    });
    let trials = made.result.as_ref().unwrap().trials.len();
    assert!((2..=3).contains(&trials), "{trials}");
    assert_eq!(told(&made), [(Request::Stop, true)]);
}

/// The load was found while the DUT was slow. An iteration that it does not overload is a lower bound, and the next one looks again.
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

/// Slices compare overloaded DUTs only: a rebuild in which one forwards all of the load does not count, and the load is raised.
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
    // each time by as much as the fastest was seen to forward
    let enough = &reasons[2..];
    assert!(
        !enough.is_empty() && enough.iter().all(String::is_empty),
        "{reasons:?}"
    );
}
