//! Seconds and totals of a session, as text and as JSON.
//!
//! Start with [`sent_line`] and [`received_line`].

use fwdlab_engine::memif::Status;
use fwdlab_engine::{Histogram, SendCounts};
use fwdlab_lab::ports::TrafficPort;
use fwdlab_lab::session::{Period, Received, Sent};
use fwdlab_report::number;
use serde_json::{Value, json};

/// Returns the line for one second of a sender.
pub fn sent_line(port: &str, at_s: f64, sent: &Sent) -> String {
    format!(
        "{at_s:6.0} s  {port}  sent {:>11}  {:>15} L1  {:>15} L2  ring full {}{}{}{}{}",
        number::rate(sent.rate_pps),
        number::bits_per_second(sent.l1_bps),
        number::bits_per_second(sent.l2_bps),
        number::count(sent.ring_full),
        match sent.dropped() {
            0 => String::new(),
            frames => format!("  dropped by the port {}", number::count(frames)),
        },
        match sent.not_sent {
            0 => String::new(),
            frames => format!("  not sent {}", number::count(frames)),
        },
        match sent.made_up {
            0 => String::new(),
            frames => format!("  made up {}", number::count(frames)),
        },
        late(sent.lateness.as_ref()),
    )
}

/// Returns the line for one second of a receiver.
pub fn received_line(port: &str, at_s: f64, received: &Received) -> String {
    let counts = &received.counts;
    let mut line = format!(
        "{at_s:6.0} s  {port}  received {:>11}{}  ours {}",
        number::rate(received.all_pps),
        bits(received, 15),
        number::count(counts.received),
    );
    for (frames, what) in [
        (counts.foreign, "foreign"),
        (counts.late, "of other sessions"),
        (counts.wrong_length, "of a wrong length"),
        (counts.dropped_by_receiver, "dropped by the receiver"),
        (
            received.port.map_or(0, |port| port.rx_dropped),
            "dropped by the port",
        ),
    ] {
        if frames > 0 {
            line += &format!("  {what} {}", number::count(frames));
        }
    }
    line
}

/// Returns what is known of a port of user space, and the name of its member in results.
pub fn port_json(port: &TrafficPort) -> Option<(&'static str, Value)> {
    match port.memif() {
        Some(peer) => Some(("memif", peer_json(&peer))),
        None => Some(("dpdk", json!(port.facts()?))),
    }
}

/// Returns the peer of a memif port, and why it has none or changed.
pub fn peer(port: &str, status: &Status) -> String {
    let mut text = match (&status.peer, status.connections) {
        (Some(peer), 1) => return format!("peer      {port}  {peer}"),
        (Some(peer), _) => format!("peer      {port}  {peer}"),
        (None, 0) => format!("no peer   {port}  none has connected"),
        (None, _) => format!("no peer   {port}  it has gone"),
    };
    if status.connections > 1 {
        text += &format!(", connected {} times", status.connections);
    }
    if let Some(problem) = &status.problem {
        text += &format!(": {problem}");
    }
    if status.lost_in_rings > 0 {
        text += &format!(
            "\n          {} for it were in the ring when it left",
            number::counted(status.lost_in_rings, "frame")
        );
    }
    text
}

/// Returns the same as JSON.
fn peer_json(status: &Status) -> Value {
    json!({
        "peer": status.peer,
        "connections": status.connections,
        "problem": status.problem,
        "frames_lost_in_rings": status.lost_in_rings,
    })
}

/// Returns the bits per second at both layers, if known.
pub fn bits(received: &Received, width: usize) -> String {
    match (received.l1_bps, received.l2_bps) {
        (Some(l1), Some(l2)) => format!(
            "  {:>width$} L1  {:>width$} L2",
            number::bits_per_second(l1),
            number::bits_per_second(l2)
        ),
        _ => String::new(),
    }
}

/// Formats a short time: `1.2 us`.
pub fn short_time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

fn late(lateness: Option<&Histogram>) -> String {
    match lateness.and_then(|lateness| lateness.quantile(0.99)) {
        Some(p99) => format!("  late p99 {}", short_time(p99)),
        None => String::new(),
    }
}

/// Returns how late frames left: `p50 30 ns  p99 1.2 us  p99.9 12.0 us  max 31.1 us`.
pub fn distribution(histogram: &Histogram) -> String {
    [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)]
        .into_iter()
        .filter_map(|(name, share)| {
            Some(format!("{name} {}", short_time(histogram.quantile(share)?)))
        })
        .collect::<Vec<_>>()
        .join("  ")
}

