//! Several senders of live frames on the same ports, which together send the frames of one
//! ([`share`]).
//!
//! Each has a test run, and so a thread and a CPU, of its own: the driver chooses the queue by the
//! CPU. All begin at the same time, and their frames take turns. Start with [`senders`].

use std::time::Duration;

use super::{LEAD, XdpLive};
use crate::error::EngineError;
use crate::generator::{Capabilities, Mode, Schedule, SendCounts, Sender, SendingTimes};
use crate::histogram::Histogram;
use crate::netdev::check_cpus;
use crate::port::PathSpec;
use crate::sys::monotonic_ns;
use crate::traffic::Frames;
use crate::traffic::share::{self, Share};

/// Each start of a test run takes some milliseconds.
const LEAD_OF_EACH: Duration = Duration::from_millis(10);

/// Opens a sender with this number of threads on the sending ports of all paths.
///
/// # Errors
/// As [`XdpLive::open`]; if there are too few CPUs or queues.
pub(crate) fn senders(
    paths: &[PathSpec],
    cpus: &[usize],
    senders: u32,
) -> Result<Box<dyn Sender>, EngineError> {
    if senders == 1 {
        return Ok(Box::new(XdpLive::open(paths, cpus)?));
    }
    let shares = Share::all(senders)?;
    let cpus = check_cpus(Mode::XdpLive.name(), paths, cpus, senders)?;
    let open = |(share, cpu): (Share, usize)| XdpLive::open_share(paths, &[cpu], share);
    let parts = shares.into_iter().zip(cpus).map(open);
    Ok(Box::new(Several {
        parts: parts.collect::<Result<_, _>>()?,
        armed: None,
    }))
}

struct Several {
    parts: Vec<XdpLive>,
    armed: Option<Frames>,
}

impl Several {
    /// Does this with each sender; an error names it.
    fn each(
        &mut self,
        mut act: impl FnMut(&mut XdpLive) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let of = self.parts.len() as u32;
        (1..).zip(&mut self.parts).try_for_each(|(sender, part)| {
            act(part).map_err(|error| match error {
                error @ EngineError::Unsupported { .. } => error,
                error => EngineError::OfSender {
                    sender,
                    of,
                    reason: Box::new(error),
                },
            })
        })
    }

    fn lead(&self) -> Duration {
        LEAD + LEAD_OF_EACH * self.parts.len() as u32
    }
}

impl Sender for Several {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            senders: self.parts.len() as u16,
            queues: self.parts.len() as u16,
            profiles: false,
            summary: "XDP live frames: headers written in BPF for every frame, a thread and a CPU for each sender",
            ..super::CAPABILITIES
        }
    }

    fn arm(&mut self, frames: &Frames) -> Result<(), EngineError> {
        self.armed = None;
        share::check(frames, self.parts.len() as u32)?;
        self.each(|part| part.arm(frames))?;
        self.armed = Some(frames.clone());
        Ok(())
    }

    fn start(&mut self, schedule: Schedule) -> Result<(), EngineError> {
        let begin_ns = monotonic_ns() + self.lead().as_nanos() as u64;
        self.start_at(schedule, begin_ns)
    }

    fn start_at(&mut self, schedule: Schedule, begin_ns: u64) -> Result<(), EngineError> {
        let Some(frames) = &self.armed else {
            return Err(EngineError::Frames("the sender is not armed".into()));
        };
        let senders = self.parts.len() as u32;
        let own_frames = share::counts(frames, &schedule.load, schedule.frames, senders)?;
        let mut own_frames = own_frames.into_iter();
        let started = self.each(|part| {
            let frames = own_frames.next().flatten();
            // no frames would mean no limit; the counts are those of this trial all the same
            if frames == Some(0) {
                return part.loaded_mut().reset();
            }
            let own = Schedule {
                frames,
                ..schedule.clone()
            };
            part.start_at(own, begin_ns)
        });
        if started.is_err() {
            // the first error is reported
            let _ = self.stop();
        }
        started
    }

    fn select(&mut self, path: usize) -> Result<(), EngineError> {
        self.each(|part| part.select(path))
    }

    fn renew(&mut self) -> Result<Duration, EngineError> {
        let lead = self.lead();
        let begin_ns = monotonic_ns() + lead.as_nanos() as u64;
        let is_over_time =
            |part: &XdpLive| part.running.as_ref().is_none_or(|r| r.pieces.is_some());
        if self.parts.iter().all(is_over_time) {
            return Ok(Duration::ZERO);
        }
        self.each(|part| part.renew_at(begin_ns))?;
        Ok(lead)
    }

    fn set_load(&mut self, load_pps: f64) -> Result<(), EngineError> {
        self.each(|part| part.set_load(load_pps))
    }

    fn lateness(&self) -> Result<Option<Histogram>, EngineError> {
        let mut all: Option<Histogram> = None;
        for part in &self.parts {
            if let Some(own) = part.lateness()? {
                all.get_or_insert_default().merge(&own);
            }
        }
        Ok(all)
    }

    fn sending_times(&self) -> Option<SendingTimes> {
        let times = self.parts.iter().filter_map(Sender::sending_times);
        let times: Vec<SendingTimes> = times.collect();
        let ended = times.iter().map(|times| times.ended_ns);
        Some(SendingTimes {
            begun_ns: times.iter().map(|times| times.begun_ns).min()?,
            ended_ns: (ended.collect::<Option<Vec<_>>>()).and_then(|all| all.into_iter().max()),
            planned_ns: None,
        })
    }

    fn counts(&self) -> Result<SendCounts, EngineError> {
        let of_each = self.parts.iter().map(Sender::counts);
        Ok(SendCounts::of_senders(of_each.collect::<Result<_, _>>()?))
    }

    fn stop(&mut self) -> Result<SendCounts, EngineError> {
        // none sends on while the others stop, and all stop even if one fails
        let ended = self.each(XdpLive::end_frames);
        let mut stopped = Ok(());
        for part in &mut self.parts {
            let result = part.stop().map(drop);
            stopped = stopped.and(result);
        }
        ended.and(stopped)?;
        self.counts()
    }

    fn is_done(&self) -> bool {
        self.parts.iter().all(Sender::is_done)
    }
}
