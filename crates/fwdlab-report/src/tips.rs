//! Writes numbered tips: what to do about the results, with the evidence for each and the lines to
//! copy.
//!
//! Tips have two sources: causes that the DUT's telemetry explains (`fwdlab_measure::findings`
//! defines them), and configurations that are proven better than the reference. There is no other
//! advice. Start with [`Tips::from_run`].

use fwdlab_model::campaign::PLAIN;
use fwdlab_model::family::PREFIX;
use fwdlab_model::result::RunInfo;
use fwdlab_model::telemetry::{Cause, Evidence as Number, Finding};

use crate::grid::{self, Grid};
use crate::name::label;
use crate::number::{count, difference, interval, percent, plural};
use crate::run::Run;
use crate::sentence::Evidence;
use crate::table::escaped;

/// Up to this number of conditions are listed for an improvement; above it, only the largest and
/// the smallest are.
const TOLD: usize = 4;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tip {
    /// The finding and the advice, without a full stop.
    pub words: String,
    /// The numbers that support it.
    pub evidence: Vec<String>,
    /// The test cases of these numbers.
    pub of: Evidence,
    /// Lines to copy; empty if no command is known. Lines that begin with `#` are comments.
    pub lines: Vec<String>,
}

/// The tips of a run, and their combined effect.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tips {
    pub tips: Vec<Tip>,
    /// The combined effect of all configurations that are proven better; `None` if there are fewer
    /// than two.
    pub together: Option<Tip>,
}

impl Tips {
    /// Returns the tips of a run.
    pub fn from_run(run: &Run<'_>) -> Tips {
        let mut tips = from_findings(run);
        let better = grid::from_runs(&[*run]).map_or(Vec::new(), |grid| improvements(run, &grid));
        let together = combine(run, &better);
        tips.extend(better.into_iter().map(|(_, tip)| tip));
        Tips { tips, together }
    }

    /// Renders the tips as Markdown: a numbered list, with the lines to copy in code fences. Empty
    /// if there are no tips.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for (number, tip) in (1..).zip(&self.tips) {
            text += &format!("{number}. {}.\n", escaped(&tip.words));
            text += &tip.below("   ");
        }
        if let Some(all) = &self.together {
            text += &format!("\n{}.\n{}", escaped(&all.words), all.below(""));
        }
        text
    }

    /// Renders the tips as plain text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (number, tip) in (1..).zip(&self.tips) {
            text += &crate::screen::paragraph(&format!("tip {number}"), &tip.words);
            text += &tip.plain();
        }
        if let Some(all) = &self.together {
            text += &crate::screen::paragraph("together", &all.words);
            text += &all.plain();
        }
        text
    }
}

impl Tip {
    /// Renders the evidence and the lines to copy, below the sentence.
    fn below(&self, indent: &str) -> String {
        let mut text = String::new();
        if !self.evidence.is_empty() {
            text += &format!(
                "\n{indent}Evidence: {}.\n",
                escaped(&self.evidence.join("; "))
            );
        }
        if !self.lines.is_empty() {
            text += &format!("\n{indent}```sh\n");
            for line in &self.lines {
                // a line must not end the code fence
                text += &format!("{indent}{}\n", line.replace("```", "` ` `"));
            }
            text += &format!("{indent}```\n");
        }
        text
    }

    fn plain(&self) -> String {
        let mut text = String::new();
        if !self.evidence.is_empty() {
            text +=
                &crate::screen::paragraph("", &format!("evidence: {}", self.evidence.join("; ")));
        }
        text.extend(
            self.lines
                .iter()
                .map(|line| format!("              {line}\n")),
        );
        text
    }
}

/// Formats a number with its name and unit.
fn number(evidence: &Number) -> String {
    let value = evidence.value;
    let whole = value.fract() == 0.0 && value.abs() < 1e15;
    let text = match &evidence.unit[..] {
        "ratio" => percent(100.0 * value),
        unit if whole => format!("{} {unit}", count(value as i128)),
        unit => format!("{value:.2} {unit}"),
    };
    format!("{} {text}", evidence.what)
}

