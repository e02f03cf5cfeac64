//! Drop counters that belong to no port: those of the IP layer, of nftables rules, and of
//! connection tracking.
//!
//! Pure functions of texts. Start with [`ip`] and [`Ruleset`].

use std::collections::BTreeMap;

/// Counters of the IP layer that mean that a packet was not forwarded (not documented in `man 7
/// netstat`, but in RFC 4293 and Documentation/networking/snmp_counter.rst of the kernel).
const IP: &[(&str, &[&str])] = &[
    (
        "Ip",
        &[
            "InHdrErrors",
            "InAddrErrors",
            "InDiscards",
            "OutDiscards",
            "OutNoRoutes",
            "FragFails",
        ],
    ),
    ("IpExt", &["InNoRoutes", "InTruncatedPkts", "InCsumErrors"]),
    ("TcpExt", &["IPReversePathFilter"]),
    (
        "Ip6",
        &[
            "InHdrErrors",
            "InTooBigErrors",
            "InNoRoutes",
            "InAddrErrors",
            "InTruncatedPkts",
            "InDiscards",
            "OutDiscards",
            "OutNoRoutes",
            "FragFails",
        ],
    ),
];

fn is_listed(group: &str, name: &str) -> bool {
    let mut groups = IP.iter();
    groups.any(|(of, names)| *of == group && names.contains(&name))
}

/// Parses `/proc/net/snmp` and `/proc/net/netstat`, a line of names and a line of numbers each, and
/// `/proc/net/snmp6`, a line for each counter.
pub(super) fn ip(text: &str) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let mut last: Option<(&str, &str)> = None;
    for line in text.lines() {
        let Some((group, rest)) = line.split_once(':') else {
            let mut words = line.split_whitespace();
            let (name, value) = (words.next(), words.next().and_then(|n| n.parse().ok()));
            let name = name.and_then(|name| name.strip_prefix("Ip6"));
            if let (Some(name), Some(value)) = (name.filter(|name| is_listed("Ip6", name)), value) {
                all.insert(format!("Ip6 {name}"), value);
            }
            continue;
        };
        match last.take() {
            Some((of, names)) if of == group => {
                let pairs = names.split_whitespace().zip(rest.split_whitespace());
                for (name, value) in pairs.filter(|(name, _)| is_listed(group, name)) {
                    if let Ok(value) = value.parse() {
                        all.insert(format!("{group} {name}"), value);
                    }
                }
            }
            _ => last = Some((group, rest)),
        }
    }
    all
}

/// Parses `/proc/net/stat/nf_conntrack`: a line of names, then a line of hexadecimal numbers for
/// each CPU.
pub(super) fn conntrack(text: &str) -> BTreeMap<String, u64> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let mut all = BTreeMap::new();
    for line in lines {
        for (name, value) in names.iter().zip(line.split_whitespace()) {
            if let (true, Ok(value)) = (
                ["insert_failed", "drop", "early_drop"].contains(name),
                u64::from_str_radix(value, 16),
            ) {
                *all.entry(format!("conntrack {name}")).or_default() += value;
            }
        }
    }
    all
}

/// The output of `nft -t list ruleset`: its size, and the drops of rules with counters.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ruleset {
    /// Rules in all chains.
    pub rules: u64,
    /// Sets and maps.
    pub sets: u64,
    /// Packets by rule, for rules that count and drop: `nft ip t f: ip saddr 10.0.0.1 drop`.
    pub drops: BTreeMap<String, u64>,
}

