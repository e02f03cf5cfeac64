//! Whole machines: tests everything that a lab does to a hardware router on emulated machines that
//! boot their own disk.
//!
//! Needs QEMU, and no privileges. `test_disk` describes the disk. Start with
//! [`in_guests::whole_machines_are_treated_like_physical_ones`].

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is how a test fails, and helpers of tests are tests too"
)]

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fwdlab_lab::LabError;
use fwdlab_lab::host::Limit;
use fwdlab_lab::vm::computer::{
    ADDRESS, Cable, Card, Computer, Devices, End, Port, Restart, Setup, State, System, link,
};
use fwdlab_lab::vm::image::cache::Cache;
use fwdlab_lab::vm::image::disk::Disk;
use fwdlab_lab::vm::image::{Image, ImageKind};
use fwdlab_lab::vm::qemu::Accelerator;

use tempfile::TempDir;

use crate::test_disk::{IMAGE, TestDisk};

fn skipped(reason: &str) {
    let test = std::thread::current();
    println!("SKIPPED: {}: {reason}", test.name().unwrap_or("a test"));
}

/// Longer than a boot takes on a busy host.
const BOOT: Limit<'static> = within(120);

const fn within(seconds: u64) -> Limit<'static> {
    Limit {
        time: Duration::from_secs(seconds),
        is_stopped: &|| false,
    }
}

fn disk(folder: &TempDir, path: &Path) -> Disk {
    let cache = Cache::at(&folder.path().join("cache")).unwrap();
    let found = Image::find(path.to_str().unwrap(), &cache, &mut |_| {}).unwrap();
    match found.kind {
        ImageKind::Disk(disk) => disk,
        ImageKind::Kernel(_) => panic!("{} is no disk", path.display()),
    }
}

fn setup(folder: &TempDir, name: &str, system: System, links: Vec<End>) -> Setup {
    Setup {
        name: name.into(),
        system,
        cpus: 1,
        memory_mib: 512,
        devices: Devices::Virtio,
        address: ADDRESS,
        ports: links
            .into_iter()
            .map(|end| Port {
                card: Card::Virtio,
                cable: Cable::Machine(end),
            })
            .collect(),
        folder: folder.path().join(name),
    }
}

/// Starts a machine in the emulator, even if KVM is available, so that a test does the same
/// everywhere.
fn start(setup: Setup) -> Result<Computer, LabError> {
    Computer::start(setup, Accelerator::Emulated, &|| false)
}

/// Answers the boot loader, and logs in.
fn log_in(computer: &Computer, entry: &str) {
    computer.wait_for("boot:", BOOT).unwrap();
    computer.type_line(entry).unwrap();
    computer.wait_for("login:", BOOT).unwrap();
    computer.type_line("root").unwrap();
    computer.wait_for("Password:", BOOT).unwrap();
    computer.type_line("fwdlab").unwrap();
    computer.wait_for("# ", BOOT).unwrap();
}

/// Types a command, and waits until it ends.
fn command(computer: &Computer, text: &str) {
    // the console echoes what is typed: only the shell joins the two parts
    computer
        .type_line(&format!("{text} && echo DO''NE"))
        .unwrap();
    let done = computer.wait_for("DONE", BOOT);
    done.unwrap_or_else(|e| panic!("{text}: {e}\n{}", computer.console()));
}

/// Runs a command over SSH, through the forwarded management port.
fn ssh(computer: &Computer, key: &Path, text: &str) -> String {
    let at = computer.management().unwrap();
    let (host, port) = (format!("root@{}", at.ip()), at.port().to_string());
    let known = "-F none -oBatchMode=yes -oStrictHostKeyChecking=no -oUserKnownHostsFile=/dev/null -oConnectTimeout=60";
    let printed = Command::new("ssh")
        .args(["-q", "-p", &port, "-i"])
        .arg(key)
        .args(known.split(' '))
        .args([&host, text])
        .output()
        .unwrap();
    assert!(
        printed.status.success(),
        "{printed:?}\n{}",
        computer.console()
    );
    String::from_utf8(printed.stdout).unwrap()
}

fn sum(path: &Path) -> String {
    let printed = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(printed.stdout).unwrap()
}

