//! Tests how often the reported intervals contain the truth, on DUTs whose capacity differs from
//! trial to trial.
//!
//! The DUTs do not follow the models: they lose what exceeds the capacity of the trial, and the
//! capacity has noise of many shapes. The truth is integrated numerically, independent of the
//! models. Start with [`Noise`].

use std::f64::consts::{PI, TAU};
use std::time::Duration;

use fwdlab_model::campaign::value::Period;
use fwdlab_model::outcome::Found;

use super::tests::lasting;
use super::*;

/// Shapes of noise, of mean 0 and standard deviation 1.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Noise {
    Normal,
    Uniform,
    /// Both sides exponential.
    Laplace,
    /// Exponential downwards, with an upper end.
    Skewed,
    /// Student's t with five degrees of freedom.
    Student,
    /// Normal, with three times the spread in one trial of ten.
    Contaminated,
    Triangular,
    /// One of two values.
    Two,
}

impl Noise {
    const ALL: [Noise; 8] = [
        Noise::Normal,
        Noise::Uniform,
        Noise::Laplace,
        Noise::Skewed,
        Noise::Student,
        Noise::Contaminated,
        Noise::Triangular,
        Noise::Two,
    ];

    fn draw(self, random: &mut Random) -> f64 {
        let mut unit = || ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let mut normal = || (-2.0 * unit().ln()).sqrt() * (TAU * unit()).cos();
        match self {
            Noise::Normal => normal(),
            Noise::Uniform => (2.0 * unit() - 1.0) * 3f64.sqrt(),
            Noise::Laplace => {
                let side = if unit() < 0.5 { 1.0 } else { -1.0 };
                -side * unit().ln() / 2f64.sqrt()
            }
            Noise::Skewed => 1.0 + unit().ln(),
            Noise::Student => {
                let squares: f64 = (0..5).map(|_| normal().powi(2)).sum();
                normal() / (squares / 5.0).sqrt() / (5f64 / 3.0).sqrt()
            }
            Noise::Contaminated => {
                let wide = 3.0;
                let z = normal();
                let factor = if unit() < 0.1 { wide } else { 1.0 };
                z * factor / (0.9 + 0.1 * wide * wide).sqrt()
            }
            Noise::Triangular => (unit() + unit() - 1.0) * 6f64.sqrt(),
            Noise::Two => {
                if unit() < 0.5 {
                    1.0
                } else {
                    -1.0
                }
            }
        }
    }

    /// Returns the share below `z`, to compute the truth.
    fn below(self, z: f64) -> f64 {
        let normal = |z: f64| fwdlab_stats::normal::cdf(z);
        match self {
            Noise::Normal => normal(z),
            Noise::Uniform => ((z / 3f64.sqrt() + 1.0) / 2.0).clamp(0.0, 1.0),
            Noise::Laplace => {
                let tail = (-z.abs() * 2f64.sqrt()).exp() / 2.0;
                if z < 0.0 { tail } else { 1.0 - tail }
            }
            Noise::Skewed => (z - 1.0).exp().min(1.0),
            Noise::Student => {
                let t = z.abs() * (5f64 / 3.0).sqrt();
                // far out the closed form cancels: 1.5 terms of its series
                let tail = if t > 50.0 {
                    let f = 8.0 / (3.0 * PI * 5f64.sqrt());
                    f * 125.0 / (5.0 * t.powi(5)) * (1.0 - 25.0 * 3.0 / (7.0 * t * t))
                } else {
                    let a = t / 5f64.sqrt();
                    let theta = a.atan();
                    0.5 - (theta
                        + theta.cos()
                            * (theta.sin() + 2.0 / 3.0 * theta.cos().powi(2) * theta.sin()))
                        / PI
                };
                if z < 0.0 { tail } else { 1.0 - tail }
            }
            Noise::Contaminated => {
                let wide = 3.0;
                let z = z * (0.9f64 + 0.1 * wide * wide).sqrt();
                0.9 * normal(z) + 0.1 * normal(z / wide)
            }
            Noise::Triangular => {
                let u = z / 6f64.sqrt();
                match u {
                    u if u <= -1.0 => 0.0,
                    u if u < 0.0 => (u + 1.0).powi(2) / 2.0,
                    u if u < 1.0 => 1.0 - (1.0 - u).powi(2) / 2.0,
                    _ => 1.0,
                }
            }
            Noise::Two => match z {
                z if z < -1.0 => 0.0,
                z if z < 1.0 => 0.5,
                _ => 1.0,
            },
        }
    }
}

