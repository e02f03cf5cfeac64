//! A disk with a complete system, for tests of whole machines: boot loader with two entries, a
//! Debian kernel, console, SSH.
//!
//! `disk.sh` makes it, once per kernel and set of programs; it is stored next to the images of the
//! tests. Start with [`TestDisk::get`].

#![expect(
    clippy::unwrap_used,
    reason = "a panic is how a test fails, and helpers of tests are tests too"
)]

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use fwdlab_lab::vm::image::cache::Cache;
use fwdlab_lab::vm::image::{Image, ImageKind};
use fwdlab_lab::vm::initramfs::{self, Recipe};

const RECIPE: &str = include_str!("disk.sh");

/// Variable for another kernel with more drivers: `debian:linux-image-amd64`.
pub const IMAGE: &str = "FWDLAB_TEST_IMAGE";

/// The required programs and their packages.
const NEEDED: [(&str, &str); 4] = [
    ("syslinux", "syslinux"),
    ("mcopy", "mtools"),
    ("ssh-keygen", "openssh-client"),
    ("cpio", "cpio"),
];

const BOOT_SECTOR: &str = "/usr/lib/syslinux/mbr/mbr.bin";

/// The disk and its key. Root's password on its console is `fwdlab`.
pub struct TestDisk {
    /// A raw disk. Machines boot overlays of it.
    pub disk: PathBuf,
    /// The key for root's SSH login.
    pub key: PathBuf,
}

impl TestDisk {
    /// Returns the disk, or why it is not available, so that the test is skipped.
    pub fn get() -> Result<TestDisk, String> {
        TestDisk::with(&std::env::var(IMAGE).unwrap_or("debian:linux-image-cloud-amd64".into()))
    }

    /// Returns a disk with this kernel, or why it is not available.
    pub fn with(image: &str) -> Result<TestDisk, String> {
        let find = |program: &str| Command::new(program).arg("--version").output();
        for (program, package) in NEEDED {
            if find(program).is_err() {
                return Err(format!("no {program} (apt-get install {package})"));
            }
        }
        if !Path::new(BOOT_SECTOR).exists() {
            return Err(format!(
                "no {BOOT_SECTOR} (apt-get install syslinux-common)"
            ));
        }
        // kept between test runs, like the images of other tests
        let own = std::env::current_exe().unwrap();
        let cache = Cache::at(&own.ancestors().nth(3).unwrap().join("tmp/images")).unwrap();
        // one test at a time makes it
        let lock = fs::File::create(cache.folder().join("test-disk.lock")).unwrap();
        lock.lock().unwrap();
        let mut tell = |_: &str| {};
        let image = Image::find(image, &cache, &mut tell).map_err(|e| e.to_string())?;
        let ImageKind::Kernel(kernel) = &image.kind else {
            panic!("{image:?} is not a kernel");
        };
        let recipe = Recipe {
            // the disk contains nothing of ours: any program that stays the same between test runs
            // will do
            program: Path::new("/bin/sh"),
            kernel,
            wanted: &["sshd", "busybox", "ip", "ethtool", "nft"],
            words: &Default::default(),
            data_planes: &Default::default(),
        };
        let initramfs = initramfs::build(&recipe, &cache, &mut tell).map_err(|e| e.to_string())?;
        let mut sum = DefaultHasher::new();
        (RECIPE, &kernel.sha256, &initramfs).hash(&mut sum);
        let folder = cache.folder().join(format!("disks/{:016x}", sum.finish()));
        if !folder.is_dir() {
            let new = folder.with_extension(std::process::id().to_string());
            fs::create_dir_all(&new).unwrap();
            let made = Command::new("sh")
                .args(["-c", RECIPE, "disk.sh"])
                .args([&kernel.bzimage, kernel.modules.as_ref().unwrap()])
                .args([&initramfs, &new])
                .output()
                .unwrap();
            let printed = String::from_utf8_lossy(&made.stderr);
            assert!(made.status.success(), "{printed}");
            // another test has made the same disk first
            if fs::rename(&new, &folder).is_err() {
                fs::remove_dir_all(&new).unwrap();
            }
        }
        Ok(TestDisk {
            disk: folder.join("disk"),
            key: folder.join("key"),
        })
    }
}
