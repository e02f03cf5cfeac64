//! A Linux DUT over a recorded host: which commands it runs in which order, and the effect of every
//! failure at every command.
//!
//! Start with [`linux`] and [`ALL`].

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Mutex;

use super::*;
use crate::host::scratch::Namespace;
use crate::host::scripted::{Fails, NAME, Scripted};
use crate::host::ssh::tests::Server;
use crate::host::undo::Left;
use crate::host::{Address, Files, Netns};

/// Returns a DUT on a recorded host, and the record of its changes.
pub(super) fn linux(host: Scripted) -> (Linux, Arc<Scripted>, tempfile::NamedTempFile) {
    let record = tempfile::NamedTempFile::new().unwrap();
    let undo = Arc::new(Undo::new(record.reopen().unwrap()));
    let host = Arc::new(host);
    let dut = Linux::new(
        host.clone(),
        host.clone(),
        ["ens1", "ens2"],
        Networks::EMBEDDED,
        undo,
    );
    (dut.on(&[2, 3, 5], Some(77)), host, record)
}

/// Answers like a router whose tables keep what was set.
fn router() -> Scripted {
    let tables: Mutex<[String; 3]> = Mutex::default();
    Scripted::new(move |command, input| {
        let mut tables = tables.lock().unwrap();
        let [rules, routes, mask] = &mut *tables;
        match command {
            "nft -f -" => input.clone_into(rules),
            "nft list table inet fwdlab" => return rules.clone(),
            "ip -batch -" => {
                *routes = input
                    .replace("route add ", "")
                    .replace("route replace ", "");
            }
            _ if command.contains("route show proto") => return routes.clone(),
            _ if command.contains("rps_cpus") => {
                if mask.is_empty() {
                    *mask = "00000000\n".into();
                }
                if let Some((value, _)) = command
                    .split_once("echo ")
                    .and_then(|(_, rest)| rest.split_once(' '))
                {
                    // in the kernel's format
                    *mask = format!("{:0>8}\n", value.trim_matches('\'').trim_start_matches('0'));
                }
                return format!("rx-0/rps_cpus:{mask}");
            }
            "ip -4 -o addr show dev ens2" => {
                return "3: ens2    inet 198.19.0.1/30 scope global ens2\n".into();
            }
            "ip -4 route show dev ens2" => {
                return "198.19.0.0/16 via 198.19.0.2\n".into();
            }
            "read /proc/thread-self/net/dev" => {
                return "  ens1: 1 22 0 3 0 0 0 0 4 55 0 6 0 0 0 0\n  ens2: 1 7 0 8 0 0 0 0 4 9 0 10 0 0 0 0\n".into();
            }
            "read /proc/77/schedstat" => return "1 2000 3\n".into(),
            "ip -o link show" => {
                return "2: ens1: <BROADCAST,UP,LOWER_UP> mtu 1500\n3: ens2@if9: <BROADCAST> mtu 1500\n".into();
            }
            _ if command.starts_with("read /proc/sys/") => return "7\n".into(),
            _ if command.starts_with("PATH=") || command.contains("command -v") => {
                return "/usr/sbin/snmpd\n".into();
            }
            _ => {}
        }
        String::new()
    })
}

/// An operation on a DUT in the tests below.
type Operation = fn(&Linux) -> Result<(), LabError>;

fn set(dut: &Linux, swept: &SweptParameter, value: u64) -> Result<(), LabError> {
    let version = IpVersion::Ipv4;
    dut.set(swept, version, value, &Control::default())
        .map(drop)
}

fn command() -> SweptParameter {
    SweptParameter::Command {
        apply: "vtysh -c 'peers {}'".into(),
        undo: Some("vtysh -c 'no peers {}'".into()),
    }
}

