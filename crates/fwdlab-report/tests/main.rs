//! What people and programs read of a run, in every format.
//!
//! One program for all of them: it is linked once.

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
