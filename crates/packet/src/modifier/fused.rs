//! The usual program without its instructions: fields, a signature, checksums from partial sums.
//!
//! What a frame looks like does not depend on the order of such instructions, and all of it but the signature is known
//! before the frame is wanted. So it is worked out for many frames at once, and what is left for each frame is storing it.
//! Three times as fast as one instruction after another, which is how [`machine`](super::machine) runs programs that
//! depend on more. Start with [`Fused::new`].

use super::fix::Fix;
use super::machine::{AHEAD, Column, Field, Step, halves, put};
use super::variable::Width;
use crate::signature::Signature;

/// A program whose instructions do not depend on each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fused {
    writes: Box<[Write]>,
    /// Where.
    signature: Option<usize>,
    sums: Box<[Sum]>,
}

/// A field.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Write {
    field: Field,
    /// The bits that it leaves as they are in the template.
    kept: u64,
    /// Which of the checksums cover it, and shifted by how many bits.
    covered: Box<[(usize, u32)]>,
    /// The field in the next frames, read as big endian.
    next: Column,
}

/// A checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sum {
    fix: Fix,
    at: usize,
    /// Sum of what never changes.
    constant: u64,
    /// Is the signature covered, and shifted by how many bits?
    signature: Option<u32>,
    /// The sums in the next frames, without the signature.
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
        let (mut writes, mut signature, mut sums) = (Vec::new(), None, Vec::new());
        for (number, step) in steps.iter().enumerate() {
            match step {
                Step::Put(field) => writes.push(Write {
                    field: field.clone(),
                    kept: field.kept(template),
                    covered: covering(steps, number).collect(),
                    next: [0; AHEAD],
                }),
                Step::Signature { at } if signature.is_none() => signature = Some((number, *at)),
                Step::Sum { fix, constant, .. } => sums.push(Sum {
                    fix: *fix,
                    at: fix.field().start,
                    constant: *constant,
                    signature: None,
                    next: [0; AHEAD],
                }),
                _ => return None,
            }
        }
        if let Some((number, _)) = signature {
            for (sum, shift) in covering(steps, number) {
                sums[sum].signature = Some(shift);
            }
        }
        Some(Fused {
            writes: writes.into(),
            signature: signature.map(|(_, at)| at),
            sums: sums.into(),
        })
    }

    /// Works out the next frames, for which these are the values.
    pub fn look_ahead(&mut self, values: &[Column]) {
        for sum in &mut self.sums {
            sum.next.fill(sum.constant);
        }
        for write in &mut self.writes {
            let (field, kept) = (&write.field, write.kept);
            field.wires(&values[field.value], &mut write.next);
            for (sum, shift) in &write.covered {
                add(&mut self.sums[*sum].next, &write.next, *shift, field.width);
            }
            if kept != 0 {
                write.next.iter_mut().for_each(|wire| *wire |= kept);
            }
        }
    }

    /// Writes what changes into the frame that is number `next` of those that were worked out.
    #[inline]
    pub fn write(&self, frame: &mut [u8], next: usize, signature: &Signature) {
        let next = next % AHEAD;
        for write in &self.writes {
            let (at, wire) = (write.field.at, write.next[next]);
            match write.field.width {
                Width::Four => frame[at..at + 4].copy_from_slice(&(wire as u32).to_be_bytes()),
                Width::Two => frame[at..at + 2].copy_from_slice(&(wire as u16).to_be_bytes()),
                width => put_rare(frame, at, width, wire),
            }
        }
        if let Some(at) = self.signature {
            signature.write(&mut frame[at..]);
        }
        for sum in &self.sums {
            let total = match sum.signature {
                None => sum.next[next],
                Some(shift) => sum.next[next] + (signature.wide_sum() << shift),
            };
            let checksum = sum.fix.checksum(total);
            frame[sum.at..sum.at + 2].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

/// Adds what is written to the sums that cover it.
#[inline]
fn add(sums: &mut Column, wires: &Column, shift: u32, width: Width) {
    let sums = sums.iter_mut().zip(wires);
    match width {
        Width::Eight => sums.for_each(|(sum, wire)| *sum += halves(*wire) << shift),
        _ => sums.for_each(|(sum, wire)| *sum += wire << shift),
    }
}

/// Which of the checksums cover what a step writes, by their number among checksums, and shifted by how many bits.
fn covering(steps: &[Step], number: usize) -> impl Iterator<Item = (usize, u32)> {
    let sums = steps.iter().filter_map(|step| match step {
        Step::Sum { terms, .. } => Some(terms),
        _ => None,
    });
    sums.enumerate().filter_map(move |(sum, terms)| {
        let term = terms.iter().find(|(term, _)| *term == number)?;
        Some((sum, term.1))
    })
}

/// Apart, because a choice between four widths becomes a jump that costs more than all of the field.
#[inline(never)]
fn put_rare(frame: &mut [u8], at: usize, width: Width, wire: u64) {
    put(frame, at, width, wire);
}
