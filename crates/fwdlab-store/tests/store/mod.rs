//! Tests of the store from outside: write, kill, damage, fill the disk, find, remove.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod archives;
mod crash;
mod damage;
mod faults;
mod finding;
mod following;
mod labels;
mod removing;
mod round_trip;
mod samples;
mod series;
mod version_1;
mod version_2;
mod writing;
