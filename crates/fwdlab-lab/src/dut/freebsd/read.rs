//! Parses the output of FreeBSD's programs: counters, interfaces, routes, and files of loader
//! settings.
//!
//! Based on their manuals and sources, and on recorded output; runs nothing. Start with
//! [`counters`].

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::interfaces::Counted;

/// An object in which a key may occur twice, as netstat prints: `dropped-packets` for received and
/// for sent frames.
#[derive(Debug)]
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pairs, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Pairs;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut all = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    all.push(pair);
                }
                Ok(Pairs(all))
            }
        }
        deserializer.deserialize_map(All)
    }
}

#[derive(Debug, serde::Deserialize)]
struct Statistics {
    statistics: Interfaces,
}

#[derive(Debug, serde::Deserialize)]
struct Interfaces {
    interface: Vec<Pairs>,
}

/// Parses the counters of a port from `netstat -I PORT -b -n -d --libxo json`: those of the link,
/// which counts every frame.
pub(super) fn counters(text: &str, port: &str) -> Option<Counted> {
    let read: Statistics = serde_json::from_str(text).ok()?;
    let of_link = |Pairs(pairs): &&Pairs| {
        let is = |key: &str, begin: &str| {
            let mut values = pairs.iter().filter(|(name, _)| name == key);
            values.any(|(_, value)| value.as_str().is_some_and(|text| text.starts_with(begin)))
        };
        is("network", "<Link#")
            && pairs
                .iter()
                .any(|(key, value)| key == "name" && value.as_str() == Some(port))
    };
    let Pairs(pairs) = read.statistics.interface.iter().find(of_link)?;
    let number = |value: &Value| match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let one = |key: &str| {
        number(
            pairs
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value)?,
        )
    };
    // in the order of the columns: first received, then sent
    let sent_at = pairs.iter().position(|(name, _)| name == "sent-packets")?;
    let dropped = |pairs: &[(String, Value)]| {
        let mut values = pairs.iter().filter(|(name, _)| name == "dropped-packets");
        values.next().and_then(|(_, value)| number(value))
    };
    Some(Counted {
        rx_packets: one("received-packets")?,
        rx_dropped: dropped(&pairs[..sent_at])?,
        tx_packets: one("sent-packets")?,
        tx_dropped: dropped(&pairs[sent_at..])?,
    })
}

/// Returns what is wrong according to `ifconfig PORT`: `is down`; `None` if frames can pass.
pub(super) fn state_problem(text: &str) -> Option<&'static str> {
    let flags = text.lines().next().and_then(|line| line.split_once('<'))?.1;
    let flags: Vec<&str> = flags
        .split('>')
        .next()
        .unwrap_or_default()
        .split(',')
        .collect();
    let no_link = text.lines().any(|line| {
        let status = line.trim().strip_prefix("status: ");
        status.is_some_and(|status| !["active", "associated"].contains(&status))
    });
    match ["UP", "RUNNING"].iter().all(|flag| flags.contains(flag)) && !no_link {
        true => None,
        false => Some("is down"),
    }
}

/// Returns the offloads that are enabled on a port, from `ifconfig PORT`:
/// `options=...<RXCSUM,TSO4,LRO>`.
pub(super) fn options(text: &str) -> Vec<String> {
    let line = text
        .lines()
        .find(|line| line.trim().starts_with("options="));
    let names = line.and_then(|line| line.split_once('<'));
    let names = names.and_then(|(_, rest)| rest.split_once('>'));
    names.map_or(Vec::new(), |(names, _)| {
        names.split(',').map(|name| name.to_lowercase()).collect()
    })
}

/// Counts the routes in `netstat -rn` via this gateway to networks that begin with `begin`.
pub(super) fn routes(text: &str, begin: &str, gateway: &str) -> usize {
    let is = |line: &&str| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|to| to.starts_with(begin)) && words.next() == Some(gateway)
    };
    text.lines().filter(is).count()
}

