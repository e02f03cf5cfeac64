//! Renders the summary for the terminal: 80 columns, fewer on a narrower one ([`fit`]), no colour,
//! ASCII except for `±`.
//!
//! It prints the sections of a report and does not know what was measured; the caller prints where
//! the run was saved. Start with [`quick`].

use fwdlab_model::result::{RunInfo, Summary, TrialRecord};

use crate::chart::terminal;
use crate::charts;
use crate::grid;
use crate::report::Report;
use crate::run::Run;
use crate::screen::paragraph;
use crate::section::{Format, Section};
use crate::table::{Table, wrap};
use crate::tips::Tips;

pub use crate::screen::{Text, fit, hanging, harmless, steers, width};
pub use crate::section::Level;

/// Renders the summary, followed by the run's charts in characters.
pub fn with_charts(run: &Run<'_>) -> String {
    let mut text = quick(run.info, run.summary).to_string();
    if let Some(note) = &run.info.note {
        text += &paragraph("note", &note.replace(steers, " "));
    }
    text += &grid_text(run);
    text += &harmless(&Tips::from_run(run).text());
    for chart in charts::all(&[*run]) {
        text += &format!("\n\n{}", terminal::draw(&chart, width()));
    }
    text.trim_end().to_owned() + "\n"
}

/// Renders the table of systems and conditions, if it is more than a list.
fn grid_text(run: &Run<'_>) -> String {
    let Some(grid) = grid::from_runs(&[*run]).filter(|grid| grid.is_worth_showing(1)) else {
        return String::new();
    };
    let mut text = format!("\n{}", grid.table().text(width()));
    for sentence in grid.notes() {
        text += &paragraph("", &sentence);
    }
    harmless(&text)
}

/// Renders the summary of a run for the terminal: the headline first, then how far to trust it.
pub fn quick(info: &RunInfo, summary: &Summary) -> Text {
    let Report { headline, sections } = Report::from_summary(info, summary, Format::Terminal);
    let mut text = Text::from(wrap(&headline.line(), width(), "") + "\n");
    sections.iter().for_each(|one| section(one, &mut text));
    text
}

/// Appends a section.
pub(crate) fn section(section: &Section, to: &mut Text) {
    let mut text = String::new();
    match section {
        Section::Tables {
            title,
            unit,
            tables,
        } => {
            if !title.is_empty() {
                text += &wrap(title, width(), " ");
            }
            if !unit.is_empty() {
                text += &format!(" {unit}\n");
            }
            text.extend(tables.iter().map(|table| table.text(width())));
            text.push('\n');
        }
        Section::Procedure { title, tables } => {
            for (n, titled) in tables.iter().enumerate() {
                let title = match (n, titled.title.is_empty()) {
                    (0, true) => title.clone(),
                    _ => format!("{title}: {}", titled.title),
                };
                text += &wrap(&title, width(), " ");
                text += &format!("{}\n", titled.table.text(width()));
            }
        }
        Section::Losses(all) => {
            for one in all {
                text += &wrap(&one.title, width(), " ");
                text += &loss_lines(&one.table);
                let not_sent = one.not_sent.iter();
                text.extend(not_sent.map(|words| wrap(words, width(), "   ")));
            }
            if !all.is_empty() {
                text.push('\n');
            }
        }
        Section::Doubt(sentences) | Section::Sentences(sentences) => {
            for (name, sentence) in sentences {
                to.paragraph(*name, sentence);
            }
            if let Section::Doubt(_) = section {
                text.push('\n');
            }
        }
    }
    to.plain(&text);
}

/// Renders why each trial of a search or procedure was made, and its result.
pub fn explain(trials: &[TrialRecord]) -> String {
    crate::procedures::explain(trials)
}

/// Renders losses, wrapped below the first word:
/// `  50.5 %  1,520,000  at the DUT's input: the counter`.
fn loss_lines(table: &Table) -> String {
    let widest = |index: usize| {
        let cells = table.rows.iter().map(|row| row.cells[index].text.len());
        cells.max().unwrap_or(0)
    };
    let (shares, frames) = (widest(0), widest(1));
    let mut text = String::new();
    for row in &table.rows {
        let [share, number, place, counter] = &row.cells[..] else {
            continue;
        };
        let start = format!("   {:>shares$}  {:>frames$}  ", share.text, number.text);
        let colon = if counter.text.is_empty() { "" } else { ":" };
        let words = format!("{}{colon} {}", place.text, counter.text);
        let body = wrap(&words, width(), &" ".repeat(start.len()));
        text.push_str(&start);
        text.push_str(body.get(start.len()..).unwrap_or_default());
    }
    text
}
