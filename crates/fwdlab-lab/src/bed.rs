//! The embedded test bed: a generator's namespace and one or more DUT namespaces, joined by veth pairs.
//!
//! ```text
//!   fwdlab-<id>-gen                 fwdlab-<id>-dut0
//!     tx0 ======================== eth0   198.18.0.1/30, 198.18.0.0/16 via 198.18.0.2
//!     rx0 ======================== eth1   198.19.0.1/30, 198.19.0.0/16 via 198.19.0.2
//! ```
//!
//! The kernel of the DUT namespace forwards; the generator's side has no addresses, and neighbours are static. All DUTs of
//! a bed look the same from the generator: same MAC addresses, same networks. Nothing outside the namespaces changes, and
//! dropping a [`Bed`] removes all of it. The way is that of RFC 2544's phantom routers: one next hop on each side.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fwdlab_engine::{PathSpec, PortSpec};

use crate::error::LabError;
use crate::host::{Command, Failure, Host, HostError, Limit, Local, Netns};
use crate::placement::Placement;
use crate::registry::{Registration, Registry};

/// MAC addresses of a bed: locally administered, the same on every path so that one template serves them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Macs {
    /// The generator's sending port.
    pub tx: [u8; 6],
    /// The generator's receiving port.
    pub rx: [u8; 6],
    /// The DUT's input.
    pub dut_in: [u8; 6],
    /// The DUT's output.
    pub dut_out: [u8; 6],
}

/// The MAC addresses of every embedded bed (RFC 4814 §4.2: local, unicast).
pub const MACS: Macs = Macs {
    tx: [0x02, 0, 1, 0x5a, 0x17, 0x01],
    rx: [0x02, 0, 2, 0x5a, 0x17, 0x02],
    dut_in: [0x02, 0, 1, 0xd0, 0x17, 0x01],
    dut_out: [0x02, 0, 2, 0xd0, 0x17, 0x02],
};

/// The ends of the management port of a DUT: link-local (RFC 3927), so that they are in no network of any test.
pub(crate) struct ManagementEnds {
    /// The generator's address.
    pub generator: Ipv4Addr,
    /// The DUT's address.
    pub dut: Ipv4Addr,
}

/// Addresses of the management port.
pub(crate) const MANAGEMENT: ManagementEnds = ManagementEnds {
    generator: Ipv4Addr::new(169, 254, 11, 2),
    dut: Ipv4Addr::new(169, 254, 11, 1),
};

/// What is set in a DUT's namespace, and why. The rest keeps the kernel's defaults.
const DUT_SYSCTLS: &[(&str, &str)] = &[
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv6/conf/all/forwarding", "1"),
    // Test traffic is one-way: reverse-path filters would judge a route that nothing uses.
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    // No frames of the DUT's own.
    ("net/ipv4/conf/all/send_redirects", "0"),
    ("net/ipv4/conf/default/send_redirects", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/default/dad_transmits", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv6/conf/default/router_solicitations", "0"),
    (
        "net/ipv6/conf/default/mldv2_unsolicited_report_interval",
        "0",
    ),
    ("net/ipv6/conf/default/addr_gen_mode", "1"),
];

/// The generator's namespace only carries ports: no protocol shall speak there.
const GENERATOR_SYSCTLS: &[(&str, &str)] = &[
    ("net/ipv6/conf/all/disable_ipv6", "1"),
    ("net/ipv6/conf/default/disable_ipv6", "1"),
];

/// Recorded, because they change what a router does, and not touched.
const RECORDED_SYSCTLS: &[&str] = &[
    "net/ipv4/ip_early_demux",
    "net/ipv4/ip_forward_use_pmtu",
    "net/ipv4/fib_multipath_hash_policy",
];

/// Offloads that are recorded for the DUT's ports.
const RECORDED_OFFLOADS: &[&str] = &[
    "generic-receive-offload",
    "generic-segmentation-offload",
    "tcp-segmentation-offload",
    "tx-checksumming",
    "rx-checksumming",
    "rx-gro-list",
    "rx-udp-gro-forwarding",
];

