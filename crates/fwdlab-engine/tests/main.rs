//! What the engine does seen from outside: on beds of our own where it sends, on values where it does not.
//!
//! One program for all of them: it is linked once.

#[path = "veth/bed.rs"]
mod bed;
mod expect;
mod fuzz;
mod histogram;
mod live;
mod player;
mod profiles;
mod receive;
mod schedule;
mod stamps;
mod streams;
mod veth;
