//! `compare` with files of numbers and with stored runs, from outside: output and exit code.
//!
//! The conclusions are tested in `report` and `stats`, the values of a run in `store`. Start with
//! [`results_of_procedures_are_compared`].

use std::fs;

use serde_json::{Value, json};

use crate::support::{CommandResult, Lab, cases, list, number, refused, texts};

/// machdep.hyperthreading_allowed of the netbenches archive, one number per run.
const HT_8: &str = "4648451\n4735822\n4724896\n4632222\n4500078\n";
const HT_16: &str = "4925106\n5070589.5\n5104512\n5198632\n5142971\n";
/// chelsio-bind-cpu on an Atom.
const UNBOUND: &str = "4059502\n4149250\n4232479\n4066276\n4190823\n";
const BOUND: &str = "4173030\n4112849.5\n4187634\n4118224\n4212811\n";

/// A directory with files and runs.
struct CompareFolder(Lab);

impl CompareFolder {
    fn new() -> CompareFolder {
        let lab = Lab::new();
        for (name, text) in [
            ("ht8.pps", HT_8),
            ("ht16.pps", HT_16),
            ("unbound.pps", UNBOUND),
            ("bound.pps", BOUND),
        ] {
            lab.write(name, text);
        }
        CompareFolder(lab)
    }

    fn compare(&self, line: &str) -> CommandResult {
        self.0.run(&format!("compare {line}"))
    }

    fn json(&self, line: &str) -> Value {
        self.compare(&format!("{line} --json")).code(0).document()
    }
}

#[test]
fn every_format_and_every_test_can_be_asked_for() {
    let desk = CompareFolder::new();
    let table = "--format text => 0: Welch's t, which assumes normal
        -v => 0: Mann-Whitney U with Hodges-Lehmann
        --format markdown => 0: forwarding rate in Mpps | unbound.pps
        --format csv => 0: ,unbound.pps,unbound.pps,5,
        --format html => 0: <!DOCTYPE html>
        --format ministat => 0: No difference proven at 95.0% confidence";
    for (more, code, words) in cases(table) {
        let shown = desk.compare(&format!("unbound.pps bound.pps {more}"));
        shown.code(code).prints(&words);
        assert_eq!(shown.err, "", "{more:?}");
    }
    for (more, at, value) in [
        ("--test student", "/rows/0/comparisons/0/test", "student"),
        ("--test welch", "/rows/0/comparisons/0/test", "welch"),
        ("--test rank", "/rows/0/comparisons/0/test", "mann_whitney"),
        ("--baseline ht16", "/baseline", "ht16.pps"),
    ] {
        let document = desk.json(&format!("ht8.pps ht16.pps {more}"));
        assert_eq!(document.pointer(at), Some(&value.into()), "{document}");
    }
}

#[test]
fn a_broken_limit_is_code_6() {
    let desk = CompareFolder::new();
    // a format without room for sentences; -0.5 % exceeds -0.1 %, but is not proven: the output
    // says how large a missed difference could be, and an inconclusive check fails
    let table = "LOSS IF < -2%' => 6: forwarding-rate < -2%: FAILED by
        LOSS IF < -9%' => 0:
        GAIN IF > +5%' => 6:
        GAIN IF < -2%' => 0:
        LOSS IF < -20%' IF < -2%' => 6:
        LOSS IF < -2%' --format csv => 6: FAILED
        CLOSE IF < -0.1%' => 5: only a difference of 3.2 % | NOT PASSED
        CLOSE IF < -0.1%' --accept-inconclusive => 0: -0.1%: kept
        CLOSE --accept-inconclusive => 2: --fail-if
        LOSS IF = 2%' => 2: character 17
        LOSS --fail-if 'pdr < -2%' --metric ndr => 2: what is compared is ndr: add --metric pdr";
    for (line, code, words) in cases(table) {
        let line = line.replace("LOSS", "ht16.pps ht8.pps");
        let line = line.replace("GAIN", "ht8.pps ht16.pps");
        let line = line.replace("CLOSE", "bound.pps unbound.pps");
        let line = line.replace("IF ", "--fail-if 'forwarding-rate ");
        desk.compare(&line).code(code).reports(&words);
    }
}

