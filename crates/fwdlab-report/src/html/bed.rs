//! Draws the test bed: hosts, their ports, the links between them, and known addresses.
//!
//! It uses only the recorded facts of a run. Start with [`test_bed`].

use fwdlab_model::result::RunInfo;

use crate::link;
use crate::markup::Markup;
use crate::number::plural;
use crate::table::{shorten, wrap};

/// Sizes of the picture and its parts, in pixels.
const WIDTH: f64 = 1000.0;
const HOST: (f64, f64) = (250.0, 136.0);
const PORT: (f64, f64) = (64.0, 24.0);
const TOP: f64 = 26.0;
/// Length of a line in a host, and of a link's name, in characters.
const LINE: usize = 27;
const LINK: usize = 16;

/// A host and the lines of text in it.
struct Drawn {
    name: &'static str,
    lines: Vec<String>,
    /// Ports at its left and right side.
    ports: [Option<&'static str>; 2],
}

/// Draws the picture.
pub(super) fn test_bed(m: &mut Markup, info: &RunInfo) {
    let facts = &info.facts;
    let driver = facts.driver.as_deref().unwrap_or("link");
    let speed = link::link_speed(info).map(link::words);
    let link = facts.link.as_deref().unwrap_or(driver);
    let short = speed.as_deref().unwrap_or(driver);
    let value = |name: &str| info.parameters.get(name);
    let parameter = |name: &str| value(name).and_then(|value| value.as_str()).unwrap_or("");
    let images: Vec<&str> = match parameter("procedure") {
        "exact" => facts.images().collect(),
        _ => Vec::new(),
    };
    // a guest has one CPU, and this host's are not those of its generator and DUT
    let placed = |what: &str| match facts.placement.get(what) {
        Some(words) if images.is_empty() => words.as_str(),
        _ => "",
    };
    // `engine` is a name and a reason: show only the name
    let engine = facts
        .engine
        .split([':', ',', ';', '('])
        .next()
        .unwrap_or_default()
        .trim_end();
    let dut = match (&images[..], facts.kernel.as_str()) {
        _ if facts.is_simulated() => "simulated".to_owned(),
        ([], "") => String::new(),
        ([], _) => facts.release(),
        ([image], _) => (*image).to_owned(),
        (several, _) => plural(several.len(), "image"),
    };
    let hosts = [
        Drawn {
            name: "generator",
            lines: vec![
                engine.into(),
                placed("generator").into(),
                parameter("source").into(),
            ],
            ports: [None, Some("tx0")],
        },
        Drawn {
            name: "DUT",
            lines: vec![
                dut,
                placed("dut").into(),
                placed("vpp").into(),
                parameter("bed").into(),
            ],
            ports: [Some("in"), Some("out")],
        },
        Drawn {
            name: "receiver",
            lines: vec![placed("receiver").into(), parameter("destination").into()],
            ports: [Some("rx0"), None],
        },
    ];
    let gap = (WIDTH - 3.0 * HOST.0) / 2.0;
    let height = TOP + HOST.1 + 12.0;
    let view = format!("0 0 {WIDTH} {height}");
    let spoken = format!("Test bed: generator, {link}, DUT, {link}, receiver.");
    let attributes = [
        ("class", "bed"),
        ("viewBox", view.as_str()),
        ("role", "img"),
        ("aria-label", &spoken),
    ];
    // a scrollable element needs keyboard focus and a label for screen readers
    let reached = [
        ("class", "scroll"),
        ("tabindex", "0"),
        ("role", "group"),
        ("aria-label", "Test bed"),
    ];
    let drawn = |m: &mut Markup| {
        for n in 0..2 {
            let x = HOST.0 + f64::from(n) * (HOST.0 + gap) + PORT.0 / 2.0;
            let wide = gap - PORT.0;
            let y = TOP + HOST.1 / 2.0;
            rect(m, "wire", (x, y - 3.0), (wide, 6.0));
            text(
                m,
                "middle",
                (x + wide / 2.0, y - 12.0),
                &shorten(short, LINK),
                link,
            );
            let both = value("both_directions").and_then(|value| value.as_bool());
            let direction = if both == Some(true) {
                "\u{2194}"
            } else {
                "\u{2192}"
            };
            text(m, "middle", (x + wide / 2.0, y + 22.0), direction, "");
        }
        for (n, host) in (0..).zip(&hosts) {
            draw(m, host, f64::from(n) * (HOST.0 + gap));
        }
    };
    m.within("div", &reached, |m| m.within("svg", &attributes, drawn));
}

fn draw(m: &mut Markup, host: &Drawn, x: f64) {
    rect(m, "host", (x + 1.0, TOP), (HOST.0 - 2.0, HOST.1));
    let middle = x + HOST.0 / 2.0;
    text(m, "middle name", (middle, TOP + 24.0), host.name, "");
    let lines = host.lines.iter().filter(|line| !line.is_empty());
    let lines = lines.flat_map(|line| {
        let broken = wrap(&shorten(line, 2 * LINE), LINE, "");
        broken
            .lines()
            .map(|part| (part.to_owned(), line.clone()))
            .collect::<Vec<_>>()
    });
    let mut y = TOP + 44.0;
    for (part, whole) in lines.take(5) {
        text(m, "middle", (middle, y), &part, &whole);
        y += 16.0;
    }
    let y = TOP + HOST.1 / 2.0;
    for (port, at) in host.ports.iter().zip([x, x + HOST.0]) {
        if let Some(port) = port {
            rect(m, "port", (at - PORT.0 / 2.0, y - PORT.1 / 2.0), PORT);
            text(m, "middle", (at, y + 4.0), port, "");
        }
    }
}

fn rect(m: &mut Markup, class: &str, (x, y): (f64, f64), (wide, tall): (f64, f64)) {
    let [x, y, wide, tall] = [x, y, wide, tall].map(|value| format!("{value}"));
    let round = if class == "wire" { "0" } else { "6" };
    m.shape(
        "rect",
        &[
            ("class", class),
            ("x", &x),
            ("y", &y),
            ("width", &wide),
            ("height", &tall),
            ("rx", round),
        ],
    );
}

fn text(m: &mut Markup, class: &str, (x, y): (f64, f64), words: &str, whole: &str) {
    let [x, y] = [x, y].map(|value| format!("{value}"));
    m.within("text", &[("class", class), ("x", &x), ("y", &y)], |m| {
        if whole != words && !whole.is_empty() {
            m.leaf("title", &[], whole);
        }
        m.text(words);
    });
}
