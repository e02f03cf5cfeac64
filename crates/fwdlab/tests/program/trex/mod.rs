//! `fwdlab serve --trex` and TRex's own client, unmodified, as the package `lbr-trex-client` has it.
//!
//! What the client does stands in the Python files beside this one; what it found is judged here.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Lab, Started, root, skipped};
use crate::wire::Wire;

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

/// A server of the ports of a wire, and where it listens.
fn serve(lab: &Lab, wire: &Wire) -> (Started, [String; 2]) {
    let words = "serve --trex --json --ports pa,pb --listen 127.0.0.1:0 --publisher 127.0.0.1:0";
    let mut server = lab.start(&wire.arguments(words));
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
    let (server, ports) = serve(&lab, &wire);
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
