//! Configuration sets and generated configurations on the embedded bed: they are applied, in force,
//! and stored with the run. Start with [`a_set_is_applied_and_kept`].

use std::fs;

use serde_json::Value;

use crate::support::{
    Lab, NOT_REACHED, PATIENCE, TINY, directories, example, list, reports_stall, root, skipped,
    tool,
};

/// A campaign measures generated configurations and shipped sets, on one bed each.
#[test]
fn generated_configurations_are_measured_by_name() {
    const THIS: &str = "generated_configurations_are_measured_by_name";
    if !root(THIS) {
        return;
    }
    let lab = Lab::new();
    let file = lab.path().join("families.toml");
    let [sysctl, rules, stateful] = ["sysctl", "nft-100-rules", "stateful"].map(example);
    let text = format!(
        "campaign = 'families'\niterations = 1\n[configuration]\nrules = {{ generate = 'nft-rules', n = [3, 7] }}\n\
         both = [{{ generate = 'routes', n = 5 }}, '{sysctl}', '{rules}', '{stateful}']\n\
         [matrix]\nconfiguration = ['rules', 'both']\n[bed]\nmax = '20kpps'\n[procedure]\nid = 'mrr'\ntrials = 1\nfor = '100ms'\n"
    );
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let plan = lab.run(&["plan", file]);
    plan.code(0);
    for words in [
        "rules-3/64B",
        "rules-7/64B",
        "generate:nft-rules,n=7,ip=ipv4",
    ] {
        let output = plan.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(output.contains(words), "{words}: {}", plan.out);
    }
    let ended = lab.run(&["run", file, "--json"]);
    if reports_stall(&ended.err) {
        return skipped(THIS, NOT_REACHED);
    }
    ended.measured();
    let run: Value = serde_json::from_str(&ended.out).unwrap();
    let cases = list(&run["test_cases"]).iter();
    let cases: Vec<&Value> = cases.map(|case| &case["configuration"]).collect();
    assert_eq!(cases, ["rules-3", "rules-7", "both"]);
    // in the kernel's own format
    let inputs = lab.only_run().join("inputs");
    let kept = |name: &str| fs::read_to_string(inputs.join("in-force").join(name)).unwrap();
    assert_eq!(kept("rules-3/nft-ruleset.txt").matches(" drop").count(), 3);
    assert_eq!(kept("rules-7/nft-ruleset.txt").matches(" drop").count(), 7);
    assert_eq!(kept("both/routes.txt").matches(" via ").count(), 5);
    for (file, words) in [
        ("sysctl.txt", "net.ipv4.conf.eth0.rp_filter = 1"),
        (
            "nft-ruleset.txt",
            "ip saddr 203.0.113.100 udp dport 1100 drop",
        ),
        ("nft-ruleset.txt", "ct state established,related accept"),
    ] {
        let kept = kept(&format!("both/{file}"));
        assert!(kept.contains(words), "{words}: {kept}");
    }
    // also the original files, unchanged
    let whole = fs::read(inputs.join("both/nft-100-rules/etc/nftables.conf")).unwrap();
    let shipped = fs::read(format!("{rules}/etc/nftables.conf")).unwrap();
    assert_eq!(whole, shipped);
    assert!(inputs.join("both/stateful/apply").is_file());
    lab.assert_clean("generated configurations");
}

/// A directory with `set.toml`: only the DUT sees its files, and the settings in force are stored.
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

    // a set for another system is refused before anything is built, and by check
    let bsd = example("bsdrp-forwarding");
    lab.run(&[TINY, &["--set", &bsd]].concat())
        .code(2)
        .says(&["for FreeBSD, but this DUT runs Linux"]);
    lab.run(&["check", &set, &bsd]).code(0);
    let checked = lab.run(&["check", &bsd, "--json"]);
    let reported: Value = serde_json::from_str(&checked.out).unwrap();
    let what = &list(&reported)[0]["what"];
    for words in [
        "configuration set for FreeBSD",
        "/boot/loader.conf.local: restart of the DUT",
    ] {
        assert!(what.as_str().unwrap().contains(words), "{what}");
    }
}
