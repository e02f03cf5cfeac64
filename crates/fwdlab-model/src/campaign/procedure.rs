//! The procedure of a campaign's test cases with its parameters, and the sweep within them.
//!
//! The commands for single procedures build the same types, so defaults are defined only here.
//! `fwdlab_measure::machine` interprets the parameters and checks that they fit together. Start
//! with [`Procedure`].

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
#[cfg(feature = "schemas")]
use schemars::{Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::DeValue;

use super::value::{Pause, Percent, Period, Rate, Share};
use crate::file::{self, Step, ValueError, did_you_mean};
use crate::link::LinkLoad;
use crate::outcome::LatencyMode;
use crate::units::Load;

/// Smallest load of a search, in frames per second: FD.io CSIT's.
const MIN_LOAD: Rate = Rate(LinkLoad::Load(Load::Frames(9001.0)));

macro_rules! procedures {
    ($($(#[doc = $about:literal])* $id:literal $variant:ident($type:ty),)*) => {
        /// A procedure with its parameters.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Procedure {
            $($(#[doc = $about])* $variant($type),)*
        }

        impl Procedure {
            /// All ids, as `id` in a campaign takes them.
            pub const IDS: &'static [&'static str] = &[$($id),*];

            /// Describes the procedure with an id, in a sentence without its period; `None` if
            /// there is no such procedure.
            pub fn about(id: &str) -> Option<&'static str> {
                let sentence = match id {
                    $($id => concat!($($about),*),)*
                    _ => return None,
                };
                Some(sentence.trim().trim_end_matches('.'))
            }

            /// Returns its id.
            pub fn id(&self) -> &'static str {
                match self {
                    $(Procedure::$variant(_) => $id,)*
                }
            }

            /// Returns the one load that it offers, if it has one: then the largest load need not
            /// be known.
            pub fn load(&self) -> Option<LinkLoad> {
                match self {
                    Procedure::Trial(Trial { load, .. })
                    | Procedure::Soak(Soak { load, .. })
                    | Procedure::LoadedLatency(LoadedLatency { load, .. }) => load.map(|Rate(load)| load),
                    _ => None,
                }
            }

            /// Returns the load that it is asked to offer, if one is given; a search has none.
            pub fn given_load(&self) -> Option<LinkLoad> {
                let load = match self {
                    Procedure::ForwardingRate(ForwardingRate { load, .. })
                    | Procedure::Ramp(Ramp { target: load, .. })
                    | Procedure::Churn(Churn { load, .. })
                    | Procedure::Management(Management { load, .. })
                    | Procedure::Maxfwd(Maxfwd { load, .. })
                    | Procedure::Paired(Paired { load, .. }) => load,
                    _ => return self.load(),
                };
                load.map(|Rate(load)| load)
            }

            /// Returns its parameters in the form kept with a run, with its id.
            pub fn kept(&self) -> serde_json::Value {
                match self {
                    $(Procedure::$variant(parameters) => serde_json::json!({ "id": $id, "parameters": parameters }),)*
                }
            }

            /// Parses the procedure from that form.
            pub fn from_stored(kept: &serde_json::Value) -> Option<Procedure> {
                let parameters = kept.get("parameters")?.clone();
                match kept.get("id")?.as_str()? {
                    $($id => serde_json::from_value(parameters).ok().map(Procedure::$variant),)*
                    _ => None,
                }
            }

            /// Returns its parameters in the form of a file, without its id.
            pub(super) fn table(&self) -> Result<toml::Table, toml::ser::Error> {
                match self {
                    $(Procedure::$variant(parameters) => toml::Table::try_from(parameters),)*
                }
            }

            fn from_id(id: &str, parameters: &Spanned<DeValue<'_>>) -> Result<Option<Procedure>, ValueError> {
                Ok(match id {
                    $($id => Some(Procedure::$variant(file::read(parameters)?)),)*
                    _ => None,
                })
            }
        }

        /// Returns one schema per procedure: its parameters, its id, and a sweep.
        #[cfg(feature = "schemas")]
        pub(super) fn schema(generator: &mut SchemaGenerator) -> Schema {
            let all = [$(schema_of::<$type>($id, generator)),*];
            schemars::json_schema!({
                "description": "What is measured in every test case",
                "oneOf": all,
            })
        }
    };
}

procedures! {
    /// One trial: one load for a given time.
    "trial" Trial(Trial),
    /// Forwarding rate in overload (RFC 2285 §3.6.2).
    "forwarding-rate" ForwardingRate(ForwardingRate),
    /// Ramp: the load rises slowly until loss begins.
    "ramp" Ramp(Ramp),
    /// The largest load without loss (RFC 2544 §26.1).
    "throughput" Throughput(Rfc2544),
    /// Delays at the throughput (RFC 2544 §26.2, RFC 8219).
    "latency" Latency(Rfc2544),
    /// Loss over load (RFC 2544 §26.3).
    "frame-loss" FrameLoss(Rfc2544),
    /// The longest burst without loss (RFC 9004).
    "back-to-back" BackToBack(Rfc2544),
    /// Time until losses stop after overload (RFC 2544 §26.5).
    "recovery" Recovery(Rfc2544),
    /// Time without forwarding after a reset (RFC 6201).
    "reset" Reset(Rfc2544),
    /// The cost of an event under load (RFC 6412).
    "churn" Churn(Churn),
    /// Energy used by the DUT, idle and under load.
    "energy" Energy(Energy),
    /// Management of the DUT while it is flooded.
    "management" Management(Management),
    /// The smallest gap between bursts without loss (RFC 2544 §21).
    "bursts" Bursts(Rfc2544),
    /// RFC 2544: throughput, latency, frame loss rate, back-to-back frames, recovery, reset.
    "rfc2544" Rfc2544(Rfc2544),
    /// MLRsearch: for every goal the load at which it stops being met (NDR, PDR).
    "mlrsearch" Mlrsearch(Mlrsearch),
    /// Maximum receive rate: what comes back at the largest load, in a few short trials.
    "mrr" Mrr(Mrr),
    /// Soak: one load for a long time, or the load whose average loss is a given share.
    "soak" Soak(Soak),
    /// Delays at shares of one load.
    "loaded-latency" LoadedLatency(LoadedLatency),
    /// The load whose average loss is a tiny share (PLRsearch).
    "plr" Plr(Plr),
    /// The load at which the DUT forwards all that is offered.
    "equilibrium" Equilibrium(Equilibrium),
    /// Maximum forwarding rate in overload, from quiet windows.
    "maxfwd" Maxfwd(Maxfwd),
    /// Paired slices: the generator alternates between DUTs side by side, rebuilt several times.
    "paired" Paired(Paired),
    /// Instructions per frame of a DUT in an emulator that counts them.
    "exact" Exact(Exact),
}

/// The kind of measurements of a procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// Trials that a procedure requests one after another.
    Trials,
    /// Windows of one long trial, of which the quiet ones count.
    Windows,
    /// Slices of several DUTs that take turns.
    Slices,
    /// Bursts in a virtual machine, by instruction count.
    Instructions,
}

