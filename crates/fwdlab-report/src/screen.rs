//! The terminal: its width, paragraphs that fit into it, and text without control characters.
//!
//! It knows no results. Start with [`Text`].

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::section::{Level, Name};
use crate::table::wrap;

/// Columns of the terminal at most, and at least.
const WIDEST: usize = 80;
const NARROWEST: usize = 40;
/// Columns of the terminal.
static WIDTH: AtomicUsize = AtomicUsize::new(WIDEST);
/// Columns of the name before a paragraph: ` control  `.
const NAME: usize = 10;

/// Text for a terminal: parts with their levels. The first part begins with the headline.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Text(Vec<(Level, String)>);

impl Text {
    /// Returns the parts, in order.
    pub fn parts(&self) -> &[(Level, String)] {
        &self.0
    }

    /// Appends text without a level. Commands and names come from outside: they must not control
    /// the terminal.
    pub fn plain(&mut self, words: &str) {
        self.0.push((Level::Plain, harmless(words)));
    }

    pub(crate) fn paragraph(&mut self, name: Name, sentence: &str) {
        let words = paragraph(&name.to_string(), sentence);
        self.0.push((name.level, harmless(&words)));
    }
}

impl From<String> for Text {
    fn from(words: String) -> Text {
        let mut text = Text::default();
        text.plain(&words);
        text
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(_, words)| f.write_str(words))
    }
}

/// Sets the width of the terminal. Text is wrapped at it, but never above 80 and never below 40
/// columns; tables are folded at it. Before the first call text is wrapped at 80 columns, and
/// tables are not folded.
pub fn fit(columns: usize) {
    WIDTH.store(columns.clamp(NARROWEST, WIDEST), Ordering::Relaxed);
    crate::table::fold_at(columns.max(NARROWEST));
}

/// The largest number of columns in a line of text.
pub fn width() -> usize {
    WIDTH.load(Ordering::Relaxed)
}

/// Returns true for control characters, and for those that change the direction of text (Unicode's
/// bidirectional controls and separators).
pub fn steers(c: char) -> bool {
    let orders = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || orders
}

/// Replaces control characters by `?`, but keeps line ends: names and commands from outside must
/// not control the terminal.
pub fn harmless(text: &str) -> String {
    text.replace(|c: char| c != '\n' && steers(c), "?")
}

/// A paragraph with its name before it: ` name     text, wrapped and indented`.
pub(crate) fn paragraph(name: &str, text: &str) -> String {
    let body = wrap(text, width(), &" ".repeat(NAME));
    let rest = body.get(NAME..).unwrap_or_default();
    format!(" {name:<width$}{rest}", width = NAME - 1)
}

/// Wraps a line that is too long for the terminal, and indents its continuation below its text.
pub fn hanging(line: &str) -> String {
    if line.chars().count() <= width() {
        return line.to_owned();
    }
    // the first word and the blanks after it are kept
    let word = line.find(' ').unwrap_or(0);
    let blanks = line[word..].chars().take_while(|c| *c == ' ').count();
    let (head, text) = line.split_at(word + blanks);
    let indent = head.chars().count().min(NAME);
    let head = head.trim_end();
    let body = wrap(text, width(), &" ".repeat(indent));
    match body.split_at_checked(indent) {
        Some((_, body)) if head.chars().count() < indent => {
            format!("{head:indent$}{}", body.trim_end())
        }
        _ => wrap(line, width(), "").trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_hangs() {
        let text = paragraph("noise", &"word ".repeat(20));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with(" noise    word") && lines[1].starts_with("          word"));
        assert!(lines.iter().all(|line| line.chars().count() <= width()));
        let text = hanging(&format!("engine    {}", "word ".repeat(20)));
        assert!(text.starts_with("engine    word word") && text.contains("\n          word"));
        assert_eq!(hanging("plain/64B  iteration 1"), "plain/64B  iteration 1");
    }
}
