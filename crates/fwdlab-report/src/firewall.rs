//! The warning that belongs beside firewalls that are compared by how fast they forward.

use fwdlab_model::result::Summary;

/// Words in names of configurations that are of firewalls.
const WORDS: [&str; 10] = [
    "firewall",
    "nft",
    "iptables",
    "conntrack",
    "stateful",
    "stateless",
    "ipfw",
    "pf.conf",
    "opnsense",
    "pfsense",
];

/// What is said.
pub(crate) const WARNING: &str = "A firewall is not its forwarding rate: these figures say what its rules cost frames that pass, not what they \
    stop. Rule sets that let the same frames through may inspect, remember and log different things, and one that is fast may be one that \
    looks at less. RFC 9411 therefore wants the security functions verified before any rate is quoted; here they were not.";

/// The warning, where at least one of several things that are compared is a firewall.
pub(crate) fn warning<'a>(
    summaries: impl IntoIterator<Item = &'a Summary>,
) -> Option<&'static str> {
    let mut names: Vec<String> = Vec::new();
    for summary in summaries {
        for case in &summary.test_cases {
            let compared = case.comparisons().map(|c| c.configuration.as_str());
            for name in compared.chain([case.case.configuration.as_str()]) {
                let name = name.to_lowercase();
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
    }
    let is_firewall = |name: &String| WORDS.iter().any(|word| name.contains(word));
    (names.len() > 1 && names.iter().any(is_firewall)).then_some(WARNING)
}
