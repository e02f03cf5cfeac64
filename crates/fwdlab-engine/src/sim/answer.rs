//! Answers the requests of procedures: trials of any shape, with samples, delays, losses in time,
//! and an early end.
//!
//! [`super::steps`] simulates the queues; this file turns the result into what a tester would see.
//! Start with [`Simulation::answer`].

use fwdlab_model::latency::{Bucket, exact_buckets};
use fwdlab_model::procedure::{
    Answer, Delays, Ending, Interval, Outage, Question, base_pps, recovered_at, regained_at,
};

use super::random::Random;
use super::steps::{Passed, Step, TrialSteps};
use super::{Counts, Dut, Simulation};

/// An early end is noticed at multiples of this time.
const NOTICED_NS: u64 = 10_000_000;

/// Up to this number, each frame lost by chance has its own moment; beyond, they are grouped.
const MOMENTS: u64 = 1000;

/// Separates the random sequence of the way back from that of the way there.
const WAY_BACK: u64 = 0x5bd1_e995_1b87_3593;

/// Times of random losses, and how many frames were lost then.
type Moments = Vec<(u64, u64)>;

impl Simulation {
    /// Runs the requested trial, with this number of flows.
    pub fn answer(&mut self, question: &Question, flows: u32) -> (Answer, Counts) {
        self.wait(question.waits.learn_ns);
        self.trials += 1;
        let mut random = Random::new(self.dut.seed, self.trials);
        let noise = (1.0 + self.dut.noise * random.normal()).max(0.0);
        if self.way > 0 {
            random = Random::new(self.dut.seed ^ WAY_BACK, self.trials);
        }
        // what plain trials do not need uses a separate random sequence, so that their results do
        // not change
        let mut further = Random::new(self.dut.seed ^ (self.way * WAY_BACK), !self.trials);

        let steps = self.steps(&question.stretches, question.frame_size_bytes, u64::MAX);
        let tags_ns = tags(question);
        let mut progress = TrialSteps {
            noise,
            capacity_pps: self.dut.capacity_with(question.setting.unwrap_or(0)),
            bursts: question.bursts,
            sample_ns: question.sample_ns,
            tags_ns: &tags_ns,
            reset_at_ns: question.reset_at_ns,
            watch_lost: match question.ending {
                Some(Ending::Lost { frames }) => Some(frames),
                _ => None,
            },
            ..TrialSteps::new(&steps)
        };
        let mut passed = self.pass(&progress, flows);
        let mut counts = self.counts(&steps, &passed, &mut random);
        let mut moments = moments(&steps, &passed, question, counts.lost_inside, &mut further);
        let mut duration_ns = question.duration_ns();
        let mut samples = samples(question, &passed, &moments);

        let end_ns = self.end(question, &counts, &passed, &moments, &samples);
        let shorter;
        if let Some(end_ns) = end_ns.filter(|end| *end < duration_ns) {
            duration_ns = end_ns;
            shorter = self.steps(&question.stretches, question.frame_size_bytes, end_ns);
            progress.steps = &shorter;
            passed = self.pass(&progress, flows);
            moments.retain(|(at_ns, _)| *at_ns <= end_ns);
            samples.retain(|sample| sample.at_ns + sample.length_ns <= end_ns);
            let sent = shorter.iter().map(|step| step.sent).sum();
            let lost_at_input = passed.lost_at_input.min(sent);
            let lost_inside = moments.iter().map(|(_, frames)| frames).sum::<u64>();
            let lost_inside = lost_inside.min(sent - lost_at_input);
            counts = Counts {
                intended: shorter.iter().map(|step| step.intended).sum(),
                sent,
                received: sent - lost_at_input - lost_inside,
                lost_at_input,
                lost_inside,
                ..counts
            };
        }
        let last_lost_ns = moments.iter().map(|(at_ns, _)| *at_ns).max();
        let last_lost_ns = last_lost_ns.max(passed.last_lost_ns);
        let back_ns = question
            .reset_at_ns
            .map(|at| at.saturating_add(self.dut.reboot.as_nanos() as u64));
        let flaps = self.dut.flap;
        let delays_ns = self.delays(&tags_ns, duration_ns, &passed, &mut further);
        let mean_ns = delays_ns.iter().sum::<u64>() as f64 / delays_ns.len().max(1) as f64;
        let times = exact_buckets(delays_ns);
        let ends = |bucket: Option<&Bucket>| bucket.map_or(0, |b| b.low);
        let (min_ns, max_ns) = (ends(times.first()), ends(times.last()));
        let answer = Answer {
            frames_intended: counts.intended,
            frames_sent: counts.sent,
            frames_received: counts.received,
            duration_ns,
            took_ns: duration_ns + question.waits.total_ns(),
            ended_early: duration_ns < question.duration_ns(),
            samples,
            delays: Delays::from_buckets(&times, min_ns, max_ns, mean_ns),
            last_lost_ns: last_lost_ns.filter(|_| question.locate_loss),
            reset_at_ns: question.reset_at_ns,
            outage: question.reset_at_ns.map(|last_before_ns| Outage {
                last_before_ns,
                first_after_ns: back_ns.filter(|back| *back < duration_ns),
            }),
            resolution_ns: (question.locate_loss || question.reset_at_ns.is_some())
                .then(|| (1e9 / question.peak_pps().max(1.0)).ceil() as u64),
            objections: flaps
                .filter(|trials| self.trials.is_multiple_of(u64::from(*trials)))
                .map(|_| "the link of the DUT's input went down".to_owned())
                .into_iter()
                .collect(),
            ..Answer::default()
        };
        self.latencies = vec![times];
        self.traffic_ns = match back_ns {
            Some(back_ns) => duration_ns.saturating_sub(back_ns),
            None => self.traffic_ns + duration_ns,
        };
        self.now_ns += duration_ns;
        self.wait(question.waits.drain_ns + question.waits.settle_ns);
        (answer, counts)
    }

