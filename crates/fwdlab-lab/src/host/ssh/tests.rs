//! Hosts over SSH, with a real server that this test starts on its own port of this machine.
//!
//! Its keys, its configuration and that of the client are in a directory of the test; no `~/.ssh`
//! is read. Start with [`Server`].

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use super::*;
use crate::host::{Remote, reboot};

/// An SSH server; it ends, with all its connections, when this is dropped.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    port: u16,
    child: Child,
    namespace: Option<String>,
}

impl Server {
    /// Starts a server that accepts our key; prints why and returns `None` if that is impossible.
    pub fn start(test: &str) -> Option<Server> {
        Server::start_within(test, None)
    }

    /// The same in a network namespace.
    pub fn start_within(test: &str, namespace: Option<&str>) -> Option<Server> {
        Server::start_behind(test, namespace, &[])
    }

    /// The same in a network namespace and with its own mounts, which this script for `sh` creates
    /// before it continues with `exec "$@"`.
    pub fn start_with_files(test: &str, namespace: &str, mounts: &str) -> Option<Server> {
        let before = ["unshare", "--mount", "sh", "-c", mounts, "sh"];
        Server::start_behind(test, Some(namespace), &before)
    }

    fn start_behind(test: &str, namespace: Option<&str>, behind: &[&str]) -> Option<Server> {
        let missing = ["sshd", "ssh", "ssh-keygen"].into_iter().find(|program| {
            let look = format!("PATH=$PATH:/usr/sbin; command -v {program}");
            Local.query("sh", &["-c", &look]).is_err()
        });
        if let Some(program) = missing {
            println!("SKIPPED: {test}: there is no program {program}");
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: {test}: needs root");
            return None;
        }
        // the system's own server creates it, too
        std::fs::create_dir_all("/run/sshd").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        for key in ["host", "user", "other"] {
            let file = path(key);
            let make = ["-q", "-t", "ed25519", "-N", "", "-C", key, "-f", &file];
            Local.query("ssh-keygen", &make).unwrap();
        }
        std::fs::copy(path("user.pub"), path("authorized")).unwrap();
        // the port is free until the server takes it; in a namespace of the test any port will do
        let port = {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().port()
        };
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n\
             PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nLogLevel VERBOSE\n\
             MaxSessions 30\nSetEnv HOME={}\n",
            path("host"),
            path("authorized"),
            folder.path().display()
        );
        std::fs::write(path("sshd"), config).unwrap();
        let mut server = Server {
            child: Server::begin(folder.path(), namespace, behind),
            folder,
            port,
            namespace: namespace.map(str::to_owned),
        };
        server.write_client("user", Some("host.pub"));
        server.await_line("Server listening");
        Some(server)
    }

    fn begin(folder: &Path, namespace: Option<&str>, behind: &[&str]) -> Child {
        let enter = ["ip", "netns", "exec"].into_iter().chain(namespace);
        let mut before: Vec<&str> = namespace.map(|_| enter.collect()).unwrap_or_default();
        before.extend(behind);
        Server::start_with_wrapper(folder, &before)
    }

    /// Starts it with a command that executes it.
    fn start_with_wrapper(folder: &Path, before: &[&str]) -> Child {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(folder.join("log"))
            .unwrap();
        let mut words = before.to_vec();
        let file = folder.join("sshd");
        words.extend(["/usr/sbin/sshd", "-D", "-e", "-f", file.to_str().unwrap()]);
        let mut command = std::process::Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stderr(log);
        crate::sys::die_with_parent(&mut command);
        command.spawn().unwrap()
    }

    /// Writes the client's configuration: its key, and the server's key that it knows.
    fn write_client(&self, key: &str, known: Option<&str>) {
        let path = |name: &str| self.folder.path().join(name);
        let known = known.map_or(String::new(), |file| {
            let key = std::fs::read_to_string(path(file)).unwrap();
            format!("[127.0.0.1]:{} {key}", self.port)
        });
        std::fs::write(path("known"), known).unwrap();
        // a namespace of the test has its own loopback
        let enter = self
            .namespace
            .as_ref()
            .map(|namespace| format!("ProxyCommand ip netns exec {namespace} busybox nc %h %p\n"));
        let config = format!(
            "IdentityFile {}\nIdentitiesOnly yes\nIdentityAgent none\nUserKnownHostsFile {}\nGlobalKnownHostsFile none\n{}\
             StrictHostKeyChecking ask\nControlPersist 60\n",
            path(key).display(),
            path("known").display(),
            enter.unwrap_or_default()
        );
        std::fs::write(path("client"), config).unwrap();
    }

    /// Returns its address.
    pub fn target(&self) -> Target {
        let target: Target = format!("ssh://root@127.0.0.1:{}", self.port)
            .parse()
            .unwrap();
        Target {
            config: Some(self.folder.path().join("client").to_string_lossy().into()),
            ..target
        }
    }

    pub fn host(&self) -> Ssh {
        Ssh::new(self.target())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    fn await_line(&mut self, part: &str) {
        wait_until(&format!("sshd says {part}"), || {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("sshd ended ({status}): {}", self.log());
            }
            self.log().contains(part)
        });
    }

    /// Kills it with all its connections, and starts it with other mounts, like after a restart of
    /// its machine.
    pub fn restart_with_files(&mut self, mounts: &str) {
        self.kill();
        let before = ["unshare", "--mount", "sh", "-c", mounts, "sh"];
        let namespace = self.namespace.clone();
        self.child = Server::begin(self.folder.path(), namespace.as_deref(), &before);
    }

    /// Restarts it, on a machine with another boot id.
    fn boot(&mut self, identity: &str) {
        self.kill();
        let file = self.folder.path().join("identity");
        std::fs::write(&file, identity).unwrap();
        let bind = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
        let before = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            bind,
            file.to_str().unwrap(),
        ];
        self.child = Server::start_with_wrapper(self.folder.path(), &before);
    }

    /// Kills it and all processes that serve a connection at once.
    fn kill(&mut self) {
        let ours = self.child.id().to_string();
        let serving = Local.query("pgrep", &["-P", &ours]).unwrap_or_default();
        for id in serving.split_whitespace() {
            // those that serve a connection have a child each, or their own session
            let _ = Local.query("kill", &["-9", id]);
        }
        kill_group(self.child.id());
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn wait_until(action: &str, mut is: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is() {
        assert!(started.elapsed() < Duration::from_secs(20), "{action}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn limit(ms: u64, is_stopped: &dyn Fn() -> bool) -> Limit<'_> {
    Limit {
        time: Duration::from_millis(ms),
        is_stopped,
    }
}

/// Returns true if a process has this argument.
fn runs(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .map(|entry| entry.path().join("cmdline"))
        .any(|file| {
            let line = std::fs::read(file).unwrap_or_default();
            line.split(|byte| *byte == 0)
                .any(|of| of == word.as_bytes())
        })
}

/// Returns a number of seconds that no other test sleeps.
fn own_seconds() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("7{}.{next}", std::process::id())
}

#[test]
fn many_commands_share_one_connection_and_leave_nothing() {
    let Some(server) = Server::start("many_commands_share_one_connection_and_leave_nothing") else {
        return;
    };
    let host = server.host();
    for number in 0..20 {
        let number = number.to_string();
        assert_eq!(host.query("echo", &[&number]).unwrap().trim(), number);
    }
    // some of them at the same time
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| host.query("sleep", &["0.2"]).unwrap());
        }
    });
    let accepted = server.log().matches("Accepted publickey").count();
    assert_eq!(accepted, 1, "{}", server.log());
    let folder = host.link(Limit::OURS).unwrap().path();
    let folder = PathBuf::from(folder).ancestors().nth(2).unwrap().to_owned();
    assert!(folder.join("put").is_dir());
    for kind in ["p", "i", "s"] {
        assert_eq!(std::fs::read_dir(folder.join(kind)).unwrap().count(), 0);
    }
    drop(host);
    assert!(!folder.exists());
}

