//! The command line of VPP: runs `vppctl` on its host, and detects errors that it does not report.
//!
//! `vppctl` succeeds whatever VPP answers; it fails only if VPP does not answer. For a file of
//! lines, VPP reports only which line it refused; the reason is in its answer to that line alone.
//! Start with [`Cli::exec`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::host::{Command, Failure, Host, HostError, Limit};

/// A VPP that forwards at its limit answers late, but it answers.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time limit for the start: VPP answers within a second, on a busy host later.
const STARTS: Duration = Duration::from_secs(60);

/// Time between two checks whether it answers.
const LOOK: Duration = Duration::from_millis(50);

/// How VPP's report of the refused line of a file begins.
const REFUSED: &str = "exec: CLI line error: ";

/// How its answer to an unknown line begins.
const UNKNOWN: &str = "unknown input ";

/// Makes VPP execute lines from standard input: `sh -c EXEC vppctl socket`.
const EXEC: &str =
    "f=$(mktemp) && cat > \"$f\" && \"$0\" -s \"$1\" exec \"$f\"; r=$?; rm -f \"$f\"; exit $r";

/// The same line by line, whatever VPP answers. Does nothing if VPP has ended, because then there
/// is nothing to undo.
const EACH: &str = "\"$0\" -s \"$1\" show version > /dev/null 2>&1 || exit 0\n\
                    while read -r line; do \"$0\" -s \"$1\" \"$line\"; done";

/// The command line of a VPP.
#[derive(Debug, Clone)]
pub(crate) struct Cli {
    host: Arc<dyn Host>,
    /// `vppctl`, or its path.
    program: String,
    /// The socket where VPP listens.
    socket: String,
}

impl Cli {
    pub fn new(host: Arc<dyn Host>, program: &str, socket: &str) -> Cli {
        Cli {
            host,
            program: program.to_owned(),
            socket: socket.to_owned(),
        }
    }

    /// Returns the command line with another `vppctl`.
    pub fn with_program(self, program: &str) -> Cli {
        Cli {
            program: program.to_owned(),
            ..self
        }
    }

    /// Returns its host.
    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// Waits until a VPP that was started answers. `ended` waits for this time, and returns how VPP
    /// ended, if it has.
    ///
    /// # Errors
    /// It ended, or does not answer: the reason.
    pub fn wait(&self, ended: impl Fn(Duration) -> Option<String>) -> Result<(), String> {
        let started = Instant::now();
        while started.elapsed() < STARTS {
            if let Some(words) = ended(LOOK) {
                return Err(format!("it does not start: it {words}"));
            }
            if self.query("show version").is_ok() {
                return Ok(());
            }
        }
        Err(format!(
            "it does not answer at {} {} s after it was started",
            self.socket,
            STARTS.as_secs()
        ))
    }

    /// Returns VPP's answer to one line that only shows or clears.
    ///
    /// # Errors
    /// VPP does not answer, or does not know this line.
    pub fn query(&self, line: &str) -> Result<String, LabError> {
        let text = self.answer(line)?;
        match text.trim_start().starts_with(UNKNOWN) {
            true => Err(self.refused(line, &text)),
            false => Ok(text),
        }
    }

    /// Makes VPP execute lines, up to the first that it refuses. Lines that begin with `#` are
    /// comments.
    ///
    /// # Errors
    /// VPP does not answer, or refuses a line: which, and why.
    pub fn exec(&self, lines: &str, limit: Limit<'_>) -> Result<(), LabError> {
        let command = self
            .shell(EXEC, &format!("{}\n", lines.trim_end()))
            .called(shown(lines));
        let output = self.host.run(&command, limit)?;
        let printed = plain(&output.stdout);
        let Some((_, line)) = printed.split_once(REFUSED) else {
            return Ok(());
        };
        let line = line.lines().next().unwrap_or_default().trim();
        if line.is_empty() {
            // VPP had read the line to its end before it failed
            return Err(self.refused(&shown(lines), ""));
        }
        // a refused line changed nothing, and will be refused again
        let reason = self.answer(line)?;
        Err(self.refused(line, &reason))
    }

