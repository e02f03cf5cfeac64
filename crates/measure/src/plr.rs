//! PLRsearch: the load whose average loss is a given tiny share, on a DUT that is not the same twice (FD.io CSIT).
//!
//! Trials of growing length; two models of loss over load are fitted to all of them by Bayes' rule, and the next load is where they
//! put the critical load. Method: draft-vpolak-bmwg-plrsearch; formulas: methods.md §4.6. The models assume that the DUT does
//! not drift: the estimates over time are kept for that reason. Start with [`Plr`].

use std::sync::LazyLock;

use model::outcome::{Compliance, CriticalLoad, Estimate, Found, Outcome};
use model::procedure::{Answer, Purpose, Question};
use model::units::FrameSize;
use model::variant::Variant;

use crate::order::Random;
use crate::procedure::{Course, Procedure, check_duration, check_load, loss_ratio};

/// Length of trial k is so much times (k + [`LENGTH_OFFSET`]).
const LENGTH_STEP_NS: u64 = 100_000_000;

/// See [`LENGTH_STEP_NS`].
const LENGTH_OFFSET: u64 = 50;

/// Parameter pairs drawn in one round. Drawn evenly as they are, they say more than thrice as many at random.
const DRAWN: usize = 200;

/// Rounds of drawing at most, each around what the one before saw.
const ROUNDS: u32 = 8;

/// A round whose pairs weigh as much as this share of them would that all weigh the same may be the last, when the one before was not
/// much worse: aim again is no use. (A Gaussian that is hit exactly gives 0.3, see [`INFLATION`]; trials that only see the tail of a
/// model leave a crescent, of which it gives 0.1.)
const AIMED: f64 = 0.04;

/// Much worse.
const WORSE: f64 = 0.75;

/// Points of less weight, relative to the best, say nothing.
const NEGLIGIBLE: f64 = 1e-4;

/// The reported interval is so many standard deviations of the logarithm to either side: 95 %. (CSIT prints one.)
const DEVIATIONS: f64 = 2.0;

/// The Gaussian that is drawn from has the covariance of what was seen, times this.
const INFLATION: f64 = 6.0;

/// Copies of a lossy load that are kept, and how many a trial without loss takes away.
const COPIES: usize = 4;
const TAKEN: usize = 3;

/// Below this argument the series of the Gaussian ramp is exact to better than 1e-4, and the closed form is not; above it the ramp
/// is its argument.
const FAR: f64 = 8.0;

/// Beyond this argument the logistic ramp is an exponential, or its argument.
const FAR_LOGISTIC: f64 = 32.0;

/// Ramps are tabulated so many times in a unit: read to 1e-8 and better.
const PER_UNIT: f64 = 32.0;

/// e to this power is nothing beside 1.
const NOTHING: f64 = -40.0;

/// What is to be found.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// Frame size, FCS counted.
    pub frame_size: FrameSize,
    /// Smallest load.
    pub min_load_pps: f64,
    /// Largest load.
    pub max_load_pps: f64,
    /// The average loss ratio that is sought.
    pub loss_ratio: f64,
    /// Trials are made for so long.
    pub duration_ns: u64,
    /// Seed of the drawing.
    pub seed: u64,
}

impl Parameters {
    /// Half an hour, one frame lost in ten million: CSIT's soak test.
    pub fn standard(
        frame_size: FrameSize,
        min_load_pps: f64,
        max_load_pps: f64,
        seed: u64,
    ) -> Parameters {
        Parameters {
            frame_size,
            min_load_pps,
            max_load_pps,
            loss_ratio: 1e-7,
            duration_ns: 1_800_000_000_000,
            seed,
        }
    }
}

/// A model of loss per second over load, with an asymptotic forwarding rate and a spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The integral of a logistic function.
    Stretch,
    /// The integral of a Gaussian tail.
    Erf,
}

/// A shape with its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    shape: Shape,
    mrr_pps: f64,
    spread_pps: f64,
    ln_spread: f64,
    ln_zero: f64,
}

