//! Renders a comparison for the terminal: 80 columns, no colour, ASCII except for `±`.
//!
//! The first lines are the answer. Below it is the table: two columns that fit are next to each
//! other, with a row per test case; more columns are below each other. Notes on assumptions of the
//! test, and doubts about them, follow. Start with [`text`].

use std::collections::BTreeMap;

use fwdlab_model::comparison::Verdict;

use super::judge::{COUNTS, NO_TEST, name_of};
use super::limit::in_short;
use super::{ACCEPT_INCONCLUSIVE, Cell, Changes, Compared, Drift, Judged, Outcome, Row};
use crate::exact::{FUNCTIONS, listed};
use crate::number::{Prefix, counted, decimals, detectable, difference, interval, p_value};
use crate::screen::{Text, harmless, paragraph, width};
use crate::section::{Name, Named, WARNING, named};
use crate::table::{Cell as Words, Column, Mark, Table, shorten, wrap};

/// Widths of a name, in characters: if columns are next to each other, and if they are below each
/// other.
const NAME_BESIDE: usize = 16;
const NAME_BELOW: usize = 28;
/// Maximum number of cases that the sentence on a limit lists; more become a table.
const CASES: usize = 2;
/// Width of a case in that table, and the indent of its rows.
const NAME_CASE: usize = 40;
const LIMIT: &str = "          ";
/// Warnings that are shown; all of them are in the JSON document.
const WARNINGS: usize = 12;

/// Renders the comparison for the terminal; `verbose` adds the results of the other tests.
pub fn text(outcome: &Outcome, judged: &[Judged], verbose: bool) -> Text {
    let scale = Scale::for_outcome(outcome);
    let mut text = wrap(&verdict(outcome, judged), width(), "");
    let of = match all(outcome).all(|(_, compared)| compared.test == COUNTS) {
        true => String::new(),
        false => format!("{} % ", outcome.confidence_percent),
    };
    let title = scale.title(&outcome.metric);
    let title = format!("{title}: median ± half of its {of}interval; min - max below");
    text += &format!("\n{}", wrap(&title, width(), ""));
    let beside = baseline_table(outcome, &scale);
    let fits = outcome.columns.len() == 2 && beside.text_width() < width();
    let table = if fits { beside } else { below(outcome, &scale) };
    text.push_str(&table.text(width()));
    text.push('\n');
    let widest = if fits { NAME_BESIDE } else { NAME_BELOW - 2 };
    let is_long = |judged: &&Judged| {
        judged.failed.len() + judged.not_judged.len() + judged.inconclusive.len() > CASES
    };
    let (long, brief): (Vec<&Judged>, Vec<&Judged>) = judged.iter().partition(is_long);
    let brief: Vec<Judged> = brief.into_iter().cloned().collect();
    let mut text = Text::from(text);
    let mut last = "".into();
    let mut lines = notes(outcome, &brief, verbose, widest);
    if verbose {
        lines.extend(named("others", other_tests(outcome)));
    }
    for (name, sentence) in lines {
        text.paragraph(if name == last { "".into() } else { name }, &sentence);
        last = name;
    }
    for judged in long {
        text.plain(&limit(judged));
    }
    text
}

/// Renders a limit with many cases that exceed it or cannot be judged: a sentence, and a table of
/// these cases with the reasons.
fn limit(judged: &Judged) -> String {
    let sentence = match judged.failed.len() {
        0 => judged.lines(ACCEPT_INCONCLUSIVE).swap_remove(0),
        failed => format!(
            "{}: FAILED by {}",
            judged.limit,
            counted(failed as u64, "comparison")
        ),
    };
    let reasons = |what: &str, cases: &[String]| -> Vec<(String, String)> {
        let reason = |case: &String| {
            let (case, cause) = case.split_once(": ").unwrap_or((case, ""));
            (shorten(case, NAME_CASE), format!("{what}{cause}"))
        };
        cases.iter().map(reason).collect()
    };
    let mut rows = vec![("case".to_owned(), "why".to_owned())];
    rows.extend(reasons("", &judged.failed));
    rows.extend(reasons("not judged, ", &judged.not_judged));
    rows.extend(reasons("inconclusive, ", &judged.inconclusive));
    let widest = rows.iter().map(|(case, _)| case.chars().count()).max();
    let widest = widest.unwrap_or(0);
    let indent = " ".repeat(LIMIT.len() + widest + 2);
    let mut text = paragraph("fail-if", &sentence);
    for (case, cause) in rows {
        let cause = wrap(&cause, width(), &indent);
        let cause = cause.get(indent.len()..).unwrap_or("\n");
        text += &format!("{LIMIT}{case:<widest$}  {cause}");
    }
    text
}

