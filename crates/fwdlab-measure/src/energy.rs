//! Energy: the DUT's power when idle, at shares of its capacity, and in overload; and the energy
//! per frame.
//!
//! Implements docs/methodology.md, "Energy and cycles": power over forwarding rate, what the load
//! adds to the idle power, how closely power follows the load. The answers contain the power, meter
//! by meter; reading it is up to the caller. Start with [`Energy`].

use std::collections::BTreeMap;

use fwdlab_model::campaign;
use fwdlab_model::energy::{joules_per_frame, marginal_joules_per_frame, proportionality};
use fwdlab_model::outcome::{EnergyPoint, FORWARDS_NOTHING, Meter, Outcome};
use fwdlab_model::procedure::{Answer, Purpose, Question};
use fwdlab_model::units::FrameSize;

use crate::procedure::{Procedure, Progress, check_load};

/// The load of an idle DUT: a frame per second keeps its neighbour entries alive.
const IDLE_PPS: f64 = 1.0;

/// The state machine: idle, then overload, whose forwarding rate determines the other loads.
#[derive(Debug, Clone)]
pub struct Energy {
    /// A load above the DUT's capacity.
    max_load_pps: f64,
    parameters: campaign::Energy,
    /// The remaining loads, the next one last; `None` is overload.
    ahead: Vec<Option<f64>>,
    points: Vec<EnergyPoint>,
    forwarded_pps: f64,
    progress: Progress,
}

impl Energy {
    /// Prepares the trials.
    ///
    /// # Errors
    /// An impossible load, or times too short to read power.
    pub fn new(
        frame_size: FrameSize,
        max_load_pps: f64,
        parameters: campaign::Energy,
    ) -> Result<Energy, String> {
        check_load("the largest load", max_load_pps)?;
        let mut loads = parameters.loads.iter();
        if let Some(load) = loads.find(|load| !(load.0 > 0.0 && load.0 <= 100.0)) {
            return Err(format!(
                "loads: {load} % of what the DUT forwards: it must be more than 0 and at most 100 %; idle and overload are measured anyway",
            ));
        }
        if parameters.duration.ns() < 1_000_000_000 {
            return Err("for: it must be at least one second".into());
        }
        // from small to large, with overload right after idle, because it determines the others
        let mut shares: Vec<f64> = parameters.loads.iter().map(|load| load.0 / 100.0).collect();
        shares.sort_by(f64::total_cmp);
        shares.dedup();
        let begin = [Some(0.0), None];
        let mut lookahead: Vec<Option<f64>> = begin
            .into_iter()
            .chain(shares.into_iter().map(Some))
            .collect();
        lookahead.reverse();
        Ok(Energy {
            ahead: lookahead,
            points: Vec::new(),
            forwarded_pps: 0.0,
            progress: Progress::new(frame_size),
            max_load_pps,
            parameters,
        })
    }

    /// Summarises the meters.
    fn meters(&self) -> Vec<Meter> {
        let idle = self.points.iter().find(|point| point.share == Some(0.0));
        let full = self
            .points
            .iter()
            .max_by(|a, b| a.forwarding_rate_pps.total_cmp(&b.forwarding_rate_pps));
        let names = full.iter().flat_map(|point| point.watts.keys());
        names
            .map(|name| {
                let of = |point: &EnergyPoint| point.watts.get(name).copied();
                let at_idle = idle.and_then(of);
                let full = full
                    .filter(|point| point.share != Some(0.0) && point.forwarding_rate_pps > 0.0);
                let both = full.and_then(|point| Some((of(point)?, point.forwarding_rate_pps)));
                Meter {
                    name: name.clone(),
                    idle_watts: at_idle,
                    full_watts: both.map(|(watts, _)| watts),
                    joules_per_frame: both.map(|(watts, pps)| joules_per_frame(watts, pps)),
                    marginal_joules_per_frame: both.zip(at_idle).and_then(
                        |((watts, pps), idle)| marginal_joules_per_frame(watts, idle, pps),
                    ),
                    proportionality: both
                        .zip(at_idle)
                        .and_then(|((watts, _), idle)| proportionality(idle, watts)),
                }
            })
            .collect()
    }
}

