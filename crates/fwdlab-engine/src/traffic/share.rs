//! Several senders on one port: which of them sends which frame of a traffic.
//!
//! A [`Share`] is one sender's part. Frame j of stream s belongs to sender (j + s) modulo the
//! number of senders, so every sender has every T-th frame of each stream, at the times that the
//! frames have with one sender. Together, the senders send the frames of one sender: the same
//! bytes, except the numbers in signatures, at the same times. The [player](super::player) plays a
//! share; nothing here knows threads or ports. Start with [`Share`]; [`counts`] splits a number of
//! frames.
//!
//! **Order within a flow.** Two senders do not wait for each other, so frames of one flow stay in
//! order only if one sender sends them all. If a stream has one kind of frame, this is the case if
//! the number of senders divides the number of its flows.
//!
//! **Numbers.** Every sender numbers its frames of a stream from 0, under a stream id of its own
//! ([`Share::id`]). With the numbers of one sender, a receiver could not tell a sender that is late
//! from frames that the DUT has reordered, and would lose track if it is later than the
//! [window](crate::analysis::WINDOW). With own ids, the analysers in user space and at the driver
//! are those for one sender: a sender's frames of a stream are one more stream. Number n of sender
//! k is frame n * T + [`first`](Share::first) of the stream.
//!
//! **Streams that are not split** are sent by the first sender alone: streams that start others or
//! wait for others, because their times depend on each other; frames with TRex's latency header,
//! whose numbers must rise; programs that cannot [skip
//! frames](fwdlab_packet::modifier::Program::skips); streams of which a router forwards some frames
//! and others not, because their number sent must tell how many of each; and patterns of more than
//! [`LONGEST_PATTERN`] frames.

use fwdlab_model::test_bed::check_senders;
use serde::{Deserialize, Serialize};

use fwdlab_packet::modifier::Instruction;

use super::player::{Player, gcd};
use super::{Emission, Frames, Kind, Stream, Traffic, TrafficFrames};
use crate::error::EngineError;
use crate::load::LoadPlan;

/// The lowest bit of the sender in a stream id.
const ID_SHIFT: u32 = 12;

/// Splitting a stream needs up to one program for each frame of its pattern.
pub const LONGEST_PATTERN: usize = 4096;

/// Maximum number of frames that are counted one by one, which takes a few seconds.
const MOST_COUNTED: u64 = 1 << 30;

/// One sender's part of the frames of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Number of the sender, from 0.
    pub sender: u32,
    /// Number of senders.
    pub of: u32,
}

/// What a sender sends of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Nothing.
    None,
    /// Every frame.
    Whole,
    /// This frame, and every `every`-th after it.
    Every {
        /// Number of the first frame.
        first: u64,
        /// Number of senders.
        every: u64,
    },
}

impl Share {
    /// The only sender.
    pub const WHOLE: Share = Share { sender: 0, of: 1 };

    /// Returns the shares of this number of senders.
    ///
    /// # Errors
    /// If there are too many.
    pub fn all(senders: u32) -> Result<Vec<Share>, EngineError> {
        check_senders(senders).map_err(EngineError::Frames)?;
        let shares = (0..senders).map(|sender| Share {
            sender,
            of: senders,
        });
        Ok(shares.collect())
    }

    /// Returns the number of the first frame of a split stream that this sender sends.
    pub fn first(self, stream: usize) -> u64 {
        let (sender, of) = (u64::from(self.sender), u64::from(self.of));
        (sender + of - stream as u64 % of) % of
    }

    /// Returns the stream id in signatures of this sender's frames.
    pub fn id(self, stream: u16) -> u16 {
        stream | (self.sender << ID_SHIFT) as u16
    }

    /// Returns what this sender sends of a stream.
    pub fn part(self, traffic: &Traffic, stream: usize) -> Part {
        let first = self.first(stream);
        match (self.of, is_split(traffic, stream, self.of)) {
            (1, _) => Part::Whole,
            (_, true) => Part::Every {
                first,
                every: self.of.into(),
            },
            (_, false) if self.sender == 0 => Part::Whole,
            (_, false) => Part::None,
        }
    }
}

