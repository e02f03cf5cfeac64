//! Helpers for tests of several modules: test frames, and pseudo-random numbers.
//!
//! Compiled only for tests; contains no assertions. Start with [`signed_frame`].

pub mod chance;

use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Signature};

use crate::traffic::TestFrames;

/// Returns the smallest test frames of IPv4, with this number of flows.
pub fn test_frames(flows: u32) -> TestFrames {
    let template = FrameTemplate::new(&FrameSpec {
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        destination: MacAddr([2, 0, 0, 0, 0, 2]),
        version: IpVersion::V4,
        frame_size: 64,
    });
    TestFrames {
        template: template.unwrap(),
        flows: FlowSet::default_v4(flows).unwrap(),
        nonce: 1,
    }
}

/// Returns a small frame of the eighth flow with this signature.
pub fn signed_frame(version: IpVersion, signature: &Signature) -> Vec<u8> {
    let (frame_size, flows) = match version {
        IpVersion::V4 => (64, FlowSet::default_v4(10)),
        IpVersion::V6 => (84, FlowSet::default_v6(10)),
    };
    let template = FrameTemplate::new(&FrameSpec {
        source: MacAddr([2, 0, 0, 0, 1, 1]),
        destination: MacAddr([2, 0, 0, 0, 0, 1]),
        version,
        frame_size,
    })
    .unwrap();
    let mut frame = vec![0; template.buffer_len()];
    template.write(&mut frame, &flows.unwrap().flow(7), signature);
    frame
}
