//! Whole machines: what a lab does to a router of metal, done to one in the emulator that starts its own disk.
//!
//! Needs QEMU, and no privileges. The disk is made as `disk.rs` says. Start with
//! [`alone::a_whole_machine_is_treated_as_one_of_metal`].

use std::process::Command;
use std::time::{Duration, Instant};

use fwdlab_lab::host::Limit;
use fwdlab_lab::vm::computer::{Computer, Devices, Setup, System};
use fwdlab_lab::vm::image::cache::Cache;
use fwdlab_lab::vm::image::{Image, ImageKind};
use fwdlab_lab::vm::qemu::Accelerator;

use crate::disk::TestDisk;
use crate::support::{Lab, skipped};

/// Longer than a boot takes on a busy host.
const BOOT: Limit<'static> = Limit {
    time: Duration::from_secs(120),
    is_stopped: &|| false,
};

mod alone {
    use super::*;

    #[test]
    fn a_whole_machine_is_treated_as_one_of_metal() {
        let test = "a_whole_machine_is_treated_as_one_of_metal";
        let lab = Lab::alone();
        let began = Instant::now();
        let of_test = match TestDisk::get() {
            Ok(disk) => disk,
            Err(why) => return skipped(test, &why),
        };
        println!("disk after {:?}", began.elapsed());
        let cache = Cache::at(&lab.path().join("cache")).unwrap();
        let name = of_test.disk.to_str().unwrap();
        let ImageKind::Disk(disk) = Image::find(name, &cache, &mut |_| {}).unwrap().kind else {
            panic!("it is no disk");
        };
        let setup = Setup {
            name: "dut".into(),
            system: System::Disk(disk),
            cpus: 1,
            memory_mib: 512,
            devices: Devices::Virtio,
            links: Vec::new(),
            folder: lab.path().join("dut"),
        };
        let began = Instant::now();
        let dut = Computer::start(setup, Accelerator::Emulated, &|| false).unwrap();
        println!("QEMU after {:?}", began.elapsed());
        let up = dut.wait_for("login:", BOOT);
        println!("login after {:?}", began.elapsed());
        println!("{}", dut.console());
        up.unwrap();
        println!("{:?}", dut.management());
        let port = dut.management().unwrap().port().to_string();
        let ssh = Command::new("ssh")
            .args(["-p", &port, "-i", of_test.key.to_str().unwrap()])
            .args(
                "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null root@127.0.0.1"
                    .split(' '),
            )
            .arg("uname -a; ls -la /boot; free -m; lsmod")
            .output()
            .unwrap();
        println!(
            "{:?} {}",
            began.elapsed(),
            String::from_utf8_lossy(&ssh.stdout)
        );
        println!("{}", String::from_utf8_lossy(&ssh.stderr));
    }
}
