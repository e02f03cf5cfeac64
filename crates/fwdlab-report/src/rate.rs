//! Converts rates and line rates between units, and prints the tables of line rates, mixes and
//! minimum routers.
//!
//! The arithmetic is in `model` (`link`, `mix`, `energy`). All figures are for one direction unless
//! they are labelled otherwise, and every figure in bit/s has its layer. Start with [`Question`].

use std::collections::BTreeMap;

use fwdlab_model::energy;
use fwdlab_model::link::{Directions, Layer, LinkLoad, LinkSpeed, RateOnLink};
use fwdlab_model::mix::{
    ImixEstimate, MINIMUM_ROUTER_LINKS, MinimumRouter, Mix, NAMED, NamedMix, Part, TalkFormula,
};
use fwdlab_model::units::FCS_BYTES;
use serde::Serialize;

use crate::number;
use crate::table::{Cell, Column, Mark, Table, table, wrap};

/// Columns at which text is wrapped.
const WIDTH: usize = 80;

/// Frame sizes in the table of line rates, in bytes: RFC 2544 §9.1, and jumbo frames.
const SIZES: [u32; 8] = [64, 128, 256, 512, 1024, 1280, 1518, 9000];

/// Links in the table of line rates.
const LINKS: [LinkSpeed; 6] = [
    LinkSpeed::megabits(1_000),
    LinkSpeed::megabits(2_500),
    LinkSpeed::megabits(10_000),
    LinkSpeed::megabits(25_000),
    LinkSpeed::megabits(40_000),
    LinkSpeed::megabits(100_000),
];

/// The default link for a rate.
const LINK: LinkSpeed = LinkSpeed::megabits(10_000);

/// The input: rates, frames and links to convert. Empty lists have the defaults of
/// [`Rates::from_question`] and [`Tables::from_question`].
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// Rates, in one direction.
    pub rates: Vec<LinkLoad>,
    /// Frames. Default for rates: 64 bytes; for tables: the sizes of RFC 2544, all mixes, and the
    /// minimum router.
    pub sizes: Vec<Mix>,
    /// Links. Default for rates: 10G; for tables: 1G to 100G.
    pub links: Vec<LinkSpeed>,
    /// Clock of a core, in Hz.
    pub clock_hz: Option<f64>,
    /// Cycles that a core spends per frame.
    pub cycles: Option<f64>,
    /// Power of the device at the rate, in W.
    pub watts: Option<f64>,
    /// Power of the device without load, in W.
    pub idle_watts: Option<f64>,
}

/// Every combination of rate, link and frames: the document of `--json`.
#[derive(Serialize)]
pub struct Rates {
    rates: Vec<Said>,
    #[serde(skip)]
    text: String,
}

/// One rate in all units.
#[derive(Serialize)]
struct Said {
    asked: String,
    #[serde(flatten)]
    frames: Frames,
    link_bps: u64,
    rate_pps: f64,
    l1_bps: f64,
    l2_bps: f64,
    l3_bps: f64,
    line_rate_pps: f64,
    line_share_percent: f64,
    interval_ns: f64,
    line_interval_ns: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    imix_estimate: Option<Estimate>,
    #[serde(flatten)]
    energy: Option<Energy>,
    #[serde(flatten)]
    clock: Option<Clock>,
    #[serde(flatten)]
    cycles: Option<Cycles>,
    warnings: Vec<String>,
}

/// The frames of a rate.
#[derive(Serialize)]
struct Frames {
    frames: String,
    mean_size_bytes: f64,
    /// The length for pkt-gen's option `-l`, for frames of one size.
    #[serde(skip_serializing_if = "Option::is_none")]
    buffer_bytes: Option<u32>,
}

/// The same rate for the simple IMIX.
#[derive(Serialize)]
struct Estimate {
    rate_pps: f64,
    l2_bps: f64,
    line_limited: bool,
    /// Bit rate as conference talks count it: IP packets without padding.
    talk_l3_bps: f64,
    /// Bit rate as conference talks count it: frames without padding and FCS.
    talk_l2_without_fcs_bps: f64,
}

#[derive(Serialize)]
struct Energy {
    watts: f64,
    joules_per_frame: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_watts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    marginal_joules_per_frame: Option<f64>,
    watts_per_gbps_l2: f64,
}

