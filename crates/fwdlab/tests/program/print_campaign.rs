//! Every measuring command is a campaign: `--print-campaign` prints its file, and running the file
//! is the same measurement.
//!
//! Compares results of simulated DUTs to the last digit. `cli/command.rs` compares the plans of
//! every command, also for real DUTs. Start with [`the_printed_campaign_gives_the_same_results`].

use serde_json::Value;

use crate::support::{Lab, list};

const DUT: &str = "capacity=1e6,link=10G,buffer=300,latency=15us,jitter=2us,noise=0.01";

/// What identifies a run or depends on the clock, or on how the run was started.
const OF_ONE_RUN: [&str; 5] = ["directory", "started_at", "finished_at", "run", "id"];

fn forget(value: &mut Value) {
    match value {
        Value::Object(keys) => {
            OF_ONE_RUN.iter().for_each(|key| {
                keys.remove(*key);
            });
            keys.values_mut().for_each(forget);
        }
        Value::Array(items) => items.iter_mut().for_each(forget),
        _ => {}
    }
}

#[test]
fn the_printed_campaign_gives_the_same_results() {
    for line in [
        "trial --load 1.1Mpps --for 2s --sample 500ms --latency",
        "ndr --goals pdr --goal loss=1%,final=2s,sum=4s --min 10kpps --seed 7",
        "rfc2544 --profile imix --tests throughput,latency --latency-at 50,100",
    ] {
        let lab = Lab::new();
        let line = format!("{line} --engine sim --dut {DUT}");
        let printed = lab.run(&format!("{line} --print-campaign"));
        printed.code(0);
        assert!(!lab.runs().exists(), "{line:?}: printing measures nothing");
        lab.write("printed.toml", &printed.out);
        lab.run("check printed.toml").code(0);
        let mut own = lab.json(&line);
        // both runs keep the printed campaign
        assert_eq!(lab.kept("inputs/campaign.toml"), printed.out);
        let mut of_file = lab.json("run printed.toml");
        assert!(!list(&own["trials"]).is_empty(), "{line:?}");
        // both results are derived from the trials, with the request that was stored
        let verified = lab.run("runs verify @1");
        let output = &verified.code(0).out;
        let is_derived = output.contains("follows from what was measured: test_cases");
        assert!(
            is_derived && !output.contains("journal"),
            "{line:?}: {output}"
        );
        for document in [&mut own, &mut of_file] {
            // the kind of a run, its command line, and the name and path of its file
            let info = document["info"].as_object_mut().unwrap();
            for key in ["kind", "command_line"] {
                assert!(info.remove(key).is_some());
            }
            for key in ["campaign", "file"] {
                info["parameters"].as_object_mut().unwrap().remove(key);
            }
            forget(document);
        }
        assert_eq!(own, of_file, "{line:?}");
    }
}

/// One size has a throughput that contradicts the other's: the suite is valid in part.
#[test]
fn a_suite_that_fails_in_part_has_the_same_exit_code_from_a_file() {
    let lab = Lab::new();
    let line =
        "rfc2544 --sizes 64,1518 --engine sim --seed 1 --dut capacity=1e6,link=10G,loss=1e-5";
    lab.run(line).code(7);
    let printed = lab.run(&format!("{line} --print-campaign"));
    lab.write("printed.toml", &printed.code(0).out);
    lab.run("run printed.toml").code(7);
}
