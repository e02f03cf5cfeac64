//! Variables: values that move on from frame to frame.
//!
//! What the values are written to is the [`machine`](super::machine)'s business. Start with [`Source`]; how it runs
//! is in [`State`].

use serde::{Deserialize, Serialize};

use super::ModifierError;
use super::column::{AHEAD, Column, Line, Values as Said};
use super::grid::Grid;
use crate::permutation::{Visits, mix, scale};
use std::sync::Arc;

/// Width of a variable or a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Width {
    One,
    Two,
    Four,
    Eight,
}

impl Width {
    /// In bytes.
    #[inline]
    pub fn bytes(self) -> usize {
        match self {
            Width::One => 1,
            Width::Two => 2,
            Width::Four => 4,
            Width::Eight => 8,
        }
    }

    /// The largest value.
    #[inline]
    pub fn max(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes())
    }
}

/// Which way a counter goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// Up.
    Increment,
    /// Down.
    Decrement,
}

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name. Groups ([`Source::Tuple`], [`Source::Grid`]) define names with a dot behind it.
    pub name: String,
    /// Width of its values; groups have widths of their own.
    pub width: Width,
    /// Where values come from.
    pub source: Source,
    /// Is it shared by the threads (or does each run through all of it)?
    pub split: bool,
    /// The variable after this one, if that moves on only when this one wraps, as the next digit of a number does. (Of
    /// [`Source::RandomLimit`]: when it restarts.)
    pub next: Option<String>,
}

/// Where the values of a variable come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// From `initial` on, `step` up or down in the inclusive range, and from its end to the other. Crossing the end
    /// costs one step. If the size of the range is no multiple of the step, `max` (down: `min`) moves out until it is.
    Counter {
        /// Which way.
        direction: Direction,
        /// The first value.
        initial: u64,
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
        /// How far at a time; at least 1.
        step: u64,
    },
    /// The values of a list, from the first on (down: from the last), `step` places at a time.
    List {
        /// Which way.
        direction: Direction,
        /// The values.
        values: Vec<u64>,
        /// How many places at a time; at least 1.
        step: u64,
    },
    /// Uniformly random. Never split: each thread draws its own.
    Random {
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
        /// Decides the sequence.
        seed: u64,
    },
    /// Values of a list, drawn at random.
    RandomList {
        /// The values.
        values: Vec<u64>,
        /// Decides the sequence.
        seed: u64,
    },
    /// TRex's repeatable random: `limit` values of its generator, then the same again.
    RandomLimit {
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
        /// How many; at least 1.
        limit: u64,
        /// Decides the sequence.
        seed: u32,
    },
    /// Addresses with ports, as clients use them: defines `<name>.ip` (4 bytes) and `<name>.port` (2 bytes).
    ///
    /// The address moves on with every frame, the port when the addresses wrap; after `limit` frames both restart.
    Tuple {
        /// The first address.
        ip_min: u32,
        /// The last address.
        ip_max: u32,
        /// The first port.
        port_min: u16,
        /// The last port.
        port_max: u16,
        /// How many flows; 0: all of them.
        limit: u64,
    },
    /// A Cartesian set: defines `<name>.<dimension>` for each dimension. The first runs fastest when in sequence.
    Grid {
        /// The dimensions.
        dimensions: Vec<Dimension>,
        /// In which order the members are visited.
        visits: Visits,
    },
}

/// One dimension of a [`Source::Grid`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dimension {
    /// Its name, within the variable's.
    pub name: String,
    /// Width of its values.
    pub width: Width,
    /// Its values; at least one.
    pub values: Values,
}

/// The values of a [`Dimension`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Values {
    /// `count` values from `first` on, `step` apart.
    Range {
        /// The first value.
        first: u64,
        /// How far apart.
        step: u64,
        /// How many.
        count: u64,
    },
    /// These.
    List(Vec<u64>),
}

impl Values {
    /// How many.
    pub fn count(&self) -> u64 {
        match self {
            Values::Range { count, .. } => *count,
            Values::List(values) => values.len() as u64,
        }
    }

    /// Value number `n`.
    ///
    /// # Panics
    /// In a list that is shorter.
    pub fn get(&self, n: u64) -> u64 {
        match self {
            Values::Range { first, step, .. } => first + step * n,
            Values::List(values) => values[n as usize],
        }
    }

    /// The largest value; `None`: there are none.
    fn largest(&self) -> Option<u128> {
        match self {
            Values::Range { first, step, count } => {
                let steps = count.checked_sub(1)?;
                Some(u128::from(*first) + u128::from(*step) * u128::from(steps))
            }
            Values::List(values) => values.iter().max().map(|largest| u128::from(*largest)),
        }
    }
}

