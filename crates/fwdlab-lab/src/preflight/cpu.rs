//! Checks that there are enough CPUs, and that they keep one speed.
//!
//! Start with [`checks`]; `noise` measures how steady they really are.

use super::{Check, text};
use crate::placement::Placement;

const FOLDER: &str = "/sys/devices/system/cpu";

pub(super) fn checks() -> Vec<Check> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let governors: Vec<(usize, String)> = text(&format!("{FOLDER}/online"))
        .map(|online| cpu_list(&online))
        .unwrap_or_default()
        .into_iter()
        .filter_map(|cpu| {
            Some((
                cpu,
                text(&format!("{FOLDER}/cpu{cpu}/cpufreq/scaling_governor"))?,
            ))
        })
        .collect();
    let placement = Placement::choose(&[], 1).unwrap_or_default();
    let dut_cpu = placement.dut_cpus.first().copied().unwrap_or(0);
    vec![
        count(cpus),
        governor(&governors),
        threads(
            &cpu_list(
                &text(&format!(
                    "{FOLDER}/cpu{dut_cpu}/topology/thread_siblings_list"
                ))
                .unwrap_or_default(),
            ),
            dut_cpu,
            &placement.generator_cpus,
        ),
        hypervisor(
            &text("/proc/cpuinfo").unwrap_or_default(),
            text("/sys/class/dmi/id/product_name").as_deref(),
        ),
    ]
}

fn count(cpus: usize) -> Check {
    const NAME: &str = "cpus";
    match cpus {
        0 | 1 => Check::warn(
            NAME,
            "1: generator and DUT share it, so the DUT cannot be overloaded and figures mean little",
            "give this machine, container or process a second CPU",
        ),
        2 | 3 => Check::ok(
            NAME,
            format!("{cpus}: one for the generator, one for the DUT"),
        ),
        more => Check::ok(NAME, format!("{more}")),
    }
}

/// Judges the frequency governor of every CPU that has one.
fn governor(governors: &[(usize, String)]) -> Check {
    const NAME: &str = "cpu governor";
    let slow: Vec<&(usize, String)> = governors
        .iter()
        .filter(|(_, name)| name != "performance")
        .collect();
    match (governors, &slow[..]) {
        ([], _) => Check::skip(
            NAME,
            "none: this kernel does not control the frequency (usual in virtual machines)",
        ),
        (_, []) => Check::ok(NAME, "performance"),
        (_, [(_, name), ..]) => {
            let cpus: Vec<String> = slow.iter().map(|(cpu, _)| cpu.to_string()).collect();
            Check::warn(
                NAME,
                format!(
                    "{name} on CPU {}: the clock frequency changes with the load, and the results with it",
                    cpus.join(",")
                ),
                format!("echo performance | sudo tee {FOLDER}/cpu*/cpufreq/scaling_governor"),
            )
        }
    }
}

/// Judges which CPUs are threads of the DUT's core.
fn threads(siblings: &[usize], dut_cpu: usize, generator_cpus: &[usize]) -> Check {
    const NAME: &str = "smt";
    let others: Vec<String> = siblings
        .iter()
        .filter(|&&cpu| cpu != dut_cpu)
        .map(usize::to_string)
        .collect();
    if siblings.is_empty() {
        return Check::skip(NAME, "this kernel does not report it");
    }
    if others.is_empty() {
        return Check::ok(
            NAME,
            format!("CPU {dut_cpu}, the DUT's, is the only thread of its core"),
        );
    }
    let finding = if generator_cpus
        .iter()
        .any(|cpu| *cpu != dut_cpu && siblings.contains(cpu))
    {
        format!(
            "the DUT's CPU {dut_cpu} and the generator are threads of one core: each slows the other down"
        )
    } else {
        format!(
            "the DUT's CPU {dut_cpu} shares its core with CPU {}: processes on that CPU slow it down",
            others.join(",")
        )
    };
    Check::warn(
        NAME,
        finding,
        format!("echo off | sudo tee {FOLDER}/smt/control"),
    )
}

/// Judges `/proc/cpuinfo` and the firmware's name of the machine.
fn hypervisor(cpuinfo: &str, product: Option<&str>) -> Check {
    const NAME: &str = "hypervisor";
    let virtual_machine =
        cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .any(|(key, value)| {
                key.trim() == "flags" && value.split_whitespace().any(|flag| flag == "hypervisor")
            });
    if !virtual_machine {
        return Check::ok(NAME, "none");
    }
    let product = product
        .filter(|name| !name.is_empty())
        .map(|name| format!(" ({name})"))
        .unwrap_or_default();
    Check {
        fix: None,
        ..Check::warn(
            NAME,
            format!(
                "this is a virtual machine{product}: neighbours use its CPU time; figures compare settings on this machine, \
                 not machines"
            ),
            "",
        )
    }
}

/// Parses CPU numbers of a list such as `0-3,8`.
fn cpu_list(list: &str) -> Vec<usize> {
    list.trim()
        .split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse().ok()?..=last.parse().ok()?)
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    fn all(governor: &str, cpus: usize) -> Vec<(usize, String)> {
        (0..cpus).map(|cpu| (cpu, governor.to_owned())).collect()
    }

    #[test]
    fn one_cpu_is_too_few() {
        assert_eq!(count(1).status, Status::Warn);
        assert_eq!(count(2).status, Status::Ok);
        assert_eq!(count(64).status, Status::Ok);
    }

    #[test]
    fn a_laptop_saves_power() {
        let check = governor(&all("powersave", 8));
        assert_eq!(check.status, Status::Warn);
        assert!(
            check
                .finding
                .starts_with("powersave on CPU 0,1,2,3,4,5,6,7"),
            "{check:?}"
        );
        assert!(
            check
                .fix
                .is_some_and(|fix| fix.contains("scaling_governor"))
        );

        let mut one = all("performance", 4);
        assert_eq!(governor(&one).status, Status::Ok);
        one[2].1 = "schedutil".into();
        assert!(governor(&one).finding.starts_with("schedutil on CPU 2:"));
        assert_eq!(governor(&[]).status, Status::Skip);
    }

    #[test]
    fn threads_of_one_core_disturb_each_other() {
        // 8 cores, 16 threads: CPU 15 is the second thread of core 7
        let far = threads(&cpu_list("7,15"), 15, &[0]);
        assert!(
            far.status == Status::Warn && far.finding.contains("with CPU 7"),
            "{far:?}"
        );
        // 2 vCPUs that are one core
        let near = threads(&cpu_list("0-1"), 1, &[0]);
        assert!(
            near.status == Status::Warn && near.finding.contains("threads of one core"),
            "{near:?}"
        );
        assert_eq!(threads(&[1], 1, &[0]).status, Status::Ok);
        assert_eq!(threads(&[], 1, &[0]).status, Status::Skip);
    }

    #[test]
    fn a_virtual_machine_is_detected() {
        let cpuinfo =
            "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu vme hypervisor lahf_lm\n";
        let check = hypervisor(cpuinfo, Some("KVM"));
        assert!(
            check.status == Status::Warn && check.finding.contains("(KVM)"),
            "{check:?}"
        );
        assert_eq!(
            hypervisor("flags\t\t: fpu vme\n", Some("ThinkPad")).status,
            Status::Ok
        );
        assert_eq!(
            hypervisor("model name\t: hypervisor\n", None).status,
            Status::Ok
        );
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpu_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(cpu_list("5"), [5]);
        assert_eq!(cpu_list(""), Vec::<usize>::new());
    }
}
