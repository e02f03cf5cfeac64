//! Tests of the whole lab on scripted hosts: procedures and campaigns from their parameters to
//! their results, without root, in simulated time; and every failure of a host at every command.
//!
//! The routers outlive their beds, and their capacity follows from their settings: a setting that
//! is not undone, or not applied as reported, shows in the figures. See [`crate::site::scripted`].

mod conduct;
mod failures;

use std::collections::BTreeSet;
use std::path::Path;

use fwdlab_model::campaign::Campaign;
use fwdlab_model::outcome::Found;
use fwdlab_model::test_case::TestCase;

use super::*;
use crate::host::scripted::{Fails, Faults};
use crate::site::scripted::{Outage, Scene, capacity_pps, folder};

fn placement() -> Placement {
    // no CPU of this machine belongs to a DUT: nothing to probe, and nothing to pin
    Placement::default()
}

/// Events and result of a run.
struct Made {
    result: Result<Measured, LabError>,
    events: Vec<Event>,
}

impl Made {
    fn warnings(&self) -> Vec<&str> {
        let warnings = self.events.iter().filter_map(|event| match &event.kind {
            EventKind::Warning { text } => Some(text.as_str()),
            _ => None,
        });
        warnings.collect()
    }

    /// Returns why iterations have no result, except that windows were not quiet: this depends on
    /// the machine whose probes are read.
    fn failures(&self) -> Vec<String> {
        let failures = self.events.iter().filter_map(|event| match &event.kind {
            EventKind::IterationFinished { iteration, .. } => iteration.failure.clone(),
            _ => None,
        });
        failures
            .filter(|reason| !reason.starts_with("too few quiet windows"))
            .collect()
    }

    /// Returns the records of hooks.
    fn hooks(&self) -> Vec<HookRecord> {
        let records = self.events.iter().filter_map(|event| match &event.kind {
            EventKind::HookFinished { record } => Some((**record).clone()),
            _ => None,
        });
        records.collect()
    }

    fn cases(&self) -> &[TestCase] {
        let measured = self.result.as_ref().expect("it was carried out");
        let summary = measured.summary.as_ref();
        &summary.expect("it was summed up").test_cases
    }
}

/// Carries out a run in a folder of its own.
fn carried_out(
    start: impl for<'a> FnOnce(
        &Path,
        &'a mut dyn FnMut(&Event),
    ) -> Result<(Run<'a>, Measured), LabError>,
) -> Made {
    let runs = folder();
    let mut events = Vec::new();
    let mut listener = |event: &Event| events.push(event.clone());
    let result = start(runs.path(), &mut listener).map(|(run, measured)| {
        let summary = measured.summary.clone().unwrap();
        run.finish(&summary, RunState::Finished, |_| String::new())
            .unwrap();
        measured
    });
    Made { result, events }
}

fn campaign(scene: &Scene, text: &str) -> Made {
    stoppable(scene, text, &Control::default())
}

fn stoppable(scene: &Scene, text: &str, control: &Control) -> Made {
    let folder = folder();
    let plan = plan_on(scene.site.clone(), text, folder.path());
    carried_out(|runs, listener| campaign::start(&plan, runs, control, listener))
}

/// Returns the plan of a campaign, whose files are created in this folder.
fn plan_on(site: Site, text: &str, folder: &Path) -> plan::Plan {
    let campaign = Campaign::parse("c.toml", text).unwrap();
    let host = plan::Host {
        site,
        placement: placement(),
        privileged: false,
        kind: plan::CAMPAIGN.into(),
        seed: 7,
        command_line: Vec::new(),
    };
    std::fs::write(folder.join("nat.nft"), "add table ip nat\n").unwrap();
    let nothing = |_: &str, _, _| Err("no profiles here".to_owned());
    plan::Plan::new(campaign, folder, host, &nothing).unwrap()
}

