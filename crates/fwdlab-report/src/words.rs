//! The sentences of a report: what was found, what it is worth, what was lost.
//!
//! Every format uses these, so that the terminal and the page never say different things. Numbers are formatted by
//! [`number`](crate::number), tables are in `content`. Start with [`headline`].

use fwdlab_model::campaign::Kind;
use fwdlab_model::comparison::{Comparison, Verdict};
use fwdlab_model::loadtest;
use fwdlab_model::loss::Ledger;
use fwdlab_model::outcome::Maxfwd;
use fwdlab_model::probe::{ApartStratum, MachineState};
use fwdlab_model::result::{Noise, RunInfo, RunState, Summary};
use fwdlab_model::test_case::TestCase;
use fwdlab_model::trial::Stream;

use crate::number::{
    NOT_DETERMINED, bits_per_second, count, counted, difference, interval, percent, rate,
    rate_with_interval, seconds, share, would_have_shown,
};
use crate::table::shorten;

/// Columns for a configuration of several lines in a headline.
const ABOUT: usize = 48;

/// How a result is arranged: by what it is of, not by who asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Forwarding rates of quiet windows.
    Windows,
    /// Configurations beside a reference DUT, under the same traffic.
    Slices,
    /// What procedures found, each once.
    Procedures,
    /// Figures over iterations, or of several configurations.
    Campaign,
}

impl Shape {
    pub fn of(summary: &Summary) -> Shape {
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
            () if crate::exact::is_in(cases) => Shape::Campaign,
            () if cases.iter().any(|case| case.iterations.len() > 1) => Shape::Campaign,
            () if !same(|a, b| a.case.dut == b.case.dut) => Shape::Campaign,
            () if same(|a, b| a.case.configuration == b.case.configuration) => Shape::Procedures,
            () => Shape::Campaign,
        }
    }
}

/// A test case of windows, with all that is told of it.
#[derive(Debug, Clone)]
pub(crate) struct Rated<'a> {
    pub case: &'a TestCase,
    pub stream: &'a Stream,
    pub found: Maxfwd,
    /// Forwarding rates of the good iterations.
    pub rates: &'a [f64],
    pub half_width: Option<f64>,
    pub variation_percent: Option<f64>,
}

/// The test cases of windows; none of other results.
pub(crate) fn rated(summary: &Summary) -> Vec<Rated<'_>> {
    if Shape::of(summary) != Shape::Windows {
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

/// How the test cases of a run are told apart: by the frame size always, the rest only where it differs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Labels {
    pub configuration: bool,
    pub dut: bool,
    pub flows: bool,
    pub ip_version: bool,
}

