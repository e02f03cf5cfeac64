//! Sweeps: a procedure at every value of a parameter, in random order, and the cost of a unit of
//! the parameter.
//!
//! The reference value is measured at the start, in the middle and at the end: if it drifts, the
//! machine drifts. The lab sets the values (rules, table entries, flows, queues), which are part of
//! every request. Start with [`Sweep`].

use std::collections::VecDeque;

use fwdlab_model::campaign;
use fwdlab_model::outcome::{Outcome, SweepPoint};
use fwdlab_model::procedure::{Answer, Question};
use fwdlab_model::units::FrameSize;
use fwdlab_stats::{Confidence, Sample};

use crate::cost;
use crate::order::blocks;
use crate::procedure::{Procedure, Progress};

/// If the reference changes by more than this share, the machine drifts.
const DRIFT: f64 = 0.02;

/// Creates the procedure for a value of the parameter.
pub type Inner = Box<dyn Fn(u64) -> Result<Box<dyn Procedure>, String>>;

/// The state machine.
pub struct Sweep {
    parameters: campaign::Sweep,
    inner: Inner,
    /// The id of the inner procedure.
    id: String,
    queue: VecDeque<(u64, bool)>,
    current: Option<(u64, bool, Box<dyn Procedure>)>,
    runs: Vec<cost::Run>,
    reference: Vec<f64>,
    warnings: Vec<String>,
    progress: Progress,
}

impl Sweep {
    /// Prepares all runs.
    ///
    /// # Errors
    /// Fewer than two values, a duplicate value, no runs, or an invalid inner procedure; the
    /// message contains the value.
    pub fn new(
        frame_size: FrameSize,
        parameters: campaign::Sweep,
        seed: u64,
        inner: Inner,
    ) -> Result<Sweep, String> {
        let p = &parameters;
        if p.values.len() < 2 || p.runs == 0 {
            return Err(format!(
                "a sweep over {} needs at least two values and one run",
                p.parameter
            ));
        }
        let mut id = "";
        for (n, value) in p.values.iter().enumerate() {
            if p.values[..n].contains(value) {
                return Err(format!("{value} {} are given twice", p.parameter));
            }
            let procedure =
                inner(*value).map_err(|reason| format!("{value} {}: {reason}", p.parameter))?;
            id = procedure
                .outcomes()
                .first()
                .map_or("", |o| o.found.procedure());
        }
        let others = p.values.len() - 1;
        let order: Vec<u64> = blocks(others, p.runs as usize, seed)
            .flatten()
            .map(|place| p.values[place + 1])
            .collect();
        let reference = (p.values[0], true);
        let (first, second) = order.split_at(order.len() / 2);
        let plain = |part: &[u64]| part.iter().map(|&value| (value, false)).collect::<Vec<_>>();
        let queue = [
            vec![reference],
            plain(first),
            vec![reference],
            plain(second),
            vec![reference],
        ]
        .concat();
        Ok(Sweep {
            inner,
            id: id.to_owned(),
            queue: queue.into(),
            current: None,
            runs: Vec::new(),
            reference: Vec::new(),
            warnings: Vec::new(),
            progress: Progress::new(frame_size),
            parameters,
        })
    }

    fn finish(&mut self, value: u64, is_reference: bool, procedure: &dyn Procedure) {
        for outcome in procedure.outcomes() {
            match outcome.found.rate_pps() {
                // a lower bound cannot be compared with other values
                Some(pps) if outcome.answered && !outcome.found.is_tester_bound() => {
                    self.runs.push((value, pps));
                    if is_reference {
                        self.reference.push(pps);
                    }
                }
                _ => self.warnings.push(format!(
                    "{value} {}: {}",
                    self.parameters.parameter, outcome.verdict
                )),
            }
        }
    }

    fn point(&self, value: u64, reference_pps: Option<f64>) -> SweepPoint {
        let of = self.runs.iter().filter(|(at, _)| *at == value);
        let runs_pps: Vec<f64> = of.map(|(_, pps)| *pps).collect();
        let sample = Sample::new(runs_pps.clone()).ok();
        let median_pps = sample.as_ref().map(Sample::median);
        let interval = Confidence::new(0.95)
            .zip(sample.as_ref())
            .and_then(|(confidence, sample)| sample.mean_interval(confidence));
        SweepPoint {
            value,
            runs_pps,
            median_pps,
            interval_pps: interval.map(|interval| (interval.low, interval.high)),
            percent_of_reference: median_pps
                .zip(reference_pps)
                .filter(|(_, reference)| *reference > 0.0)
                .map(|(pps, reference)| 100.0 * pps / reference),
        }
    }
}

impl Procedure for Sweep {
    fn next_trial(&mut self) -> Option<Question> {
        loop {
            if let Some((value, is_reference, mut procedure)) = self.current.take() {
                if let Some(question) = procedure.next_trial() {
                    let reason =
                        format!("{value} {}: {}", self.parameters.parameter, question.reason);
                    self.current = Some((value, is_reference, procedure));
                    return Some(Question {
                        setting: Some(value),
                        reason,
                        ..question
                    });
                }
                self.finish(value, is_reference, procedure.as_ref());
            }
            let (value, is_reference) = self.queue.pop_front()?;
            match (self.inner)(value) {
                Ok(procedure) => self.current = Some((value, is_reference, procedure)),
                Err(cause) => self
                    .warnings
                    .push(format!("{value} {}: {cause}", self.parameters.parameter)),
            }
        }
    }

    fn record(&mut self, question: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        match &mut self.current {
            Some((_, _, procedure)) => procedure.record(question, answer),
            None => String::new(),
        }
    }

    fn abort(&mut self, reason: &str) {
        if let Some((_, _, procedure)) = &mut self.current {
            procedure.abort(reason);
        }
    }

    fn load_not_reached(&mut self, question: &Question, answer: &Answer, reason: &str) {
        if let Some((_, _, procedure)) = &mut self.current {
            procedure.load_not_reached(question, answer, reason);
        }
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let p = &self.parameters;
        let reference = Sample::new(self.reference.clone()).ok();
        let reference_pps = reference.as_ref().map(Sample::median);
        let points: Vec<SweepPoint> = p
            .values
            .iter()
            .map(|&value| self.point(value, reference_pps))
            .collect();
        let mut warnings = self.warnings.clone();
        if let (Some(first), Some(last)) = (self.reference.first(), self.reference.last())
            && (last / first - 1.0).abs() > DRIFT
        {
            warnings.push(format!(
                "the reference changed by {:+.1} % from beginning to end: the machine drifts, do not trust the cost",
                100.0 * (last / first - 1.0)
            ));
        }
        let is_done = self.queue.is_empty() && self.current.is_none();
        let measured = points
            .iter()
            .filter(|point| point.median_pps.is_some())
            .count();
        let verdict = match (is_done, measured) {
            (false, _) => "not all runs were completed".to_owned(),
            (true, all) if all == points.len() => "measured".into(),
            (true, some) => format!("{some} of {} values have a result", points.len()),
        };
        let answered = is_done && measured == points.len();
        let found = fwdlab_model::outcome::Sweep {
            parameter: p.parameter.clone(),
            inner: self.id.clone(),
            cost: cost::parameter_cost(&p.parameter, &self.runs),
            points,
            reference_pps: self.reference.clone(),
        };
        vec![Outcome {
            warnings,
            ..self.progress.outcome(verdict, answered, found)
        }]
    }
}
