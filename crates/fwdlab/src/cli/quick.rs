//! `fwdlab quick`: measures the forwarding rate of this machine's kernel, or compares two
//! configurations. Start with [`Quick::run`].

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use fwdlab_lab::dut::Configuration;
use fwdlab_lab::placement::Placement;
use fwdlab_lab::run::campaign::start;
use fwdlab_lab::run::plan::{Command, Host, Plan};
use fwdlab_lab::site::Site;
use fwdlab_lab::user_namespace;
use fwdlab_model::campaign::value::{Period, Rate};
use fwdlab_model::campaign::{
    Bed, Campaign, Case, Dut, Engine, Exact, Kind, Maxfwd, Order, PLAIN, Paired, Procedure,
};
use fwdlab_model::file::Origin;
use fwdlab_model::link::{LinkLoad, LinkSpeed};
use fwdlab_model::result::Summary;
use fwdlab_model::test_bed::BedFile;
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::{FrameSize, parse_duration};
use fwdlab_model::variant::Variant;
use serde_json::{Value, json};

use super::Global;
use super::run::{self, random_seed};
use super::test_bed;
use crate::exit_code::{self, Code, Usage};

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
    /// Iterations of each test case [default: 5; with --vm 1, because instructions do not vary]
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    iterations: Option<u32>,
    /// Shortest duration of a trial [default: 1s to 2s, so that all trials together take about 40 s]
    #[arg(long, value_parser = parse_duration)]
    trial: Option<Duration>,
    /// Load to offer: max, 1.5Mpps, 1Gbps (L1), 1Gbps-l2, 50% of --link [default: 1.6 times what the DUT forwards]
    #[arg(long)]
    load: Option<LinkLoad>,
    /// Emulate links of this speed, such as 1G: the load never exceeds their line rate
    #[arg(long, value_name = "SPEED")]
    link: Option<LinkSpeed>,
    /// Configuration of the DUT: a command in quotes, a file, a directory (configuration set), or
    /// generate:FAMILY,KEY=VALUE
    #[arg(long, value_name = "FILE|DIR|COMMAND")]
    set: Option<String>,
    /// Compare this configuration with the plain router; may be repeated; generate:nft-rules,n=10+100 stands for two configurations
    #[arg(long, value_name = "FILE|DIR|COMMAND")]
    vs: Vec<String>,
    /// Run configurations of the DUT as processes of the host, with write access to all of its files [default: isolated from
    /// the host; only /tmp is shared for writing]
    #[arg(long)]
    set_unconfined: bool,
    /// Count the instructions of a frame in a virtual machine that boots this image: debian:PACKAGE, such as
    /// debian:linux-image-cloud-amd64, or a bzImage; needs no privileges, and other work on this machine does not change the result; repeat to
    /// compare images
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["load", "trial", "link", "rebuilds", "duration", "engine", "dut_cpus", "set_unconfined"])]
    vm: Vec<String>,
    /// With --vs, also count what each configuration costs in instructions, in a virtual machine that boots IMAGE [default:
    /// debian:linux-image-cloud-amd64]
    #[arg(long, value_name = "IMAGE", num_args = 0..=1, default_missing_value = "debian:linux-image-cloud-amd64", requires = "vs", conflicts_with = "vm")]
    exact: Option<String>,
    /// Frames of a burst in a virtual machine, a multiple of 32
    #[arg(long, value_name = "N", default_value_t = 20_000, requires = "vm", value_parser = Exact::parse_frames)]
    frames: u32,
    /// Kinds of DUTs: linux, vpp, or both, one after the other; VPP is $FWDLAB_VPP, or vpp in PATH
    #[arg(long, value_delimiter = ',', value_name = "KIND", default_value = "linux", value_parser = parse_kind, conflicts_with_all = ["vs", "vm"])]
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
    /// Use existing hosts: a test-bed file, or its name in a folder `beds`
    #[arg(long, value_name = "BED", conflicts_with_all = ["vs", "vm", "exact", "dut_cpus"])]
    bed: Option<String>,
    /// CPUs of the DUT [default: the last one]
    #[arg(long, value_delimiter = ',', value_name = "CPU")]
    dut_cpus: Vec<usize>,
    /// Seed of every random choice [default: chosen and recorded]
    #[arg(long)]
    seed: Option<u64>,
}

