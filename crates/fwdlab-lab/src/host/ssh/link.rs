//! A connection to a host that all commands share: one `ssh` process that holds it, and a guard on
//! the host that cleans up after us.
//!
//! A thread owns both, so that they live as long as the connection, not as long as the thread that
//! needed it first; they end with it, and with this process however it ends. Start with
//! [`Link::open`].

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::shell_text::{self, Job};
use super::ssh_errors::{last_words, not_connected};
use super::{Failure, Limit, Target};
use crate::sys::{die_with_parent, kill_group};

/// A host that is silent for three times as long is considered lost. Test traffic may keep its CPUs
/// busy for a while.
const ALIVE_S: u32 = 7;

/// Time limit for a connection.
const CONNECT_S: u32 = 15;

/// A guard that receives nothing for this long considers us lost.
const GUARD_S: u32 = 60;

/// How often the guard receives something.
const BEAT: Duration = Duration::from_secs(15);

/// How often to check whether a connection is up.
const LOOK: Duration = Duration::from_millis(10);

/// Time limit for ending a command there.
const KILLING: Duration = Duration::from_secs(10);

/// Time limit for the guard to clean up.
const CLEANING: Duration = Duration::from_secs(3);

/// The longest path of a socket (`man 7 unix`), minus the suffix that ssh appends temporarily.
const MOST_PATH: usize = 107 - 17;

/// Features that are disabled on a connection, whatever the user's configuration says.
const PLAIN: &[&str] = &[
    "BatchMode=yes",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "ControlPersist=no",
    "Tunnel=no",
    "UpdateHostKeys=no",
];

/// A connection to a host.
#[derive(Debug)]
pub(super) struct Link {
    words: Vec<String>,
    /// The guard's directory there.
    folder: String,
    mark: String,
    next: AtomicU64,
    state: Arc<State>,
    /// The owning thread ends when this is dropped.
    events: Option<Sender<Event>>,
    keeper: Option<JoinHandle<()>>,
}

/// What is known about its end.
#[derive(Debug, Default)]
struct State {
    ended: Mutex<Option<String>>,
}

/// An event of a connection.
#[derive(Debug)]
enum Event {
    /// The process that holds it has closed its standard error: it ends.
    Ended,
    /// The guard printed this line.
    Guard(String),
    /// The guard has ended.
    Unguarded,
    /// End this command there; the sender is dropped when that is done.
    Kill(u64, Sender<()>),
    /// The connection is no longer needed.
    Stop,
}

