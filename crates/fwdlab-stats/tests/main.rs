//! Statistics compared with ministat, both Debian's program and published output; and the fuzz
//! target on its corpus.
//!
//! They are one program, so that it is linked only once.

mod fuzz;
mod generated;
mod ministat_debian;
mod ministat_published;