impl Model {
    /// With an asymptotic forwarding rate and a spread, both in frames per second.
    pub fn new(shape: Shape, mrr_pps: f64, spread_pps: f64) -> Model {
        Model {
            shape,
            mrr_pps,
            spread_pps,
            ln_spread: spread_pps.ln(),
            ln_zero: shape.ln_ramp(-mrr_pps / spread_pps),
        }
    }

    /// Natural logarithm of the frames lost per second at a load.
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

    /// Natural logarithm of the likelihood of these trials: lost frames are geometric around what the model expects.
    fn ln_likelihood(&self, made: &[Made]) -> f64 {
        let mut sum = 0.0;
        // trials without loss only have this in common, and one logarithm is enough for many
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

    /// Natural logarithm of the load at which the average loss ratio is this one.
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
    /// Logarithm of the integral up to a distance from the forwarding rate in spreads.
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
        match self {
            Shape::Stretch if above < -FAR_LOGISTIC => above,
            Shape::Erf if above < -FAR => ln_gaussian_ramp(above),
            Shape::Stretch if above < FAR_LOGISTIC => stretch.at(above),
            Shape::Erf if above < FAR => erf.at(above),
            _ => above.ln(),
        }
    }
}

/// A smooth function between two ends, by its values and slopes at even distances (cubic Hermite): the fits ask for the same
/// ramp millions of times, and the Gaussian one is a continued fraction.
struct Table {
    from: f64,
    /// Value, and slope times the distance.
    knots: Vec<(f64, f64)>,
}

impl Table {
    /// From `-end` to `end`; the function gives value and slope.
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

    /// At a place between the ends.
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

/// Logarithm of the integral of the Gaussian tail up to x: of x·Φ + φ for a Gaussian of variance 1/2.
fn ln_gaussian_ramp(x: f64) -> f64 {
    if x < -FAR {
        let square = x * x;
        let series = 1.0 - 1.5 / square + 3.75 / (square * square);
        return -square - (4.0 * std::f64::consts::PI.sqrt() * square).ln() + series.ln();
    }
    let tail = gaussian_tail(x);
    let density = (-x * x).exp() / (2.0 * std::f64::consts::PI.sqrt());
    (x * tail + density).max(f64::MIN_POSITIVE).ln()
}

/// Share of a Gaussian of variance 1/2 below x.
fn gaussian_tail(x: f64) -> f64 {
    stats::normal::upper_tail(-x * std::f64::consts::SQRT_2)
}

/// A trial as the models see it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Made {
    load_pps: f64,
    ln_seconds: f64,
    lost: f64,
}

/// What is believed of the two parameters: a Gaussian in the square of the prior.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Focus {
    mean: [f64; 2],
    /// xx, xy, yy.
    covariance: [f64; 3],
}

impl Focus {
    /// Nothing is known: all of the square.
    const NONE: Focus = Focus {
        mean: [0.0, 0.0],
        covariance: [1.0 / 3.0, 0.0, 1.0 / 3.0],
    };
}

/// The critical load by one model: mean and variance of its logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Critical {
    mean: f64,
    variance: f64,
}

/// The machine.
#[derive(Debug, Clone)]
pub struct Plr {
    parameters: Parameters,
    random: Random,
    made: Vec<Made>,
    spent_ns: u64,
    focus: [Focus; 2],
    critical: [Option<Critical>; 2],
    /// Loads that lost frames, the smallest first.
    lossy_loads: Vec<f64>,
    zeros: i32,
    estimates: Vec<Estimate>,
    next_pps: f64,
    course: Course,
}

