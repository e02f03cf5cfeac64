//! Prepares profiles for `bpf/cycle.bpf.c`: frames that repeat are written once, and the program
//! sends them over and over.
//!
//! Knows nothing about headers. It finds the position of a frame's checksum, and how the signature
//! affects it, by writing the frame with several signatures and comparing, so it works for any
//! stack of headers. Start with [`Cycle::new`].

use std::collections::BTreeSet;
use std::ops::Range;

use fwdlab_packet::Signature;
use fwdlab_packet::decode::decode;
use fwdlab_packet::modifier::Instruction;
use fwdlab_packet::signature;
use fwdlab_packet::stack::Layer;

use super::sys::{FIRST_BYTES, LINE_BYTES, Line, MAX_LINES, Slot};
use crate::error::EngineError;
use crate::generator::Mode;
use crate::traffic::player::Player;
use crate::traffic::{Emission, Kind, Stream, Traffic, TrafficFrames};

/// Maximum number of lines of 128 bytes for frames: 128 MiB.
pub(super) const MOST_LINES: u64 = 1 << 20;

/// Steps in a gap (`ONE_GAP` in `bpf/schedule.h`).
const ONE_GAP: u128 = 65536;

/// The load at which the times between frames are computed. Any would do; at this one a gap is some
/// 2^36 units long, and the longest cycle ends before 2^64.
const LOAD_PPS: f64 = 1000.0;

/// `CHECKSUM_SHIFTED` and `CHECKSUM_NEVER_ZERO`.
const SHIFTED: u16 = 1;
const NEVER_ZERO: u16 = 2;

/// `PATH_SHIFT`.
const PATH_SHIFT: u32 = 8;

/// Frames that repeat.
pub(super) struct Cycle {
    player: Player,
    /// The signature of each kind of frames.
    kinds: Vec<Option<Signed>>,
    /// Number of frames after which everything repeats.
    pub(super) slots: u32,
    /// Number of lines of each frame.
    pub(super) lines: u32,
    /// The longest frame; beyond the lines, all frames are equal.
    pub(super) page: Vec<u8>,
}

/// Positions of the signature of a kind of frames and of the checksum over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Signed {
    at: usize,
    checksum: Option<Checksum>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Checksum {
    at: usize,
    flags: u16,
}

impl Cycle {
    /// Determines after how many frames they repeat, and in which bytes they differ.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`], with the reason, for traffic that does not repeat or does not
    /// fit; others for traffic that cannot be sent at all.
    pub(super) fn new(frames: &TrafficFrames) -> Result<Cycle, EngineError> {
        let traffic = &*frames.traffic;
        let player = Player::new(frames, Some(LOAD_PPS))?;
        let slots = length(frames)?;
        let mut kinds = vec![];
        let mut headers = 0;
        for stream in &traffic.streams {
            for kind in &stream.kinds {
                kinds.push(learn(kind).map_err(|action| stream_error(stream, traffic, &action))?);
                headers = headers.max(headers_end(&kind.template));
            }
        }
        let mut cycle = Cycle {
            player,
            kinds,
            slots,
            lines: 1,
            page: vec![],
        };
        let mut longest = vec![];
        cycle.each(|frame, _| {
            if frame.len() > longest.len() {
                longest = frame.to_vec();
            }
        });
        cycle.page = longest;
        let head = cycle.differs_until().max(headers).min(cycle.page.len());
        cycle.lines = 1 + head.saturating_sub(FIRST_BYTES).div_ceil(LINE_BYTES) as u32;
        let lines = u64::from(cycle.slots) * u64::from(cycle.lines);
        if lines > MOST_LINES || cycle.lines > MAX_LINES {
            return Err(unsupported(format!(
                "keep the {} frames of {}, whose first {head} bytes differ: they need {} MiB, and it has {}",
                cycle.slots,
                traffic.name,
                (lines * LINE_BYTES as u64) >> 20,
                (MOST_LINES * LINE_BYTES as u64) >> 20,
            )));
        }
        Ok(cycle)
    }

    /// Passes on all lines of all slots, in order.
    pub(super) fn write(
        &self,
        mut put: impl FnMut(Line) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let room = FIRST_BYTES + (self.lines as usize - 1) * LINE_BYTES;
        let mut result = Ok(());
        self.each(|frame, next| {
            if result.is_err() {
                return;
            }
            let mut head = vec![0; room];
            let (own, page) = (frame.len().min(room), self.page.len().min(room));
            head[..own].copy_from_slice(&frame[..own]);
            head[own..page].copy_from_slice(&self.page[own..page]);
            let (first, others) = head.split_at(FIRST_BYTES);
            let slot = self.slot(frame, next, first);
            result = put(slot.line()).and_then(|()| {
                others
                    .as_chunks()
                    .0
                    .iter()
                    .try_for_each(|line| put(Line(*line)))
            });
        });
        result
    }

