//! `fwdlab bed`: creates, removes and shows the embedded test bed, and prints settings for external
//! switches. Start with [`Bed::run`].

use std::path::Path;

use clap::{Subcommand, ValueEnum};
use fwdlab_lab::host::registry::{Registry, left_behind};
use fwdlab_lab::placement::Placement;
use fwdlab_lab::site::existing;
use fwdlab_lab::switch_config::{self, Mtu, Vendor};
use fwdlab_lab::{bed, user_namespace};
use fwdlab_model::test_bed::BedFile;

use super::{Global, test_bed};
use crate::exit_code::{Code, Usage};
use crate::output;

/// What to do with test beds.
#[derive(Debug, Subcommand)]
pub enum Bed {
    /// Build a test bed and keep it, to use with `ip netns exec`
    Up {
        /// DUTs side by side
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
        duts: u32,
        /// CPUs of the DUT [default: the last one]
        #[arg(long, value_delimiter = ',', value_name = "CPU")]
        dut_cpus: Vec<usize>,
    },
    /// Remove test beds left behind by `bed up` or by killed processes; keep those in use
    Down,
    /// List the test beds of this host
    Show,
    /// Print a switch configuration that makes the switch of a test bed behave like cables: VLANs,
    /// no flow control, no protocols of its own, no MAC ageing
    SwitchConfig {
        /// Vendor of the switch
        #[arg(long, value_enum)]
        vendor: VendorName,
        /// The test bed: a file, or its name in a folder `beds`
        bed: String,
    },
}

/// Whose switch it is.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum VendorName {
    /// IOS and IOS XE (Catalyst)
    Cisco,
    /// Junos with ELS (EX, QFX)
    Juniper,
}

fn switch_config(vendor: VendorName, name: &str, global: &Global) -> anyhow::Result<Code> {
    let bed = match test_bed::find(Path::new(""), name)? {
        BedFile::Hosts(bed) => bed,
        BedFile::Image { .. } | BedFile::Machine(_) => {
            return Err(Usage("a virtual machine needs no switch".into()).into());
        }
    };
    let Some(switch) = &bed.switch else {
        return Err(Usage(format!(
            "the test bed {} names no switch; add [switch] with ports = {{ tester-a = \"...\", dut-a = \"...\", dut-b = \"...\", tester-b = \
             \"...\" }}, as the switch calls them",
            bed.name
        ))
        .into());
    };
    let (addresses, mtus) = existing::addresses(&bed);
    let mtu = mtus.iter().map(|(_, mtu)| *mtu).max().unwrap_or(1500);
    let vendor = match vendor {
        VendorName::Cisco => Vendor::Cisco,
        VendorName::Juniper => Vendor::Juniper,
    };
    let text = switch_config::lines(vendor, &bed, switch, &addresses, Mtu(mtu));
    let lines: Vec<&str> = text.lines().collect();
    global.result(&serde_json::json!({ "lines": lines }), text.trim_end())
}

impl Bed {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        if let Bed::SwitchConfig { vendor, bed } = &self {
            return switch_config(*vendor, bed, global);
        }
        if !user_namespace::is_root() {
            return Err(Usage(
                "only root can keep a test bed after the command ends (without root it disappears with its process, so there \
                 is nothing to remove). Run with sudo".into(),
            )
            .into());
        }
        match self {
            Bed::Up { duts, dut_cpus } => {
                let placement = Placement::choose(&dut_cpus, 1)?;
                let bed = bed::Bed::up(duts as usize, &placement, true)?;
                let mut text = format!(
                    "bed {}\ngenerator {} (tx0, rx0, ...)\n",
                    bed.id(),
                    bed.generator()
                );
                for k in 0..bed.duts() {
                    text += &format!("DUT       {} (eth0 in, eth1 out)\n", bed.dut(k).name());
                }
                text += "look      ip netns exec NAMESPACE ip -s link\nremove    fwdlab bed down";
                let duts: Vec<_> = (0..bed.duts()).map(|k| bed.dut(k).name()).collect();
                let document = serde_json::json!({
                    "id": bed.id(), "generator": bed.generator(), "duts": duts
                });
                global.result(&document, &text)?;
                bed.leave_standing();
            }
            Bed::Down => {
                let registry = Registry::open()?;
                let swept = registry.sweep(true)?;
                let in_use = registry.list()?;
                if global.json {
                    let kept: Vec<_> = in_use.iter().map(|l| &l.record.id).collect();
                    output::json(&serde_json::json!({ "removed": swept, "kept": kept }))?;
                    return Ok(Code::Done);
                }
                for id in &swept {
                    output::lines(&format!("removed   {id}"));
                }
                for left in left_behind() {
                    output::note(&format!("left      {left}"));
                }
                for lab in &in_use {
                    let reason = if lab.in_use {
                        "in use by process"
                    } else {
                        "could not be removed; made by process"
                    };
                    output::note(&format!(
                        "kept      {}  {reason} {}",
                        lab.record.id, lab.record.pid
                    ));
                }
                if swept.is_empty() && in_use.is_empty() {
                    output::note("no test beds on this host");
                }
            }
            // done above, because it needs no privileges
            Bed::SwitchConfig { .. } => {}
            Bed::Show => {
                let labs = Registry::open()?.list()?;
                if global.json {
                    let list: Vec<_> = labs
                        .iter()
                        .map(|l| serde_json::json!({"id": l.record.id, "in_use": l.in_use, "pid": l.record.pid, "namespaces": l.record.namespaces}))
                        .collect();
                    output::json(&list)?;
                    return Ok(Code::Done);
                }
                for lab in &labs {
                    let state = match (lab.in_use, lab.record.keep) {
                        (true, _) => format!("in use by process {}", lab.record.pid),
                        (false, true) => "kept by `bed up`; remove it with: fwdlab bed down".into(),
                        (false, false) => "its process died; the next start removes it".into(),
                    };
                    output::lines(&format!(
                        "{}  {state}\n  {}",
                        lab.record.id,
                        lab.record.namespaces.join(" ")
                    ));
                }
                if labs.is_empty() {
                    output::note("no test beds on this host");
                }
            }
        }
        Ok(Code::Done)
    }
}