impl Variable {
    /// Memory that TRex takes for it, in bytes: a tuple 10, a random one 4 more than its width.
    pub(super) fn trex_bytes(&self) -> usize {
        match &self.source {
            Source::Tuple { .. } => 10,
            Source::Random { .. } | Source::RandomList { .. } | Source::RandomLimit { .. } => {
                self.width.bytes() + 4
            }
            Source::Grid { dimensions, .. } => dimensions.iter().map(|d| d.width.bytes()).sum(),
            _ => self.width.bytes(),
        }
    }

    /// Names and widths of the values it defines.
    pub(super) fn values(&self) -> Vec<(String, Width)> {
        let of = |part: &str, width| (format!("{}.{part}", self.name), width);
        match &self.source {
            Source::Tuple { .. } => vec![of("ip", Width::Four), of("port", Width::Two)],
            Source::Grid { dimensions, .. } => {
                dimensions.iter().map(|d| of(&d.name, d.width)).collect()
            }
            _ => vec![(self.name.clone(), self.width)],
        }
    }

    /// The smallest value that it can have; of a group: 0.
    pub(super) fn smallest(&self) -> u64 {
        match &self.source {
            Source::Counter {
                direction: Direction::Decrement,
                ..
            } => Counter::new(&self.source, self.width)
                .map_or(0, |counter| counter.base - (counter.range - 1) as u64),
            Source::Counter { min, .. }
            | Source::Random { min, .. }
            | Source::RandomLimit { min, .. } => *min,
            Source::List { values, .. } | Source::RandomList { values, .. } => {
                values.iter().copied().min().unwrap_or(0)
            }
            Source::Tuple { .. } | Source::Grid { .. } => 0,
        }
    }

    /// Is it possible at all? `after`: the variable behind it.
    pub(super) fn check(&self, after: Option<&Variable>) -> Result<(), ModifierError> {
        self.wrong(after).map_or(Ok(()), |what| {
            let name = self.name.clone();
            Err(ModifierError::Variable { name, what })
        })
    }

    fn wrong(&self, after: Option<&Variable>) -> Option<String> {
        let most = self.width.max();
        let range = |min: u64, max: u64| {
            if min > max {
                return Some(format!(
                    "the smallest value {min} is above the largest {max}"
                ));
            }
            let bytes = self.width.bytes();
            (max > most).then(|| format!("{max} does not fit {bytes} bytes (at most {most})"))
        };
        let wrong = match &self.source {
            Source::Counter { step: 0, .. } | Source::List { step: 0, .. } => {
                Some("the step is 0; it must be at least 1".to_owned())
            }
            Source::Counter {
                initial, min, max, ..
            } => range(*min, *max)
                .or_else(|| {
                    (initial < min || initial > max).then(|| {
                        format!("the initial value {initial} is not between {min} and {max}")
                    })
                })
                .or_else(|| Counter::new(&self.source, self.width).err()),
            Source::List { values, .. } | Source::RandomList { values, .. } => {
                match values.iter().max() {
                    None => Some("the list has no values".to_owned()),
                    Some(largest) => range(0, *largest),
                }
            }
            Source::Random { min, max, .. } => range(*min, *max),
            Source::RandomLimit { limit: 0, .. } => {
                Some("the limit is 0; it must be at least 1".into())
            }
            Source::RandomLimit { min, max, .. } => range(*min, *max),
            Source::Tuple {
                ip_min,
                ip_max,
                port_min,
                port_max,
                ..
            } => {
                let reversed = ip_min > ip_max || port_min > port_max;
                reversed.then(|| "the first address or port is above the last".to_owned())
            }
            Source::Grid { dimensions, .. } => grid_wrong(dimensions),
        };
        wrong.or_else(|| {
            let next = self.next.as_ref()?;
            let may = matches!(
                self.source,
                Source::Counter { .. } | Source::List { .. } | Source::RandomLimit { .. }
            );
            match after {
                _ if !may => Some("it never wraps, so no variable can follow it".to_owned()),
                Some(after) if after.name != *next => {
                    Some(format!("{next} must be the variable directly after it"))
                }
                None => Some(format!("{next} must be the variable directly after it")),
                Some(after) if after.split => {
                    Some(format!("{next} advances with it and cannot be split"))
                }
                Some(Variable {
                    source: Source::Tuple { .. } | Source::Grid { .. },
                    ..
                }) => Some(format!("{next} is a group and advances with every frame")),
                Some(_) => None,
            }
        })
    }
}

