//! Timestamps of frames that have left: parses control messages of a socket's error queue.
//!
//! Layouts are those of `linux/errqueue.h` and `linux/net_tstamp.h`. Makes no system call. Start
//! with [`stamp`].

/// The timestamps of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stamp {
    /// Index of the frame on its socket, from 0; modulo 2^32.
    pub key: Option<u32>,
    /// When the driver took it, CLOCK_REALTIME.
    pub software_ns: Option<u64>,
    /// When the card sent it, on the card's clock.
    pub hardware_ns: Option<u64>,
}

/// `struct cmsghdr` of 64 bits: length with the header, level, type.
const HEADER: usize = 16;

/// Parses the control messages of one entry; `None` if it is not a timestamp.
pub(crate) fn stamp(control: &[u8]) -> Option<Stamp> {
    let mut stamp = Stamp::default();
    let mut rest = control;
    let mut is_stamp = false;
    while let Some(length) = word64(rest, 0) {
        let length = length as usize;
        if length < HEADER || length > rest.len() {
            break;
        }
        let (level, kind) = (word(rest, 8)? as i32, word(rest, 12)? as i32);
        let data = &rest[HEADER..length];
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => {
                // three times: software, unused, hardware; zero means none
                (stamp.software_ns, stamp.hardware_ns) = (time(data, 0), time(data, 32));
            }
            // `struct sock_extended_err`: error, origin, ... , info, data
            (libc::SOL_PACKET, PACKET_TX_TIMESTAMP) => {
                is_stamp = word(data, 0)? == libc::ENOMSG as u32
                    && data.get(4) == Some(&libc::SO_EE_ORIGIN_TIMESTAMPING);
                stamp.key = word(data, 12);
            }
            _ => {}
        }
        let next = length.next_multiple_of(8).min(rest.len());
        rest = &rest[next..];
    }
    is_stamp.then_some(stamp)
}

/// `linux/if_packet.h`
const PACKET_TX_TIMESTAMP: i32 = 16;

/// `struct timespec`; `None` if it is zero.
fn time(data: &[u8], at: usize) -> Option<u64> {
    let (seconds, nanoseconds) = (word64(data, at)?, word64(data, at + 8)?);
    let ns = seconds
        .checked_mul(1_000_000_000)?
        .checked_add(nanoseconds)?;
    (ns > 0).then_some(ns)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + data.len()) as u64).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    fn times(software: [u64; 2], hardware: [u64; 2]) -> Vec<u8> {
        let words = [software, [0, 0], hardware].concat();
        words.into_iter().flat_map(u64::to_ne_bytes).collect()
    }

    fn error(errno: i32, origin: u8, key: u32) -> Vec<u8> {
        let mut data = (errno as u32).to_ne_bytes().to_vec();
        data.extend([origin, 0, 0, 0, 0, 0, 0, 0]);
        data.extend(key.to_ne_bytes());
        data
    }

    /// The messages of Linux 6.18 for the third frame of a packet socket on veth.
    #[test]
    fn a_software_stamp_as_the_kernel_writes_it() {
        let mut control = message(1, 37, &times([1_795_289_252, 421_003_097], [0, 0]));
        control.extend(message(263, 16, &error(42, 4, 2)));
        let found = stamp(&control).unwrap();
        assert_eq!(found.key, Some(2));
        assert_eq!(found.software_ns, Some(1_795_289_252_421_003_097));
        assert_eq!(found.hardware_ns, None);
    }

    #[test]
    fn hardware_timestamps_are_parsed() {
        let mut control = message(1, 37, &times([0, 0], [77, 5]));
        assert_eq!(stamp(&control), None, "its owner is not known");
        control.extend(message(263, 16, &error(42, 4, u32::MAX)));
        let found = stamp(&control).unwrap();
        assert_eq!(found.hardware_ns, Some(77_000_000_005));
        assert_eq!((found.software_ns, found.key), (None, Some(u32::MAX)));
        // an error of another kind: ENETDOWN from the device
        assert_eq!(stamp(&message(263, 16, &error(100, 1, 0))), None);
    }

    #[test]
    fn malformed_control_messages_yield_no_timestamp() {
        let mut control = message(1, 37, &times([1, 2], [3, 4]));
        control.extend(message(263, 16, &error(42, 4, 2)));
        for length in 0..control.len() {
            let _ = stamp(&control[..length]);
        }
        for at in 0..control.len() {
            for byte in [0, 1, 15, 17, 0x7f, 0xff] {
                let mut lie = control.clone();
                lie[at] = byte;
                let _ = stamp(&lie);
            }
        }
        assert_eq!(stamp(&[]), None);
    }
}
