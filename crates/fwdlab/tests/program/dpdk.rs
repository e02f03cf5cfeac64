//! DPDK ports: by hand, and test beds whose tester sends and receives through drivers of DPDK.
//!
//! The program `fwdlab-dpdk` is built beside this one where DPDK is installed; these tests are
//! skipped, and counted, without it. Start with [`slow::send_through_a_driver_of_dpdk`].

use std::path::Path;

use serde_json::{Value, json};

use crate::memif::alone::Testpmd;
use crate::support::{
    Lab, PATIENCE, PROGRAM, begun_runs, count, ended, json_lines, list, number, refused, skipped,
};

/// What `send` needs where the destination is not known.
const MACS: &str = "--src-mac 02:00:00:00:00:01 --dst-mac 02:00:00:00:00:02";

/// Returns true, after a message, if the program is not built.
fn is_missing() -> bool {
    let is_missing = !Path::new(PROGRAM).with_file_name("fwdlab-dpdk").exists();
    if is_missing {
        skipped("fwdlab-dpdk is not built: no libdpdk-dev");
    }
    is_missing
}

/// Returns a port of DPDK's memif driver on a socket in the lab's folder.
fn port(lab: &Lab, number: u32, role: &str, socket: &str) -> String {
    let socket = lab.path().join(socket);
    format!(
        "dpdk:net_memif{number},role={role},socket={},socket-abstract=no",
        socket.display()
    )
}

/// Returns the processes of this lab that contain DPDK.
fn processes(lab: &Lab) -> Vec<i32> {
    let all = lab.processes();
    let own = all.iter().filter(|line| line.contains("fwdlab-dpdk"));
    own.map(|line| line.split(':').next().unwrap().parse().unwrap())
        .collect()
}

/// The program is looked for, started and asked without anything of DPDK.
#[test]
fn a_missing_or_another_program_is_named() {
    let lab = Lab::new();
    let other = lab.write(
        "other",
        "#!/bin/sh\necho 'it is not one of ours' >&2\nexit 2\n",
    );
    crate::support::tool(&["chmod", "+x", &other]);
    for (program, words) in [
        ("/no/such/file", "cannot start /no/such/file: No such file"),
        (&*other, "it is not one of ours"),
    ] {
        let mut command = lab.program(&format!("send --port dpdk:net_null0 {MACS}"));
        command.env("FWDLAB_DPDK", program);
        ended(command).code(4).says(&[words]);
    }
    let table = format!(
        "send --port dpdk: {MACS} => 3: names no device; a DPDK port is named dpdk:DEVICE
        send --port dpdk:net_null0 --netns /proc/self/ns/net {MACS} => 3: in no network namespace
        send --port dpdk:00:1f.7 {MACS} => 3: there is no PCI device 0000:00:1f.7
        capture --port dpdk:net_null0 => 3: is a DPDK port, and a network interface is needed here"
    );
    refused(&table, |line| lab.run(line));
    lab.assert_clean("programs that cannot be used");
}

pub mod slow {
    use super::*;

    /// DPDK's memif driver and our own memif, two implementations: every frame arrives, in order.
    #[test]
    fn send_through_a_driver_of_dpdk() {
        if is_missing() {
            return;
        }
        let lab = Lab::new();
        let (ours, socket) = (port(&lab, 0, "server", "m"), lab.path().join("m"));
        let other = format!("memif:{}", socket.display());
        let line =
            format!("send --port {ours} --rx-port {other} --for 2000frames --load 20kpps {MACS}");
        let done = lab.json(&line);
        let (sent, received) = (&done["send"][0], &done["receive"][0]);
        assert_eq!(count(&sent["frames_sent"]), 2000, "{sent}");
        assert!(sent["engine_mode"].as_str().unwrap().starts_with("dpdk"));
        assert_eq!(count(&received["frames_received"]), 2000, "{received}");

        let line = format!("receive --port {ours} --for 2000frames --streams 0 --json");
        let mut receiver = lab.start(&line);
        receiver.wait_until("its socket", |_| socket.exists());
        let line = format!("send --port {other} --for 2000frames --load 20kpps {MACS}");
        assert_eq!(count(&lab.json(&line)["send"][0]["frames_sent"]), 2000);
        let received = receiver.wait(PATIENCE).code(0).document();
        let received = &received["receive"][0];
        assert_eq!(received["receiver"], "dpdk", "{received}");
        let stream = &received["streams"][0];
        assert_eq!(count(&stream["frames_received"]), 2000, "{stream}");
        lab.assert_clean("DPDK by hand");
    }