/// What is wrong with these dimensions.
fn grid_wrong(dimensions: &[Dimension]) -> Option<String> {
    if dimensions.is_empty() {
        return Some("the set has no dimensions".to_owned());
    }
    for Dimension {
        name,
        width,
        values,
    } in dimensions
    {
        let Some(largest) = values.largest() else {
            return Some(format!("dimension {name} has no values"));
        };
        if largest > u128::from(width.max()) {
            let bytes = width.bytes();
            return Some(format!(
                "dimension {name}: {largest} does not fit {bytes} bytes"
            ));
        }
    }
    let all = dimensions
        .iter()
        .try_fold(1_u64, |n, d| n.checked_mul(d.values.count()));
    all.is_none()
        .then(|| "more than 2^64 - 1 members".to_owned())
}

/// A counter modulo its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counter {
    direction: Direction,
    /// The value at offset 0: the smallest, or counting down the largest.
    base: u64,
    /// How far the value is from the base.
    offset: u64,
    step: u64,
    /// How many values the range has, after widening; up to 2^64.
    range: u128,
}

impl Counter {
    /// Of [`Source::Counter`], or the places of [`Source::List`].
    fn new(source: &Source, width: Width) -> Result<Counter, String> {
        let (direction, initial, min, max, step, is_list) = match source {
            Source::Counter {
                direction,
                initial,
                min,
                max,
                step,
            } => (*direction, *initial, *min, *max, *step, false),
            Source::List {
                direction,
                values,
                step,
            } => {
                let last = values.len() as u64 - 1;
                let initial = if *direction == Direction::Increment {
                    0
                } else {
                    last
                };
                (*direction, initial, 0, last, *step, true)
            }
            _ => return Err("it does not count".to_owned()),
        };
        let size = u128::from(max - min) + 1;
        let range = if is_list {
            size
        } else {
            size.next_multiple_of(u128::from(step))
        };
        let more = range - size;
        let room = match direction {
            Direction::Increment => width.max() - max,
            Direction::Decrement => min,
        };
        if !is_list && more > u128::from(room) {
            return Err(format!(
                "{size} values are not a multiple of the step {step}, and there is no room for {more} more; \
                 choose another range or step"
            ));
        }
        let (base, offset) = match direction {
            Direction::Increment => (min, initial - min),
            Direction::Decrement => (max, max - initial),
        };
        Ok(Counter {
            direction,
            base,
            offset,
            step,
            range,
        })
    }

    #[inline]
    fn value(&self) -> u64 {
        match self.direction {
            Direction::Increment => self.base + self.offset,
            Direction::Decrement => self.base - self.offset,
        }
    }

    /// Moves so many steps; says how often it crossed the end.
    #[inline]
    fn advance(&mut self, steps: u64) -> u64 {
        let to = u128::from(self.offset) + u128::from(steps) * u128::from(self.step);
        if to < self.range {
            self.offset = to as u64;
            return 0;
        }
        let to = to - self.range;
        if to < self.range {
            self.offset = to as u64;
            return 1;
        }
        self.offset = (to % self.range) as u64;
        1 + (to / self.range) as u64
    }

    /// Moves by `stride` steps after each of so many frames, if it is far enough from the end; says what its values are then.
    fn run(&mut self, stride: u64, frames: usize) -> Option<Line> {
        let step = stride.checked_mul(self.step)?;
        let end = u128::from(self.offset) + u128::from(step) * AHEAD as u128;
        if end >= self.range {
            return None;
        }
        let line = Line {
            first: self.value(),
            step: match self.direction {
                Direction::Increment => step,
                Direction::Decrement => step.wrapping_neg(),
            },
        };
        self.offset += step * frames as u64;
        Some(line)
    }

    /// After how many steps it is where it was.
    fn period(&self) -> u128 {
        self.range / gcd(self.range, u128::from(self.step))
    }
}

/// TRex's generator and its draws (Microsoft's C runtime `rand`, as a set of `limit` values).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lcg {
    state: u32,
}

impl Lcg {
    /// 15 bits.
    #[inline]
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(214_013).wrapping_add(2_531_011);
        u64::from(self.state >> 16 & 0x7fff)
    }

    /// 15 bits for fields of 1 and 2 bytes, 31 of 32 for fields of 4, two of these for fields of 8.
    #[inline]
    fn draw_for(&mut self, width: Width) -> u64 {
        match width {
            Width::One | Width::Two => self.draw(),
            Width::Four => self.draw() << 16 | self.draw(),
            Width::Eight => self.draw_for(Width::Four) << 32 | self.draw_for(Width::Four),
        }
    }
}

