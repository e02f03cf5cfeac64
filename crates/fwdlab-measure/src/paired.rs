//! Compares configurations by paired slices: DUTs next to each other, with the generator switching
//! between them.
//!
//! Slices of 20 ms, or of 5 or 2 ms on a busy machine, follow each other in mirrored blocks (A B B
//! A), so that drift cancels within a block; a rebuild of the whole test bed has a spread of its
//! own, so the interval is taken over rebuilds and never over slices. The plain DUT has index 0,
//! the others follow; one of them may be a second plain DUT, the A/A control. Start with
//! [`rebuild`].

use std::time::Duration;

use fwdlab_model::campaign::Case;
use fwdlab_model::comparison::{Comparison, Verdict};
use fwdlab_model::event::{Compared, RebuildRecord};
use fwdlab_model::outcome::{Compliance, Found, Outcome, Paired, PairedPoint, Slope};
use fwdlab_model::test_case::{Failure, Iteration};
use fwdlab_model::trial::Stream;
use fwdlab_model::variant::Variant;
use fwdlab_stats::Sample;

use crate::maxfwd::{WAITED_SHARE, compared};
use crate::trust;

/// Id of the procedure in records.
pub const ID: &str = "paired";

/// A slice counts if at least this share of the intended load was offered in it.
const OFFERED_SHARE: f64 = 0.99;

/// Frames of one batch, which may belong to the previous or the next slice: a DUT's ring holds
/// more.
const BATCH_FRAMES: f64 = 64.0;

/// A DUT may always wait for its CPU this long: reading the counters takes 20 to 50 us of every
/// slice.
const READING_S: f64 = 1e-4;

/// Length of a slice: short compared with the seconds in which the host changes, long compared with
/// the milliseconds of a scheduler.
pub const SLICE: Duration = Duration::from_millis(20);

/// Lengths of slices if other processes often take the sender's CPU: they fit in between. The
/// scheduler switches tasks on its tick, every 4 ms on many kernels.
const SHORT_SLICES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(2)];

/// Time of load before a short slice: the first frames after a stall take a while to pass.
const LEAD: Duration = Duration::from_micros(500);

/// Returns how long the load must have been offered before a slice of this length.
pub fn lead(slice: Duration) -> Duration {
    match slice < SLICE {
        true => LEAD,
        false => Duration::ZERO,
    }
}

/// Share of blocks trimmed at each end of a rebuild: a block in which the host took a CPU away for
/// milliseconds would otherwise outweigh fifty others. 20 % keeps 90 % of the efficiency of the
/// mean on normal data.
const TRIM: f64 = 0.2;

pub use fwdlab_stats::ALLOWANCE;

/// Minimum number of blocks for a rebuild's difference.
pub const MIN_BLOCKS: usize = 5;

/// Frames counted while one configuration had the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slice {
    /// Index of the configuration.
    pub configuration: usize,
    /// Seconds by the clock of the counters.
    pub duration_s: f64,
    /// Frames sent.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
    /// Seconds in which the DUT's thread was runnable while its CPU was busy with other tasks.
    pub dut_waited_s: f64,
    /// True if the load was also offered before it, if required ([`lead`]).
    pub is_led: bool,
}

impl Slice {
    /// Returns true if the load was offered, and the DUT had its CPU to itself. A slice that is
    /// disturbed is repeated at once; a block with a slice that stays disturbed is ignored. Does
    /// not depend on the frames received.
    pub fn is_undisturbed(&self, intended_pps: f64) -> bool {
        let may_wait_s = f64::max(WAITED_SHARE * self.duration_s, READING_S);
        self.is_led && self.is_offered(intended_pps) && self.dut_waited_s <= may_wait_s
    }

    /// Returns true if the load was offered.
    pub fn is_offered(&self, intended_pps: f64) -> bool {
        let due = intended_pps * self.duration_s;
        due - self.sent as f64 <= f64::max((1.0 - OFFERED_SHARE) * due, BATCH_FRAMES)
    }
}

/// Returns true if every slice of a block is undisturbed.
pub fn is_usable(block: &[Slice], intended_pps: f64) -> bool {
    block.iter().all(|slice| slice.is_undisturbed(intended_pps))
}

