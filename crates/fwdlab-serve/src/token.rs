//! Tokens: required to change a run, and to read at all if the server is reachable from other
//! machines.
//!
//! Start with [`new_token`]; [`same`] compares in constant time.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::ServeError;

/// Random bytes of a token.
const BYTES: usize = 16;

/// Returns a new token: 32 hexadecimal digits from the kernel's random numbers.
///
/// # Errors
/// If there is no `/dev/urandom`.
pub fn new_token() -> Result<String, ServeError> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; BYTES];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|source| ServeError::File {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the cookie of browsers that have shown the token. It does not reveal the token, and is
/// the same after a restart of the server.
pub(crate) fn session_of(token: &str) -> String {
    hex(&Sha256::digest(format!("fwdlab session {token}")))
}

/// Writes a file that only its owner can read, unless it exists: another server may have been
/// faster.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write_once(path: &Path, text: &str) -> Result<(), ServeError> {
    let draft = path.with_extension(format!("{}.new", std::process::id()));
    let written = (|| {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&draft)?.write_all(text.as_bytes())?;
        std::fs::hard_link(&draft, path)
    })();
    let _ = std::fs::remove_file(&draft);
    match written {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        written => written.map_err(|source| ServeError::File {
            action: "make",
            path: path.to_owned(),
            source,
        }),
    }
}

/// Returns the token in a file; if there is no file, creates one that only its owner can read.
///
/// # Errors
/// If the file cannot be read or created, or contains no token.
pub fn token_of_file(path: &Path) -> Result<String, ServeError> {
    if !path.exists() {
        write_once(path, &format!("{}\n", new_token()?))?;
    }
    let text = std::fs::read_to_string(path).map_err(|source| ServeError::File {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    let token = text.trim();
    let usual = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match token.len() >= 16 && token.chars().all(usual) {
        true => Ok(token.to_owned()),
        false => Err(ServeError::Token {
            path: path.to_owned(),
        }),
    }
}

/// Returns true if they are equal. Takes the same time for any two of one length.
pub(crate) fn same(a: &str, b: &str) -> bool {
    let differ = |all, (a, b): (u8, u8)| all | std::hint::black_box(a ^ b);
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, differ) == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_read_by_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let made = token_of_file(&path).unwrap();
        assert_eq!(made.len(), 2 * BYTES);
        assert_eq!(token_of_file(&path).unwrap(), made);
        assert_ne!(new_token().unwrap(), made);
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for bad in ["", "short", "has blanks in the middle"] {
            std::fs::write(&path, bad).unwrap();
            assert!(token_of_file(&path).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_equal_tokens_match() {
        for (a, b, expect) in [
            ("abc", "abc", true),
            ("abc", "abd", false),
            ("abc", "ab", false),
            ("", "", true),
        ] {
            assert_eq!(same(a, b), expect);
        }
    }
}
