//! VPP as a DUT: its own program forwards; `vppctl` reads and changes its state.
//!
//! Works over any host, whether VPP is running there already or fwdlab has started it
//! ([`instance`]). Settings are read back; the command that undoes a change is recorded before the
//! change is made. Every subject has a file: [`cli`] for answers of `vppctl`, [`runtime`] and
//! [`counters`] for VPP's counters, [`tables`] for rules and routes. Start with [`Vpp::new`].

pub(crate) mod cli;
mod counters;
pub(crate) mod instance;
pub mod runtime;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fwdlab_model::efficiency::Work;
use fwdlab_model::loss::Reason;
use fwdlab_model::trial::IpVersion;

use self::cli::Cli;
use self::counters::Interface;
use self::instance::Instance;
use super::set::{Object, Step};
use super::sweep::set_by_command;
use super::{Account, Change, Configuration, Dut, PortPair, Route, Sides, SweptParameter, refuse};
use crate::control::Control;
use crate::error::LabError;
use crate::host::undo::Undo;
use crate::host::{Command, Host, Limit};
use crate::interfaces::{Counted, counters_of, link_changes, port_problems, read_counters};
use crate::networks::{End, Networks, mac};

/// Default time limit of users' lines.
const LIMIT: Duration = Duration::from_secs(60);

/// How long to wait for the end of a VPP that does not answer any more: it may be about to end.
const DYING: Duration = Duration::from_millis(300);

/// What to apply instead of configurations for an operating system.
const LINES: &str = "give lines of its command line, or a file *.vpp of them";

/// A DUT that runs VPP.
#[derive(Debug)]
pub struct Vpp {
    cli: Cli,
    /// Its ports by VPP's names.
    sides: Sides,
    /// The kernel's ports below them, if VPP gets its frames from the kernel.
    kernel_ports: Option<[String; 2]>,
    /// True if its ports must be given the MAC addresses of the networks.
    sets_macs: bool,
    undo: Arc<Undo>,
    /// Our own VPP, which ends with us.
    instance: Option<Instance>,
    /// The clock rate in which it counts; queried once, because it does not change.
    clock_hz: OnceLock<Option<f64>>,
}

impl Vpp {
    /// Creates a DUT for the VPP on this host with this socket, these interfaces (input and output)
    /// and these networks.
    pub fn new(
        host: Arc<dyn Host>,
        socket: &str,
        ports: [&str; 2],
        networks: Networks,
        undo: Arc<Undo>,
    ) -> Vpp {
        Vpp {
            cli: Cli::new(host, "vppctl", socket),
            sides: Sides::new(ports, networks),
            kernel_ports: None,
            sets_macs: false,
            undo,
            instance: None,
            clock_hz: OnceLock::new(),
        }
    }

    /// Returns the DUT with another path of `vppctl`.
    pub fn with_program(self, vppctl: &str) -> Vpp {
        Vpp {
            cli: self.cli.with_program(vppctl),
            ..self
        }
    }

    /// Creates a DUT of our own VPP on ports of the kernel, input and output.
    ///
    /// # Errors
    /// VPP does not accept the ports.
    pub(crate) fn on_kernel_ports(
        instance: Instance,
        kernel_ports: [&str; 2],
        networks: Networks,
        undo: Arc<Undo>,
    ) -> Result<Vpp, LabError> {
        let mut lines = String::new();
        for port in kernel_ports {
            lines += &format!("create host-interface name {port}\n");
        }
        let made = instance.cli.run_lines(&lines, Limit::OURS);
        made.map_err(|error| match error {
            LabError::Vpp { dut, reason: why } => LabError::Vpp {
                dut,
                reason: format!(
                    "{why}. It said: {}. Its ring of frames is locked in memory: run fwdlab as root, or see ulimit -l",
                    instance.last_output()
                ),
            },
            other => other,
        })?;
        let host = instance.cli.host().clone();
        Ok(Vpp {
            cli: instance.cli.clone(),
            kernel_ports: Some(kernel_ports.map(str::to_owned)),
            sets_macs: true,
            instance: Some(instance),
            ..Vpp::new(
                host,
                "",
                kernel_ports.map(of_kernel).each_ref().map(String::as_str),
                networks,
                undo,
            )
        })
    }

