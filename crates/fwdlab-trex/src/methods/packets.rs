//! Calls about single packets: pushing packets out of a port, captures, and the queue of a port.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fwdlab_packet::bpf::Program;
use serde_json::{Value, json};

use crate::capture::{self, CaptureFilter, Kept, Mode, open};
use crate::expression;
use crate::limits;
use crate::model::{Model, TrexPort};
use crate::rpc::{Fault, Params, short};

/// Valid lengths of a frame without FCS: at least an Ethernet header, and at most TRex's largest.
const LENGTHS: std::ops::RangeInclusive<usize> = 14..=9238;

/// Maximum duration of one push.
const LONGEST_PUSH: Duration = Duration::from_secs(1);

pub fn push(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let at = model.number(params)?;
    let gap = match params.some("ipg_usec") {
        Some(_) => Duration::from_secs_f64(params.time("ipg_usec")? / 1e6),
        None => Duration::ZERO,
    };
    if params.some("force").is_some() {
        params.boolean("force")?;
    }
    let wrong = || Fault::params("field 'pkts' must be an array of objects");
    let all = params.get("pkts")?.as_array().ok_or_else(wrong)?;
    if gap.as_secs_f64() * all.len() as f64 > LONGEST_PUSH.as_secs_f64() {
        return Err(Fault::execute(format!(
            "{} packets, one every {} us, take more than {} s; push them in parts",
            all.len(),
            gap.as_micros(),
            LONGEST_PUSH.as_secs()
        )));
    }
    // as in TRex, a port that sends accepts them, too, regardless of `force`
    let port = &model.ports[at];
    let (source, destination) = (port.wire.mac(), port.destination());
    let mut frames = Vec::new();
    for (number, one) in all.iter().enumerate() {
        let one = Params(one.as_object().ok_or_else(wrong)?);
        let text = one.get("binary")?.as_str();
        let frame = text.and_then(|text| BASE64_STANDARD.decode(text).ok());
        let mut frame =
            frame.ok_or_else(|| Fault::params(format!("packet {number} is not base64")))?;
        if !LENGTHS.contains(&frame.len()) {
            return Err(Fault::params(format!(
                "packet {number} has {} bytes; it may have {} to {}",
                frame.len(),
                LENGTHS.start(),
                LENGTHS.end()
            )));
        }
        if flag(&one, "use_port_dst_mac")? {
            frame[..6].copy_from_slice(&destination.unwrap_or_default());
        }
        if flag(&one, "use_port_src_mac")? {
            frame[6..12].copy_from_slice(&source);
        }
        frames.push(frame);
    }
    let count = frames.len();
    // taken before they leave: clients compute the time of an answer from it
    let at_s = model.began.elapsed().as_secs_f64();
    if count > 0 {
        let pushed = model.ports[at].wire.push(frames, gap);
        pushed.map_err(Fault::execute)?;
    }
    Ok(json!({"sent": count, "ts": at_s}))
}

fn flag(params: &Params<'_>, name: &str) -> Result<bool, Fault> {
    match params.some(name) {
        Some(_) => params.boolean(name),
        None => Ok(false),
    }
}

pub fn capture(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    match params.text("command")? {
        "start" => start(model, params),
        "status" => Ok(status(model)),
        "fetch" => fetch(model, params),
        "stop" => stop(model, params),
        "remove" => remove(model, params),
        other => Err(Fault::params(format!(
            "there is no command '{}' of capture",
            short(other)
        ))),
    }
}

