//! Compares a ministat block with the archive: what its sets may be, and what ministat prints for
//! them.
//!
//! A block is not parsed into claims: it is printed again by every generation of ministat. Start
//! with [`Evidence::judge`].

use std::path::{Path, PathBuf};

use fwdlab_stats::ministat::{Level, Model, Options, PlotStyle, Report};

use super::super::reading::Reader;
use super::super::readme::{Block, Row, blocks};
use super::super::rule::{legacy_samples, median as median_of};
use super::super::scan::general8;
use super::super::walk::shown_path;
use super::evidence::{Candidate, Evidence, Key, directory_of, distance, is_label_of, resolved};
use super::{BlockFinding, EXACT, SetFinding};

/// Maximum number of selections of runs that are tried for a set.
const MOST_CHOICES: usize = 20_000;
/// Maximum number of candidates per set of a block, which also limits their combinations.
const MOST_CANDIDATES: usize = 6;
const MOST_COMBINATIONS: usize = 64;
/// Larger than any set given to ministat here.
const MOST_IMPLIED: usize = 1000;
/// Up to this number of values a row determines them, and so its part of the plot.
const DETERMINED: usize = 5;
const MODELS: [Model; 4] = [
    Model::Freebsd,
    Model::Freebsd2016,
    Model::Freebsd2015,
    Model::Debian,
];

