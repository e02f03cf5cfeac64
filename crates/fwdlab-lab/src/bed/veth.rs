//! The embedded test bed: a generator's namespace and one or more DUT namespaces, joined by veth
//! pairs.
//!
//! ```text
//!   fwdlab-<id>-gen                 fwdlab-<id>-dut0
//!     tx0 ======================== eth0   198.18.0.1/30, 198.18.0.0/16 via 198.18.0.2
//!     rx0 ======================== eth1   198.19.0.1/30, 198.19.0.0/16 via 198.19.0.2
//! ```
//!
//! The kernel of the DUT namespace forwards; the generator's side has no addresses, and neighbours
//! are static. All DUTs of a bed look the same to the generator: same MAC addresses, same networks.
//! Nothing outside the namespaces changes, and dropping a [`Bed`] removes all of it. The routing is
//! that of RFC 2544's phantom routers: one next hop on each side.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use fwdlab_engine::{PathSpec, PortSpec};
use fwdlab_model::campaign;

use super::{Bed, BedBase, Networks, TesterPorts, Testers};
use crate::dut::vpp::instance::{Cpus, Instance};
use crate::dut::{Dut, Linux, Vpp};
use crate::error::LabError;
use crate::host::netns::within;
use crate::host::registry::Registry;
use crate::host::{Command, Failure, Host, Limit, Local, Netns, netns};
use crate::networks::{Management, mac};
use crate::placement::{self, Placement};

/// The ports of every DUT, input and output.
pub(crate) const DUT_PORTS: [&str; 2] = ["eth0", "eth1"];

/// What is known about a bed that was built.
#[derive(Debug, Default)]
pub(super) struct Built {
    dut_cpus: Vec<usize>,
    /// NAPI threads of each DUT's inputs, if they were found.
    threads: Vec<Vec<Option<u32>>>,
    /// True if its DUT is VPP, to which programs of the host apply nothing.
    is_vpp: bool,
}

/// The generator's namespace only carries ports: no protocol may send frames there.
const GENERATOR_SYSCTLS: &[(&str, &str)] = &[
    ("net/ipv6/conf/all/disable_ipv6", "1"),
    ("net/ipv6/conf/default/disable_ipv6", "1"),
];

/// Disables the kernel's own forwarding and protocols below VPP.
const VPP_SYSCTLS: &[(&str, &str)] = &[
    ("net/ipv4/ip_forward", "0"),
    ("net/ipv6/conf/all/disable_ipv6", "1"),
    ("net/ipv6/conf/default/disable_ipv6", "1"),
];

impl Bed {
    /// Builds a bed with this many DUTs.
    ///
    /// Labs whose process died are removed first. A failure leaves nothing behind.
    ///
    /// # Errors
    /// No permission, no veth, or a program that is missing.
    pub fn up(duts: usize, placement: &Placement, keep: bool) -> Result<Bed, LabError> {
        Bed::with(duts, false, placement, keep, None)
    }

    /// Builds a bed with one DUT and traffic in both directions: the second path is that from its
    /// output to its input.
    ///
    /// # Errors
    /// As for [`Bed::up`].
    pub fn up_both_ways(placement: &Placement) -> Result<Bed, LabError> {
        Bed::with(1, true, placement, false, None)
    }

    /// Builds a bed with one DUT, our own VPP on the ports of its namespace, with traffic in one
    /// direction or both.
    ///
    /// # Errors
    /// As for [`Bed::up`], or there is no VPP, or it does not start.
    pub fn up_vpp(
        dut: &campaign::Dut,
        both_ways: bool,
        placement: &Placement,
    ) -> Result<Bed, LabError> {
        Bed::with(1, both_ways, placement, false, Some(dut))
    }

