//! Prepares test frames for `bpf/transmit.bpf.c`, which writes every head itself, flow after flow.

use fwdlab_packet::{Addresses, IpVersion, Signature};

use super::sys::Stream;
use crate::error::EngineError;
use crate::generator::Mode;
use crate::traffic::TestFrames;
use crate::traffic::share::Share;

/// Returns the parameters of the BPF program for one of several senders, and a first frame.
///
/// # Errors
/// [`EngineError::Unsupported`] if the senders cannot share the flows evenly.
pub(super) fn stream(frames: &TestFrames, share: Share) -> Result<(Stream, Vec<u8>), EngineError> {
    let (first, last) = (
        frames.flows.flow(0),
        frames.flows.flow(frames.flows.len() - 1),
    );
    let signature = Signature {
        nonce: frames.nonce,
        stream: share.id(0),
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
    let destinations = last_destination - destination + 1;
    let (row, destination_step) = match frames.flows.len() {
        1 => (u32::MAX, 0),
        // every sender takes its part of each row
        _ if destinations.is_multiple_of(share.of) => (destinations / share.of, share.of),
        _ => {
            return Err(EngineError::Unsupported {
                engine: Mode::XdpLive.name(),
                action: format!(
                    "share {destinations} destination addresses among {senders} senders: use a number of flows whose destinations \
                     are a multiple of {senders}, or another number of senders",
                    senders = share.of
                ),
            });
        }
    };
    let first_destination = match destination_step {
        0 => destination,
        _ => destination + share.first(0) as u32,
    };
    let mut stream = Stream {
        head: [0; 80],
        source_base: source,
        source_count: last_source - source + 1,
        destination_base: first_destination,
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
        stream_id: u64::from(share.id(0)) << 48,
    };
    stream.head[..head].copy_from_slice(&buffer[..head]);
    Ok((stream, buffer))
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
