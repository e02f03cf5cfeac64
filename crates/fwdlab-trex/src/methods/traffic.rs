//! Calls that start, change and stop the traffic of a port's profiles.

use std::path::Path;
use std::time::Duration;

use fwdlab_engine::sys::monotonic_ns;
use fwdlab_engine::{LoadPlan, Schedule, StallPolicy};
use fwdlab_lab::session::FOR_EVER;
use serde_json::{Value, json};

use super::streams::{one_profile, profile};
use crate::events::Event;
use crate::load::{Multiplier, StreamTimes};
use crate::model::{ALL, Model};
use crate::pcap::{PcapChanges, Recorded};
use crate::rpc::{Fault, Params};
use crate::run::{Run, StartOptions};
use crate::stream::{Source, Stream};
use crate::traffic::{Plan, Setting};

/// Maximum delay of a start.
const LONGEST_WAIT_S: f64 = 60.0;

pub fn start(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let name = one_profile(params)?;
    let mul = Multiplier::parse(params)?;
    if !mul.is_absolute() {
        return Err(Fault::params("traffic starts with the op 'abs' of 'mul'"));
    }
    let duration = match params.some("duration") {
        Some(_) => params.real("duration")?,
        None => -1.0,
    };
    let force = force(params)?;
    if params.some("core_mask").is_some() && params.number("core_mask")? == 0 {
        return Err(Fault::params("field 'core_mask' selects no core"));
    }
    let wait = match params.some("start_at_ts") {
        Some(_) => params.real("start_at_ts")?,
        None => 0.0,
    };
    model.owned(params)?;
    let at = model.number(params)?;
    let now = model.began.elapsed().as_secs_f64();
    let wait = match wait > 0.0 {
        false => None,
        true if wait - now > LONGEST_WAIT_S => {
            return Err(Fault::params(format!(
                "field 'start_at_ts' is {:.0} s in the future; at most {LONGEST_WAIT_S} s are waited",
                wait - now
            )));
        }
        true => Some((wait - now).max(0.0)),
    };
    let at_ns = wait.map(|wait| monotonic_ns() + (wait * 1e9) as u64);
    let Model { ports, groups, .. } = model;
    let port = &mut ports[at];
    if port.playing.is_some() {
        return Err(Fault::execute(
            "the port sends a capture file; stop it first",
        ));
    }
    let state = port.profiles.get(name).map_or("IDLE", |p| p.state());
    if state != "STREAMS" {
        return Err(Fault::execute(match state {
            "IDLE" => format!("profile '{name}' has no streams"),
            _ => format!("profile '{name}' sends already; stop it first"),
        }));
    }
    let speed_bps = port.wire.speed_bps();
    let plan = Plan::new(&port.profiles[name].understood(), speed_bps)?;
    let factor = mul.checked(&plan.base, speed_bps, None, force)?;
    let is_from_port = |stream: &Stream| stream.destination_mac == Source::Port;
    let destination = port.layers.destination.or(port.wire.peer());
    if !force {
        if !port.wire.is_up() {
            return Err(Fault::execute(format!(
                "port {at} ({}) has no link",
                port.wire.name()
            )));
        }
        if destination.is_none() && plan.streams.iter().any(is_from_port) {
            return Err(Fault::execute(format!(
                "port {at} has no destination address; set_l2 or set_l3 sets one, or frames that have their own"
            )));
        }
    }
    let setting = Setting {
        source: port.wire.mac(),
        destination: destination.unwrap_or_default(),
    };
    let mut places = Vec::new();
    for stream in &plan.streams {
        places.push(match stream.group {
            Some(group) => groups.place(ports, group)?,
            None => None,
        });
    }
    let begin = StartOptions {
        factor,
        at_most: (duration > 0.0)
            .then(|| Duration::from_secs_f64(duration.min(crate::limits::LONGEST_US / 1e6))),
        at_ns,
    };
    let before = ports[at].state();
    let port = &mut ports[at];
    let run = Run::start(port.wire.as_ref(), name, plan, setting, places, begin)?;
    if let Some(profile) = port.profiles.get_mut(name) {
        profile.run = Some(run);
    }
    model.send_profile_events(Event::ProfileStarted, Event::Started, at, name, before);
    Ok(json!({"multiplier": factor, "ts": model.began.elapsed().as_secs_f64()}))
}

/// Rounds of a capture file: the low bits of `count`; two other bits select the addresses that are
/// kept.
const ROUNDS: u64 = (1 << 30) - 1;
const OWN_SOURCE: u64 = 1 << 31;
const OWN_DESTINATION: u64 = 1 << 30;

