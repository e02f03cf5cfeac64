//! `fwdlab queues`: shows the receive rate of each queue of a port, with a line each second. Start
//! with [`Queues::run`].

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use fwdlab_lab::host::{Host, Local, Netns, Ssh};
use fwdlab_lab::telemetry::queues::{Rates, rates, read_counters};
use fwdlab_model::campaign::value::Period;
use fwdlab_model::test_bed::{BedFile, Place, TestBed};
use serde_json::{Value, json};

use super::session::{SECOND, Signals};
use super::{Global, test_bed};
use crate::exit_code::{Code, Usage};
use crate::output;

/// Interval of the checks for signals.
const LOOK: Duration = Duration::from_millis(20);

/// Rates from this one on are shown in thousands.
const THOUSANDS_PPS: f64 = 10_000.0;

/// Show what each queue of a port receives, live, with a line each second
///
/// Each line has the packets per second of every receive queue, of all queues together, and of the
/// interface, in and out. Sends nothing and changes nothing. On Linux the counters are those of
/// `ethtool -S`, on FreeBSD those of the driver's sysctl tree.
#[derive(Debug, Args)]
pub struct Queues {
    #[command(flatten)]
    interface: Interface,
    /// Duration: 10s, 2m [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME")]
    time: Option<Period>,
}

/// An interface of a host or of a test bed.
#[derive(Debug, Args)]
pub(super) struct Interface {
    /// Interface; with --bed also a port name such as dut.a, dut.b, generator.a, receiver.b
    /// [default: dut.a of the test bed]
    #[arg(value_name = "IFACE")]
    port: Option<String>,
    /// Host of the interface: local, netns:NAME or ssh://USER@HOST:PORT
    #[arg(
        long,
        value_name = "HOST",
        default_value = "local",
        conflicts_with = "bed"
    )]
    on: String,
    /// Test bed that the port belongs to: a file, or its name in a folder `beds`
    #[arg(long, value_name = "BED")]
    bed: Option<String>,
}

impl Interface {
    /// Returns true if there is one.
    pub(super) fn is_given(&self) -> bool {
        self.port.is_some() || self.bed.is_some()
    }

    /// Returns its host, the name of that as it is typed, and its own.
    pub(super) fn find(&self) -> anyhow::Result<(Arc<dyn Host>, String, String)> {
        let (on, port) = match (&self.bed, &self.port) {
            (None, None) => {
                let reason = "which interface? Name one, or a test bed with --bed";
                return Err(Usage(reason.into()).into());
            }
            (None, Some(port)) => (self.on.clone(), port.clone()),
            (Some(name), port) => {
                let BedFile::Hosts(bed) = test_bed::find(Path::new(""), name)? else {
                    let reason =
                        "a test bed that is a virtual machine exists only while it is measured";
                    return Err(Usage(reason.into()).into());
                };
                bed_port(&bed, port.as_deref().unwrap_or("dut.a"))?
            }
        };
        Ok((host(&on)?, on, port))
    }
}

impl Queues {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let at_most = self.time.map(|time| time.0);
        let (host, on, port) = self.interface.find()?;
        let signals = Signals::catch()?;
        let started = Instant::now();
        let first = read_counters(host.as_ref(), &port)?;
        let mut last = first.clone();
        for second in 1.. {
            let end = at_most.unwrap_or(Duration::MAX);
            let at = (SECOND * second).min(end);
            while started.elapsed() < at && !signals.control().is_stopped() {
                std::thread::sleep(LOOK.min(at.saturating_sub(started.elapsed())));
            }
            // also after a signal: include what arrived since the last reading
            let is_last = signals.control().is_stopped() || at >= end;
            let now = read_counters(host.as_ref(), &port)?;
            line(global, (&on, &port), second, &rates(&last, &now));
            last = now;
            if is_last {
                break;
            }
        }
        let whole = rates(&first, &last);
        if global.json {
            output::json(&document((&on, &port), "finished", &whole))?;
        } else if global.json_stream {
            output::result(&document((&on, &port), "finished", &whole).to_string());
        }
        Ok(signals.code(self.time.is_none()))
    }
}

fn line(global: &Global, place: (&str, &str), second: u32, rates: &Rates) {
    if global.json_stream {
        let mut line = document(place, "second", rates);
        line["second"] = second.into();
        output::result(&line.to_string());
    } else if !global.json {
        output::result(&text(rates));
    }
}

fn document((on, port): (&str, &str), event: &str, rates: &Rates) -> Value {
    let queues = |all: &[(u32, u64)]| -> Vec<Value> {
        let of = |(queue, packets): &(u32, u64)| json!({"queue": queue, "packets": packets, "pps": rates.pps(*packets)});
        all.iter().map(of).collect()
    };
    json!({
        "event": event, "port": port, "on": on, "seconds": rates.seconds,
        "rx_queues": queues(&rates.rx_queues), "tx_queues": queues(&rates.tx_queues),
        "rx_packets": rates.rx_packets, "tx_packets": rates.tx_packets,
        "rx_packets_of_queues": rates.rx_of_queues(),
    })
}

