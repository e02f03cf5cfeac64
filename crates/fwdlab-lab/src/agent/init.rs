//! The agent as the first process of a virtual machine: mounts what programs expect, loads what the channel needs, and answers.
//!
//! It runs in a guest of ours only, never on a machine that is anybody's. Start with [`run`].

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};

use super::serve::serve;
use crate::host::wire::CHANNEL;
use crate::host::{Command, Host, Limit, Local};

/// So long a channel is waited for.
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

/// What the channel and test beds need, where it is no part of the kernel.
const MODULES: &[&str] = &["virtio_pci", "virtio_console", "veth"];

/// Settings by which a profile has names for programs that were compiled in the kernel.
const SETTINGS: &[(&str, &str)] = &[
    ("/proc/sys/net/core/bpf_jit_enable", "1"),
    ("/proc/sys/net/core/bpf_jit_kallsyms", "1"),
    ("/proc/sys/kernel/printk", "4 4 1 7"),
];

/// Is this the first process of a machine?
pub fn is_first() -> bool {
    rustix::process::getpid().is_init()
}

/// Serves the machine until nobody asks any more, and ends it. What fails is returned to be said on the console, and the machine
/// ends all the same with [`power_off`].
///
/// # Errors
/// There is no channel, or it failed.
pub fn run() -> Result<(), String> {
    for (source, target, kind) in MOUNTS {
        let _ = fs::create_dir_all(target);
        // a kernel without one of them can still do the others' work
        let _ = mount(*source, *target, *kind, MountFlags::empty(), None);
    }
    let _ = fs::create_dir_all("/run/netns");
    let load = Command::new("modprobe", &[&["-q", "-a"], MODULES].concat());
    // what is part of the kernel has no module
    let _ = Local.run(&load, Limit::OURS);
    for (file, value) in SETTINGS {
        let _ = fs::write(file, value);
    }
    let _ = Local.ask("ip", &["link", "set", "lo", "up"]);
    let path = channel().ok_or("the machine has no channel to the outside")?;
    let mut channel = open(&path).map_err(|e| format!("cannot open {}: {e}", path.display()))?;
    serve(&mut channel).map_err(|e| format!("the channel failed: {e}"))
}

/// Ends the machine.
pub fn power_off() {
    rustix::fs::sync();
    // where it cannot be switched off, a restart ends it, too: machines of ours do not start again
    let _ = reboot(RebootCommand::PowerOff);
    let _ = reboot(RebootCommand::Restart);
}

/// The port of the machine that has our name.
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
