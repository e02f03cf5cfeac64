//! A VPP that fwdlab starts itself in a namespace of a bed: its files, its process, and its last
//! output.
//!
//! All it leaves on this machine is one directory, which is recorded before it is created; its
//! shared memory is in private mounts. It ends when the [`Instance`] is dropped, or the process
//! that started it dies. A VPP that others run is not handled here. Start with [`Instance::start`].

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fwdlab_model::campaign::{self, Kind};

use super::cli::Cli;
use crate::error::LabError;
use crate::host::undo::Undo;
use crate::host::{Command, Host, Local, Netns, Process, ProcessEvent};

/// The environment variable with the path of the program, if it is not given elsewhere.
const PROGRAM: &str = "FWDLAB_VPP";

/// Number of its last lines of output that are kept.
const WORDS: usize = 10;

/// Longest path of a socket, including the terminating zero (sun_path of sockaddr_un).
const LONGEST_SOCKET: usize = 108;

/// Its memory: the heap, that in a virtual machine, and buffers, which take 19 huge pages of 2 MiB.
const HEAP: &str = "1G";
const GUEST_HEAP: &str = "256M";
const BUFFERS: u32 = 16384;

/// Huge pages of 2 MiB for both, and a few for later allocations.
const HUGE_PAGES: u64 = 512 + 19 + 5;

/// The directory in which the kernel reports how many huge pages of 2 MiB exist and how many are
/// free.
const PAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// Releases the pages that were added: `sh -c GIVE_BACK FILE-WITH-THE-NUMBER nr_hugepages`. Does
/// nothing the second time, because the file is gone.
const GIVE_BACK: &str = "[ -e \"$0\" ] || exit 0; n=$(($(cat \"$1\") - $(cat \"$0\"))) && rm \"$0\" && echo $n > \"$1\"";

/// The first command of its shell: shared memory in private mounts vanishes with the process.
const START: &str = "mount -t tmpfs tmpfs /dev/shm && exec \"$@\"";

/// The niceness of the forwarding threads: that of the kernel's thread that passes frames to them
/// and competes with them for CPU time.
const NICENESS: i32 = -20;

/// Plugins that are loaded, if they exist.
const PLUGINS: [&str; 3] = ["af_packet", "acl", "ping"];

/// CPUs of its threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// The CPU of the main thread, which forwards if there are no workers.
    pub main: Option<usize>,
    /// The CPUs of the workers, one each.
    pub workers: Vec<usize>,
}

impl Cpus {
    /// Chooses CPUs among those of the DUT: each worker has its own, and the main thread gets one
    /// that is left, otherwise one of the generator's, because it sleeps while workers forward.
    ///
    /// # Errors
    /// More workers than the DUT has CPUs.
    pub fn choose(workers: u32, dut: &[usize], generator: &[usize]) -> Result<Cpus, LabError> {
        let requested = workers as usize;
        if requested == 0 {
            return Ok(Cpus {
                main: dut.first().copied(),
                workers: Vec::new(),
            });
        }
        let Some(own) = dut.get(..requested) else {
            let them: Vec<String> = dut.iter().map(ToString::to_string).collect();
            return Err(LabError::Preflight(format!(
                "{requested} workers of VPP need {requested} CPUs, and the DUT has {}: give it more with dut-cpus in [bed], or take fewer workers",
                match them.is_empty() {
                    true => "none of its own".into(),
                    false => format!("CPU {}", them.join(", ")),
                }
            )));
        };
        Ok(Cpus {
            main: dut.get(requested).or(generator.first()).copied(),
            workers: own.to_vec(),
        })
    }

    /// Returns the section of VPP's configuration.
    fn section(&self) -> String {
        let mut section = String::new();
        if let Some(main) = self.main {
            section += &format!(" main-core {main}");
        }
        if !self.workers.is_empty() {
            let workers: Vec<String> = self.workers.iter().map(ToString::to_string).collect();
            section += &format!(" corelist-workers {}", workers.join(","));
        }
        section
    }

    /// Describes them for people.
    pub fn words(&self) -> String {
        let main = self
            .main
            .map_or("any CPU".into(), |cpu| format!("CPU {cpu}"));
        match &self.workers[..] {
            [] => format!("VPP: its main thread forwards, on {main}"),
            workers => {
                let cpus: Vec<String> = workers.iter().map(ToString::to_string).collect();
                format!(
                    "VPP: {} workers, on CPU {}; its main thread on {main}",
                    workers.len(),
                    cpus.join(", ")
                )
            }
        }
    }
}

