//! Shared by the tests of the program: a lab, starting and stopping the program, and inspecting the
//! host.
//!
//! A [`Lab`] has its own runs directory and, for root, its own `/run`: no other test sees its
//! namespaces, and none removes the beds of another. Labs run in parallel; one that is
//! [alone](Lab::alone) has the CPUs to itself among these tests.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

use crate::sys;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_fwdlab");

/// The smallest run: one bed, one test case and its control, flat out, so that there is no load
/// search.
pub const TINY: &str = "quick --size 64 --flows 10 -n 1 --trial 200ms --load max";

/// Longer than any command here takes; a program that hangs fails its test instead of blocking all.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// The kernels that tests share, also with those of `lab`.
pub const IMAGES: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/images");

/// Set in the environment of everything that a lab starts, to find its descendants.
const MARK: &str = "FWDLAB_TEST_MARK";

/// A runs directory, and permission to send traffic.
pub struct Lab {
    directory: TempDir,
    mark: String,
    /// A lock, shared by tests that run in parallel.
    _place: File,
}

/// The result of a command.
#[derive(Debug)]
pub struct CommandResult {
    /// Exit code; 128 + n if signal n ended it.
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// A program that runs in the background. Dropping it kills it.
pub struct Started {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

/// Returns `true` for root; otherwise reports that the test is skipped.
pub fn root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skipped("not root");
    }
    root
}

/// A command line: a text, in which quotes keep blanks, or its words.
pub trait CommandLine {
    fn to_words(&self) -> Vec<String>;
}

impl CommandLine for str {
    fn to_words(&self) -> Vec<String> {
        shell_words(self)
    }
}

impl CommandLine for String {
    fn to_words(&self) -> Vec<String> {
        shell_words(self)
    }
}

impl<T: AsRef<str>> CommandLine for [T] {
    fn to_words(&self) -> Vec<String> {
        self.iter().map(|word| word.as_ref().to_owned()).collect()
    }
}

impl<T: AsRef<str>, const N: usize> CommandLine for [T; N] {
    fn to_words(&self) -> Vec<String> {
        self[..].to_words()
    }
}

impl<T: AsRef<str>> CommandLine for Vec<T> {
    fn to_words(&self) -> Vec<String> {
        self[..].to_words()
    }
}

/// The reason for skipping a test whose sender got no CPU.
pub const NOT_REACHED: &str = "the generator did not reach the load";

/// Returns true if a result says so about its trials. On a busy host, that is not an error of the
/// program.
pub fn reports_stall(output: &str) -> bool {
    [
        "the generator did not reach",
        "the generator reached none of the loads",
        "the sender stalls at every load",
        "nothing was sent",
    ]
    .iter()
    .any(|words| output.contains(words))
}

