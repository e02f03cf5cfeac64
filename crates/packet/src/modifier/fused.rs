//! The usual program without its instructions: fields, a signature, checksums from partial sums.
//!
//! What a frame looks like does not depend on the order of such instructions, and all of it but the signature is known
//! before the frame is wanted. So it is worked out for many frames at once, and what is left for each frame is storing it.
//! Three times as fast as one instruction after another, which is how [`machine`](super::machine) runs programs that
//! depend on more. Start with [`Fused::new`].

use super::fix::Fix;
use super::machine::{AHEAD, Column, Field, Step, halves};
use super::variable::Width;
use crate::signature::Signature;

/// A program whose instructions do not depend on each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fused {
    /// Of 1, 2, 4 and 8 bytes: a loop for each, so that nothing is to decide within.
    writes: [Box<[Write]>; 4],
    /// Where.
    signature: Option<usize>,
    sums: Box<[Sum]>,
    /// How many of the checksums do not cover the signature; they come first, and are known before the frame is wanted.
    known_sums: usize,
}

/// A field, or several of the same width side by side: addresses, ports.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Write {
    at: usize,
    parts: Vec<Part>,
    /// What is written into the next frames, read as big endian.
    next: Column,
}

/// A field within a [`Write`].
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    field: Field,
    /// The bits that it leaves as they are in the template.
    kept: u64,
    /// How many bits follow it in the write.
    after: u32,
    /// Which of the checksums cover it, and shifted by how many bits.
    covered: Vec<(usize, u32)>,
}

/// A checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sum {
    fix: Fix,
    at: usize,
    /// Sum of what never changes.
    constant: u64,
    /// By how many bits the signature is shifted in it, if it is covered.
    signature: Option<u32>,
    /// In the next frames: the sum but for the signature, or if that is not covered the checksum.
    next: Column,
}

impl Fused {
    /// `None`: the order of the steps matters, or one of them is none of those that can be fused.
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
        // Each with its terms: which of the steps, and shifted by how many bits.
        let mut sums: Vec<(Sum, &[(usize, u32)])> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Sum {
                    fix,
                    constant,
                    terms,
                } => {
                    let signature = signature.and_then(|(number, _)| shift(terms, number));
                    let sum = Sum {
                        fix: *fix,
                        at: fix.field().start,
                        constant: *constant,
                        signature,
                        next: [0; AHEAD],
                    };
                    Some((sum, &terms[..]))
                }
                _ => None,
            })
            .collect();
        sums.sort_by_key(|(sum, _)| sum.signature.is_some());
        let mut writes: [Vec<Write>; 4] = Default::default();
        for (number, step) in steps.iter().enumerate() {
            let Step::Put(field) = step else { continue };
            let covered = sums
                .iter()
                .enumerate()
                .filter_map(|(sum, (_, terms))| Some((sum, shift(terms, number)?)));
            let part = Part {
                kept: field.kept(template),
                after: 0,
                covered: covered.collect(),
                field: field.clone(),
            };
            writes[field.width.bytes().ilog2() as usize].push(Write {
                at: field.at,
                parts: vec![part],
                next: [0; AHEAD],
            });
        }
        merge(&mut writes);
        let known = |(sum, _): &(Sum, _)| sum.signature.is_none();
        Some(Fused {
            writes: writes.map(Vec::into_boxed_slice),
            signature: signature.map(|(_, at)| at),
            known_sums: sums.iter().take_while(|sum| known(sum)).count(),
            sums: sums.into_iter().map(|(sum, _)| sum).collect(),
        })
    }

    /// Works out the next frames, for which these are the values.
    pub fn look_ahead(&mut self, values: &[Column]) {
        for sum in &mut self.sums {
            sum.next.fill(sum.constant);
        }
        for write in self.writes.iter_mut().flatten() {
            for (number, part) in write.parts.iter().enumerate() {
                let mut room = [0; AHEAD];
                let wires = part.field.wires(&values[part.field.value], &mut room);
                let (kept, after) = (part.kept, part.after);
                let next = write.next.iter_mut().zip(wires);
                match number {
                    0 => next.for_each(|(all, wire)| *all = (wire | kept) << after),
                    _ => next.for_each(|(all, wire)| *all |= (wire | kept) << after),
                }
                for (sum, shift) in &part.covered {
                    add(&mut self.sums[*sum].next, wires, *shift, part.field.width);
                }
            }
        }
        for sum in &mut self.sums[..self.known_sums] {
            sum.fix.checksums(&mut sum.next);
        }
    }

    /// Writes what changes into the frame that is number `next` of those that were worked out.
    #[inline]
    pub fn write(&self, frame: &mut [u8], next: usize, signature: &Signature) {
        let next = next % AHEAD;
        let [ones, twos, fours, eights] = &self.writes;
        store::<8>(
            frame,
            eights.iter().map(|write| (write.at, write.next[next])),
        );
        store::<4>(
            frame,
            fours.iter().map(|write| (write.at, write.next[next])),
        );
        store::<2>(frame, twos.iter().map(|write| (write.at, write.next[next])));
        store::<1>(frame, ones.iter().map(|write| (write.at, write.next[next])));
        let (known, signed) = self.sums.split_at(self.known_sums);
        store::<2>(frame, known.iter().map(|sum| (sum.at, sum.next[next])));
        let Some(at) = self.signature else { return };
        signature.write(&mut frame[at..]);
        let signature = signature.wide_sum();
        let checksums = signed.iter().map(|sum| {
            let total = sum.next[next] + (signature << sum.signature.unwrap_or(0));
            (sum.at, sum.fix.checksum(total).into())
        });
        store::<2>(frame, checksums);
    }
}

/// By how many bits the term that is this step is shifted, if it is one.
fn shift(terms: &[(usize, u32)], step: usize) -> Option<u32> {
    let term = terms.iter().find(|(number, _)| *number == step)?;
    Some(term.1)
}

/// Makes one write of two of the same width side by side, as long as there are any.
fn merge(writes: &mut [Vec<Write>; 4]) {
    for width in 0..3 {
        let bytes = 1 << width;
        while let Some((left, right)) = side_by_side(&writes[width], bytes) {
            let right = writes[width][right].clone();
            let mut both = writes[width][left].clone();
            writes[width].retain(|write| write.at != both.at && write.at != right.at);
            both.parts
                .iter_mut()
                .for_each(|part| part.after += 8 * bytes as u32);
            both.parts.extend(right.parts);
            writes[width + 1].push(both);
        }
    }
}

fn side_by_side(writes: &[Write], bytes: usize) -> Option<(usize, usize)> {
    let pairs =
        (0..writes.len()).flat_map(|left| (0..writes.len()).map(move |right| (left, right)));
    pairs
        .into_iter()
        .find(|(left, right)| writes[*left].at + bytes == writes[*right].at)
}

/// Adds fields of this width to the sum that covers them.
#[inline]
fn add(sum: &mut Column, wires: &Column, shift: u32, width: Width) {
    let sums = sum.iter_mut().zip(wires);
    match (width, shift) {
        (Width::Eight, _) => sums.for_each(|(sum, wire)| *sum += halves(*wire) << shift),
        (_, 0) => sums.for_each(|(sum, wire)| *sum += wire),
        _ => sums.for_each(|(sum, wire)| *sum += wire << shift),
    }
}

/// Writes the low bytes of each value, big endian.
#[inline]
fn store<const BYTES: usize>(frame: &mut [u8], writes: impl Iterator<Item = (usize, u64)>) {
    for (at, value) in writes {
        frame[at..at + BYTES].copy_from_slice(&value.to_be_bytes()[8 - BYTES..]);
    }
}
