//! `fwdlab image`: boot images in the user's cache: lists, fetches and removes them, and boots
//! disks by hand.
//!
//! `lab::vm::image` defines images and fetches them. Start with [`Image`].

mod boot;

use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use fwdlab_lab::vm::image::cache::{Cache, Kept, Kind, Removal};
use fwdlab_lab::vm::image::{self, ImageKind};
use serde_json::{Value, json};

use super::Global;
use crate::exit_code::{Code, Usage};
use crate::output::{self, Verbosity};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// What to do with images.
#[derive(Debug, Subcommand)]
pub enum Image {
    /// List the contents of the cache: images, programs for guests, initial file systems
    Ls,
    /// Fetch images now, or update them to the newest package; measurements fetch missing images
    /// automatically
    Pull {
        /// Images: debian:PACKAGE
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Remove images from the cache; they are fetched or built again when needed
    Rm(Rm),
    /// Boot a disk image, with its console on this terminal and its SSH port on loopback
    Boot(boot::Boot),
}

/// What is removed.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Rm {
    /// Names or checksums of images, as `image ls` shows them
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Remove images that were not used for this number of days
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(..=36_500))]
    unused: Option<u32>,
    /// Remove everything, including package lists
    #[arg(long)]
    all: bool,
}

impl Image {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let cache = Cache::for_user()?;
        let mut tell = |text: &str| {
            if global.verbosity() != Verbosity::Quiet {
                output::note(text);
            }
        };
        match self {
            Image::Ls => {
                let kept = cache.list();
                match global.json {
                    true => output::json(&json!({
                        "folder": cache.folder(),
                        "entries": kept.iter().map(value).collect::<Vec<_>>(),
                    }))?,
                    false if kept.is_empty() => {
                        output::note(&format!("{} is empty", cache.folder().display()));
                    }
                    false => output::lines(&table(&kept)),
                }
            }
            Image::Pull { names } => {
                let mut pulled = Vec::new();
                for name in &names {
                    let image = image::Image::pull(name, &cache, &mut tell)?;
                    let words = image.words();
                    let kind = match image.kind {
                        ImageKind::Kernel(_) => "kernel",
                        ImageKind::Disk(_) => "disk",
                    };
                    if !global.json {
                        let words: Vec<String> = words
                            .iter()
                            .map(|(what, is)| format!("{what} {is}"))
                            .collect();
                        output::lines(&format!("{name}  {}", words.join(", ")));
                    }
                    let facts: serde_json::Map<String, Value> = words
                        .into_iter()
                        .map(|(what, is)| (what.to_owned(), is.into()))
                        .collect();
                    pulled.push(json!({ "name": name, "kind": kind, "facts": facts }));
                }
                if global.json {
                    output::json(&json!({ "pulled": pulled }))?;
                }
            }
            Image::Boot(boot) => return boot.run(global, &cache),
            Image::Rm(rm) => {
                let mut removed = Vec::new();
                match (rm.all, rm.unused) {
                    (true, _) => removed = cache.remove(Removal::All, &mut tell)?,
                    (_, Some(days)) => {
                        removed = cache.remove(Removal::UnusedFor(DAY * days), &mut tell)?;
                    }
                    _ => {
                        // remove nothing unless all of them exist
                        let kept = cache.list();
                        let is_there = |name: &&String| {
                            kept.iter()
                                .any(|one| one.checksum == **name || one.names.contains(*name))
                        };
                        if let Some(name) = rm.names.iter().find(|name| !is_there(name)) {
                            return Err(Usage(format!(
                                "the cache has nothing called `{name}`; fwdlab image ls shows what it has"
                            ))
                            .into());
                        }
                        for name in &rm.names {
                            removed.extend(cache.remove(Removal::Named(name), &mut tell)?);
                        }
                    }
                }
                match global.json {
                    true => output::json(&json!({
                        "removed": removed.iter().map(value).collect::<Vec<_>>(),
                    }))?,
                    false if removed.is_empty() => output::note("nothing to remove"),
                    false => output::lines(&table(&removed)),
                }
            }
        }
        Ok(Code::Done)
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Image => "image",
        Kind::Programs => "programs",
        Kind::Initramfs => "initramfs",
    }
}

/// Returns the number of whole days since an image was used.
fn days(kept: &Kept) -> u64 {
    let ago = SystemTime::now().duration_since(kept.last_use);
    ago.unwrap_or_default().as_secs() / DAY.as_secs()
}

fn value(kept: &Kept) -> Value {
    let last_use = kept.last_use.duration_since(SystemTime::UNIX_EPOCH);
    json!({
        "kind": kind(kept.kind),
        "title": kept.title,
        "names": kept.names,
        "checksum": kept.checksum,
        "bytes": kept.bytes,
        "last_use_unix_s": last_use.unwrap_or_default().as_secs(),
    })
}

/// Returns the names of an image; without a name its whole checksum, because `rm` does not accept a
/// part of it.
fn called(kept: &Kept) -> String {
    match kept.names.is_empty() {
        true => kept.checksum.clone(),
        false => kept.names.join(" "),
    }
}

fn table(all: &[Kept]) -> String {
    let lines = all.iter().map(|kept| {
        let last_use = match days(kept) {
            0 => "today".to_owned(),
            1 => "1 day ago".to_owned(),
            days => format!("{days} days ago"),
        };
        format!(
            "{:<9}  {:>8.1} MB  {last_use:<12}  {}\n    {}\n",
            kind(kept.kind),
            kept.bytes as f64 / 1e6,
            kept.title,
            called(kept)
        )
    });
    lines.collect()
}
