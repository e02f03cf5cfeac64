//! Applies families of configurations to a Linux DUT: rules, sets, states, queues, affinities,
//! offloads and settings, each counted or read back.
//!
//! Families that sweeps also use are in [`super::tables`]. Everything is in separate tables and
//! chains, which can be found and removed as a whole. Start with [`Linux::generate`].

use std::fmt::Write;
use std::sync::Arc;

use fwdlab_model::family::Generated;
use fwdlab_model::trial::IpVersion;

use super::apply::{NFT, file_of};
use super::cards::unless_same;
use super::tables::RuleOwner;
use super::{Linux, bgp, cards, conntrack, gateway, paths};
use crate::dut::set::settings;
use crate::dut::sweep::unused_v4;
use crate::dut::unix::Unix;
use crate::error::LabError;
use crate::facts::pci_device;
use crate::host::not_understood;
use crate::host::{Command, Failure, Files, Host, HostError, Limit, quoted};
use crate::telemetry::interrupts::interrupts;

/// Tables of nftables.
const SET: &str = "fwdlab_set";
const STATE: &str = "fwdlab_state";

/// The set of ipset.
const IPSET: &str = "fwdlab_known";

/// Chains of iptables.
const RULES_CHAIN: &str = "FWDLAB_RULES";
const STATE_CHAIN: &str = "FWDLAB_STATE";
const IPSET_CHAIN: &str = "FWDLAB_IPSET";

/// Short names of offloads, and the long names that `ethtool -k` prints.
const WRITTEN_OUT: [(&str, &str); 8] = [
    ("gro", "generic-receive-offload"),
    ("gso", "generic-segmentation-offload"),
    ("tso", "tcp-segmentation-offload"),
    ("lro", "large-receive-offload"),
    ("rx", "rx-checksumming"),
    ("tx", "tx-checksumming"),
    ("sg", "scatter-gather"),
    ("ntuple", "ntuple-filters"),
];
const RXHASH: (&str, &str) = ("rxhash", "receive-hashing");

/// Returns what shows that a configuration is in force: names and commands.
pub(super) fn shows(one: &Generated) -> Vec<(&'static str, &'static str)> {
    let iptables = match one.value("backend") {
        "legacy" => ("iptables-legacy", "iptables-legacy-save"),
        _ => ("iptables-nft", "iptables-nft-save"),
    };
    match one.family.name {
        "nft-rules" | "nft-set" | "nft-stateful" => vec![NFT],
        "iptables-rules" | "iptables-stateful" => vec![iptables],
        "ipset" => vec![iptables, ("ipset", "ipset list -t")],
        "routes" => vec![(
            "routes",
            "ip -4 route show proto 197; ip -6 route show proto 197",
        )],
        "bgp" => vec![("bgp", bgp::SHOW)],
        "conntrack" => vec![conntrack::SHOW],
        "queues" => vec![("queues", "ethtool -l $FWDLAB_IN; ethtool -l $FWDLAB_OUT")],
        "offload" => vec![("offloads", "ethtool -k $FWDLAB_IN; ethtool -k $FWDLAB_OUT")],
        "packet-steering" => vec![(
            "packet-steering",
            "cat /sys/class/net/$FWDLAB_IN/queues/rx-*/rps_cpus",
        )],
        "threaded-napi" => vec![(
            "threaded-napi",
            "cat /sys/class/net/$FWDLAB_IN/threaded /sys/class/net/$FWDLAB_OUT/threaded",
        )],
        "irq-affinity" => vec![("interrupts", "grep . /proc/irq/*/smp_affinity_list")],
        other => paths::shows(other)
            .or_else(|| cards::shows(other))
            .or_else(|| gateway::shows(other))
            .into_iter()
            .collect(),
    }
}

