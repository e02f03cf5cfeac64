//! Defaults of options from files: `fwdlab.toml` in the current directory, and the user's own file,
//! which is read first.
//!
//! A key is the long name of an option, in a table named after its command; options of all commands
//! are in the table `all`. The command line and the environment override the files. The files can
//! set only what could be typed, so they are checked against the same declarations. The exception
//! is the table `screen`, which [`crate::tui::settings`] reads. Start with [`with_file_defaults`].

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::{Arg, ArgAction, Command};
use fwdlab_model::file::{Origin, Step, did_you_mean};
use toml::{Table, Value};

use super::help;
use crate::tui::settings::{self, Settings};

/// The name of both files.
const FILE: &str = "fwdlab.toml";
/// The variable that names a file to read instead of both; empty: read none.
const NAMED: &str = "FWDLAB_CONFIG";

/// Returns the command line with the defaults of the files, and the settings of the screen.
///
/// # Errors
/// If a file cannot be read or sets something invalid; the error includes line and column.
pub fn with_file_defaults(mut program: Command) -> anyhow::Result<(Command, Settings)> {
    let mut screen = Settings::default();
    for path in files() {
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound && env::var_os(NAMED).is_none() => {
                continue;
            }
            Err(error) => {
                return Err(error).with_context(|| {
                    format!("cannot read defaults of options from {}", path.display())
                });
            }
        };
        program = apply(program, &mut screen, &path.display().to_string(), &text)?;
    }
    Ok((program, screen))
}

/// The table of options of all commands. Not `runs`, which is the name of a command.
const ALL: &str = "all";

/// Returns the files to read; later ones override earlier ones.
fn files() -> Vec<PathBuf> {
    if let Some(named) = env::var_os(NAMED) {
        let named = PathBuf::from(named);
        return Vec::from_iter((!named.as_os_str().is_empty()).then_some(named));
    }
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".config"));
    let config = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.filter(|dir| dir.is_absolute()).or_else(home);
    let of_user = config.map(|dir| dir.join("fwdlab").join(FILE));
    of_user.into_iter().chain([FILE.into()]).collect()
}

fn apply(
    program: Command,
    screen: &mut Settings,
    file: &str,
    text: &str,
) -> anyhow::Result<Command> {
    let origin = Origin {
        file: Arc::from(file),
        text: Arc::from(text),
    };
    let mut table: Table = toml::from_str(text).map_err(|error| origin.reading(&error))?;
    if let Some(of_screen) = table.remove(settings::TABLE) {
        screen.read(&of_screen, &origin)?;
    }
    let all = table.remove(ALL);
    for (key, value) in &table {
        if !value.is_table() {
            let reason = format!(
                "`{key}` must be inside a table: options of a command in one of its name, those of all commands in [{ALL}]"
            );
            return Err(origin.error(&[Step::Key(key)], reason).into());
        }
    }
    let mut program = set(program, &table, &mut Vec::new(), &origin)?;
    program = set(
        program,
        &under_other_names(&table),
        &mut Vec::new(),
        &origin,
    )?;
    match all {
        None => {}
        Some(Value::Table(all)) => {
            program = set(program, &all, &mut vec![ALL.to_owned()], &origin)?;
        }
        Some(_) => {
            let reason = format!("`{ALL}` is a table: [{ALL}]");
            return Err(origin.error(&[Step::Key(ALL)], reason).into());
        }
    }
    Ok(program)
}

/// Returns the same defaults under the other names of their commands: `[traffic.send]` for
/// `[send]`, and vice versa.
fn under_other_names(table: &Table) -> Table {
    let mut others = Table::new();
    for (above, name) in help::moved() {
        let below = table.get(above).and_then(|above| above.get(name));
        match (table.get(name), below) {
            (Some(own), None) => {
                let above = others.entry(above).or_insert(Value::Table(Table::new()));
                let above = above.as_table_mut().expect("made as a table");
                above.insert(name.to_owned(), own.clone());
            }
            (None, Some(own)) => {
                others.insert(name.to_owned(), own.clone());
            }
            _ => {}
        }
    }
    others
}

