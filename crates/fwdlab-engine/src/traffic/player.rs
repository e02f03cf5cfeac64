//! Plays traffic: decides which frame leaves next and when, and writes its bytes.
//!
//! No clock, no socket: the caller has both. Streams keep their own time exactly and are merged in
//! the order in which their frames are due; a frame is written into the caller's buffer. Start with
//! [`Player::upcoming`] and [`Player::take`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fwdlab_packet::Signature;
use fwdlab_packet::modifier::{self, Lists, Machine, ModifierError};

use super::share::{Part, Share};
use super::{Emission, Kind, Stream, Traffic, TrafficFrames};
use crate::error::EngineError;
use crate::pacer::{FINE, FRACTION, gap, scaled};

/// Half a unit: rounds times to the nearest unit.
const HALF: u128 = 1 << (FINE - 1);

/// Rates count as proportional, and are then made exactly so, if they are to this precision (a
/// third is not exact in binary), in numbers up to [`LARGEST_PROPORTION`].
const SAME: f64 = 1e-14;
const LARGEST_PROPORTION: u64 = 1 << 20;

/// An order of this length takes no more than 64 kB of cache.
const LONGEST_ORDER: u64 = 1 << 14;

/// Traffic that is being played, frame by frame.
///
/// Times are in 1/65536 ns after the start. Rules for a stream:
///
/// - frame k of a group leaves k gaps after its first; nothing follows the last frame;
/// - the pause before the next group begins after the last frame of the previous one, and so does
///   the delay of a stream that waits for this one to end; both may be zero;
/// - modifiers and sequence numbers continue when a stream runs again;
/// - starting a stream that still sends has no effect.
///
/// Frames due at the same time leave in the order of their streams. The load scales rates, but
/// neither delays nor pauses.
#[derive(Debug, Clone)]
pub struct Player {
    timeline: Timeline,
    /// Replaces the timeline: streams in a fixed order, repeated.
    order: Option<Order>,
    voices: Box<[StreamFrames]>,
    /// The machines of all kinds of all streams.
    machines: Box<[Machine]>,
    nonce: u16,
    /// Length of the longest frame of all senders.
    longest: usize,
    /// The next frame, determined when the previous one was taken.
    next: Option<NextFrame>,
}

/// The next frame to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextFrame {
    /// Its due time, in 1/65536 ns after the start.
    pub due: u64,
    /// Its stream: an index into [`Traffic::streams`].
    pub stream: u32,
    /// Its program, counted across all streams: a buffer that holds a frame of the same program is
    /// cheaper to fill.
    pub kind: u32,
}

/// The order of the streams if times do not matter.
#[derive(Debug, Clone)]
struct Order {
    streams: Box<[u32]>,
    at: usize,
}

/// The frames of a stream, without times. The pattern is empty if another sender sends them.
#[derive(Debug, Clone)]
struct StreamFrames {
    id: u16,
    path: usize,
    /// Machines of consecutive frames, counted across all streams.
    pattern: Box<[u32]>,
    at: usize,
    sequence: u64,
}

/// A source of frame buffers.
pub trait Room {
    /// Returns the next buffer and its contents; `None` if there is no more room.
    fn next(&mut self) -> Option<(&mut [u8], Slot)>;

    /// Reports the new contents of this buffer.
    fn filled(&mut self, slot: Slot);
}

/// The contents of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Length of its frame, in bytes without FCS.
    pub bytes: u32,
    /// Its stream; 0 for test frames.
    pub stream: u32,
    /// Its kind; `None` if it holds no frame of this trial.
    pub kind: Option<u32>,
}

impl Slot {
    /// No usable contents.
    pub const EMPTY: Slot = Slot {
        bytes: 0,
        stream: 0,
        kind: None,
    };
}

/// Buffers for frames of one kind.
struct Uniform<'a, R> {
    room: &'a mut R,
    stream: u32,
    kind: u32,
}

impl<R: Room> modifier::Room for Uniform<'_, R> {
    #[inline]
    fn next(&mut self) -> Option<(&mut [u8], bool)> {
        let (buffer, slot) = self.room.next()?;
        Some((buffer, slot.kind == Some(self.kind)))
    }

    #[inline]
    fn filled(&mut self, bytes: usize) {
        self.room.filled(Slot {
            bytes: bytes as u32,
            stream: self.stream,
            kind: Some(self.kind),
        });
    }
}

