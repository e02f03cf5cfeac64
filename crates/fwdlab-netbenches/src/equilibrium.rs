//! The result line of the `equilibrium` script, which searches for the highest load that is
//! forwarded.
//!
//! Its steps are recognised as lines of a log and not kept: their pkt-gen output is not in the
//! archive. Start with [`Equilibrium::parse`].

use super::scan::{Scan, find};

/// The estimate of equilibrium.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Equilibrium {
    /// The last measured rate, in `unit`.
    pub value: f64,
    /// The largest rate seen, if printed.
    pub max: Option<f64>,
    /// The unit of the numbers.
    pub unit: Unit,
}

/// The unit of an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Frames per second; the script prints thousands.
    FramesPerSecond,
    /// Layer-2 bit/s of frames without FCS; the script prints Mb/s.
    BitsPerSecond,
}

impl Equilibrium {
    /// Parses `Estimated Equilibrium Ethernet throughput= 904 Mb/s (maximum value seen: 905 Mb/s)`.
    pub fn parse(line: &[u8]) -> Option<Equilibrium> {
        let start = find(line, b"Estimated Equilibrium")?;
        let equals = start + find(&line[start..], b"=")?;
        let mut scan = Scan(&line[equals + 1..]);
        scan.blanks();
        let number = scan.decimal()?;
        scan.blanks();
        let (factor, unit) = unit(scan.0)?;
        let max = find(scan.0, b"seen:").and_then(|at| {
            let mut scan = Scan(&scan.0[at + b"seen:".len()..]);
            scan.blanks();
            scan.decimal()
        });
        Some(Equilibrium {
            value: number * factor,
            max: max.map(|max| max * factor),
            unit,
        })
    }
}

fn unit(text: &[u8]) -> Option<(f64, Unit)> {
    let lower: Vec<u8> = text.iter().take(8).map(u8::to_ascii_lowercase).collect();
    [
        (&b"kpps"[..], 1e3, Unit::FramesPerSecond),
        (b"mpps", 1e6, Unit::FramesPerSecond),
        (b"pps", 1.0, Unit::FramesPerSecond),
        (b"kb/s", 1e3, Unit::BitsPerSecond),
        (b"mb/s", 1e6, Unit::BitsPerSecond),
        (b"gb/s", 1e9, Unit::BitsPerSecond),
    ]
    .into_iter()
    .find(|(name, ..)| lower.starts_with(name))
    .map(|(_, factor, unit)| (factor, unit))
}

/// Returns true for a line that the script prints for each step.
pub(super) fn is_step(line: &[u8]) -> bool {
    let text = line.trim_ascii_start();
    [
        &b"Iteration "[..],
        b"- Offering load",
        b"- Step",
        b"- Trend",
        b"- Warning",
        b"- Measured forwarding rate",
        b"- Benchmark",
        b"- ",
        b"Benchmark tool using equilibrium",
    ]
    .iter()
    .any(|beginning| text.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_units() {
        assert_eq!(
            Equilibrium::parse(b"Estimated Equilibrium Ethernet throughput= 904 Mb/s (maximum value seen: 905 Mb/s)"),
            Some(Equilibrium { value: 904e6, max: Some(905e6), unit: Unit::BitsPerSecond })
        );
        assert_eq!(
            Equilibrium::parse(b"Estimated Equilibrium Ethernet throughput= 512 Kpps (maximum value seen: 520 Kpps)"),
            Some(Equilibrium { value: 512e3, max: Some(520e3), unit: Unit::FramesPerSecond })
        );
        for bad in [
            "Estimated Equilibrium",
            "Estimated Equilibrium x= Mb/s",
            "Estimated Equilibrium x= 5 apples",
            "",
        ] {
            assert_eq!(Equilibrium::parse(bad.as_bytes()), None, "{bad}");
        }
        assert!(is_step(b"  - Offering load = 500 Mb/s"));
        assert!(!is_step(b"Terminated"));
    }
}