/// A standing test bed.
#[derive(Debug)]
pub struct Bed {
    generator: Netns,
    /// The DUTs, for our own commands.
    hosts: Vec<Arc<Netns>>,
    /// Where configurations of each DUT run; they end before the bed goes.
    places: Vec<Netns>,
    registration: Registration,
    duts: usize,
    /// Frames go back through the DUT, too.
    both_ways: bool,
    notes: BTreeMap<String, String>,
    sysctls: BTreeMap<String, String>,
    /// Kernel thread of each DUT's input port, where it was found.
    threads: Vec<Option<u32>>,
}

/// Interface counters of one path, as the kernel has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Generator's sending port: packets, dropped.
    pub tx: (u64, u64),
    /// DUT's input: packets, dropped (receive side).
    pub dut_in: (u64, u64),
    /// DUT's output: packets, dropped (transmit side).
    pub dut_out: (u64, u64),
    /// Generator's receiving port: packets, dropped (receive side).
    pub rx: (u64, u64),
}

impl Bed {
    /// Builds a bed with this many DUTs.
    ///
    /// Labs whose process died are removed first. On failure nothing stays behind.
    ///
    /// # Errors
    /// No permission, no veth, or a program that is missing.
    pub fn up(duts: usize, placement: &Placement, keep: bool) -> Result<Bed, LabError> {
        Bed::with(duts, false, placement, keep)
    }

    /// Builds a bed with one DUT through which frames go both ways: the second path is that from its output to its input.
    ///
    /// # Errors
    /// As [`Bed::up`].
    pub fn up_both_ways(placement: &Placement) -> Result<Bed, LabError> {
        Bed::with(1, true, placement, false)
    }

    fn with(
        duts: usize,
        both_ways: bool,
        placement: &Placement,
        keep: bool,
    ) -> Result<Bed, LabError> {
        let registry = Registry::open()?;
        registry.sweep(false)?;
        let _one_at_a_time = registry.build_lock()?;
        let registration = registry.register(duts, keep)?;
        let record = registration.record();
        let names = &record.namespaces;
        let mut bed = Bed {
            generator: Netns::bare(&names[0]),
            hosts: (names[1..].iter())
                .map(|dut| Arc::new(Netns::bare(dut)))
                .collect(),
            places: places(names, &record.id, false),
            registration,
            duts,
            both_ways,
            notes: BTreeMap::new(),
            sysctls: BTreeMap::new(),
            threads: Vec::new(),
        };
        bed.make_links()?;
        bed.set_sysctls()?;
        for dut in 0..duts {
            let before = threads_by_name();
            bed.configure_dut(dut, placement)?;
            bed.threads.extend(bed.input_threads(dut, &before));
        }
        bed.configure_generator()?;
        bed.pin_threads(placement);
        Ok(bed)
    }

    /// Configurations of its DUTs run as processes of the host, on the host's files.
    pub fn unconfined(self, is_unconfined: bool) -> Bed {
        let record = self.registration.record();
        Bed {
            places: places(&record.namespaces, &record.id, is_unconfined),
            ..self
        }
    }

    /// A DUT, for our own commands.
    pub(crate) fn host(&self, dut: usize) -> &Arc<Netns> {
        &self.hosts[dut]
    }

    /// Where configurations of a DUT run.
    pub(crate) fn place(&self, dut: usize) -> &dyn Host {
        &self.places[dut]
    }

    /// Four letters that name the lab.
    pub fn id(&self) -> &str {
        &self.registration.record().id
    }

    /// How many DUTs stand side by side.
    pub fn duts(&self) -> usize {
        self.duts
    }

    /// Name of the generator's namespace.
    pub fn generator(&self) -> &str {
        &self.registration.record().namespaces[0]
    }

    /// Name of a DUT's namespace.
    pub fn dut(&self, dut: usize) -> &str {
        &self.registration.record().namespaces[1 + dut]
    }

