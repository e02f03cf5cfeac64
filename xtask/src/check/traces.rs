//! Checks that no file contains names that exist on one machine only: home folders, work trees,
//! package registries.
//!
//! A clone of the project has none of them. Start with [`check`].

use super::Finding;
use crate::tree::File;

/// Folders of machines. Split in two, or this file would match itself.
const FOLDERS: [&str; 4] = [
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/wo", "rk/"),
    concat!("/Use", "rs/"),
];

/// Hosts of package registries, or parts of their names.
const HOSTS: [&str; 9] = [
    concat!("static.", "crates.io"),
    concat!("index.", "crates.io"),
    concat!("registry.", "npmjs.org"),
    concat!("py", "pi.org"),
    concat!("files.", "pythonhosted.org"),
    concat!("proxy.", "golang.org"),
    concat!("repo.maven.", "apache.org"),
    concat!("deb.", "debian.org"),
    concat!("archive.", "ubuntu.com"),
];

/// The only source that a lock file may contain: cargo writes it for every crate, regardless of the
/// mirror it used.
const LOCKED_SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Finds such names in any text file.
pub fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(file.text.lines()) {
        if let Some(folder) = FOLDERS.iter().find(|folder| names_folder(text, folder)) {
            findings.push(Finding::new(
                &file.path,
                line,
                format!("{folder} is a folder of one machine"),
            ));
        }
        if let Some(host) = HOSTS.iter().find(|host| text.contains(*host)) {
            findings.push(Finding::new(
                &file.path,
                line,
                format!("{host} is a package registry's host"),
            ));
        }
        let source = text
            .strip_prefix("source = ")
            .filter(|_| file.name() == "Cargo.lock");
        if source.is_some_and(|source| source.trim_matches('"') != LOCKED_SOURCE) {
            findings.push(Finding::new(
                &file.path,
                line,
                "locked to a source that others may not reach; only the public registry is",
            ));
        }
    }
    findings
}

/// Returns true if the text contains this folder at the start of an absolute path, and not within
/// another one such as `net/core/`.
fn names_folder(text: &str, folder: &str) -> bool {
    text.match_indices(folder).any(|(at, _)| {
        !text[..at]
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || "._-}*".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&File {
            path: path.into(),
            text: text.into(),
        })
        .len()
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for folder in FOLDERS {
            assert_eq!(
                found("README.md", &format!("see\n`{folder}x`")),
                1,
                "{folder}"
            );
            assert_eq!(found("README.md", &format!("net{folder}x")), 0, "{folder}");
        }
        for host in HOSTS {
            assert_eq!(
                found("web/package-lock.json", &format!("\"https://{host}/a\"")),
                1,
                "{host}"
            );
        }
    }

    #[test]
    fn lock_files_name_the_public_registry_only() {
        assert_eq!(
            found("Cargo.lock", &format!("source = \"{LOCKED_SOURCE}\"")),
            0
        );
        assert_eq!(
            found(
                "Cargo.lock",
                "source = \"registry+https://mirror.example/index\""
            ),
            1
        );
        assert_eq!(
            found("Cargo.lock", "source = \"git+https://forge.example/a\""),
            1
        );
    }
}
