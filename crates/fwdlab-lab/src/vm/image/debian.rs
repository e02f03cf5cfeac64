//! `debian:PACKAGE`: kernels of the distribution that runs on this machine, by the names of their
//! packages.
//!
//! Downloads and unpacks packages, but installs nothing; [`super::packages`] does the download.
//! Start with [`find`].

use std::fs;
use std::path::{Path, PathBuf};

use super::cache::{Cache, Entry, Facts, Kind, Report, entries, make_folder};
use super::error::ImageError;
use super::kernel::{Header, Kernel, Origin, header};
use super::packages::{self, Apt, Package, program_command, with_lists};
use crate::host::{Host, Limit, Local};

/// Number of similar names that are listed if a name does not exist.
const NEAREST: usize = 5;

/// Returns the kernel of a package: `linux-image-6.1.0-56-cloud-amd64`, or a package that depends
/// on one, either with `=VERSION`.
///
/// A name that was requested before needs no network, unless `refresh` is set: then a package that
/// now depends on a newer kernel returns that one.
pub(super) fn find(
    package: &str,
    refresh: bool,
    cache: &Cache,
    report: Report<'_>,
) -> Result<Kernel, ImageError> {
    let name = format!("debian:{package}");
    if !refresh
        && let Some(checksum) = cache.checksum_of(&name)
        && let Some(entry) = cache.find(Kind::Image, &checksum, report)
    {
        return kernel(entry);
    }
    let depmod = Depmod::find(cache, report)?;
    let mut cause = String::new();
    let requested = with_lists(cache, report, |apt, report| {
        let Some(packages) = resolve(apt, package)? else {
            cause = unknown(apt, package);
            return Ok(None);
        };
        make(apt, &packages, &depmod, cache, report).map(Some)
    });
    let requested = requested.map_err(|e| match e {
        ImageError::NotFetched {
            item: what,
            reason: cause,
        } => ImageError::NotFetched {
            item: what,
            reason: format!(
                "{cause}. What is in the cache needs no network{}",
                in_cache(cache)
            ),
        },
        e => e,
    })?;
    let Some(entry) = requested.found else {
        if let Some(not_updated) = requested.not_updated {
            cause = format!(
                "{cause}. The package lists may be old, and new ones could not be had: {not_updated}"
            );
        }
        return Err(ImageError::Unknown {
            name,
            reason: cause,
        });
    };
    let checksum = entry.facts.get("package-sha256").cloned();
    cache.keep_name(&name, &checksum.unwrap_or_default())?;
    kernel(entry)
}

/// Returns the kernels of one flavour between these two versions, inclusive, in order from the
/// first to the second.
pub(super) fn between(
    first: &str,
    last: &str,
    cache: &Cache,
    report: Report<'_>,
) -> Result<Vec<String>, ImageError> {
    let parts = |name: &str| {
        let package = name.strip_prefix("debian:").unwrap_or_default();
        let (version, flavour) = parts_of_name(package).ok_or_else(|| ImageError::Unknown {
            name: name.to_owned(),
            reason: "only kernels like debian:linux-image-6.1.0-56-cloud-amd64 have others between them. List the images in a file".into(),
        })?;
        Ok::<_, ImageError>((version.to_owned(), flavour.to_owned()))
    };
    let ((low, flavour), (high, other)) = (parts(first)?, parts(last)?);
    if flavour != other {
        return Err(ImageError::Unknown {
            name: last.to_owned(),
            reason: format!(
                "{first} is of another flavour, {flavour}: no order of the two is known. List the images in a file"
            ),
        });
    }
    let all = with_lists(cache, report, |apt, _| {
        let names = apt.names("linux-image-");
        Ok(Some(names).filter(|names| !names.is_empty()))
    })?;
    let known = all.found.unwrap_or_default();
    Ok(in_between(&low, &high, &flavour, &known))
}

