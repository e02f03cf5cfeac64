//! Tests of test beds of existing hosts: namespaces of this machine, and the same behind SSH
//! servers. Start with [`Rack`].

use std::collections::BTreeSet;

use std::os::unix::net::UnixStream;
use std::process::Child;

use fwdlab_engine::analysis::AnalysisPlan;
use fwdlab_engine::traffic::compile::{Direction, Setting, compile};
use fwdlab_engine::{LoadPlan, Proof, Schedule, StallPolicy};
use fwdlab_model::campaign;
use fwdlab_model::facts::TEST_BED;
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;

use super::*;
use crate::host::Local;
use crate::host::ssh::tests::{Server, program};
use crate::host::wire::connection::{Connection, EndReason};
use crate::networks::mac;
use crate::tester::Frames;

/// Two namespaces, joined by two links; removed when this is dropped.
struct Rack {
    names: [String; 2],
}

impl Rack {
    fn new(of: &str) -> Option<Rack> {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: {of}: needs root");
            return None;
        }
        let names = ["gen", "dut"].map(|end| format!("rack-{of}-{end}-{}", std::process::id()));
        let [tester, dut] = &names;
        let batch = format!(
            "netns add {tester}\nnetns add {dut}\n\
             link add ta netns {tester} type veth peer name da netns {dut}\n\
             link add tb netns {tester} type veth peer name db netns {dut}\n"
        );
        Local.feed("ip", &["-batch", "-"], &batch).unwrap();
        let rack = Rack { names };
        for name in &rack.names {
            Netns::bare(name)
                .query("ip", &["link", "set", "lo", "up"])
                .unwrap();
        }
        rack.dut()
            .query("ip", &["link", "set", "da", "up"])
            .unwrap();
        Some(rack)
    }

    fn dut(&self) -> Netns {
        Netns::bare(&self.names[1])
    }

    /// Returns everything that a test bed changes on both hosts.
    fn state(&self) -> BTreeSet<String> {
        // links, and the addresses that the kernel assigns to them, depend on the other end
        let text = "cd /proc/sys/net; grep -r . ipv4/ip_forward ipv4/conf ipv6/conf 2>/dev/null | grep -v stable_secret
            { ip -4 -oneline addr show; ip -4 route show; ip -6 route show; ip neigh show nud permanent; } | sed 's/ linkdown//; /fe80::/d'
            ip -oneline link show | sed 's/[A-Z-]*_UP//; s/NO-CARRIER,//; s/ mtu.*//; s/,>/>/'
            nft -s list ruleset";
        let of = |name: &String| {
            let output = Netns::bare(name).query("sh", &["-c", text]).unwrap();
            output
                .lines()
                .map(|line| format!("{name}: {line}"))
                .collect::<Vec<_>>()
        };
        self.names.iter().flat_map(of).collect()
    }

    fn assert_state(&self, before: &BTreeSet<String>) {
        let now = self.state();
        let changed: Vec<&String> = before.symmetric_difference(&now).collect();
        assert!(changed.is_empty(), "{changed:#?}");
    }

    fn file(&self, tester: &str, dut: &str) -> String {
        format!(
            "bed = 'rack-{}'\n[generator]\nhost = '{tester}'\nengine = 'af-packet'\nports = {{ a = 'ta', b = 'tb' }}\n\
             [dut]\nhost = '{dut}'\nports = {{ a = 'da', b = 'db' }}\n\
             [[link]]\nends = ['generator.a', 'dut.a']\nnet = '10.77.1.0/24'\n",
            self.names[0]
        )
    }

    fn near(&self) -> String {
        let [tester, dut] = &self.names;
        self.file(&format!("netns:{tester}"), &format!("netns:{dut}"))
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Local.query("ip", &["netns", "del", name]);
        }
    }
}

fn parsed(text: &str) -> TestBed {
    TestBed::parse("rack.toml", text).unwrap()
}

/// Checks that frames of both IP versions are forwarded, and that nothing is left afterwards.
fn forwards(site: &Site, rack: &Rack) {
    let before = rack.state();
    let placement = Placement::default();
    let bed = site
        .build(&Wanted::with_one_dut(&campaign::Dut::default(), &placement))
        .unwrap();
    assert_eq!(bed.networks().input.ipv4.dut, Ipv4Addr::new(10, 77, 1, 1));
    let choice = Choice {
        mode: Some(fwdlab_engine::Mode::AfPacket),
        first: None,
        cpus: Vec::new(),
        senders: 1,
        prove: None,
        way_back: None,
        traffic: Vec::new(),
    };
    let (mut rig, _) = site.open(&bed, &choice).unwrap();
    for version in [IpVersion::Ipv4, IpVersion::Ipv6] {
        let stream = Stream::new(version, FrameSize::new(128).unwrap(), 10).unwrap();
        // a sender on a busy CPU may stall for the whole time
        let mut proofs = (0..10).map(|_| rig.prove(0, &stream, 100).unwrap());
        let proof = proofs
            .find(|proof| proof.sent > 0)
            .expect("frames are sent");
        assert_eq!(proof.received, proof.sent, "{version:?}");
    }
    let rule = "nft add table ip t; nft add chain ip t f '{ type filter hook forward priority 0; policy drop; }'";
    let rule = crate::dut::Configuration::parse(rule).unwrap();
    bed.dut(0).apply(&rule, &Control::default()).unwrap();
    let stream = Stream::new(IpVersion::Ipv4, FrameSize::MIN, 10).unwrap();
    let proof = rig.prove(0, &stream, 100).unwrap();
    assert_eq!(proof.received, 0);
    assert!(before != rack.state());
    drop(rig);
    drop(bed);
    rack.assert_state(&before);
}

