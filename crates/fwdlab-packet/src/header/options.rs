//! The options of IPv4 (RFC 791 §3.1) and TCP (RFC 9293 §3.1), which share one format.
//!
//! Carries their bytes and iterates over them; does not interpret an option. Start with
//! [`Options`].

use super::Error;
use std::fmt;

/// No options.
pub const NONE: Options = Options {
    len: 0,
    bytes: [0; MAX_LEN],
};

/// Maximum size of options, in bytes: a header has at most 60, of which 20 are fixed.
pub const MAX_LEN: usize = 40;

/// Kind: end of the list; what follows is padding.
pub const END: u8 = 0;

/// Kind: no operation; one byte that aligns the next option.
pub const NOP: u8 = 1;

/// The options of a header: up to 40 bytes, a multiple of 4.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    len: u8,
    bytes: [u8; MAX_LEN],
}

impl Options {
    /// Copies the bytes and pads them with [`END`] to a multiple of 4.
    ///
    /// # Errors
    /// [`Error::Malformed`] if there are more than [`MAX_LEN`].
    pub fn new(bytes: &[u8]) -> Result<Options, Error> {
        let mut options = NONE;
        options
            .bytes
            .get_mut(..bytes.len())
            .ok_or(Error::Malformed)?
            .copy_from_slice(bytes);
        options.len = bytes.len().next_multiple_of(4) as u8;
        Ok(options)
    }

    /// The bytes, padding included.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns true if there are no options.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over kind and data of each option, without [`NOP`] and [`END`]; ends with an error
    /// if a length is impossible.
    pub fn iter(&self) -> impl Iterator<Item = Result<(u8, &[u8]), Error>> {
        let mut rest = self.as_bytes();
        std::iter::from_fn(move || {
            let skip = rest.iter().take_while(|kind| **kind == NOP).count();
            rest = &rest[skip..];
            let (&kind, after) = rest.split_first()?;
            if kind == END {
                return None;
            }
            let len = usize::from(after.first().copied().unwrap_or(0));
            let Some(data) = rest.get(2..len) else {
                rest = &[];
                return Some(Err(Error::Malformed));
            };
            rest = &rest[len..];
            Some(Ok((kind, data)))
        })
    }
}

impl Default for Options {
    fn default() -> Self {
        NONE
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Options({:02x?})", self.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_alert_and_a_syn() {
        // RFC 2113 §2.1
        let alert = Options::new(&[0x94, 0x04, 0, 0]).unwrap();
        assert_eq!(alert.iter().collect::<Vec<_>>(), [Ok((0x94, &[0, 0][..]))]);
        // Maximum segment size, NOP, window scale (RFC 7323 §2.2), as systems send them.
        let syn = Options::new(&[2, 4, 5, 0xb4, 1, 3, 3, 7]).unwrap();
        let options: Vec<_> = syn.iter().map(Result::unwrap).collect();
        assert_eq!(options, [(2, &[5, 0xb4][..]), (3, &[7])]);
    }

    #[test]
    fn padding_ends_and_impossible_lengths() {
        let odd = Options::new(&[0x94, 4, 0, 0, NOP]).unwrap();
        assert_eq!(odd.as_bytes(), [0x94, 4, 0, 0, 1, 0, 0, 0]);
        assert_eq!(odd.iter().count(), 1);
        assert!(NONE.is_empty() && NONE.iter().next().is_none());
        for bytes in [&[7, 0][..], &[7, 1], &[7, 9], &[1, 1, 1, 7]] {
            let options = Options::new(bytes).unwrap();
            let all: Vec<_> = options.iter().collect();
            assert_eq!(all, [Err(Error::Malformed)], "{bytes:?}");
        }
        assert_eq!(Options::new(&[0; 41]), Err(Error::Malformed));
    }
}
