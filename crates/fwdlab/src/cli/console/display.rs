//! Output of the console: its ports, their rates and counters, as tables with a column for each
//! port.
//!
//! Start with [`stats`] and [`ports`].

use fwdlab_model::link::LinkSpeed;
use fwdlab_report::number;

use super::traffic::{ConsolePort, State};
use crate::cli::session::words::short_time;

/// Returns the rates and counters of each port, and their totals.
pub fn stats(ports: &[ConsolePort], link: Option<LinkSpeed>) -> Vec<Vec<String>> {
    let mut rows = Rows::new(ports);
    rows.row("", |at, port| format!("{at} {}", port.interface), "total");
    rows.row("state", |_, port| state(port), "");
    let load = ports.iter().filter(|p| p.is_sending());
    // an empty sum would be -0
    let load = load
        .filter_map(|p| Some(p.stream()?.pps))
        .fold(0.0, |a, b| a + b);
    rows.row(
        "intended load",
        |_, port| match (&port.state, port.stream()) {
            (State::Sending(_), Some(stream)) => number::rate(stream.pps),
            _ => "-".into(),
        },
        &number::rate(load),
    );
    let bits = number::bits_per_second;
    rows.sum("sent", number::rate, |p| p.last_sent.rate_pps);
    rows.sum("sent L1", bits, |p| p.last_sent.l1_bps);
    rows.sum("sent L2", bits, |p| p.last_sent.l2_bps);
    let speed = |port: &ConsolePort| link.map(|l| l.bps()).or(port.taken.facts.speed_bps);
    if ports.iter().any(|port| speed(port).is_some()) {
        let used = |port: &ConsolePort| Some(100.0 * port.last_sent.l1_bps / speed(port)? as f64);
        rows.row(
            "line used",
            |_, p| used(p).map_or("-".into(), number::percent),
            "",
        );
    }
    rows.sum("received", number::rate, |p| p.last_received.all_pps);
    rows.sum("received ours", number::rate, |p| p.last_received.ours_pps);
    rows.sum("frames sent", count, |p| p.all_sent().frames as f64);
    rows.sum("frames received", count, |p| p.received.frames as f64);
    rows.sum("ours", count, |p| p.received.ours as f64);
    rows.sum("bytes sent", count, |p| p.all_sent().bytes_l2);
    for (name, frames) in [
        (
            "not sent",
            (|port| port.all_sent().not_sent) as fn(&ConsolePort) -> u64,
        ),
        ("sent late", |port| port.all_sent().made_up),
        ("dropped sending", |port| port.all_sent().dropped),
        ("foreign", |port| port.received.foreign),
        ("dropped received", |port| port.received.dropped),
    ] {
        if ports.iter().any(|port| frames(port) > 0) {
            rows.sum(name, count, |port| frames(port) as f64);
        }
    }
    rows.rows
}

fn count(number: f64) -> String {
    number::count(number.round() as u64)
}

/// Returns a table of the ports.
pub fn ports(ports: &[ConsolePort], link: Option<LinkSpeed>) -> Vec<Vec<String>> {
    let mut rows = vec![
        ["port", "interface", "driver", "link", "MAC", "MTU", "state"]
            .map(String::from)
            .to_vec(),
    ];
    for (at, port) in ports.iter().enumerate() {
        let facts = &port.taken.facts;
        let speed = link
            .map(|l| l.bps() as f64)
            .or(facts.speed_bps.map(|bps| bps as f64));
        let mac = facts.mac.map(|mac| {
            let bytes = mac.map(|byte| format!("{byte:02x}"));
            bytes.join(":")
        });
        rows.push(vec![
            at.to_string(),
            port.interface.clone(),
            facts.kind.clone().unwrap_or_else(|| "-".into()),
            speed.map_or("no speed".into(), number::bits_per_second),
            mac.unwrap_or_else(|| "-".into()),
            facts.mtu.to_string(),
            state(port),
        ]);
    }
    rows
}

/// Returns what a port is doing.
pub fn state(port: &ConsolePort) -> String {
    let left = |stream: &super::traffic::Stream| match stream.left() {
        Some(left) => format!(", {} left", short_time(left.as_nanos() as u64)),
        None => String::new(),
    };
    match &port.state {
        State::Idle => "idle".into(),
        State::Sending(stream) => format!("sending{}", left(stream)),
        State::Paused(_) => "paused".into(),
    }
}

/// Returns the message for traffic that was started or changed.
pub fn begun(at: usize, port: &ConsolePort, is_new: bool) -> String {
    let Some(stream) = port.stream() else {
        return format!("port {at} {}  idle", port.interface);
    };
    format!(
        "port {at} {}  {}  {} = {} L1{}  {}",
        port.interface,
        stream.what,
        number::rate(stream.pps),
        number::bits_per_second(stream.l1_bps()),
        match (stream.time, stream.left()) {
            (Some(time), _) if is_new => format!("  for {}", short_time(time.as_nanos() as u64)),
            (_, Some(left)) => format!("  {} left", short_time(left.as_nanos() as u64)),
            _ => "  until stop".into(),
        },
        stream.engine,
    )
}

/// Returns the message for finished traffic: all that the port has sent.
pub fn ended(at: usize, port: &ConsolePort) -> String {
    let sum = port.all_sent();
    let more = [
        (sum.not_sent, "not sent"),
        (sum.dropped, "dropped by the port"),
    ];
    let more = more.into_iter().filter(|(frames, _)| *frames > 0);
    let more: Vec<String> = more
        .map(|(frames, what)| format!(", {what} {}", number::count(frames)))
        .collect();
    format!(
        "port {at} {}  ended: {} frames sent{}",
        port.interface,
        number::count(sum.frames),
        more.concat()
    )
}

/// Aligns the columns: the first to the left, the others to the right.
pub fn table(rows: &[Vec<String>], right: bool) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(at, (cell, &width))| match right && at > 0 {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

struct Rows<'a> {
    ports: &'a [ConsolePort],
    rows: Vec<Vec<String>>,
}

impl<'a> Rows<'a> {
    fn new(ports: &'a [ConsolePort]) -> Rows<'a> {
        Rows {
            ports,
            rows: Vec::new(),
        }
    }

    fn row(&mut self, name: &str, cell: impl Fn(usize, &ConsolePort) -> String, total: &str) {
        let mut row = vec![name.to_owned()];
        row.extend(
            self.ports
                .iter()
                .enumerate()
                .map(|(at, port)| cell(at, port)),
        );
        if self.ports.len() > 1 {
            row.push(total.to_owned());
        }
        self.rows.push(row);
    }

    /// Adds a number of each port, and their sum.
    fn sum(
        &mut self,
        name: &str,
        shown: impl Fn(f64) -> String,
        number: impl Fn(&ConsolePort) -> f64,
    ) {
        let all = self.ports.iter().map(&number).fold(0.0, |a, b| a + b);
        self.row(name, |_, port| shown(number(port)), &shown(all));
    }
}
