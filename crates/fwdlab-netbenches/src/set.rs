//! Result sets: the directories of an archive that contain measurements, with the files of every
//! run.
//!
//! A set is one directory of logs; its figures and its README may be in its parent directory
//! (`RAW/`). Reads no file contents. Start with [`sets`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::names::Kind;
use super::walk::{File, Tree, shown_path};

/// A directory with measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultSet {
    /// Its path in the archive, for people.
    pub path: String,
    /// Directory of the logs, relative to the archive.
    pub directory: PathBuf,
    /// Directory of the figures and the README: the same, or the parent of a directory of raw data.
    pub home: PathBuf,
    /// Its test cases by name.
    pub cases: Vec<Case>,
}

/// The runs of one configuration with one kind of traffic.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Case {
    /// Image, configuration and traffic joined by dots, as in the names of the files.
    pub name: String,
    /// The `.info` file.
    pub info: Option<PathBuf>,
    /// Its runs by number.
    pub runs: Vec<RunFiles>,
    /// Files with its published values: one number per run.
    pub pps: Vec<PathBuf>,
    /// The same for the equilibrium method.
    pub equilibrium: Vec<PathBuf>,
}

/// The files of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunFiles {
    /// The number in the name, 0 if there is none.
    pub iteration: u32,
    /// Its digits, which determine the order of names.
    pub digits: String,
    /// The receiver's log.
    pub receiver: Option<PathBuf>,
    /// The senders' logs, the first sender first.
    pub senders: Vec<PathBuf>,
    /// Files of a profile recorded at the same time.
    pub profiles: Vec<PathBuf>,
}

impl ResultSet {
    /// Returns the number of logs.
    pub fn logs(&self) -> usize {
        let of_run = |run: &RunFiles| usize::from(run.receiver.is_some()) + run.senders.len();
        let runs = self.cases.iter().flat_map(|case| &case.runs);
        runs.map(of_run).sum()
    }

    /// Returns true if a path or a pattern with `*`, `**` and `?` matches the set or a directory
    /// above it.
    pub fn is_chosen_by(&self, choice: &str) -> bool {
        fwdlab_model::import::is_chosen(&self.path, choice)
    }
}

/// Returns all result sets of an archive, by path.
pub fn sets(tree: &Tree) -> Vec<ResultSet> {
    let found: Vec<ResultSet> = tree
        .directories
        .keys()
        .filter_map(|directory| with_logs(tree, directory))
        .collect();
    let with_logs: BTreeSet<&PathBuf> = found
        .iter()
        .flat_map(|set| [&set.home, &set.directory])
        .collect();
    let published = tree
        .directories
        .keys()
        .filter(|directory| !with_logs.contains(directory))
        .filter_map(|directory| without_logs(tree, directory));
    let mut all: Vec<ResultSet> = published.collect();
    all.extend(found);
    all.sort_by(|a, b| a.directory.cmp(&b.directory));
    all
}

/// Returns true for the usual names of directories with raw data.
fn is_raw(directory: &Path) -> bool {
    directory.file_name().is_some_and(|name| {
        name.to_string_lossy()
            .to_ascii_lowercase()
            .starts_with("raw")
    })
}

fn with_logs(tree: &Tree, directory: &Path) -> Option<ResultSet> {
    type Runs = BTreeMap<(u32, String), RunFiles>;
    let mut cases: BTreeMap<String, Runs> = BTreeMap::new();
    let files = &tree.directories.get(directory)?.files;
    for file in files {
        let kind = file.name.kind;
        if !matches!(kind, Kind::Receiver | Kind::Sender) {
            continue;
        }
        let iteration = file.name.iteration.unwrap_or(0);
        let run = cases
            .entry(file.name.case.clone())
            .or_default()
            .entry((iteration, file.name.digits.clone()))
            .or_insert_with(|| RunFiles {
                iteration,
                digits: file.name.digits.clone(),
                ..RunFiles::default()
            });
        let path = directory.join(&file.file_name);
        match (kind, &run.receiver) {
            // Names that only differ in bytes that are not UTF-8 look the same: each log is kept.
            (Kind::Receiver, Some(_)) => run.profiles.push(path),
            (Kind::Receiver, None) => run.receiver = Some(path),
            _ => run.senders.push(path),
        }
    }
    if cases.is_empty() {
        return None;
    }
    let home = match directory.parent() {
        Some(parent) if is_raw(directory) => parent,
        _ => directory,
    };
    // Profiles are next to the logs, above raw data, or in a directory of their own.
    let below = tree.directories.range(home.to_owned()..);
    let profiles = below
        .map(|(path, _)| path)
        .take_while(|path| path.starts_with(home));
    let profiles = profiles.filter(|path| {
        let own = path.parent() == Some(home) && {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.to_ascii_lowercase().starts_with("pmc")
        };
        *path == directory || *path == home || own
    });
    for path in profiles {
        for file in tree.files(path, Kind::Profile) {
            let run = file.name.iteration.and_then(|iteration| {
                let runs = cases.get_mut(&file.name.case)?;
                runs.get_mut(&(iteration, file.name.digits.clone()))
            });
            if let Some(run) = run {
                run.profiles.push(path.join(&file.file_name));
            }
        }
    }
    let cases: Vec<Case> = cases
        .into_iter()
        .map(|(name, runs)| {
            let beside = |kind| -> Vec<PathBuf> {
                let mut found = named(tree, directory, &name, kind);
                if home != directory {
                    found.extend(named(tree, home, &name, kind));
                }
                found
            };
            let info = beside(Kind::Info)
                .into_iter()
                .chain(
                    directory
                        .parent()
                        .into_iter()
                        .flat_map(|above| named(tree, above, &name, Kind::Info)),
                )
                .next();
            let mut pps = beside(Kind::Pps);
            // 2016: named like the test case, without a suffix
            pps.extend(beside(Kind::Other));
            Case {
                info,
                runs: runs.into_values().collect(),
                equilibrium: beside(Kind::Equilibrium),
                pps,
                name,
            }
        })
        .collect();
    Some(ResultSet {
        path: shown_path(directory),
        directory: directory.to_owned(),
        home: home.to_owned(),
        cases,
    })
}

