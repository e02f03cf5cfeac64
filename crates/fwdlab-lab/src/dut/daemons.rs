//! Daemons that a configuration has started on a DUT: detects which have ended, and reports the
//! last lines of their logs.
//!
//! A configuration lists them as files: `NAME.pid` in `$FWDLAB_DAEMONS`, with an optional log in
//! `NAME.log` next to it. The scripts run in any `sh`; a process is identified by its number and,
//! if there is a `/proc`, its start time. Daemons are not started, stopped or judged here. Start
//! with [`Daemons`].

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Configuration;
use crate::error::LabError;
use crate::host::not_understood;
use crate::host::undo::Undo;
use crate::host::{Command, Files, Host, Limit, quoted};

/// The variable with the path of the directory.
pub(super) const VARIABLE: &str = "FWDLAB_DAEMONS";

/// How long to wait for the pid file of a daemon, which is written shortly after it has forked.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time between two checks for such files.
const LOOK: Duration = Duration::from_millis(50);

/// Limits of a reported log: its last lines, the characters of each, and the bytes that are read.
const LINES: usize = 3;
const LETTERS: usize = 200;
const BYTES: usize = 4096;

/// Replaces the start time of a process that has ended, as printed by [`STATE`].
const ENDED: &str = "ended";

/// Prints when a process started, or that it has ended. A `/proc` of another PID namespace is not
/// used.
const STATE: &str = r#"
read -r self _ 2>/dev/null < /proc/self/stat || self=
state() {
    if [ "$self" != $$ ]; then
        kill -0 "$1" 2>/dev/null && echo lives || echo ended
        return
    fi
    read -r stat 2>/dev/null < "/proc/$1/stat" || { echo ended; return; }
    set -- ${stat##*) }
    case $1 in Z|X) echo ended ;; *) echo "${20}" ;; esac
}
"#;

/// The daemons of one DUT.
#[derive(Debug)]
pub(crate) struct Daemons {
    /// The directory of their files.
    folder: String,
    known: Mutex<Vec<Daemon>>,
}

/// A daemon that was running.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Daemon {
    name: String,
    process: u32,
    /// Start time as the kernel prints it; it distinguishes processes that reuse the number.
    started: String,
}

/// A daemon that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedDaemon {
    /// The name that the configuration gives it.
    pub name: String,
    /// The number of its process.
    pub process: u32,
    /// The last lines of its log; empty without a log.
    pub last_words: Vec<String>,
}

impl Daemons {
    /// Creates an empty set for the DUT of this name; `run` is its directory for files that do not
    /// survive a restart (`/run`).
    pub fn for_run(dut: &str, run: &str) -> Daemons {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let name: String = dut
            .chars()
            .map(|c| if allowed(c) { c } else { '-' })
            .collect();
        Daemons {
            folder: format!("{run}/fwdlab-daemons-{name}"),
            known: Mutex::default(),
        }
    }

    /// The assignment that tells every shell of a configuration where to put these files.
    pub fn variable(&self) -> String {
        format!("{VARIABLE}={}", self.folder)
    }

    /// Applies a configuration, and remembers the daemons that it lists.
    ///
    /// # Errors
    /// The configuration cannot be applied, or lists daemons that are not running.
    pub fn of_configuration(
        &self,
        configuration: &Configuration,
        host: &Arc<dyn Host>,
        undo: &Undo,
        apply: impl FnOnce() -> Result<String, LabError>,
    ) -> Result<String, LabError> {
        let names_daemons = self.expect(&configuration.words(), host, undo)?;
        let output = apply()?;
        if names_daemons {
            let met = self.find_daemons(host.as_ref());
            met.map_err(|source| LabError::NotApplied {
                name: configuration.name.clone(),
                source: Box::new(source),
            })?;
        }
        Ok(output)
    }

    /// Checks whether a configuration with these words lists daemons, and if so, creates the
    /// directory for their files.
    ///
    /// # Errors
    /// The directory cannot be made.
    fn expect(
        &self,
        words: &BTreeSet<String>,
        host: &Arc<dyn Host>,
        undo: &Undo,
    ) -> Result<bool, LabError> {
        if !words.contains(VARIABLE) {
            return Ok(false);
        }
        let folder = &self.folder;
        self.known().clear();
        // other directories vanish together with the DUT
        if matches!(host.files(), Files::Machine | Files::Ours) {
            let undo_commands = Command::new("rm", &["-rf", "--", folder]);
            undo.before(host, "files of daemons", undo_commands)?;
        }
        let fresh = format!("rm -rf -- {folder} && mkdir -m 0755 -- {folder}");
        let fresh = Command::shell(&fresh).called(format!("make {folder}, ${VARIABLE}"));
        host.run(&fresh, Limit::OURS)?;
        Ok(true)
    }