/// A variable at work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Counter(Counter),
    List {
        places: Counter,
        values: Arc<[u64]>,
    },
    /// Draw number `n` of the seed.
    Random {
        n: u64,
        seed: u64,
        min: u64,
        range: u128,
    },
    RandomList {
        n: u64,
        seed: u64,
        values: Arc<[u64]>,
    },
    RandomLimit {
        lcg: Lcg,
        value: u64,
        drawn: u64,
        limit: u64,
        seed: u32,
        min: u64,
        range: u128,
        width: Width,
    },
    Tuple {
        ip: u64,
        port: u64,
        /// Frames since the last restart.
        sent: u64,
        /// Frames until the next; 0: never.
        limit: u64,
        /// Where a restart begins.
        start: u64,
        ips: u64,
        ports: u64,
        ip_min: u32,
        port_min: u16,
    },
    Grid(Grid),
}

/// This thread's share of `limit` things that are dealt out one by one.
pub(super) fn share(limit: u64, thread: u32, threads: u32) -> u64 {
    let (thread, threads) = (u64::from(thread), u64::from(threads));
    limit / threads + u64::from(thread < limit % threads)
}

impl State {
    /// The first value of thread 0, and what differs in the other threads but for the [stride](State::stride).
    pub(super) fn new(
        variable: &Variable,
        thread: u32,
        threads: u32,
    ) -> Result<State, ModifierError> {
        let width = variable.width;
        let share_of = |limit: u64| match limit {
            limit if !variable.split => Ok(limit),
            limit if limit < u64::from(threads) => Err(ModifierError::TooManyThreads {
                name: variable.name.clone(),
                limit,
                threads,
            }),
            limit => Ok(share(limit, thread, threads)),
        };
        let counter = || {
            Counter::new(&variable.source, width).map_err(|what| ModifierError::Variable {
                name: variable.name.clone(),
                what,
            })
        };
        // Thread 0 has the seed itself.
        let own = |seed: u64| {
            if thread == 0 {
                seed
            } else {
                mix(seed, u64::from(thread))
            }
        };
        Ok(match &variable.source {
            Source::Counter { .. } => State::Counter(counter()?),
            Source::List { values, .. } => State::List {
                places: counter()?,
                values: values.as_slice().into(),
            },
            Source::Random { min, max, seed } => State::Random {
                n: 0,
                seed: own(*seed),
                min: *min,
                range: u128::from(max - min) + 1,
            },
            Source::RandomList { values, seed } => State::RandomList {
                n: 0,
                seed: own(*seed),
                values: values.as_slice().into(),
            },
            Source::RandomLimit {
                min,
                max,
                limit,
                seed,
            } => {
                let limit = share_of(*limit)?;
                let mut state = State::RandomLimit {
                    lcg: Lcg { state: *seed },
                    value: 0,
                    // As after the last value: the first step is a restart.
                    drawn: limit,
                    limit,
                    seed: *seed,
                    min: *min,
                    range: u128::from(max - min) + 1,
                    width,
                };
                state.advance(1);
                state
            }
            Source::Tuple {
                ip_min,
                ip_max,
                port_min,
                port_max,
                limit,
            } => State::Tuple {
                ip: 0,
                port: 0,
                sent: 0,
                limit: if *limit == 0 { 0 } else { share_of(*limit)? },
                start: if variable.split { u64::from(thread) } else { 0 },
                ips: u64::from(ip_max - ip_min) + 1,
                ports: u64::from(port_max - port_min) + 1,
                ip_min: *ip_min,
                port_min: *port_min,
            },
            Source::Grid { dimensions, visits } => State::Grid(Grid::new(dimensions, *visits)),
        })
    }

    /// Steps per frame when the variable is split over so many threads: 1 where each thread runs for itself.
    pub(super) fn stride(&self, threads: u32) -> u64 {
        match self {
            State::Random { .. } | State::RandomList { .. } | State::RandomLimit { .. } => 1,
            _ => threads.into(),
        }
    }