    /// The way through each DUT.
    pub fn paths(&self) -> Vec<PathSpec> {
        let port = |interface: String| PortSpec {
            netns: netns(self.generator()),
            interface,
        };
        let mut paths: Vec<PathSpec> = (0..self.duts)
            .map(|k| PathSpec {
                tx: port(format!("tx{k}")),
                rx: port(format!("rx{k}")),
            })
            .collect();
        if self.both_ways {
            paths.push(PathSpec {
                tx: paths[0].rx.clone(),
                rx: paths[0].tx.clone(),
            });
        }
        paths
    }

    /// How many paths there are: one through each DUT, or two through one.
    pub fn ways(&self) -> usize {
        self.duts + usize::from(self.both_ways)
    }

    /// The DUT's input port.
    pub fn dut_input(&self, dut: usize) -> PortSpec {
        PortSpec {
            netns: netns(self.dut(dut)),
            interface: "eth0".into(),
        }
    }

    /// What runs where, and what could not be arranged.
    pub fn notes(&self) -> &BTreeMap<String, String> {
        &self.notes
    }

    /// Sysctls of the first DUT and the generator: `dut:net/...`, value.
    pub fn sysctls(&self) -> &BTreeMap<String, String> {
        &self.sysctls
    }

    /// Offloads of the first DUT's ports: `eth0:feature`, `on` or `off`.
    pub fn offloads(&self) -> BTreeMap<String, String> {
        let mut offloads = BTreeMap::new();
        for port in ["eth0", "eth1"] {
            let Ok(text) = self.hosts[0].ask("ethtool", &["-k", port]) else {
                continue;
            };
            for line in text.lines() {
                if let Some((name, state)) = line.split_once(": ")
                    && RECORDED_OFFLOADS.contains(&name.trim())
                {
                    let state = state.split_whitespace().next().unwrap_or_default();
                    offloads.insert(format!("{port}:{}", name.trim()), state.to_owned());
                }
            }
        }
        offloads
    }

    /// Runs one `ip` batch in a DUT's namespace.
    ///
    /// # Errors
    /// As [`Host::run`].
    pub(crate) fn ip_batch(&self, dut: usize, batch: &str) -> Result<(), LabError> {
        Ok(self.hosts[dut].feed("ip", &["-batch", "-"], batch)?)
    }

    /// Gives the first DUT a port that is not of the test, `mgmt`, joined to the generator's namespace.
    ///
    /// # Errors
    /// As [`Host::run`].
    pub(crate) fn add_management(&self) -> Result<(), LabError> {
        let (generator, dut) = (self.generator(), self.dut(0));
        let [ours, theirs] = [
            [0x02, 0, 3, 0x5a, 0x17, 0x03],
            [0x02, 0, 3, 0xd0, 0x17, 0x03],
        ]
        .map(mac);
        let link = format!(
            "link add mgmt address {ours} netns {generator} type veth peer name mgmt address {theirs} netns {dut}\n"
        );
        Local.feed("ip", &["-batch", "-"], &link)?;
        let ManagementEnds {
            generator: from,
            dut: to,
        } = MANAGEMENT;
        for (host, own, other, lladdr) in [
            (&self.generator, from, to, theirs),
            (&self.hosts[0], to, from, ours),
        ] {
            let batch = format!(
                "link set mgmt up\naddr add {own}/30 dev mgmt\nneigh add {other} lladdr {lladdr} nud permanent dev mgmt\n"
            );
            host.feed("ip", &["-batch", "-"], &batch)?;
        }
        Ok(())
    }

    /// How long the DUT's thread has waited for its CPU so far; zero where the kernel does not tell.
    pub fn waited(&self, dut: usize) -> Duration {
        // run time, run delay, timeslices (Documentation/scheduler/sched-stats.rst)
        let delay = self.threads[dut]
            .and_then(|thread| fs::read_to_string(format!("/proc/{thread}/schedstat")).ok())
            .and_then(|text| text.split_whitespace().nth(1)?.parse().ok());
        Duration::from_nanos(delay.unwrap_or(0))
    }

