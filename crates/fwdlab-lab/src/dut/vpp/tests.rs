//! VPP as a DUT over a recorded host: its commands, its refusals, and the handling of unexpected
//! answers.
//!
//! Start with [`vpp`].

use std::path::Path;
use std::sync::Mutex;

use fwdlab_model::reset::Reset;

use super::*;
use crate::host::scripted::Scripted;
use crate::host::undo::Left;

/// Returns a VPP on a recorded host, and the record of its changes.
fn vpp(host: Scripted) -> (Vpp, Arc<Scripted>, tempfile::NamedTempFile) {
    let record = tempfile::NamedTempFile::new().unwrap();
    let undo = Arc::new(Undo::new(record.reopen().unwrap()));
    let host = Arc::new(host);
    let ports = ["eth0", "eth1"];
    let dut = Vpp::new(
        host.clone(),
        "/run/vpp/cli.sock",
        ports,
        Networks::EMBEDDED,
        undo,
    );
    (dut, host, record)
}

const INTERFACES: &str = "\
              Name               Idx    State  MTU (L3/IP4/IP6/MPLS)     Counter          Count\n\
eth0                              1      up          9000/0/0/0     rx packets                    40\n\
                                                                    drops                          3\n\
eth1                              2      up          9000/0/0/0     tx packets                    37\n";

/// Answers like VPP, and has as many /24 routes as were added, minus `loses`.
fn answers(loses: u64) -> Scripted {
    let routes: Mutex<u64> = Mutex::default();
    Scripted::new(move |command, _| {
        let mut routes = routes.lock().unwrap();
        let count = |text: &str| -> u64 {
            let count = text
                .split_once(" count ")
                .and_then(|(_, rest)| rest.split(' ').next());
            count.map_or(0, |count| count.parse().unwrap())
        };
        match command {
            _ if command.starts_with("vppctl exec: ip route add") => {
                *routes = count(command) - loses
            }
            "vppctl show ip fib summary" => {
                return format!(
                    "    Prefix length         Count\n                  24            {}\n",
                    *routes
                );
            }
            "vppctl show interface" => return INTERFACES.into(),
            "vppctl show version" => return "vpp v26.10\r\n".into(),
            _ => {}
        }
        String::new()
    })
}

#[test]
fn vpp_becomes_a_router_and_the_undo_step_is_recorded() {
    let (dut, host, record) = vpp(answers(0));
    let reported = dut.prepare().unwrap();
    assert_eq!(reported["vpp"], "vpp v26.10");
    let text = std::fs::read_to_string(record.path()).unwrap();
    for words in [
        "ip route del 198.19.0.0/16 via 198.19.0.2 eth1",
        "set interface ip address del eth0 2001:2::1/64",
        "set ip neighbor del eth1 198.19.0.2 02:00:02:5a:17:02 static",
    ] {
        assert!(text.contains(words), "{text}");
    }
    // a VPP of others keeps its MAC addresses
    assert!(
        !host
            .commands()
            .iter()
            .any(|requested| requested.contains("mac address"))
    );
    let counted = dut.counters().unwrap().unwrap();
    assert_eq!(
        (counted.input.rx_packets, counted.output.tx_packets),
        (40, 37)
    );
    assert!(dut.port_problems().unwrap().is_empty());
    assert_eq!(dut.undo(), Vec::<String>::new());
    let text = std::fs::read_to_string(record.path()).unwrap();
    let no_host =
        Left::parse(&text).undo_change(Path::new("/dev/null"), |_| false, |_| panic!("done"));
    assert_eq!(no_host, Vec::<String>::new());
}

/// The ports poll before anything else is set. The MAC addresses of the kernel's ports stay as they
/// are: VPP gets its own when it creates an interface.
#[test]
fn vpp_in_a_guest_polls_its_ports_and_forwards() {
    let host = Arc::new(Scripted::new(|command, _| match command {
        "vppctl show interface" => INTERFACES.replace("eth", "host-eth"),
        "vppctl show version" => "vpp v26.10\r\n".into(),
        _ => String::new(),
    }));
    let record = tempfile::NamedTempFile::new().unwrap();
    let undo = Arc::new(Undo::new(record.reopen().unwrap()));
    let cli = Cli::new(host.clone(), "vppctl", "/run/vpp/cli.sock");
    let error = cli.wait(|_| Some("has ended".into())).unwrap_err();
    assert_eq!(error, "it does not start: it has ended");
    cli.wait(|_| None).unwrap();
    let ports = ["eth0", "eth1"];
    let dut = Vpp::in_guest(cli, ports, Networks::EMBEDDED, 30_000, undo).unwrap();
    let line = "set acl-plugin acl permit";
    let configuration = Configuration::parse(line).unwrap();
    dut.apply(&configuration, &Control::default()).unwrap();
    let create = |port: &str, mac: &str| {
        format!(
            "vppctl create host-interface v2 name {port} hw-addr {mac} rx-size 2048 rx-per-block 30000 tx-size 2048"
        )
    };
    let networks = Networks::EMBEDDED;
    let [input, output] = [networks.input, networks.output].map(|side| mac(side.dut_mac));
    // only the first line of each command: the lines of `exec` are the same for every VPP
    let commands = host.commands();
    let commands: Vec<&str> = commands
        .iter()
        .filter_map(|all| all.lines().next())
        .collect();
    let up = "vppctl exec: set interface state host-eth0 up and 15 more";
    let expected = [
        "vppctl show version",
        &create("eth0", &input),
        "vppctl set interface rx-mode host-eth0 polling",
        &create("eth1", &output),
        "vppctl set interface rx-mode host-eth1 polling",
        up,
        "vppctl show interface",
        "vppctl show interface",
        "vppctl show version",
        "vppctl set acl-plugin acl permit",
    ];
    assert_eq!(commands, expected);
}