impl Linux {
    /// Generates a configuration of a family, and checks that it is in force.
    pub(super) fn generate(&self, one: &Generated) -> Result<(), LabError> {
        let n = one.count("n");
        let version = match one.value("ip") {
            "ipv6" => IpVersion::Ipv6,
            _ => IpVersion::Ipv4,
        };
        match one.family.name {
            "nft-rules" => self.set_rules(RuleOwner::Generated, version, n).map(drop),
            "routes" => self.set_routes(RuleOwner::Generated, version, n).map(drop),
            "nft-set" => self.nft_set(n),
            "nft-stateful" => self.nft_stateful(one.is_on()),
            "iptables-rules" => self.chain(one, RULES_CHAIN, &iptables_rules(n), n),
            "iptables-stateful" => {
                let rules = iptables_state(one.is_on());
                self.chain(one, STATE_CHAIN, &rules, rules.lines().count() as u64)
            }
            "ipset" => self.ipset(one, n),
            "queues" => self.queues(n),
            "packet-steering" if n as usize > self.cpus.len() => Err(self.unsupported(&format!(
                "spread flows over {n} CPUs: fwdlab knows {} of its CPUs",
                self.cpus.len()
            ))),
            "packet-steering" => self.steer(n as usize).map(drop),
            "irq-affinity" => self.irq_affinity(&one.cpus()),
            "threaded-napi" => self.sides.ports.iter().try_for_each(|port| {
                let file = format!("/sys/class/net/{port}/threaded");
                self.can_be_threaded(&file)?;
                self.set_file(&file, if one.is_on() { "1" } else { "0" })
            }),
            "napi-affinity" => self.napi_affinity(&one.cpus()),
            "offload" => {
                self.sides.ports.iter().try_for_each(|port| {
                    self.offload(port, one.value("feature"), one.value("state"))
                })
            }
            "conntrack" => self.connections(one),
            "sysctl" => self.sysctl(one.value("name"), one.value("value")),
            other => {
                let elsewhere = self.path(one).or_else(|| self.card(one));
                elsewhere.unwrap_or_else(|| Err(self.unsupported(&format!("do {other}"))))
            }
        }
    }

    pub(super) fn unsupported(&self, action: &str) -> LabError {
        LabError::Impossible(format!(
            "{} cannot {action}. Leave it out",
            self.host.name()
        ))
    }

    /// Returns the error of a command that set something: if it ended without success, the driver
    /// or the kernel does not support that, and a retry would not help.
    pub(super) fn refused(&self, action: &str, error: HostError) -> LabError {
        match &error.failure {
            Failure::Exit { said, .. } => {
                let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
                self.unsupported(&format!("{action}: {said}"))
            }
            _ => error.into(),
        }
    }

    fn nft_set(&self, count: u64) -> Result<(), LabError> {
        let action = format!("a set of {count} addresses");
        let look = |there: &str| {
            let (_, elements) = there.split_once("elements = {").unwrap_or_default();
            let (elements, _) = elements.split_once('}').unwrap_or_default();
            let elements = elements.split(',').filter(|one| !one.trim().is_empty());
            self.same(count, elements.count(), "elements of the set")
        };
        self.load_table(SET, &action, &set_of(count), look)
            .map(drop)
    }

    fn nft_stateful(&self, is_on: bool) -> Result<(), LabError> {
        let text = state_table(is_on);
        let is_rule = |line: &&str| line.trim().ends_with(" accept") || line.trim() == "accept";
        let requested = text.lines().filter(is_rule).count();
        let look = |there: &str| {
            self.same(
                requested as u64,
                there.lines().filter(is_rule).count(),
                "nftables rules",
            )
        };
        self.load_table(STATE, "a stateful firewall", &text, look)
            .map(drop)
    }

