//! Splits a stream of bytes into lines, with bounded memory.
//!
//! It knows no format. Start with [`for_each_line`].

use std::io::{self, ErrorKind, Read};

/// Maximum number of bytes of a line that are kept; a longer one is cut there and marked.
pub const LONGEST_LINE: usize = 16 * 1024;
/// Bytes per read.
const BLOCK: usize = 256 * 1024;

/// A line without its newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its bytes, or the first [`LONGEST_LINE`] of them.
    pub bytes: &'a [u8],
    /// True if it was longer than that.
    pub cut: bool,
    /// True if it ended in a newline: false for the last line of a truncated file.
    pub ended: bool,
}

/// Calls `f` for every line of `input` and returns the number of bytes read. The empty rest after a
/// last newline is not a line.
///
/// # Errors
/// If reading from `input` fails; `f` was called for the lines before the error.
pub fn for_each_line(
    input: &mut impl Read,
    buffer: &mut Vec<u8>,
    mut f: impl FnMut(Line<'_>),
) -> io::Result<u64> {
    buffer.resize(BLOCK, 0);
    let mut total = 0;
    // The start of an incomplete line is moved to the start of the buffer.
    let mut kept = 0;
    // The rest of a line that was cut is skipped.
    let mut passing = false;
    loop {
        let read = match input.read(&mut buffer[kept..]) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        total += read as u64;
        let filled = kept + read;
        let (mut start, mut searched) = (0, kept);
        while let Some(length) = newline(&buffer[searched..filled]) {
            let end = searched + length;
            if passing {
                passing = false;
            } else {
                let whole = &buffer[start..end];
                f(Line {
                    bytes: &whole[..whole.len().min(LONGEST_LINE)],
                    cut: whole.len() > LONGEST_LINE,
                    ended: true,
                });
            }
            start = end + 1;
            searched = start;
        }
        if passing {
            kept = 0;
        } else if filled - start > LONGEST_LINE {
            f(Line {
                bytes: &buffer[start..start + LONGEST_LINE],
                cut: true,
                ended: true,
            });
            passing = true;
            kept = 0;
        } else {
            buffer.copy_within(start..filled, 0);
            kept = filled - start;
        }
    }
    if kept > 0 {
        f(Line {
            bytes: &buffer[..kept],
            cut: false,
            ended: false,
        });
    }
    Ok(total)
}

/// Returns the position of the next newline. Lines of a log are short: a plain search is as fast as
/// reading from a disk cache.
fn newline(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a few bytes at a time.
    struct SlowReader<'a>(&'a [u8], usize);

    impl Read for SlowReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(buffer.len());
            let (now, later) = self.0.split_at(n);
            buffer[..n].copy_from_slice(now);
            self.0 = later;
            Ok(n)
        }
    }

    fn lines(bytes: &[u8], step: usize) -> Vec<(Vec<u8>, bool, bool)> {
        let mut lines = Vec::new();
        let read = for_each_line(&mut SlowReader(bytes, step), &mut Vec::new(), |line| {
            lines.push((line.bytes.to_vec(), line.cut, line.ended));
        });
        assert_eq!(read.unwrap(), bytes.len() as u64);
        lines
    }

    #[test]
    fn lines_of_any_length() {
        assert_eq!(lines(b"", 7), []);
        assert_eq!(
            lines(b"a\n\nb", 1),
            [
                (b"a".to_vec(), false, true),
                (b"".to_vec(), false, true),
                (b"b".to_vec(), false, false)
            ]
        );
        let long = vec![b'x'; 3 * BLOCK];
        for step in [1000, BLOCK, 10 * BLOCK] {
            let all = [b"a\n", &long[..], b"\nb\n"].concat();
            assert_eq!(
                lines(&all, step),
                [
                    (b"a".to_vec(), false, true),
                    (long[..LONGEST_LINE].to_vec(), true, true),
                    (b"b".to_vec(), false, true)
                ]
            );
        }
    }

    proptest! {
        /// The lines equal those of the standard library, however many bytes the reader returns at
        /// once.
        #[test]
        fn as_the_standard_library(bytes in prop::collection::vec(prop::sample::select(b"ab\n".to_vec()), 0..200), step in 1..50_usize) {
            let expect: Vec<Vec<u8>> = io::BufRead::split(&bytes[..], b'\n').map(Result::unwrap).collect();
            let found: Vec<Vec<u8>> = lines(&bytes, step).into_iter().map(|line| line.0).collect();
            prop_assert_eq!(found, expect);
        }
    }
}
