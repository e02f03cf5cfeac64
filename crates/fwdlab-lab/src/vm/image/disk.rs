//! Disks: files with a whole system, in a format that the emulator reads.
//!
//! A disk is only ever used through a temporary overlay (`-snapshot`, or a qcow2 file with the disk
//! as its backing file): the image itself is opened read-only and never changes. Start with
//! [`Disk::at`].

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::ImageError;
use super::packages::program_command;
use crate::host::{Failure, Host, Limit, Local};

/// A file with a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Its absolute path, so that an overlay anywhere can refer to it.
    pub path: PathBuf,
    /// `qcow2`, `raw`, `vmdk`, by the emulator's name.
    pub format: String,
    /// The size that the guest sees; `None` if it cannot be determined here.
    pub virtual_bytes: Option<u64>,
    /// A key with which root may log in over SSH; `None`: the user's keys.
    pub key: Option<PathBuf>,
    /// The size of the file and its last change, in seconds since 1970: an identity without reading
    /// the file.
    pub identity: (u64, i64),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Info {
    format: String,
    virtual_size: u64,
}

impl Disk {
    pub(super) fn at(path: &Path) -> Result<Disk, ImageError> {
        let failed = |e| ImageError::system(format!("read {}", path.display()), e);
        let file = File::open(path).map_err(failed)?;
        let Some(format) = format(&file).map_err(failed)? else {
            return Err(ImageError::not_usable(
                path,
                "it is neither a disk (boot sector, qcow2, vmdk, vdi or vhdx) nor a kernel (bzImage). A compressed file \
                 must be unpacked first",
            ));
        };
        let meta = file.metadata().map_err(failed)?;
        let path = fs::canonicalize(path).map_err(failed)?;
        let changed = std::os::unix::fs::MetadataExt::mtime(&meta);
        let identity = (meta.len(), changed);
        if format == "raw"
            && let Some(reason) = cut(&file, meta.len()).map_err(failed)?
        {
            return Err(ImageError::not_usable(&path, reason));
        }
        let virtual_bytes = match query(&path, format)? {
            Some(info) if info.format == format => Some(info.virtual_size),
            Some(info) => {
                return Err(ImageError::not_usable(
                    &path,
                    format!(
                        "it begins as {format}, but qemu-img reads it as {}",
                        info.format
                    ),
                ));
            }
            None => match format {
                "raw" => Some(meta.len()),
                "qcow2" => Some(
                    qcow2_size(&file, meta.len())
                        .map_err(|reason| ImageError::not_usable(&path, reason))?,
                ),
                _ => None,
            },
        };
        Ok(Disk {
            path,
            format: format.to_owned(),
            virtual_bytes,
            key: None,
            identity,
        })
    }

    /// Creates an overlay that receives the machine's writes, so that this disk never changes.
    ///
    /// # Errors
    /// There is no qemu-img, the disk is in use or damaged by now, or there is no room.
    pub(crate) fn overlay(&self, file: &Path) -> Result<(), ImageError> {
        let [disk, overlay] = [&self.path, file].map(|path| path.to_string_lossy().into_owned());
        let create = [
            "create",
            "-q",
            "-f",
            "qcow2",
            "-b",
            &disk,
            "-F",
            &self.format,
            &overlay,
        ];
        match qemu_img(&self.path, &create)? {
            Some(_) => Ok(()),
            None => Err(ImageError::not_usable(
                &self.path,
                "a machine starts a disk through an overlay, which qemu-img makes, and there is no such program. Install it with: \
                 apt-get install qemu-utils",
            )),
        }
    }

    pub(super) fn words(&self) -> Vec<(&'static str, String)> {
        let (bytes, changed) = self.identity;
        vec![
            ("disk", self.path.display().to_string()),
            ("format", self.format.clone()),
            (
                "file",
                format!("{bytes} bytes, changed at {changed} s since 1970"),
            ),
        ]
    }
}

/// Returns what qemu-img reports; `None` if it is not installed.
fn query(path: &Path, format: &str) -> Result<Option<Info>, ImageError> {
    let text = path.to_string_lossy();
    // the format is explicit: a raw disk in which the guest wrote the header of another format must
    // not be read as that
    let info = [
        "info",
        "-f",
        format,
        "--output=json",
        "--backing-chain",
        &text,
    ];
    let Some(output) = qemu_img(path, &info)? else {
        return Ok(None);
    };
    let chain: Vec<Info> = parsed(path, &output)?;
    // only this check notices a truncated file
    if format == "qcow2" {
        qemu_img(path, &["check", "-q", "-f", format, &text])?;
    }
    Ok(chain.into_iter().next())
}

