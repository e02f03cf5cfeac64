//! Families of generated configurations: a number of rules, a set with a number of entries,
//! stateful or not.
//!
//! This file defines their names, keys and values, and parses them; each kind of DUT implements
//! them in its own file. A list of values stands for one configuration per value. Start with
//! [`Generated::parse`]; [`FAMILIES`] is the complete list.

use std::collections::BTreeMap;
use std::fmt;

use crate::file::did_you_mean;
use crate::system::System;

/// Prefix of a family's name where commands and files are allowed, too: `generate:nft-rules,n=100`.
pub const PREFIX: &str = "generate:";

/// More configurations from one list count as an error.
const MOST: usize = 1000;

/// A family.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What it does, as text.
    pub about: &'static str,
    /// The system it is for.
    pub system: System,
    /// Its keys.
    pub keys: &'static [Key],
}

/// A key of a family.
#[derive(Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its values.
    pub values: Values,
    /// The default; `None`: the key is required.
    pub default: Option<&'static str>,
}

/// The values of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// A number between the two limits.
    Count(u64, u64),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// CPUs: `2`, `2-5`.
    Cpus,
    /// The name of a setting.
    Name,
    /// Any text of one line.
    Text,
}

/// The usual series extends to ten thousand rules (docs/methodology.md, "Sweeps"); sets are larger.
const RULES: Key = count("n", 0, 100_000);
const ENTRIES: Key = count("n", 1, 1_000_000);
const STATE: Key = one_of("state", &["on", "off"], None);
const IP: Key = one_of("ip", &["ipv4", "ipv6"], Some("ipv4"));
const BACKEND: Key = one_of("backend", &["nft", "legacy"], Some("nft"));
const TUNNELS: Key = count("tunnels", 0, 32);
const CPUS: Key = Key {
    name: "cpus",
    values: Values::Cpus,
    default: None,
};

const fn count(name: &'static str, least: u64, most: u64) -> Key {
    Key {
        name,
        values: Values::Count(least, most),
        default: None,
    }
}

const fn one_of(
    name: &'static str,
    words: &'static [&'static str],
    default: Option<&'static str>,
) -> Key {
    Key {
        name,
        values: Values::OneOf(words),
        default,
    }
}

