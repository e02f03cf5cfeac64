//! Compares configurations with the plain DUT: DUTs side by side, slices in balanced order,
//! everything rebuilt many times.
//!
//! Configuration 0 is the reference (in `quick` the plain DUT), 1 is the A/A control (the reference
//! again), the rest are the requested ones. [`super::slices`] decides which rows a campaign or
//! `fwdlab quick --vs` needs, and how often they are rebuilt. Start with [`Row`], which builds and
//! measures one rebuild.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fwdlab_measure::conservation::{balance, objections};
use fwdlab_measure::order::{Random, mirrored};
use fwdlab_measure::overload::{SURPLUS, not_overloaded};
use fwdlab_measure::paired::{CONTROLS, Rebuild, SLICE, next_slice, places, rebuild};
use fwdlab_model::event::{Compared, EventKind, RebuildRecord};
use fwdlab_model::result::Validity;
use fwdlab_model::trial::Stream;

use crate::bed::Bed;
use crate::dut::Configuration;
use crate::dut::sweep::{Setting, SweptParameter};
use crate::error::LabError;
use crate::run::trial::{Bench, Counted};
use crate::run::{Control, Parameters, Run, configure, does_forward, open_tester, timestamp};
use crate::tester::Rig;

/// Number of searches for a load that overloads the DUT before the rebuild fails.
const OVERLOAD_LOOKS: u32 = 6;

/// A DUT that is compared with the reference and the control.
pub(super) struct ComparedDut<'a> {
    /// Its test case.
    pub case: usize,
    /// Its description in records, with the value that a sweep sets on it.
    pub compared: Compared,
    pub configuration: Option<&'a Configuration>,
}

/// DUTs side by side: the reference, the same again as A/A control, and the DUTs that are compared
/// with them. It is rebuilt again and again.
pub(super) struct Row<'a> {
    /// Parameters with the stream of all DUTs.
    parameters: Arc<Parameters>,
    /// Name of its test cases.
    name: String,
    /// What is applied to the reference and to the control, and their descriptions in records.
    reference: (Option<&'a Configuration>, [Compared; CONTROLS]),
    beside: Vec<ComparedDut<'a>>,
    swept: Option<&'a SweptParameter>,
    random: Random,
    /// The intended load, once it is known: the same in all rebuilds.
    pub load: Option<f64>,
    /// Length of the slices of the next rebuild.
    slice: Duration,
    built: u32,
    /// The DUT that could not be configured, if that made the rebuild fail.
    pub failed: Option<usize>,
}

impl<'a> Row<'a> {
    pub fn new(
        parameters: Parameters,
        name: &str,
        reference: (Option<&'a Configuration>, [Compared; CONTROLS]),
        beside: Vec<ComparedDut<'a>>,
        swept: Option<&'a SweptParameter>,
    ) -> Row<'a> {
        Row {
            random: Random::new(parameters.seed),
            parameters: Arc::new(parameters),
            name: name.to_owned(),
            reference,
            beside,
            swept,
            load: None,
            slice: SLICE,
            built: 0,
            failed: None,
        }
    }

    /// Continues after its rebuilds from before the run was interrupted, at this load.
    pub fn resume(&mut self, rebuilds: &[RebuildRecord], load: Option<f64>) {
        let mut names = Vec::from(&self.reference.1);
        names.extend(self.beside.iter().map(|dut| dut.compared.clone()));
        let is_of_row = |record: &&RebuildRecord| {
            let mut compared = record.compared.iter();
            compared.any(|dut| names.iter().any(|own| own.test_case == dut.test_case))
        };
        (self.built, self.load) = (rebuilds.iter().filter(is_of_row).count() as u32, load);
    }

    fn stream(&self) -> &Stream {
        &self.parameters.streams[0]
    }

    /// Returns the number of DUTs.
    pub fn duts(&self) -> usize {
        CONTROLS + self.beside.len()
    }

