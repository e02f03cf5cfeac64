//! A machine that restarts: identifies the boot that answers, and waits for the next one.
//!
//! Works over any [`Host`] that reconnects to its machine. Start with [`reboot_and_wait`].

use std::time::{Duration, Instant};

use super::{Command, Failure, Host, HostError, Limit};

/// Prints a text that identifies a boot, on Linux and FreeBSD.
const IDENTITY: &str = "cat /proc/sys/kernel/random/boot_id 2>/dev/null || sysctl -n kern.boot_id 2>/dev/null || \
                        sysctl -n kern.boottime";

/// Restarts the machine, on Linux, FreeBSD, and minimal systems.
pub(crate) const REBOOT: &str = "shutdown -r now 2>/dev/null || reboot";

/// How often to check a machine that is away.
const LOOK: Duration = Duration::from_secs(1);

/// Time limit for identifying the boot.
const ANSWER: Duration = Duration::from_secs(20);

/// Time limit for the first attempt to reach a machine that starts.
const FIRST_ATTEMPT: Duration = Duration::from_secs(5);

/// Returns a function that returns the time limit of the next attempt to reach a machine that
/// starts. The first are short: a connection that began before the machine was up may wait much
/// longer than the machine. Later ones are longer, because a slow or busy machine needs seconds for
/// a login.
pub(crate) fn attempt_limits() -> impl FnMut() -> Duration {
    let mut next = FIRST_ATTEMPT;
    move || {
        let longer = ANSWER.min(next * 3 / 2);
        std::mem::replace(&mut next, longer)
    }
}

/// Returns a text that identifies the boot of the machine and differs after every start.
///
/// # Errors
/// As for [`Host::run`]; or the system has no such identity.
pub fn identity(host: &dyn Host, limit: Limit<'_>) -> Result<String, HostError> {
    let command = Command::shell(IDENTITY).called("which boot is this?");
    let output = host.run(&command, limit)?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if text.is_empty() {
        let reason = Failure::Refused("its system does not distinguish boots".into());
        return Err(HostError::new(host.name(), command, reason));
    }
    Ok(text)
}

/// Restarts the machine of a host, and waits until it answers with another boot. Returns its
/// identity, like [`identity`].
///
/// # Errors
/// The machine does not restart, or did not come back within the limit, with what is known about
/// it.
pub fn reboot_and_wait(host: &dyn Host, limit: Limit<'_>) -> Result<String, HostError> {
    let command = Command::shell(REBOOT).called("reboot");
    send_and_wait(host, &command, LOOK, limit)
}

/// The same with another command and another interval between checks.
pub(super) fn send_and_wait(
    host: &dyn Host,
    command: &Command,
    look: Duration,
    limit: Limit<'_>,
) -> Result<String, HostError> {
    let started = Instant::now();
    let short = Limit {
        time: ANSWER.min(limit.time),
        is_stopped: limit.is_stopped,
    };
    let before = identity(host, short)?;
    match host.run(command, short) {
        Ok(_) => {}
        // the connection may break before the command reports success
        Err(e) if is_unreachable(&e.failure) => {}
        Err(error) => return Err(error),
    }
    let failed = |failure| HostError::new(host.name(), command, failure);
    let mut was_away = false;
    let mut last = String::new();
    let mut attempt_limit = attempt_limits();
    while started.elapsed() < limit.time {
        // the old connection does not notice at once that its machine is gone
        host.disconnect();
        let time = attempt_limit().min(limit.time);
        match identity(host, Limit { time, ..short }) {
            Ok(now) if now != before => return Ok(now),
            Ok(_) => {}
            Err(error) if error.failure == Failure::Stopped => return Err(failed(error.failure)),
            // during its start the machine may also refuse us
            Err(error) => {
                was_away |= is_unreachable(&error.failure);
                last = format!(" ({error})");
            }
        }
        if (limit.is_stopped)() {
            return Err(failed(Failure::Stopped));
        }
        std::thread::sleep(look);
    }
    let after = limit.time.as_secs_f64();
    Err(failed(match was_away {
        true => Failure::NotBack(format!(
            "it went down and did not come back within {after:.0} s{last}. Check its console"
        )),
        false => Failure::Refused(format!(
            "it did not restart within {after:.0} s of the command{last}"
        )),
    }))
}

