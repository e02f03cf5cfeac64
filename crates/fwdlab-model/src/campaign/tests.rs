//! Tests of parsing campaigns, and of the positions in errors.

use super::*;
use crate::trial::IpVersion;
use crate::variant::{Destinations, Modifiers};

const WHOLE: &str = r#"
fwdlab = "0.1"
campaign = "firewalls"
about = "Cost of rules"
iterations = 3
order = "grouped"
seed = 7

[bed]
engine = "af-packet"
dut-cpus = [1]
max = "1Mpps"

[configuration]
stateless = "nft add table ip t"
both = ["configs/base", "sysctl -w net.ipv4.x=1"]

[matrix]
configuration = ["plain", "stateless", "both"]
size = [84, 512]
flows = [1, 2000]
ip = ["ipv4", "ipv6"]
exclude = [{ configuration = "both", size = 512 }, { ip = "ipv6", flows = 1 }]

[procedure]
id = "throughput"
trial = "10s"
resolution = "1%"
repetitions = 2

[procedure.sweep]
parameter = "rules"
values = [0, 10, 100]
runs = 2
"#;

fn parse(text: &str) -> Result<Campaign, FileError> {
    Campaign::parse("c.toml", text)
}

fn least(more: &str) -> String {
    format!("campaign = 'c'\n{more}\n[procedure]\nid = 'mrr'\n")
}

#[test]
fn every_option_can_be_written() {
    let campaign = parse(WHOLE).unwrap();
    assert_eq!(
        (campaign.name.as_str(), campaign.iterations),
        ("firewalls", 3)
    );
    assert_eq!((campaign.order, campaign.seed), (Order::Grouped, Some(7)));
    assert_eq!(campaign.configurations["both"].len(), 2);
    // 3 configurations x 2 sizes x 2 flows x 2 versions = 24; without the 4 and the 5 remaining of
    // the 6 with one flow of IPv6
    assert_eq!(campaign.cases.len(), 24 - 4 - 5);
    assert_eq!(campaign.cases[0].id(), "plain/84B-1flow-ipv4");
    let Procedure::Throughput(test) = &campaign.procedure else {
        panic!("{:?}", campaign.procedure)
    };
    assert_eq!(test.trial.unwrap().ns(), 10_000_000_000);
    assert_eq!(
        (test.resolution.0, test.repetitions, test.search),
        (0.01, Some(2), None)
    );
    assert_eq!(campaign.sweep.unwrap().values, [0, 10, 100]);
}

#[test]
fn omitted_options_have_defaults() {
    let campaign = parse(&least("")).unwrap();
    assert_eq!(
        (campaign.iterations, campaign.order),
        (5, Order::Interleaved)
    );
    let ids: Vec<String> = campaign.cases.iter().map(Case::id).collect();
    assert_eq!(ids, ["plain/64B-2000flows-ipv4"]);
    assert_eq!(campaign.procedure, Procedure::Mrr(Mrr::default()));
    let campaign = parse(&least("[configuration]\na = 'true'\n[matrix]\nip = 'ipv6'")).unwrap();
    let ids: Vec<String> = campaign.cases.iter().map(Case::id).collect();
    assert_eq!(ids, ["a/84B-2000flows-ipv6"]);
}

#[test]
fn every_procedure_has_its_defaults() {
    for id in Procedure::IDS {
        // power must be read while frames flow
        let more = match *id {
            "energy" => "\n[telemetry]\nevery = '1s'",
            _ => "",
        };
        let text = format!("campaign = 'c'\n[procedure]\nid = '{id}'{more}");
        let campaign = parse(&text).unwrap();
        assert_eq!(campaign.procedure.id(), *id);
        assert!(Procedure::about(id).is_some_and(|words| words.len() > 10));
    }
    assert_eq!(
        Procedure::about("trial"),
        Some("One trial: one load for a given time")
    );
    assert_eq!(Procedure::about("no-such"), None);
}

#[test]
fn former_keys_are_read() {
    for (now, former) in [
        (
            "id = 'trial'\nlatency = true",
            "id = 'trial'\ndelays = true",
        ),
        (
            "id = 'management'\nrequests = ['ssh']\ntimeout = '1s'",
            "id = 'management'\nask = ['ssh']\npatience = '1s'",
        ),
        (
            "id = 'churn'\nevent = 'true'\ntimeout = '60s'",
            "id = 'churn'\nevent = 'true'\nlongest = '60s'",
        ),
    ] {
        let read = |keys: &str| {
            let text = format!("campaign = 'c'\niterations = 1\n[procedure]\n{keys}\n");
            parse(&text).unwrap().procedure
        };
        assert_eq!(read(former), read(now));
        assert_ne!(read(now), read(now.split('\n').next().unwrap()));
    }
}