/// Returns `6.1.0-56` and `cloud-amd64` for `linux-image-6.1.0-56-cloud-amd64`; `None` for packages
/// that only depend on such a one.
fn parts_of_name(package: &str) -> Option<(&str, &str)> {
    let rest = package.strip_prefix("linux-image-")?;
    let at = rest
        .match_indices('-')
        .find(|(at, _)| rest[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic()))?
        .0;
    let (version, flavour) = (&rest[..at], &rest[at + 1..]);
    let is_kernel = version.starts_with(|c: char| c.is_ascii_digit())
        && version.matches('.').count() >= 2
        && !flavour.contains('=');
    is_kernel.then_some((version, flavour))
}

fn in_between(first: &str, last: &str, flavour: &str, known: &[String]) -> Vec<String> {
    let is_up = compare_versions(first, last).is_le();
    let (low, high) = if is_up { (first, last) } else { (last, first) };
    let own = known.iter().filter_map(|name| parts_of_name(name));
    let mut versions: Vec<&str> = own
        .filter(|(version, own)| {
            *own == flavour
                && compare_versions(low, version).is_lt()
                && compare_versions(version, high).is_lt()
        })
        .map(|(version, _)| version)
        .collect();
    versions.extend([low, high]);
    versions.sort_by(|a, b| compare_versions(a, b));
    versions.dedup();
    if !is_up {
        versions.reverse();
    }
    let names = versions.into_iter();
    names
        .map(|version| format!("debian:linux-image-{version}-{flavour}"))
        .collect()
}

/// Compares versions without an epoch like dpkg (deb-version(7)): alternates between non-digits,
/// where a tilde sorts before the end and letters before other characters, and numbers.
fn compare_versions(a: &str, b: &str) -> std::cmp::Ordering {
    let weight = |byte: Option<&u8>| match byte {
        Some(b'~') => -1,
        None => 0,
        Some(digit) if digit.is_ascii_digit() => 0,
        Some(letter) if letter.is_ascii_alphabetic() => i32::from(*letter),
        Some(other) => 256 + i32::from(*other),
    };
    let number = |text: &[u8]| {
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
        let length = digits.clone().count();
        let value = digits.fold(0u128, |sum, digit| {
            sum.saturating_mul(10)
                .saturating_add(u128::from(digit - b'0'))
        });
        (length, value)
    };
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    loop {
        let is_word = |text: &[u8]| text.first().is_some_and(|byte| !byte.is_ascii_digit());
        while is_word(a) || is_word(b) {
            let order = weight(a.first()).cmp(&weight(b.first()));
            if order.is_ne() {
                return order;
            }
            (a, b) = (&a[1..], &b[1..]);
        }
        let ((length_a, value_a), (length_b, value_b)) = (number(a), number(b));
        let order = value_a.cmp(&value_b);
        (a, b) = (&a[length_a..], &b[length_b..]);
        if order.is_ne() || a.is_empty() && b.is_empty() {
            return order;
        }
    }
}

fn in_cache(cache: &Cache) -> String {
    let names = cache
        .list()
        .into_iter()
        .filter(|kept| kept.kind == Kind::Image)
        .flat_map(|kept| kept.names);
    let names: Vec<String> = names.collect();
    match names.is_empty() {
        true => ", but there is no image in it yet".into(),
        false => format!(": {}", names.join(", ")),
    }
}

/// Returns the package with the kernel, and those with its modules if they are separate, as on
/// Ubuntu.
fn resolve(apt: &Apt, name: &str) -> Result<Option<Vec<Package>>, ImageError> {
    let mut name = name.to_owned();
    // a metapackage may depend on another metapackage
    for _ in 0..5 {
        let Some(package) = apt.look_up(&name)? else {
            return Ok(None);
        };
        let of = |prefix: &'static str| {
            let all = package
                .depends
                .iter()
                .filter(move |(name, _)| name.starts_with(prefix));
            all.map(|(name, version)| match version {
                Some(version) => format!("{name}={version}"),
                None => name.clone(),
            })
        };
        let Some(next) = of("linux-image-").next() else {
            // do not download other packages to inspect them: debug symbols alone have a gigabyte
            if !package.name.starts_with("linux-image-") || package.name.ends_with("-dbg") {
                return Ok(None);
            }
            let mut all = Vec::new();
            for modules in of("linux-modules-") {
                all.extend(apt.look_up(&modules)?);
            }
            all.insert(0, package);
            return Ok(Some(all));
        };
        name = next;
    }
    Ok(None)
}

