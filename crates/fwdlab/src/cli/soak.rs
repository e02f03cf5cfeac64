//! `fwdlab soak`: runs one load for a long time, or finds the load with a given, tiny average loss.
//! Start with [`Soak::run`].

use clap::Args;
use fwdlab_model::campaign::value::{Period, Rate, Share};
use fwdlab_model::campaign::{self, Draft, Procedure};
use fwdlab_model::link::LinkLoad;
use fwdlab_model::units::{FrameSize, Load};

use super::Global;
use super::procedure::Arrangement;
use crate::exit_code::{Code, Usage};

/// Offer one load for a long time, or find one with a tiny loss
///
/// With --load: loss, loss bursts, and the trend of the forwarding rate. Without (PLRsearch):
/// searches the load with an average loss ratio of --loss, for the whole time. Without --engine sim
/// the DUT is this machine's kernel in private namespaces, as for `quick`.
#[derive(Debug, Args)]
pub struct Soak {
    /// Load to hold, such as 1Mpps, or 50% of --link; commonly 95 % of the no-drop rate [default:
    /// search the critical load]
    #[arg(long, value_name = "LOAD")]
    load: Option<Rate>,
    /// Smallest load of the search
    #[arg(long, value_name = "LOAD", default_value_t = campaign::Plr::default().min)]
    min: Rate,
    /// Loss ratio: with --load, the largest that passes [default: 0]; without, the target of the
    /// search [default: 1e-7]
    #[arg(long, value_name = "RATIO")]
    loss: Option<Share>,
    /// Frame size in bytes, including the FCS [default: the smallest]
    #[arg(long, value_name = "BYTES", conflicts_with = "profile")]
    size: Option<FrameSize>,
    /// Duration
    #[arg(long = "for", value_name = "TIME", default_value_t = campaign::Soak::default().duration)]
    duration: Period,
    #[command(flatten)]
    arrangement: Arrangement,
}

impl Soak {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        self.arrangement.run(global, &self.draft()?)
    }

    /// Returns the campaign of the command.
    pub(super) fn draft(&self) -> anyhow::Result<Draft> {
        let procedure = match self.load {
            Some(Rate(LinkLoad::Load(Load::Max))) => {
                return Err(Usage(
                    "--load: give a load such as 1Mpps; a soak at the largest load measures overload"
                        .into(),
                ).into());
            }
            Some(load) => Procedure::Soak(campaign::Soak {
                load: Some(load),
                duration: self.duration,
                loss: self.loss.unwrap_or(campaign::Soak::default().loss),
            }),
            None => Procedure::Plr(campaign::Plr {
                min: self.min,
                duration: self.duration,
                loss: self.loss.unwrap_or(campaign::Plr::default().loss),
            }),
        };
        self.arrangement
            .draft("soak", self.size.into_iter().collect(), procedure)
    }
}
