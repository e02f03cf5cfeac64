//! Writes the sentences that answer a campaign's question: the effect of each value that it varies.
//!
//! Sentences exist only if the test cases differ in one or two properties, such as the
//! configuration or the number of flows. They follow the rules of [`compare`](crate::compare) and
//! therefore agree with `compare @1 --by`. Counted instructions have their own intervals;
//! configurations that took turns are compared within their rebuilds. A question about a single
//! test case is answered with its result. Start with [`answers`].

use std::collections::{BTreeMap, BTreeSet};

use fwdlab_model::campaign::Case;
use fwdlab_model::comparison::Verdict;
use fwdlab_model::instructions::Exact;
use fwdlab_model::outcome::{Better, FORWARDS_NOTHING, Paired, Unit};
use fwdlab_model::result::RunInfo;
use fwdlab_model::series::Series;
use fwdlab_model::test_case::TestCase;
use fwdlab_stats::{ALLOWANCE, Assumption, Confidence, PairedOutcome, Sample, compare_pairs};

use crate::compare::{self, Compared, FEWEST_VALUES, Options, Source};
use crate::name::label;
use crate::number::{bits_per_second, difference, interval, plural, would_have_shown};
use crate::procedures::shown;
use crate::sentence::{Evidence, Finding, Sentence};
use crate::shape::l2_bps;
use crate::state::State;
use crate::{procedures, words};

/// Largest number of paired configurations that are also compared with each other.
const MOST_PAIRED: usize = 3;

/// The label by which test cases are compared.
const BY: &str = "value";

/// Returns the question of the campaign, if it has one.
pub(crate) fn question(info: &RunInfo) -> Option<&str> {
    info.parameters.get("question")?.as_str()
}

/// Returns the sentences that answer the question of a campaign. If the campaign asks a question
/// and there is nothing to compare, each test case reports its own result.
pub(crate) fn answers(info: &RunInfo, all: &[TestCase]) -> Vec<Sentence> {
    let reported = told(sentences(all));
    if !reported.is_empty() || question(info).is_none() {
        return reported;
    }
    let found = all.iter().enumerate().filter_map(|(at, case)| {
        let words = in_itself(case)?;
        Some(Sentence::for_cases(
            format!("{}: {words}", label(case, all)),
            [at],
        ))
    });
    found.collect()
}

/// Replaces the sentences without enough values by their number, unless one is all there is.
fn told(reported: Vec<Sentence>) -> Vec<Sentence> {
    counted_as_one(reported, Finding::TooFewValues, |n| match n {
        1 => "1 comparison has too few values to tell".to_owned(),
        n => format!("{n} comparisons have too few values to tell"),
    })
}

/// Returns this number of sentences at most: those with an answer first, and only the number of
/// comparisons without a proven difference.
pub(crate) fn first_of(reported: Vec<Sentence>, most: usize) -> Vec<Sentence> {
    if reported.len() <= most {
        return reported;
    }
    let counted = counted_as_one(reported, Finding::NoDifference, |n| {
        format!("{} without a proven difference", plural(n, "comparison"))
    });
    let (mut first, last): (Vec<_>, Vec<_>) =
        (counted.into_iter()).partition(|one| one.finding == Finding::Answer);
    first.truncate(most.saturating_sub(last.len()));
    first.into_iter().chain(last).collect()
}

/// Replaces the sentences with this finding by their number, unless one is all there is.
fn counted_as_one(
    reported: Vec<Sentence>,
    finding: Finding,
    words: impl FnOnce(usize) -> String,
) -> Vec<Sentence> {
    let (some, mut told): (Vec<_>, Vec<_>) =
        (reported.into_iter()).partition(|sentence| sentence.finding == finding);
    if some.is_empty() || told.is_empty() && some.len() == 1 {
        return some.into_iter().chain(told).collect();
    }
    let cases = some.iter().flat_map(|sentence| match &sentence.evidence {
        Evidence::Cases(places) => &places[..],
        Evidence::Thresholds | Evidence::Noise => &[],
    });
    let cases: BTreeSet<usize> = cases.copied().collect();
    told.push(Sentence {
        finding,
        ..Sentence::for_cases(words(some.len()), cases)
    });
    told
}

