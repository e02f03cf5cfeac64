//! Settings of the screen in `fwdlab.toml`: the keys of each function, and the columns of the test
//! cases.
//!
//! A table `[screen]` has the list `columns` and the table `keys`, which maps the name of a
//! function to a key or a list of keys. It replaces the default keys of that function; a key has
//! one function only. Start with [`Settings::read`].

use fwdlab_model::file::{FileError, Origin, Step, did_you_mean};
use toml::{Table, Value};

use super::keys::{Key, KeyFunction};

/// The name of the table.
pub const TABLE: &str = "screen";
const KEYS: &str = "keys";
const COLUMNS: &str = "columns";

/// The content of a column of the test cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// The figure of the median iteration.
    Figure,
    /// The spread: how far the smallest is below the largest, in percent.
    Apart,
    Smallest,
    Largest,
    /// The figure of the last iteration.
    Last,
    /// Iterations without a result.
    Failed,
    /// Iterations done, and their total.
    Iterations,
}

impl Column {
    const ALL: [(Column, &str); 7] = [
        (Column::Figure, "figure"),
        (Column::Apart, "apart"),
        (Column::Smallest, "smallest"),
        (Column::Largest, "largest"),
        (Column::Last, "last"),
        (Column::Failed, "failed"),
        (Column::Iterations, "iterations"),
    ];
}

/// The settings, with defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Columns of the test cases, after their names.
    pub columns: Vec<Column>,
    keys: Vec<(KeyFunction, Vec<Key>)>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            columns: vec![
                Column::Figure,
                Column::Apart,
                Column::Failed,
                Column::Iterations,
            ],
            keys: KeyFunction::ALL
                .iter()
                .map(|(does, _, keys)| (*does, keys.to_vec()))
                .collect(),
        }
    }
}

impl Settings {
    /// Returns the function of a key.
    pub fn does(&self, key: Key) -> Option<KeyFunction> {
        let bound = self.keys.iter().find(|(_, keys)| keys.contains(&key));
        bound.map(|(does, _)| *does)
    }

    /// Returns the keys of a function.
    pub fn keys(&self, does: KeyFunction) -> &[Key] {
        let bound = self.keys.iter().find(|(one, _)| *one == does);
        bound.map_or(&[], |(_, keys)| keys)
    }

