//! Marks the frames of a group: a bit of the traffic class, and a number in the identification of
//! IPv4 or the flow label of IPv6. Start with [`put`].

use fwdlab_engine::groups::{self, FIRST_MARK};
use fwdlab_packet::checksum::update;

/// Lengths of the Ethernet header, and of a tag.
const ETHERNET: usize = 14;
const TAG: usize = 4;
const UDP: u8 = 17;
const TCP: u8 = 6;

/// Returns the offset of a frame's IP header, and its version; behind at most two tags.
fn ip(frame: &[u8]) -> Option<(usize, u8)> {
    let mut at = ETHERNET;
    loop {
        let ethertype = u16::from_be_bytes([*frame.get(at - 2)?, *frame.get(at - 1)?]);
        match ethertype {
            0x0800 if frame.len() >= at + 20 => return Some((at, 4)),
            0x86dd if frame.len() >= at + 40 => return Some((at, 6)),
            0x8100 | 0x88a8 | 0x9100 if at < ETHERNET + 2 * TAG => at += TAG,
            _ => return None,
        }
    }
}

/// Returns true if frames like this can be recognised by their header.
pub fn can_count(frame: &[u8]) -> bool {
    ip(frame).is_some()
}

/// Returns true if it can be timed where it arrives. Frames that a host needs are not touched
/// there: ARP, LLDP and slow protocols.
pub fn can_time(frame: &[u8]) -> bool {
    let tags = frame[ETHERNET - 2..].chunks_exact(TAG).take(2);
    let tags = tags.take_while(|tag| matches!(tag[..2], [0x81, 0] | [0x88, 0xa8] | [0x91, 0]));
    let at = ETHERNET - 2 + tags.count() * TAG;
    !matches!(frame[at..], [0x08, 0x06, ..] | [0x88, 0x09 | 0xcc, ..])
}

/// Returns the bytes without FCS that a frame like this needs for 16 bytes of payload.
pub fn smallest_timed(frame: &[u8]) -> usize {
    headers(frame) + fwdlab_packet::modifier::TRAILER_LEN
}

/// Returns true for UDP over IPv4 without options, or over IPv6 without extensions.
pub fn is_plain_udp(frame: &[u8]) -> bool {
    ip(frame).is_some_and(|(at, version)| match version {
        4 => frame[at] == 0x45 && frame[at + 9] == UDP,
        _ => frame[at + 6] == UDP,
    })
}

/// Returns bytes before the IP header, bytes of that header, and the protocol inside, if it has a
/// checksum: TCP, or UDP with one.
pub fn summed(frame: &[u8]) -> Option<(usize, usize, u8)> {
    let (at, version) = ip(frame)?;
    let (length, protocol) = match version {
        4 => (usize::from(frame[at] & 15) * 4, frame[at + 9]),
        _ => (40, frame[at + 6]),
    };
    let has_sum = match protocol {
        TCP => frame.len() >= at + length + 20,
        UDP => frame.get(at + length + 6..at + length + 8)? != [0, 0],
        _ => false,
    };
    has_sum.then_some((at, length, protocol))
}

/// Returns the end of the packet according to its own length: the rest is padding, which a router
/// does not forward.
pub fn end(frame: &[u8]) -> usize {
    let word = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    let end = match ip(frame) {
        None => frame.len(),
        Some((at, 4)) => at + word(at + 2),
        Some((at, _)) => at + 40 + word(at + 4),
    };
    end.min(frame.len())
}

/// Returns the end of a frame's headers, up to UDP or TCP.
pub fn headers(frame: &[u8]) -> usize {
    match ip(frame) {
        None => ETHERNET,
        Some((at, version)) => {
            let (ends, protocol) = match version {
                4 => (at + usize::from(frame[at] & 15) * 4, frame[at + 9]),
                _ => (at + 40, frame[at + 6]),
            };
            ends + match protocol {
                UDP => 8,
                TCP => frame.get(ends + 12).map_or(20, |b| usize::from(b >> 4) * 4),
                _ => 0,
            }
        }
    }
}

