//! Rules, tables and routes of a FreeBSD DUT: ipfw, pf, and what sweeps and modifiers need.
//!
//! ipfw rules are in separate sets, which are counted and removed as a whole; pf has a single
//! ruleset, which is used only if it is empty. Start with [`FreeBsd::generate`].

use std::fmt::Write;
use std::sync::PoisonError;

use fwdlab_model::family::Generated;
use fwdlab_model::trial::IpVersion;

use super::{FreeBsd, GONE, jail, read};
use crate::dut::refuse;
use crate::dut::sweep::{unused_v4, unused_v6};
use crate::dut::unix::Unix;
use crate::dut::{Change, Route};
use crate::error::LabError;
use crate::host::not_understood;
use crate::host::{Command, Limit};
use crate::networks::End;

/// Sets of ipfw; 31 is reserved by ipfw.
const SWEPT: u8 = 30;
const GENERATED: u8 = 29;
const FILTERS: u8 = 28;

/// The name of the table of ipfw and of pf.
const TABLE: &str = "fwdlab";

/// Loads ipfw so that it accepts by default, which includes our own connection.
const LOAD_IPFW: &str =
    "kldstat -q -m ipfw || { kenv net.inet.ip.fw.default_to_accept=1 >/dev/null; kldload ipfw; }\n";

impl FreeBsd {
    /// Generates a configuration of a family, and checks that it is in force.
    pub(super) fn generate(&self, one: &Generated) -> Result<(), LabError> {
        let n = one.count("n");
        match one.family.name {
            "ipfw-rules" => self.ipfw(GENERATED, "", &idle(IpVersion::Ipv4, GENERATED, n), n),
            "ipfw-table" => self.ipfw_table(n),
            "ipfw-stateful" => {
                let rules = match one.is_on() {
                    true => format!(
                        "add 100 set {GENERATED} check-state\nadd 110 set {GENERATED} allow ip from any to any keep-state\n"
                    ),
                    false => format!("add 110 set {GENERATED} allow ip from any to any\n"),
                };
                self.ipfw(GENERATED, "", &rules, rules.lines().count() as u64)
            }
            "pf-rules" => {
                let mut rules = String::from("set ruleset-optimization none\n");
                for k in 0..n {
                    let _ = writeln!(rules, "block drop quick from {} to any", unused_v4(k, 1));
                }
                self.pf(&(rules + "pass all no state\n"), "", &|there| {
                    let there = there.lines().filter(|line| line.starts_with("block drop quick"));
                    self.same(n, there.count() as u64, "rules of pf")
                })
            }
            "pf-table" => self.pf_table(n),
            "pf-stateful" => {
                let state = if one.is_on() { "keep state" } else { "no state" };
                self.pf(&format!("pass all {state}\n"), "", &|there| match there.contains(state) {
                    true => Ok(()),
                    false => Err(self.not_kept(format!("`pfctl -sr` lists no rule with {state}: {}", there.trim()))),
                })
            }
            jail::FAMILY => self.jail(),
            other => return refuse(self, format!("do {other}"), "leave it out"),
        }
        .map(drop)
    }

    fn same(&self, requested: u64, there: u64, action: &str) -> Result<(), LabError> {
        match requested == there {
            true => Ok(()),
            false => Err(self.not_kept(format!(
                "the kernel lists {there} {action}, not {requested}"
            ))),
        }
    }

    /// Returns true if a kernel module is loaded.
    fn has_module(&self, name: &str) -> Result<bool, LabError> {
        let look = format!("kldstat -q -m {name} && echo yes || echo no");
        let look = Command::shell(&look).called(format!("kldstat -q -m {name}"));
        let output = self.host.run(&look, Limit::OURS)?;
        match String::from_utf8_lossy(&output.stdout).trim() {
            "yes" => Ok(true),
            "no" => Ok(false),
            other => Err(not_understood(self.host.as_ref(), &look.to_string(), other)),
        }
    }

    /// Loads rules of ipfw into a set and checks their number; `more` runs before they are loaded.
    fn ipfw(&self, set: u8, more: &str, rules: &str, count: u64) -> Result<Change, LabError> {
        let was_loaded = self.has_module("ipfw")?;
        let unload = match was_loaded {
            true => "",
            false => "kldunload ipfw\n",
        };
        let mut undo =
            format!("set -e\n{GONE}kldstat -q -m ipfw || exit 0\nipfw -q delete set {set}\n");
        if !more.is_empty() {
            let _ = writeln!(undo, "gone ipfw table {TABLE} destroy");
        }
        let undo = self.script(&format!("remove set {set} of ipfw"), &(undo + unload));
        let action = format!("{count} rules of ipfw");
        let script = format!(
            "set -e\n{LOAD_IPFW}ipfw -q delete set {set}\n{more}ipfw -q /dev/stdin <<'END'\n{rules}END\n"
        );
        self.changing(&action, undo, || {
            self.host
                .run(&self.script(&format!("set {action}"), &script), Limit::OURS)?;
            let set = set.to_string();
            let there = self.host.query("ipfw", &["set", &set, "list"])?;
            let is_rule = |line: &&str| {
                line.split_whitespace()
                    .next()
                    .is_some_and(|n| n.parse::<u32>().is_ok())
            };
            self.same(
                count,
                there.lines().filter(is_rule).count() as u64,
                "rules of ipfw",
            )
        })
    }

