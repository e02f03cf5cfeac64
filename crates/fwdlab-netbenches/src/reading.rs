//! Reads the logs of a run and makes its record.
//!
//! All warnings about the numbers are decided in this file. Samples are dropped after they are
//! summarised. Start with [`Reader::run`].

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use fwdlab_model::import::{ImportedRecord, NETBENCHES};
use fwdlab_model::result::Validity;

use super::equilibrium::{Equilibrium, Unit};
use super::log::{Counts, Log};
use super::rule::{End, Legacy, NoValue, apply_rule, legacy, offered};
use super::set::{Case, RunFiles};
use super::walk::shown_path;

/// Difference between the rules, in percent, from which it is reported.
const RULES_AGREE_PERCENT: f64 = 1.0;
/// Below this multiple of the forwarding rate the sender is the limit (docs/methodology.md,
/// "Validity").
const SATURATED: f64 = 1.1;

/// Reads files of an archive.
#[derive(Debug)]
pub struct Reader<'a> {
    root: &'a Path,
    buffer: Vec<u8>,
}

/// The facts of a run that are kept after its logs were read.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// Its record; the caller adds labels.
    pub record: ImportedRecord,
    /// Digits of its number, which determine the order of names.
    pub digits: String,
    /// The receiver's log, relative to the archive.
    pub receiver: Option<PathBuf>,
    /// Its value by the archive's rule.
    pub legacy: Result<Legacy, NoValue>,
    /// The result of an equilibrium log.
    pub equilibrium: Option<Equilibrium>,
    /// True if a profile was recorded at the same time.
    pub profiled: bool,
    /// Statistics of the logs.
    pub tally: Tally,
    /// Changes if the logs change.
    pub fingerprint: u64,
}

/// Sums over logs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Receivers' logs.
    pub receivers: u64,
    /// Senders' logs.
    pub senders: u64,
    /// Logs that could not be read.
    pub unreadable: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Lines.
    pub lines: u64,
    /// Samples in receivers' logs.
    pub samples: u64,
    /// Samples in senders' logs.
    pub sender_samples: u64,
    /// Lines that were not understood.
    pub unknown: u64,
}

impl Tally {
    /// Adds another one.
    pub fn add(&mut self, other: &Tally) {
        self.receivers += other.receivers;
        self.senders += other.senders;
        self.unreadable += other.unreadable;
        self.bytes += other.bytes;
        self.lines += other.lines;
        self.samples += other.samples;
        self.sender_samples += other.sender_samples;
        self.unknown += other.unknown;
    }
}

impl<'a> Reader<'a> {
    /// Returns a reader of the archive in `root`.
    pub fn new(root: &'a Path) -> Reader<'a> {
        Reader {
            root,
            buffer: Vec::new(),
        }
    }

    /// Reads one log.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn log(&mut self, path: &Path) -> io::Result<Log> {
        let mut file = File::open(self.root.join(path))?;
        Log::read(&mut file, &mut self.buffer)
    }

    /// Reads the logs of a run.
    pub fn run(&mut self, case: &Case, files: &RunFiles) -> RunFacts {
        let mut made = RecordBuilder::new(case, files);
        let receiver = files
            .receiver
            .as_ref()
            .and_then(|path| self.read(path, true, &mut made));
        let senders: Vec<Log> = files
            .senders
            .iter()
            .filter_map(|path| self.read(path, false, &mut made))
            .collect();
        made.sources
            .extend(files.profiles.iter().map(|p| shown_path(p)));
        made.facts(receiver, &senders, files)
    }

    fn read(&mut self, path: &Path, receiver: bool, made: &mut RecordBuilder) -> Option<Log> {
        made.sources.push(shown_path(path));
        match self.log(path) {
            Ok(log) => {
                made.count(&log, receiver);
                made.doubt(&log, if receiver { "receiver" } else { "sender" });
                Some(log)
            }
            Err(error) => {
                made.tally.unreadable += 1;
                made.reasons
                    .push(format!("cannot read {}: {error}", shown_path(path)));
                None
            }
        }
    }
}

/// A record under construction.
struct RecordBuilder {
    case: String,
    iteration: u32,
    sources: Vec<String>,
    warnings: Vec<String>,
    reasons: Vec<String>,
    tally: Tally,
    fingerprint: u64,
}

impl RecordBuilder {
    fn new(case: &Case, files: &RunFiles) -> RecordBuilder {
        let mut made = RecordBuilder {
            case: case.name.clone(),
            iteration: files.iteration,
            sources: Vec::new(),
            warnings: Vec::new(),
            reasons: Vec::new(),
            tally: Tally::default(),
            fingerprint: 0xcbf2_9ce4_8422_2325,
        };
        for byte in case.name.bytes().chain(files.digits.bytes()) {
            made.mix(byte.into());
        }
        made
    }

