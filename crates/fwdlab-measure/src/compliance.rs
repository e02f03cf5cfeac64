//! Lists the points in which a measurement differs from the standard whose name it claims
//! (docs/methodology.md, "Compliance labels").
//!
//! Fails closed: the name of a standard is used without a qualification only if every condition is
//! known to be met. Start with [`Conditions`].

use fwdlab_model::link::Line;
use fwdlab_model::outcome::Compliance;
use fwdlab_model::procedure::Waits;

use crate::procedure::time;

/// Frame sizes of RFC 2544 §9.1 for Ethernet, in bytes with FCS.
pub const FRAME_SIZES: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// Minimum number of sizes in a report (RFC 2544 §9).
const FEWEST_SIZES: usize = 5;

/// Shortest trial that may be a result (RFC 2544 §24).
pub const FINAL_NS: u64 = 60_000_000_000;

/// The conditions of a series.
#[derive(Debug, Clone, PartialEq)]
pub struct Conditions {
    /// Waits of every trial.
    pub waits: Waits,
    /// Frame sizes of the series, in bytes.
    pub frame_sizes: Vec<u16>,
    /// The same load was offered in both directions (RFC 2544 §14).
    pub both_directions: bool,
    /// Measured with one address pair and with 256 random destination networks (RFC 2544 §12).
    pub single_and_random: bool,
    /// The largest load is the rate of the full line.
    pub reaches_line_rate: bool,
    /// The line, if there is one.
    pub line: Option<Line>,
    /// No device was measured.
    pub simulated: bool,
}

/// Returns why a line is not the medium that standards refer to: an emulated one has neither a
/// clock nor gaps of its own.
pub fn no_medium(line: Option<Line>) -> Option<String> {
    line.filter(|line| !line.simulated)
        .map(|line| format!("{line}, not a medium"))
}

impl Conditions {
    /// Returns conditions that meet RFC 2544 completely.
    pub fn met() -> Conditions {
        Conditions {
            waits: Waits::RFC2544,
            frame_sizes: FRAME_SIZES.to_vec(),
            both_directions: true,
            single_and_random: true,
            reaches_line_rate: true,
            line: None,
            simulated: false,
        }
    }

    /// Returns the label of a procedure of this standard whose results are from trials of
    /// `final_ns`, with further points in which it was shortened.
    pub fn label(&self, standard: &str, final_ns: u64, further: Vec<String>) -> Compliance {
        let mut shortened = Vec::new();
        if final_ns < FINAL_NS {
            shortened.push(format!("trials of {} instead of 60 s", time(final_ns)));
        }
        shortened.extend(further);
        let rfc = Waits::RFC2544;
        for (wait, requested, what) in [
            (
                self.waits.learn_ns,
                rfc.learn_ns,
                "after learning addresses",
            ),
            (self.waits.drain_ns, rfc.drain_ns, "for late frames"),
            (self.waits.settle_ns, rfc.settle_ns, "after a trial"),
        ] {
            if wait < requested {
                shortened.push(format!(
                    "{} {what} instead of {}",
                    if wait == 0 {
                        "no wait".to_owned()
                    } else {
                        time(wait)
                    },
                    time(requested)
                ));
            }
        }
        let standard_sizes = self.frame_sizes.iter();
        let known = standard_sizes
            .filter(|size| FRAME_SIZES.contains(size))
            .count();
        if known < FEWEST_SIZES {
            shortened.push(format!(
                "{known} of the frame sizes of RFC 2544 §9.1, which requires at least {FEWEST_SIZES}"
            ));
        }
        for (met, words) in [
            (self.both_directions, "one direction"),
            (
                self.single_and_random,
                "not both one address pair and random destinations",
            ),
            (
                self.reaches_line_rate,
                "the tester does not reach line rate",
            ),
            (!self.simulated, "the DUT is simulated"),
        ] {
            if !met {
                shortened.push(words.into());
            }
        }
        shortened.extend(no_medium(self.line));
        Compliance {
            standard: standard.into(),
            shortened,
        }
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::link::LinkSpeed;

    use super::*;

    #[test]
    fn a_standard_is_claimed_only_if_fully_met() {
        let met = Conditions::met();
        let label = met.label("RFC 2544 §26.1 throughput", FINAL_NS, Vec::new());
        assert_eq!(label.label(), "RFC 2544 §26.1 throughput");
        type Change<'a> = &'a dyn Fn(&mut Conditions);
        let emulated = Line::emulated(LinkSpeed::megabits(1000));
        let changes: [(Change<'_>, &str); 8] = [
            (
                &|c| c.waits.learn_ns = 0,
                "no wait after learning addresses instead of 2 s",
            ),
            (
                &|c| c.waits.drain_ns = 500_000_000,
                "500 ms for late frames",
            ),
            (&|c| c.waits.settle_ns = 1_000_000_000, "1 s after a trial"),
            (
                &|c| c.frame_sizes = vec![64, 128, 256, 512, 600],
                "4 of the frame sizes",
            ),
            (&|c| c.both_directions = false, "one direction"),
            (&|c| c.single_and_random = false, "address pair"),
            (&|c| c.simulated = true, "simulated"),
            (
                &|c| c.line = Some(emulated),
                "emulated link 1 Gbit/s, not a medium",
            ),
        ];
        for (change, words) in changes {
            let mut conditions = met.clone();
            change(&mut conditions);
            let label = conditions.label("X", FINAL_NS, Vec::new());
            assert_eq!(label.shortened.len(), 1, "{label:?}");
            assert!(label.label().starts_with("X procedure, shortened: "));
            assert!(label.label().contains(words), "{label:?}");
        }
        let label = met.label("X", FINAL_NS - 1, vec!["5 repetitions".into()]);
        assert_eq!(label.shortened.len(), 2);
    }
}
