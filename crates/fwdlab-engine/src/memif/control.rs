//! The control socket of a connection: messages with files, deadlines, and the two handshakes.
//!
//! Both handshakes are bounded: by a deadline, and by the number of regions and rings. The peer may
//! send any message at any time; what does not belong there ends the connection with a reason.
//! Start with [`connect`] and [`accept`].

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::message::{self, AddRing, ETHERNET, Hello, Init, Message, SECRET_BYTES, VERSION};
use super::ring::{Buffers, Incoming, MAX_FRAME_BYTES, Memory, Outgoing, Regions};
use super::sys::{COOKIE, MAX_REGION_BYTES, Region, RingMemory};
use super::{MAX_QUEUES, MAX_RING_LOG2, Options};

/// The longest handshake.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The most regions that a client may share.
const MAX_REGIONS: usize = 16;

/// Files that come with one message; more are closed.
const MAX_FILES: usize = 4;

const NAME: &str = concat!("fwdlab ", env!("CARGO_PKG_VERSION"));

/// The two ends of all queues of a connection.
pub(super) struct Link {
    pub outgoing: Vec<Outgoing>,
    pub incoming: Vec<Incoming>,
    /// How the peer calls itself.
    pub peer: String,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    System(#[from] io::Error),
    /// We refuse what it says; the peer learns why.
    #[error("{0}")]
    Refused(String),
    /// The peer refuses what we say.
    #[error("the peer disconnected: {0}")]
    Disconnected(String),
    #[error("the peer closed the socket")]
    Closed,
    #[error("the peer did not send {0} within {PATIENCE:?}")]
    Silent(&'static str),
    #[error("stopped")]
    Stopped,
}

fn refused<T>(reason: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Refused(reason.into()))
}

/// A connected control socket.
pub(super) struct Control {
    pub socket: OwnedFd,
    /// Readable once the port is closed.
    pub stop: Arc<OwnedFd>,
}

impl Control {
    /// Returns the process at the other end; `None` if it is in a container that hides it.
    pub(super) fn process(&self) -> Option<u32> {
        let process = socket_peercred(&self.socket).ok()?.pid;
        u32::try_from(process.as_raw_nonzero().get()).ok()
    }

    pub(super) fn send(&self, message: &Message, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.send_bytes(&message.encode(), file)
    }

    pub(super) fn send_bytes(&self, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let files = file.map_or_else(Vec::new, |file| vec![file]);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&files));
        }
        // not blocking: a peer that does not read must not stop us
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, flags)?;
        Ok(())
    }

    /// Receives a message that has arrived, and its first file.
    pub(super) fn receive(&self) -> Result<(Message, Option<OwnedFd>), Failure> {
        // one byte more than a message may have
        let mut bytes = [0; message::BYTES + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
        );
        let received = match received {
            Err(rustix::io::Errno::CONNRESET) => return Err(Failure::Closed),
            result => result.map_err(io::Error::from)?,
        };
        let mut files = vec![];
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                files.extend(rights);
            }
        }
        if received.bytes == 0 {
            return Err(Failure::Closed);
        }
        let too_long = received.flags.contains(ReturnFlags::TRUNC);
        let Some(whole) = bytes[..received.bytes].as_array().filter(|_| !too_long) else {
            return refused(format!(
                "it sent {} bytes instead of a message of {}",
                received.bytes,
                message::BYTES
            ));
        };
        match Message::decode(whole) {
            Ok(Message::Disconnect { code, reason }) => {
                Err(Failure::Disconnected(format!("{reason} (code {code})")))
            }
            Ok(message) => Ok((message, files.into_iter().next())),
            Err(kind) => refused(format!("it sent a message of unknown type {kind}")),
        }
    }

    /// Waits for a message until the deadline; `wanted` names it in errors.
    fn next(
        &self,
        deadline: Instant,
        requested: &'static str,
    ) -> Result<(Message, Option<OwnedFd>), Failure> {
        match wait(&[self.socket.as_fd()], self.stop.as_fd(), deadline)? {
            Waited::Ready => self.receive(),
            Waited::Stopped => Err(Failure::Stopped),
            Waited::TimedOut => Err(Failure::Silent(requested)),
        }
    }

    fn expect_ack(&self, deadline: Instant) -> Result<(), Failure> {
        match self.next(deadline, "ACK")?.0 {
            Message::Ack => Ok(()),
            other => refused(format!("it sent {} instead of ACK", other.name())),
        }
    }

    /// Tells the peer why the connection ends, if it still listens.
    pub(super) fn disconnect(&self, reason: &str) {
        let reason = reason.to_owned();
        let _ = self.send(&Message::Disconnect { code: 0, reason }, None);
    }
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    Ready,
    Stopped,
    TimedOut,
}