impl Ruleset {
    /// Parses the text; a truncated text yields what it contains.
    pub fn parse(text: &str) -> Ruleset {
        let mut found = Ruleset::default();
        let (mut table, mut chain) = (String::new(), None);
        let mut depth = 0;
        for line in text.lines().map(str::trim) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let opens = line.ends_with('{');
            match (depth, words.first().copied()) {
                (0, Some("table")) if opens => table = words[1..words.len() - 1].join(" "),
                (1, Some("chain")) if opens => chain = words.get(1).map(|name| (*name).to_owned()),
                (1, Some("set" | "map")) if opens => found.sets += 1,
                (2, Some(first)) => {
                    let is_rule = !matches!(first, "type" | "policy" | "comment" | "flags" | "}");
                    if let Some(chain) = chain.as_ref().filter(|_| is_rule) {
                        found.rules += 1;
                        if let Some((rule, packets)) = dropped(&words) {
                            let name = format!("nft {table} {chain}: {rule}");
                            *found.drops.entry(name).or_default() += packets;
                        }
                    }
                }
                _ => {}
            }
            if opens {
                depth += 1;
            } else if line == "}" {
                depth -= 1;
                if depth <= 1 {
                    chain = None;
                }
            }
        }
        found
    }
}

/// Returns a rule without its counts, and its number of packets, if it has a counter and drops or
/// rejects them.
fn dropped(words: &[&str]) -> Option<(String, u64)> {
    let at = words
        .windows(2)
        .position(|pair| pair == ["counter", "packets"])?;
    let packets = words.get(at + 2)?.parse().ok()?;
    let ends = words.iter().any(|word| matches!(*word, "drop" | "reject"));
    let rest = words[..at].iter().chain(words.get(at + 5..)?);
    let rule: Vec<&str> = rest.copied().collect();
    ends.then(|| (rule.join(" "), packets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_the_ip_layer() {
        let text = "Ip: Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams\nIp: 1 64 900 2 3 800\n\
            Icmp: InMsgs\nIcmp: 5\nTcpExt: TW IPReversePathFilter\nTcpExt: 1 7\nIpExt: InNoRoutes InOctets\nIpExt: 4 90000\n\
            Ip6InReceives                   \t12\nIp6InNoRoutes                   \t5\n";
        let found = ip(text);
        let found: Vec<(&str, u64)> = found.iter().map(|(n, c)| (n.as_str(), *c)).collect();
        assert_eq!(
            found,
            [
                ("Ip InAddrErrors", 3),
                ("Ip InHdrErrors", 2),
                ("Ip6 InNoRoutes", 5),
                ("IpExt InNoRoutes", 4),
                ("TcpExt IPReversePathFilter", 7),
            ]
        );
        assert!(ip("\u{fffd} 17: eth\n\n").is_empty());
    }

    #[test]
    fn drops_of_connection_tracking_are_of_all_cpus() {
        let text = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop\n\
            00000010  00000000 00000000 00000000 00000003 0 0 0 0 0000000a 00000001 00000002\n\
            00000010  00000000 00000000 00000000 00000003 0 0 0 0 00000001 0000000f 00000000\n";
        let found = conntrack(text);
        assert_eq!(found["conntrack insert_failed"], 11);
        assert_eq!(found["conntrack drop"], 16);
        assert_eq!(found["conntrack early_drop"], 2);
    }

    #[test]
    fn rules_that_count_and_drop() {
        let text = "table ip t {\n\tset bad {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t}\n\n\tcounter named {\n\t\tpackets 5 bytes 5\n\t}\n\n\
            \tchain f {\n\t\ttype filter hook forward priority filter; policy accept;\n\
            \t\tip saddr 10.0.0.1 counter packets 12 bytes 720 drop\n\
            \t\tip saddr @bad counter packets 3 bytes 180 accept\n\
            \t\tmeta l4proto { tcp, udp } drop\n\t}\n}\n\
            table inet fw {\n\tchain in {\n\t\tcounter packets 1 bytes 60 reject with icmp port-unreachable comment \"no\"\n\t}\n}\n";
        let found = Ruleset::parse(text);
        assert_eq!((found.rules, found.sets), (4, 1));
        let drops: Vec<(&str, u64)> = found.drops.iter().map(|(n, c)| (n.as_str(), *c)).collect();
        assert_eq!(
            drops,
            [
                (
                    "nft inet fw in: reject with icmp port-unreachable comment \"no\"",
                    1
                ),
                ("nft ip t f: ip saddr 10.0.0.1 drop", 12),
            ]
        );
        for cut in 0..text.len() {
            let _ = Ruleset::parse(&text[..cut]);
        }
        assert_eq!(Ruleset::parse(""), Ruleset::default());
    }
}
