//! JSON Schemas of everything we store or print, generated from `model`, so that other programs can
//! rely on it.
//!
//! Do not edit them by hand: change the type in `model`, then regenerate. Start with [`generated`].

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fwdlab_model::campaign::Campaign;
use fwdlab_model::event::{Event, RebuildRecord};
use fwdlab_model::import::ImportedRecord;
use fwdlab_model::instructions::BootRecord;
use fwdlab_model::latency::LatencySummary;
use fwdlab_model::profile::Profile;
use fwdlab_model::result::{RunInfo, Summary, TrialRecord};
use fwdlab_model::set::SetFile;
use fwdlab_model::telemetry::Record;
use schemars::{JsonSchema, schema_for};
use serde_json::Value;

use crate::check::Finding;

const FOLDER: &str = "crates/fwdlab/schemas";
const RENEW: &str = "cargo run -p xtask -- schemas";

/// Returns name and text of every schema.
fn generated() -> anyhow::Result<Vec<(String, String)>> {
    fn text<T: JsonSchema>() -> anyhow::Result<String> {
        let mut schema = schema_for!(T);
        let members = schema.ensure_object();
        members.iter_mut().for_each(as_prose);
        Ok(serde_json::to_string_pretty(&schema)? + "\n")
    }
    Ok([
        ("run", text::<RunInfo>()?),
        ("summary", text::<Summary>()?),
        ("trial", text::<TrialRecord>()?),
        ("rebuild", text::<RebuildRecord>()?),
        ("boot", text::<BootRecord>()?),
        ("imported", text::<ImportedRecord>()?),
        ("event", text::<Event>()?),
        ("telemetry", text::<Record>()?),
        ("latency", text::<LatencySummary>()?),
        ("profile", text::<Profile>()?),
        ("campaign", text::<Campaign>()?),
        ("bed", text::<fwdlab_model::test_bed::Text>()?),
        ("set", text::<SetFile>()?),
    ]
    .map(|(name, text)| (format!("{name}.json"), text))
    .into())
}

/// Turns doc comments into prose in a description, and in all below this member: one line per
/// paragraph or list item, and names without links.
fn as_prose((name, member): (&String, &mut Value)) {
    match member {
        Value::String(text) if name == "description" => *text = prose(text),
        Value::Object(members) => members.iter_mut().for_each(as_prose),
        Value::Array(items) => items.iter_mut().for_each(|item| as_prose((name, item))),
        _ => {}
    }
}

fn prose(comment: &str) -> String {
    let mut text = String::new();
    for line in comment.lines() {
        let starts = line.is_empty() || line.starts_with("- ") || text.ends_with('\n');
        if !text.is_empty() {
            text.push(if starts { '\n' } else { ' ' });
        }
        text.push_str(line);
    }
    text.replace("[`", "`").replace("`]", "`")
}

/// Writes all schemas, removes those that no longer exist, and returns the written paths.
pub fn write(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let folder = root.join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let generated = generated()?;
    for name in kept(&folder)? {
        if !generated.iter().any(|(known, _)| *known == name) {
            fs::remove_file(folder.join(&name)).with_context(|| format!("remove {name}"))?;
        }
    }
    let mut written = Vec::new();
    for (name, text) in generated {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        written.push(path);
    }
    Ok(written)
}

/// Returns schemas that differ from `model`.
pub fn stale(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let folder = root.join(FOLDER);
    let generated = generated()?;
    let finding = |name: &str, what: &str| Finding {
        place: format!("{FOLDER}/{name}"),
        line: 0,
        text: format!("{what}. Renew with: {RENEW}"),
    };
    let mut findings = Vec::new();
    for (name, text) in &generated {
        if fs::read_to_string(folder.join(name)).is_ok_and(|kept| kept == *text) {
            continue;
        }
        findings.push(finding(name, "the schema is not what model says"));
    }
    for name in kept(&folder)? {
        if !generated.iter().any(|(known, _)| *known == name) {
            findings.push(finding(&name, "the schema belongs to no type"));
        }
    }
    Ok(findings)
}

/// Returns the names of the schemas in the folder, if it exists.
fn kept(folder: &Path) -> anyhow::Result<Vec<String>> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry
            .context("list the schemas")?
            .file_name()
            .to_string_lossy()
            .into_owned();
        if name.ends_with(".json") {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_comments_become_paragraphs() {
        let comment =
            "One sentence\nof [`Loss`] on two lines.\n\nA list:\n- first\n- second\n  line";
        let expected = "One sentence of `Loss` on two lines.\n\nA list:\n- first\n- second   line";
        assert_eq!(prose(comment), expected);
    }

    #[test]
    fn a_stale_missing_or_orphaned_schema_is_found_and_renewed() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let missing = stale(root.path()).unwrap();
        let written = write(root.path()).unwrap();
        assert!(written.len() > 2);
        assert_eq!(missing.len(), written.len());
        assert_eq!(stale(root.path()).unwrap(), []);

        fs::write(&written[0], "{}").unwrap();
        fs::remove_file(&written[1]).unwrap();
        fs::write(root.path().join(FOLDER).join("old.json"), "{}").unwrap();
        let findings = stale(root.path()).unwrap();
        assert_eq!(findings.len(), 3);
        assert!(findings.iter().all(|finding| finding.text.contains(RENEW)));

        write(root.path()).unwrap();
        assert_eq!(stale(root.path()).unwrap(), []);
    }
}
