//! Help beyond the options of a command: its group, its examples, its exit codes, and which global
//! options it uses.
//!
//! Each command declares its own options and their help. Start with [`program`]; a test fails if a
//! command is missing in [`MORE`].

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, Error, Id};

use super::Arguments;
use crate::exit_code::Code;

/// Columns of a command's name in the list of commands.
const NAME: usize = 11;

/// Additional help of a command.
struct More {
    /// The name; both names for a subcommand. The second name alone is the older name, which still
    /// works and is hidden.
    command: &'static str,
    /// Heading in the list of commands.
    group: &'static str,
    /// Example command lines, each with its description on the next line, as printed.
    examples: &'static str,
    /// Exit codes besides 0, 1 and 2.
    codes: &'static [Code],
    /// Global options that affect this command; the others are accepted and hidden.
    options: &'static [&'static str],
}

impl More {
    /// What the commands of a group have in common.
    const fn of(
        group: &'static str,
        codes: &'static [Code],
        options: &'static [&'static str],
    ) -> More {
        More {
            command: "",
            group,
            examples: "",
            codes,
            options,
        }
    }
}

/// Options of commands that store a run.
const RUNNING: &[&str] = &["json", "json_stream", "quiet", "verbose", "runs"];

/// Options of commands that show ports while they use them.
const LIVE: &[&str] = &["json", "json_stream", "quiet"];

/// Exit codes of commands that measure test cases.
const MEASURING: &[Code] = &[
    Code::Preflight,
    Code::TestBed,
    Code::NotValid,
    Code::SomeFailed,
    Code::Interrupted,
    Code::Terminated,
];

/// Of measurements with thresholds.
const JUDGED: &[Code] = &[
    Code::Preflight,
    Code::TestBed,
    Code::NotValid,
    Code::LimitBroken,
    Code::SomeFailed,
    Code::Interrupted,
    Code::Terminated,
];

/// Exit codes of commands that use ports, and of bisect: nothing is valid in part.
const BY_HAND: &[Code] = &[
    Code::Preflight,
    Code::TestBed,
    Code::NotValid,
    Code::Interrupted,
    Code::Terminated,
];

const MEASURE: More = More::of("Measure", MEASURING, RUNNING);
const CAMPAIGNS: More = More::of(
    "Campaigns: many test cases from a file",
    &[],
    &["json", "runs"],
);
const COMPARE: More = More::of("Compare and judge", &[], &["json"]);
const RESULTS: More = More::of("Results", &[Code::Preflight], &["json", "runs"]);
const LAB: More = More::of("Lab, traffic and files", &[Code::Preflight], &["json"]);
const TRAFFIC: More = More::of("", BY_HAND, LIVE);
const FILES: More = More::of("", &[], &["json"]);

