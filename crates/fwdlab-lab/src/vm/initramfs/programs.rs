//! Puts programs of this machine, or of packages, into a guest at the same paths, with every
//! library they need.
//!
//! Runs no program except busybox, which lists its applets. Start with [`Programs::put`].
//!
//! In the guest, `/bin`, `/sbin` and `/lib` are links into `/usr`, wherever things are on this
//! machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::elf::{self, library_folders};
use super::tree::{Node, Source, Tree};
use crate::host::{Command, Host, Limit, Local};
use crate::vm::image::cache::entries;
use crate::vm::image::error::ImageError;

/// Programs of every guest; they are downloaded if this machine lacks them.
pub(super) const NEEDED: &[&str] = &[
    "sh", "ip", "tc", "modprobe", "sysctl", "mount", "cat", "nsenter", "unshare",
];

/// Programs that a guest has if this machine does: those that commands and scripts of
/// configurations use.
pub(super) const USUAL: &[&str] = &[
    // networks
    "bridge",
    "ss",
    "nft",
    "iptables",
    "iptables-save",
    "iptables-restore",
    "iptables-legacy",
    "iptables-legacy-save",
    "iptables-legacy-restore",
    "iptables-nft",
    "iptables-nft-save",
    "iptables-nft-restore",
    "ip6tables",
    "ip6tables-save",
    "ip6tables-restore",
    "ip6tables-legacy",
    "ip6tables-legacy-save",
    "ip6tables-legacy-restore",
    "ip6tables-nft",
    "ebtables",
    "arptables",
    "ipset",
    "conntrack",
    "ipvsadm",
    "ethtool",
    "wg",
    "ping",
    "brctl",
    // the kernel
    "insmod",
    "rmmod",
    "lsmod",
    "modinfo",
    "dmesg",
    "umount",
    "taskset",
    "chrt",
    // scripts
    "bash",
    "busybox",
    "awk",
    "basename",
    "chmod",
    "cp",
    "cut",
    "mktemp",
    "date",
    "dirname",
    "echo",
    "env",
    "expr",
    "false",
    "find",
    "grep",
    "head",
    "id",
    "kill",
    "ln",
    "ls",
    "mkdir",
    "mv",
    "nproc",
    "printf",
    "pwd",
    "readlink",
    "rm",
    "sed",
    "seq",
    "sleep",
    "sort",
    "stat",
    "sync",
    "tail",
    "tee",
    "test",
    "timeout",
    "touch",
    "tr",
    "true",
    "uname",
    "uniq",
    "wc",
    "which",
    "xargs",
    "yes",
];

/// Directories of programs; those of users are not included.
const FOLDERS: [&str; 6] = [
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/usr/local/sbin",
    "/usr/local/bin",
];

/// The names in a package of programs whose usual names are links created at installation.
const ALTERNATIVES: [(&str, &str); 9] = [
    ("iptables", "iptables-nft"),
    ("iptables-save", "iptables-nft-save"),
    ("iptables-restore", "iptables-nft-restore"),
    ("ip6tables", "ip6tables-nft"),
    ("ip6tables-save", "ip6tables-nft-save"),
    ("ip6tables-restore", "ip6tables-nft-restore"),
    ("ebtables", "ebtables-nft"),
    ("arptables", "arptables-nft"),
    ("awk", "mawk"),
];

/// Files that programs read or load at run time: plug-ins of iptables, distributions of netem,
/// names of numbers.
const COMPANIONS: [&str; 9] = [
    "/usr/lib/x86_64-linux-gnu/xtables",
    "/usr/lib64/xtables",
    "/usr/lib/xtables",
    "/usr/lib/tc",
    "/usr/lib64/tc",
    "/usr/share/iproute2",
    "/etc/iproute2",
    "/etc/protocols",
    "/etc/services",
];

/// Drivers that a data plane of DPDK loads at run time, if it is linked with DPDK's libraries.
const DRIVERS: [&str; 3] = [
    "librte_net_af_packet.so",
    "librte_mempool_ring.so",
    "librte_bus_vdev.so",
];

/// Puts programs into a guest.
pub(super) struct Programs<'a> {
    tree: &'a mut Tree,
    /// Root directories of unpacked packages, and last this machine's own `/`.
    roots: Vec<PathBuf>,
    /// The directories with libraries in each of them.
    folders: BTreeMap<PathBuf, Vec<PathBuf>>,
    seen: BTreeSet<PathBuf>,
}

