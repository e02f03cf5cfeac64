//! Calls about ports: owners, status, attributes.

use serde_json::{Map, Value, json};

use super::addresses;
use crate::capture;
use crate::events::Event;
use crate::model::{ALL, Model, Service};
use crate::rpc::{Fault, Params};

pub fn acquire(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let at = model.number(params)?;
    let user = params.text("user")?;
    let session = params.number32("session_id")?;
    let force = match params.some("force") {
        Some(_) => params.boolean("force")?,
        None => false,
    };
    // clients expect only the handler, not an object
    model.acquire(at, user, session, force).map(Value::String)
}

pub fn release(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    model.owned(params)?;
    let at = model.number(params)?;
    model.release(at);
    Ok(json!({}))
}

pub fn owner(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let owner = &model.port(params)?.owner;
    Ok(json!({"owner": owner.as_ref().map_or("", |owner| &owner.user)}))
}

pub fn status(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let profile = match params.some("profile_id") {
        Some(_) => Some(params.text("profile_id")?),
        None => None,
    };
    let port = model.port(params)?;
    let inactive = json!({"is_active": false});
    let (source, attributes) = (port.wire.mac(), port.attributes);
    let layers = addresses::status(source, port.destination(), &port.layers);
    let queue = port.queue.as_ref().map(|queue| capture::open(queue));
    let queue = queue.map_or(inactive.clone(), |queue| {
        json!({
            "is_active": true, "size": queue.wanted.limit, "count": queue.frames.len(),
        })
    });
    let mut status = json!({
        "owner": port.owner.as_ref().map_or("", |owner| &owner.user),
        "state": port.state(),
        "service": port.service.on,
        "service_filtered": port.service.filtered,
        "profile_count": port.profiles.len(),
        "max_stream_id": port.profiles.values()
            .filter_map(|profile| profile.streams.keys().next_back())
            .max().copied().unwrap_or(0),
        "attr": {
            "promiscuous": {"enabled": attributes.promiscuous},
            "multicast": {"enabled": attributes.multicast},
            "link": {"up": port.wire.is_up()},
            "speed": port.wire.speed_bps() as f64 / 1e9,
            "rx_filter_mode": if port.service.on { "all" } else { "hw" },
            "vxlan_fs": [],
            "fc": {"mode": 0},
            "layer_cfg": layers,
            "vlan": {"tags": port.layers.vlan},
        },
        "rx_info": {
            "queue": queue, "grat_arp": inactive, "latency": inactive,
            "stack": {"is_active": true}, "capture_port": inactive, "capwap_proxy": inactive,
        },
    });
    status["state_profile"] = match profile {
        Some(ALL) => {
            let states = port.profiles.iter();
            let states: Map<String, Value> = states
                .map(|(name, profile)| (name.clone(), profile.state().into()))
                .collect();
            states.into()
        }
        Some(name) => port
            .profiles
            .get(name)
            .map_or("IDLE", |profile| profile.state())
            .into(),
        None => return Ok(status),
    };
    Ok(status)
}

pub fn set_attributes(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    model.owned(params)?;
    let at = model.number(params)?;
    let requested = params.object("attr")?;
    let mut attributes = model.ports[at].attributes;
    for name in requested.0.keys() {
        let value = requested.object(name)?;
        match name.as_str() {
            "promiscuous" => attributes.promiscuous = value.boolean("enabled")?,
            "multicast" => attributes.multicast = value.boolean("enabled")?,
            _ => {
                let shown: String = name.chars().take(60).collect();
                return Err(Fault::execute(format!(
                    "fwdlab does not set '{shown}' of a port; it sets promiscuous and multicast, and ip link and ethtool the rest"
                )));
            }
        }
    }
    let wire = &mut model.ports[at].wire;
    wire.set_accepted(attributes.promiscuous, attributes.multicast)
        .map_err(Fault::execute)?;
    model.ports[at].attributes = attributes;
    let attr = json!({
        "promiscuous": {"enabled": attributes.promiscuous},
        "multicast": {"enabled": attributes.multicast},
    });
    model
        .events
        .send(Event::Attributes, &json!({"port_id": at, "attr": attr}));
    Ok(json!({}))
}

pub fn service(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let on = params.boolean("enabled")?;
    let filtered = match params.some("filtered") {
        Some(_) => params.boolean("filtered")?,
        None => false,
    };
    if params.some("mask").is_some() {
        // with a filter TRex passes some protocols; here all are passed
        params.number("mask")?;
    }
    let port = model.owned(params)?;
    if !on && !filtered && port.ears.is_used() {
        return Err(Fault::execute(
            "the port has an active capture or queue; stop it before service mode is left",
        ));
    }
    port.service = Service {
        on: on && !filtered,
        filtered,
    };
    port.deliver()?;
    Ok(json!({}))
}

pub fn remove_filters(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    model.owned(params)?;
    Ok(json!({}))
}
