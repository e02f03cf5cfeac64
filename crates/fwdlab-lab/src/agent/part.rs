//! One part of a tester at an agent: the sender or the receivers, while the other part is on
//! another machine.
//!
//! [`wire::part`](crate::host::wire::part) defines the questions and answers;
//! [`crate::tester::distributed`] asks and combines the parts. Start with [`Parts`].

use fwdlab_engine::{Counting, PortSpec, Receiver, Sender, mtu, open_receiver, open_sender};

use super::serve::{port, refused};
use crate::host::Failure;
use crate::host::wire::part::{Answer, Question, unpacked};

/// The open parts.
#[derive(Default)]
pub(super) struct Parts {
    sender: Option<(PortSpec, Box<dyn Sender>)>,
    receivers: Vec<Box<dyn Receiver>>,
}

impl Parts {
    /// Answers a question with the engine of this process; also returns whether frames may flow
    /// afterwards, if that changes.
    pub fn answer(
        &mut self,
        question: Question,
        bytes: &[u8],
    ) -> Result<(Answer, Option<bool>), Failure> {
        let done = Ok((Answer::Done, None));
        match question {
            Question::Here => return done,
            Question::CloseSender => {
                self.sender = None;
                return Ok((Answer::Done, Some(false)));
            }
            Question::CloseReceivers => {
                self.receivers.clear();
                return done;
            }
            Question::OpenSender {
                port: (place, interface),
                mode,
                cpus,
                senders,
            } => {
                self.sender = None;
                let spec = port(place, interface);
                let path = fwdlab_engine::PathSpec {
                    tx: spec.clone(),
                    rx: spec.clone(),
                };
                let sender = open_sender(mode, &[path], &cpus, senders).map_err(refused)?;
                let capabilities = sender.capabilities();
                let words = format!("{} ({})", capabilities.reached(), capabilities.summary);
                self.sender = Some((spec, sender));
                return Ok((
                    Answer::OpenedSender(words, capabilities.senders),
                    Some(false),
                ));
            }
            Question::OpenReceivers { ports, counting } => {
                self.receivers.clear();
                let known = Counting::ALL.into_iter().find(|of| of.name() == counting);
                let counting = known
                    .ok_or_else(|| Failure::Refused(format!("there is no receiver {counting}")))?;
                let opened = ports
                    .into_iter()
                    .map(|(place, interface)| open_receiver(counting, &port(place, interface)));
                self.receivers = opened.collect::<Result<_, _>>().map_err(refused)?;
                return Ok((Answer::Opened(counting.name().into()), None));
            }
            Question::Expect { receiver, expected } => {
                self.receiver(receiver)?
                    .expect(&expected)
                    .map_err(refused)?;
                return done;
            }
            Question::Received { receiver } => {
                let counted = self.receiver(receiver)?.counts_at();
                let (counts, at_ns) = counted.map_err(refused)?;
                return Ok((Answer::Received(counts, at_ns), None));
            }
            Question::Analysis { receiver } => {
                let found = self.receiver(receiver)?.analysis().map_err(refused)?;
                return Ok((Answer::Analysis(found), None));
            }
            _ => {}
        }
        let Some((spec, sender)) = &mut self.sender else {
            return Err(Failure::Refused("no sender is open".into()));
        };
        Ok(match question {
            Question::Arm => {
                let frames = unpacked(bytes)?;
                mtu::check(spec, frames.most()).map_err(refused)?;
                sender.arm(&frames).map_err(refused)?;
                (Answer::Done, None)
            }
            Question::Start(schedule) => {
                sender.start(schedule).map_err(refused)?;
                (Answer::Done, Some(true))
            }
            Question::Renew => (Answer::Paused(sender.renew().map_err(refused)?), None),
            Question::IsDone => (Answer::IsDone(sender.is_done()), None),
            Question::Sent => {
                let (counts, at_ns) = sender.counts_at().map_err(refused)?;
                (Answer::Sent(counts, at_ns), None)
            }
            Question::Stop => {
                let counts = sender.stop().map_err(refused)?;
                (
                    Answer::Sent(counts, fwdlab_engine::sys::monotonic_ns()),
                    Some(false),
                )
            }
            Question::Lateness => (Answer::Lateness(sender.lateness().map_err(refused)?), None),
            _ => return Err(Failure::Refused("that was not requested".into())),
        })
    }

    fn receiver(&mut self, number: usize) -> Result<&mut Box<dyn Receiver>, Failure> {
        let receiver = self.receivers.get_mut(number);
        receiver.ok_or_else(|| Failure::Refused(format!("no receiver {number} is open")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_to_closed_ports_are_refused() {
        let mut parts = Parts::default();
        let requested = parts.answer(Question::Stop, &[]).unwrap_err();
        assert_eq!(requested, Failure::Refused("no sender is open".into()));
        let requested = parts.answer(Question::Received { receiver: 3 }, &[]);
        assert!(requested.is_err());
    }
}
