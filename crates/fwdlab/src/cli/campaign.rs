//! `fwdlab run`, `plan` and `check`: run a campaign, show its plan, or check files without touching
//! anything.
//!
//! What a campaign means is defined in `model`, how it is run in `lab`. Start with [`Run::run`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use fwdlab_engine::Mode;
use fwdlab_lab::LabError;
use fwdlab_lab::control::Control;
use fwdlab_lab::dut::Configuration;
use fwdlab_lab::networks::Networks;
use fwdlab_lab::placement::{Placement, available_cpus};
use fwdlab_lab::promise::{Arrangement, Chosen as Generator, Outlook, Verdict, choose, outlook};
use fwdlab_lab::run::campaign::{go_on, start};
use fwdlab_lab::run::expect::earlier;
use fwdlab_lab::run::needs;
use fwdlab_lab::run::plan::{self, Agenda, Host, agenda};
use fwdlab_lab::run::resume::{self, CutOff};
use fwdlab_lab::run::traffic::ProfileFrames;
use fwdlab_lab::site::Site;
use fwdlab_lab::user_namespace;
use fwdlab_measure::expect::expected;
use fwdlab_measure::machine::sends_bursts;
use fwdlab_measure::shard::Shard;
use fwdlab_model::campaign::{Campaign, Case, Counting, Engine, Kind, Order, Selection};
use fwdlab_model::file::did_you_mean;
use fwdlab_model::link::LinkSpeed;
use fwdlab_model::profile::Profile;
use fwdlab_model::result::RunInfo;
use fwdlab_model::system::System;
use fwdlab_model::test_bed::{BedFile, TestBed};
use fwdlab_report::compare::Source;
use fwdlab_report::number::{self, counted, plural, seconds};
use fwdlab_report::thresholds;
use fwdlab_store::{StoredRun, resolve};
use serde_json::json;

use super::run::{self, random_seed};
use super::trex_frames;
use super::{Global, run_screen, test_bed, trex_profile};
use crate::catalogue;
use crate::exit_code::{Code, Usage};
use crate::output::{self, Level};
use crate::profiles;
use crate::tui::theme::Symbols;

/// Run a campaign: measure every test case of a file, unattended
///
/// Test cases are measured in randomised blocks, each on its own test bed. A test case that fails
/// is reported with its reason, and the campaign continues. `fwdlab plan` shows what a campaign
/// will do; docs/reference/campaigns.md describes the file.
///
/// An interrupted run continues with --resume: finished iterations are kept, the one that was being
/// measured is repeated, and the result records the gap.
#[derive(Debug, Args)]
pub struct Run {
    /// Campaign file, or a name from the catalogue [default with --resume and --retry: the file of
    /// that run]
    #[arg(value_name = "CAMPAIGN.toml|NAME", required_unless_present_any = ["resume", "retry", "list"])]
    file: Option<PathBuf>,
    /// List the catalogue: the built-in campaigns, the question that each answers, and what it
    /// needs
    #[arg(long, conflicts_with_all = ["file", "resume", "retry"])]
    list: bool,
    /// Continue this run, which was interrupted, killed or failed
    #[arg(long, value_name = "RUN", conflicts_with_all = ["set_unconfined", "seed", "only", "retry"])]
    resume: Option<String>,
    /// Start a new run that repeats the incomplete test cases of this run, with all of their
    /// iterations
    #[arg(long, alias = "failed-of", value_name = "RUN")]
    retry: Option<String>,
    /// Measure only these test cases: names or KEY:VALUE with `*` and `?`, such as
    /// "configuration:nft-* size:64,128 !ip:ipv6"
    #[arg(long, value_name = "EXPR")]
    only: Option<Selection>,
    /// Measure only this part of the campaign, such as 3/16, and the others anywhere else; fwdlab
    /// runs merge joins them
    #[arg(long, value_name = "N/OF", conflicts_with_all = ["resume", "retry"])]
    shard: Option<Shard>,
    /// Measure on this test bed, a file or its name in a folder `beds`, and not on that of the
    /// campaign
    #[arg(long, value_name = "BED", conflicts_with = "resume")]
    bed: Option<String>,
    /// Number of guests at a time that count instructions, if memory permits [default: two for each
    /// CPU, as far as they fit into memory]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    jobs: Option<usize>,
    /// Wait until the test bed is free, after runs that wait already, instead of failing
    #[arg(long)]
    wait: bool,
    /// Run configurations of the DUT as processes of the host, with write access to all of its
    /// files [default: isolated from the host; only /tmp is shared for writing]
    #[arg(long)]
    set_unconfined: bool,
    /// Seed of every random choice, if the file has none [default: chosen and recorded]
    #[arg(long)]
    seed: Option<u64>,
    /// Print lines instead of showing the full screen; implied by -q and -v
    #[arg(long)]
    plain: bool,
    /// Characters for charts and borders of the full screen [default: by LANG and TERM]
    #[arg(long, value_enum)]
    symbols: Option<Symbols>,
    /// It is the process that measures for another one, which shows it
    #[arg(long, hide = true)]
    behind_a_screen: bool,
}

