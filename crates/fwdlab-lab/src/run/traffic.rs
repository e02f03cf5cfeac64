//! What a run offers: the variants of its series, and for each the frames of a stream in the
//! engine's format.
//!
//! A plain stream needs none of this: its frames are the engine's test frames. Everything else is
//! traffic: a profile, or a stream with other destinations, in both directions, or with broadcasts.
//! Changes on the DUT meanwhile are in [`super::modify`]. Start with [`Traffic`] and
//! [`Traffic::frames`].

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use fwdlab_engine::traffic::compile::{Direction, Setting, compile};
use fwdlab_engine::traffic::expect::count_flows;
use fwdlab_engine::traffic::player::Player;
use fwdlab_engine::traffic::reach::Reach;
use fwdlab_engine::traffic::unforwarded::UnforwardedFrames;
use fwdlab_engine::traffic::{Emission, Kind};
use fwdlab_engine::{Addresses, TrafficFrames};
use fwdlab_model::link::{LinkSpeed, MeanSize};
use fwdlab_model::procedure::Bursts;
use fwdlab_model::profile::Profile;
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;
use fwdlab_model::variant::{BROADCAST_EVERY, Destinations, Modifier, NETWORKS, Variant};

use crate::dut::Route;
use crate::error::LabError;
use crate::networks::{End, Networks, Side};

/// Sources and destinations of frames as prefixes.
pub(super) type Pairs = Vec<(String, String)>;

/// Random destinations repeat in the same order after this number of frames: 256 per network on
/// average.
const DRAWS: u32 = 65_536;

/// Number of the network for frames that no filter permits.
const DENIED: u32 = 10;

/// Number of frames of a profile from which their mean size is computed.
const LOOKED_AT: u32 = 50_000;

/// What a run offers, one series after another.
#[derive(Debug, Clone)]
pub struct Traffic {
    /// Frames of this profile instead of streams of one size.
    pub profile: Option<Arc<ProfileFrames>>,
    /// At least one; a modified variant comes after the one that it is compared with.
    pub variants: Vec<Variant>,
    /// The addresses of the bed on which it is offered.
    pub networks: Networks,
}

/// The frames of a profile, for the bed's addresses.
#[derive(Debug, Clone)]
pub struct ProfileFrames {
    /// The profile's name.
    pub name: String,
    /// Its text, to be stored with the run, and the extension of a file of such text.
    pub text: String,
    pub(super) ending: &'static str,
    /// Mean size of the frames in the forward direction.
    pub mean: MeanSize,
    /// The same in whole bytes, for records.
    size: FrameSize,
    /// Notes for readers of the results.
    pub notes: Vec<String>,
    /// Number of flows in the forward direction.
    flows: u32,
    forward: fwdlab_engine::Traffic,
    /// `None` if there is no reverse traffic.
    reverse: Option<fwdlab_engine::Traffic>,
}

/// One plain series.
impl Default for Traffic {
    fn default() -> Traffic {
        Traffic {
            profile: None,
            variants: vec![Variant::default()],
            networks: Networks::EMBEDDED,
        }
    }
}