impl Quick {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let privileged = user_namespace::is_root();
        let plan = self.plan(privileged)?;
        // a virtual machine needs no privileges here
        if !privileged && self.vm.is_empty() && self.bed.is_none() {
            user_namespace::enter()?;
        }
        let iterations = match plan.campaign().procedure {
            Procedure::Paired(_) => 0,
            _ => self.iterations(),
        };
        run::carry_out(
            global,
            iterations,
            |runs, control, listener| start(&plan, runs, control, listener),
            |outcome| fwdlab_report::text::quick(outcome.info, outcome.summary),
            |summary| Some(next_steps(summary, self.bed.is_some())),
            exit_code::of_result,
        )
    }

    /// Returns the plan of the equivalent campaign.
    fn plan(&self, privileged: bool) -> anyhow::Result<Plan> {
        let parse = |typed: &String| Configuration::parse(typed);
        let set = self.set.as_ref().map(parse).transpose()?;
        let several = self.vs.iter().map(|typed| Configuration::several(typed));
        let versus = several.collect::<Result<Vec<_>, _>>()?.concat();
        if versus.len() > 14 {
            return Err(Usage(format!(
                "--vs gives {} configurations; the maximum is 14",
                versus.len()
            ))
            .into());
        }
        if (1..self.dut_kind.len()).any(|n| self.dut_kind[..n].contains(&self.dut_kind[n])) {
            return Err(Usage("--dut-kind: a kind is listed twice".into()).into());
        }
        let versions: &[IpVersion] = match (self.ipv4, self.ipv6) {
            (_, false) => &[IpVersion::Ipv4],
            (false, true) => &[IpVersion::Ipv6],
            (true, true) => &[IpVersion::Ipv4, IpVersion::Ipv6],
        };
        let is_exact = !self.vm.is_empty();
        let streams = self.streams(versions, is_exact || !versus.is_empty())?;
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
        let line = fwdlab_lab::run::line(None, self.link);
        if let Some(load) = self.load {
            for stream in &streams {
                let pps = load.on_line("the load", stream.frame_size_bytes, line);
                pps.map_err(Usage)?;
            }
        }
        let engine = (Engine::ALL.into_iter())
            .find(|engine| engine.name() == self.engine)
            .unwrap_or_default();
        let (site, placement, preferred) = match &self.bed {
            Some(name) => match test_bed::find(Path::new(""), name)? {
                BedFile::Machine(_) => {
                    return Err(Usage(format!(
                        "the test bed {name} is a virtual machine, whose rates vary too much for a first look; measure it with fwdlab trial, \
                         or with a campaign that has bed = \"{name}\""
                    ))
                    .into());
                }
                found => test_bed::of_command(name, found)?,
            },
            None => (
                Site::default(),
                Placement::choose(&self.dut_cpus)?,
                Engine::Auto,
            ),
        };
        let engine = match engine {
            Engine::Auto => preferred,
            typed => typed,
        };
        let host = Host {
            site,
            placement,
            privileged,
            unconfined: self.set_unconfined,
            seed: self.seed.unwrap_or_else(random_seed),
            command_line: std::env::args().collect(),
        };
        let values = self.values(&streams, &versus, &host);
        let total = (!versus.is_empty() && !is_exact).then(|| self.total());
        let names: Vec<String> = match (versus.is_empty(), &set) {
            (true, None) => vec![PLAIN.into()],
            (true, Some(set)) => vec![set.name.clone()],
            (false, _) => versus.iter().map(|one| one.name.clone()).collect(),
        };
        let names = match (is_exact, names.first().is_some_and(|name| name == PLAIN)) {
            (true, false) if !versus.is_empty() => [vec![PLAIN.to_owned()], names].concat(),
            (true, false) => vec![PLAIN.into()],
            _ => names,
        };
        let of_name = |name: &String| {
            let streams = streams.clone().into_iter();
            let name = name.clone();
            let images: Vec<Option<String>> = match &self.vm[..] {
                [] => vec![None],
                images => images.iter().cloned().map(Some).collect(),
            };
            streams.flat_map(move |stream| {
                let name = name.clone();
                let kinds = self.dut_kind.clone();
                let of_image = move |image: Option<String>| {
                    let (name, stream) = (name.clone(), stream.clone());
                    kinds.clone().into_iter().map(move |dut| Case {
                        configuration: name.clone(),
                        stream: stream.clone(),
                        variant: Variant::default(),
                        image: image.clone(),
                        dut,
                    })
                };
                images.clone().into_iter().flat_map(of_image)
            })
        };
        let load = self.load.map(Rate);
        let campaign = Campaign {
            name: KIND.into(),
            about: String::new(),
            question: String::new(),
            needs: Vec::new(),
            iterations: match total {
                Some(_) => self.rebuilds,
                None => self.iterations(),
            },
            until: None,
            order: Order::Interleaved,
            reboot: None,
            seed: Some(host.seed),
            bed: Bed {
                file: self.bed.clone(),
                engine,
                link: self.link,
                ..Bed::default()
            },
            dut: Dut::default(),
            configurations: BTreeMap::new(),
            cases: names.iter().flat_map(of_name).collect(),
            procedure: match total {
                Some(_) => Procedure::Paired(Paired {
                    load,
                    ..Paired::default()
                }),
                None if is_exact => Procedure::Exact(Exact {
                    frames: self.frames,
                    ..Exact::default()
                }),
                None => Procedure::Maxfwd(Maxfwd {
                    load,
                    duration: Period(self.each_trial(streams.len())),
                }),
            },
            sweep: None,
            telemetry: None,
            hooks: fwdlab_model::campaign::Hooks::default(),
            thresholds: Vec::new(),
            origin: Origin::default(),
        };
        let (compared, applied_to_all) = match total {
            Some(_) => (versus, set),
            // with an image, the set applies to every DUT
            None if is_exact => (versus, set),
            None => (set.into_iter().collect(), None),
        };
        let command = Command {
            kind: KIND,
            applied_to_all,
            total,
            values,
            beside: self.exact.clone(),
            ..Command::default()
        };
        Ok(Plan::of_command(campaign, compared, command, host)?)
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

    /// Returns the parameters to store with the run.
    fn values(
        &self,
        streams: &[Stream],
        versus: &[Configuration],
        host: &Host,
    ) -> BTreeMap<String, Value> {
        let ids: Vec<String> = streams.iter().map(Stream::id).collect();
        let load = self.load.map(|load| load.to_string());
        let mut values = BTreeMap::from([
            ("test_cases", json!(ids)),
            (
                "load",
                json!(load.as_deref().unwrap_or("1.6 times the forwarding rate")),
            ),
            (
                "engine",
                json!(match self.engine.as_str() {
                    "auto" => "automatic",
                    engine => engine,
                }),
            ),
            ("generator_cpus", json!(host.placement.generator_cpus)),
            ("dut_cpus", json!(host.placement.dut_cpus)),
        ]);
        if let Some(line) = fwdlab_lab::run::line(None, self.link) {
            values.insert("link_bps", json!(line.speed.bps()));
        }
        if let Some(set) = &self.set {
            values.insert("configuration", json!(set));
        }
        if self.set_unconfined {
            values.insert("set_unconfined", json!(true));
        }
        if self.dut_kind != [Kind::Linux] {
            let kinds: Vec<&str> = self.dut_kind.iter().map(|kind| kind.name()).collect();
            values.insert("dut_kind", json!(kinds));
        }
        values.extend(match versus {
            _ if !self.vm.is_empty() => vec![
                ("procedure", json!("exact")),
                ("iterations", json!(self.iterations())),
                ("frames", json!(self.frames)),
                ("images", json!(self.vm)),
                (
                    "versus",
                    json!(versus.iter().map(|one| &one.name).collect::<Vec<_>>()),
                ),
            ],
            [] => vec![
                ("procedure", json!("maxfwd")),
                ("iterations", json!(self.iterations())),
                (
                    "trial_s",
                    json!(self.each_trial(streams.len()).as_secs_f64()),
                ),
            ],
            _ => vec![
                ("procedure", json!("paired")),
                (
                    "versus",
                    json!(versus.iter().map(|one| &one.name).collect::<Vec<_>>()),
                ),
                ("rebuilds", json!(self.rebuilds)),
                ("total_s", json!(self.total().as_secs_f64())),
            ],
        });
        let named = values.into_iter();
        named
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// Returns the streams of the test cases, the most informative first: smallest frames, many
    /// flows.
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

/// Parses the kind of a DUT.
fn parse_kind(typed: &str) -> Result<Kind, String> {
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
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        quick: Quick,
    }

    fn plan(arguments: &[&str]) -> anyhow::Result<Plan> {
        let line = std::iter::once("quick").chain(arguments.iter().copied());
        Only::try_parse_from(line)?.quick.plan(true)
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
    fn wrong_use_is_told_before_anything_happens() {
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
