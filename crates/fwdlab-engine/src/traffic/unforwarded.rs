//! Frames that a router does not forward: which of a traffic's frames they are, and how many of
//! them were sent.
//!
//! Broadcasts, multicasts, ARP, updates of routing protocols: a test may send them, and must not
//! wait for them. Derived from templates only; what a program writes into addresses is ignored.
//! Start with [`Kind::is_forwarded`] and [`UnforwardedFrames`].

use fwdlab_packet::MacAddr;
use fwdlab_packet::decode::decode;
use fwdlab_packet::header::ethernet;
use fwdlab_packet::modifier::Program;
use fwdlab_packet::stack::{Layer, Size, build};

use super::player::own_load_pps;
use super::{Addresses, Emission, Kind, Stream, Timing, Traffic};
use crate::error::EngineError;

/// The EtherType for local experiments (IEEE 802), which no router processes.
const LOCAL_EXPERIMENT: u16 = 0x88b5;

/// The smallest hop limit with which a router forwards a packet: it decrements it by one.
const FEWEST_HOPS: u8 = 2;

impl Kind {
    /// Returns true if a router forwards such frames: they are addressed to one port, carry MPLS or
    /// IP to one host beyond the link, and have a hop left.
    pub fn is_forwarded(&self) -> bool {
        let layers = decode(&self.template).layers;
        let mut layers = layers.iter();
        let Some(Layer::Ethernet(ethernet)) = layers.next() else {
            return false;
        };
        if ethernet.destination.0[0] & 1 == 1 {
            return false;
        }
        match layers.find(|layer| !matches!(layer, Layer::Vlan(_))) {
            Some(Layer::Mpls(_)) => true,
            Some(Layer::Ipv4(ip)) => {
                let to = ip.destination;
                let on_link = to.is_multicast() || to.is_broadcast() || to.is_link_local();
                !on_link && !to.is_loopback() && ip.ttl >= FEWEST_HOPS
            }
            Some(Layer::Ipv6(ip)) => {
                let to = ip.destination;
                let on_link = to.is_multicast() || to.is_unicast_link_local();
                !on_link && !to.is_loopback() && ip.hop_limit >= FEWEST_HOPS
            }
            _ => false,
        }
    }
}

/// Counts those frames among all that were sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnforwardedFrames {
    /// For each stream: its path, and the number of such frames among the first n frames of its
    /// pattern.
    streams: Vec<(usize, Box<[u64]>)>,
}

impl UnforwardedFrames {
    /// Prepares the counts for this traffic.
    pub fn from_traffic(traffic: &Traffic) -> UnforwardedFrames {
        let of_stream = |stream: &Stream| {
            let stays: Vec<bool> = stream.kinds.iter().map(|k| !k.is_forwarded()).collect();
            let mut all = 0;
            let mut among = vec![0];
            for &kind in &stream.pattern {
                all += u64::from(stays[usize::from(kind)]);
                among.push(all);
            }
            (stream.path, among.into())
        };
        UnforwardedFrames {
            streams: traffic.streams.iter().map(of_stream).collect(),
        }
    }

    /// Returns the number of such frames on each of `paths` paths, given the number sent of each
    /// stream.
    pub fn count(&self, sent: &[u64], paths: usize) -> Vec<u64> {
        let mut counts = vec![0; paths];
        for ((path, among), sent) in self.streams.iter().zip(sent) {
            let round = among.len() as u64 - 1;
            if let Some(count) = counts.get_mut(*path).filter(|_| round > 0) {
                *count += sent / round * among[round as usize] + among[(sent % round) as usize];
            }
        }
        counts
    }

    /// Returns the share of such frames in all frames, if all streams send at the same time.
    pub fn share(&self, traffic: &Traffic) -> f64 {
        let (mut stay, mut all) = (0.0, 0.0);
        for ((_, among), stream) in self.streams.iter().zip(&traffic.streams) {
            let rate = stream.timing.rate_pps;
            all += rate;
            stay += rate * among[among.len() - 1] as f64 / (among.len() - 1).max(1) as f64;
        }
        if all > 0.0 { stay / all } else { 0.0 }
    }
}

impl Traffic {
    /// Returns this traffic with broadcasts that a router does not need to process, one every
    /// `every` frames, evenly spread (RFC 2544 §11.1).
    ///
    /// # Errors
    /// If no such frame can be built.
    pub fn with_broadcasts(
        mut self,
        every: u32,
        path: usize,
        addresses: &Addresses,
    ) -> Result<Traffic, EngineError> {
        let layers = [
            Layer::Ethernet(ethernet::Repr {
                destination: MacAddr([0xff; 6]),
                source: MacAddr(addresses.source_mac),
                ethertype: LOCAL_EXPERIMENT,
            }),
            Layer::Payload(b"broadcast".to_vec()),
        ];
        let frame = build(&layers, Size::Padded).map_err(|e| EngineError::Frames(e.to_string()))?;
        let last = self.streams.iter().map(|stream| stream.id).max();
        // even numbers go forward and odd ones back
        let id = last.and_then(|last| last.checked_add(2));
        let id =
            id.ok_or_else(|| EngineError::Frames("there is no room for another stream".into()))?;
        let rate_pps = own_load_pps(&self) / f64::from(every.max(2) - 1);
        self.streams.push(Stream {
            id,
            name: "broadcast".into(),
            kinds: vec![Kind {
                template: frame.bytes,
                program: Program::default(),
                place: None,
            }],
            pattern: vec![0],
            timing: Timing::new(rate_pps, Emission::Continuous),
            path,
        });
        Ok(self)
    }

