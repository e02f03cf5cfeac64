//! Everything in the archive that a published figure could come from, with lookups.
//!
//! It holds values with their sources and judges nothing. Start with [`Evidence::collect`].

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::super::equilibrium::{Equilibrium, Unit};
use super::super::names::Name;
use super::super::reading::{Reader, RunFacts};
use super::super::scan::general8;
use super::super::set::ResultSet;

/// The runs of a test case, in the order of the names of their logs.
pub(super) struct CaseFacts {
    pub(super) runs: Vec<RunFacts>,
}

impl CaseFacts {
    /// Reads the runs of a set, one case at a time.
    pub(super) fn read(root: &Path, set: &ResultSet) -> Vec<CaseFacts> {
        let mut reader = Reader::new(root);
        set.cases
            .iter()
            .map(|case| {
                let mut runs: Vec<RunFacts> = case
                    .runs
                    .iter()
                    .map(|files| {
                        let mut facts = reader.run(case, files);
                        // No longer needed; there are as many as runs.
                        facts.record.warnings = Vec::new();
                        facts
                    })
                    .collect();
                runs.sort_by(|a, b| a.digits.cmp(&b.digits));
                CaseFacts { runs }
            })
            .collect()
    }
}

/// Values that a set of a block may consist of, and their source.
pub(super) struct Candidate {
    /// In the order in which ministat would read them.
    pub(super) values: Vec<f64>,
    /// For people: the test case with its directory, or the file.
    pub(super) name: String,
    /// Its directory, to compare distances.
    pub(super) home: PathBuf,
    /// Name of the test case.
    pub(super) case: String,
    /// `mean`, `upper`, or both.
    pub(super) rules: Vec<&'static str>,
    /// Logs, or the file of values itself.
    pub(super) sources: Vec<String>,
    /// True if it follows from logs.
    pub(super) from_logs: bool,
}

/// Smallest and largest value as printed, and their number.
pub(super) type Key = (usize, String, String);

/// Everything in the archive that a published figure could come from.
pub(super) struct Evidence<'a> {
    pub(super) root: &'a Path,
    pub(super) sets: &'a [ResultSet],
    pub(super) facts: Vec<Vec<CaseFacts>>,
    pub(super) candidates: Vec<Candidate>,
    pub(super) by_key: HashMap<Key, Vec<usize>>,
    /// Sources of the values of runs as printed.
    pub(super) by_value: HashMap<String, Vec<String>>,
    /// Logs by number, smallest and largest sample of the archive's rule.
    pub(super) by_samples: HashMap<Key, Vec<(usize, usize, usize)>>,
}

impl<'a> Evidence<'a> {
    pub(super) fn collect(
        root: &'a Path,
        sets: &'a [ResultSet],
        facts: impl Iterator<Item = Vec<CaseFacts>>,
    ) -> Evidence<'a> {
        let mut evidence = Evidence {
            root,
            sets,
            facts: facts.collect(),
            candidates: Vec::new(),
            by_key: HashMap::new(),
            by_value: HashMap::new(),
            by_samples: HashMap::new(),
        };
        for at in 0..evidence.facts.len() {
            for case in 0..evidence.facts[at].len() {
                evidence.add_case(at, case);
            }
        }
        evidence
    }

    fn add_case(&mut self, at: usize, case_at: usize) {
        let (set, case) = (&self.sets[at], &self.sets[at].cases[case_at]);
        let runs = &self.facts[at][case_at].runs;
        let mut found: Vec<Candidate> = Vec::new();
        let mut offer = |values: Vec<(f64, &RunFacts)>, rule: &'static str, what: &str| {
            let sources: Vec<String> = values.iter().map(|(_, run)| log_of(run)).collect();
            let values: Vec<f64> = values.into_iter().map(|(value, _)| value).collect();
            if values.is_empty() {
                return;
            }
            if let Some(same) = found
                .iter_mut()
                .find(|known| known.values == values && known.sources == sources)
            {
                same.rules.push(rule);
                return;
            }
            found.push(Candidate {
                name: format!("{}{what} in {}", quoted(&case.name), set.path),
                home: set.home.clone(),
                case: case.name.clone(),
                rules: vec![rule],
                from_logs: true,
                values,
                sources,
            });
        };
        for (which, rule) in [(0, "mean"), (1, "upper")] {
            let values = runs
                .iter()
                .filter_map(|run| {
                    let text = &run.legacy.ok()?.texts()[which];
                    Some((text.parse().ok()?, run))
                })
                .collect();
            offer(values, rule, "");
        }
        for (last, what) in [(false, " (equilibrium)"), (true, " (equilibrium, maximum)")] {
            let values = runs
                .iter()
                .filter_map(|run| {
                    let found = run.equilibrium?;
                    let value = if last { found.max? } else { found.value };
                    Some((in_units_of_the_file(&found, value), run))
                })
                .collect();
            offer(values, "none", what);
        }
        let mut logged: Vec<(String, String)> = Vec::new();
        let mut spans: Vec<(Key, usize)> = Vec::new();
        for (number, run) in runs.iter().enumerate() {
            if let Ok(legacy) = run.legacy {
                let texts: BTreeSet<String> = legacy.texts().into();
                logged.extend(texts.into_iter().map(|text| (text, log_of(run))));
                let [min, max] = legacy.range.map(general8);
                spans.push(((legacy.samples as usize, min, max), number));
            }
        }
        for (text, log) in logged {
            self.by_value.entry(text).or_default().push(log);
        }
        for (key, number) in spans {
            let found = self.by_samples.entry(key).or_default();
            found.push((at, case_at, number));
        }
        for candidate in found {
            self.add(candidate);
        }
    }

    pub(super) fn add(&mut self, candidate: Candidate) {
        let key = key_of(&candidate.values);
        self.by_key
            .entry(key)
            .or_default()
            .push(self.candidates.len());
        self.candidates.push(candidate);
    }
}

