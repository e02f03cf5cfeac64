//! Models of a DUT whose behaviour varies: what it loses at which load, and the likelihood of the
//! trials.
//!
//! A model is a distribution of the DUT's capacity, with a shape, a middle and a spread, and
//! defines whether the capacity changes within trials or from one to the next. It knows nothing
//! about searches. Start with [`Model`].

use std::f64::consts::{PI, SQRT_2};
use std::sync::LazyLock;

/// Below this argument the series of the Gaussian ramp is exact to better than 1e-4, and the closed
/// form is not; above it the ramp is its argument.
const FAR: f64 = 8.0;

/// Beyond this argument the logistic ramp is an exponential, or its argument.
const FAR_LOGISTIC: f64 = 32.0;

/// Ramps are tabulated at this many points per unit: accurate to 1e-8 and better.
const PER_UNIT: f64 = 32.0;

/// e to this power is negligible compared with 1.
const NOTHING: f64 = -40.0;

/// Logarithm of a probability that replaces zero, and can be summed.
const NONE: f64 = -1e6;

/// The distribution of the capacity of a DUT. The average loss at a load is the integral of the
/// distribution up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Logistic: CSIT's stretch function.
    Stretch,
    /// Gaussian of variance 1/2: CSIT's erf function.
    Erf,
    /// Uniform between two ends.
    Even,
    /// Between two ends, most likely in the middle: a period of a cosine.
    Cosine,
    /// Exponential below an upper end.
    Skewed,
    /// Student's t with four degrees of freedom.
    Heavy,
    /// Student's t with two.
    Heavier,
}

/// When the capacity changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Continuously within trials: the loss of a trial is geometric around the average (CSIT).
    Within,
    /// From one trial to the next: a trial loses what exceeds its capacity.
    Between,
}

/// A shape with its parameters: the asymptotic forwarding rate, which is the middle of the
/// capacities, and their spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    shape: Shape,
    change: Change,
    mrr_pps: f64,
    spread_pps: f64,
    ln_spread: f64,
    ln_zero: f64,
}

/// How a trial compares with the expectation of a model: the share of the distribution below it,
/// minus the expected 1/2, and the variance of that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Surprise {
    pub above: f64,
    pub variance: f64,
}

/// A trial, as input of the models.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ModelTrial {
    pub load_pps: f64,
    pub ln_seconds: f64,
    pub lost: f64,
}

impl ModelTrial {
    /// Returns what the DUT forwarded, if anything was lost: its capacity in this trial, to half a
    /// frame.
    pub fn capacity_pps(&self) -> Option<f64> {
        (self.lost > 0.0).then(|| self.load_pps - (self.lost + 0.5) / self.ln_seconds.exp())
    }
}

impl Model {
    /// Creates a model with an asymptotic forwarding rate and a spread, both in frames per second.
    pub fn new(shape: Shape, change: Change, mrr_pps: f64, spread_pps: f64) -> Model {
        Model {
            shape,
            change,
            mrr_pps,
            spread_pps,
            ln_spread: spread_pps.ln(),
            ln_zero: shape.ln_ramp(-mrr_pps / spread_pps),
        }
    }

    /// Returns the natural logarithm of the frames lost per second at a load.
    pub fn ln_loss(&self, load_pps: f64) -> f64 {
        let ramp = self
            .shape
            .ln_ramp((load_pps - self.mrr_pps) / self.spread_pps);
        // ln(e^ramp - e^zero): no load, no loss
        let without_load = self.ln_zero - ramp;
        let difference = match without_load {
            ln if ln < NOTHING => 0.0,
            ln => (-ln.min(-1e-300).exp_m1()).ln(),
        };
        self.ln_spread + ramp + difference
    }

    /// Returns the natural logarithm of the likelihood of these trials.
    pub(super) fn ln_likelihood(&self, made: &[ModelTrial]) -> f64 {
        match self.change {
            Change::Within => self.ln_likelihood_within(made),
            Change::Between => made
                .iter()
                .map(|trial| self.ln_likelihood_between(trial))
                .sum(),
        }
    }

