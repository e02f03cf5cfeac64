//! Parsed streams of clients: what a stream sends, when, and what follows it.
//!
//! Errors in a stream are reported when it is added, before anything is sent.
//! [`traffic`](crate::traffic) converts streams to frames and times for the engine. Start with
//! [`Stream::parse`]; [`vm`] is the program of a stream, [`mark`] the mark of a group's frames.

pub mod mark;
mod vm;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fwdlab_packet::modifier::{MIN_TRIM, Program};
use serde_json::Value;

use crate::rpc::{Fault, Params};

/// Valid bytes of a frame without FCS, and the length to which shorter ones are padded.
const FRAME: std::ops::RangeInclusive<usize> = 14..=9238;
const SHORTEST: usize = 60;

/// Additional bytes of a frame: the FCS; and preamble, start delimiter and gap.
pub const FCS: f64 = 4.0;
const LAYER_1: f64 = 20.0;

/// A stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    pub enabled: bool,
    pub self_start: bool,
    pub start_paused: bool,
    /// Time before its first frame, at every start.
    pub gap_us: f64,
    pub mode: Mode,
    pub rate: Rate,
    /// The stream that starts when this one ends.
    pub next: Option<u32>,
    /// After this number of ends no stream follows; 0: unlimited.
    pub ends: u32,
    pub source_mac: Source,
    pub destination_mac: Source,
    /// True if it takes time but sends nothing.
    pub is_dummy: bool,
    /// Without FCS, padded.
    pub frame: Vec<u8>,
    pub program: Program,
    /// The lengths of its frames: mean and smallest, without FCS.
    pub mean_bytes: f64,
    pub shortest: usize,
    pub group: Option<Group>,
}

/// How many frames it sends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    Continuous,
    Burst {
        frames: u32,
    },
    Bursts {
        frames: u32,
        count: u32,
        pause_us: f64,
    },
}

/// The rate of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    Pps(f64),
    Layer1(f64),
    Layer2(f64),
    /// Of the link rate.
    Percent(f64),
}

/// The source of an address in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Port,
    Frame,
}

/// Frames that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// The client's number for it.
    pub id: u32,
    pub is_timed: bool,
}

impl Stream {
    /// Parses a stream.
    pub fn parse(value: &Value) -> Result<Stream, Fault> {
        let object = value
            .as_object()
            .ok_or_else(|| Fault::params("field 'stream' must be an object"))?;
        let of = Params(object);
        let actual = |name: &str, default| match of.some(name) {
            Some(_) => of.boolean(name),
            None => Ok(default),
        };
        let flags = match of.some("flags") {
            Some(_) => of.number("flags")?,
            None => 0,
        };
        let next = match of.some("next_stream_id").map(Value::as_i64) {
            None | Some(Some(-1)) => None,
            Some(_) => Some(of.number32("next_stream_id")?),
        };
        let frame = frame(&of.object("packet")?)?;
        let group = group(&of)?;
        let seed = match of.some("random_seed") {
            Some(_) => of.number("random_seed")?,
            None => 0,
        };
        let program = match of.some("vm") {
            Some(_) => vm::program(&of.object("vm")?, seed)?,
            None => Program::default(),
        };
        (program.machine(&frame)).map_err(|error| Fault::params(format!("field 'vm': {error}")))?;
        let lengths = vm::lengths(&program, frame.len());
        let stream = Stream {
            enabled: actual("enabled", true)?,
            self_start: actual("self_start", true)?,
            start_paused: actual("start_paused", false)?,
            gap_us: match of.some("isg") {
                Some(_) => of.time("isg")?,
                None => 0.0,
            },
            mode: mode(&of.object("mode")?)?,
            rate: rate(&of.object("mode")?.object("rate")?)?,
            next,
            ends: match of.some("action_count") {
                Some(_) => of.number32("action_count")?,
                None => 0,
            },
            source_mac: match flags & 1 {
                0 => Source::Port,
                _ => Source::Frame,
            },
            destination_mac: match flags >> 1 & 3 {
                1 => Source::Frame,
                _ => Source::Port,
            },
            is_dummy: flags & 8 != 0,
            frame,
            program,
            mean_bytes: lengths.mean,
            shortest: lengths.shortest,
            group,
        };
        stream.check()?;
        Ok(stream)
    }

    fn check(&self) -> Result<(), Fault> {
        if self.mode == Mode::Continuous && self.next.is_some() {
            return Err(Fault::params(
                "a continuous stream never ends: field 'next_stream_id' must be -1",
            ));
        }
        let Some(group) = self.group else {
            return Ok(());
        };
        if group.is_timed && self.shortest < mark::smallest_timed(&self.frame) {
            return Err(Fault::params(format!(
                "frames with latency need 16 bytes of payload: {} bytes, and the smallest of this stream has {}",
                mark::smallest_timed(&self.frame),
                self.shortest
            )));
        }
        if group.is_timed && !mark::can_time(&self.frame) {
            return Err(Fault::params(
                "ARP, LLDP and slow protocols (such as LACP) belong to the port's own host and are not timed",
            ));
        }
        if !group.is_timed && !mark::can_count(&self.frame) {
            return Err(Fault::params(
                "frames that are counted by group must be IPv4 or IPv6, behind at most two VLAN tags",
            ));
        }
        Ok(())
    }

