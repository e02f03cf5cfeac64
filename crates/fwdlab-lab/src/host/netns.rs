//! A network namespace of this machine as a host: bare, for our own commands, or as a place for
//! users' commands on a DUT.
//!
//! A place is isolated from the machine, see [`super::confinement`]; without isolation, its
//! commands see `/proc/sys` read-only except for `/proc/sys/net`, and can change everything else.
//! Start with [`Netns::bare`], [`Netns::place`].

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::confinement::Confinement;
use super::local::{Local, LocalProcess, in_its_place, run_as};
use super::{
    Address, Command, Failure, Files, Host, HostError, Limit, Output, Process, as_file_error,
};
use crate::error::LabError;
use crate::host::registry;

/// The first commands in the shell of an unconfined command. `ip netns exec` gives it its own mount
/// namespace.
const PROTECT: &str = "\
mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && mount --bind /proc/sys/net /proc/sys/net \
&& mount -o remount,bind,rw /proc/sys/net || { echo 'cannot protect /proc/sys of the host' >&2; exit 125; }
";

/// The first commands in the shell of a command in a machine of ours: `/sys` is that of its
/// network, and what it mounts below `/run/netns` stays. With `ip netns exec`, a namespace that a
/// configuration adds would vanish with the command.
const SEE: &str = "mount -t sysfs sysfs /sys && exec \"$@\"";

/// Files below these depend on the network namespace of the reader, whichever mount they are read
/// through.
const OF_THE_NETWORK: &[&str] = &["/proc/sys/net/", "/proc/thread-self/net/"];

/// A network namespace.
#[derive(Debug)]
pub struct Netns {
    namespace: String,
    apart: Isolation,
}

/// How its commands are isolated from the machine.
#[derive(Debug)]
enum Isolation {
    Bare,
    /// Not at all, in a machine that is ours.
    Ours,
    Unconfined {
        lab: String,
    },
    Confined(Mutex<Confined>),
}

/// Where confined commands run, from the first one on.
#[derive(Debug)]
struct Confined {
    lab: String,
    place: Option<Confinement>,
    /// Notes of the place that no command has returned yet.
    notes: String,
}

impl Netns {
    /// Returns the namespace for commands that share everything but the network with this machine.
    pub fn bare(namespace: &str) -> Netns {
        Netns {
            namespace: namespace.to_owned(),
            apart: Isolation::Bare,
        }
    }

    /// The same in a machine of ours, where commands may create namespaces that stay.
    pub(crate) fn ours(namespace: &str) -> Netns {
        Netns {
            namespace: namespace.to_owned(),
            apart: Isolation::Ours,
        }
    }

    /// Returns the place of users' commands in the namespace of a lab; they end with the lab.
    pub fn place(namespace: &str, lab: &str, is_unconfined: bool) -> Netns {
        let lab = lab.to_owned();
        Netns {
            namespace: namespace.to_owned(),
            apart: match is_unconfined {
                true => Isolation::Unconfined { lab },
                false => Isolation::Confined(Mutex::new(Confined {
                    lab,
                    place: None,
                    notes: String::new(),
                })),
            },
        }
    }

