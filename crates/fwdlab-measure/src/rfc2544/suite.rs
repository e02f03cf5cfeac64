//! All tests of RFC 2544: for every frame size the throughput, and the tests that depend on it.
//!
//! A procedure of procedures: it passes on the requests of the current one, and passes the
//! throughput to those that need it. A failed test does not end the others. Start with [`Suite`].

use std::collections::VecDeque;

pub use fwdlab_model::campaign::Test;
use fwdlab_model::outcome::{Found, LatencyMode, Outcome};
use fwdlab_model::procedure::{Answer, Question};

use super::{Setup, back_to_back, bursts, frame_loss, latency, recovery, reset, throughput};
use crate::procedure::Procedure;

/// Times and repetitions of all tests.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Tests to run. Those that depend on the throughput include it.
    pub tests: Vec<Test>,
    /// Duration of the trials that guide a search.
    pub search_ns: u64,
    /// Duration of the trials that yield results.
    pub final_ns: u64,
    /// Resolution of the throughput relative to itself.
    pub resolution: f64,
    /// How delays are measured.
    pub latency_mode: LatencyMode,
    /// Loads of the latency test in percent of the throughput.
    pub latency_percents: Vec<f64>,
    /// Duration of a trial of the latency test.
    pub latency_trial_ns: u64,
    /// Frames to tag in it.
    pub tagged: u32,
    /// Repetitions of the latency test.
    pub latency_repetitions: u32,
    /// Steps of the frame loss test in percent.
    pub loss_step_percent: f64,
    /// Longest burst, in nanoseconds of the full rate.
    pub burst_ns: u64,
    /// Repetitions of the back-to-back test.
    pub burst_repetitions: u32,
    /// Lengths of the bursts of §21 in frames; empty skips that test.
    pub burst_frames: Vec<u32>,
    /// Repetitions of the recovery test.
    pub recovery_repetitions: u32,
    /// What is reset; `None` skips the reset test.
    pub reset: Option<String>,
    /// Maximum wait for a DUT after a reset.
    pub reset_longest_ns: u64,
    /// Repetitions of the reset test.
    pub reset_repetitions: u32,
}

impl Plan {
    /// Returns the values of the RFCs.
    pub fn standard() -> Plan {
        const SECOND: u64 = 1_000_000_000;
        Plan {
            tests: Test::ALL.to_vec(),
            search_ns: 60 * SECOND,
            final_ns: 60 * SECOND,
            resolution: 0.005,
            latency_mode: LatencyMode::Rfc8219,
            latency_percents: vec![100.0],
            latency_trial_ns: latency::TRIAL_NS,
            tagged: latency::TAGGED,
            latency_repetitions: latency::REPETITIONS,
            loss_step_percent: frame_loss::LARGEST_STEP,
            burst_ns: 2 * SECOND,
            burst_repetitions: back_to_back::REPETITIONS,
            burst_frames: Vec::new(),
            recovery_repetitions: recovery::REPETITIONS,
            reset: None,
            reset_longest_ns: reset::LONGEST_NS,
            reset_repetitions: reset::REPETITIONS,
        }
    }

    /// Returns a quick overview in minutes instead of days: everything is shortened, and labelled
    /// as such.
    pub fn short() -> Plan {
        const SECOND: u64 = 1_000_000_000;
        Plan {
            search_ns: SECOND,
            final_ns: 5 * SECOND,
            latency_trial_ns: 2 * SECOND,
            latency_repetitions: 3,
            burst_repetitions: 3,
            recovery_repetitions: 2,
            reset_longest_ns: 60 * SECOND,
            reset_repetitions: 2,
            ..Plan::standard()
        }
    }
}

/// The state machine.
pub struct Suite {
    plan: Plan,
    queue: VecDeque<(Setup, Test)>,
    current: Option<Box<dyn Procedure>>,
    outcomes: Vec<Outcome>,
}

impl Suite {
    /// Prepares the tests of all sizes.
    ///
    /// # Errors
    /// There are no sizes or tests, a size occurs twice, or a test's parameters are invalid; the
    /// message contains the size.
    pub fn new(setups: Vec<Setup>, plan: Plan) -> Result<Suite, String> {
        if setups.is_empty() {
            return Err(
                "no frame size was given: RFC 2544 §9.1 has 64,128,256,512,1024,1280,1518".into(),
            );
        }
        if plan.tests.is_empty() {
            return Err("no test was given".into());
        }
        let mut tests = plan.tests.clone();
        tests.retain(|test| match test {
            Test::Reset => plan.reset.is_some(),
            Test::Bursts => !plan.burst_frames.is_empty(),
            _ => true,
        });
        let rests =
            |test: &Test| !matches!(test, Test::Throughput | Test::FrameLoss | Test::Bursts);
        if tests.iter().any(rests) {
            tests.push(Test::Throughput);
        }
        tests.sort_unstable();
        tests.dedup();
        let mut queue = VecDeque::new();
        for (n, setup) in setups.iter().enumerate() {
            let size = setup.frame_size;
            if setups[..n].iter().any(|earlier| earlier.frame_size == size) {
                return Err(format!("frame size {size} is given twice"));
            }
            for &test in &tests {
                // create every test with the largest load, so that errors are reported before any
                // traffic
                procedure(
                    &plan,
                    setup.clone(),
                    test,
                    (setup.largest_pps() / 2.0, None),
                )
                .map_err(|reason| format!("{size} bytes, {}: {reason}", test.name()))?;
                queue.push_back((setup.clone(), test));
            }
        }
        Ok(Suite {
            plan,
            queue,
            current: None,
            outcomes: Vec::new(),
        })
    }