const MORE: &[More] = &[
    More {
        command: "quick",
        examples: "
  fwdlab quick
      this machine's kernel, in about a minute
  fwdlab quick --ipv6 --size 84,512 -n 10
      other traffic, more iterations
  fwdlab quick --vs 'nft add table ip t'
      what does this cost?
  fwdlab quick --vs generate:nft-rules,n=10+100
      what do 10 rules cost, and 100?",
        ..MEASURE
    },
    More {
        command: "ndr",
        examples: "
  fwdlab ndr
      NDR and PDR of 64-byte frames
  fwdlab ndr --goals ndr --explain
      and explain each trial
  fwdlab ndr --engine sim --dut capacity=1e6
      on a simulated DUT",
        ..MEASURE
    },
    More {
        command: "throughput",
        examples: "
  fwdlab throughput
      of 64-byte frames
  fwdlab throughput --sizes 64,1518 --link 1G
      in percent of an emulated link",
        ..MEASURE
    },
    More {
        command: "rfc2544",
        examples: "
  fwdlab rfc2544 --sizes 64,1518
      a first look, shortened and labelled as such
  fwdlab rfc2544 --tests throughput,latency
      some of the tests
  fwdlab rfc2544 --full --engine sim
      full durations of the RFC, simulated",
        ..MEASURE
    },
    More {
        command: "ramp",
        examples: "
  fwdlab ramp
      where loss begins, and what happens at higher loads",
        ..MEASURE
    },
    More {
        command: "soak",
        examples: "
  fwdlab soak --load 100kpps
      is this load sustained for a long time?",
        ..MEASURE
    },
    More {
        command: "trial",
        examples: "
  fwdlab trial --load 100kpps
      one load for some time
  fwdlab trial --load 100kpps --latency
      with the latency of frames",
        ..MEASURE
    },
    More {
        command: "bisect",
        examples: "
  fwdlab bisect --good debian:linux-image-6.1.0-47-cloud-amd64 \\
      --bad debian:linux-image-6.12.117+deb12-cloud-amd64
      which of Debian's kernels between these changed it?
  fwdlab bisect --good a/bzImage --bad z/bzImage --images kernels.txt --set rules.nft
      kernels of your own, with a firewall
  fwdlab bisect --git linux --build ./make-kernel --good v6.11 --bad v6.12
      commits, each built by a command
  fwdlab bisect --git linux --build ./make-kernel --good v6.11 --bad v6.12 --campaign firewall.toml
      with the configuration and the frames of a campaign
  fwdlab bisect --resume bisect.jsonl
      continue after Ctrl-C",
        codes: BY_HAND,
        ..MEASURE
    },
    More {
        command: "gate",
        examples: "
  fwdlab gate --base linux-main --head linux-pr --with rules.nft
      two kernels that were built here, as plain routers and as firewalls
  fwdlab gate --vm debian:linux-image-cloud-amd64 --base old.o:xdp --head new.o:xdp
      two versions of an XDP program
  fwdlab gate --base-run ci/baseline.json --head linux-pr --by 0.2%
      a baseline in the repository",
        codes: JUDGED,
        ..MEASURE
    },
    More {
        command: "run",
        examples: "
  fwdlab run examples/campaigns/rules-paired.toml
      run the campaign
  fwdlab run --resume @1
      continue the newest run",
        codes: JUDGED,
        options: RUNNING,
        ..CAMPAIGNS
    },
    More {
        command: "plan",
        examples: "
  fwdlab plan CAMPAIGN.toml
      which test cases, in which order, how long",
        ..CAMPAIGNS
    },
    More {
        command: "check",
        examples: "
  fwdlab check *.toml
      check these files for errors",
        options: &["json"],
        ..CAMPAIGNS
    },
    More {
        command: "top",
        examples: "
  fwdlab top
      the newest run, live while it is running
  fwdlab top @2 --speed 10x
      the one before it again, ten times as fast
  fwdlab top http://lab:8080
      the newest run of a remote dashboard",
        codes: &[Code::Preflight],
        options: &["runs"],
        ..CAMPAIGNS
    },
    More {
        command: "compare",
        examples: "
  fwdlab compare @2 @1
      the last run against the one before it
  fwdlab compare @2 @1 --fail-if 'forwarding-rate < -2%'
      fail on a proven loss of more than 2 %
  fwdlab compare a.pps b.pps
      files of numbers",
        codes: &[Code::NotValid, Code::LimitBroken],
        options: &["json", "verbose", "runs"],
        ..COMPARE
    },
    More {
        command: "ministat",
        examples: "
  fwdlab ministat a.pps b.pps
      as ministat(1), to the byte",
        ..COMPARE
    },
    More {
        command: "runs",
        examples: "
  fwdlab runs ls
      list stored runs
  fwdlab runs show @1 --format markdown
      the latest run, for an email
  fwdlab runs steer @1 pause
      start no new trial; also resume, skip, stop
  fwdlab runs tag @1 baseline
      then: fwdlab compare baseline @1
  fwdlab runs note @1 'new firmware'
      shown with its result
  fwdlab runs prune --keep 100 --older-than 90d
      list the runs that would be removed; --yes removes them
  fwdlab runs export @1 -o for-a-colleague.tar.gz
      the colleague runs: fwdlab runs import for-a-colleague.tar.gz",
        ..RESULTS
    },
    More {
        command: "report",
        examples: "
  fwdlab report @1 -o report.html
      the latest run as a page
  fwdlab report @2 @1 -o both.html
      two runs side by side
  fwdlab report @1 --format markdown -o results/
      for a repository, with its charts
  fwdlab report @1 --format gnuplot,ministat -o data/
      data and scripts to continue with
  fwdlab report @1 --format junit -o junit.xml
      for CI: a test per test case and threshold
  fwdlab report @1 --format github >> $GITHUB_STEP_SUMMARY
      the summary of a step in CI",
        ..RESULTS
    },
    More {
        command: "serve",
        examples: "
  fwdlab serve
      this machine's runs, at http://127.0.0.1:8080
  fwdlab serve --token-file ~/.fwdlab-token rack1/runs
      runs of another directory; the token survives a restart
  fwdlab serve --listen 0.0.0.0:8443
      reachable from other machines: TLS, token required
  sudo fwdlab serve --trex --ports eth1,eth2
      two ports, for clients of TRex on this machine",
        codes: &[],
        ..RESULTS
    },
    More {
        command: "import",
        examples: "
  fwdlab import netbenches DIR --audit
      do the published figures follow from the logs?
  fwdlab import loadtest a.json b.json --title routers
      ramps of TRex, side by side",
        codes: &[Code::Preflight, Code::NotValid],
        options: &["json", "quiet", "verbose", "runs"],
        ..RESULTS
    },
    More {
        command: "doctor",
        examples: "
  sudo fwdlab doctor
      is this host fit for the full test bed?
  fwdlab doctor rack1
      check that the hosts of beds/rack1.toml are reachable and that frames pass",
        options: &["json", "quiet", "runs"],
        ..LAB
    },
    More {
        command: "bed",
        examples: "
  sudo fwdlab bed up
      then use ip netns exec to look around
  sudo fwdlab bed down
      remove it",
        codes: &[Code::Preflight, Code::TestBed],
        ..LAB
    },
    More {
        command: "image",
        examples: "
  fwdlab image ls
      contents of the cache
  fwdlab image pull debian:linux-image-cloud-amd64
      the newest kernel of this name
  fwdlab image rm --unused 30
      remove images that were not used for a month
  fwdlab image boot router.qcow2
      boot a disk, with its console here; the file does not change",
        codes: &[
            Code::Preflight,
            Code::TestBed,
            Code::Interrupted,
            Code::Terminated,
        ],
        options: &["json", "quiet"],
        ..LAB
    },
    More {
        command: "traffic",
        examples: "
  fwdlab traffic receive --port eth2
      in one terminal: count frames
  fwdlab traffic send --port eth1 --load 100kpps --for 10s
      in another terminal: send frames",
        codes: BY_HAND,
        options: &[],
        ..LAB
    },
    More {
        command: "new",
        examples: "
  fwdlab new bed rack1
      writes beds/rack1.toml; fill it in
  fwdlab new campaign first
      writes campaigns/first.toml",
        codes: &[],
        ..LAB
    },
    More {
        command: "traffic send",
        examples: "
  fwdlab traffic send --port eth1 --load 100kpps --for 10s
      one line of output per second",
        ..TRAFFIC
    },
    More {
        command: "traffic receive",
        examples: "
  fwdlab traffic receive --port eth2
      our frames by number, others by kind",
        ..TRAFFIC
    },
    More {
        command: "traffic ping",
        examples: "
  fwdlab traffic ping --port eth1 --rx-port eth2
      latency of a frame",
        ..TRAFFIC
    },
    More {
        command: "traffic capture",
        examples: "
  fwdlab traffic capture --port eth2 -o c.pcapng
      nanosecond timestamps",
        ..TRAFFIC
    },
    More {
        command: "traffic console",
        examples: "
  fwdlab traffic console --port eth1 --port eth2
      then: start -f imix -m 10kpps -d 30, stats, update -m 20kpps, stop, quit
  echo 'start -m 1kpps -d 5' | fwdlab traffic console --port eth1
      commands from a pipe",
        options: &["quiet"],
        ..TRAFFIC
    },
    More {
        command: "traffic queues",
        examples: "
  fwdlab traffic queues eth1 --on ssh://root@router1
      is the load on one queue, or on all of them?",
        options: &["json", "json_stream"],
        ..TRAFFIC
    },
    More {
        command: "traffic flow",
        examples: "
  fwdlab traffic flow --queues 8 --flows 20
      how even do 20 flows spread over eight queues?",
        options: &["json", "verbose"],
        ..TRAFFIC
    },
    More {
        command: "traffic selftest",
        examples: "
  fwdlab traffic selftest eth1 eth2
      what the tester can do, back to back",
        ..TRAFFIC
    },
    More {
        command: "traffic pkt-gen",
        examples: "
  fwdlab traffic pkt-gen -f tx -i eth1 -n 1M -R 100k
      like netmap's own",
        codes: &[Code::Preflight, Code::TestBed, Code::PktGen],
        options: &[],
        ..TRAFFIC
    },
    More {
        command: "traffic profile",
        examples: "
  fwdlab traffic profile ls
      list profiles
  fwdlab traffic profile frames imix
      show the first frames",
        codes: &[],
        options: &["json"],
        ..TRAFFIC
    },
    More {
        command: "traffic rate",
        examples: "
  fwdlab traffic rate 14.88Mpps --link 10G
      in every unit
  fwdlab traffic rate 10G --size imix
      a link full of a mix",
        codes: &[],
        options: &["json"],
        ..TRAFFIC
    },
    More {
        command: "new schema",
        examples: "
  fwdlab new schema summary
      the fields of summary.json",
        options: &[],
        ..FILES
    },
    More {
        command: "new completions",
        examples: "
  fwdlab new completions bash > /etc/bash_completion.d/fwdlab
      for all users, from their next shell on
  fwdlab new completions fish > ~/.config/fish/completions/fwdlab.fish
      for you",
        ..FILES
    },
    More {
        command: "new man",
        examples: "
  fwdlab new man | man -l -
      the page of the program
  fwdlab new man --dir /usr/local/share/man/man1
      a page for each command",
        ..FILES
    },
];

