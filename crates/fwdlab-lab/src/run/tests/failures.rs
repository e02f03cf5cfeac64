//! Failures of a host at every command of a run, and stops at every command: each is reported,
//! nothing stays changed, and no figure is wrong.
//!
//! Every test repeats a [`Sweep`]: a sample of the commands in `make test`, every different command
//! in `make test-all`.

use super::conduct::{HOOKS, by_windows, check_plain_and_nat};
use super::*;

/// A run that is repeated with failures.
struct Sweep {
    scene: fn(Faults) -> Scene,
    /// Each command fails in the kinds of one of these groups: the first command in the first
    /// group, and so on in turn.
    kinds: &'static [&'static [Fails]],
    run: fn(&Scene) -> Made,
    check: fn(&Measured) -> Checked,
}

/// All kinds of failure. Each command fails in two of them, the next command in the next two.
const ALL: &[&[Fails]] = &[
    &[Fails::Exit, Fails::Refused],
    &[Fails::Lost, Fails::Missing],
    &[Fails::Garbage, Fails::TimedOut],
    &[Fails::Lost, Fails::File],
];

/// Kinds of failure that leave different states: half done; done, but the host no longer answers;
/// done, with incomprehensible output.
const SOME: &[&[Fails]] = &[&[Fails::Exit], &[Fails::Lost], &[Fails::Garbage]];

/// Kinds of failure of a rig behind an agent.
const OF_RIG: &[&[Fails]] = &[&[Fails::Exit], &[Fails::Lost], &[Fails::TimedOut]];

const CAMPAIGN: Sweep = Sweep {
    scene: |faults| Scene::new(1, faults),
    kinds: ALL,
    run: |scene| campaign(scene, RULES),
    check: check_campaign,
};

const SEARCH: Sweep = Sweep {
    scene: |faults| Scene::new(1, faults),
    kinds: SOME,
    run: throughput,
    check: check_throughput,
};

const QUICK: Sweep = Sweep {
    scene: |faults| Scene::new(1, faults),
    kinds: SOME,
    run: |scene| campaign(scene, super::QUICK),
    check: check_rates,
};

/// The plain DUT, the control and a configuration side by side, rebuilt for every rebuild.
const COMPARISON: Sweep = Sweep {
    scene: |faults| Scene::new(3, faults),
    kinds: SOME,
    run: |scene| campaign(scene, super::COMPARISON),
    check: check_difference,
};

const BY_WINDOWS: Sweep = Sweep {
    scene: |faults| Scene::new(1, faults),
    kinds: SOME,
    run: |scene| campaign(scene, WINDOWS),
    check: check_campaign,
};

const BY_SLICES: Sweep = Sweep {
    scene: |faults| Scene::new(4, faults),
    kinds: SOME,
    run: |scene| campaign(scene, SLICES),
    check: check_campaign,
};

/// A rig behind an agent, with failures of all its calls.
const RIG: Sweep = Sweep {
    scene: |faults| Scene::with_rig(1, faults),
    kinds: OF_RIG,
    run: |scene| campaign(scene, RULES),
    check: check_campaign,
};

const RIG_BY_SLICES: Sweep = Sweep {
    scene: |faults| Scene::with_rig(4, faults),
    kinds: OF_RIG,
    run: |scene| campaign(scene, SLICES),
    check: check_campaign,
};

const WITH_HOOKS: Sweep = Sweep {
    scene: |faults| Scene::new(1, faults),
    kinds: SOME,
    run: |scene| campaign(scene, HOOKS),
    check: check_rates_of_plain_and_nat,
};

const WITH_HOOKS_BY_WINDOWS: Sweep = Sweep {
    scene: |faults| Scene::new(1, faults),
    kinds: SOME,
    run: |scene| campaign(scene, &by_windows()),
    check: check_rates_of_plain_and_nat,
};

