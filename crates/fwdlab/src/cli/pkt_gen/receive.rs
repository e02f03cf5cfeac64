//! `-f rx`: receives, counts and drops all frames that arrive on a port. Start with [`run`].

use fwdlab_lab::ports::Role;
use fwdlab_lab::session::absorber::{Absorber, Absorbing};

use super::Job;
use super::lines::{self, place};
use crate::exit_code::Code;

/// Receives until a signal arrives, or with `-W` until no more frames arrive.
pub fn run(job: &Job<'_>) -> anyhow::Result<Code> {
    let Job { arguments, log, .. } = job;
    let port = job.ports.take_interface(&job.interface, &[Role::Receive])?;
    let mut absorber = Absorber::open(port);
    absorber.until_silence = arguments.until_silence;
    if let Some(error) = absorber.refusal() {
        log.remark(&format!(
            "{error}. The counters of {} are read instead, and its frames continue up the stack",
            job.interface
        ));
    }
    log.print(&lines::opened(
        "Receiving from",
        &job.shown,
        1,
        arguments.cpus,
    ));
    if !job.wait() {
        return Ok(job.signals.code(true));
    }
    log.message(
        place::READING,
        &format!("reading from {} fd 3 main_fd 3", job.shown),
    );
    let absorbed = absorber.run(
        job.signals.control(),
        arguments.report,
        &mut |what| match what {
            Absorbing::Waiting => log.message(
                place::WAITING,
                "waiting for initial packets, poll returns 0 0",
            ),
            Absorbing::Interval(counted, length) => log.rate(counted, length),
        },
    );
    let absorbed = absorbed.map_err(|error| job.failed(error))?;
    log.totals(
        "Received",
        absorbed.counted,
        absorbed.duration.as_secs_f64(),
    );
    Ok(job.signals.code(true))
}