/// Show what a campaign will do: test cases, time, changes to hosts
///
/// Changes nothing.
#[derive(Debug, Args)]
pub struct Plan {
    /// Campaign file, or a name from the catalogue
    #[arg(value_name = "CAMPAIGN.toml|NAME")]
    file: PathBuf,
    /// Seed of every random choice, if the file has none [default: chosen]
    #[arg(long)]
    seed: Option<u64>,
    /// Only these test cases, as for `fwdlab run`
    #[arg(long, value_name = "EXPR")]
    only: Option<Selection>,
    /// Only this part, as for `fwdlab run`
    #[arg(long, value_name = "N/OF")]
    shard: Option<Shard>,
    /// On this test bed, as for `fwdlab run`
    #[arg(long, value_name = "BED")]
    bed: Option<String>,
}

/// Check campaigns, traffic profiles and configuration sets
///
/// Changes nothing.
#[derive(Debug, Args)]
pub struct Check {
    /// Files, names from the catalogue, or directories of configuration sets
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Check campaigns without a test bed for a DUT of this kind: linux, freebsd, bsdrp, vpp, none
    #[arg(long, value_name = "KIND")]
    dut: Option<String>,
}

impl Run {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        if self.list {
            return list(global);
        }
        if self.behind_a_screen {
            run_screen::leave_terminal()?;
        } else if !self.plain && run_screen::wants_screen(global) {
            return run_screen::run(global, self.symbols, self.wait);
        }
        let global = &Global {
            behind_a_screen: self.behind_a_screen,
            ..global.clone()
        };
        // while still root: only a user who can write to the run may resume it
        let cut = match &self.resume {
            Some(name) => Some(
                match resume::reopen(&resolve(&global.runs_roots()?, name)?) {
                    // the user named a run that cannot be resumed
                    Err(LabError::Preflight(reason)) => return Err(Usage(reason).into()),
                    opened => opened?,
                },
            ),
            None => None,
        };
        let mut plan = match &cut {
            Some(cut) => self.again(cut)?,
            None => self.plan(global)?,
        };
        if let Some(jobs) = self.jobs {
            plan.set_jobs(jobs).map_err(Usage)?;
        }
        // check now: a missing reference run would otherwise show up only after days; a shard is
        // not judged, because it may lack what its test cases are compared with
        let references = match plan.is_shard() {
            true => Vec::new(),
            false => references(plan.campaign(), global)?,
        };
        plan.set_references(names(&references));
        let campaign = plan.campaign();
        let lacking = lacking_here(campaign);
        if !lacking.is_empty() {
            return Err(LabError::Preflight(format!(
                "{} needs what this machine does not have: {}. Install it, or measure a DUT that has it: --bed NAME",
                campaign.name,
                lacking.join(", ")
            ))
            .into());
        }
        enter_namespace(campaign)?;
        run::carry_out(
            global,
            |runs, control, listener| {
                if self.wait {
                    wait_for_bed(&plan, control, !global.quiet)?;
                }
                match cut {
                    Some(cut) => go_on(&plan, runs, cut, control, listener),
                    None => start(&plan, runs, control, listener),
                }
            },
            |made| {
                if !plan.is_shard() {
                    judge(campaign, &references, made);
                }
            },
            |run| fwdlab_report::text::quick(run.info, run.summary),
            |_| None,
        )
    }

    /// Returns the plan of a new run.
    fn plan(&self, global: &Global) -> anyhow::Result<plan::Plan> {
        let failed = match &self.retry {
            Some(name) => Some(fwdlab_store::load(&resolve(&global.runs_roots()?, name)?)?),
            None => None,
        };
        let file = match (&self.file, &failed) {
            (Some(file), _) => file.clone(),
            (None, Some(failed)) => file_of(&failed.info)?,
            (None, None) => return Err(Usage("name the file of a campaign".into()).into()),
        };
        let without = failed.as_ref().map(without_result).transpose()?;
        let chosen = Options {
            seed: self.seed,
            unconfined: self.set_unconfined,
            only: self.only.clone(),
            shard: self.shard,
            bed: self.bed.clone(),
            named: without,
            dut: None,
            generator: None,
        };
        let mut plan = read(&file, chosen)?;
        if let Some(failed) = &failed {
            plan.keep(RETRY_OF, failed.info.id.clone());
        }
        keep_place(&mut plan, &file);
        Ok(plan)
    }

    /// Returns the plan of the run to resume.
    fn again(&self, cut: &CutOff) -> anyhow::Result<plan::Plan> {
        let info = cut.info();
        let output = |name: &str| info.parameters.get(name);
        let file = match &self.file {
            Some(file) => file.clone(),
            None => file_of(info)?,
        };
        let now = text(&file)?;
        let kept = cut.campaign()?.unwrap_or_else(|| now.clone());
        if now != kept {
            return Err(Usage(format!(
                "cannot resume {}: {} has changed since the run began; the original is inputs/campaign.toml in the folder of the run. \
                 Restore it, or start the campaign again",
                info.id,
                file.display()
            ))
            .into());
        }
        let has_seed = Campaign::parse(&file.display().to_string(), &kept)?
            .seed
            .is_some();
        let only = output("only").and_then(|only| only.as_str());
        let shard = output("shard").and_then(|shard| shard.as_str());
        let bed = output(BED).and_then(|bed| bed.as_str());
        let named = output(RETRY_OF)
            .or_else(|| output("failed_of"))
            .and_then(|_| {
                let cases = output("test_cases")?.as_array()?.iter();
                Some(
                    cases
                        .filter_map(|case| Some(case.as_str()?.to_owned()))
                        .collect(),
                )
            });
        let chosen = Options {
            seed: (!has_seed).then_some(info.seed),
            unconfined: output("set_unconfined").is_some(),
            only: only.map(str::parse).transpose().map_err(Usage)?,
            shard: shard.map(str::parse).transpose().map_err(Usage)?,
            bed: bed.map(str::to_owned),
            named,
            dut: None,
            // today's self-test may promise something else
            generator: Some(Generator {
                senders: output("senders")
                    .and_then(serde_json::Value::as_u64)
                    .map_or(1, |senders| senders as u32),
                engine: output(plan::FIRST_ENGINE).and_then(|engine| Mode::named(engine.as_str()?)),
                reason: None,
            }),
        };
        let mut plan = read(&file, chosen)?;
        // `latest` may be another run by now: use the runs recorded at the start
        let runs = output("threshold_runs").and_then(|runs| runs.as_array());
        let runs = runs.into_iter().flatten();
        plan.set_references(runs.map(|run| run.as_str().map(str::to_owned)));
        // `failed_of` is the name in runs of earlier versions
        for name in [RETRY_OF, "failed_of", "file"] {
            if let Some(value) = output(name) {
                plan.keep(name, value.clone());
            }
        }
        Ok(plan)
    }
}

