//! Every measuring command is a campaign: `--print-campaign` prints its file, and running the file
//! is the same measurement.
//!
//! Compares results of simulated DUTs to the last digit. The plans of real DUTs are compared in
//! `cli/command.rs`. Start with [`the_printed_campaign_gives_the_same_results`].

use std::fs;

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
        "throughput --sizes 64,512 --trial 2s --max 50%",
        "ramp --ramp 20s --up-down --size 128 --flows 7",
        "rfc2544 --sizes 64,1518 --destinations both --both-directions --modifier broadcast --repetitions 2",
        "rfc2544 --profile imix --tests throughput,latency --latency-at 50,100",
        "soak --load 500kpps --for 1min --loss 0.1",
        "soak --for 1min --ipv6",
    ] {
        let lab = Lab::new();
        let words: Vec<&str> = line.split_whitespace().collect();
        let line = [&words[..], &["--engine", "sim", "--dut", DUT]].concat();
        let printed = lab.run(&[&line[..], &["--print-campaign"]].concat());
        printed.code(0);
        assert!(!lab.runs().exists(), "{line:?}: printing measures nothing");
        let file = lab.path().join("printed.toml");
        fs::write(&file, &printed.out).unwrap();
        let file = file.to_str().unwrap();
        lab.run(&["check", file]).code(0);
        let mut own = lab.json(&line);
        let mut of_file = lab.json(&["run", file]);
        assert!(!list(&own["trials"]).is_empty(), "{line:?}");
        // both results are derived from the trials, with the request that was stored
        let verified = lab.run(&["runs", "verify", "@1"]);
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

/// Both runs keep the printed campaign.
#[test]
fn a_command_keeps_its_campaign_with_the_run() {
    let lab = Lab::new();
    let line = ["trial", "--engine", "sim", "--for", "1s"];
    let printed = lab.run(&[&line[..], &["--print-campaign"]].concat());
    lab.json(&line);
    let kept = lab.only_run().join("inputs/campaign.toml");
    assert_eq!(fs::read_to_string(kept).unwrap(), printed.out);
}