    /// Returns the notes of the place, once: only the output of a command that ends can have them.
    fn notes(&self) -> String {
        match &self.apart {
            Isolation::Confined(confined) => {
                let mut confined = confined.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut confined.notes)
            }
            _ => String::new(),
        }
    }

    /// Returns the local command that runs a command there.
    fn local_command(&self, command: &Command) -> Result<Command, HostError> {
        let words = command.words.iter().cloned();
        let around = |before: Vec<String>| Command {
            words: before.into_iter().chain(words).collect(),
            ..command.clone()
        };
        let exec = || ["ip", "netns", "exec", &self.namespace].map(str::to_owned);
        Ok(match &self.apart {
            // `ip -n` enters the namespace by itself, without new mounts, which takes less than
            // half the time
            Isolation::Bare | Isolation::Ours if command.program() == "ip" => {
                let mut here = command.clone();
                here.words
                    .splice(1..1, ["-n".into(), self.namespace.clone()]);
                here
            }
            Isolation::Bare => around(exec().to_vec()),
            Isolation::Ours => {
                let enter = format!("--net=/run/netns/{}", self.namespace);
                let unshare = ["unshare", "--mount", "--propagation", "unchanged"];
                let shell = ["sh", "-c", SEE, "sh"];
                let mut before = vec!["nsenter".to_owned(), enter];
                before.extend(unshare.into_iter().chain(shell).map(str::to_owned));
                around(before)
            }
            Isolation::Unconfined { lab } => {
                let text = format!("{}{PROTECT}exec \"$@\"", registry::marking(lab));
                let shell = ["sh".into(), "-c".into(), text, "sh".into()];
                around([&exec()[..], &shell].concat())
            }
            Isolation::Confined(confined) => {
                let mut confined = confined.lock().unwrap_or_else(PoisonError::into_inner);
                if confined.place.is_none() {
                    let mark = registry::mark(&confined.lab);
                    let place = Confinement::begin(&self.namespace, &mark).map_err(|reason| {
                        HostError::new(&self.namespace, command, Failure::Refused(reason))
                    })?;
                    confined.notes.clone_from(&place.notes);
                    confined.place = Some(place);
                }
                let entry = confined.place.as_ref().map(Confinement::entry);
                let folder = std::env::current_dir().unwrap_or_default();
                let shell = ["sh", "-c", "cd \"$0\" 2>/dev/null || cd /; exec \"$@\""];
                let mut before = entry.unwrap_or_default();
                before.extend(shell.map(str::to_owned));
                before.push(folder.to_string_lossy().into_owned());
                around(before)
            }
        })
    }

    /// Returns true if the content of a file depends only on the network namespace of the thread,
    /// and not on mounts of a place.
    fn is_per_namespace(path: &str) -> bool {
        OF_THE_NETWORK.iter().any(|of| path.starts_with(of))
    }

    /// Reads or writes a network file on a thread in the namespace.
    fn within(
        &self,
        action: String,
        work: impl FnOnce() -> std::io::Result<Vec<u8>> + Send,
    ) -> Result<Vec<u8>, HostError> {
        let error =
            |reason: String| HostError::new(&self.namespace, &action, Failure::File(reason));
        let worked = within(&self.namespace, || Ok(work())).map_err(|e| error(e.to_string()))?;
        worked.map_err(|e| error(e.to_string()))
    }
}

impl Host for Netns {
    fn name(&self) -> &str {
        &self.namespace
    }

    fn address(&self) -> Address {
        Address::Namespace(self.namespace.clone())
    }

    fn run(&self, command: &Command, limit: Limit<'_>) -> Result<Output, HostError> {
        let here = self.local_command(command)?;
        let mut output = run_as(self.name(), command, &here, limit)?;
        output.stdout.splice(..0, self.notes().into_bytes());
        Ok(output)
    }

    fn start(&self, command: &Command) -> Result<Box<dyn Process>, HostError> {
        let here = self.local_command(command)?;
        Ok(Box::new(LocalProcess::start(self.name(), command, &here)?))
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        let action = format!("read {path}");
        if Netns::is_per_namespace(path) {
            return self.within(action, || fs::read(path));
        }
        if matches!(self.apart, Isolation::Bare | Isolation::Ours) && path.starts_with("/proc/") {
            return Local.read(path);
        }
        let cat = Command::new("cat", &[path]).called(action);
        let output = self.run(&cat, Limit::OURS);
        Ok(output.map_err(as_file_error)?.stdout)
    }

    fn write(&self, path: &str, content: &[u8]) -> Result<(), HostError> {
        let action = format!("write {path}");
        if Netns::is_per_namespace(path) {
            let write = || fs::write(path, content).map(|()| Vec::new());
            return self.within(action, write).map(drop);
        }
        let command = match std::str::from_utf8(content) {
            Ok(text) => Command::new("sh", &["-c", "cat > \"$1\"", "sh", path]).with_input(text),
            // the input of commands must be text
            Err(_) => Command::new("sh", &["-s", "--", path]).with_input(printed(content)),
        };
        let output = self.run(&command.called(action), Limit::OURS);
        output.map(drop).map_err(as_file_error)
    }

    fn put(&self, ours: &Path) -> Result<String, HostError> {
        in_its_place(self.name(), ours)
    }

    fn files(&self) -> Files {
        match self.apart {
            Isolation::Bare | Isolation::Unconfined { .. } => Files::Ours,
            Isolation::Ours => Files::Guest,
            Isolation::Confined(_) => Files::View,
        }
    }
}

/// Returns a script that writes these bytes to the file in its first argument.
fn printed(content: &[u8]) -> String {
    let octal =
        |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("\\{byte:03o}")).collect() };
    let lines = content
        .chunks(1024)
        .map(|bytes| format!("printf '{}'\n", octal(bytes)));
    format!("{{\n{}}} > \"$1\"\n", lines.collect::<String>())
}

/// Returns the file of a named namespace.
pub fn file(namespace: &str) -> Option<PathBuf> {
    Some(PathBuf::from("/run/netns").join(namespace))
}

