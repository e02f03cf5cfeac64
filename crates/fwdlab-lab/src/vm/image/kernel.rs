//! Kernels in files: parses the header of a `bzImage`, and finds the modules of a kernel.
//!
//! Starts and unpacks nothing. Start with [`Kernel::at`]; the header is described in the kernel's
//! own Documentation/arch/x86/boot.rst.

use std::fs;
use std::path::{Path, PathBuf};

use super::cache::Entry;
use super::error::ImageError;
use super::packages::sha256_of;

/// A kernel that an emulator can start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The file.
    pub bzimage: PathBuf,
    /// `6.1.0-56-cloud-amd64`.
    pub release: String,
    /// The directory of its modules, which contains `modules.dep`; `None` if everything is built
    /// in.
    pub modules: Option<PathBuf>,
    /// SHA-256 of the file.
    pub sha256: String,
    /// The package that contained it.
    pub package: Option<Origin>,
    /// Its entry in the cache.
    pub(crate) entry: Option<Entry>,
}

/// The origin of a distribution's kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Name of the package.
    pub name: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of the package's file.
    pub sha256: String,
}

/// The result of parsing the first bytes of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// A kernel for x86-64, and its release.
    Kernel { release: String },
    /// A kernel that cannot be used, and why.
    Not(String),
    /// Not a kernel.
    Other,
}

impl Kernel {
    /// Returns the kernel in a file, with its modules in the given directory, or else in
    /// `lib/modules/RELEASE` next to the file or one level above, as for `boot/vmlinuz-RELEASE`.
    pub(super) fn at(
        file: &Path,
        release: String,
        modules: Option<&Path>,
    ) -> Result<Kernel, ImageError> {
        // the emulator may be started in another directory
        let absolute = |path: &Path| {
            std::path::absolute(path)
                .map_err(|e| ImageError::system(format!("find {}", path.display()), e))
        };
        let file = &absolute(file)?;
        let modules = match modules {
            Some(given) => Some(modules_in(&absolute(given)?, &release)?),
            None => {
                let beside = file
                    .parent()
                    .into_iter()
                    .flat_map(|folder| folder.ancestors().take(2));
                let mut candidates = beside.map(|folder| folder.join("lib/modules").join(&release));
                candidates.find(|folder| folder.is_dir())
            }
        };
        if let Some(folder) = modules
            .as_deref()
            .filter(|folder| !folder.join("modules.dep.bin").exists())
        {
            return Err(ImageError::not_usable(
                folder,
                format!(
                    "it has no modules.dep.bin, so no module could be loaded. Create it with depmod -b FOLDER {release}, where FOLDER contains lib/modules/{release}"
                ),
            ));
        }
        Ok(Kernel {
            bzimage: file.to_owned(),
            modules,
            sha256: sha256_of(file)?,
            package: None,
            entry: None,
            release,
        })
    }
}

/// Returns the directory of modules; `given` may be that directory or one that contains
/// `lib/modules/RELEASE`.
fn modules_in(given: &Path, release: &str) -> Result<PathBuf, ImageError> {
    let below = [given.join("lib/modules").join(release), given.join(release)];
    if let Some(found) = below.into_iter().find(|folder| folder.is_dir()) {
        return Ok(found);
    }
    let is_named_so = given.is_dir() && given.ends_with(release);
    match is_named_so || given.join("modules.dep").exists() {
        true => Ok(given.to_owned()),
        false => Err(ImageError::not_usable(
            given,
            format!(
                "it contains no modules of {release}. Name the folder with modules.dep, or one that contains lib/modules/{release} \
                 (make modules_install INSTALL_MOD_PATH=FOLDER)"
            ),
        )),
    }
}

/// Returns the kernel that was built in a source tree.
pub(super) fn in_build_tree(folder: &Path) -> Option<PathBuf> {
    let file = folder.join("arch/x86/boot/bzImage");
    file.is_file().then_some(file)
}

/// Returns the directory where the modules of a source tree were installed. Modules that were built
/// but not installed could not be loaded.
pub(super) fn modules_of_build_tree(
    folder: &Path,
    release: &str,
) -> Result<Option<PathBuf>, ImageError> {
    let installed = folder.join("lib/modules").join(release);
    if installed.is_dir() {
        return Ok(Some(installed));
    }
    let built = fs::read_to_string(folder.join("modules.order")).unwrap_or_default();
    match built.trim().is_empty() {
        true => Ok(None),
        false => Err(ImageError::not_usable(
            folder,
            format!(
                "its modules are built, but not installed. Run in that folder: make modules_install INSTALL_MOD_PATH={}; or name only the \
                 kernel: {}",
                folder.display(),
                folder.join("arch/x86/boot/bzImage").display()
            ),
        )),
    }
}

