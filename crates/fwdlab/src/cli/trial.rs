//! `fwdlab trial`: one load for some time, and what came back.

use std::time::Duration;

use clap::Args;
use measure::procedure::Single;
use model::procedure::{Purpose, Question, Tagging};
use model::units::{FrameSize, Load, parse_duration};

use super::Global;
use super::procedure::{Arrangement, Plan, ns, only};
use super::throughput::load;
use crate::exit_code::Code;

/// Make one trial: one load for some time, every frame accounted for
///
/// The smallest experiment. Without --engine sim the DUT is this machine's kernel in private namespaces, as for `quick`.
#[derive(Debug, Args)]
pub struct Trial {
    /// Load: 1e6 (frames per second), 10kpps, 100Mbps (L1) [default: the largest]
    #[arg(long, value_name = "LOAD", value_parser = load)]
    load: Option<Load>,
    /// Frame size in bytes, FCS counted [default: the smallest]
    #[arg(long, value_name = "BYTES", conflicts_with = "profile")]
    size: Option<FrameSize>,
    /// How long frames are sent
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    duration: Duration,
    /// Count frames in intervals of this length
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    sample: Option<Duration>,
    /// Measure the delay of frames
    #[arg(long)]
    delays: bool,
    #[command(flatten)]
    arrangement: Arrangement,
}

impl Trial {
    /// Runs it.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let plan = self.plan();
        self.arrangement.run(global, plan)
    }

    fn plan(&self) -> Plan {
        let (asked, duration) = (self.load, ns(self.duration));
        let (sample, delays) = (self.sample.map(ns), self.delays);
        let values = [("duration_s".to_owned(), self.duration.as_secs_f64().into())];
        Plan {
            kind: "trial",
            bursts: false,
            sizes: self.size.into_iter().collect(),
            values: values.into(),
            make: Box::new(move |limits| {
                let limit = only(limits)?;
                let load = asked.and_then(|load| load.pps(limit.mean));
                let load = load.unwrap_or(limit.max_load_pps);
                Ok(Box::new(Single::new(Question {
                    sample_ns: sample,
                    tagging: delays.then_some(Tagging {
                        from_ns: 0,
                        until_ns: duration,
                        frames: 10_000,
                    }),
                    ..Question::constant(
                        limit.frame_size,
                        load,
                        duration,
                        Purpose::Measure,
                        "as asked for",
                    )
                })?))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        trial: Trial,
    }

    fn check(arguments: &[&str]) -> anyhow::Result<()> {
        let line = std::iter::once("trial").chain(arguments.iter().copied());
        let trial = Only::try_parse_from(line)?.trial;
        trial.arrangement.parameters(trial.plan(), true).map(|_| ())
    }

    #[test]
    fn wrong_use_is_told_before_anything_happens() {
        check(&["--engine", "sim", "--load", "1e6"]).unwrap_err();
        check(&[
            "--engine", "sim", "--max", "2e6", "--load", "1Mpps", "--for", "1s",
        ])
        .unwrap();
        for (arguments, words) in [
            (vec!["--engine", "sim"], "--max"),
            (vec!["--dut", "capacity=1e6"], "--engine sim"),
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
            (vec!["--size", "63"], "64 to 1518"),
        ] {
            let error = format!("{:#}", check(&arguments).unwrap_err());
            assert!(error.contains(words), "{arguments:?}: {error}");
        }
    }
}
