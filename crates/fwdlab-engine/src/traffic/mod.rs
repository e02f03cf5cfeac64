//! The frames of a trial: test frames, or the traffic of a profile.
//!
//! A [`Traffic`] is a profile with everything precomputed: frames as bytes, programs, times. It
//! contains no files, addresses of ports or absolute loads: those are resolved when a profile is
//! compiled. Start with [`Frames`] and [`Stream`].

pub mod compile;
pub mod expect;
pub mod player;
pub mod reach;
pub mod share;
mod test_frames;
pub mod unforwarded;

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
    /// Its id in the signature of its frames, in counts and results; no two streams of a profile
    /// share one, in either direction.
    pub id: u16,
    /// Its name, for results.
    pub name: String,
    /// The kinds of its frames; an IMIX has one kind for each size.
    pub kinds: Vec<Kind>,
    /// The kinds of consecutive frames, repeated: indices into `kinds`.
    pub pattern: Vec<u16>,
    /// When they leave.
    pub timing: Timing,
    /// Its path, counted from the selected one: 1 is the way back if frames go both ways.
    pub path: usize,
}

/// Frames of one kind: a template, and what differs from frame to frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kind {
    /// A whole frame without FCS, with correct checksums.
    pub template: Vec<u8>,
    /// The program that varies it. An
    /// [`Instruction::Signature`](fwdlab_packet::modifier::Instruction::Signature), if there is
    /// one, has room for [`fwdlab_packet::signature::LEN`] bytes.
    pub program: Program,
    /// Position of the signature in its frames; `None`: they have none, so receivers cannot
    /// identify them.
    pub place: Option<SignaturePlace>,
}

impl Kind {
    /// Returns true if its frames carry an 18-byte signature, so that they can be identified and
    /// counted one by one. A flow label only has room for the trial's nonce.
    pub fn is_signed(&self) -> bool {
        matches!(
            self.place,
            Some(SignaturePlace::UdpPayload | SignaturePlace::Tail)
        )
    }

    /// Returns the kind for the trial with this nonce: a flow label with the nonce is written now,
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
    /// Returns true if this stream sends a fixed number of frames. An endless stream does not, nor
    /// does one in a chain that loops forever.
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
    /// Frames per second while it sends, at the profile's own load; a trial's load scales all
    /// streams alike.
    pub rate_pps: f64,
    /// How many frames, and in which groups.
    pub mode: Emission,
    /// Time without frames after the start of the trial, or after the end of the previous stream.
    pub delay_ns: u64,
    /// True if it waits for another stream to end.
    pub waits: bool,
    /// The stream that starts when it has ended: an index into [`Traffic::streams`], possibly its
    /// own.
    pub next: Option<usize>,
    /// How often it may run before the chain ends here; `None`: without limit.
    pub runs: Option<u32>,
    /// True if it sends nothing until it gets a rate, while the others send.
    #[serde(default)]
    pub held: bool,
}

impl Timing {
    /// From the start on, independent of other streams.
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
    /// Frames until the trial ends.
    Continuous,
    /// A fixed number of frames.
    Burst {
        /// Number of frames.
        frames: u64,
    },
    /// Groups with pauses between them.
    Bursts {
        /// Frames in each.
        frames: u64,
        /// From the last frame of one group to the first of the next, in nanoseconds. The load
        /// scales rates, but neither pauses nor delays.
        pause_ns: u64,
        /// Number of groups; `None`: without limit.
        bursts: Option<u64>,
    },
}

/// The frames of one trial.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Frames {
    /// Frames of one size that differ only in their flow.
    Test(TestFrames),
    /// The frames of a profile.
    Traffic(TrafficFrames),
}

/// Traffic with a trial's nonce.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TrafficFrames {
    /// The traffic.
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

    /// The smallest IPv6/UDP frame of RFC 5180, behind a number of tags; another parser finds the
    /// label.
    #[test]
    fn the_flow_label_identifies_the_trial() {
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
