//! Sensors of a host: frequency of its CPUs, temperatures, meters of energy and power.
//!
//! Pure functions of texts, lines of `PATH:CONTENT` each. Start with [`read`].

use std::collections::BTreeMap;

use fwdlab_model::telemetry::{EnergyCount, Reading};

/// The name of the meter that is a user's command.
pub(super) const COMMAND: &str = "command";

/// Adds the values of sensors to a reading: cpufreq in kHz, thermal zones and hwmon in thousandths
/// of a degree, hwmon's power in microwatts, energy of powercap in microjoules
/// (Documentation/hwmon/sysfs-interface.rst, Documentation/power/powercap).
pub(super) fn read(text: &str, into: &mut Reading) {
    let files: BTreeMap<&str, &str> = (text.lines())
        .filter_map(|line| {
            // names of powercap's zones contain colons
            let (path, content) = line.rsplit_once(':')?;
            Some((path, content.trim()))
        })
        .collect();
    for (path, content) in &files {
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
        let number = content.parse::<f64>().ok();
        let beside = |name: &str| files.get(format!("{folder}/{name}").as_str()).copied();
        let place = folder.rsplit('/').next().unwrap_or_default();
        match (file, number) {
            ("scaling_cur_freq", Some(khz)) => {
                let cpu = path
                    .split('/')
                    .find_map(|part| part.strip_prefix("cpu")?.parse().ok());
                into.frequency_mhz
                    .extend(cpu.map(|cpu: u32| (cpu, khz / 1000.0)));
            }
            ("temp", Some(thousandths)) => {
                let name = format!("{} ({place})", beside("type").unwrap_or("zone"));
                into.temperature_celsius.insert(name, thousandths / 1000.0);
            }
            ("energy_uj", Some(_)) => {
                let range = beside("max_energy_range_uj").and_then(|range| range.parse().ok());
                let name = format!("{} ({place})", beside("name").unwrap_or("zone"));
                if let (Ok(microjoules), Some(range_microjoules)) = (content.parse(), range) {
                    let count = EnergyCount {
                        microjoules,
                        range_microjoules,
                    };
                    into.energy.insert(name, count);
                }
            }
            (file, Some(number)) => {
                let name = format!("{} ({place} {file})", beside("name").unwrap_or("sensor"));
                if file.starts_with("temp") && file.ends_with("_input") {
                    into.temperature_celsius.insert(name, number / 1000.0);
                } else if file.starts_with("power") && file.ends_with("_average") {
                    into.power_watts.insert(name, number / 1e6);
                }
            }
            _ => {}
        }
    }
}

/// Parses the output of a user's command for power, in watts.
pub(super) fn watts(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let number = text
        .split_whitespace()
        .next()
        .and_then(|n| n.parse::<f64>().ok());
    let is_watts = number.filter(|watts| watts.is_finite() && *watts >= 0.0);
    is_watts.ok_or_else(|| {
        let output: String = text.chars().take(40).collect();
        format!(
            "the command for power printed \"{}\" and not a number of watts",
            output.escape_debug()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensors_with_their_units() {
        let text = "/sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq:2400000\n\
            /sys/class/thermal/thermal_zone0/type:x86_pkg_temp\n/sys/class/thermal/thermal_zone0/temp:45000\n\
            /sys/class/hwmon/hwmon1/name:coretemp\n/sys/class/hwmon/hwmon1/temp1_input:51000\n\
            /sys/class/hwmon/hwmon2/name:power_meter\n/sys/class/hwmon/hwmon2/power1_average:86500000\n\
            /sys/class/powercap/intel-rapl:0/name:package-0\n/sys/class/powercap/intel-rapl:0/energy_uj:123456789\n\
            /sys/class/powercap/intel-rapl:0/max_energy_range_uj:262143328850\n";
        let mut reading = Reading::default();
        read(text, &mut reading);
        assert_eq!(reading.frequency_mhz, [(3, 2400.0)].into());
        assert_eq!(
            reading.temperature_celsius["x86_pkg_temp (thermal_zone0)"],
            45.0
        );
        assert_eq!(
            reading.temperature_celsius["coretemp (hwmon1 temp1_input)"],
            51.0
        );
        assert_eq!(
            reading.power_watts["power_meter (hwmon2 power1_average)"],
            86.5
        );
        let energy = reading.energy["package-0 (intel-rapl:0)"];
        assert_eq!(
            (energy.microjoules, energy.range_microjoules),
            (123_456_789, 262_143_328_850)
        );
        let mut none = Reading::default();
        read("\u{fffd} 17: eth\n\n", &mut none);
        assert_eq!(none, Reading::default());
    }

    #[test]
    fn watts_are_read_from_a_command() {
        assert_eq!(watts(" 84.5 W\n"), Ok(84.5));
        assert!(watts("no meter\n").unwrap_err().contains("no meter"));
        assert!(watts("-3").is_err() && watts("").is_err());
    }
}
