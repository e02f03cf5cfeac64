//! Shell texts for a remote host: one line each, for a POSIX `sh`, whatever the login shell of the
//! user.
//!
//! A line arrives on standard input, so that no other shell interprets it; the bytes after it are
//! input of the command. Uses only POSIX tools. Start with [`BEGIN`] and [`Job`].

use super::quoted;

/// The command for the user's login shell: words that all shells parse alike.
pub(super) const BEGIN: &str = "exec /bin/sh -c 'IFS= read -r l && eval \"$l\"'";

/// Kills process `$p` with its process group, its session and all its descendants, but not `$$`:
/// first finds all of them. With OpenSSH, a session is a session of the system with `$p` as leader;
/// with Dropbear it is not, and only descendants are found.
const KILL: &str = "\
k() { for x in 1 2 3 4 5; do v=$({ if [ -r /proc/self/stat ]; then cat /proc/[0-9]*/stat 2>/dev/null | sed \"s/^\\([0-9]*\\) (.*) . /\\1 /\"; \
else ps -A -o pid= -o ppid= -o pgid= -o sid=; fi; } | awk -v p=$p -v me=$$ '{ a[$1] = $2; if ($1 == p || $3 == p || $4 == p) m[$1] = 1 } \
END { do { n = 0; for (i in a) if (!(i in m) && (a[i] in m)) { m[i] = 1; n = 1 } } while (n); for (i in m) if (i != me) print i }'); \
[ -n \"$v\" ] || break; kill -9 $v 2>/dev/null; done; }; ";

/// What a guard prints when it has ended a command.
pub(super) const KILLED: &str = "killed-";

/// Returns the script of the guard. It creates a directory for us there and prints its name. When
/// it reads the number of a command, it ends that command, or keeps it from starting, and confirms
/// that; this needs no session, of which a server may allow only a few.
///
/// When its input ends, through us or with the connection, or brings nothing new for this many
/// seconds, the guard ends everything that still runs and removes the directory. An sshd may take
/// hours to notice a lost connection.
pub(super) fn guard(name: &str, timeout_s: u32) -> String {
    format!(
        "trap '' HUP INT TERM PIPE; {KILL}umask 077; \
         for b in \"${{TMPDIR:-/tmp}}\" /var/tmp \"$HOME\" /run; do d=$b/{name}; mkdir \"$d\" 2>/dev/null && break; d=; done; \
         if [ -z \"$d\" ]; then echo 'cannot create a folder in /tmp, /var/tmp, the home folder or /run' >&2; exit 1; fi; \
         mkdir \"$d/p\" \"$d/s\" \"$d/i\" \"$d/put\" || exit 1; \
         c() {{ : >\"$d/stop\"; for f in \"$d\"/p/*; do p=$(cat \"$f\" 2>/dev/null); \
         [ -z \"$p\" ] || {{ k; kill -9 \"-$p\" 2>/dev/null; }}; done; rm -rf \"$d\"; }}; \
         {{ while rm -f \"$d/beat\"; sleep {timeout_s}; do [ -e \"$d/beat\" ] || {{ c; kill -9 $$; exit; }}; done; }} \
         </dev/null >/dev/null 2>&1 & w=$!; printf '%s\\n' \"$d\"; while read j; do : >\"$d/beat\"; \
         [ -z \"$j\" ] || {{ : >\"$d/s/$j\"; p=$(cat \"$d/p/$j\" 2>/dev/null); [ -z \"$p\" ] || {{ k; kill -9 \"-$p\" 2>/dev/null; }}; \
         rm -f \"$d/p/$j\" \"$d/i/$j\"; echo {KILLED}$j; }}; done; c; p=$w; k"
    )
}

/// A command on the remote host.
#[derive(Debug, Clone)]
pub(super) struct Job {
    /// The guard's directory.
    pub folder: String,
    /// Its unique number.
    pub number: u64,
    /// The mark that it writes to standard output before it begins, and to standard error before
    /// its status.
    pub mark: String,
}

/// How a command gets its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// No input.
    Nothing,
    /// This number of bytes after the line. The command does not begin before all of them have
    /// arrived.
    Bytes(usize),
    /// A stream that lasts as long as the command; the wrapper then ends everything the command
    /// started.
    Stream,
}