#[test]
fn numbers_and_texts_are_equivalent() {
    let of = |keys: &str| {
        parse(&format!("campaign = 'c'\n[procedure]\n{keys}"))
            .unwrap()
            .procedure
    };
    assert_eq!(
        of("id = 'plr'\nloss = 1e-6\nmin = 10000"),
        of("id = 'plr'\nloss = '0.0001%'\nmin = '10kpps'")
    );
    assert_eq!(
        of("id = 'latency'\nlatency-at = [50]"),
        of("id = 'latency'\nlatency-at = ['50%']")
    );
}

/// Every error with its line and column, and a suggestion.
#[test]
fn errors_have_a_position() {
    for (from, to, reported) in [
        (
            "iterations",
            "iteratons",
            "5:1: unknown key `iteratons`; did you mean `iterations`?",
        ),
        (
            "iterations = 3",
            "iterations = 0",
            "5:14: iterations must be 1 to 1000",
        ),
        (
            "iterations = 3",
            "iterations = '3'",
            "5:14: found string \"3\", expected a number, or { until = \"±1%\", min = 10, max = 50 }",
        ),
        (
            "\"grouped\"",
            "\"groupd\"",
            "6:9: unknown name `groupd`; did you mean `grouped`?",
        ),
        (
            "\"firewalls\"",
            "\"fire walls\"",
            "3:12: a name consists of",
        ),
        (
            "dut-cpus = [1]",
            "senders = 0",
            "11:11: 0 senders on a port; 1 to 16 are possible",
        ),
        (
            "dut-cpus = [1]",
            "dut = 'capacity=1e6'",
            "11:7: this describes a simulated DUT: add engine = \"sim\"",
        ),
        ("\"1Mpps\"", "\"max\"", "12:7: give a load"),
        ("\"1Mpps\"", "\"1Mps\"", "12:7: `1Mps` is not a load"),
        (
            "\"af-packet\"",
            "\"sim\"",
            "11:1: a simulated DUT has no CPUs",
        ),
        (
            "stateless = ",
            "plain = ",
            "15:9: plain is the router without",
        ),
        ("\"nft add table ip t\"", "\" \"", "15:13: it is empty"),
        (
            "\"stateless\", \"both\"]",
            "\"stateles\"]",
            "19:27: there is no configuration `stateles`; did you mean `stateless`?",
        ),
        (
            "\"stateless\", \"both\"]",
            "\"stateless\", \"plain\"]",
            "19:1: plain is listed twice",
        ),
        ("[84, 512]", "[84, 63]", "20:13: `63` is not a frame size"),
        (
            "[84, 512]",
            "[64, 512]",
            "20:9: `64` is not a frame size for this stream: IPv6",
        ),
        ("[84, 512]", "[]", "20:1: size is empty"),
        ("[1, 2000]", "[1, 0]", "21:13: `0` is not a number of flows"),
        (
            "[\"ipv4\", \"ipv6\"]",
            "\"ipv5\"",
            "22:6: unknown name `ipv5`; did you mean",
        ),
        ("size = 512 }", "size = 64 }", "23:12: no test case matches"),
        (
            "{ configuration = \"both\", size = 512 }",
            "{}",
            "23:1: every test case is excluded",
        ),
        (
            "\"throughput\"",
            "\"throughputt\"",
            "26:6: there is no procedure `throughputt`; did you mean `throughput`?",
        ),
        ("id = \"throughput\"\n", "", "25:2: the procedure has no id"),
        (
            "trial = \"10s\"",
            "trial = 10",
            "27:9: found integer `10`, expected a time in quotes",
        ),
        (
            "trial = \"10s\"",
            "trial = \"10\"",
            "27:9: `10` is not a duration",
        ),
        (
            "resolution",
            "resolutoin",
            "28:1: unknown key `resolutoin`; did you mean `resolution`?",
        ),
        ("\"1%\"", "\"200%\"", "28:14: `200%` is not a share"),
        ("[0, 10, 100]", "[0, 10, 10]", "33:1: 10 is listed twice"),
        (
            "[0, 10, 100]",
            "[0]",
            "33:1: a sweep needs at least two values",
        ),
        ("runs = 2", "runs = 0", "34:8: runs must be 1 to 10000"),
        ("runs = 2", "undo = 'x'", "34:8: undo requires apply"),
        ("runs = 2", "apply = 'x'", "34:9: {} is the placeholder"),
        ("\"rules\"", "\"flows\"", "21:1: the sweep varies flows"),
        (
            "dut-cpus = [1]",
            "host = 'x'",
            "11:1: unknown key `host`; known are file,",
        ),
        (
            "seed = 7",
            "seed = 7 8",
            "7:8: string values must be quoted",
        ),
    ] {
        assert!(WHOLE.contains(from), "{from}");
        let error = parse(&WHOLE.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("c.toml:{reported}")),
            "{to}: {error}"
        );
    }
    for (text, reported) in [
        (
            "campaign = 'c'",
            "there is no [procedure]; add [procedure] with id = one of trial, ",
        ),
        ("[procedure]\nid = 'mrr'", "missing key `campaign`"),
        (
            "campaign = 'c'\nprocedure = 'mrr'",
            "a procedure is a table",
        ),
        (
            "bed = ''\ncampaign = 'c'\n[procedure]\nid = 'mrr'",
            "it is empty; give the name of a test bed",
        ),
        (
            "bed = 'apu2'\ncampaign = 'c'\n[dut]\nhost = 'vm:x'\n[procedure]\nid = 'mrr'",
            "the test bed defines the DUT",
        ),
        (
            "bed = 7\ncampaign = 'c'\n[procedure]\nid = 'mrr'",
            "found integer `7`, expected the name of a test bed, or a table",
        ),
        (
            "campaign = 'c'\n[procedure]\nid = 'mrr'\n[procedure.sweep]\nparameter = 'rules'",
            "missing key `values`",
        ),
        (
            "campaign = 'c'\n[bed]\nengine = 'sim'\n[configuration]\na = 'true'\n[procedure]\nid = 'mrr'",
            "configurations are for the test bed",
        ),
        (
            "campaign = 'c'\n[procedure]\nid = 'mrr'\n[procedure.sweep]\nparameter = 'size'\nvalues = [64, 20000]",
            "c.toml:6:1: `20000` is not a frame size",
        ),
        (
            "campaign = 'c'\n[procedure]\nid = 'mrr'\n[procedure.sweep]\nparameter = 'flows'\nvalues = [1, 70000]",
            "c.toml:6:1: `70000` is not a number of flows",
        ),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(reported), "{text}: {error}");
    }
}

