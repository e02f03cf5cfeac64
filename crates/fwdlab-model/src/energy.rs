//! The cost of a packet: energy from watts, processor time from cycles.
//!
//! Formulas of docs/methodology.md, "Energy and cycles"; power and cycles are measured elsewhere.
//! Count forwarded frames once, not per port. Start with [`joules_per_frame`] and
//! [`effective_clock_hz`].

use crate::units::{UnitError, decimal};

/// Returns the energy of one forwarded frame: power under load over forwarding rate.
pub fn joules_per_frame(watts: f64, pps: f64) -> f64 {
    watts / pps
}

/// Returns the energy of one more frame: what the load adds to the idle device. `None` if the idle
/// power was higher: no frame returns energy.
pub fn marginal_joules_per_frame(watts: f64, idle_watts: f64, pps: f64) -> Option<f64> {
    (watts >= idle_watts).then(|| (watts - idle_watts) / pps)
}

/// Returns the watts for each Gbit/s of forwarded frames.
pub fn watts_per_gbps_l2(watts: f64, l2_bps: f64) -> f64 {
    watts / (l2_bps / 1e9)
}

/// Returns how closely power follows load: 1 if idling costs nothing, 0 if it costs as much as full
/// load. `None` if it costs more.
pub fn proportionality(idle_watts: f64, full_watts: f64) -> Option<f64> {
    (full_watts > 0.0 && full_watts >= idle_watts).then(|| 1.0 - idle_watts / full_watts)
}

/// Returns the cycles that cores spend on each frame.
pub fn cycles_per_frame(cores_busy: f64, clock_hz: f64, pps: f64) -> f64 {
    cores_busy * clock_hz / pps
}

/// Returns the cycles per second that a rate takes: when one core is saturated this is its clock,
/// if the cycles were counted correctly.
pub fn effective_clock_hz(pps: f64, cycles_per_frame: f64) -> f64 {
    pps * cycles_per_frame
}

/// Returns the frames per second for which one core has the cycles.
pub fn core_rate_pps(clock_hz: f64, cycles_per_frame: f64) -> f64 {
    clock_hz / cycles_per_frame
}

/// Parses the clock of a core, `2.2GHz` or `2195.7 MHz`, into Hz.
///
/// # Errors
/// If the text is not a frequency, or not within 1 Hz and 1000 GHz.
pub fn parse_clock_hz(text: &str) -> Result<f64, UnitError> {
    let bad = |reason: &str| UnitError::new(text, "clock", reason);
    const RIGHT: &str = "for example 2.2GHz or 800MHz";
    let (number, unit) = decimal::split(text);
    let exponent = match unit.to_ascii_lowercase().as_str() {
        "hz" => 0,
        "khz" => 3,
        "mhz" => 6,
        "ghz" => 9,
        _ => return Err(bad(RIGHT)),
    };
    let hz = decimal::parse(number, exponent).ok_or_else(|| bad(RIGHT))?;
    if (1.0..=1e12).contains(&hz) {
        Ok(hz)
    } else {
        Err(bad("it must be 1Hz to 1000GHz"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(value: f64, expect: f64, tolerance: f64) {
        assert!((value - expect).abs() <= tolerance, "{value}, not {expect}");
    }

    /// Figures of published reviews (docs/methodology.md, "Energy and cycles").
    #[test]
    fn energy() {
        near(joules_per_frame(19.0, 15.1e6) * 1e6, 1.258, 5e-4);
        near(
            marginal_joules_per_frame(19.0, 12.0, 10e6).unwrap() * 1e6,
            0.7,
            1e-9,
        );
        assert_eq!(marginal_joules_per_frame(5.0, 6.0, 1e6), None);
        assert_eq!(proportionality(6.0, 5.0), None);
        // 64-byte frames at 10G are 7.619 Gbit/s L2
        near(watts_per_gbps_l2(19.0, 7.619e9), 2.494, 5e-4);
        near(proportionality(5.0, 20.0).unwrap(), 0.75, 1e-12);
        near(proportionality(0.0, 20.0).unwrap(), 1.0, 1e-12);
    }

    #[test]
    fn cycles() {
        near(effective_clock_hz(5.01426e6, 437.9) / 1e6, 2195.7, 0.05);
        near(effective_clock_hz(5.01e6, 438.0) / 1e6, 2194.0, 0.5);
        near(cycles_per_frame(1.0, 2.2e9, 5.01e6), 439.1, 0.05);
        near(cycles_per_frame(2.0, 2.2e9, 5.01e6), 878.2, 0.1);
        // "13.8 times (4953/438)" of the slides is 4953/358; 4953/438 is 11.3
        let speed_up = |from, to| core_rate_pps(2.2e9, to) / core_rate_pps(2.2e9, from);
        near(speed_up(4953.0, 358.0), 13.8, 0.05);
        near(speed_up(4953.0, 438.0), 11.3, 0.05);
    }

    #[test]
    fn clocks_as_people_type_them() {
        for (text, hz) in [
            ("2.2GHz", 2.2e9),
            ("2195.7 MHz", 2_195_700_000.0),
            ("100khz", 1e5),
            ("5Hz", 5.0),
        ] {
            assert_eq!(parse_clock_hz(text).unwrap(), hz);
        }
        for text in [
            "", "2.2", "2.2G", "GHz", "0GHz", "1001GHz", "-1GHz", "1e9Hz", "infHz",
        ] {
            assert!(parse_clock_hz(text).is_err(), "{text}");
        }
    }
}
