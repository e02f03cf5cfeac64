//! Starts DPDK in this process, once, with the first port: without devices, which are added by
//! name.
//!
//! With free huge pages it uses them, and otherwise ordinary memory, which only virtual devices can
//! use. Nothing is shared with other processes of DPDK. Start with [`start`].

use std::sync::OnceLock;
use std::{fs, thread};

use fwdlab_model::dpdk::is_virtual;
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::sys;

/// The memory of a process without huge pages, in MB; it is used as ports need it.
const MEMORY_MB: &str = "2048";

/// How it was started: with huge pages, or not; or why it was not.
static STARTED: OnceLock<Result<bool, String>> = OnceLock::new();

/// Starts DPDK, if it has not been started, so that this device can be used.
///
/// # Errors
/// Why that is not possible, and what to do.
pub(crate) fn start(device: &str) -> Result<(), String> {
    let needs_huge_pages = !is_virtual(device);
    if needs_huge_pages && STARTED.get().is_none() && !has_huge_pages() {
        return Err(no_huge_pages());
    }
    // DPDK pins the thread that starts it
    let begin = || thread::spawn(start_once).join();
    let started = STARTED.get_or_init(|| {
        begin().unwrap_or_else(|_| Err("the thread that starts DPDK panicked".into()))
    });
    match started {
        Ok(false) if needs_huge_pages => Err(format!(
            "DPDK was started here without huge pages, for a virtual device; {}",
            no_huge_pages()
        )),
        Ok(_) => Ok(()),
        Err(reason) => Err(reason.clone()),
    }
}

fn no_huge_pages() -> String {
    "the drivers of network cards need huge pages, and none is free: \
     echo 512 > /proc/sys/vm/nr_hugepages"
        .into()
}

/// Returns true if the kernel has a free huge page of any size.
fn has_huge_pages() -> bool {
    let sizes = fs::read_dir("/sys/kernel/mm/hugepages");
    let mut sizes = sizes.into_iter().flatten().flatten();
    sizes.any(|size| {
        let free = fs::read_to_string(size.path().join("free_hugepages"));
        free.is_ok_and(|free| free.trim() != "0")
    })
}

/// Returns the arguments for a process with these CPUs.
fn arguments(cpus: &[usize], huge_pages: bool, has_pci: bool) -> Vec<String> {
    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
    let mut arguments = vec![
        "fwdlab-dpdk".to_owned(),
        // one thread of DPDK's own, which may use any CPU
        format!("--lcores=0@({})", cpus.join(",")),
        "--no-telemetry".into(),
        "--log-level=warning".into(),
        format!("--file-prefix={}", prefix()),
    ];
    match has_pci {
        // only this device, which has no driver: cards belong to others until they are asked for
        true => arguments.push("--allow=0000:00:00.0".into()),
        false => arguments.push("--no-pci".into()),
    }
    match huge_pages {
        true => arguments.push("--in-memory".into()),
        // DPDK refuses both together
        false => arguments.extend(["--no-huge", "--no-shconf", "-m", MEMORY_MB].map(Into::into)),
    }
    arguments
}

/// Returns the name of the folder that DPDK creates for this process.
fn prefix() -> String {
    format!("fwdlab-{}", std::process::id())
}

/// Removes that folder, in which it stores nothing.
fn remove_litter() {
    let of_user = std::env::var("XDG_RUNTIME_DIR").unwrap_or_else(|_| "/tmp".into());
    for parent in ["/var/run", &of_user] {
        let _ = fs::remove_dir(format!("{parent}/dpdk/{}", prefix()));
    }
}

fn start_once() -> Result<bool, String> {
    let set = sched_getaffinity(None).map_err(|e| format!("cannot read the usable CPUs: {e}"))?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect();
    let huge_pages = has_huge_pages();
    let has_pci = fs::read_dir("/sys/bus/pci/devices").is_ok_and(|mut all| all.next().is_some());
    let started = sys::start(&arguments(&cpus, huge_pages, has_pci));
    remove_litter();
    match started {
        Ok(()) => Ok(huge_pages),
        Err(error) => Err(format!(
            "{} does not start: {error}{}",
            sys::version(),
            logged()
        )),
    }
}

/// Returns what DPDK has logged since the last call, as the end of a sentence.
pub(crate) fn logged() -> String {
    let logged = sys::logged();
    let lines: Vec<&str> = logged.lines().map(str::trim).collect();
    match lines.concat().is_empty() {
        true => String::new(),
        false => format!(" (DPDK: {})", lines.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_own_files_and_no_card_by_itself() {
        let with = arguments(&[0, 3], true, true);
        assert!(with.contains(&"--lcores=0@(0,3)".into()), "{with:?}");
        assert!(
            with.contains(&"--allow=0000:00:00.0".into()) && !with.contains(&"--no-huge".into())
        );
        let without = arguments(&[1], false, false);
        assert!(without.contains(&"--no-huge".into()) && without.contains(&"--no-pci".into()));
    }
}