/// Maximum number of trials of one kind in a procedure; more count as an error.
pub const MOST_TRIALS: u32 = 10_000;

/// Maximum number of items in a list.
const MOST_ITEMS: usize = 100;

/// Maximum number of samples in a trial: a day has 86,400 of a second.
pub const MOST_SAMPLES: u64 = 1_000_000;

/// Maximum number of values of a sweep.
const MOST_VALUES: usize = 1000;

/// Maximum number of measurements of a sweep.
const SWEPT: u64 = MOST_TRIALS as u64;

impl Procedure {
    /// Checks the limits of counts, and of products of two counts, before anything is built.
    ///
    /// # Errors
    /// The key, and what is wrong with it.
    pub fn check_counts(&self) -> Result<(), (&'static str, String)> {
        match self {
            Procedure::Trial(p) => match p.sample {
                Some(sample) => check_samples(&[p.duration], sample),
                None => Ok(()),
            },
            Procedure::ForwardingRate(p) => check_samples(&[p.duration], p.sample),
            Procedure::Ramp(p) => {
                let down = if p.up_down {
                    p.ramp
                } else {
                    Period(Duration::ZERO)
                };
                check_samples(&[p.warm_up, p.ramp, p.hold, down], p.sample)
            }
            Procedure::Throughput(p)
            | Procedure::Latency(p)
            | Procedure::FrameLoss(p)
            | Procedure::BackToBack(p)
            | Procedure::Recovery(p)
            | Procedure::Reset(p)
            | Procedure::Bursts(p)
            | Procedure::Rfc2544(p) => {
                check_trials("repetitions", p.repetitions.unwrap_or(1))?;
                check_items("tests", p.tests.len())?;
                check_items("latency-at", p.latency_at.len())?;
                check_items("burst", p.burst.len())
            }
            Procedure::Churn(p) => {
                check_trials("repetitions", p.repetitions)?;
                check_samples(&[p.before, p.timeout], p.sample)
            }
            Procedure::Energy(p) => check_items("loads", p.loads.len()),
            Procedure::Management(p) => {
                check_items("requests", p.requests.len())?;
                check_items("at", p.at.len())?;
                let steps = vec![p.duration; p.at.len() + 2];
                check_samples(&[&steps[..], &[p.after]].concat(), p.every)
            }
            Procedure::LoadedLatency(p) => {
                check_trials("repetitions", p.repetitions)?;
                check_items("at", p.at.len())
            }
            Procedure::Mlrsearch(p) => check_items("goals", p.goals.len()),
            Procedure::Mrr(p) => check_trials("trials", p.trials),
            Procedure::Soak(_)
            | Procedure::Plr(_)
            | Procedure::Equilibrium(_)
            | Procedure::Maxfwd(_)
            | Procedure::Paired(_) => Ok(()),
            Procedure::Exact(p) => p.check(),
        }
    }

