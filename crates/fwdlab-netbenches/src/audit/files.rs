//! Compares files of values with the logs of their test case: whether they follow, and if not, why.
//!
//! The cause is what the archive shows, not necessarily what happened. Start with
//! [`Evidence::files`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::super::importing::last_name;
use super::super::names::{Kind, Name};
use super::super::published::Values;
use super::super::reading::RunFacts;
use super::super::rule::NoValue;
use super::super::scan::general8;
use super::super::walk::shown_path;
use super::evidence::{Candidate, Evidence, distance, in_units_of_the_file, key_of, log_of};
use super::{EXACT, FileFinding, LARGEST_README};

/// The value of a run's log, in the format of a file of values.
struct RunValue<'a> {
    digits: &'a str,
    /// By the mean of the two middle samples, and by the upper one.
    texts: Result<[String; 2], NoValue>,
    log: String,
    profiled: bool,
}

impl Evidence<'_> {
    /// Judges every file of values, and adds those that do not follow from logs to the candidates
    /// for blocks.
    pub(super) fn files(&mut self, problems: &mut Vec<String>) -> Vec<FileFinding> {
        let mut findings = Vec::new();
        let mut others = Vec::new();
        // A directory and several of its directories of raw data may claim the same file.
        let mut claims: BTreeMap<&PathBuf, Vec<(usize, usize, bool)>> = BTreeMap::new();
        for (at, set) in self.sets.iter().enumerate() {
            for (case_at, case) in set.cases.iter().enumerate() {
                let pps = case.pps.iter().map(|path| (path, false));
                let equilibrium = case.equilibrium.iter().map(|path| (path, true));
                for (path, equilibrium) in pps.chain(equilibrium) {
                    let claim = (at, case_at, equilibrium);
                    claims.entry(path).or_default().push(claim);
                }
            }
        }
        let seen: BTreeSet<PathBuf> = claims.keys().map(|path| (*path).clone()).collect();
        for (path, claims) in claims {
            let Some(values) = self.values(path, problems) else {
                continue;
            };
            let judged = claims.iter().map(|(at, case_at, equilibrium)| {
                (
                    *at,
                    *case_at,
                    self.file(*at, *case_at, path, *equilibrium, &values),
                )
            });
            let best = judged.min_by_key(|(.., finding)| {
                let explained = finding.cause != Some("no logs");
                (finding.status != EXACT, !explained, finding.status.len())
            });
            let Some((at, case_at, finding)) = best else {
                continue;
            };
            if finding.status != EXACT {
                let set = &self.sets[at];
                let numbers: Vec<f64> = values.into_iter().map(|(_, value)| value).collect();
                let case = set.cases[case_at].name.clone();
                others.push((set.home.clone(), case, finding.clone(), numbers));
            }
            findings.push(finding);
        }
        // 2015: files with other names than the logs.
        let homes: BTreeSet<&PathBuf> = self.sets.iter().map(|set| &set.home).collect();
        let unclaimed: Vec<PathBuf> = homes
            .into_iter()
            .flat_map(|home| self.unclaimed(home, &seen))
            .collect();
        for path in unclaimed {
            let Some(values) = self.values(&path, problems) else {
                continue;
            };
            let finding = self.by_values_alone(&path, &values);
            if finding.status != EXACT {
                let home = path.parent().unwrap_or(Path::new("")).to_owned();
                let case = Name::parse(&last_name(&path)).case;
                let numbers: Vec<f64> = values.into_iter().map(|(_, value)| value).collect();
                others.push((home, case, finding.clone(), numbers));
            }
            findings.push(finding);
        }
        for (home, case, finding, values) in others {
            if !values.is_empty() {
                self.add(Candidate {
                    values,
                    name: format!("{} ({})", finding.file, finding.status),
                    home,
                    case,
                    rules: Vec::new(),
                    sources: vec![finding.file],
                    from_logs: false,
                });
            }
        }
        findings
    }

    /// Returns files of values in a directory that no test case claims.
    fn unclaimed(&self, home: &Path, seen: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.root.join(home)) else {
            return Vec::new();
        };
        let mut paths: Vec<PathBuf> = entries
            .flatten()
            .filter(|entry| {
                Name::parse(&entry.file_name().to_string_lossy()).kind == Kind::Pps
                    && fs::metadata(entry.path()).is_ok_and(|found| found.is_file())
            })
            .map(|entry| home.join(entry.file_name()))
            .filter(|path| !seen.contains(path))
            .collect();
        paths.sort();
        paths
    }

    fn values(&self, path: &Path, problems: &mut Vec<String>) -> Option<Vec<(String, f64)>> {
        let bytes = match fs::read(self.root.join(path)) {
            Ok(bytes) => bytes,
            Err(error) => {
                problems.push(format!("cannot read {}: {error}", shown_path(path)));
                return None;
            }
        };
        let parsed = Values::parse(&bytes[..bytes.len().min(LARGEST_README as usize)]);
        for line in &parsed.unknown {
            problems.push(format!("{}: not a number: {line}", shown_path(path)));
        }
        // In today's format, so that 4201494.50 is 4201494.5.
        let normal = |(_, value): (String, f64)| (general8(value), value);
        Some(parsed.values.into_iter().map(normal).collect())
    }

    fn file(
        &self,
        at: usize,
        case_at: usize,
        path: &Path,
        equilibrium: bool,
        values: &[(String, f64)],
    ) -> FileFinding {
        let runs: Vec<RunValue<'_>> = self.facts[at][case_at]
            .runs
            .iter()
            .map(|run| run_value(run, equilibrium))
            .collect();
        if runs.is_empty() {
            return self.by_values_alone(path, values);
        }
        self.against(path, values, runs)
    }

    /// Compares a file of values with the runs of a test case.
    fn against(
        &self,
        path: &Path,
        values: &[(String, f64)],
        runs: Vec<RunValue<'_>>,
    ) -> FileFinding {
        let texts: Vec<&str> = values.iter().map(|(text, _)| &text[..]).collect();
        let mut verdict = diagnose(&texts, &runs);
        for value in &verdict.unexplained {
            if let Some(logs) = self.by_value.get(value) {
                let found = format!("; {value} is what {} gives", logs[0]);
                verdict.status.push_str(&found);
            }
        }
        FileFinding {
            file: shown_path(path),
            status: verdict.status,
            cause: verdict.cause,
            median_rules: verdict.rules,
            sources: runs.into_iter().map(|run| run.log).collect(),
        }
    }

    /// For a file without a test case of its name: checks whether its values come from any.
    fn by_values_alone(&self, path: &Path, values: &[(String, f64)]) -> FileFinding {
        let numbers: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        let home = path.parent().unwrap_or(Path::new(""));
        let finding = |status: String, cause, rules: Vec<&'static str>, sources| FileFinding {
            file: shown_path(path),
            status,
            cause,
            median_rules: rules,
            sources,
        };
        if values.is_empty() {
            return finding(
                "it holds no value".into(),
                Some("empty"),
                Vec::new(),
                Vec::new(),
            );
        }
        let same = self
            .by_key
            .get(&key_of(&numbers))
            .into_iter()
            .flatten()
            .map(|at| &self.candidates[*at])
            .filter(|candidate| candidate.from_logs && candidate.values == numbers)
            .min_by_key(|candidate| distance(&candidate.home, home));
        if let Some(candidate) = same {
            let near = candidate.home.starts_with(home) || home.starts_with(&candidate.home);
            let (status, cause) = if near {
                (EXACT.to_owned(), None)
            } else {
                let status = format!("follows from the logs of {}", candidate.name);
                (status, Some("logs lie elsewhere"))
            };
            let sources = candidate.sources.clone();
            return finding(status, cause, candidate.rules.clone(), sources);
        }
        if let Some(runs) = self.closest_case(home, values) {
            return self.against(path, values, runs);
        }
        let elsewhere: Vec<String> = values
            .iter()
            .filter_map(|(text, _)| {
                let logs = self.by_value.get(text)?;
                Some(format!("{text} is what {} gives", logs[0]))
            })
            .take(5)
            .collect();
        let status = if elsewhere.is_empty() {
            "no log gives any of its values".to_owned()
        } else {
            format!("no logs give all of its values; {}", elsewhere.join("; "))
        };
        finding(status, Some("no logs"), Vec::new(), Vec::new())
    }

    /// Returns the test case of a directory that shares most values with a file, if any.
    fn closest_case(&self, home: &Path, values: &[(String, f64)]) -> Option<Vec<RunValue<'_>>> {
        let shared = |runs: &[RunValue<'_>]| {
            let known = |text: &String| {
                let gives = |run: &RunValue<'_>| run.texts.as_ref().is_ok_and(|t| t.contains(text));
                runs.iter().any(gives)
            };
            values.iter().filter(|(text, _)| known(text)).count()
        };
        self.sets
            .iter()
            .zip(&self.facts)
            .filter(|(set, _)| set.home == home || set.directory == home)
            .flat_map(|(_, cases)| cases)
            .map(|case| -> Vec<RunValue<'_>> {
                case.runs.iter().map(|run| run_value(run, false)).collect()
            })
            .map(|runs| (shared(&runs), runs))
            .filter(|(shared, _)| *shared > 0)
            .max_by_key(|(shared, _)| *shared)
            .map(|(_, runs)| runs)
    }
}

