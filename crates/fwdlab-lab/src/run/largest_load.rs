//! The largest load of a run: the requested one, else what the tester can sustain, and never above
//! line rate.
//!
//! The only place that decides this, for the simulated DUT and the test bed alike. It measures
//! nothing. Start with [`Bounds`].

use fwdlab_engine::sim::Dut;
use fwdlab_measure::machine::Limit;
use fwdlab_model::campaign::value::Rate;
use fwdlab_model::campaign::{Campaign, Counting};
use fwdlab_model::link::{Line, LinkLoad, LinkSpeed, MeanSize};
use fwdlab_model::units::{FrameSize, Load};

use crate::error::LabError;
use crate::promise::Need;

/// Upper bounds of the load, known before anything is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub asked: Option<LinkLoad>,
    pub line: Option<Line>,
}

/// Link speed that a simulated tester can fill by default.
const SIMULATED: LinkSpeed = LinkSpeed::megabits(10_000);

/// Returns what a campaign asks of the tester, test case by test case: its largest load, and
/// whether its frames are those of a self-test. Empty if nothing is sent by a real tester.
pub fn needs(campaign: &Campaign) -> Vec<Need> {
    let is_sent = campaign.procedure.counting() != Counting::Instructions;
    if campaign.is_simulated() || !is_sent {
        return Vec::new();
    }
    let bounds = Bounds::of(campaign, super::line(None, campaign.bed.link));
    let bounds = Bounds {
        asked: campaign.procedure.given_load().or(bounds.asked),
        ..bounds
    };
    let of_case = |case| {
        let variants = campaign.variants(case);
        let is_plain = variants.iter().all(|one| one.is_plain());
        let streams = campaign.streams(case).unwrap_or_default();
        streams.into_iter().map(move |stream| {
            let size = stream.frame_size_bytes;
            // an invalid load is reported when the plan is made
            let given = bounds.asked_pps(size.into()).ok().flatten();
            let line = bounds.line.map(|line| line.rate_pps(size));
            Need {
                load_pps: given.or(line),
                is_given: given.is_some(),
                differs: (!is_plain).then(|| {
                    "the self-test sends frames of one size in one direction, without modifiers"
                        .into()
                }),
                stream,
            }
        })
    };
    campaign.cases.iter().flat_map(of_case).collect()
}

impl Bounds {
    /// Returns those of a campaign on this line.
    pub fn of(campaign: &Campaign, line: Option<Line>) -> Bounds {
        let most = campaign.bed.max.map(|Rate(most)| most);
        Bounds {
            asked: most.or_else(|| campaign.procedure.load()),
            line,
        }
    }

    /// Returns the requested largest load.
    ///
    /// # Errors
    /// Fails if the request makes no sense here, or exceeds line rate.
    pub fn asked_pps(&self, mean: MeanSize) -> Result<Option<f64>, String> {
        match self.asked {
            Some(load) => load.on_line("the load", mean, self.line),
            None => Ok(None),
        }
    }

    /// Returns the largest load; `held` returns what the tester can sustain, and is called only
    /// without a request.
    pub fn largest(
        &self,
        frame_size: FrameSize,
        mean: MeanSize,
        held: impl FnOnce() -> Result<(f64, String), LabError>,
    ) -> Result<Limit, LabError> {
        let requested = self.asked_pps(mean).map_err(LabError::Preflight)?;
        let is_asked = requested.is_some();
        let (pps, source) = match requested {
            Some(pps) => (pps, "as requested".into()),
            None => held()?,
        };
        let mut limit = Limit::new(frame_size, mean, self.line, pps, source);
        if let Some(line) = limit.line
            && !is_asked
            && limit.reaches_line_rate()
        {
            limit.source = format!("the line rate of the {line}");
        }
        Ok(limit)
    }

    /// The same for a simulated DUT, whose tester has known limits.
    pub fn on(&self, dut: &Dut, frame_size: FrameSize, mean: MeanSize) -> Result<Limit, LabError> {
        self.largest(frame_size, mean, || match dut.tester_limit_pps(mean) {
            Some(pps) => Ok((pps, "what the simulated tester can offer".into())),
            None => Ok((
                SIMULATED.line_rate_pps(mean),
                "a simulated tester fills 10 Gbit/s, unless link= or generator= of the DUT, --link or --max set another load".into(),
            )),
        })
    }

    /// The same if nothing is known about the tester: probably more than any can sustain.
    pub fn likely(
        &self,
        frame_size: FrameSize,
        mean: MeanSize,
        typical_pps: f64,
    ) -> Result<Limit, LabError> {
        self.largest(frame_size, mean, || Ok((typical_pps, "a guess".into())))
    }

    /// Returns the request in the form that is stored: frames per second, or words if they depend
    /// on the size.
    pub fn as_value(&self) -> serde_json::Value {
        match self.asked {
            None | Some(LinkLoad::Load(Load::Max)) => "what the tester can offer".into(),
            Some(LinkLoad::Load(Load::Frames(pps))) => pps.into(),
            Some(load) => load.to_string().into(),
        }
    }

