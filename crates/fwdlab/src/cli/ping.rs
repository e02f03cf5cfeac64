//! `fwdlab ping`: measures the latency of frames with a probe at a low rate. Start with
//! [`Ping::run`].

use std::net::IpAddr;
use std::time::Duration;

use clap::Args;
use fwdlab_engine::analysis::{Analysis, AnalysisPlan, StreamAnalysis, StreamPlan};
use fwdlab_engine::stamps::{Kind, MOST};
use fwdlab_engine::{
    Addresses, Expected, Frames, LoadPlan, Mode, Schedule, SignaturePlace, StallPolicy, TestFrames,
};
use fwdlab_lab::ports::{Port, Role, TrafficPort};
use fwdlab_lab::session::stamping::{Stamping, StampingResult, analysis};
use fwdlab_lab::session::{BackToBack, Receiving, Sending, Session, next_hop, user_space_pair};
use fwdlab_model::latency::{LatencySummary, StalledFrames};
use fwdlab_model::profile::Mac;
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::{FrameSize, Load, parse_duration};
use fwdlab_report::number;
use serde_json::json;

use super::Global;
use super::session::options::{Answers, Ports, Timestamps};
use super::session::{SECOND, Signals, stamping, streams, words};
use crate::exit_code::{Code, Usage};
use crate::output;

/// Duration of the measurement of the tester's own latency.
const FLOOR: Duration = Duration::from_secs(1);
/// Send every frame of the probe, even late.
const STALL_POLICY: StallPolicy = StallPolicy::CatchUp { most_pps: None };
/// Engines for a probe. Prefers those that send frames one by one, at the time written in them.
const PROBERS: [Mode; 3] = [Mode::AfXdp, Mode::AfPacket, Mode::XdpLive];
/// Rows of the histogram, and columns of its bars.
const ROWS: usize = 16;
const COLUMNS: u64 = 40;

/// Measure the latency from one port to another with a few probe frames, and the tester's own
/// latency for comparison
///
/// Latency runs from the departure of a frame to its arrival. The card or the kernel takes both
/// times where both ports support that; otherwise it runs from the time the frame was due to leave
/// (--timestamps). The tester's own latency is measured over a veth pair in a private namespace and
/// printed with the result.
#[derive(Debug, Args)]
pub struct Ping {
    /// Interface to send on, or a port of memif or DPDK
    #[arg(long, value_name = "PORT")]
    port: String,
    /// Interface on which frames come back [default: the same; the remote end must reflect them]
    #[arg(long, value_name = "PORT")]
    rx_port: Option<String>,
    /// Number of frames
    #[arg(short = 'c', long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Load, such as 1kpps; keep it low, because queued frames measure the queue
    #[arg(long, value_name = "LOAD", default_value = "1kpps")]
    load: Load,
    /// Frame size in bytes, including the FCS [default: 64; IPv6: 84]
    #[arg(long, value_name = "BYTES")]
    size: Option<FrameSize>,
    /// IPv6 instead of IPv4
    #[arg(long)]
    ipv6: bool,
    /// Number of flows
    #[arg(long, value_name = "N", default_value_t = 1)]
    flows: u32,
    /// Destination MAC address [default: resolved from --via, or from the first destination]
    #[arg(long, value_name = "MAC")]
    dst_mac: Option<Mac>,
    /// Address of the next hop, resolved with ARP or neighbour discovery
    #[arg(long, value_name = "ADDRESS", conflicts_with = "dst_mac")]
    via: Option<IpAddr>,
    /// Engine; auto takes the first that works and sends frames one by one
    #[arg(long, default_value = "auto", value_parser = super::engines())]
    engine: String,
    /// CPUs of the sending thread [default: any]
    #[arg(long, value_delimiter = ',', value_name = "CPU")]
    cpus: Vec<usize>,
    /// Source of departure and arrival times
    #[arg(long, value_enum, default_value_t = Timestamps::Auto)]
    timestamps: Timestamps,
    /// Do not measure the tester's own latency (the floor)
    #[arg(long)]
    no_floor: bool,
    /// Maximum time [default: twice the time that the frames need, plus one second]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Number in the signatures
    #[arg(long, value_name = "N", default_value_t = 1)]
    session: u16,
    #[command(flatten)]
    answers: Answers,
    #[command(flatten)]
    where_: Ports,
}

