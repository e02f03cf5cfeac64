//! Undo: how to take back what is changed on hosts, written down before anything is changed.
//!
//! A step is a command for a host. It stands in the lab's record from before the change until it was carried out, so that whoever finds
//! the record of a process that died can carry it out. Steps may be carried out for nothing, or twice: their commands must take that.
//! What a namespace of the lab holds needs none after a crash: it goes with the namespace, see [`crate::host::registry`]. Start with
//! [`Undo::before`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::ssh::Target;
use super::{Command, Host, HostError, Limit, Local, Netns, Remote, Ssh};
use crate::error::LabError;

/// Where a host is found again, by another process, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Address {
    /// The machine that fwdlab runs on.
    ThisMachine,
    /// A network namespace of it.
    Namespace(String),
    /// A machine behind an agent, or a virtual one, by its name. It goes with who started it, and what was changed on it goes, too.
    Agent(String),
    /// A machine that answers to SSH.
    Ssh(Target),
}

impl Address {
    /// The host there.
    pub fn reach(&self) -> Arc<dyn Host> {
        match self {
            Address::ThisMachine => Arc::new(Local),
            Address::Namespace(name) => Arc::new(Netns::bare(name)),
            Address::Agent(name) => Arc::new(Remote::gone(name)),
            Address::Ssh(target) => Arc::new(Ssh::new(target.clone())),
        }
    }
}

/// How to take one change back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Where.
    pub host: Address,
    /// What is taken back, in words: `100 rules of nftables`.
    pub what: String,
    /// By what.
    pub command: Command,
}

/// A change that can be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change(u64);

/// A line of a record, behind its head.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Undo { number: u64, step: Step },
    Done { number: u64 },
}

/// The steps of a lab that are to be carried out, and the record in which they stand.
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
    /// No steps yet; they are written to the end of this record.
    pub fn new(record: File) -> Undo {
        Undo {
            state: Mutex::new(State {
                record,
                next: 1,
                pending: BTreeMap::new(),
            }),
        }
    }

    /// Writes down how to take back what is about to be done.
    ///
    /// # Errors
    /// It cannot be written; nothing may be changed then.
    pub fn before(
        &self,
        host: &Arc<dyn Host>,
        what: &str,
        command: Command,
    ) -> Result<Change, LabError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let number = state.next;
        let step = Step {
            host: host.address(),
            what: what.to_owned(),
            command,
        };
        let line = Line::Undo {
            number,
            step: step.clone(),
        };
        state.write(&line).map_err(|e| {
            let what = format!("write down how to take back {what} on {}", host.name());
            LabError::system(what, e)
        })?;
        state.next += 1;
        state.pending.insert(number, (host.clone(), step));
        Ok(Change(number))
    }

    /// Writes down the way back, and then does it; what fails half done is taken back.
    ///
    /// # Errors
    /// Why it could not be done; [`LabError::HalfDone`] where what was done of it could not be taken back either.
    pub fn changing(
        &self,
        host: &Arc<dyn Host>,
        what: &str,
        back: Command,
        work: impl FnOnce() -> Result<(), LabError>,
    ) -> Result<Change, LabError> {
        let change = self.before(host, what, back)?;
        self.after(change, what, work())
    }

    fn after(
        &self,
        change: Change,
        what: &str,
        done: Result<(), LabError>,
    ) -> Result<Change, LabError> {
        let Err(error) = done else {
            return Ok(change);
        };
        match self.take_back(change, Limit::OURS) {
            Err(left) if !matches!(error, LabError::Interrupted) => Err(LabError::HalfDone {
                source: Box::new(error),
                what: what.to_owned(),
                left: Box::new(left.into()),
            }),
            _ => Err(error),
        }
    }

    /// Takes a change back, if that was not done already.
    ///
    /// # Errors
    /// As [`Host::run`]: it stays among those that are to be taken back.
    pub fn take_back(&self, change: Change, limit: Limit<'_>) -> Result<(), HostError> {
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
        // where this cannot be written it will be carried out once more, for nothing
        let _ = state.write(&Line::Done { number: change.0 });
        Ok(())
    }

    /// Takes everything back, what was done last first. What cannot be is left among those that are to be taken back, and said.
    pub fn take_all_back(&self, limit: Limit<'_>) -> Vec<String> {
        self.take_rest_back(&|_| false, limit)
    }

    /// The same but for what is on hosts that go anyway.
    pub fn take_rest_back(
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
        let carried_out = all.into_iter().map(|(number, what)| {
            let done = self.take_back(Change(number), limit);
            done.map_err(|error| not_taken_back(&what, &error))
        });
        carried_out.filter_map(Result::err).collect()
    }
}

impl State {
    fn write(&mut self, line: &Line) -> std::io::Result<()> {
        let text = serde_json::to_string(line)?;
        // at once: a process that dies leaves a whole line or one that nothing was done for
        self.record.write_all(format!("\n{text}").as_bytes())
    }
}

fn not_taken_back(what: &str, error: &HostError) -> String {
    format!("{what} could not be taken back: {error}")
}

/// Steps of a record whose lab is dead, or dies: those that were not carried out, the last first.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Left {
    steps: Vec<(u64, Step)>,
    /// Lines that this program cannot read.
    unknown: usize,
}

