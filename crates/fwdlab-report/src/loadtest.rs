//! Exports ramps as TRex load tests: files that its public viewer draws, with the same figures.
//!
//! A bidirectional ramp uses both channels; a ramp in one direction uses channel 0, and channel 1
//! is silent. Utilisation is relative to the full rate of an imported file, else to the line rate
//! if the run has a link, else to the largest offered load; `vars` records which. Start with
//! [`files`].

use std::collections::BTreeMap;

use fwdlab_model::link::MeanSize;
use fwdlab_model::loadtest::{Channel, KIND, LoadTest, NONE_SENT, Port, Seconds};
use fwdlab_model::outcome::{Outcome, Ramp};
use fwdlab_model::procedure::Interval;
use fwdlab_model::test_case::TestCase;
use fwdlab_model::variant::Direction;
use serde_json::{Value, json};

use crate::link;
use crate::name::slug;
use crate::run::Run;

/// Bytes that a frame occupies on a link in addition to its own: preamble and inter-frame gap.
const BESIDE: f64 = 20.0;

/// Returns the files of a run, one per ramp: names without extension, and their contents. The two
/// channels of an imported test become one file again.
pub fn files(run: &Run<'_>) -> Vec<(String, LoadTest)> {
    let mut all: Vec<(String, LoadTest)> = Vec::new();
    let mut from: Vec<(String, String)> = Vec::new();
    let cases = &run.summary.test_cases;
    let is_only = cases.iter().map(|case| case.outcomes.len()).sum::<usize>() == 1;
    for case in &run.summary.test_cases {
        for outcome in &case.outcomes {
            let Some(ramp) = outcome.found.get::<Ramp>() else {
                continue;
            };
            let (test, channel) = channel_of(case);
            let profile = profile(outcome);
            let place = from
                .iter()
                .position(|known| *known == (test.clone(), profile.clone()));
            let place = match place {
                Some(place) => place,
                None => {
                    let name = match test.as_str() {
                        "plain" if is_only => slug(run.name),
                        "plain" => slug(&format!("{} {}", run.name, case.case.series())),
                        _ if channel.is_some() => slug(&test),
                        _ => slug(&format!("{test} {}", case.case.series())),
                    };
                    let count = all.iter().filter(|(own, _)| own.starts_with(&name)).count();
                    let name = match count {
                        0 => name,
                        n => format!("{name}-{}", n + 1),
                    };
                    from.push((test.clone(), profile.clone()));
                    all.push((name, empty(run, ramp, &profile)));
                    all.len() - 1
                }
            };
            let full = full(run, outcome, ramp);
            let mut add = |channel, samples: &[Interval]| {
                add(&mut all[place].1, outcome, samples, full, channel);
            };
            match &ramp.directions[..] {
                [] => add(channel.unwrap_or(Channel::Zero), &ramp.samples),
                both => both.iter().for_each(|way| {
                    let channel = match way.direction {
                        Direction::Forward => Channel::Zero,
                        Direction::Reverse => Channel::One,
                    };
                    add(channel, &way.samples);
                }),
            }
        }
    }
    all
}

/// Returns true if a run has bidirectional ramps that recorded only the direction with more loss:
/// their files lack the other one.
pub fn halves(run: &Run<'_>) -> bool {
    let lacks_one = |outcome: &Outcome| {
        let ramp = outcome.found.get::<Ramp>();
        outcome.variant.both_directions && ramp.is_some_and(|ramp| ramp.directions.is_empty())
    };
    run.info.kind != KIND && run.summary.outcomes().any(lacks_one)
}

/// Returns the name of the test, and its channel if it is one of two.
fn channel_of(case: &TestCase) -> (String, Option<Channel>) {
    let name = &case.case.configuration;
    for channel in Channel::ALL {
        if let Some(test) = name.strip_suffix(&format!(" {channel}")) {
            return (test.to_owned(), Some(channel));
        }
    }
    (name.clone(), None)
}

