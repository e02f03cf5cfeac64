//! Converts a run to values to compare: one series per test case, metric and configuration.
//!
//! Invalid records and A/A controls are omitted, the former counted; nothing is averaged or judged.
//! Start with [`StoredRun::series`].

use std::collections::BTreeMap;

use fwdlab_model::event::{Compared, RebuildRecord};
use fwdlab_model::facts::EMULATOR;
use fwdlab_model::import::ImportedRecord;
use fwdlab_model::instructions::{BURST, Exact, GENERATOR};
use fwdlab_model::outcome::{Found, Maxfwd, Outcome, Unit};
use fwdlab_model::result::{RunInfo, SHARDS, ShardRun, Summary, TrialRecord};
use fwdlab_model::series::{
    FORWARDING_RATE, FORWARDING_RATE_LEGACY, FORWARDING_RATE_UNGATED, SENDERS, Series, Turns,
    metric,
};
use fwdlab_model::test_case::{CaseFigure, Iteration, TestCase};
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::variant::Variant;
use serde::Deserialize;
use serde_json::Value;

use crate::read::StoredRun;

/// The configuration of a DUT without changes.
const PLAIN: &str = "plain";

/// The procedure whose figures refer to one state of the machine.
const MAXFWD: &str = "maxfwd";

type Labels = BTreeMap<String, String>;

impl StoredRun {
    /// Returns all series of the run, in the order of their first values.
    ///
    /// Test cases give one per figure, with a value for every iteration: the trials behind it are
    /// evidence for a figure and not samples. Rebuilds of slices give one per configuration,
    /// imported records one per test case and metric, and a run of windows without a result, one
    /// from its trials. A series without a valid value is returned, too: it contains the number of
    /// omitted records.
    pub fn series(&self) -> Vec<Series> {
        let mut all = Collection::default();
        let is_sample =
            |t: &&TrialRecord| !t.control && t.asked.is_none() && self.summary.is_none();
        for trial in self.trials.iter().filter(is_sample) {
            self.add_trial(trial, &mut all);
        }
        self.add_figures(&mut all);
        all.series.extend(self.of_rebuilds());
        all.series.extend(self.of_rows());
        self.add_imported(&mut all);
        let noise = self.summary.as_ref().map(|summary| &summary.noise);
        if let Some(noise) = noise.filter(|noise| noise.too_noisy) {
            let reason = match noise.doubts.is_empty() {
                true => noise.verdict.clone(),
                false => noise.doubts.join("; "),
            };
            for series in &mut all.series {
                series.doubt.get_or_insert_with(|| reason.clone());
            }
        }
        all.series
    }

    fn add_trial(&self, trial: &TrialRecord, all: &mut Collection) {
        let mut labels = run_labels(&self.info);
        labels.insert("procedure".into(), trial.procedure.clone());
        labels.insert("engine".into(), trial.engine.clone());
        let configuration = parameter(&self.info, "configuration");
        labels.insert(
            "configuration".into(),
            configuration.unwrap_or_else(|| PLAIN.into()),
        );
        add_stream(&mut labels, &trial.stream);
        for (metric, value) in [
            (FORWARDING_RATE, trial.forwarding_rate_pps),
            (FORWARDING_RATE_UNGATED, trial.forwarding_rate_ungated_pps),
        ] {
            let value = value.filter(|_| trial.validity.is_valid());
            let series = all.series_mut(&trial.test_case, &labels, metric, Unit::FramesPerSecond);
            add(series, value);
            series.iterations.extend(value.map(|_| trial.iteration));
            series.generator_limited += u32::from(trial.not_saturated && value.is_some());
            if metric == FORWARDING_RATE {
                series.state = self.info.facts.states.first().cloned();
            }
        }
    }