impl Link {
    /// Connects.
    pub fn open(target: &Target, limit: Limit<'_>) -> Result<Link, Failure> {
        let place = Place::new().map_err(|e| {
            Failure::Unreachable(format!(
                "cannot make a folder for its connection in {}: {e}",
                base().display()
            ))
        })?;
        let words = client(target, &place.socket);
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanos = nanos.unwrap_or_default().as_nanos() as u64;
        let name = format!("fwdlab-{:x}-{nanos:x}", std::process::id());
        let state = Arc::new(State::default());
        let (events, happened) = channel();
        let (ready, answer) = channel();
        let mut keeper = Keeper {
            target: target.clone(),
            place,
            words: words.clone(),
            name: name.clone(),
            state: state.clone(),
            events: events.clone(),
            happened,
        };
        let thread = std::thread::spawn(move || {
            let up = keeper.connect();
            let output = match &up {
                Ok(up) => Ok(up.folder.clone()),
                Err(failure) => Err(failure.clone()),
            };
            let is_wanted = ready.send(output).is_ok();
            if let (Ok(mut up), true) = (up, is_wanted) {
                keeper.keep(&mut up);
            }
        });
        let mut link = Link {
            words,
            folder: String::new(),
            mark: format!("{name}-end"),
            next: AtomicU64::new(1),
            state,
            events: Some(events),
            keeper: Some(thread),
        };
        let started = Instant::now();
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(connected) => {
                    link.folder = connected?;
                    return Ok(link);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Lost("its connection could not be kept".into()));
                }
                Err(RecvTimeoutError::Timeout) if (limit.is_stopped)() => {
                    return Err(Failure::Stopped);
                }
                Err(RecvTimeoutError::Timeout) if started.elapsed() > limit.time => {
                    let output = format!("Connection timed out after {:.0?}", limit.time);
                    return Err(not_connected(target, &output));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Returns why it has ended, if it has; waits up to `patience` for that.
    pub fn end(&self, patience: Duration) -> Option<String> {
        let started = Instant::now();
        loop {
            let ended = self.state.ended.lock();
            let ended = ended.unwrap_or_else(PoisonError::into_inner).clone();
            if ended.is_some() || started.elapsed() >= patience {
                return ended;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Returns the local command that begins a session there, and its job.
    pub fn session(&self) -> (Vec<String>, Job) {
        let job = Job {
            folder: self.folder.clone(),
            number: self.next.fetch_add(1, Ordering::Relaxed),
            mark: self.mark.clone(),
        };
        (session(&self.words), job)
    }

    /// Ends a command there, with everything that it started.
    pub fn kill(&self, job: &Job) {
        let (done, is_done) = channel();
        if let Some(events) = &self.events {
            let _ = events.send(Event::Kill(job.number, done));
        }
        // if the connection is lost, the guard ends it anyway
        let _ = is_done.recv_timeout(KILLING);
    }

    /// Returns a new path in the guard's directory, which is removed with the connection.
    pub fn path(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}/put/{number}", self.folder)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(events) = self.events.take() {
            let _ = events.send(Event::Stop);
        }
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// The state of a connection, on the thread that owns it.
struct Keeper {
    target: Target,
    place: Place,
    words: Vec<String>,
    name: String,
    state: Arc<State>,
    events: Sender<Event>,
    happened: Receiver<Event>,
}

/// A connection that is up; both processes end with this.
struct Up {
    master: Child,
    guard: Option<Child>,
    stderr: Arc<Mutex<String>>,
    folder: String,
}

impl Drop for Up {
    fn drop(&mut self) {
        if let Some(guard) = &mut self.guard {
            // the guard waits for the end of its input
            drop(guard.stdin.take());
            let started = Instant::now();
            while started.elapsed() < CLEANING && matches!(guard.try_wait(), Ok(None)) {
                std::thread::sleep(LOOK);
            }
            kill_group(guard.id());
            let _ = guard.wait();
        }
        kill_group(self.master.id());
        let _ = self.master.wait();
    }
}

impl Keeper {
    fn connect(&mut self) -> Result<Up, Failure> {
        let mut words = base_words(&self.target, &self.place.socket);
        let alive = format!("ServerAliveInterval={ALIVE_S}");
        let connect = format!("ConnectTimeout={CONNECT_S}");
        let own = [
            "ControlMaster=yes",
            "ServerAliveCountMax=3",
            &alive,
            &connect,
        ];
        words.extend(own.into_iter().flat_map(option));
        words.extend(["-N".into(), "--".into(), self.target.host.clone()]);
        let mut master = start(&words, Stdio::null(), Stdio::null())?;
        let output = Arc::new(Mutex::new(String::new()));
        let events = self.events.clone();
        gather(master.stderr.take(), output.clone(), move || {
            let _ = events.send(Event::Ended);
        });
        let mut up = Up {
            master,
            guard: None,
            stderr: output,
            folder: String::new(),
        };
        while !self.place.socket.exists() {
            match self.happened.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Event::Ended) => return Err(not_connected(&self.target, &up.last_stderr())),
                _ => return Err(Failure::Stopped),
            }
        }
        let mut guard = start(&session(&self.words), Stdio::piped(), Stdio::piped())?;
        if let Some(input) = &mut guard.stdin {
            let line = format!("{}\n", shell_text::guard(&self.name, GUARD_S));
            // if it has ended, it reports why
            let _ = input.write_all(line.as_bytes());
        }
        let complaint = Arc::new(Mutex::new(String::new()));
        let (closed, is_closed) = channel::<()>();
        gather(guard.stderr.take(), complaint.clone(), move || drop(closed));
        follow(guard.stdout.take(), self.events.clone());
        up.guard = Some(guard);
        let answer = loop {
            match self.happened.recv() {
                // output of a login shell
                Ok(Event::Guard(line)) if !line.ends_with(&self.name) => {}
                answer => break answer,
            }
        };
        match answer {
            Ok(Event::Guard(folder)) => up.folder = folder,
            Ok(Event::Unguarded) => {
                let _ = is_closed.recv_timeout(Duration::from_millis(300));
                let complaint = complaint.lock().unwrap_or_else(PoisonError::into_inner);
                return Err(Failure::Refused(format!(
                    "its shell does not run our commands ({}). Try it by hand: {}",
                    last_words(&complaint),
                    self.target.check_command()
                )));
            }
            Ok(Event::Ended) => return Err(not_connected(&self.target, &up.last_stderr())),
            _ => return Err(Failure::Stopped),
        }
        Ok(up)
    }

    /// Waits for the end of a connection.
    fn keep(&self, up: &mut Up) {
        let mut waiting = BTreeMap::new();
        let reason = loop {
            match self.happened.recv_timeout(BEAT) {
                Ok(Event::Guard(line)) => {
                    let killed = line.strip_prefix(shell_text::KILLED);
                    drop(killed.and_then(|number| waiting.remove(&number.parse::<u64>().ok()?)));
                }
                Ok(Event::Kill(number, done)) => {
                    waiting.insert(number, done);
                    up.tell(&format!("{number}\n"));
                }
                Err(RecvTimeoutError::Timeout) => up.tell("\n"),
                Ok(Event::Ended) => break last_words(&up.last_stderr()),
                Ok(Event::Unguarded) => {
                    // this is how most connections end; the reason follows a moment later
                    match self.happened.recv_timeout(Duration::from_millis(300)) {
                        Ok(Event::Ended) => break last_words(&up.last_stderr()),
                        _ => break "its guard there has ended".to_owned(),
                    }
                }
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    break "it was closed".to_owned();
                }
            }
        };
        let reason = match reason.is_empty() {
            true => "its connection has ended".to_owned(),
            false => reason,
        };
        let mut ended = (self.state.ended.lock()).unwrap_or_else(PoisonError::into_inner);
        *ended = Some(reason);
    }
}

impl Up {
    /// Sends the guard a line; any line shows that we are alive.
    fn tell(&mut self, line: &str) {
        let guard = self.guard.as_mut().and_then(|guard| guard.stdin.as_mut());
        if let Some(input) = guard {
            // a guard that is gone has closed its output, too
            let _ = input.write_all(line.as_bytes());
        }
    }