fn make(
    apt: &Apt,
    packages: &[Package],
    depmod: &Depmod,
    cache: &Cache,
    report: Report<'_>,
) -> Result<Entry, ImageError> {
    let package = &packages[0];
    let title = format!("{} {}", package.name, package.version);
    cache.make(
        Kind::Image,
        &package.sha256,
        &title,
        report,
        |new, report| {
            let bytes: u64 = packages.iter().map(|package| package.bytes).sum();
            report(&format!(
                "downloading {title} ({:.0} MB)",
                bytes as f64 / 1e6
            ));
            // the rest of the packages is outside the entry, and is removed with the temporary
            // directory
            let (files, tree) = (new.with_extension("packages"), new.with_extension("tree"));
            let fetched = apt.download(packages, &files)?;
            report(&format!("unpacking {title}"));
            for file in fetched {
                packages::unpack(&file, &tree)?;
            }
            let release = keep(&package.name, &tree, new)?;
            depmod.run(new, &release)?;
            for done in [files, tree] {
                fs::remove_dir_all(&done)
                    .map_err(|e| ImageError::system(format!("remove {}", done.display()), e))?;
            }
            Ok(Facts::from([
                ("package".into(), package.name.clone()),
                ("version".into(), package.version.clone()),
                ("package-sha256".into(), package.sha256.clone()),
                (
                    "bzimage-sha256".into(),
                    packages::sha256_of(&new.join("bzImage"))?,
                ),
                ("release".into(), release),
            ]))
        },
    )
}

/// Moves the kernel, its configuration, and its modules to their final paths; returns the kernel's
/// release.
fn keep(package: &str, tree: &Path, new: &Path) -> Result<String, ImageError> {
    let moved = |from: &Path, to: &Path| {
        fs::rename(from, to).map_err(|e| {
            ImageError::system(format!("move {} to {}", from.display(), to.display()), e)
        })
    };
    let is_kernel = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|n| n.to_string_lossy().starts_with("vmlinuz-"))
    };
    let Some(file) = entries(&tree.join("boot")).find(is_kernel) else {
        return Err(ImageError::Unknown {
            name: format!("debian:{package}"),
            reason: "there is such a package, but no kernel in it".into(),
        });
    };
    let content =
        fs::read(&file).map_err(|e| ImageError::system(format!("read {}", file.display()), e))?;
    let release = match header(&content) {
        Header::Kernel { release } => release,
        Header::Not(cause) => return Err(ImageError::not_usable(&file, cause)),
        Header::Other => return Err(ImageError::not_usable(&file, "it is not a bzImage")),
    };
    moved(&file, &new.join("bzImage"))?;
    let config = tree.join(format!("boot/config-{release}"));
    if config.exists() {
        moved(&config, &new.join("config"))?;
    }
    make_folder(&new.join("lib/modules"))?;
    let modules = ["lib/modules", "usr/lib/modules"].map(|folder| tree.join(folder).join(&release));
    match modules.iter().find(|folder| folder.is_dir()) {
        Some(folder) => moved(folder, &new.join("lib/modules").join(&release))?,
        None => {
            return Err(ImageError::not_usable(
                Path::new(package),
                format!("neither the package nor one it depends on has modules of {release}"),
            ));
        }
    }
    Ok(release)
}

