//! Rules and routes of a Linux DUT: those of sweeps, of modifiers (RFC 2544 §11), and those that
//! test frames need.
//!
//! All have their own tables or protocols, and can be found and removed as a whole. None affects a
//! test frame except the filters, whose last rule permits them. Start with [`Linux::set_rules`].

use std::fmt::Write;
use std::net::IpAddr;

use fwdlab_model::trial::IpVersion;

use super::{Linux, family};
use crate::dut::sweep::{unused_v4, unused_v6};
use crate::dut::unix::Unix;
use crate::dut::{Change, Route, Updates};
use crate::error::LabError;
use crate::host::not_understood;
use crate::host::{Command, Limit, quoted};
use crate::networks::End;
use crate::placement::Placement;

/// The owner of rules or routes; both kinds can exist at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleOwner {
    /// A sweep.
    Swept,
    /// A generated configuration.
    Generated,
}

impl RuleOwner {
    /// Returns the name of its table.
    fn table(self) -> &'static str {
        match self {
            RuleOwner::Swept => "fwdlab",
            RuleOwner::Generated => "fwdlab_rules",
        }
    }

    /// Returns the mark of its routes (rtnetlink's `protocol`).
    fn protocol(self) -> &'static str {
        match self {
            RuleOwner::Swept => "198",
            RuleOwner::Generated => "197",
        }
    }
}

/// The table of a modifier's filters.
const FILTERS: &str = "fwdlab_filters";

/// The mark of routes that are updated.
const UPDATED_ROUTES: &str = "199";

/// Networks whose routes change (TEST-NET-2 and -3 in /28s, RFC 5737): no test frame goes there.
const UPDATED: [&str; 2] = ["198.51.100", "203.0.113"];
const UPDATED_V6: &str = "2001:db8";
const PER_BLOCK: u32 = 16;

impl Linux {
    /// Spreads received flows over the first `count` of its CPUs with packet steering. It is off
    /// for one CPU if a single thread forwards there; otherwise it moves all flows to this CPU.
    pub(super) fn steer(&self, count: usize) -> Result<Change, LabError> {
        let cpus = self.cpus.get(..count).unwrap_or(&self.cpus);
        let mask = match cpus {
            [] => "0".to_owned(),
            [_] if self.thread.is_some() => "0".to_owned(),
            cpus => Placement {
                dut_cpus: cpus.to_vec(),
                ..Placement::default()
            }
            .rps_mask(),
        };
        let port = quoted(self.sides.port(End::Input)).into_owned();
        let all = format!("cd /sys/class/net/{port}/queues && grep . rx-*/rps_cpus /dev/null");
        let read = || -> Result<Vec<(String, String)>, LabError> {
            let output = self.host.query("sh", &["-c", &all])?;
            let queue = |line: &str| {
                let (file, mask) = line.split_once(':')?;
                let is_mask = mask.chars().all(|c| c.is_ascii_hexdigit() || c == ',');
                (file.starts_with("rx-") && is_mask && !mask.is_empty())
                    .then(|| (file.to_owned(), mask.to_owned()))
            };
            let queues: Option<Vec<_>> = output.lines().map(queue).collect();
            let queues = queues.filter(|queues| !queues.is_empty());
            queues.ok_or_else(|| not_understood(self.host.as_ref(), &all, &output))
        };
        let before = read()?;
        let write = |mask: &dyn Fn(&str) -> String| {
            let lines = before
                .iter()
                .map(|(file, old)| format!("\necho {} > {}", mask(old), quoted(file)));
            let lines: String = lines.collect();
            Command::shell(&format!("set -e\ncd /sys/class/net/{port}/queues{lines}"))
        };
        self.undo.changing(
            &self.host,
            "packet steering",
            write(&|old| format!("'{old}'")),
            || {
                self.host.run(&write(&|_| mask.clone()), Limit::OURS)?;
                // the kernel may add leading zeros and commas
                let digits = |text: &str| {
                    let digits = text.trim().replace(',', "");
                    digits.trim_start_matches('0').to_owned()
                };
                match read()?
                    .iter()
                    .find(|(_, found)| digits(found) != digits(&mask))
                {
                    None => Ok(()),
                    Some((file, found)) => {
                        Err(self.not_kept(format!("{file} of {port} says {found}, not {mask}")))
                    }
                }
            },
        )
    }

