//! Renders the page of a comparison: what is proven, the differences with their intervals, the
//! values behind them, one table.
//!
//! It has the sentences and the table of [`crate::compare`] in Markdown. Start with [`comparison`].

use super::{Markup, details, document, note, section, table};
use crate::chart::html;
use crate::charts;
use crate::compare::{
    Compared, Judged, Outcome, Scale as Written, difference_cell, notes, other_tests,
};
use crate::number::plural;

/// Renders a comparison as one self-contained page.
pub fn comparison(outcome: &Outcome, judged: &[Judged]) -> String {
    document("fwdlab compare", |m| content(m, outcome, judged))
}

/// Renders the same content for a page of another program, as [`fragment`](super::fragment).
pub fn comparison_fragment(outcome: &Outcome) -> String {
    let mut m = Markup::default();
    content(&mut m, outcome, &[]);
    m.finish()
}

fn content(m: &mut Markup, outcome: &Outcome, judged: &[Judged]) {
    let written = Written::for_outcome(outcome);
    let metric = written.title(&outcome.metric);
    m.within("header", &[], |m| {
        let origin = format!(
            "fwdlab compare, {metric}, by {}, baseline {}",
            outcome.by, outcome.baseline
        );
        m.leaf("p", &[("class", "origin")], &origin);
        m.leaf("h1", &[("class", "long")], &headline(outcome));
    });
    drawn(m, outcome, |_| {});
    section(m, "Notes", |m| keys(m, outcome, judged, true));
    let others = other_tests(outcome);
    if !others.is_empty() {
        let gist = "what they find in the same values";
        details(m, "Other tests", gist, false, |m| {
            super::keys(m, others.iter().map(|sentence| note(sentence)));
        });
    }
}

/// Writes the differences and the values, each with its chart.
pub(super) fn drawn(m: &mut Markup, outcome: &Outcome, below: impl FnOnce(&mut Markup)) {
    section(m, &format!("Difference from {}", outcome.baseline), |m| {
        m.within("figure", &[], |m| {
            html::draw(m, &charts::comparison::differences(outcome))
        });
    });
    section(m, "Values", |m| {
        m.within("figure", &[], |m| {
            let written = Written::for_outcome(outcome);
            html::draw(m, &charts::comparison::values(outcome, &written));
            table(m, &crate::compare::table(outcome));
        });
        below(m);
    });
}

/// Writes the notes of a comparison.
pub(super) fn keys(m: &mut Markup, outcome: &Outcome, judged: &[Judged], is_alone: bool) {
    let notes = notes(outcome, judged, is_alone, usize::MAX).into_iter();
    let lines = notes.map(|(name, sentence)| format!("{name}: {sentence}."));
    super::keys(m, lines);
}

/// Returns what is proven, in a sentence.
fn headline(outcome: &Outcome) -> String {
    let all: Vec<&Compared> = outcome.rows.iter().flat_map(|r| &r.comparisons).collect();
    let proven = all.iter().filter(|c| c.is_proven()).count();
    let baseline = &outcome.baseline;
    match (&all[..], proven) {
        ([one], 1) => {
            let [value, _] = difference_cell(one);
            format!("Proven: {} differs from {baseline} by {value}", one.column)
        }
        ([one], _) => format!("No difference proven between {} and {baseline}", one.column),
        (_, 0) => format!(
            "No difference from {baseline} proven in {}",
            plural(all.len(), "comparison")
        ),
        _ => format!(
            "Proven differences from {baseline}: {proven} of {}",
            plural(all.len(), "comparison")
        ),
    }
}
