//! Writes the elements of pages: the document, sections, lists, tables.
//!
//! It does not know results. Start with [`document`] and [`section`].

use std::fmt::Write as _;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::glossary;
use crate::markup::{Attributes, Markup};
use crate::number::count;
use crate::table::{Align, Column, Mark, Row, Table, capital};

/// The style of all pages.
pub const STYLE: &str = include_str!("style.css");
/// Shows one page of a long table at a time; compiled from `web/src/report.ts`.
const SCRIPT: &str = include_str!("report.js");
/// Rows of a table that a page shows at a time.
const ROWS: usize = 500;
/// Between two pages of rows; text on a page has no control characters.
const BREAK: char = '\u{c}';
/// Tables with more columns have a smaller font.
const MANY_COLUMNS: usize = 10;

/// Renders a self-contained page.
pub(super) fn document(title: &str, body: impl FnOnce(&mut Markup)) -> String {
    let mut m = Markup::default();
    m.trusted("<!DOCTYPE html>\n");
    m.within("html", &[("lang", "en")], |m| {
        m.within("head", &[], |m| {
            m.void("meta", &[("charset", "utf-8")]);
            m.void(
                "meta",
                &[
                    ("name", "viewport"),
                    ("content", "width=device-width, initial-scale=1"),
                ],
            );
            m.void(
                "meta",
                &[("name", "color-scheme"), ("content", "light dark")],
            );
            m.leaf("title", &[], title);
            m.within("style", &[], |m| m.trusted(STYLE));
        });
        m.within("body", &[], |m| m.within("main", &[], body));
    });
    m.trusted("\n");
    m.finish()
}

/// Writes content that opens with a click on its heading or a key; on paper it is always open.
pub(super) fn folded(
    m: &mut Markup,
    open: bool,
    head: impl FnOnce(&mut Markup),
    body: impl FnOnce(&mut Markup),
) {
    let open: &[(&str, &str)] = if open { &[("open", "")] } else { &[] };
    m.within("details", open, |m| {
        m.within("summary", &[], head);
        body(m);
    });
}

pub(super) fn section(m: &mut Markup, title: &str, body: impl FnOnce(&mut Markup)) {
    m.within("section", &[], |m| {
        m.leaf("h2", &[], title);
        body(m);
    });
}

/// Writes a section of evidence, which most readers do not need: one line with its title and what
/// it has, until it is opened.
pub(super) fn details(
    m: &mut Markup,
    title: &str,
    gist: &str,
    open: bool,
    body: impl FnOnce(&mut Markup),
) {
    let head = |m: &mut Markup| {
        m.leaf("h2", &[], title);
        if !gist.is_empty() {
            m.leaf("span", SMALL, gist);
        }
    };
    m.within("section", &[], |m| folded(m, open, head, body));
}

/// Writes a list of warnings, if there are any.
pub(super) fn listed(m: &mut Markup, title: &str, sentences: &[String]) {
    if sentences.is_empty() {
        return;
    }
    m.within("div", &[("class", "warnings")], |m| {
        m.leaf("strong", &[], title);
        m.within("ul", &[], |m| {
            for sentence in sentences {
                m.leaf("li", &[], sentence);
            }
        });
    });
}

/// Keeps the numbers of a headline on one line with their units.
pub(super) fn unbroken(text: &str) -> String {
    let mut text = text.replace("-byte", "\u{2011}byte");
    for (apart, together) in [(" \u{b1} ", "\u{a0}\u{b1}\u{a0}"), (" %", "\u{a0}%")] {
        text = text.replace(apart, together);
    }
    for unit in ["pps", "kpps", "Mpps", "Gpps"] {
        text = text.replace(&format!(" {unit} "), &format!("\u{a0}{unit} "));
    }
    text
}

/// Formats a sentence of the terminal as a paragraph.
pub(super) fn note(words: &str) -> String {
    format!("{}.", capital(words))
}

/// The attributes of a paragraph in small print.
pub(super) const SMALL: Attributes<'_> = &[("class", "note")];

/// Writes sentences of the terminal as paragraphs.
pub(super) fn notes(
    m: &mut Markup,
    attributes: Attributes<'_>,
    sentences: impl IntoIterator<Item = String>,
) {
    for sentence in sentences {
        m.leaf("p", attributes, &note(&sentence));
    }
}

/// Writes a list of lines.
pub(super) fn keys(m: &mut Markup, lines: impl IntoIterator<Item = String>) {
    m.within("ul", &[("class", "keys")], |m| {
        for line in lines {
            m.leaf("li", &[], &line);
        }
    });
}

