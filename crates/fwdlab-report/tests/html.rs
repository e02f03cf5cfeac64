//! Tests that the page is well-formed, self-contained and complete, and that nothing it reports can
//! break it.

use crate::common;

use crate::common::Run;
use fwdlab_report::html::ShownFacts;
use scraper::{ElementRef, Html, Selector};

/// Returns a run as formats receive it.
fn shown(run: &Run) -> fwdlab_report::run::Run<'_> {
    fwdlab_report::run::Run {
        trials: &run.trials,
        rebuilds: &run.rebuilds,
        ..fwdlab_report::run::Run::new(&run.info, &run.summary)
    }
}

fn page(run: &Run) -> String {
    fwdlab_report::html::page(&shown(run), ShownFacts::Brief)
}

fn select<'a>(page: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    let selector = Selector::parse(selector).expect("a selector of this file is right");
    page.select(&selector).collect()
}

fn text(element: ElementRef<'_>) -> String {
    element.text().collect()
}

#[test]
fn every_page_is_well_formed_and_needs_nothing_else() {
    for run in common::all() {
        let page = page(&run);
        let parsed = Html::parse_document(&page);
        assert!(
            parsed.errors.is_empty(),
            "{}: {:?}",
            run.name,
            parsed.errors
        );
        assert!(
            select(&parsed, "script, link, img, iframe, object").is_empty(),
            "{}",
            run.name
        );
        assert!(
            select(&parsed, "[src], [onclick], [onload]").is_empty(),
            "{}",
            run.name
        );
        // links lead to anchors that exist exactly once
        for link in select(&parsed, "[href]") {
            let to = link.value().attr("href").unwrap_or_default();
            let name = to.strip_prefix('#').expect("it leads out of the page");
            let places = select(&parsed, "[id]");
            let there = places
                .iter()
                .filter(|one| one.value().attr("id") == Some(name));
            assert_eq!(there.count(), 1, "{}: {to}", run.name);
        }
        for outside in ["http:", "https:", "url(", "@import"] {
            assert!(!page.contains(outside), "{}: {outside}", run.name);
        }
    }
}

#[test]
fn every_place_in_a_drawing_is_a_number_inside_it() {
    for run in common::all() {
        let page = page(&run);
        let parsed = Html::parse_document(&page);
        let mut places = 0;
        for shape in select(&parsed, "svg.row *") {
            for name in ["x", "x1", "x2", "cx", "width"] {
                let Some(place) = shape.value().attr(name) else {
                    continue;
                };
                let percent: f64 = place.trim_end_matches('%').parse().unwrap();
                assert!(
                    (0.0..=100.0).contains(&percent),
                    "{}: {name}={place}",
                    run.name
                );
                places += 1;
            }
        }
        assert!(
            places > 0 || run.name == "nothing-valid",
            "{}: nothing is drawn",
            run.name
        );
    }
}

#[test]
fn every_row_of_a_table_is_as_wide_as_its_head() {
    for run in common::all() {
        let page = page(&run);
        let parsed = Html::parse_document(&page);
        for table in select(&parsed, "div.scroll table") {
            let count = |row: ElementRef<'_>| -> usize {
                let cells = Selector::parse("td, th").unwrap();
                row.select(&cells)
                    .map(|cell| {
                        cell.value()
                            .attr("colspan")
                            .map_or(1, |n| n.parse().unwrap())
                    })
                    .sum()
            };
            let rows = Selector::parse("tr").unwrap();
            let widths: Vec<usize> = table.select(&rows).map(count).collect();
            assert!(
                widths.iter().all(|width| *width == widths[0]),
                "{}: {widths:?}",
                run.name
            );
        }
    }
}

#[test]
fn strings_from_outside_stay_text() {
    let run = common::hostile();
    let page = page(&run);
    let parsed = Html::parse_document(&page);
    let hostile = &run.info.id;
    assert!(hostile.contains("</style>") && hostile.contains('"') && hostile.contains("<script>"));
    assert_eq!(text(select(&parsed, "p.about code")[0]), *hostile);
    assert_eq!(
        text(select(&parsed, "title")[0]),
        format!("fwdlab {hostile}")
    );
    assert_eq!(
        select(&parsed, "div.line code")[0].value().attr("title"),
        Some(hostile.as_str())
    );
    assert_eq!(select(&parsed, "style").len(), 1);
    assert!(!page.contains("<script"));
}

#[test]
fn page_and_terminal_agree() {
    for run in common::all() {
        let page = page(&run);
        let parsed = Html::parse_document(&page);
        let plain = |text: &str| {
            let words = text.replace(['\u{a0}', '\u{2011}'], "-").replace(' ', "-");
            words.replace('\n', "-")
        };
        let headline = plain(&text(select(&parsed, "h1")[0]));
        let terminal = plain(&fwdlab_report::text::quick(&run.info, &run.summary).to_string());
        assert!(
            terminal.starts_with(&headline),
            "{}: {headline}\n{terminal}",
            run.name
        );
    }
}

