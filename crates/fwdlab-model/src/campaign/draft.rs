//! The campaign of a command: its options in the form of a campaign file, which is printed, stored
//! with the run, and read like any other.
//!
//! Commands have no other way to a [`Campaign`], so that running the printed file is the same run.
//! Start with [`Draft::campaign`].

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Bed, Campaign, Matrix, OnFailure, Order, PLAIN, Procedure, Threshold, Trex};
use crate::family::{Generated, PREFIX};
use crate::file::{FileError, Origin};

/// The parts of a campaign that commands have options for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Draft {
    /// Name of the campaign.
    pub campaign: String,
    /// Number of iterations.
    pub iterations: u32,
    /// Order of the test cases.
    pub order: Order,
    /// What happens after a failure.
    pub on_failure: OnFailure,
    /// Seed of all random choices, at most 2^63 - 1; `None` to choose and record one.
    pub seed: Option<u64>,
    /// The test bed.
    #[serde(skip)]
    pub bed: Bed,
    /// True to read the DUT's host around trials on every test bed, also on one of hosts.
    #[serde(skip)]
    pub telemetry: bool,
    /// How profiles of TRex are read.
    #[serde(skip)]
    pub trex: Trex,
    /// The configurations by name.
    #[serde(skip)]
    pub configuration: BTreeMap<String, Vec<String>>,
    /// The test cases.
    #[serde(skip)]
    pub matrix: Matrix,
    /// The procedure.
    #[serde(skip)]
    pub procedure: Procedure,
    /// What the result must reach.
    #[serde(skip)]
    pub thresholds: Vec<Threshold>,
}

impl Draft {
    /// Creates a campaign of one iteration by this procedure.
    pub fn new(name: &str, procedure: Procedure) -> Draft {
        Draft {
            campaign: name.into(),
            iterations: 1,
            order: Order::default(),
            on_failure: OnFailure::default(),
            seed: None,
            bed: Bed::default(),
            telemetry: false,
            trex: Trex::default(),
            configuration: BTreeMap::new(),
            matrix: Matrix::default(),
            procedure,
            thresholds: Vec::new(),
        }
    }

    /// Adds configurations as typed, several if a generated one has lists of values, each applied
    /// after the configuration `after`. Returns their names: what was typed, or the family and its
    /// values.
    ///
    /// # Errors
    /// An unknown family, or wrong values.
    pub fn configure(&mut self, typed: &str, after: &str) -> Result<Vec<String>, FileError> {
        let typed = typed.trim();
        if typed.is_empty() {
            let reason =
                "a configuration is empty; give a command in quotes, a file, or a directory";
            return Err(Origin::default().error(&[], reason));
        }
        let all = match typed.strip_prefix(PREFIX) {
            Some(family) => Generated::parse(family)
                .map_err(|wrong| Origin::default().error(&[], format!("{typed}: {wrong}")))?
                .iter()
                .map(|one| (one.name(), format!("{PREFIX}{one}")))
                .collect(),
            None => vec![(typed.to_owned(), typed.to_owned())],
        };
        let before = self.configuration.get(after).cloned().unwrap_or_default();
        let mut names = Vec::new();
        for (name, text) in all {
            // a configuration may be compared with itself
            let others = (2..).map(|n| format!("{name} ({n})"));
            let is_free = |name: &String| !self.configuration.contains_key(name);
            let mut free = std::iter::once(name.clone()).chain(others).filter(is_free);
            let name = free.next().unwrap_or_default();
            self.configuration
                .insert(name.clone(), [before.clone(), vec![text]].concat());
            names.push(name);
        }
        Ok(names)
    }

    /// Adds the configuration that every DUT has. Returns its name; without one, the plain router.
    ///
    /// # Errors
    /// As for [`Draft::configure`]; several configurations.
    pub fn set(&mut self, typed: Option<&str>) -> Result<String, FileError> {
        let Some(typed) = typed else {
            return Ok(PLAIN.into());
        };
        let mut names = self.configure(typed, PLAIN)?;
        match (names.pop(), names.len()) {
            (Some(name), 0) => Ok(name),
            (_, others) => Err(Origin::default().error(
                &[],
                format!(
                    "{typed}: these are {} configurations, and one is needed here; give one value for each key",
                    others + 1
                ),
            )),
        }
    }

    /// Returns the text of the campaign file.
    ///
    /// # Errors
    /// A value that TOML cannot contain. It must not be left out: another campaign would be
    /// measured.
    pub fn text(&self) -> Result<String, FileError> {
        self.toml().map_err(|error| {
            Origin::default().error(&[], format!("cannot write the campaign: {error}"))
        })
    }

    fn toml(&self) -> Result<String, toml::ser::Error> {
        let telemetry = if self.telemetry {
            "\n[telemetry]\n"
        } else {
            ""
        };
        let mut text = toml::to_string(self)? + telemetry;
        for (name, table) in [
            ("bed", without_defaults(&self.bed)?),
            ("trex", without_defaults(&self.trex)?),
            ("configuration", toml::Table::try_from(&self.configuration)?),
            ("matrix", without_defaults(&self.matrix)?),
        ] {
            if !table.is_empty() {
                text += &format!("\n[{name}]\n{table}");
            }
        }
        let (id, parameters) = (self.procedure.id(), self.procedure.table()?);
        text += &format!("\n[procedure]\nid = \"{id}\"\n{parameters}");
        if !self.thresholds.is_empty() {
            let thresholds = BTreeMap::from([("threshold", &self.thresholds)]);
            text += &format!("\n{}", toml::to_string(&thresholds)?);
        }
        Ok(text)
    }

    /// Returns the campaign, as it is read from its file. Errors have no position, because users
    /// have not written the text.
    ///
    /// # Errors
    /// What is wrong.
    pub fn campaign(&self) -> Result<Campaign, FileError> {
        Campaign::parse("", &self.text()?)
    }
}

/// Returns only the values that differ from the defaults.
fn without_defaults<T: Serialize + Default>(value: &T) -> Result<toml::Table, toml::ser::Error> {
    let defaults = toml::Table::try_from(T::default())?;
    let mut table = toml::Table::try_from(value)?;
    table.retain(|key, value| defaults.get(key) != Some(value));
    Ok(table)
}