    /// Adds the results, figure by figure.
    fn add_figures(&self, all: &mut Collection) {
        let Some(summary) = &self.summary else {
            return;
        };
        for case in &summary.test_cases {
            let labels = self.case_labels(summary, case);
            let test_case = case.case.variant.id(&case.case.stream);
            for figure in &case.figures {
                let has = |outcome: &&Outcome| {
                    let mut own = outcome.figures().into_iter();
                    own.any(|one| one.name == figure.name)
                };
                let of = case.outcomes.iter().find(has);
                let procedure = of.map_or(summary.procedure.as_str(), |of| of.found.procedure());
                let labels = with(labels.clone(), "procedure", procedure.into());
                let series =
                    all.series_mut(&test_case, &labels, &metric(&figure.name), figure.unit);
                series.better = figure.better;
                let values = figure.values.iter();
                values.for_each(|value| add(series, Some(*value)));
                series.left_out += case.failures().count() as u32;
                series.generator_limited += figure.generator_limited;
                series.iterations = iterations_of(case, figure);
                series.mean_half_width = figure.interval_half_width;
                series.doubt.clone_from(&case.doubt);
                if let Some(Found::Exact(found)) = of.map(|of| &of.found) {
                    series.half_width = Some(found.half_width());
                    series.frame_loss_ratio = found.frame_loss_ratio;
                    series.functions = found.profile();
                }
            }
            self.add_windows(case, &test_case, labels, all);
        }
    }

    /// Returns the test cases that failed and have no figure at all, each as a series without a
    /// metric. Nothing can be compared with them, so that [`StoredRun::series`] leaves them out.
    pub fn without_figures(&self) -> Vec<Series> {
        let has_none =
            |case: &&TestCase| case.figures.is_empty() && case.failures().next().is_some();
        let cases = self.summary.iter().flat_map(|summary| {
            let cases = summary.test_cases.iter().filter(has_none);
            cases.map(move |case| (summary, case))
        });
        let series = cases.map(|(summary, case)| Series {
            test_case: case.case.variant.id(&case.case.stream),
            labels: self.case_labels(summary, case),
            left_out: case.failures().count() as u32,
            doubt: case.doubt.clone(),
            ..Series::default()
        });
        series.collect()
    }

    fn case_labels(&self, summary: &Summary, case: &TestCase) -> Labels {
        let mut labels = self.figure_labels(&case.case.stream, &case.case.variant);
        labels.insert("configuration".into(), case.case.configuration.clone());
        // if all are Linux, as in all old runs, the label is useless
        if (summary.test_cases.iter()).any(|case| !case.case.dut.is_linux()) {
            labels.insert("dut_kind".into(), case.case.dut.to_string());
        }
        if let Some(image) = &case.case.image {
            labels.insert("image".into(), image.clone());
            // the kernel of the DUT, and not that of the host which emulated it
            labels.remove("kernel");
            if let Some(found) = exact_of(case) {
                labels.insert("kernel".into(), found.kernel.clone());
                labels.insert(BURST.into(), format!("{} frames", found.frames));
                if let Some(generator) = found.generator {
                    labels.insert(GENERATOR.into(), generator.to_string());
                }
            }
        }
        labels
    }

    /// Adds what windows have besides their figure: the state of the machine, and the rate of all
    /// windows.
    fn add_windows(&self, case: &TestCase, name: &str, labels: Labels, all: &mut Collection) {
        let labels = with(labels, "procedure", MAXFWD.into());
        let windows = |outcome: &Outcome| outcome.found.get().cloned();
        let outcomes = case.iterations.iter().flat_map(|one| &one.outcomes);
        let each: Vec<Maxfwd> = outcomes.filter_map(windows).collect();
        if each.is_empty() && case.windows().is_none() {
            return;
        }
        let rate = Unit::FramesPerSecond;
        let series = all.series_mut(name, &labels, FORWARDING_RATE, rate);
        series.state = self.info.facts.states.first().cloned();
        series.doubt.clone_from(&case.doubt);
        if series.values.is_empty() {
            series.left_out = case.failures().count() as u32;
        }
        let series = all.series_mut(name, &labels, FORWARDING_RATE_UNGATED, rate);
        series.doubt.clone_from(&case.doubt);
        let ungated = each
            .iter()
            .filter_map(|one| one.forwarding_rate_ungated_pps);
        ungated.for_each(|value| add(series, Some(value)));
        series.left_out += (case.iterations.len() - series.values.len()) as u32;
    }

    fn figure_labels(&self, stream: &Stream, variant: &Variant) -> Labels {
        let mut labels = run_labels(&self.info);
        if let Some(trial) = self.trials.first() {
            labels.insert("engine".into(), trial.engine.clone());
        }
        add_stream(&mut labels, stream);
        if !variant.is_plain() {
            labels.insert("series".into(), variant.id(stream));
        }
        if let Some(profile) = &variant.profile {
            labels.insert("profile".into(), profile.clone());
        }
        self.add_shard(&mut labels, variant.shard);
        labels
    }