    /// Returns the kind of measurements.
    pub fn counting(&self) -> Counting {
        match self {
            Procedure::Maxfwd(_) => Counting::Windows,
            Procedure::Paired(_) => Counting::Slices,
            Procedure::Exact(_) => Counting::Instructions,
            _ => Counting::Trials,
        }
    }

    /// Returns the minimum number of trials that follows from counts in the file.
    pub(super) fn trials(&self) -> u64 {
        match self {
            Procedure::Mrr(p) => p.trials.into(),
            Procedure::Latency(p) | Procedure::Rfc2544(p) => {
                u64::from(p.repetitions.unwrap_or(1)) * p.latency_at.len().max(1) as u64
            }
            Procedure::BackToBack(p) | Procedure::Recovery(p) | Procedure::Reset(p) => {
                p.repetitions.unwrap_or(1).into()
            }
            Procedure::Churn(p) => p.repetitions.into(),
            Procedure::LoadedLatency(p) => u64::from(p.repetitions) * p.at.len() as u64,
            Procedure::Energy(p) => 2 + p.loads.len() as u64,
            _ => 1,
        }
    }
}

fn check_trials(key: &'static str, count: u32) -> Result<(), (&'static str, String)> {
    match (1..=MOST_TRIALS).contains(&count) {
        true => Ok(()),
        false => Err((key, format!("{key} must be 1 to {MOST_TRIALS}"))),
    }
}

fn check_items(key: &'static str, count: usize) -> Result<(), (&'static str, String)> {
    match count <= MOST_ITEMS {
        true => Ok(()),
        false => Err((key, format!("{count} items; the maximum is {MOST_ITEMS}"))),
    }
}

fn check_samples(parts: &[Period], sample: Period) -> Result<(), (&'static str, String)> {
    let ns: u64 = parts.iter().map(|part| part.ns()).sum();
    match ns / sample.ns().max(1) {
        ..=MOST_SAMPLES => Ok(()),
        count => Err((
            "sample",
            format!(
                "{count} samples in one trial; the maximum is {MOST_SAMPLES}, so make them longer"
            ),
        )),
    }
}

impl Sweep {
    /// Checks the limits of a sweep's counts.
    ///
    /// # Errors
    /// The key, and what is wrong with it.
    pub fn check_counts(&self) -> Result<(), (&'static str, String)> {
        if self.values.len() > MOST_VALUES {
            let reason = format!("{} values; the maximum is {MOST_VALUES}", self.values.len());
            return Err(("values", reason));
        }
        if !(1..=MOST_TRIALS).contains(&self.runs) {
            return Err(("runs", format!("runs must be 1 to {MOST_TRIALS}")));
        }
        match self.measurements() {
            ..=SWEPT => Ok(()),
            count => Err((
                "runs",
                format!(
                    "{} runs at each of {} values are {count} measurements; the maximum is {SWEPT}",
                    self.runs,
                    self.values.len()
                ),
            )),
        }
    }

