//! Checks that a crate builds from its package alone: everything it embeds or compiles is in its
//! own folder, and included in the package.
//!
//! A cheap check of the text; `cargo package --workspace --exclude xtask` tests whether a package
//! really builds. Files read by tests and benchmarks are not checked, because packages do not
//! contain them. Start with [`check`].

use super::Finding;
use crate::source::code;
use crate::tree::File;

/// Macros and attributes that read a file of the tree when a crate is compiled.
const READERS: [&str; 5] = [
    "include_str!",
    "include_bytes!",
    "include_bytes_aligned!",
    "include!",
    "#[path",
];

/// Start of the list of folders and files that packages include, in the root's manifest: `/src`.
const TAKEN: &str = "include = [";

/// Finds files that a package would lack. `files`: those of the whole tree, with the manifests.
pub fn check(files: &[File]) -> Vec<Finding> {
    let text_of = |path: &str| (files.iter().find(|file| file.path == path)).map(|file| &file.text);
    let taken = text_of("Cargo.toml").map_or(Vec::new(), |text| included_paths(text));
    let mut findings = Vec::new();
    let mut embedded = 0;
    for file in files {
        let Some((folder, inside)) = in_crate(&file.path) else {
            continue;
        };
        if inside == "Cargo.toml" && !file.text.contains("include.workspace = true") {
            let text = "a package takes what the root's manifest says: include.workspace = true";
            findings.push(Finding::new(&file.path, 0, text));
        }
        if !file.is_rust() || !(inside == "build.rs" || inside.starts_with("src/")) {
            continue;
        }
        for (line, path) in read(file, inside) {
            embedded += 1;
            let wrong = match &path {
                None => "no path can be seen here, so that nobody knows whether the package has it"
                    .into(),
                Some(path) => match reason_outside(path, &taken) {
                    Some(reason) => format!("{path} is not in the package of {folder}: {reason}"),
                    None => continue,
                },
            };
            findings.push(Finding::new(&file.path, line, wrong));
        }
    }
    if embedded == 0 {
        let text = "nothing is embedded anywhere, it seems: this check looks for the wrong words";
        findings.push(Finding::new("crates", 0, text));
    }
    findings
}

/// Returns the folder of the crate, and the path within it.
fn in_crate(path: &str) -> Option<(&str, &str)> {
    let at = "crates/".len() + path.strip_prefix("crates/")?.find('/')?;
    Some((&path[..at], &path[at + 1..]))
}

/// Returns what the root's manifest includes in packages, without the leading `/` of each entry and
/// the trailing `*` of some.
fn included_paths(manifest: &str) -> Vec<&str> {
    let line = manifest.lines().find(|line| line.starts_with(TAKEN));
    let names = line.map_or("", |line| &line[TAKEN.len()..]);
    let names = names.split('"').skip(1).step_by(2);
    names
        .map(|name| name.trim_start_matches('/').trim_end_matches('*'))
        .collect()
}

/// Returns why a path below a crate's folder is not in its package.
fn reason_outside(path: &str, taken: &[&str]) -> Option<&'static str> {
    let first = path.split('/').next().unwrap_or_default();
    match first {
        ".." => Some("it lies outside of the crate; move it inside"),
        _ if taken.contains(&first) => None,
        _ => Some("name its folder in `include` of the root's Cargo.toml"),
    }
}

/// Returns lines and the paths below the crate's folder that are read there, except those that
/// cargo builds.
fn read(file: &File, inside: &str) -> Vec<(usize, Option<String>)> {
    let source: Vec<char> = file.text.chars().collect();
    let code: Vec<char> = code(&file.text).chars().collect();
    let line_of = |at: usize| 1 + source[..at].iter().filter(|&&c| c == '\n').count();
    if inside == "build.rs" {
        // a build script runs in its crate's folder
        return (literals(&source, &code, 0, source.len()).into_iter())
            .filter(|(_, text)| is_path(text))
            .map(|(at, text)| (line_of(at), Some(joined("", &text))))
            .collect();
    }
    let folder = inside.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut found = Vec::new();
    for at in 0..code.len() {
        let Some(end) = (READERS.iter()).find_map(|reader| call(&code, at, reader)) else {
            continue;
        };
        let mut texts = literals(&source, &code, at, end)
            .into_iter()
            .map(|(_, text)| text);
        let path = match texts.next() {
            Some(text) if text == "OUT_DIR" => continue,
            Some(text) if text == "CARGO_MANIFEST_DIR" => texts
                .next()
                .map(|text| joined("", text.trim_start_matches('/'))),
            text => text.map(|text| joined(folder, &text)),
        };
        found.push((line_of(at), path));
    }
    found
}

/// Returns the end of the call of this reader that begins here.
fn call(code: &[char], at: usize, reader: &str) -> Option<usize> {
    let length = reader.chars().count();
    let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
    let begins = code[at..].iter().copied().take(length).eq(reader.chars());
    if !begins
        || at
            .checked_sub(1)
            .is_some_and(|before| is_word(&code[before]))
    {
        return None;
    }
    let mut depth = i32::from(reader.starts_with('#'));
    for (offset, c) in code[at + length..].iter().enumerate() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return Some(at + length + offset);
        }
    }
    None
}