/// The number of guests at a time belongs to the process, not to the campaign.
#[test]
fn jobs_limit_the_guests_of_this_process_only() {
    let folder = folder();
    let text = "campaign = 'c'\n[matrix]\nimage = 'debian:x'\n[procedure]\nid = 'exact'\n";
    let mut plan = plan_on(Site::default(), text, folder.path());
    let before = plan.values();
    plan.set_jobs(1).unwrap();
    assert_eq!(plan.values(), before);
    let agenda = plan::agenda(&plan).unwrap();
    let method = method::of(&plan.campaign().procedure).method(&plan, &agenda);
    assert!(method.has_room(0) && !method.has_room(1));
}

/// A shard may continue on any machine, and in any set of CPUs; rates may not.
#[test]
fn counts_do_not_depend_on_the_cpus_of_the_host() {
    let folder = folder();
    let kept = |procedure: &str, dut_cpu: usize| {
        let text = format!("campaign = 'c'\n{procedure}");
        let mut plan = plan_on(Site::default(), &text, folder.path());
        plan.host.placement.generator_cpus = vec![dut_cpu + 1];
        plan.host.placement.dut_cpus = vec![dut_cpu];
        plan.values()
    };
    let exact = "[matrix]\nimage = 'debian:x'\n[procedure]\nid = 'exact'\n";
    assert_eq!(kept(exact, 0), kept(exact, 1));
    let rates = "[bed]\nmax = '1Mpps'\n[procedure]\nid = 'mrr'\n";
    assert_ne!(kept(rates, 0), kept(rates, 1));
}

/// Shards are joined if their guests have the same files.
#[test]
fn guests_of_every_shard_have_the_files_of_the_whole_campaign() {
    let folder = folder();
    let text = "campaign = 'c'\niterations = 1\n[configuration]\na = 'iptables -A FORWARD'\nb = 'ipset create x hash:ip'\n\
                [matrix]\nimage = 'debian:x'\nconfiguration = ['plain', 'a', 'b']\n[procedure]\nid = 'exact'\n";
    let contents = |shard: Option<&str>| {
        let mut plan = plan_on(Site::default(), text, folder.path());
        if let Some(shard) = shard {
            plan.set_shard(shard.parse().unwrap()).unwrap();
        }
        method::bursts::Contents::of(&plan).unwrap()
    };
    let whole = contents(None);
    assert!(["iptables", "ipset"].map(|word| whole.words.contains(word)) == [true; 2]);
    for shard in ["1/4", "4/4"] {
        assert_eq!(contents(Some(shard)), whole, "{shard}");
    }
}

/// Guests of an image follow each other in each iteration, because they share a boot; the control,
/// which has one for itself, is the first.
#[test]
fn guests_of_an_image_follow_each_other() {
    let folder = folder();
    let order = |order: &str| {
        let text = format!(
            "campaign = 'c'\norder = '{order}'\niterations = 3\n[configuration]\na = 'nft -f nat.nft'\nb = 'nft -f nat.nft'\n\
             [matrix]\nimage = ['debian:x', 'debian:y']\nconfiguration = ['plain', 'a', 'b']\n[procedure]\nid = 'exact'\n"
        );
        let plan = plan_on(Site::default(), &text, folder.path());
        let agenda = plan::agenda(&plan).unwrap();
        let images = agenda.turns.iter().map(|turn| {
            let (case, is_control) = agenda.measures[turn.case].subject();
            let image = plan.campaign().cases[case].image.clone().unwrap();
            (turn.iteration, image, is_control)
        });
        images.collect::<Vec<_>>()
    };
    let turns = order("interleaved");
    let mut grouped = turns.clone();
    grouped.dedup();
    // the control, the rest of its image, the other image
    assert_eq!(grouped.len(), 3 * 3, "{turns:?}");
    assert!(
        grouped
            .iter()
            .step_by(3)
            .all(|(_, _, is_control)| *is_control)
    );
    assert!(grouped.is_sorted_by_key(|(iteration, ..)| *iteration));
    // as typed
    assert!(
        order("grouped")
            .iter()
            .take(3)
            .all(|turn| *turn == (turn.0, "debian:x".into(), false))
    );
}

