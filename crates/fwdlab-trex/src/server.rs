//! Two sockets and their connections: requests of all clients are answered in turn.
//!
//! Each connection has a thread, and their number is limited. Start with [`Server::bind`], then
//! [`Server::run`].

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_lab::ports::Port;

use crate::allow::Source;
use crate::error::TrexError;
use crate::limits;
use crate::model::Model;
use crate::publisher::Publisher;
use crate::rpc;
use crate::wire::{LabWire, Wire};
use crate::zmtp::{Kind, Peer, Received};

/// Interval of checking for the end, or for a new connection.
const LOOK: Duration = Duration::from_millis(10);

/// Configuration of the server.
pub struct Config {
    /// Address for requests.
    pub rpc: SocketAddr,
    /// Address for subscriptions.
    pub publisher: SocketAddr,
    /// Allowed client addresses; empty: any.
    pub allow: Vec<Source>,
    /// The ports, in the order of their numbers.
    pub ports: Vec<Port>,
    /// Speed to report for all of them, instead of their own.
    pub link_bps: Option<u64>,
    /// Minimum MTU of the ports while the server runs; `None` keeps their own.
    pub mtu: Option<u32>,
    /// Default destination of the frames of each port.
    pub peers: Vec<Option<[u8; 6]>>,
    /// CPUs that senders may use; empty: any.
    pub cpus: Vec<usize>,
}

/// A listening server.
pub struct Server {
    rpc: TcpListener,
    publisher: TcpListener,
    shared: Arc<Shared>,
    allow: Vec<Source>,
    /// Notes on the ports for users.
    pub notes: Vec<String>,
}

/// What all connections share.
struct Shared {
    model: Mutex<Model>,
    publisher: Publisher,
}

impl Server {
    /// Listens on both sockets.
    ///
    /// # Errors
    /// See [`TrexError`].
    pub fn bind(config: Config) -> Result<Server, TrexError> {
        let peers = config.peers.into_iter().chain(std::iter::repeat(None));
        let mut notes = Vec::new();
        let mut wires: Vec<Box<dyn Wire>> = Vec::new();
        for (mut port, peer) in config.ports.into_iter().zip(peers) {
            let name = port.spec.interface.clone();
            if let Some(bytes) = config.mtu {
                port.raise_mtu(bytes).map_err(TrexError::Port)?;
            }
            match port.silence() {
                Ok(true) => {}
                Ok(false) => notes.push(format!(
                    "{name} has IPv6 addresses, so the kernel keeps sending frames of its own there; they are not counted as ours"
                )),
                Err(reason) => notes.push(format!("{name}: the kernel cannot be kept from sending: {reason}")),
            }
            let wire = LabWire::new(port, config.link_bps, peer, &config.cpus);
            notes.extend(wire.missing());
            wires.push(Box::new(wire));
        }
        let mut server = Server::with_ports(wires, config.rpc, config.publisher)?;
        server.notes = notes;
        server.allow = config.allow;
        Ok(server)
    }

    /// Like `bind`, for any kind of ports.
    pub(crate) fn with_ports(
        wires: Vec<Box<dyn Wire>>,
        rpc: SocketAddr,
        publisher: SocketAddr,
    ) -> Result<Server, TrexError> {
        let model = Model::new(wires).map_err(|source| TrexError::System {
            action: "read random numbers from /dev/urandom",
            source,
        })?;
        let shared = Arc::new(Shared {
            model: Mutex::new(model),
            publisher: Publisher::default(),
        });
        Ok(Server {
            rpc: listen("RPC", rpc, "listen")?,
            publisher: listen("publisher", publisher, "publisher")?,
            shared,
            allow: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Returns the addresses for requests and for subscriptions.
    ///
    /// # Errors
    /// If the system does not report them.
    pub fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.rpc.local_addr()?, self.publisher.local_addr()?))
    }

