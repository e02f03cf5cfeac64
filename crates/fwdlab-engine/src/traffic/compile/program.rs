//! Turns the variations in a profile into variables and instructions of a modifier program.
//!
//! Checksums are corrected after all other writes, the innermost first.
//! [`signature`](super::signature) chooses the position of signatures once all frames of a port are
//! known. Start with [`Draft::new`].

use std::ops::Range;

use fwdlab_model::profile::size::Range as Sizes;
use fwdlab_model::profile::vary::Endian as TextEndian;
use fwdlab_model::profile::{
    Change, Checksums, Field, FieldName, Order, Plan, Step, Stream, Value, Vary,
};
use fwdlab_packet::flow::{Addresses, FlowSet};
use fwdlab_packet::modifier::{
    Dimension, Direction, Endian, Instruction, MIN_TRIM, Program, Source, Transport, Values,
    Variable, Width,
};
use fwdlab_packet::permutation::{Visits, mix};
use fwdlab_packet::signature;
use fwdlab_packet::stack::Layer;

use super::place::Place;
use super::shape::{FCS, Shape};
use super::{StreamError, known};
use crate::signature::SignaturePlace;
use crate::traffic::Kind;

/// Name of the variable of a stream's flows.
const FLOWS: &str = "flows";
/// Name of the variable of a frame's length.
const SIZE: &str = "frame length";

/// Frames of one kind, without their signature and checksums.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The first frame.
    pub shape: Shape,
    variables: Vec<Variable>,
    instructions: Vec<Instruction>,
    /// Bytes that the instructions write.
    pub written: Vec<Range<usize>>,
    /// Bytes of the shortest frame without FCS, if lengths differ.
    pub trimmed_to: Option<usize>,
    cache: Option<u32>,
}

/// The values of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Numbers {
    Range { first: u128, last: u128, step: u128 },
    List(Vec<u128>),
}

impl Numbers {
    fn smallest(&self) -> u128 {
        match self {
            Numbers::Range { first, .. } => *first,
            Numbers::List(values) => values.iter().copied().min().unwrap_or(0),
        }
    }

    fn largest(&self) -> u128 {
        match self {
            Numbers::Range { last, .. } => *last,
            Numbers::List(values) => values.iter().copied().max().unwrap_or(0),
        }
    }

    /// Returns the value of the first frame, if the entry counts up.
    fn first(&self) -> u128 {
        match self {
            Numbers::Range { first, .. } => *first,
            Numbers::List(values) => values.first().copied().unwrap_or(0),
        }
    }

    fn map(&self, reduce: impl Fn(u128) -> u128) -> Numbers {
        match self {
            Numbers::Range { first, last, step } => Numbers::Range {
                first: reduce(*first),
                last: reduce(*last),
                step: reduce(*step).max(1),
            },
            Numbers::List(values) => Numbers::List(values.iter().copied().map(reduce).collect()),
        }
    }
}

/// The part that varies, of addresses that are wider than a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// All bytes.
    Whole,
    /// The last 4 of 6 bytes.
    OfMac,
    /// The last 8 of 16 bytes.
    Interface,
    /// The first 8 of 16 bytes.
    Prefix,
}

/// An entry with all names resolved.
struct Entry<'a> {
    vary: &'a Vary,
    /// Its number in the profile.
    number: usize,
    places: Vec<Place>,
    numbers: Numbers,
    part: Part,
    width: Width,
    /// Name of its value.
    value: String,
}

impl Draft {
    /// Returns the program of a stream for a frame. `sizes`: the frame is the largest of these, and
    /// others are cut from it.
    pub fn new(
        stream: &Stream,
        shape: Shape,
        reverse: bool,
        sizes: Option<&Sizes>,
    ) -> Result<Draft, StreamError> {
        let mut draft = Draft {
            shape,
            variables: Vec::new(),
            instructions: Vec::new(),
            written: Vec::new(),
            trimmed_to: None,
            cache: stream.cache,
        };
        let entries = draft.entries(stream, reverse)?;
        draft.flow_set(stream, &entries)?;
        for entry in &entries {
            draft.variable(stream, entry)?;
        }
        for (number, vary) in stream.vary.iter().enumerate() {
            match entries.iter().find(|entry| entry.number == number) {
                Some(entry) => draft.write_entry(entry, reverse)?,
                None => draft.write_again(vary, number, &entries, reverse)?,
            }
        }
        if let Some(flows) = stream.flows {
            draft.default_flows(flows, stream, reverse)?;
        }
        if stream.plan == Plan::Rfc4814 {
            draft.random_ports(stream);
        }
        if let Some(sizes) = sizes {
            draft.sizes(sizes)?;
        }
        Ok(draft)
    }