impl Player {
    /// Starts at the first frame, with a total of `load_pps` frames per second while the streams
    /// send at the profile's full load ([`own_load_pps`]). `None` is that load itself.
    ///
    /// # Errors
    /// Traffic that cannot be played: a stream without frames or kinds, a rate that is not a
    /// positive number, a program that does not fit its template, no stream that starts.
    pub fn new(frames: &TrafficFrames, load_pps: Option<f64>) -> Result<Player, EngineError> {
        Player::of_share(frames, load_pps, Share::WHOLE)
    }

    /// Like [`Player::new`], for one of several senders of the port: plays only its share of the
    /// frames, at the same times. `load_pps` is the load of all senders together.
    ///
    /// # Errors
    /// As [`Player::new`].
    pub fn of_share(
        frames: &TrafficFrames,
        load_pps: Option<f64>,
        share: Share,
    ) -> Result<Player, EngineError> {
        let traffic = &*frames.traffic;
        let mut machines = vec![];
        let mut voices = vec![];
        let mut longest = 0;
        for (index, stream) in traffic.streams.iter().enumerate() {
            check(stream, traffic.streams.len()).map_err(|action| bad(traffic, stream, &action))?;
            let kinds: Vec<Kind> = (stream.kinds.iter())
                .map(|kind| kind.for_trial(frames.nonce))
                .collect();
            longest = (kinds.iter().map(|kind| kind.template.len())).fold(longest, usize::max);
            let part = share.part(traffic, index);
            let (own, pattern) =
                programs(stream, &kinds, part).map_err(|e| bad(traffic, stream, &e.to_string()))?;
            let before = machines.len() as u32;
            machines.extend(own);
            let places = pattern.into_iter().map(|machine| before + machine);
            voices.push(StreamFrames {
                id: share.id(stream.id),
                path: stream.path,
                pattern: places.collect(),
                at: 0,
                sequence: 0,
            });
        }
        let mut lists = Lists::default();
        machines
            .iter_mut()
            .for_each(|m: &mut Machine| m.use_lists(&mut lists));
        let timeline = Timeline::new(traffic, load_pps, share);
        if traffic.streams.iter().all(|stream| stream.timing.waits) {
            return Err(EngineError::Frames(format!(
                "in {} every stream waits for another; at least one must start by itself",
                traffic.name
            )));
        }
        let mut player = Player {
            timeline,
            order: None,
            voices: voices.into(),
            machines: machines.into(),
            nonce: frames.nonce,
            longest,
            next: None,
        };
        player.find_next();
        Ok(player)
    }

    /// Prepares the same frames for a sender at full speed: in their order at the profile's own
    /// load, and with meaningless times (which are cheap if streams take turns in an order that
    /// repeats).
    #[must_use]
    pub fn without_times(mut self) -> Player {
        let round = self
            .timeline
            .shares()
            .map_or(0, |shares| shares.iter().sum());
        if (1..=LONGEST_ORDER).contains(&round) {
            let mut timeline = self.timeline.clone();
            let next = |_| {
                let (_, stream) = timeline.first?;
                timeline.advance();
                Some(stream)
            };
            self.order = (0..round)
                .map(next)
                .collect::<Option<_>>()
                .map(|streams| Order { streams, at: 0 });
            self.find_next();
        }
        self
    }

    /// Determines the next frame.
    #[inline]
    fn find_next(&mut self) {
        let next = match &self.order {
            Some(order) => Some((0, order.streams[order.at])),
            None => self.timeline.first,
        };
        self.next = next.map(|(due, stream)| NextFrame {
            due,
            stream,
            kind: self.voices[stream as usize].kind(),
        });
    }

    /// Returns the next frame; `None` if everything has been sent.
    #[inline]
    pub fn upcoming(&self) -> Option<NextFrame> {
        self.next
    }

    /// Returns the path of the next frame ([`Stream::path`]).
    #[inline]
    pub fn path(&self) -> usize {
        self.next
            .map_or(0, |next| self.voices[next.stream as usize].path)
    }

    /// Returns when the next frame is due, in 1/65536 ns after the start; `None` if everything has
    /// been sent.
    #[inline]
    pub fn due(&self) -> Option<u64> {
        self.next.map(|next| next.due)
    }