impl Evidence<'_> {
    /// Judges a block.
    pub(super) fn judge(&self, path: &Path, block: &Block) -> BlockFinding {
        let home = path.parent().unwrap_or(Path::new(""));
        let choices: Vec<Vec<Choice>> = block
            .rows
            .iter()
            .zip(&block.labels)
            .map(|(row, label)| self.choices(row, label, home))
            .collect();
        let mut best: Option<(Vec<usize>, Compared)> = None;
        for combination in combinations(&choices) {
            let sets: Vec<&Choice> = combination
                .iter()
                .zip(&choices)
                .map(|(at, choices)| &choices[*at])
                .collect();
            let compared = compare(block, &sets);
            let better = best
                .as_ref()
                .is_none_or(|(_, known)| compared.differences.len() < known.differences.len());
            let exact = compared.differences.is_empty();
            if better {
                best = Some((combination, compared));
            }
            if exact {
                break;
            }
        }
        let (combination, compared) = best.unwrap_or_default();
        let chosen: Vec<&Choice> = combination
            .iter()
            .zip(&choices)
            .map(|(at, choices)| &choices[*at])
            .collect();
        let status = self.status(block, &chosen, &compared, home);
        let mut sources: Vec<String> = Vec::new();
        for source in chosen.iter().flat_map(|choice| &choice.sources) {
            if !sources.contains(source) {
                sources.push(source.clone());
            }
        }
        let rules = |choice: &&&Choice| !choice.rules.is_empty();
        let median_rules = ["mean", "upper"]
            .into_iter()
            .filter(|rule| {
                let mut known = chosen.iter().filter(rules).peekable();
                known.peek().is_some() && known.all(|choice| choice.rules.contains(rule))
            })
            .collect();
        BlockFinding {
            readme: shown_path(path),
            line: block.line,
            status,
            without_comparison: without_comparison(block),
            models: compared.models.iter().map(|model| model.name()).collect(),
            median_rules,
            sources,
            sets: block
                .labels
                .iter()
                .zip(&chosen)
                .map(|(label, choice)| SetFinding {
                    label: label.clone(),
                    from: choice.from.clone(),
                    borrowed: choice.from.is_some() && choice.home != home,
                    as_printed: matches!(choice.origin, Origin::Row),
                })
                .collect(),
        }
    }

    /// Returns candidates for a set of a block: the closest first; as a last resort, values derived
    /// from its row.
    fn choices(&self, row: &Row, label: &str, home: &Path) -> Vec<Choice> {
        let key = (row.n, normal(&row.figures[0]), normal(&row.figures[1]));
        let mut found: Vec<&Candidate> = self
            .by_key
            .get(&key)
            .into_iter()
            .flatten()
            .map(|at| &self.candidates[*at])
            .filter(|candidate| fits(row, &candidate.values))
            .collect();
        found.sort_by_key(|candidate| {
            (
                !candidate.from_logs,
                distance(&candidate.home, home),
                !is_label_of(label, &candidate.case),
            )
        });
        let mut choices: Vec<Choice> = found
            .into_iter()
            .take(MOST_CANDIDATES)
            .map(|candidate| Choice {
                values: candidate.values.clone(),
                from: Some(candidate.name.clone()),
                home: candidate.home.clone(),
                rules: candidate.rules.clone(),
                sources: candidate.sources.clone(),
                origin: if candidate.from_logs {
                    Origin::Logs
                } else {
                    Origin::File
                },
            })
            .collect();
        if choices.is_empty() {
            choices.extend(self.part_of_runs(row, label, home));
        }
        if choices.is_empty() {
            choices.extend(self.samples_of_a_log(&key, row, home));
        }
        if choices.is_empty() {
            choices.push(Choice {
                values: implied(row).unwrap_or_default(),
                from: None,
                home: PathBuf::new(),
                rules: Vec::new(),
                sources: Vec::new(),
                origin: Origin::Row,
            });
        }
        choices
    }

    /// Returns a subset of the runs of a nearby test case: the others were omitted.
    fn part_of_runs(&self, row: &Row, label: &str, home: &Path) -> Option<Choice> {
        let mut near: Vec<&Candidate> = self
            .candidates
            .iter()
            .filter(|candidate| {
                candidate.from_logs
                    && candidate.values.len() > row.n
                    && (candidate.home == home || is_label_of(label, &candidate.case))
            })
            .collect();
        near.sort_by_key(|c| (distance(&c.home, home), !is_label_of(label, &c.case)));
        near.into_iter().take(40).find_map(|candidate| {
            let kept = choose(&candidate.values, row)?;
            let left_out: Vec<&str> = (0..candidate.values.len())
                .filter(|at| !kept.contains(at))
                .map(|at| &candidate.sources[at][..])
                .collect();
            Some(Choice {
                values: kept.iter().map(|at| candidate.values[*at]).collect(),
                from: Some(format!(
                    "{} without {}",
                    candidate.name,
                    left_out.join(", ")
                )),
                home: candidate.home.clone(),
                rules: candidate.rules.clone(),
                sources: kept
                    .iter()
                    .map(|at| candidate.sources[*at].clone())
                    .collect(),
                origin: Origin::PartOfRuns,
            })
        })
    }

    /// Returns the samples of one log, if these were compared instead of runs.
    fn samples_of_a_log(&self, key: &Key, row: &Row, home: &Path) -> Option<Choice> {
        let found = self.by_samples.get(key)?;
        let mut reader = Reader::new(self.root);
        found
            .iter()
            .take(MOST_CANDIDATES)
            .find_map(|(at, case, run)| {
                let set = &self.sets[*at];
                let path = self.facts[*at][*case].runs[*run].receiver.as_ref()?;
                let values = legacy_samples(&reader.log(path).ok()?).ok()?;
                fits(row, &values).then(|| Choice {
                    from: Some(format!("the samples of {}", shown_path(path))),
                    home: if set.home == home {
                        home.to_owned()
                    } else {
                        set.home.clone()
                    },
                    rules: Vec::new(),
                    sources: vec![shown_path(path)],
                    origin: Origin::Logs,
                    values,
                })
            })
    }

    fn status(
        &self,
        block: &Block,
        chosen: &[&Choice],
        compared: &Compared,
        home: &Path,
    ) -> String {
        let name = |at: usize| {
            let symbol = block.rows[at].symbol;
            match &block.labels[at][..] {
                "" => symbol.to_string(),
                label => format!("{symbol} {label}"),
            }
        };
        let mut notes: Vec<String> = compared.differences.clone();
        let mut absent = Vec::new();
        for (at, choice) in chosen.iter().enumerate() {
            match choice.origin {
                Origin::Logs => {}
                Origin::Row => absent.push(at),
                Origin::File | Origin::PartOfRuns => notes.push(format!(
                    "set {}: {}",
                    name(at),
                    choice.from.as_deref().unwrap_or_default()
                )),
            }
        }
        // A set may be taken as printed only if its label refers to a directory that does not exist
        // here.
        let mut nowhere = Vec::new();
        for at in absent.iter().copied() {
            let label = &block.labels[at];
            match self.namesake(label, &block.rows[at], home) {
                Some(words) => notes.push(format!("set {}: {words}", name(at))),
                None if self.refers_outside(label, home) => nowhere.push(name(at)),
                None if absent.len() == block.rows.len() => {}
                None => notes.push(format!(
                    "set {}: nothing in the archive gives its row",
                    name(at)
                )),
            }
        }
        if absent.len() == block.rows.len() && notes.len() == compared.differences.len() {
            return "no logs: nothing in the archive gives any of its sets".to_owned();
        }
        if notes.is_empty() {
            // sets taken as printed are listed individually
            return EXACT.to_owned();
        }
        notes.extend(
            nowhere
                .into_iter()
                .map(|name| format!("set {name}: its logs are not here")),
        );
        notes.join("; ")
    }

    /// Finds a nearby test case or file with this name and other values, and returns the
    /// difference.
    fn namesake(&self, label: &str, row: &Row, home: &Path) -> Option<String> {
        let named = |candidate: &&Candidate| {
            let same_file = || {
                let file = candidate.sources.first().filter(|_| !candidate.from_logs);
                file.is_some_and(|file| Path::new(file) == resolved(label, home))
            };
            let same_case = || {
                directory_of(label, home) == candidate.home && is_label_of(label, &candidate.case)
            };
            same_file() || same_case()
        };
        let candidate = self
            .candidates
            .iter()
            .filter(named)
            .min_by_key(|c| (!c.from_logs, distance(&c.home, home)))?;
        let mut sorted = candidate.values.clone();
        sorted.sort_by(f64::total_cmp);
        let [min, max, median, ..] = &row.figures;
        Some(format!(
            "N {} min {min} max {max} median {median} do not follow from {}, which gives N {} min {} max {} median {}",
            row.n,
            candidate.name,
            sorted.len(),
            general8(*sorted.first()?),
            general8(*sorted.last()?),
            general8(median_of(&sorted)?),
        ))
    }

    /// Returns true if a label refers to a file in a directory that is missing in the archive, or
    /// in the local part of it.
    fn refers_outside(&self, label: &str, home: &Path) -> bool {
        let path = label.contains('/') && !label.contains(char::is_whitespace);
        path && !self.root.join(directory_of(label, home)).is_dir()
    }
}

