//! Does what the archive publishes follow from its logs? Every ministat block of every README, and every file of values.
//!
//! Blocks are not parsed into claims: the whole block is computed again from the logs, by every generation of ministat, and
//! compared line by line. Where that fails it says what differs, and looks for the cause. Start with [`audit`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use stats::ministat::{Level, Model, Options, PlotStyle, Report};

use crate::error::StoreError;
use crate::import::parallel;

use super::equilibrium::{Equilibrium, Unit};
use super::importing::Progress;
use super::names::Kind;
use super::published::Values;
use super::reading::{Reader, RunFacts};
use super::readme::{Block, Row, blocks, strays};
use super::rule::{NoValue, legacy_samples};
use super::scan::general8;
use super::set::{ResultSet, sets};
use super::walk::{Tree, shown_path};

/// Largest README that is read.
const LARGEST_README: u64 = 16 << 20;
/// Ways to choose runs that are tried to explain a set.
const MOST_CHOICES: usize = 20_000;
/// Candidates per set of a block, and combinations of them, that are tried.
const MOST_CANDIDATES: usize = 6;
const MOST_COMBINATIONS: usize = 64;
const MODELS: [Model; 4] = [
    Model::Freebsd,
    Model::Freebsd2016,
    Model::Freebsd2015,
    Model::Debian,
];

/// What follows and what does not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Audit {
    /// One finding per ministat block, by README and line.
    pub blocks: Vec<BlockFinding>,
    /// One finding per file of values.
    pub files: Vec<FileFinding>,
    /// What was read.
    pub progress: Progress,
    /// What could not be read or understood, in sentences.
    pub problems: Vec<String>,
    /// It was stopped before everything was read; there are no findings then.
    pub stopped: bool,
}

/// Whether a ministat block follows from the logs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockFinding {
    /// The README, relative to the archive.
    pub readme: String,
    /// The block's first line.
    pub line: usize,
    /// `exact`, or what differs.
    pub status: String,
    /// Generations of ministat that print this block: `debian`, `2015`, `2016`, `freebsd`.
    pub models: Vec<&'static str>,
    /// How the median of an even number of samples was taken, per run: `mean`, `upper`; both where it makes no difference.
    pub median_rules: Vec<&'static str>,
    /// The files that the sets of the block follow from.
    pub sources: Vec<String>,
    /// Set by set: name in the block, where its values come from.
    pub sets: Vec<SetFinding>,
}

/// One set of a block.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SetFinding {
    /// Its name in the block.
    pub label: String,
    /// Where its values come from; absent when nothing in the archive gives them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// It is borrowed from another directory than the README's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub borrowed: bool,
}

/// Whether a file of values follows from the logs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileFinding {
    /// The file, relative to the archive.
    pub file: String,
    /// `exact`, or what differs.
    pub status: String,
    /// Why, as far as the archive shows: `run removed`, `log overwritten`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'static str>,
    /// Median rules that give its values.
    pub median_rules: Vec<&'static str>,
    /// The logs.
    pub sources: Vec<String>,
}

impl BlockFinding {
    /// Does it follow from the logs?
    pub fn is_exact(&self) -> bool {
        self.status.starts_with(EXACT)
    }
}

/// Everything follows.
const EXACT: &str = "exact";

