//! The ways of counting: one file for each answers one turn of a run on one test bed, and knows nothing of the others.
//!
//! [`whole`]: trials that count as a whole, for every procedure that is a search or a list of loads. [`windows`]: the quiet windows of long
//! trials. [`slices`]: DUTs that take turns within a trial, in a [`row`]. [`bursts`]: instructions in guests. The turns themselves are taken by
//! [`super::conduct`].

pub(super) mod bursts;
mod row;
pub(super) mod slices;
pub(super) mod whole;
pub(super) mod windows;

pub(super) use row::CONTROLS;