/// Makes the DUT of a rack a router, as an owner without fwdlab would: its next hops have no static
/// entries.
fn owned_router(rack: &Rack) {
    let text = "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.da.accept_dad=0 net.ipv6.conf.db.accept_dad=0
        ip link set da up; ip link set db up
        ip addr add 10.77.1.1/24 dev da; ip addr add 198.19.0.1/30 dev db
        ip addr add 2001:2::1/64 dev da nodad; ip addr add 2001:2:0:8000::1/64 dev db nodad
        ip route add 198.18.0.0/16 via 10.77.1.2; ip route add 198.19.0.0/16 via 198.19.0.2
        ip route add 2001:2::/49 via 2001:2::2; ip route add 2001:2:0:8000::/49 via 2001:2:0:8000::2";
    rack.dut().query("sh", &["-ec", text]).unwrap();
}

/// The bed of a rack whose DUT is a black box.
fn black_box(rack: &Rack, tester: &str) -> TestBed {
    let text = rack.file(tester, "none");
    let dut = "host = 'none'\nports = { a = 'da', b = 'db' }";
    assert!(text.contains(dut));
    parsed(&text.replace(dut, "kind = 'none'"))
}

/// Checks that a black box finds its next hops, and that its MAC addresses are found.
fn is_a_neighbour(site: &Site, rack: &Rack) {
    let before = rack.state();
    let dut = rack.dut();
    let (requested, placement) = (campaign::Dut::default(), Placement::default());
    let build = || site.build(&Wanted::with_one_dut(&requested, &placement));
    let bed = build().unwrap();
    let of_dut = |port: &str| {
        let address = format!("/sys/class/net/{port}/address");
        dut.query("cat", &[&address]).unwrap().trim().to_owned()
    };
    let Networks { input, output, .. } = *bed.networks();
    let found = [input.dut_mac, output.dut_mac].map(mac);
    assert_eq!(found, ["da", "db"].map(of_dut));
    let (mut rig, _) = site.open(&bed, &by_packets()).unwrap();
    for version in [IpVersion::Ipv4, IpVersion::Ipv6] {
        let stream = Stream::new(version, FrameSize::new(128).unwrap(), 10).unwrap();
        // the first frames wait for an answer, or a busy sender sends none
        let proofs = (0..10).map(|_| rig.prove(0, &stream, 100).unwrap());
        let mut came = proofs.filter(|proof| proof.sent > 0 && proof.received == proof.sent);
        assert!(came.next().is_some(), "{version:?}");
    }
    let neighbours = dut.query("ip", &["neigh", "show", "dev", "db"]).unwrap();
    let tester = mac(output.tester_mac);
    for next_hop in ["198.19.0.2", "2001:2:0:8000::2"] {
        let line = neighbours
            .lines()
            .find(|line| line.starts_with(&format!("{next_hop} ")));
        assert!(
            line.is_some_and(|line| line.contains(&tester)),
            "{neighbours}"
        );
    }
    drop((rig, bed));
    rack.assert_state(&before);
    // without the address, there is no answer
    dut.query("ip", &["addr", "flush", "dev", "db"]).unwrap();
    let error = build().unwrap_err().to_string();
    assert!(
        error.contains("no answer at tb to ARP for 198.19.0.1"),
        "{error}"
    );
}

#[test]
fn a_black_box_needs_no_static_entries() {
    let Some(rack) = Rack::new("box") else {
        return;
    };
    owned_router(&rack);
    let bed = black_box(&rack, &format!("netns:{}", rack.names[0]));
    let site = Site::existing(bed, Path::new("/nowhere")).unwrap();
    is_a_neighbour(&site, &rack);
}

/// Checks that telemetry around frames is read on the DUT's host, over its own connection.
fn telemetry_of(site: &Site) {
    use crate::telemetry::{TrialReading, Wanted as Read};
    let placement = Placement::default();
    let dut = campaign::Dut::default();
    let bed = site.build(&Wanted::with_one_dut(&dut, &placement)).unwrap();
    let (mut rig, _) = site.open(&bed, &by_packets()).unwrap();
    let observed = bed.dut(0).observed().unwrap();
    assert_eq!(observed.ports, ["da", "db"]);
    let reading = match TrialReading::begin(observed, &Read::default()) {
        Ok(reading) => reading,
        Err(unread) => panic!("{:?}", unread.to_telemetry(100, 100)),
    };
    let stream = Stream::new(IpVersion::Ipv4, FrameSize::MIN, 10).unwrap();
    let proof = rig.prove(0, &stream, 100).unwrap();
    assert_eq!(proof.received, 100);
    let reported = reading.end().to_telemetry(100, 100);
    // the ports are the DUT's, and count the frames
    assert!(
        reported.ports["da"].rx_packets >= 100 && reported.ports["db"].tx_packets >= 100,
        "{reported:?}"
    );
    assert!(
        !reported.cpus.is_empty() && reported.host.contains("127.0.0.1"),
        "{reported:?}"
    );
}

#[test]
fn a_bed_of_namespaces_forwards_and_is_restored() {
    let Some(rack) = Rack::new("near") else {
        return;
    };
    // foreign rules are restored afterwards
    let others = "table ip others { chain c { ip daddr 10.9.9.9 accept; }; }";
    rack.dut().feed("nft", &["-f", "-"], others).unwrap();
    let site = Site::existing(parsed(&rack.near()), Path::new("/nowhere")).unwrap();
    forwards(&site, &rack);
    forwards(&site, &rack);
    // a stop is noticed while a bed is built, also if no host has to be reached for that
    let before = rack.state();
    let stopped = Control::default();
    stopped.stop();
    site.set_control(&stopped);
    let (dut, placement) = (campaign::Dut::default(), Placement::default());
    let built = site.build(&Wanted::with_one_dut(&dut, &placement));
    assert!(matches!(built, Err(LabError::Interrupted)), "{built:?}");
    rack.assert_state(&before);
}

