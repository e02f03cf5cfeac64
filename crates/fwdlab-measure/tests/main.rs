//! Procedures against the reference, and testers that lie.
//!
//! One program for all of them: it is linked once.

mod mlrsearch;
mod tester;
