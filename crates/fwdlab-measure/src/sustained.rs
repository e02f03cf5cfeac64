//! The search for the largest load that a tester sustains: a share of what it sent at full speed,
//! at which looks reach the load as trials must. For a run it takes the load that most looks reach,
//! for a promise the load that all of them reach.
//!
//! It shows what the tester can offer, and nothing about the DUT. The caller makes the looks. Start
//! with [`Search`].

use std::time::Duration;

use fwdlab_stats::Sample;

use crate::remaining::Tally;
use crate::validity::OFFERED_SHARE;

/// Shares of what the generator sent at full speed, in the order in which they are tried. The first
/// one at which most looks reach the load is used. If there is none, the sender stalls at any load,
/// and the first share is used.
const SHARES: [f64; 3] = [0.9, 0.8, 0.7];

/// Shares of the lowest rate at full speed that are tried for a promise. All looks must reach the
/// load.
const OF_PROMISE: [f64; 7] = [0.9, 0.8, 0.7, 0.6, 0.5, 0.35, 0.2];

/// Rates at full speed that differ by more than this share of their median promise nothing: the
/// machine was not the same all the time, and may be slower the next time.
const MOST_SPREAD: f64 = 0.2;

/// Number of looks at each of these loads.
const LOOKS: u32 = 3;

/// Duration of a look.
pub const LOOK: Duration = Duration::from_millis(250);

/// Frames that were sent in a look, and those that were due and not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Frames sent, including those that a router does not forward.
    pub frames: u64,
    /// Frames not sent.
    pub missing: u64,
}

impl Sent {
    fn due(self) -> f64 {
        self.frames as f64 + self.missing as f64
    }
}

/// A load that the tester sustains.
#[derive(Debug, Clone, PartialEq)]
pub struct Sustained {
    /// The load, in frames per second.
    pub load_pps: f64,
    /// How it was found.
    pub source: String,
    /// The looks at this load.
    pub looks: Tally,
}

impl Sustained {
    /// Returns true if every look reached the load.
    pub fn is_held_always(&self) -> bool {
        self.looks.made > 0 && self.looks.valid == self.looks.made
    }
}

/// The search.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    held_pps: f64,
    shares: &'static [f64],
    /// All looks must reach the load, rather than most of them.
    needs_all: bool,
    /// Index of the share that is tried.
    at: usize,
    looks: Tally,
    first: Option<Sustained>,
}

impl Search {
    /// Starts after a second with the load that the generator reached at full speed.
    pub fn new(flat_out_pps: f64, sent: Sent) -> Search {
        let held_pps = flat_out_pps * sent.frames as f64 / sent.due().max(1.0);
        Search::among(&SHARES, held_pps, false)
    }

    /// Starts the search for a load to promise, after trials at full speed at these rates. Every
    /// look must reach it.
    ///
    /// # Errors
    /// Returns why no load can be promised: the rates differ too much.
    pub fn promise(full_speed_pps: &Sample) -> Result<Search, String> {
        let (lowest, highest) = (full_speed_pps.min(), full_speed_pps.max());
        if lowest <= 0.0 {
            return Err("nothing was sent in one of its trials".into());
        }
        let spread = (highest - lowest) / full_speed_pps.median();
        match spread <= MOST_SPREAD {
            true => Ok(Search::among(&OF_PROMISE, lowest, true)),
            false => Err(format!(
                "its rates at full speed differ by {:.0} %, and by more than {:.0} % nothing can be promised",
                100.0 * spread,
                100.0 * MOST_SPREAD
            )),
        }
    }

    fn among(shares: &'static [f64], held_pps: f64, needs_all: bool) -> Search {
        Search {
            held_pps,
            shares,
            needs_all,
            at: 0,
            looks: Tally::default(),
            first: None,
        }
    }

    /// Returns the load of the next look.
    pub fn load_pps(&self) -> f64 {
        // two significant digits: the same load in the next run on the same machine
        let most = self.shares[self.at] * self.held_pps;
        let digits = 10f64.powf(most.max(1.0).log10().floor() - 1.0);
        (most / digits).floor() * digits
    }