    /// Returns how often the procedure runs: three times at the reference, and the given number of
    /// times at the other values.
    pub(super) fn measurements(&self) -> u64 {
        const REFERENCES: u64 = 3;
        REFERENCES + self.values.len().saturating_sub(1) as u64 * u64::from(self.runs)
    }
}

/// One load for some time, with all frames accounted for
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Trial {
    /// The load; by default the largest
    pub load: Option<Rate>,
    /// How long frames are sent
    #[serde(rename = "for")]
    pub duration: Period,
    /// Count frames in intervals of this length
    pub sample: Option<Period>,
    /// Measure the latency of frames
    #[serde(alias = "delays")]
    pub latency: bool,
}

impl Default for Trial {
    fn default() -> Self {
        Trial {
            load: None,
            duration: Period::seconds(10),
            sample: None,
            latency: false,
        }
    }
}

/// The forwarding rate in overload: median of the samples of one long trial (RFC 2285 §3.6.2)
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ForwardingRate {
    /// The load; by default the largest
    pub load: Option<Rate>,
    /// How long frames are sent
    #[serde(rename = "for")]
    pub duration: Period,
    /// Length of a sample
    pub sample: Period,
    /// Discard samples for this long after the first frame came back
    pub trim_start: Pause,
    /// Discard samples for this long before the last frame was sent
    pub trim_end: Pause,
}

impl Default for ForwardingRate {
    fn default() -> Self {
        ForwardingRate {
            load: None,
            duration: Period::seconds(60),
            sample: Period::seconds(1),
            trim_start: Pause::seconds(5),
            trim_end: Pause::seconds(2),
        }
    }
}

/// A rising load: where loss begins, and whether the forwarding rate collapses
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ramp {
    /// Load at the end of the ramp; by default the largest
    pub target: Option<Rate>,
    /// How long the load rises
    pub ramp: Period,
    /// How long the warm-up lasts
    pub warm_up: Period,
    /// How long the load stays at the target
    pub hold: Period,
    /// Ramp down again and find the onset of loss a second time
    pub up_down: bool,
    /// Loss ratio from which a sample counts as lossy
    pub threshold: Share,
    /// Length of a sample
    pub sample: Period,
}

impl Default for Ramp {
    fn default() -> Self {
        Ramp {
            target: None,
            ramp: Period::seconds(600),
            warm_up: Period::seconds(30),
            hold: Period::seconds(30),
            up_down: false,
            threshold: Share(0.001),
            sample: Period::seconds(1),
        }
    }
}

/// A test of RFC 2544.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// §26.1.
    Throughput,
    /// §26.2.
    Latency,
    /// §26.3.
    FrameLoss,
    /// §26.4, RFC 9004.
    BackToBack,
    /// §26.5.
    Recovery,
    /// §26.6, RFC 6201.
    Reset,
    /// §21.
    Bursts,
}

impl Test {
    /// All tests, in the order in which they run.
    pub const ALL: [Test; 7] = [
        Test::Throughput,
        Test::Latency,
        Test::FrameLoss,
        Test::BackToBack,
        Test::Recovery,
        Test::Reset,
        Test::Bursts,
    ];

    /// Returns the name in records and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Test::Throughput => "throughput",
            Test::Latency => "latency",
            Test::FrameLoss => "frame-loss",
            Test::BackToBack => "back-to-back",
            Test::Recovery => "recovery",
            Test::Reset => "reset",
            Test::Bursts => "bursts",
        }
    }
}