    /// Combines the traffic of both directions, each on its path; each keeps its own load.
    ///
    /// # Errors
    /// If their signatures are at different places.
    pub fn both_ways(mut self, reverse: Traffic) -> Result<Traffic, EngineError> {
        let places = [self.place(), reverse.place()];
        if places[0] != places[1] {
            return Err(EngineError::Frames(format!(
                "frames of {} carry their signatures at different places in the two directions",
                self.name
            )));
        }
        let before = self.streams.len();
        self.streams
            .extend(reverse.streams.into_iter().map(|mut stream| {
                stream.path = 1;
                stream.timing.next = stream.timing.next.map(|next| next + before);
                stream
            }));
        let mut ids: Vec<u16> = self.streams.iter().map(|stream| stream.id).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(EngineError::Frames(format!(
                "two streams of {} have the same number",
                self.name
            )));
        }
        Ok(self)
    }

    /// Returns the names of streams whose frames should come back but have no signature.
    pub fn unknown(&self) -> Vec<&str> {
        let unknown = |stream: &&Stream| {
            let mut kinds = stream.kinds.iter();
            kinds.any(|kind| kind.place.is_none() && kind.is_forwarded())
        };
        let streams = self.streams.iter().filter(unknown);
        streams.map(|stream| stream.name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use fwdlab_model::profile::Profile;

    use super::super::TrafficFrames;
    use super::super::compile::{Direction, Setting, compile};
    use super::super::player::Player;
    use super::*;

    const ADDRESSES: Addresses = Addresses::between([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);

    fn traffic(text: &str, direction: Direction) -> Traffic {
        let setting = Setting {
            direction,
            addresses: ADDRESSES,
            vlan: None,
            link: None,
            read: &|_| Err(std::io::ErrorKind::NotFound.into()),
        };
        let profile = Profile::parse("test.toml", text).unwrap();
        compile(&profile, &setting).unwrap().traffic
    }

    #[test]
    fn frames_that_a_router_must_not_forward_are_found() {
        for (layers, forwarded) in [
            (r#""ipv4", "udp""#, true),
            (r#""ipv6", "udp""#, true),
            (r#"{ vlan = { id = 7 } }, "ipv4", "udp""#, true),
            (r#"{ mpls = { label = 16 } }, "ipv4", "udp""#, true),
            (r#"{ ipv4 = { ttl = 1 } }, "udp""#, false),
            (r#"{ ipv4 = { destination = "224.0.0.9" } }, "udp""#, false),
            (
                r#"{ ipv4 = { destination = "255.255.255.255" } }, "udp""#,
                false,
            ),
            (r#"{ ipv6 = { destination = "ff02::9" } }, "udp""#, false),
            (r#"{ ipv6 = { hop-limit = 1 } }, "udp""#, false),
            (
                r#"{ ethernet = { destination = "01:00:5e:00:00:05" } }, "ipv4", "udp""#,
                false,
            ),
            (r#""arp""#, false),
        ] {
            let text = format!("[[stream]]\nlayers = [{layers}]\n");
            let traffic = traffic(&text, Direction::Forward);
            assert_eq!(
                traffic.streams[0].kinds[0].is_forwarded(),
                forwarded,
                "{layers}"
            );
        }
    }

    #[test]
    fn every_hundredth_frame_is_a_broadcast_in_each_direction() {
        let text = "[[stream]]\nflows = 20\nsize = \"imix\"\n";
        let [forward, reverse] =
            [Direction::Forward, Direction::Reverse].map(|way| traffic(text, way));
        let both = forward.with_broadcasts(100, 0, &ADDRESSES).unwrap();
        let frames = TrafficFrames {
            traffic: both.clone().into(),
            nonce: 7,
        };
        let mut player = Player::new(&frames, None).unwrap();
        let mut buffer = vec![0; player.buffer_len()];
        let mut at = Vec::new();
        for n in 0..100_000 {
            player.take(&mut buffer, None, 0);
            if buffer[..6] == [0xff; 6] {
                // check with another parser: not IP, and nothing that a router has to process
                let parsed = etherparse::SlicedPacket::from_ethernet(&buffer).unwrap();
                assert!(parsed.net.is_none());
                at.push(n);
            }
        }
        assert_eq!(at.len(), 1000);
        assert!(
            at.windows(2).all(|pair| pair[1] - pair[0] == 100),
            "{:?}",
            &at[..5]
        );
        let beside = UnforwardedFrames::from_traffic(&both);
        assert_eq!(beside.count(&[990, 10], 1), [10]);
        assert!((beside.share(&both) - 0.01).abs() < 1e-12);

        let reverse = reverse.with_broadcasts(100, 1, &ADDRESSES).unwrap();
        let both = both.both_ways(reverse).unwrap();
        assert_eq!(
            UnforwardedFrames::from_traffic(&both).count(&[99, 1, 99, 2], 2),
            [1, 2]
        );
        assert!(both.unknown().is_empty());
        assert!(both.clone().both_ways(both).is_err());
    }

    #[test]
    fn a_pattern_with_some_is_counted_frame_by_frame() {
        let mut mixed = traffic("[[stream]]\nsize = [64, 128, 256]\n", Direction::Forward);
        let to = Ipv4Addr::new(224, 0, 0, 5).octets();
        mixed.streams[0].kinds[1].template[30..34].copy_from_slice(&to);
        let beside = UnforwardedFrames::from_traffic(&mixed);
        for (sent, expect) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 1), (5, 2), (300, 100)] {
            assert_eq!(beside.count(&[sent], 1), [expect], "{sent}");
        }
    }
}