#[test]
fn a_command_that_times_out_ends_with_its_children() {
    let test = "a_command_that_times_out_ends_with_its_children";
    let Some(server) = Server::start(test) else {
        return;
    };
    let host = server.host();
    host.query("true", &[]).unwrap();
    // a child in the background, and one in its own process group
    let seconds = own_seconds();
    let slow = Command::shell(&format!(
        "echo so far >&2; sleep {seconds} & timeout 5000 sleep {seconds}"
    ));
    let started = Instant::now();
    let error = host.run(&slow, limit(1000, &|| false)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("was killed: so far"), "{text}");
    assert!(
        started.elapsed() < Duration::from_secs(8),
        "the guard says so"
    );
    wait_until("nothing is left there", || !runs(&seconds));

    let started = Instant::now();
    let is_stopped = || started.elapsed() > Duration::from_millis(300) && runs(&seconds);
    let error = host.run(&slow, limit(60_000, &is_stopped)).unwrap_err();
    assert_eq!(error.failure, Failure::Stopped);
    wait_until("nothing is left there", || !runs(&seconds));
    // a command that was stopped is not started, or ended at once
    let error = host.run(&slow, limit(60_000, &|| true)).unwrap_err();
    assert_eq!(error.failure, Failure::Stopped);
    std::thread::sleep(Duration::from_millis(300));
    wait_until("nothing is left there", || !runs(&seconds));

    let follow = Command::shell(&format!("sleep {seconds} & echo begun; sleep {seconds}"));
    let mut process = host.start(&follow).unwrap();
    let received = process.next(Duration::from_secs(20)).unwrap();
    assert_eq!(received, ProcessEvent::Line("begun".into()));
    wait_until("it runs", || runs(&seconds));
    drop(process);
    wait_until("nothing is left there", || !runs(&seconds));
    assert_eq!(host.query("echo", &["on"]).unwrap(), "on\n");
}