/// Tests of RFC 2544: all that apply, or the one that the id names; shortened unless full is true
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rfc2544 {
    /// The tests to run, if the id is rfc2544; by default all that apply
    pub tests: Vec<Test>,
    /// Use the durations, waits and repetitions of the RFCs
    pub full: bool,
    /// Duration of the trials that give results; by default 5s, or 60s in full
    pub trial: Option<Period>,
    /// Duration of the trials that guide a search; by default 1s, or 60s in full
    pub search: Option<Period>,
    /// Resolution of the throughput relative to itself
    pub resolution: Share,
    /// Latency: one tagged frame per trial (rfc2544), or 500 (rfc8219)
    pub latency: LatencyMode,
    /// Loads of the latency test in percent of the throughput
    pub latency_at: Vec<Percent>,
    /// Repetitions of latency, back-to-back, recovery and reset; by default a few, in full the
    /// number in the RFCs
    #[schemars(range(min = 1, max = MOST_TRIALS))]
    pub repetitions: Option<u32>,
    /// What the reset test resets: forwarding, interface, 'command: ...'; on a simulated DUT any
    /// text
    pub reset: Option<String>,
    /// Lengths of the bursts of bursty traffic, in frames; by default 16, 64, 256, 1024
    pub burst: Vec<u32>,
}

impl Default for Rfc2544 {
    fn default() -> Self {
        Rfc2544 {
            tests: Vec::new(),
            full: false,
            trial: None,
            search: None,
            resolution: Share(0.005),
            latency: LatencyMode::Rfc8219,
            latency_at: vec![Percent(100.0)],
            repetitions: None,
            reset: None,
            burst: Vec::new(),
        }
    }
}

/// Loads that meet loss goals (MLRsearch)
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Mlrsearch {
    /// Presets (ndr, pdr, rfc2544, tst009, strict) or definitions (loss=0.1%,final=2s)
    pub goals: Vec<String>,
    /// Smallest load
    pub min: Rate,
    /// Duration of a first trial at the largest load whose result is not used
    pub warm_up: Pause,
    /// The search ends when its trials have taken longer
    pub time_limit: Period,
    /// End a trial as soon as it is bad for every goal; by default not on a simulated DUT
    pub early_end: Option<bool>,
}

impl Default for Mlrsearch {
    fn default() -> Self {
        Mlrsearch {
            goals: vec!["ndr".into(), "pdr".into()],
            min: MIN_LOAD,
            warm_up: Pause::seconds(1),
            time_limit: Period::seconds(1200),
            early_end: None,
        }
    }
}

/// Receive rate at the largest load: mean of a few short trials
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Mrr {
    /// Number of trials
    #[schemars(range(min = 1, max = MOST_TRIALS))]
    pub trials: u32,
    /// Duration of each trial
    #[serde(rename = "for")]
    pub duration: Period,
    /// Duration of a first trial at the same load whose result is not used; it fills caches and
    /// flow tables
    pub warm_up: Pause,
}

impl Default for Mrr {
    fn default() -> Self {
        Mrr {
            trials: 10,
            duration: Period::seconds(1),
            warm_up: Pause::seconds(0),
        }
    }
}

/// One load for a long time: loss, loss bursts, and the trend of the forwarding rate
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Soak {
    /// The load; commonly 95 % of the no-drop rate
    pub load: Option<Rate>,
    /// Duration
    #[serde(rename = "for")]
    pub duration: Period,
    /// The largest loss ratio that passes
    pub loss: Share,
}

impl Default for Soak {
    fn default() -> Self {
        Soak {
            load: None,
            duration: Period::seconds(1800),
            loss: Share(0.0),
        }
    }
}

/// Delays at shares of one load
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LoadedLatency {
    /// The load of 100 %; by default the largest load
    pub load: Option<Rate>,
    /// Loads in percent of it
    pub at: Vec<Percent>,
    /// Duration of a trial
    #[serde(rename = "for")]
    pub duration: Period,
    /// Trials at each load
    pub repetitions: u32,
}

impl Default for LoadedLatency {
    fn default() -> Self {
        LoadedLatency {
            load: None,
            at: [10.0, 50.0, 90.0, 100.0].map(Percent).into(),
            duration: Period::seconds(10),
            repetitions: 3,
        }
    }
}

/// The load whose average loss is a tiny share (PLRsearch)
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plr {
    /// Smallest load
    pub min: Rate,
    /// Total duration of the search
    #[serde(rename = "for")]
    pub duration: Period,
    /// The target loss ratio
    pub loss: Share,
}

impl Default for Plr {
    fn default() -> Self {
        Plr {
            min: MIN_LOAD,
            duration: Period::seconds(1800),
            loss: Share(1e-7),
        }
    }
}

