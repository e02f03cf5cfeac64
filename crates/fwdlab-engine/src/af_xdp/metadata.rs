//! The metadata of a frame for the device and back: `struct xsk_tx_metadata`, in the bytes before
//! the frame (`Documentation/networking/xsk-tx-metadata.rst`).
//!
//! Only requests the departure time. Pure bytes; the memory of the frames decides their position.
//! Start with [`request`].

use std::ops::Range;

/// Size of the structure, as declared to the kernel.
pub(super) const BYTES: usize = 24;

/// Bytes reserved before a frame, so that it still begins on a cache line.
pub(super) const ROOM: usize = 64;

/// Flag of `struct xdp_umem_reg`: its field `tx_metadata_len` is valid.
pub(super) const UMEM_FLAG: u32 = 1 << 2;

/// Flag of a descriptor: there is metadata before the frame.
pub(super) const DESCRIPTOR_OPTION: u32 = 1 << 1;

/// `XDP_TXMD_FLAGS_TIMESTAMP`
const TIMESTAMP: u64 = 1;

/// Flags come first; request and answer share the rest.
const FLAGS: Range<usize> = 0..8;
const ANSWER: Range<usize> = 8..16;

/// Requests the departure time of the frame behind these bytes.
#[inline]
pub(super) fn request(metadata: &mut [u8; BYTES]) {
    metadata.fill(0);
    metadata[FLAGS].copy_from_slice(&TIMESTAMP.to_ne_bytes());
}

/// Returns the departure, in nanoseconds of the device's clock; `None` if it was not reported.
#[inline]
pub(super) fn completed(metadata: &[u8; BYTES]) -> Option<u64> {
    let time = u64::from_ne_bytes(*metadata[ANSWER].first_chunk()?);
    (time > 0).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// The libc crate takes the layout from the kernel's header.
    #[test]
    fn the_layout_is_that_of_the_headers() {
        use libc::{xsk_tx_metadata, xsk_tx_metadata_completion};
        assert_eq!(size_of::<xsk_tx_metadata>() % 8, 0);
        assert!(size_of::<xsk_tx_metadata>() <= BYTES);
        assert_eq!(offset_of!(xsk_tx_metadata, flags), FLAGS.start);
        assert_eq!(
            offset_of!(xsk_tx_metadata, xsk_tx_metadata_union),
            ANSWER.start
        );
        assert_eq!(offset_of!(xsk_tx_metadata_completion, tx_timestamp), 0);
        assert_eq!(u64::from(libc::XDP_TXMD_FLAGS_TIMESTAMP), TIMESTAMP);
        assert_eq!(libc::XDP_UMEM_TX_METADATA_LEN, UMEM_FLAG);
        assert_eq!(libc::XDP_TX_METADATA, DESCRIPTOR_OPTION);
        // the lengths that Linux accepts: XDP_UMEM_REG in net/xdp/xdp_umem.c
        assert!(BYTES < 256 && BYTES.is_multiple_of(8) && BYTES <= ROOM);
    }

    /// Also compare with the header of this machine, if it is new enough.
    #[test]
    fn the_constants_are_those_of_this_machine_s_header() {
        const TEST: &str = "the_constants_are_those_of_this_machine_s_header";
        let header = std::fs::read_to_string("/usr/include/linux/if_xdp.h").unwrap_or_default();
        let value = |name: &str| {
            let line = header
                .lines()
                .find(|l| l.split_whitespace().nth(1) == Some(name))?;
            let bits = line.split("<<").nth(1)?;
            bits.trim().trim_end_matches(')').parse::<u32>().ok()
        };
        let Some(timestamp) = value("XDP_TXMD_FLAGS_TIMESTAMP") else {
            println!("SKIPPED: {TEST}: linux/if_xdp.h is not there, or older than Linux 6.8");
            return;
        };
        assert_eq!(1 << timestamp, TIMESTAMP);
        assert_eq!(
            value("XDP_TX_METADATA").map(|bit| 1 << bit),
            Some(DESCRIPTOR_OPTION)
        );
        assert_eq!(
            value("XDP_UMEM_TX_METADATA_LEN").map(|bit| 1 << bit),
            Some(UMEM_FLAG)
        );
    }

    #[test]
    fn a_request_is_answered_in_its_own_bytes() {
        let mut bytes = [0xff; BYTES];
        request(&mut bytes);
        assert_eq!(bytes[..8], 1_u64.to_ne_bytes());
        assert_eq!(completed(&bytes), None, "not told yet");
        // as in a driver: xsk_tx_metadata_complete
        bytes[8..16].copy_from_slice(&1_795_289_279_661_136_158_u64.to_ne_bytes());
        assert_eq!(completed(&bytes), Some(1_795_289_279_661_136_158));
    }
}
