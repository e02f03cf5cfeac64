//! Plans: what will be measured. A plan is made of a campaign, whether a file or a command asks for
//! it, and nothing else is carried out.
//!
//! An existing plan can be carried out, as far as that can be decided before any traffic: its
//! configurations have been read, and the procedure's parameters fit the loads. Start with
//! [`Plan::new`]; [`agenda`] returns what is measured when, and
//! [`super::campaign::start`] measures it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fwdlab_engine::Mode;
use fwdlab_engine::sim::Dut;
use fwdlab_measure::campaign::{self as order, Turn, sequence};
use fwdlab_measure::machine::{Asked, Limit, Series, needs_management, sends_bursts};
use fwdlab_measure::maxfwd::control_of;
use fwdlab_measure::shard::Shard;
use fwdlab_model::campaign::value::{Pause, Rate};
use fwdlab_model::campaign::{
    self, Campaign, Case, Counting, Engine, Kind, OnFailure, Order, Paired, Procedure,
};
use fwdlab_model::file::FileError;
use fwdlab_model::link::{Line, LinkSpeed};
use fwdlab_model::result::FIREWALLS;
use fwdlab_model::test_case::{Iteration, TestCase};
use fwdlab_model::trial::Stream;
use fwdlab_model::variant::Destinations;

use super::estimate::likely_limits;
use super::largest_load::Bounds;
use super::method::{self, bursts};
use super::traffic::{ProfileFrames, Traffic, words};
use super::{feasible, hooks, restarts};
use crate::dut::Configuration;
use crate::dut::sweep::SweptParameter;
use crate::error::LabError;
use crate::placement::Placement;
use crate::promise::Outlook;
use crate::site::Site;
use crate::telemetry::Wanted;

/// The kind of the run of a campaign file.
pub const CAMPAIGN: &str = "campaign";

/// What will be measured, with all its inputs and all defaults resolved.
pub struct Plan {
    pub(super) campaign: Campaign,
    pub(super) configurations: BTreeMap<String, Configuration>,
    pub(super) dut: Option<Dut>,
    pub(super) swept: Option<SweptParameter>,
    /// By their names in the matrix.
    pub(super) profiles: BTreeMap<String, Arc<ProfileFrames>>,
    pub(super) host: Host,
    /// Further values that are stored with the run: which part of a campaign is measured, and the
    /// path of its file.
    pub(super) values: BTreeMap<String, serde_json::Value>,
    /// The part of the campaign that is measured, if not all of it.
    pub(super) shard: Option<Shard>,
    /// Number of guests at a time; `None`: as many as fit.
    pub(super) jobs: Option<usize>,
    /// What the tester promises for its loads.
    outlook: Vec<Outlook>,
}

/// The parameter that contains the engine that was tried first, if it was not the fastest.
pub const FIRST_ENGINE: &str = "first_engine";

/// The parameter that contains the shard.
pub(super) const SHARD: &str = "shard";

/// Compiles the profile of this name, for both directions or for one, on lines of this speed.
pub type ProfileReader<'a> =
    dyn Fn(&str, bool, Option<LinkSpeed>) -> Result<ProfileFrames, String> + 'a;

/// The machine that carries the plan out.
#[derive(Debug, Clone)]
pub struct Host {
    /// Where test beds are built.
    pub site: Site,
    /// CPUs; none for a simulated DUT.
    pub placement: Placement,
    /// True for root of the host, false for root of a user namespace only.
    pub privileged: bool,
    /// Kind of the run: `quick`, or `campaign` for a file.
    pub kind: String,
    /// Seed of every random choice, if the campaign sets none.
    pub seed: u64,
    /// The command line, as typed.
    pub command_line: Vec<String>,
}

/// What is measured when, and how long it takes.
#[derive(Debug)]
pub struct Agenda {
    /// Turns in their order; with slices, one turn measures all test cases of a row.
    pub turns: Vec<Turn>,
    /// The numbers of these turns among all turns of the campaign, from 1.
    pub(super) numbers: Vec<u32>,
    /// Name of each kind of turn, in words and by test case.
    pub names: Vec<String>,
    pub(super) measures: Vec<Measures>,
    /// Estimated trials and time of one iteration of each of them.
    pub cases: Vec<(u32, Duration)>,
    /// Trials of all turns.
    pub trials: u32,
    /// Time of all turns.
    pub time: Duration,
    /// Trials and time if every test case is precise enough as early as possible; equal to the
    /// above for a fixed number of iterations.
    pub least: (u32, Duration),
    /// What is changed, and where, in words.
    pub changes: Vec<String>,
}

/// What one turn measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Measures {
    /// Iterations of these test cases; more than one only if DUTs are side by side.
    Cases(Vec<usize>),
    /// This test case once more, as A/A control.
    Control(usize),
    /// All test cases in one turn, which cannot be skipped separately.
    Together,
}