/// Returns the length of the slices of the next rebuild, after one with slices of this length. It
/// depends on whether the load was offered, not on what came back, and is the same for all
/// configurations of a rebuild.
pub fn next_slice(length: Duration, rebuild: &Rebuild) -> Duration {
    let mut shorter = SHORT_SLICES.into_iter().filter(|short| *short < length);
    match rebuild.blocks < MIN_BLOCKS && rebuild.not_offered > 0 {
        true => shorter.next().unwrap_or(length),
        false => length,
    }
}

/// Shortest total time of slices that is worth a rebuild.
const MIN_SLICES: Duration = Duration::from_millis(600);

/// Initial estimate of the time that a rebuild takes in addition to its slices, and the maximum
/// that is assumed.
const OVERHEAD: Duration = Duration::from_millis(500);
const MOST_OVERHEAD: Duration = Duration::from_secs(2);

/// Divides a time limit for all rebuilds together into the durations of their slices.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Time that the last rebuild took in addition to its slices.
    overhead: Duration,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { overhead: OVERHEAD }
    }
}

impl Budget {
    /// Returns the duration of the slices of the next rebuild: its share of the time left minus the
    /// time of building, except in the first rebuild, which also searched for the load.
    pub fn share(
        &mut self,
        left: Duration,
        building: Duration,
        rebuilds_left: u32,
        is_first: bool,
    ) -> Duration {
        let share = left / rebuilds_left.max(1);
        let building = if is_first { self.overhead } else { building };
        let slices = share.saturating_sub(building + self.overhead / 2);
        self.overhead = building.min(MOST_OVERHEAD);
        slices.max(MIN_SLICES)
    }

    /// Returns the time left, and at least that of this number of the shortest rebuilds.
    pub fn remaining_for(&self, left: Duration, rebuilds: u32) -> Duration {
        let least = self.overhead + self.overhead / 2 + MIN_SLICES;
        left.max(least * rebuilds)
    }
}

/// The result of one rebuild.
#[derive(Debug, Clone, PartialEq)]
pub struct Rebuild {
    /// Number of blocks used.
    pub blocks: usize,
    /// Number of blocks ignored because the generator stalled, or the DUT's CPU was taken, in one
    /// of their slices.
    pub not_offered: usize,
    /// Median forwarding rate per configuration. Empty without a block.
    pub rates_pps: Vec<f64>,
    /// `ln(rate / rate of the plain DUT)` per configuration; 0 for the plain one. Empty with too
    /// few blocks.
    pub ln_ratios: Vec<f64>,
}

/// Returns the configuration of each place: they change places with every rebuild, and each visits
/// all of them.
pub fn places(configurations: usize, rebuild: usize) -> Vec<usize> {
    (0..configurations)
        .map(|place| (place + rebuild) % configurations)
        .collect()
}

/// Evaluates one rebuild. `intended_pps` decides which blocks count; their result does not matter.
pub fn rebuild(configurations: usize, blocks: &[Vec<Slice>], intended_pps: f64) -> Rebuild {
    let used: Vec<&Vec<Slice>> = blocks
        .iter()
        .filter(|block| is_usable(block, intended_pps))
        .collect();
    let rate = |block: &[Slice], configuration: usize| {
        let (received, seconds) = block
            .iter()
            .filter(|s| s.configuration == configuration)
            .fold((0, 0.0), |(n, t), s| (n + s.received, t + s.duration_s));
        received as f64 / seconds
    };
    let median = |configuration: usize| {
        let rates: Vec<f64> = used.iter().map(|b| rate(b, configuration)).collect();
        Sample::new(rates).ok().map(|s| s.median())
    };
    let ln_ratio = |configuration: usize| {
        let ratios: Vec<f64> = used
            .iter()
            .map(|b| (rate(b, configuration) / rate(b, 0)).ln())
            .filter(|ln| ln.is_finite())
            .collect();
        Sample::new(ratios)
            .ok()
            .filter(|s| s.n() >= MIN_BLOCKS)
            .map(|s| trimmed_mean(&s))
    };
    Rebuild {
        blocks: used.len(),
        not_offered: blocks.len() - used.len(),
        rates_pps: (0..configurations)
            .map(median)
            .collect::<Option<_>>()
            .unwrap_or_default(),
        ln_ratios: (0..configurations)
            .map(ln_ratio)
            .collect::<Option<Vec<f64>>>()
            .unwrap_or_default(),
    }
}

