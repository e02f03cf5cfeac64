//! QEMU's monitor protocol, QMP, over a socket: commands to a running QEMU, and its events.
//!
//! Each message is a line of JSON: the few commands that we need are listed here, and events are
//! parsed generically, so that unknown ones do no harm. The meaning of events is decided elsewhere.
//! Start with [`Monitor::on`].
//!
//! Types for all of QMP, from the crate `qapi`, took a tenth of the time of a clean build.

use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

/// QEMU answers at once, or as soon as it gets CPU time.
const PATIENCE: Duration = Duration::from_secs(30);

/// Commands to QEMU, with the names of its QMP reference.
#[derive(Debug, Clone, Copy)]
pub(super) enum QmpCommand<'a> {
    /// Ends the negotiation at the beginning.
    Capabilities,
    /// Runs the guest, which is created stopped.
    Continue,
    Reset,
    PowerDown,
    Nmi,
    /// Leaves memory that is in a shared file out of a saved state.
    WithoutSharedMemory,
    /// Stops the machine, and writes the state of its devices.
    Migrate {
        /// Where to: `exec:COMMAND`.
        uri: &'a str,
    },
    /// Reads the state of the devices of a machine that was started for it, and continues.
    MigrateIncoming {
        /// Where from.
        uri: &'a str,
    },
    /// How far that is.
    Migration,
    /// A line for the human monitor, which answers with a text.
    Human(&'a str),
    Quit,
}

impl QmpCommand<'_> {
    fn line(self) -> String {
        let command = match self {
            QmpCommand::Capabilities => "qmp_capabilities",
            QmpCommand::Continue => "cont",
            QmpCommand::Reset => "system_reset",
            QmpCommand::PowerDown => "system_powerdown",
            QmpCommand::Nmi => "inject-nmi",
            QmpCommand::WithoutSharedMemory => "migrate-set-capabilities",
            QmpCommand::Migrate { .. } => "migrate",
            QmpCommand::MigrateIncoming { .. } => "migrate-incoming",
            QmpCommand::Migration => "query-migrate",
            QmpCommand::Human(_) => "human-monitor-command",
            QmpCommand::Quit => "quit",
        };
        let mut requested = json!({ "execute": command });
        requested["arguments"] = match self {
            QmpCommand::Human(line) => json!({ "command-line": line }),
            QmpCommand::Migrate { uri } | QmpCommand::MigrateIncoming { uri } => {
                json!({ "uri": uri })
            }
            QmpCommand::WithoutSharedMemory => {
                json!({ "capabilities": [{ "capability": "x-ignore-shared", "state": true }] })
            }
            _ => return format!("{requested}\n"),
        };
        format!("{requested}\n")
    }
}

/// A callback for events: the name, and QEMU's data.
pub(super) type EventCallback = Box<dyn FnMut(&str, &Value) + Send>;

/// A QMP connection. It ends with QEMU.
#[derive(Debug)]
pub(super) struct Monitor(Mutex<QmpPair>);

#[derive(Debug)]
struct QmpPair {
    stream: UnixStream,
    answers: Receiver<Value>,
}

impl Monitor {
    /// Negotiates; from now on, a separate thread passes events to `hear`.
    ///
    /// # Errors
    /// QEMU ended, or the peer is another program.
    pub fn on(stream: UnixStream, hear: EventCallback) -> io::Result<Monitor> {
        stream.set_write_timeout(Some(PATIENCE))?;
        let reader = BufReader::new(stream.try_clone()?);
        let (sender, answers) = channel();
        std::thread::Builder::new()
            .name("fwdlab-qmp".into())
            .spawn(move || listen(reader, &sender, hear))?;
        let monitor = Monitor(Mutex::new(QmpPair { stream, answers }));
        monitor.query(QmpCommand::Capabilities)?;
        Ok(monitor)
    }

    /// Sends a command, and returns the answer: an empty object, or the requested data.
    ///
    /// # Errors
    /// QEMU refuses, or has ended.
    pub fn query(&self, action: QmpCommand<'_>) -> io::Result<Value> {
        let mut both = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        both.stream.write_all(action.line().as_bytes())?;
        let Ok(mut answer) = both.answers.recv_timeout(PATIENCE) else {
            // a late answer would be taken for that to another command
            let _ = both.stream.shutdown(Shutdown::Both);
            return Err(io::Error::other("QEMU does not answer"));
        };
        match answer.get("error") {
            Some(error) => {
                let reason = error["desc"].as_str().unwrap_or("without a reason");
                Err(io::Error::other(reason.to_owned()))
            }
            None => Ok(answer["return"].take()),
        }
    }
}

fn listen(reader: impl BufRead, answers: &Sender<Value>, mut hear: EventCallback) {
    for line in reader.lines() {
        let Ok(line) = line else {
            return;
        };
        let Ok(output) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        if let Some(event) = output["event"].as_str() {
            hear(event, &output["data"]);
        } else if output.get("QMP").is_none() && answers.send(output).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of QEMU 7.2, and an unknown event.
    #[test]
    fn events_between_answers_are_heard() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let qemu = std::thread::spawn(move || {
            let mut out = theirs.try_clone().unwrap();
            let mut requested = BufReader::new(theirs).lines().map_while(Result::ok);
            let greeting =
                r#"{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}}}}"#;
            writeln!(out, "{greeting}").unwrap();
            let answers = [
                r#"{"return": {}}"#,
                "{\"event\": \"FROM_THE_FUTURE\", \"data\": {\"guest\": true}}\n{\"return\": {}}",
                r#"{"error": {"class": "GenericError", "desc": "not now"}}"#,
            ];
            let lines = [
                r#"{"execute":"qmp_capabilities"}"#,
                r#"{"execute":"system_reset"}"#,
                r#"{"execute":"inject-nmi"}"#,
            ];
            for (answer, line) in answers.into_iter().zip(lines) {
                assert_eq!(requested.next().unwrap(), line);
                writeln!(out, "{answer}").unwrap();
            }
        });
        let (received, hears) = channel();
        let hear = move |event: &str, data: &Value| {
            received
                .send((event.to_owned(), data["guest"] == true))
                .ok();
        };
        let monitor = Monitor::on(ours, Box::new(hear)).unwrap();
        monitor.query(QmpCommand::Reset).unwrap();
        assert_eq!(hears.recv().unwrap(), ("FROM_THE_FUTURE".into(), true));
        let reason = monitor.query(QmpCommand::Nmi).unwrap_err();
        assert_eq!(reason.to_string(), "not now");
        qemu.join().unwrap();
        let human: Value = serde_json::from_str(&QmpCommand::Human("info usernet").line()).unwrap();
        assert_eq!(human["arguments"]["command-line"], "info usernet");
        assert!(monitor.query(QmpCommand::Continue).is_err(), "it has ended");
    }
}
