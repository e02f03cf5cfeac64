//! Groups of streams whose frames are counted and timed together: their numbers, and the frames
//! sent and received.
//!
//! A group exists while a stream of it is loaded. [`fwdlab_engine::groups`] distinguishes frames by
//! a number that we assign. Start with [`Registry::join`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use base64::Engine as _;
use fwdlab_engine::Histogram;
use fwdlab_engine::groups::{COUNTED, Order, TIMED};
use serde_json::{Map, Value, json};

use crate::model::TrexPort;
use crate::rpc::Fault;
use crate::stream::Group;
use crate::traffic::Place;

/// Weight of the last window of time in a mean.
const SHARE: f64 = 0.5;

/// A stream: port, profile, number.
pub type Member = (usize, String, u32);

/// Groups of all ports.
#[derive(Default)]
pub struct Registry {
    groups: BTreeMap<u32, State>,
    /// Changes with every new group.
    version: u64,
    looked: Option<Instant>,
}

struct State {
    is_timed: bool,
    number: u16,
    generation: u8,
    version: u64,
    members: BTreeSet<Member>,
    /// By port.
    ports: Vec<OnPort>,
    /// Latencies: mean and maximum of windows of time, in nanoseconds.
    mean_ns: Option<f64>,
    window_most_ns: u64,
    seen: (u64, u64),
}

/// Frames and bytes with FCS, sent and received, and per second.
#[derive(Debug, Clone, Copy, Default)]
struct OnPort {
    sent: (u64, u64),
    arrived: (u64, u64),
    before: [(u64, u64); 2],
    rates: [(f64, f64); 2],
}

impl Registry {
    /// Adds a stream to a group, which is created with its first stream.
    pub fn join(
        &mut self,
        ports: &mut [TrexPort],
        group: Group,
        member: Member,
    ) -> Result<(), Fault> {
        if let Some(state) = self.groups.get_mut(&group.id) {
            if state.is_timed != group.is_timed {
                return Err(Fault::execute(format!(
                    "group {} is of the other type already: stats or latency, not both",
                    group.id
                )));
            }
            if state.is_timed {
                return Err(Fault::execute(format!(
                    "group {} has latency and a stream already; such a group has one",
                    group.id
                )));
            }
            state.members.insert(member);
            return Ok(());
        }
        let taken = |number: &u16| {
            let mut groups = self.groups.values();
            groups.any(|state| state.is_timed == group.is_timed && state.number == *number)
        };
        let (most, what) = match group.is_timed {
            true => (TIMED, "latency"),
            false => (COUNTED, "stats"),
        };
        let number = (0..most).find(|number| !taken(number)).ok_or_else(|| {
            Fault::execute(format!(
                "there are {most} groups of type {what}, and no more"
            ))
        })?;
        for port in ports.iter_mut() {
            let name = port.wire.name().to_owned();
            let Some(groups) = port.wire.groups() else {
                return Err(Fault::execute(format!(
                    "groups cannot be distinguished on {name}: that needs XDP and root"
                )));
            };
            let started = match group.is_timed {
                true => groups.begin_timed(number, 1),
                false => groups.begin_count(number),
            };
            started.map_err(|error| Fault::execute(error.to_string()))?;
        }
        self.version += 1;
        let state = State {
            is_timed: group.is_timed,
            number,
            generation: 0,
            version: self.version,
            members: [member].into(),
            ports: vec![OnPort::default(); ports.len()],
            mean_ns: None,
            window_most_ns: 0,
            seen: (0, 0),
        };
        self.groups.insert(group.id, state);
        Ok(())
    }

    /// Removes a stream, and its group if it was the last one.
    pub fn leave(&mut self, ports: &mut [TrexPort], id: u32, member: &Member) {
        let Some(state) = self.groups.get_mut(&id) else {
            return;
        };
        state.members.remove(member);
        if !state.members.is_empty() {
            return;
        }
        for port in ports {
            if let (true, Some(groups)) = (state.is_timed, port.wire.groups()) {
                // its frames no longer belong to a group
                let _ = groups.begin_timed(state.number, 0);
            }
        }
        self.groups.remove(&id);
    }

