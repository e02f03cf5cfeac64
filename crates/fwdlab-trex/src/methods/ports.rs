//! Calls about ports: who owns them, how they are, what they are set to.

use serde_json::{Map, Value, json};

use crate::events::Event;
use crate::model::{ALL, Model, Service};
use crate::rpc::{Fault, Params};

pub fn acquire(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let at = model.number(params)?;
    let user = params.text("user")?;
    let session = params.number32("session_id")?;
    let force = match params.some("force") {
        Some(_) => params.truth("force")?,
        None => false,
    };
    // clients want the handler alone, not in an object
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
    let destination = port.layers.destination.or(port.wire.peer());
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
            "rx_filter_mode": "hw",
            "vxlan_fs": [],
            "fc": {"mode": 0},
            "layer_cfg": {
                "ether": {
                    "src": mac(source),
                    "dst": mac(destination.unwrap_or_default()),
                    "state": if destination.is_some() { "configured" } else { "unconfigured" },
                },
                "ipv4": {"state": "none"},
                "ipv6": {"enabled": false},
            },
            "vlan": {"tags": port.layers.vlan},
        },
        "rx_info": {
            "queue": inactive, "grat_arp": inactive, "latency": inactive,
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
    let at = model.number(params)?;
    let wanted = params.object("attr")?;
    let mut attributes = model.ports[at].attributes;
    for name in wanted.0.keys() {
        let value = wanted.object(name)?;
        match name.as_str() {
            "promiscuous" => attributes.promiscuous = value.truth("enabled")?,
            "multicast" => attributes.multicast = value.truth("enabled")?,
            _ => {
                let shown: String = name.chars().take(60).collect();
                return Err(Fault::execute(format!(
                    "fwdlab does not set '{shown}' of a port; ip link and ethtool do"
                )));
            }
        }
    }
    model.ports[at].attributes = attributes;
    let attr = json!({
        "promiscuous": {"enabled": attributes.promiscuous},
        "multicast": {"enabled": attributes.multicast},
    });
    model
        .events
        .tell(Event::Attributes, &json!({"port_id": at, "attr": attr}));
    Ok(json!({}))
}

pub fn service(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let on = params.truth("enabled")?;
    let filtered = match params.some("filtered") {
        Some(_) => params.truth("filtered")?,
        None => false,
    };
    model.owned(params)?.service = Service {
        on: on && !filtered,
        filtered,
    };
    Ok(json!({}))
}

pub fn set_feature(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let kind = params.text("type")?;
    let on = params.truth("enabled")?;
    model.port(params)?;
    match (kind, on) {
        // it never is on
        ("queue", false) => Ok(json!({})),
        _ => Err(Fault::execute(format!(
            "fwdlab cannot switch the feature '{kind}' of a port on"
        ))),
    }
}

pub fn remove_filters(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    model.owned(params)?;
    Ok(json!({}))
}

pub fn set_destination(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let text = params.text("dst_mac")?;
    let address =
        address(text).ok_or_else(|| Fault::params(format!("'{text}' is no Ethernet address")))?;
    model.port(params)?.layers.destination = Some(address);
    Ok(json!({}))
}

pub fn set_vlan(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let wrong = || Fault::params("field 'vlan' must have none, one or two numbers from 1 to 4095");
    let tags = params.get("vlan")?.as_array().ok_or_else(wrong)?;
    let tag = |tag: &Value| {
        let tag = tag.as_u64().filter(|tag| (1..4096).contains(tag));
        tag.and_then(|tag| u16::try_from(tag).ok())
    };
    let tags: Option<Vec<u16>> = tags.iter().map(tag).collect();
    let tags = tags.filter(|tags| tags.len() <= 2).ok_or_else(wrong)?;
    model.port(params)?.layers.vlan = tags;
    Ok(json!({}))
}

/// There are no captures yet; clients ask for their list when they take a port.
pub fn capture(_: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    match params.text("command")? {
        "status" => Ok(json!([])),
        "start" | "fetch" | "stop" | "remove" => {
            Err(Fault::execute("fwdlab cannot capture for TRex clients yet"))
        }
        other => Err(Fault::params(format!(
            "there is no command '{other}' of capture"
        ))),
    }
}

/// As TRex writes it.
pub fn mac(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

fn address(text: &str) -> Option<[u8; 6]> {
    let mut address = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut address {
        let part = parts.next().filter(|part| (1..=2).contains(&part.len()))?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(address)
}
