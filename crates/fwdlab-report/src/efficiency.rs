//! What forwarding took of the DUTs: a row per test case, and of VPP a row per node.
//!
//! For the terminal, for Markdown and for the page alike; what the figures are is said in [`METHOD`]. What is counted is in
//! [`fwdlab_model::efficiency`]. Start with [`tables`].

use fwdlab_model::efficiency::{Node, Work};
use fwdlab_model::result::RunInfo;
use fwdlab_model::test_case::TestCase;

use crate::campaign::label;
use crate::number::{count, decimals};
use crate::table::{Cell, Column, Mark, Table};

/// What the figures are.
pub(crate) const METHOD: &str = "what a frame takes is counted by the DUT, in the trial of each iteration that forwarded most: of Linux \
    the CPU time of what forwards, per frame that came back, and clocks by the clock that its kernel tells; of VPP the clocks of its \
    nodes by show runtime, per frame that entered it. Its input node is also called when there is nothing to fetch, and with \
    af_packet it makes system calls: without it stands what VPP itself takes. The effective clock is frames per second times clocks \
    per frame; the kernel below VPP is in none of its figures";

/// The work of each test case that has some, where that is to be shown: in campaigns, and wherever VPP was measured.
fn worked(all: &[TestCase]) -> impl Iterator<Item = (&TestCase, &Work)> {
    all.iter()
        .filter_map(|case| Some((case, case.work.as_ref()?)))
}

/// Are they the answer to what was asked? A command that measures Linux is not asked for them.
pub(crate) fn are_asked_for(info: &RunInfo, all: &[TestCase]) -> bool {
    let is_vpp = |(case, _): (&TestCase, &Work)| !case.case.dut.is_linux();
    info.kind == "campaign" && worked(all).next().is_some() || worked(all).any(is_vpp)
}

/// Titles and tables: what a frame took in each test case, and in each node of VPP.
pub(crate) fn tables(all: &[TestCase]) -> Vec<(&'static str, Table)> {
    if worked(all).next().is_none() {
        return Vec::new();
    }
    let mut tables = vec![("efficiency: what a frame takes of the DUT", cases(all))];
    tables.extend(nodes(all).map(|nodes| ("nodes of VPP", nodes)));
    tables
}

fn cases(all: &[TestCase]) -> Table {
    let mut table = Table::new(vec![
        Column::left("test case", &["test_case"]),
        Column::right("time", &["ns_per_frame"]),
        Column::right("clocks", &["clocks_per_frame"]),
        Column::right("without input", &["clocks_per_frame_without_input"]),
        Column::right("vectors/call", &["vectors_per_call"]),
        Column::right("effective clock", &["effective_clock_hz"]),
        Column::right("clock", &["clock_hz"]),
    ]);
    let clock = |hz: f64| format!("{:.2} GHz", hz / 1e9);
    for (case, work) in worked(all) {
        table.push(
            Mark::None,
            vec![
                Cell {
                    text: name(case, all),
                    raw: vec![case.test_case.clone()],
                },
                Cell::optional(work.ns_per_frame(), "", |ns| format!("{} ns", digits(ns))),
                Cell::optional(work.clocks_per_frame(), "", digits),
                Cell::optional(work.clocks_per_packet(false), "", digits),
                Cell::optional(work.vectors_per_call(), "", digits),
                Cell::optional(work.effective_clock_hz(), "", clock),
                Cell::optional(work.clock_hz, "", clock),
            ],
        );
    }
    table
}

fn nodes(all: &[TestCase]) -> Option<Table> {
    let mut table = Table::new(vec![
        Column::left("test case", &["test_case"]),
        Column::left("node", &["node"]),
        Column::right("clocks/packet", &["clocks_per_packet"]),
        Column::right("vectors/call", &["vectors_per_call"]),
        Column::right("packets", &["vectors"]),
        Column::right("calls", &["calls"]),
    ]);
    for (case, work) in worked(all) {
        for node in work.by_node() {
            let of_input = match node.is_input {
                true => " (input)",
                false => "",
            };
            table.push(
                Mark::None,
                vec![
                    Cell {
                        text: name(case, all),
                        raw: vec![case.test_case.clone()],
                    },
                    Cell {
                        text: format!("{}{of_input}", node.node),
                        raw: vec![node.node.clone()],
                    },
                    number(node.clocks_per_packet()),
                    number(Node::vectors_per_call(&node)),
                    Cell::number(count(node.vectors), node.vectors),
                    Cell::number(count(node.calls), node.calls),
                ],
            );
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Why DUTs dropped frames, in their own words.
pub(crate) fn drops(all: &[TestCase]) -> Vec<String> {
    let told = worked(all).filter(|(_, work)| !work.drops.is_empty());
    told.map(|(case, work)| {
        let reasons: Vec<String> = work
            .drops
            .iter()
            .map(|drop| format!("{} {}", count(drop.frames), drop.reason))
            .collect();
        format!("{}: {}", name(case, all), reasons.join("; "))
    })
    .collect()
}

/// The name of a test case among the others, and alone.
fn name(case: &TestCase, all: &[TestCase]) -> String {
    match label(case, all) {
        label if label.is_empty() => case.test_case.clone(),
        label => label,
    }
}

fn number(value: f64) -> Cell {
    Cell::number(digits(value), value)
}

/// Three digits: VPP tells no more.
fn digits(value: f64) -> String {
    match value >= 1000.0 {
        true => count(value.round() as i128),
        false => format!("{value:.*}", decimals(value, 3, 2)),
    }
}
