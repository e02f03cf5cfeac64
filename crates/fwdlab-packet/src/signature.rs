//! The signature: 18 payload bytes by which we recognise, count and time our own frames.
//!
//! It identifies the trial, the stream and the frame, and carries the intended departure time;
//! addresses and ports are not repeated here, they belong to the [`flow`](crate::flow). All fields
//! are big endian:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0..2 | magic | [`MAGIC`] XOR the trial's nonce |
//! | 2..4 | stream | stream id |
//! | 4..10 | sequence | frame number within the stream and sender queue |
//! | 10..18 | timestamp | intended departure, ns |
//!
//! A receiver starts with [`Signature::matches`].

/// Length of a signature, in bytes. It fits the smallest IPv4/UDP frame exactly (64 bytes with
/// FCS).
pub const LEN: usize = 18;

/// Where the signature starts in an untagged IPv4/UDP frame: 14 + 20 + 8 bytes.
pub const OFFSET_IPV4_UDP: usize = 42;

/// Where the signature starts in an untagged IPv6/UDP frame: 14 + 40 + 8 bytes.
pub const OFFSET_IPV6_UDP: usize = 62;

/// The magic of nonce 0. Unlike the first bytes of common payloads: zeros, ones, text, 0x55 and
/// 0xaa patterns.
pub const MAGIC: u16 = 0xb39d;

/// The number of trials for which a frame still counts as [late](Signature::is_late).
pub const LATE_TRIALS: u16 = 255;

/// A decoded signature.
///
/// **Nonce.** Take one nonce per trial and *count up by one*, wrapping, rather than drawing it at
/// random: neighbouring trials then never share one, and a receiver can tell three cases apart that
/// are counted separately: this trial's frames, [late](Self::is_late) frames of an earlier trial,
/// and foreign frames. Start each session somewhere else (a hash of the run id), so that a restart
/// is not mistaken for its predecessor. With 16 bits, a random payload passes for this trial once
/// in 65 536 frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Signature {
    /// The trial's nonce.
    pub nonce: u16,
    /// Stream id.
    pub stream: u16,
    /// Frame number within the stream and sender queue. The low 48 bits are carried: 21 days at 150
    /// Mpps.
    pub sequence: u64,
    /// Intended departure in nanoseconds, on a clock that sender and receiver share.
    pub timestamp_ns: u64,
}

impl Signature {
    /// Returns true if this is the payload of a frame of the trial with this nonce. Reads only two
    /// bytes.
    ///
    /// False if `payload` is shorter than a signature.
    #[inline]
    pub fn matches(payload: &[u8], nonce: u16) -> bool {
        payload.len() >= LEN && payload[..2] == (MAGIC ^ nonce).to_be_bytes()
    }

    /// Decodes the signature at the start of a payload; `None` if the payload is shorter.
    ///
    /// Any 18 bytes decode to something: only the nonce shows whether they are ours.
    #[inline]
    pub fn read(payload: &[u8]) -> Option<Signature> {
        let bytes: &[u8; LEN] = payload.first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let long = |at: usize| u64::from(word(at)) << 16 | u64::from(word(at + 2));
        Some(Signature {
            nonce: word(0) ^ MAGIC,
            stream: word(2),
            sequence: u64::from(word(4)) << 32 | long(6),
            timestamp_ns: long(10) << 32 | long(14),
        })
    }

    /// Writes the signature to the start of a payload.
    ///
    /// # Panics
    /// If `payload` is shorter than [`LEN`].
    #[inline]
    pub fn write(&self, payload: &mut [u8]) {
        let payload = &mut payload[..LEN];
        payload[0..2].copy_from_slice(&(MAGIC ^ self.nonce).to_be_bytes());
        payload[2..10].copy_from_slice(&self.number().to_be_bytes());
        payload[10..18].copy_from_slice(&self.timestamp_ns.to_be_bytes());
    }

    /// Stream and sequence as adjacent fields: one store instead of three.
    #[inline]
    fn number(&self) -> u64 {
        u64::from(self.stream) << 48 | self.sequence & ((1 << 48) - 1)
    }

    /// Returns the number of frames until the sequence number wraps.
    #[inline]
    pub(crate) fn until_wrap(&self) -> u64 {
        (1 << 48) - (self.sequence & ((1 << 48) - 1))
    }

    /// Returns the sum of the 18 bytes for a checksum, from the values: reading back what was just
    /// written is slow.
    #[inline]
    pub(crate) fn wide_sum(&self) -> u64 {
        let low = |value: u64| value & 0xffff_ffff;
        let number = self.number();
        u64::from(MAGIC ^ self.nonce)
            + (number >> 32)
            + low(number)
            + (self.timestamp_ns >> 32)
            + low(self.timestamp_ns)
    }

    /// Returns true if this frame belongs to one of the [`LATE_TRIALS`] trials before the one with
    /// this nonce.
    #[inline]
    pub fn is_late(&self, nonce: u16) -> bool {
        (1..=LATE_TRIALS).contains(&nonce.wrapping_sub(self.nonce))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes_of(signature: Signature) -> [u8; LEN] {
        let mut bytes = [0xee; LEN];
        signature.write(&mut bytes);
        bytes
    }

    #[test]
    fn layout() {
        let signature = Signature {
            nonce: 0x0001,
            stream: 0x0203,
            sequence: 0x0405_0607_0809,
            timestamp_ns: 0x0a0b_0c0d_0e0f_1011,
        };
        let bytes = [
            0xb3, 0x9c, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, //
            0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11,
        ];
        assert_eq!(bytes_of(signature), bytes);
        assert_eq!(Signature::read(&bytes), Some(signature));
    }

    #[test]
    fn three_kinds_of_frames() {
        let of_trial = |nonce| Signature {
            nonce,
            ..Signature::default()
        };
        let nonce = 3;
        assert!(Signature::matches(&bytes_of(of_trial(3)), nonce) && !of_trial(3).is_late(nonce));
        for earlier in [2, 0, 0xffff, 3_u16.wrapping_sub(255)] {
            assert!(!Signature::matches(&bytes_of(of_trial(earlier)), nonce));
            assert!(of_trial(earlier).is_late(nonce));
        }
        for foreign in [4, 3_u16.wrapping_sub(256), 0x8000] {
            assert!(!Signature::matches(&bytes_of(of_trial(foreign)), nonce));
            assert!(!of_trial(foreign).is_late(nonce));
        }
    }

    #[test]
    fn common_payloads_are_foreign_to_the_first_trials() {
        for byte in [0x00, 0x20, 0x41, 0x55, 0x61, 0xaa, 0xff] {
            let payload = Signature::read(&[byte; LEN]).unwrap();
            assert!((0..1000).all(|nonce| payload.nonce != nonce && !payload.is_late(nonce)));
        }
    }

    proptest! {
        #[test]
        fn any_eighteen_bytes_survive(payload in proptest::collection::vec(any::<u8>(), 0..40)) {
            match Signature::read(&payload) {
                Some(signature) => {
                    prop_assert_eq!(&bytes_of(signature)[..], &payload[..LEN]);
                    prop_assert!(Signature::matches(&payload, signature.nonce));
                    prop_assert!(!Signature::matches(&payload, signature.nonce ^ 1));
                }
                None => prop_assert!(payload.len() < LEN && !Signature::matches(&payload, 0)),
            }
        }

        #[test]
        fn sequence_is_carried_modulo_2_to_the_48(sequence in any::<u64>()) {
            let bytes = bytes_of(Signature { sequence, ..Signature::default() });
            prop_assert_eq!(Signature::read(&bytes).unwrap().sequence, sequence % (1 << 48));
        }
    }
}
