//! The commands of the console: their options, help and completion.
//!
//! Parses only; runs nothing. Start with [`Command`] and [`read`].

use std::net::IpAddr;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};

use super::multiplier::Multiplier;
use crate::profiles;

/// A line of the console.
#[derive(Debug, Parser)]
#[command(
    name = "",
    multicall = true,
    disable_help_subcommand = true,
    infer_subcommands = true,
    max_term_width = 100
)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// A command of the console.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start traffic on ports: start -f imix -m 10kpps -p 0 -d 30
    Start(Box<Start>),
    /// Change the load of traffic that runs: update -m 20%, -m 10%+
    Update(Update),
    /// Stop sending for a while; `resume` continues with the time that was left
    Pause(Which),
    /// Continue after a pause
    Resume(Which),
    /// Stop traffic
    Stop(Which),
    /// Wait until traffic with a duration has ended, or for a time: wait 5
    Wait {
        /// Seconds, or 500ms, 2m
        #[arg(value_parser = time)]
        time: Option<Duration>,
    },
    /// Rates and counters of all ports
    Stats,
    /// Set all counters to zero
    Clear,
    /// Watch rates and counters on the full screen; q returns
    Tui,
    /// The ports: interface, link, MAC address, what is being sent
    #[command(visible_alias = "portattr")]
    Ports,
    /// This list, or the options of a command
    #[command(visible_alias = "?")]
    Help {
        /// The command
        command: Option<String>,
    },
    /// Stop traffic, let the ports go, and end
    #[command(visible_alias = "exit", visible_alias = "q")]
    Quit,
}

/// Options of `start`.
#[derive(Debug, clap::Args)]
pub struct Start {
    /// Traffic profile: a name (`fwdlab traffic profile ls`) or a file [default: UDP frames as
    /// --size and --flows say]
    #[arg(
        short,
        long = "file",
        visible_alias = "profile",
        value_name = "PROFILE"
    )]
    pub file: Option<String>,
    /// Load: 10kpps, 1mpps, 20%, 1gbps (layer 2, as in TRex), 1gbpsl1; a number alone is a factor
    /// of the profile's own load [default: 1]
    #[arg(short, long = "mult", value_name = "LOAD", value_parser = multiplier)]
    pub mult: Option<Multiplier>,
    /// The load is of all ports together
    #[arg(long)]
    pub total: bool,
    /// Ports, by number or interface: -p 0 1 [default: all]
    #[arg(short, long, num_args = 1.., value_delimiter = ',', value_name = "PORT")]
    pub ports: Vec<String>,
    /// Duration: 30 (seconds), 500ms, 10m, 1h [default: until `stop`]
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,
    /// Stop what these ports send first
    #[arg(long)]
    pub force: bool,
    /// Frame size in bytes, with FCS
    #[arg(long, value_name = "BYTES", conflicts_with = "file")]
    pub size: Option<u16>,
    /// Number of flows
    #[arg(long, value_name = "N", conflicts_with = "file")]
    pub flows: Option<u32>,
    /// IPv6 instead of IPv4
    #[arg(long, conflicts_with = "file")]
    pub ipv6: bool,
    /// Source addresses and ports, such as 198.18.10.1-20:2000
    #[arg(long, value_name = "ADDRESSES", conflicts_with_all = ["file", "flows"])]
    pub from: Option<String>,
    /// Destination addresses and ports
    #[arg(long, value_name = "ADDRESSES", conflicts_with_all = ["file", "flows"])]
    pub to: Option<String>,
    /// VLAN tag of all frames
    #[arg(long, value_name = "ID")]
    pub vlan: Option<u16>,
    /// Destination MAC address [default: the one of the console, or resolved]
    #[arg(long, value_name = "MAC")]
    pub dst_mac: Option<String>,
    /// Address of the next hop
    #[arg(long, value_name = "ADDRESS", conflicts_with = "dst_mac")]
    pub via: Option<IpAddr>,
}

