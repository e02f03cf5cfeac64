//! Conservation of frames: from the counters of every stage to a ledger in which each frame has a fate.
//!
//! The stages are independent counters (generator, four interfaces, receiver); between each two of them frames are
//! either lost by a counter that says so or unexplained. It reads no counters; it is given their differences between two
//! standstills. Start with [`balance`].

use fwdlab_model::loss::{Counters, Ledger, Loss, Place, Reason};

/// The kernel's reason for a frame that was freed without one.
const UNSPECIFIED: &str = "not specified";

/// A generator that sends a smaller share of what was intended is the bottleneck of the trial.
const ENOUGH: f64 = 0.995;

/// Fills the ledger of one trial.
///
/// `intended` is the number of frames that the load and duration ask for; `None` when flat out.
pub fn balance(counters: &Counters, intended: Option<u64>) -> Ledger {
    let c = counters;
    // What left the DUT but was not ours (neighbour discovery, multicast reports) reaches the receiver as foreign.
    let ours_out = (c.dut_out_tx_packets + c.dut_out_tx_dropped)
        .saturating_sub(c.receiver_foreign + c.receiver_late);
    let named = c.receiver_received + c.receiver_foreign + c.receiver_late;

    let mut unexplained = 0;
    let mut step = |before: u64, after: u64| {
        unexplained += before.abs_diff(after);
    };
    step(
        c.generator_sent + c.generator_beside,
        c.generator_port_tx_packets + c.generator_port_tx_dropped,
    );
    step(c.generator_port_tx_packets, c.dut_in_rx_packets);
    step(c.dut_out_tx_packets, c.receiver_port_rx_packets);
    // More frames than went in, or than arrived at the receiver's port: copies that nobody sent.
    unexplained += ours_out.saturating_sub(c.dut_in_rx_packets);
    unexplained += named.saturating_sub(c.receiver_port_rx_packets);

    let stayed = c.dut_in_rx_packets.saturating_sub(ours_out);
    // Frames that a router does not forward end in it, or in its full input ring, where they look like all others.
    let in_dut = stayed.saturating_sub(c.generator_beside);
    let at_input = c
        .generator_port_tx_dropped
        .saturating_sub(c.generator_beside.saturating_sub(stayed));
    let at_receiver = c.receiver_port_rx_packets.saturating_sub(named);
    let input_counter = if c.dut_in_rx_dropped == c.generator_port_tx_dropped {
        "tx_dropped of the generator's port and rx_dropped of the DUT's input, which agree: input ring full"
    } else {
        "tx_dropped of the generator's port: input ring full"
    };
    let losses = [
        (Place::DutInput, at_input, input_counter, vec![]),
        (
            Place::Dut,
            in_dut,
            "rx_packets of the DUT's input less frames offered to its output",
            dut_reasons(c, in_dut),
        ),
        (
            Place::DutOutput,
            c.dut_out_tx_dropped,
            "tx_dropped of the DUT's output: the receiver's ring was full",
            vec![],
        ),
        (
            Place::Receiver,
            at_receiver,
            "rx_packets of the receiver's port less frames it recognised",
            vec![],
        ),
    ];
    Ledger {
        frames_intended: intended,
        frames_not_sent: intended
            .map_or(c.generator_not_sent, |i| i.saturating_sub(c.generator_sent)),
        gen_limited: intended.is_some_and(|i| (c.generator_sent as f64) < ENOUGH * i as f64),
        frames_sent: c.generator_sent,
        frames_beside: c.generator_beside,
        frames_received: c.receiver_received,
        frames_lost: c.generator_sent as i64 - c.receiver_received as i64,
        losses: losses
            .into_iter()
            .filter(|(_, frames, ..)| *frames > 0)
            .map(|(place, frames, counter, reasons)| Loss {
                place,
                frames,
                counter: counter.into(),
                reasons,
            })
            .collect(),
        frames_unexplained: unexplained,
    }
}