/// Waits until one of these files is readable, `stop` is, or the deadline is over.
pub(super) fn wait(
    files: &[BorrowedFd<'_>],
    stop: BorrowedFd<'_>,
    deadline: Instant,
) -> io::Result<Waited> {
    let all = std::iter::once(stop).chain(files.iter().copied());
    let mut all: Vec<_> = all
        .map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN))
        .collect();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut all, Some(&timeout)) {
            Ok(0) => return Ok(Waited::TimedOut),
            Ok(_) if !all[0].revents().is_empty() => return Ok(Waited::Stopped),
            Ok(_) => return Ok(Waited::Ready),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns a counter that wakes a peer or ourselves.
pub(super) fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

fn secret(options: &Options) -> [u8; SECRET_BYTES] {
    let mut secret = [0; SECRET_BYTES];
    for (to, from) in secret.iter_mut().zip(options.secret.bytes()) {
        *to = from;
    }
    secret
}

/// Where the client puts everything in its only region.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub s2m: usize,
    pub m2s: usize,
    pub log2_size: u8,
    pub buffer_bytes: usize,
}

impl Layout {
    fn ring_bytes(&self) -> usize {
        RingMemory::bytes(self.log2_size).next_multiple_of(64)
    }

    /// Returns the offset of a ring: first those of the client's frames.
    fn ring(&self, number: usize) -> usize {
        number * self.ring_bytes()
    }

    /// Returns the offset of the buffers of a ring.
    fn buffers(&self, number: usize) -> usize {
        let start = self.ring(self.s2m + self.m2s).next_multiple_of(4096);
        start + number * (self.buffer_bytes << self.log2_size)
    }

    fn bytes(&self) -> usize {
        self.buffers(self.s2m + self.m2s)
    }

    /// Allocates the region and its rings; returns the ends of the client.
    pub(super) fn client(
        self,
        mut event: impl FnMut() -> io::Result<OwnedFd>,
    ) -> io::Result<(Arc<Region>, Vec<Outgoing>, Vec<Incoming>)> {
        let spans: Vec<_> = (0..self.s2m)
            .map(|number| self.buffers(number)..self.buffers(number + 1))
            .collect();
        let (region, spans) = Region::create(self.bytes())?.carve(&spans);
        let ring = |number| {
            let ring = RingMemory::new(&region, self.ring(number) as u32, self.log2_size);
            let ring = ring.expect("the region was made for it");
            ring.clear();
            ring
        };
        let outgoing = (0..).zip(spans).map(|(number, span)| {
            let buffers = Buffers::Own {
                span,
                each_bytes: self.buffer_bytes,
            };
            Ok(Outgoing::new(ring(number), event()?, buffers))
        });
        let outgoing = outgoing.collect::<io::Result<_>>()?;
        let incoming = (self.s2m..self.s2m + self.m2s).map(|number| {
            let memory = Memory::Own {
                region: region.clone(),
                offset: self.buffers(number) as u32,
                each_bytes: self.buffer_bytes as u32,
            };
            Ok(Incoming::new(ring(number), event()?, memory))
        });
        let incoming = incoming.collect::<io::Result<_>>()?;
        Ok((region, outgoing, incoming))
    }
}

