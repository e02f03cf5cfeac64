//! Control messages of memif 2.0: 128 bytes each, as libmemif lays them out.
//!
//! Nothing here reads or writes a socket, and nothing trusts the bytes: [`Message::decode`] accepts
//! any 128 bytes. Start with [`Message`].

/// Length of every message, in bytes.
pub(super) const BYTES: usize = 128;

/// The version that we speak: 2.0.
pub(super) const VERSION: u16 = 0x0200;

/// Interface mode: frames with Ethernet headers.
pub(super) const ETHERNET: u8 = 0;

const NAME_BYTES: usize = 32;
pub(super) use fwdlab_model::memif::SECRET_BYTES;
const REASON_BYTES: usize = 96;

/// Flag of ADD_RING: the ring carries frames of the client.
const FLAG_S2M: u16 = 1;

/// A control message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// The answer to INIT, ADD_REGION and ADD_RING.
    Ack,
    /// The server's first message: its limits.
    Hello(Hello),
    /// The client's first message: which interface it wants.
    Init(Init),
    /// Shares a region of memory; its file comes with the message.
    AddRegion { index: u16, size: u64 },
    /// Describes a ring; its event counter (eventfd) comes with the message.
    AddRing(AddRing),
    /// Asks the server to start.
    Connect { name: String },
    /// The answer to CONNECT.
    Connected { name: String },
    /// Ends the connection.
    Disconnect { code: u32, reason: String },
}

/// The limits of a server; the highest index of each, not the number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hello {
    pub name: String,
    pub min_version: u16,
    pub max_version: u16,
    pub max_region: u16,
    pub max_m2s_ring: u16,
    pub max_s2m_ring: u16,
    pub max_log2_ring_size: u8,
}

/// What a client wants to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Init {
    pub version: u16,
    pub id: u32,
    pub mode: u8,
    pub secret: [u8; SECRET_BYTES],
    pub name: String,
}

/// A ring in a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AddRing {
    /// Carries frames of the client (S2M); otherwise of the server (M2S).
    pub from_client: bool,
    /// Its number among those of its direction.
    pub index: u16,
    pub region: u16,
    pub offset: u32,
    pub log2_size: u8,
    pub private_header_bytes: u16,
}

impl Message {
    /// Returns its name in the protocol.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Message::Ack => "ACK",
            Message::Hello(_) => "HELLO",
            Message::Init(_) => "INIT",
            Message::AddRegion { .. } => "ADD_REGION",
            Message::AddRing(_) => "ADD_RING",
            Message::Connect { .. } => "CONNECT",
            Message::Connected { .. } => "CONNECTED",
            Message::Disconnect { .. } => "DISCONNECT",
        }
    }

    /// Returns the bytes of the message. Texts that are too long are cut.
    pub(super) fn encode(&self) -> [u8; BYTES] {
        let mut to = Writer::default();
        match self {
            Message::Ack => to.u16(1),
            Message::Hello(hello) => {
                to.u16(2);
                to.text(&hello.name, NAME_BYTES);
                to.u16(hello.min_version);
                to.u16(hello.max_version);
                to.u16(hello.max_region);
                to.u16(hello.max_m2s_ring);
                to.u16(hello.max_s2m_ring);
                to.put(&[hello.max_log2_ring_size]);
            }
            Message::Init(init) => {
                to.u16(3);
                to.u16(init.version);
                to.u32(init.id);
                to.put(&[init.mode]);
                to.put(&init.secret);
                to.text(&init.name, NAME_BYTES);
            }
            Message::AddRegion { index, size } => {
                to.u16(4);
                to.u16(*index);
                to.put(&size.to_ne_bytes());
            }
            Message::AddRing(ring) => {
                to.u16(5);
                to.u16(if ring.from_client { FLAG_S2M } else { 0 });
                to.u16(ring.index);
                to.u16(ring.region);
                to.u32(ring.offset);
                to.put(&[ring.log2_size]);
                to.u16(ring.private_header_bytes);
            }
            Message::Connect { name } => {
                to.u16(6);
                to.text(name, NAME_BYTES);
            }
            Message::Connected { name } => {
                to.u16(7);
                to.text(name, NAME_BYTES);
            }
            Message::Disconnect { code, reason } => {
                to.u16(8);
                to.u32(*code);
                to.text(reason, REASON_BYTES);
            }
        }
        to.bytes
    }

    /// Reads a message.
    ///
    /// # Errors
    /// Its type, if it is unknown.
    pub(super) fn decode(bytes: &[u8; BYTES]) -> Result<Message, u16> {
        let mut from = Reader { bytes, at: 0 };
        Ok(match from.u16() {
            1 => Message::Ack,
            2 => Message::Hello(Hello {
                name: from.text(NAME_BYTES),
                min_version: from.u16(),
                max_version: from.u16(),
                max_region: from.u16(),
                max_m2s_ring: from.u16(),
                max_s2m_ring: from.u16(),
                max_log2_ring_size: from.u8(),
            }),
            3 => Message::Init(Init {
                version: from.u16(),
                id: from.u32(),
                mode: from.u8(),
                secret: from.take(),
                name: from.text(NAME_BYTES),
            }),
            4 => Message::AddRegion {
                index: from.u16(),
                size: u64::from_ne_bytes(from.take()),
            },
            5 => Message::AddRing(AddRing {
                from_client: from.u16() & FLAG_S2M != 0,
                index: from.u16(),
                region: from.u16(),
                offset: from.u32(),
                log2_size: from.u8(),
                private_header_bytes: from.u16(),
            }),
            6 => Message::Connect {
                name: from.text(NAME_BYTES),
            },
            7 => Message::Connected {
                name: from.text(NAME_BYTES),
            },
            8 => Message::Disconnect {
                code: from.u32(),
                reason: from.text(REASON_BYTES),
            },
            unknown => return Err(unknown),
        })
    }
}