/// Converts to the unit of files of the equilibrium method, which contain the script's output: Mb/s
/// or Kpps.
pub(super) fn in_units_of_the_file(found: &Equilibrium, value: f64) -> f64 {
    match found.unit {
        Unit::BitsPerSecond => value / 1e6,
        Unit::FramesPerSecond => value / 1e3,
    }
}

pub(super) fn log_of(run: &RunFacts) -> String {
    run.record.sources.first().cloned().unwrap_or_default()
}

pub(super) fn key_of(values: &[f64]) -> Key {
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (values.len(), general8(min), general8(max))
}

/// Returns the number of path steps between two directories.
pub(super) fn distance(a: &Path, b: &Path) -> usize {
    let common = a
        .components()
        .zip(b.components())
        .take_while(|(a, b)| a == b)
        .count();
    a.components().count() + b.components().count() - 2 * common
}

/// Returns true if a label of a block refers to a test case: `../x/forwarding.inet4.pps`,
/// `pps.one`, `forwarding.inet4: inet4 pps`.
pub(super) fn is_label_of(label: &str, case: &str) -> bool {
    let last = label.rsplit('/').next().unwrap_or(label);
    let named = Name::parse(last).case;
    let word = last.split([' ', ':', ',']).next().unwrap_or(last);
    !case.is_empty() && (named == case || word == case || last == case)
}

/// Returns the directory of a label such as `../../other/results/new/a.pps`, relative to a
/// README's.
pub(super) fn directory_of(label: &str, home: &Path) -> PathBuf {
    let path = resolved(label, home);
    path.parent().unwrap_or(Path::new("")).to_owned()
}

/// Returns the file that a label refers to, if it does.
pub(super) fn resolved(label: &str, home: &Path) -> PathBuf {
    let mut path = home.to_owned();
    for part in label.split('/') {
        match part {
            ".." => {
                path.pop();
            }
            "" | "." => {}
            part => path.push(part),
        }
    }
    path
}

pub(super) fn quoted(case: &str) -> String {
    if case.is_empty() {
        "the runs".to_owned()
    } else {
        format!("`{}`", case.replace(char::is_control, "\u{fffd}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_directories() {
        for (label, case, is) in [
            ("vlan.inet4.pps", "vlan.inet4", true),
            ("../../x/results/y/vlan.inet4.pps", "vlan.inet4", true),
            ("pps.one", "one", true),
            ("vlan.inet4: inet4 packets-per-second", "vlan.inet4", true),
            ("vlan", "vlan.inet4", false),
            ("", "", false),
        ] {
            assert_eq!(is_label_of(label, case), is, "{label}");
        }
        let home = Path::new("a/b/results/c");
        let label = "../../../x/results/y/f.pps";
        assert_eq!(directory_of(label, home), Path::new("a/x/results/y"));
        assert_eq!(distance(home, Path::new("a/x/results/y")), 6);
    }
}
