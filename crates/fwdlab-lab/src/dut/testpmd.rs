//! DPDK's testpmd as the data plane of a guest that counts instructions: its command line, its
//! process, and the names of its functions.
//!
//! It forwards between the kernel's ports through packet sockets (`net_af_packet`), as a process in
//! the DUT's namespace. The engine there stops it and lets it run
//! (`fwdlab_engine::Exact::hold`). Not for rates: emulated time has none. Start with
//! [`CommandLine::of`] and [`Testpmd::start`].

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::Configuration;
use super::set::Step;
use crate::error::LabError;
use crate::host::{Host, Process, ProcessEvent};
use crate::vm::user_symbols;

/// The program, unless a configuration names one.
const PROGRAM: &str = "dpdk-testpmd";

/// More frames do not fit into its rings: each of four rings has 3 KiB for a frame, and the guest
/// has 1 GiB.
pub(crate) const MOST_FRAMES: u32 = 32_768;

/// The kernel requires this many at least.
const FEWEST_FRAMES: u32 = 64;

/// Options of the environment: no huge pages and no devices of the guest, and one CPU for both the
/// thread that waits for a user and the one that forwards.
const ENVIRONMENT: &str =
    "--no-huge -m 64 --no-pci --no-shconf --no-telemetry --iova-mode=va --lcores 0@0,1@0";

/// Options of testpmd that a user's may override.
const OPTIONS: &str = "--auto-start --total-num-mbufs=4096 --no-mlockall";

/// Starts a program with an input that never ends, and prints its number first. With a stack of any
/// size, the kernel maps programs upwards from a third of the address space: addresses that no other
/// process has. The loader in front of the program is mapped there, and so is the program.
const START: &str =
    "sleep 1000000 | sh -c 'echo $$ && ulimit -s unlimited && exec \"$@\"' sh \"$@\"";

/// The kernel's stack drops frames that are for another host, so they have one reader.
const OTHER_MACS: [&str; 2] = ["02:00:00:00:fe:01", "02:00:00:00:fe:02"];

/// How long its number may take.
const STARTS: Duration = Duration::from_secs(60);

/// What is executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandLine {
    /// The program, an absolute path on this machine and in the guest.
    pub program: PathBuf,
    environment: Vec<String>,
    options: Vec<String>,
}

impl CommandLine {
    /// Returns what a configuration stands for: options of testpmd, after a program if it does not
    /// begin with one; options of the environment are before `--`. `None`: the plain program.
    ///
    /// # Errors
    /// There is no such program, or a part of the configuration is none of these.
    pub fn of(
        configuration: Option<&Configuration>,
        program: Option<&str>,
    ) -> Result<CommandLine, LabError> {
        let mut program = PathBuf::from(program.unwrap_or(PROGRAM));
        let mut words = Vec::new();
        for step in configuration.map_or(&[][..], Configuration::steps) {
            match step {
                Step::Execute(path) => program.clone_from(path),
                Step::Shell(text) => {
                    let mut own = text.split_whitespace().map(str::to_owned).peekable();
                    if let Some(first) = own.next_if(|first| !first.starts_with('-')) {
                        program = first.into();
                    }
                    words.extend(own);
                }
                other => {
                    return Err(LabError::Configuration {
                        name: configuration.map_or("", |of| &of.name).to_owned(),
                        reason: format!(
                            "{other:?} is not for testpmd: give a program, options such as --forward-mode=mac, or both"
                        ),
                    });
                }
            }
        }
        let (environment, options) = match words.iter().position(|word| word == "--") {
            Some(at) => (words[..at].to_vec(), words[at + 1..].to_vec()),
            None => (Vec::new(), words),
        };
        Ok(CommandLine {
            program: find(&program)?,
            environment,
            options,
        })
    }

    /// Returns the words of the command for ports of the kernel, with rings for this number of
    /// frames.
    fn words(&self, ports: [&str; 2], frames: u32) -> Vec<String> {
        let mut words = vec![self.program.display().to_string()];
        // the kernel spends 26 instructions more on each frame while less than a quarter is free
        let ring = (frames.max(FEWEST_FRAMES) * 3 / 2).next_multiple_of(2);
        words.extend(ENVIRONMENT.split(' ').map(str::to_owned));
        for (at, port) in ports.iter().enumerate() {
            words.push(format!(
                "--vdev=net_af_packet{at},iface={port},framesz=2048,framecnt={ring}"
            ));
        }
        words.extend(self.environment.iter().cloned());
        words.push("--".into());
        words.extend(OPTIONS.split(' ').map(str::to_owned));
        words.extend(self.options.iter().cloned());
        words
    }
}

