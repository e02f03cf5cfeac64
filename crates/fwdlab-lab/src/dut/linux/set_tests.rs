//! Configuration sets and families on a Linux DUT: on this machine's kernel, on a separate machine
//! over SSH, and on a recorded one with every failure at every command.
//!
//! Start with [`families_are_in_the_kernel_and_leave_nothing`].

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use super::tests::{linux, router_state, with_ports};
use super::*;
use crate::dut::Configuration;
use crate::host::scripted::{Fails, NAME, Scripted};
use crate::host::ssh::tests::Server;
use crate::host::undo::Left;
use crate::host::{Address, Files, Local, Netns, Output, Ssh};

fn control() -> Control {
    Control::default()
}

/// Creates a directory with these files.
fn set(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

fn configuration(set: &tempfile::TempDir) -> Configuration {
    Configuration::parse(set.path().to_str().unwrap()).unwrap()
}

/// Checks the kernel with programs other than those that have set it.
#[test]
fn families_are_in_the_kernel_and_leave_nothing() {
    let test = "families_are_in_the_kernel_and_leave_nothing";
    if !crate::user_namespace::is_root() {
        return println!("SKIPPED: {test}: not root");
    }
    let namespace = with_ports("families");
    let host: Arc<dyn Host> = Arc::new(Netns::bare(&namespace.0));
    let tables = || {
        let mut state = router_state(&namespace);
        for look in [
            "iptables-legacy-save | grep -v '^#'",
            "ipset list -n",
            "ethtool -k ens1",
        ] {
            state.push(
                host.query("sh", &["-c", &format!("{look} 2>/dev/null || :")])
                    .unwrap(),
            );
        }
        state
    };
    let record = tempfile::NamedTempFile::new().unwrap();
    let undo = Arc::new(Undo::new(record.reopen().unwrap()));
    let dut = Linux::new(
        host.clone(),
        host.clone(),
        ["ens1", "ens2"],
        Networks::EMBEDDED,
        undo,
    )
    .on(&[0, 1], None);
    // the first query creates the tables of legacy iptables, and no kernel removes them
    let _ = host.query("iptables-legacy", &["-w", "60", "-S"]);
    let before = tables();
    dut.prepare().unwrap();
    // without GRO, a veth port has no NAPI
    let threads = Configuration::parse("generate:threaded-napi,state=on").unwrap();
    let error = dut.apply(&threads, &control()).unwrap_err().to_string();
    assert!(error.contains("is polled when its GRO is on"), "{error}");
    let mut unknown = Vec::new();
    for (family, look, expect) in [
        (
            "nft-rules,n=7",
            "nft list table inet fwdlab_rules | grep -c 'ip saddr .* drop'",
            "7",
        ),
        (
            "nft-rules,n=3,ip=ipv6",
            "nft list table inet fwdlab_rules | grep -c 'ip6 saddr .* drop'",
            "3",
        ),
        (
            "nft-set,n=300",
            "nft -j list set inet fwdlab_set known | grep -o '20[.]0[.]' | wc -l",
            "300",
        ),
        (
            "nft-stateful,state=on",
            "nft list table inet fwdlab_state | grep -c 'ct state'",
            "2",
        ),
        (
            "nft-stateful,state=off",
            "nft list table inet fwdlab_state | grep -c 'ct state' || :",
            "0",
        ),
        (
            "iptables-rules,n=5",
            "iptables-nft -S FWDLAB_RULES | grep -c DROP",
            "5",
        ),
        (
            "iptables-rules,n=4,backend=legacy",
            "iptables-legacy -S FWDLAB_RULES | grep -c DROP",
            "4",
        ),
        (
            "iptables-stateful,state=on",
            "iptables-nft -S FWDLAB_STATE | grep -c ctstate",
            "2",
        ),
        (
            "iptables-stateful,state=off,backend=legacy",
            "iptables-legacy -S FWDLAB_STATE | grep -c -- '-j ACCEPT'",
            "1",
        ),
        (
            "ipset,n=20,backend=legacy",
            "ipset list fwdlab_known | grep -c '^20[.]0[.]'",
            "20",
        ),
        (
            "routes,n=6",
            "ip -4 route show proto 197 | grep -c via",
            "6",
        ),
        (
            "offload,feature=tso,state=off",
            "ethtool -k ens2 | grep -c 'tcp-segmentation-offload: off'",
            "1",
        ),
        (
            "queues,n=2",
            "ethtool -l ens1 | sed '1,/Current/d' | grep -c 2",
            "2",
        ),
        (
            "packet-steering,n=2",
            "cat /sys/class/net/ens1/queues/rx-0/rps_cpus | grep -c 3",
            "1",
        ),
        (
            "offload,feature=gro,state=on",
            "ethtool -k ens2 | grep -c 'generic-receive-offload: on'",
            "1",
        ),
        (
            "threaded-napi,state=on",
            "cat /sys/class/net/ens2/threaded",
            "1",
        ),
        (
            "deferred-interrupts,n=20,usecs=30",
            "cat /sys/class/net/ens1/napi_defer_hard_irqs /sys/class/net/ens2/gro_flush_timeout | tr '\\n' ' '",
            "20 30000",
        ),
        (
            "sysctl,name=net.ipv4.ip_early_demux,value=0",
            "cat /proc/sys/net/ipv4/ip_early_demux",
            "0",
        ),
    ] {
        let one = Configuration::parse(&format!("generate:{family}")).unwrap();
        match dut.apply(&one, &control()) {
            Ok(output) => assert_eq!(output, "", "{family}"),
            // some kernels lack families, and some machines the programs
            Err(error) => {
                let output = error.to_string();
                let is_missing = [
                    "there is no program",
                    "not supported",
                    "Could not fetch rule set",
                    "No such file",
                    "kernel lacks",
                ];
                assert!(
                    is_missing.iter().any(|words| output.contains(words)),
                    "{family}: {output}"
                );
                unknown.push(family);
                continue;
            }
        }
        let output = Local
            .query("ip", &["netns", "exec", &namespace.0, "sh", "-c", look])
            .unwrap();
        assert_eq!(output.trim(), expect, "{family}");
        let kept = dut.in_force(&one).unwrap();
        assert!(
            kept.is_empty() == family.starts_with("sysctl"),
            "{family}: {kept:?}"
        );
    }
    assert_ne!(tables(), before);
    assert_eq!(dut.undo(), ["x"; 0]);
    let after: Vec<String> = tables();
    for (was, is) in before.iter().zip(&after) {
        assert_eq!(is, was);
    }
    if !unknown.is_empty() {
        println!(
            "SKIPPED: {test}: this machine cannot do {}",
            unknown.join("; ")
        );
    }
    // a setting that a namespace may not change is refused, and leaves nothing behind
    let of_all = "generate:sysctl,name=net.netfilter.nf_conntrack_max,value=1000";
    let of_all = Configuration::parse(of_all).unwrap();
    let error = dut.apply(&of_all, &control()).unwrap_err().to_string();
    assert!(!error.contains("could not be undone"), "{error}");
}

/// A set is checked in the kernel; if it is not in force, the error says what and where.
#[test]
fn a_set_that_is_not_in_force_is_an_error() {
    let test = "a_set_that_is_not_in_force_is_an_error";
    if !crate::user_namespace::is_root() {
        return println!("SKIPPED: {test}: not root");
    }
    let namespace = with_ports("force");
    let bare: Arc<dyn Host> = Arc::new(Netns::bare(&namespace.0));
    let place: Arc<dyn Host> = Arc::new(Netns::place(&namespace.0, "test", false));
    let record = tempfile::NamedTempFile::new().unwrap();
    let undo = Arc::new(Undo::new(record.reopen().unwrap()));
    let dut = Linux::new(
        bare,
        place.clone(),
        ["ens1", "ens2"],
        Networks::EMBEDDED,
        undo,
    );
    dut.prepare().unwrap();

    let rules = "flush ruleset\ntable inet fw {\n chain c {\n }\n}\n";
    let says = "description = 'all of it'\nbefore = 'test ! -e /etc/fwdlab-test/x.conf'\nafter = 'echo $FWDLAB_IN'\n\
                [[reload]]\nfiles = '/etc/fwdlab-test/*'\ncommand = 'cat /etc/fwdlab-test/x.conf'\n\
                [[verify]]\ncommand = 'nft list ruleset'\nexpect = 'table inet fw'\n[[verify]]\ncommand = 'exit 3'\nexit = 3\n";
    let files = [
        ("set.toml", says),
        ("etc/sysctl.d/10.conf", "net.ipv4.conf.ens1.rp_filter = 1\n"),
        (
            "etc/sysctl.conf",
            "net.ipv4.conf.ens1.rp_filter = 2\n-net.ipv4.no_such = 1\n",
        ),
        ("etc/nftables.conf", rules),
        ("etc/fwdlab-test/x.conf", "of the set\n"),
    ];
    let whole = set(&files);
    let one = configuration(&whole);
    let output = dut.apply(&one, &control()).unwrap();
    assert!(
        output.contains("of the set\n") && output.ends_with("ens1\n"),
        "{output}"
    );
    let kept = dut.in_force(&one).unwrap();
    assert_eq!(kept["sysctl.txt"], "net.ipv4.conf.ens1.rp_filter = 2\n");
    assert_eq!(kept["files/etc/fwdlab-test/x.conf"], "of the set\n");
    assert!(kept["nft-ruleset.txt"].contains("table inet fw"));
    // this machine is not affected
    assert!(!Path::new("/etc/fwdlab-test").exists());

    for (path, text, expect) in [
        // the second name sets all interfaces, including the first: the value in force differs from
        // the file
        (
            "etc/sysctl.conf",
            "net.ipv4.conf.ens1.forwarding = 0\nnet.ipv4.ip_forward = 0\nnet.ipv4.ip_forward = 1\n",
            "etc/sysctl.conf, line 1: net.ipv4.conf.ens1.forwarding should be 0, and is 1",
        ),
        (
            "etc/nftables.conf",
            "table inet fw { }\ndelete table inet fw\nadd table ip gone\ndestroy table ip gone\ntable ip $x { }",
            "`exec nft -f",
        ),
        (
            "set.toml",
            "verify = [{ command = 'nft list tables', expect = 'ip lost' }]",
            "`nft list tables` should print `ip lost`, but prints: table inet fw",
        ),
        (
            "set.toml",
            "verify = [{ command = 'echo no; false' }]",
            "`echo no; false` should end with exit code 0, but ends with 1: no",
        ),
        (
            "set.toml",
            "packages = ['no-such-package-of-anybody']",
            "Install there: no-such-package-of-anybody",
        ),
        (
            "set.toml",
            "reboot = true",
            "it needs a restart of the DUT, which is a part of this machine here",
        ),
        (
            "usr/local/bin/x",
            "",
            "/usr/local/bin/x cannot be changed on",
        ),
        (
            "etc/rc.conf",
            "gateway_enable=YES",
            "etc/rc.conf is for FreeBSD, but this DUT runs Linux",
        ),
        (
            "etc/sysctl.conf",
            "hw.pci.do_power_nodriver=3",
            "hw.pci.do_power_nodriver in etc/sysctl.conf is for FreeBSD",
        ),
        (
            "etc/sysctl.conf",
            "net.ipv4.no_such = 1",
            "net/ipv4/no_such",
        ),
    ] {
        let wrong = set(&[(path, text)]);
        let error = dut
            .apply(&configuration(&wrong), &control())
            .unwrap_err()
            .to_string();
        assert!(error.contains(expect), "{path}: {error}");
        assert!(!path.starts_with("usr") || !Path::new("/usr/local/bin/x").exists());
    }
    // a table that a file creates and something else removes
    let removed = set(&[
        ("etc/nftables.conf", "table inet fw2 { }\n"),
        ("etc/x/y", "z"),
        (
            "set.toml",
            "reload = [{ files = '/etc/x/y', command = 'nft delete table inet fw2' }]",
        ),
    ]);
    let error = dut
        .apply(&configuration(&removed), &control())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("makes table inet fw2, and the kernel lists table inet fw"),
        "{error}"
    );
    // without isolation its files would be this machine's
    let unconfined: Arc<dyn Host> = Arc::new(Netns::place(&namespace.0, "test", true));
    let record = tempfile::NamedTempFile::new().unwrap();
    let undo = Arc::new(Undo::new(record.reopen().unwrap()));
    let dut = Linux::new(
        unconfined.clone(),
        unconfined,
        ["ens1", "ens2"],
        Networks::EMBEDDED,
        undo,
    );
    let error = dut.apply(&one, &control()).unwrap_err().to_string();
    assert!(
        error.contains("/etc/fwdlab-test/x.conf would be a file of this machine"),
        "{error}"
    );
}

