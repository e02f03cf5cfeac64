//! `runs ls|show|verify|rebuild|rm|export|import`, and the names of runs. Start with [`lines`].

use std::fs;

use serde_json::Value;

use crate::support::{
    Lab, directories, ended, list, number, python_with, refused, root, skipped, tool,
};

/// Returns position and id of every listed run, without the header.
fn lines(listed: &str) -> Vec<(&str, &str)> {
    let mut lines = listed.lines();
    let head = lines.next().unwrap();
    assert!(head.contains("run") && head.contains("UTC"), "{listed}");
    // a result too long for its line is indented below
    lines
        .filter(|line| !line.starts_with("     "))
        .map(|line| {
            let mut words = line.split_whitespace();
            (words.next().unwrap(), words.next().unwrap())
        })
        .collect()
}

/// Runs a command on a simulated DUT, with the same seed each time.
fn sim(lab: &Lab, line: &str) {
    lab.run(&format!("{line} --engine sim --max 3Mpps --seed 7"))
        .code(0);
}

const TRIAL: &str = "trial --load 1Mpps --for 1s";

/// A run of every kind that can be simulated, with its figure in the list.
const KINDS: &str = "ndr --goals ndr => NDR 99
    ramp => Ramp, 64 B: loss begins above 99
    trial --load 1Mpps --for 1s => Trial, 64 B: 
    soak --load 900kpps --for 60s => Soak, 64 B: 
    rfc2544 --size 64 --tests throughput => Throughput, 64 B: 99";

#[test]
fn every_kind_of_run_is_listed_with_its_figure() {
    let lab = Lab::new();
    let kinds = KINDS
        .lines()
        .map(|kind| kind.trim().split_once(" => ").unwrap());
    let kinds: Vec<(&str, &str)> = kinds.collect();
    kinds.iter().for_each(|(line, _)| sim(&lab, line));
    // the results follow again from the trials
    let verified = lab.run("runs verify");
    verified.code(0).says(&["5 runs: 5 intact"]);
    assert!(!verified.out.contains("not derived"), "{}", verified.out);
    let listed = lab.run("runs ls");
    // latest first
    let output: Vec<&str> = listed.code(0).out.lines().skip(1).collect();
    assert_eq!(output.len(), kinds.len(), "{}", listed.out);
    for (line, (_, figure)) in output.iter().zip(kinds.iter().rev()) {
        assert!(
            line.contains(figure) && !line.contains("failed") && !line.contains("no result"),
            "{figure}: {line}"
        );
    }
    let id = output[0].split_whitespace().nth(1).unwrap();
    let day = id.get(..10).unwrap();
    for (option, value, count) in [
        ("--kind", "ramp", 1),
        ("--kind", "import", 0),
        ("--since", day, kinds.len()),
        ("--since", "2999-01-01", 0),
        ("--set", "**", 0),
    ] {
        let some = lab.run(&["runs", "ls", option, value]);
        let shown = some.code(0).out.lines();
        let shown = shown.filter(|line| !line.starts_with("     ")).count();
        assert_eq!(shown, count, "{option} {value}: {}", some.out);
    }
    lab.run("runs ls --since yesterday")
        .code(2)
        .says(&["2026-11-21"]);
    let of = |kind: &str| {
        let listed = lab.run(&format!("runs ls --kind {kind}")).out;
        let (place, id) = lines(&listed)[0];
        (place.to_owned(), id.to_owned())
    };
    assert_eq!(of("ramp").0, "@4", "places are those of all runs");

    // the same seed again makes another run
    let (_, first) = of("trial");
    lab.run(&["runs", "rm", &first]).code(0);
    sim(&lab, TRIAL);
    assert_ne!(of("trial").1, first);
}