fn profile(outcome: &Outcome) -> String {
    match &outcome.variant.profile {
        Some(profile) => format!("{profile}.py"),
        None => format!("{}B.py", outcome.frame_size_bytes),
    }
}

fn empty(run: &Run<'_>, ramp: &Ramp, profile: &str) -> LoadTest {
    let parameters = &run.info.parameters;
    let of = |names: &[&str], or: Value| {
        names
            .iter()
            .find_map(|name| parameters.get(*name))
            .cloned()
            .unwrap_or(or)
    };
    let seconds = ramp.samples.len();
    let vars: BTreeMap<String, Value> = [
        (
            "warmup_mult",
            of(&["warmup_mult", "warm_up_load"], json!("1kpps")),
        ),
        (
            "warmup_duration",
            of(&["warmup_duration", "warm_up_s"], json!(0)),
        ),
        (
            "rampup_target",
            of(
                &["rampup_target"],
                json!(format!("{}pps", ramp.target_pps.round())),
            ),
        ),
        (
            "rampup_duration",
            of(&["rampup_duration", "ramp_s"], json!(seconds)),
        ),
        ("hold_duration", of(&["hold_duration", "hold_s"], json!(0))),
        ("profile_file", json!(profile)),
        ("fwdlab_run", json!(run.info.id)),
        ("fwdlab_utilisation_of", json!(utilisation_of(run, ramp))),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    LoadTest {
        vars,
        stats: Seconds::default(),
    }
}

fn utilisation_of(run: &Run<'_>, ramp: &Ramp) -> &'static str {
    match (link::link_speed(run.info), ramp.max_line_percent) {
        (None, None) => "the largest load that was offered",
        _ => "the line rate",
    }
}

/// Returns the rate, in frames per second, that corresponds to 100 %: that of an imported file,
/// else the line rate, else the largest load.
fn full(run: &Run<'_>, outcome: &Outcome, ramp: &Ramp) -> f64 {
    let of_link = link::link_speed(run.info)
        .map(|link| link.line_rate_pps(MeanSize::from(outcome.frame_size_bytes)));
    let of_file = ramp.max_line_percent.filter(|percent| *percent > 0.0);
    let of_file = of_file.map(|percent| 100.0 * ramp.max_forwarding_rate_pps / percent);
    let ways = ramp.directions.iter().flat_map(|way| &way.samples);
    let most = (ramp.samples.iter().chain(ways))
        .map(Interval::offered_load_pps)
        .fold(ramp.target_pps, f64::max);
    of_file.or(of_link).unwrap_or(most).max(f64::MIN_POSITIVE)
}

fn add(test: &mut LoadTest, outcome: &Outcome, samples: &[Interval], full: f64, channel: Channel) {
    let size = f64::from(outcome.frame_size_bytes.bytes());
    let (from, to) = channel.ports();
    for (n, sample) in samples.iter().enumerate() {
        let at = sample.at_ns as f64 / 1e9;
        let key = format!("{at:.3}");
        if test.stats.0.len() <= n {
            let silent = Port {
                tx_pps: NONE_SENT,
                rx_pps: NONE_SENT,
                ..Port::default()
            };
            let silent = ["0", "1"].map(|port| (port.to_owned(), silent.clone()));
            test.stats.0.push((key, silent.into()));
        }
        let ports = &mut test.stats.0[n].1;
        let sent = sample.offered_load_pps().max(NONE_SENT);
        let received = sample.forwarding_rate_pps();
        let sender = ports.entry(from.to_owned()).or_default();
        sender.tx_pps = sent;
        sender.tx_bps = 8.0 * size * sent;
        sender.tx_util = 100.0 * sent / full;
        sender
            .rest
            .insert("tx_bps_L1".into(), json!(8.0 * (size + BESIDE) * sent));
        let receiver = ports.entry(to.to_owned()).or_default();
        receiver.rx_pps = received;
        receiver.rx_bps = 8.0 * size * received;
        receiver.rx_util = 100.0 * received / full;
        receiver
            .rest
            .insert("rx_bps_L1".into(), json!(8.0 * (size + BESIDE) * received));
    }
}
