//! Creates the procedure for a request: fills in defaults and reports contradictions, before any
//! traffic.
//!
//! Commands and campaigns build the same [`campaign::Procedure`]; once the possible loads are
//! known, [`make`] creates the procedure, alone or once for every value of a sweep. This is the
//! only place that knows all procedures.

use fwdlab_model::campaign::value::Rate;
use fwdlab_model::campaign::{self, Sweep, Test};
use fwdlab_model::link::{Line, MeanSize};
use fwdlab_model::management::Request;
use fwdlab_model::procedure::{Purpose, Question, Tagging, Waits};
use fwdlab_model::reset::Reset;
use fwdlab_model::units::FrameSize;

use crate::compliance::Conditions;
use crate::mlr::machine as mlr;
use crate::procedure::{Procedure, Single};
use crate::rfc2544::suite::{Plan, Suite};
use crate::rfc2544::{Setup, bursts};
use crate::{
    churn, energy, equilibrium, forwarding_rate, loaded_latency, management, mrr, plr, ramp, soak,
    sweep,
};

/// The load limit for frames of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The size; for a profile its mean, rounded.
    pub frame_size: FrameSize,
    /// The mean size.
    pub mean: MeanSize,
    /// The line; `None` if there is none, as between namespaces.
    pub line: Option<Line>,
    /// The largest load to offer.
    pub max_load_pps: f64,
    /// The origin of that limit, as text.
    pub source: String,
}

impl Limit {
    /// Returns a limit of the requested largest load, or of the tester's, but no more than the line
    /// carries.
    pub fn new(
        frame_size: FrameSize,
        mean: MeanSize,
        line: Option<Line>,
        max_load_pps: f64,
        source: impl Into<String>,
    ) -> Limit {
        let line_rate_pps = line.map_or(f64::INFINITY, |line| line.rate_pps(mean));
        Limit {
            frame_size,
            mean,
            line,
            max_load_pps: max_load_pps.min(line_rate_pps),
            source: source.into(),
        }
    }

    /// Returns the frames per second of the full line.
    pub fn line_rate_pps(&self) -> Option<f64> {
        self.line.map(|line| line.rate_pps(self.mean))
    }

    /// Returns true if there is a line and it can be filled.
    pub fn reaches_line_rate(&self) -> bool {
        (self.line_rate_pps()).is_some_and(|line| self.max_load_pps >= line)
    }

    /// Converts a load that the user typed, on this line; `None` is the largest.
    fn pps(&self, what: &str, typed: Option<Rate>) -> Result<Option<f64>, String> {
        typed.map_or(Ok(None), |Rate(load)| {
            load.on_line(what, self.mean, self.line)
        })
    }

    /// Converts the smallest load of a search, on this line.
    pub(crate) fn smallest(&self, Rate(load): Rate) -> Result<f64, String> {
        let pps = load.on_line("the smallest load", self.mean, self.line)?;
        pps.ok_or_else(|| "min: give a load such as 9001 or 10kpps".into())
    }
}

/// A request: a procedure, and what a sweep varies.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The procedure.
    pub procedure: campaign::Procedure,
    /// The parameter for whose values the procedure is repeated.
    pub sweep: Option<Sweep>,
    /// True if no device is measured.
    pub simulated: bool,
    /// Seed of every random choice.
    pub seed: u64,
    /// The series it belongs to.
    pub series: Series,
}

/// Properties of the frames that the conditions of a standard depend on. By default a plain series:
/// one size, one direction, one set of flows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Series {
    /// Frames are from a profile, not of one size.
    pub of_profile: bool,
    /// The same load is offered in both directions.
    pub both_directions: bool,
    /// There is a series with one address pair, and one with random destinations.
    pub single_and_random: bool,
}

/// Number of tagged frames in a trial: enough for the 99.9th percentile.
const TAGGED: u32 = 10_000;

