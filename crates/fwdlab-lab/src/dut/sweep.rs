//! The parameter of a sweep: set on the DUT, verified there, and undone before the next value.
//!
//! Flows and frame sizes are set by the tester, so nothing is set for them here. Each kind of DUT
//! sets values in its own file, for Linux `linux/tables.rs`. Start with [`SweptParameter::new`] and
//! [`Setting::set`].

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use fwdlab_model::campaign::Sweep;
use fwdlab_model::trial::IpVersion;

use super::{Change, Dut};
use crate::control::Control;
use crate::error::LabError;
use crate::host::undo::Undo;
use crate::host::{Command, Host, Limit};

/// Time limit for undoing a value.
const LIMIT: Duration = Duration::from_secs(60);

/// Maximum number of rules: the usual series goes to ten thousand (docs/methodology.md, "Sweeps").
const MOST_RULES: u64 = 100_000;

/// Maximum number of routes: more than the Internet has.
pub(super) const MOST_ROUTES: u64 = 2_000_000;

/// What a sweep varies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SweptParameter {
    /// Flows or frame sizes: what the tester sends.
    Stream,
    /// CPUs of the DUT.
    Cores,
    /// Units that cost a simulated DUT time.
    Units,
    /// nftables rules that match nothing, before the rest of the forwarding.
    Rules,
    /// Routes that no frame takes.
    Routes,
    /// The effect of a user's command.
    Command {
        /// Sets a value, which replaces `{}`.
        apply: String,
        /// Undoes it.
        undo: Option<String>,
    },
}

/// Sets a value with a user's command. `command` prepares a text for the DUT, `run` runs one there.
pub(super) fn set_by_command(
    (apply, undo): (&str, Option<&str>),
    value: u64,
    (undo_list, host): (&Undo, &Arc<dyn Host>),
    command: impl Fn(&str) -> Command,
    run: impl Fn(&str) -> Result<String, LabError>,
) -> Result<Option<Change>, LabError> {
    let text = |of: &str| of.replace("{}", &value.to_string());
    let work = || run(&text(apply)).map(drop);
    let Some(undo) = undo else {
        return work().map(|()| None);
    };
    let action = format!("what `{}` did", text(apply));
    let undo = command(&text(undo));
    undo_list.changing(host, &action, undo, work).map(Some)
}

impl SweptParameter {
    /// Returns what a sweep varies, on a simulated DUT or on a bed with this number of CPUs for the
    /// DUT.
    ///
    /// # Errors
    /// The bed does not support it, or a value is out of range.
    pub fn new(sweep: &Sweep, simulated: bool, dut_cpus: usize) -> Result<SweptParameter, String> {
        let (swept, least, most) = match (sweep.parameter.as_str(), &sweep.apply) {
            ("flows" | "size" | "rules" | "routes" | "cores", Some(_)) => {
                return Err(format!(
                    "{} is set by fwdlab itself; choose another name for the parameter of apply",
                    sweep.parameter
                ));
            }
            ("flows" | "size", None) => (SweptParameter::Stream, 1, u64::MAX),
            ("cores", None) if simulated => (SweptParameter::Cores, 1, 1024),
            ("cores", None) => (SweptParameter::Cores, 1, dut_cpus as u64),
            (_, _) if simulated => (SweptParameter::Units, 0, u64::MAX),
            ("rules", None) => (SweptParameter::Rules, 0, MOST_RULES),
            ("routes", None) => (SweptParameter::Routes, 0, MOST_ROUTES),
            (_, Some(apply)) => {
                let command = SweptParameter::Command {
                    apply: apply.clone(),
                    undo: sweep.undo.clone(),
                };
                (command, 0, u64::MAX)
            }
            (name, None) => {
                return Err(format!(
                    "unknown parameter `{name}`: fwdlab sets flows, size, rules, routes and cores; for anything else give \
                     apply = \"a command with {{}}\""
                ));
            }
        };
        match sweep
            .values
            .iter()
            .find(|value| !(least..=most).contains(value))
        {
            Some(value) if swept == SweptParameter::Cores && !simulated => Err(format!(
                "{value} cores: the DUT has {dut_cpus} of them; give it more with dut-cpus in [bed], or, on a bed of hosts, with cpus in [dut] of its file"
            )),
            Some(value) => Err(format!(
                "{value} {}: it must be {least} to {most}",
                sweep.parameter
            )),
            None => Ok(swept),
        }
    }

