//! Daemons that a configuration has started on a DUT, and whether they still live: who died says so with its last words.
//!
//! A configuration names them by files: `NAME.pid` in `$FWDLAB_DAEMONS`, with `NAME.log` beside it for what it says. In the words of any
//! `sh`; a process is known by its number and, where there is a `/proc`, by when it started. It does not start, stop or judge anything.
//! Start with [`Daemons`].

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Configuration;
use crate::error::LabError;
use crate::host::not_understood;
use crate::host::undo::Undo;
use crate::host::{Command, Files, Host, Limit, quoted};

/// The variable that names the directory.
pub(super) const VARIABLE: &str = "FWDLAB_DAEMONS";

/// A daemon that parts from its parent writes its file some moments later: it is waited for so long.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks for such files.
const LOOK: Duration = Duration::from_millis(50);

/// So many of the last lines of a log are told, of each so many characters, from so many bytes.
const LINES: usize = 3;
const LETTERS: usize = 200;
const BYTES: usize = 4096;

/// In the place of the time at which a process started that is not there, as [`STATE`] says it.
const ENDED: &str = "ended";

/// Says of a process when it started, or that it has ended. What `/proc` has of another namespace of processes says nothing of ours.
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

/// Those of one DUT.
#[derive(Debug)]
pub(crate) struct Daemons {
    /// Where their files are.
    folder: String,
    known: Mutex<Vec<Daemon>>,
}

/// One that lived.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Daemon {
    name: String,
    process: u32,
    /// In the kernel's words; another process of this number has started at another time.
    started: String,
}

/// One that does not live any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// What the configuration calls it.
    pub name: String,
    /// The number of its process.
    pub process: u32,
    /// The last lines of its log; none where it has no log, or an empty one.
    pub last_words: Vec<String>,
}

impl Daemons {
    /// Of the DUT that has this name, and keeps there what a start forgets (`/run`); none is known yet.
    pub fn of(dut: &str, run: &str) -> Daemons {
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

    /// What every shell of a configuration is told: where their files belong.
    pub fn variable(&self) -> String {
        format!("{VARIABLE}={}", self.folder)
    }

    /// Has a configuration applied, and knows the daemons that it names from then on.
    ///
    /// # Errors
    /// It is not applied, or names daemons that do not live.
    pub fn of_configuration(
        &self,
        configuration: &Configuration,
        host: &Arc<dyn Host>,
        undo: &Undo,
        apply: impl FnOnce() -> Result<String, LabError>,
    ) -> Result<String, LabError> {
        let names_daemons = self.expect(&configuration.words(), host, undo)?;
        let said = apply()?;
        if names_daemons {
            let met = self.meet(host.as_ref());
            met.map_err(|source| LabError::NotApplied {
                name: configuration.name.clone(),
                source: Box::new(source),
            })?;
        }
        Ok(said)
    }

    /// Before a configuration is applied of which these are the words: is any daemon to be named? Then there is room for its files.
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
        // elsewhere they go with what they are on
        if matches!(host.files(), Files::Machine | Files::Ours) {
            let back = Command::new("rm", &["-rf", "--", folder]);
            undo.before(host, "files of daemons", back)?;
        }
        let fresh = format!("rm -rf -- {folder} && mkdir -m 0755 -- {folder}");
        let fresh = Command::shell(&fresh).called(format!("make {folder}, ${VARIABLE}"));
        host.run(&fresh, Limit::OURS)?;
        Ok(true)
    }

    /// After it: which ones live from now on.
    ///
    /// # Errors
    /// None was named, or one has ended already.
    pub fn meet(&self, host: &dyn Host) -> Result<(), LabError> {
        let folder = &self.folder;
        let script = format!(
            "{STATE}cd -- {folder} && for file in *.pid; do\n[ -s \"$file\" ] || continue\nread -r pid _ < \"$file\"\n\
             echo \"${{file%.pid}} ${{pid}} $(state \"$pid\")\"\ndone\necho looked\n"
        );
        let began = Instant::now();
        let found = loop {
            let found = listed(host, &script)?;
            if !found.is_empty() || began.elapsed() >= PATIENCE {
                break found;
            }
            std::thread::sleep(LOOK);
        };
        if found.is_empty() {
            return Err(LabError::Preflight(format!(
                "it names ${VARIABLE}, and has put no file there. Have each of its daemons write its process's number to \
                 ${VARIABLE}/NAME.pid, and what it says to NAME.log beside it"
            )));
        }
        *self.known() = found;
        match self.ended(host)?.as_slice() {
            [] => Ok(()),
            ended => Err(LabError::Daemons(told(
                ended,
                "before anything was measured",
            ))),
        }
    }

