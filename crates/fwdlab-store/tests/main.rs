//! The store from outside, and the fuzz target over its corpus.
//!
//! One program for all of them: it is linked once.

mod fuzz;
mod hdr;
mod store;
