//! A simulated DUT with its tester: a trial is arithmetic, its time is simulated, and a seed
//! determines everything.
//!
//! Procedures are tested with it, because the truth is known; it says nothing about real hardware,
//! and sends no frame. It is a fluid model of queues: frames arrive evenly, are served at the
//! current capacity, wait in a buffer, and are lost if it is full. Frames are whole numbers, and
//! sent = received + lost: due frames are rounded to the nearest integer, lost frames are rounded
//! down. Start with [`Dut`] (its properties) and [`Simulation::trial`]; [`Simulation::answer`]
//! answers the requests of procedures.

mod answer;
mod meters;
mod queue;
mod random;
mod spec;
mod steps;

use fwdlab_model::latency::Bucket;
use fwdlab_model::link::MeanSize;
use fwdlab_model::procedure::Stretch;
use fwdlab_model::units::FrameSize;

pub use self::meters::{Counting, Foreign, Port};
use self::random::Random;
pub use self::spec::{Burst, Cliff, Dut, DutError, KEYS, Losses, Stall};
use self::steps::{Passed, Step, TrialSteps};

/// Name of the engine and of its receiver in results.
pub const NAME: &str = "sim";

/// Entries of the table that maps hashes of flows to cores: the minimum of network cards.
const INDIRECTION: u64 = 128;

/// Rounding may leave a fraction this small where there is no frame.
const NO_FRAME: f64 = 1e-6;

/// Parameters of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Intended load in frames per second.
    pub load_pps: f64,
    /// Duration of sending, in nanoseconds of simulated time.
    pub duration_ns: u64,
    /// Frame size; it decides the line rate.
    pub frame_size: FrameSize,
    /// Number of flows; every flow is sent equally often.
    pub flows: u32,
}

/// The frames of trials, if they have several sizes or are not all expected back.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Offer {
    /// Their mean size; `None` is the requested size.
    pub mean: Option<MeanSize>,
    /// Share of frames that a router does not forward. They use the tester's link and cost the DUT
    /// nothing.
    pub beside: f64,
}

/// The counts of a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Intended frames: load × duration.
    pub intended: u64,
    /// Frames that the generator sent.
    pub sent: u64,
    /// Frames that came back.
    pub received: u64,
    /// Frames dropped because the buffer of their core was full.
    pub lost_at_input: u64,
    /// Frames lost inside, at random or in a burst.
    pub lost_inside: u64,
    /// Smallest latency of the trial, in nanoseconds.
    pub latency_min_ns: u64,
    /// Largest latency of the trial, in nanoseconds.
    pub latency_max_ns: u64,
}

impl Counts {
    /// Returns the frames that should have been sent and were not.
    pub fn not_sent(&self) -> u64 {
        self.intended - self.sent
    }

    /// Returns the frames that were sent and did not come back.
    pub fn lost(&self) -> u64 {
        self.sent - self.received
    }
}

/// A simulated DUT with its clock, which starts when this is created.
#[derive(Debug, Clone)]
pub struct Simulation {
    dut: Dut,
    now_ns: u64,
    /// The part of `now_ns` in which it forwarded traffic.
    traffic_ns: u64,
    trials: u64,
    /// The core of each flow, for the last number of flows.
    spread: Vec<u32>,
    offer: Offer,
    /// 1 on the way back: random losses there are independent of those on the way there.
    way: u64,
    /// Delays of the tagged frames of the last requested trial, for each direction.
    latencies: Vec<Vec<Bucket>>,
}

impl Simulation {
    /// Switches the DUT on.
    pub fn new(dut: Dut) -> Simulation {
        Simulation {
            dut,
            now_ns: 0,
            traffic_ns: 0,
            trials: 0,
            spread: Vec::new(),
            offer: Offer::default(),
            way: 0,
            latencies: Vec::new(),
        }
    }

    /// Sets the frames of later trials.
    pub fn offer(&mut self, offer: Offer) {
        self.offer = offer;
    }

    /// Sets the number of cores for later trials.
    pub fn set_cores(&mut self, cores: u32) {
        if self.dut.cores != cores.max(1) {
            self.dut.cores = cores.max(1);
            self.spread.clear();
        }
    }

    /// Returns the simulated DUT.
    pub fn dut(&self) -> &Dut {
        &self.dut
    }

    /// Returns the delays of the tagged frames of the last request, in ascending buckets, for each
    /// direction.
    pub fn latencies(&self) -> &[Vec<Bucket>] {
        &self.latencies
    }

