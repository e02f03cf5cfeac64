//! Delays at shares of one load: what a frame waits in a DUT that has little to do, and in one that
//! is nearly or fully loaded.
//!
//! Unlike RFC 2544 §26.2 it needs no throughput: the load of 100 % is given. Every frame that comes
//! back counts, and the frame loss ratio is next to the delays: with loss they are those of a full
//! buffer. Start with [`LoadedLatency`].

use fwdlab_model::campaign::{self, value::Percent};
use fwdlab_model::outcome::{LoadedPoint, Outcome};
use fwdlab_model::procedure::{Answer, Delays, Purpose, Question, Tagging};
use fwdlab_model::units::FrameSize;

use crate::procedure::{Procedure, Progress, check_duration, check_load, describe_stalls, spread};

/// The state machine: all trials of a load, then the next load.
#[derive(Debug, Clone)]
pub struct LoadedLatency {
    /// The load of 100 %.
    load_pps: f64,
    /// Minimum number of timed frames; engines that time every frame have more.
    tagged: u32,
    parameters: campaign::LoadedLatency,
    points: Vec<LoadedPoint>,
    /// Answers at the current load.
    answers: Vec<Answer>,
    progress: Progress,
}

impl LoadedLatency {
    /// Prepares the trials.
    ///
    /// # Errors
    /// No loads or repetitions, an impossible load, or trials without a frame.
    pub fn new(
        frame_size: FrameSize,
        load_pps: f64,
        tagged: u32,
        parameters: campaign::LoadedLatency,
    ) -> Result<LoadedLatency, String> {
        let p = &parameters;
        check_load("the load", load_pps)?;
        if p.at.is_empty() || p.repetitions == 0 {
            return Err("at least one load and one repetition are needed".into());
        }
        for Percent(percent) in &p.at {
            if !(*percent > 0.0 && *percent <= 100.0) {
                return Err(format!(
                    "at: {percent} % of the load: it must be above 0 and at most 100 %"
                ));
            }
            check_duration("a trial", p.duration.ns(), load_pps * percent / 100.0)?;
        }
        Ok(LoadedLatency {
            points: Vec::new(),
            answers: Vec::new(),
            progress: Progress::new(frame_size),
            load_pps,
            tagged,
            parameters,
        })
    }

    /// Ends the current load with what its trials found.
    fn finish_load(&mut self) {
        let Percent(percent) = self.parameters.at[self.points.len()];
        let answers = std::mem::take(&mut self.answers);
        let sum = |of: fn(&Answer) -> u64| answers.iter().map(of).sum::<u64>() as f64;
        let seconds = (sum(|answer| answer.duration_ns) / 1e9).max(f64::MIN_POSITIVE);
        let (sent, received) = (sum(|a| a.frames_sent), sum(|a| a.frames_received));
        let delays: Vec<Delays> = answers.iter().filter_map(|answer| answer.delays).collect();
        let of = |value: fn(&Delays) -> f64| spread(&delays.iter().map(value).collect::<Vec<_>>());
        self.points.push(LoadedPoint {
            percent,
            load_pps: self.load_pps * percent / 100.0,
            offered_load_pps: sent / seconds,
            forwarding_rate_pps: received / seconds,
            frame_loss_ratio: ((sent - received) / sent.max(1.0)).max(0.0),
            typical_ns: of(|delays| delays.p50_ns as f64),
            worst_case_ns: of(|delays| delays.worst_case_ns as f64),
            repetitions: delays,
        });
    }
}

impl Procedure for LoadedLatency {
    fn next_trial(&mut self) -> Option<Question> {
        let p = &self.parameters;
        let percent = p.at.get(self.points.len());
        let Percent(percent) = percent.filter(|_| self.progress.failure.is_none())?;
        let reason = format!(
            "latency at {percent} % of the load, {} of {}",
            self.answers.len() + 1,
            p.repetitions
        );
        let load_pps = self.load_pps * percent / 100.0;
        Some(Question {
            tagging: Some(Tagging {
                from_ns: 0,
                until_ns: p.duration.ns(),
                frames: self.tagged,
            }),
            ..Question::constant(
                self.progress.frame_size,
                load_pps,
                p.duration.ns(),
                Purpose::Measure,
                reason,
            )
        })
    }

    fn record(&mut self, _: &Question, answer: &Answer) -> String {
        self.progress.trials += 1;
        let says = match answer.delays {
            Some(delays) => format!(
                "typical {} ns, worst case {} ns of {} frames; {} of {} frames lost",
                delays.p50_ns,
                delays.worst_case_ns,
                delays.frames,
                answer.frames_lost(),
                answer.frames_sent
            ),
            None => "none of the timed frames came back".into(),
        };
        self.answers.push(answer.clone());
        if self.answers.len() == self.parameters.repetitions as usize {
            self.finish_load();
        }
        says
    }

    fn abort(&mut self, reason: &str) {
        self.progress.failure = Some(reason.into());
    }