#[test]
fn remote_commands_end_when_the_connection_is_lost() {
    let test = "remote_commands_end_when_the_connection_is_lost";
    let Some(mut server) = Server::start(test) else {
        return;
    };
    let host = server.host();
    let seconds = own_seconds();
    let slow = Command::shell(&format!("sleep {seconds} & sleep {seconds}"));
    let mut process = host.start(&slow).unwrap();
    let error = std::thread::scope(|scope| {
        let running = scope.spawn(|| host.run(&slow, Limit::OURS).unwrap_err());
        wait_until("it runs", || runs(&seconds));
        std::thread::sleep(Duration::from_millis(300));
        server.kill();
        running.join().unwrap()
    });
    let text = error.to_string();
    assert!(matches!(error.failure, Failure::Lost(_)), "{text}");
    assert!(text.contains("lost connection to"), "{text}");
    let error = process.next(Duration::from_secs(20)).unwrap_err();
    assert!(matches!(error.failure, Failure::Lost(_)), "{error}");
    wait_until("nothing is left there", || !runs(&seconds));

    let error = host.query("true", &[]).unwrap_err().to_string();
    assert!(error.contains("nothing listens there"), "{error}");
    assert!(
        error.contains("Check that its SSH server is running"),
        "{error}"
    );
    // and when it answers again, it accepts commands again
    server.child = Server::begin(server.folder.path(), None, &[]);
    wait_until("it is back", || {
        server.log().matches("Server listening").count() == 2
    });
    assert_eq!(host.query("echo", &["on"]).unwrap(), "on\n");
}