    /// Returns its test cases; with a sweep each has several DUTs.
    pub fn cases(&self) -> impl Iterator<Item = usize> {
        let mut last = None;
        let all = self.beside.iter().map(|dut| dut.case);
        all.filter(move |case| last.replace(*case) != Some(*case))
    }

    /// Removes the test case of this DUT, with all of its DUTs. Returns `None` for the reference
    /// and the control, which belong to no test case.
    pub fn leave(&mut self, dut: usize) -> Option<usize> {
        let case = self.beside.get(dut.checked_sub(CONTROLS)?)?.case;
        self.beside.retain(|dut| dut.case != case);
        Some(case)
    }

    fn name_of(&self, configuration: usize) -> String {
        let compared = match configuration {
            0 => return "plain".into(),
            1 => return "control".into(),
            other => &self.beside[other - CONTROLS].compared,
        };
        match &compared.setting {
            Some((parameter, value)) => format!("{}, {value} {parameter}", compared.configuration),
            None => compared.configuration.clone(),
        }
    }

    /// Builds everything, and measures slices for the time that `slices` returns, given the time
    /// that building took.
    pub fn rebuild(
        &mut self,
        slices: &mut dyn FnMut(Duration) -> Duration,
        stop: &Control,
        run: &mut Run<'_>,
    ) -> Result<RebuildRecord, LabError> {
        let (started, started_at) = (Instant::now(), timestamp());
        let (parameters, configurations) = (self.parameters.clone(), self.duts());
        let stream = &parameters.streams[0];
        let places = places(configurations, self.built as usize);
        let bed = parameters.bed(configurations)?;
        let (mut tester, words) = open_tester(&bed, &parameters)?;
        if !run.has_bed {
            run.bed_ready(&bed, &words)?;
        }
        let pps = match self.load {
            Some(pps) => pps,
            None => {
                let found = intended(&parameters, stream, &bed, tester.as_mut(), stop)?;
                run.record_event(EventKind::LoadFound {
                    of: self.name.clone(),
                    load_pps: Some(found),
                    source: match parameters.load {
                        Some(_) => "as requested".into(),
                        None => "overload".into(),
                    },
                    loses_inside: false,
                })?;
                *self.load.insert(found)
            }
        };
        for (place, &configuration) in places.iter().enumerate() {
            self.configure(&bed, place, configuration, tester.as_mut(), stop, run)
                .inspect_err(|_| self.failed = Some(configuration))?;
        }
        let mut bench = Bench::new(&bed, tester.as_mut(), &parameters.placement, stop);
        let random = &mut self.random;
        let mut order = || mirrored(configurations, random);
        let counted = bench.slices(
            stream,
            pps,
            (self.slice, slices(started.elapsed())),
            &mut order,
            &places,
        );
        let (blocks, counted) = match counted {
            Err(error @ LabError::Disturbed { .. }) => (
                Vec::new(),
                Counted::link_down(configurations, error.to_string()),
            ),
            counted => counted?,
        };
        drop(tester);
        drop(bed);
        self.built += 1;
        let result = rebuild(configurations, &blocks, pps);
        let mut record = self.record(started_at, &places, &result, &counted);
        record
            .validity
            .reasons
            .extend(self.raise_load(&result, pps));
        self.slice = next_slice(self.slice, &result);
        run.writer.trial(&record)?;
        run.record_event(EventKind::RebuildFinished {
            record: Box::new(record.clone()),
        })?;
        Ok(record)
    }

    /// Raises the load if a DUT forwards nearly all of it: only overloaded DUTs are compared, so
    /// that the rebuild is invalid. Returns the reason. A requested load is not changed.
    fn raise_load(&mut self, result: &Rebuild, pps: f64) -> Option<String> {
        if self.parameters.load.is_some() {
            return None;
        }
        let (fastest, rate) = not_overloaded(pps, &result.rates_pps)?;
        let more = self
            .parameters
            .within_line(Some(SURPLUS * rate), self.stream());
        self.load = more.or(self.load);
        Some(format!(
            "{}: {rate:.0} of {pps:.0} frames/s came out, so it was not overloaded",
            self.name_of(fastest)
        ))
    }

