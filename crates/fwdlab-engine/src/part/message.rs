//! Messages on a stream of bytes: a text, and bytes behind it.
//!
//! Start with [`send`] and [`receive`].

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

/// Maximum length of a message: anything longer means that the stream is out of step.
const MOST_BYTES: u32 = 1 << 30;

/// Keeps a connection alive when there is no message.
pub const BEAT: [u8; 8] = [0; 8];

/// Writes a message and the bytes after it.
///
/// # Errors
/// The stream fails.
pub fn send(stream: &mut dyn Write, message: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let mut all = Vec::with_capacity(8 + text.len() + bytes.len());
    all.extend((text.len() as u32).to_le_bytes());
    all.extend((bytes.len() as u32).to_le_bytes());
    all.extend(text);
    all.extend(bytes);
    stream.write_all(&all)?;
    stream.flush()
}

/// Reads a message and the bytes after it.
///
/// # Errors
/// The stream fails or has ended, or what it carries is no such message.
pub fn receive<T: for<'a> Deserialize<'a>>(stream: &mut dyn Read) -> io::Result<(T, Vec<u8>)> {
    let mut lengths = BEAT;
    while lengths == BEAT {
        stream.read_exact(&mut lengths)?;
    }
    let [text, bytes] = [0, 4].map(|at| {
        let of = &lengths[at..at + 4];
        u32::from_le_bytes([of[0], of[1], of[2], of[3]])
    });
    if text > MOST_BYTES || bytes > MOST_BYTES {
        let reason = format!("a message of {text} and {bytes} bytes: the stream is out of step");
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    let mut message = vec![0; text as usize];
    stream.read_exact(&mut message)?;
    let mut behind = vec![0; bytes as usize];
    stream.read_exact(&mut behind)?;
    Ok((serde_json::from_slice(&message)?, behind))
}
