//! Prepares test frames for `bpf/transmit.bpf.c`, which writes every head itself, flow after flow.

use fwdlab_packet::{Addresses, IpVersion, Signature};

use super::sys::Stream;
use crate::traffic::TestFrames;

/// Returns the parameters of the BPF program, and a first frame.
pub(super) fn stream(frames: &TestFrames) -> (Stream, Vec<u8>) {
    let (first, last) = (
        frames.flows.flow(0),
        frames.flows.flow(frames.flows.len() - 1),
    );
    let signature = Signature {
        nonce: frames.nonce,
        ..Signature::default()
    };
    let mut buffer = vec![0; frames.template.buffer_len()];
    frames.template.write(&mut buffer, &first, &signature);
    let low = |addresses: &Addresses| match addresses {
        Addresses::V4 {
            source,
            destination,
        } => (u32::from(*source), u32::from(*destination)),
        Addresses::V6 {
            source,
            destination,
        } => (u128::from(*source) as u32, u128::from(*destination) as u32),
    };
    let (source, destination) = low(&first.addresses);
    let (last_source, last_destination) = low(&last.addresses);
    let head = match frames.flows.version() {
        IpVersion::V4 => 60,
        IpVersion::V6 => 80,
    };
    // with a single flow all frames are one row: starting a new row takes a tenth of the time of a
    // frame
    let (row, destination_step) = match frames.flows.len() {
        1 => (u32::MAX, 0),
        _ => (last_destination - destination + 1, 1),
    };
    let mut stream = Stream {
        head: [0; 80],
        source_base: source,
        source_count: last_source - source + 1,
        destination_base: destination,
        row,
        destination_step,
        source_port_base: first.source_port,
        source_port_count: last.source_port - first.source_port + 1,
        destination_port_base: first.destination_port,
        destination_port_count: last.destination_port - first.destination_port + 1,
        ip_sum: u32::from(frames.template.partial_sums().ipv4_header),
        udp_sum: udp_sum(frames, &signature),
        row_ip_sum: 0,
        row_udp_sum: 0,
    };
    stream.head[..head].copy_from_slice(&buffer[..head]);
    (stream, buffer)
}

/// Returns the UDP sum without the parts that change from frame to frame: low address words, ports,
/// sequence, time.
fn udp_sum(frames: &TestFrames, signature: &Signature) -> u32 {
    let mut payload = [0; fwdlab_packet::signature::LEN];
    signature.write(&mut payload);
    let mut sum = u32::from(frames.template.partial_sums().udp);
    for pair in payload[..4].chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair[1]]));
    }
    if let Addresses::V6 {
        source,
        destination,
    } = frames.flows.flow(0).addresses
    {
        for address in [source, destination] {
            sum += address.segments()[..6]
                .iter()
                .map(|&word| u32::from(word))
                .sum::<u32>();
        }
    }
    (sum >> 16) + (sum & 0xffff)
}
