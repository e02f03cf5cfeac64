//! Living with the program: what is said of runs, which of them go, defaults of options, completions and manual pages.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::{Lab, directories, ended, skipped, try_tool};

/// A simulated run, for there to be one; the same whenever it is made.
const TRIAL: &[&str] = &[
    "trial", "--load", "1Mpps", "--for", "1s", "--engine", "sim", "--max", "3Mpps",
];

fn run(lab: &Lab, seed: u32) -> String {
    let seed = seed.to_string();
    let ended = lab.run(&[TRIAL, &["--seed", &seed, "--json"]].concat());
    let document: Value = serde_json::from_str(&ended.code(0).out).unwrap();
    document["info"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn runs_are_named_told_about_and_let_go() {
    let lab = Lab::new();
    let ids: Vec<String> = (1..=3).map(|seed| run(&lab, seed)).collect();
    lab.run(&["runs", "tag", &ids[0], "baseline", "v1"])
        .code(0)
        .prints(&["baseline, v1"]);
    lab.run(&["runs", "note", "baseline", "before the\nnew firmware"])
        .code(0);
    let listed = lab.run(&["runs", "ls", "--tag", "v1"]);
    listed.code(0).prints(&["tags", "baseline v1", &ids[0]]);
    assert!(!listed.out.contains(&ids[1]), "{listed:?}");
    lab.run(&["runs", "show", "baseline"]).code(0).prints(&[
        "tags      baseline v1",
        "note      before the",
        "          new firmware",
    ]);
    // whoever is sent a report reads it there
    for format in ["text", "markdown", "html"] {
        let report = lab.run(&["report", "baseline", "--format", format, "-o", "-"]);
        report.code(0).prints(&["before the", "new firmware"]);
    }
    lab.run(&["compare", "baseline", "@1"])
        .prints(&[&ids[0], &ids[2], "cannot tell"]);
    lab.run(&["runs", "tag", "baseline", "--remove", "nope"])
        .says(&["no tag `nope`", "baseline, v1"]);
    lab.run(&["runs", "tag", "@1", "two words"])
        .says(&["`two words`", "begins with a letter"]);

    // nothing goes without a rule, or without consent; what has a tag stays
    lab.run(&["runs", "prune"]).code(2);
    lab.run(&["runs", "prune", "--keep", "1"])
        .code(0)
        .prints(&["would go", &ids[1]])
        .says(&["--yes"]);
    assert_eq!(directories(&lab.runs()).len(), 3);
    lab.run(&[
        "runs",
        "prune",
        "--keep",
        "0",
        "--older-than",
        "1h",
        "--yes",
    ])
    .code(0)
    .says(&["no run is old enough"]);
    lab.run(&["runs", "prune", "--keep", "1", "--yes"])
        .code(0)
        .prints(&["removed"])
        .says(&["1 run"]);
    let left: Vec<String> = directories(&lab.runs())
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert!(
        left.contains(&ids[0]) && !left.contains(&ids[1]),
        "{left:?}"
    );
    assert_eq!(left.len(), 2, "{left:?}");
    lab.run(&["runs", "prune", "--keep", "0", "--tagged", "--yes"])
        .code(0);
    assert!(directories(&lab.runs()).is_empty());
}

#[test]
fn what_was_derived_is_derived_again() {
    let lab = Lab::new();
    let id = run(&lab, 1);
    let dir = lab.runs().join(&id);
    let page = fs::read_to_string(dir.join("report.html")).unwrap();
    fs::remove_file(dir.join("report.html")).unwrap();
    lab.run(&["runs", "verify", &id]).code(5);
    lab.run(&["runs", "rebuild", &id])
        .code(0)
        .prints(&["the result is the same", "report.html is new"]);
    assert_eq!(fs::read_to_string(dir.join("report.html")).unwrap(), page);
    lab.run(&["runs", "verify", &id])
        .code(0)
        .prints(&["intact"]);
    // what was measured and is damaged stays damaged
    let trials = fs::read_to_string(dir.join("trials.jsonl")).unwrap();
    fs::write(
        dir.join("trials.jsonl"),
        trials.replacen("1000000", "1000001", 1),
    )
    .unwrap();
    let refused = lab.run(&["runs", "rebuild", &id]);
    refused.says(&["cannot rebuild", "trials.jsonl"]);
    lab.run(&["runs", "verify", &id]).code(5);
}

#[test]
fn files_say_what_would_be_typed() {
    let lab = Lab::new();
    let inside = |file: &str, line: &[&str]| {
        let mut command = lab.program(line);
        command
            .env_remove("FWDLAB_CONFIG")
            .env("XDG_CONFIG_HOME", lab.path());
        ended({
            fs::create_dir_all(lab.path().join("here")).unwrap();
            fs::write(lab.path().join("here/fwdlab.toml"), file).unwrap();
            command.current_dir(lab.path().join("here"));
            command
        })
    };
    let text = "[trial]\nload = '1Mpps'\nfor = '1s'\nengine = 'sim'\nmax = '3Mpps'\n";
    inside(text, &["trial"]).code(0).prints(&["1.000 Mpps"]);
    // what is typed goes before it, the directory before the user
    inside(text, &["trial", "--load", "500kpps"])
        .code(0)
        .prints(&["500.0 kpps"]);
    fs::create_dir_all(lab.path().join("fwdlab")).unwrap();
    fs::write(
        lab.path().join("fwdlab/fwdlab.toml"),
        "[all]\njson = true\n[trial]\nload = '2Mpps'",
    )
    .unwrap();
    let both = inside(text, &["trial"]);
    let document: Value = serde_json::from_str(&both.code(0).out).unwrap();
    assert_eq!(
        document["trials"][0]["intended_load_pps"], 1e6,
        "{document}"
    );
    let wrong = inside("[trail]\nload = 3", &["trial"]);
    wrong
        .code(2)
        .says(&["fwdlab.toml:1:2", "did you mean `trial`?"]);
}

/// What bash makes of a line that ends with the key for completion.
fn completed(words: &[&str]) -> Result<String, String> {
    let script = "source <(\"$1\" completions bash) || exit 3; shift\n\
                  COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _fwdlab fwdlab \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"\n\
                  echo \"${COMPREPLY[@]}\"";
    try_tool(
        &[
            &["bash", "-c", script, "bash", crate::support::PROGRAM],
            words,
        ]
        .concat(),
    )
}

#[test]
fn shells_complete_commands_and_options() {
    let said = completed(&["fwdlab", "qu"]).unwrap();
    assert!(said.contains("quick") && said.contains("queues"), "{said}");
    let said = completed(&["fwdlab", "runs", "ta"]).unwrap();
    assert_eq!(said.trim(), "tag");
    let said = completed(&["fwdlab", "quick", "--iter"]).unwrap();
    assert_eq!(said.trim(), "--iterations");
    let lab = Lab::new();
    for (shell, mark) in [("zsh", "#compdef fwdlab"), ("fish", "complete -c fwdlab")] {
        lab.run(&["completions", shell]).code(0).prints(&[mark]);
    }
}

#[test]
fn manual_pages_are_read_by_groff() {
    let lab = Lab::new();
    let dir = lab.path().join("man1");
    lab.run(&["man", "--dir", dir.to_str().unwrap()]).code(0);
    lab.run(&["man"]).code(0).prints(&[".TH fwdlab 1"]);
    let mut pages: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    pages.sort();
    let names: Vec<&str> = pages
        .iter()
        .map(|p| p.file_name().unwrap().to_str().unwrap())
        .collect();
    for name in ["fwdlab.1", "fwdlab-quick.1", "fwdlab-runs-tag.1"] {
        assert!(names.contains(&name), "{names:?}");
    }
    if Command::new("groff").arg("--version").output().is_err() {
        return skipped("manual_pages_are_read_by_groff", "groff is not installed");
    }
    for page in ["fwdlab.1", "fwdlab-quick.1"] {
        let path = dir.join(page);
        let output = Command::new("groff")
            .args(["-man", "-Tutf8", "-ww", "-Kutf8"])
            .arg(&path)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && told.is_empty(), "{page}: {told}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("quick"), "{text}");
        // who made it stands at the bottom
        let version = concat!("fwdlab ", env!("CARGO_PKG_VERSION"));
        let bottom = text.trim_end().lines().last().unwrap();
        assert!(bottom.contains(version), "{page}: {bottom}");
    }
}
