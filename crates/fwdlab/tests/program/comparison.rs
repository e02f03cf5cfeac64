//! `quick --vs`: finds a known effect, and reports its interval, its control and its rebuilds.

use std::collections::BTreeSet;

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
        // if the generator stalls, the program reports that instead of a difference
        let ended = lab.run(&arguments);
        if ended.code == 5 || ended.err.contains("cannot overload") {
            return skipped("this machine is too noisy to tell");
        }
        let document = ended.code(0).document();

        let control = &document["control"];
        assert_eq!(control["control"], true);
        let found = all_outcomes(&document).into_iter();
        let points = found.map(|outcome| &outcome["found"]["points"][0]);
        let comparisons: Vec<&Value> = points.map(|point| &point["comparison"]).collect();
        assert_eq!(comparisons.len(), 2);
        for (comparison, name) in comparisons.iter().zip([rules.as_str(), table]) {
            assert_eq!(comparison["configuration"], name);
        }
        let known = comparisons[0];
        assert_eq!(known["verdict"], "less", "{known}");
        assert!(number(&known["difference_percent"]) < -10.0, "{known}");
        for comparison in comparisons.into_iter().chain([control]) {
            let [low, high] = [0, 1].map(|end: usize| number(&comparison["interval_percent"][end]));
            let difference = number(&comparison["difference_percent"]);
            assert!(low < difference && difference < high, "{comparison}");
        }

        // three rebuilds, each with another order of the configurations, and frames are conserved
        // on every path
        let rebuilds = list(&document["rebuilds"]);
        let run = lab.only_run();
        assert_eq!(json_lines(&run.join("trials.jsonl")), rebuilds);
        let mut orders = BTreeSet::new();
        for rebuild in rebuilds {
            follows("rebuild", rebuild);
            let order: Vec<u64> = list(&rebuild["places"]).iter().map(count).collect();
            let places: BTreeSet<&u64> = order.iter().collect();
            assert!(order.len() == 4 && places == [0, 1, 2, 3].iter().collect());
            orders.insert(order);
            assert!(count(&rebuild["blocks"]) > 0);
            let of = |ledger: &Value, name: &str| count(&ledger[name]);
            let mut sent = 0;
            for ledger in list(&rebuild["ledgers"]) {
                let losses = list(&ledger["losses"]).iter();
                let named: u64 = losses.map(|loss| of(loss, "frames")).sum();
                let received = of(ledger, "frames_received");
                assert_eq!(of(ledger, "frames_sent"), received + named);
                assert_eq!(of(ledger, "frames_unexplained"), 0);
                sent += of(ledger, "frames_sent");
            }
            assert_eq!(of(rebuild, "frames_sent"), sent);
        }
        assert_eq!(
            (rebuilds.len(), orders.len()),
            (3, 3),
            "the places are swapped"
        );

        let mut summary = document.clone();
        for beside in ["info", "trials", "rebuilds", "directory"] {
            summary.as_object_mut().unwrap().remove(beside);
        }
        follows("summary", &summary);
        assert!(lab.kept("report.html").contains("<svg"));
        lab.assert_clean("a comparison");
    }
}
