//! Data planes in user space that poll, in a guest that counts instructions: which there are, their
//! processes, and the names of their functions.
//!
//! A table of [`DataPlane`] has what differs between them, a file for each. They forward between
//! the kernel's ports, as processes in the DUT's namespace. The engine there stops them and lets
//! them run (`fwdlab_engine::Exact::hold`). Not for rates: emulated time has none. Start with
//! [`CommandLine::of`] and [`Running::start`].

mod ovs;
mod testpmd;
mod vpp;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fwdlab_model::campaign::Kind;

use super::set::Step;
use super::vpp::instance;
use super::{Configuration, Dut, Vpp};
use crate::error::LabError;
use crate::host::undo::Undo;
use crate::host::{Command, Failure, Host, Limit, Process, ProcessEvent};
use crate::networks::Networks;
use crate::vm::user_symbols;

/// All of them.
static ALL: [&DataPlane; 3] = [&testpmd::TESTPMD, &ovs::OVS, &vpp::VPP];

/// Makes a data plane forward that has been started.
type Forward = fn(&Running, &Ground) -> Result<Option<Vpp>, LabError>;

/// What differs between data planes.
pub(crate) struct DataPlane {
    kind: Kind,
    /// The name of the program in profiles.
    name: &'static str,
    /// The program, unless one is given: names in PATH, or paths, of which the first is taken.
    programs: &'static [&'static str],
    /// Returns the other files that the guest needs.
    needs: fn(&CommandLine) -> Result<Vec<PathBuf>, LabError>,
    /// How to install all of these.
    install: &'static str,
    /// Modules of the kernel.
    pub modules: &'static [&'static str],
    /// What configurations may be.
    takes: &'static str,
    /// Adds a command of a configuration; returns false if it is one that the DUT executes after
    /// the start.
    add: fn(&mut CommandLine, &str) -> bool,
    /// Returns true if a part of a configuration can be executed after its start.
    takes_later: fn(&Step) -> bool,
    /// Returns its arguments, for ports of the kernel with rings for this number of frames.
    arguments: fn(&CommandLine, [&str; 2], u32) -> Vec<String>,
    /// A script before its start, with the ports and the room of their rings as arguments.
    before: Option<&'static str>,
    /// Makes it forward after its start, if commands do that; returns the DUT that takes its
    /// configurations, if it is not the system.
    after: Option<Forward>,
    /// How many of its first threads only initialise it and then wait.
    idle_threads: usize,
    /// A script that prints how many frames it has forwarded by its slow path, in one or more
    /// numbers.
    slow_path: Option<&'static str>,
}

/// More frames do not fit into its rings: each of four rings has 3 KiB for a frame, and the guest
/// has 1 GiB.
pub(crate) const MOST_FRAMES: u32 = 32_768;

/// The kernel requires this many at least.
const FEWEST_FRAMES: u32 = 64;

/// Starts a program with an input that never ends, and prints its number first. With a stack of any
/// size, the kernel maps programs upwards from a third of the address space: addresses that no
/// other process has. The loader in front of the program is mapped there, and so is the program.
const START: &str =
    "sleep 1000000 | sh -c 'echo $$ && ulimit -s unlimited && exec \"$@\"' sh \"$@\"";

/// The kernel's stack drops frames that are for another host, so they have one reader.
const OTHER_MACS: [&str; 2] = ["02:00:00:00:fe:01", "02:00:00:00:fe:02"];

/// Directories of programs that an ordinary user's PATH lacks.
const FOLDERS: [&str; 2] = ["/usr/local/sbin", "/usr/sbin"];

/// How long its number may take.
const STARTS: Duration = Duration::from_secs(60);

/// What is executed.
#[derive(Clone)]
pub(crate) struct CommandLine {
    pub of: &'static DataPlane,
    /// The program, an absolute path on this machine and in the guest.
    pub program: PathBuf,
    /// Words of its configuration.
    words: Vec<String>,
    /// What the DUT executes after the start.
    pub after: Option<Configuration>,
}

impl CommandLine {
    /// Returns what a configuration of a kind of DUT stands for, without one the plain program;
    /// `None` if the kind is no data plane that polls.
    ///
    /// # Errors
    /// There is no such program, or a part of the configuration is for something else.
    pub fn of(
        kind: Kind,
        configuration: Option<&Configuration>,
        program: Option<&str>,
    ) -> Result<Option<CommandLine>, LabError> {
        let Some(of) = ALL.into_iter().find(|of| of.kind == kind) else {
            return Ok(None);
        };
        let mut line = CommandLine {
            of,
            program: PathBuf::new(),
            words: Vec::new(),
            after: None,
        };
        let mut later = Vec::new();
        for step in configuration.map_or(&[][..], Configuration::steps) {
            match step {
                Step::Execute(path) if is_program(path) => line.program.clone_from(path),
                Step::Shell(text) if (of.add)(&mut line, text) => {}
                step if (of.takes_later)(step) => later.push(step.clone()),
                other => {
                    return Err(LabError::Configuration {
                        name: configuration.map_or("", |of| &of.name).to_owned(),
                        reason: format!("{other:?} is not for {}: give {}", of.kind, of.takes),
                    });
                }
            }
        }
        line.after = (configuration.filter(|_| !later.is_empty()))
            .map(|configuration| configuration.with_steps(later));
        let given = match line.program.as_os_str().is_empty() {
            true => program.map(Path::new),
            false => Some(&*line.program),
        };
        line.program = match given {
            Some(program) => of.find(&[program]),
            None if kind == Kind::Vpp => instance::find(None),
            None => of.find(&of.programs.iter().map(Path::new).collect::<Vec<_>>()),
        }?;
        Ok(Some(line))
    }

