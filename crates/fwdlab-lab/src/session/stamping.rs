//! Who takes the times of a session's frames: the choice before it, and what came of it.
//!
//! What ports offer and what a stamp is, the engine knows; that a card is put back, [`ports`](crate::ports) sees to. Start with
//! [`Stamping::choose`]; [`analysis`] is for the end, and [`Taken`] for results.

use fwdlab_engine::analysis::Analysis;
use fwdlab_engine::stamps::{Kind, Log, Offers, choose};
use fwdlab_engine::{LoneReceiver, PortSpec};

use super::Source;
use crate::error::LabError;
use crate::ports;

/// A choice. Cards that were set for it are put back when it is dropped.
#[derive(Debug)]
pub struct Stamping {
    /// Who takes the times.
    pub kind: Kind,
    /// Why nobody better does.
    pub not_taken: Vec<String>,
    _cards: Vec<ports::Stamping>,
}

impl Stamping {
    /// Nobody but the sender's schedule and the receiver, for these reasons.
    pub fn user(not_taken: Vec<String>) -> Stamping {
        Stamping {
            kind: Kind::User,
            not_taken,
            _cards: Vec::new(),
        }
    }

    /// The kind that is wanted (`None`: the best) for frames from one port to another, with cards set where it needs them.
    ///
    /// # Errors
    /// What was asked for cannot be had; then nothing was changed.
    pub fn choose(
        wanted: Option<Kind>,
        tx: &PortSpec,
        rx: &PortSpec,
    ) -> Result<Stamping, LabError> {
        let (kind, not_taken) = choose(wanted, &Offers::of(tx)?, &Offers::of(rx)?)?;
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

/// What was found out, with the times that were wanted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Taken {
    /// Frames with and without a departure; `None`: departures are those that frames carry.
    pub departures: Option<(u64, u64)>,
    /// The same of arrivals.
    pub arrivals: Option<(u64, u64)>,
    /// The time of day was set.
    pub clock_step_ns: Option<i64>,
}

impl Taken {
    /// May the times be believed?
    pub fn is_valid(&self) -> bool {
        self.clock_step_ns.is_none()
    }
}

/// What a receiver has analysed, timed by the stamps of both ends where there are such.
///
/// # Errors
/// The receiver or the sender failed.
pub fn analysis(
    sender: Option<&mut Source>,
    receiver: &mut LoneReceiver,
) -> Result<Option<(Analysis, Taken)>, LabError> {
    let receiver = receiver.receiver()?;
    let Some(mut analysis) = receiver.analysis()? else {
        return Ok(None);
    };
    let departures = match sender {
        Some(sender) => sender.sender()?.departures(),
        None => None,
    };
    let mut taken = Taken::default();
    if let (Some(departures), Some(arrivals)) = (departures, receiver.arrivals()) {
        analysis.retime(&departures, &arrivals)?;
        let counts = |log: &Log| Some((log.times.len() as u64, log.missing));
        (taken.departures, taken.arrivals) = (counts(&departures), counts(&arrivals));
    }
    taken.clock_step_ns = analysis.clock_step_ns;
    Ok(Some((analysis, taken)))
}