impl Labels {
    pub fn of(cases: &[Rated<'_>]) -> Labels {
        let differ = |same: fn(&Rated<'_>, &Rated<'_>) -> bool| {
            cases.iter().any(|case| !same(case, &cases[0]))
        };
        Labels {
            configuration: differ(|a, b| a.case.case.configuration == b.case.case.configuration),
            dut: differ(|a, b| a.case.case.dut == b.case.case.dut),
            flows: differ(|a, b| a.stream.flows == b.stream.flows),
            ip_version: differ(|a, b| a.stream.ip_version == b.stream.ip_version),
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
        text
    }
}

/// A kind of DUT for people.
pub(crate) fn dut(kind: Kind) -> &'static str {
    match kind {
        Kind::Linux => "Linux",
        Kind::Vpp => "VPP",
        Kind::VppHugePages => "VPP in huge pages",
    }
}

/// `1 flow`, `2,000 flows`.
pub(crate) fn flows(flows: u32) -> String {
    counted(flows, "flow")
}

/// `1 trial`, `2 trials`.
pub(crate) fn several(number: usize, what: &str) -> String {
    counted(number as u64, what)
}

/// The test case that stands for the run: the smallest frames; of these the first with the most flows.
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

/// Comparisons in the order in which they are shown: the configurations, then the control.
pub(crate) fn comparisons(summary: &Summary) -> Vec<&Comparison> {
    if Shape::of(summary) != Shape::Slices {
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

/// All frames were lost, and there were some.
pub(crate) fn does_not_forward(ledger: &Ledger) -> bool {
    ledger.frames_sent > 0 && ledger.frames_received == 0
}

/// The answer of a run: one sentence, and the command it is about where that is not part of the sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Headline {
    /// Without a full stop.
    pub answer: String,
    /// The only configuration of a comparison, as typed.
    pub about: Option<String>,
}

impl Headline {
    /// Both in one line.
    pub fn line(&self) -> String {
        match &self.about {
            // the lines of a script are told in full below the table
            Some(about) if about.trim().contains('\n') => {
                let one_line = about.split_whitespace().collect::<Vec<_>>().join(" ");
                format!("{}: {}", self.answer, shorten(&one_line, ABOUT))
            }
            Some(about) => format!("{}: {about}", self.answer),
            None => self.answer.clone(),
        }
    }
}

/// The answer of the run.
pub(crate) fn headline(info: &RunInfo, summary: &Summary) -> Headline {
    if info.kind == crate::imported::KIND {
        return Headline {
            answer: crate::imported::headline(info, summary),
            about: None,
        };
    }
    let real: Vec<&Comparison> = match Shape::of(summary) {
        Shape::Slices => summary.comparisons().collect(),
        _ => Vec::new(),
    };
    let about = match real[..] {
        [only] => Some(only.configuration.clone()),
        _ => None,
    };
    let compared = summary.test_cases.len();
    let answer = match real[..] {
        [] if Shape::of(summary) == Shape::Slices && summary.noise.too_noisy => format!(
            "Too noisy to tell: {} not decided on this machine",
            several(compared, "comparison")
        ),
        [] => match info
            .parameters
            .get("title")
            .and_then(|title| title.as_str())
        {
            Some(title) => format!("{title}: {}", forwarding(summary)),
            None => forwarding(summary),
        },
        _ if summary.noise.too_noisy => format!(
            "Too noisy to tell: {} not decided on this machine",
            several(real.len(), "comparison")
        ),
        [only] => format!("{}{}", finding(only), distrust(summary)),
        _ => format!("{}{}", tally(&real), distrust(summary)),
    };
    match (info.state, &info.error) {
        (RunState::Failed, Some(error)) => Headline {
            answer: format!("The run failed: {error}"),
            about: None,
        },
        (RunState::Failed, None) => Headline {
            answer: "The run failed".into(),
            about: None,
        },
        (RunState::Interrupted, _) if !has_figure(summary) => Headline {
            answer: "Interrupted before there was a result".into(),
            about,
        },
        (RunState::Interrupted, _) => Headline {
            answer: format!("Interrupted. {answer}"),
            about,
        },
        (RunState::Running | RunState::Finished, _) => Headline {
            // what is counted in a machine of one's own is the same without root
            answer: match summary.procedure.as_str() {
                "exact" => answer,
                _ => answer + without_root(info),
            },
            about,
        },
    }
}

/// Without root the DUT is not overloaded as it could be, and shares its CPU with everybody: that is part of every answer.
fn without_root(info: &RunInfo) -> &'static str {
    let is_ours = info.kind != loadtest::KIND;
    let is_measured = is_ours && !info.facts.engine.is_empty() && !info.facts.is_simulated();
    match is_measured && !info.facts.privileged {
        true => "; measured without root",
        false => "",
    }
}

/// Was anything found that a headline could tell?
fn has_figure(summary: &Summary) -> bool {
    let with_figure = |case: &TestCase| !case.figures.is_empty();
    summary.test_cases.iter().any(with_figure)
}

/// The answer of a run without comparisons.
fn forwarding(summary: &Summary) -> String {
    let cases = &summary.test_cases;
    match Shape::of(summary) {
        _ if cases.is_empty() => return "Nothing was measured".into(),
        Shape::Windows => {}
        Shape::Procedures if summary.outcomes().next().is_some() => {
            let outcomes: Vec<_> = summary.outcomes().cloned().collect();
            return doubted(summary, crate::procedures::headline(&outcomes));
        }
        _ => return doubted(summary, crate::campaign::headline(cases)),
    }
    let all = rated(summary);
    let Some(case) = principal(&all) else {
        return "Nothing was measured".into();
    };
    let found = &case.found;
    let stream = case.stream;
    let mut what = format!(
        "{}-byte frames ({}, {})",
        stream.frame_size_bytes,
        flows(stream.flows),
        stream.ip_version
    );
    if let Some(profile) = &case.case.case.variant.profile {
        what = format!("frames of {profile} ({})", flows(stream.flows));
    }
    if Labels::of(&all).configuration {
        what = format!("{what} with configuration {}", case.case.case.configuration);
    }
    if Labels::of(&all).dut {
        what = format!("{what}, {},", dut(case.case.case.dut));
    }
    if does_not_forward(&found.ledger) {
        return format!("The DUT does not forward: all of the {what} were lost");
    }
    let value = |pps| rate_with_interval(pps, case.half_width);
    let is_doubtful = case.case.doubt.is_some() || summary.noise.too_noisy;
    match found.forwarding_rate_pps {
        None if is_doubtful => {
            format!("Too noisy to tell: no iteration with {what} could be used")
        }
        None => format!("No result: no iteration with {what} could be used"),
        Some(pps) if is_too_few(case) => format!(
            "Too few iterations to tell: about {} of {what}, from {}",
            rate(pps),
            several(case.rates.len(), "iteration")
        ),
        Some(pps) if is_doubtful && case.half_width.is_some_and(|half| half >= pps) => {
            format!("Too noisy to tell: the forwarding rate of {what} is {NOT_DETERMINED}")
        }
        Some(pps) if is_doubtful => {
            format!("Too noisy to tell: about {} of {what}", value(pps))
        }
        Some(pps) if found.not_saturated => {
            format!(
                "The DUT forwards at least {} of {what}: the generator is the limit",
                value(pps)
            )
        }
        Some(pps) => format!(
            "The DUT forwards {} of {what}, {} (L2){}",
            value(pps),
            bits_per_second(l2_bps(stream, pps)),
            slowed(&summary.noise)
        ),
    }
}

/// What a figure is of that came from a slowed CPU.
fn slowed(noise: &Noise) -> &'static str {
    match noise.states.first() {
        Some(state) if state.slowed => ", its CPU slowed",
        _ => "",
    }
}

