//! `fwdlab quick`: measures the forwarding rate of this machine's kernel, or compares two
//! configurations. Start with [`Quick::run`].

use std::path::Path;
use std::time::Duration;

use clap::Args;
use fwdlab_model::campaign::value::{Period, Rate};
use fwdlab_model::campaign::{
    Bed, Draft, Exact, Kind, Matrix, Maxfwd, OnFailure, Paired, Procedure, Several, Size, distinct,
};
use fwdlab_model::link::{LinkLoad, LinkSpeed};
use fwdlab_model::result::Summary;
use fwdlab_model::test_bed::BedFile;
use fwdlab_model::trial::IpVersion;
use fwdlab_model::units::{FrameSize, parse_duration};

use super::Global;
use super::command::{self, PrintCampaign, engine};
use super::test_bed;
use crate::exit_code::{Code, Usage};

/// The kind of the run.
const KIND: &str = "quick";

/// Time of a comparison that is reserved for starting and for writing the report.
const COMPARISON_MARGIN: Duration = Duration::from_secs(2);

/// Total duration of all trials of a run, unless they would be too short or too long.
const ALL_TRIALS: Duration = Duration::from_secs(40);
/// Long enough for four arrangements of the generator's memory.
const SHORTEST_TRIAL: Duration = Duration::from_secs(1);
/// More iterations are more useful than longer ones.
const LONGEST_TRIAL: Duration = Duration::from_secs(2);

/// Arguments of `quick`.
#[derive(Debug, Args)]
pub struct Quick {
    /// Frame sizes in bytes, including the FCS [default: 64,512,1518; with --vs: the smallest]
    #[arg(long, value_delimiter = ',', value_name = "BYTES")]
    size: Vec<FrameSize>,
    /// Numbers of flows: one flow uses one queue and one cache line, many flows are more realistic
    /// [default: 2000,1; with --vs: 2000]
    #[arg(long, value_delimiter = ',', value_name = "N")]
    flows: Vec<u32>,
    /// Measure IPv6; with --ipv4, measure both
    #[arg(long)]
    ipv6: bool,
    /// Measure IPv4 (the default, unless --ipv6 is given)
    #[arg(long)]
    ipv4: bool,
    /// Iterations of each test case [default: 5; with --vm 1, because instructions do not vary]
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    iterations: Option<u32>,
    /// Shortest duration of a trial [default: 1s to 2s, so that all trials together take about 40
    /// s]
    #[arg(long, value_parser = parse_duration)]
    trial: Option<Duration>,
    /// Load to offer: max, 1.5Mpps, 1Gbps (L1), 1Gbps-l2, 50% of --link [default: 1.6 times what
    /// the DUT forwards]
    #[arg(long)]
    load: Option<LinkLoad>,
    /// Emulate links of this speed, such as 1G: the load never exceeds their line rate
    #[arg(long, value_name = "SPEED")]
    link: Option<LinkSpeed>,
    /// Configuration of the DUT: a command in quotes, a file, a directory (configuration set), or
    /// generate:FAMILY,KEY=VALUE
    #[arg(long, value_name = "FILE|DIR|COMMAND", allow_hyphen_values = true)]
    set: Option<String>,
    /// Compare this configuration with the plain router; may be repeated;
    /// generate:nft-rules,n=10+100 stands for two configurations
    #[arg(long, value_name = "FILE|DIR|COMMAND", allow_hyphen_values = true)]
    vs: Vec<String>,
    /// Run configurations of the DUT as processes of the host, with write access to all of its
    /// files [default: isolated from the host; only /tmp is shared for writing]
    #[arg(long)]
    set_unconfined: bool,
    /// Count the instructions of a frame in a virtual machine that boots this image:
    /// debian:PACKAGE, such as debian:linux-image-cloud-amd64, or a bzImage; needs no privileges,
    /// and other work on this machine does not change the result; repeat to compare images
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["load", "trial", "link", "rebuilds", "duration", "engine", "dut_cpus", "senders", "set_unconfined"])]
    vm: Vec<String>,
    /// With --vs, also count what each configuration costs in instructions, in a virtual machine
    /// that boots IMAGE [default: debian:linux-image-cloud-amd64]
    #[arg(long, value_name = "IMAGE", num_args = 0..=1, default_missing_value = "debian:linux-image-cloud-amd64", requires = "vs", conflicts_with = "vm")]
    exact: Option<String>,
    /// Frames of a burst in a virtual machine, a multiple of 32
    #[arg(long, value_name = "N", default_value_t = 20_000, requires = "vm", value_parser = Exact::parse_frames)]
    frames: u32,
    /// Kinds of DUTs: linux, vpp, or both, one after the other; VPP is $FWDLAB_VPP, or vpp in PATH;
    /// with --vm: linux, testpmd, ovs-dpdk, vpp. Configurations of testpmd are a program, its
    /// options, or both; those of ovs-dpdk are a program, or commands such as ovs-ofctl; those of
    /// vpp a program, or lines of its command line
    #[arg(long, value_delimiter = ',', value_name = "KIND", default_value = "linux", value_parser = parse_kind)]
    dut_kind: Vec<Kind>,
    /// Rebuilds of a comparison; its interval is computed over them
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(3..=1000))]
    rebuilds: u32,
    /// Time for a whole comparison
    #[arg(long = "for", default_value = "60s", value_name = "TIME", value_parser = parse_duration)]
    duration: Duration,
    /// Engine: auto takes the fastest that passes the path check
    #[arg(long, default_value = "auto", value_parser = super::engines())]
    engine: String,
    /// Threads that send into each port, each through its own queue and on its own CPU [default:
    /// those of the test bed, or as many as the load needs according to the self-test]
    #[arg(long, value_name = "N", value_parser = super::senders())]
    senders: Option<u32>,
    /// Use existing hosts: a test-bed file, or its name in a folder `beds`
    #[arg(long, value_name = "BED", conflicts_with_all = ["vs", "vm", "exact", "dut_cpus"])]
    bed: Option<String>,
    /// CPUs of the DUT [default: the last one]
    #[arg(long, value_delimiter = ',', value_name = "CPU")]
    dut_cpus: Vec<usize>,
    /// Seed of every random choice [default: chosen and recorded]
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=command::LARGEST_SEED))]
    seed: Option<u64>,
    #[command(flatten)]
    print: PrintCampaign,
}

