//! Examples of the manual: runs them, and compares their output with the page.
//!
//! An example is indented by four and begins with `$`. A comment of the page above it may have one
//! of these notes:
//!
//! - `not run: WHY`: it cannot run here; it is reported and counted;
//! - `in the archive: FOLDER`: it runs in that folder of the netbenches archive, if that is
//!   available;
//! - `on a wire`: it runs on the ports pa and pb of a namespace of its own;
//! - `with -c 100`: it runs with that instead of the options on the page, which take longer;
//! - `figures differ`: only the beginning of the first line is compared.
//!
//! A block of code whose first line is `# NAME.toml` is that file. `cli/help.rs` tests that all
//! commands of the manual parse, including those that are only listed. Start with
//! [`examples_of_the_manual_are_true`].

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::support::{CommandResult, Lab, PROGRAM, ended, root, shell_words, skipped};
use crate::wire::Wire;

/// A command of the manual, and the output below it.
struct Example {
    at: String,
    program: String,
    arguments: Vec<String>,
    /// True if it needs the results of the example before it.
    continues: bool,
    /// The notes above it.
    output: Vec<String>,
    shown: Vec<String>,
}

impl Example {
    /// Returns the rest of the note that starts with these words.
    fn says(&self, words: &str) -> Option<&str> {
        let rest = self
            .output
            .iter()
            .find_map(|printed| printed.strip_prefix(words))?;
        Some(rest.trim_start_matches(':').trim())
    }
}

/// Pages whose examples need the runs of the examples before them.
const SEQUENCES: [&str; 4] = ["ci.md", "firewall-rules.md", "gallery.md", "reports.md"];

/// Returns all examples of a page, and the files on it.
fn examples(name: &str, text: &str) -> (Vec<Example>, Vec<(String, String)>) {
    let (mut examples, mut files) = (Vec::<Example>::new(), Vec::<(String, String)>::new());
    let mut printed = Vec::new();
    // indented text after a paragraph is not output
    let mut is_output = false;
    let mut code: Option<Vec<&str>> = None;
    for (line, number) in text.lines().zip(1..) {
        match (&mut code, line.starts_with("```")) {
            (Some(lines), true) => {
                if let Some(file) = lines.first().and_then(|first| first.strip_prefix("# "))
                    && file.ends_with(".toml")
                {
                    files.push((file.to_owned(), lines.join("\n")));
                }
                code = None;
                continue;
            }
            (Some(lines), false) => {
                lines.push(line);
                continue;
            }
            (None, true) => code = Some(Vec::new()),
            (None, false) => {}
        }
        if let Some(command) = line.strip_prefix("    $ ") {
            let mut words = shell_words(command.strip_prefix("sudo ").unwrap_or(command));
            let program = words.remove(0);
            is_output = true;
            examples.push(Example {
                at: format!("{name}:{number}"),
                program,
                arguments: words,
                continues: SEQUENCES.contains(&name) && !examples.is_empty(),
                output: printed.clone(),
                shown: Vec::new(),
            });
        } else if let Some(comment) = line.strip_prefix("<!-- ") {
            let comment = comment.trim_end_matches(" -->");
            // a reason may have any words
            printed = match comment.starts_with("not run") {
                true => vec![comment.to_owned()],
                false => comment.split("; ").map(str::to_owned).collect(),
            };
        } else if let Some(shown) = line.strip_prefix("    ") {
            if let Some(example) = examples.last_mut().filter(|_| is_output) {
                example.shown.push(shown.to_owned());
            }
        } else if !line.is_empty() {
            printed.clear();
            is_output = false;
        }
    }
    (examples, files)
}

fn directory(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Returns the path of the netbenches archive, if it is available.
fn archive() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/netbenches");
    let archive = std::env::var_os("FWDLAB_NETBENCHES").map_or(beside, PathBuf::from);
    archive.canonicalize().ok()
}