/// Every iteration that was asked for gave a value, and they are too few all the same.
fn is_too_few(case: &Rated<'_>) -> bool {
    let is_narrow = case.half_width.is_some();
    case.case.doubt.is_some() && !is_narrow && case.case.failures().next().is_none()
}

/// The answer of a procedure, with the doubt before and behind it, where there is one.
fn doubted(summary: &Summary, answer: String) -> String {
    if !summary.noise.too_noisy {
        // of the test case that the answer names
        let named = (summary.test_cases.iter()).find(|case| !case.figures.is_empty());
        return match named.is_some_and(|case| case.doubt.is_some()) {
            true => format!("Too noisy to tell: {answer}"),
            false => answer,
        };
    }
    match &summary.noise.doubts[..] {
        [] => format!("Too noisy to tell: {answer}"),
        doubts => format!("Too noisy, {}: {answer}", doubts.join(" and ")),
    }
}

/// What the control takes away from the answer.
fn distrust(summary: &Summary) -> &'static str {
    match control(summary).map(|c| c.verdict) {
        Some(Verdict::Less | Verdict::More) => " (but the A/A control differs from itself)",
        _ => "",
    }
}

pub(crate) fn tally(real: &[&Comparison]) -> String {
    let decided: Vec<&&Comparison> = real.iter().filter(|c| c.doubt.is_none()).collect();
    let of = |verdict| decided.iter().filter(|c| c.verdict == verdict).count();
    let noisy = real.len() - decided.len();
    let noisy = (noisy > 0).then(|| format!("{noisy} too noisy to tell"));
    let parts: Vec<String> = [
        (Verdict::Less, "proven slower"),
        (Verdict::More, "proven faster"),
        (Verdict::NoDifference, "without a proven difference"),
        (Verdict::CannotTell, "undecided"),
    ]
    .into_iter()
    .filter(|(verdict, _)| of(*verdict) > 0)
    .map(|(verdict, words)| format!("{} {words}", of(verdict)))
    .chain(noisy)
    .collect();
    format!(
        "Of {} configurations compared with the plain DUT: {}",
        real.len(),
        parts.join(", ")
    )
}

