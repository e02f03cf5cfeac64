//! Capture files: pcap and pcapng as bytes, to frames with nanoseconds and back.
//!
//! No I/O: callers pass in bytes, in pieces of any size, and get bytes back. Lengths in a file are
//! trusted only within bounds, and a truncated file yields the frames so far, then an error.
//!
//! - [`frames`]: all frames of a file in memory; [`Decoder`] for pieces of any size;
//! - [`Writer`]: either format; use pcapng unless an old program must read the file;
//! - [`classic`], [`ng`]: the formats.
//!
//! ```
//! use fwdlab_packet::pcap::{self, Frame, Format, Writer};
//!
//! let mut file = Vec::new();
//! let writer = Writer::start(Format::Ng, pcap::ETHERNET, &mut file);
//! writer.frame(&Frame::new(1_000_000_007, &[0xff; 60]), &mut file);
//! let frame = pcap::frames(&file).next().expect("one frame")?;
//! assert_eq!((frame.timestamp_ns, frame.bytes.len()), (1_000_000_007, 60));
//! # Ok::<(), pcap::PcapError>(())
//! ```

pub mod classic;
pub mod ng;

use crate::header::ethernet::HEADER_LEN;

/// Link type of Ethernet frames.
pub const ETHERNET: u16 = 1;

/// Longest frame that is accepted, in bytes: tcpdump's largest snapshot length.
pub const MAX_FRAME_BYTES: usize = 262_144;

/// Longest block of a pcapng file that is accepted, in bytes: Wireshark's limit.
pub const MAX_BLOCK_BYTES: usize = 16 << 20;

/// A captured frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Capture time, in nanoseconds since 1970; 0 if the file has none.
    pub timestamp_ns: u64,
    /// Link type, for example [`ETHERNET`].
    pub link_type: u16,
    /// The interface of a pcapng file, counted from 0.
    pub interface: u32,
    /// Bytes on the wire; the capture may be truncated.
    pub original_len: u32,
    /// Bytes of FCS at its end, if the file gives a number; usually 0.
    pub fcs_len: u8,
    /// The captured bytes.
    pub bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Returns a complete Ethernet frame without FCS.
    pub fn new(timestamp_ns: u64, bytes: &'a [u8]) -> Frame<'a> {
        Frame {
            timestamp_ns,
            link_type: ETHERNET,
            interface: 0,
            original_len: bytes.len() as u32,
            fcs_len: 0,
            bytes,
        }
    }
}

impl<'a> Frame<'a> {
    /// Returns the frame in a form that can be sent again: complete, without FCS.
    ///
    /// # Errors
    /// If it is not Ethernet, was truncated, or is shorter than its header.
    pub fn to_send(&self) -> Result<&'a [u8], NotSendable> {
        if self.link_type != ETHERNET {
            return Err(NotSendable::LinkType(self.link_type));
        }
        let fcs_len = usize::from(self.fcs_len);
        let whole = (self.original_len as usize).max(self.bytes.len());
        let len = whole.saturating_sub(fcs_len);
        if len > self.bytes.len() {
            return Err(NotSendable::Truncated {
                captured: self.bytes.len(),
                whole: self.original_len,
            });
        }
        match len < HEADER_LEN {
            true => Err(NotSendable::Short(len)),
            false => Ok(&self.bytes[..len]),
        }
    }
}

/// Why a captured frame cannot be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotSendable {
    /// It has another link type, for example a cooked header.
    #[error("link type {0} is not Ethernet")]
    LinkType(u16),
    /// It was truncated.
    #[error("only {captured} of its {whole} bytes were captured")]
    Truncated {
        /// Bytes in the file.
        captured: usize,
        /// Bytes on the wire.
        whole: u32,
    },
    /// It is shorter than an Ethernet header.
    #[error("its {0} bytes are less than an Ethernet header")]
    Short(usize),
}

/// Returns the bytes of a frame on the wire without FCS: short ones are padded.
pub fn on_wire(len: usize) -> usize {
    len.max(SHORTEST)
}

/// The shortest frame on the wire, without FCS.
const SHORTEST: usize = 60;

/// Why a capture file cannot be read, or not to its end. Offsets count from the file's first byte.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PcapError {
    /// It begins with the magic of neither format.
    #[error(
        "not a capture file: it begins with {magic:02x?}; pcap and pcapng are read (unpack compressed files first)"
    )]
    Unknown {
        /// The first four bytes.
        magic: [u8; 4],
    },
    /// The file is truncated.
    #[error(
        "the capture ends at byte {offset}, {missing} bytes before the end of what begins at {begin}"
    )]
    Truncated {
        /// Start of the truncated record or block.
        begin: u64,
        /// End of the file.
        offset: u64,
        /// Missing bytes, at least.
        missing: u64,
    },
    /// A length or a reference is impossible.
    #[error("byte {offset} of the capture: {what}")]
    Malformed {
        /// Start of the record or block.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
}

