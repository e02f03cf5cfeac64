//! Finds ministat blocks in prose: labels, plot, table, differences, as far as each was pasted.
//!
//! People trim lines, change their indentation and rename the sets; a block is what remains. This
//! file only parses ([`super::audit()`] judges). Start with [`blocks`].

use super::scan::{find, shown, words};

/// Symbols of ministat's sets, in their order.
const SYMBOLS: &[u8] = b"x+*%#@O";

/// A ministat block.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Number of its first line in the file, from 1.
    pub line: usize,
    /// Number of the first line of its table.
    pub table_line: usize,
    /// Names of the sets in the block; empty if they were cut off.
    pub labels: Vec<String>,
    /// The plot with its frame, line by line, if it was pasted.
    pub plot: Option<Vec<String>>,
    /// The sets.
    pub rows: Vec<Row>,
}

/// One set: a row of the table and the lines below it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The symbol.
    pub symbol: char,
    /// Number of values.
    pub n: usize,
    /// Min, Max, Median, Avg, Stddev as printed.
    pub figures: [String; 5],
    /// The comparison with the first set, words separated by single blanks; empty if there is none.
    pub difference: Vec<String>,
}

impl Row {
    /// Returns the printed figures as numbers: min, max, median, mean, standard deviation.
    pub fn numbers(&self) -> [f64; 5] {
        [0, 1, 2, 3, 4].map(|at| self.figures[at].parse().unwrap_or(f64::NAN))
    }
}

impl Block {
    /// Returns the confidence level in percent, if a comparison contains it.
    pub fn level_percent(&self) -> Option<f64> {
        let line = self.rows.iter().find_map(|row| row.difference.first())?;
        let at = line.split_whitespace().find(|word| word.ends_with('%'))?;
        at.trim_end_matches('%').parse().ok()
    }
}

/// Returns all blocks of a text, in order.
pub fn blocks(text: &[u8]) -> Vec<Block> {
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').map(unquoted).collect();
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        // The start of a table: its header, or a row whose header was cut off.
        let head = is_head(lines[at]);
        let first = if head { at + 1 } else { at };
        let begins = lines.get(first).and_then(|line| row(line));
        match begins.filter(|row| row.symbol == 'x' || head) {
            Some(_) => {
                let (rows, end) = table(&lines, first);
                blocks.push(with_heading(&lines, at, rows));
                at = end;
            }
            None => at += 1,
        }
    }
    blocks
}

/// Returns lines that look like a ministat table but belong to no block, with their numbers, so
/// that nothing is skipped silently.
pub fn unmatched_lines(text: &[u8], blocks: &[Block]) -> Vec<(usize, String)> {
    let heads: Vec<usize> = blocks.iter().map(|block| block.table_line).collect();
    text.split(|byte| *byte == b'\n')
        .map(unquoted)
        .zip(1..)
        .filter(|(line, number)| is_head(line) && !heads.contains(number))
        .map(|(line, number)| (number, shown(line)))
        .collect()
}

/// Returns a line without Markdown's prefix and trailing blanks.
fn unquoted(line: &[u8]) -> &[u8] {
    let mut line = line.trim_ascii();
    while let Some(rest) = line.strip_prefix(b">") {
        line = rest.trim_ascii_start();
    }
    line
}

/// `    N           Min           Max        Median           Avg        Stddev`.
fn is_head(line: &[u8]) -> bool {
    let expect: [&[u8]; 6] = [b"N", b"Min", b"Max", b"Median", b"Avg", b"Stddev"];
    words(line).eq(expect)
}

fn row(line: &[u8]) -> Option<Row> {
    let mut words = words(line);
    let symbol = match words.next()? {
        [symbol] if SYMBOLS.contains(symbol) => *symbol,
        _ => return None,
    };
    let n = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let mut figures: [String; 5] = Default::default();
    for figure in &mut figures {
        let word = std::str::from_utf8(words.next()?).ok()?;
        let _: f64 = word.trim_start_matches('-').parse().ok()?;
        word.clone_into(figure);
    }
    words.next().is_none().then_some(Row {
        symbol: symbol.into(),
        n,
        figures,
        difference: Vec::new(),
    })
}

/// Parses the rows from `first` on, each with its comparison; returns them and the line after the
/// table.
fn table(lines: &[&[u8]], first: usize) -> (Vec<Row>, usize) {
    let mut rows: Vec<Row> = Vec::new();
    let mut at = first;
    while let Some(line) = lines.get(at) {
        if let Some(next) = row(line) {
            // Symbols come in order: another `x` begins another table.
            if SYMBOLS.get(rows.len()).map(|s| char::from(*s)) != Some(next.symbol)
                && !rows.is_empty()
            {
                break;
            }
            rows.push(next);
        } else if let Some(row) = rows.last_mut()
            && is_difference(line)
        {
            let words: Vec<_> = words(line).map(String::from_utf8_lossy).collect();
            row.difference.push(words.join(" "));
        } else if !(line.is_empty()
            && lines
                .get(at + 1)
                .is_some_and(|next| continues_table(next, rows.len())))
        {
            break;
        }
        at += 1;
    }
    (rows, at)
}

/// Returns true if a table with this number of rows continues with this line, after an empty one.
fn continues_table(line: &[u8], rows: usize) -> bool {
    is_difference(line)
        || row(line).is_some_and(|row| {
            rows > 0 && SYMBOLS.get(rows).map(|s| char::from(*s)) == Some(row.symbol)
        })
}

