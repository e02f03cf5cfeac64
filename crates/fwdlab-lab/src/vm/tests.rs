//! Boots a guest: a kernel of the distribution, with the initial file system that is made for it.
//!
//! One test, for everything that only a kernel can judge; pure code is tested in its own file.
//! Start with [`in_guests::a_guest_boots_and_configures_everything`].
//!
//! Other images by hand:
//! `FWDLAB_TEST_IMAGE=debian:linux-image-6.12-cloud-amd64 cargo test -p fwdlab-lab --lib vm:: --
//! --nocapture`

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::image::cache::Cache;
use super::image::error::ImageError;
use super::image::{Image, ImageKind};
use super::initramfs::{Recipe, build};
use super::machine::{Boot, Machine, Start};
use crate::host::{Command, Host, Limit, Local};

/// Each succeeds in a guest that has all modules and programs of a router.
const STEPS: &[&str] = &[
    "mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t devtmpfs dev /dev",
    "ip netns add far && ip netns exec far ip link set lo up",
    "ip link add v0 type veth peer name v1 && ip link set v1 netns far && ip link set v0 up",
    "ip link add link v0 name v0.7 type vlan id 7",
    "ip link add r type vrf table 10 && ip link add b0 type bond && ip link add br0 type bridge",
    "ip link add link v0 m0 type macvlan && ip link add x0 type vxlan id 7 dstport 4789 dev v0",
    "tc qdisc add dev v0 root netem delay 1ms",
    "modprobe nf_tables && nft add table ip t && nft add chain ip t c '{ type filter hook forward priority 0; }'",
    "nft add rule ip t c ip saddr 10.0.0.1 counter drop && nft add table inet n",
    "iptables -A FORWARD -p udp --dport 53 -m conntrack --ctstate NEW -j ACCEPT && iptables -L -n",
    "modprobe wireguard && ip link add wg0 type wireguard",
    "ip xfrm state add src 10.0.0.1 dst 10.0.0.2 proto esp spi 1 mode tunnel aead 'rfc4106(gcm(aes))' 0x0123456789012345678901234567890123456789 128",
    "modprobe pktgen && test -d /proc/net/pktgen",
    "sysctl -w net.ipv4.ip_forward=1 && ethtool -k v0 | grep -q checksum",
    "ip -6 route add 2001:db8::/32 dev v0 && ip route add 198.18.0.0/16 dev v0",
    "fwdlab -c true",
];

/// The disk is not filled: other machines would fail.
#[test]
fn a_state_that_has_no_room_is_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let boot = Boot {
        name: "kernel".into(),
        kernel: "none".into(),
        initramfs: "none".into(),
        mitigations: false,
        cpus: 1,
        memory_mib: u32::MAX,
        plugin: None,
        folder: folder.path().join("1"),
        start: Start::ToSave,
    };
    let error = Machine::boot(&boot, &|| false).unwrap_err().to_string();
    assert!(
        error.contains("needs 4294967295 MiB in") && error.contains("TMPDIR"),
        "{error}"
    );
}

/// A cache that is kept between test runs, separate from the user's.
fn cache() -> Cache {
    let own = std::env::current_exe().unwrap();
    // target/debug/deps/fwdlab_lab-0123
    Cache::at(&own.ancestors().nth(3).unwrap().join("tmp/images")).unwrap()
}

