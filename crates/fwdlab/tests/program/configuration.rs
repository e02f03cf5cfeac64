//! Configurations of the DUT: they apply to the DUT alone; what they leave running, and what
//! happens if they cannot be applied. Start with [`a_configuration_is_kept_apart_from_the_host`].

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::Signal;

use crate::support::{Lab, PATIENCE, TINY, bed_of, list, read_json, tool, try_tool};

/// Settings that are readings, which change by themselves.
const READINGS: &str = "fs.aio-nr fs.dentry-state fs.epoll fs.file-nr fs.inode-nr fs.inode-state fs.quota fs.mount-nr \
    kernel.ns_last_pid kernel.pty.nr kernel.random kernel.perf_event_max_sample_rate \
    net.netfilter.nf_conntrack_count net.ipv4.tcp_fastopen_key";

/// Returns the network stack and the kernel settings of the host.
fn host() -> BTreeSet<String> {
    // some names cannot be read, and sysctl then fails
    let output = Command::new("sysctl").arg("-a").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let is_reading = |line: &str| READINGS.split(' ').any(|name| line.starts_with(name));
    let settings = text.lines().filter(|line| !is_reading(line));
    let mut all: BTreeSet<String> = settings.map(str::to_owned).collect();
    assert!(all.len() > 300, "sysctl -a tells next to nothing");
    // without counters
    all.insert(tool(&["nft", "-s", "list", "ruleset"]));
    all.insert(tool(&["ls", "/sys/class/net"]));
    all
}

#[test]
fn a_configuration_that_fails_ends_the_run_with_a_reason() {
    let Some(lab) = Lab::root() else { return };
    let swappiness = || fs::read_to_string("/proc/sys/vm/swappiness").unwrap();
    let before = swappiness();
    let other = if before.trim() == "1" { "2" } else { "1" };
    // the first command would change a setting of the whole host
    let wrong = format!("sysctl -w vm.swappiness={other}; echo this went wrong >&2; exit 7");
    let drop_all = "nft add table ip t; \
        nft add chain ip t f { type filter hook forward priority 0\\; policy drop\\; }";
    let applied = "could not be applied|vm.swappiness|exit status: 7|this went wrong";
    let forwards = "does not forward|: 0 of |frames reached the DUT's input and";
    for (set, expect) in [(wrong.as_str(), applied), (drop_all, forwards)] {
        let ended = lab.run(&format!("{TINY} --set '{set}'"));
        let expect: Vec<&str> = expect.split('|').collect();
        ended.code(4).says(&expect);
        let run = lab.run("runs show @1 --json").code(0).document();
        assert_eq!(run["info"]["state"], "failed", "{set}");
        assert_eq!(list(&run["trials"]).len(), 0, "{set}: nothing was measured");
        let cases = run["test_cases"].as_array();
        assert!(cases.is_none_or(Vec::is_empty), "{set}");
        // further lines are indented
        let reason = run["info"]["error"].as_str().unwrap();
        ended.says(&[reason.lines().next().unwrap()]);
        lab.assert_clean(set);
    }
    assert_eq!(swappiness(), before, "vm.swappiness of the host");

    // a usage error appears before anything is built
    lab.run(&format!("{TINY} --set /no/such/file")).code(2);

    // one that hangs can be interrupted
    let started = lab.path().join("begun");
    let set = format!("touch {}; sleep 1000", started.display());
    let mut quick = lab.start(&format!("{TINY} --set '{set}'"));
    quick.wait_until("the configuration", |_| started.exists());
    quick.signal(Signal::INT);
    quick.wait(PATIENCE).code(130);
    lab.assert_clean("a hanging configuration");
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
    let Some(lab) = Lab::root() else { return };
    let apply = lab.write("usual/apply", &format!("{USUAL}{HARM}"));
    fs::create_dir_all(lab.path().join("usual/etc/sysctl.d")).unwrap();
    fs::set_permissions(&apply, fs::Permissions::from_mode(0o755)).unwrap();
    let seen = lab.path().join("seen");
    let first = format!(
        "mkdir -p /etc/fwdlab-test; echo written before > /etc/fwdlab-test/first; \
         {{ echo $FWDLAB_IN $FWDLAB_OUT; readlink /proc/self/ns/net; }} > {}",
        seen.display()
    );
    let text = format!(
        "campaign = 'apart'\niterations = 1\n[configuration]\nusual = ['{first}', './usual']\n\
         [procedure]\nid = 'trial'\nload = '10kpps'\nfor = '700ms'\n"
    );
    lab.write("campaign.toml", &text);
    let places = ["/etc", "/run", "/var/lib", "/usr", "/boot", ""];
    let left = || {
        let files = places.map(|place| format!("{place}/fwdlab-test"));
        files.into_iter().filter(|file| fs::exists(file).unwrap())
    };
    assert_eq!(left().next(), None, "of a test before?");
    let before = host();
    let mut run = lab.start("run campaign.toml --json-stream");
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
    let after = host();
    let changed: Vec<&String> = before.symmetric_difference(&after).collect();
    assert!(changed.is_empty(), "of the host: {changed:?}");
    // no command reported success, so none did harm
    assert!(!ended.out.contains(" said: "), "{}", ended.out);
    let seen = fs::read_to_string(seen).unwrap();
    let (ports, namespace) = seen.trim().split_once('\n').unwrap();
    assert_eq!(ports, "eth0 eth1");
    let ours = fs::read_link("/proc/self/ns/net").unwrap();
    assert_ne!(namespace, ours.to_str().unwrap());
    lab.assert_clean("kept apart");
}

