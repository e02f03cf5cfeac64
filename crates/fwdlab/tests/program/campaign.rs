//! `fwdlab run`, `plan` and `check` from outside: known truths of simulated DUTs over test cases and iterations, files that are
//! wrong, what is kept, and the kernel of this host with rules, configurations that fail, and signals.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{
    Ended, Lab, NOT_REACHED, is_held_up, json_lines, list, number, root, skipped, try_tool,
};

/// A campaign on a simulated DUT, in a folder of its own.
fn file(lab: &Lab, name: &str, text: &str) -> String {
    let path = lab.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn run(lab: &Lab, text: &str) -> Ended {
    let path = file(lab, "campaign.toml", text);
    lab.run(&["run", &path, "--json"])
}

fn document(ended: &Ended, code: i32) -> Value {
    assert_eq!(ended.code, code, "{ended:?}");
    serde_json::from_str(&ended.out).unwrap()
}

/// On standard output, where results are; wherever lines are broken.
fn tells(ended: &Ended, words: &[&str]) {
    let said = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(
            ended.out.contains(word) || said.contains(word),
            "`{word}` is not in:\n{}",
            ended.out
        );
    }
}

/// What is found with this procedure on this DUT.
fn found(lab: &Lab, dut: &str, procedure: &str) -> Value {
    let text = format!(
        "campaign = 'c'\niterations = 1\nseed = 3\n[bed]\nengine = 'sim'\ndut = '{dut}'\n[procedure]\n{procedure}"
    );
    let document = document(&run(lab, &text), 0);
    document["test_cases"][0]["outcomes"][0].clone()
}

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/campaigns");
    let mut all: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    all.sort();
    assert!(all.len() >= 4);
    all
}