/// A DUT that forwards exactly its capacity of the trial.
struct Noisy {
    capacity_pps: f64,
    noise: Noise,
    /// Standard deviation, relative.
    sigma: f64,
    /// Change of the capacity over the whole search, in standard deviations.
    drift: f64,
    seconds: f64,
    random: Random,
}

impl Noisy {
    fn capacity(&mut self, at_s: f64) -> f64 {
        let z = self.noise.draw(&mut self.random) + self.drift * at_s / self.seconds;
        (self.capacity_pps * (1.0 + self.sigma * z)).max(0.0)
    }

    /// Returns the load with this mean loss ratio over the trials: the mean of the excess over the
    /// capacity is the integral of the share of the capacities below.
    fn true_load(&self, ratio: f64) -> f64 {
        let mean_loss = |load: f64| {
            if self.sigma == 0.0 {
                return (load - self.capacity_pps).max(0.0);
            }
            let moments = if self.drift == 0.0 { 1 } else { 20 };
            let sum: f64 = (0..moments)
                .map(|k| {
                    let shift = self.drift * (f64::from(k) + 0.5) / f64::from(moments);
                    let share = |pps: f64| {
                        self.noise
                            .below((pps / self.capacity_pps - 1.0) / self.sigma - shift)
                    };
                    // steps that grow with the distance below the load
                    let steps = 400;
                    let scale = self.sigma * self.capacity_pps * 1e-3;
                    let end = (load / scale + 1.0).ln();
                    let place = |k: u32| {
                        (scale * ((end * f64::from(k) / f64::from(steps)).exp() - 1.0)).min(load)
                    };
                    (0..steps)
                        .map(|k| {
                            let (near, far) = (place(k), place(k + 1));
                            (far - near)
                                * (share(load - near)
                                    + 4.0 * share(load - (near + far) / 2.0)
                                    + share(load - far))
                                / 6.0
                        })
                        .sum::<f64>()
                })
                .sum();
            sum / f64::from(moments)
        };
        let (mut low, mut high) = (1.0, 2.0 * self.capacity_pps);
        while high / low > 1.0 + 1e-8 {
            let middle = f64::sqrt(low * high);
            match mean_loss(middle) / middle < ratio {
                true => low = middle,
                false => high = middle,
            }
        }
        low
    }

    fn search(&mut self, seed: u64) -> Outcome {
        let duration = Period(Duration::from_secs_f64(self.seconds));
        let mut plr = lasting(duration, (9001.0, 14_880_952.0), seed).unwrap();
        let mut at_s = 0.0;
        while let Some(question) = plr.next_trial() {
            let seconds = question.duration_ns() as f64 / 1e9;
            let sent = question.frames();
            let capacity = self.capacity(at_s);
            let lost = ((question.peak_pps() - capacity).max(0.0) * seconds) as u64;
            let answer = Answer {
                frames_intended: sent,
                frames_sent: sent,
                frames_received: sent - lost.min(sent),
                duration_ns: question.duration_ns(),
                ..Answer::default()
            };
            plr.record(&question, &answer);
            at_s += seconds;
        }
        plr.outcomes().remove(0)
    }
}

/// Results of searches on DUTs with noise of all shapes and sizes.
#[derive(Debug, Default)]
struct Tally {
    /// Intervals that contain the truth, and with the truth below and above.
    inside: u32,
    below: u32,
    above: u32,
    /// Searches that only report an upper bound, and those of them that are wrong.
    open: u32,
    open_wrong: u32,
    /// Searches without a result.
    silent: u32,
    missed: Vec<String>,
}

