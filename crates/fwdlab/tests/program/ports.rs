//! Ports are safe: what somebody needs is refused, two of us keep apart, and nothing is left on any kind of exit.

use rustix::process::Signal;

use crate::support::{Lab, PATIENCE, root, skipped, try_tool};
use crate::wire::{MAC_B, Wire, capture_file, frame};

fn send(more: &str) -> String {
    format!("send --port pa --dst-mac {MAC_B} --load 1kpps {more}")
}

/// Has it said which engine it has, or that it captures?
fn begun(err: &str) -> bool {
    ["engine  ", "receiver  ", "capture  "]
        .iter()
        .any(|word| err.contains(word))
}

#[test]
fn a_port_that_somebody_needs_is_refused_until_that_is_accepted() {
    const TEST: &str = "a_port_that_somebody_needs_is_refused_until_that_is_accepted";
    if !root(TEST) {
        return;
    }
    let lab = Lab::new();
    // what is done to the port, what is said, what accepts it
    for (script, words, flag) in [
        (
            "ip address add 198.18.0.2/24 dev pa; ip route add default via 198.18.0.1",
            "it carries the default route",
            "--allow-default-route",
        ),
        (
            "ip route add default table 100 dev pa",
            "it carries the default route",
            "--allow-default-route",
        ),
        (
            "ip address add 198.18.0.2/24 dev pa; ip route add 0.0.0.0/1 dev pa; ip route add 128.0.0.0/1 dev pa",
            "it carries a part of a default route (0.0.0.0/1)",
            "--allow-default-route",
        ),
        (
            "ip address add 10.0.0.5/24 dev pa",
            "it has the address 10.0.0.5",
            "--allow-address",
        ),
        (
            "ip link add br0 type bridge; ip link set pa master br0",
            "it is a port of br0",
            "--allow-in-bridge",
        ),
        (
            "ip link add link pa name pa.7 type vlan id 7",
            "pa.7 is on top of it",
            "--allow-in-bridge",
        ),
        (
            "ip neighbour add 192.168.9.9 lladdr 02:00:00:00:00:99 nud reachable dev pa",
            "192.168.9.9 is an active neighbour",
            "--allow-in-use",
        ),
    ] {
        let wire = Wire::new();
        if script.contains("type vlan") && !has_vlan(&wire) {
            skipped(TEST, "this kernel has no VLAN devices");
            continue;
        }
        wire.exec(script);
        let before = wire.counter("pa", "tx", "packets");
        // whatever it is called
        wire.ip("link property add dev pa altname harmless0");
        let by_name = send("--for 10frames");
        for words_of in [by_name.replace(" pa ", " harmless0 "), by_name] {
            let refused = wire.run(&lab, &words_of);
            refused
                .code(3)
                .says(&["refusing to send on pa", words, flag]);
            assert!(refused.out.is_empty());
        }
        assert_eq!(wire.counter("pa", "tx", "packets"), before, "{words}");
        wire.run(&lab, &send(&format!("--for 10frames -q {flag}")))
            .measured();
        assert_eq!(wire.counter("pa", "tx", "packets"), before + 10, "{words}");
    }
    // a port of a laboratory is nobody's
    let wire = Wire::new();
    wire.exec("ip address add 198.18.0.2/24 dev pa; ip neighbour add 198.18.0.1 lladdr 02:00:00:00:00:99 nud reachable dev pa");
    wire.run(&lab, &send("--for 10frames")).measured();
    // and by another name it is the same port: one port that sends and receives, and counters that are its own
    wire.ip("link property add dev pa altname harmless0");
    let other = send("--for 10frames --rx-port pa").replacen("pa", "harmless0", 1);
    let document = wire.json(&lab, &other);
    assert_eq!(document["send"][0]["port"], "pa");
    assert_eq!(document["send"][0]["port_tx_packets"], 10, "{document}");
    wire.run(&lab, "serve --trex --ports pa,harmless0")
        .code(2)
        .says(&["--ports has pa twice"]);
    lab.assert_clean("refused ports");
}

fn has_vlan(wire: &Wire) -> bool {
    let name = &wire.name;
    let added = "link add link pb name pb.7 type vlan id 7";
    let words: Vec<&str> = added.split(' ').collect();
    try_tool(&[&["ip", "-n", name], &words[..]].concat()).is_ok()
}

