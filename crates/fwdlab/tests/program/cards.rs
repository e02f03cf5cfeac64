//! Families of configurations for cards on real drivers: a guest with virtio-net (four queues,
//! RSS), e1000e, vmxnet3 and e1000, and a hot queue that a finding must name.
//!
//! Needs root, QEMU and Debian's ordinary kernel, whose cloud version lacks the drivers. Nothing
//! here is judged by time. Start with
//! [`in_guests::families_are_applied_to_cards_and_undone`].

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use fwdlab_lab::control::Control;
use fwdlab_lab::dut::{Configuration, Dut, Linux};
use fwdlab_lab::host::undo::Undo;
use fwdlab_lab::host::{Command, Host, Limit, Ssh};
use fwdlab_lab::networks::Networks;
use fwdlab_lab::vm::computer::{ADDRESS, Card, Computer, Devices, Port, Setup, System, taps};
use fwdlab_lab::vm::image::cache::Cache;
use fwdlab_lab::vm::image::disk::Disk;
use fwdlab_lab::vm::image::{Image, ImageKind};
use fwdlab_lab::vm::login::log_in;
use fwdlab_lab::vm::qemu::Accelerator;

use crate::disk::TestDisk;
use crate::support::{
    CommandResult, Lab, PATIENCE, PROGRAM, count, ended, list, reports_stall, runs_long, skipped,
    tool, try_tool,
};

const KERNEL: &str = "debian:linux-image-amd64";

/// Number of CPUs of the guest, and of queues of its first two cards.
const QUEUES: usize = 4;

/// Prints everything that families change of the port `$1`, one line for each setting.
const STATE: &str = r#"
ethtool -l $1 2>&1 | sed -n '/Current/,$p' | grep Combined | sed 's/^/channels /'
ethtool -g $1 | sed -n '/Current/,$p' | grep -E '^(RX|TX):' | sed 's/^/ring /'
ethtool -c $1 2>&1 | grep -E '^(rx-usecs|Adaptive)' | sed 's/^/coalescing /'
ethtool -x $1 2>&1 | grep -E '^ +[0-9]+:' | sed 's/^/table /'
echo hashed $(ethtool -n $1 rx-flow-hash udp4 2>/dev/null | grep -cE '^(IP|L4)')
ethtool -k $1 | grep -vE 'fixed|Features' | sed 's/^/feature /'
cd /sys/class/net/$1
for file in queues/rx-*/rps_cpus threaded napi_defer_hard_irqs gro_flush_timeout; do echo $file $(cat $file); done
device=device; [ -e device/config ] || device=device/..
for irq in $(ls $device/msi_irqs 2>/dev/null || cat $device/irq); do
    echo irq $(grep "^ *$irq:" /proc/interrupts | sed 's/.* //') $(cat /proc/irq/$irq/smp_affinity_list)