#[test]
fn login_failures_are_explained() {
    let Some(server) = Server::start("login_failures_are_explained") else {
        return;
    };
    let output = || server.host().query("true", &[]).unwrap_err();
    server.write_client("other", Some("host.pub"));
    let error = output();
    assert!(matches!(error.failure, Failure::Refused(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("accepts none of our keys"), "{text}");
    assert!(text.contains("Permission denied (publickey)"), "{text}");
    server.write_client("user", None);
    let text = output().to_string();
    assert!(text.contains("its host key is not known to ssh"), "{text}");
    assert!(text.contains("Connect once by hand"), "{text}");
    server.write_client("user", Some("other.pub"));
    let text = output().to_string();
    assert!(text.contains("its host key has changed"), "{text}");
    assert!(text.contains("ssh-keygen -R '[127.0.0.1]:"), "{text}");

    // a server that is silent
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target {
        port: Some(silent.local_addr().unwrap().port()),
        ..server.target()
    };
    let host = Ssh::new(target);
    let slow = host.run(&Command::new("true", &[]), limit(500, &|| false));
    let text = slow.unwrap_err().to_string();
    assert!(text.contains("it does not answer"), "{text}");
    let error = host.run(&Command::new("true", &[]), limit(60_000, &|| true));
    assert_eq!(error.unwrap_err().failure, Failure::Stopped);
}

#[test]
fn a_rebooting_machine_is_awaited() {
    let Some(mut server) = Server::start("a_rebooting_machine_is_awaited") else {
        return;
    };
    server.boot("boot-1");
    let listening = "Server listening";
    wait_until("it is up", || server.log().matches(listening).count() == 2);
    let host = server.host();
    let reported = server.folder.path().join("told");
    let reboot = Command::new("touch", &[reported.to_str().unwrap()]);
    let undo = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let look = Duration::from_millis(50);
            reboot::send_and_wait(&host, &reboot, look, limit(60_000, &|| false))
        });
        wait_until("the signal is reported", || reported.exists());
        server.kill();
        std::thread::sleep(Duration::from_millis(500));
        assert!(!waiting.is_finished());
        server.boot("boot-2");
        waiting.join().unwrap()
    });
    assert_eq!(undo.unwrap(), "boot-2");
    // it works like before
    assert_eq!(host.query("echo", &["on"]).unwrap(), "on\n");
}

/// The login shell refuses logins.
#[test]
fn a_host_whose_shell_does_nothing_is_named() {
    let Some(server) = Server::start("a_host_whose_shell_does_nothing_is_named") else {
        return;
    };
    let file = server.folder.path().join("authorized");
    let key = std::fs::read_to_string(&file).unwrap();
    let only = "command=\"echo This account is not available. >&2; exit 1\" ";
    std::fs::write(&file, format!("{only}{key}")).unwrap();
    let text = server.host().query("true", &[]).unwrap_err().to_string();
    assert!(
        text.contains("its shell does not run our commands"),
        "{text}"
    );
    assert!(text.contains("This account is not available."), "{text}");
}

