//! A table of systems and conditions: a row per hardware, system or configuration, a column per
//! kind of traffic. A cell shows how much more or less than the reference the system forwards:
//! `-27.9 % ± 1.1 %`.
//!
//! It does not compare: differences, intervals and verdicts come from [`compare`](crate::compare),
//! and those of paired slices were measured. A cell without a figure has the reason ([`State`]);
//! figures of different procedures are not compared. Start with [`from_runs`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use fwdlab_model::campaign::{Case, Kind, PLAIN, distinct};
use fwdlab_model::comparison::Verdict;
use fwdlab_model::import::ImportedCase;
use fwdlab_model::outcome::{Better, FORWARDING_RATE, Unit};
use fwdlab_model::series::Series;
use fwdlab_model::test_case::{CaseFigure, Iteration, TestCase};
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;
use fwdlab_model::variant::Variant;
use fwdlab_stats::{Confidence, Sample};

use crate::compare::{self, FEWEST_VALUES, Options, Source, incomparable_reason};
use crate::name::{dut, value};
use crate::number::{difference, percent, plural};
use crate::run::Run;
use crate::state::State;
use crate::table::{Cell as Text, Column, Mark, Table, capital};

/// Names of labels that this module adds, for rows and columns.
const SYSTEM: &str = "system";
const CONDITION: &str = "condition";

/// The name of the figure of slices, which measure differences directly.
const DIFFERENCE: &str = "difference";

/// A table of systems and conditions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grid {
    /// Name of the figure.
    pub figure: String,
    /// Unit of the figure.
    pub unit: Unit,
    /// Whether higher or lower is better.
    pub better: Better,
    /// The system of the first row; the others are compared with it.
    pub reference: String,
    /// Headings of the columns.
    pub conditions: Vec<String>,
    pub systems: Vec<System>,
    /// Names of the runs that are too noisy to be reliable.
    pub noisy: Vec<String>,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct System {
    /// Name of the system.
    pub name: String,
    /// Why it cannot be compared with the reference; empty if it can.
    pub unlike: Vec<String>,
    /// One cell per condition.
    pub cells: Vec<Cell>,
}

/// A cell of the table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    /// The test case: indices of the run, and of the test case in its summary.
    pub of: Option<(usize, usize)>,
    /// The figure, and half of its 95 % interval.
    pub figure: Option<(f64, Option<f64>)>,
    /// The difference from the reference, if there is one.
    pub difference: Option<Difference>,
    /// Why there is no figure, or a remark on the figure.
    pub state: State,
    /// True if the figure is from a different procedure.
    pub is_other: bool,
}

/// The difference of a cell from the reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Difference {
    /// Difference, in percent of the reference.
    pub percent: f64,
    /// 95 % interval of the difference, in percent.
    pub interval: Option<[f64; 2]>,
    /// The verdict on the difference.
    pub verdict: Verdict,
    /// Numbers of values: of the reference, and of this cell.
    pub n: [usize; 2],
}

impl Difference {
    /// Returns true if the difference is proven and an improvement.
    pub fn is_better(&self, better: Better) -> bool {
        self.interval.is_some()
            && match better {
                Better::Higher => self.verdict == Verdict::More,
                Better::Lower => self.verdict == Verdict::Less,
            }
    }

    /// Formats the difference: `-27.9 % ± 1.1 %`, with a leading `~` if it is not proven.
    fn words(&self) -> String {
        let value = difference(self.percent, self.interval);
        let Some([low, high]) = self.interval else {
            return format!("{value} %, too few values to tell");
        };
        let half = difference((high - low) / 2.0, Some([low, high]));
        let half = half.trim_start_matches('+');
        let sign = match self.verdict {
            Verdict::Less | Verdict::More => "",
            Verdict::NoDifference | Verdict::CannotTell => "~ ",
        };
        format!("{sign}{value} % ± {half} %")
    }
}

/// A test case and its position in the table.
struct Entry<'a> {
    run: usize,
    /// Index in the summary; `None` for test cases of an archive.
    at: Option<usize>,
    system: String,
    condition: String,
    /// The condition without frame size and address family.
    but_family: String,
    /// Frame size, if the test case has a single stream.
    size: Option<FrameSize>,
    family: Option<IpVersion>,
    case: Cow<'a, TestCase>,
    labels: BTreeMap<String, String>,
}

