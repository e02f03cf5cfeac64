//! A port as this crate sees it: [`Wire`]. The real one is `lab`'s [`Port`]; tests have one of values.

use fwdlab_lab::ports::counters::{self, Counters};
use fwdlab_lab::ports::{Port, state};

/// Speed that a port without one of its own is said to have: percentages need one.
const SPEED_BPS: u64 = 10_000_000_000;

/// What is asked of a port.
pub trait Wire: Send {
    /// Its name.
    fn name(&self) -> &str;
    /// Its own address.
    fn mac(&self) -> [u8; 6];
    /// Its speed.
    fn speed_bps(&self) -> u64;
    /// What it is made of: the kind of a virtual interface, or nothing for a card.
    fn kind(&self) -> Option<&str>;
    /// Has it a link?
    fn is_up(&self) -> bool;
    /// What the kernel counted on it; why not.
    fn counters(&self) -> Result<Counters, String>;
}

/// A port of this machine, which is ours as long as this lives.
pub struct OfLab {
    port: Port,
    speed_bps: u64,
}

impl OfLab {
    /// This port; where it has no speed, and none is said, 10 Gbit/s.
    pub fn new(port: Port, speed_bps: Option<u64>) -> OfLab {
        let speed_bps = speed_bps.or(port.facts.speed_bps).unwrap_or(SPEED_BPS);
        OfLab { port, speed_bps }
    }
}

impl Wire for OfLab {
    fn name(&self) -> &str {
        &self.port.spec.interface
    }

    fn mac(&self) -> [u8; 6] {
        self.port.facts.mac.unwrap_or_default()
    }

    fn speed_bps(&self) -> u64 {
        self.speed_bps
    }

    fn kind(&self) -> Option<&str> {
        self.port.facts.kind.as_deref()
    }

    fn is_up(&self) -> bool {
        state::check(&self.port.spec).is_ok()
    }

    fn counters(&self) -> Result<Counters, String> {
        counters::read(&self.port.spec).map_err(|error| error.to_string())
    }
}
