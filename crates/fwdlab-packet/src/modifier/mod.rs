//! Field modifiers: a small program per stream that makes its frames differ.
//!
//! A [`Program`] has *variables*, which advance from frame to frame, and *instructions*, which
//! write them into a copy of the stream's template and then correct the checksums. It can do
//! everything that the field engine of TRex can, bit for bit (its instructions have the same
//! names), and adds exact flow sets and signatures. It knows nothing about rates or about the
//! meaning of the bytes at an offset.
//!
//! - [`variable`]: how values advance, alone, chained like digits, and split over sender threads;
//! - [`machine`]: a program with its template, ready to render frames in order;
//! - `column`: numbers for many frames at once;
//! - `fused`: a fast path for most programs, without decisions per frame;
//! - [`fix`]: checksums from partial sums where possible.
//!
//! Start with [`Program::split`].

mod bounds;
mod column;
pub mod fix;
mod fused;
mod grid;
pub mod machine;
pub mod variable;

use serde::{Deserialize, Serialize};

pub use grid::Lists;
pub use machine::{Machine, Room};
pub use variable::{Dimension, Direction, Source, Values, Variable, Width};

/// The smallest frame that [`Instruction::Trim`] leaves, in bytes without FCS.
pub const MIN_TRIM: u16 = 60;

/// A program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Program {
    /// The values that advance from frame to frame.
    pub variables: Vec<Variable>,
    /// The steps applied to every frame, in this order.
    pub instructions: Vec<Instruction>,
    /// The output repeats after this number of frames (of all threads together).
    pub cache: Option<u32>,
}

/// Byte order of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Endian {
    /// Network order.
    #[default]
    Big,
    /// The reverse of network order.
    Little,
}

/// The protocol behind the IP header, for its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Transport {
    /// UDP
    Udp,
    /// TCP
    Tcp,
    /// ICMP, over IPv4.
    Icmp,
    /// GRE, if it has a checksum.
    Gre,
    /// Correct only the checksum of the IPv4 header.
    IpOnly,
}

/// One step on every frame. Offsets count from the destination MAC, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Instruction {
    /// Writes variable + `add`, wrapping in the variable's width.
    Write {
        /// Name of the variable, or of a value that a group defines: `clients.ip`.
        variable: String,
        /// The first byte.
        offset: u16,
        /// Added to the variable.
        add: i64,
        /// Byte order.
        endian: Endian,
    },
    /// Writes some bits: v = (variable + `add`) shifted, field = (field & !mask) | (v & mask).
    WriteMask {
        /// As for [`Instruction::Write`].
        variable: String,
        /// The first byte.
        offset: u16,
        /// Width of the field: 1, 2 or 4 bytes.
        width: Width,
        /// The bits of the field that are written.
        mask: u32,
        /// Bits to the left; negative: to the right.
        shift: i8,
        /// Added to the variable.
        add: i64,
        /// Byte order.
        endian: Endian,
    },
    /// Ends the frame after as many bytes (without FCS) as the value of the 2-byte variable: at
    /// least [`MIN_TRIM`], at most the template. Writes no length into any header.
    Trim {
        /// Name of the variable.
        variable: String,
    },
    /// Corrects the checksum of the IPv4 header at the offset.
    FixIpv4 {
        /// Where the header starts.
        offset: u16,
    },
    /// Corrects the checksums of an IPv4 header, if it is one, and of the protocol that it carries.
    FixTransport {
        /// Bytes before the IP header.
        l2_len: u16,
        /// Bytes of the IP header, with options and extension headers.
        l3_len: u16,
        /// The protocol that it carries.
        transport: Transport,
    },
    /// Corrects the ICMPv6 checksum.
    FixIcmpv6 {
        /// Bytes before the IPv6 header.
        l2_len: u16,
        /// Bytes of the IPv6 header, with extension headers.
        l3_len: u16,
    },
    /// Writes the frame's [`Signature`](crate::Signature).
    Signature {
        /// The first byte.
        offset: u16,
    },
    /// Writes TRex's latency header into the last [`TRAILER_LEN`] bytes of the frame, whatever its
    /// length: see [`trailer`]. Number and time come from the frame's
    /// [`Signature`](crate::Signature).
    Trailer {
        /// The group of frames.
        group: u16,
        /// How often this group was recreated.
        generation: u8,
    },
}

