//! What clients are told without having asked: each session has a queue of its own, which it empties now and then.
//!
//! Numbers of events never skip within a session: a client that misses one ends its process. So a queue is whole or gone.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Value, json};

use crate::limits;

/// What happened, by TRex's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A port sends.
    Started = 0,
    /// It does not any more, because somebody said so.
    Stopped = 1,
    /// It holds its traffic.
    Paused = 2,
    /// It sends again.
    Resumed = 3,
    /// It has sent everything.
    Done = 4,
    /// A port has an owner.
    Acquired = 5,
    /// A port has none any more.
    Released = 6,
    /// A port cannot send any more.
    Failed = 7,
    /// A port was set to something else.
    Attributes = 8,
    /// A profile sends.
    ProfileStarted = 10,
    /// It does not any more, because somebody said so.
    ProfileStopped = 11,
    /// It holds its traffic.
    ProfilePaused = 12,
    /// It sends again.
    ProfileResumed = 13,
    /// It has sent everything.
    ProfileDone = 14,
    /// It cannot send any more.
    ProfileFailed = 17,
}

/// Events of one session.
struct Queue {
    waiting: Vec<Value>,
    next: u64,
    asked: Instant,
}

/// Events of all sessions.
#[derive(Default)]
pub struct Events {
    queues: BTreeMap<u32, Queue>,
    /// Something happened since this was last taken.
    news: bool,
}

impl Events {
    /// Tells all sessions.
    pub fn tell(&mut self, event: Event, data: &Value) {
        self.news = true;
        (self.queues).retain(|_, queue| {
            queue.asked.elapsed() < limits::FORGOTTEN && queue.waiting.len() < limits::EVENTS
        });
        for queue in self.queues.values_mut() {
            queue.waiting.push(json!({
                "name": "trex-event", "type": event as u32, "seq": queue.next, "data": data,
            }));
            queue.next += 1;
        }
    }

    /// What a session has not heard yet. One that nobody knows is known from now on.
    pub fn take(&mut self, session: u32) -> Vec<Value> {
        let now = Instant::now();
        if !self.queues.contains_key(&session) && self.queues.len() >= limits::SESSIONS {
            // who has been silent the longest makes room
            let silent = self.queues.iter().min_by_key(|(_, queue)| queue.asked);
            if let Some((&silent, _)) = silent {
                self.queues.remove(&silent);
            }
        }
        let queue = self.queues.entry(session).or_insert_with(|| Queue {
            waiting: Vec::new(),
            next: 0,
            asked: now,
        });
        queue.asked = now;
        std::mem::take(&mut queue.waiting)
    }

    /// Did something happen since the last time this was asked?
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_counts_from_nought_and_misses_nothing() {
        let mut events = Events::default();
        assert_eq!(events.take(7), Vec::<Value>::new());
        events.tell(Event::Acquired, &json!({"port_id": 0}));
        events.take(8);
        events.tell(Event::Released, &json!({"port_id": 0}));
        let numbers = |told: Vec<Value>| -> Vec<(u64, u64)> {
            let number = |event: &Value, key: &str| event[key].as_u64().unwrap();
            told.iter()
                .map(|e| (number(e, "type"), number(e, "seq")))
                .collect()
        };
        assert_eq!(numbers(events.take(7)), [(5, 0), (6, 1)]);
        assert_eq!(numbers(events.take(8)), [(6, 0)]);
        assert!(events.take_news() && !events.take_news());
        for session in 0..1000 {
            events.take(session);
        }
        assert_eq!(events.queues.len(), limits::SESSIONS);
    }
}