/// Returns the path of a program, of which a name is searched in PATH.
fn find(program: &Path) -> Result<PathBuf, LabError> {
    let missing = |reason: &str| {
        LabError::Preflight(format!(
            "cannot run {}: {reason}. Give the path of a testpmd, or install it: apt-get install dpdk-dev",
            program.display()
        ))
    };
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates: Vec<PathBuf> = match program.components().count() {
        1 if !program.is_absolute() => std::env::split_paths(&folders)
            .map(|folder| folder.join(program))
            .collect(),
        _ => vec![program.to_owned()],
    };
    candidates.retain(|path| path.is_file());
    let found = candidates
        .first()
        .ok_or_else(|| missing("there is no such file"))?;
    fs::canonicalize(found).map_err(|e| missing(&e.to_string()))
}

/// A running testpmd, which ends with its guest.
pub(crate) struct Testpmd {
    process: Mutex<Box<dyn Process>>,
    program: PathBuf,
    /// Its number in the guest.
    pub pid: u32,
}

impl Testpmd {
    /// Starts it on the ports of the DUT of a guest, whose kernel then does not forward.
    ///
    /// # Errors
    /// The guest cannot run it.
    pub fn start(
        dut: &dyn Host,
        ports: [&str; 2],
        line: &CommandLine,
        frames: u32,
    ) -> Result<Testpmd, LabError> {
        dut.write("/proc/sys/net/ipv4/ip_forward", b"0")?;
        // a kernel without IPv6 does not forward it
        let _ = dut.write("/proc/sys/net/ipv6/conf/all/disable_ipv6", b"1");
        // DPDK loads no drivers from a folder that anyone may change; the root of a file system in
        // memory is such a folder
        dut.query("chmod", &["755", "/"])?;
        for (port, mac) in ports.into_iter().zip(OTHER_MACS) {
            dut.query("ip", &["link", "set", port, "address", mac])?;
        }
        let own = line.words(ports, frames);
        let mut words = vec!["-c".to_owned(), START.to_owned(), "sh".to_owned()];
        words.extend(user_symbols::loader(&line.program));
        words.extend(own.iter().cloned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let command = crate::host::Command::new("sh", &words).called(own.join(" "));
        let mut process = dut.start(&command)?;
        let first = process.next(STARTS)?;
        let pid = match &first {
            ProcessEvent::Line(line) => line.trim().parse().ok(),
            _ => None,
        };
        let testpmd = Testpmd {
            process: Mutex::new(process),
            program: line.program.clone(),
            pid: pid.unwrap_or(0),
        };
        match pid {
            Some(_) => Ok(testpmd),
            None => Err(testpmd.explain(LabError::Machine {
                name: line.program.display().to_string(),
                reason: format!("it does not start in the guest: {first:?}"),
            })),
        }
    }

    /// Adds its last output to an error.
    pub fn explain(&self, error: LabError) -> LabError {
        if matches!(error, LabError::Interrupted) {
            return error;
        }
        let mut process = self.process.lock().unwrap_or_else(|e| e.into_inner());
        let (mut lines, began) = (Vec::new(), Instant::now());
        while began.elapsed() < Duration::from_secs(5) {
            match process.next(Duration::from_millis(100)) {
                Ok(ProcessEvent::Line(line)) => lines.push(line),
                _ => break,
            }
        }
        let last = lines[lines.len().saturating_sub(8)..].join("; ");
        match last.is_empty() {
            true => error,
            false => LabError::Machine {
                name: self.program.display().to_string(),
                reason: format!("{error}. It said: {last}"),
            },
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
        let program = (&*self.program, "testpmd");
        Ok(user_symbols::of_maps(
            &String::from_utf8_lossy(&maps),
            program,
            read,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_a_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let program = fs::canonicalize("/bin/sh").unwrap();
        let line = |parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
            let configuration = Configuration::named("x", &parts, folder.path()).unwrap();
            CommandLine::of(Some(&configuration), Some("sh"))
        };
        let plain = CommandLine::of(None, Some("sh")).unwrap();
        assert_eq!((&plain.program, plain.options.len()), (&program, 0));
        assert_eq!(line(&["/bin/sh"]).unwrap(), plain);
        let mac = line(&["--forward-mode=mac"]).unwrap();
        assert_eq!(mac.options, ["--forward-mode=mac"]);
        assert_eq!(line(&["sh --forward-mode=mac"]).unwrap(), mac);
        assert_eq!(line(&["/bin/sh", "--forward-mode=mac"]).unwrap(), mac);
        let both = line(&["--log-level=8 -- --burst=8"]).unwrap();
        let words = both.words(["eth0", "eth1"], 20_000).join(" ");
        assert!(
            words.contains("iface=eth1,framesz=2048,framecnt=30000 --log-level=8 -- --auto"),
            "{words}"
        );
        assert!(words.ends_with("--burst=8"), "{words}");

        let reason = line(&["no-such-program"]).unwrap_err().to_string();
        assert!(reason.contains("apt-get install dpdk-dev"), "{reason}");
        fs::write(folder.path().join("a.nft"), "").unwrap();
        let reason = line(&["a.nft"]).unwrap_err().to_string();
        assert!(reason.contains("not for testpmd"), "{reason}");
    }
}
