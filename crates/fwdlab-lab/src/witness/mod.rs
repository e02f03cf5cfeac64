//! Detects disturbances during a trial: the links of the bed, the wall clock, the kernel's drops,
//! the daemons and tunnels of configurations; and probes the machine.
//!
//! None of them decides what that means for a result. Each may be absent: the kernel's reasons for
//! drops are counted only on request, and there is no probe if no CPU of the DUT is this machine's.
//! Start with [`Witnesses`]; the code that runs windows and trials reads [`probe`] between them.

mod clock;
mod links;
pub mod probe;

use std::collections::BTreeMap;

use fwdlab_engine::DropMonitor;
use fwdlab_model::loss::Reason;

use self::clock::ClockWatch;
use self::links::LinkWatch;
pub(crate) use self::links::WENT_DOWN;
use crate::bed::Bed;
use crate::dut::daemons::told;
use crate::dut::{Ended, Spread};
use crate::error::LabError;

/// When daemons died that are reported with a trial.
pub(crate) const DURING: &str = "during this trial";

/// The witnesses of one trial.
pub(crate) struct Witnesses {
    links: LinkWatch,
    /// How often links had gone up or down before, for a bed with hosts whose messages are not
    /// received.
    link_changes: Option<BTreeMap<String, u64>>,
    clock: ClockWatch,
    drops: Option<DropMonitor>,
    /// What tunnels of each DUT had carried before.
    spread: Vec<Option<Spread>>,
}

/// What the witnesses observed in a trial.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Conditions that make it invalid.
    pub objections: Vec<String>,
    /// True if one of them is that a port of the bed went down or vanished.
    pub is_broken: bool,
    /// Daemons of the DUTs' configurations that have ended; they are among the objections.
    pub ended: Vec<Ended>,
    /// The kernel's reasons for dropping its frames; `None` if they were not counted.
    pub reasons: Option<Vec<Reason>>,
}

impl Witnesses {
    /// Starts to observe, before anything of the trial is prepared. Counting the kernel's reasons
    /// costs the DUT time.
    ///
    /// # Errors
    /// A required witness cannot be started.
    pub fn call(bed: &Bed, count_reasons: bool) -> Result<Witnesses, LabError> {
        let links = LinkWatch::open(bed)?;
        let changes = (!links.has_heard_all()).then(|| bed.link_changes());
        Ok(Witnesses {
            links,
            link_changes: changes.transpose()?,
            clock: ClockWatch::new(),
            drops: count_reasons.then(DropMonitor::open).transpose()?,
            spread: bed.spread()?,
        })
    }

    /// Must be called shortly before the trial starts; its frames carry this mark.
    ///
    /// # Errors
    /// The kernel's drops cannot be counted.
    pub fn begin(&mut self, nonce: u16) -> Result<(), LabError> {
        if let Some(drops) = &mut self.drops {
            drops.expect(nonce)?;
        }
        self.clock = ClockWatch::new();
        Ok(())
    }

    /// Returns what they have observed so far.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn say(&mut self, bed: &Bed) -> Result<Seen, LabError> {
        let mut events = self.links.events()?;
        if let Some(before) = &self.link_changes {
            let mut amiss = bed.ports_amiss()?;
            amiss.extend(of_changes(before, &bed.link_changes()?, &amiss));
            amiss.retain(|event| !events.contains(event));
            events.extend(amiss);
        }
        let reason = |(reason, frames)| Reason { reason, frames };
        let ended = bed.daemons_ended()?;
        let died = (!ended.is_empty()).then(|| told(&ended, DURING));
        let unused = Spread::unused(&self.spread, &bed.spread()?);
        let counts = self.drops.as_ref().map(DropMonitor::counts).transpose()?;
        Ok(Seen {
            is_broken: !events.is_empty(),
            objections: (self.clock.step().into_iter())
                .chain(events)
                .chain(died)
                .chain(unused)
                .collect(),
            ended,
            reasons: counts.map(|counts| counts.into_iter().map(reason).collect()),
        })
    }

    /// Returns why something failed, if the bed is the cause: ports that went down or vanished;
    /// empty otherwise.
    pub fn of_failure(&mut self, bed: &Bed) -> Vec<String> {
        let mut what = self.links.events().unwrap_or_default();
        what.extend(bed.ports_amiss().unwrap_or_default());
        what
    }
}

/// Describes links that went down and are up again.
fn of_changes(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
    amiss: &[String],
) -> Vec<String> {
    let changed = after
        .iter()
        .filter(|(port, changes)| before.get(*port).is_some_and(|before| before != *changes));
    changed
        .filter(|(port, _)| !amiss.iter().any(|said| said.starts_with(port.as_str())))
        .map(|(port, _)| format!("{port} {WENT_DOWN}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_was_away_for_a_moment_is_told_once() {
        let of = |changes: [(&str, u64); 3]| changes.map(|(p, n)| (p.to_owned(), n)).into();
        let before = of([("da in r", 4), ("db in r", 4), ("tx in t", 2)]);
        let after = of([("da in r", 6), ("db in r", 5), ("tx in t", 2)]);
        let amiss = ["db in r is down".to_owned()];
        assert_eq!(of_changes(&before, &after, &amiss), ["da in r went down"]);
    }
}
