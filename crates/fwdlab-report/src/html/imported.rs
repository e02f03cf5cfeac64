//! Renders the page of an imported set: the chart first, then its table, the traffic, and its
//! source.
//!
//! Its sentences and tables are those of [`crate::imported`]. Start with [`body`].

use fwdlab_model::result::{RunInfo, Summary};

use super::{ShownFacts, listed, section, table};
use crate::chart::html;
use crate::charts;
use crate::imported::{METHOD, cases, headline, traffic, warnings};
use crate::markup::Markup;
use crate::number::time;

/// Writes the page.
pub(super) fn body(m: &mut Markup, info: &RunInfo, summary: &Summary, shown: ShownFacts) {
    m.within("header", &[], |m| {
        let origin = format!("fwdlab {}, imported {}", info.id, time(&info.started_at));
        m.leaf("p", &[("class", "origin")], &origin);
        m.leaf("h1", &[("class", "long")], &headline(info, summary));
        listed(m, "Notes", &warnings(summary));
    });
    section(m, "Forwarding rate", |m| {
        m.within("figure", &[], |m| {
            html::draw(m, &charts::imported::imported(summary));
            table(m, &cases(summary));
        });
        m.leaf("p", &[], METHOD);
    });
    section(m, "Traffic", |m| table(m, &traffic(summary)));
    section(m, "Source", |m| {
        m.within("ul", &[], |m| {
            for (key, value) in &info.parameters {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                m.leaf("li", &[], &format!("{key}: {}", shown.word(&text)));
            }
        });
    });
}