/// Waits until the test bed is free. Shows the place in the queue whenever it changes.
fn wait_for_bed(plan: &plan::Plan, control: &Control, is_shown: bool) -> Result<(), LabError> {
    let mut shown = None;
    plan.site().wait_for_turn(control, &mut |queue| {
        if is_shown && shown.as_ref() != Some(queue) {
            let holder = queue
                .holder
                .as_ref()
                .map(|holder| format!(", used by {holder}"));
            output::note(&format!(
                "waiting   position {} in the queue for {}{}",
                queue.ahead + 1,
                queue.of,
                holder.unwrap_or_default()
            ));
            shown = Some(queue.clone());
        }
    })
}

/// Name of the parameter that records the test bed, if it is not that of the campaign.
const BED: &str = "bed";

/// Name of the parameter that records which run is retried.
const RETRY_OF: &str = "retry_of";

/// Records the path of the campaign file, so that resuming does not need it as an argument.
fn keep_place(plan: &mut plan::Plan, file: &Path) {
    // entries of the catalogue need no path
    if file.to_str().and_then(catalogue::find).is_some() && !file.exists() {
        plan.keep("file", file.display().to_string());
        return;
    }
    // if the path is unknown, the user must pass it
    if let Ok(file) = std::path::absolute(file) {
        plan.keep("file", file.display().to_string());
    }
}

/// Returns the path of the campaign file of a run.
fn file_of(info: &RunInfo) -> anyhow::Result<PathBuf> {
    let file = info.parameters.get("file").and_then(|file| file.as_str());
    let file = file.ok_or_else(|| {
        Usage(format!(
            "{} does not record the path of its campaign file: give it before the options",
            info.id
        ))
    })?;
    Ok(file.into())
}

/// Returns the test cases of a run with incomplete iterations.
fn without_result(run: &StoredRun) -> anyhow::Result<BTreeSet<String>> {
    let id = &run.info.id;
    let summary = run.summary.as_ref().filter(|_| run.info.kind == "campaign");
    let summary = summary.ok_or_else(|| {
        Usage(match run.info.kind.as_str() {
            "campaign" => {
                format!("{id} was interrupted and has no result: continue it with --resume {id}")
            }
            kind => format!("{id} is a run of `{kind}`, not of a campaign"),
        })
    })?;
    let cases = summary.test_cases.iter();
    let failed = cases.filter(|case| case.failures().next().is_some() || case.figures.is_empty());
    let failed: BTreeSet<String> = failed.map(|case| case.test_case.clone()).collect();
    match failed.is_empty() {
        true => Err(Usage(format!("every iteration of {id} has its result")).into()),
        false => Ok(failed),
    }
}

