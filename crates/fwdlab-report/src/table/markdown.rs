//! Renders a table in Markdown, and escapes text.
//!
//! It does not know documents. Start with [`Table::markdown`].

use super::{Align, Table};

impl Table {
    /// Renders the table in GitHub's dialect.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.columns.iter().map(|c| escaped(&c.head)).collect());
        let rule = |align| match align {
            Align::Left => "---".to_owned(),
            Align::Right | Align::PlusMinus => "---:".to_owned(),
        };
        text.push_str(&line(self.columns.iter().map(|c| rule(c.align)).collect()));
        for row in &self.rows {
            text.push_str(&line(row.cells.iter().map(|c| escaped(&c.text)).collect()));
        }
        text
    }
}

/// Escapes text: markup, the end of the cell, and new lines.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '&' => {
                safe.push('\\');
                safe.push(c);
            }
            c if c.is_control() => safe.push(' '),
            _ => safe.push(c),
        }
    }
    safe
}