impl Plr {
    /// Prepares the search.
    ///
    /// # Errors
    /// The loads are none or in the wrong order, the ratio is no ratio, or there is no time for six trials.
    pub fn new(parameters: Parameters) -> Result<Plr, String> {
        let p = &parameters;
        check_load("the smallest load", p.min_load_pps)?;
        check_load("the largest load", p.max_load_pps)?;
        if p.min_load_pps >= p.max_load_pps {
            return Err(format!(
                "the smallest load must be below the largest; they are {} and {} frames per second",
                p.min_load_pps, p.max_load_pps
            ));
        }
        if !(p.loss_ratio > 0.0 && p.loss_ratio < 0.5) {
            return Err(format!(
                "a loss ratio of {}: it must be above 0 and below 0.5",
                p.loss_ratio
            ));
        }
        check_duration("a trial", LENGTH_STEP_NS * LENGTH_OFFSET, p.min_load_pps)?;
        let least: u64 = (1..=6).map(|k| LENGTH_STEP_NS * (k + LENGTH_OFFSET)).sum();
        if p.duration_ns < least {
            return Err(format!(
                "six trials are the least, and take {:.1} s",
                least as f64 / 1e9
            ));
        }
        Ok(Plr {
            random: Random::new(p.seed),
            made: Vec::new(),
            spent_ns: 0,
            focus: [Focus::NONE; 2],
            critical: [None; 2],
            lossy_loads: Vec::new(),
            zeros: 0,
            estimates: Vec::new(),
            next_pps: (p.min_load_pps + p.max_load_pps) / 2.0,
            course: Course::default(),
            parameters,
        })
    }

    fn length_ns(&self) -> u64 {
        LENGTH_STEP_NS * (self.made.len() as u64 + 1 + LENGTH_OFFSET)
    }

    /// Fits both models to the trials so far.
    fn fit(&mut self) {
        for (n, shape) in [Shape::Stretch, Shape::Erf].into_iter().enumerate() {
            let (focus, critical) = posterior(
                &self.parameters,
                &self.made,
                shape,
                self.focus[n],
                &mut self.random,
            );
            self.focus[n] = focus;
            self.critical[n] = Some(critical);
        }
    }

    /// Both models in one: mean and standard deviation of the logarithm.
    fn combined(&self) -> Option<(f64, f64)> {
        let [stretch, erf] = self.critical;
        let (stretch, erf) = (stretch?, erf?);
        let apart = (stretch.mean - erf.mean) / 2.0;
        let variance = (stretch.variance + erf.variance) / 2.0 + apart * apart;
        Some(((stretch.mean + erf.mean) / 2.0, variance.sqrt()))
    }

    fn choose(&self, answer: &Answer) -> f64 {
        let p = &self.parameters;
        let load = match self.made.len() {
            1 => p.max_load_pps,
            2 | 3 => answer.forwarding_rate_pps() / (1.0 - p.loss_ratio),
            _ => {
                let estimate = self.combined().map_or(p.max_load_pps, |(ln, _)| ln.exp());
                match (self.zeros, self.lossy_loads.first()) {
                    (2.., Some(lossy)) => {
                        let weight = 2f64.powi(1 - self.zeros);
                        lossy + weight * (estimate - lossy)
                    }
                    _ => estimate,
                }
            }
        };
        load.clamp(p.min_load_pps, p.max_load_pps)
    }
}

