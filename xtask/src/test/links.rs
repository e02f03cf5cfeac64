//! Checks links in doc comments: every `[name]` in our crates must resolve. Also checks that our
//! crates compile without their features, as `make quick` builds them.
//!
//! cargo would compile all dependencies again for either, which takes minutes in a clean clone. The
//! test build has already made everything that rustdoc and rustc need, so they run on our crates
//! alone, with those libraries; their output is discarded. Start with [`check`] and
//! [`check_without_features`].

use std::collections::{HashMap, HashSet};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use serde_json::Value;

/// The rustdoc lints that fail the check. Private items are documented as well, because their
/// readers work on this code.
const DENIED: [&str; 2] = [
    "rustdoc::broken_intra_doc_links",
    "rustdoc::invalid_html_tags",
];

/// Number of concurrent processes.
const LANES: usize = 2;

/// One of our libraries or programs, as rustdoc and rustc need it.
#[derive(Debug, Default)]
struct Crate {
    name: String,
    /// `lib`, `bin` or `proc-macro`.
    kind: String,
    edition: String,
    source: PathBuf,
    features: Vec<String>,
    /// Libraries that it uses, with the files that the test build made of them.
    libraries: Vec<(String, PathBuf)>,
    /// Directory of the dependencies of those libraries.
    dependencies: Option<PathBuf>,
    environment: Vec<(&'static str, OsString)>,
}

/// Returns rustdoc's messages about links in our crates that do not resolve.
///
/// `messages`: cargo's messages about the test build; `metadata`: the output of `cargo metadata`.
pub fn check(messages: &[Value], metadata: &Value) -> anyhow::Result<Vec<String>> {
    let crates = crates(messages, metadata);
    anyhow::ensure!(!crates.is_empty(), "the test build made no crate of ours");
    in_scratch(|scratch| {
        let mut found = Vec::new();
        for several in crates.chunks(LANES) {
            found.extend(errors(several.iter().map(|one| one.rustdoc(scratch)))?);
        }
        Ok(found)
    })
}

/// Returns rustc's errors about our libraries without their features, each with the others without
/// theirs.
pub fn check_without_features(messages: &[Value], metadata: &Value) -> anyhow::Result<Vec<String>> {
    let mut left = crates(messages, metadata);
    left.retain(|one| one.kind == "lib");
    anyhow::ensure!(!left.is_empty(), "the test build made no library of ours");
    in_scratch(|scratch| {
        std::fs::create_dir_all(scratch)
            .with_context(|| format!("create {}", scratch.display()))?;
        while !left.is_empty() {
            let waiting: HashSet<String> = left.iter().map(|one| one.name.clone()).collect();
            let can_start = |one: &Crate| {
                let mut libraries = one.libraries.iter();
                libraries.all(|(name, _)| !waiting.contains(name))
            };
            let (mut ready, mut later): (Vec<_>, Vec<_>) =
                std::mem::take(&mut left).into_iter().partition(can_start);
            anyhow::ensure!(!ready.is_empty(), "our crates use each other in a circle");
            later.extend(ready.split_off(ready.len().min(LANES)));
            let found = errors(ready.iter().map(|one| one.rustc(scratch)))?;
            if !found.is_empty() {
                // what uses them would only repeat it
                return Ok(found);
            }
            left = later;
        }
        Ok(Vec::new())
    })
}

/// Calls `work` with the path of a folder that is removed afterwards, if it exists then.
fn in_scratch(
    work: impl FnOnce(&Path) -> anyhow::Result<Vec<String>>,
) -> anyhow::Result<Vec<String>> {
    let scratch = env::temp_dir().join(format!("fwdlab-links-{}", std::process::id()));
    let result = work(&scratch);
    if scratch.exists() {
        std::fs::remove_dir_all(&scratch)
            .with_context(|| format!("remove {}", scratch.display()))?;
    }
    result
}

/// Starts these processes, waits for all of them, and returns what those say that failed.
fn errors(processes: impl Iterator<Item = anyhow::Result<Child>>) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for process in processes.collect::<Result<Vec<_>, _>>()? {
        let output = process
            .wait_with_output()
            .context("wait for the compiler")?;
        if !output.status.success() {
            found.push(String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }
    Ok(found)
}

/// Returns our libraries and programs among the build products.
fn crates(messages: &[Value], metadata: &Value) -> Vec<Crate> {
    let artifacts: Vec<&Value> = messages
        .iter()
        .filter(|message| is_documented(message))
        .collect();
    let files: HashMap<&str, PathBuf> = artifacts
        .iter()
        .filter_map(|message| Some((text(&message["package_id"])?, library(message)?)))
        .collect();
    let members = list(&metadata["workspace_members"]);
    let ours = artifacts
        .iter()
        .filter(|message| members.contains(&message["package_id"]));
    ours.filter_map(|message| {
        let script = messages.iter().find(|script| {
            script["reason"] == "build-script-executed"
                && script["package_id"] == message["package_id"]
        });
        one(message, script, metadata, &files)
    })
    .collect()
}

/// Returns true if the message is about a library or program itself, and not its test build.
fn is_documented(message: &Value) -> bool {
    let kinds = ["lib", "bin", "proc-macro"];
    message["reason"] == "compiler-artifact"
        && message["profile"]["test"] == false
        && text(&message["target"]["kind"][0]).is_some_and(|kind| kinds.contains(&kind))
}

/// Returns the crate of a cargo message.
fn one(
    message: &Value,
    script: Option<&Value>,
    metadata: &Value,
    files: &HashMap<&str, PathBuf>,
) -> Option<Crate> {
    let (id, target) = (text(&message["package_id"])?, &message["target"]);
    let of = |all: &'_ Value| list(all).iter().find(|one| one["id"] == id).cloned();
    let package = of(&metadata["packages"])?;
    let node = of(&metadata["resolve"]["nodes"])?;
    let mut libraries: Vec<(String, PathBuf)> = list(&node["deps"])
        .iter()
        .filter_map(|dep| {
            let file = files.get(text(&dep["pkg"])?)?;
            Some((text(&dep["name"])?.to_owned(), file.clone()))
        })
        .collect();
    let kind = text(&target["kind"][0])?;
    // a program uses the library of its package
    let own = files.get(id).filter(|_| kind == "bin");
    libraries
        .extend(own.and_then(|own| Some((text(&package["name"])?.replace('-', "_"), own.clone()))));
    let manifest = Path::new(text(&message["manifest_path"])?);
    let mut environment = vec![
        ("CARGO_MANIFEST_DIR", manifest.parent()?.into()),
        ("CARGO_PKG_NAME", text(&package["name"])?.into()),
        ("CARGO_PKG_VERSION", text(&package["version"])?.into()),
    ];
    let out = script.and_then(|script| text(&script["out_dir"]));
    environment.extend(out.map(|out| ("OUT_DIR", out.into())));
    let features = list(&message["features"]).iter().filter_map(text);
    Some(Crate {
        name: text(&target["name"])?.replace('-', "_"),
        kind: kind.to_owned(),
        edition: text(&target["edition"])?.to_owned(),
        source: text(&target["src_path"])?.into(),
        features: features.map(str::to_owned).collect(),
        dependencies: libraries
            .first()
            .and_then(|(_, file)| Some(file.parent()?.to_owned())),
        libraries,
        environment,
    })
}

/// Returns the file that dependents of this crate use: a library, or a compiler plug-in.
fn library(message: &Value) -> Option<PathBuf> {
    let kind = text(&message["target"]["kind"][0])?;
    let ending = match kind {
        "lib" => "rlib",
        "proc-macro" => env::consts::DLL_EXTENSION,
        _ => return None,
    };
    let files = list(&message["filenames"])
        .iter()
        .filter_map(text)
        .map(PathBuf::from);
    files
        .into_iter()
        .find(|file| file.extension().is_some_and(|is| is == ending))
}

fn text(value: &Value) -> Option<&str> {
    value.as_str()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

impl Crate {
    /// Starts rustdoc.
    fn rustdoc(&self, scratch: &Path) -> anyhow::Result<Child> {
        let mut rustdoc = self.command("rustdoc");
        rustdoc
            .args(["--document-private-items", "-o"])
            .arg(scratch);
        for lint in DENIED {
            rustdoc.args(["-D", lint]);
        }
        for feature in &self.features {
            rustdoc.args(["--cfg", &format!("feature={feature:?}")]);
        }
        for (name, file) in &self.libraries {
            rustdoc.args(["--extern", &format!("{name}={}", file.display())]);
        }
        self.spawn(rustdoc)
    }

    /// Starts rustc without features; other crates that were compiled so are in `scratch`.
    fn rustc(&self, scratch: &Path) -> anyhow::Result<Child> {
        let compiled = |name: &str| scratch.join(format!("lib{name}.rmeta"));
        let mut rustc = self.command("rustc");
        rustc
            .args(["--emit", "metadata", "-o"])
            .arg(compiled(&self.name))
            .arg("-L")
            .arg(format!("dependency={}", scratch.display()));
        for (name, file) in &self.libraries {
            let without = Some(compiled(name)).filter(|path| path.exists());
            let file = without.as_ref().unwrap_or(file);
            rustc.args(["--extern", &format!("{name}={}", file.display())]);
        }
        self.spawn(rustc)
    }

    /// Returns rustdoc or rustc with the arguments that both need.
    fn command(&self, program: &str) -> Command {
        // tests that send frames run at the same time
        let mut command = Command::new("nice");
        command
            .arg(beside_cargo(program))
            .arg(&self.source)
            .args(["--crate-name", &self.name, "--crate-type", &self.kind])
            .args(["--edition", &self.edition])
            .args(["-A", "warnings", "--color", "never"]);
        if let Some(folder) = &self.dependencies {
            command
                .arg("-L")
                .arg(format!("dependency={}", folder.display()));
        }
        // cargo adds this compiler library for every proc-macro crate
        if self.kind == "proc-macro" {
            command.args(["--extern", "proc_macro"]);
        }
        command
    }

    fn spawn(&self, mut command: Command) -> anyhow::Result<Child> {
        command
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("compile {}", self.source.display()))
    }
}

/// Returns a program of the toolchain that builds: it is next to its cargo.
fn beside_cargo(program: &str) -> PathBuf {
    let beside = env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name(program));
    beside
        .filter(|path| path.exists())
        .unwrap_or_else(|| program.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns rustdoc's messages about a crate with this source.
    fn rustdoc_messages(source: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lib.rs");
        std::fs::write(&path, source).unwrap();
        let one = Crate {
            name: "sample".into(),
            kind: "lib".into(),
            edition: "2024".into(),
            source: path,
            ..Crate::default()
        };
        errors([one.rustdoc(&folder.path().join("out"))].into_iter()).unwrap()
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found_in_private_items_too() {
        let none = rustdoc_messages("//! See [`Known`].\nstruct Known;\n");
        assert!(none.is_empty(), "{none:?}");
        let broken = rustdoc_messages(
            "//! See [`Known`].\nstruct Known;\n/// Not [`Gone`].\nfn private() {}\n",
        )
        .concat();
        assert!(broken.contains("unresolved link to `Gone`"), "{broken}");
        assert!(!broken.contains("`Known`"), "{broken}");
    }

    /// Returns cargo's message about a crate.
    fn artifact(id: &str, name: &str, kind: &str, source: &str, file: &str) -> Value {
        serde_json::json!({
            "reason": "compiler-artifact", "package_id": id, "manifest_path": "/w/Cargo.toml",
            "target": { "name": name, "kind": [kind], "crate_types": [kind], "src_path": source, "edition": "2024" },
            "profile": { "test": false }, "features": ["more"], "filenames": [file],
        })
    }

    /// The second crate uses an item of the first that exists only with its feature.
    #[test]
    fn a_crate_that_needs_a_feature_of_another_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let first = "pub struct Always;\n#[cfg(feature = \"more\")]\npub struct More;\n";
        std::fs::write(path("first.rs"), first).unwrap();
        // not the order in which they must be compiled
        let messages = [
            artifact(
                "second#1",
                "second",
                "lib",
                &path("second.rs"),
                "/t/deps/libsecond.rlib",
            ),
            artifact(
                "first#1",
                "first",
                "lib",
                &path("first.rs"),
                "/t/deps/libfirst.rlib",
            ),
        ];
        let metadata = serde_json::json!({
            "workspace_members": ["first#1", "second#1"],
            "packages": [
                { "id": "first#1", "name": "first", "version": "0.1.0" },
                { "id": "second#1", "name": "second", "version": "0.1.0" },
            ],
            "resolve": { "nodes": [
                { "id": "first#1", "deps": [] },
                { "id": "second#1", "deps": [{ "name": "first", "pkg": "first#1" }] },
            ] },
        });
        let check = |item: &str| {
            let second = format!("pub fn f() {{ let _ = first::{item}; }}\n");
            std::fs::write(path("second.rs"), second).unwrap();
            check_without_features(&messages, &metadata)
                .unwrap()
                .concat()
        };
        assert_eq!(check("Always"), "");
        assert!(check("More").contains("`More`"));
    }

    #[test]
    fn our_crates_are_found_with_the_libraries_they_name() {
        let artifact = |id: &str, name: &str, kind: &str, file: &str| {
            artifact(id, name, kind, "/w/src/lib.rs", file)
        };
        let messages = [
            artifact("other#1", "other", "lib", "/t/deps/libother-1.rlib"),
            artifact("ours#1", "our-crate", "lib", "/t/deps/libour_crate-1.rlib"),
            artifact("ours#1", "program", "bin", "/t/program"),
        ];
        let metadata = serde_json::json!({
            "workspace_members": ["ours#1"],
            "packages": [{ "id": "ours#1", "name": "our-crate", "version": "0.1.0" }],
            "resolve": { "nodes": [{ "id": "ours#1", "deps": [{ "name": "other", "pkg": "other#1" }] }] },
        });
        let found = crates(&messages, &metadata);
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["our_crate", "program"]);
        let other = ("other".to_owned(), PathBuf::from("/t/deps/libother-1.rlib"));
        assert_eq!(found[0].libraries, std::slice::from_ref(&other));
        let own = (
            "our_crate".to_owned(),
            PathBuf::from("/t/deps/libour_crate-1.rlib"),
        );
        assert_eq!(found[1].libraries, [other, own]);
        assert_eq!(found[0].dependencies.as_deref(), Some(Path::new("/t/deps")));
    }
}