/// Parses the header of a file.
pub(super) fn header(file: &[u8]) -> Header {
    let not = |reason: &str| Header::Not(reason.to_owned());
    let at = |offset: usize, magic: &[u8]| {
        file.get(offset..)
            .is_some_and(|rest| rest.starts_with(magic))
    };
    if at(0x202, b"HdrS") {
        return bzimage(file);
    }
    if at(0x38, b"ARM\x64") {
        return not("it is a kernel for arm64; the emulated machine is an x86-64");
    }
    if at(0x30, b"RISCV") || at(0x38, b"RSC\x05") {
        return not("it is a kernel for RISC-V; the emulated machine is an x86-64");
    }
    if at(0, b"\x7fELF") {
        return not(match at(18, &[62, 0]) {
            true => {
                "it is an ELF file, such as vmlinux. Use the bzImage built from it: arch/x86/boot/bzImage in the build tree"
            }
            false => {
                "it is an ELF file for another processor; the emulated machine is an x86-64, and starts a bzImage"
            }
        });
    }
    Header::Other
}

fn bzimage(file: &[u8]) -> Header {
    let byte = |at: usize| file.get(at).copied().map(u32::from);
    let word = |at: usize| Some(byte(at)? | byte(at + 1)? << 8);
    let parse = || {
        let protocol = word(0x206)?;
        let flags = word(0x236)?;
        let sectors = match byte(0x1f1)? {
            0 => 4,
            sectors => sectors,
        };
        let paragraphs = word(0x1f4)? | word(0x1f6)? << 16;
        let whole = (u64::from(sectors) + 1) * 512 + u64::from(paragraphs) * 16;
        let text = file.get(word(0x20e)? as usize + 0x200..)?;
        let text = text.split(|&byte| byte == 0).next()?;
        let release = String::from_utf8_lossy(text).split(' ').next()?.to_owned();
        Some((protocol, flags, whole, release))
    };
    let Some((protocol, flags, whole, release)) = parse() else {
        return Header::Not("it ends within its header: was it copied completely?".into());
    };
    // from protocol 2.12 on, a bit shows whether there is a 64-bit entry point
    if protocol >= 0x20c && flags & 1 == 0 {
        return Header::Not("it is a kernel for 32 bits; the programs of the guest have 64".into());
    }
    if (file.len() as u64) < whole {
        let length = file.len();
        return Header::Not(format!(
            "it has {length} bytes of {whole}: was it copied completely?"
        ));
    }
    match release.is_empty() || release.contains('/') {
        true => Header::Not("its header names no release".into()),
        false => Header::Kernel { release },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a header without a kernel.
    pub(crate) fn made(release: &str) -> Vec<u8> {
        let mut file = vec![0; 4096];
        file[0x1f1] = 4;
        file[0x1f4] = 96; // 96 * 16 bytes after 5 * 512
        file[0x1fe..0x206].copy_from_slice(b"\x55\xaa\xeb\x66HdrS");
        file[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
        file[0x236] = 1;
        file[0x20e..0x210].copy_from_slice(&0x400_u16.to_le_bytes());
        let text = format!("{release} (me@here) #1 SMP\0");
        file[0x600..0x600 + text.len()].copy_from_slice(text.as_bytes());
        file
    }

    #[test]
    fn the_kernel_header_contains_the_release() {
        let whole = made("6.1.0-56-cloud-amd64");
        let release = "6.1.0-56-cloud-amd64".to_owned();
        assert_eq!(header(&whole), Header::Kernel { release });
    }

    #[test]
    fn kernels_that_cannot_boot_are_named() {
        let reason = |file: &[u8]| match header(file) {
            Header::Not(reason) => reason,
            other => format!("{other:?}"),
        };
        let whole = made("6.1.0");
        assert!(reason(&whole[..0x220]).contains("ends within its header"));
        assert!(reason(&whole[..4000]).contains("4000 bytes of 4096"));
        let mut narrow = whole.clone();
        narrow[0x236] = 0;
        assert!(reason(&narrow).contains("32 bits"));
        let mut arm = vec![0; 64];
        arm[0x38..0x3c].copy_from_slice(b"ARM\x64");
        assert!(reason(&arm).contains("arm64"));
        let own = fs::read("/proc/self/exe").unwrap();
        assert!(reason(&own).contains("bzImage"));
        assert_eq!(header(b"#!/bin/sh\n"), Header::Other);
        assert_eq!(header(b""), Header::Other);
    }

    #[test]
    fn modules_are_next_to_the_kernel_or_given() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("boot/vmlinuz-9.9");
        let modules = folder.path().join("lib/modules/9.9");
        fs::create_dir_all(folder.path().join("boot")).unwrap();
        fs::write(&file, made("9.9")).unwrap();
        let find = |given: Option<&Path>| Kernel::at(&file, "9.9".into(), given).map(|k| k.modules);
        assert_eq!(find(None).unwrap(), None);
        fs::create_dir_all(modules.join("kernel")).unwrap();
        assert!(find(None).unwrap_err().to_string().contains("depmod -b"));
        fs::write(modules.join("modules.dep.bin"), b"").unwrap();
        assert_eq!(find(None).unwrap().as_ref(), Some(&modules));
        assert_eq!(find(Some(&modules)).unwrap().as_ref(), Some(&modules));
        assert_eq!(find(Some(folder.path())).unwrap().as_ref(), Some(&modules));
        let elsewhere = folder.path().join("boot");
        assert!(
            find(Some(&elsewhere))
                .unwrap_err()
                .to_string()
                .contains("modules_install")
        );
    }
}
