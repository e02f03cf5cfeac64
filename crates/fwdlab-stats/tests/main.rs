//! Statistics against ministat, as Debian has it and as it was published; and the fuzz target over its corpus.
//!
//! One program for all of them: it is linked once.

mod fuzz;
mod generated;
mod ministat_debian;
mod ministat_published;