/// Which commands fail, one in each run.
#[derive(Clone, Copy)]
enum Which {
    /// Every eleventh. It has no factor in common with the numbers of groups above, so that every
    /// group is used.
    Sample,
    /// Every different one, the first and the last time that it runs: a run repeats most of its
    /// commands for every trial.
    Different,
}

impl Which {
    fn of(self, commands: &[(String, String)]) -> Vec<usize> {
        match self {
            Which::Sample => (0..commands.len()).step_by(11).collect(),
            Which::Different => {
                let mut ends: BTreeMap<&(String, String), [usize; 2]> = BTreeMap::new();
                for (at, command) in commands.iter().enumerate() {
                    ends.entry(command).or_insert([at; 2])[1] = at;
                }
                BTreeSet::from_iter(ends.into_values().flatten())
                    .into_iter()
                    .collect()
            }
        }
    }
}

#[test]
fn a_failure_at_any_command_is_reported_and_no_figure_is_wrong() {
    for sweep in [CAMPAIGN, SEARCH, QUICK, COMPARISON] {
        sweep.fails_at(Which::Sample);
    }
}

#[test]
fn a_failure_at_any_command_of_windows_and_slices_is_reported() {
    for sweep in [BY_WINDOWS, BY_SLICES] {
        sweep.fails_at(Which::Sample);
    }
}

#[test]
fn a_failure_of_a_rig_in_any_call_is_reported() {
    for sweep in [RIG, RIG_BY_SLICES] {
        sweep.fails_at(Which::Sample);
    }
}

#[test]
fn a_failure_of_any_hook_is_reported() {
    for sweep in [WITH_HOOKS, WITH_HOOKS_BY_WINDOWS] {
        sweep.fails_at(Which::Sample);
    }
}

#[test]
fn a_campaign_that_is_stopped_anywhere_leaves_nothing() {
    stops_at(Which::Sample);
}

#[test]
fn work_interrupted_by_a_lost_host_is_measured_again() {
    loses_a_host_at_every(29);
}

/// Every different command, for a minute.
mod slow {
    use super::*;

    #[test]
    fn a_failure_in_a_campaign() {
        let tried = CAMPAIGN.fails_at(Which::Different);
        // failures of optional commands do no harm, and a failure in one test case leaves the
        // others intact
        for figures in [4, 8] {
            let runs = tried.figures.get(&figures).copied().unwrap_or(0);
            assert!(runs > 50, "{:?}", tried.figures);
        }
        assert!(
            tried.programs.contains("put") && tried.programs.contains("write"),
            "{:?}",
            tried.programs
        );
        // only without a first bed the run cannot continue
        assert!(
            tried.commands > 100 && tried.last_fatal < 80,
            "{}",
            tried.last_fatal
        );
    }

    #[test]
    fn a_failure_in_a_search() {
        SEARCH.fails_at(Which::Different);
    }

    #[test]
    fn a_failure_in_quick() {
        QUICK.fails_at(Which::Different);
    }

    #[test]
    fn a_failure_in_a_comparison() {
        COMPARISON.fails_at(Which::Different);
    }

    #[test]
    fn a_failure_in_windows() {
        BY_WINDOWS.fails_at(Which::Different);
    }

    #[test]
    fn a_failure_in_slices() {
        BY_SLICES.fails_at(Which::Different);
    }

    #[test]
    fn a_failure_of_a_rig() {
        let tried = RIG.fails_at(Which::Different);
        assert!(tried.commands > 50, "{}", tried.commands);
        RIG_BY_SLICES.fails_at(Which::Different);
    }

    #[test]
    fn a_failure_of_a_hook() {
        for sweep in [WITH_HOOKS, WITH_HOOKS_BY_WINDOWS] {
            let tried = sweep.fails_at(Which::Different);
            assert!(tried.programs.contains("hook"), "{:?}", tried.programs);
        }
    }

    #[test]
    fn a_stop() {
        stops_at(Which::Different);
    }

