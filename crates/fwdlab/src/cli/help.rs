//! What help says beyond the options: commands by what they are for, examples, and how each can end.
//!
//! The options and what they mean stand beside the commands. Start with [`program`]; a command that is missing in these lists fails
//! a test.

use clap::{Command, CommandFactory};

use super::Arguments;
use crate::exit_code::Code;

/// Columns of the list of commands.
const WIDTH: usize = 98;

/// Before the words on a command.
const INDENT: usize = 14;

/// The commands by use.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Measure how a DUT forwards",
        &[
            "quick",
            "ndr",
            "throughput",
            "rfc2544",
            "ramp",
            "soak",
            "trial",
            "bisect",
        ],
    ),
    (
        "Many test cases from a file",
        &["run", "top", "plan", "check"],
    ),
    (
        "Ports and frames by hand",
        &[
            "send", "receive", "console", "ping", "capture", "pkt-gen", "selftest", "queues",
            "profile",
        ],
    ),
    (
        "Results",
        &[
            "runs", "report", "compare", "serve", "ministat", "import", "rate", "schema",
        ],
    ),
    ("Hosts and files", &["doctor", "new", "bed", "image"]),
    ("This program", &["completions", "man"]),
];

/// What a command is called like, one example per line with what it does, and the codes it ends with beyond 0, 1 and 2.
struct More {
    command: &'static str,
    examples: &'static [(&'static str, &'static str)],
    codes: &'static [Code],
}

/// What every measuring command may end with.
const MEASURING: &[Code] = &[
    Code::Preflight,
    Code::TestBed,
    Code::NotValid,
    Code::Interrupted,
    Code::Terminated,
];

/// What a command that holds ports may end with.
const BY_HAND: &[Code] = MEASURING;

