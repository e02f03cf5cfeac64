//! `fwdlab selftest`: measures the limits of the tester itself, back to back and without a DUT.
//! Start with [`SelfTest::run`].

use std::time::Duration;

use clap::Args;
use fwdlab_engine::stamps::Kind;
use fwdlab_engine::{
    Addresses, Expected, Frames, Mode, PortSpec, Schedule, SignaturePlace, StallPolicy, TestFrames,
};
use fwdlab_lab::ports::{Role, TrafficPort};
use fwdlab_lab::session::{BackToBack, Period, Receiving, Sending, Session, memif_pair};
use fwdlab_model::latency::LatencySummary;
use fwdlab_model::trial;
use fwdlab_model::units::{FrameSize, Load, parse_duration};
use fwdlab_report::number;
use serde::Serialize;

use super::Global;
use super::ping::{Probe, Probed};
use super::session::options::Ports;
use super::session::{SECOND, Signals, streams, words};
use crate::exit_code::{Code, Usage};
use crate::output::{self, Level};

/// A flow table of typical size; the tester's limit includes the cost of flows.
const FLOWS: u32 = 2000;
/// The load of the latency probe.
const PROBE_PPS: f64 = 1000.0;
/// As in trials, so that stalls of the sender on this host become visible.
const STALL_POLICY: StallPolicy = StallPolicy::Skip;

/// Measure the tester itself, back to back: rates sent and received, accuracy, lateness
///
/// The two ports are the ends of one cable, of one veth pair or of one memif socket, with nothing
/// in between; without ports, the tester creates its own veth pair, or with --engine memif its own
/// memif socket. A DUT that comes close to these figures may be faster than it appears.
#[derive(Debug, Args)]
pub struct SelfTest {
    /// The two ends of a cable; frames go from the first to the second
    #[arg(value_name = "PORT", num_args = 0..=2)]
    ports: Vec<String>,
    /// Frame sizes in bytes, including the FCS
    #[arg(long, value_delimiter = ',', value_name = "BYTES", default_values = ["64", "512", "1518"])]
    size: Vec<FrameSize>,
    /// Loads at which pacing is measured
    #[arg(long, value_delimiter = ',', value_name = "LOAD", default_values = ["1kpps", "10kpps", "100kpps", "1Mpps"])]
    loads: Vec<Load>,
    /// Engines [default: all that the ports can have]
    #[arg(long, value_delimiter = ',', value_name = "ENGINE", value_parser = [Mode::XdpLive, Mode::AfXdp, Mode::AfPacket, Mode::Memif].map(Mode::name))]
    engine: Vec<String>,
    /// Duration of each trial
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    trial: Duration,
    /// Number of sending threads: they share the frames that one would send. Needs af-xdp or
    /// af-packet
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = super::senders())]
    senders: u32,
    /// CPUs of the sending threads [default: any]
    #[arg(long, value_delimiter = ',', value_name = "CPU")]
    cpus: Vec<usize>,
    #[command(flatten)]
    where_: Ports,
}

/// The limit of an engine at one frame size.
#[derive(Debug, Serialize)]
struct Limit {
    engine: &'static str,
    frame_size_bytes: u16,
    sent_pps: f64,
    received_pps: f64,
    frames_lost: i64,
    ring_full: u64,
}

/// The accuracy of an engine's load.
#[derive(Debug, Serialize)]
struct Pacing {
    engine: &'static str,
    load_pps: f64,
    stall_policy: &'static str,
    sent_pps: f64,
    error_percent: f64,
    frames_not_sent: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lateness_p50_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lateness_p99_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lateness_max_ns: Option<u64>,
}

/// The latency without a DUT.
#[derive(Debug, Serialize)]
struct Floor {
    engine: String,
    #[serde(flatten)]
    latency: LatencySummary,
}

/// The document of `--json`.
#[derive(Debug, Default, Serialize)]
struct Document {
    ports: Vec<String>,
    receiver: String,
    limits: Vec<Limit>,
    pacing: Vec<Pacing>,
    floors: Vec<Floor>,
    engines_that_do_not_work: Vec<String>,
}

/// The two ports, embedded or given.
struct PortPair {
    tx: PortSpec,
    rx: PortSpec,
    /// Held for the locks, or for the cable.
    _taken: Vec<TrafficPort>,
    _cable: Option<BackToBack>,
}

