//! Meters that are off by a factor: detected over the trials of a run, reported, and from then on
//! only approximate.
//!
//! A device may report 977 frames for every 1000 that passed it (because its thousands are 1024),
//! in every trial alike. A single trial cannot distinguish that from frames lost on a wire; several
//! trials with different loads can, because random loss never has exactly the same share. Only
//! meters on wires are compared, from both ends of the chain towards the DUT. Start with
//! [`Meters`].

use std::collections::BTreeMap;

use fwdlab_model::loss::{Counters, Ledger, Meter, Place, Stage};
use fwdlab_model::result::TrialRecord;

/// Number of trials that must agree on a factor. Three: an invalid trial is attempted three times,
/// so the third attempt counts.
const TRIALS: usize = 3;

/// A trial agrees with a factor if it differs by at most this many frames: counters are rounded to
/// integers, and are read slightly before or after one another.
const ROUNDED: f64 = 2.0;

/// Additional tolerance relative to the factor: the rounding of a factor with few digits.
const SAME: f64 = 1e-5;

/// A factor closer to 1 than this is ignored.
const FACTOR: f64 = 1e-3;

/// A meter's readings of the last trials, each with the frames that passed it.
type Readings = Vec<(u64, u64)>;

/// The state of a test bed's meters over a run.
#[derive(Debug, Clone, Default)]
pub struct Meters {
    seen: BTreeMap<(usize, Stage), Readings>,
}

impl Meters {
    /// Takes the counters of a trial, one per direction, and marks the meters in them that are
    /// known to be off by a factor.
    pub fn judge(&mut self, ways: &mut [Counters]) {
        for (way, counters) in ways.iter_mut().enumerate() {
            self.see(way, counters);
            for meter in &mut counters.chain.meters {
                let observed = self.seen.get(&(way, meter.stage.clone()));
                if let Some(factor) = observed.and_then(factor) {
                    meter.is_approximate(words(factor));
                }
            }
        }
    }

    /// Compares every meter with a trusted neighbour: the ends are trusted, and so is every meter
    /// that agrees with a trusted one.
    fn see(&mut self, way: usize, counters: &Counters) {
        let c = counters;
        let meters = &c.chain.meters;
        let dut = meters.iter().position(|m| m.across == Some(Place::Dut));
        let (before, behind) = meters.split_at(dut.unwrap_or(meters.len()));
        let mut believed = c.generator_sent + c.generator_additional;
        for meter in before {
            if let Some(passed) = meter.exactly() {
                let returned = passed + meter.frames_dropped();
                if self.agrees(way, meter, returned, believed) {
                    believed = passed;
                }
            }
        }
        let mut believed = c.receiver_received + c.receiver_foreign + c.receiver_late;
        for meter in behind.iter().rev() {
            if let Some(passed) = meter.exactly()
                && self.agrees(way, meter, passed, believed)
            {
                believed = passed + meter.frames_dropped();
            }
        }
    }

    fn agrees(&mut self, way: usize, meter: &Meter, reads: u64, believed: u64) -> bool {
        let observed = self.seen.entry((way, meter.stage.clone())).or_default();
        match reads == believed {
            true => observed.clear(),
            false => observed.push((reads, believed)),
        }
        reads == believed
    }
}

/// Returns remarks on the meters behind these trials: which were not read, which are only
/// approximate, and why.
pub fn remarks(trials: &[TrialRecord]) -> Vec<String> {
    let valid = trials.iter().filter(|trial| trial.validity.is_valid());
    let all = Ledger::total(valid.map(|trial| &trial.ledger));
    all.not_exact.iter().map(ToString::to_string).collect()
}

