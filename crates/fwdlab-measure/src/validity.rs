//! Validity: the rule by which all procedures decide how the answer of a trial may be used
//! (docs/methodology.md, "Validity").
//!
//! A trial that did not offer its load is evidence about the tester and never gives a value of the
//! DUT. The rule only depends on the conditions of a trial, never on whether its result looks good.
//! Observations of devices (links, clocks, counters that do not add up) come with the answer. Start
//! with [`objections`] and [`load_shortfall`].

use fwdlab_model::procedure::{Answer, Ending, Interval, Question};

/// A load was offered if at least this share of it was sent.
pub const OFFERED_SHARE: f64 = 0.995;

/// In overload this share is enough: the shortfall lowers the forwarding rate by at most this much.
/// In 18,000 windows of one machine, 0.98 to 0.99 of an overload lowered it by less than 1 %,
/// because the DUT's input ring held more frames than the sender's pause missed; 0.95 to 0.97
/// lowered it by 2 %.
pub const OVERLOAD_SHARE: f64 = 0.98;

/// A DUT is overloaded if at least this many times its forwarding rate was offered. Otherwise the
/// rate is a lower bound.
pub const SATURATION: f64 = 1.1;

/// Returns true if the DUT was not overloaded, so that its forwarding rate is a lower bound.
pub fn is_lower_bound(offered_pps: f64, forwarded_pps: f64) -> bool {
    offered_pps < SATURATION * forwarded_pps
}

/// Returns true if the intended load was offered in this part of a trial. One frame more or less
/// depends on the time of the reading.
pub fn was_offered(sample: &Interval) -> bool {
    let due = sample.intended_load_pps * (sample.length_ns as f64 / 1e9);
    sample.frames_sent as f64 >= OVERLOAD_SHARE * due - 1.0
}

/// Duplicates, foreign frames, and frames that were never sent: this many per million sent are
/// tolerated.
const STRAY_PPM: f64 = 10.0;

/// Frames that a kernel sends on its own: this many are tolerated even in the shortest trial. They
/// never count as ours.
const FEW_FOREIGN: u64 = 10;

/// Share of its frames that a receiver itself may lose, if some loss does not matter.
const RECEIVER_SHARE: f64 = 0.001;

/// Returns why an answer must not be used; empty if it may be.
pub fn objections(question: &Question, answer: &Answer) -> Vec<String> {
    let mut reasons = answer.objections.clone();
    let sent = answer.frames_sent as f64;
    let mut stray = |frames: u64, what: &str| {
        if frames as f64 > STRAY_PPM * 1e-6 * sent {
            reasons.push(format!(
                "{frames} {what}: more than {STRAY_PPM} in a million frames"
            ));
        }
    };
    stray(answer.frames_duplicate, "duplicate frames");
    if answer.frames_foreign > FEW_FOREIGN {
        stray(answer.frames_foreign, "foreign frames");
    }
    let extra = answer.frames_lost().min(0).unsigned_abs();
    stray(extra, "more frames came back than were sent");
    if question.frames() > 0 && answer.frames_sent == 0 {
        reasons.push("nothing was sent".into());
    }
    let allowed = match question.ending {
        // a single lost frame matters
        Some(_) => 0.0,
        None => RECEIVER_SHARE * answer.frames_received as f64,
    };
    if answer.frames_lost_by_receiver as f64 > allowed {
        reasons.push(format!(
            "our own receiver lost {} frames",
            answer.frames_lost_by_receiver
        ));
    }
    reasons
}

/// Loss is certainly the DUT's if it is at least this many times the frames that the generator did
/// not send: a short stall of the generator may have stalled the DUT as well.
const SURELY: f64 = 4.0;

/// Returns true if the DUT has lost more than the request allows, and more than a stall of the
/// generator explains. Then the full load would have had the same result.
fn is_settled(question: &Question, answer: &Answer) -> bool {
    let not_sent = answer.frames_intended.saturating_sub(answer.frames_sent);
    let lost = answer.frames_lost() as f64;
    match question.ending {
        Some(Ending::Lost { frames }) => lost > frames as f64 + SURELY * not_sent as f64,
        _ => false,
    }
}

/// Returns why the generator did not offer the load that the request needs; `None` if it did, or if
/// the DUT has certainly lost too much.
pub fn load_shortfall(question: &Question, answer: &Answer) -> Option<String> {
    let share = if question.overload {
        OVERLOAD_SHARE
    } else {
        OFFERED_SHARE
    };
    let is_short = (answer.frames_sent as f64) < share * answer.frames_intended as f64;
    (question.needs_load && is_short && !is_settled(question, answer)).then(|| {
        format!(
            "the generator did not reach the load: it sent {} of {} frames{}",
            answer.frames_sent,
            answer.frames_intended,
            starved(&answer.frames_not_sent_by_sender).unwrap_or_default()
        )
    })
}

