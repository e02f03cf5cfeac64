//! The connection limit of a Linux DUT and the number of buckets of its hash: settings of the whole
//! machine.
//!
//! On a separate machine they are set like any other. In the embedded test bed they are this
//! machine's, and apply to all namespaces: only one DUT at a time sets them, only if nothing else
//! is tracked, and they are restored. Start with [`Linux::connections`].

use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use fwdlab_model::family::Generated;

use super::Linux;
use crate::error::LabError;
use crate::host::not_understood;
use crate::host::{Files, Host, Local};

/// The maximum number of connections.
const MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
/// The number of hash buckets.
const BUCKETS: &str = "/proc/sys/net/netfilter/nf_conntrack_buckets";
/// The current number of connections in a namespace.
const COUNT: &str = "/proc/sys/net/netfilter/nf_conntrack_count";

/// Shows that the settings are in force, and their memory usage.
pub(super) const SHOW: (&str, &str) = (
    "conntrack",
    "cd /proc/sys/net/netfilter && grep . nf_conntrack_max nf_conntrack_buckets; grep '^nf_conntrack ' /proc/slabinfo || :",
);

/// The machine that a DUT of the embedded test bed is a part of.
#[derive(Debug)]
pub(super) struct Machine {
    pub host: Arc<dyn Host>,
    /// A file that is locked while a DUT has changed a setting of the machine.
    pub lock: PathBuf,
    /// That file, while this DUT holds the lock.
    pub held: Mutex<Option<File>>,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            host: Arc::new(Local),
            lock: BUCKETS.into(),
            held: Mutex::default(),
        }
    }
}

impl Linux {
    /// Sets the maximum number of connections, and the number of hash buckets.
    pub(super) fn connections(&self, one: &Generated) -> Result<(), LabError> {
        let host = match self.place.files() {
            Files::Machine | Files::Guest => &self.host,
            Files::View | Files::Ours => self.machine_for_itself()?,
        };
        self.set_file_of(host, BUCKETS, one.value("buckets"))?;
        self.set_file_of(host, MAX, one.value("max"))
    }

