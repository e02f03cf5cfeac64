//! The methods of counting: each file measures one turn of a run on one test bed, and does not know
//! the others.
//!
//! [`whole_trials`]: trials that count as a whole, for every procedure that is a search or a list of
//! loads. [`windows`]: the quiet windows of long trials. [`slices`]: DUTs that take turns within a
//! trial, in a [`row`]. [`bursts`]: instructions in guests. [`super::conduct`] decides the order of
//! the turns.

pub(super) mod bursts;
mod row;
pub(super) mod slices;
pub(super) mod whole_trials;
pub(super) mod windows;
