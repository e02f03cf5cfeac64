//! Test beds of hosts that stand: namespaces of this machine, and the same behind servers of SSH.

use std::collections::BTreeSet;

use fwdlab_model::campaign;
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;

use super::*;
use crate::host::ssh::tests::{Server, program};

/// Two namespaces, joined by two links; they go when this is dropped.
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
                .ask("ip", &["link", "set", "lo", "up"])
                .unwrap();
        }
        rack.dut().ask("ip", &["link", "set", "da", "up"]).unwrap();
        Some(rack)
    }

    fn dut(&self) -> Netns {
        Netns::bare(&self.names[1])
    }

    /// All that a test bed changes, of both hosts.
    fn state(&self) -> BTreeSet<String> {
        // links come and go with the other end, and so do addresses that the kernel gives them
        let text = "cd /proc/sys/net; grep -r . ipv4/ip_forward ipv4/conf ipv6/conf 2>/dev/null | grep -v stable_secret
            { ip -4 -oneline addr show; ip -4 route show; ip -6 route show; ip neigh show nud permanent; } | grep -v fe80::
            ip -oneline link show | sed 's/[A-Z-]*_UP//; s/NO-CARRIER,//; s/ mtu.*//; s/,>/>/'
            nft -s list ruleset";
        let of = |name: &String| {
            let said = Netns::bare(name).ask("sh", &["-c", text]).unwrap();
            said.lines()
                .map(|line| format!("{name}: {line}"))
                .collect::<Vec<_>>()
        };
        self.names.iter().flat_map(of).collect()
    }

    fn is_as(&self, before: &BTreeSet<String>) {
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
            let _ = Local.ask("ip", &["netns", "del", name]);
        }
    }
}

fn parsed(text: &str) -> TestBed {
    TestBed::parse("rack.toml", text).unwrap()
}

/// Frames go through, in both versions of IP, and nothing is left afterwards.
fn forwards(site: &Site, rack: &Rack) {
    let before = rack.state();
    let placement = Placement::default();
    let bed = site
        .build(&Wanted::of_one(&campaign::Dut::default(), &placement))
        .unwrap();
    assert_eq!(bed.networks().input.ipv4.dut, Ipv4Addr::new(10, 77, 1, 1));
    let choice = Choice {
        mode: Some(fwdlab_engine::Mode::AfPacket),
        cpus: Vec::new(),
        prove: None,
        way_back: None,
    };
    let (mut rig, _) = site.open(&bed, &choice).unwrap();
    for version in [IpVersion::Ipv4, IpVersion::Ipv6] {
        let stream = Stream::new(version, FrameSize::new(128).unwrap(), 10).unwrap();
        let proof = rig.prove(0, &stream, 100).unwrap();
        assert_eq!((proof.sent, proof.received), (100, 100), "{version:?}");
    }
    let rule = "nft add table ip t; nft add chain ip t f '{ type filter hook forward priority 0; policy drop; }'";
    let rule = crate::dut::Configuration::parse(rule).unwrap();
    bed.dut(0)
        .apply(&rule, &crate::run::Control::default())
        .unwrap();
    let stream = Stream::new(IpVersion::Ipv4, FrameSize::MIN, 10).unwrap();
    let proof = rig.prove(0, &stream, 100).unwrap();
    assert_eq!(proof.received, 0);
    assert!(before != rack.state());
    drop(rig);
    drop(bed);
    rack.is_as(&before);
}

#[test]
fn a_bed_of_namespaces_forwards_and_is_as_before() {
    let Some(rack) = Rack::new("near") else {
        return;
    };
    // rules of others are there again afterwards
    let others = "table ip others { chain c { ip daddr 10.9.9.9 accept; }; }";
    rack.dut().feed("nft", &["-f", "-"], others).unwrap();
    let site = Site::standing(parsed(&rack.near()), Path::new("/nowhere")).unwrap();
    forwards(&site, &rack);
    forwards(&site, &rack);
}

/// The tester is an agent on one machine, the DUT another machine; here both are this one.
#[test]
fn a_bed_behind_ssh_forwards_and_is_as_before() {
    let test = "a_bed_behind_ssh_forwards_and_is_as_before";
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
    let site = Site(Arc::new(Standing {
        tester: Way::Ssh(tester.target()),
        dut: Some(Way::Ssh(dut.target())),
        program,
        reached: Mutex::new(None),
        bed,
    }));
    forwards(&site, &rack);
    assert!(!site.is_here());
    let facts = site.facts(&Placement::default(), true);
    assert!(facts.cpus > 0 && facts.placement.contains_key("test bed"));
}

#[test]
fn what_is_wrong_with_a_bed_is_told_and_nothing_is_changed() {
    let Some(rack) = Rack::new("wrong") else {
        return;
    };
    let before = rack.state();
    let placement = Placement::default();
    let fails = |text: &str| {
        let site = Site::standing(parsed(text), Path::new("/nowhere")).unwrap();
        let error = site
            .build(&Wanted::of_one(&campaign::Dut::default(), &placement))
            .unwrap_err()
            .to_string();
        rack.is_as(&before);
        error
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

    let dut = rack.dut();
    dut.ask("ip", &["link", "set", "db", "mtu", "1400"])
        .unwrap();
    let before = rack.state();
    let site = Site::standing(parsed(&near), Path::new("/nowhere")).unwrap();
    let error = site
        .build(&Wanted::of_one(&campaign::Dut::default(), &placement))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("different MTUs: 1500 at the tester, 1400 at the DUT"),
        "{error}"
    );
    rack.is_as(&before);
    dut.ask("ip", &["link", "set", "db", "mtu", "1500"])
        .unwrap();

    // somebody lives there
    let batch = "addr add 192.0.2.1/24 dev da\nroute add default via 192.0.2.2 dev da\n";
    dut.feed("ip", &["-batch", "-"], batch).unwrap();
    let error = site
        .build(&Wanted::of_one(&campaign::Dut::default(), &placement))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("da of") && error.contains("default route is there"),
        "{error}"
    );

    // and two at a time are one too many
    let other = Site::standing(parsed(&near), Path::new("/nowhere")).unwrap();
    let error = other
        .build(&Wanted::of_one(&campaign::Dut::default(), &placement))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("another fwdlab measures on the test bed rack-"),
        "{error}"
    );
    drop(site);
    let error = other
        .build(&Wanted::of_one(&campaign::Dut::default(), &placement))
        .unwrap_err()
        .to_string();
    assert!(error.contains("default route is there"), "{error}");

    let error = Site::standing(
        parsed(&near.replacen("netns:rack-wrong-gen", "ssh://a/b?", 1)),
        Path::new("/nowhere"),
    );
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("rack.toml:3:8: `ssh://a/b?"), "{error}");
}
