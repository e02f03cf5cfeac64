//! `fwdlab trial`, `ramp`, `rfc2544` and `soak` from outside: known truths of simulated DUTs,
//! tables, stored files and output, and once this host's kernel. `lab/tests/procedures.rs` compares
//! every procedure with the truth, over shapes and seeds. Start with
//! [`a_stored_run_shows_the_same_again`].

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::{
    Lab, PATIENCE, PROGRAM, all_outcomes, dropped, json_lines, list, namespaces, number, passed,
    refused, reports_stall, skipped, try_tool,
};

/// Returns a command line for a simulated DUT.
fn sim(line: &str, dut: &str) -> String {
    format!("{line} --engine sim --dut {dut}")
}

/// Returns the output of a command in the namespace of the only DUT; nothing if there is none, or
/// if the command fails.
fn inside(line: &[&str]) -> String {
    let namespaces = namespaces();
    let dut = namespaces.iter().find(|name| name.ends_with("-dut0"));
    dut.and_then(|dut| try_tool(&[&["ip", "netns", "exec", dut], line].concat()).ok())
        .unwrap_or_default()
}

/// Returns a file of the only modified series among the inputs of a run.
fn input_of_series(run: &Path, name: &str) -> String {
    let of_series = fs::read_dir(run.join("inputs/series")).unwrap().next();
    fs::read_to_string(of_series.unwrap().unwrap().path().join(name)).unwrap()
}

#[test]
fn full_trials_take_as_long_as_rfc_2544_requires() {
    let line = "rfc2544 --sizes 64 --tests throughput --full";
    let document = Lab::new().json(&sim(line, "capacity=1e6,link=10Gbps"));
    let label = all_outcomes(&document)[0]["compliance"]["shortened"].to_string();
    let is_only_simulated = label.contains("simulated") && !label.contains("60 s");
    assert!(is_only_simulated, "{label}");
}

/// The number of trials in a suite depends on the capacity of the DUT, by more than a factor of
/// two.
#[test]
fn the_estimated_trials_are_made() {
    let lab = Lab::new();
    for capacity in ["2e5", "8e6"] {
        let dut = format!("capacity={capacity},link=10Gbps,buffer=500,reboot=8s");
        let output = lab.run(&sim("rfc2544 --sizes 64,512 --json-stream", &dut));
        let lines = output.code(0).out.lines();
        let events: Vec<Value> = lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(events[0]["event"], "run_started");
        assert_eq!(events[events.len() - 1]["event"], "run_finished");
        let of_trials = |event: &&Value| event["event"] == "trial_finished";
        let made = events.iter().filter(of_trials).count() as f64;
        let wrong = made / number(&events[0]["steps"]);
        assert!((1.0 / 1.3..1.3).contains(&wrong), "{dut}: {wrong}");
    }
}

