//! `fwdlab profile`: files and examples of the manual, captures that other programs read, and
//! errors with their position.
//!
//! `engine` tests the bytes of profiles. Start with
//! [`files_of_the_manual_and_shipped_ones_are_profiles`].

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::formats::{all_valid, committed, none_valid};
use crate::support::{Lab, list, number, refused, skipped};
use crate::wire::{frames, tshark};

fn of_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// Every file in the manual, and every shipped one, is a profile by the program and by the schema.
#[test]
fn files_of_the_manual_and_shipped_ones_are_profiles() {
    let lab = Lab::new();
    let committed = committed("profile");
    let printed = lab.json("schema profile");
    assert_eq!(printed, committed, "run `cargo run -p xtask -- schemas`");
    let mut profiles: Vec<Value> = Vec::new();
    let mut follows = |text: &str| profiles.push(toml::from_str(text).unwrap());
    let read = |path: &str| fs::read_to_string(of_repository(path)).unwrap();
    follows(&read("fuzz/corpus/profile/every-key.toml"));

    let manual = read("docs/reference/profiles.md");
    let files = manual.split("```toml\n").skip(1);
    let files = files.filter_map(|rest| rest.split_once("```").map(|(file, _)| file));
    let files: Vec<&str> = files.collect();
    assert!(files.len() >= 8, "the manual has files");
    for file in files {
        follows(file);
        lab.write("of-manual.toml", file);
        let shown = lab.run("profile frames of-manual.toml --link 10G --direction reverse");
        assert_eq!(shown.code(0).out.lines().count(), 10, "{file}");
    }

    let listed = lab.json("profile ls");
    assert!(list(&listed).len() >= 50);
    for entry in list(&listed) {
        let name = entry["name"].as_str().unwrap();
        assert!(
            entry["source"].is_string() && entry["path"].is_null(),
            "{name}"
        );
        let text = read(&format!("crates/fwdlab/profiles/{name}.toml"));
        follows(&text);
        if name == "imix" {
            assert_eq!(lab.run("profile show imix").out, text);
        }
    }
    all_valid(&committed, &profiles);
    let wrong = toml::from_str("[[stream]]\nsise = 64").unwrap();
    none_valid(&committed, &[wrong]);
}

#[test]
fn captures_contain_the_frames() {
    let lab = Lab::new();
    // `model` tests loads in all units
    let line = "profile frames vxlan -n 40 --load 100% --link 1G";
    let shown = lab.json(line);
    let shown = list(&shown);
    assert_eq!(shown.len(), 40);
    let [pcap, pcapng] = ["a.pcap", "a.pcapng"].map(|name| {
        let ended = lab.run(&format!("{line} --pcap {name}"));
        assert_eq!((&*ended.code(0).out, &*ended.err), ("", ""));
        lab.path().join(name)
    });
    // a section header block; both files hold the same frames
    assert!(fs::read(&pcapng).unwrap().starts_with(b"\n\r\r\n"));
    assert!(!fs::read(&pcap).unwrap().starts_with(b"\n\r\r\n"));
    assert_eq!(frames(&pcap), frames(&pcapng));
    lab.run("profile frames imix --pcap no/such/folder.pcap")
        .code(2)
        .says(&["cannot write no/such/folder.pcap"]);

    let Some(lines) = tshark(&pcap, "frame.time_epoch frame.len", "") else {
        return skipped("needs tshark");
    };
    assert_eq!(lines.len(), 40);
    for (n, (line, frame)) in lines.iter().zip(shown).enumerate() {
        let (seconds, bytes) = line.split_once('\t').unwrap();
        let seconds: f64 = seconds.parse().unwrap();
        let due = number(&frame["due_ns"]);
        assert!((seconds * 1e9 - due).abs() <= 1.0, "{line} {due}");
        // 128 bytes and 20 of overhead each, on a link of 1 Gbit/s
        assert!((due - n as f64 * 148.0 * 8.0).abs() < 1.0);
        assert_eq!(bytes, "124");
    }
}

#[test]
fn own_profiles_come_first_and_errors_have_a_position() {
    let lab = Lab::new();
    // the third would steer a terminal
    for file in "profiles/imix.toml: about = 'mine' [[stream]] size = 100
        profiles/broken.toml: [[stream]
        profiles/evil.toml: about = \"\\u001b[2J\\u009b31m\" [[stream]] size = 64
        pcap.toml: [[stream]] pcap = 'none.pcap'
        line.toml: [[stream]] rate = '10%'"
        .lines()
    {
        let (name, text) = file.trim().split_once(": ").unwrap();
        lab.write(name, &text.replace(" [[", "\n[[").replace("]] ", "]]\n"));
    }
    fs::write(lab.path().join("binary.toml"), b"\xff\xfe\x00").unwrap();
    lab.run("profile ls").code(0).prints(&[
        "mine  (yours)",
        "wrong: profiles/broken.toml:1:",
        "\\u001b[2J\\u009b31m",
    ]);
    lab.run("profile frames imix -n 1").prints(&["100 B"]);
    for line in ["profile ls", "profile show evil\u{1b}[1m"] {
        let ended = lab.run(line);
        let steers = |c: char| c.is_control() && c != '\n';
        assert!(!(ended.out + &ended.err).contains(steers), "{line:?}");
    }
    let table = "frobnicate => 2: there is no profile `frobnicate`
        none.toml => 2: cannot read none.toml
        . => 2: is not a profile
        binary.toml => 2: not text
        pcap.toml => 2: pcap.toml:2:8: none.pcap: cannot be read: No such file
        line.toml => 2: line.toml:2:8: 10% refers to the line rate
        broken => 2: profiles/broken.toml:1:";
    refused(table, |name| lab.run(&["profile", "frames", name]));
}
