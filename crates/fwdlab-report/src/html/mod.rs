//! Renders a run as one printable HTML file, without network access, and without scripts except in
//! flame graphs and below long lists of trials.
//!
//! It arranges the sentences, tables and charts of other modules; every chart has its table below.
//! The terminal's summary is in [`text`](crate::text). Start with [`page`].

mod bed;
mod beds;
mod comparison;
mod elements;
mod imported;
mod load;
mod measured;
mod multi_run;
mod trend;

use fwdlab_model::event::RebuildRecord;
pub use fwdlab_model::facts::ShownFacts;
use fwdlab_model::link::LinkSpeed;
use fwdlab_model::outcome::Outcome;
use fwdlab_model::result::{RunInfo, Summary, TrialRecord};
use fwdlab_model::test_case::TestCase;
use fwdlab_stats::ministat::Model;

pub use self::elements::STYLE;
use self::elements::{
    SMALL, case_place, details, document, folded, framed, keys, listed, note, notes, paged,
    section, table, unbroken,
};
use self::measured::measurement_table;
use crate::campaign;
use crate::chart::html;
use crate::charts::{self, families, ramps, sweeps};
use crate::efficiency;
use crate::exact;
use crate::executive;
use crate::fates;
use crate::firewall;
use crate::flame;
use crate::glossary::TERMS;
use crate::grid;
use crate::headline;
use crate::imported::KIND;
use crate::link;
use crate::markup::Markup;
use crate::ministat;
use crate::name::label;
use crate::number::{elapsed, plural, seconds, time};
use crate::procedures::charts::outcome_charts;
use crate::procedures::{self, MORE_ROWS};
use crate::run::{CaseProfile, Counted, Run};
use crate::sentence::{Evidence, Sentence};
use crate::shape::{self, Rated, Shape};
use crate::table::{Cell, Column, Table, capital};
use crate::telemetry;
use crate::thresholds;
use crate::tips::{Tip, Tips};
use crate::trials;
use crate::trust;
use crate::windows::tables;
use crate::words;

pub use beds::{ShownBed, beds_fragment};
pub use comparison::{comparison, comparison_fragment};
pub use load::{LoadWindow, load_fragment};
pub use multi_run::pages;
pub use trend::trend_fragment;

/// Said to readers of a long list of trials whose browser runs no scripts.
const OTHERWISE: &str =
    "A script in this page shows the rest; fwdlab report --format json has all trials.";
/// Largest number of ministat blocks on a page.
const BLOCKS: usize = 12;
/// More reasons why results are missing are folded.
const REASONS: usize = 4;
/// With more test cases, their results are folded.
const UNFOLDED: usize = 12;

/// Renders the report of a run as one self-contained page, with its rebuilds and trials.
pub fn page(run: &Run<'_>, shown: ShownFacts) -> String {
    document(&format!("fwdlab {}", run.info.id), |m| {
        content(m, run, shown)
    })
}

/// Renders the same content for a page of another program, with [`STYLE`] in a shadow tree, and
/// without flame graphs, which have scripts. Its charts are links to files, in each of these
/// formats.
pub fn fragment(run: &Run<'_>, shown: ShownFacts, formats: &[&str]) -> String {
    let mut m = Markup::default();
    let run = &Run {
        profiles: &[],
        ..*run
    };
    content(&mut m, run, shown);
    let charts = charts::all(&[*run]);
    if !charts.is_empty() {
        let gist = formats.join(", ");
        details(&mut m, "Charts as files", &gist, false, |m| {
            m.within("ul", &[], |m| {
                for chart in charts {
                    m.within("li", &[], |m| {
                        m.text(&chart.title);
                        for format in formats {
                            let file =
                                format!("/runs/{}/charts/{}.{format}", run.info.id, chart.name);
                            let spoken = format!("{}, {format}", chart.title);
                            let link = [("href", file.as_str()), ("aria-label", &spoken)];
                            m.text(" ");
                            m.leaf("a", &link, format);
                        }
                    });
                }
            });
        });
    }
    m.finish()
}

fn content(m: &mut Markup, run: &Run<'_>, shown: ShownFacts) {
    body(m, run, shown, true);
    glossary_list(m);
}

