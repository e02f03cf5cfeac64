//! A rig whose parts are on several hosts: senders on one or two of them, the receiver on another,
//! each in this process or behind an agent.
//!
//! The engine's own tester combines the parts, and cannot tell where they are. Clocks of different
//! hosts are never compared: counts have the time of the host that read them, and what needs a
//! single clock is refused if there may be two. Start with [`open`].

use std::time::Duration;

use fwdlab_engine::analysis::Analysis;
use fwdlab_engine::joined::{JoinedSender, Part};
use fwdlab_engine::tester::{Opener, cheapest_receivers};
use fwdlab_engine::{
    Addresses, Capabilities, Choice, Copies, Counting, EngineError, Expected, Frames, Histogram,
    Mode, PathSpec, PortSpec, ReceiveCounts, Receiver, Rejected, Schedule, SendCounts, Sender,
    Tester, open_receiver, open_sender,
};

use super::Rig;
use super::local::{Chosen, words};
use crate::error::LabError;
use crate::host::wire::connection::unexpected_answer;
use crate::host::wire::part::{Answer, Question, packed};
use crate::host::wire::{self, clock};
use crate::host::{Host, HostError, Limit, Remote};
use fwdlab_engine::stamps::static_name;

/// A receiver that is silent for this long while frames flow is considered lost, which ends the
/// traffic.
const ALIVE: Limit<'static> = Limit {
    time: Duration::from_millis(900),
    is_stopped: &|| false,
};

/// A port of the tester, and its host.
#[derive(Debug, Clone)]
pub(crate) enum Port {
    /// On this machine.
    Here(PortSpec),
    /// On the machine of an agent.
    There(Remote, String),
}

impl Port {
    fn name(&self) -> &str {
        match self {
            Port::Here(spec) => &spec.interface,
            Port::There(_, port) => port,
        }
    }

    fn host(&self) -> &str {
        match self {
            Port::Here(_) => "this machine",
            Port::There(host, _) => host.name(),
        }
    }

    /// Returns the port as results show it.
    fn spec(&self) -> PortSpec {
        match self {
            Port::Here(spec) => spec.clone(),
            Port::There(_, port) => PortSpec {
                netns: None,
                interface: port.clone(),
            },
        }
    }

    fn clock(&self) -> Result<String, LabError> {
        match self {
            Port::Here(_) => Ok(clock()),
            Port::There(host, _) => Ok(host.hello(ALIVE)?.clock),
        }
    }
}

/// A path through the DUT: all ports that send frames, and the one that receives them.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    /// The DUT knows the address of the first sender; others have their own.
    pub tx: Vec<(Port, Option<[u8; 6]>)>,
    pub rx: Port,
}

/// Opens the fastest engine that works on all sending ports, or the requested one.
///
/// # Errors
/// None works, or the requested one does not; or a host was lost.
pub(crate) fn open(
    ways: &[Way],
    addresses: &Addresses,
    choice: &Choice,
) -> Result<(Box<dyn Rig>, Chosen), LabError> {
    let mut apart = DistributedRig {
        paths: ways.to_vec(),
        cpus: choice.cpus.clone(),
        senders: choice.senders,
        source: addresses.source_mac,
        only_counts: only_counts(ways)?,
    };
    let paths: Vec<PathSpec> = ways
        .iter()
        .map(|way| PathSpec {
            tx: way.tx[0].0.spec(),
            rx: way.rx.spec(),
        })
        .collect();
    let (tester, rejected) = Tester::open_by(&mut apart, &paths, addresses, choice)?;
    let mut chosen = words(&tester, rejected, choice);
    let ports = ways.iter().flat_map(|way| &way.tx);
    let senders: Vec<String> = ports
        .map(|(port, _)| format!("{} of {}", port.name(), port.host()))
        .collect();
    let receivers: Vec<String> = (ways.iter())
        .map(|way| format!("{} of {}", way.rx.name(), way.rx.host()))
        .collect();
    chosen.words = format!(
        "{}; frames leave at {} and are counted at {}",
        chosen.words,
        senders.join(" and "),
        receivers.join(" and ")
    );
    Ok((Box::new(tester), chosen))
}

/// Returns why receivers can only count, if they can do nothing more.
fn only_counts(ways: &[Way]) -> Result<Option<String>, LabError> {
    for way in ways {
        if way.tx.len() > 1 {
            return Ok(Some(format!(
                "{} hosts send into one port of the DUT and number their frames alike. Send with only one of them",
                way.tx.len()
            )));
        }
        let arrives = way.rx.clock()?;
        for (port, _) in &way.tx {
            if port.clock()? != arrives {
                return Ok(Some(format!(
                    "frames leave by the clock of {} and arrive by the clock of {}, which may differ. Send and receive with the same \
                     machine",
                    port.host(),
                    way.rx.host()
                )));
            }
        }
    }
    Ok(None)
}

