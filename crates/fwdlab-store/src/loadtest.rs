//! Imports TRex load tests as one run: every file and channel is a test case, a ramp with the
//! figures of the public viewer.
//!
//! The files are kept unchanged; everything derived is a function of their bytes ([`summary`]).
//! `fwdlab_model::loadtest` defines their format and the viewer's arithmetic. Start with
//! [`import`].

use std::path::{Path, PathBuf};

use fwdlab_model::campaign::Case;
use fwdlab_model::facts::Facts;
use fwdlab_model::loadtest::{Channel, KIND, LoadTest, LoadTestError, Performance, performance};
use fwdlab_model::outcome::{Better, Compliance, Edge, Found, Outcome, Ramp, Unit};
use fwdlab_model::procedure::Interval;
use fwdlab_model::result::{Noise, RunInfo, RunState, Summary};
use fwdlab_model::test_case::{CaseFigure, Iteration, TestCase};
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;
use fwdlab_model::variant::Variant;
use fwdlab_model::version::RUN_FORMAT;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::error::StoreError;
use crate::files::file_name_of;
use crate::id::RunId;
use crate::run_dir::{RunWriter, publish};

/// Maximum characters of a title in an id.
const LONGEST: usize = 40;

/// A second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Options of an import.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    /// The directory of runs.
    pub runs: &'a Path,
    /// Title of the run.
    pub title: &'a str,
    /// Only these channels; empty: both.
    pub channels: &'a [Channel],
    /// The share of lost frames above which a second failed.
    pub fail_threshold: f64,
    /// Version of the program.
    pub tool_version: &'a str,
    /// The command line.
    pub command_line: &'a [String],
    /// Source of the random characters of the id.
    pub entropy: u64,
}

/// A file with its name, which is the name of the test.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    /// Its name without `.json`.
    pub name: String,
    /// Its unchanged contents.
    pub bytes: Vec<u8>,
    /// Its parsed contents.
    pub test: LoadTest,
}

impl File {
    /// Parses a file with this name.
    ///
    /// # Errors
    /// If it is not a load test.
    pub fn new(name: &str, bytes: Vec<u8>) -> Result<File, LoadTestError> {
        let test = LoadTest::parse(&bytes)?;
        let name = name.strip_suffix(".json").unwrap_or(name).to_owned();
        Ok(File { name, bytes, test })
    }
}

/// Stores a run of these files. `render` makes its report.
///
/// # Errors
/// [`StoreError`]: the run could not be stored.
pub fn import(
    options: &Options<'_>,
    files: &[File],
    render: &dyn Fn(&RunInfo, &Summary) -> String,
) -> Result<PathBuf, StoreError> {
    let now = Timestamp::now();
    let mut entropy = options.entropy;
    let (mut staged, mut info) = loop {
        let id = RunId::free(
            options.runs,
            now,
            &format!("{KIND}-{}", in_id(options.title)),
            entropy,
        );
        let info = head(options, files, id.as_str(), now);
        match RunWriter::stage(options.runs, &info) {
            Ok(staged) => break (staged, info),
            Err(StoreError::IdTaken { .. }) => entropy = entropy.wrapping_add(1),
            Err(error) => return Err(error),
        }
    };
    for (n, file) in (1..).zip(files) {
        // files of the same name from two directories are two inputs
        let name = format!("{n}-{}.json", file_name_of(&file.name));
        staged.writer().input(&name, &file.bytes)?;
    }
    info.state = RunState::Finished;
    info.finished_at = Some(Timestamp::now().to_string());
    let found = summary(&info.id, files, options.channels, options.fail_threshold);
    staged.finish(&info, &found, &render(&info, &found))?;
    let mut all = publish(options.runs, vec![staged]);
    all.pop().expect("one result per run")
}

/// Converts a title to the end of an id: its letters and digits, the rest `-`.
fn in_id(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let mut name = words.join("-").to_lowercase();
    name.truncate(LONGEST);
    match name.trim_end_matches('-') {
        "" => "untitled".into(),
        name => name.to_owned(),
    }
}

