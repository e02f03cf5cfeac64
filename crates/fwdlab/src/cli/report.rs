//! `fwdlab report`: writes one or several runs in any format.
//!
//! The report crate defines the formats; this module reads runs and writes files. Start with
//! [`Report::run`].

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
#[cfg(feature = "png")]
use fwdlab_report::chart::png;
use fwdlab_report::chart::{Chart, gnuplot, svg};
use fwdlab_report::compare::{self, Options, Source};
use fwdlab_report::run::{CaseProfile, Run};
use fwdlab_report::{
    benchmark, charts, csv, github, html, junit, loadtest, markdown, ministat, prometheus, text,
};
use fwdlab_stats::ministat::Model;
use fwdlab_store::{Roots, StoredRun};

use super::Global;
use super::run::{Document, shown};
use super::runs::{Facts, profiles};
use crate::exit_code::{Code, Usage};
use crate::output;

/// Report runs: a page, Markdown, charts, files for other programs
///
/// Several runs appear side by side on one page, with their ramps in one graph and their
/// differences; a run is named by a tag that only it has (fwdlab runs tag). Without -o the report
/// goes to standard output; formats of several files (gnuplot, svg, png), and several formats at
/// once, need a directory.
#[derive(Debug, Args)]
pub struct Report {
    /// Runs: ids or parts of them, tags, or @1 for the latest
    // not `runs`, which is the id of the global option --runs
    #[arg(required = true, value_name = "RUN")]
    names: Vec<String>,
    /// Formats [default: html]
    #[arg(long, value_enum, value_delimiter = ',')]
    format: Vec<Format>,
    /// Output: a directory (existing, or ending with /), a file, or - for standard output
    #[arg(short, long, value_name = "DIR|FILE|-")]
    output: Option<PathBuf>,
    /// Facts of the host that a page includes
    #[arg(long, value_enum, default_value_t)]
    facts: Facts,
    /// Generation of ministat for --format ministat
    #[arg(long, default_value = "freebsd", value_parser = ["debian", "2015", "2016", "freebsd"])]
    model: String,
}

/// The formats of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One page that needs nothing else
    Html,
    /// The terminal output, with charts in characters
    Text,
    /// For a repository; in a directory, with its charts next to it
    Markdown,
    /// The blocks of ministat(1); in a directory with the files of values
    Ministat,
    /// gnuplot.data and a script per chart
    Gnuplot,
    /// Plain numbers in base units
    Csv,
    /// Everything, with every trial
    Json,
    /// Tests for CI: thresholds and verdicts
    Junit,
    /// A picture per chart
    Svg,
    /// A picture per chart, in pixels
    Png,
    /// Load tests of TRex: one file per ramp
    Loadtest,
    /// The summary of a step in CI
    Github,
    /// Metrics
    Prometheus,
    /// Bencher's metric format
    Bencher,
    /// For github-action-benchmark
    Benchmark,
}

/// A loaded run.
pub struct Loaded {
    /// Its name in a comparison.
    name: String,
    pub run: StoredRun,
    profiles: Vec<CaseProfile>,
}

/// List up to this number of written files by name; print the number of files if there are more.
const LISTED: usize = 12;

/// A file of a report: its name and contents.
type File = (String, Vec<u8>);

impl Loaded {
    /// Loads a run. Prints warnings about damaged files.
    pub fn open(roots: &Roots, name: &str) -> anyhow::Result<Loaded> {
        let directory = fwdlab_store::resolve(roots, name)?;
        let mut run = fwdlab_store::load(&directory)?;
        for problem in &run.problems {
            output::note(&format!("warning   {}: {problem}", run.info.id));
        }
        // if the process died, show the state as found now
        run.info.state = run.state;
        run.info.note = fwdlab_store::labels(&directory)?.note;
        let profiles = profiles(&run);
        Ok(Loaded {
            name: run.info.id.clone(),
            run,
            profiles,
        })
    }