/// A stored run shows the same as at its end, to the byte, in the terminal and on the page.
#[test]
fn a_stored_run_shows_the_same_again() {
    let lab = Lab::new();
    let show = |more: &[&str]| {
        let shown = lab.run(&[&["runs", "show", "@1"], more].concat());
        shown.code(0);
        shown.out
    };
    let dut = "capacity=1e6,link=10Gbps,buffer=300,latency=15us,jitter=2us,noise=0.01";
    let table = "rfc2544 --sizes 64,1518 => /throughput_pps
        ramp --ramp 1min --up-down => /max_ok_pps
        soak --for 2min => /critical_load_pps
        ndr --goals ndr,pdr --explain => /goals/1/relevant_lower_bound_pps
        trial --load 1Mpps --latency --sample 1s => /forwarding_rate_pps";
    for line in table.lines() {
        let (line, figure) = line.trim().split_once(" => ").unwrap();
        let measured = lab.run(&sim(line, dut));
        measured.measured();
        let is_path = |line: &str| line.starts_with("saved") || line.starts_with("report");
        for line in measured.out.lines() {
            assert!(is_path(line) || line.chars().count() <= 80, "{line}");
        }
        let explain: &[&str] = match line.contains("--explain") {
            true => &["--explain"],
            false => &[],
        };
        assert_eq!(show(explain), measured.out);
        let document: Value = serde_json::from_str(&show(&["--json"])).unwrap();
        let found = &all_outcomes(&document)[0]["found"];
        let pps = number(found.pointer(figure).unwrap());
        assert!((pps / 1e6 - 1.0).abs() < 0.05, "{line}: {pps}");
        let directory = Path::new(document["directory"].as_str().unwrap());
        let page = fs::read_to_string(directory.join("report.html")).unwrap();
        assert_eq!(show(&["--format", "html"]).trim(), page.trim());
        assert!(show(&["--format", "csv"]).lines().count() > 1, "{line}");
        if line.starts_with("rfc2544") {
            measured.prints(&["procedure, shortened"]);
            let explained = show(&["--explain"]);
            for words in ["Ended early", "alfway between"] {
                assert!(explained.contains(words), "{words}: {explained}");
            }
            let markdown = show(&["--format", "markdown"]);
            assert!(markdown.starts_with("**") && markdown.contains("| ---:"));
        }
        // delays are stored as a histogram, whose figures agree with the record
        if line.contains("--latency") {
            let requested = &document["trials"][0]["asked"];
            let log = requested["latency_log"].as_str().unwrap();
            assert!(log.starts_with("raw/") && log.ends_with("/latency.hlog"));
            let log = fs::read_to_string(directory.join(log)).unwrap();
            let curve = fwdlab_store::hdr::percentiles(&log).unwrap();
            let (_, ns) = curve.iter().find(|(at, _)| *at >= 49.9).unwrap();
            let delays = &requested["answer"]["delays"];
            // three digits
            let ratio = *ns as f64 / number(&delays["p50_ns"]);
            assert!((ratio - 1.0).abs() < 0.001, "{ns}, {delays}");
        }
    }
    // --json at the end and later
    let line = sim("trial --max 2e6 --for 1s --json", "capacity=1e6");
    assert_eq!(lab.run(&line).out, show(&["--json"]));
    lab.run("runs show @1 --json --format csv").code(2);
}

/// The shortest suite on this host's kernel: a search and bursts, whose frames the ports count like
/// we do.
#[test]
fn the_suite_runs_on_the_kernel_of_this_host() {
    let Some(lab) = Lab::root() else { return };
    let line = "rfc2544 --sizes 64 --tests throughput,bursts --burst 16 --max 20kpps --trial 200ms --search 200ms --resolution 25";
    // on a noisy host the result may be invalid, but is never missing
    let document = lab.json(line);
    assert_eq!(all_outcomes(&document).len(), 2);
    let noise = document["noise"]["verdict"].as_str().unwrap();
    assert!(noise.contains("trials"), "{noise}");
    for trial in list(&document["trials"]) {
        let handed = passed(trial, "generator_port") + dropped(trial, "generator_port");
        assert_eq!(handed as f64, number(&trial["frames_sent"]), "{trial}");
        let bursts = &trial["asked"]["question"]["bursts"];
        if bursts.is_object() {
            assert_eq!(trial["engine"], "af-packet");
            assert_eq!(number(&bursts["frames"]), 16.0);
        }
    }
    lab.assert_clean("the suite");
    for outcome in all_outcomes(&document) {
        let label = outcome["compliance"]["shortened"].to_string();
        assert!(label.contains("200 ms instead of 60 s"), "{label}");
        let verdict = outcome["verdict"].as_str().unwrap();
        match number(&outcome["trials"]) > 0.0 {
            true => (),
            // a thread got no CPU for the duration of a trial
            false if reports_stall(verdict) => {
                return skipped(&format!("this host held the sender up: {verdict}"));
            }
            false => panic!("{outcome}"),
        }
    }
}

