//! memif ports: by hand, between two of our own processes, and test beds whose DUT is DPDK's
//! testpmd.
//!
//! The tests with testpmd run alone, and are skipped, and counted, where there is none. Start with
//! [`Testpmd`].

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    Lab, PATIENCE, count, directories, json_lines, list, number, refused, skipped,
};

/// What `send` needs on a port without addresses.
const MACS: &str = "--src-mac 02:00:00:00:00:01 --dst-mac 02:00:00:00:00:02";

/// Two processes on one socket: every frame arrives, and neither reports a counter that it does not
/// have.
#[test]
fn send_and_receive_are_the_two_ends_of_a_socket() {
    let lab = Lab::new();
    let socket = lab.path().join("m.sock");
    let (client, server) = (
        format!("memif:{},queues=2", socket.display()),
        format!("memif:{},role=server,queues=2", socket.display()),
    );
    for (from, to) in [(&client, &server), (&server, &client)] {
        let line = format!("receive --port {to} --for 1000frames --streams 0 --json");
        let receiver = lab.start(&line);
        let line = format!("send --port {from} --for 1000frames --load 20kpps {MACS}");
        let sent = lab.json(&line);
        let sent = &sent["send"][0];
        assert_eq!(sent["engine_mode"], "memif, 2 queues", "{sent}");
        assert_eq!(count(&sent["frames_sent"]), 1000, "{sent}");
        for absent in ["port_tx_packets", "port_tx_dropped"] {
            assert_eq!(sent[absent], Value::Null, "{sent}");
        }
        // which has left by now, or not yet
        assert_eq!(count(&sent["memif"]["connections"]), 1, "{sent}");
        let received = receiver.wait(PATIENCE).code(0).document();
        let received = &received["receive"][0];
        assert_eq!(count(&received["frames_received"]), 1000, "{received}");
        assert_eq!(received["port_rx_packets"], Value::Null, "{received}");
        let stream = &received["streams"][0];
        assert_eq!(count(&stream["frames_received"]), 1000, "{stream}");
    }
    lab.assert_clean("memif by hand");
}

/// What cannot work is refused before anything is sent, with what to do.
#[test]
fn memif_ports_that_cannot_be_used_are_refused() {
    let lab = Lab::new();
    let socket = lab.path().join("m.sock");
    let port = format!("--port memif:{}", socket.display());
    let mut first = lab.start(&format!("receive {port},role=server"));
    first.wait_until("its socket", |_| socket.exists());
    let table = "receive PORT,role=server,ring=64 => 3: another fwdlab sends on memif:
        receive PORT,role=server,id=1 => 4: another program listens for memif clients there; end it, or use another socket, or the role client
        send PORT,queues=17 MACS => 3: a memif port has 1 to 16 queues, and not 17
        send PORT,role=master MACS => 3: `role=master` is not valid in
        send PORT => 2: has no Ethernet address; give --src-mac
        send PORT --src-mac 02:00:00:00:00:01 => 3: finding the next hop without --dst-mac needs a network interface
        send PORT --engine af-xdp MACS => 2: af-xdp cannot use memif:
        send PORT --size 9000 MACS => 4: use longer buffers or shorter frames
        send PORT --netns /proc/self/ns/net MACS => 3: in no network namespace
        capture PORT => 3: is a memif port, and a network interface is needed here";
    let table = table.replace("PORT", &port).replace("MACS", MACS);
    refused(&table, |line| lab.run(line));
    first.signal(rustix::process::Signal::INT);
    let ended = first.wait(PATIENCE);
    ended.code(0);
    assert!(ended.out.contains("no peer   memif:"), "{ended:?}");
}

