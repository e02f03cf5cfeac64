//! Thresholds: requirements on the figures of a campaign, absolute or compared with another run or
//! configuration.
//!
//! `fwdlab_report::thresholds` judges them when everything is measured. Start with [`Threshold`].

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::value::Share;
use super::{Campaign, Case, Counting, Exact, PLAIN, Paired, Procedure};
use crate::file::{FileError, Step, did_you_mean};
use crate::glob::matches;
use crate::outcome::{FORWARDING_RATE, INSTRUCTIONS, Unit};
use crate::series::metric;
use crate::typed::{Numbers, typed};
use crate::units::{Load, UnitError, parse_load};

/// Fewer iterations have no interval, except counts of instructions.
const FEWEST: u32 = 3;

/// More thresholds count as an error.
const MOST: usize = 100;

/// A requirement on a figure
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Threshold {
    /// Test cases it applies to; * matches any letters: plain/64B-*. By default all
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// The figure: throughput, ndr, forwarding-rate; by default the first of each test case
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure: Option<String>,
    /// The minimum: "1Mpps", "20us", "0.5%", or a number in the figure's own unit
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<Amount>,
    /// The maximum
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Amount>,
    /// It must not be slower than a reference by more than a share; for times: not longer
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_slower_than: Option<Reference>,
}

/// The reference of a comparison
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Reference {
    /// A run, by its id or a part of it, or @1 for the last one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// A configuration of this campaign
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    /// An image of this campaign
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The largest slowdown that passes: 3%
    pub by: Share,
}

impl Reference {
    /// Returns the label of the reference's test cases and its value, if they are of the same
    /// campaign.
    pub fn label(&self) -> Option<(&'static str, &str)> {
        let configuration = self.configuration.as_deref();
        let image = self.image.as_deref();
        configuration
            .map(|name| ("configuration", name))
            .or(image.map(|name| ("image", name)))
    }
}

/// A number, with a unit if one was typed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amount {
    /// The number, in frames per second, nanoseconds or percent if it has a unit.
    pub number: f64,
    /// Its unit; `None`: that of the figure.
    pub unit: Option<Unit>,
}

impl Amount {
    /// Returns the number in the unit of a figure; `None` if the units are incompatible.
    pub fn in_unit(&self, of: Unit) -> Option<f64> {
        match (self.unit, of) {
            (None, _) => Some(self.number),
            (Some(own), of) if own == of => Some(self.number),
            (Some(Unit::Nanoseconds), Unit::Cost) => Some(self.number),
            (Some(Unit::Nanoseconds), Unit::Seconds) => Some(self.number / 1e9),
            _ => None,
        }
    }
}