/// A real machine over SSH, except that a restart only restarts its server: files are kept, and the
/// network state is lost.
#[derive(Debug)]
struct Restarting {
    host: Ssh,
    server: Mutex<ServerOf>,
}

/// A server, and the function that returns its mount commands for a given boot id.
struct ServerOf(Server, Box<dyn Fn(&str) -> String + Send>);

impl std::fmt::Debug for ServerOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a server")
    }
}

impl Host for Restarting {
    fn name(&self) -> &str {
        self.host.name()
    }
    fn address(&self) -> Address {
        self.host.address()
    }
    fn run(&self, command: &Command, limit: Limit<'_>) -> Result<Output, HostError> {
        if command.to_string() == "reboot" {
            let mut server = self.server.lock().unwrap();
            let ServerOf(server, boot) = &mut *server;
            server.restart_with_files(&boot("second"));
            return Err(HostError::new(
                self.name(),
                command,
                Failure::Lost("it goes".into()),
            ));
        }
        self.host.run(command, limit)
    }
    fn start(&self, command: &Command) -> Result<Box<dyn Process>, HostError> {
        self.host.start(command)
    }
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        self.host.read(path)
    }
    fn write(&self, path: &str, content: &[u8]) -> Result<(), HostError> {
        self.host.write(path, content)
    }
    fn put(&self, ours: &Path) -> Result<String, HostError> {
        self.host.put(ours)
    }
}

