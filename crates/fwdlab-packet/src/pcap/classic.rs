//! pcap, the old format (draft-ietf-opsawg-pcap): one header, then records; microseconds or
//! nanoseconds, either byte order.
//!
//! Start with [`Header`]; callers use [`Decoder`](super::Decoder).

use super::{Frame, MAX_FRAME_BYTES, Order, Piece};

/// Length of the file's header, in bytes.
pub const HEADER_LEN: usize = 24;

/// Length of a record's header, in bytes.
const RECORD_LEN: usize = 16;

/// The first four bytes, big endian, of a file with microseconds and of one with nanoseconds.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

/// Returns true if a file of this format begins with these bytes.
pub(super) fn is_magic(bytes: [u8; 4]) -> bool {
    unit_and_order(bytes).is_some()
}

/// Returns the unit of the timestamps in nanoseconds, and the byte order.
fn unit_and_order(magic: [u8; 4]) -> Option<(u32, Order)> {
    match (u32::from_be_bytes(magic), u32::from_le_bytes(magic)) {
        (MICROSECONDS, _) => Some((1000, Order { big: true })),
        (NANOSECONDS, _) => Some((1, Order { big: true })),
        (_, MICROSECONDS) => Some((1000, Order { big: false })),
        (_, NANOSECONDS) => Some((1, Order { big: false })),
        _ => None,
    }
}

/// The properties of all frames, from the file's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    order: Order,
    unit_ns: u32,
    link_type: u16,
    fcs_len: u8,
}

impl Header {
    /// Returns `None` if there are too few bytes.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.first_chunk::<HEADER_LEN>()?;
        let (unit_ns, order) = unit_and_order([bytes[0], bytes[1], bytes[2], bytes[3]])?;
        // 16 bits link type; if bit 26 is set, the highest 4 bits are the length of the FCS, in
        // units of 2 bytes.
        let link = order.word(bytes, 20);
        let fcs_len = if link & 1 << 26 != 0 {
            (link >> 28) as u8 * 2
        } else {
            0
        };
        Some(Header {
            order,
            unit_ns,
            link_type: link as u16,
            fcs_len,
        })
    }

    pub fn next<'a>(&self, bytes: &'a [u8]) -> Result<Piece<'a>, &'static str> {
        if bytes.len() < RECORD_LEN {
            return Ok(Piece::Needs(RECORD_LEN));
        }
        let word = |at| self.order.word(bytes, at);
        let captured = word(8) as usize;
        if captured > MAX_FRAME_BYTES {
            return Err("a frame of more than 262144 bytes; the file is damaged");
        }
        let used = RECORD_LEN + captured;
        let Some(data) = bytes.get(RECORD_LEN..used) else {
            return Ok(Piece::Needs(used));
        };
        let seconds = u64::from(word(0)) * 1_000_000_000;
        let frame = Frame {
            timestamp_ns: seconds + u64::from(word(4)) * u64::from(self.unit_ns),
            link_type: self.link_type,
            interface: 0,
            original_len: word(12),
            fcs_len: self.fcs_len,
            bytes: data,
        };
        Ok(Piece::Frame(frame, used))
    }
}

/// Writes the file's header.
pub(super) fn start(nanoseconds: bool, link_type: u16, out: &mut Vec<u8>) {
    let magic = if nanoseconds {
        NANOSECONDS
    } else {
        MICROSECONDS
    };
    out.extend(magic.to_le_bytes());
    // Version 2.4
    out.extend([2, 0, 4, 0]);
    // Two obsolete words, and the maximum number of bytes kept of a frame.
    for word in [0, 0, MAX_FRAME_BYTES as u32, link_type.into()] {
        out.extend(word.to_le_bytes());
    }
}

/// Writes a record. Seconds beyond the year 2106 wrap.
pub(super) fn frame(nanoseconds: bool, frame: &Frame<'_>, out: &mut Vec<u8>) {
    let fraction = frame.timestamp_ns % 1_000_000_000;
    let words = [
        (frame.timestamp_ns / 1_000_000_000) as u32,
        (if nanoseconds {
            fraction
        } else {
            fraction / 1000
        }) as u32,
        frame.bytes.len() as u32,
        frame.original_len,
    ];
    for word in words {
        out.extend(word.to_le_bytes());
    }
    out.extend_from_slice(frame.bytes);
}
