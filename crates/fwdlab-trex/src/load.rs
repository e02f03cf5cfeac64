//! The load of a profile at its own rates, and multipliers of it.
//!
//! The base of a profile is the largest sum of streams that send at the same time; streams with
//! latency are fixed: they count, and are not multiplied. Start with [`Base::new`]; [`Multiplier`]
//! is the request of a client, [`StreamTimes`] the order of the streams.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde_json::{Value, json};

use crate::limits;
use crate::rpc::{Fault, Params};
use crate::stream::{Mode, Stream};

/// Shorter bursts do not count as load: their rate is hardly meaningful.
const NO_LOAD: u64 = 1000;

/// A load up to this factor of the line rate still fits.
const OVER: f64 = 1.0001;

/// Frames and bits per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    pub pps: f64,
    /// Layer 2, with FCS.
    pub layer_2: f64,
    /// Layer 1, on the wire.
    pub layer_1: f64,
}

impl Load {
    /// Returns the load of a stream at this rate.
    fn from_stream(stream: &Stream, pps: f64) -> Load {
        Load {
            pps,
            layer_2: pps * stream.layer_2_bits(),
            layer_1: pps * stream.layer_1_bits(),
        }
    }

    /// Adds another load, multiplied.
    pub fn plus(self, other: Load, times: f64) -> Load {
        Load {
            pps: self.pps + times * other.pps,
            layer_2: self.layer_2 + times * other.layer_2,
            layer_1: self.layer_1 + times * other.layer_1,
        }
    }

    fn or_more(self, other: Load) -> Load {
        Load {
            pps: self.pps.max(other.pps),
            layer_2: self.layer_2.max(other.layer_2),
            layer_1: self.layer_1.max(other.layer_1),
        }
    }
}

/// The maximum load of a profile.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Base {
    /// The part that is not multiplied.
    pub fixed: Load,
    /// The part at multiplier 1.
    pub variable: Load,
}

impl Base {
    /// Computes it for these streams, which are all enabled, at their own rates.
    pub fn new(streams: &[&Stream], pps: &[f64], next: &[Option<usize>]) -> Base {
        let mut base = Base::default();
        for is_fixed in [false, true] {
            let (mut now, mut most) = (Load::default(), Load::default());
            StreamTimes::new(streams, pps, next).each(limits::STARTS, |event| {
                if streams[event.stream].is_fixed() == is_fixed {
                    let load = Load::from_stream(streams[event.stream], event.pps);
                    now = now.plus(load, if event.starts { 1.0 } else { -1.0 });
                    most = most.or_more(now);
                }
            });
            match is_fixed {
                true => base.fixed = most,
                false => base.variable = most,
            }
        }
        base
    }

    /// Returns the load with this multiplier.
    pub fn times(&self, factor: f64) -> Load {
        self.fixed.plus(self.variable, factor)
    }

    /// Returns true if a line of this speed can carry it.
    pub fn fits(&self, factor: f64, speed_bps: u64) -> bool {
        self.times(factor).layer_1 <= speed_bps as f64 * OVER
    }

    /// Returns the multiplier that fills the line.
    fn full(&self, speed_bps: u64) -> f64 {
        (speed_bps as f64 - self.fixed.layer_1) / self.variable.layer_1
    }
}