/// udev gives most cards several names. Whichever name a bed uses, all commands use the port's own
/// name.
#[test]
fn ports_of_a_bed_are_known_by_any_name() {
    let Some(rack) = Rack::new("names") else {
        return;
    };
    let [tester, dut] = rack.names.each_ref().map(|name| Netns::bare(name));
    let mut text = rack.near();
    for (host, port) in [(&tester, "ta"), (&tester, "tb"), (&dut, "da"), (&dut, "db")] {
        let other = format!("card-{port}");
        let line = ["link", "property", "add", "dev", port, "altname", &other];
        host.query("ip", &line).unwrap();
        text = text.replace(&format!("'{port}'"), &format!("'{other}'"));
    }
    let site = Site::existing(parsed(&text), Path::new("/nowhere")).unwrap();
    forwards(&site, &rack);
    let placement = Placement::default();
    let requested = campaign::Dut::default();
    let bed = site
        .build(&Wanted::with_one_dut(&requested, &placement))
        .unwrap();
    assert_eq!(bed.paths()[0].tx.interface, "ta");
    assert_eq!(bed.dut(0).observed().unwrap().ports, ["da", "db"]);
    drop(bed);
    // the checks for dangers use the own name, too: half a default route is a danger
    for (host, port) in [(&tester, "ta"), (&dut, "db")] {
        host.query("ip", &["link", "set", port, "up"]).unwrap();
        let route = ["128.0.0.0/1", "dev", port];
        host.query("ip", &[&["route", "add"][..], &route].concat())
            .unwrap();
        let error = site.build(&Wanted::with_one_dut(&requested, &placement));
        let error = error.unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{port} ")) && error.contains("default route (128.0.0.0/1)"),
            "{error}"
        );
        host.query("ip", &[&["route", "del"][..], &route].concat())
            .unwrap();
    }
}

/// Returns everything in a DUT's network that a configuration could leave behind.
fn network_of(dut: &dyn Host) -> BTreeSet<String> {
    let text = "cat /proc/sys/vm/of_test 2>/dev/null; find /proc/sys/net -type f -perm -200 ! -name tcp_fastopen_key -exec grep -Hs '' {} +
        ip -oneline link show | grep -o '^.* mtu [0-9]*' | sed 's/<.*>//'
        { ip -oneline addr show; ip -4 route show table all; ip -6 route show table all; ip rule; ip neigh show nud permanent; } |
            grep -v 'fe80::\\|ff00::\\|table local'
        nft -s list ruleset; ethtool -k da; ethtool -k db; :";
    let output = dut.query("sh", &["-c", text]).unwrap();
    output.lines().map(str::to_owned).collect()
}

/// Checks after success, failure and a kill that no test case is measured with settings of the one
/// before.
fn leaves_nothing(site: &Site, dut: &dyn Host) {
    let before = network_of(dut);
    let is_as_before = |of: &str| {
        let now = network_of(dut);
        let changed: Vec<&String> = before.symmetric_difference(&now).collect();
        assert!(changed.is_empty(), "{}, {of}: {changed:#?}", dut.name());
    };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        crate::dut::Configuration::parse(path.to_str().unwrap()).unwrap()
    };
    let settings =
        "net.ipv4.ip_default_ttl = 55\nnet.ipv4.tcp_ecn = 1\nnet.ipv4.icmp_ratelimit = 44\n";
    let good = [
        file("good.conf", settings),
        file("good.nft", "table ip of_a_file { }\n"),
        file(
            "good.sh",
            "nft add table ip of_a_command\nethtool -K $FWDLAB_IN gro off\n\
             echo 3 > /proc/sys/net/ipv4/tcp_syn_retries; echo 0 > /proc/sys/net/ipv4/ip_forward\n\
             ip link set $FWDLAB_OUT mtu 1400; [ ! -e /proc/sys/vm/of_test ] || echo 77 > /proc/sys/vm/of_test\n\
             ip addr add 192.0.2.77/24 brd + dev $FWDLAB_OUT; ip addr add 2001:db8:7::1/64 dev $FWDLAB_IN nodad\n\
             ip route add 203.0.113.0/25 via 192.0.2.1 metric 7; ip -6 route add blackhole 2001:db8:8::/48; ip route del 203.0.113.128/25\n\
             ip rule add pref 99 from 192.0.2.0/24 lookup 77; ip route add table 77 unreachable default\n\
             ip neigh add 192.0.2.9 lladdr 02:00:00:00:00:09 dev $FWDLAB_OUT; ip rule del pref 98; ip addr del 192.0.2.200/32 dev lo\n",
        ),
        crate::dut::Configuration::parse("generate:sysctl,name=net.ipv4.ip_early_demux,value=0")
            .unwrap(),
        crate::dut::Configuration::parse("generate:nft-rules,n=3").unwrap(),
    ];
    let bad = file(
        "bad.conf",
        &format!("{settings}net.ipv4.no_such_name = 1\n"),
    );
    let placement = Placement::default();
    let kind = campaign::Dut::default();
    let build = || {
        site.build(&Wanted::with_one_dut(&kind, &placement))
            .unwrap()
    };
    let apply = |bed: &Bed, all: &[crate::dut::Configuration]| {
        all.iter()
            .try_for_each(|one| bed.dut(0).apply(one, &Control::default()).map(drop))
    };
    let bed = build();
    apply(&bed, &good).unwrap();
    let during = network_of(dut);
    for words in [
        "/proc/sys/net/ipv4/ip_default_ttl:55",
        "/proc/sys/net/ipv4/tcp_syn_retries:3",
        "table ip of_a_file {",
        "table ip of_a_command {",
        "unreachable default table 77 ",
    ] {
        assert!(during.contains(words), "{words}: {during:#?}");
    }
    drop(bed);
    is_as_before("success");
    let bed = build();
    apply(&bed, std::slice::from_ref(&bad)).unwrap_err();
    drop(bed);
    is_as_before("failure");
    let bed = build();
    apply(&bed, &good).unwrap();
    apply(&bed, &[bad]).unwrap_err();
    // as if the process had been killed: its record exists, and its lock is free
    bed.leave_standing();
    Registry::open().unwrap().sweep(false).unwrap();
    is_as_before("a kill");
}