impl SelfTest {
    /// Runs the command.
    pub fn run(mut self, global: &Global) -> anyhow::Result<Code> {
        self.where_.by_own_names(&mut self.ports);
        let signals = Signals::catch()?;
        let ends = self.ends()?;
        let quiet =
            global.verbosity() == output::Verbosity::Quiet || global.json || global.json_stream;
        let mut document = Document {
            ports: vec![ends.tx.interface.clone(), ends.rx.interface.clone()],
            ..Document::default()
        };
        let is_asked =
            |mode: &&Mode| self.engine.is_empty() || self.engine.iter().any(|e| e == mode.name());
        for &mode in Mode::of(&ends.tx).iter().filter(is_asked) {
            if signals.is_stopped() {
                break;
            }
            if let Err(error) = self.engine(mode, &ends, &signals, &mut document, quiet) {
                if signals.is_stopped() {
                    break;
                }
                document
                    .engines_that_do_not_work
                    .push(format!("{}: {error:#}", mode.name()));
            }
        }
        if global.json {
            output::json(&document)?;
        } else if global.json_stream {
            output::result(&serde_json::to_string(&document)?);
        } else {
            let own = self.ports.is_empty().then(|| match ends.tx.is_memif() {
                true => "memif pair",
                false => "veth pair",
            });
            let level = match document.limits.is_empty() {
                true => Level::Fail,
                false => Level::Ok,
            };
            output::answer(level, text(&document, own));
        }
        Ok(match signals.code(false) {
            Code::Done if document.limits.is_empty() => Code::TestBed,
            code => code,
        })
    }

    fn ends(&self) -> anyhow::Result<PortPair> {
        let pair = |(tx, rx): (TrafficPort, TrafficPort), cable| PortPair {
            tx: tx.spec().clone(),
            rx: rx.spec().clone(),
            _taken: vec![tx, rx],
            _cable: cable,
        };
        match &self.ports[..] {
            [] if self.engine == [Mode::Memif.name()] => Ok(pair(memif_pair()?, None)),
            [] if self.engine.iter().any(|engine| engine == Mode::Memif.name()) => Err(Usage(
                "--engine memif: its own pair has no other engine; measure the others separately"
                    .into(),
            )
            .into()),
            [] => {
                let cable = BackToBack::new(self.senders)?;
                let (tx, rx) = cable.ports()?;
                Ok(pair((tx.into(), rx.into()), Some(cable)))
            }
            [tx, rx] if tx != rx => {
                let tx = self.where_.take(tx, &[Role::Send])?;
                let rx = self.where_.take(rx, &[Role::Receive])?;
                Ok(pair((tx, rx), None))
            }
            _ => Err(Usage(
                "selftest needs the two ends of a cable, or no ports to use its own veth pair"
                    .into(),
            )
            .into()),
        }
    }

    fn engine(
        &self,
        mode: Mode,
        ends: &PortPair,
        signals: &Signals,
        document: &mut Document,
        quiet: bool,
    ) -> anyhow::Result<()> {
        let tell = |words: String| {
            if !quiet {
                output::note(&words);
            }
        };
        let mut most = 0.0_f64;
        for &size in &self.size {
            if signals.is_stopped() {
                return Ok(());
            }
            tell(format!("{}  {size} B at full speed", mode.name()));
            let (period, receiver) = self.trial(mode, size, None, ends, signals)?;
            document.receiver = receiver;
            let (sent, received) = (&period.sent[0], &period.received[0]);
            most = most.max(sent.rate_pps);
            document.limits.push(Limit {
                engine: mode.name(),
                frame_size_bytes: size.bytes(),
                sent_pps: sent.rate_pps,
                received_pps: received.ours_pps,
                frames_lost: sent.given as i64 - received.counts.received as i64,
                ring_full: sent.ring_full,
            });
        }
        let size = self.size.first().copied().unwrap_or(FrameSize::MIN);
        let loads = self.loads.iter().filter_map(|load| load.pps(size));
        for load_pps in loads.filter(|load| *load < most) {
            if signals.is_stopped() {
                return Ok(());
            }
            tell(format!(
                "{}  {size} B at {}",
                mode.name(),
                number::rate(load_pps)
            ));
            let (period, _) = self.trial(mode, size, Some(load_pps), ends, signals)?;
            let sent = &period.sent[0];
            let due = sent.given + sent.not_sent;
            let quantile = |share| sent.lateness.as_ref().and_then(|late| late.quantile(share));
            document.pacing.push(Pacing {
                engine: mode.name(),
                load_pps,
                stall_policy: STALL_POLICY.name(),
                sent_pps: load_pps * sent.given as f64 / due.max(1) as f64,
                error_percent: -100.0 * sent.not_sent as f64 / due.max(1) as f64,
                frames_not_sent: sent.not_sent,
                lateness_p50_ns: quantile(0.5),
                lateness_p99_ns: quantile(0.99),
                lateness_max_ns: quantile(1.0),
            });
        }
        if signals.is_stopped() {
            return Ok(());
        }
        tell(format!("{}  {size} B latency", mode.name()));
        let probed = self.floor(mode, size, ends, signals)?;
        if let Some(latency) = probed.latency() {
            document.floors.push(Floor {
                engine: probed.engine.clone(),
                latency,
            });
        }
        Ok(())
    }

