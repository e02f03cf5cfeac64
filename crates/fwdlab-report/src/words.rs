//! Writes the sentences of a report: results, their reliability, losses.
//!
//! All formats use them, so the terminal and the page agree. Numbers are formatted by
//! [`number`](crate::number), tables are in `windows`, the headline is in
//! [`headline`](crate::headline). Start with [`finding`].

use fwdlab_model::campaign::Procedure;
use fwdlab_model::comparison::{Comparison, Verdict};
use fwdlab_model::loadtest;
use fwdlab_model::loss::Ledger;
use fwdlab_model::outcome::Maxfwd;
use fwdlab_model::probe::{ApartStratum, MachineState};
use fwdlab_model::result::{Noise, RunInfo, Summary};

use crate::number::{
    bits_per_second, count, counted, difference, interval, percent, plural, rate, seconds, share,
    would_have_shown,
};
use crate::section::{Named, TO_DO, named};
use crate::shape::{Labels, Rated, Shape, comparisons, does_not_forward, l2_bps, rated};
use crate::table::capital;

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

/// Returns true if no frame came back with this configuration: that is an answer, although there is
/// no difference to report.
fn forwards_nothing(comparison: &Comparison) -> bool {
    comparison.forwarding_rate_pps == Some(0.0)
}

/// Describes the result of a comparison, without its name:
/// `Proven 2.1 % slower than the plain DUT, [-2.6, -1.6] %`.
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

/// Describes the verdict of a comparison.
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
            values => format!("cannot tell from {}", plural(values, "value")),
        },
    }
}

/// Returns the verdict in a few words, for tables.
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

