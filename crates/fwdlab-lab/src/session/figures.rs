//! Figures of a session, for a second or for all of it, for each port that sends or receives.
//!
//! Plain values, for screens, files and servers alike; nothing is read here. Start with [`Period`];
//! [`Counted`] is for ports outside sessions.

use std::time::Instant;

use fwdlab_engine::analysis;
use fwdlab_engine::{Histogram, ReceiveCounts, SendCounts, StallPolicy};
use fwdlab_model::latency::StalledFrames;
use fwdlab_model::link::{Layer, MeanSize};

use super::Session;
use crate::error::LabError;
use crate::ports::counters::Counters;

/// Figures of a sender, for a second or in total.
#[derive(Debug, Clone, Default)]
pub struct Sent {
    /// Frames given to the port, of which it may have dropped some.
    pub given: u64,
    /// Frames that were due and not sent.
    pub not_sent: u64,
    /// Frames among those sent that were missed because the sender stalled, and sent later.
    pub made_up: u64,
    /// How often there was no room.
    pub ring_full: u64,
    /// System calls that told the kernel to send.
    pub wakeups: u64,
    /// Frames of each stream; empty if there is one kind of frame.
    pub streams: Vec<u64>,
    /// Counts of each of several senders of the port since the beginning; empty for one.
    pub senders: Vec<SendCounts>,
    /// Frames per second that left.
    pub rate_pps: f64,
    /// The last intended load; `None`: flat out.
    pub intended_pps: Option<f64>,
    /// Bits per second with preamble and gap.
    pub l1_bps: f64,
    /// Bits per second of frames with FCS.
    pub l2_bps: f64,
    /// How the sender handles frames that it missed in a stall.
    pub stall_policy: Option<StallPolicy>,
    /// The port's own counters, if it has some.
    pub port: Option<Counters>,
    /// Frames that the kernel or other programs sent on this port: in the port's counters, but not
    /// ours.
    pub foreign: u64,
    /// The port had time to count every frame: what it has not counted did not leave.
    pub settled: bool,
    /// How late frames left, since the beginning.
    pub lateness: Option<Histogram>,
    /// How long it took to send all frames, if their number was fixed.
    pub took: Option<SendDuration>,
}

/// The time to send a fixed number of frames.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SendDuration {
    /// From the first frame to the last.
    pub seconds: f64,
    /// The same according to the load, or to the times of a capture; `None`: flat out.
    pub planned_s: Option<f64>,
    /// From the last frame to the time at which another would have been due.
    pub gap_s: f64,
}

impl SendDuration {
    /// The last of N frames may be this late: systems stall now and then.
    const SLACK_S: f64 = 0.025;

    /// Returns true if the load was not reached, by the default of our methods, 0.5 %.
    pub fn is_too_long(&self) -> bool {
        (self.planned_s).is_some_and(|planned| self.seconds > planned * 1.005 + Self::SLACK_S)
    }
}

impl Sent {
    /// Returns what stalls of this host did to frames that were to leave at certain times.
    pub fn stalled_frames(&self) -> Option<StalledFrames> {
        self.intended_pps?;
        Some(analysis::stalled_frames(
            self.made_up,
            self.not_sent,
            self.lateness.as_ref(),
        ))
    }

    /// Returns how many frames given to the port did not leave. At the end these are all that its
    /// counter of sent frames lacks; before, hardware and NAPI may still have to count some, and
    /// only the port's own count of drops is known.
    pub fn dropped(&self) -> u64 {
        let Some(port) = self.port else {
            return 0;
        };
        let ours = port.tx_packets.saturating_sub(self.foreign);
        let not_counted = self.given.saturating_sub(ours);
        match self.settled {
            true => not_counted,
            false => port.tx_dropped.min(not_counted),
        }
    }

    /// Returns the number of frames that left the port.
    pub fn left(&self) -> u64 {
        self.given - self.dropped()
    }

    /// Returns true if the generator or its port was the limit: fewer frames left than were due, or
    /// a fixed number took too long (the default of our methods, 0.5 %). Flat out, the frames given
    /// to the port are those due.
    pub fn is_limited(&self) -> bool {
        // a recording has times of its own, and no load
        let due = match self.intended_pps.is_some() || self.lateness.is_some() {
            true => self.given + self.not_sent,
            false => self.given,
        };
        (self.left() as f64) < 0.995 * due as f64
            || self.took.is_some_and(|elapsed| elapsed.is_too_long())
    }
}

/// Figures of a receiver, for a second or in total.
#[derive(Debug, Clone, Default)]
pub struct Received {
    /// Counts of our frames and of foreign ones.
    pub counts: ReceiveCounts,
    /// The port's own counters, if it has some.
    pub port: Option<Counters>,
    /// Frames of all kinds: by the port's counters, or else by the receiver's.
    pub all_frames: u64,
    /// The same per second.
    pub all_pps: f64,
    /// Frames per second with our signature.
    pub ours_pps: f64,
    /// Bits per second of all frames, with preamble and gap; `None` if the port does not count
    /// their bytes.
    pub l1_bps: Option<f64>,
    /// Bits per second of all frames, with FCS.
    pub l2_bps: Option<f64>,
}

