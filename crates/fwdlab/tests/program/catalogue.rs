//! The catalogue: checks and plans every entry, copies and measures one, and compares the list with
//! the manual.

use serde_json::Value;

use crate::support::{Lab, NOT_REACHED, count, list, number, reports_stall, root, skipped};

fn entries(lab: &Lab) -> Vec<Value> {
    let ended = lab.run(&["run", "--list", "--json"]);
    let all: Value = serde_json::from_str(&ended.code(0).out).unwrap();
    list(&all).to_vec()
}

#[test]
fn every_entry_is_checked_planned_and_in_the_manual() {
    let lab = Lab::new();
    let manual = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/catalogue.md"
    );
    let manual = std::fs::read_to_string(manual).unwrap();
    let entries = entries(&lab);
    assert!(entries.len() > 15);
    let name = |entry: &Value| entry["name"].as_str().unwrap().to_owned();
    let needs_bed = |entry: &&Value| entry["needs"].to_string().contains("a test bed ");
    let (on_bed, embedded): (Vec<&Value>, Vec<&Value>) = entries.iter().partition(needs_bed);
    // frames of millions of flows take a second to build: a unit test of the command plans those
    let is_quick = |name: &String| {
        !["million", "many-states", "fib-cases"]
            .iter()
            .any(|word| name.contains(word))
    };
    let names: Vec<String> = embedded.into_iter().map(name).filter(is_quick).collect();
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    lab.run(&[&["check"], &words[..]].concat()).code(0);
    lab.run(&["check", &name(on_bed[0])])
        .code(2)
        .prints(&["this is the embedded test bed"]);
    for entry in &entries {
        let needs: Vec<&str> = list(&entry["needs"])
            .iter()
            .map(|need| need.as_str().unwrap())
            .collect();
        let row = format!(
            "| `{}` | {} | {} |",
            name(entry),
            entry["question"].as_str().unwrap(),
            needs.join(", ")
        );
        assert!(
            manual.contains(&row),
            "docs/reference/catalogue.md lacks: {row}"
        );
    }
    lab.run(&["plan", "traffic/flows"])
        .code(0)
        .prints(&["test case"]);
    lab.run(&["check", "--dut", "linus", "traffic/flows"])
        .code(2)
        .prints(&["did you mean `linux`?"]);
    lab.run(&["run", "firewall/rule"])
        .code(2)
        .says(&["did you mean `firewall/rules`?"]);
    lab.run(&["new", "campaign", "mine", "--from", "trafic/flows"])
        .code(2)
        .says(&["did you mean `traffic/flows`?"]);
}

#[test]
fn an_entry_is_copied_and_measured() {
    if !root("an_entry_is_copied_and_measured") {
        return;
    }
    let lab = Lab::new();
    let mut copy = lab.program(&["new", "campaign", "mine", "--from", "traffic/directions"]);
    let copied = copy.current_dir(lab.path()).output().unwrap();
    assert!(copied.status.success(), "{copied:?}");
    let file = lab.path().join("campaigns/mine.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("question = \"Does it forward twice as much"),
        "{text}"
    );
    let short = text
        .replace("iterations = 5", "iterations = 1")
        .replace("trials = 3", "trials = 1")
        .replace("500ms", "100ms");
    std::fs::write(&file, short).unwrap();
    let ended = lab.run(&["run", file.to_str().unwrap(), "--json"]);
    if ended.code == 7 && reports_stall(&ended.out) {
        return skipped("an_entry_is_copied_and_measured", NOT_REACHED);
    }
    ended.measured();
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    let cases = list(&document["test_cases"]).iter();
    let both: Vec<bool> = cases
        .map(|case| case["variant"]["both_directions"] == true)
        .collect();
    assert_eq!(both, [false, true]);
}

