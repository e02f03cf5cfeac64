//! Counters of VPP: parses `show interface` and `show errors`.
//!
//! They count since VPP started; the counts of a trial are the difference of two readings. This
//! file decides which node counters are dropped frames, because VPP calls nearly all of them
//! errors. Start with [`interfaces`] and [`errors`].

use std::collections::BTreeMap;

use fwdlab_model::loss::Reason;

use crate::interfaces::Counted;

/// Node counters that VPP lists among its errors although they are not dropped frames: a ring block
/// that was read, a frame that a rule permitted.
const NO_DROPS: &[(&str, &str)] = &[
    ("af-packet-input", "timed out block"),
    ("af-packet-input", "total received block"),
    ("acl-plugin-", "ACL permit packets"),
    ("acl-plugin-", "checked packets"),
    ("acl-plugin-", "existing session packets"),
    ("ip4-arp", "ARP requests sent"),
    ("ip6-discover-neighbor", "neighbor solicitations sent"),
];

/// Names of the counters in `show interface`.
const COUNTERS: [&str; 4] = ["rx packets", "tx packets", "drops", "tx-error"];

/// An interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interface {
    /// True if the interface is up.
    pub is_up: bool,
    /// Its counters; VPP does not distinguish drops of received frames from those of frames to be
    /// sent.
    pub counted: Counted,
}

/// Parses interfaces, by name.
pub fn interfaces(text: &str) -> BTreeMap<String, Interface> {
    let mut all: BTreeMap<String, Interface> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines().map(str::trim_end) {
        // the column heads are the only other line that begins neither with a space nor with a name
        if line.trim_start().starts_with("Name ") {
            continue;
        }
        if !line.starts_with(' ')
            && let Some(first) = line.split_whitespace().next()
        {
            name = first.to_owned();
            let is_up = line.split_whitespace().nth(2) == Some("up");
            all.entry(name.clone()).or_default().is_up = is_up;
        }
        let Some((rest, count)) = line.rsplit_once(' ') else {
            continue;
        };
        let (Some(known), Some(interface), Ok(count)) = (
            COUNTERS
                .iter()
                .find(|known| rest.trim_end().ends_with(*known)),
            all.get_mut(&name),
            count.parse(),
        ) else {
            continue;
        };
        let counted = &mut interface.counted;
        *match *known {
            "rx packets" => &mut counted.rx_packets,
            "tx packets" => &mut counted.tx_packets,
            "drops" => &mut counted.rx_dropped,
            _ => &mut counted.tx_dropped,
        } = count;
    }
    all
}

/// Parses node counters: frames by node and reason.
pub fn errors(text: &str) -> BTreeMap<(String, String), u64> {
    let rows = text.lines().filter_map(|line| {
        // `600           ethernet-input                    l3 mac mismatch             error`
        let mut words = line.split_whitespace();
        let count: u64 = words.next()?.parse().ok()?;
        let node = words.next()?.to_owned();
        let mut rest: Vec<&str> = words.collect();
        rest.pop_if(|last| ["error", "warn", "warning", "info"].contains(last));
        Some(((node, rest.join(" ")), count))
    });
    let mut all = BTreeMap::new();
    for (key, count) in rows {
        // one row per thread
        *all.entry(key).or_insert(0) += count;
    }
    all
}

/// Returns what was dropped between two readings, largest first.
pub fn dropped(
    before: &BTreeMap<(String, String), u64>,
    after: &BTreeMap<(String, String), u64>,
) -> Vec<Reason> {
    let is_drop = |node: &str, reason: &str| {
        !NO_DROPS
            .iter()
            .any(|(of, no_drop)| node.starts_with(of) && reason == *no_drop)
    };
    let since = after.iter().filter_map(|((node, reason), count)| {
        let key = (node.clone(), reason.clone());
        let frames = count.saturating_sub(before.get(&key).copied().unwrap_or(0));
        (frames > 0 && is_drop(node, reason)).then(|| Reason {
            reason: format!("{node}: {reason}"),
            frames,
        })
    });
    let mut all: Vec<Reason> = since.collect();
    all.sort_by_key(|reason| std::cmp::Reverse(reason.frames));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of VPP 26.10 after 600 frames to another MAC address and 3,000 through an ACL.
    const INTERFACE: &str = include_str!("recorded/interface.txt");
    const ERRORS: &str = include_str!("recorded/errors.txt");

    #[test]
    fn interfaces_are_parsed_from_vpp_output() {
        let all = interfaces(INTERFACE);
        assert_eq!(all.len(), 3);
        let (eth0, eth1) = (all["host-eth0"], all["host-eth1"]);
        assert!(eth0.is_up && eth1.is_up && !all["local0"].is_up);
        let counted = (eth0.counted.rx_packets, eth0.counted.rx_dropped);
        assert_eq!(counted, (3600, 600));
        assert_eq!(
            (eth1.counted.tx_packets, eth1.counted.rx_packets),
            (3000, 0)
        );
        assert!(interfaces("").is_empty());
    }

    #[test]
    fn only_drops_among_vpp_errors_are_reasons() {
        let after = errors(ERRORS);
        assert_eq!(after.len(), 5);
        let reasons = dropped(&BTreeMap::new(), &after);
        let reported: Vec<(&str, u64)> = reasons.iter().map(|r| (&*r.reason, r.frames)).collect();
        assert_eq!(reported, [("ethernet-input: l3 mac mismatch", 600)]);
        // nothing new since then
        assert!(dropped(&after, &after).is_empty());
        let denied = "       300        acl-plugin-in-ip4-fa                 ACL deny packets             error";
        let reasons = dropped(&after, &errors(&format!("{denied}\n{denied}")));
        assert_eq!(reasons[0].reason, "acl-plugin-in-ip4-fa: ACL deny packets");
        assert_eq!(reasons[0].frames, 600, "of two threads");
    }
}