/// DUTs that precede the compared ones in every rebuild: the reference, and the reference again as
/// A/A control.
pub const CONTROLS: usize = 2;

/// A stored rebuild.
impl From<&RebuildRecord> for Rebuild {
    fn from(record: &RebuildRecord) -> Rebuild {
        let ratios = record.difference_percent.iter();
        Rebuild {
            blocks: record.blocks as usize,
            not_offered: record.blocks_not_offered as usize,
            rates_pps: record.forwarding_rate_pps.clone(),
            ln_ratios: ratios.map(|percent| (percent / 100.0).ln_1p()).collect(),
        }
    }
}

/// Returns the iteration of a test case that follows from its rebuild, with this number; `None` if
/// the test case has no DUT in it.
pub fn iteration(
    record: &RebuildRecord,
    number: u32,
    test_case: &str,
    case: &Case,
) -> Option<Iteration> {
    let duts = record.compared.iter().enumerate().skip(CONTROLS);
    let own = duts.filter(|(_, dut)| dut.test_case == test_case);
    let own: Vec<(usize, &Compared)> = own.collect();
    let (_, first) = own.first()?;
    let parameter = first.setting.as_ref().map(|(parameter, _)| &parameter[..]);
    let duts = own.iter().map(|(index, dut)| {
        let value = dut.setting.as_ref().map(|(_, value)| *value);
        (*index, value)
    });
    let duts: Vec<(usize, Option<u64>)> = duts.collect();
    let found = result(record, &case.configuration, parameter, &duts);
    let failure = match (&found, record.validity.is_valid()) {
        (Some(_), _) => None,
        (None, true) => Some(Failure::from("too few blocks of slices")),
        (None, false) => Some(Failure::from(record.validity.reasons.join("; "))),
    };
    let outcome = found.map(|found| Outcome {
        frame_size_bytes: case.stream.frame_size_bytes,
        variant: Variant::default(),
        verdict: format!("{} blocks of slices", record.blocks),
        found: Found::Paired(found),
        answered: true,
        not_applicable: false,
        compliance: Compliance::default(),
        warnings: Vec::new(),
        trials: 1,
    });
    let iteration = Iteration {
        iteration: number,
        outcomes: outcome.into_iter().collect(),
        trials: vec![record.rebuild],
        ..Iteration::default()
    };
    Some(iteration.with(failure))
}

/// Returns the A/A control of a run: that of the first traffic, or one that differs from itself.
pub fn control(rebuilds: &[RebuildRecord], cases: &[Case]) -> Option<Comparison> {
    let mut streams: Vec<&Stream> = Vec::new();
    for case in cases {
        if !streams.contains(&&case.stream) {
            streams.push(&case.stream);
        }
    }
    let controls = streams.into_iter().filter_map(|stream| {
        let own = rebuilds.iter().filter(|record| {
            let control = record.compared.get(1);
            control.is_some_and(|control| control.stream == *stream)
        });
        let found = own.filter_map(|record| result(record, "control", None, &[(1, None)]));
        let pooled = pool(&found.collect::<Vec<_>>().iter().collect::<Vec<_>>())?;
        let comparison = pooled.points.into_iter().next()?.comparison;
        Some(Comparison {
            control: true,
            ..comparison
        })
    });
    let mut controls: Vec<Comparison> = controls.collect();
    let differs = |c: &Comparison| matches!(c.verdict, Verdict::Less | Verdict::More);
    controls.sort_by_key(|control| !differs(control));
    controls.into_iter().next()
}

