//! Flame graphs of the DUT: after all iterations of a campaign, one more of every test case, during
//! which `perf` samples its host.
//!
//! Sampling costs the DUT time, so no figure uses this iteration: it yields only call paths. If a
//! test case has none, the reason is recorded and the run continues. Start with
//! [`Running::flames`].

use std::time::Duration;

use fwdlab_model::campaign::Case;
use fwdlab_model::stacks::{Stacks, perf};

use super::campaign::Running;
use super::device::erect;
use super::trial::Bench;
use super::{Measured, Run, configure, open_tester};
use crate::error::LabError;
use crate::host::{Command, HostError, Limit};
use crate::telemetry::Observed;

/// File of the call paths of a test case, stored as of its trial 0.
pub const SAMPLES: &str = "perf.folded";

/// Samples per second and CPU: not a divisor of any periodic activity there.
const FREQUENCY_HZ: u32 = 997;

/// Frames flow for about this long before the first sample, and for twice as long after the last.
const AROUND: Duration = Duration::from_millis(500);

/// Writing and printing 5000 samples of 30 functions takes seconds, and longer on a small machine.
const PATIENCE: Duration = Duration::from_secs(60);

impl Running<'_> {
    /// Makes the flame graphs that the campaign requests.
    pub(super) fn flames(
        &self,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(), LabError> {
        let telemetry = self.plan.campaign().telemetry.as_ref();
        let Some(requested) = telemetry.and_then(|telemetry| telemetry.perf.as_ref()) else {
            return Ok(());
        };
        for case in &self.plan.campaign().cases {
            if self.control.is_stopped() {
                return Ok(());
            }
            let id = self.plan.id(case);
            match self.samples(case, requested.time.0, run, measured) {
                Ok(stacks) => {
                    let text = stacks.to_string();
                    run.writer.raw(&id, 0, SAMPLES, text.as_bytes())?;
                    measured.samples.push((id, stacks));
                }
                Err(LabError::Interrupted) => return Ok(()),
                Err(error @ LabError::Store(_)) => return Err(error),
                Err(error) => run.warn(format!("no flame graph of {id}: {error}"))?,
            }
        }
        Ok(())
    }

    /// Samples a test case at the largest load of its trials.
    fn samples(
        &self,
        case: &Case,
        time: Duration,
        run: &mut Run<'_>,
        measured: &Measured,
    ) -> Result<Stacks, LabError> {
        let id = self.plan.id(case);
        let wrong = |reason: &str| Err(LabError::Preflight(reason.to_owned()));
        if !case.variant.modifiers.is_empty() {
            return wrong("modifiers need trials, and a flame graph has none");
        }
        let own = measured.trials.iter().filter(|trial| trial.test_case == id);
        let valid = own.filter(|trial| trial.validity.is_valid());
        let Some(load_pps) = valid.map(|trial| trial.offered_load_pps).reduce(f64::max) else {
            return wrong("none of its trials is valid, so that no load is known");
        };
        let common = self.plan.common(self.plan.campaign().streams(case)?, case);
        let (stream, control) = (&common.streams[0], self.control);
        let (bed, _) = erect(&common)?;
        let (mut tester, _) = open_tester(&bed, &common)?;
        if let Some(configuration) = &common.configuration {
            configure(
                &bed,
                0,
                tester.as_mut(),
                stream,
                configuration,
                control,
                run,
            )?;
        }
        let Some(observed) = bed.dut(0).observed() else {
            return wrong("this DUT has no login");
        };
        let variant = &common.traffic.variants[0];
        let mut bench = Bench::new(&bed, tester.as_mut(), &common.placement, control);
        bench.traffic = common.traffic.frames(stream, variant)?;
        let stream = variant.stream(stream);
        let load_pps = load_pps / bench.path_count() as f64;
        let (sampled, offered) = std::thread::scope(|scope| {
            let sampler = scope.spawn(|| record(&observed, time, &|| control.is_stopped()));
            let offered = bench.load(&stream, load_pps, time + 3 * AROUND);
            let sampled = sampler
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (sampled, offered)
        });
        let counted = offered?;
        if counted.received_nothing() {
            return wrong("none of its frames came back");
        }
        let stacks = perf::read(&sampled?).map_err(|error| {
            LabError::Preflight(format!(
                "what perf script prints is not understood: {error}"
            ))
        })?;
        match stacks.total() {
            0 => wrong("perf took no sample of the DUT's CPUs"),
            _ => Ok(stacks),
        }
    }
}

/// Runs `perf` on the host, and returns its samples as text.
fn record(
    observed: &Observed,
    time: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> Result<String, HostError> {
    let cpus: Vec<String> = observed.cpus.iter().map(ToString::to_string).collect();
    let which = match cpus.is_empty() {
        true => "-a".to_owned(),
        false => format!("-C {}", cpus.join(",")),
    };
    // unlinked before anything is written to it, so that nothing is left behind if this is killed
    let text = format!(
        "command -v perf >/dev/null || {{ echo 'there is no program perf: install the package linux-perf there' >&2; exit 1; }}\n\
         file=$(mktemp) || exit 1\nexec 3<>\"$file\"\nrm -f \"$file\"\nfile=/proc/$$/fd/3\nsleep {}\n\
         perf record -q -F {FREQUENCY_HZ} -g {which} -o \"$file\" -- sleep {} >&2 && perf script -i \"$file\"",
        AROUND.as_secs_f64(),
        time.as_secs_f64()
    );
    let limit = Limit {
        time: time + PATIENCE,
        is_stopped,
    };
    let command = Command::shell(&text).called("perf record");
    let output = observed.host.run(&command, limit)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