/// The load that a client requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Multiplier {
    unit: Unit,
    value: f64,
    operation: Operation,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Unit {
    Raw,
    Pps,
    Layer2,
    Layer1,
    Percent,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operation {
    Be,
    Add,
    Subtract,
}

impl Multiplier {
    /// Parses the field `mul` of a call.
    pub fn parse(params: &Params<'_>) -> Result<Multiplier, Fault> {
        let mul = params.object("mul")?;
        let value = mul.real("value")?;
        let wrong = |name: &str, known: &str| {
            Fault::params(format!("field '{name}' of 'mul' must be one of {known}"))
        };
        let unit = match mul.text("type")?.to_ascii_lowercase().as_str() {
            "raw" => Unit::Raw,
            "pps" => Unit::Pps,
            "bps" => Unit::Layer2,
            "bpsl1" => Unit::Layer1,
            "percentage" => Unit::Percent,
            _ => return Err(wrong("type", "raw, pps, bps, bpsl1 and percentage")),
        };
        let operation = match mul.text("op")? {
            "abs" => Operation::Be,
            "add" => Operation::Add,
            "sub" => Operation::Subtract,
            _ => return Err(wrong("op", "abs, add and sub")),
        };
        if value <= 0.0 {
            return Err(Fault::params("field 'value' of 'mul' must be above 0"));
        }
        Ok(Multiplier {
            unit,
            value,
            operation,
        })
    }

    /// Returns true if it does not depend on the current load.
    pub fn is_absolute(&self) -> bool {
        self.operation == Operation::Be
    }

    /// Returns the factor for such streams; `now`: the current factor, for relative requests.
    pub fn factor(&self, base: &Base, speed_bps: u64, now: Option<f64>) -> Result<f64, Fault> {
        let (requested, fixed, variable) = match self.unit {
            Unit::Raw => (self.value, 0.0, 1.0),
            Unit::Pps => (self.value, base.fixed.pps, base.variable.pps),
            Unit::Layer2 => (self.value, base.fixed.layer_2, base.variable.layer_2),
            Unit::Layer1 => (self.value, base.fixed.layer_1, base.variable.layer_1),
            Unit::Percent if speed_bps == 0 => {
                return Err(Fault::execute(
                    "the port has no speed, so a load cannot be a percentage of it",
                ));
            }
            Unit::Percent => (
                self.value / 100.0 * speed_bps as f64,
                base.fixed.layer_1,
                base.variable.layer_1,
            ),
        };
        // only streams with latency: nothing to multiply
        if variable <= 0.0 {
            return Ok(1.0);
        }
        let now = now.unwrap_or(1.0);
        let factor = match (self.operation, self.unit) {
            (Operation::Be, _) => (requested - fixed) / variable,
            (Operation::Add, Unit::Percent) => now + now * self.value / 100.0,
            (Operation::Subtract, Unit::Percent) => now - now * self.value / 100.0,
            (Operation::Add, _) => now + requested / variable,
            (Operation::Subtract, _) => now - requested / variable,
        };
        match factor > 0.0 && factor.is_finite() {
            true => Ok(factor),
            false => Err(Fault::execute(format!(
                "this load leaves nothing to send: streams with latency alone have {:.0} frames/s",
                base.fixed.pps
            ))),
        }
    }

    /// Returns the factor for a line of this speed; more than it carries is refused, unless forced.
    pub fn checked(
        &self,
        base: &Base,
        speed_bps: u64,
        now: Option<f64>,
        force: bool,
    ) -> Result<f64, Fault> {
        let factor = self.factor(base, speed_bps, now)?;
        if force || speed_bps == 0 {
            return Ok(factor);
        }
        if !base.fits(factor, speed_bps) {
            return Err(Fault::execute(format!(
                "the load is {:.3} Gbit/s on layer 1, and the port has {:.3}; force overrides this",
                base.times(factor).layer_1 / 1e9,
                speed_bps as f64 / 1e9
            )));
        }
        Ok(match base.variable.layer_1 > 0.0 {
            true => factor.min(base.full(speed_bps)),
            false => factor,
        })
    }
}

/// A start or an end of a stream.
pub struct Event {
    pub at_us: f64,
    pub starts: bool,
    pub stream: usize,
    /// Its load; `None` for short bursts.
    pub pps: f64,
}

/// When streams start and end, at their own rates.
pub struct StreamTimes<'a> {
    streams: &'a [&'a Stream],
    pps: &'a [f64],
    next: &'a [Option<usize>],
}

