//! The ports of the console: what each of them sends and has counted. Starts, changes, pauses and
//! stops traffic for each port.
//!
//! The library drives the ports ([`Session`]); this module prints nothing. Start with [`Traffic`].

use std::time::{Duration, Instant};

use fwdlab_engine::{Expected, SignaturePlace};
use fwdlab_lab::control::Control;
use fwdlab_lab::ports::answering::Answering;
use fwdlab_lab::ports::{Port, Role};
use fwdlab_lab::session::{FOR_EVER, Period, Received, Receiving, Sent, Session, Source};
use fwdlab_model::link::{Layer, LinkSpeed, MeanSize};

use super::commands::{Start, Update};
use super::multiplier::{Multiplier, MultiplierBase};
use crate::cli::send::{Send, signature_place};
use crate::cli::session::options::{Answers, Ports};
use crate::exit_code::Usage;

/// Interval between reads of the counters.
const EVERY: Duration = Duration::from_secs(1);

/// Settings of all ports, from the command line of the console.
pub struct Common {
    pub ports: Ports,
    pub answers: Answers,
    /// Options of `send` for all traffic: `--link 1G`, `--dst-mac ...`.
    pub of_send: Vec<String>,
    /// Session number in all signatures.
    pub session: u16,
}

/// All ports.
pub struct Traffic {
    common: Common,
    pub ports: Vec<ConsolePort>,
    /// Counts received frames on all ports.
    counting: Session,
    place: SignaturePlace,
    read_at: Instant,
    /// Answers ARP and ND: ports joined by a cable are each other's next hop.
    _answering: Vec<Option<Answering>>,
}

/// A port of the console.
pub struct ConsolePort {
    pub interface: String,
    /// Reserves the port as long as the console runs.
    pub taken: Port,
    pub state: State,
    pub sent: SentSum,
    pub received: ReceivedSum,
    /// Rates over the last second.
    pub last_sent: Sent,
    pub last_received: Received,
}

/// The state of a port.
pub enum State {
    Idle,
    Sending(Box<Stream>),
    Paused(Box<Stream>),
}

/// Traffic of a port, running or paused.
pub struct Stream {
    session: Session,
    /// Description of the frames.
    pub what: String,
    pub engine: String,
    pub pps: f64,
    mean: MeanSize,
    link: Option<LinkSpeed>,
    own_pps: Option<f64>,
    started: Instant,
    /// Remaining time when it was started; `None`: until it is stopped.
    pub time: Option<Duration>,
    /// Frames counted since it was started.
    sum: SentSum,
}

/// Counters of sent frames.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SentSum {
    pub frames: u64,
    pub bytes_l2: f64,
    pub not_sent: u64,
    pub made_up: u64,
    pub dropped: u64,
    /// More than 0.5 % of the intended frames did not leave during traffic that has ended.
    pub limited: bool,
}

/// Counters of received frames.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReceivedSum {
    pub frames: u64,
    pub ours: u64,
    pub foreign: u64,
    pub dropped: u64,
}

impl SentSum {
    fn add(&mut self, period: &Sent, duration_s: f64) {
        self.frames += period.left();
        self.bytes_l2 += period.l2_bps * duration_s / 8.0;
        self.not_sent += period.not_sent;
        self.made_up += period.made_up;
        self.dropped += period.dropped();
    }

    /// Returns the sum of both.
    pub fn and(self, other: SentSum) -> SentSum {
        SentSum {
            frames: self.frames + other.frames,
            bytes_l2: self.bytes_l2 + other.bytes_l2,
            not_sent: self.not_sent + other.not_sent,
            made_up: self.made_up + other.made_up,
            dropped: self.dropped + other.dropped,
            limited: self.limited || other.limited,
        }
    }
}

impl ReceivedSum {
    fn add(&mut self, period: &Received) {
        self.frames += period.all_frames;
        self.ours += period.counts.received;
        self.foreign += period.counts.foreign;
        let by_port = period.port.map_or(0, |port| port.rx_dropped);
        self.dropped += by_port + period.counts.dropped_by_receiver;
    }
}

impl ConsolePort {
    /// Returns the totals, including running traffic.
    pub fn all_sent(&self) -> SentSum {
        match &self.state {
            State::Sending(stream) | State::Paused(stream) => self.sent.and(stream.sum),
            State::Idle => self.sent,
        }
    }

    /// Returns its traffic, running or paused.
    pub fn stream(&self) -> Option<&Stream> {
        match &self.state {
            State::Sending(stream) | State::Paused(stream) => Some(stream),
            State::Idle => None,
        }
    }