/// Reports, past the harness's capture, that this test or a part of it could not run.
pub fn skipped(reason: &str) {
    let test = std::thread::current();
    let line = format!("SKIPPED: {}: {reason}\n", test.name().unwrap_or("a test"));
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Returns true if tests run that take minutes of CPU time and are not needed for every change:
/// `FWDLAB_LONG=1`. Otherwise it reports `what` as skipped.
pub fn runs_long(what: &str) -> bool {
    let runs = std::env::var_os("FWDLAB_LONG").is_some();
    if !runs {
        skipped(&format!("{what}: FWDLAB_LONG=1 runs it, for minutes"));
    }
    runs
}

impl Lab {
    /// Creates a lab that runs in parallel with others, for tests that do not depend on time.
    pub fn new() -> Lab {
        let place = lock_file("");
        place.lock_shared().unwrap();
        Lab::at(place)
    }

    /// Creates a lab that runs alone among these tests, for tests that judge rates. They are in
    /// modules called `alone`, which `make test` runs when nothing else runs.
    pub fn alone() -> Lab {
        let place = lock_file("");
        place.lock().unwrap();
        Lab::at(place)
    }

    /// Like [`new`](Lab::new), for tests that need root; otherwise reports that the test is
    /// skipped.
    pub fn root() -> Option<Lab> {
        root().then(Lab::new)
    }

    /// Like [`alone`](Lab::alone), for tests that need root.
    pub fn root_alone() -> Option<Lab> {
        root().then(Lab::alone)
    }

    fn at(place: File) -> Lab {
        own_run();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Lab {
            directory: tempfile::tempdir().unwrap(),
            mark: format!("{}-{number}", std::process::id()),
            _place: place,
        }
    }

    /// Returns the directory of the test.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn runs(&self) -> PathBuf {
        self.path().join("runs")
    }

    /// Writes a file in the directory of the test. Returns its path.
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Returns the program with these arguments and this lab's runs, in the directory of the test.
    pub fn program(&self, arguments: &(impl CommandLine + ?Sized)) -> Command {
        self.with(&[PROGRAM], arguments)
    }

    /// Like [`program`](Lab::program), after other words: `taskset -c 0 fwdlab ...`; the last of
    /// them is the program itself.
    pub fn with(&self, before: &[&str], arguments: &(impl CommandLine + ?Sized)) -> Command {
        let mut command = Command::new(before[0]);
        command
            .args(&before[1..])
            .args(arguments.to_words())
            .current_dir(self.path())
            .env("FWDLAB_RUNS", self.runs())
            // ignore the configuration file of the user who runs the tests
            .env("FWDLAB_CONFIG", "")
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("FWDLAB_CACHE", IMAGES)
            .env(MARK, &self.mark)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    /// Runs the program until it ends.
    pub fn run(&self, arguments: &(impl CommandLine + ?Sized)) -> CommandResult {
        ended(self.program(arguments))
    }

    /// Runs the program, and returns its output as JSON; it must have measured.
    pub fn json(&self, arguments: &(impl CommandLine + ?Sized)) -> Value {
        let mut words = arguments.to_words();
        words.push("--json".to_owned());
        let document = self.run(&words).measured().document();
        assert_no_row_forwards_more(&document);
        document
    }

    /// Runs a campaign with this text. Its result is JSON.
    pub fn campaign(&self, text: &str) -> CommandResult {
        let path = self.write("campaign.toml", text);
        self.run(&["run", &path, "--json"])
    }

    /// Starts the program in the background.
    pub fn start(&self, arguments: &(impl CommandLine + ?Sized)) -> Started {
        self.start_command(self.program(arguments))
    }

    pub fn start_command(&self, mut command: Command) -> Started {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = |kind: &str| self.path().join(format!("{number}.{kind}"));
        let (out, err) = (file("out"), file("err"));
        command
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap())
            // in a group of its own, so that a signal to the test run does not reach it
            .process_group(0);
        let child = command.spawn().unwrap();
        Started { child, out, err }
    }

    /// Returns the only run of this lab.
    pub fn only_run(&self) -> PathBuf {
        let mut runs = directories(&self.runs());
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs.remove(0)
    }

    /// Returns a file of the only run.
    pub fn kept(&self, name: &str) -> String {
        let path = self.only_run().join(name);
        fs::read_to_string(&path).unwrap_or_else(|reason| panic!("{}: {reason}", path.display()))
    }

    /// Asserts that nothing of this lab is left on the host: no process, no namespace, no record of
    /// either.
    pub fn assert_clean(&self, what: &str) {
        let left = self.processes();
        assert!(left.is_empty(), "{what}: processes left: {left:?}");
        let left = namespaces();
        assert!(left.is_empty(), "{what}: namespaces left: {left:?}");
    }

    /// Returns the command lines of processes that descend from this lab, but for those that are
    /// being killed: they disappear a moment later.
    pub fn processes(&self) -> Vec<String> {
        let mark = format!("{MARK}={}", self.mark);
        let ours = |pid: &u32| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|all| all.split(|&b| b == 0).any(|one| one == mark.as_bytes()))
                && !is_killed(*pid)
        };
        pids()
            .into_iter()
            .filter(ours)
            .map(|pid| {
                let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                format!("{pid}: {}", line.replace('\0', " "))
            })
            .collect()
    }
}