fn parsed<T: for<'a> Deserialize<'a>>(path: &Path, output: &[u8]) -> Result<T, ImageError> {
    serde_json::from_slice(output).map_err(|e| {
        ImageError::not_usable(
            path,
            format!("the output of qemu-img about it cannot be read: {e}"),
        )
    })
}

fn qemu_img(path: &Path, words: &[&str]) -> Result<Option<Vec<u8>>, ImageError> {
    if crate::programs::find("qemu-img").is_none() {
        return Ok(None);
    }
    let mut command = program_command("qemu-img", Path::new("/"));
    command.words.extend(words.iter().map(|&word| word.into()));
    match Local.run(&command.called("qemu-img"), Limit::OURS) {
        Ok(output) => Ok(Some(output.stdout)),
        Err(e) => match e.failure {
            // `check` found leaked clusters, which are harmless
            Failure::Exit { status, .. } if words[0] == "check" && status.ends_with(" 3") => {
                Ok(Some(Vec::new()))
            }
            Failure::Exit { said: printed, .. } => {
                Err(ImageError::not_usable(path, reason(&printed)))
            }
            _ => Err(e.into()),
        },
    }
}

/// Returns the message of qemu-img, and what to do about it.
fn reason(output: &str) -> String {
    let output = output.trim().trim_start_matches("qemu-img: ");
    let advice = match () {
        () if output.contains("\" lock") => {
            "Another emulator is using it: stop that one, or make a copy"
        }
        () if output.contains("backing file") || output.contains("No such file") => {
            "It contains only the differences from another disk: put that disk at the path where it is expected"
        }
        () => "Was it copied completely, and from a machine that was not running?",
    };
    format!(
        "qemu-img says: {}. {advice}",
        output.lines().next().unwrap_or("it is damaged")
    )
}

/// Determines the format from the first bytes; a file that begins with a boot sector or a file
/// system is a raw disk.
fn format(file: &File) -> std::io::Result<Option<&'static str>> {
    let mut start = Vec::new();
    file.take(1 << 12).read_to_end(&mut start)?;
    let at = |offset: usize, magic: &[u8]| {
        start
            .get(offset..)
            .is_some_and(|rest| rest.starts_with(magic))
    };
    let signs: [(usize, &[u8], &str); 8] = [
        (0, b"QFI\xfb", "qcow2"),
        (0, b"KDMV", "vmdk"),
        (0, b"# Disk DescriptorFile", "vmdk"),
        (0, b"vhdxfile", "vhdx"),
        (0x40, b"\x7f\x10\xda\xbe", "vdi"),
        (510, b"\x55\xaa", "raw"),  // boot sector
        (512, b"EFI PART", "raw"),  // GPT
        (1080, b"\x53\xef", "raw"), // ext4
    ];
    let found = signs
        .into_iter()
        .find(|(offset, magic, _)| at(*offset, magic));
    Ok(found.map(|(_, _, format)| format))
}

/// Returns why a raw disk must be truncated, if its partition table shows that.
fn cut(file: &File, length: u64) -> std::io::Result<Option<String>> {
    let mut start = [0; 1024];
    // a shorter file has no partition table
    if file.read_exact_at(&mut start, 0).is_err() {
        return Ok(None);
    }
    let end = end_of_partitions(&start);
    Ok((end > length).then(|| {
        format!(
            "it is truncated: its partitions end at byte {end}, and the file has {length}. Was it copied completely? If it was made this way, extend a copy of it: truncate -s {end} COPY"
        )
    }))
}

/// Returns the end of the last partition in bytes, from the first two blocks; 0 without a table.
fn end_of_partitions(start: &[u8; 1024]) -> u64 {
    const BLOCK: u64 = 512;
    let number = |at: usize, bytes: usize| {
        let of = &start[at..at + bytes];
        of.iter()
            .rev()
            .fold(0, |all, &byte| all << 8 | u64::from(byte))
    };
    // UEFI specification, table 5-5: the copy of this header is in the last block
    if start[512..].starts_with(b"EFI PART") {
        return number(512 + 32, 8).saturating_add(1).saturating_mul(BLOCK);
    }
    let entries = [446, 462, 478, 494];
    // the boot sector of a file system has other data there
    if entries.iter().any(|&at| start[at] & 0x7f != 0) {
        return 0;
    }
    let ends = entries.map(|at| match start[at + 4] {
        // empty, or the protective entry of a GPT
        0 | 0xee => 0,
        _ => (number(at + 8, 4) + number(at + 12, 4)) * BLOCK,
    });
    ends.into_iter().max().unwrap_or(0)
}