/// Frames of a port in one direction, in an interval or in total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Frames.
    pub frames: u64,
    /// Their bytes without FCS.
    pub bytes: u64,
    /// Number of batches in which they were handled; 0 if unknown.
    pub batches: u64,
}

impl Counted {
    /// Returns the difference to an earlier reading.
    pub fn since(self, before: Counted) -> Counted {
        Counted {
            frames: self.frames.saturating_sub(before.frames),
            bytes: self.bytes.saturating_sub(before.bytes),
            batches: self.batches.saturating_sub(before.batches),
        }
    }
}

/// A part of a session, or all of it.
#[derive(Debug, Clone, Default)]
pub struct Period {
    /// Its end, in seconds after the beginning of the session.
    pub at_s: f64,
    /// Its duration.
    pub duration_s: f64,
    /// Figures of each sending port.
    pub sent: Vec<Sent>,
    /// Figures of each receiving port.
    pub received: Vec<Received>,
}

/// Readings of everything at one time.
#[derive(Clone)]
pub(super) struct Snapshot {
    pub(super) at: Instant,
    pub(super) sent: Vec<SenderReadings>,
    pub(super) received: Vec<(ReceiveCounts, Option<Counters>)>,
}

/// Readings of a sender.
#[derive(Clone, Default, PartialEq)]
pub(super) struct SenderReadings {
    /// Counts of frames given to its port.
    pub(super) counts: SendCounts,
    /// Counters of the port, if it has some.
    pub(super) port: Option<Counters>,
    /// Frames that others have sent on the port.
    pub(super) foreign: u64,
    /// The port's counters contain the frames that the sender handed over. False for a sender
    /// without a port.
    pub(super) reaches_port: bool,
    /// Known at the end.
    pub(super) took: Option<SendDuration>,
}

impl SenderReadings {
    /// Returns how many of our frames the port has counted as sent or dropped since an earlier
    /// reading.
    pub(super) fn accounted(&self, before: &SenderReadings) -> u64 {
        let port = since_of(self.port, before.port).unwrap_or_default();
        let foreign = self.foreign.saturating_sub(before.foreign);
        port.tx_packets.saturating_sub(foreign) + port.tx_dropped
    }

    /// Returns true if the port has counted every frame that it was given since an earlier reading.
    pub(super) fn is_settled(&self, before: &SenderReadings) -> bool {
        let given = self.counts.total().saturating_sub(before.counts.total());
        !self.reaches_port || self.accounted(before) >= given
    }
}

impl Snapshot {
    /// Sets the counts of senders to zero at their start; the counters of their ports may have
    /// moved already.
    pub(super) fn senders_started(&mut self) {
        for sender in &mut self.sent {
            sender.counts = SendCounts::default();
        }
    }
}

