//! pcapng (draft-ietf-opsawg-pcapng): blocks that describe interfaces or contain frames.
//!
//! Reads enhanced, simple and obsolete packet blocks; skips all others (names, statistics,
//! secrets). Start with [`Section`]; callers use [`Decoder`](super::Decoder).

use super::{Frame, MAX_BLOCK_BYTES, MAX_FRAME_BYTES, Order, Piece};

/// Type of the block that begins a file, the same in both byte orders.
pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Types of the other blocks.
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Magic that shows the byte order of a section.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// Options of an interface: resolution of timestamps, length of the FCS, seconds to add.
const OPTION_RESOLUTION: u16 = 9;
const OPTION_FCS_LEN: u16 = 13;
const OPTION_SECONDS: u16 = 14;

/// Option of an enhanced packet block: flags, whose bits 5 to 8 are the length of its FCS, or 0 if
/// unknown.
const OPTION_FLAGS: u16 = 2;

/// Maximum number of interfaces that is accepted.
const MAX_INTERFACES: usize = 65_536;

/// The state of a section.
#[derive(Debug, Clone, Default)]
pub(super) struct Section {
    order: Order,
    begun: bool,
    interfaces: Vec<Interface>,
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    link_type: u16,
    /// Snapshot length in bytes; 0: unlimited.
    kept: u32,
    /// The option's byte: 10^-n s, or with the highest bit set 2^-n s.
    resolution: u8,
    seconds: i64,
    fcs_len: u8,
}

impl Section {
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Piece<'a>, &'static str> {
        // Type, length, and in a section header the byte order, which is needed to read the length.
        let Some(head) = bytes.first_chunk::<12>() else {
            return Ok(Piece::Needs(12));
        };
        let is_section = head[..4] == SECTION_HEADER;
        if is_section {
            let big = [Order { big: true }, Order { big: false }];
            let order = big
                .into_iter()
                .find(|order| order.word(head, 8) == BYTE_ORDER);
            self.order = order.ok_or("a section header without a byte order")?;
            self.interfaces.clear();
            self.begun = true;
        }
        let len = self.order.word(head, 4) as usize;
        if len < 12 || !len.is_multiple_of(4) || len > MAX_BLOCK_BYTES {
            return Err("an impossible block length; the file is damaged");
        }
        let Some(block) = bytes.get(..len) else {
            return Ok(Piece::Needs(len));
        };
        if self.order.word(block, len - 4) as usize != len {
            return Err("the two lengths of a block differ; the file is damaged");
        }
        let body = &block[8..len - 4];
        let frame = match self.order.word(head, 0) {
            _ if is_section => None,
            INTERFACE => {
                self.interface(body)?;
                None
            }
            ENHANCED_PACKET => Some(self.packet(body, self.order.word(body, 0))?),
            PACKET => Some(self.packet(body, self.order.half(body, 0).into())?),
            SIMPLE_PACKET => Some(self.simple_packet(body)?),
            _ => None,
        };
        Ok(match frame {
            Some(frame) => Piece::Frame(frame, len),
            None => Piece::Other(len),
        })
    }