    /// This load has no delays; lower ones may have some.
    fn load_not_reached(&mut self, _: &Question, _: &Answer, _: &str) {
        self.answers.clear();
        self.finish_load();
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let is_done = self.points.len() == self.parameters.at.len();
        let timed = || self.points.iter().flat_map(|point| &point.repetitions);
        let is_timed = timed().next().is_some();
        let mut warnings = Vec::new();
        let without = self.points.iter().filter(|one| one.repetitions.is_empty());
        for point in without {
            warnings.push(match point.offered_load_pps > 0.0 {
                true => format!(
                    "no latency at {} % of the load: no timed frame came back",
                    point.percent
                ),
                false => format!(
                    "no latency at {} % of the load: the generator did not reach it",
                    point.percent
                ),
            });
        }
        warnings.extend(describe_stalls(timed()));
        let verdict = match (is_done, is_timed) {
            (false, _) => "not all loads were measured",
            (true, false) => "no delay was measured at any of the loads",
            (true, true) => "measured",
        };
        let answered = is_done && is_timed && self.progress.failure.is_none();
        let found = fwdlab_model::outcome::LoadedLatency {
            load_pps: self.load_pps,
            points: self.points.clone(),
        };
        vec![Outcome {
            warnings,
            ..self.progress.outcome(verdict, answered, found)
        }]
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::campaign::value::Period;
    use fwdlab_model::outcome::Found;

    use super::*;
    use crate::procedure::Session;

    fn at(percents: &[f64], repetitions: u32) -> Result<LoadedLatency, String> {
        let parameters = campaign::LoadedLatency {
            at: percents.iter().copied().map(Percent).collect(),
            duration: Period::seconds(1),
            repetitions,
            ..campaign::LoadedLatency::default()
        };
        LoadedLatency::new(FrameSize::MIN, 1e6, 1000, parameters)
    }

    /// A DUT that forwards 800,000 frames per second, whose delay is its load in nanoseconds per
    /// thousand frames, 10 ns more in every trial; and a generator that reaches `most_pps`.
    fn measured(percents: &[f64], most_pps: f64) -> Outcome {
        let procedure = at(percents, 2).unwrap();
        let mut session = Session::new(Box::new(procedure));
        let mut trial = 0;
        while let Some((question, _)) = session.next_trial() {
            trial += 1;
            let load_pps = question.peak_pps();
            let (frames, sent) = (load_pps as u64, load_pps.min(most_pps) as u64);
            let typical_ns = sent / 1000 + 10 * trial;
            session.record(&Answer {
                frames_intended: frames,
                frames_sent: sent,
                frames_received: sent.min(800_000),
                duration_ns: question.duration_ns(),
                delays: Some(Delays {
                    frames: 1000,
                    p50_ns: typical_ns,
                    worst_case_ns: 10 * typical_ns,
                    ..Delays::default()
                }),
                ..Answer::default()
            });
        }
        session.outcomes().remove(0)
    }

    #[test]
    fn delays_and_loss_at_every_load() {
        let outcome = measured(&[10.0, 50.0, 100.0], f64::MAX);
        assert!(
            outcome.answered && outcome.warnings.is_empty(),
            "{outcome:?}"
        );
        let Found::LoadedLatency(found) = &outcome.found else {
            panic!("{outcome:?}")
        };
        let median = |point: &LoadedPoint| point.typical_ns.map(|spread| spread.median);
        let points = found.points.iter();
        let points: Vec<_> = points
            .map(|point| (point.percent, median(point), point.frame_loss_ratio))
            .collect();
        // trials 1 and 2 took 110 and 120 ns
        let expected = [
            (10.0, Some(115.0), 0.0),
            (50.0, Some(535.0), 0.0),
            (100.0, Some(1055.0), 0.2),
        ];
        assert_eq!(points, expected);
        assert_eq!(found.points[2].forwarding_rate_pps, 800_000.0);
        let names: Vec<String> = outcome.figures().into_iter().map(|one| one.name).collect();
        assert_eq!(
            names,
            [
                "latency at 10 % of the load",
                "latency at 50 % of the load",
                "latency at 100 % of the load"
            ]
        );
    }

    #[test]
    fn a_load_that_the_generator_does_not_reach_has_no_delays() {
        let outcome = measured(&[10.0, 50.0, 100.0], 600_000.0);
        assert!(outcome.answered);
        assert_eq!(
            outcome.warnings,
            ["no latency at 100 % of the load: the generator did not reach it"]
        );
        assert_eq!(outcome.figures().len(), 2);
        let none = measured(&[100.0], 600_000.0);
        assert!(!none.answered && none.figures().is_empty());
    }

    #[test]
    fn impossible_parameters_are_refused() {
        for (percents, repetitions, says) in [
            (&[][..], 1, "at least one load"),
            (&[50.0], 0, "at least one load"),
            (&[0.0], 1, "above 0 and at most 100 %"),
            (&[101.0], 1, "above 0 and at most 100 %"),
        ] {
            let reason = at(percents, repetitions).err().unwrap();
            assert!(reason.contains(says), "{reason}");
        }
    }
}