    /// Those that have ended since.
    ///
    /// # Errors
    /// The host does not answer, or says something else.
    pub fn ended(&self, host: &dyn Host) -> Result<Vec<Ended>, LabError> {
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
            Ok(Ended {
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
        let said = host.run(&command, Limit::OURS)?;
        Ok(last_lines(&String::from_utf8_lossy(&said.stdout)))
    }

    fn known(&self) -> MutexGuard<'_, Vec<Daemon>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a script says of processes; those that have ended are among them, and have never started.
fn listed(host: &dyn Host, script: &str) -> Result<Vec<Daemon>, LabError> {
    let what = "look at the daemons of the configuration";
    let said = host.run(&Command::shell(script).called(what), Limit::OURS)?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let not = || not_understood(host, what, &said);
    let mut lines: Vec<&str> = said.lines().collect();
    if lines.pop() != Some("looked") {
        return Err(not());
    }
    let mut found = Vec::new();
    for line in lines {
        let mut words = line.rsplitn(3, ' ');
        let (started, process, name) = (words.next(), words.next(), words.next());
        let process = process.and_then(|number| number.parse().ok());
        let (Some(started), Some(process), Some(name)) = (started, process, name) else {
            // what /proc of a place has to say comes before all else, once
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

/// The last lines of a log, none longer than a line on a screen or two, and without what would move a cursor.
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

/// In words: who ended when, and what they said last.
pub(crate) fn told(ended: &[Ended], when: &str) -> String {
    let all: Vec<String> = ended.iter().map(|one| one.told(when)).collect();
    all.join("; ")
}

impl Ended {
    fn told(&self, when: &str) -> String {
        let space = if when.is_empty() { "" } else { " " };
        format!(
            "{self}{space}{when}; {}",
            match &self.last_words[..] {
                [] => format!(
                    "it left no words (no {}.log in ${VARIABLE}, or nothing in it)",
                    self.name
                ),
                words => format!("its last words: {}", words.join(" | ")),
            }
        )
    }
}

impl fmt::Display for Ended {
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

    /// Real processes of this machine: one lives, one ends, with words that would do something to a terminal.
    #[test]
    fn who_ended_is_told_with_its_last_words_and_who_lives_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let daemons = daemons(folder.path());
        let words = [VARIABLE.to_owned()].into();
        assert!(daemons.variable().starts_with("FWDLAB_DAEMONS=/"));

        // nothing was named
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
        let error = daemons.meet(&Local).unwrap_err().to_string();
        assert!(error.contains("$FWDLAB_DAEMONS/NAME.pid"), "{error}");

        let (mut lives, mut ends) = (sleeper(), sleeper());
        std::fs::write(at("a b.pid"), format!("{}\n", lives.id())).unwrap();
        std::fs::write(at("ends.pid"), format!("{}", ends.id())).unwrap();
        let log = format!("1\n2\n{}\n\u{1b}[2Jbye\x07\n3\n", "x".repeat(500));
        std::fs::write(at("ends.log"), log).unwrap();
        daemons.meet(&Local).unwrap();
        assert_eq!(daemons.ended(&Local).unwrap(), []);

        // killed and not waited for, it is a zombie; then it is gone
        ends.kill().unwrap();
        for _ in 0..2 {
            let mut ended = daemons.ended(&Local).unwrap();
            let began = Instant::now();
            while ended.is_empty() && began.elapsed() < Duration::from_secs(10) {
                ended = daemons.ended(&Local).unwrap();
            }
            let long = "x".repeat(LETTERS);
            assert_eq!(
                told(&ended, "during trial 7"),
                format!(
                    "ends (process {}) ended during trial 7; its last words: {long} | \\u{{1b}}[2Jbye\\u{{7}} | 3",
                    ends.id()
                )
            );
            ends.wait().unwrap();
        }

        // one of the same number that started at another time is another
        daemons.known()[0].started = "1".into();
        let ended = daemons.ended(&Local).unwrap();
        assert_eq!(ended.len(), 2, "{ended:?}");
        assert!(told(&ended[..1], "").contains("it left no words (no a b.log in"));

        // one that does not even live when it is met
        let error = daemons.meet(&Local).unwrap_err().to_string();
        assert!(
            error.contains("ended before anything was measured"),
            "{error}"
        );
        lives.kill().unwrap();
        lives.wait().unwrap();
    }
}