#[test]
fn traffic_of_the_matrix() {
    let ids = |more: &str| -> Vec<String> {
        let campaign = parse(&least(more)).unwrap();
        campaign.cases.iter().map(Case::id).collect()
    };
    assert_eq!(
        ids("[matrix]\nprofile = ['imix', 'flows/5000']\ndirections = ['one', 'both']"),
        [
            "plain/imix",
            "plain/imix/both-directions",
            "plain/flows/5000",
            "plain/flows/5000/both-directions"
        ]
    );
    // one address pair is a single test case
    assert_eq!(
        ids(
            "[matrix]\nflows = [5, 7]\ndestinations = ['flows', 'single', 'random']\nexclude = [{ destinations = 'flows', flows = 5 }]"
        ),
        [
            "plain/64B-1flow-ipv4/one-address-pair",
            "plain/64B-256flows-ipv4/random-destinations",
            "plain/64B-7flows-ipv4"
        ]
    );
    let modified = "[matrix]\nmodifier = ['none', 'filters=25', 'broadcast,updates=10s']\nexclude = [{ modifier = 'filters=25' }]";
    assert_eq!(
        ids(modified),
        [
            "plain/64B-2000flows-ipv4",
            "plain/64B-2000flows-ipv4/broadcast-+-updates-every-10-s"
        ]
    );
    // a non-plain variant is kept, and a plain one looks the same as before
    let case = &parse(&least(modified)).unwrap().cases[1];
    let kept = serde_json::to_value(case).unwrap();
    assert_eq!(kept["variant"]["modifiers"][0]["kind"], "broadcast");
    let back: Case = serde_json::from_value(kept).unwrap();
    assert_eq!(back, *case);
    let plain = serde_json::to_value(&parse(&least("")).unwrap().cases[0]).unwrap();
    assert_eq!(plain.get("variant"), None);

    for (more, reported) in [
        (
            "[matrix]\nprofile = 'imix'\nsize = 64",
            "4:8: profiles define what is sent: omit size or profile",
        ),
        (
            "[matrix]\nprofile = []",
            "profile is empty, so there would be no test case; omit profile for the default",
        ),
        (
            "[matrix]\nmodifier = ['none', 'none']",
            "none is listed twice",
        ),
        (
            "[matrix]\nmodifier = 'brodcast'",
            "3:12: there is no `brodcast`; there are broadcast, management",
        ),
        (
            "[bed]\nengine = 'sim'\n[matrix]\nmodifier = ['none', 'filters=1']",
            "5:21: a simulated DUT has no rules, routes",
        ),
        ("[matrix]\ndirections = 'tow'", "3:14: unknown name `tow`"),
        (
            "[matrix]\nprofile = 'imix'\n[procedure.sweep]\nparameter = 'flows'\nvalues = [1, 2]",
            "profiles define what is sent, flows included",
        ),
    ] {
        let error = parse(&least(more)).unwrap_err().to_string();
        assert!(error.contains(reported), "{more}: {error}");
    }
}

