//! `fwdlab throughput`: the throughput of RFC 2544 §26.1, by binary search, for one or more frame
//! sizes. Start with [`Throughput::run`].

use clap::Args;
use fwdlab_model::campaign::value::Period;
use fwdlab_model::campaign::{self, Draft, Procedure};
use fwdlab_model::units::FrameSize;

use super::Global;
use super::command;
use super::procedure::Arrangement;
use crate::exit_code::{Code, Usage};

/// Find the throughput of RFC 2544: the highest load without loss
///
/// The binary search of §26.1. The same test as `fwdlab rfc2544 --tests throughput`, for the
/// smallest frames unless --sizes is given. `fwdlab ndr` searches with several goals at once and
/// tolerates a noisy DUT (MLRsearch). Without --engine sim the DUT is this machine's kernel in
/// private namespaces, as for `quick`.
#[derive(Debug, Args)]
pub struct Throughput {
    /// Frame sizes in bytes, including the FCS [default: the smallest]
    #[arg(
        long,
        alias = "size",
        value_name = "BYTES,...",
        value_delimiter = ',',
        conflicts_with = "profile"
    )]
    sizes: Vec<FrameSize>,
    /// Use the durations and waits of the RFC
    #[arg(long)]
    full: bool,
    /// Duration of the trials that give results [default: 5s; with --full 60s]
    #[arg(long, value_name = "TIME")]
    trial: Option<Period>,
    /// Duration of the trials that guide the search [default: 1s; with --full 60s]
    #[arg(long, value_name = "TIME")]
    search: Option<Period>,
    /// Resolution in percent of the throughput
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5)]
    resolution: f64,
    /// Goals were an option of this command before `fwdlab ndr`
    #[arg(long, hide = true)]
    goals: Vec<String>,
    #[arg(long, hide = true)]
    goal: Vec<String>,
    #[command(flatten)]
    arrangement: Arrangement,
}

impl Throughput {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        self.arrangement.run(global, &self.draft()?)
    }

    /// Returns the campaign of the command.
    pub(super) fn draft(&self) -> anyhow::Result<Draft> {
        if !self.goals.is_empty() || !self.goal.is_empty() {
            return Err(Usage(
                "goals (NDR, PDR) belong to MLRsearch: fwdlab ndr --goals ndr,pdr; throughput is the binary search of RFC \
                 2544".into(),
            ).into());
        }
        self.arrangement.draft(
            "throughput",
            self.sizes.clone(),
            Procedure::Throughput(campaign::Rfc2544 {
                full: self.full,
                trial: self.trial,
                search: self.search,
                resolution: command::share("--resolution", self.resolution)?,
                ..campaign::Rfc2544::default()
            }),
        )
    }
}