/// Sends a capture file of this machine.
pub fn push_remote(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let path = params.text("pcap_filename")?;
    let count = params.number("count")?;
    let is_dual = match params.some("is_dual") {
        Some(_) => params.boolean("is_dual")?,
        None => false,
    };
    let real = |name: &str, default: f64| match params.some(name) {
        Some(_) => params.real(name),
        None => Ok(default),
    };
    let (gap_us, speed) = (real("ipg_usec", -1.0)?, real("speedup", 1.0)?);
    let (duration, least_us) = (real("duration", -1.0)?, real("min_ipg_usec", 0.0)?);
    let longest = crate::limits::LONGEST_US;
    if !(speed > 0.0 && gap_us <= longest && (0.0..=longest).contains(&least_us)) {
        return Err(Fault::params(
            "'speedup' must be above 0, and gaps between frames no longer than 30 days",
        ));
    }
    model.owned(params)?;
    let at = model.number(params)?;
    if is_dual {
        return Err(Fault::execute(
            "fwdlab sends a capture file into one port; is_dual is for ERF files, which it does not read",
        ));
    }
    let port = &mut model.ports[at];
    if ["TX", "PAUSE", "PCAP_TX"].contains(&port.state()) {
        return Err(Fault::execute(format!(
            "port {at} sends already; stop it first"
        )));
    }
    let destination = port.layers.destination.or(port.wire.peer());
    let how = PcapChanges {
        source: (count & OWN_SOURCE == 0).then(|| port.wire.mac()),
        destination: destination.filter(|_| count & OWN_DESTINATION == 0),
        gap_us: Some(gap_us).filter(|gap| *gap >= 0.0),
        speed,
        least_us,
    };
    let recording = Recorded::open(Path::new(path), how).map_err(Fault::execute)?;
    let rounds = match count & ROUNDS {
        0 => u64::MAX,
        rounds => rounds,
    };
    let schedule = Schedule {
        load: LoadPlan::FlatOut,
        frames: None,
        at_most: match duration > 0.0 {
            true => Duration::from_secs_f64(duration.min(longest / 1e6)),
            false => FOR_EVER,
        },
        stall_policy: StallPolicy::CatchUp { most_pps: None },
        path: 0,
    };
    let playing = port.wire.play(recording, rounds, schedule);
    port.playing = Some(playing.map_err(|error| Fault::execute(error.to_string()))?);
    model.events.send(Event::Started, &json!({"port_id": at}));
    Ok(json!({}))
}

pub fn stop(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    model.owned(params)?;
    let at = model.number(params)?;
    model.stop_playing(at, Event::Stopped)?;
    for name in names(model, at, profile(params)?) {
        model.stop(at, &name, [Event::ProfileStopped, Event::Stopped])?;
    }
    Ok(json!({}))
}

pub fn pause(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    model.owned(params)?;
    let at = model.number(params)?;
    for name in names(model, at, profile(params)?) {
        let before = model.ports[at].state();
        let run = running(model, at, &name)?;
        if run.is_paused {
            return Err(Fault::execute(format!(
                "profile '{name}' is paused already"
            )));
        }
        may_pause(run)?;
        run.pause()?;
        model.send_profile_events(Event::ProfilePaused, Event::Paused, at, &name, before);
    }
    Ok(json!({}))
}

/// A run that ends by itself cannot be paused, nor can its streams.
fn may_pause(run: &Run) -> Result<(), Fault> {
    match run.is_endless() {
        true => Ok(()),
        false => Err(Fault::execute(
            "only continuous streams that were started without a duration can be paused",
        )),
    }
}

pub fn resume(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    model.owned(params)?;
    let at = model.number(params)?;
    for name in names(model, at, profile(params)?) {
        let before = model.ports[at].state();
        let port = &mut model.ports[at];
        let run = port.profiles.get_mut(&name).and_then(|p| p.run.as_mut());
        let Some(run) = run.filter(|run| run.is_paused) else {
            return Err(Fault::execute(format!("profile '{name}' is not paused")));
        };
        run.resume(port.wire.as_ref())?;
        model.send_profile_events(Event::ProfileResumed, Event::Resumed, at, &name, before);
    }
    Ok(json!({}))
}

pub fn update(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let mul = Multiplier::parse(params)?;
    let force = force(params)?;
    model.owned(params)?;
    let at = model.number(params)?;
    let mut factor = 1.0;
    for name in names(model, at, profile(params)?) {
        let speed_bps = model.ports[at].wire.speed_bps();
        let run = running(model, at, &name)?;
        factor = mul.checked(&run.plan.base, speed_bps, Some(run.factor), force)?;
        let port = &mut model.ports[at];
        if let Some(run) = port.profiles.get_mut(&name).and_then(|p| p.run.as_mut()) {
            run.set_factor(port.wire.as_ref(), factor)?;
        }
    }
    Ok(json!({"multiplier": factor}))
}

