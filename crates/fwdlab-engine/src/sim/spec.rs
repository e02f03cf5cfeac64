//! The properties of a simulated DUT, as users type them:
//! `capacity=1e6,buffer=1000,livelock=0.3,loss=1e-6`.
//!
//! Parses a text to a [`Dut`], or to an error with the position and the correct form; a [`Dut`]
//! prints as a text that parses back to the same value. Start with [`KEYS`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fwdlab_model::link::{Line, LinkSpeed, MeanSize};

use super::meters::{Counting, Foreign};

/// Every key, an example, and its meaning, for errors and the manual.
pub const KEYS: [(&str, &str, &str); 27] = [
    (
        "capacity",
        "1e6",
        "frames per second that a core forwards; 0 forwards none",
    ),
    (
        "cores",
        "4",
        "cores with a queue each; flows are spread over them by hash",
    ),
    ("buffer", "1000", "frames that wait in front of a core"),
    (
        "livelock",
        "0.3",
        "share of the capacity lost per 100 % of overload",
    ),
    (
        "collapse",
        "30%",
        "share of the load forwarded when the load exceeds the capacity",
    ),
    ("loss", "1e-6", "share of frames lost at random"),
    (
        "loss-share",
        "0.1%",
        "share of frames lost, the same in every trial, in whole frames",
    ),
    ("burst", "20/10", "frames lost in every Nth trial"),
    (
        "losses",
        "20@3+all@7",
        "frames lost in the third trial, all in the seventh",
    ),
    (
        "noise",
        "0.01",
        "standard deviation of the capacity from trial to trial, relative",
    ),
    ("drift", "-1%/h", "change of the capacity with time"),
    (
        "slow-start",
        "2s",
        "duration of traffic until full capacity; it starts with half of it",
    ),
    ("stall", "20ms/1s", "stops for this long in every period"),
    ("generator", "12Mpps", "maximum rate of the tester"),
    (
        "generator-stalls",
        "20%",
        "share of trials, or of steps of a ramp, in which the generator stalls and sends only some of the frames",
    ),
    (
        "link",
        "10Gbps",
        "speed of the tester's link; the load never exceeds line rate",
    ),
    ("latency", "20us", "time through an idle DUT"),
    (
        "jitter",
        "5us",
        "mean additional delay per frame, exponentially distributed",
    ),
    (
        "drop-every",
        "100000",
        "one frame in N is lost, periodically",
    ),
    (
        "recovery",
        "200ms",
        "after overload it forwards a tenth of its capacity for this long",
    ),
    (
        "reboot",
        "30s",
        "after a reset it forwards nothing for this long",
    ),
    (
        "cost",
        "20ns",
        "cost per frame of each rule, table entry or state (sweeps)",
    ),
    (
        "cliff",
        "1000/50%",
        "above this number of them, only this share of its capacity remains",
    ),
    (
        "counters",
        "1024",
        "number of frames that its counters report as 1000; `none`: they cannot be read, it is a black box",
    ),
    (
        "foreign",
        "3@dut-output",
        "frames of others in every trial, and the port where they join: generator-port, dut-input, dut-output, receiver-port",
    ),
    ("flap", "7", "the link goes down in every Nth trial"),
    ("seed", "7", "seed of all random choices"),
];