fn is_unreachable(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Lost(_) | Failure::Unreachable(_) | Failure::TimedOut { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Address, Local, Output, Process};
    use std::path::Path;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A machine with these successive answers; it repeats the last one.
    #[derive(Debug)]
    struct Machine {
        answers: Mutex<Vec<Result<&'static str, Failure>>>,
        connections: AtomicU32,
    }

    impl Machine {
        fn new(answers: impl IntoIterator<Item = Result<&'static str, Failure>>) -> Machine {
            let mut answers: Vec<_> = answers.into_iter().collect();
            answers.reverse();
            Machine {
                answers: Mutex::new(answers),
                connections: AtomicU32::new(1),
            }
        }
    }

    impl Host for Machine {
        fn name(&self) -> &'static str {
            "router1"
        }
        fn address(&self) -> Address {
            Address::ThisMachine
        }
        fn run(&self, command: &Command, _: Limit<'_>) -> Result<Output, HostError> {
            let mut answers = self.answers.lock().unwrap();
            let answer = match answers.len() {
                1 => answers[0].clone(),
                _ => answers.pop().unwrap(),
            };
            match answer {
                Ok(text) => Ok(Output {
                    stdout: text.into(),
                    stderr: Vec::new(),
                }),
                Err(failure) => Err(HostError::new(self.name(), command, failure)),
            }
        }
        fn start(&self, _: &Command) -> Result<Box<dyn Process>, HostError> {
            unreachable!()
        }
        fn read(&self, _: &str) -> Result<Vec<u8>, HostError> {
            unreachable!()
        }
        fn write(&self, _: &str, _: &[u8]) -> Result<(), HostError> {
            unreachable!()
        }
        fn put(&self, _: &Path) -> Result<String, HostError> {
            unreachable!()
        }
        fn disconnect(&self) {
            self.connections.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn reboot(machine: &Machine, ms: u64, is_stopped: &dyn Fn() -> bool) -> Result<String, String> {
        let limit = Limit {
            time: Duration::from_millis(ms),
            is_stopped,
        };
        let command = Command::new("reboot", &[]);
        send_and_wait(machine, &command, Duration::from_millis(2), limit).map_err(|e| e.to_string())
    }

    fn lost() -> Failure {
        Failure::Lost("Connection closed".into())
    }

    fn unreachable() -> Failure {
        Failure::Unreachable("Connection refused".into())
    }

    #[test]
    fn a_reboot_is_recognised_by_a_new_boot_id() {
        let busy = Failure::Refused("System is booting up".into());
        let machine = Machine::new([
            Ok("boot-1\n"),
            Err(lost()),
            Ok("boot-1\n"),
            Err(lost()),
            Err(unreachable()),
            Err(unreachable()),
            Err(busy),
            Ok("boot-2\n"),
        ]);
        assert_eq!(reboot(&machine, 10_000, &|| false).unwrap(), "boot-2");
        // each attempt after the restart has a connection of its own
        assert_eq!(machine.connections.into_inner(), 1 + 6);
        // the restart was too fast to see it go
        let machine = Machine::new([Ok("boot-1"), Ok(""), Ok("boot-2")]);
        assert_eq!(reboot(&machine, 10_000, &|| false).unwrap(), "boot-2");
    }

    #[test]
    fn attempts_become_longer() {
        let mut next = attempt_limits();
        let limits: Vec<f64> = (0..5).map(|_| next().as_secs_f64()).collect();
        assert_eq!(limits, [5.0, 7.5, 11.25, 16.875, 20.0]);
    }

    #[test]
    fn a_host_that_never_returns_is_reported() {
        let machine = Machine::new([Ok("boot-1"), Ok(""), Err(unreachable())]);
        let text = reboot(&machine, 50, &|| false).unwrap_err();
        assert!(
            text.contains("lost connection to router1 during `reboot`"),
            "{text}"
        );
        assert!(text.contains("did not come back within"), "{text}");
        assert!(text.contains("Connection refused"), "{text}");
        let machine = Machine::new([Ok("boot-1"), Ok("boot-1")]);
        let text = reboot(&machine, 50, &|| false).unwrap_err();
        assert!(text.contains("it did not restart within"), "{text}");
        let not_allowed = Failure::Exit {
            status: "exit status: 1".into(),
            said: "must be superuser".into(),
        };
        let machine = Machine::new([Ok("boot-1"), Err(not_allowed)]);
        let text = reboot(&machine, 50, &|| false).unwrap_err();
        assert!(text.contains("must be superuser"), "{text}");
        let machine = Machine::new([Ok("boot-1"), Ok(""), Err(unreachable())]);
        let text = reboot(&machine, 50_000, &|| true).unwrap_err();
        assert!(text.contains("was stopped"), "{text}");
    }

    #[test]
    fn this_machine_has_one_identity() {
        let first = identity(&Local, Limit::OURS).unwrap();
        assert_eq!(first, identity(&Local, Limit::OURS).unwrap());
        assert!(first.len() > 8, "{first}");
    }
}