    /// Sets rules that match nothing, before the rest of the forwarding.
    pub(super) fn set_rules(
        &self,
        whose: RuleOwner,
        version: IpVersion,
        count: u64,
    ) -> Result<Change, LabError> {
        let table = whose.table();
        let action = format!("{count} rules of nftables");
        self.load_table(
            table,
            &action,
            &idle_rules(table, version, count),
            |there| {
                let rules = there.lines().filter(|line| line.trim().ends_with(" drop"));
                self.same(count, rules.count(), "nftables rules")
            },
        )
    }

    /// Loads a table of ours from this text, and checks it with `look`.
    pub(super) fn load_table(
        &self,
        table: &str,
        action: &str,
        text: &str,
        look: impl FnOnce(&str) -> Result<(), LabError>,
    ) -> Result<Change, LabError> {
        self.undo.changing(&self.host, action, without(table), || {
            self.host.feed("nft", &["-f", "-"], text)?;
            look(&self.host.query("nft", &["list", "table", "inet", table])?)
        })
    }

    /// Sets routes that no frame takes.
    pub(super) fn set_routes(
        &self,
        whose: RuleOwner,
        version: IpVersion,
        count: u64,
    ) -> Result<Change, LabError> {
        let protocol = whose.protocol();
        let undo_commands = without_routes(version, protocol);
        self.undo.changing(
            &self.host,
            &format!("{count} routes"),
            undo_commands,
            || {
                self.host.feed(
                    "ip",
                    &["-batch", "-"],
                    &self.idle_routes(protocol, version, count),
                )?;
                let show = [family(version), "route", "show", "proto", protocol];
                let there = self.host.query("ip", &show)?;
                let port = format!(" dev {}", self.sides.port(End::Output));
                let there = there.lines().filter(|line| line.contains(&port));
                self.same(count, there.count(), "routes")
            },
        )
    }

    /// Checks that the kernel has as many as were requested.
    pub(super) fn same(&self, requested: u64, there: usize, action: &str) -> Result<(), LabError> {
        match requested == there as u64 {
            true => Ok(()),
            false => Err(self.not_kept(format!(
                "the kernel lists {there} {action}, not {requested}"
            ))),
        }
    }

    /// Returns routes to networks without traffic, via the next hop of the test frames.
    fn idle_routes(&self, protocol: &str, version: IpVersion, count: u64) -> String {
        let (out, port) = (
            self.sides.networks.side(End::Output),
            self.sides.port(End::Output),
        );
        let mut text = String::new();
        for n in 0..count {
            let _ = match version {
                IpVersion::Ipv4 => writeln!(
                    text,
                    "route add {}/24 via {} dev {port} proto {protocol}",
                    unused_v4(n, 256),
                    out.ipv4.next_hop
                ),
                IpVersion::Ipv6 => writeln!(
                    text,
                    "route add {}/64 dev {port} proto {protocol}",
                    unused_v6(u128::from(n) << 64)
                ),
            };
        }
        text
    }

    /// Adds routes via next hops of the bed.
    pub(super) fn add_routes(&self, routes: &[Route]) -> Result<String, LabError> {
        let (mut batch, mut undo_commands) = (String::new(), String::new());
        for route in routes {
            let (network, length) = route.network;
            let via = self.next_hop(network, route.out);
            let _ = writeln!(batch, "route replace {network}/{length} {via}");
            let _ = writeln!(undo_commands, "route flush exact {network}/{length} {via}");
        }
        if !routes.is_empty() {
            let batched = Command::new("ip", &["-batch", "-"]);
            let undo_commands = batched.with_input(undo_commands);
            self.undo
                .changing(&self.host, "routes for test frames", undo_commands, || {
                    Ok(self.host.feed("ip", &["-batch", "-"], &batch)?)
                })?;
        }
        Ok(batch)
    }

    /// `via 198.19.0.2 dev eth1`.
    fn next_hop(&self, to: IpAddr, out: End) -> String {
        let version = match to {
            IpAddr::V4(_) => IpVersion::Ipv4,
            IpAddr::V6(_) => IpVersion::Ipv6,
        };
        let via = self.sides.networks.side(out).next_hop(version);
        format!("via {via} dev {}", self.sides.port(out))
    }

