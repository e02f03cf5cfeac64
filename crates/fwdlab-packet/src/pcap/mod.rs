//! Capture files: pcap and pcapng as bytes, to frames with nanoseconds and back.
//!
//! No I/O: the caller brings bytes, as many as it has, and takes bytes. Lengths in a file are believed only within bounds,
//! and a file that ends early gives the frames so far, then an error.
//!
//! - [`frames`]: all frames of a file in memory; [`Decoder`] for pieces of any size;
//! - [`Writer`]: either format; pcapng unless something old must read it;
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

/// Most bytes of one frame that are believed: what tcpdump captures at most.
pub const MAX_FRAME_BYTES: usize = 262_144;

/// Most bytes of one block of a pcapng file that are believed: Wireshark's limit.
pub const MAX_BLOCK_BYTES: usize = 16 << 20;

/// A captured frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When it was captured, in nanoseconds since 1970; 0 when the file does not say.
    pub timestamp_ns: u64,
    /// What it begins with, for example [`ETHERNET`].
    pub link_type: u16,
    /// The interface of a pcapng file, counted from 0.
    pub interface: u32,
    /// Bytes on the wire, of which some may not have been captured.
    pub original_len: u32,
    /// How many bytes of FCS it ends with, as far as the file says; mostly none.
    pub fcs_len: u8,
    /// What was captured.
    pub bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// A whole Ethernet frame without FCS.
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
    /// The frame as it can be sent again: all of it, without FCS.
    ///
    /// # Errors
    /// It is not Ethernet, was not captured as a whole, or is shorter than its header.
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
    /// It begins with something else, for example a cooked header.
    #[error("link type {0} is not Ethernet")]
    LinkType(u16),
    /// Its end is missing.
    #[error("only {captured} of its {whole} bytes were captured")]
    Truncated {
        /// Bytes in the file.
        captured: usize,
        /// Bytes on the wire.
        whole: u32,
    },
    /// It has no room for an Ethernet header.
    #[error("its {0} bytes are less than an Ethernet header")]
    Short(usize),
}

/// Bytes of a frame on the wire without FCS: short ones are padded.
pub fn on_wire(len: usize) -> usize {
    len.max(SHORTEST)
}

/// The shortest frame on the wire, without FCS.
const SHORTEST: usize = 60;

/// Why bytes are no capture file, or no more of one. Offsets count from the file's first byte.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PcapError {
    /// Begins like neither format.
    #[error(
        "not a capture file: it begins with {magic:02x?}; pcap and pcapng are read (unpack compressed files first)"
    )]
    Unknown {
        /// The first four bytes.
        magic: [u8; 4],
    },
    /// The file ends in the middle of something.
    #[error(
        "the capture ends at byte {offset}, {missing} bytes before the end of what begins at {begin}"
    )]
    Truncated {
        /// Where that begins.
        begin: u64,
        /// Where the file ends.
        offset: u64,
        /// How many bytes are missing, at least.
        missing: u64,
    },
    /// A length or a reference that cannot be.
    #[error("byte {offset} of the capture: {what}")]
    Malformed {
        /// Where the record or block begins.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
}

/// What [`Decoder::next`] found at the start of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A frame, in the first so many bytes.
    Frame(Frame<'a>, usize),
    /// Something else, in the first so many bytes.
    Other(usize),
    /// Not yet clear: at least so many bytes are needed.
    Needs(usize),
}

/// Reads a file piece by piece. It keeps what the file said about interfaces, but no bytes.
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
    /// At the beginning of a file.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// How many bytes of the file were used.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Looks at the next bytes of the file. The caller moves on by as many as were used, and comes again.
    ///
    /// # Errors
    /// [`PcapError::Unknown`], [`PcapError::Malformed`]: there is no going on.
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

/// All frames of a file; after an error there are no more.
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
                // A file may end between two records, but an empty one is none.
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

    /// Adds a frame: its timestamp, its bytes, and how many it had. Of more than [`MAX_FRAME_BYTES`] only so many.
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

/// Numbers in the byte order of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Order {
    big: bool,
}

impl Order {
    /// The 2 bytes at `at`; zero when there are none.
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

    /// The 4 bytes at `at`; zero when there are none.
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
