//! Renders several runs on one page: what differs, their ramps in one graph, then each run in full.
//!
//! Start with [`pages`].

use super::comparison::{drawn, keys};
use super::{
    Markup, ShownFacts, as_ministat, body, document, folded, glossary_list, note, overlaid,
    section, sentence as sentence_of_run, systems,
};
use crate::compare::{Compared, Outcome, difference_cell};
use crate::executive;
use crate::firewall;
use crate::headline;
use crate::number::plural;
use crate::run::Run;

/// With more runs, each is folded.
const OPEN: usize = 2;

/// Renders the report of several runs as one self-contained page; `compared` is the result of
/// `fwdlab compare`.
pub fn pages(runs: &[Run<'_>], compared: Option<&Outcome>, shown: ShownFacts) -> String {
    document(
        &format!("fwdlab report of {}", plural(runs.len(), "run")),
        |m| {
            m.within("header", &[], |m| {
                let ids: Vec<&str> = runs.iter().map(|run| run.info.id.as_str()).collect();
                m.leaf(
                    "p",
                    &[("class", "origin")],
                    &format!("fwdlab {}", ids.join(", ")),
                );
                let title = format!("{} side by side", plural(runs.len(), "run"));
                m.leaf("h1", &[("class", "long")], &title);
            });
            section(m, "In short", |m| {
                m.within("ul", &[("class", "short")], |m| {
                    for (number, run) in (1..).zip(runs) {
                        m.places = places(number);
                        let line = headline::from_summary(run.info, run.summary).line();
                        m.within("li", &[], |m| {
                            m.leaf("strong", &[], run.name);
                            m.text(&format!(": {}", note(&line)));
                            let reported = executive::sentences(run.info, run.summary);
                            m.within("ul", &[], |m| {
                                for one in &reported {
                                    m.within("li", &[], |m| sentence_of_run(m, run.summary, one));
                                }
                            });
                        });
                    }
                    for sentence in compared.iter().flat_map(|outcome| differences(outcome)) {
                        m.leaf("li", &[], &note(&sentence));
                    }
                });
                if let Some(warning) =
                    firewall::warning(runs.iter().map(|run| (run.info, run.summary)))
                {
                    m.leaf("p", &[("class", "caution")], warning);
                }
            });
            systems(m, runs);
            overlaid(m, runs);
            if let Some(outcome) = compared {
                drawn(m, outcome, |m| keys(m, outcome, &[], false));
            }
            as_ministat(m, runs);
            for (number, run) in (1..).zip(runs) {
                m.places = places(number);
                let id = match run.name == run.info.id {
                    true => String::new(),
                    false => format!("{}, ", run.name),
                };
                let head = |m: &mut Markup| m.text(&format!("{id}{}", headline::with_id(run)));
                folded(m, runs.len() <= OPEN, head, |m| body(m, run, shown, false));
            }
            glossary_list(m);
        },
    )
}

/// Returns the prefix of a run's anchor names.
fn places(run: usize) -> String {
    format!("run-{run}-")
}

/// Returns the proven differences, a sentence with its interval each.
fn differences(outcome: &Outcome) -> Vec<String> {
    let rows = outcome
        .rows
        .iter()
        .flat_map(|row| row.comparisons.iter().map(move |c| (row, c)));
    let reported = rows
        .filter(|(_, compared)| compared.is_proven())
        .map(|(row, compared)| sentence(&row.test_case, compared, outcome));
    reported.take(6).collect()
}

fn sentence(test_case: &str, compared: &Compared, outcome: &Outcome) -> String {
    let of = if test_case.is_empty() {
        String::new()
    } else {
        format!("{test_case}: ")
    };
    let value = match (compared.difference_percent, compared.interval_percent) {
        (Some(value), Some([low, high])) => {
            format!("{value:+.1} % \u{b1} {:.1} %", (high - low) / 2.0)
        }
        _ => difference_cell(compared)[0].clone(),
    };
    format!(
        "{of}{} compared with {}: {value}",
        compared.column, outcome.baseline
    )
}