/// Returns true if several senders share the frames of a stream.
pub fn is_split(traffic: &Traffic, stream: usize, senders: u32) -> bool {
    let Some(own) = traffic.streams.get(stream).filter(|_| senders > 1) else {
        return false;
    };
    let timing = &own.timing;
    let is_next = (traffic.streams.iter()).any(|other| other.timing.next == Some(stream));
    let is_numbered = |kind: &Kind| {
        let mut instructions = kind.program.instructions.iter();
        instructions.any(|i| matches!(i, Instruction::Trailer { .. }))
    };
    let forwarded = own.kinds.iter().filter(|kind| kind.is_forwarded()).count();
    let positions =
        own.pattern.len() / gcd(own.pattern.len() as u64, senders.into()).max(1) as usize;
    timing.next.is_none()
        && !timing.waits
        && !is_next
        && own
            .kinds
            .iter()
            .all(|k| k.program.skips() && !is_numbered(k))
        && (forwarded == 0 || forwarded == own.kinds.len())
        && positions <= LONGEST_PATTERN.max(own.kinds.len())
}

/// Checks that frames can be sent by this number of senders.
///
/// # Errors
/// If there are too many senders, or a stream id leaves no room for the number of the sender.
pub fn check(frames: &Frames, senders: u32) -> Result<(), EngineError> {
    Share::all(senders)?;
    let (Frames::Traffic(TrafficFrames { traffic, .. }), 2..) = (frames, senders) else {
        return Ok(());
    };
    match traffic.streams.iter().find(|s| s.id >> ID_SHIFT > 0) {
        None => Ok(()),
        Some(stream) => Err(EngineError::Frames(format!(
            "stream {} of {} has the id {}; {senders} senders need ids below {}: use one sender",
            stream.name,
            traffic.name,
            stream.id,
            1 << ID_SHIFT
        ))),
    }
}

/// Returns how many of the first `most` frames of one sender each of these senders sends, at this
/// load of all of them; `None`: no limit.
///
/// # Errors
/// If the traffic cannot be played, or too many frames would have to be counted one by one.
pub fn counts(
    frames: &Frames,
    load: &LoadPlan,
    most: Option<u64>,
    senders: u32,
) -> Result<Vec<Option<u64>>, EngineError> {
    let shares = Share::all(senders)?;
    let (Some(most), 2..) = (most, senders) else {
        return Ok(vec![most; shares.len()]);
    };
    let load_pps = match load {
        LoadPlan::Constant(pps) => Some(*pps),
        LoadPlan::FlatOut | LoadPlan::Stretches(_) => None,
    };
    let of_split = |share: &Share, stream: usize, frames: u64| {
        let (first, every) = (share.first(stream), u64::from(senders));
        frames.saturating_sub(first).div_ceil(every)
    };
    let Frames::Traffic(frames) = frames else {
        let of_each = shares.iter().map(|share| of_split(share, 0, most));
        return Ok(of_each.map(Some).collect());
    };
    let traffic = &frames.traffic;
    let of_streams = first_frames(frames, load_pps, most)?;
    let of_share = |share: &Share| {
        let streams = of_streams.iter().enumerate();
        let own = streams.map(|(stream, &frames)| match share.part(traffic, stream) {
            Part::None => 0,
            Part::Whole => frames,
            Part::Every { .. } => of_split(share, stream, frames),
        });
        own.sum()
    };
    Ok(shares.iter().map(of_share).map(Some).collect())
}

/// Returns how many of the first `most` frames are of each stream.
fn first_frames(
    frames: &TrafficFrames,
    load_pps: Option<f64>,
    most: u64,
) -> Result<Vec<u64>, EngineError> {
    let streams = &frames.traffic.streams;
    let mut of_streams = vec![0; streams.len()];
    if let [one] = &streams[..]
        && one.timing.next.is_none()
    {
        of_streams[0] = match one.timing.mode {
            Emission::Burst { frames } => most.min(frames),
            Emission::Bursts {
                frames,
                bursts: Some(bursts),
                ..
            } => most.min(frames.saturating_mul(bursts)),
            _ => most,
        };
        return Ok(of_streams);
    }
    let mut player = Player::new(frames, load_pps)?;
    // streams that take turns in an order that repeats
    let mut left = most;
    if let Some(shares) = player.shares() {
        let round: u64 = shares.iter().sum();
        for (frames, share) in of_streams.iter_mut().zip(shares) {
            *frames = most / round * share;
        }
        left %= round;
    }
    if left > MOST_COUNTED {
        return Err(EngineError::Frames(format!(
            "several senders cannot share {most} frames of streams whose order does not repeat; give a duration, at most \
             {MOST_COUNTED} frames, or one sender"
        )));
    }
    for _ in 0..left {
        let Some(next) = player.upcoming() else { break };
        of_streams[next.stream as usize] += 1;
        player.skip();
    }
    Ok(of_streams)
}

