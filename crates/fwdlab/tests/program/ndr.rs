//! `fwdlab ndr` from outside: the check values of the method, stored files and output, searches
//! without a result, and one search on this host's kernel. The search itself is tested in
//! `measure`, against the reference implementation of MLRsearch. Start with
//! [`ndr_and_pdr_of_a_million_frames_are_the_published_ones`].

use serde_json::Value;

use crate::conservation::conserved;
use crate::formats::follows;
use crate::support::{Lab, all_outcomes, count, json_lines, list, number};

const SIM: &str = "ndr --engine sim --max 14880952";

fn goals(document: &Value) -> &[Value] {
    list(&found(document)["goals"])
}

fn found(document: &Value) -> &Value {
    &all_outcomes(document)[0]["found"]
}

/// docs/methodology.md, "Check values of searches", from the reference implementation of MLRsearch.
#[test]
fn ndr_and_pdr_of_a_million_frames_are_the_published_ones() {
    let lab = Lab::new();
    let line = "--dut capacity=1e6 --goals ndr,pdr --min 9001 --warm-up 1s";
    let document = lab.json(&format!("{SIM} {line}"));
    let trials = list(&document["trials"]);
    assert_eq!(trials.len(), 36, "with the warm-up");
    assert_eq!(found(&document)["max_load_index"], 1479);
    let bounds = goals(&document).iter().map(|goal| {
        assert_eq!(goal["regular"], true);
        ["relevant_lower_bound_index", "relevant_upper_bound_index"].map(|key| count(&goal[key]))
    });
    assert_eq!(bounds.collect::<Vec<_>>(), [[940, 941], [941, 942]]);
    let value = number(&goals(&document)[1]["conditional_throughput_pps"]);
    assert!((value - 1_000_000.039).abs() < 5e-4, "{value}");
    assert_eq!(trials[0]["asked"]["question"]["purpose"], "warm_up");
    let progress = list(&found(&document)["steps"]);
    assert_eq!(progress.len(), 35);
    for (step, trial) in progress.iter().zip(&trials[1..]) {
        let [intended, lost] = ["frames_intended", "frames_lost"].map(|of| number(&trial[of]));
        assert_eq!(intended, number(&step["load_pps"]).round());
        assert_eq!(number(&step["loss_ratio"]), lost / intended);
        let reason = &trial["asked"]["question"]["reason"];
        assert_ne!(reason.as_str(), Some(""), "{trial}");
    }
    // stored files match the output, and follow the schemas
    assert_eq!(json_lines(&lab.only_run().join("trials.jsonl")), trials);
    trials[..8].iter().for_each(|trial| follows("trial", trial));
}

#[test]
fn duts_at_the_ends_end_with_the_right_words() {
    let lab = Lab::new();
    for (dut, code, words) in [
        ("capacity=1000", 5, "not even the smallest load meets it"),
        (
            "capacity=20e6,generator=2Mpps",
            0,
            "the tester is the limit",
        ),
    ] {
        let ended = lab.run(&format!("{SIM} --dut {dut} --goals ndr"));
        ended.code(code).prints(&[words]);
    }
    // a load that the generator did not offer never passes; 0.5 % of its frames may be missing
    let document = lab.run("runs show @1 --json").document();
    assert!(number(&goals(&document)[0]["relevant_lower_bound_pps"]) <= 2e6 / 0.995);
    assert_eq!(goals(&document)[0]["tester_bound"], true);
}

#[test]
fn every_trial_is_explained_and_shortcuts_are_reported() {
    let lab = Lab::new();
    let line = "--goals rfc2544 --early-end yes --explain";
    lab.run(&format!("{SIM} {line}")).code(0).prints(&[
        "First look: the output at the largest load",
        "Ended early: its verdict could no longer change",
        "RFC 2544 §26.1 throughput procedure, shortened:",
    ]);
}

mod alone {
    use super::*;

    /// This host's kernel, with a goal so lax that most machines meet it: every trial conserves
    /// frames.
    #[test]
    fn this_kernel_is_searched_and_every_frame_has_a_fate() {
        let Some(lab) = Lab::root_alone() else { return };
        let line = "ndr --goal loss=50%,exceed=0.5,initial=100ms,final=100ms,sum=300ms,width=20% --flows 10 --warm-up 100ms \
                    --max 400kpps --min 20kpps --time-limit 20s";
        let document = lab.json(line);
        let trials = list(&document["trials"]);
        assert!(trials.len() >= 2, "{trials:?}");
        for trial in trials {
            conserved(trial);
            assert!(count(&trial["frames_sent"]) > 0);
        }
        let verdict = document["noise"]["verdict"].as_str().unwrap();
        assert!(verdict.contains("the DUT's CPU"), "{verdict}");
        lab.assert_clean("ndr");
    }
}