impl Plan {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let chosen = Options {
            seed: self.seed,
            only: self.only.clone(),
            shard: self.shard,
            bed: self.bed.clone(),
            ..Options::default()
        };
        let parameters = read(&self.file, chosen)?;
        let campaign = parameters.campaign();
        let agenda = agenda(&parameters)?;
        references(campaign, global)?;
        let earlier = earlier(campaign, &global.runs_roots()?);
        let expected = expected(campaign, &earlier);
        let (least, longest) = (agenda.least, (agenda.trials, agenda.time));
        let ids: Vec<String> = campaign.cases.iter().map(Case::id).collect();
        if global.json {
            let turns = agenda.turns.iter().map(|turn| {
                let (trials, time) = agenda.cases[turn.case];
                json!({
                    "test_case": agenda.names[turn.case], "iteration": turn.iteration,
                    "trials": trials, "estimate_s": time.as_secs_f64(),
                })
            });
            output::json(&json!({
                "campaign": campaign.name, "procedure": campaign.procedure.id(), "seed": parameters.seed(),
                "trials": agenda.trials, "estimate_s": agenda.time.as_secs_f64(),
                "least_trials": least.0, "least_estimate_s": least.1.as_secs_f64(),
                "turns": turns.collect::<Vec<_>>(), "changes": agenda.changes, "generator": parameters.outlook(),
                "thresholds": campaign.thresholds.iter().map(thresholds::words).collect::<Vec<_>>(),
                "expected": expected.map(|expected| json!({
                    "detectable_percent": expected.detectable_percent,
                    "detectable_at_least_percent": expected.detectable_at_least_percent,
                    "half_width_percent": expected.half_width_percent,
                    "variation_percent": expected.variation_percent,
                    "paired": expected.paired,
                    "known_from_figures": expected.known_from.0,
                    "known_from_runs": expected.known_from.1,
                })),
            }))?;
            return Ok(Code::Done);
        }
        let simulated = campaign.is_simulated();
        // `run` refuses it for the same reasons
        let mut answer = match lacking_here(campaign) {
            lacking if lacking.is_empty() => String::new(),
            lacking => format!("Cannot run here: it needs {}. ", lacking.join(", ")),
        };
        answer += &format!(
            "About {}{} for {} of {}.",
            match least == longest {
                true => time_of(longest.1),
                false => format!("{} to {}", time_of(least.1), time_of(longest.1)),
            },
            if simulated { " of simulated time" } else { "" },
            match least == longest {
                true => counted(agenda.trials, "trial"),
                false => format!("{} to {}", least.0, counted(agenda.trials, "trial")),
            },
            plural(ids.len(), "test case"),
        );
        let is_too_much = |one: &Outlook| one.verdict == Verdict::TooMuch;
        if parameters.outlook().iter().any(is_too_much) {
            answer += " It asks more of the generator than the self-test promises (below).";
        }
        let mut text = fwdlab_report::table::wrap(&answer, WIDTH, "") + "\n";
        let title = match campaign.about.as_str() {
            "" => campaign.name.clone(),
            about => format!("{}: {about}", campaign.name),
        };
        let content = format!(
            "{} by {}, {} each, seed {}",
            plural(ids.len(), "test case"),
            procedure(campaign),
            campaign.iterations_in_words(),
            parameters.seed(),
        );
        for paragraph in [title, content] {
            text += &fwdlab_report::table::wrap(&paragraph, WIDTH, "");
        }
        text.push('\n');
        let fewest = campaign
            .until
            .map_or(campaign.iterations, |until| until.min);
        text += &turns(&agenda, fewest);
        if agenda.names.len() > 1 && fewest > 1 {
            text += match campaign.order {
                Order::Interleaved => " each iteration has another random order; --json lists it\n",
                Order::Grouped => " all iterations of a test case, then those of the next\n",
                Order::Together => "",
            };
        }
        if let Some(until) = campaign
            .until
            .filter(|until| until.min < campaign.iterations)
        {
            let (next, last, width) = (until.min + 1, campaign.iterations, until.width);
            text += &format!(
                " {next} to {last}, of test cases whose interval is wider than {width} by then\n"
            );
        }
        if let Some(expected) = &expected {
            text += "\nshows\n";
            let words = expected.words(&campaign.iterations_in_words());
            text += &fwdlab_report::table::wrap(&words, WIDTH, "  ");
        }
        if !campaign.thresholds.is_empty() {
            text += "\nthresholds\n";
            for threshold in &campaign.thresholds {
                text += &fwdlab_report::table::wrap(&thresholds::words(threshold), WIDTH, "  ");
            }
        }
        if !parameters.outlook().is_empty() {
            text += "\ngenerator\n";
        }
        for words in generator_words(parameters.outlook()) {
            text += &fwdlab_report::table::wrap(&words, WIDTH, "  ");
        }
        text += "\nchanges\n";
        for change in &agenda.changes {
            text += &fwdlab_report::table::wrap(change, WIDTH, "  ");
        }
        output::answer(Level::Plain, text);
        Ok(Code::Done)
    }
}

/// Returns what the generator promises for the loads of a plan: a line for each, and one for all of
/// which the same is unknown.
fn generator_words(outlook: &[Outlook]) -> Vec<String> {
    let frames = |one: &Outlook| format!("{} B {}", one.frame_size_bytes, one.ip_version);
    let mut lines = Vec::new();
    let mut unknown: Vec<(&Outlook, Vec<String>)> = Vec::new();
    for one in outlook {
        let Some(promised_pps) = one.promised_pps else {
            let same = |(other, _): &&mut (&Outlook, Vec<String>)| {
                (&other.cannot_tell, &other.advice) == (&one.cannot_tell, &one.advice)
            };
            match unknown.iter_mut().find(same) {
                Some((_, of)) => of.push(frames(one)),
                None => unknown.push((one, vec![frames(one)])),
            }
            continue;
        };
        let date = one.measured_at.as_deref().unwrap_or_default();
        let promise = format!(
            "{} with {} promises {} (self-test of {})",
            one.engine.unwrap_or_default(),
            plural(one.senders as usize, "sender"),
            number::rate(promised_pps),
            date.split('T').next().unwrap_or_default(),
        );
        let load = one.load_pps.map_or("no load is given".into(), number::rate);
        let advice = one.advice.as_deref().unwrap_or_default();
        lines.push(match one.verdict {
            Verdict::TooMuch => format!(
                "warning: {}: {load} is too much: {promise}; {advice}",
                frames(one)
            ),
            _ => format!("{}: {load}; {promise}", frames(one)),
        });
    }
    lines.extend(unknown.into_iter().map(|(one, frames)| {
        let reason = one.cannot_tell.as_deref().unwrap_or_default();
        let advice = one
            .advice
            .iter()
            .map(|advice| format!(". To find out: {advice}"));
        format!(
            "cannot tell how much it sends of {}: {reason}{}",
            frames.join(", "),
            advice.collect::<String>()
        )
    }));
    lines
}