    /// Sends for the duration of a trial, and counts at the other port.
    fn trial(
        &self,
        mode: Mode,
        size: FrameSize,
        load_pps: Option<f64>,
        ends: &PortPair,
        signals: &Signals,
    ) -> anyhow::Result<(Period, String)> {
        // a size too small for IPv4 is a usage error
        let stream = trial::Stream::new(trial::IpVersion::Ipv4, size, FLOWS)?;
        let (tx, rx) = (
            TrafficPort::own_port(&ends.tx)?,
            TrafficPort::own_port(&ends.rx)?,
        );
        let addresses = Addresses::between(
            tx.mac().unwrap_or([2, 0, 0, 0, 0, 1]),
            rx.mac().unwrap_or([2, 0, 0, 0, 0, 2]),
        );
        let nonce = 1;
        let frames = Frames::Test(TestFrames::for_stream(&stream, &addresses, false, nonce)?);
        let schedule = Schedule {
            load: load_pps.into(),
            frames: None,
            at_most: self.trial + Duration::from_secs(1),
            stall_policy: STALL_POLICY,
            path: 0,
        };
        let expected = Expected {
            nonce,
            buffer_bytes: Some(size.buffer_bytes()),
            place: SignaturePlace::UdpPayload,
            analysis: None,
        };
        let sending = Sending::open(
            tx,
            &[mode],
            &self.cpus,
            frames,
            schedule,
            size.into(),
            self.senders,
        )?;
        let receiving = Receiving::open(rx, None, expected)?;
        let mut session = Session::new(vec![sending], vec![receiving]);
        session.at_most = self.trial;
        session.start(signals.control())?;
        let period = session.run(signals.control(), SECOND, &mut |_| {})?;
        let (name, _) = session.receiving[0].engine()?;
        Ok((period, name.into()))
    }

    fn floor(
        &self,
        mode: Mode,
        size: FrameSize,
        ends: &PortPair,
        signals: &Signals,
    ) -> anyhow::Result<Probed> {
        let (tx, rx) = (
            TrafficPort::own_port(&ends.tx)?,
            TrafficPort::own_port(&ends.rx)?,
        );
        let destination = rx.mac().unwrap_or([2, 0, 0, 0, 0, 2]);
        let probe = Probe {
            stamps: Kind::User,
            stream: trial::Stream::new(trial::IpVersion::Ipv4, size, 1)?,
            load_pps: PROBE_PPS,
            frames: (PROBE_PPS * self.trial.as_secs_f64()).max(1.0) as u64,
            at_most: self.trial * 2,
            nonce: 2,
            mode: Some(mode),
            cpus: self.cpus.clone(),
        };
        probe.run(tx, rx, destination, signals)
    }
}

/// Returns the verdict in one sentence: how fast the tester is, and whether it keeps a load.
fn verdict(document: &Document) -> String {
    let fastest = document.limits.iter().max_by(|one, other| {
        let (one, other) = (one.received_pps, other.received_pps);
        one.total_cmp(&other)
    });
    let Some(fastest) = fastest else {
        return "No result: no engine sent frames here.".into();
    };
    let mut text = format!(
        "The tester sends and counts up to {} ({}, {} B).",
        number::rate(fastest.received_pps),
        fastest.engine,
        fastest.frame_size_bytes,
    );
    let missed = document
        .pacing
        .iter()
        .filter(|pacing| pacing.frames_not_sent > 0);
    let missed = missed.max_by(|one, other| other.error_percent.total_cmp(&one.error_percent));
    match (missed, document.pacing.is_empty()) {
        (Some(worst), _) => {
            text += &format!(
                "\nIt does not keep to every load: {} of {} was not sent ({}).",
                number::percent(-worst.error_percent),
                number::rate(worst.load_pps),
                worst.engine
            );
        }
        (None, false) => text += "\nIt keeps to every load that was tried.",
        (None, true) => {}
    }
    text
}

