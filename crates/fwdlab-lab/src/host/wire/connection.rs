//! The asking side of an agent's stream.
//!
//! Asks one question at a time. If an answer is late or no longer needed, the connection is closed,
//! because a late answer would be taken for that to the next question. Start with
//! [`Connection::new`].

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::super::{Failure, Limit};
use super::{Answer, BEAT, BEAT_EVERY, Hello, Question, receive, send};

/// How often to check whether the answer is still needed.
const LOOK: Duration = Duration::from_millis(50);

/// A stream to an agent.
#[derive(Debug)]
pub struct Connection {
    stream: Mutex<Option<UnixStream>>,
    /// Held while writing, so that no beat interrupts a message.
    writes: Arc<Mutex<()>>,
    /// The thread that sends beats ends when this is dropped.
    _beats: Option<Sender<()>>,
    /// Describes why the other side ended.
    epitaph: Box<dyn EndReason>,
}

/// Describes why the other side has ended, as far as known.
pub trait EndReason: Send + Sync + std::fmt::Debug {
    /// Returns the description.
    fn words(&self) -> String;
}

impl Connection {
    /// Creates a connection over a stream on which an agent listens, or will listen.
    pub fn new(stream: UnixStream, epitaph: Box<dyn EndReason>) -> Connection {
        Connection {
            stream: Mutex::new(Some(stream)),
            writes: Arc::default(),
            _beats: None,
            epitaph,
        }
    }

    /// Makes the connection send beats, which tell the agent that this side is alive. Not for a
    /// machine whose instructions are counted.
    ///
    /// # Errors
    /// The system refuses.
    pub fn with_heartbeat(mut self) -> io::Result<Connection> {
        let mut stream = {
            let guard = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
            match guard.as_ref() {
                Some(stream) => stream.try_clone()?,
                None => return Err(io::ErrorKind::NotConnected.into()),
            }
        };
        let writes = self.writes.clone();
        let (beats, dropped) = channel();
        self._beats = Some(beats);
        std::thread::Builder::new().spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = dropped.recv_timeout(BEAT_EVERY) {
                // a message replaces the beat
                let Ok(_alone) = writes.try_lock() else {
                    continue;
                };
                // so few bytes are written completely, or not at all if the agent does not read
                match stream.write(&BEAT) {
                    Err(e) if !is_timeout(&e) => return,
                    _ => {}
                }
            }
        })?;
        Ok(self)
    }

    /// Creates a connection to a machine that has ended.
    pub(crate) fn ended() -> Connection {
        Connection {
            stream: Mutex::new(None),
            writes: Arc::default(),
            _beats: None,
            epitaph: Box::new(ConnectionEnd),
        }
    }

    /// Asks for the identity of the agent.
    pub(crate) fn hello(&self, limit: Limit<'_>) -> Result<Hello, Failure> {
        match self.query(&Question::Hello, &[], limit)? {
            (Answer::Hello(hello), _) => Ok(hello),
            (other, _) => Err(unexpected_answer(&other)),
        }
    }

    /// Asks, and waits for the answer.
    pub(crate) fn query(
        &self,
        question: &Question,
        bytes: &[u8],
        limit: Limit<'_>,
    ) -> Result<(Answer, Vec<u8>), Failure> {
        let mut guard = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(stream) = guard.as_mut() else {
            return Err(Failure::Lost(self.epitaph.words()));
        };
        let started = Instant::now();
        let mut patient = TimedStream {
            stream,
            limit,
            began: started,
            gave_up: None,
        };
        let requested = {
            let _alone = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
            send(&mut patient, question, bytes)
        };
        let answered = requested.and_then(|()| receive(&mut patient));
        let gave_up = patient.gave_up;
        match answered {
            Ok((Answer::Failed(failure), _)) => Err(failure),
            Ok(answer) => Ok(answer),
            Err(error) => {
                *guard = None;
                Err(match gave_up {
                    Some(failure) => failure,
                    None => {
                        let reason = self.epitaph.words();
                        Failure::Lost(if reason.is_empty() {
                            error.to_string()
                        } else {
                            reason
                        })
                    }
                })
            }
        }
    }
}

#[derive(Debug)]
struct ConnectionEnd;

impl EndReason for ConnectionEnd {
    fn words(&self) -> String {
        "it has ended".into()
    }
}

