//! `fwdlab send`: sends frames by hand, with a line each second.
//!
//! - [`frames`]: the frames;
//! - [`loads`]: the loads;
//! - [`display`]: the output.
//!
//! Start with [`Send::run`].

mod display;
mod frames;
mod loads;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::Args;
use fwdlab_engine::replay::Pace;
use fwdlab_engine::stamps::Kind;
use fwdlab_engine::traffic::expect::Expectation;
use fwdlab_engine::traffic::player::own_load_pps;
use fwdlab_engine::{Expected, Frames, LoadPlan, Mode, Schedule, SignaturePlace};
use fwdlab_lab::ports::{Role, TrafficPort};
use fwdlab_lab::session::stamping::{Stamping, StampingResult};
use fwdlab_lab::session::{FOR_EVER, Receiving, Sending, Sent, Session, Source};
use fwdlab_model::link::{LinkLoad, LinkSpeed};
use fwdlab_model::procedure::Stretch;
use fwdlab_model::profile::{Mac, Stream};
use fwdlab_model::units::{FrameSize, UnitError, parse_duration};

pub(super) use self::frames::{FLOWS, LOOKED_AT, Planned, signature_place};
use self::frames::{FrameKind, FrameRequest};
use self::loads::Resolved;
use super::Global;
use super::session::options::{Amount, OnStall, Ports, Timestamps};
use super::session::range::Range;
use super::session::streams::{self, SentOfStreams, StreamEnd};
use super::session::{SECOND, Signals, stamping, words};
use crate::exit_code::{Code, Usage};
use crate::output;

/// Send frames on a port, with a line of output each second
///
/// Frames are UDP with correct checksums and a signature that `receive` recognises, or the frames
/// of a capture file. They are sent only to addresses for benchmarking, documentation, private and
/// link-local use (RFC 6815), and not on ports that are in use.
#[derive(Debug, Args)]
pub struct Send {
    /// Interface to send on, a memif port such as memif:SOCKET,role=server, or a DPDK port such as
    /// dpdk:0000:03:00.0; a second one sends
    /// in the reverse direction
    #[arg(long = "port", required = true, value_name = "PORT")]
    ports: Vec<String>,
    /// Interface, memif or DPDK port to count on at the same time
    #[arg(long, value_name = "PORT")]
    rx_port: Option<String>,
    /// Check every frame that comes back: loss, order, flows and latency of each stream; counting
    /// alone costs less
    #[arg(long, conflicts_with = "pcap")]
    analyse: bool,
    /// Count on each of two ports what the other one sends; implied by --analyse
    #[arg(long, conflicts_with = "rx_port")]
    count: bool,
    /// Source of departure and arrival times; all but user need an answer from the kernel for each
    /// frame, with af-packet
    #[arg(long, value_enum, default_value_t = Timestamps::User, requires = "analyse")]
    timestamps: Timestamps,
    /// Write latencies to a file, as an HDR histogram log (V2)
    #[arg(long, value_name = "FILE", requires = "analyse")]
    hdr: Option<PathBuf>,
    /// Traffic profile: a name (`fwdlab traffic profile ls`) or a file
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["pcap", "size", "flows", "from", "to", "ipv6"])]
    profile: Option<String>,
    /// Frame size in bytes, including the FCS, up to the port's MTU plus 18 [default: 64; IPv6: 84]
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
    /// Destination MAC address, for each port [default: resolved from --via, or from the first
    /// destination]
    #[arg(long, value_name = "MAC", value_delimiter = ',')]
    dst_mac: Vec<Mac>,
    /// Address of the next hop, resolved with ARP or neighbour discovery
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["dst_mac", "pcap"])]
    via: Option<IpAddr>,
    /// Load of each port: 1kpps, 50%, 9.4Gbps-l2, max; several, one after another [default: max;
    /// for a capture, its own timing]
    #[arg(long, value_name = "LOAD", value_delimiter = ',')]
    load: Vec<LinkLoad>,
    /// Duration of each of several loads
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    every: Duration,
    /// Change evenly from load to load
    #[arg(long)]
    ramp: bool,
    /// Speed of the link, such as 1G: percentages refer to it, and max is its line rate [default:
    /// the port's own]
    #[arg(long, value_name = "SPEED")]
    link: Option<LinkSpeed>,
    /// Duration, or number of frames on each port: 10s, 2m, 1e6frames [default: until Ctrl-C; for a
    /// capture, all of it]
    #[arg(long = "for", value_name = "TIME|FRAMES")]
    amount: Option<Amount>,
    /// Policy for frames missed while the sender stalls
    #[arg(
        long = "on-stall",
        alias = "hold-ups",
        value_name = "POLICY",
        value_enum,
        default_value_t
    )]
    stall_policy: OnStall,
    /// Engine; auto takes the fastest that can send these frames on this port
    #[arg(long, default_value = "auto", value_parser = super::engines())]
    engine: String,
    /// Number of sending threads for each port: they share the frames that one would send. Needs
    /// af-xdp or af-packet
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = super::senders(), conflicts_with = "pcap")]
    senders: u32,
    /// CPUs of the sending threads, one for each port and sender [default: any]
    #[arg(long, value_delimiter = ',', value_name = "CPU")]
    cpus: Vec<usize>,
    /// Number in all signatures that identifies this session to receivers
    #[arg(long, value_name = "N", default_value_t = 1)]
    session: u16,
    /// Send the frames of a pcap or pcapng file unchanged
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Speed relative to the capture: 2x, 0.5x
    #[arg(long, value_name = "FACTOR", value_parser = speed, requires = "pcap", conflicts_with = "load")]
    speed: Option<f64>,
    /// Number of repetitions of the capture; 0 repeats until Ctrl-C
    #[arg(
        long = "loop",
        value_name = "N",
        requires = "pcap",
        default_value_t = 1
    )]
    rounds: u64,
    /// Pad frames that were not captured whole
    #[arg(long, requires = "pcap")]
    pad: bool,
    /// Allow non-test destinations. Use only in an isolated network
    #[arg(long, help_heading = "Ports that may be in use")]
    to_any_address: bool,
    #[command(flatten)]
    where_: Ports,
}

