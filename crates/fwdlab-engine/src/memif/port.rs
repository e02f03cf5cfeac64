//! A memif port: its control socket, which has its own thread, and the current connection.
//!
//! The thread connects or accepts repeatedly: a peer that restarts gets new rings. The two halves
//! of a connection (the rings of each direction, [`Half`]) move to the sender and the receiver,
//! which detect a new connection by one atomic number. Nothing here examines frames. Start with
//! [`Port::open`].

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with,
};

use super::control::{self, Control, Failure, Waited, event, wait};
use super::ring::{Fault, Incoming, Outgoing};
use super::{Options, Role};
use crate::error::EngineError;

/// How long a client waits before it tries again to connect.
const RETRY: Duration = Duration::from_millis(50);
/// The same after a server has refused it, perhaps because its port is not up yet.
const RETRY_REFUSED: Duration = Duration::from_millis(500);
/// How long a client that was refused lets the server close the socket first: DPDK 22.11 ends with
/// a panic if it has to send to a closed one.
const LINGER: Duration = Duration::from_millis(500);

/// Even the longest wait of the thread has an end.
const LONG: Duration = Duration::from_secs(60);

/// A port. Clones are the same port; the connection ends with the last one.
#[derive(Clone)]
pub struct Port {
    pub(super) shared: Arc<Shared>,
    keeper: Arc<Keeper>,
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Port").field(self.options()).finish()
    }
}

/// A port that stays open only as long as others use it.
pub(super) struct WeakPort {
    shared: Weak<Shared>,
    keeper: Weak<Keeper>,
}

impl WeakPort {
    /// Returns the port, if it is still open.
    pub(super) fn port(&self) -> Option<Port> {
        let port = Port {
            shared: self.shared.upgrade()?,
            keeper: self.keeper.upgrade()?,
        };
        (!port.shared.is_stopping()).then_some(port)
    }
}

/// What the port's thread and the ends of the connection share.
pub(super) struct Shared {
    options: Options,
    /// Changes whenever a connection begins or ends.
    generation: AtomicU32,
    state: Mutex<State>,
    stop: Arc<OwnedFd>,
    stopping: AtomicBool,
    /// Frames that peers have read, and that were dropped because a ring was full.
    tx_packets: AtomicU64,
    tx_dropped: AtomicU64,
    /// How often a receiver found its ring nearly full.
    rx_full: AtomicU64,
}

/// The connection of the moment, and what is known of those before.
#[derive(Default)]
pub(super) struct State {
    connected: bool,
    sending: Option<Vec<Outgoing>>,
    receiving: Option<Vec<Incoming>>,
    status: Status,
    /// Why an end of the connection gave up.
    fault: Option<Fault>,
}

/// The state of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// The peer's name for itself, while it is connected.
    pub peer: Option<String>,
    /// The process of the newest peer, if the kernel knows it; of a server, the one that opened the
    /// socket.
    pub process: Option<u32>,
    /// Connections so far.
    pub connections: u64,
    /// Queues to send into and to receive from, of the newest connection.
    pub queues: (usize, usize),
    /// Why the last connection that ended did so, or why the last attempt failed.
    pub problem: Option<String>,
    /// Frames that were in a ring, not read by the peer, when their connection ended.
    pub lost_in_rings: u64,
    /// Frames of the peer that were in a ring when the next connection began, and no receiver had
    /// taken that connection.
    pub unread_in_rings: u64,
    /// Frames of trials that peers have read.
    pub tx_packets: u64,
    /// Frames of trials that were dropped because the ring to the peer was full.
    pub tx_dropped: u64,
    /// How often the receiver found so little room in its ring that the peer may have dropped
    /// frames.
    pub rx_full: u64,
}

/// Returns the frames in these rings that the peer has not read.
fn left(rings: &mut [Outgoing]) -> u64 {
    let left = rings.iter_mut().map(|ring| {
        let _ = ring.poll(|_| {});
        u64::from(ring.left())
    });
    left.sum()
}

/// One end of a ring.
pub(super) trait End: Sized {
    /// Returns where the port stores these ends while no sender or receiver uses them.
    fn kept(state: &mut State) -> &mut Option<Vec<Self>>;
}

impl End for Outgoing {
    fn kept(state: &mut State) -> &mut Option<Vec<Outgoing>> {
        &mut state.sending
    }
}

impl End for Incoming {
    fn kept(state: &mut State) -> &mut Option<Vec<Incoming>> {
        &mut state.receiving
    }
}

