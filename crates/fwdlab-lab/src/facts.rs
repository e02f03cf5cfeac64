//! Facts of a host, read once at the start of a run and stored with it.
//!
//! It judges nothing (`preflight` does). A fact that cannot be read is left out. Start with
//! [`collect_facts`].

use std::collections::BTreeMap;

use fwdlab_model::dpdk;
use fwdlab_model::facts::{Card, Facts};

use crate::host::{Host, Local, quoted};
use crate::placement::Placement;
use crate::ports::UserPort;

/// Reads the facts of a host. Those about the test bed are added when it exists.
pub fn collect_facts(host: &dyn Host, placement: &Placement, privileged: bool) -> Facts {
    let text = |path: &str| text(host, path);
    let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
    let dut_cpu = placement.dut_cpus.first().copied().unwrap_or(0);
    Facts {
        kernel: text("/proc/sys/kernel/osrelease").unwrap_or_default(),
        kernel_command_line: text("/proc/cmdline"),
        cpu_model: field(&cpuinfo, "model name", ':').unwrap_or_default(),
        cpus: cpuinfo
            .lines()
            .filter(|l| l.starts_with("processor"))
            .count() as u32,
        threads_per_core: text("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
            .and_then(|siblings| threads_per_core(&siblings)),
        cpu_governor: text(&format!(
            "/sys/devices/system/cpu/cpu{dut_cpu}/cpufreq/scaling_governor"
        )),
        virtual_machine: field(&cpuinfo, "flags", ':')
            .is_some_and(|flags| flags.split_whitespace().any(|f| f == "hypervisor")),
        mitigations: mitigations(host),
        memory_bytes: memory_bytes(&text("/proc/meminfo").unwrap_or_default()),
        clock_source: text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        machine: machine(
            ["sys_vendor", "product_name", "bios_version", "bios_date"]
                .map(|name| text(&format!("/sys/class/dmi/id/{name}"))),
        ),
        privileged,
        placement: placement.notes.clone(),
        driver: Some("veth".into()),
        ..Facts::default()
    }
}

/// Prints the facts of a FreeBSD host, a line each. Without the program or the value, it is empty.
const OF_FREEBSD: &str = r#"fact() { echo "$1=$(shift; "$@" 2>/dev/null)"; }
fact kernel uname -r
fact cpu sysctl -n hw.model
fact cpus sysctl -n hw.ncpu
fact memory sysctl -n hw.physmem
fact clock sysctl -n kern.timecounter.hardware
fact guest sysctl -n kern.vm_guest
fact maker kenv -q smbios.system.maker
fact product kenv -q smbios.system.product
fact bios kenv -q smbios.bios.version
fact date kenv -q smbios.bios.reldate"#;

/// Prints what FreeBSD's drivers say of the port `$1`: in the name `igb0`, `igb` is the driver and
/// 0 its unit.
const CARD_OF_FREEBSD: &str = r#"unit=${1##*[!0-9]}; driver=${1%"$unit"}
fact() { echo "$1=$(sysctl -n "dev.$driver.$unit.$2" 2>/dev/null)"; }
echo "driver=$driver"
fact name %desc
fact id %pnpinfo
fact firmware fw_version
fact domain %domain"#;

/// Reads the facts of a FreeBSD host, as far as they are known there.
pub(crate) fn freebsd_facts(host: &dyn Host, placement: &Placement, privileged: bool) -> Facts {
    let printed = host.query("sh", &["-c", OF_FREEBSD]).unwrap_or_default();
    let fact = |name: &str| field(&printed, name, '=');
    let number = |name: &str| fact(name).and_then(|value| value.parse::<u64>().ok());
    Facts {
        system: Some("FreeBSD".into()),
        kernel: fact("kernel").unwrap_or_default(),
        cpu_model: fact("cpu").unwrap_or_default(),
        cpus: number("cpus").map_or(0, |cpus| cpus as u32),
        memory_bytes: number("memory").unwrap_or(0),
        clock_source: fact("clock"),
        virtual_machine: fact("guest").is_some_and(|guest| guest != "none"),
        machine: machine(["maker", "product", "bios", "date"].map(fact)),
        privileged,
        placement: placement.notes.clone(),
        ..Facts::default()
    }
}

/// Reads the cards behind ports of a FreeBSD host, as [`cards`] does on Linux.
pub(crate) fn freebsd_cards(host: &dyn Host, role: &str, ports: &[&str]) -> Vec<Card> {
    let card = |port: &&str| {
        let script = ["-c", CARD_OF_FREEBSD, "sh", port];
        let printed = host.query("sh", &script).unwrap_or_default();
        let fact = |name: &str| field(&printed, name, '=');
        // vendor=0x8086 device=0x1533 subvendor=0x15d9 ...
        let id = fact("id").unwrap_or_default();
        let of_id = |name: &str| {
            let mut words = id.split_whitespace();
            words.find_map(|word| word.strip_prefix(name)?.strip_prefix("=0x"))
        };
        let pci_id = of_id("vendor").zip(of_id("device"));
        Card {
            host: role.to_owned(),
            port: (*port).to_owned(),
            name: fact("name"),
            pci_id: pci_id.map(|(vendor, device)| format!("{vendor}:{device}")),
            driver: fact("driver"),
            driver_version: None,
            firmware: fact("firmware"),
            speed_mbps: None,
            rx_queues: None,
            tx_queues: None,
            numa_node: fact("domain").and_then(|domain| domain.parse().ok()),
        }
    };
    ports.iter().map(card).collect()
}

/// Describes a machine by its maker, its model, and the version and date of its BIOS.
pub(crate) fn machine([maker, model, bios, date]: [Option<String>; 4]) -> Option<String> {
    let names: Vec<String> = [maker, model].into_iter().flatten().collect();
    let bios = bios.map(|version| format!("BIOS {version}"));
    let firmware = match (bios, date) {
        (Some(bios), Some(date)) => Some(format!("{bios} ({date})")),
        (bios, _) => bios,
    };
    let parts = [
        Some(names.join(" ")).filter(|names| !names.is_empty()),
        firmware,
    ];
    let words = Vec::from_iter(parts.into_iter().flatten()).join(", ");
    (!words.is_empty()).then_some(words)
}

/// Describes a host of the tester in a line.
pub(crate) fn in_one_line(facts: &Facts) -> String {
    let Facts {
        kernel,
        cpu_model,
        cpus,
        ..
    } = facts;
    let machine = facts.machine.iter().map(|machine| format!(", {machine}"));
    format!(
        "Linux {kernel}, {cpus} CPUs ({cpu_model}){}",
        machine.collect::<String>()
    )
}

/// Reads the cards behind ports of a Linux host. Virtual devices have no card, only a driver.
/// `role` is the part of the test bed that the host is: its name may be another one in every run.
pub(crate) fn cards(host: &dyn Host, role: &str, ports: &[&str]) -> Vec<Card> {
    ports.iter().map(|port| card(host, role, port)).collect()
}

/// Returns a word of `sh` that is the folder of a port's PCI device. On virtio, it is one level
/// above the port's own device.
pub(crate) fn pci_device(port: &str) -> String {
    let device = quoted(&format!("/sys/class/net/{port}/device")).into_owned();
    format!("\"$(d={device}; [ -e \"$d/config\" ] || d=\"$d/..\"; echo \"$d\")\"")
}

/// Returns the card of a port whose driver is in a process of ours; `None` if that cannot tell, or
/// if it is no card.
pub(crate) fn card_in_user_space(role: &str, port: &UserPort) -> Option<Card> {
    let facts = port.facts().ok().flatten()?;
    let name = &port.spec().interface;
    let device = dpdk::device(name).ok()?.split(',').next()?;
    let described = Local.query("lspci", &["-nn", "-s", device]).ok();
    let (card, pci_id) = described.as_deref().and_then(lspci).unzip();
    Some(Card {
        host: role.to_owned(),
        port: name.clone(),
        name: card,
        pci_id,
        driver: Some(facts.driver),
        driver_version: Some(facts.version),
        firmware: None,
        speed_mbps: facts.link_mbps,
        rx_queues: Some(facts.queues.0.into()),
        tx_queues: Some(facts.queues.1.into()),
        numa_node: facts.numa_node,
    })
}

fn card(host: &dyn Host, role: &str, port: &str) -> Card {
    let folder = format!("/sys/class/net/{port}");
    let number = |file: &str| text(host, &format!("{folder}/{file}"))?.parse().ok();
    let pci = host.query("sh", &["-c", &format!("echo {}", pci_device(port))]);
    let pci = pci.unwrap_or_default();
    let of_pci = |file: &str| text(host, &format!("{}/{file}", pci.trim()));
    let device = of_pci("uevent").unwrap_or_default();
    let of_device = |name: &str| field(&device, name, '=');
    let driver = ethtool(host, port);
    let of_driver = |name: &str| of_driver(&driver, name);
    let queues = host
        .query("ls", &[&format!("{folder}/queues")])
        .unwrap_or_default();
    let count = |way: &str| {
        queues
            .split_whitespace()
            .filter(|name| name.starts_with(way))
            .count() as u32
    };
    let [rx_queues, tx_queues] =
        ["rx-", "tx-"].map(|way| Some(count(way)).filter(|&queues| queues > 0));
    let slot = of_device("PCI_SLOT_NAME").or_else(|| of_driver("bus-info"));
    let described = slot.and_then(|slot| host.query("lspci", &["-nn", "-s", &slot]).ok());
    let (name, listed_id) = described.as_deref().and_then(lspci).unzip();
    Card {
        host: role.to_owned(),
        port: port.to_owned(),
        name,
        pci_id: of_device("PCI_ID")
            .map(|id| id.to_lowercase())
            .or(listed_id),
        driver: of_driver("driver"),
        driver_version: of_driver("version"),
        firmware: of_driver("firmware-version"),
        speed_mbps: number("speed"),
        rx_queues,
        tx_queues,
        // -1 on a machine with one node
        numa_node: of_pci("numa_node").and_then(|node| node.parse().ok()),
    }
}

/// Returns the driver of a port, and its place on a bus if it has one; `None` if they cannot be
/// read.
pub(crate) fn driver_of(host: &dyn Host, port: &str) -> Option<(String, Option<String>)> {
    let text = ethtool(host, port);
    Some((of_driver(&text, "driver")?, of_driver(&text, "bus-info")))
}

fn ethtool(host: &dyn Host, port: &str) -> String {
    host.query("ethtool", &["-i", port]).unwrap_or_default()
}

fn of_driver(text: &str, name: &str) -> Option<String> {
    field(text, name, ':').filter(|value| value != "N/A")
}

/// Returns the value of a line `name: value` or `NAME=value`, if it is not empty.
fn field(text: &str, name: &str, separator: char) -> Option<String> {
    let mut fields = text.lines().filter_map(|line| line.split_once(separator));
    let (_, value) = fields.find(|(key, _)| key.trim() == name)?;
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// Parses a line of `lspci -nn`: the name of the card, and its vendor and device.
/// `01:00.0 Ethernet controller [0200]: Intel Corporation X710 [8086:1572] (rev 02)`
fn lspci(line: &str) -> Option<(String, String)> {
    let (_, described) = line.trim().split_once("]: ")?;
    let (name, rest) = described.rsplit_once(" [")?;
    let (id, _) = rest.split_once(']')?;
    Some((name.to_owned(), id.to_owned()))
}

fn text(host: &dyn Host, path: &str) -> Option<String> {
    let bytes = host.read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn memory_bytes(meminfo: &str) -> u64 {
    meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

/// Returns the number of threads in the first CPU's list of siblings: two in `0-1` or `0,4`.
fn threads_per_core(siblings: &str) -> Option<u32> {
    let mut threads = 0;
    for part in siblings.split(',') {
        threads += match part.split_once('-') {
            None => 1,
            Some((from, to)) => to.parse::<u32>().ok()? + 1 - from.parse::<u32>().ok()?,
        };
    }
    Some(threads)
}

fn mitigations(host: &dyn Host) -> BTreeMap<String, String> {
    let folder = "/sys/devices/system/cpu/vulnerabilities/";
    let all = host.query("grep", &["-r", "", folder]).unwrap_or_default();
    let lines = all.lines().filter_map(|line| line.split_once(':'));
    lines
        .filter_map(|(file, state)| Some((file.strip_prefix(folder)?.into(), state.trim().into())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scripted::{Fails, Scripted};

    #[test]
    fn facts_are_those_of_the_host_and_absent_if_unknown() {
        let router = || {
            Scripted::new(|command, _| match command {
                "read /proc/cpuinfo" => {
                    "processor\t: 0\nprocessor\t: 1\nmodel name\t: ARM\n".into()
                }
                "read /proc/sys/kernel/osrelease" => "6.12.1\n".into(),
                "read /sys/devices/system/cpu/cpu0/topology/thread_siblings_list" => "0-1\n".into(),
                _ if command.starts_with("grep -r") => {
                    "/sys/devices/system/cpu/vulnerabilities/mds:Not affected\n".into()
                }
                _ => String::new(),
            })
        };
        let facts = collect_facts(&router(), &Placement::default(), true);
        assert_eq!((&*facts.kernel, facts.cpus), ("6.12.1", 2));
        assert_eq!(
            (&*facts.cpu_model, facts.threads_per_core),
            ("ARM", Some(2))
        );
        assert_eq!(facts.mitigations["mds"], "Not affected");
        assert_eq!(facts.clock_source, None);
        let lost = collect_facts(
            &router().failing(0, Fails::Lost),
            &Placement::default(),
            true,
        );
        assert_eq!(
            (&*lost.kernel, lost.cpus, lost.threads_per_core),
            ("", 0, None)
        );
        assert!(lost.mitigations.is_empty());
    }

    /// Prints what FreeBSD 14 does, with programs of our own in front of those of this machine.
    #[test]
    fn facts_of_freebsd_are_read_by_its_own_programs() {
        let folder = tempfile::tempdir().unwrap();
        let program = |name: &str, cases: &str| {
            let path = folder.path().join(name);
            let text = format!("#!/bin/sh\ncase \"$*\" in\n{cases}\n*) exit 1;;\nesac\n");
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
                .unwrap();
        };
        program("uname", "-r) echo 14.1-RELEASE-p5;;");
        program(
            "sysctl",
            "'-n hw.model') echo 'Intel(R) Xeon(R) CPU E5-2650 v4';;\n'-n hw.ncpu') echo 8;;\n\
             '-n hw.physmem') echo 17092022272;;\n'-n kern.timecounter.hardware') echo TSC-low;;\n\
             '-n kern.vm_guest') echo none;;\n'-n dev.igb.0.%desc') echo 'Intel(R) I210 (Copper)';;\n\
             '-n dev.igb.0.%pnpinfo') echo 'vendor=0x8086 device=0x1533 subvendor=0x15d9 class=0x020000';;\n\
             '-n dev.igb.0.%domain') echo 1;;",
        );
        program(
            "kenv",
            "'-q smbios.system.maker') echo Supermicro;;\n'-q smbios.bios.version') echo 3.1;;",
        );
        let path = format!("export PATH={}:$PATH", folder.path().display());
        let host = Scripted::new(move |command, _| {
            let line = format!("{path}; {command}");
            Local.query("sh", &["-c", &line]).unwrap()
        });
        let facts = freebsd_facts(&host, &Placement::default(), true);
        assert_eq!(facts.release(), "FreeBSD 14.1-RELEASE-p5");
        assert_eq!(
            (facts.cpus, facts.memory_bytes, facts.virtual_machine),
            (8, 17_092_022_272, false)
        );
        assert_eq!(facts.machine.as_deref(), Some("Supermicro, BIOS 3.1"));
        assert_eq!(facts.clock_source.as_deref(), Some("TSC-low"));
        let card = freebsd_cards(&host, "DUT", &["igb0"]).remove(0);
        assert_eq!(card.name.as_deref(), Some("Intel(R) I210 (Copper)"));
        assert_eq!(card.pci_id.as_deref(), Some("8086:1533"));
        assert_eq!(
            (card.driver.as_deref(), card.firmware, card.numa_node),
            (Some("igb"), None, Some(1))
        );
        // a host that does not answer has no facts
        let lost = freebsd_facts(
            &Scripted::new(|_, _| String::new()).failing(0, Fails::Lost),
            &Placement::default(),
            true,
        );
        assert!(!lost.is_known());
    }

    #[test]
    fn the_pci_device_of_virtio_is_above_its_own() {
        let net = tempfile::tempdir().unwrap();
        let net = net.path().canonicalize().unwrap();
        for (port, device, pci) in [
            ("eth0", "bridge/nic", "bridge/nic"),
            ("eth1", "bridge/virtio-pci/virtio3", "bridge/virtio-pci"),
        ] {
            std::fs::create_dir_all(net.join(device)).unwrap();
            std::fs::create_dir(net.join(port)).unwrap();
            std::os::unix::fs::symlink(net.join(device), net.join(port).join("device")).unwrap();
            for pci in ["bridge", pci] {
                std::fs::write(net.join(pci).join("config"), "").unwrap();
            }
            let script = format!("cd -P {} && pwd", pci_device(port));
            let script = script.replace("/sys/class/net", net.to_str().unwrap());
            let output = std::process::Command::new("sh")
                .args(["-c", &script])
                .output();
            let folder = String::from_utf8(output.unwrap().stdout).unwrap();
            assert_eq!(folder.trim(), net.join(pci).to_str().unwrap(), "{port}");
        }
    }

    /// A card of Intel's, one on virtio, whose driver knows little, and a port without a card.
    #[test]
    fn cards_are_described_as_far_as_they_are_known() {
        let pci = |port| format!("sh -c {}", quoted(&format!("echo {}", pci_device(port))));
        let router = Scripted::new(move |command, _| {
            match command {
            "read /sys/class/net/eth1/device/uevent" => {
                "DRIVER=i40e\nPCI_ID=8086:1572\nPCI_SLOT_NAME=0000:01:00.0\n".into()
            }
            _ if command == pci("eth1") => "/sys/class/net/eth1/device\n".into(),
            _ if command == pci("eth2") => "/sys/class/net/eth2/device/..\n".into(),
            "read /sys/class/net/eth2/device/uevent" => "DRIVER=virtio_net\n".into(),
            "read /sys/class/net/eth2/device/../uevent" => "PCI_ID=1AF4:1000\n".into(),
            "read /sys/class/net/eth1/device/numa_node" => "1\n".into(),
            "read /sys/class/net/eth2/device/../numa_node" => "0\n".into(),
            "read /sys/class/net/eth1/speed" => "10000\n".into(),
            "read /sys/class/net/eth2/speed" => "-1\n".into(),
            "ls /sys/class/net/eth1/queues" => "rx-0\nrx-1\ntx-0\ntx-1\ntx-2\n".into(),
            "ethtool -i eth1" => "driver: i40e\nversion: 6.1.0\nfirmware-version: 8.30 0x8000 1.2\nbus-info: 0000:01:00.0\n".into(),
            "ethtool -i eth2" => "driver: virtio_net\nversion: 1.0.0\nfirmware-version: \nbus-info: 0000:00:03.0\n".into(),
            "ethtool -i tap0" => "driver: tun\nversion: 1.6\nfirmware-version: N/A\nbus-info: tap\n".into(),
            "lspci -nn -s 0000:01:00.0" => "01:00.0 Ethernet controller [0200]: Intel Corporation Ethernet Controller X710 for 10GbE SFP+ [8086:1572] (rev 02)\n".into(),
            "lspci -nn -s 0000:00:03.0" => "00:03.0 Ethernet controller [0200]: Red Hat, Inc. Virtio network device [1af4:1000]\n".into(),
            _ => String::new(),
        }
        });
        let own = |text: &str| Some(text.to_owned());
        let host = "DUT".to_owned();
        let [intel, virtio, tap] =
            <[Card; 3]>::try_from(cards(&router, "DUT", &["eth1", "eth2", "tap0"])).unwrap();
        assert_eq!(
            intel,
            Card {
                host: host.clone(),
                port: "eth1".into(),
                name: own("Intel Corporation Ethernet Controller X710 for 10GbE SFP+"),
                pci_id: own("8086:1572"),
                driver: own("i40e"),
                driver_version: own("6.1.0"),
                firmware: own("8.30 0x8000 1.2"),
                speed_mbps: Some(10_000),
                rx_queues: Some(2),
                tx_queues: Some(3),
                numa_node: Some(1),
            }
        );
        assert_eq!(
            virtio,
            Card {
                host: host.clone(),
                port: "eth2".into(),
                name: own("Red Hat, Inc. Virtio network device"),
                pci_id: own("1af4:1000"),
                driver: own("virtio_net"),
                driver_version: own("1.0.0"),
                numa_node: Some(0),
                ..Card::default()
            }
        );
        assert_eq!(
            tap,
            Card {
                host,
                port: "tap0".into(),
                driver: own("tun"),
                driver_version: own("1.6"),
                ..Card::default()
            }
        );
        let known = |known: [&str; 4]| {
            machine(known.map(|text| (!text.is_empty()).then(|| text.to_owned())))
        };
        assert_eq!(
            known(["Dell Inc.", "R640", "2.10", "02/24/2021"]).unwrap(),
            "Dell Inc. R640, BIOS 2.10 (02/24/2021)"
        );
        assert_eq!(known(["", "R640", "", "02/24/2021"]).unwrap(), "R640");
        assert_eq!(known(["", "", "1.0", ""]).unwrap(), "BIOS 1.0");
        assert_eq!(known([""; 4]), None);
    }

    #[test]
    fn fields_are_found() {
        let cpuinfo =
            "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu hypervisor\n\nprocessor\t: 1\n";
        assert_eq!(field(cpuinfo, "model name", ':').unwrap(), "AMD EPYC");
        assert_eq!(field(cpuinfo, "bogomips", ':'), None);
        assert_eq!(
            memory_bytes("MemTotal:       24576 kB\nMemFree: 1 kB\n"),
            24576 * 1024
        );
        assert_eq!(memory_bytes(""), 0);
    }
}