fn speed(text: &str) -> Result<f64, UnitError> {
    let number = text.trim().trim_end_matches('x');
    match number.parse() {
        Ok(factor) if (1e-6..=1e6).contains(&factor) => Ok(factor),
        _ => Err(UnitError {
            text: text.into(),
            what: "factor",
            reason: "for example 2x for twice as fast, or 0.5x".into(),
        }),
    }
}

/// A port that counts.
#[derive(Debug)]
struct Counted {
    interface: String,
    /// Number of the port that sends the counted frames; `None` for both ports.
    sender: Option<usize>,
}

/// The result of a counting port.
struct End {
    counted: Counted,
    streams: Vec<StreamEnd>,
    /// Streams without a signature, which could not be checked.
    unsigned: Vec<String>,
    /// The source of the timestamps.
    stamping: Option<Stamping>,
    taken: StampingResult,
}

/// Prepared frames for a port.
pub(super) struct Ready {
    pub planned: Planned,
    /// The speed that percentages refer to.
    pub link: Option<LinkSpeed>,
    /// The profile's own load in frames per second.
    pub own_pps: Option<f64>,
}

impl Send {
    /// Runs the command.
    pub fn run(mut self, global: &Global) -> anyhow::Result<Code> {
        self.where_
            .by_own_names(self.ports.iter_mut().chain(&mut self.rx_port));
        if self.ports.len() > 2 {
            return Err(Usage("--port: one port, or two for both directions".into()).into());
        }
        if self.pcap.is_some() && self.stall_policy == OnStall::Skip {
            return Err(Usage(
                "--on-stall skip: no frame of a capture can be skipped; after a stall its times are delayed and catch up".into(),
            )
            .into());
        }
        // report usage errors before anything is touched
        let counted = self.counted()?;
        let mut required = self.requested()?;
        let planned: Vec<Planned> = (self.ports.iter().enumerate())
            .map(|(at, interface)| {
                let port = self.where_.take(interface, self.roles(interface))?;
                self.plan(at, port, &mut required)
            })
            .collect::<anyhow::Result<_>>()?;
        let loads = (planned.iter().map(|planned| self.loads(planned, &required)))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let signals = Signals::catch()?;
        let mut sending = Vec::new();
        for (at, (planned, loads)) in planned.into_iter().zip(&loads).enumerate() {
            sending.push(self.open(at, planned, loads)?);
        }
        let mut stampings = Vec::new();
        for counted in &counted {
            stampings.push(self.stamping(counted, &mut sending)?);
        }
        let (mut checked, mut receiving) = (Vec::new(), Vec::new());
        for (counted, stamping) in counted.iter().zip(&stampings) {
            let expectation = match counted.sender.map(|sender| &sending[sender].source) {
                Some(Source::Engine(_, frames)) if self.analyse => {
                    let expectation = streams::expectation(frames)?;
                    Some(expectation.from_senders(frames, self.senders))
                }
                _ => None,
            };
            let mut receiver = self.receive(counted, &sending, expectation.as_ref())?;
            if let Some(stamping) = stamping {
                receiver.receiver.stamp(stamping.kind)?;
            }
            receiving.push(receiver);
            checked.push(expectation);
        }
        let mut session = Session::new(sending, receiving);
        // the senders stop by themselves
        session.at_most = self.at_most().saturating_add(SECOND);
        session.start(signals.control())?;
        self.print_plan(global, &mut session, &loads);
        let senders = &self.ports;
        let receivers: Vec<String> = counted.iter().map(|c| c.interface.clone()).collect();
        let started = SystemTime::now();
        let quiet = global.verbosity() == output::Verbosity::Quiet || global.json;
        let whole = session.run(signals.control(), SECOND, &mut |second| {
            if global.json_stream {
                output::result(
                    &words::period_json("second", senders, &receivers, second).to_string(),
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
        let mut ends = Vec::new();
        let counted = counted.into_iter().zip(checked).zip(stampings);
        for (at, ((counted, checked), stamping)) in counted.enumerate() {
            let mut end = End {
                counted,
                streams: Vec::new(),
                unsigned: Vec::new(),
                stamping,
                taken: StampingResult::default(),
            };
            if let (Some(expectation), Some(sender)) = (checked, end.counted.sender)
                && let Source::Engine(_, frames) = &session.sending[sender].source
            {
                let frames = frames.clone();
                let sent = &whole.sent[sender];
                // test frames are one stream, which has no counter of its own
                let of_streams = SentOfStreams {
                    all: match sent.streams.is_empty() {
                        true => std::slice::from_ref(&sent.given),
                        false => &sent.streams[..],
                    },
                    senders: &sent.senders,
                };
                (end.streams, end.taken) = streams::ends(
                    &mut session.receiving[at].receiver,
                    &expectation,
                    Some(&mut session.sending[sender].source),
                    Some(&frames),
                    Some(&of_streams),
                    sent.stalled_frames(),
                )?;
                end.unsigned = expectation.unsigned;
            }
            ends.push(end);
        }
        self.print_summary(global, &mut session, &loads, &whole, &ends)?;
        // print the results even if the file cannot be written
        if let Some(path) = &self.hdr {
            let all: Vec<&StreamEnd> = ends.iter().flat_map(|end| &end.streams).collect();
            streams::write_hdr(path, started, whole.duration_s, &all)?;
        }
        let endless = self.amount.is_none() && (self.pcap.is_none() || self.rounds == 0);
        Ok(match signals.code(endless) {
            Code::Done if whole.sent.iter().any(Sent::is_limited) => Code::NotValid,
            Code::Done if ends.iter().any(|end| !end.taken.is_valid()) => Code::NotValid,
            code => code,
        })
    }

    /// Parses a command line that starts with `send`.
    pub(super) fn from_line(line: Vec<String>) -> Result<Send, Usage> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            send: Send,
        }
        let read = <Line as clap::Parser>::try_parse_from(line);
        read.map(|line| line.send).map_err(|error| {
            let text = error.to_string();
            let text = text.trim_start_matches("error: ");
            Usage(text.split("\n\n").next().unwrap_or_default().to_owned())
        })
    }

    /// Prepares the frames of a reserved port, for one of two directions. The caller sets the load
    /// and drives the port.
    pub(super) fn for_port(&self, direction: usize, port: TrafficPort) -> anyhow::Result<Ready> {
        let mut required = self.requested()?;
        let planned = self.plan(direction, port, &mut required)?;
        let own_pps = match (&planned.kind, &required) {
            (FrameKind::Frames(Frames::Traffic(frames)), FrameRequest::Profile(loaded))
                if self.profile.is_some() =>
            {
                let of_stream = |stream: &Stream| stream.rate.is_some();
                let profile = &loaded.profile;
                let has_own = profile.rate.is_some() || profile.streams.iter().any(of_stream);
                (has_own || self.link_of(&planned.port).is_some())
                    .then(|| own_load_pps(&frames.traffic))
            }
            _ => None,
        };
        Ok(Ready {
            link: self.link_of(&planned.port),
            own_pps,
            planned,
        })
    }

    /// Creates a sender for prepared frames at this load.
    pub(super) fn sender(
        &self,
        direction: usize,
        planned: Planned,
        load_pps: f64,
    ) -> anyhow::Result<Sending> {
        let load = Resolved {
            words: String::new(),
            pps: Some(load_pps),
        };
        self.open(direction, planned, &[load])
    }

    /// Returns which ports count, and whose frames.
    fn counted(&self) -> Result<Vec<Counted>, Usage> {
        let counted = |interface: &str, sender| Counted {
            interface: interface.into(),
            sender,
        };
        match (&self.rx_port, &self.ports[..]) {
            (Some(port), [_]) => Ok(vec![counted(port, Some(0))]),
            (Some(_), _) if self.analyse => Err(Usage(
                "--analyse: each of two ports checks what the other one sends; omit --rx-port"
                    .into(),
            )),
            (Some(port), _) => Ok(vec![counted(port, None)]),
            (None, [a, b]) if self.analyse || self.count => {
                Ok(vec![counted(b, Some(0)), counted(a, Some(1))])
            }
            (None, _) if self.analyse || self.count => Err(Usage(
                "--analyse and --count need a receiving port: --rx-port or a second --port".into(),
            )),
            (None, _) => Ok(Vec::new()),
        }
    }

    /// Selects the source of timestamps for a counting port, and configures its sender. `None`
    /// without timestamps.
    fn stamping(
        &self,
        counted: &Counted,
        sending: &mut [Sending],
    ) -> anyhow::Result<Option<Stamping>> {
        let Some(sending) = counted.sender.and_then(|sender| sending.get_mut(sender)) else {
            return Ok(None);
        };
        if !self.analyse {
            return Ok(None);
        }
        let rx = self.where_.spec(&counted.interface);
        let tx = sending.port.spec();
        let stamping = stamping::choose(self.timestamps, tx, &rx, &self.engine)?;
        if stamping.kind != Kind::User {
            sending.stamp(stamping.kind)?;
        }
        Ok(Some(stamping))
    }

    /// Creates a receiver, on a port of its own or on one that also sends.
    fn receive(
        &self,
        counted: &Counted,
        sending: &[Sending],
        expectation: Option<&Expectation>,
    ) -> anyhow::Result<Receiving> {
        let sends = (sending.iter()).find(|s| s.port.spec().interface == counted.interface);
        let port = match sends {
            Some(sending) => TrafficPort::own_port(sending.port.spec())?,
            None => self.where_.take(&counted.interface, &[Role::Receive])?,
        };
        let place = match &sending[counted.sender.unwrap_or(0)].source {
            Source::Engine(_, frames) => signature_place(frames),
            Source::Replay(_) => SignaturePlace::UdpPayload,
        };
        let expected = Expected {
            nonce: self.session,
            buffer_bytes: None,
            place,
            analysis: expectation.map(Expectation::plan),
        };
        Ok(Receiving::open(port, None, expected)?)
    }

    /// Returns the roles of a sending port.
    fn roles(&self, interface: &str) -> &'static [Role] {
        let both = self.ports.len() == 2 && (self.analyse || self.count);
        match both || self.rx_port.as_deref() == Some(interface) {
            true => &[Role::Send, Role::Receive],
            false => &[Role::Send],
        }
    }

    fn at_most(&self) -> Duration {
        match self.amount {
            Some(Amount::Time(time)) => time,
            _ => FOR_EVER,
        }
    }

    /// Returns a plan with several loads, each held for its time, or ramped to the next; the last
    /// one continues.
    fn load_plan(&self, loads: &[Resolved]) -> LoadPlan {
        let every = self.every.as_nanos() as u64;
        let loads: Vec<f64> = loads.iter().filter_map(|load| load.pps).collect();
        match (&loads[..], self.ramp) {
            ([], _) => LoadPlan::FlatOut,
            ([load], _) => LoadPlan::Constant(*load),
            (loads, false) => {
                let step = |&load: &f64| Stretch::constant(load, every);
                LoadPlan::from_stretches(loads.iter().map(step).collect())
            }
            (loads, true) => {
                let ramp = |pair: &[f64]| Stretch {
                    duration_ns: every,
                    from_pps: pair[0],
                    to_pps: pair[1],
                };
                LoadPlan::from_stretches(loads.windows(2).map(ramp).collect())
            }
        }
    }

    fn open(&self, at: usize, planned: Planned, loads: &[Resolved]) -> anyhow::Result<Sending> {
        let mut of_ports = self.cpus.chunks(self.senders as usize);
        let cpus = of_ports
            .nth(at)
            .or(self.cpus.chunks(self.senders as usize).next());
        let cpus = cpus.unwrap_or_default().to_vec();
        let frames = match self.amount {
            Some(Amount::Frames(frames)) => Some(frames),
            _ => None,
        };
        let schedule = Schedule {
            load: self.load_plan(loads),
            frames,
            at_most: self.at_most(),
            stall_policy: self
                .stall_policy
                .policy(self.link.map(|link| link.line_rate_pps(planned.mean))),
            path: 0,
        };
        let Planned { port, mean, .. } = planned;
        let sending = match planned.kind {
            FrameKind::Frames(frames) => {
                let mode = Mode::named(&self.engine);
                let engines = mode
                    .as_ref()
                    .map_or(Mode::of(port.spec()), std::slice::from_ref);
                Sending::open(port, engines, &cpus, frames, schedule, mean, self.senders)?
            }
            FrameKind::Recording(recording) => {
                if !["auto", "af-packet"].contains(&self.engine.as_str()) {
                    return Err(Usage(format!(
                        "--engine {}: captures can only be sent by af-packet, which keeps the timing of each frame",
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
                Sending::replay(port, recording, pace, rounds, &cpus, schedule, mean)?
            }
        };
        Ok(sending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_of_a_capture() {
        assert_eq!((speed("2x"), speed("0.5")), (Ok(2.0), Ok(0.5)));
        for bad in ["", "x", "0x", "-1x", "nanx", "infx"] {
            assert!(speed(bad).is_err(), "{bad}");
        }
    }
}
