//! Checks that crates without examples in their documentation set `doctest = false`, and that
//! crates with examples do not.
//!
//! To find examples, rustdoc reads all of a crate's source, which takes as long as compiling it. If
//! in doubt, a crate counts as having examples. Start with [`check`].

use super::Finding;
use crate::tree::File;

/// Languages of code blocks that rustdoc ignores.
const OTHERS: [&str; 6] = ["text", "toml", "json", "console", "sh", "html"];

/// What the manifest of a crate without examples contains.
const NONE: &str = "\ndoctest = false\n";

/// Finds crates with examples that do not run, and crates without examples for which rustdoc runs.
pub fn check(files: &[File]) -> Vec<Finding> {
    let libraries = files.iter().filter_map(|file| {
        let folder = file.path.strip_suffix("src/lib.rs")?;
        let manifest = files
            .iter()
            .find(|one| one.path == format!("{folder}Cargo.toml"))?;
        Some((folder, manifest))
    });
    libraries
        .filter_map(|(folder, manifest)| {
            let of_crate = |file: &&File| file.path.starts_with(folder) && file.is_source();
            let mut own = files.iter().filter(of_crate);
            let example = own.find(|file| file.is_rust() && has_example(&file.text));
            match (example, manifest.text.contains(NONE)) {
                (Some(example), true) => Some(Finding::new(
                    &manifest.path,
                    0,
                    format!("the example in {} is not run: remove `doctest = false`", example.path),
                )),
                (None, false) => Some(Finding::new(
                    &manifest.path,
                    0,
                    "its documentation has no examples: say `doctest = false` under [lib], or rustdoc reads all of it for none",
                )),
                _ => None,
            }
        })
        .collect()
}

/// Returns true if a doc comment contains a code block that rustdoc would run, or includes
/// documentation from a file.
fn has_example(source: &str) -> bool {
    let mut is_open = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("/**") || line.starts_with("/*!") || is_attribute(line) {
            return true;
        }
        let Some(text) = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"))
        else {
            is_open = false;
            continue;
        };
        let fence = ["```", "~~~"].into_iter();
        match fence
            .filter_map(|fence| text.trim().strip_prefix(fence))
            .next()
        {
            Some(_) if is_open => is_open = false,
            Some(language) if OTHERS.contains(&language.trim()) => is_open = true,
            Some(_) => return true,
            // indented text is code, too
            None if !is_open && text.starts_with("     ") => return true,
            None => {}
        }
    }
    false
}

/// Returns true for `#[doc = include_str!(...)]`, also within `cfg_attr`.
fn is_attribute(line: &str) -> bool {
    let is = line.starts_with("#[") || line.starts_with("#![");
    is && (line.contains("doc =") || line.contains("doc="))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str, manifest: &str) -> usize {
        let file = |path: &str, text: &str| File {
            path: path.into(),
            text: text.into(),
        };
        check(&[
            file("crates/a/Cargo.toml", manifest),
            file("crates/a/src/lib.rs", "//! Head.\n"),
            file("crates/a/src/x.rs", text),
            file(
                "crates/a/tests/x.rs",
                "/// ```\n/// assert!(true);\n/// ```\nfn b() {}\n",
            ),
            file("crates/b/src/main.rs", "//! Head.\n"),
        ])
        .len()
    }

    #[test]
    fn an_example_that_is_not_run_is_found_and_rustdoc_for_none_too() {
        for (text, has) in [
            ("/// ```\n/// assert!(true);\n/// ```\nfn b() {}\n", true),
            (
                "    //! ```toml\n    //! a = 1\n    //! ```\n    //! ```should_panic\n",
                true,
            ),
            ("#![doc = include_str!(\"../README.md\")]\n", true),
            ("/// One:\n///\n///     assert!(true);\nfn d() {}\n", true),
            (
                "//! ```text\n//! +--+\n//!      |\n//! ```\n//! words\nfn a() {}\n",
                false,
            ),
            ("fn g() {\n    // ```\n}\n", false),
        ] {
            assert_eq!(
                findings(text, "[lib]\nbench = false\ndoctest = false\n"),
                usize::from(has),
                "{text}"
            );
            assert_eq!(findings(text, "[package]\n"), usize::from(!has), "{text}");
        }
    }
}