    /// Serves until `is_enough` returns true.
    pub fn run(self, is_enough: &dyn Fn() -> bool) {
        let (requests, subscribers) = (Places::default(), Places::default());
        while !is_enough() {
            self.shared.tick();
            let shared = self.shared.clone();
            let returned = take(&self.rpc, &self.allow, &requests, move |stream, place| {
                answer(&shared, stream, place)
            });
            let shared = self.shared.clone();
            let subscribed = take(
                &self.publisher,
                &self.allow,
                &subscribers,
                move |stream, place| shared.publisher.serve(stream, &|| place.note_activity()),
            );
            if !returned && !subscribed {
                thread::sleep(LOOK);
            }
        }
        // clients that are still connected must not keep the changes to the ports
        let mut model = self
            .shared
            .model
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        model.ports.clear();
    }
}

impl Shared {
    /// Handles periodic work, and wakes subscribers up.
    fn tick(&self) {
        let is_news = {
            let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
            model.tick();
            model.events.take_new_events()
        };
        if is_news {
            self.publisher.publish(b"{}");
        }
    }
}

fn listen(
    what: &'static str,
    address: SocketAddr,
    option: &'static str,
) -> Result<TcpListener, TrexError> {
    let listener = TcpListener::bind(address);
    let listener = listener.and_then(|one| one.set_nonblocking(true).map(|()| one));
    listener.map_err(|source| TrexError::Listen {
        action: what,
        address,
        option,
        source,
    })
}

/// Accepts a connection, if there is one, and handles it in a thread.
fn take(
    listener: &TcpListener,
    allow: &[Source],
    places: &Places,
    work: impl FnOnce(TcpStream, &Place) -> io::Result<()> + Send + 'static,
) -> bool {
    let Ok((stream, from)) = listener.accept() else {
        return false;
    };
    if !allow.is_empty() && !allow.iter().any(|source| source.contains(from.ip())) {
        return true;
    }
    let set = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_nodelay(true))
        .and_then(|()| stream.set_read_timeout(Some(limits::HANDSHAKE)))
        .and_then(|()| stream.set_write_timeout(Some(limits::WRITE)))
        .and_then(|()| places.enter(from.ip(), &stream));
    if let Ok(place) = set {
        let thread = thread::Builder::new().name("trex-client".into());
        // without a thread the connection is closed; other reasons for its end do not matter here
        let _ = thread.spawn(move || work(stream, &place));
    }
    true
}

/// The connections to a socket.
#[derive(Default)]
struct Places(Arc<Mutex<Vec<Arc<Connection>>>>);

/// A connection, as others see it.
struct Connection {
    from: IpAddr,
    stream: TcpStream,
    /// Whether it ever sent anything, and when it last did, or connected.
    heard: Mutex<(bool, Instant)>,
}

/// The place of a connection, released when dropped.
struct Place {
    all: Arc<Mutex<Vec<Arc<Connection>>>>,
    connection: Arc<Connection>,
}

impl Places {
    /// Gives a connection a place. If there is none for its peer, or for anyone, the one that has
    /// been silent the longest is closed: libzmq reconnects when there is something to send.
    fn enter(&self, from: IpAddr, stream: &TcpStream) -> io::Result<Place> {
        let connection = Arc::new(Connection {
            from,
            stream: stream.try_clone()?,
            heard: Mutex::new((false, Instant::now())),
        });
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_peer = all.iter().filter(|one| one.from == from).count();
        let is_peer_full = of_peer >= limits::CONNECTIONS_OF_PEER;
        if is_peer_full || all.len() >= limits::CONNECTIONS {
            let may_go = |one: &&Arc<Connection>| !is_peer_full || one.from == from;
            let received =
                |one: &&Arc<Connection>| *one.heard.lock().unwrap_or_else(PoisonError::into_inner);
            let silent = all.iter().filter(may_go).min_by_key(received).cloned();
            if let Some(silent) = silent {
                // its thread ends in any state
                let _ = silent.stream.shutdown(Shutdown::Both);
                all.retain(|one| !Arc::ptr_eq(one, &silent));
            }
        }
        all.push(connection.clone());
        Ok(Place {
            all: self.0.clone(),
            connection,
        })
    }
}