    #[test]
    fn a_lost_host() {
        loses_a_host_at_every(13);
    }
}

fn check_rates(measured: &Measured) -> Checked {
    let cases = measured.summary.iter().flat_map(|s| &s.test_cases);
    let found = cases.map(|case| {
        let rate = case.forwarding_rate().map(|figure| figure.median);
        check("rate", rate, 1e6, 0.01)
    });
    let (figures, wrong): (Vec<_>, Vec<_>) = found.unzip();
    (figures.iter().sum(), wrong.concat())
}

fn check_difference(measured: &Measured) -> Checked {
    let summary = measured.summary.as_ref().unwrap();
    let against = |comparison: &fwdlab_model::comparison::Comparison, right: f64| {
        let percent = comparison.difference_percent;
        let ratio = percent.map(|percent| 1.0 + percent / 100.0);
        check(&comparison.configuration, ratio, right, 0.01)
    };
    let control = summary.control.iter().map(|control| against(control, 1.0));
    let right = capacity_pps(1, 0) / capacity_pps(0, 0);
    let nat = summary.comparisons().map(|nat| against(nat, right));
    let (figures, wrong): (Vec<_>, Vec<_>) = nat.chain(control).unzip();
    (figures.iter().sum(), wrong.concat())
}

fn check_rates_of_plain_and_nat(measured: &Measured) -> Checked {
    let made = Made {
        result: Ok(Measured {
            summary: measured.summary.clone(),
            ..Measured::default()
        }),
        events: Vec::new(),
    };
    check_plain_and_nat(&made)
}

/// Results of a sweep.
struct SweepResult {
    /// Number of commands that may fail, and their first words.
    commands: usize,
    programs: BTreeSet<String>,
    /// How often each number of figures was found.
    figures: BTreeMap<usize, usize>,
    /// Number of the last command whose failure ended the whole run.
    last_fatal: usize,
}

impl Sweep {
    /// Repeats the run with a failure at each of these commands of any host.
    fn fails_at(&self, which: Which) -> SweepResult {
        let whole = (self.scene)(Faults::default());
        let made = (self.run)(&whole);
        let (_, wrong) = (self.check)(made.result.as_ref().unwrap());
        assert!(wrong.is_empty(), "{wrong:?}");
        let commands = whole.faults.commands();
        let first_word = |(_, action): &(String, String)| {
            let mut words = action.split_whitespace();
            words.next().map(str::to_owned)
        };
        let mut swept = SweepResult {
            commands: commands.len(),
            programs: commands.iter().filter_map(first_word).collect(),
            figures: BTreeMap::new(),
            last_fatal: 0,
        };
        let mut problem = Vec::new();
        let chosen = which.of(&commands);
        for (number, &at) in chosen.iter().enumerate() {
            for &how in self.kinds[number % self.kinds.len()] {
                let scene = (self.scene)(Faults::at(at, how));
                let made = (self.run)(&scene);
                let Some(failed) = scene.faults.commands().get(at).cloned() else {
                    continue;
                };
                let (figures, mut wrong) = match &made.result {
                    Ok(measured) => (self.check)(measured),
                    Err(_) => (0, Vec::new()),
                };
                if made.result.is_err() {
                    swept.last_fatal = at;
                }
                *swept.figures.entry(figures).or_insert(0) += 1;
                wrong.extend(missing_from_report(&made, how, &failed));
                wrong.extend(left_behind(&scene, &made));
                let case = format!("{at} of {}, {how:?} at {failed:?}", swept.commands);
                problem.extend(wrong.into_iter().map(|action| format!("{case}: {action}")));
            }
        }
        let runs: usize = swept.figures.values().sum();
        assert!(runs >= chosen.len() / 2, "{runs} runs");
        assert!(swept.commands > 20, "{} commands", swept.commands);
        let text = problem.join("\n");
        assert!(problem.is_empty(), "{} amiss:\n{text}", problem.len());
        swept
    }
}

