//! Renders profiles by call path: flame graphs with search and zoom, and tables of differences.
//!
//! A flame graph is one self-contained SVG, drawn by the crate inferno. This module does not know
//! what was counted or where; it takes profiles ([`fwdlab_model::stacks`]). Start with [`graph`]
//! and [`difference`]; [`differences`] is the table.

mod table;

use std::fmt::Write;

use fwdlab_model::stacks::perf::PROGRAM;
use fwdlab_model::stacks::{Profile, Stacks};
use inferno::flamegraph::color::{
    BackgroundColor, BasicPalette, Palette, PaletteMap, parse_hex_color,
};
use inferno::flamegraph::{self, Options, TextTruncateDirection};

pub use table::differences;

/// Unit of the figures: the length of a path, not the time that a machine takes for it.
pub const UNIT: &str = "instructions per frame";

/// Resolution of the figures: inferno takes integers, so they are drawn in thousandths.
const PARTS: f64 = 1000.0;
/// Largest figure that is drawn: inferno's sums must fit into its integers.
const LARGEST: f64 = 1e12;
/// Placeholder for the unit until the decimals are restored. It appears nowhere else in a graph.
const PARTS_NAME: &str = "thousandths-of-one";

/// Why there is no flame graph.
#[derive(Debug, thiserror::Error)]
pub enum FlameError {
    /// The profile is empty.
    #[error("no flame graph of {0}: nothing was counted")]
    Empty(String),
    /// The profile is too large to draw.
    #[error(
        "no flame graph of {0}: there are more than 10^12 {UNIT}; by how many frames were they divided?"
    )]
    TooMany(String),
    /// The graph could not be drawn.
    #[error("no flame graph of {title}: {source}")]
    Drawing {
        /// Title of the graph.
        title: String,
        /// Error of inferno.
        source: std::io::Error,
    },
}

/// Draws the flame graph of a profile as SVG: the wider, the more instructions per frame.
///
/// Negative paths, which a difference may have, cannot be drawn and are left out; the subtitle has
/// their sum.
///
/// # Errors
/// If the profile is empty or too large.
pub fn graph(title: &str, profile: &Profile) -> Result<String, FlameError> {
    let mut lines = Vec::new();
    let mut negative = 0.0;
    for (path, per) in profile.paths() {
        match parts(per) {
            0 => negative += per.min(0.0),
            parts => lines.push(format!("{} {parts}", safe(path))),
        }
    }
    let mut subtitle = format!("{} {UNIT}", table::figure(profile.total()));
    if negative < 0.0 {
        subtitle = format!(
            "{subtitle}; paths below zero are not drawn: {}",
            table::figure(negative)
        );
    }
    draw(title, &subtitle, &lines, [profile])
}

/// Unit of the figures of samples.
const OF_SAMPLES: &str = "% of the samples";

/// Draws the flame graph of samples as SVG: the wider, the more samples.
///
/// # Errors
/// If there are no samples.
pub fn samples(title: &str, stacks: &Stacks) -> Result<String, FlameError> {
    let svg = graph(title, &stacks.percent())?;
    let is_others = stacks.paths().any(|(path, _)| path.contains(PROGRAM));
    let others = match is_others {
        true => format!(
            "{OF_SAMPLES}; grey: functions of other programs, after {}",
            PROGRAM.trim()
        ),
        false => OF_SAMPLES.to_owned(),
    };
    // the first one is in the subtitle
    Ok(svg.replacen(UNIT, &others, 1).replace(UNIT, OF_SAMPLES))
}

/// Draws the flame graph of the second profile, coloured by how many more (red) or fewer (blue)
/// instructions each function itself takes than in the first.
///
/// What exists only in the first cannot be drawn; the subtitle has its sum. Exchange the profiles
/// to see it.
///
/// # Errors
/// If the second profile is empty or too large.
pub fn difference(title: &str, before: &Profile, after: &Profile) -> Result<String, FlameError> {
    let mut lines = Vec::new();
    let mut gone = 0.0;
    let mut firsts = before.paths().peekable();
    // both are sorted by path
    for (path, per) in after.paths() {
        while let Some((_, first)) = firsts.next_if(|(first, _)| *first < path) {
            gone += first;
        }
        let first = (firsts.next_if(|(first, _)| *first == path)).map_or(0.0, |(_, per)| per);
        match parts(per) {
            0 => gone += first - per.max(0.0),
            parts_after => lines.push(format!("{} {} {parts_after}", safe(path), parts(first))),
        }
    }
    gone += firsts.map(|(_, per)| per).sum::<f64>();
    let mut subtitle = format!(
        "{UNIT}: {} before, {} after; red: the function itself takes more, blue: less",
        table::figure(before.total()),
        table::figure(after.total())
    );
    if gone >= 0.05 {
        write!(
            subtitle,
            "; not drawn, because only before: {}",
            table::figure(gone)
        )
        .expect("a String takes everything");
    }
    draw(title, &subtitle, &lines, [before, after])
}