/// The frames of a probe: the same through the DUT and over the tester's own cable.
pub(super) struct Probe {
    pub stream: Stream,
    pub load_pps: f64,
    pub frames: u64,
    pub at_most: Duration,
    pub nonce: u16,
    pub mode: Option<Mode>,
    pub cpus: Vec<usize>,
    pub stamps: Kind,
}

/// The result of a probe.
pub(super) struct Probed {
    pub engine: String,
    pub sent: u64,
    /// Frames among them that were sent late.
    pub made_up: u64,
    pub stalled_frames: Option<StalledFrames>,
    pub received: u64,
    pub lateness: Option<fwdlab_engine::Histogram>,
    pub analysis: Option<Analysis>,
    pub taken: StampingResult,
}

impl Probed {
    pub fn stream(&self) -> Option<&StreamAnalysis> {
        self.analysis.as_ref()?.streams.first()
    }

    /// Returns a summary of the latencies; `None` if there are no timestamps.
    pub fn latency(&self) -> Option<LatencySummary> {
        let analysis = self.analysis.as_ref()?;
        let stream = analysis.streams.first()?;
        stream.latency_summary(
            stream.lost(self.sent),
            self.stalled_frames,
            &analysis.timestamps,
        )
    }
}

impl Probe {
    /// Sends the probe from one port and timestamps it at the other.
    pub fn run(
        &self,
        tx: impl Into<TrafficPort>,
        rx: impl Into<TrafficPort>,
        destination: [u8; 6],
        signals: &Signals,
    ) -> anyhow::Result<Probed> {
        let tx = tx.into();
        let source = tx.mac().unwrap_or([2, 0, 0, 0, 0, 1]);
        let addresses = Addresses::between(source, destination);
        let frames = TestFrames::for_stream(&self.stream, &addresses, false, self.nonce)?;
        let frames = Frames::Test(frames);
        let size = self.stream.frame_size_bytes;
        let modes = match &self.mode {
            Some(mode) => std::slice::from_ref(mode),
            None if tx.interface().is_none() => Mode::of(tx.spec()),
            None => &PROBERS[..],
        };
        let schedule = Schedule {
            load: LoadPlan::Constant(self.load_pps),
            frames: Some(self.frames),
            at_most: self.at_most,
            stall_policy: STALL_POLICY,
            path: 0,
        };
        let expected = Expected {
            nonce: self.nonce,
            buffer_bytes: Some(size.buffer_bytes()),
            place: SignaturePlace::UdpPayload,
            analysis: Some(AnalysisPlan {
                streams: vec![StreamPlan {
                    id: 0,
                    ..StreamPlan::default()
                }],
            }),
        };
        let mut sending = Sending::open(tx, modes, &self.cpus, frames, schedule, size.into(), 1)?;
        sending.stamp(self.stamps)?;
        let mut receiving = Receiving::open(rx, None, expected)?;
        receiving.receiver.stamp(self.stamps)?;
        let mut session = Session::new(vec![sending], vec![receiving]);
        session.at_most = self.at_most;
        let control = signals.control();
        session.start(control)?;
        let whole = session.run(control, SECOND, &mut |_| {})?;
        let source = &mut session.sending[0].source;
        let engine = source.engine().name.to_owned();
        let found = analysis(Some(source), &mut session.receiving[0].receiver)?;
        let (analysis, taken) = found.unzip();
        Ok(Probed {
            engine,
            sent: whole.sent[0].given,
            made_up: whole.sent[0].made_up,
            stalled_frames: whole.sent[0].stalled_frames(),
            received: whole.received[0].counts.received,
            lateness: whole.sent[0].lateness.clone(),
            analysis,
            taken: taken.unwrap_or_default(),
        })
    }
}

