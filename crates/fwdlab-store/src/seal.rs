//! Checksums: the last member of every journal line and JSON file, and a list of all files of a
//! finished run.
//!
//! They detect changed bytes, and repair nothing. The CRC is that of zlib, gzip and PNG, so any
//! tool can recompute it (docs/reference/runs.md). Start with [`line()`] and [`check`].

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use crate::error::StoreError;
use crate::files::{CHECKSUMS, LABELS, LOCK, REQUESTS, RESERVE, RUN, TEMPORARY_PREFIX};
use crate::regular;

/// The text before and after the checksum of a line.
const LINE: (&str, &str) = (",\"crc32\":\"", "\"}");
/// The same for an indented file.
const FILE: (&str, &str) = (",\n  \"crc32\": \"", "\"\n}\n");
/// Hexadecimal digits of a checksum.
const DIGITS: usize = 8;

/// The result of checking a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seal {
    /// The text has not changed.
    Intact,
    /// The text has changed.
    Broken,
    /// There is no checksum: it is an old file, or the checksum itself is damaged.
    None,
}

/// Adds the checksum to the JSON object that begins at `begin` and ends `text`.
pub(crate) fn line(text: &mut Vec<u8>, begin: usize) {
    add(text, begin, LINE);
}

/// Adds the checksum to an indented JSON object, and a newline.
pub(crate) fn file(text: &mut Vec<u8>) {
    // the brace is on a line of its own
    text.truncate(text.len() - 1);
    add(text, 0, FILE);
}

fn add(text: &mut Vec<u8>, begin: usize, (before, after): (&str, &str)) {
    text.truncate(text.len() - 1);
    let sum = crc32fast::hash(&text[begin..]);
    text.extend_from_slice(format!("{before}{sum:08x}{after}").as_bytes());
}

/// Checks a line of a journal, without its newline, or a whole file.
pub(crate) fn check(text: &[u8]) -> Seal {
    let of = |(before, after): (&str, &str)| {
        let (head, sum) = text.strip_suffix(after.as_bytes())?.split_last_chunk()?;
        let head = head.strip_suffix(before.as_bytes())?;
        let digits: &[u8; DIGITS] = sum;
        let is_told = format!("{:08x}", crc32fast::hash(head)).as_bytes() == digits;
        Some(if is_told { Seal::Intact } else { Seal::Broken })
    };
    of(LINE).or_else(|| of(FILE)).unwrap_or(Seal::None)
}

/// The prefix of a list's own checksum in its last line: a comment for other readers of SFV files.
const LIST: &str = "; crc32 ";

/// Returns the list of all files of a run but its header, which has a checksum of its own: paths
/// and checksums in the lines of an SFV file, and at the end the checksum of these lines.
pub(crate) fn list(dir: &Path) -> Result<String, StoreError> {
    let names = names(dir)?;
    let mut text = String::new();
    for name in names {
        let sum = sum_of(&dir.join(&name))?;
        text += &format!("{name} {sum:08X}\n");
    }
    seal_list(&mut text);
    Ok(text)
}

/// Adds the checksum to a list, replacing an earlier one.
pub(crate) fn seal_list(text: &mut String) {
    text.truncate(entries(text).len());
    let sum = crc32fast::hash(text.as_bytes());
    *text += &format!("{LIST}{sum:08X}\n");
}

/// Returns a list without the line of its checksum.
pub(crate) fn entries(text: &str) -> &str {
    let at = text
        .rfind(LIST)
        .filter(|&at| at == 0 || text[..at].ends_with('\n'));
    &text[..at.unwrap_or(text.len())]
}

/// Checks a list. Old lists without a checksum have no comment, and are only recognised by their
/// form.
pub(crate) fn check_list(text: &str) -> Seal {
    let own = entries(text);
    let is_ours = |line: &str| {
        let sum = line.rsplit_once(' ').map(|(_, sum)| sum.as_bytes());
        let digit = |digit: &u8| digit.is_ascii_digit() || (b'A'..=b'F').contains(digit);
        !line.starts_with(';')
            && sum.is_some_and(|sum| sum.len() == DIGITS && sum.iter().all(digit))
    };
    match own.len() == text.len() {
        true if text.split_terminator('\n').all(is_ours) && text.ends_with('\n') => Seal::None,
        false
            if text[own.len()..] == format!("{LIST}{:08X}\n", crc32fast::hash(own.as_bytes())) =>
        {
            Seal::Intact
        }
        _ => Seal::Broken,
    }
}

/// Returns the paths of all listed files of a run, in order.
pub(crate) fn names(dir: &Path) -> Result<Vec<String>, StoreError> {
    let mut names = Vec::new();
    collect(dir, "", &mut names)?;
    names.sort();
    Ok(names)
}