    /// Reads the interface counters of one path.
    ///
    /// # Errors
    /// A namespace or an interface is gone.
    pub fn counters(&self, path: usize) -> Result<PortCounters, LabError> {
        let back = self.both_ways && path == 1;
        let dut = if back { 0 } else { path };
        let generator = interface_counters(&self.generator)?;
        let device = interface_counters(self.hosts[dut].as_ref())?;
        let get = |table: &BTreeMap<String, Interface>, name: &str, namespace: &str| {
            table.get(name).copied().ok_or_else(|| {
                LabError::system(
                    format!("read the counters of {name} in {namespace}"),
                    std::io::Error::from(std::io::ErrorKind::NotFound),
                )
            })
        };
        let mut tx = get(&generator, &format!("tx{dut}"), self.generator())?;
        let mut rx = get(&generator, &format!("rx{dut}"), self.generator())?;
        let mut input = get(&device, "eth0", self.dut(dut))?;
        let mut output = get(&device, "eth1", self.dut(dut))?;
        if back {
            std::mem::swap(&mut tx, &mut rx);
            std::mem::swap(&mut input, &mut output);
        }
        Ok(PortCounters {
            tx: (tx.tx_packets, tx.tx_dropped),
            dut_in: (input.rx_packets, input.rx_dropped),
            dut_out: (output.tx_packets, output.tx_dropped),
            rx: (rx.rx_packets, rx.rx_dropped),
        })
    }

