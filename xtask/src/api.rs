//! Lists the public items of the crates that are used as libraries, so that a change of their
//! interface shows in review.
//!
//! Items are read from the source text with [`crate::source`]. Items of private modules are listed
//! too, because the crate may re-export them. Start with [`generated`].

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::check::Finding;
use crate::source::{code, without_tests};
use crate::tree::{self, File};

const LIBRARIES: [&str; 4] = ["engine", "measure", "packet", "stats"];
const RENEW: &str = "cargo run -p xtask -- api";

/// Returns path and text of every list.
fn generated(files: &[File]) -> Vec<(String, String)> {
    let list = |library: &&str| {
        let of_it = |file: &&File| {
            file.is_rust() && file.is_source() && file.crate_name() == Some(*library)
        };
        let is_test = |file: &&File| file.name() == "tests.rs" || file.path.contains("/tests/");
        let mut text = String::new();
        for file in files.iter().filter(of_it).filter(|file| !is_test(file)) {
            let items = items(&without_tests(&code(&file.text)));
            if !items.is_empty() {
                let (_, path) = file.path.split_once("/src/").unwrap_or_default();
                text += &format!("{path}\n    {}\n", items.join("\n    "));
            }
        }
        (format!("crates/fwdlab-{library}/api.txt"), text)
    };
    LIBRARIES.iter().map(list).collect()
}

/// Returns public items without their bodies; for enums and traits also their members.
fn items(code: &str) -> Vec<String> {
    let mut items = Vec::new();
    let mut begin = 0;
    for line in code.split_inclusive('\n') {
        let words = line.trim_start();
        if words.starts_with("pub ") {
            items.push(item(&code[begin + line.len() - words.len()..]));
        }
        begin += line.len();
    }
    items
}

fn item(code: &str) -> String {
    let has_body = code.starts_with("pub enum ") || code.starts_with("pub trait ");
    // in a trait's default method or a variant's fields
    let deepest = if code.starts_with("pub trait ") {
        1
    } else {
        usize::MAX
    };
    let mut text = String::new();
    let (mut nested, mut braces, mut last) = (0i32, 0, ' ');
    for c in code.chars() {
        let outside = braces;
        match c {
            '(' | '[' | '<' => nested += 1,
            ')' | ']' => nested -= 1,
            '>' if last != '-' && last != '=' => nested -= 1,
            ';' | ',' | '=' if nested == 0 && braces == 0 && !code.starts_with("pub use ") => break,
            ';' if braces == 0 && nested == 0 => break,
            '{' if nested == 0 && !has_body && !code.starts_with("pub use ") => break,
            '{' => braces += 1,
            '}' => braces -= 1,
            _ => {}
        }
        if braces.max(outside) <= deepest {
            text.push(c);
        }
        if c == '}' && braces == 0 && has_body {
            break;
        }
        last = c;
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Writes all lists.
pub fn write(root: &Path) -> anyhow::Result<()> {
    for (path, text) in generated(&tree::files(root)?) {
        fs::write(root.join(&path), text).with_context(|| format!("write {path}"))?;
    }
    Ok(())
}

/// Returns lists that differ from the source.
pub fn stale(files: &[File]) -> Vec<Finding> {
    let known = |path: &str| files.iter().find(|file| file.path == path);
    generated(files)
        .into_iter()
        .filter_map(|(path, text)| {
            let kept = known(&path).map_or("", |file| file.text.as_str());
            let line = kept.lines().zip(text.lines()).position(|(a, b)| a != b);
            let line = line.unwrap_or(kept.lines().count().min(text.lines().count())) + 1;
            (kept != text).then(|| {
                let reason = format!("the public items changed: renew with {RENEW}, and say in CHANGELOG.md what its users must do");
                Finding::new(&path, line, reason)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_listed_without_their_bodies() {
        let source = "
pub use a::{b, c};
pub const N: usize = 3;
/// pub fn in_a_comment() {}
pub struct S<'a, T> {
    pub one: Vec<(u8, T)>,
    two: u8,
    pub(crate) three: &'a u8,
}
pub enum E {
    A { x: u8 },
    B,
}
pub trait T {
    fn must(&self) -> u8;
    fn may(&self) -> u8 { self.must() + 1 }
}
impl<T> S<'_, T> {
    pub fn new(one: Vec<(u8, T)>, two: u8) -> Result<Self, String> {
        let pub_x = 1;
    }
    fn private(&self) {}
}
";
        assert_eq!(
            items(&code(source)),
            [
                "pub use a::{b, c}",
                "pub const N: usize",
                "pub struct S<'a, T>",
                "pub one: Vec<(u8, T)>",
                "pub enum E { A { x: u8 }, B, }",
                "pub trait T { fn must(&self) -> u8; fn may(&self) -> u8 }",
                "pub fn new(one: Vec<(u8, T)>, two: u8) -> Result<Self, String>",
            ]
        );
    }

    #[test]
    fn a_change_is_found_with_its_line() {
        let file = |path: &str, text: &str| File {
            path: path.into(),
            text: text.into(),
        };
        let source = file(
            "crates/fwdlab-stats/src/lib.rs",
            "pub fn a() {}\npub fn b() {}\n",
        );
        let mut files = vec![source];
        let lists = generated(&files);
        files.extend(lists.into_iter().map(|(path, text)| File { path, text }));
        assert_eq!(stale(&files), []);
        files[0].text = "pub fn a() {}\npub fn b(n: u8) {}\n".into();
        let found = stale(&files);
        assert_eq!((found.len(), found[0].line), (1, 3));
    }
}