/// One half of the connection of the moment, for its only user; a ring for each queue. Given back
/// when dropped.
pub(super) struct Half<T: End> {
    shared: Arc<Shared>,
    /// The generation of the rings; 0 before the first.
    seen: u32,
    /// Empty without a connection.
    pub rings: Vec<T>,
}

impl<T: End> Half<T> {
    pub(super) fn new(port: &Port) -> Half<T> {
        Half {
            shared: port.shared.clone(),
            seen: 0,
            rings: vec![],
        }
    }

    /// Takes the rings of a new connection, if it changed. Returns the old ones then, to be read or
    /// counted for the last time.
    #[inline]
    pub(super) fn renew(&mut self) -> Option<Vec<T>> {
        match self.generation() == self.seen {
            true => None,
            false => Some(self.replace()),
        }
    }

    #[cold]
    fn replace(&mut self) -> Vec<T> {
        let mut state = self.shared.state();
        self.seen = self.shared.generation.load(Ordering::Relaxed);
        let new = T::kept(&mut state).take();
        std::mem::replace(&mut self.rings, new.unwrap_or_default())
    }

    #[inline]
    fn generation(&self) -> u32 {
        self.shared.generation.load(Ordering::Acquire)
    }

    /// Counts that the peer may have had no room.
    #[inline]
    pub(super) fn was_full(&self) {
        self.shared.rx_full.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the connection, because the peer broke the protocol. Returns its rings.
    #[cold]
    pub(super) fn broken(&mut self, fault: Fault) -> Vec<T> {
        let mut state = self.shared.state();
        if self.generation() == self.seen {
            state.fault = Some(fault);
            self.shared.wake();
        }
        std::mem::take(&mut self.rings)
    }
}

impl<T: End> Drop for Half<T> {
    fn drop(&mut self) {
        let rings = std::mem::take(&mut self.rings);
        let mut state = self.shared.state();
        if !rings.is_empty() && self.generation() == self.seen {
            *T::kept(&mut state) = Some(rings);
        }
    }
}

impl Port {
    /// Opens a port: a server listens, a client starts to connect. Returns at once; see
    /// [`wait_for_peer`](Self::wait_for_peer).
    ///
    /// # Errors
    /// If options are out of range, or a server cannot listen.
    pub fn open(options: &Options) -> Result<Port, EngineError> {
        options.check().map_err(|reason| EngineError::Memif {
            socket: options.socket.clone(),
            reason,
        })?;
        let failed = |action: &str, error: io::Error| {
            EngineError::system(format!("{action} {}", options.socket.display()), error)
        };
        let listener = match options.role {
            Role::Server => Some(listen_at(&options.socket).map_err(|e| {
                match e.kind() {
                    io::ErrorKind::AddrInUse => EngineError::Memif {
                        socket: options.socket.clone(),
                        reason: "another program listens for memif clients there; end it, or use \
                                 another socket, or the role client"
                            .into(),
                    },
                    _ => failed("listen for memif clients at", e),
                }
            })?),
            Role::Client => None,
        };
        let stop = Arc::new(event().map_err(|e| failed("open a memif port at", e))?);
        let shared = Arc::new(Shared {
            options: options.clone(),
            generation: AtomicU32::new(0),
            state: Mutex::default(),
            stop,
            stopping: AtomicBool::new(false),
            tx_packets: AtomicU64::new(0),
            tx_dropped: AtomicU64::new(0),
            rx_full: AtomicU64::new(0),
        });
        let ours = shared.clone();
        let thread = thread::Builder::new()
            .name("fwdlab-memif".into())
            .spawn(move || match &listener {
                Some(listener) => ours.serve(listener),
                None => ours.keep_connecting(),
            })
            .map_err(|e| failed("start the thread of the memif port", e))?;
        let keeper = Arc::new(Keeper {
            shared: shared.clone(),
            thread: Mutex::new(Some(thread)),
        });
        Ok(Port { shared, keeper })
    }