/// A gateway with two tunnels of the real daemon: frames pass both tunnels, and the daemons' logs
/// are stored. A single flow uses only one of the tunnels, so its trials are invalid. A kernel
/// without IPsec is reported.
#[test]
fn a_gateway_hands_frames_on_through_all_of_its_tunnels() {
    let name = "a_gateway_hands_frames_on_through_all_of_its_tunnels";
    if !root(name) {
        return;
    }
    let lab = Lab::new();
    let all = entries(&lab);
    let entry = all.iter().find(|e| e["name"] == "gateways/openvpn-tunnels");
    let missing = &entry.unwrap()["missing"];
    if !list(missing).is_empty() {
        return skipped(name, &format!("needs {missing}"));
    }
    let file = lab.path().join("gateway.toml");
    let text = "campaign = 'gateway'\niterations = 1\nseed = 1\n[bed]\nmax = '5kpps'\n\
        [configuration]\ntwo = { generate = 'openvpn', tunnels = 2 }\nesp = { generate = 'esp', tunnels = 1 }\n[matrix]\nconfiguration = ['two', 'esp']\nsize = 512\nflows = [50, 1]\n\
        [hooks]\nafter = 'cat /proc/net/dev'\n[procedure]\nid = 'trial'\nload = '300pps'\nfor = '700ms'\n";
    std::fs::write(&file, text).unwrap();
    let ended = lab.run(&["run", file.to_str().unwrap(), "--json"]);
    let document: Value = serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{ended:?}"));
    let trials = list(&document["trials"]);
    let returned: u64 = trials.iter().map(|t| count(&t["frames_received"])).sum();
    assert!(returned > 0, "{ended:?}");
    let reasons = |flows: u64| -> Vec<String> {
        let is_two = |t: &&Value| t["test_case"].as_str().unwrap().starts_with("two");
        let of = trials.iter().filter(is_two).filter(|t| t["flows"] == flows);
        of.map(|trial| trial["validity"]["reasons"].to_string())
            .collect()
    };
    let (many, one) = (reasons(50), reasons(1));
    assert!(!many.is_empty() && !one.is_empty(), "{ended:?}");
    assert!(
        !many.iter().any(|output| output.contains("carried none")),
        "{many:?}"
    );
    let unused = "1 of 2 tunnels carried none (tun";
    assert!(one.iter().all(|output| output.contains(unused)), "{one:?}");
    let without = all.iter().find(|e| e["name"] == "gateways/esp-sizes");
    if list(&without.unwrap()["missing"]).contains(&"module esp4".into()) {
        assert!(
            ended
                .out
                .contains("cannot set up esp,tunnels=1: its kernel"),
            "{ended:?}"
        );
        lab.run(&["run", "gateways/esp-sizes"])
            .code(3)
            .says(&["module esp4", "this machine does not have"]);
        lab.run(&["check", "gateways/esp-sizes"])
            .code(0)
            .prints(&["this machine lacks module esp4"]);
    }
    let run = lab.only_run();
    let shown = std::fs::read_to_string(run.join("inputs/in-force/two/openvpn.txt")).unwrap();
    let ups = shown.matches("Initialization Sequence Completed").count();
    assert!(ups == 4 && shown.contains("dev tun1"), "{shown}");
    let hooks = std::fs::read_to_string(run.join("hooks.jsonl")).unwrap();
    for tunnel in ["tun0:", "tun1:"] {
        let (_, counts) = hooks
            .split_once(tunnel)
            .unwrap_or_else(|| panic!("{hooks}"));
        let sent = counts.split_whitespace().nth(9).unwrap();
        assert!(sent.parse::<u64>().unwrap() > 0, "{tunnel} {counts}");
    }
    lab.assert_clean("daemons of a gateway");
}