/// With this configuration nothing came back: no difference to speak of, but an answer.
fn forwards_nothing(comparison: &Comparison) -> bool {
    comparison.forwarding_rate_pps == Some(0.0)
}

/// What one comparison found, without its name: `Proven 2.1 % slower than the plain DUT, [-2.6, -1.6] %`.
pub(crate) fn finding(comparison: &Comparison) -> String {
    if forwards_nothing(comparison) {
        return "Does not forward".into();
    }
    let (Some(value), Some(ends)) = (comparison.difference_percent, comparison.interval_percent)
    else {
        return capital(&verdict(comparison));
    };
    let size = difference(value.abs(), Some(ends));
    let size = size.trim_start_matches('+');
    let ends = interval(ends);
    match comparison.verdict {
        Verdict::Less => format!("Proven {size} % slower than the plain DUT, {ends} %"),
        Verdict::More => format!("Proven {size} % faster than the plain DUT, {ends} %"),
        Verdict::NoDifference | Verdict::CannotTell => {
            format!("{} ({ends} %)", capital(&verdict(comparison)))
        }
    }
}

/// `text` as the beginning of a sentence.
pub(crate) fn capital(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(rest).collect()
}

/// The verdict of a comparison in words.
pub(crate) fn verdict(comparison: &Comparison) -> String {
    let shown = (comparison.detectable_percent).map(|percent| would_have_shown(percent, true));
    if forwards_nothing(comparison) {
        return "does not forward".into();
    }
    match comparison.verdict {
        Verdict::Less if comparison.control => "slower than itself, which should not happen".into(),
        Verdict::More if comparison.control => "faster than itself, which should not happen".into(),
        Verdict::Less => "proven slower".into(),
        Verdict::More => "proven faster".into(),
        Verdict::NoDifference => match shown {
            Some(shown) => format!("no difference proven; {shown}"),
            None => "no difference proven".into(),
        },
        Verdict::CannotTell => match comparison.values_percent.len() {
            0 => "cannot tell: no usable value".into(),
            values => format!("cannot tell from {}", several(values, "value")),
        },
    }
}

/// The verdict where there is no room for a sentence.
pub(crate) fn short_verdict(comparison: &Comparison) -> &'static str {
    if forwards_nothing(comparison) {
        return "does not forward";
    }
    match comparison.verdict {
        Verdict::Less if comparison.control => "differs from itself",
        Verdict::More if comparison.control => "differs from itself",
        Verdict::NoDifference if comparison.control => "no difference, as expected",
        Verdict::Less => "proven slower",
        Verdict::More => "proven faster",
        Verdict::NoDifference => "no difference proven",
        Verdict::CannotTell => "cannot tell",
    }
}

/// The A/A control in one sentence.
pub(crate) fn control_words(control: &Comparison) -> String {
    let (Some(value), Some(ends)) = (control.difference_percent, control.interval_percent) else {
        return format!(
            "the same DUT, measured twice; {} cannot tell",
            several(control.values_percent.len(), "usable pair")
        );
    };
    let judgement = match control.verdict {
        Verdict::NoDifference => "no difference, as expected",
        Verdict::Less | Verdict::More => {
            "unexpected: differences of that size mean nothing in this run"
        }
        Verdict::CannotTell => "too few values to judge",
    };
    format!(
        "the same DUT measured twice differs by {} % {}: {judgement}",
        difference(value, Some(ends)),
        interval(ends)
    )
}