/// Every count, and every product of counts, is refused before anything is built: each of these
/// would fill the memory, or take years.
#[test]
fn counts_have_bounds_and_so_have_their_products() {
    let many = |from: u32, to: u32| -> String {
        let all: Vec<String> = (from..=to).map(|n| n.to_string()).collect();
        format!("[{}]", all.join(","))
    };
    let (hundred, thousand) = (many(1, 100), many(64, 1063));
    let sweep = |values: &str, runs: u32| {
        format!(
            "campaign = 'c'\niterations = 1\n[procedure]\nid = 'mrr'\ntrials = 1\n[procedure.sweep]\nparameter = 'rules'\nvalues = {values}\nruns = {runs}\n"
        )
    };
    let procedure = |keys: &str| format!("campaign = 'c'\n[procedure]\n{keys}\n");
    for (text, reported) in [
        (
            sweep("[0, 1]", 2_147_483_647),
            "9:8: runs must be 1 to 10000",
        ),
        (
            sweep(&many(0, 1000), 1),
            "8:1: 1001 values; the maximum is 1000",
        ),
        (
            sweep(&many(0, 999), 100),
            "9:8: 100 runs at each of 1000 values are 99903 measurements; the maximum is 10000",
        ),
        (
            format!(
                "iterations = 1000\n{}",
                sweep("[0, 1]", 9000).replace("iterations = 1\n", "")
            ),
            "9:8: 1000 iterations times 9003 measurements of a sweep are at least 9003000 trials; the maximum is 1000000",
        ),
        (
            procedure("id = 'mrr'\ntrials = 4294967295"),
            "4:10: trials must be 1 to 10000",
        ),
        (
            procedure("id = 'mrr'\ntrials = 0"),
            "4:10: trials must be 1 to 10000",
        ),
        (
            procedure("id = 'back-to-back'\nrepetitions = 4294967295"),
            "4:15: repetitions must be 1 to 10000",
        ),
        (
            procedure("id = 'trial'\nsample = '0.001ms'\nfor = '10s'"),
            "4:10: 10000000 samples in one trial; the maximum is 1000000",
        ),
        (
            procedure("id = 'ramp'\nramp = '0.1s'\nhold = '24h'\nsample = '0.01ms'"),
            "6:10: 8643010000 samples in one trial",
        ),
        (
            procedure("id = 'forwarding-rate'\nsample = '0.000001ms'"),
            "4:10: 60000000000 samples in one trial",
        ),
        (
            procedure(&format!("id = 'latency'\nlatency-at = {}", many(1, 101))),
            "4:1: 101 items; the maximum is 100",
        ),
        (
            procedure(&format!(
                "id = 'latency'\nrepetitions = 10000\nlatency-at = {hundred}"
            )),
            "2:2: 5 iterations times 1000000 trials or repetitions are at least 5000000 trials",
        ),
        (
            format!(
                "campaign = 'c'\n[matrix]\nsize = {thousand}\nflows = {hundred}\n[procedure]\nid = 'mrr'"
            ),
            "2:2: 1000 of size times 100 of flows are 100000 test cases; the maximum is 10000",
        ),
        (
            format!(
                "campaign = 'c'\niterations = 200\n[matrix]\nflows = {}\n[procedure]\nid = 'soak'",
                many(1, 10_000)
            ),
            "3:2: 10000 test cases times 200 iterations are at least 2000000 trials",
        ),
    ] {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("c.toml:{reported}")), "{error}");
    }
    // values at the limits are not their concern
    for text in [
        sweep("[0, 1]", 9997),
        procedure("id = 'mrr'\ntrials = 10000"),
    ] {
        parse(&text).unwrap();
    }
}

/// Kinds are a dimension like any other. Linux keeps its old name.
#[test]
fn kinds_of_duts_are_set_in_the_matrix_or_in_the_dut() {
    let ids = |text: &str| -> Vec<String> {
        let campaign = parse(&least(text)).unwrap();
        campaign.cases.iter().map(Case::id).collect()
    };
    let both = ["plain/64B-2000flows-ipv4", "plain/64B-2000flows-ipv4@vpp"];
    assert_eq!(ids("[matrix]\ndut = ['linux', 'vpp']"), both);
    assert_eq!(ids("[dut]\nkind = 'vpp'\nworkers = 2"), both[1..]);
    assert_eq!(
        ids("[matrix]\ndut = ['linux', 'vpp']\nsize = [64, 512]\nexclude = [{ dut = 'vpp', size = 512 }]").len(),
        3
    );
    for (text, reported) in [
        (
            "[dut]\nkind = 'vqp'",
            "3:8: unknown name `vqp`; did you mean `vpp`?",
        ),
        (
            "[dut]\nworkers = 2",
            "3:11: this is for VPP: set kind = \"vpp\"",
        ),
        (
            "[dut]\nkind = 'vpp'\n[matrix]\ndut = 'linux'",
            "5:7: [matrix] has kinds of DUTs, and dut.kind is one",
        ),
        (
            "[dut]\nkind = 'vpp'\nhost = 'vm:debian:x'\nworkers = 1",
            "3:8: in a virtual machine VPP has one CPU",
        ),
        (
            "[matrix]\nimage = 'debian:x'\ndut = ['linux', 'vpp-huge-pages']",
            "4:1: in a virtual machine VPP has one CPU",
        ),
        (
            "[bed]\nengine = 'sim'\n[dut]\nkind = 'vpp'",
            "5:8: a simulated DUT has no kind",
        ),
        (
            "[bed]\nengine = 'sim'\n[matrix]\ndut = ['linux', 'vpp']",
            "5:1: VPP is measured in a namespace of this machine",
        ),
        (
            "[dut]\nkind = 'vpp'\nworkers = 65",
            "4:11: VPP has at most 64",
        ),
        (
            "[matrix]\ndut = ['vpp-huge-page']",
            "3:8: unknown name `vpp-huge-page`; did you mean `vpp-huge-pages`?",
        ),
        ("[matrix]\ndut = ['vpp', 'vpp']", "3:1: vpp is listed twice"),
        (
            "[dut]\nkind = 'testpmd'",
            "3:8: the instructions of testpmd are counted in a virtual machine",
        ),
        (
            "[matrix]\nimage = 'debian:x'\n[dut]\nkind = 'testpmd'\nworkers = 1",
            "6:11: this is for VPP",
        ),
    ] {
        let error = parse(&least(text)).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("c.toml:{reported}")),
            "{text}: {error}"
        );
    }
}

