//! Test beds of existing hosts: files, `doctor`, campaigns, and what is left afterwards.
//!
//! The hosts are network namespaces made by the tests, joined by veth pairs. Start with [`Rack`].

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{
    Lab, NOT_REACHED, PATIENCE, count, is_valid, json_lines, list, read_json, reports_stall,
    skipped, texts, tool, try_tool,
};
use crate::tty::Tty;

/// Two namespaces, joined by two links, and a test bed of them.
pub struct Rack {
    pub names: [String; 2],
    pub lab: Lab,
}

fn ip(line: &str) -> String {
    tool(&[&["ip"], &line.split(' ').collect::<Vec<_>>()[..]].concat())
}

/// Returns the output of a script on a host, which must succeed.
pub fn ip_exec(name: &str, text: &str) -> String {
    tool(&["ip", "netns", "exec", name, "sh", "-c", text])
}

/// Creates the hosts; `None` without root.
pub fn rack(of: &str) -> Option<Rack> {
    // first, because it decides where namespaces are
    let lab = Lab::root()?;
    let names = ["gen", "dut"].map(|end| format!("bed-{of}-{end}-{}", std::process::id()));
    let [tester, dut] = &names;
    for name in &names {
        ip(&format!("netns add {name}"));
        ip(&format!("-n {name} link set lo up"));
    }
    for end in ["a", "b"] {
        ip(&format!(
            "link add t{end} netns {tester} type veth peer name d{end} netns {dut}"
        ));
    }
    let bed = format!(
        "bed = 'rack-{of}-{}'\n[generator]\nhost = 'netns:{tester}'\nengine = 'af-packet'\nports = {{ a = 'ta', b = 'tb' }}\n\
         [dut]\nhost = 'netns:{dut}'\nports = {{ a = 'da', b = 'db' }}\n",
        std::process::id()
    );
    lab.write("beds/rack.toml", &bed);
    let campaign = "campaign = 'c'\nbed = 'rack'\niterations = 1\n\
         [configuration]\nrule = \"nft add table ip t; nft add chain ip t f '{ type filter hook forward priority 0; }'\"\n\
         [matrix]\nconfiguration = ['plain', 'rule']\nflows = 10\n\
         [procedure]\nid = 'trial'\nload = '2kpps'\nfor = '300ms'\n";
    lab.write("campaigns/c.toml", campaign);
    Some(Rack { names, lab })
}

impl Rack {
    /// Changes a text in a file.
    pub fn edit(&self, file: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.lab.path().join(file)).unwrap();
        assert!(text.contains(from), "{text}");
        self.lab.write(file, &text.replace(from, to));
    }

    /// Returns the state that fwdlab changes on both hosts and must restore.
    pub fn state(&self) -> BTreeSet<String> {
        let text = "cd /proc/sys/net; grep -r . ipv4/ip_forward ipv4/conf ipv6/conf 2>/dev/null | grep -v stable_secret
        { ip -4 -oneline addr show; ip -4 route show; ip -6 route show; ip neigh show nud permanent; } | grep -v fe80::
        ip -oneline link show | sed 's/[A-Z-]*_UP//; s/NO-CARRIER,//; s/ mtu.*//; s/,>/>/'
        nft -s list ruleset";
        let of = |name: &String| {
            let output = ip_exec(name, text);
            let lines = output.lines().map(|line| format!("{name}: {line}"));
            lines.collect::<Vec<_>>()
        };
        self.names.iter().flat_map(of).collect()
    }

    pub fn assert_state(&self, before: &BTreeSet<String>) {
        let now = self.state();
        let changed: Vec<&String> = before.symmetric_difference(&now).collect();
        assert!(changed.is_empty(), "{changed:#?}");
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = try_tool(&["ip", "netns", "del", name]);
        }
    }
}