impl Measures {
    /// Returns the test cases that get an iteration in this turn.
    pub fn cases(&self) -> &[usize] {
        match self {
            Measures::Cases(cases) => cases,
            Measures::Control(_) | Measures::Together => &[],
        }
    }

    /// Returns the test case whose configuration and traffic the turn uses, and whether the turn is
    /// its A/A control.
    pub fn subject(&self) -> (usize, bool) {
        match self {
            Measures::Cases(cases) => (cases[0], false),
            Measures::Control(of) => (*of, true),
            Measures::Together => (0, false),
        }
    }
}

impl Agenda {
    /// Returns the number of a turn among all turns of the campaign, also those of other shards.
    pub(super) fn number(&self, turn: Turn) -> u32 {
        let at = self.turns.iter().position(|one| *one == turn);
        at.map_or(0, |at| self.numbers[at])
    }

    /// Returns true if one of its turns measures this test case: another shard may.
    pub(super) fn has_case(&self, case: usize) -> bool {
        self.measured().any(|one| one.cases().contains(&case))
    }

    /// Returns what its turns measure: in a shard, not everything.
    pub(super) fn measured(&self) -> impl Iterator<Item = &Measures> {
        self.turns.iter().map(|turn| &self.measures[turn.case])
    }

    /// Returns the planned trials of a turn, and of the whole run.
    pub(super) fn trials_of(&self, turn: Turn) -> (u32, u32) {
        (self.cases[turn.case].0, self.trials)
    }
}

impl Plan {
    /// Reads the files that the campaign names, relative to `folder`, and checks that everything
    /// fits together, as far as that can be decided before any traffic.
    ///
    /// # Errors
    /// Fails with the first mistake, and its position in the file if it has one.
    pub fn new(
        mut campaign: Campaign,
        folder: &Path,
        host: Host,
        profile: &ProfileReader<'_>,
    ) -> Result<Plan, LabError> {
        let mut configurations = BTreeMap::new();
        for (name, parts) in &campaign.configurations {
            let read = Configuration::named(name, parts, folder);
            let read = read.and_then(|read| {
                if campaign.dut.kind == Kind::Linux {
                    fits(&read, &host)?;
                }
                Ok(read)
            });
            let read =
                read.map_err(|error| campaign.error(&["configuration", name], error.to_string()))?;
            configurations.insert(name.clone(), read);
        }
        let dut = dut(&campaign, host.seed)?;
        let cpus = host.site.dut_cpus();
        let cpus = cpus.unwrap_or(host.placement.dut_cpus.len());
        let swept = match &campaign.sweep {
            Some(sweep) => Some(
                SweptParameter::new(sweep, dut.is_some(), cpus)
                    .map_err(|reason| campaign.error(&["procedure", "sweep"], reason))?,
            ),
            None => None,
        };
        if campaign.bed.engine == Engine::XdpLive && sends_bursts(&campaign.procedure) {
            let reason = "xdp-live cannot send bursts; use af-packet or af-xdp, or omit engine";
            return Err(campaign.error(&["bed", "engine"], reason).into());
        }
        if host.site.file().is_some() {
            let duts = campaign
                .cases
                .iter()
                .position(|case| case.dut != Kind::Linux);
            if duts.is_some() {
                let reason =
                    "the test bed defines its DUT: omit dut here, or measure on the embedded bed";
                return Err(campaign.error(&["matrix", "dut"], reason).into());
            }
        }
        let speed = super::line(dut.as_ref(), campaign.bed.link).map(|line| line.speed);
        let profiles = profiles(&mut campaign, speed, profile)?;
        let plan = Plan {
            configurations,
            dut,
            swept,
            profiles,
            host,
            campaign,
            values: BTreeMap::new(),
            shard: None,
            jobs: None,
            outlook: Vec::new(),
        };
        plan.check()?;
        Ok(plan)
    }

    /// Measures only this part of the campaign.
    ///
    /// # Errors
    /// Fails if there are fewer parts than shards.
    pub fn set_shard(&mut self, shard: Shard) -> Result<(), String> {
        let agenda = agenda(self).map_err(|error| error.to_string())?;
        let (parts, unit, note) = match self.campaign.procedure.counting() {
            Counting::Instructions => (agenda.turns.len(), "boot", ""),
            Counting::Slices => (agenda.measures.len(), "row of slices", ""),
            _ if self.is_together() => (1, "turn", ": it measures all test cases together"),
            _ if self.dut.is_some() => (agenda.measures.len(), "test case", ""),
            _ => {
                let note = " besides references, which every shard measures itself";
                (self.divided(&agenda.measures).len(), "test case", note)
            }
        };
        if parts < shard.count() as usize {
            return Err(format!(
                "--shard {shard}: the campaign has only {}{note}",
                fwdlab_model::units::counted(parts, unit)
            ));
        }
        self.shard = Some(shard);
        Ok(())
    }