/// Building and restoring a bed over SSH takes most of the time of a short campaign.
#[test]
fn beds_of_hosts_over_ssh_are_in_the_estimate() {
    let (scene, folder) = (Scene::new(1, Faults::default()), folder());
    for (procedure, order, beds) in [
        ("id = 'mrr'\nfor = '1s'", "interleaved", 3),
        ("id = 'maxfwd'\nfor = '1s'", "interleaved", 6),
        ("id = 'throughput'", "together", 1),
    ] {
        let iterations = if order == "together" { 1 } else { 3 };
        let text = format!(
            "campaign = 'c'\norder = '{order}'\niterations = {iterations}\n[matrix]\nflows = 10\n[procedure]\n{procedure}\n"
        );
        let time = |site| {
            plan::agenda(&plan_on(site, &text, folder.path()))
                .unwrap()
                .time
        };
        let more = time(scene.site.clone()).saturating_sub(time(Site::default()));
        assert!(
            more >= beds * Duration::from_secs(5),
            "{procedure}: {more:?}"
        );
    }
}

/// Carries out a procedure on a simulated DUT. Returns its test cases and its trials, as they are
/// stored.
fn simulated(bed: &str, matrix: &str, procedure: &str) -> [serde_json::Value; 2] {
    let text = format!(
        "campaign = 'c'\niterations = 1\nseed = 3\n[bed]\nengine = 'sim'\n{bed}\n{matrix}\n[procedure]\n{procedure}\n"
    );
    let made = campaign(&Scene::new(1, Faults::default()), &text);
    let trials = &made.result.as_ref().unwrap().trials;
    [
        serde_json::to_value(made.cases()).unwrap(),
        serde_json::to_value(trials).unwrap(),
    ]
}

/// Verdicts of overload, events, and sweeps over the stream; `tests/procedures.rs` has the others.
#[test]
fn procedures_find_the_parameters_of_a_simulated_dut() {
    let churn = "id = 'churn'\nevent = 'x'\nload = 'LOAD'\nbefore = '2s'\nafter = '2s'\nlongest = '60s'\nrepetitions = 2";
    let [below, above] = ["500kpps", "2Mpps"].map(|load| churn.replace("LOAD", load));
    let sizes = "id = 'throughput'\nsearch = '1s'\ntrial = '1s'\n[procedure.sweep]\nparameter = 'size'\nvalues = [64, 512, 1518]";
    let silence: &[(&str, f64, f64)] = &[
        ("/deficit_s/median", 8.0, 0.01),
        ("/dips/1/first_impact_s", 0.0, 0.01),
        ("/dips/1/regained_s", 8.0, 0.01),
        ("/dips/1/blackout_s", 8.0, 0.01),
        ("/dips/1/depth", 1.0, 0.01),
    ];
    for (dut, procedure, verdict, figures) in [
        // every 100 % of overload costs 30 % of the capacity: at twice the capacity, 700,000 frames
        // per second come out, at 770,000 all
        (
            "capacity=1e6,livelock=0.3,generator=2Mpps",
            "id = 'forwarding-rate'",
            "livelock",
            &[
                ("/forwarding_rate_pps/median", 7e5, 1e3),
                ("/lower_forwarding_rate_pps", 7.7e5, 2e3),
            ][..],
        ),
        // it forwards nothing for eight seconds, whose frames are missing in overload as well as
        // below it
        ("capacity=1e6,reboot=8s,link=10Gbps", &below, "", silence),
        ("capacity=1e6,reboot=8s,link=10Gbps", &above, "", silence),
        // if the line is full, the result is a throughput; a rate in overload would be a lower
        // bound, which no sweep compares (docs/methodology.md, "Units and line rates")
        (
            "capacity=1e7,link=1Gbps",
            sizes,
            "",
            &[
                ("/points/0/median_pps", 1_488_095.0, 1.0),
                ("/points/1/median_pps", 234_962.0, 1.0),
                ("/points/2/median_pps", 81_274.0, 1.0),
            ],
        ),
    ] {
        let [cases, _] = simulated(&format!("dut = '{dut}'"), "", procedure);
        let outcome = &cases[0]["outcomes"][0];
        assert!(
            outcome["verdict"].as_str().unwrap().contains(verdict),
            "{outcome}"
        );
        for (at, value, error) in figures {
            let is = outcome["found"].pointer(at).unwrap().as_f64().unwrap();
            assert!((is - value).abs() < *error, "{at}: {outcome}");
        }
        if procedure.starts_with("id = 'churn'") {
            let by_loss = outcome["found"]["dips"][0]["by_loss_s"].is_f64();
            assert_eq!(by_loss, procedure == below, "{outcome}");
        }
    }
}

