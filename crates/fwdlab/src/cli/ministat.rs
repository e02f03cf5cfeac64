//! `fwdlab ministat`: ministat(1), with identical output to the byte.
//!
//! Opens files, checks the terminal, and passes on output and exit code; `fwdlab_stats::ministat`
//! handles arguments, numbers and text. Start with [`Ministat::run`]; [`foreign`](super::foreign)
//! passes the original's options through clap.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use fwdlab_stats::ministat::{self, Difference, Model, Output, PlotStyle, Report, Set};
use serde::Serialize;

use super::Global;
use super::foreign::Original;
use crate::exit_code::Code;
use crate::output;

const ORIGINAL_OPTIONS: &str = "\
Options of the original (they may be combined as in -ns, -w74, -C2):
  -A             Statistics only, no plot
  -n             Summary only, no plot and no comparison
  -s             A separate line for each set's bar of mean and standard deviation
  -q             No names and no table head (model freebsd)
  -C COLUMN      Column of the data, from 1 [default: 1]
  -c CONFIDENCE  80, 90, 95, 98, 99 or 99.5 percent [default: 95]
  -d DELIMITERS  Characters that separate columns [default: space and tab]
  -w WIDTH       Columns of the plot [default: 74, or the width of the terminal]

FILE holds one number per line; - or no file is standard input. The first set is the reference.";

/// Compare files of numbers as ministat(1) does, to the byte
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    override_usage = "fwdlab ministat [--model MODEL] [--json] [-Ansq] [-C COLUMN] [-c CONFIDENCE] [-d DELIMITERS] \
                      [-w WIDTH] [FILE]...",
    after_help = ORIGINAL_OPTIONS
)]
pub struct Ministat {
    /// Generation of ministat to reproduce: Debian's package, FreeBSD's of 2015 or 2016, or the
    /// current one
    #[arg(long, default_value = "freebsd", value_parser = model())]
    model: Model,
    #[command(flatten)]
    original: Original,
}

fn model() -> impl TypedValueParser<Value = Model> {
    PossibleValuesParser::new(Model::ALL.map(Model::name))
        .map(|name| Model::from_name(&name).expect("a name that was possible"))
}

impl Ministat {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let words: Vec<&[u8]> = self
            .original
            .arguments
            .iter()
            .map(|a| a.as_bytes())
            .collect();
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
            Err(refusal) => {
                if global.json {
                    let code = match refusal.exit_code {
                        1 => Code::Internal,
                        _ => Code::Usage,
                    };
                    let reason = String::from_utf8_lossy(&refusal.stderr);
                    output::json_error(code, reason.trim());
                    output::bytes(&[], &refusal.stderr);
                    return Ok(code);
                }
                refusal
            }
        };
        let Output {
            stdout,
            stderr,
            exit_code,
        } = output;
        output::bytes(&stdout, &stderr);
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

/// Returns the width of the plot without `-w`.
fn width() -> usize {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return ministat::DEFAULT_WIDTH;
    }
    let variable = std::env::var_os("COLUMNS").unwrap_or_default();
    let columns = rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| size.ws_col);
    ministat::terminal_width(&variable.into_vec(), columns)
}

/// The document of `--json`: the numbers as computed, in the unit of the data. Omits numbers that
/// are not finite.
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