/// The tester alone: our client and our server in one process.
#[test]
fn selftest_measures_memif_with_itself() {
    let lab = Lab::new();
    let line = "selftest --engine memif --size 64 --loads 10kpps --trial 200ms";
    let document = lab.json(line);
    assert_eq!(document["receiver"], "memif");
    let limit = &document["limits"][0];
    assert_eq!(
        (&limit["engine"], &limit["senders"]),
        (&json!("memif"), &json!(1))
    );
    assert!(number(&limit["received_pps"]) > 0.0, "{limit}");
    assert!(
        number(&limit["received_pps"]) <= number(&limit["sent_pps"]),
        "{limit}"
    );
    assert_eq!(list(&document["pacing"]).len(), 1);
    assert_eq!(list(&document["floors"]).len(), 1);
    assert_eq!(list(&document["engines_that_do_not_work"]).len(), 0);
    lab.run("selftest --engine memif,af-packet")
        .code(2)
        .says(&["its own pair has no other engine"]);
}

pub mod alone {
    use super::*;

    /// A running testpmd between two memif ports, which listens for their clients; killed when
    /// dropped. One for each command: 22.11 crashes after several clients.
    pub struct Testpmd {
        child: Child,
        litter: String,
    }

    impl Testpmd {
        /// Starts it; `None`, and counted, if there is none.
        pub fn start(lab: &Lab, mode: &str) -> Option<Testpmd> {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let prefix = format!("fwdlab-program-{}-{number}", std::process::id());
            let output = lab.path().join(&prefix);
            let cpus = std::thread::available_parallelism().map_or(1, usize::from) - 1;
            let mut command = Command::new("stdbuf");
            command.args(["-oL", "dpdk-testpmd"]);
            command.arg(format!("--lcores=0@(0-{cpus}),1@(0-{cpus})"));
            for (number, end) in ["a", "b"].into_iter().enumerate() {
                let socket = lab.path().join(end);
                let _ = std::fs::remove_file(&socket);
                command.arg(format!(
                    "--vdev=net_memif{number},role=server,id=0,socket={},socket-abstract=no,rsize=10",
                    socket.display()
                ));
            }
            command
                .args(["--no-huge", "-m", "256", "--no-pci", "--no-telemetry"])
                .arg(format!("--file-prefix={prefix}"))
                .args(["--", "--auto-start", "--disable-link-check"])
                .arg("--total-num-mbufs=16384")
                .arg(format!("--forward-mode={mode}"))
                .stdin(Stdio::piped())
                .stdout(std::fs::File::create(&output).unwrap())
                .stderr(Stdio::null());
            let mut testpmd = Testpmd {
                child: command.spawn().unwrap(),
                litter: format!("/var/run/dpdk/{prefix}"),
            };
            let text = || std::fs::read_to_string(&output).unwrap_or_default();
            let begin = Instant::now();
            while !text().contains("Press enter to exit") {
                if testpmd.child.try_wait().unwrap().is_some() {
                    let has_it = Command::new("dpdk-testpmd").arg("--version").output();
                    assert!(has_it.is_err(), "testpmd ended: {}", text());
                    skipped("no dpdk-testpmd (Debian's package dpdk-dev)");
                    return None;
                }
                assert!(begin.elapsed() < PATIENCE, "{}", text());
                std::thread::sleep(Duration::from_millis(10));
            }
            Some(testpmd)
        }
    }

