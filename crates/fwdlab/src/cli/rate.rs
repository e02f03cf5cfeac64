//! `fwdlab rate`: converts a rate to all units, and prints tables of line rates. Start with
//! [`Rate::run`].

use clap::Args;
use fwdlab_model::energy;
use fwdlab_model::link::{LinkLoad, LinkSpeed};
use fwdlab_model::mix::Mix;
use fwdlab_model::units::{Load, UnitError};
use fwdlab_report::rate::{Question, Rates, Tables};

use super::Global;
use crate::exit_code::{Code, Usage};

/// Convert a rate: frames/s, bit/s of layers 1, 2 and 3, share of line rate, time, energy, cycles
///
/// A rate is 14.88Mpps, 10Gbps (on the wire, L1), 9.4Gbps-l2, 5Gbps-l3, 50% or max. K, M and G are
/// decimal. Without a rate: the tables of line rates, of mixes, and of the minimum router.
#[derive(Debug, Args)]
pub struct Rate {
    /// Rates, one way: 14.88Mpps, 10Gbps or 10G (L1), 9.4Gbps-l2, 5Gbps-l3, 50% or max
    #[arg(value_name = "RATE", value_parser = rate)]
    rates: Vec<LinkLoad>,
    /// Frames: bytes including the FCS (pkt-gen's -l plus 4), a mix such as imix, or a genome (RFC
    /// 6985) such as 7a4dg or '7a4Ag A=594' [default: 64; without a rate: the sizes of RFC 2544]
    #[arg(long, value_delimiter = ',', value_name = "BYTES|MIX|GENOME")]
    size: Vec<Mix>,
    /// Speed of the link: 1G, 2.5G, 100M [default: 10G; without a rate: 1G to 100G]
    #[arg(long, value_delimiter = ',', value_name = "SPEED")]
    link: Vec<LinkSpeed>,
    /// Clock of a core, such as 2.2GHz; prints the cycles available per frame
    #[arg(long, value_parser = energy::parse_clock_hz, value_name = "HZ", requires = "rates")]
    clock: Option<f64>,
    /// Cycles that a core spends on each frame; prints the clock that the rate needs
    #[arg(long, value_parser = positive, value_name = "N", requires = "rates")]
    cycles: Option<f64>,
    /// Power of the device at this rate; prints the energy per frame
    #[arg(long, value_parser = positive, value_name = "W", requires = "rates")]
    watts: Option<f64>,
    /// Power of the device without load; prints the energy that each frame adds
    #[arg(long, value_parser = positive, value_name = "W", requires = "watts")]
    idle_watts: Option<f64>,
}

/// Parses a load, or the speed of a link: `10G` is 10 Gbit/s at layer 1.
fn rate(text: &str) -> Result<LinkLoad, UnitError> {
    text.parse().or_else(|reason: UnitError| {
        let has_unit = text.trim().ends_with(['k', 'K', 'M', 'G', 'T']);
        let speed: LinkSpeed = text.parse().ok().filter(|_| has_unit).ok_or(reason)?;
        Ok(LinkLoad::Load(Load::BitsL1(speed.bps() as f64)))
    })
}

fn positive(text: &str) -> Result<f64, UnitError> {
    match text.trim().parse() {
        Ok(value) if value > 0.0 && value <= 1e12 => Ok(value),
        _ => Err(UnitError {
            text: text.to_owned(),
            what: "number",
            reason: "give a number above 0, such as 19 or 437.9".into(),
        }),
    }
}

impl Rate {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        if let (Some(watts), Some(idle)) = (self.watts, self.idle_watts)
            && idle > watts
        {
            let reason = format!(
                "--idle-watts {idle} is more than --watts {watts}: a device takes at least as much under load as without"
            );
            return Err(Usage(reason).into());
        }
        let question = Question {
            rates: self.rates,
            sizes: self.size,
            links: self.link,
            clock_hz: self.clock,
            cycles: self.cycles,
            watts: self.watts,
            idle_watts: self.idle_watts,
        };
        if question.rates.is_empty() {
            let tables = Tables::from_question(&question);
            global.result(&tables, tables.text())
        } else {
            let rates = Rates::from_question(&question);
            global.result(&rates, rates.text())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_of_a_link_is_a_rate_on_the_wire() {
        for (typed, bps) in [("10G", 10e9), ("2.5G", 2.5e9), ("100M", 100e6)] {
            assert_eq!(rate(typed).unwrap(), LinkLoad::Load(Load::BitsL1(bps)));
        }
        for text in ["10", "", "G", "10Gpp", "0G"] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert_eq!(rate("50%").unwrap(), LinkLoad::Share(50.0));
    }

    #[test]
    fn numbers_as_people_type_them() {
        assert_eq!(positive("19").unwrap(), 19.0);
        for text in ["", "0", "-1", "nan", "inf", "19W", "1e300"] {
            assert!(positive(text).is_err(), "{text}");
        }
    }
}