    /// Reads the settings in a file.
    ///
    /// # Errors
    /// If a name is unknown, or a key has two functions; the error includes its position.
    pub fn read(&mut self, value: &Value, origin: &Origin) -> Result<(), FileError> {
        let Value::Table(table) = value else {
            let reason = format!("`{TABLE}` is a table: [{TABLE}]");
            return Err(origin.error(&[TABLE.into()], reason));
        };
        for (name, value) in table {
            let way: [Step<'_>; 2] = [TABLE.into(), name.as_str().into()];
            match (name.as_str(), value) {
                (COLUMNS, Value::Array(columns)) => self.columns = read_columns(columns, origin)?,
                (COLUMNS, _) => {
                    return Err(origin.error(&way, "columns are a list: [\"figure\", \"apart\"]"));
                }
                (KEYS, Value::Table(keys)) => self.read_keys(keys, origin)?,
                (KEYS, _) => {
                    let reason = format!("keys are a table: [{TABLE}.{KEYS}]");
                    return Err(origin.error(&way, reason));
                }
                _ => {
                    let known = did_you_mean(name, &[COLUMNS, KEYS]);
                    let reason = format!("unknown key `{name}`; {known}");
                    return Err(origin.error(&way, reason));
                }
            }
        }
        Ok(())
    }

    fn read_keys(&mut self, table: &Table, origin: &Origin) -> Result<(), FileError> {
        let mut given = Vec::new();
        for (name, value) in table {
            let way: [Step<'_>; 3] = [TABLE.into(), KEYS.into(), name.as_str().into()];
            let Some(does) = KeyFunction::named(name) else {
                let names: Vec<&str> = KeyFunction::ALL.iter().map(|(_, name, _)| *name).collect();
                let known = did_you_mean(name, &names);
                return Err(origin.error(&way, format!("nothing is called `{name}`; {known}")));
            };
            let values = match value {
                Value::Array(values) => values.as_slice(),
                one => std::slice::from_ref(one),
            };
            let mut keys = Vec::new();
            for value in values {
                let key = match value.as_str() {
                    Some(text) => text.parse::<Key>(),
                    None => Err("a key is a text: \"f\", \"space\", \"ctrl-n\"".to_owned()),
                };
                keys.push(key.map_err(|reason| origin.error(&way, reason))?);
            }
            if keys.is_empty() {
                return Err(origin.error(&way, format!("`{name}` needs a key")));
            }
            given.push((does, keys));
        }
        for (does, keys) in &given {
            if let Some((_, old)) = self.keys.iter_mut().find(|(one, _)| one == does) {
                old.clone_from(keys);
            }
        }
        for (does, keys) in &given {
            for (other, others) in self.keys.iter().filter(|(other, _)| other != does) {
                if let Some(key) = keys.iter().find(|key| others.contains(key)) {
                    let (name, other) = (does.name(), other.name());
                    let way: [Step<'_>; 3] = [TABLE.into(), KEYS.into(), name.into()];
                    let reason = format!(
                        "`{key}` is the key of `{other}`, too; give that another one as well"
                    );
                    return Err(origin.error(&way, reason));
                }
            }
        }
        Ok(())
    }
}

fn read_columns(columns: &[Value], origin: &Origin) -> Result<Vec<Column>, FileError> {
    let mut read = Vec::new();
    for (at, value) in columns.iter().enumerate() {
        let way: [Step<'_>; 3] = [TABLE.into(), COLUMNS.into(), at.into()];
        let name = value.as_str().unwrap_or_default();
        let known = Column::ALL.iter().find(|(_, known)| *known == name);
        let Some((column, _)) = known else {
            let names = Column::ALL.map(|(_, name)| name);
            let reason = format!(
                "no column is called `{name}`; {}",
                did_you_mean(name, &names)
            );
            return Err(origin.error(&way, reason));
        };
        if read.contains(column) {
            return Err(origin.error(&way, format!("`{name}` is listed twice")));
        }
        read.push(*column);
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        let origin = Origin {
            file: "fwdlab.toml".into(),
            text: text.into(),
        };
        let table: Table = toml::from_str(text).unwrap();
        let mut settings = Settings::default();
        let read = settings.read(&table[TABLE], &origin);
        read.map(|()| settings).map_err(|error| error.to_string())
    }

    #[test]
    fn one_key_does_one_thing() {
        let settings = Settings::default();
        for (does, name, keys) in KeyFunction::ALL {
            assert_eq!(KeyFunction::named(name), Some(*does));
            for key in *keys {
                assert_eq!(settings.does(*key), Some(*does), "{name}");
                assert_eq!(key.to_string().parse(), Ok(*key));
            }
        }
    }

    #[test]
    fn the_manual_lists_all_keys() {
        let manual = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/reference/defaults.md");
        let manual = std::fs::read_to_string(manual).unwrap();
        let (_, manual) = manual.split_once("## The screen").unwrap();
        let does = KeyFunction::ALL.iter().map(|(_, name, _)| *name);
        for name in does.chain(Column::ALL.map(|(_, name)| name)) {
            assert!(manual.contains(&format!("`{name}`")), "{name}");
        }
        let example = manual.split("```toml\n").nth(1).unwrap();
        read(example.split("```").next().unwrap()).unwrap();
    }

    #[test]
    fn a_file_chooses_keys_and_columns() {
        let text = "[screen]\ncolumns = ['last', 'iterations']\n[screen.keys]\nquit = 'x'\nfreeze = ['f', 'ctrl-s']\nflame = 'F'\nhelp = 'h'\n";
        let settings = read(text).unwrap();
        assert_eq!(settings.columns, [Column::Last, Column::Iterations]);
        for (key, does) in [
            ("x", Some(KeyFunction::Quit)),
            ("q", None),
            ("f", Some(KeyFunction::Freeze)),
            ("ctrl-s", Some(KeyFunction::Freeze)),
            ("space", None),
            ("F", Some(KeyFunction::Flame)),
            ("h", Some(KeyFunction::Help)),
            ("?", None),
            ("e", Some(KeyFunction::Loss)),
        ] {
            assert_eq!(settings.does(key.parse().unwrap()), does, "{key}");
        }
    }

    #[test]
    fn errors_have_a_place_and_a_suggestion() {
        for (text, telemetry) in [
            (
                "[screen]\ncolums = []",
                "fwdlab.toml:2:1: unknown key `colums`; did you mean `columns`?",
            ),
            (
                "[screen]\ncolumns = ['figure', 'appart']",
                "fwdlab.toml:2:22: no column is called `appart`; did you mean `apart`?",
            ),
            (
                "[screen]\ncolumns = ['last', 'last']",
                "fwdlab.toml:2:20: `last` is listed twice",
            ),
            (
                "[screen.keys]\nfreze = 'x'",
                "fwdlab.toml:2:9: nothing is called `freze`; did you mean `freeze`?",
            ),
            (
                "[screen.keys]\nfreeze = 'spcae'",
                "fwdlab.toml:2:10: no key is called `spcae`; did you mean `space`?",
            ),
            (
                "[screen.keys]\nfreeze = 'f'",
                "fwdlab.toml:2:10: `f` is the key of `flame`, too; give that another one as well",
            ),
            (
                "[screen.keys]\nloss = 'x'\nskip = 'x'",
                "`x` is the key of `skip`, too",
            ),
            (
                "[screen.keys]\nquit = 'ctrl-c'",
                "fwdlab.toml:2:8: ctrl-c and ctrl-z are as everywhere: they are not bound",
            ),
            ("[screen.keys]\nquit = 3", "a key is a text"),
            ("[screen.keys]\nquit = []", "`quit` needs a key"),
            ("[screen]\nkeys = 3", "[screen.keys]"),
            ("screen = 3", "fwdlab.toml:1:10: `screen` is a table"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(telemetry), "{text}: {error}");
        }
    }
}
