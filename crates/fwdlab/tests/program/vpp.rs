//! The real VPP as a DUT: frames counted exactly by its nodes, drops with their reasons, rejected
//! commands, Linux and VPP in one campaign, the death of VPP and of the program.
//!
//! The build of VPP next to the repository is unpacked once; if it is missing, or does not start
//! here, the tests are skipped. Start with [`nodes_count_every_frame_at_every_load`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{
    CommandLine, CommandResult, Lab, PATIENCE, Started, count, ended, list, passed, root, skipped,
    texts,
};

#[path = "../../../fwdlab-lab/tests/vpp_build/mod.rs"]
pub mod build;

/// Variable that tells the program under test which VPP to use.
const PROGRAM: &str = "FWDLAB_VPP";

/// Returns a VPP, or reports why the test is skipped.
fn vpp() -> Option<PathBuf> {
    if !root() {
        return None;
    }
    let found = build::unpacked();
    found.map_err(|reason| skipped(&reason)).ok()
}

/// Returns the program with a VPP, whose files are in the folder of the test.
fn program(lab: &Lab, vpp: &Path, arguments: &(impl CommandLine + ?Sized)) -> Command {
    let mut command = lab.program(arguments);
    command.env(PROGRAM, vpp).env("TMPDIR", lab.path());
    command
}

/// Returns a campaign of VPP with these additions.
fn of_vpp(more: &str) -> String {
    format!("campaign = 'c'\niterations = 1\n[dut]\nkind = 'vpp'\n{more}")
}

fn run(lab: &Lab, vpp: &Path, text: &str) -> CommandResult {
    let path = lab.write("campaign.toml", text);
    ended(program(lab, vpp, &["run", &path, "--json"]))
}

fn document(ended: &CommandResult) -> Value {
    ended.measured().document()
}

/// Returns the counters of VPP's nodes in a trial; empty if nothing was sent.
fn nodes(trial: &Value) -> &[Value] {
    trial["work"].get("nodes").map_or(&[][..], list)
}

/// Returns the counters of one node of VPP in a trial: calls and frames.
fn node(trial: &Value, name: &str) -> (u64, u64) {
    let own = nodes(trial).iter().filter(|node| node["node"] == name);
    own.fold((0, 0), |(calls, vectors), node| {
        (
            calls + count(&node["calls"]),
            vectors + count(&node["vectors"]),
        )
    })
}

/// Returns the frames that VPP reports as dropped for a reason that contains this text.
fn dropped(trial: &Value, reason: &str) -> u64 {
    let Some(drops) = trial["work"].get("drops") else {
        return 0;
    };
    let is_own = |drop: &&Value| drop["reason"].as_str().unwrap().contains(reason);
    let own = list(drops).iter().filter(is_own);
    own.map(|drop| count(&drop["frames"])).sum()
}

/// For every trial, however busy this host is: the frames that the kernel's port received are those
/// that entered VPP plus those that found its ring full, and the nodes' counts agree with the
/// frames that came out.
#[test]
fn nodes_count_every_frame_at_every_load() {
    let Some(vpp) = vpp() else { return };
    let mut whole = Vec::new();
    for (load, time) in [("1kpps", "300ms"), ("3Mpps", "200ms")] {
        let lab = Lab::new();
        let text = of_vpp(&format!(
            "[matrix]\nflows = 10\n[procedure]\nid = 'trial'\nload = '{load}'\nfor = '{time}'"
        ));
        let ended = run(&lab, &vpp, &text);
        let document = document(&ended);
        let trials = list(&document["trials"]);
        assert!(!trials.is_empty());
        for trial in trials {
            let number = |name: &str| trial[name].as_u64().unwrap();
            let (sent, received) = (number("frames_sent"), number("frames_received"));
            if sent == 0 {
                continue;
            }
            assert_eq!(number("frames_unexplained"), 0, "{trial}");
            let (calls, entered) = node(trial, "af-packet-input");
            let at_port = passed(trial, "dut_input");
            assert_eq!(entered + dropped(trial, "ring to VPP"), at_port, "{trial}");
            assert!(calls > 0);
            let (_, looked_up) = node(trial, "ip4-lookup");
            assert_eq!(looked_up, entered, "nothing but test frames: {trial}");
            assert!(received <= looked_up);
            let clock = trial["work"]["clock_hz"].as_f64().unwrap();
            assert!((1e8..1e11).contains(&clock), "{clock}");
            if received == sent {
                // routers send frames of their own: the receiver also sees a report of VPP for IPv6
                let own = trial["counters"]["receiver_foreign"].as_u64().unwrap();
                assert_eq!(node(trial, "ip4-rewrite").1, sent, "{trial}");
                assert_eq!(node(trial, "host-eth1-tx").1, sent + own, "{trial}");
                whole.push((load, sent));
            }
        }
        lab.assert_clean(load);
    }
    whole.retain(|(load, _)| *load == "1kpps");
    assert!(!whole.is_empty(), "300 frames in 300 ms were lost");
    if !whole.contains(&("1kpps", 300)) {
        skipped(&format!("the sender stalled: it sent {whole:?} of 300"));
    }
}

