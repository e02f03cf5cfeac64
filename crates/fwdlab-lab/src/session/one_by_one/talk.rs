//! Questions and answers: frames that are asked and timed, and frames that are sent back.
//!
//! How a question looks, and what is an answer to it, is the caller's ([`Dialogue`]). Start with [`Hands::ask`].

use std::time::{Duration, Instant};

use super::super::SECOND;
use super::{BUFFER, Hands, SLICE};
use crate::error::LabError;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// How much is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Questions {
    /// So many at once, at least one; then an answer is waited for.
    pub burst: u64,
    /// So many in a second; `None`: as soon as the last ones were answered.
    pub rate_pps: Option<u64>,
    /// So many in all; `None`: until it is over.
    pub frames: Option<u64>,
}

/// What questions look like, and what becomes of them.
pub trait Dialogue {
    /// The frame of a question with its number, and when it is asked: the time since the begin.
    ///
    /// # Errors
    /// There is no such frame.
    fn question(&mut self, number: u32, at: Duration) -> Result<Vec<u8>, LabError>;

    /// Number and time of the question that this frame answers.
    fn answer(&self, frame: &[u8]) -> Option<(u32, Duration)>;

    /// What happened.
    fn tell(&mut self, what: Asked);
}

/// What happened to questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// There was no room for one.
    NoRoom,
    /// One was answered after this time.
    Answered(Duration),
    /// None of those asked last was answered.
    Unanswered,
    /// A second is over.
    Second,
}

impl Hands<'_> {
    /// Asks and waits for an answer, until all is asked or it is over.
    ///
    /// # Errors
    /// There is no such question, or the system refuses.
    pub fn ask(&self, questions: &Questions, dialogue: &mut dyn Dialogue) -> Result<(), LabError> {
        let begin = Instant::now();
        let gap = (questions.rate_pps)
            .map(|rate| Duration::from_nanos(1_000_000_000 * questions.burst / rate.max(1)));
        let (mut next, mut told) = (begin, begin);
        let mut asked = 0;
        let mut buffer = vec![0; BUFFER];
        while !self.is_over() && questions.frames.is_none_or(|frames| asked < frames) {
            if let Some(gap) = gap {
                while next > Instant::now() && !self.is_over() {
                    std::thread::sleep(SLICE.min(next.saturating_duration_since(Instant::now())));
                }
                next += gap;
            }
            let left = questions.frames.map_or(u64::MAX, |frames| frames - asked);
            for _ in 0..questions.burst.min(left) {
                let frame = dialogue.question(asked as u32, begin.elapsed())?;
                if !self.send(&frame)? {
                    dialogue.tell(Asked::NoRoom);
                    break;
                }
                asked += 1;
                self.count(frame.len());
            }
            self.count_batch();
            self.wait_for_answers(begin, asked, &mut buffer, dialogue)?;
            if told.elapsed() >= SECOND {
                told = Instant::now();
                dialogue.tell(Asked::Second);
            }
        }
        Ok(())
    }

    /// Waits for an answer; after the first, only what is there already is taken.
    fn wait_for_answers(
        &self,
        begin: Instant,
        asked: u64,
        buffer: &mut [u8],
        dialogue: &mut dyn Dialogue,
    ) -> Result<(), LabError> {
        let since = Instant::now();
        let mut answered = false;
        loop {
            let patience = if answered { Duration::ZERO } else { SLICE };
            let Some(len) = self.receive(buffer, patience)? else {
                if answered || self.is_over() {
                    return Ok(());
                }
                if since.elapsed() >= PATIENCE {
                    dialogue.tell(Asked::Unanswered);
                    return Ok(());
                }
                continue;
            };
            let now = begin.elapsed();
            let frame = &buffer[..len.min(buffer.len())];
            if let Some((number, at)) = dialogue.answer(frame)
                && u64::from(number) < asked.max(1)
                && let Some(time) = now.checked_sub(at)
            {
                dialogue.tell(Asked::Answered(time));
                answered = true;
            }
        }
    }

    /// Sends frames back that `turn_back` has turned, and not those of which it says `false`, until there were so many or it is
    /// over. Tells `quiet` of every second without a frame.
    ///
    /// # Errors
    /// The system refuses.
    pub fn answer(
        &self,
        frames: Option<u64>,
        turn_back: &mut dyn FnMut(&mut [u8]) -> bool,
        quiet: &mut dyn FnMut(),
    ) -> Result<(), LabError> {
        let mut buffer = vec![0; BUFFER];
        let mut sent = 0;
        let mut quiet_since = Instant::now();
        while !self.is_over() && frames.is_none_or(|frames| sent < frames) {
            let Some(len) = self.receive(&mut buffer, SLICE)? else {
                if quiet_since.elapsed() >= SECOND {
                    quiet_since = Instant::now();
                    quiet();
                }
                continue;
            };
            quiet_since = Instant::now();
            // what was cut off is not sent back
            let Some(frame) = buffer.get_mut(..len) else {
                continue;
            };
            if turn_back(frame) && self.send(frame)? {
                sent += 1;
                self.count(len);
                self.count_batch();
            }
        }
        Ok(())
    }
}