    /// Adds where a shard of this joined run was measured.
    fn add_shard(&self, labels: &mut Labels, shard: Option<u32>) {
        let Some(shard) = shard else { return };
        labels.insert("shard".into(), shard.to_string());
        let parts = self.info.parameters.get(SHARDS).and_then(Value::as_array);
        let parts = parts.into_iter().flatten();
        let mut parts = parts.filter_map(|part| ShardRun::deserialize(part).ok());
        if let Some(part) = parts.find(|part| part.shard == shard) {
            let kernel = ("kernel", part.kernel);
            let all = [
                kernel,
                ("cpu_model", part.cpu_model),
                ("test_bed", part.test_bed.unwrap_or_default()),
            ];
            for (name, value) in all {
                match value.is_empty() {
                    true => labels.remove(name),
                    false => labels.insert(name.into(), value),
                };
            }
        }
    }

    /// Returns the test case that a rebuild is an iteration of.
    fn case_of(&self, rebuild: &RebuildRecord) -> Option<&TestCase> {
        let mut cases = self.summary.iter().flat_map(|summary| &summary.test_cases);
        let made = |one: &Iteration| one.trials.contains(&rebuild.rebuild);
        cases.find(|case| case.iterations.iter().any(made))
    }

    /// Returns the rebuilds of a campaign, which contain what they compared.
    fn of_rows(&self) -> Vec<Series> {
        let mut rows: Vec<&[Compared]> = Vec::new();
        for rebuild in self.rebuilds.iter().filter(|r| !r.compared.is_empty()) {
            if !rows.contains(&&rebuild.compared[..]) {
                rows.push(&rebuild.compared);
            }
        }
        let series = rows.into_iter().flat_map(|row| {
            let rebuilds = move || self.rebuilds.iter().filter(move |r| r.compared == row);
            // a test case that is the reference again is another control: with two series of one
            // configuration, rebuilds could not be paired
            let is_new = |(index, dut): &(usize, &Compared)| {
                let same = |other: &Compared| {
                    (&other.configuration, &other.setting) == (&dut.configuration, &dut.setting)
                };
                !dut.control && !row[..*index].iter().any(same)
            };
            let duts = row.iter().enumerate().filter(is_new);
            duts.map(move |(index, dut)| {
                let mut labels = run_labels(&self.info);
                labels.insert("procedure".into(), "paired".into());
                labels.insert("configuration".into(), dut.configuration.clone());
                if let Some(common) = parameter(&self.info, "configuration") {
                    // What --set applied to every DUT of the run.
                    labels.insert("set".into(), common);
                }
                add_stream(&mut labels, &dut.stream);
                if let Some((parameter, value)) = &dut.setting {
                    labels.insert(parameter.clone(), value.to_string());
                }
                let of_row = rebuilds().next().and_then(|first| self.case_of(first));
                self.add_shard(&mut labels, of_row.and_then(|case| case.case.variant.shard));
                let mut series = self.in_turns(&dut.stream.id(), labels, index, rebuilds());
                series.doubt = of_row.and_then(|case| case.doubt.clone());
                series
            })
        });
        series.collect()
    }

    fn of_rebuilds(&self) -> Vec<Series> {
        let of_command = self.rebuilds.iter().filter(|r| r.compared.is_empty());
        let configurations = of_command.map(|r| r.forwarding_rate_pps.len());
        let Some(configurations) = configurations.max().filter(|n| *n > 0) else {
            return Vec::new();
        };
        let versus = parameter_list(&self.info, "versus");
        // Index 0 is the plain DUT, then come A/A controls, then the requested ones.
        let first = configurations.saturating_sub(versus.len()).max(1);
        let names =
            std::iter::once((0, PLAIN)).chain((first..).zip(versus.iter().map(String::as_str)));
        names
            .map(|(index, name)| self.of_configuration(index, name))
            .collect()
    }

    fn of_configuration(&self, index: usize, name: &str) -> Series {
        let mut labels = run_labels(&self.info);
        labels.insert("procedure".into(), "paired".into());
        labels.insert("configuration".into(), name.to_owned());
        if let Some(common) = parameter(&self.info, "configuration") {
            // What --set applied to every DUT of the run.
            labels.insert("set".into(), common);
        }
        let cases = parameter_list(&self.info, "test_cases");
        let test_case = cases.first().cloned().unwrap_or_default();
        add_case(&mut labels, &test_case);
        self.in_turns(&test_case, labels, index, self.rebuilds.iter())
    }

