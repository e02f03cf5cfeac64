//! `fwdlab ramp`: a load that rises slowly, and where loss begins.

use std::time::Duration;

use clap::Args;
use measure::ramp;
use model::units::{FrameSize, Load, parse_duration};

use super::Global;
use super::procedure::{Arrangement, Plan, ns, only};
use super::throughput::load;
use crate::exit_code::Code;

/// Raise the load slowly and show where loss begins, where the output flattens, whether it collapses
///
/// Warm-up, ramp, hold. Not a throughput in the sense of RFC 2544. Without --engine sim the DUT is this machine's kernel in private
/// namespaces, as for `quick`.
#[derive(Debug, Args)]
pub struct Ramp {
    /// Load at the end of the ramp [default: the largest]
    #[arg(long, value_name = "LOAD", value_parser = load)]
    target: Option<Load>,
    /// Frame size in bytes, FCS counted [default: the smallest]
    #[arg(long, value_name = "BYTES", conflicts_with = "profile")]
    size: Option<FrameSize>,
    /// How long the load rises
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = parse_duration)]
    ramp: Duration,
    /// How long the warm-up lasts
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    warm_up: Duration,
    /// How long the load stays at the target
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    hold: Duration,
    /// Ramp down again and find the edge a second time
    #[arg(long)]
    up_down: bool,
    /// Loss in percent from which on a sample counts as lossy
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1)]
    threshold: f64,
    /// Length of a sample
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    sample: Duration,
    #[command(flatten)]
    arrangement: Arrangement,
}

impl Ramp {
    /// Runs it.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let plan = self.plan();
        self.arrangement.run(global, plan)
    }

    fn plan(&self) -> Plan {
        let (asked, up_down, threshold) = (self.target, self.up_down, self.threshold / 100.0);
        let times = [self.warm_up, self.ramp, self.hold, self.sample].map(ns);
        let values = [
            ("warm_up_s", self.warm_up.as_secs_f64().into()),
            ("ramp_s", self.ramp.as_secs_f64().into()),
            ("hold_s", self.hold.as_secs_f64().into()),
            ("loss_threshold", threshold.into()),
            ("up_down", up_down.into()),
        ];
        Plan {
            kind: "ramp",
            bursts: false,
            sizes: self.size.into_iter().collect(),
            values: values.map(|(name, value)| (name.to_owned(), value)).into(),
            make: Box::new(move |limits| {
                let limit = only(limits)?;
                let target = asked.and_then(|load| load.pps(limit.mean));
                let target = target.unwrap_or(limit.max_load_pps);
                let [warm_up_ns, ramp_ns, hold_ns, sample_ns] = times;
                Ok(Box::new(ramp::Ramp::new(ramp::Parameters {
                    warm_up_ns,
                    ramp_ns,
                    hold_ns,
                    sample_ns,
                    up_down,
                    loss_threshold: threshold,
                    ..ramp::Parameters::standard(limit.frame_size, target)
                })?))
            }),
        }
    }
}
