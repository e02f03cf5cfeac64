//! Ramp: a load that rises slowly from nothing to more than the DUT's capacity, and the forwarding
//! rate, second by second.
//!
//! Warm-up, ramp, hold, and optionally down again. Two rules derive the onset of lasting loss from
//! the samples: the one of the public viewer of TRex load tests, and a robust one that ignores a
//! momentary dip. Only samples whose load was offered are judged. Not a throughput in the sense of
//! RFC 2544. Start with [`Ramp`]; the rules are [`max_ok_pps`] and [`edge`].

use std::ops::Range;

use fwdlab_model::campaign;
use fwdlab_model::outcome::{Edge, FORWARDS_NOTHING, Outcome};
use fwdlab_model::procedure::{Answer, Interval, Purpose, Question, Stretch};
use fwdlab_model::units::FrameSize;
use fwdlab_model::variant::DirectionCounts;
use fwdlab_stats::Sample;

use crate::procedure::{
    Procedure, Progress, TESTER_BOUND, check_load, is_tester_bound, percent, time,
};
use crate::validity::was_offered;

/// This many consecutive samples with loss are more than a dip...
const STREAK: usize = 3;

/// ...unless this many without loss follow.
const CLEAN: usize = 10;

/// A rising load rises in steps of this length (docs/methodology.md, "Ramp"): loss begins at most
/// half a step before the load of a straight line.
const STEP_S: f64 = 0.1;

/// Valid loss thresholds.
const THRESHOLDS: std::ops::RangeInclusive<f64> = 0.0001..=1.0;

/// A DUT collapses if its final rate is below this share of its best rate.
const COLLAPSE: f64 = 0.9;

/// Load of the warm-up.
const WARM_UP_PPS: f64 = 1000.0;

/// Returns the largest forwarding rate without lasting loss by the rule of the public viewer: in
/// chronological order, a lossy second sets a mark at its forwarding rate if there is none, a clean
/// one clears it; at the end the mark is the result, or the largest rate if there is none.
pub fn max_ok_pps(samples: &[Interval], threshold: f64) -> f64 {
    let mut mark = None;
    for sample in samples {
        if sample.loss_ratio() > threshold {
            mark.get_or_insert(sample.forwarding_rate_pps());
        } else {
            mark = None;
        }
    }
    let rates = samples.iter().map(Interval::forwarding_rate_pps);
    mark.unwrap_or_else(|| rates.fold(0.0, f64::max))
}

/// Finds the onset of lasting loss in samples of a rising load by the robust rule.
///
/// It is the first streak of three or more lossy samples that is not directly followed by ten clean
/// ones. The load is the largest one before it that was offered with a loss within the threshold.
///
/// The DUT's capacity without loss is between the highest forwarding rate in those samples, because
/// it cannot have forwarded more than it can, and the largest load of the first lossy sample,
/// because nothing is lost below the capacity. A buffer changes neither.
pub fn edge(samples: &[Interval], threshold: f64, resolution_pps: f64) -> Edge {
    let lossy: Vec<bool> = samples.iter().map(|s| s.loss_ratio() > threshold).collect();
    let mut at = 0;
    let mut begin = None;
    while at < lossy.len() {
        if !lossy[at] {
            at += 1;
            continue;
        }
        let streak = lossy[at..].iter().take_while(|lossy| **lossy).count();
        let after = &lossy[at + streak..];
        let clean = after.iter().take_while(|lossy| !**lossy).count();
        if streak >= STREAK && clean < CLEAN {
            begin = Some(at);
            break;
        }
        at += streak;
    }
    let within = &samples[..begin.unwrap_or(samples.len())];
    let clean = within
        .iter()
        .filter(|s| s.loss_ratio() <= threshold && s.frames_sent > 0);
    let loads: Vec<f64> = clean.clone().map(Interval::offered_load_pps).collect();
    let rates = clean.map(Interval::forwarding_rate_pps);
    let saturation_pps = loads.into_iter().reduce(f64::max);
    // samples that cannot be judged leave a gap below the first lossy one, or too few above it for
    // a streak
    let clean_at_last = lossy
        .iter()
        .rposition(|lossy| !lossy)
        .map_or(0, |at| at + 1);
    let above = begin.or((clean_at_last < lossy.len()).then_some(clean_at_last));
    let gap_pps = above.map(|at| samples[at].intended_load_pps - saturation_pps.unwrap_or(0.0));
    Edge {
        saturation_pps,
        resolution_pps: resolution_pps.max(gap_pps.unwrap_or(0.0)),
        lower_pps: rates.max_by(f64::total_cmp),
        upper_pps: begin.map(|at| samples[at].intended_load_pps + resolution_pps / 2.0),
        at_s: begin.map(|at| samples[at].at_ns as f64 / 1e9),
        from_s: None,
        until_s: None,
        reason: match begin {
            Some(_) => format!("more than {} % lost from that point on", percent(threshold)),
            None => "no lasting loss up to the target: the DUT may forward more".into(),
        },
    }
}

