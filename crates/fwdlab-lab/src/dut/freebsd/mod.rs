//! A FreeBSD machine as a DUT, or BSDRP and other nanobsd images of it: **not yet run on a real
//! system**.
//!
//! Built from FreeBSD's manuals, sources and recorded output, and tested against a scripted
//! machine. Settings are read back; the command that undoes a change is recorded before the change
//! is made. [`apply`] handles configurations and images, [`tables`] rules, tables and routes,
//! [`jail`] a DUT that forwards in a jail, [`read`] the output of programs. Refuses what it cannot
//! do. Start with [`FreeBsd::new`].

mod apply;
mod jail;
mod read;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fwdlab_model::procedure::Moment;
use fwdlab_model::reset::Reset;
use fwdlab_model::trial::IpVersion;

use super::daemons::{Daemons, EndedDaemon};
use super::unix::{LIMIT, Unix};
use super::{
    Agent, Change, Configuration, Dut, PlannedReset, PortPair, Route, Sides, SweptParameter,
    refuse, run_reset, timed,
};
use crate::control::Control;
use crate::error::LabError;
use crate::host::not_understood;
use crate::host::undo::Undo;
use crate::host::{Command, Host, Limit, Process, quoted};
use crate::interfaces::Counted;
use crate::networks::{End, Networks, mac};
use crate::telemetry::{Observed, System};

/// Added to every result.
pub const NOT_YET_RUN: &str = "this kind of DUT has not yet been run on the real thing: it is built from FreeBSD's documentation";

/// What is set, and why. Everything else keeps the kernel's value.
const SYSCTLS: &[(&str, &str)] = &[
    ("net.inet.ip.forwarding", "1"),
    ("net.inet6.ip6.forwarding", "1"),
    // no frames from the DUT itself
    ("net.inet.ip.redirect", "0"),
    ("net.inet6.ip6.redirect", "0"),
    ("net.inet6.ip6.dad_count", "0"),
];

/// A shell function that runs a command to remove something that may be gone already.
const GONE: &str = "\
gone() {
    said=$(\"$@\" 2>&1) && return 0
    case $said in
    *'not in table'*|*'not been found'*|*'requested address'*|*'annot locate'*|*'o entry'*|*'does not exist'*|*'not found'*) return 0 ;;
    esac
    echo \"$said\" >&2
    return 1
}
";

/// The kind of system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FreebsdKind {
    /// A default installation, on a writable disk.
    #[default]
    Plain,
    /// BSDRP, a nanobsd: its disk is read-only, changes that must survive a restart are saved
    /// (`config save`).
    Bsdrp,
}

/// A DUT that runs FreeBSD.
#[derive(Debug)]
pub struct FreeBsd {
    host: Arc<dyn Host>,
    making: FreebsdKind,
    sides: Sides,
    /// Time limit of users' commands.
    patience: Duration,
    undo: Arc<Undo>,
    /// Daemons of its configuration.
    daemons: Daemons,
    /// True if its ports are in a jail.
    is_jailed: AtomicBool,
    /// Routes for test frames that were added.
    routes: Mutex<Vec<Route>>,
}

impl FreeBsd {
    /// Creates a DUT on this host with these ports (input and output) between these networks.
    pub fn new(
        host: Arc<dyn Host>,
        making: FreebsdKind,
        ports: [&str; 2],
        networks: Networks,
        undo: Arc<Undo>,
    ) -> FreeBsd {
        FreeBsd {
            daemons: Daemons::for_run(host.name(), "/var/run"),
            host,
            making,
            sides: Sides::new(ports, networks),
            patience: LIMIT,
            undo,
            is_jailed: AtomicBool::new(false),
            routes: Mutex::default(),
        }
    }

    /// Like [`Undo::changing`], on its host.
    fn changing(
        &self,
        action: &str,
        undo_commands: Command,
        work: impl FnOnce() -> Result<(), LabError>,
    ) -> Result<Change, LabError> {
        self.undo.changing(&self.host, action, undo_commands, work)
    }

