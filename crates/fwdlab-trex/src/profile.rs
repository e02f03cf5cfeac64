//! Converts a TRex profile to the traffic of a trial: its streams, as described by TRex's own
//! library, with signatures, so that every frame is recognised when it comes back.
//!
//! The caller runs that library. Start with [`traffic`].

use std::collections::BTreeMap;

use fwdlab_engine::traffic::Traffic;
use fwdlab_engine::{Frames, SignaturePlace};
use fwdlab_packet::modifier::{Instruction, Program, Transport};
use fwdlab_packet::signature::LEN;
use serde_json::Value;

use crate::stream::{Stream, mark};
use crate::traffic::{Plan, Setting};

/// The parameters that a profile lacks.
#[derive(Debug, Clone, Copy)]
pub struct Port {
    /// The address of the port.
    pub source: [u8; 6],
    /// The address of the next hop.
    pub destination: [u8; 6],
    /// Speed of the link, for rates that are shares of it.
    pub speed_bps: u64,
    /// True for the port of the way back.
    pub is_back: bool,
}

/// Returns the traffic of the streams of one direction, by their numbers, as the JSON that a client
/// would send.
///
/// # Errors
/// A message: a stream is impossible, or its frames have no room for a signature.
pub fn traffic(name: &str, streams: &BTreeMap<u32, Value>, port: Port) -> Result<Traffic, String> {
    let mut understood = BTreeMap::new();
    for (id, output) in streams {
        let mut stream =
            Stream::parse(output).map_err(|fault| format!("stream {id}: {}", fault.text))?;
        // signatures replace groups
        stream.group = None;
        understood.insert(*id, stream);
    }
    let plan = Plan::new(&understood, port.speed_bps).map_err(|fault| fault.text)?;
    let setting = Setting {
        source: port.source,
        destination: port.destination,
    };
    let Frames::Traffic(frames) = plan.frames(name, 1.0, &setting, |_| None) else {
        return Err("a profile is no test frame".into());
    };
    let mut traffic = (*frames.traffic).clone();
    let place = place(&plan)?;
    for (at, (to, stream)) in traffic.streams.iter_mut().zip(&plan.streams).enumerate() {
        to.id = (at * 2) as u16 + u16::from(port.is_back);
        to.name = streams
            .get(&plan.ids[at])
            .and_then(|output| output["name"].as_str())
            .map_or_else(|| to.name.clone(), str::to_owned);
        for kind in &mut to.kinds {
            let offset = match place {
                SignaturePlace::UdpPayload => mark::headers(&stream.frame),
                _ => stream.frame.len() - LEN,
            };
            kind.place = Some(place);
            sign(&mut kind.program, &kind.template, offset);
        }
    }
    Ok(traffic)
}

/// Returns a place where all frames have room for a signature.
fn place(plan: &Plan) -> Result<SignaturePlace, String> {
    let mut streams = plan.ids.iter().zip(&plan.streams);
    let all = |has: fn(&Stream) -> bool| plan.streams.iter().all(has);
    if all(|stream| {
        mark::is_plain_udp(&stream.frame) && is_free(stream, mark::headers(&stream.frame))
    }) {
        return Ok(SignaturePlace::UdpPayload);
    }
    let has_tail = |stream: &Stream| {
        let is_whole = stream.shortest == stream.frame.len();
        let at = stream.frame.len().saturating_sub(LEN);
        is_whole && at >= mark::headers(&stream.frame) && is_free(stream, at)
    };
    match streams.find(|(_, stream)| !has_tail(stream)) {
        None => Ok(SignaturePlace::Tail),
        Some((id, stream)) => Err(format!(
            "stream {id}: its frames of {} bytes (without FCS) have no room for a signature of {LEN} bytes that nothing else writes \
             to, and would not be known when they come back; make them larger",
            stream.shortest
        )),
    }
}

/// Returns true if these bytes are in every frame, and no instruction writes them.
fn is_free(stream: &Stream, at: usize) -> bool {
    let written = stream.program.instructions.iter().filter_map(|i| match i {
        Instruction::Write { offset, .. } | Instruction::WriteMask { offset, .. } => {
            Some(usize::from(*offset))
        }
        _ => None,
    });
    // no field is longer than 8 bytes
    let mut written = written.map(|from| from..from + 8);
    at + LEN <= stream.shortest.min(mark::end(&stream.frame))
        && written.all(|range| range.end <= at || at + LEN <= range.start)
}

/// Adds the signature before the checksums; corrects that of UDP, if the frame has one.
fn sign(program: &mut Program, template: &[u8], offset: usize) {
    let is_fix = |i: &Instruction| {
        matches!(
            i,
            Instruction::FixIpv4 { .. }
                | Instruction::FixTransport { .. }
                | Instruction::FixIcmpv6 { .. }
        )
    };
    let fix = program.instructions.iter().position(is_fix);
    let at = fix.unwrap_or(program.instructions.len());
    let signature = Instruction::Signature {
        offset: offset as u16,
    };
    program.instructions.insert(at, signature);
    let is_transport = |i: &Instruction| matches!(i, Instruction::FixTransport { .. });
    if let Some((l2, l3, transport)) = mark::summed(template)
        && !program.instructions.iter().any(is_transport)
    {
        program.instructions.push(Instruction::FixTransport {
            l2_len: l2 as u16,
            l3_len: l3 as u16,
            transport: match transport {
                6 => Transport::Tcp,
                _ => Transport::Udp,
            },
        });
    }
}
