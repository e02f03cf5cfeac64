//! The asking side: a sender and a receiver that are in another process.
//!
//! Start with [`RemoteSender::open`] and [`RemoteReceiver::open`].

use std::time::Duration;

use super::{Answer, OfReceiver, OfSender, Question, packed};
use crate::analysis::{Analysis, Expected, ReceiveCounts};
use crate::error::EngineError;
use crate::generator::{
    Capabilities, Counting, Mode, Receiver, Schedule, SendCounts, Sender, SendingTimes,
};
use crate::histogram::Histogram;
use crate::traffic::Frames;

/// A process that is silent for this long while frames flow is considered lost, which ends the
/// traffic.
const ALIVE: Duration = Duration::from_millis(900);
/// For everything else: a process that hangs is noticed.
const PATIENCE: Duration = Duration::from_secs(300);

/// A way to put questions to another process.
pub trait Link: Send {
    /// Puts a question, and returns the answer; `action` says what is tried, for errors.
    ///
    /// # Errors
    /// The other process refuses, does not answer within this time, or is gone.
    fn query(
        &self,
        action: &str,
        question: Question,
        bytes: &[u8],
        patience: Duration,
    ) -> Result<Answer, EngineError>;

    /// Returns the error for an answer to another question.
    fn unexpected(&self, action: &str, answer: Answer) -> EngineError;
}

fn done(
    link: &impl Link,
    action: &str,
    question: Question,
    bytes: &[u8],
) -> Result<(), EngineError> {
    match link.query(action, question, bytes, PATIENCE)? {
        Answer::Done => Ok(()),
        other => Err(link.unexpected(action, other)),
    }
}

/// A sender in another process. It is closed there when it is dropped.
pub struct RemoteSender<L: Link> {
    link: L,
    number: u32,
    capabilities: Capabilities,
}

impl<L: Link> RemoteSender<L> {
    /// Opens a sender there into the ports with these names.
    ///
    /// # Errors
    /// Those of the process, or of the link.
    pub fn open(
        link: L,
        ports: Vec<String>,
        mode: Mode,
        cpus: &[usize],
        senders: u32,
    ) -> Result<RemoteSender<L>, EngineError> {
        let action = "open a sender";
        let question = Question::OpenSender {
            ports,
            mode,
            cpus: cpus.to_vec(),
            senders,
        };
        match link.query(action, question, &[], PATIENCE)? {
            Answer::Sender(number, capabilities) => Ok(RemoteSender {
                link,
                number,
                capabilities,
            }),
            other => Err(link.unexpected(action, other)),
        }
    }

    fn ask(&self, action: &str, question: OfSender, time: Duration) -> Result<Answer, EngineError> {
        let question = Question::Sender(self.number, question);
        self.link.query(action, question, &[], time)
    }

    fn done(&self, action: &str, question: OfSender, bytes: &[u8]) -> Result<(), EngineError> {
        let question = Question::Sender(self.number, question);
        done(&self.link, action, question, bytes)
    }

    fn sent(&self, action: &str, question: OfSender) -> Result<(SendCounts, u64), EngineError> {
        match self.ask(action, question, PATIENCE)? {
            Answer::Sent(counts, at_ns) => Ok((counts, at_ns)),
            other => Err(self.link.unexpected(action, other)),
        }
    }
}

impl<L: Link> Sender for RemoteSender<L> {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn arm(&mut self, frames: &Frames) -> Result<(), EngineError> {
        let bytes = packed(frames).map_err(EngineError::Frames)?;
        self.done("prepare the frames of a trial", OfSender::Arm, &bytes)
    }

    fn start(&mut self, schedule: Schedule) -> Result<(), EngineError> {
        self.done("start to send", OfSender::Start(schedule), &[])
    }

    fn select(&mut self, path: usize) -> Result<(), EngineError> {
        self.done("send into another path", OfSender::Select(path), &[])
    }

    fn renew(&mut self) -> Result<Duration, EngineError> {
        let action = "continue from other memory";
        match self.ask(action, OfSender::Renew, PATIENCE)? {
            Answer::Paused(time) => Ok(time),
            other => Err(self.link.unexpected(action, other)),
        }
    }

    fn set_load(&mut self, load_pps: f64) -> Result<(), EngineError> {
        self.done("change the load", OfSender::SetLoad(load_pps), &[])
    }

    fn set_rates(&mut self, rates: &[f64]) -> Result<(), EngineError> {
        let question = OfSender::SetRates(rates.to_vec());
        self.done("change the rates of streams", question, &[])
    }

