//! Tests of the import and the audit of whole archives, and of the fuzz target on its corpus.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod fuzz;
mod importing;
