//! `fwdlab ramp`: raises the load slowly, to find where loss begins. Start with [`Ramp::run`].

use clap::Args;
use fwdlab_model::campaign::value::{Period, Rate};
use fwdlab_model::campaign::{self, Draft, Procedure};
use fwdlab_model::units::FrameSize;

use super::Global;
use super::command;
use super::procedure::Arrangement;
use crate::exit_code::Code;

/// Raise the load slowly, show where loss and collapse begin
///
/// Warm-up, ramp, hold: where loss begins, where the output flattens, whether it collapses. Not a
/// throughput in the sense of RFC 2544. Without --engine sim the DUT is this machine's kernel in
/// private namespaces, as for `quick`.
#[derive(Debug, Args)]
pub struct Ramp {
    /// Load at the end of the ramp, such as 1Mpps, or 50% of --link [default: the largest]
    #[arg(long, value_name = "LOAD")]
    target: Option<Rate>,
    /// Frame size in bytes, including the FCS [default: the smallest]
    #[arg(long, value_name = "BYTES", conflicts_with = "profile")]
    size: Option<FrameSize>,
    /// Duration of the rise
    #[arg(long, value_name = "TIME", default_value_t = campaign::Ramp::default().ramp)]
    ramp: Period,
    /// Duration of the warm-up
    #[arg(long, value_name = "TIME", default_value_t = campaign::Ramp::default().warm_up)]
    warm_up: Period,
    /// Duration at the target load
    #[arg(long, value_name = "TIME", default_value_t = campaign::Ramp::default().hold)]
    hold: Period,
    /// Ramp down again and find the onset of loss a second time
    #[arg(long)]
    up_down: bool,
    /// Loss in percent above which a sample counts as lossy
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1)]
    threshold: f64,
    /// Length of a sample
    #[arg(long, value_name = "TIME", default_value_t = campaign::Ramp::default().sample)]
    sample: Period,
    #[command(flatten)]
    arrangement: Arrangement,
}

impl Ramp {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        self.arrangement.run(global, &self.draft()?)
    }

    /// Returns the campaign of the command.
    pub(super) fn draft(&self) -> anyhow::Result<Draft> {
        let procedure = campaign::Ramp {
            target: self.target,
            ramp: self.ramp,
            warm_up: self.warm_up,
            hold: self.hold,
            up_down: self.up_down,
            threshold: command::share("--threshold", self.threshold)?,
            sample: self.sample,
        };
        self.arrangement.draft(
            "ramp",
            self.size.into_iter().collect(),
            Procedure::Ramp(procedure),
        )
    }
}
