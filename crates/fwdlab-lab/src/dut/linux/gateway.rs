//! A Linux DUT as a gateway: a second router behind it, and tunnels between the two, of OpenVPN,
//! WireGuard or IPsec.
//!
//! The work is done by a shell script, `gateway.sh` next to this file, preceded by the functions of
//! a family. [`Linux::carried`] counts whether frames really pass through all tunnels. Start with
//! [`Linux::gateway`].

use std::sync::atomic::Ordering;

use fwdlab_model::family::Generated;

use super::Linux;
use crate::dut::Spread;
use crate::dut::unix::Unix;
use crate::error::LabError;
use crate::host::not_understood;
use crate::host::{Command, Files, Limit};
use crate::interfaces::read_counters;

/// The script of all families; it stops by itself after some seconds.
const GATEWAY: &str = include_str!("gateway.sh");

/// How the kernel chooses among several next hops: 1 hashes addresses and ports.
const CHOICE: &str = "/proc/sys/net/ipv4/fib_multipath_hash_policy";

/// Returns the shell functions of a family; `None` if it is not a gateway.
fn functions(family: &str) -> Option<&'static str> {
    Some(match family {
        "openvpn" => include_str!("openvpn.sh"),
        "wireguard" => include_str!("wireguard.sh"),
        "esp" => include_str!("esp.sh"),
        _ => return None,
    })
}

/// Returns what shows that a gateway is in force: a name and a command. No key is shown.
pub(super) fn shows(family: &str) -> Option<(&'static str, &'static str)> {
    macro_rules! with {
        ($family:literal) => {
            concat!("ip rule; ip route show table 100; ip -br address; ip -n far -br address; ip -s link; ", $family, " 2>/dev/null || :")
        };
    }
    Some(match family {
        "openvpn" => ("openvpn", with!("tail -n 20 $FWDLAB_DAEMONS/*.log")),
        "wireguard" => ("wireguard", with!("wg show; ip netns exec far wg show")),
        "esp" => (
            "esp",
            with!(
                "ip xfrm state list nokeys; ip xfrm policy; ip -n far xfrm state list nokeys; ip -n far xfrm policy"
            ),
        ),
        _ => return None,
    })
}

/// Returns true if a configuration is a gateway.
pub(super) fn is_gateway(one: &Generated) -> bool {
    functions(one.family.name).is_some()
}

impl Linux {
    /// Creates the second router and the tunnels to it; returns their output.
    pub(super) fn gateway(&self, one: &Generated, limit: Limit<'_>) -> Result<String, LabError> {
        let name = one.family.name;
        match (name, self.place.files()) {
            ("openvpn", _) => self.has_daemons_of_its_own("a gateway")?,
            (_, Files::Ours) => {
                return Err(LabError::Preflight(format!(
                    "{} cannot have a gateway behind it: without isolation, the gateway would run in a network namespace of this machine. \
                     Omit --set-unconfined",
                    self.place.name()
                )));
            }
            _ => {}
        }
        let tunnels = one.count("tunnels");
        let cpus: Vec<String> = self.cpus.iter().map(ToString::to_string).collect();
        let guest = match self.place.files() {
            Files::Guest => "yes",
            _ => "",
        };
        let words = format!("tunnels={tunnels} cpus={} guest={guest}\n", cpus.join(","));
        let functions = functions(name).unwrap_or_default();
        let text = |verb: &str| format!("{words}{functions}{GATEWAY}{verb}\n");
        self.has_room_for(
            one,
            &self
                .users_command(&text("look"))
                .called(format!("look for what {name} needs")),
        )?;
        if tunnels > 0 {
            self.set_file(CHOICE, "1")?;
        }
        let undo_commands = self
            .users_command(&text("back"))
            .called(format!("take {one} back"));
        let action = format!("{tunnels} tunnels of {name}, and the router behind them");
        let mut output = String::new();
        self.undo
            .changing(&self.place, &action, undo_commands, || {
                output = self.start_daemons(one, &text("make"), limit)?;
                Ok(())
            })?;
        self.tunnels.store(tunnels, Ordering::Relaxed);
        Ok(output)
    }