    fn ipfw_table(&self, count: u64) -> Result<Change, LabError> {
        let mut more = format!(
            "ipfw table {TABLE} destroy 2>/dev/null || :\nipfw table {TABLE} create type addr\nipfw -q /dev/stdin <<'END'\n"
        );
        for k in 0..count {
            let _ = writeln!(more, "table {TABLE} add {}", unused_v4(k, 1));
        }
        more += "END\n";
        let rule = format!("add 100 set {GENERATED} deny ip from 'table({TABLE})' to any\n");
        let change = self.ipfw(GENERATED, &more, &rule.replace('\'', ""), 1)?;
        let output = self.host.query("ipfw", &["table", TABLE, "info"])?;
        // `  items: 100, size: 12345`
        let items = output
            .lines()
            .find_map(|line| line.trim().strip_prefix("items: "));
        let items = items
            .and_then(|rest| rest.split(',').next())
            .and_then(|n| n.trim().parse().ok());
        match items {
            Some(there) => self.same(count, there, "entries of the table")?,
            None => {
                return Err(not_understood(
                    self.host.as_ref(),
                    &format!("ipfw table {TABLE} info"),
                    &output,
                ));
            }
        }
        Ok(change)
    }

    /// Loads rules of pf, which must have none; `more` runs after they are loaded.
    fn pf(
        &self,
        rules: &str,
        more: &str,
        look: &dyn Fn(&str) -> Result<(), LabError>,
    ) -> Result<Change, LabError> {
        let was_loaded = self.has_module("pf")?;
        if was_loaded {
            let there = self.host.query("pfctl", &["-sr"])?;
            if !there.trim().is_empty() {
                return refuse(
                    self,
                    format!(
                        "generate rules of pf while it has others ({} lines)",
                        there.lines().count()
                    ),
                    "remove those with `pfctl -F rules`, or write a configuration set with a pf.conf of its own",
                );
            }
        }
        let unload = match was_loaded {
            true => "",
            false => "kldunload pf\n",
        };
        // pfctl fails if pf is disabled already; that is fine
        let undo = format!(
            "set -e\nkldstat -q -m pf || exit 0\npfctl -q -d 2>/dev/null || :\npfctl -q -F all\n{unload}"
        );
        let undo = self.script("undo rules of pf", &undo);
        let script = format!(
            "set -e\nkldstat -q -m pf || kldload pf\npfctl -q -f - <<'END'\n{rules}END\n{more}pfctl -s info | grep -q '^Status: Enabled' || pfctl -q -e\n"
        );
        self.changing("rules of pf", undo, || {
            self.host
                .run(&self.script("set rules of pf", &script), Limit::OURS)?;
            look(&self.host.query("pfctl", &["-sr"])?)
        })
    }

    fn pf_table(&self, count: u64) -> Result<Change, LabError> {
        let rules = format!(
            "table <{TABLE}> persist\nblock drop quick from <{TABLE}> to any\npass all no state\n"
        );
        let mut more = format!("pfctl -q -t {TABLE} -T add -f - <<'END'\n");
        for k in 0..count {
            let _ = writeln!(more, "{}", unused_v4(k, 1));
        }
        more += "END\n";
        self.pf(&rules, &more, &|there| {
            if !there.contains(&format!("from <{TABLE}> ")) {
                let there = there.trim();
                return Err(self.not_kept(format!(
                    "`pfctl -sr` lists no rule with the table: {}",
                    there.escape_debug()
                )));
            }
            let there = self.host.query("pfctl", &["-t", TABLE, "-T", "show"])?;
            let there = there
                .lines()
                .filter(|line| line.trim().parse::<std::net::Ipv4Addr>().is_ok());
            self.same(count, there.count() as u64, "entries of the table")
        })
    }

    /// Sets the rules of a sweep, which match nothing.
    pub(super) fn set_rules(&self, version: IpVersion, count: u64) -> Result<Change, LabError> {
        self.ipfw(SWEPT, "", &idle(version, SWEPT, count), count)
    }