/// Returns the string literals between two positions, each with its own position.
fn literals(source: &[char], code: &[char], from: usize, to: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut at = from;
    while at < to {
        // a position without code is in a literal or a comment
        if source[at] != '"' || code[at] != ' ' || is_in_comment(source, at) {
            at += 1;
            continue;
        }
        let text: String = source[at + 1..to]
            .iter()
            .take_while(|&&c| c != '"')
            .collect();
        let begin = at;
        at += 2 + text.chars().count();
        found.push((begin, text));
    }
    found
}

fn is_in_comment(source: &[char], at: usize) -> bool {
    let begin = source[..at]
        .iter()
        .rposition(|&c| c == '\n')
        .map_or(0, |at| at + 1);
    let line: String = source[begin..at].iter().collect();
    line.trim_start().starts_with("//")
}

/// Returns true if the text in a build script looks like a path in the tree, and not like an
/// option, a system folder or prose.
fn is_path(text: &str) -> bool {
    let has_folder = text.contains('/') || text == "..";
    has_folder && !text.starts_with(['/', '-']) && !text.contains([' ', '='])
}

/// Returns a path relative to a folder, resolving each `..` as far as possible.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a tree with a good crate and this file.
    fn found(path: &str, text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File {
            path: path.into(),
            text: text.into(),
        };
        let files = [
            file(
                "Cargo.toml",
                "[workspace.package]\ninclude = [\"/src\", \"/build.rs\", \"/bpf\", \"/LICENSE-*\"]\n",
            ),
            file(
                "crates/fwdlab-good/Cargo.toml",
                "include.workspace = true\n",
            ),
            file(
                "crates/fwdlab-good/src/html/mod.rs",
                "static A: &str = include_str!(\"style.css\");",
            ),
            file(path, text),
        ];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn embedded_files_inside_the_crate_are_packaged() {
        for (path, text) in [
            ("crates/fwdlab-x/src/a/b.rs", r#"include_str!("../c.toml")"#),
            (
                "crates/fwdlab-x/src/a.rs",
                r#"include_bytes!("../bpf/a.h")"#,
            ),
            (
                "crates/fwdlab-x/src/a.rs",
                r#"include_bytes_aligned!(concat!(env!("OUT_DIR"), "/a.o"))"#,
            ),
            (
                "crates/fwdlab-x/src/a.rs",
                r#"include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/a.txt"))"#,
            ),
            (
                "crates/fwdlab-x/src/a.rs",
                r#"// include_str!("../../../profiles/a.toml")"#,
            ),
            (
                "crates/fwdlab-x/src/a.rs",
                r#"let words = "include_str!(../../x)"; my_include_str!("../../x")"#,
            ),
            ("crates/fwdlab-x/src/a.rs", "#[path = \"b.rs\"]\nmod b;"),
            (
                "crates/fwdlab-x/build.rs",
                r#"f("bpf/{p}.c"); g("-I/usr/include"); h("/etc/x"); i("say ../x to it")"#,
            ),
            (
                "crates/fwdlab-x/tests/a.rs",
                r#"include_str!("../../../profiles/a.toml")"#,
            ),
            ("xtask/src/a.rs", r#"include_str!("../../profiles/a.toml")"#),
        ] {
            assert_eq!(found(path, text), Vec::<String>::new(), "{path}: {text}");
        }
    }

    #[test]
    fn embedded_files_outside_the_crate_are_found() {
        let outside = "outside of the crate";
        for (path, text, expect) in [
            (
                "crates/fwdlab-x/src/a.rs",
                "\ninclude_str!(\"../../../profiles/a.toml\")",
                "a.rs:2: ../../profiles/a.toml",
            ),
            (
                "crates/fwdlab-x/src/a.rs",
                r#"include_str!(concat!("../../../profiles/", $name, ".toml"))"#,
                outside,
            ),
            (
                "crates/fwdlab-x/src/a/b.rs",
                r#"aya::include_bytes_aligned!("../../../fwdlab-y/bpf/a.o")"#,
                outside,
            ),
            (
                "crates/fwdlab-x/src/a.rs",
                r#"include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../x.rs"))"#,
                outside,
            ),
            (
                "crates/fwdlab-x/src/a.rs",
                "/* é */ #[path = \"../../y.rs\"]\nmod y;",
                outside,
            ),
            (
                "crates/fwdlab-x/src/a.rs",
                "include_str!($path)",
                "no path can be seen",
            ),
            (
                "crates/fwdlab-x/src/a.rs",
                r#"include_str!("../data/a.txt")"#,
                "name its folder in `include`",
            ),
            (
                "crates/fwdlab-x/build.rs",
                "fn main() { compile(\"../../shared/a.c\") }",
                outside,
            ),
            (
                "crates/fwdlab-x/build.rs",
                r#"compile("c/a.c")"#,
                "name its folder",
            ),
            (
                "crates/fwdlab-x/Cargo.toml",
                "[package]\n",
                "include.workspace = true",
            ),
        ] {
            let found = found(path, text);
            assert!(
                found.len() == 1 && found[0].contains(expect),
                "{path}: {text}: {found:?}"
            );
        }
        assert!(check(&[])[0].to_string().contains("wrong words"));
    }
}