done
for thread in $(grep -l "^napi/$1-" /proc/[0-9]*/comm); do
    number=${thread#/proc/}
    echo $(cat $thread) $(taskset -pc ${number%/comm} | sed 's/.*: //')
done | sort
"#;

/// A guest with its cards, and their ports in a namespace of this host.
pub struct Guest {
    pub lab: Lab,
    pub host: Arc<dyn Host>,
    pub namespace: String,
    /// Its cables there, in the order of its cards.
    pub cables: Vec<String>,
    /// The target, as in a bed file.
    address: String,
    /// The guest's ports by driver.
    ports: BTreeMap<String, Vec<String>>,
    _computer: Computer,
}

impl Guest {
    /// Boots a guest with these cards, of which the first have this number of queues.
    pub fn start(cards: &[Card], queues: usize, memory_mib: u32) -> Option<Guest> {
        let lab = Lab::root()?;
        let refused = |reason: String| {
            skipped(&reason);
            None
        };
        let of_test = match TestDisk::with(KERNEL) {
            Ok(disk) => disk,
            Err(reason) => return refused(reason),
        };
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("cards-{}-{number}", std::process::id());
        tool(&["ip", "netns", "add", &namespace]);
        let names: Vec<String> = (0..cards.len()).map(|n| format!("t{n}")).collect();
        let cable = |(name, card): (&String, &Card)| {
            let queues = if *card == Card::Virtio { queues } else { 1 };
            let mut made = taps(&namespace, &[name.as_str()], queues).unwrap();
            Port {
                card: *card,
                cable: made.remove(0),
            }
        };
        let ports = names.iter().zip(cards).map(cable).collect();
        let setup = Setup {
            name: "cards".into(),
            system: System::Disk(disk(&of_test.disk)),
            cpus: QUEUES as u32,
            memory_mib,
            devices: Devices::Virtio,
            address: ADDRESS,
            ports,
            folder: lab.path().join("guest"),
        };
        let computer = match Computer::start(setup, Accelerator::Emulated, &|| false) {
            Ok(computer) => computer,
            Err(error) => {
                let _ = try_tool(&["ip", "netns", "del", &namespace]);
                return refused(error.to_string());
            }
        };
        let folder = lab.path().join("login");
        let inside = log_in(&computer, Some(&of_test.key), &folder, &|| false).unwrap();
        let address = inside.target.to_string();
        let config = folder.join("ssh.config");
        // the user's own ssh, with the guest's key
        let client = format!(
            "#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n",
            config.display()
        );
        let client = lab.write("bin/ssh", &client);
        tool(&["chmod", "+x", &client]);
        let host: Arc<dyn Host> = Arc::new(Ssh::ephemeral(inside.target));
        let text = "modprobe e1000e; modprobe vmxnet3; sleep 1
            for port in /sys/class/net/eth*; do
                ip link set ${port##*/} up; echo $(basename $(readlink $port/device/driver)) ${port##*/}
            done";
        let listed = said(&host, text);
        let mut ports: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in listed.lines() {
            let (driver, port) = line.split_once(' ').unwrap();
            // the first is for its management
            if port != "eth0" {
                ports.entry(driver.into()).or_default().push(port.into());
            }
        }
        Some(Guest {
            lab,
            host,
            namespace,
            cables: names,
            address,
            ports,
            _computer: computer,
        })
    }

    /// Returns a DUT with these two ports.
    fn dut(&self, ports: [&str; 2]) -> Linux {
        let undo = Arc::new(Undo::new(tempfile::tempfile().unwrap()));
        let host = &self.host;
        let dut = Linux::new(host.clone(), host.clone(), ports, Networks::EMBEDDED, undo);
        dut.on(&[0, 1, 2, 3], None)
    }

    /// Runs the program, which logs in to the guest with its key.
    fn program(&self, words: &str) -> CommandResult {
        let mut command = self.lab.program(words);
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.lab.path().join("bin");
        command.env("PATH", format!("{}:{path}", bin.display()));
        ended(command)
    }

    fn state(&self, port: &str) -> Vec<String> {
        let text = format!("set -- {port}\n{STATE}");
        let lines = said(&self.host, &text);
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        lines.lines().map(words).collect()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = try_tool(&["ip", "netns", "del", &self.namespace]);
    }
}

fn disk(path: &Path) -> Disk {
    let cache = Cache::at(Path::new(crate::support::IMAGES)).unwrap();
    let found = Image::find(path.to_str().unwrap(), &cache, &mut |_| {}).unwrap();
    match found.kind {
        ImageKind::Disk(disk) => disk,
        ImageKind::Kernel(_) => panic!("{} is no disk", path.display()),
    }
}

/// Returns the output of a script in the guest.
pub fn said(host: &Arc<dyn Host>, text: &str) -> String {
    let output = host.run(&Command::shell(text), Limit::OURS).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn apply(dut: &Linux, family: &str) -> Result<(), String> {
    let configuration = Configuration::parse(&format!("generate:{family}")).unwrap();
    let applied = dut.apply(&configuration, &Control::default());
    applied.map(drop).map_err(|error| error.to_string())
}

/// Families that a driver accepts, each with lines of the port's state while it is in force; and
/// those that it refuses, each with words of the error.
type Expected<'a> = (&'a [(&'a str, &'a [&'a str])], &'a [(&'a str, &'a str)]);

/// Families that depend on the kernel only.
const OF_KERNEL: [(&str, &[&str]); 4] = [
    ("packet-steering,n=3", &["queues/rx-0/rps_cpus 7"]),
    ("threaded-napi,state=on", &["threaded 1"]),
    (
        "deferred-interrupts,n=2,usecs=20",
        &["napi_defer_hard_irqs 2", "gro_flush_timeout 20000"],
    ),
    (
        "offload,feature=gro,state=off",
        &["feature generic-receive-offload: off"],
    ),
];

/// What the four drivers of Linux 6.1 accept and refuse under QEMU 7.2.
fn expected(driver: &str) -> Expected<'static> {
    const NOT_SUPPORTED: &str = "Operation not supported. Leave it out";
    const TOO_LONG: (&str, &str) = ("ring,n=60000", "requested ring size exceeds maximum");
    match driver {
        "virtio_net" => (
            &[
                // and the table, which rss changes again
                ("queues,n=2", &["channels Combined: 2"]),
                ("ring,n=128", &["ring RX: 128", "ring TX: 128"]),
                ("rss,n=1", &["table 0: 0 0 0 0 0 0 0 0"]),
                ("flow-hash,fields=sd", &["hashed 2"]),
                // both ways of a queue on one CPU
                (
                    "irq-affinity,cpus=2-3",
                    &[
                        "irq INPUT.0 2",
                        "irq OUTPUT.0 2",
                        "irq INPUT.1 3",
                        "irq OUTPUT.1 3",
                    ],
                ),
            ],
            &[
                ("queues,n=5", "it has at most 4"),
                TOO_LONG,
                ("coalescing,usecs=10", NOT_SUPPORTED),
                (
                    "offload,feature=ntuple,state=on",
                    "does not allow that; it is always off",
                ),
                (
                    "governor,name=performance",
                    "its kernel has no cpufreq/scaling_governor",
                ),
                ("idle-states,state=off", "its kernel has no cpuidle"),
                ("smt,state=off", "control says not"),
            ],
        ),
        "e1000e" => (
            &[
                ("ring,n=128", &["ring RX: 128", "ring TX: 128"]),
                ("coalescing,usecs=10", &["coalescing rx-usecs: 10"]),
                (
                    "offload,feature=rxhash,state=off",
                    &["feature receive-hashing: off"],
                ),
                (
                    "irq-affinity,cpus=2-3",
                    &["irq PORT-rx-0 2", "irq PORT-tx-0 2"],
                ),
            ],
            &[
                ("queues,n=2", NOT_SUPPORTED),
                TOO_LONG,
                ("rss,n=2", NOT_SUPPORTED),
            ],
        ),
        "vmxnet3" => (
            &[
                ("ring,n=128", &["ring RX: 128", "ring TX: 128"]),
                ("rss,n=2", &["table 0: 0 1 0 1 0 1 0 1"]),
                (
                    "offload,feature=lro,state=off",
                    &["feature large-receive-offload: off"],
                ),
                (
                    "offload,feature=tx,state=off",
                    &["feature tx-checksumming: off"],
                ),
                (
                    "irq-affinity,cpus=2-3",
                    &["irq PORT-rxtx-0 2", "irq PORT-rxtx-1 3"],
                ),
            ],
            &[
                ("queues,n=2", NOT_SUPPORTED),
                ("coalescing,usecs=10", NOT_SUPPORTED),
                ("flow-hash,fields=sd", NOT_SUPPORTED),
            ],
        ),
        // with one interrupt, which is not message-signalled
        "e1000" => (
            &[("irq-affinity,cpus=2", &["irq PORT 2"])],
            &[("rss,n=2", NOT_SUPPORTED)],
        ),
        other => panic!("{other}"),
    }
}

/// Guests keep a CPU busy each, which would stall the frames of other tests. Nothing here is judged
/// by time.
mod in_guests {
    use super::*;

    /// One boot: every family on every card, a hot queue, and the prediction of queues.
    #[test]
    fn families_are_applied_to_cards_and_undone() {
        if !runs_long("families on cards") {
            return;
        }
        let cards = [
            Card::Virtio,
            Card::Virtio,
            Card::E1000e,
            Card::Vmxnet3,
            Card::E1000,
        ];
        let Some(guest) = Guest::start(&cards, QUEUES, 512) else {
            return;
        };
        for (driver, ports) in &guest.ports {
            is_applied_and_undone(&guest, driver, ports);
        }
        queues_are_as_predicted(&guest);
        a_hot_queue_is_found(&guest);
    }

    fn is_applied_and_undone(guest: &Guest, driver: &str, ports: &[String]) {
        let port = &ports[0];
        let before = guest.state(port);
        let (accepted, refused) = expected(driver);
        let dut = guest.dut([port, ports.last().unwrap()]);
        for (family, words) in refused {
            let error = apply(&dut, family).unwrap_err();
            assert!(error.contains(words), "{driver} {family}: {error}");
            assert!(
                !error.contains("could not be undone"),
                "{driver} {family}: {error}"
            );
        }
        assert_eq!(dut.undo(), Vec::<String>::new(), "{driver}");
        assert_eq!(
            guest.state(port),
            before,
            "{driver}: what is refused leaves nothing behind"
        );

        let all: Vec<_> = accepted.iter().chain(&OF_KERNEL).collect();
        for (family, _) in &all {
            apply(&dut, family).unwrap_or_else(|error| panic!("{driver} {family}: {error}"));
        }
        apply(&dut, "napi-affinity,cpus=2-3").unwrap();
        let during = guest.state(port);
        for (family, lines) in all {
            for line in *lines {
                let is_it = |own: &String| is_line(line, own, port);
                let text = during.join("\n");
                assert!(
                    during.iter().any(is_it),
                    "{driver} {family}: no `{line}` in\n{text}"
                );
            }
        }
        // the threads of both ways are shared out each for itself
        let threads = |state: &[String], cpu: &str| {
            let own = state.iter().filter(|line| line.starts_with("napi/"));
            own.filter(|line| line.ends_with(cpu)).count()
        };
        let [first, second] = [" 2", " 3"].map(|cpu| threads(&during, cpu));
        assert!(
            first >= 1 && first + second == threads(&during, ""),
            "{driver}: {during:#?}"
        );

        assert_eq!(dut.undo(), Vec::<String>::new(), "{driver}");
        let after = guest.state(port);
        assert_eq!(
            threads(&after, " 0-3"),
            threads(&after, ""),
            "{driver}: {after:#?}"
        );
        // the kernel keeps threads that have nothing to do
        let after: Vec<String> = (after.into_iter())
            .filter(|line| !line.starts_with("napi/"))
            .collect();
        assert_eq!(after, before, "{driver}");
    }

    /// Returns true if a line of the state is this one; the names of interrupts contain the port's,
    /// or that of its virtio device.
    fn is_line(expected: &str, own: &str, port: &str) -> bool {
        let own = match own.strip_prefix("irq virtio") {
            Some(rest) => format!(
                "irq {}",
                rest.split_once('-').map_or(rest, |(_, name)| name)
            ),
            None => own.to_owned(),
        };
        let expected = expected
            .replace("INPUT", "input")
            .replace("OUTPUT", "output");
        own == expected.replace("PORT", port)
    }

    fn rx_queues(guest: &Guest, port: &str) -> Vec<u64> {
        let text = format!("ethtool -S {port} | grep -E 'rx_queue_[0-9]_packets|rx[0-9]_packets'");
        let lines = said(&guest.host, &text);
        let value = |line: &str| line.rsplit_once(": ").unwrap().1.trim().parse().unwrap();
        lines.lines().map(value).collect()
    }

    /// `fwdlab flow` reads the card, and predicts what its queues count.
    fn queues_are_as_predicted(guest: &Guest) {
        let (lab, port) = (&guest.lab, &guest.ports["virtio_net"][0]);
        let flow = guest.program(&format!(
            "flow {port} --on {} --flows 200 --json",
            guest.address
        ));
        let predicted: Vec<u64> = list(&flow.code(0).document()["queues"])
            .iter()
            .map(|queue| count(&queue["frames"]))
            .collect();
        assert_eq!(predicted.len(), QUEUES);
        let mac = said(&guest.host, &format!("cat /sys/class/net/{port}/address"));
        tool(&["ip", "-n", &guest.namespace, "link", "set", "t0", "up"]);
        let before = rx_queues(guest, port);
        let within = ["ip", "netns", "exec", &guest.namespace, PROGRAM];
        let send = format!(
            "send --port t0 --dst-mac {} --for 200frames --load 500pps --engine af-packet --flows 200 --json",
            mac.trim()
        );
        let sent = ended(lab.with(&within, &send)).code(0).document();
        assert_eq!(count(&sent["send"][0]["frames_sent"]), 200);
        let started = Instant::now();
        let received = loop {
            let now = rx_queues(guest, port);
            let new: Vec<u64> = now
                .iter()
                .zip(&before)
                .map(|(now, old)| now - old)
                .collect();
            if new.iter().sum::<u64>() >= 200 || started.elapsed() > PATIENCE {
                break new;
            }
        };
        assert_eq!(received, predicted);
        // a driver that shows no key gives no prediction
        let vmxnet3 = &guest.ports["vmxnet3"][0];
        let flow = guest.program(&format!("flow {vmxnet3} --on {}", guest.address));
        flow.reports(&["its driver shows no key of a hash"]);
    }

    /// One flow goes to one queue, which a finding names; many flows are spread, and nothing is
    /// found.
    fn a_hot_queue_is_found(guest: &Guest) {
        let [a, b] = [0, 1].map(|at| &guest.ports["virtio_net"][at]);
        let bed = format!(
            "bed = 'cards-{}'\n[generator]\nhost = 'netns:{}'\nengine = 'af-packet'\nports = {{ a = 't0', b = 't1' }}\n\
             [dut]\nhost = '{}'\nports = {{ a = '{a}', b = '{b}' }}\n",
            std::process::id(),
            guest.namespace,
            guest.address
        );
        guest.lab.write("beds/cards.toml", &bed);
        let campaign = "campaign = 'c'\nbed = 'cards'\niterations = 1\n[telemetry]\ncollect = ['cpu', 'interrupts', 'ethtool']\n\
             [matrix]\nflows = [1, 256]\n[procedure]\nid = 'trial'\nload = '300pps'\nfor = '4s'\n";
        guest.lab.write("c.toml", campaign);
        let ran = guest.program("run c.toml --json");
        if reports_stall(&ran.out) || reports_stall(&ran.err) {
            return skipped("a hot queue: the host is busy");
        }
        let document = ran.code(0).document();
        for case in list(&document["test_cases"]) {
            let text = case["findings"].to_string();
            let hot = text.matches("hot-queue").count();
            let is_one = case["id"].to_string().contains("1flow");
            assert_eq!(hot, usize::from(is_one), "{}: {text}", case["id"]);
            assert!(
                !is_one || text.contains(&format!("of {a} carries 100.0 %")),
                "{text}"
            );
        }
    }
}
