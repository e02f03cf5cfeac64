//! `--set`: what is applied to the DUT, that it is applied to the DUT alone, and what happens when it cannot be.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Lab, PATIENCE, TINY, example, list, root, tool};

/// What the host's own network stack and kernel are set to.
#[derive(Debug, PartialEq)]
struct Host {
    rules: String,
    sysctls: BTreeMap<String, String>,
    links: Vec<String>,
}

/// Settings that are readings: they change by themselves.
const READINGS: &[&str] = &[
    "fs.aio-nr",
    "fs.dentry-state",
    "fs.epoll",
    "fs.file-nr",
    "fs.inode-nr",
    "fs.inode-state",
    "fs.quota",
    "kernel.ns_last_pid",
    "kernel.pty.nr",
    "kernel.random",
    "kernel.perf_event_max_sample_rate",
    "net.netfilter.nf_conntrack_count",
    "net.ipv4.tcp_fastopen_key",
    "fs.mount-nr",
];

impl Host {
    fn now() -> Host {
        let counters = |word: &str| word.chars().all(|c| c.is_ascii_digit());
        let rules = tool(&["nft", "list", "ruleset"])
            .lines()
            .map(|line| {
                let words: Vec<&str> = line
                    .split_whitespace()
                    .map(|w| {
                        if counters(w) && line.contains("counter packets") {
                            "N"
                        } else {
                            w
                        }
                    })
                    .collect();
                words.join(" ") + "\n"
            })
            .collect();
        // some names cannot be read, and sysctl ends with an error then
        let output = Command::new("sysctl").arg("-a").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let sysctls: BTreeMap<String, String> = text
            .lines()
            .filter_map(|line| line.split_once(" = "))
            .filter(|(name, _)| !READINGS.iter().any(|r| name.starts_with(r)))
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        assert!(sysctls.len() > 300, "sysctl -a tells next to nothing");
        Host {
            rules,
            sysctls,
            links: fs::read_dir("/sys/class/net")
                .unwrap()
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .collect(),
        }
    }

    /// Settings of one that the other does not have.
    fn assert_same(&self, other: &Host) {
        for (name, value) in &self.sysctls {
            assert_eq!(
                Some(value),
                other.sysctls.get(name),
                "{name} of the host was changed"
            );
        }
        assert_eq!(self, other);
    }
}

#[test]
fn a_configuration_reaches_the_dut_and_nothing_else() {
    if !root("a_configuration_reaches_the_dut_and_nothing_else") {
        return;
    }
    let lab = Lab::new();
    let file = |name: &str| lab.path().join(name).to_str().unwrap().to_owned();
    let (seen, script, rules) = (file("seen"), file("plain.sh"), file("more.nft"));
    fs::write(
        &script,
        "nft add table ip from_a_file; echo this was said\n",
    )
    .unwrap();
    fs::write(&rules, "table ip from_nft { }\n").unwrap();
    let command = format!(
        "nft add table ip from_a_command; echo $FWDLAB_IN $FWDLAB_OUT > {seen}; readlink /proc/self/ns/net >> {seen}"
    );

    let before = Host::now();
    for (set, expect) in [
        (command.as_str(), "table ip from_a_command"),
        (&script, "table ip from_a_file"),
        (&rules, "table ip from_nft"),
        (
            &example("nft-100-rules"),
            "ip saddr 203.0.113.100 udp dport 1100 drop",
        ),
        (&example("sysctl"), ""),
        (&example("stateful"), "ct state established,related accept"),
    ] {
        let words = [
            "trial",
            "--load",
            "10kpps",
            "--for",
            "500ms",
            "--json-stream",
        ];
        let mut quick = lab.start(&[&words[..], &["--set", set]].concat());
        // frames flow, so the configuration stands
        quick.event("progress");
        let dut = quick.bed()[1].clone();
        let inside = tool(&["ip", "netns", "exec", &dut, "nft", "list", "ruleset"]);
        assert!(inside.contains(expect), "{set}: {inside}");
        if set.ends_with("sysctl") {
            let value = tool(&[
                "ip",
                "netns",
                "exec",
                &dut,
                "sysctl",
                "-n",
                "net.ipv4.conf.eth0.rp_filter",
            ]);
            assert_eq!(value.trim(), "1");
        }
        let ended = quick.wait(PATIENCE);
        ended.measured();
        assert_eq!(
            ended.out.contains("this was said"),
            set == script,
            "{}",
            ended.out
        );
    }
    before.assert_same(&Host::now());

    let seen = fs::read_to_string(seen).unwrap();
    let (ports, namespace) = seen.trim().split_once('\n').unwrap();
    assert_eq!(ports, "eth0 eth1");
    let ours = fs::read_link("/proc/self/ns/net").unwrap();
    assert_ne!(namespace, ours.to_str().unwrap());

    // what was used is kept, byte for byte
    let kept = |name: &str| {
        crate::support::directories(&lab.runs())
            .iter()
            .map(|run| run.join("inputs").join(name))
            .find(|path| path.is_file())
            .unwrap_or_else(|| panic!("inputs/{name} is not stored"))
    };
    assert_eq!(
        fs::read(kept("plain.sh")).unwrap(),
        fs::read(&script).unwrap()
    );
    let whole = "nft-100-rules/etc/nftables.conf";
    assert_eq!(
        fs::read(kept(whole)).unwrap(),
        fs::read(example(whole)).unwrap()
    );
    lab.assert_clean("configurations");
}

