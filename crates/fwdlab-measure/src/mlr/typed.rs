//! Goals as typed by users: names of presets (`ndr,pdr`) or complete definitions
//! (`loss=0,exceed=0.5,final=1s,...`).
//!
//! Start with [`parse`]; a [`Named`] goal prints as a text that parses back to the same value.

use std::fmt;
use std::time::Duration;

use fwdlab_model::units::parse_duration;

use super::goal::{Goal, PRESETS};

/// The keys of a definition, with examples.
const KEYS: &str = "loss=0, exceed=0.5, initial=1s, final=1s, sum=21s, width=0.005, preceding=2, expansion=2, fail-fast=yes";

/// A goal and its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// A preset's name, or the definition.
    pub name: String,
    /// A preset's name, or its purpose, `PDR 0.5 %`: short enough for sentences.
    pub label: String,
    /// The goal.
    pub goal: Goal,
}

/// Parses goals, separated by `;`. One part is a list of presets, or a definition: `key=value`
/// separated by commas, which may begin with the preset that it changes (`pdr,width=0.01`). Omitted
/// keys are as in `ndr`.
///
/// # Errors
/// What is wrong and the correct form: unknown names and keys, values out of range, contradictions.
pub fn parse(text: &str) -> Result<Vec<Named>, String> {
    let mut goals: Vec<Named> = Vec::new();
    for part in text
        .split(';')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        if part.contains('=') {
            let mut named = definition(part, String::new())?;
            let name = fwdlab_model::search::name_of(named.goal.loss_ratio);
            let alike = |goal: &&Named| goal.label.split(" (").next() == Some(name.as_str());
            named.label = match goals.iter().filter(alike).count() {
                0 => name,
                more => format!("{name} ({})", more + 1),
            };
            goals.push(named);
            continue;
        }
        for name in part.split(',').map(str::trim) {
            let goal = preset(name)?;
            goals.push(Named {
                name: name.to_owned(),
                label: name.to_owned(),
                goal,
            });
        }
    }
    if goals.is_empty() {
        return Err(format!(
            "no goal is given; presets: {}; keys of definitions: {KEYS}",
            PRESETS.join(", ")
        ));
    }
    for (index, named) in goals.iter().enumerate() {
        if goals[..index].iter().any(|other| other.goal == named.goal) {
            return Err(format!("the goal `{}` is given twice", named.name));
        }
    }
    Ok(goals)
}

fn preset(name: &str) -> Result<Goal, String> {
    Goal::preset(name).ok_or_else(|| {
        format!(
            "`{name}` is not a goal; presets: {}; keys of definitions: {KEYS}",
            PRESETS.join(", ")
        )
    })
}

fn definition(text: &str, label: String) -> Result<Named, String> {
    let mut goal = Goal::default();
    let mut observed: Vec<&str> = Vec::new();
    for (place, item) in text.split(',').map(str::trim).enumerate() {
        let Some((key, value)) = item.split_once('=') else {
            if place > 0 {
                return Err(format!(
                    "goal `{text}`: `{item}` is not key=value; separate goals by `;`"
                ));
            }
            goal = preset(item)?;
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        if observed.contains(&key) {
            return Err(format!("goal `{text}`: `{key}` is given twice"));
        }
        observed.push(key);
        set(&mut goal, key, value).map_err(|reason| format!("goal `{text}`: {reason}"))?;
    }
    goal.check()
        .map_err(|reason| format!("goal `{text}`: {reason}"))?;
    Ok(Named {
        name: goal.to_string(),
        label,
        goal,
    })
}

fn set(goal: &mut Goal, key: &str, value: &str) -> Result<(), String> {
    match key {
        "loss" => goal.loss_ratio = ratio(key, value)?,
        "exceed" => goal.exceed_ratio = ratio(key, value)?,
        "width" => goal.width = ratio(key, value)?,
        "initial" => goal.initial_trial = duration(key, value)?,
        "final" => goal.final_trial = duration(key, value)?,
        "sum" => goal.duration_sum = duration(key, value)?,
        "preceding" => goal.preceding_targets = count(key, value)?,
        "expansion" => goal.expansion = count(key, value)?,
        "fail-fast" => {
            goal.fail_fast = match value {
                "yes" => true,
                "no" => false,
                _ => return Err(format!("fail-fast={value} must be yes or no")),
            }
        }
        _ => return Err(format!("there is no key `{key}`. Keys: {KEYS}")),
    }
    Ok(())
}

/// Parses `0.005` or `0.5%`.
fn ratio(key: &str, text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => format!("{}e-2", percent.trim()).parse(),
        None => text.parse(),
    };
    number
        .ok()
        .filter(|n: &f64| n.is_finite())
        .ok_or_else(|| format!("{key}={text} must be a share, such as {key}=0.005 or {key}=0.5%"))
}