struct DistributedRig {
    paths: Vec<Way>,
    cpus: Vec<usize>,
    /// Threads that send into each port.
    senders: u32,
    /// Of the first port that sends.
    source: [u8; 6],
    only_counts: Option<String>,
}

impl Opener for DistributedRig {
    fn sender(&mut self, mode: Mode) -> Result<Box<dyn Sender>, EngineError> {
        let ways = self.paths.iter().enumerate();
        let ports = ways.flat_map(|(path, way)| way.tx.iter().map(move |port| (path, port)));
        let first = self.source;
        let parts = ports.enumerate().map(|(number, (path, (port, own)))| {
            // the given CPUs are those of the first host
            let cpus = match number {
                0 => &self.cpus[..],
                _ => &[],
            };
            let sender: Box<dyn Sender> = match port {
                Port::Here(spec) => {
                    let path = PathSpec {
                        tx: spec.clone(),
                        rx: spec.clone(),
                    };
                    open_sender(mode, &[path], cpus, self.senders)?
                }
                Port::There(host, port) => {
                    Box::new(RemoteSender::open(host, port, mode, cpus, self.senders)?)
                }
            };
            Ok(Part {
                sender,
                path,
                source: own.map(|own| (first, own)),
            })
        });
        let parts: Vec<Part> = parts.collect::<Result<_, EngineError>>()?;
        Ok(Box::new(JoinedSender::new(parts)))
    }

    fn receivers(
        &mut self,
        rejected: &mut Vec<Rejected>,
    ) -> Result<Vec<Box<dyn Receiver>>, EngineError> {
        cheapest_receivers(rejected, |counting| {
            let ports: Vec<&Port> = self.paths.iter().map(|way| &way.rx).collect();
            ports
                .into_iter()
                .map(|port| receiver(counting, port))
                .collect()
        })
    }

    fn ports(&self) -> Vec<PortSpec> {
        let ports = self.paths.iter().flat_map(|way| &way.tx);
        let here = ports.filter_map(|(port, _)| match port {
            Port::Here(spec) => Some(spec.clone()),
            Port::There(..) => None,
        });
        here.collect()
    }

    fn only_counts(&self) -> Option<String> {
        self.only_counts.clone()
    }
}

fn receiver(counting: Counting, port: &Port) -> Result<Box<dyn Receiver>, EngineError> {
    Ok(match port {
        Port::Here(spec) => open_receiver(counting, spec)?,
        Port::There(host, port) => {
            let far = RemotePart {
                host: host.clone(),
                close: Question::CloseReceivers,
            };
            let question = Question::OpenReceivers {
                ports: vec![(None, port.clone())],
                counting: counting.name().into(),
            };
            match far.query("open a receiver", &question, &[], Limit::OURS)? {
                Answer::Opened(_) => Box::new(RemoteReceiver {
                    part: far,
                    counting,
                }),
                other => return far.unexpected_answer("open a receiver", other),
            }
        }
    })
}

/// A part behind an agent.
#[derive(Debug)]
struct RemotePart {
    host: Remote,
    /// The question that closes it.
    close: Question,
}

impl RemotePart {
    fn query(
        &self,
        action: &str,
        question: &Question,
        bytes: &[u8],
        limit: Limit<'_>,
    ) -> Result<Answer, EngineError> {
        let question = wire::Question::Part(question.clone());
        match self.host.put_to(action, &question, bytes, limit) {
            Ok((wire::Answer::Part(answer), _)) => Ok(answer),
            Ok((other, _)) => {
                let reason = unexpected_answer(&other);
                Err(remote_error(HostError::new(
                    self.host.name(),
                    action,
                    reason,
                )))
            }
            Err(error) => Err(remote_error(error)),
        }
    }

    fn unexpected_answer<T>(&self, action: &str, answer: Answer) -> Result<T, EngineError> {
        let reason = unexpected_answer(&wire::Answer::Part(answer));
        Err(remote_error(HostError::new(
            self.host.name(),
            action,
            reason,
        )))
    }

    fn done(&self, action: &str, question: &Question, bytes: &[u8]) -> Result<(), EngineError> {
        match self.query(action, question, bytes, Limit::OURS)? {
            Answer::Done => Ok(()),
            other => self.unexpected_answer(action, other),
        }
    }
}

impl Drop for RemotePart {
    fn drop(&mut self) {
        // the host may be gone, and the part with it
        let close = self.close.clone();
        let _ = self.done("close what is open", &close, &[]);
    }
}

fn remote_error(error: HostError) -> EngineError {
    EngineError::Elsewhere(Box::new(error))
}

/// A sender behind an agent.
struct RemoteSender {
    part: RemotePart,
    capabilities: Capabilities,
}

