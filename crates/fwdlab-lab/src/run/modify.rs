//! What modifiers change on the DUT of the bed while a series runs (RFC 2544 §11): filters, routing updates and management.
//!
//! Whatever is set is read back or shown to work before anything is measured, told with its exact commands, and undone when
//! [`Modified`] is dropped; after a crash it goes with the DUT's namespace. Frames of broadcasts are in [`super::traffic`], queries in
//! [`super::manage`]. Start with [`Modified::begin`].

use std::fmt::Write;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::variant::{Modifier, Variant};

use super::manage::{Asking, Management};
use super::traffic::Traffic;
use crate::bed::Bed;
use crate::error::LabError;
use crate::host::Host;

/// The table of our filters in the DUT's namespace.
const TABLE: &str = "fwdlab_filters";

/// Networks whose routes change (TEST-NET-2 and -3 in /28s, RFC 5737): no test frame goes there.
const UPDATED: [&str; 2] = ["198.51.100", "203.0.113"];
const UPDATED_V6: &str = "2001:db8";
const PER_BLOCK: u32 = 16;

/// How often we look whether an update is due.
const TICK: Duration = Duration::from_millis(5);

/// What is changed on the DUT; dropping it undoes that.
pub(super) struct Modified {
    host: Arc<dyn Host>,
    filters: bool,
    updates: Option<Updates>,
    management: Option<Management>,
}

impl Modified {
    /// Applies the modifiers of a series, and tells the commands.
    ///
    /// # Errors
    /// A command failed, or what was set is not there.
    pub fn begin(
        bed: &Bed,
        traffic: &Traffic,
        streams: &[Stream],
        variant: &Variant,
        dut_cpus: &[usize],
        tell: &mut dyn FnMut(&str, String) -> Result<(), LabError>,
    ) -> Result<Modified, LabError> {
        let mut modified = Modified {
            host: bed.host(0).clone(),
            filters: false,
            updates: None,
            management: None,
        };
        for modifier in &variant.modifiers {
            match modifier {
                Modifier::Filters { rules } => {
                    let rules = filters(&traffic.pairs(&streams[0], variant), *rules);
                    tell("filters", format!("filters on the DUT, nft -f:\n{rules}"))?;
                    modified.filters = true;
                    nft(bed.host(0).as_ref(), &rules)?;
                }
                Modifier::Updates { interval_s } => {
                    let version = streams[0].ip_version;
                    tell(
                        "updates",
                        format!(
                            "routing updates on the DUT, every {interval_s} s and at the begin of every trial, set by netlink and not by a \
                         routing protocol; state A, ip -batch:\n{}state B:\n{}",
                            state(version, State::A),
                            state(version, State::B)
                        ),
                    )?;
                    let updates = Updates::new(bed, version, Duration::from_secs_f64(*interval_s));
                    updates.change(State::A)?;
                    modified.updates = Some(updates);
                }
                Modifier::Management => {
                    modified.management = Some(Management::begin(bed, dut_cpus, tell)?);
                }
                Modifier::Broadcast => {}
            }
        }
        Ok(modified)
    }

    /// A trial begins: the first update and the first query, and the next ones in their time, until what is returned is dropped.
    pub fn trial(&self) -> (Option<Running>, Option<Asking>) {
        (
            self.updates.as_ref().map(Updates::run),
            self.management.as_ref().map(Management::trial),
        )
    }

    /// Are there filters that deny what is not of the test?
    pub fn filters(&self) -> bool {
        self.filters
    }
}

impl Drop for Modified {
    fn drop(&mut self) {
        // the namespace may be gone already, and everything in it
        if self.filters {
            let _ = nft(self.host.as_ref(), &format!("delete table inet {TABLE}\n"));
        }
        if let Some(updates) = self.updates.take() {
            updates.undo();
        }
    }
}

