//! A program with its template, for one sender thread: renders frames in order.
//!
//! [`Machine::new`] precomputes everything it can. Rendering a frame allocates nothing and looks
//! nothing up, and variables are advanced for many frames at once. Start with [`Machine::render`].

use super::column::{AHEAD, Column, Line, Parts, Values};
use super::fix::Fix;
use super::fused::Fused;
use super::grid::Lists;
use super::variable::{State, Width, gcd, share};
use super::{
    Endian, Instruction, MIN_TRIM, ModifierError, Program, TRAILER_LEN, Transport, Variable,
    trailer,
};
use crate::checksum::fold;
use crate::header::{gre, icmp, icmpv6, tcp, udp};
use crate::signature::{self, Signature};
use std::collections::HashSet;
use std::ops::Range;

/// A running program. Made by [`Program::split`] or [`Program::machine`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    template: Box<[u8]>,
    units: Box<[Unit]>,
    /// The units at the first frame, to which a cache returns.
    first: Box<[Unit]>,
    /// The values of the variables in the next frames.
    values: Box<[Values]>,
    /// The index of the next frame among the precomputed values, and how many are precomputed.
    next: usize,
    known: usize,
    steps: Box<[Step]>,
    /// The same program as the steps, if it can be fused.
    fused: Option<Fused>,
    /// The sum of what each step wrote, before carries, for the checksums.
    written: Box<[u64]>,
    /// True if the template must be copied again before each frame, because an instruction writes
    /// covered bytes after the checksum was computed over the frame: that computation must see the
    /// template's bytes. (A partial sum does not read the frame.)
    copies: bool,
    /// Precomputed frames since the cache restarted, and the number of frames after which it
    /// restarts.
    cached: Option<(u32, u32)>,
}

/// A source of frame buffers.
pub trait Room {
    /// Returns the next buffer, and whether it holds a frame that the same program (in any thread)
    /// rendered there before; `None` if there is no more room.
    fn next(&mut self) -> Option<(&mut [u8], bool)>;

    /// Reports that this buffer now holds the next frame, of `bytes` bytes without FCS.
    fn filled(&mut self, bytes: usize);
}

/// A variable and how it advances.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unit {
    state: State,
    /// The indices of its values.
    values: Range<usize>,
    /// Steps per frame; `None`: advances as often as the previous unit wraps.
    stride: Option<u64>,
    /// True if its value never changes.
    rests: bool,
}

/// An instruction with all names resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Put(Field),
    Trim {
        value: usize,
    },
    Signature {
        at: usize,
    },
    Trailer {
        group: u16,
        generation: u8,
    },
    /// A checksum from the partial sum and what these steps wrote, each shifted by 0 or 8 bits.
    Sum {
        fix: Fix,
        constant: u64,
        terms: Box<[(usize, u32)]>,
    },
    /// A checksum computed over all covered bytes.
    Compute(Fix),
}

/// How a value becomes the contents of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub value: usize,
    pub at: usize,
    pub width: Width,
    add: u64,
    /// Mask of the sum's bits.
    wrap: u64,
    /// Bits to the left.
    shift: i8,
    endian: Endian,
    /// The bits that are written, in the field read as big endian.
    mask: u64,
}

impl Machine {
    pub(super) fn new(
        program: &Program,
        template: &[u8],
        thread: u32,
        threads: u32,
    ) -> Result<Machine, ModifierError> {
        let (mut units, names) = units(program, thread, threads)?;
        start(&mut units, |stride| match stride {
            1 => 0,
            _ => thread.into(),
        });
        let cached = program
            .cache
            .filter(|cache| *cache > 0)
            .map(|cache| (0, share(cache.into(), thread, threads).max(1) as u32));
        Machine::with(program, template, units, names, cached)
    }

    /// As [`Program::every`].
    pub(super) fn every(
        program: &Program,
        template: &[u8],
        first: u64,
        step: u64,
    ) -> Result<Machine, ModifierError> {
        let (mut units, names) = units(program, 0, 1)?;
        for unit in &mut units {
            unit.stride = unit.stride.map(|_| step);
        }
        start(&mut units, |_| first);
        Machine::with(program, template, units, names, None)
    }

