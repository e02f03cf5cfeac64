//! Devices that answer the questions of procedures: a simulated DUT, or the embedded test bed.
//!
//! A [`Device`] makes one trial and knows nothing of procedures. Both kinds return the answer, the
//! counters behind it, and the conditions that make it invalid. Start with [`Device::trial`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use fwdlab_engine::analysis::{Analysis, AnalysisPlan, StreamPlan, buckets, stalled_frames};
use fwdlab_engine::sim::{self, Dut, Simulation};
use fwdlab_engine::traffic::Kind;
use fwdlab_engine::{Histogram, LoadPlan};
use fwdlab_measure::conservation::{balance, objections};
use fwdlab_measure::machine::Limit as LoadLimit;
use fwdlab_measure::meters::Meters;
use fwdlab_measure::remaining::{Capacities, ON_THEIR_WAY, TICK, Tally};
use fwdlab_measure::sustained::{self, Sent};
use fwdlab_model::efficiency::Work;
use fwdlab_model::hook::HookRecord;
use fwdlab_model::latency::Bucket;
use fwdlab_model::loss::{Counters, Stage};
use fwdlab_model::probe::Reading;
use fwdlab_model::procedure::{
    Answer, Delays, Ending, Interval, Outage, Question, base_pps, recovered_at, regained_at,
};
use fwdlab_model::reset::Reset;
use fwdlab_model::result::Noise;
use fwdlab_model::trial::Stream;
use fwdlab_model::units::FrameSize;
use fwdlab_model::variant::{Direction, DirectionCounts, Variant};

use super::estimate::capacities;
use super::hooks::{During, Hosts};
use super::manage::RunningQueries;
use super::modify::{Modified, Running};
use super::requests::Requesters;
use super::traffic::{Traffic, file_name, words};
use super::trial::{
    Bench, Counted, PROOF_FRAMES, WARM_UP, loses_inside, offered, over_time, sum, within,
};
use super::{Control, Run, configure, does_forward, open_tester};
use crate::bed::Bed;
use crate::dut::daemons::describe_ended;
use crate::dut::sweep::{Setting, SweptParameter};
use crate::dut::{EndedDaemon, PlannedReset};
use crate::error::LabError;
use crate::host::Limit;
use crate::telemetry::Seen;
use crate::tester::Rig;
use crate::witness::probe::Probes;
use crate::witness::{DURING, WENT_DOWN};

/// Duration of a trial on the bed beyond its traffic: start, drain, reading counters.
pub(super) const OVERHEAD: Duration = Duration::from_millis(100);

/// Number of retries of a load search on another bed.
const LOOKS: u32 = 2;

/// Load at which the frames of a series are proven: any DUT can forward it.
const PROOF_LOAD_PPS: f64 = 10_000.0;

/// Number of frames offered that no filter permits.
const DENIED_FRAMES: u64 = 100;

/// How often the frames of a proof are offered if none of them is sent.
pub(super) const PROOFS: u32 = 10;

/// Duration of the look whether a DUT drops frames of a stream internally.
const LOOK: Duration = Duration::from_millis(100);

/// Number of probe readings before and after a trial; the best one counts.
const READINGS: usize = 5;

/// Interval of reading counters in a trial with a reset, which limits the resolution of the outage.
const RESET_TICK: Duration = Duration::from_millis(1);

/// Longest wait, after the planned end of a constant load, for a sender that stalled.
const LATE_NS: u64 = 1_000_000_000;

/// Interval at which a wait around a trial checks whether the run was stopped.
const STOP_LOOK: Duration = Duration::from_millis(200);

/// A device whose bed could not be built is not used.
const STANDS: &str = "a bed exists";

/// Makes trials.
pub(super) trait Device {
    /// Starts a series: the following trials are of this variant.
    fn begin(&mut self, variant: &Variant, run: &mut Run<'_>) -> Result<(), LabError>;

    /// Makes a trial. Fails if it was stopped from outside.
    fn trial(&mut self, stream: &Stream, question: &Question) -> Result<Made, LabError>;

    /// Repairs the device after a trial in which a port of the bed went down: restores the DUT to
    /// its state before the series.
    fn repair(&mut self, run: &mut Run<'_>) -> Result<(), LabError>;

    /// Returns the hosts on which user commands run.
    fn hosts(&self) -> Hosts;

    /// Sets the commands that run while the frames of the next trial flow.
    fn beside(&mut self, during: During);

    /// Returns the names of the sender and of the receiver.
    fn names(&self) -> (&'static str, &'static str);
}

/// A finished trial.
pub(super) struct Made {
    pub answer: Answer,
    pub counters: Counters,
    /// Delays of the timed frames, of each direction.
    pub latencies: Vec<Vec<Bucket>>,
    /// Its duration with all waits.
    pub took: Duration,
    /// Probe readings before and after; empty if there are no probes or the DUT is simulated.
    pub probes: Vec<Reading>,
    /// A port of the bed went down or disappeared, or seems to have: the DUT has lost at least its
    /// routes and addresses.
    pub is_broken: bool,
    /// Daemons of the DUT's configuration that are no longer running.
    pub ended: Vec<EndedDaemon>,
    /// Resources that forwarding took on the DUT, if it reports them.
    pub work: Option<Work>,
    /// Telemetry of the DUT's host; `None` if it was not read.
    pub telemetry: Option<Box<Seen>>,
    /// Records of the hooks that ran while frames flowed.
    pub hooks: Vec<HookRecord>,
}

impl Made {
    /// Returns the number of frames that were due, of all directions.
    pub fn intended(&self) -> u64 {
        self.counters.generator_sent + self.counters.generator_not_sent
    }
}

/// A simulated DUT: a trial takes only simulated time.
pub(super) struct Simulated<'a> {
    pub simulation: Simulation,
    pub traffic: &'a Traffic,
    pub variant: Variant,
    pub control: &'a Control,
    pub swept: Option<SweptParameter>,
    /// The known meters of the bed.
    pub meters: Meters,
}

impl Device for Simulated<'_> {
    fn begin(&mut self, variant: &Variant, _: &mut Run<'_>) -> Result<(), LabError> {
        self.variant = variant.clone();
        Ok(())
    }

