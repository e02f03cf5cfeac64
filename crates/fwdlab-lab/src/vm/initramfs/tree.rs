//! A file system as values, its identity, and the archive that a kernel unpacks at boot.
//!
//! Does not know the purpose of the files. Start with [`Tree`]; the format is that of the kernel's
//! own Documentation/driver-api/early-userspace/buffer-format.rst, written by the crate `cpio`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::elf;
use crate::sys::hex;
use crate::vm::image::cache::{Cache, Entry};
use crate::vm::image::error::ImageError;

/// Version of the archives that this file writes: increase it to rebuild all of them.
const VERSION: u32 = 1;

/// Nodes by their paths, which have no leading slash.
#[derive(Debug, Default)]
pub(super) struct Tree(BTreeMap<String, Node>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Folder,
    Link(String),
    /// A character device's numbers.
    Device(u32, u32),
    Text(String),
    File(Source),
}

/// A file of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    /// True if its debug sections are cut.
    pub(super) is_cut: bool,
    mode: u32,
    bytes: u64,
    changed: (i64, i64),
}

impl Source {
    pub(super) fn at(path: &Path) -> Result<Source, ImageError> {
        let file = fs::metadata(path)
            .map_err(|e| ImageError::system(format!("look at {}", path.display()), e))?;
        Ok(Source {
            path: path.to_owned(),
            is_cut: false,
            // the guest runs as root, which may be its only user
            mode: if file.mode() & 0o111 == 0 {
                0o644
            } else {
                0o755
            },
            bytes: file.len(),
            changed: (file.mtime(), file.mtime_nsec()),
        })
    }
}

impl Tree {
    /// Adds a node, with its parent directories. If two files have the same path, the newer one is
    /// kept: libraries of packages and of this machine are from the same distribution, and newer
    /// ones work with programs that want older ones.
    pub(super) fn put(&mut self, path: &str, node: Node) {
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.0.entry(folder.to_owned()).or_insert(Node::Folder);
            self.put_folders(folder);
        }
        match (self.0.get(path), &node) {
            (Some(Node::File(old)), Node::File(new)) if old.changed >= new.changed => {}
            (Some(_), Node::Folder) => {}
            _ => _ = self.0.insert(path.to_owned(), node),
        }
    }

    fn put_folders(&mut self, mut path: &str) {
        while let Some((folder, _)) = path.rsplit_once('/') {
            self.0.entry(folder.to_owned()).or_insert(Node::Folder);
            path = folder;
        }
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// Returns an identity of the content, judged by the sizes and times of files.
    pub(super) fn identity(&self) -> String {
        let mut sum = Sha256::new();
        sum.update(format!("{VERSION}\n"));
        for (path, node) in &self.0 {
            sum.update(format!("{path:?} {node:?}\n"));
        }
        hex(&sum.finalize())
    }

    /// Writes the archive; files in one of these cache entries are verified against their
    /// checksums.
    pub(super) fn write(
        &self,
        file: &Path,
        origins: &[&Entry],
        cache: &Cache,
    ) -> Result<(), ImageError> {
        let failed = |e| ImageError::system(format!("write {}", file.display()), e);
        let mut out = BufWriter::with_capacity(1 << 18, File::create(file).map_err(failed)?);
        for (number, (path, node)) in (1..).zip(&self.0) {
            let content = match node {
                Node::Folder | Node::Device(..) => Vec::new(),
                Node::Link(target) => target.clone().into_bytes(),
                Node::Text(text) => text.clone().into_bytes(),
                Node::File(source) => source.read(origins, cache)?,
            };
            let (mode, (major, minor)) = match node {
                Node::Folder if path == "tmp" => (0o041_777, (0, 0)),
                Node::Folder => (0o040_755, (0, 0)),
                Node::Link(_) => (0o120_777, (0, 0)),
                Node::Device(major, minor) => (0o020_600, (*major, *minor)),
                Node::Text(_) => (0o100_644, (0, 0)),
                Node::File(source) => (0o100_000 | source.mode, (0, 0)),
            };
            let length = u32::try_from(content.len()).expect("no file here has 4 GB");
            let header = cpio::newc::Builder::new(path)
                .ino(number)
                .mode(mode)
                .rdev_major(major)
                .rdev_minor(minor);
            let mut writer = header.write(&mut out, length);
            writer
                .write_all(&content)
                .and_then(|()| writer.finish())
                .map_err(failed)?;
        }
        cpio::newc::trailer(&mut out)
            .and_then(|out| out.flush())
            .map_err(failed)
    }
}

