//! What a session tells: of a second or of the whole of it, for each port that sends or receives.
//!
//! Plain values, for screens, files and servers alike. Start with [`Period`]; [`Counted`] is for ports that are no session's.

use std::time::Instant;

use fwdlab_engine::analysis;
use fwdlab_engine::{Histogram, HoldUps, ReceiveCounts, SendCounts};
use fwdlab_model::latency::HeldUp;
use fwdlab_model::link::{Layer, MeanSize};

use super::Session;
use crate::error::LabError;
use crate::ports::counters::Counters;

/// What a sender did, in a second or altogether.
#[derive(Debug, Clone, Default)]
pub struct Sent {
    /// Frames given to the port, of which it may have dropped some.
    pub given: u64,
    /// Frames that were due and not sent.
    pub not_sent: u64,
    /// Of the frames sent: missed because the sender was held up, and sent later.
    pub made_up: u64,
    /// How often there was no room.
    pub ring_full: u64,
    /// System calls that told the kernel to send.
    pub wakeups: u64,
    /// Of each stream; empty where there is one kind of frame.
    pub streams: Vec<u64>,
    /// Frames per second that left.
    pub rate_pps: f64,
    /// The load that was intended last; `None`: flat out.
    pub intended_pps: Option<f64>,
    /// Bits per second with preamble and gap.
    pub l1_bps: f64,
    /// Bits per second of frames with FCS.
    pub l2_bps: f64,
    /// What became of frames that the sender missed.
    pub hold_ups: Option<HoldUps>,
    /// What the port's own counters say.
    pub port: Counters,
    /// How late frames left, since the begin.
    pub lateness: Option<Histogram>,
}

impl Sent {
    /// What this host's hold-ups did to frames that were to leave at certain times.
    pub fn held_up(&self) -> Option<HeldUp> {
        self.intended_pps?;
        Some(analysis::held_up(
            self.made_up,
            self.not_sent,
            self.lateness.as_ref(),
        ))
    }

    /// Of the frames given to the port: dropped by it, as far as its counters tell ours from others, and from those that were
    /// tried again.
    pub fn dropped(&self) -> u64 {
        let did_not_leave = self.given.saturating_sub(self.port.tx_packets);
        self.port.tx_dropped.min(did_not_leave)
    }

    /// Frames that left the port.
    pub fn left(&self) -> u64 {
        self.given - self.dropped()
    }

    /// Less left than was due: the generator or its port was the limit (the default of our methods, 0.5 %). Flat out everything
    /// is due that the port was given.
    pub fn is_limited(&self) -> bool {
        let due = match self.intended_pps {
            Some(_) => self.given + self.not_sent,
            None => self.given,
        };
        (self.left() as f64) < 0.995 * due as f64
    }
}

/// What a receiver counted, in a second or altogether.
#[derive(Debug, Clone, Default)]
pub struct Received {
    /// What is ours and what is not.
    pub counts: ReceiveCounts,
    /// What the port's own counters say.
    pub port: Counters,
    /// Frames per second of all kinds, by the port's counters.
    pub port_pps: f64,
    /// Frames per second with our signature.
    pub ours_pps: f64,
    /// Bits per second of all frames, with preamble and gap; `None` where the port does not count their bytes.
    pub l1_bps: Option<f64>,
    /// Bits per second of all frames, with FCS.
    pub l2_bps: Option<f64>,
}

/// Frames of a port that came or went, in an interval or altogether.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Frames.
    pub frames: u64,
    /// Their bytes without FCS.
    pub bytes: u64,
    /// Batches that they came or went in; 0 where that is not known.
    pub batches: u64,
}

impl Counted {
    /// What came after an earlier reading.
    pub fn since(self, before: Counted) -> Counted {
        Counted {
            frames: self.frames.saturating_sub(before.frames),
            bytes: self.bytes.saturating_sub(before.bytes),
            batches: self.batches.saturating_sub(before.batches),
        }
    }
}

/// A part of a session, or the whole of it.
#[derive(Debug, Clone, Default)]
pub struct Period {
    /// When it ended, in seconds after the begin of the session.
    pub at_s: f64,
    /// How long it was.
    pub duration_s: f64,
    /// Of each sending port.
    pub sent: Vec<Sent>,
    /// Of each receiving port.
    pub received: Vec<Received>,
}

/// Readings of everything at one time.
#[derive(Clone)]
pub(super) struct Snapshot {
    pub(super) at: Instant,
    pub(super) sent: Vec<(SendCounts, Counters)>,
    pub(super) received: Vec<(ReceiveCounts, Counters)>,
}

impl Snapshot {
    /// Counts start at zero where the senders start; their ports' counters may have moved already.
    pub(super) fn senders_started(&mut self) {
        for (counts, _) in &mut self.sent {
            *counts = SendCounts::default();
        }
    }
}