/// Returns the factor that all of the last readings have in common.
fn factor(observed: &Readings) -> Option<f64> {
    let last = observed.get(observed.len().checked_sub(TRIALS)?..)?;
    let reads: u64 = last.iter().map(|(reads, _)| reads).sum();
    let passed: u64 = last.iter().map(|(_, passed)| passed).sum();
    let factor = reads as f64 / passed as f64;
    let fits = |(reads, passed): &(u64, u64)| {
        let expected = factor * *passed as f64;
        (*reads as f64 - expected).abs() <= ROUNDED + SAME * expected
    };
    // a few frames would agree with any factor
    let tells = |(_, passed): &(u64, u64)| *passed as f64 * FACTOR > 2.0 * ROUNDED;
    ((factor - 1.0).abs() > FACTOR && last.iter().all(fits) && last.iter().all(tells))
        .then_some(factor)
}

fn words(factor: f64) -> String {
    let frames = format!("{:.1}", 1000.0 * factor);
    let frames = frames.trim_end_matches(".0");
    format!("it reports {frames} frames for every 1000")
}

#[cfg(test)]
mod tests {
    use fwdlab_model::loss::VethCounts;

    use super::*;
    use crate::conservation::{balance, objections};

    /// A trial in which the DUT's ports report `factor` frames for each one.
    fn trial(sent: u64, forwarded: u64, factor: f64) -> Counters {
        let counted = |frames: u64| (frames as f64 * factor).round() as u64;
        let ports = VethCounts {
            generator_port_tx_packets: sent,
            dut_in_rx_packets: counted(sent),
            dut_out_tx_packets: counted(forwarded),
            receiver_port_rx_packets: forwarded,
            ..VethCounts::default()
        };
        Counters {
            generator_sent: sent,
            chain: ports.chain(),
            receiver_received: forwarded,
            ..Counters::default()
        }
    }

    fn judged(meters: &mut Meters, counters: Counters) -> Counters {
        let mut ways = [counters];
        meters.judge(&mut ways);
        let [counters] = ways;
        counters
    }

    #[test]
    fn a_meter_that_is_off_by_a_factor_is_found_named_and_left_out() {
        for (factor, words) in [
            (1000.0 / 1024.0, "it reports 976.6 frames for every 1000"),
            (1.024, "it reports 1024 frames for every 1000"),
        ] {
            let mut meters = Meters::default();
            for (number, sent) in [1_000_000, 770_001, 310_007, 500_000]
                .into_iter()
                .enumerate()
            {
                let counters = judged(&mut meters, trial(sent, sent / 2, factor));
                let ledger = balance(&counters, None);
                assert_eq!(
                    number >= 2,
                    objections(&ledger, &counters).is_empty()
                        && ledger.not_exact.len() == 2
                        && ledger.not_exact[0].why == words,
                    "{number}: {ledger:?}"
                );
                if number >= 2 {
                    assert_eq!(
                        ledger.losses[0].place.words(),
                        "between the generator's port and the receiver's port"
                    );
                    assert_eq!(ledger.losses[0].frames, sent - sent / 2);
                }
            }
        }
    }

    #[test]
    fn frames_lost_on_a_wire_are_no_factor() {
        let mut meters = Meters::default();
        for (sent, arrived) in [
            (1_000_000, 976_600),
            (770_001, 751_750),
            (310_007, 302_900),
            (500_000, 488_400),
        ] {
            let mut counters = trial(sent, arrived, 1.0);
            counters.chain.meters[1].reading =
                fwdlab_model::loss::Reading::Exact { passed: arrived };
            let counters = judged(&mut meters, counters);
            assert!(balance(&counters, None).frames_unexplained > 0);
        }
    }

    #[test]
    fn a_meter_that_is_right_once_is_not_off_by_a_factor() {
        let mut meters = Meters::default();
        for factor in [0.5, 0.5, 1.0, 0.5, 0.5] {
            let counters = judged(&mut meters, trial(1_000_000, 600_000, factor));
            assert!(
                counters
                    .chain
                    .meters
                    .iter()
                    .all(|m| m.not_exact().is_none())
            );
        }
    }

    #[test]
    fn few_frames_give_no_factor() {
        let mut meters = Meters::default();
        for _ in 0..5 {
            let counters = judged(&mut meters, trial(100, 100, 0.97));
            assert!(
                counters
                    .chain
                    .meters
                    .iter()
                    .all(|m| m.not_exact().is_none())
            );
        }
    }
}