    /// Runs the requested trial in both directions at once, each with that load: there and back.
    ///
    /// They share the DUT: each gets half of its capacity, of its buffers and of the tester's
    /// limit, because their frames alternate. Each has its own line.
    pub fn answer_both_ways(&mut self, question: &Question, flows: u32) -> [(Answer, Counts); 2] {
        let whole = &self.dut;
        let half = |way: u64| Dut {
            capacity_pps: whole.capacity_pps / 2.0,
            cost: whole.cost * 2,
            buffer_frames: (whole.buffer_frames + 1 - way) / 2,
            generator_pps: whole.generator_pps.map(|pps| pps / 2.0),
            ..whole.clone()
        };
        let mut after = [0, 1].map(|way| Simulation {
            dut: half(way),
            way,
            ..self.clone()
        });
        let answers = after
            .each_mut()
            .map(|simulation| simulation.answer(question, flows));
        self.latencies = after
            .iter_mut()
            .flat_map(|simulation| std::mem::take(&mut simulation.latencies))
            .collect();
        let last = after.iter().max_by_key(|simulation| simulation.now_ns);
        if let Some(last) = last {
            (self.now_ns, self.traffic_ns, self.trials) =
                (last.now_ns, last.traffic_ns, last.trials);
        }
        answers
    }

    /// Returns when the trial may end, as noticed by a tester that checks periodically.
    fn end(
        &self,
        question: &Question,
        counts: &Counts,
        passed: &Passed,
        moments: &Moments,
        samples: &[Interval],
    ) -> Option<u64> {
        let at_ns = match question.ending? {
            Ending::Lost { frames } if counts.lost() > frames => {
                let mut lost = 0;
                let by_chance = moments.iter().find(|(_, more)| {
                    lost += more;
                    lost > frames
                });
                let at_ns = by_chance.map(|(at_ns, _)| *at_ns);
                [at_ns, passed.watched_at_ns].into_iter().flatten().min()?
            }
            Ending::Lost { .. } => return None,
            Ending::Recovered { share, for_ns } => {
                let back = question.reset_at_ns? + self.dut.reboot.as_nanos() as u64;
                recovered_at(samples, back, share, for_ns)?
            }
            Ending::Regained { share, for_ns } => {
                let event_ns = question.reset_at_ns?;
                let base = base_pps(samples, event_ns)?;
                regained_at(samples, event_ns, event_ns, base, share, for_ns)? + for_ns
            }
        };
        Some(at_ns.div_ceil(NOTICED_NS).max(1) * NOTICED_NS)
    }