    /// Writes the next frame into `buffer`, with this time in its signature, and advances. `held`
    /// is the kind of the frame that the buffer already holds: for the same kind, only the
    /// differences are written. Returns the frame's length in bytes without FCS; 0 if everything
    /// has been sent.
    ///
    /// # Panics
    /// If the buffer is shorter than [`buffer_len`](Self::buffer_len).
    #[inline]
    pub fn take(&mut self, buffer: &mut [u8], held: Option<u32>, timestamp_ns: u64) -> usize {
        let Some(NextFrame { stream, kind, .. }) = self.next else {
            return 0;
        };
        let voice = &mut self.voices[stream as usize];
        let signature = Signature {
            nonce: self.nonce,
            stream: voice.id,
            sequence: voice.sequence,
            timestamp_ns,
        };
        voice.advance();
        self.skip();
        let machine = &mut self.machines[kind as usize];
        if held == Some(kind) {
            machine.patch(buffer, &signature)
        } else {
            machine.render(buffer, &signature)
        }
    }

    /// Returns true if all frames are of one stream and one kind, and their times do not matter
    /// ([`without_times`](Self::without_times)).
    pub(crate) fn is_uniform(&self) -> bool {
        let one_stream = self.order.as_ref().is_some_and(|o| o.streams.len() == 1);
        one_stream && self.voices.iter().all(|voice| voice.pattern.len() <= 1)
    }

    /// Returns true if all streams send endlessly from the start, so that only the load determines
    /// the times.
    pub(crate) fn is_steady(&self) -> bool {
        self.timeline.is_steady()
    }

    /// Repeats [`take`](Self::take) for [uniform](Self::is_uniform) frames, all with this time, up
    /// to `frames` times and while there is room. Returns how many.
    #[inline]
    pub(crate) fn fill(&mut self, frames: u64, timestamp_ns: u64, room: &mut impl Room) -> u64 {
        let Some(NextFrame { stream, kind, .. }) = self.next else {
            return 0;
        };
        let voice = &mut self.voices[stream as usize];
        let mut signature = Signature {
            nonce: self.nonce,
            stream: voice.id,
            sequence: voice.sequence,
            timestamp_ns,
        };
        let mut room = Uniform { room, stream, kind };
        let filled = self.machines[kind as usize].fill(frames, &mut signature, &mut room);
        voice.sequence = signature.sequence;
        filled
    }

    /// Skips the next frame without writing it, and leaves modifiers, kinds and sequence numbers
    /// unchanged: for a sender that has cached all frames and only needs times.
    #[inline]
    pub fn skip(&mut self) {
        match &mut self.order {
            Some(order) => {
                order.at += 1;
                if order.at == order.streams.len() {
                    order.at = 0;
                }
            }
            None => self.timeline.advance(),
        }
        self.find_next();
    }

    /// Drops frames that have been due for too long at `now`: continuous streams that are more than
    /// `patience` late keep their newest frame, and those before it will never leave
    /// ([`not_sent`](Self::not_sent)). Streams with a fixed number of frames do not lose any, but
    /// continue from now.
    #[inline]
    pub fn forgive(&mut self, now: u64, patience: u64) {
        if self
            .due()
            .is_some_and(|due| due.saturating_add(patience) < now)
        {
            self.timeline.forgive(now, patience);
            self.find_next();
        }
    }

    /// Returns how long the next frame waited because it should have left before the `now` of a
    /// [`forgive`](Self::forgive), in 1/65536 ns: only for streams that continue from there.
    #[inline]
    pub(crate) fn waited(&self) -> u64 {
        let stream = self.next.map(|next| next.stream as usize);
        stream.map_or(0, |stream| self.timeline.tracks[stream].waited)
    }

    /// Returns the frames that were due and dropped.
    pub fn not_sent(&self) -> u64 {
        self.timeline.not_sent
    }

    /// Changes the load from `now` on. Each stream keeps the remaining fraction of its current gap,
    /// at the new rate; delays and pauses do not change. Of the frames that were due before and not
    /// taken, one is due now and the others are dropped.
    pub fn set_load(&mut self, load_pps: f64, now: u64) {
        self.timeline.set_load(load_pps, now);
        self.find_next();
    }

    /// Changes the rate of each stream from `now` on, in frames per second; 0 pauses it until its
    /// rate changes again. Works like [`set_load`](Self::set_load); a paused stream resumes with
    /// the remaining time to its next frame.
    pub fn set_rates(&mut self, rates: &[f64], now: u64) {
        self.timeline.set_rates(rates, now);
        self.find_next();
    }

    /// Returns true if the next frame belongs to a stream with a fixed number of frames, which must
    /// all leave.
    pub(crate) fn is_counted(&self) -> bool {
        self.next
            .is_some_and(|next| self.timeline.tracks[next.stream as usize].counted)
    }

    /// Returns true if a stream that would send is paused.
    pub(crate) fn has_paused_stream(&self) -> bool {
        let mut tracks = self.timeline.tracks.iter();
        tracks.any(|track| track.sends && track.held)
    }