#[test]
fn a_connection_through_a_port_is_a_reason_to_refuse_it() {
    if !root("a_connection_through_a_port_is_a_reason_to_refuse_it") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    wire.exec("ip link set lo up; ip address add 198.18.0.2/24 dev pa");
    // a connection that lives as long as its standard input is open
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
    let mut said = [0; 6];
    std::io::Read::read_exact(python.stdout.as_mut().unwrap(), &mut said).unwrap();
    let refused = wire.run(&lab, &send("--for 10frames"));
    drop(python.stdin.take());
    python.wait().unwrap();
    refused
        .code(3)
        .says(&["a TCP connection with 198.18.0.2 port", "--allow-in-use"]);
    lab.assert_clean("a connection");
}

#[test]
fn destinations_of_other_people_are_refused() {
    if !root("destinations_of_other_people_are_refused") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let bad = capture_file(
        &lab,
        "bad.pcapng",
        &[
            (0, frame([198, 19, 0, 1], 1, 30)),
            (1000, frame([8, 8, 8, 8], 2, 30)),
        ],
    );
    let mut answer = frame([198, 19, 0, 1], 1, 30);
    answer[26..30].copy_from_slice(&[8, 8, 8, 8]);
    let answers = capture_file(&lab, "answers.pcapng", &[(0, answer)]);
    let from = lab.path().join("from.toml");
    let layers = "{ ipv4 = { source = '8.8.8.8' } }, 'udp'";
    let text = format!("about = 'a source'\n[[stream]]\nlayers = [{layers}]\n");
    std::fs::write(&from, text).unwrap();
    // far behind the frames that anybody looks at leaves the block
    let far = lab.path().join("far.toml");
    std::fs::write(
        &far,
        "about = 'a million destinations'\n[[stream]]\nvary = [{ field = 'ipv4.destination', from = '198.19.0.0', count = 1_000_000 }]\n",
    )
    .unwrap();
    for more in [
        format!("--for 10frames --profile {}", far.display()),
        "--for 10frames --to 8.8.8.8".to_owned(),
        "--for 10frames --to 198.19.255.250-198.20.0.5".to_owned(),
        "--for 10frames --from 2001:2::1 --to 2a00:1450::1".to_owned(),
        "--for 10frames --profile bench/var1".to_owned(),
        "--for 10frames --from 8.8.8.8 --to 198.19.0.1".to_owned(),
        "--for 10frames --from 198.18.0.1-198.20.0.1 --to 198.19.0.1".to_owned(),
        format!("--for 10frames --profile {}", from.display()),
        format!("--pcap {}", bad.display()),
        format!("--pcap {}", answers.display()),
    ] {
        let refused = wire.run(&lab, &send(&more));
        refused.code(3).says(&["RFC 6815", "--to-any-address"]);
        assert_eq!(wire.counter("pa", "tx", "packets"), 0, "{more}");
    }
    wire.run(&lab, &send("--for 10frames --to 8.8.8.8 --to-any-address"))
        .measured();
    assert_eq!(wire.counter("pa", "tx", "packets"), 10);
    for good in ["10.9.9.9", "192.168.1.1-20", "203.0.113.7", "169.254.1.1"] {
        wire.run(&lab, &send(&format!("--for 10frames --to {good}")))
            .measured();
    }
}

#[test]
fn everybody_on_a_network_is_asked_first() {
    if !root("everybody_on_a_network_is_asked_first") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let mut all = frame([198, 19, 0, 1], 1, 30);
    all[..6].fill(0xff);
    let capture = capture_file(&lab, "all.pcapng", &[(0, all)]);
    let profile = lab.path().join("all.toml");
    let layers = "{ ethernet = { destination = 'ff:ff:ff:ff:ff:ff' } }, 'ipv4', 'udp'";
    let text = format!("about = 'to all'\n[[stream]]\nlayers = [{layers}]\n");
    std::fs::write(&profile, text).unwrap();
    let everybody = "send --port pa --load 1kpps --dst-mac ff:ff:ff:ff:ff:ff --for 10frames";
    let told = format!(
        "{} --for 10frames --profile {}",
        send(""),
        profile.display()
    );
    let captured = format!("send --port pa --pcap {}", capture.display());
    for words in [
        everybody,
        &format!("{everybody} --profile vlan"),
        &told,
        &captured,
    ] {
        wire.run(&lab, words)
            .code(3)
            .says(&["ff:ff:ff:ff:ff:ff", "--to-any-address"]);
    }
    assert_eq!(wire.counter("pa", "tx", "packets"), 0);
    wire.run(&lab, &format!("{everybody} --to-any-address"))
        .measured();
    // a capture to somebody else now
    wire.run(&lab, &format!("{captured} --dst-mac {MAC_B}"))
        .measured();
    assert_eq!(wire.counter("pa", "tx", "packets"), 11);
}