const MORE: &[More] = &[
    More {
        command: "quick",
        examples: &[
            ("fwdlab quick", "this machine's kernel, in about a minute"),
            (
                "fwdlab quick --ipv6 --size 84,512 -n 10",
                "other traffic, more iterations",
            ),
            (
                "fwdlab quick --vs 'nft add table ip t'",
                "what does this cost?",
            ),
            (
                "fwdlab quick --vs generate:nft-rules,n=10+100",
                "what do 10 rules cost, and 100?",
            ),
        ],
        codes: MEASURING,
    },
    More {
        command: "bisect",
        examples: &[
            (
                "fwdlab bisect --good debian:linux-image-6.1.0-47-cloud-amd64 \\\n      --bad debian:linux-image-6.12.117+deb12-cloud-amd64",
                "which of Debian's kernels between these changed it?",
            ),
            (
                "fwdlab bisect --good a/bzImage --bad z/bzImage --images kernels.txt --set rules.nft",
                "kernels of your own, with a firewall",
            ),
            (
                "fwdlab bisect --git linux --build ./make-kernel --good v6.11 --bad v6.12",
                "commits, each built by a command",
            ),
            (
                "fwdlab bisect --git linux --build ./make-kernel --good v6.11 --bad v6.12 --campaign firewall.toml",
                "what a campaign measures: its configuration, its frames",
            ),
            (
                "fwdlab bisect --resume bisect.jsonl",
                "continue after Ctrl-C",
            ),
        ],
        codes: MEASURING,
    },
    More {
        command: "trial",
        examples: &[
            ("fwdlab trial --load 100kpps", "one load for some time"),
            (
                "fwdlab trial --load 100kpps --delays",
                "with the latency of frames",
            ),
        ],
        codes: MEASURING,
    },
    More {
        command: "ndr",
        examples: &[
            ("fwdlab ndr", "NDR and PDR of 64-byte frames"),
            ("fwdlab ndr --goals ndr --explain", "and explain each trial"),
            (
                "fwdlab ndr --engine sim --dut capacity=1e6",
                "on a simulated DUT",
            ),
        ],
        codes: MEASURING,
    },
    More {
        command: "throughput",
        examples: &[
            ("fwdlab throughput", "of 64-byte frames"),
            (
                "fwdlab throughput --sizes 64,1518 --link 1G",
                "in percent of an emulated link",
            ),
        ],
        codes: MEASURING,
    },
    More {
        command: "ramp",
        examples: &[("fwdlab ramp", "where loss begins, and what follows")],
        codes: MEASURING,
    },
    More {
        command: "rfc2544",
        examples: &[
            (
                "fwdlab rfc2544 --sizes 64,1518",
                "a first look, shortened and labelled as such",
            ),
            (
                "fwdlab rfc2544 --tests throughput,latency",
                "some of the tests",
            ),
            (
                "fwdlab rfc2544 --full --engine sim",
                "full durations of the RFC, simulated",
            ),
        ],
        codes: MEASURING,
    },
    More {
        command: "soak",
        examples: &[(
            "fwdlab soak --load 100kpps",
            "is this load sustained for a long time?",
        )],
        codes: MEASURING,
    },
    More {
        command: "run",
        examples: &[
            (
                "fwdlab run examples/campaigns/rules-paired.toml",
                "run the campaign",
            ),
            ("fwdlab run --resume @1", "continue the newest run"),
        ],
        codes: &[
            Code::Preflight,
            Code::TestBed,
            Code::NotValid,
            Code::LimitBroken,
            Code::SomeFailed,
            Code::Interrupted,
            Code::Terminated,
        ],
    },
    More {
        command: "top",
        examples: &[
            ("fwdlab top", "the newest run, live while it is running"),
            (
                "fwdlab top @2 --speed 10x",
                "the one before it again, ten times as fast",
            ),
            (
                "fwdlab top http://lab:8080",
                "the newest run of a remote dashboard",
            ),
        ],
        codes: &[Code::Preflight],
    },
    More {
        command: "plan",
        examples: &[(
            "fwdlab plan CAMPAIGN.toml",
            "which test cases, in which order, how long",
        )],
        codes: &[],
    },
    More {
        command: "check",
        examples: &[("fwdlab check *.toml", "check these files for errors")],
        codes: &[],
    },
    More {
        command: "send",
        examples: &[(
            "fwdlab send --port eth1 --load 100kpps --for 10s",
            "one line of output per second",
        )],
        codes: BY_HAND,
    },
    More {
        command: "receive",
        examples: &[(
            "fwdlab receive --port eth2",
            "our frames by number, others by kind",
        )],
        codes: BY_HAND,
    },
    More {
        command: "queues",
        examples: &[(
            "fwdlab queues eth1 --on ssh://root@router1",
            "is the load on one queue, or on all of them?",
        )],
        codes: BY_HAND,
    },
    More {
        command: "ping",
        examples: &[(
            "fwdlab ping --port eth1 --rx-port eth2",
            "how long a frame takes",
        )],
        codes: BY_HAND,
    },
    More {
        command: "capture",
        examples: &[(
            "fwdlab capture --port eth2 -o c.pcapng",
            "nanosecond timestamps",
        )],
        codes: BY_HAND,
    },
    More {
        command: "console",
        examples: &[
            (
                "fwdlab console --port eth1 --port eth2",
                "then: start -f imix -m 10kpps -d 30, stats, update -m 20kpps, stop, quit",
            ),
            (
                "echo 'start -m 1kpps -d 5' | fwdlab console --port eth1",
                "commands from a pipe",
            ),
        ],
        codes: BY_HAND,
    },
    More {
        command: "pkt-gen",
        examples: &[(
            "fwdlab pkt-gen -f tx -i eth1 -n 1M -R 100k",
            "like netmap's own",
        )],
        codes: &[Code::Preflight, Code::TestBed, Code::PktGen],
    },
    More {
        command: "selftest",
        examples: &[(
            "fwdlab selftest eth1 eth2",
            "what the tester can do, back to back",
        )],
        codes: BY_HAND,
    },
    More {
        command: "doctor",
        examples: &[
            (
                "sudo fwdlab doctor",
                "is this host fit for the full test bed?",
            ),
            (
                "fwdlab doctor rack1",
                "check that the hosts of beds/rack1.toml are reachable and that frames pass",
            ),
        ],
        codes: &[Code::Preflight],
    },
    More {
        command: "new",
        examples: &[
            ("fwdlab new bed rack1", "beds/rack1.toml, to be filled in"),
            ("fwdlab new campaign first", "campaigns/first.toml"),
        ],
        codes: &[],
    },
    More {
        command: "compare",
        examples: &[
            (
                "fwdlab compare @2 @1",
                "the last run against the one before it",
            ),
            (
                "fwdlab compare @2 @1 --fail-if 'forwarding-rate < -2%'",
                "fail on a proven loss of more than 2 %",
            ),
            ("fwdlab compare a.pps b.pps", "files of numbers"),
        ],
        codes: &[Code::NotValid, Code::LimitBroken],
    },
    More {
        command: "runs",
        examples: &[
            ("fwdlab runs ls", "list stored runs"),
            (
                "fwdlab runs show @1 --format markdown",
                "the latest run, for an email",
            ),
            (
                "fwdlab runs steer @1 pause",
                "no other trial begins; resume, skip and stop as well",
            ),
            (
                "fwdlab runs tag @1 baseline",
                "then: fwdlab compare baseline @1",
            ),
            (
                "fwdlab runs note @1 'new firmware'",
                "shown with its result",
            ),
            (
                "fwdlab runs prune --keep 100 --older-than 90d",
                "which runs would go; --yes removes them",
            ),
            (
                "fwdlab runs export @1 -o for-a-colleague.tar.gz",
                "there: fwdlab runs import for-a-colleague.tar.gz",
            ),
        ],
        codes: &[Code::Preflight],
    },
    More {
        command: "report",
        examples: &[
            (
                "fwdlab report @1 -o report.html",
                "the latest run as a page",
            ),
            (
                "fwdlab report @2 @1 -o both.html",
                "two runs beside each other",
            ),
            (
                "fwdlab report @1 --format markdown -o results/",
                "for a repository, with its charts",
            ),
            (
                "fwdlab report @1 --format gnuplot,ministat -o data/",
                "data and scripts to go on with",
            ),
            (
                "fwdlab report @1 --format junit -o junit.xml",
                "for CI: what fails is what the run says",
            ),
            (
                "fwdlab report @1 --format github >> $GITHUB_STEP_SUMMARY",
                "the summary of a step in CI",
            ),
        ],
        codes: &[Code::Preflight],
    },
    More {
        command: "bed",
        examples: &[
            (
                "sudo fwdlab bed up",
                "then use ip netns exec to look around",
            ),
            ("sudo fwdlab bed down", "remove it"),
        ],
        codes: &[Code::Preflight, Code::TestBed],
    },
    More {
        command: "image",
        examples: &[
            ("fwdlab image ls", "what the cache has"),
            (
                "fwdlab image pull debian:linux-image-cloud-amd64",
                "the newest kernel of this name",
            ),
            (
                "fwdlab image rm --unused 30",
                "remove what was not used for a month",
            ),
            (
                "fwdlab image boot router.qcow2",
                "a whole disk, with its console; the file does not change",
            ),
        ],
        codes: &[
            Code::Preflight,
            Code::TestBed,
            Code::Interrupted,
            Code::Terminated,
        ],
    },
    More {
        command: "import",
        examples: &[
            (
                "fwdlab import netbenches DIR --audit",
                "do the published figures follow from the logs?",
            ),
            (
                "fwdlab import loadtest a.json b.json --title routers",
                "ramps of TRex, beside each other",
            ),
        ],
        codes: &[Code::Preflight, Code::NotValid],
    },
    More {
        command: "serve",
        examples: &[
            (
                "fwdlab serve",
                "this machine's runs, at http://127.0.0.1:8080",
            ),
            (
                "fwdlab serve --token-file ~/.fwdlab-token rack1/runs",
                "other runs; browsers stay known when it starts again",
            ),
            (
                "fwdlab serve --listen 0.0.0.0:8443",
                "for other machines: with TLS, and with the token only",
            ),
            (
                "sudo fwdlab serve --trex --ports eth1,eth2",
                "two ports, for clients of TRex on this machine",
            ),
        ],
        codes: &[],
    },
    More {
        command: "ministat",
        examples: &[("fwdlab ministat a.pps b.pps", "as ministat(1), to the byte")],
        codes: &[],
    },
    More {
        command: "profile",
        examples: &[
            ("fwdlab profile ls", "list profiles"),
            ("fwdlab profile frames imix", "show the first frames"),
        ],
        codes: &[],
    },
    More {
        command: "rate",
        examples: &[
            ("fwdlab rate 14.88Mpps --link 10G", "in every unit"),
            ("fwdlab rate 10G --size imix", "a link full of a mix"),
        ],
        codes: &[],
    },
    More {
        command: "schema",
        examples: &[("fwdlab schema summary", "the fields of summary.json")],
        codes: &[],
    },
    More {
        command: "completions",
        examples: &[
            (
                "fwdlab completions bash > /etc/bash_completion.d/fwdlab",
                "for all users, from their next shell on",
            ),
            (
                "fwdlab completions fish > ~/.config/fish/completions/fwdlab.fish",
                "for you",
            ),
        ],
        codes: &[],
    },
    More {
        command: "man",
        examples: &[
            ("fwdlab man | man -l -", "the page of the program"),
            (
                "fwdlab man --dir /usr/local/share/man/man1",
                "a page for each command",
            ),
        ],
        codes: &[],
    },
];