/// Returns the answer in a sentence: which differences are proven, and whether they are within the
/// limits.
fn verdict(outcome: &Outcome, judged: &[Judged]) -> String {
    let names: Vec<String> = heads(outcome, NAME_BELOW - 2)
        .into_iter()
        // a configuration may be called none
        .map(|name| format!("`{name}`"))
        .collect();
    let [baseline, others @ ..] = &names[..] else {
        return String::new();
    };
    let all: Vec<(&Row, &Compared)> = all(outcome).collect();
    let proven: Vec<&(&Row, &Compared)> = all.iter().filter(|(_, c)| c.is_proven()).collect();
    let open = all.iter().filter(|(_, c)| c.verdict == Verdict::CannotTell);
    let open = open.count();
    let number = all.len();
    let mut found = match (&all[..], &proven[..]) {
        ([(_, compared)], _) => {
            let at = outcome
                .columns
                .iter()
                .position(|c| c.name == compared.column);
            one(&names[at.unwrap_or(0)], baseline, compared, &outcome.metric)
        }
        (_, []) if open == number => {
            format!("No result: none of {number} comparisons with {baseline} can tell")
        }
        (_, []) => match others {
            [other] => format!("No difference found between {baseline} and {other}"),
            _ => format!("No difference found between {baseline} and the others"),
        },
        (_, [(row, compared)]) => format!(
            "1 of {number} comparisons with {baseline} shows a difference: {}, {}",
            place(outcome, row, &compared.column),
            difference_cell(compared)[0]
        ),
        (_, proven) => {
            let sizes = proven.iter().filter_map(|(_, c)| c.difference_percent);
            let least = sizes.clone().fold(f64::INFINITY, f64::min);
            let most = sizes.fold(f64::NEG_INFINITY, f64::max);
            let [low, high] = [least, most].map(|percent| difference(percent, None));
            let range = match least <= most {
                true if low == high => format!(" of {low} %"),
                true => format!(" of {low} to {high} %"),
                false => String::new(),
            };
            let differ = proven.len();
            format!("{differ} of {number} comparisons with {baseline} show a difference{range}")
        }
    };
    if (1..number).contains(&open) {
        found += &format!("; {open} of {number} cannot tell");
    }
    let unlike = outcome.columns.iter().find_map(|one| outcome.unlike(one));
    let unlike = unlike.map_or(String::new(), |why| format!("{why}. "));
    format!("{}{unlike}{found}.", in_short(judged))
}

/// Returns the answer for a single comparison.
fn one(name: &str, baseline: &str, compared: &Compared, metric: &str) -> String {
    let measured = match (compared.difference_percent, compared.interval_percent) {
        (Some(percent), Some(ends)) => format!(
            "(measured {} %; anything from {} % is possible)",
            difference(percent, Some(ends)),
            interval(ends)
                .trim_matches(['[', ']'])
                .replace(", ", " to "),
        ),
        _ => String::new(),
    };
    let equal = compared.equivalence.as_ref();
    let equal = equal.filter(|found| found.verdict == "equivalent");
    match (compared.verdict, equal) {
        (Verdict::CannotTell, _) => {
            let reason = compared.disagreement.as_ref().or(compared.warnings.first());
            let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
            format!("No result for {baseline} and {name}{reason}")
        }
        (_, Some(equal)) => format!(
            "{baseline} and {name} are equal within {} % {measured}",
            equal.margin_percent
        ),
        (Verdict::Less | Verdict::More, None) => format!(
            "{name} differs from {baseline}: {} {}",
            metric.replace('-', " "),
            difference_cell(compared)[0]
        ),
        (Verdict::NoDifference, None) => {
            format!("No difference found between {baseline} and {name} {measured}")
        }
    }
}