impl Procedure for Energy {
    fn next_trial(&mut self) -> Option<Question> {
        let share = *self
            .ahead
            .last()
            .filter(|_| self.progress.failure.is_none())?;
        let p = &self.parameters;
        let (load_pps, reason) = match share {
            None => (self.max_load_pps, "overload".to_owned()),
            Some(0.0) => (IDLE_PPS, "idle, one frame a second".to_owned()),
            Some(share) => (
                (share * self.forwarded_pps).max(IDLE_PPS),
                format!("{:.0} % of what it forwards", 100.0 * share),
            ),
        };
        Some(Question {
            power_from_ns: Some(p.settle.ns()),
            needs_load: share.is_some(),
            ..Question::constant(
                self.progress.frame_size,
                load_pps,
                p.settle.ns() + p.duration.ns(),
                Purpose::Measure,
                reason,
            )
        })
    }

    fn record(&mut self, question: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        let share = self.ahead.pop().flatten();
        let seconds = answer.duration_ns.max(1) as f64 / 1e9;
        let forwarding_rate_pps = answer.frames_received as f64 / seconds;
        if share.is_none() {
            self.forwarded_pps = forwarding_rate_pps;
            if answer.frames_received == 0 {
                self.abort(FORWARDS_NOTHING);
            }
        }
        self.points.push(EnergyPoint {
            share,
            intended_load_pps: question.peak_pps(),
            offered_load_pps: answer.frames_sent as f64 / seconds,
            forwarding_rate_pps,
            watts: answer.power_watts.clone(),
        });
        match answer.power_watts.iter().next() {
            Some((meter, watts)) => format!("{watts:.3} W by {meter}"),
            None => "no meter was read".into(),
        }
    }

    fn abort(&mut self, reason: &str) {
        self.progress.failure = Some(reason.into());
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let meters = self.meters();
        let is_done = self.ahead.is_empty();
        let has_read = meters.iter().any(|meter| meter.joules_per_frame.is_some());
        let verdict = match (is_done, has_read) {
            (false, _) => "the measurement has not ended",
            (true, true) => "measured",
            (true, false) => {
                "no meter was read: give the DUT's host a command that prints watts ([telemetry] power), or one with RAPL or hwmon"
            }
        };
        let mut points = self.points.clone();
        // overload is the largest
        points.sort_by(|a, b| a.intended_load_pps.total_cmp(&b.intended_load_pps));
        let answered = is_done && has_read && self.progress.failure.is_none();
        let found = fwdlab_model::outcome::Energy { meters, points };
        vec![self.progress.outcome(verdict, answered, found)]
    }
}

/// Returns the mean power between two times, from readings between them: each is weighted by the
/// time around it.
pub fn mean_watts(readings: &[(f64, f64)]) -> Option<f64> {
    let (first, last) = (readings.first()?, readings.last()?);
    if readings.len() == 1 {
        return Some(first.1);
    }
    let pairs = readings.windows(2);
    let joules: f64 = pairs
        .map(|pair| (pair[1].0 - pair[0].0) * f64::midpoint(pair[0].1, pair[1].1))
        .sum();
    let seconds = last.0 - first.0;
    (seconds > 0.0).then(|| joules / seconds)
}

/// Returns the power of each meter, from readings while frames flowed: the difference of energy
/// counters, the mean of power meters.
pub fn power_of(readings: &[fwdlab_model::telemetry::Reading]) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    let (Some(first), Some(last)) = (readings.first(), readings.last()) else {
        return all;
    };
    let seconds = last.uptime_s - first.uptime_s;
    for (name, joules) in crate::telemetry::counted_joules(first, last) {
        if seconds > 0.0 {
            all.insert(name, joules / seconds);
        }
    }
    for name in first.power_watts.keys() {
        let read = readings.iter();
        let read: Vec<(f64, f64)> = read
            .filter_map(|reading| Some((reading.uptime_s, *reading.power_watts.get(name)?)))
            .collect();
        all.extend(mean_watts(&read).map(|watts| (name.clone(), watts)));
    }
    all
}

