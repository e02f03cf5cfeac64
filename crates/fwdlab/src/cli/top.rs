//! `fwdlab top`: a run on the full screen, live while it goes on, replayed when it is over.
//!
//! What is shown is `tui`'s. Start with [`Top::run`].

use std::io::IsTerminal;

use clap::Args;
use fwdlab_store::Follower;

use super::{Global, face};
use crate::exit_code::{Code, Usage};
use crate::output;
use crate::tui::app::Mode;
use crate::tui::theme::{Environment, Symbols, Theme};
use crate::tui::view::{Left, watch};

/// Watch a run on the full screen while it goes on, or replay a finished one
///
/// A run of another process can be paused, its test case skipped, and stopped from here; leaving the screen changes nothing about it.
/// docs/terminal.md has pictures and keys; ? shows the keys.
#[derive(Debug, Args)]
pub struct Top {
    /// Which run: an id, a unique prefix of it or of its last four characters, @1 for the latest
    #[arg(default_value = "@1")]
    run: String,
    /// Speed of a replay: 1x is as it was
    #[arg(long, value_name = "FACTOR", default_value = "1x", value_parser = speed)]
    speed: f64,
    /// What charts and frames are made of [default: by LANG and TERM]
    #[arg(long, value_enum)]
    symbols: Option<Symbols>,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.trim().trim_end_matches('x').parse() {
        Ok(factor) if (0.01..=1e6).contains(&factor) => Ok(factor),
        _ => Err("for example 10x for ten times as fast, or 0.5x".into()),
    }
}

impl Top {
    /// Runs it.
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
        let dir = face::find(global, Some(&self.run))?;
        let follower = Follower::open(&dir)?;
        let mode = match follower.is_running()? {
            true => Mode::Other,
            false => Mode::Replay,
        };
        let theme = Theme::choose(self.symbols, &Environment::of_process());
        if watch(&dir, mode, self.speed, theme, None)? == Left::RunGoesOn {
            output::note("the run goes on");
        }
        Ok(Code::Done)
    }
}