    /// Runs this many guests at a time, in this process only: results do not depend on it.
    ///
    /// # Errors
    /// Fails if it has no guests, or if their memory is not available.
    pub fn set_jobs(&mut self, jobs: usize) -> Result<(), String> {
        if self.campaign.procedure.counting() != Counting::Instructions {
            return Err(format!(
                "--jobs {jobs}: only guests run at a time, and only campaigns that count instructions (procedure exact) have guests"
            ));
        }
        bursts::check_memory(jobs).map_err(|reason| format!("--jobs {jobs}: {reason}"))?;
        self.jobs = Some(jobs);
        Ok(())
    }

    /// Returns the test case that another one is compared with: the first configuration under the
    /// same traffic.
    fn reference_of(&self, case: usize) -> Option<usize> {
        let all = &self.campaign.cases;
        let is_reference = |other: &Case| {
            other.configuration == all[0].configuration
                && (&other.stream, &other.variant) == (&all[case].stream, &all[case].variant)
                && other.dut == all[case].dut
        };
        let found = all.iter().position(is_reference);
        found.filter(|reference| *reference != case)
    }

    /// Returns the turns of the first iteration that are divided among shards whose test cases stay
    /// whole. The others are references: rates of two machines are not comparable, so that each
    /// shard of a measured campaign measures the references of its own test cases, and the first
    /// test case with its A/A control. Rows of slices have their own, and a simulated DUT is the
    /// same anywhere.
    fn divided(&self, measures: &[Measures]) -> Vec<Turn> {
        let is_alike = self.dut.is_some() || self.campaign.procedure.counting() == Counting::Slices;
        let references = self.references(measures.iter());
        let all = (0..measures.len()).map(|case| Turn { case, iteration: 1 });
        all.filter(|turn| is_alike || !references.contains(&measures[turn.case].subject().0))
            .collect()
    }