    /// Returns the simulated time since it was switched on, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Lets simulated time pass without traffic.
    pub fn wait(&mut self, duration_ns: u64) {
        self.now_ns += duration_ns;
    }

    /// Runs a trial. Frames in the buffers at its end come out: the next trial finds them empty.
    pub fn trial(&mut self, trial: &Trial) -> Counts {
        let whole = Stretch::constant(trial.load_pps, trial.duration_ns);
        let steps = self.steps(&[whole], trial.frame_size, u64::MAX);
        self.trials += 1;
        let mut random = Random::new(self.dut.seed, self.trials);
        let progress = TrialSteps {
            noise: (1.0 + self.dut.noise * random.normal()).max(0.0),
            capacity_pps: self.dut.capacity_pps,
            ..TrialSteps::new(&steps)
        };
        let passed = self.pass(&progress, trial.flows);
        let counts = self.counts(&steps, &passed, &mut random);
        self.now_ns += trial.duration_ns;
        self.traffic_ns += trial.duration_ns;
        counts
    }

    /// Returns the counts of these steps: frames that found a full buffer, and frames lost by
    /// chance.
    fn counts(&self, steps: &[Step], passed: &Passed, random: &mut Random) -> Counts {
        let sent: u64 = steps.iter().map(|step| step.sent).sum();
        let into_dut = sent - passed.lost_at_input.min(sent);
        let mut lost_inside = random.binomial(into_dut, self.dut.loss_ratio);
        if let Some(burst) = self.dut.burst
            && self.trials.is_multiple_of(u64::from(burst.every_trials))
        {
            lost_inside += burst.frames;
        }
        if let Some(every) = self.dut.drop_every {
            lost_inside += into_dut / every;
        }
        lost_inside += (into_dut as f64 * self.dut.loss_share + NO_FRAME) as u64;
        let here = self.dut.losses.iter().find(|one| one.trial == self.trials);
        if let Some(losses) = here {
            lost_inside = lost_inside.saturating_add(losses.frames.unwrap_or(into_dut));
        }
        let lost_inside = lost_inside.min(into_dut);
        let latency_ns = self.dut.latency.as_nanos() as u64;
        Counts {
            intended: steps.iter().map(|step| step.intended).sum(),
            sent,
            received: into_dut - lost_inside,
            lost_at_input: sent - into_dut,
            lost_inside,
            latency_min_ns: latency_ns,
            latency_max_ns: latency_ns + (passed.longest_wait_s * 1e9) as u64,
        }
    }

