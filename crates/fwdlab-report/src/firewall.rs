//! Returns the warning that accompanies every comparison of firewalls by forwarding rate. Start
//! with [`warning`].

use std::collections::BTreeMap;

use fwdlab_model::result::{FIREWALLS, RunInfo, Summary};
use serde_json::Value;

/// Substrings of the names of firewall configurations, for runs that did not record which ones
/// filter.
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

/// The text of the warning.
pub(crate) const WARNING: &str = "A firewall is not its forwarding rate: these figures show what its rules cost frames that pass, not what \
    they stop. Rule sets that let the same frames through may inspect, remember and log different things, and one that is fast may be one that \
    looks at less. RFC 9411 therefore requires a check of the security functions before any rate is quoted; here they were not checked.";

/// Returns the warning if several configurations are compared and at least one of them is a
/// firewall.
pub(crate) fn warning<'a>(
    runs: impl IntoIterator<Item = (&'a RunInfo, &'a Summary)>,
) -> Option<&'static str> {
    let mut names: Vec<String> = Vec::new();
    let mut is_firewall = false;
    for (info, summary) in runs {
        for case in &summary.test_cases {
            let compared = case.comparisons().map(|c| c.configuration.as_str());
            for name in compared.chain([case.case.configuration.as_str()]) {
                is_firewall |= is_filter(&info.parameters, name);
                if !names.iter().any(|known| known == name) {
                    names.push(name.to_owned());
                }
            }
        }
    }
    (names.len() > 1 && is_firewall).then_some(WARNING)
}

/// Returns true if this configuration filters. Runs record what their configurations contain; for
/// older runs and archives only the name decides.
fn is_filter(parameters: &BTreeMap<String, Value>, name: &str) -> bool {
    match parameters.get(FIREWALLS).and_then(Value::as_array) {
        Some(firewalls) => firewalls.iter().any(|one| one == name),
        None => {
            let name = name.to_lowercase();
            WORDS.iter().any(|word| name.contains(word))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_firewall_is_recognised_by_its_configuration() {
        let mut kept = BTreeMap::new();
        // an old run: only the name decides
        assert!(is_filter(&kept, "nft.conf") && !is_filter(&kept, "fw"));
        kept.insert(FIREWALLS.into(), json!(["fw", "set"]));
        assert!(is_filter(&kept, "fw") && is_filter(&kept, "set"));
        assert!(!is_filter(&kept, "nftables-are-off"));
    }
}
