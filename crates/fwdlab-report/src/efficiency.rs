//! Reports the cost of forwarding on the DUT: a row per test case, and for VPP a row per node.
//!
//! The terminal, Markdown and the page share it; [`method`] explains the figures. What is counted
//! is defined in [`fwdlab_model::efficiency`]. Start with [`tables`].

use fwdlab_model::efficiency::{Node, Work};
use fwdlab_model::result::RunInfo;
use fwdlab_model::test_case::TestCase;

use crate::name::label;
use crate::number::{count, decimals};
use crate::section::{Section, named};
use crate::table::{Cell, Table, table};

/// Explanations of the figures: of all DUTs, of Linux, and of VPP.
const BEGIN: &str =
    "what a frame takes is counted by the DUT, in the trial of each iteration that forwarded most:";
const OF_LINUX: &str = " of Linux the CPU time of what forwards, per frame that came back, and clocks by the clock that its kernel tells";
const OF_VPP: &str = " of VPP the clocks of its nodes by show runtime, per frame that entered it, with and without its input node, and without \
    those that give frames to an interface (between ports). An input node is also called when there is nothing to fetch; with af_packet, it \
    and the output make system calls, which are among their clocks. The effective clock is frames per second times clocks per frame; what the \
    kernel below VPP takes for its ports is in none of these figures";

/// Explains the figures of the kinds of DUT that were measured.
pub(crate) fn method(all: &[TestCase]) -> String {
    let (linux, vpp): (Vec<bool>, Vec<bool>) = cases_with_work(all)
        .map(|(case, _)| case.case.dut.is_linux())
        .partition(|is_linux| *is_linux);
    let parts = [(OF_LINUX, linux.is_empty()), (OF_VPP, vpp.is_empty())];
    let reported: Vec<&str> = (parts.iter().filter(|(_, is_absent)| !is_absent))
        .map(|(words, _)| *words)
        .collect();
    format!("{BEGIN}{}", reported.join(";"))
}

/// Returns true if VPP was measured: it reports more than Linux does.
fn has_vpp(all: &[TestCase]) -> bool {
    cases_with_work(all).any(|(case, _)| !case.case.dut.is_linux())
}

/// Returns the work of each test case that has any.
fn cases_with_work(all: &[TestCase]) -> impl Iterator<Item = (&TestCase, &Work)> {
    all.iter()
        .filter_map(|case| Some((case, case.work.as_ref()?)))
}

/// Returns true if the figures belong in the report: campaigns show them, other commands only for
/// VPP.
pub(crate) fn are_requested(info: &RunInfo, all: &[TestCase]) -> bool {
    info.kind == "campaign" && cases_with_work(all).next().is_some() || has_vpp(all)
}

/// Returns titled tables: the cost per frame in each test case, and in each node of VPP.
pub(crate) fn tables(all: &[TestCase]) -> Vec<(&'static str, Table)> {
    if cases_with_work(all).next().is_none() {
        return Vec::new();
    }
    let mut tables = vec![("efficiency: what a frame takes of the DUT", cases(all))];
    tables.extend(nodes(all).map(|nodes| ("nodes of VPP", nodes)));
    tables
}

fn cases(all: &[TestCase]) -> Table {
    let clock = |hz: f64| format!("{:.2} GHz", hz / 1e9);
    let optional = |value: Option<f64>| Cell::optional(value, "", digits);
    let mut table = table! {
        (case, work) in cases_with_work(all);
        left("test case", "test_case") => Cell::new(name(case, all), &case.test_case),
        right("time", "ns_per_frame") => Cell::optional(work.ns_per_frame(), "", |ns| format!("{} ns", digits(ns))),
        right("clocks", "clocks_per_frame") => optional(work.clocks_per_frame()),
        right("without input", "clocks_per_frame_without_input") => optional(work.clocks_per_packet(false)),
        right("between ports", "clocks_per_frame_between_interfaces") => optional(work.clocks_between_interfaces()),
        right("vectors/call", "vectors_per_call") => optional(work.vectors_per_call()),
        right("effective clock", "effective_clock_hz") => Cell::optional(work.effective_clock_hz(), "", clock),
        right("clock", "clock_hz") => Cell::optional(work.clock_hz, "", clock),
    };
    // only VPP reports these
    if !has_vpp(all) {
        for head in [
            "without input",
            "between ports",
            "vectors/call",
            "effective clock",
        ] {
            table.remove(head);
        }
    }
    table
}

fn nodes(all: &[TestCase]) -> Option<Table> {
    let nodes = cases_with_work(all).flat_map(|(case, work)| {
        let nodes = work.by_node().into_iter();
        nodes.map(move |node| (case, node))
    });
    let of_input = |node: &Node| if node.is_input { " (input)" } else { "" };
    let table = table! {
        (case, node) in nodes;
        left("test case", "test_case") => Cell::new(name(case, all), &case.test_case),
        left("node", "node") => Cell::new(format!("{}{}", node.node, of_input(&node)), &node.node),
        right("clocks/packet", "clocks_per_packet") => number(node.clocks_per_packet()),
        right("vectors/call", "vectors_per_call") => number(node.vectors_per_call()),
        right("packets", "vectors") => Cell::new(count(node.vectors), node.vectors),
        right("calls", "calls") => Cell::new(count(node.calls), node.calls),
    };
    (!table.rows.is_empty()).then_some(table)
}

