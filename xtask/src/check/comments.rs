//! Checks that comments are at most as wide as code.
//!
//! Stable rustfmt wraps code only (`max_width` of rustfmt.toml). Tables, links and words without a
//! space cannot be wrapped. Start with [`check`].

use super::Finding;
use crate::tree::File;

/// As `max_width` of rustfmt.toml.
const COLUMNS: usize = 100;

/// Finds lines that are comments only, are too wide, and could be wrapped.
pub fn check(file: &File) -> impl Iterator<Item = Finding> {
    let too_wide = |line: &str| line.chars().count() > COLUMNS && can_be_wrapped(line);
    let lines = file.text.lines().zip(1..);
    lines
        .filter(move |(line, _)| too_wide(line))
        .map(|(_, number)| {
            let text = format!("a comment is at most {COLUMNS} columns wide, like code");
            Finding::new(&file.path, number, text)
        })
}

fn can_be_wrapped(line: &str) -> bool {
    let comment = line.trim_start().strip_prefix("//");
    comment.is_some_and(|comment| {
        let text = comment.trim_start_matches(['/', '!', ' ']);
        text.contains(' ') && !text.starts_with('|')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines that are found, as text.
    fn lines_found(text: &str) -> String {
        let file = File {
            path: "a.rs".into(),
            text: text.into(),
        };
        check(&file)
            .map(|finding| format!("{} ", finding.line))
            .collect()
    }

    #[test]
    fn only_comments_that_can_be_wrapped_are_found() {
        let word = "a".repeat(94);
        assert_eq!(lines_found(&format!("    // {word}\n/// a {word}")), "");
        assert_eq!(
            lines_found(&format!("//! ab {word} b\n    // a {word}")),
            "1 2 "
        );
        assert_eq!(lines_found(&format!("// https://{word}")), "");
        assert_eq!(lines_found(&format!("//! | {word} | b |")), "");
        assert_eq!(lines_found(&format!("let {word} = 12; // a b")), "");
    }
}
