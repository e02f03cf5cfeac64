//! Classifies loads by their trials: a load meets a target, or does not, or is undecided.

use std::collections::BTreeMap;

use super::goal::Target;

/// Durations closer than this are equal: half a nanosecond, because all are integers.
const SAME_NS: f64 = 0.5;

/// A finished trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FinishedTrial {
    /// Its duration.
    pub duration_ns: u64,
    /// Share of frames lost.
    pub loss_ratio: f64,
}

/// The finished trials, by load.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trials(BTreeMap<u32, Vec<FinishedTrial>>);

/// The classification of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It meets the target, regardless of further trials.
    Lower,
    /// It does not meet the target, regardless of further trials.
    Upper,
    /// More trials may decide either way.
    Undecided,
}

/// The loads between which the result of the target lies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Largest load that meets the target, and is below every load that does not.
    pub lower: Option<u32>,
    /// Smallest load that does not meet the target.
    pub upper: Option<u32>,
}

impl Trials {
    pub(super) fn add(&mut self, load: u32, duration_ns: u64, loss_ratio: f64) {
        self.0.entry(load).or_default().push(FinishedTrial {
            duration_ns,
            loss_ratio,
        });
    }

    /// Iterates over all trials with their loads, lowest load first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[FinishedTrial])> {
        self.0.iter().map(|(&load, made)| (load, &made[..]))
    }

    /// Returns the relevant bounds of a target. A lower bound above an upper bound (loss inversion)
    /// is ignored.
    pub fn bounds(&self, target: &Target) -> Bounds {
        let mut bounds = Bounds::default();
        for (&load, made) in &self.0 {
            match classify(made, target) {
                Class::Upper => {
                    bounds.upper = Some(load);
                    break;
                }
                Class::Lower => bounds.lower = Some(load),
                Class::Undecided => {}
            }
        }
        bounds
    }

    /// Returns the typical loss ratio at a load: that of the target's trials at the quantile of its
    /// exceed ratio.
    pub(super) fn conditional_loss(&self, load: u32, target: &Target) -> f64 {
        let made = self.0.get(&load).map_or(&[][..], Vec::as_slice);
        let mut full: Vec<&FinishedTrial> = made
            .iter()
            .filter(|trial| trial.duration_ns >= target.trial_ns)
            .collect();
        full.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
        let all: u64 = full.iter().map(|trial| trial.duration_ns).sum();
        let mut left = target.sum_ns.max(all) as f64 * (1.0 - target.exceed_ratio);
        for trial in full {
            left -= trial.duration_ns as f64;
            // twice, so that at a lower bound rounding does not lead beyond the good trials
            if left <= 2.0 * SAME_NS {
                return trial.loss_ratio;
            }
        }
        1.0
    }
}

/// Classifies a load by its trials, for a target.
pub fn classify(made: &[FinishedTrial], target: &Target) -> Class {
    let (mut good_long, mut bad_long, mut good_short, mut bad_short) = (0.0, 0.0, 0.0, 0.0);
    for trial in made {
        let full = trial.duration_ns >= target.trial_ns;
        let bad = trial.loss_ratio > target.loss_ratio;
        *match (full, bad) {
            (true, false) => &mut good_long,
            (true, true) => &mut bad_long,
            (false, false) => &mut good_short,
            (false, true) => &mut bad_short,
        } += trial.duration_ns as f64;
    }
    let exceed = target.exceed_ratio;
    // good short trials cancel bad short ones, but no more than these
    let bad: f64 = bad_long + (bad_short - good_short * exceed / (1.0 - exceed)).max(0.0);
    let whole = (good_long + bad).max(target.sum_ns as f64);
    let allowed = whole * exceed;
    let if_the_rest_is_good = bad <= allowed + SAME_NS;
    let if_the_rest_is_bad = whole - good_long <= allowed + SAME_NS;
    match (if_the_rest_is_good, if_the_rest_is_bad) {
        (true, true) => Class::Lower,
        (false, false) => Class::Upper,
        _ => Class::Undecided,
    }
}