#[test]
fn routes_count_as_set_when_its_own_table_has_them() {
    let (dut, _, _record) = vpp(answers(0));
    let control = Control::default();
    let set = |dut: &Vpp, value| dut.set(&SweptParameter::Routes, IpVersion::Ipv4, value, &control);
    assert!(set(&dut, 200).unwrap().is_some());
    let (dut, host, _record) = vpp(answers(1));
    let error = set(&dut, 200).unwrap_err().to_string();
    assert!(
        error.contains("199 more routes of 24 bits than before, not 200"),
        "{error}"
    );
    let last = host.commands().pop().unwrap();
    assert!(
        last.contains("sh -c"),
        "what was done is taken back: {last}"
    );
}

#[test]
fn unsupported_requests_are_refused_with_advice() {
    let (dut, host, _record) = vpp(answers(0));
    let control = Control::default();
    let mut report = |text: String| -> Result<(), LabError> { panic!("{text}") };
    let v4 = IpVersion::Ipv4;
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("a.nft");
    std::fs::write(&rules, "").unwrap();
    let rules = Configuration::parse(rules.to_str().unwrap()).unwrap();
    for (refused, words) in [
        (dut.plan_reset(&Reset::Interface).map(drop), "`interface`"),
        (
            dut.begin_updates(v4, &mut report).map(drop),
            "update routes",
        ),
        (
            dut.set(&SweptParameter::Cores, v4, 2, &control).map(drop),
            "workers in [dut]",
        ),
        (dut.apply(&rules, &control).map(drop), "a file *.vpp"),
    ] {
        let text = refused.unwrap_err().to_string();
        assert!(
            text.contains(words) && text.contains("router1, which is VPP; "),
            "{text}"
        );
    }
    assert_eq!(host.commands(), Vec::<String>::new(), "nothing was done");
    assert_eq!(
        dut.set(&SweptParameter::Stream, v4, 7, &control).unwrap(),
        None
    );
}

/// Counters before the trial do not count; output that is not understood is an error.
#[test]
fn an_account_is_the_difference_of_two_readings() {
    let (dut, _, _record) = vpp(Scripted::new(|command, _| {
        match command {
            "vppctl show interface" => INTERFACES,
            "vppctl show runtime" => include_str!("recorded/runtime-worker.txt"),
            "vppctl show errors" => include_str!("recorded/errors.txt"),
            "vppctl show cpu" => "Base frequency:           2.5955 GHz\n",
            _ => "",
        }
        .into()
    }));
    let work = dut.account().unwrap().unwrap()().unwrap();
    assert_eq!(work.clock_hz, Some(2.5955e9));
    assert_eq!(work.packets_in(), Some(3000));
    // errors before the trial do not count
    assert!(work.drops.is_empty());
    let (dut, _, _record) = vpp(Scripted::new(|command, _| match command {
        "vppctl show interface" => INTERFACES.into(),
        "vppctl show runtime" => "nobody knows\n".into(),
        _ => String::new(),
    }));
    let Err(error) = dut.account().unwrap().unwrap()() else {
        panic!("that is no runtime");
    };
    let error = error.to_string();
    assert!(
        error.contains("`show runtime` says \"nobody knows\""),
        "{error}"
    );
}

/// The kernel's port counted 1,000 frames, of which VPP fetched 960.
#[test]
fn frames_that_vpp_never_fetched_have_a_drop_reason() {
    let requested: Mutex<u64> = Mutex::default();
    let (mut dut, _, _record) = vpp(Scripted::new(move |command, _| {
        let mut requested = requested.lock().unwrap();
        match command {
            "read /proc/thread-self/net/dev" => {
                *requested += 1;
                let rx = 7 + 1000 * (*requested - 1);
                format!(
                    "  k0: 1 {rx} 0 0 0 0 0 0 4 0 0 0 0 0 0 0\n  k1: 1 3 0 0 0 0 0 0 4 9 0 0 0 0 0 0\n"
                )
            }
            "vppctl show interface" => {
                let rx = 40 + 960 * *requested;
                INTERFACES.replace("                    40", &format!(" {rx}"))
            }
            "vppctl show runtime" => include_str!("recorded/runtime-main.txt").into(),
            _ => String::new(),
        }
    }));
    dut.kernel_ports = Some(["k0", "k1"].map(str::to_owned));
    let work = dut.account().unwrap().unwrap()().unwrap();
    let reported: Vec<(&str, u64)> = work
        .drops
        .iter()
        .map(|drop| (&*drop.reason, drop.frames))
        .collect();
    assert_eq!(
        reported,
        [("af-packet-input: the kernel's ring to VPP was full", 40)]
    );
    assert_eq!(dut.counters().unwrap().unwrap().output.tx_packets, 9);
}
