//! Conservation of frames: turns the meters of every stage into a ledger in which each frame has a
//! fate.
//!
//! Between two exact meters, a frame is either lost according to a counter, lost in the device
//! between them, or unexplained; if meters between them are not exact, it is lost between the two.
//! Generator and receiver count themselves and are always trusted. Reads no counters; gets their
//! differences between two times at rest. Start with [`balance`].

use fwdlab_model::loss::{Chain, Counters, Ledger, Loss, NotExact, Place, Reason, Stage};

/// The kernel's reason for a frame that was freed without one.
const UNSPECIFIED: &str = "not specified";

/// A generator that sends a smaller share of the intended frames is the bottleneck of the trial.
const ENOUGH: f64 = 0.995;

/// Fills the ledger of one trial.
///
/// `intended` is the number of frames from load and duration; `None` at full speed.
pub fn balance(counters: &Counters, intended: Option<u64>) -> Ledger {
    let c = counters;
    let Fates {
        losses,
        unexplained,
        not_exact,
    } = fates(c);
    Ledger {
        frames_intended: intended,
        frames_not_sent: intended
            .map_or(c.generator_not_sent, |i| i.saturating_sub(c.generator_sent)),
        gen_limited: intended.is_some_and(|i| (c.generator_sent as f64) < ENOUGH * i as f64),
        frames_sent: c.generator_sent,
        frames_additional: c.generator_additional,
        frames_received: c.receiver_received,
        frames_lost: c.generator_sent as i64 - c.receiver_received as i64,
        losses,
        frames_unexplained: unexplained,
        not_exact,
    }
}

/// Returns true if all exact meters agree. Some do not while frames are still in flight.
pub fn is_settled(counters: &Counters) -> bool {
    walk(&Step::all(counters, &counters.chain), counters).unexplained == 0
}

/// What happened to the frames of one trial.
#[derive(Debug, Default)]
struct Fates {
    losses: Vec<Loss>,
    unexplained: u64,
    not_exact: Vec<NotExact>,
}

/// Walks along the chain. If it does not balance, meters that also counted foreign frames are
/// excluded, provided that the rest then balances exactly.
fn fates(counters: &Counters) -> Fates {
    let mut chain = counters.chain.clone();
    let not_exact = |chain: &Chain| chain.meters.iter().filter_map(|m| m.not_exact()).collect();
    let mut fates = Fates {
        not_exact: not_exact(&chain),
        ..walk(&Step::all(counters, &chain), counters)
    };
    if fates.unexplained > 0 {
        while let Some((at, reason)) = excess(&Step::all(counters, &chain), counters) {
            chain.meters[at].is_approximate(reason);
        }
        let without = walk(&Step::all(counters, &chain), counters);
        if without.unexplained == 0 {
            fates = Fates {
                not_exact: not_exact(&chain),
                ..without
            };
        }
    }
    fates
}

/// The section from one exact meter to the next.
#[derive(Debug)]
struct Step<'a> {
    from: Stage,
    from_counter: &'a str,
    /// Frames that left at its start.
    left: u64,
    to: Stage,
    /// The number of the meter at its end; `None` is the receiver itself.
    meter: Option<usize>,
    /// Frames that arrived at its end, including those dropped there.
    arrived: u64,
    dropped: &'a [Loss],
    /// The device in which missing frames ended; `None` is a wire, which loses none.
    device: Option<Place>,
    /// True if there are inexact meters in between.
    skips: bool,
    /// True if it contains the DUT.
    holds_dut: bool,
}