    fn trial(&mut self, stream: &Stream, question: &Question) -> Result<Made, LabError> {
        // the value is not a number of units that each cost time
        let apart = matches!(
            &self.swept,
            Some(SweptParameter::Stream | SweptParameter::Cores)
        )
        .then(|| Question {
            setting: None,
            ..question.clone()
        });
        if let (Some(SweptParameter::Cores), Some(cores)) = (&self.swept, question.setting) {
            self.simulation.set_cores(u32::try_from(cores).unwrap_or(1));
        }
        let question = apart.as_ref().unwrap_or(question);
        let offer = self.traffic.offer(stream, &self.variant)?;
        self.simulation.offer(offer);
        let flows = self.variant.stream(stream).flows;
        let ways = match self.variant.both_directions {
            true => self.simulation.answer_both_ways(question, flows).to_vec(),
            false => vec![self.simulation.answer(question, flows)],
        };
        let counters = ways.iter().map(|(answer, counts)| {
            let whole = answer.frames_intended as f64 / (1.0 - offer.beside);
            let beside = (whole * offer.beside).round() as u64;
            self.simulation.counters(counts, beside)
        });
        let mut counters: Vec<Counters> = counters.collect();
        self.meters.judge(&mut counters);
        let answers = ways.into_iter().map(|(answer, _)| answer).collect();
        let mut answer = combine_directions(answers, &counters);
        let counters = Counters::total(&counters);
        // the only error of a simulated test bed; that no frame came back is a result
        let ledger = balance(&counters, None);
        if ledger.frames_unexplained > 0 {
            answer.objections.extend(objections(&ledger, &counters));
        }
        self.control.check()?;
        Ok(Made {
            counters,
            latencies: self.simulation.latencies().to_vec(),
            took: Duration::from_nanos(answer.took_ns),
            answer,
            is_broken: false,
            ended: Vec::new(),
            work: None,
            telemetry: None,
            hooks: Vec::new(),
            probes: Vec::new(),
        })
    }

    fn repair(&mut self, _: &mut Run<'_>) -> Result<(), LabError> {
        Ok(())
    }

    fn hosts(&self) -> Hosts {
        Hosts::default()
    }

    fn beside(&mut self, _: During) {}

    fn names(&self) -> (&'static str, &'static str) {
        (sim::NAME, sim::NAME)
    }
}

/// Sets up a test bed for the offered traffic, before the DUT is configured; the same in all
/// series. Also returns the routes that were added on the DUT.
pub(super) fn erect(common: &super::Parameters) -> Result<(Bed, String), LabError> {
    let bed = common.bed(1)?;
    let routes = common.traffic.routes(&common.streams)?;
    let routes = bed.dut(0).route(&routes)?;
    Ok((bed, routes))
}

/// Returns doubts about a whole run on the test bed.
pub(super) fn caveats(common: &super::Parameters) -> Vec<String> {
    let mut doubts = Vec::new();
    if !common.privileged {
        doubts.push(crate::user_namespace::MISSING.to_owned());
    }
    if !common.placement.is_separate() {
        doubts.push(
            "generator and DUT share a CPU: these figures only compare settings on this machine"
                .into(),
        );
    }
    doubts
}

/// Describes the noise of a simulated machine: all noise comes from the DUT, but results that
/// contradict each other are still doubtful.
pub(super) fn simulated_noise(dut: &Dut, contradictions: Vec<String>) -> Noise {
    let whose = match dut.noise > 0.0 || dut.loss_ratio > 0.0 {
        true => "all noise comes from the DUT",
        false => "no noise",
    };
    let mut verdict = format!("simulated: {whose}; the same seed gives the same trials");
    if !contradictions.is_empty() {
        verdict = format!("{}. {verdict}", contradictions.join("; "));
    }
    Noise {
        calibration: "none: the DUT is simulated".into(),
        verdict,
        too_noisy: !contradictions.is_empty(),
        doubts: contradictions,
        ..Noise::default()
    }
}

/// Answers of a trial on the test bed, its counters, and the delays of its frames, all by
/// direction.
type TrialAnswers = (Vec<Answer>, Counted, Vec<Vec<Bucket>>);

/// Sends this number of frames slowly. Repeats until each direction has sent some, because a sender
/// on a busy CPU may stall for the whole time.
fn offer_some(bench: &mut Bench<'_>, stream: &Stream, frames: u64) -> Result<Counted, LabError> {
    let time = Duration::from_secs_f64(frames as f64 / PROOF_LOAD_PPS);
    for _ in 0..PROOFS {
        let counted = bench.load(stream, PROOF_LOAD_PPS, time)?;
        let mut ways = counted.counters.iter();
        if counted.is_broken || ways.all(|counters| counters.generator_sent > 0) {
            return Ok(counted);
        }
    }
    Err(sent_nothing(frames))
}