/// A VPP started by fwdlab.
pub(crate) struct Instance {
    process: Mutex<RunningVpp>,
    pub cli: Cli,
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance")
            .field("cli", &self.cli)
            .finish_non_exhaustive()
    }
}

struct RunningVpp {
    process: Box<dyn Process>,
    last_lines: VecDeque<String>,
    /// How it ended.
    ended: Option<String>,
}

impl Instance {
    /// Starts a VPP in the namespace of a lab, and waits until it answers.
    ///
    /// # Errors
    /// There is no VPP, or it does not start; the error has its output.
    pub fn start(
        namespace: &str,
        lab: &str,
        dut: &campaign::Dut,
        cpus: &Cpus,
        undo: &Undo,
    ) -> Result<Instance, LabError> {
        let program = find(dut.program.as_deref())?;
        let folder = folder(namespace, undo)?;
        let is_huge = dut.kind == Kind::VppHugePages;
        if is_huge {
            reserve(Path::new(PAGES), &folder, undo)?;
        }
        let pages = if is_huge { "2M" } else { "4k" };
        let socket = folder.join("cli.sock");
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let file = folder.join("startup.conf");
        let written = fs::write(&file, startup(&program, &folder, cpus, (HEAP, pages)));
        written.map_err(|e| LabError::system(format!("write {}", file.display()), e))?;
        // processes that it starts belong to the lab, and end with it
        let place = Netns::place(namespace, lab, true);
        let (vpp, file) = (text(&program), text(&file));
        let words = ["-c", START, "sh", &vpp, "-c", &file];
        let process =
            place.start(&Command::new("sh", &words).called(format!("{vpp} -c {file}")))?;
        let control = control_of(&program);
        let cli = Cli::new(
            Arc::new(Netns::bare(namespace)),
            &text(&control),
            &text(&socket),
        );
        let instance = Instance {
            process: Mutex::new(RunningVpp {
                process,
                last_lines: VecDeque::new(),
                ended: None,
            }),
            cli,
        };
        let answers = instance.cli.wait(|time| instance.last_words(time));
        answers.map_err(|reason| LabError::Vpp {
            dut: namespace.to_owned(),
            reason: match instance.last_output() {
                output if output.is_empty() => reason,
                output => format!("{reason}. It said: {output}"),
            },
        })?;
        if is_huge {
            instance.sees_huge_pages(namespace)?;
        }
        for thread in forwarding(&instance.cli.query("show threads")?) {
            // without the privilege, it keeps the default niceness
            let _ = crate::sys::set_nice(thread, NICENESS);
        }
        Ok(instance)
    }

    /// Checks that its memory is in huge pages: VPP falls back to normal pages without an error.
    fn sees_huge_pages(&self, namespace: &str) -> Result<(), LabError> {
        let heap = self.cli.query("show memory main-heap")?;
        let physical = self.cli.query("show physmem")?;
        match heap.contains("page-size 2M") && physical.contains("subpage-size 2M") {
            true => Ok(()),
            false => Err(LabError::Vpp {
                dut: namespace.to_owned(),
                reason: format!(
                    "its memory is not in huge pages of 2 MiB: {}; {}",
                    first_with(&heap, "page-size"),
                    first_with(&physical, "subpage-size")
                ),
            }),
        }
    }

    /// Returns how it ended, and its last output; `None` while it runs. Waits up to `patience` for
    /// output.
    pub fn last_words(&self, patience: Duration) -> Option<String> {
        let mut running = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        running.listen(patience);
        let how = running.ended.clone()?;
        drop(running);
        let output = self.last_output();
        Some(match output.is_empty() {
            true => format!("has ended ({how}) and printed nothing"),
            false => format!("has ended ({how}); its last words: {output}"),
        })
    }

    /// Returns its last output, as far as it was received.
    pub fn last_output(&self) -> String {
        let mut running = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        running.listen(Duration::ZERO);
        let output: Vec<&str> = running.last_lines.iter().map(String::as_str).collect();
        output.join("; ")
    }
}

