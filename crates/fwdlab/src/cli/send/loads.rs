//! Resolves typed loads for a port: to frames per second, and to a description of what was
//! understood.
//!
//! Start with [`Send::loads`].

use anyhow::Context;
use fwdlab_engine::Frames;
use fwdlab_engine::traffic::player::own_load_pps;
use fwdlab_model::link::{Layer, LinkLoad, LinkSpeed};
use fwdlab_model::units::Load;
use fwdlab_report::number;

use super::Send;
use super::frames::{FrameKind, FrameRequest, Planned};
use crate::exit_code::Usage;

/// A load as text and in frames per second; `None` for no limit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Resolved {
    pub words: String,
    pub pps: Option<f64>,
}

impl Send {
    pub(super) fn loads(
        &self,
        planned: &Planned,
        requested: &FrameRequest,
    ) -> anyhow::Result<Vec<Resolved>> {
        let own_rate = match requested {
            FrameRequest::Profile(loaded) => {
                let profile = &loaded.profile;
                profile.rate.is_some() || profile.streams.iter().any(|stream| stream.rate.is_some())
            }
            _ => false,
        };
        let link = self.link_of(&planned.port);
        if self.load.is_empty() {
            if matches!(planned.kind, FrameKind::Recording(_)) {
                let words = match self.speed {
                    None => "its own timing".into(),
                    Some(factor) => format!("its own timing, {factor} times as fast"),
                };
                return Ok(vec![Resolved { words, pps: None }]);
            }
            if let FrameKind::Frames(Frames::Traffic(frames)) = &planned.kind
                && self.profile.is_some()
                && (own_rate || link.is_some())
            {
                let own = own_load_pps(&frames.traffic);
                return Ok(vec![Resolved {
                    words: format!("the profile's own: {}", exact(own)),
                    pps: Some(own),
                }]);
            }
            return Ok(vec![resolve(
                LinkLoad::Load(Load::Max),
                planned,
                self.link,
                link,
            )?]);
        }
        let loads: Vec<Resolved> = (self.load.iter())
            .map(|&load| resolve(load, planned, self.link, link))
            .collect::<anyhow::Result<_>>()?;
        if loads.len() > 1 && loads.iter().any(|load| load.pps.is_none()) {
            return Err(Usage("--load: max means full speed and cannot be one of several loads; with --link it is the line \
                rate".into()).into());
        }
        if loads.len() > 1 && matches!(planned.kind, FrameKind::Recording(_)) {
            return Err(Usage("--load: a capture can only be sent at one load".into()).into());
        }
        Ok(loads)
    }
}

/// Resolves a load for a port, to frames per second and a description.
fn resolve(
    load: LinkLoad,
    planned: &Planned,
    emulated: Option<LinkSpeed>,
    link: Option<LinkSpeed>,
) -> anyhow::Result<Resolved> {
    let (mean, name) = (planned.mean, &planned.port.spec().interface);
    let line = |link: LinkSpeed| format!("{} L1", number::bits_per_second(link.bps() as f64));
    let at = format!("at {} B", trimmed(format!("{:.1}", mean.bytes())));
    let mut pps = match (load, link) {
        (LinkLoad::Share(_), None) => {
            return Err(Usage(format!(
                "--load {load}: {name} is a virtual port without a speed, so a percentage has no meaning. Add --link 1G, or \
                 give a load such as 1Mpps"
            ))
            .into());
        }
        (LinkLoad::Load(Load::Max), _) if emulated.is_none() => {
            return Ok(Resolved {
                words: "max: as fast as the engine can".into(),
                pps: None,
            });
        }
        (load, Some(link)) => load.pps(mean, link),
        (LinkLoad::Load(load), None) => load.pps(mean).context("a load without a rate")?,
    };
    let mut words = match (load, link) {
        (LinkLoad::Share(_), Some(link)) => {
            format!("{load} of {} = {} {at}", line(link), exact(pps))
        }
        (LinkLoad::Load(Load::Max), Some(link)) => {
            format!("max of {} = {} {at}", line(link), exact(pps))
        }
        (LinkLoad::Load(Load::Frames(_)), _) => format!(
            "{} = {} L1 {at}",
            exact(pps),
            number::bits_per_second(mean.bps(Layer::L1, pps))
        ),
        _ => format!("{load} = {} {at}", exact(pps)),
    };
    if let Some(link) = emulated {
        let most = link.line_rate_pps(mean);
        if pps > most {
            pps = most;
            words += &format!(", held at the line rate of {}: {}", line(link), exact(most));
        }
    }
    Ok(Resolved {
        words,
        pps: Some(pps),
    })
}

/// Formats a rate with six digits, enough to compare it with the typed one.
fn exact(pps: f64) -> String {
    let (value, unit) = match pps {
        v if v >= 1e6 => (v / 1e6, "Mpps"),
        v if v >= 1e3 => (v / 1e3, "kpps"),
        v => (v, "pps"),
    };
    let digits = match value {
        v if v >= 100.0 => 3,
        v if v >= 10.0 => 4,
        _ => 5,
    };
    format!("{} {unit}", trimmed(format!("{value:.digits$}")))
}

fn trimmed(number: String) -> String {
    match number.contains('.') {
        true => number
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
        false => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_printed_with_six_digits() {
        for (pps, words) in [
            (744_047.619, "744.048 kpps"),
            (1_488_095.2, "1.4881 Mpps"),
            (14_880_952.0, "14.881 Mpps"),
            (1000.0, "1 kpps"),
            (0.5, "0.5 pps"),
        ] {
            assert_eq!(exact(pps), words);
        }
    }
}
