//! Checks which crate uses which: a crate uses only crates on lower layers, never one on its own
//! layer.
//!
//! Gets normal and build dependencies from `cargo metadata`; tests may use any crate. Start with
//! [`TABLE`].

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::Finding;
use crate::tree::short_package_name;

/// Our crates, and which of our crates each may use.
const TABLE: [(&str, &[&str]); 15] = [
    ("no-schemas", &[]),
    ("packet", &[]),
    ("stats", &[]),
    ("model", &["no-schemas"]),
    ("measure", &["model", "stats"]),
    ("engine", &["model", "packet"]),
    ("store", &["model"]),
    ("report", &["model", "stats"]),
    ("netbenches", &["model", "stats", "measure", "store"]),
    ("dpdk", &["model", "engine"]),
    ("lab", &["model", "engine", "measure", "store"]),
    (
        "serve",
        &[
            "model", "packet", "stats", "engine", "lab", "store", "report",
        ],
    ),
    ("trex", &["model", "packet", "engine", "lab"]),
    (
        "fwdlab",
        &[
            "model",
            "packet",
            "stats",
            "measure",
            "engine",
            "store",
            "netbenches",
            "report",
            "lab",
            "serve",
            "trex",
        ],
    ),
    ("xtask", &["model"]),
];

/// External crates that access the system, the clock or the terminal.
const WORLDLY: [&str; 9] = [
    "anstream",
    "aya",
    "indicatif",
    "jiff",
    "libc",
    "rustix",
    "signal-hook",
    "tempfile",
    "tokio",
];

/// Crates that must not use them.
const PURE: [&str; 4] = ["model", "packet", "stats", "measure"];

/// Runs `cargo metadata` for the workspace alone, without network or dependency resolution.
pub fn metadata(root: &Path) -> anyhow::Result<Value> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--no-deps", "--format-version=1"])
        .current_dir(root)
        .output()
        .context("run cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("read what cargo metadata says")
}

/// Compares the dependencies in `metadata` with the table.
pub fn check(metadata: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in list(&metadata["packages"]) {
        let name = short_package_name(text(&package["name"]));
        let Some((_, allowed)) = TABLE.iter().find(|(known, _)| *known == name) else {
            findings.push(Finding::new(
                name,
                0,
                "this crate has no row in the table of directions (xtask/src/check/directions.rs)",
            ));
            continue;
        };
        for dependency in list(&package["dependencies"]) {
            if dependency["kind"] == "dev" {
                continue;
            }
            let other = text(&dependency["name"]);
            let is_ours = dependency["path"].is_string();
            if is_ours && !allowed.contains(&short_package_name(other)) {
                findings.push(Finding::new(
                    name,
                    0,
                    forbidden(name, short_package_name(other), allowed),
                ));
            } else if !is_ours && PURE.contains(&name) && WORLDLY.contains(&other) {
                findings.push(Finding::new(
                    name,
                    0,
                    format!("{name} must not use {other}: {name} does no I/O, reads no clock and starts no thread"),
                ));
            }
        }
    }
    findings
}

fn forbidden(name: &str, other: &str, allowed: &[&str]) -> String {
    let rule = match allowed {
        [] => format!("{name} uses none of our crates"),
        some => format!("of our crates {name} uses only {}", some.join(", ")),
    };
    format!(
        "{name} must not use {other}: {rule} (a crate uses only crates on lower layers, and crates on one layer never \
         know each other)"
    )
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, dependencies: &[Value]) -> Value {
        json!({"packages": [{"name": name, "dependencies": dependencies}]})
    }

    fn of_ours(name: &str, kind: Value) -> Value {
        json!({"name": name, "kind": kind, "path": "somewhere"})
    }

    #[test]
    fn upward_sideways_and_build_dependencies_are_found() {
        for (from, to, kind) in [
            ("fwdlab-engine", "fwdlab-lab", Value::Null),
            ("fwdlab-measure", "fwdlab-engine", Value::Null),
            ("fwdlab-stats", "fwdlab-model", Value::Null),
            ("fwdlab-report", "fwdlab-store", json!("build")),
            ("fwdlab-lab", "fwdlab-packet", Value::Null),
        ] {
            let findings = check(&package(from, &[of_ours(to, kind)]));
            let [finding] = &findings[..] else {
                panic!("{from} -> {to}: {findings:?}")
            };
            assert_eq!(finding.place, short_package_name(from));
            assert!(
                finding
                    .text
                    .contains(&format!("must not use {}", short_package_name(to))),
                "{finding}"
            );
            assert!(finding.text.contains("lower layers"), "{finding}");
        }
    }

    #[test]
    fn downward_and_test_dependencies_are_fine() {
        for (from, to, kind) in [
            ("fwdlab-lab", "fwdlab-engine", Value::Null),
            ("fwdlab", "fwdlab-lab", Value::Null),
            ("fwdlab-report", "fwdlab-store", json!("dev")),
        ] {
            assert_eq!(check(&package(from, &[of_ours(to, kind)])), []);
        }
    }

    #[test]
    fn pure_crates_keep_away_from_the_system() {
        let libc = json!({"name": "libc", "kind": null});
        assert_eq!(
            check(&package("fwdlab-stats", std::slice::from_ref(&libc))).len(),
            1
        );
        assert_eq!(
            check(&package("fwdlab-engine", std::slice::from_ref(&libc))),
            []
        );
    }

    #[test]
    fn a_new_crate_must_be_in_the_table() {
        assert_eq!(check(&package("fwdlab-cloud", &[])).len(), 1);
    }

    #[test]
    fn rows_of_the_table_point_downwards() {
        for (at, (name, allowed)) in TABLE.iter().enumerate() {
            for other in *allowed {
                let place = TABLE.iter().position(|(row, _)| row == other);
                assert!(place.is_some_and(|place| place < at), "{name} -> {other}");
            }
        }
    }
}