/// Changes the state before the test to values that fwdlab would not set.
fn settle(dut: &dyn Host) {
    let text = "cd /proc/sys/net/ipv4; echo 77 > ip_default_ttl; echo 0 > tcp_ecn; echo 78 > icmp_ratelimit; echo 0 > ip_forward
        echo 1 > conf/lo/forwarding; echo 1 > conf/da/rp_filter; ethtool -K da gro on; nft add table ip kept
        ip link set lo up; ip addr add 192.0.2.200/32 dev lo; ip route add blackhole 203.0.113.128/25; ip rule add pref 98 from 192.0.2.200 lookup 98";
    dut.query("sh", &["-c", text]).unwrap();
}

/// Starts an agent in a namespace of the test, over a stream that may send heartbeats.
fn agent(
    program: &Path,
    folder: &Path,
    name: &str,
    before: &[&str],
    beats: bool,
) -> (Remote, Child) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let words = [&["netns", "exec", name][..], before].concat();
    let mut command = std::process::Command::new("ip");
    let input = std::os::fd::OwnedFd::from(theirs.try_clone().unwrap());
    command
        .args(words)
        .arg(program)
        .args(["agent", "--stdio"])
        .arg(folder)
        .stdin(input)
        .stdout(std::os::fd::OwnedFd::from(theirs));
    crate::sys::die_with_parent(&mut command);
    let child = command.spawn().unwrap();
    let connection = Connection::new(ours, Box::new(Unknown));
    let connection = match beats {
        true => connection.with_heartbeat().unwrap(),
        false => connection,
    };
    (Remote::new(name, Arc::new(connection)), child)
}

#[derive(Debug)]
struct Unknown;

impl EndReason for Unknown {
    fn words(&self) -> String {
        "nobody knows why".into()
    }
}

/// A rack whose second tester port is in its own namespace, and a third one behind a bridge with
/// the first.
struct Spread {
    rack: Rack,
    names: [String; 3],
}

impl Spread {
    fn new(of: &str) -> Option<Spread> {
        let rack = Rack::new(of)?;
        let names =
            ["rcv", "two", "sw"].map(|end| format!("rack-{of}-{end}-{}", std::process::id()));
        let [receiver, second, switch] = &names;
        let [tester, dut] = &rack.names;
        let batch = format!(
            "netns add {receiver}\nnetns add {second}\nnetns add {switch}\n\
             -n {tester} link set tb netns {receiver}\n\
             -n {tester} link del ta\n\
             link add ta netns {tester} type veth peer name s1 netns {switch}\n\
             link add ta netns {second} type veth peer name s2 netns {switch}\n\
             link add da netns {dut} type veth peer name s3 netns {switch}\n"
        );
        for line in batch.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            Local.query("ip", &words).unwrap();
        }
        let text = "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; ip link add br0 type bridge ageing_time 0 mcast_snooping 0
            for s in s1 s2 s3; do ip link set $s master br0; ip link set $s up; done; ip link set br0 up";
        Netns::bare(switch).query("sh", &["-c", text]).unwrap();
        for name in [receiver, second] {
            let lo = ["link", "set", "lo", "up"];
            Netns::bare(name).query("ip", &lo).unwrap();
        }
        rack.dut()
            .query("ip", &["link", "set", "da", "up"])
            .unwrap();
        Some(Spread { rack, names })
    }

    fn file(&self, has_second: bool) -> String {
        let [receiver, second, _] = &self.names;
        let near = self.rack.near();
        let near = near.replace("b = 'tb' }", "}").replace("'ta', }", "'ta' }");
        let second = match has_second {
            true => format!("[generator-2]\nhost = 'netns:{second}'\nports = {{ a = 'ta' }}\n"),
            false => String::new(),
        };
        format!("{near}[receiver]\nhost = 'netns:{receiver}'\nports = {{ b = 'tb' }}\n{second}")
    }

    /// Returns how many packets have left the sender's port.
    fn sent(&self) -> u64 {
        let generator = Netns::bare(&self.rack.names[0]);
        let table = crate::interfaces::read_counters(&generator).unwrap();
        table["ta"].tx_packets
    }

    /// Checks that no more frames leave a second after something was lost. A busy machine may need
    /// a little longer to end a process.
    fn is_silent(&self) {
        std::thread::sleep(Duration::from_millis(1500));
        let last = self.sent();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(self.sent(), last);
    }
}

impl Drop for Spread {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Local.query("ip", &["netns", "del", name]);
        }
    }
}

/// A schedule without end.
fn endless() -> Schedule {
    Schedule {
        load: LoadPlan::Constant(2000.0),
        frames: None,
        at_most: Duration::from_secs(600),
        stall_policy: StallPolicy::Skip,
        path: 0,
    }
}

fn by_packets() -> Choice {
    Choice {
        mode: Some(fwdlab_engine::Mode::AfPacket),
        first: None,
        cpus: Vec::new(),
        senders: 1,
        prove: None,
        way_back: None,
        traffic: Vec::new(),
    }
}

