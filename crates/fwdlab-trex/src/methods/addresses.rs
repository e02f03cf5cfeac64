//! Calls about the addresses of a port: Ethernet, VLANs, IPv4 and IPv6. Clients resolve IPv4
//! themselves, with a capture and pushed packets, and then set the result.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use crate::model::{Ipv4, Layers, Model, TrexPort};
use crate::rpc::{Fault, Params};

/// Returns the port, if its addresses may change now.
fn quiet<'a>(model: &'a mut Model, params: &Params<'_>) -> Result<&'a mut TrexPort, Fault> {
    let port = model.owned(params)?;
    match port.state() {
        "IDLE" | "STREAMS" => Ok(port),
        state => Err(Fault::execute(format!(
            "the port is in state {state}; its addresses can be set when it is IDLE or has STREAMS"
        ))),
    }
}

pub fn set_l2(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let address = mac_of(params, "dst_mac")?;
    let layers = &mut quiet(model, params)?.layers;
    layers.destination = Some(address);
    layers.ipv4 = None;
    Ok(json!({}))
}

pub fn set_l3(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let address = |name| -> Result<Ipv4Addr, Fault> {
        let text = params.text(name)?;
        text.parse()
            .map_err(|_| Fault::params(format!("field '{name}': '{text}' is not an IPv4 address")))
    };
    let ipv4 = Ipv4 {
        source: address("src_addr")?,
        destination: address("dst_addr")?,
    };
    let resolved = match params.some("resolved_mac") {
        Some(_) => Some(mac_of(params, "resolved_mac")?),
        None => None,
    };
    let layers = &mut quiet(model, params)?.layers;
    layers.destination = resolved;
    layers.ipv4 = Some(ipv4);
    Ok(json!({}))
}

pub fn set_ipv6(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let on = params.boolean("enabled")?;
    let text = match params.some("src_ipv6") {
        Some(_) => params.text("src_ipv6")?,
        None => "",
    };
    let address: Option<Ipv6Addr> = match text {
        "" => None,
        text => Some(text.parse().map_err(|_| {
            Fault::params(format!("field 'src_ipv6': '{text}' is not an IPv6 address"))
        })?),
    };
    quiet(model, params)?.layers.ipv6 = on.then_some(address);
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
    quiet(model, params)?.layers.vlan = tags;
    Ok(json!({}))
}

/// Returns the addresses for the status of a port.
pub fn status(source: [u8; 6], destination: Option<[u8; 6]>, layers: &Layers) -> Value {
    let ipv4 = match &layers.ipv4 {
        None => json!({"state": "none"}),
        Some(ipv4) => json!({
            "state": if layers.destination.is_some() { "resolved" } else { "unresolved" },
            "src": ipv4.source.to_string(),
            "dst": ipv4.destination.to_string(),
        }),
    };
    let ipv6 = match layers.ipv6 {
        None => json!({"enabled": false}),
        Some(address) => json!({
            "enabled": true,
            "src": address.map(|address| address.to_string()).unwrap_or_default(),
        }),
    };
    json!({
        "ether": {
            "src": mac(source),
            "dst": mac(destination.unwrap_or_default()),
            "state": if destination.is_some() { "configured" } else { "unconfigured" },
        },
        "ipv4": ipv4,
        "ipv6": ipv6,
    })
}

/// Formats an address like TRex.
pub fn mac(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

fn mac_of(params: &Params<'_>, name: &str) -> Result<[u8; 6], Fault> {
    let text = params.text(name)?;
    address(text).ok_or_else(|| {
        Fault::params(format!(
            "field '{name}': '{text}' is not an Ethernet address"
        ))
    })
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