impl Ping {
    /// Runs the command.
    pub fn run(mut self, global: &Global) -> anyhow::Result<Code> {
        self.where_
            .by_own_names([&mut self.port].into_iter().chain(&mut self.rx_port));
        let version = if self.ipv6 {
            IpVersion::Ipv6
        } else {
            IpVersion::Ipv4
        };
        let size = self.size.unwrap_or(version.smallest_frame());
        let stream = Stream::new(version, size, self.flows)?;
        let load_pps = self.load.pps(size).ok_or_else(|| {
            Usage("--load: the load of a probe must be low; for example 1kpps".into())
        })?;
        let signals = Signals::catch()?;
        let rx_name = self.rx_port.as_ref().unwrap_or(&self.port);
        let (tx, rx) = if *rx_name == self.port {
            let both = self.where_.take(&self.port, &[Role::Send, Role::Receive])?;
            let again = TrafficPort::own_port(both.spec())?;
            (both, again)
        } else {
            (
                self.where_.take(&self.port, &[Role::Send])?,
                self.where_.take(rx_name, &[Role::Receive])?,
            )
        };
        // twice the planned time, because refused frames are replaced by others
        let needs =
            Duration::from_secs_f64(self.count as f64 / load_pps) * 2 + Duration::from_secs(1);
        if self.timestamps != Timestamps::User && self.count > MOST as u64 {
            return Err(Usage(format!(
                "-c {}: departures are stored frame by frame, at most {MOST}; send fewer, or use --timestamps user",
                self.count
            ))
            .into());
        }
        let stamping = stamping::choose(self.timestamps, tx.spec(), rx.spec(), &self.engine)?;
        let probe = Probe {
            stream,
            load_pps,
            frames: self.count,
            at_most: self.duration.unwrap_or(needs),
            nonce: self.session,
            mode: Mode::named(&self.engine),
            cpus: self.cpus.clone(),
            stamps: stamping.kind,
        };
        // a cable without a DUT: the other port is the next hop
        let _answering = self.answers.start(rx.interface())?;
        let destination = match self.dst_mac {
            Some(mac) => mac.0,
            None => self.next_hop(
                tx.needs_interface("finding the next hop without --dst-mac")?,
                version,
            )?,
        };
        let quiet =
            global.verbosity() == output::Verbosity::Quiet || global.json || global.json_stream;
        if !quiet {
            output::note(&format!(
                "ping      {} to {rx_name}  {} of {size} B at {}",
                self.port,
                number::counted(self.count, "frame"),
                number::rate(load_pps)
            ));
        }
        let own = Mode::of(tx.spec())[0];
        let probed = probe.run(tx, rx, destination, &signals)?;
        let floor = if self.no_floor || signals.is_stopped() {
            None
        } else if stamping.kind == Kind::Hardware {
            Some(Err(anyhow::anyhow!(
                "the tester's own veth pair has no card to timestamp frames; connect two ports of the card and probe them instead"
            )))
        } else {
            Some(floor(&probe, own, &signals))
        };
        self.print_results(global, &stamping, &probed, floor.as_ref())?;
        Ok(match signals.code(false) {
            Code::Done if probed.received == 0 => Code::TestBed,
            Code::Done if !probed.taken.is_valid() => Code::NotValid,
            code => code,
        })
    }

    fn next_hop(&self, port: &Port, version: IpVersion) -> anyhow::Result<[u8; 6]> {
        let (source, first): (IpAddr, IpAddr) = match version {
            IpVersion::Ipv4 => ("198.18.10.1".parse()?, "198.19.10.1".parse()?),
            IpVersion::Ipv6 => ("2001:2:0:10::1".parse()?, "2001:2:0:8010::1".parse()?),
        };
        let ours = port.facts.mac.unwrap_or([2, 0, 0, 0, 0, 1]);
        let target = self.via.unwrap_or(first);
        Ok(next_hop(port, ours, source, target)?)
    }