/// Returns the result of a test case on its own.
fn in_itself(case: &TestCase) -> Option<String> {
    let outcome = case.outcomes.iter().find(|outcome| outcome.answered)?;
    let overload = shown(&outcome.found).overload();
    Some(overload.unwrap_or_else(|| procedures::figure(outcome)))
}

/// Compares each configuration of paired slices with the reference DUT, and with every other one
/// within the same rebuilds.
fn of_slices(group: &[TestCase], named: &[TestCase]) -> Vec<Sentence> {
    // a second reference DUT is a control, not an answer
    let is_beside = |case: &TestCase| {
        (case.slices()).is_some_and(|found| {
            found.points.len() == 1 && found.reference != case.case.configuration
        })
    };
    let cases: Vec<(usize, &TestCase)> = (group.iter().enumerate())
        .filter(|(_, case)| is_beside(case))
        .collect();
    let own = cases.iter().filter_map(|(at, case)| {
        let finding = words::finding(case.comparisons().next()?);
        Some(Sentence::for_cases(
            format!("{}: {finding}", label(case, named)),
            [*at],
        ))
    });
    let mut reported: Vec<Sentence> = own.collect();
    // with more configurations there are too many pairs to read
    let paired = match cases.len() {
        0..=MOST_PAIRED => &cases[..],
        _ => &[],
    };
    let pairs = paired.iter().enumerate().flat_map(|(n, before)| {
        let pairs = paired[n + 1..].iter().map(move |at| (before, at));
        pairs.filter_map(|(before, at)| Some((before, at, in_the_same_rebuilds(before.1, at.1)?)))
    });
    let pairs: Vec<_> = pairs.collect();
    let tests = pairs
        .iter()
        .filter(|(.., found)| found.p_value.is_some())
        .count();
    for ((before, reference), (at, case), pair) in &pairs {
        let name = |case: &TestCase| label(case, named);
        let (than, found) = (name(reference), pair_in_words(pair, tests));
        let words = format!("{} compared with {than}: {found}", name(case));
        reported.push(Sentence {
            finding: match pair.interval_percent {
                None => Finding::TooFewValues,
                Some(_) => Finding::Answer,
            },
            ..Sentence::for_cases(words, [*at, *before])
        });
    }
    reported
}

/// Compares two configurations that took turns with the same plain DUT: its rate cancels out in
/// every rebuild.
fn in_the_same_rebuilds(reference: &TestCase, other: &TestCase) -> Option<PairedOutcome> {
    let is_doubtful =
        |case: &TestCase| case.doubt.is_some() || case.comparisons().any(|one| one.doubt.is_some());
    if is_doubtful(reference) || is_doubtful(other) {
        return None;
    }
    let ln_ratio = |case: &TestCase, iteration: u32| {
        let one = case
            .iterations
            .iter()
            .find(|one| one.iteration == iteration)?;
        let mut found = one.outcomes.iter().filter_map(|one| one.found.get());
        let point = found.find_map(|found: &Paired| found.points.first())?;
        let percent = point.comparison.values_percent.first()?;
        Some((percent / 100.0).ln_1p()).filter(|ln| ln.is_finite())
    };
    let rebuilds = other.iterations.iter().map(|one| one.iteration);
    let ln_ratios: Vec<f64> = rebuilds
        .filter_map(|n| Some(ln_ratio(other, n)? - ln_ratio(reference, n)?))
        .collect();
    let sample = Sample::new(ln_ratios).ok()?;
    let normal = Assumption::Normal;
    Some(compare_pairs(&sample, normal, ALLOWANCE, Confidence::P95))
}

/// Describes a comparison that is one of this number of tests: with three, chance alone would prove
/// a difference once in seven times (Bonferroni).
fn pair_in_words(found: &PairedOutcome, tests: usize) -> String {
    let percent = found.difference_percent;
    let Some(ends) = found.interval_percent else {
        return format!("{percent:+.1} %, too few values to tell");
    };
    let is_proven = found.p_value.is_some_and(|p| tests as f64 * p < 0.05);
    let verdict = match found.verdict {
        fwdlab_stats::Verdict::Less if is_proven => "proven slower".into(),
        fwdlab_stats::Verdict::Greater if is_proven => "proven faster".into(),
        _ => match found.detectable_percent {
            Some(least) => format!("no difference proven; {}", would_have_shown(least, true)),
            None => "no difference proven".into(),
        },
    };
    let shown = difference(percent, Some(ends));
    format!("{shown} % {}, {verdict}", interval(ends))
}