/// The error if the frames were offered repeatedly, and none was sent.
pub(super) fn sent_nothing(frames: u64) -> LabError {
    let ms = 1e3 * frames as f64 / PROOF_LOAD_PPS;
    LabError::Preflight(format!(
        "the generator sent no frame in {PROOFS} times {ms:.0} ms at {PROOF_LOAD_PPS} frames/s: its CPU is busy (fwdlab doctor \
         names the processes): end them, or give the DUT another CPU with --dut-cpus"
    ))
}

/// The embedded test bed.
pub(super) struct Real<'a> {
    pub common: &'a super::Parameters,
    pub control: &'a Control,
    variant: Variant,
    /// Changes of this series on the DUT; undone before the bed is removed.
    modified: Option<Modified>,
    /// Frames of the last measured stream, in this series; `None`: test frames.
    armed: Option<(Stream, Option<Arc<fwdlab_engine::Traffic>>)>,
    /// The setting that a sweep varies on the DUT.
    pub setting: Option<Setting>,
    /// The lowest load at which the DUT was seen to drop frames of a stream internally: from there
    /// on the kernel reports the reasons.
    drops: Option<(Stream, Option<f64>)>,
    /// Observations of the DUT during load searches: frame size, offered load, share received.
    looks: Vec<(FrameSize, f64, f64)>,
    /// Number of looks at the chosen loads, and how many of them reached the load.
    held: Tally,
    /// The known meters of the bed.
    meters: Meters,
    /// User commands during the next trial.
    during: During,
    /// The bed in use; `None` only while it is rebuilt, or if that failed.
    standing: Option<PreparedBed>,
}

/// A bed with its tester.
struct PreparedBed {
    tester: Box<dyn Rig>,
    bed: Bed,
}

impl<'a> Real<'a> {
    /// Creates a device with a plain series and no sweep.
    pub fn new(
        bed: Bed,
        tester: Box<dyn Rig>,
        common: &'a super::Parameters,
        control: &'a Control,
    ) -> Real<'a> {
        Real {
            standing: Some(PreparedBed { tester, bed }),
            common,
            control,
            variant: Variant::default(),
            modified: None,
            armed: None,
            setting: None,
            drops: None,
            looks: Vec::new(),
            held: Tally::default(),
            meters: Meters::default(),
            during: During::default(),
        }
    }
}

