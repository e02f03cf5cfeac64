//! The server's state: its ports, their owners, the loaded streams, and the sessions.
//!
//! Calls change it, one at a time. Start with [`Model`]; [`Model::owned`] returns a port that the
//! caller must own.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use fwdlab_lab::ports::counters::Counters;
use fwdlab_packet::bpf::Program;
use serde_json::{Value, json};

use crate::capture::{self, Captures, PortCapture};
use crate::cpu;
use crate::events::{Event, Events};
use crate::groups::Registry;
use crate::limits;
use crate::rates::Meter;
use crate::rpc::{Fault, Params};
use crate::run::Run;
use crate::stream::{FCS, Stream};
use crate::wire::{Sending, Wire};

/// The default profile.
pub const PROFILE: &str = "_";
/// All profiles.
pub const ALL: &str = "*";

/// Size assumed for foreign frames: the smallest, in bytes without FCS.
const SHORTEST: u64 = 60;

/// Length of the window for rates and latencies of groups.
const WINDOW: Duration = Duration::from_millis(500);

/// The complete state.
pub struct Model {
    /// Our ports, by number.
    pub ports: Vec<TrexPort>,
    /// The CPU cost of senders.
    pub cpu: cpu::Load,
    /// Frames that were due and did not leave.
    pub missed: u64,
    /// Streams that are counted together.
    pub groups: Registry,
    /// Captures of clients.
    pub captures: Captures,
    /// Filters that were compiled for the current message.
    pub filters: BTreeMap<String, Result<Program, Fault>>,
    /// End of the last window of time, see [`Model::tick`].
    pub window: Instant,
    /// Pending events of sessions.
    pub events: Events,
    /// The handle that a client must request first.
    pub handle: String,
    /// Start of the server; the clock of `ping`.
    pub began: Instant,
    /// Messages to publish in addition to wake-ups.
    pub to_publish: Vec<Vec<u8>>,
}

/// The owner of a port.
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
    /// Its listener.
    pub ears: PortCapture,
    /// The last received frames, if a client wants them.
    pub queue: Option<capture::Shared>,
    /// A capture file being sent, as a whole and without a profile.
    pub playing: Option<Box<dyn Sending>>,
    /// What its profiles have sent: frames, and their bytes without FCS.
    pub sent: (u64, f64),
    /// The kernel's counts at the start.
    began: Counters,
}

/// Service mode: whether a port delivers received frames to clients.
#[derive(Debug, Clone, Copy, Default)]
pub struct Service {
    pub on: bool,
    pub filtered: bool,
}

/// The attributes of a port that a client may set.
#[derive(Debug, Clone, Copy)]
pub struct Attributes {
    pub promiscuous: bool,
    pub multicast: bool,
}

/// The addresses of a port.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    pub destination: Option<[u8; 6]>,
    pub vlan: Vec<u16>,
    /// Set if the port has IPv4; it is resolved if it has a destination.
    pub ipv4: Option<Ipv4>,
    /// Set if the port has IPv6: its address, or `None` to derive it.
    pub ipv6: Option<Option<Ipv6Addr>>,
}

/// The IPv4 settings of a port.
#[derive(Debug, Clone)]
pub struct Ipv4 {
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
}

/// Streams that are loaded, started and stopped together.
#[derive(Default)]
pub struct Profile {
    pub streams: BTreeMap<u32, Loaded>,
    /// Their size as JSON.
    pub bytes: usize,
    /// The run, while they send.
    pub run: Option<Run>,
}

/// A stream.
pub struct Loaded {
    /// As sent by the client, to be returned unchanged.
    pub said: Value,
    pub stream: Stream,
}

impl Profile {
    /// Returns TRex's name of the state.
    pub fn state(&self) -> &'static str {
        match &self.run {
            Some(run) if run.is_paused => "PAUSE",
            Some(_) => "TX",
            None if self.streams.is_empty() => "IDLE",
            None => "STREAMS",
        }
    }

    /// Returns the parsed streams.
    pub fn understood(&self) -> BTreeMap<u32, Stream> {
        let streams = self.streams.iter();
        streams.map(|(id, one)| (*id, one.stream.clone())).collect()
    }
}