/// In the second tier, because they take long.
mod slow {
    use super::*;

    /// Without isolation, a configuration writes files of the host. The daemon that it starts ends
    /// with the run. A process that another program started in the DUT's namespace is reported and
    /// left alone, even if the run is killed and the next one removes its bed.
    #[test]
    fn foreign_processes_in_a_bed_are_left_alone() {
        let Some(lab) = Lab::root() else { return };
        let daemon = "echo this was said; echo of the host > /run/fwdlab-test\nsetsid sleep 1000 > /dev/null 2>&1 &\n";
        let script = lab.write("daemon.sh", daemon);
        let mut quick = lab.start(&format!(
            "{TINY} --set-unconfined --set {script} --json-stream"
        ));
        quick.event("progress");
        let dut = quick.bed()[1].clone();
        let mut theirs = Command::new("ip")
            .args(["netns", "exec", &dut, "sleep", "1000"])
            .spawn()
            .unwrap();
        let pid = theirs.id().to_string();
        quick.wait_until("the foreign process", |_| {
            let pids = tool(&["ip", "netns", "pids", &dut]);
            pids.lines().any(|line| line.trim() == pid)
        });
        quick.signal(Signal::KILL);
        let killed = quick.wait(PATIENCE);
        assert!(killed.out.contains("this was said"), "{}", killed.out);
        let run = lab.only_run();
        let kept = fs::read_to_string(run.join("inputs/daemon.sh")).unwrap();
        assert_eq!(kept, daemon);
        let info = read_json(&run.join("run.json"));
        assert_eq!(info["parameters"]["set_unconfined"], true, "{info}");
        // the next run finds what it left
        let next = lab.run(&format!("{TINY} --json-stream"));
        next.measured()
            .prints(&[&format!("process {pid} (sleep) runs in {dut}")]);
        assert!(theirs.try_wait().unwrap().is_none(), "it was killed");
        let ports = fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap();
        assert!(!ports.contains("eth0"), "{ports}");
        theirs.kill().unwrap();
        theirs.wait().unwrap();
        lab.assert_clean("what others run");
        let written = fs::read_to_string("/run/fwdlab-test").unwrap();
        fs::remove_file("/run/fwdlab-test").unwrap();
        assert_eq!(written, "of the host\n");
    }
}