/// A page of many trials stays small; a script shows the rows that a block contains.
#[test]
fn a_long_list_of_trials_is_complete_and_small() {
    use base64::Engine as _;
    let mut run = common::invalid();
    let one = run.trials.clone();
    while run.trials.len() < 60_000 {
        run.trials.extend(one.iter().cloned());
    }
    for (trial, n) in run.trials.iter_mut().zip(1..) {
        trial.trial = n;
        trial.offered_load_pps *= 1.0 + f64::from(n % 997) / 1e4;
    }
    let long = page(&run);
    assert!(long.len() < 5_000_000, "{}", long.len());
    let parsed = Html::parse_document(&long);
    let first = *select(&parsed, "table.dense")
        .last()
        .expect("a table of trials");
    let rows = Selector::parse("tbody tr").expect("a selector");
    let block = text(select(&parsed, ".pages script[type]")[0]);
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(block)
        .expect("letters");
    let mut inflated = String::new();
    std::io::Read::read_to_string(
        &mut flate2::read::ZlibDecoder::new(&bytes[..]),
        &mut inflated,
    )
    .expect("a whole block");
    let pages: Vec<&str> = inflated.split('\u{c}').collect();
    assert_eq!(pages.len(), run.trials.len().div_ceil(500));
    assert_eq!(
        select(&parsed, ".pages")[0].value().attr("data-pages"),
        Some(&*pages.len().to_string())
    );
    let shown: String = first.select(&rows).map(|row| row.html() + "\n").collect();
    assert_eq!(
        shown,
        Html::parse_fragment(&format!("<table>{}</table>", pages[0]))
            .select(&rows)
            .map(|row| row.html() + "\n")
            .collect::<String>()
    );
    let listed = inflated.matches("valid</td>").count();
    assert_eq!(listed, run.trials.len());
}

#[test]
fn cards_are_described_in_a_line() {
    let page = Html::parse_document(&page(&common::normal()));
    let rows = select(&page, "table.pairs tr").into_iter().map(text);
    let card: Vec<String> = rows
        .filter(|row| row.starts_with("generator eth1"))
        .collect();
    assert_eq!(
        card.concat(),
        "generator eth1Intel Corporation Ethernet Controller X710, PCI 8086:1572, driver i40e 6.1.0, \
         firmware 8.30 0x8000, 10 Gbit/s, queues: 8 receive, 8 send, NUMA node 1"
    );
}

/// The DUT is the guest, whatever runs on this host.
#[test]
fn the_kernel_of_this_host_is_not_that_of_a_guest() {
    let mut run = common::normal();
    let drawn = |run: &Run| {
        let page = Html::parse_document(&page(run));
        let words = select(&page, "svg.bed text").into_iter().map(text);
        words.collect::<Vec<_>>().join(" | ")
    };
    let (kernel, placed) = ("6.18.0", "alone on CPU 0");
    let facts = &mut run.info.facts;
    facts.kernel = kernel.into();
    facts.placement.insert("generator".into(), placed.into());
    let words = drawn(&run);
    assert!(words.contains(kernel) && words.contains(placed), "{words}");
    for (images, shown) in [(1, "image-0"), (2, "2 images")] {
        let parameters = &mut run.info.parameters;
        parameters.insert("procedure".into(), "exact".into());
        for n in 0..images {
            let facts = &mut run.info.facts;
            let name = format!("{}image-{n}", fwdlab_model::facts::IMAGE);
            facts.placement.insert(name, "kernel 6.1.0".into());
        }
        let words = drawn(&run);
        assert!(words.contains(shown), "{words}");
        assert!(
            !words.contains(kernel) && !words.contains(placed),
            "{words}"
        );
    }
}

#[test]
fn every_trial_is_listed_and_invalid_ones_have_a_reason() {
    let run = common::invalid();
    let page = page(&run);
    let parsed = Html::parse_document(&page);
    let invalid: Vec<_> = run
        .trials
        .iter()
        .filter(|t| !t.validity.is_valid())
        .collect();
    assert!(!invalid.is_empty());
    let table = *select(&parsed, "table.dense")
        .last()
        .expect("the trials are the last");
    let rows = Selector::parse("tbody tr td:first-child:not(.below)").unwrap();
    let numbers: Vec<u32> = table
        .select(&rows)
        .map(|cell| text(cell).parse().unwrap())
        .collect();
    assert_eq!(
        numbers,
        run.trials.iter().map(|t| t.trial).collect::<Vec<_>>()
    );
    let below = Selector::parse("tr.invalid td.below").unwrap();
    let reasons: Vec<String> = table.select(&below).map(text).collect();
    let expect: Vec<String> = invalid
        .iter()
        .map(|t| t.validity.reasons.join("; "))
        .collect();
    assert_eq!(reasons, expect);
}