/// Boots with a shell script as init; returns the output of the console, and the duration.
fn boot(image: &Image, requested: &[&str], script: &str) -> Result<(String, Duration), String> {
    let ImageKind::Kernel(kernel) = &image.kind else {
        return Err("it is not a kernel".into());
    };
    let started = Instant::now();
    let recipe = Recipe {
        // any program that is the same in the next test run
        program: Path::new("/bin/sh"),
        kernel,
        wanted: requested,
        words: &Default::default(),
        data_planes: &Default::default(),
    };
    let archive =
        build(&recipe, &cache(), &mut |text| println!("{text}")).map_err(|e| e.to_string())?;
    let bytes = std::fs::metadata(&archive).unwrap().len();
    println!(
        "{}: initial file system of {:.1} MB in {:?}",
        kernel.release,
        bytes as f64 / 1e6,
        started.elapsed()
    );
    // the kernel unpacks any number of concatenated archives: the last one has the script
    let folder = tempfile::tempdir().unwrap();
    let both = folder.path().join("archive");
    std::fs::copy(&archive, &both).unwrap();
    let file = std::fs::File::options().append(true).open(&both).unwrap();
    let mut writer = cpio::newc::Builder::new("script")
        .mode(0o100_644)
        .write(file, script.len() as u32);
    writer.write_all(script.as_bytes()).unwrap();
    cpio::newc::trailer(writer.finish().unwrap()).unwrap();
    let emulator = Emulator {
        kernel: &kernel.bzimage,
        archive: &both,
    };
    let started = Instant::now();
    let output = emulator.run()?;
    Ok((output, started.elapsed()))
}

struct Emulator<'a> {
    kernel: &'a Path,
    archive: &'a Path,
}

impl Emulator<'_> {
    fn run(&self) -> Result<String, String> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let mut words: Vec<String> =
            "qemu-system-x86_64 -accel tcg,thread=single -icount shift=0,sleep=off -smp 1 -m 1024 \
            -cpu max,-erms,-fsrm -nographic -no-reboot -nodefaults -serial stdio"
                .split_whitespace()
                .map(str::to_owned)
                .collect();
        words.extend([
            "-kernel".into(),
            text(self.kernel),
            "-initrd".into(),
            text(self.archive),
            "-append".into(),
        ]);
        words.push(
            "console=ttyS0 quiet panic=-1 mitigations=off nokaslr rdinit=/bin/sh -- /script".into(),
        );
        let mut command = Command::new("", &[]);
        command.words = words;
        let output = Local.run(&command.called("qemu-system-x86_64"), Limit::OURS);
        output
            .map(|output| output.text().replace('\r', ""))
            .map_err(|e| e.to_string())
    }
}

fn image(name: &str) -> Result<Image, ImageError> {
    let started = Instant::now();
    let found = Image::find(name, &cache(), &mut |text| println!("{text}"));
    println!("{name}: found in {:?}", started.elapsed());
    found
}

/// Tests that start a guest.
mod in_guests {
    use super::*;

    /// Takes 10 s, 6 of them until the kernel starts the shell; the first run takes 5 more to
    /// download.
    #[test]
    fn a_guest_boots_and_configures_everything() {
        let skipped =
            |reason: &str| println!("SKIPPED: a_guest_boots_and_configures_everything: {reason}");
        if crate::programs::find("qemu-system-x86_64").is_none() {
            return skipped("no qemu-system-x86_64");
        }
        let name = std::env::var("FWDLAB_TEST_IMAGE")
            .unwrap_or_else(|_| "debian:linux-image-cloud-amd64".into());
        let image = match image(&name) {
            Ok(image) => image,
            Err(e) => return skipped(&format!("no kernel to boot: {e}")),
        };
        println!("{:?}", image.words());
        let mut script = String::from("echo BEGAN\n");
        for (number, step) in STEPS.iter().enumerate() {
            script += &format!(
                "{{ {step} ; }} >/tmp/said 2>&1 && echo DONE {number} || {{ echo FAILED {number}; cat /tmp/said; }}\n"
            );
        }
        script += "cut -d' ' -f1 /proc/uptime; df -m / 2>/dev/null | tail -1; free -m | head -2; dmesg | tail -n 3; poweroff -f\n";
        let (output, elapsed) = match boot(&image, &["nft", "wg", "iptables", "ethtool"], &script) {
            Ok(done) => done,
            Err(e) => panic!("{e}"),
        };
        println!("{elapsed:?}\n{output}");
        for (number, step) in STEPS.iter().enumerate() {
            let is_done = output
                .lines()
                .any(|line| line.ends_with(&format!("DONE {number}")));
            assert!(is_done, "`{step}` failed in the guest: {output}");
        }
    }
}