/// Shares of the strata of windows; `None` where the procedure has no windows.
pub(crate) fn windows_words(cases: &[Rated<'_>]) -> Option<String> {
    let sum = |of: fn(&Maxfwd) -> u32| cases.iter().map(|c| u64::from(of(&c.found))).sum::<u64>();
    let quiet = sum(|c| c.quiet.windows);
    let contended = sum(|c| c.contended.windows);
    let held_up = sum(|c| c.windows_not_offered);
    let strata = cases.iter().flat_map(|c| &c.found.apart);
    let apart: u64 = strata.map(|s| u64::from(s.stratum.windows)).sum();
    let all = quiet + contended + apart + held_up;
    let apart = match apart {
        0 => String::new(),
        windows => format!(
            "{} in another state, ",
            percent(share(windows as f64, all as f64))
        ),
    };
    let of_all = |windows: u64| percent(share(windows as f64, all as f64));
    (all > 0).then(|| {
        format!(
            "{}: {} quiet, {} contended, {apart}{} with less than the intended load",
            counted(all, "window"),
            of_all(quiet),
            of_all(contended),
            of_all(held_up)
        )
    })
}

/// How quiet the machine was, and what can be done about it where it was not.
pub(crate) fn noise(summary: &Summary) -> impl Iterator<Item = (&'static str, String)> {
    let verdict = ("noise", summary.noise.verdict.clone());
    let to_do = summary.noise.to_do.iter();
    std::iter::once(verdict).chain(to_do.map(|advice| ("to do", advice.clone())))
}

/// Which state of the machine the figures are of, and what came out in the others; `None` where there was nothing to tell apart.
pub(crate) fn state_words(noise: &Noise, cases: &[Rated<'_>]) -> Option<String> {
    let (of, others) = noise.states.split_first()?;
    if others.is_empty() {
        return Some(format!("the CPUs were {of} throughout"));
    }
    let labels = Labels::of(cases);
    let told = |state: &MachineState| {
        let rates: Vec<String> = cases
            .iter()
            .flat_map(|case| case.found.apart.iter().map(move |stratum| (case, stratum)))
            .filter(|(_, s)| s.is_like(&ApartStratum::of(state, s.stratum.clone())))
            .filter_map(|(case, s)| {
                let pps = s.stratum.forwarding_rate_pps?;
                Some(format!("{} {}", labels.label(case), rate(pps)))
            })
            .collect();
        let rates = match rates.is_empty() {
            true => String::new(),
            false => format!(": {}", rates.join(", ")),
        };
        format!("{state} ({} of readings){rates}", percent(state.percent))
    };
    let others: Vec<String> = others.iter().map(told).collect();
    Some(format!(
        "figures are for CPUs {of}, as in {} of readings; also {}",
        percent(of.percent),
        others.join("; ")
    ))
}

/// Quiet windows beside all windows: rate and coefficient of variation, for one test case.
pub(crate) fn gate_words(case: &Rated<'_>) -> Option<String> {
    let found = &case.found;
    if does_not_forward(&found.ledger) {
        return None;
    }
    let with_variation = |pps: f64, variation: Option<f64>| match variation {
        Some(cv) => format!("{} (CV {})", rate(pps), percent(cv)),
        None => rate(pps),
    };
    let quiet = with_variation(found.forwarding_rate_pps?, case.variation_percent);
    let all = with_variation(
        found.forwarding_rate_ungated_pps?,
        found.variation_ungated_percent,
    );
    Some(format!("{quiet} in quiet windows, {all} ungated"))
}

/// Frames with FCS per second in bit/s.
pub(crate) fn l2_bps(stream: &Stream, pps: f64) -> f64 {
    pps * 8.0 * f64::from(stream.frame_size_bytes.bytes())
}

/// What each test case forwards in bit/s.
pub(crate) fn l2_words(summary: &Summary) -> Option<String> {
    let all = rated(summary);
    let labels = Labels::of(&all);
    let told: Vec<String> = (all.iter())
        .filter_map(|case| {
            let pps = case.found.forwarding_rate_pps.filter(|pps| *pps > 0.0)?;
            let bps = bits_per_second(l2_bps(case.stream, pps));
            Some(format!("{bps} at {}", labels.label(case)))
        })
        .collect();
    (!told.is_empty()).then(|| format!("{} (frames with their FCS)", told.join("; ")))
}

/// The IMIX estimate in one sentence.
pub(crate) fn imix_words(summary: &Summary) -> Option<String> {
    let bps = summary.imix_estimate_l2_bps?;
    Some(format!(
        "a simple IMIX would get about {} (L2). An estimate from the rate of the smallest frames, not measured",
        bits_per_second(bps)
    ))
}

/// The procedure in words.
pub(crate) fn procedure_words(summary: &Summary) -> String {
    match summary.procedure.as_str() {
        "maxfwd" => "maximum forwarding rate in overload".into(),
        "paired" => "paired slices: the DUTs side by side, the generator alternates between them, everything rebuilt several \
         times"
            .into(),
        "mlrsearch" => "MLRsearch: for every goal the load at which it stops being met".into(),
        "rfc2544" => "RFC 2544: throughput, latency, frame loss rate, back-to-back frames, recovery and reset".into(),
        "ramp" => "ramp: the load rises slowly until loss begins".into(),
        "soak" => "soak: one load for a long time, or the load whose average loss is a given share".into(),
        "trial" => "one trial: one load for a given time".into(),
        loadtest::KIND => "load tests of TRex: ramps, with the figures that trex-loadtest-viz finds in them".into(),
        other => other.into(),
    }
}

/// Machine, engine and repetition in one sentence each.
pub(crate) fn method_words(info: &RunInfo, summary: &Summary) -> String {
    let facts = &info.facts;
    let mut text = procedure_words(summary);
    let repeated = |values: usize, what| (values > 0).then(|| several(values, what));
    let most = summary.test_cases.iter().map(|case| case.iterations.len());
    let extent = repeated(most.max().unwrap_or(0), "iteration").map(|n| match Shape::of(summary) {
        Shape::Slices => n.replace("iteration", "rebuild"),
        _ => format!("{} x {n}", several(summary.test_cases.len(), "test case")),
    });
    if let Some(extent) = extent {
        text.push_str(&format!(", {extent}"));
    }
    if let Some(s) = info
        .finished_at
        .as_deref()
        .and_then(|end| crate::number::elapsed(&info.started_at, end))
    {
        text.push_str(&format!(", {}", seconds(s)));
    }
    text.push_str(&format!(
        ", seed {}. Linux {}, {}, {}{}. fwdlab {}",
        info.seed,
        facts.kernel,
        facts.cpu_model,
        several(facts.cpus as usize, "CPU"),
        if facts.virtual_machine {
            ", virtual machine"
        } else {
            ""
        },
        info.tool_version
    ));
    text
}

/// What the signs in the tables mean; `None` where there is no table.
pub(crate) fn signs_words(summary: &Summary) -> Option<&'static str> {
    match Shape::of(summary) {
        Shape::Windows if !summary.test_cases.is_empty() => Some(
            "rate: median of the iterations; ± half of the 95 % interval of their mean (Student)",
        ),
        Shape::Slices if summary.comparisons().next().is_some() => Some(
            "the interval contains the difference with 95 % confidence (Student, over rebuilds)",
        ),
        _ => None,
    }
}

/// `50.5 % of 6,050,000 frames sent`.
pub(crate) fn lost_words(ledger: &Ledger) -> String {
    let sent = ledger.frames_sent;
    if ledger.frames_lost < 0 {
        return format!(
            "{} more frames came back than the {} sent",
            count(-i128::from(ledger.frames_lost)),
            count(sent)
        );
    }
    let lost = ledger.frames_lost as f64;
    format!(
        "{} of {} frames sent",
        percent(share(lost, sent as f64)),
        count(sent)
    )
}

/// What the generator owed; `None` when it sent all.
pub(crate) fn not_sent_words(ledger: &Ledger) -> Option<String> {
    let due = ledger.frames_sent + ledger.frames_not_sent;
    (ledger.frames_not_sent > 0).then(|| {
        format!(
            "not sent by the generator: {} of {} frames due ({})",
            count(ledger.frames_not_sent),
            count(due),
            percent(share(ledger.frames_not_sent as f64, due as f64))
        )
    })
}