/// Audits the archive below `root`; with `choices`, what lies in or below the chosen result sets. Sources are searched in the
/// whole archive.
///
/// # Errors
/// [`StoreError::System`] when the archive cannot be read.
pub fn audit(
    root: &Path,
    choices: &[String],
    stop: &AtomicBool,
    listener: &mut dyn FnMut(&Progress),
) -> Result<Audit, StoreError> {
    let tree = Tree::of(root)?;
    let all = sets(&tree);
    let mut audit = Audit {
        problems: tree.problems.clone(),
        ..Audit::default()
    };
    audit.progress.sets = all.len();
    let mut facts: Vec<(usize, Vec<CaseFacts>)> = Vec::new();
    let numbered: Vec<(usize, &ResultSet)> = all.iter().enumerate().collect();
    parallel::each(
        &numbered,
        stop,
        |(number, set)| (*number, read(root, set)),
        |(number, cases)| {
            audit.progress.done += 1;
            for run in cases.iter().flat_map(|case| &case.runs) {
                audit.progress.tally.add(&run.tally);
            }
            facts.push((number, cases));
            listener(&audit.progress);
            true
        },
    );
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        audit.stopped = true;
        return Ok(audit);
    }
    facts.sort_by_key(|(number, _)| *number);
    let is_chosen = |path: &Path| {
        choices.is_empty() || {
            let here = ResultSet {
                path: shown_path(path),
                directory: path.to_owned(),
                home: path.to_owned(),
                cases: Vec::new(),
            };
            choices.iter().any(|choice| here.is_chosen_by(choice))
        }
    };
    let mut evidence = Evidence::of(root, &all, facts.into_iter().map(|(_, cases)| cases));
    let figures: Vec<FileFinding> = evidence.files(&mut audit.problems);
    let chosen = |finding: &FileFinding| {
        is_chosen(Path::new(&finding.file).parent().unwrap_or(Path::new("")))
    };
    audit.files = figures.into_iter().filter(chosen).collect();
    for directory in tree.directories.keys().filter(|path| is_chosen(path)) {
        for file in tree.files(directory, Kind::Readme) {
            let path = directory.join(&file.file_name);
            match read_readme(root, &path) {
                Ok(text) => {
                    let found = blocks(&text);
                    for (line, text) in strays(&text, &found) {
                        audit.problems.push(format!(
                            "{}:{line}: the head of a ministat table without a table: {text}",
                            shown_path(&path)
                        ));
                    }
                    for block in &found {
                        audit.blocks.push(evidence.judge(&path, block));
                    }
                }
                Err(problem) => audit.problems.push(problem),
            }
        }
    }
    audit
        .blocks
        .sort_by(|a, b| (&a.readme, a.line).cmp(&(&b.readme, b.line)));
    audit.files.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(audit)
}

fn read_readme(root: &Path, path: &Path) -> Result<Vec<u8>, String> {
    let full = root.join(path);
    let problem = |error| format!("cannot read {}: {error}", shown_path(path));
    let size = fs::metadata(&full).map_err(problem)?.len();
    if size > LARGEST_README {
        return Err(format!(
            "{} has {size} bytes, more than any prose, and was not searched",
            shown_path(path)
        ));
    }
    fs::read(&full).map_err(problem)
}

/// The runs of a test case, in the order of the names of their logs.
struct CaseFacts {
    runs: Vec<RunFacts>,
}

fn read(root: &Path, set: &ResultSet) -> Vec<CaseFacts> {
    let mut reader = Reader::new(root);
    set.cases
        .iter()
        .map(|case| {
            let mut runs: Vec<RunFacts> = case
                .runs
                .iter()
                .map(|files| {
                    let mut facts = reader.run(case, files);
                    // Not needed any more; there are as many as runs.
                    facts.record.warnings = Vec::new();
                    facts
                })
                .collect();
            runs.sort_by(|a, b| a.digits.cmp(&b.digits));
            CaseFacts { runs }
        })
        .collect()
}

/// Values that a set of a block may be, and where they come from.
struct Candidate {
    /// In the order in which ministat would read them.
    values: Vec<f64>,
    /// For people: the test case with its directory, or the file.
    name: String,
    /// Where it lies, for nearness.
    home: PathBuf,
    /// Name of the test case.
    case: String,
    /// `mean`, `upper`, or both.
    rules: Vec<&'static str>,
    /// Logs, or the file of values itself.
    sources: Vec<String>,
    /// It follows from logs.
    from_logs: bool,
}

/// Smallest and largest value as printed, and their number.
type Key = (usize, String, String);

/// Everything in the archive that a published figure could come from.
struct Evidence<'a> {
    root: &'a Path,
    sets: &'a [ResultSet],
    facts: Vec<Vec<CaseFacts>>,
    candidates: Vec<Candidate>,
    by_key: HashMap<Key, Vec<usize>>,
    /// Values of runs as printed: where they come from.
    by_value: HashMap<String, Vec<String>>,
    /// Logs by number, smallest and largest sample of the archive's rule.
    by_samples: HashMap<Key, Vec<(usize, usize, usize)>>,
}

