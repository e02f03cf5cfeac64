//! Complete UDP test frames, built once and then changed per frame.
//!
//! A [`FrameTemplate`] does the constant work once. Per frame only addresses, ports, signature and
//! checksums change, and the checksums follow from [`PartialSums`] and the new fields, whatever the
//! frame size. It does not send, and knows no headers but Ethernet, IP and UDP. Start with
//! [`FrameTemplate::new`].

use serde::{Deserialize, Serialize};

use crate::checksum::{combine, fold, sum, wide_sum};
use crate::flow::{Addresses, Flow, IpVersion};
use crate::header::{ethernet, ipv4, ipv6, udp};
use crate::signature::{self, Signature};

/// Length of the frame check sequence, in bytes. Frame sizes count it; buffers do not hold it.
pub const FCS_LEN: u16 = 4;

/// The smallest IPv4 frame size. Its 18 payload bytes are the signature.
pub const MIN_FRAME_SIZE_V4: u16 = 64;

/// The smallest IPv6 frame size with a signature (RFC 8219's counterpart of 64).
pub const MIN_FRAME_SIZE_V6: u16 = 84;

const IP: usize = ethernet::HEADER_LEN;
const UDP_V4: usize = IP + ipv4::HEADER_LEN;
const UDP_V6: usize = IP + ipv6::HEADER_LEN;

/// End of the bytes that differ from frame to frame.
const END_V4: usize = signature::OFFSET_IPV4_UDP + signature::LEN;
const END_V6: usize = signature::OFFSET_IPV6_UDP + signature::LEN;

const HAS_ROOM: &str = "no template is smaller than the smallest frame with a signature";

/// The constant properties of a template's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameSpec {
    /// Source MAC address: the sending port's.
    pub source: ethernet::MacAddr,
    /// Destination MAC address: the DUT port's.
    pub destination: ethernet::MacAddr,
    /// IPv4 or IPv6.
    pub version: IpVersion,
    /// Bytes from destination MAC to FCS inclusive.
    pub frame_size: u16,
}

/// The frame size has no room for headers and signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "frame size {frame_size} is too small: {version}/UDP with the 18-byte signature needs at least \
     {minimum} (with FCS){}",
    if *.version == IpVersion::V6 { "; 66, the smallest IPv6/UDP frame, has no payload" } else { "" }
)]
pub struct FrameSizeError {
    /// Requested size, in bytes with FCS.
    pub frame_size: u16,
    /// IPv4 or IPv6.
    pub version: IpVersion,
    /// The smallest size that works, in bytes with FCS.
    pub minimum: u16,
}

/// The constant part of the checksums: sums over everything that does not change from frame to
/// frame.
///
/// For a sender that patches frames by itself, such as a BPF program. For each frame it adds the
/// sums, as 16-bit words in one's complement ([`combine`]), and complements the result:
///
/// - IPv4 header checksum = `!(ipv4_header + source + destination)`
/// - UDP checksum = `!(udp + source + destination + source port + destination port + signature)`,
///   and `0xffff` if that is 0.
///
/// The values are sums of big-endian words, in the byte order of this machine. One's-complement
/// addition does not depend on the byte order (RFC 1071 §2 (B)): a little-endian sender swaps the
/// two bytes of these constants once, adds the words as it loads them, and stores the result
/// unswapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialSums {
    /// IPv4 header without addresses (and without checksum); 0 in IPv6, which has no such checksum.
    pub ipv4_header: u16,
    /// UDP pseudo header without addresses, UDP header without ports, payload without signature.
    pub udp: u16,
}

/// A UDP test frame in which addresses, ports, signature and checksums are still to be set.
///
/// TTL or hop limit is 64, IPv4 identification 0 and DF clear; payload after the signature is zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameTemplate {
    version: IpVersion,
    /// The frame without FCS, with zero addresses, ports, signature and checksums.
    bytes: Box<[u8]>,
    sums: PartialSums,
}

impl FrameTemplate {
    /// Returns the same template with another source address, which no checksum covers.
    #[must_use]
    pub fn from_source(mut self, source: ethernet::MacAddr) -> FrameTemplate {
        self.bytes[6..12].copy_from_slice(&source.0);
        self
    }

