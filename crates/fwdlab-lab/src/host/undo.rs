//! Undo: records how to undo changes on hosts, before anything is changed.
//!
//! A step is a command for a host. The lab's record contains it from before the change until it is
//! undone, so that any process can run the steps of one that died. Steps may run without a change,
//! or twice: their commands must tolerate that. Changes inside a namespace of the lab need no step
//! after a crash, because they vanish with the namespace, see [`crate::host::registry`]. Start with
//! [`Undo::before`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use fwdlab_model::test_bed::Place;
use serde::{Deserialize, Serialize};

use super::ssh::{BadTarget, Target};
use super::{Command, Host, HostError, Limit, Local, Netns, Remote, Ssh};
use crate::error::LabError;

/// The address of a host, also for other processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Address {
    /// The machine that fwdlab runs on.
    ThisMachine,
    /// A network namespace of it.
    Namespace(String),
    /// A machine behind an agent, or a virtual one, by its name. It ends with the process that
    /// started it, and changes on it vanish, too.
    Agent(String),
    /// A machine that is reached over SSH.
    Ssh(Target),
}

/// Fails on an invalid SSH address, and on an image: it has no address until it boots.
impl TryFrom<&Place> for Address {
    type Error = String;

    fn try_from(place: &Place) -> Result<Address, String> {
        Ok(match place {
            Place::Local => Address::ThisMachine,
            Place::Namespace(name) => Address::Namespace(name.clone()),
            Place::Ssh(text) => Address::Ssh(text.parse().map_err(|e: BadTarget| e.to_string())?),
            Place::Image(image) => return Err(format!("vm:{image} is not a running host")),
        })
    }
}

/// Its name in words: `router1`.
impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::ThisMachine => f.write_str("this machine"),
            Address::Namespace(name) => write!(f, "the network namespace {name}"),
            Address::Agent(name) => f.write_str(name),
            Address::Ssh(target) => target.fmt(f),
        }
    }
}

impl Address {
    /// Returns the host.
    pub fn reach(&self) -> Arc<dyn Host> {
        match self {
            Address::ThisMachine => Arc::new(Local),
            Address::Namespace(name) => Arc::new(Netns::bare(name)),
            Address::Agent(name) => Arc::new(Remote::removed_host(name)),
            Address::Ssh(target) => Arc::new(Ssh::new(target.clone())),
        }
    }
}

/// How to undo one change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The host.
    pub host: Address,
    /// A description of the change: `100 rules of nftables`.
    pub what: String,
    /// The command that undoes it.
    pub command: Command,
}

/// A change that can be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change(u64);

/// A line of a record, after its head.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Undo { number: u64, step: Step },
    Done { number: u64 },
}

/// The pending steps of a lab, and the record that contains them.
#[derive(Debug)]
pub struct Undo {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    record: File,
    next: u64,
    pending: BTreeMap<u64, (Arc<dyn Host>, Step)>,
}

impl Undo {
    /// Creates an empty log; steps are appended to this record.
    pub fn new(record: File) -> Undo {
        Undo {
            state: Mutex::new(State {
                record,
                next: 1,
                pending: BTreeMap::new(),
            }),
        }
    }