    /// Waits until a peer is connected.
    ///
    /// # Errors
    /// If none is after this time.
    pub fn wait_for_peer(&self, patience: Duration) -> Result<(), EngineError> {
        let begin = Instant::now();
        while !self.shared.state().connected {
            if begin.elapsed() > patience {
                return Err(self.shared.no_peer(patience));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Returns the state of the port.
    pub fn status(&self) -> Status {
        let status = self.shared.state().status.clone();
        let (tx_packets, tx_dropped) = self.transmitted();
        Status {
            tx_packets,
            tx_dropped,
            rx_full: self.shared.rx_full.load(Ordering::Relaxed),
            ..status
        }
    }

    /// Returns the frames that peers have read, and those that were dropped.
    pub(super) fn transmitted(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.shared.tx_packets), read(&self.shared.tx_dropped))
    }

    /// Sets these counts; only the sender does.
    #[inline]
    pub(super) fn set_transmitted(&self, packets: u64, dropped: u64) {
        self.shared.tx_packets.store(packets, Ordering::Relaxed);
        self.shared.tx_dropped.store(dropped, Ordering::Relaxed);
    }

    /// Returns its options.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    pub(super) fn weak(&self) -> WeakPort {
        WeakPort {
            shared: Arc::downgrade(&self.shared),
            keeper: Arc::downgrade(&self.keeper),
        }
    }

    /// Disconnects from the peer and closes the socket, for all clones of this port. Ends with the
    /// last clone anyway.
    pub fn close(&self) {
        self.keeper.close();
    }