/// A simulated DUT and the tester in front of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Dut {
    /// Frames per second that one core forwards.
    pub capacity_pps: f64,
    /// Number of cores, each with its own queue.
    pub cores: u32,
    /// Size of each core's buffer.
    pub buffer_frames: u64,
    /// Share of the capacity lost for every 100 % of overload.
    pub livelock: f64,
    /// In overload, the share of the sent frames that is forwarded, at most the capacity.
    pub collapse: Option<f64>,
    /// Share of frames lost at random.
    pub loss_ratio: f64,
    /// Share of frames lost in every trial.
    pub loss_share: f64,
    /// Frames lost in bursts.
    pub burst: Option<Burst>,
    /// Frames lost in specific trials.
    pub losses: Vec<Losses>,
    /// Standard deviation of the capacity from trial to trial, relative.
    pub noise: f64,
    /// Relative change of the capacity in an hour.
    pub drift_per_hour: f64,
    /// Time of traffic until it reaches its full capacity.
    pub slow_start: Duration,
    /// Periodic stalls.
    pub stall: Option<Stall>,
    /// Maximum rate of the tester.
    pub generator_pps: Option<f64>,
    /// Share of trials, or of steps of a ramp, in which the generator sends only a random part of
    /// the frames.
    pub generator_stalls: f64,
    /// Speed of the tester's link.
    pub link: Option<LinkSpeed>,
    /// Latency of an idle DUT.
    pub latency: Duration,
    /// Mean of an exponentially distributed addition to the latency.
    pub jitter: Duration,
    /// Loses one of this number of frames, periodically.
    pub drop_every: Option<u64>,
    /// After overload it forwards a tenth of its capacity for this time.
    pub recovery: Duration,
    /// After a reset it forwards nothing for this time.
    pub reboot: Duration,
    /// Cost per frame of each unit of a sweep's parameter.
    pub cost: Duration,
    /// Number of units above which it forwards less.
    pub cliff: Option<Cliff>,
    /// Behaviour of its counters.
    pub counters: Counting,
    /// Foreign frames in every trial.
    pub foreign: Option<Foreign>,
    /// The link goes down in every n-th trial.
    pub flap: Option<u32>,
    /// Seed of all randomness.
    pub seed: u64,
}

/// Frames lost in every n-th trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// Frames lost.
    pub frames: u64,
    /// Period in trials.
    pub every_trials: u32,
}

/// Frames lost in one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Losses {
    /// Frames lost; `None` is all of them.
    pub frames: Option<u64>,
    /// The number of the trial, from 1.
    pub trial: u64,
}

/// A pause in the middle of every period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// Duration of the pause.
    pub length: Duration,
    /// Period.
    pub period: Duration,
}

/// A sudden drop of the capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cliff {
    /// Largest number of units without the drop.
    pub units: u64,
    /// Share of the capacity beyond it.
    pub share: f64,
}

/// Why a text is not a simulated DUT.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("simulated DUT, character {position}: {reason}")]
pub struct DutError {
    /// Position of the error, from 1.
    pub position: usize,
    /// What is wrong, and the correct form.
    pub reason: String,
}

impl Default for Dut {
    /// A million frames per second, no buffer, no fault.
    fn default() -> Dut {
        Dut {
            capacity_pps: 1e6,
            cores: 1,
            buffer_frames: 0,
            livelock: 0.0,
            collapse: None,
            loss_ratio: 0.0,
            loss_share: 0.0,
            burst: None,
            losses: Vec::new(),
            noise: 0.0,
            drift_per_hour: 0.0,
            slow_start: Duration::ZERO,
            stall: None,
            generator_pps: None,
            generator_stalls: 0.0,
            link: None,
            latency: Duration::ZERO,
            jitter: Duration::ZERO,
            drop_every: None,
            recovery: Duration::ZERO,
            reboot: Duration::ZERO,
            cost: Duration::ZERO,
            cliff: None,
            counters: Counting::Exact,
            foreign: None,
            flap: None,
            seed: 0,
        }
    }
}