/// Returns the distribution as JSON.
pub fn distribution_json(histogram: &Histogram) -> Value {
    json!({
        "values": histogram.len(),
        "mean_ns": histogram.mean(),
        "p50_ns": histogram.quantile(0.5),
        "p90_ns": histogram.quantile(0.9),
        "p99_ns": histogram.quantile(0.99),
        "p99_9_ns": histogram.quantile(0.999),
        "p99_99_ns": histogram.quantile(0.9999),
        "max_ns": histogram.quantile(1.0),
    })
}

/// Returns the line for one of several senders of a port.
pub fn sender_line(port: &str, number: usize, of: usize, own: &SendCounts) -> String {
    let mut text = format!(
        "sender    {port}  {number} of {of}: given to the port {}",
        number::count(own.total())
    );
    for (frames, what) in [
        (
            own.not_sent,
            "not sent because it stalled or the port had no room",
        ),
        (own.made_up, "sent late because it stalled"),
    ] {
        if frames > 0 {
            text += &format!(", {what} {}", number::count(frames));
        }
    }
    text
}

/// Returns the same as JSON.
fn sender_json(own: &SendCounts) -> Value {
    json!({
        "frames_given": own.total(),
        "frames_not_sent": own.not_sent,
        "frames_made_up": own.made_up,
        "ring_full": own.ring_full,
        "wakeups": own.wakeups,
        "streams_sent": own.streams,
    })
}

/// Returns a period as JSON: one second, or the whole session.
pub fn period_json(
    event: &str,
    sending: &[String],
    receiving: &[String],
    period: &Period,
) -> Value {
    let sent: Vec<Value> = (sending.iter().zip(&period.sent))
        .map(|(port, sent)| {
            let mut value = json!({
                "port": port,
                "frames_sent": sent.left(),
                "frames_given": sent.given,
                "frames_not_sent": sent.not_sent,
                "frames_made_up": sent.made_up,
                "rate_pps": sent.rate_pps,
                "l1_bps": sent.l1_bps,
                "l2_bps": sent.l2_bps,
                "ring_full": sent.ring_full,
                "wakeups": sent.wakeups,
                "port_tx_packets": sent.port.map(|port| port.tx_packets),
                "port_tx_dropped": sent.port.map(|port| port.tx_dropped),
                "port_tx_foreign": sent.foreign,
            });
            if let Some(pps) = sent.intended_pps {
                value["intended_load_pps"] = pps.into();
            }
            if let Some(elapsed) = sent.took {
                value["took_s"] = elapsed.seconds.into();
                value["planned_s"] = elapsed.planned_s.into();
            }
            if let Some(stall_policy) = sent.stall_policy {
                value["stall_policy"] = stall_policy.name().into();
            }
            if !sent.streams.is_empty() {
                value["streams_sent"] = sent.streams.clone().into();
            }
            if !sent.senders.is_empty() {
                value["senders"] = sent.senders.iter().map(sender_json).collect();
            }
            if let Some(lateness) = &sent.lateness {
                value["lateness"] = distribution_json(lateness);
            }
            value
        })
        .collect();
    let received: Vec<Value> = (receiving.iter().zip(&period.received))
        .map(|(port, received)| {
            json!({
                "port": port,
                "frames_received": received.counts.received,
                "frames_late": received.counts.late,
                "frames_foreign": received.counts.foreign,
                "frames_wrong_length": received.counts.wrong_length,
                "frames_dropped_by_receiver": received.counts.dropped_by_receiver,
                "rate_pps": received.ours_pps,
                "port_rx_packets": received.port.map(|port| port.rx_packets),
                "port_rx_dropped": received.port.map(|port| port.rx_dropped),
                "port_rate_pps": received.all_pps,
                "port_l1_bps": received.l1_bps,
                "port_l2_bps": received.l2_bps,
            })
        })
        .collect();
    let mut value = json!({
        "event": event,
        "at_s": period.at_s,
        "duration_s": period.duration_s,
    });
    if !sending.is_empty() {
        value["send"] = sent.into();
    }
    if !receiving.is_empty() {
        value["receive"] = received.into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_units() {
        let sent = Sent {
            rate_pps: 744_048.0,
            l1_bps: 500e6,
            l2_bps: 381e6,
            ring_full: 3,
            not_sent: 1200,
            ..Sent::default()
        };
        assert_eq!(
            sent_line("tx0", 1.0, &sent),
            "     1 s  tx0  sent  744.0 kpps     500.0 Mbit/s L1     381.0 Mbit/s L2  ring full 3  not sent 1,200"
        );
        for (ns, words) in [
            (7, "7 ns"),
            (1234, "1.2 us"),
            (5_000_000, "5.0 ms"),
            (2_500_000_000, "2.50 s"),
        ] {
            assert_eq!(short_time(ns), words);
        }
    }
}
