//! The agent's side of the connection: answers questions until the stream ends.
//!
//! Decides nothing: [`Local`] and namespaces of this machine run commands and access files, the
//! engine sends bursts. Start with [`serve`].

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fwdlab_engine::part::Parts;
use fwdlab_engine::{EngineError, Exact, PathSpec, PortSpec, exact};
use fwdlab_model::campaign::Generator;

use super::part::Here;
use super::rig;
use crate::error::LabError;
use crate::host::wire::{self, Answer, Hello, Place, Question, clock, receive, send};
use crate::host::{
    Command, Failure, Host, HostError, Limit, Local, Netns, Process, ProcessEvent, netns,
};
use crate::ports::answering::{Answering, mac_of_dut};
use crate::ports::{self, Claimed, noise};

/// Directory for uploaded files of commands, on a machine of ours.
const PUT: &str = "/run/fwdlab-put";

/// The asking side ends a command that takes too long by ending this process.
const LIMIT: Limit<'static> = Limit {
    time: Duration::from_secs(24 * 3600),
    is_stopped: &|| false,
};

/// What an agent has open.
struct Agent {
    /// Directory for uploaded files.
    folder: PathBuf,
    processes: BTreeMap<u32, Box<dyn Process>>,
    next: u32,
    bursts: Option<Exact>,
    rig: Option<rig::Open>,
    parts: Parts<Here>,
    claimed: Vec<Claimed>,
    answering: Vec<Answering>,
    /// True while frames may flow from here.
    sends: Arc<AtomicBool>,
}

/// Answers questions. Returns when the other side has closed the stream or requests that the
/// machine ends.
///
/// # Errors
/// The stream failed, or is out of step.
pub fn serve(stream: &mut (impl Read + Write)) -> std::io::Result<()> {
    serve_within(Path::new(PUT), stream, &Arc::default())
}

/// Like [`serve`], with another directory for files. `sends` is true while frames may flow from
/// here.
///
/// # Errors
/// As for [`serve`].
pub(crate) fn serve_within(
    folder: &Path,
    stream: &mut (impl Read + Write),
    sends: &Arc<AtomicBool>,
) -> std::io::Result<()> {
    let mut agent = Agent {
        folder: folder.to_owned(),
        processes: BTreeMap::new(),
        next: 0,
        bursts: None,
        rig: None,
        parts: Parts::new(Here),
        claimed: Vec::new(),
        answering: Vec::new(),
        sends: sends.clone(),
    };
    loop {
        let (question, bytes): (Question, _) = match receive(stream) {
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
            received => received?,
        };
        if matches!(question, Question::PowerOff) {
            return send(stream, &Answer::Done, &[]);
        }
        let (answer, behind) = match agent.answer(question, bytes) {
            Ok(answered) => answered,
            Err(failure) => (Answer::Failed(failure), Vec::new()),
        };
        send(stream, &answer, &behind)?;
    }
}