impl Source {
    fn read(&self, origins: &[&Entry], cache: &Cache) -> Result<Vec<u8>, ImageError> {
        let failed = |e| ImageError::system(format!("read {}", self.path.display()), e);
        let content = fs::read(&self.path).map_err(failed)?;
        if let Some(entry) = origins
            .iter()
            .find(|entry| !entry.is_intact(&self.path, &content))
        {
            return Err(cache.damaged(entry));
        }
        match self.is_cut {
            false => Ok(content),
            true => elf::cut(&content).ok_or_else(|| {
                failed(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "it is not an ELF program for x86-64",
                ))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Command, Host, Limit, Local};

    fn small() -> Tree {
        let mut tree = Tree::default();
        tree.put("dev/console", Node::Device(5, 1));
        tree.put(
            "usr/bin/program",
            Node::File(Source::at(Path::new("/proc/self/exe")).unwrap()),
        );
        tree.put("bin", Node::Link("usr/bin".into()));
        tree.put("etc/hosts", Node::Text("127.0.0.1 localhost\n".into()));
        tree
    }

    #[test]
    fn an_archive_holds_what_was_put_into_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("archive");
        let cache = Cache::at(folder.path()).unwrap();
        small().write(&path, &[], &cache).unwrap();
        let mut rest = File::open(&path).unwrap();
        let mut found = Vec::new();
        loop {
            let mut reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let mut content = Vec::new();
            io::Read::read_to_end(&mut reader, &mut content).unwrap();
            let entry = reader.entry();
            found.push((entry.name().to_owned(), entry.mode() >> 12, content.len()));
            rest = reader.finish().unwrap();
        }
        let program = fs::metadata("/proc/self/exe").unwrap().len() as usize;
        let expected = [
            ("bin", 0o12, 7),
            ("dev", 0o4, 0),
            ("dev/console", 0o2, 0),
            ("etc", 0o4, 0),
            ("etc/hosts", 0o10, 20),
            ("usr", 0o4, 0),
            ("usr/bin", 0o4, 0),
            ("usr/bin/program", 0o10, program),
        ];
        assert_eq!(
            found,
            expected.map(|(name, kind, length)| (name.to_owned(), kind, length))
        );
    }

    #[test]
    fn cpio_reads_the_same() {
        if crate::programs::find("cpio").is_none() {
            println!("SKIPPED: cpio_reads_the_same: no cpio");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("archive");
        let cache = Cache::at(folder.path()).unwrap();
        let tree = small();
        tree.write(&path, &[], &cache).unwrap();
        let line = format!("cpio -t --quiet < {}", path.display());
        let output = Local.run(&Command::shell(&line), Limit::OURS).unwrap();
        let names: Vec<&str> = tree.0.keys().map(String::as_str).collect();
        assert_eq!(output.text().lines().collect::<Vec<_>>(), names);
    }

    #[test]
    fn another_content_is_another_identity() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let identity = |text: &str| {
            fs::write(&path, text).unwrap();
            let mut tree = small();
            tree.put("file", Node::File(Source::at(&path).unwrap()));
            tree.identity()
        };
        let (first, other) = (identity("a"), identity("bb"));
        assert_ne!(first, other);
        assert_eq!(small().identity(), small().identity());
    }
}
