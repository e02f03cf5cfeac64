//! `fwdlab run`, `plan` and `check` from outside: invalid files, output and stored runs, and this
//! host's kernel with configurations that fail, hooks, events and signals. The results of
//! procedures are tested in the lab, on simulated and scripted DUTs. Start with
//! [`a_killed_campaign_is_resumed`].

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::formats::{all_valid, committed, none_valid};
use crate::support::{
    CommandResult, Lab, NOT_REACHED, count, id_of, json_lines, list, number, reports_stall,
    skipped, texts,
};

fn document(ended: &CommandResult, code: i32) -> Value {
    ended.code(code).document()
}

/// Returns why the first iteration of a test case failed.
fn failure(case: &Value) -> &str {
    case["iterations"][0]["failure"].as_str().unwrap_or("")
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

/// A rule costs 20 ns. The file is stored unchanged, and the same seed gives the same result.
#[test]
fn a_sweep_finds_what_a_rule_costs() {
    let lab = Lab::new();
    let path = example("simulated.toml");
    let document = lab.json(&["run", &path]);
    let case = &document["test_cases"][0];
    let cost = &case["outcomes"][0]["found"]["cost"];
    let [low, high] = [0, 1].map(|end: usize| number(&cost["unit_ns_interval"][end]));
    assert!(low <= 20.0 && 20.0 <= high && high - low < 1.0, "{cost}");
    let figure = &case["figures"][0];
    assert_eq!(figure["name"], "rules, cost of one");
    assert_eq!(figure["unit"], "ns/frame");
    assert!((number(&figure["median"]) - 20.0).abs() < 0.2, "{figure}");
    let directory = Path::new(document["directory"].as_str().unwrap());
    assert!(directory.to_str().unwrap().contains("-simulated-rules-"));
    let kept = fs::read(directory.join("inputs/campaign.toml")).unwrap();
    assert_eq!(kept, fs::read(&path).unwrap());
    lab.run("runs show @1")
        .prints(&["rules, cost of one", "time per frame"]);
    lab.run("runs ls").prints(&["rules, cost of one"]);
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
        let plan = lab.run(&["plan", &lab.write("c.toml", text)]);
        let lines = plan.code(0).out.lines().map(str::to_owned);
        let lines: Vec<String> = lines.collect();
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{lines:?}"
        );
        lines
    };
    let lines = plan(text);
    assert_eq!(
        lines[0],
        "About 1 min 40 s of simulated time for 100 trials of 2 test cases."
    );
    let of = |lines: &[String], words: &str| {
        let of = lines.iter().filter(|line| line.contains(words));
        of.count()
    };
    let line = " 1 to 5  plain/64B-2000flows-ipv4     10 trials  ~10 s each";
    assert!(lines.contains(&line.to_owned()), "{lines:?}");
    for words in ["plain/64B", "plain/512B", "another random order"] {
        assert_eq!(of(&lines, words), 1, "{words}");
    }
    let grouped = plan(&text.replace("[bed]", "order = 'grouped'\n[bed]"));
    assert_eq!(of(&grouped, "all iterations of a test case, then"), 1);
    // missing needs come first, because `run` would refuse to start
    let lacking = "campaign = 'c'\nneeds = ['module no-such-module']\n[procedure]\nid = 'mrr'\n";
    let lines = plan(lacking);
    assert!(
        lines[0].starts_with("Cannot run here: it needs module no-such-module."),
        "{lines:?}"
    );
}

