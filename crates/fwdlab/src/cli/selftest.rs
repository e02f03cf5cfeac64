//! `fwdlab selftest`: measures the limits of the tester itself, back to back and without a DUT, and
//! keeps the loads that it can promise. Start with [`SelfTest::run`].

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use fwdlab_engine::stamps::Kind;
use fwdlab_engine::{
    Addresses, EngineError, Expected, Frames, Mode, PortSpec, Schedule, SignaturePlace,
    StallPolicy, TestFrames,
};
use fwdlab_lab::LabError;
use fwdlab_lab::placement::available_cpus;
use fwdlab_lab::ports::{Role, TrafficPort};
use fwdlab_lab::promise::{self, Limit, Machine, Promises, SHORTEST, Setup};
use fwdlab_lab::session::{
    BackToBack, BusyCpus, Period, Receiving, Sending, Session, user_space_pair,
};
use fwdlab_lab::user_namespace;
use fwdlab_measure::sustained::{self, Search};
use fwdlab_model::campaign::FLOWS;
use fwdlab_model::latency::LatencySummary;
use fwdlab_model::test_bed::MOST_SENDERS;
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::{FrameSize, Load, parse_duration};
use fwdlab_report::number;
use fwdlab_stats::Sample;
use jiff::Timestamp;
use serde::Serialize;

use super::Global;
use super::ping::Probe;
use super::session::options::Ports;
use super::session::{SECOND, Signals, streams, words};
use crate::exit_code::{Code, Usage};
use crate::output::{self, Level};

/// Trials at full speed of each engine, number of senders and frame size.
const TRIALS: u32 = 3;
/// The load of the latency probe.
const PROBE_PPS: f64 = 1000.0;
/// As in trials, so that stalls of the sender on this host become visible.
const STALL_POLICY: StallPolicy = StallPolicy::Skip;

/// Measure the tester itself, back to back: rates sent and received, accuracy, lateness
///
/// For each engine and number of senders it also finds the load that the tester can promise, and
/// keeps it: `fwdlab plan` warns of loads above it, and measurements with a given load choose
/// their number of senders by it.
///
/// The two ports are the ends of one cable, of one veth pair or of one memif socket, with nothing
/// in between; without ports, the tester creates its own veth pair, or with --engine memif or dpdk
/// its own memif socket. A DUT that comes close to these figures may be faster than it appears.
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
    #[arg(long, value_delimiter = ',', value_name = "ENGINE", value_parser = [Mode::XdpLive, Mode::AfXdp, Mode::AfPacket, Mode::Memif, Mode::Dpdk].map(Mode::name))]
    engine: Vec<String>,
    /// Duration of each trial
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    trial: Duration,
    /// Numbers of sending threads, which share the frames that one would send [default: 1, 2, 4
    /// and so on, up to the number of CPUs]
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = super::senders())]
    senders: Vec<u32>,
    /// CPUs of the sending threads [default: on its own pair one for each thread, on given ports
    /// any]
    #[arg(long, value_delimiter = ',', value_name = "CPU")]
    cpus: Vec<usize>,
    /// Number of flows
    #[arg(long, value_name = "N", default_value_t = FLOWS)]
    flows: u32,
    /// Send IPv6 instead of IPv4
    #[arg(long)]
    ipv6: bool,
    #[command(flatten)]
    where_: Ports,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<Machine>,
    /// The file that keeps the limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_in: Option<PathBuf>,
    limits: Vec<Limit>,
    pacing: Vec<Pacing>,
    floors: Vec<Floor>,
    engines_that_do_not_work: Vec<String>,
    /// What is kept of these engines.
    #[serde(skip)]
    refused: Vec<Limit>,
}

/// The two ports, embedded or given.
struct PortPair {
    tx: PortSpec,
    rx: PortSpec,
    /// Held for the locks, or for the cable.
    _taken: Vec<TrafficPort>,
    cable: Option<BackToBack>,
}

