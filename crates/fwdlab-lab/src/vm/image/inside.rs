//! Extracts the kernel of a whole disk: boots its system once, and copies the kernel over SSH.
//!
//! Instructions are counted in a guest of ours with the same kernel and the same modules, because
//! the rest of the disk would only disturb. The copy stays in the cache as long as the file does
//! not change. Start with [`kernel_of`].

use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::cache::{Cache, Entry, Facts, Kind, Report, write};
use super::debian::Depmod;
use super::disk::Disk;
use super::error::ImageError;
use super::kernel::{Header, Kernel, header};
use super::packages::{program_command, sha256_of};
use crate::error::LabError;
use crate::host::{Command, Failure, Host, HostError, Limit, Local, Ssh};
use crate::sys::hex;
use crate::vm::computer::{ADDRESS, Computer, Devices, Setup, System};
use crate::vm::kvm::fastest;
use crate::vm::login::{Inside, log_in};
use crate::vm::scratch::Scratch;

const MEMORY_MIB: u32 = 1024;
/// Paths of the running kernel on small systems, without the release in the name.
const KERNELS_WITHOUT_RELEASE: &[&str] = &["/boot/vmlinuz", "/boot/bzImage", "/vmlinuz"];

/// Returns the kernel that the system of a disk runs.
///
/// # Errors
/// The system does not boot, is not reachable over SSH as root, or is not Linux; or the operation
/// was stopped.
pub fn kernel_of(
    disk: &Disk,
    cache: &Cache,
    report: Report<'_>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Kernel, ImageError> {
    let mut sum = Sha256::new();
    let (bytes, changed) = disk.identity;
    sum.update(format!("{} {bytes} {changed}", disk.path.display()));
    let checksum = hex(&sum.finalize());
    let title = format!("the kernel of {}", disk.path.display());
    if let Some(entry) = cache.find(Kind::Image, &checksum, report) {
        return Ok(kernel(entry));
    }
    // find it first: it may come from the cache, too, in which only one thing is made at a time
    let depmod = Depmod::find(cache, report)?;
    let entry = cache.make(Kind::Image, &checksum, &title, report, |new, report| {
        fill_entry(disk, &depmod, new, report, is_stopped)
    })?;
    Ok(kernel(entry))
}

/// The name of the console log in the entry of the cache, from the boot that copied the kernel.
pub const CONSOLE: &str = "console.log";

fn kernel(entry: Entry) -> Kernel {
    let fact = |name: &str| entry.facts.get(name).cloned().unwrap_or_default();
    let release = fact("release");
    let modules = entry.path("lib/modules").join(&release);
    Kernel {
        bzimage: entry.path("bzImage"),
        modules: modules.is_dir().then_some(modules),
        sha256: fact("bzimage-sha256"),
        package: None,
        release,
        entry: Some(entry),
    }
}

/// Fills an entry of the cache.
fn fill_entry(
    disk: &Disk,
    depmod: &Depmod,
    new: &Path,
    report: Report<'_>,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Facts, ImageError> {
    let not = |reason: String| ImageError::not_usable(&disk.path, reason);
    let fastest = fastest();
    report(&format!(
        "booting {} once to take its kernel ({})",
        disk.path.display(),
        fastest.accelerator
    ));
    let failed = |error: LabError| not(error.to_string());
    let scratch = Scratch::new().map_err(failed)?;
    let setup = Setup {
        name: disk.path.display().to_string(),
        system: System::Disk(disk.clone()),
        cpus: 1,
        memory_mib: MEMORY_MIB,
        devices: Devices::Virtio,
        address: ADDRESS,
        ports: Vec::new(),
        folder: scratch.folder(1),
    };
    let computer = Computer::start(setup, fastest.accelerator, is_stopped).map_err(failed)?;
    let inside = log_in(
        &computer,
        disk.key.as_deref(),
        &scratch.folder(2),
        is_stopped,
    );
    let Inside {
        target,
        system: kernel,
    } = inside.map_err(not)?;
    let ssh = Ssh::new(target);
    let Some(release) = kernel.strip_prefix("Linux ") else {
        return Err(not(format!(
            "it runs {kernel}, and instructions are counted in Linux guests. fwdlab image boot starts it"
        )));
    };
    // it becomes the name of a directory of ours
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-+_.~".contains(c);
    if release.starts_with('.') || !release.chars().all(is_plain) {
        return Err(not(format!(
            "it calls its kernel `{}`",
            release.escape_debug()
        )));
    }
    let (from, bzimage) = kernel_file(&ssh, release).map_err(not)?;
    report(&format!("taking Linux {release} from {from}"));
    let path = new.join("bzImage");
    write(&path, &bzimage)?;
    modules(&ssh, release, new)?;
    let folder = new.join("lib/modules").join(release);
    if folder.is_dir() && !folder.join("modules.dep.bin").exists() {
        depmod.run(new, release)?;
    }
    write(&new.join(CONSOLE), computer.console().as_bytes())?;
    Ok([
        ("release".to_owned(), release.to_owned()),
        ("bzimage-sha256".to_owned(), sha256_of(&path)?),
        ("disk".to_owned(), disk.path.display().to_string()),
    ]
    .into())
}

/// Returns the kernel file of this release, and its path.
fn kernel_file(ssh: &Ssh, release: &str) -> Result<(String, Vec<u8>), String> {
    let with_release = [
        format!("/boot/vmlinuz-{release}"),
        format!("/lib/modules/{release}/vmlinuz"),
    ];
    let without = KERNELS_WITHOUT_RELEASE.iter().map(|&path| path.to_owned());
    let mut others = Vec::new();
    for path in with_release.into_iter().chain(without) {
        match ssh.read(&path) {
            Ok(file) => {
                if matches!(header(&file), Header::Kernel { release: found } if found == release) {
                    return Ok((path, file));
                }
                others.push(format!("{path}: another kernel"));
            }
            Err(HostError {
                failure: Failure::File(reason),
                ..
            }) => others.push(format!("{path}: {reason}")),
            Err(error) => return Err(error.to_string()),
        }
    }
    Err(format!(
        "it runs Linux {release}, which none of its files is: {}",
        others.join("; ")
    ))
}

/// Copies its modules, if it has any.
fn modules(ssh: &Ssh, release: &str, new: &Path) -> Result<(), ImageError> {
    let text = format!("cd /lib/modules/{release} 2>/dev/null || exit 0; tar -cf - .");
    let output = ssh.run(&Command::shell(&text), Limit::OURS)?;
    if output.stdout.is_empty() {
        return Ok(());
    }
    let folder = new.join("lib/modules").join(release);
    fs::create_dir_all(&folder)
        .map_err(|e| ImageError::system(format!("make {}", folder.display()), e))?;
    let archive = new.join("modules.tar");
    write(&archive, &output.stdout)?;
    let mut unpack = program_command("tar", Path::new("/"));
    let [from, to] = [&archive, &folder].map(|path| path.display().to_string());
    let words = ["--no-same-owner", "-xf", &from, "-C", &to];
    unpack.words.extend(words.map(str::to_owned));
    Local.run(&unpack.called("tar, the modules of the disk"), Limit::OURS)?;
    // links to sources, which do not exist here
    for link in ["build", "source"] {
        let _ = fs::remove_file(folder.join(link));
    }
    fs::remove_file(&archive)
        .map_err(|e| ImageError::system(format!("remove {}", archive.display()), e))
}
