//! Plans: what will be measured. Campaign files and commands produce the same [`Plan`], and nothing
//! else is carried out.
//!
//! An existing plan can be carried out, as far as that can be decided before any traffic: its
//! configurations have been read, and the procedure's parameters fit the loads. Start with
//! [`Plan::new`] for a file, [`Plan::of_command`] and [`Plan::of_suite`] for commands; [`agenda`]
//! returns what is measured when, and [`super::campaign::start`] measures it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fwdlab_engine::Mode;
use fwdlab_engine::sim::{self, Dut};
use fwdlab_measure::campaign::{self as order, Turn, sequence};
use fwdlab_measure::machine::{Asked, Limit, Series, needs_management, sends_bursts};
use fwdlab_measure::maxfwd::control_of;
use fwdlab_model::campaign::value::Rate;
use fwdlab_model::campaign::{self, Campaign, Case, Counting, Engine, Kind, Order, Procedure};
use fwdlab_model::file::{FileError, Origin};
use fwdlab_model::link::{Line, LinkLoad, LinkSpeed};
use fwdlab_model::result::FIREWALLS;
use fwdlab_model::test_case::{Iteration, TestCase};
use fwdlab_model::trial::Stream;

use super::largest::Bounds;
use super::method::{bursts, slices, windows};
use super::suite::{Suite, estimated, likely_limits};
use super::traffic::{ProfileFrames, Traffic};
use super::{feasible, hooks, restarts};
use crate::dut::Configuration;
use crate::dut::sweep::Swept;
use crate::error::LabError;
use crate::placement::Placement;
use crate::site::Site;
use crate::telemetry::Wanted;

/// Duration of a test case beyond its trials: a bed, an engine that proves itself, the largest
/// load.
const BED: Duration = Duration::from_secs(3);

/// What will be measured, with all its inputs and all defaults resolved.
pub struct Plan {
    pub(super) campaign: Campaign,
    pub(super) configurations: BTreeMap<String, Configuration>,
    pub(super) dut: Option<Dut>,
    pub(super) swept: Option<Swept>,
    /// By their names in the matrix.
    pub(super) profiles: BTreeMap<String, Arc<ProfileFrames>>,
    pub(super) host: Host,
    /// The command; `None` for a campaign from a file.
    pub(super) command: Option<Command>,
    /// Further values that are stored with the run: which part of a campaign is measured, and the
    /// path of its file.
    pub(super) values: BTreeMap<String, serde_json::Value>,
}

/// Parts of a command that campaigns cannot express.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// Kind of the run: `quick`.
    pub kind: &'static str,
    /// Applied to every DUT, including the reference of a comparison.
    pub applied_to_all: Option<Configuration>,
    /// Time for all rebuilds of slices together.
    pub total: Option<Duration>,
    /// Its parameters, as they are stored.
    pub values: BTreeMap<String, serde_json::Value>,
    /// Its test cases, if the procedure goes from one to the next by itself.
    pub suite: Option<Suite>,
    /// Continues if a test case fails.
    pub goes_on: bool,
    /// The image on which the same is counted in instructions, in addition to this measurement.
    pub beside: Option<String>,
    /// Omits the second boot of the reference: an earlier run of the same command has made it.
    pub without_control: bool,
}

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
    /// Configurations of a DUT run as processes of the host, on the host's files.
    pub unconfined: bool,
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
    /// All test cases of a command, which cannot be skipped separately.
    Suite,
}

impl Measures {
    /// Returns the test cases that get an iteration in this turn.
    pub fn cases(&self) -> &[usize] {
        match self {
            Measures::Cases(cases) => cases,
            Measures::Control(_) | Measures::Suite => &[],
        }
    }

    /// Returns the test case whose configuration and traffic the turn uses, and whether the turn is
    /// its A/A control.
    pub fn subject(&self) -> (usize, bool) {
        match self {
            Measures::Cases(cases) => (cases[0], false),
            Measures::Control(of) => (*of, true),
            Measures::Suite => (0, false),
        }
    }
}