#[test]
fn wrong_input_is_code_2_with_its_position() {
    let desk = CompareFolder::new();
    for (name, text) in [
        ("one", "1\n"),
        ("words", "1\n2\nmany\n"),
        ("infinite", "1\n2\ninf\n"),
        ("negative", "-1\n-2\n-3\n"),
        ("columns", "a 1\nb 2\nc 4\n"),
    ] {
        desk.0.write(name, text);
    }
    fs::create_dir(desk.0.path().join("directory")).unwrap();
    desk.compare("columns columns --column 2").code(0);
    let table = "ht8.pps missing => 2: missing | neither a file
        ht8.pps directory => 2: directory | is neither a run
        ht8.pps one => 2: one | at least 3
        ht8.pps words => 2: words | line 3
        ht8.pps infinite => 2: infinite | value 3 is inf
        ht8.pps columns => 2: columns | line 1
        ht8.pps @1 => 2: @1 | neither a file
        negative negative --paired => 2: positive
        ht8.pps => 2: name another
        ht8.pps one --column 0 => 2: --column
        ht8.pps ht16.pps --confidence 100 => 2: --confidence
        ht8.pps ht16.pps --confidence nan => 2: --confidence
        ht8.pps ht16.pps --equivalence 0 => 2: --equivalence
        ht8.pps ht16.pps --by kernel => 2: --by";
    refused(table, |line| desk.compare(line));
    desk.compare("ht8.pps ht16.pps --json --format csv")
        .code(2)
        .says(&["different formats"]);
}

/// With one file, the series consists of its values; with several, of the files. The same file may
/// appear more than once.
#[test]
fn change_points_over_files() {
    let desk = CompareFolder::new();
    desk.0
        .write("series", "100\n101\n99\n100\n70\n100\n101\n99\n100\n");
    let document = desk.json("--changes series");
    let shifts = texts(&document["rows"][0]["groups"], "shift");
    assert_eq!(shifts, ["first", "regression", "progression"]);
    let files = desk.json("--changes ht8.pps ht8.pps ht8.pps ht16.pps ht16.pps");
    let groups = list(&files["rows"][0]["groups"]);
    assert_eq!((groups.len(), &groups[1]["from"]), (2, &json!("ht16.pps")));
    assert_eq!(groups[0]["to"], "ht8.pps (3)");
    for (more, code) in [
        ("", 0),
        ("--format csv", 2),
        ("--fail-if 'forwarding-rate < 1%'", 2),
    ] {
        desk.compare(&format!("--changes series {more}")).code(code);
    }
}

/// Runs of procedures are compared by their figures: one value per iteration, none per trial.
#[test]
fn results_of_procedures_are_compared() {
    let desk = CompareFolder::new();
    let lab = &desk.0;
    for capacity in ["1e6", "1.1e6"] {
        let line = format!("ndr --engine sim --dut capacity={capacity},link=10Gbps");
        lab.run(&line).code(0);
    }
    // the first figure that both have
    let found = desk.json("@2 @1");
    assert_eq!(
        (&found["metric"], &found["unit"]),
        (&json!("ndr"), &json!("pps"))
    );
    let row = &found["rows"][0];
    assert_eq!(list(&row["cells"][0]["values"]).len(), 1, "no trials");
    let difference = number(&row["comparisons"][0]["difference_percent"]);
    assert!((difference - 10.0).abs() < 0.2, "{row}");
    assert_eq!(desk.json("@2 @1 --metric pdr")["metric"], "pdr");
    desk.compare("@2 @1 --metric loss").code(2).says(&[
        "nothing has the metric `loss`",
        "ndr",
        "pdr",
    ]);

    let campaign = |capacity: f64| {
        let ended = lab.campaign(&format!(
            "campaign = 'mrr'\niterations = 5\n[matrix]\nsize = [64, 512]\nflows = 10\n[bed]\nengine = 'sim'\nmax = '2Mpps'\n\
             dut = 'capacity={capacity},noise=0.01'\n[procedure]\nid = 'mrr'\n"
        ));
        let document = ended.code(0).document();
        document["directory"].as_str().unwrap().to_owned()
    };
    let slow = campaign(1e6);
    campaign(1.1e6);
    let found = desk.json("@2 @1");
    assert_eq!(found["metric"], "receive-rate");
    assert_eq!(texts(&found["rows"], "test_case"), ["64 B", "512 B"]);
    for row in list(&found["rows"]) {
        assert_eq!(list(&row["cells"][0]["values"]).len(), 5, "{row}");
        assert_eq!(row["comparisons"][0]["verdict"], "more", "{row}");
    }
    // the directory identifies the run
    assert_eq!(desk.json(&format!("{slow} @1"))["rows"], found["rows"]);
    // by another label, within one run
    let sizes = desk.json("@1 --by frame_size_bytes");
    assert_eq!(sizes["rows"][0]["comparisons"][0]["column"], "512 B");
    // a limit selects the compared figure; a file of numbers has one column, and matches no test
    // case of a run with two
    let table = "@1 @2 --fail-if 'receive-rate < -5%' => 6:
        @1 => 2: --by frame_size_bytes
        @1 ht8.pps => 2: nothing to compare";
    for (line, code, words) in cases(table) {
        desk.compare(line).code(code).says(&words);
    }
}