/// Runs an example. Returns `false`, after a message, if it cannot run here.
fn run(lab: &Lab, example: &Example) -> bool {
    let Example { at, shown, .. } = example;
    let not_run = |reason: &str| {
        skipped(&format!("{at}: {reason}"));
        false
    };
    if let Some(reason) = example.says("not run") {
        return not_run(reason);
    }
    assert!(
        ["fwdlab", "echo"].contains(&example.program.as_str()),
        "{at}: say why it is not run"
    );
    let mut arguments = example.arguments.clone();
    // a line for the console
    let mut typed = (example.program == "echo").then(|| {
        let typed = shell_words(&arguments.remove(0));
        let rest: Vec<String> = arguments.drain(..2).collect();
        assert_eq!(rest, ["|", "fwdlab"], "{at}");
        typed
    });
    if let Some(instead) = example.says("with ") {
        let (option, value) = instead.split_once(' ').unwrap();
        let words = typed.as_mut().unwrap_or(&mut arguments);
        let place = words.iter().position(|word| word == option).unwrap();
        value.clone_into(&mut words[place + 1]);
    }
    let wire = match example.says("on a wire") {
        Some(_) if !root() => return false,
        Some(_) => Some(Wire::new()),
        None => None,
    };
    if let Some(wire) = &wire {
        arguments.extend(["--netns".to_owned(), wire.name.clone()]);
    }
    let folder = match (example.says("in the archive"), archive()) {
        (Some(_), None) => return not_run("the archive is not here"),
        (Some(folder), Some(archive)) => archive.join(folder),
        (None, _) => lab.path().to_owned(),
    };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = match typed {
        None => lab.program(&arguments),
        Some(typed) => {
            let script = "echo \"$1\" | { shift; exec \"$@\"; }";
            lab.with(
                &["sh", "-c", script, "sh", &typed.join(" "), PROGRAM],
                &arguments,
            )
        }
    };
    command.current_dir(folder);
    let ended = ended(command);
    let is_wrong = shown.iter().any(|line| line.starts_with("fwdlab: "));
    assert_eq!(![0, 5].contains(&ended.code), is_wrong, "{at}: {ended:?}");
    let mut printed = ended.out.lines();
    let shown = shown
        .iter()
        .filter(|line| !line.is_empty() && !["...", "[...]"].contains(&line.as_str()));
    for shown in shown {
        if example.says("figures differ").is_some() {
            let label = shown.split("  ").next().unwrap();
            let mut both = ended.err.lines().chain(ended.out.lines());
            assert!(both.any(|line| line.starts_with(label)), "{at}: {ended:?}");
            break;
        }
        // notes and errors go to standard error
        let is_note = ended.err.lines().any(|line| line == shown);
        let is_there = is_note || printed.any(|line| line == shown);
        let CommandResult { out, err, .. } = &ended;
        assert!(
            is_there,
            "{at}: {shown:?} is not, or not there, in:\n{err}{out}"
        );
    }
    true
}

/// Examples in help that are not run: how they begin, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("fwdlab quick", "takes a minute on a test bed"),
    ("fwdlab bisect", "boots kernels of an archive"),
    ("fwdlab gate", "boots kernels"),
    ("fwdlab run examples/", "takes minutes on a test bed"),
    ("fwdlab run --resume", "needs a run that was interrupted"),
    ("fwdlab top", "needs a terminal"),
    ("fwdlab traffic send", "needs the port eth1"),
    ("fwdlab traffic receive", "needs the port eth2"),
    ("fwdlab traffic console", "needs the port eth1"),
    ("echo ", "needs the port eth1"),
    ("fwdlab traffic ping", "needs the port eth1"),
    ("fwdlab traffic capture", "needs the port eth2"),
    ("fwdlab traffic pkt-gen", "needs the port eth1"),
    ("fwdlab traffic selftest", "needs the port eth1"),
    ("fwdlab traffic queues", "needs the host router1"),
    ("sudo fwdlab doctor", "judges this host"),
    ("fwdlab doctor", "needs the hosts of rack1"),
    ("fwdlab runs steer", "needs a run that goes on"),
    ("sudo fwdlab bed", "keeps a test bed on this host"),
    (
        "fwdlab compare @2 @1 --fail-if",
        "needs two runs on a test bed",
    ),
    ("fwdlab image", "needs an archive of packages"),
    ("fwdlab serve", "does not end"),
    ("sudo fwdlab serve", "does not end"),
    ("fwdlab new man --dir /usr", "writes into the system"),
];

/// Commands that can measure a simulated DUT.
const SIMULATES: [&str; 6] = ["trial", "ndr", "throughput", "ramp", "rfc2544", "soak"];

/// Returns the examples in a command's help, without redirections.
fn examples_of_help(lab: &Lab, command: &str) -> Vec<String> {
    let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
    let help = lab.run(&words).out;
    let examples = help.split("\nExamples:\n").nth(1).unwrap_or_default();
    let examples = examples.split("\n\n").next().unwrap_or_default();
    let examples = examples.replace("\\\n", "");
    let lines = examples.lines().filter_map(|line| line.strip_prefix("  "));
    let lines = lines.filter(|line| !line.starts_with(' '));
    let typed = |line: &str| {
        let redirects = [" > ", " >> ", " | man"].iter();
        let end = redirects.filter_map(|words| line.find(*words)).min();
        line[..end.unwrap_or(line.len())].to_owned()
    };
    lines.map(typed).collect()
}

