//! Hooks: user commands before, during and after a measurement, each on a host of the test bed.
//!
//! `fwdlab_lab::run::hooks` starts them and handles failures. Start with [`Hooks`].

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::value::Period;
use super::{Campaign, Counting};
use crate::file::{FileError, Step};

/// Default time limit of a hook.
const WITHIN: Period = Period::seconds(60);

/// A longer limit counts as an error.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// More hooks of a kind count as an error.
const MOST: usize = 20;

/// Commands before, during and after a measurement.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hooks {
    /// Run in turn, before.
    pub before: Vec<Hook>,
    /// Run concurrently, from the first frames of a trial to its end.
    pub during: Vec<Hook>,
    /// Run in turn, afterwards, regardless of the result.
    pub after: Vec<Hook>,
}

impl Hooks {
    /// Returns true if there are no hooks.
    pub fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// Iterates over all hooks, each with when it runs.
    pub fn all(&self) -> impl Iterator<Item = (When, &Hook)> {
        [
            (When::Before, &self.before),
            (When::During, &self.during),
            (When::After, &self.after),
        ]
        .into_iter()
        .flat_map(|(when, hooks)| hooks.iter().map(move |hook| (when, hook)))
    }
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// A script for `sh`.
    pub command: String,
    /// The host it runs on.
    pub on: On,
    /// What it runs around.
    pub every: Every,
    /// Its time limit.
    pub within: Period,
}

/// When a hook runs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// Before the measurement
    Before,
    /// During the measurement: from the first frames of a trial to its end
    During,
    /// After the measurement
    After,
}

impl When {
    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            When::Before => "before",
            When::During => "during",
            When::After => "after",
        }
    }
}

/// Where a hook runs
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// On the DUT, like the commands of its configurations
    #[default]
    Dut,
    /// On the host that sends and receives
    Generator,
    /// On the machine that runs fwdlab
    Controller,
}

impl On {
    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            On::Dut => "dut",
            On::Generator => "generator",
            On::Controller => "controller",
        }
    }
}

/// How often a hook runs
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Every {
    /// Around every trial
    Trial,
    /// Around every iteration of every test case, after the DUT is configured
    #[default]
    Iteration,
    /// Around the whole campaign
    Campaign,
}

impl Every {
    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Every::Trial => "trial",
            Every::Iteration => "iteration",
            Every::Campaign => "campaign",
        }
    }
}

/// Commands before, during and after a measurement
#[derive(Debug, Default, serde::Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Text {
    /// Commands to run before an iteration, a trial, or the campaign
    before: Said,
    /// Commands to start with the first frames of every trial; they are stopped when it ends
    during: Said,
    /// Commands to run afterwards, regardless of the result
    after: Said,
}

/// One or several hooks.
#[derive(Debug, Default)]
struct Said {
    hooks: Vec<Table>,
    is_list: bool,
}

/// A command, where it runs and how often
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Table {
    /// The command, for sh
    command: String,
    /// Where it runs
    #[serde(default)]
    on: On,
    /// How often it runs; commands in `during` run in every trial
    #[serde(default)]
    every: Option<Every>,
    /// Time limit, such as 60s: a command that takes longer is stopped and has failed; commands in
    /// `during` end with the trial
    #[serde(default)]
    within: Option<Period>,
}

/// A command, or a table.
struct One(Table);

impl<'de> Deserialize<'de> for One {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<One, D::Error> {
        struct TextOrTable;

        impl<'de> Visitor<'de> for TextOrTable {
            type Value = One;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_str<E: de::Error>(self, command: &str) -> Result<One, E> {
                Ok(One(Table {
                    command: command.to_owned(),
                    on: On::default(),
                    every: None,
                    within: None,
                }))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<One, A::Error> {
                Table::deserialize(MapAccessDeserializer::new(map)).map(One)
            }
        }

