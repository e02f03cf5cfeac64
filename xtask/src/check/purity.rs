//! Checks that `model`, `packet`, `stats` and `measure` do no I/O, read no clock and start no
//! thread.
//!
//! Looks at the paths below `std` in their sources, except in tests; the clippy.toml of each of
//! these crates forbids the same calls by type. Start with [`FORBIDDEN`] and [`ALLOWED`].

use super::Finding;
use crate::source::{code, paths, without_tests};
use crate::tree::File;

const PURE: [&str; 4] = ["model", "packet", "stats", "measure"];

/// Paths that pure crates must not use, and why.
const FORBIDDEN: [(&str, &str); 9] = [
    (
        "std::time::Instant",
        "reads no clock: take the time as an argument",
    ),
    (
        "std::time::SystemTime",
        "reads no clock: take the time as an argument",
    ),
    (
        "std::time::UNIX_EPOCH",
        "reads no clock: take the time as an argument",
    ),
    ("std::fs", "does no I/O: take the contents as an argument"),
    ("std::net", "does no I/O"),
    ("std::io", "does no I/O"),
    ("std::thread", "starts no thread"),
    ("std::process", "starts no process"),
    (
        "std::env",
        "reads nothing of its environment: take it as an argument",
    ),
];

/// Exceptions: values and traits without side effects.
const ALLOWED: [(&str, &str); 11] = [
    ("std::net::IpAddr", "a value"),
    ("std::net::Ipv4Addr", "a value"),
    ("std::net::Ipv6Addr", "a value"),
    ("std::net::AddrParseError", "a value"),
    ("std::io::Read", "a trait: the caller brings what is read"),
    (
        "std::io::BufRead",
        "a trait: the caller brings what is read",
    ),
    (
        "std::io::Write",
        "a trait: the caller brings what is written",
    ),
    ("std::io::Cursor", "bytes in memory"),
    ("std::io::Error", "a value of those traits"),
    ("std::io::ErrorKind", "a value of those traits"),
    ("std::io::Result", "a value of those traits"),
];

/// Finds impure paths in the sources of pure crates.
pub fn check(file: &File) -> Vec<Finding> {
    let Some(name) = file
        .crate_name()
        .filter(|name| PURE.contains(name) && file.is_source())
    else {
        return Vec::new();
    };
    let code = without_tests(&code(&file.text));
    paths(&code, "std")
        .into_iter()
        .filter(|(_, path)| !ALLOWED.iter().any(|(allowed, _)| is_below(path, allowed)))
        .filter_map(|(line, path)| {
            let (_, reason) = FORBIDDEN.iter().find(|(forbidden, _)| {
                is_below(&path, forbidden)
                    || path == "std::time::*" && forbidden.starts_with("std::time")
            })?;
            Some(Finding::new(
                &file.path,
                line,
                format!("{path}: {name} {reason}"),
            ))
        })
        .collect()
}

fn is_below(path: &str, module: &str) -> bool {
    path.strip_prefix(module)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
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
    fn pure_crates_do_not_use_io_clocks_or_threads() {
        for text in [
            "use std::time::Instant;",
            "use std::time::{Duration, SystemTime};",
            "use std::time::*;",
            "let a = std::fs::read(b);",
            "use std::{fmt, fs};",
            "use std::net::UdpSocket;",
            "use std::io;",
            "use std::io::stdin;",
            "std::thread::spawn(a);",
            "std::process::exit(1);",
            "std::env::var(a);",
        ] {
            for pure in PURE {
                assert_eq!(
                    found(&format!("crates/fwdlab-{pure}/src/a.rs"), text),
                    1,
                    "{pure}: {text}"
                );
            }
            assert_eq!(found("crates/fwdlab-lab/src/a.rs", text), 0);
            assert_eq!(found("crates/fwdlab-stats/tests/a.rs", text), 0);
        }
    }

    #[test]
    fn pure_values_traits_comments_and_tests_are_fine() {
        for text in [
            "use std::time::Duration;",
            "use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};",
            "fn a(b: &mut dyn std::io::Write) -> std::io::Result<()> {}",
            "// std::fs::read\nlet a = \"std::fs\";",
            "#[cfg(test)]\nmod tests {\n  use std::fs;\n}\n",
        ] {
            assert_eq!(found("crates/fwdlab-model/src/a.rs", text), 0, "{text}");
        }
    }
}
