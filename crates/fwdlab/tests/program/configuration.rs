//! Configurations of the DUT: they apply to the DUT alone; what they leave running, and what
//! happens if they cannot be applied. Start with [`a_configuration_is_kept_apart_from_the_host`].

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Lab, PATIENCE, TINY, bed_of, list, root, tool, try_tool};

/// The network stack and the kernel settings of the host.
#[derive(Debug, PartialEq)]
struct Host {
    rules: String,
    sysctls: BTreeMap<String, String>,
    links: Vec<String>,
}

/// Settings that are readings, which change by themselves.
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
        let is_count = |word: &str| word.chars().all(|c| c.is_ascii_digit());
        let rules = tool(&["nft", "list", "ruleset"])
            .lines()
            .map(|line| {
                let is_counter = line.contains("counter packets");
                let words = line.split_whitespace();
                let words = words.map(|word| {
                    if is_counter && is_count(word) {
                        "N"
                    } else {
                        word
                    }
                });
                words.collect::<Vec<_>>().join(" ") + "\n"
            })
            .collect();
        // some names cannot be read, and sysctl then fails
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

    /// Asserts that both have the same settings.
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
fn a_configuration_that_fails_ends_the_run_with_a_reason() {
    if !root("a_configuration_that_fails_ends_the_run_with_a_reason") {
        return;
    }
    let lab = Lab::new();
    let swappiness = || fs::read_to_string("/proc/sys/vm/swappiness").unwrap();
    let before = swappiness();
    let other = if before.trim() == "1" { "2" } else { "1" };
    // the first command would change a setting of the whole host
    let wrong = format!("sysctl -w vm.swappiness={other}; echo this went wrong >&2; exit 7");
    let drop_all = "nft add table ip t; \
        nft add chain ip t f '{ type filter hook forward priority 0; policy drop; }'";
    for (set, expect) in [
        (
            wrong.as_str(),
            &[
                "could not be applied",
                "vm.swappiness",
                "exit status: 7",
                "this went wrong",
            ][..],
        ),
        (
            drop_all,
            &[
                "does not forward",
                "0 of 1000",
                "frames reached the DUT's input and",
            ],
        ),
    ] {
        let ended = lab.run(&[TINY, &["--set", set]].concat());
        ended.code(4).says(expect);
        let shown = lab.run(&["runs", "show", "@1", "--json"]);
        shown.code(0);
        let run: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
        assert_eq!(run["info"]["state"], "failed", "{set}");
        assert_eq!(list(&run["trials"]).len(), 0, "{set}: nothing was measured");
        let cases = run["test_cases"].as_array();
        assert!(cases.is_none_or(Vec::is_empty), "{set}");
        let reason = run["info"]["error"].as_str().unwrap();
        // further lines are indented
        let first = reason.lines().next().unwrap();
        assert!(
            ended.err.contains(first),
            "kept: {reason}; told: {}",
            ended.err
        );
        lab.assert_clean(set);
    }
    assert_eq!(swappiness(), before, "vm.swappiness of the host");

    // a usage error appears before anything is built
    lab.run(&[TINY, &["--set", "/no/such/file"]].concat())
        .code(2);
}

#[test]
fn a_configuration_that_hangs_can_be_interrupted() {
    if !root("a_configuration_that_hangs_can_be_interrupted") {
        return;
    }
    let lab = Lab::new();
    let started = lab.path().join("begun");
    let set = format!("touch {}; sleep 1000", started.display());
    let mut quick = lab.start(&[TINY, &["--set", &set]].concat());
    quick.wait_until("the configuration", |_| started.exists());
    quick.signal(Signal::INT);
    quick.wait(Duration::from_secs(10)).code(130);
    lab.assert_clean("a hanging configuration");
}