/// A recorded machine with its own files, which keeps what is set.
fn machine() -> Scripted {
    // the rules, the setting, number of boots
    let state: Mutex<(String, String, u32)> =
        Mutex::new(("table ip kept {\n}\n".into(), "7".into(), 1));
    let answers = move |command: &str, input: &str| {
        let mut state = state.lock().unwrap();
        let (rules, setting, boot) = &mut *state;
        match command {
            "which boot is this?" => return format!("boot-{boot}\n"),
            "reboot" => *boot += 1,
            "look for packages" => return "looked\n".into(),
            "nft -s list ruleset" => return rules.clone(),
            "nft list tables" => {
                let tables = rules.lines().filter(|line| line.starts_with("table "));
                return tables.map(|line| line.replace(" {", "\n")).collect();
            }
            "nft -f -" => *rules = input.replace("flush ruleset\n", ""),
            "read /etc/x" => return "before\n".into(),
            "cat /etc/x" => return "it is so\nfwdlab: 0\n".into(),
            "read /proc/sys/net/ipv4/conf/ens1/rp_filter" => return format!("{setting}\n"),
            _ if command.starts_with("inspect the files") => {
                // /etc/nftables.conf, /etc/x, /etc/sysctl.conf, and /etc
                return "nothing\nfile 640 0:0\nnothing\nthere\n".into();
            }
            _ if command.starts_with("exec nft -f") => *rules = "table inet fw {\n}\n".into(),
            _ if command.starts_with("set -e\necho '2' > '/proc/sys") => *setting = "2".into(),
            _ if command.starts_with("restore settings of a set") => *setting = "7".into(),
            _ if command.starts_with("read /proc/sys/") => return "0\n".into(),
            _ => {}
        }
        String::new()
    };
    Scripted::new(answers).with_files(Files::Machine)
}