    /// Returns the size that a buffer needs for any frame.
    pub fn buffer_len(&self) -> usize {
        self.longest
    }

    /// Returns the load of this share, if streams have these rates, in frames per second.
    pub(crate) fn own_load_pps(&self, rates: &[f64]) -> f64 {
        let tracks = self.timeline.tracks.iter().zip(rates);
        let own = tracks.filter(|(track, _)| track.every > 0);
        own.map(|(track, rate)| rate / track.every as f64).sum()
    }

    /// Returns the part of the load that this share has: 1 for a single sender.
    pub(crate) fn part_of_load(&self) -> f64 {
        let rates: Vec<f64> = self.timeline.tracks.iter().map(|t| t.rate_pps).collect();
        self.own_load_pps(&rates) / rates.iter().sum::<f64>()
    }

    /// Returns the number of frames of each stream in one round, if streams take turns in an order
    /// that repeats.
    pub(crate) fn shares(&self) -> Option<Vec<u64>> {
        self.timeline.shares()
    }

    /// Returns the number of streams.
    pub fn streams(&self) -> usize {
        self.voices.len()
    }

    /// Returns the number of frames after which the output repeats, byte for byte and in the same
    /// order, if it does: if all streams send endlessly from the start, at rates in whole
    /// proportions, and no frame carries a signature.
    ///
    /// A sender with room for that many frames writes them once. Call this before the first frame
    /// is taken.
    pub fn cycle(&self) -> Option<u64> {
        let shares = self.timeline.shares()?;
        // the number of rounds of the merged order until every stream is back at its start
        let mut rounds = 1;
        for (voice, share) in self.voices.iter().zip(&shares) {
            let period = voice.period(&self.machines)?;
            rounds = lcm(rounds, period / gcd(period, *share))?;
        }
        shares
            .iter()
            .try_fold(0_u64, |sum, share| sum.checked_add(*share))?
            .checked_mul(rounds)
    }
}

/// Returns the machines that render a sender's frames of a stream, and the machine of each place of
/// the sender's pattern.
///
/// With several senders, the number of frames of a kind that a sender skips differs from place to
/// place of its pattern, but not from round to round. So every place has its own machine.
fn programs(
    stream: &Stream,
    kinds: &[Kind],
    part: Part,
) -> Result<(Vec<Machine>, Vec<u32>), ModifierError> {
    let pattern = &stream.pattern;
    let Part::Every { first, every } = part else {
        if part == Part::None {
            return Ok((Vec::new(), Vec::new()));
        }
        let machines = (kinds.iter()).map(|kind| kind.program.machine(&kind.template));
        let pattern = pattern.iter().map(|&kind| kind.into()).collect();
        return Ok((machines.collect::<Result<_, _>>()?, pattern));
    };
    let length = pattern.len() as u64;
    // the number of its frames after which the sender is at the same place of the pattern
    let frames = length / gcd(length, every);
    let rounds = frames * every / length;
    // how often each kind came before each place of the pattern
    let mut often = vec![0_u64; kinds.len()];
    let mut before = Vec::with_capacity(pattern.len());
    for &kind in pattern {
        before.push(often[usize::from(kind)]);
        often[usize::from(kind)] += 1;
    }
    let machines = (0..frames).map(|at| {
        let frame = first + at * every;
        let place = (frame % length) as usize;
        let number = usize::from(pattern[place]);
        let (kind, often) = (&kinds[number], often[number]);
        let first = frame / length * often + before[place];
        (kind.program).every(&kind.template, first, often * rounds)
    });
    let machines = machines.collect::<Result<Vec<_>, _>>()?;
    Ok((machines, (0..frames as u32).collect()))
}