    /// Returns the throughput of this size, 0 if none was found, and the smallest load with loss.
    fn throughput_of(&self, setup: &Setup) -> (f64, Option<f64>) {
        let found = self
            .outcomes
            .iter()
            .rev()
            .find_map(|outcome| match &outcome.found {
                Found::Throughput(found) if outcome.frame_size_bytes == setup.frame_size => {
                    Some((found.throughput_pps?, found.lossy_pps))
                }
                _ => None,
            });
        found.unwrap_or((0.0, None))
    }
}

fn procedure(
    plan: &Plan,
    setup: Setup,
    test: Test,
    (throughput_pps, lossy_pps): (f64, Option<f64>),
) -> Result<Box<dyn Procedure>, String> {
    Ok(match test {
        Test::Throughput => Box::new(throughput::Throughput::new(throughput::Parameters {
            resolution: plan.resolution,
            search_ns: plan.search_ns,
            final_ns: plan.final_ns,
            ..throughput::Parameters::standard(setup)
        })?),
        Test::Latency => Box::new(latency::Latency::new(latency::Parameters {
            percents: plan.latency_percents.clone(),
            trial_ns: plan.latency_trial_ns,
            tag_from_ns: latency::TAG_FROM_NS.min(plan.latency_trial_ns / 2),
            tagged: plan.tagged,
            repetitions: plan.latency_repetitions,
            ..latency::Parameters::standard(setup, plan.latency_mode, throughput_pps)
        })?),
        Test::Bursts => Box::new(bursts::Bursty::new(bursts::Parameters {
            setup,
            frames: plan.burst_frames.clone(),
            trial_ns: plan.final_ns,
            longest_gap_ns: bursts::LONGEST_GAP_NS.min(plan.final_ns / 20),
            resolution: bursts::RESOLUTION,
        })?),
        Test::FrameLoss => Box::new(frame_loss::FrameLoss::new(frame_loss::Parameters {
            step_percent: plan.loss_step_percent,
            trial_ns: plan.final_ns,
            setup,
        })?),
        Test::BackToBack => Box::new(back_to_back::BackToBack::new(back_to_back::Parameters {
            limit_frames: (setup.largest_pps() * (plan.burst_ns as f64 / 1e9)) as u64,
            repetitions: plan.burst_repetitions,
            trial_ns: plan.final_ns,
            ..back_to_back::Parameters::standard(setup, throughput_pps, lossy_pps)
        })?),
        Test::Recovery => Box::new(recovery::Recovery::new(recovery::Parameters {
            overload_ns: plan.final_ns,
            rest_ns: plan.final_ns,
            repetitions: plan.recovery_repetitions,
            ..recovery::Parameters::standard(setup, throughput_pps)
        })?),
        Test::Reset => {
            let what = plan.reset.clone().unwrap_or_default();
            // half of the throughput, so that only the outage loses frames
            let load = throughput_pps / 2.0;
            Box::new(reset::Reset::new(reset::Parameters {
                repetitions: plan.reset_repetitions,
                longest_ns: plan.reset_longest_ns,
                ..reset::Parameters::standard(setup, what, load)
            })?)
        }
    })
}

impl Procedure for Suite {
    fn next_trial(&mut self) -> Option<Question> {
        loop {
            if let Some(current) = &mut self.current {
                if let Some(question) = current.next_trial() {
                    return Some(question);
                }
                self.outcomes.extend(current.outcomes());
                self.current = None;
            }
            let (setup, test) = self.queue.pop_front()?;
            let throughput = self.throughput_of(&setup);
            // parameters were checked; only a reset without a throughput is impossible
            self.current = procedure(&self.plan, setup, test, throughput).ok();
        }
    }

    fn record(&mut self, question: &Question, answer: &Answer) -> String {
        let current = self.current.as_mut();
        current.map_or_else(String::new, |current| current.record(question, answer))
    }

    fn abort(&mut self, reason: &str) {
        if let Some(current) = &mut self.current {
            current.abort(reason);
        }
    }

    fn load_not_reached(&mut self, question: &Question, answer: &Answer, reason: &str) {
        if let Some(current) = &mut self.current {
            current.load_not_reached(question, answer, reason);
        }
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let current = self.current.iter().flat_map(|current| current.outcomes());
        self.outcomes.iter().cloned().chain(current).collect()
    }
}