    /// Returns the forwarding rates of a DUT in these rebuilds, in turns with those of the others.
    fn in_turns<'a>(
        &self,
        test_case: &str,
        labels: Labels,
        index: usize,
        rebuilds: impl Iterator<Item = &'a RebuildRecord>,
    ) -> Series {
        let mut series = Series {
            test_case: test_case.to_owned(),
            labels,
            metric: FORWARDING_RATE.into(),
            unit: Unit::FramesPerSecond.symbol().into(),
            ..Series::default()
        };
        let mut turns = Turns {
            // DUTs under other traffic were in another row
            run: format!("{}/{test_case}", self.info.id),
            rebuilds: Vec::new(),
            ln_ratios: Vec::new(),
        };
        for rebuild in rebuilds {
            let value = value_of(rebuild, index);
            add(&mut series, value.map(|(rate, _)| rate));
            if let Some((_, ln_ratio)) = value {
                series.iterations.push(rebuild.rebuild);
                turns.rebuilds.push(rebuild.rebuild);
                turns.ln_ratios.push(ln_ratio);
            }
        }
        series.turns = Some(turns);
        series
    }

    fn add_imported(&self, all: &mut Collection) {
        let mut cases: BTreeMap<(&str, &Labels), Vec<&ImportedRecord>> = BTreeMap::new();
        for record in &self.imported {
            let case = cases.entry((&record.test_case, &record.labels));
            case.or_default().push(record);
        }
        // What a sender's log lacks in one run may be in that of another.
        let labels_of: BTreeMap<_, Labels> = cases
            .into_iter()
            .map(|(case, records)| (case, self.imported_labels(&records)))
            .collect();
        for record in &self.imported {
            let Some(labels) = labels_of.get(&(record.test_case.as_str(), &record.labels)) else {
                continue;
            };
            for (metric, value) in [
                (FORWARDING_RATE, record.forwarding_rate_pps),
                (FORWARDING_RATE_LEGACY, record.forwarding_rate_legacy_pps),
            ] {
                let value = value.filter(|_| record.validity.is_valid());
                let rate = Unit::FramesPerSecond;
                let series = all.series_mut(&record.test_case, labels, metric, rate);
                add(series, value);
                series.iterations.extend(value.map(|_| record.iteration));
            }
        }
    }

    /// Returns the labels of a test case of an archive: its own, and what its senders' command
    /// lines agree on.
    fn imported_labels(&self, records: &[&ImportedRecord]) -> Labels {
        let mut labels = records
            .first()
            .map(|r| r.labels.clone())
            .unwrap_or_default();
        let mut label = |key: &str, of: &dyn Fn(&ImportedRecord) -> Option<String>| {
            let mut values = records.iter().filter_map(|record| of(record));
            if let Some(value) = values.next().filter(|first| values.all(|v| v == *first)) {
                labels.insert(key.to_owned(), value);
            }
        };
        label("run", &|_| Some(self.info.id.clone()));
        label("frame_size_bytes", &|r| {
            r.frame_size_bytes.map(|v| v.to_string())
        });
        label("flows", &|r| r.flows.map(|v| v.to_string()));
        label("ip_version", &|r| r.ip_version.map(ip_version));
        labels
    }
}

/// Returns the rate of a configuration in a rebuild and its logarithm relative to that of the plain
/// DUT, if the rebuild may be used.
fn value_of(rebuild: &RebuildRecord, index: usize) -> Option<(f64, f64)> {
    let rate = *rebuild.forwarding_rate_pps.get(index)?;
    let difference_percent = *rebuild.difference_percent.get(index)?;
    let ln_ratio = (difference_percent / 100.0).ln_1p();
    let usable = rebuild.validity.is_valid() && rate.is_finite() && ln_ratio.is_finite();
    usable.then_some((rate, ln_ratio))
}

/// Series in the order of their first records, with an index.
#[derive(Default)]
struct Collection {
    series: Vec<Series>,
    index: BTreeMap<(String, String, Labels), usize>,
}