/// Returns files of all network namespaces that are visible from here, the likely ones first, some
/// more than once: our own, that of the host's first process, those with a name, those of other
/// processes and threads, and those that are only mounted or held open.
pub(crate) fn namespaces() -> impl Iterator<Item = PathBuf> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let first = ["/proc/self/ns/net", "/proc/1/ns/net"].map(PathBuf::from);
    let named = entries(Path::new("/run/netns")).map(|entry| entry.path());
    let processes: Vec<PathBuf> = entries(Path::new("/proc"))
        .map(|entry| entry.path())
        .filter(|path| path.join("ns/net").symlink_metadata().is_ok())
        .collect();
    let running: Vec<PathBuf> = processes.iter().map(|path| path.join("ns/net")).collect();
    // processes that share their mounts see the same files
    let mut views = HashSet::new();
    let mounted = processes.clone().into_iter().filter(move |process| {
        identity(process.join("ns/mnt")).is_some_and(|view| views.insert(view))
    });
    let mounted = mounted.flat_map(|process| {
        let table = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
        let below = process.join("root");
        let points: Vec<PathBuf> = (table.lines().filter_map(namespace_mount))
            .map(|point| below.join(point.trim_start_matches('/')))
            .collect();
        points
    });
    let held = processes.into_iter().flat_map(move |process| {
        let files = entries(&process.join("fd")).map(|entry| entry.path());
        let is_namespace = |path: &PathBuf| {
            let target = fs::read_link(path).unwrap_or_default();
            target.to_string_lossy().starts_with("net:[")
        };
        files.filter(is_namespace).collect::<Vec<_>>()
    });
    (first.into_iter().chain(named))
        .chain(running)
        .chain(mounted)
        .chain(held)
}

/// Returns the mount point of a network namespace in a line of `/proc/PID/mountinfo`, if it is one
/// (proc_pid_mountinfo(5)).
pub(crate) fn namespace_mount(line: &str) -> Option<&str> {
    let fields: Vec<&str> = line.split(' ').collect();
    let point = fields.get(4).copied()?;
    fields[3].starts_with("net:[").then_some(point)
}

/// Returns device and inode of a namespace.
pub(crate) fn identity(path: impl AsRef<Path>) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

/// Returns the network namespace of this thread and of the commands that it runs, as the kernel
/// names it: `net:[4026531840]`.
pub(crate) fn own() -> Option<String> {
    let name = fs::read_link("/proc/thread-self/ns/net").ok()?;
    Some(name.to_string_lossy().into_owned())
}

/// Returns a file of the network namespace with such a name; the name itself if none is visible.
pub(crate) fn file_of(name: &str) -> PathBuf {
    let is_it =
        |path: &PathBuf| identity(path).is_some_and(|(_, inode)| format!("net:[{inode}]") == name);
    namespaces().find(is_it).unwrap_or_else(|| name.into())
}

/// Runs `work` on a thread inside a named namespace: for things that exist only on this machine,
/// such as its sockets. For DUTs use commands and files.
pub(crate) fn within<T: Send>(
    namespace: &str,
    work: impl FnOnce() -> Result<T, LabError> + Send,
) -> Result<T, LabError> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            fwdlab_engine::port::enter(&file(namespace))?;
            work()
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_put_into_the_namespace() {
        let words = |host: &Netns, command: &[&str]| {
            let command = Command::new(command[0], &command[1..]);
            host.local_command(&command).unwrap().words
        };
        let bare = Netns::bare("x");
        assert_eq!(
            words(&bare, &["ip", "-4", "route"]),
            ["ip", "-n", "x", "-4", "route"]
        );
        assert_eq!(
            words(&bare, &["nft", "-f", "-"]),
            ["ip", "netns", "exec", "x", "nft", "-f", "-"]
        );
        let place = words(&Netns::place("x", "ab3d", true), &["ip", "route"]);
        assert_eq!(place[..4], ["ip", "netns", "exec", "x"]);
        assert!(place[6].starts_with("mount -t tmpfs"), "{place:?}");
        assert_eq!(place[7..], ["sh", "ip", "route"]);
    }

    /// A command that keeps running may be the first one; the next one that ends has the notes.
    #[test]
    fn notes_of_a_place_are_not_lost_by_a_command_that_keeps_running() {
        let host = Netns::place("x", "ab3d", false);
        let Isolation::Confined(confined) = &host.apart else {
            panic!("a place is confined");
        };
        confined.lock().unwrap().notes = "no /etc of its own\n".into();
        assert_eq!(host.notes(), "no /etc of its own\n");
        assert_eq!(host.notes(), "");
    }

    #[test]
    fn a_missing_namespace_is_named() {
        let host = Netns::bare("fwdlab-no-such-namespace");
        for error in [
            host.read("/proc/thread-self/net/dev").unwrap_err(),
            host.query("true", &[]).unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(text.contains("fwdlab-no-such-namespace"), "{text}");
        }
    }
}