/// Builds the table of runs; `None` if there are fewer than two systems.
pub(crate) fn from_runs(runs: &[Run<'_>]) -> Option<Grid> {
    let entries = entries(runs);
    let systems = distinct(entries.iter().map(|one| &one.system));
    let conditions = distinct(entries.iter().map(|one| &one.condition));
    let (figure, unit, better) = figure_of(&entries)?;
    let is_paired = figure == DIFFERENCE;
    if systems.len() < 2 && !is_paired {
        return None;
    }
    let named = |case: &TestCase| {
        case.figure(&figure)
            .filter(|f| !f.values.is_empty())
            .cloned()
    };
    let has = |system: &String| {
        entries
            .iter()
            .any(|e| e.system == *system && named(&e.case).is_some())
    };
    let is_plain = |system: &&String| {
        entries
            .iter()
            .any(|e| e.system == **system && e.case.case.configuration == PLAIN)
    };
    let reference = match is_paired {
        true => entries
            .iter()
            .find_map(|e| Some(e.case.slices()?.reference.clone()))?,
        false => {
            let mut able = systems.iter().filter(|system| has(system));
            let first = able.clone().next()?;
            able.find(is_plain).unwrap_or(first).clone()
        }
    };
    let compared = match is_paired {
        true => None,
        false => compared(&entries, &figure, &reference),
    };
    let labels_of = |system: &str| {
        entries
            .iter()
            .find(|e| e.system == system)
            .map(|e| &e.labels)
    };
    let cell = |system: &str, condition: &str| {
        let entry = entries
            .iter()
            .find(|e| e.system == system && e.condition == condition);
        let Some(entry) = entry else {
            return Cell::none(State::NotMeasured);
        };
        let own = named(&entry.case);
        let in_compared = || {
            let outcome = compared.as_ref()?;
            let row = outcome
                .rows
                .iter()
                .find(|row| row.labels.get(CONDITION).is_some_and(|c| c == condition))?;
            let one = row.comparisons.iter().find(|one| one.column == system)?;
            let enough = one.n.into_iter().min() >= Some(FEWEST_VALUES);
            Some(Difference {
                percent: one.difference_percent?,
                interval: one.interval_percent.filter(|_| enough),
                verdict: one.verdict,
                n: one.n,
            })
        };
        let measured = || {
            let found = entry
                .case
                .slices()
                .filter(|found| found.parameter.is_none())?;
            let one = &found.points.first()?.comparison;
            let n = one.values_percent.len();
            Some(Difference {
                percent: one.difference_percent?,
                interval: one.interval_percent.filter(|_| one.doubt.is_none()),
                verdict: one.verdict,
                n: [n, n],
            })
        };
        Cell {
            of: entry.at.map(|at| (entry.run, at)),
            is_other: own.is_none() && entry.case.figures.iter().any(|f| !f.values.is_empty()),
            figure: own.map(|own| (own.median, own.interval_half_width)),
            difference: if is_paired { measured() } else { in_compared() },
            state: State::from_case(&entry.case),
        }
    };
    let mut rows: Vec<System> = systems
        .iter()
        .map(|name| System {
            name: name.clone(),
            unlike: match (labels_of(&reference), labels_of(name)) {
                (Some(reference), Some(own)) => incomparable_reason(reference, own),
                _ => Vec::new(),
            },
            cells: conditions
                .iter()
                .map(|condition| cell(name, condition))
                .collect(),
        })
        .collect();
    match rows.iter().position(|row| row.name == reference) {
        Some(place) => rows[..=place].rotate_right(1),
        None => rows.insert(0, of_slices(&entries, &reference, &conditions)),
    }
    Some(Grid {
        figure: if is_paired {
            FORWARDING_RATE.into()
        } else {
            figure
        },
        unit: if is_paired {
            Unit::FramesPerSecond
        } else {
            unit
        },
        better,
        reference,
        conditions,
        systems: rows,
        noisy: (runs.iter().filter(|run| run.summary.noise.too_noisy))
            .map(|run| run.name.to_owned())
            .collect(),
    })
}

impl Cell {
    fn none(state: State) -> Cell {
        Cell {
            of: None,
            figure: None,
            difference: None,
            state,
            is_other: false,
        }
    }
}

/// Returns the row of the reference of slices, which has no test case of its own.
fn of_slices(entries: &[Entry<'_>], reference: &str, conditions: &[String]) -> System {
    let plain = |condition: &String| {
        let of = entries.iter().filter(|e| e.condition == *condition);
        let mut rates = of.filter_map(|e| e.case.comparisons().next()?.plain_forwarding_rate_pps);
        match rates.next() {
            Some(pps) => Cell {
                figure: Some((pps, None)),
                ..Cell::none(State::Measured)
            },
            None => Cell::none(State::NotMeasured),
        }
    };
    System {
        name: reference.to_owned(),
        unlike: Vec::new(),
        cells: conditions.iter().map(plain).collect(),
    }
}

/// A bar of the chart of address families.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bar {
    /// What both families have in common: system, frame size, flows.
    pub group: String,
    /// Address family of the bar.
    pub family: IpVersion,
    /// A remark, such as the frame size if the families differ in it.
    pub note: String,
    /// The values; if there are none, `instead` gives the reason.
    pub values: Vec<f64>,
    /// Median of the values.
    pub median: Option<f64>,
    /// Text to show if there is no figure.
    pub instead: String,
}

/// Returns the figure, its unit, and a bar for each address family, for a chart of both.
pub(crate) fn families(runs: &[Run<'_>]) -> Option<(String, Unit, Vec<Bar>)> {
    let entries = entries(runs);
    let (figure, unit, _) = figure_of(&entries).filter(|(name, ..)| name != DIFFERENCE)?;
    let sizes = |family| {
        let own = entries.iter().filter(move |one| one.family == Some(family));
        own.filter_map(|one| one.size)
    };
    let bar = |one: &Entry<'_>| {
        let found = one.case.figure(&figure);
        let found = found.filter(|found| !found.values.is_empty());
        let family = one.family?;
        let other = match family {
            IpVersion::Ipv4 => IpVersion::Ipv6,
            IpVersion::Ipv6 => IpVersion::Ipv4,
        };
        // the smallest frames of both families compare, unless the other family was measured with
        // this size
        let is_smallest = |size: &FrameSize| {
            *size == family.smallest_frame() && !sizes(other).any(|other| other == *size)
        };
        let smallest = one.size.filter(is_smallest);
        let size = match (smallest, one.size) {
            (Some(_), _) => "smallest frames".to_owned(),
            (None, Some(size)) => format!("{size} B"),
            (None, None) => String::new(),
        };
        let parts = [&size[..], &one.but_family[..], &one.system[..]];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Some(Bar {
            group: parts.join(", "),
            family,
            note: smallest.map_or(String::new(), |size| format!("{size} B")),
            values: found.map_or(Vec::new(), |found| found.values.clone()),
            median: found.map(|found| found.median),
            instead: State::from_case(&one.case).instead().into(),
        })
    };
    let bars = entries.iter().filter_map(bar).collect();
    Some((figure, unit, bars))
}

/// Returns the figure that most test cases have; forwarding rates take precedence.
fn figure_of(entries: &[Entry<'_>]) -> Option<(String, Unit, Better)> {
    let mut found: Vec<(&CaseFigure, usize)> = Vec::new();
    for figure in entries.iter().flat_map(|one| &one.case.figures) {
        match found
            .iter_mut()
            .find(|(known, _)| known.name == figure.name)
        {
            Some((_, times)) => *times += 1,
            None => found.push((figure, 1)),
        }
    }
    // of equal maxima, `max_by_key` returns the last
    found.reverse();
    let most = found
        .iter()
        .max_by_key(|(figure, times)| (*times, figure.name == FORWARDING_RATE));
    most.map(|(figure, _)| (figure.name.clone(), figure.unit, figure.better))
}

fn entries<'a>(runs: &[Run<'a>]) -> Vec<Entry<'a>> {
    let all: Vec<(usize, usize, &TestCase)> = (runs.iter().enumerate())
        .flat_map(|(run, one)| {
            let cases = one.summary.test_cases.iter().enumerate();
            cases.map(move |(at, case)| (run, at, case))
        })
        .collect();
    let Some((_, _, first)) = all.first().copied() else {
        return of_archives(runs);
    };
    let differ = |same: &dyn Fn(&TestCase) -> bool| !all.iter().all(|(_, _, case)| same(case));
    let of_slices = all.iter().any(|(_, _, case)| case.slices().is_some());
    let configurations =
        of_slices || differ(&|case| case.case.configuration == first.case.configuration);
    let duts = differ(&|case| case.case.dut == first.case.dut);
    let images = differ(&|case| case.case.image == first.case.image);
    let flows = differ(&|case| case.case.stream.flows == first.case.stream.flows);
    let families = differ(&|case| case.case.stream.ip_version == first.case.stream.ip_version);
    let rest = |case: &TestCase| {
        let rest = Variant {
            profile: None,
            ..case.case.variant.clone()
        };
        rest.to_string()
    };
    let variants = differ(&|case| rest(case) == rest(first));
    let of = |(run, at, case): (usize, usize, &'a TestCase)| {
        let own = &runs[run];
        let (stream, variant) = (&case.case.stream, &case.case.variant);
        let mut system = Vec::new();
        system.extend((runs.len() > 1).then(|| own.name.to_owned()));
        system.extend(duts.then(|| dut(case.case.dut).to_owned()));
        system.extend(case.case.image.clone().filter(|_| images));
        system.extend(configurations.then(|| case.case.configuration.clone()));
        let is_stream = variant.profile.is_none();
        let condition = |size: bool| {
            let mut words = Vec::new();
            words.extend(size.then(|| match &variant.profile {
                Some(profile) => profile.clone(),
                None => format!("{} B", stream.frame_size_bytes),
            }));
            words.extend((flows && is_stream).then(|| plural(stream.flows as usize, "flow")));
            words.extend((families && size && is_stream).then(|| stream.ip_version.to_string()));
            words.extend(Some(rest(case)).filter(|rest| variants && !rest.is_empty()));
            words.join(", ")
        };
        let load = own.info.parameters.get("load").map(ToString::to_string);
        let outcome = case
            .outcomes
            .first()
            .map(|outcome| outcome.found.procedure());
        let labels = [
            (
                "procedure",
                Some(outcome.unwrap_or(&own.summary.procedure).to_owned()),
            ),
            ("engine", Some(own.info.facts.engine.clone())),
            ("load", load),
        ];
        let labels = labels
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Entry {
            run,
            at: Some(at),
            system: system.join(", "),
            condition: condition(true),
            but_family: condition(false),
            size: is_stream.then_some(stream.frame_size_bytes),
            family: is_stream.then_some(stream.ip_version),
            case: Cow::Borrowed(case),
            labels: labels.collect(),
        }
    };
    let own = all.iter().copied().map(of);
    own.chain(of_archives(runs)).collect()
}

