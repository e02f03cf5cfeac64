//! Checks that `unsafe` is used only in files named `sys.rs`, and that a comment above each block
//! and impl says why it is sound.
//!
//! Lints check the same, but a crate can switch off a lint, and lints know no file names. Start
//! with [`check`].

use super::Finding;
use crate::source::{code, has_word};
use crate::tree::File;

const ONLY_FILE: &str = "sys.rs";

/// Maximum number of code lines of a statement above its `unsafe` block.
const STATEMENT: usize = 4;

/// Finds `unsafe` in the wrong file or without a reason.
pub fn check(file: &File) -> Vec<Finding> {
    let code = code(&file.text);
    let source: Vec<&str> = file.text.lines().collect();
    let lines: Vec<&str> = code.lines().collect();
    let mut findings = Vec::new();
    for (at, line) in lines
        .iter()
        .enumerate()
        .filter(|(_, line)| has_word(line, "unsafe"))
    {
        let finding = |text: &str| Finding::new(&file.path, at + 1, text);
        if file.name() != ONLY_FILE {
            findings.push(finding(
                "unsafe outside of a file named sys.rs: move it behind a safe function there",
            ));
        } else if needs_reason(line) && !has_reason(&source[..at]) {
            findings.push(finding("unsafe without a `// SAFETY:` comment above it"));
        }
    }
    findings
}

/// Returns true for blocks and impls; functions and traits state conditions to their callers
/// instead.
fn needs_reason(line: &str) -> bool {
    !["fn", "extern", "trait"]
        .iter()
        .any(|word| has_word(line, word))
        || line.contains("unsafe {")
}

/// Looks upwards through the statement of the block, and the comment above it.
fn has_reason(above: &[&str]) -> bool {
    let mut statement = 0;
    for line in above.iter().rev().map(|line| line.trim()) {
        if line.starts_with("//") {
            if line.contains("SAFETY:") {
                return true;
            }
        } else if !line.starts_with("#[") {
            statement += 1;
            if line.is_empty() || line.ends_with([';', '}']) || statement > STATEMENT {
                return false;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&File {
            path: path.into(),
            text: text.into(),
        })
        .iter()
        .map(|f| f.line)
        .collect()
    }

    #[test]
    fn unsafe_belongs_into_sys() {
        let text = "// SAFETY: reasons\nunsafe { a() }\n";
        assert!(lines("crates/fwdlab-engine/src/sys.rs", text).is_empty());
        assert!(lines("crates/fwdlab-engine/src/af_xdp/sys.rs", text).is_empty());
        for path in [
            "crates/fwdlab-engine/src/port.rs",
            "crates/fwdlab-engine/examples/a.rs",
            "crates/fwdlab-stats/benches/b.rs",
        ] {
            assert_eq!(lines(path, text), [2], "{path}");
        }
    }

    #[test]
    fn comments_about_unsafe_are_fine() {
        let text = "//! No unsafe here.\n#![forbid(unsafe_code)]\nlet a = \"unsafe\";\n";
        assert!(lines("crates/fwdlab-model/src/lib.rs", text).is_empty());
    }

    #[test]
    fn every_block_has_a_reason() {
        for (good, text) in [
            (true, "// SAFETY: a\n// b\nlet x =\n    unsafe { a() };"),
            (true, "// SAFETY: a\n#[inline]\nunsafe impl A for B {}"),
            (
                true,
                "// SAFETY: a\nlet r = f(\n    1,\n    unsafe { g() });",
            ),
            (true, "pub unsafe fn a() {}"),
            (false, "unsafe { a() }"),
            (false, "// SAFETY: a\nlet a = 1;\nunsafe { a() }"),
            (
                false,
                "// SAFETY: a\nunsafe impl A for B {}\nunsafe impl A for C {}",
            ),
            (false, "// not safety\nunsafe impl A for B {}"),
        ] {
            assert_eq!(lines("sys.rs", text).is_empty(), good, "{text}");
        }
    }
}