    /// Returns where frames of a stream are counted that is about to start.
    pub fn place(&mut self, ports: &mut [TrexPort], group: Group) -> Result<Option<Place>, Fault> {
        let Some(state) = self.groups.get_mut(&group.id) else {
            return Ok(None);
        };
        if !state.is_timed {
            return Ok(Some(Place::Counted(state.number)));
        }
        state.generation = state.generation.checked_add(1).unwrap_or(1);
        for port in ports {
            if let Some(groups) = port.wire.groups() {
                (groups.restart_timed(state.number, state.generation))
                    .map_err(|error| Fault::execute(error.to_string()))?;
            }
        }
        Ok(Some(Place::Timed {
            group: state.number,
            generation: state.generation,
        }))
    }

    /// Adds frames of a group that were sent through a port.
    pub fn sent(&mut self, id: u32, port: usize, frames: u64, bytes: u64) {
        let on = self.groups.get_mut(&id).and_then(|s| s.ports.get_mut(port));
        if let Some(on) = on {
            on.sent.0 += frames;
            on.sent.1 += bytes;
        }
    }

    /// Returns the clients' numbers of all counted groups, and of those with latency.
    pub fn active(&self) -> Value {
        let of = |is_timed: bool| -> Vec<u32> {
            let groups = self.groups.iter().filter(|(_, s)| s.is_timed == is_timed);
            groups.map(|(id, _)| *id).collect()
        };
        json!({"ids": {"flow_stats": of(false), "latency": of(true)}})
    }

    /// Reads the counts of received frames.
    fn read(&mut self, ports: &mut [TrexPort], which: Option<&[u32]>) -> Result<(), Fault> {
        let failed = |error: fwdlab_engine::EngineError| Fault::execute(error.to_string());
        for (id, state) in &mut self.groups {
            if which.is_some_and(|which| !which.contains(id)) {
                continue;
            }
            for (port, on) in ports.iter_mut().zip(&mut state.ports) {
                let Some(groups) = port.wire.groups() else {
                    continue;
                };
                let arrived = match state.is_timed {
                    true => groups.timed(state.number).map_err(failed)?.arrived,
                    false => groups.counted(state.number).map_err(failed)?,
                };
                on.arrived = (arrived.frames, arrived.bytes);
            }
        }
        Ok(())
    }

    /// Ends a window of time: updates rates and latencies.
    pub fn end_window(&mut self, ports: &mut [TrexPort]) -> Result<(), Fault> {
        let now = Instant::now();
        let Some(before) = self.looked.replace(now) else {
            return Ok(());
        };
        if self.groups.is_empty() {
            return Ok(());
        }
        self.read(ports, None)?;
        let seconds = now.duration_since(before).as_secs_f64();
        for port in ports.iter_mut() {
            if let Some(groups) = port.wire.groups() {
                (groups.end_window()).map_err(|error| Fault::execute(error.to_string()))?;
            }
        }
        for state in self.groups.values_mut() {
            for on in &mut state.ports {
                let rate = |now: (u64, u64), before: (u64, u64)| {
                    let per_second = |n: u64, b: u64| n.saturating_sub(b) as f64 / seconds;
                    (
                        per_second(now.0, before.0),
                        per_second(now.1, before.1) * 8.0,
                    )
                };
                on.rates = [rate(on.sent, on.before[0]), rate(on.arrived, on.before[1])];
                on.before = [on.sent, on.arrived];
            }
            if !state.is_timed {
                continue;
            }
            let orders = orders(ports, state.number)?;
            let all = |of: fn(&Order) -> u64| orders.iter().map(of).sum::<u64>();
            let (count, sum) = (all(|o| o.latencies), all(|o| o.sum_ns));
            let new = count.saturating_sub(state.seen.0);
            if new > 0 {
                let mean = sum.saturating_sub(state.seen.1) as f64 / new as f64;
                state.mean_ns = Some(match state.mean_ns {
                    Some(before) => before * (1.0 - SHARE) + mean * SHARE,
                    None => mean,
                });
            }
            state.seen = (count, sum);
            // show the last window that had a frame until another one has
            if let Some(most) = orders.iter().filter_map(|o| o.window_most_ns).max() {
                state.window_most_ns = most;
            }
        }
        Ok(())
    }

    /// Returns the statistics of these groups, or of all.
    pub fn statistics(&mut self, ports: &mut [TrexPort], which: &[u32]) -> Result<Value, Fault> {
        let which = Some(which).filter(|which| !which.is_empty());
        self.read(ports, which)?;
        let (mut counts, mut latency, mut versions) = (Map::new(), Map::new(), Map::new());
        for (id, state) in &self.groups {
            if which.is_some_and(|which| !which.contains(id)) {
                continue;
            }
            let key = id.to_string();
            counts.insert(key.clone(), state.counts());
            versions.insert(key.clone(), state.version.into());
            if state.is_timed {
                latency.insert(key, state.latency(ports)?);
            }
        }
        Ok(json!({
            "flow_stats": counts,
            "latency": latency,
            "ver_id": versions,
        }))
    }
}