/// The state machine: it requests one long trial.
#[derive(Debug, Clone)]
pub struct Ramp {
    /// Load at the end of the ramp.
    target_pps: f64,
    parameters: campaign::Ramp,
    samples: Vec<Interval>,
    directions: Vec<DirectionCounts>,
    progress: Progress,
}

impl Ramp {
    /// Prepares the trial.
    ///
    /// # Errors
    /// An impossible load or threshold, a ramp of less than ten samples, or steps below one frame.
    pub fn new(
        frame_size: FrameSize,
        target_pps: f64,
        parameters: campaign::Ramp,
    ) -> Result<Ramp, String> {
        check_load("the target of the ramp", target_pps)?;
        if !THRESHOLDS.contains(&parameters.threshold.0) {
            return Err(format!(
                "a loss threshold of {} %: it must be 0.01 % to 100 %",
                percent(parameters.threshold.0)
            ));
        }
        let (ramp_ns, sample_ns) = (parameters.ramp.ns(), parameters.sample.ns());
        if sample_ns == 0 || ramp_ns < 10 * sample_ns {
            return Err(format!(
                "a ramp of {} has fewer than ten samples of {}",
                time(ramp_ns),
                time(sample_ns)
            ));
        }
        let ramp = Ramp {
            target_pps,
            parameters,
            samples: Vec::new(),
            directions: Vec::new(),
            progress: Progress::new(frame_size),
        };
        let step = ramp.resolution_pps() * (sample_ns as f64 / 1e9);
        if step < 1.0 {
            return Err(format!(
                "the load rises by {step:.3} frames per sample: below one frame this is meaningless; make the ramp shorter or \
                 the target higher"
            ));
        }
        Ok(ramp)
    }

    /// Returns the change of the load from one sample to the next.
    pub fn resolution_pps(&self) -> f64 {
        self.target_pps * self.parameters.sample.ns() as f64 / self.parameters.ramp.ns() as f64
    }

    /// Limits the edge to the target, and adds the times between which the load passed the DUT's
    /// capacity.
    fn with_moments(&self, edge: Edge, is_down: bool) -> Edge {
        let p = &self.parameters;
        let seconds = |ns: u64| ns as f64 / 1e9;
        let sample_s = seconds(p.sample.ns());
        let share = edge.lower_pps.unwrap_or(0.0) / self.target_pps;
        let top_s = seconds(p.warm_up.ns() + p.ramp.ns() + p.hold.ns());
        let moments = edge.at_s.map(|at_s| match is_down {
            false => {
                let rise_s = share * seconds(p.ramp.ns()) - STEP_S / 2.0;
                let from_s = seconds(p.warm_up.ns()) + rise_s.max(0.0);
                (from_s.min(at_s + sample_s), at_s + sample_s)
            }
            true => {
                let fall_s = (1.0 - share) * seconds(p.ramp.ns()) + STEP_S / 2.0;
                (at_s, (top_s + fall_s).max(at_s))
            }
        });
        Edge {
            upper_pps: edge.upper_pps.map(|pps| pps.min(self.target_pps)),
            from_s: moments.map(|(from, _)| from),
            until_s: moments.map(|(_, until)| until),
            ..edge
        }
    }

    /// Returns the samples of the warm-up, of the way up with the hold, of the hold alone, and of
    /// the way down.
    fn parts(&self, samples: usize) -> [Range<usize>; 4] {
        let p = &self.parameters;
        let at = |ns: u64| ((ns / p.sample.ns()) as usize).min(samples);
        let ramp = at(p.warm_up.ns());
        let hold = at(p.warm_up.ns() + p.ramp.ns());
        let down = at(p.warm_up.ns() + p.ramp.ns() + p.hold.ns());
        [0..ramp, ramp..down, hold..down, down..samples]
    }