    /// Returns the run as formats need it; `None` if it has no result.
    fn as_run(&self) -> Option<Run<'_>> {
        let run = shown(&self.run, &self.profiles)?;
        Some(Run {
            name: &self.name,
            ..run
        })
    }
}

impl Report {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let formats = match (&self.format[..], global.json) {
            ([], true) => vec![Format::Json],
            ([], false) => vec![Format::Html],
            (formats, true) if self.output.is_none() && *formats != [Format::Json] => {
                return Err(Usage("--json and --format select different formats".into()).into());
            }
            (formats, _) => formats.to_vec(),
        };
        let roots = global.runs_roots()?;
        let loaded = self.names.iter().map(|name| Loaded::open(&roots, name));
        let mut loaded = loaded.collect::<anyhow::Result<Vec<_>>>()?;
        name(&mut loaded)?;
        let made = FormatOptions {
            facts: self.facts,
            model: Model::from_name(&self.model).unwrap_or_default(),
        };
        let target = Target::from_path(self.output.as_deref());
        let is_directory = matches!(target, Target::Directory(_));
        let mut written: Vec<PathBuf> = Vec::new();
        let mut files = Vec::new();
        for format in &formats {
            let own = made.files(*format, &loaded, is_directory)?;
            if own.is_empty() {
                output::note(&format!(
                    "nothing for --format {}: {}",
                    format.name(),
                    format.nothing()
                ));
            }
            // Markdown includes its charts
            files.retain(|(name, _)| own.iter().all(|(other, _)| other != name));
            files.extend(own);
        }
        match target {
            Target::Directory(dir) => {
                std::fs::create_dir_all(dir)
                    .with_context(|| format!("create the directory {}", dir.display()))?;
                for (name, bytes) in &files {
                    let path = dir.join(name);
                    std::fs::write(&path, bytes)
                        .with_context(|| format!("write {}", path.display()))?;
                    if files.len() <= LISTED {
                        output::note(&format!("written   {}", path.display()));
                    }
                    written.push(path);
                }
                if files.len() > LISTED {
                    let all = format!("written   {} files into {}", files.len(), dir.display());
                    output::note(&all);
                }
            }
            _ if files.is_empty() => {}
            Target::File(path) => {
                let [(_, bytes)] = &files[..] else {
                    return Err(several(&files));
                };
                std::fs::write(path, bytes).with_context(|| format!("write {}", path.display()))?;
                output::note(&format!("written   {}", path.display()));
                written.push(path.to_owned());
            }
            Target::Output => {
                let [(name, bytes)] = &files[..] else {
                    return Err(several(&files));
                };
                let is_for_people =
                    !matches!(formats[..], [Format::Html | Format::Png | Format::Svg]);
                if self.output.is_none() && !is_for_people && std::io::stdout().is_terminal() {
                    return Err(Usage(format!("{name} is not readable in a terminal: give -o FILE, or -o - to print it anyway")).into());
                }
                match formats[..] {
                    [Format::Png] => output::bytes(bytes, &[]),
                    _ => output::console(&String::from_utf8_lossy(bytes)),
                }
                return Ok(Code::Done);
            }
        }
        if global.json {
            output::json(&serde_json::json!({ "written": written }))?;
        }
        Ok(Code::Done)
    }
}

fn several(files: &[File]) -> anyhow::Error {
    Usage(format!(
        "this is {} files, such as {}: give a directory, -o DIR/",
        files.len(),
        files.first().map_or("", |(name, _)| name)
    ))
    .into()
}

/// The destination of the report.
enum Target<'a> {
    Output,
    File(&'a Path),
    Directory(&'a Path),
}

impl Target<'_> {
    fn from_path(path: Option<&Path>) -> Target<'_> {
        let Some(path) = path else {
            return Target::Output;
        };
        let ends = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        match path {
            path if path.as_os_str() == "-" => Target::Output,
            path if ends || path.is_dir() => Target::Directory(path),
            path => Target::File(path),
        }
    }
}

