//! Limits for a comparison, such as `forwarding-rate < -2%`.
//!
//! A limit is broken if the difference is beyond it *and* proven. The estimate alone would fail
//! because of noise. Requiring the whole interval to be beyond the limit would miss half of all
//! losses just past it, and more the noisier the measurement. A limit is kept only if a difference
//! of its size would have been detected: an inconclusive check fails unless the user accepts it.
//! Start with [`Limit`]'s `FromStr`, then [`Limit::judge`].

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use fwdlab_model::comparison::Verdict;
use fwdlab_model::threshold::Judged;

use super::judge::COUNTS;
use super::{Compared, Outcome, Row};
use crate::exact::{NAMED, listed};
use crate::number::{difference, would_have_shown};

/// Advice if a comparison was inconclusive.
pub const ACCEPT_INCONCLUSIVE: &str = "--accept-inconclusive accepts that";

/// `METRIC < PERCENT` or `METRIC > PERCENT`: fail if this holds for the difference.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The metric, as in [`fwdlab_model::series::Series`].
    pub metric: String,
    /// Fail below the limit if true, above it if false.
    pub below: bool,
    /// The limit: a difference from the baseline, in percent.
    pub percent: f64,
}

/// A text is not a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{expected} at character {} of the limit\n  {text}\n  {blanks}^\nwrite for example 'forwarding-rate < \
    -2%'", .position + 1, blanks = " ".repeat(*.position))]
pub struct LimitError {
    /// The text.
    pub text: String,
    /// Position of the error, in characters from 0.
    pub position: usize,
    /// What was expected there.
    pub expected: String,
}

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Limit, LimitError> {
        let error = |rest: &str, expected: String| LimitError {
            text: text.to_owned(),
            position: text.chars().count() - rest.chars().count(),
            expected,
        };
        let rest = text.trim_start();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
            .unwrap_or(rest.len());
        // a sign directly after the name is not part of the name
        let (metric, after) = rest.split_at(end);
        if metric.is_empty() {
            return Err(error(rest, "expected a metric, such as ndr".into()));
        }
        let rest = after.trim_start();
        let below = match rest.chars().next() {
            Some('<') => true,
            Some('>') => false,
            _ => return Err(error(rest, "expected `<` or `>`".into())),
        };
        let rest = rest[1..].trim_start();
        let end = rest
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '+' | '-' | '.')))
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let percent: f64 = number
            .parse()
            .map_err(|_| error(rest, "expected a number such as -2".into()))?;
        let after = after.trim_start();
        let Some(after) = after.strip_prefix('%') else {
            return Err(error(after, "expected `%`".into()));
        };
        if !after.trim().is_empty() {
            return Err(error(after.trim_start(), "expected nothing more".into()));
        }
        Ok(Limit {
            metric: metric.to_owned(),
            below,
            percent,
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.below { '<' } else { '>' };
        write!(f, "{} {sign} {:+}%", self.metric, self.percent)
    }
}

impl Limit {
    /// Judges every comparison. Inconclusive comparisons fail unless `accept_inconclusive`; if
    /// nothing could be judged, the limit always fails.
    pub fn judge(&self, outcome: &Outcome, accept_inconclusive: bool) -> Judged {
        let mut judged = Judged::new(self.to_string());
        let columns = outcome.columns.iter();
        let unlike: BTreeMap<&str, String> = columns
            .filter_map(|column| Some((&column.name[..], outcome.unlike(column)?)))
            .collect();
        for row in &outcome.rows {
            for compared in &row.comparisons {
                match unlike.get(&compared.column[..]) {
                    Some(reason) => {
                        let reason = format!("{}: {reason}", row.test_case);
                        judged.not_judged.push(reason);
                    }
                    None => self.one(row, compared, &mut judged),
                }
            }
        }
        for unmatched in &outcome.unmatched {
            let missing = unmatched.missing_in.join(", ");
            judged
                .not_judged
                .push(format!("{}: not in {missing}", unmatched.test_case));
        }
        judged.concluded(accept_inconclusive)
    }