/// The load at which the DUT forwards all that is offered, as labs of the BSD Router Project
/// measure it
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Equilibrium {
    /// Relative differences up to this count as equal
    pub tolerance: Share,
    /// Duration of a trial
    #[serde(rename = "for")]
    pub duration: Period,
}

impl Default for Equilibrium {
    fn default() -> Self {
        Equilibrium {
            tolerance: Share(0.01),
            duration: Period::seconds(30),
        }
    }
}

/// The cost of an event under load: how deep the forwarding rate dips, for how long, and how much
/// forwarding is lost in total (RFC 6412)
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Churn {
    /// A command for sh that causes the event on the DUT: rewrite routes, clear a session, load
    /// rules; use a hook after the trial to undo it
    pub event: Option<String>,
    /// The load; by default the largest, which loses frames anyway: choose a load that the DUT
    /// carries to count lost frames
    pub load: Option<Rate>,
    /// Duration of traffic before the event
    pub before: Period,
    /// How long the rate must stay at its previous level to count as regained
    pub after: Period,
    /// How long to wait for that
    #[serde(alias = "longest")]
    pub timeout: Period,
    /// Length of an interval, at least 10ms
    pub sample: Period,
    /// A rate below this share of the rate before the event is a dip
    pub share: Share,
    /// Number of repetitions
    pub repetitions: u32,
}

impl Default for Churn {
    fn default() -> Self {
        Churn {
            event: None,
            load: None,
            before: Period::seconds(30),
            after: Period::seconds(30),
            timeout: Period::seconds(600),
            sample: Period(Duration::from_millis(100)),
            share: Share(0.98),
            repetitions: 5,
        }
    }
}

/// Energy used by the DUT's host when idle, at shares of its forwarding rate, and in overload;
/// energy per frame
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Energy {
    /// Loads in percent of the forwarding rate in overload; idle and overload are always measured
    pub loads: Vec<Percent>,
    /// How long to read the power at each load
    #[serde(rename = "for")]
    pub duration: Period,
    /// How long to offer the load before reading the power
    pub settle: Period,
}

impl Default for Energy {
    fn default() -> Self {
        Energy {
            loads: vec![Percent(50.0), Percent(100.0)],
            duration: Period::seconds(120),
            settle: Period::seconds(60),
        }
    }
}

/// How the DUT's management responds at rest, under load and in a flood, and how soon it recovers
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Management {
    /// The requests, sent concurrently: echo, 'tcp PORT', snmp, ssh or 'ssh PORT', 'command: TEXT'
    /// (for sh on the DUT), 'tester: TEXT' (for sh at the other end of the management port, with
    /// the DUT's address in $FWDLAB_DUT)
    #[serde(alias = "ask")]
    pub requests: Vec<String>,
    /// IPv4 address of the DUT's management, reached from this machine; by default the separate
    /// management port of the embedded test bed
    pub address: Option<String>,
    /// Interval between requests of a kind
    pub every: Period,
    /// A request without an answer for this long is lost
    #[serde(alias = "patience")]
    pub timeout: Period,
    /// The load of the flood; by default the largest
    pub load: Option<Rate>,
    /// Loads between rest and flood, in percent of what the DUT forwards in the flood
    pub at: Vec<Percent>,
    /// Duration of the rest, and of each load
    #[serde(rename = "for")]
    pub duration: Period,
    /// Duration of the rest after the flood
    pub after: Period,
}

impl Default for Management {
    fn default() -> Self {
        Management {
            requests: vec!["echo".into()],
            address: None,
            every: Period(Duration::from_millis(200)),
            timeout: Period::seconds(2),
            load: None,
            at: vec![Percent(50.0), Percent(100.0)],
            duration: Period::seconds(20),
            after: Period::seconds(20),
        }
    }
}

/// The forwarding rate in overload, from windows of 20 ms that count if the machine was quiet
/// during them: what `quick` measures
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Maxfwd {
    /// The load; by default 1.6 times what the DUT forwards
    pub load: Option<Rate>,
    /// Minimum duration of a trial: it continues until enough windows were quiet, up to three times
    /// as long
    #[serde(rename = "for")]
    pub duration: Period,
    /// Measure as many iterations again if the results are too noisy and that may be enough
    pub double: bool,
}