/// Hands rules to nft on the DUT.
fn nft(host: &dyn Host, rules: &str) -> Result<(), LabError> {
    let loaded = host.feed("nft", &["-f", "-"], rules);
    loaded.map_err(|error| LabError::NotApplied {
        name: format!("{TABLE} (nft -f)"),
        source: Box::new(error.into()),
    })
}

/// Sources and destinations of the test frames, each way: prefixes.
pub(super) type Pairs = Vec<(String, String)>;

/// The rule set: rules that match nothing, then one that permits the test frames, then all else is denied. Every rule counts, so
/// that what was examined shows.
fn filters(permitted: &[(String, String)], rules: u32) -> String {
    let mut text = format!(
        "table inet {TABLE} {{\n  chain forward {{\n    type filter hook forward priority 0; policy drop;\n"
    );
    let is_ipv4 = permitted
        .first()
        .is_none_or(|(from, _)| !from.contains(':'));
    for n in 1..rules {
        // RFC 2544 C.2.6.4 puts other hosts before the one that is permitted
        let _ = match is_ipv4 {
            true => writeln!(
                text,
                "    ip saddr 192.0.2.{n} ip daddr 192.0.2.{} counter drop",
                100 + n
            ),
            false => writeln!(
                text,
                "    ip6 saddr 2001:db8::{n:x} ip6 daddr 2001:db8:1::{n:x} counter drop"
            ),
        };
    }
    for (from, to) in permitted {
        let ip = if from.contains(':') { "ip6" } else { "ip" };
        let _ = writeln!(text, "    {ip} saddr {from} {ip} daddr {to} counter accept");
    }
    text.push_str("    counter drop\n  }\n}\n");
    text
}

/// The two states between which routes change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    A,
    B,
}

/// The routes of a state as a batch of `ip`: the same networks, each through the other next hop than in the other state.
fn state(version: IpVersion, state: State) -> String {
    let mut batch = String::new();
    for (network, n) in updated(version) {
        let (via, port) = match (version, (n % 2 == 0) == (state == State::A)) {
            (IpVersion::Ipv4, true) => ("198.19.0.2", "eth1"),
            (IpVersion::Ipv4, false) => ("198.18.0.2", "eth0"),
            (IpVersion::Ipv6, true) => ("2001:2:0:8000::2", "eth1"),
            (IpVersion::Ipv6, false) => ("2001:2::2", "eth0"),
        };
        let _ = writeln!(batch, "route replace {network} via {via} dev {port}");
    }
    batch
}

fn updated(version: IpVersion) -> Vec<(String, u32)> {
    let networks: Vec<String> = match version {
        IpVersion::Ipv4 => (UPDATED.iter())
            .flat_map(|block| (0..PER_BLOCK).map(move |n| format!("{block}.{}/28", 16 * n)))
            .collect(),
        IpVersion::Ipv6 => (0..2 * PER_BLOCK)
            .map(|n| format!("{UPDATED_V6}:{n:x}::/48"))
            .collect(),
    };
    networks.into_iter().zip(0..).collect()
}

/// Changes routes on the DUT.
struct Updates {
    host: Arc<dyn Host>,
    version: IpVersion,
    interval: Duration,
    /// Updates so far: their number decides the state of the next.
    made: Arc<AtomicU64>,
    failed: Arc<Mutex<Option<LabError>>>,
}

/// Updates in the course of a trial; ends when dropped.
pub(super) struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    made: Arc<AtomicU64>,
    before: u64,
    failed: Arc<Mutex<Option<LabError>>>,
}

impl Updates {
    fn new(bed: &Bed, version: IpVersion, interval: Duration) -> Updates {
        Updates {
            host: bed.host(0).clone(),
            version,
            interval,
            made: Arc::default(),
            failed: Arc::default(),
        }
    }

    /// Sets a state, and reads it back.
    fn change(&self, to: State) -> Result<(), LabError> {
        change(self.host.as_ref(), self.version, to)
    }

