//! Packages of the system's own package manager, downloaded and unpacked by an ordinary user;
//! nothing is installed.
//!
//! Does not know the contents of packages. Start with [`Apt`], which uses the package lists of the
//! system or our own; then [`with_lists`], which decides when to download new ones.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::cache::{Cache, Report, make_folder, write};
use super::error::ImageError;
use crate::host::{Command, Failure, Host, HostError, Limit, Local};
use crate::programs::search_path;
use crate::sys::hex;

/// Package lists of our own that are younger than this are current: a name that is not in them does
/// not exist.
const FRESH: Duration = Duration::from_secs(3600);

/// Options that give up early on a network that hangs: by default, apt waits two minutes for every
/// server.
const IMPATIENT: [&str; 4] = [
    "-oAcquire::Retries=1",
    "-oAcquire::http::Timeout=20",
    "-oAcquire::https::Timeout=20",
    "-oAPT::Color=0",
];

/// Time limit for downloading a kernel over a slow network; apt itself gives up on one that hangs.
const DOWNLOAD: Limit<'static> = Limit {
    time: Duration::from_secs(3600),
    ..Limit::OURS
};

const NO_HOOKS: &str = "#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n\
                        #clear APT::Update::Post-Invoke-Success;\n";

/// Queries and downloads packages, with one set of package lists.
#[derive(Debug, Clone)]
pub(crate) struct Apt {
    options: Vec<String>,
}

/// A package that can be downloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    /// Packages it depends on, each with the version if only one is possible.
    pub(crate) depends: Vec<(String, Option<String>)>,
}

impl Apt {
    /// Uses the package lists of this machine.
    fn system() -> Apt {
        Apt {
            options: Vec::new(),
        }
    }

    /// Uses the package lists in this directory.
    fn private(folder: &Path) -> Apt {
        let folder = folder.display();
        Apt {
            options: vec![
                format!("-oDir::State={folder}"),
                "-oDir::State::lists=lists/".into(),
                // the list of installed packages is still that of the system
                "-oDir::State::status=/var/lib/dpkg/status".into(),
                format!("-oDir::Cache={folder}/cache"),
                "-oDir::Cache::pkgcache=".into(),
                "-oDir::Cache::srcpkgcache=".into(),
            ],
        }
    }