    fn with(
        duts: usize,
        both_ways: bool,
        placement: &Placement,
        keep: bool,
        vpp: Option<&campaign::Dut>,
    ) -> Result<Bed, LabError> {
        let registry = Registry::open()?;
        registry.sweep(false)?;
        let _one_at_a_time = registry.build_lock()?;
        let registration = registry.register(duts, keep)?;
        let tester = Arc::new(Netns::bare(&registration.record().namespaces[0]));
        let mut bed = Bed {
            duts: Vec::new(),
            networks: Networks::EMBEDDED,
            paths: paths(tester.name(), duts, both_ways),
            tester: Testers::one(tester),
            both_ways,
            notes: BTreeMap::new(),
            sysctls: BTreeMap::new(),
            built: Built {
                dut_cpus: placement.dut_cpus.clone(),
                threads: vec![Vec::new(); duts],
                is_vpp: vpp.is_some(),
            },
            changes: registration.changes().clone(),
            ground: BedBase::Here(registration),
            switch: None,
            ports: TesterPorts::default(),
            _claims: Vec::new(),
        };
        bed.make_links(duts, placement.senders)?;
        bed.silence_generator()?;
        if let Some(vpp) = vpp {
            bed.add_vpp(vpp, placement)?;
            bed.configure_generator()?;
            return Ok(bed);
        }
        for dut in 0..duts {
            let before = threads_by_name();
            bed.open_ports(dut, placement)?;
            bed.built.threads[dut] = bed.input_threads(dut, placement.senders, &before);
            let set = bed.linux(dut, false).prepare()?;
            if dut == 0 {
                let named = set
                    .into_iter()
                    .map(|(name, value)| (format!("dut:{name}"), value));
                bed.sysctls.extend(named);
            }
        }
        bed.configure_generator()?;
        bed.pin_threads(placement);
        Ok(bed.unconfined(false))
    }

    /// Runs configurations of its DUTs as processes of the host, on the host's files.
    pub fn unconfined(mut self, is_unconfined: bool) -> Bed {
        if self.built.is_vpp {
            return self;
        }
        let duts = 0..self.built.threads.len();
        let linux = |dut| Arc::new(self.linux(dut, is_unconfined)) as Arc<dyn Dut>;
        self.duts = duts.map(linux).collect();
        self
    }

    /// Makes the DUT a VPP. The kernel below it passes it every frame, and neither forwards nor
    /// answers.
    fn add_vpp(&mut self, dut: &campaign::Dut, placement: &Placement) -> Result<(), LabError> {
        let namespace = self.namespace_of(0).to_owned();
        let host = Netns::bare(&namespace);
        for (name, value) in VPP_SYSCTLS {
            match host.write(&format!("/proc/sys/{name}"), value.as_bytes()) {
                Ok(()) => {
                    self.sysctls
                        .insert(format!("dut:{name}"), (*value).to_owned());
                }
                Err(error) => match error.failure {
                    Failure::File(_) if name.contains("ipv6") => {}
                    _ => return Err(error.into()),
                },
            }
        }
        let cpus = Cpus::choose(dut.workers, &placement.dut_cpus, &placement.generator_cpus)?;
        // a single kernel thread delivers all frames, because VPP itself spreads them
        let first = Placement {
            dut_cpus: placement.dut_cpus.iter().take(1).copied().collect(),
            ..placement.clone()
        };
        let before = threads_by_name();
        self.open_ports(0, &first)?;
        self.built.threads[0] = self.input_threads(0, placement.senders, &before);
        let instance = Instance::start(&namespace, self.id(), dut, &cpus, &self.changes)?;
        let undo = self.changes.clone();
        let vpp = Vpp::on_kernel_ports(instance, DUT_PORTS, self.networks, undo)?;
        let reported = vpp.prepare()?;
        self.duts = vec![Arc::new(vpp)];
        self.pin_threads(&first);
        let below = self.notes.remove("dut").unwrap_or_default();
        let version: Vec<String> = reported.into_values().collect();
        self.notes.insert(
            "vpp".into(),
            format!(
                "{}; {}; below it, the kernel: {}",
                version.join(", "),
                cpus.words(),
                below.replace(" alone on CPU", " on CPU")
            ),
        );
        Ok(())
    }

    /// Returns a DUT in its namespace.
    fn linux(&self, dut: usize, is_unconfined: bool) -> Linux {
        let namespace = self.namespace_of(dut);
        let place = Netns::place(namespace, self.id(), is_unconfined);
        let undo = self.changes.clone();
        let host = Arc::new(Netns::bare(namespace));
        Linux::new(host, Arc::new(place), DUT_PORTS, self.networks, undo).on(
            &self.built.dut_cpus,
            self.built.threads[dut].first().copied().flatten(),
        )
    }

    fn namespace_of(&self, dut: usize) -> &str {
        &self.namespaces()[1 + dut]
    }