    /// Makes VPP execute a user's lines one by one, up to the first that it refuses; returns the
    /// answers to queries. Lines with a leading `-` may be refused.
    ///
    /// # Errors
    /// As for [`Cli::exec`], or it was stopped, or all lines together exceeded the limit.
    pub fn run_lines(&self, lines: &str, limit: Limit<'_>) -> Result<String, LabError> {
        let started = Instant::now();
        let mut output = String::new();
        for line in lines.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if (limit.is_stopped)() {
                return Err(LabError::Interrupted);
            }
            if started.elapsed() > limit.time {
                return Err(LabError::Vpp {
                    dut: self.host.name().to_owned(),
                    reason: format!(
                        "it did not reach `{line}` within {:.0} s: combine similar lines into one, such as ip route add ... count N",
                        limit.time.as_secs_f64()
                    ),
                });
            }
            let (line, may_fail) = match line.strip_prefix('-') {
                Some(rest) => (rest.trim(), true),
                None => (line, false),
            };
            let answer = self.answer(line)?;
            if !may_fail && is_refusal(line, &answer) {
                return Err(self.refused(line, &answer));
            }
            if is_asking(line) {
                output += &answer;
            }
        }
        Ok(output)
    }

    /// Returns a command that makes VPP execute lines, whatever it answers: used to undo changes.
    pub fn each(&self, lines: &str) -> Command {
        // `read` ignores a last line without a newline
        self.shell(EACH, &format!("{}\n", lines.trim_end()))
    }

    /// Returns a command for `sh` in which `$0` is `vppctl`, and `$1` the socket of VPP.
    pub fn shell(&self, text: &str, input: &str) -> Command {
        let words = ["-c", text, &self.program, &self.socket];
        Command::new("sh", &words).with_input(input)
    }

    /// Returns VPP's answer to one line.
    pub fn answer(&self, line: &str) -> Result<String, LabError> {
        let words = ["-s", &self.socket, line];
        let command = Command::new(&self.program, &words).called(format!("vppctl {line}"));
        let limit = Limit {
            time: PATIENCE,
            ..Limit::OURS
        };
        match self.host.run(&command, limit) {
            Ok(output) => Ok(plain(&output.stdout)),
            Err(error) => Err(self.silent(error)),
        }
    }

    /// Returns the error for a VPP that does not answer.
    fn silent(&self, error: HostError) -> LabError {
        match &error.failure {
            Failure::Exit { said: output, .. } => LabError::Vpp {
                dut: self.host.name().to_owned(),
                reason: format!(
                    "no answer at {}: {}. Check that VPP is running there, and that its startup.conf contains unix {{ cli-listen {} }}",
                    self.socket,
                    output.trim(),
                    self.socket
                ),
            },
            _ => error.into(),
        }
    }

    fn refused(&self, line: &str, output: &str) -> LabError {
        let output = output.trim();
        LabError::Vpp {
            dut: self.host.name().to_owned(),
            reason: match output.is_empty() {
                true => {
                    format!("it refuses `{line}` without a reason; see `vppctl show logging`")
                }
                false => format!("it refuses `{line}`: {output}. Try it there with vppctl"),
            },
        }
    }
}

/// Returns true if an answer is a refusal. `vppctl` does not distinguish them, and messages that
/// VPP does not call errors often are: it answers `Invalid prefix len: 33` and has done nothing. A
/// successful setting answers nothing, a name, the number of a new object, or a rate.
fn is_refusal(line: &str, answer: &str) -> bool {
    let answer = answer.trim();
    if answer.starts_with(UNKNOWN) {
        return true;
    }
    let is_good = |answer: &str| {
        !answer.contains(char::is_whitespace)
            || answer.starts_with("ACL index:")
            || answer.starts_with("Deleted ACL index:")
            || answer.ends_with(" routes/sec")
    };
    !is_asking(line) && !answer.lines().map(str::trim).all(is_good)
}

/// Returns true if a line is a query.
fn is_asking(line: &str) -> bool {
    let verb = line.split_whitespace().next().unwrap_or_default();
    ["show", "clear", "ping", "test", "trace"].contains(&verb)
}

