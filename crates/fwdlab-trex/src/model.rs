//! What the server knows: its ports, who owns them, what is loaded on them, and the sessions that listen.
//!
//! Calls change it, one at a time. Start with [`Model`]; [`Model::owned`] is how a call gets at a port that must be its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::time::Instant;

use serde_json::{Value, json};

use crate::events::{Event, Events};
use crate::limits;
use crate::rates::Meter;
use crate::rpc::{Fault, Params};
use crate::wire::Wire;

/// The profile that is meant where none is named.
pub const PROFILE: &str = "_";
/// All profiles.
pub const ALL: &str = "*";

/// Everything.
pub struct Model {
    /// Our ports, by number.
    pub ports: Vec<TrexPort>,
    /// What sessions have not heard yet.
    pub events: Events,
    /// What a client must have asked for before anything else.
    pub handle: String,
    /// Since when we serve; the clock of `ping`.
    pub began: Instant,
    /// To be published beside wake-ups.
    pub to_publish: Vec<Vec<u8>>,
}

/// Who owns a port.
pub struct Owner {
    pub user: String,
    pub session: u32,
    pub handler: String,
}

/// A port.
pub struct TrexPort {
    pub wire: Box<dyn Wire>,
    pub meter: Meter,
    pub owner: Option<Owner>,
    pub profiles: BTreeMap<String, Profile>,
    pub service: Service,
    pub attributes: Attributes,
    pub layers: Layers,
}

/// Does a port deliver what it receives to programs?
#[derive(Debug, Clone, Copy, Default)]
pub struct Service {
    pub on: bool,
    pub filtered: bool,
}

/// What a client may set a port to.
#[derive(Debug, Clone, Copy)]
pub struct Attributes {
    pub promiscuous: bool,
    pub multicast: bool,
}

/// Addresses that frames of a port get.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    pub destination: Option<[u8; 6]>,
    pub vlan: Vec<u16>,
}

/// Streams that are loaded, started and stopped together.
#[derive(Default)]
pub struct Profile {
    /// As the client said them, to be given back so.
    pub streams: BTreeMap<u32, Value>,
    /// Their size as JSON.
    pub bytes: usize,
}

impl Profile {
    /// TRex's word for it.
    pub fn state(&self) -> &'static str {
        match self.streams.is_empty() {
            true => "IDLE",
            false => "STREAMS",
        }
    }
}

impl TrexPort {
    fn new(wire: Box<dyn Wire>) -> TrexPort {
        let meter = Meter::new(wire.counters().unwrap_or_default(), Instant::now());
        TrexPort {
            wire,
            meter,
            owner: None,
            profiles: BTreeMap::from([(PROFILE.to_owned(), Profile::default())]),
            service: Service::default(),
            attributes: Attributes {
                promiscuous: false,
                multicast: false,
            },
            layers: Layers::default(),
        }
    }

    /// TRex's word for all profiles together.
    pub fn state(&self) -> &'static str {
        let states = || self.profiles.values().map(Profile::state);
        let first = |state: &str| states().any(|one| one == state);
        ["TX", "PAUSE", "STREAMS"]
            .into_iter()
            .find(|state| first(state))
            .unwrap_or("IDLE")
    }
}

impl Model {
    /// A server of these ports.
    pub fn new(wires: Vec<Box<dyn Wire>>) -> io::Result<Model> {
        Ok(Model {
            ports: wires.into_iter().map(TrexPort::new).collect(),
            events: Events::default(),
            handle: handle()?,
            began: Instant::now(),
            to_publish: Vec::new(),
        })
    }

    /// The number of the port that a call is about.
    pub fn number(&self, params: &Params<'_>) -> Result<usize, Fault> {
        let number = params.number("port_id")?;
        usize::try_from(number)
            .ok()
            .filter(|&at| at < self.ports.len())
            .ok_or_else(|| {
                Fault::execute(format!(
                    "there is no port {number}; ports are 0 to {}",
                    self.ports.len().saturating_sub(1)
                ))
            })
    }

    /// The port that a call is about.
    pub fn port(&mut self, params: &Params<'_>) -> Result<&mut TrexPort, Fault> {
        let at = self.number(params)?;
        Ok(&mut self.ports[at])
    }

    /// The port that a call is about, which must be the caller's.
    pub fn owned(&mut self, params: &Params<'_>) -> Result<&mut TrexPort, Fault> {
        let handler = params.text("handler")?;
        let port = self.port(params)?;
        match &port.owner {
            Some(owner) if owner.handler == handler => Ok(port),
            Some(owner) => Err(Fault::execute(format!(
                "the port is owned by '{}', and this handler is not the owner's",
                owner.user
            ))),
            None => Err(Fault::execute("the port has no owner; acquire it first")),
        }
    }

    /// Gives a port to a user, and the handler by which it is the user's.
    pub fn acquire(
        &mut self,
        at: usize,
        user: &str,
        session: u32,
        force: bool,
    ) -> Result<String, Fault> {
        if user.is_empty() || user.len() > limits::NAME {
            return Err(Fault::params("field 'user' is empty or too long"));
        }
        let port = &mut self.ports[at];
        let others = port
            .owner
            .as_ref()
            .filter(|owner| owner.user != user || owner.session != session);
        if let Some(owner) = others
            && !force
        {
            let text = match owner.user == user {
                true => format!("port is already taken by '{user}' in another session"),
                false => format!("port is already taken by '{}'", owner.user),
            };
            return Err(Fault::execute(text));
        }
        let taken_away = others.is_some();
        let handler = match &port.owner {
            Some(owner) if !force => owner.handler.clone(),
            _ => handle().map_err(|error| Fault {
                code: Fault::INTERNAL,
                text: format!("cannot make a handler: {error}"),
            })?,
        };
        port.owner = Some(Owner {
            user: user.into(),
            session,
            handler: handler.clone(),
        });
        let data = json!({"port_id": at, "who": user, "session_id": session, "force": taken_away});
        self.events.tell(Event::Acquired, &data);
        Ok(handler)
    }

    /// The port is nobody's again.
    pub fn release(&mut self, at: usize) {
        let Some(owner) = self.ports[at].owner.take() else {
            return;
        };
        let data = json!({"port_id": at, "who": owner.user, "session_id": owner.session});
        self.events.tell(Event::Released, &data);
    }
}

/// Eight letters that nobody can guess.
fn handle() -> io::Result<String> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789ab";
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let letter = |byte: u8| char::from(LETTERS[usize::from(byte % 64)]);
    Ok(bytes.into_iter().map(letter).collect())
}
