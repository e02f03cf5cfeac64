//! The import and the audit of whole archives, and the fuzz target over its corpus.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod fuzz;
mod importing;
