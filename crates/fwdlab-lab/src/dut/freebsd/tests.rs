//! A FreeBSD DUT on a scripted machine that answers as described in the manuals: commands,
//! refusals, and the effect of every failure at every command.
//!
//! Nothing here ran on a real FreeBSD. Start with [`Machine`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::*;
use crate::host::Files;
use crate::host::scripted::{Fails, NAME, Scripted};
use crate::host::undo::Left;

/// The state of a machine.
#[derive(Debug, Clone, Default, PartialEq)]
struct Machine {
    settings: BTreeMap<String, String>,
    /// Addresses, ARP and NDP entries, routes, and a folder.
    lines: BTreeSet<String>,
    modules: BTreeSet<String>,
    /// Rules of ipfw: set, text.
    ipfw: BTreeSet<(String, String)>,
    table: BTreeSet<String>,
    pf: Vec<String>,
    pf_table: BTreeSet<String>,
    pf_enabled: bool,
    files: BTreeMap<String, String>,
    boot: u32,
    saved: u32,
    /// The local directory of files that were uploaded.
    put: Option<PathBuf>,
    /// Ignores every sysctl.
    stubborn: bool,
    /// A daemon of its configuration, and whether it is running.
    daemon: Option<(&'static str, bool)>,
    /// Its interfaces that are not in a jail.
    ports: BTreeSet<String>,
    /// The jail, with its own settings and tables.
    jail: Option<Box<Machine>>,
}

impl Machine {
    fn new() -> Machine {
        let settings = [
            ("net.inet.ip.forwarding", "0"),
            ("net.inet6.ip6.forwarding", "0"),
            ("net.inet.ip.redirect", "1"),
            ("net.inet6.ip6.redirect", "1"),
            ("net.inet6.ip6.dad_count", "1"),
            ("hw.pci.do_power_nodriver", "0"),
            ("net.inet.ip.fw.enable", "1"),
            ("kern.features.vimage", "1"),
        ];
        Machine {
            settings: settings.map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
            boot: 1,
            ports: ["igb1", "igb2"].map(str::to_owned).into(),
            daemon: Some(("bird", true)),
            ..Machine::default()
        }
    }

    /// Moves an interface here or away: its addresses and routes are lost.
    fn port(&mut self, port: &str, is_here: bool) {
        self.lines.clear();
        match is_here {
            true => self.ports.insert(port.to_owned()),
            false => self.ports.remove(port),
        };
    }

