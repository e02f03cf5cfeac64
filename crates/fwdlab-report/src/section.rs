//! The parts of a report between its headline and its end, as values: tables and sentences.
//!
//! Each kind of result lists its sections once; `text` and `markdown` print them without knowing
//! what was measured. Start with [`Section`].

use std::fmt;

use crate::table::Table;

/// The kind of output that the sections are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// A terminal: few columns, the most important rows.
    Terminal,
    /// A document that may be longer.
    Document,
}

/// What a line means for the result, which determines its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// No judgement.
    Plain,
    /// It is as it should be.
    Ok,
    /// It is in doubt, or incomplete.
    Warn,
    /// It failed.
    Fail,
}

/// The name of a kind of sentence, and what such a sentence means for the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    word: &'static str,
    pub level: Level,
}

pub(crate) const FAILED: Name = Name::new("failed", Level::Fail);
pub(crate) const DOUBT: Name = Name::new("doubt", Level::Warn);
pub(crate) const TO_DO: Name = Name::new("to do", Level::Warn);
pub(crate) const WARNING: Name = Name::new("warning", Level::Warn);

impl Name {
    const fn new(word: &'static str, level: Level) -> Name {
        Name { word, level }
    }
}

impl From<&'static str> for Name {
    fn from(word: &'static str) -> Name {
        Name::new(word, Level::Plain)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word)
    }
}

/// A sentence with the name of its kind: `noise`, `warning`.
pub(crate) type Named = (Name, String);

/// A part of a report.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Section {
    /// Tables under one title.
    Tables {
        /// Empty if the headline says what they show.
        title: String,
        /// The unit of all figures; empty if each figure has its own.
        unit: &'static str,
        /// The tables.
        tables: Vec<Table>,
    },
    /// The tables of one procedure and series.
    Procedure {
        /// The procedure and the series.
        title: String,
        /// The tables.
        tables: Vec<Titled>,
    },
    /// Where frames were lost.
    Losses(Vec<Losses>),
    /// Why the headline is in doubt.
    Doubt(Vec<Named>),
    /// Sentences in their order.
    Sentences(Vec<Named>),
}

/// A table with its own title.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Titled {
    /// Empty for the first table of a procedure.
    pub title: String,
    /// The table.
    pub table: Table,
}

/// Where frames of one test case were lost.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Losses {
    /// The test case, and how many frames were lost.
    pub title: String,
    /// A row per place: share, frames, place, counter.
    pub table: Table,
    /// Frames that the generator did not send, if any.
    pub not_sent: Option<String>,
}

impl Section {
    /// One table.
    pub fn table(title: impl Into<String>, table: Table) -> Section {
        Section::Tables {
            title: title.into(),
            unit: "",
            tables: vec![table],
        }
    }
}

/// The same name for each sentence.
pub(crate) fn named(
    name: impl Into<Name>,
    sentences: impl IntoIterator<Item = String>,
) -> impl Iterator<Item = Named> {
    let name = name.into();
    sentences.into_iter().map(move |sentence| (name, sentence))
}