/// The handshake of the client.
pub(super) fn connect(control: &Control, options: &Options) -> Result<Link, Failure> {
    let deadline = Instant::now() + PATIENCE;
    let hello = match control.next(deadline, "HELLO")?.0 {
        Message::Hello(hello) => hello,
        other => return refused(format!("it sent {} instead of HELLO", other.name())),
    };
    if !(hello.min_version..=hello.max_version).contains(&VERSION) {
        return refused(format!(
            "it speaks versions {:#06x} to {:#06x} of the protocol, and we only {VERSION:#06x}",
            hello.min_version, hello.max_version
        ));
    }
    control.send(
        &Message::Init(Init {
            version: VERSION,
            id: options.id,
            mode: ETHERNET,
            secret: secret(options),
            name: NAME.into(),
        }),
        None,
    )?;
    control.expect_ack(deadline)?;
    let queues = |highest: u16| (usize::from(highest) + 1).min(options.queues.into());
    let layout = Layout {
        s2m: queues(hello.max_s2m_ring),
        m2s: queues(hello.max_m2s_ring),
        log2_size: hello.max_log2_ring_size.min(options.ring_log2),
        buffer_bytes: options.buffer_bytes as usize,
    };
    if layout.bytes() as u64 > MAX_REGION_BYTES {
        return refused(format!(
            "the rings and buffers need {} bytes, and the limit is {MAX_REGION_BYTES}: use fewer \
             queues, shorter rings or smaller buffers",
            layout.bytes()
        ));
    }
    let mut events = vec![];
    let (region, outgoing, incoming) = layout.client(|| {
        let event = event()?;
        events.push(event.try_clone()?);
        Ok(event)
    })?;
    let add = Message::AddRegion {
        index: 0,
        size: region.length() as u64,
    };
    control.send(&add, Some(region.file()))?;
    control.expect_ack(deadline)?;
    for (number, event) in events.iter().enumerate() {
        let from_client = number < layout.s2m;
        let ring = AddRing {
            from_client,
            index: (number - if from_client { 0 } else { layout.s2m }) as u16,
            region: 0,
            offset: layout.ring(number) as u32,
            log2_size: layout.log2_size,
            private_header_bytes: 0,
        };
        control.send(&Message::AddRing(ring), Some(event.as_fd()))?;
        control.expect_ack(deadline)?;
    }
    control.send(&Message::Connect { name: NAME.into() }, None)?;
    match control.next(deadline, "CONNECTED")?.0 {
        Message::Connected { .. } => {
            // DPDK's server sets all positions to 0 before it answers
            incoming.iter().for_each(Incoming::publish_offers);
            Ok(Link {
                outgoing,
                incoming,
                peer: hello.name,
            })
        }
        other => refused(format!("it sent {} instead of CONNECTED", other.name())),
    }
}

/// What a client has shared so far.
#[derive(Default)]
struct Shared {
    peer: Option<String>,
    regions: Vec<Arc<Region>>,
    /// Rings of the client's frames, and of ours.
    s2m: Vec<(AddRing, OwnedFd)>,
    m2s: Vec<(AddRing, OwnedFd)>,
}

/// The handshake of the server.
pub(super) fn accept(control: &Control, options: &Options) -> Result<Link, Failure> {
    let deadline = Instant::now() + PATIENCE;
    let highest = options.queues.saturating_sub(1);
    control.send(
        &Message::Hello(Hello {
            name: NAME.into(),
            min_version: VERSION,
            max_version: VERSION,
            max_region: MAX_REGIONS as u16 - 1,
            max_m2s_ring: highest,
            max_s2m_ring: highest,
            max_log2_ring_size: MAX_RING_LOG2,
        }),
        None,
    )?;
    let mut shared = Shared::default();
    loop {
        let (message, file) = control.next(deadline, "CONNECT")?;
        if let Message::Connect { .. } = message {
            let link = shared.link()?;
            control.send(&Message::Connected { name: NAME.into() }, None)?;
            return Ok(link);
        }
        shared.add(message, file, options)?;
        control.send(&Message::Ack, None)?;
    }
}