impl Code {
    fn in_help(self) -> &'static str {
        match self {
            Code::Done => "success, everything valid",
            Code::Internal => "standard output could not be written, or an internal error: a bug",
            Code::Usage => "wrong usage or wrong file",
            Code::Preflight => "the preflight check failed, nothing was measured",
            Code::TestBed => "the test bed or the DUT failed",
            Code::NotValid => "measured, but not valid or too noisy; kept and explained",
            Code::LimitBroken => "a limit of --fail-if was exceeded",
            Code::SomeFailed => "some test cases failed, the others are good",
            Code::Interrupted => "interrupted, all changes undone",
            Code::Terminated => "terminated, all changes undone",
            Code::PktGen => "wrong usage, as in the original",
        }
    }
}

/// The command line of the program, with everything that its help says.
pub fn program() -> Command {
    let mut program = Arguments::command();
    for more in MORE {
        program = program.mut_subcommand(more.command, |command| {
            let own = command.get_after_help().map(|help| format!("{help}\n\n"));
            let long = command.get_after_long_help();
            let long = long.map(|help| format!("{help}\n\n{}", more.text()));
            let help = own.unwrap_or_default() + &more.text();
            match long {
                Some(long) => command.after_help(help).after_long_help(long),
                None => command.after_help(help),
            }
        });
    }
    let commands = commands(&program);
    program
        .help_template("{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}")
        .before_help(commands)
        .after_help("Exit codes, the same for all commands (each lists its own): docs/reference/commands.md\nDefaults of options for a directory or a user: fwdlab.toml, docs/reference/defaults.md")
}