#[test]
fn telemetry_as_it_is_asked_for() {
    assert_eq!(parse(&least("")).unwrap().telemetry, None);
    let requested = "[telemetry]\nevery = '1s'\ncollect = ['cpu', 'ethtool']\npower = 'meter'\nperf = { for = '5s' }";
    let found = parse(&least(requested)).unwrap().telemetry.unwrap();
    assert_eq!(found.every, Some(Period::seconds(1)));
    assert_eq!(found.collect, Some(vec![Subject::Cpu, Subject::Ethtool]));
    assert_eq!(found.power.as_deref(), Some("meter"));
    assert_eq!(found.perf.unwrap().time, Period::seconds(5));
    let all = parse(&least("[telemetry]")).unwrap().telemetry.unwrap();
    assert_eq!(all, Telemetry::default());
    for (more, reported) in [
        (
            "[telemetry]\nevry = '1s'",
            "3:1: unknown key `evry`; did you mean `every`?",
        ),
        ("[telemetry]\nevery = '1'", "3:9: `1` is not a duration"),
        ("[telemetry]\nevery = '50ms'", "3:9: a sample costs the DUT"),
        ("[telemetry]\ncollect = ['cpus']", "3:12: "),
        ("[telemetry]\npower = ' '", "3:9: give a command"),
        (
            "[telemetry]\nperf = { during = 'PDR' }",
            "3:10: unknown key `during`",
        ),
        (
            "[bed]\nengine = 'sim'\n[telemetry]",
            "4:2: a simulated DUT has no host",
        ),
    ] {
        let error = parse(&least(more)).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("c.toml:{reported}")),
            "{more}: {error}"
        );
    }
    for (id, reported) in [("paired", "share a host"), ("exact", "instructions")] {
        let text = format!("campaign = 'c'\n[telemetry]\n[procedure]\nid = '{id}'\n");
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains(reported), "{id}: {error}");
    }
}

fn refused(cases: &[(&str, &str)]) {
    for (more, reported) in cases {
        let error = parse(&least(more)).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("c.toml:{reported}")),
            "{more}: {error}"
        );
    }
}

#[test]
fn iterations_until_an_interval_is_narrow() {
    let of = |text: &str| parse(&least(&format!("iterations = {text}"))).unwrap();
    let usual = of("{ until = '±1%' }");
    let until = usual.until.unwrap();
    assert_eq!(
        (until.width, until.min, usual.iterations),
        (HalfWidth(0.01), 10, 50)
    );
    assert_eq!(usual.iterations_in_words(), "10 to 50 iterations");
    for text in ["'1%'", "'+-1 %'", "0.01", "' ± 1% '"] {
        let found = of(&format!("{{ until = {text}, min = 5, max = 7 }}"));
        assert_eq!(
            found.until.map(|until| (until.width, until.min)),
            Some((HalfWidth(0.01), 5))
        );
        assert_eq!(found.iterations, 7);
    }
    assert_eq!(HalfWidth(0.01).to_string(), "±1%");
    assert_eq!((of("7").iterations, of("7").until), (7, None));
    assert_eq!(of("1").iterations_in_words(), "1 iteration");
    refused(&[
        (
            "iterations = { until = '±1%', min = 4 }",
            "2:37: an interval of fewer values is often narrow by chance",
        ),
        (
            "iterations = { until = '±1%', min = 60 }",
            "2:37: min is above max, which is 50",
        ),
        (
            "iterations = { until = '±1%', max = 9 }",
            "2:37: max is below min, which is 10",
        ),
        (
            "iterations = { until = '±1%', max = 5000 }",
            "2:37: at most 1000 iterations are possible",
        ),
        (
            "iterations = { until = '±0%' }",
            "2:24: `±0%` is not a half-width",
        ),
        (
            "iterations = { until = 2 }",
            "2:24: `2` is not a half-width",
        ),
        (
            "iterations = { untill = '±1%' }",
            "2:16: unknown key `untill`; did you mean `until`?",
        ),
        ("iterations = { min = 5 }", "2:14: missing key `until`"),
        ("iterations = -1", "2:14: "),
    ]);
    let exact = "campaign = 'c'\niterations = { until = '±1%' }\n[procedure]\nid = 'exact'";
    let error = parse(exact).unwrap_err().to_string();
    assert!(
        error.starts_with("c.toml:2:24: this procedure counts instructions"),
        "{error}"
    );
}

