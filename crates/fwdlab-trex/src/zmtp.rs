//! ZeroMQ's protocol on one TCP connection, as far as a server needs it: ZMTP 3.1 with the NULL
//! mechanism (rfc.zeromq.org/spec/37).
//!
//! Implemented here for two reasons. libzmq is C++, and our releases are linked by Rust's linker
//! alone (`scripts/dist`). The pure crate `zeromq` (0.7.0) only supports the command READY, so it
//! disconnects TRex's clients at their first PING, five seconds after they connected; and it
//! allocates as much memory as a peer announces for a frame, before it arrives. Start with
//! [`Peer::shake_hands`].

use std::io::{self, Read, Write};
use std::net::TcpStream;

use crate::limits;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// Largest command: READY with some properties, PING, SUBSCRIBE.
const LARGEST_COMMAND: u64 = 4096;

/// The type of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Answers requests.
    Rep,
    /// Publishes.
    Pub,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Rep => "REP",
            Kind::Pub => "PUB",
        }
    }

    /// Returns true if a socket of this type may talk to us.
    fn accepts_peer(self, other: &[u8]) -> bool {
        match self {
            Kind::Rep => matches!(other, b"REQ" | b"DEALER"),
            Kind::Pub => matches!(other, b"SUB" | b"XSUB"),
        }
    }
}

/// What was received.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A message, part by part.
    Message(Vec<Vec<u8>>),
    /// A message that is larger than allowed: its parts up to the one that is too large. The rest
    /// was skipped.
    TooLarge(Vec<Vec<u8>>),
    /// A ping of the other end, with the context for the answer.
    Ping(Vec<u8>),
}

/// A connection after the handshake.
pub struct Peer<S = TcpStream> {
    stream: S,
}

impl<S: Read + Write> Peer<S> {
    /// Performs the handshake.
    pub fn shake_hands(mut stream: S, kind: Kind) -> io::Result<Peer<S>> {
        stream.write_all(&greeting())?;
        let mut theirs = [0; 64];
        stream.read_exact(&mut theirs)?;
        if theirs[0] != 0xff || theirs[9] & 1 == 0 || theirs[10] < 3 {
            return Err(wrong("the other end does not speak ZMTP 3"));
        }
        if theirs[12..32] != mechanism() {
            return Err(wrong("the other end requires a security mechanism"));
        }
        let mut peer = Peer { stream };
        peer.stream.write_all(&ready(kind))?;
        let (flags, size) = peer.header()?;
        if flags & COMMAND == 0 || size > LARGEST_COMMAND {
            return Err(wrong("the other end did not say that it is ready"));
        }
        let body = peer.body(size)?;
        let theirs = body.strip_prefix(b"\x05READY").and_then(socket_type);
        match theirs {
            Some(theirs) if kind.accepts_peer(theirs) => Ok(peer),
            _ => Err(wrong("the other end is not a socket for this one")),
        }
    }

    /// Waits for the next message or ping.
    pub fn receive(&mut self) -> io::Result<Received> {
        let mut parts = Vec::new();
        let mut bytes = 0;
        loop {
            let (flags, size) = self.header()?;
            if flags & COMMAND != 0 {
                if size > LARGEST_COMMAND {
                    return Err(wrong("a command is too large"));
                }
                let body = self.body(size)?;
                // name, two bytes of TTL, and the context to return
                if let Some(ping) = body.strip_prefix(b"\x04PING") {
                    if !parts.is_empty() {
                        return Err(wrong("a command came within a message"));
                    }
                    let context = ping.get(2..).unwrap_or_default();
                    return Ok(Received::Ping(context.to_vec()));
                }
                continue;
            }
            bytes += size;
            if parts.len() >= limits::PARTS || bytes > limits::READ_AWAY {
                return Err(wrong("a message is too large"));
            }
            if bytes > limits::MESSAGE as u64 {
                self.discard_rest(flags, size, bytes)?;
                return Ok(Received::TooLarge(parts));
            }
            parts.push(self.body(size)?);
            if flags & MORE == 0 {
                return Ok(Received::Message(parts));
            }
        }
    }