impl Programs<'_> {
    pub(super) fn new(tree: &mut Tree, packages: Option<PathBuf>) -> Programs<'_> {
        let this = PathBuf::from("/");
        let mut folders = BTreeMap::from([(this.clone(), library_folders(None))]);
        if let Some(root) = &packages {
            folders.insert(root.clone(), library_folders(Some(root)));
        }
        Programs {
            tree,
            roots: packages.into_iter().chain([this]).collect(),
            folders,
            seen: BTreeSet::new(),
        }
    }

    /// Adds a program with what it needs; returns false if it was not found.
    pub(super) fn put(&mut self, name: &str) -> Result<bool, ImageError> {
        for root in self.roots.clone() {
            for folder in FOLDERS {
                if self.put_path(&root, &Path::new(folder).join(name))? {
                    return Ok(true);
                }
            }
        }
        let other = ALTERNATIVES.iter().find(|(usual, _)| *usual == name);
        let Some((_, other)) = other.filter(|_| self.roots.len() > 1) else {
            return Ok(false);
        };
        let is_there = self.put(other)?;
        if let Some(folder) = ["usr/sbin", "usr/bin"]
            .into_iter()
            .find(|f| self.tree.has(&format!("{f}/{other}")))
        {
            self.tree
                .put(&format!("{folder}/{name}"), Node::Link((*other).to_owned()));
        }
        Ok(is_there)
    }

    /// Adds what programs read or load at run time.
    pub(super) fn put_companions(&mut self) -> Result<(), ImageError> {
        for root in self.roots.clone() {
            for path in COMPANIONS {
                let here = below(&root, Path::new(path));
                if here.is_file() {
                    self.put_path(&root, Path::new(path))?;
                }
                for file in entries(&here).filter(|file| file.is_file()) {
                    let name = file.file_name().expect("an entry of a folder has a name");
                    self.put_path(&root, &Path::new(path).join(name))?;
                }
            }
        }
        // lists libraries in directories that an administrator has configured
        self.put_path(Path::new("/"), Path::new("/etc/ld.so.cache"))?;
        Ok(())
    }

    /// Adds applets of busybox, if it is included, for commands without a program of their own.
    pub(super) fn put_applets(&mut self) {
        let candidates = self.roots.iter().flat_map(|root| {
            ["/usr/bin/busybox", "/bin/busybox"].map(|path| below(root, Path::new(path)))
        });
        let Some(busybox) = candidates.into_iter().find(|path| path.is_file()) else {
            return;
        };
        let Ok(output) = Local.run(
            &Command::new(&busybox.to_string_lossy(), &["--list"]),
            Limit::OURS,
        ) else {
            return;
        };
        for applet in output
            .text()
            .lines()
            .map(str::trim)
            .filter(|applet| !applet.is_empty())
        {
            let has = |folder: &str| self.tree.has(&format!("{folder}/{applet}"));
            if !has("usr/bin") && !has("usr/sbin") {
                self.tree.put(
                    &format!("usr/bin/{applet}"),
                    Node::Link("/usr/bin/busybox".into()),
                );
            }
        }
    }

    /// Adds any program at a path of the guest, without its debug sections.
    pub(super) fn put_cut(&mut self, program: &Path, there: &str) -> Result<(), ImageError> {
        let mut source = Source::at(program)?;
        source.is_cut = true;
        self.tree.put(there, Node::File(source));
        self.put_needs(Path::new("/"), program)
    }

    /// Adds a file of a data plane of this machine, and if it is a program, DPDK's drivers for it.
    pub(super) fn put_data_plane(&mut self, file: &Path) -> Result<(), ImageError> {
        let content = fs::read(file)
            .map_err(|e| ImageError::system(format!("read {}", file.display()), e))?;
        if elf::needs(&content).is_none() {
            return self.put_path(Path::new("/"), file).map(drop);
        }
        let there = in_guest(file);
        self.put_cut(file, &there)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let called = format!("usr/bin/{name}");
        if !self.tree.has(&called) {
            self.tree.put(&called, Node::Link(format!("/{there}")));
        }
        let folders = library_folders(None).into_iter();
        let versions = folders.flat_map(|folder| entries(&folder.join("dpdk")));
        for driver in versions.flat_map(|version| entries(&version)) {
            let name = driver.file_name().unwrap_or_default().to_string_lossy();
            if DRIVERS.iter().any(|driver| name.starts_with(driver)) {
                self.put_path(Path::new("/"), &driver)?;
            }
        }
        Ok(())
    }

    /// Adds what is at a path below a root, following links to the file, with what that needs;
    /// returns false if there is nothing.
    fn put_path(&mut self, root: &Path, path: &Path) -> Result<bool, ImageError> {
        let Some(mut path) = settled(root, path) else {
            return Ok(false);
        };
        // as many links as the kernel follows
        for _ in 0..40 {
            let here = below(root, &path);
            let guest = in_guest(&path);
            let Ok(target) = fs::read_link(&here) else {
                // a file that only root may read does not exist for an ordinary user
                if !here.is_file() || !may_read(&here) {
                    return Ok(false);
                }
                if self.seen.insert(here.clone()) {
                    self.tree.put(&guest, Node::File(Source::at(&here)?));
                    self.put_needs(root, &here)?;
                }
                return Ok(true);
            };
            let next = path.parent().unwrap_or(Path::new("/")).join(target);
            let Some(next) = settled(root, &next) else {
                return Ok(false);
            };
            let target = in_guest(&next);
            if target != guest {
                self.tree.put(&guest, Node::Link(format!("/{target}")));
            }
            path = next;
        }
        Ok(false)
    }

    /// Adds the libraries of a program. Missing ones are skipped: the program would not run here
    /// either, and reports that itself.
    fn put_needs(&mut self, root: &Path, file: &Path) -> Result<(), ImageError> {
        let content = fs::read(file)
            .map_err(|e| ImageError::system(format!("read {}", file.display()), e))?;
        let Some(needs) = elf::needs(&content) else {
            return Ok(());
        };
        let own = file.parent().unwrap_or(root).to_string_lossy();
        let expanded = |folder: &String| {
            PathBuf::from(folder.replace("${ORIGIN}", &own).replace("$ORIGIN", &own))
        };
        let first: Vec<PathBuf> = needs.folders.iter().map(expanded).collect();
        // libraries in a package were built with it, and precede those of this machine
        let mut roots = vec![Path::new("/")];
        if root != Path::new("/") {
            roots.insert(0, root);
        }
        for library in needs.libraries {
            let named = first.iter().map(|folder| (owner(&roots, folder), folder));
            let usual = roots.iter().flat_map(|root| {
                let folders = self.folders.get(*root).into_iter().flatten();
                folders.map(move |folder| (*root, folder))
            });
            let mut all = named
                .chain(usual)
                .map(|(root, folder)| (root, folder.join(&library)));
            if let Some((root, path)) = all.find(|(_, path)| path.is_file() || path.is_symlink()) {
                let path = Path::new("/").join(path.strip_prefix(root).unwrap_or(&path));
                self.put_path(root, &path)?;
            }
        }
        if let Some(path) = needs.interpreter {
            for root in roots {
                if self.put_path(root, Path::new(&path))? {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn may_read(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::READ_OK).is_ok()
}

fn owner<'a>(roots: &[&'a Path], path: &Path) -> &'a Path {
    let of = roots.iter().find(|root| path.starts_with(root));
    of.copied().unwrap_or(Path::new("/"))
}

