//! Running other programs: `ip`, `ethtool`, and what users want to run on a DUT.
//!
//! Every child has no standard input, its output is captured, and it dies with us. Nothing here knows test beds.
//! Start with [`run`].

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::sys::die_with_parent;

/// Runs a command of ours and returns its standard output.
///
/// # Errors
/// The program is missing or fails; what it wrote to standard error is in the message.
pub fn run(program: &str, arguments: &[&str]) -> Result<String, LabError> {
    let output = capture(program, arguments, None, None)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The same with a text as standard input.
///
/// # Errors
/// As [`run`].
pub fn run_with_input(program: &str, arguments: &[&str], input: &str) -> Result<(), LabError> {
    capture(program, arguments, Some(input), None).map(drop)
}

/// What ends a command before it ends by itself: its whole process group is killed.
#[derive(Clone, Copy)]
pub struct Limit<'a> {
    /// Longest time it may take.
    pub time: Duration,
    /// Asked again and again; true when nobody wants it any more.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// Runs a command with a limit.
///
/// # Errors
/// As [`run`]; running out of time is a failure too, and being stopped is [`LabError::Interrupted`].
pub fn run_within(program: &str, arguments: &[&str], limit: Limit<'_>) -> Result<Output, LabError> {
    capture(program, arguments, None, Some(limit))
}

fn capture(
    program: &str,
    arguments: &[&str],
    input: Option<&str>,
    limit: Option<Limit<'_>>,
) -> Result<Output, LabError> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    die_with_parent(&mut command);
    let words = || format!("{program} {}", arguments.join(" "));
    let mut child = command.spawn().map_err(|source| match package(program) {
        Some(package) if source.kind() == std::io::ErrorKind::NotFound => {
            LabError::ProgramMissing {
                program: program.into(),
                package,
                source,
            }
        }
        _ => LabError::system(format!("run `{}`", words()), source),
    })?;
    if let (Some(text), Some(mut pipe)) = (input, child.stdin.take()) {
        // a child that closes its input early says why on standard error
        let _ = pipe.write_all(text.as_bytes());
    }
    let group = child.id();
    // read both pipes while waiting: a child that writes more than a pipe holds would block for ever
    let reader = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                let _ = pipe.read_to_end(&mut bytes);
            }
            bytes
        })
    };
    let stdout = reader(
        child
            .stdout
            .take()
            .map(|p| Box::new(p) as Box<dyn Read + Send>),
    );
    let stderr = reader(
        child
            .stderr
            .take()
            .map(|p| Box::new(p) as Box<dyn Read + Send>),
    );
    let failed = |e| LabError::system(format!("wait for `{}`", words()), e);
    let began = Instant::now();
    let (mut timed_out, mut stopped) = (false, false);
    let status = loop {
        match limit {
            None => break child.wait().map_err(failed)?,
            Some(limit) => {
                if let Some(status) = child.try_wait().map_err(failed)? {
                    break status;
                }
                timed_out = timed_out || began.elapsed() > limit.time;
                stopped = stopped || (limit.is_stopped)();
                if timed_out || stopped {
                    crate::sys::kill_group(group);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    };
    // Standard output may still be open in a daemon that the command left behind; it closes with the namespace.
    let collect = |thread: std::thread::JoinHandle<Vec<u8>>| {
        let patience = Instant::now();
        while limit.is_some()
            && !thread.is_finished()
            && patience.elapsed() < Duration::from_millis(300)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        if limit.is_some() && !thread.is_finished() {
            return Vec::new();
        }
        thread.join().unwrap_or_default()
    };
    if stopped {
        return Err(LabError::Interrupted);
    }
    let output = Output {
        status,
        stdout: collect(stdout),
        stderr: collect(stderr),
    };
    if output.status.success() {
        return Ok(output);
    }
    Err(LabError::Command {
        command: words(),
        status: if timed_out {
            format!(
                "no end after {:.0} s, killed",
                limit.map_or(0.0, |limit| limit.time.as_secs_f64())
            )
        } else {
            output.status.to_string()
        },
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

fn package(program: &str) -> Option<&'static str> {
    match program {
        "ip" => Some("iproute2"),
        "ethtool" => Some("ethtool"),
        "nft" => Some("nftables"),
        "nsenter" | "unshare" => Some("util-linux"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_errors_and_time() {
        assert_eq!(run("echo", &["a", "b"]).unwrap(), "a b\n");
        let error = run("sh", &["-c", "echo no such thing >&2; exit 3"])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("exit status: 3") && error.contains("no such thing"),
            "{error}"
        );
        let missing = run("fwdlab-no-such-program", &[]).unwrap_err().to_string();
        assert!(missing.contains("fwdlab-no-such-program"), "{missing}");
        let limit = |ms, is_stopped| Limit {
            time: Duration::from_millis(ms),
            is_stopped,
        };
        // more output than a pipe holds
        let big = run_within(
            "sh",
            &["-c", "head -c 1000000 /dev/zero"],
            limit(20_000, &|| false),
        );
        assert_eq!(big.unwrap().stdout.len(), 1_000_000);
        let stopped = run_within("sleep", &["60"], limit(20_000, &|| true));
        assert!(matches!(stopped, Err(LabError::Interrupted)));
        let slow = run_within("sleep", &["60"], limit(50, &|| false))
            .unwrap_err()
            .to_string();
        assert!(slow.contains("killed"), "{slow}");
    }
}
