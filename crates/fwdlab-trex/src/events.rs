//! Asynchronous events for clients: each session has its own queue, which it polls.
//!
//! Numbers of events never skip within a session: a client that misses one ends its process. So a
//! queue is either complete or removed.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Value, json};

use crate::limits;

/// Kinds of events, with TRex's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A port sends.
    Started = 0,
    /// It was stopped by a client.
    Stopped = 1,
    /// It paused its traffic.
    Paused = 2,
    /// It resumed.
    Resumed = 3,
    /// It has sent everything.
    Done = 4,
    /// A port was acquired by an owner.
    Acquired = 5,
    /// A port was released.
    Released = 6,
    /// A port can no longer send.
    Failed = 7,
    /// The attributes of a port were changed.
    Attributes = 8,
    /// A profile sends.
    ProfileStarted = 10,
    /// It was stopped by a client.
    ProfileStopped = 11,
    /// It paused its traffic.
    ProfilePaused = 12,
    /// It resumed.
    ProfileResumed = 13,
    /// It has sent everything.
    ProfileDone = 14,
    /// It can no longer send.
    ProfileFailed = 17,
}

/// The events of one session.
struct Queue {
    waiting: Vec<Value>,
    next: u64,
    asked: Instant,
}

/// The events of all sessions.
#[derive(Default)]
pub struct Events {
    queues: BTreeMap<u32, Queue>,
    /// True if there were events since this was last taken.
    news: bool,
}

impl Events {
    /// Sends an event to all sessions.
    pub fn send(&mut self, event: Event, data: &Value) {
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

    /// Returns the pending events of a session. An unknown session is registered.
    pub fn take(&mut self, session: u32) -> Vec<Value> {
        let now = Instant::now();
        if !self.queues.contains_key(&session) && self.queues.len() >= limits::SESSIONS {
            // the session that has been silent the longest makes room
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

    /// Returns true if there were events since the last call.
    pub fn take_new_events(&mut self) -> bool {
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
        events.send(Event::Acquired, &json!({"port_id": 0}));
        events.take(8);
        events.send(Event::Released, &json!({"port_id": 0}));
        let numbers = |reported: Vec<Value>| -> Vec<(u64, u64)> {
            let number = |event: &Value, key: &str| event[key].as_u64().unwrap();
            reported
                .iter()
                .map(|e| (number(e, "type"), number(e, "seq")))
                .collect()
        };
        assert_eq!(numbers(events.take(7)), [(5, 0), (6, 1)]);
        assert_eq!(numbers(events.take(8)), [(6, 0)]);
        assert!(events.take_new_events() && !events.take_new_events());
        for session in 0..1000 {
            events.take(session);
        }
        assert_eq!(events.queues.len(), limits::SESSIONS);
    }
}
