//! The configurations of a campaign: named lists of commands, files and directories, and generated
//! ones.
//!
//! A generated one with lists of values is several configurations, named after their values. What
//! they do is defined elsewhere. Start with [`expand`].

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::family::{Generated, PREFIX};
use crate::file::{FileError, Origin, Step};
use crate::typed::Several;

/// More configurations count as an error.
const MOST: usize = 1000;

/// What a configuration consists of
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(super) enum Said {
    /// A single part
    One(Part),
    /// A list of parts, applied in order
    Many(Vec<Part>),
}

/// A part of a configuration
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(super) enum Part {
    /// A command, a file, a directory, or generate:FAMILY,KEY=VALUE
    Text(String),
    /// A generated configuration: { generate = FAMILY, KEY = VALUE or [VALUE, ...] }
    Generated(BTreeMap<String, Several<Scalar>>),
}

/// A value of a generated configuration
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(untagged)]
pub(super) enum Scalar {
    /// A number
    Number(i64),
    /// A boolean
    Switch(bool),
    /// Text
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Number(number) => number.fmt(f),
            Scalar::Switch(true) => f.write_str("on"),
            Scalar::Switch(false) => f.write_str("off"),
            Scalar::Text(text) => f.write_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, true or false, a text, or a list of them")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.to_owned()))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number))
            }
            fn visit_bool<E: de::Error>(self, switch: bool) -> Result<Scalar, E> {
                Ok(Scalar::Switch(switch))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// Description of a configuration, for errors.
const EXPECTED: &str =
    "a command, a file, a directory, { generate = \"FAMILY\" }, or a list of them";

fn of_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<Part, A::Error> {
    let mut keys = BTreeMap::new();
    while let Some((key, value)) = map.next_entry()? {
        keys.insert(key, value);
    }
    Ok(Part::Generated(keys))
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Part, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Part;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Part, E> {
                Ok(Part::Text(text.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Part, A::Error> {
                of_map(map)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Said, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Said;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Said, E> {
                Ok(Said::One(Part::Text(text.to_owned())))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Said, A::Error> {
                of_map(map).map(Said::One)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Said, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(Said::Many(all))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// Configurations by name, each with its parts as text; and for every name in the file the
/// configurations that it stands for, in the order of their values.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    pub configurations: BTreeMap<String, Vec<String>>,
    pub families: BTreeMap<String, Vec<String>>,
}

/// Expands every list of values to one configuration per value.
pub(super) fn expand(origin: &Origin, said: BTreeMap<String, Said>) -> Result<Expanded, FileError> {
    let mut expanded = Expanded::default();
    for (name, said) in said {
        let (parts, is_list) = match said {
            Said::One(part) => (vec![part], false),
            Said::Many(parts) => (parts, true),
        };
        // every combination so far: name suffixes and parts
        let mut all: Vec<(Vec<String>, Vec<String>)> = vec![(Vec::new(), Vec::new())];
        for (n, part) in parts.into_iter().enumerate() {
            let mut key_path = vec![Step::Key("configuration"), Step::Key(&name)];
            if is_list {
                key_path.push(Step::Item(n));
            }
            let choices = choices(origin, &key_path, part)?;
            if all.len() * choices.len() > MOST {
                let reason = format!("these lists are more than {MOST} configurations");
                return Err(origin.error(&key_path, reason));
            }
            let with = |(suffix, parts): &(Vec<String>, Vec<String>),
                        (own, text): &(String, String)| {
                let own = (!own.is_empty()).then(|| own.clone());
                let suffix = suffix.iter().cloned().chain(own).collect();
                let parts = parts.iter().chain([text]).cloned().collect();
                (suffix, parts)
            };
            let each = all
                .iter()
                .flat_map(|one| choices.iter().map(move |choice| (one, choice)));
            all = each.map(|(one, choice)| with(one, choice)).collect();
        }
        let mut names = Vec::new();
        for (suffix, parts) in all {
            let whole = [&[name.clone()][..], &suffix].concat().join("-");
            if whole != name && !super::is_name(&whole) {
                let reason = format!(
                    "the name `{whole}` has more than 64 letters; give a shorter one, or a list to each of several"
                );
                return Err(origin.error(&[Step::Key("configuration"), Step::Key(&name)], reason));
            }
            if expanded
                .configurations
                .insert(whole.clone(), parts)
                .is_some()
            {
                let reason = format!(
                    "there are two configurations `{whole}`; give one of them another name"
                );
                return Err(origin.error(&[Step::Key("configuration"), Step::Key(&name)], reason));
            }
            names.push(whole);
        }
        expanded.families.insert(name, names);
    }
    Ok(expanded)
}

/// Returns the choices of a part: the suffix of the name, and the text of the configuration.
fn choices(
    origin: &Origin,
    key_path: &[Step<'_>],
    part: Part,
) -> Result<Vec<(String, String)>, FileError> {
    let generated = match part {
        Part::Text(text) => match text.trim().strip_prefix(PREFIX) {
            None => return Ok(vec![(String::new(), text)]),
            Some(rest) => {
                Generated::parse(rest).map_err(|wrong| origin.error(key_path, wrong.to_string()))?
            }
        },
        Part::Generated(mut keys) => {
            let Some(family) = keys.remove("generate") else {
                let cause =
                    "this table has no `generate`: add generate = \"nft-rules\" or another family";
                return Err(origin.error(key_path, cause));
            };
            let at = |key: &str, cause: String| {
                let key_path = [key_path, &[Step::Key(key)]].concat();
                origin.error(&key_path, cause)
            };
            let [family] = &family.0[..] else {
                return Err(at(
                    "generate",
                    "one family; for several give a list of tables".into(),
                ));
            };
            let texts = |values: Several<Scalar>| values.0.iter().map(Scalar::to_string).collect();
            let said: Vec<(String, Vec<String>)> = keys
                .into_iter()
                .map(|(key, values)| (key, texts(values)))
                .collect();
            Generated::expand(&family.to_string(), &said).map_err(|wrong| match &wrong.key {
                Some(key) => at(key, wrong.reason.clone()),
                None => at("generate", wrong.reason.clone()),
            })?
        }
    };
    let text = |one: &Generated| (one.suffix(), format!("{PREFIX}{one}"));
    Ok(generated.iter().map(text).collect())
}

#[cfg(test)]
mod tests {
    use crate::campaign::Campaign;

    fn parse(configuration: &str, matrix: &str) -> Result<Campaign, String> {
        let text = format!(
            "campaign = 'c'\n[configuration]\n{configuration}\n[matrix]\n{matrix}\n[procedure]\nid = 'mrr'\n"
        );
        Campaign::parse("c.toml", &text).map_err(|error| error.to_string())
    }

    fn names(campaign: &Campaign) -> Vec<&str> {
        let names = campaign
            .cases
            .iter()
            .map(|case| case.configuration.as_str());
        names.collect()
    }

    #[test]
    fn a_list_of_values_is_as_many_configurations_in_its_order() {
        let own = "rules = { generate = 'nft-rules', n = [10, 100, 20] }\nplain-file = 'x.nft'";
        let campaign = parse(own, "").unwrap();
        assert_eq!(
            names(&campaign),
            ["plain-file", "rules-10", "rules-100", "rules-20"]
        );
        assert_eq!(
            campaign.configurations["rules-20"],
            ["generate:nft-rules,n=20,ip=ipv4"]
        );

        // the name in the file stands for all of them, and each has its own name
        let campaign = parse(own, "configuration = ['plain', 'rules', 'plain-file']").unwrap();
        assert_eq!(
            names(&campaign),
            ["plain", "rules-10", "rules-100", "rules-20", "plain-file"]
        );
        let campaign = parse(own, "configuration = ['rules-20', 'plain']").unwrap();
        assert_eq!(names(&campaign), ["rules-20", "plain"]);
        let table = "[configuration.fw]\ngenerate = 'nft-stateful'\nstate = [true, false]";
        assert_eq!(names(&parse(table, "").unwrap()), ["fw-on", "fw-off"]);
    }

    #[test]
    fn lists_are_multiplied() {
        let own = "a = [{ generate = 'nft-rules', n = [1, 2] }, 'echo x', 'generate:offload,feature=gro,state=on+off']";
        let campaign = parse(own, "").unwrap();
        assert_eq!(names(&campaign), ["a-1-on", "a-1-off", "a-2-on", "a-2-off"]);
        assert_eq!(
            campaign.configurations["a-2-off"],
            [
                "generate:nft-rules,n=2,ip=ipv4",
                "echo x",
                "generate:offload,feature=gro,state=off"
            ]
        );
    }

    #[test]
    fn errors_have_a_position() {
        for (own, matrix, expect) in [
            (
                "a = { generate = 'nft-rule', n = 1 }",
                "",
                "c.toml:3:18: there is no family `nft-rule`; did you mean `nft-rules`?",
            ),
            (
                "a = { generate = 'nft-rules', m = 1 }",
                "",
                "c.toml:3:35: nft-rules has no `m`; did you mean `n`?",
            ),
            (
                "a = ['true', { generate = 'nft-rules', n = 1.5 }]",
                "",
                "c.toml:3:44: found floating point `1.5`, expected",
            ),
            (
                "a = { n = 1 }",
                "",
                "c.toml:3:1: this table has no `generate`",
            ),
            (
                "a = 5",
                "",
                "c.toml:3:5: found integer `5`, expected a command, a file, a directory",
            ),
            (
                "a = 'generate:nft-rules'",
                "",
                "c.toml:3:5: nft-rules needs n",
            ),
            (
                "a = { generate = 'nft-rules', n = [1, 2] }\na-1 = 'true'",
                "",
                "c.toml:4:7: there are two configurations `a-1`",
            ),
            (
                "a = { generate = 'nft-rules', n = [1, 2] }",
                "configuration = ['plain', 'a', 'b']",
                "c.toml:5:32: there is no configuration `b`",
            ),
            (
                "a = { generate = 'nft-rules', n = [1, 2] }",
                "configuration = ['a', 'a-1']",
                "c.toml:5:1: a-1 is listed twice",
            ),
            (
                "a = { generate = 'sysctl', name = 'net.x', value = 'a,b' }",
                "",
                "c.toml:3:52: `a,b` is not a value of one line",
            ),
        ] {
            let error = parse(own, matrix).unwrap_err();
            assert!(error.starts_with(expect), "{own}: {error}");
        }
    }
}
