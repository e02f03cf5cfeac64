//! Reads and formats the link speed of a run.
//!
//! `chart` draws line rates from it. Start with [`link_speed`].

use fwdlab_model::link::LinkSpeed;
use fwdlab_model::result::RunInfo;

/// Formats a speed with its unit: `10 Gbit/s`.
pub(crate) fn words(link: LinkSpeed) -> String {
    let short = link.to_string();
    let digits = short.trim_end_matches(char::is_alphabetic);
    format!("{digits} {}bit/s", &short[digits.len()..])
}

/// Returns the link speed of a run, if it is recorded.
pub(crate) fn link_speed(info: &RunInfo) -> Option<LinkSpeed> {
    let reported = info.facts.link.as_deref()?;
    let number = reported
        .split_whitespace()
        .rev()
        .nth(1)?
        .parse::<f64>()
        .ok()?;
    let unit = reported.split_whitespace().next_back()?;
    let factor = match unit {
        "kbit/s" => 1e3,
        "Mbit/s" => 1e6,
        "Gbit/s" => 1e9,
        "Tbit/s" => 1e12,
        _ => return None,
    };
    LinkSpeed::from_bps((number * factor).round())
}