/// Every operation on a DUT.
const ALL: [(&str, Operation); 12] = [
    ("prepare", |dut| dut.prepare().map(drop)),
    ("apply", |dut| {
        let configuration = Configuration::parse("nft add table ip nat")?;
        dut.apply(&configuration, &Control::default()).map(drop)
    }),
    ("route", |dut| {
        let far = Route {
            network: ("48.0.0.0".parse().unwrap(), 22),
            out: End::Output,
        };
        dut.route(&[far]).map(drop)
    }),
    ("rules", |dut| set(dut, &SweptParameter::Rules, 3)),
    ("routes", |dut| set(dut, &SweptParameter::Routes, 3)),
    ("cores", |dut| set(dut, &SweptParameter::Cores, 2)),
    ("command", |dut| set(dut, &command(), 9)),
    ("reset", |dut| {
        let planned = dut.plan_reset(&Reset::Interface)?;
        dut.reset(&planned, Limit::OURS).map(drop)
    }),
    ("filter", |dut| {
        let permitted = [("198.18.0.0/16".to_owned(), "198.19.0.0/16".to_owned())];
        dut.filter(&permitted, 25, &mut |_| Ok(())).map(drop)
    }),
    ("updates", |dut| {
        dut.begin_updates(IpVersion::Ipv4, &mut |_| Ok(()))?;
        dut.update(IpVersion::Ipv4, Updates::B)
    }),
    ("agent", |dut| {
        let agent = Agent {
            community: "public",
            from: Ipv4Addr::new(169, 254, 11, 2),
            at: (Ipv4Addr::new(169, 254, 11, 1), 161),
            cpus: &[2, 3],
        };
        dut.start_agent(&agent).map(drop)
    }),
    ("counters", |dut| dut.counters().map(drop)),
];

/// Returns true if a command undoes something.
fn is_undo(command: &str) -> bool {
    ["flush", "delete table", "no peers", "restore settings", "echo '"]
        .iter()
        .any(|word| command.contains(word))
        // rules are loaded into a table that is emptied first
        && !command.contains("chain")
}

#[test]
fn requests_are_applied_verified_and_undone_in_reverse_order() {
    let (dut, host, record) = linux(router());
    for (action, ask) in ALL {
        ask(&dut).unwrap_or_else(|error| panic!("{action}: {error}"));
    }
    let requested = host.commands();
    let has = |words: &str| requested.iter().any(|command| command.contains(words));
    for words in [
        "write /proc/sys/net/ipv4/ip_forward\n1",
        "addr replace 198.19.0.1/30 dev ens2",
        "neigh replace 2001:2::2 lladdr 02:00:01:5a:17:01 nud permanent dev ens1",
        "route replace 198.18.0.0/16 via 198.18.0.2 dev ens1",
        "nft add table ip nat",
        "route replace 48.0.0.0/22 via 198.19.0.2 dev ens2",
        "ip saddr 20.0.0.2 drop",
        "route add 20.0.2.0/24 via 198.19.0.2 dev ens2 proto 198",
        "echo 0000000c > rx-0/rps_cpus",
        "vtysh -c 'peers 9'",
        "ip link set ens2 down",
        "addr replace 198.19.0.1/30 dev ens2\n",
        "ip saddr 198.18.0.0/16 ip daddr 198.19.0.0/16 counter accept",
        "taskset -c 2,3 env MIBS= ",
    ] {
        assert!(has(words), "{words}: {requested:#?}");
    }
    assert_eq!(dut.waited(), Some(Duration::from_nanos(2000)));
    let counted = dut.counters().unwrap().unwrap();
    assert_eq!(
        (counted.input.rx_packets, counted.input.rx_dropped),
        (22, 3)
    );
    assert_eq!(
        (counted.output.tx_packets, counted.output.tx_dropped),
        (9, 10)
    );
    assert_eq!(dut.port_problems().unwrap(), ["ens2 in router1 is down"]);

    let before = host.commands().len();
    assert_eq!(dut.undo(), Vec::<String>::new());
    let undo_commands = &host.commands()[before..];
    assert_eq!(undo_commands.len(), 10, "{undo_commands:#?}");
    assert!(
        undo_commands.iter().all(|command| is_undo(command)),
        "{undo_commands:#?}"
    );
    assert!(
        undo_commands[0].contains("proto 199") && undo_commands[9].contains("restore settings")
    );
    let text = fs::read_to_string(record.path()).unwrap();
    assert_eq!(Left::parse(&text), Left::default());
    // undone only once
    assert_eq!(dut.undo(), Vec::<String>::new());
    assert_eq!(host.commands().len(), before + 10);
}

