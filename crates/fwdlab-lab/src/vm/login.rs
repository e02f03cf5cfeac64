//! Logs in to a whole machine over SSH, as root: with the user's own key, with the key given with
//! its disk, or with a new key that is installed on its console, if root can log in there without a
//! password.
//!
//! All changes are on the machine's overlay, and are removed with it. Start with [`log_in`].

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::computer::Computer;
use crate::error::LabError;
use crate::host::reboot::attempt_limits;
use crate::host::ssh::Target;
use crate::host::{Command, Failure, Host, Limit, Local, Ssh};

/// A system that does not answer to SSH within this time has no SSH server, or no network.
const BOOT: Duration = Duration::from_secs(300);

/// The pause between attempts.
const BETWEEN: Duration = Duration::from_millis(500);

/// Time limit for a console to answer a user name, also in the emulator on a busy host.
const ANSWER: Duration = Duration::from_secs(60);
/// A server that has never run generates its keys first.
const PREPARATION: Duration = Duration::from_secs(180);

const LAST_LINES: usize = 6;

const ADVICE: &str = "root is let in over SSH with a key, yours or that of DISK,key=FILE, or without a password on its serial console";

/// Accepts any host key, because the machine is ours, new, and on loopback.
const SSH_CONFIG: &str = "Host 127.0.0.1\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n";

/// Files in the directory.
const CONFIG: &str = "ssh.config";
const KEY: &str = "key";

/// The text that we type, and what the shell prints after joining its two halves.
const DONE: [&str; 2] = ["echo fwdlab''-done", "fwdlab-done"];

/// A machine with login.
#[derive(Debug)]
pub struct Inside {
    /// The target for `ssh`.
    pub target: Target,
    /// The name of its system, and its release: `FreeBSD 14.3-RELEASE`.
    pub system: String,
}