/// Marks a frame as one of the group with this mark.
pub fn put(frame: &mut [u8], mark: u16) {
    let Some((at, version)) = ip(frame) else {
        return;
    };
    match version {
        4 => {
            change(frame, at, at, |[version, class]| [version, class | 1]);
            change(frame, at, at + 4, |_| mark.to_be_bytes());
        }
        _ => {
            frame[at + 1] = frame[at + 1] & 0xf0 | 0x10;
            frame[at + 2..at + 4].copy_from_slice(&mark.to_be_bytes());
        }
    }
}

/// Ensures that a frame without a group does not look like one of a group.
pub fn clear_mark(frame: &mut [u8]) {
    if let Some((at, 4)) = ip(frame) {
        change(frame, at, at + 4, |bytes| {
            let id = u16::from_be_bytes(bytes);
            let below = if id >= FIRST_MARK {
                id - (groups::COUNTED + 1)
            } else {
                id
            };
            below.to_be_bytes()
        });
    }
}

/// Changes two bytes of an IPv4 header, and updates its checksum (RFC 1624).
fn change(frame: &mut [u8], header: usize, at: usize, to: impl FnOnce([u8; 2]) -> [u8; 2]) {
    let word = |frame: &[u8], at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let before = word(frame, at);
    let after = to(before.to_be_bytes());
    frame[at..at + 2].copy_from_slice(&after);
    let checksum = update(word(frame, header + 10), before, word(frame, at));
    frame[header + 10..header + 12].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use fwdlab_packet::checksum::sum;

    /// Ethernet, tags, IPv4 with a correct checksum, UDP.
    fn frame(tags: usize, identification: u16) -> Vec<u8> {
        let mut frame = vec![0; 12];
        for _ in 0..tags {
            frame.extend([0x81, 0, 0, 5]);
        }
        frame.extend([8, 0, 0x45, 0, 0, 46]);
        frame.extend(identification.to_be_bytes());
        frame.extend([0, 0, 64, 17, 0, 0, 16, 0, 0, 1, 48, 0, 0, 1]);
        frame.resize(60 + 4 * tags, 0);
        let at = ETHERNET + tags * TAG;
        let whole = !sum(&frame[at..at + 20]);
        frame[at + 10..at + 12].copy_from_slice(&whole.to_be_bytes());
        frame
    }

    #[test]
    fn marks_keep_the_checksum_right_and_others_stay_out() {
        for tags in 0..3 {
            for id in [0, 1, 0x1234, 0xfbff, 0xfc00, 0xffff] {
                let at = ETHERNET + tags * TAG;
                let mut marked = frame(tags, id);
                put(&mut marked, groups::mark(7));
                assert_eq!(marked[at + 1], 1);
                assert_eq!(marked[at + 4..at + 6], [0xfc, 7]);
                assert_eq!(sum(&marked[at..at + 20]), 0xffff);
                let mut out = frame(tags, id);
                clear_mark(&mut out);
                assert!(u16::from_be_bytes([out[at + 4], out[at + 5]]) < FIRST_MARK);
                assert_eq!(out == frame(tags, id), id < FIRST_MARK);
                assert_eq!(sum(&out[at..at + 20]), 0xffff);
            }
        }
        assert!(!can_count(&frame(3, 0)), "three tags are too many");
        for tags in 0..4 {
            let of = |ethertype: [u8; 2]| {
                let mut frame = frame(tags, 0);
                frame[ETHERNET + tags * TAG - 2..][..2].copy_from_slice(&ethertype);
                can_time(&frame)
            };
            assert!(of([8, 0]) && of([0x86, 0xdd]) && of([0x12, 0x34]));
            for hosts in [[8, 6], [0x88, 0xcc], [0x88, 9]] {
                // behind a third tag it is not found
                assert_eq!(of(hosts), tags == 3, "{hosts:?} behind {tags}");
            }
        }
        assert_eq!(smallest_timed(&frame(1, 0)), 14 + 4 + 20 + 8 + 16);
        assert_eq!(smallest_timed(&[0; 60]), 14 + 16);
        // the header's length is 46 bytes
        let padded = [frame(1, 0), vec![0; 20]].concat();
        assert_eq!((end(&padded), end(&[0; 60])), (14 + 4 + 46, 60));
    }
}