    /// Returns the largest load that the generator offered during the rise, if it offered none
    /// above it.
    fn limit_pps(&self, rise: &[Interval]) -> Option<f64> {
        let last = rise.iter().rposition(was_offered);
        let beyond = rise.len() - last.map_or(0, |last| last + 1);
        let offered = rise.iter().filter(|sample| was_offered(sample));
        (beyond >= STREAK).then(|| offered.map(Interval::offered_load_pps).fold(0.0, f64::max))
    }
}

impl Procedure for Ramp {
    fn next_trial(&mut self) -> Option<Question> {
        if self.progress.trials > 0 || self.progress.failure.is_some() {
            return None;
        }
        let p = &self.parameters;
        let slope = |from_pps: f64, to_pps: f64| Stretch {
            duration_ns: p.ramp.ns(),
            from_pps,
            to_pps,
        };
        let mut stretches = vec![
            Stretch::constant(WARM_UP_PPS, p.warm_up.ns()),
            slope(0.0, self.target_pps),
            Stretch::constant(self.target_pps, p.hold.ns()),
        ];
        if p.up_down {
            stretches.push(slope(self.target_pps, 0.0));
        }
        let reason = format!(
            "ramp to {:.0} frames/s in {}",
            self.target_pps,
            time(p.ramp.ns())
        );
        Some(Question {
            stretches,
            sample_ns: Some(p.sample.ns()),
            // a generator that falls short is part of the result
            needs_load: false,
            ..Question::constant(self.progress.frame_size, 1.0, 1, Purpose::Measure, reason)
        })
    }

    fn record(&mut self, _: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        self.samples.clone_from(&answer.samples);
        self.directions.clone_from(&answer.directions);
        format!("{} samples", self.samples.len())
    }