    /// Gives the first DUT an additional port, `mgmt`, connected to the generator's namespace.
    ///
    /// # Errors
    /// As for [`Host::run`].
    pub(crate) fn add_management(&self) -> Result<(), LabError> {
        let Management {
            tester_mac,
            dut_mac,
            tester,
            dut,
        } = self.networks.management;
        let [ours, theirs] = [tester_mac, dut_mac].map(mac);
        let device = Netns::bare(self.namespace_of(0));
        let (here, there) = (self.tester.a.name(), device.name());
        let link = format!(
            "link add mgmt address {ours} netns {here} type veth peer name mgmt address {theirs} netns {there}\n"
        );
        Local.feed("ip", &["-batch", "-"], &link)?;
        for (host, own, other, lladdr) in [
            (self.tester.a.as_ref(), tester, dut, theirs),
            (&device as &dyn Host, dut, tester, ours),
        ] {
            let batch = format!(
                "link set mgmt up\naddr add {own}/30 dev mgmt\nneigh add {other} lladdr {lladdr} nud permanent dev mgmt\n"
            );
            host.feed("ip", &["-batch", "-"], &batch)?;
        }
        Ok(())
    }

    /// Raises the MTU of the ports of DUTs that the bed created; they are removed with it. Ports of
    /// existing hosts are not changed.
    ///
    /// # Errors
    /// As for [`Host::run`].
    pub fn raise_mtu(&self, bytes: u32) -> Result<(), LabError> {
        for namespace in self.namespaces().iter().skip(1) {
            let batch = DUT_PORTS.map(|port| format!("link set {port} mtu {bytes}\n"));
            Netns::bare(namespace).feed("ip", &["-batch", "-"], &batch.concat())?;
        }
        Ok(())
    }

    /// Each sender has a queue of its own.
    fn make_links(&self, duts: usize, queues: u32) -> Result<(), LabError> {
        let mut batch = String::new();
        for namespace in self.namespaces() {
            batch += &format!("netns add {namespace}\n");
        }
        Local.feed("ip", &["-batch", "-"], &batch)?;
        let mut batch = String::new();
        let generator = self.generator();
        let Networks { input, output, .. } = &self.networks;
        let [eth0, eth1] = DUT_PORTS;
        // the kernel's own choice is one, and room for as many as there are CPUs
        let queues = match queues {
            1 => String::new(),
            _ => format!("numtxqueues {queues} numrxqueues {queues}"),
        };
        for k in 0..duts {
            let dut = self.namespace_of(k);
            for (ours, side, theirs) in [
                (format!("tx{k}"), input, eth0),
                (format!("rx{k}"), output, eth1),
            ] {
                batch += &format!(
                    "link add {ours} address {} {queues} netns {generator} type veth peer name {theirs} address {} {queues} netns {dut}\n",
                    mac(side.tester_mac),
                    mac(side.dut_mac)
                );
            }
        }
        let made = Local.feed("ip", &["-batch", "-"], &batch);
        made.map_err(|error| match error.failure {
            Failure::Exit { said: printed, .. } if printed.contains("Unknown device type") => {
                LabError::Preflight(
                    "the kernel has no veth. Load it with: modprobe veth (or boot a kernel with CONFIG_VETH)".into(),
                )
            }
            _ => error.into(),
        })
    }

    /// Disables protocols at the generator.
    fn silence_generator(&mut self) -> Result<(), LabError> {
        for (name, value) in GENERATOR_SYSCTLS {
            let file = format!("/proc/sys/{name}");
            match self.tester.a.write(&file, value.as_bytes()) {
                Ok(()) => {
                    let name = format!("generator:{name}");
                    self.sysctls.insert(name, (*value).to_owned());
                }
                // a kernel without IPv6 has nothing to disable
                Err(error) => match error.failure {
                    Failure::File(_) => {}
                    _ => return Err(error.into()),
                },
            }
        }
        Ok(())
    }