impl Real<'_> {
    /// Returns what the load searches revealed about the DUT's capacity.
    pub fn capacities(&self, limits: &[LoadLimit]) -> Capacities {
        let mut known = capacities(None, limits);
        for &(size, load_pps, share) in &self.looks {
            known.record_share(size, load_pps, share);
        }
        known
    }

    /// Returns how often the sender reached the largest loads during the load searches.
    pub fn held(&self) -> Tally {
        self.held
    }

    /// Returns the tester and the bed.
    pub fn both(&mut self) -> (&mut dyn Rig, &Bed) {
        let PreparedBed { tester, bed } = self.standing.as_mut().expect(STANDS);
        (tester.as_mut(), bed)
    }

    pub fn bed(&self) -> &Bed {
        &self.standing.as_ref().expect(STANDS).bed
    }

    /// Waits by the tester's clock, until the run is stopped.
    fn wait(&self, time_ns: u64) {
        let (tester, time) = (self.tester(), Duration::from_nanos(time_ns));
        let started = tester.now();
        while tester.since(started) < time && !self.control.is_stopped() {
            tester.wait(time.saturating_sub(tester.since(started)).min(STOP_LOOK));
        }
    }

    fn tester(&self) -> &dyn Rig {
        self.standing.as_ref().expect(STANDS).tester.as_ref()
    }

    /// Undoes what a sweep has set.
    pub fn undo(&mut self) -> Result<(), LabError> {
        match (&mut self.setting, &self.standing) {
            (Some(setting), Some(standing)) => {
                setting.undo(standing.bed.dut(0).as_ref(), &Control::default())
            }
            _ => Ok(()),
        }
    }

    /// Returns the frames of a stream in this series.
    fn frames(&mut self, stream: &Stream) -> Result<Option<Arc<fwdlab_engine::Traffic>>, LabError> {
        if let Some((of, traffic)) = &self.armed
            && of == stream
        {
            return Ok(traffic.clone());
        }
        let traffic = self.common.traffic.frames(stream, &self.variant)?;
        self.armed = Some((stream.clone(), traffic.clone()));
        Ok(traffic)
    }

    /// Returns the stream in this series, and the bench that measures it.
    fn bench(&mut self, stream: &Stream) -> Result<(Stream, Bench<'_>), LabError> {
        let traffic = self.frames(stream)?;
        let stream = self.variant.stream(stream);
        let (placement, control) = (&self.common.placement, self.control);
        let (tester, bed) = self.both();
        let mut bench = Bench::new(bed, tester, placement, control);
        bench.traffic = traffic;
        Ok((stream, bench))
    }

    /// Sends a few frames of the series slowly: some must come back, in each direction.
    fn prove(&mut self, stream: &Stream) -> Result<(), LabError> {
        let (stream, mut bench) = self.bench(stream)?;
        let counted = offer_some(&mut bench, &stream, PROOF_FRAMES)?;
        let mut ways = [Direction::Forward, Direction::Reverse]
            .iter()
            .zip(&counted.counters);
        match ways.find(|(_, counters)| counters.receiver_received == 0) {
            None => Ok(()),
            Some((direction, counters)) => Err(LabError::DoesNotForward {
                configuration: format!(
                    "frames of this series ({}), {}",
                    words(&self.variant),
                    match direction {
                        Direction::Forward => "forward",
                        Direction::Reverse => "in reverse",
                    }
                ),
                sent: counters.generator_sent,
                received: 0,
                reason: format!(
                    "{} reached the DUT's input and {} left at its output; the bed routes only IP without tags, labels and \
                     tunnels",
                    frames_at(counters, &Stage::DutInput),
                    frames_at(counters, &Stage::DutOutput)
                ),
            }),
        }
    }

    /// Sends frames that no filter permits: none may come back.
    fn prove_denied(&mut self, stream: &Stream) -> Result<(), LabError> {
        let traffic = self.common.traffic.denied(stream.ip_version)?;
        let (stream, mut bench) = self.bench(stream)?;
        bench.traffic = Some(traffic);
        let all = Counters::total(&offer_some(&mut bench, &stream, DENIED_FRAMES)?.counters);
        let reached = all.chain.passed(&Stage::DutInput);
        if all.receiver_received == 0 && reached != Some(0) {
            return Ok(());
        }
        Err(LabError::Preflight(format!(
            "the filters do not deny what they should: of {} frames from other addresses, {} reached the DUT and {} came back",
            all.generator_sent,
            frames_at(&all, &Stage::DutInput),
            all.receiver_received
        )))
    }

    /// Returns the load that the tester can sustain, with a margin, and a description of its
    /// source.
    pub fn sustained(&mut self, stream: &Stream) -> Result<(f64, String), LabError> {
        let (stream, mut bench) = self.bench(stream)?;
        let flat_out = bench.flat_out(&stream)?;
        let second = Duration::from_secs(1);
        let counted = bench.load(&stream, flat_out, second)?;
        let counted = counted.or_link_down()?;
        let (all, sent) = (Counters::total(&counted.counters), sent(&counted));
        let look = (all.generator_sent > 0).then(|| {
            let share = all.receiver_received as f64 / all.generator_sent as f64;
            let offered_pps = sent.frames as f64 / second.as_secs_f64();
            (stream.frame_size_bytes, offered_pps, share)
        });
        let mut search = sustained::Search::new(flat_out, sent);
        let found = loop {
            let counted = bench.load(&stream, search.load_pps(), sustained::LOOK)?;
            if let Some(found) = search.record(self::sent(&counted.or_link_down()?)) {
                break found;
            }
        };
        self.looks.extend(look);
        self.held += found.looks;
        Ok((found.load_pps, found.source))
    }

    /// Searches for a load on the bed; repeats it on a rebuilt bed if a port goes down or
    /// disappears meanwhile.
    pub fn look<T>(
        &mut self,
        run: &mut Run<'_>,
        look: impl Fn(&mut Self, &mut Run<'_>) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        for _ in 0..LOOKS {
            match look(self, run) {
                Err(error @ LabError::Disturbed { .. }) => {
                    run.warn(format!("during the search for a load: {error}"))?;
                    self.repair(run)?;
                }
                found => return found,
            }
        }
        look(self, run)
    }

    /// Returns the load that the tester can sustain in every series that has frames of its own, so
    /// that all series are comparable, and a description of its source.
    pub fn sustained_in_all(
        &mut self,
        stream: &Stream,
        run: &mut Run<'_>,
    ) -> Result<(f64, String), LabError> {
        let common = self.common;
        let mut known: Vec<Variant> = Vec::new();
        let mut least: Option<(f64, String)> = None;
        for variant in &common.traffic.variants {
            let frames = variant.frames();
            if !known.contains(&frames) {
                let held = self.look(run, |device, run| {
                    device.begin(&frames, run)?;
                    device.sustained(stream)
                })?;
                least = Some(least.filter(|least| least.0 <= held.0).unwrap_or(held));
                known.push(frames);
            }
        }
        least.ok_or_else(|| LabError::Preflight("no series was requested".into()))
    }

    /// Returns a load that overloads the DUT; `None` if the tester cannot send more than the DUT
    /// forwards.
    pub fn overload(&mut self, stream: &Stream) -> Result<Option<f64>, LabError> {
        let (stream, mut bench) = self.bench(stream)?;
        Ok(bench.overload(&stream)?.load_pps)
    }

    /// Reads the probes, if any: before and after the traffic, never during it, because that would
    /// cost frames.
    fn probes(&self) -> Option<Reading> {
        Probes::on_dut_cpu(&self.common.placement, |probes| probes.best_of(READINGS))
    }

    /// Sets the value of a sweep, and checks that the DUT still forwards.
    fn set(&mut self, stream: &Stream, question: &Question) -> Result<(), LabError> {
        let (Some(setting), Some(value)) = (&mut self.setting, question.setting) else {
            return Ok(());
        };
        let PreparedBed { tester, bed } = self.standing.as_mut().expect(STANDS);
        if setting.set(bed.dut(0).as_ref(), stream.ip_version, value, self.control)? {
            self.drops = None;
            let with = format!("{value} {}", setting.parameter());
            does_forward(bed, 0, tester.as_mut(), stream, &with)?;
        }
        Ok(())
    }

    /// Returns true if the kernel is to count the reasons of its drops in a trial at this load.
    /// Costs the DUT time for every frame that the kernel frees, so only if it was seen to drop
    /// frames internally at this load or a lower one. Two looks precede the first trial of a
    /// stream: one at a load that any DUT carries, and one at its own.
    fn drops_at(&mut self, stream: &Stream, load_pps: f64) -> Result<bool, LabError> {
        if !self.common.privileged {
            return Ok(false);
        }
        if self.drops.as_ref().is_none_or(|(of, _)| of != stream) {
            self.drops = Some((stream.clone(), None));
            for load_pps in [PROOF_LOAD_PPS.min(load_pps), load_pps] {
                let (frames, mut bench) = self.bench(stream)?;
                let counted = bench.load(&frames, load_pps, LOOK)?;
                self.record_drops(load_pps, &counted.or_link_down()?);
            }
        }
        let from_pps = self.drops.as_ref().and_then(|(_, from_pps)| *from_pps);
        Ok(from_pps.is_some_and(|from_pps| from_pps <= load_pps))
    }

    /// Records whether a trial at this load lost frames inside the DUT.
    fn record_drops(&mut self, load_pps: f64, counted: &Counted) {
        if let Some((_, from_pps)) = &mut self.drops
            && counted.counters.iter().any(loses_inside)
        {
            *from_pps = Some(from_pps.map_or(load_pps, |from: f64| from.min(load_pps)));
        }
    }

    /// Offers one load for some time, and counts it as a whole.
    fn plain(&mut self, stream: &Stream, question: &Question) -> Result<TrialAnswers, LabError> {
        let duration = Duration::from_nanos(question.duration_ns());
        let load_pps = question.peak_pps();
        let bursts = question.bursts.map(|bursts| {
            let traffic = self
                .common
                .traffic
                .in_bursts(stream, &self.variant, bursts, load_pps)?;
            Ok::<_, LabError>((traffic, bursts.rate_pps))
        });
        let bursts = bursts.transpose()?;
        let count_reasons = self.drops_at(stream, load_pps)?;
        let requested = self.common.telemetry.clone();
        let during = std::mem::take(&mut self.during);
        let (stream, mut bench) = self.bench(stream)?;
        bench.count_reasons = count_reasons;
        bench.telemetry = requested.as_ref();
        bench.hooks = Some(&during);
        let counted = match bursts {
            None => bench.load(&stream, load_pps, duration)?,
            Some((traffic, rate_pps)) => {
                bench.traffic = Some(traffic);
                bench.load_at(&stream, load_pps, rate_pps, duration)?
            }
        };
        self.record_drops(load_pps, &counted);
        let answers = vec![Answer::default(); counted.counters.len()];
        Ok((answers, counted, Vec::new()))
    }

    /// Offers a load that changes, with counts over time, an early end, or delays.
    fn shaped(&mut self, stream: &Stream, question: &Question) -> Result<TrialAnswers, LabError> {
        let reset = self.reset(question)?;
        let peak_pps = question.peak_pps();
        let count_reasons = self.drops_at(stream, peak_pps)?;
        let requested = self.common.telemetry.clone();
        let during = std::mem::take(&mut self.during);
        let (stream, mut bench) = self.bench(stream)?;
        bench.count_reasons = count_reasons;
        bench.telemetry = requested.as_ref();
        bench.hooks = Some(&during);
        let ways = bench.path_count();
        let total = Duration::from_nanos(question.duration_ns());
        let analysis = question.tagging.map(|_| match &bench.traffic {
            None => AnalysisPlan {
                streams: vec![StreamPlan::default()],
            },
            Some(traffic) => AnalysisPlan {
                streams: (traffic.streams.iter())
                    .filter(|stream| stream.kinds.iter().all(Kind::is_signed))
                    .map(|stream| StreamPlan {
                        id: stream.id,
                        ..StreamPlan::default()
                    })
                    .collect(),
            },
        });
        let load_pps = question.load_at(0).max(1.0) * ways as f64;
        let schedule = match question.is_constant() {
            true => within(load_pps, total, ways * question.frames()),
            false => over_time(question, ways),
        };
        let (begin, started) = mpsc::channel();
        let is_over = AtomicBool::new(false);
        let (bed, control) = (bench.bed, bench.control);
        let (watched, reset_done) = std::thread::scope(|scope| {
            // in its own thread: it would inherit CPU and priority of the thread that watches
            let resetting = reset.as_ref().map(|planned| {
                let is_over = &is_over;
                scope.spawn(move || {
                    // if the trial ends before, no reset is requested
                    let done = match started.recv() {
                        Ok(()) => bed.dut(0).reset(
                            planned,
                            Limit {
                                time: total,
                                is_stopped: &|| control.is_stopped(),
                            },
                        ),
                        Err(mpsc::RecvError) => Ok(Vec::new()),
                    };
                    is_over.store(true, Ordering::Relaxed);
                    done
                })
            });
            let trigger = reset.as_ref().map(|_| Trigger {
                begin,
                is_over: &is_over,
            });
            let watched = bench.count_and_analyse(
                &stream,
                analysis.clone(),
                schedule,
                Some(question.peak_pps() * ways as f64),
                move |tester, control| watch(tester, control, question, ways as usize, trigger),
            );
            let done = resetting.map_or(Ok(Vec::new()), |thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            (watched, done)
        });
        let (mut answers, mut counted) = watched?;
        self.record_drops(peak_pps, &counted);
        let moments = reset_done?;
        if reset.is_some() {
            // the reset itself caused this
            let ended = describe_ended(&counted.ended, DURING);
            counted
                .objections
                .retain(|reason| !reason.ends_with(WENT_DOWN) && *reason != ended);
            counted.is_broken = false;
            if !std::mem::take(&mut counted.ended).is_empty() {
                self.bed().dut(0).find_new_daemons()?;
            }
        }
        if question.is_constant() && answers.iter().all(|answer| !answer.ended_early) {
            counted.count_not_sent(ways, ways * question.frames());
            // use the end by the clock, not the time of the look that noticed it
            let whole = |answer: &mut Answer| answer.duration_ns = question.duration_ns();
            answers.iter_mut().for_each(whole);
        }
        for answer in &mut answers {
            answer.moments.clone_from(&moments);
        }
        let mut latencies = Vec::new();
        if analysis.is_some() {
            let late = self.tester().lateness()?;
            for (path, answer) in answers.iter_mut().enumerate() {
                if let Some(found) = self.both().0.analysis(path)? {
                    let times = times(&found);
                    let of = &counted.counters[path];
                    let lost = of.generator_sent.saturating_sub(of.receiver_received);
                    let stalled = stalled_frames(0, of.generator_not_sent, late.as_ref());
                    let delays = delays(&found, &times);
                    answer.delays = delays.map(|delays| delays.with_missing(&times, lost, stalled));
                    latencies.push(times);
                }
            }
        }
        Ok((answers, counted, latencies))
    }
}

