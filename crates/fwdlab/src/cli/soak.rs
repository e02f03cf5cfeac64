//! `fwdlab soak`: runs one load for a long time, or finds the load with a given, tiny average loss.
//! Start with [`Soak::run`].

use clap::Args;
use fwdlab_model::campaign::value::{Period, Rate, Share};
use fwdlab_model::campaign::{self, Procedure};
use fwdlab_model::link::LinkLoad;
use fwdlab_model::units::{FrameSize, Load};

use super::Global;
use super::procedure::{Arrangement, Measurement};
use crate::exit_code::{Code, Usage};

/// Offer one load for a long time, or find one with a tiny loss
///
/// With --load: loss, loss bursts, and the trend of the forwarding rate. Without (PLRsearch):
/// searches the load with an average loss ratio of --loss, for the whole time. Without --engine sim
/// the DUT is this machine's kernel in private namespaces, as for `quick`.
#[derive(Debug, Args)]
pub struct Soak {
    /// Load to hold, such as 1Mpps, or 50% of --link; commonly 95 % of the no-drop rate [default: search the critical load]
    #[arg(long, value_name = "LOAD")]
    load: Option<Rate>,
    /// Smallest load of the search
    #[arg(long, value_name = "LOAD", default_value_t = campaign::Plr::default().min)]
    min: Rate,
    /// Loss ratio: with --load, the largest that passes [default: 0]; without, the target of the search [default: 1e-7]
    #[arg(long, value_name = "RATIO")]
    loss: Option<f64>,
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
        let plan = self.measurement()?;
        self.arrangement.run(global, plan)
    }

    fn measurement(&self) -> Result<Measurement, Usage> {
        let share = |default: Share| match self.loss {
            // the procedure checks the ratio
            Some(loss) => Share(loss),
            None => default,
        };
        let (loss, procedure) = match self.load {
            Some(Rate(LinkLoad::Load(Load::Max))) => {
                return Err(Usage(
                    "--load: give a load such as 1Mpps; a soak at the largest load measures overload"
                        .into(),
                ));
            }
            Some(load) => {
                let loss = share(campaign::Soak::default().loss);
                let soak = campaign::Soak {
                    load: Some(load),
                    duration: self.duration,
                    loss,
                };
                (loss, Procedure::Soak(soak))
            }
            None => {
                let loss = share(campaign::Plr::default().loss);
                let plr = campaign::Plr {
                    min: self.min,
                    duration: self.duration,
                    loss,
                };
                (loss, Procedure::Plr(plr))
            }
        };
        let values = [
            (
                "duration_s".to_owned(),
                self.duration.0.as_secs_f64().into(),
            ),
            ("loss_ratio".to_owned(), loss.0.into()),
        ];
        Ok(Measurement {
            kind: "soak",
            sizes: self.size.into_iter().collect(),
            values: values.into(),
            procedure,
        })
    }
}