    /// Loads rules of iptables into a separate chain, to which FORWARD jumps.
    fn chain(&self, one: &Generated, chain: &str, rules: &str, count: u64) -> Result<(), LabError> {
        let iptables = match one.value("backend") {
            "legacy" => "iptables-legacy",
            _ => "iptables-nft",
        };
        let text = format!("*filter\n:{chain} - [0:0]\n{rules}-A FORWARD -j {chain}\nCOMMIT\n");
        let action = format!("{count} rules of iptables");
        let tables = self
            .host
            .query("sh", &["-c", "nft list tables 2>/dev/null || :"])?;
        let is_first = iptables == "iptables-nft"
            && !tables
                .lines()
                .any(|table| table.trim() == "table ip filter");
        self.undo
            .changing(
                &self.host,
                &action,
                without_chain(iptables, chain, is_first),
                || {
                    self.host.feed(
                        &format!("{iptables}-restore"),
                        &["-w", "60", "--noflush"],
                        &text,
                    )?;
                    let there = self.host.query(iptables, &["-w", "60", "-S", chain])?;
                    let there = there.lines().filter(|line| line.starts_with("-A "));
                    self.same(count, there.count(), &format!("rules of {iptables}"))
                },
            )
            .map(drop)
    }

    fn ipset(&self, one: &Generated, count: u64) -> Result<(), LabError> {
        let gone =
            format!("ipset list -n {IPSET} >/dev/null 2>&1 || exit 0\nipset destroy {IPSET}\n");
        let undo_commands = Command::shell(&gone).called(format!("ipset destroy {IPSET}"));
        self.undo.changing(
            &self.host,
            &format!("an ipset of {count} addresses"),
            undo_commands,
            || {
                self.host.feed("ipset", &["restore"], &ipset_of(count))?;
                let there = self.host.query("ipset", &["list", "-t", IPSET])?;
                let entries = there
                    .lines()
                    .find_map(|line| line.strip_prefix("Number of entries: "));
                let Some(entries) = entries.and_then(|n| n.trim().parse().ok()) else {
                    return Err(not_understood(self.host.as_ref(), "ipset list -t", &there));
                };
                self.same(count, entries, "entries of the ipset")
            },
        )?;
        let rule = format!("-A {IPSET_CHAIN} -m set --match-set {IPSET} src -j DROP\n");
        self.chain(one, IPSET_CHAIN, &rule, 1)
    }

    /// Sets the number of queues, and an even indirection table over them: some drivers leave the
    /// table as it is, so that new queues get nothing, or frames go to queues that are gone.
    fn queues(&self, requested: u64) -> Result<(), LabError> {
        for port in &self.sides.ports {
            let what = format!("set the number of queues of {port}");
            let read = || -> Result<(String, Vec<Channels>), LabError> {
                let output = self.host.query("ethtool", &["-l", port]);
                let output = output.map_err(|error| self.refused(&what, error))?;
                match channels(&output) {
                    Some(channels) => Ok((output, channels)),
                    None => Err(not_understood(
                        self.host.as_ref(),
                        &format!("ethtool -l {port}"),
                        &output,
                    )),
                }
            };
            let (shown, before) = read()?;
            let words = |value: &dyn Fn(u64) -> u64| {
                let pairs = before
                    .iter()
                    .map(|of| format!("{} {}", of.kind, value(of.now)));
                pairs.collect::<Vec<_>>().join(" ")
            };
            if before.is_empty() {
                return Err(self.unsupported(&format!("{what}: its driver does not support that")));
            }
            if before.iter().all(|of| of.now == requested) {
                continue;
            }
            if let Some(of) = before.iter().find(|of| of.most < requested) {
                let Channels { kind, most, .. } = of;
                return Err(self.unsupported(&format!(
                    "have {requested} {kind} queues at {port}: it has at most {most}"
                )));
            }
            let table = self.table(port)?;
            let set = |to: &str| format!("ethtool -L {port} {to}");
            let undo_channels = unless_same(&format!("-l {port}"), &shown, &set(&words(&|n| n)));
            let undo_table = match &table {
                Some(table) => format!("|| exit\n{}", table.undo),
                None => String::new(),
            };
            let undo_commands = Command::shell(&format!("{undo_channels} {undo_table}"));
            let action = format!("queues of {port}");
            self.undo.changing(&self.host, &action, undo_commands, || {
                let set = Command::shell(&set(&words(&|_| requested)));
                let set = self.host.run(&set, Limit::OURS);
                set.map_err(|error| self.refused(&what, error))?;
                if let Some(of) = read()?.1.iter().find(|of| of.now != requested) {
                    let Channels { kind, now, .. } = of;
                    return Err(
                        self.not_kept(format!("{port} has {now} {kind} queues, not {requested}"))
                    );
                }
                match table {
                    Some(_) => self.make_even(port, requested),
                    None => Ok(()),
                }
            })?;
        }
        Ok(())
    }