        deserializer.deserialize_any(TextOrTable)
    }
}

/// Description of hooks, for errors.
const EXPECTED: &str = "a command, { command = \"...\", on = \"dut\" }, or a list of them";

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Said, D::Error> {
        struct OneOrMany;

        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Said;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_str<E: de::Error>(self, command: &str) -> Result<Said, E> {
                One::deserialize(StrDeserializer::new(command)).map(Said::one)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Said, A::Error> {
                One::deserialize(MapAccessDeserializer::new(map)).map(Said::one)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Said, A::Error> {
                let mut hooks = Vec::new();
                while let Some(One(table)) = items.next_element()? {
                    hooks.push(table);
                }
                Ok(Said {
                    hooks,
                    is_list: true,
                })
            }
        }

        deserializer.deserialize_any(OneOrMany)
    }
}

impl Said {
    fn one(one: One) -> Said {
        Said {
            hooks: vec![one.0],
            is_list: false,
        }
    }
}

#[cfg(feature = "schemas")]
impl JsonSchema for Said {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Hooks_of_a_kind".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let table = generator.subschema_for::<Table>();
        schemars::json_schema!({
            "description": "A command for sh, one with where it runs, or a list of them",
            "anyOf": [
                { "type": "string" },
                table,
                { "type": "array", "items": { "anyOf": [{ "type": "string" }, table] } }
            ]
        })
    }
}

impl Campaign {
    /// Returns the hooks of the file, once everything else is parsed.
    pub(super) fn hooks_of(&self, text: Text) -> Result<Hooks, FileError> {
        let all = [
            (When::Before, text.before),
            (When::During, text.during),
            (When::After, text.after),
        ];
        let mut hooks = Hooks::default();
        for (when, said) in all {
            let key = when.name();
            if said.hooks.len() > MOST {
                let reason = format!("{} commands; {MOST} are the most", said.hooks.len());
                return Err(self.error(&["hooks", key], reason));
            }
            let mut of_kind = Vec::new();
            for (n, table) in said.hooks.into_iter().enumerate() {
                let wrong = |of: Option<&'static str>, reason: &str| {
                    let mut key_path = vec![Step::Key("hooks"), Step::Key(key)];
                    key_path.extend(said.is_list.then_some(Step::Item(n)));
                    key_path.extend(of.map(Step::Key));
                    self.origin.error(&key_path, reason)
                };
                of_kind.push(self.hook(when, table, &wrong)?);
            }
            match when {
                When::Before => hooks.before = of_kind,
                When::During => hooks.during = of_kind,
                When::After => hooks.after = of_kind,
            }
        }
        Ok(hooks)
    }

    fn hook(
        &self,
        when: When,
        table: Table,
        wrong: &dyn Fn(Option<&'static str>, &str) -> FileError,
    ) -> Result<Hook, FileError> {
        let Table {
            command,
            on,
            every,
            within,
        } = table;
        if command.trim().is_empty() {
            return Err(wrong(None, "it is empty; give a command, or omit it"));
        }
        let every = match (when, every) {
            (When::During, None | Some(Every::Trial)) => Every::Trial,
            (When::During, Some(_)) => {
                let reason = "`during` always runs in every trial: omit this";
                return Err(wrong(Some("every"), reason));
            }
            (_, every) => every.unwrap_or_default(),
        };
        if when == When::During && within.is_some() {
            let reason = "`during` always ends with its trial: omit this";
            return Err(wrong(Some("within"), reason));
        }
        if every == Every::Campaign && on != On::Controller {
            let reason = "around the whole campaign only the controller exists, because hosts are connected and beds built during it: set on \
                       = \"controller\"";
            return Err(wrong(Some("every"), reason));
        }
        if self.is_simulated() {
            if when == When::During {
                let reason =
                    "a simulated DUT gets no frames with which this could start: omit this";
                return Err(wrong(None, reason));
            }
            if on != On::Controller {
                let reason = "a simulated DUT has no host: set on = \"controller\"";
                return Err(wrong(None, reason));
            }
        }
        if every != Every::Campaign {
            let reason = match self.procedure.counting() {
                Counting::Slices => {
                    "DUTs take turns in slices, and a command on their host would disturb only one of them: set every = \"campaign\", or use another procedure"
                }
                Counting::Instructions => {
                    "the instructions of a hook would be counted, too: set every = \"campaign\""
                }
                Counting::Trials | Counting::Windows => "",
            };
            if !reason.is_empty() {
                return Err(wrong(None, reason));
            }
        }
        let within = within.unwrap_or(WITHIN);
        if within.0 > LONGEST {
            return Err(wrong(Some("within"), "a day is the longest"));
        }
        Ok(Hook {
            command,
            on,
            every,
            within,
        })
    }
}