/// Returns the conclusion of a campaign on a simulated DUT, whose truth is known.
fn answers(lab: &Lab, matrix: &str, dut: &str) -> String {
    let file = lab.path().join("truth.toml");
    let text = format!(
        "campaign = 'truth'\nquestion = 'Is it so?'\niterations = 10\nseed = 3\n[bed]\nengine = 'sim'\ndut = '{dut}'\n[matrix]\n{matrix}\n\
         [procedure]\nid = 'mrr'\n"
    );
    std::fs::write(&file, text).unwrap();
    let ended = lab.run(&["run", file.to_str().unwrap()]);
    let out = ended.code(0).out.clone();
    // join wrapped lines
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_campaign_ends_with_the_planted_result() {
    let lab = Lab::new();
    // in overload, two cores forward twice as much as the one core of a single flow
    let dut = "capacity=1e6,cores=2,noise=0.003,link=10Gbps";
    let found = answers(&lab, "size = 64\nflows = [1, 2000]", dut);
    assert!(found.contains("question Is it so?"), "{found}");
    let compared = lab.json(&["compare", "@1", "--by", "flows"]);
    let compared = &compared["rows"][0]["comparisons"][0];
    let percent = number(&compared["difference_percent"]);
    let [low, high] = [0, 1].map(|end: usize| number(&compared["interval_percent"][end]));
    assert!(low <= 100.0 && 100.0 <= high, "{compared}");
    let answer = format!("receive rate +{percent:.1} % [+{low:.1}, +{high:.1}], proven better");
    assert!(found.contains(&answer), "{answer}: {found}");

    // 10 Gbit/s carry fewer of the largest frames than the DUT forwards: a lower bound has no known
    // difference
    let dut = "capacity=1e6,noise=0.003,link=10Gbps";
    let found = answers(&lab, "size = [64, 1518]", dut);
    let answer = "answer 1518 B compared with 64 B: receive rate cannot be compared";
    assert!(found.contains(answer), "{found}");

    // no effect is planted and none is found; if two parameters differ, one is compared at a time
    let found = answers(&lab, "size = [84, 128]\nip = ['ipv4', 'ipv6']", dut);
    for pair in [
        "84 B, IPv6 compared with 84 B, IPv4",
        "128 B, IPv6 compared with 128 B, IPv4",
        "128 B, IPv4 compared with 84 B, IPv4",
        "128 B, IPv6 compared with 84 B, IPv6",
    ] {
        let answer = format!("answer {pair}:");
        assert!(found.contains(&answer), "{pair}: {found}");
    }
    for words in [" compared with ", "no difference proven"] {
        assert_eq!(found.matches(words).count(), 4, "{words}: {found}");
    }
}

/// Tests that judge a rate.
mod alone {
    use super::*;

    /// Writes a small-scale version of an entry.
    fn shortened(lab: &Lab, entry: &str, changes: &[(&str, &str)]) -> String {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/catalogue");
        let mut text = std::fs::read_to_string(format!("{folder}/{entry}.toml")).unwrap();
        for &(from, to) in changes {
            assert!(text.contains(from), "{from}: {text}");
            text = text.replace(from, to);
        }
        let file = lab.path().join("short.toml");
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// A small-scale version of an entry, with a real daemon: clears the session that has the
    /// frames' routes, with and without a second peer that has the same routes. The observed frames
    /// agree with the daemon's log. Takes two beds of some seconds each: a session takes a second
    /// to come up.
    #[test]
    fn a_cleared_session_costs_what_the_daemons_log_says() {
        let name = "a_cleared_session_costs_what_the_daemons_log_says";
        if !root(name) {
            return;
        }
        let lab = Lab::alone();
        let entry = "routes/session-cleared";
        let all = entries(&lab);
        let missing = all.iter().find(|one| one["name"] == entry).unwrap()["missing"].clone();
        if !list(&missing).is_empty() {
            return skipped(name, &format!("needs {missing}"));
        }
        let changes = [
            ("195000", "2000"),
            ("50kpps", "20kpps"),
            ("before = \"5s\"", "before = \"1500ms\""),
            ("after = \"5s\"", "after = \"1s\""),
            ("repetitions = 3", "repetitions = 1"),
        ];
        let ended = lab.run(&["run", &shortened(&lab, entry, &changes), "--json"]);
        // noise may be reported, but does not add to a dip: frames that were not sent are not
        // missing
        assert!([0, 5, 7].contains(&ended.code), "{ended:?}");
        let document: Value = serde_json::from_str(&ended.out).unwrap();
        let dip = |configuration: &str| {
            let of = |case: &&Value| {
                case["test_case"]
                    .as_str()
                    .unwrap()
                    .starts_with(configuration)
            };
            let case = list(&document["test_cases"]).iter().find(of).unwrap();
            case["outcomes"][0]["found"]["dips"].get(0).cloned()
        };
        let (Some(learned), Some(taken)) = (dip("learned-again"), dip("taken-over")) else {
            return skipped(name, "this host is so busy that no trial was valid");
        };
        let at = |moment: &str| {
            let is = |reported: &&Value| reported["name"].as_str().unwrap().contains(moment);
            let reported = list(&learned["moments"]).iter().find(is);
            number(&reported.unwrap_or_else(|| panic!("no {moment}: {learned}"))["at_s"])
        };
        let (stop, down, up, again) = (at(": stop"), at(": down"), at(": up"), at("all 2000"));
        assert!(
            0.0 <= stop && stop <= down && down < up && up <= again,
            "{learned}"
        );
        // the log's clock starts with the event's shell, which is later than the tester's request
        let late = 1.5;
        let interval = 0.15;
        let impact = number(&learned["first_impact_s"]);
        assert!(
            (stop - interval..down + late).contains(&impact),
            "{learned}"
        );
        let regained = number(&learned["regained_s"]);
        assert!(
            (up - interval..again + late).contains(&regained),
            "{learned}"
        );
        // no path between the last withdrawn and the first new route; the intervals at both ends
        // are not empty
        let blackout = number(&learned["blackout_s"]);
        let least = up - down - 2.0 * interval;
        let most = again - stop + interval;
        assert!((least..most).contains(&blackout), "{learned}");
        let deficit = number(&learned["deficit_s"]);
        // frames that were not sent are not missing
        let least = match number(&learned["fell_short_ratio"]) < 0.1 {
            true => up - down - interval,
            false => 0.0,
        };
        assert!((least..most).contains(&deficit), "{learned}");
        assert!(number(&learned["depth"]) > 0.99, "{learned}");
        assert!(
            number(&taken["deficit_s"]) < deficit / 2.0,
            "{taken} {learned}"
        );
        // the full view was in the kernel
        for (configuration, routes) in [("learned-again", 4000), ("taken-over", 2000)] {
            let shown = format!("inputs/in-force/{configuration}/bgp.txt");
            let shown = std::fs::read_to_string(lab.only_run().join(shown)).unwrap();
            let output = format!("routes in the kernel: {routes}");
            assert!(shown.contains(&output), "{shown}");
        }
        lab.assert_clean("daemons of a DUT");
    }

    /// Returns this machine's limit of tracked connections and its number of buckets.
    fn room() -> [String; 2] {
        ["max", "buckets"].map(|what| {
            let file = format!("/proc/sys/net/netfilter/nf_conntrack_{what}");
            std::fs::read_to_string(file).unwrap_or_default()
        })
    }

    /// A small-scale version of an entry that changes settings shared by all namespaces of this
    /// machine, and restores them. A table that is not filled gives no result. Runs alone because
    /// of the settings.
    #[test]
    fn connections_have_room_and_are_there_or_it_is_no_result() {
        let name = "connections_have_room_and_are_there_or_it_is_no_result";
        if !root(name) {
            return;
        }
        let lab = Lab::alone();
        let tracked = std::fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count");
        match tracked.as_deref().map(str::trim) {
            Ok("0") => {}
            Ok(_) => return skipped(name, "this machine tracks connections of its own"),
            Err(_) => return skipped(name, "the kernel tracks no connections yet"),
        }
        let changes = [
            (
                "\"flows/1\", \"flows/10k\", \"flows/100k\", \"flows/1M\", \"flows/10M\"",
                "\"flows/2000\", \"flows/100k\"",
            ),
            ("12000000", "50000"),
            ("16777216", "131584"),
            ("\"120s\"", "\"500ms\""),
            ("trials = 3", "trials = 1"),
            ("\"10s\"", "\"300ms\""),
            ("iterations = 3", "iterations = 1"),
        ];
        let file = shortened(&lab, "firewall/ten-million-states", &changes);
        let before = room();
        let ended = lab.run(&["run", &file, "--json"]);
        let document: Value =
            serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{ended:?}"));
        let kept = lab.only_run();
        let shown = kept.join("inputs/in-force/stateful/conntrack.txt");
        let shown = std::fs::read_to_string(shown).unwrap();
        assert!(
            shown.contains("nf_conntrack_max:50000")
                && shown.contains("nf_conntrack_buckets:131584"),
            "{shown}"
        );
        assert_eq!(room(), before);
        let of = |flows: &str| {
            let is = |case: &&Value| case["test_case"].as_str().unwrap().ends_with(flows);
            list(&document["test_cases"]).iter().find(is).unwrap()
        };
        // there is no room for that many
        let few = of("flows/100k");
        assert!(few["outcomes"][0]["answered"] != true, "{few}");
        assert!(few.to_string().contains("hook after"), "{few}");
        let all = of("flows/2000");
        if all["outcomes"][0]["answered"] != true {
            return skipped(
                name,
                "this host is so busy that 2000 flows were not sent in half a second",
            );
        }
        let hooks = std::fs::read_to_string(kept.join("hooks.jsonl")).unwrap();
        assert!(hooks.contains("2000 connections of 2000 flows"), "{hooks}");
        let trials = list(&document["trials"]);
        let reported = trials.iter().find_map(|trial| {
            let sizes = &trial["telemetry"]["sizes"];
            (sizes["conntrack entries"]["value"] == 2000).then(|| sizes.clone())
        });
        let reported = reported.unwrap_or_else(|| panic!("{document}"));
        assert_eq!(count(&reported["conntrack entries"]["limit"]), 50_000);
        assert_eq!(count(&reported["conntrack buckets"]["value"]), 131_584);
        let bytes = count(&reported["conntrack memory bytes"]["value"]);
        assert!(bytes >= 2000 * 200, "{reported}");
        lab.assert_clean("room for connections");
    }
}