/// Returns the frames per second of a profile's own load: the largest sum of the rates of streams
/// that send at the same time.
///
/// A stream that sends in groups counts from its first frame to its last, including pauses. Loops
/// are followed for a few thousand starts.
pub fn own_load_pps(traffic: &Traffic) -> f64 {
    const STARTS: usize = 4096;
    /// Ends come before starts of the same time: a stream that follows another does not add to it.
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Event {
        End,
        Start,
    }
    let streams = &traffic.streams;
    let mut events: BinaryHeap<_> = (0..)
        .zip(streams)
        .filter(|(_, stream)| !stream.timing.waits)
        .map(|(index, stream)| Reverse((stream.timing.delay_ns, Event::Start, index)))
        .collect();
    let mut sending = vec![false; streams.len()];
    let mut runs = vec![0_u32; streams.len()];
    let (mut load, mut largest, mut starts) = (0.0_f64, 0.0_f64, 0);
    while let Some(Reverse((at, event, index))) = events.pop() {
        let stream: &Stream = &streams[index];
        let timing = &stream.timing;
        match event {
            Event::Start if sending[index] => {}
            Event::Start => {
                sending[index] = true;
                load += timing.rate_pps;
                largest = largest.max(load);
                starts += 1;
                if starts > STARTS.max(4 * streams.len()) {
                    break;
                }
                if let Some(lasts) = lasts_ns(stream) {
                    let end = at.saturating_add(lasts);
                    events.push(Reverse((end, Event::End, index)));
                }
            }
            Event::End => {
                sending[index] = false;
                load -= timing.rate_pps;
                runs[index] = runs[index].saturating_add(1);
                let continues = timing.runs.is_none_or(|most| runs[index] < most);
                if let Some(next) = timing
                    .next
                    .filter(|&next| continues && next < streams.len())
                {
                    let start = at.saturating_add(streams[next].timing.delay_ns);
                    events.push(Reverse((start, Event::Start, next)));
                }
            }
        }
    }
    largest
}

/// Returns the time from the first frame of a run to its last; `None`: endless.
fn lasts_ns(stream: &Stream) -> Option<u64> {
    let of_group = |frames: u64| frames.saturating_sub(1) as f64 * 1e9 / stream.timing.rate_pps;
    let ns = match stream.timing.mode {
        Emission::Continuous => return None,
        Emission::Burst { frames } => of_group(frames),
        Emission::Bursts {
            frames,
            pause_ns,
            bursts,
        } => {
            let bursts = bursts? as f64;
            of_group(frames) * bursts + pause_ns as f64 * (bursts - 1.0)
        }
    };
    Some(ns as u64)
}

fn bad(traffic: &Traffic, stream: &Stream, action: &str) -> EngineError {
    EngineError::Frames(format!(
        "stream {} of {}: {action}",
        stream.name, traffic.name
    ))
}

/// Checks that the stream can be played; `streams` is the number of streams.
fn check(stream: &Stream, streams: usize) -> Result<(), String> {
    let timing = &stream.timing;
    let rate = timing.rate_pps;
    if !(rate > 0.0 && rate.is_finite()) {
        return Err(format!(
            "its rate is {rate} frames/s; it must be a positive number"
        ));
    }
    if stream.pattern.is_empty() {
        return Err("it has no frames; give it a packet or sizes".into());
    }
    if let Some(kind) = stream
        .pattern
        .iter()
        .find(|&&kind| usize::from(kind) >= stream.kinds.len())
    {
        return Err(format!(
            "its pattern names kind {kind}, and it has {}",
            stream.kinds.len()
        ));
    }
    if let Emission::Burst { frames: 0 }
    | Emission::Bursts { frames: 0, .. }
    | Emission::Bursts {
        bursts: Some(0), ..
    } = timing.mode
    {
        return Err("a burst without frames; it must have at least one".into());
    }
    match timing.next {
        Some(next) if next >= streams => Err(format!("the next stream {next} does not exist")),
        _ => Ok(()),
    }
}

impl StreamFrames {
    #[inline]
    fn kind(&self) -> u32 {
        self.pattern[self.at]
    }

    #[inline]
    fn advance(&mut self) {
        self.sequence += 1;
        self.at += 1;
        if self.at == self.pattern.len() {
            self.at = 0;
        }
    }

    /// Returns the number of its frames after which they repeat.
    fn period(&self, machines: &[Machine]) -> Option<u64> {
        let mut of_kinds = vec![0; machines.len()];
        for &kind in &self.pattern {
            of_kinds[kind as usize] += 1;
        }
        let mut rounds = 1;
        for (machine, &of_kind) in machines.iter().zip(&of_kinds) {
            if of_kind > 0 {
                let period = machine.period()?;
                rounds = lcm(rounds, period / gcd(period, of_kind))?;
            }
        }
        rounds.checked_mul(self.pattern.len() as u64)
    }
}

/// The due times of all streams, and the stream of the next frame.
#[derive(Debug, Clone)]
struct Timeline {
    tracks: Box<[Track]>,
    /// When the next frame is due, and its stream; and the same for all other active streams,
    /// sorted by time and then by number. Never grows.
    first: Option<(u64, u32)>,
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    own_load_pps: f64,
    not_sent: u64,
}

