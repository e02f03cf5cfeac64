//! The frames of `fwdlab send`: turns typed flows, a profile or a capture into the frames of each
//! port.
//!
//! Sends no test frames; may ask the next hop for its MAC address. Start with [`Send::requested`]
//! and [`Send::plan`].

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use fwdlab_engine::capture::file;
use fwdlab_engine::replay::{Clock, Recording, Source, SourceError};
use fwdlab_engine::traffic::compile::{Direction, Setting, compile};
use fwdlab_engine::traffic::player::Player;
use fwdlab_engine::traffic::reach;
use fwdlab_engine::{Addresses, Frames, SignaturePlace, TestFrames, Traffic, TrafficFrames};
use fwdlab_lab::LabError;
use fwdlab_lab::ports::{TrafficPort, destinations};
use fwdlab_lab::session::{SAY_NEXT_HOP, next_hop};
use fwdlab_model::link::{LinkSpeed, MeanSize};
use fwdlab_model::profile::{Mac, Profile};
use fwdlab_model::trial;
use fwdlab_model::units::FrameSize;
use fwdlab_packet::header::ethernet;
use fwdlab_packet::modifier::Instruction;
use fwdlab_packet::pcap::NotSendable;
use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Span, pcap};

use super::Send;
use crate::cli::session::range::Range;
use crate::exit_code::Usage;
use crate::profiles::{self, Loaded};

/// Number of a profile's frames whose sizes and destinations are checked before sending.
pub(in crate::cli) const LOOKED_AT: u64 = 50_000;
/// Check frames until they repeat, or up to this number, a few seconds' work, if the profile could
/// write forbidden destinations: a list of addresses from several blocks may still never use one
/// between them.
const LOOKED_AT_IN_DOUBT: u64 = 20_000_000;

/// Default number of flows: 20 sources to 100 destinations.
pub(in crate::cli) const FLOWS: u32 = 2000;

/// The frames of one port.
pub(in crate::cli) struct Planned {
    pub port: TrafficPort,
    pub kind: FrameKind,
    pub mean: MeanSize,
}

pub(in crate::cli) enum FrameKind {
    Frames(Frames),
    Recording(Recording),
}

/// The requested frames, before the port is known.
pub(super) enum FrameRequest {
    /// Flows of UDP frames of one size.
    Flows(FlowSet),
    /// A profile.
    Profile(Box<Loaded>),
    /// A capture for each port.
    Recordings(Vec<Option<Recording>>),
}

impl Send {
    pub(super) fn version(&self) -> IpVersion {
        let output = self.from.or(self.to).map(|range| range.first.is_ipv6());
        match output.unwrap_or(self.ipv6) {
            true => IpVersion::V6,
            false => IpVersion::V4,
        }
    }

    /// Returns the frame size in bytes, FCS included.
    pub(super) fn frame_size(&self) -> anyhow::Result<u16> {
        let version = match self.version() {
            IpVersion::V4 => trial::IpVersion::Ipv4,
            IpVersion::V6 => trial::IpVersion::Ipv6,
        };
        let size = self.size.unwrap_or(version.smallest_frame());
        // returns an error if there is no room
        trial::Stream::new(version, size, 1)?;
        Ok(size.bytes())
    }

    pub(super) fn requested(&self) -> anyhow::Result<FrameRequest> {
        if let Some(path) = &self.pcap {
            let recordings = (0..self.ports.len()).map(|at| self.recording(path, at).map(Some));
            return Ok(FrameRequest::Recordings(
                recordings.collect::<anyhow::Result<_>>()?,
            ));
        }
        if let Some(name) = &self.profile {
            return Ok(FrameRequest::Profile(Box::new(profiles::load(name)?)));
        }
        self.frame_size()?;
        let flows = self.flow_set()?;
        match flows {
            Some(flows) if self.vlan.is_none() => Ok(FrameRequest::Flows(flows)),
            _ => {
                let profile = Profile::parse("what was typed", &self.as_profile()?)?;
                Ok(FrameRequest::Profile(Box::new(Loaded {
                    profile,
                    path: None,
                })))
            }
        }
    }

    /// Returns the typed sources and destinations, or their defaults.
    fn ranges(&self) -> anyhow::Result<(Range, Range)> {
        let (from, to) = match self.version() {
            IpVersion::V4 => ("198.18.10.1", "198.19.10.1"),
            IpVersion::V6 => ("2001:2:0:10::1", "2001:2:0:8010::1"),
        };
        Ok((
            self.from.unwrap_or(from.parse()?),
            self.to.unwrap_or(to.parse()?),
        ))
    }