/// `serve --trex --bed`: serves the bed's ports, its DUT forwards, and everything is undone when
/// the server ends.
#[test]
fn a_test_bed_is_served_to_clients_of_trex() {
    let Some(rack) = rack("trex") else { return };
    let before = rack.state();
    let line = "serve --trex --json --bed rack --listen 127.0.0.1:0 --publisher 127.0.0.1:0";
    let mut server = rack.lab.start(line);
    server.wait_until("its ports", |this| this.out().contains("\"ports\""));
    let output: serde_json::Value = serde_json::from_str(&server.out()).unwrap();
    assert_eq!(output["ports"], serde_json::json!(["ta", "tb"]));
    let during = rack.state();
    let routed = |line: &String| line.contains("48.0.0.0/8") && line.contains("dev db");
    assert!(during.iter().any(routed), "{during:#?}");
    server.signal(Signal::INT);
    assert_eq!(server.wait(PATIENCE).code, 0);
    rack.assert_state(&before);

    let here = format!("netns:{}", rack.names[0]);
    rack.edit("beds/rack.toml", &here, "ssh://gen");
    let refused = rack.lab.run(line);
    refused.code(2).reports(&["run fwdlab serve --trex there"]);
}

/// A namespace that is removed when this is dropped.
struct TestNamespace(String);

impl Drop for TestNamespace {
    fn drop(&mut self) {
        let _ = try_tool(&["ip", "netns", "del", &self.0]);
    }
}

/// A run is killed while it changes hosts: the next command that connects undoes all changes.
#[test]
fn changes_of_a_killed_run_are_undone_at_the_next_start() {
    let Some(rack) = rack("kill") else { return };
    rack.edit("campaigns/c.toml", "iterations = 1", "iterations = 9");
    let before = rack.state();
    let mut run = rack.lab.start("run campaigns/c.toml");
    run.wait_until("a change", |_| rack.state() != before);
    std::thread::sleep(Duration::from_millis(150));
    // another run is refused, with the owner's name, as long as it runs
    let other = rack.lab.run("quick --bed rack --size 64");
    other.reports(&["another fwdlab measures on the test bed rack-kill"]);
    run.signal(Signal::KILL);
    run.wait(PATIENCE);
    rack.lab.run("doctor rack").code(0);
    rack.assert_state(&before);
}

/// Runs with `--wait` measure one after the other on a bed; those that are killed or stopped while
/// they wait or measure block no one, and a waiting run is not stored yet.
#[test]
fn runs_wait_for_their_bed_in_a_queue() {
    let Some(rack) = rack("queue") else { return };
    let before = rack.state();
    rack.edit("campaigns/c.toml", "iterations = 1", "iterations = 99");
    let mut holder = rack.lab.start("run campaigns/c.toml");
    holder.wait_until("a change", |_| rack.state() != before);
    rack.edit("campaigns/c.toml", "iterations = 99", "iterations = 1");
    let holds = rack.lab.only_run();
    let holds = holds.file_name().unwrap().to_string_lossy().into_owned();
    let waits = |position: usize| {
        let mut run = rack
            .lab
            .start("run campaigns/c.toml --wait --only configuration:plain");
        let words =
            format!("waiting   position {position} in the queue for the test bed rack-queue");
        run.wait_until("its position", |this| this.err().contains(&words));
        run
    };
    let (first, mut second, third) = (waits(1), waits(2), waits(3));
    rack.lab.only_run();
    let by = format!("used by run {holds}, process {}, since ", holder.pid());
    assert!(second.err().contains(&by), "{}", second.err());
    let other = rack.lab.run("quick --bed rack --size 64");
    other.reports(&["another fwdlab measures on the test bed rack-queue", &holds]);
    let line = "run campaigns/c.toml --wait";
    let mut on_screen = Tty::start(&rack.lab, line, (200, 30), &[]);
    on_screen.wait_for_text("waiting   position 4");
    third.signal(Signal::INT);
    third.wait(PATIENCE).code(130);
    on_screen.signal(Signal::INT);
    assert_eq!(on_screen.end(), 130);
    first.signal(Signal::KILL);
    first.wait(PATIENCE);
    second.wait_until("the first place", |this| this.err().contains("position 1"));
    holder.signal(Signal::KILL);
    holder.wait(PATIENCE);
    // on a busy host figures may be doubtful, but nothing else
    second.wait(PATIENCE).measured();
    rack.assert_state(&before);
}

