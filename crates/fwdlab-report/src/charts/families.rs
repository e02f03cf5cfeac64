//! Chart that compares IPv4 with IPv6: a bar to the median of each, with the range of values,
//! grouped by the other conditions.
//!
//! [`crate::grid::families`] chooses the values. Start with [`families`].

use fwdlab_model::outcome::Unit;

use super::rates::axis_along;
use crate::chart::{Chart, Row, legend_of_values};
use crate::grid::Bar;
use crate::name::value;

/// Draws the chart; `None` if no group has both families.
pub(crate) fn families(figure: &str, unit: Unit, bars: &[Bar]) -> Option<Chart> {
    let mut groups: Vec<&str> = Vec::new();
    for bar in bars {
        if !groups.contains(&&bar.group[..]) {
            groups.push(&bar.group);
        }
    }
    let of = |group: &str| {
        let mut own: Vec<&Bar> = bars.iter().filter(|bar| bar.group == group).collect();
        own.sort_by_key(|bar| bar.family);
        own
    };
    groups.retain(|group| {
        let own = of(group);
        own.iter().any(|bar| bar.family != own[0].family)
    });
    if groups.is_empty() {
        return None;
    }
    let shown: Vec<&Bar> = groups.iter().flat_map(|group| of(group)).collect();
    let ends = shown.iter().flat_map(|bar| bar.values.iter().copied());
    let mut last = "";
    let rows = shown.iter().map(|bar| {
        let is_first = bar.group != last;
        last = &bar.group;
        let (low, high) = (bar.values.iter())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |ends, v| {
                (ends.0.min(*v), ends.1.max(*v))
            });
        let note = match bar.note.is_empty() {
            true => String::new(),
            false => format!(", {}", bar.note),
        };
        Row {
            group: if is_first {
                bar.group.clone()
            } else {
                String::new()
            },
            label: format!("{}{note}", bar.family),
            value: bar
                .median
                .map_or(bar.instead.clone(), |median| value(unit, median)),
            verdict: match bar.median {
                Some(_) if low < high => format!("{} to {}", value(unit, low), value(unit, high)),
                _ => String::new(),
            },
            marks: Row::of_values(bar.median, &bar.values, |v| value(unit, v), "iteration"),
            ..Row::default()
        }
    });
    let axis = axis_along(figure, unit, ends);
    let chart = Chart::rows("families", axis, legend_of_values("iteration"), rows);
    Some(chart.titled("IPv4 next to IPv6"))
}