/// Returns the test cases of archives: the systems are their images and configurations, the
/// conditions are what the archive calls traffic.
fn of_archives<'a>(runs: &[Run<'a>]) -> Vec<Entry<'a>> {
    let imported = |run: &Run<'a>| &run.summary.imported;
    let label = |case: &ImportedCase, key: &str| case.labels.get(key).cloned();
    let all: Vec<&ImportedCase> = runs.iter().flat_map(imported).collect();
    let images = all
        .iter()
        .any(|one| label(one, "image") != label(all[0], "image"));
    let mut entries = Vec::new();
    for (run, own) in runs.iter().enumerate() {
        for one in imported(own) {
            let configuration = label(one, "configuration");
            let system = [
                (runs.len() > 1).then(|| own.name.to_owned()),
                label(one, "image").filter(|_| images),
                configuration.clone(),
            ];
            let traffic = label(one, "traffic").unwrap_or_default();
            // names of address families in archives
            let is_family = |part: &&str| ["inet4", "inet6", "ipv4", "ipv6"].contains(part);
            let parts = || traffic.split(['.', '-', '_']);
            let rest: Vec<&str> = parts().filter(|part| !is_family(part)).collect();
            entries.push(Entry {
                run,
                at: None,
                system: system.into_iter().flatten().collect::<Vec<_>>().join(", "),
                condition: match traffic.is_empty() {
                    true => one
                        .ip_version
                        .map_or("traffic".into(), |family| family.to_string()),
                    false => traffic.clone(),
                },
                but_family: rest.join(" "),
                // the same traffic has longer frames in IPv6: the size would separate the families
                size: None,
                family: one.ip_version,
                labels: BTreeMap::from([("procedure".into(), own.summary.procedure.clone())]),
                case: Cow::Owned(as_ours(one, configuration)),
            });
        }
    }
    entries
}

