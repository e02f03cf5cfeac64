//! The framing of a message: none, or TRex's header and zlib. Start with [`unwrap`].

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use crate::limits;

const MAGIC: u32 = 0xABE8_5CEA;
const HEADER: usize = 8;

/// The contents of a message.
#[derive(Debug, PartialEq, Eq)]
pub struct Unwrapped {
    /// The JSON.
    pub text: Vec<u8>,
    /// True if it was compressed; then the answer is, too.
    pub compressed: bool,
}

/// Why a message could not be unwrapped.
#[derive(Debug, PartialEq, Eq)]
pub enum UnwrapError {
    /// It is larger than allowed.
    TooLarge,
    /// It is not zlib, or its size differs from the header.
    Damaged,
}

/// Extracts the JSON from a message.
pub fn unwrap(message: &[u8]) -> Result<Unwrapped, UnwrapError> {
    let Some((header, packed)) = message.split_at_checked(HEADER) else {
        return plain(message);
    };
    let word = |at: usize| header[at..at + 4].try_into().map(u32::from_be_bytes);
    let (Ok(MAGIC), Ok(size)) = (word(0), word(4)) else {
        return plain(message);
    };
    let size = size as usize;
    if size > limits::MESSAGE {
        return Err(UnwrapError::TooLarge);
    }
    let mut text = Vec::new();
    // read one byte more than the header's size, to verify it
    let mut unpacked = ZlibDecoder::new(packed).take(size as u64 + 1);
    unpacked
        .read_to_end(&mut text)
        .map_err(|_| UnwrapError::Damaged)?;
    match text.len() == size {
        true => Ok(Unwrapped {
            text,
            compressed: true,
        }),
        false => Err(UnwrapError::Damaged),
    }
}

fn plain(message: &[u8]) -> Result<Unwrapped, UnwrapError> {
    match message.len() > limits::MESSAGE {
        true => Err(UnwrapError::TooLarge),
        false => Ok(Unwrapped {
            text: message.to_vec(),
            compressed: false,
        }),
    }
}

/// Returns an answer as it is sent.
pub fn wrap(text: Vec<u8>, compressed: bool) -> Vec<u8> {
    if !compressed {
        return text;
    }
    let Ok(size) = u32::try_from(text.len()) else {
        return text;
    };
    let mut message = MAGIC.to_be_bytes().to_vec();
    message.extend(size.to_be_bytes());
    let mut packer = ZlibEncoder::new(message, Compression::fast());
    match packer.write_all(&text).and_then(|()| packer.finish()) {
        Ok(message) => message,
        // clients accept both forms
        Err(_) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct.pack(">II", 0xABE85CEA, 2) + zlib.compress(b"{}")`, from Python.
    const OF_PYTHON: &[u8] = b"\xab\xe8\x5c\xea\0\0\0\x02\x78\x9c\xab\xae\x05\0\x01\x75\0\xf9";

    #[test]
    fn both_forms_come_and_go() {
        let packed = unwrap(OF_PYTHON).unwrap();
        assert_eq!((&packed.text[..], packed.compressed), (&b"{}"[..], true));
        let plain = unwrap(b"{\"id\":1}").unwrap();
        assert!(!plain.compressed && plain.text.len() == 8);
        assert_eq!(unwrap(b"{}").unwrap().text, b"{}");
        for text in [vec![], vec![b'x'; 100_000]] {
            let unwrapped = unwrap(&wrap(text.clone(), true)).unwrap();
            assert_eq!(unwrapped.text, text);
            assert_eq!(wrap(text.clone(), false), text);
        }
    }

    #[test]
    fn damage_and_bombs_are_refused() {
        let mut other_size = OF_PYTHON.to_vec();
        for size in [0, 1, 3] {
            other_size[7] = size;
            assert_eq!(unwrap(&other_size), Err(UnwrapError::Damaged), "{size}");
        }
        assert_eq!(unwrap(&OF_PYTHON[..14]), Err(UnwrapError::Damaged));
        let mut bomb = wrap(vec![0; 64 << 20], true);
        assert_eq!(unwrap(&bomb), Err(UnwrapError::TooLarge));
        bomb[4..8].copy_from_slice(&100u32.to_be_bytes());
        assert_eq!(unwrap(&bomb), Err(UnwrapError::Damaged));
        assert_eq!(unwrap(&vec![b' '; 1_000_000]), Err(UnwrapError::TooLarge));
    }
}
