//! `fwdlab profile` as people use it: the manual's files and examples, captures that others read, errors with their place.
//!
//! What profiles mean in bytes is tested in `engine`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::formats::committed;
use crate::support::{PROGRAM, skipped, tool};

fn manual() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/profiles.md");
    fs::read_to_string(path).unwrap()
}

/// What the program does in an empty folder.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = assert_cmd::Command::new(PROGRAM)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Every file in the manual is a profile, by the program and by the schema.
#[test]
fn files_of_the_manual_are_profiles() {
    let folder = tempfile::tempdir().unwrap();
    let schema = jsonschema::validator_for(&committed("profile")).unwrap();
    let manual = manual();
    let files: Vec<&str> = manual
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```").map(|(file, _)| file))
        .collect();
    assert!(files.len() >= 8, "the manual has files");
    let shipped =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/profile/every-key.toml");
    let every_key = fs::read_to_string(shipped).unwrap();
    for file in files.into_iter().chain([every_key.as_str()]) {
        let value: Value = toml::from_str(file).unwrap();
        let errors: Vec<String> = schema
            .iter_errors(&value)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}\n{file}");
        if file == every_key {
            continue;
        }
        fs::write(folder.path().join("of-manual.toml"), file).unwrap();
        for direction in ["forward", "reverse"] {
            let arguments = [
                "profile",
                "frames",
                "of-manual.toml",
                "--link",
                "10G",
                "--direction",
                direction,
            ];
            let (code, out, err) = run(folder.path(), &arguments);
            assert_eq!((code, out.lines().count()), (0, 10), "{err}\n{file}");
        }
    }
    let wrong: Value = toml::from_str("[[stream]]\nsise = 64").unwrap();
    assert!(!schema.is_valid(&wrong));
}

#[test]
fn shipped_profiles_follow_the_schema() {
    let schema = jsonschema::validator_for(&committed("profile")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (_, list, _) = run(folder.path(), &["profile", "ls", "--json"]);
    let list: Value = serde_json::from_str(&list).unwrap();
    let list = list.as_array().unwrap();
    assert!(list.len() >= 50);
    for entry in list {
        let name = entry["name"].as_str().unwrap();
        assert!(
            entry["source"].is_string() && entry["path"].is_null(),
            "{name}"
        );
        let (_, text, _) = run(folder.path(), &["profile", "show", name]);
        let value: Value = toml::from_str(&text).unwrap();
        let errors: Vec<String> = schema
            .iter_errors(&value)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
}

#[test]
fn captures_are_what_the_frames_are() {
    let folder = tempfile::tempdir().unwrap();
    let json = [
        "profile", "frames", "vxlan", "-n", "40", "--link", "1G", "--json",
    ];
    let (_, frames, _) = run(folder.path(), &json);
    let frames: Value = serde_json::from_str(&frames).unwrap();
    let frames = frames.as_array().unwrap();
    assert_eq!(frames.len(), 40);
    for (file, ending) in [("a.pcap", "pcap"), ("a.pcapng", "pcapng")] {
        let path = folder.path().join(file);
        let name = path.to_str().unwrap();
        let (code, out, err) = run(
            folder.path(),
            &[
                "profile", "frames", "vxlan", "-n", "40", "--link", "1G", "--pcap", name,
            ],
        );
        assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
        let output = std::process::Command::new("tshark")
            .args([
                "-r",
                name,
                "-T",
                "fields",
                "-e",
                "frame.time_epoch",
                "-e",
                "frame.len",
                "-e",
                "ip.src",
                "-e",
                "vxlan.vni",
            ])
            .output();
        let Ok(output) = output else {
            skipped("captures_are_what_the_frames_are", "needs tshark");
            return;
        };
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split('\t').collect())
            .collect();
        assert_eq!(lines.len(), 40, "{ending}");
        for (n, (line, frame)) in lines.iter().zip(frames).enumerate() {
            let seconds: f64 = line[0].parse().unwrap();
            let due = frame["due_ns"].as_f64().unwrap();
            assert!(
                (seconds * 1e9 - due).abs() <= 1.0,
                "{ending}: {line:?} {due}"
            );
            // 128 bytes and 20 more for each on a link of 1 Gbit/s
            assert!((due - n as f64 * 148.0 * 8.0).abs() < 1.0);
            assert_eq!(
                line[1..],
                ["124", "198.18.1.2,198.18.10.1", &(1000 + n).to_string()]
            );
        }
    }
    let (code, _, err) = run(
        folder.path(),
        &["profile", "frames", "imix", "--pcap", "no/such/folder.pcap"],
    );
    assert_eq!(code, 2);
    assert!(err.contains("cannot write no/such/folder.pcap"), "{err}");
}

#[test]
fn extension_headers_are_current_ones() {
    const TEST: &str = "extension_headers_are_current_ones";
    let folder = tempfile::tempdir().unwrap();
    for (name, both) in [
        ("ipv6/routing", "4"),
        ("ipv6/chain", "4"),
        ("ipv6/hop-by-hop", ""),
        ("ipv6/destination-options", ""),
        ("ipv6/fragment", ""),
    ] {
        let (code, _, err) = run(
            folder.path(),
            &[
                "profile",
                "frames",
                name,
                "-n",
                "3",
                "--pcap",
                "frames.pcapng",
            ],
        );
        assert_eq!(code, 0, "{err}");
        let file = folder.path().join("frames.pcapng");
        let Some(types) = crate::wire::tshark(&file, "ipv6.routing.type", "") else {
            return skipped(TEST, "needs tshark");
        };
        assert_eq!(types, [both; 3], "{name}");
        // a note of what tshark finds odd, warnings and errors
        let odd = crate::wire::tshark(&file, "_ws.expert.message", "_ws.expert").unwrap();
        assert_eq!(odd, [""; 0], "{name}");
    }
}

#[test]
fn profiles_of_ones_own_come_first_and_errors_have_a_place() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("profiles")).unwrap();
    let put = |name: &str, text: &[u8]| fs::write(folder.path().join(name), text).unwrap();
    put(
        "profiles/imix.toml",
        b"about = 'mine'\n[[stream]]\nsize = 100\n",
    );
    put("profiles/broken.toml", b"[[stream]\n");
    put("binary.toml", b"\xff\xfe\x00");
    put("zero.toml", b"[[stream]]\nsize = 0\n");
    put("pcap.toml", b"[[stream]]\npcap = 'none.pcap'\n");
    put("line.toml", b"[[stream]]\nrate = '10%'\n");
    let (code, out, _) = run(folder.path(), &["profile", "ls"]);
    assert_eq!(code, 0);
    assert!(
        out.contains("mine  (yours)") && out.contains("wrong: profiles/broken.toml:1:"),
        "{out}"
    );
    let (_, out, _) = run(folder.path(), &["profile", "frames", "imix", "-n", "1"]);
    assert!(out.contains("100 B"), "{out}");
    for (name, words) in [
        ("frobnicate", "there is no profile `frobnicate`"),
        ("none.toml", "cannot read none.toml"),
        (".", "is not a profile"),
        ("binary.toml", "not text"),
        ("zero.toml", "zero.toml:2:8: a frame has 64 to 65535 bytes"),
        (
            "pcap.toml",
            "pcap.toml:2:8: none.pcap: cannot be read: No such file",
        ),
        ("line.toml", "line.toml:2:8: 10% refers to the line rate"),
        ("broken", "profiles/broken.toml:1:"),
    ] {
        let (code, out, err) = run(folder.path(), &["profile", "frames", name]);
        assert_eq!((code, out.as_str()), (2, ""), "{name}: {err}");
        assert!(err.contains(words), "{name}: {err}");
    }
}

#[test]
fn names_of_other_people_do_not_steer_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("profiles")).unwrap();
    let text = "about = \"\\u001b[2J\\u009b31m\"\n[[stream]]\nsize = 64\n";
    fs::write(folder.path().join("profiles/evil.toml"), text).unwrap();
    for (arguments, shown) in [
        (&["profile", "ls"][..], "\\u001b[2J\\u009b31m"),
        (&["profile", "show", "evil\u{1b}[1m"], "evil\\u001b[1m"),
    ] {
        let (_, out, err) = run(folder.path(), arguments);
        let printed = out + &err;
        assert!(printed.contains(shown), "{printed:?}");
        let steers = |c: char| c.is_control() && c != '\n';
        assert!(!printed.contains(steers), "{printed:?}");
    }
}

#[test]
fn the_schema_is_printed() {
    let printed: Value = serde_json::from_str(&tool(&[PROGRAM, "schema", "profile"])).unwrap();
    assert_eq!(
        printed,
        committed("profile"),
        "run `cargo run -p xtask -- schemas`"
    );
}

/// Loads as people type them: the gap between two frames says what was understood.
#[test]
fn frames_are_shown_at_any_load() {
    for (load, gap_ns) in [
        ("--load 1Mpps", 1000.0),
        ("--load 1Gbps", 672.0),
        ("--load 512Mbps-l2", 1000.0),
        ("--load 50% --link 1G", 1344.0),
        ("--load max --link 1G", 672.0),
    ] {
        let words = format!("profile frames rfc2544/64 -n 2 --json {load}");
        let words: Vec<&str> = words.split(' ').collect();
        let frames: Value =
            serde_json::from_str(&tool(&[&[PROGRAM], &words[..]].concat())).unwrap();
        assert_eq!(frames[1]["due_ns"], gap_ns, "{load}");
    }
}