    fn mix(&mut self, value: u64) {
        self.fingerprint = (self.fingerprint ^ value).wrapping_mul(0x0000_0100_0000_01b3);
        self.fingerprint ^= self.fingerprint >> 29;
    }

    fn count(&mut self, log: &Log, receiver: bool) {
        let Counts {
            lines,
            samples,
            unknown,
            ..
        } = log.counts;
        let tally = &mut self.tally;
        tally.bytes += log.bytes;
        tally.lines += lines;
        tally.unknown += unknown;
        if receiver {
            tally.receivers += 1;
            tally.samples += samples;
        } else {
            tally.senders += 1;
            tally.sender_samples += samples;
        }
        self.mix(log.bytes);
        self.mix(lines);
        for sample in &log.samples {
            self.mix(sample.pps.to_bits() ^ sample.end_us.unwrap_or(u64::MAX).rotate_left(24));
        }
    }

    /// Adds warnings that apply to any log.
    fn doubt(&mut self, log: &Log, whose: &str) {
        let counts = &log.counts;
        let mut warn = |text: String| self.warnings.push(format!("{whose}: {text}"));
        if counts.unknown > 0 {
            let named: Vec<String> = log
                .unknown
                .iter()
                .map(|(line, text)| format!("line {line}: {text}"))
                .collect();
            let more = counts.unknown - log.unknown.len() as u64;
            let more = if more > 0 {
                format!("; {more} more")
            } else {
                String::new()
            };
            warn(format!(
                "{} not understood ({}{more})",
                lines(counts.unknown),
                named.join("; ")
            ));
        }
        if counts.negative > 0 {
            warn(format!("{} below zero, left out", samples(counts.negative)));
        }
        if counts.damaged > 0 {
            warn(format!(
                "{} cut off or without a time",
                samples(counts.damaged)
            ));
        }
        if counts.prefixed > 0 {
            warn(format!(
                "{} rounded by pkt-gen (no -N)",
                samples(counts.prefixed)
            ));
        }
        if log.too_long() {
            warn(format!(
                "too long: only the first {} samples count",
                log.samples.len()
            ));
        }
        if log.ouch {
            self.reasons.push(format!(
                "{whose}: pkt-gen says `ouch, thread 0 exited with error`"
            ));
        }
    }