/// Returns true if SIGKILL is pending for a process (proc_pid_status(5)).
fn is_killed(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = (status.lines())
        .filter_map(|line| {
            line.strip_prefix("SigPnd:")
                .or(line.strip_prefix("ShdPnd:"))
        })
        .filter_map(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    pending.fold(0, |all, bits| all | bits) & (1 << (9 - 1)) != 0
}

/// Gives this thread, and everything it starts, a `/run` of its own. Does nothing without root: it
/// would fail, and is not needed, because such a test leaves nothing in `/run`.
pub fn own_run() {
    thread_local! {
        static OWN: OnceCell<()> = const { OnceCell::new() };
    }
    if !rustix::process::geteuid().is_root() {
        return;
    }
    OWN.with(|own| {
        own.get_or_init(|| {
            sys::unshare_mounts().unwrap();
            let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            mount_change("/", private).unwrap();
            mount("fwdlab-test", "/run", "tmpfs", MountFlags::empty(), None).unwrap();
        });
    });
}

/// Lets one test at a time make something, in any process: others wait until this is dropped.
pub fn making(what: &str) -> File {
    let file = lock_file(&format!("-{what}"));
    file.lock().unwrap();
    file
}

fn lock_file(of: &str) -> File {
    // a user may not open another user's file (fs.protected_regular), and only root sends traffic
    let user = rustix::process::geteuid().as_raw();
    let path = std::env::temp_dir().join(format!("fwdlab-tests-{user}{of}.lock"));
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .unwrap()
}

/// Asserts that no row or record in a document forwards more than was offered. Excludes time
/// series, in which buffered frames come out in a later interval.
#[track_caller]
fn assert_no_row_forwards_more(value: &Value) {
    match value {
        Value::Object(fields) => {
            let of = |name: &str| fields.get(name).and_then(Value::as_f64);
            if let (Some(offered), Some(rate)) = (of("offered_load_pps"), of("forwarding_rate_pps"))
            {
                assert!(
                    rate <= offered * (1.0 + 1e-9),
                    "{rate} of {offered}: {value}"
                );
            }
            let inner = fields.iter().filter(|(name, _)| *name != "samples");
            inner.for_each(|(_, inner)| assert_no_row_forwards_more(inner));
        }
        Value::Array(all) => all.iter().for_each(assert_no_row_forwards_more),
        _ => {}
    }
}

/// Splits a command line into words; quotes keep blanks.
pub fn shell_words(line: &str) -> Vec<String> {
    let quoted = line.split('\'').enumerate();
    quoted
        .flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        })
        .collect()
}

impl CommandResult {
    /// Asserts that the program measured: the result is valid, or gives a reason. A noisy machine
    /// is not an error of the program.
    #[track_caller]
    pub fn measured(&self) -> &CommandResult {
        assert!(matches!(self.code, 0 | 5 | 7), "{self:?}");
        self
    }

    #[track_caller]
    pub fn code(&self, code: i32) -> &CommandResult {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Returns standard output as JSON.
    #[track_caller]
    pub fn document(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|reason| panic!("{reason}: {self:?}"))
    }

    /// Asserts that standard output contains all of these, wherever lines break.
    #[track_caller]
    pub fn prints(&self, words: &[&str]) -> &CommandResult {
        let joined = self.out.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            let is_in = self.out.contains(word) || joined.contains(word);
            assert!(is_in, "`{word}` is not in:\n{}", self.out);
        }
        self
    }

    /// Asserts that both outputs together contain all of these.
    #[track_caller]
    pub fn reports(&self, words: &[&str]) -> &CommandResult {
        let joined = self.out.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            let is_in = [&self.out, &joined, &self.err]
                .iter()
                .any(|all| all.contains(word));
            assert!(is_in, "`{word}` is not in: {self:?}");
        }
        self
    }

    /// Asserts that standard error contains all of these.
    #[track_caller]
    pub fn says(&self, words: &[&str]) -> &CommandResult {
        for word in words {
            assert!(self.err.contains(word), "`{word}` is not in:\n{}", self.err);
        }
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }
}