    /// Sets filters, of which the last permits the test frames.
    pub(super) fn set_filters(
        &self,
        permitted: &[(String, String)],
        rules: u32,
        report: &mut dyn FnMut(String) -> Result<(), LabError>,
    ) -> Result<Change, LabError> {
        let rules = filters(permitted, rules);
        report(format!("filters on the DUT, nft -f:\n{rules}"))?;
        self.undo
            .changing(&self.host, "filters", without(FILTERS), || {
                let loaded = self.host.feed("nft", &["-f", "-"], &rules);
                loaded.map_err(|error| LabError::NotApplied {
                    name: format!("{FILTERS} (nft -f)"),
                    source: Box::new(error.into()),
                })
            })
    }

    /// Sets the initial state of the routes that change.
    pub(super) fn set_updated(
        &self,
        version: IpVersion,
        report: &mut dyn FnMut(String) -> Result<(), LabError>,
    ) -> Result<Change, LabError> {
        report(format!(
            "set by netlink and not by a routing protocol; state A, ip -batch:\n{}state B:\n{}",
            self.state(version, Updates::A),
            self.state(version, Updates::B)
        ))?;
        let undo_commands = without_routes(version, UPDATED_ROUTES);
        self.undo
            .changing(&self.host, "updated routes", undo_commands, || {
                self.change_updated(version, Updates::A)
            })
    }

    /// Sets the routes of a state, and reads them back.
    pub(super) fn change_updated(&self, version: IpVersion, to: Updates) -> Result<(), LabError> {
        let batch = self.state(version, to);
        self.host.feed("ip", &["-batch", "-"], &batch)?;
        let show = [family(version), "route", "show", "proto", UPDATED_ROUTES];
        let table = self.host.query("ip", &show)?;
        for line in batch.lines() {
            let requested = line.trim_start_matches("route replace ");
            let requested = requested.split(" proto ").next().unwrap_or(requested);
            if !table.lines().any(|route| route.starts_with(requested)) {
                return Err(self.not_kept(format!(
                    "a routing update was not applied: `{requested}` is not among its routes after `ip {line}`"
                )));
            }
        }
        Ok(())
    }

    /// Returns the routes of a state as a batch for `ip`.
    fn state(&self, version: IpVersion, state: Updates) -> String {
        let mut batch = String::new();
        for (network, n) in updated(version) {
            let out = match (n % 2 == 0) == (state == Updates::A) {
                true => End::Output,
                false => End::Input,
            };
            let via = self.sides.networks.side(out).next_hop(version);
            let port = self.sides.port(out);
            let _ = writeln!(
                batch,
                "route replace {network} via {via} dev {port} proto {UPDATED_ROUTES}"
            );
        }
        batch
    }
}

/// Returns the command that removes a table; adding it first avoids an error if it is gone already.
fn without(table: &str) -> Command {
    let text = format!("add table inet {table}\ndelete table inet {table}\n");
    Command::new("nft", &["-f", "-"]).with_input(text)
}

/// Returns the command that removes all routes with one of our marks.
fn without_routes(version: IpVersion, protocol: &str) -> Command {
    Command::new(
        "ip",
        &[family(version), "route", "flush", "proto", protocol],
    )
}

/// Returns a chain that every frame passes, with rules for sources that no frame has. Without rules
/// the chain exists, too, so that only the rules differ.
fn idle_rules(table: &str, version: IpVersion, count: u64) -> String {
    let mut text = format!(
        "add table inet {table}\ndelete table inet {table}\ntable inet {table} {{\n chain rules {{\n  type filter hook forward priority \
         0; policy accept;\n"
    );
    for n in 0..count {
        let _ = match version {
            IpVersion::Ipv4 => writeln!(text, "  ip saddr {} drop", unused_v4(n, 1)),
            IpVersion::Ipv6 => writeln!(text, "  ip6 saddr {} drop", unused_v6(u128::from(n))),
        };
    }
    text + " }\n}\n"
}

