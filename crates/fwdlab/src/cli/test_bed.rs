//! Test beds by name: finds the file, and prepares the test bed for a command.
//!
//! `fwdlab_model::test_bed` defines the file, the lab checks it against reality. Start with
//! [`find`] and [`host`].

use std::path::{Path, PathBuf};

use fwdlab_lab::placement::Placement;
use fwdlab_lab::site::{Site, existing};
use fwdlab_lab::user_namespace;
use fwdlab_lab::vm::image::cache::Cache;
use fwdlab_lab::vm::image::disk::Disk;
use fwdlab_lab::vm::image::{Image, ImageKind};
use fwdlab_lab::vm::kvm::fastest;
use fwdlab_model::file::Step;
use fwdlab_model::test_bed::{BedFile, Place, TestBed, WholeMachine};

use crate::exit_code::Usage;
use crate::output;

/// The folder of test beds, next to the file that names them or next to that file's folder.
const FOLDER: &str = "beds";

/// Reads a test bed: a path, or the name of a file in a folder `beds` in `beside`, in its parent,
/// or in the current directory.
///
/// # Errors
/// If there is no such test bed, or its file is invalid.
pub fn find(beside: &Path, name: &str) -> anyhow::Result<BedFile> {
    let path = path_of(beside, name).map_err(Usage)?;
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Usage(format!("cannot read {}: {error}", path.display())))?;
    Ok(BedFile::parse(&path.display().to_string(), &text)?)
}