impl RunningVpp {
    fn listen(&mut self, mut patience: Duration) {
        while self.ended.is_none() {
            match self.process.next(patience) {
                Ok(ProcessEvent::Line(line)) => {
                    if self.last_lines.len() == WORDS {
                        self.last_lines.pop_front();
                    }
                    self.last_lines.push_back(line.trim().to_owned());
                }
                Ok(ProcessEvent::Silence) => return,
                Ok(ProcessEvent::End(end)) => self.ended = Some(end.status),
                Err(error) => self.ended = Some(error.to_string()),
            }
            patience = Duration::ZERO;
        }
    }
}

/// Returns the threads that forward: the workers, or the main thread if there are none.
/// ` 1 vpp_wk_0 32319 1 other (0) 5629456 ...`
fn forwarding(text: &str) -> Vec<u32> {
    let rows = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (name, thread) = (words.next()?, words.next()?.parse().ok()?);
        Some((name.starts_with("vpp_wk"), thread))
    });
    let rows: Vec<(bool, u32)> = rows.collect();
    let workers = rows.iter().any(|(is_worker, _)| *is_worker);
    let own = rows.iter().filter(|(is_worker, _)| *is_worker == workers);
    own.map(|(_, thread)| *thread).collect()
}

/// Returns the first line that contains `word`.
fn first_with<'a>(text: &'a str, word: &str) -> &'a str {
    let mut lines = text.lines().map(str::trim);
    lines
        .find(|line| line.contains(word))
        .unwrap_or("VPP reports no page size")
}

/// Ensures that enough huge pages are free, because VPP dies if it does not get a page. First
/// writes the number of added pages to a file in its directory: exactly these are released, once,
/// whatever others reserved meanwhile.
///
/// # Errors
/// The kernel does not have enough memory for them.
fn reserve(kept: &Path, folder: &Path, undo: &Undo) -> Result<(), LabError> {
    let all = kept.join("nr_hugepages");
    let number = |file: &Path| -> Result<u64, LabError> {
        let text = fs::read_to_string(file)
            .map_err(|e| LabError::system(format!("read {}", file.display()), e))?;
        text.trim().parse().map_err(|_| {
            LabError::Preflight(format!(
                "{} says `{}`, no number",
                file.display(),
                text.trim()
            ))
        })
    };
    let free = number(&kept.join("free_hugepages"))?;
    let missing = HUGE_PAGES.saturating_sub(free);
    if missing == 0 {
        return Ok(());
    }
    let before = number(&all)?;
    let here: Arc<dyn Host> = Arc::new(Local);
    let added = folder.join("huge-pages");
    let (file, undo_commands) = (added.to_string_lossy(), all.to_string_lossy());
    let undo_commands = Command::new("sh", &["-c", GIVE_BACK, &file, &undo_commands]);
    undo.before(&here, "huge pages", undo_commands)?;
    fs::write(&added, missing.to_string())
        .map_err(|e| LabError::system(format!("write {}", added.display()), e))?;
    fs::write(&all, (before + missing).to_string())
        .map_err(|e| LabError::system(format!("write {}", all.display()), e))?;
    match number(&kept.join("free_hugepages"))? {
        free if free >= HUGE_PAGES => Ok(()),
        free => Err(LabError::Preflight(format!(
            "VPP needs {HUGE_PAGES} free huge pages of 2 MiB, and the kernel has made {free} of them: free some memory, or reserve them \
             when this machine starts (hugepages={HUGE_PAGES} in the kernel's command line)"
        ))),
    }
}

/// Finds the program of VPP: the given one, that of the environment, or the one in PATH.
///
/// # Errors
/// There is none: where it was searched, and how to specify its path.
pub(crate) fn find(output: Option<&str>) -> Result<PathBuf, LabError> {
    let (named, whence) = match (output, std::env::var_os(PROGRAM)) {
        (Some(output), _) => (Some(PathBuf::from(output)), "program in [dut]"),
        (None, Some(named)) => (Some(PathBuf::from(named)), "$FWDLAB_VPP"),
        (None, None) => (None, "PATH"),
    };
    let Some(named) = named else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut all = std::env::split_paths(&path).map(|folder| folder.join("vpp"));
        return all.find(|program| program.is_file()).ok_or_else(|| {
            LabError::Preflight(
                "there is no program `vpp` in PATH. Install VPP (packages for Debian and Ubuntu: packagecloud.io/fdio), or say where it \
                 is: program = \"/.../bin/vpp\" in [dut], or FWDLAB_VPP=/.../bin/vpp"
                    .into(),
            )
        });
    };
    match named.is_file() {
        // its working directory will be another one
        true => fs::canonicalize(&named)
            .map_err(|e| LabError::system(format!("find {}", named.display()), e)),
        false => Err(LabError::Preflight(format!(
            "there is no program `{}`, which {whence} names: it is the file vpp itself, such as /usr/bin/vpp",
            named.display()
        ))),
    }
}

