//! Shared by all commands that run a procedure: the options of the arrangement, and the run.
//!
//! A command defines the frame sizes and parameters, and creates its procedure when the loads are
//! known. Start with [`Arrangement`].

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use fwdlab_engine::Mode;
use fwdlab_engine::sim::Dut;
use fwdlab_lab::dut::Configuration;
use fwdlab_lab::placement::Placement;
use fwdlab_lab::run::campaign::start;
use fwdlab_lab::run::plan::Plan;
use fwdlab_lab::run::suite::Suite;
use fwdlab_lab::run::traffic::Traffic;
use fwdlab_lab::site::Site;
use fwdlab_lab::telemetry::Wanted;
use fwdlab_lab::user_namespace;
use fwdlab_measure::machine::{Asked, Series, sends_bursts};
use fwdlab_model::campaign::value::Rate;
use fwdlab_model::campaign::{Engine, Procedure};
use fwdlab_model::link::{Line, LinkLoad, LinkSpeed};
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::{FrameSize, Load};
use fwdlab_model::variant::Variant;

use super::Global;
use super::run::{self, random_seed};
use super::test_bed;
use super::traffic::TrafficOptions;
use crate::exit_code::{self, Code, Usage};

/// On what is measured, and with which frames beside their size.
#[derive(Debug, Args)]
pub struct Arrangement {
    /// Largest load: 1e6 (frames per second), 10kpps, 100Mbps (L1), 50% of --link [default: what the tester can offer]
    #[arg(long, value_name = "LOAD")]
    pub max: Option<Rate>,
    /// Speed of the links, such as 1G: percentages refer to it, and the load never exceeds its line rate in each
    /// direction; emulated on the test bed
    #[arg(long, value_name = "SPEED")]
    link: Option<LinkSpeed>,
    /// Number of flows
    #[arg(long, value_name = "N", default_value_t = 2000)]
    flows: u32,
    /// Measure IPv6 instead of IPv4
    #[arg(long)]
    ipv6: bool,
    /// Configuration of the DUT: a command in quotes, a file, or a directory (configuration set)
    #[arg(long, value_name = "FILE|DIR|COMMAND")]
    set: Option<String>,
    /// Run configurations and resets of the DUT as processes of the host, with write access to all of its files [default:
    /// isolated from the host; only /tmp is shared for writing]
    #[arg(long)]
    set_unconfined: bool,
    /// Engine: auto takes the fastest that passes the path check; sim simulates DUT and tester
    #[arg(long, default_value = "auto", value_parser = Engine::ALL.map(Engine::name))]
    engine: String,
    /// Properties of the simulated DUT: capacity=1e6,buffer=1000 (keys: fwdlab ndr --help) [default: capacity=1e6]
    #[arg(long, value_name = "KEY=VALUE,...")]
    dut: Option<String>,
    /// Use existing hosts: a test-bed file, or its name in a folder `beds`
    #[arg(long, value_name = "BED", conflicts_with = "dut_cpus")]
    bed: Option<String>,
    /// CPUs of the DUT [default: the last one]
    #[arg(long, value_delimiter = ',', value_name = "CPU")]
    dut_cpus: Vec<usize>,
    #[command(flatten)]
    pub traffic: TrafficOptions,
    /// Explain why each trial was made, and its result
    #[arg(long)]
    pub explain: bool,
    /// Seed of every random choice [default: chosen and recorded; of the simulated DUT: 0]
    #[arg(long)]
    seed: Option<u64>,
}

/// The measurement of a command.
pub(super) struct Measurement {
    /// Kind of the run.
    pub kind: &'static str,
    /// Frame sizes; if empty, the smallest size of the IP version.
    pub sizes: Vec<FrameSize>,
    /// Parameters to store with the run.
    pub values: BTreeMap<String, serde_json::Value>,
    /// The procedure.
    pub procedure: Procedure,
}

impl Arrangement {
    /// Returns true if the DUT is simulated.
    pub fn is_simulated(&self) -> bool {
        self.engine == Engine::Sim.name()
    }

    /// Returns true if the engine can send bursts, or if a suitable one can be selected.
    pub fn can_send_bursts(&self) -> bool {
        self.engine != Mode::XdpLive.name()
    }

    /// Runs the measurement.
    pub fn run(&self, global: &Global, wanted: Measurement) -> anyhow::Result<Code> {
        let privileged = user_namespace::is_root();
        let plan = self.plan(wanted, privileged)?;
        if !privileged && plan.dut().is_none() && self.bed.is_none() {
            user_namespace::enter()?;
        }
        run::carry_out(
            global,
            0,
            |runs, control, listener| start(&plan, runs, control, listener),
            |outcome| {
                let result = fwdlab_report::text::quick(outcome.info, outcome.summary);
                match self.explain {
                    true => format!("{}\n{result}", fwdlab_report::text::explain(outcome.trials)),
                    false => result,
                }
            },
            |_| None,
            exit_code::of_result,
        )
    }