/// All families.
pub const FAMILIES: &[Family] = &[
    linux(
        "nft-rules",
        "n nftables rules that match nothing, at the forward hook",
        &[RULES, IP],
    ),
    linux(
        "nft-set",
        "an nftables rule that looks sources up in a set of n addresses, which has none of them",
        &[ENTRIES],
    ),
    linux(
        "nft-stateful",
        "nftables tracks connections and passes what belongs to one (on), or passes all without looking (off)",
        &[STATE],
    ),
    linux(
        "iptables-rules",
        "n rules of iptables that match nothing",
        &[RULES, BACKEND],
    ),
    linux(
        "iptables-stateful",
        "iptables tracks connections and passes what belongs to one (on), or passes all without looking (off)",
        &[STATE, BACKEND],
    ),
    linux(
        "ipset",
        "a rule of iptables that looks sources up in an ipset of n addresses, which has none of them",
        &[ENTRIES, BACKEND],
    ),
    linux(
        "routes",
        "n routes to networks that no frame is sent to",
        &[count("n", 0, 2_000_000), IP],
    ),
    linux(
        "queues",
        "n receive and transmit queues of both ports (ethtool -L)",
        &[count("n", 1, 1024)],
    ),
    linux(
        "packet-steering",
        "spreads flows over the first n of the DUT's CPUs in software (rps_cpus)",
        &[count("n", 1, 1024)],
    ),
    linux(
        "irq-affinity",
        "interrupts of both ports go to these CPUs in turn",
        &[CPUS],
    ),
    linux(
        "threaded-napi",
        "kernel threads of their own poll both ports",
        &[STATE],
    ),
    linux(
        "napi-affinity",
        "these threads run on these CPUs in turn; after threaded-napi",
        &[CPUS],
    ),
    linux(
        "offload",
        "an offload of both ports (ethtool -K)",
        &[
            one_of(
                "feature",
                &[
                    "gro",
                    "gso",
                    "tso",
                    "lro",
                    "rx",
                    "tx",
                    "sg",
                    "rx-gro-hw",
                    "rx-gro-list",
                    "rx-udp-gro-forwarding",
                    "ntuple",
                    "rxhash",
                ],
                None,
            ),
            STATE,
        ],
    ),
    linux(
        "sysctl",
        "one setting of the kernel",
        &[
            Key {
                name: "name",
                values: Values::Name,
                default: None,
            },
            Key {
                name: "value",
                values: Values::Text,
                default: None,
            },
        ],
    ),
    linux(
        "conntrack",
        "room for max connections that are tracked, in a hash with this number of buckets (a multiple of 512)",
        &[
            count("max", 1, 1_000_000_000),
            count("buckets", 512, 268_435_456),
        ],
    ),
    linux(
        "nft-flowtable",
        "nftables tracks connections; those that are known bypass routing (on)",
        &[STATE],
    ),
    linux(
        "nft-nat",
        "nftables tracks connections; they leave with the DUT's address (on)",
        &[STATE],
    ),
    linux(
        "policy-rules",
        "n rules of routing that no frame is meant by (ip rule)",
        &[count("n", 0, 30_000)],
    ),
    linux(
        "xdp",
        "a program in the driver of both ports: forward routes there by the kernel's tables, pass hands all frames on",
        &[one_of("program", &["forward", "pass"], None)],
    ),
    linux(
        "bgp",
        "a routing daemon (bird) learns the networks of test frames among n routes of each of two peers; the second has the same routes or \
         others, and the first sends this number of updates per second; sessions end after hold seconds without a message",
        &[
            count("n", 256, 1_000_000),
            one_of("views", &["same", "apart"], Some("same")),
            Key {
                default: Some("0"),
                ..count("updates", 0, 100_000)
            },
            Key {
                default: Some("240"),
                ..count("hold", 3, 65_535)
            },
        ],
    ),
    linux(
        "openvpn",
        "frames go through a second router and back, through this number of OpenVPN tunnels (0: no tunnel); the DUT has both ends",
        &[TUNNELS],
    ),
    linux(
        "wireguard",
        "frames go through a second router and back, through this number of WireGuard tunnels (0: no tunnel); the DUT has both ends",
        &[TUNNELS],
    ),
    linux(
        "esp",
        "frames go through a second router and back, through this number of IPsec tunnels (ESP, AES-128-GCM; 0: no \
         tunnel); the DUT has both ends",
        &[TUNNELS],
    ),
    linux(
        "ring",
        "n descriptors in the receive and transmit rings of both ports (ethtool -G)",
        &[count("n", 1, 65_536)],
    ),
    linux(
        "coalescing",
        "interrupts of both ports wait this number of microseconds (ethtool -C)",
        &[count("usecs", 0, 100_000)],
    ),
    linux(
        "rss",
        "flows are spread over the first n receive queues of both ports (ethtool -X)",
        &[count("n", 1, 1024)],
    ),
    linux(
        "flow-hash",
        "what of UDP frames chooses the queue: addresses (sd), and ports, too (sdfn) (ethtool -N)",
        &[one_of("fields", &["sd", "sdfn"], None)],
    ),
    linux(
        "governor",
        "who chooses the clock of all CPUs (cpufreq)",
        &[one_of(
            "name",
            &["performance", "powersave", "schedutil", "ondemand"],
            None,
        )],
    ),
    linux(
        "idle-states",
        "CPUs sleep deeper than a pause when they have nothing to do (on), or never (off) (cpuidle)",
        &[STATE],
    ),
    linux(
        "smt",
        "each core of all CPUs runs one thread (off) or all its threads (on)",
        &[STATE],
    ),
    linux(
        "deferred-interrupts",
        "both ports are polled up to n times that find nothing before interrupts are let in again, usecs apart (busy polling by the kernel)",
        &[count("n", 0, 1000), count("usecs", 0, 100_000)],
    ),
    bsd(
        "ipfw-rules",
        "n rules of ipfw that match nothing",
        &[count("n", 0, 60_000)],
    ),
    bsd(
        "ipfw-table",
        "a rule of ipfw that looks sources up in a table of n addresses, which has none of them",
        &[ENTRIES],
    ),
    bsd(
        "ipfw-stateful",
        "ipfw keeps state of what it passes (on), or passes all (off)",
        &[STATE],
    ),
    bsd("pf-rules", "n rules of pf that match nothing", &[RULES]),
    bsd(
        "pf-table",
        "a rule of pf that looks sources up in a table of n addresses, which has none of them",
        &[ENTRIES],
    ),
    bsd(
        "pf-stateful",
        "pf keeps state of what it passes (on), or passes all (off)",
        &[STATE],
    ),
    bsd(
        "vnet-jail",
        "both ports are in a jail with a network stack of its own (VNET), which forwards",
        &[],
    ),
];