/// Columns of the output of `plan`.
const WIDTH: usize = 80;

fn time_of(time: Duration) -> String {
    seconds(time.as_secs_f64().round())
}

/// Returns what is measured, in the order of the first iteration: one line per test case, with its
/// number of measurements.
fn turns(agenda: &Agenda, iterations: u32) -> String {
    let mut once: Vec<usize> = Vec::new();
    for turn in &agenda.turns {
        if !once.contains(&turn.case) {
            once.push(turn.case);
        }
    }
    let (which, each) = match iterations {
        0 | 1 => ("1".to_owned(), ""),
        last => (format!("1 to {last}"), " each"),
    };
    let figures: Vec<String> = (agenda.cases.iter())
        .map(|(trials, time)| {
            let unit = if *trials == 1 { "trial " } else { "trials" };
            format!("  {trials:>4} {unit}  ~{}{each}", time_of(*time))
        })
        .collect();
    let widest = |texts: &[String]| texts.iter().map(|text| text.chars().count()).max();
    let name = widest(&agenda.names).unwrap_or(0);
    let before = which.len() + 3;
    let fits = before + name + widest(&figures).unwrap_or(0) <= WIDTH;
    let mut text = String::new();
    for case in once {
        let (own, figures) = (&agenda.names[case], &figures[case]);
        text += &match fits {
            true => format!(" {which}  {own:<name$}{figures}\n"),
            // do not shorten names: users type them in other commands
            false => {
                let own = fwdlab_report::table::wrap(own, WIDTH, &" ".repeat(before));
                format!(
                    " {which}  {}{:before$}{}\n",
                    &own[before..],
                    "",
                    figures.trim_start()
                )
            }
        };
    }
    text
}

/// Returns the needs of the embedded test bed that this machine does not meet.
fn lacking_here(campaign: &Campaign) -> Vec<&str> {
    match !campaign.is_simulated() && campaign.bed.file.is_none() {
        true => catalogue::lacking(&campaign.needs),
        false => Vec::new(),
    }
}

impl Check {
    /// Checks all files; returns a usage error if one of them is invalid.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let mut reported = Vec::new();
        let mut code = Code::Done;
        for file in &self.files {
            let (words, error) = match check(file, self.dut.as_deref()) {
                Ok(words) => (Some(words), None),
                Err(error) => {
                    code = Code::Usage;
                    (None, Some(format!("{error:#}")))
                }
            };
            if !global.json {
                match (&words, &error) {
                    (Some(words), _) => {
                        output::lines(&format!("ok    {}  {words}", file.display()))
                    }
                    (None, Some(error)) => output::lines(&format!("wrong {error}")),
                    (None, None) => {}
                }
            }
            reported.push(
                json!({ "file": file, "ok": words.is_some(), "what": words, "error": error }),
            );
        }
        if global.json {
            output::json(&reported)?;
        }
        Ok(code)
    }
}

/// Returns the reference runs of the thresholds, one entry per threshold.
pub(super) fn references(
    campaign: &Campaign,
    global: &Global,
) -> anyhow::Result<Vec<Option<Source>>> {
    let each = campaign.thresholds.iter().enumerate();
    let each = each.map(|(n, threshold)| {
        let reference = threshold.not_slower_than.as_ref();
        let Some(name) = reference.and_then(|reference| reference.run.as_ref()) else {
            return Ok(None);
        };
        let wrong = |reason: &dyn std::fmt::Display| {
            let way = ["not-slower-than", "run"];
            campaign.wrong_threshold(n, &way, format!("`{name}`: {reason}"))
        };
        // next to the campaign, as its other files
        let folder = Path::new(&*campaign.origin.file).parent();
        let file = folder.unwrap_or(Path::new("")).join(name);
        let is_file = file.is_file();
        let run = match is_file {
            true => fwdlab_store::load_document(&file),
            false => {
                resolve(&global.runs_roots()?, name).and_then(|path| fwdlab_store::load(&path))
            }
        };
        let run = run.map_err(|e| wrong(&e))?;
        if run.summary.is_none() {
            return Err(wrong(&"this run has no result").into());
        }
        Ok(Some(Source {
            // no directory of runs has the id of a file
            name: match is_file {
                true => name.clone(),
                false => run.info.id.clone(),
            },
            series: run.series(),
        }))
    });
    each.collect()
}

/// Returns the ids of the runs that thresholds refer to.
pub(super) fn names(references: &[Option<Source>]) -> impl Iterator<Item = Option<String>> {
    let each = references.iter();
    each.map(|run| Some(run.as_ref()?.name.clone()))
}

/// Compares the results with the thresholds of the campaign.
pub(super) fn judge(campaign: &Campaign, references: &[Option<Source>], made: &mut StoredRun) {
    let own = Source {
        name: made.info.id.clone(),
        series: made.series(),
    };
    if let Some(summary) = &mut made.summary {
        let (all, cases) = (&campaign.thresholds, &summary.test_cases);
        let allowance = fwdlab_measure::paired::ALLOWANCE;
        summary.thresholds = thresholds::judge(all, cases, &own, references, allowance);
    }
}