    /// The capacity is known for a trial that lost frames; for the others it was at least the load.
    fn ln_likelihood_between(&self, trial: &ModelTrial) -> f64 {
        match trial.capacity_pps() {
            Some(pps) => self.shape.ln_density(self.place(pps)) - self.ln_spread - trial.ln_seconds,
            None => self
                .shape
                .share_above(self.place(trial.load_pps))
                .ln()
                .max(NONE),
        }
    }

    /// Returns the spread as a share of the middle.
    pub(super) fn relative_spread(&self) -> f64 {
        self.spread_pps / self.mrr_pps
    }

    /// Converts a rate to spreads above the middle.
    fn place(&self, pps: f64) -> f64 {
        (pps - self.mrr_pps) / self.spread_pps
    }

    /// Returns how a trial compares with the expectation: close to 0 is much loss.
    pub(super) fn surprise(&self, trial: &ModelTrial) -> Surprise {
        match self.change {
            Change::Between => {
                // above the load the capacity is unknown: use the middle of the remaining range
                let lossy = self.shape.share_below(self.place(trial.load_pps));
                let at = trial.capacity_pps().map_or((1.0 + lossy) / 2.0, |pps| {
                    self.shape.share_below(self.place(pps))
                });
                let clean = 1.0 - lossy;
                Surprise {
                    above: at - 0.5,
                    variance: (1.0 - clean.powi(3)) / 12.0,
                }
            }
            Change::Within => {
                let expected = (self.ln_loss(trial.load_pps) + trial.ln_seconds).exp();
                let none = 1.0 / (1.0 + expected);
                let more = (1.0 - none).powf(trial.lost);
                Surprise {
                    above: more - none * more / 2.0 - 0.5,
                    // of a discrete distribution: (1 - sum of p^3) / 12
                    variance: (1.0 - none.powi(3) / (1.0 - (1.0 - none).powi(3))) / 12.0,
                }
            }
        }
    }

    /// Lost frames are geometric around the model's expectation.
    fn ln_likelihood_within(&self, made: &[ModelTrial]) -> f64 {
        let mut sum = 0.0;
        // trials without loss share this factor, and one logarithm is enough for many of them
        let mut product: f64 = 1.0;
        for trial in made {
            let ln_expected = self.ln_loss(trial.load_pps) + trial.ln_seconds;
            let more = 1.0 + ln_expected.exp();
            if trial.lost > 0.0 {
                let ln_more = more.ln();
                sum += trial.lost * (ln_expected - ln_more).min(0.0) - ln_more;
            } else {
                product *= more;
                if product > 1e200 {
                    sum -= product.ln();
                    product = 1.0;
                }
            }
        }
        sum - product.ln()
    }

    /// Returns the natural logarithm of the load with this average loss ratio.
    pub fn ln_critical(&self, ln_ratio: f64) -> f64 {
        let excess = |ln_load: f64| self.ln_loss(ln_load.exp()) - ln_load - ln_ratio;
        let (mut low, mut high) = (0.0, (2.0 * (self.mrr_pps + 50.0 * self.spread_pps)).ln());
        while high - low > 1e-7 {
            let middle = (low + high) / 2.0;
            if excess(middle) < 0.0 {
                low = middle;
            } else {
                high = middle;
            }
        }
        (low + high) / 2.0
    }
}