    fn slot(&self, frame: &[u8], next: Next, head: &[u8]) -> Slot {
        let mut slot = Slot {
            bytes: frame.len() as u16,
            signature: 0,
            checksum: 0,
            sum: 0,
            flags: 0,
            stream: next.stream as u16,
            steps: next.steps,
            head: [0; FIRST_BYTES],
        };
        slot.head.copy_from_slice(head);
        let path = next.path << PATH_SHIFT;
        if let Some(signed) = self.kinds[next.kind as usize] {
            slot.signature = signed.at as u16;
            if let Some(checksum) = signed.checksum {
                let written = Signature::read(&frame[signed.at..]).unwrap_or_default();
                slot.checksum = checksum.at as u16;
                slot.flags = checksum.flags;
                slot.sum = checksum.sum_without(frame, written.sequence);
            }
        }
        slot.flags |= path;
        slot
    }

    /// Calls `look` for every frame of the cycle in order, as it leaves at time 0.
    fn each(&self, mut look: impl FnMut(&[u8], Next)) {
        let mut player = self.player.clone();
        let mut buffer = vec![0; player.buffer_len()];
        let gap = 1e9 / LOAD_PPS * 65536.0;
        // positions are rounded and not the steps between them, so that the steps add up to whole
        // gaps
        let steps = |due: u64| (u128::from(due) * ONE_GAP + gap as u128 / 2) / gap as u128;
        for _ in 0..self.slots {
            let Some(this) = player.upcoming() else { break };
            let path = player.path() as u16;
            let bytes = player.take(&mut buffer, None, 0);
            let next = player.due().unwrap_or(this.due);
            look(
                &buffer[..bytes],
                Next {
                    kind: this.kind,
                    stream: this.stream,
                    path,
                    steps: (steps(next) - steps(this.due)) as u32,
                },
            );
        }
    }

    /// Returns the first byte from which on every frame equals the longest one, except for a
    /// signature that is written each time.
    fn differs_until(&self) -> usize {
        let mut shapes: BTreeSet<(usize, Option<usize>)> = BTreeSet::new();
        let mut until = 0;
        self.each(|frame, next| {
            let signed = self.kinds[next.kind as usize];
            shapes.insert((frame.len(), signed.map(|signed| signed.at)));
            if let Some(checksum) = signed.and_then(|signed| signed.checksum) {
                until = until.max(checksum.at + 2);
            }
            let own = signed.map_or(0..0, |signed| volatile(signed.at));
            let differs = |at: &usize| frame[*at] != self.page[*at] && !own.contains(at);
            if let Some(last) = (until..frame.len()).rev().find(differs) {
                until = last + 1;
            }
        });
        // a signature stays in the page, inside longer frames that have theirs elsewhere
        for (_, signature) in &shapes {
            let Some(at) = *signature else { continue };
            let spoils = |(bytes, other): &(usize, Option<usize>)| {
                *bytes > volatile(at).start && *other != Some(at)
            };
            if shapes.iter().any(spoils) {
                until = until.max(at + signature::LEN);
            }
        }
        until
    }
}

/// Properties of a frame besides its bytes.
#[derive(Debug, Clone, Copy)]
struct Next {
    kind: u32,
    stream: u32,
    /// Its path, counted from the selected one.
    path: u16,
    /// Time until the next frame.
    steps: u32,
}

/// Returns the bytes of sequence and time in a signature that begins at `at`.
fn volatile(at: usize) -> Range<usize> {
    at + 4..at + signature::LEN
}

fn unsupported(operation: String) -> EngineError {
    EngineError::Unsupported {
        engine: Mode::XdpLive.name(),
        action: operation,
    }
}

fn stream_error(stream: &Stream, traffic: &Traffic, action: &str) -> EngineError {
    unsupported(format!(
        "{action} (stream {} of {})",
        stream.name, traffic.name
    ))
}

