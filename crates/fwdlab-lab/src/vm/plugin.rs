//! Compiles the plugin with which QEMU's emulator counts instructions by call path, and caches the
//! result.
//!
//! `plugin/stacks.c` describes what the plugin does, and how a guest marks the beginning and end of
//! sections; it has its own licence. `fwdlab_model::stacks` interprets its results. Runs no
//! emulator. Start with [`build`], then [`argument`] and [`section`].

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use fwdlab_model::stacks::Stacks;
use sha2::{Digest, Sha256};

const SOURCE: &str = include_str!("../../plugin/stacks.c");
const COMPILER: &str = "cc";
const OPTIONS: [&str; 5] = ["-shared", "-fPIC", "-O2", "-w", "-fvisibility=hidden"];

/// Why there is no plugin. Everything but profiles works without it.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// There is no compiler, or it does not run.
    #[error(
        "cannot run {compiler}: {source}. It compiles the plugin that attributes instructions to functions; everything else works without \
         it. For profiles, install a C compiler: apt-get install gcc libc6-dev"
    )]
    NoCompiler {
        /// What was tried.
        compiler: String,
        /// The answer of the system.
        source: io::Error,
    },
    /// The compiler refused.
    #[error(
        "{compiler} cannot compile the plugin that attributes instructions to functions; everything else works without it. Its output: \
         {said}. If a header is missing: apt-get install libc6-dev"
    )]
    Refused {
        /// What was tried.
        compiler: String,
        /// Its last output.
        said: String,
    },
    /// The cache cannot be used.
    #[error("cannot {action}: {source}. No profiles without it; everything else works")]
    Cache {
        /// What was tried, and on what.
        action: String,
        /// The answer of the system.
        source: io::Error,
    },
    /// The output of the plugin is not valid.
    #[error("the profile {path} cannot be used: {reason}")]
    Profile {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// Returns the plugin as a file that QEMU can load; compiles it unless the cache has it from the
/// same source, options and compiler.
///
/// Several processes may do this at once: a file gets its name when it is complete, and the last
/// one replaces it by an equal one.
///
/// # Errors
/// There is no compiler, it refuses, or the cache cannot be written.
pub fn build(cache: &Path) -> Result<PathBuf, PluginError> {
    build_with(COMPILER, cache)
}

/// Returns the value of `-plugin` with which sections are written to the existing directory
/// `sections`, and functions get their names from the file `symbols`: a copy of the guest's
/// `/proc/kallsyms`, written before the guest begins a section.
pub fn argument(plugin: &Path, sections: &Path, symbols: &Path) -> OsString {
    let mut text = Vec::new();
    for (before, path) in [("", plugin), (",out=", sections), (",symbols=", symbols)] {
        text.extend(before.bytes());
        for &byte in path.as_os_str().as_bytes() {
            text.push(byte);
            if byte == b',' {
                // a single comma would begin the next option
                text.push(byte);
            }
        }
    }
    OsString::from_vec(text)
}

/// Returns the guest's symbols with names for eBPF programs that do not change with their code:
/// without the tag in `bpf_prog_668b86b7a364f51f_look`.
pub fn symbols(kallsyms: &[u8]) -> String {
    const PROGRAM: &str = "bpf_prog_";
    let text = String::from_utf8_lossy(kallsyms);
    let line = |line: &str| -> Option<String> {
        let (before, name) = line.split_once(PROGRAM)?;
        let (tag, name) = name.split_once('_')?;
        let is_tag = tag.len() == 16 && tag.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_tag.then(|| format!("{before}{PROGRAM}{name}"))
    };
    let lines = text
        .lines()
        .map(|own| line(own).unwrap_or(own.to_owned()) + "\n");
    lines.collect()
}

/// Returns the counts of a section, numbered from 0; `None` if it has not ended.
///
/// # Errors
/// The files cannot be read, or the sum of the paths differs from the section's separate count of
/// instructions.
pub fn section(sections: &Path, number: u32) -> Result<Option<Stacks>, PluginError> {
    let path = sections.join(format!("section-{number}.folded"));
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(failed(|| format!("read {}", path.display())))
    };
    // written last
    if !path.exists() {
        return Ok(None);
    }
    let (folded, total) = (read(&path)?, read(&path.with_extension("total"))?);
    let wrong = |cause: String| PluginError::Profile {
        path: path.clone(),
        reason: cause,
    };
    let stacks: Stacks = folded.parse().map_err(|e| wrong(format!("{e}")))?;
    match total.trim().parse::<u64>() {
        Ok(total) if total == stacks.total() => Ok(Some(stacks)),
        _ => Err(wrong(format!(
            "its paths have {} instructions, the section had {}",
            stacks.total(),
            total.trim()
        ))),
    }
}