    pub fn is_sending(&self) -> bool {
        matches!(self.state, State::Sending(_))
    }
}

impl Stream {
    /// Returns the remaining time; `None`: until it is stopped.
    pub fn left(&self) -> Option<Duration> {
        Some(self.time?.saturating_sub(self.started.elapsed()))
    }

    /// Returns its load in bits per second at layer 1.
    pub fn l1_bps(&self) -> f64 {
        self.mean.bps(Layer::L1, self.pps)
    }

    fn base(&self) -> MultiplierBase {
        MultiplierBase {
            mean: self.mean,
            link: self.link,
            own_pps: self.own_pps,
            now_pps: Some(self.pps),
        }
    }

    /// Starts to send, with the current load and remaining time.
    fn start(&mut self, control: &Control) -> anyhow::Result<()> {
        let at_most = self.time.unwrap_or(FOR_EVER);
        for sending in &mut self.session.sending {
            sending.schedule.at_most = at_most;
            sending.schedule.load = fwdlab_engine::LoadPlan::Constant(self.pps);
        }
        // the sender stops by itself
        self.session.at_most = at_most.saturating_add(EVERY);
        self.session.start(control)?;
        self.started = Instant::now();
        self.engine = (self.session.sending.iter_mut())
            .map(|sending| sending.source.engine().mode)
            .collect();
        Ok(())
    }

    /// Stops, and returns what was counted since the start.
    fn stop(&mut self, control: &Control) -> anyhow::Result<SentSum> {
        let whole = self.session.stop(control)?.whole;
        let mut sum = SentSum::default();
        for sent in &whole.sent {
            sum.add(sent, whole.duration_s);
            sum.limited |= sent.is_limited();
        }
        self.sum = SentSum::default();
        Ok(sum)
    }
}

impl Traffic {
    /// Reserves these ports and starts to count on them.
    pub fn open(common: Common, interfaces: &[String]) -> anyhow::Result<Traffic> {
        let mut ports = Vec::new();
        for interface in interfaces {
            let taken = common
                .ports
                .take_interface(interface, &[Role::Send, Role::Receive])?;
            ports.push(ConsolePort {
                interface: interface.clone(),
                taken,
                state: State::Idle,
                sent: SentSum::default(),
                received: ReceivedSum::default(),
                last_sent: Sent::default(),
                last_received: Received::default(),
            });
        }
        let answering = (ports.iter())
            .map(|port| common.answers.start(Some(&port.taken)))
            .collect::<anyhow::Result<_>>()?;
        let place = SignaturePlace::UdpPayload;
        let counting = (ports.iter())
            .map(|port: &ConsolePort| {
                let expected = expected(common.session, place);
                Ok(Receiving::open(
                    Port::own_port(&port.taken.spec)?,
                    None,
                    expected,
                )?)
            })
            .collect::<anyhow::Result<_>>()?;
        let mut counting = Session::new(Vec::new(), counting);
        counting.start(&Control::default())?;
        Ok(Traffic {
            common,
            ports,
            counting,
            place,
            read_at: Instant::now(),
            _answering: answering,
        })
    }

    /// Returns the selected ports, by number or interface name: those named, or all that `default`
    /// accepts.
    pub fn select_ports(
        &self,
        named: &[String],
        default: impl Fn(&ConsolePort) -> bool,
    ) -> Result<Vec<usize>, Usage> {
        if named.is_empty() {
            let all = 0..self.ports.len();
            return Ok(all.filter(|&at| default(&self.ports[at])).collect());
        }
        let mut which = Vec::new();
        for name in named {
            let number = name
                .parse()
                .ok()
                .filter(|&at: &usize| at < self.ports.len());
            let at = number.or_else(|| self.ports.iter().position(|p| p.interface == *name));
            let at = at.ok_or_else(|| {
                let ports = self.ports.iter().enumerate();
                let known: Vec<String> = ports
                    .map(|(at, p)| format!("{at} ({})", p.interface))
                    .collect();
                Usage(format!(
                    "there is no port `{name}`; the ports are {}",
                    known.join(", ")
                ))
            })?;
            if !which.contains(&at) {
                which.push(at);
            }
        }
        Ok(which)
    }