/// The kernel's reasons for frames lost in the DUT, the telling ones first.
///
/// Frames that end at a port are freed without a reason of their own: a full ring of veth, and XDP dropping a frame that
/// the receiver has counted. They hide in `not specified`, of which only the rest can have been lost in the DUT.
fn dut_reasons(counters: &Counters, in_dut: u64) -> Vec<Reason> {
    let at_ports = counters.dut_out_tx_dropped
        + counters.generator_port_tx_dropped
        + counters.receiver_port_rx_packets;
    let mut all: Vec<Reason> = counters.drop_reasons.iter().flatten().cloned().collect();
    all.sort_by_key(|reason| reason.reason == UNSPECIFIED);
    let mut left = in_dut;
    for reason in &mut all {
        if reason.reason == UNSPECIFIED {
            reason.frames = reason.frames.saturating_sub(at_ports);
        }
        reason.frames = reason.frames.min(left);
        left -= reason.frames;
    }
    all.retain(|reason| reason.frames > 0);
    all
}

/// Why the conditions of a trial make it invalid; empty when it may be used. Never looks at the forwarding rate.
pub fn objections(ledger: &Ledger, counters: &Counters) -> Vec<String> {
    let mut reasons = Vec::new();
    if ledger.frames_sent == 0 {
        reasons.push("nothing was sent".into());
    } else if ledger.frames_received == 0 {
        reasons.push("no frame came back: the DUT did not forward".into());
    }
    if ledger.frames_unexplained > 0 {
        reasons.push(format!(
            "{} frames are unexplained: the counters of the ports do not add up",
            ledger.frames_unexplained
        ));
    }
    if ledger.frames_lost < 0 {
        reasons.push(format!(
            "{} more frames came back than were sent",
            -ledger.frames_lost
        ));
    }
    if counters.receiver_wrong_length > 0 {
        reasons.push(format!(
            "{} frames came back with another length than they were sent with",
            counters.receiver_wrong_length
        ));
    }
    if counters.receiver_late > 0 {
        reasons.push(format!(
            "{} frames of an earlier trial came in",
            counters.receiver_late
        ));
    }
    reasons
}