#[cfg(test)]
mod tests {
    use fwdlab_model::campaign::value::{Percent, Period};
    use fwdlab_model::outcome::Found;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn measured(power: &dyn Fn(f64) -> Option<f64>, capacity_pps: f64) -> (Outcome, Vec<f64>) {
        let parameters = campaign::Energy {
            loads: vec![Percent(100.0), Percent(50.0)],
            duration: Period::seconds(10),
            settle: Period::seconds(1),
        };
        let mut machine = Energy::new(FrameSize::MIN, 2.0 * capacity_pps, parameters).unwrap();
        let mut loads = Vec::new();
        while let Some(question) = machine.next_trial() {
            assert_eq!(question.power_from_ns, Some(SECOND));
            let load = question.peak_pps();
            loads.push(load);
            let forwarded = load.min(capacity_pps);
            let watts = power(forwarded).map(|watts| ("command".to_owned(), watts));
            let answer = Answer {
                frames_sent: (11.0 * load) as u64,
                frames_received: (11.0 * forwarded) as u64,
                duration_ns: 11 * SECOND,
                power_watts: watts.into_iter().collect(),
                ..Answer::default()
            };
            machine.record(&question, &answer);
        }
        (machine.outcomes().remove(0), loads)
    }

    /// docs/methodology.md, "Energy and cycles": 19 W at 15.1 Mpps are 1.258 uJ.
    #[test]
    fn the_cost_of_a_frame_is_found() {
        let capacity = 15.1e6;
        let (outcome, loads) = measured(&|pps| Some(9.0 + 10.0 * pps / capacity), capacity);
        assert_eq!(loads, [1.0, 2.0 * capacity, 0.5 * capacity, capacity]);
        assert!(outcome.answered, "{}", outcome.verdict);
        let Found::Energy(found) = outcome.found else {
            panic!("{:?}", outcome.found)
        };
        let watts: Vec<f64> = found
            .points
            .iter()
            .map(|point| point.watts["command"])
            .collect();
        assert!((watts[0] - 9.0).abs() < 1e-3 && (watts[1] - 14.0).abs() < 1e-3);
        assert_eq!(found.points[3].share, None);
        let meter = &found.meters[0];
        assert!(
            (meter.joules_per_frame.unwrap() - 1.258e-6).abs() < 1e-9,
            "{meter:?}"
        );
        let marginal = meter.marginal_joules_per_frame.unwrap();
        assert!((marginal - 10.0 / capacity).abs() < 1e-9, "{meter:?}");
        assert!((meter.proportionality.unwrap() - (1.0 - 9.0 / 19.0)).abs() < 1e-3);
    }

    #[test]
    fn without_a_meter_there_is_no_answer() {
        let (outcome, _) = measured(&|_| None, 1e6);
        assert!(!outcome.answered && outcome.verdict.contains("no meter was read"));
        let (outcome, loads) = measured(&|_| Some(5.0), 0.0_f64.max(f64::MIN_POSITIVE));
        assert!(
            !outcome.answered && outcome.verdict.contains(FORWARDS_NOTHING),
            "{loads:?}"
        );
        let beyond = campaign::Energy {
            loads: vec![Percent(150.0)],
            ..campaign::Energy::default()
        };
        let error = Energy::new(FrameSize::MIN, 1e6, beyond).unwrap_err();
        assert!(error.contains("150 %"), "{error}");
    }

    #[test]
    fn power_is_the_mean_over_time() {
        assert_eq!(mean_watts(&[]), None);
        assert_eq!(mean_watts(&[(3.0, 7.0)]), Some(7.0));
        // 10 W for a second, then 10 to 20 W in two: 40 J in 3 s
        let mean = mean_watts(&[(0.0, 10.0), (1.0, 10.0), (3.0, 20.0)]).unwrap();
        assert!((mean - 40.0 / 3.0).abs() < 1e-12);
    }
}