impl Quick {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let draft = self.draft()?;
        if let Some(name) = &self.bed
            && let BedFile::Machine(_) = test_bed::find(Path::new(""), name)?
        {
            return Err(Usage(format!(
                "the test bed {name} is a virtual machine, whose rates vary too much for a first look; measure it with fwdlab trial, \
                 or with a campaign that says bed = \"{name}\""
            ))
            .into());
        }
        let text =
            |run: &fwdlab_report::run::Run<'_>| fwdlab_report::text::quick(run.info, run.summary);
        let next = |summary: &Summary| Some(next_steps(summary, self.bed.is_some()));
        command::run(global, &draft, self.print, text, next)
    }

    /// Returns the campaign of the command.
    pub(super) fn draft(&self) -> anyhow::Result<Draft> {
        let has_twice = |n: usize| self.dut_kind[..n].contains(&self.dut_kind[n]);
        if (1..self.dut_kind.len()).any(has_twice) {
            return Err(Usage("--dut-kind: a kind is listed twice".into()).into());
        }
        let is_exact = !self.vm.is_empty();
        let is_comparison = !self.vs.is_empty();
        if self.dut_kind.iter().any(|kind| kind.is_vpp()) && is_comparison && !is_exact {
            return Err(Usage(
                "VPP in a namespace of this machine cannot be measured side by side with itself: --dut-kind vpp cannot be used with --vs, \
                 except with --vm, which counts instructions"
                    .into(),
            )
            .into());
        }
        let mut matrix = self.traffic(is_exact || is_comparison);
        let streams = streams(&matrix);
        if is_comparison && streams > 1 {
            return Err(Usage(format!(
                "--vs compares one kind of traffic at a time, but {streams} were given; use one --size and one --flows"
            ))
            .into());
        }
        if is_comparison && self.duration < Duration::from_secs(5) {
            return Err(Usage("--for: a comparison needs at least 5s".into()).into());
        }
        let load = self.load.map(Rate);
        let maxfwd = Maxfwd {
            load,
            duration: Period(self.each_trial(streams)),
            double: true,
        };
        let mut draft = Draft {
            iterations: match is_comparison && !is_exact {
                true => self.rebuilds,
                false => self.iterations(),
            },
            on_failure: OnFailure::End,
            seed: self.seed,
            bed: Bed {
                file: self.bed.clone(),
                engine: engine(&self.engine),
                dut_cpus: self.dut_cpus.clone(),
                senders: self.senders,
                link: self.link,
                unconfined: self.set_unconfined,
                ..Bed::default()
            },
            ..Draft::new(KIND, Procedure::Maxfwd(maxfwd))
        };
        let reference = draft.set(self.set.as_deref())?;
        let mut names = Vec::new();
        for typed in &self.vs {
            names.extend(draft.configure(typed, &reference)?);
        }
        if names.len() > 14 {
            return Err(Usage(format!(
                "--vs gives {} configurations; the maximum is 14",
                names.len()
            ))
            .into());
        }
        if is_exact || !is_comparison {
            names.insert(0, reference.clone());
        }
        matrix.configuration = Some(Several(names));
        draft.matrix = matrix;
        if is_exact {
            draft.procedure = Procedure::Exact(Exact {
                frames: self.frames,
                reference,
                ..Exact::default()
            });
        } else if is_comparison {
            draft.procedure = Procedure::Paired(Paired {
                load,
                reference,
                within: Some(Period(self.total())),
                exact: self.exact.clone(),
                ..Paired::default()
            });
        }
        Ok(draft)
    }

    /// Returns the traffic and the DUTs of the test cases, the most informative first: smallest
    /// frames, many flows.
    fn traffic(&self, is_comparison: bool) -> Matrix {
        let sizes = match (&self.size[..], is_comparison) {
            ([], true) => vec![Size::Smallest],
            ([], false) => vec![Size::Smallest, Size::Bytes(512), Size::Bytes(1518)],
            (given, _) => given.iter().copied().map(Size::from).collect(),
        };
        let flows = match (&self.flows[..], is_comparison) {
            ([], true) => vec![2000],
            ([], false) => vec![2000, 1],
            (given, _) => given.to_vec(),
        };
        let versions = match (self.ipv4, self.ipv6) {
            (_, false) => vec![IpVersion::Ipv4],
            (false, true) => vec![IpVersion::Ipv6],
            (true, true) => vec![IpVersion::Ipv4, IpVersion::Ipv6],
        };
        Matrix {
            size: Some(Several(distinct(sizes.iter()))),
            flows: Some(Several(distinct(flows.iter()))),
            ip: Some(Several(versions)),
            image: (!self.vm.is_empty()).then(|| Several(self.vm.clone())),
            dut: (self.dut_kind != [Kind::Linux]).then(|| Several(self.dut_kind.clone())),
            ..Matrix::default()
        }
    }

    /// Returns the iterations of each test case.
    fn iterations(&self) -> u32 {
        let default = if self.vm.is_empty() { 5 } else { 1 };
        self.iterations.unwrap_or(default)
    }

    /// Returns the duration of each trial.
    fn each_trial(&self, streams: usize) -> Duration {
        self.trial.unwrap_or_else(|| {
            // the first test case is measured twice
            let trials = self.iterations() * (streams as u32 + 1);
            (ALL_TRIALS / trials).clamp(SHORTEST_TRIAL, LONGEST_TRIAL)
        })
    }

    /// Returns the total time for all rebuilds of a comparison.
    fn total(&self) -> Duration {
        let total = self.duration.saturating_sub(COMPARISON_MARGIN);
        total.max(Duration::from_secs(4))
    }
}