/// Posterior of the critical load by one model, by importance sampling around the last focus.
fn posterior(
    parameters: &Parameters,
    made: &[Made],
    shape: Shape,
    mut focus: Focus,
    random: &mut Random,
) -> (Focus, Critical) {
    let ln_ratio = parameters.loss_ratio.ln();
    let mut drawing = Drawing::new(random);
    let (mut rounds, mut last_aim) = (0, 0.0);
    loop {
        rounds += 1;
        let drawn = (0..DRAWN)
            .map(|_| {
                let (point, distance) = drawing.inside(&focus);
                let (mrr, spread) = prior(point, parameters.max_load_pps);
                let model = Model::new(shape, mrr, spread);
                let ln_weight = model.ln_likelihood(made) + distance / 2.0;
                (point, model, ln_weight)
            })
            .collect::<Vec<_>>();
        let best = drawn.iter().map(|d| d.2).fold(f64::MIN, f64::max);
        let drawn: Vec<([f64; 2], Model, f64)> = drawn
            .into_iter()
            .map(|(point, model, ln_weight)| (point, model, (ln_weight - best).exp()))
            .collect();
        let sum = |of: &dyn Fn(&[f64; 2]) -> f64| -> f64 {
            drawn.iter().map(|(p, _, weight)| weight * of(p)).sum()
        };
        let all = sum(&|_| 1.0);
        let centre = [sum(&|p| p[0]) / all, sum(&|p| p[1]) / all];
        // a floor, lest a round that hit one good point sees nothing but it
        let floor = |n: usize| focus.covariance[n] * 1e-4;
        focus = Focus {
            mean: centre,
            covariance: [
                (sum(&|p| (p[0] - centre[0]).powi(2)) / all).max(floor(0)),
                sum(&|p| (p[0] - centre[0]) * (p[1] - centre[1])) / all,
                (sum(&|p| (p[1] - centre[1]).powi(2)) / all).max(floor(2)),
            ],
        };
        let squares: f64 = drawn.iter().map(|(_, _, weight)| weight * weight).sum();
        let aim = all * all / squares / DRAWN as f64;
        if rounds == ROUNDS || last_aim >= AIMED && last_aim >= WORSE * aim {
            return (focus, critical(&drawn, ln_ratio));
        }
        last_aim = aim;
    }
}

/// Mean and variance of the logarithm of the critical loads of models with their weights.
fn critical(drawn: &[([f64; 2], Model, f64)], ln_ratio: f64) -> Critical {
    let logs: Vec<(f64, f64)> = drawn
        .iter()
        .filter(|(_, _, weight)| *weight > NEGLIGIBLE)
        .map(|(_, model, weight)| (*weight, model.ln_critical(ln_ratio)))
        .collect();
    let all: f64 = logs.iter().map(|(weight, _)| weight).sum();
    let mean = logs.iter().map(|(weight, ln)| weight * ln).sum::<f64>() / all;
    let squares = logs
        .iter()
        .map(|(weight, ln)| weight * (ln - mean).powi(2))
        .sum::<f64>();
    Critical {
        mean,
        variance: squares / all,
    }
}

/// The parameters of a point in the square (-1, 1)²: forwarding rate and spread.
fn prior([x, y]: [f64; 2], max_load_pps: f64) -> (f64, f64) {
    let mrr = max_load_pps * (1.0 / (x + 1.0) - 0.5) + 1.0;
    (mrr, mrr.powf((y + 1.0) / 2.0))
}

/// Points of the unit square that fill it evenly: multiples of the powers of 1/g modulo 1, with g the real root of
/// g^3 = g + 1 (M. Roberts' R2 sequence), from a random one on.
struct Drawing {
    next: [f64; 2],
}

impl Drawing {
    const STEPS: [f64; 2] = [0.754_877_666_246_692_8, 0.569_840_290_998_053_2];

    fn new(random: &mut Random) -> Drawing {
        let mut unit = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        Drawing {
            next: [unit(), unit()],
        }
    }

    /// A point from the inflated Gaussian that lies in the square of the prior, and its squared distance from the middle in standard
    /// deviations.
    fn inside(&mut self, focus: &Focus) -> ([f64; 2], f64) {
        let [xx, xy, yy] = focus.covariance.map(|c| c * INFLATION);
        // Cholesky
        let l = xx.sqrt();
        let m = xy / l;
        let n = (yy - m * m).max(yy * 1e-9).sqrt();
        loop {
            let [u, v] = self.next;
            self.next = [0, 1].map(|k| (self.next[k] + Self::STEPS[k]).fract());
            let radius = (-2.0 * (1.0 - u).ln()).sqrt();
            let (sin, cos) = (std::f64::consts::TAU * v).sin_cos();
            let (a, b) = (radius * cos, radius * sin);
            let point = [focus.mean[0] + l * a, focus.mean[1] + m * a + n * b];
            if point.iter().all(|part| part.abs() < 1.0) {
                return (point, radius * radius);
            }
        }
    }
}