#[test]
fn a_configuration_that_fails_ends_the_run_and_says_why() {
    if !root("a_configuration_that_fails_ends_the_run_and_says_why") {
        return;
    }
    let lab = Lab::new();
    let swappiness = || fs::read_to_string("/proc/sys/vm/swappiness").unwrap();
    let before = swappiness();
    let other = if before.trim() == "1" { "2" } else { "1" };
    let host_wide = format!("sysctl -w vm.swappiness={other}");
    let drop_all = "nft add table ip t; \
        nft add chain ip t f '{ type filter hook forward priority 0; policy drop; }'";
    let not_a_sysctl = lab.path().join("bad.conf");
    fs::write(&not_a_sysctl, "net.ipv4.no_such_name = 1\n").unwrap();
    for (set, expect) in [
        (
            host_wide.as_str(),
            &["could not be applied", "vm.swappiness"][..],
        ),
        (
            "echo this went wrong >&2; exit 7",
            &["exit status: 7", "this went wrong"],
        ),
        (
            "no-such-program --at all",
            &["no-such-program", "not found"],
        ),
        (
            "nft add rule ip no such thing",
            &["could not be applied", "Error: "],
        ),
        (not_a_sysctl.to_str().unwrap(), &["no_such_name"]),
        (
            drop_all,
            &[
                "does not forward",
                "0 of 1000",
                "frames reached the DUT's input and",
            ],
        ),
        ("ip link set eth1 down", &["does not forward"]),
    ] {
        let ended = lab.run(&[TINY, &["--set", set]].concat());
        ended.code(4).says(expect);
        let shown = lab.run(&["runs", "show", "@1", "--json"]);
        shown.code(0);
        let run: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
        assert_eq!(run["info"]["state"], "failed", "{set}");
        assert_eq!(list(&run["trials"]).len(), 0, "{set}: nothing was measured");
        let cases = &run["test_cases"];
        assert!(cases.is_null() || list(cases).is_empty());
        let why = run["info"]["error"].as_str().unwrap();
        // further lines are indented
        let first = why.lines().next().unwrap();
        assert!(
            ended.err.contains(first),
            "kept: {why}; told: {}",
            ended.err
        );
        lab.assert_clean(set);
    }
    assert_eq!(swappiness(), before, "vm.swappiness of the host");

    // wrong use is found before anything is built
    for set in [
        "",
        "/no/such/file",
        lab.path().join("inputs-nowhere/").to_str().unwrap(),
    ] {
        lab.run(&[TINY, &["--set", set]].concat()).code(2);
    }
}

#[test]
fn a_configuration_that_hangs_can_be_interrupted() {
    if !root("a_configuration_that_hangs_can_be_interrupted") {
        return;
    }
    let lab = Lab::new();
    let begun = lab.path().join("begun");
    let set = format!("touch {}; sleep 1000", begun.display());
    let mut quick = lab.start(&[TINY, &["--set", &set]].concat());
    quick.wait_until("the configuration", |_| begun.exists());
    quick.signal(Signal::INT);
    quick.wait(Duration::from_secs(10)).code(130);
    lab.assert_clean("a hanging configuration");
}

/// What a configuration leaves running goes with the DUT.
#[test]
fn a_daemon_of_a_configuration_ends_with_the_run() {
    if !root("a_daemon_of_a_configuration_ends_with_the_run") {
        return;
    }
    let lab = Lab::new();
    let set = "setsid sleep 1000 > /dev/null 2>&1 &";
    for how in [&["--set", set][..], &["--set-unconfined", "--set", set]] {
        lab.run(&[TINY, how].concat()).measured();
        lab.assert_clean("a daemon");
    }
}

/// A process that somebody started in the DUT's namespace is theirs: it is told of, and left alone, whether the run ends or is killed.
#[test]
fn what_others_run_in_a_bed_is_left_alone() {
    if !root("what_others_run_in_a_bed_is_left_alone") {
        return;
    }
    let lab = Lab::new();
    let daemon = "setsid sleep 1000 > /dev/null 2>&1 &";
    let set = &["--set-unconfined", "--set", daemon, "--json-stream"];
    for is_killed in [false, true] {
        let mut quick = lab.start(&[TINY, set].concat());
        quick.event("progress");
        let dut = quick.bed()[1].clone();
        let mut theirs = Command::new("ip")
            .args(["netns", "exec", &dut, "sleep", "1000"])
            .spawn()
            .unwrap();
        let entered = || {
            let pids = tool(&["ip", "netns", "pids", &dut]);
            let pid = theirs.id().to_string();
            pids.lines().any(|line| line.trim() == pid)
        };
        while !entered() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let said = if is_killed {
            quick.signal(Signal::KILL);
            quick.wait(PATIENCE);
            // the next one finds what it left
            let next = lab.run(&[TINY, &["--json-stream"]].concat());
            next.measured();
            next.out
        } else {
            let ended = quick.wait(PATIENCE);
            ended.measured();
            ended.out
        };
        assert!(theirs.try_wait().unwrap().is_none(), "it was killed");
        let ports = format!("/proc/{}/net/dev", theirs.id());
        let ports = fs::read_to_string(ports).unwrap();
        assert!(!ports.contains("eth0"), "{ports}");
        let words = format!("process {} (sleep) runs in {dut}", theirs.id());
        theirs.kill().unwrap();
        theirs.wait().unwrap();
        assert!(said.contains(&words), "{words}: {said}");
        lab.assert_clean("what others run");
    }
}

