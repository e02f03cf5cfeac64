//! Tests of a run's output in every format.
//!
//! One test program, so that it is linked only once.

mod catalogue;
mod common;
mod compare;
mod formats;
mod fuzz;
mod html;
mod imported;
mod report;
mod text;
mod thresholds;