/// Returns the result of a rebuild for the DUTs with these numbers, one for each swept value;
/// `None` if it is invalid or has too few blocks.
fn result(
    record: &RebuildRecord,
    name: &str,
    parameter: Option<&str>,
    duts: &[(usize, Option<u64>)],
) -> Option<Paired> {
    let rebuild = Rebuild::from(record);
    if rebuild.ln_ratios.is_empty() || !record.validity.is_valid() {
        return None;
    }
    let points = duts.iter().map(|&(dut, value)| PairedPoint {
        value,
        comparison: outcome(name, dut, std::slice::from_ref(&rebuild)),
        cost_ns: None,
        cost_interval_ns: None,
    });
    let mut found = Paired {
        reference: record.compared.first()?.configuration.clone(),
        parameter: parameter.map(str::to_owned),
        points: points.collect(),
        slope: None,
    };
    found.slope = frame_ns(&[&found]).and_then(|frame_ns| slope(&[&found], frame_ns));
    Some(found)
}

/// Combines the iterations of a test case: differences with intervals over rebuilds, costs, and the
/// slope over the swept values.
pub fn pool(iterations: &[&Paired]) -> Option<Paired> {
    let mut pooled = (*iterations.first()?).clone();
    let frame_ns = frame_ns(iterations);
    for (index, point) in pooled.points.iter_mut().enumerate() {
        let all: Vec<&Comparison> = iterations
            .iter()
            .filter_map(|one| Some(&one.points.get(index)?.comparison))
            .collect();
        let ln_ratios: Vec<f64> = all.iter().flat_map(|one| ln_ratios(one)).collect();
        let median = |of: fn(&Comparison) -> Option<f64>| {
            let values: Vec<f64> = all.iter().filter_map(|one| of(one)).collect();
            Sample::new(values).ok().map(|sample| sample.median())
        };
        point.comparison = Comparison {
            forwarding_rate_pps: median(|one| one.forwarding_rate_pps),
            plain_forwarding_rate_pps: median(|one| one.plain_forwarding_rate_pps),
            ..compared(&point.comparison.configuration, &ln_ratios, ALLOWANCE)
        };
        point.comparison.doubt = trust::of_comparison(&point.comparison);
        let cost = |percent: f64| Some(frame_ns? * (1.0 / (1.0 + percent / 100.0) - 1.0));
        point.cost_ns = point.comparison.difference_percent.and_then(cost);
        point.cost_interval_ns = (point.comparison.interval_percent)
            .and_then(|[low, high]| Some([cost(high)?, cost(low)?]));
    }
    pooled.slope = frame_ns.and_then(|frame_ns| slope(iterations, frame_ns));
    Some(pooled)
}

/// Returns the time per frame of the reference DUT.
fn frame_ns(iterations: &[&Paired]) -> Option<f64> {
    let rates = iterations.iter().filter_map(|one| {
        let first = one.points.first()?;
        first.comparison.plain_forwarding_rate_pps
    });
    let median = Sample::new(rates.collect::<Vec<_>>()).ok()?.median();
    (median > 0.0).then_some(1e9 / median)
}

fn ln_ratios(comparison: &Comparison) -> impl Iterator<Item = f64> {
    let values = comparison.values_percent.iter();
    values.map(|percent| (percent / 100.0).ln_1p())
}

/// Fits a line through time per frame over the value, in each iteration: the machine's speed
/// cancels in each, and the differences between iterations show the precision of the slope.
fn slope(iterations: &[&Paired], frame_ns: f64) -> Option<Slope> {
    let lines: Vec<(f64, f64)> = iterations.iter().filter_map(|one| line(one)).collect();
    let (slopes, fixed): (Vec<f64>, Vec<f64>) = lines.into_iter().unzip();
    let sample = Sample::new(slopes.clone()).ok()?;
    let half = trust::half_width(&sample);
    let mean = sample.mean();
    Some(Slope {
        frame_ns,
        unit_ns: frame_ns * mean,
        unit_ns_interval: half.map(|half| [frame_ns * (mean - half), frame_ns * (mean + half)]),
        fixed_ns: frame_ns * Sample::new(fixed).ok()?.mean(),
        iterations_percent: slopes.iter().map(|slope| 100.0 * slope).collect(),
    })
}

