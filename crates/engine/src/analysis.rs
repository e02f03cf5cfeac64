//! What a receiver finds out about frames beyond counting them: per stream and per flow what is missing, doubled, out of order,
//! damaged or late, and how long frames were under way.
//!
//! Here are the questions and the answers. Who answers is a receiver. Start with [`AnalysisPlan`].

use crate::histogram::Histogram;

/// What to find out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AnalysisPlan {
    /// The streams that are expected; frames of others count as foreign.
    pub streams: Vec<StreamPlan>,
}

/// One stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPlan {
    /// Its number in the signature.
    pub id: u16,
    /// Its frame number n carries flow n modulo this; 0 where flows are not to be counted.
    pub flows: u32,
}

/// What was found out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Analysis {
    /// Of each stream of the plan, in its order.
    pub streams: Vec<StreamAnalysis>,
    /// Which clocks the latencies are between, for results: `software, CLOCK_MONOTONIC`.
    pub timestamps: &'static str,
}

/// The frames of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamAnalysis {
    /// Its number in the signature.
    pub id: u16,
    /// Frames that arrived, duplicates included.
    pub received: u64,
    /// Their bytes without FCS.
    pub bytes: u64,
    /// Frames that had arrived before.
    pub duplicates: u64,
    /// Frames that arrived after one with a higher number (RFC 4737 section 3).
    pub reordered: u64,
    /// The largest number of frames by which one was too late (RFC 4737 section 4.2).
    pub reordering_extent: u64,
    /// Frames whose checksums or contents are wrong.
    pub corrupt: u64,
    /// From intended departure to arrival, in nanoseconds.
    pub latency: Histogram,
    /// Smoothed variation of the latency (RFC 3550 section 6.4.1), in nanoseconds.
    pub jitter_ns: u64,
    /// Differences of the latencies of frames n and n + 1, without sign (RFC 3393), in nanoseconds.
    pub delay_variation: Histogram,
    /// How often each flow arrived; empty where not asked for.
    pub flows: Vec<u32>,
}