/// How values are written.
pub(crate) struct Scale {
    prefix: Option<Prefix>,
    unit: String,
}

impl Scale {
    pub(crate) fn for_outcome(outcome: &Outcome) -> Scale {
        let cells = outcome
            .rows
            .iter()
            .flat_map(|row| row.cells.iter().flatten());
        Scale::new(&outcome.unit, cells.map(|cell| cell.median))
    }

    /// Returns the scale of these values.
    pub(crate) fn new(unit: &str, medians: impl Iterator<Item = f64>) -> Scale {
        let prefix = (unit == "pps").then(|| Prefix::for_largest(medians));
        let unit = prefix.map_or(unit.to_owned(), Prefix::pps);
        Scale { prefix, unit }
    }

    /// Returns the title: `forwarding rate in Mpps`.
    pub(crate) fn title(&self, metric: &str) -> String {
        match self.unit.as_str() {
            "" => "values".into(),
            unit => format!("{} in {unit}", metric.replace('-', " ")),
        }
    }

    /// Formats a value with the digits that `spread` justifies.
    pub(crate) fn number(&self, value: f64, spread: f64) -> String {
        let divisor = self.prefix.map_or(1.0, |prefix| prefix.divisor);
        let (value, spread) = (value / divisor, (spread / divisor).abs());
        if value != 0.0 && !(1e-4..1e15).contains(&value.abs()) {
            return format!("{value:.4e}");
        }
        let least = decimals(value, 4, 9);
        let most = decimals(value, 6, 9).max(least);
        let requested = if spread > 0.0 {
            decimals(spread, 2, 9)
        } else {
            least
        };
        format!("{value:.*}", requested.clamp(least, most))
    }

    /// Formats a value with its unit.
    pub(crate) fn plain(&self, value: f64) -> String {
        let text = format!("{} {}", self.number(value, 0.0), self.unit);
        text.trim_end().to_owned()
    }

    /// Formats a tick label.
    pub(crate) fn tick(&self, value: f64, step: f64) -> String {
        match self.prefix {
            Some(prefix) => prefix.tick(value, step),
            None => format!("{value:.*}", decimals(step, 1, 9)),
        }
    }

    /// Formats a cell: `4.648 ± 2.5 %`, and `4.500 - 4.736`.
    pub(crate) fn cell(&self, cell: &Cell) -> [String; 2] {
        let half = cell.interval_half_width_percent;
        let spread = half.map_or(cell.max - cell.min, |half| half / 100.0 * cell.mean);
        let number = |value| self.number(value, spread);
        let value = match half {
            Some(half) => format!("{} ± {} %", number(cell.median), share(half)),
            None => number(cell.median),
        };
        [
            value,
            format!("{} - {}", number(cell.min), number(cell.max)),
        ]
    }
}

/// Formats a size in percent without its sign: `2.5`, `0.08`.
fn share(percent: f64) -> String {
    difference(percent.abs(), Some([0.0, 2.0 * percent.abs()]))
        .trim_start_matches('+')
        .to_owned()
}

/// Formats a difference: `-27.9 % [-29.1, -26.7]`, or `~ [-1.8, +2.8]` and the smallest detectable
/// difference.
pub(crate) fn difference_cell(compared: &Compared) -> [String; 2] {
    let ends = compared.interval_percent;
    let shown = ends.map_or(String::new(), |ends| format!(" {}", interval(ends)));
    if compared.verdict == Verdict::CannotTell {
        return ["cannot tell".into(), String::new()];
    }
    if !compared.is_proven() {
        let would =
            compared
                .detectable_percent
                .map(|p| match p < 100.0 || compared.pairs.is_some() {
                    true => format!("{} % would show", detectable(p)),
                    false => "no drop would show".into(),
                });
        return [format!("~{shown}"), would.unwrap_or_default()];
    }
    let value = match compared.difference_percent {
        Some(percent) => format!("{} %{shown}", difference(percent, ends)),
        None if compared.verdict == Verdict::Less => "less".into(),
        None => "more".into(),
    };
    [value, String::new()]
}

