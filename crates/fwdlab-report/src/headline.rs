//! Writes the headline: the result of a run in one sentence, for all kinds of results.
//!
//! `campaign`, `procedures` and `imported` write their own answers; this module adds doubts about
//! them. Start with [`from_summary`].

use fwdlab_model::comparison::{Comparison, Verdict};
use fwdlab_model::loadtest;
use fwdlab_model::result::{Noise, RunInfo, RunState, Summary};
use fwdlab_model::test_case::TestCase;

use crate::compare::in_short;
use crate::imported;
use crate::name::dut;
use crate::number::{NOT_DETERMINED, bits_per_second, flows, plural, rate, rate_with_interval};
use crate::run::Run;
use crate::shape::{Labels, Rated, Shape, control, does_not_forward, l2_bps, principal, rated};
use crate::table::shorten;
use crate::words::{finding, tally};

/// Width of a multi-line configuration in a headline, in columns.
const ABOUT: usize = 48;

/// The result of a run in one sentence, and the command that it is about if the sentence does not
/// contain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Headline {
    /// The sentence, without a full stop.
    pub answer: String,
    /// The only configuration of a comparison, as typed.
    pub about: Option<String>,
}

impl Headline {
    /// Returns the answer and the command in one line.
    pub fn line(&self) -> String {
        match &self.about {
            // the table is followed by the full script
            Some(about) if about.trim().contains('\n') => {
                let one_line = about.split_whitespace().collect::<Vec<_>>().join(" ");
                format!("{}: {}", self.answer, shorten(&one_line, ABOUT))
            }
            Some(about) => format!("{}: {about}", self.answer),
            None => self.answer.clone(),
        }
    }
}

/// How much a headline says about doubts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubts {
    /// The reasons, before the answer.
    Reasons,
    /// A word, because a list has little room.
    Word,
}

/// Returns the headline of a run.
pub(crate) fn from_summary(info: &RunInfo, summary: &Summary) -> Headline {
    if info.kind == imported::KIND {
        return Headline {
            answer: imported::headline(info, summary),
            about: None,
        };
    }
    let Headline { answer, about } = found(info, summary, Doubts::Reasons);
    let limits = in_short(&summary.thresholds);
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
        (RunState::Running, _) => Headline {
            answer: format!("So far, after {}: {answer}", measured(info, summary)),
            about,
        },
        (RunState::Finished, _) => Headline {
            // instruction counts in a virtual machine do not depend on root
            answer: match summary.procedure.as_str() {
                "exact" => format!("{limits}{answer}"),
                _ => format!("{limits}{answer}{}", without_root(info)),
            },
            about,
        },
    }
}

/// Returns what was found, and the command that it is about, whatever became of the run.
fn found(info: &RunInfo, summary: &Summary, doubts: Doubts) -> Headline {
    let real: Vec<&Comparison> = match Shape::from_summary(summary) {
        Shape::Slices => summary.comparisons().collect(),
        _ => Vec::new(),
    };
    let about = match real[..] {
        [only] => Some(only.configuration.clone()),
        _ => None,
    };
    let compared = summary.test_cases.len();
    let distrust = match doubts {
        Doubts::Reasons => distrust(summary),
        Doubts::Word => "",
    };
    let answer = match real[..] {
        [] if Shape::from_summary(summary) == Shape::Slices && summary.noise.too_noisy => format!(
            "Too noisy to tell: {} not decided on this machine",
            plural(compared, "comparison")
        ),
        [] => match info
            .parameters
            .get("title")
            .and_then(|title| title.as_str())
        {
            Some(title) => format!("{title}: {}", forwarding(summary, doubts)),
            None => forwarding(summary, doubts),
        },
        _ if summary.noise.too_noisy => format!(
            "Too noisy to tell: {} not decided on this machine",
            plural(real.len(), "comparison")
        ),
        [only] => format!("{}{distrust}", finding(only)),
        _ => format!("{}{distrust}", tally(&real)),
    };
    Headline { answer, about }
}

/// Returns what was found in a line of a list, which shows next to it what the run is worth.
pub(crate) fn in_list(info: &RunInfo, summary: &Summary) -> String {
    let limits = in_short(&summary.thresholds);
    let line = match info.kind == imported::KIND {
        true => imported::headline(info, summary),
        false => found(info, summary, Doubts::Word).line(),
    };
    format!("{limits}{line}")
}

