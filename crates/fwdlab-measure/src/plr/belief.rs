//! Combines all models into a distribution of the critical load, and checks whether they fit the
//! trials.
//!
//! Each model is weighted by its evidence: models of a capacity that changes within trials, and of
//! one that differs from trial to trial, with short and with long tails. Does not choose trials.
//! Start with [`weigh_models`].

use super::model::{Change, Model, ModelTrial, Shape};
use super::posterior::{Coordinates, Focus, Posterior, posterior};
use crate::order::Random;

/// Shapes of a capacity that changes within trials (CSIT's two).
pub(super) const WITHIN: [Shape; 2] = [Shape::Stretch, Shape::Erf];

/// Shapes of a capacity that differs from trial to trial, with their priors. A shape with
/// such a long tail that a noisy DUT has no critical load has a small prior: trials must show it.
const BETWEEN: [(Shape, f64, Coordinates); 7] = [
    (Shape::Even, 1.0, Coordinates::Foot(1.0)),
    (Shape::Cosine, 1.0, Coordinates::Foot(0.8)),
    (Shape::Erf, 1.0, Coordinates::Foot(1.2)),
    (Shape::Stretch, 1.0, Coordinates::Foot(2.5)),
    (Shape::Skewed, 1.0, Coordinates::Foot(2.0)),
    (Shape::Heavy, 1.0, Coordinates::Foot(1.5)),
    (Shape::Heavier, 0.05, Coordinates::Foot(1.5)),
];

/// Pairs of parameters drawn for each model.
const DRAWN: usize = 600;

/// The evidence of models is raised to this power: none of them is exactly true, and the decision
/// comes from the many trials in the middle of the distribution, not from its tail.
const TEMPER: f64 = 0.5;

/// Probability outside the reported interval, on either side.
const TAIL: f64 = 0.025;

/// The finest precision: no spread is smaller, and frames are integers.
const FINEST_PPS: f64 = 1.0;

/// A sum of surprises of this many standard deviations is not random (one in a thousand, both
/// sides).
const NO_CHANCE: f64 = 3.3;

/// Capacities that differ by less than this share are equal: a buffer, too, makes long trials lose
/// more than short ones.
const SAME: f64 = 1e-4;

/// The combined result of the models.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Belief {
    /// Logarithms of the critical load: lower end, median, upper end.
    pub ln_loads: [f64; 3],
    /// Standard deviation of the logarithm.
    pub deviation: f64,
    /// Probability that the capacity differs from trial to trial.
    pub between: f64,
    /// How the best model fails, as text.
    pub objection: Option<&'static str>,
}

/// Weights all models by their evidence from the trials, for a largest load and a loss ratio.
pub(super) fn weigh_models(
    (max_load_pps, loss_ratio): (f64, f64),
    made: &[ModelTrial],
    within: [Focus; 2],
    random: &mut Random,
) -> Belief {
    let mut fits: Vec<(f64, Change, Posterior)> = Vec::new();
    for (shape, focus) in WITHIN.into_iter().zip(within) {
        let fit = posterior(
            max_load_pps,
            made,
            (shape, Change::Within),
            (Coordinates::Square, focus),
            DRAWN,
            random,
        );
        fits.push((1.0, Change::Within, fit));
    }
    if let Some((first, last)) = range(made) {
        let wide = (last - first).max(2.0);
        let focus = Focus::around(first - 0.02 * wide, 0.2 * wide, 0.4 * wide);
        for (shape, prior, plane) in BETWEEN {
            let kind = (shape, Change::Between);
            let fit = posterior(max_load_pps, made, kind, (plane, focus), DRAWN, random);
            fits.push((prior, Change::Between, fit));
        }
    }
    let best = fits
        .iter()
        .map(|(_, _, fit)| fit.ln_evidence)
        .fold(f64::MIN, f64::max);
    let weigh = |prior: f64, fit: &Posterior| prior * (TEMPER * (fit.ln_evidence - best)).exp();
    let all: f64 = fits.iter().map(|(prior, _, fit)| weigh(*prior, fit)).sum();
    let mut loads: Vec<(f64, f64)> = Vec::new();
    let mut between = 0.0;
    for (prior, change, fit) in &fits {
        let weight = weigh(*prior, fit) / all;
        if *change == Change::Between {
            between += weight;
        }
        let critical = fit.critical_loads(loss_ratio);
        loads.extend(critical.into_iter().map(|(ln, share)| (ln, share * weight)));
    }
    loads.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean: f64 = loads.iter().map(|(ln, weight)| ln * weight).sum();
    let variance: f64 = loads
        .iter()
        .map(|(ln, weight)| weight * (ln - mean).powi(2))
        .sum();
    let likely = fits
        .iter()
        .max_by(|a, b| weigh(a.0, &a.2).total_cmp(&weigh(b.0, &b.2)));
    Belief {
        ln_loads: [(TAIL, -FINEST_PPS), (0.5, 0.0), (1.0 - TAIL, FINEST_PPS)].map(
            |(share, pps)| {
                let load = quantile(&loads, share).exp() + pps;
                load.max(1.0).ln()
            },
        ),
        deviation: variance.sqrt(),
        between,
        objection: likely.and_then(|(_, _, fit)| misfit_reason(&fit.best(), made)),
    }
}

/// Returns the load below which this share of the weights lies.
fn quantile(sorted: &[(f64, f64)], share: f64) -> f64 {
    let mut below = 0.0;
    let reached = sorted.iter().find(|(_, weight)| {
        below += weight;
        below >= share
    });
    reached.or(sorted.last()).map_or(f64::NAN, |(ln, _)| *ln)
}

/// Returns the known range of the capacities of single trials; `None` if no trial lost frames.
fn range(made: &[ModelTrial]) -> Option<(f64, f64)> {
    let known = made.iter().filter_map(ModelTrial::capacity_pps);
    let first = known.clone().min_by(f64::total_cmp)?;
    let clean = made.iter().filter(|trial| trial.lost == 0.0);
    let most = known.chain(clean.map(|trial| trial.load_pps));
    Some((first, most.fold(first, f64::max)))
}

/// Returns how a model fails: its trials should surprise it equally often in both directions, early
/// and late alike, and none should predict the next.
fn misfit_reason(model: &Model, made: &[ModelTrial]) -> Option<&'static str> {
    if model.relative_spread() < SAME {
        return None;
    }
    let surprises: Vec<_> = made.iter().map(|trial| model.surprise(trial)).collect();
    let count = made.len() as f64;
    let mean = surprises.iter().map(|s| s.above).sum::<f64>() / count;
    let off = |terms: &mut dyn Iterator<Item = (f64, f64)>| {
        let (sum, variance) = terms.fold((0.0, 0.0), |(sum, all), (term, variance)| {
            (sum + term, all + variance)
        });
        sum / f64::sqrt(variance).max(f64::MIN_POSITIVE)
    };
    let trend = off(&mut surprises.iter().enumerate().map(|(k, s)| {
        let time = k as f64 - (count - 1.0) / 2.0;
        (time * (s.above - mean), time * time * s.variance)
    }));
    let memory = off(&mut surprises.windows(2).map(|pair| {
        let product = (pair[0].above - mean) * (pair[1].above - mean);
        (product, pair[0].variance * pair[1].variance)
    }));
    match () {
        () if trend < -NO_CHANCE => Some("its capacity falls"),
        () if trend > NO_CHANCE => Some("its capacity rises"),
        () if memory > NO_CHANCE => Some("its capacity wanders"),
        () => None,
    }
}