/// Returns one sentence per test case, compared with the first. If the test cases differ in two
/// properties, each is compared with the first one that shares the other property. Shards that were
/// measured on machines of their own are not compared with each other.
pub(crate) fn sentences(all: &[TestCase]) -> Vec<Sentence> {
    of_groups(
        all,
        all,
        |a, b| a.variant.shard == b.variant.shard,
        of_one_machine,
    )
}

/// Writes the sentences of a group of test cases, with names among all.
type Compare = fn(&[TestCase], &[TestCase]) -> Vec<Sentence>;

fn of_one_machine(all: &[TestCase], named: &[TestCase]) -> Vec<Sentence> {
    let Some(first) = all.first() else {
        return Vec::new();
    };
    let axes = differing(first, all);
    match axes[..] {
        [_] => compare_with_first(all, named),
        [one, other] => [one, other]
            .into_iter()
            .flat_map(|same| of_groups(all, named, same, compare_with_first))
            .collect(),
        _ => Vec::new(),
    }
}

/// Groups the test cases that share one property, and returns the sentences of every group.
fn of_groups(all: &[TestCase], named: &[TestCase], same: Same, compare: Compare) -> Vec<Sentence> {
    let mut groups: Vec<Vec<TestCase>> = Vec::new();
    for case in all {
        match groups
            .iter_mut()
            .find(|group| same(&group[0].case, &case.case))
        {
            Some(group) => group.push(case.clone()),
            None => groups.push(vec![case.clone()]),
        }
    }
    let groups = groups.iter().filter(|group| group.len() > 1);
    let reported = groups.flat_map(|group| {
        let mut reported = compare(group, named);
        for sentence in &mut reported {
            if let Evidence::Cases(places) = &mut sentence.evidence {
                let place = |at: &usize| {
                    all.iter()
                        .position(|one| one.test_case == group[*at].test_case)
                };
                *places = places.iter().filter_map(place).collect();
            }
        }
        reported
    });
    reported.collect()
}

/// Returns one sentence for each other test case of a group, compared with its first. Names are
/// those among `named`, all test cases.
fn compare_with_first(group: &[TestCase], named: &[TestCase]) -> Vec<Sentence> {
    let Some(first) = group.first() else {
        return Vec::new();
    };
    if group.iter().any(|case| case.slices().is_some()) {
        return of_slices(group, named);
    }
    let Some(figure) = first.figures.first() else {
        return Vec::new();
    };
    let name = |case: &TestCase| label(case, named);
    if group.iter().any(|case| counted(case).is_some()) {
        return (group.iter().enumerate())
            .filter_map(|(at, case)| {
                let words =
                    counted(case).and_then(|found| in_instructions(case, found, group, named))?;
                Some(Sentence::for_cases(
                    format!("{}: {words}", name(case)),
                    [at, 0],
                ))
            })
            .collect();
    }
    let series = group.iter().filter_map(|case| {
        let found = case.figures.iter().find(|one| one.name == figure.name)?;
        Some(Series {
            test_case: String::new(),
            labels: BTreeMap::from([(BY.to_owned(), name(case))]),
            metric: figure.name.clone(),
            unit: figure.unit.symbol().into(),
            values: found.values.clone(),
            left_out: u32::try_from(case.failures().count()).unwrap_or(u32::MAX),
            generator_limited: found.generator_limited,
            ..Series::default()
        })
    });
    let source = Source {
        name: String::new(),
        series: series.collect(),
    };
    let options = Options {
        by: Some(BY.to_owned()),
        baseline: Some(name(first)),
        ..Options::new(&figure.name)
    };
    // nothing to compare, e.g. all but one failed: the table shows it
    let Ok(outcome) = compare::compare(&[source], &options) else {
        return Vec::new();
    };
    let reported = outcome.rows.iter().flat_map(|row| &row.comparisons);
    let nothing = (group.iter().enumerate())
        .filter(|(_, case)| State::from_case(case) == State::ForwardsNothing)
        .map(|(at, case)| Sentence::for_cases(format!("{}: {FORWARDS_NOTHING}", name(case)), [at]));
    let reported = reported.map(|compared| {
        let than = format!("{} compared with {}", compared.column, outcome.baseline);
        let place = group.iter().position(|case| name(case) == compared.column);
        let bits = place.and_then(|place| in_bits(first, &group[place], &figure.name));
        let words = format!(
            "{than}: {}{}",
            in_words(compared, &figure.name, figure.better),
            bits.unwrap_or_default()
        );
        Sentence {
            finding: match compared.verdict {
                _ if has_too_few_values(compared) => Finding::TooFewValues,
                Verdict::NoDifference => Finding::NoDifference,
                _ => Finding::Answer,
            },
            ..Sentence::for_cases(words, place.into_iter().chain([0]))
        }
    });
    reported.chain(nothing).collect()
}