fn text(document: &Document, own: Option<&str>) -> String {
    let mut text = verdict(document);
    text += &format!(
        "\n\nback to back, {}, counted by {}\n",
        match own {
            Some(own) => format!("on its own {own}"),
            None => document.ports.join(" to "),
        },
        document.receiver
    );
    if !document.limits.is_empty() {
        text += &format!(
            "\n{:<10} {:>7}  {:>12}  {:>12}  {:>12}\n",
            "engine", "size", "sent", "received", "lost"
        );
    }
    for limit in &document.limits {
        text += &format!(
            "{:<10} {:>5} B  {:>12}  {:>12}  {:>12}\n",
            limit.engine,
            limit.frame_size_bytes,
            number::rate(limit.sent_pps),
            number::rate(limit.received_pps),
            number::count(limit.frames_lost),
        );
    }
    if !document.pacing.is_empty() {
        text += &format!(
            "\n{:<10} {:>11}  {:>11}  {:>24}\n",
            "engine", "load", "not sent", "late p50 / p99 / max"
        );
    }
    let time = |ns: Option<u64>| ns.map_or("-".into(), words::short_time);
    for pacing in &document.pacing {
        text += &format!(
            "{:<10} {:>11}  {:>11}  {:>24}\n",
            pacing.engine,
            number::rate(pacing.load_pps),
            number::percent(-pacing.error_percent),
            format!(
                "{} / {} / {}",
                time(pacing.lateness_p50_ns),
                time(pacing.lateness_p99_ns),
                time(pacing.lateness_max_ns)
            ),
        );
    }
    if !document.floors.is_empty() {
        text += "\nlatency of the tester itself\n";
    }
    let mut last = "";
    for floor in &document.floors {
        let stamps = floor.latency.timestamps.as_str();
        if stamps != last {
            text += &fwdlab_report::table::wrap(stamps, 80, "  ");
            last = stamps;
        }
        text += &format!(
            "{:<10} {}\n",
            floor.engine,
            streams::percentiles(&floor.latency),
        );
        if let Some(words) = streams::describe_stalls(&floor.latency) {
            text += &format!("{:<10} {words}\n", "");
        }
    }
    if !document.engines_that_do_not_work.is_empty() {
        text += "\nengines that do not work, and why\n";
    }
    for reason in &document.engines_that_do_not_work {
        text += &fwdlab_report::table::wrap(reason, 80, "  ");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_report_speed_and_pacing_of_the_tester() {
        let first = |document: &Document| {
            let text = text(document, Some("veth pair"));
            text.split("\n\n").next().unwrap().to_owned()
        };
        let mut document = Document {
            engines_that_do_not_work: vec!["af-xdp: no".into()],
            ..Document::default()
        };
        assert_eq!(first(&document), "No result: no engine sent frames here.");
        assert!(text(&document, Some("veth pair")).ends_with("and why\n  af-xdp: no\n"));
        for (engine, received_pps) in [("af-xdp", 2e5), ("xdp-live", 2e6), ("af-packet", 1e5)] {
            document.limits.push(Limit {
                engine,
                frame_size_bytes: 64,
                sent_pps: received_pps,
                received_pps,
                frames_lost: 0,
                ring_full: 0,
            });
        }
        let fast = "The tester sends and counts up to 2.000 Mpps (xdp-live, 64 B).";
        assert_eq!(first(&document), fast);
        for (missed, words) in [
            (0_u16, "It keeps to every load that was tried."),
            (
                250,
                "It does not keep to every load: 25.0 % of 1.000 kpps was not sent (af-xdp).",
            ),
        ] {
            document.pacing.push(Pacing {
                engine: "af-xdp",
                load_pps: 1e3,
                stall_policy: "skip",
                sent_pps: 1e3,
                error_percent: -0.1 * f64::from(missed),
                frames_not_sent: missed.into(),
                lateness_p50_ns: None,
                lateness_p99_ns: None,
                lateness_max_ns: None,
            });
            assert_eq!(first(&document), format!("{fast}\n{words}"));
        }
    }
}
