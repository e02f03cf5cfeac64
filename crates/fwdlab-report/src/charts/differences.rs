//! Chart of differences in percent around zero: interval, mean and the values behind it; the A/A
//! control is separate. Start with [`differences()`].

use fwdlab_model::comparison::{Comparison, Verdict};

use crate::chart::{Axis, Chart, Mark, Row, Tone};
use crate::number::{difference, interval};
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

/// Returns the tone of an interval with this verdict.
pub(crate) fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Less => Tone::Less,
        Verdict::More => Tone::More,
        Verdict::NoDifference => Tone::Same,
        Verdict::CannotTell => Tone::Unknown,
    }
}