/// What routers are configured with: it works, and it sees what it wrote in the step before.
const USUAL: &str = r#"#!/bin/sh
set -e
test "$(cat /etc/fwdlab-test/first)" = "written before"
ip route add 203.0.113.0/24 via 198.19.0.2
ip neigh replace 198.19.0.3 lladdr 02:00:00:00:00:03 nud permanent dev eth1
nft add table ip usual
for tables in iptables-nft iptables-legacy; do
    # only where this host has it, and its kernel
    if command -v $tables >/dev/null && $tables -w -nL >/dev/null 2>&1; then
        $tables -w -A FORWARD -s 203.0.113.1 -j DROP
        $tables -w -nL FORWARD | grep -q 203.0.113.1
    fi
done
sysctl -qw net.ipv4.conf.eth0.rp_filter=1
ethtool -K eth0 gro on
tc qdisc replace dev eth1 root pfifo limit 2000
bridge link show >/dev/null
echo 0 > /sys/class/net/eth0/queues/rx-0/rps_cpus
mkdir -p /run/fwdlab-test /var/lib/fwdlab-test
for place in /etc /run /var/lib; do
    echo of the DUT > $place/fwdlab-test/file
done
"#;

/// What none may do by mistake.
const HARM: &str = r#"
for file in /usr/fwdlab-test /boot/fwdlab-test /fwdlab-test; do
    if touch $file 2>/dev/null; then echo "wrote $file"; fi
done
for setting in /proc/sys/vm/swappiness /proc/sysrq-trigger /sys/kernel/mm/transparent_hugepage/enabled; do
    if [ -w $setting ] && : >> $setting; then echo "may write $setting"; fi 2>/dev/null
done
if [ $(ls /proc | grep -c '^[0-9]') -gt 20 ]; then echo "sees the processes of the host"; fi
"#;

#[test]
fn a_configuration_is_kept_apart_from_the_host() {
    if !root("a_configuration_is_kept_apart_from_the_host") {
        return;
    }
    let lab = Lab::new();
    let set = lab.path().join("usual");
    fs::create_dir_all(set.join("etc/sysctl.d")).unwrap();
    let apply = set.join("apply");
    fs::write(&apply, format!("{USUAL}{HARM}")).unwrap();
    fs::set_permissions(&apply, fs::Permissions::from_mode(0o755)).unwrap();
    let first = "mkdir -p /etc/fwdlab-test; echo written before > /etc/fwdlab-test/first";
    let campaign = lab.path().join("campaign.toml");
    let text = format!(
        "campaign = 'apart'\niterations = 1\n[configuration]\nusual = ['{first}', './usual']\n\
         [procedure]\nid = 'trial'\nload = '10kpps'\nfor = '100ms'\n"
    );
    fs::write(&campaign, text).unwrap();
    let places = ["/etc", "/run", "/var/lib", "/usr", "/boot", ""];
    let left = || {
        let files = places.map(|place| format!("{place}/fwdlab-test"));
        files.into_iter().filter(|file| fs::exists(file).unwrap())
    };
    assert_eq!(left().next(), None, "of a test before?");
    let run = ["run", campaign.to_str().unwrap(), "--json"];
    let ended = lab.run(&run);
    assert_eq!(left().next(), None, "{ended:?}");
    ended.measured();
    // nothing was said, so nothing was harmed
    assert!(!ended.out.contains(" said: "), "{}", ended.out);
    lab.assert_clean("kept apart");

    // asked for, it is all as on the host: a file there, and its processes
    let said = "echo of the host > /run/fwdlab-test; ls /proc | grep -c '^[0-9]'";
    let ended = lab.run(&[TINY, &["--set-unconfined", "--set", said]].concat());
    let there = fs::read_to_string("/run/fwdlab-test");
    let _ = fs::remove_file("/run/fwdlab-test");
    ended.measured();
    assert_eq!(there.unwrap(), "of the host\n");
    let kept = crate::support::directories(&lab.runs());
    let text = fs::read_to_string(kept.last().unwrap().join("run.json")).unwrap();
    let info: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(info["parameters"]["set_unconfined"], true, "{text}");
}