#[derive(Serialize)]
struct Clock {
    clock_hz: f64,
    core_cycles_per_frame: f64,
    core_cycles_per_frame_at_line_rate: f64,
}

#[derive(Serialize)]
struct Cycles {
    cycles_per_frame: f64,
    effective_clock_hz: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    core_rate_pps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cores: Option<f64>,
}

/// The tables of line rates, mixes and minimum routers: the document of `--json`.
#[derive(Serialize)]
pub struct Tables {
    line_rates: Vec<LineRate>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mixes: Vec<MixRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    minimum_router: Vec<RouterRow>,
    #[serde(skip)]
    text: String,
}

#[derive(Serialize)]
struct LineRate {
    link_bps: u64,
    #[serde(flatten)]
    frames: Frames,
    line_rate_pps: u64,
}

#[derive(Serialize)]
struct MixRow {
    mix: &'static str,
    source: &'static str,
    parts: Vec<PartRow>,
    mean_size_bytes: f64,
    mean_l3_bytes: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    genome: Option<String>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct PartRow {
    size_bytes: u32,
    weight: u64,
}

#[derive(Serialize)]
struct RouterRow {
    link_bps: u64,
    smallest_pps: u64,
    smallest_both_ways_pps: u64,
    imix_pps: u64,
    imix_both_ways_pps: u64,
    imix_talk_pps: u64,
    imix_talk_both_ways_pps: u64,
}

impl Question {
    fn in_all_units(&self, load: LinkLoad, mix: &Mix, link: LinkSpeed) -> Said {
        let rate = RateOnLink::new(load, mix.mean(), link);
        let mut warnings: Vec<String> = mix.padded().iter().map(ToString::to_string).collect();
        if rate.exceeds_line() {
            warnings.push(format!(
                "above line rate: a {link} link carries at most {} of {}",
                frames_per_second(rate.line_rate_pps()),
                frames_words(mix)
            ));
        }
        Said {
            asked: load.to_string(),
            frames: frames(mix),
            link_bps: link.bps(),
            rate_pps: rate.pps,
            l1_bps: rate.bps(Layer::L1),
            l2_bps: rate.bps(Layer::L2),
            l3_bps: rate.bps(Layer::L3),
            line_rate_pps: rate.line_rate_pps(),
            line_share_percent: rate.line_share_percent(),
            interval_ns: rate.interval_ns(),
            line_interval_ns: rate.line_interval_ns(),
            imix_estimate: estimate(mix, &rate),
            energy: self.watts.map(|watts| Energy {
                watts,
                joules_per_frame: energy::joules_per_frame(watts, rate.pps),
                idle_watts: self.idle_watts,
                marginal_joules_per_frame: (self.idle_watts)
                    .and_then(|idle| energy::marginal_joules_per_frame(watts, idle, rate.pps)),
                watts_per_gbps_l2: energy::watts_per_gbps_l2(watts, rate.bps(Layer::L2)),
            }),
            clock: self.clock_hz.map(|clock_hz| Clock {
                clock_hz,
                core_cycles_per_frame: energy::cycles_per_frame(1.0, clock_hz, rate.pps),
                core_cycles_per_frame_at_line_rate: energy::cycles_per_frame(
                    1.0,
                    clock_hz,
                    rate.line_rate_pps(),
                ),
            }),
            cycles: self.cycles.map(|cycles| Cycles {
                cycles_per_frame: cycles,
                effective_clock_hz: energy::effective_clock_hz(rate.pps, cycles),
                core_rate_pps: (self.clock_hz).map(|clock| energy::core_rate_pps(clock, cycles)),
                cores: (self.clock_hz)
                    .map(|clock| energy::effective_clock_hz(rate.pps, cycles) / clock),
            }),
            warnings,
        }
    }
}

impl Rates {
    /// Converts the rates of a question.
    pub fn from_question(question: &Question) -> Rates {
        let smallest = [single(64)];
        let mixes = if question.sizes.is_empty() {
            &smallest
        } else {
            &question.sizes[..]
        };
        let links = if question.links.is_empty() {
            &[LINK]
        } else {
            &question.links[..]
        };
        let (mut rates, mut texts) = (Vec::new(), Vec::new());
        for &load in &question.rates {
            for mix in mixes {
                for &link in links {
                    let said = question.in_all_units(load, mix, link);
                    texts.push(text(mix, &RateOnLink::new(load, mix.mean(), link), &said));
                    rates.push(said);
                }
            }
        }
        Rates {
            rates,
            text: texts.join("\n"),
        }
    }

