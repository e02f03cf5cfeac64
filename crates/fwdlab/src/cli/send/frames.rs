//! What `fwdlab send` sends: flows as typed, a profile or a capture become the frames of each port.
//!
//! Nothing is sent here; the next hop may be asked for its address. Start with [`Send::wanted`] and [`Send::plan`].

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use engine::replay::Recording;
use engine::traffic::compile::{Direction, Setting, compile};
use engine::traffic::player::Player;
use engine::traffic::reach;
use engine::{Addresses, Frames, SignaturePlace, TestFrames, Traffic, TrafficFrames};
use lab::LabError;
use lab::ports::{Port, destinations};
use model::link::{LinkSpeed, MeanSize};
use model::profile::Profile;
use model::trial;
use model::units::FrameSize;
use packet::modifier::Instruction;
use packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Span, pcap};

use super::Send;
use crate::cli::session::range::Range;
use crate::exit_code::Usage;
use crate::profiles::{self, Loaded};

/// Frames of a profile that are looked at for their sizes and destinations before anything is sent.
pub(in crate::cli) const LOOKED_AT: u64 = 50_000;
/// And all until they come again, or so many, some seconds' work, where what the profile can write allows destinations that
/// nothing is sent to: a list of addresses from several blocks may never have one from between them.
const LOOKED_AT_IN_DOUBT: u64 = 20_000_000;

/// Flows when nobody says: 20 sources to 100 destinations.
pub(super) const FLOWS: u32 = 2000;

/// What one port sends.
pub(super) struct Planned {
    pub port: Port,
    pub what: What,
    pub mean: MeanSize,
}

pub(super) enum What {
    Frames(Frames),
    Recording(Arc<Recording>),
}

/// What was asked for, before it is known for which port.
pub(super) enum Wanted {
    /// Flows of UDP frames of one size.
    Flows(FlowSet),
    /// A profile.
    Profile(Box<Loaded>),
    /// A capture.
    Recording(Recording),
}

impl Send {
    pub(super) fn version(&self) -> IpVersion {
        let said = self.from.or(self.to).map(|range| range.first.is_ipv6());
        match said.unwrap_or(self.ipv6) {
            true => IpVersion::V6,
            false => IpVersion::V4,
        }
    }

    pub(super) fn frame_size(&self) -> anyhow::Result<FrameSize> {
        let version = match self.version() {
            IpVersion::V4 => trial::IpVersion::Ipv4,
            IpVersion::V6 => trial::IpVersion::Ipv6,
        };
        let size = self.size.unwrap_or(version.smallest_frame());
        // says why when there is no room
        trial::Stream::new(version, size, 1)?;
        Ok(size)
    }

    pub(super) fn wanted(&self) -> anyhow::Result<Wanted> {
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
            if !self.to_any_address {
                destinations::check_reach(&reach::of_frame(&whole)).map_err(|e| {
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

    pub(super) fn plan(
        &self,
        at: usize,
        interface: &str,
        wanted: &Wanted,
    ) -> anyhow::Result<Planned> {
        let port = self.where_.take(interface, self.roles(interface))?;
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
        let look = look(&compiled([2, 0, 0, 0, 0, 2])?, self.to_any_address)?;
        fits(port, look.longest)?;
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

    pub(super) fn link_of(&self, port: &Port) -> Option<LinkSpeed> {
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
}

/// What frames are like, from the first of them.
struct Look {
    mean: MeanSize,
    longest: usize,
    /// Source and destination of the first frame that has some.
    first: Option<(IpAddr, IpAddr)>,
}

/// Looks at the first frames. Fails at the first destination that nothing is sent to, unless any is allowed.
fn look(frames: &TrafficFrames, to_any_address: bool) -> anyhow::Result<Look> {
    // without signatures frames come again
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
    let mut look = Look {
        mean: FrameSize::MIN.into(),
        longest: 0,
        first: None,
    };
    while count < looked_at {
        let len = player.take(&mut buffer, None, 0);
        if len == 0 {
            break;
        }
        count += 1;
        bytes += len as u64 + 4;
        look.longest = look.longest.max(len);
        let reach = reach::of_frame(&buffer[..len]);
        if !to_any_address {
            destinations::check_reach(&reach)?;
        }
        if look.first.is_none() {
            let mut reach = reach.into_iter();
            let outermost = reach.find(|reach| reach.destination.inside.is_none());
            look.first = outermost.and_then(|reach| Some((reach.from?.0, reach.to.0)));
        }
    }
    look.mean = MeanSize::new(bytes, count).context("frames without contents")?;
    Ok(look)
}

/// Where frames carry their signature.
pub(super) fn place_of(frames: &Frames) -> SignaturePlace {
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