impl Shared {
    /// Takes one request of the client.
    fn add(
        &mut self,
        message: Message,
        file: Option<OwnedFd>,
        options: &Options,
    ) -> Result<(), Failure> {
        let name = message.name();
        if let Message::Init(init) = message {
            if self.peer.is_some() {
                return refused("it sent INIT twice");
            }
            if init.version != VERSION {
                return refused(format!("no version {:#06x}", init.version));
            }
            if init.id != options.id {
                return refused(format!(
                    "no interface {}; this socket has {}",
                    init.id, options.id
                ));
            }
            if init.mode != ETHERNET {
                return refused("only interfaces of Ethernet frames");
            }
            if init.secret != secret(options) {
                return refused("wrong secret");
            }
            self.peer = Some(init.name);
            return Ok(());
        }
        if self.peer.is_none() {
            return refused(format!("it sent {name} before INIT"));
        }
        match (message, file) {
            (Message::AddRegion { index, size }, Some(file)) => {
                if usize::from(index) != self.regions.len() || self.regions.len() >= MAX_REGIONS {
                    return refused(format!(
                        "it added region {index} after {} of at most {MAX_REGIONS}",
                        self.regions.len()
                    ));
                }
                match Region::adopt(file, size) {
                    Ok(region) => self.regions.push(Arc::new(region)),
                    Err(reason) => return refused(format!("region {index}: {reason}")),
                }
            }
            (Message::AddRing(ring), Some(event)) => {
                let rings = match ring.from_client {
                    true => &mut self.s2m,
                    false => &mut self.m2s,
                };
                let most = options.queues.min(MAX_QUEUES);
                if usize::from(ring.index) != rings.len() || ring.index >= most {
                    return refused(format!(
                        "it added ring {} after {} of at most {most}",
                        ring.index,
                        rings.len()
                    ));
                }
                if ring.log2_size > MAX_RING_LOG2 {
                    return refused(format!(
                        "a ring of 2^{} descriptors; the limit is 2^{MAX_RING_LOG2}",
                        ring.log2_size
                    ));
                }
                // a write to it must not block the sender
                let never_blocks = fcntl_getfl(&event)
                    .and_then(|flags| fcntl_setfl(&event, flags | OFlags::NONBLOCK));
                if let Err(error) = never_blocks {
                    return refused(format!("the event counter of ring {}: {error}", ring.index));
                }
                rings.push((ring, event));
            }
            (Message::AddRegion { .. } | Message::AddRing(_), None) => {
                return refused(format!("it sent {name} without a file"));
            }
            _ => return refused(format!("it sent {name} to a server")),
        }
        Ok(())
    }

    /// Opens our ends of all rings.
    fn link(self) -> Result<Link, Failure> {
        let Some(peer) = self.peer else {
            return refused("it sent CONNECT before INIT");
        };
        let regions: Regions = self.regions.into();
        let open = |ring: AddRing| {
            let memory = regions.get(usize::from(ring.region));
            let memory = memory.and_then(|r| RingMemory::new(r, ring.offset, ring.log2_size));
            let Some(memory) = memory else {
                return refused(format!(
                    "a ring of 2^{} descriptors at {} in region {} is not inside of it, or not \
                     aligned to 8 bytes",
                    ring.log2_size, ring.offset, ring.region
                ));
            };
            if memory.cookie() != COOKIE {
                return refused(format!(
                    "the ring at {} has the cookie {:#x}, not {COOKIE:#x}: its layout is another",
                    ring.offset,
                    memory.cookie()
                ));
            }
            Ok(memory)
        };
        let incoming = (self.s2m.into_iter())
            .map(|(ring, event)| {
                let memory = Memory::Peer(regions.clone());
                Ok(Incoming::new(open(ring)?, event, memory))
            })
            .collect::<Result<_, Failure>>()?;
        let outgoing = (self.m2s.into_iter())
            .map(|(ring, event)| {
                let buffers = Buffers::Peer(regions.clone());
                Ok(Outgoing::new(open(ring)?, event, buffers))
            })
            .collect::<Result<_, Failure>>()?;
        Ok(Link {
            outgoing,
            incoming,
            peer,
        })
    }
}

const _: () = assert!(MAX_FRAME_BYTES >= 9018);

#[cfg(test)]
impl Layout {
    /// Returns the offset of the first buffer of the client's frames.
    pub(super) fn client_buffers(&self) -> u32 {
        self.buffers(0) as u32
    }

    pub(super) fn ring_offset(&self, number: usize) -> u32 {
        self.ring(number) as u32
    }
}

/// Both ends of a connection without its socket, and a third mapping of the client's region.
#[cfg(test)]
pub(super) fn pair(layout: Layout) -> (Link, Link, Region) {
    let (region, outgoing, incoming) = layout.client(event).expect("memory");
    let adopt = || {
        let file = region.file().try_clone_to_owned().expect("a file");
        Region::adopt(file, region.length() as u64).expect("our own region")
    };
    let rings = |from_client, count| {
        let first = if from_client { 0 } else { layout.s2m };
        let ring = move |index: usize| AddRing {
            from_client,
            index: index as u16,
            region: 0,
            offset: layout.ring(first + index) as u32,
            log2_size: layout.log2_size,
            private_header_bytes: 0,
        };
        (0..count)
            .map(|index| (ring(index), event().expect("an event")))
            .collect()
    };
    let shared = Shared {
        peer: Some("client".into()),
        regions: vec![Arc::new(adopt())],
        s2m: rings(true, layout.s2m),
        m2s: rings(false, layout.m2s),
    };
    let client = Link {
        outgoing,
        incoming,
        peer: "server".into(),
    };
    (client, shared.link().expect("our own rings"), adopt())
}
