//! Bursts on a machine that counts its instructions: sender and receivers are behind its agent.
//!
//! There are two paths: through the DUT, and past it. The results are interpreted elsewhere. Start
//! with [`Bursts::open`].

use std::time::Duration;

use fwdlab_engine::{Addresses, Burst};
use fwdlab_model::campaign::Generator;
use fwdlab_model::instructions::Way;
use fwdlab_model::trial::Stream;

use crate::error::LabError;
use crate::host::wire::connection::unexpected_answer;
use crate::host::wire::{Answer, Path, Place, Question};
use crate::host::{HostError, Limit, Remote};

/// The pair of ports that bypasses the DUT.
pub(crate) const PAST: [&str; 2] = ["past0", "past1"];

/// The generator's namespace there.
pub(crate) const GENERATOR: &str = "gen";

/// Open sender and receivers.
#[derive(Debug)]
pub struct Bursts {
    host: Remote,
    generator: Generator,
}

impl Bursts {
    /// Opens them for a stream on the bed of a machine; `poller` is the process of a data plane
    /// that polls, and the number of its first threads that do not.
    ///
    /// # Errors
    /// The kernel there cannot send such frames, or the machine was lost.
    pub fn open(
        host: &Remote,
        addresses: &Addresses,
        stream: &Stream,
        generator: Generator,
        poller: Option<(u32, usize)>,
    ) -> Result<Bursts, LabError> {
        let port = |name: &str| -> (Place, String) { (Some(GENERATOR.into()), name.into()) };
        let path = |tx, rx| Path {
            tx: port(tx),
            rx: port(rx),
        };
        let question = Question::OpenBursts {
            paths: vec![path("tx0", "rx0"), path(PAST[0], PAST[1])],
            addresses: *addresses,
            stream: stream.clone(),
            generator,
            poller,
        };
        let action = "open sender and receivers";
        match host.put_to(action, &question, &[], Limit::OURS)? {
            (Answer::Sends(generator), _) => Ok(Bursts {
                host: host.clone(),
                generator,
            }),
            (other, _) => {
                Err(HostError::new("the machine", action, unexpected_answer(&other)).into())
            }
        }
    }

    /// Returns their sender.
    pub fn generator(&self) -> Generator {
        self.generator
    }

    /// Waits by the machine's clock, which runs fast while the machine is idle. No command may be
    /// waited for meanwhile, because that polls, and the clock then runs as slowly as that of the
    /// host.
    ///
    /// # Errors
    /// The machine was lost.
    pub fn rest(&self, time: Duration) -> Result<(), LabError> {
        let time_ms = time.as_millis() as u64;
        let rest = Question::Rest { time_ms };
        self.host.put_to("rest", &rest, &[], Limit::OURS)?;
        Ok(())
    }

    /// Sends a burst.
    ///
    /// # Errors
    /// It cannot be sent, or the machine was lost.
    pub fn send(&self, way: Way, frames: u32, limit: Limit<'_>) -> Result<Burst, LabError> {
        let action = "send a burst";
        let path = match way {
            Way::Through | Way::Half => 0,
            Way::Past => 1,
        };
        let question = Question::Burst { path, frames };
        match self.host.put_to(action, &question, &[], limit)? {
            (Answer::Burst(burst), _) => Ok(burst),
            (other, _) => {
                Err(HostError::new("the machine", action, unexpected_answer(&other)).into())
            }
        }
    }
}

impl Drop for Bursts {
    fn drop(&mut self) {
        // the machine may be gone, and sender and receivers with it
        let close = Question::CloseBursts;
        let _ = self
            .host
            .put_to("close sender and receivers", &close, &[], Limit::OURS);
    }
}