    /// Checks, before anything is changed, that all requirements are met and that nothing is in the
    /// way.
    fn has_room_for(&self, one: &Generated, look: &Command) -> Result<(), LabError> {
        let output = self.place.run(look, Limit::OURS)?;
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut lines: Vec<&str> = output.lines().collect();
        if lines.pop() != Some("looked") {
            return Err(not_understood(
                self.place.as_ref(),
                &look.to_string(),
                &output,
            ));
        }
        match lines.is_empty() {
            true => Ok(()),
            false => Err(LabError::Preflight(format!(
                "{} cannot set up {one}: {}",
                self.place.name(),
                lines.join("; ")
            ))),
        }
    }

    /// Returns how many of the received frames each tunnel has carried so far; `None` without
    /// tunnels.
    pub(super) fn carried(&self) -> Result<Option<Spread>, LabError> {
        let tunnels = self.tunnels.load(Ordering::Relaxed);
        if tunnels == 0 {
            return Ok(None);
        }
        let table = read_counters(self.host.as_ref())?;
        let of = |port: &str| table.get(port).copied().unwrap_or_default();
        let names = (0..tunnels).map(|n| format!("tun{n}"));
        Ok(Some(Spread {
            arrived: of(&self.sides.ports[0]).rx_packets,
            carried: names
                .map(|name| (of(&name).tx_packets, name))
                .map(|(n, name)| (name, n))
                .collect(),
        }))
    }

    /// Runs the script of a family that starts daemons, with fwdlab's own time limit instead of the
    /// user's; returns its output.
    pub(super) fn start_daemons(
        &self,
        one: &Generated,
        text: &str,
        limit: Limit<'_>,
    ) -> Result<String, LabError> {
        let limit = Limit {
            time: Limit::OURS.time,
            ..limit
        };
        let command = self.users_command(text).called(format!("{one}"));
        Ok(self.place.run(&command, limit)?.text())
    }

