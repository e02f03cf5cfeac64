//! Correct the checksums after fields were written.
//!
//! If only whole fields inside the covered bytes changed, the new checksum follows from a partial
//! sum over everything constant and the values just written; otherwise it is computed over all
//! covered bytes. Both give the same bits. [`machine`](super::machine) decides once which of the
//! two is possible. Start with [`Fix`].

use super::column::AHEAD;
use crate::checksum::{fold, wide_sum};
use crate::header::{gre, icmp, icmpv6, tcp, udp};
use std::ops::Range;

/// A checksum to correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fix {
    /// Where the IP header starts, in bytes.
    ip: usize,
    /// Which checksum it is.
    about: About,
    /// Written instead of 0, which in UDP means "no checksum".
    zero: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    Ipv4Header,
    /// UDP, TCP, ICMPv6, ICMP or GRE, starting at this byte. The last two have no pseudo header.
    Transport {
        protocol: u8,
        at: usize,
    },
}

/// The bytes that a checksum covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Covered {
    /// Every range but the last has an even length.
    pub ranges: [Range<usize>; 2],
    /// Sum of protocol and length of the pseudo header.
    constant: u64,
}

impl Covered {
    /// Returns the sum before carries are added in.
    pub fn sum(&self, frame: &[u8]) -> u64 {
        let ranges = self
            .ranges
            .iter()
            .map(|range| wide_sum(&frame[range.clone()]));
        self.constant + ranges.sum::<u64>()
    }
}

impl Fix {
    pub fn ipv4_header(ip: usize) -> Fix {
        Fix {
            ip,
            about: About::Ipv4Header,
            zero: 0,
        }
    }

    /// `protocol`: UDP, TCP, ICMPv6, ICMP or GRE; `at`: the byte where its header starts.
    pub fn transport(ip: usize, protocol: u8, at: usize) -> Fix {
        Fix {
            ip,
            about: About::Transport { protocol, at },
            zero: if protocol == udp::PROTOCOL { 0xffff } else { 0 },
        }
    }

    /// Returns the bytes of the checksum field.
    pub fn field(&self) -> Range<usize> {
        let at = match self.about {
            About::Ipv4Header => self.ip + 10,
            About::Transport { protocol, at } => match protocol {
                udp::PROTOCOL => at + 6,
                tcp::PROTOCOL => at + 16,
                icmpv6::PROTOCOL | icmp::PROTOCOL => at + 2,
                gre::PROTOCOL => at + 4,
                other => unreachable!("no transport checksum for protocol {other}"),
            },
        };
        at..at + 2
    }

    /// Returns the bytes that decide what is covered. Writing them changes the coverage.
    pub fn decisive(&self, frame: &[u8]) -> [Range<usize>; 2] {
        let ip = self.ip;
        match (self.about, frame[ip] >> 4) {
            (About::Ipv4Header, _) => [ip..ip + 1, 0..0],
            (_, 4) => [ip..ip + 1, ip + 2..ip + 4],
            _ => [ip..ip + 1, ip + 4..ip + 6],
        }
    }

    /// Returns the covered bytes according to the lengths in the frame, cut at the end of the
    /// frame; `None` if these lengths make no sense.
    pub fn covered(&self, frame: &[u8]) -> Option<Covered> {
        let ip = self.ip;
        let word =
            |at: usize| Some(usize::from(*frame.get(at)?) << 8 | usize::from(*frame.get(at + 1)?));
        let first = *frame.get(ip)?;
        match self.about {
            About::Ipv4Header => {
                let end = ip + usize::from(first & 0x0f).max(5) * 4;
                (end <= frame.len()).then_some(Covered {
                    ranges: [ip..end, end..end],
                    constant: 0,
                })
            }
            About::Transport { protocol, at } => {
                let (addresses, end) = match first >> 4 {
                    4 => (ip + 12..ip + 20, ip + word(ip + 2)?),
                    _ => (ip + 8..ip + 40, ip + 40 + word(ip + 4)?),
                };
                let end = end.min(frame.len());
                let whole = addresses.end <= at && self.field().end <= end;
                whole.then(|| match protocol {
                    icmp::PROTOCOL | gre::PROTOCOL => Covered {
                        ranges: [at..end, end..end],
                        constant: 0,
                    },
                    _ => Covered {
                        ranges: [addresses, at..end],
                        constant: u64::from(protocol) + (end - at) as u64,
                    },
                })
            }
        }
    }

    /// Turns a sum into a checksum.
    #[inline]
    pub fn checksum(&self, sum: u64) -> u16 {
        let checksum = !fold(sum);
        checksum | if checksum == 0 { self.zero } else { 0 }
    }

    /// Turns many sums into checksums, in loops that the compiler vectorises.
    pub fn checksums(&self, sums: &[u64; AHEAD], checksums: &mut [u16; AHEAD]) {
        let mut halves = [0; AHEAD];
        for (half, sum) in halves.iter_mut().zip(sums) {
            let word = |shift: u32| (sum >> shift & 0xffff) as u32;
            *half = word(0) + word(16) + word(32) + word(48);
        }
        for (checksum, sum) in checksums.iter_mut().zip(halves) {
            let sum = (sum & 0xffff) + (sum >> 16);
            let of_sum = !(sum + (sum >> 16)) as u16;
            *checksum = of_sum | if of_sum == 0 { self.zero } else { 0 };
        }
    }

    /// Turns a sum into a checksum and writes it.
    #[inline]
    pub fn set(&self, frame: &mut [u8], sum: u64) {
        let checksum = self.checksum(sum);
        frame[self.field()].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Computes the checksum over all covered bytes; does nothing if the lengths in the frame make
    /// no sense.
    pub fn compute(&self, frame: &mut [u8]) {
        if let Some(covered) = self.covered(frame) {
            frame[self.field()].fill(0);
            let sum = covered.sum(frame);
            self.set(frame, sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn many_checksums_are_those_of_each(
            sums in prop::collection::vec(prop_oneof![any::<u64>(), 0..3_u64, Just(0xffff), Just(0xffff_0000), Just(0xffff_ffff)], AHEAD),
            is_udp: bool,
        ) {
            let fix = match is_udp {
                true => Fix::transport(14, udp::PROTOCOL, 34),
                false => Fix::ipv4_header(14),
            };
            let sums: [u64; AHEAD] = sums.try_into().expect("so many");
            let mut checksums = [0; AHEAD];
            fix.checksums(&sums, &mut checksums);
            prop_assert_eq!(checksums, sums.map(|sum| fix.checksum(sum)));
        }
    }
}