    impl Drop for Testpmd {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            let _ = std::fs::remove_dir_all(&self.litter);
        }
    }

    /// Writes the file of the bed. Returns its path.
    fn bed(lab: &Lab) -> String {
        let socket = |end: &str| lab.path().join(end).display().to_string();
        let text = format!(
            "bed = 'memif-{}'\n[generator]\nkind = 'memif'\nports = {{ a = '{}', b = '{}' }}\n\
             [dut]\nkind = 'none'\nmacs = {{ a = '02:00:00:00:0d:0a', b = '02:00:00:00:0d:0b' }}\n",
            std::process::id(),
            socket("a"),
            socket("b")
        );
        lab.write("m.toml", &text)
    }

    /// Returns the records of all trials so far; none claims more than is known: frames that the
    /// DUT has read or not, and frames that came back.
    fn trials(lab: &Lab) -> Vec<Value> {
        let records = json_lines(&lab.only_run().join("trials.jsonl"));
        for record in &records {
            let counters = &record["counters"];
            let [port, unread @ ..] = list(&counters["meters"]) else {
                // it failed before its counters were read
                assert_ne!(reasons(record), "[]", "{record}");
                continue;
            };
            assert_eq!(port["standing"], "exact", "{port}");
            let dropped = count(&port["dropped"][0]["frames"]);
            assert_eq!(
                count(&counters["generator_sent"]),
                count(&port["passed"]) + dropped,
                "{counters}"
            );
            for meter in unread {
                assert_eq!(meter["standing"], "absent", "{meter}");
            }
            let is_valid = list(&record["validity"]["reasons"]).is_empty();
            let received = count(&counters["receiver_received"]);
            assert!(
                !is_valid || received <= count(&port["passed"]),
                "{counters}"
            );
        }
        records
    }

    fn reasons(record: &Value) -> String {
        record["validity"]["reasons"].to_string()
    }

    /// `doctor`, `trial` and `quick` on a bed whose DUT is another program's.
    #[test]
    fn a_testpmd_is_a_black_box_between_memif_ports() {
        let lab = Lab::alone();
        let file = bed(&lab);
        let Some(dut) = Testpmd::start(&lab, "mac") else {
            return;
        };
        lab.run(&["doctor", &file]).code(0).prints(&[
            "connected to DPDK",
            "100 of 100 frames came back; it is not known whether they passed the DUT",
        ]);
        drop(dut);
        for line in [
            "trial --load 2kpps --for 300ms",
            "quick --size 64 --flows 10 -n 1 --trial 200ms",
        ] {
            let Some(_dut) = Testpmd::start(&lab, "io") else {
                return;
            };
            let _ = std::fs::remove_dir_all(lab.runs());
            let ended = lab.run(&format!("{line} --bed {file}"));
            ended.measured();
            assert!(!trials(&lab).is_empty(), "{ended:?}");
            let unknown = "the host of the DUT cannot be read";
            assert!(ended.err.contains(unknown), "{ended:?}");
            for claim in ["0 CPUs", "Linux ,", "dpdk-testpmd ("] {
                assert!(
                    !ended.out.contains(claim) && !ended.err.contains(claim),
                    "{ended:?}"
                );
            }
        }
        lab.assert_clean("a bed of memif ports");
    }

    /// A DUT that forwards nothing, or restarts: never a good figure. `lab` and `engine` test a
    /// queue that is too short.
    #[test]
    fn losses_in_a_testpmd_are_losses_or_make_trials_invalid() {
        let lab = Lab::alone();
        let file = bed(&lab);
        let Some(dut) = Testpmd::start(&lab, "rxonly") else {
            return;
        };
        let line = ["trial", "--load", "2kpps", "--for", "300ms", "--bed", &file];
        lab.run(&line).code(4).says(&["and 0 arrived at memif:"]);
        drop(dut);

        let Some(dut) = Testpmd::start(&lab, "io") else {
            return;
        };
        let _ = std::fs::remove_dir_all(lab.runs());
        let line = ["trial", "--load", "2kpps", "--for", "2s", "--bed", &file];
        let mut running = lab.start(&line);
        running.wait_until("its first trial", |_| {
            let runs = directories(&lab.runs()).into_iter();
            let mut events = runs.map(|run| std::fs::read_to_string(run.join("events.jsonl")));
            events.any(|events| events.is_ok_and(|events| events.contains("\"progress\"")))
        });
        drop(dut);
        let Some(_dut) = Testpmd::start(&lab, "io") else {
            return;
        };
        let ended = running.wait(PATIENCE);
        let records = trials(&lab);
        let is_told = |record: &Value| reasons(record).contains("memif:");
        assert!(
            ended.code == 4 || records.iter().any(is_told),
            "{ended:?}: {records:?}"
        );
    }
}
