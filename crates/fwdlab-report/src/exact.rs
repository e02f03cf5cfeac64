//! Reports the cost of a frame in instructions: the headline, a row per test case, and the limits
//! of such figures.
//!
//! It never reports a rate: instructions are not time. The terminal, the page and files share it.
//! Start with [`headline`] and [`differences`].

use fwdlab_model::comparison::{Comparison, Verdict};
use fwdlab_model::instructions::{Difference, Exact, FunctionShare, changes};
use fwdlab_model::outcome::Outcome;
use fwdlab_model::result::Summary;
use fwdlab_model::stacks::{self, Profile};
use fwdlab_model::test_case::TestCase;

use crate::flame;
use crate::name::label;
use crate::number::{count, instructions as number, plural};
use crate::shape::is_in_instructions;
use crate::table::{Cell, Mark, Table, shorten, table};

/// The explanation below every table of instructions.
pub(crate) const MEANING: &str = "instructions that the DUT executes for a frame, counted in QEMU's emulator on one CPU. This is not time: \
    caches, mispredicted branches, locks and several CPUs are not included";

/// Number of functions in the terminal.
pub(crate) const FUNCTIONS: usize = 12;

/// Functions with a smaller difference, in instructions per frame, share one row.
const LEAST: f64 = 0.5;

/// Width of a configuration's name in a headline, in columns.
const ABOUT: usize = 48;

/// Returns the counted instructions of an outcome, if it has any.
pub(crate) fn from_outcome(outcome: &Outcome) -> Option<&Exact> {
    outcome.found.get().filter(|_| outcome.answered)
}

fn for_case(case: &TestCase) -> Option<&Exact> {
    case.outcomes.iter().find_map(from_outcome)
}

/// Returns the test cases that were compared with another one. The reference, which is compared
/// with itself, is excluded.
fn compared(all: &[TestCase]) -> impl Iterator<Item = (&TestCase, &Exact, &Difference)> {
    all.iter().filter_map(|case| {
        let found = for_case(case)?;
        let difference = found.difference.as_ref()?;
        (difference.reference != case.test_case).then_some((case, found, difference))
    })
}

/// Returns the test cases that have a result, and are not comparable with their reference.
fn not_compared(all: &[TestCase]) -> impl Iterator<Item = (&TestCase, &str)> {
    all.iter()
        .filter_map(|case| Some((case, for_case(case)?.not_compared.as_deref()?)))
}

/// Returns the headline; `None` if no instructions were counted.
pub(crate) fn headline(all: &[TestCase]) -> Option<String> {
    if !is_in_instructions(all) {
        return None;
    }
    let differences: Vec<_> = compared(all).collect();
    let first = all.iter().find_map(for_case)?;
    let not_compared = not_compared(all).count();
    Some(match &differences[..] {
        [] if not_compared > 0 => format!(
            "no difference in instructions per frame: {} not compared",
            plural(not_compared, "test case")
        ),
        several if not_compared > 0 => {
            let proven = several.iter().filter(|(_, _, d)| d.proven).count();
            format!(
                "{proven} of {} differences in instructions per frame proven; {} not compared",
                several.len(),
                plural(not_compared, "test case")
            )
        }
        [] => format!(
            "{} instructions per frame",
            number(first.instructions_per_frame)
        ),
        [(case, _, only)] => {
            let name = match case.case.configuration.as_str() {
                // the same configuration on another image
                "plain" => case.case.image.as_deref().unwrap_or("plain"),
                name => name,
            };
            format!("{}: {}", shorten(name, ABOUT), finding(only))
        }
        several => {
            let proven = several.iter().filter(|(_, _, d)| d.proven).count();
            format!(
                "{proven} of {} differences in instructions per frame proven",
                several.len()
            )
        }
    })
}

/// Formats a difference: `312.0 more instructions per frame (+3.0 %), proven`.
pub(crate) fn finding(difference: &Difference) -> String {
    let more = difference.instructions_per_frame;
    let half = half(difference.interval);
    match difference.proven {
        true => format!(
            "{} ± {} {} instructions per frame ({:+.1} %), proven",
            number(more.abs()),
            number(half),
            if more > 0.0 { "more" } else { "fewer" },
            difference.percent
        ),
        false => format!(
            "no difference in instructions per frame proven ({} ± {})",
            signed(more),
            number(half)
        ),
    }
}

