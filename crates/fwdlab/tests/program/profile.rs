//! `fwdlab profile`: files and examples of the manual, captures that other programs read, and
//! errors with their position.
//!
//! `engine` tests the bytes of profiles. Start with
//! [`files_of_the_manual_and_shipped_ones_are_profiles`].

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::formats::committed;
use crate::support::{Lab, PROGRAM, list, skipped, tool};
use crate::wire::{capture_file, frames, tshark};

fn of_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// Runs the program in an empty folder. Returns exit code and output.
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

/// Every file in the manual, and every shipped one, is a profile by the program and by the schema.
#[test]
fn files_of_the_manual_and_shipped_ones_are_profiles() {
    let folder = tempfile::tempdir().unwrap();
    let committed = committed("profile");
    let printed: Value = serde_json::from_str(&tool(&[PROGRAM, "schema", "profile"])).unwrap();
    assert_eq!(printed, committed, "run `cargo run -p xtask -- schemas`");
    let schema = jsonschema::validator_for(&committed).unwrap();
    let follows = |text: &str| {
        let value: Value = toml::from_str(text).unwrap();
        let errors = schema.iter_errors(&value).map(|error| error.to_string());
        let errors: Vec<String> = errors.collect();
        assert!(errors.is_empty(), "{errors:?}\n{text}");
    };
    let read = |path: &str| fs::read_to_string(of_repository(path)).unwrap();
    follows(&read("fuzz/corpus/profile/every-key.toml"));
    let wrong: Value = toml::from_str("[[stream]]\nsise = 64").unwrap();
    assert!(!schema.is_valid(&wrong));

    let manual = read("docs/reference/profiles.md");
    let files = manual.split("```toml\n").skip(1);
    let files = files.filter_map(|rest| rest.split_once("```").map(|(file, _)| file));
    let files: Vec<&str> = files.collect();
    assert!(files.len() >= 8, "the manual has files");
    for file in files {
        follows(file);
        fs::write(folder.path().join("of-manual.toml"), file).unwrap();
        let words = "profile frames of-manual.toml --link 10G --direction reverse";
        let (code, out, err) = run(folder.path(), &words.split(' ').collect::<Vec<_>>());
        assert_eq!((code, out.lines().count()), (0, 10), "{err}\n{file}");
    }

    let (_, listed, _) = run(folder.path(), &["profile", "ls", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
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
            let (_, shown, _) = run(folder.path(), &["profile", "show", name]);
            assert_eq!(shown, text);
        }
    }
}

#[test]
fn captures_contain_the_frames() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["profile", "frames", "vxlan", "-n", "40", "--link", "1G"];
    let (_, shown, _) = run(folder.path(), &[&words[..], &["--json"]].concat());
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let shown = list(&shown);
    assert_eq!(shown.len(), 40);
    let [pcap, pcapng] = ["a.pcap", "a.pcapng"].map(|name| {
        let path = folder.path().join(name);
        let (code, out, err) = run(folder.path(), &[&words[..], &["--pcap", name]].concat());
        assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
        path
    });
    // a section header block; both files hold the same frames
    assert!(fs::read(&pcapng).unwrap().starts_with(b"\n\r\r\n"));
    assert!(!fs::read(&pcap).unwrap().starts_with(b"\n\r\r\n"));
    assert_eq!(frames(&pcap), frames(&pcapng));
    let (code, _, err) = run(
        folder.path(),
        &["profile", "frames", "imix", "--pcap", "no/such/folder.pcap"],
    );
    assert_eq!(code, 2);
    assert!(err.contains("cannot write no/such/folder.pcap"), "{err}");

    let fields = "frame.time_epoch frame.len ip.src vxlan.vni";
    let Some(lines) = tshark(&pcap, fields, "") else {
        return skipped("captures_contain_the_frames", "needs tshark");
    };
    assert_eq!(lines.len(), 40);
    for (n, (line, frame)) in lines.iter().zip(shown).enumerate() {
        let (seconds, rest) = line.split_once('\t').unwrap();
        let seconds: f64 = seconds.parse().unwrap();
        let due = frame["due_ns"].as_f64().unwrap();
        assert!((seconds * 1e9 - due).abs() <= 1.0, "{line} {due}");
        // 128 bytes and 20 of overhead each, on a link of 1 Gbit/s
        assert!((due - n as f64 * 148.0 * 8.0).abs() < 1.0);
        let expected = format!("124\t198.18.1.2,198.18.10.1\t{}", 1000 + n);
        assert_eq!(rest, expected);
    }
}

#[test]
fn extension_headers_are_current_ones() {
    let lab = Lab::new();
    let (mut all, mut types) = (Vec::new(), Vec::new());
    for (name, routing) in [
        ("ipv6/routing", "4"),
        ("ipv6/chain", "4"),
        ("ipv6/hop-by-hop", ""),
        ("ipv6/destination-options", ""),
        ("ipv6/fragment", ""),
    ] {
        let words = [
            "profile",
            "frames",
            name,
            "-n",
            "3",
            "--pcap",
            "some.pcapng",
        ];
        let (code, _, err) = run(lab.path(), &words);
        assert_eq!(code, 0, "{err}");
        all.extend(frames(&lab.path().join("some.pcapng")));
        // tshark's notes, warnings and errors follow in the last column: none
        types.extend(vec![format!("{routing}\t"); 3]);
    }
    // one file, because tshark takes a second to start
    let file = capture_file(&lab, "all.pcapng", &all);
    let Some(seen) = tshark(&file, "ipv6.routing.type _ws.expert.message", "") else {
        return skipped("extension_headers_are_current_ones", "needs tshark");
    };
    assert_eq!(seen, types);
}

#[test]
fn own_profiles_come_first_and_errors_have_a_position() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("profiles")).unwrap();
    let put = |name: &str, text: &[u8]| fs::write(folder.path().join(name), text).unwrap();
    put(
        "profiles/imix.toml",
        b"about = 'mine'\n[[stream]]\nsize = 100\n",
    );
    put("profiles/broken.toml", b"[[stream]\n");
    put("binary.toml", b"\xff\xfe\x00");
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

/// Loads in all units: the gap between two frames shows the parsed load.
#[test]
fn frames_are_shown_at_any_load() {
    for (load, gap_ns) in [
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