impl Shape {
    /// Returns the logarithm of the integral of the share below, up to a distance from the middle
    /// in spreads.
    fn ln_ramp(self, above: f64) -> f64 {
        static TABLES: LazyLock<[Table; 2]> = LazyLock::new(|| {
            [
                Table::new(FAR_LOGISTIC, |x| {
                    let ramp = softplus(x);
                    (ramp.ln(), 1.0 / (1.0 + (-x).exp()) / ramp)
                }),
                Table::new(FAR, |x| {
                    let ln = ln_gaussian_ramp(x);
                    (ln, gaussian_tail(x) / ln.exp())
                }),
            ]
        });
        let [stretch, erf] = &*TABLES;
        let square = above * above;
        match self {
            Shape::Stretch if above < -FAR_LOGISTIC => above,
            Shape::Erf if above < -FAR => ln_gaussian_ramp(above),
            Shape::Stretch if above < FAR_LOGISTIC => stretch.at(above),
            Shape::Erf if above < FAR => erf.at(above),
            Shape::Even if above <= -1.0 => NONE,
            Shape::Even if above < 1.0 => 2.0 * ((above + 1.0) / 2.0).ln(),
            Shape::Cosine if above <= -1.0 => NONE,
            Shape::Cosine if above < 1.0 => {
                let from = above + 1.0;
                // the first term of its series where the closed form cancels
                match from < 0.01 {
                    true => (PI * PI / 48.0).ln() + 4.0 * from.ln(),
                    false => {
                        (from * from / 4.0 - (1.0 + (PI * above).cos()) / (2.0 * PI * PI)).ln()
                    }
                }
            }
            Shape::Skewed if above < 0.0 => above,
            Shape::Skewed => above.ln_1p(),
            // the same where the first form cancels
            Shape::Heavier if above < 0.0 => -((2.0 + square).sqrt() - above).ln(),
            Shape::Heavier => (((2.0 + square).sqrt() + above) / 2.0).ln(),
            Shape::Heavy => {
                let root = (square + 4.0).sqrt();
                match above < 0.0 {
                    true => 2f64.ln() - (root * (square + 2.0 - above * root)).ln(),
                    false => ((above + (square + 2.0) / root) / 2.0).ln(),
                }
            }
            _ => above.ln(),
        }
    }

    /// Returns the share of the capacities above a distance from the middle in spreads. All shapes
    /// but one are symmetric.
    fn share_above(self, above: f64) -> f64 {
        match self {
            Shape::Skewed => -above.min(0.0).exp_m1(),
            symmetric => symmetric.share_below(-above),
        }
    }

    /// Returns the share of the capacities below.
    fn share_below(self, above: f64) -> f64 {
        let square = above * above;
        match self {
            Shape::Stretch => 1.0 / (1.0 + (-above).exp()),
            Shape::Erf => gaussian_tail(above),
            Shape::Even => ((above + 1.0) / 2.0).clamp(0.0, 1.0),
            Shape::Cosine => {
                let inside = above.clamp(-1.0, 1.0);
                ((1.0 + inside + (PI * inside).sin() / PI) / 2.0).clamp(0.0, 1.0)
            }
            Shape::Skewed => above.min(0.0).exp(),
            Shape::Heavier => {
                let root = (2.0 + square).sqrt();
                match above < 0.0 {
                    true => 1.0 / (root * (root - above)),
                    false => 1.0 - 1.0 / (root * (root + above)),
                }
            }
            Shape::Heavy => {
                let far = above.abs();
                let root = (square + 4.0).sqrt();
                // 1 - x (x^2 + 6) / (x^2 + 4)^(3/2), without cancellation
                let tail = (12.0 * square + 64.0)
                    / (2.0 * root.powi(3) * (root.powi(3) + far * (square + 6.0)));
                if above < 0.0 { tail } else { 1.0 - tail }
            }
        }
    }

    /// Returns the logarithm of the density of capacities, in spreads.
    fn ln_density(self, above: f64) -> f64 {
        let square = above * above;
        match self {
            Shape::Stretch => -above.abs() - 2.0 * (-above.abs()).exp().ln_1p(),
            Shape::Erf => -square - PI.ln() / 2.0,
            Shape::Even if above.abs() <= 1.0 => -2f64.ln(),
            Shape::Cosine if above.abs() < 1.0 => (0.5 + 0.5 * (PI * above).cos()).ln(),
            Shape::Skewed if above <= 0.0 => above,
            Shape::Even | Shape::Cosine | Shape::Skewed => NONE,
            Shape::Heavy => 12f64.ln() - 2.5 * (square + 4.0).ln(),
            Shape::Heavier => -1.5 * (square + 2.0).ln(),
        }
    }
}

