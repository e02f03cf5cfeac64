//! Counts all frames that arrive on a port, from any sender, and keeps them from the network stack
//! if possible.
//!
//! For frames of others; frames of ours are counted by a [`Receiving`](super::Receiving). Start
//! with [`Absorber::open`], then [`Absorber::run`].

use std::time::{Duration, Instant};

use fwdlab_engine::EngineError;
use fwdlab_engine::sink::{Sink, SinkCounts};

use super::figures::Counted;
use super::watch::Watch;
use super::{POLL, SECOND};
use crate::control::Control;
use crate::error::LabError;
use crate::ports::{Port, counters};

/// A port whose frames are taken from the stack.
pub struct Absorber {
    port: Port,
    /// `Err`: the port's own counters are read, and the frames continue up the stack.
    sink: Result<Sink, EngineError>,
    /// Ends when nothing has arrived for a second after the first frame.
    pub until_silence: bool,
}

/// Progress of an absorber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absorbing {
    /// Another second without the first frame.
    Waiting,
    /// The frames of an interval, and its length.
    Interval(Counted, Duration),
}

/// Totals of an absorber.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Absorbed {
    /// All frames.
    pub counted: Counted,
    /// From the first frame to the end, without the silence that ended it.
    pub duration: Duration,
}

impl Absorber {
    /// Takes the frames of this port from the stack from now on, if possible.
    pub fn open(port: Port) -> Absorber {
        Absorber {
            sink: Sink::open(&port.spec),
            port,
            until_silence: false,
        }
    }

    /// Returns why its frames are only counted, and continue up the stack.
    pub fn refusal(&self) -> Option<&EngineError> {
        self.sink.as_ref().err()
    }

    /// Counts until it is over or stopped. Earlier frames are not counted.
    ///
    /// # Errors
    /// Fails if the counters cannot be read, or the port went down or disappeared.
    pub fn run(
        &mut self,
        control: &Control,
        interval: Duration,
        report: &mut dyn FnMut(Absorbing),
    ) -> Result<Absorbed, LabError> {
        let begin = self.read()?;
        let opened = Instant::now();
        let mut watch = Watch::new(&self.port, interval, begin);
        let mut observed = (opened, begin.frames);
        let mut first: Option<Instant> = None;
        let mut complained = opened;
        loop {
            std::thread::sleep(POLL);
            let now = Instant::now();
            let counted = self.read()?;
            if counted.frames != observed.1 {
                first.get_or_insert(now);
                observed = (now, counted.frames);
            }
            if first.is_none() && now - complained >= SECOND {
                complained = now;
                report(Absorbing::Waiting);
            }
            let silent = self.until_silence && first.is_some() && now - observed.0 >= SECOND;
            let over = silent || control.is_stopped();
            if let Some((counted, length)) = watch.interval(now, counted, over) {
                report(Absorbing::Interval(counted, length));
            }
            if over {
                let ended = if silent { observed.0 } else { now };
                return Ok(Absorbed {
                    counted: counted.since(begin),
                    duration: first.map_or(Duration::ZERO, |first| ended - first),
                });
            }
            watch.check(now)?;
        }
    }

    fn read(&self) -> Result<Counted, LabError> {
        let (frames, bytes) = match &self.sink {
            Ok(sink) => {
                let SinkCounts { frames, bytes } = sink.counts()?;
                (frames, bytes)
            }
            Err(_) => {
                let port = counters::read(&self.port.spec)?;
                (port.rx_packets, port.rx_bytes)
            }
        };
        Ok(Counted {
            frames,
            bytes,
            batches: 0,
        })
    }
}
