//! Shows a run from its journal, while another process carries it out or afterwards: passes events,
//! keys and time to the [`App`], and its requests to the run.
//!
//! Start with [`watch`].

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fwdlab_lab::run::THROUGH;
use fwdlab_lab::run::flame::SAMPLES;
use fwdlab_model::event::Request;
use fwdlab_model::stacks::Stacks;
use fwdlab_store::{Follower, StoreError, request};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};

use super::app::{App, Costly, Mode};
use super::keys::Action;
use super::panes;
use super::settings::Settings;
use super::terminal::Screen;
use super::theme::Theme;

/// How long to wait for keys before the next look at the journal.
const LOOK: Duration = Duration::from_millis(50);
/// How long to read old events before the first frame.
const HISTORY: Duration = Duration::from_millis(200);
/// Interval of the checks that a process still carries out the run.
const ALIVE: Duration = Duration::from_secs(1);

/// Why the screen was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// The run has finished, or the user left a replay.
    Over,
    /// The user left a run that is still running.
    RunGoesOn,
    /// The terminal was closed.
    Gone,
}

/// Signals to the process that shows a run.
struct Signals {
    interrupt: Arc<AtomicBool>,
    terminate: Arc<AtomicBool>,
    hangup: Arc<AtomicBool>,
    suspend: Arc<AtomicBool>,
    resume: Arc<AtomicBool>,
}

impl Signals {
    fn catch() -> std::io::Result<Signals> {
        let flag = |signal| {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, flag.clone())?;
            Ok::<_, std::io::Error>(flag)
        };
        Ok(Signals {
            interrupt: flag(SIGINT)?,
            terminate: flag(SIGTERM)?,
            hangup: flag(SIGHUP)?,
            suspend: flag(SIGTSTP)?,
            resume: flag(SIGCONT)?,
        })
    }
}

fn came(flag: &AtomicBool) -> bool {
    flag.swap(false, Ordering::AcqRel)
}

/// Shows the run in a directory until it has finished or the user leaves. `child` is the process of
/// the run, if it is our own.
pub fn watch(
    dir: &Path,
    mode: Mode,
    speed: f64,
    theme: Theme,
    settings: &Settings,
    mut child: Option<&mut Child>,
) -> anyhow::Result<ExitReason> {
    let mut follower = Follower::open(dir)?;
    let signals = Signals::catch()?;
    let mut app = App::new(mode, speed, settings.clone());
    let mut screen = Screen::open()?;
    let mut last = Instant::now();
    let mut looked = Instant::now();
    loop {
        // checked before the last read, so that no event is missed
        let is_over = match &mut child {
            Some(child) => child.try_wait()?.is_some(),
            None => false,
        };
        let started = Instant::now();
        loop {
            let events = follower.poll()?;
            if events.is_empty() {
                break;
            }
            events
                .iter()
                .for_each(|followed| app.event(&followed.event));
            // a replay starts when all events are loaded
            if mode != Mode::Replay && started.elapsed() > HISTORY && !is_over {
                break;
            }
        }
        if is_over {
            return Ok(ExitReason::Over);
        }
        if mode == Mode::Other && app.is_steered() && looked.elapsed() > ALIVE {
            looked = Instant::now();
            if !follower.is_running()? && follower.poll()?.is_empty() {
                app.lost();
            }
        }
        app.pass(last.elapsed().as_secs_f64());
        last = Instant::now();
        let key = screen.typed(LOOK);
        let mut at_once = key.is_some();
        let mut action = key.map_or(Action::Nothing, |key| app.key(key));
        if came(&signals.hangup) || screen.is_gone() {
            return Ok(ExitReason::Gone);
        }
        if came(&signals.interrupt) {
            action = app.interrupt();
        }
        if came(&signals.terminate) {
            match mode {
                Mode::Own => action = Action::Stop,
                _ => return Ok(ExitReason::RunGoesOn),
            }
        }
        if came(&signals.suspend) {
            action = Action::Suspend;
        }
        if came(&signals.resume) {
            at_once = true;
        }
        match action {
            Action::Nothing => {}
            Action::Ask(what) => ask(dir, what, &mut app),
            Action::Stop => match &child {
                Some(child) => {
                    // the child is not reaped yet, so its id cannot belong to another process
                    let _ = kill_process(Pid::from_child(child), Signal::INT);
                }
                None => ask(dir, Request::Stop, &mut app),
            },
            Action::Profile(case) => app.profile(costly(dir, &case)),
            Action::Keep | Action::Leave => {
                let words = (action == Action::Keep).then(|| screen.words());
                // restore the terminal first, then print the text on it
                drop(screen);
                if let Some(words) = words {
                    crate::output::result(&words);
                }
                return Ok(match app.is_steered() {
                    true => ExitReason::RunGoesOn,
                    false => ExitReason::Over,
                });
            }
            Action::Suspend => {
                screen.suspend()?;
                (last, at_once) = (Instant::now(), true);
                came(&signals.resume);
            }
        }
        screen.draw(at_once, |frame| panes::draw(frame, &app, theme));
    }
}

/// Sends a request to the run; shows an error on the screen.
fn ask(dir: &Path, what: Request, app: &mut App) {
    match request(dir, what) {
        Ok(()) => {}
        Err(error @ StoreError::NotRunning { .. }) => app.note(&error.to_string()),
        Err(error) => app.note(&format!("cannot steer the run: {error}")),
    }
}

/// The number of functions shown.
const SHOWN: usize = 16;

/// Returns the functions with the largest shares of their own in a test case's profile; empty if no
/// profile is stored.
fn costly(dir: &Path, case: &str) -> Vec<Costly> {
    let kept = |boot: u32, file: &str| {
        let text = std::fs::read_to_string(fwdlab_store::raw_path(dir, case, boot, file)).ok()?;
        text.parse::<Stacks>().ok()
    };
    let Some(stacks) = kept(0, SAMPLES).or_else(|| kept(1, THROUGH)) else {
        return Vec::new();
    };
    let mut all: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (path, count) in stacks.paths() {
        let share = count as f64 / stacks.total().max(1) as f64;
        let mut names: Vec<&str> = path.split(';').collect();
        if let Some(last) = names.last() {
            all.entry(last).or_default().0 += share;
        }
        // count each function once, even if it is recursive
        names.sort_unstable();
        names.dedup();
        for name in names {
            all.entry(name).or_default().1 += share;
        }
    }
    let mut costly: Vec<Costly> = all
        .into_iter()
        .map(|(name, (itself, with_all))| Costly {
            name: crate::output::harmless(name).into_owned(),
            itself,
            with_all,
        })
        .collect();
    costly.sort_by(|a, b| b.itself.total_cmp(&a.itself));
    costly.truncate(SHOWN);
    costly
}