    /// Returns the number of frames for each core.
    fn frames_per_core(&mut self, sent: u64, flows: u32) -> Vec<u64> {
        let cores = self.dut.cores;
        if cores == 1 || flows == 0 {
            return vec![sent];
        }
        if self.spread.len() != flows as usize {
            self.spread = (0..u64::from(flows))
                .map(|flow| {
                    let hash = Random::new(self.dut.seed, !flow).next_u64();
                    (hash % INDIRECTION % u64::from(cores)) as u32
                })
                .collect();
        }
        // every flow in turn: the first ones send one frame more than the others
        let (each, rest) = (sent / u64::from(flows), sent % u64::from(flows));
        let mut frames = vec![0; cores as usize];
        for (flow, &core) in (0..).zip(&self.spread) {
            frames[core as usize] += each + u64::from(flow < rest);
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn simulation(text: &str) -> Simulation {
        Simulation::new(text.parse().unwrap())
    }

    fn trial(load_pps: f64, duration_ns: u64, flows: u32) -> Trial {
        Trial {
            load_pps,
            duration_ns,
            frame_size: FrameSize::MIN,
            flows,
        }
    }

    fn second(dut: &str, load_pps: f64) -> Counts {
        simulation(dut).trial(&trial(load_pps, SECOND, 2000))
    }

    #[test]
    fn it_forwards_its_capacity_and_what_the_buffer_holds() {
        assert_eq!(second("capacity=1e6", 1e6).lost(), 0);
        assert_eq!(second("capacity=1e6", 1_000_001.0).lost(), 1);
        assert_eq!(second("capacity=1e6", 2e6).received, 1_000_000);
        // the buffer lets a short trial pass: 1000 frames hide an excess of 1000 frames per second
        assert_eq!(second("capacity=1e6,buffer=1000", 1_001_000.0).lost(), 0);
        assert_eq!(second("capacity=1e6,buffer=1000", 1_001_001.0).lost(), 1);
        let mut minute = simulation("capacity=1e6,buffer=1000");
        let counts = minute.trial(&trial(1_001_000.0, 60 * SECOND, 1));
        assert_eq!(counts.lost(), 59_000);
        // and the next one finds the buffer empty again
        assert_eq!(minute.trial(&trial(1_001_000.0, SECOND, 1)).lost(), 0);
    }

    #[test]
    fn overload_costs_what_the_livelock_parameter_says() {
        // at twice the load 30 % of the capacity is lost; at 4.4 times, all of it
        assert_eq!(second("capacity=1e6,livelock=0.3", 2e6).received, 700_000);
        assert_eq!(second("capacity=1e6,livelock=0.3", 1e6).received, 1_000_000);
        assert_eq!(second("capacity=1e6,livelock=0.3", 4.4e6).received, 0);
    }

    #[test]
    fn a_generator_at_its_limit_sends_less_than_intended() {
        let counts = second("capacity=1e6,generator=1.5Mpps", 2e6);
        assert_eq!((counts.sent, counts.not_sent()), (1_500_000, 500_000));
        // 64-byte frames fill 1 Gbit/s at 1488095 per second (RFC 2544)
        let counts = second("capacity=9e6,link=1Gbps", 2e6);
        assert_eq!(counts.sent, 1_488_095);
    }

    #[test]
    fn a_tester_that_stalls_sends_a_part() {
        let mut stalled = simulation("capacity=9e6,generator-stalls=30%");
        let sent: Vec<u64> = (0..2000)
            .map(|_| stalled.trial(&trial(1e6, SECOND, 1)).sent)
            .collect();
        // 600 of 2,000 trials, binomial with a spread of 20; half of the frames on average
        let short: Vec<f64> = (sent.iter().filter(|sent| **sent < 1_000_000))
            .map(|sent| *sent as f64)
            .collect();
        assert!((520..680).contains(&short.len()), "{}", short.len());
        let mean = short.iter().sum::<f64>() / short.len() as f64;
        assert!((450e3..550e3).contains(&mean), "{mean}");
    }

    #[test]
    fn one_flow_uses_one_core_and_many_use_all() {
        let mut four = simulation("capacity=1e6,cores=4");
        let one = four.trial(&trial(5e6, SECOND, 1));
        assert_eq!(one.received, 1_000_000);
        let many = four.trial(&trial(5e6, SECOND, 20_000));
        assert_eq!(many.received, 4_000_000);
        // the fullest core loses first, so that spreading by hash costs part of the capacity
        let mut lossless = |load| four.trial(&trial(load, SECOND, 2000)).lost() == 0;
        assert!(lossless(3.5e6) && !lossless(4e6));
    }

    #[test]
    fn a_stall_is_outlived_by_a_buffer_that_holds_its_frames() {
        // 20 ms at half a million frames per second are 10000 frames
        assert_eq!(
            second("capacity=1e6,stall=20ms/1s,buffer=10000", 5e5).lost(),
            0
        );
        assert_eq!(
            second("capacity=1e6,stall=20ms/1s,buffer=9000", 5e5).lost(),
            1000
        );
        // and takes its share of the capacity in overload
        assert_eq!(second("capacity=1e6,stall=20ms/1s", 2e6).received, 980_000);
    }

    #[test]
    fn it_warms_up_and_it_drifts() {
        let mut slow = simulation("capacity=1e6,slow-start=2s");
        let rates: Vec<u64> = (0..4)
            .map(|_| slow.trial(&trial(2e6, SECOND, 1)).received)
            .collect();
        // from half of the capacity, linearly: 5/8 and 7/8 in the first two seconds
        assert_eq!(rates, [625_000, 875_000, 1_000_000, 1_000_000]);

        let mut drifting = simulation("capacity=1e6,drift=-1%/h");
        drifting.wait(3600 * SECOND);
        let counts = drifting.trial(&trial(2e6, 120 * SECOND, 1));
        // the mean of the two minutes is the value at their middle: one minute into the second hour
        let rate = 1e6 * (1.0 - 0.01 * 61.0 / 60.0) * 120.0;
        assert!((counts.received as f64 - rate).abs() <= 1.0, "{counts:?}");
    }

    #[test]
    fn noise_has_the_specified_size() {
        let mut noisy = simulation("capacity=1e6,noise=0.01,seed=3");
        let rates: Vec<f64> = (0..2000)
            .map(|_| noisy.trial(&trial(2e6, SECOND, 1)).received as f64)
            .collect();
        let mean = rates.iter().sum::<f64>() / 2000.0;
        let variance = rates.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / 1999.0;
        // four standard errors of mean and deviation
        assert!((mean - 1e6).abs() < 4.0 * 1e4 / 2000f64.sqrt(), "{mean}");
        assert!((variance.sqrt() / 1e4 - 1.0).abs() < 4.0 / 4000f64.sqrt());

        for (ratio, trials) in [(1e-6, 1000), (1e-3, 100), (0.2, 10)] {
            let mut lossy = simulation(&format!("capacity=1e6,loss={ratio}"));
            let lost: u64 = (0..trials)
                .map(|_| lossy.trial(&trial(1e6, SECOND, 1)).lost())
                .sum();
            let expect = ratio * 1e6 * f64::from(trials);
            let deviation = (expect * (1.0 - ratio)).sqrt();
            assert!(
                (lost as f64 - expect).abs() < 5.0 * deviation,
                "{ratio}: {lost}"
            );
        }

        let mut bursts = simulation("capacity=1e6,burst=7/3");
        let lost: Vec<u64> = (0..6)
            .map(|_| bursts.trial(&trial(1e5, SECOND, 1)).lost())
            .collect();
        assert_eq!(lost, [0, 0, 7, 0, 0, 7]);
    }

    #[test]
    fn faults_occur_at_the_specified_times_and_sizes() {
        let lost = |dut: &str, loads: &[f64]| -> Vec<u64> {
            let mut device = simulation(dut);
            let each = loads.iter().map(|load| {
                let counts = device.trial(&trial(*load, SECOND, 1));
                assert_eq!(counts.sent, counts.received + counts.lost());
                counts.lost()
            });
            each.collect()
        };
        // by the number of the trial
        let five = [1e5; 5];
        assert_eq!(
            lost("capacity=1e6,losses=7@2+all@4", &five),
            [0, 7, 0, 100_000, 0]
        );
        // and in addition to others; never more than were sent
        assert_eq!(
            lost("capacity=1e6,burst=3/2,losses=7@2+1000000@3", &five),
            [0, 10, 100_000, 3, 0]
        );
        // always the same share, rounded down
        assert_eq!(
            lost("capacity=1e6,loss-share=0.1%", &[1e5, 1e5, 1999.0, 999.0]),
            [100, 100, 1, 0]
        );
        assert_eq!(lost("capacity=1e6,loss-share=1", &[1e5]), [100_000]);
        // above the capacity only a share of the sent frames comes out, at most the capacity
        assert_eq!(
            lost("capacity=1e6,collapse=30%", &[1e6, 1.1e6, 2e6, 5e6]),
            [0, 770_000, 1_400_000, 4_000_000]
        );
        assert_eq!(
            lost("capacity=1e6,collapse=0", &[1e6, 1.1e6]),
            [0, 1_100_000]
        );
        // it forwards nothing, and the queue never comes out
        assert_eq!(lost("capacity=0", &[1.0, 1e6]), [1, 1_000_000]);
        assert_eq!(
            lost("capacity=0,buffer=500", &[100.0, 1e6]),
            [100, 1_000_000]
        );
        // the fraction of an excess frame is not a loss
        assert_eq!(lost("capacity=1e6,loss-share=0", &[1_000_000.9]), [1]);
        assert_eq!(lost("capacity=1000000.1", &[1_000_001.0]), [0]);
    }

    /// RFC 9004 requires bursts of a single frame; at 10 Gbit/s it takes 67.2 ns, and a trial lasts
    /// whole nanoseconds.
    #[test]
    fn at_its_limit_the_tester_sends_every_frame_that_is_due() {
        for (size, pps) in [
            (64, 1e10 / 672.0),
            (128, 1e10 / 1184.0),
            (1518, 1e10 / 12304.0),
        ] {
            for frames in [1u64, 2, 3, 100, 12_345, 1_000_000] {
                let ns = (frames as f64 / pps * 1e9).round() as u64;
                let counts = simulation("capacity=1e9,link=10Gbps").trial(&Trial {
                    frame_size: FrameSize::new(size).unwrap(),
                    ..trial(pps, ns, 1)
                });
                assert_eq!((counts.intended, counts.sent), (frames, frames), "{size}");
            }
        }
        // above it the load is cut to the exact frame
        let counts = second("capacity=1e9,link=10Gbps", 2e7);
        assert_eq!((counts.intended, counts.sent), (20_000_000, 14_880_952));
    }

    #[test]
    fn waiting_takes_time() {
        let counts = second("capacity=1e6,latency=20us,buffer=1000", 5e5);
        assert_eq!(
            (counts.latency_min_ns, counts.latency_max_ns),
            (20_000, 20_000)
        );
        let counts = second("capacity=1e6,latency=20us,buffer=1000", 2e6);
        assert_eq!(counts.latency_max_ns, 1_020_000);
    }

    /// Shapes of every kind, alone and together.
    fn shapes() -> impl Strategy<Value = String> {
        let of = |texts: &'static [&'static str]| prop::sample::select(texts);
        (
            of(&[
                "capacity=1e6",
                "capacity=123456.7",
                "capacity=50",
                "capacity=0",
                "capacity=14.88Mpps",
            ]),
            of(&["", ",buffer=1", ",buffer=1000", ",buffer=1000000"]),
            of(&["", ",livelock=0.3", ",livelock=5", ",collapse=0.4"]),
            of(&[
                "",
                ",loss=1e-6",
                ",loss=0.3",
                ",burst=99/2",
                ",losses=5@1+all@2",
                ",loss-share=0.7",
            ]),
            of(&["", ",noise=0.01", ",noise=1"]),
            of(&["", ",drift=-1%/h", ",drift=200%/h"]),
            of(&["", ",slow-start=2s", ",stall=20ms/1s", ",stall=1ms/7ms"]),
            of(&["", ",generator=700kpps", ",link=1Gbps"]),
            of(&["", ",cores=4", ",cores=7"]),
            0u64..1000,
        )
            .prop_map(|(a, b, c, d, e, f, g, h, i, seed)| {
                format!("{a}{b}{c}{d}{e}{f}{g}{h}{i},seed={seed}")
            })
    }

    fn questions() -> impl Strategy<Value = Vec<Trial>> {
        let one = (
            prop_oneof![1.0..100.0, 1e3..1e5, 1e5..2e7f64],
            1_000_000..90 * SECOND,
            1u32..5000,
        );
        let one = one.prop_map(|(load, duration, flows)| trial(load, duration, flows));
        prop::collection::vec(one, 1..5)
    }

    proptest! {
        #[test]
        fn every_frame_has_a_fate(dut in shapes(), questions in questions()) {
            let mut device = simulation(&dut);
            let capacity = device.dut().capacity_pps;
            let plain = !dut.contains("noise") && !dut.contains("drift=2");
            for question in &questions {
                let counts = device.trial(question);
                prop_assert_eq!(counts.sent, counts.received + counts.lost());
                prop_assert_eq!(counts.lost(), counts.lost_at_input + counts.lost_inside);
                prop_assert_eq!(counts.intended, counts.sent + counts.not_sent());
                let seconds = question.duration_ns as f64 / 1e9;
                prop_assert_eq!(counts.intended, (question.load_pps * seconds).round() as u64);
                let cores = u64::from(device.dut().cores);
                let most = (capacity * seconds) as u64 + device.dut().buffer_frames + 1;
                prop_assert!(!plain || counts.received <= most * cores, "{counts:?}");
                prop_assert!(!plain || question.flows > 1 || counts.received <= most, "{counts:?}");
                prop_assert!(counts.latency_min_ns <= counts.latency_max_ns);
            }
        }

        #[test]
        fn one_seed_gives_one_sequence_of_events(dut in shapes(), questions in questions()) {
            let (mut one, mut other) = (simulation(&dut), simulation(&dut));
            for question in &questions {
                prop_assert_eq!(one.trial(question), other.trial(question));
            }
            prop_assert_eq!(one.now_ns(), questions.iter().map(|q| q.duration_ns).sum::<u64>());
        }

        #[test]
        fn more_load_is_never_less_loss(buffer in 0u64..5000, load in 1.0..5e6f64, more in 0.0..1e6f64) {
            let dut = format!("capacity=1e6,buffer={buffer},stall=3ms/1s,livelock=0.1");
            prop_assert!(second(&dut, load).lost() <= second(&dut, load + more).lost());
        }
    }
}