/// A rule denies one flow in ten: the lost frames are those that the rule counts, with that reason.
/// Commands that VPP rejects are reported.
#[test]
fn a_planted_drop_and_a_line_that_vpp_rejects_are_reported() {
    let Some(vpp) = vpp() else { return };
    let lab = Lab::new();
    fs::write(
        lab.path().join("deny.vpp"),
        "# one of the flows\nset acl-plugin acl deny src 198.18.10.1/32, permit tag deny\nset acl-plugin interface host-eth0 input acl 0\n",
    )
    .unwrap();
    let text = "workers = 1\n[configuration]\ndeny = './deny.vpp'\nbad = 'ip route add 1.2.3.0/33 via 198.19.0.2 host-eth1'\n\
        [procedure]\nid = 'trial'\nload = '10kpps'\nfor = '200ms'";
    let ended = run(&lab, &vpp, &of_vpp(text));
    // one of its test cases has no result
    ended.code(7);
    let document = ended.document();
    let case = |name: &str| {
        let mut cases = list(&document["test_cases"]).iter();
        cases.find(|case| case["configuration"] == name).unwrap()
    };
    assert_eq!(case("deny")["test_case"], "deny/64B-2000flows-ipv4@vpp");
    let mut denied_frames = 0;
    for trial in list(&document["trials"]) {
        assert_eq!(trial["test_case"], "deny/64B-2000flows-ipv4@vpp");
        let denied = dropped(trial, "acl-plugin-in-ip4-fa: ACL deny packets");
        let (_, checked) = node(trial, "acl-plugin-in-ip4-fa");
        assert_eq!(checked - denied, node(trial, "ip4-lookup").1, "{trial}");
        assert_eq!(denied, node(trial, "error-drop").1, "{trial}");
        let losses = list(&trial["losses"]).iter();
        let in_dut = losses
            .filter(|loss| loss["place"] == "dut")
            .filter_map(|loss| {
                let reasons = list(loss.get("reasons")?).iter();
                let own = reasons.filter(|r| r["reason"].as_str().unwrap().contains("ACL deny"));
                Some(own.map(|r| count(&r["frames"])).sum::<u64>())
            });
        assert_eq!(in_dut.sum::<u64>(), denied, "{trial}");
        assert!(
            nodes(trial).iter().all(|node| node["thread"] == "vpp_wk_0"),
            "{trial}"
        );
        denied_frames += denied;
    }
    assert!(denied_frames > 0, "{ended:?}");
    let failure = case("bad")["iterations"][0]["failure"].to_string();
    for words in [
        "could not be applied to the DUT",
        "`ip route add 1.2.3.0/33 via 198.19.0.2 host-eth1`",
        "Invalid prefix len: 33",
    ] {
        assert!(failure.contains(words), "{failure}");
    }
}

/// The example: both kinds in one campaign, with the cost per frame on each, in every format, and
/// computed again from stored data.
#[test]
fn linux_and_vpp_are_compared_with_the_cost_of_a_frame() {
    let Some(vpp) = vpp() else { return };
    let lab = Lab::new();
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/campaigns/linux-vpp.toml");
    let text = fs::read_to_string(example).unwrap();
    let short = text
        .replace("iterations = 5", "iterations = 1")
        .replace("trials = 5", "trials = 1")
        .replace("for = \"1s\"", "for = \"200ms\"");
    assert_ne!(short, text);
    let document = document(&run(&lab, &vpp, &short));
    let cases = list(&document["test_cases"]);
    assert_eq!(
        texts(&document["test_cases"], "test_case"),
        ["plain/64B-2000flows-ipv4", "plain/64B-2000flows-ipv4@vpp"]
    );
    let failed = |case: &Value| case["iterations"][0].get("failure").is_some();
    if cases.iter().any(failed) {
        return skipped("no trial of a kind was valid: the host is busy");
    }
    let [linux, of_vpp] = [&cases[0]["work"], &cases[1]["work"]];
    assert!(linux["cpu_ns"].as_u64().unwrap() > 0 && linux.get("nodes").is_none());
    assert!(of_vpp.get("cpu_ns").is_none() && list(&of_vpp["nodes"]).len() >= 6);
    assert!(of_vpp["frames"].as_u64().unwrap() > 0);

    lab.run("runs show @1").prints(&[
        "efficiency",
        "64 B, Linux",
        "64 B, VPP",
        "without input",
        "between ports",
        "af-packet-input (input)",
        "effective clock",
    ]);
    lab.run("runs show @1 --format markdown")
        .prints(&["| ip4-lookup |"]);
    let page = lab.kept("report.html");
    assert!(page.contains("Efficiency") && page.contains("ip4-lookup"));
    let facts = document["info"]["facts"]["placement"]["vpp"]
        .as_str()
        .unwrap();
    assert!(
        facts.starts_with("vpp v") && facts.contains("main thread forwards"),
        "{facts}"
    );
    lab.run("runs verify @1").code(0);
    lab.assert_clean("VPP");
}