impl ProfileFrames {
    /// Compiles the profile for both directions, or for the forward one alone, on a link of this
    /// speed.
    ///
    /// # Errors
    /// Fails, in words, if the profile is impossible, has frames that could not be recognised when
    /// they come back, or contains nothing that a router forwards.
    pub fn new(
        profile: &Profile,
        both_ways: bool,
        link: Option<LinkSpeed>,
        networks: &Networks,
        read: &dyn Fn(&str) -> std::io::Result<Box<dyn std::io::Read>>,
    ) -> Result<ProfileFrames, String> {
        let compiled = |direction, addresses| {
            let setting = Setting {
                direction,
                addresses,
                vlan: None,
                link,
                read,
            };
            compile(profile, &setting).map_err(|e| e.to_string())
        };
        let forward = compiled(Direction::Forward, networks.forward())?;
        let reverse = match both_ways {
            true => Some(compiled(Direction::Reverse, networks.reverse())?.traffic),
            false => None,
        };
        let text = ("toml", profile.origin.text.to_string());
        let name = profile.name.clone();
        let mut frames = ProfileFrames::from_traffic(name, text, forward.traffic, reverse)?;
        // too many to examine one by one: known only if the profile declares their number
        let output = profile.streams.iter().map(|stream| stream.flows);
        match output
            .clone()
            .try_fold(0, |sum: u32, flows| Some(sum.saturating_add(flows?)))
        {
            Some(all) => {
                frames.flows = all;
                frames.notes = forward.notes;
            }
            None => {
                let known = output.flatten().fold(0, u32::saturating_add);
                frames.flows = frames.flows.max(known);
                frames.notes.extend(forward.notes);
            }
        }
        Ok(frames)
    }

    /// Creates it from traffic that was compiled elsewhere; `text`: extension and content of its
    /// file.
    ///
    /// # Errors
    /// Fails as [`ProfileFrames::new`] does.
    pub fn from_traffic(
        name: String,
        (ending, text): (&'static str, String),
        forward: fwdlab_engine::Traffic,
        reverse: Option<fwdlab_engine::Traffic>,
    ) -> Result<ProfileFrames, String> {
        for traffic in [Some(&forward), reverse.as_ref()].into_iter().flatten() {
            if let Some(stream) = traffic.unknown().first() {
                return Err(format!(
                    "profile {name}, stream {stream}: frames without a signature could not be recognised when they come back, and \
                     all would count as lost; give them room for one (a larger size), or signature = true"
                ));
            }
            if UnforwardedFrames::from_traffic(traffic).share(traffic) >= 1.0 {
                return Err(format!(
                    "profile {name}: a router forwards none of its frames"
                ));
            }
        }
        let mean = mean(&forward)?;
        let size = format!("{:.0}", mean.bytes()).parse::<FrameSize>();
        let size =
            size.map_err(|error| format!("profile {name}: the mean size of its frames: {error}"))?;
        let (flows, is_all) = count_flows(&forward.streams);
        let more = format!("profile {name} has more flows than the {flows} that were counted");
        Ok(ProfileFrames {
            name,
            text,
            ending,
            mean,
            size,
            notes: if is_all { Vec::new() } else { vec![more] },
            flows,
            forward,
            reverse,
        })
    }

    /// Returns the stream that represents the profile in records: with its mean size and its flows.
    pub fn as_stream(&self) -> Stream {
        let has_ipv4 = routes(&self.forward).iter().any(|(to, _)| to.is_ipv4());
        Stream {
            ip_version: if has_ipv4 {
                IpVersion::Ipv4
            } else {
                IpVersion::Ipv6
            },
            frame_size_bytes: self.size,
            flows: self.flows.max(1),
        }
    }
}

impl Traffic {
    /// Returns true if any series has frames in both directions.
    pub fn both_ways(&self) -> bool {
        self.variants.iter().any(|variant| variant.both_directions)
    }

    /// Returns true if the DUT is managed in any series.
    pub(super) fn is_managed(&self) -> bool {
        let managed = |variant: &Variant| variant.has(|m| *m == Modifier::Management);
        self.variants.iter().any(managed)
    }

    /// Returns the number of flows of a stream in this series: a profile may have more than any
    /// stream.
    pub(super) fn flows(&self, stream: &Stream, variant: &Variant) -> u32 {
        match &self.profile {
            Some(profile) => profile.flows,
            None => variant.stream(stream).flows,
        }
    }

    /// Returns the mean size of the frames, if it differs from that of the stream.
    pub fn mean(&self) -> Option<MeanSize> {
        self.profile.as_ref().map(|profile| profile.mean)
    }