    /// Records how to undo what is about to be done.
    ///
    /// # Errors
    /// It cannot be written; then nothing may be changed.
    pub fn before(
        &self,
        host: &Arc<dyn Host>,
        action: &str,
        command: Command,
    ) -> Result<Change, LabError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let number = state.next;
        let step = Step {
            host: host.address(),
            what: action.to_owned(),
            command,
        };
        let line = Line::Undo {
            number,
            step: step.clone(),
        };
        state.write(&line).map_err(|e| {
            let action = format!("record how to undo {action} on {}", host.name());
            LabError::system(action, e)
        })?;
        state.next += 1;
        state.pending.insert(number, (host.clone(), step));
        Ok(Change(number))
    }

    /// Records the undo command, and then makes the change; a partial change that fails is undone.
    ///
    /// # Errors
    /// Why the change failed; [`LabError::HalfDone`] if the partial change could not be undone
    /// either.
    pub fn changing(
        &self,
        host: &Arc<dyn Host>,
        action: &str,
        undo: Command,
        work: impl FnOnce() -> Result<(), LabError>,
    ) -> Result<Change, LabError> {
        let change = self.before(host, action, undo)?;
        self.after(change, action, work())
    }

    fn after(
        &self,
        change: Change,
        action: &str,
        done: Result<(), LabError>,
    ) -> Result<Change, LabError> {
        let Err(error) = done else {
            return Ok(change);
        };
        match self.undo_change(change, Limit::OURS) {
            Err(left) if !matches!(error, LabError::Interrupted) => Err(LabError::HalfDone {
                source: Box::new(error),
                what: action.to_owned(),
                left: Box::new(left.into()),
            }),
            _ => Err(error),
        }
    }

    /// Undoes a change, unless that was done already.
    ///
    /// # Errors
    /// As for [`Host::run`]: the change stays pending.
    pub fn undo_change(&self, change: Change, limit: Limit<'_>) -> Result<(), HostError> {
        let pending = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.pending.get(&change.0).cloned()
        };
        let Some((host, step)) = pending else {
            return Ok(());
        };
        host.run(&step.command, limit)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.pending.remove(&change.0);
        // if this cannot be written, the step will run once more, without effect
        let _ = state.write(&Line::Done { number: change.0 });
        Ok(())
    }

    /// Undoes all changes in reverse order. Returns those that could not be undone; they stay
    /// pending.
    pub fn undo_all(&self, limit: Limit<'_>) -> Vec<String> {
        self.undo_rest(&|_| false, limit)
    }

    /// The same except for changes on hosts that vanish anyway.
    pub fn undo_rest(
        &self,
        goes_anyway: &dyn Fn(&Address) -> bool,
        limit: Limit<'_>,
    ) -> Vec<String> {
        let all: Vec<(u64, String)> = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let pending = state.pending.iter().rev();
            let stays = pending.filter(|(_, (_, step))| !goes_anyway(&step.host));
            stays
                .map(|(n, (_, step))| (*n, step.what.clone()))
                .collect()
        };
        let carried_out = all.into_iter().map(|(number, action)| {
            let done = self.undo_change(Change(number), limit);
            done.map_err(|error| not_undone(&action, &error))
        });
        carried_out.filter_map(Result::err).collect()
    }
}

impl State {
    fn write(&mut self, line: &Line) -> std::io::Result<()> {
        let text = serde_json::to_string(line)?;
        // in one write: a process that dies leaves a complete line, or one whose change was not
        // begun
        self.record.write_all(format!("\n{text}").as_bytes())
    }
}

fn not_undone(action: &str, error: &HostError) -> String {
    format!("{action} could not be undone: {error}")
}

/// The pending steps in the record of a lab that is dead or dies, last first.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Left {
    steps: Vec<(u64, Step)>,
    /// Number of lines that this program cannot parse.
    unknown: usize,
}

impl Left {
    /// Parses what follows the head of a record. An incomplete last line was not finished, so its
    /// change was not begun.
    pub fn parse(text: &str) -> Left {
        let mut steps = BTreeMap::new();
        let mut left = Left::default();
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let lines: Vec<&str> = lines.collect();
        for (place, line) in lines.iter().enumerate() {
            match serde_json::from_str(line) {
                Ok(Line::Undo { number, step }) => {
                    steps.insert(number, step);
                }
                Ok(Line::Done { number }) => {
                    steps.remove(&number);
                }
                Err(e) if e.is_eof() && place + 1 == lines.len() => {}
                Err(_) => left.unknown += 1,
            }
        }
        left.steps = steps.into_iter().rev().collect();
        left
    }

    /// Runs the steps of this machine in another network namespace of it.
    pub fn enter(&mut self, namespace: &Path) {
        let own = self.steps.iter_mut();
        for (_, step) in own.filter(|(_, step)| step.host == Address::ThisMachine) {
            let enter = format!("--net={}", namespace.display());
            let words = ["nsenter".to_owned(), enter];
            step.command.words.splice(..0, words);
        }
    }

    /// Runs the steps, except those on hosts that vanish anyway, marks them as done in their
    /// record, and returns what could not be undone.
    pub fn undo_change(
        self,
        record: &Path,
        goes_anyway: impl Fn(&Address) -> bool,
        reach: impl Fn(&Address) -> Arc<dyn Host>,
    ) -> Vec<String> {
        let mut problem = Vec::new();
        for (number, step) in self
            .steps
            .iter()
            .filter(|(_, step)| !goes_anyway(&step.host))
        {
            match reach(&step.host).run(&step.command, Limit::OURS) {
                Err(error) => problem.push(not_undone(&step.what, &error)),
                Ok(_) => cross_out(record, *number),
            }
        }
        if self.unknown > 0 {
            problem.push(format!(
                "{} changes could not be undone: a newer fwdlab recorded them; undo them with that version",
                self.unknown
            ));
        }
        problem
    }
}

