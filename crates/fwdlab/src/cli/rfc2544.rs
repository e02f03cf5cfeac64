//! `fwdlab rfc2544`: throughput, latency, frame loss rate, back-to-back frames, recovery and reset,
//! for all frame sizes. Start with [`Rfc2544::run`].

use clap::Args;
use fwdlab_model::campaign::value::{Percent, Period};
use fwdlab_model::campaign::{self, Draft, Procedure, Test};
use fwdlab_model::outcome::LatencyMode;
use fwdlab_model::units::FrameSize;

use super::Global;
use super::command;
use super::procedure::Arrangement;
use crate::exit_code::{Code, Usage};

/// Run the RFC 2544 test suite, with its tables and graphs
///
/// Throughput, latency, frame loss rate, back-to-back, system recovery, reset. By default a first
/// look: shortened, and labelled as such. --full uses the durations and repetitions of the RFCs,
/// which take days on a real DUT and no time with --engine sim. Without --engine sim the DUT is
/// this machine's kernel in private namespaces, as for `quick`.
#[derive(Debug, Args)]
pub struct Rfc2544 {
    /// Frame sizes in bytes, including the FCS
    #[arg(long, alias = "size", value_name = "BYTES,...", value_delimiter = ',', default_values_t = [64u16, 128, 256, 512, 1024, 1280, 1518], conflicts_with = "profile")]
    sizes: Vec<u16>,
    /// Tests [default: all that apply]
    #[arg(long, value_name = "TEST,...", value_delimiter = ',', value_parser = Test::ALL.map(Test::name))]
    tests: Vec<String>,
    /// Use the durations, waits and repetitions of the RFCs
    #[arg(long)]
    full: bool,
    /// Duration of the trials that give results [default: 5s; with --full 60s]
    #[arg(long, value_name = "TIME")]
    trial: Option<Period>,
    /// Duration of the trials that guide a search [default: 1s; with --full 60s]
    #[arg(long, value_name = "TIME")]
    search: Option<Period>,
    /// Resolution of the throughput in percent of itself
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5)]
    resolution: f64,
    /// Latency: one tagged frame per trial (rfc2544), or 500 (rfc8219)
    #[arg(long, value_name = "MODE", default_value = "rfc8219", value_parser = ["rfc2544", "rfc8219"])]
    latency: String,
    /// Loads of the latency test in percent of the throughput
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', default_values_t = [100.0])]
    latency_at: Vec<f64>,
    /// Repetitions of latency, back-to-back, recovery and reset [default: few; with --full those of
    /// the RFCs]
    #[arg(long, value_name = "N")]
    repetitions: Option<u32>,
    /// Run the reset test, which is omitted by default: forwarding (off for a second), interface
    /// (the DUT's output port down for a second), 'command: ...' (run by sh on the DUT); with
    /// --engine sim any words
    #[arg(long, value_name = "WHAT")]
    reset: Option<String>,
    /// Add the bursty traffic test (§21) with bursts of these lengths; by default the test `bursts`
    /// uses 16,64,256,1024
    #[arg(long, value_name = "FRAMES,...", value_delimiter = ',')]
    burst: Vec<u32>,
    #[command(flatten)]
    arrangement: Arrangement,
}

impl Rfc2544 {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        self.arrangement.run(global, &self.draft()?)
    }

    /// Returns the campaign of the command.
    pub(super) fn draft(&self) -> anyhow::Result<Draft> {
        if self.sizes.is_empty() {
            return Err(Usage("--sizes: no frame size was given".into()).into());
        }
        let sizes = self.sizes.iter().map(|bytes| FrameSize::new(*bytes));
        let sizes = sizes.collect::<Result<Vec<_>, _>>()?;
        let named = |name: &String| Test::ALL.into_iter().find(|test| test.name() == name);
        let tests: Vec<Test> = self.tests.iter().filter_map(named).collect();
        let procedure = campaign::Rfc2544 {
            tests,
            full: self.full,
            trial: self.trial,
            search: self.search,
            resolution: command::share("--resolution", self.resolution)?,
            latency: match self.latency.as_str() {
                "rfc2544" => LatencyMode::Rfc2544,
                _ => LatencyMode::Rfc8219,
            },
            latency_at: self.latency_at.iter().copied().map(Percent).collect(),
            repetitions: self.repetitions,
            reset: self.reset.clone(),
            burst: self.burst.clone(),
        };
        self.arrangement
            .draft("rfc2544", sizes, Procedure::Rfc2544(procedure))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        rfc2544: Rfc2544,
    }

    fn check(arguments: &[&str]) -> anyhow::Result<()> {
        let sim = [
            "rfc2544",
            "--engine",
            "sim",
            "--dut",
            "capacity=1e6,link=10Gbps",
        ];
        let line = sim.iter().chain(arguments).copied();
        let suite = Only::try_parse_from(line)?.rfc2544;
        command::plan(&suite.draft()?).map(|_| ())
    }

    #[test]
    fn usage_errors_are_reported_before_any_action() {
        check(&["--full", "--sizes", "64,1518", "--tests", "latency"]).unwrap();
        check(&["--tests", "reset", "--reset", "OS reboot"]).unwrap();
        check(&["--reset", "OS reboot"]).unwrap();
        for (arguments, words) in [
            (vec!["--sizes", "64,64"], "twice"),
            (vec!["--sizes", "63"], "64 to 16384"),
            (vec!["--sizes", ""], "invalid"),
            (vec!["--tests", "jitter"], "frame-loss"),
            (vec!["--resolution", "0.0000001"], "below one frame"),
            (vec!["--resolution", "100"], "not finer"),
            (vec!["--resolution", "200"], "from 0 to 100"),
            (
                vec!["--search", "10s", "--trial", "5s"],
                "shorter than those of the search",
            ),
            (vec!["--latency-at", "150"], "at most 100 %"),
            (vec!["--repetitions", "0"], "1 to 10000"),
            (vec!["--tests", "reset"], "what is reset"),
            (
                vec!["--tests", "latency", "--reset", "forwarding"],
                "no reset test is requested",
            ),
        ] {
            let error = format!("{:#}", check(&arguments).unwrap_err());
            assert!(error.contains(words), "{arguments:?}: {error}");
        }
    }
}
