//! Builds the tables of forwarding rates in quiet windows, and of differences from a reference DUT.
//!
//! They have all columns; a terminal shows fewer. Start with [`cases`] and [`comparisons`].

use fwdlab_model::comparison::{Comparison, Verdict};
use fwdlab_model::result::Summary;

use crate::name::dut;
use crate::number::{Prefix, count, difference, interval, p_value, percent};
use crate::shape::{self, Labels, Rated, does_not_forward};
use crate::state::State;
use crate::table::{Cell, Mark, Table, table};
use crate::words;

fn optional_raw<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Returns the common prefix of the forwarding rates of the test cases.
pub(crate) fn prefix(cases: &[Rated<'_>]) -> Prefix {
    Prefix::for_largest(
        cases
            .iter()
            .filter_map(|case| case.found.forwarding_rate_pps),
    )
}

/// Returns the table of test cases for people: without configuration, profile and IP version if
/// they are the same in all.
pub(crate) fn cases(summary: &Summary) -> Table {
    let mut table = all_of_cases(summary);
    let all = shape::rated(summary);
    let labels = Labels::from_cases(&all);
    for (head, is_shown) in [
        ("configuration", labels.configuration),
        ("DUT", labels.dut),
        (
            "profile",
            all.iter()
                .any(|case| case.case.case.variant.profile.is_some()),
        ),
        ("IP", labels.ip_version),
        ("shard", labels.shard),
    ] {
        if !is_shown {
            table.remove(head);
        }
    }
    table
}

/// Returns one row per test case: offered load, forwarding rate, loss. The columns are always the
/// same, except for the kind of DUT.
pub(crate) fn all_of_cases(summary: &Summary) -> Table {
    let all = shape::rated(summary);
    let prefix = prefix(&all);
    let offered = all.iter().filter_map(|case| case.found.offered_load_pps);
    let offered_prefix = Prefix::for_largest(offered);
    let used = |case: &Rated<'_>| {
        let (used, failed) = (case.rates.len(), case.case.failures().count());
        Cell::with_values(
            format!("{used}/{}", used + failed),
            [used, failed].map(|n| n.to_string()),
        )
    };
    let mut table = table! {
        (case, own, stream, found) in all.iter().map(|case| (case, &case.case.case, case.stream, &case.found));
        left("configuration", "configuration") => Cell::text(&own.configuration),
        left("DUT", "dut") => Cell::new(dut(own.dut), own.dut),
        left("profile", "profile") => Cell::text(own.variant.profile.clone().unwrap_or_default()),
        right("size", "frame_size_bytes") =>
            Cell::new(format!("{} B", stream.frame_size_bytes), stream.frame_size_bytes),
        right("flows", "flows") => Cell::new(count(stream.flows), stream.flows),
        left("IP", "ip_version") =>
            Cell::new(stream.ip_version.to_string(), stream.ip_version.to_string().to_lowercase()),
        right("shard", "shard") => Cell::optional(own.variant.shard, "", |shard: u32| shard.to_string()),
        right("offered load", "offered_load_pps") =>
            Cell::optional(found.offered_load_pps, "-", |pps| offered_prefix.rate(pps)),
        plus_minus("forwarding rate", "forwarding_rate_pps", "interval_half_width_pps") =>
            forwarding_rate(case, prefix),
        right("loss", "frame_loss_ratio") =>
            Cell::optional(found.frame_loss_ratio, "-", |ratio| percent(100.0 * ratio)),
        right("used", "iterations", "iterations_invalid") => used(case),
    };
    // results of only Linux DUTs have no such column, as before there were other kinds
    if all.iter().all(|case| case.case.case.dut.is_linux()) {
        table.remove("DUT");
    }
    // as have runs of one machine
    if all
        .iter()
        .all(|case| case.case.case.variant.shard.is_none())
    {
        table.remove("shard");
    }
    table
}