/// The undo command is recorded before the first command that changes something.
#[test]
fn the_undo_step_is_recorded_first() {
    let record = tempfile::NamedTempFile::new().unwrap();
    let path = record.path().to_owned();
    let observed = Arc::new(Mutex::new(BTreeSet::new()));
    let watched = observed.clone();
    let host: Arc<dyn Host> = Arc::new(Scripted::new(move |command, _| {
        if command == "nft -f -" {
            let text = fs::read_to_string(&path).unwrap();
            watched
                .lock()
                .unwrap()
                .insert(Left::parse(&text) == Left::default());
        }
        String::new()
    }));
    let undo = Arc::new(Undo::new(record.reopen().unwrap()));
    let dut = Linux::new(host.clone(), host, ["a", "b"], Networks::EMBEDDED, undo);
    // none of them exists afterwards: this is an error, and the change is undone
    let error = set(&dut, &SweptParameter::Rules, 3)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("router1 did not keep the setting: the kernel lists 0 nftables rules"),
        "{error}"
    );
    assert_eq!(*observed.lock().unwrap(), BTreeSet::from([false]));
    let text = fs::read_to_string(record.path()).unwrap();
    assert_eq!(Left::parse(&text), Left::default());
}

/// For every operation and every failure at every command: either an error with place, cause and
/// next step, or no harm; and every change is undone, or reported as left behind.
#[test]
fn every_failure_is_reported_and_undone() {
    let mut tried = 0;
    for (action, ask) in ALL {
        let (dut, host, _) = linux(router());
        ask(&dut).unwrap();
        for at in 0..host.commands().len() {
            for how in Fails::ALL {
                tried += 1;
                let (dut, host, record) = linux(router().failing(at, how));
                let result = ask(&dut);
                let case = format!("{action}, command {at}, {how:?}");
                let requested = host.commands();
                if let Err(error) = &result {
                    let output = error.to_string();
                    assert!(output.contains(NAME), "{case}: {output}");
                    for words in how.words() {
                        assert!(output.contains(words), "{case}: {output}");
                    }
                    let failed = requested[at].lines().next().unwrap();
                    let named = how == Fails::Garbage || output.contains(failed);
                    assert!(named, "{case}: {failed} is not in: {output}");
                } else {
                    // garbage where the output is not used or is that of a user's configuration; or
                    // a setting that a kernel without IPv6 lacks, or that is only recorded
                    let is_optional = |name: &&str| requested[at].contains(*name);
                    let optional = ["/ipv6/"].iter().chain(RECORDED_SYSCTLS).any(is_optional);
                    let allows = how == Fails::Garbage || how == Fails::File && optional;
                    assert!(allows, "{case}");
                    let is_read_back =
                        ["rules", "routes", "cores", "updates", "counters"].contains(&action);
                    let is_last = at + 1 == host.commands().len() && how == Fails::Garbage;
                    assert!(!is_read_back || !is_last, "{case}: nobody noticed");
                    continue;
                }
                let text = fs::read_to_string(record.path()).unwrap();
                let left = Left::parse(&text);
                let changed = text.contains("\"undo\"");
                if how == Fails::Lost {
                    // nothing can be undone: that is recorded and reported
                    let problem = dut.undo();
                    assert_eq!(problem.is_empty(), !changed, "{case}: {problem:?}");
                    let names = |output: &String| {
                        output.contains("could not be undone") && output.contains(NAME)
                    };
                    assert!(problem.iter().all(names), "{case}: {problem:?}");
                    assert_ne!(left == Left::default(), changed, "{case}");
                    // the next start finds the record, and undoes the changes
                    let next = Arc::new(Scripted::new(|_, _| String::new()));
                    let reached = next.clone();
                    let problem =
                        left.undo_change(record.path(), |_| false, move |_| reached.clone());
                    assert_eq!(problem, Vec::<String>::new(), "{case}");
                    assert_eq!(next.commands().is_empty(), !changed, "{case}");
                } else if changed {
                    // at once, if a single change failed
                    let is_one = ["route", "rules", "routes", "cores", "command", "filter"];
                    if is_one.contains(&action) {
                        assert_eq!(left, Left::default(), "{case}: {requested:#?}");
                        assert!(
                            is_undo(&requested[requested.len() - 1]),
                            "{case}: {requested:#?}"
                        );
                    }
                    assert_eq!(dut.undo(), Vec::<String>::new(), "{case}");
                    let text = fs::read_to_string(record.path()).unwrap();
                    assert_eq!(Left::parse(&text), Left::default(), "{case}");
                }
            }
        }
    }
    assert!(tried > 300, "only {tried} failures");
}

