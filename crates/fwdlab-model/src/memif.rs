//! memif ports: the name of one, and what it says.
//!
//! A memif port is a socket instead of a network interface, and is named like one wherever a port
//! is named: `memif:/run/vpp/memif.sock,id=1,queues=2`. Opens nothing. Start with
//! [`Options::named`].

use std::path::PathBuf;

/// What the names of memif ports begin with.
pub const PREFIX: &str = "memif:";

/// The most queues in each direction.
pub const MAX_QUEUES: u16 = 16;

/// The longest ring has 2 to the power of this many frames; as libmemif's.
pub const MAX_RING_LOG2: u8 = 14;

/// The longest secret.
pub const SECRET_BYTES: usize = 24;

/// Which end of the socket we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Connects, and owns the memory.
    Client,
    /// Listens.
    Server,
}

/// The properties of a memif port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Options {
    /// Path of the socket; one that begins with `@` is an abstract name.
    pub socket: PathBuf,
    /// Our role; the peer has the other.
    pub role: Role,
    /// Number of the interface; both ends have the same.
    pub id: u32,
    /// Shared secret of up to [`SECRET_BYTES`]; empty for none.
    pub secret: String,
    /// Queues in each direction, 1 to [`MAX_QUEUES`]: as the client as many of them as the server
    /// allows, as the server at most these.
    pub queues: u16,
    /// As the client, the logarithm of the number of frames in a ring; the server may allow fewer.
    pub ring_log2: u8,
    /// As the client, the length of a buffer in bytes, a multiple of 64. Longer frames are not
    /// sent.
    pub buffer_bytes: u32,
}

impl Options {
    /// Returns the options of a port with one queue of 1024 frames of up to 2048 bytes.
    pub fn new(socket: impl Into<PathBuf>, role: Role) -> Options {
        Options {
            socket: socket.into(),
            role,
            id: 0,
            secret: String::new(),
            queues: 1,
            ring_log2: 10,
            buffer_bytes: 2048,
        }
    }

    /// Reads the name of a port: `memif:SOCKET` and, each after a comma, `role=client` or `server`,
    /// `id=N`, `queues=N`, `ring=N` in frames, `buffer=N` in bytes, `secret=TEXT`.
    ///
    /// # Errors
    /// What is wrong with it, and what is right.
    pub fn named(name: &str) -> Result<Options, String> {
        let wrong = |action: &str| {
            Err(format!(
                "{action}; a memif port is named \
                 memif:SOCKET[,role=client|server][,id=N][,queues=N][,ring=N][,buffer=N][,secret=TEXT]"
            ))
        };
        let mut parts = name.strip_prefix(PREFIX).unwrap_or_default().split(',');
        let socket = parts.next().unwrap_or_default();
        if socket.is_empty() || socket.starts_with(PREFIX) {
            return wrong(&format!("`{name}` has no path of a socket"));
        }
        let mut options = Options::new(socket, Role::Client);
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let number = value.parse::<u32>().ok();
            match (key, value, number) {
                ("role", "client", _) => options.role = Role::Client,
                ("role", "server", _) => options.role = Role::Server,
                ("id", _, Some(id)) => options.id = id,
                ("queues", _, Some(queues @ 1..=0xffff)) => options.queues = queues as u16,
                ("ring", _, Some(frames)) if frames.is_power_of_two() => {
                    options.ring_log2 = frames.trailing_zeros() as u8;
                }
                ("buffer", _, Some(bytes)) => options.buffer_bytes = bytes,
                ("secret", secret, _) if !secret.is_empty() => options.secret = secret.into(),
                _ => return wrong(&format!("`{part}` is not valid in `{name}`")),
            }
        }
        options.check()?;
        Ok(options)
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// Which is out of range, and the range.
    pub fn check(&self) -> Result<(), String> {
        let Options {
            queues, ring_log2, ..
        } = self;
        if !(1..=MAX_QUEUES).contains(queues) {
            return Err(format!(
                "a memif port has 1 to {MAX_QUEUES} queues, and not {queues}"
            ));
        }
        if *ring_log2 > MAX_RING_LOG2 {
            return Err(format!(
                "a memif ring has at most {} frames, and not {}",
                1 << MAX_RING_LOG2,
                1_u64 << ring_log2
            ));
        }
        let bytes = self.buffer_bytes;
        if !(64..=16_384).contains(&bytes) || !bytes.is_multiple_of(64) {
            return Err(format!(
                "memif buffers have 64 to 16384 bytes, a multiple of 64, and not {bytes}"
            ));
        }
        if self.secret.len() > SECRET_BYTES {
            return Err(format!(
                "a memif secret has at most {SECRET_BYTES} bytes, and not {}",
                self.secret.len()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ports() {
        let named = |name: &str| Options::named(name);
        let plain = Options::new("/run/m.sock", Role::Client);
        assert_eq!(named("memif:/run/m.sock"), Ok(plain));
        let whole = "memif:@abstract,role=server,id=7,queues=4,ring=512,buffer=9216,secret=xyz";
        assert_eq!(
            named(whole),
            Ok(Options {
                id: 7,
                secret: "xyz".into(),
                queues: 4,
                ring_log2: 9,
                buffer_bytes: 9216,
                ..Options::new("@abstract", Role::Server)
            })
        );
        for wrong in [
            "memif:",
            "memif:memif:/x",
            "eth0",
            "memif:/x,role=master",
            "memif:/x,ring=1000",
            "memif:/x,ring=0",
            "memif:/x,queues=0",
            "memif:/x,queues=65537",
            "memif:/x,id=-1",
            "memif:/x,secret=",
            "memif:/x,zero-copy",
        ] {
            let error = named(wrong).expect_err(wrong);
            assert!(error.contains("memif:SOCKET[,role="), "{error}");
        }
        for (wrong, words) in [
            ("memif:/x,queues=17", "1 to 16 queues, and not 17"),
            ("memif:/x,ring=32768", "at most 16384 frames, and not 32768"),
            ("memif:/x,buffer=100", "multiple of 64, and not 100"),
            ("memif:/x,buffer=0", "64 to 16384 bytes"),
            (
                "memif:/x,secret=0123456789012345678901234",
                "at most 24 bytes, and not 25",
            ),
        ] {
            let error = named(wrong).expect_err(wrong);
            assert!(error.contains(words), "{error}");
        }
    }
}
