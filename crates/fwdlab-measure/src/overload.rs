//! The search for a load that overloads a DUT, and whether a load still does.
//!
//! A look offers a load for a tenth of a second; its counters decide the next load. Looks are no
//! trials: nothing of them is a result. The caller makes the looks. Start with [`Search`].

use crate::validity::is_lower_bound;

/// A load counts as overload from this ratio of offered to forwarded.
const OVERLOAD: f64 = 1.5;

/// From this ratio on, a smaller load is tried once more: a DUT that collapses, or whose CPU was
/// just taken away, forwards more of it.
const FAR: f64 = 3.0;

/// The load that is then offered, relative to what the DUT forwards at its best. More is not
/// better: generator and DUT write to the same full ring, and at twice the rate the forwarding rate
/// varied by half as much again.
pub const SURPLUS: f64 = 1.6;

/// A look counts if the sender offers at least this share of the load.
const OFFERED: f64 = 0.9;

/// On a busy host the sender may stall in this many looks; an engine at its limit falls short in
/// every one.
const STALLS: u32 = 3;

/// The load of the first look, and the load from which on no generator offers more.
const FIRST_PPS: f64 = 1e6;
const LARGEST_PPS: f64 = 1e8;

/// Number of readings in a look after the first one.
pub const LOOK_READINGS: usize = 20;

/// Number of readings in a window of 20 ms.
pub const READINGS_PER_WINDOW: usize = 4;

/// The counters at one moment of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Time by the sender's clock, in nanoseconds.
    pub sent_at_ns: u64,
    /// Time by the receiver's clock, in nanoseconds.
    pub received_at_ns: u64,
    /// Frames sent so far.
    pub sent: u64,
    /// Frames received so far.
    pub received: u64,
}

/// What a look at a load counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The counters, [`LOOK_READINGS`] times after the first.
    pub readings: Vec<Counts>,
    /// Frames were lost inside the DUT, not only in its input queue.
    pub loses_inside: bool,
}

/// A load that overloads the DUT.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overload {
    /// The load; `None` is flat out, if the generator cannot send more.
    pub load_pps: Option<f64>,
    /// Frames were lost inside the DUT, not only in its input queue.
    pub loses_inside: bool,
}

/// A search for a load that overloads the DUT: 1.6 times what it forwards at its best.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    load_pps: f64,
    /// Looks in which the sender fell short of the load.
    stalls: u32,
    most_pps: f64,
    was_far: bool,
}

impl Default for Search {
    fn default() -> Search {
        Search {
            load_pps: FIRST_PPS,
            stalls: 0,
            most_pps: 0.0,
            was_far: false,
        }
    }
}

impl Search {
    /// Returns the load of the next look.
    pub fn load_pps(&self) -> f64 {
        self.load_pps
    }

    /// Takes the counts of a look. Returns the result when the search has ended.
    pub fn record(&mut self, look: &Look) -> Option<Overload> {
        let (mut offered, mut forwarded) = best_of(&look.readings, READINGS_PER_WINDOW);
        if offered < OFFERED * self.load_pps {
            // between two stalls of the sender there may be no room for a whole window
            (offered, forwarded) = best_of(&look.readings, 1);
        }
        let falls_short = offered < OFFERED * self.load_pps;
        let found = |load_pps| Overload {
            load_pps,
            loses_inside: look.loses_inside,
        };
        self.most_pps = self.most_pps.max(forwarded);
        if offered >= FAR * forwarded && forwarded > 0.0 && !self.was_far {
            self.was_far = true;
            self.load_pps = SURPLUS * forwarded;
        } else if offered >= OVERLOAD * forwarded && forwarded > 0.0 {
            // two significant digits: the same load in the next run on the same machine
            let load = SURPLUS * self.most_pps;
            let digits = 10f64.powf(load.log10().floor() - 1.0);
            return Some(found(Some((load / digits).round() * digits)));
        } else if self.load_pps > LARGEST_PPS || (falls_short && self.stalls == STALLS) {
            return Some(found(None));
        } else if falls_short {
            self.stalls += 1;
        } else if forwarded < 0.9 * offered {
            // nearly there: a far higher load would be another regime, in which the DUT forwards
            // less
            self.load_pps = (SURPLUS * forwarded).max(1.1 * self.load_pps);
        } else {
            self.load_pps *= 2.0;
        }
        None
    }
}

/// Returns the highest offered load and the highest forwarding rate between readings that are
/// `apart` readings apart.
fn best_of(readings: &[Counts], apart: usize) -> (f64, f64) {
    let per_second = |frames: u64, ns: u64| frames as f64 / (ns as f64 / 1e9);
    let all: Vec<&Counts> = readings.iter().step_by(apart).collect();
    all.windows(2)
        .fold((0.0, 0.0), |(offered, forwarded), pair| {
            let (from, to) = (pair[0], pair[1]);
            let received_ns = to.received_at_ns - from.received_at_ns;
            (
                f64::max(
                    offered,
                    per_second(to.sent - from.sent, to.sent_at_ns - from.sent_at_ns),
                ),
                f64::max(
                    forwarded,
                    per_second(to.received - from.received, received_ns),
                ),
            )
        })
}