impl Agent {
    fn answer(&mut self, question: Question, bytes: Vec<u8>) -> Result<(Answer, Vec<u8>), Failure> {
        let failure = |error: HostError| error.failure;
        let done = Ok((Answer::Done, Vec::new()));
        match question {
            Question::Hello => Ok((Answer::Hello(hello()), Vec::new())),
            Question::Run { place, command } => {
                let output = host(&place).run(&command, LIMIT).map_err(failure)?;
                let stdout = output.stdout.len();
                let all = [output.stdout, output.stderr].concat();
                Ok((Answer::Output { stdout }, all))
            }
            Question::Start { place, command } => {
                let process = host(&place).start(&command).map_err(failure)?;
                self.next += 1;
                self.processes.insert(self.next, process);
                Ok((Answer::Started { process: self.next }, Vec::new()))
            }
            Question::Next {
                process,
                patience_ms,
            } => {
                let Some(process) = self.processes.get_mut(&process) else {
                    return Err(Failure::Refused("there is no such process".into()));
                };
                let received = process.next(Duration::from_millis(patience_ms));
                let answer = match received.map_err(failure)? {
                    ProcessEvent::Line(line) => Answer::Line(line),
                    ProcessEvent::Silence => Answer::Silence,
                    ProcessEvent::End(end) => Answer::Ended(end),
                };
                Ok((answer, Vec::new()))
            }
            Question::End { process } => {
                drop(self.processes.remove(&process));
                done
            }
            Question::Read { place, path } => {
                let content = host(&place).read(&path).map_err(failure)?;
                Ok((Answer::Done, content))
            }
            Question::Write { place, path } => {
                host(&place).write(&path, &bytes).map_err(failure)?;
                done
            }
            Question::Put { name, executable } => {
                let folder = &self.folder;
                let path = put(folder, &name, executable, &bytes).map_err(|e| {
                    Failure::File(format!("put {name} into {}: {e}", folder.display()))
                })?;
                Ok((Answer::Path(path), Vec::new()))
            }
            Question::Rest { time_ms } => {
                std::thread::sleep(Duration::from_millis(time_ms));
                done
            }
            Question::OpenBursts {
                paths,
                addresses,
                stream,
                generator,
                poller,
            } => {
                // open bursts keep the ports busy
                self.bursts = None;
                let paths: Vec<PathSpec> = paths.into_iter().map(path).collect();
                if generator != Generator::LiveFrames {
                    // the engine reports an error if it needs pktgen; a kernel that has it built in
                    // has no module
                    let load = Command::new("modprobe", &["-q", "pktgen"]);
                    let _ = Local.run(&load, Limit::OURS);
                }
                let mut bursts = Exact::open(&paths, &addresses, generator).map_err(refused)?;
                bursts.arm(&stream).map_err(refused)?;
                if let Some((process, idle)) = poller {
                    bursts.hold(process, idle).map_err(refused)?;
                }
                let generator = bursts.generator();
                self.bursts = Some(bursts);
                Ok((Answer::Sends(generator), Vec::new()))
            }
            Question::Burst { path, frames } => {
                let Some(bursts) = &mut self.bursts else {
                    return Err(Failure::Refused("nothing is open that sends".into()));
                };
                let burst = bursts.burst(path, frames).map_err(refused)?;
                Ok((Answer::Burst(burst), Vec::new()))
            }
            Question::CloseBursts => {
                self.bursts = None;
                done
            }
            Question::Rig(question) => {
                let (begins, ends) = (question.begins(), question.ends());
                if begins {
                    self.sends.store(true, Ordering::Release);
                }
                let answer = rig::answer(&mut self.rig, question, &bytes);
                // an error while frames flow does not stop them
                if ends || (begins && answer.is_err()) {
                    self.sends.store(false, Ordering::Release);
                }
                Ok((Answer::Rig(answer?), Vec::new()))
            }
            Question::Part(question) => {
                let answer = self.parts.answer(question, &bytes).map_err(refused);
                self.sends.store(self.parts.sends(), Ordering::Release);
                Ok((Answer::Part(answer?), Vec::new()))
            }
            Question::Claim {
                port: (place, interface),
                networks,
            } => {
                let claimed = ports::claim(&port(place, interface), &networks);
                self.claimed.push(claimed.map_err(refused)?);
                done
            }
            Question::Hear { ports, time_ms } => {
                let ports = ports.into_iter();
                let ports: Vec<PortSpec> = ports.map(|(place, of)| port(place, of)).collect();
                let received = noise::capture_noise(&ports, Duration::from_millis(time_ms));
                Ok((Answer::Heard(received.map_err(refused)?), Vec::new()))
            }
            Question::Meet {
                port: (place, interface),
                side,
                asks,
            } => {
                let port = port(place, interface);
                let answering = Answering::to_dut(&port, side).map_err(refused)?;
                self.answering.push(answering);
                let found = asks.then(|| mac_of_dut(&port, &side)).transpose();
                Ok((Answer::Met(found.map_err(refused)?.flatten()), Vec::new()))
            }
            Question::Release => {
                self.claimed.clear();
                self.answering.clear();
                done
            }
            Question::PowerOff => done,
        }
    }
}

pub(crate) fn refused(error: impl Into<LabError>) -> Failure {
    let error = error.into();
    let reason = error.to_string();
    match error {
        // permissions are not its problem
        LabError::Engine(EngineError::Poller { .. }) => Failure::File(reason),
        _ => Failure::Refused(reason),
    }
}

fn host(place: &Place) -> Box<dyn Host> {
    match place {
        None => Box::new(Local),
        Some(namespace) => Box::new(Netns::ours(namespace)),
    }
}

pub(super) fn path(of: wire::Path) -> PathSpec {
    PathSpec {
        tx: port(of.tx.0, of.tx.1),
        rx: port(of.rx.0, of.rx.1),
    }
}

pub(super) fn port(place: Place, interface: String) -> PortSpec {
    PortSpec {
        netns: place.as_deref().and_then(netns::file),
        interface,
    }
}

fn put(folder: &Path, name: &str, executable: bool, bytes: &[u8]) -> std::io::Result<String> {
    let path = folder.join(name.trim_start_matches('/'));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&path, bytes)?;
    let mode = if executable { 0o755 } else { 0o644 };
    fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    Ok(path.to_string_lossy().into_owned())
}

fn hello() -> Hello {
    Hello {
        version: env!("CARGO_PKG_VERSION").into(),
        kernel: rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned(),
        per_instruction: exact::per_instruction(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        clock: clock(),
    }
}
