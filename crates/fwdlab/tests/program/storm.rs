//! Campaigns over SSH while everything fails at random: connections, the agent, links, the router,
//! the controller, the disk. Every cell has a correct result or a reason, and nothing is left.
//!
//! Three machines: the controller, which is this one, a tester and a router, which are namespaces
//! with an SSH server each. A restart loses the state that a real one would lose. To run it for an
//! hour: `FWDLAB_STORM_S=3600`. Start with [`Storm`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{
    Lab, NOT_REACHED, Started, begun_runs, count, directories, json_lines, list, number, read_json,
    reports_stall, skipped, tool, try_tool,
};
use crate::test_beds::{Rack, ip_exec, rack};
use rustix::process::{Pid, Signal, kill_process};

/// Duration in `make test`; slow restarts need a longer one.
const SHORT: Duration = Duration::from_secs(10);

/// A campaign ends within this time after the last fault: with eight busy processes for each CPU,
/// one took more than three minutes.
const PATIENCE: Duration = Duration::from_secs(400);

const FAULTS: [&str; 8] = [
    "the agent is killed",
    "connections are cut",
    "a link is down",
    "the router restarts",
    "the controller is killed",
    "the controller is stopped",
    "the disk is full",
    "the router restarts slowly",
];

/// An SSH server in a namespace, with a home of its own.
struct Server {
    home: PathBuf,
    namespace: String,
    child: Child,
    /// Number of boots so far.
    boots: usize,
}

impl Server {
    fn start(lab: &Lab, name: &str, namespace: &str) -> Server {
        let home = lab.path().join(name);
        fs::create_dir(&home).unwrap();
        Server {
            child: Server::boot(&home, namespace, 0),
            home,
            namespace: namespace.to_owned(),
            boots: 0,
        }
    }

    /// Starts the server on a machine with this number of boots, and waits until it listens.
    fn boot(home: &Path, namespace: &str, boots: usize) -> Child {
        let identity = format!("{boots:08}-0000-4000-8000-000000000000\n");
        fs::write(home.join("identity"), identity).unwrap();
        let script = "mount --bind $0/identity /proc/sys/kernel/random/boot_id \
            && exec /usr/sbin/sshd -D -e -f $0/../sshd_config -o SetEnv=HOME=$0";
        let log = home.join("log");
        let stderr = File::options().create(true).append(true).open(&log);
        let child = Command::new("ip")
            .args(["netns", "exec", namespace, "unshare", "--mount", "sh", "-c"])
            .arg(script)
            .arg(home)
            .stdin(Stdio::null())
            .stderr(stderr.unwrap())
            .spawn()
            .unwrap();
        let started = Instant::now();
        let log = || fs::read_to_string(&log).unwrap();
        while log().matches("Server listening").count() <= boots {
            assert!(started.elapsed() < Duration::from_secs(30), "{}", log());
            std::thread::sleep(Duration::from_millis(10));
        }
        child
    }