    /// Sets settings, and reads them back. Returns the values by name; those of missing settings,
    /// if `may_miss` permits that, begin with `not set`.
    fn set_settings(
        &self,
        action: &str,
        requested: &[(String, String)],
        may_miss: &dyn Fn(&str) -> bool,
    ) -> Result<BTreeMap<String, String>, LabError> {
        let (mut set, mut missing) = (BTreeMap::new(), BTreeSet::new());
        let (mut undo, mut script) = (String::new(), String::new());
        for (name, value) in requested {
            match self.setting(name)? {
                Some(before) => {
                    if before != *value {
                        // the last that was set is restored first
                        undo = format!("sysctl {}\n{undo}", quoted(&format!("{name}={before}")));
                    }
                    let _ = writeln!(script, "sysctl {}", quoted(&format!("{name}={value}")));
                    set.insert(name.clone(), value.clone());
                }
                None if may_miss(name) => {
                    missing.insert(name);
                    set.insert(
                        name.clone(),
                        "not set: the kernel has no such setting".into(),
                    );
                }
                None => {
                    return Err(LabError::Preflight(format!(
                        "{} has no setting {name}: look for it there with `sysctl -a`, or leave it out",
                        self.host.name()
                    )));
                }
            }
        }
        let undo = self.script(&format!("restore {action}"), &format!("set -e\n{undo}"));
        let script = self.script(&format!("set {action}"), &format!("set -e\n{script}"));
        self.changing(action, undo, || {
            self.host.run(&script, Limit::OURS)?;
            for (name, value) in requested.iter().filter(|(name, _)| !missing.contains(name)) {
                let found = self.setting(name)?.unwrap_or_default();
                if !super::set::settings::matches_value(&found, value) {
                    return Err(self.not_kept(format!("{name} should be {value}, and is {found}")));
                }
            }
            Ok(())
        })?;
        Ok(set)
    }

    /// Returns a command that runs a text of any length with `sh`, shown under this name.
    fn script(&self, name: &str, text: &str) -> Command {
        Command::new("sh", &["-s"]).with_input(text).called(name)
    }

    /// Returns the script that sets addresses, next hops and routes of the bed, and the one that
    /// removes them.
    fn addressing(&self, has_ipv6: bool) -> (String, String) {
        let (mut script, mut undo) = ("set -e\n".to_owned(), format!("set -e\n{GONE}"));
        for (side, port) in self.sides.each() {
            let lladdr = mac(side.tester_mac);
            let (v4, v6) = (&side.ipv4, &side.ipv6);
            let behind = side.prefix(IpVersion::Ipv4);
            let _ = write!(
                script,
                "ifconfig {port} inet {}/{} alias\nifconfig {port} up\narp -S {next} {lladdr}\n\
                 route -n add -net {behind} {next} || route -n change -net {behind} {next}\n",
                v4.dut,
                v4.length,
                next = v4.next_hop
            );
            let _ = write!(
                undo,
                "gone route -n delete -net {behind} {next}\ngone arp -d {next}\ngone ifconfig {port} inet {} -alias\n",
                v4.dut,
                next = v4.next_hop
            );
            if has_ipv6 {
                let behind = side.prefix(IpVersion::Ipv6);
                let _ = write!(
                    script,
                    "ifconfig {port} inet6 -ifdisabled\nifconfig {port} inet6 {}/{} alias\nndp -s {next} {lladdr}\n\
                     route -n add -6 -net {behind} {next} || route -n change -6 -net {behind} {next}\n",
                    v6.dut,
                    v6.length,
                    next = v6.next_hop
                );
                let _ = write!(
                    undo,
                    "gone route -n delete -6 -net {behind} {next}\ngone ndp -d {next}\ngone ifconfig {port} inet6 {} -alias\n",
                    v6.dut,
                    next = v6.next_hop
                );
            }
        }
        (script, undo)
    }

    /// Returns the routes for test frames that were added so far.
    fn routes(&self) -> Vec<Route> {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes.clone()
    }

    fn has_ipv6(&self) -> Result<bool, LabError> {
        Ok(self.setting("net.inet6.ip6.forwarding")?.is_some())
    }
}

impl Dut for FreeBsd {
    fn name(&self) -> &str {
        self.host.name()
    }

