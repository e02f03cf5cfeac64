//! `fwdlab quick`: the main job.

use std::time::Duration;

use clap::Args;
use fwdlab_engine::Mode;
use fwdlab_lab::dut::Configuration;
use fwdlab_lab::placement::Placement;
use fwdlab_lab::run::Parameters;
use fwdlab_lab::site::Site;
use fwdlab_lab::user_namespace;
use fwdlab_model::link::{LinkLoad, LinkSpeed};
use fwdlab_model::result::Summary;
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::{FrameSize, parse_duration};

use super::Global;
use super::run::{self, random_seed};
use crate::exit_code::{self, Code, Usage};

/// Time that a comparison leaves for starting and for writing the report.
const COMPARISON_MARGIN: Duration = Duration::from_secs(2);

/// What the trials of a run take together where they need not be shorter or longer.
const ALL_TRIALS: Duration = Duration::from_secs(40);
/// Four arrangements of the generator's memory.
const SHORTEST_TRIAL: Duration = Duration::from_secs(1);
/// More iterations tell more than longer ones.
const LONGEST_TRIAL: Duration = Duration::from_secs(2);

/// Arguments of `quick`.
#[derive(Debug, Args)]
pub struct Quick {
    /// Frame sizes in bytes, including the FCS [default: 64,512,1518; with --vs: the smallest]
    #[arg(long, value_delimiter = ',', value_name = "BYTES")]
    size: Vec<FrameSize>,
    /// Numbers of flows: one flow uses one queue and one cache line, many flows are more realistic [default: 2000,1; with --vs:
    /// 2000]
    #[arg(long, value_delimiter = ',', value_name = "N")]
    flows: Vec<u32>,
    /// Measure IPv6; with --ipv4, measure both
    #[arg(long)]
    ipv6: bool,
    /// Measure IPv4 (the default, unless --ipv6 is given)
    #[arg(long)]
    ipv4: bool,
    /// Iterations of each test case
    #[arg(short = 'n', long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    iterations: u32,
    /// Shortest duration of a trial [default: 1s to 2s, so that all trials together take about 40 s]
    #[arg(long, value_parser = parse_duration)]
    trial: Option<Duration>,
    /// Load to offer: max, 1.5Mpps, 1Gbps (L1), 1Gbps-l2, 50% of --link [default: 1.6 times what the DUT forwards]
    #[arg(long)]
    load: Option<LinkLoad>,
    /// Emulate links of this speed, such as 1G: no more than their line rate is ever offered
    #[arg(long, value_name = "SPEED")]
    link: Option<LinkSpeed>,
    /// Configuration of the DUT: a command in quotes, a file, or a directory (configuration set)
    #[arg(long, value_name = "FILE|DIR|COMMAND")]
    set: Option<String>,
    /// Compare this configuration with the plain router; may be repeated
    #[arg(long, value_name = "FILE|DIR|COMMAND")]
    vs: Vec<String>,
    /// Run configurations of the DUT as processes of the host, with write access to all of its files [default: isolated from
    /// the host; only /tmp is shared for writing]
    #[arg(long)]
    set_unconfined: bool,
    /// Rebuilds of a comparison; its interval is computed over them
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(3..=1000))]
    rebuilds: u32,
    /// Time for a whole comparison
    #[arg(long = "for", default_value = "60s", value_name = "TIME", value_parser = parse_duration)]
    duration: Duration,
    /// Engine: auto takes the fastest that passes the path check
    #[arg(long, default_value = "auto", value_parser = ["auto", "xdp-live", "af-xdp", "af-packet"])]
    engine: String,
    /// CPUs of the DUT [default: the last one]
    #[arg(long, value_delimiter = ',', value_name = "CPU")]
    dut_cpus: Vec<usize>,
    /// Seed of every random choice [default: chosen and recorded]
    #[arg(long)]
    seed: Option<u64>,
}