    /// Returns the plan. Reports every error in the options here, before a run is created.
    pub fn plan(&self, wanted: Measurement, privileged: bool) -> anyhow::Result<Plan> {
        let dut = self.dut()?;
        let line = self.line(dut.as_ref());
        let traffic = self.traffic.traffic(dut.is_some(), line)?;
        let bursts = sends_bursts(&wanted.procedure);
        if bursts && traffic.variants.iter().any(Variant::has_own_times) {
            return Err(Usage(
                "--burst: profiles and broadcasts have their own timing; measure bursts without them".into(),
            )
            .into());
        }
        let mut common = self.common(&wanted.sizes, traffic, dut.as_ref(), privileged)?;
        if bursts && common.engine.is_none() {
            common.engine = Some(Mode::AfPacket);
        }
        let max = self.max().or_else(|| wanted.procedure.load());
        let asked = Asked {
            procedure: wanted.procedure,
            sweep: None,
            simulated: dut.is_some(),
            seed: self.seed.unwrap_or(0),
            series: Series {
                of_profile: self.traffic.has_profile(),
                both_directions: self.traffic.both_directions(),
                single_and_random: self.traffic.single_and_random(),
            },
        };
        let suite = Suite { common, asked };
        let plan = Plan::of_suite(wanted.kind, suite, max, dut, wanted.values);
        plan.check_suite().map_err(Usage)?;
        Ok(plan)
    }

    /// Returns the largest load, if one is given.
    pub fn max(&self) -> Option<LinkLoad> {
        let given = self.max.map(|Rate(max)| max);
        given.filter(|max| *max != LinkLoad::Load(Load::Max))
    }

    /// Returns the line rate, if one is given.
    pub fn line(&self, dut: Option<&Dut>) -> Option<Line> {
        fwdlab_lab::run::line(dut, self.link)
    }

    /// Returns what every run needs, with a stream of each size; without sizes, the smallest one of
    /// the IP version.
    pub fn common(
        &self,
        sizes: &[FrameSize],
        traffic: Traffic,
        dut: Option<&Dut>,
        privileged: bool,
    ) -> anyhow::Result<fwdlab_lab::run::Parameters> {
        let version = if self.ipv6 {
            IpVersion::Ipv6
        } else {
            IpVersion::Ipv4
        };
        let smallest = [version.smallest_frame()];
        let sizes = if sizes.is_empty() { &smallest } else { sizes };
        let streams = match &traffic.profile {
            Some(profile) => vec![profile.as_stream()],
            None => (sizes.iter())
                .map(|size| Stream::new(version, *size, self.flows))
                .collect::<Result<Vec<_>, _>>()?,
        };
        let configuration = self.set.as_ref().map(|typed| Configuration::parse(typed));
        let (site, placement, preferred) = match (&self.bed, dut) {
            (Some(name), _) => test_bed::of_command(name, test_bed::find(Path::new(""), name)?)?,
            (None, Some(_)) => (Site::default(), Placement::default(), Engine::Auto),
            (None, None) => (
                Site::default(),
                Placement::choose(&self.dut_cpus)?,
                Engine::Auto,
            ),
        };
        Ok(fwdlab_lab::run::Parameters {
            streams,
            traffic,
            load: None,
            line: self.line(dut),
            configuration: configuration.transpose()?,
            telemetry: dut.is_none().then(Wanted::default),
            unconfined: self.set_unconfined,
            is_managed: false,
            dut: fwdlab_model::campaign::Dut::default(),
            engine: Mode::named(&self.engine).or_else(|| Mode::named(preferred.name())),
            site,
            placement,
            privileged,
            seed: match dut {
                Some(dut) => dut.seed,
                None => self.seed.unwrap_or_else(random_seed),
            },
            command_line: std::env::args().collect(),
        })
    }

    /// Returns the simulated DUT, if there is one.
    pub fn dut(&self) -> Result<Option<Dut>, Usage> {
        if !self.is_simulated() {
            return match &self.dut {
                Some(_) => Err(Usage(
                    "--dut describes a simulated DUT: add --engine sim".into(),
                )),
                None => Ok(None),
            };
        }
        if self.set.is_some() || self.bed.is_some() || !self.dut_cpus.is_empty() {
            return Err(Usage(
                "--set, --bed and --dut-cpus are for a test bed, not for --engine sim".into(),
            ));
        }
        let text = self.dut.as_deref().unwrap_or("capacity=1e6");
        let mut dut = Dut::parse(text).map_err(|error| Usage(format!("--dut: {error}")))?;
        if let Some(speed) = self.link {
            let said = dut.set_link(speed);
            said.map_err(|why| Usage(format!("--link: {why}")))?;
        }
        if let Some(seed) = self.seed {
            if text.contains("seed") {
                return Err(Usage(
                    "--seed and seed= in --dut: give only one of them".into(),
                ));
            }
            dut.seed = seed;
        }
        Ok(Some(dut))
    }
}