    /// Finds the running daemons after the configuration was applied.
    ///
    /// # Errors
    /// None is listed, or one has ended already.
    pub fn find_daemons(&self, host: &dyn Host) -> Result<(), LabError> {
        let folder = &self.folder;
        let script = format!(
            "{STATE}cd -- {folder} && for file in *.pid; do\n[ -s \"$file\" ] || continue\nread -r pid _ < \"$file\"\n\
             echo \"${{file%.pid}} ${{pid}} $(state \"$pid\")\"\ndone\necho looked\n"
        );
        let started = Instant::now();
        let found = loop {
            let found = listed(host, &script)?;
            if !found.is_empty() || started.elapsed() >= PATIENCE {
                break found;
            }
            std::thread::sleep(LOOK);
        };
        if found.is_empty() {
            return Err(LabError::Preflight(format!(
                "it uses ${VARIABLE}, but has created no file there. Each of its daemons must write its PID to ${VARIABLE}/NAME.pid, and \
                 its log to NAME.log next to it"
            )));
        }
        *self.known() = found;
        match self.ended(host)?.as_slice() {
            [] => Ok(()),
            ended => Err(LabError::Daemons(describe_ended(
                ended,
                "before anything was measured",
            ))),
        }
    }

    /// Returns the daemons that have ended since.
    ///
    /// # Errors
    /// The host does not answer, or its answer is not understood.
    pub fn ended(&self, host: &dyn Host) -> Result<Vec<EndedDaemon>, LabError> {
        let known = self.known().clone();
        if known.is_empty() {
            return Ok(Vec::new());
        }
        let all: Vec<String> = known
            .iter()
            .map(|one| quoted(&format!("{} {}", one.name, one.process)).into_owned())
            .collect();
        let script = format!(
            "{STATE}for one in {}; do echo \"$one $(state \"${{one##* }}\")\"; done\necho looked\n",
            all.join(" ")
        );
        let found = listed(host, &script)?;
        let gone = (known.into_iter()).filter(|one| one.started == ENDED || !found.contains(one));
        gone.map(|one| {
            Ok(EndedDaemon {
                last_words: self.last_words(&one.name, host)?,
                name: one.name,
                process: one.process,
            })
        })
        .collect()
    }

    fn last_words(&self, name: &str, host: &dyn Host) -> Result<Vec<String>, LabError> {
        let log = quoted(&format!("{}/{name}.log", self.folder)).into_owned();
        let script = format!("[ ! -f {log} ] || tail -c {BYTES} {log}\n");
        let command = Command::shell(&script).called(format!("read {log}"));
        let output = host.run(&command, Limit::OURS)?;
        Ok(last_lines(&String::from_utf8_lossy(&output.stdout)))
    }

