//! Renders the result of a run for people: terminal text, one HTML page, Markdown, CSV.
//!
//! It is given values and returns strings; it prints nothing, reads no store and computes no result of its own. Every
//! format shows the same tables ([`table`]) and the same sentences. Start with [`text::quick`].

#![forbid(unsafe_code)]

pub mod bisect;
pub mod campaign;
pub mod chart;
pub mod compare;
mod content;
pub mod csv;
mod efficiency;
mod exact;
pub mod flame;
mod glossary;
pub mod html;
mod imported;
mod lines;
pub mod listing;
pub mod markdown;
mod markup;
pub mod number;
mod procedures;
pub mod rate;
mod search;
mod state;
pub mod table;
mod telemetry;
pub mod text;
pub mod thresholds;
mod words;