/// The times of one stream. Sums have [`FINE`] additional fractional bits, plus a half, so that
/// truncation rounds.
#[derive(Debug, Clone)]
struct Track {
    mode: Emission,
    rate_pps: f64,
    delay: u128,
    pause: u128,
    waits: bool,
    then: Option<u32>,
    /// The sender has every frame (1), every n-th, or none (0).
    every: u64,
    /// The gap between frames of all senders at the profile's own load, and the current one.
    own_gap: u128,
    stream_gap: u128,
    /// The gap between frames of this sender, in a group.
    gap: u128,
    next: u128,
    /// By how much the next frame is late because due frames were delayed.
    waited: u64,
    /// Frames in a group; the largest number for an endless stream.
    group: u64,
    /// Remaining frames in this group, and remaining groups.
    frames: u64,
    groups: u64,
    /// How often it may still end before it no longer starts the next stream.
    runs: u64,
    sends: bool,
    /// Paused; `next` is the remaining time to the next frame.
    held: bool,
    /// True if it ends after a fixed number of frames ([`Traffic::is_counted`]).
    counted: bool,
}

impl Timeline {
    fn new(traffic: &Traffic, load_pps: Option<f64>, share: Share) -> Timeline {
        let mut timeline = Timeline {
            tracks: (traffic.streams.iter().enumerate())
                .map(|(at, stream)| Track::new(stream, traffic.is_counted(at)))
                .collect(),
            first: None,
            queue: BinaryHeap::with_capacity(traffic.streams.len()),
            own_load_pps: own_load_pps(traffic),
            not_sent: 0,
        };
        timeline.keep_step();
        if let Some(load_pps) = load_pps {
            let factor = timeline.own_load_pps / load_pps;
            for track in &mut timeline.tracks {
                track.stream_gap = scaled(track.own_gap, factor);
            }
        }
        for stream in 0..timeline.tracks.len() {
            let part = share.part(traffic, stream);
            let track = &mut timeline.tracks[stream];
            let first = track.share(part);
            if !track.waits && track.every > 0 {
                timeline.start(stream as u32, HALF, first);
            }
        }
        timeline
    }

    /// Returns the number of frames of each stream in one round of an order that repeats, if all
    /// streams send endlessly from the start and in whole proportions.
    fn shares(&self) -> Option<Vec<u64>> {
        if !self.is_steady() {
            return None;
        }
        let own = self.tracks.iter().filter(|track| track.every > 0);
        let rates: Vec<f64> = own.map(|t| t.rate_pps / t.every as f64).collect();
        let mut shares = proportions(&rates)?.into_iter();
        let of_all = self.tracks.iter().map(|track| match track.every {
            0 => Some(0),
            _ => shares.next(),
        });
        of_all.collect()
    }

    /// Returns true if all streams send endlessly from the start.
    fn is_steady(&self) -> bool {
        let steady = |track: &Track| {
            track.mode == Emission::Continuous && track.delay == 0 && !track.waits && !track.held
        };
        self.tracks.iter().all(steady)
    }

    /// Makes gaps exact fractions of one round, if rates are proportional except for their last
    /// bits: otherwise the order of frames that are due at the same time would change after a
    /// while.
    fn keep_step(&mut self) {
        let Some(shares) = self.shares() else { return };
        let round = self.tracks[0].own_gap.checked_mul(shares[0].into());
        let Some(round) = round else { return };
        for (track, share) in self.tracks.iter_mut().zip(shares) {
            track.own_gap = round / u128::from(share);
            track.stream_gap = track.own_gap;
        }
    }

    /// Starts a stream with this frame.
    fn start(&mut self, stream: u32, at: u128, first: u64) {
        let track = &mut self.tracks[stream as usize];
        if !track.sends {
            track.start(if track.held { 0 } else { at });
            if first > 0 && !track.pass(first) {
                track.sends = false;
                return;
            }
            if !track.held {
                let due = track.due();
                self.insert((due, stream));
            }
        }
    }

    fn insert(&mut self, new: (u64, u32)) {
        match &mut self.first {
            Some(first) => {
                let later = new.max(*first);
                *first = new.min(*first);
                self.queue.push(Reverse(later));
            }
            None => self.first = Some(new),
        }
    }

    /// Advances after the next frame was taken.
    #[inline]
    fn advance(&mut self) {
        let Some((due, stream)) = &mut self.first else {
            return;
        };
        let track = &mut self.tracks[*stream as usize];
        if !track.advance() {
            return self.end();
        }
        *due = track.due();
        let this = (*due, *stream);
        if let Some(mut other) = self.queue.peek_mut()
            && other.0 < this
        {
            self.first = Some(std::mem::replace(&mut other.0, this));
        }
    }

