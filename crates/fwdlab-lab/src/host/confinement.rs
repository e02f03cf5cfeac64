//! The isolation of users' commands on a DUT: in addition to its network namespace, they get mount
//! and PID namespaces.
//!
//! It prevents accidental changes to the host, not deliberate ones: root inside has the privileges
//! of root. The namespaces live as long as the [`Confinement`], and end with this process: their
//! first process reads a pipe that only this process can write to, and its end kills all others.
//! `docs/reference/configurations.md` describes what a configuration may do. Start with
//! [`Confinement::begin`].

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::sys::start_read_only;

/// The directory below which the host's files are writable.
const WRITABLE: &std::ffi::CStr = c"/tmp";

/// The last line of output before the namespaces are used.
const READY: &str = "ready";

/// The script of the first process, with mounts that are read-only except [`WRITABLE`]. Everything
/// else that is writable is a private mount; processes and interfaces are those of the DUT; of the
/// kernel's settings only those of the network can be changed.
const SCRIPT: &str = r#"
set -e
cd /
read_only() {
    [ ! -e "$1" ] || { mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"; }
}
mount -t proc -o nosuid,nodev,noexec proc /proc 2>/dev/null ||
    echo "note: /proc is the host's, as this container allows no other"
for part in bus fs irq sys sysrq-trigger; do read_only /proc/$part; done
mount --bind /proc/sys/net /proc/sys/net
mount -o remount,bind,rw /proc/sys/net
mount -t sysfs -o nosuid,nodev,noexec sysfs /sys
mount --bind /sys/devices/virtual/net /sys/devices/virtual/net
mount -o remount,bind,ro /sys
[ ! -d /dev/shm ] || mount -t tmpfs -o nosuid,nodev fwdlab /dev/shm
mount -t tmpfs -o nosuid,nodev,mode=0755 "$MARK" "$STATE"
over() {
    mount -t overlay -o "$2lowerdir=/$1,upperdir=$STATE/$1/files,workdir=$STATE/$1/work" "$MARK" "/$1" 2>/dev/null
}
# names of namespaces mean nothing here: below an overlay they are empty files, of which `ip` complains one by one
mkdir -p "$STATE/run/files"
mknod "$STATE/run/files/netns" c 0 0 2>/dev/null || :
# that with the state is the last
for part in etc var run; do
    [ -d /$part ] && [ ! -L /$part ] || continue
    mkdir -p "$STATE/$part/files" "$STATE/$part/work"
    chmod "$(stat -c %a /$part)" "$STATE/$part/files"
    over $part '' || over $part userxattr, ||
        echo "note: /$part can only be read: the kernel lays no overlay over it"
done
echo ready
# what loses its parent becomes our child: nobody waits for it
trap '' CHLD
exec cat >/dev/null 2>&1
"#;

/// Namespaces for a DUT's processes, all of which end when it is dropped.
#[derive(Debug)]
pub(crate) struct Confinement {
    holder: Child,
    lifeline: Option<ChildStdin>,
    /// Lines about parts of the isolation that were not possible.
    pub notes: String,
}

impl Confinement {
    /// Creates them for the DUT in this namespace; for `mark` see [`crate::host::registry::mark`].
    ///
    /// # Errors
    /// A message if the kernel does not allow it.
    pub fn begin(namespace: &str, mark: &str) -> Result<Confinement, String> {
        let impossible = |reason: String| {
            format!(
                "cannot isolate a configuration of the DUT from the host: {reason}. --set-unconfined applies it without isolation"
            )
        };
        let network = super::netns::file(namespace)
            .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
            .and_then(File::open)
            .map_err(|e| format!("cannot enter {namespace}: {e}"))?;
        let mut command = Command::new("unshare");
        command
            .args(["--pid", "--fork", "--kill-child", "sh", "-c", SCRIPT])
            .env("MARK", mark)
            .env("STATE", crate::host::registry::DIRECTORY)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        start_read_only(&mut command, network, WRITABLE);
        let mut holder = command.spawn().map_err(|e| {
            impossible(format!(
                "`unshare` does not start in its own mount namespace: {e}"
            ))
        })?;
        let (output, errors) = (holder.stdout.take(), holder.stderr.take());
        let mut confinement = Confinement {
            lifeline: holder.stdin.take(),
            notes: String::new(),
            holder,
        };
        for line in output
            .map(BufReader::new)
            .into_iter()
            .flat_map(BufRead::lines)
        {
            match line {
                Ok(line) if line == READY => return Ok(confinement),
                Ok(note) => confinement.notes += &format!("{note}\n"),
                Err(_) => break,
            }
        }
        drop(confinement);
        let mut reason = String::new();
        if let Some(mut errors) = errors {
            let _ = errors.read_to_string(&mut reason);
        }
        Err(impossible(reason.trim().to_owned()))
    }

    /// Returns the words that precede a command to run it inside: `nsenter` and its options.
    pub fn entry(&self) -> Vec<String> {
        let of =
            |option: &str, name: &str| format!("--{option}=/proc/{}/ns/{name}", self.holder.id());
        vec![
            "nsenter".into(),
            of("net", "net"),
            of("mount", "mnt"),
            of("pid", "pid_for_children"),
        ]
    }
}

impl Drop for Confinement {
    fn drop(&mut self) {
        // the first process ends, and the kernel kills the others before it is gone
        self.lifeline = None;
        let _ = self.holder.wait();
    }
}