/// Waits until a login succeeds. `key` is that of its disk; `folder` receives a key of ours and the
/// configuration of `ssh`.
///
/// # Errors
/// It ended, or refuses every login: with what was tried, and the last lines of its console. The
/// wait was stopped.
pub fn log_in(
    computer: &Computer,
    key: Option<&Path>,
    folder: &Path,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Inside, String> {
    let failed = |error: LabError| error.to_string();
    fs::create_dir_all(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    let target = |key: Option<&Path>| -> Result<Target, String> {
        let config = folder.join(CONFIG);
        let key = key.map_or(String::new(), |key| {
            format!(
                "  IdentityFile \"{}\"\n  IdentitiesOnly yes\n",
                key.display()
            )
        });
        fs::write(&config, format!("{SSH_CONFIG}{key}"))
            .map_err(|e| format!("cannot write {}: {e}", config.display()))?;
        let at = computer.management().map_err(failed)?;
        Ok(Target {
            host: at.ip().to_string(),
            user: Some("root".into()),
            port: Some(at.port()),
            config: Some(config.display().to_string()),
        })
    };
    let started = Instant::now();
    let mut console = Console::NotAsked;
    let mut ssh = Ssh::new(target(key)?);
    let mut attempt_limit = attempt_limits();
    loop {
        let limit = Limit {
            time: attempt_limit(),
            is_stopped,
        };
        let error = match ssh.run(&Command::new("uname", &["-sr"]), limit) {
            Ok(output) => {
                return Ok(Inside {
                    target: ssh.target().clone(),
                    system: String::from_utf8_lossy(&output.stdout).trim().to_owned(),
                });
            }
            Err(error) => error,
        };
        computer.check().map_err(failed)?;
        if matches!(error.failure, Failure::Stopped) {
            return Err("it was stopped".into());
        }
        if console == Console::NotAsked && asks_for_user(&computer.console()) {
            let ours = folder.join(KEY);
            console = by_console(computer, &ours, is_stopped)?;
            if console == Console::LetUsIn {
                ssh = Ssh::new(target(Some(&ours))?);
                continue;
            }
        }
        let reason = match error.failure {
            // the console may allow another way, once it asks for a login
            Failure::Refused(reason) if console == Console::WantsPassword => {
                format!("it rejects the login: {reason}; its console asks for a password")
            }
            _ if started.elapsed() < BOOT => {
                std::thread::sleep(BETWEEN);
                continue;
            }
            Failure::Refused(reason) => format!("it rejects the login: {reason}"),
            _ => format!(
                "it does not answer to SSH after {:.0} s ({error})",
                BOOT.as_secs_f64()
            ),
        };
        let output = computer.console();
        let lines: Vec<&str> = output.lines().collect();
        return Err(format!(
            "{reason}; {ADVICE}. Its console ended with:\n  {}",
            lines[lines.len().saturating_sub(LAST_LINES)..].join("\n  ")
        ));
    }
}

/// The result of the login on the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Console {
    NotAsked,
    WantsPassword,
    LetUsIn,
}

/// Returns true if a console asks for a user name, which is then its last output.
fn asks_for_user(output: &str) -> bool {
    output.trim_end().ends_with("login:")
}

/// Returns true if it waits for a command.
fn is_prompt(output: &str) -> bool {
    let last = output.trim_end_matches(['\r', '\n']);
    last.ends_with("# ") || last.ends_with("% ") || last.ends_with("$ ")
}

/// Logs in on the console, and authorises a new key for SSH.
fn by_console(
    computer: &Computer,
    key: &Path,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Console, String> {
    let failed = |error: LabError| error.to_string();
    let before = computer.console().len();
    computer.type_line("root").map_err(failed)?;
    let started = Instant::now();
    loop {
        let console = computer.console();
        let output = console.get(before..).unwrap_or_default();
        if output.to_lowercase().contains("password") {
            // the password is unknown; return to the prompt for a user name
            computer.type_line("").map_err(failed)?;
            return Ok(Console::WantsPassword);
        }
        if is_prompt(output) {
            break;
        }
        computer.check().map_err(failed)?;
        if is_stopped() {
            return Err("it was stopped".into());
        }
        if started.elapsed() > ANSWER {
            return Ok(Console::WantsPassword);
        }
        std::thread::sleep(BETWEEN);
    }
    let public = new_key(key)?;
    let limit = Limit {
        time: PREPARATION,
        is_stopped,
    };
    for line in preparation(&public, &computer.macs()[0]) {
        computer.type_line(&line).map_err(failed)?;
        computer.type_line(DONE[0]).map_err(failed)?;
        computer.wait_for(DONE[1], limit).map_err(failed)?;
    }
    Ok(Console::LetUsIn)
}

/// Creates a key, and returns its public half in one line.
fn new_key(path: &Path) -> Result<String, String> {
    let public = path.with_extension("pub");
    for old in [path, &public] {
        let _ = fs::remove_file(old);
    }
    let file = path.display().to_string();
    let words = ["-q", "-t", "ed25519", "-N", "", "-C", "fwdlab", "-f", &file];
    let made = Local.run(&Command::new("ssh-keygen", &words), Limit::OURS);
    made.map_err(|error| format!("cannot make a key: {error}"))?;
    let text = fs::read_to_string(&public);
    let text = text.map_err(|e| format!("cannot read {}: {e}", public.display()))?;
    Ok(text.trim().to_owned())
}

/// Returns lines for root's shell, whichever it is. On a default FreeBSD, SSH is disabled, refuses
/// root, and the network is not configured; these lines enable it, also after a restart.
fn preparation(public_key: &str, management: &[u8; 6]) -> Vec<String> {
    let mac = crate::networks::mac(*management);
    let of_freebsd = format!(
        "for i in $(ifconfig -l ether); do ifconfig $i | grep -q {mac} && sysrc ifconfig_$i=DHCP && service netif restart $i; done"
    );
    let server = "echo PermitRootLogin prohibit-password >> /etc/ssh/sshd_config; sysrc sshd_enable=YES; service sshd restart";
    let if_freebsd = |text: &str| format!("if [ $(uname -s) = FreeBSD ]; then {text}; fi");
    vec![
        // root's own shell may be of another kind
        "exec /bin/sh".into(),
        "mkdir -p ~/.ssh; chmod 700 ~/.ssh".into(),
        format!("echo '{public_key}' >> ~/.ssh/authorized_keys; chmod 600 ~/.ssh/authorized_keys"),
        if_freebsd(&of_freebsd),
        if_freebsd(server),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consoles_ask_and_wait_in_several_words() {
        for prompts in [
            "old login: ",
            "FreeBSD/amd64 (bsd) (ttyu0)\r\n\r\nlogin: ",
            "Amnesiac login:",
        ] {
            assert!(asks_for_user(prompts), "{prompts}");
        }
        assert!(
            !asks_for_user("login: root\r\nPassword:")
                && !asks_for_user("Starting login services\n")
        );
        for waits in ["root@bsd:~ # ", "# ", "root@bsd:/ # \r\n", "$ ", "bsd% "] {
            assert!(is_prompt(waits), "{waits}");
        }
        assert!(!is_prompt("Password:") && !is_prompt("# of CPUs: 1"));
    }

    /// Lines must fit into a terminal in canonical mode (4 KiB in Linux, 1 KiB in FreeBSD), and be
    /// valid in every shell.
    #[test]
    fn console_input_fits_the_line_and_is_parsed() {
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA fwdlab";
        for line in preparation(key, &[2, 0, 0, 0, 0, 1]) {
            assert!(line.len() < 250, "{line}");
            let read = std::process::Command::new("sh")
                .args(["-n", "-c", &line])
                .output();
            assert!(read.unwrap().status.success(), "{line}");
        }
    }
}