/// The result of [`Decoder::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A frame, and the number of bytes it used.
    Frame(Frame<'a>, usize),
    /// Something else, and the number of bytes it used.
    Other(usize),
    /// More input is needed: at least this number of bytes in total.
    Needs(usize),
}

/// Reads a file piece by piece. It keeps the interfaces of the file, but no bytes.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    kind: Kind,
    offset: u64,
}

#[derive(Debug, Clone, Default)]
enum Kind {
    #[default]
    Unknown,
    Classic(classic::Header),
    Ng(ng::Section),
}

impl Decoder {
    /// Returns a decoder at the beginning of a file.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Returns the number of bytes of the file that were used.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Decodes the next piece of the file. The caller drops the bytes that were used, and calls
    /// again.
    ///
    /// # Errors
    /// [`PcapError::Unknown`], [`PcapError::Malformed`]: the rest of the file cannot be read.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Piece<'a>, PcapError> {
        let offset = self.offset;
        let malformed = |what| PcapError::Malformed { offset, what };
        let piece = match &mut self.kind {
            Kind::Unknown => {
                let Some(magic) = bytes.first_chunk::<4>() else {
                    return Ok(Piece::Needs(4));
                };
                if *magic == ng::SECTION_HEADER {
                    self.kind = Kind::Ng(ng::Section::default());
                    return self.next(bytes);
                }
                if !classic::is_magic(*magic) {
                    return Err(PcapError::Unknown { magic: *magic });
                }
                match classic::Header::parse(bytes) {
                    None => Piece::Needs(classic::HEADER_LEN),
                    Some(header) => {
                        self.kind = Kind::Classic(header);
                        Piece::Other(classic::HEADER_LEN)
                    }
                }
            }
            Kind::Classic(header) => header.next(bytes).map_err(malformed)?,
            Kind::Ng(section) => section.next(bytes).map_err(malformed)?,
        };
        if let Piece::Frame(_, used) | Piece::Other(used) = piece {
            self.offset += used as u64;
        }
        Ok(piece)
    }
}

/// Iterates over all frames of a file; ends after an error.
pub fn frames(bytes: &[u8]) -> Frames<'_> {
    Frames {
        decoder: Decoder::new(),
        rest: Some(bytes),
    }
}

/// Iterator of [`frames`].
#[derive(Debug, Clone)]
pub struct Frames<'a> {
    decoder: Decoder,
    /// `None` after the end or an error.
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, PcapError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.rest.take()?;
            match self.decoder.next(rest) {
                Ok(Piece::Frame(frame, used)) => {
                    self.rest = Some(&rest[used..]);
                    return Some(Ok(frame));
                }
                Ok(Piece::Other(used)) => self.rest = Some(&rest[used..]),
                // A file may end between two records, but an empty file is invalid.
                Ok(Piece::Needs(_)) if rest.is_empty() && self.decoder.offset > 0 => return None,
                Ok(Piece::Needs(needed)) => {
                    let begin = self.decoder.offset;
                    return Some(Err(PcapError::Truncated {
                        begin,
                        offset: begin + rest.len() as u64,
                        missing: (needed - rest.len()) as u64,
                    }));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// A file format. All are written little endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// pcap with microseconds, which everything reads.
    Micro,
    /// pcap with nanoseconds.
    Nano,
    /// pcapng with nanoseconds.
    #[default]
    Ng,
}

/// Writes a file to the end of buffers, which the caller may empty in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer {
    format: Format,
}

impl Writer {
    /// Writes the file's header: one interface with this link type.
    pub fn start(format: Format, link_type: u16, out: &mut Vec<u8>) -> Writer {
        match format {
            Format::Ng => ng::start(link_type, out),
            Format::Micro | Format::Nano => classic::start(format == Format::Nano, link_type, out),
        }
        Writer { format }
    }

    /// Adds a frame: timestamp, bytes, and original length. Truncates at [`MAX_FRAME_BYTES`].
    pub fn frame(&self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        let bytes = &frame.bytes[..frame.bytes.len().min(MAX_FRAME_BYTES)];
        let frame = Frame { bytes, ..*frame };
        match self.format {
            Format::Ng => ng::frame(&frame, out),
            Format::Nano => classic::frame(true, &frame, out),
            Format::Micro => classic::frame(false, &frame, out),
        }
    }
}

/// The byte order of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Order {
    big: bool,
}

impl Order {
    /// Reads the 2 bytes at `at`; 0 beyond the end.
    fn half(self, bytes: &[u8], at: usize) -> u16 {
        let found = bytes
            .get(at..at + 2)
            .and_then(|bytes| bytes.try_into().ok());
        let bytes = found.unwrap_or_default();
        match self.big {
            true => u16::from_be_bytes(bytes),
            false => u16::from_le_bytes(bytes),
        }
    }

    /// Reads the 4 bytes at `at`; 0 beyond the end.
    fn word(self, bytes: &[u8], at: usize) -> u32 {
        let found = bytes
            .get(at..at + 4)
            .and_then(|bytes| bytes.try_into().ok());
        let bytes = found.unwrap_or_default();
        match self.big {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        }
    }
}
