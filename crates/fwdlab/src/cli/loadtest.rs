//! `fwdlab import loadtest`: imports load tests of TRex as one stored run, with the figures of
//! their public viewer.
//!
//! The store does the work; this module has the arguments. Start with [`Loadtest::run`].

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use fwdlab_model::loadtest::{Channel, FAIL_THRESHOLD, FAIL_THRESHOLDS};
use fwdlab_store::loadtest::{File, Options, import};
use serde_json::json;

use super::Global;
use super::run::{kept_in, page};
use super::run_screen::command_line;
use crate::exit_code::{Code, Usage};
use crate::output;

/// Load tests of TRex: ramps as trex-loadtest writes them
///
/// Every file and channel becomes a test case of one run: its seconds, the highest forwarding rate,
/// the rate at which lasting loss began, and its share of the line rate, as trex-loadtest-viz
/// computes them. Channel 0 is from port 0 to port 1, channel 1 from port 1 to port 0; a channel
/// without frames is omitted. The run contains the original files.
///
/// To write such files from a run: fwdlab report RUN --format loadtest.
#[derive(Debug, Args)]
pub struct Loadtest {
    /// The files; each test has the name of its file
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Title of the run
    #[arg(long, default_value = "Loadtest results")]
    title: String,
    /// Only these channels
    #[arg(long, value_name = "0|1", value_delimiter = ',', value_parser = channel)]
    only_channels: Vec<Channel>,
    /// Share of lost frames above which a second counts as failed: 0.0001 to 1
    #[arg(long, value_name = "RATIO", default_value_t = FAIL_THRESHOLD, value_parser = threshold)]
    fail_threshold: f64,
}

fn channel(text: &str) -> Result<Channel, String> {
    let known = Channel::ALL
        .into_iter()
        .find(|one| one.number().to_string() == text);
    known.ok_or_else(|| "channels are 0 and 1".to_owned())
}

fn threshold(text: &str) -> Result<f64, String> {
    let read: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    match FAIL_THRESHOLDS.contains(&read) {
        true => Ok(read),
        false => Err(format!(
            "it is not in {}..={}",
            FAIL_THRESHOLDS.start(),
            FAIL_THRESHOLDS.end()
        )),
    }
}

impl Loadtest {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let mut files = Vec::new();
        for path in &self.files {
            let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let file = File::new(&name, bytes).map_err(|reason| {
                Usage(format!(
                    "{} is not what trex-loadtest writes: {reason}",
                    path.display()
                ))
            })?;
            files.push(file);
        }
        let runs = global.runs_root()?;
        let options = Options {
            runs: &runs,
            title: &self.title,
            channels: &self.only_channels,
            fail_threshold: self.fail_threshold,
            tool_version: env!("CARGO_PKG_VERSION"),
            command_line: &command_line(),
            entropy: super::run::random_seed(),
        };
        let directory = import(&options, &files, &page)?;
        let stored = fwdlab_store::load(&directory)?;
        if global.json {
            output::json(&json!({ "run": stored.info.id, "files": files.len() }))?;
            return Ok(Code::Done);
        }
        if let Some(summary) = &stored.summary {
            let level = fwdlab_report::trust::level(Some(stored.state), Some(summary));
            output::answer(level, fwdlab_report::text::quick(&stored.info, summary));
        }
        output::lines(&kept_in(&directory));
        Ok(Code::Done)
    }
}
