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
use crate::headline;
use crate::imported::KIND;
use crate::number::several;
use crate::run::Run;
use crate::shape::{self, Shape};
use crate::table::escaped;
use crate::tips::Tips;
use crate::words::{self, all_warnings};

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
        text.push_str(&crate::imported::cases(summary).markdown());
        text.push('\n');
        for warning in crate::imported::warnings(summary) {
            text.push_str(&format!("- warning: {}\n", escaped(&warning)));
        }
        text.push_str(&format!("- method: {}\n", crate::imported::METHOD));
        return text;
    }
    let mut text = format!("**{}.**\n\n", escaped(&headline::of(info, summary).line()));
    match Shape::of(summary) {
        Shape::Campaign => return text + &crate::campaign::markdown(info, summary),
        Shape::Procedures => return text + &crate::procedures::markdown(info, summary),
        Shape::Windows | Shape::Slices => {}
    }
    if !shape::comparisons(summary).is_empty() {
        text.push_str(&content::comparisons(summary).markdown());
        text.push('\n');
    }
    if !shape::rated(summary).is_empty() {
        text.push_str(&content::cases(summary).markdown());
        text.push('\n');
    }
    text += &crate::efficiency::markdown(info, &summary.test_cases);
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
    if let Some(control) = shape::control(summary) {
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
        [run] => headline::with_id(run),
        runs => several(runs.len(), "run"),
    };
    let mut text = format!("# {}\n\n", escaped(&title));
    let picture = |chart: &Chart| format!("![{}]({}.svg)\n\n", escaped(&chart.title), chart.name);
    for run in runs {
        if runs.len() > 1 {
            text += &format!("## {}\n\n", escaped(&headline::with_id(run)));
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