/// Objects to a generator that says it sent or owed more frames than the load made due: its own counters are wrong then, and
/// with them the offered load. `elapsed_s` is how long it ran at most.
pub fn overcount(sent: u64, not_sent: u64, load_pps: f64, elapsed_s: f64) -> Option<String> {
    let counted = sent as f64 + not_sent as f64;
    let due = load_pps * elapsed_s;
    // one frame at time zero, one of rounding
    (counted > due * 1.001 + 2.0).then(|| {
        format!(
            "the generator counted {sent} frames sent and {not_sent} not sent, and no more than {} were due: \
             its counters are wrong",
            due.ceil()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counters(sent: u64, input: u64, dut: u64, output: u64, receiver: u64) -> Counters {
        let rx = sent - input - dut - output;
        Counters {
            generator_sent: sent,
            generator_port_tx_packets: sent - input,
            generator_port_tx_dropped: input,
            dut_in_rx_packets: sent - input,
            dut_in_rx_dropped: input,
            dut_out_tx_packets: rx,
            dut_out_tx_dropped: output,
            receiver_port_rx_packets: rx,
            receiver_received: rx - receiver,
            ..Counters::default()
        }
    }

    proptest! {
        #[test]
        fn every_frame_has_a_fate(parts in prop::array::uniform5(0u64..1_000_000), foreign in 0u64..10) {
            let [received, input, dut, output, receiver] = parts;
            let sent = received + input + dut + output + receiver;
            let mut c = counters(sent, input, dut, output, receiver);
            c.dut_out_tx_packets += foreign;
            c.receiver_port_rx_packets += foreign;
            c.receiver_foreign = foreign;
            let ledger = balance(&c, None);
            let named: u64 = ledger.losses.iter().map(|l| l.frames).sum();
            prop_assert_eq!(ledger.frames_sent, ledger.frames_received + named);
            prop_assert_eq!(ledger.frames_unexplained, 0);
            prop_assert!(objections(&ledger, &c).is_empty());
            let at = |place| ledger.losses.iter().find(|l| l.place == place).map_or(0, |l| l.frames);
            prop_assert_eq!(at(Place::DutInput), input);
            prop_assert_eq!(at(Place::Dut), dut);
            prop_assert_eq!(at(Place::DutOutput), output);
            prop_assert_eq!(at(Place::Receiver), receiver);
        }

        /// Broadcasts are sent, end in the DUT or in its full input ring, and are no loss wherever they end.
        #[test]
        fn frames_beside_are_never_lost(
            parts in prop::array::uniform5(0u64..1_000_000), beside in 0u64..1_000_000, share in 0.0..=1.0f64,
        ) {
            let [received, input, dut, output, receiver] = parts;
            let sent = received + input + dut + output + receiver;
            let mut c = counters(sent, input, dut, output, receiver);
            c.generator_beside = beside;
            let arrived = (beside as f64 * share) as u64;
            c.generator_port_tx_packets += arrived;
            c.dut_in_rx_packets += arrived;
            c.generator_port_tx_dropped += beside - arrived;
            c.dut_in_rx_dropped += beside - arrived;
            let ledger = balance(&c, None);
            prop_assert_eq!(ledger.frames_unexplained, 0);
            let named: u64 = ledger.losses.iter().map(|l| l.frames).sum();
            prop_assert_eq!(ledger.frames_sent, sent);
            prop_assert_eq!(ledger.frames_sent, ledger.frames_received + named);
            prop_assert_eq!(ledger.frames_beside, beside);
        }

        /// A counter that is off by some frames, anywhere, in any direction, never goes unnoticed.
        #[test]
        fn a_residue_is_never_hidden(parts in prop::array::uniform5(100u64..1_000_000), which in 0..5, off in 1u64..100, up: bool) {
            let [received, input, dut, output, receiver] = parts;
            let mut c = counters(received + input + dut + output + receiver, input, dut, output, receiver);
            let field = match which {
                0 => &mut c.generator_sent,
                1 => &mut c.generator_port_tx_packets,
                2 => &mut c.dut_in_rx_packets,
                3 => &mut c.dut_out_tx_packets,
                _ => &mut c.receiver_port_rx_packets,
            };
            *field = if up { *field + off } else { *field - off };
            let ledger = balance(&c, None);
            prop_assert!(ledger.frames_unexplained > 0);
            prop_assert!(!objections(&ledger, &c).is_empty());
        }
    }

    #[test]
    fn reasons_belong_to_frames_lost_in_the_dut() {
        let mut c = counters(1000, 100, 30, 20, 0);
        let reason = |reason: &str, frames| Reason {
            reason: reason.into(),
            frames,
        };
        c.drop_reasons = Some(vec![
            reason("not specified", 870),
            reason("netfilter drop", 30),
        ]);
        let ledger = balance(&c, Some(1100));
        assert_eq!(ledger.frames_not_sent, 100);
        let dut = ledger
            .losses
            .iter()
            .find(|l| l.place == Place::Dut)
            .unwrap();
        assert_eq!(dut.reasons, [reason("netfilter drop", 30)]);
        let twice = Ledger::total([&ledger, &ledger]);
        assert_eq!(
            (twice.frames_sent, twice.losses[1].reasons[0].frames),
            (2000, 60)
        );
    }

    #[test]
    fn more_frames_than_sent_are_unexplained() {
        let mut c = counters(1000, 0, 0, 0, 0);
        c.receiver_received = 1010;
        let ledger = balance(&c, None);
        assert_eq!((ledger.frames_lost, ledger.frames_unexplained), (-10, 10));
        assert_eq!(objections(&ledger, &c).len(), 2);
    }

    #[test]
    fn a_generator_that_counts_more_than_was_due_is_not_believed() {
        assert_eq!(overcount(900_000, 100_000, 1e6, 1.0), None);
        assert_eq!(overcount(1, 0, 10.0, 0.0), None);
        let words = overcount(900_000, 3_000_000_000_000, 1e6, 1.0).unwrap();
        assert!(words.contains("no more than 1000000 were due"), "{words}");
        // what a wrapped counter looks like
        assert!(overcount(u64::MAX, u64::MAX, 1e6, 1.0).is_some());
    }

    #[test]
    fn a_generator_that_sends_too_little_is_the_bottleneck() {
        let counters = |sent| Counters {
            generator_sent: sent,
            ..Counters::default()
        };
        for (sent, limited) in [(1000, false), (995, false), (994, true), (0, true)] {
            assert_eq!(
                balance(&counters(sent), Some(1000)).gen_limited,
                limited,
                "{sent}"
            );
        }
        assert!(
            !balance(&counters(5), None).gen_limited,
            "flat out nothing is intended"
        );
    }
}
