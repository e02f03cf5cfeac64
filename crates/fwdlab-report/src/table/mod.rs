//! A table as a value, built once and rendered as text, Markdown, HTML or CSV.
//!
//! It has cells and alignment, and does not know results. Plain text is rendered here, Markdown and
//! CSV in the files of these names; `table!` writes a table with each column next to its cells.
//! Start with [`Table`].

mod csv;
mod markdown;

use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use csv::csv_line;
pub(crate) use markdown::escaped;

/// The alignment of the cells of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Left, for words.
    Left,
    /// Right, for numbers.
    Right,
    /// At the `±` of `value ± interval`.
    PlusMinus,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Heading for people.
    pub head: String,
    /// Names of the plain values in CSV, with their units: none, one or several.
    pub fields: &'static [&'static str],
    /// Alignment of the cells.
    pub align: Align,
    /// True for sentences or commands, which may be wrapped.
    pub prose: bool,
    /// True for long text: a cell that is not empty is on lines of its own below the row (text,
    /// HTML).
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

    /// A column of sentences below the row.
    pub fn below(head: &str, fields: &'static [&'static str]) -> Column {
        Column {
            below: true,
            ..Column::prose(head, fields)
        }
    }
}

/// A cell: the text for people, and the plain values behind it (one per field of its column; empty
/// if absent).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    /// Text for people.
    pub text: String,
    /// Values for programs: base units, no separators.
    pub raw: Vec<String>,
}

impl Cell {
    /// A cell whose text is also its value. Line breaks are removed from the text, so it cannot
    /// start a line.
    pub fn text(text: impl Into<String>) -> Cell {
        let text = text.into();
        Cell {
            text: text.replace(['\n', '\r'], " "),
            raw: vec![text],
        }
    }

    /// A cell with text and one plain value.
    pub fn new(text: impl Into<String>, raw: impl ToString) -> Cell {
        Cell {
            text: text.into(),
            raw: vec![raw.to_string()],
        }
    }

    /// A cell with text and several plain values.
    pub fn with_values<const N: usize>(text: impl Into<String>, raw: [String; N]) -> Cell {
        Cell {
            text: text.into(),
            raw: raw.into(),
        }
    }

    /// A cell of a value that may be missing.
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

/// A mark on a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mark {
    /// No mark.
    #[default]
    None,
    /// The row is the A/A control.
    Control,
    /// The row is invalid.
    Invalid,
}

/// A row: one cell per column.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The cells.
    pub cells: Vec<Cell>,
    /// Mark of the row.
    pub mark: Mark,
    /// Index of the test case of which this is the first row; sentences on a page link to it.
    pub case_index: Option<usize>,
}

/// Columns and rows; every row has one cell per column.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The columns, from the left.
    pub columns: Vec<Column>,
    /// The rows, from the top.
    pub rows: Vec<Row>,
}

/// Builds a table with each column next to its cells: a single row, or a row per item.
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

/// Width of the terminal, in columns; tables are not folded before it is set.
static FOLD_AT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Folds all tables that are wider than this from now on.
pub(crate) fn fold_at(columns: usize) {
    FOLD_AT.store(columns, Ordering::Relaxed);
}

/// Returns the width at which tables are folded.
pub(crate) fn fold() -> usize {
    FOLD_AT.load(Ordering::Relaxed)
}

/// Indentation of folded columns.
const FOLDED: &str = "    ";

impl Table {
    /// Returns a table without rows.
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
            case_index: None,
        });
    }

    /// Marks the first row of each test case with the index of the test case, which `of` returns.
    #[must_use]
    pub fn of_cases(mut self, of: impl Fn(usize, &Row) -> Option<usize>) -> Table {
        let mut seen = std::collections::BTreeSet::new();
        for (place, row) in self.rows.iter_mut().enumerate() {
            row.case_index = of(place, row).filter(|case| seen.insert(*case));
        }
        self
    }

    /// Removes the column with this heading, if there is one.
    pub fn remove(&mut self, head: &str) {
        if let Some(index) = self.columns.iter().position(|c| c.head == head) {
            self.columns.remove(index);
            for row in &mut self.rows {
                row.cells.remove(index);
            }
        }
    }

    /// Empties the text of cells in the column with this heading that repeat the cell above; the
    /// plain values stay.
    pub fn hide_repeats(&mut self, head: &str) {
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

    /// Returns the table after [`Table::hide_repeats`].
    #[must_use]
    pub fn with_repeats_hidden(mut self, head: &str) -> Table {
        self.hide_repeats(head);
        self
    }

    /// Returns the width of the table as plain text, in columns, without the leading blank and the
    /// sentences below rows.
    pub fn text_width(&self) -> usize {
        let widths: Vec<usize> = self.widths();
        let gaps = widths.len().saturating_sub(1) * GAP.len();
        widths.iter().sum::<usize>() + gaps
    }

    /// Renders the table as plain text: a line of headings, then the rows, each after a blank;
    /// sentences below a row are wrapped at `width`. A table that is wider than the terminal
    /// ([`fold_at`]) is folded: the columns that do not fit go below the line, indented.
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

    /// Returns the indices of the columns that are next to each other in plain text.
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

    /// Pads the text of a cell on the right so that its `±` is aligned.
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

/// Returns the positions of the columns before which a line is folded, so that no line is longer
/// than `width`.
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

/// Returns the words of a text; a number and its unit are one word.
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

/// Wraps `text` at `width` characters, with `indent` before each line. Cuts words that are longer
/// than a line.
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
            // lists without blanks break after a comma
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

/// Shortens `text` to at most `width` characters. It removes the middle, because commands differ at
/// the end.
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

/// Capitalizes the first letter of `text`.
pub(crate) fn capital(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
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
