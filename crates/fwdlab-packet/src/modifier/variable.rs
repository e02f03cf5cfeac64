//! Variables: values that advance from frame to frame.
//!
//! The [`machine`](super::machine) decides where the values are written. Start with [`Source`];
//! [`State`] runs it.

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

/// Direction of a counter.
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
    /// Its name. Groups ([`Source::Tuple`], [`Source::Grid`]) define names of the form
    /// `<name>.<part>`.
    pub name: String,
    /// Width of its values; the values of a group have their own widths.
    pub width: Width,
    /// Where values come from.
    pub source: Source,
    /// True if the threads share it; otherwise each thread runs through all of it.
    pub split: bool,
    /// The variable that advances only when this one wraps, like the next digit of a number. (For
    /// [`Source::RandomLimit`]: when it restarts.)
    pub next: Option<String>,
}

/// Where the values of a variable come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// Counts from `initial` by `step` up or down in the inclusive range, and continues from its
    /// other end. Crossing the end costs one step. If the size of the range is not a multiple of
    /// the step, `max` (down: `min`) moves out until it is.
    Counter {
        /// Direction.
        direction: Direction,
        /// The first value.
        initial: u64,
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
        /// Size of a step; at least 1.
        step: u64,
    },
    /// The values of a list, from the first (down: from the last), `step` entries at a time.
    List {
        /// Direction.
        direction: Direction,
        /// The values.
        values: Vec<u64>,
        /// Number of entries per step; at least 1.
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
    /// Values drawn at random from a list.
    RandomList {
        /// The values.
        values: Vec<u64>,
        /// Decides the sequence.
        seed: u64,
    },
    /// TRex's repeatable random: `limit` values of its generator, then the same values again.
    RandomLimit {
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
        /// Number of values; at least 1.
        limit: u64,
        /// Decides the sequence.
        seed: u32,
    },
    /// Pairs of address and port, as clients use them: defines `<name>.ip` (4 bytes) and
    /// `<name>.port` (2 bytes).
    ///
    /// The address advances with every frame, the port when the addresses wrap; both restart after
    /// `limit` frames.
    Tuple {
        /// The first address.
        ip_min: u32,
        /// The last address.
        ip_max: u32,
        /// The first port.
        port_min: u16,
        /// The last port.
        port_max: u16,
        /// Number of flows; 0: all of them.
        limit: u64,
    },
    /// A Cartesian set: defines `<name>.<dimension>` for each dimension. In sequence, the first
    /// changes fastest.
    Grid {
        /// The dimensions.
        dimensions: Vec<Dimension>,
        /// The order in which the members are visited.
        visits: Visits,
    },
}

/// One dimension of a [`Source::Grid`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dimension {
    /// Its name; the variable's name precedes it.
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
        /// Distance between values.
        step: u64,
        /// Number of values.
        count: u64,
    },
    /// The listed values.
    List(Vec<u64>),
}

impl Values {
    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        match self {
            Values::Range { count, .. } => *count,
            Values::List(values) => values.len() as u64,
        }
    }

    /// Returns value number `n`.
    ///
    /// # Panics
    /// If a list is shorter.
    pub fn get(&self, n: u64) -> u64 {
        match self {
            Values::Range { first, step, .. } => first + step * n,
            Values::List(values) => values[n as usize],
        }
    }

    /// Returns the largest value; `None` if there are none.
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
    /// Returns the names and widths of the values it defines.
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

    /// Returns its smallest value; 0 for a group.
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

    /// Checks that the variable is valid. `after`: the variable that is linked to it.
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

/// Returns what is wrong with these dimensions.
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
    /// The value at offset 0: the smallest, or the largest if it counts down.
    base: u64,
    /// Distance of the value from the base.
    offset: u64,
    step: u64,
    /// Number of values in the range, after widening; up to 2^64.
    range: u128,
}

impl Counter {
    /// A counter for [`Source::Counter`], or for the indices of [`Source::List`].
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

    /// Advances by `steps`; returns how often it crossed the end.
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

    /// Advances by `stride` after each of `frames` frames, if it is far enough from the end;
    /// returns its values.
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

    /// Returns the number of steps until it is back at the same value.
    fn period(&self) -> u128 {
        self.range / gcd(self.range, u128::from(self.step))
    }
}

/// TRex's generator and how it draws (`rand` of Microsoft's C runtime, as a set of `limit` values).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lcg {
    state: u32,
}

impl Lcg {
    /// Draws 15 bits.
    #[inline]
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(214_013).wrapping_add(2_531_011);
        u64::from(self.state >> 16 & 0x7fff)
    }

    /// Draws 15 bits for fields of 1 and 2 bytes, 31 of 32 for fields of 4, two such draws for
    /// fields of 8.
    #[inline]
    fn draw_for(&mut self, width: Width) -> u64 {
        match width {
            Width::One | Width::Two => self.draw(),
            Width::Four => self.draw() << 16 | self.draw(),
            Width::Eight => self.draw_for(Width::Four) << 32 | self.draw_for(Width::Four),
        }
    }
}

/// The state of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Counter(Counter),
    List {
        places: Counter,
        values: Arc<[u64]>,
    },
    /// Value `n` of the sequence that the seed defines.
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
        /// Frames between restarts; 0: never restarts.
        limit: u64,
        /// Position after a restart.
        start: u64,
        ips: u64,
        ports: u64,
        ip_min: u32,
        port_min: u16,
    },
    Grid(Grid),
}

/// Returns this thread's share of `limit` things that are dealt out in turn.
pub(super) fn share(limit: u64, thread: u32, threads: u32) -> u64 {
    let (thread, threads) = (u64::from(thread), u64::from(threads));
    limit / threads + u64::from(thread < limit % threads)
}

impl State {
    /// Returns the state of a thread before [`start`](State::start): only random seeds, limits and
    /// restart positions differ between threads.
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
        // Thread 0 uses the seed itself.
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
                    // The state after the last value, so that the first step is a restart.
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

    /// Returns the steps per frame when the variable is split over `threads` threads: 1 if each
    /// thread runs on its own.
    pub(super) fn stride(&self, threads: u32) -> u64 {
        match self {
            State::Random { .. } | State::RandomList { .. } | State::RandomLimit { .. } => 1,
            _ => threads.into(),
        }
    }

    /// Advances by `steps`; returns how often it wrapped.
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
                    // A range of 2^64 is every 8-byte value.
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

    /// Moves to the start of thread number `thread`.
    pub(super) fn start(&mut self, thread: u64) -> u64 {
        let wraps = self.advance(thread);
        if let State::Tuple { sent, .. } = self {
            *sent = 0;
        }
        wraps
    }

    /// Like [`run`](Self::run) with the same step after every frame, if the variable is far enough
    /// from wrapping: true most of the time, and cheap. Otherwise returns false and does nothing.
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

    /// Computes the values of the variable in the next `frames` frames, for each of the names in
    /// [`Variable::values`]. On input, `steps` holds how far the variable moves after each frame;
    /// on output, how often it wrapped then.
    pub(super) fn run(&mut self, steps: &mut Column, said: &mut [Said], frames: usize) {
        if let State::Grid(grid) = self {
            // A set moves by the same number of steps after every frame, and never wraps.
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

    /// Returns the number of single steps after which it repeats, if it does, and how often it
    /// wraps within them.
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

    /// True if it restarts after a number of frames, independent of its steps.
    pub(super) fn counts_frames(&self) -> bool {
        matches!(self, State::Tuple { limit, .. } if *limit > 0)
    }
}

/// Returns the greatest common divisor.
pub(super) fn gcd(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