    fn print_results(
        &self,
        global: &Global,
        stamping: &Stamping,
        probed: &Probed,
        floor: Option<&anyhow::Result<Probed>>,
    ) -> anyhow::Result<()> {
        let lost = probed.sent as i64 - probed.received as i64;
        if global.json || global.json_stream {
            let mut document = json!({
                "event": "finished",
                "port": self.port,
                "rx_port": self.rx_port.as_ref().unwrap_or(&self.port),
                "session": self.session,
                "engine": probed.engine,
                "stall_policy": STALL_POLICY.name(),
                "frames_sent": probed.sent,
                "frames_made_up": probed.made_up,
                "frames_received": probed.received,
                "frames_lost": lost,
                "timestamps": stamping::json(&probed.taken, stamping),
            });
            if let Some(latency) = probed.latency() {
                document["latency"] = json!(latency);
            }
            if let Some(Ok(floor)) = floor
                && let Some(latency) = floor.latency()
            {
                document["floor"] = json!(latency);
                document["floor_engine"] = floor.engine.clone().into();
            }
            if global.json {
                return output::json(&document);
            }
            output::result(&document.to_string());
            return Ok(());
        }
        let mut text = format!(
            "frames    {} sent by {}, {}{} received, lost {} ({})\n",
            number::count(probed.sent),
            probed.engine,
            match probed.made_up {
                0 => String::new(),
                frames => format!("{} made up, ", number::count(frames)),
            },
            number::count(probed.received),
            number::count(lost),
            number::percent(100.0 * lost as f64 / probed.sent.max(1) as f64)
        );
        match (probed.latency(), probed.stream()) {
            (Some(latency), Some(stream)) => {
                text += &format!("latency   {}\n", streams::percentiles(&latency));
                if let Some(words) = streams::describe_stalls(&latency) {
                    text += &format!("stalled   {words}\n");
                }
                match floor {
                    Some(Ok(floor)) => match floor.latency() {
                        Some(latency) => {
                            text += &format!(
                                "floor     {}  (the tester alone, {})\n",
                                streams::percentiles(&latency),
                                floor.engine
                            );
                            if let Some(words) = streams::describe_stalls(&latency) {
                                text += &format!("          {words}\n");
                            }
                        }
                        None => text += "floor     not measured\n",
                    },
                    Some(Err(error)) => text += &format!("floor     not measured: {error:#}\n"),
                    None => {}
                }
                if let Some(analysis) = &probed.analysis {
                    text += &format!("clocks    {}\n", analysis.timestamps);
                }
                text += &stamping::text(&probed.taken, stamping);
                if let Some(lateness) = &probed.lateness {
                    text += &format!(
                        "lateness  {}  (of departures; {} of the latency)\n",
                        words::distribution(lateness),
                        match stamping.kind {
                            Kind::User => "part",
                            Kind::Software | Kind::Hardware => "not part",
                        }
                    );
                }
                text += &bars(stream);
            }
            _ if probed.received == 0 => text += "latency   no frame came back\n",
            _ => text += "latency   the sending engine does not write departure times\n",
        }
        output::lines(&text);
        Ok(())
    }
}

/// Runs the probe over a cable of our own, without a DUT.
fn floor(probe: &Probe, mode: Mode, signals: &Signals) -> anyhow::Result<Probed> {
    let probe = Probe {
        frames: (probe.load_pps * FLOOR.as_secs_f64()).max(100.0) as u64,
        at_most: FLOOR * 3,
        cpus: probe.cpus.clone(),
        stream: probe.stream.clone(),
        ..*probe
    };
    if matches!(mode, Mode::Memif | Mode::Dpdk) {
        let (tx, rx) = user_space_pair(mode, 1)?;
        return probe.run(tx, rx, [2, 0, 0, 0, 0, 2], signals);
    }
    let cable = BackToBack::new(1)?;
    let (tx, rx) = cable.ports()?;
    let destination = rx.facts.mac.unwrap_or([2, 0, 0, 0, 0, 2]);
    probe.run(tx, rx, destination, signals)
}

/// Returns about [`ROWS`] rows of a histogram, whose bounds grow by a constant factor.
fn bars(stream: &StreamAnalysis) -> String {
    let buckets: Vec<(u64, u64, u64)> = stream.latency.buckets().collect();
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else {
        return String::new();
    };
    // the factor with which all times fit into the rows; at least 1.1
    let ratio = (last.1.max(1) as f64 / first.0.max(1) as f64)
        .powf(1.0 / ROWS as f64)
        .max(1.1);
    let mut rows: Vec<(u64, u64, u64)> = Vec::new();
    let mut low = first.0.max(1) as f64;
    let mut at = 0;
    while at < buckets.len() {
        let high = low * ratio;
        let mut frames = 0;
        while at < buckets.len() && (buckets[at].0 as f64) < high {
            frames += buckets[at].2;
            at += 1;
        }
        rows.push((low as u64, high as u64, frames));
        low = high;
    }
    let most = rows.iter().map(|row| row.2).max().unwrap_or(1).max(1);
    rows.iter()
        .map(|&(low, high, frames)| {
            let bar = (frames * COLUMNS).div_ceil(most) as usize;
            format!(
                "  {:>9} to {:>9}  {:>10}  {}\n",
                words::short_time(low),
                words::short_time(high),
                number::count(frames),
                "#".repeat(bar)
            )
        })
        .collect()
}