pub(crate) fn in_a_word(difference: &Difference) -> &'static str {
    match difference.proven {
        true => "proven",
        false => "not proven",
    }
}

/// Returns the differences with the labels of their test cases; the A/A control has none.
pub(crate) fn all_differences(all: &[TestCase]) -> Vec<(Option<String>, &Difference)> {
    let found = all.iter().filter_map(|case| {
        let difference = for_case(case)?.difference.as_ref()?;
        let is_control = difference.reference == case.test_case;
        let name = || shorten(&label(case, all), ABOUT);
        Some(((!is_control).then(name), difference))
    });
    match is_in_instructions(all) {
        true => found.collect(),
        false => Vec::new(),
    }
}

/// Returns a table with one row per test case; `None` if no instructions were counted.
pub(crate) fn differences(all: &[TestCase]) -> Option<Table> {
    if !is_in_instructions(all) {
        return None;
    }
    let plus_minus = |text: String, value: f64, interval| {
        let half = half(interval);
        Cell::with_values(
            format!("{text} ± {}", number(half)),
            [value, half].map(|v| v.to_string()),
        )
    };
    let rows = all.iter().flat_map(|case| {
        let name = Cell::new(shorten(&label(case, all), ABOUT), &case.test_case);
        let Some(found) = for_case(case) else {
            let nothing = Cell::with_values("no result", ["", ""].map(str::to_owned));
            return vec![(Mark::Invalid, name, nothing, None, "")];
        };
        let total = found.instructions_per_frame;
        let value = plus_minus(number(total), total, found.interval);
        let is_control = |d: &&Difference| d.reference == case.test_case;
        let own = found.difference.as_ref();
        let shown = own.filter(|d| !is_control(d));
        let verdict = match (shown, &found.not_compared) {
            (Some(one), _) => in_a_word(one),
            (None, Some(_)) => "not compared",
            (None, None) => "",
        };
        let mut rows = vec![(Mark::None, name, value, shown, verdict)];
        rows.extend(own.filter(is_control).map(|control| {
            let name = Cell::new("  booted again", format!("{}/control", case.test_case));
            let sum = total + control.instructions_per_frame;
            let value = Cell::with_values(number(sum), [sum.to_string(), String::new()]);
            (
                Mark::Control,
                name,
                value,
                Some(control),
                in_a_word(control),
            )
        }));
        rows
    });
    let difference = |difference: Option<&Difference>| match difference {
        Some(one) => {
            let more = one.instructions_per_frame;
            plus_minus(signed(more), more, one.interval)
        }
        None => Cell::with_values("", ["", ""].map(str::to_owned)),
    };
    Some(table! {
        (mark, name, value, own, verdict) in rows, mark;
        left("test case", "test_case") => name,
        plus_minus("instructions/frame", "instructions_per_frame", "half_width") => value,
        plus_minus("difference", "difference_instructions_per_frame", "difference_half_width") =>
            difference(own),
        right("percent", "difference_percent") =>
            Cell::optional(own.map(|own| own.percent), "", |percent| format!("{percent:+.2} %")),
        left("", "verdict") => Cell::text(verdict),
    })
}

