//! `fwdlab run`, `plan` and `check`: campaigns, and files without touching anything.
//!
//! What a campaign means is in `model`, how it is carried out in `lab`. Start with [`Run::run`].

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use fwdlab_lab::bed::Networks;
use fwdlab_lab::dut::Configuration;
use fwdlab_lab::placement::Placement;
use fwdlab_lab::run::campaign::start;
use fwdlab_lab::run::plan::{self, Host, agenda};
use fwdlab_lab::run::traffic::ProfileFrames;
use fwdlab_lab::site::Site;
use fwdlab_lab::user_namespace;
use fwdlab_model::campaign::{Campaign, Case, Engine};
use fwdlab_model::family::System;
use fwdlab_model::link::LinkSpeed;
use fwdlab_model::profile::Profile;
use fwdlab_model::test_bed::BedFile;
use fwdlab_report::number::{counted, seconds};
use serde_json::json;

use super::Global;
use super::run::{self, random_seed};
use super::test_bed;
use crate::exit_code::{self, Code, Usage};
use crate::output;
use crate::profiles;

/// Run a campaign: measure every test case of a file, unattended
///
/// Test cases are measured in randomised blocks, each on its own test bed. A test case that fails is reported with its reason,
/// and the campaign continues. `fwdlab plan` shows what a campaign will do; docs/campaigns.md describes the file.
#[derive(Debug, Args)]
pub struct Run {
    /// File of the campaign
    #[arg(value_name = "CAMPAIGN.toml")]
    file: PathBuf,
    /// Run configurations of the DUT as processes of the host, with write access to all of its files [default: isolated from
    /// the host; only /tmp is shared for writing]
    #[arg(long)]
    set_unconfined: bool,
    /// Seed of every random choice, if the file has none [default: chosen and recorded]
    #[arg(long)]
    seed: Option<u64>,
}

/// Show what a campaign will do: test cases in order, time needed, changes to hosts; changes nothing itself
#[derive(Debug, Args)]
pub struct Plan {
    /// File of the campaign
    #[arg(value_name = "CAMPAIGN.toml")]
    file: PathBuf,
    /// Seed of every random choice, if the file has none [default: chosen]
    #[arg(long)]
    seed: Option<u64>,
}

/// Check campaign files, traffic profiles and configuration sets; changes nothing
#[derive(Debug, Args)]
pub struct Check {
    /// The files; of configuration sets the directories
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Run {
    /// Runs it.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let parameters = read(&self.file, self.seed, self.set_unconfined)?;
        let campaign = parameters.campaign();
        let is_embedded = !campaign.is_simulated() && campaign.bed.file.is_none();
        if !user_namespace::is_root() && is_embedded {
            user_namespace::enter()?;
        }
        run::carry_out(
            global,
            0,
            |runs, control, listener| start(&parameters, runs, control, listener),
            |outcome| fwdlab_report::text::quick(outcome.info, outcome.summary),
            |_| None,
            exit_code::of_campaign,
        )
    }
}

impl Plan {
    /// Runs it.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let parameters = read(&self.file, self.seed, false)?;
        let campaign = parameters.campaign();
        let agenda = agenda(&parameters)?;
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
                "turns": turns.collect::<Vec<_>>(), "changes": agenda.changes,
            }))?;
            return Ok(Code::Done);
        }
        let mut text = format!(
            "{}: {}{} by {}, {} each, seed {}\n",
            campaign.name,
            match campaign.about.as_str() {
                "" => String::new(),
                about => format!("{about}\n"),
            },
            several(ids.len(), "test case"),
            procedure(campaign),
            several(campaign.iterations as usize, "iteration"),
            parameters.seed(),
        );
        text += &format!(
            "about {} in {}{}\n\n",
            counted(agenda.trials, "trial"),
            seconds(agenda.time.as_secs_f64().round()),
            match campaign.is_simulated() {
                true => " of simulated time",
                false => "",
            }
        );
        let width = agenda.names.iter().map(String::len).max().unwrap_or(0);
        for turn in &agenda.turns {
            let (trials, time) = agenda.cases[turn.case];
            text += &format!(
                " {:>4}  {:<width$}  {:>4} trials  ~{}\n",
                turn.iteration,
                agenda.names[turn.case],
                trials,
                seconds(time.as_secs_f64().round()),
            );
        }
        text += "\nchanges\n";
        for change in &agenda.changes {
            text += &fwdlab_report::table::wrap(change, 100, "  ");
        }
        output::result(&text);
        Ok(Code::Done)
    }
}

