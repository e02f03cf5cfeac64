//! Configuration sets and generated configurations on the embedded bed: applied, seen to be in force, kept with the run, and refused where
//! they cannot be.

use std::fs;

use serde_json::Value;

use crate::support::{
    Lab, NOT_REACHED, PATIENCE, TINY, directories, example, is_held_up, list, root, skipped, tool,
};

/// What a campaign with generated configurations measures, one bed each.
#[test]
fn generated_configurations_are_measured_by_name() {
    if !root("generated_configurations_are_measured_by_name") {
        return;
    }
    let lab = Lab::new();
    let file = lab.path().join("families.toml");
    let text = "campaign = 'families'\niterations = 1\n[configuration]\nrules = { generate = 'nft-rules', n = [3, 7] }\n\
                both = [{ generate = 'routes', n = 5 }, { generate = 'sysctl', name = 'net.ipv4.ip_early_demux', value = 0 }]\n\
                [matrix]\nconfiguration = ['rules', 'both']\n[bed]\nmax = '20kpps'\n[procedure]\nid = 'mrr'\ntrials = 1\nfor = '100ms'\n";
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let plan = lab.run(&["plan", file]);
    plan.code(0);
    for words in [
        "rules-3/64B",
        "rules-7/64B",
        "generate:nft-rules,n=7,ip=ipv4",
    ] {
        let said = plan.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(words), "{words}: {}", plan.out);
    }
    let ended = lab.run(&["run", file, "--json"]);
    if is_held_up(&ended.err) {
        return skipped("generated_configurations_are_measured_by_name", NOT_REACHED);
    }
    ended.measured();
    let run: Value = serde_json::from_str(&ended.out).unwrap();
    let cases: Vec<String> = list(&run["test_cases"])
        .iter()
        .map(|case| case["configuration"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(cases, ["rules-3", "rules-7", "both"]);
    // as the kernel had them
    let kept =
        |name: &str| fs::read_to_string(lab.only_run().join("inputs/in-force").join(name)).unwrap();
    assert_eq!(kept("rules-3/nft-ruleset.txt").matches(" drop").count(), 3);
    assert_eq!(kept("rules-7/nft-ruleset.txt").matches(" drop").count(), 7);
    assert_eq!(kept("both/routes.txt").matches(" via ").count(), 5);
    lab.assert_clean("generated configurations");

    let wrong = text.replace("'nft-rules'", "'nft-rule'");
    fs::write(file, wrong).unwrap();
    let checked = lab.run(&["check", file]);
    checked.code(2);
    let why = "families.toml:4:22: there is no family `nft-rule`; did you mean `nft-rules`?";
    assert!(checked.out.contains(why), "{}", checked.out);
}

/// A directory with `set.toml`: its files are the DUT's alone, and what was in force is kept.
#[test]
fn a_set_is_applied_and_kept() {
    if !root("a_set_is_applied_and_kept") {
        return;
    }
    let lab = Lab::new();
    let set = example("stateful-set");
    let mut trial = lab.start(&[TINY, &["--json-stream", "--set", &set]].concat());
    trial.event("progress");
    let dut = trial.bed()[1].clone();
    let rules = tool(&["ip", "netns", "exec", &dut, "nft", "list", "ruleset"]);
    assert!(rules.contains("table inet example"), "{rules}");
    trial.wait(PATIENCE).measured();
    let run = lab.only_run().join("inputs");
    let folder = directories(&run.join("in-force")).pop().unwrap();
    let kept = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(kept("files/etc/fwdlab.d/owner"), "the lab\n");
    assert_eq!(kept("sysctl.txt"), "net.ipv4.icmp_echo_ignore_all = 1\n");
    assert!(kept("nft-ruleset.txt").contains("table inet example"));
    assert!(run.join("stateful-set/set.toml").is_file());
    assert!(!std::path::Path::new("/etc/fwdlab.d").exists());
    lab.assert_clean("a set");

    // what is for another system is refused before anything is built, and told by check
    let bsd = example("bsdrp-forwarding");
    lab.run(&[TINY, &["--set", &bsd]].concat())
        .code(2)
        .says(&["of FreeBSD, and this DUT runs Linux"]);
    lab.run(&["check", &set, &bsd]).code(0);
    let checked = lab.run(&["check", &bsd, "--json"]);
    let told: Value = serde_json::from_str(&checked.out).unwrap();
    let what = &list(&told)[0]["what"];
    for words in [
        "configuration set for FreeBSD",
        "/boot/loader.conf.local: restart of the DUT",
    ] {
        assert!(what.as_str().unwrap().contains(words), "{what}");
    }
    // a set that is not in force ends the run, and says so in the run
    let wrong = lab.path().join("wrong");
    fs::create_dir_all(wrong.join("etc")).unwrap();
    let settings =
        "net.ipv4.conf.eth0.forwarding = 0\nnet.ipv4.ip_forward = 0\nnet.ipv4.ip_forward = 1\n";
    fs::write(wrong.join("etc/sysctl.conf"), settings).unwrap();
    let wrong = wrong.to_str().unwrap();
    lab.run(&[TINY, &["--set", wrong]].concat()).code(4).says(&[
        "could not be applied",
        "etc/sysctl.conf, line 1: net.ipv4.conf.eth0.forwarding should be 0, and is 1",
    ]);
    lab.run(&[TINY, &["--set", "generate:nft-rules,n=1+2"]].concat())
        .code(2)
        .says(&["these are 2 configurations"]);
    lab.assert_clean("sets that fail");
}