/// Parses `name="value"` lines of loader.conf(5) or rc.conf(5), in their order.
pub(super) fn assignments(text: &str) -> Vec<(String, String)> {
    let of = |line: &str| {
        let line = line.trim();
        let (name, value) = line.split_once('=')?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if line.starts_with('#') || name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        let value = value.trim_start();
        let value = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].split(quote).next().unwrap_or_default(),
            _ => value
                .split(['#', ' ', '\t', ';'])
                .next()
                .unwrap_or_default(),
        };
        Some((name.to_owned(), value.to_owned()))
    };
    text.lines().filter_map(of).collect()
}

/// Returns true for the words that rc.conf(5) accepts as yes.
pub(super) fn is_yes(value: &str) -> bool {
    ["yes", "true", "on", "1"].contains(&value.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the format that netstat's `if.c` prints with -b and -d: the row of the link, then one for
    /// every address.
    #[test]
    fn counters_of_the_link_are_read() {
        let text = r#"{"statistics": {"interface": [{"name":"igb1","flags":"0x8843","mtu":1500,"network":"<Link#2>","address":"00:0d:b9:41:ca:3d",
            "received-packets":1488095,"received-errors":0,"dropped-packets":17,"received-bytes":89285700,"sent-packets":3,"send-errors":0,
            "sent-bytes":180,"collisions":0,"dropped-packets":5}, {"name":"igb1","flags":"0x8843","network":"198.18.0.0/30",
            "address":"198.18.0.1","received-packets":0,"received-bytes":0,"sent-packets":0,"sent-bytes":0}]}}"#;
        let expect = Counted {
            rx_packets: 1_488_095,
            rx_dropped: 17,
            tx_packets: 3,
            tx_dropped: 5,
        };
        assert_eq!(counters(text, "igb1"), Some(expect));
        assert_eq!(counters(text, "igb2"), None);
        assert_eq!(counters("nonsense", "igb1"), None);
        // without -d, drops of sent frames are unknown
        assert_eq!(
            counters(&text.replace(",\"dropped-packets\":5", ""), "igb1"),
            None
        );
    }

    #[test]
    fn the_state_of_ports_is_parsed() {
        let text = "igb1: flags=8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> metric 0 mtu 1500\n\
                    \toptions=4e527bb<RXCSUM,TXCSUM,VLAN_MTU,TSO4,LRO>\n\tether 00:0d:b9:41:ca:3d\n\tmedia: Ethernet autoselect (1000baseT <full-duplex>)\n\
                    \tstatus: active\n";
        assert_eq!(state_problem(text), None);
        assert_eq!(
            state_problem(&text.replace("active", "no carrier")),
            Some("is down")
        );
        assert_eq!(state_problem(&text.replace("UP,", "")), Some("is down"));
        assert_eq!(
            options(text),
            ["rxcsum", "txcsum", "vlan_mtu", "tso4", "lro"]
        );
        let table = "Destination        Gateway            Flags     Netif Expire\n20.0.0.0/24        198.19.0.2         UGS        igb2\n\
                     198.19.0.0/16      198.19.0.2         UGS        igb2\n";
        assert_eq!(routes(table, "20.", "198.19.0.2"), 1);
    }

    #[test]
    fn assignments_are_read_as_a_shell_reads_them() {
        let text = "# c\nnet.fibs=\"16\"\t\t# Numbers\nhw.usb.no_pf=1\nupdate_motd=NO\nblank\n\nroute_generator=\"-net 198.18.0.0/16 198.18.0.108\"\n";
        let pairs = assignments(text);
        let pairs: Vec<(&str, &str)> = pairs
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        assert_eq!(
            pairs,
            [
                ("net.fibs", "16"),
                ("hw.usb.no_pf", "1"),
                ("update_motd", "NO"),
                ("route_generator", "-net 198.18.0.0/16 198.18.0.108"),
            ]
        );
        assert!(is_yes("YES") && is_yes("on") && !is_yes("NO"));
    }
}
