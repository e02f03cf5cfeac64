//! Checks that every Rust file begins with a description of its purpose.
//!
//! Only its presence is checked; people judge whether it is good. Start with [`check`].

use super::Finding;
use crate::tree::File;

/// Finds a file without a `//!` before its first line of code.
pub fn check(file: &File) -> Option<Finding> {
    let has_head = file
        .text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with("#!") && !is_plain_comment(line))
        .is_some_and(|line| line.starts_with("//!") && line.len() > 10);
    (!has_head).then(|| {
        Finding::new(
            &file.path,
            0,
            "no module head: begin with `//!` and say what the file is for, what not, and where to start",
        )
    })
}

fn is_plain_comment(line: &str) -> bool {
    line.starts_with("//") && !line.starts_with("//!")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_head(text: &str) -> bool {
        check(&File {
            path: "a.rs".into(),
            text: text.into(),
        })
        .is_none()
    }

    #[test]
    fn a_head_comes_before_code() {
        assert!(has_head("//! Counts frames.\nuse a;"));
        assert!(has_head(
            "// SPDX-License-Identifier: MIT\n\n//! Counts frames.\nuse a;"
        ));
        assert!(!has_head("use a;\n//! Counts frames.\n"));
        assert!(!has_head("// Counts frames.\nuse a;\n"));
        assert!(!has_head("//!\nuse a;\n"));
        assert!(!has_head(""));
    }
}