/// Formats the p-value and the numbers of values: `0.008`, and `n 5, 5` or `12 pairs`.
fn p_cell(compared: &Compared) -> [String; 2] {
    let p = compared.p_value_adjusted.or(compared.p_value);
    let n = match (&compared.pairs, compared.n) {
        (Some(pairs), _) => counted(pairs.n as u64, "pair"),
        (None, [one, other]) => format!("n {one}, {other}"),
    };
    [p.map_or(String::new(), p_value), n]
}

/// Formats the result of the equivalence test.
pub(super) fn equivalence_cell(compared: &Compared) -> [String; 2] {
    let found = compared.equivalence.as_ref();
    let claim = found.map_or("", |found| match found.verdict {
        "equivalent" => "proven",
        "different" => "beyond",
        _ => "open",
    });
    [claim.to_owned(), String::new()]
}

/// Returns the heading of the column on equivalence, if there are any results.
pub(super) fn equivalence_head(outcome: &Outcome) -> Option<String> {
    let mut compared = outcome.rows.iter().flat_map(|row| &row.comparisons);
    let margin = compared
        .find_map(|c| c.equivalence.as_ref())?
        .margin_percent;
    Some(format!("within {margin} %"))
}

/// Returns a table with two lines per test case; the baseline and the other column are next to each
/// other.
fn baseline_table(outcome: &Outcome, scale: &Scale) -> Table {
    let mut columns = vec![Column::left("", &[])];
    for name in heads(outcome, NAME_BESIDE) {
        columns.push(Column::plus_minus(&name, &[]));
    }
    columns.push(Column::left("difference", &[]));
    columns.push(Column::left("p", &[]));
    let equivalence = equivalence_head(outcome);
    columns.extend(equivalence.iter().map(|head| Column::left(head, &[])));
    let mut table = Table::new(columns);
    for row in &outcome.rows {
        let mut lines = vec![[row.test_case.clone(), String::new()]];
        lines.extend(row.cells.iter().map(|cell| values_of(cell.as_ref(), scale)));
        let compared = row.comparisons.first();
        lines.extend(judged_cells(compared, equivalence.is_some()));
        push(&mut table, lines);
    }
    table
}

/// Returns a table with a heading per test case, and two lines per column below it.
fn below(outcome: &Outcome, scale: &Scale) -> Table {
    let mut columns = vec![
        Column::left("", &[]),
        Column::plus_minus("median", &[]),
        Column::left("difference", &[]),
        Column::left("p", &[]),
    ];
    let equivalence = equivalence_head(outcome);
    columns.extend(equivalence.iter().map(|head| Column::left(head, &[])));
    let width = columns.len();
    let mut table = Table::new(columns);
    let names = heads(outcome, NAME_BELOW - 2);
    for row in &outcome.rows {
        let mut head = vec![Words::text(shorten(&row.test_case, 2 * NAME_BELOW))];
        if outcome.rows.len() > 1 {
            head.resize(width, Words::default());
            table.push(Mark::None, head);
        }
        for ((column, name), cell) in outcome.columns.iter().zip(&names).zip(&row.cells) {
            let name = format!("  {name}");
            let mut lines = vec![[name, String::new()], values_of(cell.as_ref(), scale)];
            lines.extend(judged_cells(
                column_cell(row, &column.name),
                equivalence.is_some(),
            ));
            push(&mut table, lines);
        }
    }
    table
}

/// Returns the column names for a table: without their common directories, and at most `widest`
/// characters wide.
fn heads(outcome: &Outcome, widest: usize) -> Vec<String> {
    let names: Vec<&str> = outcome.columns.iter().map(|c| c.name.as_str()).collect();
    let shared = shared_directories(&names);
    names
        .iter()
        .map(|n| shorten(&n[shared..], widest))
        .collect()
}

/// Returns the length of the directories that all names share, in bytes.
fn shared_directories(names: &[&str]) -> usize {
    let Some(first) = names.first() else {
        return 0;
    };
    let mut ends = first.match_indices('/').map(|(at, _)| at + 1).rev();
    ends.find(|&end| names.iter().all(|name| name.starts_with(&first[..end])))
        .unwrap_or(0)
}

fn column_cell<'a>(row: &'a Row, column: &str) -> Option<&'a Compared> {
    row.comparisons.iter().find(|c| c.column == column)
}