/// A smooth function between two ends, by its values and slopes at even distances (cubic Hermite):
/// the fits evaluate the same ramp millions of times, and the Gaussian one is a continued fraction.
struct Table {
    from: f64,
    /// Value, and slope times the distance.
    knots: Vec<(f64, f64)>,
}

impl Table {
    /// Tabulates from `-end` to `end`; the function returns value and slope.
    fn new(end: f64, of: impl Fn(f64) -> (f64, f64)) -> Table {
        let knots = 0..=(2.0 * end * PER_UNIT) as u32;
        Table {
            from: -end,
            knots: knots
                .map(|k| {
                    let (value, slope) = of(f64::from(k) / PER_UNIT - end);
                    (value, slope / PER_UNIT)
                })
                .collect(),
        }
    }

    /// Returns the value at a point between the ends.
    fn at(&self, x: f64) -> f64 {
        let place = (x - self.from) * PER_UNIT;
        let knot = (place as usize).min(self.knots.len() - 2);
        let t = place - knot as f64;
        let ((low, rise), (high, rise_there)) = (self.knots[knot], self.knots[knot + 1]);
        let step = high - low;
        let bend = rise + rise_there - 2.0 * step;
        low + t * (rise + t * ((step - rise - bend) + t * bend))
    }
}

/// ln(1 + e^x).
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// Logarithm of the integral of the Gaussian tail up to x: of x·Φ + φ for a Gaussian of variance
/// 1/2.
fn ln_gaussian_ramp(x: f64) -> f64 {
    if x < -FAR {
        let square = x * x;
        let series = 1.0 - 1.5 / square + 3.75 / (square * square);
        return -square - (4.0 * PI.sqrt() * square).ln() + series.ln();
    }
    let tail = gaussian_tail(x);
    let density = (-x * x).exp() / (2.0 * PI.sqrt());
    (x * tail + density).max(f64::MIN_POSITIVE).ln()
}

