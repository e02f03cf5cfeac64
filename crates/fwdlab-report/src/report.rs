//! Builds a report, the headline and the sections of a run, as a value.
//!
//! Only this module chooses them by the kind of result. Start with [`Report::from_summary`].

use fwdlab_model::result::{RunInfo, Summary};

use crate::headline::{self, Headline};
use crate::imported::KIND;
use crate::section::{Format, Section};
use crate::shape::Shape;
use crate::{campaign, imported, procedures, windows};

/// The content that a format prints for a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Report {
    /// The headline.
    pub headline: Headline,
    /// The sections, in reading order.
    pub sections: Vec<Section>,
}

impl Report {
    /// Builds the report of a run.
    pub fn from_summary(info: &RunInfo, summary: &Summary, format: Format) -> Report {
        let sections = match Shape::from_summary(summary) {
            _ if info.kind == KIND => imported::sections(summary, format),
            Shape::Campaign => campaign::sections(info, summary, format),
            Shape::Procedures => procedures::sections(info, summary, format),
            Shape::Windows | Shape::Slices => windows::sections(info, summary, format),
        };
        Report {
            headline: headline::from_summary(info, summary),
            sections,
        }
    }
}
