//! Facts of the host, read once at the start of a run and kept with it.
//!
//! It judges nothing (`preflight` does). A fact that cannot be read stays absent.

use std::collections::BTreeMap;
use std::fs;

use fwdlab_model::facts::Facts;

use crate::placement::Placement;

/// Reads the facts of this host. What concerns the test bed is filled in when it stands.
pub fn host(placement: &Placement, privileged: bool) -> Facts {
    let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
    let dut_cpu = placement.dut_cpus.first().copied().unwrap_or(0);
    Facts {
        kernel: text("/proc/sys/kernel/osrelease").unwrap_or_default(),
        kernel_command_line: text("/proc/cmdline"),
        cpu_model: cpuinfo_field(&cpuinfo, "model name").unwrap_or_default(),
        cpus: cpuinfo
            .lines()
            .filter(|l| l.starts_with("processor"))
            .count() as u32,
        threads_per_core: threads_per_core(),
        cpu_governor: text(&format!(
            "/sys/devices/system/cpu/cpu{dut_cpu}/cpufreq/scaling_governor"
        )),
        virtual_machine: cpuinfo_field(&cpuinfo, "flags")
            .is_some_and(|flags| flags.split_whitespace().any(|f| f == "hypervisor")),
        mitigations: mitigations(),
        memory_bytes: memory_bytes(&text("/proc/meminfo").unwrap_or_default()),
        clock_source: text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        privileged,
        placement: placement.notes.clone(),
        driver: Some("veth".into()),
        ..Facts::default()
    }
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|t| t.trim().to_owned())
        .filter(|t| !t.is_empty())
}

fn cpuinfo_field(cpuinfo: &str, name: &str) -> Option<String> {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
}

fn memory_bytes(meminfo: &str) -> u64 {
    meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

/// `0-1` or `0,4` in the first CPU's list of siblings are two threads.
fn threads_per_core() -> Option<u32> {
    let siblings = text("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")?;
    let mut threads = 0;
    for part in siblings.split(',') {
        threads += match part.split_once('-') {
            None => 1,
            Some((from, to)) => to.parse::<u32>().ok()? + 1 - from.parse::<u32>().ok()?,
        };
    }
    Some(threads)
}

fn mitigations() -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return BTreeMap::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((name, text(entry.path().to_str()?)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let cpuinfo =
            "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu hypervisor\n\nprocessor\t: 1\n";
        assert_eq!(cpuinfo_field(cpuinfo, "model name").unwrap(), "AMD EPYC");
        assert_eq!(cpuinfo_field(cpuinfo, "bogomips"), None);
        assert_eq!(
            memory_bytes("MemTotal:       24576 kB\nMemFree: 1 kB\n"),
            24576 * 1024
        );
        assert_eq!(memory_bytes(""), 0);
    }
}