/// Returns host and interface of a port of a test bed: `dut.a`, or an interface of the DUT's host.
fn bed_port(bed: &TestBed, port: &str) -> Result<(String, String), Usage> {
    let mut known: Vec<(String, &Place, &str)> = Vec::new();
    if let (Some(host), Some(ports)) = (&bed.dut.host, &bed.dut.ports) {
        known.push(("dut.a".into(), host, &ports.a));
        known.push(("dut.b".into(), host, &ports.b));
    }
    for (number, of) in bed.tester_ports().into_iter().enumerate() {
        let end = if number == 1 { "b" } else { "a" };
        known.push((format!("{}.{end}", of.role), of.host, of.port));
    }
    if let Some((_, host, interface)) = known.iter().find(|(name, ..)| name == port) {
        return Ok((host.to_string(), (*interface).to_owned()));
    }
    match &bed.dut.host {
        Some(host) if !port.contains('.') => Ok((host.to_string(), port.to_owned())),
        _ => {
            let names: Vec<&str> = known.iter().map(|(name, ..)| name.as_str()).collect();
            Err(Usage(format!(
                "the test bed {} has no port {port}; it has {}",
                bed.name,
                names.join(", ")
            )))
        }
    }
}

/// Connects to the host with this name.
fn host(text: &str) -> anyhow::Result<Arc<dyn Host>> {
    Ok(match text.split_once(':') {
        None if text == "local" => Arc::new(Local),
        Some(("netns", name)) if !name.is_empty() => Arc::new(Netns::bare(name)),
        Some(("ssh", _)) => {
            let target = text.parse().map_err(|error| Usage(format!("{error}")))?;
            Arc::new(Ssh::new(target))
        }
        _ => {
            let reason = format!(
                "--on {text} is not a host; write local, netns:NAME or ssh://[user@]host[:port]"
            );
            return Err(Usage(reason).into());
        }
    })
}

/// Returns a line such as `[Q0   856K/s] [Q1   862K/s] [QT  1718K/s  1720K/s -> 13K/s]`.
fn text(rates: &Rates) -> String {
    let rate = |packets: u64| match rates.pps(packets) {
        pps if pps < THOUSANDS_PPS => format!("{pps:.0}/s"),
        pps => format!("{:.0}K/s", pps / 1000.0),
    };
    let mut text = String::new();
    for (queue, packets) in &rates.rx_queues {
        text += &format!("[Q{queue} {:>8}] ", rate(*packets));
    }
    let all = rate(rates.rx_of_queues());
    let (returned, went) = (rate(rates.rx_packets), rate(rates.tx_packets));
    text + &format!("[QT {all:>8} {returned:>8} -> {went}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_a_bed_by_their_names() {
        let text = "bed = 'r'\n[generator]\nhost = 'netns:g'\nports = { a = 'ta' }\n[receiver]\nhost = 'ssh://r'\nports = { b = 'tb' }\n\
            [dut]\nhost = 'ssh://root@d'\nports = { a = 'da', b = 'db' }\n";
        let bed = TestBed::parse("x", text).unwrap();
        let of = |port: &str| bed_port(&bed, port).map_err(|error| error.to_string());
        let pair = |host: &str, port: &str| Ok((host.to_owned(), port.to_owned()));
        assert_eq!(of("dut.a"), pair("ssh://root@d", "da"));
        assert_eq!(of("generator.a"), pair("netns:g", "ta"));
        assert_eq!(of("receiver.b"), pair("ssh://r", "tb"));
        assert_eq!(of("eth9"), pair("ssh://root@d", "eth9"));
        let error = of("generator.b").unwrap_err();
        assert!(
            error.contains("it has dut.a, dut.b, generator.a, receiver.b"),
            "{error}"
        );
    }

    #[test]
    fn a_line_as_netmap_users_know_it() {
        let rates = Rates {
            seconds: 2.0,
            rx_queues: vec![(0, 1_712_000), (1, 1_724_000), (2, 0)],
            tx_queues: Vec::new(),
            rx_packets: 3_440_000,
            tx_packets: 26_000,
        };
        assert_eq!(
            text(&rates),
            "[Q0   856K/s] [Q1   862K/s] [Q2      0/s] [QT  1718K/s  1720K/s -> 13K/s]"
        );
    }

    #[test]
    fn hosts_as_they_are_typed() {
        assert_eq!(host("local").unwrap().name(), "this machine");
        assert_eq!(host("netns:r1").unwrap().name(), "r1");
        assert!(host("ssh://root@router1:2222").is_ok());
        for (text, words) in [
            ("router1", "write local, netns:NAME or ssh://"),
            ("netns:", "write local"),
            ("ssh://root:secret@r", "only keys are used"),
        ] {
            let error = host(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
