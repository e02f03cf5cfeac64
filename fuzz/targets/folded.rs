//! Fuzz target: folded stacks, from any tool, and the flame graphs of them.
//!
//! The input is two texts with a zero byte between them. Whatever they are: no panic, what was read
//! is printed so that it is read again, and the sums of tables and totals agree. Start at
//! [`folded`].

use fwdlab_model::stacks::{Difference, Stacks, difference, perf};
use fwdlab_report::flame;

/// Panics if reading, printing or drawing does, or if a sum does not agree.
pub fn folded(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (before, after) = text.split_once('\0').unwrap_or((&text, ""));
    if let Ok(sampled) = perf::read(before) {
        assert_eq!(sampled.to_string().parse::<Stacks>(), Ok(sampled));
    }
    let (Ok(before), Ok(after)) = (before.parse::<Stacks>(), after.parse::<Stacks>()) else {
        return;
    };
    assert_eq!(before.to_string().parse::<Stacks>().as_ref(), Ok(&before));
    let (one, other) = (before.per(1), after.per(1));
    let rows = difference(&one, &other);
    let sum: f64 = rows.iter().map(Difference::difference).sum();
    let total = other.total() - one.total();
    let largest = one.total().max(other.total());
    assert!((sum - total).abs() <= 1e-9 * largest, "{sum} {total}");
    flame::differences(&rows, ["a", "b"], 1.0).text(80);
    flame::graph("fuzz", &one.minus(&other)).ok();
    flame::difference("fuzz", &one, &other).ok();
    // counts beyond 2^40 are no count of instructions, and inferno has no room for them
    let drawn = flame::graph("fuzz", &one);
    assert!(drawn.is_ok() || before.total() == 0 || before.total() > 1 << 40);
}