#[test]
fn impossible_requests_are_reported_before_any_action() {
    let lab = Lab::new();
    let table = "rfc2544 --profile imix --sizes 64 => 2: --sizes
        trial --profile imix --size 64 => 2: --size
        trial --profile imix --flows 7 => 2: --flows
        trial --profile tcp-syn => 2: signature
        trial --profile nothing => 2: no profile `nothing`
        trial --destinations all => 2: random
        trial --modifier noise => 2: no `noise`
        trial --modifier broadcast,broadcast => 2: one of them
        trial --modifier filters=25 => 2: has no rules, routes
        rfc2544 --burst 1 => 2: at least two
        rfc2544 --burst 16 --profile imix => 2: have their own timing
        rfc2544 --burst 16 --modifier broadcast => 2: have their own timing
        ndr --goals npr => 2: ndr, pdr, rfc2544, tst009, strict
        ndr --max fast => 2: fast";
    refused(table, |line| {
        lab.run(&sim(line, "capacity=1e6,link=10Gbps"))
    });
    assert!(!lab.runs().exists(), "no run was made");
}

/// A real SNMP agent on the DUT, and simulations.
mod slow {
    use super::*;

    /// Plants the truth of a DUT, whose tester has a limit and stalls: each result is correct or
    /// inconclusive. This seed draws a ramp, an equilibrium, a sweep, a rate in overload and a
    /// search. For more runs: `scripts/judge --runs 200`.
    #[test]
    fn planted_differences_are_found_or_nothing_is_claimed() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/judge");
        let judged = Command::new("python3")
            .args([script, "--runs", "5", "--seed", "27", "--program", PROGRAM])
            .output()
            .unwrap();
        assert!(judged.status.success(), "{judged:?}");
    }

    /// Counts queries and answers from outside, in the kernel of the DUT. Destinations are random.
    #[test]
    fn the_dut_is_managed_while_its_series_runs() {
        let line =
            "trial --load 1kpps --max 2kpps --destinations random --modifier management --for";
        let Some(lab) = Lab::root() else { return };
        // a listener that is not an agent: it echoes the query
        let set = "setsid python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((\"0.0.0.0\", 161))
while True: s.sendto(*s.recvfrom(2000))' > /dev/null 2>&1 & until grep -q :00A1 /proc/net/udp; do sleep 0.05; done";
        let words = line.split(' ').chain(["100ms", "--set", set]);
        lab.run(&words.collect::<Vec<_>>()).code(4).says(&[
            "no SNMP agent on the DUT",
            "not an SNMPv2c message",
            "apt-get install snmpd",
        ]);
        lab.assert_clean("what is no agent");
        drop(lab);

        if try_tool(&["sh", "-c", "PATH=$PATH:/usr/sbin; command -v snmpd"]).is_err() {
            return skipped("there is no snmpd");
        }
        let lab = Lab::new();
        let mut run = lab.start(&format!("{line} 1500ms"));
        // datagrams received and sent, and the agent
        let (mut datagrams, mut agents) = (Vec::new(), BTreeSet::new());
        let name_of =
            |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        while !run.has_ended() {
            let counts = inside(&["cat", "/proc/net/snmp"]);
            let udp = counts.lines().rfind(|line| line.starts_with("Udp: "));
            let numbers = udp.into_iter().flat_map(|line| line.split(' '));
            let now: Vec<u64> = numbers.filter_map(|n| n.parse().ok()).collect();
            if now.len() > 3 {
                // InDatagrams, OutDatagrams (RFC 4113)
                datagrams = vec![now[0], now[3]];
            }
            for dut in namespaces().iter().filter(|name| name.ends_with("-dut0")) {
                let pids = try_tool(&["ip", "netns", "pids", dut]).unwrap_or_default();
                let of_agent = pids.lines().filter(|pid| name_of(pid).trim() == "snmpd");
                agents.extend(of_agent.map(str::to_owned));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        run.wait(PATIENCE).measured();
        assert_eq!(agents.len(), 1, "{agents:?}");
        assert_ne!(name_of(agents.first().unwrap()).trim(), "snmpd");

        let run = lab.only_run();
        let (mut requested, mut late, mut trials) = (0.0, 0.0, 0);
        for trial in &json_lines(&run.join("trials.jsonl")) {
            // a sender that stalls on a busy CPU may send nothing, and then the trial is invalid
            let answer = &trial["asked"]["answer"];
            match number(&answer["frames_sent"]) > 0.0 {
                true => assert!(number(&trial["frames_received"]) > 0.0, "{trial}"),
                false => assert!(!list(&trial["validity"]["reasons"]).is_empty(), "{trial}"),
            }
            let queries = &answer["management"];
            if !trial["variant"]["modifiers"].is_array() {
                assert!(queries.is_null(), "{trial}");
                continue;
            }
            assert!(number(&queries["asked"]) >= 2.0, "{queries}");
            requested += number(&queries["asked"]);
            late += number(&queries["asked"]) - number(&queries["answered"]);
            trials += 1;
        }
        assert!(trials > 0);
        // apart from the trials: one query that found the agent, and those before it listened
        assert_eq!(datagrams, [requested as u64 + 1; 2]);
        let kept = input_of_series(&run, "management.txt");
        assert!(kept.contains("rocommunity=public 169.254.11.2"), "{kept}");
        lab.assert_clean("management");
        // by its kernel, the DUT has answered all
        if late > 0.0 {
            skipped(&format!("{late} answers came late: this machine is busy"));
        }
    }

    /// Reads rules and routes of the DUT from outside while the series runs: the kernel counts the
    /// frames that each rule examined.
    #[test]
    fn filters_and_updates_are_on_the_dut_while_their_series_runs() {
        if try_tool(&["nft", "--version"]).is_err() {
            return skipped("there is no nft");
        }
        let Some(lab) = Lab::root() else { return };
        let mut run = lab.start(
            "trial --load 5kpps --for 800ms --max 20kpps --modifier filters=25,updates=200ms",
        );
        // for each rule: its frames, and whether it accepts
        let (mut rules, mut hops) = (Vec::new(), BTreeSet::new());
        while !run.has_ended() {
            let table = inside(&["nft", "list", "table", "inet", "fwdlab_filters"]);
            let now: Vec<(u64, bool)> = (table.lines())
                .filter_map(|line| {
                    let (_, counts) = line.split_once("counter packets ")?;
                    let packets = counts.split(' ').next()?.parse().ok()?;
                    Some((packets, line.ends_with("accept")))
                })
                .collect();
            if !now.is_empty() {
                rules = now;
                let routes = inside(&["ip", "route", "show", "198.51.100.0/28"]);
                hops.extend(routes.lines().map(str::to_owned));
            }
            // often enough for both states of the updates, and seldom enough for the sender
            std::thread::sleep(Duration::from_millis(90));
        }
        run.wait(PATIENCE).measured();
        // 24 rules that match nothing, the one that accepts, and the final drop, which has counted
        // frames of the path check
        assert_eq!(rules.len(), 26, "{rules:?}");
        assert_eq!(rules[..24], [(0, false); 24]);
        assert!(rules[24].1 && rules[24].0 > 1000, "{rules:?}");
        let (dropped, accepts) = rules[25];
        assert!(!accepts && (1..1000).contains(&dropped), "{rules:?}");
        assert_eq!(hops.len(), 2, "{hops:?}");
        let run = lab.only_run();
        assert!(input_of_series(&run, "filters.txt").contains("ip saddr 192.0.2.24 "));
        assert!(input_of_series(&run, "updates.txt").contains("state B"));
        lab.assert_clean("filters");
    }
}