    /// Makes a VPP in a virtual machine forward between ports of the kernel there, whose rings have
    /// room for this number of frames.
    ///
    /// Its ports poll, so that it is never idle. A ring of one block (`v2`) needs no timer to hand
    /// frames over. The kernel's ports keep their MAC addresses: their frames have one reader.
    ///
    /// # Errors
    /// VPP does not accept a line.
    pub(crate) fn in_guest(
        cli: Cli,
        kernel_ports: [&str; 2],
        networks: Networks,
        ring: u32,
        undo: Arc<Undo>,
    ) -> Result<Vpp, LabError> {
        let ports = kernel_ports.map(of_kernel);
        let vpp = Vpp {
            cli: cli.clone(),
            ..Vpp::new(
                cli.host().clone(),
                "",
                ports.each_ref().map(String::as_str),
                networks,
                undo,
            )
        };
        let mut lines = String::new();
        for ((side, port), kernel_port) in vpp.sides.each().into_iter().zip(kernel_ports) {
            let own = mac(side.dut_mac);
            lines += &format!(
                "create host-interface v2 name {kernel_port} hw-addr {own} rx-size 2048 rx-per-block {ring} tx-size 2048\n\
                 set interface rx-mode {port} polling\n"
            );
        }
        vpp.cli.run_lines(&lines, Limit::OURS)?;
        vpp.prepare()?;
        Ok(vpp)
    }

    fn host(&self) -> &Arc<dyn Host> {
        self.cli.host()
    }

    /// Like [`Undo::changing`], on its host.
    fn changing(
        &self,
        action: &str,
        undo_commands: Command,
        work: impl FnOnce() -> Result<(), LabError>,
    ) -> Result<Change, LabError> {
        self.undo.changing(self.host(), action, undo_commands, work)
    }

    /// Returns one of its interfaces.
    fn interface(&self, port: &str) -> Result<Interface, LabError> {
        let all = counters::interfaces(&self.cli.query("show interface")?);
        all.get(port).copied().ok_or_else(|| LabError::Vpp {
            dut: self.host().name().to_owned(),
            reason: format!(
                "it has no interface {port}: `vppctl show interface` tells which it has"
            ),
        })
    }

    /// Replaces an error by VPP's last output if it has ended.
    fn with_last_output(&self, error: LabError) -> LabError {
        let instance = self.instance.as_ref();
        match instance.and_then(|instance| instance.last_words(DYING)) {
            None => error,
            Some(words) => LabError::Vpp {
                dut: self.host().name().to_owned(),
                reason: format!("it {words}"),
            },
        }
    }

    /// Returns the lines that one step of a configuration makes VPP execute.
    fn lines(&self, step: &Step) -> Result<String, LabError> {
        match step {
            Step::Shell(text) => Ok(text.clone()),
            Step::Vpp(path) => std::fs::read_to_string(path)
                .map_err(|e| LabError::system(format!("read {}", path.display()), e)),
            Step::Execute(path)
            | Step::Nft(path)
            | Step::Sysctl(path)
            | Step::Object(Object { path, .. }) => {
                refuse(self, format!("apply {}", path.display()), LINES)
            }
            Step::Folder(folder) => refuse(self, format!("apply {}", folder.path.display()), LINES),
            Step::Generated(one) => refuse(self, format!("apply {}", one.family.name), LINES),
        }
    }

    /// Reads the counters of frames that VPP dropped, or that never reached it.
    fn readings(&self) -> Result<Readings, LabError> {
        Ok(Readings {
            at: Instant::now(),
            interfaces: counters::interfaces(&self.cli.query("show interface")?),
            errors: counters::errors(&self.cli.query("show errors")?),
            kernel: self.kernel_counters()?,
        })
    }

