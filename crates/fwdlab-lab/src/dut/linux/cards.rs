//! Settings of the cards and CPUs of a Linux DUT: rings, interrupts, queues of flows, clocks and
//! sleep.
//!
//! Every setting is read back from the driver, and restored afterwards. A veth port supports none
//! of them and reports that. Start with [`Linux::card`].

use fwdlab_model::family::Generated;

use super::{Linux, hashing};
use crate::dut::unix::Unix;
use crate::error::LabError;
use crate::host::not_understood;
use crate::host::{Command, Files, Limit, quoted};

/// What ethtool prints for what a driver does not support.
const NOT_SUPPORTED: &str = "n/a";

/// Returns what shows that a family is in force: a name and a command.
pub(super) fn shows(family: &str) -> Option<(&'static str, &'static str)> {
    Some(match family {
        "ring" => ("rings", "ethtool -g $FWDLAB_IN; ethtool -g $FWDLAB_OUT"),
        "coalescing" => (
            "coalescing",
            "ethtool -c $FWDLAB_IN; ethtool -c $FWDLAB_OUT",
        ),
        "rss" => ("rss", "ethtool -x $FWDLAB_IN; ethtool -x $FWDLAB_OUT"),
        "flow-hash" => (
            "flow-hash",
            "ethtool -n $FWDLAB_IN rx-flow-hash udp4; ethtool -n $FWDLAB_OUT rx-flow-hash udp4",
        ),
        "governor" => (
            "governor",
            "grep . /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        ),
        "idle-states" => (
            "idle-states",
            "grep . /sys/devices/system/cpu/cpu*/cpuidle/state*/disable",
        ),
        "smt" => ("smt", "cat /sys/devices/system/cpu/smt/control"),
        "deferred-interrupts" => (
            "deferred-interrupts",
            "for port in $FWDLAB_IN $FWDLAB_OUT; do cd /sys/class/net/$port && grep . napi_defer_hard_irqs gro_flush_timeout; done",
        ),
        _ => return None,
    })
}

impl Linux {
    /// Applies a family of this file; `None` if it is another one.
    pub(super) fn card(&self, one: &Generated) -> Option<Result<(), LabError>> {
        let each = |set: &dyn Fn(&str) -> Result<(), LabError>| {
            self.sides.ports.iter().try_for_each(|port| set(port))
        };
        Some(match one.family.name {
            "ring" => each(&|port| self.ring(port, one.count("n"))),
            "coalescing" => each(&|port| self.coalescing(port, one.count("usecs"))),
            "rss" => each(&|port| self.spread(port, one.count("n"))),
            "flow-hash" => each(&|port| self.hashed(port, one.value("fields"))),
            "governor" => self.set_on_all_cpus(
                "cpufreq/scaling_governor",
                one.value("name"),
                "choose its clock",
            ),
            "idle-states" => {
                let disabled = if one.is_on() { "0" } else { "1" };
                self.set_on_all_cpus(
                    "cpuidle/state[1-9]*/disable",
                    disabled,
                    "choose how deep it sleeps",
                )
            }
            "smt" => self.threads(one.value("state")),
            "deferred-interrupts" => each(&|port| {
                let folder = format!("/sys/class/net/{port}");
                let times = one.count("n").to_string();
                // nanoseconds
                let wait = (1000 * one.count("usecs")).to_string();
                self.set_files(&[
                    (format!("{folder}/napi_defer_hard_irqs"), times),
                    (format!("{folder}/gro_flush_timeout"), wait),
                ])
            }),
            _ => return None,
        })
    }

    /// Queries a port with ethtool, sets the value, and queries again: `read` finds the value in
    /// the output.
    fn tool<T: PartialEq + std::fmt::Debug>(
        &self,
        ask: &str,
        requested: &T,
        read: &dyn Fn(&str) -> Option<T>,
        set: &dyn Fn(&T) -> String,
        action: &str,
    ) -> Result<(), LabError> {
        let words: Vec<&str> = ask.split(' ').collect();
        let change = format!("change {action}");
        let look = || -> Result<(String, T), LabError> {
            let output = self.host.query("ethtool", &words);
            let output = output.map_err(|error| self.refused(&change, error))?;
            match read(&output) {
                Some(value) => Ok((output, value)),
                None => Err(not_understood(
                    self.host.as_ref(),
                    &format!("ethtool {ask}"),
                    &output,
                )),
            }
        };
        let (shown, before) = look()?;
        if before == *requested {
            return Ok(());
        }
        let undo_commands = Command::shell(&unless_same(ask, &shown, &set(&before)));
        self.undo
            .changing(&self.host, action, undo_commands, || {
                let set = self.host.run(&Command::shell(&set(requested)), Limit::OURS);
                set.map_err(|error| self.refused(&change, error))?;
                match look()?.1 {
                    found if found == *requested => Ok(()),
                    found => {
                        Err(self.not_kept(format!("{action}: it has {found:?}, not {requested:?}")))
                    }
                }
            })
            .map(drop)
    }

    fn ring(&self, port: &str, n: u64) -> Result<(), LabError> {
        self.tool(
            &format!("-g {port}"),
            &(n, n),
            &rings,
            &|(rx, tx)| format!("ethtool -G {port} rx {rx} tx {tx}"),
            &format!("rings of {port}"),
        )
    }

    fn coalescing(&self, port: &str, usecs: u64) -> Result<(), LabError> {
        let ask = format!("-c {port}");
        let action = format!("interrupts of {port}");
        let words: Vec<&str> = ask.split(' ').collect();
        let shown = self.host.query("ethtool", &words);
        let shown = shown.map_err(|error| self.refused(&format!("change {action}"), error))?;
        // a driver without adaptive moderation refuses even to disable it
        let adaptive = match coalesced(&shown) {
            Some((adaptive, _)) if adaptive == NOT_SUPPORTED => adaptive,
            _ => "off".to_owned(),
        };
        self.tool(
            &ask,
            &(adaptive, usecs),
            &coalesced,
            &|(adaptive, usecs)| match adaptive.as_str() {
                NOT_SUPPORTED => format!("ethtool -C {port} rx-usecs {usecs}"),
                _ => format!("ethtool -C {port} adaptive-rx {adaptive} rx-usecs {usecs}"),
            },
            &action,
        )
    }

    fn spread(&self, port: &str, n: u64) -> Result<(), LabError> {
        let what = format!("change the queues that {port} spreads flows over");
        let shown = self.host.query("ethtool", &["-x", port]);
        shown.map_err(|error| self.refused(&what, error))?;
        let Some(table) = self.table(port)? else {
            return Err(self.unsupported(&format!("{what}: its driver shows no indirection table")));
        };
        if table.queues == even(table.queues.len(), n) {
            return Ok(());
        }
        let undo_commands = Command::shell(&table.undo);
        self.undo
            .changing(&self.host, &what, undo_commands, || self.make_even(port, n))
            .map(drop)
    }

    /// Returns the indirection table of a port, and the command that restores it; `None` if it has
    /// none.
    pub(super) fn table(&self, port: &str) -> Result<Option<Table>, LabError> {
        let show = format!("ethtool -x {port} 2>/dev/null || :");
        let shown = self.host.query("sh", &["-c", &show])?;
        let queues = hashing::table(&shown);
        if queues.is_empty() {
            return Ok(None);
        }
        let Some(words) = written(&queues) else {
            return Err(self.unsupported(&format!(
                "change the queues of {port}: ethtool could not restore its present indirection table, which is neither even nor by \
                 weights; set an even one first: ethtool -X {port} default"
            )));
        };
        let set = format!("ethtool -X {port} {words}");
        let undo = unless_same(&format!("-x {port}"), &shown, &set);
        Ok(Some(Table { queues, undo }))
    }

    /// Makes the indirection table of a port name its first `n` queues in turn.
    pub(super) fn make_even(&self, port: &str, n: u64) -> Result<(), LabError> {
        let look = || -> Result<bool, LabError> {
            let table = hashing::table(&self.host.query("ethtool", &["-x", port])?);
            Ok(!table.is_empty() && table == even(table.len(), n))
        };
        if look()? {
            return Ok(());
        }
        let set = Command::shell(&format!("ethtool -X {port} equal {n}"));
        let what = format!("spread flows over {n} queues of {port}");
        let set = self.host.run(&set, Limit::OURS);
        set.map_err(|error| self.refused(&what, error))?;
        match look()? {
            true => Ok(()),
            false => Err(self.not_kept(format!(
                "the indirection table of {port} does not name its first {n} queues in turn"
            ))),
        }
    }

    fn hashed(&self, port: &str, fields: &str) -> Result<(), LabError> {
        self.tool(
            &format!("-n {port} rx-flow-hash udp4"),
            &fields.to_owned(),
            &hashing::fields,
            &|fields| format!("ethtool -N {port} rx-flow-hash udp4 {fields}"),
            &format!("what chooses the queue of {port}"),
        )
    }

    /// Refuses to set CPUs unless the DUT is a whole machine.
    fn check_whole_machine(&self, action: &str) -> Result<(), LabError> {
        match self.place.files() {
            Files::Machine | Files::Guest => Ok(()),
            _ => Err(self.unsupported(&format!(
                "{action}: it is part of this machine and shares its CPUs"
            ))),
        }
    }

    fn threads(&self, requested: &str) -> Result<(), LabError> {
        const FILE: &str = "/sys/devices/system/cpu/smt/control";
        let action = "set the threads per core";
        self.check_whole_machine(action)?;
        match self.host.query("cat", &[FILE])?.trim() {
            found @ ("notsupported" | "notimplemented" | "forceoff") => {
                Err(self.unsupported(&format!("{action}: {FILE} says {found}")))
            }
            _ => self.set_file(FILE, requested),
        }
    }

    /// Sets a file of every CPU of the machine.
    fn set_on_all_cpus(&self, pattern: &str, value: &str, action: &str) -> Result<(), LabError> {
        self.check_whole_machine(action)?;
        let list = format!("ls /sys/devices/system/cpu/cpu[0-9]*/{pattern} 2>/dev/null || :");
        let output = self.host.query("sh", &["-c", &list])?;
        if output.trim().is_empty() {
            return Err(self.unsupported(&format!(
                "{action}: its kernel has no {pattern} for its CPUs"
            )));
        }
        let files = output
            .lines()
            .map(|file| (file.trim().to_owned(), value.to_owned()));
        self.set_files(&files.collect::<Vec<_>>())
    }
}

/// The indirection table of a port.
pub(super) struct Table {
    queues: Vec<u32>,
    /// The command that restores it.
    pub undo: String,
}

/// Returns a table of this length that names the first `n` queues in turn.
fn even(len: usize, n: u64) -> Vec<u32> {
    (0..len as u64).map(|entry| (entry % n) as u32).collect()
}

/// Returns a command that restores a setting unless `ethtool ASK` prints the same as before: many
/// drivers refuse a command that they do not support even if it changes nothing.
pub(super) fn unless_same(ask: &str, before: &str, restore: &str) -> String {
    format!(
        "[ \"$(ethtool {ask})\" = {} ] || {restore}",
        quoted(before.trim_end())
    )
}

/// Returns the number after `name:`.
fn number_of(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(&format!("{name}:")))?;
    line.trim().parse().ok()
}