/// Returns the streams that are not split, by name, so that they are sent by the first sender
/// alone.
pub fn unsplit(traffic: &Traffic, senders: u32) -> Vec<&Stream> {
    let streams = traffic.streams.iter().enumerate();
    let unsplit = streams.filter(|(stream, _)| !is_split(traffic, *stream, senders));
    unsplit.map(|(_, stream)| stream).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_frames;
    use crate::traffic::Timing;
    use fwdlab_model::procedure::Stretch;

    /// Streams at these rates; their frames have no program.
    fn traffic(rates: &[f64], emission: Emission) -> Frames {
        let stream = |(id, rate_pps): (u16, &f64)| Stream {
            id,
            name: id.to_string(),
            kinds: vec![Kind {
                template: vec![0; 60],
                program: fwdlab_packet::modifier::Program::default(),
                place: None,
            }],
            pattern: vec![0],
            timing: Timing::new(*rate_pps, emission),
            path: 0,
        };
        let traffic = Traffic {
            name: "test".into(),
            streams: (0..).zip(rates).map(stream).collect(),
        };
        Frames::Traffic(TrafficFrames {
            traffic: traffic.into(),
            nonce: 1,
        })
    }

    fn counted(frames: &Frames, load: &LoadPlan, most: u64, senders: u32) -> Vec<u64> {
        let of_each = counts(frames, load, Some(most), senders).unwrap();
        of_each.into_iter().map(Option::unwrap).collect()
    }

    #[test]
    fn a_number_of_frames_is_split_as_evenly_as_they_take_turns() {
        let test = Frames::Test(test_frames(8));
        let flat_out = LoadPlan::FlatOut;
        assert_eq!(counted(&test, &flat_out, 9, 2), [5, 4]);
        assert_eq!(counted(&test, &flat_out, 9, 3), [3, 3, 3]);
        let fewer_than_senders = [(0, [0, 0, 0]), (1, [1, 0, 0]), (2, [1, 1, 0])];
        for (most, expected) in fewer_than_senders {
            assert_eq!(counted(&test, &flat_out, most, 3), expected);
        }
        let burst = traffic(&[1000.0], Emission::Burst { frames: 5 });
        assert_eq!(counted(&burst, &flat_out, 9, 2), [3, 2]);
    }

    /// Stream 1 begins with the second sender; the load changes no order.
    #[test]
    fn frames_of_each_stream_are_split() {
        let two = traffic(&[3000.0, 1000.0], Emission::Continuous);
        let stretch = Stretch {
            duration_ns: 1_000_000_000,
            from_pps: 0.0,
            to_pps: 800.0,
        };
        let over_time = LoadPlan::from_stretches(vec![stretch]);
        for load in [LoadPlan::FlatOut, LoadPlan::Constant(100.0), over_time] {
            assert_eq!(counted(&two, &load, 4, 2), [2, 2]);
            assert_eq!(counted(&two, &load, 12, 2), [5 + 1, 4 + 2]);
            assert_eq!(counted(&two, &load, 4 << 40, 2), [2 << 40; 2]);
        }
    }

    #[test]
    fn one_sender_and_no_limit_are_not_split() {
        let burst = traffic(&[1000.0], Emission::Burst { frames: 5 });
        for frames in [&Frames::Test(test_frames(8)), &burst] {
            let counts = |most, senders| counts(frames, &LoadPlan::FlatOut, most, senders);
            assert_eq!(counts(None, 3).unwrap(), [None; 3]);
            assert_eq!(counts(Some(9), 1).unwrap(), [Some(9)]);
            assert!(counts(None, 0).is_err() && counts(Some(9), 10_000).is_err());
        }
    }
}
