//! Renders runs as JUnit XML for CI systems: a suite per run, a test per test case and per
//! threshold.
//!
//! A test fails if the run missed a threshold, an iteration has no result, or the A/A control
//! differs from itself. A test case that is too noisy is skipped, with the reason: it is no
//! evidence about the DUT. Start with [`text`].

use fwdlab_model::comparison::Verdict;
use fwdlab_model::result::RunState;
use fwdlab_model::test_case::TestCase;

use crate::headline;
use crate::markup::Markup;
use crate::name::with_interval;
use crate::number::elapsed;
use crate::run::Run;
use crate::shape;
use crate::words;

/// The outcome of a test.
enum TestOutcome {
    Passed,
    /// The result is not as required: type and message.
    Failed(&'static str, String),
    /// There is no result: type and message.
    Broken(&'static str, String),
    /// The result is inconclusive: reason.
    Skipped(String),
}

struct Test {
    class: String,
    name: String,
    outcome: TestOutcome,
    /// The results, a line each.
    output: String,
}

/// Renders the document.
pub fn text(runs: &[Run<'_>]) -> String {
    let mut m = Markup::default();
    m.trusted("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let suites: Vec<(&Run<'_>, Vec<Test>)> = runs.iter().map(|run| (run, tests(run))).collect();
    let all: Vec<&Test> = suites.iter().flat_map(|(_, tests)| tests).collect();
    let counts = counted(&all);
    let attributes = [
        ("name", "fwdlab"),
        ("tests", &counts[0]),
        ("failures", &counts[1]),
        ("errors", &counts[2]),
    ];
    m.within("testsuites", &attributes, |m| {
        m.trusted("\n");
        for (run, tests) in &suites {
            suite(m, run, tests);
        }
    });
    m.trusted("\n");
    m.finish()
}

/// Returns the numbers of tests, failures, errors and skipped tests.
fn counted(tests: &[&Test]) -> [String; 4] {
    let count = |requested: fn(&TestOutcome) -> bool| {
        tests
            .iter()
            .filter(|test| requested(&test.outcome))
            .count()
            .to_string()
    };
    [
        tests.len().to_string(),
        count(|returned| matches!(returned, TestOutcome::Failed(..))),
        count(|returned| matches!(returned, TestOutcome::Broken(..))),
        count(|returned| matches!(returned, TestOutcome::Skipped(_))),
    ]
}

fn suite(m: &mut Markup, run: &Run<'_>, tests: &[Test]) {
    let info = run.info;
    let counts = counted(&tests.iter().collect::<Vec<_>>());
    let duration = info
        .finished_at
        .as_deref()
        .and_then(|end| elapsed(&info.started_at, end));
    let duration = format!("{:.3}", duration.unwrap_or(0.0));
    // the schema requires a time without fractions and time zone
    let time = info.started_at.get(..19).unwrap_or(&info.started_at);
    let attributes = [
        ("name", info.id.as_str()),
        ("tests", &counts[0]),
        ("failures", &counts[1]),
        ("errors", &counts[2]),
        ("skipped", &counts[3]),
        ("time", &duration),
        ("timestamp", time),
    ];
    m.within("testsuite", &attributes, |m| {
        m.trusted("\n");
        m.within("properties", &[], |m| {
            let facts = &info.facts;
            for (name, value) in [
                ("fwdlab", &info.tool_version),
                ("procedure", &run.summary.procedure),
                ("kernel", &facts.kernel),
                ("cpu", &facts.cpu_model),
                ("engine", &facts.engine),
            ] {
                m.shape("property", &[("name", name), ("value", value)]);
            }
        });
        m.trusted("\n");
        for test in tests {
            one(m, test);
        }
    });
    m.trusted("\n");
}

fn one(m: &mut Markup, test: &Test) {
    // a test has no duration: the iterations of all test cases are interleaved
    let attributes = [
        ("classname", test.class.as_str()),
        ("name", test.name.as_str()),
        ("time", "0"),
    ];
    m.within("testcase", &attributes, |m| {
        let reported = |m: &mut Markup, tag, kind: &str, reason: &str| {
            m.leaf(tag, &[("message", reason), ("type", kind)], reason);
        };
        match &test.outcome {
            TestOutcome::Passed => {}
            TestOutcome::Failed(kind, reason) => reported(m, "failure", kind, reason),
            TestOutcome::Broken(kind, reason) => reported(m, "error", kind, reason),
            TestOutcome::Skipped(reason) => m.shape("skipped", &[("message", reason)]),
        }
        if !test.output.is_empty() {
            m.leaf("system-out", &[], &test.output);
        }
    });
    m.trusted("\n");
}

fn tests(run: &Run<'_>) -> Vec<Test> {
    let (info, summary) = (run.info, run.summary);
    let test = |class: &str, name: &str, returned, output| Test {
        class: format!("{}.{class}", info.kind),
        name: name.to_owned(),
        outcome: returned,
        output,
    };
    let error = || {
        info.error
            .clone()
            .unwrap_or_else(|| headline::from_summary(info, summary).line())
    };
    let mut all = vec![test(
        "run",
        "the run finished",
        match info.state {
            RunState::Finished => TestOutcome::Passed,
            RunState::Running => TestOutcome::Broken("unfinished", error()),
            RunState::Interrupted => TestOutcome::Broken("interrupted", error()),
            RunState::Failed => TestOutcome::Broken("failed", error()),
        },
        String::new(),
    )];
    if summary.noise.too_noisy {
        all.push(test(
            "run",
            "the machine is quiet enough",
            TestOutcome::Skipped(summary.noise.verdict.clone()),
            String::new(),
        ));
    }
    for case in &summary.test_cases {
        let differences = case.comparisons().map(words::verdict);
        let mut output = figures(case);
        output.extend(differences);
        all.push(test(
            "test-case",
            &case.test_case,
            outcome_of_test(case),
            output.join("\n"),
        ));
    }
    for case in &summary.imported {
        let returned = match case.ours.median_pps.or(case.legacy.median_pps) {
            Some(_) => TestOutcome::Passed,
            None => TestOutcome::Broken("no-result", "no run gives a value".into()),
        };
        all.push(test(
            "test-case",
            &case.test_case,
            returned,
            case.warnings.join("\n"),
        ));
    }
    if let Some(control) = shape::control(summary) {
        let reason = words::control_words(control);
        let returned = match control.verdict {
            Verdict::NoDifference => TestOutcome::Passed,
            Verdict::Less | Verdict::More => TestOutcome::Failed("control", reason.clone()),
            Verdict::CannotTell => TestOutcome::Skipped(reason.clone()),
        };
        all.push(test("control", "A/A control", returned, reason));
    }
    for judged in &summary.thresholds {
        let lines = judged.lines("measure more iterations").join("\n");
        let returned = match (judged.passed, judged.failed.is_empty()) {
            (true, _) => TestOutcome::Passed,
            (false, false) => TestOutcome::Failed("threshold", judged.failed.join("; ")),
            (false, true) => TestOutcome::Failed("not-judged", lines.clone()),
        };
        all.push(test("threshold", &judged.limit, returned, lines));
    }
    all
}

fn outcome_of_test(case: &TestCase) -> TestOutcome {
    let failures: Vec<String> = case
        .failures()
        .map(|(n, reason)| format!("iteration {n}: {reason}"))
        .collect();
    let has_result = case.figures.iter().any(|figure| !figure.values.is_empty());
    match (&case.doubt, has_result, failures.is_empty()) {
        (_, false, false) => TestOutcome::Broken("no-result", failures.join("\n")),
        (Some(doubt), ..) => TestOutcome::Skipped(doubt.clone()),
        (None, true, false) => TestOutcome::Failed("iterations", failures.join("\n")),
        _ => TestOutcome::Passed,
    }
}

/// Returns the figures of a test case, a line each.
fn figures(case: &TestCase) -> Vec<String> {
    let line = |figure: &fwdlab_model::test_case::CaseFigure| {
        format!(
            "{}: {}, median of {}",
            figure.name,
            with_interval(figure),
            figure.values.len()
        )
    };
    case.figures.iter().map(line).collect()
}
