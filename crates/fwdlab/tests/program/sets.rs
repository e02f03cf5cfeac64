//! Configuration sets and generated configurations on the embedded bed: they are applied, in force,
//! and stored with the run.

use std::fs;

use crate::support::{Lab, TINY, example, texts};

/// In the second tier, because they take long.
mod slow {
    use super::*;

    /// A campaign measures generated configurations and shipped sets, by name, each on a bed of its
    /// own: they are in force, stored in the kernel's own format, and only the DUT sees their
    /// files. `lab` tests every family and every kind of file.
    #[test]
    fn generated_configurations_and_sets_are_measured_by_name() {
        let Some(lab) = Lab::root() else { return };
        let sets = ["sysctl", "nft-100-rules", "stateful", "stateful-set"].map(example);
        let [sysctl, rules, stateful, set] = &sets;
        let text = format!(
            "campaign = 'families'\niterations = 1\n[configuration]\nrules = {{ generate = 'nft-rules', n = [3, 7] }}\n\
             both = [{{ generate = 'routes', n = 5 }}, '{sysctl}', '{rules}', '{stateful}']\nset = '{set}'\n\
             [matrix]\nconfiguration = ['rules', 'both', 'set']\n[bed]\nmax = '20kpps'\n[procedure]\nid = 'trial'\nload = '2kpps'\nfor = '100ms'\n"
        );
        let file = lab.write("families.toml", &text);
        lab.run(&["plan", &file]).code(0).prints(&[
            "rules-3/64B",
            "rules-7/64B",
            "generate:nft-rules,n=7,ip=ipv4",
        ]);
        let text = text.replace("['rules', 'both'", "['both'");
        let run = lab.campaign(&text).measured().document();
        assert_eq!(texts(&run["test_cases"], "configuration"), ["both", "set"]);
        let inputs = lab.only_run().join("inputs");
        let kept = |name: &str| lab.kept(&format!("inputs/in-force/{name}"));
        assert_eq!(kept("both/routes.txt").matches(" via ").count(), 5);
        let table = "both/sysctl.txt: net.ipv4.conf.eth0.rp_filter = 1
            both/nft-ruleset.txt: ip saddr 203.0.113.100 udp dport 1100 drop
            both/nft-ruleset.txt: ct state established,related accept
            set/sysctl.txt: net.ipv4.icmp_echo_ignore_all = 1
            set/files/etc/fwdlab.d/owner: the lab
            set/nft-ruleset.txt: table inet example";
        for line in table.lines() {
            let (file, words) = line.trim().split_once(": ").unwrap();
            let kept = kept(file);
            assert!(kept.contains(words), "{words}: {kept}");
        }
        assert!(!fs::exists("/etc/fwdlab.d").unwrap());
        // also the original files, unchanged
        let whole = fs::read(inputs.join("both/nft-100-rules/etc/nftables.conf")).unwrap();
        let shipped = fs::read(format!("{rules}/etc/nftables.conf")).unwrap();
        assert_eq!(whole, shipped);
        assert!(inputs.join("set/stateful-set/set.toml").is_file());
        lab.assert_clean("configurations");

        // a set for another system is refused before anything is built, and by check
        let bsd = example("bsdrp-forwarding");
        lab.run(&format!("{TINY} --set {bsd}"))
            .code(2)
            .says(&["for FreeBSD, but this DUT runs Linux"]);
        lab.run(&["check", set, &bsd]).code(0).prints(&[
            "configuration set for FreeBSD",
            "/boot/loader.conf.local: restart of the DUT",
        ]);
    }
}
