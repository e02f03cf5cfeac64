//! Command lines of other programs: passes options that are not ours through clap.
//!
//! Some commands replace a well-known program and accept its command line unchanged. Each command
//! defines which options these are. Start with [`in_order`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::{ArgAction, Args, Command};

use super::pkt_gen;

/// The options of every such command.
#[derive(Debug, Args)]
pub struct Original {
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// Here without its letter, which the original has for something else, or refuses.
    #[arg(long, hide = true)]
    quiet: bool,
    /// Here without its letter, too.
    #[arg(long, hide = true)]
    verbose: bool,
    /// What is the original's to read; always behind a `--`.
    #[arg(hide = true)]
    pub arguments: Vec<OsString>,
}

/// Returns true if this argument of the original takes a value.
type AwaitsValue = fn(&[u8]) -> bool;

/// The commands, and which of their arguments take a value.
const COMMANDS: [(&str, AwaitsValue); 2] = [
    ("ministat", fwdlab_stats::ministat::awaits_value),
    ("pkt-gen", pkt_gen::awaits_value),
];

/// The parent of some of these commands.
const ABOVE: &str = "traffic";

/// Returns the command line under our own name: a link to fwdlab with the name of such a command
/// runs that command.
pub fn under_our_name(line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut line: Vec<OsString> = line.into_iter().collect();
    let name = line
        .first()
        .and_then(|path| std::path::Path::new(path).file_name());
    let known = name.and_then(|name| COMMANDS.iter().find(|(command, _)| name == *command));
    if let Some((command, _)) = known {
        line.insert(1, command.into());
    }
    line
}

/// Returns the command line with everything that the original parses moved behind a `--`.
///
/// Only there does clap leave arguments alone: `-ns`, `-d --json`, `-q`, a second `--`. Our own
/// options, which are all long, go before it; the originals have no long options. Other command
/// lines stay unchanged.
pub fn in_order(mut program: Command, line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut line: Vec<OsString> = line.into_iter().collect();
    let is = |place: usize, name: &str| {
        let typed = line[place].as_bytes();
        !typed.is_empty() && name.as_bytes().starts_with(typed)
    };
    let place = place_of_command(&program, &line, 1).and_then(|first| match is(first, ABOVE) {
        true => place_of_command(&program, &line, first + 1),
        false => Some(first),
    });
    let found = place.and_then(|place| {
        let found = COMMANDS.iter().find(|(name, _)| is(place, name));
        found.map(|found| (place, found))
    });
    let Some((place, (name, awaits_value))) = found else {
        return line;
    };
    program.build();
    let known = program.find_subcommand(name).unwrap_or(&program);
    let mut rest = line.split_off(place + 1).into_iter();
    let mut original = vec![OsString::from("--")];
    while let Some(argument) = rest.next() {
        let value_follows = match long(known, &argument) {
            Some(value_follows) => {
                line.push(argument);
                if value_follows {
                    line.extend(rest.next());
                }
                continue;
            }
            None => awaits_value(argument.as_bytes()),
        };
        let ends_options = argument == "--";
        original.push(argument);
        if ends_options {
            original.extend(rest.by_ref());
        } else if value_follows {
            original.extend(rest.next());
        }
    }
    line.extend(original);
    line
}

/// Returns the index of the command's name: the first argument after `from` that is neither an
/// option nor the value of one.
fn place_of_command(program: &Command, line: &[OsString], from: usize) -> Option<usize> {
    let mut place = from;
    while line.get(place)?.as_bytes().starts_with(b"-") {
        let value_follows = long(program, &line[place]).unwrap_or(false);
        place += if value_follows { 2 } else { 1 };
    }
    Some(place)
}

/// Returns true if this long option of ours takes a value, as in `--model debian`; `None` if it is
/// not ours.
fn long(command: &Command, argument: &OsStr) -> Option<bool> {
    let text = argument.to_str()?.strip_prefix("--")?;
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let option = command
        .get_arguments()
        .find(|known| known.get_long() == Some(name))?;
    Some(option.get_action().takes_values() && value.is_none())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[track_caller]
    fn check(line: &str, expect: &str) {
        let program = crate::cli::Arguments::command();
        assert_eq!(in_order(program, words(line)), words(expect));
    }

    #[test]
    fn options_of_ours_come_first() {
        check("fwdlab ministat -q", "fwdlab ministat -- -q");
        check(
            "fwdlab ministat --json a b",
            "fwdlab ministat --json -- a b",
        );
        check(
            "fwdlab --json ministat a b",
            "fwdlab --json ministat -- a b",
        );
        check(
            "fwdlab -q --runs quick minis a --model 2015 -ns -w 40 --help",
            "fwdlab -q --runs quick minis --model 2015 --help -- a -ns -w 40",
        );
        check(
            "fwdlab ministat --model=2015 -",
            "fwdlab ministat --model=2015 -- -",
        );
        check(
            "fwdlab pkt-gen -f tx -i ix0 --netns gen -NR 1k --allow-in-use -v",
            "fwdlab pkt-gen --netns gen --allow-in-use -- -f tx -i ix0 -NR 1k -v",
        );
        check(
            "fwdlab --json traffic -q pkt-gen -f tx --netns gen",
            "fwdlab --json traffic -q pkt-gen --netns gen -- -f tx",
        );
    }

    #[test]
    fn options_of_the_original_keep_their_order() {
        check(
            "fwdlab ministat -d --json a",
            "fwdlab ministat -- -d --json a",
        );
        check(
            "fwdlab ministat -nC --json a",
            "fwdlab ministat -- -nC --json a",
        );
        check(
            "fwdlab ministat -w7 --json a",
            "fwdlab ministat --json -- -w7 a",
        );
        check(
            "fwdlab ministat a -- --json",
            "fwdlab ministat -- a -- --json",
        );
        check("fwdlab ministat --what -h", "fwdlab ministat -- --what -h");
        check(
            "fwdlab pkt-gen -NWi --netns -h",
            "fwdlab pkt-gen -- -NWi --netns -h",
        );
    }

    #[test]
    fn other_commands_are_left_alone() {
        for line in [
            "fwdlab",
            "fwdlab --json",
            "fwdlab runs show -q ministat",
            "fwdlab traffic",
            "fwdlab traffic send -i pkt-gen",
            "fwdlab --runs ministat quick -v",
        ] {
            check(line, line);
        }
    }

    #[test]
    fn a_link_may_have_the_commands_name() {
        let named = |line| under_our_name(words(line));
        assert_eq!(
            named("/usr/bin/pkt-gen -f rx"),
            words("/usr/bin/pkt-gen pkt-gen -f rx")
        );
        for line in ["fwdlab pkt-gen", "/opt/fwdlab quick", "pkt-gen.old -h"] {
            assert_eq!(named(line), words(line));
        }
        assert!(under_our_name([]).is_empty());
    }
}