    fn kind(&self) -> &'static str {
        ", which is FreeBSD"
    }

    fn prepare(&self) -> Result<BTreeMap<String, String>, LabError> {
        let requested = SYSCTLS
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let requested: Vec<(String, String)> = requested.collect();
        let mut set = self.set_settings("settings of a router", &requested, &|name| {
            name.contains("inet6")
        })?;
        let has_ipv6 = set["net.inet6.ip6.forwarding"] == "1";
        let (script, undo) = self.addressing(has_ipv6);
        let action = "addresses and routes of the bed";
        let undo = self.script("take addresses and routes of the bed back", &undo);
        self.changing(action, undo, || {
            self.host
                .run(&self.script(&format!("set {action}"), &script), Limit::OURS)?;
            Ok(())
        })?;
        set.insert("note".into(), NOT_YET_RUN.into());
        Ok(set)
    }

    fn apply(&self, configuration: &Configuration, control: &Control) -> Result<String, LabError> {
        configuration.check_for(System::FreeBsd)?;
        jail::check_alone(configuration)?;
        self.apply_steps(configuration, control)
    }

    fn daemons_ended(&self) -> Result<Vec<EndedDaemon>, LabError> {
        self.daemons.ended(self.host.as_ref())
    }

    fn find_new_daemons(&self) -> Result<(), LabError> {
        self.daemons.find_daemons(self.host.as_ref())
    }

    fn in_force(
        &self,
        configuration: &Configuration,
    ) -> Result<BTreeMap<String, String>, LabError> {
        self.snapshot(configuration)
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
                "sweep cores",
                "set net.isr.maxthreads in loader.conf of a configuration set for every number",
            ),
            SweptParameter::Rules => {
                self.check_outside("set rules")?;
                self.set_rules(version, value).map(Some)
            }
            SweptParameter::Routes => {
                self.check_outside("set routes")?;
                self.set_routes(version, value).map(Some)
            }
            SweptParameter::Command { apply, undo } => {
                self.set_with_command((apply, undo.as_deref()), value, control)
            }
        }
    }

    fn plan_reset(&self, reset: &Reset) -> Result<PlannedReset, LabError> {
        if !matches!(reset, Reset::Command(_)) {
            self.check_outside("reset the ports")?;
        }
        let how = match reset {
            Reset::Forwarding => "\
sysctl net.inet.ip.forwarding=0; sysctl net.inet6.ip6.forwarding=0 2>/dev/null
sleep 1
sysctl net.inet6.ip6.forwarding=1 2>/dev/null; sysctl net.inet.ip.forwarding=1
"
            .into(),
            Reset::Interface => {
                let port = self.sides.port(End::Output);
                let (again, _) = self.addressing(self.has_ipv6()?);
                format!("ifconfig {port} down\nsleep 1\nifconfig {port} up\n{again}")
            }
            Reset::Command(command) => command.clone(),
        };
        Ok(PlannedReset {
            reset: reset.clone(),
            description: how,
        })
    }

    fn reset(&self, planned: &PlannedReset, limit: Limit<'_>) -> Result<Vec<Moment>, LabError> {
        let command = self.users_command(&timed(&planned.description));
        run_reset(self.host.as_ref(), command, planned, limit)
    }

    fn filter(
        &self,
        permitted: &[(String, String)],
        rules: u32,
        report: &mut dyn FnMut(String) -> Result<(), LabError>,
    ) -> Result<Change, LabError> {
        self.check_outside("set filters")?;
        self.set_filters(permitted, rules, report)
    }

    fn start_agent(&self, agent: &Agent<'_>) -> Result<(Box<dyn Process>, String), LabError> {
        let at = format!("start bsnmpd there, listening at {}", agent.at.0);
        refuse(self, "start an SNMP agent", &at)
    }

    fn place(&self) -> Option<Arc<dyn Host>> {
        Some(self.host.clone())
    }

    fn observed(&self) -> Option<Observed> {
        Some(Observed {
            system: System::FreeBsd,
            host: self.inside(),
            ports: self.sides.ports.to_vec(),
            cpus: Vec::new(),
        })
    }

    fn counters(&self) -> Result<Option<PortPair<Counted>>, LabError> {
        let inside = self.inside();
        let of = |end| {
            let port = self.sides.port(end);
            let words = ["-I", port, "-b", "-n", "-d", "--libxo", "json"];
            let printed = inside.query("netstat", &words)?;
            read::counters(&printed, port).ok_or_else(|| {
                not_understood(
                    self.host.as_ref(),
                    &format!("netstat {}", words.join(" ")),
                    &printed,
                )
            })
        };
        Ok(Some(PortPair {
            input: of(End::Input)?,
            output: of(End::Output)?,
        }))
    }

    fn port_problems(&self) -> Result<Vec<String>, LabError> {
        let mut problem = Vec::new();
        let inside = self.inside();
        for port in &self.sides.ports {
            let look = format!("ifconfig {port} 2>&1 || :");
            let look = Command::shell(&look).called(format!("ifconfig {port}"));
            let output = inside.run(&look, Limit::OURS)?.text();
            let state = match output.starts_with(&format!("{port}: ")) {
                true => read::state_problem(&output),
                false if output.contains("does not exist") => Some("is gone"),
                false => {
                    return Err(not_understood(
                        self.host.as_ref(),
                        &look.to_string(),
                        &output,
                    ));
                }
            };
            problem.extend(state.map(|state| format!("{port} in {} {state}", self.host.name())));
        }
        Ok(problem)
    }

    fn offloads(&self) -> BTreeMap<String, String> {
        let mut offloads = BTreeMap::new();
        let inside = self.inside();
        for port in &self.sides.ports {
            let Ok(output) = inside.query("ifconfig", &[port]) else {
                continue;
            };
            let on = read::options(&output);
            for name in ["rxcsum", "txcsum", "tso4", "tso6", "lro"] {
                let state = if on.iter().any(|one| one == name) {
                    "on"
                } else {
                    "off"
                };
                offloads.insert(format!("{port}:{name}"), state.to_owned());
            }
        }
        offloads
    }

    fn undo_change(&self, change: Change, limit: Limit<'_>) -> Result<(), LabError> {
        Ok(self.undo.undo_change(change, limit)?)
    }

    fn undo(&self) -> Vec<String> {
        let problem = self.undo.undo_all(Limit::OURS);
        self.is_jailed.store(false, Ordering::Relaxed);
        problem
    }
}
