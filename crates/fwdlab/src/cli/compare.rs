//! `fwdlab compare`: compares runs, configurations or files of numbers. Start with
//! [`Compare::run`].

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use clap::{Args, ValueEnum};
use fwdlab_model::comparison::Verdict;
use fwdlab_model::series::Series;
use fwdlab_report::compare::{
    self, ACCEPT_INCONCLUSIVE, Filter, Judged, Limit, Options, Outcome, Source, TestChoice,
};
use fwdlab_stats::Confidence;
use fwdlab_stats::ministat::{Model, Options as ReadOptions, read_values};
use serde::Serialize;

use super::Global;
use crate::exit_code::{Code, Usage};
use crate::output::{self, Level, Verbosity};

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// Runs (id, beginning of an id, @1 for the latest, directory, file.json with the document of a
    /// run) or files of numbers (- is standard input); the first is the baseline. For a single run,
    /// its configurations are compared
    #[arg(required = true, value_name = "RUN|FILE")]
    sources: Vec<OsString>,
    /// Labels whose values become columns: configuration, size, flows, ip, profile, procedure,
    /// kernel, dut, date, image, run ...; all other labels separate rows [default: source; for a
    /// single run, configuration]
    #[arg(long = "col", visible_alias = "by", value_name = "KEY,...")]
    by: Option<String>,
    /// Labels that separate rows; series that differ only in other labels are joined [default:
    /// traffic labels, and labels that vary within a column]
    #[arg(long, value_name = "KEY,...")]
    row: Option<String>,
    /// Compare only series with this label; - before it excludes them: size:64,
    /// -configuration:plain,nat; may be repeated
    #[arg(long, value_name = "KEY:VALUE,...", allow_hyphen_values = true)]
    filter: Vec<Filter>,
    /// Column that the others are compared with, or the beginning of its name [default: the first]
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// Metric to compare: forwarding-rate, ndr, throughput, receive-rate ...; files of numbers are
    /// taken as this metric [default: the metric of --fail-if, else forwarding-rate, else the first
    /// that all runs have]
    #[arg(long)]
    metric: Option<String>,
    /// Test: auto is Welch's t, or a rank test if outliers or two modes contradict a normal
    /// distribution
    #[arg(long, value_enum, default_value_t)]
    test: Test,
    /// Take the n-th values of two columns as a pair, for alternating measurements (A B B A ...)
    #[arg(long)]
    paired: bool,
    /// Confidence of intervals and verdicts, in percent
    #[arg(long, default_value = "95", value_name = "PERCENT", value_parser = confidence)]
    confidence: Confidence,
    /// Test whether a difference is proven to be smaller than this: 2%
    #[arg(long, value_name = "PERCENT", value_parser = margin)]
    equivalence: Option<f64>,
    /// Exit with 6 if a proven difference exceeds this limit: 'forwarding-rate < -2%'; with 5 if a
    /// test case could not have shown a difference of that size; may be repeated
    #[arg(long, value_name = "LIMIT", conflicts_with = "changes")]
    fail_if: Vec<Limit>,
    /// With --fail-if: accept test cases that could not be judged (missing in a run, too few
    /// values, too noisy), as long as at least one could
    #[arg(long, alias = "accept-blind", requires = "fail_if")]
    accept_inconclusive: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Generation of ministat for --format ministat
    #[arg(long, default_value = "freebsd", value_parser = ["debian", "2015", "2016", "freebsd"])]
    model: String,
    /// Column of numbers in files, from 1
    #[arg(short = 'C', long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    column: u32,
    /// Find change points in a series of runs, in the order given, or in the values of one file
    #[arg(long)]
    changes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Test {
    #[default]
    Auto,
    Student,
    Welch,
    Rank,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Format {
    #[default]
    Text,
    Markdown,
    Csv,
    Json,
    Ministat,
    Html,
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    outcome: &'a Outcome,
    fail_if: &'a [Judged],
}

impl Compare {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let format = match (global.json, self.format) {
            (false, format) => format,
            (true, Format::Text | Format::Json) => Format::Json,
            (true, _) => {
                return Err(Usage("--json and --format select different formats".into()).into());
            }
        };
        let mut sources = self.sources(global)?;
        let metric = self.metric(&sources);
        for series in sources.iter_mut().flat_map(|source| &mut source.series) {
            if series.metric.is_empty() {
                series.metric.clone_from(&metric);
            }
        }
        if let Some(limit) = self.fail_if.iter().find(|l| l.metric != metric) {
            let limited = &limit.metric;
            return Err(Usage(format!(
                "--fail-if is about {limited}, but what is compared is {metric}: add --metric {limited}"
            ))
            .into());
        }
        let options = self.options(metric);
        if self.changes {
            return changes(&sources, &options, format);
        }
        let outcome = compare::compare(&sources, &options).map_err(usage)?;
        let judged: Vec<Judged> = self
            .fail_if
            .iter()
            .map(|limit| limit.judge(&outcome, self.accept_inconclusive))
            .collect();
        let code = if judged.iter().any(|judged| !judged.failed.is_empty()) {
            Code::LimitBroken
        } else if judged.iter().any(|judged| !judged.passed) {
            Code::NotValid
        } else {
            Code::Done
        };
        let verbose = global.verbosity() == Verbosity::Verbose;
        match format {
            Format::Text => {
                let mut all = outcome.rows.iter().flat_map(|row| &row.comparisons);
                let is_open = all.all(|compared| compared.verdict == Verdict::CannotTell);
                let level = match (&judged[..], code) {
                    (_, Code::LimitBroken) => Level::Fail,
                    (_, Code::NotValid) => Level::Warn,
                    ([], _) if is_open => Level::Warn,
                    ([], _) => Level::Plain,
                    _ => Level::Ok,
                };
                output::answer(level, compare::text(&outcome, &judged, verbose));
            }
            Format::Markdown => output::result(&compare::markdown(&outcome, &judged)),
            Format::Csv => output::result(&compare::csv(&outcome)),
            Format::Html => output::result(&fwdlab_report::html::comparison(&outcome, &judged)),
            Format::Json => output::json(&Document {
                outcome: &outcome,
                fail_if: &judged,
            })?,
            Format::Ministat => {
                let model = Model::from_name(&self.model).unwrap_or_default();
                let bytes = compare::ministat(&outcome, model).map_err(usage)?;
                output::result(&String::from_utf8_lossy(&bytes));
            }
        }
        if matches!(format, Format::Csv | Format::Ministat) {
            // These formats have no place for sentences.
            judged
                .iter()
                .flat_map(|judged| judged.lines(ACCEPT_INCONCLUSIVE))
                .for_each(|line| output::note(&format!("fail-if   {line}")));
        }
        Ok(code)
    }

    fn metric(&self, sources: &[Source]) -> String {
        let limited = self.fail_if.first().map(|limit| &limit.metric);
        if let Some(metric) = self.metric.as_ref().or(limited) {
            return metric.clone();
        }
        compare::common_metric(sources)
    }

    fn options(&self, metric: String) -> Options {
        Options {
            metric,
            by: self.by.clone(),
            rows: self.row.clone(),
            filters: self.filter.clone(),
            baseline: self.baseline.clone(),
            test: match self.test {
                Test::Auto => TestChoice::Auto,
                Test::Student => TestChoice::Student,
                Test::Welch => TestChoice::Welch,
                Test::Rank => TestChoice::Rank,
            },
            paired: self.paired,
            allowance: fwdlab_measure::paired::ALLOWANCE,
            confidence: self.confidence,
            equivalence_percent: self.equivalence,
        }
    }

    fn sources(&self, global: &Global) -> anyhow::Result<Vec<Source>> {
        let mut sources: Vec<Source> = Vec::new();
        for argument in &self.sources {
            let (name, series) = self.source(argument, global)?;
            let same = |source: &Source, name: &str| source.name == name;
            // The same input twice becomes two columns.
            let unique = (1..).map(|n| match n {
                1 => name.clone(),
                n => format!("{name} ({n})"),
            });
            let mut unique = unique.skip_while(|name| sources.iter().any(|s| same(s, name)));
            let name = unique.next().unwrap_or_default();
            sources.push(Source { name, series });
        }
        Ok(sources)
    }

    /// Reads a run or a file of numbers. Returns its name and its series.
    fn source(&self, argument: &OsStr, global: &Global) -> anyhow::Result<(String, Vec<Series>)> {
        let name = argument.to_string_lossy().into_owned();
        let path = Path::new(argument);
        if argument == "-" {
            let numbers = self.numbers("standard input", std::io::stdin())?;
            return Ok((name, vec![numbers]));
        }
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
            && path.is_file()
        {
            return Ok((name, fwdlab_store::load_document(path)?.series()));
        }
        let run = match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() && path.join("run.json").exists() => path.to_owned(),
            // the directory of an imported result set
            Ok(metadata) if metadata.is_dir() => fwdlab_store::resolve(
                &global.runs_roots()?,
                &name,
            )
            .map_err(|error| {
                Usage(format!(
                    "{name} is neither a run nor the directory of an imported result set: {error}"
                ))
            })?,
            Ok(_) => {
                let file = File::open(path)
                    .map_err(|error| Usage(format!("cannot read {name}: {error}")))?;
                return Ok((name.clone(), vec![self.numbers(&name, file)?]));
            }
            Err(missing) => {
                fwdlab_store::resolve(&global.runs_roots()?, &name).map_err(|error| {
                    Usage(format!(
                        "{name} is neither a file ({missing}) nor a run: {error}"
                    ))
                })?
            }
        };
        let run = fwdlab_store::load(&run)?;
        for problem in &run.problems {
            output::note(&format!("warning   {}: {problem}", run.info.id));
        }
        Ok((run.info.id.clone(), run.series()))
    }

    fn numbers(&self, name: &str, content: impl Read) -> anyhow::Result<Series> {
        let options = ReadOptions {
            column: self.column as usize,
            ..ReadOptions::default()
        };
        let values = read_values(content, &options).map_err(|error| {
            Usage(format!(
                "{name}: {error}. A file of numbers has one number per line (--column N selects another column); # begins a \
                 comment"
            ))
        })?;
        let unit = if name.ends_with(".pps") { "pps" } else { "" };
        Ok(Series {
            unit: unit.into(),
            values,
            ..Series::default()
        })
    }
}

fn changes(sources: &[Source], options: &Options, format: Format) -> anyhow::Result<Code> {
    let found = compare::changes(sources, options).map_err(usage)?;
    match format {
        Format::Text => output::result(&compare::changes_text(&found)),
        Format::Json => output::json(&found)?,
        _ => return Err(Usage("--changes supports only text and json".into()).into()),
    }
    Ok(Code::Done)
}

fn usage(error: compare::CompareError) -> anyhow::Error {
    Usage(error.to_string()).into()
}

/// Parses `95` or `99.5%`.
fn confidence(text: &str) -> Result<Confidence, String> {
    number(text)
        .filter(|percent| *percent >= 50.0)
        .and_then(|percent| Confidence::new(percent / 100.0))
        .ok_or_else(|| "the confidence must be at least 50 and below 100, in percent: 95".into())
}

/// Parses `2%` or `0.5`.
fn margin(text: &str) -> Result<f64, String> {
    number(text)
        .filter(|percent| *percent > 0.0 && percent.is_finite())
        .ok_or_else(|| "the margin must be above 0, in percent: 2%".into())
}

fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    text.strip_suffix('%').unwrap_or(text).trim().parse().ok()
}
