//! `fwdlab run` on a terminal: another process, in a session of its own, runs the measurement, and
//! this process shows it like `fwdlab top`.
//!
//! So nothing that happens to the screen affects a trial: a stalled terminal, a closed one, or
//! `kill -9`. The other process is this program with the same arguments; its output goes to memory,
//! and this process prints it. Start with [`run`].

use std::fs::File;
use std::io::IsTerminal;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::Global;
use super::run::kept_in;
use crate::exit_code::Code;
use crate::output::{self, Verbosity};
use crate::tui::app::Mode;
use crate::tui::theme::{Symbols, Theme};
use crate::tui::view::{ExitReason, watch};

/// Marks the other process. Users do not type it.
pub const BEHIND: &str = "--behind-a-screen";

/// Do not open the full screen for a run that ends within this time.
const PATIENCE: Duration = Duration::from_millis(300);
const LOOK: Duration = Duration::from_millis(20);
/// Limit of the messages of a run that are printed.
const SAID_BYTES: u64 = 64 * 1024;

/// Returns true if a user can watch the screen and no option excludes it.
pub fn wants_screen(global: &Global) -> bool {
    let plain = global.json || global.json_stream || global.verbosity() != Verbosity::Normal;
    !plain
        && !output::is_dumb()
        && std::io::stdin().is_terminal()
        && std::io::stdout().is_terminal()
}

/// Returns the command line as the user typed it.
pub fn command_line() -> Vec<String> {
    std::env::args_os()
        .filter(|argument| argument != BEHIND)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect()
}

/// Starts the measurement in another process and shows it; if it `waits` for its test bed, prints
/// its messages until the run begins.
pub fn run(global: &Global, symbols: Option<Symbols>, waits: bool) -> anyhow::Result<Code> {
    let memory = |name| memfd_create(name, MemfdFlags::CLOEXEC).map(File::from);
    let (out, err) = (memory("answer")?, memory("errors")?);
    let mut child = start_process(&out, &err)?;
    let started = Instant::now();
    let signals = Signals::install_handlers()?;
    let mut messages = Messages { err, printed: 0 };
    let id = loop {
        if waits {
            messages.print()?;
        }
        let status = child.try_wait()?;
        if let Some(status) = status {
            break Err(status);
        }
        if let Some(id) = first_line(&out)?.filter(|_| started.elapsed() > PATIENCE) {
            break Ok(id);
        }
        signals.forward_signals(&child);
        std::thread::sleep(LOOK);
    };
    let id = match id {
        Ok(id) => id,
        Err(status) => return answer(global, first_line(&out)?.as_deref(), &mut messages, status),
    };
    let dir = fwdlab_store::resolve(&global.runs_roots()?, &id)?;
    let theme = Theme::choose(symbols);
    let left = watch(
        &dir,
        Mode::Own,
        1.0,
        theme,
        &global.screen,
        Some(&mut child),
    );
    match left {
        Ok(ExitReason::Over) => {}
        Ok(ExitReason::RunGoesOn) => {
            output::note(&format!(
                "{id} continues without this terminal\nsee it    fwdlab top {id}\nstop it   fwdlab top {id}, then q and s; or kill -INT {}",
                child.id()
            ));
            return Ok(Code::Done);
        }
        // the terminal is closed: there is no one to print to
        Ok(ExitReason::Gone) => return Ok(Code::Done),
        Err(error) => {
            output::note(&format!(
                "warning   the screen is gone: {error:#}. {id} continues: fwdlab top {id}"
            ));
            loop {
                if child.try_wait()?.is_some() {
                    break;
                }
                signals.forward_signals(&child);
                std::thread::sleep(LOOK);
            }
        }
    }
    let status = child.wait()?;
    answer(global, Some(&id), &mut messages, status)
}

/// Starts the other process with the arguments of this one.
fn start_process(out: &File, err: &File) -> anyhow::Result<Child> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let options = arguments.iter().position(|argument| argument == "--");
    let (before, after) = arguments.split_at(options.unwrap_or(arguments.len()));
    Command::new(std::env::current_exe()?)
        .args(before)
        .arg(BEHIND)
        .args(after)
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(err.try_clone()?)
        .spawn()
        .context("cannot start the process that measures")
}

/// Returns the first line of the output so far, if it is complete.
fn first_line(of: &File) -> anyhow::Result<Option<String>> {
    let mut bytes = [0; 512];
    let len = of.read_at(&mut bytes, 0)?;
    let text = String::from_utf8_lossy(&bytes[..len]).into_owned();
    Ok(text.split_once('\n').map(|(line, _)| line.to_owned()))
}

/// Prints the result of a run, if there is one, and its messages.
fn answer(
    global: &Global,
    id: Option<&str>,
    messages: &mut Messages,
    status: ExitStatus,
) -> anyhow::Result<Code> {
    if let Some(id) = id {
        let dir = fwdlab_store::resolve(&global.runs_roots()?, id)?;
        show(&dir)?;
    }
    messages.print()?;
    Code::for_status(status).with_context(|| format!("the process that measures ended by {status}"))
}

/// Messages of the other process.
struct Messages {
    err: File,
    /// Number of bytes that were printed.
    printed: u64,
}

impl Messages {
    /// Prints new messages.
    fn print(&mut self) -> anyhow::Result<()> {
        let len = self.err.metadata()?.len().min(SAID_BYTES);
        let mut new = vec![0; len.saturating_sub(self.printed) as usize];
        self.err.read_exact_at(&mut new, self.printed)?;
        self.printed = len;
        let new = String::from_utf8_lossy(&new);
        if !new.trim().is_empty() {
            output::note(new.trim_end());
        }
        Ok(())
    }
}

/// Prints the result of a run, if there is one.
pub fn show(dir: &Path) -> anyhow::Result<()> {
    let run = fwdlab_store::load(dir)?;
    if let Some(summary) = &run.summary {
        let level = fwdlab_report::trust::level(Some(run.state), Some(summary));
        output::answer(level, fwdlab_report::text::quick(&run.info, summary));
        output::lines(&kept_in(dir));
    }
    Ok(())
}

/// Signals before the screen opens, to be passed on to the measuring process.
struct Signals(Vec<(std::sync::Arc<std::sync::atomic::AtomicBool>, Signal)>);

impl Signals {
    fn install_handlers() -> std::io::Result<Signals> {
        let all = [
            (SIGINT, Signal::INT),
            (SIGTERM, Signal::TERM),
            (SIGHUP, Signal::HUP),
        ];
        let caught = all.into_iter().map(|(number, signal)| {
            let flag = std::sync::Arc::<std::sync::atomic::AtomicBool>::default();
            signal_hook::flag::register(number, flag.clone())?;
            Ok((flag, signal))
        });
        Ok(Signals(caught.collect::<std::io::Result<_>>()?))
    }

    fn forward_signals(&self, child: &Child) {
        for (flag, signal) in &self.0 {
            if flag.swap(false, std::sync::atomic::Ordering::AcqRel) {
                // the child is not reaped yet, so its id cannot belong to another process
                let _ = kill_process(Pid::from_child(child), *signal);
            }
        }
    }
}

/// Starts a new session, which receives no keys or hangups from the terminal.
pub fn leave_terminal() -> anyhow::Result<()> {
    rustix::process::setsid().context("cannot begin a session apart from the terminal")?;
    Ok(())
}

/// Returns the directory of a run: the named one, or the newest that is running, or the newest.
pub fn find(global: &Global, name: Option<&str>) -> anyhow::Result<PathBuf> {
    let name = name.unwrap_or("@1");
    Ok(fwdlab_store::resolve(&global.runs_roots()?, name)?)
}
