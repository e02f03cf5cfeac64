//! Results as a plain table: name, rate, variation, and the ratio to another contender in the same
//! rounds.
//!
//! Start with [`Table::row`].

use crate::contender::{Rates, median};

/// The results of one part.
pub struct Table {
    rows: Vec<Result<Rates, (String, String)>>,
}

/// Prints a description of this machine.
pub fn machine() {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    println!(
        "{}, Linux {}",
        model.map_or("unknown CPU", |model| model
            .trim_start_matches([' ', '\t', ':'])),
        kernel.trim()
    );
}

impl Table {
    pub fn new(title: &str, rows: Vec<Result<Rates, (String, String)>>) -> Table {
        println!("\n{title}");
        println!(
            "{:34} {:>8} {:>7} {:>7}   {:36} {:>7}",
            "", "Mpps", "ns", "spread", "ratio in the same round", "target"
        );
        Table { rows }
    }

    /// Returns the fastest contender whose name begins like this.
    pub fn best(&self, begin: &str) -> Option<&str> {
        let rows = self.rows.iter().flatten();
        let candidates = rows.filter(|rates| rates.name.starts_with(begin));
        candidates
            .max_by(|a, b| median(&mut a.pps.clone()).total_cmp(&median(&mut b.pps.clone())))
            .map(|rates| rates.name.as_str())
    }

    /// Prints one row. `against`: the name of another contender, and the target ratio, if any.
    pub fn row(&self, name: &str, against: Option<(&str, Option<f64>)>) {
        let find = |name: &str| {
            let rows = self.rows.iter().flatten();
            rows.into_iter().find(|rates| rates.name == name)
        };
        let Some(rates) = find(name) else {
            return;
        };
        let mut pps = rates.pps.clone();
        let rate = median(&mut pps);
        print!(
            "{name:34} {:8.3} {:7.1} {:6.1}%",
            rate / 1e6,
            1e9 / rate,
            100.0 * spread(&mut pps)
        );
        if let Some((other, target)) = against
            && let Some(other) = find(other)
        {
            let ratios = rates.pps.iter().zip(&other.pps);
            let mut ratios: Vec<f64> = ratios.map(|(ours, its)| ours / its).collect();
            let ratio = median(&mut ratios);
            let words = format!(
                "{ratio:.2} ± {:.2} x {}",
                spread(&mut ratios) * ratio / 2.0,
                other.name
            );
            print!("   {words:36}");
            if let Some(target) = target {
                let met = if ratio >= target { "met" } else { "missed" };
                print!(" {target:7.2}  {met}");
            }
        }
        println!();
    }

    /// Prints all contenders without a row so far, and why some have no result.
    pub fn rest(&self, shown: &[&str]) {
        for row in &self.rows {
            match row {
                Ok(rates) if !shown.contains(&rates.name.as_str()) => self.row(&rates.name, None),
                Ok(_) => {}
                Err((name, reason)) => println!("{name:34} left out: {reason}"),
            }
        }
    }
}

/// Returns the interquartile range of the values, relative to their median.
fn spread(values: &mut [f64]) -> f64 {
    let middle = median(values);
    match values.len() {
        0..4 => (values[values.len() - 1] - values[0]) / middle,
        n => (values[n * 3 / 4] - values[n / 4]) / middle,
    }
}
