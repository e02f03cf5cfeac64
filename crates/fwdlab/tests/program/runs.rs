//! `runs ls|show|verify|rm` and the names of runs.

use std::fs;

use serde_json::Value;

use crate::support::{Lab, TINY, directories, root};

/// Place and id of every listed run; the head is not one of them.
fn lines(listed: &str) -> Vec<(&str, &str)> {
    let mut lines = listed.lines();
    let head = lines.next().unwrap();
    assert!(
        head.contains("run") && head.contains("began (UTC)"),
        "{listed}"
    );
    lines
        .map(|line| {
            let mut words = line.split_whitespace();
            (words.next().unwrap(), words.next().unwrap())
        })
        .collect()
}

/// Simulated, so that there is something to list of every kind: `(command line, kind, what the list says)`.
const KINDS: &[(&str, &str, &str)] = &[
    ("ndr --goals ndr", "ndr", "NDR 99"),
    ("ramp", "ramp", "ramp: loss begins at 64 B "),
    (
        "trial --load 1Mpps --for 1s",
        "trial",
        "trial: forwarding rate at 64 B 1.000 Mpps",
    ),
    (
        "soak --load 900kpps --for 60s",
        "soak",
        "soak: frame loss at 64 B 0 %",
    ),
    (
        "rfc2544 --size 64 --tests throughput",
        "rfc2544",
        "throughput at 64 B ",
    ),
];

#[test]
fn every_kind_of_run_is_listed_with_its_figure() {
    let lab = Lab::new();
    let sim = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let sim = ["--engine", "sim", "--max", "3Mpps", "--seed", "7"];
        lab.run(&[&words, &sim[..]].concat()).code(0);
    };
    for (line, ..) in KINDS {
        sim(line);
    }
    // and what was found is found again from what the trials answered
    let verified = lab.run(&["runs", "verify"]);
    verified
        .code(0)
        .says(&[&format!("{0} runs: {0} intact", KINDS.len())]);
    assert!(!verified.out.contains("not derived"), "{}", verified.out);
    let listed = lab.run(&["runs", "ls"]);
    listed.code(0);
    // the latest first
    let said: Vec<&str> = listed.out.lines().skip(1).collect();
    assert_eq!(said.len(), KINDS.len(), "{}", listed.out);
    for (line, (_, kind, says)) in said.iter().zip(KINDS.iter().rev()) {
        assert!(
            line.contains(says) && line.contains("finished"),
            "{kind}: {line}"
        );
        assert!(!line.contains("no result"), "{line}");
    }
    let day = &said[0].split_whitespace().nth(2).unwrap();
    for (filter, count) in [
        (&["--kind", "ramp"][..], 1),
        (&["--kind", "import"], 0),
        (&["--since", day], KINDS.len()),
        (&["--since", "2999-01-01"], 0),
        (&["--set", "**"], 0),
    ] {
        let some = lab.run(&[&["runs", "ls"], filter].concat());
        some.code(0);
        assert_eq!(
            some.out.lines().count().saturating_sub(1),
            count,
            "{filter:?}: {}",
            some.out
        );
    }
    lab.run(&["runs", "ls", "--since", "yesterday"])
        .code(2)
        .says(&["2026-11-21"]);
    let ramp = lab.run(&["runs", "ls", "--kind", "ramp"]);
    let place = format!("@{}", KINDS.len() - 1);
    assert_eq!(lines(&ramp.out)[0].0, place, "places are those of all runs");

    // the same seed once more, in another directory of runs: another run
    let id = |of: &Lab| {
        let listed = of.run(&["runs", "ls", "--kind", "trial"]);
        lines(&listed.out)[0].1.to_owned()
    };
    let first = id(&lab);
    lab.run(&["runs", "rm", &first]).code(0);
    sim(KINDS[2].0);
    assert_ne!(id(&lab), first);
}

#[test]
fn verify_says_what_is_not_as_it_was_or_does_not_follow() {
    let lab = Lab::new();
    let search = ["ndr", "--engine", "sim", "--max", "3Mpps", "--goals", "ndr"];
    lab.run(&search).code(0);
    let run = lab.only_run();
    let intact = lab.run(&["runs", "verify"]);
    intact
        .code(0)
        .says(&["1 run: 1 intact, 0 incomplete, 0 damaged"]);
    assert!(
        intact.out.contains("intact") && intact.out.contains("test_cases"),
        "{}",
        intact.out
    );

    // a trial that is gone, each line being whole; an edited page; an input that nobody kept
    let kept = |name: &str| fs::read_to_string(run.join(name)).unwrap();
    let (trials, page) = (kept("trials.jsonl"), kept("report.html"));
    let (_, rest) = trials.split_once('\n').unwrap();
    fs::write(run.join("trials.jsonl"), rest).unwrap();
    fs::write(run.join("report.html"), page.replacen("NDR", "PDR", 1)).unwrap();
    fs::write(run.join("inputs/more"), "").unwrap();
    let found = lab.run(&["runs", "verify", "@1"]);
    found.code(5);
    for says in [
        "DAMAGED",
        "trials.jsonl has changed since the run ended",
        "report.html has changed since the run ended",
        "inputs/more did not exist",
        "trial ",
    ] {
        assert!(found.out.contains(says), "{says}: {}", found.out);
    }
    let json = lab.run(&["runs", "verify", "--json"]);
    json.code(5);
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json[0]["protected"], true);
    assert!(
        json[0]["differences"].as_array().unwrap().len() >= 4,
        "{json}"
    );

    // a figure that was changed is not shown, in no format
    let summary = kept("summary.json");
    let at = summary.find("relevant_lower_bound_pps\": ").unwrap() + 27;
    let mut flipped = summary.into_bytes();
    flipped[at] ^= 1;
    fs::write(run.join("summary.json"), flipped).unwrap();
    let shown = lab.run(&["runs", "show", "@1"]);
    shown.code(0).says(&["summary.json is damaged"]);
    assert!(!shown.out.contains("NDR"), "{}", shown.out);
    let shown = lab.run(&["runs", "show", "@1", "--json"]);
    let document: Value = serde_json::from_str(&shown.out).unwrap();
    assert!(
        document["problems"]
            .to_string()
            .contains("summary.json is damaged"),
        "{document}"
    );
    assert_eq!(document["test_cases"], Value::Null);
}

