//! Renders a summary as Markdown, for an issue or a mail: the headline, one table, and the
//! sentences that qualify it.
//!
//! Tables are in GitHub's dialect; everything else is plain CommonMark. Start with [`summary`].

use fwdlab_model::result::{RunInfo, Summary};
use fwdlab_stats::ministat::Model;

use crate::chart::Chart;
use crate::executive;
use crate::firewall;
use crate::grid;
use crate::headline;
use crate::number::plural;
use crate::report::Report;
use crate::run::Run;
use crate::section::{Format, Named, Section, Titled, named};
use crate::table::{Table, capital, escaped};
use crate::tips::Tips;

/// Renders the summary of a run, and the notes that people attached to it.
pub fn summary(info: &RunInfo, summary: &Summary) -> String {
    let mut text = figures(info, summary);
    if let Some(note) = &info.note {
        text += &format!("- note: {}\n", escaped(note));
    }
    text
}

fn figures(info: &RunInfo, summary: &Summary) -> String {
    let Report { headline, sections } = Report::from_summary(info, summary, Format::Document);
    let mut text = format!("**{}.**\n\n", escaped(&headline.line()));
    text.extend(sections.iter().map(section));
    text
}

fn section(section: &Section) -> String {
    let mut text = String::new();
    match section {
        Section::Tables {
            title,
            unit,
            tables,
        } => {
            if !title.is_empty() {
                text += &format!("{}\n\n", escaped(title));
            }
            text.extend(tables.iter().map(Table::markdown));
            if !unit.is_empty() {
                text += &format!("\nIn {unit}.\n");
            }
            text.push('\n');
        }
        Section::Procedure { title, tables } => {
            text += &format!("### {title}\n\n");
            for Titled { title, table } in tables {
                if !title.is_empty() {
                    text += &format!("{}:\n\n", escaped(&capital(title)));
                }
                text += &format!("{}\n", table.markdown());
            }
        }
        Section::Losses(all) => {
            for one in all {
                text += &format!("{}\n\n{}\n", escaped(&one.title), one.table.markdown());
                text += &sentences(&named("", one.not_sent.clone()).collect::<Vec<_>>());
            }
        }
        Section::Doubt(all) | Section::Sentences(all) => text += &sentences(all),
    }
    text
}

fn sentences(all: &[Named]) -> String {
    let each = all.iter();
    each.map(|(name, sentence)| format!("- {name}: {}\n", escaped(sentence)))
        .collect()
}

/// Renders runs for a repository: for each run a short summary, charts (as links to files in the
/// same directory) and figures; then the ministat blocks of all runs.
pub fn repository(runs: &[Run<'_>], charts: &[Chart]) -> String {
    let title = match runs {
        [run] => headline::with_id(run),
        runs => plural(runs.len(), "run"),
    };
    let mut text = format!("# {}\n\n", escaped(&title));
    let picture = |chart: &Chart| format!("![{}]({}.svg)\n\n", escaped(&chart.title), chart.name);
    for run in runs {
        if runs.len() > 1 {
            text += &format!("## {}\n\n", escaped(&headline::with_id(run)));
        }
        for sentence in executive::sentences(run.info, run.summary) {
            let reported = sentence.with_evidence(run.info, run.summary);
            text += &format!("- {}\n", escaped(&reported));
        }
        let tips = Tips::from_run(run).markdown();
        if !tips.is_empty() {
            text += &format!("\nTips:\n\n{tips}");
        }
        text += &format!("\n{}\n", summary(run.info, run.summary));
    }
    if let Some(grid) = grid::from_runs(runs).filter(|grid| grid.is_worth_showing(runs.len())) {
        text += &format!("{}\n", grid.table().markdown());
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
        // the fence must be longer than any inside the blocks
        let fence = "`".repeat(longest_fence(&blocks).max(2) + 1);
        text += &format!("{fence}text\n{blocks}{fence}\n");
    }
    text
}

/// Returns the length of the longest row of backticks.
fn longest_fence(text: &str) -> usize {
    let rows = text.split(|c| c != '`').map(str::len);
    rows.max().unwrap_or(0)
}
