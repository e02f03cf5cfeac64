//! Calls about streams: they are stored as sent, and returned in the same form.

use serde_json::{Map, Value, json};

use crate::limits;
use crate::model::{ALL, Loaded, Model, PROFILE, Profile, TrexPort};
use crate::rpc::{Fault, Params};
use crate::stream::Stream;

/// Returns the profile of a call.
pub fn profile<'a>(params: &Params<'a>) -> Result<&'a str, Fault> {
    match params.some("profile_id") {
        Some(_) => params.text("profile_id"),
        None => Ok(PROFILE),
    }
}

/// Returns the profile of a call that needs a single one.
pub fn one_profile<'a>(params: &Params<'a>) -> Result<&'a str, Fault> {
    match profile(params)? {
        ALL => Err(Fault::params("field 'profile_id' must name one profile")),
        name => Ok(name),
    }
}

pub fn add(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let name = one_profile(params)?;
    let id = params.number32("stream_id")?;
    let stream = params.get("stream")?;
    if !stream.is_object() {
        return Err(Fault::params("field 'stream' must be an object"));
    }
    let bytes = stream.to_string().len();
    let port = model.owned(params)?;
    check_not_sending(port, name)?;
    let understood = Stream::parse(stream)?;
    let all = || port.profiles.values();
    let streams: usize = all().map(|profile| profile.streams.len()).sum();
    let size: usize = all().map(|profile| profile.bytes).sum();
    if streams >= limits::STREAMS || size + bytes > limits::STREAM_BYTES {
        return Err(Fault::execute(format!(
            "the port has {streams} streams of {size} bytes; it takes {} of {} bytes",
            limits::STREAMS,
            limits::STREAM_BYTES
        )));
    }
    if !port.profiles.contains_key(name) && port.profiles.len() >= limits::PROFILES {
        return Err(Fault::execute(format!(
            "the port has {} profiles, and takes no more",
            limits::PROFILES
        )));
    }
    let is_there = |profile: &Profile| profile.streams.contains_key(&id);
    if port.profiles.get(name).is_some_and(is_there) {
        return Err(Fault::execute(format!(
            "stream {id} exists already; remove it first"
        )));
    }
    if let Some(group) = understood.group {
        let member = (model.number(params)?, name.to_owned(), id);
        model.groups.join(&mut model.ports, group, member)?;
    }
    let port = model.port(params)?;
    let profile = port.profiles.entry(name.to_owned()).or_default();
    let loaded = Loaded {
        said: stream.clone(),
        stream: understood,
    };
    profile.streams.insert(id, loaded);
    profile.bytes += bytes;
    Ok(json!({}))
}

pub fn remove(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let name = one_profile(params)?;
    let id = params.number32("stream_id")?;
    let port = model.owned(params)?;
    check_not_sending(port, name)?;
    let removed = port.profiles.get_mut(name).and_then(|profile| {
        let loaded = profile.streams.remove(&id)?;
        profile.bytes -= loaded.said.to_string().len();
        Some(loaded)
    });
    let Some(removed) = removed else {
        return Err(Fault::execute(format!("there is no stream {id}")));
    };
    forget_empty(port);
    let at = model.number(params)?;
    if let Some(group) = removed.stream.group {
        let member = (at, name.to_owned(), id);
        model.groups.leave(&mut model.ports, group.id, &member);
    }
    Ok(json!({}))
}

pub fn remove_all(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let name = profile(params)?;
    let port = model.owned(params)?;
    let meant = |known: &String| name == ALL || name == known;
    let names: Vec<String> = port.profiles.keys().filter(|n| meant(n)).cloned().collect();
    for name in &names {
        check_not_sending(port, name)?;
    }
    let at = model.number(params)?;
    for name in names {
        let profile = model.ports[at].profiles.get_mut(&name).map(std::mem::take);
        for (id, loaded) in profile.unwrap_or_default().streams {
            if let Some(group) = loaded.stream.group {
                let member = (at, name.clone(), id);
                model.groups.leave(&mut model.ports, group.id, &member);
            }
        }
    }
    forget_empty(&mut model.ports[at]);
    Ok(json!({}))
}

/// Streams of a sending profile cannot be changed.
fn check_not_sending(port: &TrexPort, name: &str) -> Result<(), Fault> {
    match port.profiles.get(name).and_then(|p| p.run.as_ref()) {
        None => Ok(()),
        Some(_) => Err(Fault::execute(format!(
            "profile '{name}' sends; stop it before its streams are changed"
        ))),
    }
}

/// Removes an empty profile, except the default one.
fn forget_empty(port: &mut TrexPort) {
    (port.profiles).retain(|name, profile| name == PROFILE || !profile.streams.is_empty());
}

pub fn all(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let name = profile(params)?;
    let port = model.port(params)?;
    let of = |profile: &Profile| -> Map<String, Value> {
        let streams = profile.streams.iter();
        streams
            .map(|(id, loaded)| (id.to_string(), loaded.said.clone()))
            .collect()
    };
    if name == ALL {
        let profiles = port.profiles.iter();
        let profiles: Map<String, Value> = profiles
            .filter(|(_, profile)| !profile.streams.is_empty())
            .map(|(name, profile)| (name.clone(), of(profile).into()))
            .collect();
        return Ok(json!({"profiles": profiles}));
    }
    let streams = port.profiles.get(name).map(of).unwrap_or_default();
    Ok(json!({"streams": streams}))
}

pub fn list(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let name = profile(params)?;
    let port = model.port(params)?;
    let of = |profile: &Profile| -> Value { profile.streams.keys().copied().collect() };
    if name == ALL {
        let profiles = port.profiles.iter();
        let profiles: Map<String, Value> = profiles
            .map(|(name, profile)| (name.clone(), of(profile)))
            .collect();
        return Ok(profiles.into());
    }
    Ok(port.profiles.get(name).map_or_else(|| json!([]), of))
}

pub fn one(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let name = one_profile(params)?;
    let id = params.number32("stream_id")?;
    let with_frame = match params.some("get_pkt") {
        Some(_) => params.boolean("get_pkt")?,
        None => false,
    };
    let port = model.port(params)?;
    let stream = port
        .profiles
        .get(name)
        .and_then(|profile| profile.streams.get(&id))
        .ok_or_else(|| Fault::execute(format!("there is no stream {id}")))?;
    let mut stream = stream.said.clone();
    if let (false, Some(fields)) = (with_frame, stream.as_object_mut()) {
        fields.remove("packet");
    }
    Ok(json!({"stream": stream}))
}

pub fn profiles(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let port = model.port(params)?;
    Ok(port.profiles.keys().map(String::as_str).collect())
}