    /// Resolves all entries with values of their own, and writes their first values into the frame.
    fn entries<'a>(
        &mut self,
        stream: &'a Stream,
        reverse: bool,
    ) -> Result<Vec<Entry<'a>>, StreamError> {
        let mut entries = Vec::new();
        for (number, vary) in stream.vary.iter().enumerate() {
            if vary.uses.is_some() {
                continue;
            }
            let wrong =
                |key: &'static str, reason: String| StreamError::in_vary(number, key, reason);
            let bytes = vary
                .bytes
                .map(usize::from)
                .or(vary.ports.as_ref().map(|_| 4));
            let places = self
                .places(&vary.field, vary.at, bytes, reverse)
                .map_err(|reason| wrong(if vary.at.is_some() { "at" } else { "field" }, reason))?;
            let there = places.first().map(|place| place.read(&self.shape.bytes));
            let numbers = numbers(vary, there).map_err(|(key, reason)| wrong(key, reason))?;
            let (part, width) = match is_length(vary) {
                true => (Part::Whole, Width::Two),
                false => part_and_width(vary, &places, &numbers)
                    .map_err(|(key, reason)| wrong(key, reason))?,
            };
            let plain = vary.mask.is_none()
                && vary.shift.is_none()
                && vary.add.is_none()
                && vary.endian.is_none();
            if plain {
                for place in &places {
                    place.write(&mut self.shape.bytes, numbers.first());
                }
            }
            let value = vary
                .name
                .clone()
                .unwrap_or_else(|| format!("entry {}", number + 1));
            entries.push(Entry {
                vary,
                number,
                places,
                numbers,
                part,
                width,
                value,
            });
        }
        Ok(entries)
    }

    /// Returns the positions of fields, or of explicit bytes, in this direction.
    fn places(
        &self,
        fields: &[Field],
        at: Option<u16>,
        bytes: Option<usize>,
        reverse: bool,
    ) -> Result<Vec<Place>, String> {
        let mut places = Vec::new();
        for field in fields {
            if field.name != FieldName::FrameLength {
                places.push(Place::for_field(*field, &self.shape)?);
            }
        }
        if let (Some(at), Some(bytes)) = (at, bytes) {
            let at = usize::from(at);
            // behind a tag that is not in the profile
            let at = if self.shape.tagged && at >= 12 {
                at + 4
            } else {
                at
            };
            let place = Place {
                at,
                bytes,
                bits: None,
            };
            let end = place.range().end;
            if end > self.shape.bytes.len() {
                return Err(format!(
                    "bytes {at} to {end} are beyond the frame's {} (without FCS)",
                    self.shape.bytes.len()
                ));
            }
            places.push(place);
        }
        if reverse {
            for place in &mut places {
                *place = place.mirrored(&self.shape)?;
            }
        }
        Ok(places)
    }

    /// Creates one variable for all entries that span the set of flows together.
    fn flow_set(&mut self, stream: &Stream, entries: &[Entry<'_>]) -> Result<(), StreamError> {
        let mut dimensions = Vec::new();
        for entry in entries.iter().filter(|entry| entry.vary.spans_flows()) {
            let values = match entry.numbers.map(|value| entry.part.of(value)) {
                Numbers::Range { first, last, step } => Values::Range {
                    first: first as u64,
                    step: step as u64,
                    count: u64::try_from((last - first) / step)
                        .unwrap_or(u64::MAX)
                        .saturating_add(1),
                },
                Numbers::List(values) => {
                    Values::List(values.into_iter().map(|v| v as u64).collect())
                }
            };
            dimensions.push(Dimension {
                name: entry.number.to_string(),
                width: entry.width,
                values,
            });
        }
        self.set_of_flows(stream, dimensions)
            .map_err(|reason| StreamError::at("vary", reason))
    }

    fn set_of_flows(&mut self, stream: &Stream, dimensions: Vec<Dimension>) -> Result<(), String> {
        if dimensions.is_empty() {
            return Ok(());
        }
        let flows = dimensions.iter().fold(1_u128, |flows, d| {
            flows.saturating_mul(d.values.count().into())
        });
        let most = u128::from(fwdlab_model::profile::vary::MOST_FLOWS);
        if flows > most {
            return Err(format!("{flows} flows; a stream has at most {most}"));
        }
        let seed = stream.seed;
        self.variables.push(Variable {
            name: FLOWS.to_owned(),
            width: Width::Eight,
            source: Source::Grid {
                dimensions,
                visits: match stream.order {
                    Order::Sequential => Visits::Sequential,
                    Order::Shuffled => Visits::Shuffled { seed },
                    Order::Random => Visits::Reshuffled { seed },
                    Order::Drawn => Visits::Random { seed },
                },
            },
            split: true,
            next: None,
        });
        Ok(())
    }

    /// Creates the variable of an independent entry.
    fn variable(&mut self, stream: &Stream, entry: &Entry<'_>) -> Result<(), StreamError> {
        let Entry { vary, number, .. } = *entry;
        if vary.spans_flows() {
            return Ok(());
        }
        let wrong =
            |key: &'static str, reason: String| Err(StreamError::in_vary(number, key, reason));
        let seed = vary.seed.unwrap_or(stream.seed.wrapping_add(number as u64));
        let direction = match vary.change {
            Change::Decrement => Direction::Decrement,
            _ => Direction::Increment,
        };
        let limit = vary.limit;
        let source = match entry.numbers.map(|value| entry.part.of(value)) {
            Numbers::List(values) => {
                let values = values.into_iter().map(|v| v as u64).collect();
                match vary.change {
                    Change::Random => Source::RandomList { values, seed },
                    _ => Source::List {
                        direction,
                        values,
                        step: vary
                            .step
                            .map_or(1, |step| u64::try_from(step.bits()).unwrap_or(u64::MAX)),
                    },
                }
            }
            Numbers::Range { first, last, .. } if let Some(ports) = &vary.ports => Source::Tuple {
                ip_min: first as u32,
                ip_max: last as u32,
                port_min: ports.from,
                port_max: ports.to,
                limit: limit.unwrap_or(0),
            },
            Numbers::Range { first, last, step } => {
                let (min, max) = (first as u64, last as u64);
                match (vary.change, limit) {
                    (Change::Random, None) => Source::Random { min, max, seed },
                    (Change::Random, Some(limit)) => match u32::try_from(seed) {
                        Ok(seed) => Source::RandomLimit {
                            min,
                            max,
                            limit,
                            seed,
                        },
                        Err(_) => {
                            return wrong(
                                "seed",
                                format!("{seed} does not fit the 32 bits of this seed"),
                            );
                        }
                    },
                    _ => Source::Counter {
                        direction,
                        initial: match vary.start {
                            Some(start) => entry.part.of(start.bits()) as u64,
                            None if direction == Direction::Decrement => max,
                            None => min,
                        },
                        min,
                        max,
                        step: step as u64,
                    },
                }
            }
        };
        let follows = |other: &Vary| vary.name.is_some() && other.next == vary.name;
        let is_next = stream.vary.iter().any(follows);
        if let Some(next) = &vary.next
            && !stream
                .vary
                .iter()
                .any(|other| other.name.as_ref() == Some(next))
        {
            let names: Vec<&str> = stream
                .vary
                .iter()
                .filter_map(|v| v.name.as_deref())
                .collect();
            return wrong(
                "next",
                format!("there is no entry called `{next}`{}", known(&names)),
            );
        }
        self.variables.push(Variable {
            name: entry.value.clone(),
            width: entry.width,
            source,
            split: vary.split.unwrap_or(!is_next),
            next: vary.next.clone(),
        });
        Ok(())
    }

    fn write_entry(&mut self, entry: &Entry<'_>, reverse: bool) -> Result<(), StreamError> {
        let Entry {
            vary,
            number,
            width,
            ..
        } = *entry;
        let value = entry.value_name();
        if is_length(vary) {
            self.trim(&value, smallest_length(entry));
            return Ok(());
        }
        for place in &entry.places {
            self.write(&value, width, place, entry.part, vary)
                .map_err(|(key, reason)| StreamError::in_vary(number, key, reason))?;
        }
        if let Some(ports) = &vary.ports {
            let value = format!("{}.port", entry.value);
            let places = self
                .places(&ports.field, ports.at, Some(2), reverse)
                .map_err(|reason| StreamError::in_vary(number, "ports", reason))?;
            for place in places {
                self.write(&value, Width::Two, &place, Part::Whole, &Vary::default())
                    .map_err(|(_, reason)| StreamError::in_vary(number, "ports", reason))?;
            }
        }
        Ok(())
    }

    /// Writes the value of another entry.
    fn write_again(
        &mut self,
        vary: &Vary,
        number: usize,
        entries: &[Entry<'_>],
        reverse: bool,
    ) -> Result<(), StreamError> {
        let wrong = |key: &'static str, reason: String| StreamError::in_vary(number, key, reason);
        let named = vary.uses.as_deref().unwrap_or_default();
        let (base, port) = match named.strip_suffix(".port") {
            Some(base) => (base, true),
            None => (named.strip_suffix(".ip").unwrap_or(named), false),
        };
        let found = entries.iter().find(|entry| {
            let own = entry.vary.name.as_deref();
            own == Some(named) || own == Some(base) && entry.vary.ports.is_some()
        });
        let Some(entry) = found else {
            let names: Vec<&str> = entries
                .iter()
                .filter_map(|entry| entry.vary.name.as_deref())
                .collect();
            return Err(wrong(
                "use",
                format!("there is no entry called `{named}`{}", known(&names)),
            ));
        };
        let (value, width) = match port && entry.vary.ports.is_some() {
            true => (format!("{}.port", entry.value), Width::Two),
            false => (entry.value_name(), entry.width),
        };
        if is_length(vary) {
            self.trim(&value, MIN_TRIM.into());
            return Ok(());
        }
        let bytes = vary.bytes.map_or(width.bytes(), usize::from);
        let places = self
            .places(&vary.field, vary.at, Some(bytes), reverse)
            .map_err(|reason| wrong("use", reason))?;
        for place in &places {
            self.write(&value, width, place, entry.part, vary)
                .map_err(|(key, reason)| wrong(key, reason))?;
        }
        Ok(())
    }

    /// Writes a value of this width to a position.
    fn write(
        &mut self,
        value: &str,
        width: Width,
        place: &Place,
        part: Part,
        vary: &Vary,
    ) -> Result<(), (&'static str, String)> {
        let variable = value.to_owned();
        let add = vary.add.unwrap_or(0);
        let endian = match vary.endian {
            Some(TextEndian::Little) => Endian::Little,
            _ => Endian::Big,
        };
        let by_hand = vary.mask.is_some() || vary.shift.is_some() || endian == Endian::Little;
        // the bytes that vary
        let (mut at, mut bytes) = match (place.bytes, part) {
            (6, _) => (place.at + 2, 4),
            (16, Part::Prefix) => (place.at, 8),
            (16, _) => (place.at + 8, 8),
            (bytes, _) => (place.at, bytes),
        };
        if bytes == 8 && width != Width::Eight {
            (at, bytes) = (at + 4, 4);
        }
        if by_hand && (place.bits.is_some() || matches!(place.bytes, 6 | 16)) {
            return Err((
                "mask",
                "this field has a fixed place and byte order; use at and bytes to write by hand"
                    .to_owned(),
            ));
        }
        let offset = u16::try_from(at)
            .map_err(|_| ("at", format!("byte {at} is beyond what can be written")))?;
        let field = match bytes {
            1 => Width::One,
            2 => Width::Two,
            4 => Width::Four,
            _ => Width::Eight,
        };
        self.written.push(at..at + bytes);
        let all = field.max() as u32;
        let masked = |mask: u32, shift: i8| Instruction::WriteMask {
            variable: variable.clone(),
            offset,
            width: field,
            mask,
            shift,
            add,
            endian,
        };
        self.instructions.push(match place.bits {
            Some((mask, shift)) => masked(mask, shift as i8),
            None if vary.mask.is_some() || vary.shift.is_some() || field != width => {
                if field == Width::Eight {
                    return Err(("mask", "a masked field has 1, 2 or 4 bytes".to_owned()));
                }
                masked(vary.mask.unwrap_or(all), vary.shift.unwrap_or(0))
            }
            None => Instruction::Write {
                variable,
                offset,
                add,
                endian,
            },
        });
        Ok(())
    }

    fn trim(&mut self, value: &str, least: usize) {
        let least = least.max(MIN_TRIM.into()).min(self.shape.bytes.len());
        let before = self.trimmed_to.unwrap_or(usize::MAX);
        self.trimmed_to = Some(least.min(before));
        self.instructions.push(Instruction::Trim {
            variable: value.to_owned(),
        });
    }

    /// Creates this number of flows in the default shape, starting at the addresses and ports of
    /// the frame.
    fn default_flows(
        &mut self,
        flows: u32,
        stream: &Stream,
        reverse: bool,
    ) -> Result<(), StreamError> {
        let wrong = |reason: String| StreamError::at("flows", reason);
        let set = FlowSet::default_v4(flows).map_err(|error| wrong(error.to_string()))?;
        let (first, last) = (set.flow(0), set.flow(set.len() - 1));
        let count = |a: u32, b: u32| u64::from(b - a) + 1;
        let (sources, destinations) = match (first.addresses, last.addresses) {
            (
                Addresses::V4 {
                    source: a,
                    destination: c,
                },
                Addresses::V4 {
                    source: b,
                    destination: d,
                },
            ) => (count(a.into(), b.into()), count(c.into(), d.into())),
            _ => (1, 1),
        };
        let ports = count(first.source_port.into(), last.source_port.into());
        let ip = self
            .shape
            .placed()
            .rev()
            .find_map(|(at, layer)| match layer {
                Layer::Ipv4(_) => Some((at, 12, 4)),
                Layer::Ipv6(_) => Some((at, 8, 16)),
                _ => None,
            });
        let Some((ip, source, bytes)) = ip else {
            return Err(wrong(
                "flows differ in their addresses, but this frame has no IP layer".into(),
            ));
        };
        let port = self.shape.placed().find_map(|(at, layer)| match layer {
            Layer::Udp(_) | Layer::Tcp(_) if at > ip => Some(at),
            _ => None,
        });
        let place = |at: usize, bytes| Place {
            at,
            bytes,
            bits: None,
        };
        let mut dimensions = vec![
            (place(ip + source + bytes, bytes), destinations),
            (place(ip + source, bytes), sources),
        ];
        match port {
            Some(at) => dimensions.push((place(at, 2), ports)),
            None if ports > 1 => {
                return Err(wrong(format!(
                    "{flows} flows need ports, but this frame has none"
                )));
            }
            None => {}
        }
        let mut set = Vec::new();
        let mut writes = Vec::new();
        for (number, (place, count)) in dimensions.into_iter().enumerate() {
            if count == 1 {
                continue;
            }
            let place = match reverse {
                true => place.mirrored(&self.shape).map_err(wrong)?,
                false => place,
            };
            let first = place.read(&self.shape.bytes);
            let largest = (1_u128 << (place.bytes.min(8) * 8)) - 1;
            let first = first & largest;
            if first + u128::from(count) - 1 > largest {
                return Err(wrong(format!(
                    "{count} values starting at {first} do not fit in {} bytes",
                    place.bytes
                )));
            }
            let width = match place.bytes {
                2 => Width::Two,
                4 => Width::Four,
                _ => Width::Eight,
            };
            set.push(Dimension {
                name: number.to_string(),
                width,
                values: Values::Range {
                    first: first as u64,
                    step: 1,
                    count,
                },
            });
            writes.push((format!("{FLOWS}.{number}"), width, place));
        }
        self.set_of_flows(stream, set).map_err(wrong)?;
        for (value, width, place) in writes {
            self.write(&value, width, &place, Part::Interface, &Vary::default())
                .map_err(|(_, reason)| wrong(reason))?;
        }
        Ok(())
    }

    /// Uses pseudo-random ports (RFC 4814 §4.5) unless the profile sets them.
    fn random_ports(&mut self, stream: &Stream) {
        let output = |source: bool| {
            let by_layer = stream.layers.iter().flatten().any(|layer| match layer {
                fwdlab_model::profile::Layer::Udp(udp) if source => udp.source_port.is_some(),
                fwdlab_model::profile::Layer::Udp(udp) => udp.destination_port.is_some(),
                fwdlab_model::profile::Layer::Tcp(tcp) if source => tcp.source_port.is_some(),
                fwdlab_model::profile::Layer::Tcp(tcp) => tcp.destination_port.is_some(),
                _ => false,
            });
            let name = if source {
                "source-port"
            } else {
                "destination-port"
            };
            let fields = stream.vary.iter().flat_map(|vary| &vary.field);
            by_layer || { fields }.any(|field| field.name.name().ends_with(name))
        };
        let port = self
            .shape
            .placed()
            .rev()
            .find_map(|(at, layer)| match layer {
                Layer::Udp(_) | Layer::Tcp(_) => Some(at),
                _ => None,
            });
        let Some(ports) = port else { return };
        for (name, at, is_source, min, max) in [
            ("RFC 4814 source port", ports, true, 1024, 65_535),
            ("RFC 4814 destination port", ports + 2, false, 1, 49_151),
        ] {
            if output(is_source)
                || self
                    .written
                    .iter()
                    .any(|bytes| bytes.start < at + 2 && at < bytes.end)
            {
                continue;
            }
            let Ok(offset) = u16::try_from(at) else {
                continue;
            };
            self.variables.push(Variable {
                name: name.to_owned(),
                width: Width::Two,
                source: Source::Random {
                    min,
                    max,
                    seed: mix(stream.seed, 0x4814 + u64::from(is_source)),
                },
                split: true,
                next: None,
            });
            self.written.push(at..at + 2);
            self.instructions.push(Instruction::Write {
                variable: name.to_owned(),
                offset,
                add: 0,
                endian: Endian::Big,
            });
        }
    }

    /// Varies the size from frame to frame: truncates the frame and writes the lengths in its
    /// headers.
    fn sizes(&mut self, sizes: &Sizes) -> Result<(), StreamError> {
        let all = (sizes.from..=sizes.to).step_by(sizes.step as usize);
        let lengths: Vec<u64> = all.map(|size| u64::from(size) - FCS as u64).collect();
        let (min, max) = (lengths[0], lengths[lengths.len() - 1]);
        let source = match (sizes.change, sizes.step) {
            (Change::Random, 1) => Source::Random {
                min,
                max,
                seed: sizes.seed,
            },
            (Change::Random, _) => Source::RandomList {
                values: lengths,
                seed: sizes.seed,
            },
            (Change::Increment, _) => Source::List {
                direction: Direction::Increment,
                values: lengths,
                step: 1,
            },
            (Change::Decrement, _) => Source::List {
                direction: Direction::Decrement,
                values: lengths,
                step: 1,
            },
        };
        self.variables.push(Variable {
            name: SIZE.to_owned(),
            width: Width::Two,
            source,
            split: true,
            next: None,
        });
        self.trim(SIZE, min as usize);
        if self.shape.padding > 0 {
            // only padding is cut off
            return Ok(());
        }
        let lengths: Vec<(usize, usize)> = self
            .shape
            .placed()
            .filter_map(|(at, layer)| match layer {
                Layer::Ipv4(_) => Some((at + 2, at)),
                Layer::Ipv6(_) => Some((at + 4, at + 40)),
                Layer::Udp(_) => Some((at + 4, at)),
                _ => None,
            })
            .collect();
        for (at, uncounted) in lengths {
            let offset =
                u16::try_from(at).map_err(|_| StreamError::at("layers", "headers this long"))?;
            self.written.push(at..at + 2);
            self.instructions.push(Instruction::Write {
                variable: SIZE.to_owned(),
                offset,
                add: -(uncounted as i64),
                endian: Endian::Big,
            });
        }
        Ok(())
    }

    /// Returns true if an instruction writes to these bytes.
    pub fn writes(&self, bytes: &Range<usize>) -> bool {
        self.written
            .iter()
            .any(|written| written.start < bytes.end && bytes.start < written.end)
    }

    /// Returns the frames with their signature at this position, and with correct checksums.
    pub fn finish(
        mut self,
        place: Option<(SignaturePlace, usize)>,
        checksums: &Checksums,
    ) -> Result<Kind, StreamError> {
        let all = self.fixes(&Checksums::All, true)?;
        if !self.written.is_empty() && !all.is_empty() {
            // the first values of the entries were written after the template's checksums
            let program = Program {
                instructions: all,
                ..Program::default()
            };
            let machine = program.machine(&self.shape.bytes);
            let mut machine =
                machine.map_err(|error| StreamError::at("vary", error.to_string()))?;
            machine.render(&mut self.shape.bytes, &fwdlab_packet::Signature::default());
        }
        if let Some((SignaturePlace::UdpPayload | SignaturePlace::Tail, at)) = place {
            let offset = u16::try_from(at)
                .map_err(|_| StreamError::at("size", "a signature this far in a frame"))?;
            self.instructions.push(Instruction::Signature { offset });
            self.written.push(at..at + signature::LEN);
        }
        let fixes = self.fixes(checksums, false)?;
        self.instructions.extend(fixes);
        let kind = Kind {
            program: Program {
                variables: self.variables,
                instructions: self.instructions,
                cache: self.cache,
            },
            template: self.shape.bytes,
            place: place.map(|(place, _)| place),
        };
        match kind.program.machine(&kind.template) {
            Ok(_) => Ok(kind),
            Err(error) => Err(StreamError::at("vary", error.to_string())),
        }
    }

    /// Returns the instructions that correct checksums, the innermost first. `whole`: regardless of
    /// what is written.
    fn fixes(&self, checksums: &Checksums, whole: bool) -> Result<Vec<Instruction>, StreamError> {
        let mut fixes = Vec::new();
        let mut written = self.written.clone();
        let layers: Vec<(usize, &Layer)> = self.shape.placed().collect();
        let frame_end = self.shape.bytes.len();
        for (number, (at, layer)) in layers.iter().enumerate().rev() {
            let offset = |at: usize| {
                u16::try_from(at).map_err(|_| StreamError::at("layers", "headers this long"))
            };
            let touched = |written: &[Range<usize>], bytes: Range<usize>| {
                whole
                    || self.trimmed_to.is_some()
                    || written
                        .iter()
                        .any(|w| w.start < bytes.end && bytes.start < w.end)
            };
            let (name, field) = match layer {
                Layer::Ipv4(repr) => {
                    let bytes = *at..*at + repr.header_len();
                    if checksums.of("ipv4") && touched(&written, bytes) {
                        fixes.push(Instruction::FixIpv4 {
                            offset: offset(*at)?,
                        });
                        written.push(at + 10..at + 12);
                    }
                    continue;
                }
                Layer::Udp(_) => ("udp", 6),
                Layer::Tcp(_) => ("tcp", 16),
                Layer::Icmp(_) => ("icmp", 2),
                Layer::Icmpv6(_) | Layer::Ndp(_) => ("icmpv6", 2),
                Layer::Gre(repr) if repr.checksum => ("gre", 4),
                _ => continue,
            };
            let below = layers[..number].iter().rev();
            let ip = below
                .clone()
                .find(|(_, layer)| matches!(layer, Layer::Ipv4(_) | Layer::Ipv6(_)));
            let Some((ip, of_ip)) = ip else { continue };
            if !checksums.of(name) || !touched(&written, *ip..frame_end) {
                continue;
            }
            let detour = below.take_while(|(_, layer)| matches!(layer, Layer::Extension(_))).any(|(_, layer)| {
                matches!(layer, Layer::Extension(extension) if extension.repr().final_destination().is_some())
            });
            if detour {
                if whole {
                    continue;
                }
                return Err(StreamError::at(
                    "layers",
                    "checksums behind a routing header with segments left cannot follow the varying fields; leave no segments, \
                     or set checksums = false",
                ));
            }
            let (l2_len, l3_len) = (offset(*ip)?, offset(at - ip)?);
            let transport = match layer {
                Layer::Udp(_) => Transport::Udp,
                Layer::Tcp(_) => Transport::Tcp,
                Layer::Gre(_) => Transport::Gre,
                _ => Transport::Icmp,
            };
            fixes.push(match name {
                "icmpv6" => Instruction::FixIcmpv6 { l2_len, l3_len },
                _ => Instruction::FixTransport {
                    l2_len,
                    l3_len,
                    transport,
                },
            });
            written.push(at + field..at + field + 2);
            if name != "icmpv6" && matches!(of_ip, Layer::Ipv4(_)) {
                written.push(ip + 10..ip + 12);
            }
        }
        // correcting the checksum of IPv4's payload corrects the header's, too
        let headers: Vec<u16> = fixes
            .iter()
            .filter_map(|fix| match fix {
                Instruction::FixTransport { l2_len, .. } => Some(*l2_len),
                _ => None,
            })
            .collect();
        fixes.retain(
            |fix| !matches!(fix, Instruction::FixIpv4 { offset } if headers.contains(offset)),
        );
        Ok(fixes)
    }
}

impl Entry<'_> {
    /// Returns the name of its value in instructions.
    fn value_name(&self) -> String {
        match (self.vary.spans_flows(), &self.vary.ports) {
            (true, _) => format!("{FLOWS}.{}", self.number),
            (_, Some(_)) => format!("{}.ip", self.value),
            _ => self.value.clone(),
        }
    }
}