    fn last_stderr(&self) -> String {
        let output = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        output.clone()
    }
}

/// Starts a process that lives as long as this thread.
fn start(words: &[String], input: Stdio, output: Stdio) -> Result<Child, Failure> {
    let mut process = std::process::Command::new(&words[0]);
    process
        .args(&words[1..])
        .stdin(input)
        .stdout(output)
        .stderr(Stdio::piped());
    die_with_parent(&mut process);
    process.spawn().map_err(|e| no_client(&e))
}

/// Returns the failure of a missing `ssh`, or of one that does not start.
pub(super) fn no_client(error: &std::io::Error) -> Failure {
    Failure::Unreachable(match error.kind() {
        std::io::ErrorKind::NotFound => {
            "this machine has no program `ssh`. Install it here with: apt-get install openssh-client"
                .into()
        }
        _ => format!("the program `ssh` of this machine does not start: {error}"),
    })
}

fn gather(
    pipe: Option<impl Read + Send + 'static>,
    into: Arc<Mutex<String>>,
    at_end: impl FnOnce() + Send + 'static,
) {
    std::thread::spawn(move || {
        let lines = pipe.map(BufReader::new).into_iter();
        for line in lines.flat_map(BufRead::lines).map_while(Result::ok) {
            let mut all = into.lock().unwrap_or_else(PoisonError::into_inner);
            all.push_str(&line);
            all.push('\n');
        }
        at_end();
    });
}

fn follow(pipe: Option<impl Read + Send + 'static>, events: Sender<Event>) {
    std::thread::spawn(move || {
        let lines = pipe.map(BufReader::new).into_iter();
        for line in lines.flat_map(BufRead::lines).map_while(Result::ok) {
            if events.send(Event::Guard(line)).is_err() {
                return;
            }
        }
        let _ = events.send(Event::Unguarded);
    });
}

fn option(of: &str) -> [String; 2] {
    ["-o".to_owned(), of.to_owned()]
}

/// Returns the words with which each `ssh` begins.
fn base_words(target: &Target, socket: &Path) -> Vec<String> {
    let mut words = vec!["ssh".to_owned()];
    words.extend(target.options());
    words.extend(PLAIN.iter().flat_map(|of| option(of)));
    // a percent sign is special in this option
    let path = socket.to_string_lossy().replace('%', "%%");
    words.extend(option(&format!("ControlPath={path}")));
    words
}

/// Returns a client of the connection: without the connection, it must not open its own.
fn client(target: &Target, socket: &Path) -> Vec<String> {
    let mut words = base_words(target, socket);
    words.extend(
        ["ControlMaster=no", "ProxyCommand=false"]
            .map(option)
            .concat(),
    );
    words.extend(["-T".into(), "--".into(), target.host.clone()]);
    words
}

fn session(client: &[String]) -> Vec<String> {
    let mut words = client.to_vec();
    words.push(shell_text::BEGIN.to_owned());
    words
}

/// Our directory for the socket of a connection.
#[derive(Debug)]
struct Place {
    folder: PathBuf,
    socket: PathBuf,
}

impl Place {
    fn new() -> std::io::Result<Place> {
        let base = base();
        remove_old(&base);
        let mut number = 0;
        loop {
            let folder = base.join(format!("fwdlab-ssh-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => {
                    let socket = folder.join("s");
                    return Ok(Place { folder, socket });
                }
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                Err(e) => return Err(e),
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns the parent directory of sockets, whose paths must be short.
fn base() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let known = [runtime, Some(std::env::temp_dir())];
    let name = "/fwdlab-ssh-4194304-9999/s".len();
    let fits = |path: &PathBuf| path.is_dir() && path.as_os_str().len() + name <= MOST_PATH;
    let found = known.into_iter().flatten().find(fits);
    found.unwrap_or_else(|| "/tmp".into())
}

/// Removes directories of processes that are gone.
fn remove_old(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let process = (name.strip_prefix("fwdlab-ssh-")).and_then(|rest| rest.split('-').next());
        if process.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