    /// Returns the frames of a stream in this series; `None`: the engine's test frames.
    ///
    /// # Errors
    /// Fails if there are no such frames.
    pub(super) fn frames(
        &self,
        stream: &Stream,
        variant: &Variant,
    ) -> Result<Option<Arc<fwdlab_engine::Traffic>>, LabError> {
        let broadcast = variant.has(|m| *m == Modifier::Broadcast);
        let is_random = variant.destinations == Destinations::Random;
        if self.profile.is_none() && !is_random && !variant.both_directions && !broadcast {
            return Ok(None);
        }
        let way = |direction: Direction| -> Result<fwdlab_engine::Traffic, LabError> {
            let (path, addresses) = match direction {
                Direction::Forward => (0, self.networks.forward()),
                Direction::Reverse => (1, self.networks.reverse()),
            };
            let known = self.profile.as_ref().map(|profile| match direction {
                Direction::Forward => Some(profile.forward.clone()),
                Direction::Reverse => profile.reverse.clone(),
            });
            let traffic = match known.flatten() {
                Some(traffic) => traffic,
                None => self.stream_traffic(&variant.stream(stream), is_random, direction)?,
            };
            Ok(match broadcast {
                true => traffic.with_broadcasts(BROADCAST_EVERY, path, &addresses)?,
                false => traffic,
            })
        };
        let mut traffic = way(Direction::Forward)?;
        if variant.both_directions {
            traffic = traffic.both_ways(way(Direction::Reverse)?)?;
        }
        Ok(Some(Arc::new(traffic)))
    }

    /// Returns the frames of a stream in bursts of this length and rate, with this load on average.
    pub(super) fn in_bursts(
        &self,
        stream: &Stream,
        variant: &Variant,
        bursts: Bursts,
        load_pps: f64,
    ) -> Result<Arc<fwdlab_engine::Traffic>, LabError> {
        let traffic = match self.frames(stream, variant)? {
            Some(traffic) => traffic.as_ref().clone(),
            None => self.stream_traffic(&variant.stream(stream), false, Direction::Forward)?,
        };
        let streams = traffic.streams.into_iter().map(|mut stream| {
            stream.timing.mode = Emission::Bursts {
                frames: bursts.frames.into(),
                pause_ns: bursts.gap_ns(load_pps).round().max(0.0) as u64,
                bursts: None,
            };
            stream
        });
        Ok(Arc::new(fwdlab_engine::Traffic {
            streams: streams.collect(),
            ..traffic
        }))
    }

    /// Returns sources and destinations of the test frames as prefixes, forward and, if they go
    /// both ways, in reverse.
    pub(super) fn pairs(&self, stream: &Stream, variant: &Variant) -> Pairs {
        let forward = match (&self.profile, stream.ip_version) {
            (Some(profile), _) => ends(&profile.forward),
            (None, version) => {
                let Networks { input, output, .. } = &self.networks;
                vec![(input.prefix(version), output.prefix(version))]
            }
        };
        let reverse = match (variant.both_directions, &self.profile) {
            (false, _) => Vec::new(),
            (true, Some(profile)) => profile.reverse.as_ref().map_or_else(Vec::new, ends),
            (true, None) => forward
                .iter()
                .cloned()
                .map(|(from, to)| (to, from))
                .collect(),
        };
        [forward, reverse].concat()
    }

