//! What a sweep varies: set on the DUT, verified in the kernel's own tables, undone before the next value.
//!
//! Flows and frame sizes are the tester's, so that nothing is set for them. Everything happens in the namespace of the DUT and goes
//! with it. Start with [`Swept::of`] and [`Setting::set`].

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use fwdlab_model::campaign::Sweep;
use fwdlab_model::trial::IpVersion;

use crate::bed::Bed;
use crate::configuration::Configuration;
use crate::error::LabError;
use crate::host::Host;
use crate::run::Control;

/// Most rules: methods.md §6.3 goes to ten thousand.
const MOST_RULES: u64 = 100_000;

/// Most routes: more than the Internet has.
const MOST_ROUTES: u64 = 2_000_000;

/// Routes of ours, to be told from those of the bed (rtnetlink's `protocol`).
const PROTOCOL: &str = "198";

/// What a sweep varies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Swept {
    /// Flows or frame sizes: what the tester sends.
    Stream,
    /// CPUs of the DUT.
    Cores,
    /// Units that cost a simulated DUT time.
    Units,
    /// Rules of nftables that match nothing, in front of what passes.
    Rules,
    /// Routes that no frame takes.
    Routes,
    /// What a command of the user's does.
    Command { apply: String, undo: Option<String> },
}

impl Swept {
    /// What this sweep varies, on a simulated DUT or on a bed with so many CPUs for the DUT.
    ///
    /// # Errors
    /// The bed cannot do it, or a value is out of range.
    pub fn of(sweep: &Sweep, simulated: bool, dut_cpus: usize) -> Result<Swept, String> {
        let (swept, least, most) = match (sweep.parameter.as_str(), &sweep.apply) {
            ("flows" | "size" | "rules" | "routes" | "cores", Some(_)) => {
                return Err(format!(
                    "{} is set by fwdlab itself; give what apply does another name",
                    sweep.parameter
                ));
            }
            ("flows" | "size", None) => (Swept::Stream, 1, u64::MAX),
            ("cores", None) if simulated => (Swept::Cores, 1, 1024),
            ("cores", None) => (Swept::Cores, 1, dut_cpus as u64),
            (_, _) if simulated => (Swept::Units, 0, u64::MAX),
            ("rules", None) => (Swept::Rules, 0, MOST_RULES),
            ("routes", None) => (Swept::Routes, 0, MOST_ROUTES),
            (_, Some(apply)) => {
                let command = Swept::Command {
                    apply: apply.clone(),
                    undo: sweep.undo.clone(),
                };
                (command, 0, u64::MAX)
            }
            (name, None) => {
                return Err(format!(
                    "nothing is known of `{name}`: fwdlab sets flows, size, rules, routes and cores; for anything else say \
                     apply = \"a command with {{}}\""
                ));
            }
        };
        match sweep
            .values
            .iter()
            .find(|value| !(least..=most).contains(value))
        {
            Some(value) if swept == Swept::Cores && !simulated => Err(format!(
                "{value} cores: the DUT has {dut_cpus} of the CPUs of this machine; give it more by dut-cpus in [bed]"
            )),
            Some(value) => Err(format!(
                "{value} {}: it must be {least} to {most}",
                sweep.parameter
            )),
            None => Ok(swept),
        }
    }

    /// What is done on the DUT, in words; `None` where nothing is.
    pub fn words(&self) -> Option<String> {
        match self {
            Swept::Stream | Swept::Units => None,
            Swept::Cores => Some("packet steering spreads flows over the first N of its CPUs".into()),
            Swept::Rules => Some(
                "N rules of nftables that match nothing, in a chain of their own at the forward hook".into(),
            ),
            Swept::Routes => Some("N routes to networks that no frame goes to".into()),
            Swept::Command { apply, .. } => Some(format!("{apply}   with every value for {{}}")),
        }
    }
}

/// A parameter of the DUT with its value of the moment.
pub(crate) struct Setting {
    parameter: String,
    swept: Swept,
    cpus: Vec<usize>,
    current: Option<u64>,
    dut: usize,
}

impl Setting {
    /// Nothing is set yet. `cpus`: those of the DUT.
    pub fn new(parameter: &str, swept: Swept, cpus: &[usize]) -> Setting {
        Setting {
            parameter: parameter.to_owned(),
            swept,
            cpus: cpus.to_vec(),
            current: None,
            dut: 0,
        }
    }

    /// Of another DUT than the first of its bed.
    pub fn on(self, dut: usize) -> Setting {
        Setting { dut, ..self }
    }

    /// What is varied.
    pub fn parameter(&self) -> &str {
        &self.parameter
    }