#[test]
fn folders_are_put_with_all_that_is_in_them() {
    let Some(server) = Server::start("folders_are_put_with_all_that_is_in_them") else {
        return;
    };
    let host = server.host();
    let ours = tempfile::tempdir().unwrap();
    let inner = ours.path().join("it's a set/$HOME \u{e4}");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::write(inner.join("a\nb"), [0, 1, 255]).unwrap();
    std::os::unix::fs::symlink("a\nb", inner.join("link")).unwrap();
    std::fs::write(
        ours.path().join("it's a set/apply"),
        "#!/bin/sh\necho ran\n",
    )
    .unwrap();
    let apply = ours.path().join("it's a set/apply");
    std::fs::set_permissions(&apply, std::fs::Permissions::from_mode(0o755)).unwrap();

    let there = host.put(&ours.path().join("it's a set")).unwrap();
    assert!(there.ends_with("/it's a set"), "{there}");
    assert!(!there.starts_with(ours.path().to_str().unwrap()));
    let file = format!("{there}/$HOME \u{e4}/a\nb");
    assert_eq!(host.read(&file).unwrap(), [0, 1, 255]);
    let link = format!("{there}/$HOME \u{e4}/link");
    assert_eq!(host.read(&link).unwrap(), [0, 1, 255]);
    assert_eq!(host.query(&format!("{there}/apply"), &[]).unwrap(), "ran\n");
    let there = host.put(&apply).unwrap();
    assert_eq!(host.query(&there, &[]).unwrap(), "ran\n");
    let error = host
        .put(Path::new("/no/such/file"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("No such file"), "{error}");
}

/// All lines of a command with much output, in order.
#[test]
fn output_is_streamed_to_its_last_line() {
    let Some(server) = Server::start("output_is_streamed_to_its_last_line") else {
        return;
    };
    let host = server.host();
    let count = Command::shell(
        "i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done; printf end >&2; exit 3",
    );
    let mut process = host.start(&count).unwrap();
    let mut received = Vec::new();
    let status = loop {
        match process.next(Duration::from_secs(20)).unwrap() {
            ProcessEvent::Line(line) => received.push(line),
            ProcessEvent::Silence => panic!("{received:?}"),
            ProcessEvent::End(end) => break end.status,
        }
    };
    assert_eq!(status, "exit status: 3");
    assert_eq!(received.len(), 2001);
    assert!(received.contains(&"end".to_owned()));
    let missing = host.start(&Command::new("fwdlab-no-such-program", &[]));
    let mut missing = missing.unwrap();
    let failure = loop {
        match missing.next(Duration::from_secs(20)) {
            Err(error) => break error.failure,
            Ok(ProcessEvent::Line(_)) => {}
            Ok(other) => panic!("{other:?}"),
        }
    };
    assert!(matches!(failure, Failure::Missing { .. }), "{failure:?}");
}

/// Returns a copy of our program without debug information. `cargo test` builds it with the
/// workspace.
pub(crate) fn program(test: &str, folder: &Path) -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap();
    let built = own.ancestors().nth(2).unwrap().join("fwdlab");
    let ours = folder.join("fwdlab");
    let [from, to] = [&built, &ours].map(|path| path.to_str().unwrap());
    match Local.query("strip", &["-o", to, from]) {
        Ok(_) => Some(ours),
        Err(error) => {
            println!("SKIPPED: {test}: {error}");
            None
        }
    }
}

/// Agents behind sshd.
mod slow {
    use super::*;

    /// The program is copied once; what it started ends with it, and with the connection.
    #[test]
    fn an_agent_is_uploaded_and_its_children_end_with_it() {
        let test = "an_agent_is_uploaded_and_its_children_end_with_it";
        let Some(mut server) = Server::start(test) else {
            return;
        };
        let ours = tempfile::tempdir().unwrap();
        let Some(program) = program(test, ours.path()) else {
            return;
        };
        let host = server.host();
        let agent = || host.start_agent(&program, Limit::OURS).unwrap();
        let remote = agent();
        let there = || {
            let folder = std::fs::read_dir(server.folder.path().join(".cache/fwdlab/agent"));
            let file = folder.unwrap().next().unwrap().unwrap();
            (
                file.file_name(),
                file.metadata().unwrap().modified().unwrap(),
            )
        };
        let first = there();
        assert_eq!(remote.address(), host.address());
        assert_eq!(remote.query("echo", &["on"]).unwrap(), "on\n");
        let put = remote.put(&program).unwrap();
        assert!(put.contains("/put/"), "{put}");

        // dropped, killed, lost: in the background, in its own group, and while a command is
        // running
        let seconds = own_seconds();
        let slow = Command::shell(&format!(
            "sleep {seconds} & timeout 5000 sleep {seconds} & echo begun; wait"
        ));
        let begin = |remote: &Remote| {
            let mut process = remote.start(&slow).unwrap();
            let received = process.next(Duration::from_secs(20)).unwrap();
            assert_eq!(received, ProcessEvent::Line("begun".into()));
            wait_until("it runs", || runs(&seconds));
            process
        };
        let process = begin(&remote);
        drop((process, remote));
        wait_until("nothing is left there", || !runs(&seconds));

        let remote = agent();
        assert_eq!(there(), first, "it was there already");
        let mut process = begin(&remote);
        let waiting = remote.clone();
        let id = remote.query("sh", &["-c", "echo $PPID"]).unwrap();
        Local.query("kill", &["-9", id.trim()]).unwrap();
        let text = process
            .next(Duration::from_secs(20))
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("its agent ended (exit status: 137)"),
            "{text}"
        );
        wait_until("nothing is left there", || !runs(&seconds));
        drop((process, remote, waiting));

