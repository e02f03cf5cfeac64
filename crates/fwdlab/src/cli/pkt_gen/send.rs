//! `-f tx` and `-f txseq`: send frames with an automatically selected engine. Start with [`run`].

use std::time::Duration;

use fwdlab_engine::traffic::TrafficFrames;
use fwdlab_engine::traffic::reach;
use fwdlab_engine::{Frames, Mode, Schedule, StallPolicy};
use fwdlab_lab::ports::{Role, destinations};
use fwdlab_lab::session::figures::Counted;
use fwdlab_lab::session::{FOR_EVER, Period, Sending, Sent, Session};
use fwdlab_model::link::MeanSize;

use super::arguments::Function;
use super::lines::{self, Place, place};
use super::{Job, frames};
use crate::exit_code::Code;

/// Sends until all frames are sent or a signal arrives.
pub fn run(job: &Job<'_>) -> anyhow::Result<Code> {
    let Job { arguments, log, .. } = job;
    let port = job.ports.take_interface(&job.interface, &[Role::Send])?;
    let source_mac = job.source_mac(&port.facts)?;
    let captured = arguments
        .capture
        .as_deref()
        .map(|file| job.captured(file, port.facts.mtu))
        .transpose()?;
    let size = captured.as_ref().map_or(arguments.size, |c| c.len() as u16);
    job.check_destinations(captured.as_deref())?;
    job.check_size(size, port.facts.mtu)?;
    let traffic =
        frames::traffic(arguments, source_mac, captured, job.seed).map_err(super::wrong)?;
    let bytes = match arguments.least_size {
        // random sizes are uniform, so their mean is enough: do not count each size
        Some(least) => u64::from(least) + u64::from(size - 1),
        None => 2 * u64::from(size),
    };
    let schedule = Schedule {
        load: arguments.rate_pps.map(|rate| rate as f64).into(),
        frames: arguments.frames,
        at_most: FOR_EVER,
        stall_policy: StallPolicy::CatchUp { most_pps: None },
        path: 0,
    };
    let frames = Frames::Traffic(TrafficFrames { traffic, nonce: 0 });
    let mean = MeanSize::new(bytes + 8, 2).ok_or_else(|| super::wrong("bad pktsize"))?;
    let engines = job.engine.as_ref();
    let engines = engines.map_or(&Mode::ALL[..], std::slice::from_ref);
    let sending = Sending::open(port, engines, &job.cpus(), frames, schedule, mean, 1)?;
    let mut session = Session::new(vec![sending], vec![]);

    log.print(&lines::opened("Sending on", &job.shown, 1, arguments.cpus));
    let (source, destination) = &arguments.addresses_typed;
    log.print(&format!(
        "{source} -> {destination} ({} -> {})\n",
        lines::mac(source_mac),
        lines::mac(arguments.destination_mac),
    ));
    let (batch, gap_ns) = match arguments.rate_pps {
        Some(rate) => (1, 1_000_000_000 / rate),
        None => (arguments.burst(), 0),
    };
    log.message(
        place::SENDING,
        &format!(
            "Sending {batch} packets every  {}.{:09} s",
            gap_ns / 1_000_000_000,
            gap_ns % 1_000_000_000
        ),
    );
    if !job.wait() {
        return Ok(job.signals.code(true));
    }
    let Lines { start, flush } = Lines::for_function(arguments.function);
    log.message(start, "start, fd 3 main_fd 3");

    let mut printed = false;
    let control = job.signals.control();
    let result = session.start(control).and_then(|()| {
        if arguments.verbose {
            let engine = session.sending[0].source.engine();
            log.remark(&format!("sent by {}", engine.mode));
            (engine.not_taken.iter()).for_each(|reason| log.remark(reason));
        }
        session.run(control, arguments.report, &mut |period| {
            let (counted, length) = counted_in(period, bytes);
            log.rate(counted, length);
            printed = true;
        })
    });
    let whole = result.map_err(|error| job.failed(error))?;
    let (counted, length) = counted_in(&whole, bytes);
    if !printed {
        log.rate(counted, length);
    }
    log.message(flush, "flush tail 0 head 0 on thread 0");
    if let Some(sent) = whole.sent.first().filter(|sent| sent.dropped() > 0) {
        log.remark(&format!(
            "{} frames were given to the port and never left it",
            sent.dropped()
        ));
    }
    if let Some(sent) = whole.sent.first().filter(|sent| sent.not_sent > 0) {
        log.remark(&format!(
            "{} frames were due but could not be sent: this host cannot send at the requested rate",
            sent.not_sent
        ));
    }
    log.totals("Sent", counted, whole.duration_s);
    Ok(job.signals.code(true))
}

/// Origins of the messages at the start and at the end, as in the original.
struct Lines {
    start: Place,
    flush: Place,
}

impl Lines {
    fn for_function(function: Function) -> Lines {
        match function {
            Function::TxSeq => Lines {
                start: place::SEQUENCE_START,
                flush: place::SEQUENCE_FLUSH,
            },
            _ => Lines {
                start: place::SENDER_START,
                flush: place::SENDER_FLUSH,
            },
        }
    }
}

/// Returns the counters of a period, and its duration. Two frames have `bytes_of_two` bytes.
fn counted_in(period: &Period, bytes_of_two: u64) -> (Counted, Duration) {
    let sent = period.sent.first();
    let frames = sent.map_or(0, Sent::left);
    let counted = Counted {
        frames,
        bytes: (u128::from(frames) * u128::from(bytes_of_two) / 2) as u64,
        batches: sent.map_or(0, |sent| sent.wakeups),
    };
    let us = (period.duration_s * 1e6).round().max(1.0) as u64;
    (counted, Duration::from_micros(us))
}

impl Job<'_> {
    /// Checks the destinations and sources against RFC 6815: the configured ranges, or the
    /// addresses in a captured frame. Does not check MAC addresses; like the original, frames are
    /// broadcast unless -D is set.
    fn check_destinations(&self, captured: Option<&[u8]>) -> anyhow::Result<()> {
        if self.to_any_address {
            return Ok(());
        }
        match captured {
            Some(frame) => destinations::check_reach(&reach::frame_reach(frame))?,
            None => {
                destinations::check([self.arguments.destinations()])?;
                destinations::check_sources([self.arguments.sources()])?;
            }
        }
        Ok(())
    }
}