/// Returns the failure for an answer that belongs to another question.
pub(crate) fn unexpected_answer(answer: &Answer) -> Failure {
    Failure::Lost(format!("its answers are out of step ({answer:?})"))
}

/// A stream that is read and written only within a limit.
struct TimedStream<'a> {
    stream: &'a mut UnixStream,
    limit: Limit<'a>,
    began: Instant,
    gave_up: Option<Failure>,
}

impl TimedStream<'_> {
    fn wait<T>(&mut self, mut work: impl FnMut(&mut UnixStream) -> io::Result<T>) -> io::Result<T> {
        self.stream.set_read_timeout(Some(LOOK))?;
        self.stream.set_write_timeout(Some(LOOK))?;
        loop {
            match work(self.stream) {
                Err(e) if is_timeout(&e) => {}
                done => return done,
            }
            if (self.limit.is_stopped)() {
                self.gave_up = Some(Failure::Stopped);
            } else if self.began.elapsed() > self.limit.time {
                self.gave_up = Some(Failure::TimedOut {
                    after: self.limit.time,
                    said: String::new(),
                });
            }
            if self.gave_up.is_some() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    [Interrupted, TimedOut, WouldBlock].contains(&error.kind())
}

impl Read for TimedStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait(|stream| stream.read(buffer))
    }
}

impl Write for TimedStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wait(|stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::serve::serve;
    use crate::host::{Command, Host, ProcessEvent, Remote};
    use std::sync::Arc;

    #[derive(Debug)]
    struct Unknown;

    impl EndReason for Unknown {
        fn words(&self) -> String {
            "nobody knows why".into()
        }
    }

    fn remote() -> (Remote, std::thread::JoinHandle<io::Result<()>>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let agent = std::thread::spawn(move || serve(&mut theirs));
        let connection = Arc::new(Connection::new(ours, Box::new(Unknown)));
        (Remote::new("guest", connection), agent)
    }

    /// An agent in this process behaves like any other host.
    #[test]
    fn commands_and_files_of_an_agent_are_those_of_its_machine() {
        let (remote, agent) = remote();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x").to_string_lossy().into_owned();
        remote.write(&file, &[0, 255, 10]).unwrap();
        assert_eq!(remote.read(&file).unwrap(), [0, 255, 10]);
        let input = "y".repeat(300_000);
        let both = Command::shell("cat; echo said >&2").with_input(input.clone());
        let output = remote.run(&both, Limit::OURS).unwrap();
        assert_eq!(output.stdout, input.as_bytes());
        assert_eq!(output.stderr, b"said\n");
        let error = remote.query("false", &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`false` failed on guest (exit status: 1)"
        );
        let error = remote.query("fwdlab-no-such-program", &[]).unwrap_err();
        assert!(matches!(error.failure, Failure::Missing { .. }), "{error}");
        let error = remote.read("/no/such/file").unwrap_err().to_string();
        assert!(error.starts_with("cannot read /no/such/file on guest: No such"));

        let empty = folder.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        let error = remote.put(&empty).unwrap_err().to_string();
        assert!(error.contains("the folder has no files"), "{error}");

        let mut process = remote.start(&Command::shell("echo one; sleep 60")).unwrap();
        let next = |process: &mut Box<dyn crate::host::Process>, ms| {
            process.next(Duration::from_millis(ms)).unwrap()
        };
        assert_eq!(next(&mut process, 10_000), ProcessEvent::Line("one".into()));
        assert_eq!(next(&mut process, 0), ProcessEvent::Silence);
        drop(process);

        drop(remote);
        agent.join().unwrap().unwrap();
    }

    #[test]
    fn after_a_timeout_the_connection_gives_no_more_answers() {
        let (remote, _agent) = remote();
        let limit = |ms, is_stopped| Limit {
            time: Duration::from_millis(ms),
            is_stopped,
        };
        let sleep = Command::shell("sleep 0.5; echo late");
        let slow = remote.run(&sleep, limit(100, &|| false)).unwrap_err();
        assert!(matches!(slow.failure, Failure::TimedOut { .. }), "{slow}");
        let lost = remote.query("echo", &["1"]).unwrap_err();
        assert!(lost.to_string().contains("nobody knows why"), "{lost}");
    }
}
