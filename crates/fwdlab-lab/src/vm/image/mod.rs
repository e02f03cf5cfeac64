//! Images: what a guest is started from, found by name.
//!
//! An image is a kernel of the distribution, a kernel in a file, or a whole disk; nothing in here
//! starts one. Start with [`Image::find`]; downloads are kept in [`cache`].
//!
//! | name | what it is |
//! |---|---|
//! | `debian:PACKAGE` or `debian:PACKAGE=VERSION` | a kernel of the archive that this machine's package manager uses |
//! | a folder | a kernel's source tree with a kernel built in it |
//! | a file that is a `bzImage`, or `FILE,modules=FOLDER` | that kernel |
//! | any other file, or `FILE,key=FILE` | a disk, and an SSH key with which root may log in there |
//! | any of these followed by `,mitigations` | the same, with the kernel's mitigations of processor faults |

pub mod cache;
mod debian;
pub mod disk;
pub mod error;
pub mod inside;
pub mod kernel;
pub(crate) mod packages;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use cache::{Cache, Report};
use disk::Disk;
use error::ImageError;
use kernel::{Header, Kernel};

/// The suffix of an image whose kernel mitigates the faults of its processor.
const MITIGATIONS: &str = ",mitigations";

/// What a guest is started from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The requested name.
    pub name: String,
    /// Its kind.
    pub kind: ImageKind,
    /// True if instructions are counted with the kernel's mitigations of processor faults.
    pub mitigations: bool,
}

/// The two kinds of images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageKind {
    /// A kernel; we create the guest's file system.
    Kernel(Kernel),
    /// A whole system.
    Disk(Disk),
}

impl Image {
    /// Returns the image with this name; downloads it if needed.
    ///
    /// # Errors
    /// It does not exist, it is not an image for x86-64, or it cannot be downloaded.
    pub fn find(name: &str, cache: &Cache, report: Report<'_>) -> Result<Image, ImageError> {
        Image::find_as(name, false, cache, report)
    }

    /// The same, but queries the archive even if the name is in the cache, because a package may
    /// depend on a newer kernel by now.
    ///
    /// # Errors
    /// As for [`Image::find`], and also without a network.
    pub fn pull(name: &str, cache: &Cache, report: Report<'_>) -> Result<Image, ImageError> {
        Image::find_as(name, true, cache, report)
    }

    /// Returns the archive's images of one flavour between these two versions, inclusive, in order
    /// from the first to the second.
    ///
    /// # Errors
    /// They are not packages with a kernel of one flavour, or the archive cannot be queried.
    pub fn between(
        first: &str,
        last: &str,
        cache: &Cache,
        report: Report<'_>,
    ) -> Result<Vec<String>, ImageError> {
        debian::between(first, last, cache, report)
    }

    fn find_as(
        name: &str,
        refresh: bool,
        cache: &Cache,
        report: Report<'_>,
    ) -> Result<Image, ImageError> {
        let (of, mitigations) = match name.strip_suffix(MITIGATIONS) {
            Some(of) => (of, true),
            None => (name, false),
        };
        let kind = match of.strip_prefix("debian:") {
            Some(package) => ImageKind::Kernel(debian::find(package, refresh, cache, report)?),
            None => in_files(of)?,
        };
        Ok(Image {
            name: name.to_owned(),
            kind,
            mitigations,
        })
    }

    /// Returns what identifies the image, as pairs of words for results.
    pub fn words(&self) -> Vec<(&'static str, String)> {
        match &self.kind {
            ImageKind::Kernel(kernel) => {
                let mut words = vec![("kernel", kernel.release.clone())];
                if self.mitigations {
                    words.push(("mitigations", "as the kernel chooses".into()));
                }
                if let Some(package) = &kernel.package {
                    words.push(("package", format!("{} {}", package.name, package.version)));
                    words.push(("package sha256", package.sha256.clone()));
                }
                words.push(("bzImage sha256", kernel.sha256.clone()));
                words
            }
            ImageKind::Disk(disk) => disk.words(),
        }
    }
}