#[test]
fn restarts_are_of_machines() {
    let bed = |reboot: &str| format!("bed = 'rack'\nreboot = {reboot}");
    let of = |reboot: &str| parse(&least(&bed(reboot))).unwrap().reboot;
    assert_eq!(of("true"), Some(Reboot::default()));
    assert_eq!(
        (of("false"), parse(&least("")).unwrap().reboot),
        (None, None)
    );
    let said = Reboot {
        within: Period::seconds(120),
        retries: 0,
    };
    assert_eq!(of("{ within = '2min', retries = 0 }"), Some(said));
    refused(&[
        ("reboot = true", "2:10: the DUT is a part of this machine"),
        (
            &bed("{ retries = 11 }"),
            "3:22: at most 10 retries are possible",
        ),
        (
            &bed("{ retry = 1 }"),
            "3:12: unknown key `retry`; known are within, retries",
        ),
        (&bed("'yes'"), "3:10: "),
        (
            "reboot = true\n[bed]\nengine = 'sim'",
            "2:10: a simulated DUT starts from scratch",
        ),
    ]);
    let error =
        parse("campaign = 'c'\nbed = 'x'\nreboot = true\n[procedure]\nid = 'paired'").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("c.toml:3:10: slices compare DUTs"),
        "{error}"
    );
}

#[test]
fn hooks_as_they_are_asked_for() {
    let all = "[hooks]\nbefore = 'a'\nduring = { command = 'b', on = 'generator' }\nafter = ['c', { command = 'd', on = 'controller', every = \
               'campaign', within = '5min' }]";
    let hooks = parse(&least(all)).unwrap().hooks;
    let reported: Vec<String> = hooks
        .all()
        .map(|(when, hook)| {
            let Hook {
                command,
                on,
                every,
                within,
            } = hook;
            format!(
                "{} {command} {} {} {within}",
                when.name(),
                on.name(),
                every.name()
            )
        })
        .collect();
    assert_eq!(
        reported,
        [
            "before a dut iteration 1min",
            "during b generator trial 1min",
            "after c dut iteration 1min",
            "after d controller campaign 5min"
        ]
    );
    assert!(parse(&least("[hooks]")).unwrap().hooks.is_empty());
    refused(&[
        ("[hooks]\nbefore = ' '", "3:10: it is empty; give a command"),
        (
            "[hooks]\nbefor = 'x'",
            "3:1: unknown key `befor`; did you mean `before`?",
        ),
        (
            "[hooks]\nbefore = 1",
            "3:10: found integer `1`, expected a command",
        ),
        (
            "[hooks]\nbefore = { command = 'x', on = 'duty' }",
            "3:32: unknown name `duty`; did you mean `dut`?",
        ),
        (
            "[hooks]\nbefore = ['x', { command = '' }]",
            "3:16: it is empty",
        ),
        (
            "[hooks]\nduring = { command = 'x', every = 'iteration' }",
            "3:35: `during` always runs",
        ),
        (
            "[hooks]\nduring = { command = 'x', within = '1s' }",
            "3:36: `during` always ends with its trial",
        ),
        (
            "[hooks]\nafter = { command = 'x', every = 'campaign' }",
            "3:34: around the whole campaign only the controller",
        ),
        (
            "[hooks]\nafter = [{ command = 'x', on = 'controller', every = 'run' }]",
            "3:54: unknown name `run`",
        ),
        (
            "[hooks]\nduring = 'x'\n[bed]\nengine = 'sim'",
            "3:10: a simulated DUT gets no frames",
        ),
        (
            "[hooks]\nbefore = 'x'\n[bed]\nengine = 'sim'",
            "3:10: a simulated DUT has no host",
        ),
    ]);
    for (id, reported) in [
        ("paired", "2:10: DUTs take turns in slices"),
        ("exact", "2:10: the instructions of a hook would be counted"),
    ] {
        let text = format!("campaign = 'c'\nhooks.before = 'x'\n[procedure]\nid = '{id}'\n");
        let error = parse(&text).unwrap_err().to_string();
        let reported = reported.replace("2:10", "2:16");
        assert!(error.starts_with(&format!("c.toml:{reported}")), "{error}");
    }
}