impl Started {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid() as i32).unwrap();
        // it may have ended a moment ago
        let _ = rustix::process::kill_process(pid, signal);
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn out(&self) -> String {
        fs::read_to_string(&self.out).unwrap()
    }

    pub fn err(&self) -> String {
        fs::read_to_string(&self.err).unwrap()
    }

    /// Waits for the end of the program, for a limited time.
    #[track_caller]
    pub fn wait(mut self, limit: Duration) -> CommandResult {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                started.elapsed() < limit,
                "no end after {limit:?}; it said: {}",
                self.err()
            );
            std::thread::sleep(Duration::from_millis(5));
        };
        CommandResult {
            code: exit_code(status),
            out: self.out(),
            err: self.err(),
        }
    }

    /// Returns the events of `--json-stream` so far.
    pub fn events(&self) -> Vec<Value> {
        self.out()
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Waits for an event of this kind, and returns it.
    #[track_caller]
    pub fn event(&mut self, kind: &str) -> Value {
        let mut found = None;
        self.wait_until(&format!("event {kind}"), |this| {
            found = this.events().into_iter().find(|e| e["event"] == kind);
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits until its bed is registered. Returns the names of its namespaces: the generator's,
    /// then the DUTs'.
    #[track_caller]
    pub fn bed(&mut self) -> Vec<String> {
        let mut bed = Vec::new();
        self.wait_until("a bed", |this| {
            bed = bed_of(this.pid());
            !bed.is_empty()
        });
        bed
    }

    #[track_caller]
    pub fn wait_until(&mut self, what: &str, mut done: impl FnMut(&mut Started) -> bool) {
        let started = Instant::now();
        while !done(self) {
            assert!(
                !self.has_ended() || done(self),
                "it ended before {what}: {}",
                self.err()
            );
            assert!(
                started.elapsed() < PATIENCE,
                "{what} did not come: {}",
                self.err()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a Python that has a package: that of `scripts/bootstrap --tests`, or the system's.
pub fn python_with(package: &str) -> Option<&'static str> {
    let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/venv/bin/python3");
    let import = format!("import {package}");
    let has_it = |python: &&str| try_tool(&[python, "-c", &import]).is_ok();
    [ours, "python3"].into_iter().find(has_it)
}

/// Returns the arguments, the exit code and words of the output, from each line of a table:
/// `ARGUMENTS => CODE: WORDS | OTHER WORDS`.
pub fn cases(table: &str) -> impl Iterator<Item = (&str, i32, Vec<&str>)> {
    table.lines().map(|case| {
        let (arguments, expected) = case.trim().split_once(" => ").unwrap();
        let (code, words) = expected.split_once(':').unwrap();
        let words = words.trim().split(" | ").collect();
        (arguments, code.parse().unwrap(), words)
    })
}

/// Asserts that the command lines of a table are refused, without a result.
#[track_caller]
pub fn refused(table: &str, run: impl Fn(&str) -> CommandResult) {
    for (arguments, code, words) in cases(table) {
        let ended = run(arguments);
        ended.code(code).says(&words);
        assert_eq!(ended.out, "", "{arguments}");
    }
}

/// Runs a command until it ends, within [`PATIENCE`].
pub fn ended(command: Command) -> CommandResult {
    let mut command = assert_cmd::Command::from_std(command);
    command_result(command.timeout(PATIENCE).output().unwrap())
}

pub fn command_result(output: Output) -> CommandResult {
    CommandResult {
        code: exit_code(output.status),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Returns an exit code; 128 + n if signal n ended the process.
pub fn exit_code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap())
}

/// Returns the standard output of a tool that must succeed.
#[track_caller]
pub fn tool(words: &[&str]) -> String {
    try_tool(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// Returns the standard output of a tool, or its error message.
pub fn try_tool(words: &[&str]) -> Result<String, String> {
    let output = Command::new(words[0])
        .args(&words[1..])
        .output()
        .map_err(|e| e.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Returns the namespaces of the bed that this process holds now; empty if it has none.
pub fn bed_of(pid: u32) -> Vec<String> {
    beds()
        .into_iter()
        .find(|bed| bed["pid"] == pid)
        .map(|bed| words(&bed["namespaces"]))
        .unwrap_or_default()
}

/// Returns the list in `fwdlab bed show --json`.
pub fn beds() -> Vec<Value> {
    let text = tool(&[PROGRAM, "bed", "show", "--json"]);
    serde_json::from_str(&text).unwrap()
}

/// Returns the names of network namespaces with our prefix.
pub fn namespaces() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/run/netns") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("fwdlab-"))
        .collect()
}

pub fn directories(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else {
        return Vec::new();
    };
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// Returns the runs in a directory, without those that are still being created: they have hidden
/// names, and nothing continues them after a kill.
pub fn begun_runs(path: &Path) -> Vec<PathBuf> {
    let is_begun = |run: &PathBuf| {
        let is_hidden = run.file_name().unwrap().as_encoded_bytes()[0] == b'.';
        !is_hidden && run.join("run.json").exists()
    };
    directories(path).into_iter().filter(is_begun).collect()
}

fn pids() -> Vec<u32> {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Returns a JSON list of strings.
pub fn words(value: &Value) -> Vec<String> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap().to_owned())
        .collect()
}

/// Returns the results of all test cases in a document.
pub fn all_outcomes(document: &Value) -> Vec<&Value> {
    let cases = list(&document["test_cases"]).iter();
    cases.flat_map(|case| list(&case["outcomes"])).collect()
}

/// Returns a text of every object in a JSON list.
pub fn texts<'a>(all: &'a Value, name: &str) -> Vec<&'a str> {
    let values = list(all).iter().map(|one| one[name].as_str());
    values.map(Option::unwrap).collect()
}

/// Returns the id of the run in a document.
pub fn id_of(document: &Value) -> String {
    document["info"]["id"].as_str().unwrap().to_owned()
}

/// Returns true if a trial is valid.
pub fn is_valid(trial: &Value) -> bool {
    list(&trial["validity"]["reasons"]).is_empty()
}

/// Returns a JSON list.
#[track_caller]
pub fn list(value: &Value) -> &[Value] {
    value
        .as_array()
        .unwrap_or_else(|| panic!("no list: {value}"))
}

/// Returns the frames that passed a stage of a trial, by its meter, which must have been read.
#[track_caller]
pub fn passed(trial: &Value, stage: &str) -> u64 {
    count(&meter(trial, stage)["passed"])
}

/// Returns the drops counted at a stage of a trial.
#[track_caller]
pub fn dropped(trial: &Value, stage: &str) -> u64 {
    let losses = meter(trial, stage)["dropped"].as_array();
    losses.map_or(0, |all| all.iter().map(|loss| count(&loss["frames"])).sum())
}

/// Returns the meter at a stage of a trial.
#[track_caller]
pub fn meter<'a>(trial: &'a Value, stage: &str) -> &'a Value {
    let mut meters = list(&trial["counters"]["meters"]).iter();
    meters
        .find(|meter| meter["stage"] == stage)
        .unwrap_or_else(|| panic!("no meter at {stage}: {trial}"))
}

/// Returns a JSON integer.
#[track_caller]
pub fn count(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no count: {value}"))
}

/// Returns a JSON number.
#[track_caller]
pub fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

/// Returns the lines of a journal, without their checksums; every line must have one.
pub fn json_lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| unsealed(serde_json::from_str(line).unwrap()))
        .collect()
}

/// Returns a file with JSON.
#[track_caller]
pub fn read_json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|reason| panic!("{}: {reason}", path.display()))
}

/// Returns a record of a run without its checksum.
pub fn unsealed(mut record: Value) -> Value {
    let whole = record.as_object_mut().unwrap();
    assert!(whole.remove("crc32").is_some(), "no checksum: {record}");
    record
}

/// Returns the path of a shipped configuration set.
pub fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/config-sets");
    path.join(name)
        .canonicalize()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned()
}