/// Frames that are sent on one interface and leave by another are as bad as those that are sent on the other.
#[test]
fn frames_do_not_leave_by_another_port_that_somebody_needs() {
    const TEST: &str = "frames_do_not_leave_by_another_port_that_somebody_needs";
    // nobody's here, so that bridges pass it on
    const BEYOND: &str = "02:00:00:00:00:e0";
    if !root(TEST) {
        return;
    }
    let lab = Lab::new();
    // the way out of this namespace; db is all that is behind it
    let way_out = "ip link add da type veth peer name db; ip link set da up; ip link set db up; \
                   ip address add 198.18.99.2/24 dev da; ip route add default via 198.18.99.1 dev da";
    for (script, port, words) in [
        (
            "ip link add mv0 link da type macvlan; ip link set mv0 up",
            "mv0",
            "frames sent on it go to da, which is below mv0, and it carries the default route",
        ),
        (
            "ip link add br0 type bridge; ip link set br0 up; ip link set da master br0; ip link set pb master br0",
            "pa",
            "frames sent on it go to da, a port of br0, and it carries the default route",
        ),
        (
            // over a macvlan into a bridge
            "ip link add br0 type bridge; ip link set br0 up; ip link set da master br0; ip link set pb master br0; \
             ip link add mv0 link pa type macvlan; ip link set mv0 up",
            "mv0",
            "frames sent on it go to da, a port of br0, and it carries the default route",
        ),
    ] {
        let wire = Wire::new();
        wire.exec(way_out);
        wire.exec(script);
        let send = format!("send --port {port} --dst-mac {BEYOND} --load 1kpps --for 10frames");
        let before = wire.counter("db", "rx", "packets");
        let refused = wire.run(&lab, &send);
        refused.code(3).says(&[words, "--allow-default-route"]);
        // others may speak there, too
        assert!(wire.counter("db", "rx", "packets") < before + 10, "{words}");
        let before = wire.counter("db", "rx", "packets");
        wire.run(&lab, &format!("{send} --allow-default-route"))
            .measured();
        assert!(
            wire.counter("db", "rx", "packets") >= before + 10,
            "{words}"
        );
        // who only receives sends nothing anywhere
        wire.run(&lab, &format!("receive --port {port} --for 10ms"))
            .measured();
    }
    // a bridge itself
    let wire = Wire::new();
    wire.exec("ip link add br0 type bridge; ip link set br0 up; ip link set pb master br0");
    let send = format!("send --port br0 --dst-mac {BEYOND} --load 1kpps --for 10frames");
    wire.run(&lab, &send)
        .code(3)
        .says(&["pb is a port of it", "--allow-in-bridge"]);
    wire.run(&lab, &format!("{send} --allow-in-bridge"))
        .measured();
    // the other end is elsewhere, in a bridge over the way out
    let (wire, other) = (Wire::new(), Wire::new());
    wire.ip(&format!("link set pb netns {} name pc", other.name));
    other.exec("ip link add br0 type bridge; ip link set br0 up; ip link set pc up; ip link set pc master br0");
    let send = format!("send --port pa --dst-mac {BEYOND} --load 1kpps --for 10frames");
    // a DUT that bridges is nobody's way out
    other.exec("ip link set pa master br0");
    wire.run(&lab, &send).measured();
    other.exec(way_out);
    other.exec("ip link set da master br0");
    wire.run(&lab, &send)
        .code(3)
        .says(&["go to da, a port of br0", "--allow-default-route"]);
    // and the bridge has an address that somebody may use
    other.exec("ip link set da nomaster; ip address add 192.168.7.1/24 dev br0");
    wire.run(&lab, &send).code(3).says(&[
        "go to br0, which has pc, the other end of pa, as a port, and it has the address 192.168.7.1",
        "--allow-address",
    ]);
    lab.assert_clean("ways out");
}

