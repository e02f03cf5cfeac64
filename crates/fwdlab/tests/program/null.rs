//! Campaigns without any difference: how often `compare` reports one.

use serde_json::Value;

use crate::support::{Lab, list};

/// Test cases per campaign; the DUT has one core, so that flows make no difference.
const CASES: usize = 40;
/// Campaigns, each with its own noise.
const CAMPAIGNS: usize = 4;

/// Hundreds of simulated campaigns.
mod slow {
    use super::*;

    /// Makes 160 comparisons of five iterations with five, on a DUT that varies by 1 % from trial to
    /// trial. One verdict in twenty may be wrong; with more than 5 ± 2 %, users would stop trusting
    /// them. The tests of `stats` make thousands of comparisons.
    #[test]
    fn campaigns_without_a_difference_raise_few_alarms() {
        let lab = Lab::new();
        let (mut compared, mut wrong) = (0, 0);
        for seed in 0..CAMPAIGNS {
            for part in ["a", "b"] {
                let flows: Vec<String> = (1..=CASES).map(|n| n.to_string()).collect();
                let number = 2 * seed + usize::from(part == "b");
                let text = format!(
                    "campaign = 'null-{seed}-{part}'\niterations = 5\nseed = {number}\n[bed]\nengine = 'sim'\n\
                 dut = 'capacity=1e6,noise=0.01'\nmax = '3Mpps'\n[matrix]\nflows = [{}]\n\
                 [procedure]\nid = 'mrr'\ntrials = 1\nfor = '100ms'",
                    flows.join(", ")
                );
                let path = lab.path().join("null.toml");
                std::fs::write(&path, text).unwrap();
                lab.run(&["run", path.to_str().unwrap(), "-q"]).code(0);
            }
            let ended = lab.run(&["compare", "@2", "@1", "--json"]);
            let outcome: Value = serde_json::from_str(&ended.code(0).out).unwrap();
            for row in list(&outcome["rows"]) {
                compared += 1;
                let verdict = row["comparisons"][0]["verdict"].as_str().unwrap();
                wrong += usize::from(verdict != "no_difference");
            }
        }
        assert_eq!(compared, CASES * CAMPAIGNS);
        let percent = 100.0 * wrong as f64 / compared as f64;
        println!("{wrong} of {compared} comparisons of the same: {percent:.1} %");
        assert!(
            percent <= 7.0,
            "{wrong} of {compared} null comparisons raise an alarm"
        );
        assert!(wrong > 0, "no alarm in {compared}: is anything compared?");
    }
}