/// Returns the number of streams of a matrix.
fn streams(matrix: &Matrix) -> usize {
    let sizes = matrix.size.as_ref().map_or(1, |sizes| sizes.0.len());
    let flows = matrix.flows.as_ref().map_or(1, |flows| flows.0.len());
    sizes * flows * matrix.ip.as_ref().map_or(1, |ip| ip.0.len())
}

/// Parses the kind of a DUT.
pub(super) fn parse_kind(typed: &str) -> Result<Kind, String> {
    let known = || Kind::ALL.map(Kind::name).join(", ");
    let mut all = Kind::ALL.into_iter();
    all.find(|kind| kind.name() == typed)
        .ok_or_else(|| format!("there is no such kind; known are {}", known()))
}

fn next_steps(summary: &Summary, on_bed: bool) -> String {
    if on_bed {
        return "\nNext   fwdlab new campaign NAME     compares configurations on this bed\n       \
             fwdlab runs show @1          this result again"
            .into();
    }
    if summary.procedure == "exact" {
        return "\nNext   fwdlab runs show @1 --format html > exact.html    flame graphs\n       \
             fwdlab quick --vm IMAGE --vm OTHER     the same DUT on two kernels\n       \
             fwdlab quick --vs ...        what does it cost in time?"
            .into();
    }
    if summary.procedure != "paired" {
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
    use clap::Parser;
    use fwdlab_lab::run::plan::Plan;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        quick: Quick,
    }

    fn plan(arguments: &[&str]) -> anyhow::Result<Plan> {
        let line = std::iter::once("quick").chain(arguments.iter().copied());
        command::plan(&Only::try_parse_from(line)?.quick.draft()?)
    }

    fn ids(arguments: &[&str]) -> Vec<String> {
        plan(arguments)
            .unwrap()
            .campaign()
            .cases
            .iter()
            .map(|case| case.stream.id())
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
    fn usage_errors_are_reported_before_any_action() {
        for (arguments, words) in [
            (&["--size", "63"][..], "64 to 16384"),
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
            let error = format!("{:#}", plan(arguments).err().unwrap());
            assert!(error.contains(words), "{arguments:?}: {error}");
        }
    }
}