    /// Moves so many steps; says how often it wrapped.
    #[inline]
    pub(super) fn advance(&mut self, steps: u64) -> u64 {
        match self {
            State::Counter(counter) => counter.advance(steps),
            State::List { places, .. } => places.advance(steps),
            State::Grid(grid) => {
                grid.tour.advance(steps);
                0
            }
            State::Random { n, .. } | State::RandomList { n, .. } => {
                *n = n.wrapping_add(steps);
                0
            }
            State::RandomLimit {
                lcg,
                value,
                drawn,
                limit,
                seed,
                min,
                range,
                width,
            } => {
                let mut restarts = 0;
                for _ in 0..steps {
                    if *drawn == *limit {
                        lcg.state = *seed;
                        *drawn = 0;
                        restarts += 1;
                    }
                    *drawn += 1;
                    let draw = lcg.draw_for(*width);
                    // A range of 2^64 is all that 8 bytes have.
                    *value = *min + u64::try_from(*range).map_or(draw, |range| draw % range);
                }
                restarts
            }
            State::Tuple {
                ip,
                port,
                sent,
                limit,
                start,
                ips,
                ports,
                ..
            } => {
                *sent += 1;
                let steps = if *limit != 0 && *sent == *limit {
                    (*sent, *ip, *port) = (0, 0, 0);
                    *start
                } else {
                    steps
                };
                *ip += steps;
                if *ip >= *ips {
                    *port = (*port + *ip / *ips) % *ports;
                    *ip %= *ips;
                }
                0
            }
        }
    }

    /// Moves to where thread `thread` of several starts.
    pub(super) fn start(&mut self, thread: u64) -> u64 {
        let wraps = self.advance(thread);
        if let State::Tuple { sent, .. } = self {
            *sent = 0;
        }
        wraps
    }

    /// As [`run`](Self::run) with the same step after every frame, where the variable is far enough from where it wraps: most of
    /// the time, and cheap. Otherwise false, and nothing is done.
    pub(super) fn run_straight(&mut self, step: u64, said: &mut [Said], frames: usize) -> bool {
        match self {
            State::Counter(counter) => {
                let line = counter.run(step, frames);
                line.is_some_and(|line| {
                    said[0].set_line(line);
                    true
                })
            }
            State::Grid(grid) => grid.read_row(step, said, frames),
            _ => false,
        }
    }

    /// What the variable says in the next `frames` frames, for each of the names that [`Variable::values`] has. Before each,
    /// `steps` says how far the variable moves after it; afterwards, how often it wrapped then.
    pub(super) fn run(&mut self, steps: &mut Column, said: &mut [Said], frames: usize) {
        if let State::Grid(grid) = self {
            // A set moves by the same steps after every frame, and never wraps.
            grid.read(steps[0], said, frames);
            return;
        }
        let mut columns = [[0; AHEAD]; 2];
        for (frame, steps) in steps[..frames].iter_mut().enumerate() {
            let mut values = [0; 2];
            self.read(&mut values);
            for (column, value) in columns.iter_mut().zip(values) {
                column[frame] = value;
            }
            *steps = if *steps > 0 { self.advance(*steps) } else { 0 };
        }
        for (said, column) in said.iter_mut().zip(columns) {
            *said.set_column(0) = column;
        }
    }

    #[inline]
    fn read(&self, values: &mut [u64; 2]) {
        match self {
            State::Counter(counter) => values[0] = counter.value(),
            State::List {
                places,
                values: list,
            } => values[0] = list[places.value() as usize],
            State::Random {
                n,
                seed,
                min,
                range,
            } => {
                let random = mix(*seed, *n);
                values[0] = match u64::try_from(*range) {
                    Ok(range) => min + scale(random, range),
                    Err(_) => random,
                };
            }
            State::RandomList {
                n,
                seed,
                values: list,
            } => values[0] = list[scale(mix(*seed, *n), list.len() as u64) as usize],
            State::RandomLimit { value, .. } => values[0] = *value,
            State::Tuple {
                ip,
                port,
                ip_min,
                port_min,
                ..
            } => {
                values[0] = u64::from(*ip_min) + ip;
                values[1] = u64::from(*port_min) + port;
            }
            State::Grid(_) => unreachable!("a set is read by columns"),
        }
    }

    /// After how many single steps it repeats itself, if it does, and how often it wraps until then.
    pub(super) fn period(&self) -> Option<(u128, u128)> {
        match self {
            State::Counter(counter)
            | State::List {
                places: counter, ..
            } => {
                let period = counter.period();
                Some((period, period * u128::from(counter.step) / counter.range))
            }
            State::RandomLimit { limit, .. } => Some(((*limit).into(), 1)),
            State::Tuple {
                limit, ips, ports, ..
            } => Some(match *limit {
                0 => (u128::from(ips * ports), 1),
                limit => (limit.into(), 1),
            }),
            State::Grid(grid) => grid.tour.period().map(|period| (period.into(), 1)),
            _ => None,
        }
    }

    /// Does it restart after so many frames, whatever its steps?
    pub(super) fn counts_frames(&self) -> bool {
        matches!(self, State::Tuple { limit, .. } if *limit > 0)
    }
}

/// Greatest common divisor.
pub(super) fn gcd(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