/// Returns slope and fixed part of one iteration, as shares of the reference's time per frame;
/// `None` with fewer than two values.
///
/// Weighted by the square of the share: the noise of a slice is proportional to the time that a
/// frame takes.
fn line(one: &Paired) -> Option<(f64, f64)> {
    let points: Vec<(f64, f64)> = one
        .points
        .iter()
        .filter_map(|point| {
            let ln = ln_ratios(&point.comparison).next()?;
            Some((point.value? as f64, (-ln).exp()))
        })
        .collect();
    let weight = |time: f64| time.powi(-2);
    let all: f64 = points.iter().map(|(_, time)| weight(*time)).sum();
    let mean =
        |of: fn(&(f64, f64)) -> f64| points.iter().map(|p| of(p) * weight(p.1)).sum::<f64>() / all;
    let (mean_x, mean_y) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        points
            .iter()
            .map(|(x, y)| weight(*y) * of(x - mean_x, y - mean_y))
            .sum()
    };
    let xx = sum(&|x, _| x * x);
    let slope = sum(&|x, y| x * y) / xx;
    // the reference itself is 1
    let fixed = mean_y - slope * mean_x - 1.0;
    slope.is_finite().then_some((slope, fixed))
}

fn trimmed_mean(sample: &Sample) -> f64 {
    let cut = (sample.n() as f64 * TRIM) as usize;
    let kept = &sample.sorted()[cut..sample.n() - cut];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// Returns the outcome of a configuration over all rebuilds.
pub fn outcome(name: &str, configuration: usize, rebuilds: &[Rebuild]) -> Comparison {
    let good: Vec<&Rebuild> = rebuilds
        .iter()
        .filter(|r| !r.ln_ratios.is_empty())
        .collect();
    let ratios: Vec<f64> = good.iter().map(|r| r.ln_ratios[configuration]).collect();
    let median = |c: usize| {
        Sample::new(good.iter().map(|r| r.rates_pps[c]).collect::<Vec<_>>())
            .ok()
            .map(|s| s.median())
    };
    let mut comparison = Comparison {
        forwarding_rate_pps: median(configuration),
        plain_forwarding_rate_pps: median(0),
        ..compared(name, &ratios, ALLOWANCE)
    };
    comparison.doubt = trust::of_comparison(&comparison);
    if good.len() < rebuilds.len() {
        comparison.warnings.push(format!(
            "{} of {} rebuilds gave too few blocks and are left out",
            rebuilds.len() - good.len(),
            rebuilds.len()
        ));
    }
    comparison
}

#[cfg(test)]
mod tests {
    use fwdlab_model::campaign::Kind;
    use fwdlab_model::result::Validity;
    use fwdlab_model::trial::IpVersion;
    use fwdlab_model::units::FrameSize;

    use super::*;
    use crate::order::{Random, mirrored};

    /// A machine whose speed drifts: the rate at time t, and the cost of configuration 1.
    fn simulate(effect: f64, spread: f64, seed: u64) -> Vec<Rebuild> {
        let mut random = Random::new(seed);
        let mut uniform = {
            let mut random = Random::new(seed ^ 77);
            move || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        };
        (0..12)
            .map(|_| {
                let of_this_build = [spread * uniform(), spread * uniform()];
                let mut time = 0.0;
                let blocks: Vec<Vec<Slice>> = (0..40)
                    .map(|_| {
                        mirrored(2, &mut random)
                            .into_iter()
                            .map(|configuration| {
                                time += 0.026;
                                // a drift of ±20 % with a period of seconds, and 2 % of noise per
                                // slice
                                let speed =
                                    8e5 * (1.0 + 0.2 * f64::sin(time)) * (1.0 + 0.04 * uniform());
                                let cost = 1.0
                                    + of_this_build[configuration]
                                    + if configuration == 1 { effect } else { 0.0 };
                                Slice {
                                    configuration,
                                    duration_s: 0.02,
                                    sent: 36_000,
                                    received: (speed * cost * 0.02) as u64,
                                    dut_waited_s: 0.0,
                                    is_led: true,
                                }
                            })
                            .collect()
                    })
                    .collect();
                rebuild(2, &blocks, 1.8e6)
            })
            .collect()
    }

    #[test]
    fn a_two_percent_cost_is_proven_on_a_machine_that_wanders_by_forty() {
        for seed in 0..20 {
            let outcome = outcome("one rule", 1, &simulate(-0.02, 0.01, seed));
            assert_eq!(outcome.verdict, Verdict::Less, "{outcome:?}");
            let [low, high] = outcome.interval_percent.unwrap();
            assert!(low < -1.4 && high < -0.8 && high - low < 2.0, "{outcome:?}");
        }
    }

    #[test]
    fn equal_duts_show_no_difference() {
        let wrong = (0..200)
            .filter(|&seed| {
                outcome("plain", 1, &simulate(0.0, 0.01, seed)).verdict != Verdict::NoDifference
            })
            .count();
        // 5 % of 200 are expected; 20 would be 3.2 standard deviations more
        assert!(wrong <= 20, "{wrong} of 200 A/A runs claim a difference");
    }

    #[test]
    fn no_claim_is_made_within_the_allowance() {
        let rebuilds = |ln: f64| -> Vec<Rebuild> {
            (0..12)
                .map(|i| Rebuild {
                    blocks: 20,
                    not_offered: 0,
                    rates_pps: vec![8e5, 8e5],
                    ln_ratios: vec![0.0, ln + 1e-4 * f64::from(i % 3)],
                })
                .collect()
        };
        let of = |ln| outcome("x", 1, &rebuilds(ln));
        assert_eq!(of(0.001).verdict, Verdict::NoDifference);
        assert_eq!(of(-0.0015).verdict, Verdict::NoDifference);
        assert!(of(0.001).p_value.unwrap() > 0.9);
        assert_eq!(of(-0.004).verdict, Verdict::Less);
        assert!(of(-0.004).p_value.unwrap() < 0.001);
        let [low, high] = of(0.01).interval_percent.unwrap();
        assert!(low > 0.0 && high - low > 0.4, "{low} {high}");
    }

    /// A batch more or less is not a stall, however short the slice; a rebuild without enough
    /// blocks is followed by one with short slices.
    #[test]
    fn slices_are_short_on_a_busy_machine() {
        let slice = |ms: f64, missing: u64| Slice {
            configuration: 0,
            duration_s: ms / 1e3,
            sent: (1e6 * ms / 1e3) as u64 - missing,
            received: 1,
            dut_waited_s: 0.0,
            is_led: true,
        };
        assert!(slice(5.0, 60).is_undisturbed(1e6) && !slice(5.0, 70).is_undisturbed(1e6));
        assert!(slice(20.0, 190).is_undisturbed(1e6) && !slice(20.0, 210).is_undisturbed(1e6));
        let rebuild = |blocks, not_offered| Rebuild {
            blocks,
            not_offered,
            rates_pps: Vec::new(),
            ln_ratios: Vec::new(),
        };
        let [short, shortest] = SHORT_SLICES;
        assert_eq!(next_slice(SLICE, &rebuild(MIN_BLOCKS, 9)), SLICE);
        assert_eq!(next_slice(SLICE, &rebuild(1, 2)), short);
        assert_eq!(next_slice(short, &rebuild(1, 2)), shortest);
        assert_eq!(next_slice(shortest, &rebuild(1, 2)), shortest);
        // the time was too short for more of them
        assert_eq!(next_slice(SLICE, &rebuild(2, 0)), SLICE);
        assert_eq!(next_slice(short, &rebuild(20, 0)), short);
    }

    #[test]
    fn blocks_with_a_stalled_generator_are_excluded() {
        let slice = |configuration, sent| Slice {
            configuration,
            duration_s: 0.02,
            sent,
            received: 10_000,
            dut_waited_s: 0.0,
            is_led: true,
        };
        let good = vec![
            slice(0, 36_000),
            slice(1, 36_000),
            slice(1, 36_000),
            slice(0, 36_000),
        ];
        let mut bad = good.clone();
        bad[2].sent = 30_000;
        let mut taken = good.clone();
        taken[1].dut_waited_s = 0.01;
        let result = rebuild(2, &[good.clone(), bad, taken, good.clone()], 1.8e6);
        assert_eq!((result.blocks, result.not_offered), (2, 2));
        assert!(result.ln_ratios.is_empty(), "two blocks are too few");
        assert_eq!(rebuild(2, &vec![good; 5], 1.8e6).ln_ratios, [0.0, 0.0]);
        assert_eq!(outcome("x", 1, &[result]).verdict, Verdict::CannotTell);
    }

    /// A rule costs 12 ns of a frame's 1000, the first of them 60 more; the machine is up to 40 %
    /// slower in some rebuilds.
    #[test]
    fn a_slope_is_known_however_fast_the_machine_is() {
        let mut random = Random::new(3);
        let mut unit = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        let values = [1, 10, 100];
        let mut covered = 0;
        for _ in 0..40 {
            let iterations: Vec<Paired> = (0..10)
                .map(|_| {
                    let speed = 1.0 - 0.4 * (unit() + 0.5);
                    let mut rate = |time_ns: f64| speed * 1e9 / time_ns * (1.0 + 0.01 * unit());
                    let mut rates_pps = vec![rate(1000.0), rate(1000.0)];
                    rates_pps.extend(values.map(|n| rate(1060.0 + 12.0 * n as f64)));
                    let case = case("nft", 1);
                    let duts = values.map(|value| (&case, Some(value)));
                    let iteration = iteration(&record(1, &duts, rates_pps), 1, "nft", &case);
                    let mut outcomes = iteration.unwrap().outcomes;
                    match outcomes.remove(0).found {
                        Found::Paired(found) => found,
                        other => panic!("{other:?}"),
                    }
                })
                .collect();
            let pooled = pool(&iterations.iter().collect::<Vec<_>>()).unwrap();
            assert_eq!(pooled.points.len(), 3);
            for point in &pooled.points {
                assert_eq!(point.comparison.verdict, Verdict::Less);
                assert_eq!(point.comparison.values_percent.len(), 10);
            }
            let slope = pooled.slope.unwrap();
            // as shares of the reference's time, independent of the machine's speed
            let share = |ns: f64| 1000.0 * ns / slope.frame_ns;
            assert!((share(slope.unit_ns) - 12.0).abs() < 0.4, "{slope:?}");
            assert!((share(slope.fixed_ns) - 60.0).abs() < 12.0, "{slope:?}");
            let [low, high] = slope.unit_ns_interval.unwrap().map(share);
            covered += i32::from(low <= 12.0 && 12.0 <= high);
            let cost = pooled.points[2].cost_ns.unwrap();
            assert!((share(cost) / 1260.0 - 1.0).abs() < 0.02, "{cost}");
        }
        // 38 of 40 are expected; 33 would be 3.6 standard deviations fewer
        assert!(covered >= 33, "{covered} of 40");
    }

    fn case(configuration: &str, flows: u32) -> Case {
        Case {
            configuration: configuration.into(),
            stream: Stream::new(IpVersion::Ipv4, FrameSize::MIN, flows).unwrap(),
            variant: Variant::default(),
            image: None,
            dut: Kind::Linux,
        }
    }

    /// A rebuild of the plain DUT, its control, and DUTs with these test cases and numbers of
    /// rules, with the rates of all of them.
    fn record(number: u32, duts: &[(&Case, Option<u64>)], rates_pps: Vec<f64>) -> RebuildRecord {
        let of = |name: &str, control, stream: &Stream, value: Option<u64>| Compared {
            test_case: name.into(),
            configuration: name.into(),
            control,
            stream: stream.clone(),
            setting: value.map(|value| ("rules".to_owned(), value)),
        };
        let stream = &duts[0].0.stream;
        let mut compared = vec![
            of("plain", false, stream, None),
            of("plain", true, stream, None),
        ];
        let duts = duts.iter();
        compared.extend(duts.map(|(case, value)| of(&case.configuration, false, stream, *value)));
        RebuildRecord {
            rebuild: number,
            started_at: String::new(),
            compared,
            places: Vec::new(),
            blocks: 20,
            blocks_not_offered: 3,
            slice_s: Some(0.02),
            difference_percent: rates_pps
                .iter()
                .map(|pps| 100.0 * (pps / rates_pps[0] - 1.0))
                .collect(),
            forwarding_rate_pps: rates_pps,
            frames_sent: 0,
            frames_received: 0,
            ledgers: Vec::new(),
            validity: Validity::default(),
        }
    }

    #[test]
    fn an_iteration_follows_from_its_rebuild() {
        let (nat, other) = (case("nat", 1), case("other", 1));
        let mut rebuild = record(4, &[(&nat, None), (&other, None)], vec![8e5, 8e5, 6e5, 7e5]);
        let made = iteration(&rebuild, 2, "other", &other).unwrap();
        assert_eq!((made.iteration, &made.trials[..]), (2, &[4][..]));
        assert_eq!(made.outcomes[0].verdict, "20 blocks of slices");
        let Found::Paired(found) = &made.outcomes[0].found else {
            panic!("{made:?}")
        };
        assert_eq!((&found.reference[..], found.points.len()), ("plain", 1));
        let percent = found.points[0].comparison.difference_percent.unwrap();
        assert!((percent + 12.5).abs() < 1e-9, "{percent}");
        // the reference is compared with nothing, and no DUT has this name
        assert_eq!(iteration(&rebuild, 2, "plain", &other), None);
        assert_eq!(iteration(&rebuild, 2, "third", &other), None);
        rebuild.difference_percent.clear();
        let made = iteration(&rebuild, 2, "nat", &nat).unwrap();
        assert_eq!(made.failure.as_deref(), Some("too few blocks of slices"));
        rebuild.validity.reasons.push("a link went down".into());
        let made = iteration(&rebuild, 2, "nat", &nat).unwrap();
        assert_eq!(made.failure.as_deref(), Some("a link went down"));
        assert!(made.outcomes.is_empty());
    }

    /// Two kinds of traffic, each with its own control. The second one differs from itself, and
    /// invalid rebuilds do not count.
    #[test]
    fn a_control_that_differs_from_itself_is_that_of_the_run() {
        let (one, ten) = (case("nat", 1), case("nat", 10));
        let rebuilds = |control_pps: f64| -> Vec<RebuildRecord> {
            let both = (1..=8).flat_map(|number| {
                let noise = 1.0 + 1e-4 * f64::from(number % 3);
                let of = |case, pps| record(number, &[(case, None)], vec![8e5, pps * noise, 6e5]);
                let mut broken = of(&one, 1e5);
                broken.validity.reasons.push("a link went down".into());
                [of(&ten, control_pps), of(&one, 8.002e5), broken]
            });
            both.collect()
        };
        let cases = [one.clone(), ten.clone()];
        let of = |control_pps| control(&rebuilds(control_pps), &cases).unwrap();
        let equal = of(8e5);
        assert!(equal.control && equal.values_percent.len() == 8);
        assert_eq!(equal.verdict, Verdict::NoDifference);
        // that of the first test case, although its rebuilds are not the first ones
        let percent = equal.difference_percent.unwrap();
        assert!((0.02..0.05).contains(&percent), "{percent}");
        let differs = of(7.6e5);
        assert_eq!(differs.verdict, Verdict::Less);
        assert_eq!(control(&[], &cases), None);
    }

    /// Ten rebuilds share 30 s: each gets what building leaves, and never less than is useful.
    #[test]
    fn a_time_limit_is_divided_among_the_rebuilds() {
        let mut budget = Budget::default();
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        // the first one also searched for the load, which is not the time of building
        assert_eq!(budget.share(s(30), s(5), 10, true), ms(2250));
        assert_eq!(budget.share(s(27), s(1), 9, false), ms(1750));
        assert_eq!(budget.share(s(24), s(1), 8, false), ms(1500));
        assert_eq!(budget.remaining_for(s(10), 3), s(10));
        assert_eq!(budget.remaining_for(s(1), 3), ms(6300));
        assert_eq!(budget.share(s(1), s(9), 7, false), MIN_SLICES);
        assert_eq!(budget.remaining_for(s(0), 1), s(3) + MIN_SLICES);
    }

    #[test]
    fn every_configuration_visits_every_place() {
        for k in 1..5 {
            for place in 0..k {
                let mut observed: Vec<usize> = (0..k).map(|r| places(k, r)[place]).collect();
                observed.sort_unstable();
                assert_eq!(observed, (0..k).collect::<Vec<_>>());
            }
        }
    }
}
