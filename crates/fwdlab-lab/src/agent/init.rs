//! The agent as the first process of a virtual machine: mounts the usual file systems, loads the
//! modules of the channel, and answers questions.
//!
//! Runs only in fwdlab's own guests, never on a user's machine. Start with [`run`].

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};

use super::serve::serve;
use crate::host::wire::CHANNEL;
use crate::host::{Command, Host, Limit, Local};

/// How long to wait for the channel.
const PATIENCE: Duration = Duration::from_secs(10);

const MOUNTS: &[(&str, &str, &str)] = &[
    ("proc", "/proc", "proc"),
    ("sysfs", "/sys", "sysfs"),
    ("devtmpfs", "/dev", "devtmpfs"),
    ("tmpfs", "/run", "tmpfs"),
    ("tmpfs", "/tmp", "tmpfs"),
    ("bpf", "/sys/fs/bpf", "bpf"),
    ("cgroup2", "/sys/fs/cgroup", "cgroup2"),
    ("devpts", "/dev/pts", "devpts"),
];

/// Modules that the channel and test beds need, if they are not built into the kernel.
const MODULES: &[&str] = &["virtio_pci", "virtio_console", "veth"];

/// Settings that give a profile names for JIT-compiled BPF programs, and the log level of the
/// console.
const SETTINGS: &[(&str, &str)] = &[
    ("/proc/sys/net/core/bpf_jit_enable", "1"),
    ("/proc/sys/net/core/bpf_jit_kallsyms", "1"),
    ("/proc/sys/kernel/printk", "4 4 1 7"),
];

/// Returns true if this is the first process of a machine.
pub fn is_first() -> bool {
    rustix::process::getpid().is_init()
}

/// Serves the machine until the channel closes. The caller prints an error on the console; in
/// either case it then ends the machine with [`power_off`].
///
/// # Errors
/// There is no channel, or it failed.
pub fn run() -> Result<(), String> {
    for (source, target, kind) in MOUNTS {
        let _ = fs::create_dir_all(target);
        // the guest has a program of the user's there
        let has_files = || fs::read_dir(target).is_ok_and(|mut files| files.next().is_some());
        if *target == "/tmp" && has_files() {
            continue;
        }
        // a kernel that lacks one of them can still do the rest
        let _ = mount(*source, *target, *kind, MountFlags::empty(), None);
    }
    let _ = fs::create_dir_all("/run/netns");
    let load = Command::new("modprobe", &[&["-q", "-a"], MODULES].concat());
    // the error is ignored: what is built into the kernel has no module
    let _ = Local.run(&load, Limit::OURS);
    for (file, value) in SETTINGS {
        let _ = fs::write(file, value);
    }
    let _ = Local.query("ip", &["link", "set", "lo", "up"]);
    let path = channel().ok_or("the machine has no channel to the outside")?;
    let mut channel = open(&path).map_err(|e| format!("cannot open {}: {e}", path.display()))?;
    serve(&mut channel).map_err(|e| format!("the channel failed: {e}"))
}

/// Ends the machine.
pub fn power_off() {
    rustix::fs::sync();
    // if the machine cannot be switched off, a restart ends it, too: fwdlab's machines exit on
    // reboot
    let _ = reboot(RebootCommand::PowerOff);
    let _ = reboot(RebootCommand::Restart);
}

/// Returns the port of the machine that has our name.
fn channel() -> Option<PathBuf> {
    let step = Duration::from_millis(20);
    for _ in 0..PATIENCE.as_millis() / step.as_millis() {
        let ports = fs::read_dir("/sys/class/virtio-ports");
        for port in ports.into_iter().flatten().flatten() {
            let name = fs::read_to_string(port.path().join("name")).unwrap_or_default();
            let device = Path::new("/dev").join(port.file_name());
            if name.trim() == CHANNEL && device.exists() {
                return Some(device);
            }
        }
        std::thread::sleep(step);
    }
    None
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}
