//! DPDK ports: by hand, and test beds whose tester sends and receives through drivers of DPDK.
//!
//! The program `fwdlab-dpdk` is built beside this one where DPDK is installed; these tests are
//! skipped, and counted, without it. Start with [`slow::send_through_a_driver_of_dpdk`].

use std::path::{Path, PathBuf};

use fwdlab_lab::vm::computer::Card;
use serde_json::{Value, json};

use crate::cards::{Guest, said};
use crate::memif::alone::Testpmd;
use crate::support::{
    Lab, PATIENCE, PROGRAM, begun_runs, count, ended, json_lines, list, number, refused, runs_long,
    skipped, tool,
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
    tool(&["chmod", "+x", &other]);
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

    /// The process that contains DPDK is killed in a trial, which is lost for that reason; the run
    /// is not.
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
        let line = format!("trial --load 2kpps --for 1s --bed {file}");
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
        // testpmd 22.11 may crash when its peer disappears
        let goes_on = records.iter().any(|record| !is_told(record));
        assert!(goes_on || ended.err.contains("no link"), "{ended:?}");
        lab.assert_clean("a process that was killed");
    }
}

/// Cards of a guest, each pair with its drivers of DPDK: bound to a driver for user space, used,
/// and given back.
mod in_guests {
    use super::*;

    /// Prints driver and PCI address of each port but that for management.
    const CARDS: &str = "modprobe e1000e; modprobe vmxnet3; sleep 1
        for port in /sys/class/net/eth*; do
            device=$(readlink -f $port/device)
            # the device of a virtio interface is below the card
            [ -e $device/config ] || device=${device%/*}
            [ ${port##*/} = eth0 ] || echo $(basename $(readlink $device/driver)) ${device##*/}
        done";

    /// Puts the programs and everything that they load into an archive, with the paths of this
    /// machine.
    fn archive(lab: &Lab) -> PathBuf {
        let archive = lab.path().join("programs.tar");
        let script = r#"
            mkdir -p root/usr/bin
            for name in fwdlab fwdlab-dpdk; do strip -o root/usr/bin/$name "$1/$name"; done
            plugins=$(echo /usr/lib/*/dpdk/pmds-*)
            all="$plugins/librte_bus_pci.so* $plugins/librte_bus_vdev.so* $plugins/librte_mempool_ring.so* $plugins/librte_net_vmxnet3.so* $plugins/librte_net_e1000.so* $plugins/librte_net_virtio.so*"
            needed=$(ldd root/usr/bin/* $all | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^\t\(\/[^ ]*\) .*/\1/p' | sort -u)
            # links stay links: a driver that is found twice ends the program
            for file in $all $needed; do
                file=$(readlink -f "$(dirname "$file")")/$(basename "$file")
                while tar -rPf "$2" "$file"; [ -L "$file" ]; do
                    cd "$(dirname "$file")"
                    file=$(readlink -f "$(dirname "$(readlink "$file")")")/$(basename "$(readlink "$file")")
                    cd - >/dev/null
                done
            done
            tar -rf "$2" -C root usr"#;
        let folder = Path::new(PROGRAM).parent().unwrap();
        let mut command = std::process::Command::new("sh");
        command
            .args(["-ec", script, "archive"])
            .args([folder, &archive]);
        let made = command.current_dir(lab.path()).output().unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        archive
    }

    #[test]
    fn cards_are_bound_used_and_given_back() {
        if is_missing() || !runs_long("cards with drivers of DPDK") {
            return;
        }
        let pairs = [
            Card::Vmxnet3,
            Card::Vmxnet3,
            Card::E1000e,
            Card::E1000e,
            Card::Virtio,
            Card::Virtio,
        ];
        let Some(guest) = Guest::start(&pairs, 1, 1024) else {
            return;
        };
        // a wire between the two cards of a pair
        let namespace = &guest.namespace;
        for (number, wire) in guest.cables.chunks(2).enumerate() {
            let script = format!(
                "ip link add w{number} type bridge mcast_snooping 0; ip link set w{number} up
                for port in {}; do ip link set $port master w{number}; ip link set $port up; done",
                wire.join(" ")
            );
            tool(&["ip", "netns", "exec", namespace, "sh", "-ec", &script]);
        }
        let inside = guest.host.put(&archive(&guest.lab)).unwrap();
        let said = |text: &str| said(&guest.host, text);
        said(&format!(
            "tar -xf {inside} -C / && echo 128 > /proc/sys/vm/nr_hugepages"
        ));
        let before = said(CARDS);
        for driver in ["vmxnet3", "e1000e", "virtio-pci"] {
            let cards = before.lines().filter_map(|line| line.strip_prefix(driver));
            let [a, b] = cards.map(str::trim).collect::<Vec<_>>()[..] else {
                panic!("{before}");
            };
            // an interface with an address is in use
            let interface = said(&format!(
                "basename $(ls -d /sys/bus/pci/devices/{a}/net/* /sys/bus/pci/devices/{a}/virtio*/net/* 2>/dev/null)"
            ));
            let interface = interface.trim();
            said(&format!(
                "ip addr add 10.9.8.7/24 dev {interface}; ip link set {interface} up"
            ));
            let send = format!(
                "fwdlab traffic send --port dpdk:{a} --rx-port dpdk:{b} --load 2kpps --dst-mac 02:00:00:00:00:02"
            );
            let refused = said(&format!("{send} --for 1frames 2>&1 || true"));
            assert!(
                refused.contains("10.9.8.7") && refused.contains("--allow-address"),
                "{refused}"
            );
            assert_eq!(said(CARDS), before);
            said(&format!("ip addr flush dev {interface}"));

            let done = said(&format!("{send} --for 4000frames --json"));
            let done: Value = serde_json::from_str(&done).unwrap();
            let (sent, received) = (&done["send"][0], &done["receive"][0]);
            assert_eq!(count(&sent["frames_sent"]), 4000, "{driver}: {done}");
            assert_eq!(
                count(&received["frames_received"]),
                4000,
                "{driver}: {done}"
            );
            assert_eq!(said(CARDS), before, "{driver} was not given back");

            // killed: the next command gives the cards back
            let driver_of = format!("basename $(readlink /sys/bus/pci/devices/{a}/driver)");
            let bound = said(&format!(
                "{send} --for 60s >/dev/null 2>&1 & sleep 8; {driver_of}; kill -9 $(pidof fwdlab); sleep 1; {driver_of}"
            ));
            assert_eq!(
                bound.split_whitespace().collect::<Vec<_>>(),
                ["uio_pci_generic"; 2],
                "{driver}"
            );
            assert!(said("pidof fwdlab-dpdk || true").trim().is_empty());
            said(&format!("{send} --for 1frames"));
            assert_eq!(
                said(CARDS),
                before,
                "{driver} was not given back after a kill"
            );
        }
    }
}