    /// Returns the typed flows as a profile, for flows that are not a flow set of the benchmark
    /// blocks.
    fn as_profile(&self) -> anyhow::Result<String> {
        let ip = match self.version() {
            IpVersion::V4 => "ipv4",
            IpVersion::V6 => "ipv6",
        };
        let mut text = format!("[[stream]]\nlayers = [\"{ip}\", \"udp\"]\n");
        if let Some(size) = self.size {
            text += &format!("size = {size}\n");
        }
        if self.from.is_none() && self.to.is_none() {
            return Ok(text + &format!("flows = {}\n", self.flows.unwrap_or(FLOWS)));
        }
        let (from, to) = self.ranges()?;
        let mut vary = Vec::new();
        for (Range { first, last, ports }, end) in [(to, "destination"), (from, "source")] {
            vary.push(format!(
                "{{ field = \"{ip}.{end}\", from = \"{first}\", to = \"{last}\" }}"
            ));
            if let Some((first, last)) = ports {
                vary.push(format!(
                    "{{ field = \"udp.{end}-port\", from = {first}, to = {last} }}"
                ));
            }
        }
        Ok(text + &format!("vary = [{}]\n", vary.join(", ")))
    }

    /// Returns the flows of the forward direction; `None` if they are not in the halves of the
    /// benchmark blocks.
    fn flow_set(&self) -> anyhow::Result<Option<FlowSet>> {
        if self.from.is_none() && self.to.is_none() {
            let flows = self.flows.unwrap_or(FLOWS);
            let set = match self.version() {
                IpVersion::V4 => FlowSet::default_v4(flows),
                IpVersion::V6 => FlowSet::default_v6(flows),
            };
            return Ok(Some(set.map_err(|e| Usage(format!("--flows: {e}")))?));
        }
        let (from, to) = self.ranges()?;
        if !self.to_any_address {
            destinations::check([(to.first, to.last)])?;
            destinations::check_sources([(from.first, from.last)])?;
        }
        let ports = |range: Range| {
            let (first, last) = range.ports.unwrap_or((2000, 2000));
            span(first, u32::from(last - first) + 1)
        };
        let too_many = || Usage("--from and --to: too many addresses".into());
        let (sources, targets) = (
            from.count().ok_or_else(too_many)?,
            to.count().ok_or_else(too_many)?,
        );
        let set = match (from.first, to.first) {
            (IpAddr::V4(source), IpAddr::V4(target)) => FlowSet::v4(
                span(source, sources),
                span(target, targets),
                ports(from),
                ports(to),
            ),
            (IpAddr::V6(source), IpAddr::V6(target)) => FlowSet::v6(
                span(source, sources),
                span(target, targets),
                ports(from),
                ports(to),
            ),
            _ => {
                return Err(Usage("--from and --to: one is IPv4 and the other IPv6".into()).into());
            }
        };
        Ok(set.ok())
    }

    /// Opens a capture file for one port.
    fn recording(&self, path: &Path, at: usize) -> anyhow::Result<Recording> {
        let capture = Capture {
            path: path.to_owned(),
            frames: opened(path).map_err(|error| {
                Usage(format!(
                    "cannot read the capture {}: {error}",
                    path.display()
                ))
            })?,
            number: 0,
            own_times: self.load.is_empty(),
            clock: Clock::default(),
            pad: self.pad,
            to_any_address: self.to_any_address,
            source: self.src_mac.get(at).or(self.src_mac.first()).copied(),
            destination: self.dst_mac.get(at).or(self.dst_mac.first()).copied(),
        };
        let recording = Recording::open(capture).map_err(capture_error)?;
        if recording.frames() == 0 {
            let reason = format!("{}: the capture has no frames", path.display());
            return Err(Usage(reason).into());
        }
        Ok(recording)
    }

    pub(super) fn plan(
        &self,
        at: usize,
        port: TrafficPort,
        requested: &mut FrameRequest,
    ) -> anyhow::Result<Planned> {
        let (what, mean) = match requested {
            FrameRequest::Recordings(recordings) => {
                let recording = recordings[at].take().context("a capture for each port")?;
                let frames = recording.frames();
                let mean = MeanSize::new(recording.wire_bytes() + 4 * frames, frames)
                    .context("frames without contents")?;
                (FrameKind::Recording(recording), mean)
            }
            FrameRequest::Profile(loaded) => self.plan_profile(at, &port, loaded)?,
            FrameRequest::Flows(flows) => {
                let flows = if at == 1 { flows.reversed() } else { *flows };
                let (from, to) = match flows.flow(0).addresses {
                    fwdlab_packet::Addresses::V4 {
                        source,
                        destination,
                    } => (IpAddr::from(source), IpAddr::from(destination)),
                    fwdlab_packet::Addresses::V6 {
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
                    frame_size: size,
                })
                .map_err(|e| Usage(e.to_string()))?;
                let frames = Frames::Test(TestFrames {
                    template,
                    flows,
                    nonce: self.session,
                });
                let mean = MeanSize::new(size.into(), 1).context("frames without contents")?;
                (FrameKind::Frames(frames), mean)
            }
        };
        Ok(Planned {
            port,
            kind: what,
            mean,
        })
    }

