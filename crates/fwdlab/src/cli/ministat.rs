//! `fwdlab ministat`: ministat(1) itself, to the byte.
//!
//! Opens files, knows the terminal and hands on bytes and exit code; arguments, numbers and text are `stats::ministat`'s.
//! Start at [`Ministat::run`]; how the original's options get past clap is in [`in_order`].

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Command};
use serde::Serialize;
use stats::ministat::{self, Difference, Model, Output, PlotStyle, Report, Set};

use super::Global;
use crate::exit_code::Code;
use crate::output;

const NAME: &str = "ministat";

const ORIGINAL_OPTIONS: &str = "\
Options of the original (they may be combined as in -ns, -w74, -C2):
  -A             Statistics only, no plot
  -n             Summary only, no plot and no comparison
  -s             A line of its own for each set's bar of mean and standard deviation
  -q             No names and no table head (model freebsd)
  -C COLUMN      Column of the data, from 1 [default: 1]
  -c CONFIDENCE  80, 90, 95, 98, 99 or 99.5 percent [default: 95]
  -d DELIMITERS  Characters that separate columns [default: space and tab]
  -w WIDTH       Columns of the plot [default: 74, or what the terminal has]

FILE holds one number a line; - or no file is standard input. The first set is the reference.";

/// Compare files of numbers as ministat(1) does, to the byte
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    override_usage = "fwdlab ministat [--model MODEL] [--json] [-Ansq] [-C COLUMN] [-c CONFIDENCE] [-d DELIMITERS] \
                      [-w WIDTH] [FILE]...",
    after_help = ORIGINAL_OPTIONS
)]
pub struct Ministat {
    /// Which generation of the program to be: Debian's package, FreeBSD's of 2015 or 2016, or the current one
    #[arg(long, default_value = "freebsd", value_parser = model())]
    model: Model,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// Here without its letter, which is the original's.
    #[arg(long, hide = true)]
    quiet: bool,
    /// Here without its letter, which the original refuses.
    #[arg(long, hide = true)]
    verbose: bool,
    /// What is the original's to read; always behind a `--`, see [`in_order`].
    #[arg(hide = true)]
    arguments: Vec<OsString>,
}

fn model() -> impl TypedValueParser<Value = Model> {
    PossibleValuesParser::new(Model::ALL.map(Model::name))
        .map(|name| Model::from_name(&name).expect("a name that was possible"))
}

/// The command line with everything that the original's own grammar reads moved behind a `--`.
///
/// Only there clap leaves arguments alone: `-ns`, `-d --json`, `-q`, a second `--`. Our own options, which are all long,
/// go before it; the original has no long ones. Lines of other commands are left as they are.
pub fn in_order(mut program: Command, line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut line: Vec<OsString> = line.into_iter().collect();
    let Some(name) = place_of_command(&program, &line) else {
        return line;
    };
    let typed = line[name].as_bytes();
    if typed.is_empty() || !NAME.as_bytes().starts_with(typed) {
        return line;
    }
    program.build();
    let known = program.find_subcommand(NAME).unwrap_or(&program);
    let mut rest = line.split_off(name + 1).into_iter();
    let mut original = vec![OsString::from("--")];
    while let Some(argument) = rest.next() {
        let value_follows = match long(known, &argument) {
            Some(value_follows) => {
                line.push(argument);
                if value_follows {
                    line.extend(rest.next());
                }
                continue;
            }
            None => ministat::awaits_value(argument.as_bytes()),
        };
        let ends_options = argument == "--";
        original.push(argument);
        if ends_options {
            original.extend(rest.by_ref());
        } else if value_follows {
            original.extend(rest.next());
        }
    }
    line.extend(original);
    line
}

/// Where on the line the command's name stands: the first argument that is no option, nor the value of one.
fn place_of_command(program: &Command, line: &[OsString]) -> Option<usize> {
    let mut place = 1;
    while line.get(place)?.as_bytes().starts_with(b"-") {
        let value_follows = long(program, &line[place]).unwrap_or(false);
        place += if value_follows { 2 } else { 1 };
    }
    Some(place)
}

/// Whether a value follows this long option of ours, as in `--model debian`; `None` if it is none.
fn long(command: &Command, argument: &OsStr) -> Option<bool> {
    let text = argument.to_str()?.strip_prefix("--")?;
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let option = command
        .get_arguments()
        .find(|known| known.get_long() == Some(name))?;
    Some(option.get_action().takes_values() && value.is_none())
}

