//! Limits of the tester must never be attributed to the DUT: procedures on a DUT with a known
//! capacity, with generators that stall or reach a limit. Every figure must be true, every bound a
//! bound, and no sentence may blame the DUT.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test")]

use fwdlab_measure::machine::{Asked, Limit, Series, make};
use fwdlab_measure::order::Random;
use fwdlab_measure::procedure::Session;
use fwdlab_model::campaign::Campaign;
use fwdlab_model::outcome::{Found, Outcome};
use fwdlab_model::procedure::{Answer, Delays, Interval, Question};
use fwdlab_model::units::FrameSize;

/// The DUT's capacity: it forwards every load up to this, and this much of every larger one.
const CAPACITY_PPS: f64 = 1e6;

/// The largest load that procedures may request.
const LARGEST_PPS: f64 = 1.6e6;

/// Procedures with a figure that follows from the capacity, and its tolerance: the resolution, and
/// the part of a load that may be missing.
const RATES: [(&str, f64); 8] = [
    ("throughput", 0.015),
    ("mlrsearch", 0.015),
    ("mrr", 0.025),
    ("forwarding-rate", 0.025),
    ("ramp", 0.05),
    ("plr", 0.10),
    ("equilibrium", 0.06),
    ("trial", 0.0),
];

/// Procedures with figures of other kinds.
const OTHERS: [&str; 4] = ["frame-loss", "latency", "recovery", "soak"];

/// How a generator fails.
enum Generator {
    /// It sends at most this rate.
    Limit(f64),
    /// It sends only for this share of the time.
    Share(f64),
    /// In every tenth of a trial it stalls with this probability, for some of it.
    Stalls(f64, Random),
}