    fn facts(mut self, receiver: Option<Log>, senders: &[Log], files: &RunFiles) -> RunFacts {
        let by_rule = receiver
            .as_ref()
            .map(|log| apply_rule(log, senders.first()));
        let legacy = receiver.as_ref().map_or(Err(NoValue::Empty), legacy);
        let equilibrium = receiver
            .iter()
            .chain(senders)
            .find_map(|log| log.equilibrium);
        let frames_per_second = equilibrium
            .filter(|e| e.unit == Unit::FramesPerSecond)
            .map(|e| e.value);
        let rate = by_rule
            .as_ref()
            .and_then(|ours| ours.median)
            .or(frames_per_second);
        let command = senders
            .iter()
            .chain(&receiver)
            .filter_map(|log| log.command.as_ref());
        let command = || command.clone();

        let sum = |of: &dyn Fn(&Log) -> Option<f64>| -> Option<f64> {
            let all: Vec<f64> = senders.iter().map(of).collect::<Option<_>>()?;
            (!all.is_empty()).then(|| all.iter().sum())
        };
        let offered_load_pps = sum(&offered);
        let intended_load_pps = sum(&|log| log.command.as_ref()?.rate_pps.map(|rate| rate as f64));
        let frames_sent = sum(&|log| Some(log.sent?.count()? as f64)).map(|n| n as u64);
        let frames_received = receiver.as_ref().and_then(|log| log.received?.count());
        let frame_loss_ratio = match (frames_sent, frames_received) {
            (Some(sent), Some(received)) if sent > 0 && received <= sent => {
                Some((sent - received) as f64 / sent as f64)
            }
            _ => None,
        };
        if let Some(log) = &receiver {
            self.doubt_values(log, by_rule.as_ref(), &legacy, senders);
        }
        if let (Some(sent), Some(received)) = (frames_sent, frames_received)
            && received > sent
        {
            self.warnings.push(format!(
                "{received} frames received and {sent} sent: something else sent too, or one total is wrong"
            ));
        }
        if let (Some(rate), Some(offered), None) = (rate, offered_load_pps, intended_load_pps)
            && offered < SATURATED * rate
        {
            self.warnings.push(
                "offered less than 1.1 times what was received: the DUT may forward more".into(),
            );
        }
        let profiled = files.profiles.iter().any(|path| {
            let name = path.to_string_lossy();
            name.contains(".pmc.") || name.contains(".stats.")
        });
        if profiled {
            self.warnings.push(
                "a profile with this number exists: if it belongs to this run, it slowed the run down"
                    .into(),
            );
        }
        if rate.is_none() && equilibrium.is_none() {
            self.reasons.push(match (&receiver, &legacy) {
                (None, _) if files.receiver.is_some() => "no value".into(),
                (None, _) if senders.iter().any(is_equilibrium_log) => {
                    "equilibrium ended without an estimate: the generator was the limit, or it was stopped".into()
                }
                (None, _) => "there is no receiver's log".to_owned(),
                (Some(_), Ok(_)) => {
                    "no sample is left after our trimming; the archive's own rule has a value"
                        .into()
                }
                (Some(_), Err(reason)) => reason.words().to_owned(),
            });
        }
        let record = ImportedRecord {
            imported_from: NETBENCHES.to_owned(),
            test_case: self.case,
            labels: Default::default(),
            iteration: self.iteration,
            forwarding_rate_pps: rate,
            forwarding_rate_legacy_pps: legacy.ok().map(|legacy| legacy.median),
            samples: by_rule.as_ref().map_or(0, |ours| ours.samples),
            samples_legacy: legacy.map_or(0, |legacy| legacy.samples),
            duration_s: by_rule
                .as_ref()
                .filter(|ours| ours.samples > 0)
                .map(|ours| ours.duration_s),
            intended_load_pps,
            offered_load_pps,
            frames_sent,
            frames_received,
            frame_loss_ratio,
            throughput_l2_bps: equilibrium
                .filter(|e| e.unit == Unit::BitsPerSecond)
                .map(|e| e.value),
            ip_version: command().find_map(|command| command.ip_version),
            frame_size_bytes: command().find_map(|command| command.frame_size_bytes),
            flows: command().find_map(|command| command.flows),
            sources: self.sources,
            warnings: self.warnings,
            validity: Validity {
                reasons: self.reasons,
            },
        };
        RunFacts {
            record,
            digits: files.digits.clone(),
            receiver: files.receiver.clone(),
            legacy,
            equilibrium,
            profiled,
            tally: self.tally,
            fingerprint: self.fingerprint,
        }
    }

    /// Adds warnings about the value itself.
    fn doubt_values(
        &mut self,
        receiver: &Log,
        ours: Option<&super::rule::RuleResult>,
        legacy: &Result<Legacy, NoValue>,
        senders: &[Log],
    ) {
        let Some(ours) = ours.filter(|ours| ours.samples > 0) else {
            return;
        };
        if ours.end == End::Receiver {
            self.warnings.push(
                if senders.is_empty() {
                    "no sender's log: the end of the traffic is the end seen by the receiver"
                } else {
                    "the sender's clock differs: the end of the traffic is the end seen by the receiver"
                }
                .into(),
            );
        }
        let positive = |pps: f64| pps > 0.0;
        let of_traffic: Vec<f64> = receiver.samples.iter().map(|sample| sample.pps).collect();
        let first = of_traffic.iter().position(|pps| positive(*pps));
        let last = of_traffic.iter().rposition(|pps| positive(*pps));
        if let (Some(first), Some(last)) = (first, last) {
            let gaps = of_traffic[first..last]
                .iter()
                .filter(|pps| **pps == 0.0)
                .count();
            if gaps > 0 {
                self.warnings.push(format!(
                    "{} empty amid the traffic, left out",
                    samples(gaps as u64)
                ));
            }
        }
        match (legacy, ours.median) {
            (Ok(legacy), Some(median)) if legacy.median > 0.0 => {
                let percent = 100.0 * (median / legacy.median - 1.0);
                if percent.abs() > RULES_AGREE_PERCENT {
                    self.warnings.push(format!(
                        "our rule and the archive's differ by {percent:+.1} % in this run"
                    ));
                }
            }
            (Err(reason), Some(_)) => self.warnings.push(format!(
                "no value by the archive's rule: {}",
                reason.words()
            )),
            _ => {}
        }
    }
}

fn is_equilibrium_log(log: &Log) -> bool {
    let command = log.command.as_ref();
    command.is_some_and(|command| command.program.starts_with("equilibrium"))
}

fn lines(n: u64) -> String {
    format!("{n} line{}", if n == 1 { "" } else { "s" })
}

fn samples(n: u64) -> String {
    format!("{n} sample{}", if n == 1 { "" } else { "s" })
}