impl Format {
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns why the format may have no file.
    fn nothing(self) -> &'static str {
        match self {
            Format::Loadtest => "no run has a ramp; measure one with fwdlab ramp",
            Format::Ministat => "a figure needs three values; measure three iterations or more",
            _ => "no run has a chart",
        }
    }
}

/// Options for the formats.
pub struct FormatOptions {
    pub facts: Facts,
    pub model: Model,
}

impl FormatOptions {
    /// Returns the files of a format; without a directory, only the main file.
    pub fn files(
        &self,
        format: Format,
        loaded: &[Loaded],
        has_directory: bool,
    ) -> anyhow::Result<Vec<File>> {
        if format == Format::Json {
            return Ok(vec![("report.json".into(), json(loaded)?)]);
        }
        let runs = as_run(loaded)?;
        let one = |name: &str, text: String| vec![(name.to_owned(), text.into_bytes())];
        let charts = || -> Vec<Chart> { charts::all(&runs) };
        let pictures = || {
            charts()
                .iter()
                .map(|chart| (format!("{}.svg", chart.name), svg::draw(chart).into_bytes()))
                .collect::<Vec<File>>()
        };
        Ok(match format {
            Format::Html => one("report.html", self.page(&runs, loaded)),
            Format::Text => {
                let all = runs.iter().map(text::with_charts);
                one("report.txt", all.collect::<Vec<_>>().join("\n\n"))
            }
            Format::Markdown if has_directory => {
                let charts = charts();
                let mut files = one("report.md", markdown::repository(&runs, &charts));
                files.extend(pictures());
                files
            }
            Format::Markdown => one("report.md", markdown::repository(&runs, &[])),
            Format::Ministat if ministat::blocks(&runs).is_empty() => Vec::new(),
            Format::Ministat => {
                let mut files = one("ministat.txt", ministat::text(&runs, self.model));
                if has_directory {
                    let mut sets: Vec<File> = Vec::new();
                    for set in ministat::blocks(&runs).iter().flat_map(|block| &block.sets) {
                        if sets.iter().all(|(name, _)| *name != set.file) {
                            sets.push((set.file.clone(), set.content().into_bytes()));
                        }
                    }
                    files.extend(sets);
                }
                files
            }
            Format::Gnuplot => {
                let all = charts();
                match all.is_empty() {
                    true => Vec::new(),
                    false => gnuplot::files(&all)
                        .into_iter()
                        .map(|(name, text)| (name, text.into_bytes()))
                        .collect(),
                }
            }
            Format::Csv if runs.len() == 1 => one("report.csv", csv::summary(runs[0].summary)),
            Format::Csv => runs
                .iter()
                .map(|run| {
                    (
                        format!("{}.csv", run.info.id),
                        csv::summary(run.summary).into_bytes(),
                    )
                })
                .collect(),
            Format::Junit => one("junit.xml", junit::text(&runs)),
            Format::Svg => pictures(),
            #[cfg(not(feature = "png"))]
            Format::Png => {
                return Err(Usage(
                    "this build draws no PNG: take --format svg, or the program of `make dist`"
                        .into(),
                )
                .into());
            }
            #[cfg(feature = "png")]
            Format::Png => {
                let fonts = png::Fonts::new(super::fonts::files())?;
                let drawn = charts();
                let drawn = drawn
                    .iter()
                    .map(|chart| Ok((format!("{}.png", chart.name), png::draw(chart, &fonts)?)));
                drawn.collect::<anyhow::Result<Vec<File>>>()?
            }
            Format::Loadtest => {
                for run in runs.iter().filter(|run| loadtest::halves(run)) {
                    output::note(&format!(
                        "warning   {}: the run has only the direction with more loss; channel 1 of the file is empty",
                        run.info.id
                    ));
                }
                let all = runs.iter().flat_map(loadtest::files);
                let files = all
                    .map(|(name, test)| Ok((format!("{name}.json"), serde_json::to_vec(&test)?)));
                files.collect::<anyhow::Result<Vec<File>>>()?
            }
            Format::Github => one("summary.md", github::text(&runs)),
            Format::Prometheus => {
                let all: Vec<_> = runs.iter().map(|run| (run.info, run.summary)).collect();
                one("metrics.prom", prometheus::text(&all))
            }
            Format::Bencher => one("bencher.json", pretty(&benchmark::bencher(&runs))?),
            Format::Benchmark => {
                let figures = benchmark::github_action(&runs).map_err(Usage)?;
                one("benchmark.json", pretty(&figures)?)
            }
            Format::Json => Vec::new(),
        })
    }