    /// Executes one line of a script, or a single command, with its input.
    fn line(&mut self, line: &str, input: &[&str]) -> String {
        let line = line.trim().trim_start_matches("gone ");
        let words: Vec<&str> = line.split_whitespace().collect();
        match &words[..] {
            ["sysctl", "-n", name, ..] => {
                return self
                    .settings
                    .get(*name)
                    .map_or(String::new(), |value| format!("{value}\n"));
            }
            ["sysctl", pair, ..] => {
                let (name, value) = pair.trim_matches('\'').split_once('=').unwrap();
                if let Some(is) = self.settings.get_mut(name).filter(|_| !self.stubborn) {
                    value.clone_into(is);
                }
            }
            ["jls", "-j", name, ..] => {
                let found = if self.jail.is_some() { name } else { "none" };
                return format!("{found}\n");
            }
            ["jail", "-c", "name=fwdlab_dut", rest @ ..] => {
                assert_eq!(
                    rest,
                    ["path=/", "host.hostname=fwdlab_dut", "vnet", "persist"]
                );
                let mut jail = Machine::new();
                jail.ports.clear();
                self.jail = Some(Box::new(jail));
            }
            ["jail", "-r", "fwdlab_dut"] => {
                let jail = self.jail.take();
                self.ports
                    .extend(jail.into_iter().flat_map(|jail| jail.ports));
            }
            ["ifconfig", port, way @ ("vnet" | "-vnet"), "fwdlab_dut", ..] => {
                if let Some(jail) = &mut self.jail {
                    let goes = *way == "vnet";
                    jail.port(port, goes && self.ports.contains(*port));
                    self.port(port, !goes);
                }
            }
            ["ifconfig", "-l"] => {
                let ports: Vec<&str> = self.ports.iter().map(String::as_str).collect();
                return format!("{}\n", ports.join(" "));
            }
            ["ifconfig", port, _, "-alias"] | ["ifconfig", port, "inet" | "inet6", _, "-alias"] => {
                let address = words[words.len() - 2];
                self.lines
                    .retain(|line| !line.starts_with(&format!("{port} {address}/")));
            }
            ["ifconfig", port, "inet" | "inet6", address, "alias"] => {
                self.lines.insert(format!("{port} {address}"));
            }
            ["ifconfig", ..] => {}
            ["arp", "-S", address, lladdr] | ["ndp", "-s", address, lladdr] => {
                self.lines.insert(format!("neighbour {address} {lladdr}"));
            }
            ["arp" | "ndp", "-d", address] => {
                self.lines
                    .retain(|line| !line.starts_with(&format!("neighbour {address} ")));
            }
            ["route", "-n" | "-qn", verb, rest @ ..] => {
                let rest: Vec<&&str> = rest.iter().take_while(|word| **word != "||").collect();
                let at = rest.iter().position(|word| **word == "-net").unwrap();
                let line = format!("{} {}", rest[at + 1], rest[at + 2]);
                match *verb {
                    "add" => self.lines.insert(line),
                    "delete" => self.lines.remove(&line),
                    other => panic!("route {other}"),
                };
            }
            ["netstat", "-rnW", ..] => {
                let head = "Routing tables\n\nInternet:\nDestination        Gateway            Flags     Netif Expire\n";
                let routes = self.lines.iter().map(|line| format!("{line} UGS igb2\n"));
                return head.to_owned() + &routes.collect::<String>();
            }
            ["netstat", "-I", port, ..] if !self.ports.contains(*port) => {
                return "{\"statistics\":{\"interface\":[]}}\n".into();
            }
            ["netstat", "-I", port, ..] => {
                return format!(
                    "{{\"statistics\":{{\"interface\":[{{\"name\":\"{port}\",\"network\":\"<Link#2>\",\"received-packets\":10,\
                     \"received-errors\":0,\"dropped-packets\":1,\"sent-packets\":20,\"send-errors\":0,\"collisions\":0,\"dropped-packets\":2}}]}}}}\n"
                );
            }
            ["kldstat", "-q", "-m", module, "&&", ..] => {
                return if self.modules.contains(*module) {
                    "yes\n"
                } else {
                    "no\n"
                }
                .into();
            }
            ["kldstat", "-q", "-m", module, "||", rest @ ..] if rest.contains(&"kldload") => {
                self.modules.insert((*module).to_owned());
            }
            ["kldstat", ..] => {}
            ["kldunload", module] => {
                self.modules.remove(*module);
                if *module == "ipfw" {
                    self.ipfw.clear();
                }
            }
            ["ipfw", "-q", "delete", "set", set] => self.ipfw.retain(|(of, _)| of != set),
            ["ipfw", "set", set, "list"] => {
                let rules = self.ipfw.iter().filter(|(of, _)| of == set);
                return rules.map(|(_, rule)| format!("{rule}\n")).collect();
            }
            ["ipfw", "table", "fwdlab", "destroy", ..] => self.table.clear(),
            ["ipfw", "table", "fwdlab", "create", ..] => {}
            ["ipfw", "table", "fwdlab", "info"] => {
                return format!(
                    "--- table(fwdlab), set(0) ---\n kindex: 1, type: addr\n references: 1, valtype: legacy\n algorithm: addr:radix\n \
                     items: {}, size: 296\n",
                    self.table.len()
                );
            }
            ["ipfw", "-q", "/dev/stdin", ..] => {
                for rule in input {
                    match &rule.split_whitespace().collect::<Vec<_>>()[..] {
                        ["add", number, "set", set, rest @ ..] => {
                            let number: u32 = number.parse().unwrap();
                            let rule = format!("{number:05} {}", rest.join(" "));
                            self.ipfw.insert(((*set).to_owned(), rule));
                        }
                        ["table", "fwdlab", "add", address] => {
                            self.table.insert((*address).to_owned());
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            ["pfctl", "-sr"] => return self.pf.iter().map(|rule| format!("{rule}\n")).collect(),
            ["pfctl", "-q", "-f", "-", ..] => {
                let rules = input
                    .iter()
                    .filter(|rule| !rule.starts_with("set ") && !rule.starts_with("table "));
                self.pf = rules.map(|rule| (*rule).to_owned()).collect();
            }
            ["pfctl", "-q", "-t", "fwdlab", "-T", "add", ..] => {
                self.pf_table
                    .extend(input.iter().map(|address| (*address).to_owned()));
            }
            ["pfctl", "-t", "fwdlab", "-T", "show"] => {
                return self
                    .pf_table
                    .iter()
                    .map(|address| format!("   {address}\n"))
                    .collect();
            }
            ["pfctl", "-s", "info", "|", ..] | ["pfctl", "-e", ..] | ["pfctl", "-f", ..] => {
                self.pf_enabled = true
            }
            ["pfctl", "-s", "info", ..] => {
                let state = if self.pf_enabled {
                    "Enabled"
                } else {
                    "Disabled"
                };
                return format!("Status: {state} for 0 days 00:00:05           Debug: Urgent\n");
            }
            ["pfctl", "-q", "-d", ..] | ["pfctl", "-d", ..] => self.pf_enabled = false,
            ["pfctl", "-q", "-F", "all"] | ["pfctl", "-F", "all"] => {
                self.pf.clear();
                self.pf_table.clear();
            }
            ["rm", "-rf", "--", folder] => {
                self.lines.remove(&format!("folder {folder}"));
            }
            ["config", "save"] => self.saved += 1,
            _ => {}
        }
        String::new()
    }

    /// Executes a script line by line; a here-document is the input of the line before it.
    fn script(&mut self, text: &str) -> String {
        let mut output = String::new();
        let lines: Vec<&str> = text.lines().collect();
        let mut at = 0;
        while at < lines.len() {
            let line = lines[at];
            let mut input = Vec::new();
            if line.ends_with("<<'END'") {
                let end = (at..lines.len()).find(|n| lines[*n] == "END").unwrap();
                input.extend(&lines[at + 1..end]);
                at = end;
            }
            output += &self.line(line, &input);
            at += 1;
        }
        output
    }

    fn answer(&mut self, command: &str, input: &str) -> String {
        if let Some(inside) = command.strip_prefix("jexec fwdlab_dut ") {
            let jail = self.jail.as_mut().expect("there is a jail");
            return jail.answer(inside, input);
        }
        let path = |line: &str| line.split_whitespace().nth(1).unwrap().to_owned();
        match command {
            "which boot is this?" => return format!("{{ sec = {}, usec = 0 }}\n", self.boot),
            "reboot" => {
                self.boot += 1;
                // what the system reads when it starts
                self.settings
                    .insert("hw.pci.do_power_nodriver".into(), "3".into());
                self.lines.clear();
                return String::new();
            }
            _ => {}
        }
        if command.starts_with("inspect the files") {
            let of = |line: &str| match line.strip_prefix("look ") {
                Some(path) if self.files.contains_key(path) => Some("file 644 0:0\n"),
                Some(_) => Some("nothing\n"),
                None => line.starts_with("[ -d ").then_some("there\n"),
            };
            return input.lines().filter_map(of).collect();
        }
        if command.starts_with("upload the files") {
            for line in input.lines().filter(|line| line.starts_with("place ")) {
                let words: Vec<&str> = line.split_whitespace().collect();
                let ours = words[1].strip_prefix("/tmp/fwdlab/").unwrap();
                let text = fs::read_to_string(ours).unwrap_or_default();
                self.files.insert(words[2].to_owned(), text);
            }
            return String::new();
        }
        if command.starts_with("restore the files") {
            for line in input.lines() {
                if line.starts_with("rm -f ") {
                    let path = line.split_whitespace().nth(2).unwrap();
                    self.files.remove(path);
                }
                if line.contains("| back ") {
                    let (_, rest) = line.split_once("| back ").unwrap();
                    let path = rest.split_whitespace().next().unwrap().to_owned();
                    self.files.insert(path, "before".into());
                }
                self.line(line, &[]);
            }
            return String::new();
        }
        if command.starts_with("sysrc -n of") || command.starts_with("kenv -q of") {
            let names = input
                .lines()
                .filter_map(|line| line.strip_prefix("echo \"")?.split_once('='));
            let files: Vec<(String, String)> = self
                .files
                .values()
                .flat_map(|text| read::assignments(text))
                .collect();
            let value = |name: &str| {
                let mut all = files.iter().filter(|(of, _)| of == name);
                all.next_back().map_or("", |(_, value)| value)
            };
            return names
                .map(|(name, _)| format!("{name}={}\n", value(name)))
                .collect();
        }
        if let Some(made) = command.strip_prefix("make ") {
            let folder = made.split(',').next().unwrap();
            self.lines.insert(format!("folder {folder}"));
            return String::new();
        }
        if command == "look at the daemons of the configuration" {
            let daemon = self.daemon.iter();
            let lines = daemon.map(|(name, lives)| {
                let state = if *lives { "lives" } else { "ended" };
                format!("{name} 77 {state}\n")
            });
            return lines.collect::<String>() + "looked\n";
        }
        if let Some(read) = command.strip_prefix("read ") {
            return self.files.get(read).cloned().unwrap_or_default();
        }
        if command.starts_with("ifconfig ")
            && !command.contains("alias")
            && command != "ifconfig -l"
        {
            let port = path(command);
            if !self.ports.contains(&port) {
                return format!("ifconfig: interface {port} does not exist\n");
            }
            return format!(
                "{port}: flags=8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> metric 0 mtu 1500\n\toptions=2<RXCSUM,LRO>\n\tstatus: active\n"
            );
        }
        match input.is_empty() || command.starts_with("sysctl -n") || command.starts_with("kldstat")
        {
            true => self.script(match command.starts_with("kldstat") {
                true => input,
                false => command,
            }),
            false => self.script(input),
        }
    }
}

/// Returns a DUT on such a machine, the machine, its host and the record of its changes.
fn freebsd(
    making: FreebsdKind,
    machine: Machine,
    with: impl FnOnce(Scripted) -> Scripted,
) -> (
    FreeBsd,
    Arc<Mutex<Machine>>,
    Arc<Scripted>,
    tempfile::NamedTempFile,
) {
    let machine = Arc::new(Mutex::new(machine));
    let shared = machine.clone();
    let host = Scripted::new(move |command, input| shared.lock().unwrap().answer(command, input));
    let host = Arc::new(with(host.with_files(Files::Machine)));
    let record = tempfile::NamedTempFile::new().unwrap();
    let undo = Arc::new(Undo::new(record.reopen().unwrap()));
    let dut = FreeBsd::new(
        host.clone(),
        making,
        ["igb1", "igb2"],
        Networks::EMBEDDED,
        undo,
    );
    (dut, machine, host, record)
}

fn generated(dut: &FreeBsd, family: &str) -> Result<(), LabError> {
    let one = Configuration::parse(&format!("generate:{family}"))?;
    dut.apply(&one, &Control::default()).map(drop)
}

fn set(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

fn applied(dut: &FreeBsd, set: &Path) -> Result<String, LabError> {
    dut.apply(
        &Configuration::parse(set.to_str().unwrap())?,
        &Control::default(),
    )
}

/// As in netbenches.
const TREE: [(&str, &str); 3] = [
    ("etc/sysctl.conf", "hw.pci.do_power_nodriver=3\n"),
    (
        "etc/rc.conf",
        "gateway_enable=\"YES\"\nifconfig_igb1=\"inet 198.18.0.1/30 -tso4 -lro\"\n",
    ),
    (
        "boot/loader.conf.local",
        "net.fibs=\"16\"\t\t# Numbers of FIB\nhw.igb.rx_process_limit=\"-1\"\n",
    ),
];

type Operation = fn(&FreeBsd) -> Result<(), LabError>;

/// Every operation of a DUT.
const ALL: [(&str, Operation); 17] = [
    ("prepare", |dut| dut.prepare().map(drop)),
    ("route", |dut| {
        let network = ("48.0.0.0".parse().unwrap(), 22);
        dut.route(&[Route {
            network,
            out: End::Output,
        }])
        .map(drop)
    }),
    ("rules", |dut| {
        dut.set(
            &SweptParameter::Rules,
            IpVersion::Ipv4,
            3,
            &Control::default(),
        )
        .map(drop)
    }),
    ("routes", |dut| {
        dut.set(
            &SweptParameter::Routes,
            IpVersion::Ipv4,
            3,
            &Control::default(),
        )
        .map(drop)
    }),
    ("filter", |dut| {
        let permitted = [("198.18.0.0/16".to_owned(), "198.19.0.0/16".to_owned())];
        dut.filter(&permitted, 25, &mut |_| Ok(())).map(drop)
    }),
    ("reset", |dut| {
        let planned = dut.plan_reset(&Reset::Interface)?;
        dut.reset(&planned, Limit::OURS).map(drop)
    }),
    ("ipfw-rules", |dut| generated(dut, "ipfw-rules,n=4")),
    ("ipfw-table", |dut| generated(dut, "ipfw-table,n=5")),
    ("ipfw-stateful", |dut| {
        generated(dut, "ipfw-stateful,state=on")
    }),
    ("pf-rules", |dut| generated(dut, "pf-rules,n=4")),
    ("pf-table", |dut| generated(dut, "pf-table,n=5")),
    ("pf-stateful", |dut| generated(dut, "pf-stateful,state=off")),
    ("jail", |dut| generated(dut, "vnet-jail")),
    ("daemons", |dut| {
        let one = Configuration::parse("bird -P $FWDLAB_DAEMONS/bird.pid")?;
        dut.apply(&one, &Control::default())?;
        dut.daemons_ended().map(drop)
    }),
    ("counters", |dut| dut.counters().map(drop)),
    ("ports", |dut| dut.port_problems().map(drop)),
    ("set", |dut| {
        // do not wait long for a machine that does not come back
        let says = ("set.toml", "reboot = true\nreboot-within = '1s'\n");
        let files = [&TREE[..], &[says]].concat();
        applied(dut, set(&files).path()).map(drop)
    }),
];

#[test]
fn requests_are_applied_verified_and_undone() {
    for (action, ask) in ALL {
        let (dut, machine, host, record) = freebsd(FreebsdKind::Plain, Machine::new(), |host| host);
        let before = machine.lock().unwrap().clone();
        ask(&dut).unwrap_or_else(|error| panic!("{action}: {error}"));
        let is_reading = ["counters", "ports", "reset"].contains(&action);
        assert_eq!(
            *machine.lock().unwrap() == before,
            is_reading && action != "reset",
            "{action}: {:#?}",
            host.commands()
        );
        assert_eq!(dut.undo(), ["x"; 0], "{action}");
        let text = fs::read_to_string(record.path()).unwrap();
        assert_eq!(Left::parse(&text), Left::default(), "{action}");
        let mut after = machine.lock().unwrap().clone();
        match action {
            // a reset restores what the bed has set before; a restart loses it
            "reset" => after.lines.clear(),
            "set" => {
                assert_eq!(after.boot, 2);
                after.boot = 1;
                after
                    .settings
                    .insert("hw.pci.do_power_nodriver".into(), "0".into());
            }
            _ => {}
        }
        assert_eq!(after, before, "{action}: {:#?}", host.commands());
    }
    let (dut, machine, _, _) = freebsd(FreebsdKind::Plain, Machine::new(), |host| host);
    let set = dut.prepare().unwrap();
    assert!(set["note"].contains("not yet been run on the real thing"));
    let lines = machine.lock().unwrap().lines.clone();
    for line in [
        "igb1 198.18.0.1/30",
        "igb2 2001:2:0:8000::1/64",
        "neighbour 198.19.0.2 02:00:02:5a:17:02",
        "198.18.0.0/16 198.18.0.2",
        "2001:2:0:8000::/49 2001:2:0:8000::2",
    ] {
        assert!(lines.contains(line), "{line}: {lines:#?}");
    }
    let counted = dut.counters().unwrap().unwrap();
    assert_eq!(
        (counted.input.rx_packets, counted.input.rx_dropped),
        (10, 1)
    );
    assert_eq!(
        (counted.output.tx_packets, counted.output.tx_dropped),
        (20, 2)
    );
    assert_eq!(dut.port_problems().unwrap(), ["x"; 0]);
    assert_eq!(dut.offloads()["igb1:lro"], "on");
    assert_eq!(dut.offloads()["igb1:tso4"], "off");
}

/// The ports and the test settings of the host move into the jail; counters are read there. At the
/// end, everything is as before.
#[test]
fn ports_in_a_jail_are_queried_there_and_return() {
    let (dut, machine, host, record) = freebsd(FreebsdKind::Plain, Machine::new(), |host| host);
    let before = machine.lock().unwrap().clone();
    dut.prepare().unwrap();
    let far = Route {
        network: ("48.0.0.0".parse().unwrap(), 22),
        out: End::Output,
    };
    dut.route(&[far]).unwrap();
    let on_host = machine.lock().unwrap().lines.clone();
    generated(&dut, "vnet-jail").unwrap();
    let now = machine.lock().unwrap().clone();
    let jail = now.jail.clone().unwrap();
    assert_eq!((now.ports.len(), now.lines.len()), (0, 0));
    assert_eq!(jail.ports, before.ports);
    assert_eq!(jail.lines, on_host);
    assert!(jail.lines.contains("48.0.0.0/22 198.19.0.2"), "{jail:#?}");
    for (setting, value) in [
        ("net.inet.ip.forwarding", "1"),
        ("net.inet6.ip6.forwarding", "1"),
        ("net.inet.ip.redirect", "0"),
    ] {
        assert_eq!(jail.settings[setting], value, "{setting}");
    }
    let counted = dut.counters().unwrap().unwrap();
    assert_eq!(counted.output.tx_packets, 20);
    assert_eq!(dut.port_problems().unwrap(), ["x"; 0]);
    assert_eq!(dut.offloads()["igb1:lro"], "on");
    let read = dut.observed().unwrap();
    assert_eq!(read.system, System::FreeBsd);
    read.host
        .query("sysctl", &["-n", "net.inet.ip.redirect"])
        .unwrap();
    let requested = host.commands();
    assert_eq!(
        requested.last().unwrap(),
        "jexec fwdlab_dut sysctl -n net.inet.ip.redirect"
    );

    // a setting on the host would affect no frame
    let control = Control::default();
    for refused in [
        dut.set(&SweptParameter::Rules, IpVersion::Ipv4, 3, &control)
            .unwrap_err(),
        dut.set(&SweptParameter::Routes, IpVersion::Ipv4, 3, &control)
            .unwrap_err(),
        dut.filter(&[], 25, &mut |_| Ok(())).unwrap_err(),
        dut.plan_reset(&Reset::Interface).unwrap_err(),
    ] {
        let printed = refused.to_string();
        assert!(printed.contains("jexec fwdlab_dut"), "{printed}");
    }
    assert_eq!(host.commands().len(), requested.len());
    let again = generated(&dut, "vnet-jail").unwrap_err().to_string();
    assert!(again.contains("has a jail fwdlab_dut already"), "{again}");

    assert_eq!(dut.undo(), ["x"; 0]);
    assert_eq!(*machine.lock().unwrap(), before);
    let text = fs::read_to_string(record.path()).unwrap();
    assert_eq!(Left::parse(&text), Left::default());
    // and the host is asked again
    dut.counters().unwrap();
    assert!(!host.commands().last().unwrap().contains("jexec"));
}

#[test]
fn a_jail_is_refused_if_it_would_not_be_measured() {
    let parts = ["generate:vnet-jail", "generate:ipfw-rules,n=4"].map(str::to_owned);
    let both = Configuration::named("both", &parts, Path::new("/")).unwrap();
    let (dut, _, host, _) = freebsd(FreebsdKind::Plain, Machine::new(), |host| host);
    let error = dut
        .apply(&both, &Control::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("vnet-jail cannot be combined with ipfw-rules"),
        "{error}"
    );
    assert_eq!(host.commands(), ["x"; 0]);

    let mut old = Machine::new();
    old.settings.remove("kern.features.vimage");
    let (dut, ..) = freebsd(FreebsdKind::Plain, old, |host| host);
    let error = generated(&dut, "vnet-jail").unwrap_err().to_string();
    assert!(error.contains("without VIMAGE"), "{error}");
}

/// For every failure at every command: either an error with place and cause, or no harm; and every
/// change is undone, or reported as left behind.
#[test]
fn every_failure_is_reported_and_undone() {
    let mut tried = 0;
    for (action, ask) in ALL {
        let (dut, _, host, _) = freebsd(FreebsdKind::Plain, Machine::new(), |host| host);
        ask(&dut).unwrap();
        for at in 0..host.commands().len() {
            let is_restart =
                ["reboot", "which boot is this?"].contains(&host.commands()[at].as_str());
            for how in Fails::ALL {
                // each of them waits for a second, and all behave alike
                if is_restart && how != Fails::Lost {
                    continue;
                }
                tried += 1;
                let (dut, _, host, record) = freebsd(FreebsdKind::Plain, Machine::new(), |host| {
                    host.failing(at, how)
                });
                let result = ask(&dut);
                let requested = host.commands();
                let failed = requested[at].lines().next().unwrap().to_owned();
                let case = format!("{action}, command {at}, {failed}, {how:?}");
                match &result {
                    Err(error) => {
                        let output = error.to_string();
                        assert!(output.contains(NAME), "{case}: {output}");
                        // a restart waits for a machine that is lost, and says so
                        let waits = action == "set" && failed.starts_with("reboot");
                        for words in how.words() {
                            assert!(waits || output.contains(words), "{case}: {output}");
                        }
                    }
                    Ok(()) => {
                        // the output of commands that set something is not used; their effect is
                        // read back
                        let sets = [
                            "set ",
                            "put",
                            "restore ",
                            "upload",
                            "reboot",
                            "FWDLAB",
                            "read ",
                            "ifconfig igb2 down",
                            "jexec fwdlab_dut set ",
                            "make /var/run/",
                            "bird ",
                        ];
                        let is_unused = how == Fails::Garbage
                            && sets.iter().any(|begin| failed.starts_with(begin));
                        assert!(is_unused, "{case}: nobody noticed");
                        continue;
                    }
                }
                let text = fs::read_to_string(record.path()).unwrap();
                let changed = text.contains("\"undo\"");
                let problem = dut.undo();
                if how == Fails::Lost {
                    assert_eq!(problem.is_empty(), !changed, "{case}: {problem:?}");
                    assert!(
                        problem.iter().all(|output| output.contains(NAME)),
                        "{case}: {problem:?}"
                    );
                } else {
                    assert_eq!(problem, ["x"; 0], "{case}");
                    let text = fs::read_to_string(record.path()).unwrap();
                    assert_eq!(Left::parse(&text), Left::default(), "{case}");
                }
            }
        }
    }
    assert!(tried > 400, "only {tried} failures");
}

/// Without a `/proc` with start times, a daemon is identified by its number.
#[test]
fn a_daemon_that_dies_is_reported_with_its_last_output() {
    let (dut, machine, host, _record) = freebsd(FreebsdKind::Plain, Machine::new(), |host| host);
    let words = "bird -P $FWDLAB_DAEMONS/bird.pid";
    let configuration = Configuration::parse(words).unwrap();
    let apply = || dut.apply(&configuration, &Control::default());
    apply().unwrap();
    let folder = format!("/var/run/fwdlab-daemons-{NAME}");
    let requested = host.commands();
    let at = |action: &str| {
        requested
            .iter()
            .position(|requested| requested.contains(action))
    };
    let made = at(&format!("make {folder}")).unwrap();
    assert!(made < at(words).unwrap(), "{requested:?}");
    assert_eq!(dut.daemons_ended().unwrap(), []);

    let log = format!("{folder}/bird.log");
    machine.lock().unwrap().daemon = Some(("bird", false));
    machine
        .lock()
        .unwrap()
        .files
        .insert(log, "up\nno memory\n".into());
    let ended = dut.daemons_ended().unwrap();
    let reported = crate::dut::daemons::describe_ended(&ended, "during trial 3");
    assert_eq!(
        reported,
        "bird (process 77) ended during trial 3; its last words: up | no memory"
    );
    assert_eq!(dut.undo(), ["x"; 0]);
    assert!(host.commands().contains(&format!("rm -rf -- {folder}")));

    // a daemon that does not start, or none that does
    let error = apply().unwrap_err();
    assert!(error_text(&error).contains("ended before anything was measured"));
    machine.lock().unwrap().daemon = None;
    let error = apply().unwrap_err();
    assert!(error_text(&error).contains("has created no file there"));
}

/// Returns the text of an error with its cause.
fn error_text(error: &LabError) -> String {
    let cause = std::error::Error::source(error);
    format!(
        "{error}: {}",
        cause.map_or(String::new(), ToString::to_string)
    )
}

/// If the value read back differs from the one set, the error shows both.
#[test]
fn settings_that_are_not_kept_are_reported() {
    let stubborn = Machine {
        stubborn: true,
        ..Machine::new()
    };
    let (dut, ..) = freebsd(FreebsdKind::Plain, stubborn, |host| host);
    let error = dut.prepare().unwrap_err().to_string();
    assert!(
        error.contains("net.inet.ip.forwarding should be 1, and is 0"),
        "{error}"
    );

    // a line of loader.conf that the loader has not read
    let whole = set(&[
        ("boot/loader.conf", "net.fibs=\"16\"\n"),
        ("etc/rc.conf", "pf_enable=YES\n"),
    ]);
    let (dut, ..) = freebsd(FreebsdKind::Plain, Machine::new(), |host| host);
    let error = applied(&dut, whole.path()).unwrap_err().to_string();
    assert!(
        error.contains("pf should be enabled, and `pfctl -s info` says that it is not"),
        "{error}"
    );
    let (dut, ..) = freebsd(FreebsdKind::Plain, Machine::new(), |_| {
        let machine = Mutex::new(Machine::new());
        Scripted::new(move |command, input| match command {
            _ if command.starts_with("kenv -q of") => "net.fibs=1\n".into(),
            _ => machine.lock().unwrap().answer(command, input),
        })
        .with_files(Files::Machine)
    });
    let error = applied(&dut, whole.path()).unwrap_err().to_string();
    assert!(
        error.contains(
            "/boot/loader.conf: net.fibs should be \"16\", and `kenv -q net.fibs` says \"1\""
        ),
        "{error}"
    );
    // rules of others are not discarded
    let others = Machine {
        modules: ["pf".to_owned()].into(),
        pf: vec!["pass all".into()],
        ..Machine::new()
    };
    let (dut, machine, ..) = freebsd(FreebsdKind::Plain, others.clone(), |host| host);
    let error = generated(&dut, "pf-rules,n=4").unwrap_err().to_string();
    assert!(
        error.contains("cannot generate rules of pf while it has others"),
        "{error}"
    );
    assert_eq!(*machine.lock().unwrap(), others);
}

#[test]
fn unsupported_requests_are_refused() {
    let (dut, _, host, _) = freebsd(FreebsdKind::Plain, Machine::new(), |host| host);
    let control = Control::default();
    let agent = Agent {
        community: "public",
        from: [169, 254, 11, 2].into(),
        at: ([169, 254, 11, 1].into(), 161),
        cpus: &[],
    };
    let nft = set(&[("etc/nftables.conf", "")]);
    for (error, words) in [
        (
            dut.set(&SweptParameter::Cores, IpVersion::Ipv4, 2, &control)
                .map(drop),
            "cannot sweep cores",
        ),
        (
            dut.begin_updates(IpVersion::Ipv4, &mut |_| Ok(()))
                .map(drop),
            "cannot update routes",
        ),
        (dut.start_agent(&agent).map(drop), "start bsnmpd there"),
        (
            applied(&dut, nft.path()).map(drop),
            "etc/nftables.conf is for Linux, but this DUT runs FreeBSD",
        ),
        (generated(&dut, "nft-rules,n=1"), "nft-rules is for Linux"),
    ] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(host.commands(), ["x"; 0]);
}

/// A nanobsd is writable only while files are written, saved before it restarts, and saved again
/// when everything is restored.
#[test]
fn a_nanobsd_is_saved_and_restarted() {
    let mut machine = Machine::new();
    machine.files.insert("/etc/rc.conf".into(), "before".into());
    let (dut, machine, host, _) = freebsd(FreebsdKind::Bsdrp, machine, |host| host);
    let output = applied(&dut, set(&TREE).path()).unwrap();
    assert!(output.contains("only after the next restart"), "{output}");
    let requested = host.commands();
    let at = |words: &str| {
        requested
            .iter()
            .position(|command| command.starts_with(words))
            .unwrap()
    };
    assert!(at("upload") < at("config save") && at("config save") < at("reboot"));
    assert!(requested[at("upload")].contains("mount -uw /\ntrap 'mount -ur /' EXIT"));
    assert_eq!(machine.lock().unwrap().saved, 1);
    assert_eq!(dut.undo(), ["x"; 0]);
    let now = machine.lock().unwrap().clone();
    assert_eq!(
        (
            now.saved,
            now.files["/etc/rc.conf"].as_str(),
            now.files.len()
        ),
        (2, "before", 1)
    );
}

/// Every set of the archive is accepted unchanged.
#[test]
fn netbenches_sets_are_applied_unchanged() {
    let test = "netbenches_sets_are_applied_unchanged";
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/netbenches");
    let archive = std::env::var_os("FWDLAB_NETBENCHES").map_or(beside, PathBuf::from);
    let mut sets = Vec::new();
    let mut folders = vec![archive.clone()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
        {
            match entry.join("etc").is_dir() || entry.join("boot").is_dir() {
                true => sets.push(entry),
                false => folders.push(entry),
            }
        }
    }
    if sets.is_empty() {
        return println!(
            "SKIPPED: {test}: the sample of the netbenches archive is not here (FWDLAB_NETBENCHES)"
        );
    }
    for path in &sets {
        let one = Configuration::parse(path.to_str().unwrap()).unwrap();
        one.check_for(System::FreeBsd).unwrap();
        let needs = one.needs();
        assert!(
            needs.contains(&"/etc/rc.conf: restart of the DUT".to_owned()),
            "{needs:#?}"
        );
        assert_eq!(needs.last().unwrap(), "the DUT is restarted");
        let error = one.check_for(System::Linux).unwrap_err().to_string();
        assert!(
            error.contains("boot/loader.conf.local, etc/rc.conf and "),
            "{error}"
        );
        assert!(
            error.contains("for FreeBSD, but this DUT runs Linux"),
            "{error}"
        );
        // and is applied
        let (dut, machine, _, _) = freebsd(FreebsdKind::Bsdrp, Machine::new(), |host| host);
        dut.apply(&one, &Control::default()).unwrap();
        let kept = dut.in_force(&one).unwrap();
        let ours = fs::read_to_string(path.join("boot/loader.conf.local")).unwrap();
        assert_eq!(kept["files/boot/loader.conf.local"], ours);
        assert_eq!(kept["sysctl.txt"], "hw.pci.do_power_nodriver = 3\n");
        assert!(kept["note.txt"].contains("not yet been run"));
        assert_eq!(dut.undo(), ["x"; 0]);
        assert_eq!(machine.lock().unwrap().files.len(), 0);
    }
}