impl Session {
    pub(super) fn period(
        &mut self,
        begin: &Snapshot,
        from: &Snapshot,
        to: &Snapshot,
        settled: bool,
    ) -> Result<Period, LabError> {
        let duration_s = (to.at - from.at).as_secs_f64().max(1e-9);
        let mut period = Period {
            at_s: (to.at - begin.at).as_secs_f64(),
            duration_s,
            ..Period::default()
        };
        let pairs = self.sending.iter_mut().zip(from.sent.iter().zip(&to.sent));
        for (sending, (from, to_sent)) in pairs {
            let (before, now) = (&from.counts, &to_sent.counts);
            let was = |at: usize| before.streams.get(at).copied().unwrap_or(0);
            let mut sent = Sent {
                given: now.total().saturating_sub(before.total()),
                // no frame of a burst is skipped before the end
                not_sent: match sending.schedule.frames {
                    None => now.not_sent.saturating_sub(before.not_sent),
                    Some(_) if !settled => 0,
                    Some(frames) => now.not_sent.min(frames.saturating_sub(now.total())),
                },
                made_up: now.made_up.saturating_sub(before.made_up),
                stall_policy: (!sending.schedule.load.is_flat_out())
                    .then_some(sending.schedule.stall_policy),
                ring_full: now.ring_full.saturating_sub(before.ring_full),
                wakeups: now.wakeups.saturating_sub(before.wakeups),
                streams: (now.streams.iter().enumerate())
                    .map(|(at, &count)| count.saturating_sub(was(at)))
                    .collect(),
                senders: now.senders.clone(),
                intended_pps: sending.schedule.load.at(to.at - begin.at),
                port: since_of(to_sent.port, from.port),
                foreign: to_sent.foreign.saturating_sub(from.foreign),
                settled: settled && to_sent.reaches_port,
                lateness: sending.source.sender()?.lateness()?,
                ..Sent::default()
            };
            let bytes = now.bytes.unwrap_or(0) - before.bytes.unwrap_or(0);
            let mean = MeanSize::new(bytes + 4 * sent.given, sent.given)
                .filter(|_| bytes > 0)
                .unwrap_or(sending.mean);
            sent.took = to_sent.took;
            sent.rate_pps = match sent.took {
                Some(elapsed) if elapsed.seconds + elapsed.gap_s > 0.0 => {
                    sent.left() as f64 / (elapsed.seconds + elapsed.gap_s)
                }
                _ => sent.left() as f64 / duration_s,
            };
            sent.l1_bps = mean.bps(Layer::L1, sent.rate_pps);
            sent.l2_bps = mean.bps(Layer::L2, sent.rate_pps);
            period.sent.push(sent);
        }
        let pairs = (self.receiving.iter_mut()).zip(from.received.iter().zip(&to.received));
        for (receiving, ((before, port_before), (now, port_now))) in pairs {
            let counts = since(now, before);
            let port = since_of(*port_now, *port_before);
            let by_receiver = counts.received + counts.late + counts.foreign;
            let all_frames = port.map_or(by_receiver, |port| port.rx_packets);
            let all_pps = all_frames as f64 / duration_s;
            // a veth with an XDP program counts the bytes of some frames without their Ethernet
            // header
            let counts_bytes = receiving.port.virtual_kind() != Some("veth")
                || receiving.receiver.receiver()?.name() != "xdp";
            // kernel counters include neither the FCS nor the overhead between frames
            let l2_bps = port
                .filter(|_| counts_bytes)
                .map(|port| 8.0 * (port.rx_bytes as f64 / duration_s + 4.0 * all_pps));
            period.received.push(Received {
                counts,
                port,
                all_frames,
                all_pps,
                ours_pps: counts.received as f64 / duration_s,
                l1_bps: l2_bps.map(|l2_bps| l2_bps + 8.0 * 20.0 * all_pps),
                l2_bps,
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

/// Returns the difference to an earlier reading, if there are counters.
fn since_of(now: Option<Counters>, before: Option<Counters>) -> Option<Counters> {
    Some(now?.since(before?))
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
    fn frames_that_the_port_dropped_were_not_sent() {
        let sent = |given, tx_dropped, not_sent, intended_pps| Sent {
            given,
            not_sent,
            intended_pps,
            port: Some(Counters {
                tx_dropped,
                ..Counters::default()
            }),
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
            // a foreign frame that was dropped is not a frame of ours that left
            (sent(10, 11, 0, Some(1e3)), 0, true),
            (sent(0, 0, 0, None), 0, false),
        ] {
            assert_eq!(
                (sent.left(), sent.is_limited()),
                (left, limited),
                "{sent:?}"
            );
        }
        // all N frames left, but took too long, or only as much longer as a stall takes
        for (seconds, planned_s, limited) in [
            (0.0671, Some(0.02), true),
            (0.1, Some(0.099), false),
            (10.0, Some(10.0), false),
            (10.2, Some(10.0), true),
            (1e3, None, false),
        ] {
            let slow = Sent {
                took: Some(SendDuration {
                    seconds,
                    planned_s,
                    gap_s: 0.0,
                }),
                ..sent(20_000, 0, 0, planned_s.map(|_| 1e6))
            };
            assert_eq!(slow.is_limited(), limited, "{slow:?}");
        }
        // dropped, tried again, and gone
        let mut again = sent(100, 40, 0, Some(1e3));
        let counted = |tx_packets| {
            Some(Counters {
                tx_packets,
                tx_dropped: 40,
                ..Counters::default()
            })
        };
        again.port = counted(100);
        assert_eq!((again.dropped(), again.left()), (0, 100));
        again.port = counted(90);
        assert_eq!((again.dropped(), again.left()), (10, 90));
    }

    /// Live frames for a veth whose other end has no NAPI vanish without any counter.
    #[test]
    fn at_the_end_only_frames_that_the_port_counted_have_left() {
        let end = |given, tx_packets, tx_dropped, foreign| Sent {
            given,
            foreign,
            settled: true,
            intended_pps: Some(1e3),
            port: Some(Counters {
                tx_packets,
                tx_dropped,
                ..Counters::default()
            }),
            ..Sent::default()
        };
        for (sent, left, limited) in [
            (end(50, 50, 0, 0), 50, false),
            (end(50, 2, 0, 0), 2, true),
            (end(50, 0, 0, 0), 0, true),
            // multicast reports of the kernel are no proof
            (end(1, 1, 0, 1), 0, true),
            (end(50, 52, 0, 2), 50, false),
            (end(50, 50, 0, 2), 48, true),
            // dropped, tried again, and gone
            (end(50, 50, 20, 0), 50, false),
        ] {
            assert_eq!(
                (sent.left(), sent.is_limited()),
                (left, limited),
                "{sent:?}"
            );
            let second = Sent {
                settled: false,
                ..sent
            };
            assert!(second.left() >= left, "known later: {second:?}");
        }
    }
}