    fn page(&self, runs: &[Run<'_>], loaded: &[Loaded]) -> String {
        let shown = self.facts.shown();
        match runs {
            [run] => html::page(run, shown),
            runs => html::pages(runs, compared(loaded).as_ref(), shown),
        }
    }
}

fn pretty(document: &serde_json::Value) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(document)? + "\n")
}

/// Compares runs by the rules of `fwdlab compare`; `None` if they have nothing in common.
fn compared(loaded: &[Loaded]) -> Option<compare::Outcome> {
    let source = |one: &Loaded| Source {
        name: one.name.clone(),
        series: one.run.series(),
    };
    let sources: Vec<Source> = loaded.iter().map(source).collect();
    let options = Options {
        allowance: fwdlab_measure::paired::ALLOWANCE,
        ..Options::new(compare::common_metric(&sources))
    };
    compare::compare(&sources, &options).ok()
}

/// Names runs for a comparison: by a tag that only one of them has, or else by the part of the id
/// that differs.
fn name(loaded: &mut [Loaded]) -> anyhow::Result<()> {
    let tags = loaded
        .iter()
        .map(|one| Ok(fwdlab_store::labels(&one.run.path)?.tags));
    let tags = tags.collect::<anyhow::Result<Vec<_>>>()?;
    let ids: Vec<String> = loaded.iter().map(|one| one.run.info.id.clone()).collect();
    let same = |n: usize, id: &String| id.split('-').nth(n) == ids[0].split('-').nth(n);
    let common = (0..ids[0].split('-').count())
        .take_while(|n| ids.iter().all(|id| same(*n, id)))
        .count();
    for (n, one) in loaded.iter_mut().enumerate() {
        let own = tags[n].iter().find(|tag| {
            let holders = tags.iter().filter(|others| others.contains(*tag));
            holders.count() == 1
        });
        let rest: Vec<&str> = ids[n].split('-').skip(common).collect();
        one.name = match (own, rest.is_empty()) {
            (Some(tag), _) => tag.clone(),
            (None, true) => ids[n].clone(),
            (None, false) => rest.join("-"),
        };
    }
    Ok(())
}

fn as_run(loaded: &[Loaded]) -> anyhow::Result<Vec<Run<'_>>> {
    let reported = loaded.iter().map(|one| {
        one.as_run().ok_or_else(|| {
            let reason = one.run.info.error.as_deref().unwrap_or("it has no summary");
            let id = &one.run.info.id;
            let reason =
                format!("run {id} has no result to report: {reason}; see fwdlab runs show {id}");
            Usage(reason).into()
        })
    });
    reported.collect()
}

/// Returns one run like `runs show`, or several runs as a list.
fn json(loaded: &[Loaded]) -> anyhow::Result<Vec<u8>> {
    let mut text = match loaded {
        [one] => serde_json::to_vec_pretty(&Document::new(&one.run))?,
        all => {
            let all = all.iter().map(|one| Document::new(&one.run));
            serde_json::to_vec_pretty(&all.collect::<Vec<_>>())?
        }
    };
    text.push(b'\n');
    Ok(text)
}
