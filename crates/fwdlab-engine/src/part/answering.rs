//! The answering side: the senders and receivers of this process.
//!
//! Start with [`Parts`].

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};

use super::message::{receive, send};
use super::{Answer, OfReceiver, OfSender, PortFacts, Question, unpacked};
use crate::error::EngineError;
use crate::generator::{Counting, Mode, Receiver, Sender};
use crate::mtu;
use crate::port::PortSpec;
use crate::sys::monotonic_ns;

/// Opens parts in this process.
pub trait OpenPart {
    /// Opens a sender into these ports, one for each path.
    ///
    /// # Errors
    /// If it cannot be opened here.
    fn sender(
        &mut self,
        mode: Mode,
        ports: &[PortSpec],
        cpus: &[usize],
        senders: u32,
    ) -> Result<Box<dyn Sender>, EngineError>;

    /// Opens a receiver of this kind.
    ///
    /// # Errors
    /// If it cannot be opened here.
    fn receiver(
        &mut self,
        counting: Counting,
        port: &PortSpec,
        cpus: &[usize],
    ) -> Result<Box<dyn Receiver>, EngineError>;

    /// Opens a port, and returns what is known of it.
    ///
    /// # Errors
    /// If it cannot be opened or asked.
    fn facts(&mut self, port: &PortSpec) -> Result<PortFacts, EngineError>;

    /// Gives a port back, once nothing uses it.
    fn close(&mut self, port: &PortSpec);
}

/// The open parts.
pub struct Parts<O> {
    opener: O,
    senders: BTreeMap<u32, OpenSender>,
    receivers: BTreeMap<u32, Box<dyn Receiver>>,
    /// The number of the next part.
    next: u32,
}

struct OpenSender {
    ports: Vec<PortSpec>,
    sender: Box<dyn Sender>,
    /// From its start until it was stopped.
    sends: bool,
}

impl<O: OpenPart> Parts<O> {
    /// No part is open yet.
    pub fn new(opener: O) -> Parts<O> {
        Parts {
            opener,
            senders: BTreeMap::new(),
            receivers: BTreeMap::new(),
            next: 0,
        }
    }

    /// Answers questions until the stream ends.
    ///
    /// # Errors
    /// The stream fails, or is out of step.
    pub fn serve(&mut self, stream: &mut (impl Read + Write)) -> std::io::Result<()> {
        loop {
            let (question, bytes): (Question, _) = match receive(stream) {
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                received => received?,
            };
            let answer = self.answer(question, &bytes);
            let answer = answer.unwrap_or_else(|error| Answer::Failed(error.to_string()));
            send(stream, &answer, &[])?;
        }
    }

    /// Returns true while frames may flow from here.
    pub fn sends(&self) -> bool {
        self.senders.values().any(|open| open.sends)
    }

    /// Answers a question.
    ///
    /// # Errors
    /// Those of the parts; or there is no such part.
    pub fn answer(&mut self, question: Question, bytes: &[u8]) -> Result<Answer, EngineError> {
        Ok(match question {
            Question::Here => Answer::Done,
            Question::Facts { port } => Answer::Facts(self.opener.facts(&here(port))?),
            Question::ClosePort { port } => {
                self.opener.close(&here(port));
                Answer::Done
            }
            Question::OpenSender {
                ports,
                mode,
                cpus,
                senders,
            } => {
                let ports: Vec<PortSpec> = ports.into_iter().map(here).collect();
                let sender = self.opener.sender(mode, &ports, &cpus, senders)?;
                let capabilities = sender.capabilities();
                let open = OpenSender {
                    ports,
                    sender,
                    sends: false,
                };
                self.senders.insert(self.next, open);
                self.next += 1;
                Answer::Sender(self.next - 1, capabilities)
            }
            Question::OpenReceiver {
                port,
                counting,
                cpus,
            } => {
                let known = Counting::named(&counting);
                let counting = known.ok_or_else(|| no_part(format!("receiver {counting}")))?;
                let receiver = self.opener.receiver(counting, &here(port), &cpus)?;
                self.receivers.insert(self.next, receiver);
                self.next += 1;
                Answer::Receiver(self.next - 1)
            }
            Question::Sender(number, OfSender::Close) => {
                self.senders.remove(&number);
                Answer::Done
            }
            Question::Sender(number, question) => {
                let open = self.senders.get_mut(&number);
                let open = open.ok_or_else(|| no_part(format!("open sender {number}")))?;
                open.answer(question, bytes)?
            }
            Question::Receiver(number, OfReceiver::Close) => {
                self.receivers.remove(&number);
                Answer::Done
            }
            Question::Receiver(number, question) => {
                let open = self.receivers.get_mut(&number);
                let open = open.ok_or_else(|| no_part(format!("open receiver {number}")))?;
                match question {
                    OfReceiver::Expect(expected) => {
                        open.expect(&expected)?;
                        Answer::Done
                    }
                    OfReceiver::Received => {
                        let (counts, at_ns) = open.counts_at()?;
                        Answer::Received(counts, at_ns)
                    }
                    OfReceiver::Analysis => Answer::Analysis(open.analysis()?),
                    OfReceiver::Close => Answer::Done,
                }
            }
        })
    }
}