    fn known(&self) -> MutexGuard<'_, Vec<Daemon>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parses what a script prints about processes; those that have ended are included, with [`ENDED`]
/// as start time.
fn listed(host: &dyn Host, script: &str) -> Result<Vec<Daemon>, LabError> {
    let action = "look at the daemons of the configuration";
    let output = host.run(&Command::shell(script).called(action), Limit::OURS)?;
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let not = || not_understood(host, action, &output);
    let mut lines: Vec<&str> = output.lines().collect();
    if lines.pop() != Some("looked") {
        return Err(not());
    }
    let mut found = Vec::new();
    for line in lines {
        let mut words = line.rsplitn(3, ' ');
        let (started, process, name) = (words.next(), words.next(), words.next());
        let process = process.and_then(|number| number.parse().ok());
        let (Some(started), Some(process), Some(name)) = (started, process, name) else {
            // a note about the host's /proc may come first, once
            if line.starts_with("note: ") {
                continue;
            }
            return Err(not());
        };
        found.push(Daemon {
            name: shown(name),
            process,
            started: started.to_owned(),
        });
    }
    Ok(found)
}

/// Returns the last lines of a log, shortened to a line or two on a screen and without control
/// characters.
fn last_lines(log: &str) -> Vec<String> {
    let lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.collect();
    lines[lines.len().saturating_sub(LINES)..]
        .iter()
        .map(|line| shown(line))
        .collect()
}

fn shown(line: &str) -> String {
    let mut text = String::new();
    for c in line.chars().take(LETTERS) {
        match c.is_control() {
            true => text.extend(c.escape_default()),
            false => text.push(c),
        }
    }
    text
}

/// Describes which daemons ended when, with the last lines of their logs.
pub(crate) fn describe_ended(ended: &[EndedDaemon], when: &str) -> String {
    let all: Vec<String> = ended.iter().map(|one| one.describe(when)).collect();
    all.join("; ")
}

impl EndedDaemon {
    fn describe(&self, when: &str) -> String {
        let space = if when.is_empty() { "" } else { " " };
        format!(
            "{self}{space}{when}; {}",
            match &self.last_words[..] {
                [] => format!(
                    "it logged nothing (no {}.log in ${VARIABLE}, or an empty one)",
                    self.name
                ),
                words => format!("its last words: {}", words.join(" | ")),
            }
        )
    }
}

impl fmt::Display for EndedDaemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {}) ended", self.name, self.process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Local;
    use std::process::{Child, Command as Process};

    fn daemons(folder: &std::path::Path) -> Daemons {
        Daemons {
            folder: folder.to_str().unwrap().to_owned(),
            known: Mutex::default(),
        }
    }

    fn sleeper() -> Child {
        Process::new("sleep").arg("60").spawn().unwrap()
    }

    /// With real processes of this machine: one keeps running, one ends after control characters in
    /// its log.
    #[test]
    fn ended_daemons_are_reported_with_their_last_output() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let daemons = daemons(folder.path());
        let words = [VARIABLE.to_owned()].into();
        assert!(daemons.variable().starts_with("FWDLAB_DAEMONS=/"));

        // no daemon was listed
        let host: Arc<dyn Host> = Arc::new(Local);
        let record = tempfile::NamedTempFile::new().unwrap();
        let undo = Undo::new(record.reopen().unwrap());
        assert!(
            !daemons
                .expect(&["true".to_owned()].into(), &host, &undo)
                .unwrap()
        );
        assert!(daemons.ended(&Local).unwrap().is_empty());
        assert!(daemons.expect(&words, &host, &undo).unwrap());
        let error = daemons.find_daemons(&Local).unwrap_err().to_string();
        assert!(error.contains("$FWDLAB_DAEMONS/NAME.pid"), "{error}");

        let (mut lives, mut ends) = (sleeper(), sleeper());
        std::fs::write(at("a b.pid"), format!("{}\n", lives.id())).unwrap();
        std::fs::write(at("ends.pid"), format!("{}", ends.id())).unwrap();
        let log = format!("1\n2\n{}\n\u{1b}[2Jbye\x07\n3\n", "x".repeat(500));
        std::fs::write(at("ends.log"), log).unwrap();
        daemons.find_daemons(&Local).unwrap();
        assert_eq!(daemons.ended(&Local).unwrap(), []);

        // killed but not reaped, it is a zombie; then it is gone
        ends.kill().unwrap();
        for _ in 0..2 {
            let mut ended = daemons.ended(&Local).unwrap();
            let start_time = Instant::now();
            while ended.is_empty() && start_time.elapsed() < Duration::from_secs(10) {
                ended = daemons.ended(&Local).unwrap();
            }
            let long = "x".repeat(LETTERS);
            assert_eq!(
                describe_ended(&ended, "during trial 7"),
                format!(
                    "ends (process {}) ended during trial 7; its last words: {long} | \\u{{1b}}[2Jbye\\u{{7}} | 3",
                    ends.id()
                )
            );
            ends.wait().unwrap();
        }

        // the same number with another start time is another process
        daemons.known()[0].started = "1".into();
        let ended = daemons.ended(&Local).unwrap();
        assert_eq!(ended.len(), 2, "{ended:?}");
        assert!(describe_ended(&ended[..1], "").contains("it logged nothing (no a b.log in"));

        // one that has ended before the first check
        let error = daemons.find_daemons(&Local).unwrap_err().to_string();
        assert!(
            error.contains("ended before anything was measured"),
            "{error}"
        );
        lives.kill().unwrap();
        lives.wait().unwrap();
    }
}
