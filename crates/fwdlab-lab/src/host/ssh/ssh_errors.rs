//! Translates messages of `ssh` about connections that fail, and adds what to do.
//!
//! Only its messages distinguish failures: it exits with 255 for all of them. Start with
//! [`not_connected`].

use super::{Failure, Target};

/// Number of its last lines that are passed on.
const LINES: usize = 3;

/// Returns why there is no connection.
pub(super) fn not_connected(target: &Target, output: &str) -> Failure {
    let hand = target.check_command();
    let last = last_words(output);
    let has = |part: &str| output.contains(part);
    let unreachable = |reason: String| Failure::Unreachable(reason);
    if has("HOST IDENTIFICATION HAS CHANGED") {
        return unreachable(format!(
            "its host key has changed: either it was reinstalled, or another machine answers at its address. If you know that it is the \
             right one, remove the old key: ssh-keygen -R '{}'",
            target.in_known_hosts()
        ));
    }
    if has("Host key verification failed") || has("host key is known for") {
        return unreachable(format!(
            "its host key is not known to ssh. Connect once by hand, compare the key that ssh shows, and confirm it: {hand}"
        ));
    }
    if has("Permission denied") || has("Too many authentication failures") {
        return Failure::Refused(format!(
            "it accepts none of our keys ({last}). Passwords are not used: put your public key into ~/.ssh/authorized_keys there, or the right key into your agent, until this connects without asking for a password: {hand}"
        ));
    }
    let reason = if has("Could not resolve hostname") {
        "unknown host name: check the spelling, or add it to ~/.ssh/config"
    } else if has("Connection refused") {
        "nothing listens there. Check that its SSH server is running, and on which port"
    } else if has("No route to host") || has("Network is unreachable") {
        "there is no route to it. Check that it is running, and check addresses and cables of the path to it"
    } else if has("timed out") {
        "it does not answer. Check that it is running, and that no firewall blocks it"
    } else {
        "connect and read the error"
    };
    let stop = if last.is_empty() { "" } else { ": " };
    unreachable(format!("{last}{stop}{reason}. By hand: {hand}"))
}

/// Returns the last lines of a message.
pub(super) fn last_words(output: &str) -> String {
    let lines = output
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.collect();
    lines[lines.len().saturating_sub(LINES)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of OpenSSH 9.2. Those about keys come from a real server, in the tests of hosts.
    #[test]
    fn every_failure_comes_with_advice() {
        let target: Target = "ssh://root@router1:2222".parse().unwrap();
        for (output, ours) in [
            (
                "ssh: Could not resolve hostname router1: Name or service not known\r\n",
                "unknown host name",
            ),
            (
                "ssh: connect to host router1 port 2222: Connection refused\r\n",
                "nothing listens there",
            ),
            (
                "ssh: connect to host router1 port 2222: No route to host",
                "no route to it",
            ),
            (
                "ssh: connect to host router1 port 2222: Connection timed out",
                "does not answer",
            ),
            (
                "Connection timed out during banner exchange\nConnection to router1 port 2222 timed out",
                "does not answer",
            ),
            ("command-line: line 0: Bad configuration option", "Bad conf"),
        ] {
            let Failure::Unreachable(reason) = not_connected(&target, output) else {
                panic!("{output}");
            };
            assert!(reason.contains(ours), "{reason}");
            assert!(
                reason.ends_with("ssh -l root -p 2222 router1 true"),
                "{reason}"
            );
        }
    }
}