    fn abort(&mut self, reason: &str) {
        self.progress.failure = Some(reason.into());
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let p = &self.parameters;
        let [warm_up, rise, hold, fall] = self.parts(self.samples.len());
        // samples whose load was not offered are no evidence about the DUT
        let part = |range: Range<usize>| -> Vec<Interval> {
            let part = self.samples[range].iter();
            part.filter(|sample| was_offered(sample)).copied().collect()
        };
        let resolution = self.resolution_pps();
        let limit = self.limit_pps(&self.samples[rise.clone()]);
        let up = edge(&part(rise.clone()), p.threshold.0, resolution);
        let mut up = self.with_moments(up, false);
        if let (None, Some(limit)) = (up.at_s, limit) {
            up.reason = format!(
                "no lasting loss up to {limit:.0} frames/s; above, the generator did not reach its load, and the DUT may forward more"
            );
        }
        let down = (p.up_down && !fall.is_empty()).then(|| {
            let reversed: Vec<Interval> = part(fall.clone()).into_iter().rev().collect();
            let down = edge(&reversed, p.threshold.0, resolution);
            self.with_moments(down, true)
        });
        let to_hold = part(0..rise.end);
        let rates = to_hold.iter().map(Interval::forwarding_rate_pps);
        let max_rate = rates.fold(0.0, f64::max);
        let held: Vec<f64> = part(hold)
            .iter()
            .map(Interval::forwarding_rate_pps)
            .collect();
        let held = Sample::new(held).ok().map(|sample| sample.median());
        let collapse = held.filter(|_| max_rate > 0.0).map(|held| held / max_rate);
        let mut warnings = Vec::new();
        if let Some(ratio) = collapse.filter(|ratio| *ratio < COLLAPSE) {
            warnings.push(format!(
                "livelock: at the target the DUT forwards {:.0} % of its best rate",
                100.0 * ratio
            ));
        }
        if let Some(limit) = limit {
            warnings.push(format!(
                "above {limit:.0} frames/s the generator did not reach its load: the curve ends there, and nothing is known beyond it"
            ));
        }
        let warm = part(warm_up);
        let is_dead = max_rate == 0.0 && !to_hold.is_empty();
        if !is_dead
            && warm
                .iter()
                .filter(|s| s.loss_ratio() > p.threshold.0)
                .count()
                >= STREAK
        {
            warnings.push(
                "frames were lost even in the warm-up: check for a fault before you use the figure"
                    .into(),
            );
        }
        if let (Some(up), Some(down)) = (
            up.saturation_pps,
            down.as_ref().and_then(|d| d.saturation_pps),
        ) && (up - down).abs() > 3.0 * resolution
        {
            warnings.push(format!(
                "hysteresis: loss begins at {up:.0} frames/s on the way up and ends at {down:.0} on the way down"
            ));
        }
        let offered = part(rise.clone());
        let offered = offered.iter().map(Interval::offered_load_pps);
        let largest_pps = offered.fold(0.0, f64::max);
        let tester_bound = (up.saturation_pps).is_some_and(|pps| is_tester_bound(pps, largest_pps));
        let gap = up.gap(resolution);
        let answered =
            self.progress.trials > 0 && up.saturation_pps.is_some() && gap.is_none() && !is_dead;
        let verdict = match (&up.saturation_pps, up.at_s) {
            _ if self.progress.trials == 0 => "not measured".to_owned(),
            _ if is_dead => FORWARDS_NOTHING.into(),
            (None, _) if part(rise.clone()).is_empty() => {
                "cannot tell: the generator reached none of the loads".into()
            }
            (None, _) if up.resolution_pps > 3.0 * resolution => format!(
                "cannot tell: loss begins below {:.0} frames/s; at smaller loads the generator did not reach the load",
                up.resolution_pps
            ),
            (None, _) => "frames were lost at every load".into(),
            (Some(below), _) if let Some(above) = gap => format!(
                "cannot tell: loss begins between {below:.0} and {above:.0} frames/s; at loads between them the generator did not reach the load"
            ),
            (Some(_), None) => up.reason.clone(),
            (Some(_), Some(_)) if tester_bound => TESTER_BOUND.into(),
            (Some(_), Some(_)) => "found".into(),
        };
        let found = fwdlab_model::outcome::Ramp {
            target_pps: self.target_pps,
            loss_threshold: p.threshold.0,
            up,
            down,
            max_ok_pps: max_ok_pps(&to_hold, p.threshold.0),
            max_forwarding_rate_pps: max_rate,
            max_line_percent: None,
            held_forwarding_rate_pps: held,
            collapse_ratio: collapse,
            tester_bound,
            samples: self.samples.clone(),
            directions: self.directions.clone(),
        };
        vec![Outcome {
            warnings,
            ..self.progress.outcome(verdict, answered, found)
        }]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fwdlab_model::campaign::value::{Period, Share};

    use super::*;

    /// Seconds with frames sent and received.
    fn samples(counts: &[(u64, u64)]) -> Vec<Interval> {
        let second = 1_000_000_000;
        (0..)
            .zip(counts)
            .map(|(k, &(frames_sent, frames_received))| Interval {
                at_ns: k * second,
                length_ns: second,
                intended_load_pps: frames_sent as f64,
                frames_sent,
                frames_received,
            })
            .collect()
    }

    /// A rise of 1000 a second up to a capacity, with additional lossy seconds.
    fn rise(seconds: u64, capacity: u64, dips: &[u64]) -> Vec<Interval> {
        let counts: Vec<(u64, u64)> = (1..=seconds)
            .map(|k| {
                let sent = 1000 * k;
                let dip = if dips.contains(&k) { sent / 10 } else { 0 };
                (sent, sent.min(capacity) - dip.min(sent.min(capacity)))
            })
            .collect();
        samples(&counts)
    }

    #[test]
    fn the_viewers_rule() {
        // a clean second clears the mark: the dip is not the result
        let dip = samples(&[(100, 100), (200, 150), (300, 300), (400, 350), (500, 360)]);
        assert_eq!(max_ok_pps(&dip, 0.001), 350.0);
        // no mark at the end: the largest rate
        let clean = samples(&[(100, 100), (200, 150), (300, 300)]);
        assert_eq!(max_ok_pps(&clean, 0.001), 300.0);
        // the first lossy second of the last streak counts, not its best
        assert_eq!(max_ok_pps(&samples(&[(100, 50), (200, 90)]), 0.001), 50.0);
        // exactly the threshold counts as clean
        assert_eq!(max_ok_pps(&samples(&[(1000, 999)]), 0.001), 999.0);
        assert_eq!(max_ok_pps(&[], 0.001), 0.0);
    }

    #[test]
    fn the_robust_rule() {
        let of = |samples: &[Interval]| edge(samples, 0.001, 1000.0);
        assert_eq!(of(&rise(60, 40_000, &[])).saturation_pps, Some(40_000.0));
        // a dip of two seconds, and one of four that is followed by more than ten clean ones
        let found = of(&rise(60, 40_000, &[5, 6, 20, 21, 22, 23]));
        assert_eq!(
            (found.saturation_pps, found.at_s),
            (Some(40_000.0), Some(40.0))
        );
        // three lossy seconds with only nine clean ones after them are the onset
        let found = of(&rise(60, 40_000, &[28, 29, 30]));
        assert_eq!(found.at_s, Some(40.0));
        let found = of(&rise(60, 40_000, &[29, 30, 31]));
        assert_eq!(
            (found.saturation_pps, found.at_s),
            (Some(28_000.0), Some(28.0))
        );
        let found = of(&rise(60, 100_000, &[]));
        assert_eq!((found.saturation_pps, found.at_s), (Some(60_000.0), None));
        assert!(found.reason.contains("may forward more"));
        assert_eq!(of(&rise(60, 0, &[])).saturation_pps, None);
        // a jitter of the readings of half a frame in a thousand is not a loss
        let jitter: Vec<(u64, u64)> = (1..60u64)
            .map(|k| (100_000 * k, 100_000 * k - 50 * k * (k % 2)))
            .collect();
        assert_eq!(of(&samples(&jitter)).at_s, None);
    }

    #[test]
    fn a_load_that_was_not_offered_is_no_onset_of_loss() {
        let judged = |stalled: Range<usize>| {
            let parameters = campaign::Ramp {
                warm_up: Period(Duration::ZERO),
                hold: Period(Duration::ZERO),
                ramp: Period::seconds(60),
                ..campaign::Ramp::default()
            };
            let mut ramp = Ramp::new(FrameSize::MIN, 60_000.0, parameters).unwrap();
            let question = ramp.next_trial().unwrap();
            let mut samples = rise(60, 40_000, &[]);
            for sample in &mut samples[stalled] {
                sample.frames_sent /= 2;
                sample.frames_received = sample.frames_sent;
            }
            let answer = Answer {
                samples,
                ..Answer::default()
            };
            ramp.record(&question, &answer);
            ramp.outcomes().remove(0)
        };
        // one sample or two: no worse than a coarser ramp
        for stalled in [0..0, 39..40, 39..41] {
            assert!(judged(stalled.clone()).answered, "{stalled:?}");
        }
        for (stalled, words) in [
            (25..45, "loss begins between 25000 and 46000 frames/s"),
            // and if too few are left above for a streak
            (25..59, "loss begins between 25000 and 60000 frames/s"),
            (0..55, "loss begins below 56000 frames/s"),
        ] {
            let outcome = judged(stalled);
            assert!(!outcome.answered && outcome.figures().is_empty());
            assert!(outcome.verdict.contains(words), "{}", outcome.verdict);
        }
    }

    #[test]
    fn resolution_and_errors() {
        // docs/methodology.md, "Ramp": 14.88 Mpps in 600 s are 24.8 kpps per sample
        let ramp = |target_pps, change: fn(&mut campaign::Ramp)| {
            let mut parameters = campaign::Ramp::default();
            change(&mut parameters);
            Ramp::new(FrameSize::MIN, target_pps, parameters)
        };
        let mut standard = ramp(14_880_000.0, |_| {}).unwrap();
        assert_eq!(standard.resolution_pps(), 24_800.0);
        let question = standard.next_trial().unwrap();
        assert_eq!(question.duration_ns(), 660_000_000_000);
        let warm_up = Stretch::constant(1000.0, 30_000_000_000);
        assert_eq!(question.stretches[0], warm_up);
        let wrong = |target_pps, change| ramp(target_pps, change).unwrap_err();
        assert!(wrong(0.0, |_| {}).contains("above 0"));
        assert!(wrong(500.0, |_| {}).contains("below one frame"));
        let target_pps = 14_880_000.0;
        assert!(wrong(target_pps, |p| p.threshold = Share(0.0)).contains("0.01 %"));
        assert!(wrong(target_pps, |p| p.threshold = Share(1.1)).contains("100 %"));
        assert!(wrong(target_pps, |p| p.ramp = Period::seconds(9)).contains("ten samples"));
    }
}