/// Marks a step as done. If this cannot be written, the step will run once more, without effect.
fn cross_out(record: &Path, number: u64) {
    if let (Ok(mut file), Ok(line)) = (
        File::options().append(true).open(record),
        serde_json::to_string(&Line::Done { number }),
    ) {
        let _ = file.write_all(format!("\n{line}").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{Fails, NAME, Scripted};
    use super::*;

    fn undo(name: &str) -> Command {
        Command::new("nft", &["delete", "table", "ip", name])
    }

    /// Returns a record with three changes on a host, the second of which was undone; the host, and
    /// the record's file.
    fn three(host: Scripted) -> (Undo, Arc<Scripted>, tempfile::NamedTempFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let undo_log = Undo::new(file.reopen().unwrap());
        let host = Arc::new(host);
        let shared: Arc<dyn Host> = host.clone();
        let changes = ["a", "b", "c"].map(|name| {
            let before = undo_log.before(&shared, &format!("table {name}"), undo(name));
            before.unwrap()
        });
        undo_log.undo_change(changes[1], Limit::OURS).unwrap();
        (undo_log, host, file)
    }

    #[test]
    fn pending_steps_are_listed_in_reverse_order() {
        let (undo_log, host, file) = three(Scripted::new(|_, _| String::new()));
        let text = std::fs::read_to_string(file.path()).unwrap();

        let next: Arc<Scripted> = Arc::new(Scripted::new(|_, _| String::new()));
        let reached = next.clone();
        let problem = Left::parse(&text).undo_change(
            Path::new("/dev/null"),
            |_| false,
            move |_| reached.clone(),
        );
        assert_eq!(problem, Vec::<String>::new());
        assert_eq!(
            next.commands(),
            ["nft delete table ip c", "nft delete table ip a"]
        );
        // changes that vanish with their host need nothing
        let of_lab = |address: &Address| *address == Address::Namespace(NAME.into());
        let no_host = |_: &Address| -> Arc<dyn Host> { panic!("no host is needed") };
        assert_eq!(
            Left::parse(&text).undo_change(file.path(), of_lab, no_host),
            Vec::<String>::new()
        );

        assert_eq!(undo_log.undo_all(Limit::OURS), Vec::<String>::new());
        assert_eq!(
            host.commands(),
            [
                "nft delete table ip b",
                "nft delete table ip c",
                "nft delete table ip a"
            ]
        );
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(Left::parse(&text), Left::default());
    }

    #[test]
    fn one_failed_undo_step_does_not_stop_the_others() {
        // the first command is that of `three`
        let failing = Scripted::new(|_, _| String::new()).failing(1, Fails::Exit);
        let (undo_log, host, file) = three(failing);
        let problem = undo_log.undo_all(Limit::OURS);
        assert_eq!(
            problem,
            [
                "table c could not be undone: `nft delete table ip c` failed on router1 (exit status: 2): it went wrong"
            ]
        );
        assert_eq!(host.commands().len(), 3);
        // it is still pending, and the next attempt succeeds
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(Left::parse(&text).steps.len(), 1);
        assert_eq!(undo_log.undo_all(Limit::OURS), Vec::<String>::new());
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(Left::parse(&text), Left::default());
    }

    /// A process that dies while writing a step has not begun its change.
    #[test]
    fn truncated_records_are_readable() {
        let (_, _, file) = three(Scripted::new(|_, _| String::new()));
        let text = std::fs::read_to_string(file.path()).unwrap();
        let whole = Left::parse(&text);
        assert_eq!(whole.steps.len(), 2);
        for cut in 0..text.len() {
            let left = Left::parse(&text[..cut]);
            assert!(
                left.unknown == 0 && left.steps.len() <= 3,
                "{cut}: {left:?}"
            );
        }
        let newer = Left::parse("{\"fold\":{\"number\":9}}\n{\"done\":{\"number\":1}}");
        let problem = newer.undo_change(Path::new("none"), |_| false, Address::reach);
        assert!(problem[0].contains("1 changes could not") && problem[0].contains("newer"));
    }

    /// Lines as the first version wrote them, because records outlive programs.
    #[test]
    fn lines_of_older_versions_are_parsed() {
        let text = r#"
{"undo":{"number":1,"step":{"host":{"namespace":"fwdlab-ab3d-dut0"},"what":"3 rules","command":{"words":["nft","-f","-"],"input":"add table ip x\n"}}}}
{"undo":{"number":2,"step":{"host":"this-machine","what":"y","command":{"words":["sh","-c","export A=1\ntrue"],"shown":"true"}}}}
{"done":{"number":1}}"#;
        let left = Left::parse(text);
        assert_eq!((left.steps.len(), left.unknown), (1, 0));
        let (number, step) = &left.steps[0];
        assert_eq!((*number, &step.host), (2, &Address::ThisMachine));
        assert_eq!(step.command.to_string(), "true");
    }

    #[test]
    fn changes_that_cannot_be_recorded_are_not_made() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let host: Arc<dyn Host> = Arc::new(Scripted::new(|_, _| String::new()));
        let error = Undo::new(full).before(&host, "table a", undo("a"));
        let text = error.unwrap_err().to_string();
        assert!(
            text.contains("record how to undo table a on router1"),
            "{text}"
        );
    }
}