    fn one(&self, row: &Row, compared: &Compared, judged: &mut Judged) {
        let name = format!("{}, {}", row.test_case, compared.column);
        if let (Verdict::CannotTell, Some(reason)) = (compared.verdict, &compared.disagreement) {
            judged.not_judged.push(format!("{name}: {reason}"));
            return;
        }
        let is_judged = compared.p_value.is_some() || compared.test == COUNTS;
        let (Some(percent), true) = (compared.difference_percent, is_judged) else {
            let (one, other) = (compared.n[0], compared.n[1]);
            let reason = format!("{name}: cannot tell from {one} and {other} values");
            judged.not_judged.push(reason);
            return;
        };
        let shown = difference(percent, compared.interval_percent);
        let beyond = if self.below {
            percent < self.percent
        } else {
            percent > self.percent
        };
        if beyond && compared.is_proven() {
            let most = match &listed(&compared.functions, NAMED)[..] {
                "" => String::new(),
                functions => format!(", most in {functions}"),
            };
            judged.failed.push(format!("{name}: {shown} %{most}"));
            return;
        }
        judged.kept += 1;
        match compared.detectable_percent {
            _ if compared.is_proven() => {}
            Some(detectable) if detectable <= self.percent.abs() => {}
            Some(detectable) => {
                let shown = would_have_shown(detectable, compared.pairs.is_some());
                let only = if shown.starts_with("a ") { "only " } else { "" };
                judged.inconclusive.push(format!("{name}: {only}{shown}"));
            }
            None => judged.inconclusive.push(format!(
                "{name}: the smallest detectable difference is unknown for these values"
            )),
        }
    }
}

/// Returns the verdict on all limits as a sentence with a space after it; nothing without
/// limits.
pub(crate) fn in_short(judged: &[Judged]) -> &'static str {
    match judged.iter().any(|judged| !judged.failed.is_empty()) {
        _ if judged.is_empty() => "",
        true => "Limit exceeded. ",
        false if judged.iter().all(|judged| judged.passed) => "Within the limits. ",
        false => "No result for the limits, because not every comparison could be judged. ",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let limit = |text: &str| text.parse::<Limit>();
        let expect = Limit {
            metric: "forwarding-rate".into(),
            below: true,
            percent: -2.0,
        };
        for text in [
            "forwarding-rate < -2%",
            "forwarding-rate<-2%",
            " forwarding-rate  <  -2.0 % ",
        ] {
            assert_eq!(limit(text), Ok(expect.clone()), "{text}");
        }
        assert_eq!(expect.to_string(), "forwarding-rate < -2%");
        let above = limit("forwarding-rate-legacy > +0.5%").unwrap();
        assert_eq!((above.below, above.percent), (false, 0.5));
        assert_eq!(above.to_string(), "forwarding-rate-legacy > +0.5%");
    }

    #[test]
    fn errors_point_at_the_place() {
        for (text, position, expected) in [
            ("", 0, "expected a metric"),
            ("< 2%", 0, "expected a metric"),
            ("forwarding-rate", 15, "expected `<` or `>`"),
            ("forwarding-rate = -2%", 16, "expected `<` or `>`"),
            ("forwarding-rate < two%", 18, "expected a number"),
            ("forwarding-rate < -2", 20, "expected `%`"),
            ("forwarding-rate < -2% or so", 22, "expected nothing more"),
            ("forwarding-rate < 1.2.3%", 18, "expected a number"),
            ("fo\u{df} < 1%", 2, "expected `<` or `>`"),
        ] {
            let error = text.parse::<Limit>().unwrap_err();
            assert_eq!(error.position, position, "{error}");
            assert!(error.expected.starts_with(expected), "{error}");
        }
        assert_eq!(
            "forwarding-rate = -2%"
                .parse::<Limit>()
                .unwrap_err()
                .to_string(),
            "expected `<` or `>` at character 17 of the limit\n  forwarding-rate = -2%\n                  ^\n\
             write for example 'forwarding-rate < -2%'"
        );
    }
}
