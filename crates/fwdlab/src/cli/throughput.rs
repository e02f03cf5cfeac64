//! `fwdlab throughput`: the loads up to which a DUT meets goals, such as no loss at all.

use clap::Args;
use fwdlab_lab::run::search::{Parameters, check, largest_load};
use fwdlab_lab::user_namespace;
use fwdlab_measure::mlr::typed::{self, Named};
use fwdlab_model::campaign;
use fwdlab_model::campaign::value::{Pause, Period, Rate};
use fwdlab_model::result::Summary;
use fwdlab_model::units::FrameSize;

use super::Global;
use super::procedure::Arrangement;
use super::run;
use crate::exit_code::{Code, Usage};

const GOALS: &str = "\
Goals. A trial is good when it loses no larger share of its frames than `loss`; a load meets the \
goal when no larger share of its trial time than `exceed` is bad; `sum` of trial time decides.
  ndr      loss=0,exceed=0.5,initial=1s,final=1s,sum=21s,width=0.005: no-drop rate
  pdr      loss=0.005, otherwise as ndr: partial-drop rate
  rfc2544  loss=0,exceed=0,initial=1s,final=60s,sum=60s,width=0.005: RFC 2544 throughput
  tst009   loss=0,exceed=0.5,initial=60s,final=60s,sum=120s,width=0.005: ETSI TST009
  strict   loss=0,exceed=0.005, otherwise as ndr
A definition says what differs from ndr, or from the preset it begins with: --goal pdr,width=0.01. \
Further keys: preceding=2 (coarser targets), expansion=2 (growth of steps), fail-fast=yes.

Simulated DUT (--engine sim --dut KEY=VALUE,...), in simulated time; one seed gives one result:";

/// Search the throughput: up to which load the DUT meets goals such as no loss (NDR, PDR, RFC 2544; MLRsearch)
///
/// Finds, for several goals at once, the load at which each stops being met. Without --engine sim the DUT is this
/// machine's kernel in private namespaces, as for `quick`.
#[derive(Debug, Args)]
#[command(after_long_help = after_help())]
pub struct Throughput {
    /// Goals: presets (ndr, pdr, rfc2544, tst009, strict), or definitions parted by `;` [default: ndr,pdr]
    #[arg(long, value_name = "GOALS")]
    goals: Vec<String>,
    /// One goal as a definition: loss=0,exceed=0.5,initial=1s,final=1s,sum=21s,width=0.005; may be repeated
    #[arg(long, value_name = "GOAL")]
    goal: Vec<String>,
    /// Smallest load: 9001 (frames per second), 10kpps, 100Mbps (L1), 1% of --link
    #[arg(long, value_name = "LOAD", default_value_t = campaign::Mlrsearch::default().min)]
    min: Rate,
    /// A first trial at the largest load whose result is not used; 0s for none
    #[arg(long, value_name = "TIME", default_value_t = campaign::Mlrsearch::default().warm_up)]
    warm_up: Pause,
    /// End the search when its trials have taken longer
    #[arg(long, value_name = "TIME", default_value_t = campaign::Mlrsearch::default().time_limit)]
    time_limit: Period,
    /// End a trial as soon as it is bad for every goal: the same search in less time [default: yes; on a simulated DUT no]
    #[arg(long, value_name = "yes|no", value_parser = ["yes", "no"], hide_possible_values = true)]
    early_end: Option<String>,
    /// Frame size in bytes, FCS counted [default: the smallest]
    #[arg(long, value_name = "BYTES", conflicts_with = "profile")]
    size: Option<FrameSize>,
    #[command(flatten)]
    on: Arrangement,
}