    /// Ports that are not up, or not there: `rx0 in fwdlab-x-gen is gone`.
    ///
    /// # Errors
    /// A namespace is gone.
    pub fn ports_amiss(&self) -> Result<Vec<String>, LabError> {
        let mut amiss = Vec::new();
        let of_generator = || {
            let of = |k| [format!("tx{k}"), format!("rx{k}")];
            (0..self.duts).flat_map(of).collect()
        };
        let of_dut = |host| (host, vec!["eth0".to_owned(), "eth1".to_owned()]);
        let duts = self.hosts.iter().map(|host| of_dut(host.as_ref()));
        for (host, ports) in std::iter::once((&self.generator, of_generator())).chain(duts) {
            let namespace = host.name();
            let text = host.ask("ip", &["-o", "link", "show"])?;
            for port in ports {
                // `2: tx0@if3: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu ...`
                let line = text.lines().find(|line| {
                    let name = line.split(": ").nth(1).unwrap_or_default();
                    name.split('@').next() == Some(&port)
                });
                match line {
                    None => amiss.push(format!("{port} in {namespace} is gone")),
                    Some(line) if !line.contains("LOWER_UP") => {
                        amiss.push(format!("{port} in {namespace} is down"));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(amiss)
    }

    /// Spreads the flows that a DUT receives over these CPUs: packet steering, which one CPU does without.
    ///
    /// # Errors
    /// The kernel refuses, or has another mask afterwards.
    pub fn steer(&self, dut: usize, cpus: &[usize]) -> Result<(), LabError> {
        let mask = match cpus {
            [] | [_] => "0".to_owned(),
            cpus => Placement {
                dut_cpus: cpus.to_vec(),
                ..Placement::default()
            }
            .rps_mask(),
        };
        let file = "/sys/class/net/eth0/queues/rx-0/rps_cpus";
        // leading zeros and groups are the kernel's own
        let script = format!("echo {mask} > {file} && cat {file}");
        let said = self.hosts[dut].ask("sh", &["-c", &script])?;
        let digits = |text: &str| {
            text.trim()
                .replace(',', "")
                .trim_start_matches('0')
                .to_owned()
        };
        match digits(&said) == digits(&mask) {
            true => Ok(()),
            false => Err(LabError::Preflight(format!(
                "{file} of the DUT says {}, not {mask}",
                said.trim()
            ))),
        }
    }

    /// Lets the bed stand when the process ends; `fwdlab bed down` removes it.
    pub fn leave_standing(self) {
        self.registration.leave_standing();
    }

    fn make_links(&self) -> Result<(), LabError> {
        let record = self.registration.record();
        let mut batch = String::new();
        for namespace in &record.namespaces {
            batch += &format!("netns add {namespace}\n");
        }
        Local.feed("ip", &["-batch", "-"], &batch)?;
        let mut batch = String::new();
        let generator = self.generator();
        for k in 0..self.duts {
            let dut = self.dut(k);
            for (ours, our_mac, theirs, their_mac) in [
                (format!("tx{k}"), MACS.tx, "eth0", MACS.dut_in),
                (format!("rx{k}"), MACS.rx, "eth1", MACS.dut_out),
            ] {
                batch += &format!(
                    "link add {ours} address {} netns {generator} type veth peer name {theirs} address {} netns {dut}\n",
                    mac(our_mac),
                    mac(their_mac)
                );
            }
        }
        let made = Local.feed("ip", &["-batch", "-"], &batch);
        made.map_err(|error| match error.failure {
            Failure::Exit { said, .. } if said.contains("Unknown device type") => {
                LabError::Preflight(
                    "the kernel has no veth. Load it with: modprobe veth (or boot a kernel with CONFIG_VETH)".into(),
                )
            }
            _ => error.into(),
        })
    }

    fn set_sysctls(&mut self) -> Result<(), LabError> {
        let mut all = BTreeMap::new();
        let generator = self.generator().to_owned();
        within(&generator, || {
            for (name, value) in GENERATOR_SYSCTLS {
                // a kernel without IPv6 has nothing to switch off
                if write_sysctl(name, value).is_ok() {
                    all.insert(format!("generator:{name}"), (*value).to_owned());
                }
            }
            Ok(())
        })?;
        for dut in 0..self.duts {
            let namespace = self.dut(dut).to_owned();
            within(&namespace, || {
                for (name, value) in DUT_SYSCTLS {
                    match write_sysctl(name, value) {
                        Ok(()) if dut == 0 => {
                            all.insert(format!("dut:{name}"), (*value).to_owned());
                        }
                        Ok(()) => {}
                        Err(e) if name.contains("ipv6") => {
                            all.insert(format!("dut:{name}"), format!("not set: {e}"));
                        }
                        Err(e) => {
                            return Err(LabError::system(format!("set {name} in {namespace}"), e));
                        }
                    }
                }
                for name in RECORDED_SYSCTLS {
                    if let Ok(value) = fs::read_to_string(format!("/proc/sys/{name}")) {
                        all.insert(format!("dut:{name}"), value.trim().to_owned());
                    }
                }
                Ok(())
            })?;
        }
        self.sysctls = all;
        Ok(())
    }

    fn configure_dut(&mut self, dut: usize, placement: &Placement) -> Result<(), LabError> {
        let host = self.hosts[dut].clone();
        // GRO gives veth a NAPI instance at its input; the generator's frames are delivered through it
        let mut script = String::new();
        for input in self.inputs() {
            script += &format!("ethtool -K {input} gro on || exit 1\n");
        }
        script += "ip link set lo up; ip link set eth0 up; ip link set eth1 up\n";
        for input in self.inputs() {
            script += &format!(
                "echo 1 > /sys/class/net/{input}/threaded || echo 'threaded NAPI: not possible' >&2\n"
            );
            if placement.dut_cpus.len() > 1 {
                script += &format!(
                    "echo {} > /sys/class/net/{input}/queues/rx-0/rps_cpus || echo 'receive packet steering: not possible' >&2\n",
                    placement.rps_mask()
                );
            }
        }
        let output = host.run(&Command::shell(&script), Limit::OURS)?;
        for line in String::from_utf8_lossy(&output.stderr).lines() {
            if let Some((what, why)) = line.split_once(": ")
                && why == "not possible"
            {
                self.notes.insert(what.into(), "could not be set".into());
            }
        }
        let next_hop = |address: &str, device: &str, lladdr: [u8; 6]| {
            format!(
                "neigh add {address} lladdr {} nud permanent dev {device}\n",
                mac(lladdr)
            )
        };
        let mut batch = String::new();
        batch += "addr add 198.18.0.1/30 dev eth0\naddr add 198.19.0.1/30 dev eth1\n";
        batch += &next_hop("198.18.0.2", "eth0", MACS.tx);
        batch += &next_hop("198.19.0.2", "eth1", MACS.rx);
        batch += "route add 198.18.0.0/16 via 198.18.0.2 dev eth0\n";
        batch += "route add 198.19.0.0/16 via 198.19.0.2 dev eth1\n";
        host.feed("ip", &["-batch", "-"], &batch)?;
        if ipv6_is_there() {
            let mut batch = String::new();
            batch += "addr add 2001:2::1/64 dev eth0 nodad\naddr add 2001:2:0:8000::1/64 dev eth1 nodad\n";
            batch += &next_hop("2001:2::2", "eth0", MACS.tx);
            batch += &next_hop("2001:2:0:8000::2", "eth1", MACS.rx);
            batch += "route add 2001:2::/49 via 2001:2::2 dev eth0\n";
            batch += "route add 2001:2:0:8000::/49 via 2001:2:0:8000::2 dev eth1\n";
            host.feed("ip", &["-batch", "-"], &batch)?;
        }
        Ok(())
    }

    /// The kernel's thread of each input of a DUT, that of the first direction first: what the kernel says of these interfaces. Where it
    /// does not tell (before Linux 6.8), those whose names were not there `before`, if they are as many as they should be: others may
    /// have interfaces of the same name.
    fn input_threads(&self, dut: usize, before: &[u32]) -> Vec<Option<u32>> {
        let inputs = self.inputs();
        let told = within(self.dut(dut), || {
            let of = |input: &&str| {
                let threads = fwdlab_engine::netdev::napi_threads(input)?;
                Ok(threads.first().copied())
            };
            inputs.iter().map(of).collect()
        });
        told.unwrap_or_else(|_: LabError| {
            let mut new = threads_by_name();
            new.retain(|t| !before.contains(t));
            match new.len() == inputs.len() {
                true => new.into_iter().map(Some).collect(),
                false => vec![None; inputs.len()],
            }
        })
    }

    /// The DUT's ports into which frames are sent.
    fn inputs(&self) -> &'static [&'static str] {
        match self.both_ways {
            true => &["eth0", "eth1"],
            false => &["eth0"],
        }
    }

    fn configure_generator(&self) -> Result<(), LabError> {
        let mut batch = String::new();
        for k in 0..self.duts {
            batch += &format!("link set tx{k} up\nlink set rx{k} up\n");
        }
        self.generator.feed("ip", &["-batch", "-"], &batch)?;
        // Without TSO at the sender, veth hands skb frames to the peer's NAPI too, so that the DUT's thread does the
        // work of socket engines' frames and not the sender (drivers/net/veth.c, veth_skb_is_eligible_for_gro).
        let script: String = (self.paths().iter())
            .map(|path| format!("ethtool -K {} tso off || exit 1\n", path.tx.interface))
            .collect();
        self.generator.ask("sh", &["-c", &script])?;
        Ok(())
    }

    /// Puts the DUT's NAPI threads on their CPU, ahead of everything else there.
    fn pin_threads(&mut self, placement: &Placement) {
        self.notes.extend(placement.notes.clone());
        let Some(&cpu) = placement.dut_cpus.first() else {
            return;
        };
        let mut problems = Vec::new();
        if self.threads.contains(&None) {
            problems.push("the NAPI thread was not found".to_owned());
        }
        for thread in self.threads.iter().flatten() {
            let mut set = rustix::thread::CpuSet::new();
            set.set(cpu);
            let pid = rustix::process::Pid::from_raw(*thread as i32);
            if let Err(e) = rustix::thread::sched_setaffinity(pid, &set) {
                problems.push(format!("cannot pin NAPI thread {thread} to CPU {cpu}: {e}"));
            }
            if let Err(e) = crate::sys::set_nice(*thread, -20) {
                problems.push(format!(
                    "cannot raise the priority of NAPI thread {thread}: {e}"
                ));
            }
        }
        let words = if problems.is_empty() {
            match self.both_ways {
                true => format!("its two NAPI threads alone on CPU {cpu}, niceness -20"),
                false => format!("its NAPI thread alone on CPU {cpu}, niceness -20"),
            }
        } else {
            problems.dedup();
            format!("not as it should be: {}", problems.join("; "))
        };
        self.notes.insert("dut".into(), words);
    }
}

/// Path of a named namespace.
pub(crate) fn netns(name: &str) -> Option<PathBuf> {
    crate::host::netns::file(name)
}

/// Where configurations of the DUTs of a lab run.
fn places(namespaces: &[String], lab: &str, is_unconfined: bool) -> Vec<Netns> {
    let place = |dut: &String| Netns::place(dut, lab, is_unconfined);
    namespaces[1..].iter().map(place).collect()
}

/// Runs `work` on a thread inside a named namespace.
pub(crate) fn within<T: Send>(
    name: &str,
    work: impl FnOnce() -> Result<T, LabError> + Send,
) -> Result<T, LabError> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                fwdlab_engine::port::enter(&netns(name))?;
                work()
            })
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn write_sysctl(name: &str, value: &str) -> std::io::Result<()> {
    fs::write(format!("/proc/sys/{name}"), value)
}

fn ipv6_is_there() -> bool {
    fs::exists("/proc/sys/net/ipv6").unwrap_or(false)
}

fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|b| format!("{b:02x}")).join(":")
}

