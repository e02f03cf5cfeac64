//! Renders results in Prometheus' text exposition format, version 0.0.4.
//!
//! Names and base units follow Prometheus' conventions: seconds, ratios, frames per second, without
//! prefixes. A figure that does not exist is absent. Start with [`text`].

use std::fmt::Write as _;

use fwdlab_model::comparison::Verdict;
use fwdlab_model::outcome::Unit;
use fwdlab_model::result::{RunInfo, RunState, Summary};
use jiff::Timestamp;

/// Content type of the response to a scrape.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric family: its samples have one name.
#[derive(Default)]
struct Family {
    name: &'static str,
    help: &'static str,
    samples: Vec<(Vec<(&'static str, String)>, f64)>,
}

struct Families(Vec<Family>);

impl Families {
    fn add(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Vec<(&'static str, String)>,
        value: f64,
    ) {
        let place = self.0.iter().position(|family| family.name == name);
        let place = place.unwrap_or_else(|| {
            self.0.push(Family {
                name,
                help,
                samples: Vec::new(),
            });
            self.0.len() - 1
        });
        self.0[place].samples.push((labels, value));
    }
}

/// Renders the metrics of runs, in the order given.
pub fn text(runs: &[(&RunInfo, &Summary)]) -> String {
    let mut all = Families(Vec::new());
    for (info, summary) in runs {
        of_run(&mut all, info, summary);
    }
    let mut text = String::new();
    for family in &all.0 {
        let _ = writeln!(
            text,
            "# HELP {} {}\n# TYPE {} gauge",
            family.name, family.help, family.name
        );
        for (labels, value) in &family.samples {
            let labels: Vec<String> = labels
                .iter()
                .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
                .collect();
            let _ = writeln!(
                text,
                "{}{{{}}} {}",
                family.name,
                labels.join(","),
                number(*value)
            );
        }
    }
    text
}

fn of_run(all: &mut Families, info: &RunInfo, summary: &Summary) {
    let run = || vec![("run", info.id.clone())];
    let more = |labels: &[(&'static str, &str)]| {
        let labels = labels
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        run().into_iter().chain(labels).collect::<Vec<_>>()
    };
    let state = match info.state {
        RunState::Running => "running",
        RunState::Finished => "finished",
        RunState::Interrupted => "interrupted",
        RunState::Failed => "failed",
    };
    all.add(
        "fwdlab_run_info",
        "A stored run; always 1.",
        more(&[
            ("kind", &info.kind),
            ("procedure", &summary.procedure),
            ("state", state),
            ("version", &info.tool_version),
            ("kernel", &info.facts.kernel),
        ]),
        1.0,
    );
    let seconds = |time: &str| {
        time.parse::<Timestamp>()
            .ok()
            .map(|at| at.as_millisecond() as f64 / 1e3)
    };
    for (name, help, time) in [
        (
            "fwdlab_run_started_timestamp_seconds",
            "When the run began.",
            Some(info.started_at.as_str()),
        ),
        (
            "fwdlab_run_finished_timestamp_seconds",
            "When the run ended.",
            info.finished_at.as_deref(),
        ),
    ] {
        if let Some(at) = time.and_then(seconds) {
            all.add(name, help, run(), at);
        }
    }
    all.add(
        "fwdlab_run_too_noisy",
        "1 where the machine was too noisy for any figure of the run to be relied on.",
        run(),
        f64::from(u8::from(summary.noise.too_noisy)),
    );
    for case in &summary.test_cases {
        let labels = |more_labels: &[(&'static str, &str)]| {
            let first = [
                ("test_case", case.test_case.as_str()),
                ("configuration", case.case.configuration.as_str()),
            ];
            more(&[&first[..], more_labels].concat())
        };
        for figure in &case.figures {
            let (name, half, help, factor) = family(figure.unit);
            let of = labels(&[("figure", &figure.name)]);
            if let Some(width) = figure.interval_half_width
                && !figure.is_undetermined()
            {
                let help =
                    "Half of the 95 % confidence interval of the metric without this ending.";
                all.add(half, help, of.clone(), width * factor);
            }
            if !figure.values.is_empty() {
                all.add(name, help, of, figure.median * factor);
            }
        }
        let failed = case.failures().count();
        for (result, count) in [("good", case.iterations.len() - failed), ("failed", failed)] {
            let help = "Iterations of a test case, by result.";
            all.add(
                "fwdlab_iterations",
                help,
                labels(&[("result", result)]),
                count as f64,
            );
        }
        if let Some(ratio) = case.windows().and_then(|found| found.frame_loss_ratio) {
            let help = "Frames lost of those sent, in overload where that is intended.";
            all.add("fwdlab_frame_loss_ratio", help, labels(&[]), ratio);
        }
        for comparison in case.comparisons() {
            let verdict = match comparison.verdict {
                Verdict::Less => "less",
                Verdict::More => "more",
                Verdict::NoDifference => "no difference",
                Verdict::CannotTell => "cannot tell",
            };
            if let Some(percent) = comparison.difference_percent {
                let help = "Difference of the forwarding rate from that of the reference DUT, as a ratio of it.";
                let of = labels(&[
                    ("compared", &comparison.configuration),
                    ("verdict", verdict),
                ]);
                all.add("fwdlab_difference_ratio", help, of, percent / 100.0);
            }
        }
    }
    for case in &summary.imported {
        if let Some(pps) = case.ours.median_pps.or(case.legacy.median_pps) {
            let of = more(&[
                ("test_case", case.test_case.as_str()),
                ("figure", "forwarding rate"),
            ]);
            let (name, _, help, _) = family(Unit::FramesPerSecond);
            all.add(name, help, of, pps);
        }
    }
    for judged in &summary.thresholds {
        let help = "1 where the threshold is kept, 0 where it is broken or could not be judged.";
        let of = more(&[("threshold", &judged.limit)]);
        all.add(
            "fwdlab_threshold_passed",
            help,
            of,
            f64::from(u8::from(judged.passed)),
        );
    }
}

/// Returns the name of a metric, the name of its interval, the help text, and the factor to base
/// units.
fn family(unit: Unit) -> (&'static str, &'static str, &'static str, f64) {
    match unit {
        Unit::FramesPerSecond => (
            "fwdlab_frames_per_second",
            "fwdlab_frames_per_second_half_width",
            "A rate that was found: the median of its iterations.",
            1.0,
        ),
        Unit::Nanoseconds | Unit::Cost => (
            "fwdlab_seconds",
            "fwdlab_seconds_half_width",
            "A time that was found: the median of its iterations.",
            1e-9,
        ),
        Unit::Seconds => (
            "fwdlab_seconds",
            "fwdlab_seconds_half_width",
            "A time that was found: the median of its iterations.",
            1.0,
        ),
        Unit::Frames => (
            "fwdlab_frames",
            "fwdlab_frames_half_width",
            "A number of frames that was found: the median of its iterations.",
            1.0,
        ),
        Unit::Joules => (
            "fwdlab_joules_per_frame",
            "fwdlab_joules_per_frame_half_width",
            "Energy of a frame that was found: the median of its iterations.",
            1.0,
        ),
        Unit::Percent => (
            "fwdlab_ratio",
            "fwdlab_ratio_half_width",
            "A share that was found, 1 for all: the median of its iterations.",
            0.01,
        ),
        Unit::Instructions => (
            "fwdlab_instructions_per_frame",
            "fwdlab_instructions_per_frame_half_width",
            "Instructions per frame: the median of the boots.",
            1.0,
        ),
    }
}

fn number(value: f64) -> String {
    match value {
        v if v.is_nan() => "NaN".into(),
        v if v == f64::INFINITY => "+Inf".into(),
        v if v == f64::NEG_INFINITY => "-Inf".into(),
        v => v.to_string(),
    }
}

/// Escapes the value of a label.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => safe.push_str("\\\\"),
            '"' => safe.push_str("\\\""),
            '\n' => safe.push_str("\\n"),
            // Unicode line separators end a line for some readers
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}