/// Returns the current number of descriptors to receive and to send.
fn rings(text: &str) -> Option<(u64, u64)> {
    let (_, now) = text.split_once("Current hardware settings:")?;
    Some((number_of(now, "RX")?, number_of(now, "TX")?))
}

/// Returns whether coalescing is adaptive, and the interrupt delay in microseconds.
fn coalesced(text: &str) -> Option<(String, u64)> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Adaptive RX:"))?;
    let adaptive = line.split_whitespace().next()?.to_owned();
    Some((adaptive, number_of(text, "rx-usecs")?))
}

/// Returns the arguments of `ethtool -X` that set this indirection table: ethtool's own order for
/// even ones, or ascending queues by weight; `None` for any other.
fn written(table: &[u32]) -> Option<String> {
    let queues = table.iter().max()? + 1;
    let mut entries = (0..).zip(table);
    if entries.all(|(entry, queue)| *queue == entry % queues) {
        return Some(format!("equal {queues}"));
    }
    if !table.is_sorted() {
        return None;
    }
    let weight = |queue| {
        table
            .iter()
            .filter(|own| **own == queue)
            .count()
            .to_string()
    };
    let weights: Vec<String> = (0..queues).map(weight).collect();
    Some(format!("weight {}", weights.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::super::tests::linux;
    use super::*;
    use crate::host::scripted::Scripted;

    /// Output of ethtool 6.1 for cards of Intel and of Amazon.
    #[test]
    fn ethtool_output_is_parsed() {
        let text = "Ring parameters for ens1:\nPre-set maximums:\nRX:\t\t4096\nTX:\t\t4096\nCurrent hardware settings:\nRX:\t\t512\nRX Mini:\tn/a\nTX:\t\t256\n";
        assert_eq!(rings(text), Some((512, 256)));
        let text = "Coalesce parameters for ens1:\nAdaptive RX: on  TX: on\nstats-block-usecs: n/a\nrx-usecs: 50\nrx-frames: n/a\n";
        assert_eq!(coalesced(text), Some(("on".into(), 50)));
        let text = "RX flow hash indirection table for ens1 with 4 RX ring(s):\n    0:      0     1     2     3     0     1     2     3\n    \
                    8:      0     1     2     3     0     1     2     3\nRSS hash key:\n10:20\n";
        assert_eq!(written(&hashing::table(text)).as_deref(), Some("equal 4"));
        let text = "UDP over IPV4 flows use these fields for computing Hash flow key:\nIP SA\nIP DA\nL4 bytes 0 & 1 [TCP/UDP src port]\nL4 bytes 2 & 3 [TCP/UDP dst port]\n\n";
        assert_eq!(hashing::fields(text).as_deref(), Some("sdfn"));
        assert_eq!(
            (rings(""), coalesced(""), written(&[]), hashing::fields("")),
            (None, None, None, None)
        );
    }

    #[test]
    fn a_card_that_rejects_a_setting_is_restored_and_reported() {
        let output = "Current hardware settings:\nRX:\t\t512\nTX:\t\t512\n";
        let (dut, host, _) = linux(Scripted::new(move |command, _| match command {
            _ if command.starts_with("ethtool -g") => output.into(),
            _ => String::new(),
        }));
        let of = |text: &str| dut.generate(&Generated::parse(text).unwrap()[0]);
        of("ring,n=512").unwrap();
        assert!(
            !host
                .commands()
                .iter()
                .any(|requested| requested.contains("ethtool -G"))
        );
        let error = of("ring,n=4096").unwrap_err().to_string();
        assert!(
            error.contains("it has (512, 512), not (4096, 4096)"),
            "{error}"
        );
        let undo = host.commands();
        let undo = undo
            .iter()
            .filter(|requested| requested.contains("ethtool -G"));
        let undo: Vec<_> = undo.collect();
        assert!(undo.len() == 2 && undo[1].contains("rx 512 tx 512"));
        for everybodys in ["governor,name=performance", "smt,state=off"] {
            let error = of(everybodys).unwrap_err().to_string();
            assert!(error.contains("and shares its CPUs"), "{error}");
        }
    }
}