/// Prints the catalogue, by group.
fn list(global: &Global) -> anyhow::Result<Code> {
    let entries = catalogue::ALL.iter();
    if global.json || global.json_stream {
        let entries = entries.map(|entry| {
            let campaign = entry.campaign();
            json!({
                "name": entry.name, "question": campaign.question, "needs": campaign.needs, "missing": entry.missing(),
            })
        });
        output::json(&entries.collect::<Vec<_>>())?;
        return Ok(Code::Done);
    }
    let mut lines = Vec::new();
    let widest = entries
        .clone()
        .map(|entry| entry.name.len())
        .max()
        .unwrap_or(0);
    for entry in entries {
        lines.push(format!(
            "{:widest$}  {}",
            entry.name,
            entry.campaign().question
        ));
        let missing = entry.missing();
        if !missing.is_empty() {
            lines.push(format!("{:widest$}  needs {}", "", missing.join(", ")));
        }
    }
    lines.push(String::new());
    lines.push(
        "Next   fwdlab plan NAME; fwdlab run NAME; fwdlab new campaign MINE --from NAME".into(),
    );
    output::lines(&lines.join("\n"));
    Ok(Code::Done)
}

/// Options that complete a campaign.
#[derive(Default)]
pub(super) struct Options {
    seed: Option<u64>,
    unconfined: bool,
    only: Option<Selection>,
    shard: Option<Shard>,
    /// The test bed instead of that of the campaign.
    bed: Option<String>,
    /// Names of the test cases to measure.
    named: Option<BTreeSet<String>>,
    /// The test bed, for a campaign without one.
    dut: Option<TestBed>,
    /// The number of senders and the engine, instead of those that the self-test promises most
    /// with.
    generator: Option<Generator>,
}

/// Reads a campaign and the files it refers to.
fn read(file: &Path, options: Options) -> anyhow::Result<plan::Plan> {
    let campaign = Campaign::parse(&file.display().to_string(), &text(file)?)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    plan_of(campaign, folder, plan::CAMPAIGN, options)
}

/// Returns the plan of a campaign, and reads the files it refers to, relative to `folder`.
pub(super) fn plan_of(
    mut campaign: Campaign,
    folder: &Path,
    kind: &str,
    options: Options,
) -> anyhow::Result<plan::Plan> {
    let Options {
        seed,
        unconfined,
        only,
        shard,
        bed: other_bed,
        named,
        dut,
        generator,
    } = options;
    if let Some(bed) = &other_bed {
        campaign.measure_on(bed)?;
    }
    campaign.bed.unconfined |= unconfined;
    if let Some(named) = &named {
        let of_run = campaign.only(|case| named.contains(&case.id()));
        of_run.map_err(|reason| Usage(format!("of the test cases without a result, {reason}")))?;
    }
    if let Some(only) = &only {
        let chosen = campaign.only(|case| only.selects(case));
        chosen.map_err(|reason| Usage(format!("--only {only}: {reason}")))?;
    }
    if seed.is_some() && campaign.seed.is_some() {
        return Err(Usage("the file has a seed: give only one of them".into()).into());
    }
    let is_exact = campaign.procedure.counting() == Counting::Instructions;
    let unknown = Arrangement::unknown;
    let mut senders = campaign.bed.senders;
    let (site, mut placement, arrangement) = match &campaign.bed.file {
        Some(name) => match test_bed::find(folder, name)? {
            BedFile::Hosts(bed) => {
                if campaign.bed.engine == Engine::Auto {
                    campaign.bed.engine = bed.generator.engine;
                }
                senders = senders.or(bed.generator.senders);
                let (site, placement) = test_bed::host(&bed)?;
                (site, placement, Arrangement::existing(&bed))
            }
            BedFile::Machine(machine) => {
                let (site, placement) = test_bed::machine(&machine)?;
                (
                    site,
                    placement,
                    unknown("its ports are those of a virtual machine"),
                )
            }
            BedFile::Image { image, .. } if !is_exact && test_bed::is_disk(&image) => {
                return Err(Usage(format!(
                    "vm:{image} in the test bed {name} is a disk, and without machine in [dut] only its kernel is used, to count instructions. To \
                     start it as a whole machine, add machine = {{}}"
                ))
                .into());
            }
            BedFile::Image { image, .. } if kind != plan::CAMPAIGN && !is_exact => {
                return Err(Usage(format!(
                    "the test bed {name} is a virtual machine, in which instructions are counted; use: fwdlab quick --vm {image}"
                ))
                .into());
            }
            BedFile::Image { image, .. } => {
                campaign.boot(&image)?;
                (Site::default(), Placement::choose(&[], 1)?, unknown(""))
            }
        },
        None if let Some(bed) = &dut
            && !campaign.is_simulated()
            && !is_exact =>
        {
            let (site, placement) = test_bed::host(bed)?;
            (site, placement, Arrangement::existing(bed))
        }
        None if campaign.is_simulated() => (Site::default(), Placement::default(), unknown("")),
        None => {
            let placement = Placement::choose(&campaign.bed.dut_cpus, 1)?;
            let arrangement = match campaign.cases.iter().all(|case| case.dut == Kind::Linux) {
                true => {
                    let available = available_cpus()?;
                    Arrangement::embedded(&placement, &available, user_namespace::is_root())
                }
                false => unknown("its DUT has threads of its own beside the senders"),
            };
            (Site::default(), placement, arrangement)
        }
    };
    let (promises, needs) = (super::promises(), needs(&campaign));
    let engines: &[Mode] = match Mode::named(campaign.bed.engine.name()) {
        Some(mode) => &[mode],
        None if sends_bursts(&campaign.procedure) => &[Mode::AfPacket],
        None => &Mode::ALL,
    };
    let generator = generator.unwrap_or_else(|| match shard {
        // shards on several machines are one run
        Some(_) => Generator::without_promises(senders),
        None => choose(&promises, &arrangement, &needs, engines, senders),
    });
    if campaign.bed.file.is_none() && !campaign.is_simulated() && dut.is_none() && !is_exact {
        placement = Placement::choose(&campaign.bed.dut_cpus, generator.senders)?;
    }
    generator.place(&mut placement, &needs);
    let outlook = outlook(
        &promises,
        &arrangement,
        &needs,
        &Mode::in_order(engines, generator.engine),
        generator.senders,
    );
    let trex = campaign.trex.clone();
    let profile = |name: &str, both_ways: bool, speed: Option<LinkSpeed>| {
        let networks = &Networks::EMBEDDED;
        if trex_profile::is_one(name) {
            return trex_frames::frames(&trex, &folder.join(name), both_ways, speed, networks)
                .map_err(|error| format!("{error:#}"));
        }
        let loaded = profiles::load_from(folder, name).map_err(|error| format!("{error:#}"))?;
        let read = |name: &str| loaded.open_capture(name);
        ProfileFrames::new(&loaded.profile, both_ways, speed, networks, &read)
    };
    // all shards of a campaign need the same
    let chosen_seed = match shard {
        Some(_) => || 1,
        None => random_seed,
    };
    let mut plan = plan::Plan::new(
        campaign,
        folder,
        Host {
            site,
            placement,
            privileged: user_namespace::is_root(),
            kind: kind.to_owned(),
            seed: seed.unwrap_or_else(chosen_seed),
            command_line: run_screen::command_line(),
        },
        &profile,
    )?;
    plan.set_outlook(outlook);
    if let Some(only) = only {
        plan.keep("only", only.to_string());
    }
    if let Some(bed) = other_bed {
        plan.keep(BED, bed);
    }
    if let Some(shard) = shard {
        plan.set_shard(shard).map_err(Usage)?;
    }
    Ok(plan)
}