/// Returns its control program: the one next to it, or that in PATH.
pub(crate) fn control_of(program: &Path) -> PathBuf {
    let beside = program.with_file_name("vppctl");
    match beside.is_file() {
        true => beside,
        false => "vppctl".into(),
    }
}

/// Creates a directory for its files; its removal is recorded first.
fn folder(namespace: &str, undo: &Undo) -> Result<PathBuf, LabError> {
    let folder = std::env::temp_dir().join(format!("{namespace}-vpp"));
    let length = folder.join("stats.sock").as_os_str().len();
    if length >= LONGEST_SOCKET {
        return Err(LabError::Preflight(format!(
            "{} is too long for the sockets of VPP, which have at most {} characters: set TMPDIR to a shorter folder",
            folder.display(),
            LONGEST_SOCKET - 1
        )));
    }
    let here: Arc<dyn Host> = Arc::new(Local);
    let remove = Command::new("rm", &["-rf", &folder.to_string_lossy()]);
    undo.before(&here, "the folder of VPP", remove)?;
    // of an earlier lab with the same letters whose record was lost
    let _ = fs::remove_dir_all(&folder);
    let made = fs::DirBuilder::new().mode(0o700).create(&folder);
    made.map_err(|e| LabError::system(format!("make {}", folder.display()), e))?;
    Ok(folder)
}

