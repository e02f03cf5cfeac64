//! A sender or a receiver on its own: one port, no path through a DUT, no proof.
//!
//! The engine is chosen once the frames are known: the fastest that can send them. The reasons for
//! rejecting faster ones are kept. For paths with a DUT use [`Tester`](crate::Tester). Start with
//! [`PortSender::open`].

use crate::analysis::Expected;
use crate::error::EngineError;
use crate::generator::{Counting, Mode, Receiver, Sender};
use crate::mtu;
use crate::port::{PathSpec, PortSpec};
use crate::stamps::Kind;
use crate::tester::{Rejected, open_receiver, open_sender};
use crate::traffic::Frames;

/// A sender on one port.
pub struct PortSender {
    path: PathSpec,
    cpus: Vec<usize>,
    senders: u32,
    forced: bool,
    /// Engines not tried yet, fastest first.
    left: Vec<Mode>,
    sender: Option<Box<dyn Sender>>,
    stamps: Kind,
    rejected: Vec<Rejected>,
}

impl PortSender {
    /// Opens the requested engine, or the fastest that opens on this port.
    ///
    /// # Errors
    /// If the requested engine does not open, or none does.
    pub fn open(
        port: &PortSpec,
        mode: Option<Mode>,
        cpus: &[usize],
    ) -> Result<PortSender, EngineError> {
        PortSender::open_among(
            port,
            mode.as_ref().map_or(Mode::of(port), std::slice::from_ref),
            cpus,
            1,
        )
    }

    /// Opens the first of these engines that opens on this port, with this number of threads.
    ///
    /// # Errors
    /// If none opens.
    pub fn open_among(
        port: &PortSpec,
        modes: &[Mode],
        cpus: &[usize],
        senders: u32,
    ) -> Result<PortSender, EngineError> {
        let mut lone = PortSender {
            path: PathSpec {
                tx: port.clone(),
                rx: port.clone(),
            },
            cpus: cpus.to_vec(),
            senders,
            forced: modes.len() == 1,
            left: modes.to_vec(),
            sender: None,
            stamps: Kind::User,
            rejected: Vec::new(),
        };
        lone.open_next()?;
        Ok(lone)
    }

    /// Records such departures, with the next engine if this one cannot.
    ///
    /// # Errors
    /// If the requested engine cannot, or none can.
    pub fn stamp(&mut self, kind: Kind) -> Result<(), EngineError> {
        self.stamps = kind;
        match self.sender()?.stamp(kind) {
            Err(reason @ EngineError::Unsupported { .. }) => self.take_next(reason),
            result => result,
        }
    }

    /// Prepares frames, with the next engine if this one cannot send them.
    ///
    /// # Errors
    /// If the requested engine cannot send such frames, or none can; [`EngineError::TooLong`].
    pub fn arm(&mut self, frames: &Frames) -> Result<(), EngineError> {
        mtu::check(&self.path.tx, frames.most())?;
        loop {
            match self.sender()?.arm(frames) {
                Err(reason @ EngineError::Unsupported { .. }) => self.take_next(reason)?,
                result => return result,
            }
        }
    }

    /// Prepares frames with the next engine, because this one does not work here.
    ///
    /// # Errors
    /// As [`PortSender::arm`]; `reason` itself if the engine was requested.
    pub fn reject(&mut self, reason: EngineError, frames: &Frames) -> Result<(), EngineError> {
        self.take_next(reason)?;
        self.arm(frames)
    }

    /// Returns the engine.
    ///
    /// # Errors
    /// If there is none, after a failed [`PortSender::arm`].
    pub fn sender(&mut self) -> Result<&mut dyn Sender, EngineError> {
        match &mut self.sender {
            Some(sender) => Ok(sender.as_mut()),
            None => Err(EngineError::Frames("there is no engine".into())),
        }
    }

    /// Returns the engines that were tried and rejected.
    pub fn rejected(&self) -> &[Rejected] {
        &self.rejected
    }

    fn take_next(&mut self, reason: EngineError) -> Result<(), EngineError> {
        let Some(sender) = self.sender.take() else {
            return Err(reason);
        };
        if self.forced {
            return Err(reason);
        }
        self.rejected.push(Rejected {
            engine: sender.capabilities().mode.name(),
            reason,
        });
        // the rings and programs of this engine may block the next one
        drop(sender);
        self.open_next()
    }