/// Enters a namespace in which this user may build the embedded test bed, if it is needed. A
/// virtual machine that counts instructions needs no privileges.
pub(super) fn enter_namespace(campaign: &Campaign) -> anyhow::Result<()> {
    let is_embedded = !campaign.is_simulated()
        && campaign.bed.file.is_none()
        && campaign.procedure.counting() != Counting::Instructions;
    if is_embedded && !user_namespace::is_root() {
        user_namespace::enter()?;
    }
    Ok(())
}

fn text(file: &Path) -> anyhow::Result<String> {
    let cannot = |error: std::io::Error| {
        let names: Vec<&str> = catalogue::ALL.iter().map(|entry| entry.name).collect();
        let hint = match file.extension() {
            Some(_) => String::new(),
            None => format!(
                ", and of the catalogue {}",
                did_you_mean(&file.display().to_string(), &names)
            ),
        };
        Usage(format!("cannot read {}: {error}{hint}", file.display()))
    };
    catalogue::text(file).map_err(cannot).context("read a file")
}

/// Returns a one-line description of a valid file, or of a directory with a configuration set.
fn check(file: &Path, dut: Option<&str>) -> anyhow::Result<String> {
    let is_set = file
        .file_name()
        .is_some_and(|name| name == fwdlab_model::set::NAME);
    let folder = match (is_set, file.parent()) {
        (true, Some(folder)) if folder.as_os_str().is_empty() => Path::new("."),
        (true, Some(folder)) => folder,
        _ => file,
    };
    if folder.is_dir() {
        let set = Configuration::parse(&folder.display().to_string())?;
        let of = |system| set.check_for(system).is_ok();
        let system = match (of(System::Linux), of(System::FreeBsd)) {
            (true, false) => " for Linux",
            (false, true) => " for FreeBSD",
            (true, true) => "",
            (false, false) => " with parts for Linux and parts for FreeBSD: no DUT can apply both",
        };
        let needs: Vec<String> = set
            .needs()
            .iter()
            .map(|need| format!("\n  {need}"))
            .collect();
        return Ok(format!("configuration set{system}{}", needs.concat()));
    }
    let text = text(file)?;
    let name = file.display().to_string();
    // a file with streams is a profile, whatever errors it has
    let is_profile = text
        .lines()
        .any(|line| line.trim_start().starts_with("[[stream"));
    if is_profile {
        let profile = Profile::parse(&name, &text)?;
        return Ok(format!(
            "profile: {}",
            plural(profile.streams.len(), "stream")
        ));
    }
    let chosen = Options {
        dut: dut.map(test_bed::planning_bed).transpose()?,
        ..Options::default()
    };
    let parameters = read(file, chosen)?;
    let campaign = parameters.campaign();
    let lacking = match (dut, &campaign.bed.file) {
        (None, None) => catalogue::lacking(&campaign.needs),
        _ => Vec::new(),
    };
    let lacks = match lacking.is_empty() {
        true => String::new(),
        false => format!("\n  this machine lacks {}", lacking.join(", ")),
    };
    Ok(format!(
        "campaign {}: {} by {}, {} each{lacks}",
        campaign.name,
        plural(campaign.cases.len(), "test case"),
        procedure(campaign),
        campaign.iterations_in_words(),
    ))
}

