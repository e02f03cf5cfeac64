//! Limits for clients. A client that exceeds one gets an error, or its connection is closed; others
//! are not affected.
//!
//! Limits that exist in TRex have the same values.

use std::time::Duration;

/// Maximum size of a message, compressed and decompressed. TRex's: clients make chunks of half of
/// it.
pub const MESSAGE: usize = 999_999;

/// A larger message is skipped and answered with an error up to this size; beyond it the connection
/// is closed.
pub const READ_AWAY: u64 = 32 << 20;

/// Frames of one ZeroMQ message: a REQ socket sends two.
pub const PARTS: usize = 4;

/// Maximum number of connections to each of the two sockets: of all peers, and of one address. The
/// one that has been silent the longest makes room.
pub const CONNECTIONS: usize = 64;
pub const CONNECTIONS_OF_PEER: usize = 32;

/// A connection is closed if the handshake takes longer.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// A connection is closed if nothing was received for this time; libzmq reconnects when there is
/// something to send.
pub const SILENCE: Duration = Duration::from_secs(600);

/// A client is disconnected if it does not read for this time.
pub const WRITE: Duration = Duration::from_secs(10);

/// Wake-ups queued for a slow subscriber; beyond that it is disconnected.
pub const WAKE_UPS: usize = 256;

/// Sessions that follow events.
pub const SESSIONS: usize = 64;

/// The queue of a session that did not poll its events for this time is removed. TRex's.
pub const FORGOTTEN: Duration = Duration::from_secs(10);

/// Events queued for one session.
pub const EVENTS: usize = 4096;

/// Streams of one port.
pub const STREAMS: usize = 20_000;

/// Bytes of all streams of one port, as JSON.
pub const STREAM_BYTES: usize = 64 << 20;

/// Profiles of one port.
pub const PROFILES: usize = 256;

/// Characters of a name: of a user, of a profile.
pub const NAME: usize = 256;

/// Bytes of the answers of a batch: beyond that its further requests are refused.
pub const ANSWER: usize = 64 << 20;

/// Captures of all clients together. TRex's.
pub const CAPTURES: usize = 10;

/// Packets of one capture.
pub const CAPTURE_FRAMES: usize = 100_000;

/// Bytes of the packets of one capture, or of a queue.
pub const CAPTURE_BYTES: usize = 16 << 20;

/// Packets of a port's queue.
pub const QUEUE_FRAMES: usize = 16_384;

/// Bytes of packets in one answer, before base64 adds a third.
pub const FETCH_BYTES: usize = 2 << 20;

/// Filters in one message.
pub const FILTERS: usize = 4;

/// Instructions of a stream's program.
pub const INSTRUCTIONS: usize = 1024;

/// The longest gap or pause, in microseconds: 30 days.
pub const LONGEST_US: f64 = 30.0 * 86_400.0 * 1e6;

/// Starts and ends of streams that are examined to find the largest load of a profile.
pub const STARTS: usize = 4096;

/// Maximum number of events in a dry run.
pub const DRY_RUN: usize = 1000;
