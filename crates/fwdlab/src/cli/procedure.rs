//! Shared by all commands that run a procedure: the options of the arrangement, and the campaign
//! that they make.
//!
//! A command defines the frame sizes and the procedure. Start with [`Arrangement`].

use clap::Args;
use fwdlab_model::campaign::value::Rate;
use fwdlab_model::campaign::{Bed, Draft, Engine, FLOWS, Order, Procedure, Several, Size};
use fwdlab_model::link::{LinkLoad, LinkSpeed};
use fwdlab_model::trial::IpVersion;
use fwdlab_model::units::{FrameSize, Load};

use super::Global;
use super::command::{self, PrintCampaign, engine};
use super::traffic::TrafficOptions;
use crate::exit_code::{Code, Usage};

/// On what is measured, and with which frames beside their size.
#[derive(Debug, Args)]
pub struct Arrangement {
    /// Largest load: 1e6 (frames per second), 10kpps, 100Mbps (L1), 50% of --link [default: what
    /// the tester can offer]
    #[arg(long, value_name = "LOAD")]
    pub max: Option<Rate>,
    /// Speed of the links, such as 1G: percentages refer to it, and the load never exceeds its line
    /// rate in each direction; emulated on the test bed
    #[arg(long, value_name = "SPEED")]
    link: Option<LinkSpeed>,
    /// Number of flows
    #[arg(long, value_name = "N", default_value_t = FLOWS)]
    flows: u32,
    /// Measure IPv6 instead of IPv4
    #[arg(long)]
    ipv6: bool,
    /// Configuration of the DUT: a command in quotes, a file, or a directory (configuration set)
    #[arg(long, value_name = "FILE|DIR|COMMAND")]
    set: Option<String>,
    /// Run configurations and resets of the DUT as processes of the host, with write access to all
    /// of its files [default: isolated from the host; only /tmp is shared for writing]
    #[arg(long)]
    set_unconfined: bool,
    /// Engine: auto takes the fastest that passes the path check; sim simulates DUT and tester
    #[arg(long, default_value = "auto", value_parser = Engine::ALL.map(Engine::name))]
    engine: String,
    /// Threads that send into each port, each through its own queue and on its own CPU [default:
    /// those of the test bed, or as many as the load needs according to the self-test]
    #[arg(long, value_name = "N", value_parser = super::senders())]
    senders: Option<u32>,
    /// Properties of the simulated DUT: capacity=1e6,buffer=1000 (keys: fwdlab ndr --help)
    /// [default: capacity=1e6]
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
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=command::LARGEST_SEED))]
    seed: Option<u64>,
    #[command(flatten)]
    print: PrintCampaign,
}

impl Arrangement {
    /// Runs the measurement.
    pub fn run(&self, global: &Global, draft: &Draft) -> anyhow::Result<Code> {
        let shown = |run: &fwdlab_report::run::Run<'_>| {
            let mut result = fwdlab_report::text::quick(run.info, run.summary);
            if self.explain {
                result.plain(&format!("\n{}\n", fwdlab_report::text::explain(run.trials)));
            }
            result
        };
        command::run(global, draft, self.print, shown, |_| None)
    }

    /// Returns the campaign of a command: frames of these sizes, or of the smallest size of the IP
    /// version, measured by this procedure.
    pub fn draft(
        &self,
        name: &str,
        sizes: Vec<FrameSize>,
        procedure: Procedure,
    ) -> anyhow::Result<Draft> {
        let engine = engine(&self.engine);
        let is_simulated = engine == Engine::Sim;
        if self.dut.is_some() && !is_simulated {
            return Err(Usage("--dut describes a simulated DUT: add --engine sim".into()).into());
        }
        let is_on_bed = self.set.is_some()
            || self.bed.is_some()
            || !self.dut_cpus.is_empty()
            || self.senders.is_some();
        if is_simulated && is_on_bed {
            return Err(Usage(
                "--set, --bed, --dut-cpus and --senders are for a test bed, not for --engine sim"
                    .into(),
            )
            .into());
        }
        let has_seed = self.dut.as_ref().is_some_and(|dut| dut.contains("seed"));
        let max = self.max;
        let mut draft = Draft {
            order: Order::Together,
            seed: match is_simulated && !has_seed {
                true => Some(self.seed.unwrap_or(0)),
                false => self.seed,
            },
            bed: Bed {
                file: self.bed.clone(),
                engine,
                dut: self.dut.clone(),
                dut_cpus: self.dut_cpus.clone(),
                senders: self.senders,
                link: self.link,
                max: max.filter(|Rate(max)| *max != LinkLoad::Load(Load::Max)),
                unconfined: self.set_unconfined,
            },
            telemetry: self.bed.is_some(),
            ..Draft::new(name, procedure)
        };
        draft.set(self.set.as_deref())?;
        if !self.traffic.has_profile() {
            let sizes = sizes.into_iter().map(Size::from).collect::<Vec<_>>();
            draft.matrix.size = (!sizes.is_empty()).then_some(Several(sizes));
            draft.matrix.flows = (self.flows != FLOWS).then(|| Several(vec![self.flows]));
            draft.matrix.ip = self.ipv6.then(|| Several(vec![IpVersion::Ipv6]));
        }
        self.traffic.add_to(&mut draft)?;
        Ok(draft)
    }
}