fn example(name: &str) -> String {
    let all = examples();
    let path = all.iter().find(|path| path.ends_with(name)).unwrap();
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// 20 ns are 20 ns: the cost of a rule lies in its interval, which is narrow.
#[test]
fn a_sweep_finds_what_a_rule_costs() {
    let lab = Lab::new();
    let path = example("simulated.toml");
    let document = lab.json(&["run", &path]);
    let case = &document["test_cases"][0];
    let cost = &case["outcomes"][0]["found"]["cost"];
    assert_eq!(cost["shape"], "linear", "{cost}");
    let (low, high) = (
        number(&cost["unit_ns_interval"][0]),
        number(&cost["unit_ns_interval"][1]),
    );
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
    // every trial stands for its test case, its iteration and its value
    let trials = list(&document["trials"]);
    assert_eq!(trials.len(), 390);
    for trial in trials {
        assert_eq!(trial["test_case"], "plain/64B-2000flows-ipv4");
        assert!((1..=3).contains(&trial["iteration"].as_u64().unwrap()));
        assert!(trial["asked"]["question"]["setting"].is_u64());
    }
    // the file is kept to the byte, and the run can be shown again
    let directory = Path::new(document["directory"].as_str().unwrap());
    assert!(directory.to_str().unwrap().contains("-simulated-rules-"));
    assert_eq!(
        fs::read(directory.join("inputs/campaign.toml")).unwrap(),
        fs::read(&path).unwrap()
    );
    tells(
        &lab.run(&["runs", "show", "@1"]),
        &["rules, cost of one", "time per frame"],
    );
    tells(&lab.run(&["runs", "ls"]), &["rules, cost of one"]);
    let page = fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(page.contains("rules, cost of one") && page.contains("Sweep"));
    // the same seed finds the same
    let again = lab.json(&["run", &path]);
    assert_eq!(again["test_cases"], document["test_cases"]);
    let finished: Vec<Value> = json_lines(&directory.join("events.jsonl"))
        .into_iter()
        .filter(|event| event["event"] == "iteration_finished")
        .collect();
    assert_eq!(finished.len(), 3);
}

/// Measured until intervals are narrow, with hooks around, and judged by thresholds: kept, broken, and not to be told, each with its exit
/// code, in the terminal, in Markdown, on the page, and in what is kept.
#[test]
fn a_gate_keeps_breaks_and_cannot_tell() {
    let lab = Lab::new();
    let path = example("gate.toml");
    let planned = lab.run(&["plan", &path]);
    planned.code(0);
    tells(
        &planned,
        &[
            "10 to 40 iterations each",
            "11 to 40, of test cases whose interval is wider than ±0.5%",
            "plain/64B-*: at least 950.0 kpps",
        ],
    );
    tells(
        &planned,
        &["this machine, hook before the campaign (1min at most): uname -sr"],
    );
    // nothing is known of this machine so far: 2.02 times 3 % (docs/methodology.md,
    // "How many iterations")
    let real = file(
        &lab,
        "real.toml",
        "campaign = 'c'\n[procedure]\nid = 'mrr'\n",
    );
    let planned = document(&lab.run(&["plan", &real, "--json"]), 0);
    let expected = &planned["expected"];
    assert!(
        (number(&expected["detectable_percent"]) - 6.06).abs() < 0.01,
        "{expected}"
    );
    assert_eq!(
        (&expected["known_from_runs"], &expected["paired"]),
        (&0.into(), &false.into())
    );
    let ended = lab.run(&["run", &path, "--json"]);
    let kept = document(&ended, 0);
    let thresholds = list(&kept["thresholds"]);
    assert_eq!(thresholds.len(), 2);
    for threshold in thresholds {
        assert_eq!(
            (&threshold["passed"], &threshold["kept"]),
            (&true.into(), &1.into()),
            "{threshold}"
        );
    }
    let mut made = 0;
    for case in list(&kept["test_cases"]) {
        let stopped = &case["stopped"];
        let iterations = stopped["iterations"].as_u64().unwrap();
        assert_eq!(stopped["why"], "narrow_enough", "{stopped}");
        assert!((10..40).contains(&iterations) && number(&stopped["half_width_percent"]) <= 0.5);
        assert_eq!(iterations as usize, list(&case["iterations"]).len());
        made += iterations as usize;
    }
    let directory = Path::new(kept["directory"].as_str().unwrap()).to_owned();
    let hooks = json_lines(&directory.join("hooks.jsonl"));
    assert_eq!(hooks.len(), 1 + made);
    assert!(
        hooks[0]["output"].as_str().unwrap().starts_with("Linux "),
        "{}",
        hooks[0]
    );
    let id = kept["info"]["id"].as_str().unwrap();
    let said = hooks[1]["output"].as_str().unwrap();
    assert!(said.ends_with(&format!("iteration 1 of {id}\n")), "{said}");
    for form in [
        &["runs", "show", "@1"][..],
        &["runs", "show", "@1", "--format", "markdown"],
    ] {
        tells(
            &lab.run(form),
            &["at least 950.0 kpps: kept", "narrow enough"],
        );
    }
    let verified = lab.run(&["runs", "verify"]);
    verified.code(0).says(&[" 0 damaged"]);
    let page = fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(page.contains("2 thresholds kept") && page.contains("narrow enough"));

    // against that run, and against another configuration of the DUT's speed
    let like = |dut: &str, iterations: &str, threshold: &str| {
        let text = format!(
            "campaign = 'c'\nseed = 3\niterations = {iterations}\n[bed]\nengine = 'sim'\ndut = '{dut},link=10Gbps'\n[procedure]\nid = 'mrr'\n\
             [[threshold]]\n{threshold}\n"
        );
        run(&lab, &text)
    };
    let than = |by: &str| format!("not-slower-than = {{ run = '{id}', by = '{by}' }}");
    let last = "not-slower-than = { run = '@1', by = '3%' }";
    let same = document(&like("capacity=1e6,noise=0.01", "20", last), 0);
    assert_eq!(same["info"]["parameters"]["threshold_runs"][0], id);
    let limit = same["thresholds"][0]["limit"].as_str().unwrap();
    assert!(limit.contains(&format!("run {id}")), "{limit}");
    assert_eq!(same["thresholds"][0]["kept"], 1, "{same}");
    let slower = like("capacity=0.95e6,noise=0.01", "20", &than("3%"));
    let slower = document(&slower, 6);
    assert_eq!(list(&slower["thresholds"][0]["failed"]).len(), 1);
    tells(&lab.run(&["runs", "show", "@1"]), &["FAILED by 64 B"]);
    let blind = document(&like("capacity=1e6,noise=0.3", "3", &than("1%")), 5);
    assert_eq!(blind["thresholds"][0]["passed"], false);
    document(
        &like("capacity=1e6,noise=0.01", "5", "at-least = '2Mpps'"),
        6,
    );
    document(
        &like("capacity=1e6,noise=0.05", "5", "at-least = '1.001Mpps'"),
        5,
    );
    let unknown = like(
        "capacity=1e6",
        "5",
        "not-slower-than = { run = 'nobody', by = '3%' }",
    );
    assert_eq!(unknown.code, 2, "{unknown:?}");
    assert!(
        unknown.err.contains("campaign.toml:10:27: `nobody`: "),
        "{unknown:?}"
    );
}

#[test]
fn every_procedure_tells_the_truth_of_a_simulated_dut() {
    let lab = Lab::new();
    let sweep = "id = 'mrr'\n[procedure.sweep]\nparameter = 'states'\nvalues = [0, 10, 100, 1000, 2000]\nruns = 3";
    let cliff = found(
        &lab,
        "capacity=1e6,cliff=100/50%,noise=0.001,link=10Gbps",
        sweep,
    );
    let cost = &cliff["found"]["cost"];
    assert_eq!(
        (&cost["shape"], &cost["last_before"], &cost["first_after"]),
        (&"cliff".into(), &100.into(), &1000.into())
    );
    assert!(
        (number(&cost["beyond_ns"]) / number(&cost["frame_ns"]) - 2.0).abs() < 0.01,
        "{cost}"
    );

    // what comes out at 2 Mpps of a million: exactly that
    let mrr = found(&lab, "capacity=1e6,generator=2Mpps", "id = 'mrr'");
    assert_eq!(number(&mrr["found"]["receive_rate_pps"]["mean"]), 1e6);

    let equilibrium = found(
        &lab,
        "capacity=1e6,link=10Gbps",
        "id = 'equilibrium'\ntolerance = '1%'",
    );
    let pps = number(&equilibrium["found"]["equilibrium_pps"]);
    assert!((pps / 1e6 - 1.0).abs() < 0.02, "{pps}");

    // 30 % of the capacity is lost for every 100 % of overload: of twice the capacity 700,000 frames come out, of 770,000 all
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

    let ndr = found(
        &lab,
        "capacity=1e6,link=10Gbps",
        "id = 'mlrsearch'\ngoals = ['ndr']",
    );
    let goal = &ndr["found"]["goals"][0];
    assert!(number(&goal["relevant_lower_bound_pps"]) <= 1e6, "{goal}");
    assert!(number(&goal["relevant_upper_bound_pps"]) >= 1e6, "{goal}");
    assert!(number(&goal["width_achieved"]) <= 0.005, "{goal}");

    // it forwards nothing for eight seconds, and in overload as well as below it those are missing
    for (load, by_loss) in [("500kpps", true), ("2Mpps", false)] {
        let procedure = format!(
            "id = 'churn'\nevent = 'x'\nload = '{load}'\nbefore = '2s'\nafter = '2s'\nlongest = '60s'\nrepetitions = 2"
        );
        let churn = found(&lab, "capacity=1e6,reboot=8s,link=10Gbps", &procedure);
        assert_eq!(churn["answered"], true, "{churn}");
        assert!((number(&churn["found"]["deficit_s"]["median"]) - 8.0).abs() < 0.01);
        for dip in list(&churn["found"]["dips"]) {
            for (key, truth) in [
                ("first_impact_s", 0.0),
                ("regained_s", 8.0),
                ("blackout_s", 8.0),
                ("depth", 1.0),
            ] {
                assert!((number(&dip[key]) - truth).abs() < 0.01, "{key}: {dip}");
            }
            assert_eq!(dip["by_loss_s"].as_f64().is_some(), by_loss, "{dip}");
        }
    }

    // two cores forward twice as much, as far as flows are spread evenly
    let sweep = "id = 'mrr'\n[procedure.sweep]\nparameter = 'cores'\nvalues = [1, 2]";
    let cores = found(&lab, "capacity=1e6,link=10Gbps", sweep);
    let percent = number(&cores["found"]["points"][1]["percent_of_reference"]);
    assert!((percent - 200.0).abs() < 1.0, "{percent}");
    // a line that carries no more is a throughput; of a rate in overload it would be a lower bound, which no sweep compares
    let sweep = "id = 'throughput'\nsearch = '1s'\ntrial = '1s'\n[procedure.sweep]\nparameter = 'size'\nvalues = [64, 512, 1518]";
    let sizes = found(&lab, "capacity=1e7,link=1Gbps", sweep);
    let medians: Vec<f64> = list(&sizes["found"]["points"])
        .iter()
        .map(|p| number(&p["median_pps"]).floor())
        .collect();
    // line rates of 1 Gbit/s (docs/methodology.md, "Units and line rates")
    assert_eq!(medians, [1_488_095.0, 234_962.0, 81_274.0]);
}

/// Six test cases, three blocks: each block has all of them, in an order of its own that the seed decides.
#[test]
fn test_cases_are_measured_in_randomised_complete_blocks() {
    let lab = Lab::new();
    let text = "campaign = 'c'\niterations = 3\nseed = 11\n[bed]\nengine = 'sim'\ndut = 'capacity=1e6,link=1Gbps,noise=0.01'\n\
                [matrix]\nsize = [64, 512]\nflows = [1, 10, 100]\n[procedure]\nid = 'trial'\nfor = '1s'";
    let document = document(&run(&lab, text), 0);
    let order: Vec<(&str, u64)> = list(&document["trials"])
        .iter()
        .map(|trial| {
            (
                trial["test_case"].as_str().unwrap(),
                trial["iteration"].as_u64().unwrap(),
            )
        })
        .collect();
    let blocks: Vec<Vec<&str>> = order
        .chunks(6)
        .map(|block| block.iter().map(|(case, _)| *case).collect())
        .collect();
    assert_eq!(blocks.len(), 3);
    for (n, block) in blocks.iter().enumerate() {
        let mut cases = block.clone();
        cases.sort_unstable();
        cases.dedup();
        assert_eq!(cases.len(), 6, "{block:?}");
        assert!(
            order[6 * n..6 * (n + 1)]
                .iter()
                .all(|(_, iteration)| *iteration == n as u64 + 1)
        );
    }
    assert!(
        blocks[0] != blocks[1] || blocks[1] != blocks[2],
        "{blocks:?}"
    );
    for case in list(&document["test_cases"]) {
        let figure = &case["figures"][0];
        let values = list(&figure["values"]);
        assert_eq!(values.len(), 3, "{case}");
        // iterations differ: each has a seed of its own
        assert!(
            case["frame_size_bytes"] == 512 || values[0] != values[1],
            "{values:?}"
        );
    }
    // the plan says the same order
    let path = file(&lab, "campaign.toml", text);
    let plan = lab.json(&["plan", &path]);
    let planned: Vec<&str> = list(&plan["turns"])
        .iter()
        .map(|turn| turn["test_case"].as_str().unwrap())
        .collect();
    assert_eq!(
        planned,
        order.iter().map(|(case, _)| *case).collect::<Vec<_>>()
    );
    assert_eq!(plan["trials"], 18);
    assert_eq!(number(&plan["estimate_s"]), 18.0);
    tells(
        &lab.run(&["plan", &path]),
        &[
            "6 test cases by trial, 3 iterations each, seed 11",
            "nothing: DUT and tester are simulated",
        ],
    );
}

/// Every mistake is told before anything happens, with its place; nothing is kept.
#[test]
fn what_is_wrong_with_a_file_is_told_before_any_traffic() {
    let lab = Lab::new();
    let sim =
        "campaign = 'c'\n[bed]\nengine = 'sim'\ndut = 'capacity=1e6,link=1Gbps'\n[procedure]\n";
    for (text, words) in [
        (format!("{sim}id = 'mrr'\ntrails = 3"), ":7:1: unknown key `trails`; did you mean `trials`?"),
        (format!("{sim}id = 'soak'"), ":5:2: a soak needs a load"),
        (format!("{sim}id = 'plr'\nmin = '2Mpps'"), "smallest"),
        (format!("{sim}id = 'mlrsearch'\ngoals = ['ndr', 'ndr']"), ":5:2: the goal `ndr` is given twice"),
        (format!("{sim}id = 'latency'\nlatency = 'rfc2545'"), ":7:11: unknown name `rfc2545`"),
        (sim.replace("capacity", "capcity") + "id = 'mrr'", ":4:7: simulated DUT, character 1: there is no key `capcity`"),
        ("seed = 1\n".to_owned() + &sim.replace("link", "seed=4,link") + "id = 'mrr'", ":5:7: seed is given in dut and in the \
            campaign"),
        ("campaign = 'c'\n[procedure]\nid = 'reset'\nreset = 'x'".into(), ":2:2: reset: `x` is not a reset for this DUT: use \
            forwarding"),
        ("campaign = 'c'\n[configuration]\na = 'no/such/file'\n[procedure]\nid = 'mrr'".into(), ":3:5: configuration `"),
        ("campaign = 'c'\n[procedure]\nid = 'mrr'\n[procedure.sweep]\nparameter = 'states'\nvalues = [0, 1]".into(), ":4:12: \
            unknown parameter `states`"),
        ("campaign = 'c'\n[procedure]\nid = 'mrr'\n[procedure.sweep]\nparameter = 'cores'\nvalues = [1, 1000]".into(), "dut-cpus in [bed]"),
        ("campaign = 'c'\nresume = true\n[procedure]\nid = 'mrr'".into(), ":2:1: unknown key `resume`"),
    ] {
        let path = file(&lab, "wrong.toml", &text);
        for command in ["run", "plan", "check"] {
            let ended = lab.run(&[command, &path]);
            assert_eq!(ended.code, 2, "{command} {text}: {ended:?}");
            let said = format!("{}{}", ended.out, ended.err);
            assert!(said.contains("wrong.toml") && said.contains(words), "{text}: {said}");
        }
    }
    let missing = lab.run(&["run", "no-such.toml"]);
    assert_eq!(missing.code, 2, "{missing:?}");
    assert!(!lab.runs().exists() || fs::read_dir(lab.runs()).unwrap().next().is_none());
    // all files are looked at, whatever the first is like
    let good = file(&lab, "good.toml", &format!("{sim}id = 'mrr'"));
    let profile = file(&lab, "profile.toml", "[[stream]]\nsize = 64\n");
    let bad = file(&lab, "bad.toml", "[[stream]]\nsise = 64\n");
    let ended = lab.run(&["check", &bad, &good, &profile]);
    assert_eq!(ended.code, 2);
    tells(
        &ended,
        &[
            "bad.toml:2:1: unknown key `sise`",
            "campaign c: 1 test case by mrr",
            "profile: 1 stream",
        ],
    );
    assert_eq!(lab.run(&["check", &good, &profile]).code, 0);
}

#[test]
fn examples_are_right_and_the_schema_knows_them() {
    let lab = Lab::new();
    let schema = lab.json(&["schema", "campaign"]);
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/campaign.json");
    let committed: Value = serde_json::from_slice(&fs::read(committed).unwrap()).unwrap();
    assert_eq!(schema, committed);
    let schema = jsonschema::validator_for(&schema).unwrap();
    let read = |text: &str| -> Value {
        let value: toml::Table = toml::from_str(text).unwrap();
        serde_json::to_value(value).unwrap()
    };
    for path in examples() {
        let text = fs::read_to_string(&path).unwrap();
        let errors: Vec<String> = schema
            .iter_errors(&read(&text))
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{}: {errors:?}", path.display());
        tells(&lab.run(&["check", path.to_str().unwrap()]), &["ok"]);
        let is_simulated = text.contains("engine = \"sim\"");
        if is_simulated {
            document(&lab.run(&["run", path.to_str().unwrap(), "--json"]), 0);
        }
    }
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

/// Every trial is invalid: measured, kept, and no result.
#[test]
fn a_campaign_without_any_good_iteration_is_not_valid() {
    let lab = Lab::new();
    let text = "campaign = 'c'\niterations = 2\n[bed]\nengine = 'sim'\ndut = 'capacity=1e6,flap=1,link=1Gbps'\n\
                [procedure]\nid = 'trial'\nfor = '1s'";
    let document = document(&run(&lab, text), 5);
    let iterations = list(&document["test_cases"][0]["iterations"]);
    assert_eq!(iterations.len(), 2);
    assert!(
        iterations[0]["failure"]
            .as_str()
            .unwrap()
            .contains("went down")
    );
    assert_eq!(list(&document["trials"]).len(), 6);
    assert!(list(&document["test_cases"][0]["figures"]).is_empty());
    tells(&lab.run(&["runs", "show", "@1"]), &["failed", "went down"]);
}

/// A configuration that drops everything fails, and so does a parameter that cannot be set; the others are measured.
#[test]
fn a_test_case_that_fails_does_not_end_the_campaign() {
    const THIS: &str = "a_test_case_that_fails_does_not_end_the_campaign";
    if !root(THIS) {
        return;
    }
    let lab = Lab::new();
    let text = "campaign = 'fails'\niterations = 1\nseed = 1\n[bed]\nmax = '100kpps'\n[configuration]\n\
                blind = 'ip route flush table main'\nbroken = ['true', 'exit 3']\n\
                [matrix]\nconfiguration = ['plain', 'blind', 'broken']\n\
                [procedure]\nid = 'trial'\nload = '10kpps'\nfor = '300ms'\n\
                [procedure.sweep]\nparameter = 'ttl'\nvalues = [64, 32]\n\
                apply = 'echo {} > /proc/sys/net/ipv4/ip_default_ttl'\nundo = 'echo 64 > /proc/sys/net/ipv4/ip_default_ttl'";
    let path = file(&lab, "campaign.toml", text);
    tells(
        &lab.run(&["plan", &path]),
        &[
            "configuration blind: ip route flush",
            "sweep over ttl (64, 32): echo {}",
        ],
    );
    let ended = lab.run(&["run", &path, "--json"]);
    if is_held_up(&ended.err) {
        return skipped(
            "a_test_case_that_fails_does_not_end_the_campaign",
            NOT_REACHED,
        );
    }
    let document = document(&ended, 7);
    let failures: Vec<String> = list(&document["test_cases"])
        .iter()
        .map(|case| {
            case["iterations"][0]["failure"]
                .as_str()
                .unwrap_or("")
                .to_owned()
        })
        .collect();
    if is_held_up(&failures[0]) {
        skipped(
            THIS,
            "the sender was held up in every trial of the test case that is to pass",
        );
    } else {
        assert_eq!(failures[0], "");
        let points = list(&document["test_cases"][0]["outcomes"][0]["found"]["points"]);
        assert_eq!(points.len(), 2);
    }
    assert!(
        failures[1].contains("does not forward with configuration `blind`"),
        "{failures:?}"
    );
    assert!(
        failures[2].contains("`broken` could not be applied") && failures[2].contains("exit 3"),
        "{failures:?}"
    );
    let shown = lab.run(&["runs", "show", "@1"]);
    tells(
        &shown,
        &["failed", "does not forward", "test cases without"],
    );
    lab.assert_clean("a campaign with failures");
}

/// A daemon that dies under load ends its test case, in its own words and at once; one that lives is not noticed, and one that was to be
/// named and was not is told.
#[test]
fn a_daemon_that_dies_under_load_is_a_failed_cell_with_its_last_words() {
    const THIS: &str = "a_daemon_that_dies_under_load_is_a_failed_cell_with_its_last_words";
    if !root(THIS) {
        return;
    }
    let lab = Lab::new();
    // more frames than prove that it forwards
    let relay = "echo starts; received() { sed -n 's/ *eth0: *[0-9]* *\\([0-9]*\\).*/\\1/p' /proc/net/dev; }\n\
                 while [ $(received) -lt 3000 ]; do sleep 0.01; done; printf 'fatal: \\033[31mno buffer space'; exit 1";
    let text = format!(
        "campaign = 'daemons'\niterations = 1\nseed = 1\n[bed]\nmax = '100kpps'\n[configuration]\n\
         lives = 'sleep 600 >/dev/null 2>&1 & echo $! > $FWDLAB_DAEMONS/idle.pid'\n\
         nameless = 'mkdir -p $FWDLAB_DAEMONS'\n\
         dies = \"\"\"\ncat > /run/relay <<'END'\n{}\nEND\nsh /run/relay > $FWDLAB_DAEMONS/relay.log 2>&1 &\n\
         echo $! > $FWDLAB_DAEMONS/relay.pid\"\"\"\n\
         [matrix]\nconfiguration = ['dies', 'lives', 'nameless']\n\
         [procedure]\nid = 'trial'\nload = '20kpps'\nfor = '500ms'\n",
        relay.replace('\\', "\\\\")
    );
    let ended = run(&lab, &text);
    if is_held_up(&ended.err) {
        return skipped("a_daemon_that_dies_under_load", NOT_REACHED);
    }
    let document = document(&ended, 7);
    let [dies, lives, nameless] = list(&document["test_cases"]) else {
        panic!("{document}")
    };
    let why = |case: &Value| {
        let failure = &case["iterations"][0]["failure"];
        failure.as_str().unwrap_or("").to_owned()
    };
    let of = |case: &Value| -> Vec<Value> {
        let trials = list(&document["trials"]).iter();
        let own = trials.filter(|trial| trial["test_case"] == case["test_case"]);
        own.cloned().collect()
    };
    let [trial] = &of(dies)[..] else {
        panic!("it is dead, and is not measured again: {document}")
    };
    let told = why(dies);
    let number = trial["trial"].as_u64().unwrap();
    assert!(
        told.starts_with("relay (process ")
            && told.ends_with(&format!(
                ") ended during trial {number}; its last words: starts | fatal: \\u{{1b}}[31mno buffer space"
            )),
        "{told}"
    );
    let reasons = trial["validity"]["reasons"].to_string();
    assert!(reasons.contains("relay (process "), "{reasons}");
    assert!(
        why(nameless).contains("it names $FWDLAB_DAEMONS, and has put no file there"),
        "{}",
        why(nameless)
    );
    let reasons: Vec<String> = of(lives)
        .iter()
        .map(|one| one["validity"].to_string())
        .collect();
    assert!(
        !reasons.is_empty() && !reasons.iter().any(|one| one.contains("process")),
        "{reasons:?}"
    );
    match why(lives) {
        failure if is_held_up(&failure) => skipped(THIS, "the sender was held up in every trial"),
        failure => assert_eq!(failure, ""),
    }
    tells(
        &lab.run(&["runs", "show", "@1"]),
        &["its last words: starts | fatal"],
    );
    lab.assert_clean("a campaign with daemons");
}

/// Profiles and directions on a simulated DUT that forwards a million frames per second of any kind, each way.
#[test]
fn what_is_sent_is_a_part_of_the_matrix() {
    let lab = Lab::new();
    let own = "[[stream]]\nlayers = ['ipv4', 'udp']\nsize = 200\n";
    file(&lab, "own.toml", own);
    let text = "campaign = 'traffic'\niterations = 2\nseed = 1\n[bed]\nengine = 'sim'\ndut = 'capacity=1e6'\nmax = '4Mpps'\n\
                [matrix]\nprofile = ['imix', 'own.toml']\ndirections = ['one', 'both']\nmodifier = ['none', 'broadcast']\n\
                exclude = [{ profile = 'own.toml', directions = 'both' }]\n\
                [procedure]\nid = 'mrr'\ntrials = 3";
    let path = file(&lab, "campaign.toml", text);
    let ended = lab.run(&["run", &path]);
    tells(
        &ended,
        &[
            "imix, plain series",
            "imix, both directions, broadcast",
            "own.toml, broadcast",
        ],
    );
    let document = document(&lab.run(&["run", &path, "--json"]), 0);
    let cases = list(&document["test_cases"]);
    let ids: Vec<&str> = cases
        .iter()
        .map(|case| case["test_case"].as_str().unwrap())
        .collect();
    assert_eq!(
        ids,
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
        // loads and rates are those of a direction, and the DUT has one capacity for both
        let rate = number(&case["figures"][0]["median"]);
        let both = case["test_case"]
            .as_str()
            .unwrap()
            .contains("both-directions");
        let capacity = if both { 0.5e6 } else { 1e6 };
        assert!((rate / capacity - 1.0).abs() < 1e-3, "{case}");
    }
    // the mean size stands for the profile
    assert_eq!(number(&cases[0]["frame_size_bytes"]), 362.0);
    let trials = list(&document["trials"]);
    let both = |trial: &&Value| trial["test_case"] == ids[2];
    assert!(
        trials
            .iter()
            .filter(both)
            .all(|trial| list(&trial["directions"]).len() == 2)
    );
    let directory = Path::new(document["directory"].as_str().unwrap());
    let kept = fs::read_to_string(directory.join("inputs/profiles/own.toml")).unwrap();
    assert_eq!(kept, own);
    lab.assert_clean("a campaign of profiles");
}

/// On the kernel of this host: rules are there in the test cases that say so, and frames go both ways in those.
#[test]
fn modifiers_and_profiles_of_the_matrix_on_the_bed() {
    const THIS: &str = "modifiers_and_profiles_of_the_matrix_on_the_bed";
    if !root(THIS) {
        return;
    }
    if try_tool(&["nft", "--version"]).is_err() {
        return skipped(THIS, "no nft");
    }
    let lab = Lab::new();
    // so few frames that veth's ring holds them all, however long the host keeps the DUT from its CPU
    let campaign = |matrix: &str| {
        let text = format!(
            "campaign = 'bed'\niterations = 2\nseed = 3\n[matrix]\n{matrix}\n[procedure]\nid = 'trial'\nload = '1kpps'\nfor = '200ms'"
        );
        let path = file(&lab, "campaign.toml", &text);
        let ended = lab.run(&["run", &path, "--json"]);
        let document: Value =
            serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{ended:?}"));
        let fails: Vec<&str> = list(&document["test_cases"])
            .iter()
            .flat_map(|case| list(&case["iterations"]))
            .filter_map(|iteration| iteration["failure"].as_str())
            .collect();
        match fails.iter().all(|why| is_held_up(why)) {
            true if !fails.is_empty() => {
                skipped(THIS, "the sender was held up in every trial of a test case")
            }
            _ => assert!(fails.is_empty(), "{fails:?}"),
        }
        document
    };
    let valid = |document: &Value, test_case: &str| -> Vec<Value> {
        let trials = list(&document["trials"]).iter();
        let of_case = |trial: &&Value| trial["test_case"] == test_case;
        assert!(trials.clone().any(|trial| of_case(&trial)), "{test_case}");
        let counts = |trial: &&Value| list(&trial["validity"]["reasons"]).is_empty();
        trials.filter(of_case).filter(counts).cloned().collect()
    };
    let is_forwarded = |counts: &Value| {
        let (sent, received) = (&counts["frames_sent"], &counts["frames_received"]);
        number(sent) > 0.0 && received == sent
    };
    let document = campaign("modifier = ['none', 'filters=25']\nflows = 1");
    let directory = Path::new(document["directory"].as_str().unwrap());
    let rules = directory.join("inputs/series/filters=25/filters.txt");
    let rules = fs::read_to_string(rules).unwrap();
    assert_eq!(rules.matches("counter drop").count(), 25, "{rules}");
    assert_eq!(rules.matches("counter accept").count(), 1, "{rules}");
    for test_case in ["plain/64B-1flow-ipv4", "plain/64B-1flow-ipv4/filters=25"] {
        for trial in valid(&document, test_case) {
            assert!(is_forwarded(&trial), "{trial}");
        }
    }
    let document = campaign("profile = 'imix'\ndirections = 'both'");
    for trial in valid(&document, "plain/imix/both-directions") {
        assert_eq!(number(&trial["frames_intended"]), 400.0, "{trial}");
        let ways = list(&trial["directions"]);
        assert!(ways.len() == 2 && ways.iter().all(is_forwarded), "{trial}");
    }
    lab.assert_clean("a campaign with modifiers");
}

#[test]
fn a_signal_keeps_what_was_measured() {
    if !root("a_signal_keeps_what_was_measured") {
        return;
    }
    let lab = Lab::new();
    let text = "campaign = 'long'\niterations = 100\n[bed]\nmax = '100kpps'\n[procedure]\nid = 'trial'\nload = '10kpps'\nfor = '200ms'";
    let path = file(&lab, "campaign.toml", text);
    let mut started = lab.start(&["run", &path, "--json-stream"]);
    started.event("iteration_finished");
    started.signal(Signal::INT);
    let ended = started.wait(Duration::from_secs(20));
    assert_eq!(ended.code, 130, "{ended:?}");
    lab.assert_clean("an interrupted campaign");
    let kept: Value =
        serde_json::from_str(&lab.run(&["runs", "show", "@1", "--json"]).out).unwrap();
    assert_eq!(kept["info"]["state"], "interrupted");
    assert!(!list(&kept["test_cases"][0]["iterations"]).is_empty());
}

/// A shipped campaign on the kernel of this host, with shorter trials: every configuration forwards, and what it was read from is kept.
#[test]
fn an_example_runs_on_the_kernel_of_this_host() {
    const TEST: &str = "an_example_runs_on_the_kernel_of_this_host";
    if !root(TEST) {
        return;
    }
    if try_tool(&["nft", "--version"]).is_err() {
        skipped(TEST, "no nft");
        return;
    }
    let lab = Lab::new();
    let sets = crate::support::example("");
    let text = fs::read_to_string(example("configurations.toml")).unwrap();
    let text = text
        .replace("iterations = 3", "iterations = 1")
        .replace("\"4s\"", "\"600ms\"")
        .replace("\"200ms\"", "\"100ms\"")
        .replace("\"500ms\"", "\"100ms\"")
        .replace("../config-sets", sets.trim_end_matches('/'));
    let ended = run(&lab, &text);
    let document: Value = serde_json::from_str(&ended.measured().out).unwrap();
    let cases = list(&document["test_cases"]);
    let ids: Vec<&str> = cases
        .iter()
        .map(|case| case["test_case"].as_str().unwrap())
        .collect();
    assert_eq!(
        ids,
        [
            "plain/64B-2000flows-ipv4",
            "plain/1518B-2000flows-ipv4",
            "stateful/64B-2000flows-ipv4",
            "stateful/1518B-2000flows-ipv4",
            "rules/64B-2000flows-ipv4",
        ]
    );
    for case in cases {
        assert!(number(&case["figures"][0]["median"]) > 0.0, "{case}");
    }
    let inputs = Path::new(document["directory"].as_str().unwrap()).join("inputs");
    assert!(
        inputs.join("rules/nft-100-rules").is_dir() && inputs.join("stateful/stateful").is_dir()
    );
    lab.assert_clean("an example");
}

/// What windows and slices cannot measure is said before anything is built.
#[test]
fn windows_and_slices_are_refused_what_they_cannot_measure() {
    let lab = Lab::new();
    let real = "campaign = 'c'\n";
    for (text, says) in [
        (
            "[bed]\nengine = 'sim'\n[procedure]\nid = 'paired'",
            ":5:6: slices compare real DUTs",
        ),
        (
            "[bed]\nengine = 'sim'\n[procedure]\nid = 'maxfwd'",
            ":5:6: windows are chosen by probes",
        ),
        (
            "[procedure]\nid = 'paired'\nreference = 'none'",
            ":4:13: there is no configuration `none`",
        ),
        (
            "[matrix]\ndirections = 'both'\n[procedure]\nid = 'paired'",
            ":2:2: slices send test frames one way",
        ),
        (
            "[matrix]\ndirections = 'both'\n[procedure]\nid = 'maxfwd'",
            ":2:2: windows measure one direction",
        ),
        (
            "[procedure]\nid = 'paired'\n[procedure.sweep]\nparameter = 'flows'\nvalues = [1, 2]",
            "the same traffic",
        ),
        (
            "[procedure]\nid = 'maxfwd'\n[procedure.sweep]\nparameter = 'rules'\nvalues = [1, 2]",
            "sweep by paired slices",
        ),
        (
            "[procedure]\nid = 'paired'\n[procedure.sweep]\nparameter = 'rules'\nvalues = [VALUES]",
            "72 DUTs would stand beside each other, 64 are the most",
        ),
    ] {
        let values: Vec<String> = (0..70).map(|n| n.to_string()).collect();
        let text = format!("{real}{}", text.replace("VALUES", &values.join(", ")));
        let path = file(&lab, "campaign.toml", &text);
        let ended = lab.run(&["check", &path]);
        assert_eq!(ended.code, 2, "{ended:?}");
        tells(&ended, &[says]);
    }
}

mod alone {
    use super::*;

    /// Ten thousand rules in front of every frame cost far more than the noise of any machine, also of one whose generator is starved.
    #[test]
    fn rules_cost_on_the_kernel_of_this_host() {
        if !root("rules_cost_on_the_kernel_of_this_host") {
            return;
        }
        if try_tool(&["nft", "--version"]).is_err() {
            skipped("rules_cost_on_the_kernel_of_this_host", "no nft");
            return;
        }
        let lab = Lab::alone();
        let text = "campaign = 'rules'\niterations = 1\nseed = 1\n[procedure]\nid = 'forwarding-rate'\nfor = '700ms'\nsample = '100ms'\n\
                    trim-start = '100ms'\ntrim-end = '100ms'\n[procedure.sweep]\nparameter = 'rules'\nvalues = [0, 10000]";
        let ended = run(&lab, text);
        let document: Value = serde_json::from_str(&ended.measured().out).unwrap();
        let case = &document["test_cases"][0];
        let medians: Vec<f64> = list(&case["outcomes"][0]["found"]["points"])
            .iter()
            .map(|point| number(&point["median_pps"]))
            .collect();
        assert!(medians[1] < 0.7 * medians[0], "{medians:?}");
        let order: Vec<u64> = list(&document["trials"])
            .iter()
            .map(|trial| trial["asked"]["question"]["setting"].as_u64().unwrap())
            .collect();
        assert_eq!((order[0], *order.last().unwrap()), (0, 0));
        lab.assert_clean("a campaign with rules");
    }

    /// Slices of DUTs beside each other: what rules cost, a configuration that cannot be applied leaves, and the others go on.
    #[test]
    fn slices_tell_costs_and_go_on_without_what_fails() {
        let name = "slices_tell_costs_and_go_on_without_what_fails";
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
        let case = |id: &str| {
            let mut cases = list(&document["test_cases"]).iter();
            let id = format!("{id}/64B-2000flows-ipv4");
            cases
                .find(|case| case["test_case"] == id.as_str())
                .unwrap()
                .clone()
        };
        let failures: Vec<String> = list(&case("bad")["iterations"])
            .iter()
            .map(|iteration| iteration["failure"].as_str().unwrap().to_owned())
            .collect();
        // beside others, the generator may not reach what a comparison needs
        if let Some(why) = failures.iter().find(|why| why.contains("cannot overload")) {
            return skipped(name, &format!("this host is too busy for slices: {why}"));
        }
        for why in &failures {
            assert!(
                why.contains("configuration `bad` could not be applied"),
                "{why}"
            );
        }
        let rebuilds = list(&document["rebuilds"]);
        assert_eq!(rebuilds.len(), 3);
        for rebuild in rebuilds {
            let compared: Vec<&str> = list(&rebuild["compared"])
                .iter()
                .map(|dut| dut["test_case"].as_str().unwrap())
                .collect();
            let plain = "plain/64B-2000flows-ipv4";
            let control = format!("{plain}/control");
            assert_eq!(compared, [plain, &control, plain, plain]);
            for ledger in list(&rebuild["ledgers"]) {
                assert_eq!(number(&ledger["frames_unexplained"]), 0.0);
            }
        }
        lab.assert_clean("a campaign by slices");
        let outcomes = &case("plain")["outcomes"];
        let used = outcomes[0]["found"]["points"][1]["comparison"]["values_percent"].as_array();
        if used.is_none_or(|values| values.len() < 3) {
            let why = case("plain")["iterations"][0]["failure"].to_string();
            return skipped(name, &format!("this host is too busy for slices: {why}"));
        }
        assert_eq!(ended.code, 7, "{ended:?}");
        let found = &outcomes[0]["found"];
        let thousands = &found["points"][1]["comparison"];
        assert_eq!(thousands["verdict"], "less", "{found}");
        // 12 ns a rule where this was written
        let unit_ns = number(&found["slope"]["unit_ns"]);
        assert!((1.0..200.0).contains(&unit_ns), "{found}");
        // compared pair by pair, not as two heaps of values
        let compared = lab.run(&["compare", "@1", "--by", "rules"]);
        tells(&compared, &["3000"]);
        let verified = lab.run(&["runs", "verify"]);
        verified.code(0).says(&[" 0 damaged"]);
    }

    /// Without a reference nothing can be compared: that is said of every test case, once for each iteration, and the campaign ends.
    #[test]
    fn a_reference_that_cannot_be_applied_ends_in_words() {
        if !root("a_reference_that_cannot_be_applied_ends_in_words") {
            return;
        }
        let lab = Lab::alone();
        let campaign = |reference: &str, configuration: &str| {
            let text = format!(
                "campaign = 'c'\niterations = 2\n[configuration]\nbad = 'exit 3'\nworse = 'exit 4'\n[matrix]\n\
                 configuration = {configuration}\n[procedure]\nid = 'paired'\nload = '10kpps'\nreference = '{reference}'\nfor = '100ms'"
            );
            document(&run(&lab, &text), 5)
        };
        for (reference, configurations, says) in [
            ("bad", "['plain', 'worse']", &["`bad`", "`worse`"][..]),
            ("plain", "['bad', 'worse']", &["`bad`", "`worse`"]),
        ] {
            let document = campaign(reference, configurations);
            for (case, says) in list(&document["test_cases"]).iter().zip(says) {
                let iterations = list(&case["iterations"]);
                assert_eq!(iterations.len(), 2);
                for iteration in iterations {
                    let why = iteration["failure"].as_str().unwrap();
                    let is_told = why.contains("could not be applied")
                        && (why.contains(says) || why.contains("`bad`"));
                    assert!(is_told, "{why}");
                }
            }
        }
        lab.assert_clean("campaigns whose configurations fail");
    }

    /// Hooks on the DUT and on this machine: one that has no end is ended with its trial, one that hangs costs its test case.
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
        let why = lost["iterations"][0]["failure"].as_str().unwrap();
        assert!(
            why.starts_with("hook before: ") && why.contains("had no end after 1 s"),
            "{why}"
        );
        let directory = Path::new(document["directory"].as_str().unwrap());
        let records = json_lines(&directory.join("hooks.jsonl"));
        let of = |when: &str| {
            records
                .iter()
                .filter(|one| one["when"] == when)
                .collect::<Vec<_>>()
        };
        let first = of("before")[0]["output"].as_str().unwrap().to_owned();
        assert!(first.contains("eth0@"), "{first}");
        // a busy machine may take some trials for a valid one
        let during = *of("during").last().unwrap();
        assert_eq!(during["status"], "ended with the trial");
        let lasted = number(&during["duration_s"]);
        assert!(
            during["failure"].is_null() && (0.5..5.0).contains(&lasted),
            "{during}"
        );
        // the DUT's own ports, while they forward: from its first look on frames have come
        let said = during["output"].as_str().unwrap().lines();
        let looks: Vec<u64> = said
            .filter(|line| line.trim_start().starts_with("eth0"))
            .filter_map(|line| line.split_whitespace().nth(2)?.parse().ok())
            .collect();
        assert!(looks.len() > 1 && looks.last() > looks.first(), "{looks:?}");
        assert_eq!(of("after").len(), of("during").len());
        lab.assert_clean("a campaign with hooks");
    }

    /// Routes that are rewritten: that of the frames among 2000 others is back after more than a second, or is replaced at once.
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
            // what other people's programs did to the speed of the CPUs is no part of a dip: what was not sent is not missing
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
        // the truth, by the clock of the DUT, which may have been held up by others
        let told: Vec<(&str, f64)> = list(&planted["moments"])
            .iter()
            .map(|moment| (moment["name"].as_str().unwrap(), number(&moment["at_s"])))
            .collect();
        let [
            ("deleting", first),
            ("deleted", from),
            ("adding", to),
            ("added", last),
        ] = told[..]
        else {
            panic!("{planted}");
        };
        let (least, most) = (to - from, last - first);
        assert!(least >= 1.0, "{planted}");
        assert!(number(&planted["depth"]) > 0.99, "{planted}");
        // intervals of 100 ms, longer where the tester is held up: all but the two at its ends are empty
        let blackout = number(&planted["blackout_s"]);
        assert!(
            (0.9 * least - 0.3..most + 0.5).contains(&blackout),
            "{planted}"
        );
        let deficit = number(&planted["deficit_s"]);
        assert!(0.0 < deficit && deficit < most + 0.6, "{planted}");
        let frames = number(&planted["deficit_frames"]);
        let seconds = frames / number(&planted["base_pps"]);
        assert!(
            (seconds - number(&planted["deficit_s"])).abs() < 0.01,
            "{planted}"
        );
        assert_eq!(nothing["moments"], Value::Null);
        // what was not sent is not missing
        match number(&planted["fell_short_ratio"]) < 0.1 {
            true => assert!(deficit > least - 0.15, "{planted}"),
            false => skipped(
                name,
                "the tester was held up, so that frames that it did not send are not missing",
            ),
        }
        assert!(number(&nothing["blackout_s"]) < 0.2, "{nothing}");
        assert!(number(&nothing["deficit_s"]) < 0.3, "{nothing}");
        lab.assert_clean("events under load");
    }

    /// Windows of quiet moments, in a campaign with its A/A control.
    #[test]
    fn windows_measure_test_cases_and_their_control() {
        let name = "windows_measure_test_cases_and_their_control";
        if !root(name) {
            return;
        }
        let lab = Lab::alone();
        let text = "campaign = 'max'\niterations = 2\nseed = 1\n[matrix]\nsize = [64, 512]\n[procedure]\nid = 'maxfwd'\n\
                    for = '300ms'";
        let ended = run(&lab, text);
        // iterations without quiet windows are no fault of ours
        assert!([0, 5, 7].contains(&ended.code), "{ended:?}");
        let document: Value = serde_json::from_str(&ended.out).unwrap();
        let trials = list(&document["trials"]);
        let controls = trials.iter().filter(|trial| trial["control"] == true);
        assert!(controls.count() >= 2);
        let is_valid = |trial: &&Value| list(&trial["validity"]["reasons"]).is_empty();
        let valid: Vec<&Value> = trials.iter().filter(is_valid).collect();
        for trial in &valid {
            crate::conservation::conserved(trial);
            assert!(number(&trial["frames_received"]) > 0.0, "{trial}");
        }
        if valid.is_empty() {
            skipped(name, "this host is so busy that no trial was valid");
        }
        let cases = list(&document["test_cases"]);
        assert_eq!(cases.len(), 2);
        assert_eq!(document["control"]["control"], true);
        for case in cases {
            for iteration in list(&case["iterations"]) {
                let found = &iteration["outcomes"][0]["found"];
                let windows = found["quiet"]["windows"].as_f64().unwrap_or(0.0);
                let has_rate = found["forwarding_rate_pps"].is_number();
                assert_eq!(has_rate, iteration["failure"].is_null(), "{iteration}");
                assert!(!has_rate || windows >= 10.0, "{iteration}");
            }
        }
        lab.assert_clean("a campaign by windows");
        let verified = lab.run(&["runs", "verify"]);
        verified.code(0).says(&[" 0 damaged"]);
    }

    /// A DUT that loses every fourth echo on its management port, one command that takes 50 ms, one that fails while frames flow, and one with
    /// which nothing is wrong.
    #[test]
    fn requests_to_the_management_of_a_dut_are_answered_as_was_planted() {
        const THIS: &str = "requests_to_the_management_of_a_dut_are_answered_as_was_planted";
        if !root(THIS) {
            return;
        }
        let lab = Lab::alone();
        let simulated = "campaign = 'm'\n[bed]\nengine = 'sim'\ndut = 'capacity=1e6,link=10Gbps'\n[procedure]\nid = 'management'";
        let refused = run(&lab, simulated);
        assert!(
            refused.code != 0 && refused.err.contains("a simulated DUT has no management"),
            "{refused:?}"
        );
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
patience = '3s'
ask = ['echo', 'command: sleep 0.05', 'command: true', '''command:
r() { sed -n 's/ *eth0: *[0-9]* *\([0-9]*\).*/\1/p' /proc/net/dev; }
a=$(r); sleep 0.03; b=$(r); [ $b -lt $((a + 10)) ]''']
"#;
        let ended = run(&lab, text);
        // counts hold on a machine that is too noisy for rates
        let document: Value = serde_json::from_str(&ended.measured().out).unwrap();
        let outcome = &document["test_cases"][0]["outcomes"][0];
        if outcome["answered"] != true {
            let why = "this host is so busy that no trial was valid, or a command had no answer within 3 s";
            return skipped(THIS, why);
        }
        let loads = list(&outcome["found"]["loads"]);
        let names: Vec<&str> = loads
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["0 %", "flood"], "{outcome}");
        assert!(number(&loads[0]["offered_load_pps"]) < 1.0, "{outcome}");
        assert!(number(&loads[1]["forwarding_rate_pps"]) > 0.0, "{outcome}");
        let [echo, slow, nothing, under] = list(&outcome["found"]["requests"]) else {
            panic!("{outcome}")
        };
        let of = |one: &Value, load: usize, key: &str| number(&one["at"][load][key]);
        for load in [0, 1] {
            // one in four, wherever the four began
            let (asked, lost) = (of(echo, load, "asked"), of(echo, load, "lost"));
            assert!(lost >= 1.0 && (lost - asked / 4.0).abs() <= 2.0, "{echo}");
            for fine in [slow, nothing] {
                assert_eq!(of(fine, load, "wrong"), 0.0, "{fine}");
            }
        }
        let smallest = |one: &Value| number(&one["at"][0]["round_trip_s"]["min"]);
        assert!(smallest(slow) >= 0.05, "{slow}");
        assert!(smallest(nothing) < smallest(slow), "{nothing}");
        // the last one at rest may end in the flood
        assert!(of(under, 0, "wrong") <= 1.0, "{under}");
        let (asked, wrong) = (of(under, 1, "asked"), of(under, 1, "wrong"));
        assert!(2.0 * wrong > asked, "{under}");
        let warnings = outcome["warnings"].to_string();
        assert!(warnings.contains("exit status: 1"), "{warnings}");
        tells(
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
nat = "nft add table ip nat"
wrong = "false"
[matrix]
configuration = ["plain", "nat", "wrong"]
size = 64
[procedure]
id = "trial"
load = "1kpps"
for = "300ms"
"#;

/// `kill -9` in the middle, and on with it; what has failed, once more; and only what is meant.
#[test]
fn a_killed_campaign_goes_on() {
    if !root("a_killed_campaign_goes_on") {
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

    // whoever changes the file meanwhile is told
    fs::write(&path, CUT.replace("300ms", "400ms")).unwrap();
    let ended = lab.run(&["run", "--resume", "@1"]);
    ended
        .code(2)
        .says(&["cannot resume", "inputs/campaign.toml"]);
    fs::write(&path, CUT).unwrap();

    let ended = lab.run(&["run", "--resume", "@1", "--json"]);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(document["info"]["id"], *id);
    let gap = &document["info"]["gaps"][0];
    assert_eq!(number(&gap["after"]), before as f64, "{gap}");
    let cases = list(&document["test_cases"]);
    assert_eq!(cases.len(), 3);
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
    // what was made before is not made again
    let events = json_lines(&run.join("events.jsonl"));
    let finished = events
        .iter()
        .filter(|event| event["event"] == "iteration_finished");
    let of_first = finished.filter(|event| event["test_case"] == made);
    assert_eq!(of_first.count(), 2);
    assert!(events.iter().any(|event| event["event"] == "run_resumed"));
    lab.assert_clean("after kill -9 and the rest");
    lab.run(&["runs", "verify", "@1"]).code(0);
    let ended = lab.run(&["run", "--resume", &id]);
    ended.code(2).says(&["has come to its end", "--failed-of"]);

    // what is wrong is mended, and only that is measured
    fs::write(&path, CUT.replace("false", "true")).unwrap();
    let ended = lab.run(&[
        "run",
        "--failed-of",
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
    assert_eq!(document["info"]["parameters"]["failed_of"], *id);
    let ended = lab.run(&["plan", &path, "--only", "size:65"]);
    ended.code(2).says(&[
        "--only size:65",
        "no test case is meant; there are plain/64B-2000flows-ipv4",
    ]);
    let ended = lab.run(&["plan", &path, "--only", "confguration:nat"]);
    ended.code(2).says(&["did you mean `configuration`?"]);
}
