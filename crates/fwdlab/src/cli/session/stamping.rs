//! Who takes the times of a session's frames: the choice before it, and what came of it.
//!
//! What ports offer and what a stamp is, the engine knows; that a card is put back is the lab's business. Start with
//! [`Stamping::choose`]; [`Taken`] is for results.

use fwdlab_engine::analysis::Analysis;
use fwdlab_engine::stamps::{Kind, Log, Offers, choose};
use fwdlab_engine::{EngineError, LoneReceiver, Mode, PortSpec};
use fwdlab_lab::ports;
use fwdlab_lab::session::Source;
use fwdlab_report::number;
use serde_json::{Value, json};

use super::options::Timestamps;
use crate::exit_code::Usage;

/// A choice. Cards that were set for it are put back when it is dropped.
#[derive(Debug)]
pub struct Stamping {
    /// Who takes the times.
    pub kind: Kind,
    /// Why nobody better does.
    pub not_taken: Vec<String>,
    _cards: Vec<ports::Stamping>,
}

impl Stamping {
    /// The kind for frames from one port to another that this engine sends (`auto`: any), with cards set where it needs them.
    ///
    /// # Errors
    /// What was asked for cannot be had; then nothing was changed.
    pub fn choose(
        wanted: Timestamps,
        tx: &PortSpec,
        rx: &PortSpec,
        engine: &str,
    ) -> anyhow::Result<Stamping> {
        let user = |not_taken| Stamping {
            kind: Kind::User,
            not_taken,
            _cards: Vec::new(),
        };
        if wanted == Timestamps::User {
            return Ok(user(Vec::new()));
        }
        let tells = ["auto", Mode::AfPacket.name()].contains(&engine);
        // a device may, and the engine says whether this one does
        let may_tell = engine == Mode::AfXdp.name() && wanted == Timestamps::Hardware;
        if !tells && !may_tell {
            if wanted == Timestamps::Auto {
                return Ok(user(vec![format!(
                    "software: --engine {engine} does not learn when its frames leave"
                )]));
            }
            return Err(Usage(format!(
                "--timestamps {}: --engine {engine} does not learn when its frames leave; use --engine af-packet",
                wanted.kind().map_or("auto", Kind::name)
            ))
            .into());
        }
        let (kind, not_taken) = choose(wanted.kind(), &Offers::of(tx)?, &Offers::of(rx)?)?;
        let mut cards = Vec::new();
        if kind == Kind::Hardware {
            cards.push(ports::Stamping::take(tx)?);
            if tx != rx {
                cards.push(ports::Stamping::take(rx)?);
            }
        }
        Ok(Stamping {
            kind,
            not_taken,
            _cards: cards,
        })
    }
}

/// What was found out, with the times that were wanted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Taken {
    /// Frames with and without a departure; `None`: departures are those that frames carry.
    departures: Option<(u64, u64)>,
    /// The same of arrivals.
    arrivals: Option<(u64, u64)>,
    /// The time of day was set.
    clock_step_ns: Option<i64>,
}

/// What a receiver has analysed, timed by the stamps of both ends where there are such.
pub fn analysis(
    sender: Option<&mut Source>,
    receiver: &mut LoneReceiver,
) -> Result<Option<(Analysis, Taken)>, EngineError> {
    let receiver = receiver.receiver()?;
    let Some(mut analysis) = receiver.analysis()? else {
        return Ok(None);
    };
    let departures = match sender {
        Some(sender) => sender.sender()?.departures(),
        None => None,
    };
    let mut taken = Taken::default();
    if let (Some(departures), Some(arrivals)) = (departures, receiver.arrivals()) {
        analysis.retime(&departures, &arrivals)?;
        let counts = |log: &Log| Some((log.times.len() as u64, log.missing));
        (taken.departures, taken.arrivals) = (counts(&departures), counts(&arrivals));
    }
    taken.clock_step_ns = analysis.clock_step_ns;
    Ok(Some((analysis, taken)))
}

impl Taken {
    /// Why the times are not to be believed.
    pub fn invalid(&self) -> Option<String> {
        let step_ns = self.clock_step_ns?;
        let by = match step_ns {
            0 => String::new(),
            ns => format!(" by {:.6} s", ns as f64 / 1e9),
        };
        Some(format!(
            "the time of day was set{by} during the measurement, which uses that clock. Measure again, and find out what sets \
             the clock (chronyc tracking, journalctl)"
        ))
    }

    /// For results.
    pub fn json(&self, stamping: &Stamping) -> Value {
        let mut value = json!({
            "kind": stamping.kind.name(),
            "not_taken": stamping.not_taken,
            "valid": self.clock_step_ns.is_none(),
        });
        for (name, counts) in [("departures", self.departures), ("arrivals", self.arrivals)] {
            if let Some((with, without)) = counts {
                value[format!("{name}_stamped")] = with.into();
                value[format!("{name}_not_stamped")] = without.into();
            }
        }
        if let Some(ns) = self.clock_step_ns {
            value["clock_set_by_ns"] = ns.into();
        }
        value
    }

    /// A line about how many there are, and one that says why they are not to be believed.
    pub fn text(&self, stamping: &Stamping) -> String {
        let mut text = String::new();
        if let (Some((left, unsaid)), Some((came, unseen))) = (self.departures, self.arrivals) {
            text += &format!(
                "stamps    {} departures, {} arrivals",
                number::count(left),
                number::count(came)
            );
            if unsaid + unseen > 0 {
                text += &format!(
                    "; without a timestamp, and so not timed: {} departures, {} arrivals",
                    number::count(unsaid),
                    number::count(unseen)
                );
            }
            text += "\n";
        }
        for reason in &stamping.not_taken {
            text += &format!("          not {reason}\n");
        }
        if let Some(why) = self.invalid() {
            text += &format!("invalid   {why}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_makes_it_invalid() {
        let taken = Taken {
            departures: Some((7, 0)),
            arrivals: Some((6, 1)),
            clock_step_ns: Some(-1_500_000_000),
        };
        let stamping = Stamping {
            kind: Kind::Software,
            not_taken: vec!["hardware: no clock".into()],
            _cards: Vec::new(),
        };
        let text = taken.text(&stamping);
        assert!(text.contains("7 departures, 6 arrivals; without a timestamp, and so not timed: 0 departures, 1 arrival"));
        assert!(text.contains("not hardware: no clock"));
        assert!(
            text.contains("invalid   the time of day was set by -1.500000 s"),
            "{text}"
        );
        let json = taken.json(&stamping);
        assert_eq!(json["valid"], false);
        assert_eq!(json["arrivals_not_stamped"], 1);
        let quiet = Taken::default();
        assert_eq!(quiet.invalid(), None);
        assert_eq!(quiet.json(&stamping)["valid"], true);
    }
}