impl Dut {
    /// Returns the maximum rate of the tester for frames of this size; `None` if there is no limit.
    pub fn tester_limit_pps(&self, size: impl Into<MeanSize>) -> Option<f64> {
        let size = size.into();
        let line_rate = self.link.map(|link| link.line_rate_pps(size));
        match (self.generator_pps, line_rate) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Returns the line of the tester's link, if it has a speed.
    pub fn line(&self) -> Option<Line> {
        self.link.map(Line::simulated)
    }

    /// Sets the speed of the tester's link.
    ///
    /// # Errors
    /// If it has another one.
    pub fn set_link(&mut self, speed: LinkSpeed) -> Result<(), String> {
        match self.link.replace(speed) {
            Some(own) if own != speed => Err(format!(
                "the link is {speed}, but link= of the simulated DUT is {own}: give only one of them"
            )),
            _ => Ok(()),
        }
    }

    /// Returns the capacity of one core with this number of rules, table entries or states.
    pub fn capacity_with(&self, units: u64) -> f64 {
        let frame_s = 1.0 / self.capacity_pps + self.cost.as_secs_f64() * units as f64;
        let broken = self.cliff.filter(|cliff| units > cliff.units);
        let left = broken.map_or(1.0, |cliff| cliff.share);
        if self.cost.is_zero() {
            self.capacity_pps * left
        } else {
            left / frame_s
        }
    }

    /// Parses `capacity=1e6,buffer=1000`; omitted keys are as in [`Dut::default`].
    ///
    /// # Errors
    /// The wrong key, its position, and the correct form.
    pub fn parse(text: &str) -> Result<Dut, DutError> {
        let mut dut = Dut::default();
        let mut seen: Vec<&str> = Vec::new();
        let mut position = 1;
        for item in text.split(',') {
            let blanks = item.len() - item.trim_start().len();
            let at = position + blanks;
            position += item.chars().count() + 1;
            let error = |cause: String| DutError {
                position: at,
                reason: cause,
            };
            let typed = item.trim();
            let Some((key, value)) = typed.split_once('=') else {
                return Err(error(format!(
                    "`{typed}` is not key=value, such as capacity=1e6,buffer=1000. Keys: {}",
                    keys()
                )));
            };
            let value = value.trim();
            let key = match key.trim() {
                // the name in earlier versions
                "hold-ups" => "generator-stalls",
                key => key,
            };
            let Some((key, example, _)) = KEYS.iter().find(|(known, ..)| *known == key) else {
                return Err(error(format!("there is no key `{key}`. Keys: {}", keys())));
            };
            if seen.contains(key) {
                return Err(error(format!("`{key}` is given twice")));
            }
            seen.push(key);
            dut.set(key, value).map_err(|action| {
                error(format!("{key}={value}: {action}, such as {key}={example}"))
            })?;
        }
        Ok(dut)
    }

    /// Sets one key; the error describes its valid values.
    fn set(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        const SHARE: &str = "it must be a share from 0 to below 1";
        const TIME: &str = "it must be a time up to 24h";
        let share = |value| ratio(value).filter(|share| (0.0..1.0).contains(share));
        match key {
            "capacity" => {
                self.capacity_pps =
                    rate(value, "pps").ok_or("it must be frames per second from 0 to 1e12")?;
            }
            "cores" => {
                self.cores =
                    within(value, 1, 1024).ok_or("it must be a number from 1 to 1024")? as u32;
            }
            "buffer" => {
                self.buffer_frames = within(value, 0, 1_000_000_000)
                    .ok_or("it must be a number of frames from 0 to 1000000000")?;
            }
            "livelock" => {
                self.livelock = ratio(value)
                    .filter(|slope| (0.0..=1000.0).contains(slope))
                    .ok_or("it must be a number from 0 to 1000")?;
            }
            "collapse" => self.collapse = Some(share(value).ok_or(SHARE)?),
            "loss" => self.loss_ratio = share(value).ok_or(SHARE)?,
            "loss-share" => {
                let share = ratio(value).filter(|share| (0.0..=1.0).contains(share));
                self.loss_share = share.ok_or("it must be a share from 0 to 1")?;
            }
            "burst" => {
                let burst = value.split_once('/').and_then(|(frames, trials)| {
                    Some(Burst {
                        frames: within(frames, 1, 1_000_000_000)?,
                        every_trials: within(trials, 1, 1_000_000)? as u32,
                    })
                });
                self.burst = Some(burst.ok_or("it must be frames / trials, both at least 1")?);
            }
            "losses" => {
                let losses = value.split('+').map(|one| {
                    let (frames, trial) = one.split_once('@')?;
                    let frames = match frames.trim() {
                        "all" => None,
                        frames => Some(within(frames, 1, 1_000_000_000_000)?),
                    };
                    let trial = within(trial, 1, 1_000_000_000)?;
                    Some(Losses { frames, trial })
                });
                let mut losses = (losses.collect::<Option<Vec<_>>>())
                    .ok_or("it must be frames or `all`, then @ and the number of the trial (from 1), separated by +")?;
                losses.sort_by_key(|losses| losses.trial);
                if losses.windows(2).any(|pair| pair[0].trial == pair[1].trial) {
                    return Err("a trial is named twice");
                }
                self.losses = losses;
            }
            "noise" => {
                self.noise = ratio(value)
                    .filter(|share| (0.0..=1.0).contains(share))
                    .ok_or("it must be a share from 0 to 1")?;
            }
            "drift" => {
                self.drift_per_hour = value
                    .strip_suffix("/h")
                    .and_then(ratio)
                    .filter(|share| (-10.0..=10.0).contains(share))
                    .ok_or("it must be a share per hour, from -1000%/h to 1000%/h")?;
            }
            "slow-start" => {
                self.slow_start = duration(value).ok_or(TIME)?;
            }
            "stall" => {
                let shortest = Duration::from_millis(1);
                let stall = value.split_once('/').and_then(|(length, period)| {
                    Some(Stall {
                        length: duration(length)?,
                        period: duration(period)?,
                    })
                });
                self.stall = Some(
                    stall
                        .filter(|s| s.length < s.period && s.period >= shortest)
                        .ok_or("it must be length / period, the length shorter, the period at least 1ms")?,
                );
            }
            "generator" => {
                let pps = rate(value, "pps").filter(|pps| *pps > 0.0);
                self.generator_pps =
                    Some(pps.ok_or("it must be frames per second above 0, at most 1e12")?);
            }
            "generator-stalls" => self.generator_stalls = share(value).ok_or(SHARE)?,
            "link" => {
                let speed = rate(value, "bps").and_then(LinkSpeed::from_bps);
                self.link =
                    Some(speed.ok_or("it must be whole bits per second, 1 kbit/s to 1 Tbit/s")?);
            }
            "latency" => self.latency = duration(value).ok_or(TIME)?,
            "jitter" => self.jitter = duration(value).ok_or(TIME)?,
            "recovery" => self.recovery = duration(value).ok_or(TIME)?,
            "reboot" => self.reboot = duration(value).ok_or(TIME)?,
            "cost" => self.cost = duration(value).ok_or(TIME)?,
            "drop-every" => {
                let every = within(value, 2, 1_000_000_000_000);
                self.drop_every = Some(every.ok_or("it must be a number of frames, at least 2")?);
            }
            "cliff" => {
                let cliff = value.split_once('/').and_then(|(units, left)| {
                    Some(Cliff {
                        units: within(units, 0, u64::MAX)?,
                        share: share(left)?,
                    })
                });
                self.cliff = Some(cliff.ok_or("it must be units / share, the share below 1")?);
            }
            "counters" => {
                self.counters = match value {
                    "none" => Counting::Nobody,
                    number => {
                        let frames = within(number, 1, 1_000_000)
                            .ok_or("it must be a number from 1 to 1000000, or `none`")?;
                        Counting::PerThousand(frames as u32)
                    }
                };
            }
            "foreign" => {
                let foreign = value.split_once('@').and_then(|(frames, at)| {
                    Some(Foreign {
                        frames: within(frames, 1, 1_000_000_000)?,
                        at: at.trim().parse().ok()?,
                    })
                });
                self.foreign = Some(foreign.ok_or(
                    "it must be frames, @, and generator-port, dut-input, dut-output or receiver-port",
                )?);
            }
            "flap" => {
                let trials = within(value, 1, 1_000_000);
                self.flap = Some(trials.ok_or("it must be a number of trials, at least 1")? as u32);
            }
            _ => self.seed = within(value, 0, u64::MAX).ok_or("it must be a whole number")?,
        }
        Ok(())
    }
}

impl FromStr for Dut {
    type Err = DutError;
    fn from_str(text: &str) -> Result<Dut, DutError> {
        Dut::parse(text)
    }
}

impl fmt::Display for Dut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "capacity={}", Scaled(self.capacity_pps, "pps"))?;
        let plain = Dut::default();
        if self.cores != plain.cores {
            write!(f, ",cores={}", self.cores)?;
        }
        if self.buffer_frames != plain.buffer_frames {
            write!(f, ",buffer={}", self.buffer_frames)?;
        }
        for (key, value) in [
            ("livelock", Some(self.livelock).filter(|v| *v != 0.0)),
            ("collapse", self.collapse),
            ("loss", Some(self.loss_ratio).filter(|v| *v != 0.0)),
            ("loss-share", Some(self.loss_share).filter(|v| *v != 0.0)),
        ] {
            if let Some(value) = value {
                write!(f, ",{key}={value}")?;
            }
        }
        if let Some(burst) = self.burst {
            write!(f, ",burst={}/{}", burst.frames, burst.every_trials)?;
        }
        for (n, losses) in self.losses.iter().enumerate() {
            let before = if n == 0 { ",losses=" } else { "+" };
            let frames = losses
                .frames
                .map_or("all".into(), |frames| frames.to_string());
            write!(f, "{before}{frames}@{}", losses.trial)?;
        }
        if self.noise != 0.0 {
            write!(f, ",noise={}", self.noise)?;
        }
        if self.drift_per_hour != 0.0 {
            write!(f, ",drift={}/h", self.drift_per_hour)?;
        }
        if self.slow_start > Duration::ZERO {
            write!(f, ",slow-start={}", Time(self.slow_start))?;
        }
        if let Some(stall) = self.stall {
            write!(f, ",stall={}/{}", Time(stall.length), Time(stall.period))?;
        }
        if let Some(pps) = self.generator_pps {
            write!(f, ",generator={}", Scaled(pps, "pps"))?;
        }
        if self.generator_stalls != 0.0 {
            write!(f, ",generator-stalls={}", self.generator_stalls)?;
        }
        if let Some(link) = self.link {
            write!(f, ",link={}", Scaled(link.bps() as f64, "bps"))?;
        }
        for (key, time) in [
            ("latency", self.latency),
            ("jitter", self.jitter),
            ("recovery", self.recovery),
            ("reboot", self.reboot),
            ("cost", self.cost),
        ] {
            if time > Duration::ZERO {
                write!(f, ",{key}={}", Time(time))?;
            }
        }
        if let Some(frames) = self.drop_every {
            write!(f, ",drop-every={frames}")?;
        }
        if let Some(cliff) = self.cliff {
            write!(f, ",cliff={}/{}", cliff.units, cliff.share)?;
        }
        match self.counters {
            Counting::Exact => {}
            Counting::PerThousand(frames) => write!(f, ",counters={frames}")?,
            Counting::Nobody => write!(f, ",counters=none")?,
        }
        if let Some(Foreign { frames, at }) = self.foreign {
            write!(f, ",foreign={frames}@{at}")?;
        }
        if let Some(trials) = self.flap {
            write!(f, ",flap={trials}")?;
        }
        if self.seed != plain.seed {
            write!(f, ",seed={}", self.seed)?;
        }
        Ok(())
    }
}

