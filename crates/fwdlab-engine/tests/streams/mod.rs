//! Streams of traffic for tests, with exactly the times and kinds that a test defines.
//!
//! Tests define their own frames; players and senders process them. Start with [`stream`].

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use fwdlab_engine::traffic::{Kind, Stream, Timing};
use fwdlab_engine::{Traffic, TrafficFrames};
use fwdlab_packet::{Signature, signature};

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

/// Captured frames of UDP over IPv4 with their signatures, by what tells them apart; panics if one
/// came twice.
pub fn by_number<'a, N: Ord + Copy + Debug>(
    captured: impl IntoIterator<Item = &'a Vec<u8>>,
    number: impl Fn(&Signature) -> N,
) -> BTreeMap<N, (Signature, &'a Vec<u8>)> {
    let mut frames = BTreeMap::new();
    for frame in captured {
        let signature = Signature::read(&frame[signature::OFFSET_IPV4_UDP..]).unwrap();
        let number = number(&signature);
        let twice = frames.insert(number, (signature, frame));
        assert!(twice.is_none(), "{number:?} twice: {signature:?}");
    }
    frames
}