/// Returns what qualifies the figures: what they count, and the control.
pub(crate) fn sentences(summary: &Summary) -> Vec<(&'static str, String)> {
    let all = &summary.test_cases;
    if !is_in_instructions(all) {
        return Vec::new();
    }
    let mut reported = vec![("meaning", MEANING.to_owned())];
    let control = all.iter().find_map(|case| {
        let difference = for_case(case)?.difference.as_ref()?;
        (difference.reference == case.test_case).then_some(difference)
    });
    let has_reason = not_compared(all).next().is_some();
    let control = match control {
        Some(control) if control.proven => format!(
            "A/A: the same DUT in another boot needs {} instructions, and should need none: do not rely on small differences here",
            signed(control.instructions_per_frame)
        ),
        Some(control) => format!(
            "A/A: the same DUT in another boot needs {} ± {} instructions per frame",
            signed(control.instructions_per_frame),
            number(half(control.interval))
        ),
        None if has_reason => String::new(),
        None => "A/A: the reference has no second boot to compare with".into(),
    };
    reported.extend((!control.is_empty()).then_some(("control", control)));
    reported.extend(not_compared(all).map(|(case, reason)| {
        let name = shorten(&label(case, all), ABOUT);
        ("not compared", format!("{name}: {reason}"))
    }));
    if let Some(found) = all.iter().find_map(for_case) {
        reported.push((
            "tester",
            format!(
                "generator and receiver take {} instructions per frame by themselves, which are subtracted",
                number(found.tester_per_frame)
            ),
        ));
        let bursts: u32 = all.iter().filter_map(for_case).map(|f| f.bursts).sum();
        reported.push((
            "bursts",
            format!(
                "medians of {} of {} frames through the DUT and as many bursts past it; the first bursts of each boot are warm-up and do not count",
                plural(bursts as usize, "burst"),
                count(found.frames)
            ),
        ));
        let mut machines: Vec<String> = Vec::new();
        for found in all.iter().filter_map(for_case) {
            let words = format!("{}, Linux {}", found.image, found.kernel);
            if !machines.contains(&words) {
                machines.push(words);
            }
        }
        reported.extend(machines.into_iter().map(|words| ("image", words)));
    }
    reported
}

/// Returns the cost of each function compared with the reference: a title and a table per test
/// case. About `most` functions have their own row; the others share one.
pub(crate) fn functions(all: &[TestCase], most: usize) -> Vec<(String, Table)> {
    let profile = |case: &TestCase| -> Option<Profile> {
        let profile = for_case(case)?.profile();
        (!profile.is_empty()).then_some(profile)
    };
    let mut tables = Vec::new();
    for (case, _, difference) in compared(all) {
        let reference = all.iter().find(|c| c.test_case == difference.reference);
        let Some((before, after)) = reference.and_then(profile).zip(profile(case)) else {
            continue;
        };
        let rows = stacks::difference(&before, &after);
        if rows.iter().all(|row| row.difference().abs() < LEAST) {
            continue;
        }
        let least = rows
            .get(most)
            .map_or(LEAST, |row| row.difference().abs() + 0.05);
        let names = ["before", "after"];
        let title = shorten(&label(case, all), ABOUT);
        tables.push((title, flame::differences(&rows, names, least.max(LEAST))));
    }
    tables
}

/// Compares the cost of the configurations of slices in instructions with their cost in time.
pub(crate) fn compare_with_rates(all: &[TestCase]) -> Vec<String> {
    let of = |case: &TestCase| {
        let name = match all.len() {
            1 => String::new(),
            _ => format!("{}: ", shorten(&case.case.configuration, ABOUT)),
        };
        let found = for_case(case)?;
        if let Some(reason) = &found.not_compared {
            return Some(format!("{name}instructions are not compared: {reason}"));
        }
        let difference = found.difference.clone()?;
        let time = case.comparisons().next();
        let within = match &listed(&difference.functions, NAMED)[..] {
            "" => String::new(),
            functions => format!("; most in {functions}"),
        };
        let found = finding(&difference);
        Some(format!(
            "{name}{found}{within}. {}",
            agreement(time, &difference)
        ))
    };
    all.iter().filter_map(of).collect()
}

/// Number of functions that a sentence lists.
pub(crate) const NAMED: usize = 3;

/// Lists the first functions: `nft_do_chain +213.0, ip_forward +29.0`.
pub(crate) fn listed(functions: &[FunctionShare], most: usize) -> String {
    let functions = functions.iter().take(most);
    let functions = functions.map(|f| format!("{} {}", f.function, signed(f.per_frame)));
    functions.collect::<Vec<_>>().join(", ")
}

/// Returns the functions that take more or less in one profile than in another, the largest
/// difference first; none if there is only one profile.
pub(crate) fn changed(before: &Profile, after: &Profile) -> Vec<FunctionShare> {
    match before.is_empty() || after.is_empty() {
        true => Vec::new(),
        false => changes(before, after, LEAST),
    }
}