fn keys() -> String {
    KEYS.map(|(key, example, _)| format!("{key}={example}"))
        .join(", ")
}

/// Parses an integer in a range.
fn within(text: &str, least: u64, most: u64) -> Option<u64> {
    let number = text.trim().parse().ok()?;
    (least..=most).contains(&number).then_some(number)
}

/// Parses `0.01` or `1%`.
fn ratio(text: &str) -> Option<f64> {
    let value = match text.trim().strip_suffix('%') {
        Some(percent) => number(percent, -2),
        None => number(text, 0),
    };
    value.filter(|value| value.is_finite())
}

/// Parses `1e6`, `1000000`, `1Mpps`: not below 0.
fn rate(text: &str, unit: &str) -> Option<f64> {
    let text = text.trim();
    // a capital B means bytes
    if text.contains('B') {
        return None;
    }
    let text = match text.len().checked_sub(unit.len()) {
        Some(end) if text.is_char_boundary(end) && text[end..].eq_ignore_ascii_case(unit) => {
            &text[..end]
        }
        _ => text,
    };
    let (text, exponent) = match text.trim_end().strip_suffix(['k', 'K', 'M', 'G']) {
        None => (text, 0),
        Some(rest) if text.contains('M') => (rest, 6),
        Some(rest) if text.contains('G') => (rest, 9),
        Some(rest) => (rest, 3),
    };
    number(text, exponent).filter(|value| (0.0..=1e12).contains(value))
}