    fn with(
        program: &Program,
        template: &[u8],
        units: Vec<Unit>,
        names: Names,
        cached: Option<(u32, u32)>,
    ) -> Result<Machine, ModifierError> {
        let mut compiler = Compiler {
            template,
            names: &names,
            steps: Vec::new(),
            shortest: shortest(program, template.len()),
            writes_after_fix: false,
        };
        for (at, instruction) in program.instructions.iter().enumerate() {
            compiler.instruction(at, instruction)?;
        }
        let steps = compiler.steps;
        let copies =
            compiler.writes_after_fix && steps.iter().any(|s| matches!(s, Step::Compute(_)));
        let units = units.into_boxed_slice();
        Ok(Machine {
            template: template.into(),
            first: units.clone(),
            units,
            values: vec![Values::new(); names.len()].into(),
            next: 0,
            known: 0,
            written: vec![0; steps.len()].into(),
            fused: Fused::new(&steps, template),
            steps: steps.into(),
            copies,
            cached,
        })
    }

    /// Precomputes its sets from now on if that is faster. For machines that render many frames;
    /// the frames are the same with and without lists.
    pub fn use_lists(&mut self, lists: &mut Lists) {
        for unit in self.units.iter_mut().chain(&mut self.first) {
            if let (State::Grid(grid), Some(stride)) = (&mut unit.state, unit.stride) {
                lists.list(grid, stride);
            }
        }
    }

    /// Returns the size that a buffer needs: that of the template, in bytes without FCS.
    pub fn buffer_len(&self) -> usize {
        self.template.len()
    }

    /// Returns the number of frames after which this thread's frames repeat, if they do within
    /// 2^64.
    ///
    /// A sender whose ring holds that many frames renders them once. Not necessarily the smallest
    /// such number.
    pub fn period(&self) -> Option<u64> {
        if self
            .steps
            .iter()
            .any(|step| matches!(step, Step::Signature { .. } | Step::Trailer { .. }))
        {
            return None;
        }
        if let Some((_, cache)) = self.cached {
            return Some(cache.into());
        }
        let (mut all, mut frames, mut wraps) = (1_u128, 1_u128, 0_u128);
        for unit in &self.units {
            let (period, wraps_in_period) = unit.state.period()?;
            let (every, steps) = match unit.stride {
                None => (frames, wraps),
                Some(_) if unit.state.counts_frames() => (1, 1),
                Some(stride) => (1, stride.into()),
            };
            let times = period / gcd(period, steps);
            frames = every.checked_mul(times)?;
            wraps = steps.checked_mul(times)? / period * wraps_in_period;
            all = (all / gcd(all, frames)).checked_mul(frames)?;
        }
        u64::try_from(all).ok()
    }

    /// Writes the next frame to the start of `buffer`; returns its length in bytes without FCS.
    /// Writes the signature if the program has an instruction for it.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`buffer_len`](Self::buffer_len).
    #[inline]
    pub fn render(&mut self, buffer: &mut [u8], signature: &Signature) -> usize {
        buffer[..self.template.len()].copy_from_slice(&self.template);
        self.run(buffer, signature)
    }

    /// Like [`render`](Self::render), over a frame that this program (in any thread) rendered there
    /// before: writes only what differs.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`buffer_len`](Self::buffer_len).
    #[inline]
    pub fn patch(&mut self, buffer: &mut [u8], signature: &Signature) -> usize {
        if self.copies {
            return self.render(buffer, signature);
        }
        self.run(buffer, signature)
    }

    /// Writes up to `frames` frames as [`render`](Self::render) and [`patch`](Self::patch) do,
    /// until there is no more room; adds one to the signature's sequence number after each. Returns
    /// the number of frames.
    ///
    /// Decisions and checksums are made for many frames at once.
    ///
    /// # Panics
    /// If a buffer is shorter than [`buffer_len`](Self::buffer_len).
    #[inline]
    pub fn fill(&mut self, frames: u64, signature: &mut Signature, room: &mut impl Room) -> u64 {
        let mut filled = 0;
        while filled < frames {
            if self.next == self.known {
                self.precompute();
            }
            let Some(fused) = &mut self.fused else {
                let Some((buffer, held)) = room.next() else {
                    break;
                };
                let bytes = match held {
                    true => self.patch(buffer, signature),
                    false => self.render(buffer, signature),
                };
                room.filled(bytes);
                signature.sequence += 1;
                filled += 1;
                continue;
            };
            let lookahead = ((self.known - self.next) as u64).min(signature.until_wrap());
            let lookahead = lookahead.min(frames - filled) as usize;
            let len = self.template.len();
            fused.begin_run(self.next, signature);
            for next in self.next..self.next + lookahead {
                let Some((buffer, held)) = room.next() else {
                    return filled;
                };
                let frame = &mut buffer[..len];
                if !held {
                    frame.copy_from_slice(&self.template);
                }
                fused.write_run(frame, next, signature);
                room.filled(len);
                self.next = next + 1;
                signature.sequence += 1;
                filled += 1;
            }
        }
        filled
    }