/// Returns the number of frames after which everything but sequence and time repeats.
fn length(frames: &TrafficFrames) -> Result<u32, EngineError> {
    let mut traffic = (*frames.traffic).clone();
    for stream in &traffic.streams {
        let timing = &stream.timing;
        let action = if timing.mode != Emission::Continuous {
            "send a stream in bursts or to an end"
        } else if timing.delay_ns > 0 {
            "start one stream later than another"
        } else if timing.waits {
            "start one stream after another"
        } else {
            continue;
        };
        return Err(stream_error(stream, &traffic, action));
    }
    for kind in traffic.streams.iter_mut().flat_map(|s| &mut s.kinds) {
        kind.program
            .instructions
            .retain(|instruction| !matches!(instruction, Instruction::Signature { .. }));
    }
    let name = traffic.name.clone();
    let unsigned = TrafficFrames {
        traffic: traffic.into(),
        nonce: frames.nonce,
    };
    match Player::new(&unsigned, None)?.cycle() {
        None => Err(unsupported(format!(
            "keep the frames of {name}: they do not repeat, or the rates of its streams have no common multiple"
        ))),
        Some(frames) if frames > MOST_LINES => Err(unsupported(format!(
            "keep the {frames} frames of {name}: it has room for {MOST_LINES}"
        ))),
        Some(frames) => Ok(frames as u32),
    }
}

/// Returns the offset where the headers of a frame end and its payload or padding begins.
fn headers_end(frame: &[u8]) -> usize {
    let decoded = decode(frame);
    match (decoded.layers.last(), decoded.offsets.last()) {
        (Some(Layer::Payload(_)), Some(&at)) => at,
        _ => frame.len() - decoded.padding,
    }
}

/// Writes the first frame of a kind with different times in its signature, and derives the
/// positions from the changes.
fn learn(kind: &Kind) -> Result<Option<Signed>, String> {
    let mut signatures = kind.program.instructions.iter().filter_map(|i| match i {
        Instruction::Signature { offset } => Some(usize::from(*offset)),
        _ => None,
    });
    let Some(at) = signatures.next() else {
        return Ok(None);
    };
    if signatures.next().is_some() {
        return Err("send frames with two signatures".into());
    }
    let machine = kind
        .program
        .machine(&kind.template)
        .map_err(|e| e.to_string())?;
    let written_at = |timestamp_ns| {
        let mut frame = vec![0; machine.buffer_len()];
        let signature = Signature {
            timestamp_ns,
            ..Signature::default()
        };
        let bytes = machine.clone().render(&mut frame, &signature);
        frame.truncate(bytes);
        frame
    };
    let blank = written_at(0);
    // one bit each: together they change both bytes of every checksum over the signature
    let mut changed = BTreeSet::new();
    for bit in 0..16 {
        let frame = written_at(1 << bit);
        changed.extend(
            (0..blank.len()).filter(|&i| blank[i] != frame[i] && !volatile(at).contains(&i)),
        );
    }
    let changed: Vec<usize> = changed.into_iter().collect();
    let checksum = match changed[..] {
        [] => None,
        [high, low] if high + 1 == low => {
            let unflagged = |frame: &[u8]| !read(frame, high) % 0xffff;
            let sum = unflagged(&blank);
            let shifted = unflagged(&written_at(1)) != (sum + 1) % 0xffff;
            let mut flags = if shifted { SHIFTED } else { 0 };
            // with this time the checksum would be 0
            let word = (0xffff - sum).rotate_left(if shifted { 8 } else { 0 });
            if read(&written_at(word.into()), high) == 0xffff {
                flags |= NEVER_ZERO;
            }
            Some(Checksum { at: high, flags })
        }
        _ => return Err("send frames with two checksums over their signature".into()),
    };
    Ok(Some(Signed { at, checksum }))
}

impl Checksum {
    /// Returns the sum of all that the checksum of this frame covers, except the sequence number;
    /// the time in it is 0.
    fn sum_without(self, frame: &[u8], sequence: u64) -> u16 {
        let mut words = (sequence & 0xffff) + (sequence >> 16 & 0xffff) + (sequence >> 32 & 0xffff);
        if self.flags & SHIFTED != 0 {
            words <<= 8;
        }
        let all = u64::from(!read(frame, self.at));
        // in one's complement both 0 and 0xffff are zero; a sum over bytes that are not all zero is
        // the latter
        match (all + (0xffff - words % 0xffff)) % 0xffff {
            0 => 0xffff,
            sum => sum as u16,
        }
    }
}

