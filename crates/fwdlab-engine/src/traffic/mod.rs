//! The frames of a trial: test frames, or the traffic of a profile.
//!
//! A [`Traffic`] is a profile once everything is known that can be known beforehand: frames as bytes,
//! programs, times. It says nothing of files, addresses of ports or absolute loads: those are settled
//! when a profile is compiled. Start with [`Frames`] and [`Stream`].

pub mod beside;
pub mod compile;
pub mod expect;
pub mod player;
pub mod reach;
mod test_frames;

use serde::{Deserialize, Serialize};

use std::sync::Arc;

use fwdlab_packet::modifier::Program;

pub use self::test_frames::{Addresses, TestFrames};
use crate::signature::{SignaturePlace, flow_label, flow_label_at};

/// Streams that leave through one port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// The profile's name, for results.
    pub name: String,
    /// The streams; at least one.
    pub streams: Vec<Stream>,
}

/// Frames that follow each other at one rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// In the signature of its frames, in counts and results; no two streams of a profile, in either direction, share one.
    pub id: u16,
    /// Its name, for results.
    pub name: String,
    /// What its frames look like; an IMIX has one kind for each size.
    pub kinds: Vec<Kind>,
    /// Which kind the frames are, one after another, over and over: indices into `kinds`.
    pub pattern: Vec<u16>,
    /// When they leave.
    pub timing: Timing,
    /// Into which path, counted from the one that is selected: 1 is the way back where frames go both ways.
    pub path: usize,
}

/// Frames of one make: a template, and what differs from frame to frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kind {
    /// A whole frame without FCS, all checksums right.
    pub template: Vec<u8>,
    /// What is written into it. An [`Instruction::Signature`](fwdlab_packet::modifier::Instruction::Signature), where there is one,
    /// has room for [`fwdlab_packet::signature::LEN`] bytes.
    pub program: Program,
    /// Where its frames carry their signature; `None`: they have none and are only frames to whoever receives them.
    pub place: Option<SignaturePlace>,
}

impl Kind {
    /// Do its frames carry a signature of 18 bytes, so that they can be told from others and counted one by one? In a flow
    /// label there is room for the trial's nonce alone.
    pub fn is_signed(&self) -> bool {
        matches!(
            self.place,
            Some(SignaturePlace::UdpPayload | SignaturePlace::Tail)
        )
    }

    /// The kind as it is sent in the trial with this nonce: where the flow label says which trial, that is written now,
    /// because it is the same in all frames.
    #[must_use]
    pub fn for_trial(&self, nonce: u16) -> Kind {
        let mut kind = self.clone();
        if kind.place == Some(SignaturePlace::FlowLabel)
            && let Some(at) = flow_label_at(&kind.template)
        {
            let label = flow_label(nonce).to_be_bytes();
            kind.template[at] = kind.template[at] & 0xf0 | label[1];
            kind.template[at + 1..at + 3].copy_from_slice(&label[2..]);
        }
        kind
    }
}

impl Traffic {
    /// Does this stream send a fixed number of frames? An endless one does not, nor one in a chain that loops forever.
    pub(crate) fn is_counted(&self, stream: usize) -> bool {
        let endless = |mode| {
            matches!(
                mode,
                Emission::Continuous | Emission::Bursts { bursts: None, .. }
            )
        };
        let mut at = stream;
        for _ in 0..self.streams.len() {
            let timing = &self.streams[at].timing;
            if endless(timing.mode) {
                return at != stream;
            }
            match timing.next.filter(|_| timing.runs.is_none()) {
                None => return true,
                Some(next) if next == stream => return false,
                Some(next) => at = next,
            }
        }
        true
    }
}

/// When the frames of a stream leave.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Frames per second while it sends, at the profile's own load; a trial's load scales all streams alike.
    pub rate_pps: f64,
    /// How many, and in which groups.
    pub mode: Emission,
    /// Nothing leaves before this time after the start of the trial, or after the stream before it has ended.
    pub delay_ns: u64,
    /// Does it wait for another stream to end?
    pub waits: bool,
    /// Which stream starts when it has ended: an index into [`Traffic::streams`], possibly its own.
    pub next: Option<usize>,
    /// How often it may run before the chain ends here; `None`: without end.
    pub runs: Option<u32>,
    /// Does it send nothing until it is given a rate while the others send?
    #[serde(default)]
    pub held: bool,
}

impl Timing {
    /// From the begin on, alone and without end.
    pub fn new(rate_pps: f64, mode: Emission) -> Timing {
        Timing {
            rate_pps,
            mode,
            delay_ns: 0,
            waits: false,
            next: None,
            runs: None,
            held: false,
        }
    }
}

/// How many frames a stream sends, and in which groups.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Emission {
    /// One after another until the trial ends.
    Continuous,
    /// So many and no more.
    Burst {
        /// How many.
        frames: u64,
    },
    /// Groups with pauses between them.
    Bursts {
        /// Frames in each.
        frames: u64,
        /// From the last frame of one to the first of the next, in nanoseconds. The load scales rates, and
        /// neither pauses nor delays.
        pause_ns: u64,
        /// How many groups; `None`: without end.
        bursts: Option<u64>,
    },
}

/// The frames of one trial.
#[derive(Debug, Clone)]
pub enum Frames {
    /// Frames of one size that differ in their flow alone.
    Test(TestFrames),
    /// What a profile says.
    Traffic(TrafficFrames),
}

/// Traffic with a trial's nonce.
#[derive(Debug, Clone)]
pub struct TrafficFrames {
    /// What is sent.
    pub traffic: Arc<Traffic>,
    /// The trial's nonce, in every signature.
    pub nonce: u16,
}

#[cfg(test)]
mod tests {
    use super::*;
    use fwdlab_packet::MacAddr;
    use fwdlab_packet::header::{ethernet, ipv6, udp, vlan};
    use fwdlab_packet::stack::{Layer, Size, build};

    /// The smallest IPv6/UDP frame of RFC 5180, behind so many tags; another reader finds the label.
    #[test]
    fn the_flow_label_says_which_trial() {
        for tags in 0..3 {
            let mac = MacAddr([2, 0, 0, 0, 0, 1]);
            let mut layers = vec![Layer::Ethernet(ethernet::Repr {
                destination: mac,
                source: mac,
                ethertype: 0,
            })];
            for id in 0..tags {
                layers.push(Layer::Vlan(vlan::Repr {
                    priority: 0,
                    drop_eligible: false,
                    id,
                    ethertype: 0,
                }));
            }
            layers.push(Layer::Ipv6(ipv6::Repr {
                traffic_class: 0xab,
                flow_label: 0xf_ffff,
                ..ipv6::Repr::default()
            }));
            layers.push(Layer::Udp(udp::Repr {
                source_port: 2000,
                destination_port: 2000,
                payload_len: 0,
            }));
            let template = build(&layers, Size::Padded).unwrap().bytes;
            let kind = Kind {
                template,
                program: Program::default(),
                place: Some(SignaturePlace::FlowLabel),
            };
            let sent = kind.for_trial(0x1234).template;
            let parsed = etherparse::SlicedPacket::from_ethernet(&sent).unwrap();
            let Some(etherparse::NetSlice::Ipv6(ip)) = parsed.net else {
                panic!("IPv6 is expected");
            };
            assert_eq!(ip.header().flow_label().value(), 0x9_1234);
            assert_eq!(ip.header().traffic_class(), 0xab);
            assert!(!kind.is_signed());
        }
        assert_eq!(flow_label_at(&[0; 60]), None);
        assert_eq!(flow_label_at(&[]), None);
    }
}
