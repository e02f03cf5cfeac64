//! Every Rust file says at its head what it is for.
//!
//! Whether the sentences are good is for people to judge; that there are some is checked here. Start with [`check`].

use super::Finding;
use crate::tree::File;

/// Is there a `//!` before the first line of code?
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
