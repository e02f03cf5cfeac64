//! How much a client may ask for. A client that wants more gets an error, or its connection is closed; others do not notice.
//!
//! Numbers that TRex has too are TRex's.

use std::time::Duration;

/// Largest message, as it comes and decompressed. TRex's: clients make chunks of half of it.
pub const MESSAGE: usize = 999_999;

/// A larger message is read away and answered with an error up to this size; beyond it the connection ends.
pub const READ_AWAY: u64 = 32 << 20;

/// Frames of one ZeroMQ message: a REQ socket sends two.
pub const PARTS: usize = 4;

/// Connections to each of the two sockets: of all peers, and of one address. The most silent one makes room.
pub const CONNECTIONS: usize = 64;
pub const CONNECTIONS_OF_PEER: usize = 32;

/// Who has not shaken hands by then is let go.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// A connection on which nothing came for so long is closed; libzmq opens it again when there is something to say.
pub const SILENCE: Duration = Duration::from_secs(600);

/// A client that does not take what it is sent for so long is let go.
pub const WRITE: Duration = Duration::from_secs(10);

/// Wake-ups that wait for a slow subscriber; one that is further behind is let go.
pub const WAKE_UPS: usize = 256;

/// Sessions that follow events.
pub const SESSIONS: usize = 64;

/// A session that did not ask for its events for so long has no queue any more. TRex's.
pub const FORGOTTEN: Duration = Duration::from_secs(10);

/// Events that wait for one session.
pub const EVENTS: usize = 4096;

/// Streams of one port.
pub const STREAMS: usize = 20_000;

/// Bytes of all streams of one port, as JSON.
pub const STREAM_BYTES: usize = 64 << 20;

/// Profiles of one port.
pub const PROFILES: usize = 256;

/// Letters of a name: of a user, of a profile.
pub const NAME: usize = 256;

/// The answers of a batch: more requests of it are refused when there are so many bytes.
pub const ANSWER: usize = 64 << 20;

/// Captures of all clients together. TRex's.
pub const CAPTURES: usize = 10;

/// Packets of one capture.
pub const CAPTURE_FRAMES: usize = 100_000;

/// Bytes of the packets of one capture, or of a queue.
pub const CAPTURE_BYTES: usize = 16 << 20;

/// Packets of a port's queue.
pub const QUEUE_FRAMES: usize = 16_384;

/// Bytes of packets of one answer, which has a third more of them in base64.
pub const FETCH_BYTES: usize = 2 << 20;

/// Filters that one message brings.
pub const FILTERS: usize = 4;

/// Instructions of a stream's program.
pub const INSTRUCTIONS: usize = 1024;

/// The longest gap or pause, in microseconds: 30 days.
pub const LONGEST_US: f64 = 30.0 * 86_400.0 * 1e6;

/// Starts and ends of streams that are looked at to find the largest load of a profile.
pub const STARTS: usize = 4096;

/// Events of a dry run that a client is told.
pub const DRY_RUN: usize = 1000;
