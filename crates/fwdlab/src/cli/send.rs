//! `fwdlab send`: a sender by hand, with a line each second.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use engine::replay::{Pace, Recording, Replay};
use engine::{
    Expected, Frames, LoneReceiver, LoneSender, Mode, Schedule, SignaturePlace, TestFrames,
};
use lab::LabError;
use lab::ports::{Port, Role, destinations};
use model::link::{Layer, LinkLoad, LinkSpeed, MeanSize};
use model::trial;
use model::units::{FrameSize, Load, UnitError, parse_duration};
use packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Span, pcap};
use report::number;
use serde_json::json;

use super::Global;
use super::session::options::{Amount, Ports};
use super::session::range::Range;
use super::session::{
    FOR_EVER, Period, Receiving, SECOND, Sending, Sent, Session, Signals, Source, Steps, words,
};
use crate::exit_code::{Code, Usage};
use crate::output;

/// Flows when nobody says: 20 sources to 100 destinations.
const FLOWS: u32 = 2000;

/// Send frames on a port until told otherwise, with a line each second
///
/// Frames are UDP with right checksums and a signature by which `receive` knows them; or those of a capture file. They go to
/// addresses for benchmarks, documentation, private and link-local use only (RFC 6815), and to no port that somebody needs.
#[derive(Debug, Args)]
pub struct Send {
    /// Interface to send on; a second one sends in the reverse direction
    #[arg(long = "port", required = true, value_name = "IFACE")]
    ports: Vec<String>,
    /// Interface to count on at the same time
    #[arg(long, value_name = "IFACE")]
    rx_port: Option<String>,
    /// Frame size in bytes, FCS counted [default: 64; IPv6: 84]
    #[arg(long, value_name = "BYTES", conflicts_with = "pcap")]
    size: Option<FrameSize>,
    /// Number of flows [default: 2000, or those of --from and --to]
    #[arg(long, value_name = "N", conflicts_with_all = ["pcap", "from", "to"])]
    flows: Option<u32>,
    /// Source addresses and ports, such as 198.18.10.1-20:2000
    #[arg(long, value_name = "ADDRESSES", conflicts_with = "pcap")]
    from: Option<Range>,
    /// Destination addresses and ports, such as 198.19.10.1-100:2000
    #[arg(long, value_name = "ADDRESSES", conflicts_with = "pcap")]
    to: Option<Range>,
    /// IPv6 instead of IPv4
    #[arg(long, conflicts_with = "pcap")]
    ipv6: bool,
    /// Source MAC address, of each port [default: the port's own]
    #[arg(long, value_name = "MAC", value_delimiter = ',')]
    src_mac: Vec<Mac>,
    /// Destination MAC address, for each port [default: whoever answers for --via, or for the first destination]
    #[arg(long, value_name = "MAC", value_delimiter = ',')]
    dst_mac: Vec<Mac>,
    /// Address of the next hop, asked with ARP or neighbour discovery
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["dst_mac", "pcap"])]
    via: Option<IpAddr>,
    /// Load of each port: 1kpps, 50%, 9.4Gbps-l2, max; several, one after another [default: max; a capture: its own times]
    #[arg(long, value_name = "LOAD", value_delimiter = ',')]
    load: Vec<LinkLoad>,
    /// How long each of several loads is kept
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    every: Duration,
    /// Move evenly from load to load
    #[arg(long)]
    ramp: bool,
    /// Speed of the link, such as 1G: percentages are of this, and max is its line rate [default: the port's own]
    #[arg(long, value_name = "SPEED")]
    link: Option<LinkSpeed>,
    /// How long: 10s, 2m, 1e6frames on each port [default: until Ctrl-C; a capture: all of it]
    #[arg(long = "for", value_name = "TIME|FRAMES")]
    amount: Option<Amount>,
    /// Engine; auto takes the fastest that can send this on this port
    #[arg(long, default_value = "auto", value_parser = ["auto", "xdp-live", "af-xdp", "af-packet"])]
    engine: String,
    /// CPUs of the sending threads, one for each port [default: any]
    #[arg(long, value_delimiter = ',', value_name = "CPU")]
    cpus: Vec<usize>,
    /// Number in all signatures, by which receivers tell this session from others
    #[arg(long, value_name = "N", default_value_t = 1)]
    session: u16,
    /// Send the frames of a pcap or pcapng file as they are
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// So many times as fast as captured: 2x, 0.5x
    #[arg(long, value_name = "FACTOR", value_parser = speed, requires = "pcap", conflicts_with = "load")]
    speed: Option<f64>,
    /// The capture so many times; 0 is until Ctrl-C
    #[arg(
        long = "loop",
        value_name = "N",
        requires = "pcap",
        default_value_t = 1
    )]
    rounds: u64,
    /// Fill frames up that were not captured whole
    #[arg(long, requires = "pcap")]
    pad: bool,
    /// Send to addresses of other people too. Only in a laboratory
    #[arg(long, help_heading = "Ports that somebody may need")]
    to_any_address: bool,
    #[command(flatten)]
    where_: Ports,
}