    /// Sets filters, of which the last permits the test frames. They apply only to frames received
    /// on the test ports, not to our own connection.
    pub(super) fn set_filters(
        &self,
        permitted: &[(String, String)],
        rules: u32,
        report: &mut dyn FnMut(String) -> Result<(), LabError>,
    ) -> Result<Change, LabError> {
        let is_ipv6 = permitted
            .first()
            .is_some_and(|(from, _)| from.contains(':'));
        let ports = self.sides.ports.clone();
        let mut text = String::new();
        let mut count = 0;
        for port in &ports {
            let mut add = |rule: String| {
                count += 1;
                let _ = writeln!(
                    text,
                    "add {} set {FILTERS} {rule} in recv {port}",
                    1000 + count
                );
            };
            for n in 1..rules {
                add(match is_ipv6 {
                    false => format!("deny ip4 from 192.0.2.{n} to 192.0.2.{}", 100 + n),
                    true => format!("deny ip6 from 2001:db8::{n:x} to 2001:db8:1::{n:x}"),
                });
            }
            for (from, to) in permitted {
                add(format!("allow ip from {from} to {to}"));
            }
            add("deny ip from any to any".into());
        }
        report(format!("filters on the DUT, ipfw:\n{text}"))?;
        self.ipfw(FILTERS, "", &text, count)
    }

    /// Sets the routes of a sweep, which no frame takes.
    pub(super) fn set_routes(&self, version: IpVersion, count: u64) -> Result<Change, LabError> {
        let side = self.sides.networks.side(End::Output);
        let next = side.next_hop(version).to_string();
        let (family, flag, begin) = match version {
            IpVersion::Ipv4 => ("inet", "", "20."),
            IpVersion::Ipv6 => ("inet6", "-6 ", "2001:db8:"),
        };
        let (mut script, mut undo) = ("set -e\n".to_owned(), format!("set -e\n{GONE}"));
        for n in 0..count {
            let network = match version {
                IpVersion::Ipv4 => format!("{}/24", unused_v4(n, 256)),
                IpVersion::Ipv6 => format!("{}/64", unused_v6(u128::from(n) << 64)),
            };
            let _ = writeln!(script, "route -qn add {flag}-net {network} {next}");
            let _ = writeln!(undo, "gone route -qn delete {flag}-net {network} {next}");
        }
        let action = format!("{count} routes");
        let undo = self.script(&format!("take {action} back"), &undo);
        self.changing(&action, undo, || {
            self.host
                .run(&self.script(&format!("set {action}"), &script), Limit::OURS)?;
            let table = self.host.query("netstat", &["-rnW", "-f", family])?;
            self.same(count, read::routes(&table, begin, &next) as u64, "routes")
        })
    }

    /// Adds routes via next hops of the bed.
    pub(super) fn add_routes(&self, routes: &[Route]) -> Result<String, LabError> {
        let (script, words) = self.routing(routes);
        let mut undo = format!("set -e\n{GONE}");
        for line in words.lines() {
            let _ = writeln!(
                undo,
                "gone {}",
                line.replacen("route add", "route -n delete", 1)
            );
        }
        if !routes.is_empty() {
            let undo = self.script("undo routes for test frames", &undo);
            self.changing("routes for test frames", undo, || {
                self.host.run(
                    &self.script("set routes for test frames", &script),
                    Limit::OURS,
                )?;
                Ok(())
            })?;
            let mut all = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(routes);
        }
        Ok(words)
    }

    /// Returns the script that sets these routes, and their description.
    pub(super) fn routing(&self, routes: &[Route]) -> (String, String) {
        let (mut script, mut words) = ("set -e\n".to_owned(), String::new());
        for route in routes {
            let (network, length) = route.network;
            let (version, flag) = match network.is_ipv4() {
                true => (IpVersion::Ipv4, ""),
                false => (IpVersion::Ipv6, "-6 "),
            };
            let next = self.sides.networks.side(route.out).next_hop(version);
            let of = format!("{flag}-net {network}/{length} {next}");
            let _ = writeln!(script, "route -n add {of} || route -n change {of}");
            let _ = writeln!(words, "route add {of}");
        }
        (script, words)
    }
}

/// Returns rules that match nothing.
fn idle(version: IpVersion, set: u8, count: u64) -> String {
    let mut text = String::new();
    for n in 0..count {
        let _ = match version {
            IpVersion::Ipv4 => writeln!(
                text,
                "add {} set {set} deny ip4 from {} to any",
                100 + n,
                unused_v4(n, 1)
            ),
            IpVersion::Ipv6 => {
                writeln!(
                    text,
                    "add {} set {set} deny ip6 from {} to any",
                    100 + n,
                    unused_v6(u128::from(n))
                )
            }
        };
    }
    text
}