const fn linux(name: &'static str, about: &'static str, keys: &'static [Key]) -> Family {
    Family {
        name,
        about,
        system: System::Linux,
        keys,
    }
}

const fn bsd(name: &'static str, about: &'static str, keys: &'static [Key]) -> Family {
    Family {
        name,
        about,
        system: System::FreeBsd,
        keys,
    }
}

/// A configuration of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// Its family.
    pub family: &'static Family,
    values: BTreeMap<&'static str, String>,
    /// The values that distinguish it from others of its list.
    varied: Vec<String>,
}

/// An error in the specification of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyError {
    /// The key with the error, as typed; `None`: the family.
    pub key: Option<String>,
    /// What is wrong, and the correct form.
    pub reason: String,
}

impl FamilyError {
    fn new(key: Option<&str>, cause: impl Into<String>) -> FamilyError {
        FamilyError {
            key: key.map(str::to_owned),
            reason: cause.into(),
        }
    }
}

impl fmt::Display for FamilyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{key}: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

impl Generated {
    /// Parses `nft-rules,n=100`, or with several values `nft-rules,n=10+100`: one configuration for
    /// every combination, in order.
    ///
    /// # Errors
    /// What is wrong, and a suggestion.
    pub fn parse(text: &str) -> Result<Vec<Generated>, FamilyError> {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default().trim();
        let mut said = Vec::new();
        for part in parts {
            let Some((key, values)) = part.split_once('=') else {
                let reason = format!("`{}` is not key=value", part.trim());
                return Err(FamilyError::new(None, reason));
            };
            let key = key.trim().to_owned();
            // the value of a setting may contain a plus; a list of them is only possible in files
            let values: Vec<String> = match key == "value" {
                true => vec![values.trim().to_owned()],
                false => values.split('+').map(|v| v.trim().to_owned()).collect(),
            };
            said.push((key, values));
        }
        Generated::expand(name, &said)
    }