    /// Makes the ports of a DUT process frames in NAPI threads, and sets them up.
    fn open_ports(&mut self, dut: usize, placement: &Placement) -> Result<(), LabError> {
        let host = Netns::bare(self.namespace_of(dut));
        // GRO gives veth a NAPI instance at its input; the generator's frames are delivered through
        // it
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
                    "for queue in /sys/class/net/{input}/queues/rx-*; do echo {} > $queue/rps_cpus || \
                     echo 'receive packet steering: not possible' >&2; done\n",
                    placement.rps_mask()
                );
            }
        }
        let output = host.run(&Command::shell(&script), Limit::OURS)?;
        for line in String::from_utf8_lossy(&output.stderr).lines() {
            if let Some((action, reason)) = line.split_once(": ")
                && reason == "not possible"
            {
                self.notes.insert(action.into(), "could not be set".into());
            }
        }
        Ok(())
    }

    /// Returns the NAPI thread of each queue of each input of a DUT, the first direction first, as
    /// the kernel reports them for these interfaces. If it does not (before Linux 6.8), returns the
    /// threads that did not exist `before`, if their number is right: others may have interfaces of
    /// the same name.
    fn input_threads(&self, dut: usize, queues: u32, before: &[u32]) -> Vec<Option<u32>> {
        let (inputs, queues) = (self.inputs(), queues as usize);
        let reported = within(self.namespace_of(dut), || {
            let mut all = Vec::new();
            for input in inputs {
                let threads = fwdlab_engine::netdev::napi_threads(input)?;
                all.extend((0..queues).map(|queue| threads.get(queue).copied()));
            }
            Ok(all)
        });
        reported.unwrap_or_else(|_: LabError| {
            let mut new = threads_by_name();
            new.retain(|t| !before.contains(t));
            match new.len() == inputs.len() * queues {
                true => new.into_iter().map(Some).collect(),
                false => vec![None; inputs.len() * queues],
            }
        })
    }

    /// Returns the DUT's ports into which frames are sent.
    fn inputs(&self) -> &'static [&'static str] {
        match self.both_ways {
            true => &DUT_PORTS,
            false => &DUT_PORTS[..1],
        }
    }

    fn configure_generator(&self) -> Result<(), LabError> {
        let mut batch = String::new();
        for k in 0..self.built.threads.len() {
            batch += &format!("link set tx{k} up\nlink set rx{k} up\n");
        }
        self.tester.a.feed("ip", &["-batch", "-"], &batch)?;
        // Without TSO at the sender, veth passes skb frames to the peer's NAPI, too, so that the
        // DUT's thread processes frames of socket engines, and not the sender (drivers/net/veth.c,
        // veth_skb_is_eligible_for_gro).
        let script: String = (self.paths.iter())
            .map(|path| format!("ethtool -K {} tso off || exit 1\n", path.tx.interface))
            .collect();
        self.tester.a.query("sh", &["-c", &script])?;
        Ok(())
    }

    /// Pins the DUT's NAPI threads to its CPUs, queue after queue, with priority over everything
    /// else there.
    fn pin_threads(&mut self, placement: &Placement) {
        self.notes.extend(placement.notes.clone());
        let queues = placement.senders as usize;
        let cpus: Vec<usize> = placement.dut_cpus.iter().take(queues).copied().collect();
        if cpus.is_empty() {
            return;
        }
        let mut problems = Vec::new();
        let threads: Vec<Option<u32>> = self.built.threads.iter().flatten().copied().collect();
        if threads.contains(&None) {
            problems.push("the NAPI thread was not found".to_owned());
        }
        let pinned = threads.iter().zip((0..queues).cycle());
        for (thread, queue) in pinned.filter_map(|(thread, queue)| Some((thread.as_ref()?, queue)))
        {
            let cpu = cpus[queue % cpus.len()];
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
            let on = placement::words(&cpus);
            match threads.len() {
                1 => format!("its NAPI thread alone on {on}, niceness -20"),
                threads => format!("its {threads} NAPI threads alone on {on}, niceness -20"),
            }
        } else {
            problems.dedup();
            format!("setup is incomplete: {}", problems.join("; "))
        };
        self.notes.insert("dut".into(), words);
    }
}

/// Returns the path through each DUT, and the reverse path.
fn paths(generator: &str, duts: usize, both_ways: bool) -> Vec<PathSpec> {
    let port = |interface: String| PortSpec {
        netns: netns::file(generator),
        interface,
    };
    let mut paths: Vec<PathSpec> = (0..duts)
        .map(|k| PathSpec {
            tx: port(format!("tx{k}")),
            rx: port(format!("rx{k}")),
        })
        .collect();
    if both_ways {
        paths.push(PathSpec {
            tx: paths[0].rx.clone(),
            rx: paths[0].tx.clone(),
        });
    }
    paths
}

/// Returns the kernel threads of interfaces named eth0 or eth1 in any namespace, oldest first. Two
/// labs that build at the same time could not distinguish their threads, which the registry's build
/// lock prevents.
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
            return println!("SKIPPED: {test}: this kernel does not report it (before Linux 6.8)");
        }
        let threads: Vec<u32> = bed
            .built
            .threads
            .iter()
            .flatten()
            .map(|t| t.expect("found"))
            .collect();
        assert_eq!(threads.len(), 2);
        assert_ne!(threads[0], threads[1]);
        for (dut, thread) in threads.iter().enumerate() {
            // the threads of the other DUT are as new as its own
            assert_eq!(bed.input_threads(dut, 1, &[]), [Some(*thread)]);
            let name = fs::read_to_string(format!("/proc/{thread}/comm")).unwrap();
            assert!(name.starts_with("napi/eth0-"), "{name}");
        }
    }
}
