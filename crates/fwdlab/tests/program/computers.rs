//! Whole machines as users start them: by hand, and as the DUT of a test bed.
//!
//! Needs QEMU. `lab` tests everything that it does to them. Start with
//! [`in_guests::a_disk_needs_only_its_name`].

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::disk::TestDisk;
use crate::support::{Lab, PATIENCE, runs_long, skipped};

fn sum(path: &Path) -> String {
    let printed = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(printed.stdout).unwrap()
}

/// Guests keep a CPU busy each, which would stall the frames of other tests. Nothing here is judged
/// by time.
mod in_guests {
    use super::*;

    /// Boots as far as its boot loader. `exact` tests it as an image whose instructions are
    /// counted.
    #[test]
    fn a_disk_is_booted_by_hand() {
        let lab = Lab::new();
        let of_test = match TestDisk::get() {
            Ok(disk) => disk,
            Err(reason) => return skipped(&reason),
        };
        let disk = of_test.disk.to_str().unwrap();
        let boot = ["image", "boot", disk];
        let by_hand = lab.run(&[&boot[..], &["--wait", "boot:", "--json"]].concat());
        if by_hand.err.contains("there is no such program") {
            return skipped(&by_hand.err);
        }
        let document = by_hand.code(0).document();
        assert_eq!(document["state"], "runs");
        lab.run(&[&boot[..], &["--wait", "nonsense", "--for", "1s"]].concat())
            .code(4)
            .says(&["waited 1 s for `nonsense`"]);
        lab.run("image boot /etc/hostname")
            .code(3)
            .says(&["cannot be used as an image"]);
    }

    /// A router on a disk of which only the name is known: root logs in on its console, and it
    /// accepts no SSH key. Two boots, because it is restarted once, and some hundred SSH sessions
    /// with an emulated machine: 40 s of CPU.
    #[test]
    fn a_disk_needs_only_its_name() {
        if !runs_long("a test bed on a whole machine") {
            return;
        }
        let Some(lab) = Lab::root() else { return };
        let of_test = match TestDisk::get() {
            Ok(disk) => disk,
            Err(reason) => return skipped(&reason),
        };
        let disk = lab.path().join("router.raw");
        fs::copy(&of_test.disk, &disk).unwrap();
        let image = format!("{}@@1M", disk.display());
        let marked = Command::new("mcopy")
            .env("MTOOLS_SKIP_CHECK", "1")
            .args(["-i", &image, "/dev/null", "::open"])
            .status();
        assert!(marked.unwrap().success());
        let before = sum(&disk);
        let bed = format!(
            "bed = 'router'\n[dut]\nhost = 'vm:{}'\nmachine = {{ memory-mib = 512 }}\n",
            disk.display()
        );
        lab.write("beds/router.toml", &bed);
        let campaign = "campaign = 'c'\nbed = 'router'\norder = 'grouped'\nreboot = true\niterations = 1\n\
             [configuration]\nhalf = \"nft add table ip t; nft add chain ip t f '{ type filter hook forward priority 0; }'; \
             nft add rule ip t f numgen inc mod 2 0 drop\"\n[matrix]\nconfiguration = 'half'\nflows = 10\n\
             [procedure]\nid = 'trial'\nload = '200pps'\nfor = '1s'\n";
        lab.write("c.toml", campaign);
        let say = |line: &str| lab.start(line).wait(2 * PATIENCE);
        say("doctor router")
            .code(0)
            .prints(&["router.raw can be started"]);
        let ended = say("run c.toml --json");
        let (out, err) = (&ended.out, &ended.err);
        if err.contains("qemu") && err.contains("no such program") {
            return skipped("no QEMU");
        }
        let found: serde_json::Value = serde_json::from_str(out).unwrap_or_default();
        let stalled = "the generator did not reach the load";
        if ended.code == 5 && out.contains(stalled) {
            return skipped(&format!("the host is busy: {stalled}"));
        }
        ended.code(0);
        for trial in found["trials"].as_array().unwrap() {
            let (sent, received) = (&trial["frames_sent"], &trial["frames_received"]);
            let (sent, received) = (sent.as_u64().unwrap(), received.as_u64().unwrap());
            // if the total is odd, the frames of the path check decide which half is larger
            assert!(received.abs_diff(sent - received) <= sent % 2, "{trial:#}");
            assert!(sent >= 100, "{trial:#}");
        }
        assert_eq!(found["trials"].as_array().unwrap().len(), 1);
        let facts = &found["info"]["facts"]["placement"];
        let [system, machine] = ["system", "machine"].map(|fact| facts[fact].as_str().unwrap());
        assert!(system.starts_with("Linux "), "{facts:#}");
        assert!(machine.contains("router.raw in "), "{facts:#}");
        // the disk is unchanged, and nothing else is left
        assert_eq!(sum(&disk), before);
        let shown = say("bed show");
        assert!(!shown.out.contains("-gen"), "{shown:?}");
    }
}