/// A DUT may unpack a tunnel and forward what is inside: there is no public address in any layer.
#[test]
fn destinations_in_tunnels_are_refused() {
    if !root("destinations_in_tunnels_are_refused") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let profile = |name: &str, layers: &str, vary: &str| {
        let path = lab.path().join(name);
        let text =
            format!("about = 'a tunnel'\n[[stream]]\nlayers = [{layers}]\nvary = [{vary}]\n");
        std::fs::write(&path, text).unwrap();
        format!("--for 10frames --profile {}", path.display())
    };
    let public = "{ ipv4 = { destination = '8.8.8.8' } }, 'udp'";
    let public6 = "{ ipv6 = { destination = '2a00:1450::1' } }, 'udp'";
    let outer = "{ ipv4 = { destination = '198.19.1.1' } }";
    let vxlan = profile(
        "vxlan.toml",
        &format!("{outer}, 'udp', 'vxlan', 'ethernet', {public}"),
        "",
    );
    // an address in the packed header that leaves the block, and one of a list far behind
    let vary = "{ field = 'ipv4[2].destination', from = '198.19.255.0', count = 1000 }";
    let list = "{ field = 'ipv4[2].destination', values = ['198.18.0.1', '10.1.1.1', '8.8.8.8'] }, \
                { field = 'udp[2].source-port', count = 50_000 }";
    let layers = format!("{outer}, 'udp', 'vxlan', 'ethernet', 'ipv4', 'udp'");
    for (arguments, words) in [
        (vxlan.clone(), "8.8.8.8 (IPv4 in VXLAN"),
        (
            profile("gre.toml", &format!("{outer}, 'gre', {public}"), ""),
            "8.8.8.8 (IPv4 in GRE",
        ),
        (
            profile(
                "gretap.toml",
                &format!("'vlan', {outer}, 'gre', 'ethernet', {public6}"),
                "",
            ),
            "2a00:1450::1 (IPv6 in GRE",
        ),
        (
            profile("mpls.toml", &format!("'mpls', 'mpls', {public}"), ""),
            "8.8.8.8 (IPv4 in MPLS",
        ),
        (
            profile("6in4.toml", &format!("{outer}, {public6}"), ""),
            "2a00:1450::1 (IPv6 in IPv4",
        ),
        (
            profile("ipip.toml", &format!("{outer}, {public}"), ""),
            "8.8.8.8 (IPv4 in IPv4",
        ),
        (
            profile("vary.toml", &layers, vary),
            "198.20.0.0 (IPv4 in VXLAN",
        ),
        (
            profile("list.toml", &layers, list),
            "8.8.8.8 (IPv4 in VXLAN",
        ),
    ] {
        let refused = wire.run(&lab, &send(&arguments));
        refused
            .code(3)
            .says(&[words, "RFC 6815", "--to-any-address"]);
        assert_eq!(wire.counter("pa", "tx", "packets"), 0, "{arguments}");
    }
    // the same tunnel in a capture: outer header, then the frame that a packet to 8.8.8.8 is in
    let packed = frame([8, 8, 8, 8], 1, 30);
    let mut whole = frame([198, 19, 0, 1], 1, packed.len() + 8);
    whole.truncate(whole.len() - packed.len() - 8);
    let ports = whole.len() - 8;
    whole[ports + 2..ports + 4].copy_from_slice(&4789_u16.to_be_bytes());
    whole.extend([8, 0, 0, 0, 0, 0, 5, 0]);
    whole.extend(packed);
    let capture = capture_file(&lab, "vxlan.pcapng", &[(0, whole)]);
    wire.run(&lab, &send(&format!("--pcap {}", capture.display())))
        .code(3)
        .says(&["frame 1 of", "8.8.8.8 (IPv4 in VXLAN", "--to-any-address"]);
    assert_eq!(wire.counter("pa", "tx", "packets"), 0);

    wire.run(&lab, &send(&format!("{vxlan} --to-any-address")))
        .measured();
    assert_eq!(wire.counter("pa", "tx", "packets"), 10);
    let good = "{ field = 'ipv4[2].destination', values = ['198.18.0.1', '203.0.113.1'] }";
    let good = profile("good.toml", &layers, good);
    let shipped = ["vxlan", "gre", "mpls", "ipv6/routing"];
    let shipped = shipped.map(|name| format!("--for 10frames --profile {name}"));
    for arguments in shipped.iter().chain([&good]) {
        wire.run(&lab, &send(arguments)).measured();
    }
}