/// The result of a measurement follows from its trials, and of a comparison from its rebuilds.
#[test]
fn what_was_measured_is_derived_again() {
    if !root("what_was_measured_is_derived_again") {
        return;
    }
    let lab = Lab::new();
    lab.run(TINY).measured();
    let verified = lab.run(&["runs", "verify", "@1"]);
    verified.code(0);
    assert!(
        verified.out.contains("test_cases, control"),
        "{}",
        verified.out
    );
    // what is written again by somebody who knows how checksums are made still does not follow
    let run = lab.only_run();
    let path = run.join("summary.json");
    let text = fs::read_to_string(&path).unwrap();
    let (body, _) = text.split_once(",\n  \"crc32\"").unwrap();
    fs::write(
        &path,
        format!(
            "{}\n}}\n",
            body.replace("\"frames_sent\": ", "\"frames_sent\": 1")
        ),
    )
    .unwrap();
    let head = fs::read_to_string(run.join("run.json")).unwrap();
    assert!(head.contains("crc32"));
    let verified = lab.run(&["runs", "verify", "@1"]);
    verified.code(5);
    assert!(
        verified.out.contains("it has no checksum"),
        "{}",
        verified.out
    );
}

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
    let (places, ids): (Vec<&str>, Vec<&str>) = lines(&listed.out).into_iter().unzip();
    assert_eq!(places, ["@1", "@2", "@3"]);
    assert!(
        listed
            .out
            .lines()
            .skip(1)
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
        .code(2)
        .says(&[year, ids[0], ids[1], ids[2]]);
    for nothing in ["@0", "@4", "@x", "no-such-run"] {
        lab.run(&["runs", "show", nothing])
            .code(2)
            .says(&[nothing, ids[0]]);
        lab.run(&["runs", "rm", nothing]).code(2).says(&[nothing]);
    }
    assert_eq!(directories(&lab.runs()).len(), 3);

    // names are all resolved before anything is removed, so that @2 is still the second
    lab.run(&["runs", "rm", "@1", "no-such-run"]).code(2);
    assert_eq!(directories(&lab.runs()).len(), 3);
    lab.run(&["runs", "rm", "@1", "@2"]).code(0);
    let left = directories(&lab.runs());
    assert_eq!(left.len(), 1);
    assert!(left[0].ends_with(ids[2]));

    // it goes into one file, and is taken out of it once
    let file = lab.path().join("for-a-colleague.tar.gz");
    let name = file.to_str().unwrap();
    lab.run(&["runs", "export", "@1", "-o", name]).code(0);
    lab.run(&["runs", "import", name])
        .code(3)
        .says(&["exists already", ids[2]]);
    let shown = lab.run(&["runs", "show", "@1", "--json"]).out;
    lab.run(&["runs", "rm", "@1"]).code(0);
    lab.run(&["runs", "import", name]).code(0).says(&[ids[2]]);
    assert_eq!(lab.run(&["runs", "show", "@1", "--json"]).out, shown);
    lab.run(&["runs", "verify", "@1"]).code(0);
    // published: without what names the host, and whole all the same
    let brief = lab.path().join("published.tar.gz");
    let published = brief.to_str().unwrap();
    lab.run(&["runs", "export", "@1", "--facts", "brief", "-o", published])
        .code(0);
    lab.run(&["runs", "rm", "@1"]).code(0);
    lab.run(&["runs", "import", published]).code(0);
    lab.run(&["runs", "verify", "@1"]).code(0);
    let head = fs::read_to_string(lab.runs().join(ids[2]).join("run.json")).unwrap();
    assert!(
        !head.contains("kernel_command_line") && head.contains("\"kernel\""),
        "{head}"
    );
    assert!(!lab.runs().join(ids[2]).join("report.html").exists());
    let there_is_none = lab.path().join("none.tar.gz");
    let none = there_is_none.to_str().unwrap();
    lab.run(&["runs", "import", none])
        .code(2)
        .says(&["cannot open", none]);
    lab.run(&["runs", "export", "no-such-run", "-o", none])
        .code(2);
    assert!(!there_is_none.exists());
    assert_eq!(directories(&lab.runs()).len(), 1);

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