/// Returns rules that match nothing, followed by one that permits the test frames and one that
/// denies everything else. Every rule has a counter, which shows that it was evaluated.
fn filters(permitted: &[(String, String)], rules: u32) -> String {
    let mut text = format!(
        "table inet {FILTERS} {{\n  chain forward {{\n    type filter hook forward priority 0; policy drop;\n"
    );
    let is_ipv4 = permitted
        .first()
        .is_none_or(|(from, _)| !from.contains(':'));
    for n in 1..rules {
        // RFC 2544 C.2.6.4 puts other hosts before the permitted one
        let _ = match is_ipv4 {
            true => writeln!(
                text,
                "    ip saddr 192.0.2.{n} ip daddr 192.0.2.{} counter drop",
                100 + n
            ),
            false => writeln!(
                text,
                "    ip6 saddr 2001:db8::{n:x} ip6 daddr 2001:db8:1::{n:x} counter drop"
            ),
        };
    }
    for (from, to) in permitted {
        let ip = if from.contains(':') { "ip6" } else { "ip" };
        let _ = writeln!(text, "    {ip} saddr {from} {ip} daddr {to} counter accept");
    }
    text.push_str("    counter drop\n  }\n}\n");
    text
}

/// Returns the networks whose routes change, numbered.
fn updated(version: IpVersion) -> Vec<(String, u32)> {
    let networks: Vec<String> = match version {
        IpVersion::Ipv4 => (UPDATED.iter())
            .flat_map(|block| (0..PER_BLOCK).map(move |n| format!("{block}.{}/28", 16 * n)))
            .collect(),
        IpVersion::Ipv6 => (0..2 * PER_BLOCK)
            .map(|n| format!("{UPDATED_V6}:{n:x}::/48"))
            .collect(),
    };
    networks.into_iter().zip(0..).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::tests::linux;
    use super::*;
    use crate::dut::sweep::MOST_ROUTES;
    use crate::host::scripted::Scripted;

    #[test]
    fn generated_rules_and_routes_match_no_test_frame() {
        assert_eq!(unused_v4(0, 256), Ipv4Addr::new(20, 0, 0, 0));
        assert_eq!(
            unused_v4(MOST_ROUTES - 1, 256),
            Ipv4Addr::new(50, 132, 127, 0)
        );
        let (dut, _, _) = linux(Scripted::new(|_, _| String::new()));
        assert_eq!(
            dut.idle_routes("198", IpVersion::Ipv4, 3).lines().count(),
            3
        );
        let text = idle_rules("x", IpVersion::Ipv6, 2);
        assert!(text.contains("ip6 saddr 2001:db8::1 drop"), "{text}");
        assert_eq!(
            idle_rules("x", IpVersion::Ipv4, 0).matches("drop").count(),
            0
        );
    }

    #[test]
    fn rules_before_the_one_that_permits() {
        let pairs = vec![("198.18.0.0/16".to_owned(), "198.19.0.0/16".to_owned())];
        let one = filters(&pairs, 1);
        assert_eq!(one.matches("counter accept").count(), 1);
        // the denial of everything else, once as a rule with a counter
        assert_eq!(one.matches("counter drop").count(), 1);
        let many = filters(&pairs, 25);
        assert_eq!(many.matches("counter drop").count(), 25);
        let before = many.split("counter accept").next().unwrap();
        assert_eq!(before.matches("ip saddr 192.0.2.").count(), 24);
        let v6 = filters(&[("2001:2::/49".into(), "2001:2:0:8000::/49".into())], 25);
        assert_eq!(v6.matches("ip6 saddr 2001:db8::").count(), 24);
    }

    #[test]
    fn two_states_touch_the_same_networks_and_differ_in_all() {
        let (dut, _, _) = linux(Scripted::new(|_, _| String::new()));
        for version in [IpVersion::Ipv4, IpVersion::Ipv6] {
            let [a, b] = [Updates::A, Updates::B].map(|to| dut.state(version, to));
            let (a, b): (Vec<&str>, Vec<&str>) = (a.lines().collect(), b.lines().collect());
            assert_eq!(a.len(), 32);
            let network = |line: &&str| line.split(' ').nth(2).unwrap().to_owned();
            for (one, other) in a.iter().zip(&b) {
                assert_eq!(network(one), network(other));
                assert_ne!(one, other);
            }
        }
    }
}
