//! `doctor`: what it finds, and that nobody is left alone with it.

use serde_json::Value;

use crate::support::{Lab, ended, list};

#[test]
fn every_failure_comes_with_its_cure() {
    let lab = Lab::new();
    let here = lab.run(&["doctor", "--json"]);
    let checks = read(&here.out);
    let failed = list(&checks).iter().any(|c| c["status"] == "fail");
    assert_eq!(here.code, if failed { 3 } else { 0 }, "{here:?}");
    lab.assert_clean("doctor");

    // a host without any program
    let mut command = lab.program(&["doctor", "--json"]);
    command.env("PATH", "/nonexistent");
    read(&ended(command).out);

    let human = lab.run(&["doctor"]);
    let last = human.out.lines().last().unwrap();
    for word in ["ok", "warnings", "failure", "skipped"] {
        assert!(last.contains(word), "{last}");
    }
}

/// A list of checks, each with a subject, a finding, and a fix where it failed.
fn read(text: &str) -> Value {
    let checks: Value = serde_json::from_str(text).unwrap();
    for check in list(&checks) {
        for field in ["name", "finding"] {
            assert!(!check[field].as_str().unwrap().is_empty(), "{check}");
        }
        let status = check["status"].as_str().unwrap();
        assert!(["ok", "warn", "fail", "skip"].contains(&status), "{check}");
        if status == "fail" {
            assert!(!check["fix"].as_str().unwrap().is_empty(), "{check}");
        }
    }
    for subject in [
        "privileges",
        "kernel",
        "cpus",
        "noise",
        "disk",
        "irqbalance",
        "emulator",
        "exact profiles",
        "kvm",
        "kernel packages",
        "image cache",
    ] {
        assert!(
            list(&checks)
                .iter()
                .any(|c| c["name"].as_str().unwrap().contains(subject)),
            "{subject} is not looked at"
        );
    }
    checks
}