impl Place {
    /// Records that the other end has sent something.
    fn note_activity(&self) {
        let mut received = (self.connection.heard.lock()).unwrap_or_else(PoisonError::into_inner);
        *received = (true, Instant::now());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| !Arc::ptr_eq(one, &self.connection));
    }
}

/// Answers the requests of one client until it disconnects.
fn answer(shared: &Shared, stream: TcpStream, place: &Place) -> io::Result<()> {
    let mut peer = Peer::shake_hands(stream, Kind::Rep)?;
    peer.extend_timeout()?;
    loop {
        let received = peer.receive()?;
        place.note_activity();
        match received {
            Received::Ping(context) => peer.pong(&context)?,
            Received::Message(parts) => {
                // the parts before an empty one are an envelope, which is returned unchanged
                let Some((request, envelope)) = parts.split_last() else {
                    continue;
                };
                let message = rpc::Message::read(request);
                let (answer, to_publish) = {
                    let mut model = shared.model.lock().unwrap_or_else(PoisonError::into_inner);
                    let answer = message.answer(&mut model);
                    let mut to_publish = std::mem::take(&mut model.to_publish);
                    if model.events.take_new_events() {
                        to_publish.push(b"{}".to_vec());
                    }
                    (answer, to_publish)
                };
                for message in to_publish {
                    shared.publisher.publish(&message);
                }
                reply(&mut peer, envelope, &answer)?;
            }
            Received::TooLarge(envelope) => reply(&mut peer, &envelope, &rpc::too_large())?,
        }
    }
}

fn reply(peer: &mut Peer, envelope: &[Vec<u8>], answer: &[u8]) -> io::Result<()> {
    let mut parts: Vec<&[u8]> = envelope.iter().map(Vec::as_slice).collect();
    parts.push(answer);
    peer.send(&parts)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// Silent connections, more than there are places: one that sends something gets in, and is not
    /// the one that is closed.
    #[test]
    fn silent_clients_are_disconnected() {
        let none: SocketAddr = ([127, 0, 0, 1], 0).into();
        let server = Server::with_ports(Vec::new(), none, none).unwrap();
        let (rpc, _) = server.addresses().unwrap();
        thread::spawn(move || server.run(&|| false));
        // the greeting of a REQ socket, its READY command, and a request
        let mut output = vec![0; 64];
        (output[0], output[9], output[10]) = (0xff, 0x7f, 3);
        output[12..16].copy_from_slice(b"NULL");
        output.extend(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03REQ");
        let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let request = [&[1, 0, 0, ping.len() as u8], &ping[..]].concat();
        let ask = |stream: &mut TcpStream, words: &[u8]| {
            stream.write_all(words).unwrap();
            let mut answer = Vec::<u8>::new();
            while !answer.windows(8).any(|word| word == b"\"result\"") {
                let mut some = [0; 256];
                let bytes = stream.read(&mut some).unwrap();
                assert!(bytes > 0, "the connection was closed");
                answer.extend(&some[..bytes]);
            }
        };
        let connect = || {
            let stream = TcpStream::connect(rpc).unwrap();
            (stream.set_read_timeout(Some(Duration::from_secs(30)))).unwrap();
            stream
        };
        let connect_many =
            || -> Vec<TcpStream> { (0..2 * limits::CONNECTIONS).map(|_| connect()).collect() };
        let _silent = connect_many();
        let mut speaks = connect();
        ask(&mut speaks, &[&output[..], &request].concat());
        let _more = connect_many();
        ask(&mut connect(), &[&output[..], &request].concat());
        ask(&mut speaks, &request);
    }
}
