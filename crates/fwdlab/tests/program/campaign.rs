//! `fwdlab run`, `plan` and `check` from outside: invalid files, output and stored runs, and this
//! host's kernel with configurations that fail, hooks, events and signals. The results of
//! procedures are tested in the lab, on simulated and scripted DUTs. Start with
//! [`a_killed_campaign_is_resumed`].

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{
    CommandResult, Lab, NOT_REACHED, count, json_lines, list, number, reports_stall, root, skipped,
    try_tool,
};

/// Writes a file in the lab's folder.
fn file(lab: &Lab, name: &str, text: &str) -> String {
    let path = lab.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn run(lab: &Lab, text: &str) -> CommandResult {
    let path = file(lab, "campaign.toml", text);
    lab.run(&["run", &path, "--json"])
}

fn document(ended: &CommandResult, code: i32) -> Value {
    assert_eq!(ended.code, code, "{ended:?}");
    serde_json::from_str(&ended.out).unwrap()
}

/// Asserts that standard output contains these words, wherever lines break.
fn stdout_contains(ended: &CommandResult, words: &[&str]) {
    let output = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(
            ended.out.contains(word) || output.contains(word),
            "`{word}` is not in:\n{}",
            ended.out
        );
    }
}

/// Returns why the first iteration of a test case failed.
fn failure(case: &Value) -> &str {
    case["iterations"][0]["failure"].as_str().unwrap_or("")
}

/// Returns the result of this procedure on this simulated DUT.
fn found(lab: &Lab, dut: &str, procedure: &str) -> Value {
    let text = format!(
        "campaign = 'c'\niterations = 1\nseed = 3\n[bed]\nengine = 'sim'\ndut = '{dut}'\n[procedure]\n{procedure}"
    );
    let document = document(&run(lab, &text), 0);
    document["test_cases"][0]["outcomes"][0].clone()
}

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/campaigns");
    let entries = fs::read_dir(folder.canonicalize().unwrap()).unwrap();
    let all: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    assert!(all.len() >= 4);
    all
}