/// Describes the count of a meter.
fn frames_at(counters: &Counters, stage: &Stage) -> String {
    let passed = counters.chain.passed(stage);
    passed.map_or("an unknown number of frames".into(), |frames| {
        format!("{frames} frames")
    })
}

/// Returns the delays of the frames of all streams that one receiver saw.
fn times(found: &Analysis) -> Vec<Bucket> {
    let mut latency = Histogram::default();
    for stream in &found.streams {
        latency.merge(&stream.latency);
    }
    buckets(&latency)
}

/// Returns the delays in figures.
fn delays(found: &Analysis, times: &[Bucket]) -> Option<Delays> {
    let timed = || found.streams.iter().filter(|s| !s.latency.is_empty());
    let sum_ns: u64 = timed().map(|stream| stream.latency_sum_ns).sum();
    let frames: u64 = times.iter().map(|bucket| bucket.count).sum();
    let min_ns = timed().map(|stream| stream.latency_min_ns).min()?;
    let max_ns = timed().map(|stream| stream.latency_max_ns).max()?;
    Delays::from_buckets(times, min_ns, max_ns, sum_ns as f64 / frames as f64)
}

/// Combines the answers of both directions, with these counters, into one: that of the worse
/// direction, with the counts of each.
fn combine_directions(mut answers: Vec<Answer>, counters: &[Counters]) -> Answer {
    for (answer, counters) in answers.iter_mut().zip(counters) {
        answer.frames_sent = counters.generator_sent;
        answer.frames_intended = counters.generator_sent + counters.generator_not_sent;
        answer.frames_received = counters.receiver_received;
        answer.frames_additional = counters.generator_additional;
        answer.frames_foreign = counters.receiver_foreign;
    }
    if answers.len() < 2 {
        return answers.pop().unwrap_or_default();
    }
    let directions: Vec<DirectionCounts> = [Direction::Forward, Direction::Reverse]
        .into_iter()
        .zip(&answers)
        .map(|(direction, answer)| DirectionCounts {
            direction,
            frames_intended: answer.frames_intended,
            frames_sent: answer.frames_sent,
            frames_received: answer.frames_received,
            samples: answer.samples.clone(),
        })
        .collect();
    let objections: Vec<String> = answers
        .iter_mut()
        .flat_map(|a| std::mem::take(&mut a.objections))
        .collect();
    let took_ns = answers.iter().map(|answer| answer.took_ns).max();
    let reverse_is_worse = directions[1].loss_ratio() > directions[0].loss_ratio();
    let worse = answers.swap_remove(usize::from(reverse_is_worse));
    Answer {
        directions,
        objections,
        took_ns: took_ns.unwrap_or(worse.took_ns),
        ..worse
    }
}