fn head(options: &Options<'_>, files: &[File], id: &str, now: Timestamp) -> RunInfo {
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let channels: Vec<u32> = options
        .channels
        .iter()
        .map(|channel| channel.number())
        .collect();
    let mut parameters: std::collections::BTreeMap<String, Value> = [
        ("title".to_owned(), json!(options.title)),
        ("files".to_owned(), json!(names)),
        ("fail_threshold".to_owned(), json!(options.fail_threshold)),
    ]
    .into();
    if !channels.is_empty() {
        parameters.insert("only_channels".into(), json!(channels));
    }
    // the configuration that the viewer prints above its tables: that of the first file
    for key in fwdlab_model::loadtest::CONFIGURATION {
        let value = files.first().and_then(|file| file.test.vars.get(key));
        parameters.extend(value.map(|value| (key.to_owned(), value.clone())));
    }
    RunInfo {
        format: RUN_FORMAT,
        id: id.to_owned(),
        kind: KIND.to_owned(),
        tool_version: options.tool_version.to_owned(),
        command_line: options.command_line.to_vec(),
        seed: 0,
        started_at: now.to_string(),
        finished_at: None,
        state: RunState::Running,
        gaps: Vec::new(),
        error: None,
        note: None,
        parameters,
        facts: Facts {
            engine: "TRex".into(),
            ..Facts::default()
        },
    }
}

/// Returns the result of load tests: one test case per file and channel, ordered by the largest
/// share of the link, as in the viewer.
pub fn summary(run: &str, files: &[File], channels: &[Channel], fail_threshold: f64) -> Summary {
    let requested = |channel: &Channel| channels.is_empty() || channels.contains(channel);
    let share =
        |file: &File, channel| performance(&file.test, channel, fail_threshold).max_line_percent;
    let mut sorted: Vec<&File> = files.iter().collect();
    sorted.sort_by(|a, b| {
        let of = |file: &File| Channel::ALL.map(|channel| share(file, channel));
        let (a_shares, b_shares) = (of(a), of(b));
        let by_share = b_shares[0]
            .total_cmp(&a_shares[0])
            .then(b_shares[1].total_cmp(&a_shares[1]));
        a.test.profile().cmp(&b.test.profile()).then(by_share)
    });
    let mut warnings = Vec::new();
    let configuration = |file: &File| {
        fwdlab_model::loadtest::CONFIGURATION.map(|key| file.test.vars.get(key).cloned())
    };
    if let Some((first, rest)) = files.split_first() {
        if rest
            .iter()
            .any(|file| configuration(file) != configuration(first))
        {
            warnings.push("the files made their loads differently (warm-up, target, durations): seconds do not match".into());
        }
        if rest
            .iter()
            .any(|file| file.test.stats.0.len() != first.test.stats.0.len())
        {
            warnings.push("the files have different numbers of seconds".into());
        }
    }
    for file in files {
        if Channel::ALL
            .into_iter()
            .filter(requested)
            .all(|channel| file.test.is_silent(channel))
        {
            warnings.push(format!("{}: nothing was sent", file.name));
        }
        for channel in Channel::ALL.into_iter().filter(requested) {
            let doubled = file.test.doubled(channel);
            if let Some(first) = doubled.first() {
                warnings.push(format!(
                    "{} {channel}: in {} of {} seconds (the first at {first} s) at least twice as many frames were received as sent: \
                     these are not the counters of one router",
                    file.name,
                    doubled.len(),
                    file.test.stats.0.len()
                ));
            }
        }
    }
    let cases = sorted.into_iter().flat_map(|file| {
        let own = Channel::ALL.into_iter().filter(requested);
        let own = own.filter(|channel| !file.test.is_silent(*channel));
        own.map(|channel| case(file, channel, fail_threshold))
            .collect::<Vec<_>>()
    });
    Summary {
        format: RUN_FORMAT,
        run: run.to_owned(),
        procedure: KIND.to_owned(),
        test_cases: cases.collect(),
        control: None,
        imported: Vec::new(),
        noise: Noise {
            verdict: "not judged: a load test of TRex contains nothing about its machine".into(),
            not_judged: true,
            ..Noise::default()
        },
        warnings,
        thresholds: Vec::new(),
        imix_estimate_l2_bps: None,
    }
}

fn case(file: &File, channel: Channel, fail_threshold: f64) -> TestCase {
    let found = performance(&file.test, channel, fail_threshold);
    let samples = samples(&file.test, channel);
    let rates: Vec<(&str, f64)> = vec![
        ("loss begins", found.max_ok_pps),
        ("max forwarding rate", found.max_pps),
    ];
    let mut figures: Vec<CaseFigure> = rates
        .into_iter()
        .map(|(name, pps)| figure(name, Unit::FramesPerSecond, pps))
        .collect();
    figures.push(figure(
        "share of line rate",
        Unit::Percent,
        found.max_line_percent,
    ));
    let (size, is_told) = frame_size(&file.test, channel);
    let both = Channel::ALL
        .into_iter()
        .all(|channel| !file.test.is_silent(channel));
    let variant = Variant {
        profile: Some(file.test.profile()),
        both_directions: both,
        ..Variant::default()
    };
    let case = Case {
        configuration: format!("{} {channel}", file.name),
        stream: Stream {
            ip_version: IpVersion::Ipv4,
            frame_size_bytes: size,
            flows: 1,
        },
        variant: variant.clone(),
        image: None,
        dut: Default::default(),
    };
    let outcome = outcome(&found, samples, fail_threshold, size, variant, is_told);
    TestCase {
        test_case: case.id(),
        case,
        figures,
        outcomes: vec![outcome.clone()],
        iterations: vec![Iteration {
            iteration: 1,
            outcomes: vec![outcome],
            ..Iteration::default()
        }],
        findings: Vec::new(),
        doubt: None,
        work: None,
        stopped: None,
    }
}