fn build_with(compiler: &str, cache: &Path) -> Result<PathBuf, PluginError> {
    let version = run(compiler, &["--version"], "")?;
    let mut hash = Sha256::new();
    for part in [SOURCE.as_bytes(), &version.stdout]
        .into_iter()
        .chain(OPTIONS.map(str::as_bytes))
    {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let name: String = (hash.finalize().iter().take(8))
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let path = cache.join(format!("stacks-{name}.so"));
    if path.is_file() {
        return Ok(path);
    }
    std::fs::create_dir_all(cache)
        .map_err(failed(|| format!("create the folder {}", cache.display())))?;
    let draft = Draft::draft_in(&path);
    let output = draft.0.to_string_lossy().into_owned();
    let mut arguments = OPTIONS.to_vec();
    arguments.extend(["-o", &output, "-x", "c", "-"]);
    let done = run(compiler, &arguments, SOURCE)?;
    if !done.status.success() {
        return Err(PluginError::Refused {
            compiler: compiler.to_owned(),
            said: last_words(&done.stderr),
        });
    }
    std::fs::rename(&draft.0, &path).map_err(failed(|| format!("write {}", path.display())))?;
    Ok(path)
}

/// A file without its final name; removed unless it gets that.
struct Draft(PathBuf);

impl Draft {
    fn draft_in(path: &Path) -> Draft {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        Draft(path.with_extension(format!("{}-{next}.new", std::process::id())))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // fails if it was renamed, or never written: then there is nothing to remove
        std::fs::remove_file(&self.0).ok();
    }
}

fn failed(operation: impl FnOnce() -> String) -> impl FnOnce(io::Error) -> PluginError {
    move |source| PluginError::Cache {
        action: operation(),
        source,
    }
}

fn run(compiler: &str, arguments: &[&str], input: &str) -> Result<Output, PluginError> {
    let started = Command::new(compiler)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let wrong = |source| PluginError::NoCompiler {
        compiler: compiler.to_owned(),
        source,
    };
    let mut child = started.map_err(wrong)?;
    if let Some(mut stdin) = child.stdin.take() {
        // a compiler that does not read all of its input reports why
        stdin.write_all(input.as_bytes()).ok();
    }
    child.wait_with_output().map_err(wrong)
}

/// Returns the first errors, in one line.
fn last_words(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let mut lines: Vec<&str> = text.lines().filter(|line| line.contains("error")).collect();
    if lines.is_empty() {
        lines = text.lines().collect();
    }
    lines.truncate(3);
    match lines.is_empty() {
        true => "nothing".to_owned(),
        false => lines.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the plugin, or prints why this machine cannot compile it.
    fn built(test: &str, cache: &Path) -> Option<PathBuf> {
        match build(cache) {
            Ok(path) => Some(path),
            Err(PluginError::NoCompiler { .. }) => {
                println!("SKIPPED: {test}: no C compiler");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn names_of_programs_do_not_change_with_their_code() {
        let from = "ffffffff81000000 T ip_rcv\nffffffffc0000000 t bpf_prog_668b86b7a364f51f_look\t[bpf]\n\
                    ffffffffc0000100 t bpf_prog_668b86b7a364f51f\t[bpf]\nffffffff81000100 t bpf_prog_select_runtime\n";
        let to = from.replace("668b86b7a364f51f_look", "look");
        assert_eq!(symbols(from.as_bytes()), to);
    }

    #[test]
    fn compiles_once() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("not/there/yet");
        let Some(path) = built("compiles_once", &folder) else {
            return;
        };
        let written = || std::fs::metadata(&path).unwrap().modified().unwrap();
        let first = written();
        assert_eq!(build(&folder).unwrap(), path);
        assert_eq!(written(), first);
        let files = std::fs::read_dir(&folder).unwrap().count();
        assert_eq!(files, 1, "nothing else is left");
    }

    #[test]
    fn several_compile_at_once() {
        let cache = tempfile::tempdir().unwrap();
        if built("several_compile_at_once", &cache.path().join("first")).is_none() {
            return;
        }
        let folder = cache.path().join("shared");
        let all = std::thread::scope(|scope| {
            let threads = [0; 3].map(|_| scope.spawn(|| build(&folder).unwrap()));
            threads.map(|thread| thread.join().unwrap())
        });
        assert!(all.iter().all(|path| *path == all[0]));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn missing_build_requirements_are_named() {
        let cache = tempfile::tempdir().unwrap();
        let error = build_with("no-such-compiler", cache.path()).unwrap_err();
        let words = error.to_string();
        assert!(words.contains("apt-get install gcc"), "{words}");
        assert!(words.contains("everything else works"), "{words}");
        // runs, but compiles nothing
        let error = build_with("false", cache.path()).unwrap_err();
        assert!(matches!(error, PluginError::Refused { .. }), "{error}");
        // a file instead of the directory
        let file = cache.path().join("file");
        std::fs::write(&file, "").unwrap();
        if let Err(error) = build(&file.join("cache")) {
            assert!(!matches!(error, PluginError::Refused { .. }), "{error}");
        }
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 1);
    }

    /// QEMU from version 9 on has another interface, and would not start.
    #[test]
    fn an_emulator_that_rejects_the_plugin_is_reported_before_boot() {
        const TEST: &str = "an_emulator_that_rejects_the_plugin_is_reported_before_boot";
        let folder = tempfile::tempdir().unwrap();
        let Some(good) = built(TEST, folder.path()) else {
            return;
        };
        let takes = crate::vm::machine::takes_plugin;
        match takes(&good) {
            Err(reason) if reason.contains("no program") => {
                println!("SKIPPED: {TEST}: no QEMU");
                return;
            }
            taken => taken.unwrap(),
        }
        let other = folder.path().join("other.so");
        let output = other.to_string_lossy();
        let arguments = ["-shared", "-fPIC", "-o", &output, "-x", "c", "-"];
        let source = "__attribute__((visibility(\"default\"))) int qemu_plugin_version = 99;";
        assert!(run(COMPILER, &arguments, source).unwrap().status.success());
        let reason = takes(&other).unwrap_err();
        assert!(
            reason.contains("does not load the plugin") && reason.contains("version"),
            "{reason}"
        );
    }

    /// A guest of which every instruction is known, and what the emulator needs to run it with the
    /// plugin.
    struct Bare {
        folder: tempfile::TempDir,
        plugin: PathBuf,
        /// The address at which its kernel begins, hexadecimal.
        kernel: String,
    }

    impl Bare {
        /// Returns `None` if this machine lacks something; then the test is skipped, which is
        /// printed.
        fn new(test: &str) -> Option<Bare> {
            // with a comma, which the emulator could misinterpret
            let folder = tempfile::Builder::new().prefix("a,b").tempdir().unwrap();
            let skip = |reason: String| {
                println!("SKIPPED: {test}: {reason}");
                None
            };
            let plugin = built(test, folder.path())?;
            if Command::new("qemu-system-x86_64")
                .arg("--version")
                .output()
                .is_err()
            {
                return skip("no qemu-system-x86_64".into());
            }
            let source = folder.path().join("bare.S");
            let program = folder.path().join("bare.elf");
            std::fs::write(&source, include_str!("bare.S")).unwrap();
            let options =
                "-m32 -nostdlib -static -no-pie -Wl,-Ttext=0x100000,-e,start,--build-id=none";
            let linked = Command::new(COMPILER)
                .args(options.split(' '))
                .arg("-o")
                .args([&program, &source])
                .output()
                .unwrap();
            if !linked.status.success() {
                return skip(format!(
                    "nothing for 32 bits: {}",
                    last_words(&linked.stderr)
                ));
            }
            let Ok(symbols) = Command::new("nm").arg(&program).output() else {
                return skip("no nm".into());
            };
            let symbols = String::from_utf8(symbols.stdout).unwrap();
            std::fs::write(folder.path().join("symbols"), &symbols).unwrap();
            let start = symbols
                .lines()
                .find_map(|line| line.strip_suffix(" T start"));
            Some(Bare {
                kernel: start.unwrap().to_owned(),
                folder,
                plugin,
            })
        }

        fn at(&self, name: &str) -> String {
            self.folder.path().join(name).to_string_lossy().into_owned()
        }

        fn read(&self, name: &str) -> String {
            std::fs::read_to_string(self.at(name)).expect(name)
        }

        /// Runs it with this file of symbols; returns the emulator's output, or `None` if it does
        /// not load the plugin.
        fn run(&self, test: &str, symbols: &str) -> Option<String> {
            let clock = "-accel tcg,thread=single -icount shift=0,sleep=off -smp 1 -m 32";
            let nothing = "-display none -nodefaults -no-reboot -device isa-debug-exit,iobase=0xf4";
            let symbols = self.folder.path().join(symbols);
            let mut plugin = argument(&self.plugin, self.folder.path(), &symbols);
            plugin.push(format!(",kernel={}", self.kernel));
            let emulator = Command::new("timeout")
                .args("60 qemu-system-x86_64".split(' '))
                .args(clock.split(' ').chain(nothing.split(' ')))
                .args([
                    "-debugcon".to_owned(),
                    format!("file:{}", self.at("difference")),
                ])
                .args(["-kernel".to_owned(), self.at("bare.elf")])
                .arg("-plugin")
                .arg(plugin)
                .output()
                .unwrap();
            let printed = String::from_utf8_lossy(&emulator.stderr).into_owned();
            if printed.contains("API version") || printed.contains("-plugin") {
                println!(
                    "SKIPPED: {test}: this QEMU does not take it: {}",
                    printed.trim()
                );
                return None;
            }
            Some(printed)
        }
    }

    /// It takes a tenth of a second.
    #[test]
    fn counts_every_instruction_of_a_guest() {
        let test = "counts_every_instruction_of_a_guest";
        let Some(bare) = Bare::new(test) else {
            return;
        };
        let Some(output) = bare.run(test, "symbols") else {
            return;
        };
        assert_eq!(output, "");
        let folded = "\
asm_exc_divide_error 2
asm_sysvec_test 4
asm_sysvec_test;handler 3
asm_sysvec_test;handler;leaf 2
start;main 18
start;main;divide 3
start;main;elsewhere 5
start;main;elsewhere;leaf 2
start;main;fill 9
start;main;leaf 8
start;main;nested 2
start;main;nested;middle 4
start;main;nested;middle;leaf 2
start;main;tail 2
start;main;target 3
start;main;yield 3
task 2
task;back 3
task;leaf 2
";
        assert_eq!(bare.read("section-0.folded"), folded);
        assert_eq!(bare.read("section-0.total"), "79\n");
        let stacks = section(bare.folder.path(), 0).unwrap().expect("it ended");
        assert_eq!((stacks.total(), stacks.to_string().as_str()), (79, folded));
        // the time-stamp counter includes four instructions outside the section: it counts the
        // same, including the fault and the repetitions
        let difference = std::fs::read(bare.at("difference")).unwrap();
        assert_eq!(difference, (79u32 + 4).to_le_bytes());
        // the second section, without its pause: code outside the kernel has no callers
        assert_eq!(bare.read("section-1.folded"), "outside 2\nstart;main 3\n");
        assert_eq!(bare.read("section-1.total"), "5\n");
    }

    #[test]
    fn without_symbols_it_still_counts() {
        let test = "without_symbols_it_still_counts";
        let Some(bare) = Bare::new(test) else {
            return;
        };
        let Some(output) = bare.run(test, "nowhere") else {
            return;
        };
        assert!(output.contains("cannot read symbols from"), "{output}");
        // the fault counts: its entry has no known name
        assert_eq!(bare.read("section-0.total"), "80\n");
        let stacks = section(bare.folder.path(), 0).unwrap().expect("it ended");
        assert_eq!(stacks.total(), 80);
        assert!(
            stacks.paths().all(|(path, _)| path.contains("[unknown]")),
            "{stacks}"
        );
        assert!(
            section(bare.folder.path(), 2).unwrap().is_none(),
            "there are two"
        );
    }

    #[test]
    fn inconsistent_instruction_counts_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        assert!(section(folder.path(), 3).unwrap().is_none());
        write("section-3.folded", "a;b 1\na 2\n");
        assert!(section(folder.path(), 3).is_err(), "there is no total");
        write("section-3.total", "4\n");
        let error = section(folder.path(), 3).unwrap_err().to_string();
        assert!(
            error.contains("have 3 instructions, the section had 4"),
            "{error}"
        );
        write("section-3.total", "3\n");
        assert_eq!(
            section(folder.path(), 3).unwrap().map(|s| s.total()),
            Some(3)
        );
    }
}