fn procedure(campaign: &Campaign) -> String {
    let id = campaign.procedure.id();
    match &campaign.sweep {
        Some(sweep) => format!(
            "{id} at {} of {}",
            plural(sweep.values.len(), "value"),
            sweep.parameter
        ),
        None => id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks every entry of the catalogue: if `check --dut KIND` accepts it, a run on such a test
    /// bed gets past its start; if it refuses, the run would have failed after minutes of traffic.
    /// These are the texts of valid refusals; "unknown key" is not one of them.
    const REFUSALS: [&str; 13] = [
        " changes ",
        " is for ",
        " are for ",
        "the test bed has one DUT",
        "the test bed defines its DUT",
        "its DUT has to run",
        "fwdlab cannot log in to",
        "has no login",
        "its DUT is a black box, which cannot",
        "its DUT is VPP, which cannot",
        "a VPP takes lines of its command line",
        "over a management port",
        "more CPUs than the ",
    ];

    #[test]
    fn an_entry_is_checked_as_it_is_planned_on_a_bed_of_every_kind() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("beds")).unwrap();
        let planned = |file: &Path, dut: Option<TestBed>| -> Result<(), String> {
            let chosen = Options {
                dut,
                ..Options::default()
            };
            let plan = read(file, chosen).map_err(|error| format!("{error:#}"))?;
            agenda(&plan).map(drop).map_err(|error| error.to_string())
        };
        let mut accepted: Vec<(&str, &str)> = Vec::new();
        let kinds = ["linux", "freebsd", "bsdrp", "vpp", "none"];
        for (turn, kind) in kinds.into_iter().enumerate() {
            let bed = test_bed::planning_bed(kind).unwrap();
            let file = folder.path().join("beds/any.toml");
            std::fs::write(file, &*bed.origin.text).unwrap();
            // building frames for millions of flows takes a second
            let is_quick = |name: &str| {
                !["million", "many-states", "fib-cases"]
                    .iter()
                    .any(|word| name.contains(word))
            };
            let entries = catalogue::ALL.iter().enumerate();
            let entries = entries.filter(|(_, entry)| kind == "linux" || is_quick(entry.name));
            for (at, entry) in entries {
                let checked = planned(Path::new(entry.name), Some(bed.clone()));
                if let Err(error) = &checked {
                    let is_said = REFUSALS.iter().any(|output| error.contains(output));
                    assert!(is_said, "{} on {kind}: {error}", entry.name);
                }
                // a copy that names the test bed gets the same verdict: check one entry in five per
                // kind
                let is_copied = (at + turn) % kinds.len() == 0;
                if is_copied && entry.campaign().procedure.id() != "exact" {
                    let text = match entry.text.contains("\n[bed]\n") {
                        true => entry
                            .text
                            .replacen("\n[bed]\n", "\n[bed]\nfile = 'any'\n", 1),
                        false => format!("bed = 'any'\n{}", entry.text),
                    };
                    let copy = folder.path().join("copy.toml");
                    std::fs::write(&copy, text).unwrap();
                    let on_bed = planned(&copy, None);
                    let name = entry.name;
                    assert_eq!(
                        checked.is_ok(),
                        on_bed.is_ok(),
                        "{name} on {kind}: {checked:?}, {on_bed:?}"
                    );
                }
                if checked.is_ok() {
                    accepted.push((kind, entry.name));
                }
            }
        }
        for (kind, name, expected) in [
            ("none", "traffic/frame-size", true),
            ("none", "overload/shape", true),
            // fwdlab cannot log in: no configuration, no routes, no sweep, no event
            ("none", "firewall/freebsd", false),
            ("none", "firewall/many-rules", false),
            ("none", "routes/fib", false),
            ("none", "routes/rewritten", false),
            ("none", "tuning/queues", false),
            ("none", "tuning/entropy", false),
            ("none", "energy/loads", false),
            ("vpp", "traffic/frame-size", true),
            ("vpp", "firewall/freebsd-rules", false),
            ("vpp", "tuning/gro", false),
            ("vpp", "routes/rewritten", false),
            ("freebsd", "firewall/freebsd", true),
            ("freebsd", "tuning/freebsd-process-limit", true),
            ("freebsd", "routes/rewritten", false),
            ("linux", "tuning/gro", true),
            ("linux", "tuning/receive-budget", true),
            ("linux", "tuning/queues", true),
            ("linux", "tuning/freebsd-process-limit", false),
            ("linux", "tuning/packet-steering", false),
        ] {
            assert_eq!(
                accepted.contains(&(kind, name)),
                expected,
                "{name} on {kind}"
            );
        }
        // an entry that needs an external test bed is refused on the embedded one, and accepted on
        // a suitable one
        for entry in catalogue::ALL {
            let needs = entry.campaign().needs;
            if needs.iter().any(|need| need.starts_with("a test bed ")) {
                let reason = planned(Path::new(entry.name), None).unwrap_err();
                let is_said =
                    ["embedded test bed", " for FreeBSD"].map(|words| reason.contains(words));
                assert!(is_said.contains(&true), "{}: {reason}", entry.name);
                let is_somewhere = |(_, name): &(&str, &str)| *name == entry.name;
                assert!(accepted.iter().any(is_somewhere), "{}", entry.name);
            }
        }
    }
}
