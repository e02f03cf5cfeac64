//! Rules and routes of VPP: those of the bed, those that test frames need, and those of sweeps and
//! modifiers.
//!
//! Rules are an ACL of the acl plugin at the input, found by its tag. A change counts as made only
//! after VPP's own tables were read. Start with [`Vpp::address`] and [`Vpp::set_acl`].

use std::fmt::Write;
use std::net::IpAddr;

use fwdlab_model::trial::IpVersion;

use super::Vpp;
use crate::dut::sweep::{unused_v4, unused_v6};
use crate::dut::{Change, Route};
use crate::error::LabError;
use crate::host::Limit;
use crate::networks::{End, mac};

/// The tag of a sweep's rules.
const SWEPT: &str = "fwdlab";

/// The tag of a modifier's filters.
const FILTERS: &str = "fwdlab_filters";

/// Removes the ACL with a tag from an interface, and then deletes it:
/// `sh -c WITHOUT vppctl socket`, with the tag and the interface on standard input.
const WITHOUT: &str = "\"$0\" -s \"$1\" show version > /dev/null 2>&1 || exit 0\n\
    read -r tag interface\n\
    \"$0\" -s \"$1\" show acl-plugin acl | sed -n \"s/^acl-index \\([0-9]*\\) .*tag {$tag}.*/\\1/p\" | while read -r index; do\n\
    \"$0\" -s \"$1\" \"set acl-plugin interface $interface input acl $index del\"\n\
    \"$0\" -s \"$1\" \"delete acl-plugin acl index $index\"\n\
    done";

impl Vpp {
    /// Sets its ports up, with the addresses, next hops and routes of the bed.
    pub(super) fn address(&self) -> Result<(), LabError> {
        let (mut lines, mut undo) = (String::new(), String::new());
        for (side, port) in self.sides.each() {
            let lladdr = mac(side.tester_mac);
            if self.sets_macs {
                let _ = writeln!(
                    lines,
                    "set interface mac address {port} {}",
                    mac(side.dut_mac)
                );
            }
            let _ = writeln!(lines, "set interface state {port} up");
            for version in [IpVersion::Ipv4, IpVersion::Ipv6] {
                let own = match version {
                    IpVersion::Ipv4 => format!("{}/{}", side.ipv4.dut, side.ipv4.length),
                    IpVersion::Ipv6 => format!("{}/{}", side.ipv6.dut, side.ipv6.length),
                };
                let (next_hop, behind) = (side.next_hop(version), side.prefix(version));
                let _ = writeln!(
                    lines,
                    "set interface ip address {port} {own}\nset ip neighbor {port} {next_hop} {lladdr} static\n\
                     ip route add {behind} via {next_hop} {port}"
                );
                let _ = writeln!(
                    undo,
                    "ip route del {behind} via {next_hop} {port}\nset ip neighbor del {port} {next_hop} {lladdr} static\n\
                     set interface ip address del {port} {own}"
                );
            }
            // no frames from the DUT itself
            let _ = writeln!(lines, "ip6 nd {port} ra-suppress");
        }
        let undo = self.cli.each(&undo);
        self.changing("addresses and routes of the bed", undo, || {
            self.cli.exec(&lines, Limit::OURS)
        })?;
        for (_, port) in self.sides.each() {
            match self.interface(port)?.is_up {
                true => {}
                false => return Err(self.otherwise(format!("{port} is down"))),
            }
        }
        Ok(())
    }

    /// Adds routes via next hops of the bed.
    pub(super) fn add_routes(&self, routes: &[Route]) -> Result<String, LabError> {
        let (mut lines, mut undo) = (String::new(), String::new());
        for route in routes {
            let (network, length) = route.network;
            let via = self.via(network, route.out);
            let _ = writeln!(lines, "ip route add {network}/{length} {via}");
            let _ = writeln!(undo, "ip route del {network}/{length} {via}");
        }
        if !routes.is_empty() {
            let undo = self.cli.each(&undo);
            self.changing("routes for test frames", undo, || {
                self.cli.exec(&lines, Limit::OURS)
            })?;
        }
        Ok(lines)
    }

