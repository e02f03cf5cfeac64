//! Commands as campaigns: every measuring command makes the [`Draft`] of a campaign, which is
//! printed or measured here.
//!
//! Only where the run is stored, the command line and the texts on the screen do not belong to the
//! campaign. Start with [`run()`].

use std::path::Path;

use clap::Args;
use fwdlab_lab::run::campaign::start;
use fwdlab_model::campaign::value::Share;
use fwdlab_model::campaign::{Draft, Engine};
use fwdlab_model::result::Summary;

use super::Global;
use super::campaign::{Options, enter_namespace, judge, names, plan_of, references};
use super::run::carry_out;
use crate::exit_code::{Code, Usage};
use crate::output;

/// The largest seed that a campaign file can contain.
pub const LARGEST_SEED: u64 = i64::MAX as u64;

/// The option to print the campaign.
#[derive(Debug, Clone, Copy, Args)]
pub struct PrintCampaign {
    /// Print the campaign file of this command and measure nothing: `fwdlab run` of that file, in
    /// this directory, is the same measurement
    #[arg(long)]
    print_campaign: bool,
}

/// Measures the campaign of a command, or prints it.
///
/// `text` returns the result for people, and `next` suggests the next step.
pub(super) fn run(
    global: &Global,
    draft: &Draft,
    print: PrintCampaign,
    text: impl FnOnce(&fwdlab_report::run::Run<'_>) -> output::Text,
    next: impl FnOnce(&Summary) -> Option<String>,
) -> anyhow::Result<Code> {
    let campaign = draft.campaign()?;
    if print.print_campaign {
        output::result(&draft.text()?);
        return Ok(Code::Done);
    }
    let mut plan = plan_of(campaign, Path::new(""), &draft.campaign, Options::default())?;
    let references = references(plan.campaign(), global)?;
    plan.set_references(names(&references));
    enter_namespace(plan.campaign())?;
    carry_out(
        global,
        |runs, control, listener| start(&plan, runs, control, listener),
        |made| judge(plan.campaign(), &references, made),
        text,
        next,
    )
}

/// Returns the share of a percentage that was typed.
pub fn share(option: &str, percent: f64) -> Result<Share, Usage> {
    match (0.0..=100.0).contains(&percent) {
        true => Ok(Share(percent / 100.0)),
        false => Err(Usage(format!(
            "{option} {percent}: give a percentage from 0 to 100"
        ))),
    }
}

/// Returns the engine of this name.
pub fn engine(name: &str) -> Engine {
    let mut all = Engine::ALL.into_iter();
    all.find(|engine| engine.name() == name).unwrap_or_default()
}

/// Returns the plan of a command's campaign, for tests.
#[cfg(test)]
pub fn plan(draft: &Draft) -> anyhow::Result<fwdlab_lab::run::plan::Plan> {
    let (campaign, folder) = (draft.campaign()?, Path::new(""));
    plan_of(campaign, folder, &draft.campaign, Options::default())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use fwdlab_lab::run::plan::{CAMPAIGN, Plan, agenda};
    use fwdlab_model::campaign::Campaign;
    use fwdlab_model::file::Origin;

    use super::*;
    use crate::cli::{Arguments, Command};

    fn draft(line: &str, quoted: &[&str]) -> anyhow::Result<Draft> {
        let words = line.split_whitespace().chain(quoted.iter().copied());
        let arguments = Arguments::try_parse_from(std::iter::once("fwdlab").chain(words))?;
        match arguments.command {
            Command::Quick(command) => command.draft(),
            Command::Gate(command) => command.draft(),
            Command::Trial(command) => command.draft(),
            Command::Ndr(command) => command.draft(),
            Command::Throughput(command) => command.draft(),
            Command::Ramp(command) => command.draft(),
            Command::Rfc2544(command) => command.draft(),
            Command::Soak(command) => command.draft(),
            _ => panic!("{line} measures nothing"),
        }
    }

    /// Returns a plan in comparable form, without the times of its estimates, which depend on the
    /// load of this machine.
    fn comparable(plan: &Plan) -> (Campaign, String) {
        let campaign = Campaign {
            origin: Origin::default(),
            ..plan.campaign().clone()
        };
        let agenda = agenda(plan).unwrap();
        let trials: Vec<u32> = agenda.cases.iter().map(|(trials, _)| *trials).collect();
        let rest = format!(
            "{:?} {:?} {trials:?} {:?} {:?} {}",
            agenda.turns,
            agenda.names,
            agenda.changes,
            plan.dut(),
            plan.seed()
        );
        (campaign, rest)
    }

    /// The file is read by the function that `fwdlab run` uses.
    #[test]
    fn the_printed_campaign_of_every_command_is_the_same_plan() {
        let rules =
            "nft add table ip t; nft add chain ip t f '{ type filter hook forward priority 0; }'";
        let sim = "--engine sim --dut capacity=2e6,link=10G,noise=0.01";
        for (line, quoted) in [
            ("quick --seed 7", &[][..]),
            (
                "quick --seed 7 --ipv4 --ipv6 --size 84,512,84 --flows 7 -n 3",
                &[],
            ),
            (
                "quick --seed 7 --load 50% --link 1G --trial 1500ms --engine af-packet",
                &["--set", rules],
            ),
            (
                "quick --seed 7 --set-unconfined --set true --dut-kind linux",
                &[],
            ),
            (
                "quick --seed 7 --vs true --vs true --for 20s --rebuilds 4",
                &["--vs", rules],
            ),
            (
                "quick --seed 7 --set true --vs generate:nft-rules,n=10+100 --exact debian:x",
                &["--vs", rules],
            ),
            (
                "quick --seed 7 --vm debian:a --vm debian:b --frames 640",
                &["--set", rules],
            ),
            (
                "quick --seed 7 --vm debian:a -n 2",
                &["--set", rules, "--vs", "true"],
            ),
            (
                "gate --seed 7 --base debian:a --head debian:b --with true --by 1% -n 2",
                &["--with", rules],
            ),
            ("gate --seed 7 --vm debian:a --base plain --head", &[rules]),
            (
                "gate --seed 7 --base-run nightly --head debian:a --size 128 --ipv6",
                &[],
            ),
            (
                "trial --seed 7 --load 50% --link 1G --for 2s --sample 100ms --latency",
                &[],
            ),
            (
                "ndr --seed 7 --min 10kpps --warm-up 0s --early-end no --ipv6 --size 128",
                &["--goal", "loss=1%"],
            ),
            (
                "throughput --seed 7 --sizes 64,512 --resolution 2 --flows 3",
                &["--set", rules],
            ),
            (
                "ramp --seed 7 --target 1.5Mpps --ramp 90s --up-down --threshold 0.5 --profile imix",
                &[],
            ),
            (
                "rfc2544 --seed 7 --full --destinations both --both-directions --modifier updates=10s --modifier all",
                &["--reset", "command: echo 'a \"b\"'"],
            ),
            (
                "rfc2544 --seed 7 --sizes 64,128 --tests bursts,latency --burst 4 --latency-at 50,100",
                &[],
            ),
            (
                "rfc2544 --seed 7 --profile imix --latency rfc2544 --repetitions 2 --trial 3s --search 2s",
                &[],
            ),
            ("soak --seed 7 --load 1e5 --loss 0.01 --for 1h", &[]),
            ("soak --seed 7 --min 20kpps --loss 1e-6 --max 1Mpps", &[]),
            ("trial --max max", &sim.split(' ').collect::<Vec<_>>()),
            ("soak --dut seed=3 --engine sim", &[]),
            ("ndr --seed 9", &sim.split(' ').collect::<Vec<_>>()),
        ] {
            let draft = draft(line, quoted).unwrap_or_else(|e| panic!("{line}: {e:#}"));
            let own = plan(&draft).unwrap_or_else(|e| panic!("{line}: {e:#}"));
            let file = Campaign::parse("printed.toml", &draft.text().unwrap()).unwrap();
            let folder = Path::new("");
            let of_file = plan_of(file, folder, CAMPAIGN, Options::default()).unwrap();
            assert_eq!(comparable(&own), comparable(&of_file), "{line}");
            assert_eq!(own.campaign().procedure, draft.procedure, "{line}");
            assert_eq!(own.campaign().bed, draft.bed, "{line}");
        }
    }
}
