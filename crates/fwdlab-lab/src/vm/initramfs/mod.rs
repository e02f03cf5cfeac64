//! The initial file system of a guest: this program as its init, programs of this machine, modules
//! of its kernel.
//!
//! Created by an ordinary user, without mounting or installing anything; starts no guest. Start
//! with [`build`]; [`programs`] and [`modules`] decide what it contains.

pub(crate) mod elf;
mod modules;
pub(crate) mod packaged;
mod programs;
mod tree;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use programs::Programs;
use tree::{Node, Tree};

use super::image::cache::{Cache, Entry, Facts, Kind, Report};
use super::image::error::ImageError;
use super::image::kernel::Kernel;

/// What it contains.
#[derive(Debug, Clone, Copy)]
pub struct Recipe<'a> {
    /// The program that becomes `/usr/bin/fwdlab`, without its debug sections.
    pub program: &'a Path,
    /// The kernel whose modules are included.
    pub kernel: &'a Kernel,
    /// Required programs, such as `nft` or `wg`: from packages, if this machine lacks them.
    pub wanted: &'a [&'a str],
    /// Words of the configuration: modules with these names are included in addition to the usual
    /// ones.
    pub words: &'a BTreeSet<String>,
    /// Files of data planes, at the same paths as on this machine, with the drivers of DPDK that
    /// they load.
    pub data_planes: &'a BTreeSet<PathBuf>,
}

const LINKS: [(&str, &str); 5] = [
    ("bin", "usr/bin"),
    ("sbin", "usr/sbin"),
    ("lib", "usr/lib"),
    ("lib64", "usr/lib64"),
    ("var/run", "/run"),
];

const FOLDERS: [&str; 12] = [
    "dev",
    "etc",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
    "usr/bin",
    "usr/sbin",
    "usr/lib",
    "usr/lib64",
    "var/tmp",
];

/// Device nodes: the kernel opens the console before a file system with devices can be mounted.
const DEVICES: [(&str, u32, u32); 6] = [
    ("dev/console", 5, 1),
    ("dev/null", 1, 3),
    ("dev/zero", 1, 5),
    ("dev/urandom", 1, 9),
    ("dev/ttyS0", 4, 64),
    ("dev/kmsg", 1, 11),
];

const TEXTS: [(&str, &str); 6] = [
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    ),
    ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("etc/hostname", "dut\n"),
    (
        "etc/nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files\nprotocols: files\nservices: files\n",
    ),
    ("etc/resolv.conf", ""),
];

/// Returns the archive for the kernel to unpack; builds it, or finds it in the cache if nothing in
/// it has changed.
///
/// # Errors
/// A required program was not found, a file cannot be read, or there is no room.
pub fn build(
    recipe: &Recipe<'_>,
    cache: &Cache,
    report: Report<'_>,
) -> Result<PathBuf, ImageError> {
    let (mut tree, missing) = gather(recipe, None)?;
    let mut packages = None;
    if !missing.is_empty() {
        let entry = packages_of(&missing, cache, report)?;
        let (with_them, still) = gather(recipe, Some(entry.path("root")))?;
        if let Some(program) = still.into_iter().next() {
            return Err(ImageError::NoProgram {
                reason: "it is not in the package that should have it. Install it on this machine"
                    .into(),
                program,
            });
        }
        tree = with_them;
        packages = Some(entry);
    }
    if let Some(modules) = &recipe.kernel.modules {
        modules::put(modules, recipe, &mut tree)?;
    }
    let name = "initramfs.cpio";
    let title = format!("initial file system for {}", recipe.kernel.release);
    let entry = cache.make(
        Kind::Initramfs,
        &tree.identity(),
        &title,
        report,
        |new, _| {
            let origins: Vec<&Entry> = recipe.kernel.entry.iter().chain(&packages).collect();
            tree.write(&new.join(name), &origins, cache)?;
            Ok(Facts::new())
        },
    )?;
    Ok(entry.path(name))
}