#[test]
fn thresholds_as_they_are_asked_for() {
    let all = "[configuration]\na = 'true'\n[matrix]\nconfiguration = ['plain', 'a']\n[[threshold]]\ncase = 'plain/64B-*'\nfigure = 'receive rate'\n\
               at-least = '1.4Mpps'\n[[threshold]]\nnot-slower-than = { configuration = 'plain', by = '3%' }";
    let found = parse(&least(all)).unwrap().thresholds;
    assert_eq!(found.len(), 2);
    let amount = found[0].at_least.unwrap();
    assert_eq!(
        (amount.number, amount.unit),
        (1.4e6, Some(crate::outcome::Unit::FramesPerSecond))
    );
    assert!(found[0].is_of("plain/64B-2000flows-ipv4") && !found[0].is_of("a/64B-2000flows-ipv4"));
    assert!(
        found[0].applies_to_figure("receive rate", false)
            && !found[0].applies_to_figure("throughput", true)
    );
    assert!(
        found[1].applies_to_figure("whatever is first", true)
            && !found[1].applies_to_figure("second", false)
    );
    for (text, number) in [
        ("20us", 20e3),
        ("1.5 ms", 1.5e6),
        ("2s", 2e9),
        ("30ns", 30.0),
    ] {
        let amount: Amount = text.parse().unwrap();
        assert_eq!(
            amount.in_unit(crate::outcome::Unit::Nanoseconds),
            Some(number),
            "{text}"
        );
        assert_eq!(amount.in_unit(crate::outcome::Unit::FramesPerSecond), None);
    }
    let bare: Amount = "-3".parse().unwrap();
    assert_eq!(bare.in_unit(crate::outcome::Unit::Percent), Some(-3.0));
    let one = |keys: &str| format!("[[threshold]]\n{keys}");
    for (keys, reported) in [
        ("", "2:1: the limit is missing"),
        (
            "at-least = '1Mpps'\nat-most = '2Mpps'",
            "2:1: a threshold has only one of at-least, at-most and not-slower-than",
        ),
        (
            "at-leest = 1",
            "3:1: unknown key `at-leest`; did you mean `at-least`?",
        ),
        ("at-least = '1Mps'", "3:12: `1Mps` is not a figure"),
        ("at-least = '1Gbps'", "3:12: `1Gbps` is not a figure"),
        (
            "at-least = '20us'",
            "3:12: receive rate is in pps, and 20000 ns is not",
        ),
        (
            "case = 'plane/*'\nat-least = 1",
            "3:8: no test case is `plane/*`; ",
        ),
        (
            "figure = 'recieve-rate'\nat-least = 1",
            "3:10: mrr finds no `recieve-rate`; did you mean `receive-rate`?",
        ),
        ("not-slower-than = { run = '@1' }", "3:19: missing key `by`"),
        (
            "not-slower-than = { by = '3%' }",
            "3:1: set one of run, configuration and image",
        ),
        (
            "not-slower-than = { run = ' ', by = '3%' }",
            "3:27: it is empty; give the id of a run",
        ),
        (
            "not-slower-than = { run = '@1', by = 0 }",
            "3:38: no measurement shows that there is no difference",
        ),
        (
            "not-slower-than = { configuration = 'x', by = '3%' }",
            "3:37: `x` is not measured; ",
        ),
        (
            "not-slower-than = { configuration = 'plain', by = '3%' }",
            "3:37: there is no other configuration",
        ),
        (
            "not-slower-than = { image = 'x', by = '3%' }",
            "3:29: `x` is not measured; ",
        ),
    ] {
        let error = parse(&least(&one(keys))).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("c.toml:{reported}")),
            "{keys}: {error}"
        );
    }
    refused(&[
        (
            "iterations = 2\n[[threshold]]\nat-least = 1",
            "3:1: 2 iterations cannot prove anything",
        ),
        ("[threshold]\nat-least = 1", "2:1: expected a list"),
    ]);
}

/// What commands say, with every field that differs from its default.
#[test]
fn the_campaign_of_a_command_is_a_file_that_says_the_same() {
    let mut draft = Draft::new(
        "ndr",
        Procedure::Rfc2544(Rfc2544 {
            resolution: value::Share(0.01),
            trial: Some(Period(Duration::from_micros(1500))),
            ..Rfc2544::default()
        }),
    );
    draft.order = Order::Together;
    draft.seed = Some(7);
    draft.bed = Bed {
        engine: Engine::AfXdp,
        dut_cpus: vec![1, 2],
        senders: Some(2),
        link: Some("2.5G".parse().unwrap()),
        max: Some("50%".parse().unwrap()),
        unconfined: true,
        ..Bed::default()
    };
    draft.telemetry = true;
    draft.trex.tunables = vec!["size=64".into()];
    let set = "nft add table ip t; echo \"a 'b'\"\nnft list ruleset";
    let name = draft.set(Some(set)).unwrap();
    draft.matrix = Matrix {
        configuration: Some(Several(vec![name.clone()])),
        size: Some(Several(vec![Size::Smallest, Size::Bytes(512)])),
        flows: Some(Several(vec![5])),
        ip: Some(Several(vec![IpVersion::Ipv6])),
        destinations: Some(Several(vec![Destinations::Single, Destinations::Random])),
        directions: Some(Several(vec![Directions::Both])),
        modifier: Some(Several(vec![
            Modifiers::default(),
            "broadcast,updates=1500ms,filters=25".parse().unwrap(),
        ])),
        ..Matrix::default()
    };
    let text = draft.text().unwrap();
    let campaign = draft.campaign().unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(campaign.procedure, draft.procedure);
    assert_eq!((&campaign.bed, campaign.seed), (&draft.bed, Some(7)));
    assert_eq!((campaign.order, campaign.iterations), (Order::Together, 1));
    assert_eq!(campaign.configurations, draft.configuration);
    assert_eq!(campaign.trex, draft.trex);
    assert_eq!(campaign.telemetry, Some(Telemetry::default()));
    // one series after another, each with all sizes
    let ids: Vec<String> = campaign.cases.iter().map(Case::series).collect();
    assert_eq!(
        [&ids[0], &ids[1]],
        [
            "84B-1flow-ipv6/one-address-pair/both-directions",
            "512B-1flow-ipv6/one-address-pair/both-directions"
        ]
    );
    assert_eq!(ids.len(), 8);
    assert!(ids[2].contains("broadcast"), "{ids:?}");
    assert!(campaign.cases.iter().all(|case| case.configuration == name));
    // of all test cases, as they are measured together
    assert_eq!(campaign.streams(&campaign.cases[0]).unwrap().len(), 2);
    assert_eq!(campaign.variants(&campaign.cases[0]).len(), 4);
}