/// Writes the page of a run, except the glossary. On a page of several runs, `pages` adds what
/// compares systems, and the ministat blocks.
fn body(m: &mut Markup, run: &Run<'_>, shown: ShownFacts, is_alone: bool) {
    let Run {
        info,
        summary,
        trials,
        rebuilds,
        profiles,
        ..
    } = *run;
    if info.kind == KIND {
        imported::body(m, info, summary, shown);
        if is_alone {
            systems(m, &[*run]);
            overlaid(m, &[*run]);
            as_ministat(m, &[*run]);
        }
        return;
    }
    head(m, run);
    in_short(m, info, summary);
    tips(m, run);
    if is_alone {
        systems(m, &[*run]);
    }
    results(m, run, is_alone);
    if is_alone {
        as_ministat(m, &[*run]);
    }
    instructions(m, summary, profiles);
    lost_frames(m, summary, rebuilds);
    forwarding_cost(m, info, summary);
    dut_activity(m, summary);
    noise(m, summary, trials);
    measurement_table(m, info, summary, shown);
    every_trial(m, summary, trials, rebuilds);
}

/// Writes charts that combine systems: address families, ramps with the same frames, sweeps over
/// the same parameter.
fn overlaid(m: &mut Markup, runs: &[Run<'_>]) {
    for (title, together) in [
        ("IPv4 next to IPv6", families(runs).into_iter().collect()),
        ("Ramps", ramps(runs)),
        ("Sweeps", sweeps(runs)),
    ] {
        if !Vec::is_empty(&together) {
            section(m, title, |m| {
                m.within("figure", &[], |m| html::all(m, &together))
            });
        }
    }
}

/// Writes the output of ministat(1) for the values, each block below its command.
fn as_ministat(m: &mut Markup, runs: &[Run<'_>]) {
    let blocks = ministat::blocks(runs);
    if blocks.is_empty() {
        return;
    }
    let gist = plural(blocks.len(), "block");
    details(m, "ministat", &gist, false, |m| {
        for block in blocks.iter().take(BLOCKS) {
            let printed = match block.printed(Model::default()) {
                Ok(printed) => String::from_utf8_lossy(&printed).into_owned(),
                Err(reason) => format!("refused: {reason}\n"),
            };
            let head = |m: &mut Markup| m.text(&block.title);
            let body = |m: &mut Markup| {
                m.leaf(
                    "pre",
                    &[("class", "verbatim"), ("tabindex", "0")],
                    &format!("$ {}\n{printed}", block.command()),
                );
            };
            m.within("div", &[("class", "ministat")], |m| {
                folded(m, false, head, body)
            });
        }
        if blocks.len() > BLOCKS {
            let more = plural(blocks.len() - BLOCKS, "more block");
            let reported = format!("{more}: fwdlab report --format ministat prints all.");
            m.leaf("p", &[("class", "note")], &reported);
        }
    });
}

/// Writes the instructions per frame: by function, and as flame graphs.
fn instructions(m: &mut Markup, summary: &Summary, profiles: &[CaseProfile]) {
    let all = &summary.test_cases;
    for (title, functions) in exact::functions(all, 5 * exact::FUNCTIONS) {
        section(m, &format!("Instructions by function: {title}"), |m| {
            m.within("figure", &[], |m| table(m, &functions));
        });
    }
    let find = |name: &str| profiles.iter().find(|profile| profile.test_case == name);
    for case in all {
        let Some(own) = find(&case.test_case) else {
            continue;
        };
        let name = label(case, all);
        let before = exact::reference(case).and_then(find);
        let before = before.and_then(CaseProfile::instructions);
        let drawn = match (before, &own.counted) {
            (_, Counted::Samples(stacks)) => flame::samples(&name, stacks),
            (Some(before), Counted::Instructions(own)) => flame::difference(&name, before, own),
            (None, Counted::Instructions(own)) => flame::graph(&name, own),
        };
        section(m, &format!("Flame graph: {name}"), |m| match drawn {
            Ok(svg) => framed(m, &name, &svg),
            Err(reason) => m.leaf("p", &[], &note(&reason.to_string())),
        });
    }
}

/// Writes the headline, and how far to trust it.
fn head(m: &mut Markup, run: &Run<'_>) {
    let (info, summary) = (run.info, run.summary);
    m.within("header", &[], |m| {
        let duration = info
            .finished_at
            .as_deref()
            .and_then(|end| elapsed(&info.started_at, end))
            .map_or_else(String::new, |s| format!(", {}", seconds(s)));
        let origin = format!("fwdlab {}, {}{duration}", info.id, time(&info.started_at));
        m.leaf("p", &[("class", "origin")], &origin);
        let headline = headline::from_summary(info, summary);
        let long = if headline.answer.chars().count() > 90 {
            "long"
        } else {
            ""
        };
        m.leaf("h1", &[("class", long)], &unbroken(&headline.answer));
        if let Some(about) = &headline.about {
            m.within("p", &[("class", "about")], |m| m.leaf("code", &[], about));
        }
        if let Some(about) = &info.note {
            m.leaf("p", &[("class", "note")], about);
        }
        m.within("ul", &[("class", "badges")], |m| {
            for (good, text) in trust::signs(run) {
                let (class, sign) = if good {
                    ("good", "\u{2713} ")
                } else {
                    ("bad", "! ")
                };
                m.leaf("li", &[("class", class)], &format!("{sign}{text}"));
            }
        });
        if summary.noise.too_noisy {
            noise_verdict(m, summary);
        }
        let kept = thresholds::sentences(summary);
        if !kept.is_empty() {
            let id = m.place("thresholds");
            m.within("div", &[("id", &id)], |m| listed(m, "Thresholds", &kept));
        }
        listed(m, "Too noisy", &trust::too_noisy(summary));
        listed(m, "To do", &summary.noise.to_do);
        listed(m, "Notes", &trust::warnings(summary));
    });
}

/// Writes the executive summary.
fn in_short(m: &mut Markup, info: &RunInfo, summary: &Summary) {
    let reported = executive::sentences(info, summary);
    if reported.is_empty() {
        return;
    }
    section(m, "In short", |m| {
        m.within("ul", &[("class", "short")], |m| {
            for one in &reported {
                m.within("li", &[], |m| sentence(m, summary, one));
            }
        });
        if let Some(warning) = firewall::warning([(info, summary)]) {
            m.leaf("p", &[("class", "caution")], warning);
        }
    });
}

/// Writes a sentence, with links to its evidence on this page.
fn sentence(m: &mut Markup, summary: &Summary, reported: &Sentence) {
    // many begin with the name of a configuration, which stays as it is
    m.text(&format!("{}.", reported.words));
    evidence(m, summary, &reported.evidence);
}

/// Writes links to evidence: test cases by name; of many only the first.
fn evidence(m: &mut Markup, summary: &Summary, of: &Evidence) {
    let all = &summary.test_cases;
    let names = of.names(all, |case| label(case, all));
    let places: Vec<String> = match of {
        Evidence::Cases(cases) => cases.iter().map(|case| case_place(*case)).collect(),
        Evidence::Thresholds => vec!["thresholds".into()],
        Evidence::Noise => vec!["noise".into()],
    };
    for (name, place) in names.iter().zip(places) {
        m.text(" ");
        let to = format!("#{}", m.place(&place));
        m.leaf("a", &[("href", &to), ("class", "evidence")], name);
    }
}

/// Writes the tips, numbered, each with its evidence and the lines to copy.
fn tips(m: &mut Markup, run: &Run<'_>) {
    let Tips { tips, together } = Tips::from_run(run);
    if tips.is_empty() {
        return;
    }
    let below = |m: &mut Markup, tip: &Tip| {
        m.within("p", &[("class", "note")], |m| {
            let numbers = tip.evidence.join("; ");
            m.text(&match numbers.is_empty() {
                true => "Evidence:".to_owned(),
                false => format!("Evidence: {numbers};"),
            });
            evidence(m, run.summary, &tip.of);
        });
        if !tip.lines.is_empty() {
            m.leaf(
                "pre",
                &[("class", "copy"), ("tabindex", "0")],
                &tip.lines.join("\n"),
            );
        }
    };
    section(m, "Tips", |m| {
        m.within("ol", &[("class", "tips")], |m| {
            for tip in &tips {
                m.within("li", &[], |m| {
                    m.text(&note(&tip.words));
                    below(m, tip);
                });
            }
        });
        if let Some(all) = &together {
            m.leaf("h3", &[], "All of it");
            m.leaf("p", &[], &note(&all.words));
            below(m, all);
        }
    });
}

/// Writes the table of systems and conditions, if it is more than a list of differences.
fn systems(m: &mut Markup, runs: &[Run<'_>]) {
    let Some(grid) = grid::from_runs(runs).filter(|grid| grid.is_worth_showing(runs.len())) else {
        return;
    };
    section(m, &format!("Compared with {}", grid.reference), |m| {
        m.within("figure", &[], |m| table(m, &grid.table()));
        notes(m, SMALL, grid.notes());
    });
}

/// Writes a campaign: all test cases, then the results of the procedure in each.
fn campaign_cases(m: &mut Markup, info: &RunInfo, summary: &Summary) {
    let all = &summary.test_cases;
    if all.is_empty() || Shape::from_summary(summary) != Shape::Campaign {
        return;
    }
    section(m, "Test cases", |m| {
        m.within("figure", &[], |m| {
            html::all(m, &charts::campaign_charts(info, summary));
            table(m, &of_cases(campaign::table(all), all));
        });
        missing(m, all);
    });
    let many = all.len() > UNFOLDED;
    if let Some((title, joined)) = in_one_table(all, link::link_speed(info)) {
        // the figures are in the table above
        let gist = plural(all.len(), "test case");
        details(m, &title, &gist, false, |m| {
            m.within("figure", &[], |m| table(m, &joined));
        });
        return;
    }
    for case in all {
        let label = label(case, all);
        let shown = |m: &mut Markup| {
            outcomes(
                m,
                &case.outcomes,
                link::link_speed(info),
                &format!("{label}: "),
            )
        };
        if case.outcomes.is_empty() {
            continue;
        }
        match many {
            true => folded(m, false, |m| m.leaf("strong", &[], &label), shown),
            false => shown(m),
        }
    }
}

/// Writes why results are missing: folded if that is long.
fn missing(m: &mut Markup, all: &[TestCase]) {
    let reasons: Vec<String> = campaign::shortfalls(all).collect();
    match reasons.len() > REASONS {
        true => folded(
            m,
            false,
            |m| m.text("Why iterations have no result"),
            |m| notes(m, &[], reasons),
        ),
        false => notes(m, &[], reasons),
    }
}

/// Joins the results of all test cases, if each is one table of the same procedure without charts.
/// Returns the title and the table.
fn in_one_table(all: &[TestCase], link: Option<LinkSpeed>) -> Option<(String, Table)> {
    let mut joined: Option<(String, Table)> = None;
    for case in all.iter().filter(|case| !case.outcomes.is_empty()) {
        let groups = procedures::groups(&case.outcomes);
        let [group] = &groups[..] else { return None };
        let mut tables = procedures::tables::tables(group, &case.outcomes, MORE_ROWS);
        if tables.len() != 1 || !outcome_charts(&group.outcomes, link).is_empty() {
            return None;
        }
        let own = tables.pop()?.table;
        let case_column = [Column::left("test case", &["test_case"])].into_iter();
        let columns = case_column.chain(own.columns).collect();
        let (title, sum) = joined.get_or_insert_with(|| (group.title.clone(), Table::new(vec![])));
        if sum.columns.is_empty() {
            sum.columns = columns;
        } else if *title != group.title || sum.columns != columns {
            return None;
        }
        for row in own.rows {
            let name = Cell::new(label(case, all), &case.test_case);
            sum.push(row.mark, [name].into_iter().chain(row.cells).collect());
        }
    }
    joined.filter(|(_, sum)| sum.rows.len() > 1)
}

/// Marks the rows of a table whose first cells are names of test cases as link targets.
fn of_cases(shown: Table, all: &[TestCase]) -> Table {
    shown.of_cases(|_, row| {
        let name = row.cells.first()?.raw.first()?;
        all.iter().position(|case| case.test_case == *name)
    })
}

/// Writes the results of procedures, each with its graphs and tables; `before` is a prefix of its
/// title.
fn outcomes(m: &mut Markup, outcomes: &[Outcome], link: Option<LinkSpeed>, before: &str) {
    for group in procedures::groups(outcomes) {
        section(m, &format!("{before}{}", group.title), |m| {
            m.within("figure", &[], |m| {
                html::all(m, &outcome_charts(&group.outcomes, link));
                for titled in procedures::tables::tables(&group, outcomes, MORE_ROWS) {
                    let (title, mut shown) = (capital(&titled.title), titled.table);
                    shown.hide_repeats("frames");
                    if !title.is_empty() && shown.rows.len() > UNFOLDED {
                        folded(m, false, |m| m.text(&title), |m| table(m, &shown));
                        continue;
                    }
                    if !title.is_empty() {
                        m.leaf("h3", &[], &title);
                    }
                    table(m, &shown);
                }
            });
        });
    }
}

/// Writes the cost of forwarding on the DUT.
fn forwarding_cost(m: &mut Markup, info: &RunInfo, summary: &Summary) {
    let all = &summary.test_cases;
    let tables = efficiency::tables(all);
    if tables.is_empty() {
        return;
    }
    let is_requested = efficiency::are_requested(info, all);
    let gist = "what a frame takes of the DUT";
    details(m, "Efficiency", gist, is_requested, |m| {
        m.within("figure", &[], |m| {
            for (title, shown) in &tables {
                m.leaf("h3", &[], &capital(title));
                table(m, shown);
            }
        });
        let dropped = efficiency::drops(all).into_iter();
        notes(m, &[], dropped.map(|dropped| format!("dropped: {dropped}")));
        notes(m, &[], [efficiency::method(all)]);
    });
}

fn results(m: &mut Markup, run: &Run<'_>, is_alone: bool) {
    let (info, summary) = (run.info, run.summary);
    if is_alone {
        overlaid(m, &[*run]);
    }
    campaign_cases(m, info, summary);
    let found = procedures::outcomes(summary);
    if Shape::from_summary(summary) == Shape::Procedures {
        for case in 0..summary.test_cases.len() {
            let id = m.place(&case_place(case));
            m.leaf("span", &[("id", &id)], "");
        }
        outcomes(m, &found, link::link_speed(info), "");
    }
    let methods = trust::methods(summary);
    if !methods.is_empty() {
        section(m, "Standards", |m| {
            keys(m, methods.iter().map(|words| note(words)));
        });
    }
    let compared = shape::comparisons(summary);
    if !compared.is_empty() {
        section(m, "Difference from the plain DUT", |m| {
            m.within("figure", &[], |m| {
                html::draw(m, &charts::differences::differences(&compared, "rebuild"));
                let cases = summary.test_cases.iter().enumerate();
                let of: Vec<usize> = cases
                    .flat_map(|(at, case)| case.comparisons().map(move |_| at))
                    .collect();
                let shown = tables::comparisons(summary);
                table(m, &shown.of_cases(|place, _| of.get(place).copied()));
            });
            let costs = exact::compare_with_rates(&summary.test_cases).into_iter();
            notes(
                m,
                &[],
                costs.map(|sentence| format!("In instructions: {sentence}.")),
            );
        });
    }
    let rated = shape::rated(summary);
    if !rated.is_empty() {
        section(m, "Forwarding rate", |m| {
            let has_result = |c: &Rated<'_>| c.found.forwarding_rate_pps.is_some();
            m.within("figure", &[], |m| {
                if rated.iter().any(has_result) {
                    html::draw(m, &charts::rates::forwarding_rates(info, summary));
                }
                table(m, &tables::cases(summary).of_cases(|place, _| Some(place)));
            });
            missing(m, &summary.test_cases);
            notes(m, SMALL, words::signs_words(summary).map(str::to_owned));
            notes(m, SMALL, words::imix_words(summary));
        });
    }
}

/// Writes the findings from the DUT's telemetry, and the activity of its host.
fn dut_activity(m: &mut Markup, summary: &Summary) {
    let found = telemetry::sentences(summary);
    let tables = telemetry::tables(summary);
    if found.is_empty() && tables.is_empty() {
        return;
    }
    let gist = plural(summary.test_cases.len(), "test case");
    details(m, "Load of the DUT", &gist, !found.is_empty(), |m| {
        let words = "Its host was read before and after every trial, while nothing moved: counts are exact. Shares of time are of the \
                     time between these readings, which is longer than the load.";
        m.leaf("p", &[], words);
        listed(m, "Found", &found);
        for reported in &tables {
            let head = |m: &mut Markup| {
                m.leaf("strong", &[], &reported.case);
                if !reported.gist.is_empty() {
                    m.leaf("span", &[("class", "note")], &reported.gist);
                }
            };
            folded(m, false, head, |m| {
                for (title, shown) in &reported.tables {
                    m.leaf("h3", &[], &capital(title));
                    m.within("figure", &[], |m| table(m, shown));
                }
            });
        }
        notes(m, SMALL, telemetry::missing(summary));
    });
}

fn lost_frames(m: &mut Markup, summary: &Summary, rebuilds: &[RebuildRecord]) {
    let fates = fates::fates(summary, rebuilds);
    if fates.is_empty() {
        return;
    }
    section(m, "Where the frames went", |m| {
        m.leaf(
            "p",
            &[],
            "Every frame sent was received, lost at a named place, or is unexplained; the counters must add up to the last \
             frame. Overload is intended: the DUT is offered more than it can forward.",
        );
        m.within("figure", &[], |m| {
            html::draw(m, &charts::fates::fates(&fates));
            table(m, &fates::all_fates(&fates));
        });
        keys(m, fates::counters(&fates));
    });
}

fn noise_verdict(m: &mut Markup, summary: &Summary) {
    let id = m.place("noise");
    m.leaf("p", &[("id", &id)], &note(&summary.noise.verdict));
}

fn noise(m: &mut Markup, summary: &Summary, trials: &[TrialRecord]) {
    let rated = shape::rated(summary);
    details(m, "Noise", "", !summary.is_quiet(), |m| {
        // else it is below the headline
        if !summary.noise.too_noisy {
            noise_verdict(m, summary);
        }
        notes(m, &[], words::windows_words(&rated));
        notes(m, &[], words::state_words(&summary.noise, &rated));
        if !summary.noise.calibration.is_empty() {
            let threshold = summary.noise.probe_threshold.map_or_else(String::new, |t| {
                format!(" Full speed begins at {t:.2} additions/ns.")
            });
            let words = format!(
                "Contention probe: {}.{threshold}",
                summary.noise.calibration
            );
            m.leaf("p", &[], &words);
        }
        let has_strata =
            (rated.iter()).any(|c| c.found.forwarding_rate_pps.is_some_and(|pps| pps > 0.0));
        if has_strata && !trials.is_empty() {
            m.within("figure", &[], |m| {
                html::draw(m, &charts::strata::strata(summary, trials));
                table(m, &tables::noise(summary));
            });
        } else if !rated.is_empty() {
            table(m, &tables::noise(summary));
        }
        let Some(control) = shape::control(summary) else {
            return;
        };
        m.leaf("h3", &[], "A/A control");
        m.leaf("p", &[], &note(&words::control_words(control)));
        // next to other comparisons, the control is a row of their chart
        if shape::comparisons(summary).is_empty() && !control.values_percent.is_empty() {
            let chart = charts::differences::differences(&[control], "iteration");
            m.within("figure", &[], |m| html::draw(m, &chart));
        }
    });
}

fn every_trial(
    m: &mut Markup,
    summary: &Summary,
    trials: &[TrialRecord],
    rebuilds: &[RebuildRecord],
) {
    if !rebuilds.is_empty() {
        let gist = plural(rebuilds.len(), "rebuild");
        details(m, "Rebuilds", &gist, false, |m| {
            let names = summary.comparisons().zip(2..);
            let names = names
                .map(|(c, index)| format!("{}: {}", trials::place_name(index), c.configuration));
            keys(m, names);
            table(m, &trials::rebuilds(rebuilds));
        });
    }
    if !trials.is_empty() {
        let gist = plural(trials.len(), "trial");
        details(m, "Trials", &gist, false, |m| {
            m.leaf(
                "p",
                &[],
                "In order of execution. Invalid trials are shown and left out of every result.",
            );
            let all = match trials.iter().any(|trial| trial.asked.is_some()) {
                true => procedures::trials(trials),
                false => trials::trials(trials),
            };
            paged(m, &all, OTHERWISE);
        });
    }
}

/// Writes the terms that the page uses.
fn glossary_list(m: &mut Markup) {
    let words = m.words().to_lowercase();
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let is_used = |(term, _): &&(&str, &str)| {
        let term = term.to_lowercase();
        words.match_indices(&term).any(|(at, own)| {
            let (before, after) = (&words[..at], &words[at + own.len()..]);
            !is_letter(before.chars().next_back()) && !is_letter(after.chars().next())
        })
    };
    let used: Vec<_> = TERMS.iter().filter(is_used).collect();
    let gist = plural(used.len(), "term");
    details(m, "Glossary", &gist, false, |m| {
        m.within("dl", &[], |m| {
            for (term, meaning) in &used {
                m.within("div", &[], |m| {
                    m.leaf("dt", &[], term);
                    m.leaf("dd", &[], meaning);
                });
            }
        });
    });
}