/// Collects everything except the modules; also returns the required programs that are missing.
fn gather(
    recipe: &Recipe<'_>,
    packages: Option<PathBuf>,
) -> Result<(Tree, Vec<String>), ImageError> {
    let mut tree = Tree::default();
    for folder in FOLDERS {
        tree.put(folder, Node::Folder);
    }
    for (path, target) in LINKS {
        tree.put(path, Node::Link(target.into()));
    }
    for (path, major, minor) in DEVICES {
        tree.put(path, Node::Device(major, minor));
    }
    for (path, text) in TEXTS {
        tree.put(path, Node::Text(text.into()));
    }
    let mut programs = Programs::new(&mut tree, packages);
    let mut missing = Vec::new();
    for &name in programs::NEEDED.iter().chain(recipe.wanted) {
        if !programs.put(name)? {
            missing.push(name.to_owned());
        }
    }
    for name in programs::USUAL {
        programs.put(name)?;
    }
    programs.put_companions()?;
    for program in recipe.data_planes {
        programs.put_data_plane(program)?;
    }
    programs.put_cut(recipe.program, "usr/bin/fwdlab")?;
    programs.put_applets();
    Ok((tree, missing))
}

fn packages_of(missing: &[String], cache: &Cache, report: Report<'_>) -> Result<Entry, ImageError> {
    let mut names = Vec::new();
    for program in missing {
        let package = packaged::package_of(program).ok_or_else(|| ImageError::NoProgram {
            program: program.clone(),
            reason: "this machine does not have it, and fwdlab does not know its package. Install it on this machine".into(),
        })?;
        names.push(package);
    }
    names.sort_unstable();
    names.dedup();
    packaged::root_of(&names, cache, report)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn kernel(cache: &Cache) -> Kernel {
        let fill = |new: &Path, _: Report<'_>| {
            let modules = new.join("lib/modules/9.9");
            fs::create_dir_all(modules.join("kernel/net")).expect("a new folder");
            fs::write(modules.join("kernel/net/x.ko"), "a module").expect("a new folder");
            fs::write(modules.join("modules.dep"), "kernel/net/x.ko:\n").expect("a new folder");
            Ok(Facts::new())
        };
        let make = cache.make(Kind::Image, "sum", "a kernel", &mut |_| {}, fill);
        let entry: Entry = make.unwrap();
        Kernel {
            bzimage: entry.path("bzImage"),
            release: "9.9".into(),
            modules: Some(entry.path("lib/modules/9.9")),
            sha256: String::new(),
            package: None,
            entry: Some(entry),
        }
    }

    /// Takes as long as reading and writing 40 MB.
    #[test]
    fn an_initramfs_is_built_once_and_never_from_damaged_modules() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let kernel = kernel(&cache);
        let (no_words, no_programs) = (BTreeSet::new(), BTreeSet::new());
        let recipe = |requested| Recipe {
            program: Path::new("/bin/sh"),
            kernel: &kernel,
            wanted: requested,
            words: &no_words,
            data_planes: &no_programs,
        };
        let nothing = recipe(&[]);
        let first = match build(&nothing, &cache, &mut |_| {}) {
            Err(e @ (ImageError::NotFetched { .. } | ImageError::NoProgram { .. })) => {
                println!("SKIPPED: an_initramfs_is_built_once_and_never_from_damaged_modules: {e}");
                return;
            }
            built => built.unwrap(),
        };
        let made = fs::metadata(&first).unwrap().modified().unwrap();
        assert_eq!(build(&nothing, &cache, &mut |_| {}).unwrap(), first);
        assert_eq!(fs::metadata(&first).unwrap().modified().unwrap(), made);

        let reason = build(&recipe(&["no-such-program"]), &cache, &mut |_| {}).unwrap_err();
        assert!(
            reason
                .to_string()
                .contains("`no-such-program`: this machine does not have it"),
            "{reason}"
        );

        // the same size, so that only the checksum differs
        let module = kernel.modules.as_ref().unwrap().join("kernel/net/x.ko");
        fs::write(module, "A MODULE").unwrap();
        let reason = build(&nothing, &cache, &mut |_| {}).unwrap_err();
        assert!(matches!(reason, ImageError::Damaged { .. }), "{reason}");
        assert_eq!(cache.find(Kind::Image, "sum", &mut |_| {}), None);
    }
}