    /// Handles the end of the stream whose frame was taken.
    fn end(&mut self) {
        let Some((_, stream)) = self.first else {
            return;
        };
        self.first = self.queue.pop().map(|Reverse(next)| next);
        let track = &mut self.tracks[stream as usize];
        track.sends = false;
        track.runs = track.runs.saturating_sub(1);
        let at = track.next;
        if let Some(then) = track.then.filter(|_| track.runs > 0) {
            self.start(then, at, 0);
        }
    }

    #[cold]
    fn forgive(&mut self, now: u64, patience: u64) {
        for track in self.tracks.iter_mut().filter(|t| t.sends && !t.held) {
            let behind = now.saturating_sub(track.due());
            if behind <= patience {
                continue;
            }
            match track.mode {
                Emission::Continuous => self.not_sent += track.catch_up(now),
                _ => {
                    track.next = at(now);
                    track.waited = track.waited.saturating_add(behind);
                }
            }
        }
        self.requeue();
    }

    fn set_load(&mut self, load_pps: f64, now: u64) {
        let factor = self.own_load_pps / load_pps;
        for track in &mut self.tracks {
            self.not_sent += track.drop_late(now);
            track.set_gap(scaled(track.own_gap, factor), now);
        }
        self.requeue();
    }

    fn set_rates(&mut self, rates: &[f64], now: u64) {
        for (track, &rate) in self.tracks.iter_mut().zip(rates) {
            self.not_sent += track.drop_late(now);
            match (rate > 0.0, track.held) {
                (false, false) => {
                    track.next = track.next.saturating_sub(at(now));
                    track.held = true;
                }
                (false, true) => {}
                (true, held) => {
                    if held {
                        track.next = at(now).saturating_add(track.next);
                        track.held = false;
                    }
                    track.set_gap(scaled(track.own_gap, track.rate_pps / rate), now);
                }
            }
        }
        self.requeue();
    }

    fn requeue(&mut self) {
        self.queue.clear();
        self.first = None;
        for stream in 0..self.tracks.len() {
            let track = &self.tracks[stream];
            if track.sends && !track.held {
                self.insert((track.due(), stream as u32));
            }
        }
    }
}

/// Converts a time to the unit of tracks.
fn at(units: u64) -> u128 {
    u128::from(units) << FINE | HALF
}

impl Track {
    fn new(stream: &Stream, counted: bool) -> Track {
        let timing = &stream.timing;
        let (group, groups, pause_ns) = match timing.mode {
            Emission::Continuous => (u64::MAX, 0, 0),
            Emission::Burst { frames } => (frames, 0, 0),
            Emission::Bursts {
                frames,
                pause_ns,
                bursts,
            } => (frames, bursts.unwrap_or(u64::MAX) - 1, pause_ns),
        };
        let time = |ns: u64| u128::from(ns.saturating_mul(1 << FRACTION)) << FINE;
        let own_gap = gap(timing.rate_pps);
        Track {
            mode: timing.mode,
            rate_pps: timing.rate_pps,
            delay: time(timing.delay_ns),
            pause: time(pause_ns),
            waits: timing.waits,
            then: timing.next.map(|next| next as u32),
            every: 1,
            own_gap,
            stream_gap: own_gap,
            gap: own_gap,
            next: 0,
            waited: 0,
            group,
            frames: group,
            groups,
            runs: timing.runs.map_or(u64::MAX, u64::from).max(1),
            sends: false,
            held: timing.held,
            counted,
        }
    }

    #[inline]
    fn due(&self) -> u64 {
        (self.next >> FINE) as u64
    }

    fn start(&mut self, at: u128) {
        self.sends = true;
        self.next = at.saturating_add(self.delay);
    }

    /// Sets what the sender sends of the stream; returns the number of its first frame.
    fn share(&mut self, part: Part) -> u64 {
        let (first, every) = match part {
            Part::None => (0, 0),
            Part::Whole => (0, 1),
            Part::Every { first, every } => (first, every),
        };
        self.every = every;
        self.gap = self.stream_gap.saturating_mul(every.into());
        first
    }

    /// Advances to the sender's next frame; returns false after the last one, and `next` is its
    /// time.
    #[inline]
    fn advance(&mut self) -> bool {
        if self.frames > self.every {
            self.frames -= self.every;
            self.delay_next(self.gap);
            return true;
        }
        self.pass(self.every)
    }