/// Options of `update`.
#[derive(Debug, clap::Args)]
pub struct Update {
    /// Load, as of start; with + or - at its end, by how much it changes: 10%+
    #[arg(short, long = "mult", value_name = "LOAD", value_parser = multiplier, allow_hyphen_values = true)]
    pub mult: Multiplier,
    /// The load is of all ports together
    #[arg(long)]
    pub total: bool,
    /// Ports [default: all that send]
    #[arg(short, long, num_args = 1.., value_delimiter = ',', value_name = "PORT")]
    pub ports: Vec<String>,
}

/// Which ports are meant.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// Ports [default: all for which there is something to do]
    #[arg(short, long, num_args = 1.., value_delimiter = ',', value_name = "PORT")]
    pub ports: Vec<String>,
}

fn multiplier(text: &str) -> Result<Multiplier, String> {
    text.parse()
}

/// Parses a time. As in TRex, seconds need no unit.
fn time(text: &str) -> Result<Duration, String> {
    let is_number = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let with_unit = if is_number {
        format!("{text}s")
    } else {
        text.into()
    };
    fwdlab_model::units::parse_duration(&with_unit).map_err(|error| error.to_string())
}

/// A parsed line: empty, a command, help or an error.
pub enum Read {
    Nothing,
    Command(Command),
    Help(String),
    Wrong(String),
}

/// Parses a line. A `#` starts a comment.
pub fn read(line: &str) -> Read {
    let words = match words(line) {
        Ok(words) if words.is_empty() => return Read::Nothing,
        Ok(words) => words,
        Err(reason) => return Read::Wrong(reason),
    };
    match Line::try_parse_from(words) {
        Ok(Line { command }) => Read::Command(command),
        Err(error) if error.exit_code() == 0 => Read::Help(error.to_string()),
        Err(error) => {
            // keep the error, drop the usage of the program
            let text = error.to_string();
            let text = text.trim_start_matches("error: ");
            let text = text.split("\n\nUsage").next().unwrap_or_default();
            let text = text.split("\n\nFor more").next().unwrap_or_default();
            Read::Wrong(format!(
                "{}; `help` lists the commands",
                text.trim_end().trim_end_matches('.')
            ))
        }
    }
}

/// Splits a line into words; quotes keep blanks within a word.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quote {
        None => Ok(words),
        Some(quote) => Err(format!("a {quote} is not closed")),
    }
}

/// Returns the list of commands, or the options of one command.
pub fn help(command: Option<&str>) -> Result<String, String> {
    let mut all = Line::command();
    all.build();
    let Some(name) = command else {
        let mut text = String::new();
        for command in all.get_subcommands() {
            let about = command.get_about().map(ToString::to_string);
            text += &format!("{:<8} {}\n", command.get_name(), about.unwrap_or_default());
        }
        return Ok(text + "`help COMMAND` or `COMMAND --help` lists the options of a command.");
    };
    match all.find_subcommand_mut(name) {
        Some(command) => Ok(command.render_help().to_string()),
        None => Err(format!("there is no command `{name}`; `help` lists them")),
    }
}