impl Step<'_> {
    /// Returns all of them, from the generator to the receiver.
    fn all<'a>(counters: &'a Counters, chain: &'a Chain) -> Vec<Step<'a>> {
        let c = counters;
        let mut steps = Vec::new();
        let mut from = (
            &Stage::Generator,
            "frames sent",
            c.generator_sent + c.generator_additional,
        );
        let (mut skips, mut holds_dut) = (false, false);
        for (at, meter) in chain.meters.iter().enumerate() {
            holds_dut |= meter.across == Some(Place::Dut);
            let Some(passed) = meter.exactly() else {
                skips = true;
                continue;
            };
            let to = (&meter.stage, passed + meter.frames_dropped());
            let mut step = Step::between(from, to, meter.across.clone(), skips);
            step.meter = Some(at);
            step.dropped = &meter.dropped;
            step.holds_dut = holds_dut;
            steps.push(step);
            from = (&meter.stage, &meter.counter, passed);
            (skips, holds_dut) = (false, false);
        }
        let named = c.receiver_received + c.receiver_foreign + c.receiver_late;
        skips |= *from.0 != Stage::ReceiverPort;
        let to = (&Stage::Receiver, named);
        let mut last = Step::between(from, to, Some(Place::Receiver), skips);
        last.holds_dut = holds_dut;
        steps.push(last);
        steps
    }

    fn between<'a>(
        (from, from_counter, left): (&Stage, &'a str, u64),
        (to, returned): (&Stage, u64),
        across: Option<Place>,
        skips: bool,
    ) -> Step<'a> {
        Step {
            from: from.clone(),
            from_counter,
            left,
            to: to.clone(),
            meter: None,
            arrived: returned,
            dropped: &[],
            device: match skips {
                true => Some(Place::Between(from.clone(), to.clone())),
                false => across,
            },
            skips,
            holds_dut: false,
        }
    }

    /// Returns how many more frames arrived than left.
    fn excess(&self) -> u64 {
        self.arrived.saturating_sub(self.left)
    }

    /// Names the counter that shows how many frames were lost on it.
    fn counter(&self) -> String {
        let returned = match (&self.from, &self.to) {
            (Stage::DutInput, Stage::DutOutput) => "frames offered to its output".into(),
            (Stage::ReceiverPort, Stage::Receiver) => "frames it recognised".into(),
            (_, Stage::Receiver) => "frames that the receiver recognised".into(),
            (_, to) => format!("frames that reached {to}"),
        };
        match self.from {
            Stage::Generator => format!("frames sent less {returned}"),
            _ => format!("{} of {} less {returned}", self.from_counter, self.from),
        }
    }
}