impl Session {
    pub(super) fn period(
        &mut self,
        begin: &Snapshot,
        from: &Snapshot,
        to: &Snapshot,
    ) -> Result<Period, LabError> {
        let duration_s = (to.at - from.at).as_secs_f64().max(1e-9);
        let mut period = Period {
            at_s: (to.at - begin.at).as_secs_f64(),
            duration_s,
            ..Period::default()
        };
        let pairs = self.sending.iter_mut().zip(from.sent.iter().zip(&to.sent));
        for (sending, ((before, port_before), (now, port_now))) in pairs {
            let was = |at: usize| before.streams.get(at).copied().unwrap_or(0);
            let mut sent = Sent {
                given: now.total().saturating_sub(before.total()),
                not_sent: now.not_sent.saturating_sub(before.not_sent),
                made_up: now.made_up.saturating_sub(before.made_up),
                hold_ups: (!sending.schedule.load.is_flat_out())
                    .then_some(sending.schedule.hold_ups),
                ring_full: now.ring_full.saturating_sub(before.ring_full),
                wakeups: now.wakeups.saturating_sub(before.wakeups),
                streams: (now.streams.iter().enumerate())
                    .map(|(at, &count)| count.saturating_sub(was(at)))
                    .collect(),
                intended_pps: sending.schedule.load.at(to.at - begin.at),
                port: port_now.since(*port_before),
                lateness: sending.source.sender()?.lateness()?,
                ..Sent::default()
            };
            let bytes = now.bytes.unwrap_or(0) - before.bytes.unwrap_or(0);
            let mean = MeanSize::new(bytes + 4 * sent.given, sent.given)
                .filter(|_| bytes > 0)
                .unwrap_or(sending.mean);
            sent.rate_pps = sent.left() as f64 / duration_s;
            sent.l1_bps = mean.bps(Layer::L1, sent.rate_pps);
            sent.l2_bps = mean.bps(Layer::L2, sent.rate_pps);
            period.sent.push(sent);
        }
        let pairs = (self.receiving.iter_mut()).zip(from.received.iter().zip(&to.received));
        for (receiving, ((before, port_before), (now, port_now))) in pairs {
            let counts = since(now, before);
            let port = port_now.since(*port_before);
            let port_pps = port.rx_packets as f64 / duration_s;
            // kernel counters count neither the FCS nor what is between frames
            let l2_bps = 8.0 * (port.rx_bytes as f64 / duration_s + 4.0 * port_pps);
            // a veth with an XDP program counts the bytes of some frames without their Ethernet header
            let counts_bytes = receiving.port.facts.kind.as_deref() != Some("veth")
                || receiving.receiver.receiver()?.name() != "xdp";
            period.received.push(Received {
                counts,
                port,
                port_pps,
                ours_pps: counts.received as f64 / duration_s,
                l1_bps: counts_bytes.then_some(l2_bps + 8.0 * 20.0 * port_pps),
                l2_bps: counts_bytes.then_some(l2_bps),
            });
        }
        Ok(period)
    }
}

impl PartialEq for Snapshot {
    fn eq(&self, other: &Snapshot) -> bool {
        self.sent == other.sent && self.received == other.received
    }
}

fn since(now: &ReceiveCounts, before: &ReceiveCounts) -> ReceiveCounts {
    ReceiveCounts {
        received: now.received.saturating_sub(before.received),
        wrong_length: now.wrong_length.saturating_sub(before.wrong_length),
        late: now.late.saturating_sub(before.late),
        foreign: now.foreign.saturating_sub(before.foreign),
        dropped_by_receiver: now
            .dropped_by_receiver
            .saturating_sub(before.dropped_by_receiver),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_port_dropped_has_not_left() {
        let sent = |given, tx_dropped, not_sent, intended_pps| Sent {
            given,
            not_sent,
            intended_pps,
            port: Counters {
                tx_dropped,
                ..Counters::default()
            },
            ..Sent::default()
        };
        for (sent, left, limited) in [
            (sent(1000, 0, 0, Some(1e3)), 1000, false),
            (sent(1000, 5, 0, Some(1e3)), 995, false),
            (sent(1000, 6, 0, Some(1e3)), 994, true),
            (sent(998, 2, 2, Some(1e3)), 996, false),
            (sent(998, 4, 2, Some(1e3)), 994, true),
            (sent(1000, 0, 9000, None), 1000, false),
            (sent(1000, 1000, 0, None), 0, true),
            // a frame of somebody else's that was dropped is not a frame of ours that left
            (sent(10, 11, 0, Some(1e3)), 0, true),
            (sent(0, 0, 0, None), 0, false),
        ] {
            assert_eq!(
                (sent.left(), sent.is_limited()),
                (left, limited),
                "{sent:?}"
            );
        }
        // dropped, tried again, and gone
        let mut again = sent(100, 40, 0, Some(1e3));
        again.port.tx_packets = 100;
        assert_eq!((again.dropped(), again.left()), (0, 100));
        again.port.tx_packets = 90;
        assert_eq!((again.dropped(), again.left()), (10, 90));
    }
}