impl More {
    fn text(&self) -> String {
        let mut text = String::from("Examples:\n");
        for (line, words) in self.examples {
            text += &format!("  {line}\n      {words}\n");
        }
        text += "\nExit codes:\n";
        let always = [Code::Done, Code::Internal, Code::Usage];
        for code in always.iter().chain(self.codes) {
            text += &format!("  {:<5} {}\n", *code as u8, code.in_help());
        }
        text.trim_end().to_owned()
    }
}

/// The commands in their groups, with their first sentences.
fn commands(program: &Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        text += &format!("{title}:\n");
        for name in names {
            let command = program.find_subcommand(name);
            let about = command.and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let words = fwdlab_report::table::wrap(&about, WIDTH, &" ".repeat(INDENT));
            let head = format!("  {name:<width$}", width = INDENT - 2);
            text += &head;
            text += words.get(INDENT..).unwrap_or("\n");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_its_group_its_examples_and_its_codes() {
        let program = Arguments::command();
        // those that people use
        let shown = program.get_subcommands().filter(|one| !one.is_hide_set());
        let mut commands: Vec<&str> = shown.map(Command::get_name).collect();
        commands.retain(|name| *name != "help");
        commands.sort_unstable();
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        grouped.sort_unstable();
        assert_eq!(grouped, commands);
        let mut described: Vec<&str> = MORE.iter().map(|more| more.command).collect();
        described.sort_unstable();
        assert_eq!(described, commands);
        assert!(MORE.iter().all(|more| !more.examples.is_empty()));
    }

    /// An example that does not parse would teach something wrong.
    #[test]
    fn examples_are_right() {
        for (line, _) in MORE.iter().flat_map(|more| more.examples) {
            let quoted = line
                .replace("\\\n", "")
                .replace("'nft add table ip t'", "true")
                .replace("'new firmware'", "new")
                .replace("'forwarding-rate < -2%'", "forwarding-rate<-2%");
            let words = quoted
                .split_whitespace()
                .skip_while(|word| *word != "fwdlab")
                .take_while(|word| !["|", ">"].contains(word));
            let words = words.map(std::ffi::OsString::from);
            let words = super::super::foreign::in_order(Arguments::command(), words);
            let read = program().try_get_matches_from(words);
            assert!(read.is_ok(), "{line}: {read:?}");
        }
    }

    /// Commands of a page: four blanks, then the program, perhaps behind a prompt and `sudo`; a backslash goes on in the next line, and
    /// three blanks end what is typed.
    fn commands(page: &str) -> Vec<String> {
        let page = page.replace("\\\n", "");
        let lines = page.lines().filter_map(|line| line.strip_prefix("    "));
        let typed = lines.filter_map(|line| {
            let line = line.strip_prefix("$ ").unwrap_or(line);
            let line = line.strip_prefix("sudo ").unwrap_or(line);
            (line.starts_with("fwdlab ") && !line.starts_with("fwdlab  ")).then_some(line)
        });
        typed
            .map(|line| {
                // a quoted word has blanks, and may go on in the lines below
                let words = line.split('\'').enumerate().map(|(at, part)| match at % 2 {
                    0 => part.to_owned(),
                    _ => part.split_whitespace().collect(),
                });
                let line = words.collect::<String>();
                line.split("   ").next().unwrap_or_default().to_owned()
            })
            .collect()
    }

    #[test]
    fn commands_of_the_manual_can_be_typed() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut pages = vec![root.join("README.md")];
        for folder in ["docs", "docs/guide", "docs/reference"] {
            let docs = std::fs::read_dir(root.join(folder)).unwrap();
            pages.extend(docs.map(|entry| entry.unwrap().path()));
        }
        let mut read = 0;
        for page in pages
            .iter()
            .filter(|page| page.extension().is_some_and(|is| is == "md"))
        {
            for line in commands(&std::fs::read_to_string(page).unwrap()) {
                // of a list of commands only the first is whole
                let alone = line.split(" | ").next().unwrap_or_default();
                let alone = alone.split(" [").next().unwrap_or_default();
                let words = alone
                    .split_whitespace()
                    .take_while(|word| *word != ">" && !word.starts_with(">/"));
                let words = words.map(std::ffi::OsString::from);
                let words = super::super::foreign::in_order(Arguments::command(), words);
                if let Err(error) = program().try_get_matches_from(words) {
                    use clap::error::ErrorKind::MissingRequiredArgument;
                    let is_list = alone != line && error.kind() == MissingRequiredArgument;
                    assert!(is_list, "{}: {line}: {error}", page.display());
                }
                read += 1;
            }
        }
        assert!(read > 100, "{read} commands");
    }
}