fn path_of(beside: &Path, name: &str) -> Result<PathBuf, String> {
    if name.contains('/') || name.ends_with(".toml") {
        let path = beside.join(name);
        // typed paths are relative to the current directory
        return Ok(match path.exists() {
            true => path,
            false => PathBuf::from(name),
        });
    }
    let file = format!("{name}.toml");
    let mut folders = vec![beside.join(FOLDER), beside.join("..").join(FOLDER)];
    if !folders.contains(&PathBuf::from(FOLDER)) {
        folders.push(PathBuf::from(FOLDER));
    }
    if let Some(path) = folders.iter().map(|f| f.join(&file)).find(|p| p.exists()) {
        return Ok(path);
    }
    let known: Vec<String> = folders.iter().flat_map(|folder| names_in(folder)).collect();
    let looked: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
    Err(format!(
        "there is no test bed `{name}` in {}{}. Make one with: fwdlab new bed {name}",
        looked.join(", "),
        match known.is_empty() {
            true => String::new(),
            false => format!("; there are {}", known.join(", ")),
        }
    ))
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    let beds = files.filter(|path| path.extension().is_some_and(|of| of == "toml"));
    let mut names: Vec<String> = beds
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

/// Returns a test bed for planning: a DUT of this kind on hosts that need not exist.
///
/// # Errors
/// If there is no such kind.
pub fn planning_bed(kind: &str) -> anyhow::Result<TestBed> {
    let dut = match kind {
        "none" => "",
        _ => "host = \"ssh://dut\"\nports = { a = \"eth1\", b = \"eth2\" }",
    };
    let text = format!(
        "bed = \"any\"\n[generator]\nhost = \"ssh://tester\"\nports = {{ a = \"eth1\", b = \"eth2\" }}\n[dut]\nkind = \"{kind}\"\n{dut}\n"
    );
    TestBed::parse("--dut", &text).map_err(|error| {
        let (_, reason) = error.to_string().split_once(": ").map_or_else(
            || (String::new(), error.to_string()),
            |(at, reason)| (at.to_owned(), reason.to_owned()),
        );
        Usage(format!("--dut {kind}: {reason}")).into()
    })
}

/// Returns the hosts of a test bed, and the placement.
///
/// # Errors
/// If an address is invalid or a CPU does not exist.
pub fn host(bed: &TestBed) -> anyhow::Result<(Site, Placement)> {
    if !is_all_remote(bed) && !user_namespace::is_root() {
        return Err(Usage(format!(
            "the test bed {} has ports on this machine, which only root may use; run this command with sudo",
            bed.name
        ))
        .into());
    }
    let program = std::env::current_exe()?;
    let placement = existing::placement(bed)?;
    Ok((Site::existing(bed.clone(), &program)?, placement))
}

/// Returns a disk that boots as a whole machine, and the placement.
///
/// # Errors
/// If there is no such disk, or without root: the tester's ports are on this machine.
pub fn machine(bed: &WholeMachine) -> anyhow::Result<(Site, Placement)> {
    let disk = disk(bed)?;
    if !user_namespace::is_root() {
        return Err(Usage(format!(
            "the test bed {} has ports on this machine, which only root may create; run this command with sudo",
            bed.name
        ))
        .into());
    }
    output::note(&format!(
        "machine   {} starts in {} when it is needed; an emulated system takes minutes to start",
        disk.path.display(),
        fastest()
    ));
    let program = std::env::current_exe()?;
    let notes = [
        ("generator", "any CPU: the machine has its own threads"),
        (
            "dut",
            "not pinned: it runs on CPUs of the machine that executes it",
        ),
    ];
    let placement = Placement {
        notes: notes
            .map(|(who, words)| (who.to_owned(), words.to_owned()))
            .into(),
        ..Placement::default()
    };
    Ok((Site::for_machine(bed.clone(), disk, &program), placement))
}

/// Returns the disk of a whole machine.
///
/// # Errors
/// If there is no such image, or it is a kernel.
pub fn disk(bed: &WholeMachine) -> anyhow::Result<Disk> {
    let wrong = |reason: String| {
        bed.origin
            .error(&[Step::Key("dut"), Step::Key("host")], reason)
    };
    let found = Cache::for_user()
        .and_then(|cache| Image::find(&bed.image, &cache, &mut |_| {}))
        .map_err(|error| wrong(error.to_string()))?;
    match found.kind {
        ImageKind::Disk(disk) => Ok(disk),
        ImageKind::Kernel(_) => Err(wrong(format!(
            "vm:{} is a kernel, and a machine that starts as a whole needs a disk. Omit machine to count instructions in it",
            bed.image
        ))
        .into()),
    }
}

/// Returns true if the image of a test bed is the file of a disk.
pub fn is_disk(image: &str) -> bool {
    // a package is a kernel, and is not downloaded to find that out
    let is_file = !image.starts_with("debian:");
    let found = || Image::find(image, &Cache::for_user().ok()?, &mut |_| {}).ok();
    is_file && found().is_some_and(|image| matches!(image.kind, ImageKind::Disk(_)))
}

/// Returns true if all hosts are remote. Nothing of this machine is needed then, and no privileges.
fn is_all_remote(bed: &TestBed) -> bool {
    let is_far = |place: &Place| matches!(place, Place::Ssh(_));
    let mut ports = bed.tester_ports().into_iter();
    ports.all(|port| is_far(port.host)) && bed.dut.host.as_ref().is_none_or(is_far)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_known_without_a_download() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("router.img");
        let mut sectors = vec![0; 1 << 20];
        sectors[510..512].copy_from_slice(&[0x55, 0xaa]);
        std::fs::write(&file, sectors).unwrap();
        assert!(is_disk(&file.display().to_string()));
        assert!(!is_disk("debian:linux-image-amd64"));
        assert!(!is_disk("/no/such/file"));
    }

    #[test]
    fn a_test_bed_is_found_in_sibling_and_parent_directories() {
        let lab = tempfile::tempdir().unwrap();
        let at = |name: &str| lab.path().join(name);
        for folder in ["beds", "campaigns"] {
            std::fs::create_dir(at(folder)).unwrap();
        }
        for name in ["rack1", "rack2"] {
            std::fs::write(at("beds").join(format!("{name}.toml")), "").unwrap();
        }
        for beside in [lab.path().to_owned(), at("campaigns")] {
            let found = path_of(&beside, "rack1").unwrap();
            assert!(found.ends_with("beds/rack1.toml"), "{found:?}");
            let found = path_of(&beside, "beds/rack1.toml").unwrap();
            assert!(found.ends_with("beds/rack1.toml"), "{found:?}");
            let reason = path_of(&beside, "rack3").unwrap_err();
            assert!(
                reason.contains("there are rack1, rack2")
                    && reason.contains("fwdlab new bed rack3"),
                "{reason}"
            );
        }
    }
}