/// Shortens lines for an error: a single line, or the first and the number of others.
fn shown(lines: &str) -> String {
    let mut all = lines.lines().filter(|line| !line.trim().is_empty());
    match (all.next(), all.count()) {
        (Some(first), 0) => format!("vppctl exec: {}", first.trim()),
        (Some(first), more) => format!("vppctl exec: {} and {more} more", first.trim()),
        (None, _) => "vppctl exec".into(),
    }
}

/// Removes colours and carriage returns.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace('\r', "");
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // `[33m`
        plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scripted::Scripted;

    fn scripted_cli(answer: fn(&str) -> &'static str) -> (Cli, Arc<Scripted>) {
        let host = Arc::new(Scripted::new(move |command, _| answer(command).into()));
        (Cli::new(host.clone(), "vppctl", "/run/cli.sock"), host)
    }

    #[test]
    fn colours_and_carriage_returns_are_not_text() {
        let text = plain(b"\x1b[33mID\x1b[0m  Name\x1b[0m\r\n 0\r\n");
        assert_eq!(text, "ID  Name\n 0\n");
    }

    /// `vppctl` succeeded in all of them.
    #[test]
    fn a_line_that_vpp_rejects_is_an_error_with_its_reason() {
        let (cli, host) = scripted_cli(|command| match command.starts_with("vppctl exec") {
            true => "exec: CLI line error: ip route add 1.2.3.0/33 via 1.2.3.4\r\n",
            false => "Invalid prefix len: 33\r\n",
        });
        let lines = "set interface state host-eth0 up\nip route add 1.2.3.0/33 via 1.2.3.4\n";
        let error = cli.exec(lines, Limit::OURS).unwrap_err().to_string();
        assert_eq!(
            error,
            "VPP on router1: it refuses `ip route add 1.2.3.0/33 via 1.2.3.4`: Invalid prefix len: 33. Try it there with vppctl"
        );
        assert_eq!(host.commands().len(), 2, "the file, and the line alone");

        let (cli, _) = scripted_cli(|_| "unknown input `nonsense foo'\r\n");
        let error = cli.query("nonsense foo").unwrap_err().to_string();
        assert!(error.contains("`nonsense foo`: unknown input"), "{error}");
        let (cli, _) = scripted_cli(|_| "vpp v26.10\r\n");
        assert_eq!(cli.query("show version").unwrap(), "vpp v26.10\n");
        cli.exec("show version", Limit::OURS).unwrap();
    }

    /// Answers of VPP 26.10.
    #[test]
    fn the_answer_of_vpp_decides_whether_a_line_was_accepted() {
        for (line, answer, is_refused) in [
            ("set interface state host-eth0 up", "", false),
            ("create host-interface name eth0", "host-eth0\n", false),
            ("set acl-plugin acl permit", "ACL index:0\n", false),
            (
                "delete acl-plugin acl index 0",
                "Deleted ACL index:0\n",
                false,
            ),
            (
                "ip route add 20.0.0.0/24 count 9 via x",
                "6.657357e5 routes/sec\n",
                false,
            ),
            ("show version", "vpp v26.10.0 built by root\n", false),
            ("show nonsense", "unknown input `nonsense'\n", true),
            (
                "ip route add 1.2.3.0/33 via x",
                "Invalid prefix len: 33\n",
                true,
            ),
            (
                "delete acl-plugin acl index 0",
                "delete acl-plugin acl: failed\n",
                true,
            ),
            ("nonsense", "unknown input `nonsense'\n", true),
        ] {
            assert_eq!(is_refusal(line, answer), is_refused, "{line}: {answer}");
        }
        let (cli, host) = scripted_cli(|_| "Invalid prefix len: 33\r\n");
        let lines = "# a comment\n\n-ip route add 1.2.3.0/33 via x\nip route add 1.2.3.0/34 via x\nshow version\n";
        let error = cli.run_lines(lines, Limit::OURS).unwrap_err().to_string();
        assert!(error.contains("1.2.3.0/34"), "{error}");
        assert_eq!(
            host.commands().len(),
            2,
            "a comment is no line, and none comes after a refusal"
        );
    }
}