impl Job {
    /// Returns the line that runs a program.
    pub fn run(&self, words: &[String], input: Input) -> String {
        let Job {
            folder,
            number,
            mark,
        } = self;
        let folder = word(folder);
        let take = match input {
            Input::Nothing => "i=/dev/null; ".to_owned(),
            Input::Bytes(count) => format!(
                "i=$d/i/{number}; cat >\"$i\" && [ $(($(wc -c <\"$i\"))) -eq {count} ] || {{ rm -f \"$d/p/{number}\" \"$i\"; e input; \
                 exit 0; }}; "
            ),
            Input::Stream => String::new(),
        };
        let (from, after) = match input {
            Input::Stream => ("", format!("{KILL}p=$$; k; ")),
            _ => (" <\"$i\"", String::new()),
        };
        let words: Vec<String> = words.iter().map(|of| word(of)).collect();
        format!(
            "n=$(printf '\\nx'); n=${{n%x}}; d={folder}; e() {{ printf '%s %s\\n' {mark} \"$1\" >&2; }}; \
             {{ echo $$ >\"$d/p/{number}\"; }} 2>/dev/null; \
             if [ ! -s \"$d/p/{number}\" ] || [ -e \"$d/stop\" ] || [ -e \"$d/s/{number}\" ]; then e stopped; exit 0; fi; {take}printf '%s\\n' {mark}; \
             PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; set -- {words}; env \"$@\"{from}; s=$?; {after}\
             [ $s -ne 127 ] || command -v \"$1\" >/dev/null 2>&1 || s=missing; rm -f \"$d/p/{number}\" \"$d/i/{number}\"; e $s; exit 0",
            words = words.join(" ")
        )
    }

    /// Returns the offset in its standard output at which it began, because a login shell may print
    /// something first.
    pub fn begun(&self, stdout: &[u8]) -> Option<usize> {
        let mark = format!("{}\n", self.mark);
        Some(find(stdout, mark.as_bytes())? + mark.len())
    }