fn whole_set(more: &str) -> tempfile::TempDir {
    let says = format!(
        "packages = 'frr'\nbefore = 'systemctl stop x'\nafter = 'true # after'\nundo = 'systemctl start x'\n\
         verify = [{{ command = 'cat /etc/x', expect = 'it is so' }}]\n{more}"
    );
    set(&[
        ("set.toml", &says),
        ("etc/sysctl.conf", "net.ipv4.conf.ens1.rp_filter = 2\n"),
        ("etc/nftables.conf", "flush ruleset\ntable inet fw {\n}\n"),
        ("etc/x", "after\n"),
    ])
}

/// For every operation and every failure at every command: an error with place and cause, and every
/// change is undone, or reported as left behind.
#[test]
fn every_failure_in_a_set_is_reported_and_undone() {
    let whole = whole_set("reload = [{ files = '/etc/x', command = 'systemctl reload x' }]");
    let one = configuration(&whole);
    let (dut, host, _) = linux(machine());
    dut.apply(&one, &control()).unwrap();
    let commands = host.commands();
    for words in [
        "systemctl stop x",
        "upload the files",
        "systemctl reload x",
        "true # after",
        "cat /etc/x",
    ] {
        assert!(
            commands.iter().any(|command| command.contains(words)),
            "{words}: {commands:#?}"
        );
    }
    assert_eq!(dut.undo(), ["x"; 0]);
    let undo_commands: Vec<String> = host.commands()[commands.len()..].to_vec();
    let first: Vec<&str> = undo_commands
        .iter()
        .map(|command| command.lines().next().unwrap())
        .collect();
    assert_eq!(first[0], "nft -f -");
    assert!(
        first[1].starts_with("restore settings of a set"),
        "{first:?}"
    );
    assert!(first[2].starts_with("restore the files that"), "{first:?}");
    assert_eq!(first[3..], ["systemctl start x"]);
    assert!(
        undo_commands[0].contains("table ip kept"),
        "{undo_commands:#?}"
    );
    assert!(
        undo_commands[2].contains("printf %s 'before\n' | back /etc/x 640 0:0"),
        "{}",
        undo_commands[2]
    );
    assert!(
        undo_commands[2].contains("rm -f /etc/nftables.conf")
            && undo_commands[2].ends_with("systemctl reload x"),
        "{}",
        undo_commands[2]
    );

    for at in 0..commands.len() {
        for how in Fails::ALL {
            let (dut, host, record) = linux(machine().failing(at, how));
            let result = dut.apply(&one, &control());
            let requested = host.commands();
            let failed = requested[at].lines().next().unwrap();
            let case = format!("command {at}, {failed}, {how:?}");
            match &result {
                Err(error) => {
                    let output = error.to_string();
                    assert!(output.contains(NAME), "{case}: {output}");
                    for words in how.words() {
                        assert!(output.contains(words), "{case}: {output}");
                    }
                }
                Ok(_) => {
                    let is_setting = how == Fails::File && failed.starts_with("read /proc/sys/");
                    // output of users' commands is not checked
                    let users = [
                        "read /etc/x",
                        "systemctl",
                        "true",
                        "exec",
                        "set -e",
                        "upload",
                        "put ",
                        "restore ",
                    ];
                    let is_users = how == Fails::Garbage
                        && users.iter().any(|begin| failed.starts_with(begin));
                    assert!(is_setting || is_users, "{case}: nobody noticed");
                }
            }
            let text = fs::read_to_string(record.path()).unwrap();
            let problem = dut.undo();
            if how == Fails::Lost {
                assert_eq!(
                    problem.is_empty(),
                    !text.contains("\"undo\""),
                    "{case}: {problem:?}"
                );
            } else {
                assert_eq!(problem, ["x"; 0], "{case}");
                let text = fs::read_to_string(record.path()).unwrap();
                assert_eq!(Left::parse(&text), Left::default(), "{case}");
            }
            // nothing is changed before the record says how to undo it
            let changes = ["upload the files", "set -e", "exec nft", "systemctl stop"];
            if !text.contains("\"undo\"") {
                let of = |command: &&String| changes.iter().any(|begin| command.starts_with(begin));
                assert_eq!(requested.iter().filter(of).count(), 0, "{case}");
            }
        }
    }
}

