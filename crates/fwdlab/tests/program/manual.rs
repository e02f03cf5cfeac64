//! Examples of the manual on a simulated DUT: what they show is what the program says.

use std::fs;
use std::path::Path;

use crate::support::{Lab, ended, shell_words};

/// A command of the manual, and the lines that are shown below it.
struct Example {
    at: String,
    arguments: Vec<String>,
    /// It works on what the one before it left.
    goes_on: bool,
    shown: Vec<String>,
}

/// Pages whose examples work on runs of the ones before them; all of their commands are executed.
const SEQUENCES: [&str; 1] = ["reports.md"];

/// Examples are indented by four, begin with `$ fwdlab`, and end with the first line that is not indented.
fn examples(name: &str, text: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut inside = false;
    for (line, number) in text.lines().zip(1..) {
        if let Some(command) = line.strip_prefix("    $ fwdlab ") {
            let goes_on = SEQUENCES.contains(&name) && !examples.is_empty();
            inside = goes_on || command.contains("--engine sim");
            if inside {
                examples.push(Example {
                    at: format!("{name}:{number}"),
                    arguments: shell_words(command),
                    goes_on,
                    shown: Vec::new(),
                });
            }
        } else if !line.is_empty() && !line.starts_with("    ") {
            inside = false;
        } else if let Some(example) = examples.last_mut().filter(|_| inside && !line.is_empty()) {
            example.shown.push(line[4..].to_owned());
        }
    }
    examples
}

/// What is shown stands in what is printed, line by line in this order; an example may leave lines out.
#[test]
fn simulated_examples_of_the_manual_are_true() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut tried = 0;
    for entry in fs::read_dir(&docs).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".md") {
            continue;
        }
        let mut lab = Lab::new();
        for example in examples(&name, &fs::read_to_string(&path).unwrap()) {
            if !example.goes_on {
                lab = Lab::new();
            }
            let arguments: Vec<&str> = example.arguments.iter().map(String::as_str).collect();
            let mut command = lab.program(&arguments);
            command.current_dir(lab.path());
            let ended = ended(command);
            assert!([0, 5].contains(&ended.code), "{}: {ended:?}", example.at);
            let mut printed = ended.out.lines();
            for shown in &example.shown {
                assert!(
                    printed.any(|line| line == shown),
                    "{}: {shown:?} is not, or not there, in:\n{}",
                    example.at,
                    ended.out
                );
            }
            tried += 1;
        }
    }
    assert!(tried >= 5, "the manual has examples");
}