    /// Returns the test cases that a machine measures to compare these with them.
    fn references<'a>(&self, measures: impl Iterator<Item = &'a Measures>) -> BTreeSet<usize> {
        let own = measures.filter_map(|own| self.reference_of(own.subject().0));
        own.chain([0]).collect()
    }

    /// Returns the positions of the turns that this shard measures.
    fn part(&self, shard: Shard, all: &[Turn], measures: &[Measures]) -> Vec<usize> {
        if self.campaign.procedure.counting() == Counting::Instructions {
            return shard.part(all, |turn| {
                let (case, is_control) = measures[turn.case].subject();
                // a control next to its reference: alone it would be a shard without a result
                let image = self.campaign.cases[case].image.as_ref();
                (image, case, turn.iteration, is_control)
            });
        }
        let divided = self.divided(measures);
        let own = shard.part(&divided, |turn| turn.case);
        let own: BTreeSet<usize> = own.into_iter().map(|at| divided[at].case).collect();
        let references = self.references(own.iter().map(|&own| &measures[own]));
        let divided: BTreeSet<usize> = divided.iter().map(|turn| turn.case).collect();
        let is_own = |turn: &Turn| {
            let case = measures[turn.case].subject().0;
            own.contains(&turn.case) || !divided.contains(&turn.case) && references.contains(&case)
        };
        (0..all.len()).filter(|at| is_own(&all[*at])).collect()
    }

    /// Returns true if it is a part of a campaign.
    pub fn is_shard(&self) -> bool {
        self.shard.is_some()
    }

    /// Stores a value with the run that the campaign does not contain.
    pub fn keep(&mut self, name: &str, value: impl Into<serde_json::Value>) {
        self.values.insert(name.to_owned(), value.into());
    }

    /// Sets what the tester promises for its loads.
    pub fn set_outlook(&mut self, outlook: Vec<Outlook>) {
        self.outlook = outlook;
    }

    /// Returns what the tester promises for its loads.
    pub fn outlook(&self) -> &[Outlook] {
        &self.outlook
    }

    /// Returns the simulated DUT, if it is one.
    pub fn dut(&self) -> Option<&Dut> {
        self.dut.as_ref()
    }

    /// Returns true if all test cases are measured in one turn.
    pub(super) fn is_together(&self) -> bool {
        self.campaign.order == Order::Together
    }

    fn check(&self) -> Result<(), LabError> {
        if let (Some(_), Err(reason)) = (self.campaign.reboot, self.host.site.can_reboot()) {
            let reason = format!("the DUT cannot be restarted: {reason}. Omit this");
            return Err(self.campaign.error(&["reboot"], reason).into());
        }
        feasible::check(self)?;
        bursts::check_images(&self.campaign)?;
        method::of(&self.campaign.procedure).check(self)
    }

    /// Rejects a load that the line does not carry.
    pub(super) fn check_load(&self, load: Option<Rate>) -> Result<(), LabError> {
        let Some(Rate(load)) = load else {
            return Ok(());
        };
        for case in &self.campaign.cases {
            let pps = load.on_line("the load", case.stream.frame_size_bytes, self.line());
            pps.map_err(|reason| self.campaign.error(&["procedure", "load"], reason))?;
        }
        Ok(())
    }

    /// Returns true if this error ends the run. By default, it continues with its other test cases.
    pub(super) fn is_ended_by(&self, error: &LabError) -> bool {
        matches!(error, LabError::Store(_)) || self.is_one()
    }

    /// Returns true if the run is worthless as soon as any part of it fails.
    pub(super) fn is_one(&self) -> bool {
        self.campaign.on_failure == OnFailure::End || self.is_together()
    }

    /// Returns the plan that counts the same configurations in instructions, if requested.
    pub(super) fn beside(&self) -> Result<Option<Plan>, LabError> {
        let Procedure::Paired(Paired {
            exact: Some(image),
            reference,
            ..
        }) = &self.campaign.procedure
        else {
            return Ok(None);
        };
        let own = &self.campaign;
        let first = Case {
            configuration: reference.clone(),
            ..own.cases[0].clone()
        };
        let cases = std::iter::once(&first).chain(&own.cases);
        let cases = cases.map(|case| Case {
            image: Some(image.clone()),
            ..case.clone()
        });
        let plan = Plan {
            campaign: Campaign {
                iterations: 1,
                until: None,
                order: Order::Interleaved,
                on_failure: OnFailure::Continue,
                bed: campaign::Bed::default(),
                cases: cases.collect(),
                procedure: Procedure::Exact(campaign::Exact {
                    reference: reference.clone(),
                    ..campaign::Exact::default()
                }),
                ..own.clone()
            },
            configurations: self.configurations.clone(),
            dut: None,
            swept: None,
            profiles: BTreeMap::new(),
            host: self.host.clone(),
            values: BTreeMap::new(),
            shard: None,
            jobs: None,
            outlook: Vec::new(),
        };
        plan.check()?;
        Ok(Some(plan))
    }

    /// Returns the name of a test case: without its configuration if all are measured together, as
    /// there is only one.
    pub(super) fn id(&self, case: &Case) -> String {
        match self.is_together() {
            true => case.series(),
            false => case.id(),
        }
    }

    /// Summarises the iterations of a test case.
    pub(super) fn summarise(&self, case: &Case, iterations: Vec<Iteration>) -> TestCase {
        order::summarise(self.id(case), case, iterations)
    }

    /// Replaces the runs in thresholds by these, in the order of the thresholds: tomorrow `@1` will
    /// be another run.
    pub fn set_references(&mut self, runs: impl Iterator<Item = Option<String>>) {
        for (threshold, run) in self.campaign.thresholds.iter_mut().zip(runs) {
            if let (Some(reference), Some(id)) = (&mut threshold.not_slower_than, run) {
                reference.run = Some(id);
            }
        }
    }

    /// Returns the campaign.
    pub fn campaign(&self) -> &Campaign {
        &self.campaign
    }

    /// Returns the seed of every random choice.
    pub fn seed(&self) -> u64 {
        let own = self.campaign.seed.unwrap_or(self.host.seed);
        self.dut.as_ref().map_or(own, |dut| dut.seed)
    }

    pub(super) fn likely(&self, case: &Case) -> Result<Vec<Limit>, LabError> {
        let streams = self.campaign.streams(case)?;
        let traffic = self.traffic(case);
        let sizes = streams.iter().map(|stream| {
            let size = stream.frame_size_bytes;
            (size, traffic.mean().unwrap_or_else(|| size.into()))
        });
        let limits = likely_limits(sizes, self.dut.as_ref(), self.bounds());
        limits.map_err(|error| {
            let way = match (&self.campaign.bed.max, self.campaign.procedure.load()) {
                (Some(_), _) => &["bed", "max"][..],
                (None, Some(_)) => &["procedure", "load"],
                (None, None) => &["bed"],
            };
            self.campaign.error(way, error.to_string()).into()
        })
    }

    pub(super) fn bounds(&self) -> Bounds {
        Bounds::of(&self.campaign, self.line())
    }

    pub(super) fn line(&self) -> Option<Line> {
        super::line(self.dut.as_ref(), self.campaign.bed.link)
    }

    /// Returns the traffic of a test case: one series, or those of all that are measured together.
    pub(super) fn traffic(&self, case: &Case) -> Traffic {
        let name = case.variant.profile.as_ref();
        Traffic {
            profile: name.and_then(|name| self.profiles.get(name).cloned()),
            variants: self.campaign.variants(case),
            ..Traffic::default()
        }
    }

    /// Returns the request to the procedure, with this seed. If all test cases are measured
    /// together, it is that of the run.
    pub(super) fn asked(&self, seed: u64, case: &Case) -> Asked {
        let series = self.campaign.variants(case);
        let has = |requested: Destinations| series.iter().any(|one| one.destinations == requested);
        Asked {
            procedure: self.campaign.procedure.clone(),
            sweep: self.campaign.sweep.clone(),
            simulated: self.dut.is_some(),
            seed: if self.is_together() {
                self.seed()
            } else {
                seed
            },
            series: Series {
                of_profile: case.variant.profile.is_some(),
                both_directions: case.variant.both_directions,
                // otherwise every series is a test case of its own
                single_and_random: has(Destinations::Single) && has(Destinations::Random),
            },
        }
    }

    /// Returns the inputs of the plan, by the names under which they are stored with a run.
    pub(super) fn inputs(&self) -> Result<Vec<(String, Vec<u8>)>, LabError> {
        let mut inputs = Vec::new();
        let mut add = |name: String, text: &str| inputs.push((name, text.as_bytes().to_vec()));
        if let Some(file) = self.host.site.file() {
            add("bed.toml".into(), file);
        }
        add("campaign.toml".into(), &self.campaign.origin.text);
        for (name, profile) in &self.profiles {
            let name = name.trim_end_matches(".toml");
            let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
            add(format!("profiles/{name}.{}", profile.ending), &profile.text);
        }
        for (name, configuration) in &self.configurations {
            // a name may be a path, or a whole command
            let is_path = name.contains(['/', '\n']) || name.starts_with('.');
            let folder = if is_path {
                String::new()
            } else {
                format!("{name}/")
            };
            add_apart(super::inputs_of(configuration, &folder)?, &mut inputs);
        }
        Ok(inputs)
    }

    /// Returns the site of the test beds.
    pub fn site(&self) -> &Site {
        &self.host.site
    }

    /// Returns what is varied within a test case.
    pub(super) fn swept_parameter(&self) -> Option<&SweptParameter> {
        self.swept.as_ref()
    }

    /// Returns the configuration of this name; the plain router has none.
    pub(super) fn configuration(&self, name: &str) -> Option<&Configuration> {
        self.configurations.get(name)
    }

    /// Returns the parameters of a run, for these streams of this test case.
    pub(super) fn common(&self, streams: Vec<Stream>, case: &Case) -> super::Parameters {
        let engine = self.campaign.bed.engine.name();
        let bursts = sends_bursts(&self.campaign.procedure);
        super::Parameters {
            streams,
            traffic: self.traffic(case),
            load: None,
            line: self.line(),
            configuration: self.configurations.get(&case.configuration).cloned(),
            telemetry: self.telemetry(),
            unconfined: self.campaign.bed.unconfined,
            is_managed: needs_management(&self.campaign.procedure),
            dut: campaign::Dut {
                kind: case.dut,
                ..self.campaign.dut.clone()
            },
            engine: match (Mode::named(engine), bursts) {
                (None, true) => Some(Mode::AfPacket),
                (engine, _) => engine,
            },
            site: self.host.site.clone(),
            placement: self.host.placement.clone(),
            privileged: self.host.privileged,
            seed: self.seed(),
            command_line: self.host.command_line.clone(),
        }
    }

    /// Returns what is read from the DUT's host around trials: what the campaign requests; by
    /// default, on this machine, only what costs a trial nothing.
    fn telemetry(&self) -> Option<Wanted> {
        match &self.campaign.telemetry {
            Some(requested) => Wanted::asked(requested),
            None => self.host.site.is_local().then(Wanted::default),
        }
    }

    /// Returns the parameters as they are stored, including which configurations are firewalls,
    /// because their names do not show it.
    pub(super) fn values(&self) -> BTreeMap<String, serde_json::Value> {
        let mut values = self.explicit_options();
        if !self.configurations.is_empty() {
            let all = self.configurations.iter();
            let firewalls = all.filter(|(_, one)| one.is_firewall());
            let names: Vec<String> = firewalls.map(|(name, _)| name.clone()).collect();
            values.insert(FIREWALLS.into(), names.into());
        }
        values
    }

    fn explicit_options(&self) -> BTreeMap<String, serde_json::Value> {
        let campaign = &self.campaign;
        let first = &campaign.cases[0];
        let ids: Vec<String> = campaign.cases.iter().map(|case| self.id(case)).collect();
        let order = format!("{:?}", campaign.order).to_lowercase();
        let placement = &self.host.placement;
        let mut values = parameters(&campaign.procedure);
        let mut set = |name: &str, value: serde_json::Value| {
            values.insert(name.to_owned(), value);
        };
        set("about", campaign.about.clone().into());
        if let Some(shard) = self.shard {
            set(SHARD, shard.to_string().into());
        }
        set("procedure", campaign.procedure.id().into());
        set("test_cases", ids.into());
        set("iterations", campaign.iterations.into());
        set("order", order.into());
        set("engine", campaign.bed.engine.name().into());
        if self.host.kind == CAMPAIGN {
            set("campaign", campaign.name.clone().into());
        }
        if !campaign.question.is_empty() {
            set("question", campaign.question.clone().into());
        }
        if !campaign.configurations.is_empty() {
            // so that readers of the run can obtain them, too
            let configurations = serde_json::json!(campaign.configurations);
            set("configurations", configurations);
        }
        let is_first = |case: &Case| case.configuration == first.configuration;
        if campaign.cases.iter().all(is_first) && first.configuration != campaign::PLAIN {
            set("configuration", first.configuration.clone().into());
        }
        let variants = campaign.all_variants();
        if variants.iter().any(|variant| !variant.is_plain()) {
            let series: Vec<String> = variants.iter().map(words).collect();
            set("series", series.into());
            let has_both = variants.iter().any(|variant| variant.both_directions);
            set("both_directions", has_both.into());
        }
        if let Some(until) = &campaign.until {
            set("iterations_min", until.min.into());
            set("iterations_until", until.width.to_string().into());
        }
        let references = campaign.thresholds.iter();
        let references = references.map(|one| one.not_slower_than.as_ref()?.run.clone());
        let references: Vec<Option<String>> = references.collect();
        if references.iter().any(Option::is_some) {
            set("threshold_runs", references.into());
        }
        if let Some(reboot) = &campaign.reboot {
            set("reboot_within", reboot.within.to_string().into());
        }
        if campaign.bed.unconfined {
            set("set_unconfined", true.into());
        }
        if campaign.procedure.counting() == Counting::Trials {
            set("max_load_pps", self.bounds().as_value());
        }
        if let Some(line) = self.line() {
            set("link_bps", line.speed.bps().into());
        }
        if let Some(sweep) = &campaign.sweep {
            set("sweep", sweep.parameter.clone().into());
        }
        match &self.dut {
            Some(dut) => set("dut", dut.to_string().into()),
            // counts of instructions are the same on all CPUs
            None if campaign.procedure.counting() == Counting::Instructions => {}
            None => {
                set("generator_cpus", placement.generator_cpus.clone().into());
                set("dut_cpus", placement.dut_cpus.clone().into());
                if placement.senders > 1 {
                    set("senders", placement.senders.into());
                }
                if let Some(engine) = placement.first_engine {
                    set(FIRST_ENGINE, engine.name().into());
                }
            }
        }
        values.extend(self.values.clone());
        values
    }
}

