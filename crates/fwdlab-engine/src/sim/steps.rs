//! The course of a trial: steps of constant load pass through the queues of the cores, divided into
//! phases of constant conditions.
//!
//! It knows what the DUT does at each time (stalls, resets, slow starts); chance and counters are
//! elsewhere. Start with [`Simulation::pass`].

use fwdlab_model::procedure::{Bursts, Stretch};
use fwdlab_model::units::FrameSize;

use super::queue::{Phase, Queue};
use super::random::Random;
use super::{NO_FRAME, Simulation};

/// Number of steps in which the capacity changes while the DUT starts.
const SLOW_START_STEPS: u64 = 50;

/// Forwarding rate of a DUT that has just been switched on, relative to its capacity.
const SLOW_START_FROM: f64 = 0.5;

/// A drifting capacity is treated as constant for this time.
const DRIFT_STEP_NS: u64 = 60_000_000_000;

/// Forwarding rate of a core that recovers from overload, relative to its capacity.
const RECOVERING: f64 = 0.1;

/// A load that changes is offered in steps of this length (docs/methodology.md, "Ramp").
const RAMP_STEP_NS: u64 = 100_000_000;

/// Stalls of the generator use their own random sequence, so that they do not change the DUT.
const STALLS: u64 = 0x7a1e_0f5e_4de2;

/// A part of a trial with constant load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    pub length_ns: u64,
    pub intended: u64,
    pub sent: u64,
}

/// The steps of a trial, and what to record.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrialSteps<'a> {
    pub steps: &'a [Step],
    /// Factor of the capacity in this trial.
    pub noise: f64,
    /// Capacity of a core.
    pub capacity_pps: f64,
    /// Frames arrive in bursts.
    pub bursts: Option<Bursts>,
    /// Record the counts at every multiple of this time.
    pub sample_ns: Option<u64>,
    /// Record the waits of frames that arrive at these times.
    pub tags_ns: &'a [u64],
    /// The DUT is reset at this time.
    pub reset_at_ns: Option<u64>,
    /// Record when more than this number of frames was lost.
    pub watch_lost: Option<u64>,
}

impl<'a> TrialSteps<'a> {
    /// Returns a course that records nothing.
    pub fn new(steps: &'a [Step]) -> TrialSteps<'a> {
        TrialSteps {
            steps,
            noise: 1.0,
            capacity_pps: 0.0,
            bursts: None,
            sample_ns: None,
            tags_ns: &[],
            reset_at_ns: None,
            watch_lost: None,
        }
    }
}

/// The result of a course.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Passed {
    pub lost_at_input: u64,
    pub longest_wait_s: f64,
    /// Frames sent and frames that had come out, at each recorded time.
    pub out: Vec<(f64, f64)>,
    /// Waits of the tagged frames, in seconds.
    pub waits_s: Vec<f64>,
    /// When the number of lost frames exceeded the watched one.
    pub watched_at_ns: Option<u64>,
    /// When the last frame was lost.
    pub last_lost_ns: Option<u64>,
}

/// A core with its queue.
struct Core {
    queue: Queue,
    arrived: u64,
    was_overloaded: bool,
    recovers_until_ns: u64,
}

impl Core {
    fn new(room: f64) -> Core {
        Core {
            queue: Queue::new(room),
            arrived: 0,
            was_overloaded: false,
            recovers_until_ns: 0,
        }
    }

    /// Returns the whole frames that it has lost.
    fn lost(&self) -> u64 {
        ((self.queue.overflow() + NO_FRAME) as u64).min(self.arrived)
    }
}

/// The condition of the DUT in a phase, the same for all cores.
#[derive(Debug, Clone, Copy)]
struct State {
    at_ns: u64,
    length_ns: u64,
    capacity_pps: f64,
    is_off: bool,
    is_stalled: bool,
}

impl Simulation {
    /// Converts the stretches to steps of constant load: what is due in each, and what the tester
    /// can send. Ends at `until_ns`.
    pub(super) fn steps(&self, stretches: &[Stretch], size: FrameSize, until_ns: u64) -> Vec<Step> {
        let whole = |frames: f64| frames.round().max(0.0) as u64;
        let mean = self.offer.mean.unwrap_or_else(|| size.into());
        let expected = 1.0 - self.offer.beside;
        let limit = self.dut.tester_limit_pps(mean).map(|pps| pps * expected);
        let (mut steps, mut due, mut can, mut left_ns) = (Vec::new(), 0.0, 0.0, until_ns);
        let mut holds = Random::new(self.dut.seed ^ STALLS, self.trials);
        for stretch in stretches {
            let is_constant = stretch.from_pps == stretch.to_pps;
            let piece_ns = if is_constant { u64::MAX } else { RAMP_STEP_NS };
            let mut at_ns = 0;
            while at_ns < stretch.duration_ns && left_ns > 0 {
                let length_ns = piece_ns.min(stretch.duration_ns - at_ns).min(left_ns);
                let part = Stretch {
                    duration_ns: length_ns,
                    from_pps: stretch.load_at(at_ns),
                    to_pps: stretch.load_at(at_ns + length_ns),
                };
                // round both alike: at the limit every due frame leaves
                let before = whole(due);
                due += part.frames() * expected;
                let intended = whole(due) - before;
                let sent = limit.map_or(intended, |pps| {
                    let before = whole(can);
                    can += pps * (length_ns as f64 / 1e9);
                    intended.min(whole(can) - before)
                });
                let sent = match self.dut.generator_stalls > 0.0
                    && holds.unit() <= self.dut.generator_stalls
                {
                    true => (sent as f64 * holds.unit()) as u64,
                    false => sent,
                };
                steps.push(Step {
                    length_ns,
                    intended,
                    sent,
                });
                at_ns += length_ns;
                left_ns -= length_ns;
            }
        }
        steps
    }

