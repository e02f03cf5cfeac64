//! Carrying out campaigns: every test case as often as it is wanted, in randomised blocks, each on a test bed of its own.
//!
//! A test case that fails is told with its reason, and the campaign goes on. Every trial is kept with its test case and its
//! iteration, the file and what its configurations were read from beside them. Start with [`Parameters::new`], [`plan`] and [`start`].

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fwdlab_engine::Mode;
use fwdlab_engine::sim::{self, Dut, Simulation};
use fwdlab_measure::campaign::{self as order, Turn, failure_of, seed_of, sequence};
use fwdlab_measure::gate::Gate;
use fwdlab_measure::machine::{Asked, Limit, Series, sends_bursts, wants_overload};
use fwdlab_measure::maxfwd::control_of;
use fwdlab_measure::meters::{self, Meters};
use fwdlab_measure::trust;
use fwdlab_model::campaign::value::Rate;
use fwdlab_model::campaign::{Campaign, Case, Engine, Method, Procedure};
use fwdlab_model::comparison::Comparison;
use fwdlab_model::event::{Event, EventKind};
use fwdlab_model::file::FileError;
use fwdlab_model::link::{Line, LinkSpeed};
use fwdlab_model::outcome::Outcome;
use fwdlab_model::result::{Noise, Summary, TrialRecord};
use fwdlab_model::test_case::{Iteration, TestCase};
use fwdlab_model::trial::Stream;
use fwdlab_model::units::imix_estimate_l2_bps;
use fwdlab_model::variant::Variant;
use fwdlab_model::version::RUN_FORMAT;

use super::course::{Course, Planned, invalid};
use super::device::{self, Device, OVERHEAD, Real, Simulated, doubts, simulated_noise};
use super::largest::Bounds;
use super::procedure::{capacities, estimated, likely_limits};
use super::traffic::{ProfileFrames, Traffic};
use super::{
    Control, Measured, Run, carry_out, configure, keep_inputs, open_tester, slices, windows,
};
use crate::dut::Configuration;
use crate::dut::sweep::{Setting, Swept};
use crate::error::LabError;
use crate::placement::Placement;
use crate::site::Site;

/// What a test case takes beyond its trials: a bed, an engine that proves itself, the largest load.
const BED: Duration = Duration::from_secs(3);

/// A campaign with everything that was read for it; every default is resolved.
pub struct Parameters {
    campaign: Campaign,
    configurations: BTreeMap<String, Configuration>,
    dut: Option<Dut>,
    swept: Option<Swept>,
    /// By their names in the matrix.
    profiles: BTreeMap<String, Arc<ProfileFrames>>,
    host: Host,
    /// Of a command; `None` for a campaign from a file.
    command: Option<Command>,
}

/// What a command asks for that campaigns do not say.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// What kind of run: `quick`.
    pub kind: &'static str,
    /// Applied to every DUT, the reference of a comparison included.
    pub applied_to_all: Option<Configuration>,
    /// Time for all rebuilds of slices together.
    pub total: Option<Duration>,
    /// Its parameters, as they are kept.
    pub values: BTreeMap<String, serde_json::Value>,
}

/// Compiles the profile of this name, for both directions or for one, on lines of this speed.
pub type ProfileReader<'a> =
    dyn Fn(&str, bool, Option<LinkSpeed>) -> Result<ProfileFrames, String> + 'a;

/// Who carries it out.
#[derive(Debug, Clone)]
pub struct Host {
    /// Where test beds are built.
    pub site: Site,
    /// CPUs; on a simulated DUT none.
    pub placement: Placement,
    /// Root of the host, or of a user namespace only.
    pub privileged: bool,
    /// What is applied to a DUT runs as processes of the host, on the host's files.
    pub unconfined: bool,
    /// Seed of every random choice, where the campaign says none.
    pub seed: u64,
    /// The command line, as typed.
    pub command_line: Vec<String>,
}