/// Sets the defaults of a command and of its subcommands.
fn set(
    mut command: Command,
    table: &Table,
    way: &mut Vec<String>,
    origin: &Origin,
) -> Result<Command, fwdlab_model::file::FileError> {
    for (key, value) in table {
        way.push(key.clone());
        let steps: Vec<Step<'_>> = way.iter().map(|key| Step::Key(key)).collect();
        let wrong = |reason: String| origin.error(&steps, reason);
        if let Value::Table(below) = value {
            let names: Vec<String> = command
                .get_subcommands()
                .map(|one| one.get_name().to_owned())
                .collect();
            if !names.contains(key) {
                let known = did_you_mean(key, &names);
                return Err(wrong(format!("there is no command `{key}`; {known}")));
            }
            let mut read = Ok(());
            command = command.mut_subcommand(key, |below_it| {
                set(below_it, below, way, origin).unwrap_or_else(|error| {
                    read = Err(error);
                    Command::default()
                })
            });
            read?;
        } else {
            let options: Vec<(String, &Arg)> = command
                .get_arguments()
                .filter_map(|arg| Some((arg.get_long()?.to_owned(), arg)))
                .collect();
            let long = key.replace('_', "-");
            // former names stay valid, as on the command line
            let is_meant = |(name, arg): &&(String, &Arg)| {
                let former = arg.get_all_aliases().unwrap_or_default();
                *name == long || former.contains(&long.as_str())
            };
            let Some((_, arg)) = options.iter().find(is_meant) else {
                let names: Vec<&String> = options.iter().map(|(name, _)| name).collect();
                let of = match &way[..way.len() - 1] {
                    [all] if all == ALL => "an option of all commands".to_owned(),
                    command => format!("an option of fwdlab {}", command.join(" ")),
                };
                let known = did_you_mean(&long, &names);
                return Err(wrong(format!("`{key}` is not {of}; {known}")));
            };
            let values = values(value).map_err(&wrong)?;
            check_accepted(arg, &values).map_err(&wrong)?;
            let id = arg.get_id().clone();
            command = command.mut_arg(id, |arg| arg.default_values(values));
        }
        way.pop();
    }
    Ok(command)
}

/// Returns a value as the words that a user would type.
fn values(value: &Value) -> Result<Vec<String>, String> {
    let one = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(is) => Ok(is.to_string()),
        Value::Datetime(time) => Ok(time.to_string()),
        Value::Array(_) | Value::Table(_) => {
            Err("an option takes a text, a number, true or false, or a list of them".to_owned())
        }
    };
    match value {
        Value::Array(all) => all.iter().map(one).collect(),
        value => Ok(vec![one(value)?]),
    }
}