    /// Sets routes to consecutive networks that no frame takes.
    pub(super) fn set_routes(&self, version: IpVersion, count: u64) -> Result<Change, LabError> {
        let (network, length): (IpAddr, u8) = match version {
            IpVersion::Ipv4 => (unused_v4(0, 1).into(), 24),
            IpVersion::Ipv6 => (unused_v6(0).into(), 64),
        };
        let via = self.via(network, End::Output);
        let line = |verb: &str| format!("ip route {verb} {network}/{length} count {count} {via}");
        let undo = self.cli.each(&line("del"));
        let before = self.routes_of(version, length)?;
        self.changing(&format!("{count} routes"), undo, || {
            if count > 0 {
                self.cli.exec(&line("add"), Limit::OURS)?;
            }
            let there = self.routes_of(version, length)?.saturating_sub(before);
            match there == count {
                true => Ok(()),
                false => Err(self.otherwise(format!(
                    "it lists {there} more routes of {length} bits than before, not {count}"
                ))),
            }
        })
    }

    /// Returns the number of its routes with this prefix length.
    fn routes_of(&self, version: IpVersion, length: u8) -> Result<u64, LabError> {
        let table = match version {
            IpVersion::Ipv4 => "ip",
            IpVersion::Ipv6 => "ip6",
        };
        let text = self.cli.query(&format!("show {table} fib summary"))?;
        // `                  24            1000`
        let rows = text.lines().filter_map(|line| {
            let mut words = line.split_whitespace().map(str::parse::<u64>);
            match (words.next(), words.next(), words.next()) {
                (Some(Ok(of)), Some(Ok(count)), None) => Some((of, count)),
                _ => None,
            }
        });
        let of_length = rows.filter(|(of, _)| *of == u64::from(length));
        Ok(of_length.map(|(_, count)| count).sum())
    }

    /// Sets rules that match nothing, before the one that permits everything.
    pub(super) fn set_rules(&self, version: IpVersion, count: u64) -> Result<Change, LabError> {
        let mut rules: Vec<String> = (0..count)
            .map(|n| match version {
                IpVersion::Ipv4 => format!("deny src {}/32", unused_v4(n, 1)),
                IpVersion::Ipv6 => format!("deny src {}/128 dst ::/0", unused_v6(n.into())),
            })
            .collect();
        rules.push(match version {
            IpVersion::Ipv4 => "permit".into(),
            IpVersion::Ipv6 => "permit src ::/0 dst ::/0".into(),
        });
        self.set_acl(SWEPT, &rules)
    }

    /// Sets filters, of which the last permits the test frames; an ACL drops frames that match no
    /// rule.
    pub(super) fn set_filters(
        &self,
        permitted: &[(String, String)],
        rules: u32,
        report: &mut dyn FnMut(String) -> Result<(), LabError>,
    ) -> Result<Change, LabError> {
        let rules = filters(permitted, rules);
        report(format!(
            "filters on the DUT, an ACL of the acl plugin at its input:\n{}\n",
            rules.join("\n")
        ))?;
        self.set_acl(FILTERS, &rules)
    }

    /// Sets an ACL with these rules at the input.
    fn set_acl(&self, tag: &str, rules: &[String]) -> Result<Change, LabError> {
        let input = self.sides.port(End::Input);
        let undo = self.cli.shell(WITHOUT, &format!("{tag} {input}\n"));
        let undo = undo.called(format!("remove the ACL {tag} of VPP"));
        self.changing(&format!("an ACL of {} rules", rules.len()), undo, || {
            let line = format!("set acl-plugin acl {} tag {tag}", rules.join(", "));
            self.cli.exec(&line, Limit::OURS)?;
            // for a rule that VPP does not understand it creates no ACL, and reports no error
            let Some((index, there)) = self.acl(tag)? else {
                return Err(
                    self.otherwise(format!("it lists no ACL {tag} after `{}`", first(&line)))
                );
            };
            if there != rules.len() as u64 {
                return Err(self.otherwise(format!(
                    "its ACL {tag} has {there} rules, not {}",
                    rules.len()
                )));
            }
            let apply = format!("set acl-plugin interface {input} input acl {index}");
            self.cli.exec(&apply, Limit::OURS)?;
            let applied = self.cli.query("show acl-plugin interface")?;
            match applied
                .lines()
                .any(|line| has_number(line, "input acl(s):", index))
            {
                true => Ok(()),
                false => {
                    Err(self.otherwise(format!("no interface has its ACL {index} after `{apply}`")))
                }
            }
        })
    }