    /// Returns the text for a terminal.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Tables {
    /// Computes the tables for the sizes and links of a question.
    pub fn from_question(question: &Question) -> Tables {
        // a question that lists sizes is about these only
        let all = question.sizes.is_empty();
        let mixes = if all {
            SIZES.map(single).to_vec()
        } else {
            question.sizes.clone()
        };
        let links = if question.links.is_empty() {
            &LINKS[..]
        } else {
            &question.links[..]
        };
        let named: Vec<(&NamedMix, Mix)> = (NAMED.iter().filter(|_| all))
            .filter_map(|named| Some((named, Mix::named(named.name)?)))
            .collect();
        let router_links = if question.links.is_empty() {
            &MINIMUM_ROUTER_LINKS[..]
        } else {
            links
        };
        let routers: Vec<MinimumRouter> = (router_links.iter().filter(|_| all))
            .map(|&link| MinimumRouter::for_link(link))
            .collect();
        let mut text = line_rate_text(&mixes, links);
        if all {
            text += "\n";
            text += &mixes_text(&named, question.links.first().copied().unwrap_or(LINK));
            text += "\n";
            text += &routers_text(&routers);
        }
        Tables {
            line_rates: (mixes.iter())
                .flat_map(|mix| links.iter().map(move |&link| line_rate(mix, link)))
                .collect(),
            mixes: named.iter().map(mix_row).collect(),
            minimum_router: routers.iter().map(router_row).collect(),
            text,
        }
    }