impl Procedure for Plr {
    fn next_trial(&mut self) -> Option<Question> {
        let p = &self.parameters;
        if self.course.failure.is_some() || self.spent_ns + self.length_ns() > p.duration_ns {
            return None;
        }
        let reason = match self.made.len() {
            0 => "in the middle".to_owned(),
            1 => "the largest load".into(),
            2 | 3 => "the forwarding rate of the trial before".into(),
            _ => format!("where both models put a loss ratio of {:e}", p.loss_ratio),
        };
        Some(Question::constant(
            p.frame_size,
            self.next_pps,
            self.length_ns(),
            Purpose::Search,
            reason,
        ))
    }

    fn record(&mut self, question: &Question, answer: &Answer) -> String {
        self.course.trials += 1;
        let loss = loss_ratio(question, answer);
        let load = question.peak_pps();
        self.spent_ns += answer.duration_ns;
        self.made.push(Made {
            load_pps: load,
            ln_seconds: (answer.duration_ns as f64 / 1e9).ln(),
            lost: loss * answer.frames_intended as f64,
        });
        if loss > 0.0 {
            self.zeros = 0;
            let at = self.lossy_loads.partition_point(|known| *known < load);
            self.lossy_loads.splice(at..at, [load; COPIES]);
        } else {
            self.zeros += 1;
            let taken = TAKEN.min(self.lossy_loads.len());
            self.lossy_loads.drain(..taken);
        }
        self.fit();
        let [stretch, erf] = self
            .critical
            .map(|critical| critical.map_or(0.0, |c| c.mean.exp()));
        self.estimates.push(Estimate {
            at_s: self.spent_ns as f64 / 1e9,
            load_pps: load,
            loss_ratio: loss,
            stretch_pps: stretch,
            erf_pps: erf,
        });
        self.next_pps = self.choose(answer);
        format!("loss ratio {loss:.3e}; the models say {stretch:.0} and {erf:.0} frames/s")
    }

