//! `fwdlab serve --trex` and TRex's own client, unmodified, as the package `lbr-trex-client` has it.
//!
//! What the client does stands in the Python files beside this one; what it found is judged here.

mod packets;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Lab, Started, list, root, skipped};
use crate::wire::{MAC_A, MAC_B, Wire};

/// A Python that has the client.
fn python() -> Option<&'static str> {
    let venv = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/venv/bin/python3");
    let has_client = |python: &&str| {
        let asked = Command::new(python)
            .args(["-c", "import lbr_trex_client; import trex.stl.api"])
            .output();
        asked.is_ok_and(|output| output.status.success())
    };
    [venv, "python3"].into_iter().find(has_client)
}

/// A server with these options, and where it listens.
fn serve(lab: &Lab, options: &[&str]) -> (Started, [String; 2]) {
    let mut words = vec!["serve", "--trex", "--json"];
    words.extend(["--listen", "127.0.0.1:0", "--publisher", "127.0.0.1:0"]);
    words.extend(options);
    let mut server = lab.start(&words);
    let mut ports = [String::new(), String::new()];
    server.wait_until("addresses", |this| {
        let Ok(said) = serde_json::from_str::<Value>(&this.out()) else {
            return false;
        };
        ports = ["rpc", "publisher"].map(|which| {
            let address = said[which].as_str().unwrap();
            address.rsplit_once(':').unwrap().1.to_owned()
        });
        true
    });
    (server, ports)
}