    fn plan_profile(
        &self,
        at: usize,
        port: &TrafficPort,
        loaded: &Loaded,
    ) -> anyhow::Result<(FrameKind, MeanSize)> {
        let source_mac = self.source_mac(at, port)?;
        let compiled = |destination_mac| -> anyhow::Result<TrafficFrames> {
            let compiled = compile(
                &loaded.profile,
                &Setting {
                    direction: match at {
                        0 => Direction::Forward,
                        _ => Direction::Reverse,
                    },
                    addresses: Addresses::between(source_mac, destination_mac),
                    vlan: self.vlan,
                    link: self.link_of(port),
                    read: &|name| loaded.open_capture(name),
                },
            )?;
            Ok(TrafficFrames {
                traffic: Arc::new(compiled.traffic),
                nonce: self.session,
            })
        };
        // look at the frames first: their destination determines the next hop to ask
        let look = inspect(&compiled([2, 0, 0, 0, 0, 2])?, self.to_any_address)?;
        let destination = self.destination_mac(at, port, source_mac, look.first)?;
        Ok((
            FrameKind::Frames(Frames::Traffic(compiled(destination)?)),
            look.mean,
        ))
    }

    fn source_mac(&self, at: usize, port: &TrafficPort) -> anyhow::Result<[u8; 6]> {
        let output = self.src_mac.get(at).or(self.src_mac.first());
        output.map(|mac| mac.0).or(port.mac()).ok_or_else(|| {
            Usage(format!(
                "{} has no Ethernet address; give --src-mac",
                port.spec().interface
            ))
            .into()
        })
    }

    pub(in crate::cli) fn link_of(&self, port: &TrafficPort) -> Option<LinkSpeed> {
        self.link.or_else(|| {
            let own = port.interface()?.facts.speed_bps?;
            format!("{}M", own / 1_000_000).parse().ok()
        })
    }

    /// Returns the given MAC address, or asks the next hop. `first` is the source and destination
    /// of the first frame that has both.
    fn destination_mac(
        &self,
        at: usize,
        port: &TrafficPort,
        ours: [u8; 6],
        first: Option<(IpAddr, IpAddr)>,
    ) -> anyhow::Result<[u8; 6]> {
        if let Some(mac) = self.dst_mac.get(at).or(self.dst_mac.first()) {
            if !self.to_any_address {
                destinations::check_mac(mac.0)?;
            }
            return Ok(mac.0);
        }
        let Some((source, target)) = first else {
            return Err(Usage(format!("the frames have no IP addresses. {SAY_NEXT_HOP}")).into());
        };
        let target = self.via.unwrap_or(target);
        let port = port.needs_interface("finding the next hop without --dst-mac")?;
        Ok(next_hop(port, ours, source, target)?)
    }
}

fn span<T>(first: T, count: u32) -> Span<T> {
    Span { first, count }
}

/// A capture file to send, frame by frame, with the requested MAC addresses.
struct Capture {
    path: PathBuf,
    frames: file::Frames<File>,
    /// Number of the last frame.
    number: u64,
    /// True if frames leave at their recorded times instead of at a load.
    own_times: bool,
    clock: Clock,
    pad: bool,
    to_any_address: bool,
    source: Option<Mac>,
    destination: Option<Mac>,
}

