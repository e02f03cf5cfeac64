//! Putting checksums right after fields were written.
//!
//! Where only whole fields inside the covered bytes changed, the new checksum follows from a partial sum over everything
//! that does not change and the values just written; otherwise it is computed over the covered bytes. Both give the same
//! bits. Which is possible is decided once, in [`machine`](super::machine). Start with [`Fix`].

use super::column::AHEAD;
use crate::checksum::{fold, wide_sum};
use crate::header::{gre, icmp, icmpv6, tcp, udp};
use std::ops::Range;

/// A checksum that is to be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fix {
    /// Where the IP header starts, in bytes.
    ip: usize,
    /// What the checksum is about.
    about: About,
    /// What is written instead of 0, which in UDP says that there is no checksum.
    zero: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    Ipv4Header,
    /// UDP, TCP, ICMPv6, ICMP or GRE, which starts at this byte. The last two have no pseudo header.
    Transport {
        protocol: u8,
        at: usize,
    },
}

/// What a checksum covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Covered {
    /// Every range but the last has an even length.
    pub ranges: [Range<usize>; 2],
    /// Protocol and length of the pseudo header.
    constant: u64,
}

impl Covered {
    /// The sum before its carries are added in.
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

    /// `protocol`: of UDP, TCP, ICMPv6, ICMP or GRE; `at`: where that starts.
    pub fn transport(ip: usize, protocol: u8, at: usize) -> Fix {
        Fix {
            ip,
            about: About::Transport { protocol, at },
            zero: if protocol == udp::PROTOCOL { 0xffff } else { 0 },
        }
    }

    /// Where the checksum is.
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

    /// The bytes that decide what is covered. When these are written, so is what is covered.
    pub fn decisive(&self, frame: &[u8]) -> [Range<usize>; 2] {
        let ip = self.ip;
        match (self.about, frame[ip] >> 4) {
            (About::Ipv4Header, _) => [ip..ip + 1, 0..0],
            (_, 4) => [ip..ip + 1, ip + 2..ip + 4],
            _ => [ip..ip + 1, ip + 4..ip + 6],
        }
    }

    /// What is covered, as the lengths in the frame say and as far as the frame goes; `None` where they make no sense.
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

    /// The checksum that belongs to this sum.
    #[inline]
    pub fn checksum(&self, sum: u64) -> u16 {
        let checksum = !fold(sum);
        checksum | if checksum == 0 { self.zero } else { 0 }
    }

    /// The same of many sums, in loops that vectors make short.
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

    /// Writes the checksum that belongs to this sum.
    #[inline]
    pub fn set(&self, frame: &mut [u8], sum: u64) {
        let checksum = self.checksum(sum);
        frame[self.field()].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Computes the checksum over all that it covers; leaves it when the lengths in the frame make no sense.
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