/// A MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mac(pub [u8; 6]);

impl std::str::FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Mac, String> {
        text.parse::<model::profile::Mac>().map(|mac| Mac(mac.0))
    }
}

fn speed(text: &str) -> Result<f64, UnitError> {
    let number = text.trim().trim_end_matches('x');
    match number.parse() {
        Ok(factor) if (1e-6..=1e6).contains(&factor) => Ok(factor),
        _ => Err(UnitError {
            text: text.into(),
            what: "factor",
            why: "say 2x for twice as fast, or 0.5x".into(),
        }),
    }
}

/// What one port sends.
struct Planned {
    port: Port,
    what: What,
    mean: MeanSize,
}

enum What {
    Frames(Frames),
    Recording(Arc<Recording>),
}

/// A load in words and in frames per second; `None` is flat out.
#[derive(Debug, Clone, PartialEq)]
struct Resolved {
    words: String,
    pps: Option<f64>,
}

impl Send {
    /// Runs it.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        if self.ports.len() > 2 {
            return Err(Usage("--port: one port, or two for both directions".into()).into());
        }
        // wrong use first: nothing is touched for it
        let recording = self
            .pcap
            .as_deref()
            .map(|path| self.recording(path))
            .transpose()?;
        let flows = match &recording {
            None => Some(self.flow_set()?),
            Some(_) => None,
        };
        let planned: Vec<Planned> = (self.ports.iter().enumerate())
            .map(|(at, interface)| self.plan(at, interface, flows, recording.as_ref()))
            .collect::<anyhow::Result<_>>()?;
        let loads = (planned.iter().map(|planned| self.loads(planned)))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let signals = Signals::catch()?;
        let mut sending = Vec::new();
        for (at, (planned, loads)) in planned.into_iter().zip(&loads).enumerate() {
            sending.push(self.open(at, planned, loads)?);
        }
        let receiving = match &self.rx_port {
            None => Vec::new(),
            Some(interface) => {
                let port = self.where_.take(interface, &[Role::Receive])?;
                let receiver = LoneReceiver::open(&port.spec, None)?;
                vec![Receiving {
                    port,
                    receiver,
                    expected: Expected {
                        nonce: self.session,
                        buffer_bytes: None,
                        place: SignaturePlace::UdpPayload,
                        analysis: None,
                    },
                }]
            }
        };
        let mut session = Session {
            sending,
            receiving,
            at_most: self.at_most(),
            receive_at_most: None,
            interval: SECOND,
        };
        let begun = session.begin(&signals)?;
        self.tell_begin(global, &mut session, &loads);
        let (senders, receivers) = (names(&self.ports), names(self.rx_port.as_slice()));
        let quiet = global.verbosity() == output::Verbosity::Quiet || global.json;
        let whole = session.run(begun, &signals, &mut |second| {
            if global.json_stream {
                output::result(
                    &words::period_json("second", &senders, &receivers, second).to_string(),
                );
            } else if !quiet {
                for (port, sent) in senders.iter().zip(&second.sent) {
                    output::note(&words::sent_line(port, second.at_s, sent));
                }
                for (port, received) in receivers.iter().zip(&second.received) {
                    output::note(&words::received_line(port, second.at_s, received));
                }
            }
        })?;
        self.tell_end(global, &mut session, &loads, &whole)?;
        let endless = self.amount.is_none() && (self.pcap.is_none() || self.rounds == 0);
        Ok(match signals.code(endless) {
            Code::Done if whole.sent.iter().any(Sent::is_limited) => Code::NotValid,
            code => code,
        })
    }

    fn at_most(&self) -> Duration {
        match self.amount {
            Some(Amount::Time(time)) => time,
            _ => FOR_EVER,
        }
    }

    fn version(&self) -> IpVersion {
        let said = self.from.or(self.to).map(|range| range.first.is_ipv6());
        match said.unwrap_or(self.ipv6) {
            true => IpVersion::V6,
            false => IpVersion::V4,
        }
    }

    fn frame_size(&self) -> anyhow::Result<FrameSize> {
        let version = match self.version() {
            IpVersion::V4 => trial::IpVersion::Ipv4,
            IpVersion::V6 => trial::IpVersion::Ipv6,
        };
        let size = self.size.unwrap_or(version.smallest_frame());
        // says why when there is no room
        trial::Stream::new(version, size, 1)?;
        Ok(size)
    }

    /// The flows of the forward direction.
    fn flow_set(&self) -> anyhow::Result<FlowSet> {
        let version = self.version();
        self.frame_size()?;
        if self.from.is_none() && self.to.is_none() {
            let flows = self.flows.unwrap_or(FLOWS);
            let set = match version {
                IpVersion::V4 => FlowSet::default_v4(flows),
                IpVersion::V6 => FlowSet::default_v6(flows),
            };
            return set.map_err(|e| Usage(format!("--flows: {e}")).into());
        }
        let default = |text: &str| text.parse::<Range>();
        let (from, to) = match version {
            IpVersion::V4 => (default("198.18.10.1")?, default("198.19.10.1")?),
            IpVersion::V6 => (default("2001:2:0:10::1")?, default("2001:2:0:8010::1")?),
        };
        let (from, to) = (self.from.unwrap_or(from), self.to.unwrap_or(to));
        if !self.to_any_address {
            destinations::check([(to.first, to.last)])?;
        }
        let ports = |range: Range| {
            let (first, last) = range.ports.unwrap_or((2000, 2000));
            Span {
                first,
                count: u32::from(last - first) + 1,
            }
        };
        let too_many = || Usage("--from and --to: more addresses than can be counted".into());
        let (sources, targets) = (
            from.count().ok_or_else(too_many)?,
            to.count().ok_or_else(too_many)?,
        );
        let set = match (from.first, to.first) {
            (IpAddr::V4(source), IpAddr::V4(target)) => FlowSet::v4(
                Span {
                    first: source,
                    count: sources,
                },
                Span {
                    first: target,
                    count: targets,
                },
                ports(from),
                ports(to),
            ),
            (IpAddr::V6(source), IpAddr::V6(target)) => FlowSet::v6(
                Span {
                    first: source,
                    count: sources,
                },
                Span {
                    first: target,
                    count: targets,
                },
                ports(from),
                ports(to),
            ),
            _ => {
                return Err(Usage("--from and --to: one is IPv4 and the other IPv6".into()).into());
            }
        };
        set.map_err(|e| Usage(format!("--from and --to: {e}")).into())
    }

    /// All frames of a capture file.
    fn recording(&self, path: &Path) -> anyhow::Result<Recording> {
        let wrong = |what: String| Usage(format!("{}: {what}", path.display()));
        let bytes = std::fs::read(path)
            .map_err(|e| Usage(format!("cannot read the capture {}: {e}", path.display())))?;
        let mut frames: Vec<(u64, Vec<u8>)> = Vec::new();
        for (number, frame) in (1..).zip(pcap::frames(&bytes)) {
            let frame = frame.map_err(|e| wrong(e.to_string()))?;
            if frame.link_type != pcap::ETHERNET {
                return Err(wrong(format!(
                    "frame {number} is not an Ethernet frame (link type {})",
                    frame.link_type
                ))
                .into());
            }
            let mut whole = frame.bytes.to_vec();
            if frame.original_len as usize > whole.len() {
                if !self.pad {
                    return Err(wrong(format!(
                        "of frame {number} only {} of {} bytes were captured; with --pad the rest is sent as zeros",
                        whole.len(),
                        frame.original_len
                    ))
                    .into());
                }
                whole.resize((frame.original_len as usize).min(pcap::MAX_FRAME_BYTES), 0);
            }
            whole.truncate(whole.len().saturating_sub(usize::from(frame.fcs_len)));
            if whole.len() < 14 {
                return Err(
                    wrong(format!("frame {number} is shorter than an Ethernet header")).into(),
                );
            }
            if let Some(to) = destinations::of_frame(&whole).filter(|_| !self.to_any_address) {
                destinations::check([(to, to)]).map_err(|e| {
                    LabError::Preflight(format!("frame {number} of {}: {e}", path.display()))
                })?;
            }
            frames.push((frame.timestamp_ns, whole));
        }
        if frames.is_empty() {
            return Err(wrong("the capture has no frames".into()).into());
        }
        Ok(Recording::new(
            frames.iter().map(|(at, bytes)| (*at, bytes.as_slice())),
        ))
    }

    fn plan(
        &self,
        at: usize,
        interface: &str,
        flows: Option<FlowSet>,
        recording: Option<&Recording>,
    ) -> anyhow::Result<Planned> {
        let port = self.where_.take(interface, &[Role::Send])?;
        let source = match self.src_mac.get(at).or(self.src_mac.first()) {
            Some(mac) => Some(mac.0),
            None => port.facts.mac,
        };
        if let Some(recording) = recording {
            let recording = self.readdressed(recording, at);
            let longest = (0..recording.len()).map(|n| recording.frame(n).len()).max();
            let most = port.facts.mtu as usize + 18;
            if longest.unwrap_or(0) > most {
                return Err(LabError::Preflight(format!(
                    "the longest frame has {} bytes, and {interface} takes {most} (its MTU is {}). Raise it with: \
                     ip link set {interface} mtu {}",
                    longest.unwrap_or(0),
                    port.facts.mtu,
                    longest.unwrap_or(0) - 14
                ))
                .into());
            }
            let frames = recording.len() as u64;
            let mean = MeanSize::new(recording.bytes() + 4 * frames, frames)
                .context("frames without contents")?;
            return Ok(Planned {
                port,
                what: What::Recording(Arc::new(recording)),
                mean,
            });
        }
        let flows = flows.context("neither flows nor a recording")?;
        let flows = if at == 1 { flows.reversed() } else { flows };
        let source = source.ok_or_else(|| {
            Usage(format!(
                "{interface} has no Ethernet address of its own; say --src-mac"
            ))
        })?;
        let destination = match self.dst_mac.get(at).or(self.dst_mac.first()) {
            Some(mac) => mac.0,
            None => self.next_hop(&port, source, &flows)?,
        };
        let size = self.frame_size()?;
        let template = FrameTemplate::new(&FrameSpec {
            source: MacAddr(source),
            destination: MacAddr(destination),
            version: flows.version(),
            frame_size: size.bytes(),
        })
        .map_err(|e| Usage(e.to_string()))?;
        Ok(Planned {
            port,
            what: What::Frames(Frames::Test(TestFrames {
                template,
                flows,
                nonce: self.session,
            })),
            mean: size.into(),
        })
    }

    /// The recording with the MAC addresses that were asked for.
    fn readdressed(&self, recording: &Recording, at: usize) -> Recording {
        let source = self.src_mac.get(at).or(self.src_mac.first());
        let destination = self.dst_mac.get(at).or(self.dst_mac.first());
        if source.is_none() && destination.is_none() {
            return recording.clone();
        }
        recording.map(|frame| {
            if let Some(mac) = destination {
                frame[..6].copy_from_slice(&mac.0);
            }
            if let Some(mac) = source {
                frame[6..12].copy_from_slice(&mac.0);
            }
        })
    }

    fn next_hop(&self, port: &Port, ours: [u8; 6], flows: &FlowSet) -> anyhow::Result<[u8; 6]> {
        let (source, first) = match flows.flow(0).addresses {
            packet::Addresses::V4 {
                source,
                destination,
            } => (IpAddr::from(source), IpAddr::from(destination)),
            packet::Addresses::V6 {
                source,
                destination,
            } => (IpAddr::from(source), IpAddr::from(destination)),
        };
        let target = self.via.unwrap_or(first);
        let found = engine::resolve::resolve(&port.spec, ours, source, target)?;
        found.ok_or_else(|| {
            LabError::Preflight(format!(
                "nobody on {} answers for {target} ({}). Say where frames go: --dst-mac MAC, or --via ADDRESS of the next hop",
                port.spec.interface,
                if target.is_ipv4() { "ARP" } else { "neighbour discovery" }
            ))
            .into()
        })
    }

    fn loads(&self, planned: &Planned) -> anyhow::Result<Vec<Resolved>> {
        let link = self.link.or(planned
            .port
            .facts
            .speed_bps
            .and_then(|bps| format!("{}M", bps / 1_000_000).parse().ok()));
        if self.load.is_empty() {
            if matches!(planned.what, What::Recording(_)) {
                let words = match self.speed {
                    None => "its own times".into(),
                    Some(factor) => format!("its own times, {factor} times as fast"),
                };
                return Ok(vec![Resolved { words, pps: None }]);
            }
            return Ok(vec![resolve(
                LinkLoad::Load(Load::Max),
                planned,
                self.link,
                link,
            )?]);
        }
        let loads: Vec<Resolved> = (self.load.iter())
            .map(|&load| resolve(load, planned, self.link, link))
            .collect::<anyhow::Result<_>>()?;
        if loads.len() > 1 && loads.iter().any(|load| load.pps.is_none()) {
            return Err(Usage("--load: max is flat out and has no place among several; with --link it is the line rate".into()).into());
        }
        if loads.len() > 1 && matches!(planned.what, What::Recording(_)) {
            return Err(Usage("--load: a capture is sent at one load".into()).into());
        }
        Ok(loads)
    }

    fn open(&self, at: usize, planned: Planned, loads: &[Resolved]) -> anyhow::Result<Sending> {
        let cpus = self.cpus.get(at).or(self.cpus.first());
        let cpus: Vec<usize> = cpus.copied().into_iter().collect();
        let source = match planned.what {
            What::Frames(frames) => {
                let mode = Mode::ALL
                    .into_iter()
                    .find(|mode| mode.name() == self.engine);
                let mut lone = LoneSender::open(&planned.port.spec, mode, &cpus)?;
                lone.arm(&frames)?;
                Source::Engine(Box::new(lone), Box::new(frames))
            }
            What::Recording(recording) => {
                if !["auto", "af-packet"].contains(&self.engine.as_str()) {
                    return Err(Usage(format!(
                        "--engine {}: captures are sent by af-packet, which keeps the time of each frame",
                        self.engine
                    ))
                    .into());
                }
                let pace = match (self.load.is_empty(), self.speed) {
                    (true, factor) => Pace::Own {
                        speed: factor.unwrap_or(1.0),
                    },
                    (false, _) => Pace::Schedule,
                };
                let rounds = if self.rounds == 0 {
                    u64::MAX
                } else {
                    self.rounds
                };
                Source::Replay(Box::new(Replay::open(
                    &planned.port.spec,
                    recording,
                    pace,
                    rounds,
                    &cpus,
                )?))
            }
        };
        let frames = match self.amount {
            Some(Amount::Frames(frames)) => Some(frames),
            _ => None,
        };
        Ok(Sending {
            port: planned.port,
            source,
            schedule: Schedule {
                load_pps: loads[0].pps,
                frames,
                at_most: self.at_most(),
                path: 0,
            },
            steps: Steps {
                loads_pps: loads.iter().map(|load| load.pps).collect(),
                every: self.every,
                ramp: self.ramp,
            },
            mean: planned.mean,
        })
    }

    fn tell_begin(&self, global: &Global, session: &mut Session, loads: &[Vec<Resolved>]) {
        let amount = match self.amount {
            Some(Amount::Time(time)) => format!("for {}", number::seconds(time.as_secs_f64())),
            Some(Amount::Frames(frames)) => format!("{} frames", number::count(frames)),
            None if self.pcap.is_some() && self.rounds > 0 => "all of it".into(),
            None => "until Ctrl-C".into(),
        };
        let resolved = |loads: &[Resolved]| -> Vec<String> {
            loads.iter().map(|load| load.words.clone()).collect()
        };
        if global.json_stream {
            let ports: Vec<_> = (session.sending.iter_mut().zip(loads))
                .map(|(sending, loads)| {
                    let (engine, rejected) = sending.source.engine();
                    json!({
                        "port": sending.port.spec.interface,
                        "engine": engine,
                        "engines_not_taken": rejected,
                        "loads": resolved(loads),
                        "mean_size_bytes": sending.mean.bytes(),
                    })
                })
                .collect();
            let event =
                json!({"event": "started", "format": 1, "session": self.session, "send": ports});
            output::result(&event.to_string());
            return;
        }
        if global.verbosity() == output::Verbosity::Quiet || global.json {
            return;
        }
        for (sending, loads) in session.sending.iter_mut().zip(loads) {
            let (engine, rejected) = sending.source.engine();
            output::note(&format!(
                "send      {}  {}  {amount}",
                sending.port.spec.interface,
                self.frames_in_words(sending.mean)
            ));
            output::note(&format!("load      {}", resolved(loads).join(", then ")));
            output::note(&format!("engine    {engine}"));
            for reason in rejected {
                output::note(&format!("          not {reason}"));
            }
        }
    }

    fn frames_in_words(&self, mean: MeanSize) -> String {
        match &self.pcap {
            Some(path) => format!("{} (mean {:.1} B)", path.display(), mean.bytes()),
            None => {
                let flows = self.flow_set().map_or(0, |set| set.len());
                format!(
                    "{:.0} B, {}, {} flows",
                    mean.bytes(),
                    match self.version() {
                        IpVersion::V4 => "IPv4",
                        IpVersion::V6 => "IPv6",
                    },
                    number::count(flows)
                )
            }
        }
    }

    fn tell_end(
        &self,
        global: &Global,
        session: &mut Session,
        loads: &[Vec<Resolved>],
        whole: &Period,
    ) -> anyhow::Result<()> {
        let (senders, receivers) = (names(&self.ports), names(self.rx_port.as_slice()));
        let mut document = words::period_json("finished", &senders, &receivers, whole);
        document["session"] = self.session.into();
        for ((sending, loads), value) in (session.sending.iter_mut().zip(loads))
            .zip(document["send"].as_array_mut().into_iter().flatten())
        {
            let (engine, rejected) = sending.source.engine();
            value["engine"] = engine.into();
            value["engines_not_taken"] = rejected.into();
            let words: Vec<&str> = loads.iter().map(|load| load.words.as_str()).collect();
            value["loads"] = words.into();
        }
        if global.json {
            return output::json(&document);
        }
        if global.json_stream {
            output::result(&document.to_string());
            return Ok(());
        }
        for (port, sent) in senders.iter().zip(&whole.sent) {
            let mut text = format!(
                "sent      {port}  {} frames in {}: {}, {} L1, {} L2",
                number::count(sent.frames),
                number::seconds(whole.duration_s),
                number::rate(sent.rate_pps),
                number::bits_per_second(sent.l1_bps),
                number::bits_per_second(sent.l2_bps),
            );
            if sent.not_sent > 0 {
                text += &format!(
                    "\nnot sent  {port}  {} frames that were due: this host held the sender up, or the port had no room{}",
                    number::count(sent.not_sent),
                    if sent.is_limited() {
                        "\n          the load was not reached: the generator is the limit"
                    } else {
                        ""
                    }
                );
            }
            text += &format!(
                "\nport      {port}  tx_packets {}  tx_dropped {}  ring full {}  system calls {}",
                number::count(sent.port.tx_packets),
                number::count(sent.port.tx_dropped),
                number::count(sent.ring_full),
                number::count(sent.wakeups),
            );
            if let Some(lateness) = &sent.lateness {
                text += &format!("\nlateness  {port}  {}", words::distribution(lateness));
            }
            output::result(&text);
        }
        let sent: u64 = whole.sent.iter().map(|sent| sent.frames).sum();
        for (port, received) in receivers.iter().zip(&whole.received) {
            let counts = &received.counts;
            let lost = sent as i64 - counts.received as i64;
            output::result(&format!(
                "received  {port}  {} frames of ours, {} foreign; lost {} ({})",
                number::count(counts.received),
                number::count(counts.foreign),
                number::count(lost),
                number::percent(100.0 * lost as f64 / sent.max(1) as f64),
            ));
        }
        Ok(())
    }
}