impl Part {
    /// Returns the part of a value that varies.
    fn of(self, value: u128) -> u128 {
        match self {
            Part::Whole => value,
            Part::OfMac => value & 0xffff_ffff,
            Part::Interface => value & u128::from(u64::MAX),
            Part::Prefix => value >> 64,
        }
    }
}

/// Returns true if this entry changes the length of the frame.
fn is_length(vary: &Vary) -> bool {
    vary.field
        .iter()
        .any(|field| field.name == FieldName::FrameLength)
}

/// Returns the shortest frame that such an entry produces, without FCS.
fn smallest_length(entry: &Entry<'_>) -> usize {
    // when it counts down, a range may be extended until it is a multiple of the step
    match entry.vary.change {
        Change::Decrement if entry.vary.values.is_none() => 0,
        _ => usize::try_from(entry.numbers.smallest()).unwrap_or(0),
    }
}

/// Returns the values of an entry; `there`: the value in the frame.
fn numbers(vary: &Vary, there: Option<u128>) -> Result<Numbers, (&'static str, String)> {
    if let Some(values) = &vary.values {
        return Ok(Numbers::List(
            values.iter().map(|value| value.bits()).collect(),
        ));
    }
    let step = vary.step.map_or(1, Value::bits);
    let first = vary.from.map(Value::bits).or(there);
    let first = first.ok_or_else(|| {
        (
            "name",
            "give from: there is no field whose value could be the first".to_owned(),
        )
    })?;
    let last = match (vary.to, vary.count) {
        (Some(to), _) => to.bits(),
        (None, Some(count)) => (u128::from(count) - 1)
            .checked_mul(step)
            .and_then(|way| first.checked_add(way))
            .ok_or_else(|| {
                (
                    "count",
                    "this many values, this far apart, fit no field".to_owned(),
                )
            })?,
        (None, None) => first,
    };
    if last < first {
        return Err((
            "to",
            "the last value is below the first, which is the frame's own; give from".to_owned(),
        ));
    }
    Ok(Numbers::Range { first, last, step })
}

