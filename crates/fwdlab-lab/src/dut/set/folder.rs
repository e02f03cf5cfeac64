//! A directory that is applied to a DUT: which files go where, their kinds, and the system they are
//! for.
//!
//! The directories `configs/NAME/{boot,etc}` of netbenches are accepted unchanged. Nothing is
//! uploaded here. Start with [`Folder::read`].

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fwdlab_model::set::{self, SetFile};
use fwdlab_model::system::System;

use super::settings::{self, Setting};
use crate::error::LabError;

/// Directories of a system in which a set can have files.
const ROOTS: [&str; 15] = [
    "etc", "boot", "usr", "var", "opt", "root", "home", "srv", "lib", "lib64", "run", "cfg",
    "conf", "data", "sbin",
];

/// More or larger files are probably a mistake.
const MOST_FILES: usize = 10_000;
const MOST_BYTES: u64 = 256 << 20;

/// Prefixes of settings that exist on one system only.
const LINUX: [&str; 8] = [
    "net.ipv4.",
    "net.ipv6.",
    "net.core.",
    "net.netfilter.",
    "net.bridge.",
    "net.unix.",
    "kernel.",
    "fs.",
];
const FREEBSD: [&str; 14] = [
    "hw.",
    "dev.",
    "machdep.",
    "net.inet.",
    "net.inet6.",
    "net.link.",
    "net.isr.",
    "net.pf.",
    "net.bpf.",
    "net.fibs",
    "net.route.",
    "kern.",
    "security.",
    "net.pfsync.",
];

/// A directory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Folder {
    /// Its path.
    pub path: PathBuf,
    /// Its files for the DUT, sorted by path.
    pub files: Vec<Upload>,
    /// Its `set.toml`.
    pub says: SetFile,
    /// The program that runs at the end.
    pub apply: Option<PathBuf>,
}

/// A file for the DUT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Upload {
    /// Its local path.
    pub ours: PathBuf,
    /// Its path on the DUT: `/etc/sysctl.conf`.
    pub theirs: String,
    /// Its mode, if the DUT has no such file yet.
    pub mode: u32,
    /// Its kind.
    pub kind: Kind,
}

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `name = value`, for sysctl.
    Sysctl,
    /// Rules for `nft -f`.
    Nft,
    /// FreeBSD's rc.conf.
    Rc,
    /// FreeBSD's loader.conf.
    Loader,
    /// Rules for `pfctl -f`.
    Pf,
    /// Rules for ipfw.
    Ipfw,
    /// Anything else.
    Other,
}

impl Kind {
    fn from_path(theirs: &str) -> Kind {
        let below = |folder: &str, end: &str| {
            let name = theirs.strip_prefix(folder);
            name.is_some_and(|name| !name.contains('/') && name.ends_with(end))
        };
        match theirs {
            "/etc/sysctl.conf" | "/etc/sysctl.conf.local" => Kind::Sysctl,
            "/etc/nftables.conf" => Kind::Nft,
            "/etc/pf.conf" => Kind::Pf,
            "/boot/loader.conf" | "/boot/loader.conf.local" | "/boot/device.hints" => Kind::Loader,
            _ if below("/etc/sysctl.d/", ".conf") => Kind::Sysctl,
            _ if below("/etc/rc.conf.d/", "") || below("/etc/rc.conf", "") => Kind::Rc,
            _ if below("/boot/loader.conf.d/", "") => Kind::Loader,
            _ if below("/etc/ipfw", "") => Kind::Ipfw,
            _ => Kind::Other,
        }
    }

    /// Returns the system that has such files, if only one does.
    fn system(self) -> Option<System> {
        match self {
            Kind::Nft => Some(System::Linux),
            Kind::Rc | Kind::Loader | Kind::Pf | Kind::Ipfw => Some(System::FreeBsd),
            Kind::Sysctl | Kind::Other => None,
        }
    }

    /// Describes how the file takes effect.
    fn load(self) -> Option<&'static str> {
        match self {
            Kind::Sysctl => Some("every setting is set, and read back"),
            Kind::Nft => Some("nft -f"),
            Kind::Rc | Kind::Loader => Some("restart of the DUT"),
            Kind::Pf => Some("pfctl -f"),
            Kind::Ipfw => Some("service ipfw restart"),
            Kind::Other => None,
        }
    }
}

