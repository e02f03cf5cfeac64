//! Chart of differences in percent around zero: interval, mean and the values behind it; the A/A
//! control is separate. Start with [`differences()`].

use fwdlab_model::comparison::{Comparison, Verdict};
use fwdlab_model::test_case::TestCase;

use crate::chart::{Axis, Chart, Mark, Row, Scale, Tone};
use crate::exact;
use crate::number::{difference, instructions, interval};
use crate::words;

/// Draws the differences; `each` names what a value was measured in: a rebuild, an iteration.
pub(crate) fn differences(compared: &[&Comparison], each: &str) -> Chart {
    let all = compared.iter().flat_map(|c| {
        let ends = c.interval_percent.into_iter().flatten();
        c.values_percent.iter().copied().chain(ends)
    });
    let title = if compared.iter().all(|c| c.control) {
        "difference between two measurements of the same DUT, %"
    } else {
        "difference from the plain DUT, %"
    };
    Chart::rows(
        "differences",
        Axis::differences(title, all),
        vec![
            (Tone::Interval, "95 % interval".into()),
            (Tone::Mean, "mean".into()),
            (Tone::Dot, format!("one {each}, first at the top")),
        ],
        compared.iter().map(|one| row(one, each)),
    )
}

fn row(comparison: &Comparison, each: &str) -> Row {
    let ends = comparison.interval_percent;
    let value = match (comparison.difference_percent, ends) {
        (Some(value), Some(ends)) => {
            format!("{} % {}", difference(value, Some(ends)), interval(ends))
        }
        (Some(value), None) => format!("{} %", difference(value, None)),
        (None, _) => "no value".into(),
    };
    let mut marks = Vec::new();
    marks.extend(ends.map(|[low, high]| Mark::Bar {
        from: low,
        to: high,
        tone: tone(comparison.verdict),
        words: format!("95 % interval {} %", interval([low, high])),
    }));
    marks.push(Mark::dots(
        &comparison.values_percent,
        Tone::Dot,
        |index, value| {
            let value = difference(value, Some([-0.05, 0.05]));
            format!("{each} {}: {value} %", index + 1)
        },
    ));
    marks.extend(comparison.difference_percent.map(|mean| Mark::Line {
        at: mean,
        tone: Tone::Mean,
        words: format!("mean {} %", difference(mean, ends)),
    }));
    Row {
        label: match comparison.control {
            true => "A/A control".into(),
            false => comparison.configuration.clone(),
        },
        is_code: !comparison.control,
        value,
        verdict: words::short_verdict(comparison).into(),
        is_control: comparison.control,
        marks,
        ..Row::default()
    }
}

/// Draws the differences in instructions per frame; `None` if nothing was compared. Their
/// uncertainty is too small to be seen.
pub(crate) fn counted(all: &[TestCase]) -> Option<Chart> {
    let differences = exact::all_differences(all);
    let ends = differences.iter().flat_map(|(_, one)| one.interval);
    let scale = Scale::covering(ends.chain([0.0]), 6);
    let rows = differences.iter().map(|(name, one)| {
        let is_control = name.is_none();
        let half = instructions(exact::half(one.interval));
        let value = format!("{} ± {half}", exact::signed(one.instructions_per_frame));
        let tone = match (one.proven, one.instructions_per_frame > 0.0) {
            (false, _) => Tone::Same,
            (true, true) => Tone::Less,
            (true, false) => Tone::More,
        };
        Row {
            label: name.clone().unwrap_or_else(|| "booted again".into()),
            is_code: !is_control,
            verdict: exact::in_a_word(one).into(),
            is_control,
            marks: vec![
                Mark::Bar {
                    from: one.instructions_per_frame.min(0.0),
                    to: one.instructions_per_frame.max(0.0),
                    tone,
                    words: format!("{value} instructions per frame"),
                },
                Mark::Line {
                    at: one.instructions_per_frame,
                    tone: Tone::Mean,
                    words: format!("{value} instructions per frame"),
                },
            ],
            value,
            ..Row::default()
        }
    });
    let rows: Vec<Row> = rows.collect();
    (!rows.is_empty()).then(|| {
        let title = "difference from the reference, instructions per frame";
        Chart::rows(
            "instructions",
            Axis::linear(title, scale, |value| match value == 0.0 {
                true => "0".into(),
                false => format!("{value:+}"),
            }),
            vec![(Tone::Mean, "difference".into())],
            rows,
        )
    })
}

/// Returns the tone of an interval with this verdict.
pub(crate) fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Less => Tone::Less,
        Verdict::More => Tone::More,
        Verdict::NoDifference => Tone::Same,
        Verdict::CannotTell => Tone::Unknown,
    }
}