/// The result for a file of values.
#[derive(Debug, Clone, PartialEq)]
struct Verdict {
    status: String,
    cause: Option<&'static str>,
    rules: Vec<&'static str>,
    /// Values that no log of the test case yields.
    unexplained: Vec<String>,
}

/// Compares a file of values with those of the logs, in the order of their names.
fn diagnose(texts: &[&str], runs: &[RunValue<'_>]) -> Verdict {
    let verdict = |status: String, cause| Verdict {
        status,
        cause,
        rules: Vec::new(),
        unexplained: Vec::new(),
    };
    if texts.is_empty() {
        return verdict("it holds no value".into(), Some("empty"));
    }
    let by = |which: usize| -> Vec<(&RunValue<'_>, &str)> {
        runs.iter()
            .filter_map(|run| Some((run, &run.texts.as_ref().ok()?[which][..])))
            .collect()
    };
    let rules = ["mean", "upper"];
    let exact: Vec<&str> = (0..2)
        .filter(|which| {
            by(*which)
                .iter()
                .map(|(_, text)| *text)
                .eq(texts.iter().copied())
        })
        .map(|which| rules[which])
        .collect();
    let too_short: Vec<String> = runs
        .iter()
        .filter_map(|run| {
            let reason = run.texts.as_ref().err()?;
            Some(format!("{}: {}", run.log, reason.words()))
        })
        .collect();
    if !exact.is_empty() {
        return Verdict {
            status: EXACT.to_owned(),
            cause: None,
            rules: exact,
            unexplained: Vec::new(),
        };
    }
    // The rule that explains most of them.
    let (which, missing, extra) = (0..2)
        .map(|which| {
            let logged: Vec<&str> = by(which).iter().map(|(_, text)| *text).collect();
            (which, without(&logged, texts), without(texts, &logged))
        })
        .min_by_key(|(_, missing, extra)| missing.len() + extra.len())
        .expect("there are two rules");
    let logged = by(which);
    // Values that these logs do not yield at all; others may.
    let unknown: Vec<String> = extra
        .iter()
        .filter(|text| !logged.iter().any(|(_, known)| known == *text))
        .map(|text| (*text).to_owned())
        .collect();
    let found = |status: String, cause: &'static str| Verdict {
        status,
        cause: Some(cause),
        rules: vec![rules[which]],
        unexplained: unknown.clone(),
    };
    if missing.is_empty() && extra.is_empty() {
        let mut by_number = logged.clone();
        by_number.sort_by_key(|(run, _)| run.digits.parse::<u64>().unwrap_or(u64::MAX));
        let numbered = by_number
            .iter()
            .map(|(_, text)| *text)
            .eq(texts.iter().copied());
        let words = if numbered {
            "the same values in the order of the runs' numbers, not of their names (1, 10, 2, ...)"
        } else {
            "the same values in another order"
        };
        return found(words.into(), "order");
    }
    let times = texts.len() / logged.len().max(1);
    if missing.is_empty()
        && times > 1
        && texts.len() == times * logged.len()
        && extra
            .iter()
            .all(|text| logged.iter().any(|(_, known)| known == text))
    {
        return found(
            format!(
                "every value {times} times: the values were appended to those of an earlier call"
            ),
            "doubled by appending",
        );
    }
    if extra.is_empty() {
        let removed: Vec<String> = logged
            .iter()
            .filter(|(_, text)| missing.contains(text))
            .map(|(run, text)| format!("{text} of {}", run.log))
            .collect();
        return found(format!("without {}", removed.join(", ")), "run removed");
    }
    if missing.is_empty() {
        let (words, cause) = if too_short.is_empty() {
            (
                "the logs of these runs are not here".to_owned(),
                "log removed",
            )
        } else {
            (too_short.join("; "), "log too short")
        };
        return found(format!("no log gives {}: {words}", extra.join(", ")), cause);
    }
    let replaced: Vec<&(&RunValue<'_>, &str)> = logged
        .iter()
        .filter(|(_, text)| missing.contains(text))
        .collect();
    let profiled = replaced.iter().any(|(run, _)| run.profiled);
    let words: Vec<String> = replaced
        .iter()
        .map(|(run, text)| format!("{} gives {text}", run.log))
        .collect();
    let mut status = format!("{} published, {}", extra.join(", "), words.join(", "));
    if !too_short.is_empty() {
        status.push_str(&format!("; {}", too_short.join("; ")));
    }
    if extra.len() == texts.len() {
        return found(format!("no value follows: {status}"), "other logs");
    }
    let cause = if profiled {
        "log overwritten by a profiled rerun"
    } else {
        "log overwritten"
    };
    found(status, cause)
}

/// Returns what is in `a` and not in `b`, counting repetitions.
fn without<'t>(a: &[&'t str], b: &[&str]) -> Vec<&'t str> {
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for text in b {
        *left.entry(text).or_default() += 1;
    }
    a.iter()
        .filter(|text| match left.get_mut(**text) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        })
        .copied()
        .collect()
}