impl Agenda {
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
        let cpus = host.placement.dut_cpus.len();
        let swept = match &campaign.sweep {
            Some(sweep) => Some(
                Swept::of(sweep, dut.is_some(), cpus)
                    .map_err(|why| campaign.error(&["procedure", "sweep"], why))?,
            ),
            None => None,
        };
        if campaign.bed.engine == Engine::XdpLive && sends_bursts(&campaign.procedure) {
            let why = "xdp-live cannot send bursts; use af-packet or af-xdp, or omit engine";
            return Err(campaign.error(&["bed", "engine"], why).into());
        }
        if host.site.file().is_some() {
            let duts = campaign
                .cases
                .iter()
                .position(|case| case.dut != Kind::Linux);
            if duts.is_some() {
                let why = "the test bed says itself what its DUT is: omit dut here, or measure on the embedded bed";
                return Err(campaign.error(&["matrix", "dut"], why).into());
            }
            if matches!(campaign.procedure, Procedure::Paired(_)) {
                let why = "the test bed has one DUT, and slices need several side by side: say id = \"mrr\", whose iterations are interleaved, \
                           or measure on the embedded bed";
                return Err(campaign.error(&["procedure", "id"], why).into());
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
            command: None,
            values: BTreeMap::new(),
        };
        plan.check()?;
        Ok(plan)
    }

    /// Creates the plan of a command, as a campaign.
    ///
    /// # Errors
    /// Fails if the procedure cannot measure it.
    pub fn of_command(
        campaign: Campaign,
        configurations: Vec<Configuration>,
        command: Command,
        host: Host,
    ) -> Result<Plan, LabError> {
        for one in configurations.iter().chain(&command.applied_to_all) {
            fits(one, &host)?;
        }
        let named = configurations.into_iter();
        let plan = Plan {
            configurations: named.map(|one| (one.name.clone(), one)).collect(),
            dut: dut(&campaign, host.seed)?,
            swept: None,
            profiles: BTreeMap::new(),
            host,
            campaign,
            command: Some(command),
            values: BTreeMap::new(),
        };
        plan.check()?;
        Ok(plan)
    }

    /// Creates the plan of a command with one procedure, as a campaign of one turn. Offers `max` at
    /// most.
    pub fn of_suite(
        kind: &'static str,
        suite: Suite,
        max: Option<LinkLoad>,
        dut: Option<Dut>,
        values: BTreeMap<String, serde_json::Value>,
    ) -> Plan {
        let common = &suite.common;
        let mut plan = Plan {
            host: Host {
                site: common.site.clone(),
                placement: common.placement.clone(),
                privileged: common.privileged,
                unconfined: common.unconfined,
                seed: common.seed,
                command_line: common.command_line.clone(),
            },
            campaign: Campaign {
                name: kind.into(),
                about: String::new(),
                question: String::new(),
                needs: Vec::new(),
                iterations: 1,
                until: None,
                order: Order::Interleaved,
                reboot: None,
                seed: None,
                bed: campaign::Bed {
                    max: max.map(Rate),
                    ..campaign::Bed::default()
                },
                dut: common.dut.clone(),
                configurations: BTreeMap::new(),
                cases: suite.cases(),
                procedure: suite.asked.procedure.clone(),
                sweep: None,
                telemetry: None,
                hooks: campaign::Hooks::default(),
                thresholds: Vec::new(),
                origin: Origin::default(),
            },
            configurations: BTreeMap::new(),
            swept: None,
            profiles: BTreeMap::new(),
            command: None,
            values: BTreeMap::new(),
            dut,
        };
        let mut kept = common.as_values();
        kept.extend(values);
        kept.insert("procedure".into(), kind.into());
        kept.insert("max_load_pps".into(), plan.bounds().as_value());
        if let Some(dut) = &plan.dut {
            for real in ["generator_cpus", "dut_cpus"] {
                kept.remove(real);
            }
            kept.insert("engine".into(), sim::NAME.into());
            kept.insert("dut".into(), dut.to_string().into());
        }
        plan.command = Some(Command {
            kind,
            values: kept,
            suite: Some(suite),
            ..Command::default()
        });
        plan
    }

