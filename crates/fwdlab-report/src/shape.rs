//! The kind of a result, and the test cases and comparisons that belong to it.
//!
//! It writes no sentences; these are in `words`. Start with [`Shape::from_summary`].

use fwdlab_model::comparison::Comparison;
use fwdlab_model::instructions::Exact;
use fwdlab_model::loss::Ledger;
use fwdlab_model::outcome::Maxfwd;
use fwdlab_model::result::Summary;
use fwdlab_model::test_case::TestCase;
use fwdlab_model::trial::Stream;

use crate::name::dut;
use crate::number::flows;

/// The kind of a result: it depends on what was measured, not on the command that asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Forwarding rates of quiet windows.
    Windows,
    /// Configurations compared with a reference DUT, under the same traffic.
    Slices,
    /// Outcomes of procedures, one iteration each.
    Procedures,
    /// Figures of several iterations or several configurations.
    Campaign,
}

impl Shape {
    pub fn from_summary(summary: &Summary) -> Shape {
        let cases = &summary.test_cases;
        let same =
            |same: fn(&TestCase, &TestCase) -> bool| cases.iter().all(|case| same(case, &cases[0]));
        let is_sweep = |case: &TestCase| case.slices().is_some_and(|s| s.parameter.is_some());
        let one_stream = same(|a, b| a.case.stream == b.case.stream);
        let is =
            |id: &str, has: fn(&TestCase) -> bool| summary.procedure == id || cases.iter().any(has);
        match () {
            () if is("maxfwd", |case| case.windows().is_some()) => Shape::Windows,
            () if is("paired", |case| case.slices().is_some()) => {
                match one_stream && !cases.iter().any(is_sweep) {
                    true => Shape::Slices,
                    false => Shape::Campaign,
                }
            }
            () if is_in_instructions(cases) => Shape::Campaign,
            () if cases.iter().any(|case| case.iterations.len() > 1) => Shape::Campaign,
            () if !same(|a, b| a.case.dut == b.case.dut) => Shape::Campaign,
            () if same(|a, b| a.case.configuration == b.case.configuration) => Shape::Procedures,
            () => Shape::Campaign,
        }
    }
}

/// Returns true if instructions were counted.
pub(crate) fn is_in_instructions(all: &[TestCase]) -> bool {
    let mut outcomes = all.iter().flat_map(|case| &case.outcomes);
    outcomes.any(|outcome| outcome.found.get::<Exact>().is_some())
}

/// A test case of windows, with its figures.
#[derive(Debug, Clone)]
pub(crate) struct Rated<'a> {
    pub case: &'a TestCase,
    pub stream: &'a Stream,
    pub found: Maxfwd,
    /// Forwarding rates of the iterations with a result.
    pub rates: &'a [f64],
    pub half_width: Option<f64>,
    pub variation_percent: Option<f64>,
}

/// The test cases of windows; empty for other kinds of results.
pub(crate) fn rated(summary: &Summary) -> Vec<Rated<'_>> {
    if Shape::from_summary(summary) != Shape::Windows {
        return Vec::new();
    }
    let cases = summary.test_cases.iter().map(|case| {
        let figure = case.forwarding_rate();
        Rated {
            case,
            stream: &case.case.stream,
            found: case.windows().cloned().unwrap_or_default(),
            rates: case.rates(),
            half_width: figure.and_then(|figure| figure.interval_half_width),
            variation_percent: figure.and_then(|figure| figure.variation_percent),
        }
    });
    cases.collect()
}

/// What the name of a test case contains besides its frame size: only what differs between test
/// cases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Labels {
    pub configuration: bool,
    pub dut: bool,
    pub flows: bool,
    pub ip_version: bool,
    pub shard: bool,
}

impl Labels {
    pub fn from_cases(cases: &[Rated<'_>]) -> Labels {
        let differ = |same: fn(&Rated<'_>, &Rated<'_>) -> bool| {
            cases.iter().any(|case| !same(case, &cases[0]))
        };
        Labels {
            configuration: differ(|a, b| a.case.case.configuration == b.case.case.configuration),
            dut: differ(|a, b| a.case.case.dut == b.case.case.dut),
            flows: differ(|a, b| a.stream.flows == b.stream.flows),
            ip_version: differ(|a, b| a.stream.ip_version == b.stream.ip_version),
            shard: differ(|a, b| a.case.case.variant.shard == b.case.case.variant.shard),
        }
    }

    /// `64 B, 1 flow, IPv6`, or `rules, 64 B`.
    pub fn label(self, case: &Rated<'_>) -> String {
        let mut text = match self.configuration {
            true => format!("{}, ", case.case.case.configuration),
            false => String::new(),
        };
        match &case.case.case.variant.profile {
            Some(profile) => text.push_str(profile),
            None => text.push_str(&format!("{} B", case.stream.frame_size_bytes)),
        }
        if self.flows {
            text.push_str(&format!(", {}", flows(case.stream.flows)));
        }
        if self.ip_version {
            text.push_str(&format!(", {}", case.stream.ip_version));
        }
        if self.dut {
            text.push_str(&format!(", {}", dut(case.case.case.dut)));
        }
        if let (true, Some(shard)) = (self.shard, case.case.case.variant.shard) {
            text.push_str(&format!(", shard {shard}"));
        }
        text
    }
}

/// The test case of the headline: that with the smallest frames, and of these the first with the
/// most flows.
pub(crate) fn principal<'a, 'b>(cases: &'b [Rated<'a>]) -> Option<&'b Rated<'a>> {
    let key = |case: &Rated<'_>| {
        (
            case.stream.frame_size_bytes,
            std::cmp::Reverse(case.stream.flows),
        )
    };
    // `min_by_key` keeps the first of equals.
    cases.iter().min_by_key(|case| key(case))
}

/// Comparisons in the order of the report: the configurations, then the control.
pub(crate) fn comparisons(summary: &Summary) -> Vec<&Comparison> {
    if Shape::from_summary(summary) != Shape::Slices {
        return Vec::new();
    }
    let real: Vec<&Comparison> = summary.comparisons().collect();
    let control = summary.control.as_ref().filter(|_| !real.is_empty());
    real.into_iter().chain(control).collect()
}

/// The A/A control.
pub(crate) fn control(summary: &Summary) -> Option<&Comparison> {
    summary.control.as_ref()
}

/// Returns true if frames were sent and all of them were lost.
pub(crate) fn does_not_forward(ledger: &Ledger) -> bool {
    ledger.frames_sent > 0 && ledger.frames_received == 0
}

/// The L2 rate of frames with their FCS, in bit/s.
pub(crate) fn l2_bps(stream: &Stream, pps: f64) -> f64 {
    pps * 8.0 * f64::from(stream.frame_size_bytes.bytes())
}