/// Ratios of time to instructions above this, or below its inverse, are reported. Smaller ones are
/// normal: caches alone cause them.
const FAR: f64 = 3.0;

/// Describes whether time and instructions agree.
fn agreement(time: Option<&Comparison>, counted: &Difference) -> String {
    const UNSEEN: &str =
        "instructions do not see caches, locks, mispredicted branches and other CPUs";
    let decided = time.filter(|time| time.verdict != Verdict::CannotTell);
    if decided.is_none() {
        return "This machine is too noisy now for a result in time".into();
    }
    let proven = decided.filter(|time| time.verdict != Verdict::NoDifference);
    let Some(rate) = proven.and_then(|time| time.difference_percent) else {
        return match counted.proven {
            true => "In time no difference is proven: it may be too small to be seen there".into(),
            false => "Neither time nor instructions show a difference".into(),
        };
    };
    // convert from percent of the rate to percent of the time per frame
    let longer = 100.0 * (1.0 / (1.0 + rate / 100.0) - 1.0);
    let ratio = longer / counted.percent;
    match counted.proven {
        false => format!("In time {longer:+.1} % a frame are proven: {UNSEEN}"),
        true if ratio < 0.0 => {
            format!("Time says the opposite, {longer:+.1} % a frame: believe it, for {UNSEEN}")
        }
        true if !(1.0 / FAR..=FAR).contains(&ratio) => format!(
            "Time says {longer:+.1} % a frame, {:+.1} % of the instructions: {UNSEEN}",
            counted.percent
        ),
        true => format!("Time agrees: {longer:+.1} % a frame"),
    }
}

/// Returns the name of the reference of a test case; `None` for the reference itself.
pub(crate) fn reference(case: &TestCase) -> Option<&str> {
    let difference = for_case(case)?.difference.as_ref()?;
    (difference.reference != case.test_case).then_some(&difference.reference)
}

/// Returns half the width of an interval.
pub(crate) fn half([low, high]: [f64; 2]) -> f64 {
    (high - low) / 2.0
}

/// Formats a value with its sign: `+400.0`.
pub(crate) fn signed(value: f64) -> String {
    let text = number(value);
    match text.starts_with('-') {
        true => text,
        false => format!("+{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number(4799.94), "4,799.9");
        assert_eq!(number(-0.04), "0.0");
        assert_eq!(number(-12_345.67), "-12,345.7");
        assert_eq!(signed(400.0), "+400.0");
        assert_eq!(signed(-0.26), "-0.3");
    }

    #[test]
    fn time_and_instructions_agree_or_not() {
        let time = |verdict: Verdict, percent: f64| -> Comparison {
            let value = serde_json::json!({
                "configuration": "x", "control": false, "difference_percent": percent, "verdict": verdict,
                "values_percent": [], "warnings": []
            });
            serde_json::from_value(value).unwrap()
        };
        let counted = |percent: f64, proven: bool| Difference {
            reference: "plain".into(),
            instructions_per_frame: 43.2 * percent,
            interval: [0.0; 2],
            percent,
            proven,
            functions: Vec::new(),
        };
        // 3.8 % fewer frames per second are 4.0 % more time per frame
        let slower = time(Verdict::Less, -3.8462);
        for (time, counted, words) in [
            (
                Some(&slower),
                counted(7.5, true),
                "Time agrees: +4.0 % a frame",
            ),
            (
                Some(&slower),
                counted(40.0, true),
                "Time says +4.0 % a frame, +40.0 % of the instructions",
            ),
            (Some(&slower), counted(-3.0, true), "Time says the opposite"),
            (
                Some(&slower),
                counted(0.0, false),
                "In time +4.0 % a frame are proven",
            ),
            (
                Some(&time(Verdict::NoDifference, -0.1)),
                counted(1.0, true),
                "may be too small",
            ),
            (
                Some(&time(Verdict::NoDifference, -0.1)),
                counted(0.0, false),
                "Neither",
            ),
            (
                Some(&time(Verdict::CannotTell, -9.0)),
                counted(7.5, true),
                "too noisy now",
            ),
            (None, counted(7.5, true), "too noisy now"),
        ] {
            let said = agreement(time, &counted);
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}
