//! The range of contents that a program can write into a field, computed without running it.
//!
//! Answers questions such as whether any frame may go to somebody else's address. The range is
//! never narrower than what the frames contain, and sometimes wider. Start with
//! [`Program::bounds`].

use std::ops::Range;

use super::variable::{Direction, Source, Values, Width};
use super::{Endian, Instruction, MIN_TRIM, Program, TRAILER_LEN};

impl Program {
    /// Returns the smallest and the largest contents of a field, in network order. All frames are
    /// between the two; not every value between them need occur.
    ///
    /// # Panics
    /// If the field is beyond the template.
    pub fn bounds(&self, template: &[u8], field: Range<usize>) -> (Vec<u8>, Vec<u8>) {
        let mut low = template[field.clone()].to_vec();
        let mut high = low.clone();
        for instruction in &self.instructions {
            match instruction {
                Instruction::Write {
                    variable,
                    offset,
                    add,
                    endian,
                } => {
                    let Some((width, least, most)) = self.range_of(variable) else {
                        continue;
                    };
                    let (least, most) = moved(width, least, most, *add);
                    let bytes = width.bytes();
                    let mut written =
                        each_byte(&least.to_be_bytes(), &most.to_be_bytes())[8 - bytes..].to_vec();
                    if *endian == Endian::Little {
                        written.reverse();
                    }
                    for (byte, (least, most)) in written.into_iter().enumerate() {
                        if let Some(to) = place(&field, usize::from(*offset) + byte) {
                            (low[to], high[to]) = (least, most);
                        }
                    }
                }
                Instruction::WriteMask {
                    offset,
                    width,
                    mask,
                    endian,
                    ..
                } => {
                    let bytes = width.bytes();
                    let mut mask = mask.to_be_bytes()[4usize.saturating_sub(bytes)..].to_vec();
                    if *endian == Endian::Little {
                        mask.reverse();
                    }
                    for (byte, mask) in mask.iter().enumerate() {
                        let to = place(&field, usize::from(*offset) + byte);
                        let Some(to) = to.filter(|_| *mask > 0) else {
                            continue;
                        };
                        (low[to], high[to]) = match low[to] == high[to] {
                            true => (low[to] & !mask, high[to] | mask),
                            false => (0, 0xff),
                        };
                    }
                }
                Instruction::Signature { offset } => {
                    for byte in 0..crate::signature::LEN {
                        if let Some(to) = place(&field, usize::from(*offset) + byte) {
                            (low[to], high[to]) = (0, 0xff);
                        }
                    }
                }
                // its position depends on the frame
                Instruction::Trailer { .. } => {
                    let first =
                        usize::from(MIN_TRIM).min(template.len()) - TRAILER_LEN.min(template.len());
                    for (to, at) in field.clone().enumerate() {
                        if at >= first {
                            (low[to], high[to]) = (0, 0xff);
                        }
                    }
                }
                Instruction::Trim { .. }
                | Instruction::FixIpv4 { .. }
                | Instruction::FixTransport { .. }
                | Instruction::FixIcmpv6 { .. } => {}
            }
        }
        (low, high)
    }

    /// Returns the width, the smallest and the largest value of a variable or of a value that a
    /// group defines.
    fn range_of(&self, name: &str) -> Option<(Width, u64, u64)> {
        self.variables.iter().find_map(|variable| {
            let of_group = |part: &str| {
                name.strip_prefix(variable.name.as_str())
                    .and_then(|rest| rest.strip_prefix('.'))
                    == Some(part)
            };
            let own = variable.name == name;
            let width = variable.width;
            let of_list =
                |values: &[u64]| Some((width, *values.iter().min()?, *values.iter().max()?));
            match &variable.source {
                Source::Counter {
                    direction,
                    initial,
                    min,
                    max,
                    step,
                } if own => {
                    // a range is widened until it is a multiple of the step
                    let more = step.saturating_sub(1);
                    let (least, most) = match direction {
                        Direction::Increment => (*min, max.saturating_add(more)),
                        Direction::Decrement => (min.saturating_sub(more), *max),
                    };
                    let wide = width.max();
                    Some((
                        width,
                        least.min(*initial) & wide,
                        most.max(*initial).min(wide),
                    ))
                }
                Source::List { values, .. } | Source::RandomList { values, .. } if own => {
                    of_list(values)
                }
                Source::Random { min, max, .. } | Source::RandomLimit { min, max, .. } if own => {
                    Some((width, *min, *max))
                }
                Source::Tuple { ip_min, ip_max, .. } if of_group("ip") => {
                    Some((Width::Four, u64::from(*ip_min), u64::from(*ip_max)))
                }
                Source::Tuple {
                    port_min, port_max, ..
                } if of_group("port") => {
                    Some((Width::Two, u64::from(*port_min), u64::from(*port_max)))
                }
                Source::Grid { dimensions, .. } => {
                    let dimension = dimensions.iter().find(|d| of_group(&d.name))?;
                    match &dimension.values {
                        Values::Range { first, step, count } => {
                            let last =
                                first.saturating_add(step.saturating_mul(count.saturating_sub(1)));
                            Some((dimension.width, *first, last))
                        }
                        Values::List(values) => Some((
                            dimension.width,
                            *values.iter().min()?,
                            *values.iter().max()?,
                        )),
                    }
                }
                _ => None,
            }
        })
    }
}

/// Returns the range of each byte of the numbers from `least` to `most`, independent of the other
/// bytes.
fn each_byte(least: &[u8; 8], most: &[u8; 8]) -> [(u8, u8); 8] {
    let mut same = true;
    std::array::from_fn(|byte| {
        let range = match same {
            true => (least[byte], most[byte]),
            false => (0, 0xff),
        };
        same &= least[byte] == most[byte];
        range
    })
}

/// Returns the position within a field of a byte of the frame.
fn place(field: &Range<usize>, at: usize) -> Option<usize> {
    field.contains(&at).then(|| at - field.start)
}

/// Returns the range of values after an addition that wraps.
fn moved(width: Width, least: u64, most: u64, add: i64) -> (u64, u64) {
    let wide = width.max();
    let [a, b] = [least, most].map(|value| value.wrapping_add_signed(add) & wide);
    // still in order, and the same distance apart: no wrap between the two
    match b.checked_sub(a) == most.checked_sub(least) && most <= wide {
        true => (a, b),
        false => (0, wide),
    }
}
