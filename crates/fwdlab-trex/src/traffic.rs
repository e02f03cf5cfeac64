//! Converts the streams of a profile to what the engine sends: addresses of the port, marks of
//! groups, times. Start with [`Plan::new`].

use std::collections::BTreeMap;
use std::sync::Arc;

use fwdlab_engine::groups::{self, TIMED_MARK};
use fwdlab_engine::traffic::{self, Emission, Kind, Timing, Traffic};
use fwdlab_engine::{Frames, TrafficFrames};
use fwdlab_packet::modifier::{Instruction, Program};

use crate::load::Base;
use crate::rpc::Fault;
use crate::stream::{Mode, Source, Stream, mark};

/// The parameters that streams lack.
pub struct Setting {
    pub source: [u8; 6],
    pub destination: [u8; 6],
}

/// Where a group is counted: its number there, and for frames with a latency header its generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Counted(u16),
    Timed { group: u16, generation: u8 },
}

/// Streams that are ready to be sent.
pub struct Plan {
    /// The clients' numbers of the streams, in the order of the traffic.
    pub ids: Vec<u32>,
    pub streams: Vec<Stream>,
    /// Index of the stream that follows each.
    pub next: Vec<Option<usize>>,
    /// Their own rates.
    pub pps: Vec<f64>,
    pub base: Base,
}

impl Plan {
    /// Selects the enabled ones of these streams, and checks their references to each other.
    pub fn new(all: &BTreeMap<u32, Stream>, speed_bps: u64) -> Result<Plan, Fault> {
        let chosen: Vec<(u32, &Stream)> = (all.iter())
            .filter(|(_, stream)| stream.enabled && !stream.is_dummy)
            .map(|(id, stream)| (*id, stream))
            .collect();
        if chosen.is_empty() {
            return Err(Fault::execute("the profile has no stream that is enabled"));
        }
        let place = |requested: u32| chosen.iter().position(|(id, _)| *id == requested);
        let mut next = Vec::new();
        let mut pps = Vec::new();
        for (id, stream) in &chosen {
            next.push(match stream.next {
                None => None,
                Some(requested) => Some(place(requested).ok_or_else(|| {
                    Fault::execute(format!(
                        "stream {id} is followed by stream {requested}, which {}",
                        match all.contains_key(&requested) {
                            true => "is not enabled",
                            false => "is not there",
                        }
                    ))
                })?),
            });
            pps.push(stream.pps(speed_bps)?);
        }
        for (at, (id, stream)) in chosen.iter().enumerate() {
            if !stream.self_start && !next.contains(&Some(at)) {
                return Err(Fault::execute(format!(
                    "stream {id} waits for another one to end, and none leads to it"
                )));
            }
            if let Some(next) = next[at]
                && stream.is_fixed() != chosen[next].1.is_fixed()
            {
                return Err(Fault::execute(format!(
                    "stream {id} and stream {} follow each other, and only one of them has latency",
                    chosen[next].0
                )));
            }
        }
        if !chosen.iter().any(|(_, stream)| stream.self_start) {
            return Err(Fault::execute("no stream of the profile starts by itself"));
        }
        let streams: Vec<&Stream> = chosen.iter().map(|(_, stream)| *stream).collect();
        Ok(Plan {
            base: Base::new(&streams, &pps, &next),
            ids: chosen.iter().map(|(id, _)| *id).collect(),
            streams: streams.into_iter().cloned().collect(),
            next,
            pps,
        })
    }

    /// Returns the rate of each stream with this multiplier.
    pub fn rates(&self, factor: f64) -> Vec<f64> {
        let rate = |(stream, pps): (&Stream, &f64)| match stream.is_fixed() {
            true => *pps,
            false => pps * factor,
        };
        self.streams.iter().zip(&self.pps).map(rate).collect()
    }

    /// Returns the frames with this multiplier.
    pub fn frames(
        &self,
        name: &str,
        factor: f64,
        setting: &Setting,
        place: impl Fn(usize) -> Option<Place>,
    ) -> Frames {
        let rates = self.rates(factor);
        let streams = self.streams.iter().enumerate().map(|(at, stream)| {
            let place = place(at);
            let ns = |us: f64| (us * 1e3).round() as u64;
            let mode = match stream.mode {
                Mode::Continuous => Emission::Continuous,
                Mode::Burst { frames } => Emission::Burst {
                    frames: frames.into(),
                },
                Mode::Bursts {
                    frames,
                    count,
                    pause_us,
                } => Emission::Bursts {
                    frames: frames.into(),
                    pause_ns: ns(pause_us),
                    bursts: Some(count.into()),
                },
            };
            traffic::Stream {
                id: at as u16,
                name: self.ids[at].to_string(),
                kinds: vec![Kind {
                    template: template(stream, setting, place),
                    program: program(&stream.program, place),
                    place: None,
                }],
                pattern: vec![0],
                timing: Timing {
                    delay_ns: ns(stream.gap_us),
                    waits: !stream.self_start,
                    next: self.next[at],
                    runs: Some(stream.ends).filter(|ends| *ends > 0),
                    held: stream.start_paused,
                    ..Timing::new(rates[at], mode)
                },
                path: 0,
            }
        });
        Frames::Traffic(TrafficFrames {
            traffic: Arc::new(Traffic {
                name: name.into(),
                streams: streams.collect(),
            }),
            nonce: 0,
        })
    }
}

fn template(stream: &Stream, setting: &Setting, place: Option<Place>) -> Vec<u8> {
    let mut frame = stream.frame.clone();
    if stream.destination_mac == Source::Port {
        frame[..6].copy_from_slice(&setting.destination);
    }
    if stream.source_mac == Source::Port {
        frame[6..12].copy_from_slice(&setting.source);
    }
    match place {
        None => mark::clear_mark(&mut frame),
        Some(Place::Counted(group)) => mark::put(&mut frame, groups::mark(group)),
        Some(Place::Timed { .. }) => mark::put(&mut frame, TIMED_MARK),
    }
    frame
}

/// Returns the stream's own program; a latency header is written once the length is final and
/// before the checksums, which cover it.
fn program(program: &Program, place: Option<Place>) -> Program {
    let mut program = program.clone();
    if let Some(Place::Timed { group, generation }) = place {
        let is_fix = |i: &Instruction| {
            matches!(
                i,
                Instruction::FixIpv4 { .. }
                    | Instruction::FixTransport { .. }
                    | Instruction::FixIcmpv6 { .. }
            )
        };
        let is_trim = |i: &Instruction| matches!(i, Instruction::Trim { .. });
        let after_trims = (program.instructions.iter().rposition(is_trim)).map_or(0, |at| at + 1);
        let fix = program.instructions[after_trims..].iter().position(is_fix);
        let at = fix.map_or(program.instructions.len(), |fix| after_trims + fix);
        (program.instructions).insert(at, Instruction::Trailer { group, generation });
    }
    program
}