fn example(name: &str) -> String {
    let all = examples();
    let path = all.iter().find(|path| path.ends_with(name)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A rule costs 20 ns: the interval is narrow and contains it.
#[test]
fn a_sweep_finds_what_a_rule_costs() {
    let lab = Lab::new();
    let path = example("simulated.toml");
    let document = lab.json(&["run", &path]);
    let case = &document["test_cases"][0];
    let cost = &case["outcomes"][0]["found"]["cost"];
    assert_eq!(cost["shape"], "linear", "{cost}");
    let [low, high] = [0, 1].map(|end: usize| number(&cost["unit_ns_interval"][end]));
    assert!(low <= 20.0 && 20.0 <= high && high - low < 1.0, "{cost}");
    let figure = &case["figures"][0];
    assert_eq!(
        (&figure["name"], &figure["unit"]),
        (&"rules, cost of one".into(), &"ns/frame".into())
    );
    let (median, half) = (
        number(&figure["median"]),
        number(&figure["interval_half_width"]),
    );
    assert!((median - 20.0).abs() < 0.2 && half < 1.0, "{figure}");
    // every trial belongs to its test case, iteration and value; each iteration starts and ends
    // with the reference
    let trials = list(&document["trials"]);
    assert_eq!(trials.len(), 390);
    for (at, trial) in trials.iter().enumerate() {
        assert_eq!(trial["test_case"], "plain/64B-2000flows-ipv4");
        assert_eq!(trial["iteration"], 1 + at / 130);
        let is_at_an_end = [0, 129].contains(&(at % 130));
        let value = count(&trial["asked"]["question"]["setting"]);
        assert!(value == 0 || !is_at_an_end, "{trial}");
    }
    // the file is stored unchanged, and the run can be shown again
    let directory = Path::new(document["directory"].as_str().unwrap());
    assert!(directory.to_str().unwrap().contains("-simulated-rules-"));
    assert_eq!(
        fs::read(directory.join("inputs/campaign.toml")).unwrap(),
        fs::read(&path).unwrap()
    );
    stdout_contains(
        &lab.run(&["runs", "show", "@1"]),
        &["rules, cost of one", "time per frame"],
    );
    stdout_contains(&lab.run(&["runs", "ls"]), &["rules, cost of one"]);
    let page = fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(page.contains("rules, cost of one") && page.contains("Sweep"));
    let events = json_lines(&directory.join("events.jsonl")).into_iter();
    let finished = events.filter(|event| event["event"] == "iteration_finished");
    assert_eq!(finished.count(), 3);
    // the same seed gives the same result
    let again = lab.json(&["run", &path]);
    assert_eq!(again["test_cases"], document["test_cases"]);
}

/// The plan starts with the duration, because people want to know that first. A test case has one
/// line, however often it is measured.
#[test]
fn a_plan_answers_first_and_has_each_test_case_once() {
    let lab = Lab::new();
    let text = "campaign = 'c'\niterations = 5\n[bed]\nengine = 'sim'\ndut = 'capacity=1e6'\n[matrix]\nsize = [64, 512]\n\
        [procedure]\nid = 'mrr'\n";
    let plan = |text: &str| {
        let plan = lab.run(&["plan", &file(&lab, "c.toml", text)]);
        plan.code(0);
        for line in plan.out.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        plan.out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = plan(text);
    assert_eq!(
        lines[0],
        "About 1 min 40 s of simulated time for 100 trials of 2 test cases."
    );
    let of = |lines: &[String], words: &str| {
        let of = lines.iter().filter(|line| line.contains(words));
        of.cloned().collect::<Vec<_>>()
    };
    assert_eq!(
        of(&lines, "plain/64B"),
        [" 1 to 5  plain/64B-2000flows-ipv4     10 trials  ~10 s each"]
    );
    assert_eq!(of(&lines, "plain/512B").len(), 1);
    assert_eq!(of(&lines, "another random order").len(), 1);
    let grouped = plan(&text.replace("[bed]", "order = 'grouped'\n[bed]"));
    assert_eq!(of(&grouped, "all iterations of a test case, then").len(), 1);
    // missing needs come first, because `run` would refuse to start
    let lacking = "campaign = 'c'\nneeds = ['module no-such-module']\n[procedure]\nid = 'mrr'\n";
    let lines = plan(lacking);
    assert!(
        lines[0].starts_with("Cannot run here: it needs module no-such-module."),
        "{lines:?}"
    );
}

/// Measures until intervals are narrow, with hooks, and judges by thresholds: passed, failed, and
/// inconclusive. Each has its exit code, and appears in the terminal, in Markdown, on the page, and
/// in stored files.
#[test]
fn a_gate_keeps_breaks_and_cannot_tell() {
    let lab = Lab::new();
    let path = example("gate.toml");
    stdout_contains(
        lab.run(&["plan", &path]).code(0),
        &[
            "10 to 40 iterations each",
            "11 to 40, of test cases whose interval is wider than ±0.5%",
            "plain/64B-*: at least 950.0 kpps",
            "this machine, hook before the campaign (1min at most): uname -sr",
        ],
    );
    // no earlier run on this machine: 2.02 times 3 % (docs/methodology.md, "How many iterations")
    let real = "campaign = 'c'\n[procedure]\nid = 'mrr'\n";
    let planned = lab.json(&["plan", &file(&lab, "real.toml", real)]);
    let detectable = number(&planned["expected"]["detectable_percent"]);
    assert!((detectable - 6.06).abs() < 0.01, "{planned}");
    let kept = document(&lab.run(&["run", &path, "--json"]), 0);
    let thresholds = list(&kept["thresholds"]);
    assert_eq!(thresholds.len(), 2);
    for threshold in thresholds {
        assert_eq!(
            (&threshold["passed"], &threshold["kept"]),
            (&true.into(), &1.into()),
            "{threshold}"
        );
    }
    let cases = list(&kept["test_cases"]).iter();
    let made: usize = cases.map(|case| list(&case["iterations"]).len()).sum();
    let directory = Path::new(kept["directory"].as_str().unwrap()).to_owned();
    let hooks = json_lines(&directory.join("hooks.jsonl"));
    assert_eq!(hooks.len(), 1 + made);
    let [first, second] = [0, 1].map(|hook: usize| hooks[hook]["output"].as_str().unwrap());
    assert!(first.starts_with("Linux "), "{first}");
    let id = kept["info"]["id"].as_str().unwrap();
    let end = format!("iteration 1 of {id}\n");
    assert!(second.ends_with(&end), "{second}");
    for form in ["text", "markdown"] {
        stdout_contains(
            &lab.run(&["runs", "show", "@1", "--format", form]),
            &["at least 950.0 kpps: kept", "narrow enough"],
        );
    }
    let verified = lab.run(&["runs", "verify"]);
    verified.code(0).says(&[" 0 damaged"]);
    let page = fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(page.contains("2 thresholds kept") && page.contains("narrow enough"));

    // compared with that run
    let like = |dut: &str, iterations: &str, reference: &str, by: &str| {
        let text = format!(
            "campaign = 'c'\nseed = 3\niterations = {iterations}\n[bed]\nengine = 'sim'\ndut = '{dut},link=10Gbps'\n[procedure]\nid = 'mrr'\n\
             [[threshold]]\nnot-slower-than = {{ run = '{reference}', by = '{by}' }}\n"
        );
        run(&lab, &text)
    };
    let same = document(&like("capacity=1e6,noise=0.01", "20", "@1", "3%"), 0);
    assert_eq!(same["info"]["parameters"]["threshold_runs"][0], id);
    let limit = same["thresholds"][0]["limit"].as_str().unwrap();
    assert!(limit.contains(&format!("run {id}")), "{limit}");
    assert_eq!(same["thresholds"][0]["kept"], 1, "{same}");
    let slower = document(&like("capacity=0.95e6,noise=0.01", "20", id, "3%"), 6);
    assert_eq!(list(&slower["thresholds"][0]["failed"]).len(), 1);
    stdout_contains(&lab.run(&["runs", "show", "@1"]), &["FAILED by 64 B"]);
    let blind = document(&like("capacity=1e6,noise=0.3", "3", id, "1%"), 5);
    assert_eq!(blind["thresholds"][0]["passed"], false);
    like("capacity=1e6", "5", "nobody", "3%")
        .code(2)
        .says(&["campaign.toml:10:27: `nobody`: "]);
}

/// Tests what the lab does not test on a simulated DUT: verdicts of overload, events, and sweeps
/// over the DUT's cores and over the stream.
#[test]
fn procedures_find_the_parameters_of_a_simulated_dut() {
    let lab = Lab::new();
    // every 100 % of overload costs 30 % of the capacity: at twice the capacity, 700,000 frames per
    // second come out, at 770,000 all
    let livelock = found(
        &lab,
        "capacity=1e6,livelock=0.3,generator=2Mpps",
        "id = 'forwarding-rate'",
    );
    let rate = number(&livelock["found"]["forwarding_rate_pps"]["median"]);
    assert!((rate - 7e5).abs() < 1e3, "{rate}");
    assert!((number(&livelock["found"]["lower_forwarding_rate_pps"]) - 7.7e5).abs() < 2e3);
    assert!(
        livelock["verdict"].as_str().unwrap().contains("livelock"),
        "{livelock}"
    );
    assert_eq!(livelock["found"]["not_saturated"], false);
    let idle = found(
        &lab,
        "capacity=1e6,generator=1050kpps",
        "id = 'forwarding-rate'\nfor = '20s'",
    );
    assert_eq!(idle["found"]["not_saturated"], true);
    assert_eq!(idle["verdict"], "measured, but not saturated");

    // it forwards nothing for eight seconds, whose frames are missing in overload as well as below
    // it
    for (load, by_loss) in [("500kpps", true), ("2Mpps", false)] {
        let procedure = format!(
            "id = 'churn'\nevent = 'x'\nload = '{load}'\nbefore = '2s'\nafter = '2s'\nlongest = '60s'\nrepetitions = 2"
        );
        let churn = found(&lab, "capacity=1e6,reboot=8s,link=10Gbps", &procedure);
        assert_eq!(churn["answered"], true, "{churn}");
        assert!((number(&churn["found"]["deficit_s"]["median"]) - 8.0).abs() < 0.01);
        for dip in list(&churn["found"]["dips"]) {
            for (key, actual) in [
                ("first_impact_s", 0.0),
                ("regained_s", 8.0),
                ("blackout_s", 8.0),
                ("depth", 1.0),
            ] {
                assert!((number(&dip[key]) - actual).abs() < 0.01, "{key}: {dip}");
            }
            assert_eq!(dip["by_loss_s"].as_f64().is_some(), by_loss, "{dip}");
        }
    }

    // two cores forward twice as much, if the flows are spread evenly
    let sweep = "id = 'mrr'\n[procedure.sweep]\nparameter = 'cores'\nvalues = [1, 2]";
    let cores = found(&lab, "capacity=1e6,link=10Gbps", sweep);
    let percent = number(&cores["found"]["points"][1]["percent_of_reference"]);
    assert!((percent - 200.0).abs() < 1.0, "{percent}");
    // if the line is full, the result is a throughput; a rate in overload would be a lower bound,
    // which no sweep compares
    let sweep = "id = 'throughput'\nsearch = '1s'\ntrial = '1s'\n[procedure.sweep]\nparameter = 'size'\nvalues = [64, 512, 1518]";
    let sizes = found(&lab, "capacity=1e7,link=1Gbps", sweep);
    let points = list(&sizes["found"]["points"]).iter();
    let medians: Vec<f64> = points.map(|p| number(&p["median_pps"]).floor()).collect();
    // line rates of 1 Gbit/s (docs/methodology.md, "Units and line rates")
    assert_eq!(medians, [1_488_095.0, 234_962.0, 81_274.0]);
}

/// Campaigns without their first line, with the position and text of the error in each.
const MISTAKES: &str = "\
[procedure] / id = 'mrr' / trails = 3 => :4:1: unknown key `trails`; did you mean `trials`?
[bed] / engine = 'sim' / dut = 'link=1Gbps' / [procedure] / id = 'plr' / min = '2Mpps' => :5:2: the smallest load: 2Mpps is more than
[bed] / engine = 'sim' / dut = 'capcity=1e6' / [procedure] / id = 'mrr' => :4:7: simulated DUT, character 1: there is no key `capcity`
seed = 1 / [bed] / engine = 'sim' / dut = 'seed=4' / [procedure] / id = 'mrr' => :5:7: seed is given in dut and in the campaign
[configuration] / a = 'no/such/file' / [procedure] / id = 'mrr' => :3:5: configuration `
[procedure] / id = 'reset' / reset = 'x' => :2:2: reset: `x` is not a reset for this DUT: use forwarding
[procedure] / id = 'mrr' / [procedure.sweep] / parameter = 'cores' / values = [1, 1000] => :4:12: 1000 cores: the DUT has
[bed] / engine = 'sim' / [procedure] / id = 'paired' => :5:6: slices compare real DUTs
[procedure] / id = 'paired' / reference = 'none' => :4:13: there is no configuration `none`
[matrix] / directions = 'both' / [procedure] / id = 'paired' => :2:2: slices have test frames in one direction
[procedure] / id = 'paired' / [procedure.sweep] / parameter = 'flows' / values = [1, 2] => :5:13: slices compare DUTs under the same traffic
[procedure] / id = 'paired' / [procedure.sweep] / parameter = 'rules' / values = [0..70] => :2:2: 72 DUTs would be side by side; the maximum is 64
[bed] / engine = 'sim' / [procedure] / id = 'maxfwd' => :5:6: maxfwd chooses windows by probes
[matrix] / directions = 'both' / [procedure] / id = 'maxfwd' => :2:2: maxfwd measures one direction
[procedure] / id = 'maxfwd' / [procedure.sweep] / parameter = 'rules' / values = [1, 2] => :4:12: maxfwd has no sweep
bed = 'v' / [procedure] / id = 'maxfwd' => :4:6: rates of an emulated machine mean nothing";

/// Every error is printed with its position before anything happens, and no run is stored.
#[test]
fn errors_in_a_file_are_reported_before_any_traffic() {
    let lab = Lab::new();
    fs::create_dir(lab.path().join("beds")).unwrap();
    let image = "bed = 'v'\n[dut]\nhost = 'vm:debian:linux-image-cloud-amd64'\n";
    file(&lab, "beds/v.toml", image);
    let seventy = format!("{:?}", (0..70).collect::<Vec<u8>>());
    let mistakes = MISTAKES
        .lines()
        .map(|line| line.split_once(" => ").unwrap());
    let (texts, reported): (Vec<&str>, Vec<&str>) = mistakes.unzip();
    let texts = (1..).zip(texts);
    let paths: Vec<String> = texts
        .map(|(number, text)| {
            let text = text.replace(" / ", "\n").replace("[0..70]", &seventy);
            let text = format!("campaign = 'c'\n{text}");
            file(&lab, &format!("wrong-{number}.toml"), &text)
        })
        .collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let checked = lab.run(&[&["check", "--json"], &paths[..]].concat());
    let checked = document(&checked, 2);
    assert_eq!(list(&checked).len(), reported.len());
    for (one, (path, reported)) in list(&checked).iter().zip(paths.iter().zip(reported)) {
        let error = one["error"].as_str().unwrap();
        assert!(
            error.starts_with(&format!("{path}{reported}")),
            "{reported}: {error}"
        );
    }
    for command in ["run", "plan"] {
        lab.run(&[command, paths[0]])
            .code(2)
            .says(&["wrong-1.toml:4:1: unknown key `trails`"]);
    }
    lab.run(&["run", "no-such.toml"]).code(2);
    assert!(!lab.runs().exists() || fs::read_dir(lab.runs()).unwrap().next().is_none());
    // all files are checked, even if the first is invalid
    let good = example("simulated.toml");
    let profile = file(&lab, "profile.toml", "[[stream]]\nsize = 64\n");
    let bad = file(&lab, "bad.toml", "[[stream]]\nsise = 64\n");
    stdout_contains(
        lab.run(&["check", &bad, &good, &profile]).code(2),
        &[
            "bad.toml:2:1: unknown key `sise`",
            "campaign simulated-rules: 1 test case by mrr",
            "profile: 1 stream",
        ],
    );
    lab.run(&["check", &good, &profile]).code(0);
}

#[test]
fn examples_are_right_and_the_schema_knows_them() {
    let lab = Lab::new();
    let schema = lab.json(&["schema", "campaign"]);
    assert_eq!(schema, crate::formats::committed("campaign"));
    let schema = jsonschema::validator_for(&schema).unwrap();
    let read = |text: &str| -> Value {
        let value: toml::Table = toml::from_str(text).unwrap();
        serde_json::to_value(value).unwrap()
    };
    let examples = examples();
    for path in &examples {
        let text = fs::read_to_string(path).unwrap();
        let campaign = read(&text);
        let errors = schema.iter_errors(&campaign).map(|e| e.to_string());
        let errors: Vec<String> = errors.collect();
        assert!(errors.is_empty(), "{}: {errors:?}", path.display());
    }
    let paths = examples.iter().map(|path| path.to_str().unwrap());
    let words: Vec<&str> = ["check"].into_iter().chain(paths).collect();
    lab.run(&words).code(0);
    // other tests run the other two simulated campaigns
    lab.run(&["run", &example("ndr-pdr.toml")]).code(0);
    for wrong in [
        "campaign = 'c'",
        "campaign = 'c'\n[procedure]\nid = 'mmr'",
        "campaign = 'c'\n[procedure]\nid = 'mrr'\ntrails = 3",
        "campaign = 'c'\nhooks = 1\n[procedure]\nid = 'mrr'",
        "campaign = 'c'\n[procedure]\nid = 'mrr'\nsweep = { parameter = 'rules' }",
    ] {
        assert!(!schema.is_valid(&read(wrong)), "{wrong}");
    }
}

/// Every trial is invalid: it is measured and stored, without a result.
#[test]
fn a_campaign_without_any_good_iteration_is_not_valid() {
    let lab = Lab::new();
    let text = "campaign = 'c'\niterations = 2\n[bed]\nengine = 'sim'\ndut = 'capacity=1e6,flap=1,link=1Gbps'\n\
                [procedure]\nid = 'trial'\nfor = '1s'";
    let document = document(&run(&lab, text), 5);
    let case = &document["test_cases"][0];
    assert_eq!(list(&case["iterations"]).len(), 2);
    assert!(failure(case).contains("went down"), "{case}");
    assert_eq!(list(&document["trials"]).len(), 6);
    assert!(list(&case["figures"]).is_empty());
    stdout_contains(&lab.run(&["runs", "show", "@1"]), &["failed", "went down"]);
}

/// One configuration drops everything, one cannot be applied, one has a daemon that dies under load
/// and leaves last words, and one does not name its daemon. Each costs only its own test case. The
/// configuration whose daemon stays alive is measured at every value of a sweep.
#[test]
fn a_test_case_that_fails_does_not_end_the_campaign() {
    const THIS: &str = "a_test_case_that_fails_does_not_end_the_campaign";
    if !root(THIS) {
        return;
    }
    let lab = Lab::new();
    // more frames than the path check sends
    let relay = "echo starts; received() { sed -n 's/ *eth0: *[0-9]* *\\([0-9]*\\).*/\\1/p' /proc/net/dev; }\n\
                 while [ $(received) -lt 3000 ]; do sleep 0.01; done; printf 'fatal: \\033[31mno buffer space'; exit 1";
    let text = format!(
        "campaign = 'fails'\niterations = 1\nseed = 1\n[bed]\nmax = '100kpps'\n[configuration]\n\
         blind = 'ip route flush table main'\nbroken = ['true', 'exit 3']\n\
         lives = 'sleep 600 >/dev/null 2>&1 & echo $! > $FWDLAB_DAEMONS/idle.pid'\n\
         nameless = 'mkdir -p $FWDLAB_DAEMONS'\n\
         dies = \"\"\"\ncat > /run/relay <<'END'\n{}\nEND\nsh /run/relay > $FWDLAB_DAEMONS/relay.log 2>&1 &\n\
         echo $! > $FWDLAB_DAEMONS/relay.pid\"\"\"\n\
         [matrix]\nconfiguration = ['lives', 'blind', 'broken', 'dies', 'nameless']\n\
         [procedure]\nid = 'trial'\nload = '20kpps'\nfor = '500ms'\n\
         [procedure.sweep]\nparameter = 'ttl'\nvalues = [64, 32]\nruns = 1\n\
         apply = 'echo {{}} > /proc/sys/net/ipv4/ip_default_ttl'\nundo = 'echo 64 > /proc/sys/net/ipv4/ip_default_ttl'",
        relay.replace('\\', "\\\\")
    );
    let path = file(&lab, "campaign.toml", &text);
    stdout_contains(
        &lab.run(&["plan", &path]),
        &[
            "configuration blind: ip route flush",
            "sweep over ttl (64, 32): echo {}",
        ],
    );
    let ended = lab.run(&["run", &path, "--json"]);
    if reports_stall(&ended.err) {
        return skipped(THIS, NOT_REACHED);
    }
    let document = document(&ended, 7);
    let [lives, blind, broken, dies, nameless] = list(&document["test_cases"]) else {
        panic!("{document}")
    };
    let of = |case: &Value| -> Vec<&Value> {
        let trials = list(&document["trials"]).iter();
        let own = trials.filter(|trial| trial["test_case"] == case["test_case"]);
        own.collect()
    };
    for (case, words) in [
        (blind, "does not forward with configuration `blind`"),
        (broken, "`broken` could not be applied"),
        (broken, "exit 3"),
        (
            nameless,
            "it uses $FWDLAB_DAEMONS, but has created no file there",
        ),
    ] {
        let reason = failure(case);
        assert!(reason.contains(words), "{words}: {reason}");
    }
    let [trial] = of(dies)[..] else {
        panic!("it is dead, and is not measured again: {document}")
    };
    let (reported, number) = (failure(dies), count(&trial["trial"]));
    let last = format!(
        ") ended during trial {number}; its last words: starts | fatal: \\u{{1b}}[31mno buffer space"
    );
    assert!(
        reported.starts_with("relay (process ") && reported.ends_with(&last),
        "{reported}"
    );
    let reasons = trial["validity"]["reasons"].to_string();
    assert!(reasons.contains("relay (process "), "{reasons}");
    let trials = of(lives);
    assert!(!trials.is_empty());
    for trial in trials {
        let validity = trial["validity"].to_string();
        assert!(!validity.contains("process"), "{validity}");
    }
    match failure(lives) {
        reason if reports_stall(reason) => skipped(THIS, "the sender stalled in every trial"),
        reason => {
            assert_eq!(reason, "");
            let points = list(&lives["outcomes"][0]["found"]["points"]);
            assert_eq!(points.len(), 2);
        }
    }
    stdout_contains(
        &lab.run(&["runs", "show", "@1"]),
        &[
            "failed",
            "does not forward",
            "test cases without",
            "its last words: starts | fatal",
        ],
    );
    lab.assert_clean("a campaign with failures");
}

/// Profiles and directions on a simulated DUT that forwards a million frames per second of any kind
/// in each direction, in the planned order.
#[test]
fn traffic_is_a_dimension_of_the_matrix() {
    let lab = Lab::new();
    let own = "[[stream]]\nlayers = ['ipv4', 'udp']\nsize = 200\n";
    file(&lab, "own.toml", own);
    let text = "campaign = 'traffic'\niterations = 2\nseed = 1\n[bed]\nengine = 'sim'\ndut = 'capacity=1e6'\nmax = '4Mpps'\n\
                [matrix]\nprofile = ['imix', 'own.toml']\ndirections = ['one', 'both']\nmodifier = ['none', 'broadcast']\n\
                exclude = [{ profile = 'own.toml', directions = 'both' }]\n\
                [procedure]\nid = 'mrr'\ntrials = 1";
    let path = file(&lab, "campaign.toml", text);
    let document = document(&lab.run(&["run", &path, "--json"]), 0);
    stdout_contains(
        &lab.run(&["runs", "show", "@1"]),
        &[
            "imix, plain series",
            "imix, both directions, broadcast",
            "own.toml, broadcast",
        ],
    );
    let cases = list(&document["test_cases"]);
    let names = |of: &[Value]| -> Vec<String> {
        let names = of.iter().map(|one| one["test_case"].as_str().unwrap());
        names.map(str::to_owned).collect()
    };
    assert_eq!(
        names(cases),
        [
            "plain/imix",
            "plain/imix/broadcast",
            "plain/imix/both-directions",
            "plain/imix/both-directions/broadcast",
            "plain/own.toml",
            "plain/own.toml/broadcast"
        ]
    );
    for case in cases {
        // loads and rates are per direction, and the DUT has one capacity for both
        let rate = number(&case["figures"][0]["median"]);
        let is_both = case["variant"]["both_directions"] == true;
        let capacity = if is_both { 0.5e6 } else { 1e6 };
        assert!((rate / capacity - 1.0).abs() < 1e-3, "{case}");
    }
    // the mean size represents the profile
    assert_eq!(number(&cases[0]["frame_size_bytes"]), 362.0);
    let trials = list(&document["trials"]);
    for trial in trials {
        if trial["test_case"] == "plain/imix/both-directions" {
            assert_eq!(list(&trial["directions"]).len(), 2, "{trial}");
            assert_eq!(count(&trial["frames_intended"]), 8_000_000, "{trial}");
        }
    }
    let directory = Path::new(document["directory"].as_str().unwrap());
    let kept = fs::read_to_string(directory.join("inputs/profiles/own.toml")).unwrap();
    assert_eq!(kept, own);

    let plan = lab.json(&["plan", &path]);
    assert_eq!(names(list(&plan["turns"])), names(trials));
    assert_eq!(
        (count(&plan["trials"]), number(&plan["estimate_s"])),
        (12, 12.0)
    );
    stdout_contains(
        &lab.run(&["plan", &path]),
        &[
            "6 test cases by mrr, 2 iterations each, seed 1",
            "nothing: DUT and tester are simulated",
        ],
    );
}

mod alone {
    use super::*;

    /// Slices of several DUTs: measures the cost of rules; a configuration that cannot be applied
    /// drops out, and the others continue.
    #[test]
    fn slices_report_costs_and_continue_without_failed_configurations() {
        let name = "slices_report_costs_and_continue_without_failed_configurations";
        if !root(name) {
            return;
        }
        if try_tool(&["nft", "--version"]).is_err() {
            skipped(name, "no nft");
            return;
        }
        let lab = Lab::alone();
        let text = "campaign = 'beside'\niterations = 3\nseed = 1\n[configuration]\nbad = 'nft add nonsense'\n\
                    [matrix]\nconfiguration = ['plain', 'bad']\n[procedure]\nid = 'paired'\nfor = '600ms'\n\
                    [procedure.sweep]\nparameter = 'rules'\nvalues = [1, 3000]";
        let ended = run(&lab, text);
        let document: Value = serde_json::from_str(&ended.out).unwrap();
        let [plain, bad] = list(&document["test_cases"]) else {
            panic!("{document}")
        };
        let iterations = list(&bad["iterations"]).iter();
        let failures: Vec<&str> = iterations
            .map(|iteration| iteration["failure"].as_str().unwrap())
            .collect();
        // during other tests, the generator may not reach the load of a comparison
        if let Some(reason) = failures
            .iter()
            .find(|reason| reason.contains("cannot overload"))
        {
            return skipped(name, &format!("this host is too busy for slices: {reason}"));
        }
        for reason in &failures {
            assert!(
                reason.contains("configuration `bad` could not be applied"),
                "{reason}"
            );
        }
        let rebuilds = list(&document["rebuilds"]);
        assert_eq!(rebuilds.len(), 3);
        for rebuild in rebuilds {
            let compared = list(&rebuild["compared"]).iter();
            let compared: Vec<&str> = compared
                .map(|dut| dut["test_case"].as_str().unwrap())
                .collect();
            let plain = "plain/64B-2000flows-ipv4";
            let control = "plain/64B-2000flows-ipv4/control";
            assert_eq!(compared, [plain, control, plain, plain]);
            for ledger in list(&rebuild["ledgers"]) {
                assert_eq!(number(&ledger["frames_unexplained"]), 0.0);
            }
        }
        lab.assert_clean("a campaign by slices");
        let found = &plain["outcomes"][0]["found"];
        let thousands = &found["points"][1]["comparison"];
        let used = thousands["values_percent"].as_array();
        if used.is_none_or(|values| values.len() < 3) {
            let reason = failure(plain);
            return skipped(name, &format!("this host is too busy for slices: {reason}"));
        }
        assert_eq!(ended.code, 7, "{ended:?}");
        assert_eq!(thousands["verdict"], "less", "{found}");
        // 12 ns per rule on the author's machine
        let unit_ns = number(&found["slope"]["unit_ns"]);
        assert!((1.0..200.0).contains(&unit_ns), "{found}");
        // compared in pairs, not as two sets of values
        let compared = lab.run(&["compare", "@1", "--by", "rules"]);
        stdout_contains(&compared, &["3000"]);
        let verified = lab.run(&["runs", "verify"]);
        verified.code(0).says(&[" 0 damaged"]);
    }

    /// Without the reference, nothing can be compared: every iteration of every test case reports
    /// it, and the campaign ends. The same happens if only the reference can be built.
    #[test]
    fn a_reference_that_cannot_be_applied_is_explained() {
        if !root("a_reference_that_cannot_be_applied_is_explained") {
            return;
        }
        let lab = Lab::alone();
        for (reference, configurations) in
            [("bad", "['plain', 'worse']"), ("plain", "['bad', 'worse']")]
        {
            let text = format!(
                "campaign = 'c'\niterations = 2\n[configuration]\nbad = 'exit 3'\nworse = 'exit 4'\n[matrix]\n\
                 configuration = {configurations}\n[procedure]\nid = 'paired'\nload = '10kpps'\nreference = '{reference}'\nfor = '100ms'"
            );
            let document = document(&run(&lab, &text), 5);
            for (case, own) in list(&document["test_cases"])
                .iter()
                .zip(["`bad`", "`worse`"])
            {
                let iterations = list(&case["iterations"]);
                assert_eq!(iterations.len(), 2);
                for iteration in iterations {
                    let reason = iteration["failure"].as_str().unwrap();
                    let is_named = reason.contains(own) || reason.contains("`bad`");
                    assert!(
                        is_named && reason.contains("could not be applied"),
                        "{reason}"
                    );
                }
            }
        }
        lab.assert_clean("campaigns whose configurations fail");
    }

    /// Hooks on the DUT and on this machine. An endless one is stopped with its trial; one that
    /// hangs costs its test case.
    #[test]
    fn hooks_run_on_the_dut_while_frames_flow() {
        let name = "hooks_run_on_the_dut_while_frames_flow";
        if !root(name) {
            return;
        }
        let lab = Lab::alone();
        let text = "campaign = 'hooks'\niterations = 1\nseed = 1\n[matrix]\nsize = [64, 512]\nflows = 10\n[hooks]\n\
                    before = [\"ip -o link show eth0 | cut -d' ' -f2\", { command = 'case $FWDLAB_TEST_CASE in *512B*) sleep 77;; esac', \
                    within = '1s', on = 'generator' }]\n\
                    during = { command = 'while :; do grep -E \"eth0|eth1\" /proc/net/dev; sleep 0.05; done', on = 'dut' }\n\
                    after = { command = 'echo over', on = 'controller', every = 'trial' }\n\
                    [procedure]\nid = 'trial'\nload = '20kpps'\nfor = '700ms'\n";
        let ended = run(&lab, text);
        if ended.code == 5 {
            return skipped(name, "this host is so busy that no trial was valid");
        }
        let document = document(&ended, 7);
        let [good, lost] = list(&document["test_cases"]) else {
            panic!("{document}")
        };
        assert_eq!(list(&good["figures"]).len(), 1, "{good}");
        let reason = failure(lost);
        assert!(
            reason.starts_with("hook before: ") && reason.contains("timed out after 1 s"),
            "{reason}"
        );
        let directory = Path::new(document["directory"].as_str().unwrap());
        let records = json_lines(&directory.join("hooks.jsonl"));
        let of = |when: &str| -> Vec<&Value> {
            let all = records.iter();
            all.filter(|one| one["when"] == when).collect()
        };
        let before = of("before")[0];
        let first = before["output"].as_str().unwrap();
        assert!(first.contains("eth0@"), "{first}");
        // on a busy machine, a valid trial may need several attempts
        let during = *of("during").last().unwrap();
        assert_eq!(during["status"], "ended with the trial");
        let lasted = number(&during["duration_s"]);
        assert!(
            during["failure"].is_null() && (0.5..5.0).contains(&lasted),
            "{during}"
        );
        // the ports of the forwarding DUT: frames have arrived from its first reading on
        let output = during["output"].as_str().unwrap().lines();
        let looks: Vec<u64> = output
            .filter(|line| line.trim_start().starts_with("eth0"))
            .filter_map(|line| line.split_whitespace().nth(2)?.parse().ok())
            .collect();
        assert!(looks.len() > 1 && looks.last() > looks.first(), "{looks:?}");
        assert_eq!(of("after").len(), of("during").len());
        lab.assert_clean("a campaign with hooks");
    }

    /// Rewrites routes. The frames' route, among 2000 others, either returns after more than a
    /// second or is replaced at once.
    #[test]
    fn an_event_under_load_costs_what_was_planted() {
        let name = "an_event_under_load_costs_what_was_planted";
        if !root(name) {
            return;
        }
        let lab = Lab::alone();
        let dip = |event: &str| {
            let text = format!(
                "campaign = 'churn'\niterations = 1\nseed = 1\n[matrix]\nflows = 10\n[procedure]\nid = 'churn'\nevent = '''{event}'''\n\
                 load = '20kpps'\nbefore = '2s'\nafter = '1s'\nlongest = '20s'\nrepetitions = 1\n"
            );
            let ended = run(&lab, &text);
            // changes of CPU speed by other programs do not add to a dip: frames that were not sent
            // are not missing
            assert!([0, 5].contains(&ended.code), "{ended:?}");
            let document: Value = serde_json::from_str(&ended.out).unwrap();
            let outcome = &document["test_cases"][0]["outcomes"][0];
            outcome["found"]["dips"].get(0).cloned()
        };
        let others = "others() { awk -v how=$1 'BEGIN { for (i = 0; i < 2000; i++) printf \"route %s blackhole 10.%d.%d.0/24\\n\", how, \
                      i / 250, i % 250 }' | ip -batch -; }\nway='198.19.0.0/16 via 198.19.0.2'\n";
        let slow = format!(
            "{others}tell() {{ date \"+moment %s.%N $1\"; }}\ntell deleting; ip route del $way; tell deleted\nothers add; sleep 1\n\
             tell adding; ip route add $way; tell added"
        );
        let (Some(planted), Some(nothing)) = (
            dip(&slow),
            dip(&format!(
                "{others}ip route replace $way; others add; others del"
            )),
        ) else {
            return skipped(name, "this host is so busy that no trial was valid");
        };
        // the truth, by the clock of the DUT, which other processes may have stalled
        let reported: Vec<(&str, f64)> = list(&planted["moments"])
            .iter()
            .map(|moment| (moment["name"].as_str().unwrap(), number(&moment["at_s"])))
            .collect();
        let [
            ("deleting", first),
            ("deleted", from),
            ("adding", to),
            ("added", last),
        ] = reported[..]
        else {
            panic!("{planted}");
        };
        let (least, most) = (to - from, last - first);
        assert!(least >= 1.0, "{planted}");
        assert!(number(&planted["depth"]) > 0.99, "{planted}");
        // intervals of 100 ms, longer if the tester stalled: all but the two at its ends are empty
        let blackout = number(&planted["blackout_s"]);
        assert!(
            (0.9 * least - 0.3..most + 0.5).contains(&blackout),
            "{planted}"
        );
        let deficit = number(&planted["deficit_s"]);
        assert!(0.0 < deficit && deficit < most + 0.6, "{planted}");
        assert_eq!(nothing["moments"], Value::Null);
        // frames that were not sent are not missing
        match number(&planted["fell_short_ratio"]) < 0.1 {
            true => assert!(deficit > least - 0.15, "{planted}"),
            false => skipped(
                name,
                "the tester stalled, so that frames that it did not send are not missing",
            ),
        }
        assert!(number(&nothing["blackout_s"]) < 0.2, "{nothing}");
        assert!(number(&nothing["deficit_s"]) < 0.3, "{nothing}");
        lab.assert_clean("events under load");
    }

    /// A DUT that loses every fourth echo on its management port, one command that takes 50 ms, one
    /// that fails while frames flow, and one without a fault.
    #[test]
    fn requests_to_the_management_of_a_dut_are_answered_as_was_planted() {
        const THIS: &str = "requests_to_the_management_of_a_dut_are_answered_as_was_planted";
        if !root(THIS) {
            return;
        }
        let lab = Lab::alone();
        let text = r#"
campaign = 'managed'
iterations = 1
seed = 1
[configuration]
lossy = '''
nft add table ip m
nft 'add chain ip m in { type filter hook input priority 0; }'
nft add rule ip m in iifname mgmt icmp type echo-request numgen inc mod 4 == 0 drop
'''
[matrix]
configuration = 'lossy'
flows = 10
[procedure]
id = 'management'
load = '20kpps'
at = []
for = '6s'
after = '1s'
every = '50ms'
timeout = '3s'
requests = ['echo', 'command: sleep 0.05', 'command: true', '''command:
r() { sed -n 's/ *eth0: *[0-9]* *\([0-9]*\).*/\1/p' /proc/net/dev; }
a=$(r); sleep 0.03; b=$(r); [ $b -lt $((a + 10)) ]''']
"#;
        let ended = run(&lab, text);
        // counts are exact even if the machine is too noisy for rates
        let document: Value = serde_json::from_str(&ended.measured().out).unwrap();
        let outcome = &document["test_cases"][0]["outcomes"][0];
        if outcome["answered"] != true {
            let reason = "this host is so busy that no trial was valid, or a command had no answer within 3 s";
            return skipped(THIS, reason);
        }
        let loads = list(&outcome["found"]["loads"]);
        let names = [0, 1].map(|load| &loads[load]["name"]);
        assert_eq!((names, loads.len()), ([&"0 %".into(), &"flood".into()], 2));
        assert!(number(&loads[0]["offered_load_pps"]) < 1.0, "{outcome}");
        assert!(number(&loads[1]["forwarding_rate_pps"]) > 0.0, "{outcome}");
        let [echo, slow, nothing, under] = list(&outcome["found"]["requests"]) else {
            panic!("{outcome}")
        };
        let of = |one: &Value, load: usize, key: &str| number(&one["at"][load][key]);
        for load in [0, 1] {
            // one in four, whatever the first one was
            let (requested, lost) = (of(echo, load, "asked"), of(echo, load, "lost"));
            assert!(
                lost >= 1.0 && (lost - requested / 4.0).abs() <= 2.0,
                "{echo}"
            );
            for fine in [slow, nothing] {
                assert_eq!(of(fine, load, "wrong"), 0.0, "{fine}");
            }
        }
        let smallest = |one: &Value| number(&one["at"][0]["round_trip_s"]["min"]);
        assert!(smallest(slow) >= 0.05, "{slow}");
        assert!(smallest(nothing) < smallest(slow), "{nothing}");
        // the last one at rest may end during the flood
        assert!(of(under, 0, "wrong") <= 1.0, "{under}");
        let (requested, wrong) = (of(under, 1, "asked"), of(under, 1, "wrong"));
        assert!(2.0 * wrong > requested, "{under}");
        let warnings = outcome["warnings"].to_string();
        assert!(warnings.contains("exit status: 1"), "{warnings}");
        stdout_contains(
            &lab.run(&["runs", "show", "@1"]),
            &[
                "Management under load",
                "no answer for",
                "in the flood, without an answer: `echo`",
            ],
        );
        lab.assert_clean("requests to the management");
    }
}

const CUT: &str = r#"
campaign = "cut"
iterations = 2
[configuration]
wrong = "false"
[matrix]
configuration = ["plain", "wrong"]
size = 64
[procedure]
id = "trial"
load = "1kpps"
for = "200ms"
"#;

/// `kill -9` in the middle, then `--resume`, then the failed test cases again, and nothing else.
#[test]
fn a_killed_campaign_is_resumed() {
    if !root("a_killed_campaign_is_resumed") {
        return;
    }
    let lab = Lab::new();
    let path = file(&lab, "cut.toml", CUT);
    let mut started = lab.start(&["run", &path, "--json-stream"]);
    let made = started.event("iteration_finished")["test_case"].clone();
    started.signal(Signal::KILL);
    started.wait(Duration::from_secs(30));
    let run = lab.only_run();
    let id = run.file_name().unwrap().to_str().unwrap().to_owned();
    let before = json_lines(&run.join("trials.jsonl")).len() as u64;

    // reports that the file has changed meanwhile
    fs::write(&path, CUT.replace("200ms", "400ms")).unwrap();
    lab.run(&["run", "--resume", "@1"])
        .code(2)
        .says(&["cannot resume", "inputs/campaign.toml"]);
    fs::write(&path, CUT).unwrap();

    let ended = lab.run(&["run", "--resume", "@1", "--json"]);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(document["info"]["id"], *id);
    let gap = &document["info"]["gaps"][0];
    assert_eq!(number(&gap["after"]), before as f64, "{gap}");
    let cases = list(&document["test_cases"]);
    assert_eq!(cases.len(), 2);
    for case in cases {
        let iterations = list(&case["iterations"]);
        assert_eq!(iterations.len(), 2, "{case}");
        let fails = case["test_case"].as_str().unwrap().starts_with("wrong");
        for iteration in iterations {
            let failure = iteration["failure"].as_str().unwrap_or_default();
            let busy = failure.contains("invalid");
            assert!(
                busy || failure.contains("could not be applied") == fails,
                "{iteration}"
            );
        }
    }
    // finished work is not repeated
    let events = json_lines(&run.join("events.jsonl"));
    let finished = events
        .iter()
        .filter(|event| event["event"] == "iteration_finished");
    let of_first = finished.filter(|event| event["test_case"] == made);
    assert_eq!(of_first.count(), 2);
    assert!(events.iter().any(|event| event["event"] == "run_resumed"));
    lab.assert_clean("after kill -9 and the rest");
    lab.run(&["runs", "verify", "@1"]).code(0);
    lab.run(&["run", "--resume", &id])
        .code(2)
        .says(&["is finished", "--retry"]);

    // the error is fixed, and only that test case is measured again
    fs::write(&path, CUT.replace("false", "true")).unwrap();
    let ended = lab.run(&[
        "run",
        "--retry",
        &id,
        "--only",
        "configuration:wr*",
        "--json",
    ]);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    let cases = list(&document["test_cases"]);
    assert_eq!(cases.len(), 1, "{document}");
    let name = cases[0]["test_case"].as_str().unwrap();
    assert!(name.starts_with("wrong/"), "{name}");
    assert_eq!(document["info"]["parameters"]["retry_of"], *id);
    lab.run(&["plan", &path, "--only", "size:65"])
        .code(2)
        .says(&[
            "--only size:65",
            "no test case is meant; there are plain/64B-2000flows-ipv4",
        ]);
}