/// What a campaign will do.
#[derive(Debug)]
pub struct Plan {
    /// What is measured, in its order; of procedures by slices one turn is of all test cases that stand beside each other.
    pub turns: Vec<Turn>,
    /// What is measured in a turn.
    pub names: Vec<String>,
    /// Trials and time of one iteration of each of them, as estimated.
    pub cases: Vec<(u32, Duration)>,
    /// Trials of all.
    pub trials: u32,
    /// Time of all.
    pub time: Duration,
    /// What is changed where, in words.
    pub changes: Vec<String>,
}

impl Parameters {
    /// Reads what the campaign names, `folder` being where it stands, and makes sure that everything fits together, as far as that
    /// can be known before any traffic.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place in the file where it has one.
    pub fn new(
        mut campaign: Campaign,
        folder: &Path,
        host: Host,
        profile: &ProfileReader<'_>,
    ) -> Result<Parameters, LabError> {
        let mut configurations = BTreeMap::new();
        for (name, parts) in &campaign.configurations {
            let read = Configuration::named(name, parts, folder);
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
        let speed = super::line(dut.as_ref(), campaign.bed.link).map(|line| line.speed);
        let profiles = profiles(&mut campaign, speed, profile)?;
        let parameters = Parameters {
            configurations,
            dut,
            swept,
            profiles,
            host,
            campaign,
            command: None,
        };
        parameters.check()?;
        Ok(parameters)
    }

    /// What a command asks for, as a campaign.
    ///
    /// # Errors
    /// What its procedure cannot measure.
    pub fn of_command(
        campaign: Campaign,
        configurations: Vec<Configuration>,
        command: Command,
        host: Host,
    ) -> Result<Parameters, LabError> {
        let named = configurations.into_iter();
        let parameters = Parameters {
            configurations: named.map(|one| (one.name.clone(), one)).collect(),
            dut: dut(&campaign, host.seed)?,
            swept: None,
            profiles: BTreeMap::new(),
            host,
            campaign,
            command: Some(command),
        };
        parameters.check()?;
        Ok(parameters)
    }

    fn check(&self) -> Result<(), LabError> {
        let parameters = self;
        match &parameters.campaign.procedure {
            Procedure::Paired(paired) => {
                slices::check(parameters, paired)?;
                return Ok(());
            }
            Procedure::Maxfwd(_) => {
                windows::check(parameters)?;
                return Ok(());
            }
            _ => {}
        }
        for case in &parameters.campaign.cases {
            let at = |why| parameters.campaign.error(&["procedure"], why);
            let limits = parameters.likely(case)?;
            fwdlab_measure::machine::make(&parameters.asked(0, case), &limits).map_err(at)?;
        }
        Ok(())
    }

    /// Does a command ask, and not a file?
    pub(super) fn is_command(&self) -> bool {
        self.command.is_some()
    }

    /// Can nothing be done after this error? A campaign goes on with its other test cases; a command tells it.
    pub(super) fn is_ended_by(&self, error: &LabError) -> bool {
        matches!(error, LabError::Store(_)) || self.is_command()
    }

    /// What every DUT has, whatever else is applied to it.
    pub(super) fn applied_to_all(&self) -> Option<&Configuration> {
        self.command.as_ref()?.applied_to_all.as_ref()
    }

    /// Time for all rebuilds of slices together, where there is one.
    pub(super) fn total(&self) -> Option<Duration> {
        self.command.as_ref()?.total
    }

    /// The name of a test case: without its configuration where a command measures only one.
    pub(super) fn id(&self, case: &Case) -> String {
        let compares = self.campaign.procedure.method() == Method::Slices;
        match self.is_command() && !compares {
            true => case.variant.id(&case.stream),
            false => case.id(),
        }
    }

    /// What the iterations of a test case say together.
    pub(super) fn summarise(&self, case: &Case, iterations: Vec<Iteration>) -> TestCase {
        order::summarise(self.id(case), case, iterations)
    }

    /// The campaign.
    pub fn campaign(&self) -> &Campaign {
        &self.campaign
    }

    /// Seed of every random choice.
    pub fn seed(&self) -> u64 {
        let own = self.campaign.seed.unwrap_or(self.host.seed);
        self.dut.as_ref().map_or(own, |dut| dut.seed)
    }

    fn likely(&self, case: &Case) -> Result<Vec<Limit>, FileError> {
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
            self.campaign.error(way, error.to_string())
        })
    }

    fn bounds(&self) -> Bounds {
        let most = self.campaign.bed.max.map(|Rate(most)| most);
        Bounds {
            asked: most.or_else(|| self.campaign.procedure.load()),
            line: self.line(),
        }
    }

    fn line(&self) -> Option<Line> {
        super::line(self.dut.as_ref(), self.campaign.bed.link)
    }

    /// What a test case offers: one series.
    fn traffic(&self, case: &Case) -> Traffic {
        let profile = case.variant.profile.as_ref();
        Traffic {
            profile: profile.and_then(|name| self.profiles.get(name).cloned()),
            variants: vec![case.variant.clone()],
            ..Traffic::default()
        }
    }

    fn asked(&self, seed: u64, case: &Case) -> Asked {
        Asked {
            procedure: self.campaign.procedure.clone(),
            sweep: self.campaign.sweep.clone(),
            simulated: self.dut.is_some(),
            seed,
            series: Series {
                of_profile: case.variant.profile.is_some(),
                both_directions: case.variant.both_directions,
                // series are test cases of their own here
                single_and_random: false,
            },
        }
    }

    /// What is varied within a test case.
    pub(super) fn swept(&self) -> Option<&Swept> {
        self.swept.as_ref()
    }

    /// A configuration by its name; the plain router has none.
    pub(super) fn configuration(&self, name: &str) -> Option<&Configuration> {
        self.configurations.get(name)
    }

    /// What every run needs, for these streams of this test case.
    pub(super) fn common(&self, streams: Vec<Stream>, case: &Case) -> super::Parameters {
        let engine = self.campaign.bed.engine.name();
        let bursts = sends_bursts(&self.campaign.procedure);
        super::Parameters {
            streams,
            traffic: self.traffic(case),
            load: None,
            line: self.line(),
            configuration: self.configurations.get(&case.configuration).cloned(),
            unconfined: self.host.unconfined,
            engine: match (
                Mode::ALL.into_iter().find(|mode| mode.name() == engine),
                bursts,
            ) {
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

    fn as_values(&self) -> BTreeMap<String, serde_json::Value> {
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
        if self.host.unconfined {
            values.insert("set_unconfined".into(), true.into());
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

/// Compiles the profiles of the matrix, and says what stands for them in records.
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

/// The simulated DUT, if it is one.
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

/// What the campaign will do; touches nothing.
///
/// # Errors
/// What [`Parameters::new`] would have told.
pub fn plan(parameters: &Parameters) -> Result<Plan, LabError> {
    let campaign = &parameters.campaign;
    let (overhead, each) = match parameters.dut {
        Some(_) => (Duration::ZERO, Duration::ZERO),
        None => (OVERHEAD, BED),
    };
    let of_trials = campaign.cases.iter().map(|case| {
        let asked = parameters.asked(parameters.seed(), case);
        let limits = parameters.likely(case)?;
        let capacities = capacities(parameters.dut.as_ref(), &limits);
        let (trials, time) = estimated(&asked, &limits, &capacities, overhead)?;
        Ok((trials, time + each))
    });
    let (names, cases) = match &campaign.procedure {
        Procedure::Paired(paired) => slices::rows(&campaign.cases)
            .iter()
            .map(|row| {
                let name = slices::name(parameters, row);
                (name, slices::estimate(parameters, paired, row))
            })
            .unzip(),
        Procedure::Maxfwd(maxfwd) => {
            let cases = || campaign.cases.iter().chain(campaign.cases.first());
            let each = cases().map(|case| windows::estimate(maxfwd, &campaign.cases, case));
            let mut names: Vec<String> = cases().map(|case| parameters.id(case)).collect();
            if let Some(control) = names.last_mut() {
                *control = control_of(control);
            }
            (names, each.collect())
        }
        _ => (
            campaign
                .cases
                .iter()
                .map(|case| parameters.id(case))
                .collect(),
            of_trials.collect::<Result<Vec<_>, LabError>>()?,
        ),
    };
    let turns = sequence(
        cases.len(),
        campaign.iterations,
        campaign.order,
        parameters.seed(),
    );
    Ok(Plan {
        trials: turns.iter().map(|turn| cases[turn.case].0).sum(),
        time: turns.iter().map(|turn| cases[turn.case].1).sum(),
        changes: changes(parameters),
        turns,
        names,
        cases,
    })
}

fn changes(parameters: &Parameters) -> Vec<String> {
    if parameters.dut.is_some() {
        return vec!["nothing: DUT and tester are simulated, in simulated time".into()];
    }
    let mut changes = vec![
        match parameters.campaign.procedure.method() {
            Method::Slices => {
                "this host: network namespaces fwdlab-*-gen and fwdlab-*-dut0, -dut1 and so on, one for the reference, one for its control and one \
                 for each configuration and value, with two veth pairs to each; built for every iteration, removed after it; nothing outside \
                 of them"
            }
            _ => {
                "this host: network namespaces fwdlab-*-gen and fwdlab-*-dut0 with two veth pairs between them; built for \
                 every iteration of every test case and removed after it; nothing outside them"
            }
        }
        .to_owned(),
    ];
    let used = |name: &str| {
        let mut cases = parameters.campaign.cases.iter();
        cases.any(|case| case.configuration == name)
    };
    for (name, parts) in &parameters.campaign.configurations {
        if used(name) {
            changes.push(format!(
                "the DUT, configuration {name}: {}",
                parts.join("; then ")
            ));
        }
    }
    if let (Some(sweep), Some(words)) = (
        &parameters.campaign.sweep,
        parameters.swept.as_ref().and_then(Swept::words),
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

/// Carries the campaign out. The run directory is made first; on success the caller adds the report and calls [`Run::finish`].
///
/// # Errors
/// Not even the first test bed can be built, or the run cannot be kept. What fails in a test case is in its outcome.
pub fn start<'a>(
    parameters: &Parameters,
    runs: &Path,
    control: &Control,
    listener: &'a mut dyn FnMut(&Event),
) -> Result<(Run<'a>, Measured), LabError> {
    let plan = plan(parameters)?;
    let campaign = &parameters.campaign;
    let first = campaign.streams(&campaign.cases[0])?;
    // what test cases are of is kept below, with their names
    let common = super::Parameters {
        traffic: Traffic::default(),
        configuration: None,
        ..parameters.common(first, &campaign.cases[0])
    };
    let values = parameters.as_values();
    let kind = (parameters.command.as_ref()).map_or("campaign", |command| command.kind);
    let mut run = Run::named(&common, &campaign.name, kind, values, runs, listener)?;
    if !parameters.is_command() {
        let text = campaign.origin.text.as_bytes();
        run.writer.input("campaign.toml", text)?;
    }
    for (name, configuration) in &parameters.configurations {
        let folder = match parameters.is_command() {
            true => String::new(),
            false => format!("{name}/"),
        };
        keep_inputs(&run.writer, configuration, &folder)?;
    }
    if let Some(configuration) = parameters.applied_to_all() {
        keep_inputs(&run.writer, configuration, "")?;
    }
    for (name, profile) in &parameters.profiles {
        let name = name.trim_end_matches(".toml");
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let text = profile.text.as_bytes();
        run.writer.input(&format!("profiles/{name}.toml"), text)?;
    }
    if let Some(dut) = &parameters.dut {
        run.info.facts.engine = format!("sim: {dut}");
        run.info.facts.driver = None;
    }
    carry_out(run, |run, measured| {
        let mut running = Running {
            parameters,
            plan: &plan,
            control,
            gate: None,
            limits: BTreeMap::new(),
            short: Vec::new(),
            made: vec![Vec::new(); campaign.cases.len()],
            invalid: 0,
            compared: None,
        };
        let time = match parameters.dut {
            Some(_) => Duration::ZERO,
            None => plan.time,
        };
        run.started(plan.trials, time)?;
        let result = match &campaign.procedure {
            Procedure::Paired(paired) => match running.by_slices(paired, run, measured) {
                Ok(compared) => {
                    running.compared = compared;
                    Ok(())
                }
                Err(error) => Err(error),
            },
            Procedure::Maxfwd(maxfwd) => running.by_windows(maxfwd, run, measured),
            _ => running.turns(run, measured),
        };
        running.sum_up(run, measured);
        result
    })
}

/// A campaign on its way.
pub(super) struct Running<'a> {
    pub parameters: &'a Parameters,
    pub plan: &'a Plan,
    pub control: &'a Control,
    /// From the readings before the first trial, in the end of all.
    pub gate: Option<Gate>,
    /// Largest load of every stream: the same in all iterations.
    limits: BTreeMap<String, Limit>,
    /// Streams with which the tester cannot fill the line, in words.
    short: Vec<String>,
    /// What was made of each test case.
    pub made: Vec<Vec<Iteration>>,
    invalid: u32,
    /// A/A control, where the procedure has one.
    pub compared: Option<Comparison>,
}

impl Running<'_> {
    fn turns(&mut self, run: &mut Run<'_>, measured: &mut Measured) -> Result<(), LabError> {
        let plan = self.plan;
        let mut later = plan.time;
        for turn in &plan.turns {
            if self.control.is_stopped() {
                return Ok(());
            }
            let first = measured.trials.len();
            later = later.saturating_sub(plan.cases[turn.case].1);
            let (outcomes, failure) = match self.turn(*turn, later, run, measured) {
                Ok((outcomes, None)) => {
                    let failure = failure_of(&outcomes);
                    (outcomes, failure)
                }
                Ok((outcomes, Some(LabError::Interrupted))) if outcomes.is_empty() => return Ok(()),
                Ok((_, Some(LabError::Store(error)))) => return Err(error.into()),
                Ok((outcomes, Some(error))) => (outcomes, Some(error.to_string())),
                Err(LabError::Interrupted) => return Ok(()),
                Err(error) => return Err(error),
            };
            let stopped = self.control.is_stopped();
            let iteration = Iteration {
                iteration: turn.iteration,
                failure: failure.map(|why| match stopped {
                    true => "interrupted".into(),
                    false => why,
                }),
                outcomes,
                trials: measured.trials[first..].iter().map(|t| t.trial).collect(),
            };
            let case = &self.parameters.campaign.cases[turn.case];
            run.tell(EventKind::IterationFinished {
                test_case: self.parameters.id(case),
                iteration: Box::new(iteration.clone()),
            })?;
            self.made[turn.case].push(iteration);
        }
        Ok(())
    }

    /// One iteration of one test case: what was found, and what failed within it.
    fn turn(
        &mut self,
        turn: Turn,
        later: Duration,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(Vec<Outcome>, Option<LabError>), LabError> {
        let parameters = self.parameters;
        let case = &parameters.campaign.cases[turn.case];
        let id = parameters.id(case);
        let streams = parameters.campaign.streams(case)?;
        let common = parameters.common(streams, case);
        let asked = parameters.asked(seed_of(turn, parameters.seed()), case);
        let (steps, time) = self.plan.cases[turn.case];
        let planned = Planned {
            steps,
            time,
            of_run: self.plan.trials,
            later,
        };
        let limits = parameters.likely(case)?;
        let Some(dut) = &parameters.dut else {
            return self.on_bed(
                &common,
                &asked,
                (&id, turn.iteration),
                planned,
                run,
                measured,
            );
        };
        let course = Course {
            streams: &common.streams,
            traffic: &common.traffic,
            procedure: asked.procedure.id(),
            asked: &asked,
            capacities: capacities(parameters.dut.as_ref(), &limits),
            limits,
            case: Some((&id, turn.iteration)),
            planned,
            gate: None,
            control: self.control,
        };
        let mut device = Simulated {
            simulation: Simulation::new(Dut {
                seed: asked.seed,
                ..dut.clone()
            }),
            traffic: &common.traffic,
            variant: Variant::default(),
            control: self.control,
            swept: parameters.swept.clone(),
            meters: Meters::default(),
        };
        let followed = course.follow(&mut device, run, measured)?;
        self.invalid += followed.invalid;
        Ok((followed.outcomes, followed.result.err()))
    }

    fn on_bed(
        &mut self,
        common: &super::Parameters,
        asked: &Asked,
        case: (&str, u32),
        planned: Planned,
        run: &mut Run<'_>,
        measured: &mut Measured,
    ) -> Result<(Vec<Outcome>, Option<LabError>), LabError> {
        if self.gate.is_none() {
            let readings = windows::calibrate(common, &mut run.info.facts);
            self.gate = Gate::calibrate(&readings);
        }
        let stands = device::erect(common).and_then(|(bed, _)| {
            let (tester, words) = open_tester(&bed, common)?;
            Ok((bed, tester, words))
        });
        let (bed, tester, words) = match stands {
            Ok(stands) => stands,
            // a host that does not answer once: the others' beds may be built
            Err(error) if run.has_bed => return Ok((Vec::new(), Some(error))),
            Err(error) => return Err(error),
        };
        if !run.has_bed {
            run.bed_ready(&bed, &words)?;
        }
        let swept = self.parameters.swept.clone();
        let is_set = |swept: &Swept| !matches!(swept, Swept::Stream | Swept::Units);
        let parameter = asked.sweep.as_ref().map_or("", |sweep| &sweep.parameter);
        let setting = swept
            .filter(is_set)
            .map(|swept| Setting::new(parameter, swept));
        let mut device = Real::new(bed, tester, common, self.control);
        device.setting = setting;
        // what fails from here on is this test case's
        let limits = match self.limits(&mut device, common, run) {
            Ok(limits) => limits,
            Err(error) => return Ok((Vec::new(), Some(error))),
        };
        if let Some(configuration) = &common.configuration {
            let stream = &common.streams[0];
            let control = self.control;
            let (tester, bed) = device.both();
            let applied = configure(bed, 0, tester, stream, configuration, control, run);
            if let Err(error) = applied {
                return Ok((Vec::new(), Some(error)));
            }
        }
        let course = Course {
            streams: &common.streams,
            traffic: &common.traffic,
            procedure: asked.procedure.id(),
            asked,
            capacities: capacities(None, &limits),
            limits,
            case: Some(case),
            planned,
            gate: self.gate.as_ref(),
            control: self.control,
        };
        let followed = match course.follow(&mut device, run, measured) {
            Ok(followed) => followed,
            Err(error) => return Ok((Vec::new(), Some(error))),
        };
        self.invalid += followed.invalid;
        let undone = device.undo();
        Ok((followed.outcomes, followed.result.and(undone).err()))
    }

    /// What can be offered: measured when a stream comes for the first time.
    fn limits(
        &mut self,
        device: &mut Real<'_>,
        common: &super::Parameters,
        run: &mut Run<'_>,
    ) -> Result<Vec<Limit>, LabError> {
        let frames = common.traffic.variants[0].frames();
        let mut limits = Vec::new();
        let (bounds, procedure) = (
            self.parameters.bounds(),
            &self.parameters.campaign.procedure,
        );
        for stream in &common.streams {
            let id = frames.id(stream);
            if let Some(known) = self.limits.get(&id) {
                limits.push(known.clone());
                continue;
            }
            let size = stream.frame_size_bytes;
            let mut is_overload = false;
            let mean = common.traffic.mean().unwrap_or_else(|| size.into());
            let found = bounds.largest(size, mean, || {
                let (found, overload) = device.look(run, |device, run| {
                    device.begin(&frames, run)?;
                    let overload = match wants_overload(procedure) {
                        true => device.overload(stream)?,
                        false => None,
                    };
                    let found = match overload {
                        Some(load) => (load, "overload".into()),
                        None => device.sustained(stream)?,
                    };
                    Ok((found, overload.is_some()))
                })?;
                is_overload = overload;
                Ok(found)
            })?;
            self.short
                .extend(bounds.warning(&found).filter(|_| !is_overload));
            self.limits.insert(id, found.clone());
            limits.push(found);
        }
        Ok(limits)
    }

    /// What the iterations of a test case say together, and whether its own trials were quiet enough for it.
    fn case(&self, case: &Case, iterations: Vec<Iteration>, trials: &[TrialRecord]) -> TestCase {
        let mut outcome = self.parameters.summarise(case, iterations);
        let own = trials.iter().filter(|t| t.test_case == outcome.test_case);
        let of_trials = self.parameters.campaign.procedure.method() == Method::Trials;
        if self.parameters.dut.is_none() && of_trials && outcome.doubt.is_none() {
            let doubts = trust::doubts_of_trials(self.gate.as_ref(), own);
            outcome.doubt = (!doubts.is_empty()).then(|| doubts.join("; "));
        }
        outcome
    }

    fn sum_up(&mut self, run: &Run<'_>, measured: &mut Measured) {
        let campaign = &self.parameters.campaign;
        if campaign.procedure.method() == Method::Trials {
            self.gate = (self.gate.take()).map(|gate| gate.judge_run(&mut measured.trials));
        }
        let made = std::mem::take(&mut self.made);
        let cases = campaign.cases.iter().zip(made);
        let cases: Vec<TestCase> = cases
            .map(|(case, iterations)| self.case(case, iterations, &measured.trials))
            .collect();
        let noise: Noise = match (&self.parameters.dut, campaign.procedure.method()) {
            (Some(dut), _) => simulated_noise(dut, Vec::new()),
            (None, Method::Slices) => {
                slices::noise(&cases, self.compared.as_ref(), &measured.rebuilds)
            }
            (None, Method::Windows) => {
                trust::of_cases(self.gate.as_ref(), &cases, self.compared.as_ref())
            }
            (None, Method::Trials) => {
                trust::of_trials(self.gate.as_ref(), &measured.trials, Vec::new())
            }
        };
        let mut warnings = match self.parameters.dut {
            Some(_) => Vec::new(),
            None => doubts(&self.parameters.common(Vec::new(), &campaign.cases[0])),
        };
        warnings.append(&mut self.short);
        warnings.extend(meters::remarks(&measured.trials));
        warnings.extend(invalid(self.invalid, measured.trials.len()));
        measured.summary = Some(Summary {
            format: RUN_FORMAT,
            run: run.info.id.clone(),
            procedure: campaign.procedure.id().into(),
            imix_estimate_l2_bps: imix_estimate(&cases),
            test_cases: cases,
            control: self.compared.take(),
            imported: Vec::new(),
            noise,
            warnings,
        });
    }
}

/// What a simple IMIX would get, from the rate of the smallest frames of most flows, where windows gave that.
fn imix_estimate(cases: &[TestCase]) -> Option<f64> {
    let with_rate = cases.iter().filter_map(|case| {
        let rate = case.windows()?.forwarding_rate_pps?;
        Some((&case.case.stream, rate))
    });
    let smallest = with_rate
        .min_by_key(|(stream, _)| (stream.frame_size_bytes, std::cmp::Reverse(stream.flows)));
    smallest.map(|(_, pps)| imix_estimate_l2_bps(pps))
}