    /// Assigns the interrupts of each queue of the ports to these CPUs in turn: those of receiving
    /// and sending on one queue to the same CPU.
    fn irq_affinity(&self, cpus: &[usize]) -> Result<(), LabError> {
        for port in &self.sides.ports {
            let device = pci_device(port);
            // a card without message-signalled interrupts has one, perhaps shared; 0 is none
            let list = format!(
                "ls {device}/msi_irqs 2>/dev/null || grep -vx 0 {device}/irq 2>/dev/null || :"
            );
            let output = self.host.query("sh", &["-c", &list])?;
            let numbers: Result<Vec<u32>, _> = output.split_whitespace().map(str::parse).collect();
            let Ok(mut numbers) = numbers else {
                return Err(not_understood(self.host.as_ref(), &list, &output));
            };
            numbers.sort_unstable();
            if numbers.is_empty() {
                return Err(self.unsupported(&format!(
                    "set the interrupts of {port}: it has no interrupts, like all ports of namespaces"
                )));
            }
            let table = self.host.query("cat", &["/proc/interrupts"])?;
            let table = interrupts(&table, "");
            let named = numbers.iter().map(|number| {
                let known = table.iter().find(|known| known.number == *number);
                (*number, known.map_or("", |known| known.name.as_str()))
            });
            let named: Vec<(u32, &str)> = named.collect();
            let files = turns(&named, port).into_iter().map(|(irq, turn)| {
                let file = format!("/proc/irq/{irq}/smp_affinity_list");
                (file, cpus[turn % cpus.len()].to_string())
            });
            self.set_files(&files.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Checks that a port can have NAPI threads: one without NAPI refuses even its current value.
    fn can_be_threaded(&self, file: &str) -> Result<(), LabError> {
        let same = Command::shell(&format!("value=$(cat {file}) && echo $value > {file}"));
        match self.host.run(&same, Limit::OURS) {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.failure, Failure::Exit { .. }) => {
                Err(LabError::Preflight(format!(
                    "{error}. A port that nothing polls has no threads; a port of veth is polled when its GRO is on: generate \
                 \"offload\", feature = \"gro\", state = \"on\" before"
                )))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Assigns the NAPI threads of the ports to these CPUs in turn.
    fn napi_affinity(&self, cpus: &[usize]) -> Result<(), LabError> {
        if !matches!(self.place.files(), Files::Machine | Files::Guest) {
            return Err(self.unsupported(
                "move the threads of its ports: threads of all namespaces of this machine have the same names, and those of the DUT run on \
                 the CPUs of dut-cpus",
            ));
        }
        for port in &self.sides.ports {
            let list = format!("grep '^napi/{port}-' /proc/[0-9]*/comm /dev/null || :");
            let output = self.host.query("sh", &["-c", &list])?;
            let Some(threads) = napi_threads(&output) else {
                let action = format!("find the threads of {port}");
                return Err(not_understood(self.host.as_ref(), &action, &output));
            };
            if threads.iter().all(Vec::is_empty) {
                return Err(self.unsupported(&format!(
                    "move the threads of {port}: it has none; generate threaded-napi, state = \"on\" before"
                )));
            }
            for group in threads {
                for (thread, cpu) in group.iter().zip(cpus.iter().cycle()) {
                    self.pin(*thread, port, *cpu)?;
                }
            }
        }
        Ok(())
    }

    fn pin(&self, thread: u32, port: &str, cpu: usize) -> Result<(), LabError> {
        let read = || -> Result<String, LabError> {
            let output = self.host.query("taskset", &["-pc", &thread.to_string()])?;
            let list = output
                .trim()
                .rsplit(": ")
                .next()
                .unwrap_or_default()
                .to_owned();
            let is_list = |c: char| c.is_ascii_digit() || matches!(c, ',' | '-');
            match !list.is_empty() && list.chars().all(is_list) {
                true => Ok(list),
                false => Err(not_understood(
                    self.host.as_ref(),
                    &format!("taskset -pc {thread}"),
                    &output,
                )),
            }
        };
        let before = read()?;
        // another process may have its number by then
        let undo_commands = format!(
            "grep -q '^napi/{port}-' /proc/{thread}/comm 2>/dev/null || exit 0\ntaskset -pc {before} {thread}"
        );
        let action = format!("the CPU of a thread of {port}");
        self.undo
            .changing(&self.host, &action, Command::shell(&undo_commands), || {
                self.host
                    .query("taskset", &["-pc", &cpu.to_string(), &thread.to_string()])?;
                match read()? {
                    found if found == cpu.to_string() => Ok(()),
                    found => Err(self.not_kept(format!(
                        "thread {thread} of {port} runs on CPUs {found}, not {cpu}"
                    ))),
                }
            })
            .map(drop)
    }

    fn offload(&self, port: &str, feature: &str, requested: &str) -> Result<(), LabError> {
        let read = || -> Result<(String, bool), LabError> {
            let output = self.host.query("ethtool", &["-k", port])?;
            offload_of(&output, feature).ok_or_else(|| {
                self.unsupported(&format!(
                    "set {feature} of {port}: `ethtool -k {port}` does not name it"
                ))
            })
        };
        let what = format!("set {feature} of {port} {requested}");
        let (before, is_fixed) = read()?;
        if before == requested {
            return Ok(());
        }
        if is_fixed {
            return Err(self.unsupported(&format!(
                "{what}: its driver does not allow that; it is always {before}"
            )));
        }
        let undo_commands = Command::new("ethtool", &["-K", port, feature, &before]);
        self.undo
            .changing(
                &self.host,
                &format!("{feature} of {port}"),
                undo_commands,
                || {
                    let set = self
                        .host
                        .query("ethtool", &["-K", port, feature, requested]);
                    set.map_err(|error| self.refused(&what, error))?;
                    match read()?.0 {
                        found if found == requested => Ok(()),
                        found => Err(self
                            .not_kept(format!("{feature} of {port} is {found}, not {requested}"))),
                    }
                },
            )
            .map(drop)
    }

    fn sysctl(&self, name: &str, value: &str) -> Result<(), LabError> {
        let file = file_of(name);
        // all other settings are those of the whole machine
        if matches!(self.place.files(), Files::View | Files::Ours)
            && !file.starts_with("/proc/sys/net/")
        {
            return Err(self.unsupported(&format!(
                "set {name}: it is a part of this machine and has only its own settings below `net`"
            )));
        }
        self.set_file(&file, value)
    }

    /// Writes this value to a file that is a setting.
    pub(super) fn set_file(&self, file: &str, value: &str) -> Result<(), LabError> {
        self.set_file_of(&self.host, file, value)
    }

    /// Writes settings to files, each with its value.
    pub(super) fn set_files(&self, files: &[(String, String)]) -> Result<(), LabError> {
        self.set_files_of(&self.host, files)
    }

    /// Writes this value to a file of another host.
    pub(super) fn set_file_of(
        &self,
        host: &Arc<dyn Host>,
        file: &str,
        value: &str,
    ) -> Result<(), LabError> {
        self.set_files_of(host, &[(file.to_owned(), value.to_owned())])
    }

    fn set_files_of(
        &self,
        host: &Arc<dyn Host>,
        files: &[(String, String)],
    ) -> Result<(), LabError> {
        let names = |files: &[&(String, String)]| {
            let names: Vec<_> = files.iter().map(|(file, _)| quoted(file)).collect();
            format!("cat {}", names.join(" "))
        };
        let read = |files: &[&(String, String)]| -> Result<Vec<String>, LabError> {
            let action = names(files);
            let output = host.query("sh", &["-c", &action])?;
            let is_plain = |c: char| c == ' ' || c == '\t' || c.is_ascii_graphic();
            let found: Vec<String> = output.trim().lines().map(|l| l.trim().to_owned()).collect();
            let is_value = |line: &String| !line.is_empty() && line.chars().all(is_plain);
            match found.len() == files.len() && found.iter().all(is_value) {
                true => Ok(found),
                false => Err(not_understood(host.as_ref(), &action, &output)),
            }
        };
        let write = |file: &str, value: &str| {
            format!("printf '%s\\n' {} > {}", quoted(value), quoted(file))
        };
        let all: Vec<&(String, String)> = files.iter().collect();
        let before = read(&all)?;
        let changed = all.iter().zip(&before);
        let changed = changed.filter(|((_, value), old)| !settings::matches_value(old, value));
        let (changed, before): (Vec<&(String, String)>, Vec<&String>) = changed.unzip();
        let Some((first, _)) = changed.first() else {
            return Ok(());
        };
        // a value that could not be set need not be restored, and often cannot
        let restore = changed.iter().zip(&before).map(|((file, _), old)| {
            let is_as_before = format!("[ \"$(cat {})\" = {} ]", quoted(file), quoted(old));
            format!("{is_as_before} || {}", write(file, old))
        });
        let restore: Vec<String> = restore.collect();
        // one that cannot be restored must not keep others from it
        let undo_commands = match &restore[..] {
            [only] => only.clone(),
            all => format!(
                "failed=0\n{} || failed=1\nexit $failed",
                all.join(" || failed=1\n")
            ),
        };
        let what = match changed.len() {
            1 => first.clone(),
            many => format!("{many} files such as {first}"),
        };
        self.undo
            .changing(host, &what, Command::shell(&undo_commands), || {
                let lines = changed.iter().map(|(file, value)| write(file, value));
                let script = lines.collect::<Vec<_>>().join(" && ");
                let set = host.run(&Command::shell(&script), Limit::OURS);
                set.map_err(|error| self.refused(&format!("write to {what}"), error))?;
                let mut found = changed.iter().zip(read(&changed)?);
                match found.find(|((_, value), found)| !settings::matches_value(found, value)) {
                    None => Ok(()),
                    Some(((file, value), found)) => {
                        Err(self.not_kept(format!("{file} says {found}, not {value}")))
                    }
                }
            })
            .map(drop)
    }
}

/// Returns a rule that looks every source up in a set that contains none of them.
fn set_of(count: u64) -> String {
    let mut text = format!(
        "add table inet {SET}\ndelete table inet {SET}\ntable inet {SET} {{\n set known {{\n  type ipv4_addr\n  size {count}\n  elements = {{\n"
    );
    for n in 0..count {
        let _ = writeln!(text, "   {},", unused_v4(n, 1));
    }
    text + "  }\n }\n chain sources {\n  type filter hook forward priority 0; policy accept;\n  ip saddr @known drop\n }\n}\n"
}

/// Returns a firewall that accepts established and new connections, or one that accepts everything.
fn state_table(is_on: bool) -> String {
    let rules = match is_on {
        true => "  ct state established,related accept\n  ct state new accept\n",
        false => "  accept\n",
    };
    format!(
        "add table inet {STATE}\ndelete table inet {STATE}\ntable inet {STATE} {{\n chain forward {{\n  type filter hook forward priority 0; \
         policy drop;\n{rules} }}\n}}\n"
    )
}

fn iptables_rules(count: u64) -> String {
    let mut text = String::new();
    for n in 0..count {
        let _ = writeln!(text, "-A {RULES_CHAIN} -s {}/32 -j DROP", unused_v4(n, 1));
    }
    text
}

fn iptables_state(is_on: bool) -> String {
    match is_on {
        true => format!(
            "-A {STATE_CHAIN} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A {STATE_CHAIN} -m conntrack --ctstate NEW -j ACCEPT\n\
             -A {STATE_CHAIN} -j DROP\n"
        ),
        false => format!("-A {STATE_CHAIN} -j ACCEPT\n"),
    }
}

fn ipset_of(count: u64) -> String {
    let mut text = format!("create {IPSET} hash:ip family inet maxelem {count}\n");
    for n in 0..count {
        let _ = writeln!(text, "add {IPSET} {}", unused_v4(n, 1));
    }
    text
}

/// Removes a chain of iptables, and all jumps to it; it may be gone already. If it was the first
/// chain, the table that was created with it is removed, too, unless others have added something.
fn without_chain(iptables: &str, chain: &str, is_first: bool) -> Command {
    let mut text = format!(
        "{iptables} -w 60 -S {chain} >/dev/null 2>&1 || exit 0\n\
         while {iptables} -w 60 -D FORWARD -j {chain} 2>/dev/null; do :; done\n\
         {iptables} -w 60 -F {chain} && {iptables} -w 60 -X {chain} || exit\n"
    );
    if is_first {
        text += "iptables-nft -w 60 -S | grep -q '^-[AN]' || nft delete table ip filter\n";
    }
    Command::shell(&text).called(format!("{iptables} -X {chain}"))
}

/// Queues of a port of one kind: `combined`, their number, and the maximum.
#[derive(Debug, PartialEq, Eq)]
struct Channels {
    kind: String,
    now: u64,
    most: u64,
}

/// Parses the settable queues of `ethtool -l`.
fn channels(text: &str) -> Option<Vec<Channels>> {
    let (most, now) = text.split_once("Current hardware settings:")?;
    let value = |text: &str, name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}:")))?;
        // n/a: not supported by the driver
        Some(line.trim().parse::<u64>().unwrap_or(0))
    };
    let all = ["Combined", "RX", "TX"];
    let can = |name: &&str| value(most, name).is_some_and(|most| most > 0);
    let settable: Vec<&str> = all.into_iter().filter(can).collect();
    let chosen: Vec<&str> = match settable.first() {
        Some(&"Combined") => vec!["Combined"],
        _ => settable,
    };
    let of = |name: &str| {
        Some(Channels {
            kind: name.to_lowercase(),
            now: value(now, name)?,
            most: value(most, name)?,
        })
    };
    chosen.into_iter().map(of).collect()
}

/// Returns the interrupts of a port, each with its turn, from 0: the number of its queue, which is
/// the last number of its name (`eth1-TxRx-3`, `virtio1-input.3`, `mlx5_comp3@pci:0000:03:00.0`).
/// Those for events, which have none, have the first turn. If no queues are known, each has its own
/// turn.
fn turns(named: &[(u32, &str)], port: &str) -> Vec<(u32, usize)> {
    let queue = |name: &str| {
        let name = name.split('@').next().unwrap_or_default();
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        // the name of the port itself
        (name != port).then(|| name[name.len() - digits..].parse().ok())?
    };
    let queues: Vec<Option<usize>> = named.iter().map(|(_, name)| queue(name)).collect();
    let is_known = queues.iter().any(Option::is_some);
    let turn = |at: usize| match is_known {
        true => queues[at].unwrap_or(0),
        false => at,
    };
    (0..named.len()).map(|at| (named[at].0, turn(at))).collect()
}

/// Returns the NAPI threads in lines such as `/proc/77/comm:napi/eth1-8193` in the order of their
/// queues: those that receive, and those that only send, whose id is 0.
fn napi_threads(text: &str) -> Option<[Vec<u32>; 2]> {
    let of = |line: &str| {
        let (file, name) = line.split_once(':')?;
        let number = file.strip_prefix("/proc/")?.strip_suffix("/comm")?;
        let (_, id) = name.trim().rsplit_once('-')?;
        Some((id.parse::<u32>().ok()?, number.parse::<u32>().ok()?))
    };
    let mut all = text.lines().map(of).collect::<Option<Vec<_>>>()?;
    all.sort_unstable();
    let (sending, receiving): (Vec<_>, Vec<_>) = all.into_iter().partition(|(id, _)| *id == 0);
    Some([receiving, sending].map(|group| group.into_iter().map(|(_, thread)| thread).collect()))
}

/// Returns `on` or `off`, and whether the driver allows a change.
fn offload_of(text: &str, feature: &str) -> Option<(String, bool)> {
    let mut names = WRITTEN_OUT.iter().chain([&RXHASH]);
    let name = names
        .find(|(short, _)| *short == feature)
        .map_or(feature, |(_, long)| *long);
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, state) = lines.into_iter().find(|(of, _)| of.trim() == name)?;
    let mut words = state.split_whitespace();
    let state = words.next().filter(|state| ["on", "off"].contains(state))?;
    Some((state.to_owned(), words.next() == Some("[fixed]")))
}

#[cfg(test)]
mod tests {
    use super::super::tests::linux;
    use super::*;
    use crate::host::scripted::Scripted;
    use crate::networks::End;

    /// Output of ethtool 6.1.
    #[test]
    fn ethtool_output_is_parsed() {
        let text = "Channel parameters for ens1:\nPre-set maximums:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\nCombined:\t63\n\
                    Current hardware settings:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\nCombined:\t4\n";
        let of = |kind: &str, now, most| Channels {
            kind: kind.into(),
            now,
            most,
        };
        assert_eq!(channels(text), Some(vec![of("combined", 4, 63)]));
        let apart = text.replace("n/a", "2").replace("63", "0");
        assert_eq!(channels(&apart), Some(vec![of("rx", 2, 2), of("tx", 2, 2)]));
        assert_eq!(channels(&text.replace("63", "0")), Some(vec![]));
        assert_eq!(channels("nonsense"), None);

        let text = "Features for ens1:\nrx-checksumming: on\ngeneric-receive-offload: off [requested on]\nlarge-receive-offload: off [fixed]\n\
                    \ttx-tcp-segmentation: on\n";
        assert_eq!(offload_of(text, "gro"), Some(("off".into(), false)));
        assert_eq!(offload_of(text, "lro"), Some(("off".into(), true)));
        assert_eq!(
            offload_of(text, "tx-tcp-segmentation"),
            Some(("on".into(), false))
        );
        assert_eq!(offload_of(text, "rxhash"), None);
    }

    /// A machine whose offloads ignore every change.
    #[test]
    fn impossible_settings_are_refused_before_any_change() {
        let output = "generic-receive-offload: off\nlarge-receive-offload: off [fixed]\n";
        let (dut, host, _) = linux(Scripted::new(move |command, _| match command {
            _ if command.starts_with("ethtool -k") => output.into(),
            _ => String::new(),
        }));
        for (text, expect) in [
            (
                "offload,feature=lro,state=on",
                "its driver does not allow that; it is always off",
            ),
            ("offload,feature=tso,state=on", "does not name it"),
            (
                "offload,feature=gro,state=on",
                "router1 did not keep the setting: gro of ens1 is off, not on",
            ),
            ("irq-affinity,cpus=2", "it has no interrupts"),
            ("napi-affinity,cpus=2", "have the same names"),
            ("packet-steering,n=4", "fwdlab knows 3 of its CPUs"),
            (
                "sysctl,name=vm.swappiness,value=1",
                "has only its own settings below `net`",
            ),
        ] {
            let one = &Generated::parse(text).unwrap()[0];
            let error = dut.generate(one).unwrap_err().to_string();
            assert!(error.contains(expect), "{text}: {error}");
        }
        let offload = &Generated::parse("offload,feature=gro,state=off").unwrap()[0];
        dut.generate(offload).unwrap();
        let requested = host.commands();
        let changes: Vec<&String> = requested
            .iter()
            .filter(|command| command.contains("ethtool -K"))
            .collect();
        let interrupts = format!("ls {}/msi_irqs", pci_device("ens1"));
        assert!(
            requested
                .iter()
                .any(|command| command.contains(&interrupts))
        );
        // the setting that was not kept, and its undo command
        let input = dut.sides.port(End::Input);
        assert_eq!(
            changes,
            [
                &format!("ethtool -K {input} gro on"),
                &format!("ethtool -K {input} gro off")
            ]
        );
    }
}