fn orders(ports: &mut [TrexPort], number: u16) -> Result<Vec<Order>, Fault> {
    let groups = ports.iter_mut().filter_map(|port| port.wire.groups());
    let orders = groups.map(|groups| groups.timed(number));
    let orders: Result<Vec<_>, _> = orders.collect();
    orders.map_err(|error| Fault::execute(error.to_string()))
}

impl State {
    fn counts(&self) -> Value {
        let of = |value: &dyn Fn(&OnPort) -> Value| -> Value {
            let ports = self.ports.iter().enumerate();
            let all: Map<String, Value> = ports.map(|(n, on)| (n.to_string(), value(on))).collect();
            all.into()
        };
        json!({
            "tp": of(&|on| on.sent.0.into()), "tb": of(&|on| on.sent.1.into()),
            "rp": of(&|on| on.arrived.0.into()), "rb": of(&|on| on.arrived.1.into()),
            "tps": of(&|on| on.rates[0].0.into()), "tbs": of(&|on| on.rates[0].1.into()),
            "rps": of(&|on| on.rates[1].0.into()), "rbs": of(&|on| on.rates[1].1.into()),
        })
    }

    fn latency(&self, ports: &mut [TrexPort]) -> Result<Value, Fault> {
        let orders = orders(ports, self.number)?;
        let mut times = Histogram::default();
        for port in ports {
            if let Some(groups) = port.wire.groups() {
                let of_port = groups.times(self.number);
                times.merge(&of_port.map_err(|error| Fault::execute(error.to_string()))?);
            }
        }
        let us = |ns: f64| ns / 1e3;
        let sum = |of: fn(&Order) -> u64| orders.iter().map(of).sum::<u64>();
        // before the first window has ended
        let mean = sum(|o| o.sum_ns) as f64 / sum(|o| o.latencies).max(1) as f64;
        let timed = || orders.iter().filter(|o| o.latencies > 0);
        let least = timed().map(|o| o.least_ns).min().unwrap_or(0);
        let most = timed().map(|o| o.most_ns).max().unwrap_or(0);
        let jitter = timed().map(|o| o.jitter_ns).max().unwrap_or(0);
        let mut of = json!({
            "average": us(self.mean_ns.unwrap_or(mean)),
            "total_max": us(most as f64),
            "total_min": us(least as f64),
            "last_max": us(self.window_most_ns as f64),
            "jit": us(jitter as f64),
            "histogram": histogram(&times),
        });
        if let Some(text) = hdr(&times) {
            of["hdrh"] = text.into();
        }
        Ok(json!({
            "lat": of,
            "er": {
                "drp": sum(|o| o.dropped), "ooo": sum(|o| o.out_of_order), "dup": sum(|o| o.duplicates),
                "sth": sum(|o| o.too_high), "stl": sum(|o| o.too_low),
            },
        }))
    }
}

/// Returns counts in TRex's classes: 0, 10, 20 ... 90, 100 ... 900, and so on, in microseconds; the
/// first contains everything below 10.
fn histogram(times: &Histogram) -> Value {
    let mut classes: BTreeMap<u64, u64> = BTreeMap::new();
    for (low, high, count) in times.buckets() {
        let us = (low + high) / 2 / 1000;
        let class = match us {
            0..10 => 0,
            us => {
                let decade = 10_u64.pow(us.min(999_999).ilog10());
                us.min(999_999) / decade * decade
            }
        };
        *classes.entry(class).or_default() += count;
    }
    let classes = classes
        .into_iter()
        .map(|(us, n)| (us.to_string(), n.into()));
    Value::Object(classes.collect())
}

/// Returns an HDR histogram of 1 us to 10 s with three digits, compressed, in base64.
fn hdr(times: &Histogram) -> Option<String> {
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
    let mut hdr = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 10_000_000, 3).ok()?;
    for (low, high, count) in times.buckets() {
        hdr.saturating_record_n((low + high) / 2 / 1000, count);
    }
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(&hdr, &mut bytes)
        .ok()?;
    Some(base64::prelude::BASE64_STANDARD.encode(bytes))
}