/// Creates the procedure. `limits`: one per frame size; only suites of RFC 2544 and sweeps over the
/// frame size have several.
///
/// # Errors
/// If the request contradicts itself, or makes no sense with these loads.
pub fn make(requested: &Asked, limits: &[Limit]) -> Result<Box<dyn Procedure>, String> {
    let counts = (requested.sweep.as_ref()).map_or(Ok(()), Sweep::check_counts);
    let counts = requested.procedure.check_counts().and(counts);
    counts.map_err(|(key, reason)| format!("{key}: {reason}"))?;
    let Some(sweep) = &requested.sweep else {
        return plain(requested, limits);
    };
    let first = only(limits)?;
    let inner = Asked {
        sweep: None,
        ..requested.clone()
    };
    let limits = limits.to_vec();
    let by_size = sweep.parameter == "size";
    if matches!(&requested.procedure, campaign::Procedure::Rfc2544(_)) {
        return Err("a sweep compares one figure: use throughput instead of rfc2544".into());
    }
    let at_value = move |value| {
        let of_size = |limit: &&Limit| u64::from(limit.frame_size.bytes()) == value;
        match limits.iter().find(of_size).filter(|_| by_size) {
            Some(limit) => plain(&inner, std::slice::from_ref(limit)),
            None if by_size => Err("no frame size of a stream".into()),
            None => plain(&inner, &limits),
        }
    };
    Ok(Box::new(sweep::Sweep::new(
        first.frame_size,
        sweep.clone(),
        requested.seed,
        Box::new(at_value),
    )?))
}

/// Returns true if it measures the forwarding rate in overload. Then the tester does not have to
/// offer the largest load exactly, and that load must exceed the DUT's capacity.
pub fn wants_overload(procedure: &campaign::Procedure) -> bool {
    use campaign::Procedure as Of;
    matches!(
        procedure,
        Of::ForwardingRate(_) | Of::Mrr(_) | Of::Energy(_)
    )
}

/// Returns true if it queries the DUT over a management port, which the test bed must have.
pub fn needs_management(procedure: &campaign::Procedure) -> bool {
    let is_remote = |typed: &String| Request::parse(typed).is_ok_and(|one| one.is_remote());
    match procedure {
        campaign::Procedure::Management(p) => {
            p.address.is_none() && p.requests.iter().any(is_remote)
        }
        _ => false,
    }
}

fn plain(requested: &Asked, limits: &[Limit]) -> Result<Box<dyn Procedure>, String> {
    use campaign::Procedure as Of;
    let limit = only(limits)?;
    let size = limit.frame_size;
    let load = |typed: Option<Rate>| -> Result<f64, String> {
        let requested = limit.pps("the load", typed)?;
        Ok(requested.unwrap_or(limit.max_load_pps))
    };
    Ok(match &requested.procedure {
        Of::Trial(p) => {
            let duration_ns = p.duration.ns();
            let question = Question::constant(
                size,
                load(p.load)?,
                duration_ns,
                Purpose::Measure,
                "as requested",
            );
            Box::new(Single::new(Question {
                sample_ns: p.sample.map(|sample| sample.ns()),
                tagging: p.latency.then_some(Tagging {
                    from_ns: 0,
                    until_ns: duration_ns,
                    frames: TAGGED,
                }),
                ..question
            })?)
        }
        Of::ForwardingRate(p) => Box::new(forwarding_rate::ForwardingRate::new(
            size,
            load(p.load)?,
            p.clone(),
        )?),
        Of::Ramp(p) => Box::new(ramp::Ramp::new(size, load(p.target)?, p.clone())?),
        Of::Throughput(p) => suite(requested, p, Some(Test::Throughput), limits)?,
        Of::Latency(p) => suite(requested, p, Some(Test::Latency), limits)?,
        Of::FrameLoss(p) => suite(requested, p, Some(Test::FrameLoss), limits)?,
        Of::BackToBack(p) => suite(requested, p, Some(Test::BackToBack), limits)?,
        Of::Recovery(p) => suite(requested, p, Some(Test::Recovery), limits)?,
        Of::Reset(p) => suite(requested, p, Some(Test::Reset), limits)?,
        Of::Bursts(p) => suite(requested, p, Some(Test::Bursts), limits)?,
        Of::Rfc2544(p) => suite(requested, p, None, limits)?,
        Of::Mlrsearch(p) => Box::new(mlr::Machine::new(limit.clone(), p, requested.simulated)?),
        Of::Churn(p) => Box::new(churn::Churn::new(size, load(p.load)?, p.clone())?),
        Of::Energy(p) => Box::new(energy::Energy::new(size, limit.max_load_pps, p.clone())?),
        Of::Management(_) if requested.simulated => {
            return Err("a simulated DUT has no management to query; measure on a test bed".into());
        }
        Of::Management(p) => Box::new(management::Responsive::new(size, load(p.load)?, p.clone())?),
        Of::Mrr(p) => Box::new(mrr::Mrr::new(size, limit.max_load_pps, p.clone())?),
        Of::Soak(p) => {
            let Some(load_pps) = limit.pps("the load", p.load)? else {
                return Err("a soak needs a load such as 1Mpps; at the largest load it measures overload (plr finds the \
                    load)".into());
            };
            Box::new(soak::Soak::new(size, load_pps, p.clone())?)
        }
        Of::LoadedLatency(p) => Box::new(loaded_latency::LoadedLatency::new(
            size,
            load(p.load)?,
            TAGGED,
            p.clone(),
        )?),
        Of::Plr(p) => {
            let min = limit.smallest(p.min)?;
            let loads_pps = (min, limit.max_load_pps);
            Box::new(plr::Plr::new(size, loads_pps, p.clone(), requested.seed)?)
        }
        Of::Maxfwd(_) | Of::Paired(_) | Of::Exact(_) => {
            return Err(format!(
                "{} measures by windows, slices or bursts, which no question asks for",
                requested.procedure.id()
            ));
        }
        Of::Equilibrium(p) => Box::new(equilibrium::Equilibrium::new(
            size,
            limit.max_load_pps,
            p.clone(),
        )?),
    })
}