/// Loads and rates are per direction, and the DUT has one capacity for both; every hundredth frame
/// of a modified series is a broadcast.
#[test]
fn directions_and_modifiers_are_counted() {
    let [cases, trials] = simulated(
        "dut = 'capacity=1e6'\nmax = '4Mpps'",
        "[matrix]\ndirections = ['one', 'both']\nmodifier = ['none', 'broadcast']",
        "id = 'mrr'\ntrials = 1",
    );
    assert_eq!(cases.as_array().unwrap().len(), 4);
    for case in cases.as_array().unwrap() {
        let is_both = case["variant"]["both_directions"] == true;
        let capacity = if is_both { 0.5e6 } else { 1e6 };
        let rate = case["figures"][0]["median"].as_f64().unwrap();
        assert!((rate / capacity - 1.0).abs() < 1e-3, "{case}");
    }
    for trial in trials.as_array().unwrap() {
        let count = |value: &serde_json::Value| value.as_u64().unwrap();
        let sent = count(&trial["frames_sent"]);
        let is_modified = trial["variant"]["modifiers"].is_array();
        if let Some(directions) = trial["directions"].as_array() {
            let of_both = directions.iter().map(|one| count(&one["frames_sent"]));
            assert_eq!(of_both.sum::<u64>(), sent, "{trial}");
            assert!(
                is_modified || trial["frames_intended"] == 8_000_000,
                "{trial}"
            );
        }
        if is_modified {
            let additional = count(&trial["frames_additional"]);
            assert!(additional.abs_diff(sent / 99) <= 2, "{trial}");
        }
    }
}

/// A configuration that slows down every frame.
const NAT: &str = "nft add table ip nat";

fn throughput(scene: &Scene) -> Made {
    let text = format!(
        "campaign = 'throughput'\norder = 'together'\niterations = 1\nconfiguration.nat = '{NAT}'\n\
         [matrix]\nflows = 10\n[procedure]\nid = 'throughput'\n"
    );
    campaign(scene, &text)
}

/// Number of figures in a result, and a message for each wrong one.
type Checked = (usize, Vec<String>);

/// Checks that a figure is right, within this relative tolerance.
fn check(action: &str, found: Option<f64>, right: f64, more_or_less: f64) -> Checked {
    let wrong = found.filter(|found| (found / right - 1.0).abs() > more_or_less);
    let wrong = wrong.map(|found| format!("{action}: {found}, not {right}"));
    (usize::from(found.is_some()), wrong.into_iter().collect())
}

