//! A table as a value, built once and rendered as text, Markdown, HTML or CSV.
//!
//! It knows cells and alignment, and no results. Plain text is rendered here, Markdown and CSV in the files of these names; `table!` writes a
//! table with each column next to its cells. Start with [`Table`].

mod csv;
mod markdown;

use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use csv::csv_line;
pub(crate) use markdown::escaped;

/// How the cells of a column stand under each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
    /// `value ± interval`: the signs stand under each other.
    PlusMinus,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// What people read above it.
    pub head: String,
    /// Names of the plain values in it, with their units (CSV): none, one or several.
    pub fields: &'static [&'static str],
    /// How its cells stand.
    pub align: Align,
    /// Sentences or commands: they may be broken into lines.
    pub prose: bool,
    /// Too long to stand beside others: where it is not empty, it goes on lines of its own below the row (text, HTML).
    pub below: bool,
}

impl Column {
    /// A column of numbers.
    pub fn right(head: &str, fields: &'static [&'static str]) -> Column {
        Column {
            head: head.to_owned(),
            fields,
            align: Align::Right,
            prose: false,
            below: false,
        }
    }

    /// A column of words.
    pub fn left(head: &str, fields: &'static [&'static str]) -> Column {
        Column {
            align: Align::Left,
            ..Column::right(head, fields)
        }
    }

    /// A column of values with an interval.
    pub fn plus_minus(head: &str, fields: &'static [&'static str]) -> Column {
        Column {
            align: Align::PlusMinus,
            ..Column::right(head, fields)
        }
    }

    /// A column of commands or short sentences.
    pub fn prose(head: &str, fields: &'static [&'static str]) -> Column {
        Column {
            prose: true,
            ..Column::left(head, fields)
        }
    }

    /// A column of sentences.
    pub fn below(head: &str, fields: &'static [&'static str]) -> Column {
        Column {
            below: true,
            ..Column::prose(head, fields)
        }
    }
}

/// A cell: what people read, and the plain values behind it (one per field of its column; empty when absent).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    /// For people.
    pub text: String,
    /// For programs: base units, no separators.
    pub raw: Vec<String>,
}

impl Cell {
    /// Words that are their own value. For people they have one line: a name of others begins none.
    pub fn text(text: impl Into<String>) -> Cell {
        let text = text.into();
        Cell {
            text: text.replace(['\n', '\r'], " "),
            raw: vec![text],
        }
    }

    /// What people read, and the plain value behind it.
    pub fn new(text: impl Into<String>, raw: impl ToString) -> Cell {
        Cell {
            text: text.into(),
            raw: vec![raw.to_string()],
        }
    }

    /// What people read, and several plain values behind it.
    pub fn with_values<const N: usize>(text: impl Into<String>, raw: [String; N]) -> Cell {
        Cell {
            text: text.into(),
            raw: raw.into(),
        }
    }

    /// A value that may not exist.
    pub fn optional<T: ToString + Copy>(
        value: Option<T>,
        absent: &str,
        format: impl Fn(T) -> String,
    ) -> Cell {
        match value {
            Some(value) => Cell::new(format(value), value),
            None => Cell {
                text: absent.to_owned(),
                raw: vec![String::new()],
            },
        }
    }
}

/// What is special about a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mark {
    /// Nothing.
    #[default]
    None,
    /// The A/A control.
    Control,
    /// It may not be used.
    Invalid,
}

/// A row: one cell per column.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The cells.
    pub cells: Vec<Cell>,
    /// What is special about it.
    pub mark: Mark,
    /// The test case whose figures it has first, by its place in the summary: sentences on a page lead there.
    pub of: Option<usize>,
}

/// Columns and rows; every row has as many cells as there are columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The columns, from the left.
    pub columns: Vec<Column>,
    /// The rows, from the top.
    pub rows: Vec<Row>,
}

/// A table whose columns stand next to their cells: one row, or a row per item.
///
/// ```text
/// table! {
///     node in nodes, Mark::None;
///     left("node", "node") => Cell::text(&node.name),
///     right("calls", "calls") => Cell::new(count(node.calls), node.calls),
/// }
/// ```
macro_rules! table {
    ($item:pat in $items:expr, $mark:expr; $($column:ident($head:expr, $($field:literal),+) => $cell:expr,)+) => {{
        let columns = vec![$($crate::table::Column::$column(&*$head, &[$($field),+]),)+];
        let mut table = $crate::table::Table::new(columns);
        for $item in $items {
            table.push($mark, vec![$($cell,)+]);
        }
        table
    }};
    ($item:pat in $items:expr; $($columns:tt)+) => {
        $crate::table::table! { $item in $items, $crate::table::Mark::None; $($columns)+ }
    };
    ($($column:ident($head:expr, $($field:literal),+) => $cell:expr,)+) => {{
        let columns = vec![$($crate::table::Column::$column($head, &[$($field),+]),)+];
        let mut table = $crate::table::Table::new(columns);
        table.push($crate::table::Mark::None, vec![$($cell,)+]);
        table
    }};
}
pub(crate) use table;