/// Creates tests of RFC 2544: only the given one, or those in the request.
fn suite(
    requested: &Asked,
    p: &campaign::Rfc2544,
    only: Option<Test>,
    limits: &[Limit],
) -> Result<Box<dyn Procedure>, String> {
    if only.is_some() && !p.tests.is_empty() {
        return Err(
            "tests can only be listed with the id rfc2544; this id names its own test".into(),
        );
    }
    let plan = suite_plan(p, only);
    let tests = &plan.tests;
    if !p.burst.is_empty() && !tests.contains(&Test::Bursts) {
        return Err("burst sets the length of bursts, but no bursts test is requested".into());
    }
    let named = only.is_some() || !p.tests.is_empty();
    let resets = tests.contains(&Test::Reset);
    if let (Some(what), false) = (&p.reset, requested.simulated) {
        Reset::parse(what).map_err(|reason| format!("reset: {reason}"))?;
    }
    match &p.reset {
        Some(_) if !resets => {
            return Err("reset sets the kind of reset, but no reset test is requested".into());
        }
        None if named && resets => {
            return Err("reset: give what is reset: forwarding, interface, 'command: ...', or any words for a simulated \
                DUT".into());
        }
        _ => {}
    }
    let waits = waits(p);
    let of_one_size = limits.iter().filter(|_| !requested.series.of_profile);
    let sizes: Vec<u16> = of_one_size.map(|limit| limit.frame_size.bytes()).collect();
    let setups = limits.iter().map(|limit| Setup {
        frame_size: limit.frame_size,
        line_rate_pps: limit.line_rate_pps(),
        max_load_pps: limit.max_load_pps,
        conditions: Conditions {
            waits,
            frame_sizes: sizes.clone(),
            both_directions: requested.series.both_directions,
            single_and_random: requested.series.single_and_random,
            reaches_line_rate: limit.reaches_line_rate(),
            line: limit.line,
            simulated: requested.simulated,
        },
    });
    Ok(Box::new(Suite::new(setups.collect(), plan)?))
}

