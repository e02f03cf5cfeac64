//! The sentences in which a campaign ends: what each value of the thing that it varies changes.
//!
//! They are made where test cases differ in one thing only, such as the configuration or the number of flows, and by the rules of
//! [`compare`](crate::compare): what this says is what `compare @1 --by` says. Counted instructions have intervals of
//! their own, and paired slices have tables of differences. Start with [`sentences`].

use std::collections::BTreeMap;

use fwdlab_model::campaign::Case;
use fwdlab_model::comparison::Verdict;
use fwdlab_model::instructions::Exact;
use fwdlab_model::outcome::{Better, Found};
use fwdlab_model::result::RunInfo;
use fwdlab_model::series::Series;
use fwdlab_model::test_case::TestCase;
use fwdlab_stats::Confidence;

use crate::campaign::label;
use crate::compare::{self, Compared, Options, Source, TestChoice};
use crate::executive::Sentence;

/// Fewer values have no interval worth the name.
const FEWEST: usize = 3;

/// What differs.
const BY: &str = "value";

/// The question that the campaign asks, if it does.
pub(crate) fn question(info: &RunInfo) -> Option<&str> {
    info.parameters.get("question")?.as_str()
}

/// One sentence for every test case beside the first.
pub(crate) fn sentences(all: &[TestCase]) -> Vec<Sentence> {
    let Some(first) = all.first() else {
        return Vec::new();
    };
    if all.len() < 2 || differing(all) != 1 {
        return Vec::new();
    }
    // a difference of differences in percent of one of them is nothing that anybody asked for
    if all.iter().any(|case| case.slices().is_some()) {
        return Vec::new();
    }
    let Some(figure) = first.figures.first() else {
        return Vec::new();
    };
    let name = |case: &TestCase| label(case, all);
    if all.iter().any(|case| counted(case).is_some()) {
        return (all.iter().enumerate())
            .filter_map(|(at, case)| {
                let words = counted(case).and_then(|found| in_instructions(case, found, all))?;
                Some(Sentence::of(format!("{}: {words}", name(case)), [at, 0]))
            })
            .collect();
    }
    let series = all.iter().filter_map(|case| {
        let found = case.figures.iter().find(|one| one.name == figure.name)?;
        Some(Series {
            test_case: String::new(),
            labels: BTreeMap::from([(BY.to_owned(), name(case))]),
            metric: figure.name.clone(),
            unit: figure.unit.symbol().into(),
            values: found.values.clone(),
            left_out: u32::try_from(case.failures().count()).unwrap_or(u32::MAX),
            ..Series::default()
        })
    });
    let source = Source {
        name: String::new(),
        series: series.collect(),
    };
    let options = Options {
        metric: figure.name.clone(),
        by: Some(BY.to_owned()),
        rows: None,
        filters: Vec::new(),
        baseline: Some(name(first)),
        test: TestChoice::Auto,
        paired: false,
        allowance: 0.0,
        confidence: Confidence::P95,
        equivalence_percent: None,
    };
    // nothing to compare, such as where all but one failed: the table says so
    let Ok(outcome) = compare::compare(&[source], &options) else {
        return Vec::new();
    };
    let told = outcome.rows.iter().flat_map(|row| &row.comparisons);
    told.map(|compared| {
        let than = format!("{} beside {}", compared.column, outcome.baseline);
        let place = all.iter().position(|case| name(case) == compared.column);
        Sentence::of(
            format!(
                "{than}: {}",
                in_words(compared, &figure.name, figure.better)
            ),
            place.into_iter().chain([0]),
        )
    })
    .collect()
}

/// What was counted, where instructions were.
fn counted(case: &TestCase) -> Option<&Exact> {
    case.outcomes
        .iter()
        .find_map(|outcome| match &outcome.found {
            Found::Exact(found) => Some(found.as_ref()),
            _ => None,
        })
}

/// How many instructions more than the reference; of that itself nothing.
fn in_instructions(case: &TestCase, found: &Exact, all: &[TestCase]) -> Option<String> {
    let difference = found.difference.as_ref()?;
    if difference.reference == case.test_case {
        return None;
    }
    let reference = all.iter().find(|one| one.test_case == difference.reference);
    let beside = reference.map_or_else(|| difference.reference.clone(), |one| label(one, all));
    let [from, to] = difference.interval;
    let verdict = match difference.proven {
        true => "proven",
        false => "no difference proven",
    };
    Some(format!(
        "{:+.1} ± {:.1} instructions a frame beside {beside} ({:+.2} %), {verdict}",
        difference.instructions_per_frame,
        (to - from) / 2.0,
        difference.percent
    ))
}

/// In how many things do test cases differ?
fn differing(all: &[TestCase]) -> usize {
    let Some(first) = all.first().map(|case| &case.case) else {
        return 0;
    };
    let differ = |same: &dyn Fn(&Case) -> bool| !all.iter().all(|case| same(&case.case));
    // the stream of a profile is only its mean
    let is_profile = first.variant.profile.is_some();
    let things = [
        !is_profile
            && differ(&|case| case.stream.frame_size_bytes == first.stream.frame_size_bytes),
        !is_profile && differ(&|case| case.stream.flows == first.stream.flows),
        !is_profile && differ(&|case| case.stream.ip_version == first.stream.ip_version),
        differ(&|case| case.configuration == first.configuration),
        differ(&|case| case.variant == first.variant),
        differ(&|case| case.image == first.image),
        differ(&|case| case.dut == first.dut),
    ];
    things.into_iter().filter(|differs| *differs).count()
}

/// Of values that have no ratio: there are none, or the reference is 0.
fn without_percent(n: [usize; 2], figure: &str) -> String {
    match n.contains(&0) {
        true => "nobody can tell, for values are missing".into(),
        false => format!(
            "{figure}: the reference is 0, and nothing is a percentage of that; see the figures themselves"
        ),
    }
}

fn in_words(compared: &Compared, figure: &str, better: Better) -> String {
    let Some(percent) = compared.difference_percent else {
        return without_percent(compared.n, figure);
    };
    if compared.n.into_iter().min() < Some(FEWEST) {
        return format!("{figure} {percent:+.1} %, too few values to tell");
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
            Some(least) if least.is_finite() => {
                format!("no difference proven; one of {least:.1} % or more would have shown")
            }
            _ => "no difference proven".into(),
        },
    };
    format!("{figure} {percent:+.1} %{interval}, {verdict}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_of_zero_is_not_a_missing_value() {
        let words = without_percent([5, 5], "deficit");
        assert!(words.starts_with("deficit: the reference is 0"), "{words}");
        for n in [[0, 5], [5, 0]] {
            assert!(without_percent(n, "deficit").contains("values are missing"));
        }
    }
}
