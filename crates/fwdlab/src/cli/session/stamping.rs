//! The source of a session's timestamps: how options select it, and how results show it.
//!
//! The library makes the choice ([`fwdlab_lab::session::stamping`]). Start with [`choose`];
//! [`json()`] and [`text`] are for results.

use fwdlab_engine::stamps::Kind;
use fwdlab_engine::{Mode, PortSpec};
use fwdlab_lab::session::stamping::{Stamping, StampingResult};
use fwdlab_report::number;
use serde_json::{Value, json};

use super::options::Timestamps;
use crate::exit_code::Usage;

/// Selects the kind of timestamps for frames that this engine (`auto`: any) sends from one port to
/// another, and configures the NICs if necessary.
///
/// # Errors
/// If the requested kind is not available; nothing is changed then.
pub fn choose(
    requested: Timestamps,
    tx: &PortSpec,
    rx: &PortSpec,
    engine: &str,
) -> anyhow::Result<Stamping> {
    if requested == Timestamps::User {
        return Ok(Stamping::user(Vec::new()));
    }
    let tells = ["auto", Mode::AfPacket.name()].contains(&engine);
    // some devices can; the engine finds out whether this one does
    let may_tell = engine == Mode::AfXdp.name() && requested == Timestamps::Hardware;
    if !tells && !may_tell {
        if requested == Timestamps::Auto {
            return Ok(Stamping::user(vec![format!(
                "software: --engine {engine} does not learn when its frames leave"
            )]));
        }
        return Err(Usage(format!(
            "--timestamps {}: --engine {engine} does not learn when its frames leave; use --engine af-packet",
            requested.kind().map_or("auto", Kind::name)
        ))
        .into());
    }
    Ok(Stamping::choose(requested.kind(), tx, rx)?)
}

/// Returns why the timestamps are invalid.
pub fn invalid(taken: &StampingResult) -> Option<String> {
    let step_ns = taken.clock_step_ns?;
    let by = match step_ns {
        0 => String::new(),
        ns => format!(" by {:.6} s", ns as f64 / 1e9),
    };
    Some(format!(
        "the time of day was set{by} during the measurement, which uses that clock. Measure again, and find out what sets \
         the clock (chronyc tracking, journalctl)"
    ))
}

/// Returns the timestamps as JSON.
pub fn json(taken: &StampingResult, stamping: &Stamping) -> Value {
    let mut value = json!({
        "kind": stamping.kind.name(),
        "not_taken": stamping.not_taken,
        "valid": taken.is_valid(),
    });
    for (name, counts) in [
        ("departures", taken.departures),
        ("arrivals", taken.arrivals),
    ] {
        if let Some((with, without)) = counts {
            value[format!("{name}_stamped")] = with.into();
            value[format!("{name}_not_stamped")] = without.into();
        }
    }
    if let Some(ns) = taken.clock_step_ns {
        value["clock_set_by_ns"] = ns.into();
    }
    value
}

/// Returns a line with the number of timestamps, and a second one if they are invalid.
pub fn text(taken: &StampingResult, stamping: &Stamping) -> String {
    let mut text = String::new();
    if let (Some((left, unsaid)), Some((returned, unseen))) = (taken.departures, taken.arrivals) {
        text += &format!(
            "stamps    {} departures, {} arrivals",
            number::count(left),
            number::count(returned)
        );
        if unsaid + unseen > 0 {
            text += &format!(
                "; without a timestamp, and so not timed: {} departures, {} arrivals",
                number::count(unsaid),
                number::count(unseen)
            );
        }
        text += "\n";
    }
    for reason in &stamping.not_taken {
        text += &format!("          not {reason}\n");
    }
    if let Some(cause) = invalid(taken) {
        text += &format!("invalid   {cause}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_makes_it_invalid() {
        let taken = StampingResult {
            departures: Some((7, 0)),
            arrivals: Some((6, 1)),
            clock_step_ns: Some(-1_500_000_000),
        };
        let stamping = Stamping::user(vec!["hardware: no clock".into()]);
        let text = text(&taken, &stamping);
        assert!(text.contains("7 departures, 6 arrivals; without a timestamp, and so not timed: 0 departures, 1 arrival"));
        assert!(text.contains("not hardware: no clock"));
        assert!(
            text.contains("invalid   the time of day was set by -1.500000 s"),
            "{text}"
        );
        let document = json(&taken, &stamping);
        assert_eq!(document["valid"], false);
        assert_eq!(document["arrivals_not_stamped"], 1);
        let quiet = StampingResult::default();
        assert_eq!(invalid(&quiet), None);
        assert_eq!(json(&quiet, &stamping)["valid"], true);
    }
}
