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
enum Came {
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
    came: Came,
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
    let count = |wanted: fn(&Came) -> bool| {
        tests
            .iter()
            .filter(|test| wanted(&test.came))
            .count()
            .to_string()
    };
    [
        tests.len().to_string(),
        count(|came| matches!(came, Came::Failed(..))),
        count(|came| matches!(came, Came::Broken(..))),
        count(|came| matches!(came, Came::Skipped(_))),
    ]
}

fn suite(m: &mut Markup, run: &Run<'_>, tests: &[Test]) {
    let info = run.info;
    let counts = counted(&tests.iter().collect::<Vec<_>>());
    let took = info
        .finished_at
        .as_deref()
        .and_then(|end| elapsed(&info.started_at, end));
    let took = format!("{:.3}", took.unwrap_or(0.0));
    // the schema requires a time without fractions and time zone
    let time = info.started_at.get(..19).unwrap_or(&info.started_at);
    let attributes = [
        ("name", info.id.as_str()),
        ("tests", &counts[0]),
        ("failures", &counts[1]),
        ("errors", &counts[2]),
        ("skipped", &counts[3]),
        ("time", &took),
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
        let told = |m: &mut Markup, tag, kind: &str, why: &str| {
            m.leaf(tag, &[("message", why), ("type", kind)], why);
        };
        match &test.came {
            Came::Passed => {}
            Came::Failed(kind, why) => told(m, "failure", kind, why),
            Came::Broken(kind, why) => told(m, "error", kind, why),
            Came::Skipped(why) => m.shape("skipped", &[("message", why)]),
        }
        if !test.output.is_empty() {
            m.leaf("system-out", &[], &test.output);
        }
    });
    m.trusted("\n");
}

fn tests(run: &Run<'_>) -> Vec<Test> {
    let (info, summary) = (run.info, run.summary);
    let test = |class: &str, name: &str, came, output| Test {
        class: format!("{}.{class}", info.kind),
        name: name.to_owned(),
        came,
        output,
    };
    let error = || {
        info.error
            .clone()
            .unwrap_or_else(|| headline::of(info, summary).line())
    };
    let mut all = vec![test(
        "run",
        "the run finished",
        match info.state {
            RunState::Finished => Came::Passed,
            RunState::Running => Came::Broken("unfinished", error()),
            RunState::Interrupted => Came::Broken("interrupted", error()),
            RunState::Failed => Came::Broken("failed", error()),
        },
        String::new(),
    )];
    if summary.noise.too_noisy {
        all.push(test(
            "run",
            "the machine is quiet enough",
            Came::Skipped(summary.noise.verdict.clone()),
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
            came(case),
            output.join("\n"),
        ));
    }
    for case in &summary.imported {
        let came = match case.ours.median_pps.or(case.legacy.median_pps) {
            Some(_) => Came::Passed,
            None => Came::Broken("no-result", "no run gives a value".into()),
        };
        all.push(test(
            "test-case",
            &case.test_case,
            came,
            case.warnings.join("\n"),
        ));
    }
    if let Some(control) = shape::control(summary) {
        let why = words::control_words(control);
        let came = match control.verdict {
            Verdict::NoDifference => Came::Passed,
            Verdict::Less | Verdict::More => Came::Failed("control", why.clone()),
            Verdict::CannotTell => Came::Skipped(why.clone()),
        };
        all.push(test("control", "A/A control", came, why));
    }
    for judged in &summary.thresholds {
        let lines = judged.lines("measure more iterations").join("\n");
        let came = match (judged.passed, judged.failed.is_empty()) {
            (true, _) => Came::Passed,
            (false, false) => Came::Failed("threshold", judged.failed.join("; ")),
            (false, true) => Came::Failed("not-judged", lines.clone()),
        };
        all.push(test("threshold", &judged.limit, came, lines));
    }
    all
}

fn came(case: &TestCase) -> Came {
    let failures: Vec<String> = case
        .failures()
        .map(|(n, why)| format!("iteration {n}: {why}"))
        .collect();
    let has_result = case.figures.iter().any(|figure| !figure.values.is_empty());
    match (&case.doubt, has_result, failures.is_empty()) {
        (_, false, false) => Came::Broken("no-result", failures.join("\n")),
        (Some(doubt), ..) => Came::Skipped(doubt.clone()),
        (None, true, false) => Came::Failed("iterations", failures.join("\n")),
        _ => Came::Passed,
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