    /// Takes the counts of a look. Returns the result when the search has ended.
    pub fn record(&mut self, sent: Sent) -> Option<Sustained> {
        self.looks += Tally {
            made: 1,
            valid: u32::from(sent.frames as f64 >= OFFERED_SHARE * sent.due()),
        };
        let has_failed = self.needs_all && self.looks.valid < self.looks.made;
        if self.looks.made < LOOKS && !has_failed {
            return None;
        }
        let looks = std::mem::take(&mut self.looks);
        let this = Sustained {
            load_pps: self.load_pps(),
            source: format!(
                "{:.0} % of the {:.0} frames per second that the tester could sustain",
                100.0 * self.shares[self.at],
                self.held_pps
            ),
            looks,
        };
        let is_held = match self.needs_all {
            true => this.is_held_always(),
            false => 2 * looks.valid > looks.made,
        };
        if is_held {
            return Some(this);
        }
        let first = self.first.get_or_insert(this).clone();
        self.at += 1;
        (self.at == self.shares.len()).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with a sender that sends this share of a load in a look with this number, after a
    /// million frames per second at full speed. Returns the result, and the number of looks.
    fn search(share: impl Fn(f64, u32) -> f64) -> (Sustained, u32) {
        let sent = |load: f64, share: f64| Sent {
            frames: (load * share).round() as u64,
            missing: (load * (1.0 - share)).round() as u64,
        };
        let mut search = Search::new(1.25e6, sent(1e6, 0.8));
        for look in 1.. {
            let load = search.load_pps();
            if let Some(found) = search.record(sent(load, share(load, look))) {
                return (found, look);
            }
        }
        unreachable!("a search ends")
    }

    #[test]
    fn most_looks_must_reach_the_load() {
        let (found, looks) = search(|_, look| if look == 2 { 0.9 } else { 1.0 });
        assert_eq!((found.load_pps, looks), (9e5, 3));
        assert_eq!((found.looks.made, found.looks.valid), (3, 2));
        assert_eq!(
            found.source,
            "90 % of the 1000000 frames per second that the tester could sustain"
        );
        // the sender stalls above 750,000 frames per second
        let (found, looks) = search(|load, _| if load > 7.5e5 { 0.99 } else { 0.995 });
        assert_eq!((found.load_pps, looks), (7e5, 9));
    }

    #[test]
    fn a_sender_that_stalls_at_any_load_is_used_at_the_first() {
        let (found, looks) = search(|_, look| if look % 3 == 0 { 1.0 } else { 0.9 });
        assert_eq!((found.load_pps, looks), (9e5, 9));
        assert_eq!((found.looks.made, found.looks.valid), (3, 1));
        let (found, _) = search(|_, _| 0.0);
        assert_eq!((found.load_pps, found.looks.valid), (9e5, 0));
    }

    /// Searches for a promise, with a sender that sends this share of a load in a look with this
    /// number.
    fn promise(rates: &[f64], share: impl Fn(f64, u32) -> f64) -> Result<(Sustained, u32), String> {
        let mut search = Search::promise(&Sample::new(rates).unwrap())?;
        for look in 1.. {
            let load = search.load_pps();
            let sent = Sent {
                frames: (load * share(load, look)).round() as u64,
                missing: (load * (1.0 - share(load, look))).round() as u64,
            };
            if let Some(found) = search.record(sent) {
                return Ok((found, look));
            }
        }
        unreachable!("a search ends")
    }

    #[test]
    fn a_promise_is_below_the_lowest_rate_and_every_look_reached_it() {
        let rates = [1.1e6, 1e6, 1.15e6];
        let (found, looks) = promise(&rates, |_, _| 1.0).unwrap();
        assert_eq!((found.load_pps, looks), (9e5, 3));
        // one of three looks is short: most of them are not enough
        let (found, looks) = promise(&rates, |_, look| if look == 2 { 0.99 } else { 1.0 }).unwrap();
        assert_eq!((found.load_pps, looks), (8e5, 5));
        assert!(found.is_held_always());
        // it stalls at any load
        let (found, _) = promise(&rates, |_, _| 0.99).unwrap();
        assert!(!found.is_held_always());
        let (found, _) = promise(&rates, |_, look| if look % 3 == 0 { 0.9 } else { 1.0 }).unwrap();
        assert!(!found.is_held_always());
    }

    #[test]
    fn rates_that_are_far_apart_promise_nothing() {
        assert!(promise(&[1e6, 1.1e6, 1.2e6], |_, _| 1.0).is_ok());
        let reason = promise(&[1e6, 1.1e6, 1.3e6], |_, _| 1.0).unwrap_err();
        assert!(
            reason.starts_with("its rates at full speed differ by 27 %"),
            "{reason}"
        );
        assert!(promise(&[0.0, 1e6], |_, _| 1.0).is_err());
    }

    #[test]
    fn loads_have_two_digits() {
        let all = Sent {
            frames: 1,
            missing: 0,
        };
        assert_eq!(Search::new(7_039_912.0, all).load_pps(), 6.3e6);
        assert_eq!(Search::new(0.0, all).load_pps(), 0.0);
    }
}