struct Writer {
    bytes: [u8; BYTES],
    at: usize,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer {
            bytes: [0; BYTES],
            at: 0,
        }
    }
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn u16(&mut self, value: u16) {
        self.put(&value.to_ne_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.put(&value.to_ne_bytes());
    }

    /// Writes a text that ends with a zero byte, into a field of this length.
    fn text(&mut self, text: &str, field: usize) {
        let bytes = text.as_bytes();
        let end = self.at + field;
        self.put(&bytes[..bytes.len().min(field - 1)]);
        self.at = end;
    }
}

/// Reads fields in turn. No message has more fields than bytes.
struct Reader<'a> {
    bytes: &'a [u8; BYTES],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        taken.copy_from_slice(&self.bytes[self.at..self.at + N]);
        self.at += N;
        taken
    }

    fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    /// Reads a text up to its zero byte or the end of the field. Our errors quote it: control
    /// characters become question marks.
    fn text(&mut self, field: usize) -> String {
        let bytes = &self.bytes[self.at..self.at + field];
        self.at += field;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(field);
        let text = String::from_utf8_lossy(&bytes[..end]);
        text.chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn examples() -> Vec<Message> {
        let name = "fwdlab".to_owned();
        vec![
            Message::Ack,
            Message::Hello(Hello {
                name: name.clone(),
                min_version: 0x0200,
                max_version: 0x0201,
                max_region: 255,
                max_m2s_ring: 3,
                max_s2m_ring: 4,
                max_log2_ring_size: 14,
            }),
            Message::Init(Init {
                version: VERSION,
                id: 7,
                mode: ETHERNET,
                secret: *b"open sesame\0\0\0\0\0\0\0\0\0\0\0\0\0",
                name: name.clone(),
            }),
            Message::AddRegion {
                index: 1,
                size: 1 << 33,
            },
            Message::AddRing(AddRing {
                from_client: true,
                index: 2,
                region: 1,
                offset: 0x0102_0304,
                log2_size: 10,
                private_header_bytes: 5,
            }),
            Message::Connect { name: name.clone() },
            Message::Connected { name },
            Message::Disconnect {
                code: 9,
                reason: "bye".into(),
            },
        ]
    }

    #[test]
    fn every_message_is_read_as_it_was_written() {
        for message in examples() {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    /// By hand from libmemif's packed structures: type, flags, index, region, offset, size, header.
    #[test]
    fn add_ring_has_the_layout_of_libmemif() {
        let bytes = examples()[4].encode();
        let ring = [5, 0, 1, 0, 2, 0, 1, 0, 4, 3, 2, 1, 10, 5, 0];
        if cfg!(target_endian = "little") {
            assert_eq!(&bytes[..16], &[&ring[..], &[0]].concat());
        }
        assert_eq!(bytes.len(), BYTES);
    }

    #[test]
    fn texts_are_cut_and_lose_control_characters() {
        let long = Message::Connect {
            name: "x".repeat(200),
        };
        let read = Message::decode(&long.encode());
        let name = "x".repeat(NAME_BYTES - 1);
        assert_eq!(read, Ok(Message::Connect { name }));
        let escape = Message::Disconnect {
            code: 0,
            reason: "\x1b[2Jgone".into(),
        };
        let reason = "?[2Jgone".into();
        let read = Message::decode(&escape.encode());
        assert_eq!(read, Ok(Message::Disconnect { code: 0, reason }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_unknown_type(bytes in prop::collection::vec(any::<u8>(), BYTES), kind in 0_u16..12) {
            let mut bytes: [u8; BYTES] = bytes.try_into().expect("128 bytes");
            bytes[..2].copy_from_slice(&kind.to_ne_bytes());
            let read = Message::decode(&bytes);
            prop_assert_eq!(read.is_ok(), (1..=8).contains(&kind));
            if let Ok(message) = read {
                // what we understood of it survives another turn
                let again = Message::decode(&message.encode()).expect("our own message");
                let texts = matches!(message, Message::Hello(_) | Message::Init(_)
                    | Message::Connect { .. } | Message::Connected { .. } | Message::Disconnect { .. });
                prop_assert!(texts || again == message);
            }
        }
    }
}
