//! Reads archives of other people's measurements into stored runs, and says whether what they publish follows from them.
//!
//! Each archive has its own folder: parsers that are functions of bytes, and one function that does the whole. Nothing is
//! lost silently: what is not understood is counted and named. Start with [`netbenches`]; TRex load tests are in [`loadtest`].

pub mod loadtest;
pub mod netbenches;
mod parallel;