/// Returns the rates in bit/s if the frame sizes differ: fewer frames may carry more bits.
fn in_bits(reference: &TestCase, other: &TestCase, figure: &str) -> Option<String> {
    let bps = |case: &TestCase| {
        let found = case.figure(figure)?;
        let is_rate = found.unit == Unit::FramesPerSecond
            && !found.is_undetermined()
            && found.generator_limited == 0;
        let pps = is_rate.then_some(found.median)?;
        Some(l2_bps(&case.case.stream, pps)).filter(|bps| *bps > 0.0)
    };
    let size = |case: &TestCase| case.case.stream.frame_size_bytes;
    let (from, to) = (bps(reference)?, bps(other)?);
    (size(reference) != size(other)).then(|| {
        format!(
            "; in bits {} instead of {} (L2, medians), {} times as much",
            bits_per_second(to),
            bits_per_second(from),
            times(to / from)
        )
    })
}

/// Formats a factor with at least two significant digits: `4.5`, `0.93`, `12`.
fn times(factor: f64) -> String {
    let places = if factor < 1.0 {
        2
    } else {
        usize::from(factor < 10.0)
    };
    format!("{factor:.places$}")
}

/// Returns the counted instructions, if the test case has any.
fn counted(case: &TestCase) -> Option<&Exact> {
    case.outcomes.iter().find_map(|one| one.found.get())
}

/// Returns how many more instructions per frame a test case needs than its reference; `None` for
/// the reference itself.
fn in_instructions(
    case: &TestCase,
    found: &Exact,
    group: &[TestCase],
    named: &[TestCase],
) -> Option<String> {
    if let Some(reason) = &found.not_compared {
        return Some(format!("not compared: {reason}"));
    }
    let difference = found.difference.as_ref()?;
    if difference.reference == case.test_case {
        return None;
    }
    let mut group = group.iter();
    let reference = group.find(|one| one.test_case == difference.reference)?;
    let beside = label(reference, named);
    let [from, to] = difference.interval;
    let verdict = match difference.proven {
        true => "proven",
        false => "no difference proven",
    };
    Some(format!(
        "{:+.1} ± {:.1} instructions per frame compared with {beside} ({:+.2} %), {verdict}",
        difference.instructions_per_frame,
        (to - from) / 2.0,
        difference.percent
    ))
}

/// Returns true if two test cases share a property.
type Same = fn(&Case, &Case) -> bool;

/// The properties in which test cases may differ. The stream of a profile is only its mean, so its
/// size and flows are ignored.
const THINGS: [Same; 7] = [
    |a, b| a.variant.profile.is_some() || a.stream.frame_size_bytes == b.stream.frame_size_bytes,
    |a, b| a.variant.profile.is_some() || a.stream.flows == b.stream.flows,
    |a, b| a.variant.profile.is_some() || a.stream.ip_version == b.stream.ip_version,
    |a, b| a.configuration == b.configuration,
    |a, b| a.variant == b.variant,
    |a, b| a.image == b.image,
    |a, b| a.dut == b.dut,
];

/// Returns the properties in which test cases differ from the first.
fn differing(first: &TestCase, all: &[TestCase]) -> Vec<Same> {
    let differs = |same: &Same| !all.iter().all(|one| same(&first.case, &one.case));
    THINGS.into_iter().filter(differs).collect()
}

