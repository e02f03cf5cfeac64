//! Protocol headers, one file per protocol: read them, write them, show them.
//!
//! Fixed headers only: what lies between two headers (padding, options, extension headers) is reported, not
//! interpreted, and no header checks the one above it. Read [`udp`], the shortest; then you know them all.
//!
//! Every file has the same four parts in the same order, after the protocol's number and header length:
//!
//! 1. a **view** (`Packet<T>`, `Frame<T>`) over bytes, with a getter and a setter per field;
//! 2. a private `mod field` with the byte ranges;
//! 3. a plain **`Repr`** with `parse` (bytes to values, and the payload that follows) and `emit`;
//! 4. `Display` for the `Repr`, one line.
//!
//! Contracts:
//!
//! - After `new` returned a view, its getters and `payload` cannot panic. A setter that changes a length
//!   (or the IPv4 version and header length) voids that.
//! - `parse` loses nothing: either `emit` gives the same header bytes again, checksums apart, or `parse`
//!   is an error. `parse` never panics.
//! - `emit` writes exactly `HEADER_LEN` bytes and panics when there is less room.

pub mod ethernet;
pub mod ipv4;
pub mod ipv6;
pub mod udp;

use std::ops::Range;

/// Why bytes are not the header they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Fewer bytes than the header, or than the header says there are.
    #[error("truncated: fewer bytes than the header says")]
    Truncated,
    /// A field has a value that the protocol does not allow.
    #[error("malformed: a header field has an impossible value")]
    Malformed,
    /// The header's own checksum is wrong.
    #[error("wrong header checksum")]
    Checksum,
    /// Correct, but `Repr` has no field for it: IPv4 options and fragments.
    #[error("has options or is a fragment, which Repr does not represent")]
    Unsupported,
}

/// The bytes of one field.
#[inline]
fn get<const N: usize>(buffer: &[u8], field: Range<usize>) -> [u8; N] {
    buffer[field]
        .try_into()
        .expect("a field's range has the length of its type")
}