/// Converts a test case of an archive: its values by fwdlab's rule, or by the archive's if there
/// are none.
fn as_ours(one: &ImportedCase, configuration: Option<String>) -> TestCase {
    let found = match one.ours.iterations_pps.is_empty() {
        true => &one.legacy,
        false => &one.ours,
    };
    let values = found.iterations_pps.clone();
    let sample = Sample::new(values.clone()).ok();
    let half = sample.as_ref().filter(|sample| sample.n() >= FEWEST_VALUES);
    let half = half.and_then(|sample| sample.mean_interval(Confidence::P95));
    let failed = (0..one.iterations_invalid).map(|_| Some("its logs are invalid".to_owned()));
    let iterations = values.iter().map(|_| None).chain(failed);
    let figure = found.median_pps.map(|median| CaseFigure {
        name: FORWARDING_RATE.into(),
        unit: Unit::FramesPerSecond,
        better: Better::Higher,
        values: values.clone(),
        median,
        interval_half_width: half.map(|interval| interval.half_width()),
        variation_percent: None,
        generator_limited: 0,
    });
    TestCase {
        test_case: one.test_case.clone(),
        case: Case {
            configuration: configuration.unwrap_or_else(|| PLAIN.into()),
            stream: Stream {
                ip_version: one.ip_version.unwrap_or(IpVersion::Ipv4),
                frame_size_bytes: FrameSize::MIN,
                flows: 1,
            },
            variant: Variant::default(),
            image: None,
            dut: Kind::default(),
        },
        figures: figure.into_iter().collect(),
        outcomes: Vec::new(),
        iterations: (1..)
            .zip(iterations)
            .map(|(iteration, failure)| Iteration {
                iteration,
                failure,
                ..Iteration::default()
            })
            .collect(),
        findings: Vec::new(),
        doubt: None,
        work: None,
        stopped: None,
    }
}