/// The cause and the setting to check: findings that share both become one tip.
type Key<'a> = (Cause, &'a str);

/// Returns one tip per cause: the strongest finding, and the other test cases that have it.
fn from_findings(run: &Run<'_>) -> Vec<Tip> {
    let all = &run.summary.test_cases;
    let mut seen: Vec<(Key<'_>, Vec<(usize, &Finding)>)> = Vec::new();
    for (at, case) in all.iter().enumerate() {
        for one in &case.findings {
            let key = (one.cause, &one.setting[..]);
            match seen.iter_mut().find(|(known, _)| *known == key) {
                Some((_, found)) => found.push((at, one)),
                None => seen.push((key, vec![(at, one)])),
            }
        }
    }
    let tips = seen.into_iter().filter_map(|(_, found)| {
        let strength = |one: &Finding| one.evidence.first().map_or(0.0, |e| e.value);
        let (at, clearest) = (found.iter())
            .max_by(|a, b| strength(a.1).total_cmp(&strength(b.1)))
            .copied()?;
        // every tip has evidence
        if clearest.evidence.is_empty() {
            return None;
        }
        let mut evidence: Vec<String> = clearest.evidence.iter().map(number).collect();
        evidence.push(format!(
            "in {} of {}",
            clearest.trials,
            plural(clearest.of_trials as usize, "trial")
        ));
        if all.len() > 1 {
            evidence.push(format!("clearest in {}", label(&all[at], all)));
        }
        Some(Tip {
            words: format!(
                "{}: {}. Look at {}",
                clearest.cause, clearest.sentence, clearest.setting
            ),
            evidence,
            of: Evidence::Cases(found.iter().map(|(at, _)| *at).collect()),
            lines: lines(&clearest.remedy),
        })
    });
    tips.collect()
}

/// The name of a configuration that is proven better, and its tip.
type Better<'a> = (&'a str, Tip);

/// Returns the configurations that are proven better than the reference under at least one
/// condition, and worse under none.
fn improvements<'a>(run: &Run<'a>, grid: &Grid) -> Vec<Better<'a>> {
    let all = &run.summary.test_cases;
    let mut found = Vec::new();
    if run.summary.noise.too_noisy {
        return found;
    }
    let reference = grid.systems.first();
    for system in grid
        .systems
        .iter()
        .skip(1)
        .filter(|one| one.unlike.is_empty())
    {
        let cells = || system.cells.iter().enumerate();
        let of = cells().filter_map(|(at, cell)| Some((at, cell.difference?, cell.of?.1)));
        let compared: Vec<_> = of.collect();
        let good: Vec<_> = compared
            .iter()
            .filter(|(_, one, _)| one.is_better(grid.better))
            .collect();
        let is_worse = compared.iter().any(|(_, one, _)| {
            let proven = matches!(
                one.verdict,
                fwdlab_model::comparison::Verdict::Less | fwdlab_model::comparison::Verdict::More
            );
            proven && !one.is_better(grid.better)
        });
        let Some((_, _, first)) = good.first().copied() else {
            continue;
        };
        let (own, doubtful) = (
            &all[*first],
            good.iter().any(|(_, _, at)| all[*at].doubt.is_some()),
        );
        // a different kind of DUT or image is not a setting that can be copied
        let before = reference.and_then(|row| row.cells.iter().find_map(|cell| cell.of));
        let is_setting = before.is_none_or(|(_, at)| {
            let other = &all[at];
            (other.case.dut, &other.case.image) == (own.case.dut, &own.case.image)
                && other.case.configuration != own.case.configuration
        });
        if is_worse || doubtful || !is_setting || own.case.configuration == PLAIN {
            continue;
        }
        let mut reported: Vec<String> = good
            .iter()
            .map(|(at, one, _)| {
                let ends = one.interval.unwrap_or_default();
                let value = format!(
                    "{} % {}",
                    difference(one.percent, one.interval),
                    interval(ends)
                );
                match grid.conditions.len() {
                    1 => value,
                    _ => format!("{value} at {}", grid.conditions[*at]),
                }
            })
            .collect();
        let more = reported.len().saturating_sub(TOLD);
        reported.truncate(TOLD);
        if more > 0 {
            reported.push(format!(
                "and better under {}",
                plural(more, "more condition")
            ));
        }
        let name = &own.case.configuration;
        let values = good
            .iter()
            .map(|(_, one, _)| format!("{} values compared with {}", one.n[1], one.n[0]));
        let mut evidence = vec![format!("95 % intervals, against {}", grid.reference)];
        evidence.extend(values.take(1));
        let tip = Tip {
            words: format!("{name}: {} {}", grid.figure, reported.join("; ")),
            evidence,
            of: Evidence::Cases(good.iter().map(|(_, _, at)| *at).collect()),
            lines: lines(&parts(run.info, name)),
        };
        found.push((&own.case.configuration[..], tip));
    }
    found
}

