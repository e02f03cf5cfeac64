//! `fwdlab image boot`: boots a whole disk in a virtual machine, with its console here and its SSH
//! port on loopback.
//!
//! `lab::vm::computer` runs the machine; this module shows its console and forwards what the user
//! types. Start with [`Boot::run`].

use std::cell::Cell;
use std::io::BufRead;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use clap::Args;
use fwdlab_lab::LabError;
use fwdlab_lab::control::Control;
use fwdlab_lab::host::Limit;
use fwdlab_lab::vm::computer::{ADDRESS, Computer, Devices, Setup, State, System};
use fwdlab_lab::vm::image::cache::Cache;
use fwdlab_lab::vm::image::{Image, ImageKind};
use fwdlab_lab::vm::kvm::fastest;
use fwdlab_lab::vm::scratch::Scratch;
use fwdlab_model::units::parse_duration;
use serde_json::json;

use super::super::Global;
use super::super::run::catch_signals;
use crate::exit_code::{Code, Usage};
use crate::output::{self, Verbosity};

/// A timeout that never expires.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// What is started, and until when.
#[derive(Debug, Args)]
pub struct Boot {
    /// Disk image: qcow2, raw, vmdk, vdi, vhdx. It is not changed: what the machine writes is
    /// discarded when it stops
    #[arg(value_name = "DISK")]
    disk: PathBuf,
    /// End when the console prints this text; exit with 4 if it does not appear within --for, or if
    /// the machine does not start
    #[arg(long, value_name = "TEXT")]
    wait: Option<String>,
    /// Stop the machine after this time
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    time: Option<Duration>,
    /// CPUs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: u32,
    /// Memory in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(16..))]
    memory: u32,
    /// Use an IDE disk and an Intel e1000 port, for systems without virtio drivers
    #[arg(long)]
    classic: bool,
    /// Address of its first port: assigned by DHCP, or the static address that it already has
    #[arg(long, value_name = "IPV4", default_value_t = ADDRESS)]
    address: Ipv4Addr,
    /// Write the console output to this file
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

impl Boot {
    /// Runs the command.
    pub fn run(self, global: &Global, cache: &Cache) -> anyhow::Result<Code> {
        let name = self.disk.to_string_lossy().into_owned();
        let disk = match Image::find(&name, cache, &mut |_| {})?.kind {
            ImageKind::Disk(disk) => disk,
            ImageKind::Kernel(_) => {
                return Err(Usage(format!(
                    "{name} is a kernel, and has no system to boot by hand; fwdlab quick --vm {name} measures in it"
                ))
                .into());
            }
        };
        let control = Control::default();
        let signal = catch_signals(&control.flag())?;
        let is_stopped = || control.is_stopped();
        let scratch = Scratch::new()?;
        let fastest = fastest();
        let setup = Setup {
            name,
            system: System::Disk(disk),
            cpus: self.cpus,
            memory_mib: self.memory,
            devices: match self.classic {
                true => Devices::Classic,
                false => Devices::Virtio,
            },
            address: self.address,
            ports: Vec::new(),
            folder: scratch.folder(1),
        };
        let started = Instant::now();
        let computer = Computer::start(setup, fastest.accelerator, &is_stopped)?;
        let at = computer.management()?;
        let speaks = !global.json && global.verbosity() != Verbosity::Quiet;
        if speaks {
            output::note(&format!(
                "machine   {fastest}\nSSH       ssh -p {} root@{}, when its system answers there\nconsole   below; lines typed here are typed there. Ctrl-C ends the machine, and what it wrote is gone\n",
                at.port(),
                at.ip()
            ));
        }
        let ended = self.follow(&computer, speaks, &is_stopped);
        if let Some(log) = &self.log {
            std::fs::write(log, computer.console())
                .map_err(|e| anyhow::anyhow!("cannot write {}: {e}", log.display()))?;
        }
        let signal = signal.load(Ordering::Acquire);
        let state = computer.state();
        match (ended, signal) {
            (Err(error), 0) => return Err(error.into()),
            (_, 15) => return Ok(Code::Terminated),
            (_, 1..) => return Ok(Code::Interrupted),
            (Ok(()), _) => {}
        }
        if global.json {
            output::json(&json!({
                "disk": computer.name(),
                "machine": fastest.to_string(),
                "ssh": at.to_string(),
                "state": match state {
                    State::Runs => "runs",
                    State::Panicked => "panicked",
                    State::Off => "off",
                    State::Ended(_) => "ended",
                },
                "seconds": started.elapsed().as_secs_f64(),
                "console": computer.console(),
            }))?;
        }
        Ok(Code::Done)
    }

    /// Shows the console until the awaited text appears, the time is over, or the machine is off.
    fn follow(
        &self,
        computer: &Computer,
        speaks: bool,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), LabError> {
        let started = Instant::now();
        let typed = typed();
        let shown = Cell::new(0);
        let show = || {
            let console = computer.console();
            if let (Some(new), true) = (console.get(shown.get()..), speaks) {
                output::console(new);
                shown.set(console.len());
            }
            // a machine that is off does not read; the next check sees its end
            let heard = typed
                .try_iter()
                .try_for_each(|line| computer.type_line(&line));
            heard.is_err() && computer.state() == State::Runs || is_stopped()
        };
        let limit = Limit {
            time: self.time.unwrap_or(FOR_EVER),
            is_stopped: &show,
        };
        let ended = match &self.wait {
            Some(words) => computer.wait_for(words, limit),
            None => match computer.wait_until_off(limit) {
                Err(_) if self.time.is_some_and(|time| started.elapsed() > time) => Ok(()),
                ended => ended,
            },
        };
        show();
        ended
    }
}

/// Returns the lines of standard input.
fn typed() -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}
