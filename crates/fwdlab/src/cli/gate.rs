//! `fwdlab gate`: judges a change by the instructions that a frame takes. Start with [`Gate::run`].

use clap::Args;
use fwdlab_model::campaign::value::Share;
use fwdlab_model::campaign::{
    Draft, Exact, Kind, Matrix, OnFailure, PLAIN, Procedure, Reference, Several, Size, Threshold,
};
use fwdlab_model::trial::IpVersion;
use fwdlab_model::units::FrameSize;

use super::Global;
use super::command::{self, PrintCampaign};
use crate::exit_code::{Code, Usage};

/// The kind of the run.
const KIND: &str = "gate";

/// Judge a change by instructions per frame: does head take more than base?
///
/// Base and head are images; with --vm they are configurations on one image: rules, a script, a
/// directory, an eBPF object. Both boot in virtual machines that count instructions, on any
/// machine, without privileges.
///
/// Exits with 0 if no increase above --by is proven and one of that size would have shown, with 6
/// if one is proven, with 5 if the result is inconclusive, and with 7 if base or head has none.
/// `fwdlab report @1` has the result for GitHub, JUnit and tools that track benchmarks.
#[derive(Debug, Args)]
pub struct Gate {
    /// What the change is compared with: an image, such as debian:PACKAGE, a bzImage or a kernel
    /// tree; with --vm a configuration, or `plain`
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "IMAGE|CONFIGURATION",
        required_unless_present = "base_run"
    )]
    base: Option<String>,
    /// Compare with a stored run of the base instead of measuring it again: its id, its tag, or the
    /// file that `fwdlab runs show RUN --json` printed
    #[arg(long, value_name = "RUN|FILE", conflicts_with = "base")]
    base_run: Option<String>,
    /// The change, in the same form as the base
    #[arg(long, value_name = "IMAGE|CONFIGURATION", allow_hyphen_values = true)]
    head: String,
    /// Base and head are configurations of the DUT on this image
    #[arg(long, value_name = "IMAGE", conflicts_with = "with")]
    vm: Option<String>,
    /// The kind of DUT; base and head of testpmd are a program, its options, or both; of ovs-dpdk a
    /// program, or commands such as ovs-ofctl; of vpp a program, or lines of its command line
    #[arg(long, value_name = "linux|testpmd|ovs-dpdk|vpp", default_value = "linux", value_parser = super::quick::parse_kind)]
    dut_kind: Kind,
    /// Compare the images with this configuration, too; may be repeated
    #[arg(long, value_name = "FILE|DIR|COMMAND")]
    with: Vec<String>,
    /// The largest increase that passes
    #[arg(long, value_name = "SHARE", default_value = "0.5%")]
    by: Share,
    /// Boots of each test case
    #[arg(short = 'n', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    iterations: u32,
    /// Frame size in bytes, including the FCS [default: the smallest]
    #[arg(long, value_name = "BYTES")]
    size: Option<FrameSize>,
    /// Number of flows
    #[arg(long, value_name = "N", default_value_t = 2000)]
    flows: u32,
    /// Measure IPv6
    #[arg(long)]
    ipv6: bool,
    /// Frames of a burst, a multiple of 32
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = Exact::parse_frames)]
    frames: u32,
    /// Seed of every random choice [default: chosen and recorded]
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=command::LARGEST_SEED))]
    seed: Option<u64>,
    #[command(flatten)]
    print: PrintCampaign,
}

impl Gate {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let draft = self.draft()?;
        let text =
            |run: &fwdlab_report::run::Run<'_>| fwdlab_report::text::quick(run.info, run.summary);
        command::run(global, &draft, self.print, text, |_| None)
    }

    /// Returns the campaign of the command.
    pub(super) fn draft(&self) -> anyhow::Result<Draft> {
        if self.base.as_ref() == Some(&self.head) {
            return Err(Usage(format!(
                "base and head are both {}: give two kernels in different places, or measure the base now and compare with --base-run later",
                self.head
            ))
            .into());
        }
        let mut draft = Draft {
            iterations: self.iterations,
            // without the base or the head there is nothing to judge
            on_failure: OnFailure::End,
            seed: self.seed,
            ..Draft::new(KIND, Procedure::Exact(Exact::default()))
        };
        let mut than = Reference {
            run: self.base_run.clone(),
            configuration: None,
            image: None,
            by: self.by,
        };
        let base = self.base.iter().cloned();
        let (images, configurations) = match &self.vm {
            Some(image) => {
                let sides = base.chain([self.head.clone()]);
                let sides = sides.map(|side| match side.as_str() {
                    PLAIN => Ok(PLAIN.to_owned()),
                    typed => draft.set(Some(typed)),
                });
                let sides = sides.collect::<Result<Vec<_>, _>>()?;
                than.configuration = self.base.as_ref().map(|_| sides[0].clone());
                (vec![image.clone()], sides)
            }
            None => {
                than.image.clone_from(&self.base);
                let mut configurations = vec![PLAIN.to_owned()];
                for typed in &self.with {
                    configurations.extend(draft.configure(typed, PLAIN)?);
                }
                (base.chain([self.head.clone()]).collect(), configurations)
            }
        };
        draft.procedure = Procedure::Exact(Exact {
            frames: self.frames,
            reference: match than.label() {
                Some((_, base)) => base.to_owned(),
                None => configurations[0].clone(),
            },
            ..Exact::default()
        });
        draft.matrix = Matrix {
            size: Some(Several(vec![self.size.map_or(Size::Smallest, Size::from)])),
            flows: Some(Several(vec![self.flows])),
            ip: Some(Several(vec![match self.ipv6 {
                true => IpVersion::Ipv6,
                false => IpVersion::Ipv4,
            }])),
            image: Some(Several(images)),
            configuration: Some(Several(configurations)),
            dut: (!self.dut_kind.is_linux()).then(|| Several(vec![self.dut_kind])),
            ..Matrix::default()
        };
        draft.thresholds.push(Threshold {
            not_slower_than: Some(than),
            ..Threshold::default()
        });
        Ok(draft)
    }
}