fn start(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let (sent, received) = (ports(model, params, "tx")?, ports(model, params, "rx")?);
    if sent.is_empty() && received.is_empty() {
        return Err(Fault::params("a capture needs a port: 'tx' or 'rx'"));
    }
    if let Some(text) = params.some("endpoint").and_then(Value::as_str)
        && !text.is_empty()
    {
        return Err(Fault::execute(
            "fwdlab does not send captures to an endpoint; fetch them",
        ));
    }
    let limit = usize::try_from(params.number("limit")?).unwrap_or(usize::MAX);
    if !(1..=limits::CAPTURE_FRAMES).contains(&limit) {
        return Err(Fault::params(format!(
            "field 'limit' is {limit}; a capture keeps 1 to {} packets",
            limits::CAPTURE_FRAMES
        )));
    }
    let mode = match params.text("mode")? {
        "fixed" => Mode::Fixed,
        "cyclic" => Mode::Cyclic,
        other => {
            return Err(Fault::params(format!(
                "field 'mode' must be fixed or cyclic, not '{}'",
                short(other)
            )));
        }
    };
    let words = words(params)?.unwrap_or_default().to_owned();
    let filter = model.filter(&words)?;
    let started = model.began;
    let mut ears: Vec<_> = (model.ports.iter_mut())
        .map(|port| (&*port.wire, &mut port.ears))
        .collect();
    let id = model.captures.start(
        CaptureFilter {
            filter,
            expression: words,
            mode,
            limit,
            snap: snap(params)?,
            sent,
            received,
        },
        &mut ears,
        started,
    )?;
    deliver(model)?;
    Ok(json!({"capture_id": id, "start_ts": started.elapsed().as_secs_f64()}))
}

/// Makes frames reach a capture.
fn deliver(model: &mut Model) -> Result<(), Fault> {
    model.ports.iter_mut().try_for_each(TrexPort::deliver)
}

/// Returns the expression of a request, if it starts a capture with one.
fn words<'a>(params: &Params<'a>) -> Result<Option<&'a str>, Fault> {
    match params.some("filter") {
        None => Ok(None),
        Some(Value::String(words)) if words.len() <= expression::LONGEST => Ok(Some(words)),
        Some(_) => Err(Fault::params(format!(
            "field 'filter' must be a string of at most {} bytes",
            expression::LONGEST
        ))),
    }
}

/// Returns the filter of a request, if it starts a capture with one: it is compiled before the
/// request takes its turn.
pub fn filter_of(request: &Value) -> Option<&str> {
    let params = request.get("params")?.as_object()?;
    if request.get("method")?.as_str()? != "capture" || params.get("command")?.as_str()? != "start"
    {
        return None;
    }
    words(&Params(params)).ok()?
}

/// Returns the program of an expression; an error in it is an invalid parameter.
pub fn compile(words: &str) -> Result<Program, Fault> {
    use expression::ExpressionError as E;
    expression::compile(words).map_err(|error| match error {
        E::TooLong(_) | E::Wrong(_) | E::Program(_) => {
            Fault::params(format!("filter '{}': {error}", short(words)))
        }
        E::Missing | E::TooSlow | E::System(_) => Fault::execute(error.to_string()),
    })
}

fn snap(params: &Params<'_>) -> Result<usize, Fault> {
    let output = match params.some("snaplen") {
        Some(_) => params.number("snaplen")?,
        None => 0,
    };
    // 0 means unlimited
    Ok(match usize::try_from(output) {
        Ok(0) | Err(_) => usize::MAX,
        Ok(output) => output,
    })
}

/// Returns numbers of ports, without duplicates.
fn ports(model: &Model, params: &Params<'_>, name: &str) -> Result<Vec<usize>, Fault> {
    let wrong = || Fault::params(format!("field '{name}' must be an array of ports"));
    let Some(list) = params.some(name) else {
        return Ok(Vec::new());
    };
    let mut ports = Vec::new();
    for port in list.as_array().ok_or_else(wrong)? {
        let at = port.as_u64().and_then(|at| usize::try_from(at).ok());
        let at = at.ok_or_else(wrong)?;
        if at >= model.ports.len() {
            return Err(Fault::execute(format!("there is no port {at}")));
        }
        if !ports.contains(&at) {
            ports.push(at);
        }
    }
    Ok(ports)
}

