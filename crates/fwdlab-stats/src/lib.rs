//! Numbers from repeated measurements: samples, intervals, comparisons people can trust.
//!
//! No I/O, no clock, no terminal, and no dependency on our other crates; the caller supplies the
//! seed of all randomness. Values carry the caller's unit; the names of percentages end in
//! `_percent`. Start at [`Sample`], then [`compare()`] for two independent samples and
//! [`compare_paired`] for pairs measured in turns.
//!
//! ```
//! use fwdlab_stats::{Assumption, Confidence, Sample, Verdict, compare};
//!
//! let before = Sample::new(vec![1.461, 1.455, 1.470, 1.449, 1.463])?; // Mpps
//! let after = Sample::new(vec![1.502, 1.497, 1.511, 1.495, 1.508])?;
//! // as ministat(1)
//! let compared = compare(&before, &after, Assumption::EqualSpread, Confidence::P95);
//!
//! assert_eq!(compared.verdict, Verdict::Greater);
//! let interval = compared.interval_percent.expect("five values each");
//! assert!(interval.low > 2.0 && interval.high < 4.0, "{interval:?}"); // percent
//! # Ok::<(), fwdlab_stats::SampleError>(())
//! ```

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
