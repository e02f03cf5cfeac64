//! A profile that sends: start, changes, pause and stop. `methods/traffic.rs` decides what clients
//! may request when. Start with [`Run::start`].

use std::time::Duration;

use fwdlab_engine::traffic::player::own_load_pps;
use fwdlab_engine::{EngineError, Frames, LoadPlan, Schedule, SendCounts, StallPolicy};
use fwdlab_lab::session::FOR_EVER;

use crate::load::Load;
use crate::rpc::Fault;
use crate::stream::Mode;
use crate::traffic::{Place, Plan, Setting};
use crate::wire::{Sending, Wire};

/// A profile that sends or is paused.
pub struct Run {
    pub plan: Plan,
    /// The current multiplier.
    pub factor: f64,
    /// Separate multipliers of single streams; 0: paused.
    own: Vec<Option<f64>>,
    setting: Setting,
    name: String,
    /// Where the groups of its streams are counted.
    places: Vec<Option<Place>>,
    at_most: Option<Duration>,
    /// `None` while it is paused with an engine that cannot pause.
    sender: Option<Box<dyn Sending>>,
    /// For each stream, the frames of the current sender that were already reported.
    told: Vec<u64>,
    /// Unreported frames of earlier senders.
    untold: Vec<u64>,
    /// Frames that were due and did not leave: already reported, and of earlier senders.
    missed: (u64, u64),
    pub is_paused: bool,
}

/// Start options of a run.
pub struct StartOptions {
    pub factor: f64,
    pub at_most: Option<Duration>,
    /// A time of CLOCK_MONOTONIC.
    pub at_ns: Option<u64>,
}

impl Run {
    /// Starts to send.
    pub fn start(
        wire: &dyn Wire,
        name: &str,
        plan: Plan,
        setting: Setting,
        places: Vec<Option<Place>>,
        begin: StartOptions,
    ) -> Result<Run, Fault> {
        let own = (plan.streams.iter())
            .map(|stream| stream.start_paused.then_some(0.0))
            .collect();
        let streams = plan.streams.len();
        let mut run = Run {
            plan,
            factor: begin.factor,
            own,
            setting,
            name: name.into(),
            places,
            at_most: begin.at_most,
            sender: None,
            told: vec![0; streams],
            untold: vec![0; streams],
            missed: (0, 0),
            is_paused: false,
        };
        run.send(wire, begin.at_ns)?;
        Ok(run)
    }

    fn send(&mut self, wire: &dyn Wire, at_ns: Option<u64>) -> Result<(), Fault> {
        let frames = self
            .plan
            .frames(&self.name, self.factor, &self.setting, |at| self.places[at]);
        let Frames::Traffic(traffic) = &frames else {
            return Ok(());
        };
        let schedule = Schedule {
            load: LoadPlan::Constant(own_load_pps(&traffic.traffic)),
            frames: None,
            at_most: self.at_most.unwrap_or(FOR_EVER),
            stall_policy: StallPolicy::CatchUp { most_pps: None },
            path: 0,
        };
        let sender = wire.send(frames, schedule, at_ns);
        self.sender = Some(sender.map_err(|error| {
            let more = match &error {
                EngineError::TooLong { needed, .. } => {
                    format!(", or start this server with --mtu {needed}")
                }
                _ => String::new(),
            };
            Fault::execute(format!("{error}{more}"))
        })?);
        self.told.fill(0);
        Ok(())
    }

    /// Returns true if everything is sent.
    pub fn is_done(&mut self) -> Result<bool, EngineError> {
        match &mut self.sender {
            Some(sender) => sender.is_done(),
            None => Ok(false),
        }
    }

    /// Returns true if it is endless, so that it can be paused.
    pub fn is_endless(&self) -> bool {
        let endless = |stream: &crate::stream::Stream| stream.mode == Mode::Continuous;
        self.at_most.is_none() && self.plan.streams.iter().all(endless)
    }

    /// Returns the current rate of each stream, without pauses.
    fn rates(&self) -> Vec<f64> {
        let rates = self.plan.rates(self.factor);
        let own = self.own.iter().zip(&self.plan.pps);
        let rate =
            |(rate, (own, pps)): (f64, (&Option<f64>, &f64))| own.map_or(rate, |own| own * pps);
        rates.into_iter().zip(own).map(rate).collect()
    }

