//! Timestamps of a session's frames: chooses their source before it, and returns the results after
//! it.
//!
//! The engine knows what ports offer and what a timestamp is; [`ports`](crate::ports) restores
//! cards. Start with [`Stamping::choose`]; [`analysis`] is for the end, and [`StampingResult`] for
//! results.

use fwdlab_engine::analysis::Analysis;
use fwdlab_engine::stamps::{Kind, Log, Offers, choose};
use fwdlab_engine::{PortReceiver, PortSpec};

use super::Source;
use crate::error::LabError;
use crate::ports;

/// A choice of timestamps. Cards that were changed for it are restored when it is dropped.
#[derive(Debug)]
pub struct Stamping {
    /// The source of timestamps.
    pub kind: Kind,
    /// Why no better source is used.
    pub not_taken: Vec<String>,
    _cards: Vec<ports::Stamping>,
}

impl Stamping {
    /// Uses only the sender's schedule and the receiver, for these reasons.
    pub fn user(not_taken: Vec<String>) -> Stamping {
        Stamping {
            kind: Kind::User,
            not_taken,
            _cards: Vec::new(),
        }
    }

    /// Chooses the requested kind (`None`: the best) for frames from one port to another, and
    /// enables it on cards that need this.
    ///
    /// # Errors
    /// Fails, without any change, if the requested kind is not available.
    pub fn choose(
        requested: Option<Kind>,
        tx: &PortSpec,
        rx: &PortSpec,
    ) -> Result<Stamping, LabError> {
        let (kind, not_taken) = choose(requested, &Offers::query(tx)?, &Offers::query(rx)?)?;
        let mut cards = Vec::new();
        if kind == Kind::Hardware {
            cards.push(ports::Stamping::take(tx)?);
            if tx != rx {
                cards.push(ports::Stamping::take(rx)?);
            }
        }
        Ok(Stamping {
            kind,
            not_taken,
            _cards: cards,
        })
    }
}

/// Results of timestamping.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StampingResult {
    /// Frames with and without a departure timestamp; `None`: departures are carried in the frames.
    pub departures: Option<(u64, u64)>,
    /// The same for arrivals.
    pub arrivals: Option<(u64, u64)>,
    /// Step of the clock, if the time of day was set.
    pub clock_step_ns: Option<i64>,
}

impl StampingResult {
    /// Returns true if the timestamps are reliable.
    pub fn is_valid(&self) -> bool {
        self.clock_step_ns.is_none()
    }
}

/// Returns the receiver's analysis, with the timestamps of both ends if there are any.
///
/// # Errors
/// Fails if the receiver or the sender failed.
pub fn analysis(
    sender: Option<&mut Source>,
    receiver: &mut PortReceiver,
) -> Result<Option<(Analysis, StampingResult)>, LabError> {
    let receiver = receiver.receiver()?;
    let Some(mut analysis) = receiver.analysis()? else {
        return Ok(None);
    };
    let departures = match sender {
        Some(sender) => sender.sender()?.departures(),
        None => None,
    };
    let mut taken = StampingResult::default();
    if let (Some(departures), Some(arrivals)) = (departures, receiver.arrivals()) {
        analysis.retime(&departures, &arrivals)?;
        let counts = |log: &Log| Some((log.times.len() as u64, log.missing));
        (taken.departures, taken.arrivals) = (counts(&departures), counts(&arrivals));
    }
    taken.clock_step_ns = analysis.clock_step_ns;
    Ok(Some((analysis, taken)))
}
