//! Files of settings for sysctl: `name = value`, line by line.
//!
//! Values are not interpreted. Start with [`read`].

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::LabError;

/// A line of such a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The file.
    pub file: PathBuf,
    /// Its line number, from 1.
    pub line: usize,
    /// Its name, with dots or slashes.
    pub name: String,
    /// The intended value.
    pub value: String,
    /// Ignore a kernel that does not have this setting (sysctl.d(5): a leading `-`).
    pub optional: bool,
}

/// Reads a file of settings.
///
/// # Errors
/// The file cannot be read, or a line is not a setting.
pub(crate) fn read(path: &Path) -> Result<Vec<Setting>, LabError> {
    let action = || format!("read {}", path.display());
    let text = fs::read_to_string(path).map_err(|e| LabError::system(action(), e))?;
    let mut settings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let wrong = || LabError::Configuration {
            name: path.display().to_string(),
            reason: format!("line {} is not `name = value`: {line}", number + 1),
        };
        let (name, value) = line.split_once('=').ok_or_else(wrong)?;
        let (optional, name) = match name.trim().strip_prefix('-') {
            Some(rest) => (true, rest.trim()),
            None => (false, name.trim()),
        };
        if name.is_empty() || name.contains("..") || name.contains(char::is_whitespace) {
            return Err(wrong());
        }
        // a `#` after a space begins a comment
        let value = value.split(" #").next().unwrap_or(value).trim();
        settings.push(Setting {
            file: path.to_owned(),
            line: number + 1,
            name: name.to_owned(),
            value: value.to_owned(),
            optional,
        });
    }
    Ok(settings)
}

/// Returns the last setting of every name, which takes effect.
pub(crate) fn in_force(settings: &[Setting]) -> Vec<&Setting> {
    let last = |(n, one): &(usize, &Setting)| {
        let later = &settings[n + 1..];
        later
            .iter()
            .all(|other| other.name.replace('/', ".") != one.name.replace('/', "."))
    };
    let all = settings.iter().enumerate();
    all.filter(last).map(|(_, one)| one).collect()
}

/// Returns true if a value that a system prints equals the intended one, apart from spaces and the
/// notation of numbers.
pub(crate) fn matches_value(found: &str, requested: &str) -> bool {
    let number = |word: &str| {
        let (digits, radix) = match word.trim_start_matches('+').strip_prefix("0x") {
            Some(digits) => (digits.to_owned(), 16),
            None => (word.trim_start_matches('+').to_owned(), 10),
        };
        i128::from_str_radix(&digits, radix).ok()
    };
    let words = |text: &str| -> Vec<String> {
        let text = text.trim().trim_matches('"');
        text.split_whitespace().map(str::to_owned).collect()
    };
    let (found, requested) = (words(found), words(requested));
    let same =
        |(a, b): (&String, &String)| a == b || number(a).is_some_and(|n| number(b) == Some(n));
    found.len() == requested.len() && found.iter().zip(&requested).all(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_name_counts() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.conf");
        let text =
            "# c\n; c\n net.ipv4.tcp_mem = 1 2 3\n-net.x.y=it's # why\nnet/ipv4/tcp_mem=4 5 6\n";
        fs::write(&file, text).unwrap();
        let all = read(&file).unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!(
            (all[1].line, all[1].value.as_str(), all[1].optional),
            (4, "it's", true)
        );
        let last: Vec<&str> = in_force(&all)
            .iter()
            .map(|one| one.value.as_str())
            .collect();
        assert_eq!(last, ["it's", "4 5 6"]);
        for bad in ["no equals sign", "=1", "net..x=1", "a b = 1"] {
            fs::write(&file, format!("a=1\n{bad}\n")).unwrap();
            let error = read(&file).unwrap_err().to_string();
            assert!(error.contains("line 2"), "{error}");
        }
    }

    #[test]
    fn values_are_compared_as_kernels_write_them() {
        for (found, requested, same) in [
            ("1\t2\t3\n", "1 2 3", true),
            ("16", "0x10", true),
            ("1", "+1", true),
            ("1", "", false),
            ("1 2", "1", false),
            ("cubic\n", "cubic", true),
            ("10", "1", false),
        ] {
            assert_eq!(
                matches_value(found, requested),
                same,
                "{found:?} {requested:?}"
            );
        }
    }
}
