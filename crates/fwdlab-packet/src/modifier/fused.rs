//! A faster way to run the usual program: fields, a signature, checksums from partial sums.
//!
//! The order of such instructions does not matter, and everything but the signature is known before
//! the frame is needed. So the contents of many frames are computed at once, and each frame only
//! needs stores. Three times as fast as executing instructions in turn, which is how
//! [`machine`](super::machine) runs all other programs. Start with [`Fused::new`].

use super::column::{AHEAD, Total, Values};
use super::fix::Fix;
use super::machine::{Field, Step};
use super::variable::Width;
use crate::signature::Signature;

/// A program whose instructions do not depend on each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fused {
    /// Writes of 1, 2, 4 and 8 bytes: a loop for each width, so that loops do not branch on it.
    writes: [Box<[Write]>; 4],
    /// Byte offset of the signature, if the program writes one.
    signature: Option<usize>,
    sums: Box<[Sum]>,
}

/// A field, or several adjacent fields: addresses, ports.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Write {
    at: usize,
    width: Width,
    parts: Vec<Part>,
    /// The template's bits that no part changes.
    kept: u64,
    /// The contents for the next frames, read as big endian.
    next: Total,
}

/// A field within a [`Write`].
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    field: Field,
    /// The number of bits that follow it in the write.
    after: u32,
    /// The checksums that cover it: index and shift in bits.
    covered: Vec<(usize, u32)>,
}

/// A checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sum {
    fix: Fix,
    at: usize,
    /// Sum of everything constant.
    constant: u64,
    /// An earlier checksum that covers the same fields, if any: the two sums differ only in their
    /// constants.
    like: Option<usize>,
    /// A mask, all ones if the checksum covers the signature and 0 if not, and the shift in bits.
    signature: (u64, u32),
    /// The sums for the next frames, without the signature.
    next: Total,
    /// The checksums of a [run](Fused::begin_run).
    run: [u16; AHEAD],
}

impl Fused {
    /// Returns `None` if the order of the steps matters or one of them cannot be fused.
    pub fn new(steps: &[Step], template: &[u8]) -> Option<Fused> {
        for (number, step) in steps.iter().enumerate() {
            let bytes = step.bytes()?;
            for other in &steps[..number] {
                let other = other.bytes()?;
                if bytes.start < other.end && other.start < bytes.end {
                    return None;
                }
            }
        }
        let mut signature = None;
        for (number, step) in steps.iter().enumerate() {
            match step {
                Step::Signature { at } if signature.is_none() => signature = Some((number, *at)),
                Step::Put(_) | Step::Sum { .. } => {}
                _ => return None,
            }
        }
        // Each checksum with its terms: step index and shift in bits.
        let sums: Vec<(Sum, &[(usize, u32)])> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Sum {
                    fix,
                    constant,
                    terms,
                } => {
                    let shift = signature.and_then(|(number, _)| shift(terms, number));
                    let sum = Sum {
                        fix: *fix,
                        at: fix.field().start,
                        constant: *constant,
                        like: None,
                        signature: shift.map_or((0, 0), |shift| (u64::MAX, shift)),
                        next: Total::new(),
                        run: [0; AHEAD],
                    };
                    Some((sum, &terms[..]))
                }
                _ => None,
            })
            .collect();
        let fields = |sum: usize| -> Vec<&(usize, u32)> {
            let is_field = |(step, _): &&(usize, u32)| matches!(steps[*step], Step::Put(_));
            sums[sum].1.iter().filter(is_field).collect()
        };
        let like = |sum: usize| (0..sum).find(|earlier| fields(*earlier) == fields(sum));
        let likes: Vec<Option<usize>> = (0..sums.len()).map(like).collect();
        let mut writes = vec![];
        for (number, step) in steps.iter().enumerate() {
            let Step::Put(field) = step else { continue };
            let covered = sums
                .iter()
                .enumerate()
                .filter(|(sum, _)| likes[*sum].is_none())
                .filter_map(|(sum, (_, terms))| Some((sum, shift(terms, number)?)));
            let part = Part {
                after: 0,
                covered: covered.collect(),
                field: field.clone(),
            };
            writes.push(Write {
                at: field.at,
                width: field.width,
                parts: vec![part],
                kept: field.kept(template),
                next: Total::new(),
            });
        }
        merge(&mut writes);
        let of_width = |width| {
            writes
                .iter()
                .filter(|w| w.width == width)
                .cloned()
                .collect()
        };
        Some(Fused {
            writes: [Width::One, Width::Two, Width::Four, Width::Eight].map(of_width),
            signature: signature.map(|(_, at)| at),
            sums: sums
                .into_iter()
                .zip(likes)
                .map(|((sum, _), like)| Sum { like, ..sum })
                .collect(),
        })
    }

    /// Computes the contents of the next frames from the values of the variables.
    pub fn precompute(&mut self, values: &[Values]) {
        for sum in &mut self.sums {
            sum.next.begin(sum.constant);
        }
        for write in self.writes.iter_mut().flatten() {
            write.next.begin(write.kept);
            for part in &write.parts {
                let values = &values[part.field.value];
                let mut room = [[0; AHEAD]; 2];
                let [wires, summands] = part.field.wires(values, &mut room);
                write.next.add(wires, part.after);
                for (sum, shift) in &part.covered {
                    self.sums[*sum].next.add(summands, *shift);
                }
            }
            write.next.finish();
        }
        for number in 0..self.sums.len() {
            let (earlier, [sum, ..]) = self.sums.split_at_mut(number) else {
                return;
            };
            match sum.like {
                Some(like) => {
                    let like = &earlier[like];
                    let more = sum.constant.wrapping_sub(like.constant);
                    sum.next.copy(&like.next, more);
                }
                None => sum.next.finish(),
            }
        }
    }

    /// Writes the changing bytes into the frame with index `next` among the precomputed ones.
    #[inline]
    pub fn write(&self, frame: &mut [u8], next: usize, signature: &Signature) {
        self.write_fields(frame, next, signature);
        let of_signature = self.signature.map_or(0, |_| signature.wide_sum());
        for sum in &self.sums {
            let total = sum.with_signature(next % AHEAD, of_signature);
            frame[sum.at..sum.at + 2].copy_from_slice(&sum.fix.checksum(total).to_be_bytes());
        }
    }

    /// Begins a run at index `next`: its frames have the signature's nonce, stream and time, and
    /// sequence numbers that count up from this one without wrapping. Computes their checksums.
    pub fn begin_run(&mut self, next: usize, signature: &Signature) {
        let of_signature = self.signature.map_or(0, |_| signature.wide_sum());
        // Adding one to the number adds one to its sum, except for carries, which do not matter
        // modulo 0xffff.
        let of_first = of_signature.wrapping_sub(next as u64);
        for sum in &mut self.sums {
            let mut totals = [0; AHEAD];
            for (frame, total) in (0..).zip(&mut totals) {
                *total = sum.with_signature(frame as usize, of_first.wrapping_add(frame));
            }
            sum.fix.checksums(&totals, &mut sum.run);
        }
    }

    /// Like [`write`](Self::write), for a frame of a run.
    #[inline]
    pub fn write_run(&self, frame: &mut [u8], next: usize, signature: &Signature) {
        self.write_fields(frame, next, signature);
        for sum in &self.sums {
            frame[sum.at..sum.at + 2].copy_from_slice(&sum.run[next % AHEAD].to_be_bytes());
        }
    }

    /// Writes everything but the checksums.
    #[inline]
    fn write_fields(&self, frame: &mut [u8], next: usize, signature: &Signature) {
        let next = next % AHEAD;
        let [ones, twos, fours, eights] = &self.writes;
        store::<8>(frame, eights, next);
        store::<4>(frame, fours, next);
        store::<2>(frame, twos, next);
        store::<1>(frame, ones, next);
        if let Some(at) = self.signature {
            signature.write(&mut frame[at..]);
        }
    }
}