/// Compares all systems with the reference.
fn compared(entries: &[Entry<'_>], figure: &str, reference: &str) -> Option<compare::Outcome> {
    let series = entries.iter().filter_map(|one| {
        let found = one.case.figure(figure)?;
        Some(Series {
            labels: BTreeMap::from([
                (SYSTEM.to_owned(), one.system.clone()),
                (CONDITION.to_owned(), one.condition.clone()),
            ]),
            metric: figure.to_owned(),
            unit: found.unit.symbol().into(),
            values: found.values.clone(),
            left_out: u32::try_from(one.case.failures().count()).unwrap_or(u32::MAX),
            ..Series::default()
        })
    });
    let source = Source {
        name: String::new(),
        series: series.collect(),
    };
    let options = Options {
        by: Some(SYSTEM.to_owned()),
        rows: Some(CONDITION.to_owned()),
        baseline: Some(reference.to_owned()),
        ..Options::new(figure)
    };
    // nothing to compare, e.g. all but one failed: the cells show it
    compare::compare(&[source], &options).ok()
}

impl Grid {
    /// Returns true if the table adds something to the list of differences that other tables show.
    pub fn is_worth_showing(&self, runs: usize) -> bool {
        self.systems.len() > 1 && (self.conditions.len() > 1 || runs > 1)
    }

    /// Renders the grid as a table.
    pub fn table(&self) -> Table {
        let mut columns = vec![Column::left("", &[])];
        columns.extend(
            self.conditions
                .iter()
                .map(|name| Column::plus_minus(name, &[])),
        );
        let mut table = Table::new(columns);
        for (place, system) in self.systems.iter().enumerate() {
            let mut cells = vec![Text::text(system.name.clone())];
            let own = system.cells.iter();
            cells.extend(own.map(|cell| Text::text(self.words(place == 0, system, cell))));
            table.push(Mark::None, cells);
        }
        table
    }

    fn words(&self, is_reference: bool, system: &System, cell: &Cell) -> String {
        let Some((median, half)) = cell.figure else {
            return match cell.is_other {
                true => "not comparable".into(),
                false => cell.state.instead().into(),
            };
        };
        let figure = || {
            let half = half.filter(|_| median != 0.0);
            let half = half.map_or(String::new(), |half| {
                format!(" ± {}", percent(100.0 * half / median.abs()))
            });
            format!("{}{half}", value(self.unit, median))
        };
        let text = match (&cell.difference, is_reference) {
            (_, true) => figure(),
            (_, false) if !system.unlike.is_empty() => format!("{}, not comparable", figure()),
            (Some(difference), false) => difference.words(),
            (None, false) => figure(),
        };
        cell.state.beside(self.unit, &text)
    }

    /// Returns notes on the table: how to read the cells, and which rows cannot be compared.
    pub fn notes(&self) -> Vec<String> {
        let mut reported = vec![format!(
            "{}: the first row is the reference; below it the difference from it ± half of its 95 % interval, with ~ where none is \
             proven; a figure alone where the reference has none",
            capital(&self.figure)
        )];
        reported.extend(self.noisy.iter().map(|run| {
            format!("{run}: the machine was too noisy for its figures to be relied on")
        }));
        for system in self
            .systems
            .iter()
            .filter(|system| !system.unlike.is_empty())
        {
            reported.push(format!(
                "{} is not comparable with {}: {}",
                system.name,
                self.reference,
                system.unlike.join("; ")
            ));
        }
        reported
    }
}