/// Returns the paths of all files below `dir`, without the hidden files of the run, and without
/// requests and labels, which can change at any time.
fn collect(dir: &Path, prefix: &str, names: &mut Vec<String>) -> Result<(), StoreError> {
    for entry in fs::read_dir(dir).map_err(StoreError::system("read", dir))? {
        let entry = entry.map_err(StoreError::system("read", dir))?;
        let path = entry.path();
        let kind = (entry.file_type()).map_err(StoreError::system("read", &path))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = prefix.is_empty()
            && (matches!(
                &name[..],
                RUN | CHECKSUMS | LOCK | RESERVE | REQUESTS | LABELS
            ) || name.starts_with(TEMPORARY_PREFIX));
        let name = format!("{prefix}{name}");
        if kind.is_dir() {
            collect(&path, &format!("{name}/"), names)?;
        } else if !is_ours && !name.contains('\n') {
            names.push(name);
        }
    }
    Ok(())
}

/// Computes the checksum of a file, piece by piece.
pub(crate) fn sum_of(path: &Path) -> Result<u32, StoreError> {
    let mut file = regular::open(path)?;
    let mut hasher = crc32fast::Hasher::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(hasher.finalize()),
            Ok(n) => hasher.update(&piece[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(StoreError::system("read", path)(error)),
        }
    }
}

/// Parses the lines of a list: paths and checksums; `None` for an invalid line.
pub(crate) fn parse_list(text: &str) -> impl Iterator<Item = Option<(&str, u32)>> {
    entries(text).lines().map(|line| {
        let (name, sum) = line.rsplit_once(' ')?;
        let sum = u32::from_str_radix(sum, 16)
            .ok()
            .filter(|_| sum.len() == DIGITS)?;
        Some((name, sum))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of CRC-32 (ISO-HDLC, as in zlib): cbf43926 for "123456789".
    #[test]
    fn the_checksum_is_the_crc32_of_the_preceding_bytes() {
        let mut text = b"\n123456789}".to_vec();
        line(&mut text, 1);
        assert_eq!(text, b"\n123456789,\"crc32\":\"cbf43926\"}");
        assert_eq!(check(&text[1..]), Seal::Intact);
        let mut text = b"123456789\n}".to_vec();
        file(&mut text);
        assert_eq!(text, b"123456789,\n  \"crc32\": \"cbf43926\"\n}\n");
        assert_eq!(check(&text), Seal::Intact);
    }

    #[test]
    fn every_flipped_bit_is_seen_or_takes_the_checksum_away() {
        let mut whole = br#"{"a":1,"b":"c"}"#.to_vec();
        line(&mut whole, 0);
        let (mut broken, mut none) = (0, 0);
        for bit in 0..8 * whole.len() {
            let mut text = whole.clone();
            text[bit / 8] ^= 1 << (bit % 8);
            match check(&text) {
                Seal::Intact => panic!("bit {bit} of {}", String::from_utf8_lossy(&text)),
                Seal::Broken => broken += 1,
                Seal::None => none += 1,
            }
        }
        let member = LINE.0.len() + LINE.1.len();
        assert_eq!((broken, none), (8 * (whole.len() - member), 8 * member));
        assert_eq!(check(b"{}"), Seal::None);
        assert_eq!(check(b""), Seal::None);
    }

    #[test]
    fn the_list_contains_every_file_but_the_head() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("raw/a b")).unwrap();
        for name in ["raw/a b/1", "run.json", ".lock", "checksums.sfv", "x"] {
            fs::write(dir.path().join(name), "123456789").unwrap();
        }
        let text = list(dir.path()).unwrap();
        let entries = "raw/a b/1 CBF43926\nx CBF43926\n";
        assert_eq!(
            text,
            format!(
                "{entries}; crc32 {:08X}\n",
                crc32fast::hash(entries.as_bytes())
            )
        );
        let lines: Vec<_> = parse_list("a b CBF43926\nnonsense\n; crc32 1\n").collect();
        assert_eq!(lines, [Some(("a b", 0xcbf4_3926)), None]);
    }

    /// Any other character in any position, and any missing character. In a list without a checksum
    /// a change can only be detected if the list is no longer in our form, or has another file or
    /// checksum.
    #[test]
    fn every_damaged_character_of_a_list_is_seen() {
        let old = "inputs/a.toml 0000AF12\nreport.html CBF43926\n";
        let mut whole = old.to_owned();
        seal_list(&mut whole);
        assert_eq!(
            (check_list(&whole), check_list(old)),
            (Seal::Intact, Seal::None)
        );
        let mut again = whole.clone();
        seal_list(&mut again);
        assert_eq!(again, whole);
        let sums = |text: &str| -> Vec<String> {
            parse_list(text).map(|line| format!("{line:?}")).collect()
        };
        for at in 0..whole.len() {
            let gone = [&whole[..at], &whole[at + 1..]].concat();
            let others = (1..128u8).map(|other| {
                let mut bytes = whole.clone().into_bytes();
                bytes[at] = other;
                String::from_utf8(bytes).unwrap()
            });
            for damaged in others.chain([gone]).filter(|damaged| *damaged != whole) {
                let is_seen = match check_list(&damaged) {
                    Seal::Intact => false,
                    Seal::Broken => true,
                    // the line of the checksum became a line for a file that does not exist
                    Seal::None => sums(&damaged) != sums(&whole),
                };
                assert!(is_seen, "{at}: {damaged:?}");
            }
        }
        let lower = old.replace("AF12", "aF12");
        assert_eq!(check_list(&lower), Seal::Broken);
    }
}
