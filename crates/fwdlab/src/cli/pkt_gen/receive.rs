//! `-f rx`: everything that arrives on a port, counted and taken away.

use std::time::{Duration, Instant};

use fwdlab_engine::PortSpec;
use fwdlab_engine::sink::{Sink, Sunk};
use fwdlab_lab::ports::{Role, counters, state};

use super::Job;
use super::lines::{self, Counted, place};
use crate::exit_code::Code;

/// How often we look; also how exactly the first and the last frame are timed.
const POLL: Duration = Duration::from_millis(2);
/// The original's patience.
const SECOND: Duration = Duration::from_secs(1);

/// What counts the frames.
enum Counter {
    /// They go no further.
    Sink(Sink),
    /// The port's own counters: the frames go on up the stack.
    Port(PortSpec),
}

impl Counter {
    fn read(&self) -> anyhow::Result<Counted> {
        let Sunk { frames, bytes } = match self {
            Counter::Sink(sink) => sink.counts()?,
            Counter::Port(spec) => {
                let port = counters::read(spec)?;
                Sunk {
                    frames: port.rx_packets,
                    bytes: port.rx_bytes,
                }
            }
        };
        Ok(Counted {
            frames,
            bytes,
            batches: 0,
        })
    }
}

/// Receives until a signal comes, or with `-W` until nothing comes any more.
pub fn run(job: &Job<'_>) -> anyhow::Result<Code> {
    let Job { arguments, log, .. } = job;
    let port = job.ports.take(&job.interface, &[Role::Receive])?;
    let counter = match Sink::open(&port.spec) {
        Ok(sink) => Counter::Sink(sink),
        Err(error) => {
            log.remark(&format!(
                "{error}. The counters of {} are read instead, and its frames continue up the stack",
                job.interface
            ));
            Counter::Port(port.spec.clone())
        }
    };
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

    // what came before was not waited for, as the original's ring would have kept the last of it
    let begin = counter.read()?;
    let opened = Instant::now();
    let mut reported = (opened, begin);
    let mut seen = (opened, begin.frames);
    let mut first: Option<Instant> = None;
    let mut complained = opened;
    let mut checked = opened;
    let ended = loop {
        std::thread::sleep(POLL);
        let now = Instant::now();
        let counted = counter.read()?;
        if counted.frames != seen.1 {
            first.get_or_insert(now);
            seen = (now, counted.frames);
        }
        if first.is_none() && now - complained >= SECOND {
            complained = now;
            log.message(
                place::WAITING,
                "waiting for initial packets, poll returns 0 0",
            );
        }
        let silent = arguments.until_silence && first.is_some() && now - seen.0 >= SECOND;
        let over = silent || job.signals.is_stopped();
        let since = now - reported.0;
        if since >= arguments.report || over && since >= Duration::from_millis(10) {
            log.rate(counted.since(reported.1), since.as_micros() as u64);
            reported = (now, counted);
        }
        if over {
            // the original takes the second of silence off
            break if silent { seen.0 } else { now };
        }
        if now - checked >= SECOND {
            checked = now;
            if let Err(error) = state::check(&port.spec) {
                log.message(place::OUCH, "ouch, thread 0 exited with error");
                return Err(error.into());
            }
        }
    };
    let all = reported.1.since(begin);
    let seconds = first.map_or(0.0, |first| (ended - first).as_secs_f64());
    log.totals("Received", all, seconds);
    Ok(job.signals.code(true))
}