/// Returns the plan of tests of RFC 2544, or of one test: what was requested, and otherwise the
/// full or shortened defaults.
pub fn suite_plan(p: &campaign::Rfc2544, only: Option<Test>) -> Plan {
    let standard = match p.full {
        true => Plan::standard(),
        false => Plan::short(),
    };
    let mut tests = match (only, p.tests.is_empty()) {
        (Some(test), _) => vec![test],
        (None, true) => Test::ALL.to_vec(),
        (None, false) => p.tests.clone(),
    };
    let is_named = only == Some(Test::Bursts) || p.tests.contains(&Test::Bursts);
    let burst_frames = match p.burst.is_empty() && is_named {
        true => bursts::FRAMES.to_vec(),
        false => p.burst.clone(),
    };
    if only.is_none() && !burst_frames.is_empty() && !is_named {
        tests.push(Test::Bursts);
        tests.dedup();
    }
    Plan {
        tests,
        burst_frames,
        search_ns: p.search.map_or(standard.search_ns, |time| time.ns()),
        final_ns: p.trial.map_or(standard.final_ns, |time| time.ns()),
        resolution: p.resolution.0,
        latency_mode: p.latency,
        latency_percents: p.latency_at.iter().map(|percent| percent.0).collect(),
        latency_repetitions: p.repetitions.unwrap_or(standard.latency_repetitions),
        burst_repetitions: p.repetitions.unwrap_or(standard.burst_repetitions),
        recovery_repetitions: p.repetitions.unwrap_or(standard.recovery_repetitions),
        reset_repetitions: p.repetitions.unwrap_or(standard.reset_repetitions),
        reset: p.reset.clone(),
        ..standard
    }
}

/// Returns true if some of its frames leave in bursts, which not every engine supports.
pub fn sends_bursts(procedure: &campaign::Procedure) -> bool {
    use campaign::Procedure as Of;
    match procedure {
        Of::Bursts(_) => true,
        Of::Rfc2544(p) => !suite_plan(p, None).burst_frames.is_empty(),
        _ => false,
    }
}

/// Returns the waits of tests of RFC 2544: those of the RFC in full tests, none otherwise.
pub fn waits(p: &campaign::Rfc2544) -> Waits {
    match p.full {
        true => Waits::RFC2544,
        false => Waits::default(),
    }
}

/// Returns the first limit, for a procedure that measures one size.
fn only(limits: &[Limit]) -> Result<&Limit, String> {
    let first = limits.first();
    first.ok_or_else(|| {
        "no frame size was given: RFC 2544 §9.1 has 64,128,256,512,1024,1280,1518".into()
    })
}

#[cfg(test)]
mod tests {
    use fwdlab_model::campaign::Campaign;
    use fwdlab_model::link::LinkSpeed;

    use super::*;

    fn asked(keys: &str) -> Asked {
        let text = format!("campaign = 'c'\n[procedure]\n{keys}");
        let campaign = Campaign::parse("c.toml", &text).unwrap();
        Asked {
            procedure: campaign.procedure,
            sweep: campaign.sweep,
            simulated: true,
            seed: 0,
            series: Series::default(),
        }
    }

    fn limit() -> Limit {
        Limit {
            frame_size: FrameSize::MIN,
            mean: FrameSize::MIN.into(),
            line: None,
            max_load_pps: 1e6,
            source: "as requested".into(),
        }
    }

    #[test]
    fn every_procedure_is_made_with_its_defaults() {
        let error = make(&asked("id = 'management'"), &[limit()]).err();
        assert!(error.unwrap().contains("a simulated DUT has no management"));
        let of_trials = |id: &&&str| !["maxfwd", "paired", "exact", "management"].contains(id);
        for id in campaign::Procedure::IDS.iter().filter(of_trials) {
            let more = match *id {
                "soak" => "load = 1e5",
                "reset" => "reset = 'OS reboot'",
                "churn" => "event = 'birdc restart all'",
                "energy" => "[telemetry]\nevery = '1s'",
                _ => "",
            };
            let mut machine = make(&asked(&format!("id = '{id}'\n{more}")), &[limit()]).unwrap();
            assert!(machine.next_trial().is_some(), "{id}");
            let found = machine
                .outcomes()
                .pop()
                .map(|outcome| outcome.found.procedure());
            assert!(
                found == Some(*id)
                    || *id == "rfc2544"
                    || *id == "latency"
                    || found == Some("throughput"),
                "{id}: {found:?}"
            );
        }
    }

