//! Selects test cases of a campaign: `configuration:nft-* size:64,128 !ip:ipv6`.
//!
//! Terms separated by spaces must all match. Knows test cases, and nothing about their measurement.
//! Start with [`Selection`].

use std::fmt;
use std::str::FromStr;

use super::Case;
use crate::file::did_you_mean;
use crate::glob::matches;

/// The keys of terms.
const KEYS: [&str; 10] = [
    "configuration",
    "size",
    "flows",
    "ip",
    "profile",
    "destinations",
    "directions",
    "modifier",
    "image",
    "dut",
];

/// An expression that a test case matches or not.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    terms: Vec<Term>,
    text: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Term {
    /// True to invert the rest of the term.
    is_negated: bool,
    /// `None`: the name of the test case.
    key: Option<&'static str>,
    /// One of them must match.
    patterns: Vec<String>,
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Selection, String> {
        let terms: Vec<Term> = text
            .split_whitespace()
            .map(term)
            .collect::<Result<_, String>>()?;
        match terms.is_empty() {
            true => Err("name the test cases, such as configuration:nft-* size:64".into()),
            false => Ok(Selection {
                terms,
                text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            }),
        }
    }
}

fn term(text: &str) -> Result<Term, String> {
    let (is_negated, rest) = match text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (key, patterns) = match rest.split_once(':') {
        Some((key, patterns)) => {
            let known = KEYS.iter().find(|known| **known == key);
            let known = known.ok_or_else(|| {
                let which = did_you_mean(key, &KEYS);
                format!("`{key}` in `{text}` is not a label of test cases; {which}")
            })?;
            (Some(*known), patterns)
        }
        None => (None, rest),
    };
    let patterns: Vec<String> = patterns.split(',').map(str::to_owned).collect();
    if patterns.iter().any(String::is_empty) {
        return Err(format!(
            "`{text}` has an empty value: size:64 or size:64,128"
        ));
    }
    Ok(Term {
        is_negated,
        key,
        patterns,
    })
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Selection {
    /// Returns true if this test case is selected.
    pub fn selects(&self, case: &Case) -> bool {
        self.terms.iter().all(|term| term.selects(case))
    }
}

impl Term {
    fn selects(&self, case: &Case) -> bool {
        let values = match self.key {
            None => vec![case.id()],
            Some(key) => values(case, key),
        };
        let agrees = |value: &String| self.patterns.iter().any(|glob| matches(glob, value));
        values.iter().any(agrees) != self.is_negated
    }
}

/// Returns the values of a test case for this key; empty if it has none.
fn values(case: &Case, key: &str) -> Vec<String> {
    let (stream, variant) = (&case.stream, &case.variant);
    // the placeholder for the stream of a profile was not given by the user
    let of_stream = |value: String| match variant.profile {
        Some(_) => Vec::new(),
        None => vec![value],
    };
    match key {
        "configuration" => vec![case.configuration.clone()],
        "size" => of_stream(stream.frame_size_bytes.bytes().to_string()),
        "flows" => of_stream(stream.flows.to_string()),
        // as in campaign files
        "ip" => of_stream(stream.ip_version.to_string().to_lowercase()),
        "profile" => variant.profile.iter().cloned().collect(),
        "destinations" => vec![variant.destinations.to_string()],
        "directions" => {
            let both = variant.both_directions;
            vec![if both { "both" } else { "one" }.to_owned()]
        }
        "modifier" => match variant.modifiers.is_empty() {
            true => vec!["none".into()],
            false => variant.modifiers.iter().map(ToString::to_string).collect(),
        },
        "image" => case.image.iter().cloned().collect(),
        _ => vec![case.dut.name().to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::Campaign;

    const CAMPAIGN: &str = r#"
campaign = "c"
[configuration]
nft-10 = "nft add table ip a"
nft-20 = "nft add table ip b"
pf = "true"
[matrix]
configuration = ["plain", "nft-10", "nft-20", "pf"]
size = [128, 512]
flows = [1, 2000]
ip = ["ipv4", "ipv6"]
[procedure]
id = "mrr"
"#;

    fn chosen(text: &str) -> Vec<String> {
        let selection: Selection = text.parse().unwrap();
        let campaign = Campaign::parse("c.toml", CAMPAIGN).unwrap();
        let cases = campaign.cases.iter().filter(|case| selection.selects(case));
        cases.map(|case| case.id()).collect()
    }

    #[test]
    fn terms_choose_test_cases() {
        assert_eq!(chosen("*").len(), 32);
        assert!(chosen("configuration:nft-* size:512 flows:1 ip:ipv4").len() == 2);
        assert_eq!(
            chosen("configuration:plain size:512 flows:1"),
            ["plain/512B-1flow-ipv4", "plain/512B-1flow-ipv6"]
        );
        assert_eq!(
            chosen("configuration:plain,pf !size:512 !ip:ipv6 flows:2000").len(),
            2
        );
        assert_eq!(chosen("plain/512B-1flow*").len(), 2);
        assert_eq!(chosen("image:*"), ["x"; 0]);
        assert_eq!(chosen("modifier:none dut:linux !*").len(), 0);
    }

    #[test]
    fn errors_are_reported() {
        for (text, says) in [
            ("", "name the test cases"),
            ("configurtion:a", "`configuration`"),
            ("size:", "empty value"),
            ("size:64,,128", "empty value"),
        ] {
            let reason = text.parse::<Selection>().unwrap_err();
            assert!(reason.contains(says), "{text}: {reason}");
        }
    }
}