/// Returns the share of a Gaussian of variance 1/2 below x.
fn gaussian_tail(x: f64) -> f64 {
    fwdlab_stats::normal::upper_tail(-x * SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expect: f64, relative: f64) {
        assert!(
            (value / expect - 1.0).abs() < relative,
            "{value}, not {expect}"
        );
    }

    #[test]
    fn both_models_match_their_formulas() {
        // directly, where nothing cancels
        let (mrr, spread) = (1e6f64, 2e4f64);
        for load in [9e5f64, 9.9e5, 1e6, 1.05e6, 2e6] {
            let softplus = |x: f64| x.exp().ln_1p();
            let direct = spread * (softplus((load - mrr) / spread) - softplus(-mrr / spread));
            near(
                Model::new(Shape::Stretch, Change::Within, mrr, spread)
                    .ln_loss(load)
                    .exp(),
                direct,
                1e-8,
            );
        }
        // the integral of Φ(√2·t), by Simpson's rule
        for above in [-9.0, -7.9, -3.0, 0.0, 2.0] {
            let (from, steps) = (above - 6.0, 4000);
            let width = (above - from) / f64::from(steps);
            let f = |t: f64| fwdlab_stats::normal::upper_tail(-t * SQRT_2);
            let sum: f64 = (0..=steps)
                .map(|k| {
                    let weight = match k {
                        0 => 1.0,
                        k if k == steps => 1.0,
                        k if k % 2 == 1 => 4.0,
                        _ => 2.0,
                    };
                    weight * f(from + f64::from(k) * width)
                })
                .sum();
            let integral = sum * width / 3.0;
            near(ln_gaussian_ramp(above).exp(), integral, 1e-3);
        }
        // far above the rate both lose the excess; without load nothing
        for shape in [Shape::Stretch, Shape::Erf] {
            near(
                Model::new(shape, Change::Within, 1e6, 1e3)
                    .ln_loss(3e6)
                    .exp(),
                2e6,
                1e-9,
            );
            assert!(Model::new(shape, Change::Within, 1e6, 1e5).ln_loss(1e-9) < -20.0);
            // the critical load has the critical loss ratio
            let model = Model::new(shape, Change::Within, 1e6, 2e4);
            let ln = model.ln_critical(1e-7f64.ln());
            near((model.ln_loss(ln.exp()) - ln).exp(), 1e-7, 1e-4);
        }
    }

    /// Logarithm of frames lost per second at 80, 95, 100 and 110 % of the rate, and the critical
    /// load of 1e-7, by FD.io CSIT's own functions `lfit_stretch`, `lfit_erf` and
    /// `find_critical_rate` (`resources/libraries/python/PLRsearch/PLRsearch.py`, as of commit
    /// 000d9a3a). `lfit_erf` has the square root of 2/pi where only 1/sqrt(pi), the limit of x
    /// erfcx(x), makes it the integral of the Gaussian tail; these are its values with that.
    #[test]
    fn both_models_are_those_of_csit() {
        let stretch = [
            (
                1e6,
                2e4,
                [-0.096_535_147, 7.363_783_383, 9.536_974_632, 11.514_267_634],
                750_128.366,
            ),
            (
                1e6,
                5e3,
                [
                    -31.482_806_809,
                    -1.482_829_508,
                    8.150_680_271,
                    11.512_925_465,
                ],
                945_621.592,
            ),
            (
                1.2e7,
                5e5,
                [8.318_262_54, 11.787_835_574, 12.755_850_457, 14.033_374_658],
                5_102_400.028,
            ),
            (
                3e5,
                3e3,
                [
                    -11.993_632_433,
                    3.003_008_014,
                    7.639_854_647,
                    10.308_957_201,
                ],
                265_090.099,
            ),
        ];
        let erf = [
            (
                1e6,
                2e4,
                [
                    -96.675_087_689,
                    -0.331_814_101,
                    8.637_975_429,
                    11.512_925_465,
                ],
                943_211.974,
            ),
            (
                1e6,
                5e3,
                [
                    -1_600.820_161_498,
                    -98.061_382_05,
                    7.251_681_068,
                    11.512_925_465,
                ],
                986_981.676,
            ),
            (
                1.2e7,
                5e5,
                [
                    -15.074_279_062,
                    8.781_438_277,
                    11.856_851_254,
                    13.997_858_238,
                ],
                10_517_265.823,
            ),
            (
                3e5,
                3e3,
                [
                    -399.947_490_01,
                    -22.227_436_758,
                    6.740_855_444,
                    10.308_952_661,
                ],
                291_833.182,
            ),
        ];
        for (shape, values) in [(Shape::Stretch, stretch), (Shape::Erf, erf)] {
            for (mrr, spread, ln_losses, critical) in values {
                let model = Model::new(shape, Change::Within, mrr, spread);
                for (share, expect) in [0.8, 0.95, 1.0, 1.1].into_iter().zip(ln_losses) {
                    let ln = model.ln_loss(share * mrr);
                    // below eight spreads the Gaussian tail is a series
                    let far = shape == Shape::Erf && (1.0 - share) * mrr > FAR * spread;
                    let tolerance = if far { 1e-4 } else { 2e-8 };
                    assert!(
                        (ln - expect).abs() < tolerance,
                        "{model:?}: {ln}, not {expect}"
                    );
                }
                near(model.ln_critical(1e-7f64.ln()).exp(), critical, 1e-6);
            }
        }
    }

    /// For every shape, the integral of the share below is the loss, the density is its slope, and
    /// both ends are correct.
    #[test]
    fn ramp_share_and_density_are_of_one_distribution() {
        for shape in [
            Shape::Stretch,
            Shape::Erf,
            Shape::Even,
            Shape::Cosine,
            Shape::Skewed,
            Shape::Heavy,
            Shape::Heavier,
        ] {
            let ramp = |x: f64| shape.ln_ramp(x).exp();
            for x in [
                -30.0, -7.0, -3.1, -1.5, -0.995, -0.98, -0.7, -0.2, 0.3, 0.9, 1.7, 4.0, 20.0,
            ] {
                let step = 1e-4;
                let slope = (ramp(x + step) - ramp(x - step)) / (2.0 * step);
                let share = shape.share_below(x);
                let near = |a: f64, b: f64| (a - b).abs() < 1e-7 + 2e-3 * b;
                assert!(near(slope, share), "{shape:?} at {x}: {slope}, not {share}");
                let slope =
                    (shape.share_below(x + step) - shape.share_below(x - step)) / (2.0 * step);
                let density = shape.ln_density(x).exp();
                assert!(
                    near(slope, density),
                    "{shape:?} at {x}: {slope}, not {density}"
                );
                let both = share + shape.share_above(x);
                assert!((both - 1.0).abs() < 1e-12, "{shape:?} at {x}: {both}");
            }
        }
        // far out, where closed forms would cancel: 1/(2 x) and 2/x^3/2
        near(Shape::Heavier.ln_ramp(-1e6).exp(), 0.5e-6, 1e-6);
        near(Shape::Heavy.ln_ramp(-1e4).exp(), 1e-12, 1e-6);
        near(Shape::Heavy.share_below(-1e4), 3e-16, 1e-6);
    }

    /// A surprise is 0 on average, with the stated variance.
    #[test]
    fn surprises_have_the_stated_variance() {
        let made = |load_pps: f64, lost: f64| ModelTrial {
            load_pps,
            ln_seconds: 10f64.ln(),
            lost,
        };
        // capacities at even shares of an even distribution from 9e5 to 1.1e6
        let between = Model::new(Shape::Even, Change::Between, 1e6, 1e5);
        let within = Model::new(Shape::Stretch, Change::Within, 1e6, 2e4);
        for load in [8.5e5, 9.5e5, 9.9e5, 1e6] {
            let capacities = (0..20_000).map(|k| 9e5 + 2e5 * (f64::from(k) + 0.5) / 2e4);
            let lost = capacities.map(|pps| ((load - pps).max(0.0) * 10.0).floor());
            let even: Vec<(Surprise, f64)> = lost
                .map(|lost| (between.surprise(&made(load, lost)), 1.0 / 2e4))
                .collect();
            // and weighted by the probabilities of a geometric distribution
            let mean = within.ln_loss(load).exp() * 10.0;
            let none = 1.0 / (1.0 + mean);
            let counts = (0..4_000_000).map(f64::from);
            let geometric: Vec<(Surprise, f64)> = counts
                .take((40.0 * (mean + 1.0)) as usize)
                .map(|lost| {
                    (
                        within.surprise(&made(load, lost)),
                        none * (1.0 - none).powf(lost),
                    )
                })
                .collect();
            for surprises in [even, geometric] {
                let sum = |of: &dyn Fn(&Surprise) -> f64| -> f64 {
                    surprises
                        .iter()
                        .map(|(surprise, share)| share * of(surprise))
                        .sum()
                };
                let (mean, variance) = (sum(&|s| s.above), sum(&|s| s.above * s.above));
                let said = surprises[0].0.variance;
                assert!(mean.abs() < 1e-4, "{load}: {mean}");
                assert!(
                    (variance - said).abs() < 1e-4,
                    "{load}: {variance}, not {said}"
                );
            }
        }
    }
}