    /// Returns this machine if nothing else uses the connection table: no other DUT, and not the
    /// machine itself, unless the user permits configurations to change it (unconfined).
    fn machine_for_itself(&self) -> Result<&Arc<dyn Host>, LabError> {
        let Machine { host, lock, held } = &self.machine;
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_some() {
            return Ok(host);
        }
        let action = format!("lock {}", lock.display());
        let file = File::open(lock).map_err(|e| LabError::system(&action, e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(e)) => return Err(LabError::system(&action, e)),
            Err(TryLockError::WouldBlock) => {
                return Err(self.unsupported(
                    "set the maximum number of connections: the setting applies to this whole machine, and another DUT has set it. Measure \
                     one after the other (mrr, not paired), while no other fwdlab measures",
                ));
            }
        }
        let output = host.read(COUNT)?;
        let output = String::from_utf8_lossy(&output);
        let tracked: u64 = output
            .trim()
            .parse()
            .map_err(|_| not_understood(host.as_ref(), &format!("read {COUNT}"), &output))?;
        if tracked > 0 && self.place.files() == Files::View {
            return Err(self.unsupported(&format!(
                "set the maximum number of connections: the setting applies to this whole machine, which tracks {tracked} other \
                 connections. Measure on a machine that is not in use, or allow configurations to change this one with --set-unconfined"
            )));
        }
        *held = Some(file);
        Ok(host)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::linux;
    use super::*;
    use crate::host::scripted::Scripted;

    /// A machine that keeps what is written to its settings, and accepts at most `most` buckets.
    fn machine(tracked: &'static str, most: u64) -> Scripted {
        let values = Mutex::new(("262144".to_owned(), "65536".to_owned()));
        Scripted::new(move |command, text| {
            let requested = if text.is_empty() { command } else { text };
            let mut values = values.lock().unwrap();
            let (max, buckets) = &mut *values;
            let written = requested.rsplit_once("printf '%s\\n' ");
            let written = written.and_then(|(_, rest)| rest.split_once(" > "));
            match written {
                Some((value, MAX)) => value.clone_into(max),
                Some((value, BUCKETS)) if value.parse::<u64>().unwrap() <= most => {
                    value.clone_into(buckets);
                }
                _ => {}
            }
            match requested {
                _ if requested.ends_with(COUNT) => format!("{tracked}\n"),
                _ if requested.ends_with(MAX) => format!("{max}\n"),
                _ if requested.ends_with(BUCKETS) => format!("{buckets}\n"),
                _ => String::new(),
            }
        })
    }

    /// A DUT on this scripted machine, with this lock file.
    fn part_of(host: Scripted, lock: &std::path::Path) -> (Linux, Arc<Scripted>) {
        let (mut dut, _, _) = linux(Scripted::new(|_, _| String::new()));
        let host = Arc::new(host);
        dut.machine = Machine {
            host: host.clone(),
            lock: lock.to_owned(),
            held: Mutex::default(),
        };
        (dut, host)
    }

    fn generated(text: &str) -> Generated {
        Generated::parse(text).unwrap().remove(0)
    }

    #[test]
    fn the_host_serves_one_dut_at_a_time_and_is_restored() {
        let lock = tempfile::NamedTempFile::new().unwrap();
        let (dut, host) = part_of(machine("0", u64::MAX), lock.path());
        let requested = generated("conntrack,max=12000000,buckets=1048576");
        dut.connections(&requested).unwrap();
        let now = |file: &str| host.query("sh", &["-c", &format!("cat {file}")]).unwrap();
        assert_eq!(
            (now(MAX), now(BUCKETS)),
            ("12000000\n".into(), "1048576\n".into())
        );
        // another DUT is refused until this one has gone
        let (other, untouched) = part_of(machine("0", u64::MAX), lock.path());
        let error = other.connections(&requested).unwrap_err().to_string();
        assert!(error.contains("another DUT has set it"), "{error}");
        assert_eq!(untouched.commands(), Vec::<String>::new());
        // the same DUT may continue
        dut.connections(&generated("conntrack,max=4000000,buckets=1048576"))
            .unwrap();
        assert_eq!(now(MAX), "4000000\n");
        assert_eq!(crate::dut::Dut::undo(&dut), Vec::<String>::new());
        assert_eq!(
            (now(MAX), now(BUCKETS)),
            ("262144\n".into(), "65536\n".into())
        );
        drop(dut);
        other.connections(&requested).unwrap();
    }

    #[test]
    fn a_machine_that_tracks_connections_of_its_own_is_left_alone() {
        let lock = tempfile::NamedTempFile::new().unwrap();
        let (dut, host) = part_of(machine("23", u64::MAX), lock.path());
        let requested = generated("conntrack,max=12000000,buckets=1048576");
        let error = dut.connections(&requested).unwrap_err().to_string();
        assert!(
            error.contains("which tracks 23 other connections"),
            "{error}"
        );
        assert_eq!(host.commands(), [format!("read {COUNT}")]);
        // the user has permitted it: --set-unconfined
        let place: Arc<dyn Host> =
            Arc::new(Scripted::new(|_, _| String::new()).with_files(Files::Ours));
        Linux { place, ..dut }.connections(&requested).unwrap();
    }

    #[test]
    fn settings_that_the_kernel_rejects_are_reported_and_undone() {
        let lock = tempfile::NamedTempFile::new().unwrap();
        let (dut, host) = part_of(machine("0", 100_000), lock.path());
        let requested = generated("conntrack,max=12000000,buckets=1048576");
        let error = dut.connections(&requested).unwrap_err().to_string();
        assert!(
            error.contains("nf_conntrack_buckets says 65536, not 1048576"),
            "{error}"
        );
        let now = |file: &str| host.query("sh", &["-c", &format!("cat {file}")]).unwrap();
        assert_eq!(
            (now(MAX), now(BUCKETS)),
            ("262144\n".into(), "65536\n".into())
        );
    }
}