#[test]
fn errors_in_a_bed_are_reported_before_any_change() {
    let Some(rack) = Rack::new("wrong") else {
        return;
    };
    let before = rack.state();
    let placement = Placement::default();
    let fails = |text: &str| {
        let site = Site::existing(parsed(text), Path::new("/nowhere")).unwrap();
        let error = site
            .build(&Wanted::with_one_dut(&campaign::Dut::default(), &placement))
            .unwrap_err()
            .to_string();
        rack.assert_state(&before);
        error
    };
    let fails_of = |site: &Site| {
        let dut = campaign::Dut::default();
        let built = site.build(&Wanted::with_one_dut(&dut, &placement));
        built.unwrap_err().to_string()
    };
    let near = rack.near();
    let error = fails(&near.replace("'db'", "'dx'"));
    assert!(
        error.starts_with("there is no port dx on rack-wrong-dut"),
        "{error}"
    );
    let error = fails(&near.replace("netns:rack-wrong-dut", "netns:rack-no-dut"));
    assert!(error.contains("rack-no-dut"), "{error}");
    let ready = "[dut]\nready = { command = 'echo not me >&2; false', within = '500ms' }\n";
    let error = fails(&near.replace("[dut]\n", ready));
    assert!(
        error.contains("was not ready within") && error.contains("not me"),
        "{error}"
    );

    // and waiting for it can be interrupted
    let patient = near.replace("[dut]\n", "[dut]\nready = { command = 'sleep 60' }\n");
    let site = Site::existing(parsed(&patient), Path::new("/nowhere")).unwrap();
    let control = Control::default();
    site.set_control(&control);
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            control.stop();
        });
        let requested = campaign::Dut::default();
        site.build(&Wanted::with_one_dut(&requested, &placement))
            .unwrap_err()
    });
    assert!(matches!(error, LabError::Interrupted), "{error}");
    rack.assert_state(&before);
    // a site keeps its bed while it exists
    drop(site);

    let dut = rack.dut();
    dut.query("ip", &["link", "set", "db", "mtu", "1400"])
        .unwrap();
    let before = rack.state();
    let site = Site::existing(parsed(&near), Path::new("/nowhere")).unwrap();
    let error = site
        .build(&Wanted::with_one_dut(&campaign::Dut::default(), &placement))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("different MTUs: 1500 at the tester, 1400 at the DUT"),
        "{error}"
    );
    rack.assert_state(&before);
    dut.query("ip", &["link", "set", "db", "mtu", "1500"])
        .unwrap();

    // a port of the tester is protected like one that is driven by hand, and errors mention no
    // options that a bed lacks
    let tester = Netns::bare(&rack.names[0]);
    tester
        .query("ip", &["addr", "add", "10.9.9.1/24", "dev", "ta"])
        .unwrap();
    let error = fails_of(&site);
    assert!(
        error.starts_with("ta cannot be used for tests: it has the address 10.9.9.1")
            && error.contains("addr flush dev ta")
            && !error.contains("--allow"),
        "{error}"
    );
    tester.query("ip", &["addr", "flush", "dev", "ta"]).unwrap();
    // an address in the bed's own network is no danger
    tester
        .query("ip", &["addr", "add", "10.77.1.2/24", "dev", "ta"])
        .unwrap();
    let held = claim(&spec(&parsed(&near).generator.host, "tb").unwrap(), &[]);
    let error = fails_of(&site);
    assert!(error.contains("another fwdlab sends on tb"), "{error}");
    drop(held);
    drop(
        site.build(&Wanted::with_one_dut(&campaign::Dut::default(), &placement))
            .unwrap(),
    );
    tester.query("ip", &["addr", "flush", "dev", "ta"]).unwrap();

    // the port is in use
    let batch = "addr add 192.0.2.1/24 dev da\nroute add default via 192.0.2.2 dev da\n";
    dut.feed("ip", &["-batch", "-"], batch).unwrap();
    let error = site
        .build(&Wanted::with_one_dut(&campaign::Dut::default(), &placement))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("da of") && error.contains("it carries the default route"),
        "{error}"
    );

    // only one process at a time can use the bed
    let other = Site::existing(parsed(&near), Path::new("/nowhere")).unwrap();
    let error = other
        .build(&Wanted::with_one_dut(&campaign::Dut::default(), &placement))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("another fwdlab measures on the test bed rack-"),
        "{error}"
    );
    drop(site);
    let error = other
        .build(&Wanted::with_one_dut(&campaign::Dut::default(), &placement))
        .unwrap_err()
        .to_string();
    assert!(error.contains("it carries the default route"), "{error}");

    let error = Site::existing(
        parsed(&near.replacen("netns:rack-wrong-gen", "ssh://a/b?", 1)),
        Path::new("/nowhere"),
    );
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("rack.toml:3:8: `ssh://a/b?"), "{error}");
}

/// Only a separate machine is restarted: never this one, on which fwdlab runs.
/// All settings of a DUT's machine are recorded and restored: two test beds that share it would
/// restore each other's.
#[test]
fn only_one_test_bed_at_a_time_uses_a_machine_as_its_dut() {
    let id = std::process::id();
    let site = |name: &str, dut: &str| {
        let text = format!(
            "bed = '{name}-{id}'\n[generator]\nhost = 'local'\nports = {{ a = 'a', b = 'b' }}\n\
             [dut]\nhost = '{dut}'\nports = {{ a = 'c', b = 'd' }}\n"
        );
        let site = ExistingHosts::new(parsed(&text), Path::new("/nowhere")).unwrap();
        site.reserve(&mut |queue| Err(queue.refusal()))
            .map(|()| site)
    };
    let machine = format!("ssh://router-{id}");
    let first = site("one", &machine).unwrap();
    let error = site("two", &machine).unwrap_err().to_string();
    assert!(
        error.contains("another fwdlab measures on the DUT of two-"),
        "{error}"
    );
    // a namespace has settings of its own
    let namespace = format!("netns:router-{id}");
    let _both = ["three", "four"].map(|name| site(name, &namespace).unwrap());
    drop(first);
    site("two", &machine).unwrap();
}