    fn interface(&mut self, body: &[u8]) -> Result<(), &'static str> {
        if body.len() < 8 {
            return Err("an interface description that is too short");
        }
        if self.interfaces.len() == MAX_INTERFACES {
            return Err("more than 65536 interfaces");
        }
        let mut interface = Interface {
            link_type: self.order.half(body, 0),
            kept: self.order.word(body, 4),
            resolution: 6,
            seconds: 0,
            fcs_len: 0,
        };
        for option in self.options(&body[8..]) {
            match option? {
                (OPTION_RESOLUTION, &[resolution]) => interface.resolution = resolution,
                (OPTION_FCS_LEN, &[fcs_len]) => interface.fcs_len = fcs_len,
                (OPTION_SECONDS, value) => {
                    let (first, second) = (self.order.word(value, 0), self.order.word(value, 4));
                    let (high, low) = match self.order.big {
                        true => (first, second),
                        false => (second, first),
                    };
                    interface.seconds = (u64::from(high) << 32 | u64::from(low)) as i64;
                }
                _ => {}
            }
        }
        self.interfaces.push(interface);
        Ok(())
    }

    /// Iterates over the options of a block, up to their end.
    fn options<'a>(
        &self,
        mut options: &'a [u8],
    ) -> impl Iterator<Item = Result<(u16, &'a [u8]), &'static str>> {
        let order = self.order;
        std::iter::from_fn(move || {
            let (code, len) = (order.half(options, 0), order.half(options, 2));
            if options.len() < 4 || code == 0 {
                return None;
            }
            let value = options.get(4..4 + usize::from(len));
            let used = 4 + usize::from(len).next_multiple_of(4);
            options = options.get(used..).unwrap_or_default();
            Some(
                value.map_or(Err("an option longer than its block"), |value| {
                    Ok((code, value))
                }),
            )
        })
    }

    /// Parses an enhanced packet block, or an obsolete one: only their first word differs.
    fn packet<'a>(&self, body: &'a [u8], number: u32) -> Result<Frame<'a>, &'static str> {
        let interface = self.interfaces.get(number as usize);
        let interface = interface.ok_or("a frame of an interface without a description")?;
        let word = |at| self.order.word(body, at);
        let captured = word(12) as usize;
        let bytes = body.get(20..).and_then(|data| data.get(..captured));
        let bytes = bytes.ok_or("a frame longer than its block")?;
        if captured > MAX_FRAME_BYTES {
            return Err("a frame of more than 262144 bytes");
        }
        let mut fcs_len = interface.fcs_len;
        let options = body.get(20 + captured.next_multiple_of(4)..);
        for option in self.options(options.unwrap_or_default()) {
            if let (OPTION_FLAGS, flags) = option?
                && let said @ 1.. = self.order.word(flags, 0) >> 5 & 0xf
            {
                fcs_len = said as u8;
            }
        }
        Ok(Frame {
            timestamp_ns: interface.nanoseconds(u64::from(word(4)) << 32 | u64::from(word(8))),
            link_type: interface.link_type,
            interface: number,
            original_len: word(16),
            fcs_len,
            bytes,
        })
    }

    /// Parses a simple packet block: from the first interface, without a timestamp.
    fn simple_packet<'a>(&self, body: &'a [u8]) -> Result<Frame<'a>, &'static str> {
        let interface = self.interfaces.first();
        let interface = interface.ok_or("a frame of an interface without a description")?;
        let original_len = self.order.word(body, 0);
        let kept = if interface.kept == 0 {
            u32::MAX
        } else {
            interface.kept
        };
        let captured = original_len.min(kept) as usize;
        let bytes = body.get(4..).and_then(|data| data.get(..captured));
        let bytes = bytes.ok_or("a frame longer than its block")?;
        if captured > MAX_FRAME_BYTES {
            return Err("a frame of more than 262144 bytes");
        }
        Ok(Frame {
            timestamp_ns: 0,
            link_type: interface.link_type,
            interface: 0,
            original_len,
            fcs_len: interface.fcs_len,
            bytes,
        })
    }
}

impl Interface {
    /// Converts a timestamp to nanoseconds since 1970; saturates.
    fn nanoseconds(&self, timestamp: u64) -> u64 {
        let timestamp = u128::from(timestamp);
        let exponent = u32::from(self.resolution & 0x7f);
        let nanoseconds = match (self.resolution & 0x80, exponent) {
            (0, 0..=9) => timestamp * 10_u128.pow(9 - exponent),
            (0, 10..=38) => timestamp / 10_u128.pow(exponent - 9),
            (0, _) => 0,
            _ => (timestamp * 1_000_000_000) >> exponent,
        };
        let sum = nanoseconds as i128 + i128::from(self.seconds) * 1_000_000_000;
        sum.clamp(0, u64::MAX.into()) as u64
    }
}

/// Writes a section header and one interface with nanoseconds.
pub(super) fn start(link_type: u16, out: &mut Vec<u8>) {
    // Version 1.0; the section's length is not given.
    let section = [BYTE_ORDER, 1, u32::MAX, u32::MAX];
    let words = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
    block(u32::from_le_bytes(SECTION_HEADER), &[&words(&section)], out);
    let resolution = u32::from(OPTION_RESOLUTION) | 1 << 16;
    let interface = [link_type.into(), MAX_FRAME_BYTES as u32, resolution, 9, 0];
    block(INTERFACE, &[&words(&interface)], out);
}

/// Writes an enhanced packet block.
pub(super) fn frame(frame: &Frame<'_>, out: &mut Vec<u8>) {
    let words = [
        0,
        (frame.timestamp_ns >> 32) as u32,
        frame.timestamp_ns as u32,
        frame.bytes.len() as u32,
        frame.original_len,
    ]
    .map(u32::to_le_bytes);
    block(ENHANCED_PACKET, &[words.as_flattened(), frame.bytes], out);
}

/// Writes a block: type, length, body in parts, padding, length again.
fn block(kind: u32, body: &[&[u8]], out: &mut Vec<u8>) {
    let len: usize = body.iter().map(|part| part.len()).sum();
    let padding = len.next_multiple_of(4) - len;
    let total = ((12 + len + padding) as u32).to_le_bytes();
    out.extend(kind.to_le_bytes());
    out.extend(total);
    for part in body {
        out.extend_from_slice(part);
    }
    out.extend_from_slice(&[0; 3][..padding]);
    out.extend(total);
}