    /// Configures a DUT for its role in this comparison.
    fn configure(
        &self,
        bed: &Bed,
        place: usize,
        configuration: usize,
        tester: &mut dyn Rig,
        stop: &Control,
        run: &mut Run<'_>,
    ) -> Result<(), LabError> {
        let beside = configuration
            .checked_sub(CONTROLS)
            .map(|index| &self.beside[index]);
        let own = match beside {
            Some(beside) => beside.configuration,
            None => self.reference.0,
        };
        if let Some(requested) = own {
            configure(bed, place, tester, self.stream(), requested, stop, run)?;
        }
        let setting = beside.and_then(|beside| beside.compared.setting.as_ref());
        if let (Some((parameter, value)), Some(swept)) = (setting, self.swept) {
            let mut setting = Setting::new(parameter, swept.clone());
            let dut = bed.dut(place).as_ref();
            setting.set(dut, self.stream().ip_version, *value, stop)?;
            let with = format!("{value} {parameter}");
            does_forward(bed, place, tester, self.stream(), &with)?;
        }
        Ok(())
    }

    fn record(
        &self,
        started_at: String,
        places: &[usize],
        result: &Rebuild,
        counted: &Counted,
    ) -> RebuildRecord {
        let mut reasons = counted.objections.clone();
        let mut ledgers = vec![Default::default(); places.len()];
        for (place, &configuration) in places.iter().enumerate() {
            let counters = &counted.counters[place];
            let ledger = balance(counters, None);
            for reason in objections(&ledger, counters) {
                reasons.push(format!("{}: {reason}", self.name_of(configuration)));
            }
            ledgers[configuration] = ledger;
        }
        RebuildRecord {
            rebuild: self.built,
            started_at,
            compared: {
                let beside = self.beside.iter().map(|dut| &dut.compared);
                self.reference.1.iter().chain(beside).cloned().collect()
            },
            places: places.iter().map(|&c| c as u32).collect(),
            blocks: result.blocks as u32,
            blocks_not_offered: result.not_offered as u32,
            slice_s: Some(self.slice.as_secs_f64()),
            forwarding_rate_pps: result.rates_pps.clone(),
            difference_percent: result
                .ln_ratios
                .iter()
                .map(|ln| 100.0 * ln.exp_m1())
                .collect(),
            frames_sent: ledgers.iter().map(|l| l.frames_sent).sum(),
            frames_received: ledgers.iter().map(|l| l.frames_received).sum(),
            ledgers,
            validity: Validity { reasons },
        }
    }
}

/// Returns the intended load in frames per second: the requested one, else 1.6 times what the plain
/// DUT forwards.
fn intended(
    parameters: &Parameters,
    stream: &Stream,
    bed: &Bed,
    tester: &mut dyn Rig,
    stop: &Control,
) -> Result<f64, LabError> {
    let requested = (parameters.load).map_or(Ok(None), |load| parameters.load_pps(load, stream));
    if let Some(pps) = requested.map_err(LabError::Preflight)? {
        return Ok(pps);
    }
    let mut bench = Bench::new(bed, tester, &parameters.placement, stop);
    // on a busy host the generator may not reach its maximum
    for _ in 0..OVERLOAD_LOOKS {
        if let Some(pps) = bench.overload(stream)?.load_pps {
            return match (parameters.within_line(Some(pps), stream), parameters.line) {
                (Some(most), Some(line)) if most < pps => Err(LabError::Preflight(format!(
                    "a comparison needs overload, {pps:.0} frames per second of this DUT, and the {line} carries {most:.0}. \
                     --load 100% forces a load below saturation, but it shows no difference"
                ))),
                _ => Ok(pps),
            };
        }
    }
    Err(LabError::Preflight(
            "the generator cannot overload this DUT, and a comparison needs overload. If other processes take the generator's CPU, try \
             again when they have ended, or count instructions, which they do not change: fwdlab quick --vm IMAGE --vs ... \
             (--load 500kpps forces a load below saturation, but it shows no difference)".into(),
    ))
}
