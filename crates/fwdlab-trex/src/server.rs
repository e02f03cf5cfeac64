//! Two sockets and the connections to them: requests are answered one after the other, whoever sends them.
//!
//! A connection has a thread, and there is a limit to them. Start with [`Server::bind`], then [`Server::run`].

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fwdlab_lab::ports::Port;

use crate::error::TrexError;
use crate::limits;
use crate::model::Model;
use crate::publisher::Publisher;
use crate::rpc;
use crate::wire::{OfLab, Wire};
use crate::zmtp::{Kind, Peer, Received};

/// How often we look whether the end has come, or a connection.
const LOOK: Duration = Duration::from_millis(10);

/// What is served, and where.
pub struct Config {
    /// Where requests come in.
    pub rpc: SocketAddr,
    /// Where clients subscribe.
    pub publisher: SocketAddr,
    /// The ports, in the order of their numbers.
    pub ports: Vec<Port>,
    /// Speed that all of them are said to have, instead of their own.
    pub link_bps: Option<u64>,
    /// Where frames of each port go, unless a client says.
    pub peers: Vec<Option<[u8; 6]>>,
    /// CPUs that senders may use; any, if there are none.
    pub cpus: Vec<usize>,
}

/// A server that listens.
pub struct Server {
    rpc: TcpListener,
    publisher: TcpListener,
    shared: Arc<Shared>,
    /// What users should know of the ports.
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
        for (port, peer) in config.ports.into_iter().zip(peers) {
            let wire = OfLab::new(port, config.link_bps, peer, &config.cpus);
            if let Some(why) = wire.without_groups() {
                notes.push(format!(
                    "{}: flow statistics and latency are not offered: {why}",
                    wire.name()
                ));
            }
            wires.push(Box::new(wire));
        }
        let mut server = Server::of(wires, config.rpc, config.publisher)?;
        server.notes = notes;
        Ok(server)
    }

    /// The same, of any ports.
    pub(crate) fn of(
        wires: Vec<Box<dyn Wire>>,
        rpc: SocketAddr,
        publisher: SocketAddr,
    ) -> Result<Server, TrexError> {
        let model = Model::new(wires).map_err(|source| TrexError::System {
            what: "read random numbers from /dev/urandom",
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
            notes: Vec::new(),
        })
    }

    /// Where requests come in, and where clients subscribe.
    ///
    /// # Errors
    /// The system does not say.
    pub fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.rpc.local_addr()?, self.publisher.local_addr()?))
    }

    /// Serves until this says that it is enough.
    pub fn run(self, is_enough: &dyn Fn() -> bool) {
        let (requests, subscribers) = (Arc::default(), Arc::default());
        while !is_enough() {
            self.shared.tick();
            let shared = self.shared.clone();
            let came = take(&self.rpc, &requests, move |stream| answer(&shared, stream));
            let shared = self.shared.clone();
            let subscribed = take(&self.publisher, &subscribers, move |stream| {
                shared.publisher.serve(stream)
            });
            if !came && !subscribed {
                thread::sleep(LOOK);
            }
        }
    }
}

impl Shared {
    /// What goes on by itself goes on, and who follows hears of it.
    fn tick(&self) {
        let is_news = {
            let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
            model.tick();
            model.events.take_news()
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
        what,
        address,
        option,
        source,
    })
}

/// Takes a connection in, if there is one and room for it: it is worked on in a thread.
fn take(
    listener: &TcpListener,
    connections: &Arc<AtomicUsize>,
    work: impl FnOnce(TcpStream) -> io::Result<()> + Send + 'static,
) -> bool {
    if connections.load(Ordering::Relaxed) >= limits::CONNECTIONS {
        return false;
    }
    let Ok((stream, _)) = listener.accept() else {
        return false;
    };
    let place = Place(connections.clone());
    connections.fetch_add(1, Ordering::Relaxed);
    let set = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_nodelay(true))
        .and_then(|()| stream.set_read_timeout(Some(limits::HANDSHAKE)))
        .and_then(|()| stream.set_write_timeout(Some(limits::WRITE)));
    if set.is_ok() {
        let thread = thread::Builder::new().name("trex-client".into());
        // without a thread the connection is closed; how it ended otherwise is nobody's affair here
        let _ = thread.spawn(move || {
            let _place = place;
            let _ = work(stream);
        });
    }
    true
}

/// A place of a connection, free again when this is dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers the requests of one client until it goes away.
fn answer(shared: &Shared, stream: TcpStream) -> io::Result<()> {
    let mut peer = Peer::shake_hands(stream, Kind::Rep)?;
    peer.may_be_silent()?;
    loop {
        match peer.receive()? {
            Received::Ping(context) => peer.pong(&context)?,
            Received::Message(parts) => {
                // the parts before an empty one are an envelope, which goes back as it came
                let Some((request, envelope)) = parts.split_last() else {
                    continue;
                };
                let (answer, to_publish) = {
                    let mut model = shared.model.lock().unwrap_or_else(PoisonError::into_inner);
                    let answer = rpc::answer(&mut model, request);
                    let mut to_publish = std::mem::take(&mut model.to_publish);
                    if model.events.take_news() {
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