/// A load for a port: in frames per second, and in words that say what was understood.
fn resolve(
    load: LinkLoad,
    planned: &Planned,
    emulated: Option<LinkSpeed>,
    link: Option<LinkSpeed>,
) -> anyhow::Result<Resolved> {
    let (mean, name) = (planned.mean, &planned.port.spec.interface);
    let line = |link: LinkSpeed| format!("{} L1", number::bits_per_second(link.bps() as f64));
    let at = format!("at {} B", trimmed(format!("{:.1}", mean.bytes())));
    let mut pps = match (load, link) {
        (LinkLoad::Share(_), None) => {
            return Err(Usage(format!(
                "--load {load}: {name} is a virtual port without a speed, so there is nothing to take percent of. Say --link \
                 1G, or a load such as 1Mpps"
            ))
            .into());
        }
        (LinkLoad::Load(Load::Max), _) if emulated.is_none() => {
            return Ok(Resolved {
                words: "max: as fast as the engine can".into(),
                pps: None,
            });
        }
        (load, Some(link)) => load.pps(mean, link),
        (LinkLoad::Load(load), None) => load.pps(mean).context("a load without a rate")?,
    };
    let mut words = match (load, link) {
        (LinkLoad::Share(_), Some(link)) => {
            format!("{load} of {} = {} {at}", line(link), exact(pps))
        }
        (LinkLoad::Load(Load::Max), Some(link)) => {
            format!("max of {} = {} {at}", line(link), exact(pps))
        }
        (LinkLoad::Load(Load::Frames(_)), _) => format!(
            "{} = {} L1 {at}",
            exact(pps),
            number::bits_per_second(mean.bps(Layer::L1, pps))
        ),
        _ => format!("{load} = {} {at}", exact(pps)),
    };
    if let Some(link) = emulated {
        let most = link.line_rate_pps(mean);
        if pps > most {
            pps = most;
            words += &format!(", held at the line rate of {}: {}", line(link), exact(most));
        }
    }
    Ok(Resolved {
        words,
        pps: Some(pps),
    })
}