/// Returns the parameters of a procedure as they are stored, times as seconds, without those that
/// are not set.
fn parameters(procedure: &Procedure) -> BTreeMap<String, serde_json::Value> {
    let kept = procedure.kept();
    let parameters = kept["parameters"].as_object().into_iter().flatten();
    let set = parameters.filter(|(_, value)| !value.is_null());
    let stored = set.map(|(name, value)| {
        let name = match name.as_str() {
            "for" => "duration".to_owned(),
            name => name.replace('-', "_"),
        };
        let typed = value.as_str().unwrap_or_default();
        let has_unit = typed.ends_with(char::is_alphabetic);
        match typed.parse() {
            Ok(Pause(time)) if has_unit => (format!("{name}_s"), time.as_secs_f64().into()),
            _ => (name, value.clone()),
        }
    });
    stored.collect()
}

/// Compiles the profiles of the matrix, and adds the streams that represent them in records.
fn profiles(
    campaign: &mut Campaign,
    speed: Option<LinkSpeed>,
    read: &ProfileReader<'_>,
) -> Result<BTreeMap<String, Arc<ProfileFrames>>, FileError> {
    let mut cases = campaign.cases.iter();
    let both_ways = cases.any(|case| case.variant.both_directions);
    let mut cases = std::mem::take(&mut campaign.cases);
    let mut profiles: BTreeMap<String, Arc<ProfileFrames>> = BTreeMap::new();
    for case in &mut cases {
        if sends_bursts(&campaign.procedure) && case.variant.has_own_times() {
            let reason =
                "profiles and broadcasts have their own timing; measure bursts without them";
            return Err(campaign.error(&["procedure"], reason));
        }
        let Some(name) = &case.variant.profile else {
            continue;
        };
        let frames = match profiles.get(name) {
            Some(frames) => frames,
            None => {
                let frames = read(name, both_ways, speed);
                let frames =
                    frames.map_err(|reason| campaign.error(&["matrix", "profile"], reason))?;
                profiles.entry(name.clone()).or_insert(Arc::new(frames))
            }
        };
        case.stream = frames.as_stream();
        if campaign.order == Order::Together {
            // of the one profile, a short name is clear
            case.variant.profile = Some(frames.name.clone());
        }
    }
    campaign.cases = cases;
    if campaign.order == Order::Together {
        let named = profiles.into_values().map(|one| (one.name.clone(), one));
        return Ok(named.collect());
    }
    Ok(profiles)
}

