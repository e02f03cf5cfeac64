//! The catalogue: its list and the manual, copies of entries, and small-scale versions of some,
//! with real daemons.

use serde_json::Value;

use crate::support::{Lab, cases, count, list, number, runs_long, skipped};

fn entries(lab: &Lab) -> Vec<Value> {
    let ended = lab.run("run --list --json");
    let all = ended.code(0).document();
    list(&all).to_vec()
}

/// `cli/campaign.rs` checks and plans every entry.
#[test]
fn every_entry_is_in_the_manual_and_mistyped_names_have_a_suggestion() {
    let lab = Lab::new();
    let manual = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/catalogue.md"
    );
    let manual = std::fs::read_to_string(manual).unwrap();
    let entries = entries(&lab);
    assert!(entries.len() > 15);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    for entry in &entries {
        let needs: Vec<String> = list(&entry["needs"]).iter().map(text).collect();
        let row = format!(
            "| `{}` | {} | {} |",
            text(&entry["name"]),
            text(&entry["question"]),
            needs.join(", ")
        );
        assert!(
            manual.contains(&row),
            "docs/reference/catalogue.md lacks: {row}"
        );
    }
    let needs_bed = |entry: &&Value| entry["needs"].to_string().contains("a test bed ");
    let on_bed = text(&entries.iter().find(needs_bed).unwrap()["name"]);
    lab.run("new campaign mine --from traffic/directions")
        .code(0);
    // the last one is the copy
    let table = "check ON-BED => 2: this is the embedded test bed
        check --dut linus traffic/flows => 2: did you mean `linux`?
        run firewall/rule => 2: did you mean `firewall/rules`?
        new campaign yours --from trafic/flows => 2: did you mean `traffic/flows`?
        plan traffic/flows => 0: test case
        plan campaigns/mine.toml => 0: /both-directions";
    for (line, code, words) in cases(&table.replace("ON-BED", &on_bed)) {
        lab.run(line).code(code).reports(&words);
    }
}

/// Returns what this machine lacks for an entry.
fn missing(lab: &Lab, entry: &str) -> Vec<Value> {
    let all = entries(lab);
    let own = all.iter().find(|one| one["name"] == entry);
    list(&own.unwrap()["missing"]).to_vec()
}