/// Returns a number times a power of ten, rounded once.
fn number(text: &str, exponent: i32) -> Option<f64> {
    let text = text.trim();
    let digits = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E');
    if text.is_empty() || !text.chars().all(digits) {
        return None;
    }
    match exponent {
        0 => text.parse().ok(),
        _ if text.contains(['e', 'E']) => Some(text.parse::<f64>().ok()? * 10f64.powi(exponent)),
        _ => format!("{text}e{exponent}").parse().ok(),
    }
}

/// Parses `20us`, `1.5s`, `0s`: whole nanoseconds, at most a day.
fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (value, unit) = text.split_at(split);
    let (exponent, times) = match unit.trim() {
        "ns" => (0, 1.0),
        "us" | "µs" => (3, 1.0),
        "ms" => (6, 1.0),
        "s" => (9, 1.0),
        "min" => (9, 60.0),
        "h" => (9, 3600.0),
        _ => return None,
    };
    let ns = number(value, exponent)? * times;
    (ns <= 86_400e9).then(|| Duration::from_nanos(ns.round() as u64))
}

/// A rate that prints in a form that parses back to the same number.
struct Scaled(f64, &'static str);

impl fmt::Display for Scaled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scaled(value, unit) = *self;
        let (divisor, prefix) = match value {
            v if v >= 1e9 && v % 1e9 == 0.0 => (1e9, "G"),
            v if v >= 1e6 && v % 1e4 == 0.0 => (1e6, "M"),
            v if v >= 1e3 && v % 10.0 == 0.0 => (1e3, "k"),
            _ => (1.0, ""),
        };
        write!(f, "{}{prefix}{unit}", value / divisor)
    }
}

