//! Counters of a port and their rates per second. A rate is that of the last
//! [window](crate::model::Model::tick) of half a second.

use std::time::Instant;

use fwdlab_lab::ports::counters::Counters;

/// Bytes of each frame that TRex counts and the kernel does not.
const FCS: u64 = 4;

/// Per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Frames sent.
    pub tx_pps: f64,
    /// Bits sent, with FCS.
    pub tx_bps: f64,
    /// Frames received.
    pub rx_pps: f64,
    /// Bits received, with FCS.
    pub rx_bps: f64,
}

/// Rates of one port.
pub struct Meter {
    before: Counters,
    at: Instant,
    rates: Rates,
}

impl Meter {
    /// Starts with these counters.
    pub fn new(counters: Counters, now: Instant) -> Meter {
        Meter {
            before: counters,
            at: now,
            rates: Rates::default(),
        }
    }

    /// Ends a window of time, with the current counters of the port.
    pub fn end_window(&mut self, counters: Counters, now: Instant) {
        let time = now.saturating_duration_since(self.at);
        if time.is_zero() {
            return;
        }
        let since = counters.since(self.before);
        let per_second = |count: u64| count as f64 / time.as_secs_f64();
        self.rates = Rates {
            tx_pps: per_second(since.tx_packets),
            tx_bps: per_second(tx_bytes(&since)) * 8.0,
            rx_pps: per_second(since.rx_packets),
            rx_bps: per_second(rx_bytes(&since)) * 8.0,
        };
        (self.before, self.at) = (counters, now);
    }

    /// Returns the rates of the last window.
    pub fn rates(&self) -> Rates {
        self.rates
    }
}

/// Returns the sent bytes, with FCS.
pub fn tx_bytes(counters: &Counters) -> u64 {
    counters
        .tx_bytes
        .wrapping_add(FCS.wrapping_mul(counters.tx_packets))
}

/// Returns the received bytes, with FCS.
pub fn rx_bytes(counters: &Counters) -> u64 {
    counters
        .rx_bytes
        .wrapping_add(FCS.wrapping_mul(counters.rx_packets))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_frame_of_60_bytes_is_64_on_the_wire_and_rates_are_those_of_the_last_window() {
        let begin = Instant::now();
        let mut meter = Meter::new(Counters::default(), begin);
        let counters = Counters {
            tx_packets: 1000,
            tx_bytes: 60_000,
            rx_packets: 10,
            rx_bytes: 600,
            ..Counters::default()
        };
        assert_eq!(meter.rates(), Rates::default());
        meter.end_window(counters, begin + Duration::from_secs(2));
        let requested = Rates {
            tx_pps: 500.0,
            tx_bps: 500.0 * 64.0 * 8.0,
            rx_pps: 5.0,
            rx_bps: 5.0 * 64.0 * 8.0,
        };
        assert_eq!(meter.rates(), requested);
        // nothing is moving any more
        meter.end_window(counters, begin + Duration::from_secs(3));
        assert_eq!(meter.rates(), Rates::default());
    }
}
