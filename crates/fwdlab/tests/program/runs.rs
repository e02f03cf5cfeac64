//! `runs ls|show|rm` and the names of runs.

use std::fs;

use serde_json::Value;

use crate::support::{Lab, TINY, directories, root};

#[test]
fn runs_are_listed_shown_and_removed_by_any_of_their_names() {
    if !root("runs_are_listed_shown_and_removed_by_any_of_their_names") {
        return;
    }
    let lab = Lab::new();
    for _ in 0..3 {
        lab.run(TINY).measured();
    }
    let listed = lab.run(&["runs", "ls"]);
    listed.code(0);
    let ids: Vec<&str> = listed
        .out
        .lines()
        .map(|l| l.split_whitespace().next().unwrap())
        .collect();
    assert_eq!(ids.len(), 3);
    assert!(
        listed
            .out
            .lines()
            .all(|l| l.contains("finished") && l.contains("64B")),
        "{}",
        listed.out
    );
    let of = |name: &str| {
        let shown = lab.run(&["runs", "show", name, "--json"]);
        shown.code(0);
        let run: Value = serde_json::from_str(&shown.out).unwrap();
        run["info"]["id"].as_str().unwrap().to_owned()
    };
    // newest first, whole, and by the four characters at the end
    for (n, id) in (1..).zip(&ids) {
        assert_eq!(of(&format!("@{n}")), *id);
        assert_eq!(of(id), *id);
        assert_eq!(of(id.rsplit('-').next().unwrap()), *id);
    }
    let started: Vec<String> = (1..=3)
        .map(|n| {
            let shown = lab.run(&["runs", "show", &format!("@{n}"), "--json"]);
            let run: Value = serde_json::from_str(&shown.out).unwrap();
            run["info"]["started_at"].as_str().unwrap().to_owned()
        })
        .collect();
    assert!(started.is_sorted_by(|a, b| a > b), "{started:?}");

    // the same words as when it was measured
    let shown = lab.run(&["runs", "show", "@1"]);
    shown.code(0);
    assert!(
        shown.out.contains("64 B") && shown.out.contains(ids[0]),
        "{}",
        shown.out
    );

    // a beginning that several share names none
    let year = &ids[0][..4];
    lab.run(&["runs", "show", year])
        .code(3)
        .says(&[year, ids[0], ids[1], ids[2]]);
    for nothing in ["@0", "@4", "@x", "no-such-run"] {
        lab.run(&["runs", "show", nothing])
            .code(3)
            .says(&[nothing, ids[0]]);
        lab.run(&["runs", "rm", nothing]).code(3).says(&[nothing]);
    }
    assert_eq!(directories(&lab.runs()).len(), 3);

    // names are all resolved before anything is removed, so that @2 is still the second
    lab.run(&["runs", "rm", "@1", "no-such-run"]).code(3);
    assert_eq!(directories(&lab.runs()).len(), 3);
    lab.run(&["runs", "rm", "@1", "@2"]).code(0);
    let left = directories(&lab.runs());
    assert_eq!(left.len(), 1);
    assert!(left[0].ends_with(ids[2]));

    // a damaged run is told and harms no other
    fs::create_dir(lab.runs().join("2020-01-01-quick-aaaa")).unwrap();
    fs::write(lab.runs().join("2020-01-01-quick-aaaa/run.json"), "{").unwrap();
    let listed = lab.run(&["runs", "ls"]);
    listed.code(0);
    assert!(
        listed.out.contains("damaged") && listed.out.contains(ids[2]),
        "{}",
        listed.out
    );
    lab.run(&["runs", "rm", "aaaa", "@1"]).code(0);
    let empty = lab.run(&["runs", "ls"]);
    empty.code(0).says(&["no runs in", "fwdlab quick"]);
    assert_eq!(empty.out, "");
}