#[test]
fn this_machine_is_not_restarted() {
    let site = |dut: &str| {
        let text = format!(
            "bed = 'rack'\n[generator]\nhost = 'local'\nports = {{ a = 'ta', b = 'tb' }}\n[dut]\n{dut}\n"
        );
        Site::existing(parsed(&text), Path::new("fwdlab")).unwrap()
    };
    let ports = "ports = { a = 'da', b = 'db' }";
    let of = |host: &str| site(&format!("host = '{host}'\n{ports}"));
    assert_eq!(of("ssh://router1").can_reboot(), Ok(()));
    for here in ["local", "netns:dut"] {
        let site = of(here);
        let reason = site.can_reboot().unwrap_err();
        assert!(
            reason.contains("fwdlab runs there, too"),
            "{here}: {reason}"
        );
        let error = site.reboot(Limit::OURS).unwrap_err().to_string();
        assert!(error.contains("not restarted"), "{here}: {error}");
    }
    let black_box =
        site("kind = 'none'\nmacs = { a = '02:00:00:00:00:01', b = '02:00:00:00:00:02' }");
    let reason = black_box.can_reboot().unwrap_err();
    assert!(
        reason.contains("fwdlab cannot log in to its DUT"),
        "{reason}"
    );
}

/// Hosts behind sshd and agents.
mod slow {
    use super::*;

    /// A router that drops half of its flows receives all and sends half, by the counters of its
    /// agent, which reads those of the kernel every 15 s.
    #[test]
    fn a_black_box_is_read_by_snmp() {
        let test = "a_black_box_is_read_by_snmp";
        let find = "PATH=$PATH:/usr/sbin; command -v snmpd";
        let Ok(program) = Local.query("sh", &["-c", find]) else {
            return println!("SKIPPED: {test}: there is no snmpd");
        };
        let Some(rack) = Rack::new("snmp") else {
            return;
        };
        owned_router(&rack);
        let [_, dut] = &rack.names;
        let ours = format!("fm{}", std::process::id());
        let link = format!(
            "ip link add {ours} type veth peer name mgmt netns {dut}; ip addr add 10.254.7.1/30 dev {ours}; ip link set {ours} up"
        );
        Local.query("sh", &["-ec", &link]).unwrap();
        let link = "ip addr add 10.254.7.2/30 dev mgmt; ip link set mgmt up
            nft add table ip t; nft add chain ip t f '{ type filter hook forward priority 0; }'
            nft add rule ip t f 'ip daddr & 0.0.0.1 == 0.0.0.0 drop'";
        rack.dut().query("sh", &["-ec", link]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("snmpd.conf");
        let at = "10.254.7.2:1161";
        std::fs::write(
            &file,
            format!("rocommunity secret default\nagentaddress udp:{at}\n"),
        )
        .unwrap();
        let mut command = std::process::Command::new("ip");
        command
            .args(["netns", "exec", dut, program.trim()])
            .args(["-f", "-Ln", "-C", "-I", "ifTable,ifXTable", "-c"])
            .arg(&file)
            .env("SNMP_PERSISTENT_DIR", folder.path());
        crate::sys::die_with_parent(&mut command);
        let mut agent = command.spawn().unwrap();
        let begun = Instant::now();
        while Agent::open(at.parse().unwrap(), "secret", &["da", "db"]).is_err() {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "snmpd does not start"
            );
        }
        let text = rack.near();
        let (before, rest) = text.split_once("[dut]").unwrap();
        assert!(rest.contains("ports = { a = 'da', b = 'db' }"), "{rest}");
        let text = format!(
            "{before}[dut]\nkind = 'none'\nports = {{ a = 'da', b = 'db' }}\nsnmp = '{at}'\ncommunity = 'secret'\nsettle = '16s'\n"
        );
        let site = Site::existing(parsed(&text), Path::new("/nowhere")).unwrap();
        let placement = Placement::default();
        let bed = site
            .build(&Wanted::with_one_dut(&campaign::Dut::default(), &placement))
            .unwrap();
        let (mut rig, _) = site.open(&bed, &by_packets()).unwrap();
        let stream = Stream::new(IpVersion::Ipv4, FrameSize::new(128).unwrap(), 10).unwrap();
        // the first frames wait for an answer, or a busy sender sends none
        let mut proofs = (0..10).map(|_| rig.prove(0, &stream, 100).unwrap());
        let is_half = |proof: &Proof| proof.sent > 0 && proof.received == proof.sent / 2;
        assert!(proofs.any(|proof| is_half(&proof)));
        assert_eq!(bed.age_of_counters(), Duration::from_secs(16));
        let counted = || {
            std::thread::sleep(bed.age_of_counters());
            bed.counters(0).unwrap().dut.unwrap()
        };
        let before = counted();
        let proof = rig.prove(0, &stream, 100).unwrap();
        let after = counted();
        assert!(after.are_exact && is_half(&proof), "{proof:?}");
        // and at most some ARP
        let received = after.input.0 - before.input.0;
        assert!(
            (proof.sent..proof.sent + 10).contains(&received),
            "{received}"
        );
        let sent = after.output.0 - before.output.0;
        let forwarded = proof.received..proof.received + 10;
        assert!(forwarded.contains(&sent), "{sent}");
        drop(rig);
        drop(bed);
        agent.kill().unwrap();
        agent.wait().unwrap();
        Local.query("ip", &["link", "del", &ours]).unwrap();
    }

    #[test]
    fn a_configuration_leaves_nothing_on_any_kind_of_host() {
        let test = "a_configuration_leaves_nothing_on_any_kind_of_host";
        let Some(rack) = Rack::new("left") else {
            return;
        };
        settle(&rack.dut());
        let bed = parsed(&rack.near());
        let site = Site::existing(bed.clone(), Path::new("/nowhere")).unwrap();
        leaves_nothing(&site, &rack.dut());
        drop(site);
        // a machine of its own
        let [tester, dut] = &rack.names;
        let own = "set -e; mount --make-rprivate /; mount -t tmpfs own /proc/sys/vm; echo 1 > /proc/sys/vm/of_test; exec \"$@\"";
        if let Some(server) = Server::start_with_files(test, dut, own) {
            let mut standing = ExistingHosts::new(bed, Path::new("/nowhere")).unwrap();
            standing.dut = Some(Address::Ssh(server.target()));
            leaves_nothing(&Site(Arc::new(standing)), &server.host());
        }
        // this machine: a network that only this thread is in
        let text = rack.near().replace(&format!("netns:{tester}"), "local");
        let bed = parsed(&text.replace(&format!("netns:{dut}"), "local"));
        crate::ports::private::namespace_with_pair(1).unwrap();
        let on = "echo 0 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
        Local.query("sh", &["-c", on]).unwrap();
        let links = "link add ta type veth peer name da\nlink add tb type veth peer name db\n";
        Local.feed("ip", &["-batch", "-"], links).unwrap();
        settle(&Local);
        let site = Site::existing(bed, Path::new("/nowhere")).unwrap();
        leaves_nothing(&site, &Local);
    }

