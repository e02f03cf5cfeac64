//! Renders test beds, as their latest runs record them: what is wired to what, what uses them now,
//! and the facts of their hosts.
//!
//! Start with [`beds_fragment`].

use fwdlab_model::result::RunInfo;

use super::elements::{folded, section};
use super::{ShownFacts, bed, measured};
use crate::markup::Markup;
use crate::number::{plural, time};

/// A test bed and its runs.
#[derive(Debug)]
pub struct ShownBed {
    /// Its name, or that of the machine.
    pub name: String,
    /// Its latest run.
    pub last: RunInfo,
    /// Number of its runs.
    pub runs: usize,
    /// Ids of runs that use it now.
    pub running: Vec<String>,
}

/// Renders test beds for the page of another program, where runs have pages of their own.
pub fn beds_fragment(beds: &[ShownBed]) -> String {
    let mut m = Markup::default();
    m.within("header", &[], |m| {
        let busy = beds.iter().filter(|bed| !bed.running.is_empty()).count();
        let answer = match (beds.len(), busy) {
            (0, _) => "No run yet, and so no test bed".to_owned(),
            (all, 0) => format!("{}, all idle", plural(all, "test bed")),
            (all, busy) => format!("{busy} of {} in use", plural(all, "test bed")),
        };
        m.leaf("h1", &[("class", "long")], &answer);
    });
    for one in beds {
        section(&mut m, &one.name, |m| {
            m.within("p", &[], |m| match &one.running[..] {
                [] => m.text("Idle."),
                running => {
                    m.text("In use by ");
                    for (n, id) in running.iter().enumerate() {
                        m.text(if n > 0 { ", " } else { "" });
                        link(m, id);
                    }
                    m.text(".");
                }
            });
            m.within("p", &[], |m| {
                m.text(&format!("{}, the latest is ", plural(one.runs, "run")));
                link(m, &one.last.id);
                m.text(&format!(", {}.", time(&one.last.started_at)));
            });
            bed::test_bed(m, &one.last);
            folded(
                m,
                false,
                |m| m.text("Facts of the latest run"),
                |m| {
                    m.within("div", &[("class", "columns")], |m| {
                        measured::facts(m, &one.last.facts, ShownFacts::Brief);
                    });
                },
            );
        });
    }
    m.finish()
}

fn link(m: &mut Markup, run: &str) {
    m.leaf("a", &[("href", &format!("/runs/{run}"))], run);
}