impl TrexPort {
    fn new(wire: Box<dyn Wire>) -> TrexPort {
        let started = wire.counters().unwrap_or_default();
        let meter = Meter::new(started, Instant::now());
        TrexPort {
            playing: None,
            sent: (0, 0.0),
            began: started,
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
            ears: PortCapture::default(),
            queue: None,
        }
    }

    /// Returns the counters of the port. A veth counts some frames without their Ethernet header,
    /// so the bytes of our frames are computed.
    pub fn counters(&self) -> Result<Counters, Fault> {
        let mut counters = self.wire.counters().map_err(Fault::execute)?;
        if self.wire.kind() == Some("veth") {
            let left = counters.tx_packets.saturating_sub(self.began.tx_packets);
            // the port may have dropped some of ours, of all lengths alike
            let ours = left.min(self.sent.0);
            let mean = self.sent.1 / self.sent.0.max(1) as f64;
            let bytes = (ours as f64 * mean).round() as u64 + (left - ours) * SHORTEST;
            counters.tx_bytes = self.began.tx_bytes + bytes;
        }
        Ok(counters)
    }

    /// The programs that count frames drop them, unless a client captures frames.
    pub fn deliver(&mut self) -> Result<(), Fault> {
        let everything = self.service.on || self.service.filtered || self.ears.is_used();
        match self.wire.groups() {
            Some(groups) => (groups.pass(everything)).map_err(|e| Fault::execute(e.to_string())),
            None => Ok(()),
        }
    }

    /// Returns the destination of its frames: set by a client, or the default.
    pub fn destination(&self) -> Option<[u8; 6]> {
        self.layers.destination.or(self.wire.peer())
    }

    /// Returns TRex's name of the state of all profiles together.
    pub fn state(&self) -> &'static str {
        if self.playing.is_some() {
            return "PCAP_TX";
        }
        let states = || self.profiles.values().map(Profile::state);
        let first = |state: &str| states().any(|one| one == state);
        ["TX", "PAUSE", "STREAMS"]
            .into_iter()
            .find(|state| first(state))
            .unwrap_or("IDLE")
    }
}

impl Model {
    /// Creates the state for these ports.
    pub fn new(wires: Vec<Box<dyn Wire>>) -> io::Result<Model> {
        Ok(Model {
            ports: wires.into_iter().map(TrexPort::new).collect(),
            groups: Registry::default(),
            captures: Captures::default(),
            filters: BTreeMap::new(),
            cpu: cpu::Load::new(Instant::now()),
            missed: 0,
            window: Instant::now(),
            events: Events::default(),
            handle: handle()?,
            began: Instant::now(),
            to_publish: Vec::new(),
        })
    }

    /// Returns the program of a filter that was compiled with the message.
    pub fn filter(&mut self, words: &str) -> Result<Program, Fault> {
        match self.filters.get(words) {
            Some(known) => known.clone(),
            None if words.trim().is_empty() => Ok(Program::accept_all()),
            None => Err(Fault::execute(format!(
                "one message may bring {} filters; send them one by one",
                limits::FILTERS
            ))),
        }
    }

    /// Returns the number of the port of a call.
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

    /// Returns the port of a call.
    pub fn port(&mut self, params: &Params<'_>) -> Result<&mut TrexPort, Fault> {
        let at = self.number(params)?;
        Ok(&mut self.ports[at])
    }

    /// Returns the port of a call, which the caller must own.
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