/// Returns the completions of the word before the cursor, and where it starts. `ports` are
/// interface names.
pub fn complete(line: &str, ports: &[String]) -> (usize, Vec<String>) {
    let begin = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let word = &line[begin..];
    let before: Vec<&str> = line[..begin].split_whitespace().collect();
    // an option with ports takes a list
    let option = before.iter().rfind(|word| word.starts_with('-'));
    let all = Line::command();
    let mut candidates: Vec<String> = match before.first() {
        None => (all.get_subcommands().map(|c| c.get_name().to_owned())).collect(),
        Some(&"help" | &"?") => (all.get_subcommands().map(|c| c.get_name().to_owned())).collect(),
        Some(&name) => match before.last() {
            Some(&("-f" | "--file" | "--profile")) => {
                let mut found = files(word);
                found.extend(profiles::SHIPPED.iter().map(|(name, _)| (*name).to_owned()));
                found
            }
            _ if !word.starts_with('-') && matches!(option, Some(&("-p" | "--ports"))) => {
                let numbers = (0..ports.len()).map(|at| at.to_string());
                numbers.chain(ports.iter().cloned()).collect()
            }
            _ if word.starts_with('-') => {
                let command = all.find_subcommand(name);
                let options = command.into_iter().flat_map(|c| c.get_arguments());
                let long = options.filter_map(|option| option.get_long());
                long.map(|long| format!("--{long}")).collect()
            }
            _ => Vec::new(),
        },
    };
    candidates.retain(|candidate| candidate.starts_with(word));
    candidates.sort();
    candidates.dedup();
    (begin, candidates)
}

/// Returns the profile files and folders that complete a path.
fn files(started: &str) -> Vec<String> {
    let (folder, _) = started.split_at(started.rfind('/').map_or(0, |at| at + 1));
    let place = if folder.is_empty() { "." } else { folder };
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let is_harmless = !name.starts_with('.') && !name.contains(char::is_control);
        let end = if is_folder { "/" } else { "" };
        (is_harmless && (is_folder || name.ends_with(".toml")))
            .then(|| format!("{folder}{name}{end}"))
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_as_people_of_trex_type_them() {
        let Read::Command(Command::Start(start)) = read("start -f imix -m 10mpps -p 0 1 -d 30")
        else {
            panic!("no start");
        };
        assert_eq!(start.file.as_deref(), Some("imix"));
        assert_eq!(start.mult, Some("10mpps".parse().unwrap()));
        assert_eq!(start.ports, ["0", "1"]);
        assert_eq!(start.duration, Some(Duration::from_secs(30)));
        assert!(matches!(
            read("update -m 20%"),
            Read::Command(Command::Update(_))
        ));
        assert!(matches!(
            read("update -m 5%-"),
            Read::Command(Command::Update(_))
        ));
        assert!(matches!(
            read("stop -p eth1"),
            Read::Command(Command::Stop(_))
        ));
        assert!(matches!(read("  # a comment"), Read::Nothing));
        assert!(matches!(read(""), Read::Nothing));
        assert!(matches!(read("q"), Read::Command(Command::Quit)));
        assert!(matches!(read("start --help"), Read::Help(_)));
        for (line, words) in [
            ("fly", "unrecognized"),
            ("start -m fast", "10kpps"),
            ("start -d 0", "above 0"),
            ("update", "--mult"),
            ("start -f 'a", "not closed"),
            ("start -f a --size 64", "cannot be used with"),
        ] {
            match read(line) {
                Read::Wrong(reason) => assert!(reason.contains(words), "{line}: {reason}"),
                _ => panic!("{line} was right"),
            }
        }
    }

    #[test]
    fn words_are_completed() {
        let ports = ["eth1".to_owned(), "eth2".to_owned()];
        for (line, begin, words) in [
            ("st", 0, &["start", "stats", "stop"][..]),
            ("start -f imix5", 9, &["imix512", "imix570"]),
            ("start -p e", 9, &["eth1", "eth2"]),
            ("start -p 0 eth2", 11, &["eth2"]),
            ("stop --po", 5, &["--ports"]),
            ("help up", 5, &["update"]),
            ("start -m 1", 9, &[]),
        ] {
            let (at, found) = complete(line, &ports);
            assert_eq!(
                (at, &found[..]),
                (
                    begin,
                    &words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>()[..]
                ),
                "{line}"
            );
        }
    }

    #[test]
    fn every_command_has_help() {
        let list = help(None).unwrap();
        for command in Line::command().get_subcommands() {
            assert!(list.contains(command.get_name()));
            assert!(help(Some(command.get_name())).is_ok());
        }
        assert!(help(Some("fly")).is_err());
    }
}