    /// Returns the processes in its namespace, with their command lines.
    fn processes(&self) -> Vec<(i32, String)> {
        let output = try_tool(&["ip", "netns", "pids", &self.namespace]).unwrap_or_default();
        let pids = output.split_whitespace().filter_map(|pid| pid.parse().ok());
        pids.map(|pid: i32| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            (pid, line.replace('\0', " "))
        })
        .collect()
    }

    fn kill_where(&self, is: impl Fn(&str) -> bool) {
        for (pid, _) in self.processes().iter().filter(|(_, line)| is(line)) {
            _ = kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL);
        }
    }

    fn cut_connections(&self) {
        let serves = |line: &str| line.starts_with("sshd: ") || line.contains("sshd-session");
        self.kill_where(|line| serves(line) && !line.contains("[listener]"));
    }

    fn kill(&mut self) {
        self.kill_where(|_| true);
        _ = self.child.wait();
    }

    /// Restarts its machine: ends all its processes, and does not answer for some time.
    fn restart(&mut self, away: Duration) {
        self.kill();
        ip_exec(&self.namespace, LOST);
        std::thread::sleep(away);
        self.boots += 1;
        self.child = Server::boot(&self.home, &self.namespace, self.boots);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// State that a restart of the router loses.
const LOST: &str = "nft flush ruleset; for p in da db; do ip addr flush dev $p; ip link set $p down; ip link set $p up; done
    echo 0 > /proc/sys/net/ipv4/ip_forward; echo 0 > /proc/sys/net/ipv6/conf/all/forwarding
    for p in all default da db; do for v in accept_redirects send_redirects rp_filter secure_redirects; do
    cat /proc/sys/net/ipv4/conf/lo/$v > /proc/sys/net/ipv4/conf/$p/$v 2>/dev/null; done; done; true";

/// A pseudorandom sequence that can be repeated.
pub struct Dice(pub u64);

impl Dice {
    /// Returns a number below this.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

const CAMPAIGN: &str = "campaign = 'storm'\nbed = 'rack'\niterations = 2\n\
    [configuration]\nhalf = 'half.nft'\n\
    [matrix]\nconfiguration = ['plain', 'half']\nflows = 10\n\
    [procedure]\nid = 'trial'\nload = '1kpps'\nfor = '300ms'\n";

/// Drops every second frame.
const HALF: &str = "add table ip half\nadd chain ip half f { type filter hook forward priority 0; }\n\
    add rule ip half f numgen inc mod 2 0 drop\n";

struct Storm {
    tester: Option<Server>,
    router: Option<Server>,
    rack: Rack,
}

impl Storm {
    fn new() -> Option<Storm> {
        for program in ["ssh", "busybox", "/usr/sbin/sshd"] {
            if try_tool(&["sh", "-c", "command -v $0", program]).is_err() {
                skipped(&format!("{program} is not installed"));
                return None;
            }
        }
        let rack = rack("storm")?;
        let (lab, [tester, dut]) = (&rack.lab, &rack.names);
        for port in ["da", "db"] {
            tool(&["ip", "-n", dut, "link", "set", port, "up"]);
        }
        let at = lab.path().to_str().unwrap();
        let server = format!(
            "Port 22\nListenAddress 127.0.0.1\nHostKey {at}/host\nAuthorizedKeysFile {at}/user.pub\nPidFile none\nStrictModes no\n\
             UsePAM no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxSessions 30\n"
        );
        lab.write("sshd_config", &server);
        let client = format!(
            "Host tester\nProxyCommand ip netns exec {tester} busybox nc 127.0.0.1 22\n\
             Host router\nProxyCommand ip netns exec {dut} busybox nc 127.0.0.1 22\n\
             Host *\nUser root\nHostKeyAlias storm\nIdentityFile {at}/user\nIdentitiesOnly yes\nIdentityAgent none\n\
             UserKnownHostsFile {at}/known\nGlobalKnownHostsFile none\n"
        );
        lab.write("ssh_config", &client);
        // the user's own ssh, with a configuration for the test; this /run belongs to the test
        let make = "cd $0; mkdir -p bin /run/sshd; for key in host user; do ssh-keygen -qt ed25519 -N '' -f $key; done
            echo storm $(cat host.pub) > known
            echo '#!/bin/sh\nexec '$(command -v ssh)' -F '$0'/ssh_config \"$@\"' > bin/ssh; chmod +x bin/ssh";
        tool(&["sh", "-ec", make, at]);
        let [tester, router] = [("tester", tester), ("router", dut)].map(|(name, of)| {
            let host = format!("netns:{of}");
            rack.edit("beds/rack.toml", &host, &format!("ssh://{name}"));
            Some(Server::start(lab, name, of))
        });
        lab.write("storm.toml", CAMPAIGN);
        lab.write("half.nft", HALF);
        // a separate disk for runs, which can be filled
        fs::create_dir(lab.runs()).unwrap();
        let runs = lab.runs().to_str().unwrap().to_owned();
        tool(&["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", &runs]);
        Some(Storm {
            tester,
            router,
            rack,
        })
    }

    fn start(&self, words: &str) -> Started {
        let mut command = self.rack.lab.program(words);
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.rack.lab.path().join("bin");
        command.env("PATH", format!("{}:{path}", bin.display()));
        self.rack.lab.start_command(command)
    }

    /// Causes a fault.
    fn strike(&mut self, fault: &str, dice: &mut Dice, controller: &mut Started) {
        let (tester, router) = (self.tester.as_mut().unwrap(), self.router.as_mut().unwrap());
        match fault {
            "the agent is killed" => {
                tester.kill_where(|line| line.contains("fwdlab") && line.contains("agent"))
            }
            "connections are cut" => [router, tester][dice.below(2) as usize].cut_connections(),
            "a link is down" => {
                let port = ["da", "db"][dice.below(2) as usize];
                let tenths = dice.below(9);
                let text =
                    format!("ip link set {port} down; sleep 0.{tenths}; ip link set {port} up");
                ip_exec(&self.rack.names[1], &text);
            }
            "the router restarts" => router.restart(Duration::from_millis(dice.below(1500))),
            "the router restarts slowly" => router.restart(Duration::from_secs(8)),
            "the controller is killed" => controller.signal(Signal::KILL),
            "the controller is stopped" => controller.signal(Signal::INT),
            "the disk is full" => {
                let file = self.rack.lab.runs().join("full");
                // it ends with an error, when there is no room left
                _ = try_tool(&[
                    "dd",
                    "if=/dev/zero",
                    "bs=64k",
                    &format!("of={}", file.display()),
                ]);
                std::thread::sleep(Duration::from_millis(500 + dice.below(2000)));
                fs::remove_file(file).unwrap();
            }
            other => panic!("{other}"),
        }
    }

    /// Carries out a campaign in the storm, and resumes it whenever the controller has ended.
    /// Returns the directory of its run.
    fn campaign(
        &mut self,
        until: Instant,
        dice: &mut Dice,
        struck: &mut BTreeMap<&str, u32>,
    ) -> PathBuf {
        let before: BTreeSet<PathBuf> = directories(&self.rack.lab.runs()).into_iter().collect();
        let mut run: Option<PathBuf> = None;
        let mut quiet_since = Instant::now();
        let mut output = String::new();
        loop {
            let words = match &run {
                Some(run) => format!("run --resume {}", run.file_name().unwrap().display()),
                None => "run storm.toml".to_owned(),
            };
            let mut controller = self.start(&words);
            loop {
                let calm = Instant::now() + Duration::from_millis(200 + dice.below(4000));
                while Instant::now() < calm && !controller.has_ended() {
                    std::thread::sleep(Duration::from_millis(20));
                }
                if controller.has_ended() {
                    break;
                }
                if Instant::now() < until {
                    let fault = FAULTS[dice.below(FAULTS.len() as u64) as usize];
                    *struck.entry(fault).or_default() += 1;
                    self.strike(fault, dice, &mut controller);
                    quiet_since = Instant::now();
                }
                assert!(
                    quiet_since.elapsed() < PATIENCE,
                    "no end of it: {}\nbefore: {output}",
                    controller.err()
                );
            }
            let ended = controller.wait(PATIENCE);
            output = format!("{words} {ended:?}");
            let mut now = begun_runs(&self.rack.lab.runs()).into_iter();
            let is_own = |dir: &PathBuf| !before.contains(dir);
            run = run.or_else(|| now.find(is_own));
            if let Some(dir) = &run
                && read_json(&dir.join("run.json"))["state"] == "finished"
            {
                return dir.clone();
            }
            // it exits with a message for people, or it was killed
            assert!(ended.code != 1 && !output.contains("panicked"), "{output}");
            assert!(
                quiet_since.elapsed() < PATIENCE,
                "it does not go on: {output}"
            );
        }
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        // before their namespaces
        (self.tester, self.router) = (None, None);
        let _ = try_tool(&["umount", "-l", self.rack.lab.runs().to_str().unwrap()]);
    }
}

/// The number of iterations with a result, and the reasons of the others.
#[derive(Debug, Default)]
struct Outcome {
    good: u32,
    /// Iterations in which the generator stalled, which is not a fault of the storm.
    not_reached: u32,
    others: Vec<String>,
}

/// Asserts that every cell is correct or has a reason.
fn check(run: &Path, outcome: &mut Outcome) {
    let summary = read_json(&run.join("summary.json"));
    let trials = json_lines(&run.join("trials.jsonl"));
    let cases = list(&summary["test_cases"]);
    assert_eq!(cases.len(), 2, "{summary}");
    for case in cases {
        let iterations = list(&case["iterations"]);
        let numbers: BTreeSet<u64> = (iterations.iter())
            .map(|one| count(&one["iteration"]))
            .collect();
        assert!(iterations.len() == 2 && numbers == [1, 2].into(), "{case}");
        let is_half = case["test_case"].as_str().unwrap().starts_with("half");
        let share = if is_half { 0.5 } else { 0.0 };
        for iteration in iterations {
            match iteration["failure"].as_str() {
                None => outcome.good += 1,
                Some(reason) if reports_stall(reason) => outcome.not_reached += 1,
                Some(reason) => {
                    assert!(!reason.is_empty() && reason != "interrupted", "{iteration}");
                    outcome.others.push(reason.to_owned());
                }
            }
        }
        for trial in &trials {
            let reasons = &trial["validity"]["reasons"];
            if trial["test_case"] != case["test_case"] || !list(reasons).is_empty() {
                continue;
            }
            let lost = number(&trial["frame_loss_ratio"]);
            assert!((lost - share).abs() < 0.01, "{trial}");
        }
    }
}

/// Takes minutes.
mod slow {
    use super::*;

    #[test]
    fn failures_in_campaigns_over_ssh_cost_the_minimum() {
        let Some(mut storm) = Storm::new() else {
            return;
        };
        let seconds = std::env::var("FWDLAB_STORM_S")
            .ok()
            .and_then(|s| s.parse().ok());
        let until = Instant::now() + seconds.map_or(SHORT, Duration::from_secs);
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        let before = storm.rack.state();
        let (mut struck, mut runs) = (BTreeMap::new(), 0);
        let mut outcome = Outcome::default();
        while runs == 0 || Instant::now() < until {
            let run = storm.campaign(until, &mut dice, &mut struck);
            check(&run, &mut outcome);
            runs += 1;
            storm.rack.lab.run("runs verify @1").code(0);
            fs::remove_dir_all(&run).unwrap();
        }
        // the next command that connects undoes what a killed controller has left
        println!("{:?}", storm.start("doctor rack").wait(PATIENCE));
        storm.rack.assert_state(&before);
        for server in [&storm.tester, &storm.router].into_iter().flatten() {
            let left = server.processes();
            let is_ours = |(_, line): &(i32, String)| line.contains("fwdlab");
            assert!(!left.iter().any(is_ours), "{left:?}");
        }
        // faults may cost results, but not all of them
        let reported = format!("{runs} campaigns; {outcome:?}; struck {struck:?}");
        println!("{reported}");
        assert!(!struck.is_empty(), "{reported}");
        if outcome.good == 0 && outcome.not_reached > 0 {
            return skipped(NOT_REACHED);
        }
        assert!(outcome.good > 0, "{reported}");
    }
}