    /// Stores a value with the run that the campaign does not contain.
    pub fn keep(&mut self, name: &str, value: impl Into<serde_json::Value>) {
        self.values.insert(name.to_owned(), value.into());
    }

    /// Checks a suite, as far as that is possible before any traffic.
    ///
    /// # Errors
    /// Fails with the mistake, in words.
    pub fn check_suite(&self) -> Result<(), String> {
        let Some(suite) = self.suite() else {
            return Ok(());
        };
        feasible::check(self).map_err(|error| error.to_string())?;
        let limits = suite.likely(self.dut.as_ref(), self.bounds());
        let limits = limits.map_err(|error| error.to_string())?;
        fwdlab_measure::machine::make(&suite.asked, &limits).map(|_| ())
    }

    /// Returns the simulated DUT, if it is one.
    pub fn dut(&self) -> Option<&Dut> {
        self.dut.as_ref()
    }

    pub(super) fn estimate_suite(&self) -> Result<(u32, Duration), LabError> {
        let Some(suite) = self.suite() else {
            return Ok((0, Duration::ZERO));
        };
        let (dut, bounds) = (self.dut.as_ref(), self.bounds());
        suite.estimate(&suite.likely(dut, bounds)?, dut, bounds.asked.is_some())
    }

    /// Returns what a command measures in one turn.
    pub fn suite(&self) -> Option<&Suite> {
        self.command.as_ref()?.suite.as_ref()
    }

    fn check(&self) -> Result<(), LabError> {
        if let (Some(_), Err(why)) = (self.campaign.reboot, self.host.site.can_reboot()) {
            let why = format!("the DUT cannot be restarted: {why}. Omit this");
            return Err(self.campaign.error(&["reboot"], why).into());
        }
        feasible::check(self)?;
        bursts::check_images(&self.campaign)?;
        match &self.campaign.procedure {
            Procedure::Paired(paired) => {
                slices::check(self, paired)?;
                return Ok(());
            }
            Procedure::Maxfwd(_) => {
                windows::check(self)?;
                return Ok(());
            }
            Procedure::Exact(p) => {
                bursts::check(self, p)?;
                return Ok(());
            }
            _ => {}
        }
        for case in &self.campaign.cases {
            let at = |why| self.campaign.error(&["procedure"], why);
            let limits = self.likely(case)?;
            fwdlab_measure::machine::make(&self.asked(0, case), &limits).map_err(at)?;
        }
        Ok(())
    }

    /// Returns the name of the procedure in records; for a suite that of the command.
    pub(super) fn procedure(&self) -> &str {
        match self.suite() {
            Some(_) => &self.campaign.name,
            None => self.campaign.procedure.id(),
        }
    }

    /// Returns true for a command, and false for a campaign from a file.
    pub(super) fn is_command(&self) -> bool {
        self.command.is_some()
    }

    /// Returns true if this error ends the run. A campaign continues with its other test cases; a
    /// command fails.
    pub(super) fn is_ended_by(&self, error: &LabError) -> bool {
        matches!(error, LabError::Store(_)) || self.is_one()
    }

    /// Returns true if the run is worthless as soon as any part of it fails.
    pub(super) fn is_one(&self) -> bool {
        (self.command.as_ref()).is_some_and(|command| !command.goes_on)
    }

    /// Returns true if the reference is booted once more.
    pub(super) fn has_control(&self) -> bool {
        !(self.command.as_ref()).is_some_and(|command| command.without_control)
    }

    /// Returns the configuration that is applied to every DUT.
    pub(super) fn applied_to_all(&self) -> Option<&Configuration> {
        self.command.as_ref()?.applied_to_all.as_ref()
    }