impl RemoteSender {
    fn open(
        host: &Remote,
        port: &str,
        mode: Mode,
        cpus: &[usize],
        senders: u32,
    ) -> Result<RemoteSender, EngineError> {
        let far = RemotePart {
            host: host.clone(),
            close: Question::CloseSender,
        };
        let action = "open a sender";
        let question = Question::OpenSender {
            port: (None, port.to_owned()),
            mode,
            cpus: cpus.to_vec(),
            senders,
        };
        match far.query(action, &question, &[], Limit::OURS)? {
            Answer::OpenedSender(words, senders) => Ok(RemoteSender {
                part: far,
                capabilities: Capabilities {
                    // the description says how frames are copied there
                    copies: Copies::InKernel,
                    senders,
                    queues: senders,
                    ..Capabilities::plain(mode, static_name(&words))
                },
            }),
            other => far.unexpected_answer(action, other),
        }
    }

    fn sent(&self, action: &str, question: &Question) -> Result<(SendCounts, u64), EngineError> {
        match self.part.query(action, question, &[], Limit::OURS)? {
            Answer::Sent(counts, at_ns) => Ok((counts, at_ns)),
            other => self.part.unexpected_answer(action, other),
        }
    }
}

impl Sender for RemoteSender {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn arm(&mut self, frames: &Frames) -> Result<(), EngineError> {
        let bytes = packed(frames).map_err(EngineError::Frames)?;
        self.part
            .done("prepare the frames of a trial", &Question::Arm, &bytes)
    }

    fn start(&mut self, schedule: Schedule) -> Result<(), EngineError> {
        let question = Question::Start(schedule);
        self.part.done("start to send", &question, &[])
    }

    fn select(&mut self, path: usize) -> Result<(), EngineError> {
        match path {
            0 => Ok(()),
            _ => Err(EngineError::Frames(format!("there is no path {path}"))),
        }
    }

    fn renew(&mut self) -> Result<Duration, EngineError> {
        let action = "continue from other memory";
        match self
            .part
            .query(action, &Question::Renew, &[], Limit::OURS)?
        {
            Answer::Paused(time) => Ok(time),
            other => self.part.unexpected_answer(action, other),
        }
    }

    fn set_load(&mut self, _: f64) -> Result<(), EngineError> {
        Err(EngineError::Unsupported {
            engine: self.capabilities.mode.name(),
            action: "change its load from another host".into(),
        })
    }

    fn lateness(&self) -> Result<Option<Histogram>, EngineError> {
        let action = "read how late frames left";
        match self
            .part
            .query(action, &Question::Lateness, &[], Limit::OURS)?
        {
            Answer::Lateness(lateness) => Ok(lateness),
            other => self.part.unexpected_answer(action, other),
        }
    }

    fn counts(&self) -> Result<SendCounts, EngineError> {
        Ok(self.counts_at()?.0)
    }

    fn counts_at(&self) -> Result<(SendCounts, u64), EngineError> {
        self.sent("read the counts of a sender", &Question::Sent)
    }

    fn stop(&mut self) -> Result<SendCounts, EngineError> {
        Ok(self.stop_at()?.0)
    }

    fn stop_at(&mut self) -> Result<(SendCounts, u64), EngineError> {
        self.sent("stop to send", &Question::Stop)
    }

    /// A lost sender sends nothing more; the next reading of its counts returns the error.
    fn is_done(&self) -> bool {
        let requested = (self.part).query("see whether all is sent", &Question::IsDone, &[], ALIVE);
        !matches!(requested, Ok(Answer::IsDone(false)))
    }
}

/// A receiver behind an agent, the only one there.
struct RemoteReceiver {
    part: RemotePart,
    counting: Counting,
}

/// The index of the only receiver.
const FIRST: usize = 0;

impl Receiver for RemoteReceiver {
    fn name(&self) -> &'static str {
        self.counting.name()
    }

    fn expect(&mut self, expected: &Expected) -> Result<(), EngineError> {
        let question = Question::Expect {
            receiver: FIRST,
            expected: expected.clone(),
        };
        self.part
            .done("expect the frames of a trial", &question, &[])
    }

    fn counts(&mut self) -> Result<ReceiveCounts, EngineError> {
        Ok(self.counts_at()?.0)
    }

    fn counts_at(&mut self) -> Result<(ReceiveCounts, u64), EngineError> {
        let action = "read the counts of a receiver";
        let question = Question::Received { receiver: FIRST };
        match self.part.query(action, &question, &[], ALIVE)? {
            Answer::Received(counts, at_ns) => Ok((counts, at_ns)),
            other => self.part.unexpected_answer(action, other),
        }
    }

    fn is_lost(&self) -> bool {
        let requested = (self.part).query("check whether it responds", &Question::Here, &[], ALIVE);
        !matches!(requested, Ok(Answer::Done))
    }

    fn analysis(&mut self) -> Result<Option<Analysis>, EngineError> {
        let action = "read what a receiver found out";
        let question = Question::Analysis { receiver: FIRST };
        match self.part.query(action, &question, &[], Limit::OURS)? {
            Answer::Analysis(found) => Ok(found),
            other => self.part.unexpected_answer(action, other),
        }
    }
}