/// Returns the sets after the first that have no comparison in the block.
fn without_comparison(block: &Block) -> Vec<String> {
    let sets = block.rows.iter().zip(&block.labels).skip(1);
    let cut = sets.filter(|(row, _)| row.difference.is_empty());
    cut.map(|(row, label)| match label.as_str() {
        "" => row.symbol.to_string(),
        label => label.to_owned(),
    })
    .collect()
}

/// One candidate for a set of a block.
#[derive(Debug, Clone)]
struct Choice {
    values: Vec<f64>,
    from: Option<String>,
    home: PathBuf,
    rules: Vec<&'static str>,
    sources: Vec<String>,
    origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// All logs of a test case.
    Logs,
    /// Some of its logs.
    PartOfRuns,
    /// A file of values that does not follow from logs.
    File,
    /// Only the row itself.
    Row,
}

/// A block compared with what ministat prints for the sets.
#[derive(Debug, Clone, Default)]
struct Compared {
    models: Vec<Model>,
    /// According to the closest model.
    differences: Vec<String>,
}

/// Computes the block by every model; a set without values only has its row.
fn compare(block: &Block, sets: &[&Choice]) -> Compared {
    let mut best: Option<Vec<String>> = None;
    let mut models = Vec::new();
    for model in MODELS {
        let found = differences(block, sets, model);
        if found.is_empty() {
            models.push(model);
        }
        if best.as_ref().is_none_or(|known| found.len() < known.len()) {
            best = Some(found);
        }
    }
    Compared {
        differences: best.unwrap_or_default(),
        models,
    }
}