    /// Returns what the guest needs, as paths of this machine.
    ///
    /// # Errors
    /// A program or a file is missing.
    pub fn needs(&self) -> Result<BTreeSet<PathBuf>, LabError> {
        let mut all = BTreeSet::from([self.program.clone()]);
        all.extend((self.of.needs)(self)?);
        Ok(all)
    }

    /// Returns the words of the command for ports of the kernel, with rings for this number of
    /// frames.
    fn words(&self, ports: [&str; 2], ring: u32) -> Vec<String> {
        let mut words = vec![self.program.display().to_string()];
        words.extend((self.of.arguments)(self, ports, ring));
        words
    }
}

impl DataPlane {
    /// Returns the path of the first of these files that exists; a name is searched in PATH.
    fn find(&self, files: &[&Path]) -> Result<PathBuf, LabError> {
        let missing = |reason: &str| {
            LabError::Preflight(format!(
                "cannot run {}: {reason}. Give the path of the program of {}, or install it: {}",
                files.last().unwrap_or(&Path::new("")).display(),
                self.kind,
                self.install
            ))
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&path)
            .chain(FOLDERS.map(PathBuf::from))
            .collect();
        let found = files
            .iter()
            .find_map(|file| match file.components().count() {
                1 if !file.is_absolute() => folders
                    .iter()
                    .map(|folder| folder.join(file))
                    .find(|file| file.is_file()),
                _ => Some(file.to_path_buf()).filter(|file| file.is_file()),
            });
        let found = found.ok_or_else(|| missing("there is no such file"))?;
        fs::canonicalize(found).map_err(|e| missing(&e.to_string()))
    }
}

/// A program, and not a script.
fn is_program(path: &Path) -> bool {
    fs::read(path).is_ok_and(|content| content.starts_with(b"\x7fELF"))
}

/// Where a data plane forwards: the DUT of a guest.
pub(crate) struct Ground {
    pub dut: Arc<dyn Host>,
    /// Its ports, whose rings have room for this number of frames.
    pub ports: [&'static str; 2],
    pub frames: u32,
    pub networks: Networks,
    pub undo: Arc<Undo>,
}

impl Ground {
    /// Returns how many frames the rings take. The kernel spends 26 instructions more on each frame
    /// while less than a quarter is free.
    fn ring(&self) -> u32 {
        (self.frames.max(FEWEST_FRAMES) * 3 / 2).next_multiple_of(2)
    }