impl Check {
    /// Runs it: every file, and wrong use if one of them is wrong.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let mut told = Vec::new();
        let mut code = Code::Done;
        for file in &self.files {
            let (words, error) = match check(file) {
                Ok(words) => (Some(words), None),
                Err(error) => {
                    code = Code::Usage;
                    (None, Some(format!("{error:#}")))
                }
            };
            if !global.json {
                match (&words, &error) {
                    (Some(words), _) => {
                        output::result(&format!("ok    {}  {words}", file.display()))
                    }
                    (None, Some(error)) => output::result(&format!("wrong {error}")),
                    (None, None) => {}
                }
            }
            told.push(
                json!({ "file": file, "ok": words.is_some(), "what": words, "error": error }),
            );
        }
        if global.json {
            output::json(&told)?;
        }
        Ok(code)
    }
}

/// Reads a campaign and what it names.
fn read(file: &Path, seed: Option<u64>, unconfined: bool) -> anyhow::Result<plan::Plan> {
    let mut campaign = Campaign::parse(&file.display().to_string(), &text(file)?)?;
    if seed.is_some() && campaign.seed.is_some() {
        return Err(Usage("the file has a seed: give only one of them".into()).into());
    }
    let folder = file.parent().unwrap_or(Path::new(""));
    let (site, placement) = match &campaign.bed.file {
        Some(name) => match test_bed::find(folder, name)? {
            BedFile::Hosts(bed) => {
                if campaign.bed.engine == Engine::Auto {
                    campaign.bed.engine = bed.generator.engine;
                }
                test_bed::host(&bed)?
            }
            BedFile::Image { image, .. } => {
                campaign.boot(&image)?;
                (Site::default(), Placement::choose(&[])?)
            }
        },
        None if campaign.is_simulated() => (Site::default(), Placement::default()),
        None => (Site::default(), Placement::choose(&campaign.bed.dut_cpus)?),
    };
    let profile = |name: &str, both_ways: bool, speed: Option<LinkSpeed>| {
        let loaded = profiles::load_from(folder, name).map_err(|error| format!("{error:#}"))?;
        let read = |name: &str| loaded.open_capture(name);
        ProfileFrames::new(
            &loaded.profile,
            both_ways,
            speed,
            &Networks::EMBEDDED,
            &read,
        )
    };
    Ok(plan::Plan::new(
        campaign,
        folder,
        Host {
            site,
            placement,
            privileged: user_namespace::is_root(),
            unconfined,
            seed: seed.unwrap_or_else(random_seed),
            command_line: std::env::args().collect(),
        },
        &profile,
    )?)
}

fn text(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file)
        .map_err(|error| Usage(format!("cannot read {}: {error}", file.display())))
        .context("read a file")
}

/// What a file is, in words, or a directory that is a configuration set.
fn check(file: &Path) -> anyhow::Result<String> {
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
            (false, false) => " of parts for Linux and for FreeBSD, which no DUT takes",
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
    // streams make a profile, whatever else is wrong with it
    let is_profile = text
        .lines()
        .any(|line| line.trim_start().starts_with("[[stream"));
    if is_profile {
        let profile = Profile::parse(&name, &text)?;
        return Ok(format!(
            "profile: {}",
            several(profile.streams.len(), "stream")
        ));
    }
    let parameters = read(file, None, false)?;
    let campaign = parameters.campaign();
    Ok(format!(
        "campaign {}: {} by {}, {} each",
        campaign.name,
        several(campaign.cases.len(), "test case"),
        procedure(campaign),
        several(campaign.iterations as usize, "iteration"),
    ))
}

fn procedure(campaign: &Campaign) -> String {
    let id = campaign.procedure.id();
    match &campaign.sweep {
        Some(sweep) => format!(
            "{id} at {} of {}",
            several(sweep.values.len(), "value"),
            sweep.parameter
        ),
        None => id.to_owned(),
    }
}

fn several(count: usize, what: &str) -> String {
    counted(count as u64, what)
}