impl Folder {
    /// Reads a directory, and checks what can be checked without a DUT.
    ///
    /// # Errors
    /// What is wrong, with file and line if there is one.
    pub fn read(path: &Path) -> Result<Folder, LabError> {
        let bad = |reason: String| LabError::Configuration {
            name: path.display().to_string(),
            reason,
        };
        let io = |e: io::Error| bad(e.to_string());
        let toml = path.join(set::NAME);
        let says = match fs::read_to_string(&toml) {
            Ok(text) => {
                let (says, origin) = SetFile::parse(&toml.display().to_string(), &text)?;
                Some((says, origin))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(bad(format!("{}: {e}", set::NAME))),
        };
        let apply = Some(path.join("apply")).filter(|apply| super::is_executable(apply));
        let mut files = Vec::new();
        let mut entries: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(path).map_err(io)? {
            entries.push(entry.map_err(io)?.path());
        }
        entries.sort();
        for entry in entries.iter().filter(|entry| entry.is_dir()) {
            let name = entry.file_name().unwrap_or_default().to_string_lossy();
            if ROOTS.contains(&&*name) {
                walk(entry, &format!("/{name}"), &mut files).map_err(|e| bad(e.to_string()))?;
            } else if apply.is_none() && !name.starts_with('.') {
                return Err(bad(format!(
                    "`{name}` is not a directory of a DUT; those are {}. Files for an executable `apply` can be anywhere next to it",
                    ROOTS.join(", ")
                )));
            }
        }
        let bytes = files
            .iter()
            .map(|file| fs::metadata(&file.ours).map_or(0, |m| m.len()));
        let bytes: u64 = bytes.sum();
        if files.len() > MOST_FILES || bytes > MOST_BYTES {
            return Err(bad(format!(
                "{} files of together {bytes} bytes; a set has at most {MOST_FILES} of {MOST_BYTES}",
                files.len()
            )));
        }
        // sysctl.conf after its drop-ins, like systems do
        files.sort_by_key(|file| (file.theirs == "/etc/sysctl.conf", file.theirs.clone()));
        let is_empty = files.is_empty() && apply.is_none();
        if is_empty && says.is_none() {
            return Err(bad(
                "this directory contains none of etc/sysctl.d/*.conf, etc/sysctl.conf, etc/nftables.conf, other files for the DUT, set.toml \
                 or an executable `apply`"
                    .into(),
            ));
        }
        if let Some((says, origin)) = &says {
            for (n, reload) in says.reload.iter().enumerate() {
                if !files.iter().any(|file| reload.is_for(&file.theirs)) {
                    let has: Vec<&str> = files.iter().map(|file| file.theirs.as_str()).collect();
                    let has = if has.is_empty() {
                        "none".into()
                    } else {
                        has.join(", ")
                    };
                    let cause = format!("the set has no such file; it has {has}");
                    let way = ["reload".into(), n.into(), "files".into()];
                    return Err(origin.error(&way, cause).into());
                }
            }
        }
        let folder = Folder {
            path: path.to_owned(),
            files,
            says: says.map(|(says, _)| says).unwrap_or_default(),
            apply,
        };
        folder.settings()?;
        Ok(folder)
    }

    /// Returns the files of a kind.
    pub fn uploads(&self, kind: Kind) -> impl Iterator<Item = &Upload> {
        self.files.iter().filter(move |file| file.kind == kind)
    }

    /// Returns the settings of its files for sysctl, in order.
    pub fn settings(&self) -> Result<Vec<Setting>, LabError> {
        let files = self
            .uploads(Kind::Sysctl)
            .map(|file| settings::read(&file.ours));
        Ok(files.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Returns true if the DUT must be restarted.
    pub fn reboots(&self) -> bool {
        let by_itself = |file: &Upload| {
            let mut reloads = self.says.reload.iter();
            file.kind == Kind::Rc && reloads.any(|reload| reload.is_for(&file.theirs))
        };
        let needs = |file: &Upload| matches!(file.kind, Kind::Loader | Kind::Rc);
        let mut files = self.files.iter();
        self.says.reboot || files.any(|file| needs(file) && !by_itself(file))
    }

    /// Returns what is specific to one system: `etc/rc.conf`, `hw.pci.x in etc/sysctl.conf`.
    pub fn is_of(&self, system: System) -> Vec<String> {
        let names = match system {
            System::Linux => &LINUX[..],
            System::FreeBsd => &FREEBSD[..],
        };
        let short = |path: &Path| {
            path.strip_prefix(&self.path)
                .unwrap_or(path)
                .display()
                .to_string()
        };
        let files = self
            .files
            .iter()
            .filter(|file| file.kind.system() == Some(system));
        let mut of: Vec<String> = files.map(|file| short(&file.ours)).collect();
        for setting in self.settings().unwrap_or_default() {
            let name = setting.name.replace('/', ".");
            if names.iter().any(|begin| name.starts_with(begin)) {
                of.push(format!("{name} in {}", short(&setting.file)));
            }
        }
        of
    }

    /// Returns what would be done, in lines.
    pub fn needs(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for file in &self.files {
            let reload = self
                .says
                .reload
                .iter()
                .find(|reload| reload.is_for(&file.theirs));
            lines.push(match (reload, file.kind.load()) {
                (Some(reload), _) => format!("{}: {}", file.theirs, reload.command),
                (None, Some(load)) => format!("{}: {load}", file.theirs),
                (None, None) => file.theirs.clone(),
            });
        }
        let commands = [("before", &self.says.before), ("after", &self.says.after)];
        for (when, commands) in commands {
            lines.extend(
                commands
                    .iter()
                    .map(|text| format!("{when} the files: {text}")),
            );
        }
        if self.apply.is_some() {
            lines.push("apply is executed".into());
        }
        if self.reboots() {
            lines.push("the DUT is restarted".into());
        }
        lines
    }
}

/// Collects all files of a directory, with their paths on the DUT.
fn walk(folder: &Path, theirs: &str, files: &mut Vec<Upload>) -> io::Result<()> {
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder)? {
        entries.push(entry?.path());
    }
    entries.sort();
    for ours in entries {
        let name = ours
            .file_name()
            .unwrap_or_default()
            .to_str()
            .map(str::to_owned);
        let name = name.filter(|name| !name.chars().any(char::is_control));
        let Some(name) = name else {
            let reason = format!("{}: its name cannot be passed to a DUT", ours.display());
            return Err(io::Error::other(reason));
        };
        let theirs = format!("{theirs}/{name}");
        let kind = fs::metadata(&ours)
            .map_err(|e| io::Error::other(format!("{}: {e}", ours.display())))?;
        if kind.is_dir() {
            walk(&ours, &theirs, files)?;
        } else if kind.is_file() {
            files.push(Upload {
                mode: kind.permissions().mode() & 0o7777,
                kind: Kind::from_path(&theirs),
                ours,
                theirs,
            });
        } else {
            return Err(io::Error::other(format!(
                "{} is not a file",
                ours.display()
            )));
        }
        if files.len() > MOST_FILES {
            return Err(io::Error::other(format!("more than {MOST_FILES} files")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        directory
    }

    fn error(files: &[(&str, &str)]) -> String {
        Folder::read(set(files).path()).unwrap_err().to_string()
    }

    #[test]
    fn files_are_classified_by_their_destination() {
        let set = set(&[
            ("set.toml", "reboot = true"),
            ("etc/sysctl.conf", "net.ipv4.ip_forward=1"),
            ("etc/sysctl.d/20.conf", ""),
            ("etc/sysctl.d/x.bak", ""),
            ("etc/nftables.conf", ""),
            ("etc/frr/frr.conf", ""),
            ("boot/loader.conf.local", ""),
            ("etc/rc.conf.misc", ""),
            ("etc/ipfw.rules", ""),
            ("README", "not for the DUT"),
        ]);
        let folder = Folder::read(set.path()).unwrap();
        let kinds: Vec<(&str, Kind)> = folder
            .files
            .iter()
            .map(|f| (f.theirs.as_str(), f.kind))
            .collect();
        assert_eq!(
            kinds,
            [
                ("/boot/loader.conf.local", Kind::Loader),
                ("/etc/frr/frr.conf", Kind::Other),
                ("/etc/ipfw.rules", Kind::Ipfw),
                ("/etc/nftables.conf", Kind::Nft),
                ("/etc/rc.conf.misc", Kind::Rc),
                ("/etc/sysctl.d/20.conf", Kind::Sysctl),
                ("/etc/sysctl.d/x.bak", Kind::Other),
                ("/etc/sysctl.conf", Kind::Sysctl),
            ]
        );
        assert!(folder.reboots());
        assert_eq!(
            folder.is_of(System::Linux),
            [
                "etc/nftables.conf",
                "net.ipv4.ip_forward in etc/sysctl.conf"
            ]
        );
        assert_eq!(folder.is_of(System::FreeBsd).len(), 3);
        assert!(
            folder
                .needs()
                .contains(&"/etc/nftables.conf: nft -f".to_owned())
        );
    }

    #[test]
    fn malformed_sets_are_refused_with_a_reason() {
        assert!(error(&[]).contains("this directory contains none of"));
        assert!(
            error(&[("ect/sysctl.conf", "")])
                .contains("`ect` is not a directory of a DUT; those are etc, boot")
        );
        let lost = error(&[
            (
                "set.toml",
                "[[reload]]\nfiles = '/etc/frr/*'\ncommand = 'x'",
            ),
            ("etc/a", ""),
        ]);
        assert!(
            lost.contains("set.toml:2:9: the set has no such file; it has /etc/a"),
            "{lost}"
        );
        let broken = error(&[("etc/sysctl.conf", "\nx\n")]);
        assert!(
            broken.contains("line 2 is not `name = value`: x"),
            "{broken}"
        );
        let key = error(&[("set.toml", "rebot = true")]);
        assert!(
            key.contains("set.toml:1:1: unknown key `rebot`; did you mean `reboot`?"),
            "{key}"
        );
    }
}