    fn kernel_counters(&self) -> Result<Option<PortPair<Counted>>, LabError> {
        let Some([input, output]) = &self.kernel_ports else {
            return Ok(None);
        };
        let host = self.host().as_ref();
        let table = read_counters(host)?;
        Ok(Some(PortPair {
            input: counters_of(&table, input, host)?,
            output: counters_of(&table, output, host)?,
        }))
    }

    /// Returns the cost of forwarding since these readings.
    fn work_since(&self, before: &Readings) -> Result<Work, LabError> {
        let runtime = self.cli.query("show runtime")?;
        let threads = runtime::parse(&runtime).map_err(|line| LabError::Vpp {
            dut: self.host().name().to_owned(),
            reason: format!("`show runtime` says \"{line}\", which fwdlab does not understand: is it a newer VPP?"),
        })?;
        let after = self.readings()?;
        let mut drops = counters::dropped(&before.errors, &after.errors);
        drops.extend(self.not_fetched(before, &after));
        Ok(Work {
            duration_s: after.at.duration_since(before.at).as_secs_f64(),
            clock_hz: self.clock_hz()?,
            nodes: runtime::nodes(&threads),
            drops,
            ..Work::default()
        })
    }

    fn clock_hz(&self) -> Result<Option<f64>, LabError> {
        if let Some(known) = self.clock_hz.get() {
            return Ok(*known);
        }
        let reported = base_frequency(&self.cli.query("show cpu")?);
        Ok(*self.clock_hz.get_or_init(|| reported))
    }

    /// Returns the frames that the kernel's ports received and VPP did not: the ring between them
    /// was full.
    fn not_fetched(&self, before: &Readings, after: &Readings) -> Option<Reason> {
        let (kernel_before, kernel_after) = (before.kernel?, after.kernel?);
        let mut frames = 0;
        for (port, kernel) in [
            (
                &self.sides.ports[0],
                (kernel_before.input, kernel_after.input),
            ),
            (
                &self.sides.ports[1],
                (kernel_before.output, kernel_after.output),
            ),
        ] {
            let of = |readings: &Readings| {
                let interface = readings.interfaces.get(port).copied().unwrap_or_default();
                interface.counted.rx_packets
            };
            let returned = kernel.1.rx_packets.saturating_sub(kernel.0.rx_packets);
            let fetched = of(after).saturating_sub(of(before));
            frames += returned.saturating_sub(fetched);
        }
        (frames > 0).then(|| Reason {
            reason: "af-packet-input: the kernel's ring to VPP was full".into(),
            frames,
        })
    }
}

/// Returns VPP's name of an interface on a port of the kernel.
fn of_kernel(port: &str) -> String {
    format!("host-{port}")
}

/// Counters before or after a trial.
struct Readings {
    at: Instant,
    interfaces: BTreeMap<String, Interface>,
    errors: BTreeMap<(String, String), u64>,
    kernel: Option<PortPair<Counted>>,
}

/// `Base frequency:           2.5955 GHz`: the rate of the counter in which VPP counts clocks.
fn base_frequency(text: &str) -> Option<f64> {
    let line = text
        .lines()
        .find(|line| line.starts_with("Base frequency"))?;
    let mut words = line.split_once(':')?.1.split_whitespace();
    let number: f64 = words.next()?.parse().ok()?;
    match words.next()? {
        "GHz" => Some(number * 1e9),
        "MHz" => Some(number * 1e6),
        _ => None,
    }
}

/// How long its threads waited is not read: they share their CPU with the kernel's thread that
/// passes frames to them, and waiting for that is not a disturbance.
impl Dut for Vpp {
    fn name(&self) -> &str {
        self.host().name()
    }