    /// Runs a script, with the ports and the room of their rings as arguments.
    fn run(&self, script: &str, of: Kind) -> Result<(), LabError> {
        let room = self.ring().to_string();
        let words = ["-c", script, "sh", self.ports[0], self.ports[1], &room];
        let what = format!("the script that sets up {of}");
        self.dut
            .run(&Command::new("sh", &words).called(what), Limit::OURS)?;
        Ok(())
    }
}

/// A running data plane, which ends with its guest.
pub(crate) struct Running {
    line: CommandLine,
    dut: Arc<dyn Host>,
    process: Mutex<Box<dyn Process>>,
    /// Its number in the guest.
    pid: u32,
    /// What takes its configurations, if it is not the system.
    vpp: Option<Vpp>,
}

impl Running {
    /// Starts it on the ports of the DUT of a guest, whose kernel then does not forward.
    ///
    /// # Errors
    /// The guest cannot run it.
    pub fn start(line: &CommandLine, on: &Ground) -> Result<Running, LabError> {
        let dut = &on.dut;
        dut.write("/proc/sys/net/ipv4/ip_forward", b"0")?;
        // a kernel without IPv6 does not forward it
        let _ = dut.write("/proc/sys/net/ipv6/conf/all/disable_ipv6", b"1");
        // DPDK loads no drivers from a folder that anyone may change; the root of a file system in
        // memory is such a folder
        dut.query("chmod", &["755", "/"])?;
        for (port, mac) in on.ports.into_iter().zip(OTHER_MACS) {
            dut.query("ip", &["link", "set", port, "address", mac])?;
        }
        if let Some(script) = line.of.before {
            on.run(script, line.of.kind)?;
        }
        let own = line.words(on.ports, on.ring());
        let mut words = vec!["-c".to_owned(), START.to_owned(), "sh".to_owned()];
        words.extend(user_symbols::loader(&line.program));
        words.extend(own.iter().cloned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let command = Command::new("sh", &words).called(own.join(" "));
        let mut process = dut.start(&command)?;
        let first = process.next(STARTS)?;
        let pid = match &first {
            ProcessEvent::Line(line) => line.trim().parse().ok(),
            _ => None,
        };
        let mut running = Running {
            line: line.clone(),
            dut: dut.clone(),
            process: Mutex::new(process),
            pid: pid.unwrap_or(0),
            vpp: None,
        };
        if pid.is_none() {
            let reason = format!("it does not start in the guest: {first:?}");
            return Err(running.explain(running.error(reason)));
        }
        if let Some(after) = line.of.after {
            running.vpp = after(&running, on).map_err(|error| running.explain(error))?;
        }
        Ok(running)
    }

    /// Returns its process, and the number of its first threads that do not poll.
    pub fn poller(&self) -> (u32, usize) {
        (self.pid, self.line.of.idle_threads)
    }

    /// Returns what takes its configurations, if it is not the system.
    pub fn dut(&self) -> Option<&dyn Dut> {
        self.vpp.as_ref().map(|vpp| vpp as &dyn Dut)
    }

    /// Returns true if it has ended.
    fn has_ended(&self) -> bool {
        let is_there = self
            .dut
            .query("test", &["-e", &format!("/proc/{}", self.pid)]);
        is_there.is_err_and(|e| matches!(e.failure, Failure::Exit { .. }))
    }

    fn error(&self, reason: String) -> LabError {
        LabError::Machine {
            name: self.line.program.display().to_string(),
            reason,
        }
    }

    /// Adds its last output to an error. If it has ended, that is the error.
    pub fn explain(&self, error: LabError) -> LabError {
        if matches!(error, LabError::Interrupted) {
            return error;
        }
        let error = match self.has_ended() {
            true => self.error("it ended in the guest".into()),
            false => error,
        };
        let mut process = self.process.lock().unwrap_or_else(|e| e.into_inner());
        let (mut lines, began) = (Vec::new(), Instant::now());
        while began.elapsed() < Duration::from_secs(5) {
            match process.next(Duration::from_millis(100)) {
                Ok(ProcessEvent::Line(line)) => lines.push(line),
                _ => break,
            }
        }
        let last = lines[lines.len().saturating_sub(8)..].join("; ");
        let reason = match &error {
            LabError::Machine { reason, .. } => reason.clone(),
            other => other.to_string(),
        };
        match last.is_empty() {
            true => error,
            false => self.error(format!("{reason}. It said: {last}")),
        }
    }

    /// Returns how many frames it has forwarded by its slow path, if it has one. It must be
    /// stopped, and runs meanwhile.
    ///
    /// # Errors
    /// It does not answer.
    pub fn slow_path(&self) -> Result<Option<u64>, LabError> {
        let Some(script) = self.line.of.slow_path else {
            return Ok(None);
        };
        let pid = self.pid;
        let script = format!("kill -CONT {pid} && {script}; kill -STOP {pid}");
        let printed = self.dut.query("sh", &["-c", &script])?;
        let numbers: Result<Vec<u64>, _> = printed.split_whitespace().map(str::parse).collect();
        match numbers {
            Ok(numbers) if !numbers.is_empty() => Ok(Some(numbers.iter().sum())),
            _ => Err(self.error(format!(
                "it does not report how many frames took its slow path, but `{printed}`"
            ))),
        }
    }

    /// Returns the names of its functions, as lines of `/proc/kallsyms`.
    ///
    /// # Errors
    /// The guest was lost.
    pub fn symbols(&self, guest: &dyn Host) -> Result<String, LabError> {
        let maps = guest.read(&format!("/proc/{}/maps", self.pid))?;
        // the guest's files are copies of those of this machine, at the same paths
        let read = |path: &Path| fs::read(path).ok();
        let program = (&*self.line.program, self.line.of.name);
        Ok(user_symbols::of_maps(
            &String::from_utf8_lossy(&maps),
            program,
            read,
        ))
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_engine::EngineError;

    use super::*;
    use crate::host::{HostError, Local};

    /// What it said explains more than what the engine found, and never are permissions the cause.
    #[test]
    fn the_error_of_a_program_that_ended_is_what_it_said() {
        let explained = |pid: u32| {
            let dut: Arc<dyn Host> = Arc::new(Local);
            let command = Command::new("sh", &["-c", "echo unrecognized option"]);
            let process = Mutex::new(dut.start(&command).unwrap());
            let line = CommandLine::of(Kind::Testpmd, None, Some("sh")).unwrap();
            let running = Running {
                line: line.expect("a data plane"),
                dut,
                process,
                pid,
                vpp: None,
            };
            let reason = "none of its threads polls".into();
            let failure = crate::agent::serve::refused(EngineError::Poller {
                process: pid,
                reason,
            });
            let error = HostError::new("the guest", "open senders", failure);
            running.explain(error.into()).to_string()
        };
        let ended = explained(u32::MAX);
        let expected = "it ended in the guest. It said: unrecognized option";
        assert!(ended.ends_with(expected), "{ended}");
        let runs = explained(std::process::id());
        let expected = "none of its threads polls. It said: unrecognized option";
        assert!(
            runs.ends_with(expected) && !runs.contains("permissions"),
            "{runs}"
        );
    }
}
