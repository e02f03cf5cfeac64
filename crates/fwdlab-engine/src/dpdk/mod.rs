//! dpdk: ports with a driver of DPDK, in a process of its own.
//!
//! DPDK takes over a whole process, needs the libraries of its distribution, and ends the process
//! if a driver fails. So the program `fwdlab-dpdk` has it, with the engine's own senders and
//! analysis, and this process asks ([`crate::part`]). One process has all ports that are open here;
//! it ends with the last of them, or with this process. If it dies, the trial is lost, and the next
//! port that is opened starts another one. Start with [`open`].

mod process;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use fwdlab_model::dpdk;

use self::process::Process;
use crate::error::EngineError;
use crate::generator::{Counting, Mode, Receiver, Sender};
use crate::part::{Answer, Link, PortFacts, Question, RemoteReceiver, RemoteSender};
use crate::port::{PathSpec, PortSpec};

/// The process that has the ports of this one.
static RUNNING: Mutex<Weak<Process>> = Mutex::new(Weak::new());

/// How long a port may take to tell what it has counted.
const FACTS_PATIENCE: Duration = Duration::from_secs(60);

/// A port that is open as long as this or another value with its name lives.
#[derive(Debug, Clone)]
pub struct Port(Arc<OpenPort>);

#[derive(Debug)]
struct OpenPort {
    process: Arc<Process>,
    name: String,
}

/// The ports that are open in this process, by their names.
static OPEN: Mutex<BTreeMap<String, Weak<OpenPort>>> = Mutex::new(BTreeMap::new());

/// Opens a port, or returns the open one.
///
/// # Errors
/// If its name is wrong, the program cannot be started, or DPDK refuses.
pub fn open(spec: &PortSpec) -> Result<Port, EngineError> {
    let process = process(spec)?;
    let mut all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = all.get(&spec.interface).and_then(Weak::upgrade);
    if let Some(port) = known.filter(|known| Arc::ptr_eq(&known.process, &process)) {
        return Ok(Port(port));
    }
    let port = Port(Arc::new(OpenPort {
        process,
        name: spec.interface.clone(),
    }));
    port.facts()?;
    all.retain(|_, port| port.strong_count() > 0);
    all.insert(spec.interface.clone(), Arc::downgrade(&port.0));
    Ok(port)
}

impl Port {
    /// Returns what is known of it, and what it has counted.
    ///
    /// # Errors
    /// The process has died, or the driver refuses.
    pub fn facts(&self) -> Result<PortFacts, EngineError> {
        let action = format!("read the state of {}", self.0.name);
        let question = Question::Facts {
            port: self.0.name.clone(),
        };
        let process = &self.0.process;
        match process.query(&action, question, &[], FACTS_PATIENCE)? {
            Answer::Facts(facts) => Ok(facts),
            other => Err(process.unexpected(&action, other)),
        }
    }
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        let port = self.name.clone();
        // the process may be gone, and the port with it
        let _ = (self.process).query(
            "close a port",
            Question::ClosePort { port },
            &[],
            FACTS_PATIENCE,
        );
    }
}

/// Returns a sender into the sending ports of these paths.
pub(crate) fn sender_on(
    paths: &[PathSpec],
    cpus: &[usize],
    senders: u32,
) -> Result<impl Sender + use<>, EngineError> {
    let Some(first) = paths.first() else {
        return Err(EngineError::Frames("there is no path".into()));
    };
    let ports = paths.iter().map(|path| path.tx.interface.clone()).collect();
    RemoteSender::open(process(&first.tx)?, ports, Mode::Dpdk, cpus, senders)
}

/// Returns a receiver on this port.
pub(crate) fn receiver_on(
    port: &PortSpec,
    cpus: &[usize],
) -> Result<impl Receiver + use<>, EngineError> {
    RemoteReceiver::open(process(port)?, &port.interface, Counting::Dpdk, cpus)
}

/// Returns the process that has this port, or will have it.
fn process(spec: &PortSpec) -> Result<Arc<Process>, EngineError> {
    let refused = |reason: String| EngineError::DpdkProcess {
        action: format!("use {}", spec.interface),
        reason,
    };
    if spec.netns.is_some() {
        return Err(refused(
            "a DPDK port is in no network namespace: omit it".into(),
        ));
    }
    dpdk::device(&spec.interface).map_err(refused)?;
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(process) = running.upgrade().filter(|process| process.answers()) {
        return Ok(process);
    }
    let process = Arc::new(Process::start()?);
    *running = Arc::downgrade(&process);
    Ok(process)
}