fn forwarding_rate(case: &Rated<'_>, prefix: Prefix) -> Cell {
    let found = &case.found;
    let text = match (found.forwarding_rate_pps, case.half_width) {
        _ if does_not_forward(&found.ledger) => "does not forward".into(),
        (None, _) => State::from_case(case.case).instead().into(),
        (Some(pps), None) => prefix.rate(pps),
        (Some(pps), Some(half)) => prefix.rate_with_interval(pps, half),
    };
    // the warning of the test case gives the reason
    let text = if found.not_saturated && found.forwarding_rate_pps.is_some() {
        format!(">= {text}")
    } else {
        text
    };
    Cell::with_values(
        text,
        [found.forwarding_rate_pps, case.half_width].map(optional_raw),
    )
}

/// Returns quiet windows and all windows of each test case.
pub(crate) fn noise(summary: &Summary) -> Table {
    let all = shape::rated(summary);
    let prefix = prefix(&all);
    let labels = Labels::from_cases(&all);
    let rate = |value: Option<f64>| Cell::optional(value, "-", |pps| prefix.rate(pps));
    let variation = |value: Option<f64>| Cell::optional(value, "-", percent);
    let windows = |number: u32| Cell::new(count(number), number);
    table! {
        (case, found) in all.iter().map(|case| (case, &case.found));
        left("test case", "test_case") => Cell::text(labels.label(case)),
        right("quiet", "quiet_pps") => rate(found.quiet.forwarding_rate_pps.or(found.forwarding_rate_pps)),
        right("CV", "variation_percent") => variation(case.variation_percent),
        right("quiet windows", "quiet_windows") => windows(found.quiet.windows),
        right("contended", "contended_pps") => rate(found.contended.forwarding_rate_pps),
        right("contended windows", "contended_windows") => windows(found.contended.windows),
        right("ungated", "forwarding_rate_ungated_pps") => rate(found.forwarding_rate_ungated_pps),
        right("CV", "variation_ungated_percent") => variation(found.variation_ungated_percent),
        right("not offered", "windows_not_offered") => windows(found.windows_not_offered),
    }
}

/// Returns one row per configuration compared with the plain DUT; the A/A control last.
pub(crate) fn comparisons(summary: &Summary) -> Table {
    let compared = shape::comparisons(summary);
    let prefix = Prefix::for_largest(
        compared
            .iter()
            .flat_map(|c| [c.forwarding_rate_pps, c.plain_forwarding_rate_pps])
            .flatten(),
    );
    let verdict = |verdict| match verdict {
        Verdict::Less => "less",
        Verdict::More => "more",
        Verdict::NoDifference => "no_difference",
        Verdict::CannotTell => "cannot_tell",
    };
    let name = |comparison: &Comparison| match comparison.control {
        true => "A/A control (plain DUT again)".to_owned(),
        false => comparison.configuration.clone(),
    };
    let ends = |ends: Option<[f64; 2]>| {
        let text = ends.map_or_else(|| "-".into(), |ends| format!("{} %", interval(ends)));
        Cell::with_values(
            text,
            [0, 1].map(|end| optional_raw(ends.map(|ends| ends[end]))),
        )
    };
    let rate = |value: Option<f64>| Cell::optional(value, "-", |pps| prefix.rate(pps));
    let mark = |control| if control { Mark::Control } else { Mark::None };
    table! {
        one in compared, mark(one.control);
        prose("configuration", "configuration") => Cell::new(name(one), &one.configuration),
        right("difference", "difference_percent") => Cell::optional(one.difference_percent, "-", |value| {
            format!("{} %", difference(value, one.interval_percent))
        }),
        right("95 % interval", "interval_low_percent", "interval_high_percent") => ends(one.interval_percent),
        right("p", "p_value") => Cell::optional(one.p_value, "-", p_value),
        right("rebuilds", "values") => Cell::new(one.values_percent.len().to_string(), one.values_percent.len()),
        prose("verdict", "verdict") => Cell::new(words::short_verdict(one), verdict(one.verdict)),
        right("detectable", "detectable_percent") => Cell::optional(one.detectable_percent, "-", |value| {
            format!("{} %", difference(value, None).trim_start_matches('+'))
        }),
        right("forwarding rate", "forwarding_rate_pps") => rate(one.forwarding_rate_pps),
        right("plain DUT", "plain_forwarding_rate_pps") => rate(one.plain_forwarding_rate_pps),
    }
}