/// Names the sender that left out most of the frames, if the others left out less than a quarter.
fn starved(not_sent: &[u64]) -> Option<String> {
    let (number, most) = (1..).zip(not_sent).max_by_key(|(_, frames)| **frames)?;
    let all: u64 = not_sent.iter().sum();
    (4 * most > 3 * all).then(|| {
        format!(
            "; {most} of the {all} that are missing are those of sender {number} of {}",
            not_sent.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use fwdlab_model::procedure::Purpose;
    use fwdlab_model::units::FrameSize;

    use super::*;

    #[test]
    fn each_gate() {
        let mut question =
            Question::constant(FrameSize::MIN, 1e6, 1_000_000_000, Purpose::Measure, "");
        let good = Answer {
            frames_intended: 1_000_000,
            frames_sent: 1_000_000,
            frames_received: 900_000,
            duration_ns: 1_000_000_000,
            ..Answer::default()
        };
        let check = |change: &dyn Fn(&mut Answer), words: &str| {
            let mut answer = good.clone();
            change(&mut answer);
            let reasons = objections(&question, &answer).join("; ");
            match words {
                "" => assert_eq!(reasons, ""),
                words => assert!(reasons.contains(words), "{reasons}"),
            }
        };
        // loss is a result, not an error
        check(&|_| {}, "");
        check(&|a| a.frames_received = 0, "");
        check(&|a| a.frames_duplicate = 10, "");
        check(&|a| a.frames_duplicate = 11, "duplicate");
        check(&|a| a.frames_foreign = 11, "foreign");
        check(
            &|a| (a.frames_sent, a.frames_received, a.frames_foreign) = (1000, 1000, 10),
            "",
        );
        check(&|a| a.frames_received = 1_000_010, "");
        check(&|a| a.frames_received = 1_000_011, "more frames came back");
        check(&|a| a.objections.push("the clock was set".into()), "clock");
        check(&|a| a.frames_lost_by_receiver = 900, "");
        check(&|a| a.frames_lost_by_receiver = 901, "receiver lost 901");
        check(
            &|a| (a.frames_sent, a.frames_received) = (0, 0),
            "nothing was sent",
        );
        question.ending = Some(Ending::Lost { frames: 0 });
        let one = Answer {
            frames_lost_by_receiver: 1,
            ..good.clone()
        };
        assert_eq!(objections(&question, &one).len(), 1);

        let short = |frames_sent| Answer {
            frames_sent,
            frames_received: frames_sent,
            ..good.clone()
        };
        assert_eq!(load_shortfall(&question, &short(995_000)), None);
        assert!(load_shortfall(&question, &short(994_999)).is_some());
        let by_senders = |not_sent: [u64; 4]| {
            let answer = Answer {
                frames_not_sent_by_sender: not_sent.to_vec(),
                ..short(900_000)
            };
            load_shortfall(&question, &answer).unwrap()
        };
        assert_eq!(
            by_senders([1_000, 2_000, 95_000, 2_000]),
            "the generator did not reach the load: it sent 900000 of 1000000 frames; 95000 of the 100000 that are missing are those of \
             sender 3 of 4"
        );
        // the machine was busy, not one of them
        assert!(by_senders([75_000, 25_000, 0, 0]).ends_with("of 1000000 frames"));
        // if the sender stalled, the DUT may have stalled, too; if it lost far more, the loss is
        // its own
        let lossy = |lost: u64| Answer {
            frames_received: 950_000 - lost,
            ..short(950_000)
        };
        assert!(load_shortfall(&question, &lossy(200_000)).is_some());
        assert_eq!(load_shortfall(&question, &lossy(200_001)), None);
        question.ending = None;
        assert!(load_shortfall(&question, &lossy(900_000)).is_some());
        question.overload = true;
        assert_eq!(load_shortfall(&question, &short(980_000)), None);
        assert!(load_shortfall(&question, &short(979_999)).is_some());
        question.needs_load = false;
        assert_eq!(load_shortfall(&question, &short(1)), None);
    }

    #[test]
    fn a_rate_is_a_lower_bound_below_1_1_times() {
        assert!(is_lower_bound(1.09e6, 1e6) && !is_lower_bound(1.1e6, 1e6));
        // the DUT forwards nothing of the load
        assert!(!is_lower_bound(1e6, 0.0));
    }
}
