//! CPUs of a host: their times, software interrupts, backlog counters, and nodes.
//!
//! Pure functions of the kernel's texts, which [`super::read`] reads. Start with [`times`].

use std::collections::BTreeMap;

use fwdlab_model::telemetry::{CpuTime, Softnet};

/// Parses `/proc/stat`: after `cpu0` user nice system idle iowait irq softirq steal, in ticks of 10
/// ms (`man 5 proc`). User time includes that of guests of this host.
pub(super) fn times(text: &str) -> Vec<CpuTime> {
    let of = |line: &str| {
        let (name, numbers) = line.split_once(' ')?;
        let cpu = name.strip_prefix("cpu")?.parse().ok()?;
        let n: Vec<u64> = (numbers.split_whitespace())
            .map_while(|n| n.parse().ok())
            .collect();
        let at = |index: usize| n.get(index).copied().unwrap_or(0);
        // kernels before 2.6.11 had no more than seven
        (n.len() >= 7).then(|| CpuTime {
            cpu,
            user_ticks: at(0) + at(1),
            system_ticks: at(2),
            idle_ticks: at(3) + at(4),
            irq_ticks: at(5),
            softirq_ticks: at(6),
            steal_ticks: at(7),
        })
    };
    text.lines().filter_map(of).collect()
}

/// Parses `/proc/softirqs`: a column for each existing CPU, a row for each kind.
pub(super) fn softirqs(text: &str) -> BTreeMap<String, Vec<u64>> {
    let of = |line: &str| {
        let (kind, numbers) = line.split_once(':')?;
        let counts = numbers.split_whitespace().map_while(|n| n.parse().ok());
        Some((kind.trim().to_owned(), counts.collect()))
    };
    text.lines().filter_map(of).collect()
}

/// Parses `/proc/net/softnet_stat`: a row for each online CPU, hexadecimal: processed, dropped,
/// squeezed; from kernel 5.14 the thirteenth column is the CPU, before that rows are counted.
pub(super) fn softnet(text: &str) -> Vec<Softnet> {
    let of = |(row, line): (u32, &str)| {
        let n: Vec<u64> = (line.split_whitespace())
            .map_while(|n| u64::from_str_radix(n, 16).ok())
            .collect();
        Some(Softnet {
            cpu: n.get(12).map_or(row, |cpu| *cpu as u32),
            processed: *n.first()?,
            dropped: *n.get(1)?,
            squeezed: *n.get(2)?,
        })
    };
    (0..).zip(text.lines()).filter_map(of).collect()
}

/// Parses lines such as `/sys/devices/system/node/node1/cpulist:8-15`. Returns the node of each
/// CPU.
pub(super) fn nodes(text: &str) -> BTreeMap<u32, String> {
    let of = |line: &str| {
        let (path, list) = line.split_once(':')?;
        let node = path
            .split('/')
            .find_map(|part| part.strip_prefix("node")?.parse().ok())?;
        Some((node, list.trim().to_owned()))
    };
    text.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_each_cpu() {
        let text = "cpu  10 20 30 40 50 60 70 80 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\ncpu11 1 0 0 0 0 0 0\nintr 5\n";
        let times = times(text);
        assert_eq!(times.len(), 2, "the sum of all is none: {times:?}");
        let first = times[0];
        assert_eq!((first.cpu, first.user_ticks, first.system_ticks), (0, 3, 3));
        assert_eq!((first.idle_ticks, first.irq_ticks), (9, 6));
        assert_eq!((first.softirq_ticks, first.steal_ticks), (7, 8));
        assert_eq!(first.total_ticks(), 36);
        assert_eq!((times[1].cpu, times[1].steal_ticks), (11, 0));
        assert_eq!(self::times("\u{fffd} 17 eth\n\ncpu"), []);
    }

    #[test]
    fn software_interrupts_and_backlogs() {
        let text = "                    CPU0       CPU1       \n      NET_TX:        278        361\n      NET_RX:    1234567    7654321\n";
        let all = softirqs(text);
        assert_eq!(all["NET_RX"], [1_234_567, 7_654_321]);
        assert_eq!(all.len(), 2);
        // from a machine whose CPU 1 is offline, kernel 6.18
        let text = "07496e7e 00000001 00000010 0 0 0 0 0 0 0000000b 0 0 00000000 0 0\n\
            36cbb31b 00000000 000000fa 0 0 0 0 0 0 0000000c 0 0 00000002 0 0\n";
        let all = softnet(text);
        assert_eq!(
            all[0],
            Softnet {
                cpu: 0,
                processed: 0x0749_6e7e,
                dropped: 1,
                squeezed: 16
            }
        );
        assert_eq!((all[1].cpu, all[1].squeezed), (2, 250));
        // kernel 4.19
        let text = "0000000a 0 1 0 0 0 0 0 0 0 0\n0000000b 0 0 0 0 0 0 0 0 0 0\n";
        assert_eq!(softnet(text)[1].cpu, 1);
    }

    #[test]
    fn nodes_of_cpus() {
        let text = "/sys/devices/system/node/node0/cpulist:0-7,16-23\n/sys/devices/system/node/node1/cpulist:8-15\n";
        assert_eq!(
            nodes(text),
            [(0, "0-7,16-23".into()), (1, "8-15".into())].into()
        );
    }
}
