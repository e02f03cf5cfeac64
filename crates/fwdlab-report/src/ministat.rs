//! Exports the values of runs for ministat(1): a file per set of values, and the block that
//! ministat prints for them, byte for byte.
//!
//! A block contains comparable sets: one figure and traffic, several configurations or runs. Start
//! with [`blocks`]; [`text`] is the output for a README.

use fwdlab_model::import::ImportedCase;
use fwdlab_model::test_case::CaseFigure;
use fwdlab_stats::ministat::{MAX_SETS, MIN_VALUES, Model, Options, Report};

use crate::name::slug;
use crate::run::Run;

/// A set of values in a file of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Set {
    /// File name, with its extension.
    pub file: String,
    /// Description of the values.
    pub about: String,
    /// The values.
    pub values: Vec<f64>,
}

/// Sets to compare.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// The figure and traffic of the sets.
    pub title: String,
    /// The sets, the reference first; at most as many as ministat accepts.
    pub sets: Vec<Set>,
}

/// The name of a set, and its values.
type Named = (String, Vec<f64>);

/// Returns the blocks of runs. Skips figures with fewer than three values, which ministat refuses.
pub fn blocks(runs: &[Run<'_>]) -> Vec<Block> {
    // title (figure and traffic), then its sets
    let mut groups: Vec<(String, Vec<Named>)> = Vec::new();
    let mut add = |title: String, set: String, values: &[f64]| {
        if values.len() < MIN_VALUES {
            return;
        }
        let set = (set, values.to_vec());
        match groups.iter_mut().find(|(own, _)| *own == title) {
            Some((_, sets)) => sets.push(set),
            None => groups.push((title, vec![set])),
        }
    };
    for run in runs {
        let of_run = |name: &str| match runs.len() {
            1 => name.to_owned(),
            _ => format!("{} {name}", run.name),
        };
        for case in &run.summary.test_cases {
            // differences are ministat's output, not its input
            let is_value = |figure: &&CaseFigure| !figure.name.starts_with("difference");
            for figure in case.figures.iter().filter(is_value) {
                let unit = serde_json::to_value(figure.unit).unwrap_or_default();
                let unit = unit.as_str().unwrap_or_default();
                let title = format!("{}, {unit}: {}", figure.name, case.case.series());
                add(title, of_run(&case.case.configuration), &figure.values);
            }
        }
        for case in &run.summary.imported {
            let ImportedCase {
                test_case, ours, ..
            } = case;
            add(
                "forwarding rate, frames/s".into(),
                of_run(test_case),
                &ours.iterations_pps,
            );
        }
    }
    let mut names: Vec<String> = Vec::new();
    let mut blocks = Vec::new();
    for (title, sets) in groups {
        // the first set is the reference of every block
        let (first, rest) = sets.split_first().expect("a group begins with a set");
        let rest: Vec<&[_]> = match rest.is_empty() {
            true => vec![rest],
            false => rest.chunks(MAX_SETS - 1).collect(),
        };
        let mut file = |name: &str| {
            let base = slug(&format!(
                "{} {name}",
                title.split(':').next_back().unwrap_or_default()
            ));
            let mut unique = (1..).map(|n| match n {
                1 => format!("{base}.pps"),
                n => format!("{base}-{n}.pps"),
            });
            let found = unique
                .find(|name| !names.contains(name))
                .expect("there is always one more number");
            names.push(found.clone());
            found
        };
        let mut set = |(name, values): &Named| Set {
            file: file(name),
            about: format!("{title}: {name}"),
            values: values.clone(),
        };
        let reference = set(first);
        for others in rest {
            let mut sets = vec![reference.clone()];
            sets.extend(others.iter().map(&mut set));
            blocks.push(Block {
                title: title.clone(),
                sets,
            });
        }
    }
    blocks
}

impl Set {
    /// Returns the contents of the file: a number per line, as ministat(1) reads it.
    pub fn content(&self) -> String {
        let lines = self.values.iter().map(|value| format!("{value}\n"));
        lines.collect()
    }
}

impl Block {
    /// Returns the command that prints this block.
    pub fn command(&self) -> String {
        let files: Vec<&str> = self.sets.iter().map(|set| set.file.as_str()).collect();
        format!(
            "ministat -w {} {}",
            Options::default().width,
            files.join(" ")
        )
    }

    /// Returns the output of ministat.
    ///
    /// # Errors
    /// If ministat refuses these values; the error is its message.
    pub fn printed(&self, model: Model) -> Result<Vec<u8>, String> {
        let sets = self
            .sets
            .iter()
            .map(|set| (set.file.clone().into_bytes(), set.values.clone()));
        let options = Options {
            model,
            ..Options::default()
        };
        let report = Report::new(sets.collect(), &options).map_err(|reason| reason.to_string())?;
        Ok(report.render())
    }
}

/// Returns all blocks, each below the command that prints it.
pub fn text(runs: &[Run<'_>], model: Model) -> String {
    let mut text = String::new();
    for block in blocks(runs) {
        let printed = match block.printed(model) {
            Ok(printed) => String::from_utf8_lossy(&printed).into_owned(),
            Err(reason) => format!("refused: {reason}\n"),
        };
        let blank = if text.is_empty() { "" } else { "\n" };
        // a title must not end the comment line
        let title = block.title.replace(char::is_control, " ");
        text += &format!("{blank}# {title}\n$ {}\n{printed}", block.command());
    }
    text
}