fn values_of(cell: Option<&Cell>, scale: &Scale) -> [String; 2] {
    cell.map_or(["NA".into(), String::new()], |cell| scale.cell(cell))
}

fn judged_cells(compared: Option<&Compared>, equivalence: bool) -> Vec<[String; 2]> {
    let mut cells = match compared {
        Some(c) => vec![difference_cell(c), p_cell(c), equivalence_cell(c)],
        None => vec![[String::new(), String::new()]; 3],
    };
    cells.truncate(if equivalence { 3 } else { 2 });
    cells
}

fn push(table: &mut Table, lines: Vec<[String; 2]>) {
    for index in 0..2 {
        let cells = lines.iter().map(|pair| Words::text(pair[index].clone()));
        table.push(Mark::None, cells.collect());
    }
}

/// With several columns, above this number unmatched test cases are only counted, not listed.
const UNMATCHED: usize = 6;

/// Returns the notes below the table, with their names. The table shortens names of more than
/// `widest` characters; the notes have them in full.
pub(crate) fn notes(
    outcome: &Outcome,
    judged: &[Judged],
    verbose: bool,
    widest: usize,
) -> Vec<Named> {
    let mut notes = Vec::new();
    let mut first = |name: Name, sentences: Vec<String>| notes.extend(named(name, sentences));
    first("baseline".into(), vec![outcome.baseline.clone()]);
    let shortened = |name: &&str| name.chars().count() > widest;
    let names = outcome.columns.iter().skip(1).map(|c| c.name.as_str());
    let names: Vec<String> = names.filter(shortened).map(str::to_owned).collect();
    first("compared".into(), names);
    first("test".into(), tests(outcome));
    let mut unproven = all(outcome).filter(|(_, c)| c.verdict == Verdict::NoDifference);
    if let Some((_, first_one)) = unproven.next() {
        let sentence = match first_one.test == COUNTS && unproven.all(|(_, c)| c.test == COUNTS) {
            true => {
                "no difference proven; next to it, the smallest difference that is certain to show"
                    .into()
            }
            false => format!(
                "no difference proven at {} % confidence; next to it, the smallest difference that this number of values with this \
                 spread would show with 80 % probability",
                outcome.confidence_percent
            ),
        };
        first("~".into(), vec![sentence]);
    }
    let has_p = |row: &Row| row.comparisons.iter().any(|c| c.p_value.is_some());
    let rows = outcome.rows.iter().filter(|row| has_p(row));
    if let Some(most) = rows.map(|row| row.comparisons.len()).max()
        && most > 1
    {
        let sentence = format!(
            "adjusted by Holm for the {most} comparisons of a test case, as are the verdicts; intervals are not"
        );
        first("p".into(), vec![sentence]);
    }
    first("pairs".into(), pairs(outcome));
    let changed = all(outcome).filter(|(_, c)| c.is_proven() && !c.functions.is_empty());
    let changed = changed.map(|(row, compared)| {
        let place = place(outcome, row, &compared.column);
        format!("{place}: {}", listed(&compared.functions, FUNCTIONS))
    });
    first("function".into(), changed.collect());
    let unlike = outcome.columns.iter().skip(1);
    first(
        "unlike".into(),
        unlike.filter_map(|column| outcome.unlike(column)).collect(),
    );
    first("differ".into(), differing(outcome));
    first(WARNING, warnings(outcome));
    let unmatched = outcome.unmatched.iter().map(|row| {
        let (only, missing) = (row.only_in.join(", "), row.missing_in.join(", "));
        match row.only_in.is_empty() {
            true => format!("{}: no valid value", row.test_case),
            false => format!("{}: in {only}, not in {missing}", row.test_case),
        }
    });
    let unmatched: Vec<String> = unmatched.collect();
    // columns that are not comparable share few test cases: give the number instead of a long list
    first(
        "missing".into(),
        match outcome.columns.len() > 2 && unmatched.len() > UNMATCHED && !verbose {
            true => vec![format!(
                "{} of {} test cases are not in all columns",
                unmatched.len(),
                unmatched.len() + outcome.rows.len()
            )],
            false => unmatched,
        },
    );
    first(
        "fail-if".into(),
        judged
            .iter()
            .flat_map(|judged| judged.lines(ACCEPT_INCONCLUSIVE))
            .collect(),
    );
    notes
}