    fn kind(&self) -> &'static str {
        ", which is VPP"
    }

    fn prepare(&self) -> Result<BTreeMap<String, String>, LabError> {
        self.address()?;
        let version = self.cli.query("show version")?;
        Ok([("vpp".to_owned(), version.trim().to_owned())].into())
    }

    fn apply(&self, configuration: &Configuration, control: &Control) -> Result<String, LabError> {
        let limit = Limit {
            time: LIMIT,
            is_stopped: &|| control.is_stopped(),
        };
        configuration.each(|step| {
            let done = self
                .lines(step)
                .and_then(|lines| self.cli.run_lines(&lines, limit));
            done.map_err(|error| match error {
                LabError::Interrupted => LabError::Interrupted,
                error => self.with_last_output(error),
            })
        })
    }

    fn route(&self, routes: &[Route]) -> Result<String, LabError> {
        self.add_routes(routes)
    }

    fn set(
        &self,
        swept: &SweptParameter,
        version: IpVersion,
        value: u64,
        control: &Control,
    ) -> Result<Option<Change>, LabError> {
        match swept {
            SweptParameter::Stream | SweptParameter::Units => Ok(None),
            SweptParameter::Cores => refuse(
                self,
                format!("set {value} cores"),
                "its workers are set when it starts: measure each number in a separate campaign, with workers in [dut]",
            ),
            SweptParameter::Rules => self.set_rules(version, value).map(Some),
            SweptParameter::Routes => self.set_routes(version, value).map(Some),
            SweptParameter::Command { apply, undo } => {
                let limit = Limit {
                    time: LIMIT,
                    is_stopped: &|| control.is_stopped(),
                };
                set_by_command(
                    (apply, undo.as_deref()),
                    value,
                    (&self.undo, self.host()),
                    |text| self.cli.each(text).called(text),
                    |text| self.cli.run_lines(text, limit),
                )
            }
        }
    }

    fn filter(
        &self,
        permitted: &[(String, String)],
        rules: u32,
        report: &mut dyn FnMut(String) -> Result<(), LabError>,
    ) -> Result<Change, LabError> {
        self.set_filters(permitted, rules, report)
    }

    /// The host of its machine; our own VPP is a part of this machine, and takes only lines of its
    /// command line.
    fn place(&self) -> Option<Arc<dyn Host>> {
        (self.instance.is_none()).then(|| self.cli.host().clone())
    }

    fn counters(&self) -> Result<Option<PortPair<Counted>>, LabError> {
        if let Some(counted) = self.kernel_counters()? {
            return Ok(Some(counted));
        }
        Ok(Some(PortPair {
            input: self.interface(self.sides.port(End::Input))?.counted,
            output: self.interface(self.sides.port(End::Output))?.counted,
        }))
    }

    fn port_problems(&self) -> Result<Vec<String>, LabError> {
        let instance = self.instance.as_ref();
        if let Some(words) = instance.and_then(|one| one.last_words(Duration::ZERO)) {
            return Ok(vec![format!("VPP in {} {words}", self.name())]);
        }
        if let Some(ports) = &self.kernel_ports {
            return port_problems(self.host().as_ref(), ports);
        }
        let mut problem = Vec::new();
        for port in &self.sides.ports {
            if !self.interface(port)?.is_up {
                problem.push(format!("{port} of VPP on {} is down", self.name()));
            }
        }
        Ok(problem)
    }

    fn link_changes(&self) -> Result<BTreeMap<String, u64>, LabError> {
        match &self.kernel_ports {
            Some(ports) => link_changes(self.host().as_ref(), ports),
            None => Ok(BTreeMap::new()),
        }
    }

    fn account(&self) -> Result<Option<Account<'_>>, LabError> {
        let begin = || {
            self.cli.query("clear runtime")?;
            self.readings()
        };
        let before = begin().map_err(|error| self.with_last_output(error))?;
        Ok(Some(Box::new(move || {
            let work = self.work_since(&before);
            work.map_err(|error| self.with_last_output(error))
        })))
    }

    fn is_kernel(&self) -> bool {
        false
    }

    fn undo_change(&self, change: Change, limit: Limit<'_>) -> Result<(), LabError> {
        Ok(self.undo.undo_change(change, limit)?)
    }

    fn undo(&self) -> Vec<String> {
        self.undo.undo_all(Limit::OURS)
    }
}
