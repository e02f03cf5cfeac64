//! The AF_XDP features of a driver, from the kernel's `netdev` family over generic netlink (Linux
//! 6.8).
//!
//! Start with [`Offers::query`].

use serde::{Deserialize, Serialize};
use std::io;

use super::{Netdev, attribute};

const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_A_DEV_XSK_FEATURES: u16 = 6;
const NETDEV_A_DEV_XDP_RX_METADATA_FEATURES: u16 = 5;

/// AF_XDP features of a device. All false or `None` if the kernel is too old to report them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Offers {
    /// Reads frames of an AF_XDP socket in place, and receives into its memory.
    pub zero_copy: Option<bool>,
    /// Sends what XDP programs redirect into it (`NETDEV_XDP_ACT_NDO_XMIT`).
    pub redirect_target: Option<bool>,
    /// Reports when a frame of an AF_XDP socket left (`XDP_TXMD_FLAGS_TIMESTAMP`).
    pub tx_timestamp: bool,
    /// Fills in checksums (`XDP_TXMD_FLAGS_CHECKSUM`).
    pub tx_checksum: bool,
    /// Delays a frame until its launch time (`XDP_TXMD_FLAGS_LAUNCH_TIME`, Linux 6.15).
    pub tx_launch_time: bool,
    /// Reports to XDP programs when a frame arrived (`bpf_xdp_metadata_rx_timestamp`).
    pub rx_timestamp: bool,
}

impl Offers {
    /// Returns the features of an interface of the calling thread's namespace.
    pub fn query(interface: u32) -> Offers {
        let Ok(answer) = device(interface) else {
            return Offers::default();
        };
        let reported = |kind| {
            attribute(&answer, kind)
                .and_then(|value| Some(u64::from_ne_bytes(*value.first_chunk()?)))
        };
        let word = |kind| reported(kind).unwrap_or(0);
        let tx = word(NETDEV_A_DEV_XSK_FEATURES);
        // linux/netdev.h: NETDEV_XDP_ACT_*, NETDEV_XSK_FLAGS_*, NETDEV_XDP_RX_METADATA_*
        Offers {
            zero_copy: reported(NETDEV_A_DEV_XDP_FEATURES).map(|word| word & 8 != 0),
            redirect_target: reported(NETDEV_A_DEV_XDP_FEATURES).map(|word| word & 4 != 0),
            tx_timestamp: tx & 1 != 0,
            tx_checksum: tx & 2 != 0,
            tx_launch_time: tx & 4 != 0,
            rx_timestamp: word(NETDEV_A_DEV_XDP_RX_METADATA_FEATURES) & 1 != 0,
        }
    }
}

/// Returns the kernel's attributes of an interface.
fn device(interface: u32) -> io::Result<Vec<u8>> {
    Netdev::open()?.get(
        NETDEV_CMD_DEV_GET,
        NETDEV_A_DEV_IFINDEX,
        &interface.to_ne_bytes(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netdev::request;

    #[test]
    fn loopback_has_no_clock_and_a_missing_interface_is_an_error() {
        let offers = Offers::query(1);
        assert_ne!(offers.zero_copy, Some(true));
        let (zero_copy, redirect_target) = (offers.zero_copy, offers.redirect_target);
        assert_eq!(
            offers,
            Offers {
                zero_copy,
                redirect_target,
                ..Offers::default()
            }
        );
        assert!(device(u32::MAX >> 1).is_err());
    }

    /// An answer in the kernel's format, for a device with timestamps and checksums: id 5, two
    /// attributes, one of 8 bytes.
    #[test]
    fn attributes_are_found_behind_others() {
        let mut answer = request(
            0x1c,
            1,
            NETDEV_CMD_DEV_GET,
            NETDEV_A_DEV_IFINDEX,
            &5_u32.to_ne_bytes(),
        );
        answer.extend(12_u16.to_ne_bytes());
        answer.extend(NETDEV_A_DEV_XSK_FEATURES.to_ne_bytes());
        answer.extend(3_u64.to_ne_bytes());
        let value = attribute(&answer, NETDEV_A_DEV_XSK_FEATURES).expect("it is there");
        assert_eq!(value, 3_u64.to_ne_bytes());
        assert_eq!(attribute(&answer, 7), None);
        for length in 0..answer.len() {
            // truncated answers yield nothing, and never a panic
            assert_eq!(
                attribute(&answer[..length], NETDEV_A_DEV_XSK_FEATURES),
                None
            );
        }
    }
}