/// What the client of this file found.
fn found(python: &str, script: &str, arguments: &[&str]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/program/trex")
        .join(script);
    let output = Command::new(python)
        .arg(script)
        .args(arguments)
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    let last = out.lines().last().unwrap_or_default();
    serde_json::from_str(last)
        .unwrap_or_else(|_| panic!("{out}{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn trexs_client_connects_takes_ports_and_lets_go() {
    let name = "trexs_client_connects_takes_ports_and_lets_go";
    if !root(name) {
        return;
    }
    let Some(python) = python() else {
        return skipped(
            name,
            "no Python that has lbr-trex-client (it needs 3.11 or older)",
        );
    };
    let lab = Lab::new();
    let wire = Wire::new();
    let (server, ports) = serve(&lab, &wire.arguments("--ports pa,pb"));
    // it is ahead of others as its senders are: a second port waits for no sender that fills a CPU
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    let (_, behind_its_name) = stat.rsplit_once(')').unwrap();
    assert_eq!(behind_its_name.split(' ').nth(17), Some("-20"), "{stat}");
    // longer than between two PINGs of libzmq
    let found = found(python, "connects.py", &[&ports[0], &ports[1], "6"]);
    println!("{found}");
    for (what, wanted) in [
        ("connected", json!(true)),
        ("ports", json!(2)),
        ("owned", json!([0, 1])),
        ("id", json!(1)),
        ("opackets", json!([0, 0])),
        ("bob owns", json!([0, 1])),
        ("bob sees", json!([1, 1000])),
        ("bob is still there", json!(true)),
    ] {
        assert_eq!(found[what], wanted, "{what} in {found}");
    }
    let refused = found["bob is refused"].as_str().unwrap();
    assert!(refused.contains("already taken by 'alice'"), "{refused}");
    assert!(
        found["xstats"]
            .as_array()
            .unwrap()
            .contains(&json!("tx_good_packets"))
    );
    server.signal(Signal::INT);
    assert_eq!(server.wait(Duration::from_secs(30)).code, 0);
}

/// Every instruction of TRex's field engine, its marks of groups, its chains and its addresses: frames as they leave the port, against
/// what its documentation says, which the Python file works out by itself.
#[test]
fn frames_are_those_of_trexs_documentation() {
    let name = "frames_are_those_of_trexs_documentation";
    if !root(name) {
        return;
    }
    let Some(python) = python() else {
        return skipped(name, "no Python that has lbr-trex-client");
    };
    let lab = Lab::new();
    let wire = Wire::new();
    let file = lab.path().join("sent.pcap");
    let file = file.to_str().unwrap();
    let mut capture = wire.start(&lab, &format!("capture --port pb --for 60s -o {file}"));
    capture.wait_until("that it captures", |this| {
        this.err().contains("capture   pb")
    });
    let options = format!("--ports pa --dst-mac {MAC_B} --mtu 9000");
    // a kernel that speaks IPv6 sends frames of its own, which are no part of what a client has sent
    let kernel = "cat /proc/sys/net/ipv6/conf/pa/disable_ipv6; ip -o link show dev pa";
    wire.exec("echo 0 > /proc/sys/net/ipv6/conf/pa/disable_ipv6");
    let (server, ports) = serve(&lab, &wire.arguments(&options));
    let held = wire.exec(kernel);
    assert!(held.starts_with('1') && held.contains("mtu 9000"), "{held}");
    let found = found(python, "sends.py", &[&ports[0], &ports[1], file]);
    println!("{found}");
    assert_eq!(found["opackets"], json!(375));
    assert_eq!(found["wrong"], json!([]), "{found}");
    assert_eq!(found["cases"], json!(13));
    assert_eq!(found["groups"], json!([10, 10]));
    assert_eq!(found["addresses"], json!([[MAC_B, MAC_A], [MAC_B, MAC_A]]));
    assert_eq!(found["chain"], json!([0, 1, 1, 2, 2, 2, 0, 1, 1, 2, 2, 2]));
    let times = |key: &str| -> Vec<i64> {
        let list = found[key].as_array().unwrap().iter();
        list.map(|at| at.as_i64().unwrap()).collect()
    };
    let near = |is: Vec<i64>, wanted: &[i64]| {
        assert_eq!(is.len(), wanted.len(), "{is:?}");
        for (is, wanted) in is.iter().zip(wanted) {
            // a busy host lets frames leave late, never early
            assert!(
                (-2_000..60_000).contains(&(is - wanted)),
                "{is} us, not {wanted}"
            );
        }
    };
    let tenths = [0, 0, 1, 1, 2, 3, 3, 3, 4, 4, 5, 6].map(|tenth| tenth * 100_000);
    near(times("chain us"), &tenths);
    near(
        times("burst us"),
        &[0, 10, 20, 70, 80, 90].map(|ms| ms * 1000),
    );
    let refused = found["refused"]["pause"].to_string();
    assert!(refused.contains("only continuous streams"), "{refused}");
    server.signal(Signal::INT);
    assert_eq!(server.wait(Duration::from_secs(30)).code, 0);
    capture.signal(Signal::INT);
    capture.wait(Duration::from_secs(30));
    assert_eq!(wire.attached(), "");
    let after = wire.exec(kernel);
    assert!(
        after.starts_with('0') && after.contains("mtu 1500"),
        "{after}"
    );
}

/// A profile of TRex's, through the user's TRex library, measured like any other; and why not.
#[test]
fn a_profile_of_trexs_is_measured() {
    let name = "a_profile_of_trexs_is_measured";
    let lab = Lab::new();
    // its path is relative to where the command is typed
    let profile = "tests/program/trex/mix.py";
    let trial = |more: &[&str]| {
        let mut words = vec!["trial", "--for", "300ms", "--load", "10kpps"];
        words.extend(["--trex-profile", profile]);
        words.extend(more);
        lab.run(&words)
    };
    trial(&["--trex-python", "/nonexistent/python"])
        .code(2)
        .says(&[
            "cannot run /nonexistent/python",
            "--trex-python names another",
        ]);
    trial(&["--tunable", "size"])
        .code(2)
        .says(&["NAME=VALUE is wanted"]);
    let Some(python) = python() else {
        return skipped(name, "no Python that has lbr-trex-client");
    };
    trial(&["--trex-python", python, "-t", "sise=64"])
        .code(2)
        .says(&["does not take these tunables: sise"]);
    if !root(name) {
        return;
    }
    let ended = trial(&[
        "--trex-python",
        python,
        "-t",
        "scale=100",
        "--both-directions",
        "--json",
    ]);
    // what starts later than the rest is beyond the fastest engine, which is left out before anything is measured
    ended.measured().says(&["not possible here: xdp-live"]);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    let trial = &list(&document["trials"])[0];
    assert_eq!(trial["variant"]["profile"], "mix", "{trial}");
    let kept = lab.only_run().join("inputs/profile.json");
    let text = std::fs::read_to_string(kept).unwrap();
    let streams: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(streams[0]["1"]["mode"]["rate"]["value"], json!(2800));
    assert_eq!(streams[1]["3"]["isg"].as_f64(), Some(200.0));
}

/// A day of random calls of one client, at one in a second, is 86,400; here are as many as fit into some seconds. `FWDLAB_FUZZ_S` is another time.
#[test]
fn any_calls_are_answered_and_leave_nothing() {
    let name = "any_calls_are_answered_and_leave_nothing";
    if !root(name) {
        return;
    }
    let Some(python) = python() else {
        return skipped(name, "no Python that has lbr-trex-client");
    };
    let lab = Lab::new();
    let (server, ports) = serve(&lab, &[]);
    let seconds = std::env::var("FWDLAB_FUZZ_S").unwrap_or("5".into());
    let pid = server.pid().to_string();
    let found = found(python, "any_calls.py", &[&ports[0], &pid, &seconds]);
    println!("{found}");
    assert_eq!(found["unanswered"], json!(null));
    assert_eq!(found["states"], json!(["IDLE", "IDLE"]));
    assert_eq!(found["sent when stopped"], json!([0, 0]));
    assert_eq!(found["groups"], json!({"flow_stats": [], "latency": []}));
    assert!(found["calls"].as_u64().unwrap() > 100, "{found}");
    let of = |when: &str, what: &str| found[when][what].as_i64().unwrap();
    // threads of connections that have just ended, and memory that the allocator keeps
    assert!(
        of("after", "threads") <= of("before", "threads") + 8,
        "{found}"
    );
    assert!(
        of("after", "files") <= of("before", "files") + 16,
        "{found}"
    );
    // and a ring of 64 MiB for each port whose captures go on
    let rings = 2 * 65_536;
    assert!(
        of("after", "kB") <= of("before", "kB") + 100_000 + rings,
        "{found}"
    );
    server.signal(Signal::INT);
    assert_eq!(server.wait(Duration::from_secs(30)).code, 0);
}

/// TRex's own console and its TUI, on a terminal.
#[test]
fn trexs_console_and_its_tui_steer_traffic() {
    let name = "trexs_console_and_its_tui_steer_traffic";
    if !root(name) {
        return;
    }
    let Some(python) = python() else {
        return skipped(name, "no Python that has lbr-trex-client");
    };
    let lab = Lab::new();
    let (server, ports) = serve(&lab, &[]);
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/trex/mix.py");
    let found = found(python, "tui.py", &[&ports[0], &ports[1], profile]);
    assert_eq!(found, json!({"missed": [], "ended": 0}));
    server.signal(Signal::INT);
    assert_eq!(server.wait(Duration::from_secs(30)).code, 0);
}

/// It judges loads.
mod alone {
    use super::*;

    /// Through a DUT, both ways: every frame is counted where it should be, and the load is what was asked for.
    #[test]
    fn traffic_goes_through_a_dut_and_is_steered() {
        let name = "traffic_goes_through_a_dut_and_is_steered";
        if !root(name) {
            return;
        }
        let Some(python) = python() else {
            return skipped(name, "no Python that has lbr-trex-client");
        };
        let lab = Lab::alone();
        let (server, ports) = serve(&lab, &[]);
        let found = found(python, "forwards.py", &[&ports[0], &ports[1]]);
        println!("{found}");
        let order: Vec<f64> = serde_json::from_value(found["order"].clone()).unwrap();
        assert!(order.is_sorted(), "{found}");
        let of = |what: &str| -> Vec<u64> { serde_json::from_value(found[what].clone()).unwrap() };
        let (packets, again) = (of("packets"), of("twice"));
        let is_short = packets[0] < 2900 && packets[0] == packets[3];
        if is_short || again[0] + again[1] < 2600 && again[2] == 0 {
            // nothing was lost on the way: who is held up for more than a second leaves frames out
            let why = format!(
                "the sender was held up: it sent {} of 2900 frames, and then {} of 2600",
                packets[0],
                again[0] + again[1]
            );
            return skipped(name, &why);
        }
        for (what, wanted) in [
            ("active", json!([0, 1])),
            ("over", json!(true)),
            ("packets", json!([2900, 1000, 1000, 2900])),
            (
                "bytes",
                json!([
                    2000 * 64 + 600 * 204 + 300 * 1004,
                    64_000,
                    64_000,
                    2000 * 64 + 600 * 204 + 300 * 1004
                ]),
            ),
            ("group 7", json!([2000, 1000, 1000, 2000])),
            ("group 7 bytes", json!([128_000, 64_000, 64_000, 128_000])),
            ("group 8", json!([600, 0, 0, 600])),
            (
                "errors",
                json!({"dropped": 0, "out_of_order": 0, "dup": 0, "seq_too_high": 0, "seq_too_low": 0}),
            ),
            ("times", json!(600)),
            ("hdrh", json!("HIST")),
            ("twice", json!([2000, 600, 0])),
            ("paused", json!([0, 0])),
            ("after", json!([0, 0])),
            ("paused state", json!("PAUSE")),
            ("watching saw", json!("IDLE")),
            ("playing", json!("PCAP_TX")),
            ("played", json!([60, 60, 60 * 76])),
            ("xstats", json!(true)),
        ] {
            assert_eq!(found[what], wanted, "{what} in {found}");
        }
        let too_much = found["too much"].as_str().unwrap();
        assert!(too_much.contains("Gbit/s on layer 1"), "{too_much}");
        // the load is made up for on a busy host, so it holds to some percent; what was held for a while is not
        for (what, [plain, timed]) in [
            ("2100pps", [2000.0, 100.0]),
            ("times 4", [4000.0, 100.0]),
            ("half", [2000.0, 100.0]),
            ("resumed", [2000.0, 100.0]),
            ("one held", [0.0, 100.0]),
            ("not held", [2000.0, 100.0]),
        ] {
            let shares = [(0, plain), (1, timed)]
                .map(|(at, wanted): (usize, f64)| found[what][at].as_f64().unwrap() / wanted);
            if plain > 0.0 && shares[0] < 0.7 && (shares[1] / shares[0] - 1.0).abs() < 0.3 {
                // steered as asked, and both held up alike
                let why = format!(
                    "the sender was held up: {:.0} % of {what} left",
                    100.0 * shares[0]
                );
                return skipped(name, &why);
            }
            for (at, wanted) in [plain, timed].into_iter().enumerate() {
                let is = found[what][at].as_f64().unwrap();
                assert!(
                    (is - wanted).abs() <= wanted * 0.3,
                    "{what}: {is}, not {wanted}: {found}"
                );
            }
        }
        server.signal(Signal::INT);
        assert_eq!(server.wait(Duration::from_secs(30)).code, 0);
    }
}