/// Length of TRex's latency header.
pub const TRAILER_LEN: usize = 16;

/// The first byte of TRex's latency header.
pub const TRAILER_MAGIC: u8 = 0xab;

/// The number of the first frame of a group.
pub const TRAILER_FIRST: u32 = 0xffff_fffe;

/// Returns TRex's latency header of a frame, little endian: magic, generation, group, number,
/// departure time in nanoseconds.
#[inline]
pub fn trailer(group: u16, generation: u8, signature: &crate::Signature) -> [u8; TRAILER_LEN] {
    let mut bytes = [0; TRAILER_LEN];
    (bytes[0], bytes[1]) = (TRAILER_MAGIC, generation);
    bytes[2..4].copy_from_slice(&group.to_le_bytes());
    let number = TRAILER_FIRST.wrapping_add(signature.sequence as u32);
    bytes[4..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..].copy_from_slice(&signature.timestamp_ns.to_le_bytes());
    bytes
}

/// Why a program cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModifierError {
    /// Two variables, or values of groups, have the same name.
    #[error("two variables are called {name}; each needs its own name")]
    Twice {
        /// The name.
        name: String,
    },
    /// There is no such variable.
    #[error("there is no variable {name}")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The variable cannot have these values.
    #[error("variable {name}: {what}")]
    Variable {
        /// Its name.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// A write is beyond the template.
    #[error(
        "instruction {at}: bytes {offset} to {end} are beyond the template's {template} (without FCS)"
    )]
    Beyond {
        /// Index of the instruction.
        at: usize,
        /// First byte.
        offset: usize,
        /// First byte after.
        end: usize,
        /// Length of the template, in bytes without FCS.
        template: usize,
    },
    /// An instruction makes no sense.
    #[error("instruction {at}: {what}")]
    Instruction {
        /// Index of the instruction.
        at: usize,
        /// What is wrong.
        what: String,
    },
    /// The variable has fewer values than there are threads.
    #[error(
        "variable {name}: a limit of {limit} cannot be split over {threads} threads; use fewer threads"
    )]
    TooManyThreads {
        /// Its name.
        name: String,
        /// Its limit.
        limit: u64,
        /// Number of threads.
        threads: u32,
    },
}

impl Program {
    /// Returns the program for each of `threads` sender threads.
    ///
    /// Variables that are [split](Variable::split) start one step later in each thread than in the
    /// previous one, and move `threads` steps per frame: together, the threads send what a single
    /// one would.
    ///
    /// # Errors
    /// Any [`ModifierError`].
    ///
    /// # Panics
    /// If `threads` is 0.
    pub fn split(&self, template: &[u8], threads: u32) -> Result<Vec<Machine>, ModifierError> {
        assert!(threads > 0, "a program needs at least one thread");
        (0..threads)
            .map(|thread| Machine::new(self, template, thread, threads))
            .collect()
    }

    /// Returns the program that renders frame number `first` of those that a
    /// [single thread](Self::machine) renders, and then every `step`-th frame after it, byte for
    /// byte. Unlike [`split`](Self::split), it draws the same random values as a single thread.
    ///
    /// # Errors
    /// As [`Program::split`].
    ///
    /// # Panics
    /// If the program does not [skip](Self::skips).
    pub fn every(&self, template: &[u8], first: u64, step: u64) -> Result<Machine, ModifierError> {
        assert!(self.skips(), "this program cannot skip frames");
        Machine::every(self, template, first, step)
    }

    /// Returns true if [`every`](Self::every) is possible: not if the frames restart after a number
    /// of frames that variables do not count.
    pub fn skips(&self) -> bool {
        let restarts = |variable: &Variable| matches!(variable.source, Source::Tuple { limit, .. } if limit > 0);
        self.cache.is_none_or(|cache| cache == 0) && !self.variables.iter().any(restarts)
    }

    /// Returns the program for a single thread.
    ///
    /// # Errors
    /// As [`Program::split`].
    pub fn machine(&self, template: &[u8]) -> Result<Machine, ModifierError> {
        Machine::new(self, template, 0, 1)
    }
}