/// Checks that the command line accepts these values for this option.
fn check_accepted(arg: &Arg, values: &[String]) -> Result<(), String> {
    let long = arg.get_long().unwrap_or_default();
    let mut probe = Arg::new("value")
        .long(long.to_owned())
        .value_parser(arg.get_value_parser().clone());
    probe = match arg.get_action() {
        // a switch is on or off
        ArgAction::SetTrue | ArgAction::SetFalse => probe
            .action(ArgAction::Set)
            .value_parser(clap::value_parser!(bool)),
        action @ (ArgAction::Set | ArgAction::Append) => probe.action(action.clone()),
        _ => return Err(format!("--{long} has no default")),
    };
    if let Some(delimiter) = arg.get_value_delimiter() {
        probe = probe.value_delimiter(delimiter);
    }
    if values.len() > 1
        && !matches!(arg.get_action(), ArgAction::Append)
        && arg.get_value_delimiter().is_none()
    {
        return Err(format!("--{long} takes one value"));
    }
    let typed = values.iter().map(|value| format!("--{long}={value}"));
    let line = std::iter::once("fwdlab".to_owned()).chain(typed);
    let command = Command::new("fwdlab").args_override_self(true).arg(probe);
    match command.try_get_matches_from(line) {
        Ok(_) => Ok(()),
        Err(error) => {
            let reported = error.to_string();
            let reported = reported.trim_start_matches("error: ");
            let reported = reported.split("\n\nFor more information").next();
            let reported = reported.unwrap_or_default().split("\n\nUsage:").next();
            Err(reported.unwrap_or_default().trim().to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::super::Arguments;
    use super::*;

    fn read(text: &str, line: &[&str]) -> String {
        let program = apply(
            help::declared(),
            &mut Settings::default(),
            "fwdlab.toml",
            text,
        )
        .unwrap();
        let matches = help::with_options(program).try_get_matches_from(line);
        let matches = matches.unwrap();
        format!("{:?}", Arguments::from_arg_matches(&matches).unwrap())
    }

    #[test]
    fn a_file_sets_the_same_options_as_the_command_line() {
        let text = "[all]\njson = true\nruns = '/r'\n[quick]\nsize = [84, 512]\niterations = 7\n\
                    [runs.ls]\nkind = 'quick'\n";
        let typed = |line: &[&str]| read("", line);
        assert_eq!(
            read(text, &["fwdlab", "quick"]),
            typed(&[
                "fwdlab",
                "quick",
                "--json",
                "--runs=/r",
                "--size=84,512",
                "-n7"
            ])
        );
        assert_eq!(
            read(text, &["fwdlab", "runs", "ls"]),
            typed(&[
                "fwdlab",
                "runs",
                "ls",
                "--json",
                "--runs=/r",
                "--kind=quick"
            ])
        );
        // the command line and a later file override it
        let both = read(text, &["fwdlab", "quick", "-n", "9", "--size", "64"]);
        let is = typed(&["fwdlab", "quick", "--json", "--runs=/r", "-n9", "--size=64"]);
        assert_eq!(both, is);
    }

    #[test]
    fn defaults_are_those_of_both_names_of_a_command() {
        for text in [
            "[rate]\nlink = ['40G']\n[all]\njson = true",
            "[traffic.rate]\nlink = ['40G']\n[all]\njson = true",
        ] {
            for line in [
                &["fwdlab", "rate", "1Mpps"][..],
                &["fwdlab", "traffic", "rate", "1Mpps"],
            ] {
                let typed = [line, &["--link=40G", "--json"]].concat();
                assert_eq!(read(text, line), read("", &typed), "{text}");
            }
        }
    }

    /// Options keep their former names as aliases, in the file and on the command line.
    #[test]
    fn former_names_of_options_are_read() {
        for (command, option, former) in [
            ("trial", "--latency", "--delays"),
            ("run x", "--retry=y", "--failed-of=y"),
            (
                "traffic send --port=p",
                "--on-stall=skip",
                "--hold-ups=forgive",
            ),
            (
                "compare a b --fail-if=ndr<-1%",
                "--accept-inconclusive",
                "--accept-blind",
            ),
            ("import netbenches d", "--replace", "--again"),
        ] {
            let line = |option| -> Vec<&str> {
                let words = ["fwdlab"].into_iter().chain(command.split(' '));
                words.chain([option]).collect()
            };
            let typed = read("", &line(option));
            assert_eq!(read("", &line(former)), typed, "{former}");
        }
        let typed = read("", &["fwdlab", "trial", "--latency"]);
        let text = "[trial]\ndelays = true\n";
        assert_eq!(read(text, &["fwdlab", "trial"]), typed);
    }

    #[test]
    fn errors_have_a_place_and_a_suggestion() {
        for (text, reported) in [
            (
                "[qick]\nsize = 64",
                "fwdlab.toml:1:2: there is no command `qick`; did you mean `quick`?",
            ),
            (
                "\n[quick]\niteratons = 3",
                "fwdlab.toml:3:13: `iteratons` is not an option of fwdlab quick; did you mean `iterations`?",
            ),
            (
                "[all]\njsn = true",
                "fwdlab.toml:2:7: `jsn` is not an option of all commands; did you mean `json`?",
            ),
            (
                "[quick]\nsize = 'big'",
                "fwdlab.toml:2:8: invalid value 'big' for '--size",
            ),
            (
                "[all]\njson = 3",
                "fwdlab.toml:2:8: invalid value '3' for '--json",
            ),
            (
                "[quick]\niterations = [1, 2]",
                "--iterations takes one value",
            ),
            (
                "[all]\nhelp = true",
                "`help` is not an option of all commands",
            ),
            (
                "json = true",
                "fwdlab.toml:1:8: `json` must be inside a table",
            ),
            ("a = ", "fwdlab.toml:1:"),
        ] {
            let error = apply(
                help::declared(),
                &mut Settings::default(),
                "fwdlab.toml",
                text,
            )
            .unwrap_err();
            let error = error.to_string();
            assert!(error.contains(reported), "{text}: {error}");
        }
    }
}