#[test]
fn a_command_names_its_configurations() {
    let mut draft = Draft::new("quick", Procedure::Paired(Paired::default()));
    assert_eq!(draft.set(None).unwrap(), PLAIN);
    assert!(draft.set(Some("generate:nft-rules,n=1+2")).is_err());
    let set = draft.set(Some(" true ")).unwrap();
    assert_eq!(set, "true");
    let names = draft
        .configure("generate:nft-rules,n=10+100", &set)
        .unwrap();
    assert_eq!(names, ["nft-rules-10", "nft-rules-100"]);
    assert_eq!(
        draft.configuration["nft-rules-10"],
        ["true", "generate:nft-rules,n=10,ip=ipv4"]
    );
    // compared with itself
    assert_eq!(draft.configure("true", &set).unwrap(), ["true (2)"]);
    draft.matrix.configuration = Some(Several([names, vec!["true (2)".into()]].concat()));
    let campaign = draft.campaign().unwrap();
    let configured: Vec<&str> = campaign
        .cases
        .iter()
        .map(|case| case.configuration.as_str())
        .collect();
    assert_eq!(configured, ["nft-rules-10", "nft-rules-100", "true (2)"]);
    assert!(draft.configure("generate:nft-rule", PLAIN).is_err());
    let empty = draft.set(Some(" ")).unwrap_err().to_string();
    assert!(empty.contains("is empty"), "{empty}");
}

#[test]
fn test_cases_that_are_measured_together_fit_into_one_turn() {
    let parse = |head: &str, matrix: &str, procedure: &str| {
        let text = format!(
            "campaign = 'c'\norder = 'together'\n{head}\n[matrix]\n{matrix}\n[procedure]\n{procedure}\n"
        );
        Campaign::parse("c.toml", &text).map_err(|error| error.to_string())
    };
    let (once, rfc2544) = ("iterations = 1", "id = 'rfc2544'");
    let many = "size = [64, 128]\nmodifier = ['none', 'broadcast']";
    assert_eq!(parse(once, many, rfc2544).unwrap().cases.len(), 4);
    for (head, matrix, procedure, expect) in [
        ("", "", rfc2544, "once: set iterations = 1"),
        (once, "", "id = 'maxfwd'", "in turns: omit order"),
        (
            once,
            "size = [64, 128]",
            "id = 'mlrsearch'",
            "measures one frame size",
        ),
        (
            once,
            "flows = [1, 2]",
            rfc2544,
            "c.toml:5:1: test cases that are measured together have one",
        ),
        (once, "ip = ['ipv4', 'ipv6']", rfc2544, "have one of these"),
        (
            once,
            "directions = ['one', 'both']",
            rfc2544,
            "have one of these",
        ),
        (once, "dut = ['linux', 'vpp']", rfc2544, "have one of these"),
        (
            once,
            "profile = ['imix', 'imix6']",
            rfc2544,
            "have one of these",
        ),
        (
            "iterations = 1\nconfiguration = { a = 'true', b = 'false' }",
            "",
            rfc2544,
            "have one of these",
        ),
        (
            once,
            "size = [64, 128]\nexclude = [{ size = 64 }]",
            rfc2544,
            "have none of this",
        ),
        (
            "iterations = 1\nbed = 'x'\nreboot = true",
            "",
            rfc2544,
            "have none of this",
        ),
        (
            once,
            "",
            "id = 'mrr'\nsweep = { parameter = 'rules', values = [0, 1] }",
            "have none of this",
        ),
        (
            "iterations = 1\nhooks = { before = ['true'] }",
            "",
            rfc2544,
            "have none of this",
        ),
        (
            "iterations = 1\ntelemetry = { perf = { for = '1s' } }",
            "",
            rfc2544,
            "have none of this",
        ),
    ] {
        let error = parse(head, matrix, procedure).unwrap_err();
        assert!(
            error.contains(expect),
            "{head} {matrix} {procedure}: {error}"
        );
    }
}