impl FromStr for Amount {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Amount, UnitError> {
        const TIMES: [(&str, f64); 5] = [
            ("ns", 1.0),
            ("us", 1e3),
            ("µs", 1e3),
            ("ms", 1e6),
            ("s", 1e9),
        ];
        let typed = text.trim();
        let number = |text: &str| text.trim().parse().ok().filter(|n: &f64| n.is_finite());
        let of = |number, unit| Amount { number, unit };
        if let Some(number) = number(typed) {
            return Ok(of(number, None));
        }
        if let Some(number) = typed.strip_suffix('%').and_then(number) {
            return Ok(of(number, Some(Unit::Percent)));
        }
        if let Ok(Load::Frames(pps)) = parse_load(typed) {
            return Ok(of(pps, Some(Unit::FramesPerSecond)));
        }
        let mut times = TIMES.iter();
        let time = times.find_map(|(unit, ns)| Some(number(typed.strip_suffix(unit)?)? * ns));
        time.map(|ns| of(ns, Some(Unit::Nanoseconds)))
            .ok_or_else(|| {
                UnitError::new(text, "figure", "for example 1Mpps, 20us, 0.5% or a number")
            })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Amount { number, unit } = self;
        match unit {
            None => write!(f, "{number}"),
            Some(Unit::Percent) => write!(f, "{number} %"),
            Some(unit) => write!(f, "{number} {}", unit.symbol()),
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

typed!(Amount, Numbers::Any, "a figure such as \"1Mpps\"", {
    "description": "A figure: \"1Mpps\", \"20us\", \"0.5%\", or a number in the figure's own unit",
    "anyOf": [{ "type": "number" }, { "type": "string" }]
});

impl Threshold {
    /// Returns true if it applies to this test case.
    pub fn is_of(&self, case: &str) -> bool {
        self.case
            .as_ref()
            .is_none_or(|pattern| matches(pattern, case))
    }

    /// Returns true if it applies to this figure, which may be the first one of its test case.
    pub fn applies_to_figure(&self, figure: &str, is_first: bool) -> bool {
        match &self.figure {
            Some(requested) => metric(requested) == metric(figure),
            None => is_first,
        }
    }
}

impl Procedure {
    /// Returns the figure of this procedure, if it always has the same single one.
    fn only_figure(&self) -> Option<(&'static str, Unit)> {
        let rate = |name| Some((name, Unit::FramesPerSecond));
        match self {
            Procedure::Trial(_) | Procedure::ForwardingRate(_) | Procedure::Maxfwd(_) => {
                rate(FORWARDING_RATE)
            }
            Procedure::Ramp(_) => rate("loss begins"),
            Procedure::Throughput(_) => rate("throughput"),
            Procedure::Mrr(_) => rate("receive rate"),
            Procedure::Plr(_) => rate("critical load"),
            Procedure::Equilibrium(_) => rate("equilibrium"),
            Procedure::Soak(_) => Some(("frame loss", Unit::Percent)),
            Procedure::Exact(_) => Some((INSTRUCTIONS, Unit::Instructions)),
            _ => None,
        }
    }
}

impl Campaign {
    pub(super) fn check_thresholds(&self) -> Result<(), FileError> {
        if self.thresholds.len() > MOST {
            let reason = format!("{} thresholds; {MOST} are the most", self.thresholds.len());
            return Err(self.error(&["threshold"], reason));
        }
        for (n, threshold) in self.thresholds.iter().enumerate() {
            self.check_threshold(n, threshold)?;
        }
        Ok(())
    }

    /// Returns an error about a threshold.
    pub fn wrong_threshold(&self, n: usize, keys: &[&str], reason: impl Into<String>) -> FileError {
        let mut key_path = vec![Step::Key("threshold"), Step::Item(n)];
        key_path.extend(keys.iter().map(|key| Step::Key(key)));
        self.origin.error(&key_path, reason)
    }

    fn check_threshold(&self, n: usize, threshold: &Threshold) -> Result<(), FileError> {
        let wrong = |keys: &[&str], reason: String| Err(self.wrong_threshold(n, keys, reason));
        let Threshold {
            case,
            figure,
            at_least,
            at_most,
            not_slower_than,
        } = threshold;
        let said = [
            at_least.is_some(),
            at_most.is_some(),
            not_slower_than.is_some(),
        ];
        match said.iter().filter(|said| **said).count() {
            1 => {}
            0 => {
                let reason = "the limit is missing: set at-least, at-most or not-slower-than";
                return wrong(&[], reason.into());
            }
            _ => {
                let reason = "a threshold has only one of at-least, at-most and not-slower-than: use a [[threshold]] for each";
                return wrong(&[], reason.into());
            }
        }
        let ids: Vec<String> = self.cases.iter().map(Case::id).collect();
        if let Some(pattern) = case
            && !ids.iter().any(|id| matches(pattern, id))
        {
            let which = did_you_mean(pattern, &ids[..ids.len().min(20)]);
            return wrong(&["case"], format!("no test case is `{pattern}`; {which}"));
        }
        let fewest = self.until.map_or(self.iterations, |until| until.min);
        if fewest < FEWEST && self.procedure.counting() != Counting::Instructions {
            let reason = format!(
                "{} cannot prove anything, because there is no interval: give {FEWEST} iterations or more",
                self.iterations_in_words()
            );
            return wrong(&[], reason);
        }
        let only = match &self.sweep {
            // the names of its figures contain the parameter
            Some(_) => None,
            None => self.procedure.only_figure(),
        };
        if let (Some(figure), Some((only, _))) = (figure, only)
            && metric(figure) != metric(only)
        {
            let id = self.procedure.id();
            let reason = format!(
                "{id} finds no `{figure}`; {}",
                did_you_mean(figure, &[metric(only)])
            );
            return wrong(&["figure"], reason);
        }
        for (key, amount) in [("at-least", at_least), ("at-most", at_most)] {
            if let (Some(amount), Some((only, unit))) = (amount, only)
                && amount.in_unit(unit).is_none()
            {
                let reason = format!("{only} is in {}, and {amount} is not", unit.symbol());
                return wrong(&[key], reason);
            }
        }
        match not_slower_than {
            Some(reference) => self.check_reference(n, reference),
            None => Ok(()),
        }
    }

    fn check_reference(&self, n: usize, reference: &Reference) -> Result<(), FileError> {
        let wrong = |key: Option<&str>, reason: String| {
            let mut key_path = vec!["not-slower-than"];
            key_path.extend(key);
            Err(self.wrong_threshold(n, &key_path, reason))
        };
        if reference.by.0 <= 0.0 {
            let reason = "no measurement shows that there is no difference at all: give the share that would matter, such as \"3%\"";
            return wrong(Some("by"), reason.into());
        }
        let Reference {
            run,
            configuration,
            image,
            ..
        } = reference;
        let (key, name, known) = match (run, configuration, image) {
            (Some(run), None, None) if run.trim().is_empty() => {
                let reason = "it is empty; give the id of a run, or @1";
                return wrong(Some("run"), reason.into());
            }
            (Some(_), None, None) => return Ok(()),
            (None, Some(name), None) => {
                let of_cases = self.cases.iter().map(|case| case.configuration.as_str());
                let beside = match &self.procedure {
                    Procedure::Paired(Paired { reference, .. })
                    | Procedure::Exact(Exact { reference, .. }) => Some(reference.as_str()),
                    _ => None,
                };
                let known: BTreeSet<&str> = of_cases.chain(beside).collect();
                ("configuration", name, known)
            }
            (None, None, Some(name)) => {
                let images = self.cases.iter().filter_map(|case| case.image.as_deref());
                ("image", name, images.collect())
            }
            _ => return wrong(None, "set one of run, configuration and image".into()),
        };
        if !known.contains(&name.as_str()) {
            let which = match name == PLAIN {
                true => "add plain to configuration in [matrix]".into(),
                false => did_you_mean(name, &known.into_iter().collect::<Vec<_>>()),
            };
            return wrong(Some(key), format!("`{name}` is not measured; {which}"));
        }
        match known.len() {
            1 => wrong(
                Some(key),
                format!("there is no other {key} to compare with it"),
            ),
            _ => Ok(()),
        }
    }
}