impl OpenSender {
    fn answer(&mut self, question: OfSender, bytes: &[u8]) -> Result<Answer, EngineError> {
        let sender = &mut self.sender;
        Ok(match question {
            OfSender::Arm => {
                let frames = unpacked(bytes)?;
                for port in &self.ports {
                    mtu::check(port, frames.most())?;
                }
                sender.arm(&frames)?;
                Answer::Done
            }
            OfSender::Start(schedule) => {
                sender.start(schedule)?;
                self.sends = true;
                Answer::Done
            }
            OfSender::Select(path) => {
                sender.select(path)?;
                Answer::Done
            }
            OfSender::Renew => Answer::Paused(sender.renew()?),
            OfSender::SetLoad(load_pps) => {
                sender.set_load(load_pps)?;
                Answer::Done
            }
            OfSender::SetRates(rates) => {
                sender.set_rates(&rates)?;
                Answer::Done
            }
            OfSender::IsDone => Answer::IsDone(sender.is_done()),
            OfSender::Sent => {
                let (counts, at_ns) = sender.counts_at()?;
                Answer::Sent(counts, at_ns)
            }
            OfSender::Stop => {
                let counts = sender.stop()?;
                self.sends = false;
                Answer::Sent(counts, monotonic_ns())
            }
            OfSender::Lateness => Answer::Lateness(sender.lateness()?),
            OfSender::Times => Answer::Times(sender.sending_times()),
            OfSender::Close => Answer::Done,
        })
    }
}

fn here(interface: String) -> PortSpec {
    PortSpec {
        netns: None,
        interface,
    }
}

fn no_part(of: String) -> EngineError {
    EngineError::Elsewhere(format!("there is no {of}").into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::generator::Schedule;
    use crate::part::packed;
    use crate::testing::test_frames;
    use crate::traffic::Frames;
    use crate::{LoadPlan, StallPolicy, memory};

    /// Opens senders into memory, and nothing else.
    struct Memory;

    impl OpenPart for Memory {
        fn sender(
            &mut self,
            _: Mode,
            ports: &[PortSpec],
            cpus: &[usize],
            senders: u32,
        ) -> Result<Box<dyn Sender>, EngineError> {
            Ok(Box::new(memory::senders(ports.len(), cpus, senders)?))
        }

        fn receiver(
            &mut self,
            _: Counting,
            port: &PortSpec,
            _: &[usize],
        ) -> Result<Box<dyn Receiver>, EngineError> {
            Err(no_part(format!("port {}", port.interface)))
        }

        fn facts(&mut self, port: &PortSpec) -> Result<PortFacts, EngineError> {
            Err(no_part(format!("port {}", port.interface)))
        }

        fn close(&mut self, _: &PortSpec) {}
    }

    fn refused(parts: &mut Parts<Memory>, question: Question) -> String {
        parts.answer(question, &[]).unwrap_err().to_string()
    }

    #[test]
    fn questions_to_parts_that_are_not_open_are_refused() {
        let mut parts = Parts::new(Memory);
        let stop = Question::Sender(3, OfSender::Stop);
        assert_eq!(refused(&mut parts, stop), "there is no open sender 3");
        let received = Question::Receiver(0, OfReceiver::Received);
        assert_eq!(refused(&mut parts, received), "there is no open receiver 0");
        let open = |counting: &str| Question::OpenReceiver {
            port: "x".into(),
            counting: counting.into(),
            cpus: vec![],
        };
        assert_eq!(refused(&mut parts, open("y")), "there is no receiver y");
        assert_eq!(refused(&mut parts, open("xdp")), "there is no port x");
    }

    /// Two senders with numbers of their own: while one sends, frames may flow from here.
    #[test]
    fn senders_are_asked_by_their_numbers() {
        let mut parts = Parts::new(Memory);
        let mut ask = |question, bytes: &[u8]| parts.answer(question, bytes).unwrap();
        let open = || Question::OpenSender {
            // of which no MTU is known
            ports: vec!["dpdk:a".into()],
            mode: Mode::Memory,
            cpus: vec![],
            senders: 1,
        };
        for number in 0..2 {
            let opened = ask(open(), &[]);
            assert!(
                matches!(opened, Answer::Sender(n, _) if n == number),
                "{opened:?}"
            );
        }
        ask(Question::Sender(0, OfSender::Close), &[]);
        let frames = packed(&Frames::Test(test_frames(7))).unwrap();
        ask(Question::Sender(1, OfSender::Arm), &frames);
        let schedule = Schedule {
            load: LoadPlan::FlatOut,
            frames: Some(1000),
            at_most: Duration::from_secs(60),
            stall_policy: StallPolicy::CatchUp { most_pps: None },
            path: 0,
        };
        ask(Question::Sender(1, OfSender::Start(schedule)), &[]);
        while !matches!(
            ask(Question::Sender(1, OfSender::IsDone), &[]),
            Answer::IsDone(true)
        ) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(parts.sends());
        let stopped = parts.answer(Question::Sender(1, OfSender::Stop), &[]);
        let Ok(Answer::Sent(counts, _)) = stopped else {
            panic!("{stopped:?}");
        };
        assert_eq!(counts.total(), 1000);
        assert!(!parts.sends());
        let close = Question::Sender(1, OfSender::Close);
        parts.answer(close.clone(), &[]).unwrap();
        let stop = Question::Sender(1, OfSender::Stop);
        assert_eq!(refused(&mut parts, stop), "there is no open sender 1");
    }
}