    #[test]
    fn dpdk_ports_that_cannot_be_used_are_refused() {
        if is_missing() {
            return;
        }
        let lab = Lab::new();
        let table = format!(
            "send --port dpdk:net_nosuch0 {MACS} => 4: cannot open the device
            send --port dpdk:net_null0 --engine af-xdp {MACS} => 2: af-xdp cannot use dpdk:net_null0
            send --port dpdk:net_ring0 --size 9000 {MACS} => 4: 8996 bytes"
        );
        refused(&table, |line| lab.run(line));
        lab.assert_clean("DPDK ports that cannot be used");
    }

    /// The tester alone: two ports of one process.
    #[test]
    fn selftest_measures_dpdk_with_itself() {
        if is_missing() {
            return;
        }
        let lab = Lab::new();
        let line = "selftest --engine dpdk --size 64 --senders 1 --loads 10kpps --trial 200ms";
        let document = lab.json(line);
        assert_eq!(document["receiver"], "dpdk");
        let limit = &document["limits"][0];
        assert_eq!(limit["engine"], json!("dpdk"));
        assert!(number(&limit["received_pps"]) > 0.0, "{limit}");
        assert_eq!(list(&document["engines_that_do_not_work"]).len(), 0);
        lab.assert_clean("a self-test of DPDK");
    }
}

mod alone {
    use super::*;

    /// Writes the file of a bed whose DUT is testpmd. Returns its path.
    fn bed(lab: &Lab) -> String {
        let port = |number, socket| {
            let port = port(lab, number, "client", socket);
            port.trim_start_matches("dpdk:").to_owned()
        };
        let text = format!(
            "bed = 'dpdk-{}'\n[generator]\nkind = 'dpdk'\nports = {{ a = '{}', b = '{}' }}\n\
             [dut]\nkind = 'none'\nmacs = {{ a = '02:00:00:00:0d:0a', b = '02:00:00:00:0d:0b' }}\n",
            std::process::id(),
            port(0, "a"),
            port(1, "b")
        );
        lab.write("d.toml", &text)
    }

    /// Two measurements of one run; in the first one, the process that contains DPDK is killed. It is
    /// lost, the run is not, and the second one counts.
    #[test]
    fn a_process_of_dpdk_that_dies_costs_one_trial() {
        if is_missing() {
            return;
        }
        let lab = Lab::alone();
        let file = bed(&lab);
        let Some(dut) = Testpmd::start(&lab, "io") else {
            return;
        };
        lab.run(&["doctor", &file])
            .code(0)
            .prints(&["driver net_memif", "100 of 100 frames came back"]);
        drop(dut);
        let Some(_dut) = Testpmd::start(&lab, "io") else {
            return;
        };
        let line = format!("trial --load 2kpps --for 3s --bed {file}");
        let mut running = lab.start(&line);
        running.wait_until("frames", |_| {
            let runs = begun_runs(&lab.runs()).into_iter();
            let mut events = runs.map(|run| std::fs::read_to_string(run.join("events.jsonl")));
            events.any(|events| events.is_ok_and(|events| events.contains("\"progress\"")))
        });
        let [process] = processes(&lab)[..] else {
            panic!("{:?}", lab.processes());
        };
        let pid = rustix::process::Pid::from_raw(process).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let ended = running.wait(PATIENCE);
        let run = lab.only_run();
        let records: Vec<Value> = json_lines(&run.join("trials.jsonl"));
        let reasons = |record: &Value| record["validity"]["reasons"].to_string();
        let is_told = |record: &Value| reasons(record).contains("fwdlab-dpdk has ended");
        assert!(
            records.iter().any(is_told) || ended.err.contains("fwdlab-dpdk has ended"),
            "{ended:?}: {records:?}"
        );
        lab.assert_clean("a process that was killed");
    }
}
