//! The summary as Markdown, for an issue or a mail: the headline, one table, the sentences that qualify it.
//!
//! GitHub's dialect of tables; everything else is plain CommonMark. Start with [`summary`].

use fwdlab_model::result::{RunInfo, Summary};
use fwdlab_stats::ministat::Model;

use crate::answer;
use crate::chart::Chart;
use crate::content;
use crate::executive;
use crate::firewall;
use crate::grid;
use crate::imported::KIND;
use crate::run::Run;
use crate::table::{Align, Table};
use crate::text::all_warnings;
use crate::tips::Tips;
use crate::words::{self, Shape};

/// The summary of a run, and what people say of it.
pub fn summary(info: &RunInfo, summary: &Summary) -> String {
    let mut text = figures(info, summary);
    if let Some(note) = &info.note {
        text += &format!("- note: {}\n", escaped(note));
    }
    text
}

fn figures(info: &RunInfo, summary: &Summary) -> String {
    if info.kind == KIND {
        let headline = crate::imported::headline(info, summary);
        let mut text = format!("**{}.**\n\n", escaped(&headline));
        text.push_str(&table(&crate::imported::cases(summary)));
        text.push('\n');
        for warning in crate::imported::warnings(summary) {
            text.push_str(&format!("- warning: {}\n", escaped(&warning)));
        }
        text.push_str(&format!("- method: {}\n", crate::imported::METHOD));
        return text;
    }
    let mut text = format!(
        "**{}.**\n\n",
        escaped(&words::headline(info, summary).line())
    );
    match Shape::of(summary) {
        Shape::Campaign => return text + &crate::campaign::markdown(info, summary),
        Shape::Procedures => return text + &crate::procedures::markdown(info, summary),
        Shape::Windows | Shape::Slices => {}
    }
    if !words::comparisons(summary).is_empty() {
        text.push_str(&table(&content::comparisons(summary)));
        text.push('\n');
    }
    if !words::rated(summary).is_empty() {
        text.push_str(&table(&content::cases(summary)));
        text.push('\n');
    }
    text += &crate::campaign::efficiency_markdown(info, &summary.test_cases);
    let mut item = |name: &str, sentence: &str| {
        text.push_str(&format!("- {name}: {}\n", escaped(sentence)));
    };
    if answer::question(info).is_some() {
        for (name, sentence) in crate::campaign::asked(info, &summary.test_cases) {
            item(name, &sentence);
        }
    }
    for sentence in crate::exact::beside(&summary.test_cases) {
        item("exact", &sentence);
    }
    for (name, sentence) in crate::campaign::verdicts(summary) {
        item(name, &sentence);
    }
    for sentence in crate::telemetry::sentences(summary) {
        item("found", &sentence);
    }
    for (name, sentence) in words::noise(summary) {
        item(name, &sentence);
    }
    if let Some(control) = words::control(summary) {
        item("control", &words::control_words(control));
    }
    for warning in all_warnings(summary) {
        item("warning", &warning);
    }
    if let Some(imix) = words::imix_words(summary) {
        item("estimate", &imix);
    }
    item("method", &words::method_words(info, summary));
    text
}

/// Runs for a repository: what each says in short, its pictures that lie beside the file, its figures, and the ministat blocks of all.
pub fn repository(runs: &[Run<'_>], charts: &[Chart]) -> String {
    let title = match runs {
        [run] => sentence_of(run),
        runs => words::several(runs.len(), "run"),
    };
    let mut text = format!("# {}\n\n", escaped(&title));
    let picture = |chart: &Chart| format!("![{}]({}.svg)\n\n", escaped(&chart.title), chart.name);
    for run in runs {
        if runs.len() > 1 {
            text += &format!("## {}\n\n", escaped(&sentence_of(run)));
        }
        for sentence in executive::sentences(run.info, run.summary) {
            let told = sentence.with_evidence(run.info, run.summary);
            text += &format!("- {}\n", escaped(&told));
        }
        let tips = Tips::of(run).markdown();
        if !tips.is_empty() {
            text += &format!("\nTips:\n\n{tips}");
        }
        text += &format!("\n{}\n", summary(run.info, run.summary));
    }
    if let Some(grid) = grid::of(runs).filter(|grid| grid.is_worth_showing(runs.len())) {
        text += &format!("{}\n", table(&grid.table()));
        for sentence in grid.notes() {
            text += &format!("- {}\n", escaped(&sentence));
        }
        text.push('\n');
    }
    if let Some(warning) = firewall::warning(runs.iter().map(|run| (run.info, run.summary))) {
        text += &format!("> {warning}\n\n");
    }
    text.extend(charts.iter().map(picture));
    let blocks = crate::ministat::text(runs, Model::default());
    if !blocks.is_empty() {
        // a fence longer than any in it
        let fence = "`".repeat(longest_fence(&blocks).max(2) + 1);
        text += &format!("{fence}text\n{blocks}{fence}\n");
    }
    text
}

/// The longest row of backticks.
fn longest_fence(text: &str) -> usize {
    let rows = text.split(|c| c != '`').map(str::len);
    rows.max().unwrap_or(0)
}

/// A run in one line: its id, and its answer.
pub(crate) fn sentence_of(run: &Run<'_>) -> String {
    let answer = words::headline(run.info, run.summary).answer;
    format!("{}: {answer}", run.info.id)
}

/// One table.
pub(crate) fn table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(table.columns.iter().map(|c| escaped(&c.head)).collect());
    let rule = |align| match align {
        Align::Left => "---".to_owned(),
        Align::Right | Align::PlusMinus => "---:".to_owned(),
    };
    text.push_str(&line(table.columns.iter().map(|c| rule(c.align)).collect()));
    for row in &table.rows {
        text.push_str(&line(row.cells.iter().map(|c| escaped(&c.text)).collect()));
    }
    text
}

/// Text that stays what it is: no markup, no end of the cell, no new line.
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