    /// Of a link of 100 Mbit/s: 148,809.5 frames of 64 bytes per second (docs/methodology.md,
    /// "Units and line rates").
    #[test]
    fn no_load_is_above_the_line() {
        let speed = LinkSpeed::megabits(100);
        let (emulated, simulated) = (Some(Line::emulated(speed)), Some(Line::simulated(speed)));
        let full = 1e8 / 672.0;
        let of = |line, held| Limit::new(FrameSize::MIN, FrameSize::MIN.into(), line, held, "");
        let filled = of(emulated, 2e6);
        assert_eq!(
            (filled.max_load_pps, filled.reaches_line_rate()),
            (full, true)
        );
        let short = of(emulated, 1e5);
        assert_eq!(
            (short.max_load_pps, short.reaches_line_rate()),
            (1e5, false)
        );
        assert_eq!(short.line_rate_pps(), Some(full));
        assert_eq!(of(None, 2e6).max_load_pps, 2e6);
        assert!(!of(None, 2e6).reaches_line_rate());

        let peak = |keys: &str, limit: &Limit| {
            let mut machine = make(&asked(keys), std::slice::from_ref(limit)).unwrap();
            machine.next_trial().unwrap().peak_pps()
        };
        for (keys, pps) in [
            ("id = 'trial'\nload = '50%'", full / 2.0),
            ("id = 'trial'\nload = '100%'", full),
            ("id = 'trial'\nload = 'max'", full),
            ("id = 'trial'", full),
            ("id = 'mrr'", full),
            ("id = 'frame-loss'", full),
            ("id = 'ramp'\ntarget = '10%'\nwarm-up = '1s'", full / 10.0),
            ("id = 'soak'\nload = '95%'", 0.95 * full),
        ] {
            let requested = peak(keys, &filled);
            assert!((requested / pps - 1.0).abs() < 1e-12, "{keys}: {requested}");
        }
        // a tester with a lower limit offers less, and percentages still refer to the line
        assert_eq!(peak("id = 'mrr'", &short), 1e5);
        assert_eq!(peak("id = 'trial'\nload = '50%'", &short), full / 2.0);
        for (keys, limit, words) in [
            (
                "id = 'trial'\nload = '200%'",
                &filled,
                "more than the emulated link 100 Mbit/s",
            ),
            (
                "id = 'ramp'\ntarget = 2e5",
                &filled,
                "more than the emulated link",
            ),
            (
                "id = 'mlrsearch'\nmin = '101%'",
                &filled,
                "the smallest load: 101%",
            ),
            (
                "id = 'trial'\nload = '50%'",
                &of(None, 2e6),
                "add --link 1G",
            ),
        ] {
            let error = make(&asked(keys), std::slice::from_ref(limit))
                .err()
                .unwrap_or_default();
            assert!(error.contains(words), "{keys}: {error}");
        }
        // an emulated link is not a medium: the result must not carry the name of the standard
        // alone
        for (line, says) in [(emulated, true), (simulated, false), (None, false)] {
            let limits = [of(line, 2e6)];
            let mut machine = make(&asked("id = 'throughput'\nfull = true"), &limits).unwrap();
            machine.next_trial().unwrap();
            let label = machine.outcomes()[0].compliance.label();
            assert_eq!(
                label.contains("emulated link 100 Mbit/s, not a medium"),
                says,
                "{label}"
            );
        }
    }

    #[test]
    fn contradictory_parameters_are_refused_before_any_traffic() {
        for (keys, words) in [
            ("id = 'soak'", "a soak needs a load"),
            ("id = 'soak'\nload = 'max'", "a soak needs a load"),
            ("id = 'plr'\nmin = 2e6", "smallest"),
            ("id = 'mlrsearch'\ngoals = ['npr']", "`npr` is not a goal"),
            ("id = 'mlrsearch'\nmin = 'max'", "min: give a load"),
            ("id = 'mlrsearch'\nmin = 10", "below one frame"),
            (
                "id = 'latency'\ntests = ['latency']",
                "tests can only be listed",
            ),
            ("id = 'reset'", "give what is reset"),
            ("id = 'latency'\nreset = 'x'", "no reset test"),
            ("id = 'forwarding-rate'\nfor = '5s'", "fewer than 3 samples"),
            (
                "id = 'rfc2544'\n[procedure.sweep]\nparameter = 'rules'\nvalues = [0, 1]",
                "one figure",
            ),
            ("id = 'equilibrium'\ntolerance = '60%'", "below 0.5"),
        ] {
            let error = make(&asked(keys), &[limit()]).err().unwrap_or_default();
            assert!(error.contains(words), "{keys}: {error}");
        }
        let real = Asked {
            simulated: false,
            ..asked("id = 'reset'\nreset = 'x'")
        };
        assert!(
            make(&real, &[limit()])
                .err()
                .unwrap()
                .contains("is not a reset")
        );
        assert!(make(&real, &[]).is_err());
    }
}