    /// Returns a warning if the tester cannot fill the line, although no lower load was requested.
    pub fn warning(&self, limit: &Limit) -> Option<String> {
        let line = limit.line?;
        (self.asked.is_none() && !limit.reaches_line_rate()).then(|| {
            format!(
                "the tester cannot fill the {line}: of {:.0} frames per second of {:.0} bytes, the largest load is {:.0} ({})",
                line.rate_pps(limit.mean),
                limit.mean.bytes(),
                limit.max_load_pps,
                limit.source
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_campaign_needs_the_load_that_it_gives_or_the_line_rate() {
        let needs = |text: &str| {
            let campaign = Campaign::parse("c.toml", &format!("campaign = 'c'\n{text}\n")).unwrap();
            let loads = needs(&campaign).into_iter().map(|need| {
                let load = need.load_pps.map(f64::round);
                (load, need.is_given, need.differs.is_some())
            });
            loads.collect::<Vec<_>>()
        };
        let line = Some(1_488_095.0);
        for (text, expected) in [
            (
                "[procedure]\nid = 'trial'\nload = '2Mpps'",
                (Some(2e6), true, false),
            ),
            (
                "[procedure]\nid = 'ramp'\ntarget = '3Mpps'",
                (Some(3e6), true, false),
            ),
            (
                "[procedure]\nid = 'maxfwd'\nload = '4Mpps'",
                (Some(4e6), true, false),
            ),
            ("[procedure]\nid = 'maxfwd'", (None, false, false)),
            (
                "[bed]\nmax = '5Mpps'\n[procedure]\nid = 'mlrsearch'",
                (Some(5e6), true, false),
            ),
            (
                "[bed]\nlink = '1G'\n[procedure]\nid = 'mlrsearch'",
                (line, false, false),
            ),
            (
                "[bed]\nlink = '1G'\n[procedure]\nid = 'trial'\nload = '50%'",
                (Some(744_048.0), true, false),
            ),
            (
                "[matrix]\ndirections = 'both'\n[procedure]\nid = 'trial'\nload = '2Mpps'",
                (Some(2e6), true, true),
            ),
        ] {
            assert_eq!(needs(text), [expected], "{text}");
        }
        let simulated = "[bed]\nengine = 'sim'\n[procedure]\nid = 'mrr'";
        assert_eq!(needs(simulated), []);
    }

    /// 148,809.5 frames of 64 bytes and 8,127.4 of 1518 per second fill 100 Mbit/s
    /// (docs/methodology.md, "Units and line rates").
    #[test]
    fn the_largest_load_is_the_least_of_line_tester_and_request() {
        let find = |requested: Option<&str>, held: f64, bytes| {
            let bounds = Bounds {
                asked: requested.map(|typed| typed.parse().unwrap()),
                line: Some(Line::emulated(LinkSpeed::megabits(100))),
            };
            let size = FrameSize::new(bytes).unwrap();
            let found = bounds.largest(size, size.into(), || Ok((held, "held".into())));
            found.map(|found| {
                let warns = bounds.warning(&found).is_some();
                (found.max_load_pps.floor(), found.source, warns)
            })
        };
        let at_line = "the line rate of the emulated link 100 Mbit/s".to_owned();
        assert_eq!(
            find(None, 5e6, 64).unwrap(),
            (148_809.0, at_line.clone(), false)
        );
        assert_eq!(find(None, 5e6, 1518).unwrap(), (8127.0, at_line, false));
        assert_eq!(find(None, 9e4, 64).unwrap(), (9e4, "held".into(), true));
        let requested = "as requested".to_owned();
        assert_eq!(
            find(Some("50%"), 9e4, 64).unwrap(),
            (74_404.0, requested.clone(), false)
        );
        assert_eq!(
            find(Some("50%"), 9e4, 1518).unwrap(),
            (4063.0, requested.clone(), false)
        );
        assert_eq!(
            find(Some("5kpps"), 9e4, 1518).unwrap(),
            (5000.0, requested, false)
        );
        let error = find(Some("9kpps"), 9e4, 1518).unwrap_err().to_string();
        assert!(
            error.contains("9kpps is more than the emulated link"),
            "{error}"
        );

        let none = Bounds {
            asked: None,
            line: None,
        };
        let size = FrameSize::MIN;
        // without a known limit, it fills 10 Gbit/s
        let found = none.on(&Dut::default(), size, size.into()).unwrap();
        assert_eq!(found.max_load_pps.floor(), 14_880_952.0, "{found:?}");
        let dut: Dut = "generator=1e5,link=100M".parse().unwrap();
        let bounds = Bounds {
            line: dut.line(),
            ..none
        };
        let found = bounds.on(&dut, size, size.into()).unwrap();
        assert_eq!(found.max_load_pps, 1e5);
        assert_eq!(found.source, "what the simulated tester can offer");
        assert!(
            bounds
                .warning(&found)
                .unwrap()
                .contains("simulated link 100 Mbit/s")
        );
    }
}
