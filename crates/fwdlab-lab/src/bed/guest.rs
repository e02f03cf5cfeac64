//! A test bed inside a virtual machine: the embedded one, built through the machine's agent, and a
//! path that bypasses the DUT.
//!
//! ```text
//!   gen                               dut0
//!     tx0 ======================== eth0
//!     rx0 ======================== eth1
//!     past0 ==== past1             the cost of generator and receiver alone
//! ```
//!
//! Nothing of it is on this machine, and nothing has to be undone: it ends with the machine. Start
//! with [`Bed::in_guest`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fwdlab_engine::{PathSpec, PortSpec};

use super::veth::{Built, DUT_PORTS};
use super::{Bed, BedBase, Networks, TesterPorts, Testers};
use crate::dut::Linux;
use crate::error::LabError;
use crate::host::undo::Undo;
use crate::host::{Host, Remote, netns};
use crate::networks::mac;
use crate::tester::bursts::{GENERATOR, PAST};
use crate::vm::machine::{ACCELERATOR, Machine};

const DUT: &str = "dut0";

/// Configuring a guest for longer means that it hangs. An emulator takes some ten times as long as
/// the guest's own clock shows: 500,000 routes take 20 s there, and took 3 to 7 minutes during
/// other work on two CPUs.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

impl Bed {
    /// Builds a bed with one DUT in a machine.
    ///
    /// # Errors
    /// The guest's kernel has no veth, or lacks something else; the machine was lost.
    pub fn in_guest(machine: &Arc<Machine>) -> Result<Bed, LabError> {
        build(&machine.host())?;
        let bed = Bed::built_in_guest(machine)?;
        bed.dut(0).prepare()?;
        Ok(bed)
    }

    /// Returns the bed of a machine that continues from a state in which it had one.
    ///
    /// # Errors
    /// There is no room for a file.
    pub fn built_in_guest(machine: &Arc<Machine>) -> Result<Bed, LabError> {
        let host = machine.host();
        let networks = Networks::EMBEDDED;
        let generator = Arc::new(host.within(GENERATOR));
        let dut = Arc::new(host.within(DUT));
        let changes = Arc::new(Undo::new(machine.scratch("undo")?));
        let linux = Linux::new(dut.clone(), dut, DUT_PORTS, networks, changes.clone())
            .with_patience(PATIENCE);
        let port = |interface: &str| PortSpec {
            netns: netns::file(GENERATOR),
            interface: interface.into(),
        };
        Ok(Bed {
            sysctls: BTreeMap::new(),
            duts: vec![Arc::new(linux)],
            networks,
            paths: vec![PathSpec {
                tx: port("tx0"),
                rx: port("rx0"),
            }],
            tester: Testers::one(generator),
            both_ways: false,
            notes: BTreeMap::from([(
                "machine".into(),
                format!(
                    "{}, Linux {}, {ACCELERATOR}",
                    machine.name(),
                    machine.kernel()
                ),
            )]),
            built: Built::default(),
            changes,
            ground: BedBase::Guest {
                _machine: machine.clone(),
            },
            switch: None,
            ports: TesterPorts::default(),
            _claims: Vec::new(),
        })
    }
}

/// Builds both namespaces with their ports.
fn build(host: &Remote) -> Result<(), LabError> {
    let Networks { input, output, .. } = &Networks::EMBEDDED;
    let [eth0, eth1] = DUT_PORTS;
    let [out, back] = PAST;
    let (to, from) = (mac(input.tester_mac), mac(input.dut_mac));
    let mut batch = format!("netns add {GENERATOR}\nnetns add {DUT}\n");
    for (ours, side, theirs) in [("tx0", input, eth0), ("rx0", output, eth1)] {
        batch += &format!(
            "link add {ours} address {} netns {GENERATOR} type veth peer name {theirs} address {} netns {DUT}\n",
            mac(side.tester_mac),
            mac(side.dut_mac)
        );
    }
    batch += &format!(
        "link add {out} address {to} netns {GENERATOR} type veth peer name {back} address {from} netns {GENERATOR}\n"
    );
    host.feed("ip", &["-batch", "-"], &batch)?;
    let generator = host.within(GENERATOR);
    for which in ["all", "default"] {
        let file = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
        // a kernel without IPv6 has nothing to disable
        let _ = generator.write(&file, b"1");
    }
    let up = |port: &&str| format!("link set {port} up\n");
    let batch: String = ["tx0", "rx0", out, back].iter().map(up).collect();
    generator.feed("ip", &["-batch", "-"], &batch)?;
    let dut = host.within(DUT);
    let batch: String = ["lo", eth0, eth1].iter().map(up).collect();
    dut.feed("ip", &["-batch", "-"], &batch)?;
    // a NAPI instance at the input, which processes frames from the other end's XDP
    dut.query("ethtool", &["-K", eth0, "gro", "on"])?;
    Ok(())
}
