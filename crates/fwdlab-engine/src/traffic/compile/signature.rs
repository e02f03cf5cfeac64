//! The position of signatures: the same in all frames of a port, because a receiver only looks at
//! one place.
//!
//! Start with [`choose`].

use fwdlab_packet::signature::LEN;
use fwdlab_packet::stack::Layer;

use super::program::Draft;
use crate::signature::{SignaturePlace, flow_label_at};

/// Places in a frame with room for a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// First byte at the start of the UDP payload.
    udp: Option<usize>,
    /// First byte at the end.
    tail: Option<usize>,
    /// True if the flow label is free.
    label: bool,
}

/// Returns the room in a frame. `label`: whether the flow label may be written.
pub fn room(draft: &Draft, label: bool) -> Room {
    let shape = &draft.shape;
    let len = shape.bytes.len();
    let shortest = draft.trimmed_to.unwrap_or(len);
    let free = |at: usize| !draft.writes(&(at..at + LEN));
    let payload = match shape.placed().next_back() {
        Some((at, Layer::Payload(bytes))) => Some((at, bytes.len())),
        _ => None,
    };
    let mut layers = shape.layers.iter().skip(1);
    let ip = layers.find(|layer| !matches!(layer, Layer::Vlan(_)));
    let plain = match ip {
        Some(Layer::Ipv4(repr)) => repr.options.is_empty() && !repr.is_fragment(),
        Some(Layer::Ipv6(_)) => true,
        _ => false,
    };
    let is_udp = plain
        && matches!(layers.next(), Some(Layer::Udp(_)))
        && matches!(layers.next(), Some(Layer::Payload(_)));
    let udp =
        payload.filter(|(at, bytes)| is_udp && *bytes >= LEN && at + LEN <= shortest && free(*at));
    let tail = payload.filter(|(_, bytes)| {
        *bytes >= LEN && shape.padding == 0 && draft.trimmed_to.is_none() && free(len - LEN)
    });
    let label_at = flow_label_at(&shape.bytes).filter(|_| label);
    Room {
        udp: udp.map(|(at, _)| at),
        tail: tail.map(|_| len - LEN),
        label: label_at.is_some_and(|at| !draft.writes(&(at..at + 3))),
    }
}

/// Returns the place for each frame, the same for all that have one: the first of start, end and
/// flow label that all of them support. If there is none, the more common one of start and end.
/// `None`: this frame has no signature.
pub fn choose(rooms: &[Option<Room>]) -> Vec<Option<(SignaturePlace, usize)>> {
    let requested = || rooms.iter().flatten();
    let (udp, tail) = (
        requested().filter(|room| room.udp.is_some()).count(),
        requested().filter(|room| room.tail.is_some()).count(),
    );
    let chosen = match requested().count() {
        all if udp == all => SignaturePlace::UdpPayload,
        all if tail == all => SignaturePlace::Tail,
        _ if requested().all(|room| room.label) => SignaturePlace::FlowLabel,
        _ if udp >= tail => SignaturePlace::UdpPayload,
        _ => SignaturePlace::Tail,
    };
    rooms
        .iter()
        .map(|room| {
            let room = (*room)?;
            let at = match chosen {
                SignaturePlace::UdpPayload => room.udp,
                SignaturePlace::Tail => room.tail,
                SignaturePlace::FlowLabel => room.label.then_some(0),
            };
            at.map(|at| (chosen, at))
        })
        .collect()
}