/// A host whose card has two receive queues, with masks of their own, and whose bed file gives it
/// CPUs 2 and 3. No thread of ours forwards, so one CPU is a mask as well.
#[test]
fn packet_steering_sets_and_restores_every_queue() {
    let masks = Mutex::new(["0".to_owned(), "f".to_owned()]);
    let host = Scripted::new(move |command, _| {
        let mut masks = masks.lock().unwrap();
        for (queue, mask) in masks.iter_mut().enumerate() {
            let written = command.lines().find_map(|line| {
                let value = line.strip_prefix("echo ")?;
                let value = value.strip_suffix(&format!(" > rx-{queue}/rps_cpus"))?;
                Some(value.trim_matches('\'').to_owned())
            });
            if let Some(value) = written {
                *mask = value;
            }
        }
        format!("rx-0/rps_cpus:{}\nrx-1/rps_cpus:{}\n", masks[0], masks[1])
    });
    let (dut, host, _) = linux(host);
    let dut = Linux {
        thread: None,
        ..dut
    };
    let dut = dut.on(&[2, 3], None);
    let read = || host.query("sh", &["-c", "cat rps_cpus"]).unwrap();
    for (cores, mask) in [(1, "00000004"), (2, "0000000c")] {
        set(&dut, &SweptParameter::Cores, cores).unwrap();
        assert_eq!(
            read(),
            format!("rx-0/rps_cpus:{mask}\nrx-1/rps_cpus:{mask}\n")
        );
        assert_eq!(dut.undo(), Vec::<String>::new());
        assert_eq!(read(), "rx-0/rps_cpus:0\nrx-1/rps_cpus:f\n");
    }
}

/// A value that will be restored has the expected format: anything else that a host answers is not
/// written back.
#[test]
fn restored_settings_were_parsed_correctly() {
    for (action, ask) in ALL
        .into_iter()
        .filter(|(action, _)| ["prepare", "cores"].contains(action))
    {
        let (dut, host, _) = linux(router());
        ask(&dut).unwrap();
        let is_value = |command: &&String| {
            command.starts_with("read /proc/sys/")
                || command.starts_with("sh -c 'cd /sys/class/net/")
        };
        let requested = host.commands();
        let values: Vec<usize> = (0..requested.len())
            .filter(|at| is_value(&&requested[*at]))
            .collect();
        assert!(!values.is_empty());
        for at in values {
            let (dut, host, _) = linux(router().failing(at, Fails::Garbage));
            let output = ask(&dut).unwrap_err().to_string();
            let file = requested[at]
                .trim_matches('\'')
                .split(' ')
                .next_back()
                .unwrap();
            assert!(output.contains(NAME) && output.contains(file), "{output}");
            assert!(
                output.contains("%&/ 17 eth") && !output.contains('\u{1b}'),
                "{output}"
            );
            dut.undo();
            let written = host
                .commands()
                .into_iter()
                .filter(|command| command.contains("%&/"));
            assert_eq!(written.collect::<Vec<_>>(), ["x"; 0], "{action}");
        }
    }
}