fn status(model: &Model) -> Value {
    let bits = |ports: &[usize]| -> u64 {
        let bit = |at: &usize| 1u64.checked_shl(*at as u32).unwrap_or(0);
        ports.iter().map(bit).sum()
    };
    let one = |(id, store): (&u32, &capture::Shared)| {
        let store = open(store);
        json!({
            "id": id,
            "state": if store.is_stopped { "STOPPED" } else { "ACTIVE" },
            "matched": store.matched,
            "fetched": store.fetched,
            "count": store.frames.len(),
            "bytes": store.bytes,
            "missed": store.missed(),
            "limit": store.wanted.limit,
            "mode": store.wanted.mode.name(),
            "filter": {
                "tx": bits(&store.wanted.sent),
                "rx": bits(&store.wanted.received),
                "bpf": store.wanted.expression,
            },
        })
    };
    model.captures.all.iter().map(one).collect()
}

fn fetch(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let most = usize::try_from(params.number("pkt_limit")?).unwrap_or(usize::MAX);
    let snap = snap(params)?;
    let store = model.captures.get(params.number("capture_id")?)?;
    let mut store = open(store);
    let mut frames = Vec::new();
    let mut bytes = 0;
    while frames.len() < most && bytes < limits::FETCH_BYTES {
        let Some(mut frame) = store.take() else {
            break;
        };
        frame.bytes.truncate(snap);
        bytes += frame.bytes.len();
        frames.push(frame_json(&frame));
    }
    store.fetched += frames.len() as u64;
    Ok(json!({
        "pending": store.frames.len(),
        "start_ts": store.began_s,
        "missed": store.missed(),
        "pkts": frames,
    }))
}

fn frame_json(frame: &Kept) -> Value {
    json!({
        "binary": BASE64_STANDARD.encode(&frame.bytes),
        "origin": if frame.outgoing { "TX" } else { "RX" },
        "port": frame.port,
        "ts": frame.at_ns as f64 / 1e9,
        "index": frame.index,
        "wirelen": frame.length,
    })
}

fn stop(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let store = model.captures.get(params.number("capture_id")?).cloned()?;
    capture::stop(&store, model.ports.iter_mut().map(|port| &mut port.ears));
    deliver(model)?;
    let store = open(&store);
    Ok(json!({"pkt_count": store.frames.len(), "endpoint": "", "missed": store.missed()}))
}

fn remove(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let id = params.number("capture_id")?;
    let store = model.captures.get(id).cloned()?;
    capture::stop(&store, model.ports.iter_mut().map(|port| &mut port.ears));
    deliver(model)?;
    model
        .captures
        .all
        .retain(|&known, _| u64::from(known) != id);
    Ok(json!({}))
}

pub fn set_feature(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let kind = params.text("type")?;
    let on = params.boolean("enabled")?;
    model.owned(params)?;
    let (at, started) = (model.number(params)?, model.began);
    let port = &mut model.ports[at];
    if kind != "queue" {
        return Err(Fault::execute(format!(
            "fwdlab has no feature '{}' of a port; it has the queue",
            short(kind)
        )));
    }
    if !on {
        if let Some(queue) = port.queue.take() {
            capture::stop(&queue, std::iter::once(&mut port.ears));
        }
        port.deliver()?;
        return Ok(json!({}));
    }
    let size = usize::try_from(params.number("size")?).unwrap_or(usize::MAX);
    if !(1..=limits::QUEUE_FRAMES).contains(&size) {
        return Err(Fault::params(format!(
            "field 'size' is {size}; a queue has 1 to {} packets",
            limits::QUEUE_FRAMES
        )));
    }
    if !port.service.on && !port.service.filtered {
        return Err(Fault::execute(
            "the port is not in service mode, which its queue needs",
        ));
    }
    let queue = capture::queue(at, size, &*port.wire, &mut port.ears, started)?;
    if let Some(before) = port.queue.replace(queue) {
        capture::stop(&before, std::iter::once(&mut port.ears));
    }
    Ok(json!({}))
}

pub fn queued(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let queue = &model.port(params)?.queue;
    let queue = queue.as_ref().ok_or_else(|| {
        Fault::execute("the port has no queue; switch the feature 'queue' on first")
    })?;
    let mut queue = open(queue);
    let mut frames = Vec::new();
    let mut bytes = 0;
    while bytes < limits::FETCH_BYTES {
        let Some(frame) = queue.take() else {
            break;
        };
        bytes += frame.bytes.len();
        frames.push(frame_json(&frame));
    }
    Ok(json!({"pkts": frames}))
}
