//! A host behind an agent, or one of its network namespaces.
//!
//! How the agent is reached does not matter here, see [`crate::agent`]. Start with [`Remote::new`].

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Address, Command, Failure, Host, HostError, Limit, Output, Process, ProcessEvent};
use crate::host::wire::connection::{Connection, unexpected_answer};
use crate::host::wire::{Answer, Hello, Place, Question};

/// The machine of an agent.
#[derive(Debug, Clone)]
pub struct Remote {
    name: String,
    /// The address by which another process finds it; `None` if it vanishes with its agent.
    address: Option<Address>,
    place: Place,
    connection: Arc<Connection>,
}

impl Remote {
    /// Creates a host for the machine behind this connection.
    pub fn new(name: &str, connection: Arc<Connection>) -> Remote {
        Remote {
            name: name.to_owned(),
            address: None,
            place: None,
            connection,
        }
    }

    /// Sets the address of a machine that exists without its agent, too.
    pub fn with_address(self, address: Address) -> Remote {
        Remote {
            address: Some(address),
            ..self
        }
    }

    /// Returns a host for a machine that no longer exists.
    pub(crate) fn removed_host(name: &str) -> Remote {
        Remote::new(name, Arc::new(Connection::ended()))
    }

    /// Returns true if its agent answers.
    pub(crate) fn is_reachable(&self, limit: Limit<'_>) -> bool {
        self.hello(limit).is_ok()
    }

    /// Asks its agent for its identity.
    pub(crate) fn hello(&self, limit: Limit<'_>) -> Result<Hello, HostError> {
        let answer = self.connection.hello(limit);
        answer.map_err(|failure| HostError::new(&self.name, "identify the agent", failure))
    }

    /// Returns one of its network namespaces as a host.
    pub fn within(&self, namespace: &str) -> Remote {
        Remote {
            name: format!("{namespace} of {}", self.name),
            // over the machine's address, commands would run outside of the namespace
            address: None,
            place: Some(namespace.to_owned()),
            connection: self.connection.clone(),
        }
    }

    /// Sends a question to its agent, and returns the answer.
    pub(crate) fn put_to(
        &self,
        action: &str,
        question: &Question,
        bytes: &[u8],
        limit: Limit<'_>,
    ) -> Result<(Answer, Vec<u8>), HostError> {
        let answer = self.connection.query(question, bytes, limit);
        answer.map_err(|failure| HostError::new(&self.name, action, failure))
    }

    fn unexpected<T>(&self, action: &str, answer: &Answer) -> Result<T, HostError> {
        Err(HostError::new(
            &self.name,
            action,
            unexpected_answer(answer),
        ))
    }

    fn put_file(&self, ours: &Path, name: &str) -> Result<String, HostError> {
        let action = format!("put {} there", ours.display());
        let failed = |e: std::io::Error| {
            let reason = Failure::File(e.to_string());
            HostError::new(&self.name, &action, reason)
        };
        let content = std::fs::read(ours).map_err(failed)?;
        let mode = std::fs::metadata(ours).map_err(failed)?.permissions();
        let question = Question::Put {
            name: name.to_owned(),
            executable: mode.mode() & 0o111 != 0,
        };
        match self.put_to(&action, &question, &content, Limit::OURS)? {
            (Answer::Path(path), _) => Ok(path),
            (other, _) => self.unexpected(&action, &other),
        }
    }
}

impl Host for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self) -> Address {
        match &self.address {
            Some(address) => address.clone(),
            None => Address::Agent(self.name.clone()),
        }
    }

    fn run(&self, command: &Command, limit: Limit<'_>) -> Result<Output, HostError> {
        let action = command.to_string();
        let question = Question::Run {
            place: self.place.clone(),
            command: command.clone(),
        };
        match self.put_to(&action, &question, &[], limit)? {
            (Answer::Output { stdout }, mut all) if stdout <= all.len() => Ok(Output {
                stderr: all.split_off(stdout),
                stdout: all,
            }),
            (other, _) => self.unexpected(&action, &other),
        }
    }

    fn start(&self, command: &Command) -> Result<Box<dyn Process>, HostError> {
        let action = command.to_string();
        let question = Question::Start {
            place: self.place.clone(),
            command: command.clone(),
        };
        match self.put_to(&action, &question, &[], Limit::OURS)? {
            (Answer::Started { process }, _) => Ok(Box::new(RemoteProcess {
                host: self.clone(),
                process,
                command: action,
            })),
            (other, _) => self.unexpected(&action, &other),
        }
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        let action = format!("read {path}");
        let question = Question::Read {
            place: self.place.clone(),
            path: path.to_owned(),
        };
        let (_, content) = self.put_to(&action, &question, &[], Limit::OURS)?;
        Ok(content)
    }

    fn write(&self, path: &str, content: &[u8]) -> Result<(), HostError> {
        let action = format!("write {path}");
        let question = Question::Write {
            place: self.place.clone(),
            path: path.to_owned(),
        };
        self.put_to(&action, &question, content, Limit::OURS)
            .map(drop)
    }

    fn put(&self, ours: &Path) -> Result<String, HostError> {
        let name = ours.file_name().unwrap_or_default().to_string_lossy();
        if !ours.is_dir() {
            return self.put_file(ours, &name);
        }
        let mut files = Vec::new();
        let listed = files_below(ours, &mut files);
        listed.map_err(|e| {
            let action = format!("put {} there", ours.display());
            HostError::new(&self.name, action, Failure::File(e.to_string()))
        })?;
        let mut folder = None;
        for file in files {
            let within = file.strip_prefix(ours).unwrap_or(&file).to_string_lossy();
            let path = self.put_file(&file, &format!("{name}/{within}"))?;
            folder = Some(path.trim_end_matches(&*within).trim_end_matches('/').into());
        }
        folder.ok_or_else(|| {
            let action = format!("put {} there", ours.display());
            let reason = "the folder has no files. Add one, or omit the folder";
            HostError::new(&self.name, action, Failure::File(reason.into()))
        })
    }
}

/// Collects the files in a directory and its subdirectories; follows links.
fn files_below(folder: &Path, files: &mut Vec<std::path::PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => files_below(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

/// A command that keeps running on the remote machine.
#[derive(Debug)]
struct RemoteProcess {
    host: Remote,
    process: u32,
    command: String,
}

impl Process for RemoteProcess {
    fn next(&mut self, patience: Duration) -> Result<ProcessEvent, HostError> {
        let question = Question::Next {
            process: self.process,
            patience_ms: patience.as_millis() as u64,
        };
        let limit = Limit {
            time: patience + Limit::OURS.time,
            is_stopped: &|| false,
        };
        match self.host.put_to(&self.command, &question, &[], limit)? {
            (Answer::Line(line), _) => Ok(ProcessEvent::Line(line)),
            (Answer::Silence, _) => Ok(ProcessEvent::Silence),
            (Answer::Ended(end), _) => Ok(ProcessEvent::End(end)),
            (other, _) => self.host.unexpected(&self.command, &other),
        }
    }
}

impl Drop for RemoteProcess {
    fn drop(&mut self) {
        let question = Question::End {
            process: self.process,
        };
        // if the host is lost, the process has ended anyway
        let _ = self.host.put_to(&self.command, &question, &[], Limit::OURS);
    }
}