/// Converts to whole thousandths; negative values become 0.
fn parts(per: f64) -> u64 {
    (per * PARTS).round().max(0.0) as u64
}

/// Changes a path whose last word inferno would parse as a count.
fn safe(path: &str) -> String {
    match path.rsplit_once(' ') {
        Some((before, last)) if last.parse::<f64>().is_ok() => format!("{before}_{last}"),
        _ => path.to_owned(),
    }
}

fn draw<const N: usize>(
    title: &str,
    subtitle: &str,
    lines: &[String],
    of: [&Profile; N],
) -> Result<String, FlameError> {
    let size = |profile: &Profile| profile.paths().map(|(_, per)| per.abs()).sum::<f64>();
    if of.into_iter().any(|profile| size(profile) > LARGEST) {
        return Err(FlameError::TooMany(title.to_owned()));
    }
    if lines.is_empty() {
        return Err(FlameError::Empty(title.to_owned()));
    }
    let mut options = Options::default();
    options.title = title.to_owned();
    options.subtitle = Some(subtitle.to_owned());
    options.count_name = PARTS_NAME.to_owned();
    // the same function has the same colour in every graph
    options.colors = Palette::Basic(BasicPalette::Hot);
    options.deterministic = true;
    options.bgcolors = Some(BackgroundColor::Grey);
    // keep the beginning of names: it identifies the subsystem of kernel functions
    options.text_truncate_direction = TextTruncateDirection::Right;
    let mut colours = PaletteMap::default();
    let grey = parse_hex_color("#b4b8bc").expect("a colour");
    let names = of.iter().flat_map(|profile| profile.paths());
    for name in names.flat_map(|(path, _)| path.split(';')) {
        if name.contains(PROGRAM) {
            colours.insert(safe(name), grey);
        }
    }
    options.palette_map = Some(&mut colours);
    let mut svg = Vec::new();
    let drawn = flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg);
    drawn.map_err(|source| FlameError::Drawing {
        title: title.to_owned(),
        source,
    })?;
    Ok(with_decimals(&String::from_utf8_lossy(&svg)))
}

