//! `doctor`: checks the host, even without any installed program. The checks themselves are tested
//! where they are defined.

use serde_json::Value;

use crate::support::{Lab, ended, list};

#[test]
fn every_failure_comes_with_its_fix() {
    let lab = Lab::new();
    // a host without any program
    let mut command = lab.program("doctor --json");
    command.env("PATH", "/nonexistent");
    let bare = ended(command);
    let checks = bare.document();
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
    // one of the library's checks that its own test does not name, and two that only the command
    // has
    for subject in ["irqbalance", "labs", "noise"] {
        let is_it = |check: &Value| check["name"].as_str().unwrap().contains(subject);
        assert!(list(&checks).iter().any(is_it), "{subject} is not checked");
    }
    let fails = list(&checks).iter().any(|check| check["status"] == "fail");
    assert_eq!(bare.code, if fails { 3 } else { 0 }, "{bare:?}");

    let human = lab.run("doctor");
    let fails = human.out.lines().any(|line| line.starts_with("FAIL"));
    assert_eq!(human.code, if fails { 3 } else { 0 }, "{human:?}");
    let first = human.out.lines().next().unwrap();
    assert_eq!(first.starts_with("Not fit"), fails, "{first}");
    let last = human.out.lines().last().unwrap();
    for word in ["ok", "warning", "failure", "skipped"] {
        assert!(last.contains(word), "{last}");
    }
    lab.assert_clean("doctor");
}
