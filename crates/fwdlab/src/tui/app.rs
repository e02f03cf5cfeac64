//! The state of a run's screen: a function of the run's events, of keys and of passing time. Does
//! no drawing, reading or I/O.
//!
//! All data has its time in the run, and panes show the state at one moment: now, the time at which
//! the user froze the screen, or the position of a replay. Start with [`App::event`] and
//! [`App::key`]; panes read [`App::trials`], [`App::cases`] and similar methods.

use fwdlab_model::event::{Event, EventKind, Request};
use fwdlab_model::facts::TEST_BED;
use fwdlab_model::procedure::Delays;
use fwdlab_model::result::{TrialRecord, Validity};
use fwdlab_model::test_case::Iteration;
use fwdlab_report::number;

use super::keys::{Action, Key, KeyFunction};
use super::settings::Settings;
use crate::output::harmless;

/// The number of trials with complete records; older ones keep only their figures.
const WHOLE: usize = 1000;
/// Maximum number of entries in each list. The older half is dropped at this limit.
const MOST: usize = 100_000;
/// The distance of PageUp and PageDown, in trials and in lines.
const PAGE: usize = 10;

/// The kind of run on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `fwdlab run`: our own run.
    Own,
    /// `fwdlab top` on a run of another process.
    Other,
    /// `fwdlab top` on a finished run.
    Replay,
}

/// The pane in the foreground, if several share an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pane {
    Cases,
    Dut,
    Events,
}

/// A window over the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlay {
    Help,
    Loss,
    Latency,
    Flame,
    Quit,
}

/// A function in a profile, with its shares of the total: 1 is everything.
#[derive(Debug, Clone, PartialEq)]
pub struct Costly {
    pub name: String,
    /// Share of its own instructions or samples.
    pub itself: f64,
    /// Share including all functions that it called.
    pub with_all: f64,
}

/// The figures of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    pub t: f64,
    pub case: usize,
    pub iteration: u32,
    pub number: u32,
    pub intended_pps: Option<f64>,
    pub offered_pps: f64,
    pub forwarded_pps: Option<f64>,
    pub loss_ratio: f64,
    pub is_valid: bool,
    /// The complete record; `None` for old trials.
    pub record: Option<Box<TrialRecord>>,
}

impl Trial {
    /// Returns the latencies, if the trial measured them.
    pub fn delays(&self) -> Option<Delays> {
        self.record.as_ref()?.asked.as_ref()?.answer.delays
    }
}

/// The progress of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunProgress {
    pub t: f64,
    pub activity: String,
    pub done: u32,
    pub steps: u32,
    pub left_s: f64,
    pub estimate: Option<String>,
}

/// Rates at a moment, for the chart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub t: f64,
    pub offered_pps: f64,
    pub forwarded_pps: f64,
}

/// The importance of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Plain,
    Good,
    Bad,
}

/// A line of the events pane.
#[derive(Debug, Clone, PartialEq)]
pub struct EventLine {
    pub t: f64,
    pub mark: Mark,
    pub words: String,
}

/// A test case.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Case {
    pub name: String,
    /// Finished iterations, each with its time.
    pub ended: Vec<(f64, FinishedIteration)>,
}

/// A finished iteration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FinishedIteration {
    pub iteration: u32,
    /// The first figure: its name and value.
    pub words: String,
    pub value: Option<f64>,
    pub failed: bool,
}

/// The header of the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Head {
    pub id: String,
    /// The name of the campaign, or of the command.
    pub name: String,
    pub bed: String,
    pub engine: String,
    pub procedure: String,
    pub iterations: u32,
    pub started_at: String,
}

/// The end of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    pub t: f64,
    pub words: String,
    pub is_good: bool,
}

/// The moment on the screen.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ScreenTime {
    /// The latest one.
    Now,
    /// A time in the run.
    At(f64),
}

