//! Checks the numbers in arriving frames: which are missing, and which are late.
//!
//! The caller knows the position of the number. Start with [`FramePort::walk`]; [`Sequence`] is
//! pure.

use std::time::{Duration, Instant};

use super::super::SECOND;
use super::{BUFFER, FramePort, SLICE};
use crate::error::LabError;

/// Checks the order of frame numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sequence {
    expected: Option<u32>,
    /// Number of gaps.
    pub gaps: u64,
    /// Number of missing numbers.
    pub missing: u64,
    /// Frames whose number is lower than the expected one.
    pub late: u64,
}

/// An error in the sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Numbers from this one on are missing.
    Gap(u32),
    /// This higher number was expected.
    OutOfOrder(u32),
}

impl Sequence {
    /// Takes the next number; a fault contains the expected one.
    pub fn take(&mut self, number: u32) -> Option<Fault> {
        let expected = self.expected.replace(number.wrapping_add(1))?;
        let delta = number.wrapping_sub(expected);
        match delta {
            0 => None,
            delta if delta < u32::MAX >> 1 => {
                self.gaps += 1;
                self.missing += u64::from(delta);
                Some(Fault::Gap(expected))
            }
            _ => {
                self.late += 1;
                Some(Fault::OutOfOrder(expected))
            }
        }
    }
}

/// The number of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbered {
    /// Its number.
    Number(u32),
    /// It is of this kind, but too short for a number.
    TooShort,
    /// It is of another kind.
    No,
}

/// Events of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walked {
    /// Another second without the first frame.
    Waiting,
    /// A frame of this length has no room for a number.
    TooShort(usize),
    /// A frame with this number was out of sequence.
    Wrong(u32, Fault),
}

/// Results of a walk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Walk {
    /// The sequence of numbers.
    pub sequence: Sequence,
    /// Frames that arrived and could not be examined in time: gaps may be caused by this host.
    pub dropped: u64,
    /// From the first frame to the end, without the silence that ended it.
    pub duration: Duration,
}

impl FramePort<'_> {
    /// Examines frames until it is over, or, with `until_silence`, until nothing has arrived for a
    /// second after the first frame.
    ///
    /// # Errors
    /// Fails if the system refuses it.
    pub fn walk(
        &self,
        until_silence: bool,
        number_of: &dyn Fn(&[u8]) -> Numbered,
        report: &mut dyn FnMut(Walked),
    ) -> Result<Walk, LabError> {
        let mut buffer = vec![0; BUFFER];
        let mut sequence = Sequence::default();
        let mut first: Option<Instant> = None;
        let mut last = Instant::now();
        while !self.is_over() {
            let Some(len) = self.receive(&mut buffer, SLICE)? else {
                if last.elapsed() >= SECOND {
                    if first.is_some() && until_silence {
                        break;
                    }
                    if first.is_none() {
                        last = Instant::now();
                        report(Walked::Waiting);
                    }
                }
                continue;
            };
            last = Instant::now();
            first.get_or_insert(last);
            self.count(len);
            match number_of(&buffer[..len.min(BUFFER)]) {
                Numbered::No => {}
                Numbered::TooShort => report(Walked::TooShort(len)),
                Numbered::Number(number) => {
                    if let Some(fault) = sequence.take(number) {
                        report(Walked::Wrong(number, fault));
                    }
                }
            }
        }
        let end = if self.is_over() { Instant::now() } else { last };
        Ok(Walk {
            sequence,
            dropped: self.single.dropped()?.into(),
            duration: first.map_or(Duration::ZERO, |first| end - first),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_that_jump() {
        let mut sequence = Sequence::default();
        assert_eq!(sequence.take(u32::MAX), None);
        assert_eq!(sequence.take(0), None);
        assert_eq!(sequence.take(3), Some(Fault::Gap(1)));
        assert_eq!(sequence.take(2), Some(Fault::OutOfOrder(4)));
        assert_eq!(sequence.take(3), None);
        let Sequence {
            gaps,
            missing,
            late,
            ..
        } = sequence;
        assert_eq!((gaps, missing, late), (1, 2, 1));
    }
}