/// Reads the virtual size from the header, if qemu-img is missing.
fn qcow2_size(file: &File, length: u64) -> Result<u64, String> {
    let number = |at: u64| {
        let mut bytes = [0; 8];
        let read = file.read_exact_at(&mut bytes, at);
        read.map(|()| u64::from_be_bytes(bytes))
            .map_err(|_| "it ends within its header".to_owned())
    };
    // docs/interop/qcow2.txt: backing file at 8, size at 24, first table at 40
    match number(8)? {
        0 if number(40)? < length => number(24),
        0 => Err("it is truncated: its first table is beyond its end".into()),
        _ => Err(
            "it has a backing file, which only qemu-img can look at: apt-get install qemu-utils"
                .into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Command;

    fn qemu_img(words: &[&str]) {
        Local
            .run(&Command::new("qemu-img", words), Limit::OURS)
            .unwrap();
    }

    #[test]
    fn disk_formats_are_detected_like_the_emulator() {
        if crate::programs::find("qemu-img").is_none() {
            println!("SKIPPED: disk_formats_are_detected_like_the_emulator: no qemu-img");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for format in ["qcow2", "vmdk", "vdi", "vhdx"] {
            qemu_img(&["create", "-q", "-f", format, &path(format), "8M"]);
            let disk = Disk::at(Path::new(&path(format))).unwrap();
            assert_eq!(
                (disk.format.as_str(), disk.virtual_bytes),
                (format, Some(8 << 20))
            );
        }
        let mut raw = vec![0; 1 << 20];
        raw[510..512].copy_from_slice(b"\x55\xaa");
        fs::write(path("raw"), raw).unwrap();
        let disk = Disk::at(Path::new(&path("raw"))).unwrap();
        assert_eq!(
            (disk.format.as_str(), disk.virtual_bytes),
            ("raw", Some(1 << 20))
        );

        let reason = |name: &str| Disk::at(Path::new(&path(name))).unwrap_err().to_string();
        qemu_img(&[
            "create",
            "-q",
            "-f",
            "qcow2",
            "-b",
            &path("qcow2"),
            "-F",
            "qcow2",
            &path("over"),
        ]);
        fs::write(path("cut"), &fs::read(path("qcow2")).unwrap()[..70_000]).unwrap();
        assert!(
            reason("cut").contains("copied completely"),
            "{}",
            reason("cut")
        );
        fs::remove_file(path("qcow2")).unwrap();
        assert!(
            reason("over").contains("put that disk at the path"),
            "{}",
            reason("over")
        );
    }

    #[test]
    fn a_truncated_raw_disk_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let mut mbr = [0; 1024];
        mbr[510..512].copy_from_slice(b"\x55\xaa");
        assert_eq!(end_of_partitions(&mbr), 0);
        // active, FAT16, from block 2048 on, 2048 blocks
        mbr[446..462].copy_from_slice(b"\x80\0\0\0\x0e\0\0\0\0\x08\0\0\0\x08\0\0");
        assert_eq!(end_of_partitions(&mbr), 2 << 20);
        let mut gpt = mbr;
        gpt[450] = 0xee;
        assert_eq!(end_of_partitions(&gpt), 0);
        gpt[512..520].copy_from_slice(b"EFI PART");
        gpt[544..552].copy_from_slice(&8191_u64.to_le_bytes());
        assert_eq!(end_of_partitions(&gpt), 4 << 20);
        // a file system without partitions has code there
        let mut program = mbr;
        program[462] = 0x31;
        assert_eq!(end_of_partitions(&program), 0);

        for (length, is_whole) in [(2 << 20, true), (1 << 20, false)] {
            fs::write(&path, mbr).unwrap();
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(length)
                .unwrap();
            match Disk::at(&path) {
                Ok(disk) => assert!(is_whole, "{disk:?}"),
                Err(reason) => {
                    let reason = reason.to_string();
                    assert!(
                        !is_whole && reason.contains("truncate -s 2097152"),
                        "{reason}"
                    );
                }
            }
        }
    }

    /// Output of qemu-img 7.2 for a disk that a running emulator had open.
    #[test]
    fn a_disk_in_use_is_reported() {
        let output = "qemu-img: Could not open 'd': Failed to get shared \"write\" lock\nIs another process using the image [d]?\n";
        assert!(reason(output).contains("Another emulator is using it"));
    }

    #[test]
    fn without_qemu_img_the_header_is_sufficient() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let mut header = vec![0_u8; 72];
        header[..4].copy_from_slice(b"QFI\xfb");
        header[24..32].copy_from_slice(&(5_u64 << 30).to_be_bytes());
        header[40..48].copy_from_slice(&65536_u64.to_be_bytes());
        fs::write(&path, &header).unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(format(&file).unwrap(), Some("qcow2"));
        assert!(qcow2_size(&file, 72).unwrap_err().contains("truncated"));
        assert_eq!(qcow2_size(&file, 200_000), Ok(5 << 30));
    }
}