fn kernel(entry: Entry) -> Result<Kernel, ImageError> {
    let fact = |name: &str| entry.facts.get(name).cloned().unwrap_or_default();
    let release = fact("release");
    Ok(Kernel {
        bzimage: entry.path("bzImage"),
        modules: Some(entry.path("lib/modules").join(&release)),
        sha256: fact("bzimage-sha256"),
        package: Some(Origin {
            name: fact("package"),
            version: fact("version"),
            sha256: fact("package-sha256"),
        }),
        release,
        entry: Some(entry),
    })
}

/// depmod, which lists the dependencies of modules: this machine's, or else that of a package.
pub(super) struct Depmod {
    program: PathBuf,
    libraries: Vec<PathBuf>,
}

impl Depmod {
    pub(super) fn find(cache: &Cache, report: Report<'_>) -> Result<Depmod, ImageError> {
        if let Some(program) = crate::programs::find("depmod") {
            return Ok(Depmod {
                program,
                libraries: Vec::new(),
            });
        }
        let root = crate::vm::initramfs::packaged::root_of(&["kmod"], cache, report)?.path("root");
        let libraries = crate::vm::initramfs::elf::library_folders(Some(&root));
        // the link in the package is absolute, and would lead to this machine's root
        let kmod = ["usr/bin/kmod", "bin/kmod"].map(|path| root.join(path));
        let Some(kmod) = kmod.into_iter().find(|path| path.exists()) else {
            return Err(ImageError::NoProgram {
                program: "depmod".into(),
                reason: "it is not in the package kmod".into(),
            });
        };
        Ok(Depmod {
            program: kmod,
            libraries,
        })
    }

    pub(super) fn run(&self, base: &Path, release: &str) -> Result<(), ImageError> {
        let link = base.with_extension("depmod");
        _ = fs::remove_file(&link);
        make_folder(&link)?;
        // kmod acts according to the name by which it is called
        let named = link.join("depmod");
        std::os::unix::fs::symlink(&self.program, &named)
            .map_err(|e| ImageError::system(format!("make the link {}", named.display()), e))?;
        let libraries: Vec<String> = self
            .libraries
            .iter()
            .map(|f| f.display().to_string())
            .collect();
        let mut command = program_command("env", Path::new("/"));
        if !libraries.is_empty() {
            command
                .words
                .push(format!("LD_LIBRARY_PATH={}", libraries.join(":")));
        }
        let words = [
            &named.display().to_string(),
            "-b",
            &base.display().to_string(),
            release,
        ];
        command.words.extend(words.map(str::to_owned));
        Local.run(
            &command.called(format!("depmod -b {} {release}", base.display())),
            Limit::OURS,
        )?;
        // depmod reports no error when the disk is full
        let made = base
            .join("lib/modules")
            .join(release)
            .join("modules.dep.bin");
        match fs::metadata(&made) {
            Ok(file) if file.len() > 0 => Ok(()),
            Ok(_) => Err(ImageError::system(
                format!("make {}", made.display()),
                std::io::Error::from(std::io::ErrorKind::StorageFull),
            )),
            Err(e) => Err(ImageError::system(format!("make {}", made.display()), e)),
        }
    }
}

/// Describes the alternatives to a package that these lists do not contain.
fn unknown(apt: &Apt, package: &str) -> String {
    let (name, version) = package.split_once('=').unwrap_or((package, ""));
    let versions = match version {
        "" => Vec::new(),
        _ => apt.versions(name),
    };
    instead(package, &versions, &apt.names("linux-image-"))
}

fn instead(package: &str, versions: &[String], known: &[String]) -> String {
    if !versions.is_empty() {
        return format!("this package has the versions {}", versions.join(", "));
    }
    let nearest = nearest(package, known);
    let found = match nearest.is_empty() {
        true => "no package of this machine's archives is a kernel".into(),
        false => format!(
            "no package with a kernel has this name. The nearest are {}",
            nearest.join(", ")
        ),
    };
    format!("{found}. This lists them all: apt-cache search --names-only '^linux-image-[0-9]'")
}

