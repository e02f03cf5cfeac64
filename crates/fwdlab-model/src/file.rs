//! Errors in files that users write: file, line, column, what is wrong, and a suggestion.
//!
//! For traffic profiles and campaigns alike. Rewrites the messages of the TOML reader, which are
//! for programmers, for people who write files. Start with [`FileError`]; [`Origin`] finds the
//! position of a key in the text.

mod value;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(crate) use self::value::ValueError;

/// Why a text is not a valid profile or campaign.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct FileError {
    /// The file, or the name of its contents.
    pub file: String,
    /// Line and column in the file, from 1 on, if known.
    pub place: Option<(usize, usize)>,
    /// What is wrong, and the correct form if that is simple.
    pub reason: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileError {
            file,
            place,
            reason: cause,
        } = self;
        match place {
            // a command line has no file
            _ if file.is_empty() => f.write_str(cause),
            Some((line, column)) => write!(f, "{file}:{line}:{column}: {cause}"),
            None => write!(f, "{file}: {cause}"),
        }
    }
}

/// One step on the path to a value in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// Into a table, by key.
    Key(&'a str),
    /// Into an array, by index.
    Item(usize),
}

impl<'a> From<&'a str> for Step<'a> {
    fn from(key: &'a str) -> Self {
        Step::Key(key)
    }
}

impl From<usize> for Step<'_> {
    fn from(number: usize) -> Self {
        Step::Item(number)
    }
}

/// The source of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The file, or a name if it is not from a file.
    pub file: Arc<str>,
    /// Its text.
    pub text: Arc<str>,
}

impl Origin {
    /// Returns an error about the value at this path, or its closest existing parent.
    pub fn error(&self, key_path: &[Step<'_>], cause: impl Into<String>) -> FileError {
        FileError {
            file: self.file.to_string(),
            place: self.find(key_path).map(|span| self.place(span.start)),
            reason: cause.into(),
        }
    }

    /// Converts an error of the TOML reader.
    pub fn reading(&self, error: &toml::de::Error) -> FileError {
        self.misread(&ValueError {
            reason: error.message().to_owned(),
            span: error.span(),
        })
    }

    pub(crate) fn misread(&self, wrong: &ValueError) -> FileError {
        FileError {
            file: self.file.to_string(),
            place: wrong.span.clone().map(|span| self.place(span.start)),
            reason: in_plain_words(&wrong.reason),
        }
    }

    /// Parses the text.
    pub(crate) fn table(&self) -> Result<Spanned<DeValue<'_>>, FileError> {
        let root = DeTable::parse(&self.text).map_err(|error| self.reading(&error))?;
        Ok(Spanned::new(root.span(), DeValue::Table(root.into_inner())))
    }

    /// Parses the whole text into a type.
    pub(crate) fn read<'i, T: Deserialize<'i>>(&'i self) -> Result<T, FileError> {
        read(&self.table()?).map_err(|wrong| self.misread(&wrong))
    }

    /// Returns line and column of a byte, from 1 on; columns count characters.
    fn place(&self, byte: usize) -> (usize, usize) {
        let before = self.text.get(..byte).unwrap_or(&self.text);
        let line = before.rfind('\n').map_or(0, |at| at + 1);
        let lines = before.bytes().filter(|byte| *byte == b'\n').count();
        (lines + 1, before[line..].chars().count() + 1)
    }