/// Returns the simulated DUT, if it is one.
fn dut(campaign: &Campaign, seed: u64) -> Result<Option<Dut>, FileError> {
    if !campaign.is_simulated() {
        return Ok(None);
    }
    let text = campaign.bed.dut.as_deref().unwrap_or("capacity=1e6");
    let wrong = |reason: String| campaign.error(&["bed", "dut"], reason);
    let mut dut = Dut::parse(text).map_err(|error| wrong(error.to_string()))?;
    if let Some(speed) = campaign.bed.link {
        let output = dut.set_link(speed);
        output.map_err(|reason| campaign.error(&["bed", "link"], reason))?;
    }
    match (campaign.seed, text.contains("seed")) {
        (Some(_), true) => {
            let reason = "seed is given in dut and in the campaign: give only one of them";
            return Err(wrong(reason.into()));
        }
        (Some(seed), false) => dut.seed = seed,
        (None, false) => dut.seed = seed,
        (None, true) => {}
    }
    Ok(Some(dut))
}

/// Returns what is measured when, without touching anything.
///
/// # Errors
/// Fails only with errors that [`Plan::new`] would have returned.
pub fn agenda(plan: &Plan) -> Result<Agenda, LabError> {
    let campaign = &plan.campaign;
    let method = method::of(&campaign.procedure);
    let mut measures: Vec<Measures> = match plan.is_together() {
        true => vec![Measures::Together],
        false => {
            let groups = method.groups(&campaign.cases).into_iter();
            groups.map(Measures::Cases).collect()
        }
    };
    measures.extend(method.controlled(&campaign.cases).map(Measures::Control));
    let names = measures.iter().map(|measures| match measures {
        Measures::Together => campaign.name.clone(),
        Measures::Control(of) => control_of(&plan.id(&campaign.cases[*of])),
        Measures::Cases(cases) => {
            let names = cases.iter().map(|&case| plan.id(&campaign.cases[case]));
            names.collect::<Vec<_>>().join(", ")
        }
    });
    let names: Vec<String> = names.collect();
    let cases = (measures.iter()).map(|measures| method.estimate(plan, measures.cases()));
    let cases = cases.collect::<Result<Vec<_>, LabError>>()?;
    let all = sequence(
        cases.len(),
        campaign.iterations,
        campaign.order,
        plan.seed(),
    );
    let mut own = match plan.shard {
        Some(shard) => plan.part(shard, &all, &measures),
        None => (0..all.len()).collect(),
    };
    if campaign.procedure.counting() == Counting::Instructions
        && campaign.order == Order::Interleaved
    {
        // counts do not drift: guests of an image follow each other and share a boot. A control has
        // one for itself, and takes longest
        own.sort_by_key(|&at| {
            let (case, is_control) = measures[all[at].case].subject();
            (all[at].iteration, &campaign.cases[case].image, !is_control)
        });
    }
    let turns: Vec<Turn> = own.iter().map(|&at| all[at]).collect();
    let fewest = campaign
        .until
        .map_or(campaign.iterations, |until| until.min);
    let in_any_case = || turns.iter().filter(|turn| turn.iteration <= fewest);
    Ok(Agenda {
        least: (
            in_any_case().map(|turn| cases[turn.case].0).sum(),
            in_any_case().map(|turn| cases[turn.case].1).sum(),
        ),
        trials: turns.iter().map(|turn| cases[turn.case].0).sum(),
        time: turns.iter().map(|turn| cases[turn.case].1).sum(),
        changes: changes(plan)
            .into_iter()
            .chain(hooks::words(&campaign.hooks))
            .collect(),
        turns,
        numbers: own.into_iter().map(|at| at as u32 + 1).collect(),
        names,
        measures,
        cases,
    })
}