/// Threads of the kernel that serve an interface named eth0 or eth1, of whatever namespace, oldest first. Two labs that build at the same
/// time would not know whose threads are whose; that is what the registry's build lock is for.
fn threads_by_name() -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut threads: Vec<u32> = processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| {
                ["napi/eth0-", "napi/eth1-"]
                    .iter()
                    .any(|p| name.starts_with(p))
            })
        })
        .collect();
    threads.sort_unstable();
    threads
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Interface {
    rx_packets: u64,
    rx_dropped: u64,
    tx_packets: u64,
    tx_dropped: u64,
}

fn interface_counters(host: &dyn Host) -> Result<BTreeMap<String, Interface>, HostError> {
    let text = host.read("/proc/thread-self/net/dev")?;
    Ok(parse_net_dev(&String::from_utf8_lossy(&text)))
}

/// Columns after the name: receive bytes packets errs drop fifo frame compressed multicast, transmit the same way.
fn parse_net_dev(text: &str) -> BTreeMap<String, Interface> {
    text.lines()
        .filter_map(|line| {
            let (name, numbers) = line.split_once(':')?;
            let n: Vec<u64> = numbers
                .split_whitespace()
                .map_while(|n| n.parse().ok())
                .collect();
            let interface = Interface {
                rx_packets: *n.get(1)?,
                rx_dropped: *n.get(3)?,
                tx_packets: *n.get(9)?,
                tx_dropped: *n.get(11)?,
            };
            Some((name.trim().to_owned(), interface))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every DUT has an eth0, and so may others on this host.
    #[test]
    fn threads_are_found_by_their_interface_and_not_by_its_name() {
        let test = "threads_are_found_by_their_interface_and_not_by_its_name";
        if !crate::user_namespace::is_root() {
            return println!("SKIPPED: {test}: not root");
        }
        let bed = Bed::up(2, &Placement::default(), false).unwrap();
        if fwdlab_engine::netdev::napi_threads("lo").is_err() {
            return println!("SKIPPED: {test}: this kernel does not tell (before Linux 6.8)");
        }
        let threads: Vec<u32> = bed.threads.iter().map(|t| t.expect("found")).collect();
        assert_eq!(threads.len(), 2);
        assert_ne!(threads[0], threads[1]);
        for (dut, thread) in threads.iter().enumerate() {
            // the threads of the other DUT are as new as its own
            assert_eq!(bed.input_threads(dut, &[]), [Some(*thread)]);
            let name = fs::read_to_string(format!("/proc/{thread}/comm")).unwrap();
            assert!(name.starts_with("napi/eth0-"), "{name}");
        }
    }

    #[test]
    fn counters_of_the_kernel_are_read_by_column() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
             face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n\
             tx0:      10       2    0    7    0     0          0         0 89294400 1488240    0 7252858    0     0       0          0\n    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n";
        let table = parse_net_dev(text);
        let expect = Interface {
            rx_packets: 2,
            rx_dropped: 7,
            tx_packets: 1_488_240,
            tx_dropped: 7_252_858,
        };
        assert_eq!(table["tx0"], expect);
        assert_eq!(table.len(), 2);
    }
}