    /// Returns its status and the position of the mark before it, if its standard error contains
    /// them.
    pub fn status(&self, stderr: &[u8]) -> Option<(Status, std::ops::Range<usize>)> {
        let mark = format!("{} ", self.mark);
        let at = find(stderr, mark.as_bytes())?;
        let behind = &stderr[at + mark.len()..];
        let length = find(behind, b"\n")?;
        let status = match &*String::from_utf8_lossy(&behind[..length]) {
            "missing" => Status::Missing,
            "input" => Status::Input,
            "stopped" => Status::Stopped,
            code => Status::Code(code.parse().ok()?),
        };
        Some((status, at..at + mark.len() + length + 1))
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// With this exit code.
    Code(u32),
    /// There is no such program.
    Missing,
    /// Its input did not arrive.
    Input,
    /// It was stopped before it began.
    Stopped,
}

impl Status {
    /// Returns a description.
    pub fn words(self) -> String {
        match self {
            Status::Code(code) => format!("exit status: {code}"),
            Status::Missing => "there is no such program".into(),
            Status::Input => "its input did not arrive".into(),
            Status::Stopped => "it was stopped".into(),
        }
    }
}

fn find(all: &[u8], part: &[u8]) -> Option<usize> {
    all.windows(part.len()).position(|window| window == part)
}

/// Quotes a word for one line; `$n` contains a newline.
fn word(of: &str) -> String {
    quoted(of).replace('\n', "'\"$n\"'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Command, Host, Limit, Local};
    use std::io::{BufRead, BufReader, Write};
    use std::path::Path;
    use std::time::{Duration, Instant};

    fn job() -> Job {
        Job {
            folder: "/tmp/x".into(),
            number: 7,
            mark: "fwdlab-1".into(),
        }
    }

    #[test]
    fn a_line_is_a_line() {
        let line = job().run(
            &["sh".into(), "-c".into(), "a\n'b'".into()],
            Input::Bytes(4),
        );
        for line in [line, guard("x", 1)] {
            assert!(!line.contains('\n'), "{line}");
        }
    }

    /// Returns every installed shell, as a program of its own or as an applet.
    fn shells() -> Vec<Vec<&'static str>> {
        let known = [
            vec!["dash"],
            vec!["bash"],
            vec!["bash", "--posix"],
            vec!["busybox", "sh"],
            vec!["mksh"],
            vec!["zsh"],
        ];
        let is_here = |shell: &Vec<&str>| Local.query(shell[0], &["--help"]).is_ok();
        known
            .into_iter()
            .filter(|shell| shell[0] == "dash" || is_here(shell))
            .collect()
    }

    fn begin(shell: &[&str], input: impl Into<String>) -> Command {
        let text = BEGIN
            .strip_prefix("exec /bin/sh -c '")
            .and_then(|text| text.strip_suffix('\''));
        let words = [&shell[1..], &["-c", text.unwrap()]].concat();
        Command::new(shell[0], &words).with_input(input)
    }

    #[test]
    fn shells_execute_the_generated_lines() {
        let folder = tempfile::tempdir().unwrap();
        for part in ["p", "i", "s"] {
            std::fs::create_dir(folder.path().join(part)).unwrap();
        }
        let job = Job {
            folder: folder.path().to_str().unwrap().to_owned(),
            ..job()
        };
        let words = |of: &[&str]| -> Vec<String> { of.iter().map(|of| (*of).to_owned()).collect() };
        let odd = ["a\nb", "it's", "\\n$x`y`\"", "", "-e"];
        for shell in shells() {
            let run = |words: &[String], input, behind: &str| {
                let line = format!("{}\n{behind}", job.run(words, input));
                let output = Local.run(&begin(&shell, line), Limit::OURS).unwrap();
                let started = job.begun(&output.stdout).unwrap_or_default();
                let printed = String::from_utf8_lossy(&output.stdout[started..]).into_owned();
                let (status, _) = job.status(&output.stderr).unwrap();
                (printed, status)
            };
            let printf = words(&[&["printf", "%s|"], &odd[..]].concat());
            let printed = run(&printf, Input::Nothing, "an unread input");
            let expected = format!("{}|", odd.join("|"));
            assert_eq!(printed, (expected, Status::Code(0)), "{shell:?}");
            let input = "x\\y\n".repeat(5000);
            let cat = words(&["sh", "-c", "cat; exit 3"]);
            let printed = run(&cat, Input::Bytes(input.len()), &input);
            assert_eq!(printed, (input.clone(), Status::Code(3)), "{shell:?}");
            let half = run(&cat, Input::Bytes(input.len()), &input[1..]);
            assert_eq!(half, (String::new(), Status::Input), "{shell:?}");
            let missing = run(&words(&["no-such-program"]), Input::Nothing, "");
            assert_eq!(missing.1, Status::Missing, "{shell:?}");
            assert!(
                std::fs::read_dir(folder.path().join("p"))
                    .unwrap()
                    .next()
                    .is_none()
            );
            std::fs::write(folder.path().join("s/7"), "").unwrap();
            let stopped = run(&printf, Input::Nothing, "");
            assert_eq!(stopped, (String::new(), Status::Stopped), "{shell:?}");
            std::fs::remove_file(folder.path().join("s/7")).unwrap();
        }
    }

    #[test]
    fn a_status_is_found_among_other_words() {
        let of = |text: &str| job().status(text.as_bytes());
        assert_eq!(of("no\n"), None);
        assert_eq!(of("fwdlab-1 12"), None);
        assert_eq!(of("fwdlab-1 0\n"), Some((Status::Code(0), 0..11)));
        let text = "oh\nfwdlab-1 missing\nlater";
        let (status, place) = of(text).unwrap();
        assert_eq!(status, Status::Missing);
        assert_eq!(
            (&text[..place.start], &text[place.end..]),
            ("oh\n", "later")
        );
    }

    /// Waits for the guard.
    mod slow {
        use super::*;

        /// A connection that is alive, but over which nothing arrives.
        #[test]
        fn the_guard_cleans_up_when_the_connection_is_silent() {
            for shell in shells() {
                let name = format!("fwdlab-guard-{}-{}", std::process::id(), shell.concat());
                let mut child = std::process::Command::new(shell[0])
                    .args(&begin(&shell, "").words[1..])
                    .stdin(std::process::Stdio::piped())
                    .stdout(std::process::Stdio::piped())
                    .spawn()
                    .unwrap();
                let mut input = child.stdin.take().unwrap();
                writeln!(input, "{}", guard(&name, 1)).unwrap();
                let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
                let folder = output.next().unwrap().unwrap();
                let started = Instant::now();
                let is_there = || Path::new(&folder).exists();
                // it stays as long as input arrives
                while started.elapsed() < Duration::from_millis(2500) {
                    writeln!(input).unwrap();
                    std::thread::sleep(Duration::from_millis(100));
                    assert!(is_there(), "{shell:?}");
                }
                let _ = child.wait();
                assert!(!is_there(), "{shell:?}");
                assert!(output.next().is_none());
            }
        }
    }
}
