//! Checks that rooms, the modules in a crate's `lib.rs`, use each other in one direction, without
//! cycles.
//!
//! To understand a room, you then need only those below it. Tests may use any room. Start with
//! [`check`].

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use crate::source::{code, paths, without_tests};
use crate::tree::File;

/// Crates whose rooms must have no cycles.
const CRATES: [&str; 3] = ["engine", "lab", "report"];

/// The rooms of a crate that each of them uses, and the first position of such a use.
type Uses<'a> = BTreeMap<(String, String), (&'a str, usize)>;

/// Returns a finding for every use that is part of a cycle.
pub fn check(files: &[File]) -> Vec<Finding> {
    CRATES
        .iter()
        .flat_map(|name| circles(name, files))
        .collect()
}

fn circles(name: &str, files: &[File]) -> Vec<Finding> {
    let uses = uses(name, files);
    let circles = uses
        .iter()
        .filter(|((from, to), _)| reaches(&uses, to, from));
    circles
        .map(|((from, to), &(place, line))| {
            let text = format!(
                "{from} uses {to} here, and {to} uses {from}, itself or by others: rooms of {name} form no circle"
            );
            Finding::new(place, line, text)
        })
        .collect()
}

fn reaches(uses: &Uses<'_>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::from([from]);
    let mut lookahead = vec![from];
    while let Some(room) = lookahead.pop() {
        if room == to {
            return true;
        }
        let next = uses.keys().filter(|(user, _)| user == room);
        lookahead.extend(
            next.map(|(_, used)| used.as_str())
                .filter(|&r| seen.insert(r)),
        );
    }
    false
}

fn uses<'a>(name: &str, files: &'a [File]) -> Uses<'a> {
    let files: Vec<&File> = files
        .iter()
        .filter(|f| f.is_rust() && f.is_source() && f.crate_name() == Some(name))
        .collect();
    let tests: Vec<String> = files.iter().flat_map(|file| test_modules(file)).collect();
    let rooms: BTreeSet<&str> = files.iter().filter_map(|file| room(file)).collect();
    let mut uses = Uses::new();
    for file in &files {
        let Some(room) = room(file) else { continue };
        if tests.iter().any(|module| file.path.starts_with(module)) {
            continue;
        }
        let code = without_tests(&code(&file.text));
        for (line, path) in paths(&code, "crate") {
            let used = path.split("::").nth(1).unwrap_or_default();
            if used != room && rooms.contains(used) {
                uses.entry((room.into(), used.into()))
                    .or_insert((&file.path, line));
            }
        }
    }
    uses
}

/// Returns the room of a file; `None` for `lib.rs`.
fn room(file: &File) -> Option<&str> {
    let name = file.path.split('/').nth(3)?;
    let name = name.strip_suffix(".rs").unwrap_or(name);
    (!["lib", "main"].contains(&name)).then_some(name)
}

/// Returns the start of the paths of modules that exist only in a file's tests.
fn test_modules(file: &File) -> Vec<String> {
    let code = code(&file.text);
    let folder = match file.path.rsplit_once('/') {
        Some((folder, "lib.rs" | "main.rs" | "mod.rs")) => folder,
        _ => file.path.trim_end_matches(".rs"),
    };
    let items = code.split("#[cfg(test)]").skip(1);
    items
        .filter_map(|item| {
            let (declared, _) = item.split_once(';')?;
            let (_, name) = declared.rsplit_once("mod ")?;
            (!declared.contains('{')).then(|| name.trim().to_owned())
        })
        .flat_map(|name| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/")])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: format!("crates/fwdlab-engine/src/{path}"),
            text: text.into(),
        }
    }

    #[test]
    fn a_cycle_is_found_but_not_through_tests() {
        let mut files = vec![
            file(
                "lib.rs",
                "mod a;\nmod b;\nmod c;\n#[cfg(test)]\nmod testing;",
            ),
            file(
                "a.rs",
                "use crate::{b::B, Error};\n#[cfg(test)]\nmod tests { use crate::c::C; }",
            ),
            file("b/mod.rs", "mod inner;\n#[cfg(test)]\nmod fixture;"),
            file("b/fixture.rs", "use crate::a::A;"),
            file("b/inner.rs", "// crate::a\nuse crate::c;"),
            file("c.rs", "fn c() {}"),
            file("testing.rs", "use crate::a::A;"),
        ];
        assert_eq!(check(&files), []);
        files.push(file("c/deep.rs", "\nfn d() { crate::a::A::new() }"));
        let places: Vec<String> = check(&files)
            .iter()
            .map(|f| format!("{}:{}", f.place, f.line))
            .collect();
        let place = |path: &str| format!("crates/fwdlab-engine/src/{path}");
        assert_eq!(
            places,
            [place("a.rs:1"), place("b/inner.rs:2"), place("c/deep.rs:2")]
        );
    }
}
