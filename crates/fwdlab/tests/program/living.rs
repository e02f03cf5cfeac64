//! Everyday use: labels of runs, pruning, defaults of options, completions and manual pages. Start
//! with [`run`].

use std::fs;
use std::process::Command;

use crate::support::{Lab, PROGRAM, directories, ended, id_of, skipped, tool};

/// Makes a simulated run. Returns its id.
fn run(lab: &Lab) -> String {
    let line = "trial --load 1Mpps --for 1s --engine sim --max 3Mpps";
    let document = lab.json(line);
    id_of(&document)
}

#[test]
fn runs_are_labelled_shown_and_pruned() {
    let lab = Lab::new();
    let ids = [(); 3].map(|()| run(&lab));
    lab.run(&["runs", "tag", &ids[0], "baseline", "v1"])
        .code(0)
        .prints(&["baseline, v1"]);
    lab.run(&["runs", "note", "baseline", "before the\nnew firmware"])
        .code(0);
    let listed = lab.run("runs ls --tag v1");
    listed.code(0).prints(&["tags", "baseline v1", &ids[0]]);
    assert!(!listed.out.contains(&ids[1]), "{listed:?}");
    lab.run("runs show baseline").code(0).prints(&[
        "tags      baseline v1",
        "note      before the",
        "          new firmware",
    ]);
    // every report contains the labels
    for format in ["text", "markdown", "html"] {
        let report = lab.run(&["report", "baseline", "--format", format, "-o", "-"]);
        report.code(0).prints(&["before the", "new firmware"]);
    }
    lab.run("compare baseline @1")
        .prints(&[&ids[0], &ids[2], "cannot tell"]);
    lab.run("runs tag baseline --remove nope")
        .says(&["no tag `nope`", "baseline, v1"]);
    lab.run(&["runs", "tag", "@1", "two words"])
        .says(&["`two words`", "begins with a letter"]);

    // nothing is removed without a rule or without consent; tagged runs are kept
    let prune = |options: &str| lab.run(&format!("runs prune {options}"));
    prune("").code(2);
    prune("--keep 1")
        .code(0)
        .prints(&["would go", &ids[1]])
        .says(&["--yes"]);
    assert_eq!(directories(&lab.runs()).len(), 3);
    prune("--keep 0 --older-than 1h --yes")
        .code(0)
        .says(&["no run is old enough"]);
    prune("--keep 1 --yes")
        .code(0)
        .prints(&["removed"])
        .says(&["1 run"]);
    let mut left = [&ids[0], &ids[2]].map(|id| lab.runs().join(id));
    left.sort();
    assert_eq!(directories(&lab.runs()), left);
    prune("--keep 0 --tagged --yes").code(0);
    assert!(directories(&lab.runs()).is_empty());
}

#[test]
fn files_contain_the_options_of_the_command_line() {
    let lab = Lab::new();
    let here = lab.path().join("here");
    fs::create_dir(&here).unwrap();
    let inside = |file: &str, line: &[&str]| {
        fs::write(here.join("fwdlab.toml"), file).unwrap();
        let mut command = lab.program(line);
        command
            .env_remove("FWDLAB_CONFIG")
            .env("XDG_CONFIG_HOME", lab.path())
            .current_dir(&here);
        ended(command)
    };
    // typed options override the file, and the directory's file overrides the user's
    let text = "[trial]\nload = '1Mpps'\nfor = '1s'\nengine = 'sim'\nmax = '3Mpps'\n";
    inside(text, &["trial", "--load", "500kpps"])
        .code(0)
        .prints(&["500.0 kpps"]);
    fs::create_dir(lab.path().join("fwdlab")).unwrap();
    fs::write(
        lab.path().join("fwdlab/fwdlab.toml"),
        "[all]\njson = true\n[trial]\nload = '2Mpps'",
    )
    .unwrap();
    let both = inside(text, &["trial"]);
    let document = both.code(0).document();
    assert_eq!(
        document["trials"][0]["intended_load_pps"], 1e6,
        "{document}"
    );
    inside("[trail]\nload = 3", &["trial"])
        .code(2)
        .says(&["fwdlab.toml:1:2", "did you mean `trial`?"]);
}

/// Returns bash's completions of a line.
fn completed(words: &[&str]) -> String {
    let script = "source <(\"$1\" completions bash) || exit 3; shift\n\
                  COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _fwdlab fwdlab \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"\n\
                  echo \"${COMPREPLY[@]}\"";
    tool(&[&["bash", "-c", script, "bash", PROGRAM, "fwdlab"], words].concat())
}

#[test]
fn shells_complete_commands_and_options() {
    let output = completed(&["qu"]);
    assert!(
        output.contains("quick") && !output.contains("queues"),
        "{output}"
    );
    assert_eq!(completed(&["traffic", "qu"]).trim(), "queues");
    assert_eq!(completed(&["runs", "no"]).trim(), "note");
    assert_eq!(completed(&["quick", "--iter"]).trim(), "--iterations");
    let lab = Lab::new();
    for (shell, mark) in [
        ("bash", "_fwdlab"),
        ("zsh", "#compdef fwdlab"),
        ("fish", "complete -c fwdlab"),
    ] {
        let script = lab.run(&["completions", shell]);
        script.code(0).prints(&[mark, "traffic", "pkt-gen"]);
        // not the older names
        for older in [
            "fwdlab__send",
            "fwdlab__subcmd__send",
            "_fwdlab__send_commands",
        ] {
            assert!(!script.out.contains(older), "{shell}: {older}");
        }
    }
}

#[test]
fn manual_pages_are_read_by_groff() {
    let lab = Lab::new();
    let dir = lab.path().join("man1");
    lab.run(&["man", "--dir", dir.to_str().unwrap()]).code(0);
    lab.run("man").code(0).prints(&[".TH fwdlab 1"]);
    for (page, exists) in [
        ("fwdlab.1", true),
        ("fwdlab-runs-tag.1", true),
        ("fwdlab-traffic-send.1", true),
        ("fwdlab-new-man.1", true),
        ("fwdlab-send.1", false),
        ("fwdlab-man.1", false),
    ] {
        assert_eq!(dir.join(page).is_file(), exists, "{page}");
    }
    if Command::new("groff").arg("--version").output().is_err() {
        return skipped("groff is not installed");
    }
    for page in ["fwdlab.1", "fwdlab-quick.1"] {
        let words = ["-man", "-Tutf8", "-ww", "-Kutf8", page];
        let read = ended(lab.with(&["env", "-C", dir.to_str().unwrap(), "groff"], &words));
        assert_eq!(read.code(0).err, "", "{page}");
        read.prints(&["quick"]);
        // the bottom line has the program and its version
        let version = concat!("fwdlab ", env!("CARGO_PKG_VERSION"));
        let bottom = read.out.trim_end().lines().last().unwrap();
        assert!(bottom.contains(version), "{page}: {bottom}");
    }
}