    /// Starts traffic on these ports. Prepares all of them first, so that either all start or none.
    pub fn start(
        &mut self,
        which: &[usize],
        start: &Start,
        mult: Multiplier,
        control: &Control,
    ) -> anyhow::Result<()> {
        for &at in which {
            if self.ports[at].stream().is_some() {
                if !start.force {
                    return Err(Usage(format!(
                        "port {at} ({}) sends already; `stop` it first, or start with --force",
                        self.ports[at].interface
                    ))
                    .into());
                }
                self.stop(at, control)?;
            }
        }
        let ready = which.iter().map(|&at| self.ready(at, start, mult));
        let ready = ready.collect::<anyhow::Result<Vec<_>>>()?;
        for (_, place) in &ready {
            self.expect(*place, control)?;
        }
        for (n, (&at, (mut stream, _))) in which.iter().zip(ready).enumerate() {
            if let Err(error) = stream.start(control) {
                for &started in &which[..n] {
                    self.stop(started, control)?;
                }
                return Err(error);
            }
            self.ports[at].state = State::Sending(stream);
        }
        Ok(())
    }

    /// Prepares traffic on one port. Returns it with the offset of the signatures.
    fn ready(
        &self,
        at: usize,
        start: &Start,
        mult: Multiplier,
    ) -> anyhow::Result<(Box<Stream>, SignaturePlace)> {
        let port = &self.ports[at];
        let send = self.send(start, &port.interface)?;
        let ready = send.for_port(at % 2, Port::own_port(&port.taken.spec)?.into())?;
        let of = MultiplierBase {
            mean: ready.planned.mean,
            link: ready.link,
            own_pps: ready.own_pps,
            now_pps: None,
        };
        let pps = mult.pps(&of).map_err(Usage)?;
        let sending = send.sender(at % 2, ready.planned, pps)?;
        let place = match &sending.source {
            Source::Engine(_, frames) => signature_place(frames),
            Source::Replay(_) => SignaturePlace::UdpPayload,
        };
        let what = start.file.as_deref().unwrap_or("UDP");
        let stream = Box::new(Stream {
            session: Session::new(vec![sending], Vec::new()),
            what: format!("{what}, {:.0} B", of.mean.bytes()),
            engine: String::new(),
            pps,
            mean: of.mean,
            link: of.link,
            own_pps: of.own_pps,
            started: Instant::now(),
            time: start.duration,
            sum: SentSum::default(),
        });
        Ok((stream, place))
    }

    /// Changes the load of one port.
    pub fn update(&mut self, at: usize, mult: Multiplier, control: &Control) -> anyhow::Result<()> {
        let port = &mut self.ports[at];
        match &mut port.state {
            State::Idle => {
                Err(Usage(format!("port {at} ({}) sends nothing", port.interface)).into())
            }
            State::Paused(stream) => {
                stream.pps = mult.pps(&stream.base()).map_err(Usage)?;
                Ok(())
            }
            State::Sending(stream) => {
                let pps = mult.pps(&stream.base()).map_err(Usage)?;
                if stream.session.set_load(0, pps).is_err() {
                    // this engine cannot change the load while it sends
                    let left = stream.left();
                    let sum = stream.stop(control)?;
                    port.sent = port.sent.and(sum);
                    (stream.pps, stream.time) = (pps, left);
                    stream.start(control)?;
                }
                stream.pps = pps;
                Ok(())
            }
        }
    }

    /// Pauses one port. Returns `false` if it was not sending.
    pub fn pause(&mut self, at: usize, control: &Control) -> anyhow::Result<bool> {
        let port = &mut self.ports[at];
        match std::mem::replace(&mut port.state, State::Idle) {
            State::Sending(mut stream) => {
                stream.time = stream.left();
                port.sent = port.sent.and(stream.stop(control)?);
                port.state = State::Paused(stream);
                port.last_sent = Sent::default();
                Ok(true)
            }
            other => {
                port.state = other;
                Ok(false)
            }
        }
    }

    /// Resumes one port. Returns `false` if it was not paused.
    pub fn resume(&mut self, at: usize, control: &Control) -> anyhow::Result<bool> {
        let port = &mut self.ports[at];
        match std::mem::replace(&mut port.state, State::Idle) {
            State::Paused(mut stream) => {
                stream.start(control)?;
                port.state = State::Sending(stream);
                Ok(true)
            }
            other => {
                port.state = other;
                Ok(false)
            }
        }
    }

    /// Stops one port. Returns `false` if it was not sending.
    pub fn stop(&mut self, at: usize, control: &Control) -> anyhow::Result<bool> {
        let port = &mut self.ports[at];
        port.last_sent = Sent::default();
        match std::mem::replace(&mut port.state, State::Idle) {
            State::Sending(mut stream) => {
                port.sent = port.sent.and(stream.stop(control)?);
                self.count()?;
                Ok(true)
            }
            State::Paused(_) => Ok(true),
            State::Idle => Ok(false),
        }
    }

