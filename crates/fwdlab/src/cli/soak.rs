//! `fwdlab soak`: one load for long, or the load whose average loss is a given tiny share.

use std::time::Duration;

use clap::Args;
use measure::{plr, soak};
use model::units::{FrameSize, Load, parse_duration};

use super::Global;
use super::procedure::{Arrangement, Plan, ns, only};
use super::throughput::load;
use crate::exit_code::{Code, Usage};

/// Offer one load for long and watch it, or find the load whose average loss is a tiny share (PLRsearch)
///
/// With --load: loss, its bursts, and the trend of the forwarding rate. Without: trials for the whole time that find the load with an
/// average loss ratio of --loss. Without --engine sim the DUT is this machine's kernel in private namespaces, as for `quick`.
#[derive(Debug, Args)]
pub struct Soak {
    /// Load to hold; 95 % of the no-drop rate by custom [default: search the critical load]
    #[arg(long, value_name = "LOAD", value_parser = load)]
    load: Option<Load>,
    /// Smallest load of the search
    #[arg(long, value_name = "LOAD", default_value = "9001", value_parser = load)]
    min: Load,
    /// Loss ratio: with --load the largest that passes [default: 0], without the one that is sought [default: 1e-7]
    #[arg(long, value_name = "RATIO")]
    loss: Option<f64>,
    /// Frame size in bytes, FCS counted [default: the smallest]
    #[arg(long, value_name = "BYTES", conflicts_with = "profile")]
    size: Option<FrameSize>,
    /// How long
    #[arg(long = "for", value_name = "TIME", default_value = "30min", value_parser = parse_duration)]
    duration: Duration,
    #[command(flatten)]
    arrangement: Arrangement,
}

impl Soak {
    /// Runs it.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let plan = self.plan()?;
        self.arrangement.run(global, plan)
    }

    fn plan(&self) -> Result<Plan, Usage> {
        let (asked, min, duration_ns) = (self.load, self.min, ns(self.duration));
        let loss = self
            .loss
            .unwrap_or(if asked.is_some() { 0.0 } else { 1e-7 });
        if asked.is_some_and(|load| matches!(load, Load::Max)) {
            return Err(Usage(
                "--load: say a load such as 1Mpps; a soak at the largest load measures overload"
                    .into(),
            ));
        }
        let seed = self.arrangement.chosen_seed();
        let values = [
            ("duration_s".to_owned(), self.duration.as_secs_f64().into()),
            ("loss_ratio".to_owned(), loss.into()),
        ];
        Ok(Plan {
            kind: "soak",
            bursts: false,
            sizes: self.size.into_iter().collect(),
            values: values.into(),
            make: Box::new(move |limits| {
                let limit = only(limits)?;
                let size = limit.frame_size;
                if let Some(load_pps) = asked.and_then(|load| load.pps(limit.mean)) {
                    return Ok(Box::new(soak::Soak::new(soak::Parameters {
                        duration_ns,
                        loss_ratio_goal: loss,
                        ..soak::Parameters::standard(size, load_pps)
                    })?));
                }
                let min = min
                    .pps(limit.mean)
                    .ok_or("--min: say a load such as 9001 or 10kpps")?;
                Ok(Box::new(plr::Plr::new(plr::Parameters {
                    duration_ns,
                    loss_ratio: loss,
                    ..plr::Parameters::standard(size, min, limit.max_load_pps, seed)
                })?))
            }),
        })
    }
}