/// After a restart, what is in force is what the system has loaded by itself.
#[test]
fn a_set_with_a_restart_waits_for_it() {
    let whole = whole_set("reboot = true");
    let one = configuration(&whole);
    // the system loads its files by itself; fwdlab loads none of them
    let (dut, host, _) = linux(machine());
    let error = dut.apply(&one, &control()).unwrap_err().to_string();
    assert!(error.contains("rp_filter should be 2, and is 7"), "{error}");
    let requested = host.commands();
    let at = |words: &str| {
        requested
            .iter()
            .position(|command| command.starts_with(words))
    };
    let (upload, reboot) = (at("upload the files"), at("reboot"));
    assert!(upload < reboot && upload.is_some(), "{requested:#?}");
    // what it has not loaded is reported before anything else is set
    assert_eq!(at("write /proc/sys/net/ipv4/ip_forward"), None);
    assert_eq!(at("exec nft -f"), None);
    assert!(one.needs().contains(&"the DUT is restarted".to_owned()));

    let (dut, host, _) = linux(machine().with_files(Files::View));
    let error = dut.apply(&one, &control()).unwrap_err().to_string();
    assert!(error.contains("omit reboot from its set.toml"), "{error}");
    assert_eq!(host.commands(), ["x"; 0]);
}

/// Behind sshd.
mod slow {
    use super::*;

