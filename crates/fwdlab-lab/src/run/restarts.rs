//! Restarts of the DUT between test cases: one before every test bed of an interleaved campaign,
//! one for every test case of a grouped one.
//!
//! A machine that does not come back is restarted again, as often as the campaign permits; each
//! attempt is reported, and stored with the run. Test cases that then have no DUT fail with that
//! reason, and the next ones try again, because it may be back by then. Start with
//! [`Restarts::restart_if_due`].

use std::collections::BTreeMap;
use std::time::Instant;

use fwdlab_model::campaign::{Order, Reboot};
use fwdlab_model::event::EventKind;

use super::{Control, Run};
use crate::error::LabError;
use crate::host::{Failure, Limit};
use crate::site::Site;

/// Results of the restarts so far.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    /// Groups whose DUT was restarted, with the reason for those that lost it.
    groups: BTreeMap<String, Option<LabError>>,
}

impl Restarts {
    /// Restarts the DUT before a bed is built for this test case, if a restart is due.
    pub fn restart_if_due(
        &mut self,
        (reboot, order): (Option<Reboot>, Order),
        site: &Site,
        test_case: &str,
        control: &Control,
        run: &mut Run<'_>,
    ) -> Result<(), LabError> {
        let Some(reboot) = reboot else {
            return Ok(());
        };
        if order == Order::Grouped {
            match self.groups.get(test_case) {
                Some(None) => return Ok(()),
                Some(Some(error)) => return Err(again(error)),
                None => {}
            }
        }
        let result = restart(reboot, site, test_case, control, run);
        if let Err(LabError::Interrupted | LabError::Store(_)) = result {
            return result;
        }
        let lost = result.as_ref().err().map(again);
        self.groups.insert(test_case.to_owned(), lost);
        result
    }
}

/// Returns the error of a restart for another test bed of its group.
fn again(error: &LabError) -> LabError {
    match error {
        LabError::NotUp { image, reason } => LabError::NotUp {
            image: image.clone(),
            reason: reason.clone(),
        },
        other => LabError::Preflight(other.to_string()),
    }
}

/// Returns true if no restart was begun, so that nothing is known of the next boot.
fn is_refused(error: &LabError) -> bool {
    match error {
        LabError::Preflight(_) => true,
        LabError::Host(error) => {
            matches!(
                error.failure,
                Failure::Exit { .. } | Failure::Missing { .. }
            )
        }
        _ => false,
    }
}

/// Restarts the DUT, repeatedly if it does not come back.
fn restart(
    reboot: Reboot,
    site: &Site,
    test_case: &str,
    control: &Control,
    run: &mut Run<'_>,
) -> Result<(), LabError> {
    let tries = reboot.retries + 1;
    let mut last = LabError::Interrupted;
    for number in 1..=tries {
        let started = Instant::now();
        let limit = Limit {
            time: reboot.within.0,
            is_stopped: &|| control.is_stopped(),
        };
        let error = match site.reboot(limit) {
            Ok(boot) => {
                let duration = started.elapsed().as_secs_f64();
                let text =
                    format!("{test_case}: the DUT was restarted in {duration:.0} s (boot {boot})");
                return run.record_event(EventKind::Note { text });
            }
            Err(_) if control.is_stopped() => return Err(LabError::Interrupted),
            Err(LabError::Host(error)) if error.failure == Failure::Stopped => {
                return Err(LabError::Interrupted);
            }
            Err(error) => error,
        };
        run.warn(format!(
            "{test_case}: restart of the DUT, try {number} of {tries}: {error}"
        ))?;
        last = error;
    }
    Err(match is_refused(&last) {
        true => LabError::Preflight(format!(
            "the DUT could not be restarted in {tries} tries: {last}"
        )),
        false => LabError::NotUp {
            image: "the DUT".into(),
            reason: format!("it did not come back from its restart in {tries} tries: {last}"),
        },
    })
}

/// Describes how often the DUT is restarted, and how long its return may take.
pub(super) fn words(
    reboot: Option<Reboot>,
    order: Order,
    cases: usize,
    beds: usize,
) -> Vec<String> {
    let Some(Reboot { within, retries }) = reboot else {
        return Vec::new();
    };
    let when = match order {
        Order::Grouped => format!("once for each of {cases} test cases"),
        Order::Interleaved | Order::Together => format!("before each of {beds} test beds"),
    };
    vec![format!(
        "the DUT is restarted {when}; fwdlab waits up to {within} for it to come back, with up to {} attempts. The time of restarts is not in the estimate",
        retries + 1
    )]
}