impl Throughput {
    /// Runs it.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let privileged = user_namespace::is_root();
        let parameters = self.parameters(privileged)?;
        if !privileged && parameters.dut.is_none() {
            user_namespace::enter()?;
        }
        run::carry_out(
            global,
            0,
            |runs, control, listener| {
                fwdlab_lab::run::search::start(&parameters, runs, control, listener)
            },
            |outcome| {
                let result = fwdlab_report::text::quick(outcome.info, outcome.summary);
                match self.on.explain {
                    true => format!("{}\n{result}", fwdlab_report::text::explain(outcome.trials)),
                    false => result,
                }
            },
            |_| None,
            code,
        )
    }

    /// Everything that is wrong with the question is told here, before a run is made.
    fn parameters(&self, privileged: bool) -> anyhow::Result<Parameters> {
        let dut = self.on.dut()?;
        let line = self.on.line(dut.as_ref());
        let traffic = self.on.traffic.one_series(dut.is_some(), line)?;
        let common = self
            .on
            .common(self.size.as_slice(), traffic, dut.as_ref(), privileged)?;
        let size = common.mean_size();
        let parameters = Parameters {
            goals: self.goals()?,
            min_load_pps: (self.min.0)
                .on_line("the smallest load", size, line)
                .map_err(Usage)?
                .ok_or_else(|| Usage("--min: say a load such as 9001 or 10kpps".into()))?,
            max: self.on.max(),
            warm_up: self.warm_up.0,
            time_limit: self.time_limit.0,
            early_end: match self.early_end.as_deref() {
                Some(typed) => typed == "yes",
                None => dut.is_none(),
            },
            common,
            dut,
        };
        let Some(max) = largest_load(&parameters).map_err(Usage)? else {
            // the tester's limit is known when it has sent; a load that is far above any shows what else is wrong
            let far_above = parameters.min_load_pps.max(1.0) * 1e3;
            check(&parameters, far_above).map_err(Usage)?;
            return Ok(parameters);
        };
        check(&parameters, max).map_err(|why| Usage(format!("--min, --max and goals: {why}")))?;
        Ok(parameters)
    }

    fn goals(&self) -> Result<Vec<Named>, Usage> {
        let mut all = self.goals.clone();
        all.extend(self.goal.iter().cloned());
        let text = match all.is_empty() {
            true => "ndr,pdr".to_owned(),
            false => all.join(";"),
        };
        typed::parse(&text).map_err(Usage)
    }
}

fn after_help() -> String {
    let keys = fwdlab_engine::sim::KEYS
        .map(|(key, example, meaning)| format!("\n  {:<21} {meaning}", format!("{key}={example}")));
    format!("{GOALS}{}", keys.concat())
}

fn code(summary: &Summary) -> Code {
    let Some(search) = &summary.search else {
        return Code::NotValid;
    };
    let answered = search.goals.iter().all(|goal| {
        let largest = goal.relevant_lower_bound_index == Some(search.max_load_index);
        goal.regular || largest
    });
    if search.failure.is_none() && answered && summary.is_quiet() {
        Code::Done
    } else {
        Code::NotValid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        throughput: Throughput,
    }

    fn parameters(arguments: &[&str]) -> anyhow::Result<Parameters> {
        let line = std::iter::once("throughput").chain(arguments.iter().copied());
        Only::try_parse_from(line)?.throughput.parameters(true)
    }

    #[test]
    fn what_is_typed_is_what_is_searched() {
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
        let names: Vec<&str> = p.goals.iter().map(|g| g.name.as_str()).collect();
        assert_eq!(names.len(), 3);
        assert_eq!(names[0], "pdr");
        assert_eq!((p.min_load_pps, p.max), (1e4, None));
        assert_eq!(p.dut.unwrap().seed, 7);
        // bits per second on the wire: 672 a frame of 64 bytes
        let p = parameters(&["--min", "672kbps", "--max", "1Gbps", "--warm-up", "0s"]).unwrap();
        assert_eq!(p.min_load_pps, 1000.0);
        assert_eq!(largest_load(&p).unwrap().unwrap().round(), 1_488_095.0);
        assert_eq!(p.goals.len(), 2);
        // and 1 % and half of the line rate of 1 Gbit/s
        let p = parameters(&["--min", "1%", "--max", "50%", "--link", "1G"]).unwrap();
        assert_eq!(p.min_load_pps.round(), 14_881.0);
        assert_eq!(largest_load(&p).unwrap().unwrap().round(), 744_048.0);
    }

    #[test]
    fn wrong_use_is_told_before_anything_happens() {
        let sim =
            |arguments: &[&'static str]| [&["--engine", "sim", "--max", "1e7"], arguments].concat();
        for (arguments, words) in [
            (sim(&["--min", "2e7"]), "below the largest"),
            (sim(&["--min", "1e7"]), "below the largest"),
            (sim(&["--min", "0"]), "above 0"),
            (sim(&["--min", "max"]), "--min: say a load"),
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
            (sim(&["--size", "63"]), "64 to 1518"),
            (sim(&["--flows", "0"]), "1 to 60000"),
            (sim(&["--time-limit", "0s"]), "above 0"),
            (sim(&["--warm-up", "5"]), "500ms"),
            (vec!["--engine", "sim"], "--max"),
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
                "link= of the simulated DUT says 10G",
            ),
            (vec!["--dut", "capacity=1e6"], "--engine sim"),
            (vec!["--min", "10"], "below one frame"),
            (vec!["--goals", "width=0"], "never reached"),
        ] {
            let error = format!("{:#}", parameters(&arguments).unwrap_err());
            assert!(error.contains(words), "{arguments:?}: {error}");
        }
    }
}