fn uniform(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

impl Generator {
    /// Returns the rate at which it sends while it sends, and for which share of the time.
    fn send(&mut self, load_pps: f64) -> (f64, f64) {
        match self {
            Generator::Limit(limit) => (load_pps.min(*limit), 1.0),
            Generator::Share(share) => (load_pps, *share),
            Generator::Stalls(probability, random) => {
                let stalls = uniform(random) < *probability;
                (load_pps, if stalls { uniform(random) } else { 1.0 })
            }
        }
    }

    fn answer(&mut self, question: &Question) -> Answer {
        let duration_ns = question.duration_ns();
        let length_ns = question.sample_ns.unwrap_or(duration_ns / 10).max(1);
        let mut answer = Answer {
            frames_intended: question.frames(),
            duration_ns,
            took_ns: duration_ns,
            ..Answer::default()
        };
        let mut at_ns = 0;
        while at_ns < duration_ns {
            let length_ns = length_ns.min(duration_ns - at_ns);
            let load_pps = question.load_at(at_ns + length_ns / 2);
            let seconds = length_ns as f64 / 1e9;
            let (rate_pps, share) = self.send(load_pps);
            let frames = |pps: f64| (pps * share * seconds).round() as u64;
            let sample = Interval {
                at_ns,
                length_ns,
                intended_load_pps: load_pps,
                frames_sent: frames(rate_pps),
                frames_received: frames(rate_pps.min(CAPACITY_PPS)),
            };
            answer.frames_sent += sample.frames_sent;
            answer.frames_received += sample.frames_received;
            if sample.frames_received < sample.frames_sent {
                answer.last_lost_ns = Some(at_ns + length_ns);
            }
            answer.samples.push(sample);
            at_ns += length_ns;
        }
        // frames rounded away in the samples were due, too
        if answer.frames_sent.abs_diff(answer.frames_intended) <= 1000 && self.is_steady() {
            answer.frames_intended = answer.frames_sent;
        }
        answer.delays = question.tagging.map(|_| Delays {
            frames: 10_000,
            ..Delays::default()
        });
        answer
    }

    fn is_steady(&self) -> bool {
        matches!(self, Generator::Limit(_))
    }
}

/// Returns what a procedure finds with this generator.
fn found(id: &str, generator: &mut Generator, seed: u64) -> Vec<Outcome> {
    let more = match id {
        "soak" => "load = 9e5\nfor = '60s'",
        "trial" => "load = 9e5",
        "ramp" => "warm-up = '1s'\nramp = '60s'\nhold = '5s'",
        "plr" => "for = '60s'",
        _ => "",
    };
    let text = format!("campaign = 'c'\n[procedure]\nid = '{id}'\n{more}");
    let campaign = Campaign::parse("c.toml", &text).unwrap();
    let requested = Asked {
        procedure: campaign.procedure,
        sweep: campaign.sweep,
        simulated: true,
        seed,
        series: Series::default(),
    };
    let limit = Limit {
        frame_size: FrameSize::MIN,
        mean: FrameSize::MIN.into(),
        line: None,
        max_load_pps: LARGEST_PPS,
        source: "as requested".into(),
    };
    let mut session = Session::new(make(&requested, &[limit]).unwrap());
    let mut trials = 0;
    while let Some((question, _)) = session.next_trial() {
        session.record(&generator.answer(&question));
        trials += 1;
        assert!(trials < 2000, "{id} does not end");
    }
    session.outcomes()
}

/// Checks that nothing in an outcome is wrong.
fn check(id: &str, tolerance: f64, outcome: &Outcome, context: &str) {
    let words = format!("{}; {}", outcome.verdict, outcome.warnings.join("; "));
    for blame in [
        "livelock",
        "hysteresis",
        "drift",
        "check for a fault",
        "lost at every load",
    ] {
        assert!(!words.contains(blame), "{id}, {context}: {words}");
    }
    let Some(pps) = outcome.found.rate_pps().filter(|_| outcome.answered) else {
        return;
    };
    let tolerance = match &outcome.found {
        Found::Ramp(ramp) => tolerance.max(ramp.up.resolution_pps / CAPACITY_PPS),
        _ => tolerance,
    };
    let at_most = CAPACITY_PPS * (1.0 + tolerance);
    assert!(
        pps <= at_most,
        "{id}, {context}: {pps} of a DUT of {CAPACITY_PPS}: {words}"
    );
    let is_bound = outcome.found.is_tester_bound()
        || matches!(&outcome.found, Found::Trial(_))
        // nothing was lost even at the largest load
        || words.contains("may forward more");
    let at_least = CAPACITY_PPS * (1.0 - tolerance);
    assert!(
        pps >= at_least || is_bound,
        "{id}, {context}: {pps} is called the figure of a DUT of {CAPACITY_PPS}: {words}"
    );
}

#[test]
fn a_generator_at_its_limit_gives_bounds() {
    for limit in [0.16e6, 0.5e6, 0.97e6, 1.05e6, 1.3e6, 1e9] {
        for (id, tolerance) in RATES {
            for outcome in found(id, &mut Generator::Limit(limit), 1) {
                check(id, tolerance, &outcome, &format!("limit {limit}"));
                let has_reached = limit >= LARGEST_PPS;
                assert!(outcome.answered || !has_reached, "{id}: {outcome:?}");
            }
        }
        for id in OTHERS {
            for outcome in found(id, &mut Generator::Limit(limit), 1) {
                check(id, 1.0, &outcome, &format!("limit {limit}"));
            }
        }
    }
}

/// It sends 16 % of the due frames: nothing is known about the DUT.
#[test]
fn a_generator_that_stalls_at_every_load_gives_no_figure() {
    let ids = RATES
        .iter()
        .map(|(id, _)| *id)
        .filter(|id| *id != "forwarding-rate");
    for id in ids.chain(OTHERS) {
        for outcome in found(id, &mut Generator::Share(0.16), 1) {
            check(id, 0.0, &outcome, "16 %");
            assert!(!outcome.answered, "{id}: {outcome:?}");
            assert!(outcome.figures().is_empty(), "{id}: {outcome:?}");
        }
    }
}

/// 200 runs: every claim is true.
#[test]
fn stalls_now_and_then_make_no_wrong_claim() {
    let mut answered = 0;
    for seed in 0..200 {
        let probability = [0.02, 0.05, 0.2][seed as usize % 3];
        for (id, tolerance) in RATES.into_iter().chain(OTHERS.map(|id| (id, 1.0))) {
            if id == "plr" && seed >= 6 {
                // it takes a second
                continue;
            }
            let mut generator = Generator::Stalls(probability, Random::new(seed));
            for outcome in found(id, &mut generator, seed) {
                check(
                    id,
                    tolerance,
                    &outcome,
                    &format!("seed {seed}, {probability}"),
                );
                answered += u32::from(outcome.answered);
            }
        }
    }
    assert!(answered > 200, "{answered} answers");
}