const GAP: &str = "  ";

/// Columns of the terminal; where there is none a table is as wide as it is.
static FOLD_AT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Has all tables from now on folded that are wider than this.
pub(crate) fn fold_at(columns: usize) {
    FOLD_AT.store(columns, Ordering::Relaxed);
}

/// Before the columns that did not fit beside the others.
const FOLDED: &str = "    ";

impl Table {
    /// A table without rows.
    pub fn new(columns: Vec<Column>) -> Table {
        Table {
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn push(&mut self, mark: Mark, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(Row {
            cells,
            mark,
            of: None,
        });
    }

    /// The same, its rows with the test cases that they are of, each once.
    #[must_use]
    pub fn of_cases(mut self, of: impl Fn(usize, &Row) -> Option<usize>) -> Table {
        let mut seen = std::collections::BTreeSet::new();
        for (place, row) in self.rows.iter_mut().enumerate() {
            row.of = of(place, row).filter(|case| seen.insert(*case));
        }
        self
    }

    /// Takes out the column with this head, if there is one.
    pub fn remove(&mut self, head: &str) {
        if let Some(index) = self.columns.iter().position(|c| c.head == head) {
            self.columns.remove(index);
            for row in &mut self.rows {
                row.cells.remove(index);
            }
        }
    }

    /// Empties the cells of the column with this head that say the same as the one above them, for readers.
    pub fn say_once(&mut self, head: &str) {
        let Some(index) = self.columns.iter().position(|c| c.head == head) else {
            return;
        };
        let mut said = String::new();
        for row in &mut self.rows {
            let text = &mut row.cells[index].text;
            match *text == said {
                true => text.clear(),
                false => said.clone_from(text),
            }
        }
    }

    /// The same table after [`Table::say_once`].
    #[must_use]
    pub fn said_once(mut self, head: &str) -> Table {
        self.say_once(head);
        self
    }

    /// Columns of plain text that the table needs, the leading blank and sentences below the rows not counted.
    pub fn text_width(&self) -> usize {
        let widths: Vec<usize> = self.widths();
        let gaps = widths.len().saturating_sub(1) * GAP.len();
        widths.iter().sum::<usize>() + gaps
    }

    /// The table as plain text: a line for the heads, then the rows, each begun by a blank; sentences below their row
    /// are wrapped at `width`. A table that is wider than the terminal ([`fold_at`]) is folded: what does not fit of every line goes
    /// below it, indented.
    pub fn text(&self, width: usize) -> String {
        self.folded(width, FOLD_AT.load(Ordering::Relaxed))
    }

    pub(crate) fn folded(&self, width: usize, fold_at: usize) -> String {
        let widths = self.widths();
        let beside: Vec<usize> = self.beside().collect();
        let folds = folds(&widths, fold_at);
        let line = |text: &dyn Fn(usize) -> String| {
            let mut lines = vec![String::new()];
            for (position, (&index, &width)) in beside.iter().zip(&widths).enumerate() {
                let before = match position {
                    0 => " ",
                    _ if folds.contains(&position) => {
                        lines.push(String::new());
                        FOLDED
                    }
                    _ => GAP,
                };
                let left = self.columns[index].align == Align::Left;
                let line = lines.last_mut().expect("begins with one");
                line.push_str(before);
                line.push_str(&pad(&text(index), width, left));
            }
            let mut said: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
            let first = said.remove(0);
            said.retain(|line| !line.is_empty());
            said.insert(0, first);
            said.join("\n") + "\n"
        };
        let mut text = line(&|index| self.columns[index].head.clone());
        for row in &self.rows {
            text.push_str(&line(&|index| self.aligned(index, &row.cells[index].text)));
            for (column, cell) in self.columns.iter().zip(&row.cells) {
                if column.below && !cell.text.is_empty() {
                    for line in cell.text.lines() {
                        text.push_str(&wrap(line, width, "     "));
                    }
                }
            }
        }
        text
    }

    /// Columns that stand beside each other in plain text.
    fn beside(&self) -> impl Iterator<Item = usize> {
        (0..self.columns.len()).filter(|&index| !self.columns[index].below)
    }

    fn widths(&self) -> Vec<usize> {
        self.beside()
            .map(|index| {
                let cells = self
                    .rows
                    .iter()
                    .map(|row| chars(&self.aligned(index, &row.cells[index].text)));
                let head = chars(&self.columns[index].head);
                cells.chain([head]).max().unwrap_or(0)
            })
            .collect()
    }

    /// The text of a cell, filled up on the right so that its `±` stands under the others.
    fn aligned(&self, index: usize, text: &str) -> String {
        if self.columns[index].align != Align::PlusMinus {
            return text.to_owned();
        }
        let after = |text: &str| text.split_once('±').map(|(_, after)| chars(after));
        let widest = self
            .rows
            .iter()
            .filter_map(|row| after(&row.cells[index].text))
            .max();
        match (after(text), widest) {
            (Some(own), Some(widest)) => format!("{text}{}", " ".repeat(widest - own)),
            _ => text.to_owned(),
        }
    }
}

/// Positions of the columns before which a line is folded, so that none is longer than `width`.
fn folds(widths: &[usize], width: usize) -> Vec<usize> {
    let mut folds = Vec::new();
    let mut used = 0;
    for (position, column) in widths.iter().enumerate() {
        let before = if position == 0 { 1 } else { GAP.len() };
        if position > 0 && used + before + column > width {
            folds.push(position);
            used = FOLDED.len() + column;
        } else {
            used += before + column;
        }
    }
    folds
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

fn pad(text: &str, width: usize, left: bool) -> String {
    let fill = " ".repeat(width.saturating_sub(chars(text)));
    if left {
        format!("{text}{fill}")
    } else {
        format!("{fill}{text}")
    }
}

/// Words that stay on the line of the number before them.
const UNITS: [&str; 12] = [
    "%", "B", "s", "ms", "us", "ns", "min", "pps", "kpps", "Mpps", "frames", "trials",
];

/// The words of a text; a number and its unit are one.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let unit = word.trim_end_matches([',', '.', ';', ':', ')']);
        match words.last_mut() {
            Some(last) if UNITS.contains(&unit) && last.ends_with(|c: char| c.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// `text` in lines of at most `width` characters, each begun by `indent`. A word that is longer than a line is cut.
pub fn wrap(text: &str, width: usize, indent: &str) -> String {
    let room = width.saturating_sub(chars(indent)).max(8);
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in words(text) {
        let mut word: Vec<char> = word.chars().collect();
        if !line.is_empty() && chars(&line) + 1 + word.len() > room {
            lines.push(std::mem::take(&mut line));
        }
        while word.len() > room {
            // lists without blanks break behind a comma
            let comma = word[..room].iter().rposition(|c| *c == ',');
            let end = comma.map_or(room, |comma| comma + 1);
            lines.push(word.drain(..end).collect());
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word);
    }
    lines.push(line);
    lines
        .iter()
        .filter(|line| !line.is_empty())
        .map(|line| format!("{indent}{line}\n"))
        .collect()
}

/// `text` in at most `width` characters: what is too much is taken from the middle, because commands differ at the end.
pub fn shorten(text: &str, width: usize) -> String {
    let all: Vec<char> = text.chars().collect();
    if all.len() <= width || width < 8 {
        return text.to_owned();
    }
    let kept = width - 3;
    let head: String = all[..kept.div_ceil(2)].iter().collect();
    let tail: String = all[all.len() - kept / 2..].iter().collect();
    format!("{head}...{tail}")
}

/// `text` as the beginning of a sentence.
pub(crate) fn capital(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let mut table = Table::new(vec![
            Column::left("name", &["name"]),
            Column::plus_minus("rate", &["rate_pps"]),
            Column::right("loss", &["loss_percent"]),
            Column::below("verdict", &["verdict"]),
        ]);
        let row = |name: &str, rate: &str, loss: &str, verdict: &str| {
            [name, rate, loss, verdict].map(Cell::text).to_vec()
        };
        table.push(Mark::None, row("a", "598.1 ± 4.2 kpps", "2 %", "good"));
        table.push(
            Mark::None,
            row("long", "98.12 ± 10.23 kpps", "27.9 %", "one two three"),
        );
        table.push(Mark::None, row("b", "none", "", ""));
        let expect = "
 name                rate    loss
 a     598.1 ± 4.2 kpps       2 %
     good
 long  98.12 ± 10.23 kpps  27.9 %
     one two three
 b                   none
";
        assert_eq!(table.folded(33, 33), expect[1..]);
        assert_eq!(table.text_width(), 32);
        let folded = "
 name                rate
      loss
 a     598.1 ± 4.2 kpps
       2 %
     good
 long  98.12 ± 10.23 kpps
    27.9 %
     one two three
 b                   none
";
        assert_eq!(table.folded(32, 32), folded[1..]);
        for width in 26..40 {
            let lines = table.folded(width, width);
            assert!(
                lines.lines().all(|line| chars(line) <= width),
                "{width}: {lines}"
            );
        }
    }

    #[test]
    fn wraps_and_shortens() {
        assert_eq!(wrap("aaa bbb ccc", 9, "  "), "  aaa bbb\n  ccc\n");
        assert_eq!(wrap("abcdefghijkl m", 8, ""), "abcdefgh\nijkl m\n");
        assert_eq!(wrap("a abcdefghijkl", 8, ""), "a\nabcdefgh\nijkl\n");
        assert_eq!(wrap("ab=1,cd=2,ef", 8, ""), "ab=1,\ncd=2,ef\n");
        assert_eq!(wrap("  ", 8, ""), "");
        assert_eq!(wrap("in all 52 s, or", 9, ""), "in all\n52 s, or\n");
        assert_eq!(shorten("nft add rule ip t drop", 14), "nft ad... drop");
        assert_eq!(shorten("short", 14), "short");
    }
}
