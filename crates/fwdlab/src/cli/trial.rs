//! `fwdlab trial`: sends one load for some time, and reports what came back. Start with
//! [`Trial::run`].

use clap::Args;
use fwdlab_model::campaign::value::{Period, Rate};
use fwdlab_model::campaign::{self, Draft, Procedure};
use fwdlab_model::units::FrameSize;

use super::Global;
use super::procedure::Arrangement;
use crate::exit_code::Code;

/// Run one trial: one load, every frame accounted for
///
/// The smallest experiment. Without --engine sim the DUT is this machine's kernel in private
/// namespaces, as for `quick`.
#[derive(Debug, Args)]
pub struct Trial {
    /// Load: 1e6 (frames per second), 10kpps, 100Mbps (L1), 50% of --link [default: the largest]
    #[arg(long, value_name = "LOAD")]
    load: Option<Rate>,
    /// Frame size in bytes, including the FCS [default: the smallest]
    #[arg(long, value_name = "BYTES", conflicts_with = "profile")]
    size: Option<FrameSize>,
    /// Duration of the traffic
    #[arg(long = "for", value_name = "TIME", default_value_t = campaign::Trial::default().duration)]
    duration: Period,
    /// Count frames in intervals of this length
    #[arg(long, value_name = "TIME")]
    sample: Option<Period>,
    /// Measure the latency of frames
    #[arg(long, alias = "delays")]
    latency: bool,
    #[command(flatten)]
    arrangement: Arrangement,
}

impl Trial {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        self.arrangement.run(global, &self.draft()?)
    }

    /// Returns the campaign of the command.
    pub(super) fn draft(&self) -> anyhow::Result<Draft> {
        self.arrangement.draft(
            "trial",
            self.size.into_iter().collect(),
            Procedure::Trial(campaign::Trial {
                load: self.load,
                duration: self.duration,
                sample: self.sample,
                latency: self.latency,
            }),
        )
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::command;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        trial: Trial,
    }

    fn check(arguments: &[&str]) -> anyhow::Result<()> {
        let line = std::iter::once("trial").chain(arguments.iter().copied());
        let trial = Only::try_parse_from(line)?.trial;
        command::plan(&trial.draft()?).map(|_| ())
    }

    #[test]
    fn usage_errors_are_reported_before_any_action() {
        check(&["--engine", "sim", "--load", "1e6"]).unwrap();
        check(&[
            "--engine", "sim", "--max", "2e6", "--load", "1Mpps", "--for", "1s",
        ])
        .unwrap();
        for (arguments, words) in [
            (vec!["--dut", "capacity=1e6"], "--engine sim"),
            (vec!["--load", "50%"], "--link 1G"),
            (
                vec!["--load", "200%", "--link", "1G"],
                "the load: 200% is more than the emulated link 1 Gbit/s carries",
            ),
            (
                vec!["--load", "10%", "--max", "2Mpps", "--link", "1G"],
                "the load: 2Mpps is more than",
            ),
            (vec!["--link", "1"], "for example 1G"),
            (
                vec!["--engine", "sim", "--max", "1e6", "--load", "0"],
                "above 0",
            ),
            (
                vec![
                    "--engine", "sim", "--max", "1e6", "--load", "1", "--for", "1ms",
                ],
                "less than one frame",
            ),
            (vec!["--size", "63"], "64 to 16384"),
        ] {
            let error = format!("{:#}", check(&arguments).unwrap_err());
            assert!(error.contains(words), "{arguments:?}: {error}");
        }
    }
}