    fn lateness(&self) -> Result<Option<Histogram>, EngineError> {
        let action = "read how late frames left";
        match self.ask(action, OfSender::Lateness, PATIENCE)? {
            Answer::Lateness(lateness) => Ok(lateness),
            other => Err(self.link.unexpected(action, other)),
        }
    }

    fn sending_times(&self) -> Option<SendingTimes> {
        match self.ask("read when frames left", OfSender::Times, PATIENCE) {
            Ok(Answer::Times(times)) => times,
            _ => None,
        }
    }

    fn counts(&self) -> Result<SendCounts, EngineError> {
        Ok(self.counts_at()?.0)
    }

    fn counts_at(&self) -> Result<(SendCounts, u64), EngineError> {
        self.sent("read the counts of a sender", OfSender::Sent)
    }

    fn stop(&mut self) -> Result<SendCounts, EngineError> {
        Ok(self.stop_at()?.0)
    }

    fn stop_at(&mut self) -> Result<(SendCounts, u64), EngineError> {
        self.sent("stop to send", OfSender::Stop)
    }

    /// A lost sender sends nothing more; the next reading of its counts returns the error.
    fn is_done(&self) -> bool {
        let answer = self.ask("see whether all is sent", OfSender::IsDone, ALIVE);
        !matches!(answer, Ok(Answer::IsDone(false)))
    }
}

impl<L: Link> Drop for RemoteSender<L> {
    fn drop(&mut self) {
        // the process may be gone, and the sender with it
        let _ = self.done("close a sender", OfSender::Close, &[]);
    }
}

/// A receiver in another process. It is closed there when it is dropped.
pub struct RemoteReceiver<L: Link> {
    link: L,
    number: u32,
    counting: Counting,
}

impl<L: Link> RemoteReceiver<L> {
    /// Opens a receiver there on the port with this name.
    ///
    /// # Errors
    /// Those of the process, or of the link.
    pub fn open(
        link: L,
        port: &str,
        counting: Counting,
        cpus: &[usize],
    ) -> Result<RemoteReceiver<L>, EngineError> {
        let action = "open a receiver";
        let question = Question::OpenReceiver {
            port: port.to_owned(),
            counting: counting.name().into(),
            cpus: cpus.to_vec(),
        };
        match link.query(action, question, &[], PATIENCE)? {
            Answer::Receiver(number) => Ok(RemoteReceiver {
                link,
                number,
                counting,
            }),
            other => Err(link.unexpected(action, other)),
        }
    }

    fn ask(
        &self,
        action: &str,
        question: OfReceiver,
        time: Duration,
    ) -> Result<Answer, EngineError> {
        let question = Question::Receiver(self.number, question);
        self.link.query(action, question, &[], time)
    }
}

impl<L: Link> Receiver for RemoteReceiver<L> {
    fn name(&self) -> &'static str {
        self.counting.name()
    }

    fn expect(&mut self, expected: &Expected) -> Result<(), EngineError> {
        let question = Question::Receiver(self.number, OfReceiver::Expect(expected.clone()));
        done(&self.link, "expect the frames of a trial", question, &[])
    }

    fn counts(&mut self) -> Result<ReceiveCounts, EngineError> {
        Ok(self.counts_at()?.0)
    }

    fn counts_at(&mut self) -> Result<(ReceiveCounts, u64), EngineError> {
        let action = "read the counts of a receiver";
        match self.ask(action, OfReceiver::Received, ALIVE)? {
            Answer::Received(counts, at_ns) => Ok((counts, at_ns)),
            other => Err(self.link.unexpected(action, other)),
        }
    }

    fn is_lost(&self) -> bool {
        let action = "check whether it responds";
        let answer = self.link.query(action, Question::Here, &[], ALIVE);
        !matches!(answer, Ok(Answer::Done))
    }

    fn analysis(&mut self) -> Result<Option<Analysis>, EngineError> {
        let action = "read what a receiver found out";
        match self.ask(action, OfReceiver::Analysis, PATIENCE)? {
            Answer::Analysis(found) => Ok(found),
            other => Err(self.link.unexpected(action, other)),
        }
    }
}

impl<L: Link> Drop for RemoteReceiver<L> {
    fn drop(&mut self) {
        let question = Question::Receiver(self.number, OfReceiver::Close);
        let _ = done(&self.link, "close a receiver", question, &[]);
    }
}