/// Returns the part of the positions that varies, and the width of its variable.
fn part_and_width(
    vary: &Vary,
    places: &[Place],
    numbers: &Numbers,
) -> Result<(Part, Width), (&'static str, String)> {
    let by_hand = vary.mask.is_some() || vary.shift.is_some();
    let key = if vary.values.is_some() {
        "values"
    } else {
        "from"
    };
    let kinds = vary.values.iter().flatten().copied();
    let kinds = kinds.chain(vary.from).chain(vary.to).chain(vary.start);
    for value in kinds {
        for place in places {
            let fits = match value {
                Value::Number(_) => true,
                Value::Ipv4(_) => place.bytes == 4,
                Value::Mac(_) => matches!(place.bytes, 6 | 8),
                Value::Ipv6(_) => place.bytes == 16,
            };
            if !fits {
                return Err((
                    key,
                    format!("{value} is not a value of a field of {} bytes", place.bytes),
                ));
            }
        }
    }
    let (smallest, largest) = (numbers.smallest(), numbers.largest());
    // addresses with ports have 4 bytes
    let by_itself = if vary.ports.is_some() { 4 } else { 0 };
    let mut widest = vary.bytes.map_or(by_itself, usize::from);
    for place in places {
        widest = widest.max(place.bytes);
        let bits = place.width_bits();
        if !by_hand && bits < 128 && largest >> bits > 0 {
            return Err((key, format!("{largest} does not fit {bits} bits")));
        }
    }
    let changes = |shift: u32| match numbers {
        Numbers::Range { .. } => smallest >> shift != largest >> shift,
        Numbers::List(values) => values
            .iter()
            .any(|value| value >> shift != smallest >> shift),
    };
    let low = |value: u128| value & u128::from(u64::MAX);
    Ok(match widest {
        6 if changes(32) => {
            return Err((
                key,
                "these MAC addresses differ in more than their last 4 bytes".to_owned(),
            ));
        }
        6 => (Part::OfMac, Width::Four),
        16 if !changes(64) => (Part::Interface, Width::Eight),
        16 => {
            let same_end = match numbers {
                Numbers::Range { first, last, step } => {
                    low(*step) == 0 && low(last - first) == 0 || low(*step) == 0
                }
                Numbers::List(values) => values.iter().all(|value| low(*value) == low(smallest)),
            };
            if !same_end {
                return Err((
                    key,
                    "these addresses differ in their first 8 bytes and in their last; vary one of them".to_owned(),
                ));
            }
            if places.iter().any(|place| place.bytes != 16) {
                return Err((
                    key,
                    "prefixes of IPv6 addresses fit no other field".to_owned(),
                ));
            }
            (Part::Prefix, Width::Eight)
        }
        bytes => {
            let width = match bytes {
                1 => Width::One,
                2 => Width::Two,
                4 => Width::Four,
                8 => Width::Eight,
                _ => return Err(("bytes", "a value has 1, 2, 4 or 8 bytes".to_owned())),
            };
            if largest > u128::from(width.max()) {
                return Err((key, format!("{largest} does not fit {bytes} bytes")));
            }
            if vary.ports.is_some() && width != Width::Four {
                return Err(("field", "addresses with ports have 4 bytes".to_owned()));
            }
            (Part::Whole, width)
        }
    })
}

/// Errors use [`Step`]s for names.
impl StreamError {
    fn in_vary(number: usize, key: &'static str, cause: impl Into<String>) -> StreamError {
        StreamError {
            key_path: vec![Step::Key("vary"), Step::Item(number), Step::Key(key)],
            reason: cause.into(),
        }
    }
}