    /// Returns frames that no filter permits, for its proof: from addresses outside the test.
    pub(super) fn denied(
        &self,
        version: IpVersion,
    ) -> Result<Arc<fwdlab_engine::Traffic>, LabError> {
        let to = host(&self.networks.output, version, DENIED);
        let layer = match version {
            IpVersion::Ipv4 => {
                format!(r#"{{ ipv4 = {{ source = "192.0.2.250", destination = "{to}" }} }}"#)
            }
            IpVersion::Ipv6 => {
                format!(r#"{{ ipv6 = {{ source = "2001:db8:ffff::1", destination = "{to}" }} }}"#)
            }
        };
        let text = format!("[[stream]]\nlayers = [{layer}, \"udp\"]\n");
        compiled(&text, Direction::Forward, self.networks.forward()).map(Arc::new)
    }

    /// Returns what a simulated DUT must know about the frames.
    pub(super) fn offer(
        &self,
        stream: &Stream,
        variant: &Variant,
    ) -> Result<fwdlab_engine::sim::Offer, LabError> {
        let beside = match self.frames(stream, variant)? {
            Some(traffic) => UnforwardedFrames::from_traffic(&traffic).share(&traffic),
            None => 0.0,
        };
        Ok(fwdlab_engine::sim::Offer {
            mean: self.mean(),
            beside,
        })
    }

    /// Returns the routes that the DUT needs for the frames of these series, in addition to those
    /// of the bed.
    pub(super) fn routes(&self, streams: &[Stream]) -> Result<Vec<Route>, LabError> {
        let mut all: Vec<Route> = Vec::new();
        for variant in &self.variants {
            if self.profile.is_none() && variant.destinations != Destinations::Random {
                continue;
            }
            for stream in streams {
                let Some(traffic) = self.frames(stream, variant)? else {
                    continue;
                };
                let ends = [End::Output, End::Input];
                let ways = 1 + usize::from(variant.both_directions);
                for (path, out) in ends.into_iter().take(ways).enumerate() {
                    let this = fwdlab_engine::Traffic {
                        name: String::new(),
                        streams: (traffic.streams.iter())
                            .filter(|stream| stream.path == path)
                            .cloned()
                            .collect(),
                    };
                    let routes = match variant.destinations {
                        Destinations::Random => {
                            networks(self.networks.side(out), stream.ip_version)
                        }
                        _ => routes(&this),
                    };
                    for network in routes {
                        let routed = self.profile.is_some() && self.networks.contain(network.0);
                        if !routed && all.iter().all(|known| known.network != network) {
                            all.push(Route { network, out });
                        }
                    }
                }
            }
        }
        Ok(all)
    }

    /// Returns a stream as traffic of one direction.
    fn stream_traffic(
        &self,
        stream: &Stream,
        is_random: bool,
        direction: Direction,
    ) -> Result<fwdlab_engine::Traffic, LabError> {
        let version = stream.ip_version;
        let ip = version.to_string().to_lowercase();
        let mut text = format!(
            "[[stream]]\nname = \"test\"\nlayers = [\"{ip}\", \"udp\"]\nsize = {}\n",
            stream.frame_size_bytes
        );
        let (side, end, addresses) = match direction {
            // in reverse, sides are swapped: the source varies where frames are sent
            Direction::Reverse => (&self.networks.input, "source", self.networks.reverse()),
            Direction::Forward => (
                &self.networks.output,
                "destination",
                self.networks.forward(),
            ),
        };
        if is_random {
            let to: Vec<String> = (0..NETWORKS)
                .map(|n| format!("\"{}\"", host(side, version, n)))
                .collect();
            let _ = write!(
                text,
                "order = \"drawn\"\ncache = {DRAWS}\nvary = [{{ field = \"{ip}.{end}\", values = [{}] }}]\n",
                to.join(", ")
            );
        } else {
            let _ = writeln!(text, "flows = {}", stream.flows);
        }
        compiled(&text, direction, addresses)
    }
}

/// Returns the name of a file of a series.
pub(super) fn file_name(variant: &Variant) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '=' {
            c
        } else {
            '-'
        }
    };
    words(variant).chars().map(plain).collect()
}

/// Describes a variant, also the plain one.
pub(super) fn words(variant: &Variant) -> String {
    match variant.is_plain() {
        true => "plain".into(),
        false => variant.to_string(),
    }
}

/// Compiles a profile of our own.
fn compiled(
    text: &str,
    direction: Direction,
    addresses: Addresses,
) -> Result<fwdlab_engine::Traffic, LabError> {
    let profile = Profile::parse("stream", text).map_err(|e| LabError::Preflight(e.to_string()))?;
    let setting = Setting {
        direction,
        addresses,
        vlan: None,
        link: None,
        read: &|_| Err(std::io::ErrorKind::NotFound.into()),
    };
    let compiled = compile(&profile, &setting).map_err(|e| LabError::Preflight(e.to_string()))?;
    Ok(compiled.traffic)
}

/// Returns network n of random destinations on a side. IPv6 networks contain no port of the bed.
fn network(side: &Side, version: IpVersion, n: u32) -> (IpAddr, u8) {
    match version {
        IpVersion::Ipv4 => {
            let first = u32::from(side.ipv4.behind.0);
            (Ipv4Addr::from(first + (n << 8)).into(), 24)
        }
        IpVersion::Ipv6 => {
            let first = u128::from(side.ipv6.behind.0);
            let number = 0x100 + u128::from(n);
            (Ipv6Addr::from(first + (number << 64)).into(), 64)
        }
    }
}

fn networks(side: &Side, version: IpVersion) -> Vec<(IpAddr, u8)> {
    (0..NETWORKS).map(|n| network(side, version, n)).collect()
}

/// Returns the host in it that frames are sent to.
fn host(side: &Side, version: IpVersion, n: u32) -> IpAddr {
    match network(side, version, n).0 {
        IpAddr::V4(net) => Ipv4Addr::from(u32::from(net) + 10).into(),
        IpAddr::V6(net) => Ipv6Addr::from(u128::from(net) + 16).into(),
    }
}

/// Returns prefixes that contain all destinations of the frames that a router forwards, without
/// those of the bed.
fn routes(traffic: &fwdlab_engine::Traffic) -> Vec<(IpAddr, u8)> {
    let mut routes = Vec::new();
    let kinds = traffic.streams.iter().flat_map(|stream| &stream.kinds);
    for kind in kinds.filter(|kind| kind.is_forwarded()) {
        let Some(Reach { to, .. }) = outermost(kind) else {
            continue;
        };
        let route = covering(to.0, to.1);
        if !routes.contains(&route) {
            routes.push(route);
        }
    }
    routes
}

/// Returns sources and destinations of the frames that a router forwards, as prefixes: one pair for
/// each IP version.
fn ends(traffic: &fwdlab_engine::Traffic) -> Pairs {
    let mut known: Vec<[(IpAddr, IpAddr); 2]> = Vec::new();
    let kinds = traffic.streams.iter().flat_map(|stream| &stream.kinds);
    for kind in kinds.filter(|kind| kind.is_forwarded()) {
        let Some((from, to)) = outermost(kind).and_then(|reach| Some((reach.from?, reach.to)))
        else {
            continue;
        };
        let alike = |other: &&mut [(IpAddr, IpAddr); 2]| other[0].0.is_ipv4() == from.0.is_ipv4();
        match known.iter_mut().find(alike) {
            Some(other) => {
                for (other, this) in other.iter_mut().zip([from, to]) {
                    *other = (other.0.min(this.0), other.1.max(this.1));
                }
            }
            None => known.push([from, to]),
        }
    }
    let prefix = |(low, high): (IpAddr, IpAddr)| {
        let (network, length) = covering(low, high);
        format!("{network}/{length}")
    };
    known
        .iter()
        .map(|[from, to]| (prefix(*from), prefix(*to)))
        .collect()
}

/// Returns the destination of the outermost header.
fn outermost(kind: &Kind) -> Option<Reach> {
    let mut reach = kind.reach().into_iter();
    reach.find(|reach| reach.destination.inside.is_none())
}

/// Returns the longest prefix that contains both addresses.
fn covering(low: IpAddr, high: IpAddr) -> (IpAddr, u8) {
    match (low, high) {
        (IpAddr::V4(low), IpAddr::V4(high)) => {
            let length = (u32::from(low) ^ u32::from(high)).leading_zeros();
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            (Ipv4Addr::from(u32::from(low) & mask).into(), length as u8)
        }
        (IpAddr::V6(low), IpAddr::V6(high)) => {
            let length = (u128::from(low) ^ u128::from(high)).leading_zeros();
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            (Ipv6Addr::from(u128::from(low) & mask).into(), length as u8)
        }
        (low, _) => (low, if low.is_ipv4() { 32 } else { 128 }),
    }
}

/// Returns the mean size of the first frames, including FCS.
fn mean(traffic: &fwdlab_engine::Traffic) -> Result<MeanSize, String> {
    let frames = TrafficFrames {
        traffic: Arc::new(traffic.clone()),
        nonce: 0,
    };
    let mut player = Player::new(&frames, None).map_err(|e| e.to_string())?;
    // whole rounds, because a partial round would distort the mean of a mix
    let rounds = player.cycle().filter(|cycle| *cycle <= LOOKED_AT.into());
    let patterns = traffic
        .streams
        .iter()
        .map(|stream| stream.pattern.len() as u64);
    let round = rounds.or(patterns.max()).unwrap_or(1).max(1);
    let look = (u64::from(LOOKED_AT) / round).max(1) * round;
    let mut buffer = vec![0; player.buffer_len()];
    let (mut bytes, mut count) = (0, 0);
    while count < look {
        let len = player.take(&mut buffer, None, 0);
        if len == 0 {
            break;
        }
        // shorter frames are padded
        bytes += (len as u64 + 4).max(FrameSize::MIN.bytes().into());
        count += 1;
    }
    MeanSize::new(bytes, count).ok_or_else(|| format!("profile {}: it has no frames", traffic.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fwdlab_engine::traffic::reach;

    fn stream(ip_version: IpVersion) -> Stream {
        Stream::new(ip_version, FrameSize::new(84).unwrap(), 2000).unwrap()
    }

    fn variant(destinations: Destinations, both_directions: bool) -> Variant {
        Variant {
            destinations,
            both_directions,
            ..Variant::default()
        }
    }

    /// More flows than a stream can have, and more than are examined one by one.
    #[test]
    fn the_number_of_flows_of_a_profile_is_known() {
        let read = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        for (text, flows) in [
            ("[[stream]]\nflows = 100_000\n", 100_000),
            (
                "[[stream]]\nflows = 5_000_000\n[[stream]]\nflows = 7\n",
                5_000_007,
            ),
            ("[[stream]]\nsize = 64\n", 1),
        ] {
            let profile = Profile::parse("test.toml", text).unwrap();
            let frames = ProfileFrames::new(&profile, false, None, &Networks::EMBEDDED, &read);
            let of = Traffic {
                profile: Some(Arc::new(frames.unwrap())),
                ..Traffic::default()
            };
            let plain = variant(Destinations::Flows, false);
            assert_eq!(of.flows(&stream(IpVersion::Ipv4), &plain), flows, "{text}");
        }
        let plain = variant(Destinations::Flows, false);
        let of_stream = Traffic::default().flows(&stream(IpVersion::Ipv4), &plain);
        assert_eq!(of_stream, 2000);
    }

    /// Counted by another parser of frames: every network nearly equally often, none twice as often
    /// in order.
    #[test]
    fn random_destinations_are_uniform_over_256_networks() {
        for version in [IpVersion::Ipv4, IpVersion::Ipv6] {
            let of = variant(Destinations::Random, true);
            let traffic = Traffic::default()
                .frames(&stream(version), &of)
                .unwrap()
                .unwrap();
            let frames = TrafficFrames { traffic, nonce: 1 };
            let mut player = Player::new(&frames, None).unwrap();
            let mut buffer = vec![0; player.buffer_len()];
            let mut counts = [const { std::collections::BTreeMap::<u8, u32>::new() }; 2];
            for _ in 0..2 * DRAWS {
                let path = player.path();
                let len = player.take(&mut buffer, None, 0);
                let network = match reach::frame_reach(&buffer[..len])[0].to.0 {
                    IpAddr::V4(to) => {
                        assert_eq!(to.octets()[1], 19 - path as u8);
                        to.octets()[2]
                    }
                    IpAddr::V6(to) => {
                        assert_eq!(to.segments()[3] & 0xff00, [0x8100, 0x0100][path]);
                        to.segments()[3] as u8
                    }
                };
                *counts[path].entry(network).or_default() += 1;
            }
            for counts in counts {
                assert_eq!(counts.len(), 256);
                // chi square with 255 degrees of freedom: above 331 once in a thousand
                let chi: f64 = counts
                    .values()
                    .map(|n| (f64::from(*n) - 256.0).powi(2) / 256.0)
                    .sum();
                assert!((180.0..340.0).contains(&chi), "{chi}");
            }
        }
    }

    #[test]
    fn frames_of_both_ways_have_the_addresses_of_their_ports() {
        let of = variant(Destinations::Single, true);
        let traffic = Traffic::default()
            .frames(&stream(IpVersion::Ipv4), &of)
            .unwrap()
            .unwrap();
        let [there, back] = [0, 1].map(|k| &traffic.streams[k].kinds[0].template);
        let Networks { input, output, .. } = Networks::EMBEDDED;
        assert_eq!(there[..12], [input.dut_mac, input.tester_mac].concat());
        assert_eq!(back[..12], [output.dut_mac, output.tester_mac].concat());
        assert_eq!(there[26..34], [198, 18, 10, 1, 198, 19, 10, 1]);
        assert_eq!(back[26..34], [198, 19, 10, 1, 198, 18, 10, 1]);
        let plain = Traffic::default();
        let single = variant(Destinations::Single, false);
        assert!(
            plain
                .frames(&stream(IpVersion::Ipv4), &single)
                .unwrap()
                .is_none()
        );
        assert_eq!(single.stream(&stream(IpVersion::Ipv4)).flows, 1);
    }

    #[test]
    fn mean_size_and_destinations_of_a_profile_are_known() {
        let read = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let of = |text: &str| {
            let profile = Profile::parse("test.toml", text).unwrap();
            ProfileFrames::new(&profile, false, None, &Networks::EMBEDDED, &read)
        };
        let imix = of("[[stream]]\nsize = \"imix\"\n").unwrap();
        assert!((imix.mean.bytes() - 4342.0 / 12.0).abs() < 1e-9);
        assert_eq!(imix.as_stream().frame_size_bytes.bytes(), 362);
        let far = of("[[stream]]\nvary = [{ field = \"ipv4.destination\", from = \"48.0.0.1\", to = \"48.0.3.254\" }]\n").unwrap();
        assert_eq!(routes(&far.forward), [("48.0.0.0".parse().unwrap(), 22)]);
        let traffic = Traffic {
            profile: Some(Arc::new(far)),
            ..Traffic::default()
        };
        let by_output = |network: &str, length| Route {
            network: (network.parse().unwrap(), length),
            out: End::Output,
        };
        let all = traffic.routes(&[stream(IpVersion::Ipv4)]).unwrap();
        assert_eq!(all, [by_output("48.0.0.0", 22)]);
        let random = Traffic {
            variants: vec![variant(Destinations::Random, false)],
            ..Traffic::default()
        };
        let all = random.routes(&[stream(IpVersion::Ipv4)]).unwrap();
        assert_eq!(all.len(), 256);
        assert!(all.contains(&by_output("198.19.255.0", 24)));
        for (text, words) in [
            (
                "[[stream]]\nlayers = [\"ipv4\", \"tcp\"]\nsize = 64\n",
                "signature = true",
            ),
            ("[[stream]]\nlayers = [\"arp\"]\n", "a router forwards none"),
        ] {
            assert!(of(text).unwrap_err().contains(words), "{text}");
        }
    }
}