impl Default for Maxfwd {
    fn default() -> Self {
        Maxfwd {
            load: None,
            duration: Period::seconds(1),
            double: false,
        }
    }
}

/// The cost of every configuration compared with a reference DUT: all DUTs exist at the same time
/// and get the load in alternating slices of 20 ms, and everything is rebuilt for every iteration:
/// what `quick --vs` measures
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Paired {
    /// The load; by default 1.6 times what the reference DUT forwards
    pub load: Option<Rate>,
    /// The configuration of the reference DUT
    pub reference: String,
    /// Total duration of the slices in an iteration
    #[serde(rename = "for")]
    pub duration: Period,
    /// Time for all iterations together, which decides how long their slices are instead of for
    pub within: Option<Period>,
    /// Also count instructions, in a virtual machine that boots this image: debian:PACKAGE or a
    /// bzImage
    pub exact: Option<String>,
}

impl Default for Paired {
    fn default() -> Self {
        Paired {
            load: None,
            reference: super::PLAIN.into(),
            duration: Period::seconds(3),
            within: None,
            exact: None,
        }
    }
}

/// Instructions per frame on the DUT, counted in a virtual machine whose clock counts instructions:
/// no noise, and no time
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Exact {
    /// Frames per burst, a multiple of 32
    pub frames: u32,
    /// Repeat bursts until the uncertainty of their median is below this share of it
    pub precision: Percent,
    /// The configuration that the others are compared with, or the image
    pub reference: String,
    /// Also count instructions by function and by call path
    pub profile: bool,
    /// Boot the reference once more, as A/A control
    pub control: bool,
    /// The sender of bursts: auto uses live frames if the kernel supports them (Linux 5.18), and
    /// the kernel's packet generator otherwise
    pub generator: Generator,
}

/// The sender of bursts in a virtual machine
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Generator {
    /// Live frames if the kernel supports them, pktgen otherwise
    #[default]
    Auto,
    /// XDP live frames, 32 at a time (Linux 5.18)
    LiveFrames,
    /// The kernel's packet generator, frame by frame
    Pktgen,
}

impl fmt::Display for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Generator::Auto => "auto",
            Generator::LiveFrames => "live frames",
            Generator::Pktgen => "pktgen",
        })
    }
}

impl Default for Exact {
    fn default() -> Self {
        Exact {
            frames: 20_000,
            precision: Percent(0.1),
            reference: super::PLAIN.into(),
            profile: true,
            control: true,
            generator: Generator::Auto,
        }
    }
}

impl Exact {
    /// Number of frames that are handed to a port at once.
    pub const BATCH: u32 = 32;

    /// Parses a number of frames in a burst.
    ///
    /// # Errors
    /// What is wrong with it, and the closest valid numbers.
    pub fn parse_frames(typed: &str) -> Result<u32, String> {
        const MOST_FRAMES: u32 = 32_000_000;
        let batch = Exact::BATCH;
        let Ok(frames) = typed.parse::<u32>() else {
            return Err(format!(
                "a number of frames is expected, such as {}",
                100 * batch
            ));
        };
        if (batch..=MOST_FRAMES).contains(&frames) && frames.is_multiple_of(batch) {
            return Ok(frames);
        }
        let below = (frames / batch * batch).clamp(batch, MOST_FRAMES);
        let instead = match below + batch {
            above if (below..MOST_FRAMES).contains(&frames) => format!("{below} or {above}"),
            _ => below.to_string(),
        };
        Err(format!(
            "frames must be a multiple of {batch} up to {MOST_FRAMES}, and {frames} is not; {instead} is"
        ))
    }

    fn check(&self) -> Result<(), (&'static str, String)> {
        Exact::parse_frames(&self.frames.to_string()).map_err(|reason| ("frames", reason))?;
        match self.precision.0 > 0.0 {
            true => Ok(()),
            false => Err(("precision", "precision must be more than 0 %".into())),
        }
    }
}