/// Returns the parts of a configuration: its commands, files and families. The name of a
/// command-line configuration is the command.
fn parts(info: &RunInfo, name: &str) -> Vec<String> {
    let all = info.parameters.get("configurations");
    let own: Option<Vec<String>> = all
        .and_then(|all| all.get(name))
        .and_then(|parts| serde_json::from_value(parts.clone()).ok());
    own.unwrap_or_else(|| vec![name.to_owned()])
}

/// Converts parts to lines to copy: commands unchanged, files and families as comments with their
/// location.
fn lines(parts: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for part in parts {
        let is_file = !part.contains(char::is_whitespace) && part.contains('/');
        let own: Vec<String> = match () {
            () if part.trim().starts_with(PREFIX) => vec![format!(
                "# {}; as it was applied: inputs/in-force/ of the run",
                part.trim()
            )],
            () if is_file => vec![format!("# {part}, kept in inputs/ of the run")],
            () => part.lines().map(str::to_owned).collect(),
        };
        all.extend(own);
    }
    for line in &mut all {
        *line = line.replace(crate::screen::steers, "?");
    }
    all
}

/// Returns the combined effect: the result of a configuration that contains all improvements if one
/// was measured, else the advice to measure one.
fn combine(run: &Run<'_>, better: &[Better<'_>]) -> Option<Tip> {
    let requested: Vec<String> = better
        .iter()
        .flat_map(|(name, _)| parts(run.info, name))
        .collect();
    let has_all = |name: &str| {
        let own = parts(run.info, name);
        requested.iter().all(|part| own.contains(part))
    };
    let cases = run.summary.test_cases.iter();
    let mut measured = cases.map(|case| &case.case.configuration[..]);
    let whole = better.iter().find(|(name, _)| has_all(name));
    match (better.len(), whole) {
        (0 | 1, _) => None,
        (_, Some((_, tip))) => Some(Tip {
            words: format!("Before against after all of it: {}", tip.words),
            ..tip.clone()
        }),
        (_, None) if let Some(name) = measured.find(|name| has_all(name)) => Some(Tip {
            words: format!(
                "{name} has all of these lines, and is not proven better: differences do not add up. Do not rely on them together"
            ),
            evidence: Vec::new(),
            of: Evidence::Cases(places(better)),
            lines: Vec::new(),
        }),
        (_, None) => {
            let mut all: Vec<String> = Vec::new();
            for part in better.iter().flat_map(|(_, tip)| &tip.lines) {
                if !all.contains(part) {
                    all.push(part.clone());
                }
            }
            Some(Tip {
                words: "All of them at once was not measured: differences do not add up. Measure a configuration of all these lines \
                        before they are relied on together"
                    .into(),
                evidence: Vec::new(),
                of: Evidence::Cases(places(better)),
                lines: all,
            })
        }
    }
}

/// Returns the indices of the test cases that support any of the improvements.
fn places(better: &[Better<'_>]) -> Vec<usize> {
    let places = better.iter().map(|(_, tip)| match &tip.of {
        Evidence::Cases(places) => &places[..],
        _ => &[],
    });
    places.flatten().copied().collect()
}
