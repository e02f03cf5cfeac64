//! `fwdlab ndr`: MLRsearch, which finds the highest loads at which a DUT meets goals, such as zero
//! loss. Start with [`Ndr::run`].

use clap::Args;
use fwdlab_model::campaign::value::{Pause, Period, Rate};
use fwdlab_model::campaign::{self, Draft, Procedure};
use fwdlab_model::units::FrameSize;

use super::Global;
use super::procedure::Arrangement;
use crate::exit_code::Code;

const GOALS: &str = "\
Goals: a trial is good when its loss ratio does not exceed `loss`; a load meets the \
goal when at most `exceed` of its trial time is bad, over `sum` of trial time.
  ndr      loss=0,exceed=0.5,initial=1s,final=1s,sum=21s,width=0.005: no-drop rate
  pdr      loss=0.005, otherwise as ndr: partial-drop rate
  rfc2544  loss=0,exceed=0,initial=1s,final=60s,sum=60s,width=0.005: RFC 2544 throughput
  tst009   loss=0,exceed=0.5,initial=60s,final=60s,sum=120s,width=0.005: ETSI TST009
  strict   loss=0,exceed=0.005, otherwise as ndr
A definition lists what differs from ndr, or from the preset it begins with: --goal pdr,width=0.01. \
Further keys: preceding=2 (coarser targets), expansion=2 (growth of steps), fail-fast=yes.

Simulated DUT (--engine sim --dut KEY=VALUE,...), in simulated time; one seed gives one result:";

/// Find the no-drop rate (NDR) and the partial-drop rate (PDR)
///
/// Finds, for several goals at once, the highest load that meets each goal, by MLRsearch (RFC
/// 9971). The binary search of RFC 2544 is `fwdlab throughput`. Without --engine sim the DUT is
/// this machine's kernel in private namespaces, as for `quick`.
#[derive(Debug, Args)]
#[command(after_long_help = after_help())]
pub struct Ndr {
    /// Goals: presets (ndr, pdr, rfc2544, tst009, strict), or definitions separated by `;`
    /// [default: ndr,pdr]
    #[arg(long, value_name = "GOALS")]
    goals: Vec<String>,
    /// One goal as a definition: loss=0,exceed=0.5,initial=1s,final=1s,sum=21s,width=0.005; may be
    /// repeated
    #[arg(long, value_name = "GOAL")]
    goal: Vec<String>,
    /// Smallest load: 9001 (frames per second), 10kpps, 100Mbps (L1), 1% of --link
    #[arg(long, value_name = "LOAD", default_value_t = campaign::Mlrsearch::default().min)]
    min: Rate,
    /// Duration of a first trial at the largest load whose result is not used; 0s for none
    #[arg(long, value_name = "TIME", default_value_t = campaign::Mlrsearch::default().warm_up)]
    warm_up: Pause,
    /// End the search when its trials have taken longer
    #[arg(long, value_name = "TIME", default_value_t = campaign::Mlrsearch::default().time_limit)]
    time_limit: Period,
    /// End a trial as soon as it is bad for every goal: the same search in less time [default: yes;
    /// on a simulated DUT no]
    #[arg(long, value_name = "yes|no", value_parser = ["yes", "no"], hide_possible_values = true)]
    early_end: Option<String>,
    /// Frame size in bytes, including the FCS [default: the smallest]
    #[arg(long, value_name = "BYTES", conflicts_with = "profile")]
    size: Option<FrameSize>,
    #[command(flatten)]
    on: Arrangement,
}

impl Ndr {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        self.on.run(global, &self.draft()?)
    }

    /// Returns the campaign of the command.
    pub(super) fn draft(&self) -> anyhow::Result<Draft> {
        let mut goals = self.goals.clone();
        goals.extend(self.goal.iter().cloned());
        let defaults = campaign::Mlrsearch::default();
        let search = campaign::Mlrsearch {
            goals: match goals.is_empty() {
                true => defaults.goals,
                false => goals,
            },
            min: self.min,
            warm_up: self.warm_up,
            time_limit: self.time_limit,
            early_end: self.early_end.as_deref().map(|typed| typed == "yes"),
        };
        self.on.draft(
            "ndr",
            self.size.into_iter().collect(),
            Procedure::Mlrsearch(search),
        )
    }
}