/// Without isolation, a configuration writes files of the host. The daemon that it starts ends with
/// the run. A process that another program started in the DUT's namespace is reported and left
/// alone, whether the run ends or is killed.
#[test]
fn foreign_processes_in_a_bed_are_left_alone() {
    if !root("foreign_processes_in_a_bed_are_left_alone") {
        return;
    }
    let lab = Lab::new();
    let daemon = "echo this was said; echo of the host > /run/fwdlab-test\nsetsid sleep 1000 > /dev/null 2>&1 &\n";
    let script = lab.path().join("daemon.sh");
    fs::write(&script, daemon).unwrap();
    let set = ["--set-unconfined", "--set", script.to_str().unwrap()];
    for is_killed in [false, true] {
        let mut quick = lab.start(&[TINY, &set, &["--json-stream"]].concat());
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
        let output = if is_killed {
            quick.signal(Signal::KILL);
            quick.wait(PATIENCE);
            // the next run finds what it left
            let next = lab.run(&[TINY, &["--json-stream"]].concat());
            next.measured();
            next.out
        } else {
            let ended = quick.wait(PATIENCE);
            ended.measured();
            assert!(ended.out.contains("this was said"), "{}", ended.out);
            let run = lab.only_run();
            let kept = fs::read_to_string(run.join("inputs/daemon.sh")).unwrap();
            assert_eq!(kept, daemon);
            let info = fs::read_to_string(run.join("run.json")).unwrap();
            let info: serde_json::Value = serde_json::from_str(&info).unwrap();
            assert_eq!(info["parameters"]["set_unconfined"], true, "{info}");
            ended.out
        };
        assert!(theirs.try_wait().unwrap().is_none(), "it was killed");
        let ports = format!("/proc/{}/net/dev", theirs.id());
        let ports = fs::read_to_string(ports).unwrap();
        assert!(!ports.contains("eth0"), "{ports}");
        let words = format!("process {} (sleep) runs in {dut}", theirs.id());
        theirs.kill().unwrap();
        theirs.wait().unwrap();
        assert!(output.contains(&words), "{words}: {output}");
        lab.assert_clean("what others run");
    }
    let written = fs::read_to_string("/run/fwdlab-test").unwrap();
    fs::remove_file("/run/fwdlab-test").unwrap();
    assert_eq!(written, "of the host\n");
}

/// Typical commands of router configurations: they work, and each step sees what the one before has
/// written.
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

/// Commands that no configuration may do by mistake.
const HARM: &str = r#"
for file in /usr/fwdlab-test /boot/fwdlab-test /fwdlab-test; do
    if touch $file 2>/dev/null; then echo "wrote $file"; fi
done
for setting in /proc/sys/vm/swappiness /proc/sysrq-trigger /sys/kernel/mm/transparent_hugepage/enabled; do
    if [ -w $setting ] && : >> $setting; then echo "may write $setting"; fi 2>/dev/null
done
if [ $(ls /proc | grep -c '^[0-9]') -gt 20 ]; then echo "sees the processes of the host"; fi
"#;

/// A configuration changes the DUT and nothing else: no files, settings or rules of the host.
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
    let seen = lab.path().join("seen");
    let first = format!(
        "mkdir -p /etc/fwdlab-test; echo written before > /etc/fwdlab-test/first; \
         {{ echo $FWDLAB_IN $FWDLAB_OUT; readlink /proc/self/ns/net; }} > {}",
        seen.display()
    );
    let campaign = lab.path().join("campaign.toml");
    let text = format!(
        "campaign = 'apart'\niterations = 1\n[configuration]\nusual = ['{first}', './usual']\n\
         [procedure]\nid = 'trial'\nload = '10kpps'\nfor = '700ms'\n"
    );
    fs::write(&campaign, text).unwrap();
    let places = ["/etc", "/run", "/var/lib", "/usr", "/boot", ""];
    let left = || {
        let files = places.map(|place| format!("{place}/fwdlab-test"));
        files.into_iter().filter(|file| fs::exists(file).unwrap())
    };
    assert_eq!(left().next(), None, "of a test before?");
    let before = Host::now();
    let mut run = lab.start(&["run", campaign.to_str().unwrap(), "--json-stream"]);
    run.wait_until("the configuration", |this| {
        let bed = bed_of(this.pid());
        let inside = |words: &[&str]| {
            let dut = bed.get(1)?;
            try_tool(&[&["ip", "netns", "exec", dut], words].concat()).ok()
        };
        let filter = inside(&["sysctl", "-n", "net.ipv4.conf.eth0.rp_filter"]);
        let rules = inside(&["nft", "list", "ruleset"]).unwrap_or_default();
        filter.is_some_and(|value| value.trim() == "1") && rules.contains("table ip usual")
    });
    let ended = run.wait(PATIENCE);
    assert_eq!(left().next(), None, "{ended:?}");
    ended.measured();
    before.assert_same(&Host::now());
    // no command reported success, so none did harm
    assert!(!ended.out.contains(" said: "), "{}", ended.out);
    let seen = fs::read_to_string(seen).unwrap();
    let (ports, namespace) = seen.trim().split_once('\n').unwrap();
    assert_eq!(ports, "eth0 eth1");
    let ours = fs::read_link("/proc/self/ns/net").unwrap();
    assert_ne!(namespace, ours.to_str().unwrap());
    lab.assert_clean("kept apart");
}