    /// Returns one configuration for every combination, in the order of the values.
    ///
    /// # Errors
    /// As [`Generated::parse`].
    pub fn expand(
        name: &str,
        said: &[(String, Vec<String>)],
    ) -> Result<Vec<Generated>, FamilyError> {
        let names = || FAMILIES.iter().map(|family| family.name);
        let Some(family) = FAMILIES.iter().find(|family| family.name == name) else {
            let known: Vec<&str> = names().collect();
            let reason = format!(
                "there is no family `{name}`; {}",
                did_you_mean(name, &known)
            );
            return Err(FamilyError::new(None, reason));
        };
        for (n, (key, _)) in said.iter().enumerate() {
            let known: Vec<&str> = family.keys.iter().map(|key| key.name).collect();
            if !known.contains(&key.as_str()) {
                let reason = format!("{name} has no `{key}`; {}", did_you_mean(key, &known));
                return Err(FamilyError::new(Some(key), reason));
            }
            if said[..n].iter().any(|(other, _)| other == key) {
                return Err(FamilyError::new(Some(key), "it is given twice"));
            }
        }
        let mut all = vec![Generated {
            family,
            values: BTreeMap::new(),
            varied: Vec::new(),
        }];
        for key in family.keys {
            let values = match (said.iter().find(|(name, _)| name == key.name), key.default) {
                (Some((_, values)), _) => values.clone(),
                (None, Some(default)) => vec![default.to_owned()],
                (None, None) => {
                    let reason = format!(
                        "{name} needs {}, {} ({name}: {})",
                        key.name, key.values, family.about
                    );
                    return Err(FamilyError::new(None, reason));
                }
            };
            let wrong = |reason: String| Err(FamilyError::new(Some(key.name), reason));
            if values.is_empty() {
                return wrong("the list is empty; give a value".into());
            }
            for (n, value) in values.iter().enumerate() {
                if !key.values.has(value) {
                    return wrong(format!("`{value}` is not {}", key.values));
                }
                if values[..n].contains(value) {
                    return wrong(format!("{value} is listed twice"));
                }
            }
            if all.len() * values.len() > MOST {
                return wrong(format!("more than {MOST} configurations of one list"));
            }
            let with = |one: &Generated, value: &String| {
                let mut one = one.clone();
                one.values.insert(key.name, value.clone());
                if values.len() > 1 {
                    one.varied.push(plain(value));
                }
                one
            };
            let each = all
                .iter()
                .flat_map(|one| values.iter().map(move |value| (one, value)));
            all = each.map(|(one, value)| with(one, value)).collect();
        }
        Ok(all)
    }

    /// Returns the value of this key, or its default.
    pub fn value(&self, key: &str) -> &str {
        self.values.get(key).map_or("", String::as_str)
    }

    /// Returns a value that is a number.
    pub fn count(&self, key: &str) -> u64 {
        self.value(key).parse().unwrap_or_default()
    }

    /// Returns true if a switch is on.
    pub fn is_on(&self) -> bool {
        self.value("state") == "on"
    }

    /// Returns the CPUs.
    pub fn cpus(&self) -> Vec<usize> {
        cpus(self.value("cpus")).unwrap_or_default()
    }

    /// Returns what distinguishes it from the others of its list: `10`, `lro-off`; empty if there
    /// is only one.
    pub fn suffix(&self) -> String {
        self.varied.join("-")
    }

    /// Returns its name if the user gives none: the family and its values, without defaults.
    pub fn name(&self) -> String {
        let said = self.family.keys.iter().filter_map(|key| {
            let value = self.value(key.name);
            (key.default != Some(value)).then(|| plain(value))
        });
        let words = std::iter::once(self.family.name.to_owned()).chain(said);
        words.collect::<Vec<_>>().join("-")
    }
}

/// The form users type behind [`PREFIX`].
impl fmt::Display for Generated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.family.name)?;
        for key in self.family.keys {
            write!(f, ",{}={}", key.name, self.value(key.name))?;
        }
        Ok(())
    }
}

/// Returns a value in the form used in names.
fn plain(value: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    value.replace(|c| !allowed(c), "_")
}

impl Values {
    fn has(self, value: &str) -> bool {
        match self {
            Values::Count(least, most) => value
                .parse()
                .is_ok_and(|n: u64| (least..=most).contains(&n) && !value.starts_with('+')),
            Values::OneOf(words) => words.contains(&value),
            Values::Cpus => cpus(value).is_some(),
            Values::Name => {
                let allowed = |c: char| c.is_ascii_alphanumeric() || "-_./@%".contains(c);
                !value.is_empty()
                    && value.chars().all(allowed)
                    && !value.contains("..")
                    && !value.starts_with(['/', '-'])
            }
            Values::Text => {
                !value.trim().is_empty()
                    && !value.chars().any(char::is_control)
                    && !value.contains(',')
            }
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::Count(least, most) => write!(f, "a number from {least} to {most}"),
            Values::OneOf(words) => f.write_str(&words.join(" or ")),
            Values::Cpus => f.write_str("CPUs such as 2 or 2-5"),
            Values::Name => f.write_str("the name of a setting, such as net.ipv4.ip_early_demux"),
            Values::Text => f.write_str("a value of one line, without commas"),
        }
    }
}