/// Reads two bytes, big endian.
fn read(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::SignaturePlace;
    use crate::traffic::Timing;
    use fwdlab_packet::modifier::{Program, Transport};
    use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr};

    /// UDP over IPv4 with its signature at the front or at the end.
    fn udp(frame_size: u16, at_end: bool) -> Kind {
        let template = FrameTemplate::new(&FrameSpec {
            source: MacAddr([2, 0, 0, 0, 0, 1]),
            destination: MacAddr([2, 0, 0, 0, 0, 2]),
            version: IpVersion::V4,
            frame_size,
        })
        .unwrap();
        let mut bytes = vec![0; template.buffer_len()];
        let flow = FlowSet::default_v4(1).unwrap().flow(0);
        template.write(&mut bytes, &flow, &Signature::default());
        let offset = match at_end {
            true => (bytes.len() - signature::LEN) as u16,
            false => signature::OFFSET_IPV4_UDP as u16,
        };
        Kind {
            template: bytes,
            program: Program {
                instructions: vec![
                    Instruction::Signature { offset },
                    Instruction::FixTransport {
                        l2_len: 14,
                        l3_len: 20,
                        transport: Transport::Udp,
                    },
                ],
                ..Program::default()
            },
            place: Some(SignaturePlace::Tail),
        }
    }

    fn traffic(streams: Vec<(f64, Vec<Kind>)>) -> TrafficFrames {
        let stream = |(id, (rate_pps, kinds)): (u16, (f64, Vec<Kind>))| Stream {
            id,
            name: format!("s{id}"),
            pattern: (0..kinds.len() as u16).collect(),
            kinds,
            timing: Timing::new(rate_pps, Emission::Continuous),
            path: 0,
        };
        TrafficFrames {
            traffic: Traffic {
                name: "test".into(),
                streams: (0..).zip(streams).map(stream).collect(),
            }
            .into(),
            nonce: 7,
        }
    }

    fn imix(at_end: bool) -> Vec<Kind> {
        [64, 594, 1518].map(|size| udp(size, at_end)).to_vec()
    }

    #[test]
    fn only_what_differs_is_copied() {
        let lines = |kinds| Cycle::new(&traffic(vec![(1.0, kinds)])).unwrap().lines;
        assert_eq!(lines(vec![udp(64, false)]), 1);
        assert_eq!(lines(imix(false)), 1);
        assert_eq!(lines(vec![udp(1518, true)]), 1);
        // the signature of the middle size is inside the longest frame: 590 bytes
        assert_eq!(lines(imix(true)), 5);
        let mut pattern = udp(1518, false);
        pattern.template[1513] = 1;
        assert_eq!(lines(vec![pattern.clone()]), 1);
        assert_eq!(lines(vec![udp(1518, false), pattern]), 12);
    }

    #[test]
    fn a_kind_is_known_by_what_changes_in_it() {
        let checksum = |kind: &Kind| learn(kind).unwrap().unwrap().checksum;
        let at = |at, flags| Some(Checksum { at, flags });
        assert_eq!(checksum(&udp(64, false)), at(40, NEVER_ZERO));
        assert_eq!(checksum(&udp(65, true)), at(40, NEVER_ZERO | SHIFTED));
        let mut none = udp(64, false);
        none.program.instructions.pop();
        assert_eq!(checksum(&none), None);
        none.program.instructions.clear();
        assert_eq!(learn(&none), Ok(None));
    }

    #[test]
    fn steps_add_up_to_whole_gaps() {
        for rates in [
            vec![1.0],
            vec![3.0, 1.0],
            vec![7.0, 4.0, 1.0],
            vec![1000.0, 3.0],
        ] {
            let streams = rates.iter().map(|rate| (*rate, imix(false))).collect();
            let cycle = Cycle::new(&traffic(streams)).unwrap();
            let mut steps = 0;
            cycle.each(|_, next| steps += u64::from(next.steps));
            assert_eq!(steps, u64::from(cycle.slots) * 65536, "{rates:?}");
        }
    }

    #[test]
    fn sums_leave_out_what_is_written_later() {
        let machine = udp(65, true).program.machine(&udp(65, true).template);
        let mut machine = machine.unwrap();
        let mut frame = [0; 61];
        let Some(Signed {
            checksum: Some(checksum),
            ..
        }) = learn(&udp(65, true)).unwrap()
        else {
            panic!("it has a checksum");
        };
        let mut sums = BTreeSet::new();
        for sequence in [0, 1, 0x1234_5678, 0xffff_ffff_ffff] {
            let signature = Signature {
                sequence,
                ..Signature::default()
            };
            machine.render(&mut frame, &signature);
            sums.insert(checksum.sum_without(&frame, sequence));
        }
        assert_eq!(sums.len(), 1, "{sums:?}");
    }
}