    /// Describes what is done on the DUT; `None` if nothing is.
    pub fn words(&self) -> Option<String> {
        match self {
            SweptParameter::Stream | SweptParameter::Units => None,
            SweptParameter::Cores => {
                Some("packet steering spreads flows over the first N of its CPUs".into())
            }
            SweptParameter::Rules => Some(
                "N nftables rules that match nothing, in a chain of their own at the forward hook"
                    .into(),
            ),
            SweptParameter::Routes => Some("N routes to networks that no frame is sent to".into()),
            SweptParameter::Command { apply, .. } => {
                Some(format!("{apply}   with every value for {{}}"))
            }
        }
    }
}

/// A parameter of the DUT with its current value.
pub(crate) struct Setting {
    parameter: String,
    swept: SweptParameter,
    current: Option<u64>,
    /// How the DUT undoes it, if it can.
    change: Option<Change>,
}

impl Setting {
    /// Creates a parameter without a value.
    pub fn new(parameter: &str, swept: SweptParameter) -> Setting {
        Setting {
            parameter: parameter.to_owned(),
            swept,
            current: None,
            change: None,
        }
    }

    /// Returns the name of the parameter.
    pub fn parameter(&self) -> &str {
        &self.parameter
    }

    /// Sets the value, unless it is set already; returns whether it did.
    ///
    /// # Errors
    /// The value could not be set, or the DUT's tables differ.
    pub fn set(
        &mut self,
        dut: &dyn Dut,
        version: IpVersion,
        value: u64,
        control: &Control,
    ) -> Result<bool, LabError> {
        if self.current == Some(value) {
            return Ok(false);
        }
        let result = self
            .undo(dut, control)
            .and_then(|()| dut.set(&self.swept, version, value, control));
        self.change = result.map_err(|error| match error {
            LabError::Interrupted => LabError::Interrupted,
            source => LabError::NotSet {
                parameter: self.parameter.clone(),
                value,
                source: Box::new(source),
            },
        })?;
        self.current = Some(value);
        Ok(true)
    }

    /// Forgets the value, because the DUT is a new one on which nothing is set.
    pub fn forget(&mut self) {
        (self.current, self.change) = (None, None);
    }

    /// Undoes the current value.
    ///
    /// # Errors
    /// It cannot be undone.
    pub fn undo(&mut self, dut: &dyn Dut, control: &Control) -> Result<(), LabError> {
        self.current = None;
        let limit = Limit {
            time: LIMIT,
            is_stopped: &|| control.is_stopped(),
        };
        match self.change.take() {
            Some(change) => dut.undo_change(change, limit),
            None => Ok(()),
        }
    }
}

/// Returns addresses from 20.0.0.0 on: outside the benchmark's networks, with room for two million
/// networks.
pub(super) fn unused_v4(n: u64, step: u64) -> Ipv4Addr {
    Ipv4Addr::from((20 << 24) + (n * step) as u32)
}

/// Returns addresses of 2001:db8::/32, which is reserved for documentation.
pub(super) fn unused_v6(n: u128) -> Ipv6Addr {
    Ipv6Addr::from((0x2001_0db8_u128 << 96) + n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(parameter: &str, values: &[u64], apply: Option<&str>) -> Sweep {
        Sweep {
            parameter: parameter.into(),
            values: values.to_vec(),
            runs: 1,
            apply: apply.map(str::to_owned),
            undo: None,
        }
    }

    #[test]
    fn what_can_be_swept() {
        let of = |parameter, values: &[u64], apply, simulated| {
            SweptParameter::new(&sweep(parameter, values, apply), simulated, 2)
        };
        assert_eq!(
            of("flows", &[1, 2], None, false),
            Ok(SweptParameter::Stream)
        );
        assert_eq!(of("rules", &[0, 2], None, false), Ok(SweptParameter::Rules));
        assert_eq!(of("rules", &[0, 2], None, true), Ok(SweptParameter::Units));
        assert_eq!(of("states", &[0, 2], None, true), Ok(SweptParameter::Units));
        assert_eq!(of("cores", &[1, 2], None, false), Ok(SweptParameter::Cores));
        for (parameter, values, apply, words) in [
            ("states", &[0, 2][..], None, "unknown parameter `states`"),
            ("rules", &[0, 2], Some("x {}"), "another name"),
            ("rules", &[0, 1_000_000], None, "0 to 100000"),
            ("cores", &[1, 4], None, "4 cores: the DUT has 2"),
            ("cores", &[0, 1], None, "0 cores: the DUT has 2"),
        ] {
            let error = of(parameter, values, apply, false).unwrap_err();
            assert!(error.contains(words), "{parameter}: {error}");
        }
    }
}