impl Ministat {
    /// Runs it.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let words: Vec<&[u8]> = self.arguments.iter().map(|a| a.as_bytes()).collect();
        let report =
            ministat::Arguments::parse(&words, self.model, width()).and_then(|mut arguments| {
                if global.json {
                    arguments.options.plot = PlotStyle::None;
                }
                ministat::report(&arguments, open)
            });
        let output = match report {
            Ok(report) if global.json => {
                output::json(&Document::new(&report))?;
                return Ok(Code::Done);
            }
            Ok(report) => report.into(),
            Err(refusal) => refusal,
        };
        let Output {
            stdout,
            stderr,
            exit_code,
        } = output;
        output::bytes(&stdout, &stderr)?;
        Ok(match exit_code {
            0 => Code::Done,
            1 => Code::Internal,
            _ => Code::Usage,
        })
    }
}

fn open(name: &[u8]) -> io::Result<Box<dyn Read>> {
    if name == b"-" {
        return Ok(Box::new(io::stdin()));
    }
    Ok(Box::new(File::open(OsStr::from_bytes(name))?))
}

/// The plot's width without `-w`.
fn width() -> usize {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return ministat::DEFAULT_WIDTH;
    }
    let variable = std::env::var_os("COLUMNS").unwrap_or_default();
    let columns = rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| size.ws_col);
    ministat::terminal_width(&variable.into_vec(), columns)
}

/// What `--json` prints: the numbers as they were computed, in the unit of the data. One that is not finite is absent.
#[derive(Serialize)]
struct Document {
    model: &'static str,
    confidence_percent: f64,
    sets: Vec<SetDocument>,
}

#[derive(Serialize)]
struct SetDocument {
    symbol: char,
    name: String,
    n: usize,
    #[serde(flatten)]
    numbers: Numbers,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<DifferenceDocument>,
}

#[derive(Serialize)]
struct DifferenceDocument {
    proven: bool,
    #[serde(flatten)]
    numbers: Numbers,
}

/// Names and numbers.
struct Numbers(Vec<(&'static str, f64)>);

impl Serialize for Numbers {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            self.0
                .iter()
                .filter(|(_, number)| number.is_finite())
                .copied(),
        )
    }
}

impl Document {
    fn new(report: &Report) -> Document {
        Document {
            model: report.model.name(),
            confidence_percent: report.level.percent(),
            sets: report.sets.iter().map(SetDocument::new).collect(),
        }
    }
}

impl SetDocument {
    fn new(set: &Set) -> SetDocument {
        SetDocument {
            symbol: set.symbol,
            name: String::from_utf8_lossy(&set.label).into_owned(),
            n: set.n,
            numbers: Numbers(vec![
                ("min", set.min),
                ("max", set.max),
                ("median", set.median),
                ("mean", set.mean),
                ("stdev", set.stdev),
            ]),
            difference: set.difference.as_ref().map(DifferenceDocument::new),
        }
    }
}

impl DifferenceDocument {
    fn new(d: &Difference) -> DifferenceDocument {
        DifferenceDocument {
            proven: d.proven,
            numbers: Numbers(vec![
                ("difference", d.difference),
                ("half_width", d.half_width),
                ("difference_percent", d.difference_percent),
                ("half_width_percent", d.half_width_percent),
                ("pooled_stdev", d.pooled_stdev),
            ]),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[track_caller]
    fn check(line: &str, expect: &str) {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let program = crate::cli::Arguments::command();
        assert_eq!(in_order(program, words(line)), words(expect));
    }

    #[test]
    fn options_of_ours_come_first() {
        check("fwdlab ministat -q", "fwdlab ministat -- -q");
        check(
            "fwdlab ministat --json a b",
            "fwdlab ministat --json -- a b",
        );
        check(
            "fwdlab --json ministat a b",
            "fwdlab --json ministat -- a b",
        );
        check(
            "fwdlab -q --runs quick minis a --model 2015 -ns -w 40 --help",
            "fwdlab -q --runs quick minis --model 2015 --help -- a -ns -w 40",
        );
        check(
            "fwdlab ministat --model=2015 -",
            "fwdlab ministat --model=2015 -- -",
        );
    }

    #[test]
    fn what_is_the_originals_stays_in_order() {
        check(
            "fwdlab ministat -d --json a",
            "fwdlab ministat -- -d --json a",
        );
        check(
            "fwdlab ministat -nC --json a",
            "fwdlab ministat -- -nC --json a",
        );
        check(
            "fwdlab ministat -w7 --json a",
            "fwdlab ministat --json -- -w7 a",
        );
        check(
            "fwdlab ministat a -- --json",
            "fwdlab ministat -- a -- --json",
        );
        check("fwdlab ministat --what -h", "fwdlab ministat -- --what -h");
    }

    #[test]
    fn other_commands_are_left_alone() {
        for line in [
            "fwdlab",
            "fwdlab --json",
            "fwdlab runs show -q ministat",
            "fwdlab --runs ministat quick -v",
        ] {
            check(line, line);
        }
    }
}