    /// Makes a user the owner of a port, and returns the handler that proves it.
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
        self.events.send(Event::Acquired, &data);
        Ok(handler)
    }

    /// Releases a port.
    pub fn release(&mut self, at: usize) {
        let Some(owner) = self.ports[at].owner.take() else {
            return;
        };
        let data = json!({"port_id": at, "who": owner.user, "session_id": owner.session});
        self.events.send(Event::Released, &data);
    }

    /// Sends the events of a changed profile, and of its port if that has changed, too.
    pub fn send_profile_events(
        &mut self,
        profile: Event,
        port: Event,
        at: usize,
        name: &str,
        before: &str,
    ) {
        let data = json!({"port_id": at, "profile_id": name});
        self.events.send(profile, &data);
        if self.ports[at].state() != before {
            self.events.send(port, &json!({"port_id": at}));
        }
    }

    /// Stops a profile if it sends, and sends these events of the profile and of the port.
    pub fn stop(&mut self, at: usize, name: &str, events: [Event; 2]) -> Result<(), Fault> {
        let before = self.ports[at].state();
        let run = |model: &mut Model| model.ports[at].profiles.get_mut(name)?.run.take();
        let Some(mut run) = run(self) else {
            return Ok(());
        };
        let stopped = run.stop();
        self.count(at, &mut run);
        self.send_profile_events(events[0], events[1], at, name, before);
        stopped
    }

    /// Stops the capture file that a port sends, if any, and sends this event.
    pub fn stop_playing(&mut self, at: usize, event: Event) -> Result<(), Fault> {
        let Some(mut playing) = self.ports[at].playing.take() else {
            return Ok(());
        };
        let counts = playing.stop();
        self.events.send(event, &json!({"port_id": at}));
        let counts = counts.map_err(|error| Fault::execute(error.to_string()))?;
        let frames = counts.total();
        let sent = &mut self.ports[at].sent;
        *sent = (
            sent.0 + frames,
            sent.1 + counts.bytes.unwrap_or(frames * SHORTEST) as f64,
        );
        Ok(())
    }

    /// Adds the frames that a run has sent to its groups.
    fn count(&mut self, at: usize, run: &mut Run) {
        self.missed += run.missed();
        for (place, frames) in run.news().into_iter().enumerate() {
            let stream = &run.plan.streams[place];
            let sent = &mut self.ports[at].sent;
            *sent = (sent.0 + frames, sent.1 + frames as f64 * stream.mean_bytes);
            if let Some(group) = stream.group.filter(|_| frames > 0) {
                let bytes = (frames as f64 * (stream.mean_bytes + FCS)).round() as u64;
                self.groups.sent(group.id, at, frames, bytes);
            }
        }
    }

    /// Counts the frames sent so far.
    pub fn count_sent(&mut self) {
        for at in 0..self.ports.len() {
            let names: Vec<String> = self.ports[at].profiles.keys().cloned().collect();
            for name in names {
                let take = |model: &mut Model| model.ports[at].profiles.get_mut(&name)?.run.take();
                if let Some(mut run) = take(self) {
                    self.count(at, &mut run);
                    if let Some(profile) = self.ports[at].profiles.get_mut(&name) {
                        profile.run = Some(run);
                    }
                }
            }
        }
    }

    /// Handles the end of traffic, and windows of time. To be called a hundred times a second.
    pub fn tick(&mut self) {
        let mut ended = Vec::new();
        for (at, port) in self.ports.iter_mut().enumerate() {
            for (name, profile) in &mut port.profiles {
                match profile.run.as_mut().map(Run::is_done) {
                    None | Some(Ok(false)) => {}
                    Some(Ok(true)) => {
                        ended.push((at, name.clone(), [Event::ProfileDone, Event::Done]));
                    }
                    Some(Err(_)) => {
                        ended.push((at, name.clone(), [Event::ProfileFailed, Event::Failed]));
                    }
                }
            }
        }
        for at in 0..self.ports.len() {
            let done = self.ports[at]
                .playing
                .as_mut()
                .map(|playing| playing.is_done());
            match done {
                None | Some(Ok(false)) => {}
                Some(Ok(true)) => drop(self.stop_playing(at, Event::Done)),
                Some(Err(_)) => drop(self.stop_playing(at, Event::Failed)),
            }
        }
        for (at, name, events) in ended {
            // a client sees the end in the state; the next start reports why a sender failed
            let _ = self.stop(at, &name, events);
        }
        if self.window.elapsed() >= WINDOW {
            self.window = Instant::now();
            self.cpu.end_window(self.window);
            self.count_sent();
            for port in &mut self.ports {
                // a port that is gone has no rates
                let counters = port.counters().unwrap_or_default();
                port.meter.end_window(counters, self.window);
            }
            let _ = self.groups.end_window(&mut self.ports);
        }
    }
}

/// Returns eight unpredictable letters.
fn handle() -> io::Result<String> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789ab";
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let letter = |byte: u8| char::from(LETTERS[usize::from(byte % 64)]);
    Ok(bytes.into_iter().map(letter).collect())
}
