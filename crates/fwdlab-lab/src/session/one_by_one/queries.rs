//! Queries and answers: sends and times queries, and sends frames back.
//!
//! The caller defines queries and their answers ([`QueryHandler`]). Start with
//! [`FramePort::query`].

use std::time::{Duration, Instant};

use super::super::SECOND;
use super::{BUFFER, FramePort, SLICE};
use crate::error::LabError;

/// Time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Number and rate of queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Questions {
    /// Number of queries sent at once, at least one, before waiting for an answer.
    pub burst: u64,
    /// Queries per second; `None`: the next ones follow as soon as the last ones were answered.
    pub rate_pps: Option<u64>,
    /// Number of queries in total; `None`: until it is over.
    pub frames: Option<u64>,
}

/// Defines queries and handles results.
pub trait QueryHandler {
    /// Returns the frame of the query with this number, sent at this time since the beginning.
    ///
    /// # Errors
    /// Fails if there is no such frame.
    fn question(&mut self, number: u32, at: Duration) -> Result<Vec<u8>, LabError>;

    /// Returns number and time of the query that this frame answers.
    fn answer(&self, frame: &[u8]) -> Option<(u32, Duration)>;

    /// Reports a result.
    fn handle_event(&mut self, what: QueryEvent);
}

/// Results of queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryEvent {
    /// There was no room for one.
    NoRoom,
    /// One was answered after this time.
    Answered(Duration),
    /// None of the last queries was answered.
    Unanswered,
    /// A second has passed.
    Second,
}

impl FramePort<'_> {
    /// Sends queries and waits for answers, until all are sent or it is over.
    ///
    /// # Errors
    /// Fails if a query has no frame, or the system refuses it.
    pub fn query(
        &self,
        questions: &Questions,
        dialogue: &mut dyn QueryHandler,
    ) -> Result<(), LabError> {
        let begin = Instant::now();
        let gap = (questions.rate_pps)
            .map(|rate| Duration::from_nanos(1_000_000_000 * questions.burst / rate.max(1)));
        let (mut next, mut reported) = (begin, begin);
        let mut requested = 0;
        let mut buffer = vec![0; BUFFER];
        while !self.is_over() && questions.frames.is_none_or(|frames| requested < frames) {
            if let Some(gap) = gap {
                while next > Instant::now() && !self.is_over() {
                    std::thread::sleep(SLICE.min(next.saturating_duration_since(Instant::now())));
                }
                next += gap;
            }
            let left = questions
                .frames
                .map_or(u64::MAX, |frames| frames - requested);
            for _ in 0..questions.burst.min(left) {
                let frame = dialogue.question(requested as u32, begin.elapsed())?;
                if !self.send(&frame)? {
                    dialogue.handle_event(QueryEvent::NoRoom);
                    break;
                }
                requested += 1;
                self.count(frame.len());
            }
            self.count_batch();
            self.wait_for_answers(begin, requested, &mut buffer, dialogue)?;
            if reported.elapsed() >= SECOND {
                reported = Instant::now();
                dialogue.handle_event(QueryEvent::Second);
            }
        }
        Ok(())
    }

    /// Waits for an answer; after the first one, takes only those that have already arrived.
    fn wait_for_answers(
        &self,
        begin: Instant,
        requested: u64,
        buffer: &mut [u8],
        dialogue: &mut dyn QueryHandler,
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
                    dialogue.handle_event(QueryEvent::Unanswered);
                    return Ok(());
                }
                continue;
            };
            let now = begin.elapsed();
            let frame = &buffer[..len.min(buffer.len())];
            if let Some((number, at)) = dialogue.answer(frame)
                && u64::from(number) < requested.max(1)
                && let Some(time) = now.checked_sub(at)
            {
                dialogue.handle_event(QueryEvent::Answered(time));
                answered = true;
            }
        }
    }

    /// Sends frames back that `turn_back` has turned around, except those for which it returns
    /// `false`, until this number is reached or it is over. Calls `quiet` for every second without
    /// a frame.
    ///
    /// # Errors
    /// Fails if the system refuses it.
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
            // truncated frames are not sent back
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