    /// Reads the counters when they are due, and stops finished traffic. Returns the ports that
    /// finished.
    pub fn tick(&mut self, control: &Control) -> anyhow::Result<Vec<usize>> {
        let mut ended = Vec::new();
        for at in 0..self.ports.len() {
            if let State::Sending(stream) = &mut self.ports[at].state
                && stream.session.is_over()?
            {
                self.stop(at, control)?;
                ended.push(at);
            }
        }
        if self.read_at.elapsed() >= EVERY {
            self.count()?;
        }
        Ok(ended)
    }

    /// Reads all counters.
    pub fn count(&mut self) -> anyhow::Result<()> {
        self.read_at = Instant::now();
        for port in &mut self.ports {
            if let State::Sending(stream) = &mut port.state {
                let period = stream.session.read()?;
                for sent in &period.sent {
                    stream.sum.add(sent, period.duration_s);
                    port.last_sent = sent.clone();
                }
            }
        }
        let period = self.counting.read()?;
        self.received(&period);
        Ok(())
    }

    fn received(&mut self, period: &Period) {
        for (port, received) in self.ports.iter_mut().zip(&period.received) {
            port.received.add(received);
            port.last_received = received.clone();
        }
    }

    /// Sets all counters to zero.
    pub fn clear(&mut self) -> anyhow::Result<()> {
        self.count()?;
        for port in &mut self.ports {
            port.sent = SentSum::default();
            port.received = ReceivedSum::default();
            if let State::Sending(stream) | State::Paused(stream) = &mut port.state {
                stream.sum = SentSum::default();
            }
        }
        Ok(())
    }

    /// Stops everything.
    pub fn stop_all(&mut self, control: &Control) -> anyhow::Result<bool> {
        let mut any = false;
        for at in 0..self.ports.len() {
            any |= self.stop(at, control)?;
        }
        Ok(any)
    }

    /// Counts signatures at another offset, to match these frames.
    fn expect(&mut self, place: SignaturePlace, control: &Control) -> anyhow::Result<()> {
        if place == self.place {
            return Ok(());
        }
        self.count()?;
        self.counting.stop(control)?;
        for receiving in &mut self.counting.receiving {
            receiving.expected = expected(self.common.session, place);
        }
        self.counting.start(control)?;
        self.place = place;
        Ok(())
    }

    /// Returns the equivalent command line of `fwdlab send`, which handles frames and engines.
    fn send(&self, start: &Start, interface: &str) -> anyhow::Result<Send> {
        let mut line = vec!["send".to_owned(), "--port".into(), interface.into()];
        line.extend(["--session".into(), self.common.session.to_string()]);
        let mut option = |name: &str, value: Option<String>| {
            line.extend(
                value
                    .into_iter()
                    .flat_map(|value| [format!("--{name}"), value]),
            );
        };
        option("profile", start.file.clone());
        option("size", start.size.map(|size| size.to_string()));
        option("flows", start.flows.map(|flows| flows.to_string()));
        option("from", start.from.clone());
        option("to", start.to.clone());
        option("vlan", start.vlan.map(|id| id.to_string()));
        option("dst-mac", start.dst_mac.clone());
        option("via", start.via.map(|via| via.to_string()));
        option(
            "for",
            start
                .duration
                .map(|time| format!("{}ms", time.as_millis().max(1))),
        );
        if start.ipv6 {
            line.push("--ipv6".into());
        }
        let mut common = self.common.of_send.iter().peekable();
        while let Some(word) = common.next() {
            let is_said = word == "--dst-mac" && (start.dst_mac.is_some() || start.via.is_some());
            let value = common.next_if(|next| !next.starts_with("--"));
            if !is_said {
                line.push(word.clone());
                line.extend(value.cloned());
            }
        }
        Ok(Send::from_line(line)?)
    }
}

fn expected(session: u16, place: SignaturePlace) -> Expected {
    Expected {
        nonce: session,
        buffer_bytes: None,
        place,
        analysis: None,
    }
}

/// Returns the load of each of the selected ports.
pub fn shared(mult: Multiplier, total: bool, ports: usize) -> Multiplier {
    match total {
        true => mult.shared(ports),
        false => mult,
    }
}

impl Update {
    /// Returns the load of each port.
    pub fn each(&self, ports: usize) -> Multiplier {
        shared(self.mult, self.total, ports)
    }
}