    /// Builds the constant part of the frames.
    ///
    /// # Errors
    /// If the frame size is below [`MIN_FRAME_SIZE_V4`] or [`MIN_FRAME_SIZE_V6`].
    pub fn new(spec: &FrameSpec) -> Result<FrameTemplate, FrameSizeError> {
        let FrameSpec {
            source,
            destination,
            version,
            frame_size,
        } = *spec;
        let (ethertype, minimum) = match version {
            IpVersion::V4 => (ipv4::ETHERTYPE, MIN_FRAME_SIZE_V4),
            IpVersion::V6 => (ipv6::ETHERTYPE, MIN_FRAME_SIZE_V6),
        };
        if frame_size < minimum {
            return Err(FrameSizeError {
                frame_size,
                version,
                minimum,
            });
        }

        let mut bytes = vec![0; usize::from(frame_size - FCS_LEN)].into_boxed_slice();
        ethernet::Repr {
            destination,
            source,
            ethertype,
        }
        .emit(&mut bytes);
        let (ipv4_header, pseudo_header, udp_at) = match version {
            IpVersion::V4 => {
                let payload_len = (bytes.len() - UDP_V4) as u16;
                let ip = ipv4::Repr {
                    payload_len,
                    ..ipv4::Repr::default()
                };
                ip.emit(&mut bytes[IP..]);
                ipv4::Packet::new_unchecked(&mut bytes[IP..]).set_checksum(0);
                (sum(&bytes[IP..UDP_V4]), ip.pseudo_header(), UDP_V4)
            }
            IpVersion::V6 => {
                let payload_len = (bytes.len() - UDP_V6) as u16;
                let ip = ipv6::Repr {
                    payload_len,
                    ..ipv6::Repr::default()
                };
                ip.emit(&mut bytes[IP..]);
                (0, ip.pseudo_header(), UDP_V6)
            }
        };
        let payload_len = (bytes.len() - udp_at - udp::HEADER_LEN) as u16;
        udp::Repr {
            source_port: 0,
            destination_port: 0,
            payload_len,
        }
        .emit(&mut bytes[udp_at..]);
        let udp = combine(&[pseudo_header, sum(&bytes[udp_at..])]);
        Ok(FrameTemplate {
            version,
            bytes,
            sums: PartialSums { ipv4_header, udp },
        })
    }

    /// Returns the bytes of a frame in a buffer: the frame size without the FCS.
    pub fn buffer_len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the constant part of the checksums.
    pub fn partial_sums(&self) -> PartialSums {
        self.sums
    }

    /// Writes a whole frame to the first [`buffer_len`](Self::buffer_len) bytes.
    ///
    /// # Panics
    /// If `buffer` is shorter, or the flow has another IP version than the template.
    #[inline]
    pub fn write(&self, buffer: &mut [u8], flow: &Flow, signature: &Signature) {
        buffer[..self.bytes.len()].copy_from_slice(&self.bytes);
        self.patch(buffer, flow, signature);
    }

    /// Turns a frame of this template into another: the bytes are then the same as after
    /// [`write`](Self::write).
    ///
    /// Note: the checksums come from [`PartialSums`], not from the frame's old ones (RFC 1624):
    /// that would require reading the old fields too, and would preserve an error for ever.
    ///
    /// # Panics
    /// If `buffer` is shorter than the frame, or the flow has another IP version than the template.
    #[inline]
    pub fn patch(&self, buffer: &mut [u8], flow: &Flow, signature: &Signature) {
        let buffer = &mut buffer[..self.bytes.len()];
        match (self.version, flow.addresses) {
            (
                IpVersion::V4,
                Addresses::V4 {
                    source,
                    destination,
                },
            ) => {
                let frame: &mut [u8; END_V4] = buffer.first_chunk_mut().expect(HAS_ROOM);
                let addresses = wide_sum(&source.octets()) + wide_sum(&destination.octets());
                let mut ip = ipv4::Packet::new_unchecked(&mut frame[IP..]);
                ip.set_source(source);
                ip.set_destination(destination);
                ip.set_checksum(!fold(u64::from(self.sums.ipv4_header) + addresses));
                self.patch_udp(&mut frame[UDP_V4..], addresses, flow, signature);
            }
            (
                IpVersion::V6,
                Addresses::V6 {
                    source,
                    destination,
                },
            ) => {
                let frame: &mut [u8; END_V6] = buffer.first_chunk_mut().expect(HAS_ROOM);
                let addresses = wide_sum(&source.octets()) + wide_sum(&destination.octets());
                let mut ip = ipv6::Packet::new_unchecked(&mut frame[IP..]);
                ip.set_source(source);
                ip.set_destination(destination);
                self.patch_udp(&mut frame[UDP_V6..], addresses, flow, signature);
            }
            (version, _) => panic!("flow {flow} in a template for {version}"),
        }
    }

    #[inline]
    fn patch_udp(&self, bytes: &mut [u8], addresses: u64, flow: &Flow, signature: &Signature) {
        signature.write(&mut bytes[udp::HEADER_LEN..]);
        let mut udp = udp::Packet::new_unchecked(bytes);
        udp.set_source_port(flow.source_port);
        udp.set_destination_port(flow.destination_port);
        let ports = u64::from(flow.source_port) + u64::from(flow.destination_port);
        let sum = u64::from(self.sums.udp) + addresses + ports + signature.wide_sum();
        udp.set_checksum_of(fold(sum));
    }
}