    /// Sets the value, unless it is there already; says whether it did.
    ///
    /// # Errors
    /// It could not be set, or the kernel's tables say otherwise.
    pub fn set(
        &mut self,
        bed: &Bed,
        version: IpVersion,
        value: u64,
        control: &Control,
    ) -> Result<bool, LabError> {
        if self.current == Some(value) {
            return Ok(false);
        }
        let result = self
            .undo(bed, control)
            .and_then(|()| self.apply(bed, version, value, control));
        result.map_err(|error| match error {
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

    /// The DUT is another, on which nothing is set yet.
    pub fn forget(&mut self) {
        self.current = None;
    }

    /// Takes the value of the moment back, where the next does not replace it.
    pub fn undo(&mut self, bed: &Bed, control: &Control) -> Result<(), LabError> {
        let Some(value) = self.current.take() else {
            return Ok(());
        };
        match &self.swept {
            Swept::Routes => {
                for family in ["-4", "-6"] {
                    let flush = [family, "route", "flush", "proto", PROTOCOL];
                    bed.host(self.dut).ask("ip", &flush)?;
                }
                Ok(())
            }
            Swept::Command {
                undo: Some(undo), ..
            } => {
                let text = undo.replace("{}", &value.to_string());
                let name = format!("undo of {value} {}", self.parameter);
                Configuration::command(&name, &text).apply(bed, self.dut, control)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn apply(
        &self,
        bed: &Bed,
        version: IpVersion,
        value: u64,
        control: &Control,
    ) -> Result<(), LabError> {
        let host = bed.host(self.dut);
        match &self.swept {
            Swept::Stream | Swept::Units => Ok(()),
            Swept::Cores => {
                let first = value as usize;
                let cpus = self.cpus.get(..first).unwrap_or(&self.cpus);
                bed.steer(self.dut, cpus)
            }
            Swept::Rules => {
                host.feed("nft", &["-f", "-"], &rules(version, value))?;
                let there = host.ask("nft", &["list", "table", "inet", "fwdlab"])?;
                let there = there.lines().filter(|line| line.trim().ends_with(" drop"));
                same(value, there.count(), "rules of nftables")
            }
            Swept::Routes => {
                host.feed("ip", &["-batch", "-"], &routes(version, value))?;
                let family = match version {
                    IpVersion::Ipv4 => "-4",
                    IpVersion::Ipv6 => "-6",
                };
                let there = host.ask("ip", &[family, "route", "show", "proto", PROTOCOL])?;
                same(value, there.lines().count(), "routes")
            }
            Swept::Command { apply, .. } => {
                let text = apply.replace("{}", &value.to_string());
                let name = format!("{value} {}", self.parameter);
                Configuration::command(&name, &text)
                    .apply(bed, self.dut, control)
                    .map(drop)
            }
        }
    }
}

/// Does the kernel have as many as were asked for?
fn same(asked: u64, there: usize, what: &str) -> Result<(), LabError> {
    match asked == there as u64 {
        true => Ok(()),
        false => Err(LabError::Preflight(format!(
            "the kernel lists {there} {what}, not {asked}"
        ))),
    }
}

/// A chain that every frame passes, with rules for sources that no frame has. Without rules the chain is there as well, so that
/// only rules differ.
fn rules(version: IpVersion, count: u64) -> String {
    let mut text = String::from(
        "add table inet fwdlab\ndelete table inet fwdlab\ntable inet fwdlab {\n chain rules {\n  type filter hook forward priority 0; policy accept;\n",
    );
    for n in 0..count {
        let line = match version {
            IpVersion::Ipv4 => writeln!(text, "  ip saddr {} drop", unused_v4(n, 1)),
            IpVersion::Ipv6 => writeln!(text, "  ip6 saddr {} drop", unused_v6(u128::from(n))),
        };
        line.expect("a String takes everything");
    }
    text + " }\n}\n"
}

/// Networks that no frame goes to, by the way that test frames take.
fn routes(version: IpVersion, count: u64) -> String {
    let mut text = String::new();
    for n in 0..count {
        let line = match version {
            IpVersion::Ipv4 => writeln!(
                text,
                "route add {}/24 via 198.19.0.2 dev eth1 proto {PROTOCOL}",
                unused_v4(n, 256)
            ),
            IpVersion::Ipv6 => writeln!(
                text,
                "route add {}/64 dev eth1 proto {PROTOCOL}",
                unused_v6(u128::from(n) << 64)
            ),
        };
        line.expect("a String takes everything");
    }
    text
}

/// Addresses from 20.0.0.0 on: far from the benchmark's, and room for two million networks.
fn unused_v4(n: u64, step: u64) -> Ipv4Addr {
    Ipv4Addr::from((20 << 24) + (n * step) as u32)
}

/// Addresses of 2001:db8::/32, which is for documentation.
fn unused_v6(n: u128) -> Ipv6Addr {
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
            Swept::of(&sweep(parameter, values, apply), simulated, 2)
        };
        assert_eq!(of("flows", &[1, 2], None, false), Ok(Swept::Stream));
        assert_eq!(of("rules", &[0, 2], None, false), Ok(Swept::Rules));
        assert_eq!(of("rules", &[0, 2], None, true), Ok(Swept::Units));
        assert_eq!(of("states", &[0, 2], None, true), Ok(Swept::Units));
        assert_eq!(of("cores", &[1, 2], None, false), Ok(Swept::Cores));
        for (parameter, values, apply, words) in [
            ("states", &[0, 2][..], None, "nothing is known of `states`"),
            ("rules", &[0, 2], Some("x {}"), "another name"),
            ("rules", &[0, 1_000_000], None, "0 to 100000"),
            ("cores", &[1, 4], None, "has 2 of the CPUs"),
            ("cores", &[0, 1], None, "has 2 of the CPUs"),
        ] {
            let error = of(parameter, values, apply, false).unwrap_err();
            assert!(error.contains(words), "{parameter}: {error}");
        }
    }

    #[test]
    fn rules_and_routes_touch_no_frame_of_ours() {
        assert_eq!(unused_v4(0, 256), Ipv4Addr::new(20, 0, 0, 0));
        assert_eq!(
            unused_v4(MOST_ROUTES - 1, 256),
            Ipv4Addr::new(50, 132, 127, 0)
        );
        assert_eq!(routes(IpVersion::Ipv4, 3).lines().count(), 3);
        let text = rules(IpVersion::Ipv6, 2);
        assert!(text.contains("ip6 saddr 2001:db8::1 drop"), "{text}");
        assert_eq!(rules(IpVersion::Ipv4, 0).matches("drop").count(), 0);
    }
}