fn check_throughput(measured: &Measured) -> Checked {
    let summary = measured.summary.as_ref().unwrap();
    match summary.outcomes().next().map(|outcome| &outcome.found) {
        Some(Found::Throughput(found)) => {
            let right = capacity_pps(1, 0);
            check("throughput", found.throughput_pps, right, 0.005)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn throughput_finds_the_capacity_of_the_scripted_dut() {
    let scene = Scene::new(1, Faults::default());
    let measured = throughput(&scene).result.unwrap();
    assert_eq!(check_throughput(&measured), (1, Vec::new()));
    // every frame has a fate, by meters of all stages
    for trial in &measured.trials {
        assert!(trial.validity.is_valid(), "{:?}", trial.validity);
        assert_eq!(trial.ledger.frames_unexplained, 0);
        assert_eq!(trial.counters.chain.meters.len(), 4);
        assert_eq!(trial.engine, "arithmetic");
    }
    assert_eq!(scene.world.changes(), ["x"; 0]);
    assert_eq!(scene.world.unknown(), ["x"; 0]);
    assert!(scene.world.elapsed() > Duration::from_secs(10));
}

/// Two configurations, one of them an uploaded file, and a sweep over rules on each.
const RULES: &str = r#"
campaign = "rules"
iterations = 1
order = "grouped"
[configuration]
nat = "nat.nft"
[matrix]
configuration = ["plain", "nat"]
size = 64
flows = 10
[procedure]
id = "mrr"
trials = 1
for = "100ms"
[procedure.sweep]
parameter = "rules"
values = [0, 100]
runs = 1
"#;

/// Checks the result of a sweep over rules against the scripted routers. Returns the number of
/// values with a figure, and the wrong ones.
fn check_rules(case: &TestCase) -> Checked {
    let configurations = usize::from(case.case.configuration == "nat");
    let good = case.iterations.iter().filter(|i| i.failure.is_none());
    let (mut figures, mut wrong) = (0, Vec::new());
    for outcome in good.flat_map(|iteration| &iteration.outcomes) {
        let mut expect = |found: Option<f64>, rules: u64, of: f64, more_or_less| {
            let right = capacity_pps(configurations, rules as usize) / of;
            let action = format!("{}, {rules} rules", case.test_case);
            let (more, problem) = check(&action, found, right, more_or_less);
            figures += more;
            wrong.extend(problem);
        };
        match &outcome.found {
            Found::Sweep(found) => {
                for point in &found.points {
                    for rate in &point.runs_pps {
                        expect(Some(*rate), point.value, 1.0, 0.001);
                    }
                }
            }
            Found::Maxfwd(found) => expect(found.forwarding_rate_pps, 0, 1.0, 0.01),
            Found::Paired(found) => {
                for point in &found.points {
                    let difference = point.comparison.difference_percent;
                    let ratio = difference.map(|percent| 1.0 + percent / 100.0);
                    let rules = point.value.unwrap_or(0);
                    expect(ratio, rules, capacity_pps(0, 0), 0.01);
                }
            }
            other => panic!("{other:?}"),
        }
    }
    (figures, wrong)
}

#[test]
fn a_campaign_finds_what_rules_cost_on_each_configuration() {
    let scene = Scene::new(1, Faults::default());
    let made = campaign(&scene, RULES);
    let cases = made.cases();
    let ids: Vec<&str> = cases.iter().map(|case| case.test_case.as_str()).collect();
    assert_eq!(ids, ["plain/64B-10flows-ipv4", "nat/64B-10flows-ipv4"]);
    for case in cases {
        assert_eq!(case.failures().collect::<Vec<_>>(), []);
        let (figures, wrong) = check_rules(case);
        assert!(figures >= 2 && wrong.is_empty(), "{figures} {wrong:?}");
    }
    // each on a bed of its own, and nothing is left on the hosts
    assert_eq!(scene.world.beds(), 2);
    assert_eq!(scene.world.changes(), ["x"; 0]);
    assert_eq!(scene.world.unknown(), ["x"; 0]);
    assert_eq!(scene.registry.list().unwrap(), []);
}

/// What a DUT cannot do is tried once: nothing is built and nothing sent for it again.
#[test]
fn what_is_impossible_is_tried_once() {
    let scene = Scene::new(1, Faults::default());
    let text = "campaign = 'c'\niterations = 3\n\
                [configuration]\ntso = { generate = 'offload', feature = 'tso', state = 'off' }\n\
                [matrix]\nconfiguration = ['tso']\nflows = 10\n\
                [procedure]\nid = 'mrr'\ntrials = 1\nfor = '1s'\n";
    let made = campaign(&scene, text);
    let failures = made.failures();
    assert_eq!(failures.len(), 3, "{failures:?}");
    for (number, reason) in failures.iter().enumerate() {
        assert!(reason.contains("does not name it"), "{reason}");
        assert_eq!(reason.contains("not tried again"), number > 0, "{reason}");
    }
    assert_eq!(scene.world.beds(), 1);
    assert_eq!(scene.world.changes(), ["x"; 0]);
}

/// A port of the DUT that goes down during a trial ends that one, and no other: the bed is rebuilt
/// after the old one was removed, because both use the same hosts.
#[test]
fn a_port_that_goes_down_at_any_time_ends_one_trial() {
    let whole = Scene::new(1, Faults::default());
    let trials = campaign(&whole, RULES).result.unwrap().trials.len();
    let (mut ended, mut looks) = (0, 0);
    for trial in 0..whole.world.trials() {
        let scene = Scene::new(1, Faults::default());
        let (away, words) = match trial % 2 {
            0 => (Outage::ForGood, "eth1 in router1 is down"),
            _ => (Outage::ForAMoment, "eth1 in router1 went down"),
        };
        scene
            .world
            .schedule_outage(trial, Duration::from_millis(90), away);
        let made = campaign(&scene, RULES);
        for case in made.cases() {
            assert_eq!(case.failures().collect::<Vec<_>>(), [], "{trial}");
            let (figures, wrong) = check_rules(case);
            assert!(figures >= 2 && wrong.is_empty(), "{trial}: {wrong:?}");
        }
        let all = &made.result.as_ref().unwrap().trials;
        let invalid: Vec<_> = all.iter().filter(|t| !t.validity.is_valid()).collect();
        match &invalid[..] {
            // during the search for a load
            [] => {
                let warnings = made.warnings().join("; ");
                assert!(warnings.contains(words), "{warnings}");
                looks += 1;
            }
            [one] => {
                let reasons = one.validity.reasons.join("; ");
                assert!(reasons.contains(words), "{reasons}");
                assert_eq!(all.len(), trials + 1);
                ended += 1;
            }
            more => panic!("{trial}: {more:#?}"),
        }
        assert_eq!(scene.world.beds(), 3);
        assert_eq!(scene.world.changes(), ["x"; 0]);
    }
    assert!(ended == trials && looks > 0, "{ended} of {trials}, {looks}");
}

/// The largest load is one that the sender sustains as trials require. If it sustains none, the
/// first one is used, and repeated trials are expected.
#[test]
fn the_largest_load_is_sustained() {
    let found = |stutters_above_pps: f64| {
        let scene = Scene::new(1, Faults::default());
        scene.world.stutters_above(stutters_above_pps);
        let made = campaign(
            &scene,
            "campaign = 'c'\niterations = 1\n[matrix]\nsize = 64\n[procedure]\nid = 'throughput'\ntrial = '1s'",
        );
        let found = made.events.iter().find_map(|event| match &event.kind {
            EventKind::LoadFound {
                load_pps, source, ..
            } => Some((load_pps.unwrap(), source.clone())),
            _ => None,
        });
        let first = made.events.iter().find_map(|event| match &event.kind {
            EventKind::Progress { left_s, .. } => Some(*left_s),
            _ => None,
        });
        (found.unwrap(), first.unwrap())
    };
    let ((load, source), held_s) = found(f64::INFINITY);
    assert_eq!(load, 4.5e6, "{source}");
    let ((load, source), _) = found(4.2e6);
    assert_eq!(load, 3.9e6);
    assert!(source.starts_with("80 % of the 4950000"), "{source}");
    let ((load, _), repeated_s) = found(0.0);
    assert_eq!(load, 4.4e6);
    assert!(
        repeated_s > 1.3 * held_s,
        "{repeated_s} s beside {held_s} s"
    );
}

/// The estimate before the first trial of a search is accurate, for a DUT that loses nothing until
/// it is overloaded and for one that loses a few frames far below: the search looks for the load at
/// which those losses begin.
#[test]
fn a_search_uses_requests_made_before_its_first_trial() {
    for loses_above_pps in [f64::INFINITY, 5e5, 2e5, 5e4] {
        let scene = Scene::new(1, Faults::default());
        scene.world.loses_above(loses_above_pps);
        let made = throughput(&scene);
        let reported = made.events.iter().find_map(|event| match &event.kind {
            EventKind::Progress { left_s, .. } => Some(*left_s),
            _ => None,
        });
        let trials = &made.result.as_ref().unwrap().trials;
        let elapsed = trials.iter().map(|trial| {
            let waits = trial.asked.as_ref().unwrap().question.waits;
            // a scripted host starts and ends a trial in no time
            device::OVERHEAD.as_secs_f64() + trial.duration_s + waits.total_ns() as f64 / 1e9
        });
        let elapsed: f64 = elapsed.sum();
        let ratio = reported.unwrap() / elapsed;
        assert!(
            (1.0 / 1.3..1.3).contains(&ratio),
            "{reported:?} told, {elapsed} s taken, lossy above {loses_above_pps}"
        );
        assert_eq!(made.failures(), ["x"; 0]);
    }
}

/// Checks all test cases of a campaign.
fn check_campaign(measured: &Measured) -> Checked {
    let cases = measured.summary.iter().flat_map(|s| &s.test_cases);
    let (figures, wrong): (Vec<_>, Vec<_>) = cases.map(check_rules).unzip();
    (figures.iter().sum(), wrong.concat())
}

/// Does what `fwdlab quick` does.
const QUICK: &str = "campaign = 'quick'
iterations = 2
on-failure = 'end'
[matrix]
flows = 10
[procedure]
id = 'maxfwd'
for = '200ms'
double = true
";

/// Does what `fwdlab quick --vs` does.
const COMPARISON: &str = "campaign = 'quick'
iterations = 2
on-failure = 'end'
configuration = { 'nft add table ip nat' = 'nft add table ip nat' }
[matrix]
flows = 10
[procedure]
id = 'paired'
within = '6s'
";

/// A campaign by windows: every iteration is one long trial.
const WINDOWS: &str = r#"
campaign = "windows"
iterations = 1
[configuration]
nat = "nft add table ip nat"
[matrix]
configuration = ["plain", "nat"]
flows = 10
[procedure]
id = "maxfwd"
for = "100ms"
"#;

/// A campaign by slices: the plain DUT, the control, and two DUTs side by side, one for each value.
const SLICES: &str = r#"
campaign = "slices"
iterations = 1
[configuration]
nat = "nft add table ip nat"
[matrix]
configuration = ["nat"]
flows = 10
[procedure]
id = "paired"
for = "1s"
[procedure.sweep]
parameter = "rules"
values = [0, 100]
"#;

/// A sender that stalls for 4 ms of every 13 offers its load in no slice of 20 ms, but in many of 5
/// ms.
#[test]
fn slices_are_compared_although_the_sender_stalls_repeatedly() {
    let scene = Scene::new(4, Faults::default());
    let (every, long) = (Duration::from_millis(13), Duration::from_millis(4));
    scene.world.stalls(every, long);
    let made = campaign(&scene, &SLICES.replace("iterations = 1", "iterations = 5"));
    let measured = made.result.as_ref().unwrap();
    let lengths: Vec<f64> = measured.rebuilds.iter().filter_map(|r| r.slice_s).collect();
    assert_eq!(lengths, [0.02, 0.005, 0.005, 0.005, 0.005]);
    let enough: Vec<bool> = measured.rebuilds.iter().map(|r| r.blocks >= 5).collect();
    assert_eq!(enough, [false, true, true, true, true]);
    let summary = measured.summary.as_ref().unwrap();
    let verdict = &summary.noise.verdict;
    assert!(verdict.contains("4 with slices of 5 ms"), "{verdict}");
    let actual = [0, 100].map(|rules| 100.0 * (capacity_pps(1, rules) / capacity_pps(0, 0) - 1.0));
    let found: Vec<f64> = summary
        .comparisons()
        .filter_map(|c| c.difference_percent)
        .collect();
    assert_eq!(found.len(), 2, "{:?}", summary.test_cases);
    for (found, actual) in found.iter().zip(actual) {
        assert!((found - actual).abs() < 0.5, "{found} for {actual}");
    }
}