pub fn pause_streams(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let name = one_profile(params)?;
    model.owned(params)?;
    let at = model.number(params)?;
    may_pause(running(model, at, name)?)?;
    set_own(model, params, |_, _| Ok(Some(0.0)))?;
    Ok(json!({}))
}

pub fn resume_streams(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    set_own(model, params, |_, _| Ok(None))?;
    Ok(json!({}))
}

pub fn update_streams(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let mul = Multiplier::parse(params)?;
    if !mul.is_absolute() {
        return Err(Fault::params(
            "streams are updated with the op 'abs' of 'mul'",
        ));
    }
    let force = force(params)?;
    let factor = set_own(model, params, |plan, speed_bps| {
        mul.checked(&plan.base, speed_bps, None, force).map(Some)
    })?;
    Ok(json!({"multiplier": factor.unwrap_or(1.0)}))
}

/// Sets separate multipliers for some streams.
fn set_own(
    model: &mut Model,
    params: &Params<'_>,
    own: impl Fn(&Plan, u64) -> Result<Option<f64>, Fault>,
) -> Result<Option<f64>, Fault> {
    let name = one_profile(params)?;
    let wrong = || Fault::params("field 'stream_ids' must be an array of numbers of streams");
    let ids = params.get("stream_ids")?.as_array().ok_or_else(wrong)?;
    let ids: Option<Vec<u64>> = ids.iter().map(Value::as_u64).collect();
    let ids = ids.filter(|ids| !ids.is_empty()).ok_or_else(wrong)?;
    model.owned(params)?;
    let at = model.number(params)?;
    let port = &mut model.ports[at];
    let speed_bps = port.wire.speed_bps();
    let run = port.profiles.get_mut(name).and_then(|p| p.run.as_mut());
    let run = run.ok_or_else(|| Fault::execute(format!("profile '{name}' does not send")))?;
    let place = |id: &u64| {
        let found = run
            .plan
            .ids
            .iter()
            .position(|known| u64::from(*known) == *id);
        found.ok_or_else(|| Fault::execute(format!("stream {id} does not send")))
    };
    let streams = ids.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    // the load refers to these streams
    let chosen: Vec<&Stream> = streams.iter().map(|&at| &run.plan.streams[at]).collect();
    let pps: Vec<f64> = streams.iter().map(|&at| run.plan.pps[at]).collect();
    let none = vec![None; chosen.len()];
    let part = Plan {
        ids: Vec::new(),
        base: crate::load::Base::new(&chosen, &pps, &none),
        streams: Vec::new(),
        next: Vec::new(),
        pps: Vec::new(),
    };
    let own = own(&part, speed_bps)?;
    run.set_own(port.wire.as_ref(), &streams, own)?;
    Ok(own)
}

pub fn validate(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let name = one_profile(params)?;
    let port = model.owned(params)?;
    let speed_bps = port.wire.speed_bps();
    let streams = port.profiles.get(name).map(|p| p.understood());
    let plan = Plan::new(&streams.unwrap_or_default(), speed_bps)?;
    let (most, least) = (plan.base.times(1.0), plan.base.fixed);
    let streams: Vec<&Stream> = plan.streams.iter().collect();
    let progress = StreamTimes::new(&streams, &plan.pps, &plan.next);
    let share = |bps: f64| match speed_bps {
        0 => 0.0,
        speed => bps / speed as f64 * 100.0,
    };
    let events = progress.event_list(&plan.ids);
    Ok(json!({
        "rate": {
            "max_bps_l2": most.layer_2, "max_bps_l1": most.layer_1, "max_pps": most.pps,
            "max_line_util": share(most.layer_1),
            "min_bps_l2": least.layer_2, "min_bps_l1": least.layer_1, "min_pps": least.pps,
            "min_line_util": share(least.layer_1),
        },
        "graph": {
            "expected_duration": progress.lasts_us().unwrap_or(-1.0),
            "events_count": events.len(),
            "events": events,
        },
    }))
}

fn force(params: &Params<'_>) -> Result<bool, Fault> {
    match params.some("force") {
        Some(_) => params.boolean("force"),
        None => Ok(false),
    }
}

/// Returns the profiles of a call.
fn names(model: &Model, at: usize, name: &str) -> Vec<String> {
    if name != ALL {
        return vec![name.to_owned()];
    }
    let profiles = model.ports[at].profiles.iter();
    let running = profiles.filter(|(_, profile)| profile.run.is_some());
    running.map(|(name, _)| name.clone()).collect()
}

fn running<'a>(model: &'a mut Model, at: usize, name: &str) -> Result<&'a mut Run, Fault> {
    let profile = model.ports[at].profiles.get_mut(name);
    let run = profile.and_then(|profile| profile.run.as_mut());
    run.ok_or_else(|| Fault::execute(format!("profile '{name}' does not send")))
}