/// Returns the most similar names.
fn nearest(name: &str, known: &[String]) -> Vec<String> {
    let name = name.split('=').next().unwrap_or(name);
    let bootable = known.iter().filter(|known| !known.ends_with("-dbg"));
    let mut all: Vec<(usize, &String)> = bootable
        .map(|known| (distance(name, known), known))
        .collect();
    all.sort();
    all.into_iter()
        .take(NEAREST)
        .map(|(_, name)| name.clone())
        .collect()
}

/// Returns the Levenshtein distance: the number of letters to insert, remove or replace.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with `dpkg --compare-versions`.
    #[test]
    fn versions_in_order() {
        let ordered = [
            "6.1.0-9",
            "6.1.0-47",
            "6.1.0-56",
            "6.1.4~rc1-1",
            "6.1.4-1",
            "6.9.7+bpo",
            "6.12.9+deb12",
            "6.12.9+deb13",
            "6.12.100+deb12",
            "6.12.100+deb12.1",
        ];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(compare_versions(a, b), i.cmp(&j), "{a} {b}");
            }
        }
    }

    #[test]
    fn kernels_between_two() {
        let known = [
            "linux-image-6.12.9+deb12-cloud-amd64",
            "linux-image-6.12.100+deb12-cloud-amd64",
            "linux-image-6.12-cloud-amd64",
            "linux-image-6.1.0-47-cloud-amd64",
            "linux-image-6.1.0-50-amd64",
            "linux-image-6.1.0-50-cloud-amd64",
            "linux-image-6.1.0-50-cloud-amd64-dbg",
            "linux-image-6.1.0-56-cloud-amd64",
            "linux-image-cloud-amd64",
        ];
        let known = known.map(str::to_owned);
        let short = |names: Vec<String>| -> Vec<String> {
            let version = |name: &String| {
                let package = name.strip_prefix("debian:").unwrap();
                parts_of_name(package).unwrap().0.to_owned()
            };
            names.iter().map(version).collect()
        };
        let up = in_between("6.1.0-47", "6.12.100+deb12", "cloud-amd64", &known);
        let all = [
            "6.1.0-47",
            "6.1.0-50",
            "6.1.0-56",
            "6.12.9+deb12",
            "6.12.100+deb12",
        ];
        assert_eq!(short(up), all);
        let down = in_between("6.12.9+deb12", "6.1.0-50", "cloud-amd64", &known);
        assert_eq!(short(down), ["6.12.9+deb12", "6.1.0-56", "6.1.0-50"]);
        let same = in_between("6.1.0-50", "6.1.0-50", "cloud-amd64", &known);
        assert_eq!(same.len(), 1);
        assert_eq!(parts_of_name("linux-image-cloud-amd64"), None);
    }

    #[test]
    fn the_nearest_names_differ_least() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        let known = [
            "linux-image-6.1.0-56-cloud-amd64",
            "linux-image-6.1.0-56-cloud-amd64-dbg",
            "linux-image-6.1.0-55-cloud-amd64",
            "linux-image-6.12-amd64",
        ];
        let known = known.map(str::to_owned);
        let found = nearest("linux-image-6.1.0-56-clod-amd64", &known);
        assert_eq!(found, [&known[0], &known[2], &known[3]].map(String::clone));
        let reason = instead("linux-image-6.1.0-56-clod-amd64", &[], &known);
        assert!(
            reason.contains("nearest are linux-image-6.1.0-56-cloud-amd64,"),
            "{reason}"
        );
        assert!(reason.contains("apt-cache search"), "{reason}");
        let reason = instead(
            "linux-image-6.12-amd64=7",
            &["6.12.1".into(), "6.12.2".into()],
            &known,
        );
        assert!(reason.ends_with("versions 6.12.1, 6.12.2"), "{reason}");
        assert!(instead("x", &[], &[]).contains("no package of this machine's"));
    }
}