    /// Returns the frames per second at its own rate, on a link of this speed.
    pub fn pps(&self, speed_bps: u64) -> Result<f64, Fault> {
        let layer_2 = (self.mean_bytes + FCS) * 8.0;
        let layer_1 = self.layer_1_bits();
        let pps = match self.rate {
            Rate::Pps(pps) => pps,
            Rate::Layer1(bps) => bps / layer_1,
            Rate::Layer2(bps) => bps / layer_2,
            Rate::Percent(_) if speed_bps == 0 => {
                return Err(Fault::execute(
                    "the port has no speed, so a rate cannot be a percentage of it",
                ));
            }
            Rate::Percent(share) => share / 100.0 * speed_bps as f64 / layer_1,
        };
        Ok(pps)
    }

    /// Returns the bits of a frame, with FCS.
    pub fn layer_2_bits(&self) -> f64 {
        (self.mean_bytes + FCS) * 8.0
    }

    /// Returns the bits of a frame on the wire.
    pub fn layer_1_bits(&self) -> f64 {
        (self.mean_bytes + FCS + LAYER_1) * 8.0
    }

    /// Returns true if its rate does not depend on the multiplier.
    pub fn is_fixed(&self) -> bool {
        self.group.is_some_and(|group| group.is_timed)
    }
}

fn frame(packet: &Params<'_>) -> Result<Vec<u8>, Fault> {
    let text = packet.get("binary")?.as_str();
    let text = text.ok_or_else(|| Fault::params("field 'binary' must be a string"))?;
    let mut frame = BASE64_STANDARD
        .decode(text)
        .map_err(|error| Fault::params(format!("field 'binary' is not base64: {error}")))?;
    if !FRAME.contains(&frame.len()) {
        return Err(Fault::params(format!(
            "a frame has {} to {} bytes without FCS, not {}",
            FRAME.start(),
            FRAME.end(),
            frame.len()
        )));
    }
    if frame.len() < SHORTEST {
        frame.resize(SHORTEST, 0);
    }
    Ok(frame)
}

fn mode(mode: &Params<'_>) -> Result<Mode, Fault> {
    let positive = |name: &str| match mode.number32(name)? {
        0 => Err(Fault::params(format!("field '{name}' must be above 0"))),
        number => Ok(number),
    };
    match mode.text("type")? {
        "continuous" => Ok(Mode::Continuous),
        "single_burst" => Ok(Mode::Burst {
            frames: positive("total_pkts")?,
        }),
        "multi_burst" => Ok(Mode::Bursts {
            frames: positive("pkts_per_burst")?,
            count: positive("count")?,
            pause_us: mode.time("ibg")?,
        }),
        other => Err(Fault::params(format!(
            "there is no mode '{}'; modes are continuous, single_burst and multi_burst",
            crate::rpc::short(other)
        ))),
    }
}

fn rate(rate: &Params<'_>) -> Result<Rate, Fault> {
    let value = rate.real("value")?;
    if value <= 0.0 {
        return Err(Fault::params("field 'value' of a rate must be above 0"));
    }
    match rate.text("type")?.to_ascii_lowercase().as_str() {
        "pps" => Ok(Rate::Pps(value)),
        "bps_l1" => Ok(Rate::Layer1(value)),
        "bps_l2" => Ok(Rate::Layer2(value)),
        "percentage" => Ok(Rate::Percent(value)),
        other => Err(Fault::params(format!(
            "there is no type of rate '{}'; types are pps, bps_L1, bps_L2 and percentage",
            crate::rpc::short(other)
        ))),
    }
}

fn group(of: &Params<'_>) -> Result<Option<Group>, Fault> {
    if of.some("flow_stats").is_none() {
        return Ok(None);
    }
    let stats = of.object("flow_stats")?;
    if !stats.boolean("enabled")? {
        return Ok(None);
    }
    let is_timed = match stats.text("rule_type")? {
        "stats" => false,
        "latency" => true,
        other => {
            return Err(Fault::params(format!(
                "fwdlab has no rule_type '{}'; it has stats and latency",
                crate::rpc::short(other)
            )));
        }
    };
    if stats.some("ieee_1588").is_some() && stats.boolean("ieee_1588")? {
        return Err(Fault::execute(
            "fwdlab writes no PTP headers (ieee_1588); its latencies need none",
        ));
    }
    Ok(Some(Group {
        id: stats.number32("stream_id")?,
        is_timed,
    }))
}

const _: () = assert!(SHORTEST == MIN_TRIM as usize);