    /// Passes the steps through the cores.
    pub(super) fn pass(&mut self, progress: &TrialSteps<'_>, flows: u32) -> Passed {
        let mut passed = Passed {
            waits_s: vec![0.0; progress.tags_ns.len()],
            ..Passed::default()
        };
        let reset = progress.reset_at_ns.map(|off| {
            let on = off.saturating_add(self.dut.reboot.as_nanos() as u64);
            (off, on)
        });
        let room = self.dut.buffer_frames as f64;
        let mut cores: Vec<Core> = Vec::new();
        let (mut begin_ns, mut sent) = (0, 0.0);
        for step in progress.steps {
            let frames = self.frames_per_core(step.sent, flows);
            cores.resize_with(frames.len(), || Core::new(room));
            let end_ns = begin_ns + step.length_ns;
            let mut at_ns = begin_ns;
            for (core, frames) in cores.iter_mut().zip(&frames) {
                core.arrived += frames;
                let pps = *frames as f64 / (step.length_ns as f64 / 1e9);
                if core.was_overloaded && pps <= progress.capacity_pps * progress.noise {
                    core.was_overloaded = false;
                    core.recovers_until_ns = begin_ns + self.dut.recovery.as_nanos() as u64;
                }
            }
            while at_ns < end_ns {
                if reset.is_some_and(|(off, _)| off == at_ns) {
                    cores.iter_mut().for_each(|core| core.queue.flush());
                }
                let mut state = self.state(progress, at_ns, end_ns - at_ns, reset);
                let mut cut = |moment_ns: u64| {
                    if moment_ns > at_ns {
                        state.length_ns = state.length_ns.min(moment_ns - at_ns);
                    }
                };
                cores.iter().for_each(|core| cut(core.recovers_until_ns));
                reset.iter().for_each(|(off, on)| (cut(*off), cut(*on)).0);
                if let Some(sample) = progress.sample_ns {
                    cut((at_ns / sample + 1) * sample);
                }
                let until_ns = at_ns + state.length_ns;
                let all = cores.len();
                for (number, (core, &frames)) in cores.iter_mut().zip(&frames).enumerate() {
                    let place = (number, all);
                    self.pass_core(progress, &state, step, core, place, frames, &mut passed);
                }
                let watched = progress
                    .watch_lost
                    .filter(|_| passed.watched_at_ns.is_none());
                if watched.is_some_and(|most| cores.iter().map(Core::lost).sum::<u64>() > most) {
                    passed.watched_at_ns = Some(until_ns);
                }
                at_ns = until_ns;
                sent += step.sent as f64 * (state.length_ns as f64 / step.length_ns as f64);
                if progress
                    .sample_ns
                    .is_some_and(|sample| at_ns.is_multiple_of(sample))
                {
                    let kept = cores.iter().map(|c| c.queue.overflow() + c.queue.level());
                    passed.out.push((sent, sent - kept.sum::<f64>()));
                }
            }
            begin_ns = end_ns;
        }
        for core in &mut cores {
            // the frames in the queue come out at the end, if the DUT forwards anything
            if progress.capacity_pps * progress.noise == 0.0 {
                core.queue.flush();
            }
            passed.lost_at_input += core.lost();
            let stall_s = self.dut.stall.map_or(0.0, |s| s.length.as_secs_f64());
            let wait_s = core.queue.longest() / self.dut.capacity_pps.max(f64::MIN_POSITIVE);
            let wait_s = if wait_s > 0.0 { wait_s + stall_s } else { 0.0 };
            passed.longest_wait_s = passed.longest_wait_s.max(wait_s);
        }
        passed
    }