/// Stopping a run at any command ends it without a failure and leaves nothing behind.
fn stops_at(which: Which) {
    let whole = Scene::new(1, Faults::default());
    campaign(&whole, RULES);
    let commands = whole.faults.commands();
    let mut chosen = which.of(&commands);
    chosen.push(commands.len() - 1);
    let commands = commands.len();
    let mut figures_before = 0;
    for at in chosen {
        let control = Control::default();
        let scene = Scene::new(1, Faults::stopping(at, &control));
        let made = stoppable(&scene, RULES, &control);
        let case = format!("{at} of {commands}, {:?}", scene.faults.commands()[at]);
        match &made.result {
            Ok(measured) => {
                let (figures, wrong) = check_campaign(measured);
                assert!(wrong.is_empty(), "{case}: {wrong:?}");
                assert!(figures >= figures_before, "{case}: {figures}");
                figures_before = figures;
            }
            Err(error) => assert!(matches!(error, LabError::Interrupted), "{case}: {error}"),
        }
        for reason in made.failures() {
            assert_eq!(reason, "interrupted", "{case}");
        }
        assert_eq!(left_behind(&scene, &made), ["x"; 0], "{case}");
        assert_eq!(made.warnings(), ["x"; 0], "{case}");
    }
    assert_eq!(figures_before, 8);
}

/// A command that fails because the run is being ended is no result of its iteration, which is
/// measured again when the run is resumed.
#[test]
fn what_fails_while_a_run_is_stopped_has_not_failed() {
    let whole = Scene::new(1, Faults::default());
    campaign(&whole, RULES);
    for at in Which::Sample.of(&whole.faults.commands()) {
        for how in [Fails::Exit, Fails::Lost] {
            let control = Control::default();
            let scene = Scene::new(1, Faults::ending(at, how, &control));
            let made = stoppable(&scene, RULES, &control);
            for reason in made.failures() {
                assert_eq!(reason, "interrupted", "{at} {how:?}");
            }
        }
    }
}

/// After a stop, a search offers nothing more and waits for nothing: over SSH every look for a load
/// takes seconds.
#[test]
fn a_stopped_search_ends_at_once() {
    let stopped = |at: usize| {
        let control = Control::default();
        let scene = Scene::with_rig(1, Faults::stopping(at, &control));
        let text = "campaign = 'c'\niterations = 1\n[matrix]\nsize = 64\nflows = 10\n[procedure]\nid = 'throughput'\nfull = true\ntrial = '1s'\nsearch = '1s'";
        let made = stoppable(&scene, text, &control);
        assert_eq!(made.warnings(), ["x"; 0], "{at}");
        let actions = scene.faults.commands().into_iter();
        let actions: Vec<String> = actions.map(|(_, action)| action).collect();
        (actions, scene.world.elapsed())
    };
    let (all, _) = stopped(usize::MAX);
    let armed = |actions: &[String]| actions.iter().filter(|a| *a == "arm a trial").count();
    let mut trials = Vec::new();
    for at in (0..all.len().min(900)).step_by(41) {
        let (actions, _) = stopped(at);
        assert!(actions.len() > at, "{at}");
        assert_eq!(armed(&actions[at + 1..]), 0, "{at}: {:?}", &actions[at..]);
        trials.push(armed(&actions));
    }
    assert!(trials.iter().max() > Some(&10), "{trials:?}");
    // the waits of 7 s between two trials end, too: the last command before them, and the first
    // one after them
    let places = (0..all.len()).filter(|&at| all[at] == "arm a trial");
    let next = places.clone().next_back().expect("there are trials");
    let [(_, before), (_, after)] = [next - 1, next].map(stopped);
    assert!(
        after - before > Duration::from_secs(6),
        "{before:?} {after:?}"
    );
}