fn all(outcome: &Outcome) -> impl Iterator<Item = (&Row, &Compared)> {
    let rows = outcome.rows.iter();
    rows.flat_map(|row| row.comparisons.iter().map(move |c| (row, c)))
}

/// Returns the place of a value: `64 B, nft-stateful`, or only the column if there is one row.
fn place(outcome: &Outcome, row: &Row, column: &str) -> String {
    match outcome.rows.len() {
        1 => column.to_owned(),
        _ => format!("{}, {column}", row.test_case),
    }
}

/// Describes which tests decided, on which assumption, and why.
fn tests(outcome: &Outcome) -> Vec<String> {
    let mut counts: BTreeMap<&str, (usize, &Compared)> = BTreeMap::new();
    for (_, compared) in all(outcome).filter(|(_, one)| one.test != NO_TEST) {
        counts.entry(compared.test).or_insert((0, compared)).0 += 1;
    }
    let number = all(outcome).count();
    let mut sentences: Vec<String> = counts
        .into_values()
        .map(|(count, compared)| {
            let name = name_of(compared.test);
            let of = if count < number {
                format!(" ({count} of {number})")
            } else {
                String::new()
            };
            format!("{name}{of}, which assumes {}", compared.assumption)
        })
        .collect();
    sentences.extend(all(outcome).filter_map(|(row, compared)| {
        let reason = compared.reason.as_ref()?;
        let place = place(outcome, row, &compared.column);
        Some(format!("ranks for {place}, because {reason}"))
    }));
    sentences
}

fn pairs(outcome: &Outcome) -> Vec<String> {
    let words = |(row, compared): (&Row, &Compared)| {
        let pairs = compared.pairs.as_ref()?;
        let drift = |what: &str, unit: &str, drift: Option<Drift>| {
            drift.map_or(String::new(), |d| {
                let ends = d.interval_percent;
                let change = difference(d.change_percent, Some(ends));
                format!(", {what} {change} {unit} {}", interval(ends))
            })
        };
        let spread = pairs.spread_percent.map_or(String::new(), |spread| {
            format!("; differences spread by {} %", share(spread))
        });
        Some(format!(
            "{}: {} {}{spread}{}{}",
            place(outcome, row, &compared.column),
            pairs.n,
            pairs.why,
            drift(
                "from first to last the baseline drifts by",
                "%",
                pairs.drift_of_baseline
            ),
            drift("the differences by", "points", pairs.drift_of_differences),
        ))
    };
    all(outcome).filter_map(words).collect()
}

/// Returns what other tests find in the same values.
pub(crate) fn other_tests(outcome: &Outcome) -> Vec<String> {
    all(outcome)
        .flat_map(|(row, compared)| {
            compared.other_tests.iter().map(move |other| {
                let ends = other.interval_percent;
                let value = other
                    .difference_percent
                    .map_or("no value".into(), |percent| {
                        format!("{} %", difference(percent, ends))
                    });
                let ends = ends.map_or(String::new(), |ends| format!(" {}", interval(ends)));
                let p = other
                    .p_value
                    .map_or(String::new(), |p| format!(", p {}", p_value(p)));
                format!(
                    "{}: {} {value}{ends}{p}",
                    place(outcome, row, &compared.column),
                    name_of(other.test)
                )
            })
        })
        .collect()
}

/// Returns labels in which the columns differ, apart from the one that makes the columns.
fn differing(outcome: &Outcome) -> Vec<String> {
    let Some((baseline, others)) = outcome.columns.split_first() else {
        return Vec::new();
    };
    let mut sentences = Vec::new();
    for (key, value) in &baseline.labels {
        let differs = |column: &&super::Column| column.labels.get(key).is_some_and(|v| v != value);
        let known = key == "run" || *key == outcome.by;
        if !known && others.iter().any(|column| differs(&column)) {
            let values = others.iter().filter_map(|c| c.labels.get(key));
            let mut values: Vec<&str> = values.map(String::as_str).collect();
            values.dedup();
            sentences.push(format!("{key}: {value} against {}", values.join(", ")));
        }
    }
    sentences
}

