//! A FreeBSD DUT that forwards in a jail with its own network stack (VNET), to which both ports are
//! moved.
//!
//! Counters, port states and telemetry are then read in the jail. Whatever is set in the jail
//! vanishes with it, so only the jail itself has to be removed. Like all of this kind of DUT, it
//! has not yet been run on a real system. Start with [`FreeBsd::jail`].

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fwdlab_model::family::Generated;

use super::{FreeBsd, SYSCTLS};
use crate::dut::Change;
use crate::dut::refuse;
use crate::dut::set::{Configuration, Step};
use crate::dut::unix::Unix;
use crate::error::LabError;
use crate::host::not_understood;
use crate::host::{Address, Command, Files, Host, HostError, Limit, Output, Process};

/// The jail's name.
const NAME: &str = "fwdlab_dut";

/// The family that creates it.
pub(super) const FAMILY: &str = "vnet-jail";

/// Shows that it is in force: a name and a command.
pub(super) const SHOW: (&str, &str) = (
    "jail",
    "jls -j fwdlab_dut; jexec fwdlab_dut ifconfig; jexec fwdlab_dut netstat -rn; jexec fwdlab_dut sysctl net.inet.ip.forwarding",
);

/// A host whose commands run in the jail, which shares the host's files.
#[derive(Debug)]
struct Jail(Arc<dyn Host>);

/// Returns the command that runs `command` in the jail.
fn within(command: &Command) -> Command {
    let mut inside = command.clone();
    let jexec = ["jexec", NAME].map(str::to_owned);
    inside.words.splice(0..0, jexec);
    inside.called(format!("jexec {NAME} {command}"))
}

impl Host for Jail {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn address(&self) -> Address {
        self.0.address()
    }

    fn run(&self, command: &Command, limit: Limit<'_>) -> Result<Output, HostError> {
        self.0.run(&within(command), limit)
    }

    fn start(&self, command: &Command) -> Result<Box<dyn Process>, HostError> {
        self.0.start(&within(command))
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        self.0.read(path)
    }

    fn write(&self, path: &str, content: &[u8]) -> Result<(), HostError> {
        self.0.write(path, content)
    }

    fn put(&self, ours: &Path) -> Result<String, HostError> {
        self.0.put(ours)
    }

    fn files(&self) -> Files {
        self.0.files()
    }
}

/// Checks that no other family is generated with a jail, because a jail has its own tables, which
/// other families do not reach.
///
/// # Errors
/// The configuration generates another family, too.
pub(super) fn check_alone(configuration: &Configuration) -> Result<(), LabError> {
    let families = configuration.steps().iter().filter_map(|step| match step {
        Step::Generated(Generated { family, .. }) => Some(family.name),
        _ => None,
    });
    let families: Vec<&str> = families.collect();
    match families.iter().find(|name| **name != FAMILY) {
        Some(other) if families.contains(&FAMILY) => Err(LabError::Configuration {
            name: configuration.name.clone(),
            reason: format!(
                "{FAMILY} cannot be combined with {other}, which would be set on the host, and frames pass the jail. Write commands instead: \
                 jexec {NAME} ..."
            ),
        }),
        _ => Ok(()),
    }
}

impl FreeBsd {
    /// Returns the host on which the ports of the test are.
    pub(super) fn inside(&self) -> Arc<dyn Host> {
        match self.is_jailed.load(Ordering::Relaxed) {
            true => Arc::new(Jail(self.host.clone())),
            false => self.host.clone(),
        }
    }

    /// Refuses to set something on the host while the DUT is a jail, because that affects no frame
    /// there.
    pub(super) fn check_outside(&self, action: &str) -> Result<(), LabError> {
        match self.is_jailed.load(Ordering::Relaxed) {
            true => refuse(
                self,
                format!("{action} of a jail"),
                format!("write a command: jexec {NAME} ..."),
            ),
            false => Ok(()),
        }
    }

    /// Creates the jail, moves both ports into it, and makes it the router that the host was.
    pub(super) fn jail(&self) -> Result<Change, LabError> {
        if self.setting("kern.features.vimage")?.as_deref() != Some("1") {
            return Err(LabError::Preflight(format!(
                "{} has no jails with a network stack of their own: its kernel is without VIMAGE, which FreeBSD 12 and later have",
                self.host.name()
            )));
        }
        let look = Command::shell(&format!("jls -j {NAME} name 2>/dev/null || echo none"));
        let look = look.called(format!("jls -j {NAME} name"));
        let there = self.host.run(&look, Limit::OURS)?;
        match String::from_utf8_lossy(&there.stdout).trim() {
            "none" => {}
            NAME => {
                return Err(LabError::Preflight(format!(
                    "{} has a jail {NAME} already: remove it there with `jail -r {NAME}`",
                    self.host.name()
                )));
            }
            other => return Err(not_understood(self.host.as_ref(), &look.to_string(), other)),
        }
        let each = |text: &dyn Fn(&str) -> String| {
            self.sides
                .ports
                .iter()
                .map(|port| text(port))
                .collect::<String>()
        };
        // ports return by themselves when the jail ends, unless it ends slowly
        let undo = format!(
            "set -e\njls -j {NAME} >/dev/null 2>&1 || exit 0\n{}jail -r {NAME}\n{}",
            each(&|port| format!("ifconfig {port} -vnet {NAME} 2>/dev/null || :\n")),
            each(&|port| format!("ifconfig {port} >/dev/null\n"))
        );
        let undo = self.script("remove the jail", &undo);
        let make = format!(
            "set -e\njail -c name={NAME} path=/ host.hostname={NAME} vnet persist\n{}",
            each(&|port| format!("ifconfig {port} vnet {NAME}\n"))
        );
        let has_ipv6 = self.has_ipv6()?;
        let settings = SYSCTLS
            .iter()
            .filter(|(name, _)| has_ipv6 || !name.contains("inet6"));
        let settings: String = settings
            .map(|(name, value)| format!("sysctl {name}={value}\n"))
            .collect();
        let (addresses, _) = self.addressing(has_ipv6);
        let (routes, _) = self.routing(&self.routes());
        let inside = Jail(self.host.clone());
        let change = self.changing("a jail with both ports", undo, || {
            let make = self.script("set up a jail with both ports", &make);
            self.host.run(&make, Limit::OURS)?;
            let router = format!("set -e\n{settings}{addresses}{routes}");
            inside.run(
                &self.script("set addresses and routes", &router),
                Limit::OURS,
            )?;
            let there = inside.query("ifconfig", &["-l"])?;
            let there: Vec<&str> = there.split_whitespace().collect();
            if let Some(port) = self
                .sides
                .ports
                .iter()
                .find(|port| !there.contains(&port.as_str()))
            {
                return Err(self.not_kept(format!(
                    "{port} is not in the jail, which has {}",
                    there.join(" ").escape_debug()
                )));
            }
            let forwards = inside.query("sysctl", &["-n", "net.inet.ip.forwarding"])?;
            match forwards.trim() {
                "1" => Ok(()),
                other => Err(self.not_kept(format!(
                    "net.inet.ip.forwarding of the jail should be 1, and is {}",
                    other.escape_debug()
                ))),
            }
        })?;
        self.is_jailed.store(true, Ordering::Relaxed);
        Ok(change)
    }
}