/// Restores the decimals: `(213,040 thousandths-of-one` becomes `(213.04 instructions per frame`.
fn with_decimals(svg: &str) -> String {
    let mut text = String::with_capacity(svg.len());
    let mark = format!(" {PARTS_NAME}");
    let mut pieces = svg.split(&mark).peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            text.push_str(piece);
            break;
        }
        let at = piece.rfind('(').map_or(0, |at| at + 1);
        let (before, number) = piece.split_at(at);
        // the digits after the last thousands separator are the thousandths
        let (whole, fraction) = number.rsplit_once(',').unwrap_or(("0", number));
        let fraction = format!("{fraction:0>3}");
        let fraction = match fraction.trim_end_matches('0') {
            "" => "0",
            some => some,
        };
        text.push_str(before);
        text.push_str(&format!("{whole}.{fraction} {UNIT}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn profile(text: &str) -> Profile {
        text.parse::<Stacks>().unwrap().per(1000)
    }

    /// Returns the texts of the tooltips, sorted.
    fn tips(svg: &str) -> Vec<String> {
        let mut tips: Vec<String> = svg
            .split("<title>")
            .skip(1)
            .map(|rest| rest.split("</title>").next().unwrap().to_owned())
            .collect();
        tips.sort();
        tips
    }

    fn subtitle(svg: &str) -> &str {
        let at = svg.find("id=\"subtitle\"").unwrap();
        let from = svg[at..].find('>').unwrap() + at + 1;
        svg[from..].split('<').next().unwrap()
    }

    #[test]
    fn samples_are_shares_of_all() {
        let stacks: Stacks = "rx;ip_rcv 3\nrx;timer 1\n".parse().unwrap();
        let svg = samples("case", &stacks).unwrap();
        assert!(
            tips(&svg)
                .iter()
                .any(|tip| tip.contains("75.0 % of the samples")),
            "{:?}",
            tips(&svg)
        );
        assert_eq!(subtitle(&svg), "100.0 % of the samples");
        assert!(samples("none", &Stacks::default()).is_err());
        let stacks: Stacks = "rx;ip_rcv 3
main @sshd;poll @sshd 1
"
        .parse()
        .unwrap();
        let svg = samples("case", &stacks).unwrap();
        assert_eq!(
            subtitle(&svg),
            "100.0 % of the samples; grey: functions of other programs, after @"
        );
        let grey = r#"fill="rgb(180,184,188)""#;
        assert_eq!(svg.matches(grey).count(), 2, "{svg}");
    }

    #[test]
    fn tooltips_have_decimals() {
        let svg = graph(
            "plain",
            &profile("rx;ip_rcv 36000\nrx;ip_rcv;ip_forward 10144020\nrx;timer 500\n"),
        )
        .unwrap();
        assert_eq!(
            tips(&svg),
            [
                "all (10,180.52 instructions per frame, 100%)",
                "ip_forward (10,144.02 instructions per frame, 99.64%)",
                "ip_rcv (10,180.02 instructions per frame, 100.00%)",
                "rx (10,180.52 instructions per frame, 100.00%)",
            ],
            "what is too narrow to be seen is left out"
        );
        assert_eq!(subtitle(&svg), "10180.5 instructions per frame");
        assert!(
            svg.contains("fn search") || svg.contains("function search"),
            "it can be searched"
        );
        assert!(svg.contains("function zoom"), "and zoomed");
    }

    #[test]
    fn a_difference_graph_reports_what_is_not_drawn() {
        let before = profile("rx;gone 7000\nrx;ip_forward 144000\nrx;same 1000\n");
        let after = profile(
            "rx;ip_forward 173000\nrx;ip_forward;nft_do_chain [nf_tables] 213000\nrx;same 1000\n",
        );
        let svg = difference("a rule", &before, &after).unwrap();
        assert_eq!(
            tips(&svg),
            [
                "all (387.0 instructions per frame, 100%)",
                "ip_forward (386.0 instructions per frame, 99.74%; +7.49%)",
                "nft_do_chain [nf_tables] (213.0 instructions per frame, 55.04%; +55.04%)",
                "rx (387.0 instructions per frame, 100.00%; 0.00%)",
                "same (1.0 instructions per frame, 0.26%; 0.00%)",
            ]
        );
        assert_eq!(
            subtitle(&svg),
            "instructions per frame: 152.0 before, 387.0 after; red: the function itself takes more, blue: less; not drawn, because \
             only before: 7.0"
        );
    }

    #[test]
    fn values_below_zero_are_reported() {
        let left = profile("a 3000\nb 1000\n").minus(&profile("b 4000\n"));
        let svg = graph("left", &left).unwrap();
        assert_eq!(
            subtitle(&svg),
            "0.0 instructions per frame; paths below zero are not drawn: -3.0"
        );
        let error = graph("nothing", &Profile::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no flame graph of nothing: nothing was counted"
        );
        let all: Stacks = "a 18446744073709551614\na;b 1\n".parse().unwrap();
        let error = graph("all", &all.per(1)).unwrap_err();
        assert!(matches!(error, FlameError::TooMany(_)), "{error}");
    }

    #[test]
    fn names_are_only_names() {
        let svg = graph(
            "<&>",
            &profile("a<b>;c&d 1000\na<b>;e 12 1000\nf;f;f 1000\n"),
        )
        .unwrap();
        assert!(
            svg.contains("a&lt;b&gt; (2.0 instructions"),
            "{:?}",
            tips(&svg)
        );
        assert!(svg.contains("c&amp;d (1.0 instructions"));
        assert!(svg.contains("e_12 (1.0 instructions"));
        assert_eq!(
            tips(&svg)
                .iter()
                .filter(|tip| tip.starts_with("f ("))
                .count(),
            3
        );
    }

    proptest! {
        #[test]
        fn all_counted_samples_are_drawn(lines in prop::collection::vec(("[a-c]( \\[m\\])?(;[a-c]( 7)?){0,3}", 1u64..100_000_000), 1..12)) {
            let text: String = lines.iter().map(|(path, count)| format!("{path} {count}\n")).collect();
            let all = profile(&text);
            let svg = graph("all", &all).unwrap();
            let tips = tips(&svg);
            let first = tips.iter().find(|tip| tip.starts_with("all (")).unwrap();
            let figure: String = first[5..].split(' ').next().unwrap().replace(',', "");
            prop_assert!((figure.parse::<f64>().unwrap() - all.total()).abs() < 1e-3 * lines.len() as f64, "{figure}");
            prop_assert!(!svg.contains(PARTS_NAME));
            difference("none", &all, &all).unwrap();
        }
    }
}