impl<'a> StreamTimes<'a> {
    pub fn new(
        streams: &'a [&'a Stream],
        pps: &'a [f64],
        next: &'a [Option<usize>],
    ) -> StreamTimes<'a> {
        StreamTimes { streams, pps, next }
    }

    /// Iterates over up to `most` events in chronological order; returns true if these are all.
    /// Ends come before starts of the same time.
    pub fn each(&self, most: usize, mut tell: impl FnMut(Event)) -> bool {
        let ns = |us: f64| (us * 1e3) as u64;
        let mut events: BinaryHeap<Reverse<(u64, bool, usize)>> = (0..)
            .zip(self.streams)
            .filter(|(_, stream)| stream.self_start)
            .map(|(at, stream)| Reverse((ns(stream.gap_us), true, at)))
            .collect();
        let mut sends = vec![false; self.streams.len()];
        let mut ends = vec![0u32; self.streams.len()];
        let most = most.max(4 * self.streams.len());
        let mut reported = 0;
        while let Some(Reverse((at, starts, which))) = events.pop() {
            if reported == most {
                return false;
            }
            let stream = self.streams[which];
            if starts == sends[which] {
                continue;
            }
            sends[which] = starts;
            reported += 1;
            tell(Event {
                at_us: at as f64 / 1e3,
                starts,
                stream: which,
                pps: match frames(stream) {
                    Some(frames) if frames < NO_LOAD => 1.0_f64.min(self.pps[which]),
                    _ => self.pps[which],
                },
            });
            if starts {
                if let Some(lasts) = lasts_us(stream, self.pps[which]) {
                    events.push(Reverse((at.saturating_add(ns(lasts)), false, which)));
                }
            } else {
                ends[which] += 1;
                let continues = stream.ends == 0 || ends[which] < stream.ends;
                if let Some(next) = self.next[which].filter(|_| continues) {
                    let start = at.saturating_add(ns(self.streams[next].gap_us));
                    events.push(Reverse((start, true, next)));
                }
            }
        }
        true
    }

    /// Returns the total duration in microseconds; `None`: it does not end, as far as can be
    /// determined.
    pub fn lasts_us(&self) -> Option<f64> {
        let endless = |s: &&&Stream| s.mode == Mode::Continuous;
        if self.streams.iter().any(|stream| endless(&stream)) {
            return None;
        }
        let mut last = 0.0_f64;
        let whole = self.each(limits::STARTS, |event| last = last.max(event.at_us));
        whole.then_some(last)
    }

    /// Returns the events in the format of a dry run.
    pub fn event_list(&self, ids: &[u32]) -> Vec<Value> {
        let mut reported = Vec::new();
        self.each(limits::DRY_RUN, |event| {
            let sign = if event.starts { 1.0 } else { -1.0 };
            let load = Load::default().plus(
                Load::from_stream(self.streams[event.stream], event.pps),
                sign,
            );
            reported.push(json!({
                "time_usec": event.at_us, "diff_pps": load.pps, "diff_bps_l2": load.layer_2,
                "diff_bps_l1": load.layer_1, "stream_id": ids[event.stream],
            }));
        });
        reported
    }
}

/// Returns the frames of one run of a stream; `None`: endless.
fn frames(stream: &Stream) -> Option<u64> {
    match stream.mode {
        Mode::Continuous => None,
        Mode::Burst { frames } => Some(frames.into()),
        Mode::Bursts { frames, count, .. } => Some(u64::from(frames) * u64::from(count)),
    }
}

/// Returns the time from the first frame of a run to its last.
fn lasts_us(stream: &Stream, pps: f64) -> Option<f64> {
    let group = |frames: u32| f64::from(frames.saturating_sub(1)) * 1e6 / pps;
    match stream.mode {
        Mode::Continuous => None,
        Mode::Burst { frames } => Some(group(frames)),
        Mode::Bursts {
            frames,
            count,
            pause_us,
        } => Some(group(frames) * f64::from(count) + pause_us * f64::from(count.saturating_sub(1))),
    }
}
