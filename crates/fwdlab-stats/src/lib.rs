//! Numbers from repeated measurements: samples, intervals, comparisons people can trust.
//!
//! A leaf: no I/O, no clock, no terminal, none of our other crates; randomness has a seed the caller
//! gives. Values carry the caller's unit, percentages say so in their name. Start at [`Sample`],
//! then [`compare()`] for two independent samples and [`compare_paired`] for values taken in turns.

mod bootstrap;
mod change_point;
mod clusters;
mod compare;
mod dots;
mod drift;
mod format;
pub mod ministat;
pub mod normal;
mod paired;
mod random;
mod rank;
mod sample;
mod special;
pub mod student;
mod warning;

pub use bootstrap::{DEFAULT_RESAMPLES, MIN_BOOTSTRAP, bootstrap, bootstrap_median};
pub use change_point::{Group, Partition, Shift, partition};
pub use clusters::{Cluster, MIN_CLUSTERED, clusters};
pub use compare::{
    Assumption, Choice, Comparison, Equivalence, EquivalenceVerdict, Precision, Side, Test,
    Verdict, choose, compare, equivalence, planned_precision, planned_precision_of_pairs,
};
pub use dots::dots;
pub use drift::{Drift, MIN_DRIFT, drift};
pub use paired::{
    ALLOWANCE, MIN_REBUILDS, PairedOutcome, compare_paired, compare_pairs, equivalence_of_pairs,
};
pub use rank::{RankTest, holm, rank_sum, signed_rank};
pub use sample::{Confidence, Interval, Sample, SampleError};
pub use warning::{Warning, warnings};
