//! Restarts of the DUT between measurements, so that no test case inherits the state of another
//! one.
//!
//! The caller restarts the machine and waits for it. Start with [`Reboot`].

use std::fmt;

use schemars::JsonSchema;
#[cfg(feature = "schemas")]
use schemars::{Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::value::Period;
use super::{Campaign, Counting};
use crate::file::FileError;

/// More tries count as an error.
const MOST_RETRIES: u32 = 10;

/// Restart the DUT before it is measured
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Reboot {
    /// Time limit of a restart, until the DUT is ready
    pub within: Period,
    /// Number of further attempts if the DUT does not come back
    #[schemars(range(max = 10))]
    pub retries: u32,
}

impl Default for Reboot {
    fn default() -> Reboot {
        Reboot {
            within: Period::seconds(600),
            retries: 2,
        }
    }
}

/// Reads `reboot = true`, or a table.
pub(super) fn said<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Reboot>, D::Error> {
    struct SwitchOrTable;

    impl<'de> Visitor<'de> for SwitchOrTable {
        type Value = Option<Reboot>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("true, false or { within = \"10min\", retries = 2 }")
        }

        fn visit_bool<E: de::Error>(self, requested: bool) -> Result<Option<Reboot>, E> {
            Ok(requested.then(Reboot::default))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<Reboot>, A::Error> {
            Reboot::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }

    deserializer.deserialize_any(SwitchOrTable)
}

#[cfg(feature = "schemas")]
pub(super) fn schema(generator: &mut SchemaGenerator) -> Schema {
    let table = generator.subschema_for::<Reboot>();
    schemars::json_schema!({ "anyOf": [{ "type": "boolean" }, table] })
}

impl Campaign {
    pub(super) fn check_reboot(&self) -> Result<(), FileError> {
        let Some(reboot) = self.reboot else {
            return Ok(());
        };
        let wrong = |key_path: &[&str], reason: &str| Err(self.error(key_path, reason));
        if self.is_simulated() {
            return wrong(
                &["reboot"],
                "a simulated DUT starts from scratch in every iteration: omit this",
            );
        }
        match self.procedure.counting() {
            Counting::Instructions => {
                let reason = "every iteration boots a new machine: omit this";
                return wrong(&["reboot"], reason);
            }
            Counting::Slices => {
                let reason = "slices compare DUTs side by side on this machine, which is not restarted: omit this";
                return wrong(&["reboot"], reason);
            }
            Counting::Trials | Counting::Windows => {}
        }
        if self.bed.file.is_none() {
            let reason = "the DUT is a part of this machine, which is not restarted: omit this, or name a test bed: bed = \"NAME\"";
            return wrong(&["reboot"], reason);
        }
        match reboot.retries > MOST_RETRIES {
            true => wrong(&["reboot", "retries"], "at most 10 retries are possible"),
            false => Ok(()),
        }
    }
}
