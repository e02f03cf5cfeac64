//! Protocol headers, one file per protocol: read them, write them, show them.
//!
//! No header checks the one above it. Bytes between two headers (padding) are up to
//! [`stack`](crate::stack) and [`decode`](crate::decode). Read [`udp`], one of the shortest; the
//! others have the same shape.
//!
//! Every file has the same three parts in the same order, after the protocol's number and header
//! length:
//!
//! 1. a **view** (`Packet<T>`, of the macro `view`) over bytes, with a getter and a setter per
//!    field, if headers of the protocol are read or changed in place;
//! 2. a plain **`Repr`** with `parse` (bytes to values, and the payload that follows) and `emit`;
//!    without a view, a private `mod field` has the byte ranges, if there are many;
//! 3. `Display` for the `Repr`, one line.
//!
//! Contracts:
//!
//! - After `new` returned a view, its getters and `payload` cannot panic. A setter that changes a
//!   length (or the IPv4 version and header length) voids that.
//! - `parse` loses nothing: either `emit` restores the same header bytes, except checksums, or
//!   `parse` returns an error. `parse` never panics.
//! - `emit` writes exactly `HEADER_LEN` bytes, or `header_len()` if the header has optional parts,
//!   and panics if there is less room.

pub mod arp;
pub mod ethernet;
pub mod gre;
pub mod icmp;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod ipv6_ext;
pub mod mpls;
pub mod ndp;
pub mod options;
pub mod tcp;
pub mod udp;
pub mod vlan;
pub mod vxlan;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Why bytes are not a valid header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The buffer is shorter than the header, or than a length in the header.
    #[error("truncated: fewer bytes than the header says")]
    Truncated,
    /// A field has a value that the protocol does not allow.
    #[error("malformed: a header field has an impossible value")]
    Malformed,
    /// The header's own checksum is wrong.
    #[error("wrong header checksum")]
    Checksum,
    /// Valid, but `Repr` has no field for it: reserved bits, other versions, other kinds of
    /// addresses.
    #[error("has reserved bits set or an unsupported type")]
    Unsupported,
}

/// A value of a field of a view.
trait Value<const N: usize>: Sized {
    fn from_bytes(bytes: [u8; N]) -> Self;
    fn bytes(self) -> [u8; N];
}

macro_rules! values {
    ($($type:ty, $len:literal: $from:expr, $bytes:ident;)*) => {
        $(impl Value<$len> for $type {
            #[inline]
            fn from_bytes(bytes: [u8; $len]) -> Self {
                $from(bytes)
            }

            #[inline]
            fn bytes(self) -> [u8; $len] {
                self.$bytes()
            }
        })*
    };
}

values! {
    u8, 1: u8::from_be_bytes, to_be_bytes;
    u16, 2: u16::from_be_bytes, to_be_bytes;
    u32, 4: u32::from_be_bytes, to_be_bytes;
    Ipv4Addr, 4: Ipv4Addr::from, octets;
    Ipv6Addr, 16: Ipv6Addr::from, octets;
}

/// Defines the view of a header, with a getter and a setter for each field that consists of whole
/// bytes in network byte order, at the position after `=`.
macro_rules! view {
    (
        $(#[$about_view:meta])*
        $vis:vis struct $view:ident<T>;
        $(
            $(#[$about:meta])*
            $vis_get:vis fn $get:ident(&self) -> $type:ty = $at:expr;
            $vis_set:vis fn $set:ident(&mut self, value: $_:ty);
        )*
    ) => {
        $(#[$about_view])*
        #[derive(Debug, Clone, Copy)]
        $vis struct $view<T> {
            buffer: T,
        }

        impl<T: AsRef<[u8]>> $view<T> {
            $(
                $(#[$about])*
                #[inline]
                $vis_get fn $get(&self) -> $type {
                    super::Value::from_bytes(super::get(self.buffer.as_ref(), $at))
                }
            )*
        }

        impl<T: AsRef<[u8]> + AsMut<[u8]>> $view<T> {
            /// Wraps bytes that the caller is about to fill; getters may panic until then.
            #[inline]
            pub(crate) fn new_unchecked(buffer: T) -> Self {
                $view { buffer }
            }

            $(
                #[doc = concat!("Sets what [`", stringify!($get), "`](Self::", stringify!($get), ") returns.")]
                #[inline]
                $vis_set fn $set(&mut self, value: $type) {
                    self.buffer.as_mut()[$at].copy_from_slice(&super::Value::bytes(value));
                }
            )*
        }
    };
}
use view;

/// The bytes of one field.
#[inline]
fn get<const N: usize>(buffer: &[u8], field: Range<usize>) -> [u8; N] {
    buffer[field]
        .try_into()
        .expect("a field's range has the length of its type")
}