/// Nothing boots here.
#[test]
fn machines_that_cannot_start_have_a_reason() {
    for program in ["qemu-system-x86_64", "qemu-img"] {
        if Command::new(program).arg("--version").output().is_err() {
            return skipped(&format!("no {program}"));
        }
    }
    let folder = TempDir::new().unwrap();
    let raw = folder.path().join("raw");
    let mut sector = vec![0; 1 << 20];
    sector[510..512].copy_from_slice(b"\x55\xaa");
    fs::write(&raw, sector).unwrap();
    let raw = disk(&folder, &raw);
    let system = || System::Disk(raw.clone());

    let mut large = setup(&folder, "large", system(), Vec::new());
    // more than an address space has
    large.memory_mib = 200_000_000;
    let reason = start(large).unwrap_err().to_string();
    assert!(reason.contains("give the machine less"), "{reason}");

    let computer = start(setup(&folder, "empty", system(), Vec::new())).unwrap();
    let firmware = folder.path().join("empty/bios.log");
    let started = Instant::now();
    while !fs::read_to_string(&firmware)
        .is_ok_and(|printed| printed.contains("Booting from Hard Disk"))
    {
        assert!(started.elapsed() < BOOT.time, "the firmware does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    let reason = computer.wait_for("login:", within(0)).unwrap_err();
    let reason = reason.to_string();
    assert!(
        reason.contains("empty: waited 0 s for `login:`"),
        "{reason}"
    );
    assert!(reason.contains("Booting from Hard Disk"), "{reason}");
    // everything that a machine without power refuses
    let port = computer.management().unwrap();
    computer.pull();
    assert_eq!(computer.state(), State::Off);
    for refused in [computer.reset(), computer.nmi(), computer.type_line("x")] {
        let reason = refused.unwrap_err().to_string();
        assert!(reason.contains("it is off"), "{reason}");
    }

    assert!(computer.management().is_err());

    // another program has taken its port meanwhile
    let _other = TcpListener::bind(port).unwrap();
    computer.power_on(&|| false).unwrap();
    assert_ne!(computer.management().unwrap(), port);

    // the disk of a machine that another process runs
    let used = folder.path().join("empty/overlay.qcow2");
    let cache = Cache::at(&folder.path().join("cache")).unwrap();
    let reason = Image::find(used.to_str().unwrap(), &cache, &mut |_| {}).unwrap_err();
    assert!(
        reason.to_string().contains("Another emulator is using it"),
        "{reason}"
    );
    drop(computer);
    assert!(!used.exists(), "what it wrote goes with it");
    assert!(
        folder.path().join("empty/console.log").exists(),
        "what it said does not"
    );

    // deleted after it was found
    fs::remove_file(&raw.path).unwrap();
    let reason = start(setup(&folder, "gone", system(), Vec::new()))
        .unwrap_err()
        .to_string();
    assert!(reason.contains("qemu-img says"), "{reason}");
}

/// Guests keep a CPU busy each, which would stall the frames of other tests. Nothing here is judged
/// by time.
mod in_guests {
    use super::*;

    /// Takes 35 s of CPU: three boots, one boot that must fail, and four as far as the boot loader.
    #[test]
    fn whole_machines_are_treated_like_physical_ones() {
        if std::env::var_os("FWDLAB_LONG").is_none() {
            return skipped("whole machines: FWDLAB_LONG=1 runs them, for minutes");
        }
        let folder = TempDir::new().unwrap();
        let of_test = match TestDisk::get() {
            Ok(disk) => disk,
            Err(reason) => return skipped(&reason),
        };
        let before = sum(&of_test.disk);
        let system = || System::Disk(disk(&folder, &of_test.disk));
        let [a, b] = link(folder.path(), "link").unwrap();
        // one of them with an address typical of home routers
        let own = Ipv4Addr::new(192, 168, 1, 1);
        let machines = [("dut", a, ADDRESS), ("second", b, own)].map(|(name, end, address)| {
            let mut setup = setup(&folder, name, system(), vec![end]);
            setup.address = address;
            start(setup)
        });
        let [dut, second] = match machines {
            [Err(LabError::Preflight(reason)), _] => return skipped(&reason),
            machines => machines.map(Result::unwrap),
        };
        // both boot, and are reached by console and by SSH
        std::thread::scope(|scope| {
            for (machine, address) in [(&dut, 1), (&second, 2)] {
                scope.spawn(move || {
                    log_in(machine, "");
                    let up = format!(
                        "ip addr add 198.18.0.{address}/24 dev eth1 && ip link set eth1 up"
                    );
                    command(machine, &up);
                });
            }
        });
        command(&dut, "test $(hostname) = current");
        let output = ssh(&dut, &of_test.key, "cat /sys/class/net/eth0/address");
        assert_eq!(output.trim(), mac(&dut, 0));
        // an address that a system configures itself, and the one that it is given
        second
            .type_line("udhcpc -n -q -i eth0 -s /usr/bin/true")
            .unwrap();
        second
            .wait_for("lease of 192.168.1.1 obtained", BOOT)
            .unwrap();
        command(&second, "ip addr add 192.168.1.1/24 dev eth0");
        assert_eq!(ssh(&second, &of_test.key, "echo reached"), "reached\n");

        are_linked(&dut, &second);
        let mut other = setup(&folder, "third", system(), Vec::new());
        other.devices = Devices::Classic;
        let third = start(other).unwrap();
        match std::env::var(IMAGE).is_ok() {
            true => has_classic_devices(&third, &of_test.key),
            // Debian's kernel for clouds lacks the drivers
            false => third.wait_for("boot:", BOOT).unwrap(),
        }
        drop(third);
        is_upgraded_and_restored(&dut, &of_test.key);

        // the emulator dies of another cause
        dut.reset().unwrap();
        dut.wait_for("boot:", BOOT).unwrap();
        kill(&folder.path().join("dut/qmp"));
        let reason = dut.wait_for("login:", BOOT).unwrap_err().to_string();
        assert!(reason.contains("no memory left"), "{reason}");
        assert!(matches!(dut.state(), State::Ended(_)));
        drop(dut);
        assert_eq!(sum(&of_test.disk), before);
    }

    fn mac(computer: &Computer, port: usize) -> String {
        let bytes = computer.macs()[port].map(|byte| format!("{byte:02x}"));
        bytes.join(":")
    }

    /// They reach each other and nothing else, until the second one loses power.
    fn are_linked(first: &Computer, second: &Computer) {
        command(first, "ping -c 3 -w 30 198.18.0.2");
        let known = format!("ip neigh show 198.18.0.2 | grep -q {}", mac(second, 1));
        command(first, &known);
        // QEMU's user network maps this host's loopback to 10.0.2.253
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        command(first, &format!("! nc -w 3 10.0.2.253 {port} < /dev/null"));
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err());
        second.power_button().unwrap();
        second.wait_until_off(BOOT).unwrap();
        assert_eq!(second.state(), State::Off);
        let reason = second.check().unwrap_err().to_string();
        assert!(reason.contains("it is off"), "{reason}");
        second.power_on(&|| false).unwrap();
        second.wait_for("boot:", BOOT).unwrap();
        // a cable whose other end has no power
        second.pull();
        command(first, "! ping -c 2 -w 3 198.18.0.2");
        first.check().unwrap();
    }

    /// An upgrade that does not boot, a fallback to the old system, a panic, and a restore of the
    /// user's disk.
    fn is_upgraded_and_restored(dut: &Computer, key: &Path) {
        let port = dut.management().unwrap();
        // the running system installs and boots it
        let upgrade = "sed -i 's/DEFAULT current/DEFAULT new/' /boot/syslinux.cfg && \
            printf 'LABEL new\\n  KERNEL vmlinuz\\n  APPEND console=ttyS0 quiet no_timer_check tsc=reliable\\n' >> /boot/syslinux.cfg && sync";
        ssh(dut, key, upgrade);
        dut.type_line("reboot -f").unwrap();
        assert_eq!(dut.wait_for_restart(BOOT).unwrap(), Restart::Guest);
        // it does not boot
        let reason = dut.wait_for("login:", BOOT).unwrap_err().to_string();
        assert!(reason.contains("its kernel panicked"), "{reason}");
        assert!(reason.contains("VFS: Unable to mount root fs"), "{reason}");
        assert_eq!(dut.state(), State::Panicked);

        // the old system still boots, and the upgraded disk is unchanged
        dut.power_cycle(&|| false).unwrap();
        assert_eq!(dut.state(), State::Runs);
        log_in(dut, "old");
        command(
            dut,
            "test $(hostname) = old && grep -q 'DEFAULT new' /boot/syslinux.cfg",
        );
        assert_eq!(dut.management().unwrap(), port, "the same as before");

        dut.nmi().unwrap();
        dut.wait_for("NMI received", BOOT).unwrap();

        // a panic of a running system
        dut.type_line("echo c > /proc/sysrq-trigger").unwrap();
        let reason = dut.wait_until_off(BOOT).unwrap_err().to_string();
        assert!(reason.contains("sysrq triggered crash"), "{reason}");
        assert!(dut.check().unwrap_err().to_string().contains("panicked"));

        // the boot loader of the restored disk has no new system
        dut.restore(&|| false).unwrap();
        dut.wait_for("boot:", BOOT).unwrap();
        dut.type_line("new").unwrap();
        dut.wait_for("Loading new... failed", BOOT).unwrap();
    }

    /// Checks its disk, its NIC, and a watchdog that is not served.
    fn has_classic_devices(computer: &Computer, key: &Path) {
        log_in(computer, "");
        let driver = ssh(computer, key, "readlink /sys/class/net/eth0/device/driver");
        assert!(driver.trim().ends_with("/e1000"), "{driver}");
        ssh(computer, key, "grep -q '^/dev/sda1 /boot' /proc/mounts");
        computer.type_line("echo > /dev/watchdog").unwrap();
        assert_eq!(computer.wait_for_restart(BOOT).unwrap(), Restart::Watchdog);
        computer.wait_for("boot:", BOOT).unwrap();
    }

    /// Kills the emulator that uses this file.
    fn kill(file: &Path) {
        let file = file.to_str().unwrap();
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
            if line.starts_with("qemu") && line.contains(file) {
                let pid = process.file_name().to_str().unwrap().parse().unwrap();
                let pid = rustix::process::Pid::from_raw(pid).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            }
        }
    }
}
