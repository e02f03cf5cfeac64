//! Fuzz target: the analysis of received frames.
//!
//! The input is a byte that says where signatures are, and then frames, each behind a byte with its
//! length and two with the time since the one before. Whatever they are: no panic, and every frame
//! has one fate. Start at [`analysis`].

use fwdlab_engine::analysis::{Analyser, AnalysisPlan, FrameClass, Lengths, StreamPlan};
use fwdlab_engine::stamps::Origins;
use fwdlab_engine::{Expected, SignaturePlace};

/// Panics if the analyser panics or loses a frame.
pub fn analysis(data: &[u8]) {
    let Some((&first, mut rest)) = data.split_first() else {
        return;
    };
    let place = match first % 2 {
        0 => SignaturePlace::UdpPayload,
        _ => SignaturePlace::Tail,
    };
    let stream = |id, flows, lengths| StreamPlan { id, flows, lengths };
    let lengths = Lengths {
        shortest: 60,
        longest: 80,
    };
    let expected = Expected {
        nonce: 7,
        buffer_bytes: None,
        place,
        analysis: Some(AnalysisPlan {
            streams: vec![stream(0, 3, None), stream(1, 0, Some(lengths))],
        }),
    };
    let mut analyser = Analyser::new("fuzz", &expected).expect("a plan that can be made");
    let (mut frames, mut ours, mut now) = (0, 0, 1 << 40);
    while let [length, early, late, more @ ..] = rest {
        let (frame, after) = more.split_at(usize::from(*length).min(more.len()));
        now += u64::from(u16::from_be_bytes([*early, *late]));
        frames += 1;
        ours += u64::from(analyser.frame(frame, now) == FrameClass::Ours);
        rest = after;
    }
    let counts = analyser.counts();
    assert_eq!(counts.received, ours);
    assert_eq!(counts.received + counts.late + counts.foreign, frames);
    let found = analyser.analysis(Origins::default());
    let received: u64 = found.streams.iter().map(|stream| stream.received).sum();
    assert_eq!(received, ours);
    for stream in &found.streams {
        let in_order_or_not = stream.delivered() - stream.older;
        assert!(stream.received >= stream.duplicates + stream.corrupt + stream.older);
        assert!(stream.corrupt >= stream.wrong_length);
        assert!(stream.reordered <= in_order_or_not && stream.reordering_extent <= in_order_or_not);
        assert!(stream.latency.len() + stream.early <= in_order_or_not);
        assert!(stream.latency_min_ns <= stream.latency_max_ns);
        assert!(stream.next >= in_order_or_not);
        if !stream.flows.is_empty() {
            let arrived: u64 = stream.flows.iter().map(|&frames| u64::from(frames)).sum();
            assert_eq!(arrived, stream.delivered());
        }
        if let Some(summary) = stream.latency_summary(3, None, &found.timestamps) {
            assert!(summary.latency_frames == stream.latency.len());
        }
    }
}