    /// The first update now, the next ones every interval.
    fn run(&self) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let (host, version, interval) = (self.host.clone(), self.version, self.interval);
        let (made, failed, stopped) = (self.made.clone(), self.failed.clone(), stop.clone());
        let before = made.load(Ordering::Acquire);
        let thread = std::thread::spawn(move || {
            let began = Instant::now();
            let mut next = Duration::ZERO;
            while !stopped.load(Ordering::Acquire) {
                if began.elapsed() < next {
                    std::thread::sleep(TICK);
                    continue;
                }
                next += interval;
                let number = made.load(Ordering::Acquire);
                let to = if number.is_multiple_of(2) {
                    State::B
                } else {
                    State::A
                };
                if let Err(error) = change(host.as_ref(), version, to) {
                    if let Ok(mut failed) = failed.lock() {
                        *failed = Some(error);
                    }
                    break;
                }
                made.store(number + 1, Ordering::Release);
            }
        });
        Running {
            stop,
            thread: Some(thread),
            made: self.made.clone(),
            before,
            failed: self.failed.clone(),
        }
    }

    fn undo(&self) {
        let mut batch = String::new();
        for (network, _) in updated(self.version) {
            let _ = writeln!(batch, "route del {network}");
        }
        let _ = self.host.feed("ip", &["-force", "-batch", "-"], &batch);
    }
}

impl Running {
    /// Ends the updates, and says how many there were.
    ///
    /// # Errors
    /// One failed, or the DUT did not take it.
    pub fn end(mut self) -> Result<u64, LabError> {
        self.finish();
        let failed = self.failed.lock().ok().and_then(|mut failed| failed.take());
        match failed {
            Some(error) => Err(error),
            None => Ok(self.made.load(Ordering::Acquire) - self.before),
        }
    }

    fn finish(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Sets the routes of a state, and reads them back.
fn change(host: &dyn Host, version: IpVersion, to: State) -> Result<(), LabError> {
    let batch = state(version, to);
    host.feed("ip", &["-batch", "-"], &batch)?;
    let family = match version {
        IpVersion::Ipv4 => "-4",
        IpVersion::Ipv6 => "-6",
    };
    let table = host.ask("ip", &[family, "route", "show"])?;
    for line in batch.lines() {
        let wanted = line.trim_start_matches("route replace ");
        if !table.lines().any(|route| route.starts_with(wanted)) {
            return Err(LabError::Preflight(format!(
                "a routing update was not taken: `{wanted}` is not among the DUT's routes after `ip {line}`"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_before_the_one_that_permits() {
        let pairs = vec![("198.18.0.0/16".to_owned(), "198.19.0.0/16".to_owned())];
        let one = filters(&pairs, 1);
        assert_eq!(one.matches("counter accept").count(), 1);
        // the denial of all else, once as a rule that counts
        assert_eq!(one.matches("counter drop").count(), 1);
        let many = filters(&pairs, 25);
        assert_eq!(many.matches("counter drop").count(), 25);
        let before = many.split("counter accept").next().unwrap();
        assert_eq!(before.matches("ip saddr 192.0.2.").count(), 24);
        let v6 = filters(&[("2001:2::/49".into(), "2001:2:0:8000::/49".into())], 25);
        assert_eq!(v6.matches("ip6 saddr 2001:db8::").count(), 24);
    }

    #[test]
    fn two_states_touch_the_same_networks_and_differ_in_all() {
        for version in [IpVersion::Ipv4, IpVersion::Ipv6] {
            let [a, b] = [State::A, State::B].map(|to| state(version, to));
            let (a, b): (Vec<&str>, Vec<&str>) = (a.lines().collect(), b.lines().collect());
            assert_eq!(a.len(), 32);
            let network = |line: &&str| line.split(' ').nth(2).unwrap().to_owned();
            for (one, other) in a.iter().zip(&b) {
                assert_eq!(network(one), network(other));
                assert_ne!(one, other);
            }
        }
    }
}
