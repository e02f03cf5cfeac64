//! Pseudo-random numbers that are the same in each run of a test (xorshift, Marsaglia 2003).
//!
//! For tests here and, by its path, for those in `tests/`. Start with [`chance`].

/// Returns a generator of numbers below a limit that each call passes.
pub fn chance(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |limit| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % limit
    }
}