    fn delays(
        &self,
        tags_ns: &[u64],
        duration_ns: u64,
        passed: &Passed,
        random: &mut Random,
    ) -> Vec<u64> {
        let sent = tags_ns.iter().take_while(|tag| **tag < duration_ns);
        let jitter = self.dut.jitter.as_nanos() as f64;
        let latency = self.dut.latency.as_nanos() as f64;
        sent.zip(&passed.waits_s)
            .map(|(_, wait_s)| {
                let longer = if jitter > 0.0 {
                    -random.unit().ln() * jitter
                } else {
                    0.0
                };
                (latency + longer + wait_s * 1e9).round() as u64
            })
            .collect()
    }
}

/// Returns the times of the tagged frames, each in the middle of its share of the time.
fn tags(question: &Question) -> Vec<u64> {
    let Some(tagging) = question.tagging else {
        return Vec::new();
    };
    let span = tagging.until_ns.saturating_sub(tagging.from_ns) as f64;
    (0..tagging.frames)
        .map(|n| {
            let share = (f64::from(n) + 0.5) / f64::from(tagging.frames);
            tagging.from_ns + (span * share) as u64
        })
        .collect()
}

/// Returns when frames were lost by chance: few of them at random, many evenly, in proportion to
/// what came out.
fn moments(
    steps: &[Step],
    passed: &Passed,
    question: &Question,
    lost: u64,
    random: &mut Random,
) -> Moments {
    // frames that had come out over time: at the samples if there are any, otherwise as they were
    // sent
    let mut curve = vec![(0u64, 0.0)];
    match question.sample_ns {
        Some(length_ns) if !passed.out.is_empty() => {
            curve.extend(
                (1..)
                    .zip(&passed.out)
                    .map(|(k, (_, out))| (k * length_ns, *out)),
            );
        }
        _ => {
            let (mut at_ns, mut sent) = (0, 0.0);
            curve.extend(steps.iter().map(|step| {
                at_ns += step.length_ns;
                sent += step.sent as f64;
                (at_ns, sent)
            }));
        }
    }
    let all = curve.last().map_or(0.0, |(_, frames)| *frames);
    let at = |frame: f64| {
        let next = curve.partition_point(|(_, frames)| *frames <= frame);
        let next = next.clamp(1, curve.len() - 1);
        let ((from_ns, from), (to_ns, to)) = (curve[next - 1], curve[next]);
        let share = ((frame - from) / (to - from).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        from_ns + (share * (to_ns - from_ns) as f64) as u64
    };
    if lost <= MOMENTS {
        let mut moments: Moments = (0..lost).map(|_| (at(random.unit() * all), 1)).collect();
        moments.sort_unstable();
        return moments;
    }
    let portions = MOMENTS.max(curve.len() as u64);
    let portion = |n: u64| (lost as f64 * (n as f64 / portions as f64)).round() as u64;
    let mut moments: Moments = match question.sample_ns {
        // exactly each interval's share
        Some(_) => curve
            .windows(2)
            .map(|pair| {
                let until = |frames: f64| (lost as f64 * frames / all.max(1.0)).round() as u64;
                (pair[1].0 - 1, until(pair[1].1) - until(pair[0].1))
            })
            .collect(),
        None => (0..portions)
            .map(|n| {
                let middle = all * (n as f64 + 0.5) / portions as f64;
                (at(middle), portion(n + 1) - portion(n))
            })
            .collect(),
    };
    moments.retain(|(_, frames)| *frames > 0);
    moments
}

/// Returns counts over time. A frame that waits in a buffer at the end of an interval comes out in
/// the next.
fn samples(question: &Question, passed: &Passed, moments: &Moments) -> Vec<Interval> {
    let Some(length_ns) = question.sample_ns else {
        return Vec::new();
    };
    let whole = |frames: f64| (frames + 1e-6).max(0.0) as u64;
    let mut moments = moments.iter().peekable();
    let (mut sent, mut out, mut due) = (0, 0, 0);
    passed
        .out
        .iter()
        .zip(0u64..)
        .map(|((sent_now, out_now), k)| {
            let at_ns = k * length_ns;
            while let Some((_, frames)) = moments.next_if(|(at, _)| *at < at_ns + length_ns) {
                due += frames;
            }
            let (sent_now, out_now) = (whole(*sent_now), whole(*out_now));
            let returned: u64 = out_now - out;
            let lost = returned.min(due);
            due -= lost;
            let interval = Interval {
                at_ns,
                length_ns,
                intended_load_pps: question.load_at(at_ns + length_ns / 2),
                frames_sent: sent_now - sent,
                frames_received: returned - lost,
            };
            (sent, out) = (sent_now, out_now);
            interval
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use fwdlab_model::procedure::{Bursts, Purpose, Stretch, Tagging};
    use fwdlab_model::units::FrameSize;
    use proptest::prelude::*;

    use super::super::{Offer, Trial};
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn simulation(text: &str) -> Simulation {
        Simulation::new(text.parse().unwrap())
    }

    fn question(load_pps: f64, seconds: u64) -> Question {
        Question::constant(
            FrameSize::MIN,
            load_pps,
            seconds * SECOND,
            Purpose::Measure,
            "",
        )
    }

    #[test]
    fn two_directions_share_the_dut() {
        for (load, passes) in [(5e5, true), (5.001e5, true), (5.2e5, false)] {
            let mut dut = simulation("capacity=1e6,buffer=1000,link=10Gbps");
            let both = dut.answer_both_ways(&question(load, 1), 2000);
            for (answer, counts) in &both {
                assert_eq!(counts.intended, load as u64);
                assert_eq!(answer.frames_lost() == 0, passes, "{load}: {answer:?}");
            }
            assert_eq!(dut.now_ns(), SECOND);
        }
        // together they forward the DUT's capacity, and its buffer counts once
        let both = simulation("capacity=1e6,buffer=1001").answer_both_ways(&question(1e6, 1), 1);
        let received: u64 = both.iter().map(|(answer, _)| answer.frames_received).sum();
        assert_eq!(received, 1_001_001);
        // random losses of the two directions are independent, and repeat with the same seed
        let lossy =
            || simulation("capacity=1e7,loss=1e-3,seed=3").answer_both_ways(&question(1e6, 1), 1);
        let [there, back] = lossy().map(|(answer, _)| answer.frames_received);
        assert_ne!(there, back);
        assert_eq!(
            lossy().map(|(answer, _)| answer.frames_received),
            [there, back]
        );
    }

    /// 1024 frames at 10 Mpps take 102.4 us, in which a DUT of 1 Mpps forwards a tenth of them.
    #[test]
    fn a_buffer_feels_bursts() {
        let lost = |dut: &str, gap_us: f64| {
            let bursts = Bursts {
                frames: 1024,
                rate_pps: 1e7,
            };
            let mut requested = question(bursts.load_pps(gap_us * 1e3), 1);
            requested.bursts = Some(bursts);
            let (answer, counts) = simulation(dut).answer(&requested, 1);
            assert_eq!(counts.sent, counts.received + counts.lost());
            (
                answer.frames_lost() as f64,
                answer.frames_sent as f64 / 1024.0,
            )
        };
        // it holds what was not forwarded during a burst, if it was empty before
        assert_eq!(lost("capacity=1e6,buffer=922", 1000.0).0, 0.0);
        let (frames, bursts) = lost("capacity=1e6,buffer=900", 1000.0);
        assert!((frames / bursts - 21.6).abs() < 0.1, "{frames} in {bursts}");
        // 1024 frames take 1024 us: 102.3 of them pass during the burst
        assert_eq!(lost("capacity=1e6,buffer=1000", 922.0).0, 0.0);
        assert!(lost("capacity=1e6,buffer=1000", 900.0).0 > 0.0);
        // the same load without bursts passes with hardly any buffer
        let mut even = question(1024.0 / 1.1e-3, 1);
        even.bursts = None;
        assert_eq!(
            simulation("capacity=1e6,buffer=1")
                .answer(&even, 1)
                .0
                .frames_lost(),
            0
        );
    }

    #[test]
    fn frames_that_are_not_forwarded_load_the_link_only() {
        // at 1e6/0.99 frames per second, one in a hundred is a broadcast
        let mut dut = simulation("capacity=1e6");
        dut.offer(Offer {
            mean: None,
            beside: 0.01,
        });
        let (answer, _) = dut.answer(&question(1e6 / 0.99, 1), 1);
        assert_eq!((answer.frames_sent, answer.frames_lost()), (1_000_000, 0));
        let (answer, _) = dut.answer(&question(1.1e6, 1), 1);
        assert_eq!(
            (answer.frames_sent, answer.frames_lost()),
            (1_089_000, 89_000)
        );
        // 1 Gbit/s carries 1488095 frames of 64 bytes, including broadcasts
        let mut dut = simulation("capacity=1e7,link=1Gbps");
        dut.offer(Offer {
            mean: None,
            beside: 0.01,
        });
        assert_eq!(dut.answer(&question(2e6, 1), 1).0.frames_sent, 1_473_214);
        // 7 x 64, 4 x 594, 1 x 1518 bytes: 4342 bytes and 240 of gaps in twelve frames
        dut.offer(Offer {
            mean: fwdlab_model::link::MeanSize::new(4342, 12),
            beside: 0.0,
        });
        let line: f64 = 1e9 * 12.0 / (8.0 * (4342.0 + 240.0));
        assert_eq!(
            dut.answer(&question(2e6, 1), 1).0.frames_sent,
            line.round() as u64
        );
    }

    #[test]
    fn samples_add_up_and_show_when_frames_were_lost() {
        let mut dut = simulation("capacity=1e6,buffer=5000,loss=1e-5,burst=300/1,seed=4");
        let mut requested = question(0.0, 10);
        requested.stretches[0].to_pps = 2e6;
        requested.sample_ns = Some(SECOND);
        requested.locate_loss = true;
        let (answer, counts) = dut.answer(&requested, 1);
        assert_eq!(answer.samples.len(), 10);
        let sum = |of: fn(&Interval) -> u64| answer.samples.iter().map(of).sum::<u64>();
        assert_eq!(sum(|s| s.frames_sent), answer.frames_sent);
        // frames in the buffer at the end come out later
        assert_eq!(sum(|s| s.frames_received) + 5000, answer.frames_received);
        assert_eq!(answer.frames_lost() as u64, counts.lost());
        assert!(answer.samples[8].loss_ratio() > 0.4 && answer.samples[1].loss_ratio() < 0.01);
        assert_eq!(answer.last_lost_ns, Some(10 * SECOND));
        assert!((answer.samples[2].intended_load_pps - 5e5).abs() < 1e-6);
    }

    #[test]
    fn it_ends_when_the_first_frame_is_lost() {
        let mut requested = question(1_000_500.0, 60);
        requested.ending = Some(Ending::Lost { frames: 0 });
        // an excess of 500 frames per second fills 1000 places in two seconds
        let (answer, _) = simulation("capacity=1e6,buffer=1000").answer(&requested, 1);
        assert!(answer.ended_early && answer.frames_lost() > 0);
        assert_eq!(answer.duration_ns, 2_010_000_000);
        assert_eq!(answer.frames_intended, 2_011_005);
        let (answer, _) = simulation("capacity=1e6,buffer=30000").answer(&requested, 1);
        assert!(!answer.ended_early && answer.frames_lost() == 0);
        // one frame in a hundred million: the trial ends when it is lost, whenever that is
        requested.stretches[0] = Stretch::constant(9e5, 600 * SECOND);
        for seed in 0..20 {
            let mut dut = simulation(&format!("capacity=1e6,loss=1e-8,seed={seed}"));
            let (answer, _) = dut.answer(&requested, 1);
            assert_eq!(answer.ended_early, answer.frames_lost() > 0, "{answer:?}");
            assert!(answer.duration_ns <= 600 * SECOND);
        }
    }

    #[test]
    fn after_overload_it_needs_its_time() {
        let mut requested = question(1.1e6, 60);
        requested
            .stretches
            .push(Stretch::constant(5.5e5, 60 * SECOND));
        requested.locate_loss = true;
        let (answer, _) =
            simulation("capacity=1e6,buffer=100,recovery=250ms").answer(&requested, 1);
        assert_eq!(answer.last_lost_ns, Some(60_250_000_000));
        let (answer, _) = simulation("capacity=1e6,buffer=100").answer(&requested, 1);
        assert_eq!(answer.last_lost_ns, Some(60 * SECOND));
    }

    #[test]
    fn a_reset_takes_the_specified_time() {
        let mut requested = question(5e5, 905);
        requested.sample_ns = Some(SECOND / 10);
        requested.reset_at_ns = Some(5 * SECOND);
        requested.ending = Some(Ending::Recovered {
            share: 0.99,
            for_ns: 5 * SECOND,
        });
        let mut dut = simulation("capacity=1e6,buffer=100,reboot=30s,slow-start=20s");
        let (answer, _) = dut.answer(&requested, 1);
        assert_eq!(answer.frames_lost(), 15_000_000);
        let outage = answer.outage.unwrap();
        assert_eq!(outage.first_after_ns, Some(35 * SECOND));
        assert_eq!(answer.duration_ns, 40 * SECOND);
        assert!(answer.ended_early);
        let (answer, _) = simulation("capacity=1e6,reboot=24h").answer(&requested, 1);
        assert_eq!(answer.outage.unwrap().first_after_ns, None);
        assert_eq!(answer.duration_ns, 905 * SECOND);
    }

    #[test]
    fn delays_have_the_specified_distribution() {
        let mut requested = question(5e5, 120);
        requested.tagging = Some(Tagging {
            from_ns: 60 * SECOND,
            until_ns: 120 * SECOND,
            frames: 20_000,
        });
        let mut dut = simulation("capacity=1e6,latency=20us,jitter=5us");
        let delays = dut.answer(&requested, 1).0.delays.unwrap();
        assert_eq!(delays.frames, 20_000);
        // exponential: median ln 2, 99th percentile ln 100; four standard errors of each
        let near =
            |value: u64, expect: f64, error: f64| (value as f64 - expect).abs() < 4.0 * error;
        assert!(near(
            delays.p50_ns,
            20_000.0 + 5000.0 * 2f64.ln(),
            5000.0 / 20_000f64.sqrt()
        ));
        assert!(near(
            delays.p99_ns.unwrap(),
            20_000.0 + 5000.0 * 100f64.ln(),
            5000.0 * (99.0 / 20_000f64).sqrt()
        ));
        assert!(near(
            delays.mean_ns as u64,
            25_000.0,
            5000.0 / 20_000f64.sqrt()
        ));
        // in overload a frame waits for the buffer to drain
        requested.stretches[0].from_pps = 2e6;
        requested.stretches[0].to_pps = 2e6;
        let mut dut = simulation("capacity=1e6,latency=20us,buffer=1000");
        assert_eq!(
            dut.answer(&requested, 1).0.delays.unwrap().p50_ns,
            1_020_000
        );
    }

    #[test]
    fn rules_cost_time_and_links_flap() {
        let mut requested = question(5e6, 1);
        requested.setting = Some(50);
        // 1000 ns plus 50 times 20 ns per frame
        let (answer, _) = simulation("capacity=1e6,cost=20ns").answer(&requested, 1);
        assert_eq!(answer.frames_received, 500_000);
        let (answer, _) = simulation("capacity=1e6,cliff=49/0.1").answer(&requested, 1);
        assert_eq!(answer.frames_received, 100_000);
        let mut flaps = simulation("capacity=1e6,flap=3");
        let sound: Vec<bool> = (0..6)
            .map(|_| flaps.answer(&requested, 1).0.objections.is_empty())
            .collect();
        assert_eq!(sound, [true, true, false, true, true, false]);
        let mut periodic = simulation("capacity=1e6,drop-every=1000");
        let (answer, _) = periodic.answer(&question(1e5, 1), 1);
        assert_eq!(answer.frames_lost(), 100);
    }

    proptest! {
        /// A plain request equals a plain trial, frame for frame.
        #[test]
        fn a_plain_question_is_a_plain_trial(
            load in 1.0..3e6f64, ms in 1u64..5000, flows in 1u32..100, seed: u64, cores in 1u32..5,
        ) {
            let text = format!(
                "capacity=1e6,buffer=100,noise=0.01,loss=1e-5,stall=3ms/1s,livelock=0.2,slow-start=2s,cores={cores},seed={seed}"
            );
            let (mut one, mut other) = (simulation(&text), simulation(&text));
            for _ in 0..3 {
                let counts = one.trial(&Trial {
                    load_pps: load,
                    duration_ns: ms * 1_000_000,
                    frame_size: FrameSize::MIN,
                    flows,
                });
                let requested = Question::constant(FrameSize::MIN, load, ms * 1_000_000, Purpose::Measure, "");
                let (answer, again) = other.answer(&requested, flows);
                prop_assert_eq!(counts, again);
                prop_assert_eq!(answer.frames_received, counts.received);
            }
            prop_assert_eq!(one.now_ns(), other.now_ns());
        }
    }
}
