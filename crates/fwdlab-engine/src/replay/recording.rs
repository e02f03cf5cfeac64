//! Recordings: frames with the times between them; only the frames that are needed next are in
//! memory.
//!
//! Opening a recording checks its first frames, so errors in them are found before anything is
//! sent. A short recording stays in memory; for a longer one a thread reads the rest, a bounded
//! number of frames in advance. Start with [`Recording::open`]; the sender takes frames from
//! [`Unsent`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use fwdlab_packet::pcap::on_wire;

use crate::error::EngineError;
use crate::mtu;

/// The first check ends after this number of frames or bytes.
const LOOK_FRAMES: usize = 50_000;
const LOOK_BYTES: usize = 32 << 20;
/// Maximum frames or bytes of a piece of a recording, without its last frame.
const CHUNK_FRAMES: usize = 8192;
const CHUNK_BYTES: usize = 1 << 20;
/// Number of pieces that are read in advance.
const AHEAD: usize = 8;
/// How long the sender waits for a piece before it checks whether it must stop.
const WAIT: Duration = Duration::from_millis(10);

/// An error of a source.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// A source of frames, in the order in which they leave.
pub trait Source: Send {
    /// Appends the next frame, without FCS, and returns its time in nanoseconds, on any clock.
    /// `None` at the end.
    ///
    /// # Errors
    /// If the next frame cannot be read, or cannot be sent.
    fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Option<u64>, SourceError>;

    /// Restarts at the first frame.
    ///
    /// # Errors
    /// If it cannot.
    fn rewind(&mut self) -> Result<(), SourceError>;
}

/// The times of a capture file, relative to its first frame.
///
/// A frame without a time leaves with the previous one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock {
    first_ns: Option<u64>,
    last_ns: u64,
}

/// A longer gap between two frames is a wrong time.
const LONGEST_GAP_NS: u64 = 366 * 86_400 * 1_000_000_000;

impl Clock {
    /// Returns when a frame with this time leaves, in nanoseconds after the first frame that has
    /// one; 0 is no time.
    ///
    /// # Errors
    /// If it is more than a year after the previous frame.
    pub fn at(&mut self, timestamp_ns: u64) -> Result<u64, String> {
        if timestamp_ns == 0 {
            return Ok(self.last_ns);
        }
        let first = *self.first_ns.get_or_insert(timestamp_ns);
        let at = timestamp_ns.saturating_sub(first);
        if at.saturating_sub(self.last_ns) > LONGEST_GAP_NS {
            return Err(format!(
                "it was captured {} days after the frame before it: one of their times is wrong",
                (at - self.last_ns) / (86_400 * 1_000_000_000)
            ));
        }
        self.last_ns = self.last_ns.max(at);
        Ok(self.last_ns)
    }
}

/// A piece of consecutive frames.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    bytes: Vec<u8>,
    frames: Vec<Recorded>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Recorded {
    /// Time after the first frame of the round.
    at_ns: u64,
    begin: u32,
    len: u32,
}

impl Chunk {
    fn frame(&self, index: usize) -> (u64, &[u8]) {
        let Recorded { at_ns, begin, len } = self.frames[index];
        (at_ns, &self.bytes[begin as usize..][..len as usize])
    }
}

/// Reads pieces from a source.
struct Reader {
    source: Box<dyn Source>,
    /// The MTU that limits the frames, and its port.
    most: Option<(u32, String)>,
    /// For this round: the time of the first frame, the latest time after it, and the number of
    /// frames.
    first_ns: Option<u64>,
    latest_ns: u64,
    frames: u64,
    /// The error behind the frames that were read.
    failed: Option<SourceError>,
    ended: bool,
}

impl Reader {
    fn new(source: Box<dyn Source>) -> Reader {
        Reader {
            source,
            most: None,
            first_ns: None,
            latest_ns: 0,
            frames: 0,
            failed: None,
            ended: false,
        }
    }

