//! Checks links in doc comments: every `[name]` in our crates must resolve.
//!
//! `cargo doc` would compile all dependencies again, which takes minutes in a clean clone. The test
//! build has already made everything that rustdoc needs, so rustdoc runs on our crates alone, with
//! those libraries; its output is discarded. Start with [`check`].

use std::collections::HashMap;
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

/// Number of concurrent rustdoc processes.
const LANES: usize = 2;

/// One of our libraries or programs, as rustdoc needs it.
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

/// Prints rustdoc's messages about links in our crates; returns true if all links resolve.
///
/// `messages`: cargo's messages about the test build; `metadata`: the output of `cargo metadata`.
pub fn check(messages: &[Value], metadata: &Value) -> anyhow::Result<bool> {
    let crates = crates(messages, metadata);
    anyhow::ensure!(!crates.is_empty(), "the test build made no crate of ours");
    let scratch = env::temp_dir().join(format!("fwdlab-links-{}", std::process::id()));
    let mut clean = true;
    for several in crates.chunks(LANES) {
        let running: Vec<Child> = several
            .iter()
            .map(|one| one.start(&scratch))
            .collect::<Result<_, _>>()?;
        for child in running {
            let output = broken(child)?;
            clean &= output.is_none();
            output
                .iter()
                .for_each(|output| println!("{}", output.trim_end()));
        }
    }
    std::fs::remove_dir_all(&scratch).with_context(|| format!("remove {}", scratch.display()))?;
    Ok(clean)
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
    fn start(&self, scratch: &Path) -> anyhow::Result<Child> {
        let mut rustdoc = Command::new(rustdoc());
        rustdoc
            .arg(&self.source)
            .args(["--crate-name", &self.name, "--crate-type", &self.kind])
            .args(["--edition", &self.edition, "--document-private-items"])
            .args(["-A", "warnings", "--color", "never", "-o"])
            .arg(scratch);
        for lint in DENIED {
            rustdoc.args(["-D", lint]);
        }
        for feature in &self.features {
            rustdoc.args(["--cfg", &format!("feature={feature:?}")]);
        }
        if let Some(folder) = &self.dependencies {
            rustdoc
                .arg("-L")
                .arg(format!("dependency={}", folder.display()));
        }
        // cargo adds this compiler library for every proc-macro crate
        if self.kind == "proc-macro" {
            rustdoc.args(["--extern", "proc_macro"]);
        }
        for (name, file) in &self.libraries {
            rustdoc.args(["--extern", &format!("{name}={}", file.display())]);
        }
        rustdoc
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("run rustdoc on {}", self.source.display()))
    }
}

/// Returns rustdoc's messages about broken links.
fn broken(rustdoc: Child) -> anyhow::Result<Option<String>> {
    let output = rustdoc.wait_with_output().context("wait for rustdoc")?;
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((!output.status.success()).then_some(printed))
}

/// Returns the rustdoc of the toolchain that builds: it is next to its cargo.
fn rustdoc() -> PathBuf {
    let beside = env::var_os("CARGO").map(|cargo| Path::new(&cargo).with_file_name("rustdoc"));
    beside
        .filter(|path| path.exists())
        .unwrap_or_else(|| "rustdoc".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns rustdoc's messages about a crate with this source.
    fn rustdoc_messages(source: &str) -> Option<String> {
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
        broken(one.start(&folder.path().join("out")).unwrap()).unwrap()
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found_in_private_items_too() {
        assert_eq!(
            rustdoc_messages("//! See [`Known`].\nstruct Known;\n"),
            None
        );
        let broken = rustdoc_messages(
            "//! See [`Known`].\nstruct Known;\n/// Not [`Gone`].\nfn private() {}\n",
        )
        .unwrap();
        assert!(broken.contains("unresolved link to `Gone`"), "{broken}");
        assert!(!broken.contains("`Known`"), "{broken}");
    }

    #[test]
    fn our_crates_are_found_with_the_libraries_they_name() {
        let artifact = |id: &str, name: &str, kind: &str, file: &str| {
            serde_json::json!({
                "reason": "compiler-artifact", "package_id": id, "manifest_path": "/w/Cargo.toml",
                "target": { "name": name, "kind": [kind], "crate_types": [kind], "src_path": "/w/src/lib.rs", "edition": "2024" },
                "profile": { "test": false }, "features": ["default"], "filenames": [file],
            })
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
