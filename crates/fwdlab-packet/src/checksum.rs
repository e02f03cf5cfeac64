//! The Internet checksum (RFC 1071) and its update when a few words change (RFC 1624).
//!
//! Works on *sums*, the plain one's-complement sum of big-endian 16-bit words, because sums can be
//! combined freely; the checksum field in a header is the complement, `!sum`. Where a header keeps
//! its checksum is up to [`header`](crate::header). Start with [`sum`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the sum of `data` as big-endian 16-bit words; an odd last byte counts as the high half
/// of a word.
///
/// Zero only if all of `data` is zero (or empty). Over a region that includes its own correct
/// checksum the sum is `0xffff`.
#[inline]
pub fn sum(data: &[u8]) -> u16 {
    fold(wide_sum(data))
}

/// Combines the sums of several regions. Every region but the last must have an even length.
#[inline]
pub fn combine(sums: &[u16]) -> u16 {
    fold(sums.iter().map(|sum| u64::from(*sum)).sum())
}

/// Returns the checksum after some words changed, without reading the rest (RFC 1624, equation 3).
///
/// `old` and `new` are the sums of the changed words before and after. The sum of a single word is
/// its value.
///
/// Equals a recomputation except in one corner: if the change leaves only zeros in the summed data,
/// this returns `0x0000` and a recomputation returns `0xffff`. Both verify, and no IP header or
/// pseudo header is all zero, so it does not arise there. UDP transmits `0xffff` for a computed
/// zero (RFC 768): as for a full computation, that is the caller's last step.
#[inline]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !combine(&[!checksum, !old, new])
}

/// Returns the sum of the IPv4 pseudo header of UDP and TCP (RFC 768). `length`: UDP or TCP header
/// and payload, in bytes.
#[inline]
pub fn pseudo_header_v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, length: u16) -> u16 {
    combine(&[
        sum(&source.octets()),
        sum(&destination.octets()),
        u16::from(protocol),
        length,
    ])
}

/// Returns the sum of the IPv6 pseudo header of UDP, TCP and ICMPv6 (RFC 8200 §8.1). `length`: as
/// for IPv4, in bytes.
#[inline]
pub fn pseudo_header_v6(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    next_header: u8,
    length: u32,
) -> u16 {
    combine(&[
        sum(&source.octets()),
        sum(&destination.octets()),
        u16::from(next_header),
        sum(&length.to_be_bytes()),
    ])
}

/// Returns the sum of the pseudo header of either IP version; zero if the two addresses have
/// different versions.
pub(crate) fn pseudo_header(from: IpAddr, to: IpAddr, protocol: u8, length: usize) -> u16 {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => pseudo_header_v4(from, to, protocol, length as u16),
        (IpAddr::V6(from), IpAddr::V6(to)) => pseudo_header_v6(from, to, protocol, length as u32),
        _ => 0,
    }
}

/// Returns the sum before carries are added back in. Wide sums are combined with `+` and [`fold`]ed
/// once: the frame path has no time for more.
#[inline]
pub(crate) fn wide_sum(data: &[u8]) -> u64 {
    // 32-bit words give the same sum after folding, since 2^16 = 1 modulo 0xffff (RFC 1071 §2 (C)).
    let (words, tail) = data.as_chunks::<4>();
    let mut last = [0; 4];
    last[..tail.len()].copy_from_slice(tail);
    words
        .iter()
        .chain([&last])
        .map(|word| u64::from(u32::from_be_bytes(*word)))
        .sum()
}

/// Adds the carries back in until 16 bits are left. Returns zero only for zero.
#[inline]
pub(crate) fn fold(sum: u64) -> u16 {
    let (low, carry) = (sum as u32).overflowing_add((sum >> 32) as u32);
    // No second carry: after the first, `low` is below 2^32 - 1.
    let sum = low + u32::from(carry);
    // The upper half becomes the sum of both, with the carry out of the lower.
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sum_of_the_rfc_1071_example() {
        // RFC 1071 §3
        assert_eq!(
            sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            0xddf2
        );
    }

    #[test]
    fn update_of_the_rfc_1624_example() {
        // RFC 1624 §4: RFC 1141's equation gave 0xffff here.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn update_to_all_zero_differs_from_recomputation_but_verifies() {
        assert_eq!(update(!sum(&[0xff, 0xff]), 0xffff, 0), 0x0000);
        assert_eq!(!sum(&[0, 0]), 0xffff);
        assert_eq!(combine(&[sum(&[0, 0]), 0xffff]), 0xffff);
    }

    #[test]
    fn fold_keeps_every_carry() {
        assert_eq!(fold(0), 0);
        assert_eq!(fold(0x1_0000), 1);
        assert_eq!(fold(0xffff_fffe), 0xffff - 1);
        assert_eq!(fold(u64::MAX), 0xffff);
        assert_eq!(fold(0xffff_ffff_0001_0000), 1); // carries in every step
    }

    /// RFC 1071 word by word, a literal implementation of the definition.
    fn sum_by_definition(data: &[u8]) -> u16 {
        let mut total = 0_u32;
        for word in data.chunks(2) {
            total += u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low));
            total = (total & 0xffff) + (total >> 16);
        }
        total as u16
    }

    /// Words in which the corner cases 0x0000 and 0xffff make up half of all values.
    fn word() -> impl Strategy<Value = u16> {
        prop_oneof![Just(0), Just(0xffff), any::<u16>(), any::<u16>()]
    }

    fn bytes(words: &[u16]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    proptest! {
        #[test]
        fn sum_is_the_definition(data in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(sum(&data), sum_by_definition(&data));
        }

        #[test]
        fn combine_is_the_sum_of_the_whole(
            head in proptest::collection::vec(word(), 0..9),
            tail in proptest::collection::vec(any::<u8>(), 0..9),
        ) {
            let head = bytes(&head);
            let whole = [head.clone(), tail.clone()].concat();
            prop_assert_eq!(combine(&[sum(&head), sum(&tail)]), sum(&whole));
        }

        #[test]
        fn update_is_recomputation(
            mut words in proptest::collection::vec(word(), 1..6),
            at in any::<prop::sample::Index>(),
            new in word(),
        ) {
            let before = !sum(&bytes(&words));
            let old = std::mem::replace(at.get_mut(&mut words), new);
            prop_assume!(words.iter().any(|word| *word != 0));
            prop_assert_eq!(update(before, old, new), !sum(&bytes(&words)));
        }

        #[test]
        fn update_of_several_words_takes_their_sums(
            kept in 1..=0xffff_u16,
            old in proptest::collection::vec(word(), 1..6),
            new in proptest::collection::vec(word(), 1..6),
        ) {
            let with = |words: &[u16]| !combine(&[kept, sum(&bytes(words))]);
            prop_assert_eq!(update(with(&old), sum(&bytes(&old)), sum(&bytes(&new))), with(&new));
        }
    }
}