#[test]
fn the_kernel_command_line_is_shown_only_on_request() {
    let run = &common::all()[0];
    let line = run.info.facts.kernel_command_line.as_deref();
    let line = line.expect("the test data has one");
    for (facts, is_told) in [(ShownFacts::Brief, false), (ShownFacts::Full, true)] {
        let page = fwdlab_report::html::page(&shown(run), facts);
        assert_eq!(page.contains(line), is_told, "{facts:?}");
    }
}

/// The page shows findings with the setting to check, and the activity of the host in readable
/// units; text from outside is escaped.
#[test]
fn a_page_shows_the_activity_of_the_dut() {
    let page = page(&common::explained());
    let parsed = Html::parse_document(&page);
    let all = text(parsed.root_element());
    for words in [
        "Load of the DUT",
        "dropped on purpose: nft ip t f: ip saddr <b>",
        "(in 3 of 5 trials; the clearest is shown)",
        "one queue carries the load",
        "(in all 5 trials)",
        "Look at: this rule: nft list ruleset",
        "CPUs of router1",
        "75.0 %",
        "750,000",
        "12 of 262,144",
        "42.000 \u{b5}J",
        "nft: not read",
    ] {
        assert!(
            all.to_lowercase().contains(&words.to_lowercase()),
            "{words}"
        );
    }
    assert!(!self::page(&common::one_case()).contains("Load of the DUT"));
}

/// Without a verdict on noise, the page does not claim that the machine was quiet.
#[test]
fn unjudged_noise_is_not_reported_as_quiet() {
    let mut run = common::one_case();
    assert!(page(&run).contains("machine quiet enough"));
    run.summary.noise.not_judged = true;
    let page = page(&run);
    assert!(!page.contains("machine quiet enough") && page.contains("noise not judged"));
}

/// Valid trials are no good sign next to "no result", noise is evidence, and the dashboard links to
/// the charts as files.
#[test]
fn a_page_says_what_helps() {
    let mut run = common::explained();
    let noise_is_open = |page: &str| {
        let (before, _) = page.split_once("<h2>Noise</h2>").unwrap();
        before.ends_with("<details open=\"\"><summary>")
    };
    let good = page(&run);
    assert!(good.contains("all valid") && !noise_is_open(&good));
    run.summary.noise.too_noisy = true;
    assert!(noise_is_open(&page(&run)));
    for case in &mut run.summary.test_cases {
        case.figures.clear();
        case.outcomes.clear();
    }
    assert!(!page(&run).contains("all valid"));
    let run = common::explained();
    let content = fwdlab_report::html::fragment(&shown(&run), ShownFacts::Brief, &["svg"]);
    let link = format!("href=\"/runs/{}/charts/forwarding-rate.svg\"", run.info.id);
    assert!(
        content.contains(&link) && !content.contains(".png"),
        "{content}"
    );
}
/// Each test case has a heading with the gist, and nothing is left out.
#[test]
fn the_activity_of_the_dut_is_folded() {
    for cases in [1, 4] {
        let mut run = common::explained();
        let case = run.summary.test_cases.remove(0);
        for number in 0..cases {
            let mut case = case.clone();
            case.case.configuration = format!("set-{number}");
            run.summary.test_cases.push(case);
        }
        let page = page(&run);
        let parsed = Html::parse_document(&page);
        assert!(parsed.errors.is_empty(), "{:?}", parsed.errors);
        let sections = select(&parsed, "section").into_iter();
        let mut activity = sections.filter(|one| text(*one).starts_with("Load of the DUT"));
        let activity = activity.next().unwrap();
        let below = |words: &str| -> Vec<_> {
            let selector = Selector::parse(words).unwrap();
            activity.select(&selector).collect()
        };
        let folded = below("details details");
        assert_eq!(folded.len(), cases);
        // what was found is open, the numbers are not
        assert_eq!(below("details[open]").len(), 1);
        assert_eq!(below("details details[open]").len(), 0);
        for (number, case) in folded.into_iter().enumerate() {
            let all = text(case);
            let name = match cases {
                1 => String::new(),
                _ => format!("set-{number}"),
            };
            // all drop counters of this case are listed, and the gist has the largest
            for words in [name.as_str(), "busiest CPU 75.0 %", "750,000"] {
                assert!(all.contains(words), "{words} is not in {all}");
            }
        }
        assert_eq!(page.matches("CPUs of router1").count(), cases);
    }
}