#[test]
fn runs_of_other_directories_are_read() {
    let lab = Lab::new();
    let trial = |root: &str, dut: &str| {
        let line =
            format!("trial --engine sim --load 1kpps --for 1s --dut capacity={dut} --runs {root}");
        lab.run(&line).code(0);
    };
    trial("archive", "1e6");
    trial("own", "2e6");
    let archived = lab.json("runs ls --runs archive")[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let both = "--runs own --runs archive";
    let listed = lab.json(&format!("runs ls {both}"));
    assert_eq!(list(&listed).len(), 2);
    assert_eq!(listed[1]["id"], *archived);
    lab.run(&format!("runs show {archived} {both}")).code(0);
    lab.run(&format!("runs verify {both}"))
        .code(0)
        .says(&["2 runs: 2 intact"]);
    lab.run(&format!("report @1 @2 --format csv -o both/ {both}"))
        .code(0);
    // nothing is written to a read-only one, and what would be is refused
    let archive = lab.path().join("archive");
    let archive = archive.to_str().unwrap();
    if root() {
        // in the mount namespace of this test
        tool(&["mount", "--bind", archive, archive]);
        tool(&["mount", "-o", "remount,bind,ro", archive]);
        for line in ["runs ls", "runs table", "compare @1 @2", "runs verify"] {
            lab.run(&format!("{line} {both}")).code(0);
        }
        let read_only = "Read-only file system (os error 30). Store runs in a writable directory, with --runs DIR";
        for line in ["runs tag @2 old", "runs rm @2", "runs rebuild @2"] {
            lab.run(&format!("{line} {both}"))
                .code(3)
                .says(&[read_only]);
        }
        let line = "trial --engine sim --load 1kpps --for 1s --runs archive --runs own";
        lab.run(line).code(3).says(&["cannot create", read_only]);
        tool(&["umount", archive]);
    }
    // new runs, and what is removed by a rule, are in the first
    trial("own --runs archive", "3e6");
    assert_eq!(list(&lab.json("runs ls --runs archive")).len(), 1);
    lab.run(&format!("runs prune --keep 0 --yes {both}"))
        .code(0);
    assert_eq!(lab.json(&format!("runs ls {both}"))[0]["id"], *archived);
    let mut of_variable = lab.program("runs ls --json");
    of_variable.env("FWDLAB_RUNS", "own:archive");
    assert_eq!(list(&ended(of_variable).code(0).document()).len(), 1);
}

#[test]
fn verify_shows_changes_and_rebuild_uses_intact_files() {
    let lab = Lab::new();
    sim(&lab, "ndr --goals ndr");
    let run = lab.only_run();
    let kept = |name: &str| fs::read_to_string(run.join(name)).unwrap();
    let write = |name: &str, text: &str| fs::write(run.join(name), text).unwrap();
    let (page, trials) = (kept("report.html"), kept("trials.jsonl"));
    fs::remove_file(run.join("report.html")).unwrap();
    lab.run("runs verify @1").code(5);
    lab.run("runs rebuild @1")
        .code(0)
        .prints(&["the result is the same", "report.html is new"]);
    assert_eq!(kept("report.html"), page);
    lab.run("runs verify")
        .code(0)
        .says(&["1 run: 1 intact, 0 incomplete, 0 damaged"])
        .prints(&["intact", "test_cases"]);

    // a missing trial: a finished run that is damaged stays damaged
    write("trials.jsonl", trials.split_once('\n').unwrap().1);
    lab.run("runs rebuild @1")
        .says(&["cannot rebuild", "trials.jsonl"]);
    // an edited page, and an unknown input
    write("report.html", &page.replacen("NDR", "PDR", 1));
    write("inputs/more", "");
    lab.run("runs verify @1").code(5).prints(&[
        "DAMAGED",
        "trials.jsonl has changed since the run ended",
        "report.html has changed since the run ended",
        "inputs/more did not exist",
        "trial ",
    ]);
    let json = lab.run("runs verify --json").code(5).document();
    assert_eq!(json[0]["protected"], true);
    assert!(list(&json[0]["differences"]).len() >= 4, "{json}");

    // an altered figure is not shown, in any format
    let summary = kept("summary.json");
    let at = summary.find("relevant_lower_bound_pps\": ").unwrap() + 27;
    let mut flipped = summary.into_bytes();
    flipped[at] ^= 1;
    fs::write(run.join("summary.json"), flipped).unwrap();
    let shown = lab.run("runs show @1");
    shown.code(0).says(&["summary.json is damaged"]);
    assert!(!shown.out.contains("NDR"), "{}", shown.out);
    let document = lab.run("runs show @1 --json").document();
    let problems = document["problems"].to_string();
    assert!(problems.contains("summary.json is damaged"), "{document}");
    assert_eq!(document["test_cases"], Value::Null);
}

#[test]
fn runs_are_named_removed_exported_and_imported() {
    let lab = Lab::new();
    (0..3).for_each(|_| sim(&lab, TRIAL));
    let listed = lab.run("runs ls");
    let (places, ids): (Vec<&str>, Vec<&str>) = lines(&listed.code(0).out).into_iter().unzip();
    assert_eq!(places, ["@1", "@2", "@3"]);
    // by its position, by its id, and by the last four characters
    for name in ["@2", ids[1], ids[1].rsplit('-').next().unwrap()] {
        let shown = lab.run(&["runs", "show", name]);
        shown.code(0).prints(&["64 B", ids[1]]);
    }
    // an ambiguous prefix names no run
    let year = &ids[0][..4];
    lab.run(&["runs", "show", year])
        .code(2)
        .says(&[year, ids[0], ids[1], ids[2]]);

    // all names are resolved before anything is removed, so that @2 is still the second
    lab.run("runs rm @1 no-such-run").code(2);
    assert_eq!(directories(&lab.runs()).len(), 3);
    lab.run("runs rm @1 @2").code(0);
    assert!(lab.only_run().ends_with(ids[2]));

    // exported to one file, and imported only once
    let file = |name: &str| lab.path().join(name).to_str().unwrap().to_owned();
    let (whole, brief, none) = (file("a.tar.gz"), file("brief.tar.gz"), file("none.tar.gz"));
    lab.run(&["runs", "export", "@1", "-o", &whole]).code(0);
    lab.run(&["runs", "import", &whole])
        .code(3)
        .says(&["exists already", ids[2]]);
    let shown = lab.run("runs show @1 --json").out;
    lab.run("runs rm @1").code(0);
    lab.run(&["runs", "import", &whole]).code(0).says(&[ids[2]]);
    assert_eq!(lab.run("runs show @1 --json").out, shown);
    lab.run("runs verify @1").code(0);
    // published: without facts that identify the host, but complete
    lab.run(&["runs", "export", "@1", "--facts", "brief", "-o", &brief])
        .code(0);
    lab.run("runs rm @1").code(0);
    lab.run(&["runs", "import", &brief]).code(0);
    lab.run("runs verify @1").code(0);
    let head = lab.kept("run.json");
    assert!(
        !head.contains("kernel_command_line") && head.contains("\"kernel\""),
        "{head}"
    );
    assert!(!lab.only_run().join("report.html").exists());
    let table = "runs import NONE => 2: cannot open | NONE\nruns export no-such-run -o NONE => 2: no-such-run";
    refused(&table.replace("NONE", &none), |line| lab.run(line));
    assert!(!fs::exists(&none).unwrap());

    // a damaged run is reported, and does not affect others
    let damaged = lab.runs().join("2020-01-01-quick-aaaa");
    fs::create_dir(&damaged).unwrap();
    fs::write(damaged.join("run.json"), "{").unwrap();
    lab.run("runs ls").code(0).prints(&["damaged", ids[2]]);
    lab.run("runs table").code(5).reports(&["aaaa", ids[2]]);
    lab.run("runs rm aaaa @1").code(0);
    let empty = lab.run("runs ls");
    empty.code(0).says(&["no runs in", "fwdlab quick"]);
    assert_eq!(empty.out, "");
}

/// DuckDB reads the rows, carries out every query of the documentation, and finds in both formats
/// the values that the results have.
#[test]
fn rows_are_read_by_duckdb() {
    let lab = Lab::new();
    let text = "campaign = 'rows'\niterations = 3\nseed = 7\n[bed]\nengine = 'sim'\ndut = 'capacity=1e6,noise=0.01'\nmax = '3Mpps'\n\
                [matrix]\nflows = [10, 2000]\n[procedure]\nid = 'trial'\nload = '2Mpps'\nfor = '1s'\n";
    let shown = [1, 2].map(|_| lab.campaign(text).code(0).document());
    lab.run("runs tag @1 baseline").code(0);
    for format in ["jsonl", "csv"] {
        let rows = lab.run(&format!("runs table --format {format}"));
        lab.write(&format!("runs.{format}"), &rows.code(0).out);
    }
    lab.run("runs table --json").code(2);
    let Some(python) = python_with("duckdb") else {
        return skipped("no Python that has duckdb");
    };
    let script = "import duckdb, json, os, re, sys\n\
        queries = re.findall('```sql\\n(.*?)```', open(sys.argv[1]).read(), re.S)\n\
        os.chdir(sys.argv[2])\n\
        rows = [duckdb.sql(query).fetchall() if at else duckdb.sql(query) for at, query in enumerate(queries)]\n\
        values = lambda of: duckdb.sql(f'SELECT count(value), sum(value) FROM {of}').fetchall()[0]\n\
        own = duckdb.sql('SELECT run, test_case, metric, n, iteration, half_width, fwdlab, doubt FROM rows').fetchall()\n\
        print(json.dumps([rows[1:], values('rows'), values(\"read_csv('runs.csv')\"), own], default=str))";
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/runs.md");
    let read = tool(&[python, "-c", script, manual, lab.path().to_str().unwrap()]);
    let read: Value = serde_json::from_str(&read).unwrap();
    // ten queries; no configuration is compared, and no value is doubtful
    let numbers: Vec<usize> = list(&read[0]).iter().map(|rows| list(rows).len()).collect();
    assert_eq!(numbers, [4, 2, 0, 2, 4, 2, 4, 2, 0, 2]);
    answers_are_ours(&lab, &read, &shown);
    let cases = shown.iter().flat_map(|run| list(&run["test_cases"]));
    let figures = cases.flat_map(|case| list(&case["figures"]));
    let values = figures.flat_map(|figure| list(&figure["values"]));
    let values: Vec<f64> = values.map(number).collect();
    for format in [&read[1], &read[2]] {
        let difference = number(&format[1]) - values.iter().sum::<f64>();
        let is_equal = format[0] == values.len() && difference.abs() < 1e-3;
        assert!(is_equal, "{read}");
    }
}

/// Checks what DuckDB answers to the queries of the documentation against the results and against
/// `compare`.
fn answers_are_ours(lab: &Lab, read: &Value, shown: &[Value; 2]) {
    let answer = |query: usize| list(&read[0][query - 1]);
    let is_near = |one: &Value, other: f64| (number(one) / other - 1.0).abs() < 1e-9;
    // all figures by run, name and test case without its configuration
    let figures = shown.iter().flat_map(|run| {
        let cases = list(&run["test_cases"]).iter();
        cases.flat_map(move |case| {
            let name = case["test_case"].as_str().unwrap();
            let name = name.strip_prefix("plain/").unwrap_or(name);
            let figures = list(&case["figures"]).iter();
            figures.map(move |figure| (run["run"].clone(), name, figure))
        })
    });
    let figures: Vec<(Value, &str, &Value)> = figures.collect();
    let figure = |run: &Value, case: &Value| {
        let mut all = figures.iter();
        let (.., found) = all
            .find(|(of, name, _)| of == run && case == *name)
            .unwrap_or_else(|| panic!("{run} {case}"));
        *found
    };
    // a figure over time: [measured_at, run, test_case, configuration, metric, value]
    for row in answer(1) {
        let ours = figure(&row[1], &row[2]);
        assert!(is_near(&row[5], number(&ours["median"])), "{row} {ours}");
    }
    // what varies most: [run, test_case, metric, n, percent]
    for row in answer(7) {
        let ours = figure(&row[0], &row[1]);
        assert!(
            is_near(&row[4], number(&ours["variation_percent"])),
            "{row} {ours}"
        );
    }
    // the loss against the run before, and the runs with a tag against the others
    let compared = lab.run("compare @2 @1 --json").document();
    let medians = |case: &Value| {
        let mut rows = list(&compared["rows"]).iter();
        let label =
            |row: &Value| format!("64B-{}flows-ipv4", row["labels"]["flows"].as_str().unwrap());
        let row = rows
            .find(|row| *case == label(row))
            .unwrap_or_else(|| panic!("{case}: {compared}"));
        [0, 1].map(|at| number(&row["cells"][at]["median"]))
    };
    // [run, measured_at, test_case, configuration, metric, value, percent]
    for row in answer(2) {
        let [before, after] = medians(&row[2]);
        let percent = 100.0 * (after / before - 1.0);
        assert!((number(&row[6]) - percent).abs() < 1e-9, "{row} {percent}");
    }
    // [test_case, metric, baseline, others]; the newest run has the tag
    for row in answer(10) {
        let [others, baseline] = medians(&row[0]);
        assert!(
            is_near(&row[2], baseline) && is_near(&row[3], others),
            "{row}"
        );
    }
    // every value: [run, test_case, metric, n, iteration, half_width, fwdlab, doubt]
    for row in list(&read[3]) {
        let ours = figure(&row[0], &row[1]);
        assert_eq!((&row[3], &row[7]), (&row[4], &Value::Null), "{row}");
        assert_eq!(row[5], ours["interval_half_width"], "{row}");
        assert_eq!(row[6], env!("CARGO_PKG_VERSION"), "{row}");
    }
}
