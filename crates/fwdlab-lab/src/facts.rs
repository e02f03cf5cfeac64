//! Facts of a host, read once at the start of a run and stored with it.
//!
//! It judges nothing (`preflight` does). A fact that cannot be read is left out. Start with
//! [`collect_facts`].

use std::collections::BTreeMap;

use fwdlab_model::facts::Facts;

use crate::host::Host;
use crate::placement::Placement;

/// Reads the facts of a host. Those about the test bed are added when it exists.
pub fn collect_facts(host: &dyn Host, placement: &Placement, privileged: bool) -> Facts {
    let text = |path: &str| text(host, path);
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
        threads_per_core: text("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
            .and_then(|siblings| threads_per_core(&siblings)),
        cpu_governor: text(&format!(
            "/sys/devices/system/cpu/cpu{dut_cpu}/cpufreq/scaling_governor"
        )),
        virtual_machine: cpuinfo_field(&cpuinfo, "flags")
            .is_some_and(|flags| flags.split_whitespace().any(|f| f == "hypervisor")),
        mitigations: mitigations(host),
        memory_bytes: memory_bytes(&text("/proc/meminfo").unwrap_or_default()),
        clock_source: text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        privileged,
        placement: placement.notes.clone(),
        driver: Some("veth".into()),
        ..Facts::default()
    }
}

fn text(host: &dyn Host, path: &str) -> Option<String> {
    let bytes = host.read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    (!text.is_empty()).then_some(text)
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

/// Returns the number of threads in the first CPU's list of siblings: two in `0-1` or `0,4`.
fn threads_per_core(siblings: &str) -> Option<u32> {
    let mut threads = 0;
    for part in siblings.split(',') {
        threads += match part.split_once('-') {
            None => 1,
            Some((from, to)) => to.parse::<u32>().ok()? + 1 - from.parse::<u32>().ok()?,
        };
    }
    Some(threads)
}

fn mitigations(host: &dyn Host) -> BTreeMap<String, String> {
    let folder = "/sys/devices/system/cpu/vulnerabilities/";
    let all = host.query("grep", &["-r", "", folder]).unwrap_or_default();
    let lines = all.lines().filter_map(|line| line.split_once(':'));
    lines
        .filter_map(|(file, state)| Some((file.strip_prefix(folder)?.into(), state.trim().into())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scripted::{Fails, Scripted};

    #[test]
    fn facts_are_those_of_the_host_and_absent_if_unknown() {
        let router = || {
            Scripted::new(|command, _| match command {
                "read /proc/cpuinfo" => {
                    "processor\t: 0\nprocessor\t: 1\nmodel name\t: ARM\n".into()
                }
                "read /proc/sys/kernel/osrelease" => "6.12.1\n".into(),
                "read /sys/devices/system/cpu/cpu0/topology/thread_siblings_list" => "0-1\n".into(),
                _ if command.starts_with("grep -r") => {
                    "/sys/devices/system/cpu/vulnerabilities/mds:Not affected\n".into()
                }
                _ => String::new(),
            })
        };
        let facts = collect_facts(&router(), &Placement::default(), true);
        assert_eq!((&*facts.kernel, facts.cpus), ("6.12.1", 2));
        assert_eq!(
            (&*facts.cpu_model, facts.threads_per_core),
            ("ARM", Some(2))
        );
        assert_eq!(facts.mitigations["mds"], "Not affected");
        assert_eq!(facts.clock_source, None);
        let lost = collect_facts(
            &router().failing(0, Fails::Lost),
            &Placement::default(),
            true,
        );
        assert_eq!(
            (&*lost.kernel, lost.cpus, lost.threads_per_core),
            ("", 0, None)
        );
        assert!(lost.mitigations.is_empty());
    }

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