impl Real<'_> {
    /// The result of a trial in which a port of the bed went down.
    fn nothing(&self, reason: &LabError) -> TrialAnswers {
        let ways = self.bed().path_count();
        (
            vec![Answer::default(); ways],
            Counted::link_down(ways, reason.to_string()),
            Vec::new(),
        )
    }

    /// Returns what a trial resets, and how.
    fn reset(&self, question: &Question) -> Result<Option<PlannedReset>, LabError> {
        if question.reset_at_ns.is_none() {
            return Ok(None);
        }
        let action = question.reset.as_deref().unwrap_or_default();
        let reset = Reset::parse(action).map_err(LabError::Preflight)?;
        self.bed().dut(0).plan_reset(&reset).map(Some)
    }

    /// Checks that a DUT forwards again after its reset.
    fn check_forwarding(
        &mut self,
        stream: &Stream,
        question: &Question,
        answer: &Answer,
    ) -> Result<(), LabError> {
        let Some(action) = question.reset.clone() else {
            return Ok(());
        };
        let reset_ns = answer.reset_at_ns.unwrap_or(0);
        self.prove(stream).map_err(|error| match error {
            LabError::DoesNotForward { sent, .. } => LabError::NotBack {
                what: action,
                waited_s: answer.duration_ns.saturating_sub(reset_ns) as f64 / 1e9,
                sent,
            },
            other => other,
        })
    }
}