/// Returns an absolute path below another root.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Resolves links in the directories of a path, if it exists; packages may have `/bin` where the
/// system has `/usr/bin`, or vice versa.
fn settled(root: &Path, path: &Path) -> Option<PathBuf> {
    let path = plain(path);
    let rest = path.strip_prefix("/").ok()?;
    let shorter = rest.strip_prefix("usr").ok();
    let candidates = [
        Some(path.clone()),
        Some(Path::new("/usr").join(rest)),
        shorter.map(|rest| Path::new("/").join(rest)),
    ];
    candidates.into_iter().flatten().find_map(|path| {
        let here = below(root, &path);
        fs::symlink_metadata(&here).ok()?;
        let folder = fs::canonicalize(here.parent()?).ok()?;
        let folder = folder.strip_prefix(root).ok()?;
        Some(Path::new("/").join(folder).join(path.file_name()?))
    })
}

/// Resolves `..` textually: in a package there is no file system to ask.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => _ = plain.pop(),
            _ => {}
        }
    }
    plain
}

/// Returns the path in the guest of a path of this machine, without the first slash.
fn in_guest(path: &Path) -> String {
    let text = path
        .strip_prefix("/")
        .unwrap_or(path)
        .to_string_lossy()
        .into_owned();
    let first = text.split('/').next().unwrap_or_default();
    match first {
        "bin" | "sbin" | "lib" | "lib64" => format!("usr/{text}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_kept_and_lead_to_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        for folder in ["usr/sbin", "etc/alternatives", "bin"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("bin/multi"), "").unwrap();
        symlink("/etc/alternatives/tables", root.join("usr/sbin/tables")).unwrap();
        symlink("../../usr/bin/multi", root.join("etc/alternatives/tables")).unwrap();
        symlink("nowhere", root.join("usr/sbin/broken")).unwrap();
        let mut tree = Tree::default();
        let mut programs = Programs::new(&mut tree, Some(root.clone()));
        assert!(programs.put("tables").unwrap());
        assert!(!programs.put("broken").unwrap());
        assert!(!programs.put("no-such-program").unwrap());
        let mut expected = Tree::default();
        expected.put(
            "usr/sbin/tables",
            Node::Link("/etc/alternatives/tables".into()),
        );
        expected.put(
            "etc/alternatives/tables",
            Node::Link("/usr/bin/multi".into()),
        );
        expected.put(
            "usr/bin/multi",
            Node::File(Source::at(&root.join("bin/multi")).unwrap()),
        );
        assert_eq!(format!("{tree:?}"), format!("{expected:?}"));
    }

    #[test]
    fn a_program_comes_with_its_libraries_and_loader() {
        let mut tree = Tree::default();
        let mut programs = Programs::new(&mut tree, None);
        programs
            .put_cut(Path::new("/proc/self/exe"), "usr/bin/fwdlab")
            .unwrap();
        assert!(programs.put("sh").unwrap());
        let names = format!("{tree:?}");
        for part in ["usr/bin/fwdlab", "usr/bin/sh", "libc.so.6", "ld-linux"] {
            assert!(names.contains(part), "no {part} in {names}");
        }
        // all in one directory: the guest has links at the other paths
        assert!(
            !names.contains("\"lib/") && !names.contains("\"bin/"),
            "{names}"
        );
    }
}