/// If a change fails and cannot be undone either, the error says both.
#[test]
fn an_error_lists_what_was_not_undone() {
    let (dut, _, _) = linux(router().failing(0, Fails::Lost));
    let error = set(&dut, &SweptParameter::Rules, 3)
        .unwrap_err()
        .to_string();
    for words in [
        "lost connection to router1 during `nft -f -`: Connection reset by peer",
        "Some of it (3 rules of nftables) may have been done and could not be undone",
    ] {
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_command_that_is_stopped_is_no_failure() {
    let (dut, _, _) = linux(router());
    let control = Control::default();
    control.stop();
    let configuration = Configuration::parse("sleep 60").unwrap();
    let stopped = dut.apply(&configuration, &control);
    assert!(matches!(stopped, Err(LabError::Interrupted)));
}

/// Returns a namespace with two ports.
pub(super) fn with_ports(of: &str) -> Namespace {
    let namespace = Namespace::new(&format!("undo-{of}"));
    let ports = "link add ens1 type veth peer name ens2\nlink set ens1 up\nlink set ens2 up\n";
    let host = Netns::bare(&namespace.0);
    host.feed("ip", &["-batch", "-"], ports).unwrap();
    namespace
}

/// Returns the complete state of a router in it.
pub(super) fn router_state(namespace: &Namespace) -> Vec<String> {
    let host = Netns::bare(&namespace.0);
    let names: Vec<&str> = SYSCTLS.iter().map(|(name, _)| *name).collect();
    let found = read_settings(&host, &names).unwrap().into_iter();
    let settings = names.iter().zip(found);
    let settings = settings.map(|(name, value)| format!("{name} {value:?}"));
    let mask = "cat /sys/class/net/ens1/queues/rx-0/rps_cpus";
    let tables = [
        "ip -o -4 addr show",
        "ip -o -6 addr show scope global",
        "ip -4 route show",
        // the kernel's own routes come and go with the link-local addresses
        "ip -6 route show proto boot",
        "ip -6 route show proto 198",
        "ip neigh show nud permanent",
        "nft list ruleset",
        mask,
    ];
    let output = tables.map(|text| host.query("sh", &["-c", text]).unwrap());
    settings.chain(output).collect()
}

/// The kernel's state is restored, by this process or, after it died, by another; doing it twice
/// does no harm.
#[test]
fn a_real_router_is_restored() {
    let test = "a_real_router_is_restored";
    if !crate::user_namespace::is_root() {
        return println!("SKIPPED: {test}: not root");
    }
    let namespace = with_ports("here");
    let host = Arc::new(Netns::bare(&namespace.0));
    assert_restored(&namespace, host);
}

fn assert_restored(namespace: &Namespace, host: Arc<dyn Host>) {
    let before = router_state(namespace);
    let record = tempfile::NamedTempFile::new().unwrap();
    let undo = Arc::new(Undo::new(record.reopen().unwrap()));
    let ports = ["ens1", "ens2"];
    let dut = Linux::new(host.clone(), host, ports, Networks::EMBEDDED, undo).on(&[0, 1], None);
    let set_all = || {
        let set = dut.prepare().unwrap();
        assert_eq!(set["net/ipv4/ip_forward"], "1");
        for (action, ask) in ALL
            .iter()
            .filter(|(action, _)| !["reset", "agent", "command"].contains(action))
        {
            ask(&dut).unwrap_or_else(|error| panic!("{action}: {error}"));
        }
        let changed = router_state(namespace);
        let same = before
            .iter()
            .zip(&changed)
            .filter(|(before, now)| before == now);
        // some settings have the right value from the start
        assert!(same.count() < SYSCTLS.len(), "{changed:#?}");
    };
    set_all();
    assert_eq!(dut.undo(), ["x"; 0]);
    // fwdlab does not undo commands of a configuration
    Netns::bare(&namespace.0)
        .query("nft", &["flush", "ruleset"])
        .unwrap();
    assert_eq!(router_state(namespace), before);

    set_all();
    let text = fs::read_to_string(record.path()).unwrap();
    let left = Left::parse(&text).undo_change(Path::new("/dev/null"), |_| false, Address::reach);
    assert_eq!(left, ["x"; 0]);
    Netns::bare(&namespace.0)
        .query("nft", &["flush", "ruleset"])
        .unwrap();
    assert_eq!(router_state(namespace), before);
    assert_eq!(dut.undo(), ["x"; 0]);
    assert_eq!(router_state(namespace), before);
}

#[test]
fn a_routing_daemon_is_for_duts_that_end_with_it() {
    let (dut, host, _) = linux(router().with_files(Files::Machine));
    for family in ["bgp,n=2000", "openvpn,tunnels=2"] {
        let configuration = Configuration::parse(&format!("generate:{family}")).unwrap();
        let error = dut.apply(&configuration, &Control::default()).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("embedded test bed, with isolation"),
            "{error}"
        );
    }
    let requested = host.commands();
    assert!(
        requested
            .iter()
            .all(|command| !command.contains("bird") && !command.contains("ip netns"))
    );
}

/// Behind sshd.
mod slow {
    use super::*;

    /// The same over SSH: another process finds the host by its address, and undoes what a dead one
    /// left behind. This takes more than a hundred sessions, each with a login shell.
    #[test]
    fn a_router_behind_ssh_is_restored() {
        let test = "a_router_behind_ssh_is_restored";
        if !crate::user_namespace::is_root() {
            return println!("SKIPPED: {test}: not root");
        }
        let namespace = with_ports("ssh");
        Netns::bare(&namespace.0)
            .query("ip", &["link", "set", "lo", "up"])
            .unwrap();
        if let Some(server) = Server::start_within(test, Some(&namespace.0)) {
            assert_restored(&namespace, Arc::new(server.host()));
        }
    }
}