/// Returns why DUTs dropped frames, in the DUT's own words.
pub(crate) fn drops(all: &[TestCase]) -> Vec<String> {
    let reported = cases_with_work(all).filter(|(_, work)| !work.drops.is_empty());
    reported
        .map(|(case, work)| {
            let reasons: Vec<String> = work
                .drops
                .iter()
                .map(|drop| format!("{} {}", count(drop.frames), drop.reason))
                .collect();
            format!("{}: {}", name(case, all), reasons.join("; "))
        })
        .collect()
}

/// Returns the label of a test case among the others; if it is the only one, its full name.
fn name(case: &TestCase, all: &[TestCase]) -> String {
    match label(case, all) {
        label if label.is_empty() => case.test_case.clone(),
        label => label,
    }
}

fn number(value: f64) -> Cell {
    Cell::new(digits(value), value)
}

/// Formats a value with three digits, which is the precision of VPP.
fn digits(value: f64) -> String {
    match value >= 1000.0 {
        true => count(value.round() as i128),
        false => format!("{value:.*}", decimals(value, 3, 2)),
    }
}

/// Returns the sections on the cost of forwarding, if they belong in the report.
pub(crate) fn sections(info: &RunInfo, all: &[TestCase]) -> Vec<Section> {
    if !are_requested(info, all) {
        return Vec::new();
    }
    let tables = tables(all).into_iter();
    let tables = tables.map(|(title, table)| Section::table(title, table));
    let sentences = named("dropped", drops(all)).chain(named("took", [method(all)]));
    tables
        .chain([Section::Sentences(sentences.collect())])
        .collect()
}

#[cfg(test)]
mod tests {
    use fwdlab_model::campaign::{Case, Kind};
    use fwdlab_model::loss::Reason;
    use fwdlab_model::trial::{IpVersion, Stream};
    use fwdlab_model::units::FrameSize;
    use fwdlab_model::variant::Variant;

    use super::*;

    fn case(dut: Kind, work: Work) -> TestCase {
        let case = Case {
            configuration: "plain".into(),
            stream: Stream::new(IpVersion::Ipv4, FrameSize::MIN, 10).unwrap(),
            variant: Variant::default(),
            image: None,
            dut,
        };
        TestCase {
            test_case: case.id(),
            case,
            figures: Vec::new(),
            outcomes: Vec::new(),
            iterations: Vec::new(),
            findings: Vec::new(),
            doubt: None,
            stopped: None,
            work: Some(work),
        }
    }

    fn node(name: &str, is_input: bool, each: f64) -> Node {
        Node {
            thread: "vpp_main".into(),
            node: name.into(),
            is_input,
            calls: 10,
            vectors: 1000,
            clocks: 1000.0 * each,
        }
    }

    #[test]
    fn linux_and_vpp_stand_in_one_table_and_vpp_by_its_nodes() {
        let linux = Work {
            duration_s: 1.0,
            frames: 1000,
            cpu_ns: Some(500_000),
            clock_hz: Some(2e9),
            ..Work::default()
        };
        let vpp = Work {
            duration_s: 0.001,
            frames: 900,
            clock_hz: Some(2.5e9),
            nodes: vec![
                node("af-packet-input", true, 600.0),
                node("ip4-lookup", false, 40.0),
                node("host-eth1-tx", false, 360.0),
            ],
            drops: vec![Reason {
                reason: "acl-plugin-in-ip4-fa: ACL deny packets".into(),
                frames: 100,
            }],
            ..Work::default()
        };
        let all = [case(Kind::Linux, linux), case(Kind::Vpp, vpp)];
        let tables = tables(&all);
        let rows = |table: &Table| -> Vec<Vec<String>> {
            let rows = table.rows.iter();
            rows.map(|row| row.cells.iter().map(|cell| cell.text.clone()).collect())
                .collect()
        };
        assert_eq!(
            rows(&tables[0].1),
            [
                ["64 B, Linux", "500 ns", "1,000", "", "", "", "", "2.00 GHz"],
                [
                    "64 B, VPP",
                    "400 ns",
                    "1,000",
                    "400",
                    "40.0",
                    "100",
                    "1.00 GHz",
                    "2.50 GHz"
                ],
            ]
        );
        let nodes = rows(&tables[1].1);
        assert_eq!(nodes.len(), 3);
        assert_eq!(
            nodes[1],
            ["64 B, VPP", "ip4-lookup", "40.0", "100", "1,000", "10"]
        );
        assert_eq!(nodes[0][1], "af-packet-input (input)");
        assert_eq!(
            drops(&all),
            ["64 B, VPP: 100 acl-plugin-in-ip4-fa: ACL deny packets"]
        );
        // without work there are no tables
        let mut plain = case(Kind::Linux, Work::default());
        plain.work = None;
        assert!(super::tables(&[plain]).is_empty());
    }
}