/// Missing and invalid files are reported with their position; a virtual machine is a test bed,
/// too.
#[test]
fn beds_are_found_by_name_and_errors_in_them_are_reported() {
    let lab = Lab::new();
    lab.run("doctor rack")
        .code(2)
        .says(&["there is no test bed `rack`", "fwdlab new bed rack"]);
    lab.write(
        "beds/r.toml",
        "bed = 'r'\n[generator]\nports = { a = 'a', b = 'b' }\n[dut]\nhost = 'ssh://a b'\nports = { a = 'a', b = 'b' }\n",
    );
    lab.run("quick --bed r")
        .code(2)
        .says(&["beds/r.toml:5:8: `ssh://a b` is not an address for SSH"]);
    lab.write(
        "beds/v.toml",
        "bed = 'v'\n[dut]\nhost = 'vm:debian:linux-image-cloud-amd64'\n",
    );
    let text = "campaign = 'c'\nbed = 'v'\n[procedure]\nid = 'exact'\n";
    lab.write("c.toml", text);
    lab.run("plan c.toml").code(0).prints(&[
        "plain/64B-2000flows-ipv4@debian:linux-image-cloud-amd64",
        "every DUT is a virtual machine",
    ]);
}

#[test]
fn a_flame_graph_of_freebsd_is_refused_before_anything_runs() {
    let lab = Lab::new();
    lab.write(
        "beds/b.toml",
        "bed = 'b'\n[generator]\nports = { a = 'a', b = 'b' }\n[dut]\nkind = 'freebsd'\nhost = 'ssh://router'\nports = { a = 'a', b = 'b' }\n",
    );
    let text =
        "campaign = 'c'\nbed = 'b'\n[telemetry]\nperf = { for = '1s' }\n[procedure]\nid = 'mrr'\n";
    lab.write("c.toml", text);
    lab.run("plan c.toml")
        .code(2)
        .says(&["c.toml:4:", "flame graphs need Linux's perf"]);
}

/// Several hosts each.
mod slow {
    use super::*;

    #[test]
    fn a_campaign_on_existing_hosts_leaves_nothing() {
        let Some(rack) = rack("whole") else { return };
        let before = rack.state();
        let looked = rack.lab.run("doctor rack");
        looked.code(0).reports(&["forwarding IPv6", "100 of 100"]);
        rack.assert_state(&before);

        rack.lab
            .run("plan campaigns/c.toml")
            .code(0)
            .prints(&["(DUT): da and db are brought up"]);
        let ended = rack.lab.run("run campaigns/c.toml");
        rack.assert_state(&before);
        if ended.code == 7 && reports_stall(&format!("{ended:?}")) {
            return skipped(NOT_REACHED);
        }
        // on a busy host figures may be doubtful, but nothing else
        assert!(matches!(ended.code, 0 | 5), "{ended:?}");
        let summary = read_json(&rack.lab.only_run().join("summary.json"));
        let cases = list(&summary["test_cases"]).iter();
        let made: Vec<usize> = cases.map(|case| list(&case["iterations"]).len()).collect();
        assert_eq!(made, [1, 1], "{summary}");
        // the run records its bed
        let kept = rack.lab.kept("inputs/bed.toml");
        assert!(kept.starts_with("bed = 'rack-whole"), "{kept}");

        // a command measures on the bed like a campaign: it applies its configuration and undoes it
        let half = "nft add table ip t; nft add chain ip t f { type filter hook forward priority 0\\; }; \
                nft add rule ip t f numgen inc mod 2 0 drop";
        let line = format!("trial --bed rack --load 2kpps --for 200ms --json --set '{half}'");
        let found = rack.lab.run(&line).measured().document();
        rack.assert_state(&before);
        let trials = list(&found["trials"]).iter();
        let valid: Vec<_> = trials.filter(|trial| is_valid(trial)).collect();
        let has_stalled = reports_stall(&found.to_string());
        assert!(!valid.is_empty() || has_stalled, "{found:#}");
        for trial in valid {
            let [sent, received] = ["frames_sent", "frames_received"].map(|of| count(&trial[of]));
            assert!(received.abs_diff(sent - received) <= sent % 2, "{trial:#}");
        }
        rack.lab.run("ndr --bed rack --engine sim").code(2);
    }