/// Describes the A/A control in one sentence.
pub(crate) fn control_words(control: &Comparison) -> String {
    let (Some(value), Some(ends)) = (control.difference_percent, control.interval_percent) else {
        return format!(
            "the same DUT, measured twice; {} cannot tell",
            plural(control.values_percent.len(), "usable pair")
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

/// Returns the shares of the strata of windows; `None` if the procedure has no windows.
pub(crate) fn windows_words(cases: &[Rated<'_>]) -> Option<String> {
    let sum = |of: fn(&Maxfwd) -> u32| cases.iter().map(|c| u64::from(of(&c.found))).sum::<u64>();
    let quiet = sum(|c| c.quiet.windows);
    let contended = sum(|c| c.contended.windows);
    let stalled = sum(|c| c.windows_not_offered);
    let strata = cases.iter().flat_map(|c| &c.found.other_states);
    let apart: u64 = strata.map(|s| u64::from(s.stratum.windows)).sum();
    let all = quiet + contended + apart + stalled;
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
            of_all(stalled)
        )
    })
}

/// Returns the warnings of the run, then those of test cases and comparisons with their names.
pub(crate) fn all_warnings(summary: &Summary) -> Vec<String> {
    let rated = rated(summary);
    let labels = Labels::from_cases(&rated);
    let of_cases = rated.iter().flat_map(|case| {
        let label = labels.label(case);
        case.case.warnings().map(move |w| format!("{label}: {w}"))
    });
    let of_comparisons = comparisons(summary).into_iter().flat_map(|c| {
        let name = if c.control {
            "A/A control"
        } else {
            &c.configuration
        };
        c.warnings.iter().map(move |w| format!("{name}: {w}"))
    });
    summary
        .warnings
        .iter()
        .cloned()
        .chain(of_cases)
        .chain(of_comparisons)
        .collect()
}

/// Describes how quiet the machine was, and how to improve it if it was not.
pub(crate) fn noise(summary: &Summary) -> impl Iterator<Item = Named> {
    named("noise", [summary.noise.verdict.clone()])
        .chain(named(TO_DO, summary.noise.to_do.iter().cloned()))
}

/// Describes the state of the machine to which the figures belong, and the results in its other
/// states; `None` if no state is known.
pub(crate) fn state_words(noise: &Noise, cases: &[Rated<'_>]) -> Option<String> {
    let (of, others) = noise.states.split_first()?;
    if others.is_empty() {
        return Some(format!("the CPUs were {of} throughout"));
    }
    let labels = Labels::from_cases(cases);
    let reported = |state: &MachineState| {
        let rates: Vec<String> = cases
            .iter()
            .flat_map(|case| {
                case.found
                    .other_states
                    .iter()
                    .map(move |stratum| (case, stratum))
            })
            .filter(|(_, s)| s.is_like(&ApartStratum::new(state, s.stratum.clone())))
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
    let others: Vec<String> = others.iter().map(reported).collect();
    Some(format!(
        "figures are for CPUs {of}, as in {} of readings; also {}",
        percent(of.percent),
        others.join("; ")
    ))
}

/// Compares quiet windows with all windows: rate and coefficient of variation of one test case.
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

/// Returns the rate of each test case in bit/s.
pub(crate) fn l2_words(summary: &Summary) -> Option<String> {
    let all = rated(summary);
    let labels = Labels::from_cases(&all);
    let reported: Vec<String> = (all.iter())
        .filter_map(|case| {
            let pps = case.found.forwarding_rate_pps.filter(|pps| *pps > 0.0)?;
            let bps = bits_per_second(l2_bps(case.stream, pps));
            Some(format!("{bps} at {}", labels.label(case)))
        })
        .collect();
    (!reported.is_empty()).then(|| format!("{} (frames with their FCS)", reported.join("; ")))
}

/// Describes the IMIX estimate in one sentence.
pub(crate) fn imix_words(summary: &Summary) -> Option<String> {
    let bps = summary.imix_estimate_l2_bps?;
    Some(format!(
        "a simple IMIX would get about {} (L2). An estimate from the rate of the smallest frames, not measured",
        bits_per_second(bps)
    ))
}

/// Describes the procedure.
pub(crate) fn procedure_words(summary: &Summary) -> String {
    let id = summary.procedure.as_str();
    let words = match id {
        loadtest::KIND => {
            "load tests of TRex: ramps, with the figures that trex-loadtest-viz finds in them"
        }
        _ => Procedure::about(id).unwrap_or(id),
    };
    // a sentence begins with a capital; RFC and MLRsearch keep theirs
    let is_word = words.chars().nth(1).is_some_and(char::is_lowercase);
    let (first, rest) = words.split_at(1);
    match is_word {
        true => first.to_lowercase() + rest,
        false => words.to_owned(),
    }
}

/// Describes machine, engine and repetition, in one sentence each.
pub(crate) fn method_words(info: &RunInfo, summary: &Summary) -> String {
    let facts = &info.facts;
    let mut text = procedure_words(summary);
    let repeated = |values: usize, what| (values > 0).then(|| plural(values, what));
    let most = summary.test_cases.iter().map(|case| case.iterations.len());
    let extent =
        repeated(most.max().unwrap_or(0), "iteration").map(|n| {
            match Shape::from_summary(summary) {
                Shape::Slices => n.replace("iteration", "rebuild"),
                _ => format!("{} x {n}", plural(summary.test_cases.len(), "test case")),
            }
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
    text.push_str(&format!(", seed {}.", info.seed));
    if facts.is_known() {
        text.push_str(&format!(
            " {}, {}, {}{}.",
            facts.release(),
            facts.cpu_model,
            plural(facts.cpus as usize, "CPU"),
            if facts.virtual_machine {
                ", virtual machine"
            } else {
                ""
            },
        ));
    }
    text.push_str(&format!(" fwdlab {}", info.tool_version));
    text
}

/// Explains the signs in the tables; `None` if there is no table.
pub(crate) fn signs_words(summary: &Summary) -> Option<&'static str> {
    match Shape::from_summary(summary) {
        Shape::Windows if !summary.test_cases.is_empty() => Some(
            "offered load and rate: windows that count, median of the iterations; ± half of the 95 % interval of their mean (Student). \
             loss: whole trials, all windows",
        ),
        Shape::Slices if summary.comparisons().next().is_some() => Some(
            "the interval contains the difference with 95 % confidence (Student, over rebuilds)",
        ),
        _ => None,
    }
}

/// Formats the loss: `50.5 % of 6,050,000 frames sent`.
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

/// Describes the frames that the generator did not send; `None` if it sent all.
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