    /// A separate machine with its own files, over a real SSH server: files, settings and rules are
    /// restored, by this process or another.
    #[test]
    fn a_separate_machine_is_restored() {
        let test = "a_separate_machine_is_restored";
        if !crate::user_namespace::is_root() {
            return println!("SKIPPED: {test}: not root");
        }
        let namespace = with_ports("machine");
        let inside = Netns::bare(&namespace.0);
        inside.query("ip", &["link", "set", "lo", "up"]).unwrap();
        // /etc is private, and what is written there vanishes with the mounts
        let own = "set -e; mount --make-rprivate /; mount -t tmpfs own /mnt; mkdir /mnt/files /mnt/work; \
               mount -t overlay -o lowerdir=/etc,upperdir=/mnt/files,workdir=/mnt/work own /etc; \
               printf 'before' > /etc/fwdlab-test; chmod 640 /etc/fwdlab-test; exec \"$@\"";
        let Some(server) = Server::start_with_files(test, &namespace.0, own) else {
            return;
        };
        let host: Arc<dyn Host> = Arc::new(server.host());
        assert_eq!(host.files(), Files::Machine);
        host.feed("nft", &["-f", "-"], "table ip kept {\n chain c {\n }\n}\n")
            .unwrap();
        let look = "cat /etc/fwdlab-test; stat -c %a /etc/fwdlab-test; ls /etc/fwdlab-new 2>&1 | head -1; cat /etc/sysctl.conf 2>&1; \
                cat /proc/sys/net/ipv4/conf/ens1/rp_filter; nft -s list ruleset";
        let state = || host.query("sh", &["-c", look]).unwrap();
        let before = state();
        let files = [
            (
                "set.toml",
                "undo = 'rm /etc/made'\nbefore = 'touch /etc/made'\nverify = [{ command = 'cat /etc/fwdlab-new/a/b', expect = 'new' }]",
            ),
            ("etc/sysctl.conf", "net.ipv4.conf.ens1.rp_filter = 2\n"),
            ("etc/nftables.conf", "flush ruleset\ntable inet fw { }\n"),
            ("etc/fwdlab-test", "after"),
            ("etc/fwdlab-new/a/b", "new"),
        ];
        let whole = set(&files);
        let one = configuration(&whole);
        let record = tempfile::NamedTempFile::new().unwrap();
        let undo = Arc::new(Undo::new(record.reopen().unwrap()));
        let ports = ["ens1", "ens2"];
        let dut = Linux::new(host.clone(), host.clone(), ports, Networks::EMBEDDED, undo);
        let apply = || {
            dut.apply(&one, &control()).unwrap();
            let now = state();
            for words in [
                "after640\n",
                "table inet fw",
                "net.ipv4.conf.ens1.rp_filter = 2",
                "\n2\n",
            ] {
                assert!(now.contains(words), "{words}: {now}");
            }
            assert!(!now.contains("table ip kept"), "{now}");
            let kept = dut.in_force(&one).unwrap();
            assert_eq!(kept["files/etc/fwdlab-test"], "after");
        };
        apply();
        assert_eq!(dut.undo(), ["x"; 0]);
        assert_eq!(state(), before);
        // this process dies, and the next one finds the record
        apply();
        let text = fs::read_to_string(record.path()).unwrap();
        let left = Left::parse(&text).undo_change(record.path(), |_| false, Address::reach);
        assert_eq!(left, ["x"; 0]);
        assert_eq!(state(), before);
        let made = host.query("sh", &["-c", "ls /etc/made 2>&1 || :"]).unwrap();
        assert!(made.contains("No such file"), "{made}");
        assert!(!Path::new("/etc/fwdlab-test").exists());
    }