/// Returns the command line of the program, with its complete help.
pub fn program() -> Command {
    with_options(declared())
}

/// Returns the program before the global options are shown in the help of each command; the
/// defaults from files are set in between.
pub fn declared() -> Command {
    let mut program = Arguments::command();
    for more in MORE {
        program = more.to_each(program, |command| {
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
    for (_, older) in moved() {
        program = program.mut_subcommand(older, |command| command.hide(true));
    }
    let commands = commands(&program);
    program.before_help(commands).help_template(
        "Measures how fast a router or firewall forwards, and explains the result.\n\
         Start with `fwdlab quick`: it needs no file, no hardware and no root.\n\n\
         {usage-heading} {usage}\n\n\
         {before-help}\
         Most commands take --json, -q, -v and --runs DIR: fwdlab COMMAND --help\n\
         Exit codes: docs/reference/commands.md. Defaults of options: fwdlab.toml",
    )
}

/// Shows global options in the help of the commands that use them. clap passes an option on to
/// subcommands, but not to one with an option of the same name.
pub fn with_options(mut program: Command) -> Command {
    let of_all = program.get_arguments().filter(|arg| arg.is_global_set());
    let of_all: Vec<Arg> = of_all.cloned().collect();
    for more in MORE {
        program = more.to_each(program, |command| {
            let own: Vec<&Id> = command.get_arguments().map(Arg::get_id).collect();
            let others = of_all.iter().filter(|arg| !own.contains(&arg.get_id()));
            let others = others.map(|arg| {
                let is_used = more.options.contains(&arg.get_id().as_str());
                arg.clone().hide(!is_used)
            });
            let others: Vec<Arg> = others.collect();
            command.args(others)
        });
    }
    program
}

/// Returns the help to show if a subcommand is missing. clap does so itself, but takes FWDLAB_RUNS
/// for a typed option, and then lists all names, hidden ones included.
pub fn instead_of(error: &Error) -> Option<String> {
    let (ErrorKind::MissingSubcommand, Some(ContextValue::String(above))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    else {
        return None;
    };
    let mut program = program();
    program.build();
    let mut names = above.split(' ').skip(1);
    let command = names.try_fold(&mut program, |command, name| {
        command.find_subcommand_mut(name)
    });
    Some(command?.render_help().to_string())
}

/// Returns the commands with an older name: the parent, and the older name.
pub fn moved() -> impl Iterator<Item = (&'static str, &'static str)> {
    MORE.iter().filter_map(|more| more.command.split_once(' '))
}

impl More {
    /// Changes the command under each of its names.
    fn to_each(&self, program: Command, change: impl Fn(Command) -> Command) -> Command {
        match self.command.split_once(' ') {
            None => program.mut_subcommand(self.command, change),
            Some((above, name)) => program
                .mut_subcommand(name, &change)
                .mut_subcommand(above, |above| above.mut_subcommand(name, change)),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("Examples:{}\n\nExit codes:\n", self.examples);
        let always = [Code::Done, Code::Internal, Code::Usage];
        for code in always.iter().chain(self.codes) {
            text += &format!("  {:<5} {}\n", *code as u8, code.meaning());
        }
        text.trim_end().to_owned()
    }
}

/// Returns the commands by group, each with the first sentence of its help.
fn commands(program: &Command) -> String {
    let mut text = String::new();
    let listed: Vec<&More> = MORE.iter().filter(|more| !more.group.is_empty()).collect();
    for of_group in listed.chunk_by(|one, next| one.group == next.group) {
        text += &format!("{}:\n", of_group[0].group);
        for more in of_group {
            let command = program.find_subcommand(more.command);
            let about = command.and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text += &format!("  {:<NAME$} {about}\n", more.command);
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
        let program = program();
        let shown = |command: &Command| -> Vec<String> {
            let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
            shown.map(|one| one.get_name().to_owned()).collect()
        };
        let mut commands = shown(&program);
        for above in ["traffic", "new"] {
            let below = shown(program.find_subcommand(above).unwrap());
            commands.extend(below.iter().map(|name| format!("{above} {name}")));
        }
        // `new` has no older name for the files that it always made
        commands
            .retain(|name| !["new bed", "new campaign", "new profile"].contains(&name.as_str()));
        commands.sort_unstable();
        let mut described: Vec<&str> = MORE.iter().map(|more| more.command).collect();
        described.sort_unstable();
        assert_eq!(described, commands);
        for more in MORE {
            assert!(!more.examples.is_empty(), "{}", more.command);
            assert_eq!(
                more.group.is_empty(),
                more.command.contains(' '),
                "{}",
                more.command
            );
        }
    }

    /// Checks that all examples parse.
    #[test]
    fn examples_are_right() {
        let all: String = MORE.iter().map(|more| more.examples).collect();
        let all = all.replace("\\\n", "");
        for line in all.lines().filter(|line| !line.starts_with("      ")) {
            let quoted = line
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
            assert!(line.is_empty() || read.is_ok(), "{line}: {read:?}");
        }
    }

    /// Returns the commands of a page. A command starts after four blanks, perhaps with a prompt
    /// and `sudo`; a backslash continues it on the next line, and three blanks end it.
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
                // a quoted word may contain blanks and span several lines
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
                // in a list of commands, only the first one is complete
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