    fn find(&self, key_path: &[Step<'_>]) -> Option<Range<usize>> {
        let root = self.table().ok()?;
        let mut found = None;
        let mut here = root.get_ref();
        for step in key_path {
            let next = match (step, here) {
                (Step::Key(key), DeValue::Table(table)) => {
                    let (key, value) = table.iter().find(|(k, _)| k.get_ref() == key)?;
                    // the position of a table is its key; that of a plain value is the value itself
                    found = Some(match value.get_ref() {
                        DeValue::Table(_) | DeValue::Array(_) => key.span(),
                        _ => value.span(),
                    });
                    value
                }
                (Step::Item(number), DeValue::Array(array)) => {
                    let Some(value) = array.get(*number) else {
                        return found;
                    };
                    found = Some(value.span());
                    value
                }
                _ => return found,
            };
            here = next.get_ref();
        }
        found
    }
}

/// Parses one value of a file.
pub(crate) fn read<'i, T: Deserialize<'i>>(value: &Spanned<DeValue<'i>>) -> Result<T, ValueError> {
    value::read(PhantomData::<T>, value)
}

/// Rewrites a message of the TOML reader.
fn in_plain_words(message: &str) -> String {
    let quoted = |text: &str| -> Vec<String> {
        let pieces = text.split('`').skip(1).step_by(2);
        pieces.map(str::to_owned).collect()
    };
    let (reported, expected) = message.split_once(", expected").unwrap_or((message, ""));
    for (begin, what) in [
        ("unknown field `", "unknown key"),
        ("unknown variant `", "unknown name"),
    ] {
        if reported.starts_with(begin) {
            let wrong = quoted(reported).into_iter().next().unwrap_or_default();
            let known = quoted(expected);
            return format!("{what} `{wrong}`; {}", did_you_mean(&wrong, &known));
        }
    }
    if message == "invalid type: map, expected a sequence" {
        return "expected a list: its tables begin with the name in double brackets, as in [[stream]]".into();
    }
    let expected = match expected.trim() {
        "u8" => "a number from 0 to 255",
        "u16" => "a number from 0 to 65535",
        "u32" => "a number from 0 to 4294967295",
        "u64" | "i64" => "a number from 0 on",
        "i8" => "a number from -128 to 127",
        "f64" => "a number",
        "a sequence" => "a list, in [brackets]",
        "a boolean" => "true or false",
        other => other,
    };
    let is_value =
        reported.starts_with("invalid type: ") || reported.starts_with("invalid value: ");
    let reported = reported
        .replace("invalid type: ", "")
        .replace("invalid value: ", "")
        .replace("missing field", "missing key");
    match expected {
        "" => reported,
        expected if is_value => format!("found {reported}, expected {expected}"),
        expected => format!("{reported}, expected {expected}"),
    }
}

/// Returns `did you mean ...?`, or the list of valid names.
pub fn did_you_mean(wrong: &str, known: &[impl AsRef<str>]) -> String {
    match nearest(wrong, known) {
        Some(right) => format!("did you mean `{right}`?"),
        None if known.is_empty() => "no keys are allowed here".to_owned(),
        None => {
            let names: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
            format!("known are {}", names.join(", "))
        }
    }
}

/// Returns the name that was probably meant: at most a third of its letters are wrong, or it has
/// the typed text as a prefix.
fn nearest<'a>(wrong: &str, known: &'a [impl AsRef<str>]) -> Option<&'a str> {
    let letters: Vec<char> = wrong.chars().take(60).collect();
    let known = || known.iter().map(AsRef::as_ref);
    let near = known()
        .map(|name| (edits(&letters, &name.chars().collect::<Vec<_>>()), name))
        .min_by_key(|(edits, _)| *edits)
        .filter(|(edits, name)| *edits <= (name.len() / 3).max(1));
    let near = near.map(|(_, name)| name);
    near.or_else(|| known().find(|name| wrong.len() > 2 && name.contains(wrong)))
}

/// Returns the number of letters to insert, omit, change or swap with their neighbour (Damerau's
/// distance, restricted).
fn edits(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_are_recognised() {
        let known = ["size", "share", "source-port", "burst", "bursts"];
        for (wrong, right) in [
            ("sise", Some("size")),
            ("szie", Some("size")),
            ("shares", Some("share")),
            ("source_port", Some("source-port")),
            ("brust", Some("burst")),
            ("port", Some("source-port")),
            ("frobnicate", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, &known), right, "{wrong}");
        }
    }

    #[test]
    fn values_without_a_file_name_no_file() {
        let error = Origin::default().error(&["procedure".into()], "too many frames");
        assert_eq!(error.to_string(), "too many frames");
    }

    #[test]
    fn places_count_characters() {
        let origin = Origin {
            file: "x".into(),
            text: "a = 1\n# ä\n[b]\nc = [1, { d = \"ü\", e = 5 }]\n".into(),
        };
        let place = |key_path: &[Step<'_>]| origin.error(key_path, "").place;
        assert_eq!(place(&["a".into()]), Some((1, 5)));
        assert_eq!(place(&["b".into()]), Some((3, 2)));
        let e = ["b".into(), "c".into(), 1.into(), "e".into()];
        assert_eq!(place(&e), Some((4, 24)));
        let missing = ["b".into(), "c".into(), 7.into()];
        assert_eq!(place(&missing), Some((4, 1)));
        assert_eq!(place(&[]), None);
    }
}