    fn run(&self, program: &str, words: &[&str], folder: &Path) -> Result<String, HostError> {
        let limit = match words.contains(&"download") {
            true => DOWNLOAD,
            false => Limit::OURS,
        };
        let shown = format!("{program} {}", words.join(" "));
        let mut command = program_command(program, folder);
        command.words.extend(IMPATIENT.map(str::to_owned));
        if rustix::process::geteuid().is_root() {
            // the user _apt, which downloads for root, may not enter the cache directory
            command.words.push("-oAPT::Sandbox::User=root".into());
        }
        command.words.extend(self.options.iter().cloned());
        command.words.extend(words.iter().map(|&word| word.into()));
        let output = Local.run(&command.called(shown), limit)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns the package with a name, or `NAME=VERSION`; `None` if these lists do not contain it.
    pub(crate) fn look_up(&self, name: &str) -> Result<Option<Package>, ImageError> {
        // apt interprets some suffixes as "not this one", and other characters as patterns
        let is_name = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.=:~_".contains(c));
        if !is_name || name.starts_with('-') || name.ends_with('-') {
            return Ok(None);
        }
        match self.run(
            "apt-cache",
            &["show", "--no-all-versions", name],
            Path::new("/"),
        ) {
            Ok(text) => Ok(described(&text)),
            Err(e) if matches!(e.failure, Failure::Exit { .. }) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Downloads packages into a directory; apt checks their signatures, and we check their
    /// checksums again.
    pub(crate) fn download(
        &self,
        packages: &[Package],
        folder: &Path,
    ) -> Result<Vec<PathBuf>, ImageError> {
        make_folder(folder)?;
        let names: Vec<String> = packages
            .iter()
            .map(|package| format!("{}={}", package.name, package.version))
            .collect();
        let mut words = vec!["-q", "download"];
        words.extend(names.iter().map(String::as_str));
        self.run("apt-get", &words, folder)
            .map_err(|e| ImageError::NotFetched {
                item: names.join(", "),
                reason: e.to_string(),
            })?;
        let mut files = Vec::new();
        for path in super::cache::entries(folder) {
            let sum = sha256_of(&path)?;
            if !packages.iter().any(|package| package.sha256 == sum) {
                return Err(ImageError::NotFetched {
                    item: names.join(", "),
                    reason: format!(
                        "the checksum of {} is {sum}, which no package of these names has. Something between the archive and \
                         this machine changes files",
                        path.display()
                    ),
                });
            }
            files.push(path);
        }
        Ok(files)
    }

    /// Returns everything that would have to be installed for these packages to work, including the
    /// packages themselves.
    pub(crate) fn closure(
        &self,
        names: &[&str],
        cache: &Cache,
    ) -> Result<Option<Vec<Package>>, ImageError> {
        // apt does not list packages that it has already downloaded: use an empty archive directory
        let empty = cache.folder().join("lists/none");
        make_folder(&empty.join("partial"))?;
        let archives = format!("-oDir::Cache::archives={}", empty.display());
        let mut words = vec![
            "-qq",
            "-y",
            "--print-uris",
            "--no-install-recommends",
            &archives,
            "install",
        ];
        words.extend(names);
        let text = match self.run("apt-get", &words, Path::new("/")) {
            Ok(text) => text,
            Err(e) if matches!(e.failure, Failure::Exit { .. }) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let mut all = Vec::new();
        for (name, version) in text
            .lines()
            .filter_map(file_name)
            .filter_map(parts_of_file_name)
        {
            match self.look_up(&format!("{name}={version}"))? {
                Some(package) => all.push(package),
                None => return Ok(None),
            }
        }
        // installed packages are not listed
        for &name in names {
            if !all.iter().any(|package| package.name == name) {
                all.extend(self.look_up(name)?);
            }
        }
        Ok(Some(all))
    }

    /// Returns the versions of a package.
    pub(crate) fn versions(&self, name: &str) -> Vec<String> {
        let text = self.run("apt-cache", &["madison", name], Path::new("/"));
        let text = text.unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split('|').nth(1));
        lines.map(|version| version.trim().to_owned()).collect()
    }

    /// Returns all names with this prefix.
    pub(crate) fn names(&self, prefix: &str) -> Vec<String> {
        let text = self
            .run("apt-cache", &["pkgnames", prefix], Path::new("/"))
            .unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// The result of querying sets of package lists in order.
pub(crate) struct PackageLookup<T> {
    pub(crate) found: Option<T>,
    /// Why the lists may be old or incomplete.
    pub(crate) not_updated: Option<String>,
}

/// Queries the system's package lists, then our own, then new ones, until something is found and
/// can be downloaded. Old lists refer to files that no longer exist.
pub(crate) fn with_lists<T>(
    cache: &Cache,
    report: Report<'_>,
    mut ask: impl FnMut(&Apt, Report<'_>) -> Result<Option<T>, ImageError>,
) -> Result<PackageLookup<T>, ImageError> {
    if crate::programs::find("apt-get").is_none() {
        return Err(ImageError::NotFetched {
            item: "packages".into(),
            reason: "this machine has no apt-get. Give the kernel as a file (a bzImage with its modules in lib/modules next to it), and \
                  install programs on this machine"
                .into(),
        });
    }
    let mut failure = None;
    let mut ask = |apt: &Apt, report: Report<'_>| match ask(apt, report) {
        Err(ImageError::NotFetched {
            item: action,
            reason: cause,
        }) => {
            failure = Some((action, cause));
            Ok(None)
        }
        answer => answer,
    };
    let found = |found| PackageLookup {
        found: Some(found),
        not_updated: None,
    };
    if let Some(answer) = ask(&Apt::system(), report)? {
        return Ok(found(answer));
    }
    let folder = cache.folder().join("lists");
    let apt = Apt::private(&folder);
    let stamp = folder.join("updated");
    let age = fs::metadata(&stamp).and_then(|m| m.modified()).ok();
    let age = age.and_then(|then| SystemTime::now().duration_since(then).ok());
    if age.is_some()
        && let Some(answer) = ask(&apt, report)?
    {
        return Ok(found(answer));
    }
    let mut not_updated = None;
    if age.is_none_or(|age| age >= FRESH) {
        not_updated = update(&apt, &folder, &stamp, cache, report)
            .err()
            .map(|e| e.to_string());
        // one of several archives may be unreachable, and another may have the package
        if let Some(answer) = ask(&apt, report)? {
            return Ok(found(answer));
        }
    }
    match failure {
        Some((action, cause)) => Err(ImageError::NotFetched {
            item: action,
            reason: cause,
        }),
        None => Ok(PackageLookup {
            found: None,
            not_updated,
        }),
    }
}

fn update(
    apt: &Apt,
    folder: &Path,
    stamp: &Path,
    cache: &Cache,
    report: Report<'_>,
) -> Result<(), ImageError> {
    report("fetching new package lists");
    cache.locked(report, |_| {
        make_folder(&folder.join("lists/partial"))?;
        make_folder(&folder.join("cache/archives/partial"))?;
        // hooks that the system runs after updating its own lists must not run for ours
        let hooks = folder.join("no-hooks.conf");
        write(&hooks, NO_HOOKS.as_bytes())?;
        let hooks = format!("-c={}", hooks.display());
        // without this error mode, it succeeds even without a network
        let words = [&hooks, "-q", "-oAPT::Update::Error-Mode=any", "update"];
        apt.run("apt-get", &words, Path::new("/"))?;
        write(stamp, b"")
    })
}

/// Unpacks a package below a directory.
pub(crate) fn unpack(package: &Path, folder: &Path) -> Result<(), ImageError> {
    let mut command = program_command("dpkg-deb", Path::new("/"));
    command.words.push("-x".into());
    command
        .words
        .extend([package, folder].map(|path| path.to_string_lossy().into_owned()));
    Local.run(&command, Limit::OURS)?;
    Ok(())
}

/// Returns a command that runs in a directory, finds administrators' programs, and prints
/// untranslated messages.
pub(crate) fn program_command(program: &str, folder: &Path) -> Command {
    let folder = folder.to_string_lossy();
    let path = format!("PATH={}", search_path().to_string_lossy());
    let words = [
        "-C",
        &folder,
        "LC_ALL=C",
        "DEBIAN_FRONTEND=noninteractive",
        &path,
        program,
    ];
    Command::new("env", &words).called(program)
}

/// Parses the first paragraph of `apt-cache show`.
fn described(text: &str) -> Option<Package> {
    let paragraph = text.split("\n\n").next()?;
    let field = |name: &str| {
        let mut lines = paragraph.lines();
        lines
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            .map(str::trim)
    };
    Some(Package {
        name: field("Package")?.to_owned(),
        version: field("Version")?.to_owned(),
        bytes: field("Size")?.parse().ok()?,
        sha256: field("SHA256")?.to_owned(),
        depends: dependencies(field("Depends").unwrap_or_default()),
    })
}

/// Parses `a (= 1), b (>= 2) | c`; of alternatives only the first.
fn dependencies(text: &str) -> Vec<(String, Option<String>)> {
    let firsts = text.split(',').filter_map(|any| any.split('|').next());
    let parsed = firsts.filter_map(|one| {
        let mut words = one.split_whitespace();
        let name = words.next()?.split(':').next()?.to_owned();
        let version = match (words.next(), words.next()) {
            (Some("(="), Some(version)) => Some(version.trim_end_matches(')').to_owned()),
            _ => None,
        };
        Some((name, version))
    });
    parsed.collect()
}

/// Returns FILE from `'URI' FILE BYTES HASH`.
fn file_name(line: &str) -> Option<&str> {
    line.strip_prefix('\'')?.split(' ').nth(1)
}

/// Parses `nftables_1.0.6-2+deb12u2_amd64.deb`, in which `%3a` is a colon of the version.
fn parts_of_file_name(file: &str) -> Option<(String, String)> {
    let mut parts = file.split('_');
    Some((parts.next()?.to_owned(), parts.next()?.replace("%3a", ":")))
}

pub(crate) fn sha256_of(path: &Path) -> Result<String, ImageError> {
    let failed = |e| ImageError::system(format!("read {}", path.display()), e);
    let mut file = fs::File::open(path).map_err(failed)?;
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => return Ok(hex(&sum.finalize())),
            length => sum.update(&buffer[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_read_as_apt_describes_it() {
        let text = "Package: linux-image-cloud-amd64\nVersion: 6.1.192-2\nDepends: linux-image-6.1.0-56-cloud-amd64 (= 6.1.192-2), \
                    kmod, initramfs-tools (>= 0.120+deb8u2) | linux-initramfs-tool, libc6:any\nSize: 1504\nSHA256: 00be\n\n\
                    Package: linux-image-cloud-amd64\nVersion: 6.1.176-1\n";
        let package = described(text).unwrap();
        assert_eq!(
            (package.version.as_str(), package.bytes),
            ("6.1.192-2", 1504)
        );
        let first = (
            "linux-image-6.1.0-56-cloud-amd64".to_owned(),
            Some("6.1.192-2".to_owned()),
        );
        assert_eq!(package.depends[0], first);
        let names: Vec<&str> = package.depends[1..]
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(names, ["kmod", "initramfs-tools", "libc6"]);
        assert_eq!(described("N: nothing\n"), None);
    }

    #[test]
    fn a_package_is_identified_by_its_file_name() {
        let line =
            "'http://archive/ipset_7.17-1_amd64.deb' wg_1%3a7.17-1+b1_amd64.deb 53308 MD5Sum:aa";
        let parts = file_name(line).and_then(parts_of_file_name);
        assert_eq!(parts, Some(("wg".into(), "1:7.17-1+b1".into())));
        assert_eq!(file_name("Reading package lists..."), None);
    }
}