/// Returns how many foreign frames, of those that reached the receiver, joined on each step. On a
/// wire those that arrived and did not leave; the rest in the DUT, because routers send frames of
/// their own (neighbour discovery, multicast reports).
fn joined(steps: &[Step<'_>], counters: &Counters) -> Vec<u64> {
    let mut rest = counters.receiver_foreign + counters.receiver_late;
    let mut joined = vec![0; steps.len()];
    let is_wire = |step: &Step<'_>| step.device.is_none();
    for (step, joined) in steps.iter().zip(&mut joined).rev() {
        if is_wire(step) {
            *joined = step.excess().min(rest);
            rest -= *joined;
        }
    }
    if let Some(dut) = steps.iter().position(|step| step.holds_dut) {
        joined[dut] += rest;
    }
    joined
}

/// Returns the first meter that counted more frames than arrived, and why that makes it
/// approximate.
fn excess(steps: &[Step<'_>], counters: &Counters) -> Option<(usize, String)> {
    let joined = joined(steps, counters);
    steps.iter().zip(joined).find_map(|(step, joined)| {
        let more = step.excess().saturating_sub(joined);
        let meter = step.meter.filter(|_| more > 0)?;
        let plural = if more == 1 { "" } else { "s" };
        let reason = format!(
            "it counted {more} frame{plural} more than left {}, and the receiver saw none of them: others' frames",
            step.from
        );
        Some((meter, reason))
    })
}

fn walk(steps: &[Step<'_>], counters: &Counters) -> Fates {
    let mut fates = Fates::default();
    // frames that a router does not forward end in a device, or in a full queue before it, where
    // they look like all others
    let mut beside = counters.generator_additional;
    for (step, joined) in steps.iter().zip(joined(steps, counters)) {
        let left = step.left + joined;
        match &step.device {
            None => fates.unexplained += left.abs_diff(step.arrived),
            Some(place) => {
                // more than went in: duplicates from an unknown source
                fates.unexplained += step.arrived.saturating_sub(left);
                let mut missing = left.saturating_sub(step.arrived);
                take(&mut missing, &mut beside);
                for loss in fates.losses.iter_mut().rev() {
                    take(&mut loss.frames, &mut beside);
                }
                let reasons = match step.holds_dut {
                    true => kernel_reasons(steps, counters, missing),
                    false => Vec::new(),
                };
                fates.losses.push(Loss {
                    place: place.clone(),
                    frames: missing,
                    counter: step.counter(),
                    reasons,
                });
            }
        }
        fates.losses.extend_from_slice(step.dropped);
    }
    fates.losses.retain(|loss| loss.frames > 0);
    fates
}

/// Subtracts the smaller of the two numbers from both.
fn take(from: &mut u64, frames: &mut u64) {
    let both = (*from).min(*frames);
    *from -= both;
    *frames -= both;
}

/// Returns the kernel's reasons for frames lost in the DUT, the informative ones first.
///
/// Frames that end at a port are freed without a specific reason: a full ring of veth, and XDP
/// dropping a frame that the receiver has counted. They are part of `not specified`, of which only
/// the rest can have been lost in the DUT.
fn kernel_reasons(steps: &[Step<'_>], counters: &Counters, in_dut: u64) -> Vec<Reason> {
    let dropped = steps.iter().flat_map(|step| step.dropped);
    let last = steps.last().map_or(0, |last| match last.skips {
        true => last.arrived,
        false => last.left,
    });
    let at_ports = dropped.map(|loss| loss.frames).sum::<u64>() + last;
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

/// Returns why the conditions of a trial make it invalid; empty if it may be used. Independent of
/// the forwarding rate.
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
            "{} frames came back with a length other than sent",
            counters.receiver_wrong_length
        ));
    }
    if counters.receiver_late > 0 {
        reasons.push(format!(
            "{} frames of an earlier trial arrived",
            counters.receiver_late
        ));
    }
    reasons
}

/// Objects to a generator that reports more frames sent or owed than the load made due: then its
/// own counters are wrong, and so is the offered load. `elapsed_s` is its maximum running time.
pub fn overcount(sent: u64, not_sent: u64, load_pps: f64, elapsed_s: f64) -> Option<String> {
    let counted = sent as f64 + not_sent as f64;
    let due = load_pps * elapsed_s;
    // one frame at time zero, one for rounding
    (counted > due * 1.001 + 2.0).then(|| {
        format!(
            "the generator counted {sent} frames sent and {not_sent} not sent, but no more than {} were due: its counters are \
             wrong",
            due.ceil()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fwdlab_model::loss::{Meter, VethCounts};
    use proptest::prelude::*;

    fn ports(sent: u64, input: u64, dut: u64, output: u64) -> VethCounts {
        let rx = sent - input - dut - output;
        VethCounts {
            generator_port_tx_packets: sent - input,
            generator_port_tx_dropped: input,
            dut_in_rx_packets: sent - input,
            dut_in_rx_dropped: input,
            dut_out_tx_packets: rx,
            dut_out_tx_dropped: output,
            receiver_port_rx_packets: rx,
        }
    }

    fn of_ports(sent: u64, ports: &VethCounts, receiver: u64) -> Counters {
        Counters {
            generator_sent: sent,
            chain: ports.chain(),
            receiver_received: ports.receiver_port_rx_packets - receiver,
            ..Counters::default()
        }
    }

    fn counters(sent: u64, input: u64, dut: u64, output: u64, receiver: u64) -> Counters {
        of_ports(sent, &ports(sent, input, dut, output), receiver)
    }

    /// Like `counters`, of a test bed in which these meters are not exact.
    fn with(mut counters: Counters, what: &[(Stage, bool)]) -> Counters {
        for (stage, is_read) in what {
            let of = |meter: &&mut Meter| meter.stage == *stage;
            let meter = counters.chain.meters.iter_mut().find(of).unwrap();
            match is_read {
                true => meter.is_approximate("it counts others' frames".into()),
                false => meter.is_not_read("it has no login"),
            }
        }
        counters
    }

    fn at(ledger: &Ledger, place: &Place) -> u64 {
        let here = ledger.losses.iter().filter(|l| l.place == *place);
        here.map(|l| l.frames).sum()
    }

    fn named(ledger: &Ledger) -> u64 {
        ledger.losses.iter().map(|l| l.frames).sum()
    }

    proptest! {
        #[test]
        fn every_frame_has_a_fate(parts in prop::array::uniform5(0u64..1_000_000), foreign in 0u64..10) {
            let [received, input, dut, output, receiver] = parts;
            let sent = received + input + dut + output + receiver;
            let mut observed = ports(sent, input, dut, output);
            let mut c = of_ports(sent, &observed, receiver);
            observed.dut_out_tx_packets += foreign;
            observed.receiver_port_rx_packets += foreign;
            c.chain = observed.chain();
            c.receiver_foreign = foreign;
            let ledger = balance(&c, None);
            prop_assert_eq!(ledger.frames_sent, ledger.frames_received + named(&ledger));
            prop_assert_eq!(ledger.frames_unexplained, 0);
            prop_assert!(objections(&ledger, &c).is_empty() || received == 0);
            prop_assert!(is_settled(&c) && ledger.not_exact.is_empty());
            prop_assert_eq!(at(&ledger, &Place::DutInput), input);
            prop_assert_eq!(at(&ledger, &Place::Dut), dut);
            prop_assert_eq!(at(&ledger, &Place::DutOutput), output);
            prop_assert_eq!(at(&ledger, &Place::Receiver), receiver);
        }

        /// Broadcasts are sent, end in the DUT or in its full input ring, and are not a loss
        /// wherever they end.
        #[test]
        fn frames_that_are_not_forwarded_are_not_lost(
            parts in prop::array::uniform5(0u64..1_000_000), beside in 0u64..1_000_000, share in 0.0..=1.0f64,
            unread in prop::collection::vec(any::<bool>(), 4),
        ) {
            let [received, input, dut, output, receiver] = parts;
            let sent = received + input + dut + output + receiver;
            let mut observed = ports(sent, input, dut, output);
            let arrived = (beside as f64 * share) as u64;
            observed.generator_port_tx_packets += arrived;
            observed.dut_in_rx_packets += arrived;
            observed.generator_port_tx_dropped += beside - arrived;
            observed.dut_in_rx_dropped += beside - arrived;
            let c = Counters { generator_additional: beside, chain: observed.chain(), ..counters(sent, input, dut, output, receiver) };
            // with any meters unread
            let unread = STAGES.iter().zip(unread).filter(|(_, unread)| *unread);
            let unread: Vec<_> = unread.map(|(stage, _)| (stage.clone(), false)).collect();
            let ledger = balance(&with(c, &unread), None);
            prop_assert_eq!(ledger.frames_unexplained, 0);
            prop_assert_eq!(ledger.not_exact.len(), unread.len());
            prop_assert_eq!(ledger.frames_sent, sent);
            prop_assert_eq!(ledger.frames_sent, ledger.frames_received + named(&ledger));
            prop_assert_eq!(ledger.frames_additional, beside);
        }

        /// A counter that is off by some frames, anywhere and in either direction, is always
        /// noticed: the trial is invalid, or the meter is reported as wrong and every frame between
        /// the others has its fate.
        #[test]
        fn a_residue_is_never_hidden(parts in prop::array::uniform5(100u64..1_000_000), which in 0..5, off in 1u64..100, up: bool) {
            let [received, input, dut, output, receiver] = parts;
            let mut sent = received + input + dut + output + receiver;
            let mut observed = ports(sent, input, dut, output);
            let true_sent = sent;
            let field = match which {
                0 => &mut sent,
                1 => &mut observed.generator_port_tx_packets,
                2 => &mut observed.dut_in_rx_packets,
                3 => &mut observed.dut_out_tx_packets,
                _ => &mut observed.receiver_port_rx_packets,
            };
            *field = if up { *field + off } else { *field - off };
            let c = Counters { chain: observed.chain(), ..counters(true_sent, input, dut, output, receiver) };
            let c = Counters { generator_sent: sent, ..c };
            let ledger = balance(&c, None);
            prop_assert!(!is_settled(&c));
            if ledger.frames_unexplained > 0 {
                prop_assert!(!objections(&ledger, &c).is_empty());
            } else {
                prop_assert!(!ledger.not_exact.is_empty());
                prop_assert_eq!(ledger.frames_sent, ledger.frames_received + named(&ledger));
            }
            // fewer than arrived before can only be missing frames; only those that the DUT does
            // not send are its own loss
            if !up && ![0, 3].contains(&which) {
                prop_assert!(ledger.frames_unexplained > 0);
            }
        }
    }

    const STAGES: [Stage; 4] = [
        Stage::GeneratorPort,
        Stage::DutInput,
        Stage::DutOutput,
        Stage::ReceiverPort,
    ];

    #[test]
    fn losses_of_a_black_box_are_between_its_ports() {
        let inside = [(Stage::DutInput, false), (Stage::DutOutput, false)];
        let c = with(counters(1000, 0, 30, 0, 0), &inside);
        let ledger = balance(&c, None);
        assert!(objections(&ledger, &c).is_empty());
        let [loss] = &ledger.losses[..] else {
            panic!("{ledger:?}");
        };
        let between = Place::Between(Stage::GeneratorPort, Stage::ReceiverPort);
        assert_eq!((&loss.place, loss.frames), (&between, 30));
        assert_eq!(
            loss.counter,
            "tx_packets of the generator's port less frames that reached the receiver's port"
        );
        assert_eq!(
            ledger.not_exact[0].to_string(),
            "the DUT's input: not read: it has no login"
        );
    }

    #[test]
    fn without_any_meter_the_two_ends_still_hold() {
        let all = STAGES.map(|stage| (stage, false));
        let ledger = balance(&with(counters(1000, 100, 30, 20, 5), &all), None);
        assert_eq!(ledger.losses.len(), 1);
        assert_eq!(
            ledger.losses[0].place.words(),
            "between the generator and the receiver"
        );
        assert_eq!(
            ledger.losses[0].counter,
            "frames sent less frames that the receiver recognised"
        );
        assert_eq!((named(&ledger), ledger.frames_unexplained), (155, 0));
    }

    #[test]
    fn a_meter_that_is_only_approximate_never_makes_a_trial_invalid() {
        let mut observed = ports(1000, 0, 30, 0);
        observed.dut_in_rx_packets = 4711;
        let c = of_ports(1000, &observed, 0);
        assert!(!objections(&balance(&c, None), &c).is_empty() || !is_settled(&c));
        let c = with(c, &[(Stage::DutInput, true)]);
        let ledger = balance(&c, None);
        assert!(is_settled(&c) && objections(&ledger, &c).is_empty());
        assert_eq!(
            ledger.losses[0].place.words(),
            "between the generator's port and the DUT's output"
        );
        assert_eq!(
            ledger.not_exact[0].to_string(),
            "the DUT's input: approximate: it counts others' frames"
        );
    }

    /// Two LLDP frames of a switch before the DUT end in it; three behind it reach the receiver,
    /// which recognises them.
    #[test]
    fn foreign_frames_are_reported_and_do_not_invalidate_a_trial() {
        let mut observed = ports(1000, 0, 30, 0);
        observed.receiver_port_rx_packets += 3;
        let behind = Counters {
            receiver_foreign: 3,
            ..of_ports(1000, &observed, 3)
        };
        let ledger = balance(&behind, None);
        assert!(is_settled(&behind) && ledger.not_exact.is_empty());
        assert_eq!((named(&ledger), at(&ledger, &Place::Dut)), (30, 30));

        let mut observed = ports(1000, 0, 30, 0);
        observed.dut_in_rx_packets += 2;
        let before = of_ports(1000, &observed, 0);
        let ledger = balance(&before, None);
        assert!(objections(&ledger, &before).is_empty());
        assert_eq!((named(&ledger), ledger.frames_unexplained), (30, 0));
        assert_eq!(
            ledger.not_exact[0].to_string(),
            "the DUT's input: approximate: it counted 2 frames more than left the generator's port, and the receiver saw none of \
             them: others' frames"
        );
    }

    /// No other meter is reported as counting too much if frames are also missing.
    #[test]
    fn a_meter_that_is_short_is_not_the_fault_of_those_behind_it() {
        let mut observed = ports(1000, 0, 0, 0);
        observed.dut_in_rx_packets = 976;
        let ledger = balance(&of_ports(1000, &observed, 0), None);
        assert_eq!((ledger.frames_unexplained, ledger.not_exact.len()), (48, 0));
    }

    #[test]
    fn a_chain_may_have_more_stages_than_a_bed_of_veths() {
        let switch = |port: &str| Stage::Other(format!("the switch's port {port}"));
        let mut c = counters(1000, 0, 30, 0, 0);
        c.chain.meters.splice(
            1..1,
            [
                Meter::exact(switch("1"), "ifInUcastPkts", 1000),
                Meter::exact(switch("2"), "ifOutUcastPkts", 990)
                    .and_dropped(Place::In("the switch".into()), 8, "ifOutDiscards of port 2")
                    .behind(Place::In("the switch".into())),
            ],
        );
        c.chain.meters[3] = Meter::exact(Stage::DutInput, "rx_packets", 990);
        c.chain.meters[4] = Meter::exact(Stage::DutOutput, "tx_packets", 970).behind(Place::Dut);
        let ledger = balance(&c, None);
        let reported: Vec<_> = ledger
            .losses
            .iter()
            .map(|l| (l.place.words(), l.frames))
            .collect();
        assert_eq!(
            reported,
            [
                ("in the switch".into(), 2),
                ("in the switch".into(), 8),
                ("in the DUT".into(), 20)
            ]
        );
        assert_eq!(ledger.frames_unexplained, 0);
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
        // as from a wrapped counter
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