fn run_value(run: &RunFacts, equilibrium: bool) -> RunValue<'_> {
    let texts = if equilibrium {
        match &run.equilibrium {
            Some(found) => {
                let text = general8(in_units_of_the_file(found, found.value));
                Ok([text.clone(), text])
            }
            None => Err(NoValue::Empty),
        }
    } else {
        run.legacy.map(|legacy| legacy.texts())
    };
    RunValue {
        digits: &run.digits,
        texts,
        log: log_of(run),
        profiled: run.profiled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(texts: &[(&'static str, &str)]) -> Vec<RunValue<'static>> {
        texts
            .iter()
            .map(|(digits, text)| RunValue {
                digits,
                texts: match *text {
                    "" => Err(NoValue::TooShort),
                    text => Ok([text.to_owned(), text.to_owned()]),
                },
                log: format!("log {digits}"),
                profiled: *digits == "1",
            })
            .collect()
    }

    #[test]
    fn causes() {
        let logs = runs(&[("1", "10"), ("10", "20"), ("2", "30")]);
        for (file, cause, words) in [
            (&["10", "20", "30"][..], None, "exact"),
            (&["10", "30", "20"], Some("order"), "numbers"),
            (&["30", "20", "10"], Some("order"), "another order"),
            (
                &["10", "20", "30", "10", "20", "30"],
                Some("doubled by appending"),
                "2 times",
            ),
            (&["10", "30"], Some("run removed"), "20 of log 10"),
            (&["10", "20", "30", "40"], Some("log removed"), "40"),
            (
                &["10", "20", "35"],
                Some("log overwritten"),
                "log 2 gives 30",
            ),
            (
                &["15", "20", "30"],
                Some("log overwritten by a profiled rerun"),
                "15 published",
            ),
            (&["1", "2", "3"], Some("other logs"), "no value"),
            (&[], Some("empty"), "no value"),
        ] {
            let verdict = diagnose(file, &logs);
            assert_eq!(verdict.cause, cause, "{file:?}");
            assert!(
                verdict.status.contains(words),
                "{file:?}: {}",
                verdict.status
            );
        }
        let short = runs(&[("1", "10"), ("2", "")]);
        assert_eq!(diagnose(&["10", "20"], &short).cause, Some("log too short"));
        assert_eq!(diagnose(&["10"], &short).status, "exact");
    }
}
