//! What stands beside a trial and says what disturbed it: the links of the bed, the wall clock, the kernel's drops, the daemons and
//! tunnels of configurations; and the probes of the machine.
//!
//! None of them decides what that means for a result. Each may be absent: nobody asks a kernel why it drops frames where that was not
//! wanted, and there is no probe where no CPU of the DUT is this machine's. Start with [`Witnesses`]; [`probe`] is read beside windows
//! and trials by who makes them.

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

/// When daemons died that are told with a trial.
pub(crate) const DURING: &str = "during this trial";

/// Those of one trial.
pub(crate) struct Witnesses {
    links: LinkWatch,
    /// How often links had come or gone before, of a bed with hosts whose messages are not heard.
    link_changes: Option<BTreeMap<String, u64>>,
    clock: ClockWatch,
    drops: Option<DropMonitor>,
    /// What tunnels of each DUT had carried before.
    spread: Vec<Option<Spread>>,
}

/// What they saw in a trial.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Conditions that make it invalid.
    pub objections: Vec<String>,
    /// A port of the bed went down or away: one of them.
    pub is_broken: bool,
    /// Daemons of the DUTs' configurations that live no more; they are among the objections.
    pub ended: Vec<Ended>,
    /// The kernel's reasons for dropping frames of it; `None` where it was not asked.
    pub reasons: Option<Vec<Reason>>,
}

impl Witnesses {
    /// Begins to look, before anything of the trial is prepared. To count the kernel's reasons costs the DUT time.
    ///
    /// # Errors
    /// A witness that should be there cannot be called.
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

    /// The trial is about to start; its frames carry this mark.
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

    /// What they saw until now.
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

    /// Why something failed, where the bed is to blame: ports that went down or away; empty where they did not.
    pub fn of_failure(&mut self, bed: &Bed) -> Vec<String> {
        let mut what = self.links.events().unwrap_or_default();
        what.extend(bed.ports_amiss().unwrap_or_default());
        what
    }
}

/// What is to be said of links that came or went, and are there again.
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