impl Tally {
    fn add(&mut self, dut: &mut Noisy, seed: u64) {
        let actual = dut.true_load(1e-7);
        let outcome = dut.search(seed);
        let Found::Plr(found) = &outcome.found else {
            panic!("{outcome:?}")
        };
        assert_eq!(outcome.answered, found.critical_load_pps.is_some());
        let Some(upper) = found.upper_pps else {
            self.silent += 1;
            return;
        };
        let lower = found.lower_pps.unwrap_or(0.0);
        match () {
            () if !outcome.answered => {
                self.open += 1;
                self.open_wrong += u32::from(actual > upper);
            }
            () if actual < lower => self.below += 1,
            () if actual > upper => self.above += 1,
            () => self.inside += 1,
        }
        if actual < lower || actual > upper {
            self.missed.push(format!(
                "{:?} {} drift {} seed {seed}: {actual:.1} is not in {lower:.1} to {upper:.1}",
                dut.noise, dut.sigma, dut.drift
            ));
        }
    }

    fn printed(&self) -> u32 {
        self.inside + self.below + self.above
    }
}

fn dut(noise: Noise, sigma: f64, drift: f64, seconds: f64, seed: u64) -> Noisy {
    Noisy {
        capacity_pps: 4e5 * 1.17f64.powi((seed % 22) as i32),
        noise,
        sigma,
        drift,
        seconds,
        random: Random::new(seed * 77 + 5),
    }
}

/// Runs `each` searches for every shape, size and drift.
fn tally(each: u64, seconds: f64) -> Vec<(String, Tally)> {
    let mut all = Vec::new();
    for (drift, noises) in [
        (0.0, &Noise::ALL[..]),
        (-1.0, &[Noise::Normal, Noise::Uniform]),
        (-10.0, &[Noise::Normal, Noise::Uniform]),
    ] {
        for sigma in [0.0, 1e-4, 1e-3, 1e-2] {
            for &noise in noises {
                if sigma == 0.0 && (noise != Noise::Normal || drift != 0.0) {
                    continue;
                }
                let mut tally = Tally::default();
                for seed in 0..each {
                    let seed = 1000 * all.len() as u64 + seed;
                    tally.add(&mut dut(noise, sigma, drift, seconds, seed), seed);
                }
                let name = format!("{noise:?}, {sigma}, drift {drift}");
                println!(
                    "{name}: {} of {} inside, {} only below, {} silent",
                    tally.inside,
                    tally.printed(),
                    tally.open,
                    tally.silent
                );
                all.push((name, tally));
            }
        }
    }
    all
}

/// Hundreds of searches of half an hour each: `cargo test --release -p fwdlab-measure -- --ignored
/// --nocapture intervals_hold`.
#[test]
#[ignore = "takes minutes"]
fn intervals_hold_the_truth_on_noisy_duts_at_full_length() {
    let all = tally(6, 1800.0);
    let sum = |of: &dyn Fn(&Tally) -> u32| all.iter().map(|(_, tally)| of(tally)).sum::<u32>();
    let (printed, inside) = (sum(&Tally::printed), sum(&|tally| tally.inside));
    println!(
        "in all {inside} of {printed}; only below {}, wrong {}; {} silent",
        sum(&|tally| tally.open),
        sum(&|tally| tally.open_wrong),
        sum(&|tally| tally.silent)
    );
    let missed = all.iter().flat_map(|(_, tally)| &tally.missed);
    missed.for_each(|missed| println!("    {missed}"));
    assert!(inside * 10 >= printed * 9);
}

/// Hundreds of simulated searches.
mod slow {
    use super::*;

    /// Like the test below, in bounded time: trials of five minutes, one search on each DUT.
    #[test]
    fn intervals_hold_the_truth_on_noisy_duts() {
        let all = tally(1, 300.0);
        let sum = |of: &dyn Fn(&Tally) -> u32| all.iter().map(|(_, tally)| of(tally)).sum::<u32>();
        let (printed, inside) = (sum(&Tally::printed), sum(&|tally| tally.inside));
        let (open, wrong) = (sum(&|tally| tally.open), sum(&|tally| tally.open_wrong));
        let missed: Vec<_> = all.iter().flat_map(|(_, tally)| &tally.missed).collect();
        assert!(
            inside * 10 >= printed * 9,
            "{inside} of {printed}: {missed:#?}"
        );
        assert!(wrong * 10 <= open.max(10), "{wrong} of {open}: {missed:#?}");
        // and this is not reached by withholding results
        let steady = all.iter().filter(|(name, _)| name.ends_with("drift 0"));
        let silent: u32 = steady.map(|(_, tally)| tally.silent).sum();
        assert!(
            silent <= 3 && printed >= 12,
            "{silent} silent, {printed} printed, {open} open"
        );
    }
}