/// Parses `1s`, `500ms`; a number without a unit is seconds, as in the field's papers.
fn duration(key: &str, text: &str) -> Result<Duration, String> {
    let typed = match text.parse::<f64>() {
        Ok(_) => format!("{text}s"),
        Err(_) => text.to_owned(),
    };
    parse_duration(&typed).map_err(|error| format!("{key}: {error}"))
}

fn count(key: &str, text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("{key}={text} must be a whole number, such as {key}=2"))
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "loss={},exceed={},initial={}s,final={}s,sum={}s,width={},preceding={},expansion={}",
            self.loss_ratio,
            self.exceed_ratio,
            self.initial_trial.as_secs_f64(),
            self.final_trial.as_secs_f64(),
            self.duration_sum.as_secs_f64(),
            self.width,
            self.preceding_targets,
            self.expansion
        )?;
        if !self.fail_fast {
            f.write_str(",fail-fast=no")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_and_definitions() {
        let names = |text: &str| -> Vec<String> {
            let goals = parse(text).unwrap();
            goals.into_iter().map(|named| named.name).collect()
        };
        assert_eq!(names("ndr,pdr"), ["ndr", "pdr"]);
        assert_eq!(names(&PRESETS.join(";")), PRESETS);
        let ndr = "loss=0,exceed=0.5,initial=1s,final=1s,sum=21s,width=0.005";
        assert_eq!(parse(ndr).unwrap()[0].goal, Goal::default());
        assert_eq!(
            parse("initial=1,final=1,sum=21").unwrap()[0].goal,
            Goal::default()
        );
        let two = parse(&format!(
            "ndr;{},preceding=1",
            ndr.replace("loss=0", "loss=0.5%")
        ))
        .unwrap();
        assert_eq!(two.len(), 2);
        assert_eq!(
            two[1].goal,
            Goal {
                preceding_targets: 1,
                ..Goal::preset("pdr").unwrap()
            }
        );
        assert_eq!(two[1].label, "PDR 0.5 %");
        assert_eq!(parse(&two[1].name).unwrap()[0].goal, two[1].goal);
        assert_eq!(
            parse("pdr,width=1%").unwrap()[0].goal,
            Goal {
                width: 0.01,
                ..Goal::preset("pdr").unwrap()
            }
        );
    }

    #[test]
    fn errors_in_goals_list_valid_values() {
        for (text, words) in [
            ("", "no goal is given; presets: ndr"),
            ("; ,", "`` is not a goal"),
            (
                "npr",
                "`npr` is not a goal; presets: ndr, pdr, rfc2544, tst009, strict",
            ),
            ("ndr,ndr", "twice"),
            ("loss=0;ndr", "twice"),
            ("loss=2", "below 1"),
            ("loss=x", "loss=0.005"),
            ("los=0", "no key `los`. Keys: loss=0"),
            ("loss=0,loss=1", "`loss` is given twice"),
            ("loss=0,pdr", "separate goals by `;`"),
            ("final=10s,sum=5s", "shorter than one final trial"),
            ("initial=2s", "shorter than the initial"),
            ("width=0", "never reached"),
            ("expansion=1", "at least 2"),
            ("preceding=-1", "whole number"),
            ("final=0", "above 0"),
            ("fail-fast=1", "yes or no"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