impl SelfTest {
    /// Runs the command.
    pub fn run(mut self, global: &Global) -> anyhow::Result<Code> {
        self.where_.by_own_names(&mut self.ports);
        let signals = Signals::catch()?;
        let given = self.given_ports()?;
        let quiet =
            global.verbosity() == output::Verbosity::Quiet || global.json || global.json_stream;
        let mut document = Document {
            machine: Some(Machine::here(user_namespace::is_root())),
            ..Document::default()
        };
        let own = self.in_user_space();
        let all: &[Mode] = match (&given, &own) {
            (Some(ends), _) => Mode::of(&ends.tx),
            (None, Some(mode)) => std::slice::from_ref(mode),
            (None, None) => &Mode::ALL,
        };
        let is_asked =
            |mode: &&Mode| self.engine.is_empty() || self.engine.iter().any(|e| e == mode.name());
        for &mode in all.iter().filter(is_asked) {
            for (turn, senders) in self.numbers(mode)?.into_iter().enumerate() {
                if signals.is_stopped() {
                    break;
                }
                let mut test = Test {
                    options: &self,
                    mode,
                    senders,
                    signals: &signals,
                    is_quiet: quiet,
                };
                let measured = match &given {
                    Some(ends) => test.run(ends, turn == 0, &mut document),
                    None => (self.own_pair(senders))
                        .and_then(|ends| test.run(&ends, turn == 0, &mut document)),
                };
                if let Err(error) = measured
                    && !signals.is_stopped()
                {
                    let several = of_senders(senders);
                    let refused = format!("{}{several}: {error:#}", mode.name());
                    document.engines_that_do_not_work.push(refused);
                }
            }
        }
        self.keep(&mut document)?;
        if global.json {
            output::json(&document)?;
        } else if global.json_stream {
            output::result(&serde_json::to_string(&document)?);
        } else {
            let own = self.ports.is_empty().then_some(match own {
                Some(_) => "memif pair",
                None => "veth pair",
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

    /// Returns the only engine that is asked for, if it has no network interfaces.
    fn in_user_space(&self) -> Option<Mode> {
        let mut modes = [Mode::Memif, Mode::Dpdk].into_iter();
        modes.find(|mode| self.engine == [mode.name()])
    }

    /// Returns the given ports; `None` if it makes its own pair.
    fn given_ports(&self) -> anyhow::Result<Option<PortPair>> {
        match &self.ports[..] {
            [] if self.in_user_space().is_none()
                && let Some(other) = [Mode::Memif, Mode::Dpdk].map(Mode::name).into_iter()
                    .find(|name| self.engine.iter().any(|e| e == name)) => Err(Usage(format!(
                "--engine {other}: its own pair has no other engine; measure the others separately"
            ))
            .into()),
            [] => Ok(None),
            [tx, rx] if tx != rx => {
                let tx = self.where_.take(tx, &[Role::Send])?;
                let rx = self.where_.take(rx, &[Role::Receive])?;
                Ok(Some(PortPair::new(tx, rx, None)))
            }
            _ => Err(Usage(
                "selftest needs the two ends of a cable, or no ports to use its own veth pair"
                    .into(),
            )
            .into()),
        }
    }

    /// Makes the two ends of its own pair, with a queue for each sender.
    fn own_pair(&self, senders: u32) -> anyhow::Result<PortPair> {
        if let Some(mode) = self.in_user_space() {
            let (tx, rx) = user_space_pair(mode, senders)?;
            return Ok(PortPair::new(tx, rx, None));
        }
        let cable = BackToBack::new(senders)?;
        let (tx, rx) = cable.ports()?;
        Ok(PortPair::new(tx.into(), rx.into(), Some(cable)))
    }

    /// Returns the numbers of senders to measure: the given ones, or powers of two up to the number
    /// of CPUs.
    fn numbers(&self, mode: Mode) -> anyhow::Result<Vec<u32>> {
        if !self.senders.is_empty() {
            return Ok(self.senders.clone());
        }
        let cpus = match self.cpus.len() {
            0 => available_cpus()?.len(),
            given => given,
        };
        let most = match mode {
            // one thread sends into all its queues
            Mode::Memif => 1,
            _ => (cpus as u32).clamp(1, MOST_SENDERS),
        };
        let doubled = std::iter::successors(Some(1_u32), |number| Some(2 * number));
        Ok(doubled.take_while(|number| *number <= most).collect())
    }

    /// Keeps the limits, if the trials were long enough.
    fn keep(&self, document: &mut Document) -> anyhow::Result<()> {
        let (Some(machine), true) = (&document.machine, self.trial >= SHORTEST) else {
            return Ok(());
        };
        let all: Vec<Limit> = document
            .limits
            .iter()
            .chain(&document.refused)
            .cloned()
            .collect();
        let Some(folder) = super::state_folder().filter(|_| !all.is_empty()) else {
            return Ok(());
        };
        let path = Promises::keep(&folder, machine, &all)
            .with_context(|| format!("keep what was measured in {}", folder.display()))?;
        document.kept_in = Some(path);
        Ok(())
    }
}

impl PortPair {
    fn new(tx: TrafficPort, rx: TrafficPort, cable: Option<BackToBack>) -> PortPair {
        PortPair {
            tx: tx.spec().clone(),
            rx: rx.spec().clone(),
            _taken: vec![tx, rx],
            cable,
        }
    }

    /// Returns the port as promises know it.
    fn words(&self) -> Option<String> {
        match self.cable {
            Some(_) => Some(promise::OWN_VETH.into()),
            None => promise::port_words(&self.tx),
        }
    }
}

/// The test of an engine with a number of senders.
struct Test<'a> {
    options: &'a SelfTest,
    mode: Mode,
    senders: u32,
    signals: &'a Signals,
    is_quiet: bool,
}

impl Test<'_> {
    /// Measures the limits at all frame sizes. Pacing and latency only if `is_whole`: they are
    /// those of one sender.
    fn run(
        &mut self,
        ends: &PortPair,
        is_whole: bool,
        document: &mut Document,
    ) -> anyhow::Result<()> {
        document.ports = vec![ends.tx.interface.clone(), ends.rx.interface.clone()];
        for &size in &self.options.size {
            if self.signals.is_stopped() {
                return Ok(());
            }
            // a size too small for the IP version is a usage error
            let stream = Stream::new(self.ip_version(), size, self.options.flows)?;
            match self.limit(&stream, ends, document) {
                Ok(limit) => document.limits.push(limit),
                Err(error) => {
                    if !self.signals.is_stopped() {
                        let refused = self.refused(&stream, ends, &error);
                        document.refused.push(refused);
                    }
                    return Err(error);
                }
            }
        }
        if is_whole {
            self.pacing(ends, document)?;
            self.floor(ends, document)?;
        }
        Ok(())
    }

    fn ip_version(&self) -> IpVersion {
        match self.options.ipv6 {
            true => IpVersion::Ipv6,
            false => IpVersion::Ipv4,
        }
    }

    fn tell(&self, size: FrameSize, what: &str) {
        if !self.is_quiet {
            let several = of_senders(self.senders);
            output::note(&format!("{}{several}  {size} B {what}", self.mode.name()));
        }
    }

    /// Returns the CPUs of the senders: on its own pair one for each, as on the embedded test bed.
    fn cpus(&self, ends: &PortPair) -> Vec<usize> {
        let given = &self.options.cpus;
        match (given.is_empty(), &ends.cable) {
            (true, Some(_)) => {
                let all = available_cpus().unwrap_or_default();
                all.into_iter().take(self.senders as usize).collect()
            }
            _ => given.clone(),
        }
    }

    /// Measures at full speed, and then finds the load that can be promised.
    fn limit(
        &self,
        stream: &Stream,
        ends: &PortPair,
        document: &mut Document,
    ) -> anyhow::Result<Limit> {
        let size = stream.frame_size_bytes;
        self.tell(size, "at full speed");
        let (mut sent_pps, mut received_pps) = (Vec::new(), Vec::new());
        let (mut frames_lost, mut ring_full) = (0, 0);
        for _ in 0..TRIALS {
            let (period, receiver) = self.trial(stream, None, ends)?;
            let (sent, received) = (&period.sent[0], &period.received[0]);
            document.receiver = receiver;
            sent_pps.push(sent.rate_pps);
            received_pps.push(received.ours_pps);
            frames_lost += sent.given as i64 - received.counts.received as i64;
            ring_full += sent.ring_full;
            self.signals.control().check()?;
        }
        let (sent, received) = (Sample::new(sent_pps)?, Sample::new(received_pps)?);
        let promised = match Search::promise(&sent) {
            Ok(search) => self.promised(search, stream, ends)?,
            Err(reason) => Err(reason),
        };
        let (promised_pps, cannot_tell) = match promised {
            Ok(load_pps) => (Some(load_pps), None),
            Err(reason) => (None, Some(reason)),
        };
        Ok(Limit {
            sent_pps: sent.median(),
            sent_min_pps: sent.min(),
            sent_max_pps: sent.max(),
            received_pps: received.median(),
            ns_per_frame: SECOND.as_nanos() as f64 * f64::from(self.senders)
                / sent.median().max(1.0),
            frames_lost,
            ring_full,
            promised_pps,
            cannot_tell,
            ..self.unmeasured(stream, ends)
        })
    }

    /// Looks for the load that is sent and counted in every trial, while all other CPUs are busy as
    /// with a DUT. Returns the reason if there is none.
    fn promised(
        &self,
        mut search: Search,
        stream: &Stream,
        ends: &PortPair,
    ) -> anyhow::Result<Result<f64, String>> {
        let own = self.cpus(ends);
        let others = available_cpus()?.into_iter();
        // senders on any CPU need the others
        let others = others.filter(|cpu| !own.is_empty() && !own.contains(cpu));
        let _busy = BusyCpus::start(others);
        loop {
            let load_pps = search.load_pps();
            self.tell(
                stream.frame_size_bytes,
                &format!("at {}", number::rate(load_pps)),
            );
            let (period, _) = self.trial(stream, Some(load_pps), ends)?;
            self.signals.control().check()?;
            let (sent, received) = (&period.sent[0], &period.received[0]);
            let due = sent.given + sent.not_sent;
            let counted = received.counts.received.min(sent.given);
            let found = search.record(sustained::Sent {
                frames: counted,
                missing: due - counted,
            });
            if let Some(found) = found {
                return Ok(match found.is_held_always() {
                    true => Ok(found.load_pps),
                    false => Err(format!(
                        "not even {} was sent and counted in every trial",
                        number::rate(load_pps)
                    )),
                });
            }
        }
    }

    /// Returns a limit without figures.
    fn unmeasured(&self, stream: &Stream, ends: &PortPair) -> Limit {
        Limit {
            setup: Setup {
                engine: self.mode.name().into(),
                senders: self.senders,
                sender_cpus: self.cpus(ends),
                port: ends.words().unwrap_or_default(),
                ip_version: stream.ip_version,
                frame_size_bytes: stream.frame_size_bytes,
                flows: stream.flows,
            },
            measured_at: Timestamp::now().to_string(),
            trials: TRIALS,
            trial_s: self.options.trial.as_secs_f64(),
            sent_pps: 0.0,
            sent_min_pps: 0.0,
            sent_max_pps: 0.0,
            received_pps: 0.0,
            ns_per_frame: 0.0,
            frames_lost: 0,
            ring_full: 0,
            promised_pps: None,
            cannot_tell: None,
            works: true,
        }
    }

    /// Returns what is known after an error: that the engine cannot send here, or nothing.
    fn refused(&self, stream: &Stream, ends: &PortPair, error: &anyhow::Error) -> Limit {
        let is_refused = matches!(
            error.downcast_ref(),
            Some(LabError::Engine(EngineError::Unsupported { .. }))
        );
        Limit {
            cannot_tell: Some(format!("{error:#}")),
            works: !is_refused,
            ..self.unmeasured(stream, ends)
        }
    }

    /// Measures how exactly loads are kept.
    fn pacing(&self, ends: &PortPair, document: &mut Document) -> anyhow::Result<()> {
        let own = document.limits.iter();
        let own = own.filter(|limit| limit.setup.engine == self.mode.name());
        let most = own.map(|limit| limit.sent_pps).fold(0.0, f64::max);
        let size = self.options.size.first().copied().unwrap_or(FrameSize::MIN);
        let stream = Stream::new(self.ip_version(), size, self.options.flows)?;
        let loads = self.options.loads.iter().filter_map(|load| load.pps(size));
        for load_pps in loads.filter(|load| *load < most) {
            if self.signals.is_stopped() {
                return Ok(());
            }
            self.tell(size, &format!("at {}", number::rate(load_pps)));
            let (period, _) = self.trial(&stream, Some(load_pps), ends)?;
            let sent = &period.sent[0];
            let due = sent.given + sent.not_sent;
            let quantile = |share| sent.lateness.as_ref().and_then(|late| late.quantile(share));
            document.pacing.push(Pacing {
                engine: self.mode.name(),
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
        Ok(())
    }

    /// Sends for the duration of a trial, and counts at the other port.
    fn trial(
        &self,
        stream: &Stream,
        load_pps: Option<f64>,
        ends: &PortPair,
    ) -> anyhow::Result<(Period, String)> {
        let size = stream.frame_size_bytes;
        let (tx, rx) = (
            TrafficPort::own_port(&ends.tx)?,
            TrafficPort::own_port(&ends.rx)?,
        );
        let addresses = Addresses::between(
            tx.mac().unwrap_or([2, 0, 0, 0, 0, 1]),
            rx.mac().unwrap_or([2, 0, 0, 0, 0, 2]),
        );
        let nonce = 1;
        let frames = Frames::Test(TestFrames::for_stream(stream, &addresses, false, nonce)?);
        let schedule = Schedule {
            load: load_pps.into(),
            frames: None,
            at_most: self.options.trial + Duration::from_secs(1),
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
            &[self.mode],
            &self.cpus(ends),
            frames,
            schedule,
            size.into(),
            self.senders,
        )?;
        let receiving = Receiving::open(rx, None, expected)?;
        let mut session = Session::new(vec![sending], vec![receiving]);
        session.at_most = self.options.trial;
        let control = self.signals.control();
        session.start(control)?;
        let period = session.run(control, SECOND, &mut |_| {})?;
        let (name, _) = session.receiving[0].engine()?;
        Ok((period, name.into()))
    }

    /// Measures the latency of the tester itself.
    fn floor(&self, ends: &PortPair, document: &mut Document) -> anyhow::Result<()> {
        if self.signals.is_stopped() {
            return Ok(());
        }
        let trial = self.options.trial;
        let size = self.options.size.first().copied().unwrap_or(FrameSize::MIN);
        self.tell(size, "latency");
        let (tx, rx) = (
            TrafficPort::own_port(&ends.tx)?,
            TrafficPort::own_port(&ends.rx)?,
        );
        let destination = rx.mac().unwrap_or([2, 0, 0, 0, 0, 2]);
        let probe = Probe {
            stamps: Kind::User,
            stream: Stream::new(self.ip_version(), size, 1)?,
            load_pps: PROBE_PPS,
            frames: (PROBE_PPS * trial.as_secs_f64()).max(1.0) as u64,
            at_most: trial * 2,
            nonce: 2,
            mode: Some(self.mode),
            cpus: self.options.cpus.clone(),
        };
        let probed = probe.run(tx, rx, destination, self.signals)?;
        if let Some(latency) = probed.latency() {
            document.floors.push(Floor {
                engine: probed.engine.clone(),
                latency,
            });
        }
        Ok(())
    }
}

/// Returns the number of senders as an addition to an engine; nothing for one.
fn of_senders(senders: u32) -> String {
    match senders {
        1 => String::new(),
        several => format!(", {several} senders"),
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
        "The tester sends and counts up to {} ({}{}, {} B).",
        number::rate(fastest.received_pps),
        fastest.setup.engine,
        of_senders(fastest.setup.senders),
        fastest.setup.frame_size_bytes,
    );
    let highest = document.limits.iter().max_by(|one, other| {
        let (one, other) = (one.promised_pps, other.promised_pps);
        one.unwrap_or(0.0).total_cmp(&other.unwrap_or(0.0))
    });
    text += &match highest.and_then(|limit| Some((limit, limit.promised_pps?))) {
        Some((limit, promised_pps)) => format!(
            "\nIt can promise {} ({}{}, {} B).",
            number::rate(promised_pps),
            limit.setup.engine,
            of_senders(limit.setup.senders),
            limit.setup.frame_size_bytes,
        ),
        None => "\nIt cannot tell which load it can promise.".to_owned(),
    };
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
            "\n{:<10} {:>7} {:>7}  {:>10} {:>19}  {:>8} {:>11}\n",
            "engine", "senders", "size", "sent", "lowest to highest", "ns/frame", "promise"
        );
    }
    let mut doubts: Vec<String> = Vec::new();
    for limit in &document.limits {
        let Setup {
            engine,
            senders,
            frame_size_bytes,
            ..
        } = &limit.setup;
        let promise = limit.promised_pps.map(number::rate);
        text += &format!(
            "{engine:<10} {senders:>7} {frame_size_bytes:>5} B  {:>10} {:>19}  {:>8.0} {:>11}\n",
            number::rate(limit.sent_pps),
            format!(
                "{:.2} to {:.2}",
                limit.sent_min_pps / limit.sent_pps.max(1.0),
                limit.sent_max_pps / limit.sent_pps.max(1.0)
            ),
            limit.ns_per_frame,
            promise.unwrap_or("cannot tell".into()),
        );
        if limit.frames_lost != 0 {
            doubts.push(format!(
                "{engine}{}, {frame_size_bytes} B: {} frames sent at full speed were not counted at the other port",
                of_senders(*senders),
                number::count(limit.frames_lost)
            ));
        }
        if let Some(reason) = &limit.cannot_tell {
            doubts.push(format!(
                "{engine}{}, {frame_size_bytes} B: cannot tell: {reason}",
                of_senders(*senders)
            ));
        }
    }
    for doubt in &doubts {
        text += &fwdlab_report::table::wrap(doubt, 80, "  ");
    }
    if !document.limits.is_empty() {
        text += &match &document.kept_in {
            Some(path) => format!("the promises are kept in {}\n", path.display()),
            None => format!(
                "nothing is promised later: trials of less than {} s miss the stalls of a machine\n",
                SHORTEST.as_secs()
            ),
        };
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

    fn limit(engine: &str, senders: u32, pps: f64, promised_pps: Option<f64>) -> Limit {
        Limit {
            setup: Setup {
                engine: engine.into(),
                senders,
                sender_cpus: Vec::new(),
                port: String::new(),
                ip_version: IpVersion::Ipv4,
                frame_size_bytes: FrameSize::MIN,
                flows: FLOWS,
            },
            measured_at: String::new(),
            trials: 3,
            trial_s: 1.0,
            sent_pps: pps,
            sent_min_pps: 0.95 * pps,
            sent_max_pps: 1.1 * pps,
            received_pps: pps,
            ns_per_frame: 1e9 * f64::from(senders) / pps,
            frames_lost: 0,
            ring_full: 0,
            promised_pps,
            cannot_tell: promised_pps.is_none().then(|| "it stalls".into()),
            works: true,
        }
    }

    #[test]
    fn the_limits_have_a_line_for_each_number_of_senders() {
        let document = Document {
            limits: vec![
                limit("af-xdp", 1, 1.6e6, Some(1.4e6)),
                limit("af-xdp", 2, 3e6, None),
            ],
            ..Document::default()
        };
        let text = text(&document, Some("veth pair"));
        let lines = "
engine     senders    size        sent   lowest to highest  ns/frame     promise
af-xdp           1    64 B  1.600 Mpps        0.95 to 1.10       625  1.400 Mpps
af-xdp           2    64 B  3.000 Mpps        0.95 to 1.10       667 cannot tell
  af-xdp, 2 senders, 64 B: cannot tell: it stalls
nothing is promised later: trials of less than 1 s miss the stalls of a machine
";
        assert!(text.contains(lines), "{text}");
    }

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
            document.limits.push(limit(engine, 1, received_pps, None));
        }
        let fast = "The tester sends and counts up to 2.000 Mpps (xdp-live, 64 B).";
        assert_eq!(
            first(&document),
            format!("{fast}\nIt cannot tell which load it can promise.")
        );
        let own = limit("xdp-live", 2, 3e6, Some(2.5e6));
        document.limits.push(own);
        let fast = "The tester sends and counts up to 3.000 Mpps (xdp-live, 2 senders, 64 B).\n\
                    It can promise 2.500 Mpps (xdp-live, 2 senders, 64 B).";
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
