//! Calls about counters. They are absolute: clients subtract the values from when they connected.
//!
//! Counters are integers, rates are floats, even if zero: users' programs rely on it.

use fwdlab_lab::ports::counters;
use serde_json::{Map, Value, json};

use crate::load::Load;
use crate::model::Model;
use crate::rates::{Rates, rx_bytes, tx_bytes};
use crate::rpc::{Fault, Params};

/// Buffer sizes that clients query.
const BUFFERS: [&str; 8] = [
    "64b", "128b", "256b", "512b", "1024b", "2048b", "4096b", "9kb",
];

/// Names of the port counters in TRex's drivers; those of the kernel follow.
const DETAILS: [&str; 8] = [
    "tx_good_packets",
    "tx_good_bytes",
    "tx_errors",
    "rx_good_packets",
    "rx_good_bytes",
    "rx_missed_errors",
    "tx_foreign_packets",
    "capture_missed_packets",
];

pub fn port(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    model.count_sent();
    let cpu = model.cpu.percent() / model.ports.len() as f64;
    let port = model.port(params)?;
    let (counters, rates) = (port.counters()?, port.meter.rates());
    Ok(json!({
        "opackets": counters.tx_packets,
        "obytes": tx_bytes(&counters),
        "ipackets": counters.rx_packets,
        "ibytes": rx_bytes(&counters),
        "oerrors": counters.tx_dropped,
        "ierrors": counters.rx_dropped,
        "m_total_tx_bps": rates.tx_bps,
        "m_total_tx_pps": rates.tx_pps,
        "m_total_rx_bps": rates.rx_bps,
        "m_total_rx_pps": rates.rx_pps,
        "m_cpu_util": cpu,
    }))
}

pub fn global(model: &mut Model, _: &Params<'_>) -> Result<Value, Fault> {
    let mut sum = Rates::default();
    let (mut sent, mut received) = ((0u64, 0u64), (0u64, 0u64));
    model.count_sent();
    for port in &model.ports {
        let rates = port.meter.rates();
        sum.tx_pps += rates.tx_pps;
        sum.tx_bps += rates.tx_bps;
        sum.rx_pps += rates.rx_pps;
        sum.rx_bps += rates.rx_bps;
        let counters = port.counters()?;
        sent.0 = sent.0.wrapping_add(counters.tx_packets);
        sent.1 = sent.1.wrapping_add(tx_bytes(&counters));
        received.0 = received.0.wrapping_add(counters.rx_packets);
        received.1 = received.1.wrapping_add(rx_bytes(&counters));
    }
    let runs = model.ports.iter().flat_map(|port| port.profiles.values());
    let runs = runs.filter_map(|profile| profile.run.as_ref());
    let expected = runs.fold(Load::default(), |sum, run| sum.plus(run.load(), 1.0));
    let cores = model.ports.len() as f64;
    let cpu = model.cpu.percent() / cores;
    let missing = sum.tx_bps - sum.rx_bps;
    let dropped = if missing > sum.tx_bps * 0.1 {
        missing
    } else {
        0.0
    };
    let mut all = json!({
        "m_tx_bps": sum.tx_bps, "m_tx_pps": sum.tx_pps,
        "m_rx_bps": sum.rx_bps, "m_rx_pps": sum.rx_pps,
        "m_rx_drop_bps": dropped,
        "m_platform_factor": 1.0,
        "m_cpu_util": cpu, "m_cpu_util_raw": cpu,
        "m_bw_per_core": if cpu > 0.0 { 2.0 * sum.tx_bps / 1e9 * 100.0 / (cpu * cores) } else { 0.0 },
        "m_tx_expected_pps": expected.pps, "m_tx_expected_bps": expected.layer_2,
        "m_total_queue_full": model.missed,
        "m_total_tx_pkts": sent.0, "m_total_tx_bytes": sent.1,
        "m_total_rx_pkts": received.0, "m_total_rx_bytes": received.1,
    });
    // fields without a meaning in fwdlab, which clients expect
    for rate in [
        "rx_cpu_util",
        "rx_core_pps",
        "tx_cps",
        "tx_expected_cps",
        "active_flows",
        "open_flows",
        "socket_util",
    ] {
        all[format!("m_{rate}")] = json!(0.0);
    }
    for count in [
        "total_alloc_error",
        "total_queue_drop",
        "total_clients",
        "total_servers",
        "active_sockets",
        "total_nat_time_out",
        "total_nat_time_out_wait_ack",
        "total_nat_no_fid",
        "total_nat_active",
        "total_nat_syn_wait",
        "total_nat_open",
        "total_nat_learn_error",
    ] {
        all[format!("m_{count}")] = json!(0);
    }
    Ok(all)
}

pub fn detail_names(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    model.port(params)?;
    let names: Vec<&str> = DETAILS.iter().chain(&counters::NAMES).copied().collect();
    Ok(json!({"xstats_names": names}))
}

pub fn detail_values(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let port = model.port(params)?;
    let counters = port.counters()?;
    let mut values = vec![
        counters.tx_packets,
        tx_bytes(&counters),
        counters.tx_dropped,
        counters.rx_packets,
        rx_bytes(&counters),
        counters.rx_dropped,
        port.wire.foreign(),
        port.ears.missed(),
    ];
    values.extend(port.wire.details().map_err(Fault::execute)?);
    values.resize(DETAILS.len() + counters::NAMES.len(), 0);
    Ok(json!({"xstats_values": values}))
}

pub fn active_groups(model: &mut Model, _: &Params<'_>) -> Result<Value, Fault> {
    Ok(model.groups.active())
}

pub fn groups(model: &mut Model, params: &Params<'_>) -> Result<Value, Fault> {
    let wrong = || Fault::params("field 'pgids' must be an array of numbers of groups");
    let ids = params.get("pgids")?.as_array().ok_or_else(wrong)?;
    let number = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
    let ids: Vec<u32> = ids
        .iter()
        .map(number)
        .collect::<Option<_>>()
        .ok_or_else(wrong)?;
    model.count_sent();
    model.groups.statistics(&mut model.ports, &ids)
}

pub fn utilisation(model: &mut Model, _: &Params<'_>) -> Result<Value, Fault> {
    // in TRex's terms every port has a core; the costs of the senders are not separated
    let history = model.cpu.history(model.ports.len());
    let cpu = |at: usize| json!({"history": history, "ports": [at, -1]});
    let cpus: Vec<Value> = (0..model.ports.len()).map(cpu).collect();
    // there are no such buffers; clients expect all sizes, and divide by their number
    let buffers = BUFFERS.map(|size| (size.to_owned(), json!([1, 1])));
    let buffers: Map<String, Value> = buffers.into_iter().collect();
    Ok(json!({"cpu": cpus, "mbuf_stats": {"cpu-socket-0": buffers}}))
}