impl Source for Capture {
    fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Option<u64>, SourceError> {
        let begin = bytes.len();
        let own_times = self.own_times;
        let Capture {
            path,
            number,
            clock,
            ..
        } = self;
        let wrong = |what: String| Usage(format!("{}: {what}", path.display()));
        *number += 1;
        let pad = self.pad;
        let taken = self.frames.next(|frame| {
            let wrong =
                |error: NotSendable, advice| wrong(format!("frame {number}: {error}{advice}"));
            match frame.to_send() {
                Ok(frame) => bytes.extend_from_slice(frame),
                Err(error @ NotSendable::Truncated { .. }) if !pad => {
                    return Err(wrong(error, "; --pad sends the rest as zeros"));
                }
                Err(NotSendable::Truncated { whole, .. }) => {
                    bytes.extend_from_slice(frame.bytes);
                    let whole = (whole as usize).min(pcap::MAX_FRAME_BYTES);
                    let len = whole.saturating_sub(frame.fcs_len.into());
                    if len < ethernet::HEADER_LEN {
                        return Err(wrong(NotSendable::Short(len), ""));
                    }
                    bytes.resize(begin + len, 0);
                }
                Err(error) => return Err(wrong(error, "")),
            }
            Ok(frame.timestamp_ns)
        });
        let Some(timestamp_ns) = taken.map_err(|error| wrong(error.to_string()))? else {
            return Ok(None);
        };
        let timestamp_ns = match own_times {
            true => clock.at(timestamp_ns?).map_err(|error| {
                wrong(format!(
                    "frame {number}: {error}; --load sends without the capture's times"
                ))
            })?,
            false => timestamp_ns?,
        };
        let frame = &mut bytes[begin..];
        if let Some(mac) = self.destination {
            frame[..6].copy_from_slice(&mac.0);
        }
        if let Some(mac) = self.source {
            frame[6..12].copy_from_slice(&mac.0);
        }
        if !self.to_any_address {
            destinations::check_frame(frame).map_err(|error| {
                LabError::Preflight(format!("frame {number} of {}: {error}", path.display()))
            })?;
        }
        Ok(Some(timestamp_ns))
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        let again = |error| format!("cannot read {} again: {error}", self.path.display());
        (self.frames, self.number) = (opened(&self.path).map_err(again)?, 0);
        self.clock = Clock::default();
        Ok(())
    }
}

fn opened(path: &Path) -> io::Result<file::Frames<File>> {
    File::open(path).map(file::Frames::new)
}

/// Returns an error in a capture as an error of the right kind.
fn capture_error(error: SourceError) -> anyhow::Error {
    match error.downcast::<Usage>() {
        Ok(usage) => (*usage).into(),
        Err(error) => match error.downcast::<LabError>() {
            Ok(error) => (*error).into(),
            Err(error) => anyhow::Error::msg(error.to_string()),
        },
    }
}

/// Properties of the first frames.
struct FirstFrames {
    mean: MeanSize,
    /// Source and destination of the first frame that has both.
    first: Option<(IpAddr, IpAddr)>,
}

/// Looks at the first frames. Fails at the first forbidden destination, unless `to_any_address` is
/// set.
fn inspect(frames: &TrafficFrames, to_any_address: bool) -> anyhow::Result<FirstFrames> {
    // without signatures, frames repeat
    let mut traffic = Traffic::clone(&frames.traffic);
    for kind in traffic.streams.iter_mut().flat_map(|s| &mut s.kinds) {
        (kind.program.instructions).retain(|i| !matches!(i, Instruction::Signature { .. }));
    }
    let mut kinds = traffic.streams.iter().flat_map(|stream| &stream.kinds);
    let in_doubt = kinds.any(|kind| destinations::check_reach(&kind.reach()).is_err());
    let frames = TrafficFrames {
        traffic: Arc::new(traffic),
        nonce: frames.nonce,
    };
    let mut player = Player::new(&frames, None)?;
    let looked_at = match in_doubt && !to_any_address {
        true => (player.cycle().unwrap_or(u64::MAX)).clamp(LOOKED_AT, LOOKED_AT_IN_DOUBT),
        false => LOOKED_AT,
    };
    let mut buffer = vec![0; player.buffer_len()];
    let (mut count, mut bytes) = (0_u64, 0_u64);
    let mut look = FirstFrames {
        mean: FrameSize::MIN.into(),
        first: None,
    };
    while count < looked_at {
        let len = player.take(&mut buffer, None, 0);
        if len == 0 {
            break;
        }
        count += 1;
        bytes += pcap::on_wire(len) as u64 + 4;
        let frame = &buffer[..len];
        if !to_any_address {
            destinations::check_frame(frame)?;
        }
        if look.first.is_none() {
            let mut reach = reach::frame_reach(frame).into_iter();
            let outermost = reach.find(|reach| reach.destination.inside.is_none());
            look.first = outermost.and_then(|reach| Some((reach.from?.0, reach.to.0)));
        }
    }
    look.mean = MeanSize::new(bytes, count).context("frames without contents")?;
    Ok(look)
}

/// Returns where frames carry their signature.
pub(in crate::cli) fn signature_place(frames: &Frames) -> SignaturePlace {
    match frames {
        Frames::Traffic(frames) => frames.traffic.place(),
        Frames::Test(_) => None,
    }
    .unwrap_or(SignaturePlace::UdpPayload)
}