    /// Advances by this number of frames, also into other groups.
    fn pass(&mut self, frames: u64) -> bool {
        if self.frames > frames {
            self.frames -= frames;
            self.delay_next(self.stream_gap.saturating_mul(frames.into()));
            return true;
        }
        let of_gaps = |gaps: u64| self.stream_gap.saturating_mul(gaps.into());
        let mut left = frames - self.frames;
        let mut step = of_gaps(self.frames - 1);
        let mut groups = self.groups;
        while groups > 0 {
            groups -= 1;
            step = step.saturating_add(self.pause);
            if left < self.group {
                step = step.saturating_add(of_gaps(left));
                (self.frames, self.groups) = (self.group - left, groups);
                self.delay_next(step);
                return true;
            }
            left -= self.group;
            step = step.saturating_add(of_gaps(self.group - 1));
        }
        self.frames = self.group;
        self.waited = 0;
        self.groups = match self.mode {
            Emission::Bursts { bursts, .. } => bursts.unwrap_or(u64::MAX) - 1,
            _ => 0,
        };
        false
    }

    /// Delays the next frame by `step`, and reduces its wait by the same time.
    #[inline]
    fn delay_next(&mut self, step: u128) {
        self.next = self.next.saturating_add(step);
        if self.waited > 0 {
            self.waited = self.waited.saturating_sub((step >> FINE) as u64);
        }
    }

    /// Drops late frames before a change of the rate: an endless stream keeps one frame, which is
    /// due now. Returns how many will never leave.
    fn drop_late(&mut self, now: u64) -> u64 {
        if !self.sends || self.held || self.next >= at(now) {
            return 0;
        }
        let mut missed = 0;
        match self.mode {
            Emission::Continuous => missed = self.catch_up(now),
            _ => self.waited = self.waited.saturating_add(now.saturating_sub(self.due())),
        }
        self.next = at(now);
        missed
    }

    /// Changes the gap from now on, keeping the remaining fraction of the current one. Does not
    /// affect a delay or a pause.
    fn set_gap(&mut self, gap: u128, now: u64) {
        if self.sends && self.frames < self.group {
            let left = match self.held {
                true => self.next,
                false => self.next - at(now),
            };
            // what is left of a pause or a delay, before the first gap of the group
            let gaps = self
                .stream_gap
                .saturating_mul((self.group - self.frames).into());
            let pause = left.saturating_sub(gaps);
            let left = scaled(left - pause, gap as f64 / self.stream_gap as f64);
            let left = left.saturating_add(pause);
            self.next = match self.held {
                true => left,
                false => at(now).saturating_add(left),
            };
        }
        self.stream_gap = gap;
        self.gap = gap.saturating_mul(self.every.into());
    }

    /// Drops all due frames but the newest; returns how many.
    fn catch_up(&mut self, now: u64) -> u64 {
        let missed = at(now).saturating_sub(self.next) / self.gap;
        self.next += missed * self.gap;
        missed as u64
    }
}

/// Returns the smallest whole numbers in these proportions.
fn proportions(rates: &[f64]) -> Option<Vec<u64>> {
    let first = *rates.first()?;
    let fractions: Vec<(u64, u64)> = rates
        .iter()
        .map(|rate| fraction(rate / first))
        .collect::<Option<_>>()?;
    let common = fractions
        .iter()
        .try_fold(1, |common, (_, denominator)| lcm(common, *denominator))?;
    let shares: Vec<u64> = fractions
        .iter()
        .map(|(numerator, denominator)| numerator.checked_mul(common / denominator))
        .collect::<Option<_>>()?;
    let divisor = shares.iter().fold(0, |divisor, share| gcd(divisor, *share));
    Some(shares.iter().map(|share| share / divisor).collect())
}

/// Returns a number as a fraction, from a continued fraction that is extended until both are equal.
fn fraction(number: f64) -> Option<(u64, u64)> {
    let (mut before, mut now) = ((0_u64, 1_u64), (1_u64, 0_u64));
    let mut rest = number;
    loop {
        let whole = rest.floor();
        if whole > LARGEST_PROPORTION as f64 {
            return None;
        }
        let next = (
            whole as u64 * now.0 + before.0,
            whole as u64 * now.1 + before.1,
        );
        (before, now) = (now, next);
        if now.0.max(now.1) > LARGEST_PROPORTION {
            return None;
        }
        if now.0 > 0 && (now.0 as f64 / now.1 as f64 / number - 1.0).abs() < SAME {
            return Some(now);
        }
        rest = 1.0 / (rest - whole);
    }
}

pub(super) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

pub(super) fn lcm(a: u64, b: u64) -> Option<u64> {
    (a / gcd(a, b)).checked_mul(b)
}
