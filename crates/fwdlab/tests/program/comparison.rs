//! `quick --vs`: finds a known effect, and reports its interval, its control and its rebuilds.

use std::fs;

use serde_json::Value;

use crate::formats::follows;
use crate::support::{Lab, all_outcomes, count, example, json_lines, list, number, skipped};

mod alone {
    use super::*;

    #[test]
    fn a_hundred_rules_have_a_cost_and_the_control_is_shown() {
        let Some(lab) = Lab::root_alone() else { return };
        let rules = example("nft-100-rules");
        let table = "nft add table ip empty";
        let arguments = format!("quick --vs {rules} --vs '{table}' --for 14s --rebuilds 3 --json");
        // during other tests the generator may stall; the program then reports that instead of a
        // difference
        let mut ended = lab.run(&arguments);
        if ended.code != 0 {
            fs::remove_dir_all(lab.runs()).unwrap();
            ended = lab.run(&arguments);
        }
        if ended.code == 5 || ended.err.contains("cannot overload") {
            return skipped("this machine is too noisy to tell, twice");
        }
        let document = ended.code(0).document();

        let found = all_outcomes(&document).into_iter();
        let points = found.map(|outcome| &outcome["found"]["points"][0]);
        let comparisons: Vec<&Value> = points.map(|point| &point["comparison"]).collect();
        let names: Vec<&str> = comparisons
            .iter()
            .map(|c| c["configuration"].as_str().unwrap())
            .collect();
        assert_eq!(names, [rules.as_str(), table]);
        let known = comparisons[0];
        assert_eq!(known["verdict"], "less", "{known}");
        assert!(number(&known["difference_percent"]) < -10.0, "{known}");

        let control = &document["control"];
        assert_eq!(control["control"], true);
        for comparison in comparisons.into_iter().chain([control]) {
            let interval = list(&comparison["interval_percent"]);
            let [low, high] = [number(&interval[0]), number(&interval[1])];
            assert_eq!(interval.len(), 2);
            let difference = number(&comparison["difference_percent"]);
            assert!(low < difference && difference < high, "{comparison}");
        }

        // three rebuilds, each with another order of the configurations, and frames are conserved
        // on every path
        let rebuilds = list(&document["rebuilds"]);
        assert_eq!(rebuilds.len(), 3);
        let run = lab.only_run();
        let kept = json_lines(&run.join("trials.jsonl"));
        assert_eq!(&kept, rebuilds);
        let mut places = Vec::new();
        for rebuild in rebuilds {
            follows("rebuild", rebuild);
            let order: Vec<u64> = list(&rebuild["places"]).iter().map(count).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3], "plain, control, and two");
            places.push(order);
            assert!(count(&rebuild["blocks"]) > 0);
            let mut sent = 0;
            for ledger in list(&rebuild["ledgers"]) {
                let named: u64 = list(&ledger["losses"])
                    .iter()
                    .map(|l| count(&l["frames"]))
                    .sum();
                assert_eq!(
                    count(&ledger["frames_sent"]),
                    count(&ledger["frames_received"]) + named
                );
                assert_eq!(count(&ledger["frames_unexplained"]), 0);
                sent += count(&ledger["frames_sent"]);
            }
            assert_eq!(count(&rebuild["frames_sent"]), sent);
        }
        places.dedup();
        assert_eq!(places.len(), 3, "the places are swapped");

        let mut summary = document.clone();
        for beside in ["info", "trials", "rebuilds", "directory"] {
            summary.as_object_mut().unwrap().remove(beside);
        }
        follows("summary", &summary);
        let page = fs::read_to_string(run.join("report.html")).unwrap();
        assert!(page.contains("<svg"));
        lab.assert_clean("a comparison");
    }
}
