//! `fwdlab throughput`: the throughput of RFC 2544 §26.1, by binary search, for one or more frame
//! sizes. Start with [`Throughput::run`].

use clap::Args;
use fwdlab_model::campaign::value::{Period, Share};
use fwdlab_model::campaign::{self, Procedure};
use fwdlab_model::units::FrameSize;

use super::Global;
use super::procedure::{Arrangement, Measurement};
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
        let plan = self.measurement()?;
        self.arrangement.run(global, plan)
    }

    fn measurement(&self) -> Result<Measurement, Usage> {
        if !self.goals.is_empty() || !self.goal.is_empty() {
            return Err(Usage(
                "goals (NDR, PDR) belong to MLRsearch: fwdlab ndr --goals ndr,pdr; throughput is the binary search of RFC \
                 2544".into(),
            ));
        }
        let values = [
            ("full", self.full.into()),
            ("resolution", (self.resolution / 100.0).into()),
        ];
        Ok(Measurement {
            kind: "throughput",
            sizes: self.sizes.clone(),
            values: values
                .map(|(name, value): (&str, serde_json::Value)| (name.to_owned(), value))
                .into(),
            procedure: Procedure::Throughput(campaign::Rfc2544 {
                full: self.full,
                trial: self.trial,
                search: self.search,
                resolution: Share(self.resolution / 100.0),
                ..campaign::Rfc2544::default()
            }),
        })
    }
}