        let remote = agent();
        let error = std::thread::scope(|scope| {
            let running = scope.spawn(|| remote.run(&slow, Limit::OURS).unwrap_err());
            wait_until("it runs", || runs(&seconds));
            server.kill();
            running.join().unwrap()
        });
        assert!(matches!(error.failure, Failure::Lost(_)), "{error}");
        wait_until("nothing is left there", || !runs(&seconds));
    }

    /// A login shell that prints a greeting, and a directory without execute permission.
    #[test]
    fn an_agent_starts_on_unusual_hosts() {
        let test = "an_agent_starts_on_unusual_hosts";
        let Some(server) = Server::start(test) else {
            return;
        };
        let ours = tempfile::tempdir().unwrap();
        let Some(program) = program(test, ours.path()) else {
            return;
        };
        let home = server.folder.path();
        std::fs::write(home.join(".bashrc"), "echo Welcome\necho to this >&2\n").unwrap();
        std::fs::write(home.join(".cache"), "no folder").unwrap();
        let host = server.host();
        assert_eq!(host.query("echo", &["on"]).unwrap(), "on\n");
        let remote = host.start_agent(&program, Limit::OURS).unwrap();
        assert_eq!(remote.query("echo", &["on"]).unwrap(), "on\n");
        drop(remote);
        let text = host.start_agent(Path::new("/etc/hostname"), Limit::OURS);
        let text = text.unwrap_err().to_string();
        assert!(text.contains("it runs neither in"), "{text}");
    }

    /// A server with few sessions still has one for every command, or the error says so; ending a
    /// command needs none.
    #[test]
    fn a_host_that_takes_few_commands_at_the_same_time_is_named() {
        let test = "a_host_that_takes_few_commands_at_the_same_time_is_named";
        let Some(mut server) = Server::start(test) else {
            return;
        };
        server.kill();
        let file = server.folder.path().join("sshd");
        let config = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, config.replace("MaxSessions 30", "MaxSessions 3")).unwrap();
        server.child = Server::begin(server.folder.path(), None, &[]);
        let listening = "Server listening";
        wait_until("it is back", || {
            server.log().matches(listening).count() == 2
        });
        let host = server.host();
        let seconds = own_seconds();
        let slow = Command::shell(&format!("echo begun; sleep {seconds}"));
        // the guard has the third
        let process = [0, 1].map(|_| {
            let mut process = host.start(&slow).unwrap();
            let received = process.next(Duration::from_secs(20)).unwrap();
            assert_eq!(received, ProcessEvent::Line("begun".into()));
            process
        });
        let error = host.query("true", &[]).unwrap_err();
        assert!(matches!(error.failure, Failure::Refused(_)), "{error}");
        let text = error.to_string();
        assert!(text.contains("Raise MaxSessions"), "{text}");
        drop(process);
        wait_until("nothing is left there", || !runs(&seconds));
        wait_until("a session is free", || host.query("true", &[]).is_ok());
    }
}
