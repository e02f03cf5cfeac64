//! Reports a bisection: a line per candidate while it runs, then the first candidate that changed
//! the figure, and the functions that explain the change.
//!
//! It does not search or judge. Start with [`found`].

use fwdlab_model::bisect::{Began, Compared, Figure, Tested, Verdict};
use fwdlab_model::stacks::{self, Profile};

use crate::exact::{MEANING, signed};
use crate::flame;
use crate::number::{instructions as number, plural};
use crate::screen::{paragraph, width};
use crate::table::{Table, wrap};

/// Functions with a smaller difference, in instructions per frame, share one row, as do all beyond
/// the [`MOST`] largest.
const LEAST: f64 = 0.5;
const MOST: usize = 15;

/// If the change is a smaller share than this of the difference between good and bad, there is more
/// than one change.
const ALL_OF_IT: f64 = 0.9;

/// The location of the change, as indices into the candidates.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The last good candidate.
    pub last_good: usize,
    /// The first bad candidate.
    pub first_bad: usize,
    /// Candidates between the two that could not be tested.
    pub skipped: &'a [usize],
}

/// Formats a tested candidate:
/// `bad      4,315.1 ± 2.0 instructions per frame  debian:linux-image-...`
pub fn tested(started: &Began, one: &Tested) -> String {
    let name = (started.candidates.get(one.at)).map_or(one.candidate.clone(), |it| it.words());
    let verdict = match one.verdict {
        Verdict::Good => "good",
        Verdict::Bad => "bad",
        Verdict::Skipped => "skipped",
    };
    let figure = one
        .figure
        .map(|figure| format!("  {}", self::figure(figure)));
    let reason = one.why.as_ref().map(|reason| format!("  ({reason})"));
    format!(
        "{verdict:<8}  {name}{}{}",
        figure.unwrap_or_default(),
        reason.unwrap_or_default()
    )
}

/// Formats a figure: `4,315.1 ± 2.0 instructions per frame`.
pub fn figure(figure: Figure) -> String {
    format!(
        "{} ± {} instructions per frame",
        number(figure.instructions_per_frame),
        number(figure.half())
    )
}

/// Returns the report: the headline, its qualifications, every tested candidate, and the difference
/// of each function.
pub fn found(
    started: &Began,
    tested: &[Option<&Tested>],
    place: Place<'_>,
    compared: &Compared,
    whole: f64,
) -> String {
    let name = |at: usize| started.candidates[at].words();
    let mut text = wrap(&headline(started, place, compared), width(), "");
    text.push('\n');
    let mut tell = |name: &str, sentence: &str| text.push_str(&paragraph(name, sentence));
    if !place.skipped.is_empty() {
        let names: Vec<String> = place.skipped.iter().map(|&at| name(at)).collect();
        tell(
            "skipped",
            &format!(
                "{} between them could not be tested, and each of them may be the first that changed it: {}",
                plural(names.len(), "candidate"),
                names.join("; ")
            ),
        );
    }
    let here =
        compared.first_bad.instructions_per_frame - compared.last_good.instructions_per_frame;
    if (here / whole).abs() < ALL_OF_IT || here * whole < 0.0 {
        tell(
            "rest",
            &format!(
                "good and bad differ by {} instructions per frame, and this change accounts for {}: there is more than one change. Search \
                 on both sides of it for the others",
                signed(whole),
                signed(here)
            ),
        );
    }
    tell("meaning", MEANING);
    let known = tested.iter().flatten().count();
    text.push_str(&format!(
        "\n tested {known} of {}, oldest first\n",
        plural(started.candidates.len(), "candidate")
    ));
    for one in tested.iter().flatten() {
        text.push_str(&format!("  {}\n", self::tested(started, one)));
    }
    if let Some(table) = functions(compared) {
        text.push_str(&format!("\n {}\n{}", flame::UNIT, table.text(width())));
    }
    text
}

/// Returns the headline:
/// `first changed by: IMAGE (+275.1 ± 3.0 instructions per frame, +6.8 %), last as before: IMAGE`.
fn headline(started: &Began, place: Place<'_>, compared: &Compared) -> String {
    let name = |at: usize| started.candidates[at].words();
    let change = match &compared.first_bad.difference {
        Some(d) => format!(
            "{} ± {} instructions per frame, {:+.2} %{}",
            signed(d.instructions_per_frame),
            number((d.interval[1] - d.interval[0]) / 2.0),
            d.percent,
            if d.proven { "" } else { ", not proven" }
        ),
        None => "not compared".into(),
    };
    let first = match place.skipped {
        [] => "first changed by",
        _ => "changed at the latest by",
    };
    format!(
        "{first}: {} ({change}), last as before: {}",
        name(place.first_bad),
        name(place.last_good)
    )
}

/// Returns the cost of each function before and after the change; `None` if either side has no
/// functions.
fn functions(compared: &Compared) -> Option<Table> {
    let profiles = [&compared.last_good, &compared.first_bad].map(|found| -> Profile {
        let functions = found.functions.iter();
        functions
            .map(|one| (one.function.clone(), one.per_frame))
            .collect()
    });
    let [before, after] = profiles;
    if compared.last_good.functions.is_empty() || compared.first_bad.functions.is_empty() {
        return None;
    }
    let rows = stacks::difference(&before, &after);
    let mut sizes: Vec<f64> = rows.iter().map(|row| row.difference().abs()).collect();
    sizes.sort_by(|a, b| b.total_cmp(a));
    let least = sizes.get(MOST - 1).map_or(LEAST, |size| size.max(LEAST));
    Some(flame::differences(&rows, ["before", "after"], least))
}