    /// The machine comes back, has loaded its files by itself, and is a router again; then
    /// everything is restored.
    #[test]
    fn a_machine_that_restarts_has_its_set_in_force() {
        let test = "a_machine_that_restarts_has_its_set_in_force";
        if !crate::user_namespace::is_root() {
            return println!("SKIPPED: {test}: not root");
        }
        let namespace = with_ports("restart");
        let inside = Netns::bare(&namespace.0);
        inside.query("ip", &["link", "set", "lo", "up"]).unwrap();
        let disk = tempfile::tempdir().unwrap();
        let etc = disk.path().join("etc");
        Local
            .query("cp", &["-a", "/etc", etc.to_str().unwrap()])
            .unwrap();
        fs::write(etc.join("sysctl.conf"), "").unwrap();
        let _ = fs::remove_file(etc.join("nftables.conf"));
        let at = disk.path().display().to_string();
        let boot = move |identity: &str| {
            format!(
                "set -e; mount --make-rprivate /; mount --bind {at}/etc /etc; echo {identity} > {at}/boot; \
             mount --bind {at}/boot /proc/sys/kernel/random/boot_id; nft flush ruleset; ip addr flush dev ens1; \
             echo 0 > /proc/sys/net/ipv4/ip_forward; echo 0 > /proc/sys/net/ipv4/conf/ens1/rp_filter; \
             while IFS='= ' read -r name value; do \
                 file=$(echo \"$name\" | tr . /); [ -z \"$file\" ] || echo \"$value\" > \"/proc/sys/$file\"; \
             done < /etc/sysctl.conf; \
             [ ! -e /etc/nftables.conf ] || nft -f /etc/nftables.conf; exec \"$@\""
            )
        };
        let Some(server) = Server::start_with_files(test, &namespace.0, &boot("first")) else {
            return;
        };
        let host: Arc<dyn Host> = Arc::new(Restarting {
            host: server.host(),
            server: Mutex::new(ServerOf(server, Box::new(boot))),
        });
        let record = tempfile::NamedTempFile::new().unwrap();
        let undo = Arc::new(Undo::new(record.reopen().unwrap()));
        let ports = ["ens1", "ens2"];
        let dut = Linux::new(host.clone(), host.clone(), ports, Networks::EMBEDDED, undo);
        let look = "cat /etc/sysctl.conf; ls /etc/nftables.conf 2>&1; nft -s list ruleset; ip -o -4 addr show; \
                cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/ens1/rp_filter";
        let state = || host.query("sh", &["-c", look]).unwrap();
        let before = state();
        dut.prepare().unwrap();
        let whole = set(&[
            (
                "set.toml",
                "reboot = true\nreboot-within = '20s'\nverify = [{ command = 'cat /proc/sys/kernel/random/boot_id', expect = 'second' }]\n",
            ),
            ("etc/sysctl.conf", "net.ipv4.conf.ens1.rp_filter = 2\n"),
            ("etc/nftables.conf", "table inet fw { }\n"),
        ]);
        let one = configuration(&whole);
        dut.apply(&one, &control()).unwrap();
        let now = state();
        for words in ["table inet fw", "198.18.0.1/30", "1\n2\n"] {
            assert!(now.contains(words), "{words}: {now}");
        }
        assert_eq!(dut.undo(), ["x"; 0]);
        assert_eq!(state(), before);
    }
}