/// Parses `2`, `2-5`.
fn cpus(text: &str) -> Option<Vec<usize>> {
    let number = |text: &str| text.parse().ok().filter(|cpu| *cpu < 4096);
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    (first <= last).then(|| (first..=last).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_as_many_configurations() {
        let one = Generated::parse("nft-rules,n=100").unwrap();
        assert_eq!(one.len(), 1);
        assert_eq!((one[0].count("n"), one[0].value("ip")), (100, "ipv4"));
        assert_eq!(
            (one[0].name(), one[0].suffix()),
            ("nft-rules-100".into(), String::new())
        );
        assert_eq!(one[0].to_string(), "nft-rules,n=100,ip=ipv4");
        assert_eq!(Generated::parse(&one[0].to_string()).unwrap(), one);

        let all = Generated::parse("offload, feature=gro+lro, state=off+on").unwrap();
        let suffixes: Vec<String> = all.iter().map(Generated::suffix).collect();
        assert_eq!(suffixes, ["gro-off", "gro-on", "lro-off", "lro-on"]);
        assert!(!all[0].is_on() && all[1].is_on());
        let pinned = Generated::parse("irq-affinity,cpus=2-4").unwrap();
        assert_eq!(pinned[0].cpus(), [2, 3, 4]);
        let set = Generated::parse("sysctl,name=net.ipv4.tcp_mem,value=1 2+3").unwrap();
        assert_eq!(set[0].value("value"), "1 2+3");
        assert_eq!(set[0].name(), "sysctl-net.ipv4.tcp_mem-1_2_3");
    }

    #[test]
    fn errors_suggest_the_intended_name() {
        for (text, expect) in [
            (
                "nft-rule,n=1",
                "there is no family `nft-rule`; did you mean `nft-rules`?",
            ),
            (
                "nft-rules",
                "nft-rules needs n, a number from 0 to 100000 (nft-rules: n nftables rules that match nothing, at the forward hook)",
            ),
            (
                "nft-rules,N=1",
                "N: nft-rules has no `N`; did you mean `n`?",
            ),
            ("nft-rules,n=1,n=2", "n: it is given twice"),
            ("nft-rules,n=-1", "n: `-1` is not a number from 0 to 100000"),
            ("nft-rules,n=1+1", "n: 1 is listed twice"),
            ("nft-rules,n", "`n` is not key=value"),
            (
                "nft-stateful,state=maybe",
                "state: `maybe` is not on or off",
            ),
            (
                "irq-affinity,cpus=5-2",
                "cpus: `5-2` is not CPUs such as 2 or 2-5",
            ),
            (
                "sysctl,name=../etc/passwd,value=1",
                "name: `../etc/passwd` is not the name of a setting",
            ),
            (
                "sysctl,name=a.b,value= ",
                "value: `` is not a value of one line",
            ),
            ("", "there is no family ``"),
        ] {
            let error = Generated::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expect), "{text}: {error}");
        }
    }

    #[test]
    fn no_two_families_have_one_name_and_none_has_keys_twice() {
        for (n, family) in FAMILIES.iter().enumerate() {
            assert!(FAMILIES[..n].iter().all(|other| other.name != family.name));
            for (m, key) in family.keys.iter().enumerate() {
                assert!(family.keys[..m].iter().all(|other| other.name != key.name));
                assert!(key.default.is_none_or(|value| key.values.has(value)));
            }
        }
    }
}
