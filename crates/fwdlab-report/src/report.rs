//! A report as a value: the headline and the sections of a run.
//!
//! This is the only place that chooses them by the kind of result. Start with [`Report::of`].

use fwdlab_model::result::{RunInfo, Summary};

use crate::headline::{self, Headline};
use crate::imported::KIND;
use crate::section::{Format, Section};
use crate::shape::Shape;
use crate::{campaign, imported, procedures, windows};

/// What a format prints of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Report {
    /// The answer.
    pub headline: Headline,
    /// What follows, in the order of reading.
    pub sections: Vec<Section>,
}

impl Report {
    /// The report of a run.
    pub fn of(info: &RunInfo, summary: &Summary, format: Format) -> Report {
        let sections = match Shape::of(summary) {
            _ if info.kind == KIND => imported::sections(summary, format),
            Shape::Campaign => campaign::sections(info, summary, format),
            Shape::Procedures => procedures::sections(info, summary, format),
            Shape::Windows | Shape::Slices => windows::sections(info, summary, format),
        };
        Report {
            headline: headline::of(info, summary),
            sections,
        }
    }
}