/// The procedure repeated at every value of a parameter, in random order, and the cost per unit
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sweep {
    /// flows, size, rules, routes, cores; or any name together with apply
    pub parameter: String,
    /// Values, the reference first
    #[schemars(length(min = 2, max = MOST_VALUES))]
    pub values: Vec<u64>,
    /// Number of runs at each value
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = MOST_TRIALS))]
    pub runs: u32,
    /// A command that sets a value on the DUT; {} is replaced by the value
    #[serde(default)]
    pub apply: Option<String>,
    /// A command that undoes it before the next value
    #[serde(default)]
    pub undo: Option<String>,
}

fn one() -> u32 {
    1
}

/// Parses the table `[procedure]`; errors have their path from the root of the file.
pub(super) fn read(
    table: Option<&Spanned<DeValue<'_>>>,
) -> Result<(Procedure, Option<Sweep>), ProcedureError> {
    let at = |key_path: &[&'static str], reason: String| {
        ProcedureError::Place(key_path.iter().map(|key| Step::Key(key)).collect(), reason)
    };
    let ids = || Procedure::IDS.join(", ");
    let Some(table) = table else {
        let reason = format!(
            "there is no [procedure]; add [procedure] with id = one of {}",
            ids()
        );
        return Err(at(&[], reason));
    };
    let mut table = table.clone();
    let span = table.span();
    let DeValue::Table(keys) = table.get_mut() else {
        let reason = "a procedure is a table: begin with [procedure] and id = \"mrr\"";
        return Err(at(&["procedure"], reason.into()));
    };
    let mut take = |key: &str| keys.remove(key);
    let sweep = match take("sweep") {
        Some(sweep) => Some(file::read(&sweep)?),
        None => None,
    };
    let Some(id) = take("id") else {
        let reason = format!("the procedure has no id; it is one of {}", ids());
        return Err(at(&["procedure"], reason));
    };
    let Some(id) = id.get_ref().as_str() else {
        return Err(at(
            &["procedure", "id"],
            "an id is a string, such as \"mrr\"".into(),
        ));
    };
    let rest = Spanned::new(span, DeValue::Table(std::mem::take(keys)));
    match Procedure::from_id(id, &rest)? {
        Some(procedure) => Ok((procedure, sweep)),
        None => Err(at(
            &["procedure", "id"],
            format!(
                "there is no procedure `{id}`; {}",
                did_you_mean(id, Procedure::IDS)
            ),
        )),
    }
}

/// An error in a part of a file.
pub(super) enum ProcedureError {
    /// An error of serde.
    Reading(ValueError),
    /// An error of our own.
    Place(Vec<Step<'static>>, String),
}

impl From<ValueError> for ProcedureError {
    fn from(wrong: ValueError) -> Self {
        ProcedureError::Reading(wrong)
    }
}

#[cfg(feature = "schemas")]
fn schema_of<T: JsonSchema>(id: &str, generator: &mut SchemaGenerator) -> Schema {
    let mut schema = T::json_schema(generator);
    let sweep = generator.subschema_for::<Sweep>();
    let keys = schema.ensure_object();
    let properties = keys
        .entry("properties")
        .or_insert_with(|| serde_json::json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert("id".into(), serde_json::json!({ "const": id }));
        properties.insert("sweep".into(), sweep.to_value());
    }
    keys.insert("required".into(), serde_json::json!(["id"]));
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parameters kept with a run parse back to the same procedure.
    #[test]
    fn every_procedure_survives_serialization() {
        for id in Procedure::IDS {
            let text = format!("id = \"{id}\"");
            let table = toml::de::DeTable::parse(&text).unwrap();
            let table = Spanned::new(table.span(), DeValue::Table(table.into_inner()));
            let Ok((procedure, None)) = read(Some(&table)) else {
                panic!("{id}")
            };
            assert_eq!(
                Procedure::from_stored(&procedure.kept()),
                Some(procedure),
                "{id}"
            );
        }
        let odd = Procedure::Trial(Trial {
            load: Some(Rate("14.88095238Gbps".parse().unwrap())),
            sample: Some("1.5ms".parse().unwrap()),
            ..Trial::default()
        });
        assert_eq!(Procedure::from_stored(&odd.kept()), Some(odd));
        assert_eq!(
            Procedure::from_stored(&serde_json::json!({ "id": "none" })),
            None
        );
    }
}