impl Device for Real<'_> {
    fn begin(&mut self, variant: &Variant, run: &mut Run<'_>) -> Result<(), LabError> {
        let common = self.common;
        // first undo the changes of the previous series
        self.modified = None;
        self.variant = variant.clone();
        self.armed = None;
        self.drops = None;
        if common.traffic.profile.is_none() && variant.is_plain() {
            return Ok(());
        }
        let name = file_name(variant);
        let mut report = |kind: &str, text| run.note(&format!("series/{name}/{kind}"), text);
        let (traffic, streams) = (&common.traffic, &common.streams);
        let cpus = &common.placement.dut_cpus;
        let modified = Modified::begin(self.bed(), traffic, streams, variant, cpus, &mut report)?;
        let filters = modified.filters();
        self.modified = Some(modified);
        streams.iter().try_for_each(|stream| self.prove(stream))?;
        if filters {
            self.prove_denied(&streams[0])?;
        }
        Ok(())
    }

    fn trial(&mut self, stream: &Stream, question: &Question) -> Result<Made, LabError> {
        self.set(stream, question)?;
        let started = self.tester().now();
        self.wait(question.waits.learn_ns);
        let before = self.probes();
        let is_plain = question.is_constant()
            && question.sample_ns.is_none()
            && question.tagging.is_none()
            && question.ending.is_none()
            && !question.locate_loss;
        let (updates, asking) = (self.modified.as_ref()).map_or((None, None), Modified::trial);
        let requests = question.requests.as_ref().map(|requests| {
            let cpus = match self.common.site.is_local() {
                true => &self.common.placement.dut_cpus[..],
                false => &[],
            };
            Requesters::begin(self.bed(), requests, cpus, self.control)
        });
        let requesters = requests.transpose()?;
        let made = match is_plain {
            true => self.plain(stream, question),
            false => self.shaped(stream, question),
        };
        let (answers, mut counted, latencies) = match made {
            Err(error @ LabError::Disturbed { .. }) => self.nothing(&error),
            made => made?,
        };
        let route_updates = updates.map_or(Ok(0), Running::end)?;
        let management = asking.map(RunningQueries::end);
        let requests = requesters
            .zip(counted.began)
            .map(|(asking, flow)| asking.end(flow));
        let after = self.probes();
        let is_broken = counted.is_broken || question.reset.is_none() && counted.received_nothing();
        if let Some(answer) = answers.first()
            && !is_broken
            && counted.ended.is_empty()
        {
            self.check_forwarding(stream, question, answer)?;
        }
        self.wait(question.waits.drain_ns + question.waits.settle_ns);
        let elapsed = self.tester().since(started);
        if !is_broken {
            self.meters.judge(&mut counted.counters);
        }
        let mut answer = combine_directions(answers, &counted.counters);
        let counters = Counters::total(&counted.counters);
        answer.frames_not_sent_by_sender = counted.not_sent_by_sender;
        answer.objections = counted.objections;
        answer.route_updates = route_updates;
        answer.management = management;
        answer.requests = requests.unwrap_or_default();
        answer.took_ns = elapsed.as_nanos() as u64;
        if answer.duration_ns == 0 {
            answer.duration_ns = question.duration_ns();
        }
        Ok(Made {
            answer,
            counters,
            latencies,
            took: elapsed,
            probes: before.into_iter().chain(after).collect(),
            is_broken,
            ended: counted.ended,
            work: counted.work,
            telemetry: counted.telemetry,
            hooks: counted.hooks,
        })
    }

    fn repair(&mut self, run: &mut Run<'_>) -> Result<(), LabError> {
        self.modified = None;
        if let Some(setting) = &mut self.setting {
            setting.forget();
        }
        // remove the old bed before building the new one, which may use the same hosts
        self.standing = None;
        let common = self.common;
        let (bed, _) = erect(common)?;
        let (tester, _) = open_tester(&bed, common)?;
        self.standing = Some(PreparedBed { tester, bed });
        if let Some(configuration) = &common.configuration {
            let (stream, control) = (&common.streams[0], self.control);
            let (tester, bed) = self.both();
            configure(bed, 0, tester, stream, configuration, control, run)?;
        }
        self.begin(&self.variant.clone(), run)
    }

    fn hosts(&self) -> Hosts {
        Hosts::from_bed(self.bed())
    }

    fn beside(&mut self, during: During) {
        self.during = during;
    }

    fn names(&self) -> (&'static str, &'static str) {
        self.tester().names()
    }
}

/// Lets the thread that watches trigger the reset of the DUT.
struct Trigger<'a> {
    begin: mpsc::Sender<()>,
    is_over: &'a AtomicBool,
}

/// Returns the frames of both directions that were sent, and those that were due and not sent.
fn sent(counted: &Counted) -> Sent {
    let all = Counters::total(&counted.counters);
    Sent {
        frames: all.generator_sent + all.generator_additional,
        missing: all.generator_not_sent,
    }
}

/// Finds the longest time without a frame, by sampling a counter.
#[derive(Debug, Default)]
struct Silence {
    received: u64,
    looked_ns: u64,
    /// Time of the last sample in which the counter had increased, and the time since the sample
    /// before it.
    came_ns: u64,
    came_after_ns: u64,
    longest: Option<Outage>,
    longest_ns: u64,
    resolution_ns: u64,
}

impl Silence {
    /// Adds a sample of the counter. Silence that ended before `from_ns` does not count.
    fn look(&mut self, at_ns: u64, received: u64, from_ns: Option<u64>) {
        let after_ns = at_ns - self.looked_ns;
        if received > self.received {
            let silent_ns = at_ns - self.came_ns;
            if from_ns.is_some_and(|from| at_ns > from) && silent_ns > self.longest_ns {
                self.longest_ns = silent_ns;
                self.longest = Some(Outage {
                    last_before_ns: self.came_ns,
                    first_after_ns: Some(at_ns),
                });
                // the frames themselves arrived at some time since the previous sample
                self.resolution_ns = after_ns.max(self.came_after_ns);
            }
            (self.received, self.came_ns, self.came_after_ns) = (received, at_ns, after_ns);
        }
        self.looked_ns = at_ns;
    }