fn differences(block: &Block, sets: &[&Choice], model: Model) -> Vec<String> {
    if sets
        .iter()
        .any(|set| set.values.len() < fwdlab_stats::ministat::MIN_VALUES)
    {
        // Without values for every set only the rows can be compared, set by set.
        return vec!["its plot and differences cannot be computed: a set has no values".to_owned()];
    }
    let level = block
        .level_percent()
        .and_then(Level::from_percent)
        .unwrap_or_default();
    let width = block
        .plot
        .as_ref()
        .and_then(|plot| plot.last())
        .map_or(74, |frame| frame.len().saturating_sub(2).min(1000));
    let report = |plot| {
        let sets = block.labels.iter().zip(sets);
        let sets = sets.map(|(label, set)| (label.clone().into_bytes(), set.values.clone()));
        let options = Options {
            model,
            plot,
            level,
            width,
            ..Options::default()
        };
        Report::new(sets.collect(), &options).ok()
    };
    let Some(table) = report(PlotStyle::None) else {
        return vec!["it cannot be computed".to_owned()];
    };
    let mut found = Vec::new();
    let printed = String::from_utf8_lossy(&table.render()).into_owned();
    let again = blocks(printed.as_bytes());
    let rows = again.first().map_or(&[][..], |block| &block.rows);
    // Comparisons that were omitted entirely (-n) are not missing; those omitted in part are.
    let compared = block.rows.iter().any(|row| !row.difference.is_empty());
    for (row, computed) in block.rows.iter().zip(rows) {
        let names = ["min", "max", "median", "average", "deviation"];
        for ((name, printed), computed) in names.iter().zip(&row.figures).zip(&computed.figures) {
            if printed != computed {
                found.push(format!(
                    "{name} of {}: {printed} printed, {computed} computed",
                    row.symbol
                ));
            }
        }
        if compared && row.difference != computed.difference {
            found.push(format!(
                "comparison of {}: `{}` printed, `{}` computed",
                row.symbol,
                row.difference.join(" "),
                computed.difference.join(" ")
            ));
        }
    }
    let determined = |set: &&Choice| set.origin != Origin::Row || set.values.len() <= DETERMINED;
    if let Some(plot) = block.plot.as_ref().filter(|_| sets.iter().all(determined)) {
        let same = |style| {
            report(style).is_some_and(|report| {
                let text = String::from_utf8_lossy(&report.render()).into_owned();
                let again = blocks(text.as_bytes());
                again.first().and_then(|block| block.plot.as_ref()) == Some(plot)
            })
        };
        if ![PlotStyle::SeparateBars, PlotStyle::SharedBar]
            .into_iter()
            .any(same)
        {
            found.push("the plot".to_owned());
        }
    }
    found
}

/// Returns true if any model prints this row for these values.
fn fits(row: &Row, values: &[f64]) -> bool {
    if values.len() != row.n || row.n < fwdlab_stats::ministat::MIN_VALUES {
        return false;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let medians = [median_of(&sorted), Some(sorted[middle])];
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let [_, _, median, average, _] = &row.figures;
    let is = |value: f64, text: &String| general8(value) == normal(text);
    medians.into_iter().flatten().any(|value| is(value, median)) && is(mean, average)
}

/// Returns values that yield a row, to the printed precision: three to five values are determined
/// by it; with more, some are assumed to be equal. `None` if nothing fits.
fn implied(row: &Row) -> Option<Vec<f64>> {
    let [min, max, median, mean, stdev] = row.numbers();
    let n = row.n;
    let mut values = match n {
        0..=2 => return None,
        3 => vec![min, median, max],
        4 => vec![min, max],
        n if n.is_multiple_of(2) => vec![min, median, median, max],
        _ => vec![min, median, max],
    };
    let pairs = n.checked_sub(values.len())? / 2;
    if pairs > 0 && n <= MOST_IMPLIED {
        let each = pairs as f64;
        let squares = |value: f64| (value - mean) * (value - mean);
        // For every pair: low + high = sum, and the squares of their distances from the mean add up
        // to rest.
        let sum = (n as f64 * mean - values.iter().sum::<f64>()) / each;
        let known: f64 = values.iter().copied().map(squares).sum();
        let rest = ((n - 1) as f64 * stdev * stdev - known) / each;
        let centre = sum / 2.0;
        let spread = (rest / 2.0 - squares(centre)).max(0.0).sqrt();
        let (low, high) = (centre - spread, centre + spread);
        let tolerance = 1e-4 * max.abs();
        if !(low >= min - tolerance && high <= max + tolerance) {
            return None;
        }
        for _ in 0..pairs {
            values.push(low.clamp(min, max));
            values.push(high.clamp(min, max));
        }
    }
    values.sort_by(f64::total_cmp);
    (values.len() == n).then_some(values)
}

/// Returns which of the values, in order, yield a row: the only selection, or the first one found.
fn choose(values: &[f64], row: &Row) -> Option<Vec<usize>> {
    let (n, all) = (row.n, values.len());
    if n < fwdlab_stats::ministat::MIN_VALUES || binomial(all, n) > MOST_CHOICES {
        return None;
    }
    let [min, max, ..] = &row.figures;
    let (min, max) = (normal(min), normal(max));
    let texts: Vec<String> = values.iter().map(|value| general8(*value)).collect();
    if !texts.contains(&min) || !texts.contains(&max) {
        return None;
    }
    let mut kept: Vec<usize> = (0..n).collect();
    loop {
        let some: Vec<f64> = kept.iter().map(|at| values[*at]).collect();
        if fits(row, &some) {
            return Some(kept);
        }
        // The next selection in lexicographic order.
        let last = (0..n).rev().find(|at| kept[*at] < all - n + at)?;
        kept[last] += 1;
        for at in last + 1..n {
            kept[at] = kept[at - 1] + 1;
        }
    }
}

/// Returns the number of ways to choose `some` of `all`.
fn binomial(all: usize, some: usize) -> usize {
    let mut ways = 1_usize;
    for at in 0..some.min(all - some.min(all)) {
        ways = ways.saturating_mul(all - at) / (at + 1);
        if ways > MOST_CHOICES {
            return usize::MAX;
        }
    }
    ways
}

/// Returns every way to take one choice per set, the first choices first; bounded.
fn combinations(choices: &[Vec<Choice>]) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for options in choices {
        all = (0..options.len())
            .flat_map(|at| all.iter().map(move |before| [&before[..], &[at]].concat()))
            .take(MOST_COMBINATIONS)
            .collect();
    }
    all.sort_by_key(|combination| combination.iter().sum::<usize>());
    all
}