/// Returns the set of a directory that contains figures but no logs.
fn without_logs(tree: &Tree, directory: &Path) -> Option<ResultSet> {
    let mut cases: BTreeMap<&str, Case> = BTreeMap::new();
    for file in &tree.directories.get(directory)?.files {
        let path = directory.join(&file.file_name);
        let kind = file.name.kind;
        if !matches!(kind, Kind::Pps | Kind::Equilibrium) {
            continue;
        }
        let case = cases.entry(&file.name.case).or_insert_with(|| Case {
            name: file.name.case.clone(),
            ..Case::default()
        });
        match kind {
            Kind::Pps => case.pps.push(path),
            _ => case.equilibrium.push(path),
        }
    }
    if cases.is_empty() {
        return None;
    }
    Some(ResultSet {
        path: shown_path(directory),
        directory: directory.to_owned(),
        home: directory.to_owned(),
        cases: cases
            .into_values()
            .map(|case| Case {
                info: named(tree, directory, &case.name, Kind::Info)
                    .into_iter()
                    .next(),
                ..case
            })
            .collect(),
    })
}

/// Returns files of a kind that belong to a test case.
fn named(tree: &Tree, directory: &Path, case: &str, kind: Kind) -> Vec<PathBuf> {
    let fits = |file: &&File| match kind {
        Kind::Other => file.text == case,
        _ => file.name.case == case,
    };
    tree.files(directory, kind)
        .filter(fits)
        .map(|file| directory.join(&file.file_name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[&str]) -> (tempfile::TempDir, Tree) {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let tree = Tree::scan(root.path()).unwrap();
        (root, tree)
    }

    #[test]
    fn habits_of_all_years() {
        let (_root, tree) = tree(&[
            "a/results/new/RAW/bench.fw.inet4.1.receiver",
            "a/results/new/RAW/bench.fw.inet4.1.sender",
            "a/results/new/RAW/bench.fw.inet4.10.receiver",
            "a/results/new/RAW/bench.fw.inet4.2.receiver",
            "a/results/new/RAW/bench.fw.inet4.2.sender_gen2",
            "a/results/new/RAW/bench.fw.inet4.1.pmc.graph",
            "a/results/new/RAW.1rx/bench.fw.inet4.1.receiver",
            "a/results/new/fw.inet4.pps",
            "a/results/new/README.md",
            "a/results/old/bench.295802.fast.1.receiver",
            "a/results/old/295802.fast",
            "a/results/lost/x.pps",
            "a/results/lost/y.equilibrium",
            "a/configs/fw/etc/rc.conf",
        ]);
        let sets = sets(&tree);
        let paths: Vec<&str> = sets.iter().map(|set| &set.path[..]).collect();
        assert_eq!(
            paths,
            [
                "a/results/lost",
                "a/results/new/RAW",
                "a/results/new/RAW.1rx",
                "a/results/old"
            ]
        );
        assert_eq!(sets[0].cases.len(), 2);
        let case = &sets[1].cases[0];
        assert_eq!(sets[1].home, Path::new("a/results/new"));
        assert_eq!(case.pps, [Path::new("a/results/new/fw.inet4.pps")]);
        let numbers: Vec<u32> = case.runs.iter().map(|run| run.iteration).collect();
        assert_eq!(numbers, [1, 2, 10]);
        assert_eq!(case.runs[0].profiles.len(), 1);
        assert_eq!((case.runs[1].senders.len(), sets[1].logs()), (1, 5));
        assert_eq!(
            sets[3].cases[0].pps,
            [Path::new("a/results/old/295802.fast")]
        );
    }

    #[test]
    fn choices() {
        let set = ResultSet {
            path: "Xeon/T540/bridge/results/fbsd11.1".into(),
            directory: PathBuf::new(),
            home: PathBuf::new(),
            cases: Vec::new(),
        };
        for (choice, chosen) in [
            ("Xeon/T540/bridge/results/fbsd11.1", true),
            ("./Xeon/T540/", true),
            (".", true),
            ("Xeon/T54", false),
            ("Xeon/*/bridge", true),
            ("Xeon/*/results", false),
            ("Xeon/**/results", true),
            ("**bridge**", true),
            ("*/*/brid?e/results/*", true),
            ("*", true),
            ("nothing", false),
            ("**/nothing", false),
        ] {
            assert_eq!(set.is_chosen_by(choice), chosen, "{choice}");
        }
    }
}
