//! `fwdlab top`: shows a run on the full screen, live while it is running, replayed afterwards.
//!
//! `tui` draws the screen. Start with [`Top::run`].

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use fwdlab_store::Follower;

use super::mirror::{Mirror, is_address};
use super::{Global, run_screen};
use crate::exit_code::{Code, Usage};
use crate::output::{self, Screen, Verbosity};
use crate::tui::app::Mode;
use crate::tui::theme::{Symbols, Theme};
use crate::tui::view::{ExitReason, watch};

/// Interval of the reads of the journal.
const LOOK: Duration = Duration::from_millis(200);

/// Watch a run on the full screen, or replay a finished one
///
/// You can pause and stop a run of another process here, or skip its test case; when you leave the
/// screen, the run continues. docs/reference/terminal.md describes the screen; ? shows the keys.
#[derive(Debug, Args)]
pub struct Top {
    /// Run: an id, a unique prefix of it or of its last four characters, @1 for the latest; or the
    /// address of a dashboard or of a run's page there; append #token=TOKEN, or set FWDLAB_TOKEN,
    /// to steer the run
    #[arg(default_value = "@1", value_name = "RUN|URL")]
    run: String,
    /// Speed of a replay; 1x is the speed of the run
    #[arg(long, value_name = "FACTOR", default_value = "1x", value_parser = speed)]
    speed: f64,
    /// Characters for charts and borders [default: by LANG and TERM]
    #[arg(long, value_enum)]
    symbols: Option<Symbols>,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.trim().trim_end_matches('x').parse() {
        Ok(factor) if (0.01..=1e6).contains(&factor) => Ok(factor),
        _ => Err("for example 10x for ten times as fast, or 0.5x".into()),
    }
}

/// For terminals that cannot draw: prints a line per event until the run is over, then its result.
fn lines(mut follower: Follower, dir: &Path) -> anyhow::Result<Code> {
    let mut screen = Screen::new(Verbosity::Verbose);
    loop {
        // checked before the last read, so that no event is missed
        let is_running = follower.is_running()?;
        let events = follower.poll()?;
        events
            .iter()
            .for_each(|followed| screen.show(&followed.event));
        match (events.is_empty(), is_running) {
            (false, _) => {}
            (true, true) => std::thread::sleep(LOOK),
            (true, false) => break,
        }
    }
    run_screen::show(dir)?;
    Ok(Code::Done)
}

impl Top {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        if global.json
            || global.json_stream
            || !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal())
        {
            return Err(Usage(
                "top needs a terminal; without one: fwdlab runs show RUN prints the result, and tail -f RUN/events.jsonl follows what happens"
                    .into(),
            )
            .into());
        }
        // copied as long as the screen is open
        let mirror = match is_address(&self.run) {
            true => Some(Mirror::open(&self.run)?),
            false => None,
        };
        let dir = match &mirror {
            Some(mirror) => mirror.dir().to_owned(),
            None => run_screen::find(global, Some(&self.run))?,
        };
        let follower = Follower::open(&dir)?;
        let is_live = match &mirror {
            Some(mirror) => mirror.is_live,
            None => follower.is_running()?,
        };
        let mode = match is_live {
            true => Mode::Other,
            false => Mode::Replay,
        };
        if output::is_dumb() {
            return lines(follower, &dir);
        }
        let theme = Theme::choose(self.symbols);
        if watch(&dir, mode, self.speed, theme, &global.screen, None)? == ExitReason::RunGoesOn {
            output::note("the run continues");
        }
        Ok(Code::Done)
    }
}