/// The state of the screen.
#[derive(Debug, Clone)]
pub struct App {
    pub mode: Mode,
    pub settings: Settings,
    pub head: Head,
    pub pane: Pane,
    pub overlay: Option<Overlay>,
    /// Scroll position of the foreground pane, or of the overlay, in lines.
    pub scroll: usize,
    moment: ScreenTime,
    /// True while a replay is playing.
    is_playing: bool,
    pub speed: f64,
    /// Time of the newest event, and the time since then.
    newest: f64,
    since_newest: f64,
    costly: Vec<Costly>,
    cases: Vec<Case>,
    trials: Vec<Trial>,
    standings: Vec<RunProgress>,
    points: Vec<Point>,
    events: Vec<EventLine>,
    pauses: Vec<(f64, bool)>,
    end: Option<End>,
    /// True if the user requested to stop the run here.
    pub is_stopping: bool,
}

impl App {
    /// Creates an empty state.
    pub fn new(mode: Mode, speed: f64, settings: Settings) -> App {
        App {
            mode,
            settings,
            head: Head::default(),
            pane: Pane::Cases,
            overlay: None,
            scroll: 0,
            moment: match mode {
                Mode::Replay => ScreenTime::At(0.0),
                _ => ScreenTime::Now,
            },
            is_playing: mode == Mode::Replay,
            speed,
            newest: 0.0,
            since_newest: 0.0,
            costly: Vec::new(),
            cases: Vec::new(),
            trials: Vec::new(),
            standings: Vec::new(),
            points: Vec::new(),
            events: Vec::new(),
            pauses: Vec::new(),
            end: None,
            is_stopping: false,
        }
    }