fn after_help() -> String {
    let keys = fwdlab_engine::sim::KEYS
        .map(|(key, example, meaning)| format!("\n  {:<21} {meaning}", format!("{key}={example}")));
    format!("{GOALS}{}", keys.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command;
    use clap::Parser;
    use fwdlab_lab::run::plan::Plan;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        ndr: Ndr,
    }

    fn parameters(arguments: &[&str]) -> anyhow::Result<Plan> {
        let line = std::iter::once("ndr").chain(arguments.iter().copied());
        let ndr = Only::try_parse_from(line)?.ndr;
        command::plan(&ndr.draft()?)
    }

    #[test]
    fn the_typed_goals_are_searched() {
        let p = parameters(&[
            "--engine",
            "sim",
            "--dut",
            "capacity=2e6,link=10Gbps",
            "--goals",
            "pdr;final=2s",
            "--goal",
            "loss=1%",
            "--min",
            "10kpps",
            "--seed",
            "7",
        ])
        .unwrap();
        let campaign = p.campaign();
        let Procedure::Mlrsearch(search) = &campaign.procedure else {
            panic!("{:?}", campaign.procedure);
        };
        assert_eq!(search.goals, ["pdr;final=2s", "loss=1%"]);
        assert_eq!(search.min.to_string(), "10000");
        assert_eq!((campaign.bed.max, p.dut().unwrap().seed), (None, 7));
        assert_eq!(campaign.cases.len(), 1);
    }

    #[test]
    fn usage_errors_are_reported_before_any_action() {
        let sim =
            |arguments: &[&'static str]| [&["--engine", "sim", "--max", "1e7"], arguments].concat();
        for (arguments, words) in [
            (sim(&["--min", "2e7"]), "below the largest"),
            (sim(&["--min", "1e7"]), "below the largest"),
            (sim(&["--min", "0"]), "above 0"),
            (sim(&["--min", "max"]), "min: give a load"),
            (sim(&["--min", "10"]), "below one frame"),
            (
                sim(&["--goals", "npr"]),
                "ndr, pdr, rfc2544, tst009, strict",
            ),
            (sim(&["--goals", ""]), "no goal"),
            (
                sim(&["--goal", "loss=0,final=60s,sum=30s"]),
                "shorter than one final trial",
            ),
            (sim(&["--goals", "ndr", "--goal", "loss=0"]), "twice"),
            (
                sim(&["--dut", "capcity=1"]),
                "character 1: there is no key `capcity`",
            ),
            (sim(&["--dut", "seed=1", "--seed", "2"]), "one of them"),
            (sim(&["--set", "true"]), "--engine sim"),
            (sim(&["--size", "63"]), "64 to 16384"),
            (sim(&["--flows", "0"]), "1 to 60000"),
            (sim(&["--time-limit", "0s"]), "above 0"),
            (sim(&["--warm-up", "5"]), "500ms"),
            (vec!["--max", "50%"], "--link 1G"),
            (vec!["--min", "1%"], "--link 1G"),
            (
                vec!["--max", "2Mpps", "--link", "1G"],
                "2Mpps is more than the emulated link 1 Gbit/s carries: 1488095",
            ),
            (
                vec!["--max", "120%", "--link", "1G"],
                "120% is more than the emulated link",
            ),
            (
                sim(&["--dut", "link=10G", "--link", "1G"]),
                "link= of the simulated DUT is 10G",
            ),
            (vec!["--dut", "capacity=1e6"], "--engine sim"),
            (vec!["--min", "10"], "below one frame"),
            (vec!["--goals", "width=0"], "never reached"),
        ] {
            let error = format!("{:#}", parameters(&arguments).err().unwrap());
            assert!(error.contains(words), "{arguments:?}: {error}");
        }
    }
}