/// Returns the conclusion of a campaign on a simulated DUT, whose truth is known.
fn answers(lab: &Lab, matrix: &str, dut: &str) -> String {
    let text = format!(
        "campaign = 'truth'\nquestion = 'Is it so?'\niterations = 10\nseed = 3\n[bed]\nengine = 'sim'\ndut = '{dut}'\n[matrix]\n{matrix}\n\
         [procedure]\nid = 'mrr'\n"
    );
    let ended = lab.run(&["run", &lab.write("truth.toml", &text)]);
    // join wrapped lines
    let words = ended.code(0).out.split_whitespace();
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_campaign_ends_with_the_planted_result() {
    let lab = Lab::new();
    // in overload, two cores forward twice as much as the one core of a single flow
    let dut = "capacity=1e6,cores=2,noise=0.003,link=10Gbps";
    let found = answers(&lab, "size = 64\nflows = [1, 2000]", dut);
    assert!(found.contains("question Is it so?"), "{found}");
    let compared = lab.json("compare @1 --by flows");
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
        lab.write("short.toml", &text)
    }

    /// A small-scale version of an entry, with a real daemon: clears the session that has the
    /// frames' routes, with and without a second peer that has the same routes. The observed frames
    /// agree with the daemon's log. Takes two beds of some seconds each: a session takes a second
    /// to come up.
    #[test]
    fn a_cleared_session_costs_what_the_daemons_log_says() {
        if !runs_long("a cleared session of BGP") {
            return;
        }
        let Some(lab) = Lab::root_alone() else { return };
        let entry = "routes/session-cleared";
        let needed = missing(&lab, entry);
        if !needed.is_empty() {
            return skipped(&format!("needs {needed:?}"));
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
        let document = ended.document();
        let dip = |configuration: &str| {
            let mut cases = list(&document["test_cases"]).iter();
            let case = cases.find(|case| case["configuration"] == configuration);
            case.unwrap()["outcomes"][0]["found"]["dips"].get(0)
        };
        let (Some(learned), Some(taken)) = (dip("learned-again"), dip("taken-over")) else {
            return skipped("this host is so busy that no trial was valid");
        };
        let at = |moment: &str| {
            let is = |reported: &&Value| reported["name"].as_str().unwrap().contains(moment);
            let reported = list(&learned["moments"]).iter().find(is);
            number(&reported.unwrap_or_else(|| panic!("no {moment}: {learned}"))["at_s"])
        };
        let (stop, down, up, again) = (at(": stop"), at(": down"), at(": up"), at("all 2000"));
        let ordered = [0.0, stop, down, up, again].is_sorted() && down < up;
        assert!(ordered, "{learned}");
        // the log's clock starts with the event's shell, which is later than the tester's request
        let late = 1.5;
        let interval = 0.15;
        // frames that were not sent are not missing
        let missing = match number(&learned["fell_short_ratio"]) < 0.1 {
            true => up - down - interval,
            false => 0.0,
        };
        let most = again - stop + interval;
        for (figure, expected) in [
            ("first_impact_s", stop - interval..down + late),
            ("regained_s", up - interval..again + late),
            // no path between the last withdrawn and the first new route; the intervals at both
            // ends are not empty
            ("blackout_s", up - down - 2.0 * interval..most),
            ("deficit_s", missing..most),
            ("depth", 0.99..1.01),
        ] {
            let is = number(&learned[figure]);
            assert!(expected.contains(&is), "{figure}: {learned}");
        }
        let [with_second, alone] = [taken, learned].map(|dip| number(&dip["deficit_s"]));
        assert!(with_second < alone / 2.0, "{taken} {learned}");
        // the full view was in the kernel
        for (configuration, routes) in [("learned-again", 4000), ("taken-over", 2000)] {
            let shown = lab.kept(&format!("inputs/in-force/{configuration}/bgp.txt"));
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
        if !runs_long("a full table of connections") {
            return;
        }
        let Some(lab) = Lab::root_alone() else { return };
        let tracked = std::fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count");
        match tracked.as_deref().map(str::trim) {
            Ok("0") => {}
            Ok(_) => return skipped("this machine tracks connections of its own"),
            Err(_) => return skipped("the kernel tracks no connections yet"),
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
        let document = ended.document();
        let shown = lab.kept("inputs/in-force/stateful/conntrack.txt");
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
            return skipped("this host is so busy that 2000 flows were not sent in half a second");
        }
        let hooks = lab.kept("hooks.jsonl");
        assert!(hooks.contains("2000 connections of 2000 flows"), "{hooks}");
        let trials = list(&document["trials"]).iter();
        let mut sizes = trials.map(|trial| &trial["telemetry"]["sizes"]);
        let reported = sizes.find(|sizes| sizes["conntrack entries"]["value"] == 2000);
        let reported = reported.unwrap_or_else(|| panic!("{document}"));
        assert_eq!(reported["conntrack entries"]["limit"], 50_000);
        assert_eq!(reported["conntrack buckets"]["value"], 131_584);
        let bytes = count(&reported["conntrack memory bytes"]["value"]);
        assert!(bytes >= 2000 * 200, "{reported}");
        lab.assert_clean("room for connections");
    }
}

/// In the second tier, because they take long.
mod slow {
    use super::*;

    /// A gateway with two tunnels of the real daemon: frames pass both tunnels, and the daemons'
    /// logs are stored. A kernel without IPsec is reported.
    #[test]
    fn a_gateway_hands_frames_on_through_all_of_its_tunnels() {
        let Some(lab) = Lab::root() else { return };
        if missing(&lab, "gateways/esp-sizes").contains(&"module esp4".into()) {
            lab.run("run gateways/esp-sizes")
                .code(3)
                .says(&["module esp4", "this machine does not have"]);
            lab.run("check gateways/esp-sizes")
                .code(0)
                .prints(&["this machine lacks module esp4"]);
        }
        let needed = missing(&lab, "gateways/openvpn-tunnels");
        if !needed.is_empty() {
            return skipped(&format!("needs {needed:?}"));
        }
        let ended = lab.campaign(
            "campaign = 'gateway'\niterations = 1\nseed = 1\n[bed]\nmax = '5kpps'\n\
             [configuration]\ntwo = { generate = 'openvpn', tunnels = 2 }\n[matrix]\nconfiguration = 'two'\nsize = 512\nflows = 50\n\
             [hooks]\nafter = 'cat /proc/net/dev'\n[procedure]\nid = 'trial'\nload = '300pps'\nfor = '700ms'\n",
        );
        let document = ended.document();
        let trials = list(&document["trials"]);
        let returned: u64 = trials.iter().map(|t| count(&t["frames_received"])).sum();
        assert!(returned > 0, "{ended:?}");
        for trial in trials {
            let reasons = trial["validity"]["reasons"].to_string();
            assert!(!reasons.contains("carried none"), "{reasons}");
        }
        let shown = lab.kept("inputs/in-force/two/openvpn.txt");
        let ups = shown.matches("Initialization Sequence Completed").count();
        assert!(ups == 4 && shown.contains("dev tun1"), "{shown}");
        let hooks = lab.kept("hooks.jsonl");
        for tunnel in ["tun0:", "tun1:"] {
            let counts = hooks.split(tunnel).nth(1).unwrap_or_default();
            let sent = counts.split_whitespace().nth(9).unwrap_or_default();
            assert!(sent.parse::<u64>().is_ok_and(|n| n > 0), "{tunnel} {hooks}");
        }
        lab.assert_clean("daemons of a gateway");
    }
}