    fn give_up(&mut self, reason: &str) {
        self.course.failure = Some(reason.into());
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let p = &self.parameters;
        let lossy = self
            .estimates
            .iter()
            .any(|estimate| estimate.loss_ratio > 0.0);
        let clean = self
            .estimates
            .iter()
            .any(|estimate| estimate.loss_ratio < p.loss_ratio);
        let combined = self.combined().filter(|_| lossy && self.made.len() >= 4);
        let at = |deviations: f64| combined.map(|(mean, stdev)| (mean + deviations * stdev).exp());
        let found = at(0.0);
        let mut warnings = Vec::new();
        let halves = self.estimates.len() / 2;
        let middle = |estimates: &[Estimate]| {
            estimates
                .iter()
                .map(|e| (e.stretch_pps + e.erf_pps) / 2.0)
                .sum::<f64>()
                / estimates.len().max(1) as f64
        };
        if halves >= 10 {
            let settled = &self.estimates[halves / 2..];
            let (early, late) = settled.split_at(settled.len() / 2);
            let change = middle(late) / middle(early) - 1.0;
            let stdev = combined.map_or(0.0, |(_, stdev)| stdev);
            if change < -3.0 * stdev.max(1e-3) {
                warnings.push(format!(
                    "the estimates fell by {:.1} % in the second half: the DUT drifts, and the method assumes that it does not",
                    -100.0 * change
                ));
            }
        }
        let verdict = match () {
            () if self.made.is_empty() => "not measured".to_owned(),
            () if !lossy => {
                "nothing was lost at any load: the critical load is above the largest".into()
            }
            () if !clean && found.is_some_and(|pps| pps < p.min_load_pps) => {
                "more than the ratio is lost even at the smallest load".into()
            }
            () => "found".into(),
        };
        let answered = self.course.failure.is_none() && lossy && clean && found.is_some();
        vec![Outcome {
            variant: Variant::default(),
            frame_size_bytes: p.frame_size,
            verdict: self.course.verdict(verdict),
            answered,
            compliance: Compliance::default(),
            warnings,
            trials: self.course.trials,
            found: Found::Plr(CriticalLoad {
                loss_ratio: p.loss_ratio,
                min_load_pps: p.min_load_pps,
                max_load_pps: p.max_load_pps,
                critical_load_pps: found,
                lower_pps: at(-DEVIATIONS),
                upper_pps: at(DEVIATIONS),
                deviation: combined.map(|(_, deviation)| deviation),
                estimates: self.estimates.clone(),
            }),
        }]
    }
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
    fn both_models_are_what_their_formulas_say() {
        // directly, where nothing cancels
        let (mrr, spread) = (1e6f64, 2e4f64);
        for load in [9e5f64, 9.9e5, 1e6, 1.05e6, 2e6] {
            let softplus = |x: f64| x.exp().ln_1p();
            let direct = spread * (softplus((load - mrr) / spread) - softplus(-mrr / spread));
            near(
                Model::new(Shape::Stretch, mrr, spread).ln_loss(load).exp(),
                direct,
                1e-8,
            );
        }
        // the integral of Φ(√2·t), by Simpson's rule
        for above in [-9.0, -7.9, -3.0, 0.0, 2.0] {
            let (from, steps) = (above - 6.0, 4000);
            let width = (above - from) / f64::from(steps);
            let f = |t: f64| stats::normal::upper_tail(-t * std::f64::consts::SQRT_2);
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
        // far above both lose what exceeds the rate; at no load nothing
        for shape in [Shape::Stretch, Shape::Erf] {
            near(Model::new(shape, 1e6, 1e3).ln_loss(3e6).exp(), 2e6, 1e-9);
            assert!(Model::new(shape, 1e6, 1e5).ln_loss(1e-9) < -20.0);
            // the critical load has the critical loss
            let model = Model::new(shape, 1e6, 2e4);
            let ln = model.ln_critical(1e-7f64.ln());
            near((model.ln_loss(ln.exp()) - ln).exp(), 1e-7, 1e-4);
        }
    }

    /// Logarithm of frames lost per second at 80, 95, 100 and 110 % of the rate, and the critical load of 1e-7, by FD.io CSIT's own
    /// functions `lfit_stretch`, `lfit_erf` and `find_critical_rate` (`resources/libraries/python/PLRsearch/PLRsearch.py`, as of commit
    /// 000d9a3a). `lfit_erf` has the square root of 2/pi where only 1/sqrt(pi), the limit of x erfcx(x), makes it the integral of the
    /// Gaussian tail; these are its values with that.
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
                let model = Model::new(shape, mrr, spread);
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

    /// Mean and standard deviation of the logarithm of the critical load for given trials (load, seconds, frames lost), by CSIT's
    /// functions `log_weight` and `find_critical_rate` with the above, integrated by importance sampling with 6000 points: the one
    /// thing that is not CSIT's, whose integrator does not settle on a list that is given whole. With CSIT's constant the means of the
    /// Gaussian model are 13.74955, 15.29885 and 13.81557: within a tenth of a standard deviation of these.
    #[test]
    fn fits_are_those_of_csit() {
        let steps: &[(f64, f64, u32)] = &[
            (7444976.5, 5.1, 32_868_000),
            (14_880_952.0, 5.2, 72_181_000),
            (1_000_120.0, 5.3, 4_100),
            (999_400.0, 5.4, 2_700),
            (970_000.0, 5.5, 310),
            (950_000.0, 5.6, 12),
            (940_000.0, 5.7, 0),
            (945_000.0, 5.8, 3),
            (948_000.0, 5.9, 0),
            (950_500.0, 6.0, 9),
        ];
        let tail: &[(f64, f64, u32)] = &[
            (7444976.5, 5.1, 12_160_755),
            (14_880_952.0, 5.2, 69_568_287),
            (5_200_000.0, 5.3, 1_688_458),
            (5_100_000.0, 5.4, 1_639_604),
            (4_643_939.0, 5.5, 568),
            (4_217_403.0, 5.6, 0),
            (4_766_014.0, 5.7, 2_757),
            (4_740_540.0, 5.8, 193),
            (4_481_441.0, 5.9, 2),
            (4_526_257.0, 6.0, 20),
            (4_207_869.0, 6.1, 0),
            (4_367_689.0, 6.2, 3),
            (4_659_435.0, 6.3, 60),
            (4_678_288.0, 6.4, 76),
            (4_570_472.0, 6.5, 8),
            (4_201_065.0, 6.6, 0),
            (4_325_674.0, 6.7, 0),
            (4_789_453.0, 6.8, 10_307),
            (4_373_583.0, 6.9, 5),
            (4_523_534.0, 7.0, 29),
            (4_322_868.0, 7.1, 2),
            (4_614_385.0, 7.2, 548),
            (4_736_245.0, 7.3, 661),
            (4_416_714.0, 7.4, 0),
            (4_287_421.0, 7.5, 0),
            (4_380_815.0, 7.6, 1),
            (4_202_030.0, 7.7, 0),
            (4_402_738.0, 7.8, 1),
            (4_691_111.0, 7.9, 536),
            (4_389_476.0, 8.0, 1),
            (4_622_801.0, 8.1, 12),
            (4_785_060.0, 8.2, 127),
            (4_649_877.0, 8.3, 704),
            (4_210_841.0, 8.4, 0),
            (4_419_711.0, 8.5, 3),
            (4_205_447.0, 8.6, 0),
            (4_308_552.0, 8.7, 2),
            (4_317_913.0, 8.8, 1),
            (4_757_793.0, 8.9, 9_942),
            (4_406_629.0, 9.0, 1),
        ];
        let edge: &[(f64, f64, u32)] = &[
            (7444976.5, 5.1, 32_868_000),
            (14_880_952.0, 5.2, 72_181_000),
            (1_000_000.0, 5.3, 0),
            (1_100_000.0, 5.4, 540_000),
            (1_020_000.0, 5.5, 110_000),
            (1_002_000.0, 5.6, 11_200),
            (1_000_500.0, 5.7, 2_900),
            (1_000_000.0, 5.8, 0),
            (999_500.0, 5.9, 0),
            (1_000_200.0, 6.0, 1_150),
        ];
        for (trials, shape, mean, deviation) in [
            (steps, Shape::Stretch, 13.742_67, 7.79e-3),
            (steps, Shape::Erf, 13.749_10, 5.31e-3),
            (tail, Shape::Stretch, 15.299_32, 3.31e-3),
            (tail, Shape::Erf, 15.298_90, 2.79e-3),
            (edge, Shape::Stretch, 13.815_565_99, 3.88e-5),
            (edge, Shape::Erf, 13.815_568_63, 3.91e-5),
        ] {
            let made: Vec<Made> = trials
                .iter()
                .map(|&(load_pps, seconds, lost)| Made {
                    load_pps,
                    ln_seconds: seconds.ln(),
                    lost: f64::from(lost),
                })
                .collect();
            let parameters = Parameters::standard(FrameSize::MIN, 9001.0, 14_880_952.0, 0);
            for seed in 0..10 {
                let mut random = Random::new(seed);
                let (mut focus, mut critical) = (Focus::NONE, None);
                // as a search does: trial by trial
                for known in 3..=made.len() {
                    let (next, found) =
                        posterior(&parameters, &made[..known], shape, focus, &mut random);
                    (focus, critical) = (next, Some(found));
                }
                let critical = critical.unwrap();
                let off = (critical.mean - mean) / deviation;
                let wider = critical.variance.sqrt() / deviation;
                assert!(
                    off.abs() < 0.15,
                    "{shape:?}, seed {seed}: {critical:?}, off by {off}"
                );
                assert!(
                    (wider - 1.0).abs() < 0.15,
                    "{shape:?}, seed {seed}: {critical:?}, {wider}"
                );
            }
        }
    }

    /// A DUT that loses as the stretch model says: frames lost of one trial are geometric with that mean.
    struct Stretch {
        mrr: f64,
        spread: f64,
        random: Random,
    }

    impl Stretch {
        fn answer(&mut self, question: &Question) -> Answer {
            let seconds = question.duration_ns() as f64 / 1e9;
            let model = Model::new(Shape::Stretch, self.mrr, self.spread);
            let loss = model.ln_loss(question.peak_pps()).exp();
            let mean = loss * seconds;
            let unit = ((self.random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            let sent = question.frames();
            let lost = ((unit.ln() / -(1.0 / mean).ln_1p()) as u64).min(sent);
            Answer {
                frames_intended: sent,
                frames_sent: sent,
                frames_received: sent - lost,
                duration_ns: question.duration_ns(),
                ..Answer::default()
            }
        }
    }

    fn search(seed: u64, mrr: f64, spread: f64, seconds: u64) -> (CriticalLoad, Outcome) {
        let mut dut = Stretch {
            mrr,
            spread,
            random: Random::new(!seed),
        };
        let mut plr = Plr::new(Parameters {
            duration_ns: seconds * 1_000_000_000,
            ..Parameters::standard(FrameSize::MIN, 9001.0, 14_880_952.0, seed)
        })
        .unwrap();
        while let Some(question) = plr.next_trial() {
            let answer = dut.answer(&question);
            plr.record(&question, &answer);
        }
        let outcome = plr.outcomes().remove(0);
        match outcome.found.clone() {
            Found::Plr(found) => (found, outcome),
            _ => panic!("no critical load"),
        }
    }

    /// methods.md §12.1: inside the reported interval in at least 90 % of the seeds. Of 120 searches (40 seeds, 250 s each)
    /// 110 were; of these 42, for which there is time in every run of the tests, a few more may miss by chance.
    #[test]
    fn the_critical_load_of_a_stretch_dut_is_found() {
        let (mut inside, mut all) = (0, 0);
        let mut far = Vec::new();
        for (mrr, spread) in [(5e6, 1e5), (1e6, 5e3), (1.2e7, 5e5)] {
            let truth = Model::new(Shape::Stretch, mrr, spread)
                .ln_critical(1e-7f64.ln())
                .exp();
            for seed in 0..14 {
                let (found, outcome) = search(seed, mrr, spread, 250);
                assert!(outcome.answered, "{outcome:?}");
                let (lower, upper) = (found.lower_pps.unwrap(), found.upper_pps.unwrap());
                inside += u32::from((lower..=upper).contains(&truth));
                all += 1;
                far.push(found.critical_load_pps.unwrap() / truth - 1.0);
            }
        }
        assert!(inside * 100 >= all * 85, "{inside} of {all}: {far:?}");
    }

    #[test]
    fn duts_at_the_ends_and_wrong_questions() {
        let end = |capacity: f64| {
            let mut plr = Plr::new(Parameters {
                duration_ns: 60_000_000_000,
                ..Parameters::standard(FrameSize::MIN, 1e4, 1e7, 1)
            })
            .unwrap();
            while let Some(question) = plr.next_trial() {
                let answer = crate::procedure::ideal(&question, capacity);
                plr.record(&question, &answer);
            }
            plr.outcomes().remove(0)
        };
        assert!(end(1e9).verdict.contains("above the largest"));
        let dead = end(0.0);
        assert!(!dead.answered, "{dead:?}");
        let wrong = |change: &dyn Fn(&mut Parameters)| {
            let mut parameters = Parameters::standard(FrameSize::MIN, 1e4, 1e7, 1);
            change(&mut parameters);
            Plr::new(parameters).unwrap_err()
        };
        assert!(wrong(&|p| p.min_load_pps = 1e7).contains("below the largest"));
        assert!(wrong(&|p| p.loss_ratio = 0.0).contains("above 0"));
        assert!(wrong(&|p| p.duration_ns = 1).contains("six trials"));
    }
}