/// Counts what a run in progress has measured: its iterations, or the trials of its only turn.
fn measured(info: &RunInfo, summary: &Summary) -> String {
    let iterations = || summary.test_cases.iter().flat_map(|case| &case.iterations);
    let is_one_turn = (info.parameters.get("order")).is_some_and(|order| order == "together");
    let made = match is_one_turn {
        true => plural(iterations().map(|one| one.trials.len()).sum(), "trial"),
        false => plural(iterations().count(), "iteration"),
    };
    match summary.test_cases.len() {
        1 => made,
        cases => format!("{made} of {}", plural(cases, "test case")),
    }
}

/// Returns a run in one line: its id and its answer.
pub(crate) fn with_id(run: &Run<'_>) -> String {
    format!(
        "{}: {}",
        run.info.id,
        from_summary(run.info, run.summary).answer
    )
}

/// Returns the note for measurements without root: the load is lower, and the DUT shares its CPU
/// with other processes.
fn without_root(info: &RunInfo) -> &'static str {
    let is_ours = info.kind != loadtest::KIND;
    let is_measured = is_ours && !info.facts.engine.is_empty() && !info.facts.is_simulated();
    match is_measured && !info.facts.privileged {
        true => "; measured without root",
        false => "",
    }
}

/// Returns true if there is a figure for the headline.
fn has_figure(summary: &Summary) -> bool {
    let with_figure = |case: &TestCase| !case.figures.is_empty();
    summary.test_cases.iter().any(with_figure)
}

/// Returns the answer of a run without comparisons.
fn forwarding(summary: &Summary, doubts: Doubts) -> String {
    let cases = &summary.test_cases;
    match Shape::from_summary(summary) {
        // in a shard of a campaign
        _ if cases.is_empty() && summary.procedure == "exact" => {
            return "Only the A/A control was measured".into();
        }
        _ if cases.is_empty() => return "Nothing was measured".into(),
        Shape::Windows => {}
        Shape::Procedures if summary.outcomes().next().is_some() => {
            let outcomes: Vec<_> = summary.outcomes().cloned().collect();
            return doubted(summary, crate::procedures::headline(&outcomes), doubts);
        }
        _ => return doubted(summary, crate::campaign::headline(cases), doubts),
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
    if Labels::from_cases(&all).configuration {
        what = format!("{what} with configuration {}", case.case.case.configuration);
    }
    if Labels::from_cases(&all).dut {
        what = format!("{what}, {},", dut(case.case.case.dut));
    }
    if let (true, Some(shard)) = (Labels::from_cases(&all).shard, case.case.case.variant.shard) {
        what = format!("{what} on the machine of shard {shard}");
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
            plural(case.rates.len(), "iteration")
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

/// Returns the note for a figure that was measured while the CPU was slowed.
fn slowed(noise: &Noise) -> &'static str {
    match noise.states.first() {
        Some(state) if state.slowed => ", its CPU slowed",
        _ => "",
    }
}

/// Returns true if all iterations have a value, but there are too few for an interval.
fn is_too_few(case: &Rated<'_>) -> bool {
    let is_narrow = case.half_width.is_some();
    case.case.doubt.is_some() && !is_narrow && case.case.failures().next().is_none()
}

/// Returns the answer of a procedure, after the doubt about it if there is one.
fn doubted(summary: &Summary, answer: String, doubts: Doubts) -> String {
    if !summary.noise.too_noisy {
        return match crate::campaign::is_headline_doubtful(&summary.test_cases) {
            true => format!("Too noisy to tell: {answer}"),
            false => answer,
        };
    }
    match (&summary.noise.doubts[..], doubts) {
        ([], _) | (_, Doubts::Word) => format!("Too noisy to tell: {answer}"),
        (doubts, Doubts::Reasons) => format!("Too noisy, {}: {answer}", doubts.join(" and ")),
    }
}

/// Returns the doubt that follows from the A/A control.
fn distrust(summary: &Summary) -> &'static str {
    match control(summary).map(|c| c.verdict) {
        Some(Verdict::Less | Verdict::More) => " (but the A/A control differs from itself)",
        _ => "",
    }
}