/// What a run's log gives, as a file of values would say it.
struct RunValue<'a> {
    digits: &'a str,
    /// By the mean of the middle samples, and by the upper one.
    texts: Result<[String; 2], NoValue>,
    log: String,
    profiled: bool,
}

impl<'a> Evidence<'a> {
    fn of(
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

    fn add(&mut self, candidate: Candidate) {
        let key = key_of(&candidate.values);
        self.by_key
            .entry(key)
            .or_default()
            .push(self.candidates.len());
        self.candidates.push(candidate);
    }

    /// Judges every file of values, and adds those that do not follow from logs to what a block could come from.
    fn files(&mut self, problems: &mut Vec<String>) -> Vec<FileFinding> {
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
        // 2015: files whose names are not those of the logs.
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
                let case = super::names::Name::of(&file_name(&path)).case;
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

    /// Files of values in a directory that no test case claims.
    fn unclaimed(&self, home: &Path, seen: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.root.join(home)) else {
            return Vec::new();
        };
        let mut paths: Vec<PathBuf> = entries
            .flatten()
            .filter(|entry| {
                super::names::Name::of(&entry.file_name().to_string_lossy()).kind == Kind::Pps
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
            problems.push(format!("{}: no number: {line}", shown_path(path)));
        }
        // As the file would be written now, so that 4201494.50 is 4201494.5.
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

    /// A file of values against the runs of a test case.
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

    /// A file whose name is none of a test case with logs: do its values come from any?
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
        if let Some(runs) = self.most_alike(home, values) {
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

    /// The test case of a directory that shares most values with a file, if any.
    fn most_alike(&self, home: &Path, values: &[(String, f64)]) -> Option<Vec<RunValue<'_>>> {
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

    /// Judges a block.
    fn judge(&self, path: &Path, block: &Block) -> BlockFinding {
        let home = path.parent().unwrap_or(Path::new(""));
        let choices: Vec<Vec<Choice>> = block
            .rows
            .iter()
            .zip(&block.labels)
            .map(|(row, label)| self.choices(row, label, home))
            .collect();
        let mut best: Option<(Vec<usize>, Compared)> = None;
        for combination in combinations(&choices) {
            let sets: Vec<&Choice> = combination
                .iter()
                .zip(&choices)
                .map(|(at, choices)| &choices[*at])
                .collect();
            let compared = compare(block, &sets);
            let better = best
                .as_ref()
                .is_none_or(|(_, known)| compared.differences.len() < known.differences.len());
            let exact = compared.differences.is_empty();
            if better {
                best = Some((combination, compared));
            }
            if exact {
                break;
            }
        }
        let (combination, compared) = best.unwrap_or_default();
        let chosen: Vec<&Choice> = combination
            .iter()
            .zip(&choices)
            .map(|(at, choices)| &choices[*at])
            .collect();
        let status = self.status(block, &chosen, &compared, home);
        let mut sources: Vec<String> = Vec::new();
        for source in chosen.iter().flat_map(|choice| &choice.sources) {
            if !sources.contains(source) {
                sources.push(source.clone());
            }
        }
        let rules = |choice: &&&Choice| !choice.rules.is_empty();
        let median_rules = ["mean", "upper"]
            .into_iter()
            .filter(|rule| {
                let mut known = chosen.iter().filter(rules).peekable();
                known.peek().is_some() && known.all(|choice| choice.rules.contains(rule))
            })
            .collect();
        BlockFinding {
            readme: shown_path(path),
            line: block.line,
            status,
            models: compared.models.iter().map(|model| model.name()).collect(),
            median_rules,
            sources,
            sets: block
                .labels
                .iter()
                .zip(&chosen)
                .map(|(label, choice)| SetFinding {
                    label: label.clone(),
                    from: choice.from.clone(),
                    borrowed: choice.from.is_some() && choice.home != home,
                })
                .collect(),
        }
    }

    /// What a set of a block may be: the nearest first; the last resort is what its row itself says.
    fn choices(&self, row: &Row, label: &str, home: &Path) -> Vec<Choice> {
        let key = (row.n, normal(&row.figures[0]), normal(&row.figures[1]));
        let mut found: Vec<&Candidate> = self
            .by_key
            .get(&key)
            .into_iter()
            .flatten()
            .map(|at| &self.candidates[*at])
            .filter(|candidate| fits(row, &candidate.values))
            .collect();
        found.sort_by_key(|candidate| {
            (
                !candidate.from_logs,
                distance(&candidate.home, home),
                !is_label_of(label, &candidate.case),
            )
        });
        let mut choices: Vec<Choice> = found
            .into_iter()
            .take(MOST_CANDIDATES)
            .map(|candidate| Choice {
                values: candidate.values.clone(),
                from: Some(candidate.name.clone()),
                home: candidate.home.clone(),
                rules: candidate.rules.clone(),
                sources: candidate.sources.clone(),
                origin: if candidate.from_logs {
                    Origin::Logs
                } else {
                    Origin::File
                },
            })
            .collect();
        if choices.is_empty() {
            choices.extend(self.part_of_runs(row, label, home));
        }
        if choices.is_empty() {
            choices.extend(self.samples_of_a_log(&key, row, home));
        }
        if choices.is_empty() {
            choices.push(Choice {
                values: implied(row).unwrap_or_default(),
                from: None,
                home: PathBuf::new(),
                rules: Vec::new(),
                sources: Vec::new(),
                origin: Origin::Row,
            });
        }
        choices
    }

    /// Some of the runs of a test case near by: the others were left out.
    fn part_of_runs(&self, row: &Row, label: &str, home: &Path) -> Option<Choice> {
        let mut near: Vec<&Candidate> = self
            .candidates
            .iter()
            .filter(|candidate| {
                candidate.from_logs
                    && candidate.values.len() > row.n
                    && (candidate.home == home || is_label_of(label, &candidate.case))
            })
            .collect();
        near.sort_by_key(|c| (distance(&c.home, home), !is_label_of(label, &c.case)));
        near.into_iter().take(40).find_map(|candidate| {
            let kept = choose(&candidate.values, row)?;
            let left_out: Vec<&str> = (0..candidate.values.len())
                .filter(|at| !kept.contains(at))
                .map(|at| &candidate.sources[at][..])
                .collect();
            Some(Choice {
                values: kept.iter().map(|at| candidate.values[*at]).collect(),
                from: Some(format!(
                    "{} without {}",
                    candidate.name,
                    left_out.join(", ")
                )),
                home: candidate.home.clone(),
                rules: candidate.rules.clone(),
                sources: kept
                    .iter()
                    .map(|at| candidate.sources[*at].clone())
                    .collect(),
                origin: Origin::PartOfRuns,
            })
        })
    }

    /// The samples of one log, where somebody compared these instead of runs.
    fn samples_of_a_log(&self, key: &Key, row: &Row, home: &Path) -> Option<Choice> {
        let found = self.by_samples.get(key)?;
        let mut reader = Reader::new(self.root);
        found
            .iter()
            .take(MOST_CANDIDATES)
            .find_map(|(at, case, run)| {
                let set = &self.sets[*at];
                let path = self.facts[*at][*case].runs[*run].receiver.as_ref()?;
                let values = legacy_samples(&reader.log(path).ok()?).ok()?;
                fits(row, &values).then(|| Choice {
                    from: Some(format!("the samples of {}", shown_path(path))),
                    home: if set.home == home {
                        home.to_owned()
                    } else {
                        set.home.clone()
                    },
                    rules: Vec::new(),
                    sources: vec![shown_path(path)],
                    origin: Origin::Logs,
                    values,
                })
            })
    }

    fn status(
        &self,
        block: &Block,
        chosen: &[&Choice],
        compared: &Compared,
        home: &Path,
    ) -> String {
        let name = |at: usize| {
            let symbol = block.rows[at].symbol;
            match &block.labels[at][..] {
                "" => symbol.to_string(),
                label => format!("{symbol} {label}"),
            }
        };
        let mut notes: Vec<String> = compared.differences.clone();
        let mut absent = Vec::new();
        for (at, choice) in chosen.iter().enumerate() {
            match choice.origin {
                Origin::Logs => {}
                Origin::Row => absent.push(at),
                Origin::File | Origin::PartOfRuns => notes.push(format!(
                    "set {}: {}",
                    name(at),
                    choice.from.as_deref().unwrap_or_default()
                )),
            }
        }
        // A set may be taken as printed only when it says that its values lie in a directory that is not here.
        let mut nowhere = Vec::new();
        for at in absent.iter().copied() {
            let label = &block.labels[at];
            match self.namesake(label, &block.rows[at], home) {
                Some(words) => notes.push(format!("set {}: {words}", name(at))),
                None if self.lies_elsewhere(label, home) => nowhere.push(name(at)),
                None if absent.len() == block.rows.len() => {}
                None => notes.push(format!(
                    "set {}: nothing in the archive gives its row",
                    name(at)
                )),
            }
        }
        if absent.len() == block.rows.len() && notes.len() == compared.differences.len() {
            return "no logs: nothing in the archive gives any of its sets".to_owned();
        }
        match (notes.is_empty(), nowhere.is_empty()) {
            (true, true) => EXACT.to_owned(),
            (true, false) => format!(
                "{EXACT}, with the row of {} taken as printed: its logs are not here",
                nowhere.join(" and ")
            ),
            (false, _) => {
                notes.extend(
                    nowhere
                        .into_iter()
                        .map(|name| format!("set {name}: its logs are not here")),
                );
                notes.join("; ")
            }
        }
    }

    /// A test case or file of this name near by that gives other values: what differs.
    fn namesake(&self, label: &str, row: &Row, home: &Path) -> Option<String> {
        let named = |candidate: &&Candidate| {
            let same_file = || {
                let file = candidate.sources.first().filter(|_| !candidate.from_logs);
                file.is_some_and(|file| Path::new(file) == resolved(label, home))
            };
            let same_case = || {
                directory_of(label, home) == candidate.home && is_label_of(label, &candidate.case)
            };
            same_file() || same_case()
        };
        let candidate = self
            .candidates
            .iter()
            .filter(named)
            .min_by_key(|c| (!c.from_logs, distance(&c.home, home)))?;
        let mut sorted = candidate.values.clone();
        sorted.sort_by(f64::total_cmp);
        let [min, max, median, ..] = &row.figures;
        Some(format!(
            "N {} min {min} max {max} median {median} do not follow from {}, which gives N {} min {} max {} median {}",
            row.n,
            candidate.name,
            sorted.len(),
            general8(*sorted.first()?),
            general8(*sorted.last()?),
            general8(super::rule::median(&sorted)?),
        ))
    }

    /// Does a label name a file in a directory that the archive, or what is here of it, does not have?
    fn lies_elsewhere(&self, label: &str, home: &Path) -> bool {
        let path = label.contains('/') && !label.contains(char::is_whitespace);
        path && !self.root.join(directory_of(label, home)).is_dir()
    }
}

/// One thing a set of a block may be.
#[derive(Debug, Clone)]
struct Choice {
    values: Vec<f64>,
    from: Option<String>,
    home: PathBuf,
    rules: Vec<&'static str>,
    sources: Vec<String>,
    origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The logs of a test case, all of them.
    Logs,
    /// Some of its logs.
    PartOfRuns,
    /// A file of values that does not follow from logs.
    File,
    /// Nothing but the row itself.
    Row,
}

/// A block against what ministat prints of the sets.
#[derive(Debug, Clone, Default)]
struct Compared {
    models: Vec<Model>,
    /// By the model that comes nearest.
    differences: Vec<String>,
}

/// Computes the block by every model; a set without values has only its row.
fn compare(block: &Block, sets: &[&Choice]) -> Compared {
    let mut best: Option<Vec<String>> = None;
    let mut models = Vec::new();
    for model in MODELS {
        let found = differences(block, sets, model);
        if found.is_empty() {
            models.push(model);
        }
        if best.as_ref().is_none_or(|known| found.len() < known.len()) {
            best = Some(found);
        }
    }
    Compared {
        differences: best.unwrap_or_default(),
        models,
    }
}

fn differences(block: &Block, sets: &[&Choice], model: Model) -> Vec<String> {
    if sets
        .iter()
        .any(|set| set.values.len() < stats::ministat::MIN_VALUES)
    {
        // Without values of every set only the rows can be told, set by set.
        return vec!["its plot and differences cannot be computed: a set has no values".to_owned()];
    }
    let level = block
        .level_percent()
        .and_then(Level::from_percent)
        .unwrap_or_default();
    let width = block
        .plot
        .as_ref()
        .and_then(|plot| plot.last())
        .map_or(74, |frame| frame.len().saturating_sub(2).min(1000));
    let report = |plot| {
        let sets = block.labels.iter().zip(sets);
        let sets = sets.map(|(label, set)| (label.clone().into_bytes(), set.values.clone()));
        let options = Options {
            model,
            plot,
            level,
            width,
            ..Options::default()
        };
        Report::new(sets.collect(), &options).ok()
    };
    let Some(table) = report(PlotStyle::None) else {
        return vec!["it cannot be computed".to_owned()];
    };
    let mut found = Vec::new();
    let printed = String::from_utf8_lossy(&table.render()).into_owned();
    let again = blocks(printed.as_bytes());
    let rows = again.first().map_or(&[][..], |block| &block.rows);
    // What was cut off entirely (-n) is not missing; what was cut off in part is.
    let compared = block.rows.iter().any(|row| !row.difference.is_empty());
    for (row, computed) in block.rows.iter().zip(rows) {
        let names = ["min", "max", "median", "average", "deviation"];
        for ((name, printed), computed) in names.iter().zip(&row.figures).zip(&computed.figures) {
            if printed != computed {
                found.push(format!(
                    "{name} of {}: {printed} printed, {computed} computed",
                    row.symbol
                ));
            }
        }
        if compared && row.difference != computed.difference {
            found.push(format!(
                "comparison of {}: `{}` printed, `{}` computed",
                row.symbol,
                row.difference.join(" "),
                computed.difference.join(" ")
            ));
        }
    }
    let determined = |set: &&Choice| set.origin != Origin::Row || set.values.len() <= DETERMINED;
    if let Some(plot) = block.plot.as_ref().filter(|_| sets.iter().all(determined)) {
        let same = |style| {
            report(style).is_some_and(|report| {
                let text = String::from_utf8_lossy(&report.render()).into_owned();
                let again = blocks(text.as_bytes());
                again.first().and_then(|block| block.plot.as_ref()) == Some(plot)
            })
        };
        if ![PlotStyle::SeparateBars, PlotStyle::SharedBar]
            .into_iter()
            .any(same)
        {
            found.push("the plot".to_owned());
        }
    }
    found
}

/// Do values give a row by any model?
fn fits(row: &Row, values: &[f64]) -> bool {
    if values.len() != row.n || row.n < stats::ministat::MIN_VALUES {
        return false;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let medians = [super::rule::median(&sorted), Some(sorted[middle])];
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let [_, _, median, average, _] = &row.figures;
    let is = |value: f64, text: &String| general8(value) == normal(text);
    medians.into_iter().flatten().any(|value| is(value, median)) && is(mean, average)
}

/// Values that give a row, to the precision printed: of three to five values they are determined by it, of more some are
/// supposed to be equal. `None` where nothing fits.
fn implied(row: &Row) -> Option<Vec<f64>> {
    let [min, max, median, mean, stdev] = row.numbers();
    let n = row.n;
    let mut values = match n {
        0..=2 => return None,
        3 => vec![min, median, max],
        4 => vec![min, max],
        n if n.is_multiple_of(2) => vec![min, median, median, max],
        _ => vec![min, median, max],
    };
    let pairs = n.checked_sub(values.len())? / 2;
    if pairs > 0 && n <= MOST_IMPLIED {
        let each = pairs as f64;
        let squares = |value: f64| (value - mean) * (value - mean);
        // Of every pair: low + high = sum, and the squares of their distances from the mean add up to rest.
        let sum = (n as f64 * mean - values.iter().sum::<f64>()) / each;
        let known: f64 = values.iter().copied().map(squares).sum();
        let rest = ((n - 1) as f64 * stdev * stdev - known) / each;
        let centre = sum / 2.0;
        let spread = (rest / 2.0 - squares(centre)).max(0.0).sqrt();
        let (low, high) = (centre - spread, centre + spread);
        let tolerance = 1e-4 * max.abs();
        if !(low >= min - tolerance && high <= max + tolerance) {
            return None;
        }
        for _ in 0..pairs {
            values.push(low.clamp(min, max));
            values.push(high.clamp(min, max));
        }
    }
    values.sort_by(f64::total_cmp);
    (values.len() == n).then_some(values)
}

/// Sets larger than any that ministat was given here.
const MOST_IMPLIED: usize = 1000;
/// Up to here a row determines its values, and so its part of the plot.
const DETERMINED: usize = 5;

/// Which of the values, in order, give a row: the only ones, or the first found.
fn choose(values: &[f64], row: &Row) -> Option<Vec<usize>> {
    let (n, all) = (row.n, values.len());
    if n < stats::ministat::MIN_VALUES || ways(all, n) > MOST_CHOICES {
        return None;
    }
    let [min, max, ..] = &row.figures;
    let (min, max) = (normal(min), normal(max));
    let texts: Vec<String> = values.iter().map(|value| general8(*value)).collect();
    if !texts.contains(&min) || !texts.contains(&max) {
        return None;
    }
    let mut kept: Vec<usize> = (0..n).collect();
    loop {
        let some: Vec<f64> = kept.iter().map(|at| values[*at]).collect();
        if fits(row, &some) {
            return Some(kept);
        }
        // The next choice in the order of the numbers.
        let last = (0..n).rev().find(|at| kept[*at] < all - n + at)?;
        kept[last] += 1;
        for at in last + 1..n {
            kept[at] = kept[at - 1] + 1;
        }
    }
}

/// How many ways there are to choose `some` of `all`.
fn ways(all: usize, some: usize) -> usize {
    let mut ways = 1_usize;
    for at in 0..some.min(all - some.min(all)) {
        ways = ways.saturating_mul(all - at) / (at + 1);
        if ways > MOST_CHOICES {
            return usize::MAX;
        }
    }
    ways
}

/// Every way to take one choice per set, the first choices first; bounded.
fn combinations(choices: &[Vec<Choice>]) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for options in choices {
        all = (0..options.len())
            .flat_map(|at| all.iter().map(move |before| [&before[..], &[at]].concat()))
            .take(MOST_COMBINATIONS)
            .collect();
    }
    all.sort_by_key(|combination| combination.iter().sum::<usize>());
    all
}

/// What became of a file of values.
#[derive(Debug, Clone, PartialEq)]
struct Verdict {
    status: String,
    cause: Option<&'static str>,
    rules: Vec<&'static str>,
    /// Values that no log of the test case gives.
    unexplained: Vec<String>,
}

/// Compares a file of values with what the logs give, in the order of their names.
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
            let why = run.texts.as_ref().err()?;
            Some(format!("{}: {}", run.log, why.words()))
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
    // The rule that explains most.
    let (which, missing, extra) = (0..2)
        .map(|which| {
            let logged: Vec<&str> = by(which).iter().map(|(_, text)| *text).collect();
            (which, without(&logged, texts), without(texts, &logged))
        })
        .min_by_key(|(_, missing, extra)| missing.len() + extra.len())
        .expect("there are two rules");
    let logged = by(which);
    // Values that these logs do not give at all: others may.
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

/// What is in `a` and not in `b`, each as often as it is too often.
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

/// Files of the equilibrium method hold what the script printed: Mb/s or Kpps.
fn in_units_of_the_file(found: &Equilibrium, value: f64) -> f64 {
    match found.unit {
        Unit::BitsPerSecond => value / 1e6,
        Unit::FramesPerSecond => value / 1e3,
    }
}

fn log_of(run: &RunFacts) -> String {
    run.record.sources.first().cloned().unwrap_or_default()
}

fn key_of(values: &[f64]) -> Key {
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (values.len(), general8(min), general8(max))
}

/// A figure of a row as we would print it.
fn normal(figure: &str) -> String {
    figure.parse().map_or_else(|_| figure.to_owned(), general8)
}

/// How many steps of a path lie between two directories.
fn distance(a: &Path, b: &Path) -> usize {
    let common = a
        .components()
        .zip(b.components())
        .take_while(|(a, b)| a == b)
        .count();
    a.components().count() + b.components().count() - 2 * common
}

/// Does a label of a block speak of a test case: `../x/forwarding.inet4.pps`, `pps.one`, `forwarding.inet4: inet4 pps`?
fn is_label_of(label: &str, case: &str) -> bool {
    let last = label.rsplit('/').next().unwrap_or(label);
    let named = super::names::Name::of(last).case;
    let word = last.split([' ', ':', ',']).next().unwrap_or(last);
    !case.is_empty() && (named == case || word == case || last == case)
}

/// The directory that a label such as `../../other/results/new/a.pps` names, seen from a README's.
fn directory_of(label: &str, home: &Path) -> PathBuf {
    let path = resolved(label, home);
    path.parent().unwrap_or(Path::new("")).to_owned()
}

/// The file that a label names, if it names one.
fn resolved(label: &str, home: &Path) -> PathBuf {
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

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn quoted(case: &str) -> String {
    if case.is_empty() {
        "the runs".to_owned()
    } else {
        format!("`{}`", case.replace(char::is_control, "\u{fffd}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(symbol: char, n: usize, figures: [&str; 5]) -> Row {
        Row {
            symbol,
            n,
            figures: figures.map(str::to_owned),
            difference: Vec::new(),
        }
    }

    /// Values of a public report (a 2018 talk): mean 4648293.8, deviation 94545.404.
    const VALUES: [f64; 5] = [
        4_648_451.0,
        4_735_822.0,
        4_724_896.0,
        4_632_222.0,
        4_500_078.0,
    ];

    fn printed() -> Row {
        row(
            'x',
            5,
            ["4500078", "4735822", "4648451", "4648293.8", "94545.404"],
        )
    }

    #[test]
    fn five_values_follow_from_their_row() {
        let values = implied(&printed()).unwrap();
        let mut sorted = VALUES;
        sorted.sort_by(f64::total_cmp);
        for (found, expect) in values.iter().zip(sorted) {
            assert!((found - expect).abs() < 1.0, "{values:?}");
        }
        assert!(fits(&printed(), &VALUES));
        assert!(!fits(&printed(), &VALUES[..4]));
        assert_eq!(implied(&row('x', 2, ["1", "2", "1", "1", "1"])), None);
        assert_eq!(implied(&row('x', 5, ["1", "2", "1", "9", "1"])), None);
    }

    #[test]
    fn runs_that_were_left_out_are_found() {
        let mut values = VALUES.to_vec();
        values.insert(2, 1.0);
        values.insert(0, 9e6);
        assert_eq!(choose(&values, &printed()), Some(vec![1, 2, 4, 5, 6]));
        assert_eq!(choose(&[1.0; 7], &printed()), None);
        assert_eq!(ways(10, 5), 252);
        assert_eq!(ways(100, 50), usize::MAX);
    }

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

    #[test]
    fn combinations_are_bounded_and_begin_with_the_first() {
        let choice = Choice {
            values: Vec::new(),
            from: None,
            home: PathBuf::new(),
            rules: Vec::new(),
            sources: Vec::new(),
            origin: Origin::Row,
        };
        let all = combinations(&vec![vec![choice; 6]; 7]);
        assert_eq!(all[0], [0; 7]);
        assert_eq!(all.len(), MOST_COMBINATIONS);
        assert_eq!(combinations(&[]), [Vec::<usize>::new()]);
    }
}