/// Embeds a graph that has its own scripts, isolated from the page.
pub(super) fn framed(m: &mut Markup, title: &str, svg: &str) {
    let height = svg
        .split_once(" height=\"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .and_then(|(height, _)| height.parse::<u32>().ok())
        .unwrap_or(600);
    let source = format!("data:image/svg+xml,{}", percent_encoded(svg));
    let height = format!("--height: {}px", height + 8);
    m.within(
        "iframe",
        &[
            ("title", title),
            ("style", &height),
            ("class", "flame"),
            ("src", &source),
        ],
        |_| {},
    );
}

/// Encodes text for a URL (RFC 3986).
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            b' ' | b'(' | b')' | b'=' | b':' | b';' | b',' | b'/' => encoded.push(char::from(byte)),
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

/// Returns the anchor name of a test case.
pub(super) fn case_place(case: usize) -> String {
    format!("case-{}", case + 1)
}

/// Writes a table; headings that the glossary explains have tooltips.
pub(super) fn table(m: &mut Markup, table: &Table) {
    table_of(m, table, &table.rows);
}

/// Writes a table with as many rows as there are. If they are more than [`ROWS`], a reader without
/// scripts sees the first ones, and reads `otherwise` about the rest.
pub(super) fn paged(m: &mut Markup, table: &Table, otherwise: &str) {
    let pages: Vec<&[Row]> = table.rows.chunks(ROWS).collect();
    table_of(m, table, pages.first().copied().unwrap_or_default());
    if pages.len() < 2 {
        return;
    }
    let number = pages.len().to_string();
    m.within(
        "div",
        &[("class", "pages note"), ("data-pages", &number)],
        |m| {
            m.text(&format!(
                "The first {ROWS} of {}. {otherwise}",
                count(table.rows.len() as u64)
            ));
            m.within("script", &[("type", "text/plain")], |m| {
                m.text(&compressed(table, &pages))
            });
        },
    );
    m.within("script", &[], |m| m.trusted(SCRIPT));
}

/// Returns all pages of rows, compressed, in letters that need no escapes.
fn compressed(table: &Table, pages: &[&[Row]]) -> String {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    for (n, page) in pages.iter().enumerate() {
        let mut m = Markup::default();
        page.iter().for_each(|row| write_row(&mut m, table, row));
        let between = if n > 0 {
            String::from(BREAK)
        } else {
            String::new()
        };
        // a vector takes everything
        let _ = encoder.write_all((between + &m.finish()).as_bytes());
    }
    STANDARD.encode(encoder.finish().unwrap_or_default())
}

/// The columns of the table, and those whose text has a line of its own.
fn columns(table: &Table) -> (Vec<usize>, Vec<usize>) {
    (0..table.columns.len()).partition(|&index| !table.columns[index].below)
}

fn class(column: &Column) -> &'static str {
    match column.align {
        _ if column.prose => "words",
        Align::Left => "",
        Align::Right | Align::PlusMinus => "number",
    }
}

fn write_row(m: &mut Markup, table: &Table, row: &Row) {
    let (beside, below) = columns(table);
    let mark = match row.mark {
        Mark::None => "",
        Mark::Control => "control",
        Mark::Invalid => "invalid",
    };
    let id = row.case_index.map(|case| m.place(&case_place(case)));
    let mut attributes = vec![("class", mark)];
    attributes.extend(id.as_deref().map(|id| ("id", id)));
    m.within("tr", &attributes, |m| {
        for &index in &beside {
            let class = [("class", class(&table.columns[index]))];
            m.leaf("td", &class, &row.cells[index].text);
        }
    });
    let span = beside.len().to_string();
    for text in below.iter().map(|&index| &row.cells[index].text) {
        if !text.is_empty() {
            m.within("tr", &[("class", mark)], |m| {
                m.leaf("td", &[("class", "below"), ("colspan", &span)], text);
            });
        }
    }
}

fn table_of(m: &mut Markup, table: &Table, rows: &[Row]) {
    let (beside, _) = columns(table);
    let dense = if beside.len() > MANY_COLUMNS {
        "dense"
    } else {
        ""
    };
    // a scrollable element needs keyboard focus and a label for screen readers
    let heads = beside.iter().map(|&index| &table.columns[index].head[..]);
    let heads = heads.filter(|head| !head.is_empty());
    let label = format!("Table: {}", Vec::from_iter(heads).join(", "));
    let reached = [
        ("class", "scroll"),
        ("tabindex", "0"),
        ("role", "group"),
        ("aria-label", &label[..]),
    ];
    m.within("div", &reached, |m| {
        m.within("table", &[("class", dense)], |m| {
            m.within("thead", &[], |m| {
                m.within("tr", &[], |m| {
                    for column in beside.iter().map(|&index| &table.columns[index]) {
                        if column.head.is_empty() {
                            // an empty cell is not a heading
                            m.leaf("td", &[], "");
                            continue;
                        }
                        m.within("th", &[("scope", "col"), ("class", class(column))], |m| {
                            match glossary::meaning(&column.head) {
                                Some(meaning) => {
                                    m.leaf("abbr", &[("title", meaning)], &column.head)
                                }
                                None => m.text(&column.head),
                            }
                        });
                    }
                });
            });
            m.within("tbody", &[], |m| {
                rows.iter().for_each(|row| write_row(m, table, row));
            });
        });
    });
}