    /// Counts frames that were in a ring, not read by the peer, when their connection ended.
    pub(super) fn lost(&self, frames: u64) {
        self.shared.state().status.lost_in_rings += frames;
    }
}

/// Ends the thread with the last clone of a port.
struct Keeper {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Keeper {
    fn close(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.wake();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.close();
    }
}

/// A listening socket; its file is removed when it is closed.
struct Listener {
    socket: OwnedFd,
    path: Option<PathBuf>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns the address of a socket; a path that begins with `@` is an abstract name.
fn address(path: &Path) -> io::Result<SocketAddrUnix> {
    Ok(
        match path.to_str().and_then(|path| path.strip_prefix('@')) {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
            None => SocketAddrUnix::new(path)?,
        },
    )
}

/// Returns a socket that never blocks: a server that does not accept must not stop a client.
fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    Ok(socket)
}

/// Listens at a path. A file that a dead server left is replaced, one of a living server is not.
fn listen_at(path: &Path) -> io::Result<Listener> {
    let address = address(path)?;
    let is_dead = || {
        let socket = new_socket().ok();
        let tried = socket.map(|socket| connect(&socket, &address));
        tried == Some(Err(rustix::io::Errno::CONNREFUSED))
    };
    let socket = new_socket()?;
    match bind(&socket, &address) {
        Err(rustix::io::Errno::ADDRINUSE) if is_dead() => {
            fs::remove_file(path)?;
            bind(&socket, &address)?;
        }
        result => result?,
    }
    let is_file = !path.as_os_str().as_encoded_bytes().starts_with(b"@");
    let listener = Listener {
        socket,
        path: is_file.then(|| path.to_owned()),
    };
    listen(&listener.socket, 16)?;
    Ok(listener)
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread of the port.
    fn wake(&self) {
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Takes note of a wake-up. Returns why the connection must end, if it must.
    fn woken(&self) -> Option<Fault> {
        let _ = rustix::io::read(&self.stop, &mut [0; 8]);
        self.state().fault.take()
    }

    /// Returns the error of a port without a peer.
    pub(super) fn no_peer(&self, patience: Duration) -> EngineError {
        let options = &self.options;
        let (other, advice) = match options.role {
            Role::Server => ("client", "start one with this socket and the role client"),
            Role::Client => ("server", "start one with this socket and the role server"),
        };
        let problem = self.state().status.problem.clone();
        EngineError::Memif {
            socket: options.socket.clone(),
            reason: format!(
                "no {other} is connected to interface {} after {patience:?}: {}; {advice}",
                options.id,
                problem.as_deref().unwrap_or("none has tried")
            ),
        }
    }

    /// The thread of a client.
    fn keep_connecting(&self) {
        while !self.is_stopping() {
            let pause = match self.connect_once() {
                Ok(()) | Err(Failure::Stopped) => RETRY,
                Err(failure) => {
                    self.state().status.problem = Some(failure.to_string());
                    match failure {
                        Failure::System(_) => RETRY,
                        _ => RETRY_REFUSED,
                    }
                }
            };
            // wake-ups end the pause early, which does no harm
            let _ = wait(&[], self.stop.as_fd(), Instant::now() + pause);
            if !self.is_stopping() {
                self.woken();
            }
        }
    }

    fn connect_once(&self) -> Result<(), Failure> {
        let socket = new_socket()?;
        let address = address(&self.options.socket)?;
        connect(&socket, &address).map_err(io::Error::from)?;
        let control = Control {
            socket,
            stop: self.stop.clone(),
        };
        let link =
            control::connect(&control, &self.options).inspect_err(|failure| match failure {
                Failure::Refused(reason) => control.disconnect(reason),
                Failure::Disconnected(_) => {
                    let _ = wait(
                        &[control.socket.as_fd()],
                        self.stop.as_fd(),
                        Instant::now() + LINGER,
                    );
                }
                _ => {}
            })?;
        self.begin(link, &control);
        let reason = self.watch(&control, None);
        self.end(reason);
        Ok(())
    }

    /// The thread of a server.
    fn serve(&self, listener: &Listener) {
        while !self.is_stopping() {
            let deadline = Instant::now() + LONG;
            match wait(&[listener.socket.as_fd()], self.stop.as_fd(), deadline) {
                Ok(Waited::Ready) => {}
                Ok(Waited::Stopped) => {
                    self.woken();
                    continue;
                }
                Ok(Waited::TimedOut) => continue,
                Err(error) => {
                    self.state().status.problem = Some(error.to_string());
                    return;
                }
            }
            let Some(control) = self.next_client(listener) else {
                continue;
            };
            match control::accept(&control, &self.options) {
                Ok(link) => {
                    self.begin(link, &control);
                    let reason = self.watch(&control, Some(listener));
                    self.end(reason);
                }
                Err(failure) => {
                    if let Failure::Refused(reason) = &failure {
                        control.disconnect(reason);
                    }
                    self.state().status.problem = Some(failure.to_string());
                }
            }
        }
    }

    fn next_client(&self, listener: &Listener) -> Option<Control> {
        match accept_with(&listener.socket, SocketFlags::CLOEXEC) {
            Ok(socket) => Some(Control {
                socket,
                stop: self.stop.clone(),
            }),
            // it has gone again
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::CONNABORTED) => None,
            Err(error) => {
                // for example too many open files, until some are closed
                self.state().status.problem = Some(format!("cannot accept a client: {error}"));
                thread::sleep(RETRY);
                None
            }
        }
    }

    fn begin(&self, link: control::Link, control: &Control) {
        let mut state = self.state();
        let generation = self.generation.load(Ordering::Relaxed).wrapping_add(1);
        state.connected = true;
        state.fault = None;
        state.status.peer = Some(link.peer);
        state.status.process = control.process();
        state.status.connections += 1;
        state.status.queues = (link.outgoing.len(), link.incoming.len());
        state.sending = Some(link.outgoing);
        if let Some(old) = state.receiving.replace(link.incoming) {
            let unread = old.into_iter().map(|mut ring| ring.poll().unwrap_or(0));
            state.status.unread_in_rings += unread.map(u64::from).sum::<u64>();
        }
        self.generation.store(generation, Ordering::Release);
    }

    /// Ends a connection. The receiving half stays for a reader: frames in it have arrived.
    fn end(&self, reason: String) {
        let mut state = self.state();
        let generation = self.generation.load(Ordering::Relaxed).wrapping_add(1);
        self.generation.store(generation, Ordering::Release);
        state.connected = false;
        state.status.peer = None;
        state.status.problem = Some(reason);
        if let Some(mut sending) = state.sending.take() {
            state.status.lost_in_rings += left(&mut sending);
        }
    }

    /// Waits until the connection ends; returns why. Other clients are turned away meanwhile.
    fn watch(&self, control: &Control, listener: Option<&Listener>) -> String {
        loop {
            let deadline = Instant::now() + LONG;
            let mut files = vec![control.socket.as_fd()];
            files.extend(listener.map(|listener| listener.socket.as_fd()));
            match wait(&files, self.stop.as_fd(), deadline) {
                Ok(Waited::TimedOut) => {}
                Ok(Waited::Stopped) => {
                    let fault = self.woken();
                    if self.is_stopping() {
                        control.disconnect("closed");
                        // for the loop around this one
                        self.wake();
                        return "closed".into();
                    }
                    if let Some(Fault(reason)) = fault {
                        control.disconnect(&reason);
                        return reason;
                    }
                }
                Ok(Waited::Ready) => match control.receive() {
                    Err(Failure::System(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                        if let Some(other) = listener.and_then(|l| self.next_client(l)) {
                            other.disconnect("already connected");
                        }
                    }
                    Err(failure) => return failure.to_string(),
                    Ok((message, _)) => {
                        let reason = format!("it sent {} when connected", message.name());
                        control.disconnect(&reason);
                        return reason;
                    }
                },
                Err(error) => return error.to_string(),
            }
        }
    }
}