impl Quick {
    /// Runs it.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let privileged = user_namespace::is_root();
        let parameters = self.parameters(privileged)?;
        if !privileged {
            user_namespace::enter()?;
        }
        run::carry_out(
            global,
            parameters.iterations,
            |runs, control, listener| fwdlab_lab::run::start(&parameters, runs, control, listener),
            |outcome| fwdlab_report::text::quick(outcome.info, outcome.summary),
            |summary| Some(next_steps(summary)),
            exit_code::of_result,
        )
    }

    fn parameters(&self, privileged: bool) -> anyhow::Result<Parameters> {
        let parse = |typed: &String| Configuration::parse(typed);
        let configuration = self.set.as_ref().map(parse).transpose()?;
        let versus = self.vs.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        if versus.len() > 14 {
            return Err(Usage(format!(
                "--vs was given {} times; the maximum is 14",
                versus.len()
            ))
            .into());
        }
        let versions: &[IpVersion] = match (self.ipv4, self.ipv6) {
            (_, false) => &[IpVersion::Ipv4],
            (false, true) => &[IpVersion::Ipv6],
            (true, true) => &[IpVersion::Ipv4, IpVersion::Ipv6],
        };
        let streams = self.streams(versions, !versus.is_empty())?;
        if !versus.is_empty() && streams.len() > 1 {
            return Err(Usage(format!(
                "--vs compares one kind of traffic at a time, but {} were given; use one --size and one --flows",
                streams.len()
            ))
            .into());
        }
        if !versus.is_empty() && self.duration < Duration::from_secs(5) {
            return Err(Usage("--for: a comparison needs at least 5s".into()).into());
        }
        let parameters = Parameters {
            traffic: fwdlab_lab::run::traffic::Traffic::default(),
            trial: self.trial.unwrap_or_else(|| {
                // the first test case is measured twice
                (ALL_TRIALS / (self.iterations * (streams.len() as u32 + 1)))
                    .clamp(SHORTEST_TRIAL, LONGEST_TRIAL)
            }),
            streams,
            iterations: self.iterations,
            load: self.load,
            line: fwdlab_lab::run::line(None, self.link),
            configuration,
            unconfined: self.set_unconfined,
            versus,
            rebuilds: self.rebuilds,
            total: self
                .duration
                .saturating_sub(COMPARISON_MARGIN)
                .max(Duration::from_secs(4)),
            engine: Mode::ALL
                .into_iter()
                .find(|mode| mode.name() == self.engine),
            site: Site::default(),
            placement: Placement::choose(&self.dut_cpus)?,
            privileged,
            seed: self.seed.unwrap_or_else(random_seed),
            command_line: std::env::args().collect(),
        };
        if let Some(load) = self.load {
            let mut streams = parameters.streams.iter();
            streams
                .try_for_each(|stream| parameters.load_pps(load, stream).map(|_| ()))
                .map_err(Usage)?;
        }
        Ok(parameters)
    }

    /// The test cases, the most telling one first: smallest frames, many flows.
    fn streams(&self, versions: &[IpVersion], comparison: bool) -> anyhow::Result<Vec<Stream>> {
        let flows = match (&self.flows[..], comparison) {
            ([], true) => &[2000][..],
            ([], false) => &[2000, 1],
            (given, _) => given,
        };
        let mut streams: Vec<Stream> = Vec::new();
        for &version in versions {
            let smallest = version.smallest_frame();
            let sizes = match (&self.size[..], comparison) {
                ([], true) => vec![smallest],
                ([], false) => [smallest.bytes(), 512, 1518]
                    .into_iter()
                    .map(FrameSize::new)
                    .collect::<Result<_, _>>()?,
                (given, _) => given.to_vec(),
            };
            for size in sizes {
                for &flows in flows {
                    let stream = Stream::new(version, size, flows)?;
                    if !streams.contains(&stream) {
                        streams.push(stream);
                    }
                }
            }
        }
        Ok(streams)
    }
}

fn next_steps(summary: &Summary) -> String {
    if summary.comparisons.is_empty() {
        "\nNext   fwdlab quick --vs 'nft add table ip t; nft add chain ip t f \"{ type filter hook forward priority 0; }\"; \
         nft add rule ip t f ip saddr 10.0.0.1 drop'\n         does a firewall rule cost anything?\n       \
         fwdlab runs show @1          this result again"
            .into()
    } else {
        "\nNext   fwdlab runs show @1          this result again\n       \
         fwdlab quick --for 5m --vs ...   a longer comparison detects smaller differences"
            .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        quick: Quick,
    }

    fn parameters(arguments: &[&str]) -> anyhow::Result<Parameters> {
        let line = std::iter::once("quick").chain(arguments.iter().copied());
        Only::try_parse_from(line)?.quick.parameters(true)
    }

    fn ids(arguments: &[&str]) -> Vec<String> {
        parameters(arguments)
            .unwrap()
            .streams
            .iter()
            .map(Stream::id)
            .collect()
    }

    #[test]
    fn test_cases_of_the_issue_come_first() {
        assert_eq!(
            ids(&[]),
            [
                "64B-2000flows-ipv4",
                "64B-1flow-ipv4",
                "512B-2000flows-ipv4",
                "512B-1flow-ipv4",
                "1518B-2000flows-ipv4",
                "1518B-1flow-ipv4"
            ]
        );
        assert_eq!(
            ids(&["--ipv6", "--flows", "1"]),
            ["84B-1flow-ipv6", "512B-1flow-ipv6", "1518B-1flow-ipv6"]
        );
        assert_eq!(ids(&["--vs", "true"]), ["64B-2000flows-ipv4"]);
        assert_eq!(
            ids(&["--size", "64,64", "--flows", "7"]),
            ["64B-7flows-ipv4"]
        );
    }

    #[test]
    fn wrong_use_is_told_before_anything_happens() {
        for (arguments, words) in [
            (&["--size", "63"][..], "64 to 1518"),
            (&["--ipv6", "--size", "64"], "84 bytes"),
            (&["--flows", "0"], "1 to 60000"),
            (&["--iterations", "0"], "0 is not in"),
            (&["--load", "fast"], "1.5Mpps"),
            (&["--load", "50%"], "--link 1G"),
            (&["--load", "101%", "--link", "1G"], "101% is more than"),
            (&["--load", "1Mpps", "--link", "1G"], "of 512 bytes"),
            (&["--vs", "true", "--size", "64,512"], "one --size"),
            (&["--vs", "true", "--for", "1s"], "at least 5s"),
            (&["--set", ""], "empty"),
            (&["--set", "/no/such/file"], "No such file"),
            (&["--dut-cpus", "4096"], "CPU 4096"),
        ] {
            let error = format!("{:#}", parameters(arguments).unwrap_err());
            assert!(error.contains(words), "{arguments:?}: {error}");
        }
    }
}