/// A rate with six digits: what was typed can be checked against it.
fn exact(pps: f64) -> String {
    let (value, unit) = match pps {
        v if v >= 1e6 => (v / 1e6, "Mpps"),
        v if v >= 1e3 => (v / 1e3, "kpps"),
        v => (v, "pps"),
    };
    let digits = match value {
        v if v >= 100.0 => 3,
        v if v >= 10.0 => 4,
        _ => 5,
    };
    format!("{} {unit}", trimmed(format!("{value:.digits$}")))
}

fn trimmed(number: String) -> String {
    match number.contains('.') {
        true => number
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
        false => number,
    }
}

fn names(ports: &[String]) -> Vec<String> {
    ports.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_said_with_six_digits() {
        for (pps, words) in [
            (744_047.619, "744.048 kpps"),
            (1_488_095.2, "1.4881 Mpps"),
            (14_880_952.0, "14.881 Mpps"),
            (1000.0, "1 kpps"),
            (0.5, "0.5 pps"),
        ] {
            assert_eq!(exact(pps), words);
        }
    }

    #[test]
    fn speeds_of_a_capture() {
        assert_eq!((speed("2x"), speed("0.5")), (Ok(2.0), Ok(0.5)));
        for bad in ["", "x", "0x", "-1x", "nanx", "infx"] {
            assert!(speed(bad).is_err(), "{bad}");
        }
    }
}