    /// Returns the text for a terminal.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn single(bytes: u32) -> Mix {
    Mix::new(&bytes.to_string(), [(bytes, 1)]).expect("a size of ours is one of a frame")
}

fn frames(mix: &Mix) -> Frames {
    Frames {
        frames: mix.name().to_owned(),
        mean_size_bytes: mix.mean().bytes(),
        buffer_bytes: mix.single_size().map(|bytes| bytes - u32::from(FCS_BYTES)),
    }
}

/// Returns the IMIX estimate if the frames are smaller than the mix's mean; otherwise it would be
/// meaningless.
fn estimate(mix: &Mix, rate: &RateOnLink) -> Option<Estimate> {
    let smaller = mix.mean().bytes() < Mix::imix().mean().bytes();
    smaller.then(|| {
        let estimate = ImixEstimate::from_rate(rate.pps, rate.link);
        Estimate {
            rate_pps: estimate.pps,
            l2_bps: estimate.l2_bps,
            line_limited: estimate.line_limited,
            talk_l3_bps: TalkFormula::IpPackets.bps(rate.pps),
            talk_l2_without_fcs_bps: TalkFormula::Ethernet.bps(rate.pps),
        }
    })
}

/// Renders one rate as text: a sentence, then a line per unit.
fn text(mix: &Mix, rate: &RateOnLink, said: &Said) -> String {
    let mean = match mix.single_size() {
        Some(_) => "",
        None => "mean ",
    };
    let pkt_gen = match said.frames.buffer_bytes {
        Some(bytes) => format!(" (pkt-gen -l {bytes})"),
        None => String::new(),
    };
    let frames = rate.frames;
    let line = |name, value, unit: &str, words| [name, value, unit.to_owned(), words];
    let pps = |name: &str, pps, words| line(name.into(), rounded_down(pps), "pps", words);
    let layer = |name: &str, bps, size, words: &str| {
        let bits = number::bits_per_second(bps);
        let words = format!("{bits}: {mean}{}{words}", bytes(size));
        line(name.into(), rounded_down(bps), "bit/s", words)
    };
    let with_unit = |name: &str, figure: String, words| {
        let (value, unit) = split_unit(&figure);
        line(name.into(), value, &unit, words)
    };
    let every = format!(
        "{}: a frame every {}",
        number::rate(rate.pps),
        time(said.interval_ns)
    );
    let full = time(said.line_interval_ns);
    let full = format!("{} full of these frames, one every {full}", rate.link);
    let mut lines = vec![
        pps("rate", rate.pps, every),
        layer(
            "L1",
            said.l1_bps,
            frames.l1_bytes(),
            " with preamble and gap",
        ),
        layer(
            "L2",
            said.l2_bps,
            frames.bytes(),
            &format!(" with FCS{pkt_gen}"),
        ),
        layer("L3", said.l3_bps, frames.l3_bytes(), ", the IP packet"),
        pps("line", said.line_rate_pps, full),
    ];
    if let Some(clock) = &said.clock {
        let words = format!(
            "of a core of {} per frame; at line rate {}",
            hertz(clock.clock_hz),
            figure(clock.core_cycles_per_frame_at_line_rate)
        );
        let cycles = figure(clock.core_cycles_per_frame);
        lines.push(line("clock".into(), cycles, "cycles", words));
    }
    if let Some(cycles) = &said.cycles {
        let cores = match (cycles.cores, cycles.core_rate_pps) {
            (Some(cores), Some(pps)) => {
                format!(": {} cores; one does {}", figure(cores), number::rate(pps))
            }
            _ => String::new(),
        };
        let words = format!("{} a frame{cores}", figure(cycles.cycles_per_frame));
        lines.push(with_unit("cycles", hertz(cycles.effective_clock_hz), words));
    }
    if let Some(energy) = &said.energy {
        let words = format!(
            "per frame at {} W; {} W per Gbit/s (L2)",
            energy.watts,
            figure(energy.watts_per_gbps_l2)
        );
        lines.push(with_unit("energy", joules(energy.joules_per_frame), words));
        if let (Some(marginal), Some(idle)) = (energy.marginal_joules_per_frame, energy.idle_watts)
        {
            let words = format!("per frame above the idle {idle} W");
            lines.push(with_unit("", joules(marginal), words));
        }
    }
    let columns = [Column::left, Column::right, Column::left, Column::left];
    let mut table = Table::new(columns.map(|column| column("", &[])).to_vec());
    for cells in lines {
        table.push(Mark::None, cells.map(Cell::text).to_vec());
    }
    let mut text = format!(
        "{} of {} = {}, {} of a {} link\n{}",
        said.asked,
        frames_words(mix),
        frames_per_second(rate.pps),
        share(said.line_share_percent),
        rate.link,
        table.text(WIDTH)
    );
    let mut note = |name: &str, words: &str| {
        let wrapped = wrap(words, WIDTH, "            ");
        text += &format!(" {name:<11}{}", wrapped.trim_start());
    };
    if mix.single_size().is_none() {
        note("frames", &sizes_words(mix));
    }
    if let Some(estimate) = &said.imix_estimate {
        note("estimate", &estimate_words(estimate));
    }
    for warning in &said.warnings {
        note("warning", warning);
    }
    text
}

/// Names the frames: `64-byte frames`, `imix`.
fn frames_words(mix: &Mix) -> String {
    match mix.single_size() {
        Some(bytes) => format!("{bytes}-byte frames"),
        None => mix.name().to_owned(),
    }
}

/// Returns the shares of the sizes, and the pattern if the mix is a named one.
fn sizes_words(mix: &Mix) -> String {
    let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
    for part in mix.parts() {
        *sizes.entry(part.size_bytes).or_default() += part.weight;
    }
    let all: u64 = sizes.values().sum();
    let shares: Vec<String> = (sizes.iter())
        .map(|(bytes, &weight)| {
            format!(
                "{} of {bytes} bytes",
                share(100.0 * weight as f64 / all as f64)
            )
        })
        .collect();
    let named = NAMED.iter().any(|named| named.name == mix.name());
    let pattern = match mix.genome() {
        Some(genome) if named => format!("; as a genome {genome}"),
        _ => String::new(),
    };
    format!("{}{pattern}", shares.join(", "))
}

fn estimate_words(estimate: &Estimate) -> String {
    let limit = if estimate.line_limited {
        format!("line rate, {}", frames_per_second(estimate.rate_pps))
    } else {
        format!(
            "the same number of frames. (The formulas of talks, without padding, FCS and gap, give {} L3, {} L2)",
            number::bits_per_second(estimate.talk_l3_bps),
            number::bits_per_second(estimate.talk_l2_without_fcs_bps)
        )
    };
    format!(
        "not measured, assuming that a frame costs the same whatever its size: a simple IMIX would get {} L2, {limit}",
        number::bits_per_second(estimate.l2_bps),
    )
}

fn line_rate(mix: &Mix, link: LinkSpeed) -> LineRate {
    LineRate {
        link_bps: link.bps(),
        frames: frames(mix),
        line_rate_pps: link.line_rate_whole(mix.mean(), Directions::One),
    }
}

fn line_rate_text(mixes: &[Mix], links: &[LinkSpeed]) -> String {
    let mut columns = vec![Column::right("size", &[])];
    columns.extend(
        links
            .iter()
            .map(|link| Column::right(&link.to_string(), &[])),
    );
    let mut table = Table::new(columns);
    for mix in mixes {
        let name = mix
            .single_size()
            .map_or(mix.name().to_owned(), |bytes| bytes.to_string());
        let mut cells = vec![Cell::text(name)];
        for &link in links {
            let pps = link.line_rate_whole(mix.mean(), Directions::One);
            cells.push(Cell::text(number::count(pps)));
        }
        table.push(Mark::None, cells);
    }
    let mut text = "Line rate, frames per second in one direction\n".to_owned();
    text += &table.text(WIDTH);
    let buffers: Vec<String> = (mixes.iter())
        .filter_map(|mix| frames(mix).buffer_bytes)
        .map(|bytes| bytes.to_string())
        .collect();
    let mut note =
        "link / ((size + 20) * 8), rounded down; sizes in bytes including the FCS".to_owned();
    if !buffers.is_empty() {
        note += &format!(". pkt-gen's -l is 4 less: {}", buffers.join(", "));
    }
    text += &wrap(&note, WIDTH, " ");
    for padded in mixes.iter().flat_map(Mix::padded) {
        text += &wrap(&format!("warning: {padded}"), WIDTH, " ");
    }
    text
}

fn mix_row((named, mix): &(&NamedMix, Mix)) -> MixRow {
    MixRow {
        mix: named.name,
        source: named.source,
        parts: (mix.parts().iter())
            .map(|&Part { size_bytes, weight }| PartRow { size_bytes, weight })
            .collect(),
        mean_size_bytes: mix.mean().bytes(),
        mean_l3_bytes: mix.mean().l3_bytes(),
        genome: mix.genome().map(|genome| genome.to_string()),
        warnings: mix.padded().iter().map(ToString::to_string).collect(),
    }
}

fn mixes_text(named: &[(&NamedMix, Mix)], link: LinkSpeed) -> String {
    let is_padded = |mix: &Mix| !mix.padded().is_empty();
    let parts = |(named, mix): &(&NamedMix, Mix)| {
        let parts = named.parts.iter();
        let parts: Vec<String> = parts
            .map(|(bytes, weight)| format!("{bytes}:{weight}"))
            .collect();
        format!(
            "{}{}",
            parts.join(" "),
            if is_padded(mix) { " *" } else { "" }
        )
    };
    let rate = |mix: &Mix| number::count(link.line_rate_whole(mix.mean(), Directions::One));
    let table = table! {
        one in named;
        left("mix", "mix") => Cell::text(one.0.name),
        left("bytes : weight", "parts") => Cell::text(parts(one)),
        right("mean", "mean") => Cell::text(format!("{:.4}", one.1.mean().bytes())),
        right(link.to_string(), "rate") => Cell::text(rate(&one.1)),
    };
    let mut text = format!(
        "Mixes, for --size: bytes including the FCS, line rate of {link} in one direction\n{}",
        table.text(WIDTH)
    );
    if named.iter().any(|(_, mix)| is_padded(mix)) {
        text += &wrap("* sizes below 64 bytes are padded to 64", WIDTH, " ");
    }
    text
}

fn router_row(router: &MinimumRouter) -> RouterRow {
    RouterRow {
        link_bps: router.link.bps(),
        smallest_pps: router.smallest_pps,
        smallest_both_ways_pps: router.smallest_both_ways_pps,
        imix_pps: router.imix_pps,
        imix_both_ways_pps: router.imix_both_ways_pps,
        imix_talk_pps: router.imix_talk_pps,
        imix_talk_both_ways_pps: router.imix_talk_both_ways_pps,
    }
}

fn routers_text(routers: &[MinimumRouter]) -> String {
    let heads = [
        "64 B",
        "both ways",
        "imix",
        "both ways",
        "imix, talks",
        "both ways",
    ];
    let mut columns = vec![Column::left("link", &[])];
    columns.extend(heads.map(|head| Column::right(head, &[])));
    let mut table = Table::new(columns);
    for router in routers {
        let rates = [
            router.smallest_pps,
            router.smallest_both_ways_pps,
            router.imix_pps,
            router.imix_both_ways_pps,
            router.imix_talk_pps,
            router.imix_talk_both_ways_pps,
        ];
        let mut cells = vec![Cell::text(router.link.to_string())];
        cells.extend(rates.map(|pps| Cell::text(number::count(pps))));
        table.push(Mark::None, cells);
    }
    let note = "Talks count the IMIX without padding, FCS and gap (354.33 bytes per frame), which gives more than the line \
        carries. They round: 1G 1.48 M, 3 M, 350 K, 700 K; 10G 14.8 M, 30 M, 3.5 M, 7 M.";
    format!(
        "Minimum router: frames per second it must forward to fill its link\n{}{}",
        table.text(WIDTH),
        wrap(note, WIDTH, " ")
    )
}

/// Formats a figure in whole units, rounded down as is usual; small figures keep some decimals.
fn rounded_down(value: f64) -> String {
    // correct floating-point errors in the last digits of whole numbers
    let value = (value * 1e6).round() / 1e6;
    if value >= 1000.0 {
        number::count(value.floor() as u64)
    } else {
        figure(value)
    }
}

fn frames_per_second(pps: f64) -> String {
    format!("{} pps", rounded_down(pps))
}

/// Formats a figure with four digits, or all before the point if there are more, without trailing
/// zeros.
fn figure(value: f64) -> String {
    let digits = 3 - value.abs().log10().floor().clamp(-9.0, 3.0) as i32;
    let text = format!("{value:.*}", digits.max(0) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Formats a share in percent: `33.67 %`, `99.994 %`.
fn share(percent: f64) -> String {
    // floating-point errors in the last digits must not make 100 % less
    let percent = (percent * 1e9).round() / 1e9;
    if (99.9..=100.0).contains(&percent) {
        number::percent(percent)
    } else {
        format!("{} %", figure(percent))
    }
}

/// Formats bytes, with two decimals if they are a mean.
fn bytes(value: f64) -> String {
    let text = format!("{value:.2}");
    format!("{} bytes", text.strip_suffix(".00").unwrap_or(&text))
}

fn time(ns: f64) -> String {
    scaled(ns, &[("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)])
}

fn hertz(hz: f64) -> String {
    scaled(hz, &[("Hz", 1.0), ("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9)])
}

fn joules(j: f64) -> String {
    scaled(
        j,
        &[
            ("pJ", 1e-12),
            ("nJ", 1e-9),
            ("µJ", 1e-6),
            ("mJ", 1e-3),
            ("J", 1.0),
        ],
    )
}

/// Formats a value in the largest of these units that it reaches.
fn scaled(value: f64, units: &[(&str, f64)]) -> String {
    let reached = units
        .iter()
        .rev()
        .find(|(_, size)| value >= *size * 0.99995);
    let (unit, size) = reached.unwrap_or(&units[0]);
    format!("{} {unit}", figure(value / size))
}

/// Splits a figure from its unit, for two columns.
fn split_unit(text: &str) -> (String, String) {
    let (value, unit) = text.split_once(' ').unwrap_or((text, ""));
    (value.to_owned(), unit.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        for (value, text) in [
            (67.2, "67.2"),
            (1.258_278, "1.258"),
            (437.9, "437.9"),
            (12.0, "12"),
            (100.0, "100"),
            (12_345.6, "12346"),
            (0.001_234_5, "0.001234"),
        ] {
            assert_eq!(figure(value), text);
        }
        assert_eq!(rounded_down(14_880_952.38), "14,880,952");
        assert_eq!(rounded_down(9_999_999.999_999_9), "10,000,000");
        assert_eq!(rounded_down(0.5), "0.5");
        assert_eq!(time(67.2), "67.2 ns");
        assert_eq!(time(2e9), "2 s");
        assert_eq!(joules(1.258e-6), "1.258 µJ");
        assert_eq!(hertz(2.195_7e9), "2.196 GHz");
        assert_eq!(hertz(999_999_999.0), "1 GHz");
        assert_eq!(share(4.321), "4.321 %");
        assert_eq!(share(99.993_6), "99.994 %");
        assert_eq!(share(100.0), "100 %");
        assert_eq!(share(99.999_999_999_999), "100 %");
        assert_eq!(share(123.4), "123.4 %");
    }
}
