//! Imports archives of other people's measurements as runs, and checks whether their published
//! figures follow from their data.
//!
//! Each archive has its own folder: parsers that are functions of bytes, and one function that does
//! the whole import. Nothing is lost silently: unknown content is counted and listed. Start with
//! [`netbenches`]; TRex load tests are in [`loadtest`].

pub mod loadtest;
pub mod netbenches;
mod parallel;
