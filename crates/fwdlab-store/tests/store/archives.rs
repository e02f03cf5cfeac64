//! Export of runs into one file, and import elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use fwdlab_model::event::EventKind;
use fwdlab_model::facts::ShownFacts;
use fwdlab_store::{RunWriter, StoreError, export, import_runs, list, load};
use tar::{Builder, EntryType, Header};

use super::samples::*;

const ID: &str = "2026-11-21-quick-7f3k";
const OTHER: &str = "2026-11-21-quick-0000";
const NOW: &str = "2026-11-21T09:00:00Z";

fn archive_of(root: &Path, ids: &[&str]) -> Vec<u8> {
    let runs: Vec<PathBuf> = ids.iter().map(|id| root.join(id)).collect();
    let mut bytes = Vec::new();
    export(&runs, &mut bytes, Path::new("x"), ShownFacts::Full).unwrap();
    bytes
}

/// An archive that was not made by fwdlab.
fn made(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, kind, content) in entries {
        let mut header = Header::new_gnu();
        // as no library would write it
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        if *kind == EntryType::Symlink {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        archive.append(&header, *content).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true => files.extend(
                contents(&path)
                    .into_iter()
                    .map(|(n, b)| (format!("{name}/{n}"), b)),
            ),
            false if name.starts_with('.') => {}
            false => files.push((name, fs::read(path).unwrap())),
        }
    }
    files.sort();
    files
}

#[test]
fn exported_runs_are_unchanged_after_import() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    finished_run(here.path(), ID, NOW);
    finished_run(here.path(), OTHER, NOW);
    let bytes = archive_of(here.path(), &[ID, OTHER]);
    let root = there.path().join("runs");
    let runs = import_runs(&root, &bytes[..], Path::new("x")).unwrap();
    assert_eq!(runs, [root.join(OTHER), root.join(ID)]);
    for id in [ID, OTHER] {
        assert_eq!(contents(&root.join(id)), contents(&here.path().join(id)));
        let run = load(&root.join(id)).unwrap();
        assert_eq!((run.problems, run.is_protected), (vec![], true));
    }
    // the second import finds the run, and leaves it unchanged
    let error = import_runs(&root, &bytes[..], Path::new("x")).unwrap_err();
    assert!(matches!(error, StoreError::IdTaken { .. }), "{error}");
    assert_eq!(list(&root).unwrap().len(), 2);
    assert_eq!(fs::read_dir(&root).unwrap().count(), 2);
}

/// No file of a brief archive contains names of the host or the user, and imported runs pass as
/// complete.
#[test]
fn a_brief_archive_is_anonymous() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut own = info(ID, NOW);
    own.facts.kernel_command_line = Some("root=/dev/secret-disk key=hidden".into());
    own.command_line = vec!["/people/ann/bin/fwdlab".into(), "quick".into()];
    let kept = serde_json::json!("/people/ann/lab/bed.toml");
    own.parameters.insert("bed".into(), kept);
    let mut writer = RunWriter::create(here.path(), &own).unwrap();
    for (number, kind) in [
        EventKind::RunStarted {
            format: fwdlab_model::version::EVENT_FORMAT,
            info: Box::new(own.clone()),
            estimate_s: 1.5,
            guessed: false,
            steps: 1,
        },
        EventKind::BedReady {
            facts: Box::new(own.facts.clone()),
        },
        EventKind::Note {
            text: "of interest".into(),
        },
    ]
    .into_iter()
    .enumerate()
    {
        writer.event(&event(number as u32, kind)).unwrap();
    }
    writer.input("campaign.toml", b"campaign = 'x'").unwrap();
    let page = Some("<html>secret-disk</html>");
    writer
        .finish(&finished(&own), Some(&summary(ID)), page)
        .unwrap();

    let runs = [here.path().join(ID)];
    let mut bytes = Vec::new();
    export(&runs, &mut bytes, Path::new("x"), ShownFacts::Brief).unwrap();
    import_runs(there.path(), &bytes[..], Path::new("x")).unwrap();
    let files = contents(&there.path().join(ID));
    for (name, content) in &files {
        let text = String::from_utf8_lossy(content);
        for word in ["secret-disk", "hidden", "/people", "ann"] {
            assert!(!text.contains(word), "{word} is in {name}: {text}");
        }
    }
    let names: Vec<&str> = files.iter().map(|(name, _)| &name[..]).collect();
    assert!(
        !names.contains(&"report.html") && names.contains(&"inputs/campaign.toml"),
        "{names:?}"
    );
    let run = load(&there.path().join(ID)).unwrap();
    assert_eq!((run.problems, run.is_protected), (vec![], true));
    assert_eq!(run.info.command_line, ["fwdlab", "quick"]);
    assert_eq!(run.info.parameters["bed"], "bed.toml");
    // everything else is unchanged
    let before = load(&runs[0]).unwrap();
    assert_eq!(
        (run.summary, run.info.facts.kernel),
        (before.summary, before.info.facts.kernel)
    );

    // with a damaged header it is unknown which names it contains
    let head = runs[0].join("run.json");
    let text = fs::read_to_string(&head)
        .unwrap()
        .replace("secret", "secrex");
    fs::write(&head, text).unwrap();
    let error = export(&runs, Vec::new(), Path::new("x"), ShownFacts::Brief).unwrap_err();
    assert!(matches!(error, StoreError::NotBrief { .. }), "{error}");
}