/// A host is lost at a command and is back for the next bed: interrupted trials are measured again,
/// and reported; nothing is missing.
fn loses_a_host_at_every(step: usize) {
    for (text, duts, requested) in [(RULES, 1, 8), (SLICES, 4, 2), (WINDOWS, 1, 2)] {
        for with in [Scene::new, Scene::with_rig] {
            let whole = with(duts, Faults::default());
            campaign(&whole, text);
            let commands = whole.faults.commands().len();
            assert!(commands > 20, "{commands}");
            for at in (0..commands).step_by(step) {
                let scene = with(duts, Faults::dropping(at));
                let made = campaign(&scene, text);
                let all = scene.faults.commands();
                let Some(command) = all.get(at) else { continue };
                let case = format!("{at} of {commands}, {command:?}");
                let (figures, wrong) = match &made.result {
                    Ok(measured) => check_campaign(measured),
                    Err(error) => panic!("{case}: {error}"),
                };
                assert_eq!(wrong, ["x"; 0], "{case}");
                assert_eq!(made.failures(), ["x"; 0], "{case}");
                // whether windows are quiet depends on this machine
                assert!(figures == requested || text == WINDOWS, "{case}: {figures}");
                // changes on a host that is lost at the end are undone at the next start
                assert_eq!(left_behind(&scene, &made), ["x"; 0], "{case}");
                let measured = made.result.as_ref().unwrap();
                let cut_off = measured.trials.iter().any(|t| t.validity.is_cut_off());
                let warnings = made.warnings().join("; ");
                assert!(
                    !cut_off || warnings.contains("tried again after"),
                    "{case}: {warnings}"
                );
            }
        }
    }
}

/// Returns a message for each word that the report of a failed run lacks: it must name the host,
/// the command and the failure, unless the failure did no harm.
fn missing_from_report(made: &Made, how: Fails, (host, command): &(String, String)) -> Vec<String> {
    // the error that ends a run, and those of its test cases and rebuilds
    let mut report = made.failures();
    report.extend(made.result.as_ref().err().map(ToString::to_string));
    if report.is_empty() {
        return Vec::new();
    }
    report.extend(made.warnings().into_iter().map(str::to_owned));
    report.extend(made.hooks().into_iter().filter_map(|hook| hook.failure));
    let report = report.join("; ");
    let mut words = vec![host.as_str()];
    if how != Fails::Garbage {
        // for optional information, the next command reports that the host was lost
        words.extend((!command.starts_with("ethtool")).then_some(command.as_str()));
        words.extend(how.words());
    }
    let missing = words.into_iter().filter(|word| !report.contains(word));
    missing
        .map(|word| format!("`{word}` is not in: {report}"))
        .collect()
}

/// Returns what is wrong with the state after a run: nothing may stay changed, unless it was
/// reported and the next start undoes it.
fn left_behind(scene: &Scene, made: &Made) -> Vec<String> {
    let mut problem = Vec::new();
    let mut expect = |is: bool, action: String| {
        if !is {
            problem.push(action);
        }
    };
    let changes = scene.world.changes();
    let records = scene.registry.list().unwrap();
    let warnings = made.warnings();
    let is_reported = warnings
        .iter()
        .any(|text| text.contains("could not be undone") && text.contains("tries again"));
    expect(
        changes.is_empty() || !records.is_empty(),
        format!("without a record: {changes:?}"),
    );
    expect(
        records.is_empty() || is_reported,
        format!("not reported: {changes:?}; {warnings:?}"),
    );
    let unknown = scene.world.unknown();
    expect(unknown.is_empty(), format!("no host knows {unknown:?}"));
    let records = scene.start_again();
    expect(
        records.is_empty(),
        format!("the next start leaves {records:?}"),
    );
    let changes = scene.world.changes();
    expect(
        changes.is_empty(),
        format!("the next start leaves {changes:?}"),
    );
    problem
}