    /// Passes a phase through one core.
    #[expect(
        clippy::too_many_arguments,
        reason = "the phase, the core, and what to note"
    )]
    fn pass_core(
        &self,
        progress: &TrialSteps<'_>,
        state: &State,
        step: &Step,
        core: &mut Core,
        cores: (usize, usize),
        frames: u64,
        passed: &mut Passed,
    ) {
        let State {
            at_ns, length_ns, ..
        } = *state;
        let (until_ns, length_s) = (at_ns + length_ns, length_ns as f64 / 1e9);
        let arriving = frames as f64 * (length_ns as f64 / step.length_ns as f64);
        let lost_before = core.lost();
        if state.is_off {
            core.queue.lose(arriving);
        } else {
            let mut capacity = state.capacity_pps;
            let arriving_pps = frames as f64 / (step.length_ns as f64 / 1e9);
            let is_overloaded = arriving_pps > capacity;
            if self.dut.livelock > 0.0 && is_overloaded && capacity > 0.0 {
                capacity *= (1.0 - self.dut.livelock * (arriving_pps / capacity - 1.0)).max(0.0);
            }
            if let (Some(share), true) = (self.dut.collapse, is_overloaded) {
                capacity = capacity.min(share * arriving_pps);
            }
            if at_ns < core.recovers_until_ns {
                capacity *= RECOVERING;
            }
            if state.is_stalled {
                capacity = 0.0;
            }
            let phase = Phase {
                arriving,
                served: capacity * length_s,
            };
            self.note_waits(progress, state, core, cores, &phase, passed);
            if let Some(most) = progress.watch_lost
                && let Some(share) = core
                    .queue
                    .share_until_lost(&phase, most as f64 + 1.0 - NO_FRAME)
            {
                let at = at_ns + (share * length_ns as f64).ceil() as u64;
                passed.watched_at_ns = Some(passed.watched_at_ns.map_or(at, |known| known.min(at)));
            }
            match progress.bursts {
                None => core.queue.pass(&phase),
                // a phase begins with a burst
                Some(bursts) => {
                    let pps = step.sent as f64 / (step.length_ns as f64 / 1e9);
                    let count = pps * length_s / f64::from(bursts.frames);
                    core.queue.pass_bursts(&phase, count, pps / bursts.rate_pps);
                }
            }
            core.was_overloaded |= is_overloaded && core.lost() > lost_before;
        }
        if core.lost() > lost_before {
            passed.last_lost_ns = passed.last_lost_ns.max(Some(until_ns));
        }
    }

    /// Records the waits of the tagged frames of this core and phase: tags are assigned to the
    /// cores in turn.
    fn note_waits(
        &self,
        progress: &TrialSteps<'_>,
        state: &State,
        core: &Core,
        (number, cores): (usize, usize),
        phase: &Phase,
        passed: &mut Passed,
    ) {
        let until_ns = state.at_ns + state.length_ns;
        let first = progress.tags_ns.partition_point(|tag| *tag < state.at_ns);
        for (n, tag) in progress.tags_ns.iter().enumerate().skip(first) {
            if *tag >= until_ns {
                break;
            }
            if n % cores != number {
                continue;
            }
            let share = (tag - state.at_ns) as f64 / state.length_ns as f64;
            let rest_s = match state.is_stalled {
                true => (until_ns - tag) as f64 / 1e9,
                false => 0.0,
            };
            let queued = core.queue.level_at(phase, share);
            passed.waits_s[n] = queued / progress.capacity_pps.max(f64::MIN_POSITIVE) + rest_s;
        }
    }

    /// Returns the condition of the DUT at a time of the trial, and how long it lasts.
    fn state(
        &self,
        progress: &TrialSteps<'_>,
        at_ns: u64,
        longest_ns: u64,
        reset: Option<(u64, u64)>,
    ) -> State {
        let dut = &self.dut;
        let now = self.now_ns + at_ns;
        let mut length_ns = longest_ns;
        let mut capacity_pps = progress.capacity_pps * progress.noise;
        if dut.drift_per_hour != 0.0 {
            length_ns = length_ns.min(DRIFT_STEP_NS - now % DRIFT_STEP_NS);
            let hours = (now as f64 + length_ns as f64 / 2.0) / 3.6e12;
            capacity_pps *= (1.0 + dut.drift_per_hour * hours).max(0.0);
        }
        let slow_ns = dut.slow_start.as_nanos() as u64;
        let traffic = match reset {
            Some((_, on)) if at_ns >= on => at_ns - on,
            _ => self.traffic_ns + at_ns,
        };
        if traffic < slow_ns {
            let step = (slow_ns / SLOW_START_STEPS).max(1);
            length_ns = length_ns.min(step - traffic % step);
            let done = (traffic as f64 + length_ns as f64 / 2.0) / slow_ns as f64;
            capacity_pps *= SLOW_START_FROM + (1.0 - SLOW_START_FROM) * done.min(1.0);
        }
        let mut is_stalled = false;
        if let Some(stall) = dut.stall {
            let length = stall.length.as_nanos() as u64;
            let period = stall.period.as_nanos() as u64;
            // in the middle of its period
            let begin = (period - length) / 2;
            let place = now % period;
            is_stalled = (begin..begin + length).contains(&place);
            let until = match place {
                _ if is_stalled => begin + length - place,
                _ if place < begin => begin - place,
                _ => period - place + begin,
            };
            length_ns = length_ns.min(until);
        }
        State {
            at_ns,
            length_ns,
            capacity_pps,
            is_off: reset.is_some_and(|(off, on)| (off..on).contains(&at_ns)),
            is_stalled,
        }
    }
}