/// Rejects a configuration that no DUT of this site can have.
fn fits(configuration: &Configuration, host: &Host) -> Result<(), LabError> {
    if let Some(system) = host.site.system() {
        configuration.check_for(system)?;
    }
    match host.site.is_local() {
        true => configuration.check_without_restart(),
        false => Ok(()),
    }
}

fn changes(plan: &Plan) -> Vec<String> {
    if plan.dut.is_some() {
        return vec!["nothing: DUT and tester are simulated, in simulated time".into()];
    }
    if plan.campaign.procedure.counting() == Counting::Instructions {
        return vec![
            "nothing on this host: every DUT is a virtual machine without a network, which ends when its boot has been measured"
                .into(),
        ];
    }
    let embedded = || {
        let words = match plan.campaign.procedure.counting() {
            Counting::Slices => {
                "this host: network namespaces fwdlab-*-gen and fwdlab-*-dut0, -dut1 and so on, one for the reference, one for its control and one \
                 for each configuration and value, with two veth pairs to each; built for every iteration, removed after it; nothing outside \
                 of them"
            }
            Counting::Windows | Counting::Trials | Counting::Instructions => {
                "this host: network namespaces fwdlab-*-gen and fwdlab-*-dut0 with two veth pairs between them; built for \
                 every iteration of every test case and removed after it; nothing outside them"
            }
        };
        vec![words.to_owned()]
    };
    let mut changes = plan.host.site.changes().unwrap_or_else(embedded);
    if (plan.campaign.cases.iter()).any(|case| case.dut.is_vpp() && case.image.is_none()) {
        changes.push(
            "the DUT, VPP: started in the DUT's namespace on its two ports, with a folder of its own in the folder for temporary files; \
             ended with the bed"
                .into(),
        );
    }
    if plan
        .campaign
        .cases
        .iter()
        .any(|case| case.dut == Kind::VppHugePages)
    {
        changes.push(
            "this host: the huge pages of 2 MiB that VPP's memory needs and that are not free yet (vm.nr_hugepages), restored with the bed"
                .into(),
        );
    }
    let (cases, beds) = (plan.campaign.cases.len(), plan.campaign.iterations as usize);
    let campaign = &plan.campaign;
    let restarts = restarts::words(campaign.reboot, campaign.order, cases, cases * beds);
    changes.extend(restarts);
    let used = |name: &str| {
        let mut cases = plan.campaign.cases.iter();
        cases.any(|case| case.configuration == name)
    };
    for (name, parts) in &plan.campaign.configurations {
        if used(name) {
            changes.push(format!(
                "the DUT, configuration {name}: {}",
                parts.join("; then ")
            ));
            let needs = plan.configuration(name).map(Configuration::needs);
            let needs = needs.unwrap_or_default().into_iter();
            changes.extend(needs.map(|need| format!("the DUT, configuration {name}, {need}")));
        }
    }
    if let (Some(sweep), Some(words)) = (
        &plan.campaign.sweep,
        plan.swept.as_ref().and_then(SweptParameter::words),
    ) {
        let values: Vec<String> = sweep.values.iter().map(u64::to_string).collect();
        changes.push(format!(
            "the DUT, sweep over {} ({}): {words}",
            sweep.parameter,
            values.join(", ")
        ));
    }
    changes
}