    /// Sends a message with these parts.
    pub fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let mut out = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let more = if at + 1 < parts.len() { MORE } else { 0 };
            frame(&mut out, more, part);
        }
        self.stream.write_all(&out)
    }

    /// Answers a ping.
    pub fn pong(&mut self, context: &[u8]) -> io::Result<()> {
        let mut out = Vec::new();
        frame(&mut out, COMMAND, &[b"\x04PONG", context].concat());
        self.stream.write_all(&out)
    }

    /// Reads flags and size of the next frame.
    fn header(&mut self) -> io::Result<(u8, u64)> {
        let mut flags = [0];
        self.stream.read_exact(&mut flags)?;
        let flags = flags[0];
        if flags & !(MORE | LONG | COMMAND) != 0 {
            return Err(wrong("a frame has unknown flags"));
        }
        let size = match flags & LONG {
            0 => {
                let mut size = [0];
                self.stream.read_exact(&mut size)?;
                size[0].into()
            }
            _ => {
                let mut size = [0; 8];
                self.stream.read_exact(&mut size)?;
                u64::from_be_bytes(size)
            }
        };
        match size > limits::READ_AWAY {
            true => Err(wrong("a frame is too large")),
            false => Ok((flags, size)),
        }
    }

    /// Reads `size` bytes. Memory is allocated as they arrive, not as announced.
    fn body(&mut self, size: u64) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        (&mut self.stream).take(size).read_to_end(&mut body)?;
        match body.len() as u64 == size {
            true => Ok(body),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Reads the rest of a message without keeping it.
    fn discard_rest(&mut self, mut flags: u8, mut size: u64, mut bytes: u64) -> io::Result<()> {
        loop {
            let read = io::copy(&mut (&mut self.stream).take(size), &mut io::sink())?;
            if read < size {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if flags & MORE == 0 {
                return Ok(());
            }
            (flags, size) = self.header()?;
            bytes += size;
            if bytes > limits::READ_AWAY {
                return Err(wrong("a message is too large"));
            }
        }
    }
}

impl Peer<TcpStream> {
    /// Returns another handle of the connection, to send while the first one waits.
    pub fn try_clone(&self) -> io::Result<Peer> {
        let stream = self.stream.try_clone()?;
        Ok(Peer { stream })
    }

    /// Sets the longer read timeout that applies after the handshake.
    pub fn extend_timeout(&self) -> io::Result<()> {
        self.stream.set_read_timeout(Some(limits::SILENCE))
    }

    /// Closes the connection in both directions.
    pub fn close(&self) {
        // it may be closed already
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn mechanism() -> [u8; 20] {
    let mut name = [0; 20];
    name[..4].copy_from_slice(b"NULL");
    name
}

fn greeting() -> [u8; 64] {
    let mut greeting = [0; 64];
    (greeting[0], greeting[8], greeting[9]) = (0xff, 1, 0x7f);
    (greeting[10], greeting[11]) = (3, 1);
    greeting[12..32].copy_from_slice(&mechanism());
    greeting
}

fn ready(kind: Kind) -> Vec<u8> {
    let name = kind.name().as_bytes();
    let mut body = b"\x05READY\x0bSocket-Type".to_vec();
    body.extend((name.len() as u32).to_be_bytes());
    body.extend(name);
    let mut out = Vec::new();
    frame(&mut out, COMMAND, &body);
    out
}

fn frame(out: &mut Vec<u8>, flags: u8, body: &[u8]) {
    match u8::try_from(body.len()) {
        Ok(size) => out.extend([flags, size]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend((body.len() as u64).to_be_bytes());
        }
    }
    out.extend(body);
}

/// Returns the value of the property that contains the socket type, among those of READY.
fn socket_type(mut properties: &[u8]) -> Option<&[u8]> {
    loop {
        let (&size, rest) = properties.split_first()?;
        let (name, rest) = rest.split_at_checked(size.into())?;
        let (size, rest) = rest.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*size) as usize)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            return Some(value);
        }
        properties = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection whose other end has sent everything.
    struct ClosedPeer {
        theirs: io::Cursor<Vec<u8>>,
        ours: Vec<u8>,
    }

    impl Read for ClosedPeer {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.theirs.read(buffer)
        }
    }

    impl Write for ClosedPeer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.ours.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn after_hands(output: &[u8]) -> Peer<ClosedPeer> {
        let mut theirs = greeting().to_vec();
        let mut body = b"\x05READY\x08Identity\0\0\0\0\x0bSocket-Type\0\0\0\x03REQ".to_vec();
        theirs.extend([COMMAND, body.len() as u8]);
        theirs.append(&mut body);
        theirs.extend(output);
        let output = ClosedPeer {
            theirs: io::Cursor::new(theirs),
            ours: Vec::new(),
        };
        Peer::shake_hands(output, Kind::Rep).unwrap()
    }

    #[test]
    fn messages_come_whole_and_pings_between_them() {
        let mut peer = after_hands(b"\x04\x09\x04PING\0\x01ab\x01\0\0\x03abc");
        assert_eq!(peer.receive().unwrap(), Received::Ping(b"ab".to_vec()));
        assert_eq!(
            peer.receive().unwrap(),
            Received::Message(vec![vec![], b"abc".to_vec()])
        );
        let before = peer.stream.ours.len();
        peer.pong(b"ab").unwrap();
        peer.send(&[b"", &[7; 300]]).unwrap();
        let mut requested = b"\x04\x07\x04PONGab\x01\0\x02\0\0\0\0\0\0\x01\x2c".to_vec();
        requested.extend([7; 300]);
        assert_eq!(peer.stream.ours[before..], requested);
    }

    #[test]
    fn an_oversized_message_is_discarded_and_a_huge_one_ends_the_connection() {
        let size = limits::MESSAGE as u64 + 1;
        let mut output = b"\x01\0\x02".to_vec();
        output.extend(size.to_be_bytes());
        output.resize(output.len() + size as usize, 1);
        output.extend(b"\0\x01x");
        let mut peer = after_hands(&output);
        assert_eq!(peer.receive().unwrap(), Received::TooLarge(vec![vec![]]));
        let next = Received::Message(vec![b"x".to_vec()]);
        assert_eq!(peer.receive().unwrap(), next);

        for announced in [u64::MAX, 1 << 62, limits::READ_AWAY + 1] {
            let mut output = vec![LONG];
            output.extend(announced.to_be_bytes());
            assert!(after_hands(&output).receive().is_err(), "{announced}");
        }
        let endless = [MORE, 0].repeat(limits::PARTS + 1);
        assert!(after_hands(&endless).receive().is_err());
    }

    #[test]
    fn invalid_clients_are_rejected() {
        for (output, reason) in [
            (b"GET / HTTP/1.1\r\n".repeat(8), "ZMTP"),
            (greeting()[..20].to_vec(), ""),
            (
                [
                    &greeting()[..],
                    b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB",
                ]
                .concat(),
                "",
            ),
        ] {
            let output = ClosedPeer {
                theirs: io::Cursor::new(output),
                ours: Vec::new(),
            };
            let error = Peer::shake_hands(output, Kind::Rep).err().unwrap();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