/// Returns the words of its command line in a virtual machine, whose only CPU has its only thread:
/// VPP takes its configuration from there, too.
pub(crate) fn in_guest(program: &Path, folder: &Path) -> Vec<String> {
    let cpus = Cpus {
        main: Some(0),
        workers: Vec::new(),
    };
    let text = startup(program, folder, &cpus, (GUEST_HEAP, "4k"));
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns the plugins that are loaded: their folder, as for a build or a package, and files.
/// `None` if VPP has them elsewhere.
pub(crate) fn plugins(program: &Path) -> Option<(PathBuf, Vec<PathBuf>)> {
    let root = program.parent()?.parent()?;
    let packaged = format!("lib/{}-linux-gnu/vpp_plugins", std::env::consts::ARCH);
    let mut folders = ["lib/vpp_plugins", &packaged, "lib64/vpp_plugins"]
        .map(|at| root.join(at))
        .into_iter();
    let folder = folders.find(|folder| folder.is_dir())?;
    let files = PLUGINS.map(|name| folder.join(format!("{name}_plugin.so")));
    let files = files.into_iter().filter(|file| file.is_file()).collect();
    Some((folder, files))
}

/// Returns its configuration file, with the size of the heap, and that of its pages.
fn startup(program: &Path, folder: &Path, cpus: &Cpus, (heap, pages): (&str, &str)) -> String {
    let run = folder.display();
    let (path, files) = match plugins(program) {
        Some((path, files)) => (format!(" path {}", path.display()), files),
        None => {
            let files = PLUGINS.map(|name| format!("{name}_plugin.so").into());
            (String::new(), files.to_vec())
        }
    };
    let enabled: String = (files.iter().filter_map(|file| file.file_name()))
        .map(|name| format!(" plugin {} {{ enable }}", name.display()))
        .collect();
    format!(
        "unix {{ nodaemon cli-listen {run}/cli.sock runtime-dir {run} }}\n\
         api-segment {{ prefix fwdlab }}\n\
         memory {{ main-heap-size {heap} main-heap-page-size {pages} }}\n\
         buffers {{ buffers-per-numa {BUFFERS} page-size {pages} }}\n\
         statseg {{ size 32M page-size 4k socket-name {run}/stats.sock }}\n\
         cpu {{{} }}\n\
         plugins {{{path} plugin default {{ disable }}{enabled} }}\n",
        cpus.section()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_have_a_cpu_each_and_the_main_thread_one_that_is_left() {
        let of = |workers, dut: &[usize]| Cpus::choose(workers, dut, &[0]);
        let alone = of(0, &[1]).unwrap();
        assert_eq!((alone.main, alone.workers.len()), (Some(1), 0));
        assert_eq!(alone.section(), " main-core 1");
        let one = of(1, &[1]).unwrap();
        assert_eq!((one.main, &one.workers[..]), (Some(0), &[1][..]));
        let two = of(2, &[1, 2, 3]).unwrap();
        assert_eq!(two.section(), " main-core 3 corelist-workers 1,2");
        let error = of(3, &[1, 2]).unwrap_err().to_string();
        assert!(
            error.contains("3 workers") && error.contains("CPU 1, 2"),
            "{error}"
        );
        assert_eq!(Cpus::choose(0, &[], &[]).unwrap().section(), "");
    }

    #[test]
    fn missing_huge_pages_are_reserved_after_the_undo_step_is_recorded() {
        let kept = tempfile::tempdir().unwrap();
        let record = tempfile::NamedTempFile::new().unwrap();
        let undo = Undo::new(record.reopen().unwrap());
        let all = kept.path().join("nr_hugepages");
        let written = || fs::read_to_string(record.path()).unwrap();
        let says = |all_of_them: u64, free: u64| {
            fs::write(&all, format!("{all_of_them}\n")).unwrap();
            fs::write(kept.path().join("free_hugepages"), format!("{free}\n")).unwrap();
        };
        let folder = tempfile::tempdir().unwrap();
        // enough: nothing is changed
        says(600, HUGE_PAGES);
        reserve(kept.path(), folder.path(), &undo).unwrap();
        let there = || {
            fs::read_to_string(&all)
                .unwrap()
                .trim()
                .parse::<u64>()
                .unwrap()
        };
        assert_eq!((there(), written().len()), (600, 0));
        // others use 20 of 30; an error if the kernel does not add more
        says(30, 10);
        let error = reserve(kept.path(), folder.path(), &undo)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&HUGE_PAGES.to_string()) && error.contains("has made 10"),
            "{error}"
        );
        assert_eq!(there(), 30 + HUGE_PAGES - 10);
        assert!(written().contains("nr_hugepages"), "{}", written());
        // another lab has reserved 7 meanwhile, and keeps them; a second release does nothing
        says(30 + HUGE_PAGES - 10 + 7, 10);
        for _ in 0..2 {
            let undo_commands = std::process::Command::new("sh")
                .args(["-c", GIVE_BACK])
                .args([&folder.path().join("huge-pages"), &all])
                .status();
            assert!(undo_commands.unwrap().success());
            assert_eq!(there(), 37);
        }
    }

    /// Output of VPP 26.10, without the colours.
    #[test]
    fn the_threads_that_forward_are_the_workers_or_the_main_one() {
        let head = "ID   Name   LWP  CPU  Sched   Loops  Epolls Sleeps FdWakeups WakeReq Wakeups\n";
        let main =
            " 0 vpp_main 32317   0 other (0)   88672  88673  88673         5       0       0\n";
        let worker =
            " 1 vpp_wk_0 32319   1 other (0) 5629456   5569     76         1       1       1\n";
        assert_eq!(forwarding(&format!("{head}{main}")), [32317]);
        assert_eq!(forwarding(&format!("{head}{main}{worker}")), [32319]);
    }

    #[test]
    fn its_files_are_all_in_its_folder() {
        let cpus = Cpus::choose(0, &[1], &[0]).unwrap();
        let text = startup(
            Path::new("/opt/vpp"),
            Path::new("/tmp/x"),
            &cpus,
            (HEAP, "2M"),
        );
        for file in [
            "cli-listen /tmp/x/cli.sock",
            "runtime-dir /tmp/x",
            "socket-name /tmp/x/stats.sock",
        ] {
            assert!(text.contains(file), "{text}");
        }
        assert!(text.contains("cpu { main-core 1 }"), "{text}");
        assert!(
            text.contains("main-heap-page-size 2M")
                && text.contains("buffers-per-numa 16384 page-size 2M"),
            "{text}"
        );
        let named = find(Some("/no/such/vpp")).unwrap_err().to_string();
        assert!(
            named.contains("`/no/such/vpp`, which program in [dut] names"),
            "{named}"
        );
    }
}