impl Left {
    /// What stands behind the head of a record. A last line that is not whole was not finished, and what it is for was not begun.
    pub fn of(text: &str) -> Left {
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

    /// Carries the steps out, but those on hosts that go anyway, crosses them out in their record, and says what could not be taken
    /// back.
    pub fn take_back(
        self,
        record: &Path,
        goes_anyway: impl Fn(&Address) -> bool,
        reach: impl Fn(&Address) -> Arc<dyn Host>,
    ) -> Vec<String> {
        let mut amiss = Vec::new();
        for (number, step) in self
            .steps
            .iter()
            .filter(|(_, step)| !goes_anyway(&step.host))
        {
            match reach(&step.host).run(&step.command, Limit::OURS) {
                Err(error) => amiss.push(not_taken_back(&step.what, &error)),
                Ok(_) => cross_out(record, *number),
            }
        }
        if self.unknown > 0 {
            amiss.push(format!(
                "{} changes could not be taken back: a newer fwdlab wrote down how, and has to do it",
                self.unknown
            ));
        }
        amiss
    }
}

/// Where this cannot be written the step will be carried out once more, for nothing.
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

    /// A record with three changes on a host, of which the second was taken back; the host, and the record's file.
    fn three(host: Scripted) -> (Undo, Arc<Scripted>, tempfile::NamedTempFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let undo_log = Undo::new(file.reopen().unwrap());
        let host = Arc::new(host);
        let shared: Arc<dyn Host> = host.clone();
        let changes = ["a", "b", "c"].map(|name| {
            let before = undo_log.before(&shared, &format!("table {name}"), undo(name));
            before.unwrap()
        });
        undo_log.take_back(changes[1], Limit::OURS).unwrap();
        (undo_log, host, file)
    }

    #[test]
    fn what_was_not_taken_back_is_the_last_first_by_this_process_or_another() {
        let (undo_log, host, file) = three(Scripted::new(|_, _| String::new()));
        let text = std::fs::read_to_string(file.path()).unwrap();

        let next: Arc<Scripted> = Arc::new(Scripted::new(|_, _| String::new()));
        let reached = next.clone();
        let amiss =
            Left::of(&text).take_back(Path::new("/dev/null"), |_| false, move |_| reached.clone());
        assert_eq!(amiss, Vec::<String>::new());
        assert_eq!(
            next.asked(),
            ["nft delete table ip c", "nft delete table ip a"]
        );
        // what goes with its host needs nothing
        let of_lab = |address: &Address| *address == Address::Namespace(NAME.into());
        let nobody = |_: &Address| -> Arc<dyn Host> { panic!("nobody is asked") };
        assert_eq!(
            Left::of(&text).take_back(file.path(), of_lab, nobody),
            Vec::<String>::new()
        );

        assert_eq!(undo_log.take_all_back(Limit::OURS), Vec::<String>::new());
        assert_eq!(
            host.asked(),
            [
                "nft delete table ip b",
                "nft delete table ip c",
                "nft delete table ip a"
            ]
        );
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(Left::of(&text), Left::default());
    }

    #[test]
    fn one_step_that_fails_keeps_none_of_the_others_from_being_carried_out() {
        // the first command is that of `three`
        let failing = Scripted::new(|_, _| String::new()).failing(1, Fails::Exit);
        let (undo_log, host, file) = three(failing);
        let amiss = undo_log.take_all_back(Limit::OURS);
        assert_eq!(
            amiss,
            [
                "table c could not be taken back: `nft delete table ip c` failed on router1 (exit status: 2): it went wrong"
            ]
        );
        assert_eq!(host.asked().len(), 3);
        // it is still to be done, and the next time it can be
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(Left::of(&text).steps.len(), 1);
        assert_eq!(undo_log.take_all_back(Limit::OURS), Vec::<String>::new());
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(Left::of(&text), Left::default());
    }

    /// A process that dies while it writes has not begun what it writes down.
    #[test]
    fn records_are_read_wherever_they_are_torn() {
        let (_, _, file) = three(Scripted::new(|_, _| String::new()));
        let text = std::fs::read_to_string(file.path()).unwrap();
        let whole = Left::of(&text);
        assert_eq!(whole.steps.len(), 2);
        for cut in 0..text.len() {
            let left = Left::of(&text[..cut]);
            assert!(
                left.unknown == 0 && left.steps.len() <= 3,
                "{cut}: {left:?}"
            );
        }
        let newer = Left::of("{\"fold\":{\"number\":9}}\n{\"done\":{\"number\":1}}");
        let amiss = newer.take_back(Path::new("none"), |_| false, Address::reach);
        assert!(amiss[0].contains("1 changes could not") && amiss[0].contains("newer"));
    }

    /// Lines as the first version of this wrote them: records outlive programs.
    #[test]
    fn lines_of_before_are_read() {
        let text = r#"
{"undo":{"number":1,"step":{"host":{"namespace":"fwdlab-ab3d-dut0"},"what":"3 rules","command":{"words":["nft","-f","-"],"input":"add table ip x\n"}}}}
{"undo":{"number":2,"step":{"host":"this-machine","what":"y","command":{"words":["sh","-c","export A=1\ntrue"],"shown":"true"}}}}
{"done":{"number":1}}"#;
        let left = Left::of(text);
        assert_eq!((left.steps.len(), left.unknown), (1, 0));
        let (number, step) = &left.steps[0];
        assert_eq!((*number, &step.host), (2, &Address::ThisMachine));
        assert_eq!(step.command.to_string(), "true");
    }

    #[test]
    fn nothing_is_changed_that_cannot_be_written_down() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let host: Arc<dyn Host> = Arc::new(Scripted::new(|_, _| String::new()));
        let error = Undo::new(full).before(&host, "table a", undo("a"));
        let text = error.unwrap_err().to_string();
        assert!(
            text.contains("write down how to take back table a on router1"),
            "{text}"
        );
    }
}