/// Runs every example in every help as printed; on a simulated DUT if there is no other.
#[test]
fn examples_of_help_run() {
    let (lab, measuring) = (Lab::new(), Lab::new());
    let bin = lab.path().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(PROGRAM, bin.join("fwdlab")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let run = |lab: &Lab, line: &str| {
        let mut command = lab.with(&["sh", "-c"], &[line]);
        command.env("PATH", &path);
        ended(command)
    };
    // the files that the examples name
    let campaign = "campaign = 'c'\niterations = 5\n[bed]\nengine = 'sim'\ndut = 'capacity=1e6'\n[procedure]\nid = 'mrr'\n";
    lab.write("CAMPAIGN.toml", campaign);
    for file in ["a.pps", "b.pps", "DIR/set/1.pps"] {
        lab.write(file, "1\n2\n3\n");
    }
    let ramp = "fwdlab ramp --engine sim --ramp 20s --warm-up 1s --hold 1s";
    let made = format!(
        "{ramp} && fwdlab report @1 --format loadtest -o a.json && cp a.json b.json && fwdlab run CAMPAIGN.toml && fwdlab run CAMPAIGN.toml"
    );
    run(&lab, &made).code(0);
    let listed = |above: &[&str]| -> Vec<String> {
        let help = lab.run(&[above, &["--help"]].concat()).out;
        let help = help.split("\nOptions:").next().unwrap();
        let commands = help.lines().filter_map(|line| line.strip_prefix("  "));
        let commands = commands.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
        let names = commands.map(|line| line.split(' ').next().unwrap());
        let names = names.filter(|name| *name != "help");
        names
            .map(|name| [above, &[name]].concat().join(" "))
            .collect()
    };
    let commands = [listed(&[]), listed(&["traffic"]), listed(&["new"])].concat();
    let (mut here, mut left) = (0, Vec::new());
    // the examples of `new` belong to its subcommands
    let without = ["new bed", "new campaign", "new profile"];
    let commands = commands.iter().map(String::as_str);
    for command in commands.filter(|command| !without.contains(command)) {
        let examples = examples_of_help(&lab, command);
        assert!(!examples.is_empty(), "{command}");
        for line in examples {
            let not_run = NOT_RUN
                .iter()
                .position(|(begin, _)| line.starts_with(begin));
            if let Some(at) = not_run {
                left.push(at);
                continue;
            }
            let simulates = SIMULATES.contains(&command);
            let mut typed = line.clone();
            if simulates && !line.contains("--engine sim") {
                typed += " --engine sim";
            }
            // all seven sizes take longer, and test nothing else
            if line.contains("--full") {
                typed += " --sizes 64";
            }
            let ended = run(if simulates { &measuring } else { &lab }, &typed);
            assert!(matches!(ended.code, 0 | 5), "{line}: {ended:?}");
            here += 1;
        }
    }
    assert!(here > 35, "{here} examples were executed");
    for (at, (begin, _)) in NOT_RUN.iter().enumerate() {
        assert!(left.contains(&at), "no example begins with `{begin}`");
    }
}

/// The lines of an example appear in the output, in this order; an example may omit lines.
#[test]
fn examples_of_the_manual_are_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap();
    let docs = root.join("docs");
    let (mut run_here, mut marked) = (0, 0);
    let mut pages = directory(&docs);
    pages.extend(directory(&docs.join("guide")));
    pages.extend(directory(&docs.join("reference")));
    pages.push(root.join("README.md"));
    for path in pages {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".md") {
            continue;
        }
        let mut lab = Lab::new();
        let (examples, files) = examples(&name, &fs::read_to_string(&path).unwrap());
        for example in examples {
            if !example.continues {
                lab = Lab::new();
                symlink(root.join("examples"), lab.path().join("examples")).unwrap();
                for (file, text) in &files {
                    lab.write(file, text);
                }
            }
            run_here += usize::from(run(&lab, &example));
            marked += usize::from(example.says("not run").is_some());
        }
        let mut pictures = 0;
        for picture in directory(&lab.path().join("gallery")) {
            let made = picture.file_name().unwrap();
            let shown = docs.join("gallery").join(made);
            if let Ok(shown) = fs::read_to_string(&shown) {
                let made = fs::read_to_string(&picture).unwrap();
                assert!(made == shown, "another picture is made now: {picture:?}");
                pictures += 1;
            }
        }
        assert!(
            name != "gallery.md" || pictures == 3,
            "{pictures} pictures of the gallery are made"
        );
    }
    // some of them need root, or the archive
    assert!(run_here > 30, "{run_here} examples were executed");
    assert!(
        marked <= 23,
        "{marked} examples are said not to run; run more of them, not fewer"
    );
}
