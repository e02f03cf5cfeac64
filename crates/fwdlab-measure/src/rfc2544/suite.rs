//! All tests of RFC 2544: for every frame size the throughput, and the tests that depend on it.
//!
//! A procedure of procedures: it passes on the requests of the current one, and passes the
//! throughput to those that need it. A failed test does not end the others. Start with [`Suite`].

use std::collections::VecDeque;

pub use fwdlab_model::campaign::Test;
use fwdlab_model::outcome::{Found, LatencyMode, Outcome};
use fwdlab_model::procedure::{Answer, Question};

use super::back_to_back::BackToBack;
use super::bursts::Bursty;
use super::frame_loss::FrameLoss;
use super::latency::Latency;
use super::recovery::Recovery;
use super::reset::Reset;
use super::throughput::Throughput;
use super::{Setup, back_to_back, frame_loss, latency, recovery, reset};
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
    throughput: (f64, Option<f64>),
) -> Result<Box<dyn Procedure>, String> {
    let throughput_pps = throughput.0;
    Ok(match test {
        Test::Throughput => Box::new(Throughput::new(setup, plan)?),
        Test::Latency => Box::new(Latency::new(setup, throughput_pps, plan)?),
        Test::Bursts => Box::new(Bursty::new(setup, plan)?),
        Test::FrameLoss => Box::new(FrameLoss::new(setup, plan)?),
        Test::BackToBack => Box::new(BackToBack::new(setup, throughput, plan)?),
        Test::Recovery => Box::new(Recovery::new(setup, throughput_pps, plan)?),
        // half of the throughput, so that only the outage loses frames
        Test::Reset => Box::new(Reset::new(setup, throughput_pps / 2.0, plan)?),
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
