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
use crate::dut::daemons::describe_ended;
use crate::dut::{EndedDaemon, Spread};
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
    pub ended: Vec<EndedDaemon>,
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
        let changes = (!links.covers_all_hosts()).then(|| bed.link_changes());
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
    pub fn observations(&mut self, bed: &Bed) -> Result<Seen, LabError> {
        let mut events = self.links.events()?;
        if let Some(before) = &self.link_changes {
            let mut problem = bed.port_problems()?;
            problem.extend(describe_changes(before, &bed.link_changes()?, &problem));
            problem.retain(|event| !events.contains(event));
            events.extend(problem);
        }
        let reason = |(reason, frames)| Reason { reason, frames };
        let ended = bed.daemons_ended()?;
        let died = (!ended.is_empty()).then(|| describe_ended(&ended, DURING));
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
    pub fn failure_reasons(&mut self, bed: &Bed) -> Vec<String> {
        let mut action = self.links.events().unwrap_or_default();
        action.extend(bed.port_problems().unwrap_or_default());
        action
    }
}

/// Describes links that went down and are up again.
fn describe_changes(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
    problem: &[String],
) -> Vec<String> {
    let changed = after
        .iter()
        .filter(|(port, changes)| before.get(*port).is_some_and(|before| before != *changes));
    changed
        .filter(|(port, _)| {
            !problem
                .iter()
                .any(|output| output.starts_with(port.as_str()))
        })
        .map(|(port, _)| format!("{port} {WENT_DOWN}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_flap_is_reported_once() {
        let of = |changes: [(&str, u64); 3]| changes.map(|(p, n)| (p.to_owned(), n)).into();
        let before = of([("da in r", 4), ("db in r", 4), ("tx in t", 2)]);
        let after = of([("da in r", 6), ("db in r", 5), ("tx in t", 2)]);
        let problem = ["db in r is down".to_owned()];
        assert_eq!(
            describe_changes(&before, &after, &problem),
            ["da in r went down"]
        );
    }
}