    /// Returns the longest silence, or the one that has not ended if it is longer.
    fn outage(&self) -> Outage {
        let open = Outage {
            last_before_ns: self.came_ns,
            first_after_ns: None,
        };
        let lasts_ns = self.looked_ns - self.came_ns;
        self.longest
            .filter(|_| lasts_ns <= self.longest_ns)
            .unwrap_or(open)
    }
}

/// Follows a trial: reads counters, and detects when it may end.
fn watch(
    tester: &mut dyn Rig,
    control: &Control,
    question: &Question,
    ways: usize,
    trigger: Option<Trigger<'_>>,
) -> Result<Vec<Answer>, LabError> {
    let (sample_ns, total_ns) = (question.sample_ns, question.duration_ns());
    let first = tester.read()?;
    let start_ns = first.at_ns - began_ns(&first, &over_time(question, ways as u64).load);
    let mut answer = Answer {
        resolution_ns: question.locate_loss.then_some(TICK.as_nanos() as u64),
        ..Answer::default()
    };
    let mut samples = vec![Vec::new(); ways];
    let mut sampled = first;
    // missing frames at every sample, including those in flight
    let mut missing: Vec<(u64, u64)> = Vec::new();
    let mut silence = Silence::default();
    // when the reset was complete
    let mut over_ns = None;
    loop {
        control.check()?;
        let tick = match trigger {
            Some(_) => RESET_TICK,
            None => TICK.min(sample_ns.map_or(TICK, Duration::from_nanos)),
        };
        tester.wait(tick);
        let now = tester.read()?;
        let at_ns = now.at_ns - start_ns;
        let (sent, received) = (sum(&now.sent), sum(&now.received));
        if question.locate_loss {
            missing.push((at_ns, sent.saturating_sub(received)));
        }
        if let Some(length_ns) = sample_ns
            && (now.at_ns - sampled.at_ns >= length_ns || at_ns >= total_ns)
        {
            let from_ns = sampled.at_ns - start_ns;
            for (way, samples) in samples.iter_mut().enumerate() {
                samples.push(Interval {
                    at_ns: from_ns,
                    length_ns: now.at_ns - sampled.at_ns,
                    intended_load_pps: question.load_at(u64::midpoint(from_ns, at_ns)),
                    frames_sent: now.sent[way] - sampled.sent[way],
                    frames_received: now.received[way] - sampled.received[way],
                });
            }
            sampled = now.clone();
            let is_back = |samples: &Vec<Interval>| match (question.ending, over_ns) {
                (Some(Ending::Recovered { share, for_ns }), Some(over_ns)) => {
                    recovered_at(samples, over_ns, share, for_ns).is_some()
                }
                (Some(Ending::Regained { share, for_ns }), Some(over_ns)) => {
                    let event_ns = answer.reset_at_ns.unwrap_or(0);
                    base_pps(samples, event_ns).is_some_and(|base| {
                        regained_at(samples, event_ns, over_ns, base, share, for_ns).is_some()
                    })
                }
                _ => false,
            };
            if samples.iter().all(is_back) {
                answer.ended_early = true;
            }
        }
        if let Some(trigger) = &trigger {
            if answer.reset_at_ns.is_none() && question.reset_at_ns.is_some_and(|at| at <= at_ns) {
                answer.reset_at_ns = Some(at_ns);
                // the thread that waits for it lives as long as this trial
                let _ = trigger.begin.send(());
            }
            if over_ns.is_none() && trigger.is_over.load(Ordering::Relaxed) {
                over_ns = Some(at_ns);
                answer.reset_over_ns = over_ns;
            }
            silence.look(at_ns, now.received[0], answer.reset_at_ns);
        }
        answer.duration_ns = at_ns;
        if answer.ended_early {
            break;
        }
        if at_ns >= total_ns && (tester.is_done() || at_ns >= total_ns + LATE_NS) {
            break;
        }
        if let Some(Ending::Lost { frames }) = question.ending
            && at_ns < total_ns
        {
            let way = (question.load_at(at_ns) * TICK.as_secs_f64()) as u64 + ON_THEIR_WAY;
            let mut missing = now.sent.iter().zip(&now.received);
            if missing.any(|(sent, received)| sent.saturating_sub(*received) > frames + way) {
                answer.ended_early = true;
                break;
            }
        }
    }
    if trigger.is_some() {
        answer.outage = Some(silence.outage());
        answer.resolution_ns = Some(silence.resolution_ns);
    }
    // the last sample at which more frames were missing than are in flight at the end
    let rest = missing.last().map_or(0, |(_, frames)| *frames);
    let lost = missing.iter().map(|(_, frames)| *frames).max().unwrap_or(0);
    if question.locate_loss && lost > ON_THEIR_WAY {
        let complete = rest.saturating_sub(ON_THEIR_WAY);
        let until = missing.iter().find(|(_, frames)| *frames >= complete);
        answer.last_lost_ns = until.map(|(at_ns, _)| *at_ns);
    }
    let of_way = |samples| Answer {
        samples,
        ..answer.clone()
    };
    Ok(samples.into_iter().map(of_way).collect())
}

/// Returns how long before the first sample of the counters the first frame was due: the sender
/// needs part of the warm-up time to start.
fn began_ns(first: &fwdlab_engine::Reading, load: &LoadPlan) -> u64 {
    let due = offered(first) + first.not_sent;
    let since = load.due_after(due.saturating_sub(1));
    since.unwrap_or_default().min(WARM_UP).as_nanos() as u64
}

#[cfg(test)]
mod tests;