/// Adds the files of a configuration, in a folder of their own (`2/`) if another configuration has
/// other files of these names: two versions of a rule set.
fn add_apart(own: Vec<(String, Vec<u8>)>, all: &mut Vec<(String, Vec<u8>)>) {
    let known: BTreeMap<&str, &[u8]> = all
        .iter()
        .map(|(name, bytes)| (&**name, &**bytes))
        .collect();
    let named = |name: &str, number: u32| match number {
        1 => name.to_owned(),
        _ => format!("{number}/{name}"),
    };
    let is_free = |number: &u32| {
        own.iter().all(|(name, bytes)| {
            let other = known.get(&*named(name, *number));
            other.is_none_or(|other| other == bytes)
        })
    };
    let number = (1..).find(is_free).unwrap_or(1);
    let own = own
        .iter()
        .map(|(name, bytes)| (named(name, number), bytes.clone()));
    let own = own.filter(|(name, _)| !known.contains_key(&**name));
    let own: Vec<_> = own.collect();
    all.extend(own);
}

#[cfg(test)]
mod tests {
    use fwdlab_model::campaign::{Ramp, Soak};

    use super::*;

    /// Exports of load tests read the times of a ramp in seconds.
    #[test]
    fn two_versions_of_a_file_are_both_kept() {
        let file = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
        let mut all = vec![file("campaign.toml", "")];
        for own in [
            vec![file("fw.nft", "one"), file("more", "same")],
            vec![file("fw.nft", "two"), file("more", "same")],
            vec![file("fw.nft", "one")],
            vec![file("fw.nft", "three")],
        ] {
            add_apart(own, &mut all);
        }
        let names: Vec<&str> = all.iter().map(|(name, _)| &**name).collect();
        let expected = [
            "campaign.toml",
            "fw.nft",
            "more",
            "2/fw.nft",
            "2/more",
            "3/fw.nft",
        ];
        assert_eq!(names, expected);
        assert_eq!(all[3].1, b"two");
    }

    #[test]
    fn times_are_stored_in_seconds() {
        let stored = parameters(&Procedure::Ramp(Ramp::default()));
        let seconds = ["warm_up_s", "ramp_s", "hold_s", "sample_s"].map(|name| &stored[name]);
        assert_eq!(seconds, [30.0, 600.0, 30.0, 1.0]);
        assert!(!stored.contains_key("target"), "{stored:?}");
        let stored = parameters(&Procedure::Soak(Soak::default()));
        assert_eq!(
            (&stored["duration_s"], &stored["loss"]),
            (&1800.0.into(), &"0".into())
        );
    }
}