/// Describes a comparison that has no ratio: values are missing, or the reference is 0.
fn without_percent(n: [usize; 2], difference: Option<f64>, figure: &str) -> String {
    match difference {
        _ if n.contains(&0) => "inconclusive: values are missing".into(),
        Some(0.0) => format!("{figure}: 0 in both"),
        _ => format!(
            "{figure}: the reference is 0, so there is no difference in percent; see the figures themselves"
        ),
    }
}

/// Returns true if neither a verdict nor a limit of the generator can be told.
fn has_too_few_values(compared: &Compared) -> bool {
    let is_few = compared.n.into_iter().min() < Some(FEWEST_VALUES);
    is_few && compared.difference_percent.is_some() && compared.generator_limited.is_none()
}

fn in_words(compared: &Compared, figure: &str, better: Better) -> String {
    if let Some([baseline, own]) = compared.generator_limited {
        let [of_baseline, of_own] = compared.n;
        return format!(
            "{figure} cannot be compared: the generator, not the DUT, was the limit in {own} of {of_own} values, and in {baseline} of \
             {of_baseline} of the reference"
        );
    }
    let Some(percent) = compared.difference_percent else {
        if let Some(reason) = &compared.disagreement {
            return format!("{figure}: not compared: {reason}");
        }
        return without_percent(compared.n, compared.difference, figure);
    };
    if has_too_few_values(compared) {
        return format!("{figure} {percent:+.1} %, too few values to tell");
    }
    if let Some(disagreement) = &compared.disagreement {
        return format!("{figure}: no difference proven; {disagreement}");
    }
    let interval = compared
        .interval_percent
        .map_or(String::new(), |[from, to]| {
            format!(" [{from:+.1}, {to:+.1}]")
        });
    let verdict = match (compared.verdict, better) {
        (Verdict::Less, Better::Higher) | (Verdict::More, Better::Lower) => "proven worse".into(),
        (Verdict::More, Better::Higher) | (Verdict::Less, Better::Lower) => "proven better".into(),
        _ => match compared.detectable_percent {
            Some(least) if least.is_finite() => format!(
                "no difference proven; {}",
                would_have_shown(least, compared.pairs.is_some())
            ),
            _ => "no difference proven".into(),
        },
    };
    format!("{figure} {percent:+.1} %{interval}, {verdict}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_sentences_those_with_an_answer_come_first() {
        let all = |findings: &[Finding]| {
            let each = findings.iter().enumerate();
            let each = each.map(|(at, finding)| Sentence {
                finding: *finding,
                ..Sentence::for_cases(format!("{at}"), [at])
            });
            let words = first_of(each.collect(), 3).into_iter().map(|one| one.words);
            words.collect::<Vec<_>>().join("; ")
        };
        let (answer, none) = (Finding::Answer, Finding::NoDifference);
        assert_eq!(all(&[none, answer, none]), "0; 1; 2");
        let counted = "2 comparisons without a proven difference";
        assert_eq!(
            all(&[none, answer, none, answer]),
            format!("1; 3; {counted}")
        );
        assert_eq!(
            all(&[answer, answer, none, none, answer]),
            format!("0; 1; {counted}")
        );
        assert_eq!(all(&[answer; 4]), "0; 1; 2");
    }

    /// A p-value of 0.03 proves a difference alone, and not as one of three.
    #[test]
    fn the_significance_is_divided_by_the_number_of_tests() {
        let found = PairedOutcome {
            p_value: Some(0.03),
            ..compare_pairs(
                &Sample::new([0.009, 0.012, 0.01, 0.011, 0.008]).unwrap(),
                Assumption::Normal,
                0.0,
                Confidence::P95,
            )
        };
        let is_proven = |tests| pair_in_words(&found, tests).contains("proven faster");
        assert_eq!([1, 2, 3].map(is_proven), [true, false, false]);
    }

    #[test]
    fn a_reference_of_zero_is_not_a_missing_value() {
        let words = without_percent([5, 5], Some(0.1), "deficit");
        assert!(words.starts_with("deficit: the reference is 0"), "{words}");
        let words = without_percent([5, 5], Some(0.0), "deficit");
        assert_eq!(words, "deficit: 0 in both");
        for n in [[0, 5], [5, 0]] {
            let words = without_percent(n, Some(0.0), "deficit");
            assert!(words.contains("values are missing"));
        }
    }
}