#[test]
fn two_of_us_on_one_port_are_told_of_each_other() {
    if !root("two_of_us_on_one_port_are_told_of_each_other") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    for (first, second, word) in [
        (send(""), send("--for 10frames"), "sends on pa"),
        (
            "receive --port pb".to_owned(),
            "receive --port pb --for 100ms".to_owned(),
            "pb",
        ),
    ] {
        let mut running = wire.start(&lab, &first);
        running.wait_until("its begin", |running| running.err().contains(" s  p"));
        wire.run(&lab, &second).code(3).says(&[word]);
        if word.contains("sends") {
            let pid = format!("process {} ", running.pid());
            wire.run(&lab, &second).code(3).says(&[&pid]);
        }
        // another end of the cable, and another namespace with a port of the same index, are other ports
        let other = Wire::new();
        other.run(&lab, &second).measured();
        running.signal(Signal::KILL);
        running.wait(PATIENCE).code(128 + 9);
        assert_eq!(wire.attached(), "", "after kill -9");
        wire.run(&lab, &second).measured();
    }
    lab.assert_clean("two of us");
}

#[test]
fn nothing_is_left_on_a_port_after_any_exit() {
    if !root("nothing_is_left_on_a_port_after_any_exit") {
        return;
    }
    let lab = Lab::new();
    let wire = Wire::new();
    let output = lab.path().join("c.pcapng");
    let capture = format!("capture --port pb -o {}", output.display());
    let commands = [
        send("--engine xdp-live"),
        send("--engine af-xdp"),
        send("--engine af-packet"),
        "receive --port pb --engine xdp --flows 5".to_owned(),
        "receive --port pb --engine af-packet".to_owned(),
        capture,
    ];
    for command in &commands {
        for (signal, code) in [
            (Signal::INT, 0),
            (Signal::TERM, 143),
            (Signal::KILL, 128 + 9),
        ] {
            let mut running = wire.start(&lab, command);
            running.wait_until("its begin", |running| begun(&running.err()));
            running.signal(signal);
            let ended = running.wait(PATIENCE);
            // a busy machine may keep a sender from its load, which is told
            assert!(
                ended.code == code || (code == 0 && ended.code == 5),
                "{command}: {ended:?}"
            );
            assert_eq!(wire.attached(), "", "{command} after {signal:?}");
            let flags = wire.ip("-d link show dev pb");
            assert!(flags.contains("promiscuity 0"), "{command}: {flags}");
        }
    }
    lab.assert_clean("all exits");
}

#[test]
fn a_port_that_goes_down_or_away_ends_the_command_with_its_name() {
    if !root("a_port_that_goes_down_or_away_ends_the_command_with_its_name") {
        return;
    }
    let lab = Lab::new();
    let output = lab.path().join("c.pcapng");
    for (command, port) in [
        (send("--engine af-packet"), "pa"),
        (send("--engine af-xdp"), "pa"),
        ("receive --port pb".to_owned(), "pb"),
        (format!("capture --port pb -o {}", output.display()), "pb"),
    ] {
        for (what, words) in [
            ("link set PORT down", "set down"),
            ("link delete pa", "gone"),
        ] {
            let wire = Wire::new();
            let mut running = wire.start(&lab, &command);
            running.wait_until("its begin", |running| begun(&running.err()));
            wire.ip(&what.replace("PORT", port));
            let ended = running.wait(PATIENCE);
            ended.code(4).says(&[port, words]);
            assert!(!wire.attached().contains("fwdlab"), "{}", wire.attached());
        }
    }
    // from the begin
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
    lab.run(&["capture", "--port", "x", "--netns", "fwtest-nosuch"])
        .code(3)
        .says(&["no network namespace"]);
    lab.assert_clean("ports that go");
}