    fn open_next(&mut self) -> Result<(), EngineError> {
        while !self.left.is_empty() {
            let mode = self.left.remove(0);
            let opened = open_sender(
                mode,
                std::slice::from_ref(&self.path),
                &self.cpus,
                self.senders,
            )
            .and_then(|mut sender| sender.stamp(self.stamps).map(|()| sender));
            match opened {
                Ok(sender) => {
                    self.sender = Some(sender);
                    return Ok(());
                }
                Err(reason) if self.forced => return Err(reason),
                Err(reason) => self.rejected.push(Rejected {
                    engine: mode.name(),
                    reason,
                }),
            }
        }
        Err(EngineError::NoneWorks(words(&self.rejected)))
    }
}

/// A receiver on one port.
pub struct PortReceiver {
    port: PortSpec,
    forced: bool,
    left: Vec<Counting>,
    receiver: Option<Box<dyn Receiver>>,
    stamps: Kind,
    rejected: Vec<Rejected>,
}

impl PortReceiver {
    /// Opens the requested receiver, or the cheapest that opens on this port.
    ///
    /// # Errors
    /// If the requested receiver does not open, or none does.
    pub fn open(port: &PortSpec, counting: Option<Counting>) -> Result<PortReceiver, EngineError> {
        let mut lone = PortReceiver {
            port: port.clone(),
            forced: counting.is_some(),
            left: counting.map_or_else(|| Counting::of(port).to_vec(), |counting| vec![counting]),
            receiver: None,
            stamps: Kind::User,
            rejected: Vec::new(),
        };
        lone.open_next()?;
        Ok(lone)
    }

    /// Records such arrivals, with the next receiver if this one cannot.
    ///
    /// # Errors
    /// If the requested receiver cannot, or none can.
    pub fn stamp(&mut self, kind: Kind) -> Result<(), EngineError> {
        self.stamps = kind;
        match self.receiver()?.stamp(kind) {
            Err(reason @ EngineError::Unsupported { .. }) => self.take_next(reason),
            result => result,
        }
    }

    /// Sets the frames to expect from now on, with the next receiver if this one cannot find them
    /// or make the analysis.
    ///
    /// # Errors
    /// If the requested receiver cannot, or none can.
    pub fn expect(&mut self, expected: &Expected) -> Result<(), EngineError> {
        loop {
            match self.receiver()?.expect(expected) {
                Err(reason @ EngineError::Unsupported { .. }) => self.take_next(reason)?,
                result => return result,
            }
        }
    }

    /// Returns the receiver.
    ///
    /// # Errors
    /// If there is none, after a failed [`PortReceiver::expect`].
    pub fn receiver(&mut self) -> Result<&mut dyn Receiver, EngineError> {
        match &mut self.receiver {
            Some(receiver) => Ok(receiver.as_mut()),
            None => Err(EngineError::Frames("there is no receiver".into())),
        }
    }

    /// Returns the receivers that were tried and rejected.
    pub fn rejected(&self) -> &[Rejected] {
        &self.rejected
    }

    fn take_next(&mut self, reason: EngineError) -> Result<(), EngineError> {
        if self.forced {
            return Err(reason);
        }
        if let Some(receiver) = self.receiver.take() {
            self.rejected.push(Rejected {
                engine: receiver.name(),
                reason,
            });
        }
        self.open_next()
    }

    fn open_next(&mut self) -> Result<(), EngineError> {
        while !self.left.is_empty() {
            let counting = self.left.remove(0);
            let opened = open_receiver(counting, &self.port);
            let opened =
                opened.and_then(|mut receiver| receiver.stamp(self.stamps).map(|()| receiver));
            match opened {
                Ok(receiver) => {
                    self.receiver = Some(receiver);
                    return Ok(());
                }
                Err(reason) if self.forced => return Err(reason),
                Err(reason) => self.rejected.push(Rejected {
                    engine: counting.name(),
                    reason,
                }),
            }
        }
        Err(EngineError::NoneWorks(words(&self.rejected)))
    }
}

fn words(rejected: &[Rejected]) -> String {
    let reasons: Vec<String> = rejected
        .iter()
        .map(|rejected| format!("{}: {}", rejected.engine, rejected.reason))
        .collect();
    reasons.join("; ")
}