impl Collection {
    /// Returns the series with this test case, labels and metric; creates it for its first record.
    fn series_mut(
        &mut self,
        test_case: &str,
        labels: &Labels,
        metric: &str,
        unit: Unit,
    ) -> &mut Series {
        let key = (metric.to_owned(), test_case.to_owned(), labels.clone());
        let index = *self.index.entry(key).or_insert_with(|| {
            self.series.push(Series {
                test_case: test_case.to_owned(),
                labels: labels.clone(),
                metric: metric.to_owned(),
                unit: unit.symbol().to_owned(),
                ..Series::default()
            });
            self.series.len() - 1
        });
        &mut self.series[index]
    }
}

/// Returns the iterations of the values of a figure, as the result collected them; none if the
/// iterations have other values. Iterations that were read without their outcomes have one value
/// each ([`crate::upgrade::figures`]).
fn iterations_of(case: &TestCase, figure: &CaseFigure) -> Vec<u32> {
    let mut iterations = case.iterations.iter();
    if iterations.all(|one| one.outcomes.is_empty() && one.failure.is_none()) {
        let numbers = case.iterations.iter().map(|one| one.iteration);
        let is_each = case.iterations.len() == figure.values.len();
        return numbers.filter(|_| is_each).collect();
    }
    let each = case.iterations.iter().flat_map(|one| {
        let figures = one.outcomes.iter().flat_map(Outcome::figures);
        let own = figures.filter(|own| own.name == figure.name && own.unit == figure.unit);
        own.map(|own| (one.iteration, own.value))
    });
    let (iterations, values): (Vec<u32>, Vec<f64>) = each.unzip();
    match values == figure.values {
        true => iterations,
        false => Vec::new(),
    }
}

/// Returns the kernel of an image.
fn exact_of(case: &TestCase) -> Option<&Exact> {
    case.outcomes.iter().find_map(|outcome| outcome.found.get())
}

fn with(mut labels: Labels, key: &str, value: String) -> Labels {
    labels.insert(key.to_owned(), value);
    labels
}

fn add(series: &mut Series, value: Option<f64>) {
    match value.filter(|value| value.is_finite()) {
        Some(value) => series.values.push(value),
        None => series.left_out += 1,
    }
}

/// Returns the labels that all series of one of our runs share.
fn run_labels(info: &RunInfo) -> Labels {
    let mut labels = Labels::from([("run".to_owned(), info.id.clone())]);
    let mut label = |key: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            labels.insert(key.to_owned(), value);
        }
    };
    label("kernel", Some(info.facts.kernel.clone()));
    label("cpu_model", Some(info.facts.cpu_model.clone()));
    label("load", parameter(info, "load"));
    // runs record the number only of several senders
    let senders = info.parameters.get(SENDERS).map(Value::to_string);
    let is_sent = info.parameters.contains_key("generator_cpus");
    label(SENDERS, senders.or(is_sent.then(|| "1".into())));
    label("dut", parameter(info, "dut"));
    label(EMULATOR, info.facts.placement.get(EMULATOR).cloned());
    // from a timestamp of RFC 3339
    let date = info.started_at.split('T').next();
    label("date", date.map(str::to_owned));
    labels
}

fn add_stream(labels: &mut Labels, stream: &Stream) {
    let size = stream.frame_size_bytes.to_string();
    labels.insert("frame_size_bytes".into(), size);
    labels.insert("flows".into(), stream.flows.to_string());
    labels.insert("ip_version".into(), ip_version(stream.ip_version));
}

/// Adds labels from the name of a test case, [`Stream::id`], because a rebuild does not contain its
/// stream.
fn add_case(labels: &mut Labels, test_case: &str) {
    let mut parts = test_case.split('-');
    let mut part = |key: &str, suffixes: &[&str]| {
        let text = parts.next().unwrap_or_default();
        if let Some(value) = suffixes.iter().find_map(|s| text.strip_suffix(s)) {
            labels.insert(key.to_owned(), value.to_owned());
        }
    };
    part("frame_size_bytes", &["B"]);
    part("flows", &["flows", "flow"]);
    part("ip_version", &[""]);
}

fn ip_version(version: IpVersion) -> String {
    version.to_string().to_lowercase()
}

fn parameter(info: &RunInfo, name: &str) -> Option<String> {
    info.parameters.get(name)?.as_str().map(str::to_owned)
}

fn parameter_list(info: &RunInfo, name: &str) -> Vec<String> {
    let list = info.parameters.get(name).and_then(|value| value.as_array());
    let texts = list.into_iter().flatten().filter_map(|v| v.as_str());
    texts.map(str::to_owned).collect()
}