    /// Returns the plan that counts the same configurations in instructions, if requested.
    pub(super) fn beside(&self) -> Result<Option<Plan>, LabError> {
        let command = self.command.as_ref();
        let Some(image) = command.and_then(|command| command.beside.clone()) else {
            return Ok(None);
        };
        let of = |configuration: &str, case: &Case| Case {
            configuration: configuration.to_owned(),
            image: Some(image.clone()),
            ..case.clone()
        };
        let own = &self.campaign;
        let mut cases = vec![of(campaign::PLAIN, &own.cases[0])];
        cases.extend(own.cases.iter().map(|case| of(&case.configuration, case)));
        let campaign = Campaign {
            name: own.name.clone(),
            about: String::new(),
            question: String::new(),
            needs: Vec::new(),
            iterations: 1,
            until: None,
            order: Order::Interleaved,
            reboot: None,
            seed: own.seed,
            bed: campaign::Bed::default(),
            dut: campaign::Dut::default(),
            configurations: BTreeMap::new(),
            cases,
            procedure: Procedure::Exact(campaign::Exact::default()),
            sweep: None,
            telemetry: None,
            hooks: campaign::Hooks::default(),
            thresholds: Vec::new(),
            origin: Origin::default(),
        };
        let command = Command {
            applied_to_all: self.applied_to_all().cloned(),
            goes_on: true,
            ..Command::default()
        };
        let compared = self.configurations.values().cloned().collect();
        Plan::of_command(campaign, compared, command, self.host.clone()).map(Some)
    }

    /// Returns the configurations that are applied to the DUT of a test case, in order.
    pub(super) fn applied(&self, case: &Case) -> Vec<&Configuration> {
        let own = self.configurations.get(&case.configuration);
        self.applied_to_all().into_iter().chain(own).collect()
    }

    /// Returns the time for all rebuilds of slices together, if it is limited.
    pub(super) fn total(&self) -> Option<Duration> {
        self.command.as_ref()?.total
    }