/// Returns true if a new search may find a larger load than this one, which was found earlier: not
/// if it is line rate, or all that the generator can send.
pub fn may_be_larger(load_pps: Option<f64>, line_rate_pps: Option<f64>) -> bool {
    load_pps.is_some_and(|pps| line_rate_pps.is_none_or(|line| line > pps))
}

/// Returns the DUT that forwards most, with its rate, if this load does not overload it.
pub fn not_overloaded(load_pps: f64, rates_pps: &[f64]) -> Option<(usize, f64)> {
    let rates = rates_pps.iter().copied().enumerate();
    let fastest = rates.max_by(|a, b| a.1.total_cmp(&b.1))?;
    is_lower_bound(load_pps, fastest.1).then_some(fastest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts of a look: what the sender and the DUT do in each of its 20 parts of 5 ms.
    fn look(rates: impl Fn(usize) -> (f64, f64)) -> Look {
        let mut counts = Counts {
            sent_at_ns: 7,
            received_at_ns: 1_000_000,
            sent: 0,
            received: 0,
        };
        let mut readings = vec![counts];
        for part in 0..LOOK_READINGS {
            let (sent_pps, received_pps) = rates(part);
            counts.sent_at_ns += 5_000_000;
            counts.received_at_ns += 5_000_000;
            counts.sent += (sent_pps * 0.005).round() as u64;
            counts.received += (received_pps * 0.005).round() as u64;
            readings.push(counts);
        }
        Look {
            readings,
            loses_inside: false,
        }
    }

    /// Searches on a DUT: the rates of sender and DUT at a load, in a part of the look with a
    /// number. Returns the result and the loads.
    fn search(rates: impl Fn(f64, usize, usize) -> (f64, f64)) -> (Option<f64>, Vec<f64>) {
        let mut search = Search::default();
        let mut loads = Vec::new();
        loop {
            let load = search.load_pps();
            let look = look(|part| rates(load, loads.len(), part));
            loads.push(load);
            if let Some(found) = search.record(&look) {
                return (found.load_pps, loads);
            }
            assert!(loads.len() < 100, "{loads:?}");
        }
    }

    #[test]
    fn the_load_is_1_6_times_what_the_dut_forwards() {
        for capacity in [3e4, 1e5, 8.13e5, 1e6, 7.04e6] {
            let (found, loads) = search(|load, _, _| (load, load.min(capacity)));
            let found = found.unwrap();
            let right = 1.6 * capacity;
            assert!((found / right - 1.0).abs() < 0.05, "{capacity}: {loads:?}");
            // the same in the next run
            let (again, _) = search(|load, _, _| (load, load.min(1.001 * capacity)));
            assert_eq!(again, Some(found), "{capacity}");
        }
    }

    /// A DUT that forwards less the more it is offered is measured at the load that it can bear.
    #[test]
    fn a_dut_that_collapses_is_offered_what_it_forwards_at_its_best() {
        let collapses = |load: f64| match load > 2e5 {
            true => 2e4,
            false => load.min(1e5),
        };
        let (found, loads) = search(|load, _, _| (load, collapses(load)));
        assert!(loads[1] < 1e5, "{loads:?}");
        assert_eq!(found, Some(1.6e5), "{loads:?}");
    }

    #[test]
    fn a_generator_at_its_limit_sends_flat_out() {
        let (found, loads) = search(|load, _, _| {
            let sent = load.min(1.5e6);
            (sent, sent)
        });
        assert_eq!(found, None);
        // the load that it does not reach is tried again: it may have stalled
        assert_eq!(loads, [1e6, 2e6, 2e6, 2e6, 2e6]);
        let (found, loads) = search(|load, _, _| (load, load));
        assert_eq!((found, loads.len()), (None, 8));
    }

    #[test]
    fn a_sender_that_stalls_between_readings_does_not_hide_an_overload() {
        // no window of 20 ms is free of a stall
        let (found, loads) = search(|load, _, part| match part % 3 {
            0 => (0.0, 0.0),
            _ => (load, load.min(5e5)),
        });
        assert_eq!(found, Some(8e5), "{loads:?}");
        // three looks without any load
        let (found, loads) = search(|load, look, _| match look < 3 {
            true => (0.5 * load, 0.5 * load),
            false => (load, load.min(5e5)),
        });
        assert_eq!(found, Some(8e5), "{loads:?}");
    }

    #[test]
    fn losses_inside_the_dut_are_those_of_the_last_look() {
        let mut search = Search::default();
        let mut lossy = look(|_| (1e6, 5e5));
        lossy.loses_inside = true;
        assert!(search.record(&lossy).unwrap().loses_inside);
        let mut search = Search::default();
        assert!(!search.record(&look(|_| (1e6, 5e5))).unwrap().loses_inside);
    }

    #[test]
    fn a_search_is_repeated_if_a_larger_load_is_possible() {
        assert!(may_be_larger(Some(1e6), None) && may_be_larger(Some(1e6), Some(1.1e6)));
        assert!(!may_be_larger(Some(1e6), Some(1e6)) && !may_be_larger(None, None));
    }

    #[test]
    fn the_fastest_dut_must_be_overloaded() {
        assert_eq!(not_overloaded(1e6, &[5e5, 9.5e5, 9e5]), Some((1, 9.5e5)));
        assert_eq!(not_overloaded(1e6, &[5e5, 9e5]), None);
        assert_eq!(not_overloaded(1e6, &[]), None);
    }
}
