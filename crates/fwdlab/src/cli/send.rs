//! `fwdlab send`: a sender by hand, with a line each second.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use engine::replay::{Pace, Recording, Replay};
use engine::traffic::compile::{Direction, Setting, compile};
use engine::traffic::player::{Player, own_load_pps};
use engine::{
    Addresses, Expected, Frames, LoneReceiver, LoneSender, Mode, Schedule, SignaturePlace,
    TestFrames, TrafficFrames,
};
use lab::LabError;
use lab::ports::{Port, Role, destinations};
use model::link::{Layer, LinkLoad, LinkSpeed, MeanSize};
use model::profile::Profile;
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
use crate::profiles::{self, Loaded};

/// Frames of a profile that are looked at for their sizes and destinations before anything is sent.
const LOOKED_AT: u64 = 50_000;

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
    /// Traffic profile: a name (`fwdlab profile ls`) or a file
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["pcap", "size", "flows", "from", "to", "ipv6"])]
    profile: Option<String>,
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
    /// VLAN tag of all frames
    #[arg(long, value_name = "ID", conflicts_with = "pcap", value_parser = clap::value_parser!(u16).range(0..4096))]
    vlan: Option<u16>,
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

/// What was asked for, before it is known for which port.
enum Wanted {
    /// Flows of UDP frames of one size.
    Flows(FlowSet),
    /// A profile.
    Profile(Box<Loaded>),
    /// A capture.
    Recording(Recording),
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
        let wanted = self.wanted()?;
        let planned: Vec<Planned> = (self.ports.iter().enumerate())
            .map(|(at, interface)| self.plan(at, interface, &wanted))
            .collect::<anyhow::Result<_>>()?;
        let loads = (planned.iter().map(|planned| self.loads(planned, &wanted)))
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
                let place = match sending.first().map(|sending| &sending.source) {
                    Some(Source::Engine(_, frames)) => place_of(frames),
                    _ => SignaturePlace::UdpPayload,
                };
                vec![Receiving {
                    port,
                    receiver,
                    expected: Expected {
                        nonce: self.session,
                        buffer_bytes: None,
                        place,
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

    fn wanted(&self) -> anyhow::Result<Wanted> {
        if let Some(path) = &self.pcap {
            return Ok(Wanted::Recording(self.recording(path)?));
        }
        if let Some(name) = &self.profile {
            return Ok(Wanted::Profile(Box::new(profiles::load(name)?)));
        }
        self.frame_size()?;
        let flows = self.flow_set()?;
        match flows {
            Some(flows) if self.vlan.is_none() => Ok(Wanted::Flows(flows)),
            _ => {
                let profile = Profile::parse("what was typed", &self.as_profile())?;
                Ok(Wanted::Profile(Box::new(Loaded {
                    profile,
                    path: None,
                })))
            }
        }
    }

    /// What was typed as a profile, for what flow sets of the benchmark blocks cannot say.
    fn as_profile(&self) -> String {
        let (ip, from, to) = match self.version() {
            IpVersion::V4 => ("ipv4", "198.18.10.1", "198.19.10.1"),
            IpVersion::V6 => ("ipv6", "2001:2:0:10::1", "2001:2:0:8010::1"),
        };
        let mut text = format!("[[stream]]\nlayers = [\"{ip}\", \"udp\"]\n");
        if let Some(size) = self.size {
            text += &format!("size = {size}\n");
        }
        if self.from.is_none() && self.to.is_none() {
            return text + &format!("flows = {}\n", self.flows.unwrap_or(FLOWS));
        }
        let mut vary = Vec::new();
        for (range, default, end) in [(self.to, to, "destination"), (self.from, from, "source")] {
            let (first, last, ports) = match range {
                Some(range) => (range.first.to_string(), range.last.to_string(), range.ports),
                None => (default.into(), default.into(), None),
            };
            vary.push(format!(
                "{{ field = \"{ip}.{end}\", from = \"{first}\", to = \"{last}\" }}"
            ));
            if let Some((first, last)) = ports {
                vary.push(format!(
                    "{{ field = \"udp.{end}-port\", from = {first}, to = {last} }}"
                ));
            }
        }
        text + &format!("vary = [{}]\n", vary.join(", "))
    }

    /// The flows of the forward direction; `None` when they are not in the halves of the benchmark blocks.
    fn flow_set(&self) -> anyhow::Result<Option<FlowSet>> {
        let version = self.version();
        if self.from.is_none() && self.to.is_none() {
            let flows = self.flows.unwrap_or(FLOWS);
            let set = match version {
                IpVersion::V4 => FlowSet::default_v4(flows),
                IpVersion::V6 => FlowSet::default_v6(flows),
            };
            return Ok(Some(set.map_err(|e| Usage(format!("--flows: {e}")))?));
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
        Ok(set.ok())
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

    fn plan(&self, at: usize, interface: &str, wanted: &Wanted) -> anyhow::Result<Planned> {
        let port = self.where_.take(interface, &[Role::Send])?;
        let (what, mean) = match wanted {
            Wanted::Recording(recording) => self.plan_recording(at, &port, recording)?,
            Wanted::Profile(loaded) => self.plan_profile(at, &port, loaded)?,
            Wanted::Flows(flows) => {
                let flows = if at == 1 { flows.reversed() } else { *flows };
                let (from, to) = match flows.flow(0).addresses {
                    packet::Addresses::V4 {
                        source,
                        destination,
                    } => (IpAddr::from(source), IpAddr::from(destination)),
                    packet::Addresses::V6 {
                        source,
                        destination,
                    } => (IpAddr::from(source), IpAddr::from(destination)),
                };
                let source = self.source_mac(at, &port)?;
                let destination = self.destination_mac(at, &port, source, Some((from, to)))?;
                let size = self.frame_size()?;
                let template = FrameTemplate::new(&FrameSpec {
                    source: MacAddr(source),
                    destination: MacAddr(destination),
                    version: flows.version(),
                    frame_size: size.bytes(),
                })
                .map_err(|e| Usage(e.to_string()))?;
                let frames = Frames::Test(TestFrames {
                    template,
                    flows,
                    nonce: self.session,
                });
                (What::Frames(frames), size.into())
            }
        };
        Ok(Planned { port, what, mean })
    }

    fn plan_recording(
        &self,
        at: usize,
        port: &Port,
        recording: &Recording,
    ) -> anyhow::Result<(What, MeanSize)> {
        let recording = self.readdressed(recording, at);
        let longest = (0..recording.len()).map(|n| recording.frame(n).len()).max();
        fits(port, longest.unwrap_or(0))?;
        let frames = recording.len() as u64;
        let mean = MeanSize::new(recording.bytes() + 4 * frames, frames)
            .context("frames without contents")?;
        Ok((What::Recording(Arc::new(recording)), mean))
    }

    fn plan_profile(
        &self,
        at: usize,
        port: &Port,
        loaded: &Loaded,
    ) -> anyhow::Result<(What, MeanSize)> {
        let source_mac = self.source_mac(at, port)?;
        let compiled = |destination_mac| -> anyhow::Result<TrafficFrames> {
            let compiled = compile(
                &loaded.profile,
                &Setting {
                    direction: match at {
                        0 => Direction::Forward,
                        _ => Direction::Reverse,
                    },
                    addresses: Addresses {
                        source_mac,
                        destination_mac,
                    },
                    vlan: self.vlan,
                    link: self.link_of(port),
                    read: &|name| loaded.read_capture(name),
                },
            )?;
            Ok(TrafficFrames {
                traffic: Arc::new(compiled.traffic),
                nonce: self.session,
            })
        };
        // the first look says where the frames go, and so whom to ask for the next hop
        let look = look(&compiled([2, 0, 0, 0, 0, 2])?)?;
        fits(port, look.longest)?;
        if !self.to_any_address {
            destinations::check(look.destinations.iter().map(|&to| (to, to)))?;
        }
        let destination = self.destination_mac(at, port, source_mac, look.first)?;
        Ok((
            What::Frames(Frames::Traffic(compiled(destination)?)),
            look.mean,
        ))
    }

    fn source_mac(&self, at: usize, port: &Port) -> anyhow::Result<[u8; 6]> {
        let said = self.src_mac.get(at).or(self.src_mac.first());
        said.map(|mac| mac.0).or(port.facts.mac).ok_or_else(|| {
            Usage(format!(
                "{} has no Ethernet address of its own; say --src-mac",
                port.spec.interface
            ))
            .into()
        })
    }

    fn link_of(&self, port: &Port) -> Option<LinkSpeed> {
        self.link.or_else(|| {
            let own = port.facts.speed_bps?;
            format!("{}M", own / 1_000_000).parse().ok()
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

    /// As said, or asked of the next hop: `first` are source and destination of the first frame that has some.
    fn destination_mac(
        &self,
        at: usize,
        port: &Port,
        ours: [u8; 6],
        first: Option<(IpAddr, IpAddr)>,
    ) -> anyhow::Result<[u8; 6]> {
        if let Some(mac) = self.dst_mac.get(at).or(self.dst_mac.first()) {
            return Ok(mac.0);
        }
        let say = "Say where frames go: --dst-mac MAC, or --via ADDRESS of the next hop";
        let Some((source, target)) = first else {
            return Err(Usage(format!("the frames have no IP addresses. {say}")).into());
        };
        let target = self.via.unwrap_or(target);
        let found = engine::resolve::resolve(&port.spec, ours, source, target)?;
        found.ok_or_else(|| {
            LabError::Preflight(format!(
                "nobody on {} answers for {target} ({}). {say}",
                port.spec.interface,
                if target.is_ipv4() {
                    "ARP"
                } else {
                    "neighbour discovery"
                }
            ))
            .into()
        })
    }

    fn loads(&self, planned: &Planned, wanted: &Wanted) -> anyhow::Result<Vec<Resolved>> {
        let own_rate = match wanted {
            Wanted::Profile(loaded) => {
                let profile = &loaded.profile;
                profile.rate.is_some() || profile.streams.iter().any(|stream| stream.rate.is_some())
            }
            _ => false,
        };
        let link = self.link_of(&planned.port);
        if self.load.is_empty() {
            if matches!(planned.what, What::Recording(_)) {
                let words = match self.speed {
                    None => "its own times".into(),
                    Some(factor) => format!("its own times, {factor} times as fast"),
                };
                return Ok(vec![Resolved { words, pps: None }]);
            }
            if let What::Frames(Frames::Traffic(frames)) = &planned.what
                && self.profile.is_some()
                && (own_rate || link.is_some())
            {
                let own = own_load_pps(&frames.traffic);
                return Ok(vec![Resolved {
                    words: format!("the profile's own: {}", exact(own)),
                    pps: Some(own),
                }]);
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
        if let Some(path) = &self.pcap {
            return format!("{} (mean {:.1} B)", path.display(), mean.bytes());
        }
        if let Some(name) = &self.profile {
            return format!("profile {name} (mean {:.1} B)", mean.bytes());
        }
        let version = match self.version() {
            IpVersion::V4 => "IPv4",
            IpVersion::V6 => "IPv6",
        };
        let flows = match (&self.from, &self.to) {
            (None, None) => format!("{} flows", number::count(self.flows.unwrap_or(FLOWS))),
            _ => "flows as typed".into(),
        };
        format!("{:.0} B, {version}, {flows}", mean.bytes())
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

/// What frames are like, from the first of them.
struct Look {
    mean: MeanSize,
    longest: usize,
    /// Source and destination of the first frame that has some.
    first: Option<(IpAddr, IpAddr)>,
    destinations: BTreeSet<IpAddr>,
}

fn look(frames: &TrafficFrames) -> anyhow::Result<Look> {
    let mut player = Player::new(frames, None)?;
    let mut buffer = vec![0; player.buffer_len()];
    let (mut count, mut bytes) = (0_u64, 0_u64);
    let mut look = Look {
        mean: FrameSize::MIN.into(),
        longest: 0,
        first: None,
        destinations: BTreeSet::new(),
    };
    while count < LOOKED_AT {
        let len = player.take(&mut buffer, None, 0);
        if len == 0 {
            break;
        }
        count += 1;
        bytes += len as u64 + 4;
        look.longest = look.longest.max(len);
        if let Some(to) = destinations::of_frame(&buffer[..len]) {
            look.destinations.insert(to);
            if look.first.is_none() {
                look.first = destinations::source_of_frame(&buffer[..len]).map(|from| (from, to));
            }
        }
    }
    look.mean = MeanSize::new(bytes, count).context("frames without contents")?;
    Ok(look)
}

/// Where frames carry their signature.
fn place_of(frames: &Frames) -> SignaturePlace {
    match frames {
        Frames::Traffic(frames) => frames.traffic.place(),
        Frames::Test(_) => None,
    }
    .unwrap_or(SignaturePlace::UdpPayload)
}

/// Does a port take frames so long, without FCS?
fn fits(port: &Port, bytes: usize) -> Result<(), LabError> {
    let name = &port.spec.interface;
    let most = port.facts.mtu as usize + 18;
    if bytes <= most {
        return Ok(());
    }
    Err(LabError::Preflight(format!(
        "the longest frame has {bytes} bytes without FCS, and {name} takes {most} (its MTU is {}). Raise it with: ip link set \
         {name} mtu {}",
        port.facts.mtu,
        bytes - 14
    )))
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
