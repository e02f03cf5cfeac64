//! Tests of the engine from outside: senders on test beds, everything else on values.
//!
//! They are one program, so that it is linked only once.

#[path = "veth/bed.rs"]
mod bed;
mod expect;
mod fuzz;
mod histogram;
mod live;
mod memif;
mod player;
mod profiles;
mod receive;
mod schedule;
mod stamps;
mod streams;
mod veth;