    #[inline]
    fn run(&mut self, buffer: &mut [u8], signature: &Signature) -> usize {
        if self.next == self.known {
            self.precompute();
        }
        let next = self.next;
        self.next += 1;
        let frame = &mut buffer[..self.template.len()];
        match &self.fused {
            Some(fused) => {
                fused.write(frame, next, signature);
                frame.len()
            }
            None => self.steps(frame, next, signature),
        }
    }

    /// Executes the steps in turn; returns the length of the frame.
    fn steps(&mut self, frame: &mut [u8], next: usize, signature: &Signature) -> usize {
        let mut len = frame.len();
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Put(field) => {
                    let wire = field.wire(self.values[field.value].get(next));
                    let kept = field.kept(frame);
                    put(frame, field.at, field.width, kept | wire);
                    self.written[at] = halves(wire);
                }
                Step::Trim { value } => {
                    let most = frame.len();
                    let least = usize::from(MIN_TRIM).min(most);
                    len = (self.values[*value].get(next) as usize).clamp(least, most);
                }
                Step::Signature { at: to } => {
                    signature.write(&mut frame[*to..]);
                    self.written[at] = signature.wide_sum();
                }
                Step::Trailer { group, generation } => {
                    frame[len - TRAILER_LEN..len].copy_from_slice(&trailer(
                        *group,
                        *generation,
                        signature,
                    ));
                }
                Step::Sum {
                    fix,
                    constant,
                    terms,
                } => {
                    let terms = terms
                        .iter()
                        .map(|(step, shift)| self.written[*step] << shift);
                    // A term has at most 44 bits and a program few of them; folding once is enough.
                    let sum = constant + terms.sum::<u64>();
                    fix.set(frame, sum);
                }
                Step::Compute(fix) => fix.compute(&mut frame[..len]),
            }
        }
        len
    }

    /// Advances the variables by many frames, or to the end of the cache.
    #[inline(never)]
    fn precompute(&mut self) {
        let mut frames = AHEAD;
        if let Some((known, cache)) = &mut self.cached {
            if known == cache {
                *known = 0;
                self.units.clone_from_slice(&self.first);
            }
            frames = frames.min((*cache - *known) as usize);
            *known += frames as u32;
        }
        // On input, how far a variable moves after each frame; on output, how often it wrapped,
        // which is how far the next one moves.
        let mut steps = [0; AHEAD];
        let is_first = self.known == 0;
        for unit in &mut self.units {
            if unit.rests && !is_first {
                continue;
            }
            let values = &mut self.values[unit.values.clone()];
            if let Some(stride) = unit.stride {
                if unit.state.run_straight(stride, values, frames) {
                    steps.fill(0);
                    continue;
                }
                steps.fill(stride);
            }
            unit.state.run(&mut steps, values, frames);
            if unit.rests {
                values
                    .iter_mut()
                    .for_each(|values| values.set_line(Line::level(values.get(0))));
            }
        }
        if let Some(fused) = &mut self.fused {
            fused.precompute(&self.values);
        }
        (self.next, self.known) = (0, frames);
    }
}

impl Field {
    /// Converts a value into the contents of the field, read as big endian.
    #[inline]
    pub fn wire(&self, value: u64) -> u64 {
        let value = value.wrapping_add(self.add) & self.wrap;
        let value = match self.shift {
            0.. => value << self.shift,
            _ => value >> -self.shift,
        };
        on_wire(value & self.width.max(), self.width, self.endian) & self.mask
    }

    /// True if the field contains the variable's value unchanged. (Then the field is as wide as the
    /// variable, so no value is too large.)
    fn is_plain(&self) -> bool {
        let is_whole = self.wrap == u64::MAX && self.mask == self.width.max();
        is_whole && self.add == 0 && self.shift == 0 && self.endian == Endian::Big
    }