    /// Updates the state with an event.
    pub fn event(&mut self, event: &Event) {
        // keep time monotonic: panes search by time
        let t = if event.t.is_finite() {
            event.t.max(self.newest)
        } else {
            self.newest
        };
        (self.newest, self.since_newest) = (t, 0.0);
        match &event.kind {
            EventKind::RunStarted {
                info,
                steps,
                estimate_s,
                guessed,
                ..
            }
            | EventKind::RunResumed {
                info,
                steps,
                estimate_s,
                guessed,
            } => {
                let continues = matches!(event.kind, EventKind::RunResumed { .. });
                let output = |name: &str| info.parameters.get(name);
                let text = |name: &str| output(name).and_then(|value| value.as_str());
                let facts = &info.facts;
                self.head = Head {
                    id: clean(&info.id),
                    name: clean(text("campaign").unwrap_or(&info.kind)),
                    bed: self.head.bed.clone(),
                    engine: clean(&facts.engine),
                    procedure: clean(text("procedure").unwrap_or("")),
                    iterations: output("iterations").and_then(|n| n.as_u64()).unwrap_or(0) as u32,
                    started_at: clean(&info.started_at),
                };
                if self.head.bed.is_empty() {
                    self.head.bed = match facts.is_simulated() || text("engine") == Some("sim") {
                        true => "a simulated DUT".into(),
                        false => "this machine".into(),
                    };
                }
                let names = output("test_cases").and_then(|names| names.as_array());
                for name in names.into_iter().flatten().filter_map(|name| name.as_str()) {
                    self.case(name);
                }
                self.end = None;
                self.set_progress(RunProgress {
                    t,
                    activity: "the test bed is being set up".into(),
                    done: 0,
                    steps: *steps,
                    left_s: *estimate_s,
                    estimate: None,
                });
                let started = if continues { "resumed" } else { "begun" };
                let steps = number::counted(*steps, "step");
                self.add_event(
                    t,
                    Mark::Plain,
                    &format!(
                        "{started}: {steps}, {}",
                        number::estimate(*estimate_s, *guessed)
                    ),
                );
            }
            EventKind::BedReady { facts } => {
                if let Some(bed) = facts.placement.get(TEST_BED) {
                    self.head.bed = clean(bed);
                }
                self.head.engine = clean(&facts.engine);
                self.add_event(
                    t,
                    Mark::Plain,
                    &format!("the test bed is ready, engine {}", facts.engine),
                );
            }
            EventKind::LoadFound {
                of,
                load_pps,
                source,
                ..
            } => {
                let load = load_pps.map_or("flat out".into(), number::rate);
                self.add_event(t, Mark::Plain, &format!("load of {of}: {load} ({source})"));
            }
            EventKind::Progress {
                activity,
                done,
                steps,
                left_s,
                offered_load_pps,
                forwarding_rate_pps,
                estimate,
            } => {
                self.set_progress(RunProgress {
                    t,
                    activity: clean(activity),
                    done: *done,
                    steps: *steps,
                    left_s: *left_s,
                    estimate: estimate.as_deref().map(clean),
                });
                if let (Some(offered_pps), Some(forwarded_pps)) =
                    (offered_load_pps, forwarding_rate_pps)
                {
                    self.point(t, *offered_pps, *forwarded_pps);
                }
            }
            EventKind::TrialFinished { record } => self.trial(t, record),
            EventKind::RebuildFinished { record } => {
                let words = clean(&fwdlab_report::campaign::rebuild_in_one_line(record));
                self.add_measured(t, &words, &record.validity);
                self.step(t);
            }
            EventKind::BootFinished { record } => {
                let words = format!("boot {}: {}", record.boot, record.test_case);
                self.add_measured(t, &words, &record.validity);
            }
            EventKind::IterationFinished {
                test_case,
                iteration,
            } => self.iteration(t, test_case, iteration),
            EventKind::HookFinished { record } => {
                let mark = match record.failure {
                    Some(_) => Mark::Bad,
                    None => Mark::Plain,
                };
                let words = format!(
                    "hook {} on {}: {}",
                    record.when.name(),
                    record.host,
                    record.status
                );
                self.add_event(t, mark, &words);
            }
            EventKind::Note { text } => self.add_event(t, Mark::Plain, first_line(text)),
            EventKind::Warning { text } => self.add_event(t, Mark::Bad, text),
            EventKind::Steered {
                request,
                heeded: handled,
            } => {
                let words = match (request, handled) {
                    (Request::Pause, true) => "paused: the next trial waits",
                    (Request::Resume, true) => "resumed",
                    (Request::Skip, true) => "this test case is skipped",
                    (Request::Stop, true) => "stopping: everything is being undone",
                    (Request::Skip, false) => "there is nothing to skip now",
                    (_, false) => "there was nothing to do",
                };
                if *handled && matches!(request, Request::Pause | Request::Resume) {
                    self.pauses.push((t, *request == Request::Pause));
                }
                self.add_event(t, Mark::Plain, words);
            }
            EventKind::RunFinished { summary } => {
                for case in &summary.test_cases {
                    for iteration in &case.iterations {
                        self.iteration_of_summary(t, &case.test_case, iteration);
                    }
                }
                self.end_run(t, "finished".into(), true);
                self.add_event(t, Mark::Good, "finished");
            }
            EventKind::RunEnded { reason } => {
                self.end_run(t, clean(first_line(reason)), false);
                self.add_event(t, Mark::Bad, &format!("ended: {reason}"));
            }
            // kinds of later versions
            #[allow(
                unreachable_patterns,
                reason = "events are added in model before screens know them"
            )]
            _ => {}
        }
    }

    fn trial(&mut self, t: f64, record: &TrialRecord) {
        let case = self.case(&record.test_case);
        let received = record.ledger.frames_received as f64 / record.duration_s.max(1e-9);
        let by_count =
            (record.duration_s > 0.0 && record.ledger.frames_sent > 0).then_some(received);
        let forwarded_pps = record
            .forwarding_rate_pps
            .or(record.forwarding_rate_ungated_pps)
            .or(by_count);
        let is_valid = record.validity.is_valid();
        if let Some(forwarded_pps) = forwarded_pps {
            self.point(t, record.offered_load_pps, forwarded_pps);
        }
        let rate = record.intended_load_pps.unwrap_or(record.offered_load_pps);
        let words = format!(
            "trial {}  {}  loss {}",
            record.trial,
            number::rate(rate),
            number::percent(100.0 * record.frame_loss_ratio)
        );
        self.add_measured(t, &words, &record.validity);
        if let Some(old) = self.trials.len().checked_sub(WHOLE) {
            self.trials[old].record = None;
        }
        bound(&mut self.trials);
        self.trials.push(Trial {
            t,
            case,
            iteration: record.iteration,
            number: record.trial,
            intended_pps: record.intended_load_pps,
            offered_pps: record.offered_load_pps,
            forwarded_pps,
            loss_ratio: record.frame_loss_ratio,
            is_valid,
            record: Some(Box::new(record.clone())),
        });
        self.step(t);
    }

    /// Counts a finished step, if no other event reports it.
    fn step(&mut self, t: f64) {
        if let Some(last) = self.standings.last().cloned()
            && last.t < t
        {
            let done = self.trials.len() as u32;
            self.set_progress(RunProgress {
                t,
                done: last.done.max(done.min(last.steps)),
                left_s: (last.left_s - (t - last.t)).max(0.0),
                // the next event reports the activity
                activity: String::new(),
                estimate: None,
                ..last
            });
        }
    }

    fn iteration(&mut self, t: f64, test_case: &str, iteration: &Iteration) {
        let case = self.case(test_case);
        let figures = iteration
            .outcomes
            .iter()
            .flat_map(|outcome| outcome.figures());
        let value = figures.map(|figure| figure.value).next();
        let words = clean(&fwdlab_report::campaign::in_one_line(iteration));
        let failed = iteration.failure.is_some();
        let mark = if failed { Mark::Bad } else { Mark::Good };
        let name = self.cases[case].name.clone();
        let mut known = self.cases[case].ended.iter();
        let is_news =
            !known.any(|(_, known)| known.iteration == iteration.iteration && known.words == words);
        if is_news {
            self.add_event(
                t,
                mark,
                &format!("{name}, iteration {}: {words}", iteration.iteration),
            );
        }
        // a later report replaces an earlier one
        let ended = &mut self.cases[case].ended;
        ended.retain(|(_, known)| known.iteration != iteration.iteration);
        ended.push((
            t,
            FinishedIteration {
                iteration: iteration.iteration,
                words,
                value,
                failed,
            },
        ));
    }

    /// Adds an iteration from a summary, unless an event has reported it.
    fn iteration_of_summary(&mut self, t: f64, test_case: &str, iteration: &Iteration) {
        let case = self.case(test_case);
        let known = self.cases[case].ended.iter();
        if !known
            .clone()
            .any(|(_, ended)| ended.iteration == iteration.iteration)
        {
            let telemetry = self.events.len();
            self.iteration(t, test_case, iteration);
            self.events.truncate(telemetry);
        }
    }

    /// Returns the index of a test case.
    fn case(&mut self, name: &str) -> usize {
        let name = clean(name);
        let known = self.cases.iter().position(|case| case.name == name);
        known.unwrap_or_else(|| {
            self.cases.push(Case {
                name,
                ended: Vec::new(),
            });
            self.cases.len() - 1
        })
    }

    fn add_event(&mut self, t: f64, mark: Mark, words: &str) {
        bound(&mut self.events);
        self.events.push(EventLine {
            t,
            mark,
            words: clean(words),
        });
    }

    /// Adds what was measured, and why it is invalid if it is.
    fn add_measured(&mut self, t: f64, words: &str, validity: &Validity) {
        let mark = match validity.is_valid() {
            true => Mark::Plain,
            false => Mark::Bad,
        };
        let why = crate::output::invalid(&validity.reasons);
        self.add_event(t, mark, &format!("{words}{why}"));
    }

    fn set_progress(&mut self, standing: RunProgress) {
        bound(&mut self.standings);
        self.standings.push(standing);
    }

    fn point(&mut self, t: f64, offered_pps: f64, forwarded_pps: f64) {
        if offered_pps.is_finite() && forwarded_pps.is_finite() {
            bound(&mut self.points);
            self.points.push(Point {
                t,
                offered_pps,
                forwarded_pps,
            });
        }
    }

    /// Advances the time.
    pub fn pass(&mut self, seconds: f64) {
        if self.mode != Mode::Replay {
            self.since_newest += seconds;
        } else if let (true, ScreenTime::At(t)) = (self.is_playing, self.moment) {
            let next = t + seconds * self.speed;
            self.moment = ScreenTime::At(next.min(self.newest));
            self.is_playing = next < self.newest;
        }
    }

    /// Shows a message that is not an event of the run.
    pub fn note(&mut self, words: &str) {
        self.add_event(self.newest, Mark::Bad, words);
        self.pane = Pane::Events;
    }

    /// Marks the run as cut off: its process has died.
    pub fn lost(&mut self) {
        let words = format!(
            "cut off: its process is gone; fwdlab run --resume {} continues a campaign",
            self.head.id
        );
        self.end_run(self.newest, words, false);
    }

    fn end_run(&mut self, t: f64, words: String, is_good: bool) {
        self.end = Some(End { t, words, is_good });
        // nothing is left to stop or to leave running
        if self.overlay == Some(Overlay::Quit) {
            self.cover(None);
        }
    }

    /// Handles a key.
    pub fn key(&mut self, key: Key) -> Action {
        let does = self.settings.does(key);
        match (self.overlay, key, does) {
            (_, Key::Control('z'), _) => return Action::Suspend,
            (_, Key::Control('c'), _) => return self.interrupt(),
            (Some(Overlay::Quit), key, _) => {
                self.overlay = None;
                return match key {
                    Key::Char('s') if self.is_steered() => self.stop(),
                    Key::Char('l') => Action::Leave,
                    _ => Action::Nothing,
                };
            }
            (Some(_), Key::Escape | Key::Enter, _) => self.cover(None),
            (Some(overlay), _, Some(does)) => self.key_of_overlay(overlay, does),
            (None, _, Some(does)) => return self.key_of_view(does),
            (_, _, None) => {}
        }
        Action::Nothing
    }

    fn key_of_overlay(&mut self, overlay: Overlay, does: KeyFunction) {
        match (overlay, does) {
            (_, KeyFunction::Up) => self.scroll = self.scroll.saturating_sub(1),
            (_, KeyFunction::Down) => self.scroll = self.scroll.saturating_add(1),
            (
                _,
                KeyFunction::Quit
                | KeyFunction::Help
                | KeyFunction::Loss
                | KeyFunction::Latency
                | KeyFunction::Flame,
            ) => self.cover(None),
            (Overlay::Loss | Overlay::Latency, KeyFunction::Back) => self.walk(-1),
            (Overlay::Loss | Overlay::Latency, KeyFunction::On) => self.walk(1),
            _ => {}
        }
    }

    fn key_of_view(&mut self, does: KeyFunction) -> Action {
        match does {
            KeyFunction::Freeze => self.freeze(),
            KeyFunction::Back => self.walk(-1),
            KeyFunction::On => self.walk(1),
            KeyFunction::PageBack => self.walk(-(PAGE as isize)),
            KeyFunction::PageOn => self.walk(PAGE as isize),
            KeyFunction::First => self.show(ScreenTime::At(
                self.trials.first().map_or(0.0, |trial| trial.t),
            )),
            KeyFunction::Latest => self.show(match self.mode {
                Mode::Replay => ScreenTime::At(self.newest),
                _ => ScreenTime::Now,
            }),
            KeyFunction::Pane => self.turn(1),
            KeyFunction::PaneBack => self.turn(2),
            KeyFunction::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyFunction::Down => self.scroll = self.scroll.saturating_add(1),
            KeyFunction::Loss if self.shown_trial().is_some() => self.cover(Some(Overlay::Loss)),
            KeyFunction::Latency if self.has_latency() => self.cover(Some(Overlay::Latency)),
            KeyFunction::Flame => {
                return self.shown_case().map_or(Action::Nothing, Action::Profile);
            }
            KeyFunction::Keep => return Action::Keep,
            KeyFunction::Help => self.cover(Some(Overlay::Help)),
            KeyFunction::Faster if self.mode == Mode::Replay => {
                self.speed = (self.speed * 2.0).min(1e6)
            }
            KeyFunction::Slower if self.mode == Mode::Replay => {
                self.speed = (self.speed / 2.0).max(0.125)
            }
            KeyFunction::Skip if self.is_steered() => return Action::Ask(Request::Skip),
            KeyFunction::Pause if self.is_steered() => {
                return Action::Ask(match self.is_paused() {
                    true => Request::Resume,
                    false => Request::Pause,
                });
            }
            KeyFunction::Detach if self.mode == Mode::Own && self.end.is_none() => {
                return Action::Leave;
            }
            KeyFunction::Quit => {
                // no question if there is no live run
                if self.mode == Mode::Replay || self.end.is_some() {
                    return Action::Leave;
                }
                self.cover(Some(Overlay::Quit));
            }
            _ => {}
        }
        Action::Nothing
    }

    /// Returns true if any trial measured latency.
    pub fn has_latency(&self) -> bool {
        self.trials().iter().any(|trial| trial.delays().is_some())
    }

    /// Returns the test case of the trial on the screen, or else the first one: a guest that only
    /// counts has no trials.
    fn shown_case(&self) -> Option<String> {
        let case = self.shown_trial().map_or(0, |trial| trial.case);
        self.cases.get(case).map(|case| case.name.clone())
    }

    /// Shows the profile of a test case, or a message if none was stored.
    pub fn profile(&mut self, costly: Vec<Costly>) {
        if costly.is_empty() {
            return self.note("no profile of this test case is kept: campaigns with flame graphs, and boots of virtual machines, have one");
        }
        self.costly = costly;
        self.cover(Some(Overlay::Flame));
    }

    /// Returns the functions in the profile on the screen.
    pub fn costly(&self) -> &[Costly] {
        &self.costly
    }

    /// Handles Ctrl-C: stops our own run, or leaves the screen of another.
    pub fn interrupt(&mut self) -> Action {
        match self.mode {
            Mode::Own if self.end.is_none() && !self.is_stopping => self.stop(),
            _ => Action::Leave,
        }
    }

    fn stop(&mut self) -> Action {
        self.is_stopping = true;
        Action::Stop
    }

    fn cover(&mut self, overlay: Option<Overlay>) {
        self.overlay = overlay;
        self.scroll = 0;
    }

    fn turn(&mut self, panes: usize) {
        const ALL: [Pane; 3] = [Pane::Cases, Pane::Dut, Pane::Events];
        let at = ALL.iter().position(|pane| *pane == self.pane).unwrap_or(0);
        self.pane = ALL[(at + panes) % ALL.len()];
        self.scroll = 0;
    }

    fn freeze(&mut self) {
        match (self.mode, self.moment) {
            (Mode::Replay, ScreenTime::At(t)) => {
                self.is_playing = !self.is_playing;
                if self.is_playing && t >= self.newest {
                    self.moment = ScreenTime::At(0.0);
                }
            }
            (_, ScreenTime::Now) => self.moment = ScreenTime::At(self.newest),
            (_, ScreenTime::At(_)) => self.moment = ScreenTime::Now,
        }
    }

    /// Moves back or forward by a number of trials; forward from the newest one returns to now.
    fn walk(&mut self, trials: isize) {
        let now = self.trials().len();
        let Some(at) = now.checked_sub(1) else { return };
        let to = at.saturating_add_signed(trials);
        let after = self.trials.get(to + 1);
        match (self.trials.get(to), after) {
            (None, _) if trials > 0 && self.mode != Mode::Replay => self.show(ScreenTime::Now),
            (None, _) => self.show(ScreenTime::At(self.newest)),
            // trials of a simulated run may share a time; the first of them would then hide the
            // others
            (Some(trial), _) => self.show(ScreenTime::At(trial.t)),
        }
    }

    fn show(&mut self, moment: ScreenTime) {
        self.moment = moment;
        self.is_playing = false;
    }

    /// Returns the moment on the screen, as time in the run.
    fn until(&self) -> f64 {
        match self.moment {
            ScreenTime::Now => f64::INFINITY,
            ScreenTime::At(t) => t,
        }
    }

    /// Returns the elapsed seconds of the run at the moment on the screen.
    pub fn elapsed_s(&self) -> f64 {
        match (self.moment, &self.end) {
            (ScreenTime::At(t), _) => t,
            (ScreenTime::Now, Some(end)) => end.t,
            (ScreenTime::Now, None) => self.newest + self.since_newest,
        }
    }

    /// Returns the remaining seconds, if known.
    pub fn left_s(&self) -> Option<f64> {
        let standing = self.progress().filter(|_| self.end().is_none())?;
        Some((standing.left_s - (self.elapsed_s() - standing.t)).max(0.0))
    }

    /// Returns true if the screen shows an older state of a live run.
    pub fn is_frozen(&self) -> bool {
        self.mode != Mode::Replay && self.moment != ScreenTime::Now
    }

    /// Returns true while a replay is playing.
    pub fn is_playing(&self) -> bool {
        self.is_playing
    }

    /// Returns true if the run accepts requests.
    pub fn is_steered(&self) -> bool {
        self.mode != Mode::Replay && self.end.is_none()
    }

    /// Returns true if the run waits before its next trial.
    pub fn is_paused(&self) -> bool {
        self.pauses.last().is_some_and(|(_, paused)| *paused) && self.end.is_none()
    }

    /// Returns how the run ended, if it had ended at the moment on the screen.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref().filter(|end| end.t <= self.until())
    }

    /// Returns the trials that had ended.
    pub fn trials(&self) -> &[Trial] {
        &self.trials[..self.trials.partition_point(|trial| trial.t <= self.until())]
    }

    /// Returns the last trial that had ended.
    pub fn shown_trial(&self) -> Option<&Trial> {
        self.trials().last()
    }

    /// Returns the rates so far.
    pub fn points(&self) -> &[Point] {
        &self.points[..self.points.partition_point(|point| point.t <= self.until())]
    }

    /// Returns the events so far.
    pub fn events(&self) -> &[EventLine] {
        &self.events[..self
            .events
            .partition_point(|telemetry| telemetry.t <= self.until())]
    }

    /// Returns the progress of the run.
    pub fn progress(&self) -> Option<&RunProgress> {
        let known = self
            .standings
            .partition_point(|standing| standing.t <= self.until());
        self.standings[..known].last()
    }

    /// Returns all test cases, each with its finished iterations.
    pub fn cases(&self) -> impl ExactSizeIterator<Item = (&str, Vec<&FinishedIteration>)> {
        let until = self.until();
        self.cases.iter().map(move |case| {
            let ended = case.ended.iter().filter(|(t, _)| *t <= until);
            (case.name.as_str(), ended.map(|(_, ended)| ended).collect())
        })
    }

    /// Returns the name of a test case.
    pub fn case_name(&self, case: usize) -> &str {
        self.cases.get(case).map_or("", |case| &case.name)
    }

    /// Returns the current test case.
    pub fn current_case(&self) -> Option<usize> {
        if self.end().is_some() {
            return None;
        }
        // the activity starts with the name of the test case
        let activity = self.progress().map_or("", |standing| &standing.activity);
        let of_activity = (self.cases.iter().enumerate())
            .filter(|(_, case)| activity.starts_with(&format!("{}, ", case.name)))
            .max_by_key(|(_, case)| case.name.len());
        of_activity
            .map(|(at, _)| at)
            .or_else(|| self.shown_trial().map(|trial| trial.case))
    }

    /// Returns the bracket of a search for the largest load without loss: the largest load without
    /// loss, and the smallest load with loss. `None` without such trials.
    pub fn bracket(&self) -> Option<Bracket> {
        let last = self.shown_trial()?;
        // a sweep has a search for each of its values
        let setting = |trial: &Trial| trial.record.as_ref()?.asked.as_ref()?.question.setting;
        let of_search = |trial: &Trial| (trial.case, trial.iteration, setting(trial));
        let same = |trial: &&Trial| of_search(trial) == of_search(last);
        let of_iteration = self.trials().iter().rev().take_while(same);
        let requested = of_iteration.filter(|trial| {
            trial.is_valid
                && trial
                    .record
                    .as_ref()
                    .is_some_and(|record| record.asked.is_some())
        });
        let mut bracket = Bracket::default();
        for trial in requested {
            let load = trial.intended_pps.unwrap_or(trial.offered_pps);
            bracket.trials += 1;
            bracket.most_pps = bracket.most_pps.max(load);
            match trial.loss_ratio <= 0.0 {
                true => {
                    bracket.lower_pps =
                        Some(bracket.lower_pps.map_or(load, |known| known.max(load)))
                }
                false => {
                    bracket.upper_pps =
                        Some(bracket.upper_pps.map_or(load, |known| known.min(load)))
                }
            }
        }
        (bracket.trials > 1 && (bracket.lower_pps, bracket.upper_pps) != (None, None))
            .then_some(bracket)
    }
}

/// Loads of a search.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bracket {
    pub trials: u32,
    pub lower_pps: Option<f64>,
    pub upper_pps: Option<f64>,
    /// The largest load of all trials.
    pub most_pps: f64,
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

/// Returns text in one line, without control characters.
fn clean(text: &str) -> String {
    harmless(text).replace(['\n', '\t', '\r'], " ")
}

fn bound<T>(all: &mut Vec<T>) {
    if all.len() >= MOST {
        all.drain(..MOST / 2);
    }
}
