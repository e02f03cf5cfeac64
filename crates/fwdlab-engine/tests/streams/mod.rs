//! Streams of traffic for tests, with exactly the times and kinds that a test defines.
//!
//! Tests define their own frames; players and senders process them. Start with [`stream`].

use std::sync::Arc;

use fwdlab_engine::traffic::{Kind, Stream, Timing};
use fwdlab_engine::{Traffic, TrafficFrames};

/// A stream on the first path.
pub fn stream(id: u16, kinds: Vec<Kind>, pattern: Vec<u16>, timing: Timing) -> Stream {
    Stream {
        id,
        name: format!("s{id}"),
        kinds,
        pattern,
        timing,
        path: 0,
    }
}

/// Traffic of these streams in a trial with this nonce.
pub fn traffic(streams: Vec<Stream>, nonce: u16) -> TrafficFrames {
    TrafficFrames {
        traffic: Arc::new(Traffic {
            name: "test".into(),
            streams,
        }),
        nonce,
    }
}