    /// [`Field::wire`] for many values, and the amounts they add to the sum of a checksum. Borrows
    /// the values themselves if they are unchanged; otherwise fills `room`.
    #[inline]
    pub fn wires<'a>(&self, values: &'a Values, room: &'a mut [Column; 2]) -> [Parts<'a>; 2] {
        let parts = values.parts();
        if self.is_plain() && self.width != Width::Eight {
            return [parts, parts];
        }
        if let (Line { first, step: 0 }, None) = parts {
            let wire = self.wire(first);
            return [wire, halves(wire)].map(|number| (Line::level(number), None));
        }
        let [wires, summands] = room;
        for (frame, (wire, summand)) in wires.iter_mut().zip(summands.iter_mut()).enumerate() {
            *wire = self.wire(values.get(frame));
            *summand = halves(*wire);
        }
        [&*wires, &*summands].map(|column| (Line::level(0), Some(column)))
    }

    /// Returns the bits that a write leaves unchanged.
    #[inline]
    pub fn kept(&self, frame: &[u8]) -> u64 {
        match self.mask == self.width.max() {
            true => 0,
            false => take(frame, self.at, self.width) & !self.mask,
        }
    }
}

/// Returns the sum of the four 16-bit words: equal to the number itself in a checksum's sum,
/// without carries.
#[inline]
fn halves(wire: u64) -> u64 {
    (wire >> 32) + (wire & 0xffff_ffff)
}

/// Returns the contents of a field of this width that holds `value`, read as big endian.
#[inline]
fn on_wire(value: u64, width: Width, endian: Endian) -> u64 {
    match endian {
        Endian::Big => value,
        Endian::Little => value.swap_bytes() >> (64 - 8 * width.bytes()),
    }
}

/// Writes a field, big endian.
#[inline]
fn put(frame: &mut [u8], at: usize, width: Width, wire: u64) {
    match width {
        Width::One => frame[at] = wire as u8,
        Width::Two => frame[at..at + 2].copy_from_slice(&(wire as u16).to_be_bytes()),
        Width::Four => frame[at..at + 4].copy_from_slice(&(wire as u32).to_be_bytes()),
        Width::Eight => frame[at..at + 8].copy_from_slice(&wire.to_be_bytes()),
    }
}

/// Reads a field, big endian.
#[inline]
fn take(frame: &[u8], at: usize, width: Width) -> u64 {
    let bytes = &frame[at..at + width.bytes()];
    bytes
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Names and widths of all values.
type Names = Vec<(String, Width)>;

/// The variables' states, and the names and widths of all values.
fn units(
    program: &Program,
    thread: u32,
    threads: u32,
) -> Result<(Vec<Unit>, Names), ModifierError> {
    let mut names = Names::new();
    let mut seen = HashSet::new();
    let mut units: Vec<Unit> = Vec::new();
    for (at, variable) in program.variables.iter().enumerate() {
        variable.check(program.variables.get(at + 1))?;
        let own = variable.values();
        for (name, _) in &own {
            if !seen.insert(name.clone()) {
                let name = name.clone();
                return Err(ModifierError::Twice { name });
            }
        }
        let state = State::new(variable, thread, threads)?;
        let linked = at > 0 && program.variables[at - 1].next.is_some();
        let stride = match variable.split {
            true => state.stride(threads),
            false => 1,
        };
        // A variable that is linked to another must wrap.
        let rests =
            !linked && variable.next.is_none() && state.period().is_some_and(|(n, _)| n == 1);
        units.push(Unit {
            state,
            values: names.len()..names.len() + own.len(),
            stride: (!linked).then_some(stride),
            rests,
        });
        names.extend(own);
    }
    Ok((units, names))
}

/// Moves the units to the first frame: those that are not linked by as many steps as `first`
/// returns for their stride.
fn start(units: &mut [Unit], first: impl Fn(u64) -> u64) {
    let mut wraps = 0;
    for unit in units {
        wraps = match unit.stride {
            None => unit.state.start(wraps),
            Some(stride) => match first(stride) {
                0 => 0,
                steps => unit.state.start(steps),
            },
        };
    }
}

/// Returns the length of the shortest frame, in bytes without FCS. The last trim decides it, so no
/// trim may be below the minimum.
fn shortest(program: &Program, template: usize) -> usize {
    let trims = program.instructions.iter().filter_map(|i| match i {
        Instruction::Trim { variable } => Some(variable),
        _ => None,
    });
    let shortest = trims.map(|name| {
        let variable = program.variables.iter().find(|v| v.name == *name);
        let least = variable.map_or(0, Variable::smallest).max(MIN_TRIM.into());
        usize::try_from(least).unwrap_or(template)
    });
    shortest.min().unwrap_or(template).min(template)
}

/// Turns instructions into steps.
struct Compiler<'a> {
    template: &'a [u8],
    names: &'a Names,
    steps: Vec<Step>,
    /// Length of the shortest frame that the program produces, in bytes without FCS.
    shortest: usize,
    writes_after_fix: bool,
}

