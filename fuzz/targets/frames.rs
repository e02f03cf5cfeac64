//! Fuzz target: the frame decoder.
//!
//! Whatever the bytes: no panic, one line of text, and no byte claimed twice. What has nothing
//! wrong is built again to the same layers. No destination that is shown is missing among those
//! that a frame may go to. Start at [`frames`].

use fwdlab_packet::decode::{address, decode, destinations};
use fwdlab_packet::stack::{Layer, Size, build};

/// Panics if the decoder panics or loses something.
pub fn frames(data: &[u8]) {
    let decoded = decode(data);
    let covered: usize = decoded.layers.iter().map(Layer::header_len).sum();
    assert!(covered + decoded.padding <= data.len());
    assert_eq!(decoded.layers.len(), decoded.offsets.len());
    assert!(!decoded.to_string().contains('\n'));
    if decoded.notes.is_empty() && !data.is_empty() {
        let again = build(&decoded.layers, Size::Layers).expect("a frame without notes is one");
        assert_eq!(again.bytes.len() + decoded.padding, data.len());
        assert_eq!(decode(&again.bytes).layers, decoded.layers);
    }
    let reached: Vec<_> = destinations(data)
        .into_iter()
        .map(|to| address(&data[to.field]))
        .collect();
    for layer in &decoded.layers {
        let shown = match layer {
            Layer::Ipv4(ip) => ip.destination.into(),
            Layer::Ipv6(ip) => ip.destination.into(),
            _ => continue,
        };
        assert!(reached.contains(&Some(shown)), "{shown} in {decoded}");
    }
}