/// Measures until intervals are narrow, with hooks, and judges by thresholds: passed, failed, and
/// inconclusive, each with its exit code.
#[test]
fn a_gate_keeps_breaks_and_cannot_tell() {
    let lab = Lab::new();
    let path = example("gate.toml");
    lab.run(&["plan", &path]).code(0).prints(&[
        "10 to 40 iterations each",
        "11 to 40, of test cases whose interval is wider than ±0.5%",
        "plain/64B-*: at least 950.0 kpps",
        "this machine, hook before the campaign (1min at most): uname -sr",
    ]);
    // no earlier run on this machine: 2.02 times 3 % (docs/methodology.md, "How many iterations")
    let real = "campaign = 'c'\n[procedure]\nid = 'mrr'\n";
    let planned = lab.json(&["plan", &lab.write("real.toml", real)]);
    let detectable = number(&planned["expected"]["detectable_percent"]);
    assert!((detectable - 6.06).abs() < 0.01, "{planned}");
    let kept = document(&lab.run(&["run", &path, "--json"]), 0);
    for threshold in [0, 1].map(|at: usize| &kept["thresholds"][at]) {
        assert_eq!(threshold["passed"], true, "{threshold}");
        assert_eq!(threshold["kept"], 1, "{threshold}");
    }
    let cases = list(&kept["test_cases"]).iter();
    let made: usize = cases.map(|case| list(&case["iterations"]).len()).sum();
    let directory = Path::new(kept["directory"].as_str().unwrap());
    let hooks = json_lines(&directory.join("hooks.jsonl"));
    assert_eq!(hooks.len(), 1 + made);
    let id = id_of(&kept);
    let second = hooks[1]["output"].as_str().unwrap();
    assert!(second.ends_with(&format!("iteration 1 of {id}\n")));
    lab.run("runs show @1")
        .prints(&["at least 950.0 kpps: kept", "narrow enough"]);

    // compared with that run
    let like = |dut: &str, iterations: &str, reference: &str, by: &str| {
        lab.campaign(&format!(
            "campaign = 'c'\nseed = 3\niterations = {iterations}\n[bed]\nengine = 'sim'\ndut = '{dut},link=10Gbps'\n[procedure]\nid = 'mrr'\n\
             [[threshold]]\nnot-slower-than = {{ run = '{reference}', by = '{by}' }}\n"
        ))
    };
    let same = document(&like("capacity=1e6,noise=0.01", "20", "@1", "3%"), 0);
    assert_eq!(same["info"]["parameters"]["threshold_runs"][0], id);
    let limit = same["thresholds"][0]["limit"].as_str().unwrap();
    assert!(limit.contains(&format!("run {id}")), "{limit}");
    let slower = document(&like("capacity=0.95e6,noise=0.01", "20", &id, "3%"), 6);
    assert_eq!(list(&slower["thresholds"][0]["failed"]).len(), 1);
    lab.run("runs show @1").prints(&["FAILED by 64 B"]);
    // a file next to the campaign, which a resumed run finds again
    lab.write("base.json", &lab.run(&format!("runs show {id} --json")).out);
    let same = document(&like("capacity=1e6,noise=0.01", "20", "base.json", "3%"), 0);
    assert_eq!(same["info"]["parameters"]["threshold_runs"][0], "base.json");
    like("capacity=1e6,noise=0.3", "3", &id, "1%").code(5);
    like("capacity=1e6", "5", "nobody", "3%")
        .code(2)
        .says(&["campaign.toml:10:27: `nobody`: "]);
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
bed = 'v' / [procedure] / id = 'maxfwd' => :4:6: rates of an emulated machine mean nothing
[procedure] / id = 'exact' => : instructions are counted in a virtual machine: set image
[matrix] / image = ['x'] / [procedure] / id = 'mrr' => :5:6: rates of an emulated machine mean nothing: use exact
[procedure] / id = 'trial' / load = '50%' => :4:8: the load: 50% needs a link speed
[bed] / max = '50%' / [procedure] / id = 'mrr' => :3:7: the load: 50% needs a link speed
[bed] / engine = 'sim' / link = '100M' / max = '200%' / [procedure] / id = 'mrr' => :5:7: the load: 200% is more than the simulated link 100 Mbit/s carries
[bed] / engine = 'sim' / link = '100M' / dut = 'link=1G' / [procedure] / id = 'mrr' => :4:8: the link is 100M, but link= of the simulated DUT is 1G
[bed] / link = 1 / [procedure] / id = 'mrr' => :3:8: ";

/// Every error is printed with its position before anything happens, and no run is stored.
#[test]
fn errors_in_a_file_are_reported_before_any_traffic() {
    let lab = Lab::new();
    let image = "bed = 'v'\n[dut]\nhost = 'vm:debian:linux-image-cloud-amd64'\n";
    lab.write("beds/v.toml", image);
    let seventy = format!("{:?}", (0..70).collect::<Vec<u8>>());
    let (mut paths, mut reported) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(MISTAKES.lines()) {
        let (text, words) = line.split_once(" => ").unwrap();
        let text = text.replace(" / ", "\n").replace("[0..70]", &seventy);
        let text = format!("campaign = 'c'\n{text}");
        paths.push(lab.write(&format!("wrong-{number}.toml"), &text));
        reported.push(words);
    }
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let checked = lab.run(&[&["check", "--json"], &paths[..]].concat());
    let checked = document(&checked, 2);
    let errors = texts(&checked, "error");
    assert_eq!(errors.len(), reported.len());
    for (error, (path, reported)) in errors.iter().zip(paths.iter().zip(reported)) {
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
    lab.run("run no-such.toml").code(2);
    assert!(!lab.runs().exists() || fs::read_dir(lab.runs()).unwrap().next().is_none());
    // all files are checked, even if the first is invalid
    let good = example("simulated.toml");
    let profile = lab.write("profile.toml", "[[stream]]\nsize = 64\n");
    let bad = lab.write("bad.toml", "[[stream]]\nsise = 64\n");
    lab.run(&["check", &bad, &good, &profile]).code(2).prints(&[
        "bad.toml:2:1: unknown key `sise`",
        "campaign simulated-rules: 1 test case by mrr",
        "profile: 1 stream",
    ]);
    lab.run(&["check", &good, &profile]).code(0);
}

#[test]
fn examples_are_right_and_the_schema_knows_them() {
    let lab = Lab::new();
    let schema = lab.json("schema campaign");
    assert_eq!(schema, committed("campaign"));
    let read = |text: &str| -> Value {
        let value: toml::Table = toml::from_str(text).unwrap();
        serde_json::to_value(value).unwrap()
    };
    let examples = examples();
    let campaigns = (examples.iter()).map(|path| read(&fs::read_to_string(path).unwrap()));
    all_valid(&schema, &campaigns.collect::<Vec<Value>>());
    let paths = examples.iter().map(|path| path.to_str().unwrap());
    let words: Vec<&str> = ["check"].into_iter().chain(paths).collect();
    lab.run(&words).code(0);
    // other tests run the other two simulated campaigns
    lab.run(&["run", &example("ndr-pdr.toml")]).code(0);
    let wrong = [
        "campaign = 'c'",
        "campaign = 'c'\n[procedure]\nid = 'mmr'",
        "campaign = 'c'\n[procedure]\nid = 'mrr'\ntrails = 3",
        "campaign = 'c'\nhooks = 1\n[procedure]\nid = 'mrr'",
        "campaign = 'c'\n[procedure]\nid = 'mrr'\nsweep = { parameter = 'rules' }",
    ];
    none_valid(&schema, &wrong.map(read));
}

/// Every trial is invalid: it is measured and stored, without a result.
#[test]
fn a_campaign_without_any_good_iteration_is_not_valid() {
    let lab = Lab::new();
    let text = "campaign = 'c'\niterations = 2\n[bed]\nengine = 'sim'\ndut = 'capacity=1e6,flap=1,link=1Gbps'\n\
                [procedure]\nid = 'trial'\nfor = '1s'";
    let document = document(&lab.campaign(text), 5);
    let case = &document["test_cases"][0];
    assert!(failure(case).contains("went down"), "{case}");
    assert_eq!(list(&document["trials"]).len(), 6);
    assert!(list(&case["figures"]).is_empty());
    lab.run("runs show @1").prints(&["failed", "went down"]);
}

/// One configuration cannot be applied, and one has a daemon that dies under load and leaves last
/// words. Each costs only its own test case.
#[test]
fn a_test_case_that_fails_does_not_end_the_campaign() {
    let Some(lab) = Lab::root() else { return };
    // more frames than the path check sends
    let relay = "echo starts; received() { sed -n 's/ *eth0: *[0-9]* *\\([0-9]*\\).*/\\1/p' /proc/net/dev; }\n\
                 while [ $(received) -lt 3000 ]; do sleep 0.01; done; printf 'fatal: \\033[31mno buffer space'; exit 1";
    let text = format!(
        "campaign = 'fails'\niterations = 1\nseed = 1\n[bed]\nmax = '100kpps'\n[configuration]\n\
         broken = ['true', 'exit 3']\nlives = 'sleep 600 >/dev/null 2>&1 & echo $! > $FWDLAB_DAEMONS/idle.pid'\n\
         dies = \"\"\"\ncat > /run/relay <<'END'\n{}\nEND\nsh /run/relay > $FWDLAB_DAEMONS/relay.log 2>&1 &\n\
         echo $! > $FWDLAB_DAEMONS/relay.pid\"\"\"\n\
         [matrix]\nconfiguration = ['lives', 'broken', 'dies']\n[procedure]\nid = 'trial'\nload = '10kpps'\nfor = '500ms'\n",
        relay.replace('\\', "\\\\")
    );
    let ended = lab.campaign(&text);
    if reports_stall(&ended.err) {
        return skipped(NOT_REACHED);
    }
    let document = document(&ended, 7);
    let [lives, broken, dies] = list(&document["test_cases"]) else {
        panic!("{document}")
    };
    for words in ["`broken` could not be applied", "exit 3"] {
        assert!(failure(broken).contains(words), "{broken}");
    }
    let trials = list(&document["trials"]).iter();
    let (of_dies, others): (Vec<&Value>, Vec<&Value>) =
        trials.partition(|trial| trial["test_case"] == dies["test_case"]);
    let [trial] = of_dies[..] else {
        panic!("it is dead, and is not measured again: {document}")
    };
    let last = format!(
        ") ended during trial {}; its last words: starts | fatal: \\u{{1b}}[31mno buffer space",
        trial["trial"]
    );
    let reported = failure(dies);
    assert!(
        reported.starts_with("relay (process ") && reported.ends_with(&last),
        "{reported}"
    );
    let reasons = |trial: &Value| trial["validity"]["reasons"].to_string();
    assert!(reasons(trial).contains("relay (process "), "{trial}");
    assert!(!others.is_empty());
    assert!(others.iter().all(|one| !reasons(one).contains("process")));
    match failure(lives) {
        reason if reports_stall(reason) => skipped("the sender stalled in every trial"),
        reason => assert_eq!(reason, ""),
    }
    lab.run("runs show @1").prints(&[
        "failed",
        "test cases without",
        "its last words: starts | fatal",
    ]);
    lab.assert_clean("a campaign with failures");
}

/// Profiles and directions, in the planned order. `lab` tests the counts of each.
#[test]
fn traffic_is_a_dimension_of_the_matrix() {
    let lab = Lab::new();
    let own = "[[stream]]\nlayers = ['ipv4', 'udp']\nsize = 200\n";
    lab.write("own.toml", own);
    let text = "campaign = 'traffic'\niterations = 2\nseed = 1\n[bed]\nengine = 'sim'\ndut = 'capacity=1e6'\nmax = '4Mpps'\n\
                [matrix]\nprofile = ['imix', 'own.toml']\ndirections = ['one', 'both']\nmodifier = ['none', 'broadcast']\n\
                exclude = [{ profile = 'own.toml', directions = 'both' }]\n\
                [procedure]\nid = 'mrr'\ntrials = 1";
    let document = document(&lab.campaign(text), 0);
    let names = "plain/imix plain/imix/broadcast plain/imix/both-directions plain/imix/both-directions/broadcast \
        plain/own.toml plain/own.toml/broadcast";
    assert_eq!(texts(&document["test_cases"], "test_case").join(" "), names);
    // the mean size represents the profile
    assert_eq!(document["test_cases"][0]["frame_size_bytes"], 362.0);
    assert_eq!(lab.kept("inputs/profiles/own.toml"), own);

    let plan = lab.json("plan campaign.toml");
    assert_eq!(
        texts(&plan["turns"], "test_case"),
        texts(&document["trials"], "test_case")
    );
    assert_eq!(
        (count(&plan["trials"]), number(&plan["estimate_s"])),
        (12, 12.0)
    );
    lab.run("plan campaign.toml").prints(&[
        "6 test cases by mrr, 2 iterations each, seed 1",
        "nothing: DUT and tester are simulated",
    ]);
}

mod alone {
    use super::*;

    /// A DUT that loses every fourth echo on its management port, one command that takes 50 ms, one
    /// that fails while frames flow, and one without a fault.
    #[test]
    fn requests_to_the_management_of_a_dut_are_answered_as_was_planted() {
        let Some(lab) = Lab::root_alone() else { return };
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
for = '3s'
after = '1s'
every = '50ms'
timeout = '1s'
requests = ['echo', 'command: sleep 0.05', 'command: true', '''command:
r() { sed -n 's/ *eth0: *[0-9]* *\([0-9]*\).*/\1/p' /proc/net/dev; }
a=$(r); sleep 0.03; b=$(r); [ $b -lt $((a + 10)) ]''']
"#;
        let ended = lab.campaign(text);
        // counts are exact even if the machine is too noisy for rates
        let document = ended.measured().document();
        let outcome = &document["test_cases"][0]["outcomes"][0];
        if outcome["answered"] != true {
            let reason = "this host is so busy that no trial was valid, or a command had no answer within 1 s";
            return skipped(reason);
        }
        let loads = list(&outcome["found"]["loads"]);
        assert_eq!(texts(&outcome["found"]["loads"], "name"), ["0 %", "flood"]);
        assert!(number(&loads[0]["offered_load_pps"]) < 1.0, "{outcome}");
        assert!(number(&loads[1]["forwarding_rate_pps"]) > 0.0, "{outcome}");
        let [echo, slow, nothing, under] = list(&outcome["found"]["requests"]) else {
            panic!("{outcome}")
        };
        let of = |one: &Value, load: usize, key: &str| number(&one["at"][load][key]);
        for load in [0, 1] {
            // one in four, whatever the first one was
            let lost = of(echo, load, "lost");
            let due = of(echo, load, "asked") / 4.0;
            assert!(lost >= 1.0 && (lost - due).abs() <= 2.0, "{echo}");
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
        lab.run("runs show @1").prints(&[
            "Management under load",
            "no answer for",
            "in the flood, without an answer: `echo`",
        ]);
        lab.assert_clean("requests to the management");
    }
}

/// Three shards of a simulated campaign, one of them killed and resumed, give the result and the
/// trials of a run that measured everything, apart from ids and times. A hook makes the first trial
/// of each test case invalid.
#[test]
fn shards_of_a_simulated_campaign_are_joined() {
    let until = "{ until = '±0.8%', min = 5, max = 8 }";
    let trial = "'trial'\nload = '500kpps'\nfor = '200ms'\nlatency = true";
    for (procedure, iterations) in [(trial, "3"), ("'mrr'\ntrials = 1", until)] {
        let lab = Lab::new();
        let text = format!(
            "campaign = 'parts'\niterations = {iterations}\nseed = 5\n[bed]\nengine = 'sim'\n\
             dut = 'capacity=1e6,noise=0.01,latency=20us,link=10Gbps'\n\
             [matrix]\nsize = [64, 512]\nflows = [1, 100, 1000]\n[procedure]\nid = {procedure}\n\
             [hooks]\nbefore = {{ on = 'controller', every = 'trial', command = \"\"\"\n\
             [ $FWDLAB_ITERATION != 1 ] || ! mkdir \"{folder}/$(echo $FWDLAB_RUN$FWDLAB_TEST_CASE | tr / _)\" 2>/dev/null\"\"\" }}\n\
             after = {{ on = 'controller', every = 'iteration', command = \"\"\"\n\
             [ $FWDLAB_ITERATION = 1 ] || ! mkdir {folder}/killed 2>/dev/null || kill -9 $PPID\"\"\" }}\n",
            folder = lab.path().display()
        );
        let path = lab.write("parts.toml", &text);
        let line = |shard: &str| format!("run {path} --shard {shard}");
        lab.run(&line("2/3")).code(128 + 9);
        for shard in ["1/3", "3/3"] {
            lab.run(&line(shard)).code(0);
        }
        let merge = "runs merge @1 @2 @3";
        lab.run(merge)
            .code(2)
            .says(&["is not finished", "--resume"]);
        lab.run("run --resume @3").code(0);
        lab.run("runs merge @1 @2")
            .code(2)
            .says(&["missing: shard 2/3"]);
        let joined = lab.run(&format!("{merge} --json")).code(0).document();
        let whole = lab.json(&format!("run {path}"));

        let warnings = list(&joined["warnings"]);
        assert!(warnings[0].as_str().unwrap().contains("was interrupted"));
        // and the trial that was cut off is kept
        let [all, of_whole] = [&joined, &whole].map(|run| list(&run["trials"]).len());
        assert_eq!(all, of_whole + 1);
        let invalid = |all| format!("6 of {all} trials were invalid: repeated, kept, not used");
        assert_eq!(warnings[1..], [invalid(all)]);
        assert_eq!(list(&whole["warnings"]), [invalid(of_whole)]);
        for part in ["test_cases", "noise", "control", "procedure"] {
            assert_eq!(joined[part].to_string(), whole[part].to_string(), "{part}");
        }
        let numbers = list(&joined["test_cases"]).iter();
        let mut numbers = numbers.map(|case| list(&case["iterations"]).len());
        let first = numbers.next().unwrap();
        assert_eq!(numbers.all(|number| number == first), procedure == trial);
        let trials = |document: &Value| {
            let mut trials = list(&document["trials"]).to_vec();
            trials.retain(|one| !one["validity"].to_string().contains("cut off"));
            for trial in &mut trials {
                trial.as_object_mut().unwrap().remove("started_at");
            }
            trials
        };
        assert_eq!(trials(&joined), trials(&whole));
        let id = id_of(&joined);
        for one in trials(&joined) {
            let log = one["asked"]["latency_log"].as_str();
            assert_eq!(log.is_some(), procedure == trial, "{one}");
            assert!(log.is_none_or(|log| lab.runs().join(&id).join(log).is_file()));
        }
        lab.run(&format!("runs verify {id}"))
            .code(0)
            .prints(&["intact"]);
    }
}

/// A part is not judged: the machine that joins all parts has the run that a threshold names.
#[test]
fn only_the_joined_run_needs_the_run_of_a_threshold() {
    let lab = Lab::new();
    let text = "campaign = 'parts'\niterations = 3\nseed = 5\n[bed]\nengine = 'sim'\ndut = 'capacity=1e6'\n\
                [matrix]\nflows = [1, 2]\n[procedure]\nid = 'mrr'\ntrials = 1\n";
    lab.write("base.toml", text);
    let threshold = "[[threshold]]\nnot-slower-than = { run = 'base', by = '1%' }\n";
    lab.write("parts.toml", &format!("{text}{threshold}"));
    lab.run("run parts.toml").code(2).says(&["`base`"]);
    for shard in ["1/2", "2/2"] {
        lab.run(&format!("run parts.toml --shard {shard}")).code(0);
    }
    lab.run("runs merge @1 @2").code(2).says(&["`base`"]);
    lab.run("run base.toml").code(0);
    lab.run("runs tag @1 base").code(0);
    let joined = lab.run("runs merge @2 @3 --json").code(0).document();
    assert_eq!(joined["thresholds"][0]["kept"], 2, "{joined}");
}

/// The hook kills the program in the second iteration, once, and fails for one of the test cases.
const CUT: &str = r#"
campaign = "cut"
iterations = 2
order = "grouped"
[bed]
engine = "sim"
dut = "capacity=1e6"
[matrix]
size = [64, 512]
[hooks]
after = { on = "controller", command = '''
case $FWDLAB_TEST_CASE in *512B*) exit 1;; esac
[ $FWDLAB_ITERATION = 1 ] || ! mkdir FOLDER/killed 2>/dev/null || kill -9 $PPID''' }
[procedure]
id = "trial"
load = "1kpps"
for = "200ms"
"#;

/// `kill -9` in the middle, then `--resume`, then the failed test cases again, and nothing else.
/// `lab` kills and resumes campaigns at every step, also on real hosts.
#[test]
fn a_killed_campaign_is_resumed() {
    let lab = Lab::new();
    let text = CUT.replace("FOLDER", lab.path().to_str().unwrap());
    let path = lab.write("cut.toml", &text);
    lab.run(&["run", &path]).code(128 + 9);
    let run = lab.only_run();
    let id = run.file_name().unwrap().to_str().unwrap().to_owned();
    let before = json_lines(&run.join("trials.jsonl")).len();

    // reports that the file has changed meanwhile
    lab.write("cut.toml", &text.replace("200ms", "400ms"));
    lab.run("run --resume @1")
        .code(2)
        .says(&["cannot resume", "inputs/campaign.toml"]);
    lab.write("cut.toml", &text);

    let document = document(&lab.run("run --resume @1 --json"), 7);
    assert_eq!(document["info"]["id"], *id);
    assert_eq!(document["info"]["gaps"][0]["after"], before);
    let [good, lost] = list(&document["test_cases"]) else {
        panic!("{document}")
    };
    for case in [good, lost] {
        assert_eq!(list(&case["iterations"]).len(), 2, "{case}");
        assert_eq!(failure(case).starts_with("hook after"), case == lost);
    }
    // finished work is not repeated
    let events = json_lines(&run.join("events.jsonl"));
    let of = |kind: &str| events.iter().filter(|one| one["event"] == kind).count();
    assert_eq!((of("iteration_finished"), of("run_resumed")), (4, 1));
    lab.run("runs verify @1").code(0);
    lab.run(&["run", "--resume", &id])
        .code(2)
        .says(&["is finished", "--retry"]);

    // the error is fixed, and only that test case is measured again
    lab.write("cut.toml", &text.replace("exit 1", "exit 0"));
    let again = lab.json(&["run", "--retry", &id, "--only", "size:5*"]);
    let [case] = list(&again["test_cases"]) else {
        panic!("{again}")
    };
    assert_eq!(case["test_case"], lost["test_case"]);
    assert_eq!(again["info"]["parameters"]["retry_of"], *id);
    lab.run(&["plan", &path, "--only", "size:65"])
        .code(2)
        .says(&[
            "--only size:65",
            "no test case is meant; there are plain/64B-2000flows-ipv4",
        ]);
}

/// In the second tier, because they take long.
mod slow {
    use super::*;

    /// Two shards that were measured keep their own reference and control, and are never compared
    /// with each other; their result is derived again from all trials.
    #[test]
    fn shards_of_a_measured_campaign_keep_their_machines() {
        let lab = Lab::new();
        let path = lab.write(
            "measured.toml",
            "campaign = 'measured'\niterations = 3\n[matrix]\nsize = [64, 128, 512]\n\
             [procedure]\nid = 'maxfwd'\nload = '20kpps'\nfor = '200ms'\n\
             [[threshold]]\ncase = 'plain/512B-*'\nat-most = '30kpps'\n",
        );
        let figures = |document: &Value| -> Vec<Value> {
            let cases = list(&document["test_cases"]).iter();
            cases.map(|one| one["figures"].clone()).collect()
        };
        let shards = ["1/2", "2/2"].map(|shard| lab.json(&format!("run {path} --shard {shard}")));
        let joined = lab.run("runs merge @1 @2 --json").document();
        let expected = [("64B", 1), ("128B", 1), ("64B", 2), ("512B", 2)];
        let expected =
            expected.map(|(size, shard)| format!("plain/{size}-2000flows-ipv4/shard-{shard}"));
        assert_eq!(texts(&joined["test_cases"], "test_case"), expected);
        assert_eq!(figures(&joined), shards.each_ref().map(figures).concat());
        assert_eq!(joined["control"]["control"], true, "{joined}");
        // its pattern is that of the campaign
        let judged = &list(&joined["thresholds"])[0];
        assert!(!judged.to_string().contains("no test case"), "{judged}");

        let id = id_of(&joined);
        lab.run(&format!("runs verify {id}")).code(0).prints(&[
            "intact",
            "follows from what was measured: test_cases, control",
        ]);
        let rows = lab.run(&format!("runs table {id} --format jsonl")).out;
        for row in rows.lines() {
            let labels = &serde_json::from_str::<Value>(row).unwrap()["labels"];
            assert!(
                ["1", "2"].iter().any(|shard| labels["shard"] == *shard),
                "{row}"
            );
        }
        let page = lab.run(&format!("runs show {id}"));
        assert!(
            !page.out.contains("shard 2 compared with 64 B, shard 1"),
            "{}",
            page.out
        );
        lab.assert_clean("shards of a measured campaign");
    }
}