    /// Returns the index of the ACL with a tag, and its number of rules.
    fn acl(&self, tag: &str) -> Result<Option<(u64, u64)>, LabError> {
        let text = self.cli.query("show acl-plugin acl")?;
        let requested = format!("tag {{{tag}}}");
        // `acl-index 0 count 2001 tag {fwdlab}`
        let of = |line: &str| {
            let mut words = line.strip_prefix("acl-index ")?.split_whitespace();
            let index = words.next()?.parse().ok()?;
            let count = words.nth(1)?.parse().ok()?;
            Some((index, count))
        };
        let mut own = text
            .lines()
            .filter(|line| line.trim_end().ends_with(&requested));
        Ok(own.find_map(of))
    }

    /// `via 198.19.0.2 host-eth1`.
    fn via(&self, to: IpAddr, out: End) -> String {
        let version = match to {
            IpAddr::V4(_) => IpVersion::Ipv4,
            IpAddr::V6(_) => IpVersion::Ipv6,
        };
        let via = self.sides.networks.side(out).next_hop(version);
        format!("via {via} {}", self.sides.port(out))
    }

    /// Returns the error for a setting that VPP did not keep.
    fn otherwise(&self, cause: String) -> LabError {
        LabError::Vpp {
            dut: self.host().name().to_owned(),
            reason: format!(
                "it did not keep the setting: {cause}. Check whether something else changes it"
            ),
        }
    }
}

/// Returns true if this number follows these words in a line.
fn has_number(line: &str, after: &str, number: u64) -> bool {
    let Some((_, rest)) = line.split_once(after) else {
        return false;
    };
    let mut words = rest.split([' ', ',']);
    words.any(|word| word.parse() == Ok(number))
}

/// Shortens a long line for people.
fn first(line: &str) -> String {
    let cut: String = line.chars().take(100).collect();
    match cut.len() < line.len() {
        true => format!("{cut}..."),
        false => cut,
    }
}

/// Returns rules that match nothing, followed by those that permit the test frames.
fn filters(permitted: &[(String, String)], rules: u32) -> Vec<String> {
    let is_ipv4 = permitted
        .first()
        .is_none_or(|(from, _)| !from.contains(':'));
    // RFC 2544 C.2.6.4 puts other hosts before the permitted one
    let before = (1..rules).map(|n| match is_ipv4 {
        true => format!("deny src 192.0.2.{n}/32 dst 192.0.2.{}/32", 100 + n),
        false => format!("deny src 2001:db8::{n:x}/128 dst 2001:db8:1::{n:x}/128"),
    });
    let last = permitted
        .iter()
        .map(|(from, to)| format!("permit src {from} dst {to}"));
    before.chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rule_permits_and_every_rule_is_of_one_family() {
        let pairs = vec![("198.18.0.0/16".to_owned(), "198.19.0.0/16".to_owned())];
        let rules = filters(&pairs, 25);
        assert_eq!(rules.len(), 25);
        assert_eq!(
            rules.last().unwrap(),
            "permit src 198.18.0.0/16 dst 198.19.0.0/16"
        );
        assert_eq!(rules.iter().filter(|r| r.starts_with("deny ")).count(), 24);
        let v6 = filters(&[("2001:2::/49".into(), "2001:2:0:8000::/49".into())], 2);
        // VPP refuses a rule in which only the source is IPv6
        assert_eq!(v6[0], "deny src 2001:db8::1/128 dst 2001:db8:1::1/128");
    }

    #[test]
    fn numbers_are_whole_words() {
        assert!(has_number("  input acl(s): 3, 12", "input acl(s):", 12));
        assert!(!has_number("  input acl(s): 3, 12", "input acl(s):", 1));
        assert!(!has_number("  output acl(s): 1", "input acl(s):", 1));
    }
}
