//! Renders the result of a run for people: terminal text, one HTML page, Markdown, CSV.
//!
//! It takes values and returns strings; it does not print, read stores or compute results. A report
//! is a value, its headline and its sections (`Report::of` in `report.rs`); all formats show the
//! same tables ([`table`]) and the same sentences. The modules use each other in one direction; the
//! layers are in `ARCHITECTURE.md`. Start with [`text::quick`].

#![forbid(unsafe_code)]

mod answer;
pub mod benchmark;
pub mod bisect;
pub mod campaign;
pub mod chart;
pub mod charts;
pub mod compare;
pub mod csv;
mod efficiency;
mod exact;
pub mod executive;
mod fates;
mod firewall;
pub mod flame;
pub mod github;
mod glossary;
mod grid;
mod headline;
pub mod html;
mod imported;
pub mod junit;
mod link;
pub mod listing;
pub mod loadtest;
pub mod markdown;
mod markup;
pub mod ministat;
mod name;
pub mod number;
mod procedures;
pub mod prometheus;
pub mod rate;
mod report;
pub mod rows;
pub mod run;
mod screen;
mod search;
mod section;
mod sentence;
mod shape;
mod state;
pub mod table;
mod telemetry;
pub mod text;
pub mod thresholds;
mod tips;
mod trials;
pub mod trust;
mod windows;
mod words;
