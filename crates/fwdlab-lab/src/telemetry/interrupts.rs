//! Interrupts of devices: their counts by CPU, and their affinities.
//!
//! Pure functions of texts. Start with [`interrupts`].

use fwdlab_model::telemetry::Interrupt;

/// Parses `/proc/interrupts`, and the files below `/proc/irq` as
/// `/proc/irq/41/smp_affinity_list:0-3`. Interrupts of the CPUs themselves have no number and are
/// left out.
pub(crate) fn interrupts(table: &str, affinity: &str) -> Vec<Interrupt> {
    let cpus: Vec<usize> = (table.lines().next().unwrap_or_default())
        .split_whitespace()
        .filter_map(|name| name.strip_prefix("CPU")?.parse().ok())
        .collect();
    if cpus.is_empty() {
        return Vec::new();
    }
    let place = |number: u32, file: &str| {
        let path = format!("/proc/irq/{number}/{file}:");
        let found = affinity.lines().find_map(|line| line.strip_prefix(&path));
        found
            .map(|list| list.trim().to_owned())
            .filter(|list| !list.is_empty())
    };
    let of = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let number = number.trim().parse().ok()?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let mut counts = vec![0; cpus.iter().max().map_or(0, |most| most + 1)];
        for (cpu, count) in cpus.iter().zip(&words) {
            counts[*cpu] = count.parse().ok()?;
        }
        // after the counts: chip, number there and kind, then the driver's name; shared ones are
        // separated by commas
        let name = words.get(cpus.len()..)?;
        let name = name
            .split_first()
            .map_or(String::new(), |(_, rest)| rest.join(" "));
        let name = name.split_once(' ').map_or(name.as_str(), |(_, name)| name);
        Some(Interrupt {
            number,
            name: name.to_owned(),
            counts,
            affinity: place(number, "smp_affinity_list"),
            effective: place(number, "effective_affinity_list"),
        })
    };
    table.lines().skip(1).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_count_and_with_their_location() {
        let table = "           CPU0       CPU2       \n \
            24:          1          0  IO-APIC   5-edge      ACPI:Ged\n \
            41:      21356          7 PCI-MSIX-0000:00:04.0   1-edge      virtio3-rx\n\
            NMI:          0          0   Non-maskable interrupts\nERR:          0\n";
        let affinity = "/proc/irq/41/smp_affinity_list:0-3\n/proc/irq/41/effective_affinity_list:2\n/proc/irq/4/smp_affinity_list:1\n";
        let all = interrupts(table, affinity);
        assert_eq!(all.len(), 2);
        assert_eq!(all[1].name, "virtio3-rx");
        assert_eq!(all[1].counts, [21356, 0, 7], "CPU 1 is offline");
        assert_eq!(all[1].affinity.as_deref(), Some("0-3"));
        assert_eq!(all[1].effective.as_deref(), Some("2"));
        assert_eq!((all[0].number, all[0].affinity.as_deref()), (24, None));
        assert!(interrupts("", "").is_empty());
        assert!(interrupts("\u{fffd} 17 eth\n\n5: x", "").is_empty());
    }
}