fn is_difference(line: &[u8]) -> bool {
    line.starts_with(b"Difference at ")
        || line.starts_with(b"No difference proven")
        || find(line, b"+/-").is_some()
        || line.starts_with(b"(Student's t")
}

/// Returns the block of a table: extends upwards through the plot and the labels.
fn with_heading(lines: &[&[u8]], table_at: usize, rows: Vec<Row>) -> Block {
    let mut at = table_at;
    let mut plot = None;
    if at > 0 && is_frame(lines[at - 1]) {
        let mut top = at - 1;
        while top > 0 && lines[top - 1].first() == Some(&b'|') {
            top -= 1;
        }
        if top > 0 && is_frame(lines[top - 1]) {
            top -= 1;
        }
        let text = |line: &&[u8]| String::from_utf8_lossy(line).into_owned();
        plot = Some(lines[top..at].iter().map(text).collect());
        at = top;
    }
    let mut labels = Vec::new();
    for row in rows.iter().rev() {
        let label = at
            .checked_sub(1)
            .and_then(|above| label(lines[above], row.symbol));
        let Some(label) = label else { break };
        labels.insert(0, label);
        at -= 1;
    }
    if labels.len() < rows.len() {
        at += labels.len();
        labels.clear();
    }
    labels.resize(rows.len(), String::new());
    Block {
        line: at + 1,
        table_line: table_at + 1,
        labels,
        plot,
        rows,
    }
}

fn is_frame(line: &[u8]) -> bool {
    matches!(line, [b'+', inner @ .., b'+'] if inner.len() > 1 && inner.iter().all(|b| *b == b'-'))
}

fn label(line: &[u8], symbol: char) -> Option<String> {
    let rest = line.strip_prefix(&[symbol as u8])?;
    let rest = match rest {
        [] => rest,
        [b' ' | b'\t', rest @ ..] => rest,
        _ => return None,
    };
    Some(String::from_utf8_lossy(rest.trim_ascii()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: &str = "Prose.
```
x a.pps
+ b b.pps
+----------+
|xx      ++|
||A|       |
+----------+
    N           Min           Max        Median           Avg        Stddev
x   5       1639912       1984116       1704942     1769454.2     154632.18
+   5       1737180       2194547       1785163     1927662.8     229585.57
Difference at 95.0% confidence
\t440068 +/- 144126
\t9.46731% +/- 3.23827%
\t(Student's t, pooled s = 98821.9)
```
";

    #[test]
    fn a_whole_block() {
        let found = blocks(BLOCK.as_bytes());
        let [block] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((block.line, block.table_line), (3, 9));
        assert_eq!(block.labels, ["a.pps", "b b.pps"]);
        assert_eq!(block.plot.as_ref().map(Vec::len), Some(4));
        assert_eq!(block.rows.len(), 2);
        assert_eq!(block.rows[0].numbers()[2], 1_704_942.0);
        assert_eq!(
            block.rows[1].difference,
            [
                "Difference at 95.0% confidence",
                "440068 +/- 144126",
                "9.46731% +/- 3.23827%",
                "(Student's t, pooled s = 98821.9)"
            ]
        );
        assert_eq!(block.level_percent(), Some(95.0));
        assert_eq!(unmatched_lines(BLOCK.as_bytes(), &found), []);
    }

    #[test]
    fn people_trim_and_indent() {
        let indented: String = BLOCK
            .lines()
            .map(|line| format!("   > {}  \r\n", line.trim()))
            .collect();
        let found = blocks(indented.as_bytes());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].labels, ["a.pps", "b b.pps"]);
        assert_eq!(found[0].rows[1].difference.len(), 4);
        // only the table
        let table: String = BLOCK
            .lines()
            .skip(9)
            .map(|line| format!("{line}\n"))
            .collect();
        let found = blocks(table.as_bytes());
        assert_eq!((found.len(), found[0].rows.len(), found[0].line), (1, 2, 1));
        assert_eq!(found[0].labels, ["", ""]);
        // two in succession
        let twice = format!("{BLOCK}{BLOCK}");
        assert_eq!(blocks(twice.as_bytes()).len(), 2);
        // a header without rows is reported
        let head = "a\n    N           Min           Max        Median           Avg        Stddev\nno rows\n";
        assert_eq!(blocks(head.as_bytes()), []);
        assert_eq!(unmatched_lines(head.as_bytes(), &[]).len(), 1);
    }

    proptest! {
        #[test]
        fn any_text(lines in prop::collection::vec(prop_oneof![
            prop::sample::select(BLOCK.lines().map(str::to_owned).collect::<Vec<_>>()),
            "[x+*%#@O|>] ?[0-9. ]{0,60}",
            ".{0,20}",
        ], 0..30)) {
            let text = lines.join("\n");
            let found = blocks(text.as_bytes());
            for block in &found {
                prop_assert!(!block.rows.is_empty());
                prop_assert_eq!(block.labels.len(), block.rows.len());
                prop_assert!(block.line <= block.table_line);
            }
            // every row of a table is in a block, unless the start of its table is missing
            let heads = lines.iter().filter(|line| is_head(line.as_bytes())).count();
            prop_assert!(unmatched_lines(text.as_bytes(), &found).len() <= heads);
        }
    }
}