/// Returns the warnings. One that holds in several places is printed once.
fn warnings(outcome: &Outcome) -> Vec<String> {
    // each warning, the words between it and its place, and all its places
    let mut warnings: Vec<(&str, &str, Vec<String>)> = Vec::new();
    let mut add = |place: String, between, warning| {
        let is_same =
            |known: &&mut (&str, &str, Vec<String>)| (known.0, known.1) == (warning, between);
        match warnings.iter_mut().find(is_same) {
            Some((_, _, places)) if places.contains(&place) => {}
            Some((_, _, places)) => places.push(place),
            None => warnings.push((warning, between, vec![place])),
        }
    };
    for row in &outcome.rows {
        for cell in row.cells.iter().flatten() {
            for warning in &cell.warnings {
                add(place(outcome, row, &cell.column), ": ", warning);
            }
        }
        for compared in &row.comparisons {
            for warning in &compared.warnings {
                // for independent values, the warning contains the column
                match (outcome.rows.len(), &compared.pairs) {
                    (1, None) => add(String::new(), "", warning),
                    (_, None) => add(row.test_case.clone(), ", ", warning),
                    (_, Some(_)) => add(place(outcome, row, &compared.column), ": ", warning),
                }
            }
        }
    }
    let in_words = |(warning, between, places): (&str, &str, Vec<String>)| match &places[..] {
        [] => warning.to_owned(),
        [first] => format!("{first}{between}{warning}"),
        [first, others @ ..] => format!("{first} and {} more{between}{warning}", others.len()),
    };
    let mut warnings = Vec::from_iter(warnings.into_iter().map(in_words));
    if warnings.len() > WARNINGS {
        let more = warnings.len() - WARNINGS;
        warnings.truncate(WARNINGS);
        warnings.push(format!("{more} more; --json has all of them"));
    }
    warnings
}

/// Renders change points for the terminal.
pub fn changes(changes: &Changes) -> String {
    let means = changes
        .rows
        .iter()
        .flat_map(|row| row.groups.iter().map(|g| g.mean));
    let scale = Scale::new(&changes.unit, means);
    let mut text = format!(
        "{}: groups in the order given\n",
        scale.title(&changes.metric)
    );
    for row in &changes.rows {
        let mut table = Table::new(vec![
            Column::left(&shorten(&row.test_case, 2 * NAME_BELOW), &[]),
            Column::right("n", &[]),
            Column::right("mean", &[]),
            Column::right("stdev", &[]),
            Column::left("", &[]),
        ]);
        for group in &row.groups {
            let name = |name: &str| shorten(name, NAME_BESIDE);
            let range = match group.first == group.last {
                true => name(&group.from),
                false => format!("{} - {}", name(&group.from), name(&group.to)),
            };
            let by = group.difference_percent.map_or(String::new(), |percent| {
                format!("{} of {} %", group.shift, difference(percent, None))
            });
            let wait = if group.unconfirmed {
                "; wait for the next value before raising an alarm"
            } else {
                ""
            };
            let cells = [
                range,
                group.n.to_string(),
                scale.number(group.mean, group.stdev),
                scale.number(group.stdev, group.stdev),
                format!("{by}{wait}"),
            ];
            table.push(Mark::None, cells.map(Words::text).to_vec());
        }
        text.push('\n');
        text.push_str(&table.text(width()));
        if !row.missing.is_empty() {
            text.push_str(&paragraph("missing", &row.missing.join(", ")));
        }
        for reason in &row.not_comparable {
            text.push_str(&paragraph("left out", reason));
        }
    }
    harmless(&text)
}

#[cfg(test)]
mod tests {
    use super::shared_directories;

    #[test]
    fn only_whole_directories_that_all_share_are_left_out() {
        for (names, shared) in [
            (&["/lab/one.pps", "/lab/two.pps"][..], 5),
            (&["lab/a/x.pps", "lab/ab/x.pps"], 4),
            (&["x.pps", "lab/x.pps"], 0),
            (&["größe/x", "größe/y"], 8),
            (&[], 0),
        ] {
            assert_eq!(shared_directories(names), shared, "{names:?}");
        }
    }
}