/// Returns a figure of a row in our own format.
fn normal(figure: &str) -> String {
    figure.parse().map_or_else(|_| figure.to_owned(), general8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(symbol: char, n: usize, figures: [&str; 5]) -> Row {
        Row {
            symbol,
            n,
            figures: figures.map(str::to_owned),
            difference: Vec::new(),
        }
    }

    /// Values of a public report (a 2018 talk): mean 4648293.8, deviation 94545.404.
    const VALUES: [f64; 5] = [
        4_648_451.0,
        4_735_822.0,
        4_724_896.0,
        4_632_222.0,
        4_500_078.0,
    ];

    fn printed() -> Row {
        row(
            'x',
            5,
            ["4500078", "4735822", "4648451", "4648293.8", "94545.404"],
        )
    }

    #[test]
    fn five_values_follow_from_their_row() {
        let values = implied(&printed()).unwrap();
        let mut sorted = VALUES;
        sorted.sort_by(f64::total_cmp);
        for (found, expect) in values.iter().zip(sorted) {
            assert!((found - expect).abs() < 1.0, "{values:?}");
        }
        assert!(fits(&printed(), &VALUES));
        assert!(!fits(&printed(), &VALUES[..4]));
        assert_eq!(implied(&row('x', 2, ["1", "2", "1", "1", "1"])), None);
        assert_eq!(implied(&row('x', 5, ["1", "2", "1", "9", "1"])), None);
    }

    #[test]
    fn runs_that_were_left_out_are_found() {
        let mut values = VALUES.to_vec();
        values.insert(2, 1.0);
        values.insert(0, 9e6);
        assert_eq!(choose(&values, &printed()), Some(vec![1, 2, 4, 5, 6]));
        assert_eq!(choose(&[1.0; 7], &printed()), None);
        assert_eq!(binomial(10, 5), 252);
        assert_eq!(binomial(100, 50), usize::MAX);
    }

    #[test]
    fn combinations_are_bounded_and_begin_with_the_first() {
        let choice = Choice {
            values: Vec::new(),
            from: None,
            home: PathBuf::new(),
            rules: Vec::new(),
            sources: Vec::new(),
            origin: Origin::Row,
        };
        let all = combinations(&vec![vec![choice; 6]; 7]);
        assert_eq!(all[0], [0; 7]);
        assert_eq!(all.len(), MOST_COMBINATIONS);
        assert_eq!(combinations(&[]), [Vec::<usize>::new()]);
    }
}
