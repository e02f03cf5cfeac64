//! A rig whose parts are on several hosts: senders on one or two of them, the receiver on another,
//! each in this process or behind an agent.
//!
//! The engine's own tester combines the parts, and cannot tell where they are. Clocks of different
//! hosts are never compared: counts have the time of the host that read them, and what needs a
//! single clock is refused if there may be two. Start with [`open`].

use std::time::Duration;

use fwdlab_engine::joined::{JoinedSender, Part};
use fwdlab_engine::part::{Answer, Link, Question, RemoteReceiver, RemoteSender};
use fwdlab_engine::tester::{Opener, cheapest_receivers};
use fwdlab_engine::{
    Addresses, Choice, Counting, EngineError, Mode, PathSpec, PortSpec, Receiver, Rejected, Sender,
    Tester, open_receiver, open_sender,
};

use super::Rig;
use super::local::{Chosen, words};
use crate::error::LabError;
use crate::host::wire::connection::unexpected_answer;
use crate::host::wire::{self, clock};
use crate::host::{Host, HostError, Limit, Remote};

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
                    let (host, ports) = (host.clone(), vec![port.clone()]);
                    Box::new(RemoteSender::open(host, ports, mode, cpus, self.senders)?)
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
            Box::new(RemoteReceiver::open(host.clone(), port, counting, &[])?)
        }
    })
}

/// Parts behind an agent.
impl Link for Remote {
    fn query(
        &self,
        action: &str,
        question: Question,
        bytes: &[u8],
        patience: Duration,
    ) -> Result<Answer, EngineError> {
        let limit = Limit {
            time: patience,
            ..Limit::OURS
        };
        match self.put_to(action, &wire::Question::Part(question), bytes, limit) {
            Ok((wire::Answer::Part(answer), _)) => Ok(answer),
            Ok((other, _)) => Err(remote_error(self, action, &other)),
            Err(error) => Err(EngineError::Elsewhere(Box::new(error))),
        }
    }

    fn unexpected(&self, action: &str, answer: Answer) -> EngineError {
        remote_error(self, action, &wire::Answer::Part(answer))
    }
}

fn remote_error(host: &Remote, action: &str, answer: &wire::Answer) -> EngineError {
    let reason = unexpected_answer(answer);
    EngineError::Elsewhere(Box::new(HostError::new(host.name(), action, reason)))
}