/// A time that prints in the largest unit in which it is a whole number.
struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.as_nanos();
        let (divisor, unit) = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")]
            .into_iter()
            .find(|(divisor, _)| ns.is_multiple_of(*divisor))
            .unwrap_or((1, "ns"));
        write!(f, "{}{unit}", ns / divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::super::meters::Port;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_key_as_its_example_shows() {
        let text = KEYS
            .map(|(key, example, _)| format!("{key}={example}"))
            .join(",");
        let dut = Dut::parse(&text).unwrap();
        let ms = Duration::from_millis;
        assert_eq!(
            dut,
            Dut {
                capacity_pps: 1e6,
                cores: 4,
                buffer_frames: 1000,
                livelock: 0.3,
                collapse: Some(0.3),
                loss_ratio: 1e-6,
                loss_share: 0.001,
                burst: Some(Burst {
                    frames: 20,
                    every_trials: 10
                }),
                losses: vec![
                    Losses {
                        frames: Some(20),
                        trial: 3
                    },
                    Losses {
                        frames: None,
                        trial: 7
                    }
                ],
                noise: 0.01,
                drift_per_hour: -0.01,
                slow_start: ms(2000),
                stall: Some(Stall {
                    length: ms(20),
                    period: ms(1000)
                }),
                generator_pps: Some(12e6),
                generator_stalls: 0.2,
                link: Some(LinkSpeed::megabits(10_000)),
                latency: Duration::from_micros(20),
                jitter: Duration::from_micros(5),
                drop_every: Some(100_000),
                recovery: ms(200),
                reboot: ms(30_000),
                cost: Duration::from_nanos(20),
                cliff: Some(Cliff {
                    units: 1000,
                    share: 0.5
                }),
                counters: Counting::PerThousand(1024),
                foreign: Some(Foreign {
                    frames: 3,
                    at: Port::DutOutput
                }),
                flap: Some(7),
                seed: 7,
            }
        );
        assert_eq!(
            dut.to_string(),
            "capacity=1Mpps,cores=4,buffer=1000,livelock=0.3,collapse=0.3,loss=0.000001,loss-share=0.001,\
             burst=20/10,losses=20@3+all@7,noise=0.01,drift=-0.01/h,\
             slow-start=2s,stall=20ms/1s,generator=12Mpps,generator-stalls=0.2,link=10Gbps,latency=20us,jitter=5us,recovery=200ms,reboot=30s,cost=20ns,\
             drop-every=100000,cliff=1000/0.5,counters=1024,foreign=3@dut-output,flap=7,seed=7"
        );
        assert_eq!(Dut::parse(&dut.to_string()).unwrap(), dut);
        assert_eq!(
            Dut::parse(" capacity = 1e6 , buffer = 5 ")
                .unwrap()
                .buffer_frames,
            5
        );
        assert_eq!(
            Dut::parse("capacity=14.88Mpps").unwrap().capacity_pps,
            14_880_000.0
        );
    }

    #[test]
    fn errors_name_the_position_and_a_valid_value() {
        for (text, position, words) in [
            ("", 1, "capacity=1e6"),
            ("capacity", 1, "key=value"),
            (
                "capacity=1e6,bufer=10",
                14,
                "no key `bufer`. Keys: capacity",
            ),
            ("capacity=1e6, buffer=-1", 15, "frames from 0"),
            ("capacity=1e6,capacity=2e6", 14, "twice"),
            ("capacity=-1", 1, "from 0 to 1e12"),
            ("capacity=1e13", 1, "from 0 to 1e12"),
            ("capacity=nan", 1, "from 0"),
            ("capacity=inf", 1, "from 0"),
            ("capacity=1Tpps", 1, "from 0"),
            ("generator=0", 1, "above 0"),
            ("collapse=1", 1, "below 1"),
            ("loss-share=1.1", 1, "from 0 to 1"),
            ("losses=20", 1, "losses=20@3"),
            ("losses=20@0", 1, "from 1"),
            ("losses=0@1", 1, "from 1"),
            ("losses=1@2+all@2", 1, "named twice"),
            ("cores=0", 1, "1 to 1024"),
            ("loss=1", 1, "below 1"),
            ("loss=-0.1", 1, "below 1"),
            ("noise=200%", 1, "0 to 1"),
            ("drift=-1%", 1, "drift=-1%/h"),
            ("stall=2s/1s", 1, "shorter"),
            ("stall=1s", 1, "length / period"),
            ("slow-start=2", 1, "slow-start=2s"),
            ("latency=20", 1, "latency=20us"),
            ("burst=1/0", 1, "at least 1"),
            ("seed=x", 1, "whole number"),
            ("cliff=100", 1, "units / share"),
            ("drop-every=1", 1, "at least 2"),
            ("counters=0", 1, "from 1 to 1000000"),
            ("counters=all", 1, "`none`"),
            ("foreign=3", 1, "dut-output"),
            ("foreign=3@dut", 1, "dut-output"),
            ("flap=0", 1, "at least 1"),
            ("reboot=5", 1, "reboot=30s"),
            ("capacity=1e6,", 14, "key=value"),
            ("ä=1,b", 1, "no key `ä`"),
            ("generator=µpps", 1, "above 0"),
            ("link=999bps", 1, "1 kbit/s"),
            ("link=1000.5bps", 1, "whole bits"),
        ] {
            let error = Dut::parse(text).unwrap_err();
            assert_eq!(error.position, position, "{text}: {error}");
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_dut_reads_back_as_it_prints(
            rates in prop::array::uniform2(1e-3..1e12f64), round in 1u64..100_000,
            shares in prop::array::uniform3(0.0..0.999f64), numbers in (1u32..=1024, 0u64..1_000_000_000, any::<u64>()),
            times in (0u64..86_400_000_000_000, 1u64..1_000_000_000, 1_000_000u64..10_000_000_000), some: bool,
        ) {
            let (cores, buffer_frames, seed) = numbers;
            let ns = Duration::from_nanos;
            let dut = Dut {
                capacity_pps: if some { rates[0] } else { round as f64 * 1e4 },
                cores,
                buffer_frames,
                livelock: shares[0],
                collapse: some.then_some(shares[2]),
                loss_ratio: shares[1],
                loss_share: shares[2],
                losses: vec![
                    Losses { frames: some.then_some(round), trial: round },
                    Losses { frames: Some(round), trial: round + u64::from(cores) },
                ],
                burst: some.then_some(Burst { frames: round, every_trials: cores }),
                noise: shares[2],
                drift_per_hour: shares[0] - shares[1],
                slow_start: ns(times.0),
                stall: Some(Stall { length: ns(times.1), period: ns(times.1 + times.2) }),
                generator_pps: some.then_some(rates[1]),
                generator_stalls: shares[1],
                link: Some(LinkSpeed::megabits(round as u32)),
                latency: ns(times.1),
                jitter: ns(times.0),
                drop_every: some.then_some(times.2),
                recovery: ns(times.1),
                reboot: ns(times.2),
                cost: ns(times.1),
                cliff: some.then_some(Cliff { units: seed, share: shares[0] }),
                counters: if some { Counting::PerThousand(cores) } else { Counting::Nobody },
                foreign: some.then_some(Foreign { frames: round, at: Port::DutInput }),
                flap: some.then_some(cores),
                seed,
            };
            prop_assert_eq!(Dut::parse(&dut.to_string()).unwrap(), dut);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}", value in "[0-9.eE+%/a-zµ-]{0,12}", key in 0..KEYS.len()) {
            let _ = Dut::parse(&text);
            let _ = Dut::parse(&format!("{}={value}", KEYS[key].0));
        }
    }
}