impl Compiler<'_> {
    fn instruction(&mut self, at: usize, instruction: &Instruction) -> Result<(), ModifierError> {
        let wrong = |what: &str| {
            Err(ModifierError::Instruction {
                at,
                what: what.to_owned(),
            })
        };
        match instruction {
            Instruction::Write {
                variable,
                offset,
                add,
                endian,
            } => {
                let (value, width) = self.value(variable)?;
                let to = self.room(at, *offset, width.bytes())?;
                self.write(Step::Put(Field {
                    value,
                    at: to,
                    width,
                    add: *add as u64,
                    wrap: u64::MAX,
                    shift: 0,
                    endian: *endian,
                    mask: width.max(),
                }));
            }
            Instruction::WriteMask {
                variable,
                offset,
                width,
                mask,
                shift,
                add,
                endian,
            } => {
                let (value, _) = self.value(variable)?;
                let to = self.room(at, *offset, width.bytes())?;
                if *width == Width::Eight {
                    return wrong("a masked field has 1, 2 or 4 bytes");
                }
                if !(-31..=31).contains(shift) {
                    return wrong("a shift is between -31 and 31 bits");
                }
                self.write(Step::Put(Field {
                    value,
                    at: to,
                    width: *width,
                    add: *add as u64,
                    wrap: u32::MAX.into(),
                    shift: *shift,
                    endian: *endian,
                    mask: on_wire(u64::from(*mask) & width.max(), *width, *endian),
                }));
            }
            Instruction::Trim { variable } => {
                let (value, width) = self.value(variable)?;
                if width != Width::Two {
                    return wrong("the variable of a frame length has 2 bytes");
                }
                self.steps.push(Step::Trim { value });
            }
            Instruction::Signature { offset } => {
                let to = self.room(at, *offset, signature::LEN)?;
                if to + signature::LEN > self.shortest {
                    return wrong(
                        "trimmed frames may end inside of the signature; put it before their shortest end",
                    );
                }
                self.write(Step::Signature { at: to });
            }
            Instruction::Trailer { group, generation } => {
                if self.shortest < TRAILER_LEN {
                    return wrong(
                        "the frame is shorter than the 16 bytes that are written at its end",
                    );
                }
                self.write(Step::Trailer {
                    group: *group,
                    generation: *generation,
                });
            }
            Instruction::FixIpv4 { offset } => {
                let ip = self.room(at, *offset, 20)?;
                if self.template[ip] >> 4 != 4 {
                    return wrong("there is no IPv4 header in the template at this offset");
                }
                self.fix(at, Fix::ipv4_header(ip))?;
            }
            Instruction::FixTransport {
                l2_len,
                l3_len,
                transport,
            } => {
                let ip = self.room(at, *l2_len, 20)?;
                let version = self.template[ip] >> 4;
                let least = match version {
                    4 => 20,
                    6 => 40,
                    _ => return wrong("there is no IP header in the template after l2_len bytes"),
                };
                if *l2_len < 14 || *l3_len < least {
                    return wrong("l2_len is at least 14, and l3_len at least 20, in IPv6 40");
                }
                if version == 4 {
                    self.fix(at, Fix::ipv4_header(ip))?;
                }
                let after = ip + usize::from(*l3_len);
                match transport {
                    Transport::Udp => self.fix(at, Fix::transport(ip, udp::PROTOCOL, after))?,
                    Transport::Tcp => self.fix(at, Fix::transport(ip, tcp::PROTOCOL, after))?,
                    Transport::Icmp => self.fix(at, Fix::transport(ip, icmp::PROTOCOL, after))?,
                    Transport::Gre => {
                        self.inside(at, after..after + gre::HEADER_LEN)?;
                        let gre = gre::Packet::new(&self.template[after..]);
                        if gre.is_ok_and(|packet| packet.has_checksum()) {
                            self.fix(at, Fix::transport(ip, gre::PROTOCOL, after))?;
                        }
                    }
                    Transport::IpOnly => {}
                }
            }
            Instruction::FixIcmpv6 { l2_len, l3_len } => {
                let ip = self.room(at, *l2_len, 40)?;
                if self.template[ip] >> 4 != 6 || *l3_len < 40 {
                    return wrong(
                        "there is no IPv6 header of l3_len bytes in the template after l2_len bytes",
                    );
                }
                let after = ip + usize::from(*l3_len);
                self.fix(at, Fix::transport(ip, icmpv6::PROTOCOL, after))?;
            }
        }
        Ok(())
    }

    /// Returns the index and width of the value with this name.
    fn value(&self, name: &str) -> Result<(usize, Width), ModifierError> {
        let found = self.names.iter().position(|(of_value, _)| of_value == name);
        found
            .map(|value| (value, self.names[value].1))
            .ok_or_else(|| ModifierError::Unknown {
                name: name.to_owned(),
            })
    }

    /// Returns the offset if `bytes` bytes from there are within the template.
    fn room(&self, at: usize, offset: u16, bytes: usize) -> Result<usize, ModifierError> {
        let offset = usize::from(offset);
        self.inside(at, offset..offset + bytes)?;
        Ok(offset)
    }

    fn inside(&self, at: usize, bytes: Range<usize>) -> Result<(), ModifierError> {
        match bytes.end <= self.template.len() {
            true => Ok(()),
            false => Err(ModifierError::Beyond {
                at,
                offset: bytes.start,
                end: bytes.end,
                template: self.template.len(),
            }),
        }
    }

    fn write(&mut self, step: Step) {
        self.writes_after_fix |= self
            .steps
            .iter()
            .any(|step| matches!(step, Step::Sum { .. } | Step::Compute(_)));
        self.steps.push(step);
    }

    /// Adds a checksum: from a partial sum if every earlier write lies either completely inside the
    /// covered bytes, without overlaps, or outside of them.
    fn fix(&mut self, at: usize, fix: Fix) -> Result<(), ModifierError> {
        self.inside(at, fix.field())?;
        let step = self.sum(fix).unwrap_or(Step::Compute(fix));
        self.steps.push(step);
        Ok(())
    }

    fn sum(&self, fix: Fix) -> Option<Step> {
        let covered = fix.covered(self.template)?;
        let last_byte = covered.ranges[1].end.max(covered.ranges[0].end);
        // the position of a trailer is known only when the frame's length is
        let is_trailer = |step: &Step| matches!(step, Step::Trailer { .. });
        let trailer = match self.steps.iter().any(is_trailer) {
            true => TRAILER_LEN,
            false => 0,
        };
        if last_byte + trailer > self.shortest {
            return None;
        }
        let decisive = fix.decisive(self.template);
        let mut blank = self.template.to_vec();
        blank[fix.field()].fill(0);
        let (mut terms, mut earlier): (Vec<(usize, u32)>, Vec<Range<usize>>) = Default::default();
        for (number, step) in self.steps.iter().enumerate() {
            let Some(bytes) = step.bytes() else { continue };
            let meets = |other: &Range<usize>| bytes.start < other.end && other.start < bytes.end;
            if decisive.iter().any(meets) {
                return None;
            }
            let Some(range) = covered.ranges.iter().find(|range| meets(range)) else {
                continue;
            };
            let whole = range.start <= bytes.start && bytes.end <= range.end;
            let by_fix = matches!(step, Step::Sum { .. } | Step::Compute(_));
            if !whole || by_fix || meets(&fix.field()) || earlier.iter().any(meets) {
                return None;
            }
            match step {
                Step::Put(field) => {
                    let kept = field.kept(&blank);
                    put(&mut blank, field.at, field.width, kept);
                }
                _ => blank[bytes.clone()].fill(0),
            }
            // The number's last byte is the low half of a word if the number ends at a word's end.
            let ends_low = (bytes.end - range.start).is_multiple_of(2);
            terms.push((number, if ends_low { 0 } else { 8 }));
            earlier.push(bytes);
        }
        Some(Step::Sum {
            fix,
            constant: u64::from(fold(covered.sum(&blank))),
            terms: terms.into(),
        })
    }
}

impl Step {
    /// Returns the bytes that the step writes.
    pub fn bytes(&self) -> Option<Range<usize>> {
        match self {
            Step::Put(field) => Some(field.at..field.at + field.width.bytes()),
            Step::Signature { at } => Some(*at..*at + signature::LEN),
            Step::Sum { fix, .. } | Step::Compute(fix) => Some(fix.field()),
            Step::Trim { .. } | Step::Trailer { .. } => None,
        }
    }
}
