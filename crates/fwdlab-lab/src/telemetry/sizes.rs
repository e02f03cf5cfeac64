//! Sizes of a host's tables, and its memory.
//!
//! Pure functions of texts. Start with [`sizes`].

use std::collections::BTreeMap;

use fwdlab_model::telemetry::Size;

/// Parses entries of connection tracking, their limit and the buckets of their hash, as
/// `PATH:NUMBER`; the line of `/proc/slabinfo` with their memory (name, objects in use, objects,
/// bytes of each); `Prefixes:` of `/proc/net/fib_triestat`, of all tables together; the fourth
/// number of `/proc/net/rt6_stats`; `MemTotal` and `MemAvailable` of `/proc/meminfo`.
pub(super) fn sizes(text: &str) -> BTreeMap<String, Size> {
    let mut sizes = BTreeMap::new();
    let mut at = |name: &str, value: u64| {
        let size: &mut Size = sizes.entry(name.to_owned()).or_default();
        size.value += value;
    };
    let (mut entries, mut memory) = (None, None);
    for line in text.lines() {
        if let Some(slab) = line.strip_prefix("nf_conntrack ") {
            let mut numbers = slab
                .split_whitespace()
                .skip(1)
                .map_while(|n| n.parse::<u64>().ok());
            if let (Some(objects), Some(bytes)) = (numbers.next(), numbers.next()) {
                at("conntrack memory bytes", objects * bytes);
            }
            continue;
        }
        let Some((name, value)) = line.rsplit_once(':') else {
            let numbers: Vec<&str> = line.split_whitespace().collect();
            let is_hex =
                numbers.len() == 7 && numbers.iter().all(|n| u64::from_str_radix(n, 16).is_ok());
            if is_hex {
                at(
                    "FIB entries of IPv6",
                    u64::from_str_radix(numbers[3], 16).unwrap_or(0),
                );
            }
            continue;
        };
        let number = value
            .split_whitespace()
            .next()
            .and_then(|n| n.parse::<u64>().ok());
        let Some(number) = number else { continue };
        match name.trim() {
            name if name.ends_with("/nf_conntrack_count") => at("conntrack entries", number),
            name if name.ends_with("/nf_conntrack_buckets") => at("conntrack buckets", number),
            name if name.ends_with("/nf_conntrack_max") => entries = Some(number),
            "Prefixes" => at("FIB entries of IPv4", number),
            "MemAvailable" => at("memory bytes available", 1024 * number),
            "MemTotal" => memory = Some(1024 * number),
            _ => {}
        }
    }
    for (name, limit) in [
        ("conntrack entries", entries),
        ("memory bytes available", memory),
    ] {
        if let Some(size) = sizes.get_mut(name) {
            size.limit = limit;
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_their_limits() {
        let text = "/proc/sys/net/netfilter/nf_conntrack_count:12\n/proc/sys/net/netfilter/nf_conntrack_max:262144\n\
            /proc/sys/net/netfilter/nf_conntrack_buckets:65536\n\
            nf_conntrack         41     50    320   12    1 : tunables    0    0    0 : slabdata      5      5      0\n\
            Basic info: size of leaf: 48 bytes, size of tnode: 40 bytes.\nMain:\n\tAver depth:     1.50\n\tLeaves:         4\n\tPrefixes:       5\n\
            Local:\n\tPrefixes:       7\n0002 0002 0001 000a 0000 0000 0000\nMemTotal:        8000000 kB\nMemAvailable:    4000000 kB\n";
        let found = sizes(text);
        let size = |value, limit| Size { value, limit };
        assert_eq!(found["conntrack entries"], size(12, Some(262_144)));
        assert_eq!(found["conntrack buckets"], size(65_536, None));
        assert_eq!(found["conntrack memory bytes"], size(50 * 320, None));
        assert_eq!(found["FIB entries of IPv4"], size(12, None));
        assert_eq!(found["FIB entries of IPv6"], size(10, None));
        assert_eq!(
            found["memory bytes available"],
            size(4_096_000_000, Some(8_192_000_000))
        );
        assert_eq!(found.len(), 6);
        assert!(sizes("").is_empty());
    }
}