#[test]
fn a_running_run_is_not_exported() {
    let root = tempfile::tempdir().unwrap();
    let run = RunWriter::create(root.path(), &info(ID, NOW)).unwrap();
    let runs = [run.path().to_owned()];
    let error = export(&runs, Vec::new(), Path::new("x"), ShownFacts::Full).unwrap_err();
    assert!(matches!(error, StoreError::StillRunning { .. }), "{error}");
    drop(run);
    let (bytes, there) = (archive_of(root.path(), &[ID]), tempfile::tempdir().unwrap());
    // a killed run is imported unchanged
    import_runs(there.path(), &bytes[..], Path::new("x")).unwrap();
}

#[test]
fn damaged_archives_and_foreign_paths_are_not_imported() {
    let here = tempfile::tempdir().unwrap();
    finished_run(here.path(), ID, NOW);
    let whole = archive_of(here.path(), &[ID]);
    fs::write(here.path().join(ID).join("report.html"), "another").unwrap();
    let changed = archive_of(here.path(), &[ID]);
    let file = |name| made(&[(name, EntryType::Regular, b"{}")]);
    let inside = "2026-11-21-quick-7f3k/x";
    for (bytes, reason) in [
        (whole[..whole.len() / 2].to_vec(), "cannot be read"),
        (b"no archive".to_vec(), "cannot be read"),
        (made(&[]), "no run in it"),
        (changed, "report.html has changed"),
        (file("../evil"), "`../evil` is not a file of a run"),
        (file("/tmp/evil"), "is not a file of a run"),
        (
            file("2026-11-21-quick-7f3k/../../evil"),
            "is not a file of a run",
        ),
        (file(".trash-x/run.json"), "is not a file of a run"),
        (
            file("2026-11-21-quick-7f3k/.lock"),
            "is not a file of a run",
        ),
        (file("run.json"), "is not a file of a run"),
        (file("x/run.json"), "x cannot be read"),
        (
            made(&[(inside, EntryType::Symlink, b"")]),
            "is not a regular file",
        ),
        (
            made(&[(inside, EntryType::Fifo, b"")]),
            "is not a regular file",
        ),
        (
            made(&[
                (inside, EntryType::Regular, b"a"),
                (inside, EntryType::Regular, b"b"),
            ]),
            "exists",
        ),
    ] {
        let there = tempfile::tempdir().unwrap();
        let root = there.path().join("runs");
        let error = import_runs(&root, &bytes[..], Path::new("a.tar.gz")).unwrap_err();
        assert!(error.to_string().contains(reason), "{reason}: {error}");
        // no files anywhere
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0, "{reason}");
        assert_eq!(fs::read_dir(there.path()).unwrap().count(), 1, "{reason}");
    }
}

/// A long name, or a PAX header of the next entry, is held in memory: a few kilobytes of archive
/// could expand to gigabytes.
#[test]
fn headers_without_end_are_not_held_in_memory() {
    for kind in [
        EntryType::GNULongName,
        EntryType::GNULongLink,
        EntryType::XHeader,
        EntryType::Directory,
    ] {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(6 << 30);
        header.set_cksum();
        let read = std::cell::Cell::new(0);
        // uncompressed data is counted as it is read
        let endless = Counted {
            head: header.as_bytes().to_vec(),
            read: &read,
        };
        let stored = flate2::read::GzEncoder::new(endless, Compression::none());
        let there = tempfile::tempdir().unwrap();
        let error = import_runs(there.path(), stored, Path::new("a.tar.gz")).unwrap_err();
        let reason = "the headers of an entry take more than 1 MiB";
        assert!(error.to_string().contains(reason), "{kind:?}: {error}");
        assert!(
            read.get() < 2 << 20,
            "{kind:?}: {} bytes were read",
            read.get()
        );
    }
}

/// One header, followed by the same byte forever.
struct Counted<'a> {
    head: Vec<u8>,
    read: &'a std::cell::Cell<usize>,
}

impl std::io::Read for Counted<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let at = self.read.get();
        assert!(at < 64 << 20, "it reads on");
        let n = match self.head.get(at..) {
            Some(head) if !head.is_empty() => {
                let n = head.len().min(to.len());
                to[..n].copy_from_slice(&head[..n]);
                n
            }
            _ => {
                to.fill(b'a');
                to.len()
            }
        };
        self.read.set(at + n);
        Ok(n)
    }
}