/// Starts a campaign, and waits until it is in a trial.
fn sending(lab: &Lab, vpp: &Path) -> Started {
    let text = "[matrix]\nflows = 10\n[procedure]\nid = 'trial'\nload = '10kpps'\nfor = '2s'";
    let path = lab.write("campaign.toml", &of_vpp(text));
    let mut run = lab.start_command(program(lab, vpp, &["run", &path, "--json-stream"]));
    run.event("progress");
    run
}

/// VPP is killed during a trial: the trial is invalid and reports how VPP ended, another VPP
/// replaces it, and nothing waits.
#[test]
fn a_vpp_that_dies_costs_one_trial_and_its_last_output_is_shown() {
    let Some(vpp) = vpp() else { return };
    let lab = Lab::new();
    let mut run = sending(&lab, &vpp);
    std::thread::sleep(Duration::from_millis(500));
    kill(&lab, &vpp);
    let trial = run.event("trial_finished");
    let reasons = trial["record"]["validity"]["reasons"].to_string();
    for words in ["VPP in fwdlab-", "has ended (signal: 9 (SIGKILL))"] {
        assert!(reasons.contains(words), "{reasons}");
    }
    run.wait(PATIENCE).measured();
    lab.assert_clean("VPP");
    assert_eq!(folders(&lab), Vec::<PathBuf>::new());
}

/// Kills the VPP of this lab.
fn kill(lab: &Lab, vpp: &Path) {
    let started = format!("{} -c ", vpp.display());
    let all = lab.processes();
    let own = all.iter().find(|line| line.contains(&started));
    let own = own.unwrap_or_else(|| panic!("no VPP among {all:?}"));
    let pid: i32 = own.split(':').next().unwrap().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
}

/// Returns the folders of this lab's VPPs.
fn folders(lab: &Lab) -> Vec<PathBuf> {
    let entries = fs::read_dir(lab.path()).unwrap().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.to_string_lossy().ends_with("-vpp"))
        .collect()
}

/// A killed program cannot clean up: VPP dies with it, and the next start removes its folder.
#[test]
fn a_killed_run_leaves_no_vpp() {
    let Some(vpp) = vpp() else { return };
    let lab = Lab::new();
    let run = sending(&lab, &vpp);
    assert_eq!(folders(&lab).len(), 1);
    run.signal(Signal::KILL);
    run.wait(PATIENCE);
    let died = Instant::now();
    while !lab.processes().is_empty() && died.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(lab.processes(), Vec::<String>::new());
    assert_eq!(folders(&lab).len(), 1, "nobody was there to remove it");
    lab.run("bed down").code(0);
    lab.assert_clean("VPP");
    assert_eq!(folders(&lab), Vec::<PathBuf>::new());
}

/// In random order, it would be missed in the middle of a campaign.
#[test]
fn a_campaign_without_its_vpp_ends_before_any_traffic() {
    let Some(lab) = Lab::root() else { return };
    let text = "campaign = 'c'\n[matrix]\ndut = ['linux', 'vpp']\n[procedure]\nid = 'mrr'";
    let path = lab.write("campaign.toml", text);
    let mut command = lab.program(&["run", &path]);
    command.env(PROGRAM, "/no/such/vpp");
    ended(command)
        .code(3)
        .says(&["there is no program `/no/such/vpp`, which $FWDLAB_VPP names"]);
    let mut command = lab.program(&["run", &path]);
    command.env_remove(PROGRAM).env("PATH", lab.path());
    ended(command).code(3).says(&[
        "there is no program `vpp` in PATH",
        "program = ",
        "FWDLAB_VPP=",
    ]);
    assert!(!lab.runs().exists(), "nothing was begun");
    lab.assert_clean("VPP");
}
