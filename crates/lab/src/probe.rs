//! The contention probe: how fast a CPU is right now, whatever the host does to it.
//!
//! The best of a few short bursts of independent additions, about half a millisecond in all, on the calling thread's
//! CPU. It sees a busy SMT sibling and a lowered clock, which steal time in `/proc/stat` does not show. What a reading
//! means is decided in `measure::gate`.

use std::time::Instant;

use crate::sys::{BURST_ADDITIONS, burst};

/// Bursts per reading: the best one is not disturbed by an interrupt.
const BURSTS: u32 = 8;

/// One reading, in additions per nanosecond.
pub fn reading() -> f64 {
    let best = (0..BURSTS)
        .map(|_| {
            let began = Instant::now();
            burst();
            began.elapsed()
        })
        .min()
        .unwrap_or_default();
    BURST_ADDITIONS as f64 / best.as_nanos().max(1) as f64
}

#[cfg(test)]
mod tests {
    /// 0.1 to 100 additions per nanosecond: any CPU of this century, and proof that the loop is not optimised away.
    #[test]
    fn a_reading_is_a_speed() {
        let speed = super::reading();
        assert!((0.1..100.0).contains(&speed), "{speed}");
    }
}