fn figure(name: &str, unit: Unit, value: f64) -> CaseFigure {
    CaseFigure {
        name: name.to_owned(),
        unit,
        better: Better::Higher,
        values: vec![value],
        median: value,
        interval_half_width: None,
        variation_percent: None,
        generator_limited: 0,
    }
}

fn outcome(
    found: &Performance,
    samples: Vec<Interval>,
    fail_threshold: f64,
    size: FrameSize,
    variant: Variant,
    is_told: bool,
) -> Outcome {
    let offered = |sample: &Interval| sample.offered_load_pps();
    let most = samples.iter().map(offered).fold(0.0, f64::max);
    // the first of the failed seconds at the end
    let failed = samples
        .iter()
        .rev()
        .take_while(|s| s.loss_ratio() > fail_threshold);
    let begin = failed.last().map(|sample| sample.at_ns as f64 / 1e9);
    let percent = 100.0 * fail_threshold;
    let held = samples
        .iter()
        .rev()
        .find(|s| offered(s) >= 0.99 * most)
        .map(Interval::forwarding_rate_pps);
    let verdict = match begin {
        Some(at) => format!(
            "more than {percent} % are lost from second {at:.0} on: {:.0} frames/s",
            found.max_ok_pps
        ),
        None => format!(
            "at most {percent} % are lost in the end: {:.0} frames/s",
            found.max_ok_pps
        ),
    };
    let mut warnings = Vec::new();
    if !is_told {
        warnings.push(
            "the file does not contain the size of its frames: that of the smallest is shown"
                .into(),
        );
    }
    Outcome {
        frame_size_bytes: size,
        variant,
        found: Found::Ramp(Ramp {
            target_pps: most,
            loss_threshold: fail_threshold,
            up: Edge {
                saturation_pps: Some(found.max_ok_pps),
                resolution_pps: 0.0,
                lower_pps: None,
                upper_pps: None,
                at_s: begin,
                from_s: None,
                until_s: None,
                reason: "by the rule of trex-loadtest-viz".into(),
            },
            down: None,
            max_ok_pps: found.max_ok_pps,
            max_forwarding_rate_pps: found.max_pps,
            max_line_percent: Some(found.max_line_percent),
            held_forwarding_rate_pps: held,
            collapse_ratio: held
                .filter(|_| found.max_pps > 0.0)
                .map(|held| held / found.max_pps),
            tester_bound: false,
            samples,
            directions: Vec::new(),
        }),
        verdict,
        answered: true,
        not_applicable: false,
        compliance: Compliance::default(),
        warnings,
        trials: 1,
    }
}

/// Returns the samples, second by second.
fn samples(test: &LoadTest, channel: Channel) -> Vec<Interval> {
    let time_s = |key: &str| fwdlab_model::loadtest::time_s(key).unwrap_or_default();
    let first_s = test
        .channel(channel)
        .next()
        .map_or(0.0, |(key, ..)| time_s(key));
    let all = test.channel(channel);
    all.map(|(key, from, to)| Interval {
        at_ns: ((time_s(key) - first_s) * SECOND as f64) as u64,
        length_ns: SECOND,
        intended_load_pps: from.tx_pps,
        frames_sent: from.tx_pps.max(0.0).round() as u64,
        frames_received: to.rx_pps.max(0.0).round() as u64,
    })
    .collect()
}

/// Returns the mean size of the frames sent, and whether the file contains it.
fn frame_size(test: &LoadTest, channel: Channel) -> (FrameSize, bool) {
    let (mut bits, mut frames) = (0.0, 0.0);
    for (_, from, _) in test
        .channel(channel)
        .filter(|(_, from, _)| from.tx_bps > 0.0 && from.tx_pps > 0.0)
    {
        bits += from.tx_bps;
        frames += from.tx_pps;
    }
    let mean = (frames > 0.0).then(|| (bits / frames / 8.0).round() as u16);
    // there are no smaller frames; a larger mean is not a size of real frames
    let reported = mean.and_then(|bytes| FrameSize::new(bytes.max(FrameSize::MIN.bytes())).ok());
    (reported.unwrap_or(FrameSize::MIN), reported.is_some())
}