    /// Changes the multiplier.
    pub fn set_factor(&mut self, wire: &dyn Wire, factor: f64) -> Result<(), Fault> {
        let before = std::mem::replace(&mut self.factor, factor);
        if self.is_paused {
            return Ok(());
        }
        let rates = self.rates();
        // an engine that cannot change single streams can still scale all of them
        let scales = self.own.iter().all(Option::is_none) && self.plan.base.fixed.pps == 0.0;
        let frames = self
            .plan
            .frames(&self.name, factor, &self.setting, |_| None);
        let Some(sender) = &mut self.sender else {
            return self.send(wire, None);
        };
        let done = match (sender.set_rates(&rates), &frames) {
            (Err(EngineError::Unsupported { .. }), Frames::Traffic(traffic)) if scales => {
                sender.set_load(own_load_pps(&traffic.traffic))
            }
            (done, _) => done,
        };
        match done {
            Ok(()) => Ok(()),
            Err(EngineError::Unsupported { .. }) => self.again(wire),
            Err(error) => {
                self.factor = before;
                Err(Fault::execute(error.to_string()))
            }
        }
    }

    /// Sets separate multipliers for some streams; `None`: use the common one again.
    pub fn set_own(
        &mut self,
        wire: &dyn Wire,
        streams: &[usize],
        own: Option<f64>,
    ) -> Result<(), Fault> {
        for &stream in streams {
            self.own[stream] = own;
        }
        match self.is_paused {
            true => Ok(()),
            false => self.steer(wire),
        }
    }

    fn steer(&mut self, wire: &dyn Wire) -> Result<(), Fault> {
        let rates = self.rates();
        let Some(sender) = &mut self.sender else {
            return self.send(wire, None);
        };
        match sender.set_rates(&rates) {
            Ok(()) => Ok(()),
            Err(EngineError::Unsupported { .. }) => self.again(wire),
            Err(error) => Err(Fault::execute(error.to_string())),
        }
    }

    /// Replaces the sender at the current rates: for engines that cannot change them.
    fn again(&mut self, wire: &dyn Wire) -> Result<(), Fault> {
        self.end()?;
        self.send(wire, None)?;
        if self.own.iter().any(Option::is_some) {
            let rates = self.rates();
            if let Some(sender) = &mut self.sender {
                (sender.set_rates(&rates)).map_err(|error| Fault::execute(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Pauses all streams.
    pub fn pause(&mut self) -> Result<(), Fault> {
        if self.is_paused {
            return Ok(());
        }
        self.is_paused = true;
        let none = vec![0.0; self.plan.streams.len()];
        let held = self.sender.as_mut().map(|sender| sender.set_rates(&none));
        match held {
            Some(Err(EngineError::Unsupported { .. })) => self.end(),
            Some(Err(error)) => Err(Fault::execute(error.to_string())),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// Resumes all streams.
    pub fn resume(&mut self, wire: &dyn Wire) -> Result<(), Fault> {
        self.is_paused = false;
        self.steer(wire)
    }

    /// Stops the sender; its counts are kept.
    fn end(&mut self) -> Result<(), Fault> {
        let Some(mut sender) = self.sender.take() else {
            return Ok(());
        };
        let counts = sender.stop();
        let counts = counts.map_err(|error| Fault::execute(error.to_string()))?;
        for (at, frames) in counts.streams.iter().enumerate() {
            self.untold[at] += frames - self.told[at];
        }
        self.told.fill(0);
        self.missed.1 += counts.not_sent;
        Ok(())
    }

    /// Returns the frames that were due and did not leave since the last call.
    pub fn missed(&mut self) -> u64 {
        let counts = self.sender.as_mut().and_then(|sender| sender.counts().ok());
        let all = self.missed.1 + counts.map_or(0, |counts| counts.not_sent);
        let before = std::mem::replace(&mut self.missed.0, all);
        all.saturating_sub(before)
    }

    /// Returns the current intended frames and bits per second.
    pub fn load(&self) -> Load {
        match self.is_paused {
            true => Load::default(),
            false => self.plan.base.times(self.factor),
        }
    }

    /// Stops it for good.
    pub fn stop(&mut self) -> Result<(), Fault> {
        self.end()
    }

    /// Returns the frames of each stream that were sent since the last call.
    pub fn news(&mut self) -> Vec<u64> {
        let mut news = std::mem::replace(&mut self.untold, vec![0; self.plan.streams.len()]);
        let counts = self.sender.as_mut().map(|sender| sender.counts());
        if let Some(Ok(SendCounts { streams, .. })) = counts {
            for (at, frames) in streams.into_iter().enumerate() {
                news[at] += frames.saturating_sub(self.told[at]);
                self.told[at] = self.told[at].max(frames);
            }
        }
        news
    }
}
