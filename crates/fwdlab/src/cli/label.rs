//! `fwdlab runs tag` and `note`: tags and notes that users attach to a stored run. Start with
//! [`Tag::run`] and [`Note::run`].

use std::io::Read;

use anyhow::Context;
use clap::Args;
use fwdlab_store::{Labels, Roots};
use serde_json::json;

use super::Global;
use crate::exit_code::Code;

/// Which words for which run.
#[derive(Debug, Args)]
pub struct Tag {
    /// Run: an id, a tag, or @1 for the latest
    run: String,
    /// Tags to add; a tag that only one run has can be used as its name [default: show the tags of
    /// the run]
    #[arg(value_name = "TAG")]
    tags: Vec<String>,
    /// Remove these tags instead of adding them
    #[arg(long, requires = "tags")]
    remove: bool,
}

/// Which text for which run.
#[derive(Debug, Args)]
pub struct Note {
    /// Run: an id, a tag, or @1 for the latest
    run: String,
    /// Text of the note; `-` reads it from standard input, an empty text removes it [default: show
    /// the note]
    text: Option<String>,
}

impl Tag {
    /// Runs the command.
    pub fn run(&self, roots: &Roots, global: &Global) -> anyhow::Result<Code> {
        let directory = fwdlab_store::resolve(roots, &self.run)?;
        let mut labels = fwdlab_store::labels(&directory)?;
        for tag in &self.tags {
            match self.remove {
                true => anyhow::ensure!(
                    labels.tags.remove(tag),
                    "{} has no tag `{}`; it has {}",
                    directory.display(),
                    tag.escape_debug(),
                    tags_text(&labels)
                ),
                false => _ = labels.tags.insert(tag.clone()),
            }
        }
        if !self.tags.is_empty() {
            fwdlab_store::label(&directory, &labels)?;
        }
        global.result(
            &json!({ "run": directory, "labels": labels }),
            &tags_text(&labels),
        )
    }
}

impl Note {
    /// Runs the command.
    pub fn run(&self, roots: &Roots, global: &Global) -> anyhow::Result<Code> {
        let directory = fwdlab_store::resolve(roots, &self.run)?;
        let mut labels = fwdlab_store::labels(&directory)?;
        if let Some(text) = &self.text {
            let mut text = text.clone();
            if text == "-" {
                text.clear();
                let mut input = std::io::stdin().lock();
                input
                    .read_to_string(&mut text)
                    .context("cannot read the note from standard input")?;
            }
            let text = text.trim().to_owned();
            labels.note = (!text.is_empty()).then_some(text);
            fwdlab_store::label(&directory, &labels)?;
        }
        let note = labels.note.as_deref().unwrap_or("no note");
        global.result(&json!({ "run": directory, "labels": labels }), note)
    }
}

/// Returns the tags as text.
fn tags_text(labels: &Labels) -> String {
    match labels.tags.is_empty() {
        true => "no tags".into(),
        false => Vec::from_iter(labels.tags.iter().map(String::as_str)).join(", "),
    }
}
