//! The calls of TRex's RPC, by name: one file for each kind. Start with [`call`].
//!
//! To support another call, add a function to the file of its kind, and its name to the table here.

mod addresses;
mod packets;
mod ports;
mod server;
mod statistics;
mod streams;
mod traffic;

pub use packets::{compile, filter_of};
use serde_json::Value;

use crate::model::Model;
use crate::rpc::{Fault, Params};

type Method = fn(&mut Model, &Params<'_>) -> Result<Value, Fault>;

/// All methods.
pub const METHODS: &[(&str, Method)] = &[
    ("acquire", ports::acquire),
    ("add_stream", streams::add),
    ("api_sync", server::api_sync),
    ("api_sync_v2", server::api_sync_v2),
    ("capture", packets::capture),
    ("conf_ipv6", addresses::set_ipv6),
    ("get_active_pgids", statistics::active_groups),
    ("get_all_streams", streams::all),
    ("get_async_events", server::events),
    ("get_global_cfg", server::no_op),
    ("get_global_stats", statistics::global),
    ("get_owner", ports::owner),
    ("get_pgid_stats", statistics::groups),
    ("get_port_stats", statistics::port),
    ("get_port_status", ports::status),
    ("get_port_xstats_names", statistics::detail_names),
    ("get_port_xstats_values", statistics::detail_values),
    ("get_profile_list", streams::profiles),
    ("get_rx_queue_pkts", packets::queued),
    ("get_stream", streams::one),
    ("get_stream_list", streams::list),
    ("get_supported_cmds", supported),
    ("get_system_info", server::system),
    ("get_tpg_status", server::tagged_groups),
    ("get_utilization", statistics::utilisation),
    ("get_version", server::version),
    ("pause_streams", traffic::pause_streams),
    ("pause_traffic", traffic::pause),
    ("ping", server::ping),
    ("publish_now", server::publish),
    ("push_pkts", packets::push),
    ("push_remote", traffic::push_remote),
    ("release", ports::release),
    ("remove_all_streams", streams::remove_all),
    ("remove_rx_filters", ports::remove_filters),
    ("remove_stream", streams::remove),
    ("resume_streams", traffic::resume_streams),
    ("resume_traffic", traffic::resume),
    ("service", ports::service),
    ("set_l2", addresses::set_l2),
    ("set_l3", addresses::set_l3),
    ("set_port_attr", ports::set_attributes),
    ("set_rx_feature", packets::set_feature),
    ("set_vlan", addresses::set_vlan),
    ("start_traffic", traffic::start),
    ("stop_traffic", traffic::stop),
    ("update_streams", traffic::update_streams),
    ("update_traffic", traffic::update),
    ("validate", traffic::validate),
];

/// Methods that need no handle.
const OPEN: [&str; 4] = ["api_sync", "api_sync_v2", "get_version", "ping"];

/// Calls a method.
pub fn call(model: &mut Model, name: &str, params: &Params<'_>) -> Result<Value, Fault> {
    let Some((_, method)) = METHODS.iter().find(|(known, _)| *known == name) else {
        let shown: String = name.chars().take(60).collect();
        return Err(Fault {
            code: Fault::METHOD,
            text: format!("fwdlab has no method '{shown}'"),
        });
    };
    if !OPEN.contains(&name) && params.text("api_h")? != model.handle {
        return Err(Fault::execute(
            "the API handle is not of this server: it was started again; connect again",
        ));
    }
    method(model, params)
}

fn supported(_: &mut Model, _: &Params<'_>) -> Result<Value, Fault> {
    Ok(METHODS.iter().map(|(name, _)| *name).collect())
}