fn in_files(name: &str) -> Result<ImageKind, ImageError> {
    if let Some((path, key)) = name.split_once(",key=") {
        let file = Path::new(key);
        let key = fs::canonicalize(file)
            .map_err(|e| ImageError::system(format!("read the key {key}"), e))?;
        return match in_files(path)? {
            ImageKind::Disk(disk) => Ok(ImageKind::Disk(Disk {
                key: Some(key),
                ..disk
            })),
            ImageKind::Kernel(_) => Err(ImageError::not_usable(
                Path::new(path),
                "a key is given, but it is a kernel, which has no login",
            )),
        };
    }
    let (path, modules) = match name.split_once(",modules=") {
        Some((path, modules)) => (path, Some(Path::new(modules))),
        None => (name, None),
    };
    let path = Path::new(path);
    let kind = fs::metadata(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => ImageError::Unknown {
            name: name.to_owned(),
            reason: "no such file. An image is debian:PACKAGE, a kernel (bzImage), a folder where one was built, or a disk".into(),
        },
        _ => ImageError::system(format!("look at {}", path.display()), e),
    })?;
    if kind.is_dir() {
        let Some(file) = kernel::in_build_tree(path) else {
            return Err(ImageError::not_usable(
                path,
                "it is a folder, and no kernel was built in it: there is no arch/x86/boot/bzImage",
            ));
        };
        let release = release(&file)?;
        let installed = match modules {
            Some(given) => Some(given.to_owned()),
            None => kernel::modules_of_build_tree(path, &release)?,
        };
        return Ok(ImageKind::Kernel(Kernel::at(
            &file,
            release,
            installed.as_deref(),
        )?));
    }
    if kind.len() == 0 && kind.is_file() {
        return Err(ImageError::not_usable(path, "it is empty"));
    }
    match header(path)? {
        Header::Kernel { release } => Ok(ImageKind::Kernel(Kernel::at(path, release, modules)?)),
        Header::Not(cause) => Err(ImageError::not_usable(path, cause)),
        Header::Other if modules.is_some() => Err(ImageError::not_usable(
            path,
            "modules are given, but it is not a kernel (bzImage)",
        )),
        Header::Other => Ok(ImageKind::Disk(Disk::at(path)?)),
    }
}

fn release(file: &Path) -> Result<String, ImageError> {
    match header(file)? {
        Header::Kernel { release } => Ok(release),
        Header::Not(reason) => Err(ImageError::not_usable(file, reason)),
        Header::Other => Err(ImageError::not_usable(file, "it is not a kernel (bzImage)")),
    }
}

/// Parses the header in the first 64 MB: kernels are smaller, and disks larger.
fn header(path: &Path) -> Result<Header, ImageError> {
    let failed = |e| ImageError::system(format!("read {}", path.display()), e);
    let mut start = Vec::new();
    let mut file = File::open(path).map_err(failed)?.take(1 << 12);
    file.read_to_end(&mut start).map_err(failed)?;
    if kernel::header(&start) == Header::Other {
        return Ok(Header::Other);
    }
    file.set_limit(1 << 26);
    file.read_to_end(&mut start).map_err(failed)?;
    Ok(kernel::header(&start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(name: &Path) -> String {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let name = name.to_str().unwrap();
        Image::find(name, &cache, &mut |_| {})
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn an_invalid_image_name_is_refused_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            path
        };
        assert!(why(&folder.path().join("absent")).contains("no such file"));
        assert!(why(Path::new("ubuntu:linux-image")).contains("debian:PACKAGE"));
        assert!(why(folder.path()).contains("it is a folder"));
        assert!(why(&path("empty", b"")).contains("it is empty"));
        assert!(why(&path("text", b"#!/bin/sh\n")).contains("neither a disk"));
        assert!(why(Path::new("/proc/self/exe")).contains("ELF"));
    }

    #[test]
    fn a_build_tree_is_a_kernel_once_its_modules_are_installed() {
        let folder = tempfile::tempdir().unwrap();
        let boot = folder.path().join("arch/x86/boot");
        fs::create_dir_all(&boot).unwrap();
        fs::write(boot.join("bzImage"), kernel::tests::made("6.99.0")).unwrap();
        let cache = Cache::at(&folder.path().join("cache")).unwrap();
        let named = |more: &str| {
            let name = format!("{}{more}", folder.path().display());
            Image::find(&name, &cache, &mut |_| {})
        };
        let find = || Ok::<_, ImageError>(named("")?.words());
        assert_eq!(find().unwrap()[0], ("kernel", "6.99.0".into()));
        let (plain, other) = (named("").unwrap(), named(",mitigations").unwrap());
        assert!(!plain.mitigations && other.mitigations && plain.kind == other.kind);
        fs::write(folder.path().join("modules.order"), "net/ipv4/x.ko\n").unwrap();
        assert!(find().unwrap_err().to_string().contains("INSTALL_MOD_PATH"));
        let modules = folder.path().join("lib/modules/6.99.0");
        fs::create_dir_all(&modules).unwrap();
        fs::write(modules.join("modules.dep.bin"), b"").unwrap();
        find().unwrap();
    }
}