impl Sum {
    #[inline]
    fn with_signature(&self, next: usize, of_signature: u64) -> u64 {
        let (mask, shift) = self.signature;
        self.next
            .get(next)
            .wrapping_add((of_signature & mask) << shift)
    }
}

/// Writes the fields that are `BYTES` wide.
#[inline]
fn store<const BYTES: usize>(frame: &mut [u8], writes: &[Write], next: usize) {
    for Write {
        at, next: value, ..
    } in writes
    {
        let bytes = value.get(next).to_be_bytes();
        frame[*at..*at + BYTES].copy_from_slice(&bytes[8 - BYTES..]);
    }
}

/// Returns the shift of the term for this step, if there is one.
fn shift(terms: &[(usize, u32)], step: usize) -> Option<u32> {
    let term = terms.iter().find(|(number, _)| *number == step)?;
    Some(term.1)
}

/// Merges adjacent writes of the same width until none are left.
fn merge(writes: &mut Vec<Write>) {
    while let Some((left, right, width)) = side_by_side(writes) {
        let right = writes[right].clone();
        let mut both = writes[left].clone();
        writes.retain(|write| write.at != both.at && write.at != right.at);
        let bits = 8 * right.width.bytes() as u32;
        both.parts.iter_mut().for_each(|part| part.after += bits);
        both.parts.extend(right.parts);
        both.kept = both.kept << bits | right.kept;
        both.width = width;
        writes.push(both);
    }
}

/// Finds two adjacent writes of the same width that fit into one; returns their indices and the
/// combined width.
fn side_by_side(writes: &[Write]) -> Option<(usize, usize, Width)> {
    let pairs =
        (0..writes.len()).flat_map(|left| (0..writes.len()).map(move |right| (left, right)));
    pairs.into_iter().find_map(|(left, right)| {
        let width = writes[left].width;
        let meet = writes[left].at + width.bytes() == writes[right].at;
        let twice = match width {
            Width::One => Width::Two,
            Width::Two => Width::Four,
            Width::Four => Width::Eight,
            Width::Eight => return None,
        };
        (meet && writes[right].width == width).then_some((left, right, twice))
    })
}