    /// The tester is an agent on one machine, the DUT another machine; here both are this one.
    #[test]
    fn a_bed_behind_ssh_forwards_and_is_restored() {
        let test = "a_bed_behind_ssh_forwards_and_is_restored";
        let Some(rack) = Rack::new("far") else {
            return;
        };
        let ours = tempfile::tempdir().unwrap();
        let Some(program) = program(test, ours.path()) else {
            return;
        };
        let servers = rack
            .names
            .each_ref()
            .map(|name| Server::start_within(test, Some(name)));
        let [Some(tester), Some(dut)] = servers else {
            return;
        };
        let bed = parsed(&rack.file("ssh://tester", "ssh://dut"));
        let standing = Arc::new(ExistingHosts {
            locks: Arc::default(),
            testers: vec![Address::Ssh(tester.target())],
            seats: vec![0, 0],
            dut: Some(Address::Ssh(dut.target())),
            machine: None,
            program,
            user_ports: Mutex::default(),
            reached: Mutex::new(None),
            control: Mutex::default(),
            bed,
        });
        let site = Site(standing.clone());
        let stopped = Control::default();
        stopped.stop();
        site.set_control(&stopped);
        let placement = Placement::default();
        let dut = campaign::Dut::default();
        let error = site
            .build(&Wanted::with_one_dut(&dut, &placement))
            .unwrap_err();
        assert!(matches!(error, LabError::Interrupted), "{error}");
        site.set_control(&Control::default());
        forwards(&site, &rack);
        assert!(!site.is_local());
        telemetry_of(&site);
        // a lost agent is restarted for the next bed
        let agent = standing.hosts().unwrap().testers[0].agent.clone().unwrap();
        let id = agent.query("sh", &["-c", "echo $PPID"]).unwrap();
        Local.query("kill", &["-9", id.trim()]).unwrap();
        forwards(&site, &rack);
        let facts = site.facts(&Placement::default(), true);
        assert!(facts.cpus > 0 && facts.placement.contains_key(TEST_BED));
        let program = standing.program.clone();
        drop((site, standing));
        // the agent answers a black box
        owned_router(&rack);
        let bed = black_box(&rack, "ssh://tester");
        let standing = ExistingHosts {
            testers: vec![Address::Ssh(tester.target())],
            ..ExistingHosts::new(bed, &program).unwrap()
        };
        is_a_neighbour(&Site(Arc::new(standing)), &rack);
    }

