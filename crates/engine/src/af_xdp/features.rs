//! What a driver says it can do for AF_XDP sockets, asked from the kernel's `netdev` family over generic netlink (Linux 6.8).
//!
//! Start with [`Offers::of`].

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// `struct nlmsghdr`, `struct genlmsghdr`.
const HEADER: usize = 16 + 4;
const NLM_F_REQUEST: u16 = 1;
/// The family that knows the numbers of all others.
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XSK_FEATURES: u16 = 6;
const NETDEV_A_DEV_XDP_RX_METADATA_FEATURES: u16 = 5;

/// What a device offers beside frames. Nothing where the kernel is too old to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offers {
    /// It says when a frame of an AF_XDP socket left (`XDP_TXMD_FLAGS_TIMESTAMP`).
    pub tx_timestamp: bool,
    /// It fills in checksums (`XDP_TXMD_FLAGS_CHECKSUM`).
    pub tx_checksum: bool,
    /// It holds a frame back until its time (`XDP_TXMD_FLAGS_LAUNCH_TIME`, Linux 6.15).
    pub tx_launch_time: bool,
    /// Its driver answers XDP programs that ask when a frame arrived (`bpf_xdp_metadata_rx_timestamp`).
    pub rx_timestamp: bool,
}

impl Offers {
    /// Asks for an interface of the calling thread's namespace.
    pub fn of(interface: u32) -> Offers {
        let Ok(answer) = device(interface) else {
            return Offers::default();
        };
        let word = |kind| {
            attribute(&answer, kind)
                .and_then(|value| Some(u64::from_ne_bytes(*value.first_chunk()?)))
                .unwrap_or(0)
        };
        let tx = word(NETDEV_A_DEV_XSK_FEATURES);
        // linux/netdev.h: NETDEV_XSK_FLAGS_*, NETDEV_XDP_RX_METADATA_*
        Offers {
            tx_timestamp: tx & 1 != 0,
            tx_checksum: tx & 2 != 0,
            tx_launch_time: tx & 4 != 0,
            rx_timestamp: word(NETDEV_A_DEV_XDP_RX_METADATA_FEATURES) & 1 != 0,
        }
    }
}

/// What the kernel says of an interface.
fn device(interface: u32) -> io::Result<Vec<u8>> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::GENERIC),
    )?;
    let family = request(
        GENL_ID_CTRL,
        CTRL_CMD_GETFAMILY,
        CTRL_ATTR_FAMILY_NAME,
        b"netdev\0",
    );
    let answer = ask(&socket, &family)?;
    let family = attribute(&answer, CTRL_ATTR_FAMILY_ID)
        .and_then(|value| Some(u16::from_ne_bytes(*value.first_chunk()?)))
        .ok_or_else(no_answer)?;
    let device = request(
        family,
        NETDEV_CMD_DEV_GET,
        NETDEV_A_DEV_IFINDEX,
        &interface.to_ne_bytes(),
    );
    let answer = ask(&socket, &device)?;
    attribute(&answer, NETDEV_A_DEV_IFINDEX).ok_or_else(no_answer)?;
    Ok(answer)
}

fn no_answer() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "no such answer")
}

fn ask(socket: &OwnedFd, request: &[u8]) -> io::Result<Vec<u8>> {
    rustix::io::retry_on_intr(|| send(socket, request, SendFlags::empty()))?;
    let mut answer = vec![0; 8192];
    let (bytes, _) =
        rustix::io::retry_on_intr(|| recv(socket, &mut answer[..], RecvFlags::empty()))?;
    answer.truncate(bytes);
    Ok(answer)
}

/// A request with one attribute.
fn request(family: u16, command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    let attribute_bytes = 4 + value.len();
    let length = HEADER + attribute_bytes.next_multiple_of(4);
    let mut bytes = vec![];
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(family.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend((attribute_bytes as u16).to_ne_bytes());
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(length, 0);
    bytes
}

/// The value of the first attribute of this kind; `None` also when the answer is an error.
fn attribute(answer: &[u8], kind: u16) -> Option<&[u8]> {
    const NLMSG_ERROR: u16 = 2;
    let half = |at: usize| Some(u16::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    if half(4)? == NLMSG_ERROR {
        return None;
    }
    let mut at = HEADER;
    loop {
        let length = usize::from(half(at)?);
        if length < 4 {
            return None;
        }
        // the upper two bits say how the value is to be read
        if half(at + 2)? & 0x3fff == kind {
            return answer.get(at + 4..at + length);
        }
        at += length.next_multiple_of(4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_no_clock_and_a_missing_interface_is_an_error() {
        assert_eq!(Offers::of(1), Offers::default());
        assert!(device(u32::MAX >> 1).is_err());
    }

    /// An answer as the kernel writes it, for a device with timestamps and checksums: id 5, two attributes, one of 8 bytes.
    #[test]
    fn attributes_are_found_behind_others() {
        let mut answer = request(
            0x1c,
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
            // short answers are none, and never a panic
            assert_eq!(
                attribute(&answer[..length], NETDEV_A_DEV_XSK_FEATURES),
                None
            );
        }
    }
}
