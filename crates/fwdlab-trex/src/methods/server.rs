//! Calls about the server: versions, properties, sessions and their events.

use fwdlab_engine::groups::COUNTED;
use serde_json::{Value, json};

use super::addresses::mac;
use crate::model::Model;
use crate::rpc::{Fault, Params};

/// The interface version of TRex 3.04.
const MAJOR: u64 = 5;
const MINOR: u64 = 1;

pub fn no_op(_: &mut Model, _: &Params<'_>) -> Result<Value, Fault> {
    Ok(json!({}))
}

pub fn api_sync_v2(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let name = params.text("name")?;
    if name != "STL" {
        return Err(Fault::execute(format!(
            "the client requests the API '{name}'; this server has only STL (stateless)"
        )));
    }
    check_version(params)?;
    Ok(json!({"api_h": model.handle}))
}

/// The older form of the call, which `pytrex` uses.
pub fn api_sync(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let wrong = || Fault::params("field 'api_vers' must be an array of one object");
    let versions = params.get("api_vers")?.as_array().ok_or_else(wrong)?;
    let [Value::Object(version)] = &versions[..] else {
        return Err(wrong());
    };
    let version = Params(version);
    let kind = version.text("type")?;
    if kind != "core" {
        return Err(Fault::execute(format!(
            "the client requests the API '{kind}'; this server has only core"
        )));
    }
    check_version(&version)?;
    Ok(json!({"api_vers": [{"type": "core", "api_h": model.handle}]}))
}

fn check_version(params: &Params<'_>) -> Result<(), Fault> {
    let (major, minor) = (params.number("major")?, params.number("minor")?);
    match major == MAJOR && minor <= MINOR {
        true => Ok(()),
        false => Err(Fault::execute(format!(
            "the client has version {major}.{minor} of the API, this server {MAJOR}.{MINOR}"
        ))),
    }
}

pub fn ping(model: &mut Model, _: &Params<'_>) -> Result<Value, Fault> {
    Ok(json!({"ts": model.began.elapsed().as_secs_f64()}))
}

pub fn version(_: &mut Model, _: &Params<'_>) -> Result<Value, Fault> {
    // clients compare the version with their own; `built_by` identifies us
    Ok(json!({
        "version": "v3.04",
        "build_date": "-",
        "build_time": "-",
        "built_by": concat!("fwdlab ", env!("CARGO_PKG_VERSION")),
        "mode": "STL",
    }))
}

pub fn system(model: &mut Model, _: &Params<'_>) -> Result<Value, Fault> {
    let groups = model
        .ports
        .iter_mut()
        .map(|port| port.wire.groups().is_some());
    let can_group: Vec<bool> = groups.collect();
    let ports: Vec<Value> = (model.ports.iter().enumerate())
        .map(|(at, port)| {
            let wire = &port.wire;
            let kind = wire.kind();
            json!({
                "index": at,
                "driver": kind.unwrap_or("kernel"),
                "description": wire.name(),
                "pci_addr": wire.name(),
                "numa": 0,
                "hw_mac": mac(wire.mac()),
                "stack": "legacy",
                "rx": {
                    "caps": if can_group[at] { &["flow_stats", "latency", "rx_bytes"][..] } else { &[] },
                    "counters": if can_group[at] { COUNTED } else { 0 },
                },
                "is_prom_supported": true,
                "is_link_supported": false,
                "is_fc_supported": false,
                "is_led_supported": false,
                "is_vxlan_supported": false,
                "is_ieee1588_supported": false,
                "is_virtual": kind.is_some(),
                "supp_speeds": [wire.speed_bps() / 1_000_000],
                "cores": [at],
            })
        })
        .collect();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Ok(json!({
        "hostname": host.trim(),
        "uptime": format!("{} seconds", model.began.elapsed().as_secs()),
        "dp_core_count": ports.len(),
        "dp_core_count_per_port": 1,
        "core_type": "fwdlab",
        "is_multiqueue_mode": false,
        "advanced_per_stream_stats": false,
        "port_count": ports.len(),
        "ports": ports,
    }))
}

/// There are no tagged groups here, but clients query them before they acquire a port.
pub fn tagged_groups(_: &mut Model, _: &Params<'_>) -> Result<Value, Fault> {
    Ok(json!({
        "enabled": false,
        "data": {
            "acquired_ports": [], "rx_ports": [], "username": "-", "num_tpgids": 0, "num_tags": 0,
        },
    }))
}

pub fn publish(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let key = params.number32("key")?;
    // a client that waits for it (pytrex) must get it before the following wake-up
    let barrier = json!({"name": "trex-barrier", "type": key, "data": {}});
    model.to_publish.push(barrier.to_string().into_bytes());
    model.to_publish.push(b"{}".to_vec());
    Ok(json!({}))
}

pub fn events(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let session = params.number32("session_id")?;
    Ok(json!({"data": model.events.take(session)}))
}