    /// Returns the next frames; `None` at the end of a round.
    fn chunk(&mut self) -> Result<Option<Chunk>, SourceError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut chunk = Chunk::default();
        while !self.ended && chunk.frames.len() < CHUNK_FRAMES && chunk.bytes.len() < CHUNK_BYTES {
            let begin = chunk.bytes.len();
            match self.next(&mut chunk.bytes, begin) {
                Ok(Some(at_ns)) => chunk.frames.push(Recorded {
                    at_ns,
                    begin: begin as u32,
                    len: (chunk.bytes.len() - begin) as u32,
                }),
                Ok(None) => self.ended = true,
                // first return the frames before it
                Err(error) if !chunk.frames.is_empty() => {
                    self.failed = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok((!chunk.frames.is_empty()).then_some(chunk))
    }

    fn next(&mut self, bytes: &mut Vec<u8>, begin: usize) -> Result<Option<u64>, SourceError> {
        let Some(timestamp_ns) = self.source.next(bytes)? else {
            return Ok(None);
        };
        let frame = &bytes[begin..];
        if let Some((most, port)) = &self.most {
            mtu::judge(port, *most, mtu::most([frame]))?;
        }
        self.frames += 1;
        let first = *self.first_ns.get_or_insert(timestamp_ns);
        self.latest_ns = self.latest_ns.max(timestamp_ns.saturating_sub(first));
        Ok(Some(self.latest_ns))
    }

    /// Returns the time from the start of one round to that of the next: rounds are separated by
    /// the mean time between two frames.
    fn round_ns(&self) -> u64 {
        let gaps = self.frames.saturating_sub(1);
        let mean = self.latest_ns.checked_div(gaps).unwrap_or(0);
        // a single frame, and frames without times, have no time between them
        self.latest_ns + mean.max(if self.latest_ns == 0 { 1_000_000 } else { 1 })
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.source.rewind()?;
        (self.first_ns, self.latest_ns, self.frames) = (None, 0, 0);
        self.ended = false;
        Ok(())
    }

    /// Sends pieces to the channel until all rounds are done or the receiver is gone.
    fn run(mut self, rounds: u64, to: &SyncSender<Result<Piece, String>>) {
        let (mut round, mut base_ns) = (1, 0);
        loop {
            let piece = match self.chunk() {
                Ok(Some(chunk)) => Ok((Arc::new(chunk), base_ns)),
                Ok(None) if round == rounds || self.frames == 0 => return,
                Ok(None) => {
                    round += 1;
                    base_ns += self.round_ns();
                    match self.rewind() {
                        Ok(()) => continue,
                        Err(error) => Err(error.to_string()),
                    }
                }
                Err(error) => Err(error.to_string()),
            };
            let failed = piece.is_err();
            if to.send(piece).is_err() || failed {
                return;
            }
        }
    }
}

/// A piece, and when its round begins.
type Piece = (Arc<Chunk>, u64);

/// Frames to send, each with its time. One that was captured before its predecessor leaves together
/// with it.
pub struct Recording {
    head: Vec<Arc<Chunk>>,
    /// Frames and bytes of the head.
    frames: u64,
    bytes: u64,
    /// The bytes on the wire, where short frames are padded.
    wire_bytes: u64,
    /// The MTU that the longest of them needs, and its length.
    most: (usize, usize),
    round_ns: u64,
    /// The frames behind the head.
    rest: Option<Reader>,
}

impl Recording {
    /// Checks the first frames of a source, or all if there are few.
    ///
    /// # Errors
    /// The source's error for one of these frames; or there are none.
    pub fn open(source: impl Source + 'static) -> Result<Recording, SourceError> {
        let mut reader = Reader::new(Box::new(source));
        let mut recording = Recording {
            head: Vec::new(),
            frames: 0,
            bytes: 0,
            wire_bytes: 0,
            most: (0, 0),
            round_ns: 0,
            rest: None,
        };
        while !reader.ended {
            if recording.frames >= LOOK_FRAMES as u64 || recording.bytes >= LOOK_BYTES as u64 {
                recording.rest = Some(reader);
                return Ok(recording);
            }
            let Some(chunk) = reader.chunk()? else {
                break;
            };
            if let Some(error) = reader.failed.take() {
                return Err(error);
            }
            let frames = || (0..chunk.frames.len()).map(|n| chunk.frame(n).1);
            recording.most = recording.most.max(mtu::most(frames()));
            recording.wire_bytes += frames().map(|f| on_wire(f.len()) as u64).sum::<u64>();
            recording.frames += chunk.frames.len() as u64;
            recording.bytes += chunk.bytes.len() as u64;
            recording.head.push(Arc::new(chunk));
        }
        recording.round_ns = reader.round_ns();
        Ok(recording)
    }

    /// Returns the number of frames that were checked.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns the bytes of these on the wire, where short frames are padded, without FCS.
    pub fn wire_bytes(&self) -> u64 {
        self.wire_bytes
    }

    /// Returns true if these were all.
    pub fn is_whole(&self) -> bool {
        self.rest.is_none()
    }

    /// Returns the MTU that the longest of these needs, and its length without FCS.
    pub(super) fn most(&self) -> (usize, usize) {
        self.most
    }

    /// Returns `rounds` rounds of it, for a port with this MTU. Frames that were read during
    /// sending cannot be sent again.
    pub(super) fn play(
        &mut self,
        rounds: u64,
        port: &str,
        mtu: u32,
    ) -> Result<Unsent, EngineError> {
        let feed = match self.rest.take() {
            None if self.round_ns == 0 => {
                return Err(EngineError::Frames(
                    "a recording that is read while it is sent can only be sent once".into(),
                ));
            }
            None => Feed::Head {
                head: self.head.clone(),
                next: 0,
                base_ns: 0,
                round_ns: self.round_ns,
                rounds,
            },
            Some(mut reader) => {
                reader.most = Some((mtu, port.to_owned()));
                let (to, from) = sync_channel(AHEAD);
                thread::Builder::new()
                    .name("fwdlab-reader".into())
                    .spawn(move || reader.run(rounds, &to))
                    .map_err(|e| EngineError::system("start the thread that reads", e))?;
                Feed::Thread(from)
            }
        };
        let mut coming = Unsent {
            pieces: VecDeque::new(),
            at: 0,
            len: 0,
            ended: false,
            feed,
            failed: None,
        };
        if let Feed::Thread(_) = coming.feed {
            std::mem::take(&mut self.head)
                .into_iter()
                .for_each(|chunk| coming.push((chunk, 0)));
        }
        Ok(coming)
    }
}

/// Frames that have not left.
pub(super) struct Unsent {
    pieces: VecDeque<Piece>,
    /// Index of the next frame in the first piece.
    at: usize,
    /// Frames in memory.
    len: usize,
    ended: bool,
    feed: Feed,
    failed: Option<String>,
}

enum Feed {
    /// All frames are in memory, for this number of further rounds.
    Head {
        head: Vec<Arc<Chunk>>,
        next: usize,
        base_ns: u64,
        round_ns: u64,
        rounds: u64,
    },
    /// A thread reads them.
    Thread(Receiver<Result<Piece, String>>),
}

impl Unsent {
    /// Reads available frames until `wanted` frames are in memory; waits shortly if there are fewer
    /// than two, because the time of the second is needed when the first has left. Returns false if
    /// there are no more at all.
    ///
    /// # Errors
    /// If the source failed, and all frames before that have left.
    pub(super) fn fill(&mut self, requested: usize) -> Result<bool, EngineError> {
        while self.len < requested && !self.ended {
            match &mut self.feed {
                Feed::Head { rounds: 0, .. } => self.ended = true,
                Feed::Head {
                    head,
                    next,
                    base_ns,
                    round_ns,
                    rounds,
                } => {
                    let piece = (head[*next].clone(), *base_ns);
                    *next += 1;
                    if *next == head.len() {
                        *next = 0;
                        *base_ns = base_ns.saturating_add(*round_ns);
                        *rounds -= 1;
                    }
                    self.push(piece);
                }
                Feed::Thread(from) => {
                    let answer = match from.try_recv() {
                        Err(TryRecvError::Empty) if self.len > 1 => break,
                        Err(TryRecvError::Empty) => match from.recv_timeout(WAIT) {
                            Err(RecvTimeoutError::Timeout) => break,
                            answer => answer.ok(),
                        },
                        answer => answer.ok(),
                    };
                    match answer {
                        Some(Ok(piece)) => self.push(piece),
                        Some(Err(error)) => (self.failed, self.ended) = (Some(error), true),
                        None => self.ended = true,
                    }
                }
            }
        }
        match self.failed.take_if(|_| self.len == 0) {
            Some(error) => Err(EngineError::Recording(error)),
            None => Ok(self.len > 0 || !self.ended),
        }
    }

    fn push(&mut self, piece: Piece) {
        self.len += piece.0.frames.len();
        self.pieces.push_back(piece);
    }

    /// Returns the frames in memory, each with its time after the very first frame.
    pub(super) fn frames(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let skipped = self.at;
        (self.pieces.iter().enumerate()).flat_map(move |(n, (chunk, base_ns))| {
            let first = if n == 0 { skipped } else { 0 };
            (first..chunk.frames.len()).map(move |index| {
                let (at_ns, frame) = chunk.frame(index);
                (base_ns.saturating_add(at_ns), frame)
            })
        })
    }

    /// Removes frames that have left.
    pub(super) fn pass(&mut self, frames: usize) {
        self.len -= frames;
        self.at += frames;
        while let Some((chunk, _)) = self.pieces.front()
            && self.at >= chunk.frames.len()
        {
            self.at -= chunk.frames.len();
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_without_times_leave_with_the_one_before_and_wrong_times_are_refused() {
        const BEGIN: u64 = 1_700_000_000_000_000_000;
        let times = |all: &[u64]| -> Result<Vec<u64>, String> {
            let mut clock = Clock::default();
            all.iter().map(|at| clock.at(*at)).collect()
        };
        assert_eq!(times(&[0, BEGIN, BEGIN + 7]), Ok(vec![0, 0, 7]));
        assert_eq!(
            times(&[BEGIN, 0, BEGIN + 7, BEGIN + 3]),
            Ok(vec![0, 0, 7, 7])
        );
        assert_eq!(times(&[0, 0, 0]), Ok(vec![0, 0, 0]));
        let wrong = times(&[5, BEGIN]).unwrap_err();
        assert!(wrong.contains("19675 days after"), "{wrong}");
    }

    /// A number of frames of 100 bytes, 1 us apart, optionally with a bad last one.
    struct TestFrames {
        frames: u64,
        next: u64,
        bad: Option<u64>,
    }

    impl Source for TestFrames {
        fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Option<u64>, SourceError> {
            if self.bad == Some(self.next) {
                return Err("bad".into());
            }
            if self.next == self.frames {
                return Ok(None);
            }
            bytes.extend([self.next as u8; 100]);
            self.next += 1;
            Ok(Some(7_000 + self.next * 1000))
        }

        fn rewind(&mut self) -> Result<(), SourceError> {
            self.next = 0;
            Ok(())
        }
    }

    fn made(frames: u64, bad: Option<u64>) -> TestFrames {
        TestFrames {
            frames,
            next: 0,
            bad,
        }
    }

    /// Times and first bytes of all frames, and the final error.
    fn play(recording: &mut Recording, rounds: u64) -> (Vec<(u64, u8)>, Option<String>) {
        let mut coming = recording.play(rounds, "x", 1500).unwrap();
        let mut found = Vec::new();
        loop {
            match coming.fill(65) {
                Ok(true) => {}
                Ok(false) => return (found, None),
                Err(error) => return (found, Some(error.to_string())),
            }
            let some = coming.len.min(64);
            let taken: Vec<(u64, u8)> = (coming.frames().take(some))
                .map(|(at_ns, frame)| (at_ns, frame[0]))
                .collect();
            assert_eq!(taken.len(), some);
            found.extend(taken);
            coming.pass(some);
        }
    }

    #[test]
    fn rounds_in_memory_and_rounds_that_are_read_are_the_same() {
        let many = LOOK_FRAMES as u64 * 5 / 2;
        for frames in [1, 64, 65, 10_000, many] {
            let mut recording = Recording::open(made(frames, None)).unwrap();
            assert_eq!(recording.is_whole(), frames < many);
            let (found, error) = play(&mut recording, 3);
            assert_eq!(error, None);
            assert_eq!(found.len() as u64, 3 * frames);
            let round_ns = if frames == 1 {
                1_000_000
            } else {
                1000 * frames
            };
            for (n, (at_ns, byte)) in (0..).zip(&found) {
                let expected = (
                    n / frames * round_ns + n % frames * 1000,
                    (n % frames) as u8,
                );
                assert_eq!((*at_ns, *byte), expected, "{n} of {frames}");
            }
        }
    }

    #[test]
    fn frames_never_leave_before_the_one_before() {
        struct RecordedFrames(Vec<(u64, &'static [u8])>);
        impl Source for RecordedFrames {
            fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Option<u64>, SourceError> {
                let Some((at, frame)) = self.0.pop() else {
                    return Ok(None);
                };
                bytes.extend(frame);
                Ok(Some(at))
            }

            fn rewind(&mut self) -> Result<(), SourceError> {
                Ok(())
            }
        }
        let recording = Recording::open(RecordedFrames(vec![
            (1300, b"def"),
            (1400, b"c"),
            (1000, b"ab"),
        ]));
        let mut recording = recording.unwrap();
        // on the wire they are padded
        assert_eq!((recording.frames(), recording.wire_bytes()), (3, 180));
        let (found, _) = play(&mut recording, 2);
        // the next round begins 400 + 400 / 2 after the first
        let times: Vec<u64> = found.iter().map(|(at_ns, _)| *at_ns).collect();
        assert_eq!(times, [0, 400, 400, 600, 1000, 1000]);
        let same = Recording::open(RecordedFrames(vec![(7, b"a"), (7, b"b")])).unwrap();
        assert_eq!(same.round_ns, 1_000_000);
        assert_eq!(
            Recording::open(RecordedFrames(Vec::new()))
                .unwrap()
                .frames(),
            0
        );
    }

    #[test]
    fn errors_in_a_recording_are_reported_at_their_frame() {
        assert_eq!(
            Recording::open(made(100, Some(99)))
                .err()
                .unwrap()
                .to_string(),
            "bad"
        );
        let late = LOOK_FRAMES as u64 * 2 + 3;
        let mut recording = Recording::open(made(late + 5, Some(late))).unwrap();
        let (found, error) = play(&mut recording, 1);
        assert_eq!(found.len() as u64, late, "and none behind it");
        assert!(error.unwrap().ends_with(": bad"));
        assert!(recording.play(1, "x", 1500).is_err(), "it was read");
        // too long for the port, behind the first frames
        let mut recording = Recording::open(made(late, None)).unwrap();
        let mut coming = recording.play(1, "x", 85).unwrap();
        let error = loop {
            match coming.fill(65) {
                Ok(_) => coming.pass(coming.len),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("x has an MTU of 85 bytes"), "{error}");
    }

    #[test]
    fn a_reader_is_never_far_ahead() {
        let mut recording = Recording::open(made(10 * LOOK_FRAMES as u64, None)).unwrap();
        let mut coming = recording.play(u64::MAX, "x", 1500).unwrap();
        let mut seen = 0;
        while seen < 30 * LOOK_FRAMES {
            assert!(coming.fill(65).unwrap());
            assert!(coming.len <= LOOK_FRAMES + CHUNK_FRAMES + 65);
            let some = coming.len.min(64);
            coming.pass(some);
            seen += some;
        }
    }
}
