//! Safety of ports: refuses ports that are in use, keeps two senders apart, and leaves nothing
//! behind on any kind of exit. Start with [`destinations_of_other_people_are_refused`].

use rustix::process::Signal;

use crate::support::{Lab, PATIENCE};
use crate::wire::{MAC_B, Wire, capture_file, frame, wired};

fn send(more: &str) -> String {
    format!("send --port pa --dst-mac {MAC_B} --load 1kpps {more}")
}

/// Returns true once the output shows the engine, or that a capture has started.
fn begun(err: &str) -> bool {
    ["engine  ", "receiver  ", "capture  "]
        .iter()
        .any(|word| err.contains(word))
}

#[test]
fn a_port_that_somebody_needs_is_refused_until_all_of_that_is_accepted() {
    let Some((lab, wire)) = wired() else { return };
    wire.ip("link property add dev pa altname harmless0");
    // an alternative name means the same port: one port that sends and receives, with counters of
    // its own
    let other = send("--for 10frames --rx-port pa").replacen("pa", "harmless0", 1);
    let document = wire.json(&lab, &other);
    assert_eq!(document["send"][0]["port"], "pa");
    assert_eq!(document["send"][0]["port_tx_packets"], 10, "{document}");
    wire.run(&lab, "serve --trex --ports pa,harmless0")
        .code(2)
        .says(&["--ports has pa twice"]);

    // one danger of each kind; the test address alone is none
    wire.exec(
        "ip link set lo up; ip address add 198.18.0.2/24 dev pa; ip address add 10.0.0.5/24 dev pa; \
         ip route add default table 100 dev pa; ip link add br0 type bridge; ip link set pa master br0; \
         ip neighbour add 192.168.9.9 lladdr 02:00:00:00:00:99 nud reachable dev pa",
    );
    // a connection that stays open as long as its standard input
    let script = "import socket,sys\n\
        a=socket.create_server(('198.18.0.2',5000))\n\
        b=socket.create_connection(('198.18.0.2',5000)); c=a.accept()\n\
        print('there',flush=True); sys.stdin.read()";
    let mut python = std::process::Command::new("ip")
        .args(["netns", "exec", &wire.name, "python3", "-c", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let output = python.stdout.as_mut().unwrap();
    std::io::Read::read_exact(output, &mut [0; 6]).unwrap();
    let dangers = [
        ("it carries the default route", "--allow-default-route"),
        ("it has the address 10.0.0.5", "--allow-address"),
        ("a TCP connection with 198.18.0.2 port", "--allow-in-use"),
        ("it is a port of br0", "--allow-in-bridge"),
    ];
    let before = wire.counter("pa", "tx", "packets");
    // under any name
    let refused = wire.run(&lab, &send("--for 10frames").replace(" pa ", " harmless0 "));
    refused.code(3).says(&[
        "refusing to send on pa",
        "192.168.9.9 is an active neighbour",
    ]);
    assert!(refused.out.is_empty());
    let flags = dangers.map(|(_, flag)| flag);
    for (words, flag) in dangers {
        refused.says(&[words, flag]);
        let others = flags.map(|other| if other == flag { "" } else { other });
        let refused = wire.run(&lab, &send(&format!("--for 10frames {}", others.join(" "))));
        refused.code(3).says(&[words, flag]);
        for accepted in others.into_iter().filter(|other| !other.is_empty()) {
            assert!(!refused.err.contains(accepted), "{refused:?}");
        }
    }
    assert_eq!(wire.counter("pa", "tx", "packets"), before);
    let accepted = send(&format!("--for 10frames -q {}", flags.join(" ")));
    wire.run(&lab, &accepted).measured();
    assert_eq!(wire.counter("pa", "tx", "packets"), before + 10);
    drop(python.stdin.take());
    python.wait().unwrap();
    lab.assert_clean("refused ports");
}

/// By typed flows, by profiles, and by captures. `lab` and `packet` test which addresses are
/// allowed, in which layer.
#[test]
fn destinations_of_other_people_are_refused() {
    let Some((lab, wire)) = wired() else { return };
    let profile = |name: &str, stream: &str| {
        let path = lab.write(name, &format!("about = 'test'\n[[stream]]\n{stream}\n"));
        send(&format!("--for 10frames --profile {path}"))
    };
    // a frame far beyond those that are checked leaves the block
    let far = "vary = [{ field = 'ipv4.destination', from = '198.19.0.0', count = 1_000_000 }]";
    let tunnel = "{ ipv4 = { destination = '198.19.1.1' } }, 'udp', 'vxlan', 'ethernet'";
    let public = format!("layers = [{tunnel}, {{ ipv4 = {{ destination = '8.8.8.8' }} }}, 'udp']");
    let frames = [(0, [198, 19, 0, 1]), (1000, [8; 4])].map(|(at, to)| (at, frame(to, 1, 30)));
    capture_file(&lab, "bad.pcapng", &frames);
    let captured = send("--pcap bad.pcapng");
    let to_all = "send --port pa --load 1kpps --dst-mac ff:ff:ff:ff:ff:ff --for 10frames";
    for (line, words) in [
        (profile("far.toml", far), "RFC 6815"),
        (profile("vxlan.toml", &public), "8.8.8.8 (IPv4 in VXLAN"),
        (
            send("--for 10frames --to 198.19.255.250-198.20.0.5"),
            "RFC 6815",
        ),
        (
            send("--for 10frames --from 8.8.8.8 --to 198.19.0.1"),
            "refusing to send from 8.8.8.8",
        ),
        (captured.clone(), "frame 2 of"),
        (to_all.to_owned(), "ff:ff:ff:ff:ff:ff"),
    ] {
        wire.run(&lab, &line)
            .code(3)
            .says(&[words, "--to-any-address"]);
        assert_eq!(wire.counter("pa", "tx", "packets"), 0, "{line}");
    }
    // addresses between those of a list never get frames
    let list = format!(
        "layers = [{tunnel}, 'ipv4', 'udp']\n\
         vary = [{{ field = 'ipv4[2].destination', values = ['198.18.0.1', '203.0.113.1'] }}]"
    );
    let mut sent = 0;
    for (line, frames) in [
        (profile("list.toml", &list), 10),
        (send("--for 10frames --to 8.8.8.8 --to-any-address"), 10),
        (format!("{to_all} --to-any-address"), 10),
        (format!("{captured} --to-any-address"), 2),
    ] {
        wire.run(&lab, &line).measured();
        sent += frames;
        assert_eq!(wire.counter("pa", "tx", "packets"), sent, "{line}");
    }
}

#[test]
fn two_processes_on_one_port_are_reported() {
    let Some((lab, wire)) = wired() else { return };
    for (first, second, words) in [
        (send(""), send("--for 10frames"), "sends on pa"),
        (
            "receive --port pb".to_owned(),
            "receive --port pb --for 10ms".to_owned(),
            "refusing to attach to pb",
        ),
    ] {
        let mut running = wire.start(&lab, &first);
        running.wait_until("its begin", |running| begun(&running.err()));
        let refused = wire.run(&lab, &second);
        refused.code(3).says(&[words]);
        // for a receiver, the kernel shows only which program is attached
        if words.contains("sends") {
            refused.says(&[&format!("process {} ", running.pid())]);
        }
        // in another namespace, the same index is another port
        Wire::new().run(&lab, &second).measured();
        running.signal(Signal::KILL);
        running.wait(PATIENCE).code(128 + 9);
        assert_eq!(wire.attached(), "", "after kill -9");
        wire.run(&lab, &second).measured();
    }
    lab.assert_clean("two of us");
}

#[test]
fn nothing_is_left_on_a_port_after_any_exit() {
    let Some((lab, wire)) = wired() else { return };
    let capture = "capture --port pb -o c.pcapng".to_owned();
    let (interrupt, terminate) = ((Signal::INT, 0), (Signal::TERM, 143));
    for (command, (signal, code)) in [
        (send("--engine xdp-live"), interrupt),
        (send("--engine af-packet"), terminate),
        ("receive --port pb --engine xdp".to_owned(), interrupt),
        (capture.clone(), interrupt),
        (capture, terminate),
    ] {
        let mut running = wire.start(&lab, &command);
        running.wait_until("its begin", |running| begun(&running.err()));
        running.signal(signal);
        let ended = running.wait(PATIENCE);
        // a busy machine may keep a sender from its load, which is reported
        assert!(
            ended.code == code || (code == 0 && ended.code == 5),
            "{command}: {ended:?}"
        );
        assert_eq!(wire.attached(), "", "{command} after {signal:?}");
        let flags = wire.ip("-d link show dev pb");
        assert!(flags.contains("promiscuity 0"), "{command}: {flags}");
    }
    lab.assert_clean("all exits");
}

/// Each engine's message is tested in `engine`.
#[test]
fn a_port_that_goes_down_or_away_ends_the_command_with_its_name() {
    let Some(lab) = Lab::root() else { return };
    let capture = "capture --port pb -o c.pcapng".to_owned();
    for (command, step, words) in [
        (send("--engine af-xdp"), "link delete pa", ["pa", "gone"]),
        (capture, "link set pb down", ["pb", "set down"]),
    ] {
        let wire = Wire::new();
        let mut running = wire.start(&lab, &command);
        running.wait_until("its begin", |running| begun(&running.err()));
        wire.ip(step);
        running.wait(PATIENCE).code(4).says(&words);
        assert!(!wire.attached().contains("fwdlab"), "{}", wire.attached());
    }
    // from the start
    let wire = Wire::new();
    wire.ip("link set pa down");
    wire.run(&lab, &send("--for 1frame"))
        .code(3)
        .says(&["pa is down", &format!("ip -n {} link set pa up", wire.name)]);
    wire.ip("link set pa up");
    wire.ip("link set pb down");
    wire.run(&lab, &send("--for 1frame"))
        .code(3)
        .says(&["no link", "other end"]);
    wire.run(&lab, "send --port nosuch --for 1frame")
        .code(3)
        .says(&["no interface nosuch", "pb"]);
    lab.run("capture --port x --netns fwtest-nosuch")
        .code(3)
        .says(&["no network namespace"]);
    lab.assert_clean("ports that go");
}