    /// A bridge between tester and DUT, with a switch's typical defaults.
    #[test]
    fn a_switch_is_checked_counted_and_configured() {
        let Some(rack) = rack("switch") else { return };
        let [tester, dut] = &rack.names;
        let switch = format!("bed-switch-sw-{}", std::process::id());
        ip(&format!("netns add {switch}"));
        let _switch = TestNamespace(switch.clone());
        ip(&format!("-n {tester} link del ta"));
        ip(&format!(
            "link add ta netns {tester} type veth peer name s1 netns {switch}"
        ));
        ip(&format!(
            "link add da netns {dut} type veth peer name s2 netns {switch}"
        ));
        ip(&format!("-n {switch} link add s3 type veth peer name s4"));
        let text = "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; ip link add br0 type bridge mcast_snooping 0
        for s in s1 s2 s3; do ip link set $s master br0; ip link set $s up; done; ip link set br0 up";
        ip_exec(&switch, text);
        // with a spanning tree, the port would be blocked for half a minute after link-up
        for (name, port) in [(tester, "ta"), (dut, "da")] {
            ip(&format!("-n {name} link set {port} up"));
        }
        let is_open = || ip_exec(&switch, "cat /sys/class/net/br0/brif/s[12]/state") == "3\n3\n";
        let started = Instant::now();
        while !is_open() {
            assert!(started.elapsed() < Duration::from_secs(30), "no link");
        }
        ip_exec(&switch, "ip link set br0 type bridge stp_state 1");
        let more = format!(
            "[switch]\nhost = 'netns:{switch}'\nports = {{ tester-a = 's1', dut-a = 's2' }}\n\
         [reference]\nhost = 'netns:{dut}'\nports = {{ a = 'da', b = 'db' }}\n[dut]"
        );
        rack.edit("beds/rack.toml", "[dut]", &more);
        let before = rack.state();
        let lines = format!(
            "switch-config --vendor cisco rack-switch-{}",
            std::process::id()
        );
        rack.lab.run("doctor rack").code(0).reports(&[
            "spanning tree",
            "STP at ta",
            &lines,
            "forgets who is at tester-a, dut-a after 300 s",
            "master static",
            "1500 at all 6 ports",
            "neighbours are permanent",
            "a plain Linux router in place of the DUT carries",
            "forwarding IPv6",
        ]);
        rack.assert_state(&before);
        ip_exec(&switch, "ip link set s2 mtu 1400");
        let looked = rack.lab.run("doctor rack");
        let smaller = ["frames are lost where it is smaller", "s2 of"];
        looked.code(3).reports(&smaller);
        ip_exec(
            &switch,
            "ip link set br0 type bridge stp_state 0; ip link set s2 mtu 1500",
        );

        // every trial includes the switch's counters, and they add up
        let ended = rack
            .lab
            .run("run campaigns/c.toml --only configuration:plain");
        ended.measured();
        rack.assert_state(&before);
        let trials = json_lines(&rack.lab.only_run().join("trials.jsonl"));
        assert!(!trials.is_empty(), "{ended:?}");
        for trial in trials {
            let stages = texts(&trial["counters"]["meters"], "stage").join(", ");
            let first = "generator_port, the switch's port at the generator, the switch's port to the DUT, dut_input";
            assert!(stages.starts_with(first), "{stages}");
            assert_eq!(trial["frames_unexplained"], 0, "{trial}");
        }
        let configured = rack.lab.run("bed switch-config --vendor juniper rack");
        let words = ["interface s1.0 static-mac ", "not tried on a real switch"];
        configured.code(0).reports(&words);
    }

    /// An interrupted check removes the bed that it made.
    #[test]
    fn doctor_ends_with_any_signal() {
        let Some(rack) = rack("signal") else { return };
        let before = rack.state();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let ignored = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
        // like under nohup: the child inherits this setting and continues
        let is_ignored = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap() & 1 == 1;
        for (signal, code) in [(Signal::HUP, 130), (Signal::TERM, 143)] {
            if signal == Signal::HUP && is_ignored {
                continue;
            }
            let mut doctor = rack.lab.start("doctor rack");
            doctor.wait_until("a bed", |_| rack.state() != before);
            doctor.signal(signal);
            assert_eq!(doctor.wait(PATIENCE).code, code);
            rack.assert_state(&before);
        }
    }
}