    /// Refuses generated daemons unless the DUT is isolated in the embedded test bed: only there do
    /// they end with it, and their routes could cut the connection to a separate machine.
    ///
    /// # Errors
    /// The DUT is not one of the embedded test bed with isolation.
    pub(super) fn has_daemons_of_its_own(&self, action: &str) -> Result<(), LabError> {
        match self.place.files() {
            Files::View => Ok(()),
            _ => Err(LabError::Preflight(format!(
                "{}: fwdlab generates {action} only for DUTs of the embedded test bed, with isolation. For a separate machine, write a set \
                 with the configuration of its daemons",
                self.place.name()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::{Arc, Mutex};

    use super::super::tests::linux;
    use super::*;
    use crate::control::Control;
    use crate::dut::{Configuration, Dut};
    use crate::host::scripted::{Fails, NAME, Scripted};
    use crate::host::undo::Left;

    /// Scripts that a shell was given: the variables at their beginning, and the verb at the end.
    type Texts = Arc<Mutex<Vec<(String, String)>>>;

    /// A host with this result of the check, whose kernel remembers its multipath policy.
    fn host(finds: &'static str) -> (Scripted, Texts) {
        let choice = Mutex::new("0".to_owned());
        let texts = Texts::default();
        let given = texts.clone();
        let host = Scripted::new(move |command, text| {
            let mut choice = choice.lock().unwrap();
            if text.contains(GATEWAY) {
                let words = text.lines().nth(1).unwrap().to_owned();
                let verb = text.lines().last().unwrap().to_owned();
                given.lock().unwrap().push((words, verb));
            }
            match command {
                _ if command.starts_with("look for what") => finds.into(),
                _ if text.starts_with("cat ") && text.contains(CHOICE) => choice.clone(),
                _ if text.starts_with("printf") && text.contains(CHOICE) => {
                    *choice = text.split_whitespace().nth(2).unwrap().into();
                    String::new()
                }
                "read /proc/thread-self/net/dev" => {
                    "ens1: 1 22 0 3 0 0 0 0 4 55 0 6 0 0 0 0\ntun0: 0 0 0 0 0 0 0 0 4 15 0 6 0 0 0 0\n".into()
                }
                _ => String::new(),
            }
        });
        (host, texts)
    }

    fn apply(dut: &Linux, family: &str) -> Result<(), LabError> {
        let configuration = Configuration::parse(&format!("generate:{family}"))?;
        dut.apply(&configuration, &Control::default()).map(drop)
    }

    #[test]
    fn a_gateway_is_checked_created_counted_and_undone() {
        for (files, guest) in [
            (Files::Machine, ""),
            (Files::Guest, "yes"),
            (Files::View, ""),
        ] {
            let (scripted, texts) = host("looked\n");
            let (dut, scripted, record) = linux(scripted.with_files(files));
            assert_eq!(dut.spread().unwrap(), None);
            apply(&dut, "esp,tunnels=2").unwrap();
            let given = |verb: &str| {
                let words = format!("tunnels=2 cpus=2,3,5 guest={guest}");
                (words, verb.to_owned())
            };
            let requested = scripted.commands();
            assert_eq!(*texts.lock().unwrap(), ["look", "make"].map(given));
            assert!(requested[2].contains("printf '%s\\n' 1"), "{requested:#?}");

            // a missing tunnel has carried nothing
            let spread = dut.spread().unwrap().unwrap();
            let carried = [("tun0", 15), ("tun1", 0)].map(|(name, n)| (name.to_owned(), n));
            assert_eq!((spread.arrived, spread.carried), (22, carried.into()));

            let before = scripted.commands().len();
            assert_eq!(dut.undo(), ["x"; 0]);
            let undo_commands = &scripted.commands()[before..];
            assert_eq!(undo_commands.len(), 2, "{undo_commands:#?}");
            assert_eq!(texts.lock().unwrap()[2], given("back"));
            assert!(
                undo_commands[1].contains("printf '%s\\n' 0"),
                "{undo_commands:#?}"
            );
            let text = fs::read_to_string(record.path()).unwrap();
            assert_eq!(Left::parse(&text), Left::default());
            assert_eq!(dut.spread().unwrap(), None);
        }
    }

    #[test]
    fn conflicts_are_reported_before_any_change() {
        let found = "its kernel, 9.9, makes no port of IPsec (Unknown device type.)\nit has a port mid0 already\nlooked\n";
        let (dut, scripted, _) = linux(host(found).0.with_files(Files::Machine));
        let error = apply(&dut, "esp,tunnels=1").unwrap_err().to_string();
        assert!(
            error.ends_with("router1 cannot set up esp,tunnels=1: its kernel, 9.9, makes no port of IPsec (Unknown device type.); it has a port mid0 already"),
            "{error}"
        );
        assert_eq!(scripted.commands().len(), 1);
        let (dut, scripted, _) = linux(host("looked\n").0.with_files(Files::Ours));
        let error = apply(&dut, "wireguard,tunnels=1").unwrap_err().to_string();
        assert!(error.contains("Omit --set-unconfined"), "{error}");
        assert_eq!(scripted.commands(), [""; 0]);
    }

    /// For every failure at every command: the error says where, and all changes are undone.
    #[test]
    fn any_failure_is_reported_and_undone() {
        let commands = {
            let (dut, host, _) = linux(host("looked\n").0.with_files(Files::Machine));
            apply(&dut, "wireguard,tunnels=3").unwrap();
            host.commands().len()
        };
        assert_eq!(commands, 5);
        for at in 0..commands {
            for how in Fails::ALL {
                let case = format!("command {at}, {how:?}");
                let (scripted, _) = host("looked\n");
                let scripted = scripted.with_files(Files::Machine).failing(at, how);
                let (dut, host, record) = linux(scripted);
                let result = apply(&dut, "wireguard,tunnels=3");
                let requested = host.commands();
                match result {
                    Err(error) => {
                        let error = error.to_string();
                        assert!(error.contains(NAME), "{case}: {error}");
                        assert_eq!(dut.spread().unwrap(), None, "{case}");
                    }
                    // the output of commands that create or write something is not used
                    Ok(()) => assert!(how == Fails::Garbage && [2, 4].contains(&at), "{case}"),
                }
                if at == 4 && ![Fails::Lost, Fails::Garbage].contains(&how) {
                    assert_eq!(requested[5], "take wireguard,tunnels=3 back", "{case}");
                }
                if how != Fails::Lost {
                    assert_eq!(dut.undo(), ["x"; 0], "{case}");
                    let text = fs::read_to_string(record.path()).unwrap();
                    assert_eq!(Left::parse(&text), Left::default(), "{case}");
                }
            }
        }
    }
}