    /// Returns the name of a test case: without its configuration if a command measures only one.
    pub(super) fn id(&self, case: &Case) -> String {
        let compares = matches!(
            self.campaign.procedure.counting(),
            Counting::Slices | Counting::Instructions
        );
        match self.is_command() && !compares {
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
        if let Some(suite) = self.suite() {
            return suite.likely(self.dut.as_ref(), self.bounds());
        }
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
        let most = self.campaign.bed.max.map(|Rate(most)| most);
        Bounds {
            asked: most.or_else(|| self.campaign.procedure.load()),
            line: self.line(),
        }
    }

    pub(super) fn line(&self) -> Option<Line> {
        if let Some(suite) = self.suite() {
            return suite.common.line;
        }
        super::line(self.dut.as_ref(), self.campaign.bed.link)
    }

    /// Returns the traffic of a test case: one series.
    pub(super) fn traffic(&self, case: &Case) -> Traffic {
        let profile = match self.suite() {
            Some(suite) => suite.common.traffic.profile.clone(),
            None => {
                let name = case.variant.profile.as_ref();
                name.and_then(|name| self.profiles.get(name).cloned())
            }
        };
        Traffic {
            profile,
            variants: vec![case.variant.clone()],
            ..Traffic::default()
        }
    }

    pub(super) fn asked(&self, seed: u64, case: &Case) -> Asked {
        if let Some(suite) = self.suite() {
            return suite.asked.clone();
        }
        Asked {
            procedure: self.campaign.procedure.clone(),
            sweep: self.campaign.sweep.clone(),
            simulated: self.dut.is_some(),
            seed,
            series: Series {
                of_profile: case.variant.profile.is_some(),
                both_directions: case.variant.both_directions,
                // here every series is a test case of its own
                single_and_random: false,
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
        if !self.is_command() {
            add("campaign.toml".into(), &self.campaign.origin.text);
        }
        for (name, profile) in &self.profiles {
            let name = name.trim_end_matches(".toml");
            let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
            add(format!("profiles/{name}.toml"), &profile.text);
        }
        let common = self.suite().map(|suite| &suite.common);
        if let Some(profile) = common.and_then(|common| common.traffic.profile.as_ref()) {
            add(format!("profile.{}", profile.ending), &profile.text);
        }
        for (name, configuration) in &self.configurations {
            let folder = match self.is_command() {
                true => String::new(),
                false => format!("{name}/"),
            };
            super::inputs_of(configuration, &folder, &mut inputs)?;
        }
        let applied = common.and_then(|common| common.configuration.as_ref());
        for configuration in applied.into_iter().chain(self.applied_to_all()) {
            super::inputs_of(configuration, "", &mut inputs)?;
        }
        Ok(inputs)
    }

    /// Returns the site of the test beds.
    pub(super) fn site(&self) -> &Site {
        &self.host.site
    }

    /// Returns what is varied within a test case.
    pub(super) fn swept(&self) -> Option<&Swept> {
        self.swept.as_ref()
    }

    /// Returns the configuration of this name; the plain router has none.
    pub(super) fn configuration(&self, name: &str) -> Option<&Configuration> {
        let of_suite = self
            .suite()
            .and_then(|suite| suite.common.configuration.as_ref());
        let of_suite = of_suite.filter(|applied| applied.name == name);
        self.configurations.get(name).or(of_suite)
    }

    /// Returns the parameters of a run, for these streams of this test case.
    pub(super) fn common(&self, streams: Vec<Stream>, case: &Case) -> super::Parameters {
        if let Some(suite) = self.suite() {
            return suite.common.clone();
        }
        let engine = self.campaign.bed.engine.name();
        let bursts = sends_bursts(&self.campaign.procedure);
        super::Parameters {
            streams,
            traffic: self.traffic(case),
            load: None,
            line: self.line(),
            configuration: self.configurations.get(&case.configuration).cloned(),
            telemetry: self.telemetry(),
            unconfined: self.host.unconfined,
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
            Some(asked) => Wanted::asked(asked),
            None => self.host.site.is_here().then(Wanted::default),
        }
    }

    /// Returns the parameters as they are stored, including which configurations are firewalls,
    /// because their names do not show it.
    pub(super) fn as_values(&self) -> BTreeMap<String, serde_json::Value> {
        let mut values = self.said();
        if !self.configurations.is_empty() {
            let all = self.configurations.iter();
            let firewalls = all.filter(|(_, one)| one.is_firewall());
            let names: Vec<String> = firewalls.map(|(name, _)| name.clone()).collect();
            values.insert(FIREWALLS.into(), names.into());
        }
        values
    }

    fn said(&self) -> BTreeMap<String, serde_json::Value> {
        let campaign = &self.campaign;
        if let Some(command) = &self.command {
            return command.values.clone();
        }
        let ids: Vec<String> = campaign.cases.iter().map(Case::id).collect();
        let engine = match self.dut {
            Some(_) => sim::NAME,
            None => campaign.bed.engine.name(),
        };
        let mut values: BTreeMap<String, serde_json::Value> = [
            ("campaign", campaign.name.clone().into()),
            ("about", campaign.about.clone().into()),
            ("procedure", campaign.procedure.id().into()),
            ("test_cases", ids.into()),
            ("iterations", campaign.iterations.into()),
            (
                "order",
                format!("{:?}", campaign.order).to_lowercase().into(),
            ),
            ("engine", engine.into()),
        ]
        .map(|(name, value): (&str, serde_json::Value)| (name.to_owned(), value))
        .into();
        if !campaign.question.is_empty() {
            values.insert("question".into(), campaign.question.clone().into());
        }
        if !campaign.configurations.is_empty() {
            // so that readers of the run can obtain them, too
            values.insert(
                "configurations".into(),
                serde_json::json!(campaign.configurations),
            );
        }
        values.extend(self.values.clone());
        if let Some(until) = &campaign.until {
            values.insert("iterations_min".into(), until.min.into());
            values.insert("iterations_until".into(), until.width.to_string().into());
        }
        let references = campaign.thresholds.iter();
        let references = references.map(|one| one.not_slower_than.as_ref()?.run.clone());
        let references: Vec<Option<String>> = references.collect();
        if references.iter().any(Option::is_some) {
            values.insert("threshold_runs".into(), references.into());
        }
        if let Some(reboot) = &campaign.reboot {
            values.insert("reboot_within".into(), reboot.within.to_string().into());
        }
        if self.host.unconfined {
            values.insert("set_unconfined".into(), true.into());
        }
        if let Procedure::Exact(p) = &campaign.procedure {
            values.insert("reference".into(), p.reference.clone().into());
            values.insert("frames".into(), p.frames.into());
        }
        if let Some(line) = self.line() {
            values.insert("link_bps".into(), line.speed.bps().into());
        }
        if let Some(sweep) = &campaign.sweep {
            values.insert("sweep".into(), sweep.parameter.clone().into());
        }
        match &self.dut {
            Some(dut) => values.insert("dut".into(), dut.to_string().into()),
            None => values.insert(
                "dut_cpus".into(),
                self.host.placement.dut_cpus.clone().into(),
            ),
        };
        values
    }
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
            let why = "profiles and broadcasts have their own timing; measure bursts without them";
            return Err(campaign.error(&["procedure"], why));
        }
        let Some(name) = &case.variant.profile else {
            continue;
        };
        let frames = match profiles.get(name) {
            Some(frames) => frames,
            None => {
                let frames = read(name, both_ways, speed);
                let frames = frames.map_err(|why| campaign.error(&["matrix", "profile"], why))?;
                profiles.entry(name.clone()).or_insert(Arc::new(frames))
            }
        };
        case.stream = frames.as_stream();
    }
    campaign.cases = cases;
    Ok(profiles)
}

/// Returns the simulated DUT, if it is one.
fn dut(campaign: &Campaign, seed: u64) -> Result<Option<Dut>, FileError> {
    if !campaign.is_simulated() {
        return Ok(None);
    }
    let text = campaign.bed.dut.as_deref().unwrap_or("capacity=1e6");
    let wrong = |why: String| campaign.error(&["bed", "dut"], why);
    let mut dut = Dut::parse(text).map_err(|error| wrong(error.to_string()))?;
    if let Some(speed) = campaign.bed.link {
        let said = dut.set_link(speed);
        said.map_err(|why| campaign.error(&["bed", "link"], why))?;
    }
    match (campaign.seed, text.contains("seed")) {
        (Some(_), true) => {
            let why = "seed is given in dut and in the campaign: give only one of them";
            return Err(wrong(why.into()));
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
    let each = match plan.dut {
        Some(_) => Duration::ZERO,
        None => BED,
    };
    let each_case = || (0..campaign.cases.len()).map(|case| Measures::Cases(vec![case]));
    let mut measures: Vec<Measures> = match &campaign.procedure {
        _ if plan.suite().is_some() => vec![Measures::Suite],
        Procedure::Paired(_) => {
            let rows = slices::rows(&campaign.cases).into_iter();
            rows.map(Measures::Cases).collect()
        }
        _ => each_case().collect(),
    };
    measures.extend(match &campaign.procedure {
        Procedure::Maxfwd(_) => Some(Measures::Control(0)),
        Procedure::Exact(_) => bursts::controlled(plan).map(Measures::Control),
        _ => None,
    });
    let names = measures.iter().map(|measures| match measures {
        Measures::Suite => campaign.name.clone(),
        Measures::Control(of) => control_of(&plan.id(&campaign.cases[*of])),
        Measures::Cases(cases) => {
            let names = cases.iter().map(|&case| plan.id(&campaign.cases[case]));
            names.collect::<Vec<_>>().join(", ")
        }
    });
    let names: Vec<String> = names.collect();
    let cases = measures.iter().map(|measures| match &campaign.procedure {
        _ if *measures == Measures::Suite => plan.estimate_suite(),
        Procedure::Paired(paired) => Ok(slices::estimate(plan, paired, measures.cases())),
        Procedure::Exact(_) => Ok(bursts::estimate()),
        Procedure::Maxfwd(maxfwd) => Ok(windows::estimate(maxfwd, &campaign.cases)),
        _ => {
            let case = &campaign.cases[measures.cases()[0]];
            let asked = plan.asked(plan.seed(), case);
            let (trials, time) = estimated(&asked, &plan.likely(case)?, plan.dut.as_ref())?;
            Ok((trials, time + each))
        }
    });
    let cases = cases.collect::<Result<Vec<_>, LabError>>()?;
    let turns = sequence(
        cases.len(),
        campaign.iterations,
        campaign.order,
        plan.seed(),
    );
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
    match host.site.is_here() {
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
    if plan.campaign.cases.iter().any(|case| case.dut.is_vpp()) {
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
        plan.swept.as_ref().and_then(Swept::words),
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