    /// Sender, second sender and receiver are three hosts: first in this process, then each behind
    /// an agent.
    #[test]
    fn senders_and_receiver_on_several_hosts_are_one_tester() {
        let test = "senders_and_receiver_on_several_hosts_are_one_tester";
        let Some(spread) = Spread::new("apart") else {
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = program(test, folder.path()) else {
            return;
        };
        let stream = Stream::new(IpVersion::Ipv4, FrameSize::new(128).unwrap(), 10).unwrap();
        let placement = Placement::default();
        let dut = campaign::Dut::default();
        for has_second in [false, true] {
            let site =
                Site::existing(parsed(&spread.file(has_second)), Path::new("/nowhere")).unwrap();
            forwards(&site, &spread.rack);
        }

        // behind agents: the senders and the receiver
        let start = |name: &str, beats| {
            let folder = folder.path().join(name);
            agent(&program, &folder, name, &[], beats)
        };
        let behind = |stations: Vec<Remote>, has_second| {
            let standing =
                ExistingHosts::new(parsed(&spread.file(has_second)), Path::new("/nowhere"))
                    .unwrap();
            let testers = stations.into_iter().map(|remote| Station {
                host: Arc::new(Netns::bare(remote.name())),
                agent: Some(remote),
            });
            let hosts = Hosts {
                testers: testers.collect(),
                dut: Some(Arc::new(spread.rack.dut())),
            };
            standing.reserve(&mut |queue| Err(queue.refusal())).unwrap();
            *standing.reached.lock().unwrap() = Some(Arc::new(hosts));
            let standing = Arc::new(standing);
            (Site(standing.clone()), standing)
        };
        let [generator, receiver, second] =
            [&spread.rack.names[0], &spread.names[0], &spread.names[1]]
                .map(|name| start(name, true));
        let remotes = vec![generator.0.clone(), receiver.0.clone(), second.0.clone()];
        let (site, _) = behind(remotes.clone(), true);
        forwards(&site, &spread.rack);
        // two senders would use the same sequence numbers, so frames are only counted
        let bed = site.build(&Wanted::with_one_dut(&dut, &placement)).unwrap();
        let (mut rig, chosen) = site.open(&bed, &by_packets()).unwrap();
        assert!(
            chosen.words.contains("frames leave at ta of") && chosen.words.contains(" and ta of "),
            "{chosen:?}"
        );
        let plan = || Some(AnalysisPlan::default());
        let error = rig
            .arm(Frames::Stream(&stream), plan())
            .unwrap_err()
            .to_string();
        assert!(error.contains("2 hosts send into one port"), "{error}");
        drop((rig, bed, site));

        // both directions: the receiver sends, too
        let (site, standing) = behind(remotes[..2].to_vec(), false);
        let both = Wanted {
            both_ways: true,
            ..Wanted::with_one_dut(&dut, &placement)
        };
        let bed = site.build(&both).unwrap();
        let choice = Choice {
            way_back: Some(bed.networks().reverse()),
            traffic: Vec::new(),
            ..by_packets()
        };
        let (mut rig, _) = site.open(&bed, &choice).unwrap();
        for path in [0, 1] {
            let proof = rig.prove(path, &stream, 100).unwrap();
            assert_eq!((proof.sent, proof.received), (100, 100), "path {path}");
        }
        // a profile, each direction from its own host at the same time
        let compiled = |direction, addresses| {
            let text = "[[stream]]\nlayers = ['ipv4', 'udp']\nsize = 200\nflows = 10\n";
            let profile = fwdlab_model::profile::Profile::parse("p", text).unwrap();
            let setting = Setting {
                direction,
                addresses,
                vlan: None,
                link: None,
                read: &|_| Err(std::io::ErrorKind::NotFound.into()),
            };
            compile(&profile, &setting).unwrap().traffic
        };
        let networks = bed.networks();
        let forward = compiled(Direction::Forward, networks.forward());
        let reverse = compiled(Direction::Reverse, networks.reverse());
        let traffic = Arc::new(forward.both_ways(reverse).unwrap());
        rig.arm(Frames::Traffic(&traffic), None).unwrap();
        rig.start(Schedule {
            frames: Some(200),
            ..endless()
        })
        .unwrap();
        while !rig.is_done() {
            rig.wait(Duration::from_millis(5));
        }
        let last = rig.stop().unwrap();
        assert_eq!(
            (&last.sent[..], &last.received[..]),
            (&[100, 100][..], &[100, 100][..])
        );
        drop((rig, bed));
        // one clock: latencies are those of frames
        let bed = site.build(&Wanted::with_one_dut(&dut, &placement)).unwrap();
        let (mut rig, _) = site.open(&bed, &by_packets()).unwrap();
        rig.arm(
            Frames::Stream(&stream),
            Some(AnalysisPlan {
                streams: vec![fwdlab_engine::analysis::StreamPlan::default()],
            }),
        )
        .unwrap();
        let schedule = Schedule {
            frames: Some(100),
            ..endless()
        };
        let before = rig.read().ok();
        rig.start(schedule).unwrap();
        while !rig.is_done() {
            rig.wait(Duration::from_millis(5));
        }
        let last = rig.stop().unwrap();
        assert_eq!((last.sent[0], last.received[0]), (100, 100));
        assert!(before.is_none_or(|before| last.received_at_ns > before.received_at_ns));
        let found = rig.analysis(0).unwrap().unwrap();
        assert_eq!(
            found.streams[0].latency.len() + found.streams[0].early,
            last.received[0]
        );

        // if the receiver dies while frames flow, they end, and the waiting call fails
        rig.arm(Frames::Stream(&stream), None).unwrap();
        rig.start(endless()).unwrap();
        rig.wait(Duration::from_millis(200));
        assert!(!rig.is_done());
        let (_, mut child) = receiver;
        child.kill().unwrap();
        child.wait().unwrap();
        while !rig.is_done() {
            rig.wait(Duration::from_millis(5));
        }
        let error = rig.stop().unwrap_err();
        assert!(error.to_string().contains("lost connection to"), "{error}");
        assert!(matches!(error, LabError::Host(_)), "{error:?}");
        spread.is_silent();
        drop((rig, bed));
        // and the same if the sender dies
        let bed = site.build(&Wanted::with_one_dut(&dut, &placement)).unwrap();
        assert!(
            standing.hosts().unwrap().testers[1].agent.is_none(),
            "it was reached anew"
        );
        let (mut rig, _) = site.open(&bed, &by_packets()).unwrap();
        rig.arm(Frames::Stream(&stream), None).unwrap();
        rig.start(endless()).unwrap();
        let (_, mut child) = generator;
        child.kill().unwrap();
        child.wait().unwrap();
        spread.is_silent();
        assert!(rig.is_done());
        let error = rig.stop().unwrap_err().to_string();
        assert!(error.contains("lost connection to"), "{error}");
        drop((rig, bed, site, standing));

        // a connection that still exists, but delivers nothing
        let mute = start(&spread.rack.names[0], false);
        let (receiver, _child) = start(&spread.names[0], true);
        let (site, _) = behind(vec![mute.0.clone(), receiver.clone()], false);
        let bed = site.build(&Wanted::with_one_dut(&dut, &placement)).unwrap();
        let (mut rig, _) = site.open(&bed, &by_packets()).unwrap();
        rig.arm(Frames::Stream(&stream), None).unwrap();
        rig.start(endless()).unwrap();
        rig.wait(Duration::from_millis(200));
        let before = spread.sent();
        rig.wait(Duration::from_millis(100));
        assert!(spread.sent() > before, "frames flow");
        spread.is_silent();
        drop((rig, bed, site));

        // two clocks
        let other = ["unshare", "--time", "--monotonic", "5000", "--fork"];
        let (apart, mut child) = agent(
            &program,
            &folder.path().join("t"),
            &spread.rack.names[0],
            &other,
            true,
        );
        if apart.is_reachable(within(HELLO, &|| false)) {
            let (site, _) = behind(vec![apart, receiver], false);
            let bed = site.build(&Wanted::with_one_dut(&dut, &placement)).unwrap();
            let (mut rig, _) = site.open(&bed, &by_packets()).unwrap();
            let error = rig
                .arm(Frames::Stream(&stream), plan())
                .unwrap_err()
                .to_string();
            assert!(error.contains("which may differ"), "{error}");
            assert_eq!(rig.prove(0, &stream, 100).unwrap().received, 100);
        } else {
            println!("SKIPPED: {test}: two clocks: no time namespaces here");
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}
